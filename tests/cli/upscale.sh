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
# stdin and stdout: the report goes to stderr, and nothing stays behind.
mkdir temporary
for output in - png:-; do
    cat "$input" | TMPDIR=$work/temporary "$UNFURL" upscale - $output --tile 0 2>piped.err >piped.png
    equal $? 0 "a picture through stdin and stdout: $(cat piped.err)"
    check cmp piped.png whole.png
    holds piped.err "$output: 192 x 128 pixels from 96 x 64"
done
"$UNFURL" upscale - h5:- --tile 0 --json <"$input" 2>piped.err | cat >piped.h5
check "$COMPARE" values piped.h5:/output whole.h5:/output 0
holds piped.err '"file": "h5:-"'
"$UNFURL" upscale - piped.png <"$input" >piped.out || complain "a file on stdin: $(cat piped.out)"
check "$COMPARE" pictures piped.png whole.png 0
if "$UNFURL" upscale "$input" out.jpg >jpeg.out 2>&1; then
    "$UNFURL" upscale - jpg:- <"$input" 2>piped.err | cmp - out.jpg || complain "another JPEG picture on stdout"
fi
"$UNFURL" upscale - - <"$input" 2>piped.err >/dev/full && complain "a full stdout is no failure"
holds piped.err "cannot write to standard output: No space left"
"$UNFURL" upscale - - <"$0" 2>piped.err | wc -c >piped.out
equal "$(tr -d ' ' <piped.out)" 0 "bytes of a picture that could not be made"
equal "$(ls temporary)" "" "what is left of a picture for stdout"

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
# Alpha is scaled as a grey picture of its own; in these pictures it is the green channel, and nowhere 0.
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

# Colours that nobody sees leave no fringe: a disc on black that is not there is the disc on its own colour.
for kind in black same; do
    check "$FIXTURE" disc $kind.png $kind
    check "$UNFURL" upscale $kind.png $kind-2x.png --tile 20
    check "$UNFURL" upscale $kind.png $kind-2x.h5
done
check "$COMPARE" pictures black-2x.png same-2x.png 0
check "$COMPARE" values black-2x.h5:/output same-2x.h5:/output 0

# JPEG: what comes out is near what a PNG gets, at a quality that keeps it; what goes in is told by its contents.
if "$UNFURL" upscale "$input" out.jpg --quality 100 >check.out 2>check.err; then
    check "$COMPARE" pictures out.jpg whole.png 6
    equal "$(od -An -tx1 -N3 out.jpg | tr -d ' ')" ffd8ff "the first bytes of a JPEG file"
    check "$UNFURL" upscale grey16.png grey.jpeg --tile 40 --quality 100
    check "$COMPARE" pictures grey.jpeg grey-2x.png 6
    check "$UNFURL" upscale "$input" small.jpg --quality 30
    [ "$(wc -c <small.jpg)" -lt "$(wc -c <out.jpg)" ] || complain "a low quality is no smaller file"
    refuse 1 "rgba.png has alpha, which a JPEG picture has not" upscale rgba.png x.jpg
    absent x.jpg
    cp grey.jpeg named-so.png
    mkdir photos
    cp out.jpg grey.jpeg named-so.png photos
    check "$UNFURL" upscale photos photos-2x
    equal "$(ls photos-2x | tr '\n' ' ')" "grey.jpeg named-so.png out.jpg " "the files of a folder of JPEG"
    equal "$(od -An -tx1 -N3 photos-2x/out.jpg | tr -d ' ')" ffd8ff "the first bytes of a JPEG file in a folder"
else
    holds check.err "built without JPEG"
fi

# Several pictures and folders: to a folder, which is made, under their names.
mkdir -p from/below
cp "$input" from/b.png
cp grey.png from/a.PNG
echo "no picture" >from/notes.txt
cp grey.png from/.hidden.png
cp rgba.png rgba-too.png
check "$UNFURL" upscale from rgba.png ./rgba-too.png to --json
holds check.out '"files": ['
equal "$(ls -A to | tr '\n' ' ')" "a.PNG b.png rgba-too.png rgba.png " "the files of a folder"
check "$COMPARE" pictures to/b.png whole.png 0
check "$COMPARE" pictures to/a.PNG grey-2x.png 0
check "$COMPARE" pictures to/rgba.png rgba-2x.png 0
check "$UNFURL" upscale "$input" new/
equal "$(ls -A new)" "upconv7_scale2x_input.png" "the files of a new folder"
equal "$(cat check.out | wc -l)" 1 "lines of a report"

