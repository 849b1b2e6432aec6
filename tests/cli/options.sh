# The command line itself: help, versions, and every way to get it wrong.
. "$SOURCE/tests/cli/lib.sh"

check "$UNFURL" --version
version=$(sed -n 's/^#define UF_VERSION_STRING "\(.*\)"$/\1/p' "$SOURCE/include/unfurl/export.h")
equal "$(cat check.out)" "unfurl $version" "--version"
check "$UNFURL" -V
equal "$(cat check.out)" "unfurl $version" "-V"
check "$UNFURL" --help
cp check.out help.out
for words in -h help "help help" "help --help" "help -h" "--help upscale"; do
    # shellcheck disable=SC2086 # words
    check "$UNFURL" $words
    equal "$(cat check.out)" "$(cat help.out)" "$words"
done
commands=$(sed -n 's/^COMMAND(\([a-z]*\))$/\1/p' "$SOURCE/tools/commands.def")
equal "$(grep -c '^  [a-z]* ' help.out)" "$(($(echo "$commands" | wc -w) + 3))" "lines of --help"
for command in $commands; do
    holds help.out "  $command "
    check "$UNFURL" help $command
    cp check.out help_command.out
    check "$UNFURL" $command -h
    equal "$(cat check.out)" "$(cat help_command.out)" "$command -h"
    # Every option has a line, and the documentation names it; so does the page of the command.
    holds "$SOURCE/docs/cli.md" "## $command"
    for option in $(sed -n 's/^  \(--[a-z-]*\).*/\1/p' help_command.out); do
        holds "$SOURCE/docs/cli.md" "$option"
    done
    check "$UNFURL" $command --help
    holds check.out "Usage: unfurl $command"
    [ $command = codegen ] || holds check.out "--json"
    equal "$(cat check.err)" "" "stderr of $command --help"
done
check "$UNFURL" generate --nonsense --help
check "$UNFURL" generate --help
for option in --weights --out --count --seed --latent --device --dtype --threads --math; do
    holds check.out "  $option "
done
check "$UNFURL" upscale --help
for option in --weights --tile --device --dtype --threads --math; do
    holds check.out "  $option "
done

refuse 2 "there is no command 'upscal'; did you mean 'upscale'?" help upscal
refuse 2 "there is no command 'hlep'; did you mean 'help'?" hlep
refuse 2 "help: unexpected argument 'generate'" help upscale generate
refuse 2 "--version: unexpected argument 'x'" --version x
refuse 2 "-V: unexpected argument 'x'" -V x
refuse 2 "generate: --help takes no value" generate --help=weights
refuse 2 "there is no command ''" ""
refuse 2 "unknown option --; 'unfurl --help' lists the commands" --
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
for count in 0 -1 100001 99999999999999999999 -99999999999999999999 ten 3.5 3x '' nan inf 0x10 1e3 ' 3' '3 ' +3 \
    - 2x2; do
    refuse 2 "--count is '$count'; it takes an integer from 1 to 100000" generate \
        --weights w.h5 --out x.png --count "$count"
done
for seed in 9223372036854775808 99999999999999999999 18446744073709551615; do
    refuse 2 "--seed is '$seed'; it takes an integer from 0 to 9223372036854775807" generate \
        --weights w.h5 --out x.png --seed $seed
done
refuse 1 "w.h5" generate --weights w.h5 --out x.png --seed 9223372036854775807
refuse 2 "gradcheck: --seed is '2147483648'" gradcheck --seed 2147483648
refuse 2 "--seed is '-1'" generate --weights w.h5 --out x.png --seed -1
refuse 2 "--device is 'gpu'; it takes auto, cpu or cuda" generate --weights w.h5 --out x.png --device gpu
refuse 2 "--math is 'fp16'; it takes fp32, tf32 or bf16" upscale a.png b.png --math fp16
refuse 2 "parity: unknown option --math; " parity cases.h5 --math tf32
refuse 2 "--dtype is 'f16'; it takes f32 or f64" generate --weights w.h5 --out x.png --dtype=f16
refuse 2 "--threads is '0'; it takes an integer from 1 to 1024" generate --weights w.h5 --out x.png --threads 0
refuse 2 "--json takes no value" generate --weights w.h5 --out x.png --json=yes
refuse 2 "unexpected argument 'extra'" generate extra --weights w.h5 --out x.png
refuse 2 "--seed and --latent exclude each other" generate --weights w.h5 --out x.png --seed 1 --latent l.h5:/z
refuse 2 "a name that ends in .png or .h5" generate --weights w.h5 --out x.jpg
refuse 2 "IN.png is missing" upscale
refuse 2 "OUT.png is missing" upscale in.png
refuse 2 "several pictures go to a folder, and three.png is a file's name" upscale one.png two.png three.png
refuse 2 "must end in .png, .jpg or .h5, or be that of a folder" upscale in.png out.gif
refuse 2 "--tile is '-1'; it takes an integer from 0 to 65536" upscale in.png out.png --tile -1
refuse 2 "FILE is missing" inspect
refuse 2 "OUT is missing" convert in.h5
refuse 2 "B is missing" diff a.h5
refuse 2 "unexpected argument" devices all
refuse 2 "inspect: FILE is empty" inspect ""
refuse 2 "upscale: OUT.png is empty" upscale in.png ""
refuse 2 "--latent is empty" generate --weights w.h5 --out x.png --latent ""
refuse 2 "--layer is empty" gradcheck --layer=

