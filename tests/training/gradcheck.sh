# `unfurl gradcheck`: the table, its JSON, one layer alone.
. "$SOURCE/tests/cli/lib.sh"

check "$UNFURL" gradcheck --help
holds check.out "central differences"
check "$UNFURL" gradcheck
cp check.out table.out
grep -q FAILED table.out && complain "a gradient is wrong: $(grep FAILED table.out)"
# Every row of the table of layers, from its source.
layers=$(sed -n 's/^UF_LAYER(\(.*\))$/\1/p' "$SOURCE/src/layers/layers.def")
[ -n "$layers" ] || complain "no layers in layers.def"
for layer in $layers; do
    checks=$((checks + 1))
    grep -q "^$layer .* ok\$" table.out || complain "$layer is not in the table"
    check "$UNFURL" gradcheck --layer "$layer"
    equal "$(grep -c ' ok$' check.out)" "$(grep -c "^$layer .* ok\$" table.out)" "cases of $layer"
done
for loss in bce_with_logits bce mse l1; do
    checks=$((checks + 1))
    grep -q "^loss  *$loss .* ok\$" table.out || complain "loss $loss is not in the table"
done
check "$UNFURL" gradcheck --fast --seed 7
check "$UNFURL" gradcheck --json
holds check.out '"layer": "conv_transpose2d"'
cp check.out json.out
if [ -n "$PYTHON" ]; then
    check "$PYTHON" -c 'import json, sys
rows = json.load(open(sys.argv[1]))
assert len(rows) == int(sys.argv[2]), len(rows)
assert all(r["passed"] and r["failed"] == 0 and r["checked"] > 0 and 0 <= r["worst_ratio"] <= 1 for r in rows)
kinked = ("relu", "leaky_relu", "l1")
assert all(r["skipped"] == 0 for r in rows if not r["case"].startswith(kinked))' \
        json.out "$(grep -c ' ok$' table.out)"
fi
refuse 2 "unknown option --laye; did you mean --layer?" gradcheck --laye conv2d
# A wrong name prints no table, and lists the right ones.
for json in "" --json; do
    # shellcheck disable=SC2086 # no word where there is no option
    refuse 2 "there is no layer 'frobnication' to check; it may be one of " \
        gradcheck --layer frobnication $json
    for layer in $layers loss network; do
        checks=$((checks + 1))
        grep -Eq "[ ,]$layer(,|\$)" refuse.err || complain "$layer is not listed"
    done
done
equal "$(tr , '\n' <refuse.err | sort | uniq -d)" "" "names that are listed twice"
refuse 2 "there is no layer 'conv2d\x0aunfurl: ok' to check" gradcheck --layer "conv2d
unfurl: ok"
finish
