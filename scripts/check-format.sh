#!/bin/bash
# check-format.sh [--all] [FILE...] - are the sources as clang-format leaves them, or these files (paths from the root of
# the tree)? Prints the first wrong line of each that is not, and fails. Needs clang-format 14, which Debian 12 has:
# other versions break lines elsewhere. Without it: status 77. `clang-format -i FILE` mends a file; a table that it
# would destroy stands between "clang-format off" and "clang-format on". --all: also folders that are left out today.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

version=14
# Folders that are not formatted yet. This list can only shrink: a folder in it that is clean fails the check.
left_out=(
)

if [[ ${1:-} == --help ]]; then
    help_of "$0"
    exit 0
fi
all=no
if [[ ${1:-} == --all ]]; then
    all=yes
    shift
fi
program=""
for name in clang-format-$version clang-format; do
    if command -v "$name" >/dev/null && "$name" --version | grep -q "version $version\."; then
        program=$name
        break
    fi
done
if [[ -z $program ]]; then
    say "clang-format $version is not installed: the format is not checked"
    exit 77
fi

# sources [FOLDER]: the files to look at, one a line.
sources() {
    (cd "$root" && find "${1:-.}" \( -path ./build -o -name '.?*' \) -prune -o -type f \
        \( -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' -o -name '*.inc' \) -print) |
        sed 's|^\./||' | sort
}

# check FILE...: prints the first line of each file that is not right.
check() {
    (cd "$root" && "$program" --dry-run -Werror "$@" 2>&1) | grep ': error: ' | sort -t: -k1,1 -u || true
}

failed=$(
    if (($#)); then
        check "$@"
    else
        mapfile -t files < <(sources)
        for folder in "${left_out[@]}"; do
            [[ $all == yes ]] && break
            mapfile -t files < <(printf '%s\n' "${files[@]}" | grep -v "^$folder/")
        done
        check "${files[@]}"
    fi
)
if [[ -n $failed ]]; then
    say "$failed" >&2
    die "$(wc -l <<<"$failed") files are not as clang-format $version leaves them: $program -i FILE"
fi
if (($# == 0)) && [[ $all == no ]]; then
    for folder in "${left_out[@]}"; do
        mapfile -t files < <(sources "$folder")
        [[ -n $(check "${files[@]}") ]] || die "$folder is clean: take it off the list of what is left out"
    done
fi
say "the format is right"
