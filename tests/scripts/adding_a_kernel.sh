#!/bin/bash
# adding_a_kernel.sh TREE PLAN [OPS] - the diffs of docs/adding-a-kernel.md apply to a copy of this tree, TREE, in a build's
# folder. Every list of variants then has the new one: those of the scripts, of the tests, of the sanitizers. The programs of
# tests/cuda/added_kernel.cmake, PLAN and where there is a toolkit OPS, compile without a warning. PLAN passes; so does
# OPS, the table of shapes through the new kernel, where there is a GPU.
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

tree=$1
plan=$2
ops=${3:-}
name=pointwise
log=$(mktemp)
rm -rf "$tree"
trap 'rm -rf "$tree" "$log"' EXIT

mkdir "$tree"
tar -C "$root" -cf - .clang-format docs include scripts src tests | tar -C "$tree" -xf -
cd "$tree"
awk '/^```diff$/ { inside = 1; next } /^```$/ { inside = 0 } inside' docs/adding-a-kernel.md >walk.patch
git init --quiet # so that git apply takes this folder for the root, whatever lies above it
git apply --verbose walk.patch
[[ $(git apply --numstat walk.patch | awk '{ print $3 }' | sed "s|/$name/.*||" | sort -u | wc -l) == 2 ]] ||
    die "the page changes more than a folder and a row"
scripts/check-format.sh src/kernels/cuda/conv/$name/* || (($? == 77))

# made TARGET: build it in this build.
made() {
    cmake --build "$(dirname "$tree")" --parallel "$jobs" --target "$1" >"$log" 2>&1 || { tail -50 "$log" >&2; exit 1; }
}

# added LIST-OF-BEFORE LIST: the second is the first and, somewhere, the new variant.
added() {
    [[ $(sort "$2") == "$(sort "$1" <(say $name))" ]] || die "a list is $(tr '\n' ' ' <"$2"), and was $(tr '\n' ' ' <"$1")"
}

made test_added_plan
"$plan"
for direction in fprop dgrad wgrad; do
    for type in f32 f64 bf16; do
        "$root/scripts/conv-variants" --direction $direction --type $type >before
        scripts/conv-variants --direction $direction --type $type >now
        diff now <("$plan" list $direction $type) || die "scripts/conv-variants and the tests have other variants"
        if [[ $direction == wgrad ]]; then
            diff before now
        else
            added before now
        fi
    done
done

cat >tests.json <<'JSON'
{"tests": [{"name": "ops.cuda.variants", "command": ["test_ops"]}, {"name": "ops.cuda.bf16_few", "command": ["test_bf16"]},
           {"name": "accuracy.cuda.repeats_few", "command": ["test_accuracy"]}]}
JSON
scripts/sanitizer-runs tests.json >runs
for test in ops.cuda.variants ops.cuda.bf16_few accuracy.cuda.repeats_few; do
    grep -q "^$test\.$name	env	UNFURL_TEST_VARIANT=$name	" runs ||
        die "no sanitizer runs $test with $name"
done

if [[ -z $ops ]]; then
    say "no CUDA toolkit: $name's kernel is not compiled"
    exit 0
fi
made test_added_ops
if has_gpu; then
    UNFURL_TEST_DEVICE=cuda UNFURL_TEST_VARIANT=$name "$ops" variants | tee "$log"
    grep -q "variant $name took" "$log"
else
    say "no GPU: $name's kernel is compiled and does not run"
fi
