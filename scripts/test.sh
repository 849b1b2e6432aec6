#!/bin/bash
# test.sh [CTEST ARGUMENT...] - install what is missing, build, run every test; ends with ctest's summary.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

"$root/scripts/install-packages.sh" build
# Where there is a CUDA toolkit its kernels are compiled, GPU or not.
configure_options=(-DUNFURL_CUDA=AUTO)
build release
ctest --test-dir "$root/build/release" --parallel "$jobs" --output-on-failure --no-tests=error "$@"
