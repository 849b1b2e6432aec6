# lib.sh - what the tests of the command share. Sourced; the environment names the programs under test
# (see CMakeLists.txt). A script ends with `finish`.

work=$(mktemp -d "${TMPDIR:-/tmp}/unfurl-cli.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
unset UNFURL_DATA_DIR
failures=0
checks=0

complain() {
    failures=$((failures + 1))
    printf 'FAILED: %s\n' "$*" >&2
}

# check COMMAND...: it must end with status 0.
check() {
    checks=$((checks + 1))
    "$@" >check.out 2>check.err || {
        complain "status $?: $*"
        cat check.out check.err >&2
    }
}

# shown FILE: a terminal only draws it. It has no control characters but the newline: no C0, DEL or C1.
shown() {
    checks=$((checks + 1))
    [ "$(LC_ALL=C tr -d '\n\040-\176\200-\377' <"$1" | wc -c)" = 0 ] &&
        ! LC_ALL=C grep -q "$(printf '\302[\200-\237]')" "$1" ||
        complain "control characters in $1: $(LC_ALL=C cat -v "$1")"
}

# refuse STATUS PART ARGUMENTS...: unfurl ARGUMENTS ends with STATUS, prints nothing to stdout and one
# sentence to stderr that begins with "unfurl: ", holds PART and no control characters.
refuse() {
    want=$1
    part=$2
    shift 2
    checks=$((checks + 1))
    "$UNFURL" "$@" >refuse.out 2>refuse.err
    got=$?
    [ "$got" = "$want" ] || complain "status $got instead of $want: unfurl $*: $(cat refuse.err)"
    [ ! -s refuse.out ] || complain "output on stdout: unfurl $*"
    [ "$(wc -l <refuse.err)" = 1 ] || complain "not one sentence: unfurl $*: $(cat refuse.err)"
    grep -q '^unfurl: ' refuse.err || complain "no 'unfurl: ' in front: $(cat refuse.err)"
    shown refuse.err
    grep -qF -- "$part" refuse.err ||
        complain "unfurl $*: no \"$part\" in \"$(cat refuse.err)\""
}

# holds FILE PART: the file has PART in it.
holds() {
    checks=$((checks + 1))
    grep -qF -- "$2" "$1" || complain "no \"$2\" in $1: $(cat "$1")"
}

# absent FILE: it must not exist.
absent() {
    checks=$((checks + 1))
    [ ! -e "$1" ] || complain "$1 was left behind"
}

# equal A B WHAT
equal() {
    checks=$((checks + 1))
    [ "$1" = "$2" ] || complain "$3: \"$1\" is not \"$2\""
}

finish() {
    echo "$checks checks, $failures failed"
    [ "$failures" = 0 ] && [ "$checks" -gt 0 ]
    exit $?
}
