# unfurl inspect
. "$SOURCE/tests/cli/lib.sh"
weights=$SOURCE/weights/dcgan_fashion_mnist.h5

check "$UNFURL" inspect "$weights"
holds check.out "main.0.weight"
holds check.out "(64, 256, 4, 4)"
holds check.out "i64"
# Counted by hand: 256*64*16 + 256*128*16 + 128*64*16 + 64*32*16 + 32*16 + 2*(256 + 128 + 64 + 32)
# parameters; the running statistics and four counters come on top.
holds check.out "25 tensors, 951744 parameters, 952708 elements, 3810848 bytes"
check "$UNFURL" inspect --json "$weights"
holds check.out '"name": "main.12.weight"'
holds check.out '"parameters": 951744'
check "$UNFURL" inspect "$SOURCE/weights/upconv7_scale2x.h5"
holds check.out "f16"

check "$FIXTURE" strings strings.h5
check "$UNFURL" inspect strings.h5
holds check.out "string"
holds check.out "0 tensors"
check "$UNFURL" inspect strings.h5 --json
holds check.out '"is_tensor": false'

refuse 1 "nowhere.h5" inspect nowhere.h5
echo "these are not weights" >text.h5
refuse 1 "text.h5" inspect text.h5
head -c 100000 "$weights" >cut.h5
refuse 1 "cut.h5" inspect cut.h5
refuse 1 "$work" inspect "$work"
: >empty.h5
refuse 1 "empty.h5" inspect empty.h5
finish
