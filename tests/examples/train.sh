# examples/common/train.h, by a training of a few hundred numbers: an interrupted and resumed one leaves the bytes of one
# that was not, whatever interrupted it; wrong options, other options on resumption, numbers that are not finite.
. "$SOURCE/tests/cli/lib.sh"

# ends STATUS OPTIONS...: the training ends with this status.
ends() {
    want=$1
    shift
    checks=$((checks + 1))
    "$TRAIN" --quiet "$@" >out.txt 2>err.txt
    got=$?
    [ "$got" = "$want" ] || complain "status $got in place of $want: $TRAIN $*: $(cat err.txt)"
}

# same A B: all that trainings with these prefixes left is the same.
same() {
    for file in "$1"*; do
        case $file in
        *-checkpoint.h5) continue ;; # it has the time in it
        esac
        checks=$((checks + 1))
        cmp "$file" "$2${file#"$1"}" || complain "$file differs after a resumption"
    done
    equal "$(ls | grep -c "^$1")" "$(ls | grep -c "^$2")" "files of $1 and $2"
}

# resumed OPTIONS...: 40 steps in one run, or with an end, a signal and a kill in them.
resumed() {
    rm -f whole* ended* signal* killed*
    ends 0 --out whole "$@"
    equal "$(wc -l <whole-losses.csv)" 41 "lines of the table"
    ends 143 --out signal --signal-at 16 "$@"
    [ ! -s err.txt ] || complain "a quiet training says: $(cat err.txt)"
    equal "$(tail -1 signal-losses.csv | cut -d, -f1)" 17 "the last step before a signal"
    ends 130 --out signal --signal-at 29 --signal 2 --resume auto "$@" # at a multiple of a checkpoint
    ends 0 --out signal --resume auto "$@"
    ends 137 --out killed --signal-at 7 --signal 9 "$@" # before the first checkpoint
    ends 137 --out killed --signal-at 26 --signal 9 --resume auto "$@"
    ends 0 --out killed --resume auto "$@"
    same whole signal
    same whole killed
}
resumed
case $(tail -1 whole-losses.csv) in
40,0.001,*) ;;
*) complain "the last line of the table: $(tail -1 whole-losses.csv)" ;;
esac
ends 0 --out ended --steps 20
ends 0 --out ended --resume ended-checkpoint.h5
same whole ended
resumed --ema 0.9 --schedule cosine --warmup 5 --seed 3
equal "$(ls whole-ema.h5)" whole-ema.h5 "averaged weights"
checks=$((checks + 1))
cmp -s whole.h5 whole-ema.h5 && complain "the average of the weights is the weights"
ends 0 --out plain
ends 0 --out mean --ema 0.9
checks=$((checks + 3))
cmp plain.h5 mean.h5 || complain "an average changes the training"
cmp plain-000000.png mean-000000.png || complain "the average does not begin as the weights"
cmp -s plain-000040.png mean-000040.png && complain "samples are not of the average"
resumed --optimizer sgd --schedule step --lr 0.01 --threads 1 --ema 0.99
resumed --optimizer rmsprop --schedule exponential --lr 0.01 --dtype f64 --ema 0.5
resumed --dtype bf16 --batch 5

# Rates as the schedule has them: a line up to the first one, then down.
ends 0 --out rate --schedule step --lr 1 --lr-factor 0.5 --warmup 2 --lr-period 3 --steps 8
equal "$(cut -d, -f2 rate-losses.csv | tail -8 | tr '\n' ' ')" "0.5 1 1 1 1 0.5 0.5 0.5 " "rates"
ends 0 --out rate --schedule exponential --lr 1 --lr-factor 0.25 --steps 4
equal "$(cut -d, -f2 rate-losses.csv | tail -1 | cut -c-8)" 0.353553 "the rate after 3 of 4 steps"

# Two signals: an end at once, and nothing of that step is kept.
ends 143 --out twice --signal-at 16 --twice
equal "$(tail -1 twice-losses.csv | cut -d, -f1)" 16 "the last step before two signals"

# Rows behind the checkpoint's step go, also where the training does not get as far again.
ends 137 --out shorter --signal-at 28 --signal 9
equal "$(tail -1 shorter-losses.csv | cut -d, -f1)" 28 "the last row of a training that was killed"
ends 143 --out shorter --signal-at 20 --resume auto
equal "$(tail -1 shorter-losses.csv | cut -d, -f1) $(wc -l <shorter-losses.csv)" "21 22" "rows after it"

# A table with half a line at its end goes on; one that was lost begins at the checkpoint's step.
ends 0 --out table
cp table-losses.csv good.csv
ends 0 --out table --steps 20
printf '21,0.0' >>table-losses.csv
ends 0 --out table --resume auto
checks=$((checks + 1))
cmp good.csv table-losses.csv || complain "half a line stayed in the table"
ends 0 --out table --steps 30
rm table-losses.csv
ends 0 --out table --resume auto
equal "$(sed -n 2p table-losses.csv | cut -d, -f1) $(wc -l <table-losses.csv)" "31 11" "a table that was lost"

