# unfurl upscale: bad input never crashes and always explains.
. "$SOURCE/tests/cli/lib.sh"
input=$SOURCE/examples/upscale/upconv7_scale2x_input.png
weights=$SOURCE/weights/upconv7_scale2x.h5

refuse 1 "nowhere.png" upscale nowhere.png x.png
refuse 2 "several pictures go to a folder, and x.png is a file's name" upscale "$work" x.png
refuse 1 "$work has no pictures" upscale "$work" x
refuse 2 "several pictures go to a folder, and - is stdout" upscale a.png b.png -
refuse 2 "that of - does not end in .png" upscale a.png - x/
refuse 2 "the output is 'wav:-'; stdout gets a picture or HDF5" upscale a.png wav:-
refuse 1 "nowhere.png" upscale nowhere.png -
refuse 2 "that of nowhere does not end in .png" upscale nowhere nothing.png x/
refuse 2 "both a.png and b/a.png would become x/a.png" upscale a.png b/a.png x
refuse 1 "cannot make the folder no/such/" upscale a.png no/such/
cp "$input" a.png
refuse 2 "a.png would be replaced by its own result" upscale ./a.png b.png .
absent x
echo "this is not a picture" >text.png
refuse 1 "text.png" upscale text.png x.png
: >empty.png
refuse 1 "empty.png" upscale empty.png x.png
for size in 8 20 60 5000; do
    head -c $size "$input" >cut.png
    refuse 1 "cut.png" upscale cut.png x.png
done
# A header for 0 x 0 pixels, its check sum in order.
printf '\211PNG\r\n\032\n\000\000\000\015IHDR\000\000\000\000\000\000\000\000\010\002\000\000\000\264\351\353\105\000\000\000\000IEND\256B\140\202' >zero.png
refuse 1 "zero.png" upscale zero.png x.png
refuse 1 "cannot write no/such/folder/x.png: its directory does not exist" upscale "$input" no/such/folder/x.png
mkdir folder.png
refuse 1 "cannot write folder.png: it is a directory" upscale "$input" folder.png

refuse 2 "--max-pixels is '0'" upscale "$input" x.png --max-pixels 0
refuse 1 "pixels, more than the 1000 that max_pixels allows" upscale "$input" x.png --max-pixels 1000
# Gamma that no PNG file can keep: said at once, not after the work.
check "$FIXTURE" picture "$input" colour.png colour
printf '\377\377\377\377' >large
offset=$(grep -abo gAMA colour.png | head -n 1 | cut -d : -f 1)
dd if=large of=colour.png bs=1 seek=$((offset + 4)) conv=notrunc 2>/dev/null
printf '\125\236\100\256' >sum
dd if=sum of=colour.png bs=1 seek=$((offset + 8)) conv=notrunc 2>/dev/null
refuse 1 "has a gAMA chunk of 42949.67295" upscale colour.png x.png --weights nowhere.h5

refuse 1 "nowhere.h5" upscale "$input" x.png --weights nowhere.h5
refuse 1 "text.png" upscale "$input" x.png --weights text.png
head -c 500000 "$weights" >cut.h5
refuse 1 "cut.h5" upscale "$input" x.png --weights cut.h5
refuse 1 "0.weight" upscale "$input" x.png --weights "$SOURCE/weights/dcgan_fashion_mnist.h5"
check "$FIXTURE" drop "$weights" missing.h5 6.bias
refuse 1 "6.bias" upscale "$input" x.png --weights missing.h5
check "$FIXTURE" rename "$weights" wrong.h5 4.weight 40.weight
refuse 1 "4.weight" upscale "$input" x.png --weights wrong.h5
check "$FIXTURE" poison "$weights" nan.h5 0.bias
refuse 1 "not finite" upscale "$input" x.png --weights nan.h5
# Networks: a model file that is none, names and combinations that there are not.
refuse 1 "nowhere.h5" upscale "$input" x.png --model nowhere.h5
refuse 1 "upconv7_scale2x.h5" upscale "$input" x.png --model "$weights"
refuse 2 "there is no network 'cunte'; did you mean cunet?" upscale "$input" x.png --model cunte
refuse 2 "it takes waifu2x, cunet, realesrgan, realesrgan-anime, realcugan, or a model file" \
    upscale "$input" x.png --model anything
refuse 2 "--model waifu2x has no network for --scale 3; it has --scale 2 with no --noise, --noise 0, " \
    upscale "$input" x.png --scale 3
refuse 2 "no network for --scale 3 --noise 1; it has --scale 2 with no --noise, --noise 0, --noise 1, --noise 2, \
--noise 3; --scale 3 with no --noise, --noise 0, --noise 3; --scale 4" \
    upscale "$input" x.png --model realcugan --scale 3 --noise 1
refuse 2 "a.h5 is one network" upscale "$input" x.png --model a.h5 --scale 2
refuse 2 "--weights is for upconv_7 alone" upscale "$input" x.png --model cunet --weights "$weights"
XDG_DATA_HOME=$work/data
export XDG_DATA_HOME
refuse 1 "cunet-x2-noise1.h5 is not in $work/data/unfurl/networks; '" \
    upscale "$input" x.png --model cunet --noise 1
refuse 1 "fetch-networks realesrgan-anime' fetches it" upscale "$input" x.png --model realesrgan-anime
unset XDG_DATA_HOME
# write NAME LINES: a model file with this text behind its input.
write() {
    printf 'unfurl model 1\ninput x f32 (N=1, 3, H=8, W=8)\n%b' "$2" >"$1.txt"
    check "$FIXTURE" model "$1.txt" "$1.h5"
}
write small 'y = avg_pool2d(x, kernel=2)\noutput y = y\n'
refuse 1 "the network makes 48 x 32 pixels of 96 x 64 and a border of 0; its picture lines say scale=1" \
    upscale "$input" x.png --model small.h5
write large 'y = upsample_nearest(x, scale=2)\noutput y = y\n'
refuse 1 "the network makes 192 x 128 pixels of 96 x 64" upscale "$input" x.png --model large.h5
write grey 'y = mean(x, axes=(1), keepdim=true)\noutput y = y\n'
refuse 1 "the network makes pictures of 1 channels; it must be 3" upscale "$input" x.png --model grey.h5
write normed 'y = instance_norm2d(x)\noutput y = y\n'
refuse 1 "instance_norm2d cannot be tiled" upscale "$input" x.png --model normed.h5 --tile 20
write two 'y = neg(x)\noutput y = y\noutput z = x\n'
refuse 1 "two.h5 has 1 inputs and 2 outputs" upscale "$input" x.png --model two.h5
write flat 'y = mean(x)\noutput y = y\n'
refuse 1 "the output y is (), no image" upscale "$input" x.png --model flat.h5
UNFURL_DATA_DIR=$work/elsewhere
export UNFURL_DATA_DIR
refuse 1 "upconv7_scale2x.h5 is not in $work/elsewhere/weights" upscale "$input" x.png
unset UNFURL_DATA_DIR
if "$UNFURL" devices | grep -q '^cuda -'; then
    refuse 1 "CUDA" upscale "$input" x.png --device cuda
fi
absent x.png
finish
