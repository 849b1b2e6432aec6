# scripts/bench-models sets our times of whole models beside the fastest of PyTorch's ways, and says whose losses differ,
# what has failed and what lacks. bench_models.sh BENCH_MODELS: and runs both, where a Python has PyTorch.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bench_models=${1:-}
command -v python3 >/dev/null || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# said STATUS WORD...: bench-models WORD... ends with STATUS, its words in the file "said".
said() {
    local expected=$1 status=0
    shift
    "$root/scripts/bench-models" "$@" >said 2>&1 || status=$?
    if [[ $status != "$expected" ]]; then
        echo "bench-models $*: status $status in place of $expected:"
        cat said
        exit 1
    fi
}
has() { # PATTERN: a line of "said"
    grep -qE -- "$1" said || {
        echo "no line \"$1\" in:"
        cat said
        exit 1
    }
}
hasnt() {
    ! grep -qE -- "$1" said || {
        echo "a line \"$1\" in:"
        cat said
        exit 1
    }
}

size='"batch": 4, "channels": 3, "height": 64, "width": 64, "features": 64, "latent": 9'
# ours NAME MATH MS MIB FIRST THIRD; peer NAME MATH DTYPE LAYOUT MODE MS MIB FIRST THIRD
ours() {
    echo "{\"name\": \"$1\", $size, \"by\": \"unfurl 1\", \"device\": \"H200 (CUDA)\", \"math\": \"$2\"," \
        "\"dtype\": \"f32\", \"ms\": $3, \"kernels\": 17, \"bytes\": 1, \"peak_bytes\": $(($4 << 20))," \
        "\"first\": {\"g\": $5}, \"third\": {\"g\": $6}, \"last\": {\"g\": 0}}"
}
peer() {
    echo "{\"name\": \"$1\", $size, \"by\": \"torch 2\", \"device\": \"H200\", \"math\": \"$2\", \"dtype\": \"$3\"," \
        "\"layout\": \"$4\", \"mode\": \"$5\", \"ms\": $6, \"bytes\": 1, \"peak_bytes\": $(($7 << 20))," \
        "\"first\": {\"g\": $8}, \"third\": {\"g\": $9}, \"last\": {\"g\": 0}}"
}
failed() { # NAME MATH MODE TEXT
    echo "{\"name\": \"$1\", $size, \"by\": \"torch 2\", \"device\": \"H200\", \"math\": \"$2\", \"dtype\": \"f32\"," \
        "\"layout\": \"nhwc\", \"mode\": \"$3\", \"error\": \"$4\"}"
}
{
    ours a fp32 1 10 0.5 0.6
    ours b fp32 2 30 0.5 0.6
    ours a bf16 0.5 10 0.5 0.6
} >ours
{
    peer a fp32 f32 nchw eager 9 10 0.5 0.6
    peer a fp32 f32 nhwc graph 4 20 0.5 0.6
    failed a fp32 compile "RuntimeError: no kernel"
    failed b fp32 compile "TimeoutError: no time is left"
    failed b fp32 compile_graph "TimeoutError: no time is left"
    peer b fp32 f32 nchw graph 2 20 0.5 0.6
    peer a bf16 autocast nchw graph 1 5 0.51 0.62
    peer a bf16 bf16 nchw graph 0.8 4 77 88
} >peer
said 0 --table ours peer
has '^a +4 fp32 f32 +1\.0000 +17 +4\.0000 +4\.00  graph nhwc f32 +10\.0 +10\.0 +1\.00$'
has '^b +4 fp32 f32 +2\.0000 +17 +2\.0000 +1\.00  graph nchw f32 +30\.0 +20\.0 +1\.50$'
has '^a +4 bf16 f32 +0\.5000 +17 +0\.8000 +1\.60  graph nchw bf16 +10\.0 +4\.0 +2\.50$'
has '^fp32: 2 models, geometric mean .* 2\.00, least 1\.00, below 1\.5 in 1; .* 1\.22, most 1\.50, above 1 in 1$'
has '^bf16: 1 models, geometric mean .* 1\.60, least 1\.60, below 1\.5 in 0;'
has '^peer: a, batch 4, fp32 f32 nhwc compile: RuntimeError: no kernel$'
has '^peer: 2 rows \(compile, compile_graph\) were not timed: TimeoutError: no time is left$'
hasnt '^tf32'

