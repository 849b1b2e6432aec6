# models.sh BENCH_MODELS DEVICE - bench_models runs and trains every model of its list at small sizes: finite losses that
# agree between f32 and f64 and for any number of threads, memory that adds up, JSON; and what it refuses.
set -euo pipefail
bench_models=$1 device=$2
command -v python3 >/dev/null || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

quick=("$bench_models" --device "$device" --quick --budget-ms 2 --json)
"$bench_models" --list >list
"$bench_models" --list --quick >list.quick
"$bench_models" --list --model pix2pix --batch 5 >list.batch
"${quick[@]}" --math all --threads 1 >one
"${quick[@]}" --threads 2 >two
"${quick[@]}" --dtype f64 >f64
"${quick[@]}" --batch 7 >larger
"${quick[@]}" --no-capture --model dcgan_train >train
"$bench_models" --device "$device" --quick --budget-ms 2 --model vae >text

python3 - "$device" <<'PYTHON'
import json, math, sys

def rows(path):
    return [json.loads(line, parse_constant=lambda word: exit(f"{path} has {word}")) for line in open(path)]

def close(a, b, tolerance):
    return a.keys() == b.keys() and all(abs(a[key] - b[key]) <= tolerance * max(abs(b[key]), 1e-3) for key in a)

keys = ("name", "batch", "channels", "height", "width", "features", "latent")
sizes = [{key: row[key] for key in keys} for row in rows("one")]
listed = rows("list.quick")
assert sizes == [row for row in listed for math in range(3)], (sizes, listed)
names = [row["name"] for row in listed]
assert len(set(names)) == len(names) >= 8, names
expected = [("dcgan_generate", 1), ("dcgan_generate", 64), ("dcgan_generate", 256), ("dcgan_train", 128),
            ("dcgan_train_gray", 64), ("pix2pix_generate", 1), ("pix2pix_generate", 8), ("pix2pix_train", 1),
            ("pix2pix_train", 16), ("vae_decode", 64), ("vae_train", 128), ("upconv7", 1), ("cyclegan_generate", 1)]
assert [(row["name"], row["batch"]) for row in rows("list")] == expected, rows("list")
assert [(row["name"], row["batch"]) for row in rows("list.batch")] == [("pix2pix_generate", 5), ("pix2pix_train", 5)]

one = rows("one")
assert {row["math"] for row in one} == {"fp32", "tf32", "bf16"} and {row["dtype"] for row in one} == {"f32"}
for row in one:
    for when in ("first", "third", "last"):
        assert row[when] and all(math.isfinite(value) and value > 0 for value in row[when].values()), row
    assert row["ms"] > 0 and row["waited_ms"] > 0 and row["runs"] >= 4, row
    assert row["kernels"] is None if sys.argv[1] == "cpu" else row["kernels"] > 0, row
    assert 0 < row["program_bytes"] < row["bytes"] <= row["peak_bytes"], row
    assert row["bytes"] == row["program_bytes"] + row["store_bytes"], row
    trains = "_train" in row["name"]
    assert ("mean_abs" in row["first"]) != trains, row
    assert (row["first"] != row["third"]) == (row["third"] != row["last"]) == trains, row

fp32 = [row for row in one if row["math"] == "fp32"]
two, f64, larger = rows("two"), rows("f64"), rows("larger")
assert len(fp32) == len(two) == len(f64) == len(larger)
for a, b, c, d in zip(fp32, two, f64, larger):
    assert a["first"] == b["first"] and a["third"] == b["third"], (a, b)
    assert a["store_bytes"] == b["store_bytes"], (a, b)
    assert c["dtype"] == "f64" and close(a["first"], c["first"], 1e-4) and close(a["third"], c["third"], 1e-3), (a, c)
    # Scratch of kernels is no function of the type's size, and most of a small program.
    assert c["store_bytes"] > a["store_bytes"] and d["program_bytes"] > a["program_bytes"], (a, c, d)
by_name = {row["name"]: row for row in fp32}
# A generator that only runs needs less than one that is trained: no gradients, no moments, no discriminator.
for model in ("dcgan", "pix2pix"):
    assert 4 * by_name[f"{model}_generate"]["store_bytes"] < by_name[f"{model}_train"]["store_bytes"], model
assert set(by_name["dcgan_train"]["first"]) == {"d_real", "d_fake", "g"}
assert set(by_name["pix2pix_train"]["first"]) == {"d_fake", "d_real", "g_gan", "g_l1"}
assert {row["name"] for row in rows("train")} == {"dcgan_train", "dcgan_train_gray"}
PYTHON
[[ $(wc -l <text) == 3 ]] && grep -q '^vae_train .* reconstruction [0-9.]* to [0-9.]*' text || {
    cat text
    exit 1
}

refused() { # TEXT WORD...: status 2 and a sentence with TEXT
    local expected=$1 status=0
    shift
    "$bench_models" "$@" >said 2>&1 || status=$?
    if [[ $status != 2 ]] || ! grep -qF -- "$expected" said; then
        echo "bench_models $*: status $status, or no \"$expected\" in:"
        cat said
        exit 1
    fi
}
refused '"nonsense"' --model nonsense
refused '"dcgan_"' --model dcgan_
refused '"0"' --batch 0
refused '"f16"' --math f16
refused '"bf17"' --dtype bf17
refused '"all"' --dtype all
refused 'f64 has --math fp32 alone' --dtype f64 --math tf32
refused '"--budget-ms"' --budget-ms
refused '"1025"' --threads 1025
refused '"everything"' everything
"$bench_models" --help | grep -q -- --no-capture
if [[ $device == cpu ]]; then
    # Without CUPTI a usage error, with it no kernel to record: a sentence in either case.
    status=0
    "$bench_models" --device cpu --quick --budget-ms 2 --model vae_decode --kernels >said 2>&1 || status=$?
    [[ $status != 0 ]] && grep -q CUPTI said || {
        echo "bench_models --kernels on a CPU: status $status, $(cat said)"
        exit 1
    }
else
    "$bench_models" --device cuda --quick --budget-ms 2 --model vae --kernels >said
    [[ $(grep -c '^ .* us .* % ' said) -ge 6 && $(grep -c 'kernels alone' said) == 2 ]] || {
        echo "bench_models --kernels names no kernels: $(cat said)"
        exit 1
    }
fi

