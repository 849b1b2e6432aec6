# unfurl run: pictures, arrays and random numbers through model files
. "$SOURCE/tests/cli/lib.sh"
picture=$SOURCE/examples/upscale/upconv7_scale2x_input.png
[ -f "$picture" ] || complain "no $picture"

# write NAME: the model file NAME.h5 of the text on stdin.
write() {
    cat >"$1.txt"
    check "$FIXTURE" model "$1.txt" "$1.h5"
}

# A picture comes back as it went in: through its map, a border, and the cut to the centre.
write same <<'END'
unfurl model 1
input image f32 (N=1, 3, H=8, W=8)
y = neg(image)
z = neg(y)
output image = z
picture input image range=(-1, 1) mean=(0.5, 0.25, 0) std=(1, 2, 3) channels=bgr border=5 border_mode=reflect
picture output image range=(-1, 1) mean=(0.5, 0.25, 0) std=(1, 2, 3) channels=bgr
END
check "$UNFURL" run same.h5 --input image="$picture" --output image=out.png
holds check.out "image (1, 3, "
check "$COMPARE" pictures "$picture" out.png 0

# Up to a multiple: 96 x 64 pixels become 100 x 70, and what comes back begins where it did.
sed 's/border_mode=reflect/border_mode=reflect multiple=10/' same.txt >tens.txt
check "$FIXTURE" model tens.txt tens.h5
check "$UNFURL" run tens.h5 --input image="$picture" --output image=tens.png --output image=tens.npy
holds check.out "image (1, 3, 80, 110)"
check "$COMPARE" pictures "$picture" tens.png 0

# Two pictures are a batch, and a grid.
check "$UNFURL" run same.h5 --input image="$picture" --input image="$picture" --output image=two.h5 --output image=two.png
holds check.out "image (2, 3, "
check "$UNFURL" run same.h5 --input image="$picture" --input image="$picture" --json
holds check.out '"not_finite": 0'

# Arrays: .npy and .h5 hold the same numbers, and a program reads back what it wrote.
write line <<'END'
unfurl model 1
input x f32 (N=2, 3, 4)
y = linear(x, out_features=5)
output y = y
output z = x
END
check "$UNFURL" run line.h5 --input x=randn --seed 3 --output z=x.npy --output y=y.h5
check "$UNFURL" run line.h5 --input x=randn --seed 3 --output z=x.h5 --output y=y.h5
check "$UNFURL" run line.h5 --input x=x.npy --output y=again.h5
check "$COMPARE" values y.h5:/y again.h5:/y 0
check "$UNFURL" run line.h5 --input x=x.h5:z --output y=again.h5
check "$COMPARE" values y.h5:/y again.h5:/y 0
check "$UNFURL" run line.h5 --input x=randn:7,3,4 --dtype f64 --output y=wide.h5
check "$COMPARE" type wide.h5:/y f64 "(7, 3, 5)"
check "$UNFURL" run line.h5 --input x=zeros --profile
holds check.out " ms  linear"

# Indices.
write labels <<'END'
unfurl model 1
input labels i64 (N=4)
e = embedding(labels, num_embeddings=5, embedding_dim=2)
output e = e
END
check "$UNFURL" run labels.h5 --input labels=randint:5
refuse 2 "has indices" run labels.h5 --input labels=randn
refuse 1 "x.npy has real numbers" run labels.h5 --input labels=x.npy

# Tiles: the same picture as the whole run's, with a border, a scale and layers that look around.
write tiled <<'END'
unfurl model 1
input image f32 (N=1, 3, H=8, W=8)
a = softmax(image, axis=1)
b = avg_pool2d(a, kernel=5, stride=1, padding=2)
c = max_pool2d(b, kernel=2)
d = upsample_nearest(c, scale=4)
output image = d
picture input image border=3 border_mode=reflect
picture output image scale=2
END
check "$UNFURL" run tiled.h5 --input image="$picture" --output image=whole.png
for tile in 7 32 100 auto; do
    check "$UNFURL" run tiled.h5 --input image="$picture" --output image=tiled.png --tile $tile
    holds check.out " tiles, "
    check "$COMPARE" pictures whole.png tiled.png 0
