# unfurl run: sounds in and out
. "$SOURCE/tests/cli/lib.sh"

# write NAME: the model file NAME.h5 of the text on stdin.
write() {
    cat >"$1.txt"
    check "$FIXTURE" model "$1.txt" "$1.h5"
}

# little BYTES NUMBER...: each number with its lowest byte first.
little() {
    count=$1
    shift
    for number; do
        for _ in $(seq "$count"); do
            printf "\\$(printf %03o $((number & 255)))"
            number=$((number >> 8))
        done
    done
}

# head KIND CHANNELS RATE BITS: a chunk "fmt " of 16 bytes.
head() {
    printf 'fmt '
    little 4 16
    little 2 "$1" "$2"
    little 4 "$3" $(($3 * $2 * $4 / 8))
    little 2 $(($2 * $4 / 8)) "$4"
}

# sound FILE SIZE KIND CHANNELS RATE BITS: the samples stand on stdin; SIZE bytes of them, says the file.
sound() {
    file=$1
    size=$2
    shift 2
    {
        printf 'RIFF'
        little 4 $((size + 36))
        printf 'WAVE'
        head "$@"
        printf data
        little 4 "$size"
        cat
    } >"$file"
}

# numbers FILE: those of a float array of .npy, in a row.
numbers() {
    od -An -tf4 -j128 "$1" | tr -s ' \n' ' ' | sed 's/^ //; s/ $//'
}

# Out: 44 bytes, then two of each sample; -1 and below is the least, and 1 is cut off.
write twice <<'END'
unfurl model 1
input x f32 (N=1, 1, L=5)
y = scale(x, factor=2)
output y = y
END
check "$UNFURL" run twice.h5 --input x=zeros:1,1,7 --output y=y.wav --rate 8000
equal "$(wc -c <y.wav)" 58 "bytes of a sound"
equal "$(od -An -tu4 -j24 -N4 y.wav | tr -d ' ')" 8000 "its rate"
equal "$(od -An -c -N4 y.wav | tr -d ' ')" RIFF "its kind"
check "$UNFURL" run twice.h5 --input x=randn --seed 1 --output y=y.wav --output y=y.npy
equal "$(od -An -tu4 -j24 -N4 y.wav | tr -d ' ')" 22050 "the rate of a sound that was made of none"
equal "$(od -An -td2 -j44 y.wav | tr -s ' ' | tr '\n' ' ' | wc -w)" 5 "samples"
od -An -tf4 -j128 y.npy | tr -s ' ' '\n' | sed '/^$/d' |
    awk '{ v = 32768 * $1; v = v > 32767 ? 32767 : v < -32768 ? -32768 : v; printf "%.0f\n", v }' >expected
od -An -td2 -j44 y.wav | tr -s ' ' '\n' | sed '/^$/d' >got
cmp -s expected got || complain "other samples: $(paste expected got)"
"$UNFURL" run twice.h5 --input x=randn --seed 1 --output y=wav:- 2>/dev/null | cmp - y.wav || complain "another sound on stdout"

# In and out again: the same bytes and the same rate, from a file, a pipe and under any name.
write line <<'END'
unfurl model 1
input x f32 (N=1, 2, L=4)
output y = x
END
little 2 0 1 -1 16384 -16384 32767 -32768 2 | sound stereo.wav 16 1 2 48000 16
check "$UNFURL" run line.h5 --input x=stereo.wav --output y=back.wav --output y=y.npy
check cmp stereo.wav back.wav
equal "$(numbers y.npy)" "0 -3.0517578e-05 -0.5 -1 3.0517578e-05 0.5 0.9999695 6.1035156e-05" "the channels of a sound"
check "$UNFURL" run line.h5 --input x=stereo.wav --output y=back.wav --rate 96000
equal "$(od -An -tu4 -j24 -N4 back.wav | tr -d ' ')" 96000 "--rate before that of the input"
cp stereo.wav named.png
cat named.png | "$UNFURL" run line.h5 --input x=- --output y=wav:- 2>/dev/null | cmp - stereo.wav || complain "no sound through pipes"
check "$UNFURL" run line.h5 --input x=stereo.wav --input x=stereo.wav
holds check.out "y (2, 2, 4)"

