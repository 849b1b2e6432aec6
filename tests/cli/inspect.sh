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
cp check.out table.out
check "$UNFURL" inspect --json "$weights"
cp check.out json.out
holds check.out '"name": "main.12.weight"'
holds check.out '"parameters": 951744'
check "$UNFURL" inspect "$SOURCE/weights/upconv7_scale2x.h5"
holds check.out "f16"

# Numbers in names by their value: main.9 before main.10, in the table and in JSON.
equal "$(sed -n 's/^main\.\([0-9]*\)\.weight .*/\1/p' table.out | tr '\n' ' ')" "0 1 3 4 6 7 9 10 12 " "order"
equal "$(sed -n 's/.*"name": "main\.\([0-9]*\)\.weight".*/\1/p' json.out | tr '\n' ' ')" "0 1 3 4 6 7 9 10 12 " \
    "order in JSON"

# Names of a file do not reach the terminal as they are, and columns stand below each other.
esc=$(printf 'main.12.\033[1A\033[2Kmain.0.weight\302\233J\377')
newline='main.12.x
25 tensors, 1 parameters'
check "$FIXTURE" rename "$weights" escapes.h5 main.12.weight "$esc"
check "$FIXTURE" rename escapes.h5 forged.h5 main.10.weight "$newline"
check "$FIXTURE" rename forged.h5 forged2.h5 main.9.weight "main.é.weight"
for file in forged.h5 forged2.h5; do
    check "$UNFURL" inspect $file
    shown check.out
    holds check.out 'main.12.\x1b[1A\x1b[2Kmain.0.weight\xc2\x9bJ\xff'
    holds check.out 'main.12.x\x0a25 tensors, 1 parameters '
    equal "$(wc -l <check.out)" 26 "lines"
    sed '/é/s/é/e/; $d' check.out | awk 'match($0, /  [fi][0-9]+ +/) { print RSTART + RLENGTH }' >columns
    equal "$(wc -l <columns)" 25 "rows with a type"
    equal "$(sort -u columns | wc -l)" 1 "places where the shapes begin"
    check "$UNFURL" inspect $file --json
    shown check.out
    holds check.out '"name": "main.12.\u001b[1A\u001b[2Kmain.0.weight\u009bJ\ufffd"'
done
refuse 1 'belongs to none of its layers' generate --weights forged.h5 --out x.png

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
