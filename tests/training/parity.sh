# `unfurl parity`: what it knows, what it does not, what it finds wrong.
. "$SOURCE/tests/cli/lib.sh"

cp "$SOURCE/tests/data/ops_open.h5" cases.h5 && chmod u+w cases.h5 || exit 1

check "$UNFURL" parity --help
holds check.out "CASES.h5"
for dtype in f64 f32; do
    check "$UNFURL" parity cases.h5 --dtype $dtype
    cp check.out $dtype.out
    for kind in conv_transpose2d conv2d batch_norm2d_train batch_norm2d_eval activation/relu activation/tanh \
        activation/sigmoid activation/leaky_relu linear loss/bce loss/bce_with_logits loss/mse loss/l1 \
        optimizer/adam optimizer/adamw optimizer/sgd; do
        grep -q "^$kind.*e[-+][0-9]" $dtype.out || complain "no error of $kind is printed"
        checks=$((checks + 1))
    done
done
cmp -s f64.out f32.out && complain "f64 and f32 print the same"

# Kinds it does not know are counted and named, and no reason to fail.
check "$FIXTURE" add cases.h5 frobnication/000
check "$FIXTURE" add cases.h5 frobnication/001
check "$UNFURL" parity cases.h5 --dtype f64
grep -Eq '^frobnication +2 +not known$' check.out || complain "frobnication is not counted: $(cat check.out)"
before=$(sed -n 's/.*, \([0-9]*\) of kinds that are not known.*/\1/p' f64.out)
after=$(sed -n 's/.*, \([0-9]*\) of kinds that are not known.*/\1/p' check.out)
equal "$after" "$((before + 2))" "cases of unknown kinds"

check "$UNFURL" parity cases.h5 --dtype f64 --json
holds check.out '"kind": "frobnication"'
holds check.out '"passed": true'
cp check.out json.out
if [ -n "$PYTHON" ]; then
    check "$PYTHON" -c 'import json, sys
kinds = json.load(open(sys.argv[1]))
assert kinds["passed"] is True
by_name = {k["kind"]: k for k in kinds["kinds"]}
assert by_name["conv_transpose2d"]["passed"] and by_name["conv_transpose2d"]["cases"] > 10
assert by_name["conv_transpose2d"]["error"] < 1e-11
assert by_name["frobnication"] == {"kind": "frobnication", "cases": 2, "known": False}' json.out
fi

# One wrong number anywhere: a value, a gradient, a buffer, a step of an optimizer.
for dataset in conv_transpose2d/003/output conv_transpose2d/000/grad_input conv2d/001/grad_weight \
    batch_norm2d_train/000/running_var_after batch_norm2d_train/000/grad_weight activation/tanh/grad_input \
    loss/bce/loss loss/l1/grad_input optimizer/adam/params_after; do
    cp "$SOURCE/tests/data/ops_open.h5" wrong.h5 && chmod u+w wrong.h5
    check "$FIXTURE" perturb wrong.h5 $dataset
    for dtype in f64 f32; do
        "$UNFURL" parity wrong.h5 --dtype $dtype >wrong.out 2>wrong.err
        equal "$?" 1 "status with a wrong $dataset in $dtype"
        grep -q "${dataset%/*}.*BEYOND THE TOLERANCE" wrong.out || complain "${dataset%/*} is not named"
        equal "$(grep -c BEYOND wrong.out)" 1 "kinds beyond the tolerance"
    done
done
"$UNFURL" parity wrong.h5 --dtype f64 --json >wrong.out
equal "$?" 1 "status of --json"
holds wrong.out '"passed": false'

refuse 2 "CASES.h5 is missing" parity
refuse 1 "nothing.h5" parity nothing.h5
echo "no HDF5 at all" >text.h5
refuse 1 "text.h5" parity text.h5
finish
