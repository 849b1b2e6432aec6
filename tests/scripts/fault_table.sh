#!/bin/bash
# fault_table.sh BUILD - every test that docs/convtranspose-faults.md names is one of the build tree, or, where the build
# has no GPU backend, is named for a GPU.
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

build=$1
page=$root/docs/convtranspose-faults.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

ctest --test-dir "$build" --show-only=human | sed -n 's/^ *Test *#[0-9]*: //p' >"$work/tests"
(($(wc -l <"$work/tests") > 50)) || die "ctest lists $(wc -l <"$work/tests") tests"
gpu=no
! grep -q '\.cuda\.' "$work/tests" || gpu=yes

# named FILE: the names of tests in its last column, each row's on a line.
named() {
    awk -F'|' '/^\| / && NF == 6 && $5 !~ /^ *(test|---)/ { print $5 }' "$1" |
        while IFS= read -r cell; do
            grep -oE '`[a-z0-9_]+\.[a-z0-9_.]+`' <<<"$cell" | tr -d '`' | paste -sd' ' || true
        done
}
# check FILE: print what is wrong with it.
check() {
    local row name
    while IFS= read -r row; do
        [[ -n $row ]] || say "a row without a test"
        for name in $row; do
            [[ $gpu == no && $name =~ (^|\.)cuda\. ]] || grep -qxF -- "$name" "$work/tests" || say "$name"
        done
    done < <(named "$1")
}

(($(named "$page" | wc -l) >= 5)) || die "the page has $(named "$page" | wc -l) rows"
lost=$(check "$page")
[[ -z $lost ]] || die "docs/convtranspose-faults.md names tests that are not there: $lost"

printf '%s\n' '| a | b | c | `ops.cpu.table`, `ops.cpu.gone`: text |' '| a | b | c | none |' >"$work/page.md"
[[ $(check "$work/page.md" | paste -sd' ') == "ops.cpu.gone a row without a test" ]] ||
    die "finds on its own page: $(check "$work/page.md")"
say "$(named "$page" | wc -w) tests are there"
