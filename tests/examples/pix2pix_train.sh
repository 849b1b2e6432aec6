# examples/pix2pix: what it writes, the same bytes for any number of threads and after an interruption, wrong options.
. "$SOURCE/tests/examples/model_lib.sh"
tiny="--image-size 32 --features 2 --patch-layers 1 --batch 2 --device cpu"

ends 0 --out one --steps 4 --sample-every 2 --threads 1 --log-every 1
ends 0 --out two --steps 4 --sample-every 2 --threads 2 --log-every 1
ends 0 --out other --steps 4 --sample-every 2 --seed 1
for step in 000000 000002 000004; do
    is_png one-$step.png
done
equal "$(cut -d, -f1 one-test.csv | tr '\n' ' ')" "step 4 " "steps of the test"
equal "$(head -1 one-losses.csv)" step,learning_rate,d_real,d_fake,g_judged,g_error "losses"
same one two
checks=$((checks + 3))
cmp -s one.h5 other.h5 && complain "another seed gives the same weights"
cmp -s one-000000.png one-000004.png && complain "training changed nothing"
# 32x32 pixels are five levels, one of them with dropout; the names are those of the authors' state_dict.
"$UNFURL" inspect one.h5 >names.txt
holds names.txt model.model.0.weight
holds names.txt model.model.1.model.3.model.3.model.3.model.3.weight
holds names.txt model.model.1.model.3.model.6.num_batches_tracked

resumed --ema 0.9

bad 2 "--image-size takes a power of two from 16 to 512, not 48" --image-size 48
bad 2 "--image-size takes a whole number from 16 to 512" --image-size 8
bad 2 "--patch-layers takes" --patch-layers 4
bad 2 "'--data' is no option" --data .
bad 1 "nowhere/x-losses.csv" --steps 1 --out nowhere/x
ends 0 --out one --steps 4
bad 1 "with '--lambda 100', this one has '--lambda 10'" --resume one-checkpoint.h5 --lambda 10
finish
