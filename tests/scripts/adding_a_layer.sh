#!/bin/bash
# adding_a_layer.sh - the diffs of docs/adding-a-layer.md apply to a copy of this tree, and what comes out
# builds without a warning and passes the tests of layers and of gradients.
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/tree"
tar -C "$root" --exclude=./build --exclude=./.git -cf - . | tar -C "$work/tree" -xf -
cd "$work/tree"

awk '/^```diff$/ { inside = 1; next } /^```$/ { inside = 0 } inside' docs/adding-a-layer.md >"$work/walk.patch"
git init --quiet # so that git apply takes this folder for the root, whatever lies above it
git apply --verbose "$work/walk.patch"

log=$work/log
{
    cmake -S . -B build -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_COMPILE_WARNING_AS_ERROR=ON \
        -DUNFURL_CUDA=OFF -DUNFURL_BUILD_TOOLS=OFF -DUNFURL_BUILD_EXAMPLES=OFF -DUNFURL_BUILD_BENCH=OFF &&
        cmake --build build --parallel "$(nproc)" --target test_gradcheck test_layers test_ops test_reference
} >"$log" 2>&1 || { tail -50 "$log" >&2; exit 1; }
ctest --test-dir build --output-on-failure --no-tests=error -R '^(gradcheck\.cpu\.all|(layers|ops)\.cpu\.(pytorch|table)|reference)'
