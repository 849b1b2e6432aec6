#!/bin/bash
# custom_operation.sh LIBRARY - the program in docs/custom-operation.md has at most 60 lines, compiles as C11 without a warning,
# and does what the page says.
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

library=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

awk '/^```c$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$root/docs/custom-operation.md" >"$work/custom.c"
lines=$(wc -l <"$work/custom.c")
[[ $lines -gt 20 && $lines -le 60 ]] || { echo "docs/custom-operation.md: the program has $lines lines" >&2; exit 1; }
"${CC:-cc}" -std=c11 -Wall -Wextra -Wpedantic -Werror -I "$root/include" "$work/custom.c" -o "$work/custom" "$library" \
    -Wl,-rpath,"$(dirname "$library")"
out=$("$work/custom")
echo "$out"
[[ $out == "right: 13 gradients checked" ]]
