# layers.sh BENCH_LAYERS DEVICE SOURCE - bench_layers times every layer of its list at small sizes: finite figures that fit
# each other, the bytes of each step, no layer or activation of the library in the folder SOURCE left out; and what it refuses.
set -euo pipefail
bench_layers=$1 device=$2 source=$3
command -v python3 >/dev/null || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

quick=("$bench_layers" --device "$device" --quick --budget-ms 1)
"$bench_layers" --list >list
"$bench_layers" --list --layer batch_norm2d >list.some
"${quick[@]}" --json >f32
"${quick[@]}" --json --dtype bf16 >bf16
"${quick[@]}" >text

python3 - "$device" "$source" <<'PYTHON'
import json, math, re, sys

device, source = sys.argv[1:]
names = open("list").read().split()
assert len(set(names)) == len(names) >= 80, names
assert open("list.some").read().split() == ["batch_norm2d", "batch_norm2d_eval"]

# Layers whose time is that of products, of filters or of another layer's step.
not_here = {"conv_transpose2d", "conv2d", "linear", "matmul", "parameter", "weight_norm", "spectral_norm", "activation_backward",
            "sum_to_size", "adjoint", "concat_part", "reshape", "detach", "custom"}

def defined(path, macro):
    return re.findall(rf"^{macro}\((?:\w+, )?(\w+)[,)]", open(f"{source}/src/{path}").read(), re.M)

def rows(path):
    return [json.loads(line, parse_constant=lambda word: exit(f"{path} has {word}")) for line in open(path)]

def near(a, b):
    return abs(a - b) <= 1e-6 * max(abs(a), abs(b))

