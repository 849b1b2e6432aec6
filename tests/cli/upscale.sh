# unfurl upscale: agrees with PyTorch, and with itself over tiles, kinds of pictures and threads.
. "$SOURCE/tests/cli/lib.sh"
input=$SOURCE/examples/upscale/upconv7_scale2x_input.png
reference=$SOURCE/tests/data/upconv7_scale2x_reference.h5

check "$UNFURL" upscale "$input" whole.png --tile 0
check "$COMPARE" pictures whole.png "$SOURCE/tests/data/upconv7_scale2x.png" 1
check "$UNFURL" upscale "$input" whole.h5 --tile 0
check "$COMPARE" type whole.h5:/output f32 "(3, 128, 192)"
check "$COMPARE" values whole.h5:/output "$reference:/output_f64" 1e-5
check "$COMPARE" rounded whole.png whole.h5:/output
check "$UNFURL" upscale "$input" double.h5 --dtype f64
check "$COMPARE" type double.h5:/output f64 "(3, 128, 192)"
check "$COMPARE" values double.h5:/output "$reference:/output_f64" 1e-11

# Tiles: none leaves a trace. 96 x 64 pixels: one shape of tiles (16, 32), two (40), four (5, 17), one tile.
for tile in 5 16 17 32 40 4096; do
    check "$UNFURL" upscale "$input" tiled.png --tile $tile
    check "$COMPARE" pictures tiled.png whole.png 0
    check "$UNFURL" upscale "$input" tiled.h5 --tile $tile
    check "$COMPARE" values tiled.h5:/output whole.h5:/output 2e-6
done
for threads in 1 2 3; do
    check "$UNFURL" upscale "$input" threads.h5 --tile 24 --threads $threads
    check "$COMPARE" values threads.h5:/output tiled.h5:/output 2e-6
    check "$UNFURL" upscale "$input" threads$threads.png --tile 24 --threads $threads
    check cmp threads1.png threads$threads.png
done

# A CPU computes in fp32, whatever --math allows.
for math in fp32 tf32 bf16; do
    check "$UNFURL" upscale "$input" $math.h5 --device cpu --math $math --json
    holds check.out "\"math\": \"$math\""
    check "$COMPARE" values $math.h5:/output fp32.h5:/output 0
done

# From a pipe.
cat "$input" | "$UNFURL" upscale /dev/stdin piped.png >piped.out 2>&1
equal $? 0 "a picture from a pipe: $(cat piped.out)"
check "$COMPARE" pictures piped.png whole.png 0

# Pictures smaller than the halo, down to one pixel.
for size in "1 1" "1 9" "6 2"; do
    check "$FIXTURE" noise small.png $size
    check "$UNFURL" upscale small.png small2x.png
    check "$UNFURL" upscale small.png small2x.h5 --tile 1
    check "$COMPARE" rounded small2x.png small2x.h5:/output
done

# Grey goes in as R = G = B and comes out as their mean.
for kind in grey grey3 grey-alpha rgba opaque rgb16 grey16 colour profile; do
    check "$FIXTURE" picture "$input" $kind.png $kind
    check "$UNFURL" upscale $kind.png $kind-2x.png --tile 40
    check "$UNFURL" upscale $kind.png $kind-2x.h5 --tile 40
    check "$COMPARE" rounded $kind-2x.png $kind-2x.h5:/output
    check "$COMPARE" colour $kind.png $kind-2x.png
done
check "$COMPARE" type grey-2x.h5:/output f32 "(1, 128, 192)"
check "$COMPARE" mean grey-2x.h5:/output grey3-2x.h5:/output 1e-6
# Alpha is scaled as a grey picture of its own; in these pictures it is the green channel.
check "$COMPARE" type grey-alpha-2x.h5:/output f32 "(2, 128, 192)"
check "$COMPARE" values grey-alpha-2x.h5:/output grey-2x.h5:/output 2e-6 0 0 1
check "$COMPARE" values grey-alpha-2x.h5:/output grey-2x.h5:/output 2e-6 1 0 1
check "$COMPARE" type rgba-2x.h5:/output f32 "(4, 128, 192)"
check "$COMPARE" values rgba-2x.h5:/output whole.h5:/output 2e-6 0 0 3
check "$COMPARE" values rgba-2x.h5:/output grey-2x.h5:/output 2e-6 3 0 1
# What is opaque stays opaque, and its colours are those of the picture without alpha.
check "$COMPARE" values opaque-2x.h5:/output whole.h5:/output 2e-6 0 0 3
check "$UNFURL" inspect opaque-2x.h5
check "$FIXTURE" picture whole.png opaque-whole.png opaque
check "$COMPARE" pictures opaque-2x.png opaque-whole.png 0
# Sixteen bits: v * 257 of 65535 is v of 255.
check "$COMPARE" values rgb16-2x.h5:/output whole.h5:/output 2e-6
check "$COMPARE" values grey16-2x.h5:/output grey-2x.h5:/output 2e-6

# Weights: named, found through the environment, or missing.
mkdir -p data/weights
cp "$SOURCE/weights/upconv7_scale2x.h5" data/weights/
UNFURL_DATA_DIR=$work/data check "$UNFURL" upscale "$input" named.png
check "$COMPARE" pictures named.png whole.png 0
check "$UNFURL" upscale "$input" named.png --weights data/weights/upconv7_scale2x.h5
check "$COMPARE" pictures named.png whole.png 0

check "$UNFURL" upscale --json --tile=48 --device cpu "$input" out.png
holds check.out '"tile": 48'
holds check.out '"tiles": 4'
holds check.out '"width": 192'
holds check.out '"device": "CPU'
holds check.out '"network_seconds": '
equal "$(cat check.err)" "" "stderr on a pipe"
finish
