#!/bin/bash
# training_page.sh - each piece of code in the columns that docs/training.md compares stands in the file that is said to
# have it, and the Python program runs. Exit status 77: the columns are right, and PyTorch or h5py is not installed.
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

page=$root/docs/training.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Lines of a table behind "<!-- test: columns LEFT RIGHT -->": the file's number, a tab, a piece of code.
awk -F ' [|] ' '
/<!-- test: columns / { columns = 1; next }
columns && /^\|/ {
    for (side = 1; side <= 2; ++side) {
        count = split($(side + 1), parts, "`")
        for (i = 2; i <= count; i += 2) print side "\t" parts[i]
    }
    next
}
/^ *$/ { columns = 0 }' "$page" >"$work/pieces"
read -r left right < <(sed -n 's/^<!-- test: columns \(.*\) -->$/\1/p' "$page")
squeezed() {
    tr -s ' \n' '  ' <"$root/$1"
}
squeezed "$left" >"$work/1"
squeezed "$right" >"$work/2"

pieces=0 missing=0
while IFS=$'\t' read -r side piece; do
    pieces=$((pieces + 1))
    grep -qF -- "$piece" "$work/$side" || {
        echo "training_page: $([[ $side == 1 ]] && echo "$left" || echo "$right") has no '$piece'" >&2
        missing=$((missing + 1))
    }
done <"$work/pieces"
echo "$pieces pieces of code, $missing missing"
((pieces >= 40 && missing == 0)) || exit 1

cd "$work"
/usr/bin/python3 - <<'P' || { echo "the Python program was not run"; exit 77; }
import sys
try:
    import h5py, numpy, torch
except ImportError as missing:
    sys.exit(str(missing))
with h5py.File("pictures.h5", "w") as file:
    file["images"] = numpy.random.default_rng(1).uniform(-1, 1, (130, 1, 32, 32)).astype("float32")
P
OMP_NUM_THREADS=1 /usr/bin/python3 "$root/$right" pictures.h5 3
[[ -s generator.pt && -s checkpoint.pt ]]
