# unfurl generate: agrees with PyTorch, and with itself.
. "$SOURCE/tests/cli/lib.sh"
weights=$SOURCE/weights/dcgan_fashion_mnist.h5
reference=$SOURCE/tests/data/dcgan_fashion_mnist_reference.h5

check "$UNFURL" generate --weights "$weights" --latent "$reference:/z" --out y.h5
check "$COMPARE" type y.h5:/images f32 "(16, 1, 64, 64)"
check "$COMPARE" values y.h5:/images "$reference:/images_f64" 1e-5
check "$UNFURL" generate --weights "$weights" --latent "$reference:/z" --out y64.h5 --dtype f64
check "$COMPARE" type y64.h5:/images f64 "(16, 1, 64, 64)"
check "$COMPARE" values y64.h5:/images "$reference:/images_f64" 1e-11
check "$FIXTURE" flatten "$reference:/z" flat.h5
check "$UNFURL" generate --weights "$weights" --latent flat.h5:/z --out flat_y.h5
check "$COMPARE" values flat_y.h5:/images y.h5:/images 0

# The names of the modules do not matter, their order and their kinds do.
for prefix in "" net. module._orig_mod.decoder.; do
    check "$FIXTURE" rename "$weights" renamed.h5 main. "$prefix"
    check "$UNFURL" generate --weights renamed.h5 --latent "$reference:/z" --out renamed_y.h5
    check "$COMPARE" values renamed_y.h5:/images y.h5:/images 0
done

# A convolution with a bias, a rectangular kernel, three channels; a full batch and a rest.
check "$FIXTURE" layer one.h5 one_z.h5 one_y.h5
check "$UNFURL" generate --weights one.h5 --latent one_z.h5:/z --out one_out.h5 --dtype f64
check "$COMPARE" values one_out.h5:/images one_y.h5:/images 1e-14
check "$UNFURL" generate --weights one.h5 --latent one_z.h5:/z --out one_f32.h5
check "$COMPARE" values one_f32.h5:/images one_y.h5:/images 1e-6
check "$UNFURL" generate --weights one.h5 --latent one_z.h5:/z --out one.png --dtype f64
check "$COMPARE" grid one.png one_y.h5:/images

# Pictures: a grid as torchvision makes it.
for count in 1 2 9; do
    check "$UNFURL" generate --weights "$weights" --out n.png --count $count --seed 3
    check "$UNFURL" generate --weights "$weights" --out n.h5 --count $count --seed 3
    check "$COMPARE" type n.h5:/images f32 "($count, 1, 64, 64)"
    check "$COMPARE" grid n.png n.h5:/images
done
check "$COMPARE" range n.h5:/images -1 1

# The same seed gives the same bytes, whatever the number of threads; another seed gives another picture.
check "$UNFURL" generate --weights "$weights" --out a.png --seed 7
for threads in 1 2 3; do
    check "$UNFURL" generate --weights "$weights" --out b.png --seed 7 --threads $threads
    check cmp a.png b.png
done
check "$UNFURL" generate --weights "$weights" --out c.png --seed 8
equal "$(cmp -s a.png c.png && echo same)" "" "pictures of seeds 7 and 8"
# Image i does not depend on how many there are, nor on the batch: what 64 leave takes a second program.
for count in 3 64 65 67; do
    check "$UNFURL" generate --weights "$weights" --out n$count.h5 --count $count --seed 5 --dtype f64
    check "$COMPARE" type n$count.h5:/images f64 "($count, 1, 64, 64)"
done
check "$COMPARE" head n3.h5:/images n64.h5:/images 1e-12
check "$COMPARE" head n64.h5:/images n65.h5:/images 1e-12
check "$COMPARE" head n65.h5:/images n67.h5:/images 1e-12
# A run in f32 starts from the same latents.
check "$UNFURL" generate --weights "$weights" --out f32.h5 --count 64 --seed 5
check "$COMPARE" values f32.h5:/images n64.h5:/images 1e-4
check "$UNFURL" generate --weights "$weights" --latent "$reference:/z" --count 3 --out three.h5
check "$COMPARE" type three.h5:/images f32 "(3, 1, 64, 64)"

check "$UNFURL" generate --weights "$weights" --out j.h5 --count 2 --json --device cpu
holds check.out '"count": 2'
holds check.out '"device": "CPU'
holds check.out '"network_seconds": '
equal "$(cat check.err)" "" "stderr on a pipe"
finish
