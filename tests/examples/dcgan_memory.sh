# A training holds no more memory after 1,000 steps than after 200.
. "$SOURCE/tests/cli/lib.sh"
[ -r /proc/self/status ] || exit 77

mkdir data
check "$FIXTURE" idx data/train-images-idx3-ubyte.gz 100 28
"$TRAIN" --data data --image-size 16 --features 4 --latent 8 --batch 8 --device cpu --threads 1 --quiet --ema 0.9 \
    --steps 1000000 --log-every 1 --sample-every 100 --checkpoint-every 100 --schedule cosine &
process=$!
rows() { cat dcgan-losses.csv 2>/dev/null | wc -l; }

# memory_after STEPS: of the process, in KiB.
memory_after() {
    while [ "$(rows)" -lt "$1" ] && kill -0 $process; do sleep 0.02; done
    awk '/^VmRSS/ { print $2 }' /proc/$process/status
}
early=$(memory_after 200)
late=$(memory_after 1000)
kill $process
wait $process
equal "$?" 143 "status of a training that a signal ended"
checks=$((checks + 1))
echo "$early KiB after 200 steps, $late KiB after 1,000"
[ $((late - early)) -lt 512 ] || complain "800 steps took $((late - early)) KiB"
finish
