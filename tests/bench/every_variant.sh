# every_variant.sh BENCH_OPS TEST_BENCH_MATRIX - bench_ops --every-variant without a GPU: every cell of the lists has its
# variants, one of them chosen, that of the least estimate; each variant and each main loop appears; the matrix is read.
set -euo pipefail
bench_ops=$1 reader=$2
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
command -v python3 >/dev/null || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

lists=()
for list in shapes shapes-other shapes-sweep; do
    lists+=(--shapes "$root/bench/$list.json")
done
"$bench_ops" --every-variant --capability 90 --commit "of a test" --matrix 90.jsonl "${lists[@]}" >90.txt
"$bench_ops" --every-variant --capability 80 --math fp32 --matrix 80.jsonl "${lists[@]}" >80.txt
"$bench_ops" --every-variant --capability 90 --math bf16 --dtype f32 --only unet1_b4 --matrix f32.jsonl >f32.txt

python3 - "$root" <<'PYTHON'
import collections, json, re, sys

def rows_of(path):
    head, *rows = [json.loads(line) for line in open(path)]
    return head, rows

def cells_of(rows):
    cells = collections.defaultdict(list)
    for row in rows:
        cells[row["list"], row["name"], row["op"], row["dtype"], row["math"]].append(row)
    return cells

layers = sum(len(json.load(open(f"{sys.argv[1]}/bench/{name}.json"))) for name in ("shapes", "shapes-other", "shapes-sweep"))
head, rows = rows_of("90.jsonl")
assert head["matrix"] == 1 and head["capability"] == 90 and head["commit"] == "of a test", head
cells = cells_of(rows)
assert len(cells) == layers * 3 * 3, (len(cells), layers)
for cell, variants in cells.items():
    names = [row["variant"] for row in variants if row["own_tile"]]
    assert len(set(names)) == len(names) and "naive" in names, (cell, names)
    pairs = [(row["variant"], row["tile"]) for row in variants]
    assert len(set(pairs)) == len(pairs) and {name for name, tile in pairs} == set(names), (cell, pairs)
    chosen = [row for row in variants if row["chosen"]]
    assert len(chosen) == 1, (cell, chosen)
    assert chosen[0]["own_tile"], cell
    assert chosen[0]["estimate_us"] == min(row["estimate_us"] for row in variants if row["own_tile"]), cell
    assert all(row["ms"] is None and row["untimed"] == "without a GPU" for row in variants), cell
    assert cell[3] == ("bf16" if cell[4] == "bf16" else "f32"), cell
# Main loops are those of the registry, and most of them are taken somewhere.
registry = re.findall(r'UF_CONV_(VARIANT|LOOP)\(\w+, "(\w+)"', open(f"{sys.argv[1]}/src/kernels/cuda/conv/registry.def").read())
expected, variant = set(), None
for kind, name in registry:
    variant = name if kind == "VARIANT" else variant
    if kind == "LOOP":
        expected.add((variant, name))
found = {(row["variant"], row["main_loop"].split("/")[0]) for row in rows}
assert found <= expected and len(found) > 20, (found - expected, expected - found)
assert any(row["main_loop"].count("/") == 2 for row in rows if row["variant"] == "space_to_depth")
tiles = collections.Counter(row["variant"] for row in rows if not row["own_tile"])
assert len(tiles) >= 8 and len(rows) > 3 * sum(row["own_tile"] for row in rows), tiles
spoken = {row["variant"] for row in rows if row["plan"]}
assert len(spoken) > 8, spoken
assert any("splits" in row["plan"] for row in rows) and any("stream-K" in row["plan"] for row in rows)
assert any("swap A/B" in row["plan"] for row in rows)

head, rows = rows_of("80.jsonl")
assert head["capability"] == 80
assert not any("wgmma" in row["variant"] for row in rows)
assert len(cells_of(rows)) == layers * 3
head, rows = rows_of("f32.jsonl")
assert {row["dtype"] for row in rows} == {"f32"} and {row["math"] for row in rows} == {"bf16"}
PYTHON

# The library's own reader counts the same.
said=$("$reader" 90.jsonl)
lines=$(($(wc -l <90.jsonl) - 1))
chosen=$(grep -c '"chosen": true' 90.jsonl)
[[ $said == "$lines rows, $chosen chosen, 0 timed" ]] || {
    echo "the reader says \"$said\" of $lines rows with $chosen chosen"
    exit 1
}
grep -q "^$lines rows of $chosen cells" 90.txt
if "$bench_ops" --every-variant --capability 90 --matrix "$work/no/such/folder" >/dev/null 2>&1; then
    echo "a matrix that cannot be written was no error"
    exit 1
fi
