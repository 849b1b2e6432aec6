# examples/vae: what it writes, the same bytes for any number of threads and after an interruption, wrong data and
# options.
. "$SOURCE/tests/examples/model_lib.sh"
. "$SOURCE/tests/examples/idx_lib.sh"
idx data 32 120
tiny="--data data --image-size 8 --features 4 --latent 4 --batch 8 --device cpu" # epochs of 4 steps

ends 0 --out one --steps 9 --sample-every 3 --threads 1 --log-every 1
ends 0 --out two --steps 9 --sample-every 3 --threads 2 --log-every 1
ends 0 --out other --steps 9 --sample-every 3 --seed 1
for step in 000000 000003 000009; do
    is_png one-$step.png
    is_png one-$step-reconstructions.png
done
equal "$(cut -d, -f1 one-test.csv | tr '\n' ' ')" "step 4 8 9 " "steps of the test"
equal "$(head -1 one-losses.csv)" step,learning_rate,error,divergence "losses"
checks=$((checks + 1))
cmp -s one.h5 other.h5 && complain "another seed gives the same weights"
same one two

# The decoder alone is a generator that the command takes, with the numbers that it has in the whole.
check "$UNFURL" generate --weights one-decoder.h5 --count 4 --seed 1 --out samples.png
"$UNFURL" inspect one.h5 | sed -n 's/^\( *\)decoder\.//p' | awk '{print $1}' | sort >whole.txt
"$UNFURL" inspect one-decoder.h5 | awk '/main\./ {print $1}' | sort >alone.txt
checks=$((checks + 2))
[ -s alone.txt ] || complain "no tensors in the decoder's file"
cmp whole.txt alone.txt || complain "the decoder alone has other tensors than in the whole"

# Weights to begin with: those that were written give the test error that was measured on them.
ends 0 --out again --steps 1 --lr 0 --init one.h5
ends 0 --out start --steps 1 --lr 0
checks=$((checks + 1))
[ "$(tail -1 again-test.csv)" != "$(tail -1 start-test.csv)" ] || complain "--init changes nothing"
cp one-decoder.h5 part.h5
bad 1 "encoder.main.0.weight" --init part.h5
bad 1 "gone.h5" --init gone.h5

resumed --schedule step --lr-period 5
resumed --ema 0.9 --batch 32 # an epoch is one step

bad 2 "--image-size takes a power of two from 8 to 256, not 12" --image-size 12
bad 1 "nowhere" --data nowhere
bad 1 "32 pictures, fewer than one batch of 33" --batch 33
idx few 32 99
bad 1 "few has fewer than 100 held-out pictures" --data few
cp -r data cut
head -c 60 data/train-images-idx3-ubyte.gz >cut/train-images-idx3-ubyte.gz
bad 1 "cut/train-images-idx3-ubyte.gz" --data cut
mkdir empty
bad 1 "empty" --data empty
finish
