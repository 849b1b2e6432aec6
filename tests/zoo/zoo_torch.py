#!/usr/bin/python3
"""zoo_torch.py check|time ZOO [MODEL...]: the models of examples/zoo beside PyTorch's, on the CPU.

check: each model is made small, with random weights; its outputs in double are held to the program ZOO, which loads
       the state_dict: f32 to 1e-5 of the largest number, f64 to 1e-12, evaluated and, where a network then computes
       something else, as in training. A weight that lacks and one that is changed have to be noticed.
time:  a table of times at the published sizes, on --threads (2) threads: in turns, --rounds (3) times, a run of ZOO
       and one of PyTorch, each of --seconds (2) or three passes, and of each the fastest pass.
Exit status 77: PyTorch or h5py is not installed.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
import time

try:
    import h5py
    import numpy as np
    import torch
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

sys.dont_write_bytecode = True
from networks import NETWORKS

# Networks that compute something else in training: batch norm, and spectral norm's iteration. Not pix2pix: its dropout
# draws other numbers than PyTorch's.
TRAINED = {"dcgan", "vae", "sngan", "cond_gan"}
LIMITS = {"f32": 1e-5, "f64": 1e-12}


def sizes(zoo):
    """{(model, "test" or "real"): its sizes}"""
    found = {}
    for line in subprocess.run([zoo, "list"], check=True, capture_output=True, text=True).stdout.splitlines():
        model, kind, *numbers = line.split()
        found[model, kind] = {name: int(number) for name, number in (item.split("=") for item in numbers)}
    return found


def randomise(network):
    """Weights that keep numbers near 1, and statistics and affine parameters away from 0 and 1."""
    # Spectral norm makes numbers small. Its vectors stay as they are made, of length 1.
    small = any(name.endswith("weight_orig") for name in network.state_dict())
    with torch.no_grad():
        for name, tensor in network.state_dict().items():
            last = name.rsplit(".", 1)[-1]
            if last == "num_batches_tracked":
                tensor.fill_(3)
            elif last in ("running_var", "weight_g") or (last == "weight" and tensor.dim() == 1):
                tensor.uniform_(0.6, 1.4)
            elif tensor.dim() == 1 and last in ("bias", "running_mean"):
                tensor.uniform_(-0.3, 0.3).mul_(0.1 if small else 1.0)
            elif tensor.dim() >= 2:
                tensor.normal_(0.0, (1.4 if tensor.dim() > 2 else 1.0) / (tensor.numel() / tensor.shape[0]) ** 0.5)


def make(model, size):
    """The network in f32 and its inputs, in f32 and i64."""
    torch.manual_seed(11)
    maker, shapes, _ = NETWORKS[model]
    network = maker(size)
    randomise(network)
    inputs = [torch.randint(size["blocks"], shape(size)) if name == "labels" else torch.randn(shape(size))
              for name, shape in shapes.items()]
    if model == "sngan":  # its vectors have been on the way for some steps
        with torch.no_grad():
            for _ in range(5):
                network.train()(*inputs)
    return network, inputs


def write(path, tensors):
    with h5py.File(path, "w") as file:
        for name, value in tensors.items():
            file[name] = value.detach().cpu().numpy()


def outputs_of(model, network, inputs):
    with torch.no_grad():
        made = network(*[x if x.dtype == torch.int64 else x.double() for x in inputs])
    return dict(zip(NETWORKS[model][2], made if isinstance(made, tuple) else (made,)))


def run(zoo, *words):
    done = subprocess.run([zoo, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def demand(condition, words, said):
    if not condition:
        sys.exit(f"zoo {' '.join(words)}:\n{said}")


def check(zoo, model, size, folder):
    weights, data = os.path.join(folder, f"{model}.h5"), os.path.join(folder, "data.h5")
    network, inputs = make(model, size)
    state = {name: value.clone() for name, value in network.state_dict().items()}
    write(weights, state)
    network.double()
    for mode in ("eval", "train") if model in TRAINED else ("eval",):
        network.train(mode == "train")
        outputs = outputs_of(model, network, inputs)
        for name, value in outputs.items():
            # An output that is nearly one number everywhere would hide what lies before it.
            demand(value.std() > 0.05 * value.abs().max(), [model, name], f"is flat: {value}")
        write(data, {f"inputs/{name}": value for name, value in zip(NETWORKS[model][1], inputs)}
              | {f"outputs/{name}": value for name, value in outputs.items()})
        for dtype, limit in LIMITS.items():
            words = [model, weights, data, "--mode", mode, "--dtype", dtype, "--limit", str(limit)]
            status, said = run(zoo, *words)
            demand(status == 0, words, said)
            print(said, end="")
    words = [model, weights, data, "--mode", mode]
    name = max(state, key=lambda key: state[key].numel())
    write(weights, {key: value for key, value in state.items() if key != name})
    status, said = run(zoo, *words)
    demand(status == 2 and name.rsplit(".", 1)[0] in said, words, f"a file without {name}: {said}")
    write(weights, state | {name: state[name] * (1.0 + 0.01 * torch.rand_like(state[name]))})
    status, said = run(zoo, *words)
    demand(status == 1, words, f"another {name} is not noticed: {said}")


def passes(seconds, function):
    """The milliseconds of the fastest pass, of three at least."""
    fastest, count, end = float("inf"), 0, time.perf_counter() + seconds
    while count < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        function()
        fastest, count = min(fastest, time.perf_counter() - start), count + 1
    return 1e3 * fastest, count


def measure(options, model, size, folder):
    weights, data = os.path.join(folder, "weights.h5"), os.path.join(folder, "data.h5")
    network, inputs = make(model, size)
    write(weights, network.state_dict())
    network.eval()
    ours = theirs = float("inf")
    with torch.no_grad():
        made = network(*inputs)
        outputs = dict(zip(NETWORKS[model][2], made if isinstance(made, tuple) else (made,)))
        write(data, {f"inputs/{name}": value for name, value in zip(NETWORKS[model][1], inputs)}
              | {f"outputs/{name}": value for name, value in outputs.items()})
        for _ in range(options.rounds):
            fastest, count = passes(options.seconds, lambda: network(*inputs))
            theirs = min(theirs, fastest)
            words = [model, weights, data, "--size", "real", "--device", "cpu", "--threads", str(options.threads),
                     "--limit", "1e-3", "--runs", str(count)]
            status, said = run(options.zoo, *words)
            demand(status == 0, words, said)
            ours = min(ours, float(re.search(r"fastest ([0-9.]+) ms", said).group(1)))
    print(f"| {model} | {ours:.2f} | {theirs:.2f} | {theirs / ours:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("what", choices=("check", "time"))
    parser.add_argument("zoo")
    parser.add_argument("models", nargs="*")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    known = sizes(options.zoo)
    models = options.models or [model for model, kind in known if kind == "real"]
    torch.set_num_threads(options.threads)
    if options.what == "time":
        print(f"| model | ms | PyTorch {torch.__version__} | times as fast |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for model in models:
            if options.what == "check":
                check(options.zoo, model, known[model, "test"], folder)
            else:
                measure(options, model, known[model, "real"], folder)


if __name__ == "__main__":
    main()
