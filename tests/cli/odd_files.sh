# unfurl convert, diff, verify and inspect --stats: files that are damaged, no weights or no files, files without permission,
# and targets. One sentence each, status 1, and nothing is written.
. "$SOURCE/tests/cli/lib.sh"
weights=$SOURCE/weights/dcgan_fashion_mnist.h5

# tensors FILE HEADER ZEROS: a safetensors file of this header and so many zero bytes.
tensors() {
    {
        printf "\\$(printf %03o "${#2}")\0\0\0\0\0\0\0%s" "$2"
        head -c "$3" /dev/zero
    } >"$1"
}

# refuse_soon PART ARGUMENTS...: as refuse with status 1, and few processes.
newline='
'
refuse_soon() {
    part=$1
    shift
    checks=$((checks + 1))
    told=$("$UNFURL" "$@" 2>&1 >refuse.out)
    [ $? = 1 ] && [ ! -s refuse.out ] || complain "status, or output on stdout: unfurl $*"
    case $told in
    *"$newline"*) complain "not one sentence: unfurl $*: $told" ;;
    "unfurl: "*"$part"*) ;;
    *) complain "unfurl $*: no \"$part\" in \"$told\"" ;;
    esac
}

# of FILE PART: each command refuses the file.
of() {
    refuse_soon "$2" inspect "$1" --stats
    refuse_soon "$2" verify "$1"
    refuse_soon "$2" diff "$weights" "$1"
    refuse_soon "$2" convert "$1" out.h5
    absent out.h5
}

# ---- no files, and no files of weights ----
mkdir folder.h5
mkfifo pipe.h5
ln -s nowhere dangling.h5
ln -s loop.h5 loop.h5
: >empty.h5
printf 'hello\n' >text.h5
printf '{"a": 1}' >text.json
printf '\211PNG\r\n\032\n' >picture.safetensors
printf '7767517\n1 1\nInput data 0 1 data\n' >net.param
printf '\200\002}q\000.' >pickle.h5
of nowhere.h5 "cannot open nowhere.h5: No such file"
of folder.h5 "folder.h5 is a directory"
of pipe.h5 "pipe.h5 is not a regular file"
of dangling.h5 "cannot open dangling.h5: No such file"
of loop.h5 "cannot open loop.h5"
of /dev/null "/dev/null is not a regular file"
of /dev/zero "/dev/zero is not a regular file"
of empty.h5 "empty.h5 is empty"
of text.h5 "text.h5 is not a file of weights"
of text.json "text.json is not a file of weights"
of picture.safetensors "picture.safetensors is not a file of weights"
of net.param "net.param is a network of ncnn's"
of pickle.h5 "pickle.h5 is a Python pickle"

# ---- half of a file ----
for length in 8 16 40; do
    head -c $length "$weights" >cut.h5
    of cut.h5 "cut.h5 is "
done
head -c 10 "$weights" >cut.h5
of cut.h5 "cut.h5 is truncated: its 10 bytes do not hold a superblock"
head -c 100000 "$weights" >cut.h5
of cut.h5 "cut.h5 is truncated: its 100000 bytes"
check "$UNFURL" convert "$weights" plain.safetensors
head -c 100000 plain.safetensors >cut.safetensors
of cut.safetensors "cut.safetensors is damaged"
head -c 50 plain.safetensors >cut.safetensors
of cut.safetensors "cut.safetensors is truncated"

# ---- headers that lie ----
f32='"dtype":"F32","shape"'
tensors odd.safetensors "{\"a\":{$f32:[1099511627776],\"data_offsets\":[0,4398046511104]}}" 8
of odd.safetensors "a in odd.safetensors is damaged"
tensors odd.safetensors "{\"a\":{$f32:[4611686018427387904,8],\"data_offsets\":[0,8]}}" 8
of odd.safetensors "more elements than 64 bits count"
tensors odd.safetensors "{\"a\":{$f32:[1],\"data_offsets\":[0,4]}}" 9
of odd.safetensors "its tensors end at byte"
tensors odd.safetensors "{\"a\":{$f32:[1],\"data_offsets\":[0,4]},\"a\":{$f32:[1],\"data_offsets\":[4,8]}}" 8
of odd.safetensors "odd.safetensors"
tensors odd.safetensors "{\"../a\":{$f32:[1],\"data_offsets\":[0,4]}}" 4
of odd.safetensors "the name ../a"
tensors odd.safetensors "{\"\":{$f32:[1],\"data_offsets\":[0,4]}}" 4
of odd.safetensors "odd.safetensors holds a tensor whose name is empty"
printf '\377\377\377\377\377\377\377\177{}' >odd.safetensors
of odd.safetensors "odd.safetensors is not a file of weights"

