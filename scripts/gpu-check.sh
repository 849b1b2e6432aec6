#!/bin/bash
# gpu-check.sh - the whole round on a machine with an NVIDIA GPU: build, every test on CPU and GPU, the
# sanitizers, the benchmarks. Ends in a short table. Everything else is in $OUT.
#
#   OUT=FOLDER       logs and results                             build/gpu-check
#   BUILD=FOLDER     the build                                    build/gpu
#   STEPS="..."      of: build waits test sanitize bench layers models   all
#   CTEST_ARGS       more arguments for ctest
#   BENCH_ARGS       arguments for bench_ops                      --math all --budget-ms 100
#   DEBS=FOLDER      Debian packages (*.deb) of libcmocka and Random123 for a machine without
#                    them, or those unpacked in DEBS/root: used in place, never installed   .deb
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

export PATH="$PATH:/usr/local/cuda/bin"
OUT=${OUT:-$root/build/gpu-check}
BUILD=${BUILD:-$root/build/gpu}
STEPS=${STEPS:-build waits test sanitize bench layers models}
DEBS=${DEBS:-$root/.deb}
mkdir -p "$OUT" "$BUILD"
status=0

has_step() {
    [[ " $STEPS " == *" $1 "* ]]
}

packages=$BUILD/packages
unpack_debs "$DEBS" "$packages"

declare -A took
timed() {
    local step=$1 begin=$SECONDS
    shift
    say "== $step"
    "$@" || status=1
    took[$step]=$((SECONDS - begin))
}

step_build() {
    local generator=()
    command -v ninja >/dev/null && generator=(-G Ninja)
    quietly "configuring" "$OUT/configure.log" cmake -S "$root" -B "$BUILD" "${generator[@]}" \
        -DCMAKE_BUILD_TYPE=Release -DUNFURL_CUDA=ON -DCMAKE_C_FLAGS="$flags" -DCMAKE_CUDA_FLAGS="$flags"
    quietly "building" "$OUT/build.log" cmake --build "$BUILD" --parallel "$jobs"
    # Counts kernel launches by name, through the toolkit's own profiling interface.
    local cuda
    cuda=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")
    rm -f "$BUILD/launch_count.so"
    local include
    for include in "$cuda/extras/CUPTI/include" "$cuda/include"; do
        if [[ -e $include/cupti.h ]]; then
            gcc -std=c11 -D_GNU_SOURCE -O2 -shared -fPIC -I"$include" -I"$cuda/include" \
                "$root/tests/cuda/launch_count.c" -o "$BUILD/launch_count.so" \
                -L"$cuda/extras/CUPTI/lib64" -L"$cuda/lib64" -L"$cuda/lib" -lcupti \
                -Wl,-rpath,"$cuda/extras/CUPTI/lib64:$cuda/lib64:$cuda/lib" \
                >"$OUT/launch_count.log" 2>&1 || say "launches will not be counted: $OUT/launch_count.log"
            break
        fi
    done
}

# Every kernel waits for the one before it before it touches memory: src/kernels/cuda/README.md says why.
step_waits() {
    find "$BUILD/src" -name '*.cu.o' -print0 |
        xargs -0 -P "$jobs" -I{} sh -c 'cuobjdump -sass "$1" | awk -v object="${1##*/}" -f "$2"' \
            _ {} "$root/scripts/early-accesses.awk" >"$OUT/waits.txt"
    cat "$OUT/waits.txt"
    [[ ! -s $OUT/waits.txt ]]
}

step_test() {
    rm -rf "$OUT/launches"
    mkdir -p "$OUT/launches"
    local environment=()
    if [[ -e $BUILD/launch_count.so ]]; then
        environment=(env "CUDA_INJECTION64_PATH=$BUILD/launch_count.so" "UNFURL_LAUNCHES=$OUT/launches")
    fi
    # shellcheck disable=SC2086
    "${environment[@]}" ctest --test-dir "$BUILD" --parallel "$jobs" --output-on-failure --no-tests=error \
        --timeout 400 ${CTEST_ARGS:-} >"$OUT/ctest.log" 2>&1 </dev/null
    local code=$?
    grep -E "tests passed|\*\*\*" "$OUT/ctest.log" | tail -n 40
    # One process, one small file: too many to keep.
    cat "$OUT"/launches/* 2>/dev/null | c++filt -n 2>/dev/null |
        sed -E 's/^([0-9]+) (void )?/\1 /; s/\(.*//; s/<.*//' |
        awk '{ n[$2] += $1 } END { for (k in n) print n[k], k }' | sort -k2 >"$OUT/launches.txt"
    rm -rf "$OUT/launches"
    return $code
}

