# examples/dcgan/dcgan_train: what it leaves behind, interrupted or not, and what it says about bad options.
. "$SOURCE/tests/cli/lib.sh"

mkdir data
check "$FIXTURE" idx data/train-images-idx3-ubyte.gz 100 28
{
    printf '\000\000\010\001\000\000\000\144'
    for ten in 0 1 2 3 4 5 6 7 8 9; do printf '\000\001\002\000\001\002\000\001\002\002'; done
} | gzip >data/train-labels-idx1-ubyte.gz
train="--data data --image-size 16 --features 4 --latent 8 --batch 8 --device cpu --quiet"

# learn NAME OPTIONS...: four steps, three grids, the weights.
learn() {
    out=$1
    shift
    check "$TRAIN" $train --steps 4 --sample-every 2 --out "$out" "$@"
    equal "$(cat check.out check.err)" "" "words of a quiet training"
    for step in 000000 000002 000004; do
        checks=$((checks + 1))
        [ "$(head -c 8 "$out-$step.png" | od -An -tx1 | tr -d ' \n')" = 89504e470d0a1a0a ] ||
            complain "$out-$step.png is no PNG"
    done
    checks=$((checks + 1))
    [ -s "$out.h5" ] || complain "$out.h5 is missing"
}
learn one --seed 3 --threads 1
learn two --seed 3 --threads 2
learn other --seed 4 --threads 1
learn three --seed 3 --math bf16 # which a CPU computes in fp32
checks=$((checks + 4))
cmp one.h5 three.h5 || complain "--math changes weights on a CPU"
cmp one.h5 two.h5 || complain "1 and 2 threads give other weights"
cmp one-000004.png two-000004.png || complain "1 and 2 threads give other pictures"
cmp -s one.h5 other.h5 && complain "another seed gives the same weights"
cmp -s one-000000.png one-000004.png && complain "training changed nothing"
learn half --dtype bf16
learn double --dtype f64
learn colour --channels 3
equal "$(head -1 one-losses.csv)" "step,learning_rate,d_real,d_fake,g" "the header of the table"

# The weights are those of a generator that the command takes, its average's too.
learn mean --ema 0.9
for weights in one mean mean-ema double colour; do
    check "$UNFURL" generate --weights $weights.h5 --count 4 --seed 1 --out samples.png
done
check "$UNFURL" inspect one.h5
holds check.out main.0.weight
holds check.out main.6.weight
holds check.out main.1.num_batches_tracked

# Three classes: three rows of eight samples, of 16 pixels and a border of 2.
learn class --conditional
check "$UNFURL" inspect class.h5
holds check.out embedding.weight
equal "$(od -An -tu1 -j18 -N6 class-000004.png | tr -s ' ')" " 0 146 0 0 0 56" "width and height of a grid with a row a class"

# rows NAME: of its table.
rows() { cat "$1-losses.csv" 2>/dev/null | wc -l; }

# resumed OPTIONS...: a signal from outside at some moment, twice, and the same bytes as without.
resumed() {
    rm -f whole* part*
    all="--steps 300 --sample-every 50 --checkpoint-every 40 --log-every 1 $*"
    check "$TRAIN" $train $all --out whole
    for time in first second; do
        before=$(rows part)
        "$TRAIN" $train $all --out part --resume auto 2>err.txt &
        process=$!
        while [ "$(rows part)" -lt $((before + 20)) ] && kill -0 $process 2>/dev/null; do sleep 0.01; done
        kill $process
        wait $process
        equal "$?" 143 "status after the $time SIGTERM: $(cat err.txt)"
    done
    checks=$((checks + 1))
    [ "$(rows part)" -lt 301 ] || complain "the training ended before its signals"
    check "$TRAIN" $train $all --out part --resume auto
    for file in whole*; do
        case $file in
        *-checkpoint.h5) continue ;; # it has the time in it
        esac
        checks=$((checks + 1))
        cmp "$file" "part${file#whole}" || complain "$file differs after a resumption ($*)"
    done
}
resumed
resumed --conditional --ema 0.95 --schedule cosine --warmup 10

# bad STATUS PART OPTIONS...: one sentence, and nothing is written.
bad() {
    want=$1
    part=$2
    shift 2
    checks=$((checks + 1))
    "$TRAIN" --out bad "$@" >bad.out 2>bad.err
    equal "$?" "$want" "status of dcgan_train $*"
    [ ! -s bad.out ] || complain "output on stdout: $*"
    equal "$(wc -l <bad.err)" 1 "lines said about $*"
    grep -q '^dcgan_train: ' bad.err || complain "no 'dcgan_train: ' in front: $(cat bad.err)"
    grep -qF -- "$part" bad.err || complain "dcgan_train $*: no \"$part\" in \"$(cat bad.err)\""
    absent bad.h5
    absent bad-losses.csv
    absent bad-000000.png
}
bad 1 "nowhere" --data nowhere
mkdir empty
bad 1 "empty" --data empty
bad 1 "fewer than one batch of 101" --data data --batch 101 # examples/common/data.h has more of wrong data
bad 2 "--math takes one of fp32|tf32|bf16, not 'fp16'" --math fp16
bad 2 "'--frobnicate' is no option" --data data --frobnicate 3
bad 2 "--features takes a whole number" --data data --features four
bad 2 "--image-size takes 16, 32, 64 or 128" --data data --image-size 48
bad 2 "--channels 1 or 3, not 32 and 2" --data data --channels 2
bad 1 "nowhere/x" --data data --out nowhere/x
mv data/train-labels-idx1-ubyte.gz .
bad 1 "no labels, which --conditional needs" --data data --conditional
check "$TRAIN" --help
holds check.out "--conditional"
finish
