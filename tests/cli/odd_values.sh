# unfurl inspect --stats, diff, verify and convert: values that are not finite, very large or very small, and tensors of no
# elements, in a file of each format.
. "$SOURCE/tests/cli/lib.sh"

# values FILE HEADER BYTES: a safetensors file, its bytes as printf writes them.
values() {
    {
        printf "\\$(printf %03o "${#2}")\0\0\0\0\0\0\0%s" "$2"
        # shellcheck disable=SC2059 # they are escapes
        printf "$3"
    } >"$1"
}

nan='\0\0\300\177' infinity='\0\0\200\177' minus='\0\0\200\377' one='\0\0\200\077' zero='\0\0\0\0' # f32
largest='\377\377\377\377\377\377\357\177' least='\377\377\377\377\377\377\357\377'                   # f64
tiny='\01\0\0\0\0\0\0\0'                                                                             # 2^-1074
small='\0\0\0\0\0\0\060\06'                                                                          # 2^-924

# ---- least, largest, mean and deviation ----
# stats NAME TEXT: the row of this tensor, in either format.
stats() {
    for file in odd.safetensors odd.h5; do
        check "$UNFURL" inspect $file --stats
        equal "$(sed -n "s/^$1 .*)  *//p" check.out | tr -s ' ')" "$2" "statistics of $1 in $file"
    done
}
# f32 NAME BYTES VALUES: odd.safetensors and odd.h5 with one tensor.
f32() {
    values odd.safetensors "{\"$1\":{\"dtype\":\"F32\",\"shape\":[$3],\"data_offsets\":[0,$((4 * $3))]}}" "$2"
    check "$UNFURL" convert odd.safetensors odd.h5
}
f64() {
    values odd.safetensors "{\"$1\":{\"dtype\":\"F64\",\"shape\":[$3],\"data_offsets\":[0,$((8 * $3))]}}" "$2"
    check "$UNFURL" convert odd.safetensors odd.h5
}
f32 nothing "$nan$infinity$minus" 3
stats nothing "min nan max nan mean nan std nan not finite 3"
f32 some "$one$nan$one$infinity" 4
stats some "min 1 max 1 mean 1 std 0 not finite 2"
f64 large "$largest$least" 2
stats large "min -1.7977e+308 max 1.7977e+308 mean 0 std 1.7977e+308 not finite 0"
f64 large "$largest$largest" 2
stats large "min 1.7977e+308 max 1.7977e+308 mean 1.7977e+308 std 0 not finite 0"
f64 tiny "$tiny$tiny" 2
stats tiny "min 4.9407e-324 max 4.9407e-324 mean 4.9407e-324 std 0 not finite 0"
f64 small "$small$zero$zero" 2
stats small "min 0 max 7.0515e-279 mean 3.5258e-279 std 3.5258e-279 not finite 0"
check "$UNFURL" inspect odd.h5 --stats --json
holds check.out '"max": 7.05'

# ---- no elements ----
values odd.safetensors '{"a":{"dtype":"BF16","shape":[0,3],"data_offsets":[0,0]},"b":{"dtype":"I8","shape":[0],"data_offsets":[0,0]}}' ''
values more.safetensors '{"a":{"dtype":"BF16","shape":[0,4],"data_offsets":[0,0]},"b":{"dtype":"I8","shape":[0],"data_offsets":[0,0]}}' ''
check "$UNFURL" convert odd.safetensors odd.h5
check "$UNFURL" convert more.safetensors more.h5
for suffix in h5 safetensors; do
    check "$UNFURL" inspect odd.$suffix
    holds check.out "a     bf16    (0, 3)"
    holds check.out "2 tensors, 0 parameters, 0 elements, 0 bytes"
    stats b "min nan max nan mean nan std nan not finite 0"
    check "$UNFURL" inspect odd.$suffix --stats --json
    holds check.out '"min": null'
    holds check.out '"is_tensor": true'
    check "$UNFURL" verify odd.$suffix
    holds check.out "2 tensors are whole, 0 have checksums"
    check "$UNFURL" diff odd.$suffix odd.h5
    holds check.out "0 of 2 differ"
    "$UNFURL" diff odd.$suffix more.$suffix >diff.out 2>diff.err && complain "diff: status 0: (0, 3) and (0, 4)"
    holds diff.out "a     of another shape: (0, 3) and (0, 4)"
    holds diff.err "1 of 2 tensors differ"
done
# No tensor at all.
values none.safetensors '{}' ''
check "$UNFURL" convert none.safetensors none.h5
for suffix in h5 safetensors; do
    check "$UNFURL" inspect none.$suffix --stats
    holds check.out "0 tensors, 0 parameters, 0 elements, 0 bytes"
    check "$UNFURL" verify none.$suffix
    check "$UNFURL" diff none.$suffix none.h5
    "$UNFURL" diff none.$suffix odd.h5 >diff.out 2>diff.err && complain "diff: status 0: no tensors and two"
    holds diff.out "a     only in the second"
    holds diff.err "2 of 2 tensors differ"
done

# ---- differences ----
# differ ROW A B [TOLERANCE]: one f32 of A and one of B differ, whatever the tolerance; the row tells by how much.
differ() {
    f32 x "$2" 1
    mv odd.safetensors one.safetensors
    mv odd.h5 one.h5
    f32 x "$3" 1
    for pair in "one.h5 odd.h5" "one.safetensors odd.safetensors" "one.h5 odd.safetensors"; do
        for tolerance in 0 0.5 1e300; do
            checks=$((checks + 1))
            # shellcheck disable=SC2086 # two words
            "$UNFURL" diff $pair --tolerance $tolerance >diff.out 2>diff.err && complain "diff: status 0: $2 and $3"
            equal "$(sed -n 's/^x *//p' diff.out | tr -s ' ')" "$1" "diff $pair --tolerance $tolerance"
            holds diff.err "1 of 1 tensors differ"
        done
    done
}
differ "different absolute inf relative inf" "$infinity" "$one"
differ "different absolute inf relative inf" "$one" "$minus"
differ "different absolute inf relative inf" "$infinity" "$minus"
differ "different absolute inf relative inf" "$nan" "$one"
differ "different absolute inf relative inf" "$infinity" "$nan"
# These are the same.
f32 x "$nan$infinity$minus$zero" 4
mv odd.h5 one.h5
f32 x "\01\0\300\377$infinity$minus\0\0\0\200" 4 # another NaN, and -0
check "$UNFURL" diff one.h5 odd.safetensors
holds check.out "x     same       absolute 0          relative 0"
# A distance that no double holds.
f64 x "$largest" 1
mv odd.h5 one.h5
f64 x "$least" 1
"$UNFURL" diff one.h5 odd.h5 --tolerance 1 >diff.out 2>diff.err && complain "diff: status 0: the largest numbers"
equal "$(sed -n 's/^x *//p' diff.out | tr -s ' ')" "different absolute inf relative 2" "diff of the largest numbers"
check "$UNFURL" diff one.h5 odd.h5 --tolerance 2
f64 x "$tiny" 1
mv odd.h5 one.h5
f64 x "$zero$zero" 1
"$UNFURL" diff one.h5 odd.h5 >diff.out 2>diff.err && complain "diff: status 0: the least number and 0"
equal "$(sed -n 's/^x *//p' diff.out | tr -s ' ')" "different absolute 4.941e-324 relative 1" "diff of the least number"
finish
