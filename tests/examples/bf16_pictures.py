#!/usr/bin/python3
"""bf16_pictures.py DCGAN_TRAIN UNFURL [options]: does a DCGAN of bf16 tensors make other pictures than one of f32?

Three trainings in f32 differ by their seed alone, two more have bf16 tensors and products. Each then makes the same
number of pictures, of which the mean and the deviation of every pixel are taken. The distance of two trainings is the
root mean square of the differences of these. Two bounds come from f32 alone: bf16 may be as far from f32 as two seeds
of f32 are from each other. That says something only where a worse generator is further away, so a training that ends
after a tenth of the steps has to be.

Exit status 77: h5py is not installed, there are no garments, or the device is not there.
"""
import argparse
import itertools
import os
import subprocess
import sys
import tempfile

try:
    import h5py
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)


def distance(a, b):
    """Of two trainings: how far apart means and deviations are."""
    return tuple(float(np.sqrt(np.mean((x - y) ** 2))) for x, y in zip(a, b))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("train")
    parser.add_argument("unfurl")
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--features", type=int, default=32)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--pictures", type=int, default=2048)
    o = parser.parse_args()
    if not os.path.exists(os.path.join(o.data, "train-images-idx3-ubyte.gz")):
        print(f"skipped: {o.data} has no garments")
        return 77

    with tempfile.TemporaryDirectory() as folder:

        def statistics(name, seed, steps, options):
            prefix = os.path.join(folder, name)
            command = [o.train, "--data", o.data, "--out", prefix, "--device", o.device, "--seed", str(seed), "--steps",
                       str(steps), "--features", str(o.features), "--batch", str(o.batch), "--sample-every", "0",
                       "--checkpoint-every", "0", "--quiet", *options]
            subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
            # All are sampled in f32 from the same latents: the weights are what is compared.
            subprocess.run([o.unfurl, "generate", "--weights", prefix + ".h5", "--count", str(o.pictures), "--seed",
                            "9", "--device", o.device, "--out", prefix + "-pictures.h5"], check=True,
                           stdout=subprocess.DEVNULL)
            with h5py.File(prefix + "-pictures.h5") as file:
                pictures = np.asarray(file["images"], np.float64)
            if not np.isfinite(pictures).all():
                sys.exit(f"{name}: a picture is not finite")
            return pictures.mean(0), pictures.std(0)

        # A first, short run finds out whether the device is there.
        probe = subprocess.run([o.train, "--data", o.data, "--out", os.path.join(folder, "probe"), "--device", o.device,
                                "--steps", "1", "--batch", "2", "--sample-every", "0", "--quiet"],
                               capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if probe.returncode != 0 and o.device == "cuda" and "CUDA" in probe.stderr:
            print(f"skipped: {probe.stderr.strip()}")
            return 77

        bf16 = ["--dtype", "bf16"] + (["--math", "bf16"] if o.device == "cuda" else [])
        f32 = {f"f32, seed {seed}": statistics(f"f32-{seed}", seed, o.steps, []) for seed in (0, 1, 2)}
        others = {f"bf16, seed {seed}": statistics(f"bf16-{seed}", seed, o.steps, bf16) for seed in (0, 1)}
        early = statistics("early", 0, max(1, o.steps // 10), [])

        pairs = [distance(f32[a], f32[b]) for a, b in itertools.combinations(f32, 2)]
        bounds = [max(pair[k] for pair in pairs) for k in (0, 1)]
        print(f"{o.steps} steps of {o.batch}, {o.features} features, {o.pictures} pictures of each, on {o.device}")
        for (a, b), pair in zip(itertools.combinations(f32, 2), pairs):
            print(f"{a:<14} {b:<14} mean {pair[0]:.4f} deviation {pair[1]:.4f}")
        good = True
        for name, other in others.items():
            # The nearest f32 training: a seed of its own may lie at an end of the range of seeds.
            nearest = [min(distance(other, one)[k] for one in f32.values()) for k in (0, 1)]
            within = all(nearest[k] <= bounds[k] for k in (0, 1))
            good = good and within
            print(f"{name:<14} nearest f32    mean {nearest[0]:.4f} deviation {nearest[1]:.4f} "
                  f"{'within' if within else 'BEYOND'} {bounds[0]:.4f} and {bounds[1]:.4f}")
        told = [min(distance(early, one)[k] for one in f32.values()) for k in (0, 1)]
        apart = any(told[k] > bounds[k] for k in (0, 1))
        print(f"{'a tenth':<14} nearest f32    mean {told[0]:.4f} deviation {told[1]:.4f} "
              f"{'told apart' if apart else 'NOT TOLD APART: the comparison says nothing'}")
        return 0 if good and apart else 1


if __name__ == "__main__":
    sys.exit(main())
