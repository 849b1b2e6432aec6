# examples/dcgan/dcgan_train: what it leaves behind, and what it says about a bad data file or option.
. "$SOURCE/tests/cli/lib.sh"

mkdir data
file=train-images-idx3-ubyte.gz
check "$FIXTURE" idx data/$file 100 28
train="--data data --image-size 16 --features 4 --latent 8 --batch 8 --device cpu"

# learn NAME OPTIONS...: four steps, three grids, the weights.
learn() {
    out=$1
    shift
    check "$TRAIN" $train --steps 4 --sample-every 2 --out "$out" "$@"
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

# The weights are those of a generator that the command takes.
check "$UNFURL" generate --weights one.h5 --count 4 --seed 1 --out samples.png
check "$UNFURL" inspect one.h5
holds check.out main.0.weight
holds check.out main.6.weight
holds check.out main.1.num_batches_tracked

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
    absent bad-000000.png
}
bad 2 "'--math fp16' is no option with its value" --math fp16
bad 1 "cannot open nowhere/$file: install dataset-fashion-mnist" --data nowhere
mkdir wrong
echo "these are no images, however one looks at them" | gzip >wrong/$file
bad 1 "no IDX file" --data wrong
echo "not even gzip, which zlib reads as it is" >wrong/$file
bad 1 "no IDX file" --data wrong
: >wrong/$file
bad 1 "no IDX file" --data wrong
printf '\000\000\010\003\000\000\000\000\000\000\000\034\000\000\000\034' | gzip >wrong/$file
bad 1 "sizes that no data set" --data wrong
printf '\000\000\010\003\377\377\377\377\377\377\377\377\377\377\377\377' | gzip >wrong/$file
bad 1 "sizes that no data set" --data wrong
printf '\000\000\010\003\000\000\000\012\000\000\000\034\000\000\000\035' | gzip >wrong/$file
bad 1 "sizes that no data set" --data wrong
# Cut within the compressed stream, and a whole stream with too few images in it.
cp data/$file wrong/$file
check "$FIXTURE" cut wrong/$file 400
bad 1 "truncated or damaged" --data wrong
{ printf '\000\000\010\003\000\000\000\144\000\000\000\034\000\000\000\034'; head -c 5000 /dev/zero; } |
    gzip >wrong/$file
bad 1 "truncated or damaged" --data wrong
check "$FIXTURE" idx wrong/$file 3 28
bad 1 "fewer images than one batch" --data wrong --batch 8 --image-size 16 --features 4

bad 2 "--frobnicate" --data data --frobnicate 3
bad 2 "--steps" --data data --steps
bad 2 "--steps takes a whole number" --data data --steps 0
bad 2 "--features takes a whole number" --data data --features four
bad 2 "--image-size takes 16, 32, 64 or 128, not 48" --data data --image-size 48
bad 2 "--device" --data data --device gpu
"$TRAIN" $train --steps 1 --out nowhere/x 2>bad.err
equal "$?" 1 "status with no folder to write to"
holds bad.err "dcgan_train: "
holds bad.err "nowhere/x-000000.png"

check "$TRAIN" --help
holds check.out "--sample-every"
finish
