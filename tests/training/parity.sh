# `unfurl parity`: what it knows, what it does not, what it finds wrong.
. "$SOURCE/tests/cli/lib.sh"

cp "$SOURCE/tests/data/ops_open.h5" cases.h5 && chmod u+w cases.h5 || exit 1

check "$UNFURL" parity --help
holds check.out "CASES.h5"
for dtype in f64 f32; do
    check "$UNFURL" parity cases.h5 --dtype $dtype
    cp check.out $dtype.out
    for kind in conv_transpose2d conv2d batch_norm2d_train batch_norm2d_eval activation/relu activation/tanh \
        activation/sigmoid activation/leaky_relu linear loss/bce loss/bce_with_logits loss/mse loss/l1 \
        instance_norm2d group_norm optimizer/adam optimizer/adamw optimizer/sgd; do
        grep -q "^$kind.*e[-+][0-9]" $dtype.out || complain "no error of $kind is printed"
        checks=$((checks + 1))
    done
    check "$UNFURL" parity "$SOURCE/tests/data/ops2_open.h5" --dtype $dtype
    for kind in binary_add binary_sub binary_mul binary_div reduce_mean reduce_sum global_avg_pool2d permute slice \
        concat pixel_shuffle pixel_unshuffle unary/log unary/hardswish prelu softmax upsample_nearest upsample_bilinear \
        max_pool2d avg_pool2d embedding matmul linear_any_rank layer_norm batch_norm1d_train; do
        grep -q "^$kind .*e[-+][0-9]" check.out || complain "no error of $kind is printed"
        checks=$((checks + 1))
    done
done
cmp -s f64.out f32.out && complain "f64 and f32 print the same"

# Kinds it does not know are counted and named, and no reason to fail.
check "$FIXTURE" add cases.h5 frobnication/000
check "$FIXTURE" add cases.h5 frobnication/001
check "$UNFURL" parity cases.h5 --dtype f64
grep -Eq '^frobnication +2 +not known$' check.out || complain "frobnication is not counted: $(cat check.out)"
before=$(sed -n 's/.*, \([0-9]*\) of kinds that are not known.*/\1/p' f64.out)
after=$(sed -n 's/.*, \([0-9]*\) of kinds that are not known.*/\1/p' check.out)
equal "$after" "$((before + 2))" "cases of unknown kinds"

check "$UNFURL" parity cases.h5 --dtype f64 --json
holds check.out '"kind": "frobnication"'
holds check.out '"passed": true'
cp check.out json.out
if [ -n "$PYTHON" ]; then
    check "$PYTHON" -c 'import json, sys
kinds = json.load(open(sys.argv[1]))
assert kinds["passed"] is True
by_name = {k["kind"]: k for k in kinds["kinds"]}
assert by_name["conv_transpose2d"]["passed"] and by_name["conv_transpose2d"]["cases"] > 10
assert by_name["conv_transpose2d"]["error"] < 1e-11
assert by_name["frobnication"] == {"kind": "frobnication", "cases": 2, "known": False}' json.out
fi

# One wrong number anywhere: a value, a gradient, a buffer, a step of an optimizer.
for dataset in conv_transpose2d/003/output conv_transpose2d/000/grad_input conv2d/001/grad_weight \
    group_norm/001/grad_input instance_norm2d/000/grad_weight \
    batch_norm2d_train/000/running_var_after batch_norm2d_train/000/grad_weight activation/tanh/grad_input \
    loss/bce/loss loss/l1/grad_input optimizer/adam/params_after; do
    cp "$SOURCE/tests/data/ops_open.h5" wrong.h5 && chmod u+w wrong.h5
    check "$FIXTURE" perturb wrong.h5 $dataset
    for dtype in f64 f32; do
        "$UNFURL" parity wrong.h5 --dtype $dtype >wrong.out 2>wrong.err
        equal "$?" 1 "status with a wrong $dataset in $dtype"
        grep -q "${dataset%/*}.*BEYOND THE TOLERANCE" wrong.out || complain "${dataset%/*} is not named"
        equal "$(grep -c BEYOND wrong.out)" 1 "kinds beyond the tolerance"
    done
done
"$UNFURL" parity wrong.h5 --dtype f64 --json >wrong.out
equal "$?" 1 "status of --json"
holds wrong.out '"passed": false'

