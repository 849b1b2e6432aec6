#!/bin/bash
# compare-cudnn.sh - build bench_ops from this tree, time every shape beside cuDNN, in every math, and write the whole
# tables, cells that cuDNN wins included, to bench/results/<date>-<gpu>-<math>.txt. Ends with what they come to.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'TEXT'
compare-cudnn.sh [--dry-run] [MATH...] [-- BENCH_OPS_OPTION...]

  MATH         fp32, tf32, bf16; all three when none is named. In bf16 both sides have bf16 tensors.
  --dry-run    say what would be done and where results would go; needs no GPU
  After "--" options of bench_ops, as --only SHAPE, --op forward, --budget-ms 200, --shapes FILE.json.

  OUT=FOLDER         where results go                          bench/results
  BUILD=FOLDER       where bench_ops is built                  build/compare-cudnn
  DEBS=FOLDER        Debian packages (*.deb) of what this machine lacks and may not install, or
                     those unpacked in DEBS/root: used in place     .deb
  CUDNN_ROOT=FOLDER  with include/ and lib/ of cuDNN, where it is in none of the usual places:
                     of a wheel, .../site-packages/nvidia/cudnn

Needs an NVIDIA GPU, the CUDA toolkit, cuDNN with its headers, and the group "build" of scripts/packages.txt, which it
installs where it may and DEBS has none. Status 1 when a table is not whole: a cell failed or its result was wrong.
TEXT
}

export PATH="$PATH:/usr/local/cuda/bin"
OUT=${OUT:-$root/bench/results}
BUILD=${BUILD:-$root/build/compare-cudnn}
DEBS=${DEBS:-$root/.deb}
packages=$BUILD/packages
dry=false
maths=()
options=()
while (($#)); do
    case $1 in
    --help | -h)
        usage
        exit 0
        ;;
    --dry-run) dry=true ;;
    fp32 | tf32 | bf16) maths+=("$1") ;;
    --)
        shift
        options=("$@")
        break
        ;;
    *)
        usage >&2
        die "\"$1\" is neither an option nor a math"
        ;;
    esac
    shift
done
((${#maths[@]})) || maths=(fp32 tf32 bf16)

configure=(cmake -S "$root" -B "$BUILD" -DCMAKE_BUILD_TYPE=Release -DUNFURL_CUDA=ON -DBUILD_TESTING=OFF
    -DUNFURL_BUILD_TOOLS=OFF -DUNFURL_BUILD_EXAMPLES=OFF)
compile=(cmake --build "$BUILD" --parallel "$jobs" --target bench_ops)
bench=("$BUILD/bench/bench_ops" --device cuda)

gpu=GPU
driver=unknown
if has_gpu; then
    IFS=, read -r gpu driver < <(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader)
    driver=${driver# }
elif ! $dry; then
    die "no NVIDIA GPU is here (nvidia-smi shows none)"
fi
date=$(date -u +%F)
# "NVIDIA H200" becomes h200.
short=$(sed -E 's/^NVIDIA +//; s/[^A-Za-z0-9]+/-/g; s/^-|-$//g' <<<"$gpu" | tr '[:upper:]' '[:lower:]')

result_of() {
    printf '%s/%s-%s-%s.txt' "$OUT" "$date" "$short" "$1"
}

if $dry; then
    say "${configure[*]}"
    say "${compile[*]}"
    for math in "${maths[@]}"; do
        say "${bench[*]} --math $math${options[*]:+ ${options[*]}} >$(result_of "$math")"
    done
    exit 0
fi

unpack_debs "$DEBS" "$packages"
[[ -d $packages ]] || "$root/scripts/install-packages.sh" build
quietly "configuring" "$BUILD/configure.log" "${configure[@]}" ${flags:+"-DCMAKE_C_FLAGS=$flags" "-DCMAKE_CUDA_FLAGS=$flags"}
grep -q "cuDNN for the benchmarks" "$BUILD/configure.log" ||
    die "cuDNN or its header cudnn.h was not found: set CUDNN_ROOT (see --help)"
say "building in $BUILD"
quietly "building" "$BUILD/build.log" "${compile[@]}"

cuda=$(nvcc --version | sed -nE 's/.*release ([0-9.]+).*/\1/p')
commit=$(git -C "$root" rev-parse --short HEAD 2>/dev/null || echo "unknown")
# Results of an earlier math are no change of what was measured.
if [[ -n $(git -C "$root" status --porcelain -- . ':!bench/results' 2>/dev/null) ]]; then
    commit+=" with changes"
fi
mkdir -p "$OUT"
status=0
for math in "${maths[@]}"; do
    result=$(result_of "$math")
    words=(bench_ops --device cuda --math "$math" "${options[@]}")
    say "$math: timing; the table goes to $result"
    code=0
    "${bench[@]}" --math "$math" "${options[@]}" >"$BUILD/$math.txt" 2>"$BUILD/$math.err" </dev/null || code=$?
    cudnn=$(sed -nE 's/.*, cuDNN ([0-9.]+).*/\1/p;' "$BUILD/$math.txt" | head -n 1)
    [[ -n $cudnn ]] || {
        cat "$BUILD/$math.err" >&2
        die "$math: bench_ops ended with status $code before its first line, or without cuDNN: $BUILD/$math.txt"
    }
    {
        say "# ${words[*]}"
        say "# $gpu, driver $driver, CUDA $cuda, cuDNN $cudnn; unfurl at $commit; $date"
        cat "$BUILD/$math.txt"
        if ((code != 0)); then
            say "# NOT whole: bench_ops ended with status $code"
            sed 's/^/# /' "$BUILD/$math.err"
        fi
    } >"$result"
    if ((code != 0)); then
        cat "$BUILD/$math.err" >&2
        status=1
    fi
done

say
for math in "${maths[@]}"; do
    grep -E "^$math: " "$(result_of "$math")" || say "$math: no cell with cuDNN beside it"
done
((status == 0)) || say "NOT whole: see the ends of the tables"
exit $status
