#!/bin/bash
# demo.sh - install what is missing, build, double a photo with a pretrained network and generate pictures
# with a trained GAN. Ends with where the pictures are, the device and the times.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

"$root/scripts/install-packages.sh" build
configure_options=("-DUNFURL_CUDA=$(cuda_of_this_machine)")
build release unfurl_command

unfurl=$root/build/release/bin/unfurl
photo=$root/examples/upscale/upconv7_scale2x_input.png
pictures=$root/build/demo
mkdir -p "$pictures"

# timed COMMAND...: run it and put the seconds it took into `seconds`.
timed() {
    local begin=$EPOCHREALTIME
    "$@"
    seconds=$(awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.2f", b - a }')
}

timed "$unfurl" upscale "$photo" "$pictures/photo@2x.png"
upscale_seconds=$seconds
timed "$unfurl" generate --weights "$root/weights/dcgan_fashion_mnist.h5" --count 64 --seed 7 \
    --out "$pictures/generated.png"
generate_seconds=$seconds

say
say "the photo               $photo"
say "the photo, doubled      $pictures/photo@2x.png  (${upscale_seconds} s)"
say "64 generated pictures   $pictures/generated.png  (${generate_seconds} s)"
say
"$unfurl" devices