# The sentence on stderr says how many kinds there are: those with an error behind the number of their cases.
known=$(grep -Ec '^[a-z0-9_/]+ +[0-9]+ +[0-9.]+e' f64.out)
[ "$known" -ge 20 ] || complain "only $known kinds are known"
equal "$("$UNFURL" parity wrong.h5 --dtype f64 2>&1 >/dev/null)" \
    "unfurl: wrong.h5: 1 of $known kinds of cases beyond the tolerance 1e-11" "the sentence"

# A value that is not finite is met by the same one alone, and does not hide what else is wrong.
relu() { # STATUS X Y Z: the inputs X and 2 are expected to give Y and Z
    rm -f relu.h5
    check "$FIXTURE" relu relu.h5 "$2" "$3" "$4"
    for dtype in f64 f32; do
        "$UNFURL" parity relu.h5 --dtype $dtype >relu.out 2>relu.err
        equal "$?" "$1" "status with $3, $4 in the place of relu($2, 2) in $dtype"
        equal "$(grep -c '^activation/relu .*BEYOND' relu.out)" "$1" "relu($2, 2) against $3, $4"
    done
}
relu 0 1 1 2
relu 0 inf inf 2
relu 1 1 inf 2
relu 1 1 -inf 2
relu 1 1 nan 2
relu 1 inf 1 2
relu 1 inf -inf 2
relu 1 inf nan 2
relu 1 inf inf 2.1
relu 0 nan nan 2
relu 1 nan nan 2.1
relu 1 nan 1 2
relu 1 nan inf 2
holds relu.err "unfurl: relu.h5: 1 of 1 kinds of cases beyond the tolerance 2e-05"
"$UNFURL" parity relu.h5 --json >relu.out 2>relu.err
equal "$?" 1 "status of --json with an infinite error"
holds relu.out '"error": null'

# Any number of kinds: seventy that come first in the file do not hide what follows.
cp "$SOURCE/tests/data/ops_open.h5" many.h5 && chmod u+w many.h5
kind=10
while [ $kind -lt 80 ]; do
    check "$FIXTURE" add many.h5 a$kind/000
    kind=$((kind + 1))
done
check "$UNFURL" parity many.h5
equal "$(grep -c 'not known$' check.out)" $((70 + $(grep -c 'not known$' f32.out))) "unknown kinds"
equal "$(grep -c 'e[-+][0-9]* ' check.out)" "$(grep -c 'e[-+][0-9]* ' f32.out)" "known kinds"
check "$FIXTURE" perturb many.h5 optimizer/sgd/params_after
"$UNFURL" parity many.h5 >many.out 2>many.err
equal "$?" 1 "status with a wrong case of the last kind of many"
grep -q "^optimizer/sgd .*BEYOND" many.out || complain "optimizer/sgd is not named"

# A file without cases is a failure, and says nothing of "ok".
refuse 1 "holds no cases: none of its datasets lies in a group KIND/NAME" \
    parity "$SOURCE/weights/upconv7_scale2x.h5"
check "$FIXTURE" add strange.h5 frobnication/000
check "$FIXTURE" add strange.h5 frobnication/001
for json in "" --json; do
    # shellcheck disable=SC2086 # no word where there is no option
    refuse 1 "strange.h5 holds no case of a known kind; it has 2 of others, such as frobnication" \
        parity strange.h5 $json
done
# An attribute that is no integer is no number of groups.
for value in nan 1.5 1e300; do
    cp "$SOURCE/tests/data/ops_open.h5" stride.h5 && chmod u+w stride.h5
    check "$FIXTURE" attribute stride.h5 conv2d/001 groups $value
    refuse 1 "attribute groups of conv2d/001 is" parity stride.h5
done

# Names in a file do not reach the terminal as they are.
csi=$(printf '\302\233')
forged=$(printf 'a\nunfurl: all is well\033[2J%s31m\377/000' "$csi")
cp "$SOURCE/tests/data/ops_open.h5" forged.h5 && chmod u+w forged.h5
check "$FIXTURE" add forged.h5 "$forged"
check "$UNFURL" parity forged.h5
holds check.out 'a\x0aunfurl: all is well\x1b[2J\xc2\x9b31m\xff '
shown check.out
columns='match($0, / +[0-9]+  /) && !/ kinds / { print RSTART + RLENGTH }'
equal "$(awk "$columns" check.out | sort -u | wc -l)" 1 "places where the numbers of cases end"

refuse 2 "CASES.h5 is missing" parity
refuse 1 "nothing.h5" parity nothing.h5
echo "no HDF5 at all" >text.h5
refuse 1 "text.h5" parity text.h5
finish