# Other losses are said, in the first step and in the third; so are figures that are missing or not finite.
{ peer a fp32 f32 nchw graph 4 20 0.502 0.6; } >other
said 1 --table ours other
has '^a +4 fp32 .* first g 0\.5, theirs 0\.502$'
{ peer a fp32 f32 nchw graph 4 20 0.5002 0.63; } >other
said 1 --table ours other
has '^a +4 fp32 .* third g 0\.6, theirs 0\.63$'
{ peer a fp32 f32 nchw graph 4 20 NaN 0.6; } >other
said 1 --table ours other
has 'first g 0\.5, theirs nan$'
{ peer a fp32 f32 nchw graph 4 20 0.5 0.6; } | sed 's/"g"/"d"/g' >other
said 1 --table ours other
has 'first: g and d$'

# A model without a time on our side, or without a line; a peer without any.
{ ours a fp32 null 10 0.5 0.6; } >broken
said 1 --table broken peer
has '^a +4 fp32 f32 +- +17 +4\.0000 +-'
{ ours a fp32 1 10 0.5 0.6; } >fewer
said 1 --table fewer peer
has '^NOT of ours: b, batch 4, fp32$'
# A model that no way of the peer's has a time of, because it lacks or because all of them failed.
{ peer a fp32 f32 nchw graph 4 20 0.5 0.6; } >lacks
{
    ours a fp32 1 10 0.5 0.6
    ours b fp32 2 30 0.5 0.6
} >both
said 1 --table both lacks
has '^b +4 fp32 f32 +2\.0000 +17 +- +-  -'
failed b fp32 eager "RuntimeError: no kernel" >>lacks
said 1 --table both lacks
said 0 --table ours
has '^peer: none$'
has '^a +4 fp32 f32 +1\.0000 +17 +- +-'
hasnt 'geometric mean'

said 2 --table nowhere
has 'nowhere: No such file'
echo '{"matrix": 1}' >strange
said 2 --table strange
has 'no results of models'
ours a fp32 1 10 0.5 0.6 | sed 's/"features": 64, //' >strange
said 2 --table strange
has 'no results of models'
echo '{"name": 1' >strange
said 2 --table ours strange
has 'no results of models'
: >empty
said 2 --table empty peer
said 2 --table ours peer peer
said 2 --bench "$work/nowhere" --out "$work/results"
has 'names bench_models'

[[ -n $bench_models ]] || exit 0
said 2 --bench "$bench_models" --model nonsense --out "$work/results"
has '"nonsense"'
for python in python3 /usr/bin/python3; do
    "$python" -c 'import torch' 2>/dev/null || continue
    # The same losses on both sides, to rounding, in every model: they are the same models.
    OMP_NUM_THREADS=1 said 0 --bench "$bench_models" --python "$python" --quick --device cpu --math fp32 --modes eager \
        --layouts nchw --out "$work/results"
    models=$("$bench_models" --list --quick | wc -l)
    [[ $(grep -cE '^[a-z0-9_]+ +[0-9]+ fp32 f32 .* eager nchw f32 +[0-9.]+ +- +-$' said) == "$models" ]] || {
        cat said
        exit 1
    }
    has "^fp32: $models models"
    hasnt '^peer: .* batch '
    [[ -s $(echo results/*-cpu.txt) && -s $(echo results/*-cpu-ours.jsonl) && -s $(echo results/*-cpu-peer.jsonl) ]]
    [[ $(wc -l <"$(echo results/*-cpu-peer.jsonl)") == "$models" ]]
    exit 0
done
echo "no Python with PyTorch is here: tables alone were tested"
