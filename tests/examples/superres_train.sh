# examples/superres: what it writes, the same bytes for any number of threads and after an interruption, wrong data and
# options.
. "$SOURCE/tests/examples/model_lib.sh"
mkdir data
for picture in generated upscale dcgan-late dcgan-early; do
    cp "$SOURCE/docs/images/$picture.png" data
done
tiny="--data data --crop 16 --test-crop 48 --features 4 --batch 2 --device cpu"

ends 0 --out one --steps 4 --sample-every 2 --threads 1 --log-every 1
ends 0 --out two --steps 4 --sample-every 2 --threads 2 --log-every 1
ends 0 --out other --steps 4 --sample-every 2 --seed 1
for step in 000000 000002 000004; do
    is_png one-$step.png
done
equal "$(head -1 one-test.csv)" step,psnr_network,psnr_bicubic,gain "head of the test"
equal "$(cut -d, -f1 one-test.csv | tr '\n' ' ')" "step 4 " "steps of the test"
# The filter's ratio depends on the held-out pictures alone.
equal "$(tail -1 one-test.csv | cut -d, -f3)" "$(tail -1 other-test.csv | cut -d, -f3)" "the filter's ratio"
same one two
checks=$((checks + 1))
cmp -s one.h5 other.h5 && complain "another seed gives the same weights"
"$UNFURL" inspect one.h5 >names.txt
holds names.txt first_part.0.weight
holds names.txt mid_part.11.weight
holds names.txt last_part.bias

resumed --lr-period 50 --ema 0.9

bad 2 "take even numbers, not 17 and 48" --crop 17
bad 2 "take even numbers, not 16 and 49" --test-crop 49
bad 1 "3 pictures, fewer than one batch of 9" --batch 9
mkdir empty text
bad 1 "empty" --data empty
echo "no picture" >text/one.png
bad 1 "text/one.png" --data text
head -c 3000 data/upscale.png >data/upscale2.png
bad 1 "upscale2.png" --steps 4
finish
