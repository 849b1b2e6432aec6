# The command line itself: help, versions, and every way to get it wrong.
. "$SOURCE/tests/cli/lib.sh"

check "$UNFURL" --version
version=$(sed -n 's/^#define UF_VERSION_STRING "\(.*\)"$/\1/p' "$SOURCE/include/unfurl/export.h")
equal "$(cat check.out)" "unfurl $version" "--version"
check "$UNFURL" --help
for command in upscale generate inspect devices; do
    check "$UNFURL" --help
    holds check.out "  $command "
    check "$UNFURL" $command --help
    holds check.out "Usage: unfurl $command"
    holds check.out "--json"
    equal "$(cat check.err)" "" "stderr of $command --help"
done
check "$UNFURL" generate --nonsense --help
check "$UNFURL" generate --help
for option in --weights --out --count --seed --latent --device --dtype --threads; do
    holds check.out "  $option "
done
check "$UNFURL" upscale --help
for option in --weights --tile --device --dtype --threads; do
    holds check.out "  $option "
done

refuse 2 "no command given"
refuse 2 "there is no command 'upscal'; did you mean 'upscale'?" upscal
refuse 2 "there is no command 'frobnicate'; 'unfurl --help' lists them" frobnicate
refuse 2 "unknown option --jsn" --jsn
refuse 2 "unknown option --cuont; did you mean --count?" generate --cuont 3
refuse 2 "unknown option --frobnicate; 'unfurl generate --help' lists them" generate --frobnicate
refuse 2 "unknown option -n; options begin with two dashes" generate -n 3
refuse 2 "--weights needs a value" generate --out x.png --weights
refuse 2 "--count needs a value: an integer from 1 to 100000" generate --count --json
refuse 2 "--weights FILE.h5 is missing" generate --out x.png
refuse 2 "--out OUT is missing" generate --weights w.h5
refuse 2 "--weights is empty" generate --weights= --out x.png
for count in 0 -1 100001 99999999999999999999 ten 3.5 3x ''; do
    refuse 2 "--count is '$count'; it takes an integer from 1 to 100000" generate \
        --weights w.h5 --out x.png --count "$count"
done
refuse 2 "--seed is '-1'" generate --weights w.h5 --out x.png --seed -1
refuse 2 "--device is 'gpu'; it takes auto, cpu or cuda" generate --weights w.h5 --out x.png --device gpu
refuse 2 "--dtype is 'f16'; it takes f32 or f64" generate --weights w.h5 --out x.png --dtype=f16
refuse 2 "--threads is '0'; it takes an integer from 1 to 1024" generate --weights w.h5 --out x.png --threads 0
refuse 2 "--json takes no value" generate --weights w.h5 --out x.png --json=yes
refuse 2 "unexpected argument 'extra'" generate extra --weights w.h5 --out x.png
refuse 2 "--seed and --latent exclude each other" generate --weights w.h5 --out x.png --seed 1 --latent l.h5:/z
refuse 2 "a name that ends in .png or .h5" generate --weights w.h5 --out x.jpg
refuse 2 "IN.png is missing" upscale
refuse 2 "OUT.png is missing" upscale in.png
refuse 2 "unexpected argument 'three.png'" upscale one.png two.png three.png
refuse 2 "must end in .png or .h5" upscale in.png out.gif
refuse 2 "--tile is '-1'; it takes an integer from 0 to 65536" upscale in.png out.png --tile -1
refuse 2 "FILE.h5 is missing" inspect
refuse 2 "unexpected argument" devices all

# "--" ends the options: what follows is a name even with dashes before it.
refuse 1 "--in.png" upscale -- --in.png out.png

check "$UNFURL" devices
holds check.out "cpu 0"
check "$UNFURL" devices --json
holds check.out '"kind": "cpu"'
holds check.out '"usable": true'

# What could not be written is a failure, not a silence.
if [ -w /dev/full ]; then
    "$UNFURL" devices >/dev/full 2>full.err
    equal "$?" 1 "status with a full disk"
    holds full.err "unfurl: cannot write to standard output"
fi
finish
