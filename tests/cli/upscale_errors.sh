# unfurl upscale: bad input never crashes and always explains.
. "$SOURCE/tests/cli/lib.sh"
input=$SOURCE/examples/upscale/upconv7_scale2x_input.png
weights=$SOURCE/weights/upconv7_scale2x.h5

refuse 1 "nowhere.png" upscale nowhere.png x.png
refuse 1 "$work" upscale "$work" x.png
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
UNFURL_DATA_DIR=$work/elsewhere
export UNFURL_DATA_DIR
refuse 1 "upconv7_scale2x.h5 is not in $work/elsewhere/weights" upscale "$input" x.png
unset UNFURL_DATA_DIR
if "$UNFURL" devices | grep -q '^cuda -'; then
    refuse 1 "CUDA" upscale "$input" x.png --device cuda
fi
absent x.png
finish
