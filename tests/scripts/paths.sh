#!/bin/bash
# paths.sh FILE... - every file and folder that these Markdown files name in backquotes is in the tree: its whole path, or
# the end of one, with * for a part of a name. A file whose name is x stands for any (`cuda/x.cu`).
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$root" && find . -mindepth 1 \( -name '.?*' -o -path ./build \) -prune -o -print) >"$work/tree"

# lost FILE: print what FILE names and the tree lacks, one a line.
lost() {
    local name end
    grep -oE '`[^` ]+(/|\.(c|h|cu|cuh|def|inc|sh|md))`' "$1" | tr -d '`' | sort -u >"$work/names"
    while IFS= read -r name; do
        [[ ${name##*/} != x.* ]] || continue
        end=${name%/}
        end=${end##*../}
        end=${end//./\\.}
        grep -q "/${end//\*/[^/]*}\$" "$work/tree" || say "$name"
    done <"$work/names"
    [[ -s $work/names ]] || say "a name"
}

for page; do
    missing=$(lost "$root/$page")
    [[ -z $missing ]] || die "$page names what is not there: $missing"
done

# On a page of its own: what is there, then what is not.
printf '%s\n' '`src/core/`, `core/error.h`, `docs/*tecture.md`, `cpu/x.c`' '`core/gone.c`, `rror.h`, `../gone/`' >"$work/page.md"
[[ $(lost "$work/page.md" | tr '\n' ' ') == "../gone/ core/gone.c rror.h " ]] ||
    die "finds on its own page: $(lost "$work/page.md")"