# ---- values that are not read: nothing claims that they are the same, whole or damaged ----
unread() { # PART: of odd.safetensors, a tensor m and a tensor w
    check "$UNFURL" inspect odd.safetensors --stats
    holds check.out "(no tensor)"
    check "$UNFURL" verify odd.safetensors
    holds check.out "not read, for they are no tensors: 1"
    cp odd.safetensors same.safetensors
    checks=$((checks + 1))
    "$UNFURL" diff odd.safetensors same.safetensors >diff.out 2>diff.err && complain "diff: status 0: $1"
    holds diff.out "m     not compared"
    holds diff.out "0 of 2 differ"
    holds diff.err "1 of 2 are not compared"
    refuse 1 "$1" convert odd.safetensors out.h5
    absent out.h5
}
w='"w":{"dtype":"F32","shape":[1],"data_offsets"'
tensors odd.safetensors "{\"m\":{\"dtype\":\"BOOL\",\"shape\":[4],\"data_offsets\":[0,4]},$w:[4,8]}}" 8
unread "m in odd.safetensors holds truth values, which are not read"
tensors odd.safetensors "{\"m\":{\"dtype\":\"C64\",\"shape\":[1],\"data_offsets\":[0,8]},$w:[8,12]}}" 12
unread "m in odd.safetensors holds complex numbers, which are not read"
tensors odd.safetensors "{\"m\":{\"dtype\":\"F8_E5M2\",\"shape\":[4],\"data_offsets\":[0,4]},$w:[4,8]}}" 8
unread "m in odd.safetensors holds 8-bit floats, which are not read"
tensors odd.safetensors "{\"m\":{\"dtype\":\"NEW\",\"shape\":[4],\"data_offsets\":[0,4]},$w:[4,8]}}" 8
unread "m in odd.safetensors has the type NEW, which is not read"
# A number without a sign that is too large is no damage.
{
    tensors odd.safetensors '{"m":{"dtype":"U64","shape":[1],"data_offsets":[0,8]}}' 0
    printf '\377\377\377\377\377\377\377\377' >>odd.safetensors
}
refuse 1 "too large for 64 bits with a sign" inspect odd.safetensors --stats
refuse 1 "too large for 64 bits with a sign" convert odd.safetensors out.h5
absent out.h5
"$UNFURL" verify odd.safetensors >verify.out 2>verify.err && complain "verify: status 0"
holds verify.out "too large for 64 bits with a sign"
holds verify.err "1 of 1 tensors are damaged or cannot be read"

# ---- tensors of no elements: they go along with their type and shape, and differ in nothing ----
tensors odd.safetensors '{"a":{"dtype":"BF16","shape":[0,3],"data_offsets":[0,0]},"b":{"dtype":"I8","shape":[0],"data_offsets":[0,0]}}' 0
check "$UNFURL" convert odd.safetensors empty.h5 --compress 1
check "$UNFURL" convert empty.h5 same.safetensors
check "$UNFURL" diff odd.safetensors same.safetensors
holds check.out "0 of 2 differ"
check "$UNFURL" inspect same.safetensors --json
holds check.out '"type": "bf16"'
check "$UNFURL" convert same.safetensors again.safetensors
check cmp same.safetensors again.safetensors
tensors odd.safetensors '{"a":{"dtype":"BF16","shape":[0,4],"data_offsets":[0,0]},"b":{"dtype":"I8","shape":[0],"data_offsets":[0,0]}}' 0
"$UNFURL" diff odd.safetensors same.safetensors >diff.out 2>diff.err && complain "diff: status 0: (0, 3) and (0, 4)"

# ---- model files: the network is compared as text, and the weights are a group ----
printf 'unfurl model 1\ninput x f32 (N=1, 3)\ny = neg(x)\noutput y = y\n' >neg.txt
sed 's/neg(/relu(/' neg.txt >relu.txt
check "$FIXTURE" model neg.txt neg.h5
check "$FIXTURE" model relu.txt relu.h5
check "$UNFURL" diff neg.h5 neg.h5
holds check.out "model  same       the network"
"$UNFURL" diff neg.h5 relu.h5 >diff.out 2>diff.err && complain "diff: status 0: two networks"
holds diff.out "model  different  the network"
holds diff.err "1 of 1 tensors differ"
refuse 1 "model in neg.h5 holds strings" convert neg.h5 out.safetensors
check "$UNFURL" convert "$SOURCE/tests/attack/net.param" "$SOURCE/tests/attack/net.bin" net.h5
check "$UNFURL" verify net.h5
check "$UNFURL" convert net.h5 net.safetensors --group weights
check "$UNFURL" inspect net.safetensors --stats
holds check.out "9 tensors, 42 parameters"

