#!/bin/bash
# examples_index.sh - examples/README.md links to every program of examples/.
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

# missing FOLDER: its programs that its README does not link to.
missing() {
    local file
    (cd "$1" && grep -rlE --include='*.c' --include='*.py' '^int main\(|__main__' . | sed 's|^\./||' | sort) |
        while IFS= read -r file; do
            grep -qF "]($file)" "$1/README.md" || say "$file"
        done
}

lost=$(missing "$root/examples")
[[ -z $lost ]] || die "examples/README.md lacks a link to $lost"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/a"
printf 'int main(void) {}\n' | tee "$work/a/one.c" >"$work/two.c"
printf 'int other(void) {}\n' >"$work/three.c"
printf '[`two.c`](two.c)\n' >"$work/README.md"
[[ $(missing "$work") == a/one.c ]] || die "finds \"$(missing "$work")\" missing"
say "every example is in the index"
