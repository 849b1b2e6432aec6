# model_lib.sh - what the tests of examples that train have in common. Sourced, with TRAIN in the environment, by a
# script that sets `tiny`: options of a training that is small and quick.
. "$SOURCE/tests/cli/lib.sh"

# ends STATUS OPTIONS...: the tiny training ends with this status.
ends() {
    want=$1
    shift
    checks=$((checks + 1))
    "$TRAIN" --quiet $tiny "$@" >out.txt 2>err.txt
    got=$?
    [ "$got" = "$want" ] || complain "status $got in place of $want: $TRAIN $tiny $*: $(cat err.txt)"
}

# bad STATUS PART OPTIONS...: it ends with one sentence, and leaves no weights.
bad() {
    want=$1
    part=$2
    shift 2
    ends "$want" --out bad "$@"
    equal "$(wc -l <err.txt)" 1 "lines said about $*"
    [ ! -s out.txt ] || complain "output on stdout: $*"
    grep -q "^$(basename "$TRAIN"): " err.txt || complain "no name in front: $(cat err.txt)"
    grep -qF -- "$part" err.txt || complain "$*: no \"$part\" in \"$(cat err.txt)\""
    absent bad.h5
}

is_png() {
    checks=$((checks + 1))
    [ "$(head -c 8 "$1" | od -An -tx1 | tr -d ' \n')" = 89504e470d0a1a0a ] || complain "$1 is no PNG"
}

# same A B: two trainings with these prefixes left the same bytes. A checkpoint has the time in it.
same() {
    rm -f "$1"-checkpoint.h5 "$2"-checkpoint.h5
    equal "$(ls | grep -c "^$1[-.]")" "$(ls | grep -c "^$2[-.]")" "number of files of $1 and $2"
    for file in "$1"[-.]*; do
        checks=$((checks + 1))
        cmp "$file" "$2${file#"$1"}" || complain "$file and its like of $2 differ"
    done
}

# rows FILE: how many rows stand under the table's head.
rows() {
    if [ -f "$1" ]; then sed 1d "$1" | grep -c .; else echo 0; fi
}

# wait_for_rows PREFIX N: until the training in $pid has written N rows of losses, a minute at most.
wait_for_rows() {
    for _ in $(seq 600); do
        [ "$(rows "$1-losses.csv")" -lt "$2" ] && kill -0 "$pid" 2>err.txt || return 0
        sleep 0.1
    done
}

# resumed OPTIONS...: a training that SIGTERM ends and one that SIGKILL ends, once they have begun, leave after their
# resumption what an uninterrupted one leaves.
resumed() {
    for signal in TERM KILL; do
        rm -f whole[-.]* cut[-.]*
        "$TRAIN" --quiet $tiny --out cut --steps 100000 --log-every 1 --checkpoint-every 2 --sample-every 0 "$@" 2>err.txt &
        pid=$!
        wait_for_rows cut 5
        kill -s $signal "$pid"
        wait "$pid"
        equal "$?" "$([ $signal = TERM ] && echo 143 || echo 137)" "status after SIG$signal"
        steps=$(($(tail -1 cut-losses.csv | cut -d, -f1) + 3))
        equal "$((steps >= 8))" 1 "steps before SIG$signal"
        ends 0 --out cut --steps $steps --log-every 1 --checkpoint-every 2 --sample-every 0 --resume auto "$@"
        ends 0 --out whole --steps $steps --log-every 1 --sample-every 0 "$@"
        equal "$(rows whole-losses.csv)" $steps "rows of the table"
        same whole cut
    done
}

# resident: the memory of the training in $pid, in KiB.
resident() {
    awk '/^VmRSS/ { print $2 }' /proc/"$pid"/status
}

# The least of eight looks: a checkpoint that is just being written is in memory whole, and no leak.
least_resident() {
    least=$(resident)
    for look in 1 2 3 4 5 6 7; do
        sleep 0.02
        now=$(resident)
        if [ "${now:-0}" -gt 0 ] && [ "$now" -lt "$least" ]; then
            least=$now
        fi
    done
    echo "$least"
}

# flat OPTIONS...: between steps 200 and 1,000 the memory of a training does not grow by 2 MiB. It may grow once by 1.4,
# where threads that write a picture meet in malloc for the first time.
flat() {
    [ -r /proc/self/status ] || exit 77
    "$TRAIN" --quiet $tiny --out flat --steps 1000000 --log-every 1 --sample-every 100 --checkpoint-every 100 "$@" 2>err.txt &
    pid=$!
    wait_for_rows flat 200
    early=$(least_resident)
    wait_for_rows flat 1000
    late=$(least_resident)
    kill -s TERM "$pid"
    wait "$pid"
    equal "$?" 143 "status of a training that a signal ended"
    checks=$((checks + 1))
    echo "${early:=0} KiB after 200 steps, ${late:=0} KiB after 1,000"
    [ "$early" -gt 0 ] && [ "$late" -gt 0 ] && [ $((late - early)) -lt 2048 ] ||
        complain "800 steps took $((late - early)) KiB: $(cat err.txt)"
}
