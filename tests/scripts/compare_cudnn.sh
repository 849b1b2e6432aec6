#!/bin/bash
# compare_cudnn.sh - scripts/compare-cudnn.sh before a GPU, a toolkit and a bench_ops that are made up: the names and
# heads of its results, the cells that were lost at its end, its status when a cell was wrong or cuDNN is not there.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree
mkdir -p "$tree" "$work/bin"
cp -r "$root/scripts" "$tree/scripts"

fake() { # NAME, its text from stdin
    { echo '#!/bin/bash' && cat; } >"$work/bin/$1"
    chmod +x "$work/bin/$1"
}
fake nvidia-smi <<'X'
[[ $1 == -L ]] && echo "GPU 0: NVIDIA H200 NVL (UUID: made up)" || echo "NVIDIA H200 NVL, 580.1.2"
X
fake nvcc <<'X'
echo "Cuda compilation tools, release 13.0, V13.0.1"
X
fake dpkg-query <<'X'
echo installed
X
# Configuring and building make one bench_ops.
fake cmake <<X
[[ \$1 == --build ]] || echo "-- cuDNN for the benchmarks: libcudnn.so"
mkdir -p "$tree/build/compare-cudnn/bench"
cp "$work/bench_ops" "$tree/build/compare-cudnn/bench/bench_ops"
X
cat >"$work/bench_ops" <<'X'
#!/bin/bash
echo "unfurl 0.2.0 on NVIDIA H200 NVL (CUDA), cuDNN 9.14.0 (legacy interface, every algorithm), copy 4.20 TB/s"
echo "row of $4"
echo "$4: geometric mean of cuDNN's time over ours, 2 cells: NCHW 0.90; slower than NCHW in 1"
echo "$4: slower than NCHW: unet4_b4     grad_weight 0.80"
echo "$5"
[[ $4 != tf32 ]] || { echo "bench_ops: 1 cells are void" >&2; exit 1; }
X
chmod +x "$work/bench_ops"

compare() {
    (cd "$work" && env -i PATH="$work/bin:/usr/bin:/bin" "$tree/scripts/compare-cudnn.sh" "$@" </dev/null) \
        >"$work/said" 2>&1
}
fail() {
    echo "$*" >&2
    cat "$work/said" >&2
    exit 1
}
has() { # FILE TEXT
    grep -qF -- "$2" "$1" || fail "$1 does not have \"$2\""
}

compare --help || fail "--help failed"
has "$work/said" "CUDNN_ROOT"
compare nonsense && fail "\"nonsense\" was taken for a math"
compare --dry-run bf16 -- --only kb57 || fail "--dry-run failed"
has "$work/said" "--math bf16 --only kb57"
[[ ! -e $tree/bench && ! -e $tree/build ]] || fail "--dry-run did something"

# The first of this clone, on a machine that may install nothing.
mkdir -p "$work/package/DEBIAN" "$work/package/usr/include" "$tree/.deb"
printf '%s\n' "Package: made-up" "Version: 1" "Architecture: all" "Maintainer: nobody" "Description: made up" \
    >"$work/package/DEBIAN/control"
touch "$work/package/usr/include/made_up.h"
dpkg-deb --build "$work/package" "$tree/.deb/made-up.deb" >/dev/null
compare fp32 || fail "a comparison with packages that are unpacked failed"
[[ -e $tree/build/compare-cudnn/packages/usr/include/made_up.h ]] || fail "the package was not unpacked"
rm -rf "$tree/.deb" "$tree/build" "$tree/bench"

compare fp32 bf16 -- --quick || fail "a good comparison failed"
results=$tree/bench/results
for math in fp32 bf16; do
    result=$(echo "$results"/????-??-??-h200-nvl-$math.txt)
    has "$result" "# bench_ops --device cuda --math $math --quick"
    has "$result" "# NVIDIA H200 NVL, driver 580.1.2, CUDA 13.0, cuDNN 9.14.0; unfurl at unknown; "
    has "$result" "row of $math"
    has "$work/said" "$math: slower than NCHW: unet4_b4"
done
[[ $(find "$results" -type f | wc -l) == 2 ]] || fail "there are other results"

compare && fail "a comparison with a wrong cell succeeded"
has "$(echo "$results"/*-tf32.txt)" "# NOT whole: bench_ops ended with status 1"
has "$(echo "$results"/*-tf32.txt)" "# bench_ops: 1 cells are void"
[[ $(find "$results" -type f | wc -l) == 3 ]] || fail "the maths after the failed one are not there"

sed -i 's/cuDNN for the benchmarks/nothing/' "$work/bin/cmake"
compare && fail "a comparison without cuDNN succeeded"
has "$work/said" "set CUDNN_ROOT"
fake nvidia-smi <<<'exit 9'
compare && fail "a comparison without a GPU succeeded"
has "$work/said" "no NVIDIA GPU"
echo "compare-cudnn.sh: right"
