# unfurl generate: bad input never crashes and always explains.
. "$SOURCE/tests/cli/lib.sh"
weights=$SOURCE/weights/dcgan_fashion_mnist.h5
reference=$SOURCE/tests/data/dcgan_fashion_mnist_reference.h5

refuse 1 "nowhere.h5" generate --weights nowhere.h5 --out x.png
echo "these are not weights" >text.h5
refuse 1 "text.h5" generate --weights text.h5 --out x.png
head -c 1000000 "$weights" >cut.h5
refuse 1 "cut.h5" generate --weights cut.h5 --out x.png
check "$FIXTURE" strings strings.h5
refuse 1 "main.0.weight" generate --weights strings.h5 --out x.png

# Only libhdf5 reads this one, and only when it is told that the file is no stranger's.
check "$FIXTURE" share "$weights" shared.h5
refuse 1 "only libhdf5 reads that, in files that you trust" generate --weights shared.h5 --out x.png
check "$UNFURL" generate --weights shared.h5 --trust --count 1 --out x.png
rm -f x.png
refuse 1 "cannot write no/such/folder/x.png: its directory does not exist" generate --weights "$weights" --out no/such/folder/x.png
mkdir folder.png
refuse 1 "cannot write folder.png: it is a directory" generate --weights "$weights" --out folder.png

# Files that are no DCGAN generator.
refuse 1 "it has no transposed convolution" generate --weights "$reference" --out x.png
refuse 1 "is no DCGAN generator" generate --weights "$SOURCE/weights/upconv7_scale2x.h5" --out x.png
check "$FIXTURE" drop "$weights" no_mean.h5 main.4.running_mean
refuse 1 "there is no batch norm between main.3 and main.6 (main.4.running_mean is missing)" \
    generate --weights no_mean.h5 --out x.png
check "$FIXTURE" drop "$weights" no_var.h5 main.4.running_var
refuse 1 "main.4.running_var is missing" generate --weights no_var.h5 --out x.png
check "$FIXTURE" drop "$weights" no_bias.h5 main.7.bias
refuse 1 "main.7.bias is missing" generate --weights no_bias.h5 --out x.png
check "$FIXTURE" drop "$weights" no_layer.h5 main.3.weight
refuse 1 "main.0.weight gives 256 channels and main.6.weight takes 128" \
    generate --weights no_layer.h5 --out x.png
check "$FIXTURE" rename "$weights" stranger.h5 main.12.weight main.12.weighty
refuse 1 "belongs to none of its layers" generate --weights stranger.h5 --out x.png
check "$FIXTURE" rename "$weights" two.h5 main.3 other.3
refuse 1 "its layers are not one sequence" generate --weights two.h5 --out x.png
check "$FIXTURE" rename "$weights" named.h5 main.3 main.conv
refuse 1 "its layers must be numbered" generate --weights named.h5 --out x.png
check "$FIXTURE" poison "$weights" nan.h5 main.3.weight
refuse 1 "image 0 has values that are not finite" generate --weights nan.h5 --out x.png

# Latents.
refuse 2 "a file and a dataset in it" generate --weights "$weights" --latent z.h5 --out x.png
refuse 1 "nowhere.h5" generate --weights "$weights" --latent nowhere.h5:/z --out x.png
refuse 1 "has no dataset y" generate --weights "$weights" --latent "$reference:/y" --out x.png
refuse 1 "main.0.weight" generate --weights "$weights" --latent strings.h5:/main.0.weight --out x.png
check "$FIXTURE" latents nan_z.h5 nan
refuse 1 "value 5 of latent 2 is nan; latents must be finite" \
    generate --weights "$weights" --latent nan_z.h5:/z --out x.png
check "$FIXTURE" latents inf_z.h5 inf
refuse 1 "value 5 of latent 2 is inf" generate --weights "$weights" --latent inf_z.h5:/z --out x.png
check "$FIXTURE" latents narrow.h5 narrow
refuse 1 "is (8, 32, 1, 1); the generator takes latents of shape (N, 64, 1, 1) or (N, 64)" \
    generate --weights "$weights" --latent narrow.h5:/z --out x.png
check "$FIXTURE" latents rank1.h5 rank1
refuse 1 "is (256,)" generate --weights "$weights" --latent rank1.h5:/z --out x.png
refuse 1 "holds 16 latents, --count asks for 17" \
    generate --weights "$weights" --latent "$reference:/z" --count 17 --out x.png

# A machine without a GPU says so; with one, this is no error.
if "$UNFURL" devices | grep -q '^cuda -'; then
    refuse 1 "CUDA" generate --weights "$weights" --out x.png --device cuda
fi
absent x.png
finish
