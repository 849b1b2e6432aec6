# idx_lib.sh - a small data set in the form of Fashion-MNIST. Sourced behind cli/lib.sh; FIXTURE writes the images.

# idx FOLDER TRAIN TEST: TRAIN and, to test, TEST pictures of 28x28 with labels that are all 0.
idx() {
    mkdir -p "$1"
    for part in train:$2 t10k:$3; do
        count=${part#*:}
        check "$FIXTURE" idx "$1/${part%:*}-images-idx3-ubyte.gz" "$count" 28
        {
            printf '\000\000\010\001\000\000'
            printf "\\$(printf %03o $((count / 256)))\\$(printf %03o $((count % 256)))"
            head -c "$count" /dev/zero
        } | gzip >"$1/${part%:*}-labels-idx1-ubyte.gz"
    done
}