done
check "$UNFURL" run tiled.h5 --input image="$picture" --output image=tiled.png --tile 32 --dtype f64 --json
holds check.out '"columns": '
refuse 2 "it takes auto or a number" run tiled.h5 --input image="$picture" --output image=tiled.png --tile 0
refuse 2 "one picture as an input and one as an output" run tiled.h5 --input image=zeros --output image=tiled.png --tile 9
refuse 2 "with --tile it is a .png or .jpg" run tiled.h5 --input image="$picture" --output image=x.npy --tile 9
write whole <<'END'
unfurl model 1
input image f32 (N=1, 3, H=8, W=8)
y = instance_norm2d(image)
output image = y
END
refuse 1 "instance_norm2d cannot be tiled" run whole.h5 --input image="$picture" --output image=no.png --tile 9
[ ! -e no.png ] || complain "no.png is there"

# A folder's pictures, each by itself and under its name.
mkdir in out empty
cp "$picture" in/a.png
cp whole.png in/b.PNG
echo text >in/text.txt
check "$UNFURL" run same.h5 --input image=in --output image=out
check "$COMPARE" pictures in/a.png out/a.png 0
check "$COMPARE" pictures in/b.PNG out/b.PNG 0
equal "$(ls out | wc -l)" 2 "pictures"
check "$UNFURL" run tiled.h5 --input image=in --output image=out --tile 40 --dtype f64
check "$UNFURL" run tiled.h5 --input image=in/b.PNG --output image=b.png --dtype f64
check "$COMPARE" pictures b.png out/b.PNG 0
refuse 1 "empty has no pictures" run same.h5 --input image=empty --output image=out
refuse 2 "names one that is there" run same.h5 --input image=in --output image=x.png
refuse 2 "names one that is there" run same.h5 --input image=in

# From a pipe, and to one: the report goes to stderr. Contents, and no name, say what comes in.
cat "$picture" | "$UNFURL" run same.h5 --input image=- --output image=piped.png >check.out || complain "no picture from a pipe"
check "$COMPARE" pictures "$picture" piped.png 0
cat "$picture" | "$UNFURL" run tiled.h5 --input image=- --output image=piped.png --tile 50 >check.out || complain "no tiles from a pipe"
check "$COMPARE" pictures whole.png piped.png 0
cat "$picture" | "$UNFURL" run same.h5 --input image=/dev/stdin --output image=- 2>check.err >piped.png || complain "no picture through pipes"
holds check.err "image (1, 3, "
check "$COMPARE" pictures "$picture" piped.png 0
"$UNFURL" run tiled.h5 --input image=- --output image=png:- --tile 32 --json <"$picture" 2>check.err | cat >piped.png
holds check.err '"file": "png:-"'
check "$COMPARE" pictures whole.png piped.png 0
"$UNFURL" run line.h5 --input x=randn --seed 3 --output z=npy:- 2>/dev/null | cmp - x.npy || complain "another .npy on stdout"
"$UNFURL" run line.h5 --input x=- --output y=again.h5 <x.npy >check.out || complain "no .npy on stdin"
check "$COMPARE" values y.h5:/y again.h5:/y 0
cat x.npy | "$UNFURL" run line.h5 --input x=- --output y=h5:- 2>/dev/null >again.h5 || complain "no .h5 on stdout"
check "$COMPARE" values y.h5:/y again.h5:/y 0
cat x.h5 >named.png
check "$UNFURL" run line.h5 --input x=named.png:z --output y=again.h5
check "$COMPARE" values y.h5:/y again.h5:/y 0
sed 's/output z = x/output x = x/' line.txt >named.txt
check "$FIXTURE" model named.txt named.h5
check "$UNFURL" run named.h5 --input x=x.npy --output x=in.h5
cat in.h5 | "$UNFURL" run named.h5 --input x=- --output y=again.h5 >check.out || complain "no .h5 on stdin"
check "$COMPARE" values y.h5:/y again.h5:/y 0
refuse 2 "stdin (-) is one input" run same.h5 --input image=- --input image=- --output image=x.png <"$picture"
refuse 2 "stdout (-) is one output" run line.h5 --input x=randn --output y=npy:- --output z=npy:-
refuse 2 "NAME=TYPE:- for stdout" run line.h5 --input x=randn --output y=gif:-
refuse 1 "no output named w" run line.h5 --input x=randn --output w=npy:-
refuse 2 "with --tile it is a .png or .jpg" run tiled.h5 --input image="$picture" --output image=npy:- --tile 9
"$UNFURL" run line.h5 --input x=randn --output y=npy:- 2>check.err >/dev/full && complain "a full stdout is no failure"
holds check.err "cannot write to standard output: No space left"
mkdir temporary
TMPDIR=$work/temporary "$UNFURL" run line.h5 --input x=randn --output y=npy:- 2>/dev/null | cat >check.out
equal "$(ls temporary)" "" "what is left of a file for stdout"
if command -v script >/dev/null; then # a terminal
    script -qec "'$UNFURL' run same.h5 --input image='$picture' --output image=-" /dev/null >check.out </dev/null
    holds check.out "stdout (-) is a terminal"
