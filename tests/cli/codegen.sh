# unfurl codegen: the C program of a model compiles without a warning and gives the bits of unfurl run
. "$SOURCE/tests/cli/lib.sh"
warnings="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wvla -Wdouble-promotion -Wcast-qual -Werror
    -Wstrict-prototypes -Wmissing-prototypes -std=c11"

# build NAME: the program NAME of the model file NAME.h5.
build() {
    "$UNFURL" codegen "$1.h5" >"$1.c" || complain "codegen $1.h5"
    check "$CC" $warnings ${SANITIZED:+-fsanitize=$SANITIZED} "-I$SOURCE/include" "$1.c" -o "$1" "$LIBRARY" \
        "-Wl,-rpath,$(dirname "$LIBRARY")"
    equal "$(cat check.err)" "" "warnings of $1.c"
}

# Every function of layers.h: each value is an output, but for random numbers.
sed '/^output/d; /^picture/d' "$SOURCE/tests/model/every_function.txt" >every.txt
names=$(sed -n 's/^\([a-z][a-z0-9_.]*\) = .*/\1/p' every.txt | grep -v '^normal$\|^uniform$')
for name in $names; do
    echo "output $name = $name"
done >>every.txt
check "$FIXTURE" model every.txt every.h5
build every
holds every.c 'uf_conv2d(graph, c0, uf_at(weights, "a scope"), 6, NULL);'
holds every.c "uf_conv2d_options c0_options = uf_conv2d_options_default();"
set --
results=
for name in $names; do
    set -- "$@" --output "$name=run.$name.h5"
    results="$results code.$name.h5"
done
check "$UNFURL" run every.h5 --input image=in.image.h5 --input line=in.line.h5 --input labels=in.labels.h5 \
    --input planes=in.planes.h5 "$@"
check ./every every.h5 in.image.h5 in.line.h5 in.labels.h5 in.planes.h5 $results
for name in $names; do
    checks=$((checks + 1))
    cmp -s "run.$name.h5" "code.$name.h5" || complain "$name differs: $(grep "$name" every.c)"
done

# Names that no variable could have, values that nobody reads, and a model without parameters.
cat >odd.txt <<'END'
unfurl model 1
input "int \"x\" ??/" f32 (N=1, 2)
for = relu("int \"x\" ??/")
x = tanh(for)
"0 é" = add(x, for)
unread = abs(for)
build = neg("0 é")
main = mul(build, build)
EOF = neg(main)
INT32_MAX = exp(EOF)
eof = add(EOF, INT32_MAX)
NAN = add(eof, INT32_MAX)
D_A = add(NAN, eof)
output "a/b" = for
output main = main
output D_A = D_A
output NAN = NAN
END
"$FIXTURE" model odd.txt odd.h5 || true
build odd
holds odd.c "const uf_value eof_2 = uf_add(graph"
check "$UNFURL" codegen odd.h5 --text
sed -n '2,$p' odd.txt >expected
sed -n '2,$p' check.out | cmp -s - expected || complain "another text: $(cat check.out)"
refuse 1 "no.h5" codegen no.h5
refuse 2 "MODEL.h5 is missing" codegen
finish
