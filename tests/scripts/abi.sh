#!/bin/bash
# abi.sh LIBRARY - the binary interface is that of tests/data/abi.txt, and a change of it is noticed: a symbol that
# went or came, a parameter, a member, an enumerator. Skipped on 32-bit systems, for which there is no table.
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

library=$(realpath "$1")
table=$root/tests/data/abi.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[[ $(getconf LONG_BIT) == 64 ]] || exit 77

# compare [INCLUDE FOLDER]: false, and the differences in the file said, when the interface is another.
compare() {
    "$root/scripts/abi-table.sh" "$library" "$@" >"$work/now"
    diff -U 0 --label "tests/data/abi.txt" --label "this build" "$table" "$work/now" >"$work/said"
}

if ! compare; then
    cat "$work/said" >&2
    say "The ABI is not that of tests/data/abi.txt. A program that was compiled before may break; so" >&2
    say "- where programs were released with this SONAME: raise UF_VERSION_MINOR in include/unfurl/export.h;" >&2
    say "- then, and where none were, write the table anew and send it with the change:" >&2
    say "      scripts/abi-table.sh $library >tests/data/abi.txt" >&2
    exit 1
fi

# changed WORDS FILE SED-EXPRESSION: with a header changed so, the comparison says WORDS.
changed() {
    cp -r "$root/include" "$work/include"
    sed -i "$3" "$work/include/unfurl/$2"
    ! cmp -s "$root/include/unfurl/$2" "$work/include/unfurl/$2" || die "'$3' changes nothing in $2"
    ! compare "$work/include" || die "'$3' in $2 was not noticed"
    grep -qE -- "$1" "$work/said" || { cat "$work/said"; die "'$3' in $2: '$1' was not said"; }
    rm -r "$work/include"
}
changed '^\+struct uf_context_options +16 int64_t threads' context.h 's/int32_t threads; /int64_t threads; /'
changed '^-struct uf_context_options size' context.h 's/void \*log_user;/& int added;/'
changed '^\+enum uf_device +1 UF_ADDED' context.h 's/UF_DEVICE_CPU,/UF_ADDED, &/'
changed '^\+symbol uf_context_seed int32_t' context.h 's/uint64_t uf_context_seed/int32_t uf_context_seed/'
sed '/^symbol uf_version/d' "$table" >"$work/fewer"
table=$work/fewer
compare && die "a symbol that was added was not noticed"
grep -q '^+symbol uf_version' "$work/said" || die "the added symbol was not named"
say "$(wc -l <"$root/tests/data/abi.txt") lines of $(head -n 1 "$root/tests/data/abi.txt"), unchanged"
