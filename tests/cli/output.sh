# Where results go: what cannot be written is refused before the work, and no failure leaves anything behind.
. "$SOURCE/tests/cli/lib.sh"
weights=$SOURCE/weights/dcgan_fashion_mnist.h5

# Before the work: the weights and the picture, which do not exist, are not looked at.
mkfifo pipe.png
ln -s /dev/null null.png
ln -s /dev/full full.h5
mkdir folder.h5
echo old >read-only.png
chmod 444 read-only.png
refused_first() {
    refuse 1 "cannot write $1: $2" generate --weights nowhere.h5 --out "$1"
    refuse 1 "cannot write $1: $2" upscale nowhere.png "$1"
    refuse 1 "cannot write $1: $2" tune "$1" --in 1 --out 1 --size 4 --kernel 4
}
refused_first pipe.png "it is not a regular file"
refused_first null.png "it is not a regular file"
refused_first full.h5 "it is not a regular file"
refused_first folder.h5 "it is a directory"
refused_first read-only.png "it is read-only"
refused_first no/such/x.png "its directory does not exist"
refused_first read-only.png/x.png "Not a directory"
equal "$(cat read-only.png)" old "a read-only file"

# A link that dangles is followed, and stays a link.
ln -s made.png link.png
check "$UNFURL" generate --weights "$weights" --count 1 --out link.png
check test -L link.png -a -f made.png

# A limit on the size of files is an error, not a death.
for out in big.png big.h5; do
    (ulimit -f 8 && "$UNFURL" generate --weights "$weights" --out $out) >limit.out 2>limit.err
    equal $? 1 "the status of a save beyond a limit"
    holds limit.err "unfurl: cannot write $out: File too large"
    absent $out
done

# The dot files here, and the names of the whole ones.
hidden() {
    ls -A | grep '^\.'
}

# Signals in mid-save. What is being written is finished, with its name or without.
mkdir signals
cd signals || exit 1
check "$UNFURL" generate --weights "$weights" --count 50 --out whole.png
check "$UNFURL" generate --weights "$weights" --count 50 --out whole.h5
interrupted() {
    "$SIGNAL" $1 $2 "$UNFURL" generate --weights "$weights" --count 50 --out "$3" 2>/dev/null
}
for way in nameless named; do
    for suffix in png h5; do
        for signal in $([ $suffix = png ] && echo 1 2) 15; do
            rm -f out.$suffix
            status=$(interrupted $way $signal out.$suffix)
            [ $? = 77 ] && continue
            equal "$status" $((128 + signal)) "the status after signal $signal, $way"
            check cmp out.$suffix whole.$suffix
            equal "$(hidden)" "" "left by signal $signal, $way"
        done
        # Nobody can wait for a kill: the old file stays, and what is left goes with the next save.
        echo old >out.$suffix
        status=$(interrupted $way 9 out.$suffix)
        [ $? = 77 ] && continue
        equal "$status" 137 "the status after a kill, $way"
        cmp -s out.$suffix whole.$suffix || equal "$(cat out.$suffix)" old "after a kill, $way"
        [ $way = named ] || equal "$(hidden)" "" "left by a kill, $way"
        check "$UNFURL" generate --weights "$weights" --count 50 --out out.$suffix
        check cmp out.$suffix whole.$suffix
        equal "$(hidden)" "" "left by a kill and a save, $way"
    done
done
# `upscale` writes while it computes: a signal ends it between two tiles, and leaves the old file.
input=$SOURCE/examples/upscale/upconv7_scale2x_input.png
check "$UNFURL" upscale "$input" doubled.png
sent=0
ended=0
for way in nameless named; do
    for signal in 2 15; do
        echo old >out.png
        status=$("$SIGNAL" $way $signal "$UNFURL" upscale --tile 4 "$input" out.png 2>signal.err)
        [ $? = 77 ] && continue
        sent=$((sent + 1))
        equal "$status" $((128 + signal)) "the status of upscale after signal $signal, $way"
        if ! cmp -s out.png doubled.png; then
            equal "$(cat out.png)" old "after signal $signal, $way"
            ended=$((ended + 1))
        fi
        equal "$(hidden)" "" "left by upscale after signal $signal, $way"
        equal "$(cat signal.err)" "" "stderr after signal $signal, $way"
    done
done
# The signal comes with the first of 16 rows of tiles: one that comes after the last is an exception.
equal "$([ $sent = 0 ] || [ $ended -gt 0 ] && echo some)" some "runs of upscale that a signal ended before their end"
# Who ignores a signal goes on doing so.
status=$(trap '' 1 && interrupted nameless 1 out.png)
equal "$status" 0 "the status after a signal that is ignored"
finish
