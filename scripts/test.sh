#!/bin/bash
# test.sh [--quick | --all] [CTEST ARGUMENT...] - install what is missing, build and test; ends with ctest's summary.
#
#   --quick    the everyday tests, on the CPU: under three minutes on two cores
#   (neither)  every test that can run here: with the CUDA kernels where there is a GPU
#   --all      the same, and the CUDA kernels are compiled where there is a toolkit, GPU or not: twenty minutes on
#              two cores
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

cuda=$(cuda_of_this_machine)
fuzz_seconds=10
chosen=()
case ${1:-} in
--help)
    help_of "$0"
    exit 0
    ;;
--quick)
    shift
    cuda=OFF
    fuzz_seconds=1
    chosen=(--label-exclude slow)
    ;;
--all)
    shift
    cuda=AUTO
    ;;
esac

"$root/scripts/install-packages.sh" build
configure_options=("-DUNFURL_CUDA=$cuda" "-DUNFURL_FUZZ_SECONDS=$fuzz_seconds")
build release
ctest --test-dir "$root/build/release" --parallel "$jobs" --output-on-failure --no-tests=error "${chosen[@]}" "$@"