# A model file: the same network from a text, and one whose extents have to be even.
head='unfurl model 1
input x f32 (N=1, 3, H=16, W=16)'
layers() {
    width=16
    last=x
    for i in 0 2 4 6 8 10; do
        echo "$i = conv2d($last, out_channels=$width)"
        last=$((i + 1))
        echo "$last = leaky_relu($i, negative_slope=0.1)"
        width=$((i == 0 ? 32 : i == 2 ? 64 : i < 8 ? 128 : 256))
    done
    echo "12 = conv_transpose2d(11, out_channels=3, kernel=4, stride=2, padding=3)"
}
{
    echo "$head"
    layers
    echo "output y = 12"
    echo "picture input x border=7"
    echo "picture output y scale=2"
} >upconv.txt
check "$FIXTURE" model upconv.txt random.h5 # for its /model; the weights are replaced
check "$FIXTURE" graft random.h5 "$SOURCE/weights/upconv7_scale2x.h5" upconv.h5
check "$UNFURL" upscale --model upconv.h5 "$input" model.png --tile 40
check "$COMPARE" pictures model.png whole.png 0
check "$UNFURL" run upconv.h5 --input x="$input" --output y=run.png
check "$COMPARE" pictures run.png whole.png 0

cat >even.txt <<'END'
unfurl model 1
input x f32 (N=1, 3, H=16, W=16)
a = avg_pool2d(x, kernel=2)
b = upsample_nearest(a, scale=2)
c = sub(x, b)
d = add(c, b)
y = upsample_nearest(d, scale=3)
output y = y
picture input x range=(-1, 1) channels=bgr border=2 border_mode=reflect multiple=4
picture output y range=(-1, 1) channels=bgr scale=3
END
check "$FIXTURE" model even.txt even.h5
check "$FIXTURE" noise odd.png 13 7
check "$UNFURL" upscale --model even.h5 odd.png odd3x.png
check "$UNFURL" upscale --model even.h5 odd.png tiles3x.png --tile 4
check "$COMPARE" pictures tiles3x.png odd3x.png 0
check "$UNFURL" run even.h5 --input x=odd.png --output y=run3x.png
check "$COMPARE" pictures run3x.png odd3x.png 0
check "$UNFURL" upscale --model even.h5 odd.png odd3x.h5
check "$COMPARE" type odd3x.h5:/output f32 "(3, 21, 39)"

# Means over the picture are those of all its tiles. The first is of (N, C), the second of (N, C, 1, 1).
cat >means.txt <<'END'
unfurl model 1
input x f32 (N=1, 3, H=16, W=16)
a = conv2d(x, out_channels=4)
b = avg_pool2d(a, kernel=2)
"c = mean(" = mean(b, axes=(2, 3))
d = linear("c = mean(", out_features=4)
e = reshape(d, shape=(-1, 4, 1, 1))
f = mul(b, e)
g = upsample_nearest(f, scale=2)
h = conv2d(g, out_channels=4)
i = mean(h, axes=(2, 3), keepdim=true)
j = mul(h, i)
k = conv2d(j, out_channels=3)
y = upsample_nearest(k, scale=2)
output y = y
picture input x border=3 multiple=2
picture output y scale=2
END
check "$FIXTURE" model means.txt means.h5
for tile in 2 6; do
    check "$UNFURL" upscale --model means.h5 odd.png once.h5 --dtype f64
    check "$UNFURL" upscale --model means.h5 odd.png pieces.h5 --dtype f64 --tile $tile
    check "$COMPARE" values pieces.h5:/output once.h5:/output 1e-12
done
check "$UNFURL" upscale --model means.h5 rgba.png once.h5 --dtype f64
check "$UNFURL" upscale --model means.h5 rgba.png pieces.h5 --dtype f64 --tile 40
check "$COMPARE" values pieces.h5:/output once.h5:/output 1e-12
check "$UNFURL" upscale --model means.h5 "$input" once.h5
check "$UNFURL" upscale --model means.h5 "$input" pieces.h5 --tile 20
check "$COMPARE" values pieces.h5:/output once.h5:/output 2e-6

# A mean of a quarter of the rows, with a border that is smaller than what the model looks at.
cat >quarter.txt <<'END'
unfurl model 1
input x f32 (N=1, 3, H=16, W=16)
a = avg_pool2d(x, kernel=4)
b = mean(a, axes=(2, 3), keepdim=true)
c = conv2d(x, out_channels=3, kernel=5, padding=2)
y = mul(c, b)
output y = y
picture input x multiple=4
END
check "$FIXTURE" model quarter.txt quarter.h5
check "$UNFURL" upscale --model quarter.h5 "$input" once.h5 --dtype f64
check "$UNFURL" upscale --model quarter.h5 "$input" pieces.h5 --dtype f64 --tile 20
check "$COMPARE" values pieces.h5:/output once.h5:/output 1e-12
# The same by run, and what can only run whole.
check "$UNFURL" run quarter.h5 --input x="$input" --output y=whole-run.png
check "$UNFURL" run quarter.h5 --input x="$input" --output y=tiled-run.png --tile 20
check "$COMPARE" pictures tiled-run.png whole-run.png 0
check "$UNFURL" upscale --model quarter.h5 "$input" upscaled.png --tile 20
check "$COMPARE" pictures tiled-run.png upscaled.png 0
sed 's/a = avg.*/a = instance_norm2d(x)/' quarter.txt >normed.txt
check "$FIXTURE" model normed.txt normed.h5
check "$UNFURL" run normed.h5 --input x="$input" --output y=whole-run.png
check "$UNFURL" upscale --model normed.h5 "$input" upscaled.png
check "$COMPARE" pictures upscaled.png whole-run.png 0

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
