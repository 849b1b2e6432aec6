# examples/dcgan/dcgan_knn.c: held-out images pass, noise and a single class do not, in both formats.
. "$SOURCE/tests/cli/lib.sh"

# judge STATUS PART OPTIONS...
judge() {
    want=$1
    part=$2
    shift 2
    checks=$((checks + 1))
    "$KNN" "$@" >judge.out 2>judge.err
    equal "$?" "$want" "status of dcgan_knn $*: $(cat judge.out judge.err)"
    holds judge.out "$part"
    equal "$(wc -c <judge.err)" 0 "bytes on stderr"
}

# The run before this was right about more than 80 % of held-out images.
accurate() {
    checks=$((checks + 1))
    awk '/^the right class/ { good = $7 > 80 } END { exit !good }' judge.out ||
        complain "too few held-out images got their class: $(cat judge.out)"
}

same() {
    checks=$((checks + 1))
    cmp -s judge.out real.out || complain "the grid is judged otherwise than the numbers: $(cat judge.out)"
}

mkdir made
check "$FIXTURE" data made
check "$FIXTURE" take made real.h5 200
check "$FIXTURE" take made real.png 200
check "$FIXTURE" take made short.png 99 # five places of the last row stay black
check "$FIXTURE" noise noise.h5
check "$FIXTURE" take made one.h5 100 3
judge 0 "10 of 10 classes" --data made --held-out 200
accurate
judge 0 "10 of 10 classes have 3 % of 200 samples or more: enough" --data made --samples real.h5
cp judge.out real.out
judge 0 "10 of 10 classes" --data made --samples real.png
same
judge 0 "of 99 samples" --data made --samples short.png
judge 0 "of 64 samples" --data made --samples real.png --count 64
judge 1 "fewer than the 8 that are wanted" --data made --samples noise.h5
judge 1 "fewer than the 8 that are wanted" --data made --samples one.h5
# Exact shares: 20 images of each class.
equal "$("$KNN" --data made --samples real.h5 | grep -c '  20  10.0 %$')" 10 "classes with a tenth of the samples"
# The garments themselves, where they are installed.
garments=/usr/share/datasets/fashion-mnist
if [ -r $garments/train-images-idx3-ubyte.gz ]; then
    check "$FIXTURE" take $garments one.h5 100 3
    check "$FIXTURE" take $garments real.h5 200
    check "$FIXTURE" take $garments real.png 200
    judge 0 "of 200 samples" --data $garments --reference 2000 --samples real.h5
    cp judge.out real.out
    judge 0 "of 200 samples" --data $garments --reference 2000 --samples real.png
    same
    judge 0 "10 of 10 classes" --data $garments --reference 10000 --held-out 200
    accurate
    judge 1 "1 of 10 classes" --data $garments --reference 10000 --samples noise.h5
    judge 1 "fewer than the 8 that are wanted" --data $garments --reference 10000 --samples one.h5
fi

# bad STATUS PART OPTIONS...: one sentence.
bad() {
    want=$1
    part=$2
    shift 2
    checks=$((checks + 1))
    "$KNN" "$@" >bad.out 2>bad.err
    equal "$?" "$want" "status of dcgan_knn $*"
    equal "$(wc -l <bad.err)" 1 "lines said about $*"
    equal "$(wc -c <bad.out)" 0 "bytes on stdout"
    holds bad.err "dcgan_knn: "
    holds bad.err "$part"
}
bad 2 "either --samples FILE or --held-out N"
bad 2 "either --samples FILE or --held-out N" --held-out 5 --samples real.h5
bad 2 "--neighbours takes a whole number from 1 to 100" --held-out 5 --neighbours 0
bad 1 "cannot open nowhere" --samples nowhere
bad 1 "is no grid of images of 40x40 with borders of 2" --samples real.png --size 40 --data made
check "$FIXTURE" black black.png
bad 1 "black.png is all black" --samples black.png --data made
rm made/train-labels-idx1-ubyte.gz
bad 1 "made has no labels" --held-out 5 --data made
finish
