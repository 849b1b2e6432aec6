# unfurl convert, diff, verify and inspect --stats: files of every format
. "$SOURCE/tests/cli/lib.sh"
weights=$SOURCE/weights/dcgan_fashion_mnist.h5

# ---- convert ----
check "$UNFURL" convert "$weights" plain.safetensors
equal "$(cat check.out)" "plain.safetensors: 25 tensors, safetensors" "convert's report"
check "$UNFURL" inspect plain.safetensors
holds check.out "25 tensors, 951744 parameters, 952708 elements, 3810848 bytes"
check "$UNFURL" inspect plain.safetensors --json
holds check.out '"format": "safetensors"'
check "$UNFURL" convert plain.safetensors nested.h5 --names nested --json
holds check.out '"format": "HDF5"'
holds check.out '"tensors": 25'
check "$UNFURL" inspect nested.h5
holds check.out "main/0/weight"
# There and back: the same bytes, whatever a file is called.
check "$UNFURL" convert nested.h5 again --names dotted --format safetensors --trust
check cmp plain.safetensors again
check "$UNFURL" convert again again --format hdf5 --dtype f16 --compress 9
check "$UNFURL" inspect again
holds check.out "f16"
holds check.out "25 tensors, 951744 parameters, 952708 elements, 1905440 bytes"
equal "$([ "$(wc -c <again)" -lt 1905440 ] && echo less)" less "size of a deflated file"
check "$UNFURL" convert nested.h5 group.safetensors --group main/0 --names dotted
check "$UNFURL" inspect group.safetensors
holds check.out "1 tensors, 262144 parameters"
# The commands that run a network take either format.
check "$UNFURL" generate --weights "$weights" --out a.png --count 4 --seed 1
check "$UNFURL" generate --weights plain.safetensors --out b.png --count 4 --seed 1
check cmp a.png b.png

refuse 1 "nowhere.h5" convert nowhere.h5 out.h5
refuse 1 "no/such/out.h5" convert "$weights" no/such/out.h5
refuse 1 "cannot be deflated" convert "$weights" out.safetensors --compress 1
refuse 1 "no group encoder" convert "$weights" out.h5 --group encoder
refuse 2 "--dtype is 'i8'" convert "$weights" out.h5 --dtype i8
check "$FIXTURE" strings strings.h5
refuse 1 "holds strings" convert strings.h5 out.h5
printf '\10\0\0\0\0\0\0\0{"a":{} }' >bad.safetensors
for command in "convert bad.safetensors out.h5" "inspect bad.safetensors" "verify bad.safetensors" \
    "diff bad.safetensors $weights" "diff $weights bad.safetensors"; do
    # shellcheck disable=SC2086 # words
    refuse 1 "bad.safetensors is damaged" $command
done
absent out.h5
absent out.safetensors

# ---- inspect --stats ----
esc=$(printf 'a.\033[1A')
check "$FIXTURE" poison "$weights" nan.h5 main.10.weight
check "$UNFURL" inspect nan.h5 --stats
equal "$(sed -n 's/^main.10.weight .* not finite //p' check.out)" 1 "values that are not finite"
equal "$(sed -n 's/^main.9.weight .* not finite //p' check.out)" 0 "values that are not finite"
check "$UNFURL" inspect "$weights" --stats --json
holds check.out '"not_finite": 0'
holds check.out '"std": '
# One number is its own least, largest and mean.
check "$UNFURL" inspect "$weights" --stats
equal "$(sed -n 's/^main.1.num_batches_tracked .* min \([0-9]*\) .*/\1/p' check.out)" \
    "$(sed -n 's/^main.1.num_batches_tracked .* mean \([0-9]*\) .*/\1/p' check.out)" "least and mean of one number"
holds check.out "std 0 "

# ---- diff ----
check "$UNFURL" diff "$weights" nested.h5
holds check.out "0 of 25 differ"
check "$UNFURL" diff "$weights" again --tolerance 1e-3
refuse_diff() { # STATUS PART ARGUMENTS...: as refuse, with a report
    want=$1
    part=$2
    shift 2
    checks=$((checks + 1))
    "$UNFURL" diff "$@" >diff.out 2>diff.err
    got=$?
    [ "$got" = "$want" ] || complain "status $got instead of $want: unfurl diff $*"
    grep -qF -- "$part" diff.err || complain "unfurl diff $*: no \"$part\" in \"$(cat diff.err)\""
    shown diff.out
    shown diff.err
}
refuse_diff 1 "21 of 25 tensors differ beyond the tolerance 0" "$weights" again
refuse_diff 1 "1 of 25 tensors differ" "$weights" nan.h5 --tolerance 1000
holds diff.out "main.10.weight               different  absolute inf        relative inf"
check "$UNFURL" diff nan.h5 nan.h5
check "$FIXTURE" drop "$weights" less.h5 main.10.bias
refuse_diff 1 "1 of 25 tensors differ" "$weights" less.h5
holds diff.out "main.10.bias                 only in the first"
refuse_diff 1 "1 of 25 tensors differ" less.h5 "$weights" --json
holds diff.out '"verdict": "only in the second"'
holds diff.out '"different": 1'
check "$FIXTURE" rename less.h5 other.h5 main.12.weight main.10.bias
refuse_diff 1 "2 of 25 tensors differ" "$weights" other.h5
holds diff.out "main.10.bias                 of another shape: (32,) and (32, 1, 4, 4)"
check "$FIXTURE" rename "$weights" escapes.h5 main.12.weight "$esc"
refuse_diff 1 "2 of 26 tensors differ" "$weights" escapes.h5
refuse 2 "--tolerance is '-1'" diff a.h5 b.h5 --tolerance -1
refuse 2 "--tolerance is 'nan'" diff a.h5 b.h5 --tolerance nan
refuse 2 "--tolerance is '1x'" diff a.h5 b.h5 --tolerance 1x

# ---- verify ----
check "$UNFURL" verify "$weights"
holds check.out "HDF5, 25 tensors are whole, 0 have checksums"
check "$UNFURL" verify plain.safetensors --json
holds check.out '"tensors": 25'
check "$FIXTURE" checkpoint checkpoint.h5
check "$UNFURL" verify checkpoint.h5
holds check.out "1 tensors are whole, 1 have checksums"
check "$UNFURL" inspect checkpoint.h5
holds check.out "metadata format: unfurl checkpoint"
check "$UNFURL" convert checkpoint.h5 copy.h5
refuse_verify() { # PART ARGUMENTS...
    part=$1
    shift
    checks=$((checks + 1))
    "$UNFURL" verify "$@" >verify.out 2>verify.err
    [ $? = 1 ] || complain "unfurl verify $*: not status 1"
    grep -qF -- "1 of 1 tensors are damaged or cannot be read" verify.err || complain "unfurl verify $*: $(cat verify.err)"
    grep -qF -- "$part" verify.out || complain "unfurl verify $*: no \"$part\" in \"$(cat verify.out)\""
}
refuse_verify "has no checksum, though the file is a checkpoint" copy.h5
check "$FIXTURE" damage checkpoint.h5
refuse_verify "its checksum is" checkpoint.h5
refuse_verify '"problem": "stores/net/w in checkpoint.h5 is damaged' checkpoint.h5 --json
head -c 100000 plain.safetensors >cut.safetensors
refuse 1 "cut.safetensors is damaged" verify cut.safetensors
finish
