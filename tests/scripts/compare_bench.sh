# scripts/compare-bench says which of two results is slower: by a cell, by a list's mean, by a time that is gone; and
# what it cannot compare.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
command -v python3 >/dev/null || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# compared STATUS LINE WORD...: compare-bench WORD... ends with STATUS and says LINE.
compared() {
    local expected=$1 line=$2 status=0
    shift 2
    "$root/scripts/compare-bench" "$@" >said 2>&1 || status=$?
    if [[ $status != "$expected" ]] || ! grep -qF -- "$line" said; then
        echo "compare-bench $*: status $status in place of $expected, or no line \"$line\" in:"
        cat said
        exit 1
    fi
}
silent() { # TEXT: the last comparison did not say it
    if grep -qF -- "$1" said; then
        echo "said \"$1\":"
        cat said
        exit 1
    fi
}

# head GPU; row NAME VARIANT MS CHOSEN [OPERATION]
head() { echo "{\"matrix\": 1, \"gpu\": \"$1\", \"capability\": 90, \"driver\": \"1.2\", \"cuda\": \"13.0\"}"; }
row() {
    echo "{\"list\": \"shapes\", \"name\": \"$1\", \"op\": \"${5:-forward}\", \"dtype\": \"f32\", \"math\": \"fp32\"," \
        "\"variant\": \"$2\", \"ms\": $3, \"chosen\": $4}"
}
matrix() { # MS of a, of b, of c, of c's other variant
    head H200
    row a mma "$1" true
    row b mma "$2" true
    row c mma "$3" true
    row c naive "$4" false
    row c mma 1 true grad_weight
}
matrix 1 2 4 8 >old
matrix 1 2 4 8 >same
compared 0 "as fast: 0 cells" old same
grep -qE "^shapes +forward +fp32 +3 +1\.0000$" said
grep -qE "^shapes +grad_weight +fp32 +1 +1\.0000$" said
matrix 1 2 4.1 8 >new # 2.5 %, and the mean 0.8 %
compared 1 "SLOWER" old new
silent "slower "
compared 0 "1.0083" --mean 1 old new
compared 1 "slower   shapes forward fp32 f32 c: 4.0000 to 4.1000 ms, +2.5 %, mma" --cell 2 --mean 1 old new
matrix 1 1.9 4.15 8 >new # a cell beyond 3 % in a faster mean
compared 1 "slower   shapes forward fp32 f32 c" old new
grep -qF "faster   shapes forward fp32 f32 b: 2.0000 to 1.9000 ms, -5.0 %" said
compared 0 "as fast" --cell 4 old new
matrix 0.5 2 4 8 >new
compared 0 "faster   shapes forward fp32 f32 a" old new
matrix 1 2 4 9 >new # no choice
compared 0 "as fast" old new
silent naive
compared 1 "slower   shapes forward fp32 f32 c: 8.0000 to 9.0000 ms, +12.5 %, naive" --variants old new

# Rows of tiles: a variant's own one compares with a row that has none, each other one with its like.
tile() { # NAME VARIANT MS CHOSEN TILE OWN
    row "$1" "$2" "$3" "$4" | sed "s/}$/, \"tile\": $5, \"own_tile\": $6}/"
}
tiles() { # MS of a's own tile, of another one
    head H200
    tile a mma "$1" true 2 true
    tile a mma "$2" false 0 false
}
tiles 1 3 >tiled
tiles 1 4 >tiled_slower
{ head H200; row a mma 1 true; } >plain
compared 0 "as fast" plain tiled
compared 0 "as fast" --variants plain tiled
compared 0 "as fast" tiled tiled_slower
compared 1 "slower   shapes forward fp32 f32 a: 3.0000 to 4.0000 ms, +33.3 %, mma:0" --variants tiled tiled_slower
for none in null NaN Infinity -Infinity -1 0; do
    matrix 1 2 "$none" 8 >new
    compared 1 "lost     shapes forward fp32 f32 c: 4.0000 ms by mma, and no time in B" old new
    grep -qE "^shapes +forward +fp32 +2 +1\.0000$" said
    compared 0 "1 cells have a time in B alone" new old
done
grep -v '"a"' old >new
compared 1 "lost     shapes forward fp32 f32 a" old new
# Another choice, as fast.
{ head H200 && row a mma 1 false && row a wgmma 0.9 true; } >new
{ head H200 && row a mma 1 true && row a wgmma 0.9 false; } >chosen
compared 0 "mma -> wgmma" chosen new
compared 1 "wgmma -> mma" new chosen
{ head H100 && tail -n +2 old; } >other
compared 0 'A is of "H200, driver 1.2, CUDA 13.0", B of "H100, driver 1.2, CUDA 13.0"' old other

# Lines of bench_ops --json: what is void has no time.
line() {
    echo "{\"list\": \"shapes\", \"shape\": \"$1\", \"op\": \"forward\", \"dtype\": \"f32\", \"math\": \"tf32\"," \
        "\"variant\": \"mma\", \"ms\": $2, \"valid\": $3}"
}
{ line a 1 true && line b 2 true; } >old.json
{ line a 1 true && line b 2 false; } >void.json
compared 0 "as fast" old.json old.json
compared 1 "lost     shapes forward tf32 f32 b" old.json void.json
# Tables as bench/results has them.
table() {
    echo "# bench_ops --math tf32 --shapes bench/shapes-other.json"
    echo "unfurl 0.2.0 on NVIDIA H200 (CUDA), cuDNN 9.14.0 (legacy), copy 4.0$1 TB/s"
    echo "shape        op          type math kernel              ms  TFLOP/s"
    echo "kb57         forward     f32  tf32 mma            $1g   119.68 178.9%  25.8 algo_1"
    echo "kb57         grad_input  f32  tf32 mma            $2   119.68 178.9%  25.8 algo_1"
    echo "tf32: geometric mean of cuDNN's time over ours, 2 cells"
}
table 1.0 2.0 >old.txt
table 1.1 2.0 >new.txt
table 1.0 VOID >void.txt
compared 0 "shapes-other" old.txt old.txt
silent "A is of"
compared 1 "slower   shapes-other forward tf32 f32 kb57: 1.0000 to 1.1000 ms, +10.0 %, mma" old.txt new.txt
compared 1 "lost     shapes-other grad_input tf32 f32 kb57" old.txt void.txt
for result in "$root"/bench/results/*.txt; do
    compared 0 "as fast" "$result" "$result"
done

compared 2 "no cell has a time in both" old old.txt
compared 2 "old.nowhere: No such file" old old.nowhere
echo '{"matrix": 2}' >new
compared 2 "version 1" old new
{ matrix 1 2 4 8 && row a mma 1 false; } >new
compared 2 "twice" old new
echo '{"matrix": 1' >new
compared 2 "no result of bench_ops" old new
compared 2 "percentage" --cell nan old old
: >empty
compared 2 "no cell has a time in both" empty empty