# No checkpoint, and no time: --minutes of a training counts what was spent before.
ends 0 --out none --resume auto --steps 3
ends 0 --out brief --minutes 0.000001
checks=$((checks + 1))
[ "$(wc -l <brief-losses.csv)" -lt 10 ] || complain "a ten-thousandth of a second was enough for 10 steps"
cp brief-losses.csv before.csv
ends 0 --out brief --minutes 0.000001 --resume auto
checks=$((checks + 1))
cmp brief-losses.csv before.csv || complain "a training whose time is over went on"

# bad STATUS PART OPTIONS...: one sentence.
bad() {
    want=$1
    part=$2
    shift 2
    ends "$want" "$@"
    equal "$(wc -l <err.txt)" 1 "lines said about $*"
    [ ! -s out.txt ] || complain "output on stdout: $*"
    grep -q '^tiny_train: ' err.txt || complain "no 'tiny_train: ' in front: $(cat err.txt)"
    grep -qF -- "$part" err.txt || complain "tiny_train $*: no \"$part\" in \"$(cat err.txt)\""
}
bad 2 "'--frobnicate' is no option" --frobnicate 3
bad 2 "'3' is no option" 3
bad 2 "--steps takes a value, N" --steps
bad 2 "--steps takes a whole number from 1 to 1000000000, not '0'" --steps 0
bad 2 "--steps takes a whole number" --steps 3x
bad 2 "--steps takes a whole number" --steps 99999999999999999999
bad 2 "--steps takes a whole number" --steps ""
bad 2 "--lr takes a number from 0 to 1000, not 'nan'" --lr nan
bad 2 "--lr takes a number" --lr 1e-3x
bad 2 "--out takes a text that is not empty" --out ""
bad 2 "--device takes one of auto|cpu|cuda, not 'gpu'" --device gpu
bad 2 "--dtype takes one of" --dtype f3
bad 2 "--dtype takes one of" --dtype "f32|f64"
bad 2 "'--data' is no option" --data x
bad 2 "--schedule needs --steps or --lr-period" --schedule cosine --minutes 1
bad 1 "nowhere/x-losses.csv" --out nowhere/x
bad 1 "--out has more than" --out "$(printf '%05000d' 1)"

ends 0 --out other --ema 0.9
bad 1 "with '--width 16', this one has '--width 17'" --out other --ema 0.9 --resume auto --width 17
bad 1 "with '--ema 0.9', this one has '--ema 0'" --out other --resume auto
bad 1 "with '--lr 0.001', this one has '--lr 0.002'" --out other --ema 0.9 --resume auto --lr 0.002
bad 1 "with '--zero off', this one has '--zero on'" --out other --ema 0.9 --resume auto --zero
bad 1 "gone.h5" --resume gone.h5
bad 1 "checkpoint" --resume other.h5 # weights
head -c 2000 other-checkpoint.h5 >cut.h5
bad 1 "cut.h5" --resume cut.h5
cp other-losses.csv other.csv
echo "step,learning_rate,l1" >other-losses.csv
bad 1 "does not begin with the line step,learning_rate,mse" --out other --ema 0.9 --resume auto
{ head -3 other.csv; echo "abc,1"; } >other-losses.csv
bad 1 "'abc,1' is no row" --out other --ema 0.9 --resume auto

# An infinite input: the sentence names it, and the checkpoint before it stays as it is.
ends 0 --out poison --steps 10
cp poison-checkpoint.h5 before.h5
bad 1 "no longer a finite number after step 18 (mse" --out poison --steps 20 --poison-at 17 --resume auto
holds err.txt "the first such number is inf, element 3 of input x (4, 8)"
checks=$((checks + 1))
cmp poison-checkpoint.h5 before.h5 || complain "a checkpoint was replaced by one that is not finite"

# Weights that are not finite behind a loss that is.
bad 1 "4.weight of tiny has inf after step 20" --out poison --steps 20 --spoil-at 19 --resume auto
cmp poison-checkpoint.h5 before.h5 || complain "a checkpoint was replaced by one that is not finite"
bad 1 "after step 20 (mse -nan); the first such number is -nan, element 0 of parameter 0.weight (16, 8)" --out poison --steps 20 --spoil-at 18 --resume auto

# A loss of zero: the warning comes once, and the training goes on.
"$TRAIN" --out zero --zero --steps 1200 --quiet --sample-every 0 --checkpoint-every 0 2>err.txt
equal "$? $(grep -c 'warning: the discriminator always wins' err.txt) $(wc -l <err.txt)" "0 1 1" "a warning, once"
grep -q 'up to step 501,' err.txt || complain "the step of the warning: $(cat err.txt)"

# On no terminal: a line every 100 steps, and the last.
"$TRAIN" --out lines --steps 300 2>err.txt
equal "$(grep -c '^step [0-9]*  mse [0-9.]*  0:0[0-9] left  [0-9]* images/s$' err.txt)" 3 "lines of progress"
check "$TRAIN" --help
holds check.out "--sample-every N"
holds check.out "of the whole training; none with --minutes (40)"
finish