fi

# bf16: files are f32.
check "$UNFURL" run same.h5 --input image="$picture" --output image=half.png --dtype bf16
check "$COMPARE" pictures "$picture" half.png 3
check "$UNFURL" run line.h5 --input x=randn --dtype bf16 --output y=y.h5 --json
holds check.out '"dtype": "bf16"'
check "$COMPARE" type y.h5:/y f32 "(2, 3, 5)"
check "$UNFURL" run same.h5 --input image="$picture" --output image=half2.png --dtype bf16 --tile 33
check "$COMPARE" pictures half.png half2.png 0

# JPEG in and out, told by its contents.
if "$UNFURL" run same.h5 --input image="$picture" --output image=out.jpg >check.out 2>&1; then
    [ "$(od -An -tx1 -N3 out.jpg | tr -d ' ')" = ffd8ff ] || complain "out.jpg is no JPEG picture"
    cp out.jpg named.png
    check "$UNFURL" run same.h5 --input image=named.png --output image=back.png
    check "$COMPARE" pictures "$picture" back.png 40
    check "$UNFURL" run same.h5 --input image="$picture" --output image=small.jpg --quality 5
    [ "$(wc -c <small.jpg)" -lt "$(wc -c <out.jpg)" ] || complain "--quality 5 makes no smaller file"
    check "$UNFURL" run tiled.h5 --input image=out.jpg --output image=tiled.jpg --tile 50
    check "$UNFURL" run tiled.h5 --input image=out.jpg --output image=whole.jpg
    cmp -s tiled.jpg whole.jpg || complain "a tiled JPEG picture differs"
else
    holds check.out "no libjpeg-turbo"
fi

# Mistakes: one sentence each.
refuse 2 "MODEL.h5 is missing" run
refuse 1 "no.h5" run no.h5
refuse 1 "is no model file" run "$SOURCE/weights/upconv7_scale2x.h5"
refuse 2 "--input x=... is missing: (2, 3, 4)" run line.h5
refuse 2 "the model's inputs are x" run line.h5 --input z=randn
refuse 2 "it takes NAME=FILE" run line.h5 --input randn
refuse 2 "ends in .png, .jpg, .npy, .h5 or .wav" run line.h5 --input x=randn --output y=y.txt
refuse 1 "cannot read numbers.txt: No such file or directory; randn, " run line.h5 --input x=numbers.txt
refuse 1 "line.txt is no picture (PNG, JPEG), no sound (.wav) and no array" run line.h5 --input x=line.txt
refuse 2 "a shape is 1 to 8 extents" run line.h5 --input x=randn:2,0,4
refuse 2 "ends no shape" run line.h5 --input x=randn:2,3,4x
refuse 1 "input x cannot be (2, 3, 5)" run line.h5 --input x=randn:2,3,5
refuse 1 "cannot be one batch" run line.h5 --input x=randn --input x=randn:2,3,5
refuse 1 "no output named w" run line.h5 --input x=randn --output w=w.h5
refuse 1 "a picture is made of (N, C, H, W)" run line.h5 --input x=randn --output y=y.png
refuse 1 "is no picture" run line.h5 --input x="$picture"
refuse 2 "--limit is 'x'" run line.h5 --input x=randn --check two.h5 --limit x
refuse 1 "no values and no outputs" run line.h5 --input x=randn --check two.h5
printf 'no array' >bad.npy
refuse 1 "bad.npy is no picture (PNG, JPEG), no sound (.wav) and no array" run line.h5 --input x=bad.npy
head -c 100 x.npy >cut.npy
refuse 1 "cut.npy" run line.h5 --input x=cut.npy
refuse 1 "no/such" run line.h5 --input x=randn --output y=no/such/y.npy
absent no
finish
