# Bad command lines by the thousand: attack.c says what each must do.
. "$SOURCE/tests/cli/lib.sh"
weights=$SOURCE/weights/dcgan_fashion_mnist.h5

check "$FIXTURE" noise small.png 3 2
check "$FIXTURE" layer one.h5 one_z.h5 one_y.h5
check "$FIXTURE" strings strings.h5
check "$FIXTURE" rename "$weights" forged.h5 main.12 "$(printf 'x\nunfurl: \033[2J\302\233\377')"
cp "$SOURCE/tests/data/ops_open.h5" cases.h5
cat >model.txt <<'END'
unfurl model 1
input x f32 (N=2, 3)
y = linear(x, out_features=2)
output y = y
END
check "$FIXTURE" model model.txt model.h5
printf 'step,loss\n1,0.5\n2,0.25\n' >table.csv
echo "neither a picture nor weights" >text.png
cp text.png text.h5
head -c 40 small.png >cut.png
head -c 3000 one.h5 >cut.h5
: >empty.png
: >empty.h5
mkdir folder folder.png

# Under a sanitizer a run takes ten times as long.
runs=1000
[ -z "$SANITIZED" ] || runs=200
check "$ATTACK" "$UNFURL" "${ATTACK_FIRST:-0}" "${ATTACK_RUNS:-$runs}"
cat check.out
finish