step_sanitize() {
    ctest --test-dir "$BUILD" -L sanitize -L cuda --show-only=json-v1 >"$OUT/sanitize.json"
    "$root/scripts/sanitizer-runs" "$OUT/sanitize.json" >"$OUT/sanitize.list"
    local code=0 tool name command begin options running=()
    : >"$OUT/sanitize.txt"
    for tool in memcheck racecheck initcheck synccheck; do
        options=(--tool "$tool" --error-exitcode 99 --target-processes all)
        # Left to itself it follows as many barriers of a block as it sees instructions that make one; rings are
        # made in loops.
        [[ $tool == racecheck || $tool == synccheck ]] && options+=(--num-cuda-barriers 64)
        while IFS=$'\t' read -r name command; do
            (
                IFS=$'\t' read -ra words <<<"$command"
                log=$OUT/sanitize.$tool.${name//[^A-Za-z0-9._-]/_}.log
                result=clean
                begin=$SECONDS
                timeout 600 compute-sanitizer "${options[@]}" "${words[@]}" >"$log" 2>&1 </dev/null ||
                    result="code $?"
                [[ $result == clean ]] || tail -n 30 "$log"
                echo "$((SECONDS - begin)) s, $tool $name: $result" >>"$OUT/sanitize.txt"
            ) &
            running+=($!)
            if ((${#running[@]} >= 12)); then
                wait "${running[0]}"
                running=("${running[@]:1}")
            fi
        done <"$OUT/sanitize.list"
    done
    wait
    grep -v ": clean$" "$OUT/sanitize.txt" && code=1
    # Keep one log instead of many.
    tail -n 25 "$OUT"/sanitize.*.log >"$OUT/sanitize.log" 2>/dev/null
    rm -f "$OUT"/sanitize.*check.*.log "$OUT/sanitize.json" "$OUT/sanitize.list"
    [[ -s $OUT/sanitize.txt ]] || code=1
    return $code
}

step_bench() {
    # shellcheck disable=SC2086
    timeout "${BENCH_SECONDS:-400}" "$BUILD/bench/bench_ops" --device cuda ${BENCH_ARGS:---math all --budget-ms 100} \
        >"$OUT/bench_ops.txt" 2>"$OUT/bench_ops.err"
    local code=$?
    cat "$OUT/bench_ops.txt" "$OUT/bench_ops.err"
    return $code
}

# Shares of copy speed: a layer below the aim is in the table, and no failure.
step_layers() {
    local code=0 type
    : >"$OUT/bench_layers.txt"
    for type in f32 bf16; do
        timeout "${BENCH_SECONDS:-400}" "$BUILD/bench/bench_layers" --device cuda --dtype "$type" \
            >>"$OUT/bench_layers.txt" 2>"$OUT/bench_layers.$type.err" || code=$?
    done
    cat "$OUT/bench_layers.txt" "$OUT"/bench_layers.*.err
    return $code
}

step_models() {
    timeout "${BENCH_SECONDS:-400}" "$BUILD/bench/bench_models" --device cuda --math all \
        >"$OUT/bench_models.txt" 2>"$OUT/bench_models.err"
    local code=$?
    cat "$OUT/bench_models.txt" "$OUT/bench_models.err"
    return $code
}

for step in build waits test sanitize bench layers models; do
    if has_step "$step"; then
        timed "$step" "step_$step"
    fi
done

commit=$(git -C "$root" rev-parse --short HEAD 2>/dev/null || echo "unknown")
if [[ -n $(git -C "$root" status --porcelain 2>/dev/null) ]]; then
    commit+=" with changes"
fi
{
    say
    say "commit      $commit"
    say "date        $(date -u +%F)"
    say "GPU         $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1)"
    say "CUDA        $(nvcc --version | grep -o 'release.*')"
    for step in build waits test sanitize bench layers models; do
        if [[ -n ${took[$step]:-} ]]; then
            say "$(printf '%-11s %4d s' "$step" "${took[$step]}")"
        fi
    done
    if has_step test; then
        say "tests       $(grep -E 'tests passed' "$OUT/ctest.log")"
        say "skipped     $(grep -c '\*\*\*Skipped' "$OUT/ctest.log")"
        say "launches    kernel"
        awk '{ printf "%11d  %s\n", $1, $2 }' "$OUT/launches.txt"
    fi
    if has_step sanitize; then
        say "sanitizers  $(grep -c ': clean$' "$OUT/sanitize.txt") clean of $(wc -l <"$OUT/sanitize.txt") runs"
    fi
    if has_step bench; then
        grep "geometric mean" "$OUT/bench_ops.txt" || say "bench       no cell with cuDNN beside it"
    fi
    if has_step layers; then
        awk '/^unfurl / { type = $0; sub(/, copy.*/, "", type); sub(/.*, /, "", type) }
            / of copy speed$/ { print "layers      " type ": " $0 }' "$OUT/bench_layers.txt"
    fi
    say "verdict     $( ((status == 0)) && echo good || echo "NOT good: see $OUT")"
} | tee "$OUT/summary.txt"
exit $status