for dtype, size, batch in ("f32", 4, 2), ("bf16", 2, 4):
    steps = rows(dtype)
    by_step = {(row["name"], row["direction"]): row for row in steps}
    assert len(by_step) == len(steps)
    assert [name for name in names if (name, "forward") in by_step or (name, "backward") in by_step] == names
    assert list(dict.fromkeys(row["name"] for row in steps)) == names
    for name in names:
        assert ((name, "forward") in by_step) == (name != "flatten"), name
        assert ((name, "backward") in by_step) == (name not in ("noise_normal_like", "noise_uniform_like", "full_like")), name
    for row in steps:
        for key in ("ms", "bytes", "gbs", "copy_gbs", "share", "runs"):
            assert math.isfinite(row[key]) and row[key] > 0, (key, row)
        assert row["dtype"] == dtype and row["spread"] >= 0, row
        assert near(row["gbs"] * row["ms"] * 1e6, row["bytes"]), row
        assert near(row["share"] * row["copy_gbs"], row["gbs"]), row
        assert row["kernels"] is None if device == "cpu" else row["kernels"] >= 1, row
    layers = {row["layer"] for row in steps}
    known = defined("layers/layers.def", "UF_LAYER")
    assert len(known) > 40 and set(known) == layers | not_here and not layers & not_here, layers ^ (set(known) - not_here)
    activations = defined("kernels/activations.def", "UF_ACTIVATION")
    assert len(activations) > 20 and set(activations) - {"identity"} <= set(names), set(activations) - set(names)

    # Bytes of both steps. A value is x's size; weights, sums and seeds come on top.
    x = [batch, 8, 12, 16]
    features = [batch, 48, 32]
    count = batch * 8 * 12 * 16
    value = count * size
    table, indices = 1000 * 32 * 4, batch * 48 * 8
    expected = {
        "relu": (2 * value, 3 * value), "tanh": (2 * value, 3 * value), "gelu": (2 * value, 3 * value),
        "scale": (2 * value, 2 * value), "add": (3 * value, 3 * value), "mul": (3 * value, 5 * value),
        "div": (3 * value, 5 * value), "softmax_rows": (2 * value, 3 * value), "softmax_channels": (2 * value, 3 * value),
        "permute_nhwc": (2 * value, 2 * value), "permute_transpose": (2 * value, 2 * value), "slice_channels": (value, 1.5 * value),
        "slice_columns": (value, 1.5 * value), "crop_like": (value / 3, value * 7 / 6), "concat": (2 * value, 2 * value),
        "pixel_shuffle": (2 * value, 2 * value), "upsample_nearest": (1.25 * value, 1.25 * value),
        "upsample_bilinear": (1.25 * value, 1.25 * value), "max_pool2d": (1.25 * value, 2.5 * value),
        "avg_pool2d": (1.25 * value, 1.25 * value), "dropout": (2 * value, 2 * value), "mean_all": (value + size, value + size),
        "mean_channels": (value * 9 / 8, value * 9 / 8), "sum_to_channels": (value + 8 * size, value + 8 * size),
        "mse_loss": (2 * value + 4, 3 * value + 4), "hinge_real_loss": (value + 4, 2 * value + 4),
        "kl_normal_loss": (2 * value + 4, 4 * value + 4), "mse_loss_none": (2 * value + 4 * count, 3 * value + 4 * count),
        "noise_normal_like": (value, None), "full_like": (value, None), "flatten": (None, 2 * value),
        "embedding": (indices + value + table, indices + value + table), "prelu": (2 * value + 8 * size, 3 * value + 8 * size + 32),
        "add_channels": (2 * value + 8 * size, 2 * value + 8 * size), "pad2d_reflect": (value + value * 14 * 18 // 192,) * 2,
    }
    for name, both in expected.items():
        for direction, wanted in zip(("forward", "backward"), both):
            assert wanted is None or by_step[name, direction]["bytes"] == wanted, (name, direction, wanted, by_step[name, direction])
    # Norms: sums per channel or plane in f64, and weights. Those that sum more than a CTA holds read x twice.
    for row in steps:
        again = row["name"] in ("batch_norm2d", "instance_norm2d", "instance_norm2d_affine", "group_norm")
        forward = row["direction"] == "forward"
        assert row["bytes_again"] == (again and (1 if forward else 2) * value), row
        if again:
            units = row["bytes"] / value
            assert (2 if forward else 3) < units < (2.2 if forward else 3.2), row
    shapes = {row["name"]: (row["input"], row["output"]) for row in steps}
    assert shapes["relu"] == (x, x) and shapes["layer_norm"] == (features, features)
    assert shapes["permute_nhwc"] == (x, [batch, 12, 16, 8]) and shapes["mse_loss"] == (x, [])
    assert shapes["upsample_nearest"] == ([batch, 8, 6, 8], x)

# The table for people: a line a step, its share and the mark.
lines = open("text").read().splitlines()
assert len(lines) == len(rows("f32")) + 3, len(lines)
below = 0
for line, row in zip(lines[2:-1], rows("f32")):
    words = line.split()
    assert words[:3] == [row["name"], row["direction"], "x".join(map(str, row["input"]))], (line, row)
    share = float(words[8].rstrip("%"))
    assert abs(share - 80) < 0.2 or (" <" in line) == (share < 80), line
    assert (" x2: " in line) == (row["bytes_again"] > 0), line
    below += " <" in line
assert lines[-1] == f"{len(lines) - 3} steps, {below} below 80 % of copy speed", lines[-1]
PYTHON

refused() { # TEXT WORD...: status 2 and a sentence with TEXT
    local expected=$1 status=0
    shift
    "$bench_layers" "$@" >said 2>&1 || status=$?
    if [[ $status != 2 ]] || ! grep -qF -- "$expected" said; then
        echo "bench_layers $*: status $status, or no \"$expected\" in:"
        cat said
        exit 1
    fi
}
refused '"nonsense"' --layer nonsense
refused '"batch_"' --layer batch_
refused '"f64"' --dtype f64
refused '"all"' --dtype all
refused '"tpu"' --device tpu
refused '"-1"' --budget-ms -1
refused '"--layer"' --layer
refused '"everything"' everything
"$bench_layers" --help >help
for option in --layer --dtype --device --budget-ms --quick --json --list; do
    grep -q -- "$option" help
done
