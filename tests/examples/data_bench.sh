# examples/common/data_bench.c: a line for each number of threads, and sentences about wrong arguments.
. "$SOURCE/tests/cli/lib.sh"

check "$BENCH" make pictures 70 8
equal "$(ls pictures | wc -l)" 70 "pictures that were made"
check "$BENCH" pictures 8 3 1 1
holds check.out "pictures: 70 PNG and 0 JPEG pictures"
equal "$(grep -cE '^ +[0-9]+ +[1-9][0-9]* +[0-9.]+$' check.out)" "$(($(wc -l <check.out) - 2))" \
    "lines of numbers in $(cat check.out)"

# bad STATUS PART ARGUMENTS...
bad() {
    want=$1
    part=$2
    shift 2
    checks=$((checks + 1))
    "$BENCH" "$@" >bad.out 2>bad.err
    equal "$?" "$want" "status of data_bench $*"
    equal "$(wc -l <bad.err)" 1 "lines said about $*"
    holds bad.err "data_bench: $part"
}
bad 2 "it takes PATH"
bad 2 "'x' is no whole number from 1 to 16384" pictures x
bad 2 "'0' is no whole number" make other 0 8
bad 1 "cannot make the folder pictures" make pictures 1 8
bad 1 "data_open: no path, channels other than 1 or 3" pictures 8 2
bad 1 "cannot open nowhere" nowhere
finish