# ---- integers that one double stands for ----
for last in 0 1; do # 2^53 and the one after it
    tensors $last.safetensors '{"n":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}}' 0
    printf "\\00$last\0\0\0\0\0\040\0" >>$last.safetensors
done
check "$UNFURL" diff 1.safetensors 1.safetensors
"$UNFURL" diff 0.safetensors 1.safetensors >diff.out 2>diff.err && complain "diff: status 0: 2^53 and 2^53 + 1"
holds diff.out "n     different  absolute 1 "
check "$UNFURL" diff 0.safetensors 1.safetensors --tolerance 1e-15

# ---- targets ----
tensors odd.safetensors "{\"a\":{$f32:[1],\"data_offsets\":[0,4]},\"a.b\":{$f32:[1],\"data_offsets\":[4,8]}}" 8
refuse 1 "out.h5 cannot hold a and a/b" convert odd.safetensors out.h5 --names nested
absent out.h5
check "$UNFURL" convert odd.safetensors out.safetensors --names nested
for target in folder.h5 pipe.h5 loop.h5 /dev/full no/such/out.h5; do
    refuse 1 "cannot write $target: " convert "$weights" "$target"
done
for target in out.pt out.pth out.pkl out.npy out.npz out.onnx out.gguf out.keras; do
    refuse 2 "OUT is '$target'; it takes a name that ends in .h5 or .safetensors" convert "$weights" $target
    absent $target
done
check "$UNFURL" convert "$weights" out.pth --format safetensors
check cmp plain.safetensors out.pth
refuse 2 "OUT is empty" convert "$weights" ""

# ---- a file made of itself: by its name, another name of it and a link ----
cp plain.safetensors self.safetensors
check "$UNFURL" convert self.safetensors self.safetensors
ln self.safetensors hard.safetensors
check "$UNFURL" convert self.safetensors hard.safetensors --dtype f16
check cmp plain.safetensors self.safetensors
ln -s self.safetensors soft.safetensors
check "$UNFURL" convert self.safetensors soft.safetensors --format hdf5
check test -L soft.safetensors
check "$UNFURL" convert soft.safetensors self.safetensors
check cmp plain.safetensors self.safetensors
# A failure leaves the old file as it was.
for damaged in cut.safetensors cut.h5; do
    cp $damaged before
    cp plain.safetensors old.safetensors
    refuse 1 "$damaged is " convert $damaged $damaged
    refuse 1 "$damaged is " convert $damaged old.safetensors
    check cmp $damaged before
    check cmp plain.safetensors old.safetensors
done

# ---- no permission: root has all, so another user tries ----
cp "$weights" secret.h5
cp plain.safetensors secret.safetensors
mkdir closed read-only
cp "$weights" closed/in.h5
chmod 000 secret.h5 secret.safetensors closed
chmod 555 read-only
chmod 777 . # another user writes here
plain=$UNFURL
if [ "$(id -u)" = 0 ]; then
    # shellcheck disable=SC2016 # the shell that it starts
    printf '#!/bin/sh\nexec setpriv --reuid=65534 --regid=65534 --clear-groups "%s" "$@"\n' "$plain" >nobody
    chmod 755 nobody
    UNFURL=./nobody
fi
if "$UNFURL" --version >version.out 2>&1; then
    of secret.h5 "cannot open secret.h5: Permission denied"
    of secret.safetensors "cannot open secret.safetensors: Permission denied"
    of closed/in.h5 "cannot open closed/in.h5: Permission denied"
    for suffix in h5 safetensors; do
        refuse 1 "cannot write secret.$suffix: it is read-only" convert "$weights" secret.$suffix
        refuse 1 "cannot write closed/out.$suffix: Permission denied" convert "$weights" closed/out.$suffix
        refuse 1 "cannot write read-only/out.$suffix: its directory is not writable" convert "$weights" read-only/out.$suffix
    done
else
    echo "no other user can run the command: permissions are not tested"
fi
UNFURL=$plain
chmod 755 closed read-only
finish