# tune: a table of integers and pairs of them; on a machine without a GPU the work is refused at the end.
tune="tune x.txt --in 8 --out 4"
# shellcheck disable=SC2086 # words
{
    refuse 2 "FILE is missing" tune
    refuse 2 "--in N is missing" tune x.txt --out 4 --size 4 --kernel 3
    refuse 2 "--out N is missing" tune x.txt --in 4 --size 4 --kernel 3
    refuse 2 "--size N|HxW is missing" $tune --kernel 3
    refuse 2 "--kernel N|HxW is missing" $tune --size 4
    for pair in 0 -1 3x0 3x 3x5x7 x3 1.5 3X5 99999999999999999999 1048577 3x99999999999999999999 nan ' 3' '3 x5'; do
        refuse 2 "--kernel is '$pair'; it takes an integer from 1 to 1048576, or two such as 3x5" \
            $tune --size 4 --kernel "$pair"
    done
    refuse 2 "--padding is '-1'; it takes an integer from 0 to 1048576" $tune --size 4 --kernel 3 --padding -1
    refuse 2 "--groups 3 must divide --in 8 and --out 4" $tune --size 4 --kernel 3 --groups 3
    refuse 1 "the layer's input is (1099511627776, 8, 1048576, 1048576): it must have from 1 to 2^62 elements" \
        $tune --batch 1099511627776 --size 1048576 --kernel 3
    refuse 1 "" $tune --size 2 --kernel 5 --layer conv2d
}
if "$UNFURL" devices | grep -q '^cuda -'; then
    # shellcheck disable=SC2086 # words
    refuse 1 "CUDA" $tune --size 4x6 --kernel 3x5 --stride 2 --padding 1x2
fi
absent x.txt

# "--" ends the options: what follows is a name even with dashes before it.
refuse 1 "--in.png" upscale -- --in.png out.png

check "$UNFURL" devices
holds check.out "cpu 0"
check "$UNFURL" devices --json
holds check.out '"kind": "cpu"'
holds check.out '"usable": true'

# Arguments do not reach the terminal as they are.
forged=$(printf 'x\nunfurl: done\r\033[2K\302\2331A\377\342\200\256')
shown_forged='x\x0aunfurl: done\x0d\x1b[2K\xc2\x9b1A\xff\xe2\x80\xae'
refuse 2 "there is no command '$shown_forged'" "$forged"
refuse 2 "unknown option -$shown_forged" "-$forged"
refuse 2 "unknown option --$shown_forged" inspect "--$forged"
refuse 2 "unexpected argument '$shown_forged'" devices "$forged"
refuse 2 "--count is '$shown_forged'" generate --weights w.h5 --out x.png --count "$forged"
refuse 2 "--out is '$shown_forged'" generate --weights w.h5 --out "$forged"
refuse 1 "$shown_forged" inspect "$forged"
refuse 1 "$shown_forged" parity "$forged"
refuse 1 "$shown_forged" upscale "$forged" x.png
refuse 1 "$shown_forged" upscale "$SOURCE/examples/upscale/upconv7_scale2x_input.png" "no/$forged/x.png"
UNFURL_DATA_DIR=$forged refuse 1 "$shown_forged/weights" upscale \
    "$SOURCE/examples/upscale/upconv7_scale2x_input.png" x.png
unset UNFURL_DATA_DIR
# However long they are.
refuse 2 "..." inspect x.h5 "$(head -c 100000 /dev/zero | tr '\0' '\033')"

# What could not be written is a failure, not a silence: a full disk, a reader that is gone, no stdout.
weights=$SOURCE/weights/dcgan_fashion_mnist.h5
for words in devices --help -V "help upscale" "upscale --help" "inspect $weights" "inspect $weights --json"; do
    if [ -w /dev/full ]; then
        # shellcheck disable=SC2086 # words
        "$UNFURL" $words >/dev/full 2>full.err
        equal "$?" 1 "status with a full disk: $words"
        equal "$(cat full.err)" "unfurl: cannot write to standard output: No space left on device" "full disk: $words"
    fi
    # The writer begins when its reader has gone.
    rm -f gone
    # shellcheck disable=SC2086 # words
    {
        while [ ! -e gone ]; do sleep 0.01; done
        "$UNFURL" $words 2>gone.err
        echo $? >gone.status
    } | {
        exec <&-
        : >gone
    }
    equal "$(cat gone.status)" 1 "status without a reader: $words"
    equal "$(cat gone.err)" "unfurl: cannot write to standard output: Broken pipe" "without a reader: $words"
    # shellcheck disable=SC2086 # words
    "$UNFURL" $words >&- 2>closed.err
    equal "$?" 1 "status without stdout: $words"
    equal "$(cat closed.err)" "unfurl: cannot write to standard output: Bad file descriptor" "without stdout: $words"
done
# Without stdout and stderr a file that is written gets neither a report nor a message.
check "$UNFURL" generate --weights "$weights" --out whole.h5 --count 1
"$UNFURL" generate --weights "$weights" --out closed.h5 --count 1 >&- 2>&- <&-
equal "$?" 1 "status of generate without stdout"
check cmp whole.h5 closed.h5
finish