# f32 samples: -0.5, 1.5, 2^-149 and 0.25; then the same in an extensible chunk behind one of odd length.
samples() {
    little 4 $((0xbf000000)) $((0x3fc00000)) 1 $((0x3e800000))
}
samples | sound real.wav 16 3 2 44100 32
check "$UNFURL" run line.h5 --input x=real.wav --output y=y.npy
equal "$(numbers y.npy)" "-0.5 1e-45 1.5 0.25" "the samples of a sound of real numbers"
{
    printf 'RIFF'
    little 4 94
    printf 'WAVELIST'
    little 4 3
    printf 'odd\000'
    printf 'fmt '
    little 4 40
    little 2 65534 2
    little 4 44100 352800
    little 2 8 32 22 32
    little 4 3
    little 2 3 0 16 128
    little 4 2852126848 1905993728
    printf data
    little 4 16
    samples
} >extensible.wav
check "$UNFURL" run line.h5 --input x=extensible.wav --output y=again.npy
check cmp y.npy again.npy
# A writer that cannot go back says 0 or 2^32 - 1.
for size in 0 4294967295; do
    samples | sound stream.wav $size 3 2 44100 32
    check "$UNFURL" run line.h5 --input x=stream.wav --output y=again.npy
    check cmp y.npy again.npy
done

# The rank is the input's: (channels, length), or length alone.
write flat <<'END'
unfurl model 1
input x f32 (2, L=4)
output y = x
END
check "$UNFURL" run flat.h5 --input x=stereo.wav --output y=back.wav
check cmp stereo.wav back.wav
write mono <<'END'
unfurl model 1
input x f32 (L=4)
output y = x
END
little 2 5 6 7 | sound mono.wav 6 1 1 16000 16
check "$UNFURL" run mono.h5 --input x=mono.wav --output y=back.wav
check cmp mono.wav back.wav

# Mistakes.
write labels <<'END'
unfurl model 1
input labels i64 (N=4)
e = embedding(labels, num_embeddings=5, embedding_dim=2)
output e = e
END
refuse 1 "input x cannot be (1, 1, 3)" run line.h5 --input x=mono.wav
refuse 1 "stereo.wav has 2 channels, and the input x is one row of numbers" run mono.h5 --input x=stereo.wav
refuse 1 "stereo.wav is a sound where indices are needed" run labels.h5 --input labels=stereo.wav
for bits in 8 24 32; do
    little 4 0 0 0 0 | sound bad.wav 16 1 2 8000 $bits
    refuse 1 "bad.wav has samples of $bits bits and format 1; integers of 16 bits and real numbers of 32 are read" run line.h5 --input x=bad.wav
done
little 4 0 | sound bad.wav 4 3 0 8000 32
refuse 1 "bad.wav has 0 channels; 1 to 64 are read" run line.h5 --input x=bad.wav
little 4 0 | sound bad.wav 4 1 65 8000 16
refuse 1 "bad.wav has 65 channels" run line.h5 --input x=bad.wav
little 4 0 | sound bad.wav 4 1 2 0 16
refuse 1 "bad.wav has 0 samples a second" run line.h5 --input x=bad.wav
little 4 0 | sound bad.wav 2 1 2 8000 16
refuse 1 "bad.wav has no samples" run line.h5 --input x=bad.wav
little 4 0 | sound bad.wav 8 1 2 8000 16
refuse 1 "bad.wav is cut off: 8 bytes of samples, it says, and has 4" run line.h5 --input x=bad.wav
for bytes in 12 19 24 35 40; do
    dd if=stereo.wav of=bad.wav bs=1 count=$bytes 2>/dev/null
    refuse 1 "bad.wav ends before its samples" run line.h5 --input x=bad.wav
done
{ printf 'RIFF....WAVEfmt '; little 4 15; cat stereo.wav; } >bad.wav
refuse 1 "bad.wav: the chunk that says how its samples are written is damaged" run line.h5 --input x=bad.wav
{ printf 'RIFF....WAVEdata'; little 4 4 0; } >bad.wav
refuse 1 "bad.wav has samples before it says how they are written" run line.h5 --input x=bad.wav
printf 'RIFF....AVI ' >bad.wav
refuse 1 "bad.wav is no picture (PNG, JPEG), no sound (.wav) and no array (.npy, HDF5)" run line.h5 --input x=bad.wav
refuse 1 "a sound is made of" run twice.h5 --input x=zeros:2,1,7 --output y=y.wav

finish
