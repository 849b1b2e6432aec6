#!/bin/bash
# check_format.sh - scripts/check-format.sh passes this tree, and notices a line that clang-format would write in another
# way, a folder that need not be left out any more, and another version of clang-format. Skipped without the right one.
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$root/scripts/check-format.sh" || exit $? # 77: skipped

# expect STATUS WORDS ARGUMENT...: in the small tree.
tree=$work/tree
expect() {
    local status=0 wanted=$1 words=$2
    shift 2
    "$tree/scripts/check-format.sh" "$@" >"$work/said" 2>&1 || status=$?
    [[ $status == "$wanted" ]] && grep -qF -- "$words" "$work/said" ||
        { cat "$work/said" >&2; die "'$*': status $status; $wanted and \"$words\" were expected"; }
}
mkdir -p "$tree/src/kernels/cuda" "$tree/build"
cp -r "$root/scripts" "$root/.clang-format" "$tree"
printf 'int right;\n' >"$tree/src/right.c"
printf 'int  wrong;\n' | tee "$tree/build/any.c" >"$tree/src/kernels/cuda/wrong.cu"
sed -i '/^left_out=(/,/^)/c left_out=(src/kernels/cuda)' "$tree/scripts/check-format.sh"
expect 0 "right"
expect 1 "src/kernels/cuda/wrong.cu:1:" --all
expect 1 "src/kernels/cuda/wrong.cu:1:" src/kernels/cuda/wrong.cu
printf 'int right;\nint  wrong;\n' >"$tree/src/wrong.h"
expect 1 "src/wrong.h:2:"
rm "$tree/src/wrong.h"
cp "$tree/src/right.c" "$tree/src/kernels/cuda/wrong.cu"
expect 1 "take it off the list"
sed -i 's/^version=.*/version=999/' "$tree/scripts/check-format.sh"
expect 77 "not checked"
say "check-format.sh: right"
