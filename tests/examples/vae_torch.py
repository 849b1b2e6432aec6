#!/usr/bin/python3
"""vae_torch.py VAE_TRAIN [options]: examples/vae and PyTorch train the same autoencoder.

Both begin with the same weights, see the same pictures in the same order and add the same noise, all of which are
functions of seed and step. After each epoch the test errors are printed; after the last one they have to agree within
--limit, a share of PyTorch's. Without --data the pictures are made up, which takes seconds; the whole comparison is

    vae_torch.py build/examples/vae_train --data /usr/share/datasets/fashion-mnist --epochs 3 --batch 64 \\
        --features 16 --latent 32

Exit status 77: PyTorch or h5py is not installed.
"""
import argparse
import csv
import gzip
import os
import subprocess
import sys
import tempfile

try:
    import h5py
    import numpy as np
    import torch
    from torch import nn
    from torch.nn import functional
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

SIZE, TEST_BATCH = 32, 100
KL, RATE = 1e-3, 1e-3


# ---- random numbers: examples/common/common.c, random.c and data.c in numpy ----

def mix(z):
    z = z + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return z ^ z >> np.uint64(31)


def random_bits(seed, stream, index):
    seed, stream, index = (np.asarray(number, np.uint64) for number in (seed, stream, index))
    return mix(mix(mix(seed) ^ stream) ^ index)


def normals(seed, purpose, step, count):
    number = 0xCBF29CE484222325
    for byte in purpose.encode():
        number = (number ^ byte) * 0x100000001B3 % 2**64
    key = random_bits(seed, number, step)
    drawn = (random_bits(key, 0, np.arange(count + count % 2)) >> np.uint64(11)).astype(np.float64)
    uniform = (drawn + 0.5) * 2.0**-53
    radius, angle = np.sqrt(-2 * np.log(uniform[0::2])), 6.283185307179586 * uniform[1::2]
    pairs = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return pairs.reshape(-1)[:count].astype(np.float32)


def permutation(key, number, count):
    """Where each of 0..count-1 goes: a Feistel network over the next power of 4, walked until it is in range."""
    half = 1
    while 1 << 2 * half < count:
        half += 1
    mask, shift = np.uint64((1 << half) - 1), np.uint64(half)
    round_key = random_bits(key, number, 0)
    place = np.arange(count, dtype=np.uint64)
    out = np.ones(count, bool)
    while out.any():
        left, right = place[out] >> shift, place[out] & mask
        for turn in range(8):
            left, right = right, left ^ random_bits(round_key, turn, right) & mask
        place[out] = left << shift | right
        out = place >= count
    return place.astype(np.int64)


# ---- pictures ----

def write_idx(path, images):
    with gzip.open(path, "wb") as file:
        dims = [images.ndim, *images.shape]
        file.write(bytes([0, 0, 8, dims[0]]) + b"".join(n.to_bytes(4, "big") for n in dims[1:]) + images.tobytes())


def make_data(folder):
    """Discs of random place, size and brightness."""
    random = np.random.default_rng(5)
    y, x = np.mgrid[0:28, 0:28]
    for name, count in (("train", 640), ("t10k", 200)):
        cx, cy, r, level = (random.uniform(low, high, (count, 1, 1))
                            for low, high in ((8, 20), (8, 20), (3, 8), (100, 255)))
        discs = np.clip(r + 0.5 - np.hypot(x - cx, y - cy), 0, 1) * level
        write_idx(f"{folder}/{name}-images-idx3-ubyte.gz", discs.astype(np.uint8))
        write_idx(f"{folder}/{name}-labels-idx1-ubyte.gz", (level.reshape(-1) > 178).astype(np.uint8))


def read_images(path):
    with gzip.open(path) as file:
        data = file.read()
    count, height, width = (int.from_bytes(data[4 + 4 * i:8 + 4 * i], "big") for i in range(3))
    images = np.frombuffer(data, np.uint8, offset=16).reshape(count, 1, height, width)
    images = torch.from_numpy(images.astype(np.float32) / np.float32(127.5) - 1)
    return functional.interpolate(images, size=(SIZE, SIZE), mode="bilinear", align_corners=False)


# ---- the network ----

class Part(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.main = nn.Sequential(*layers)

    def forward(self, x):
        return self.main(x)


class Autoencoder(nn.Module):
    def __init__(self, features, latent):
        super().__init__()
        self.latent = latent
        layers, inside, outside = [], 1, features
        side = SIZE
        while side > 2:
            layers += [nn.Conv2d(inside, outside, 4, 2, 1, bias=False), nn.BatchNorm2d(outside), nn.LeakyReLU(0.2)]
            inside, outside, side = outside, 2 * outside, side // 2
        self.encoder = Part(layers + [nn.Conv2d(inside, 2 * latent, 2)])
        layers, before, channels = [], latent, features * SIZE // 4
        while side < SIZE:
            form = (2, 1, 0) if side == 2 else (4, 2, 1)
            layers += [nn.ConvTranspose2d(before, channels, *form, bias=False), nn.BatchNorm2d(channels), nn.ReLU()]
            before, channels, side = channels, channels // 2, 2 * side
        self.decoder = Part(layers + [nn.ConvTranspose2d(before, 1, 4, 2, 1), nn.Tanh()])

    def forward(self, image, noise):
        code = self.encoder(image)
        mean, log_variance = code[:, :self.latent], code[:, self.latent:]
        z = mean + noise * torch.exp(0.5 * log_variance)
        divergence = 0.5 * (mean**2 + log_variance.exp() - log_variance - 1).sum(1).mean()
        return functional.mse_loss(self.decoder(z), image) + KL * divergence


def test_error(network, images):
    network.eval()
    with torch.no_grad():
        errors = []
        for first in range(0, len(images) - TEST_BATCH + 1, TEST_BATCH):
            batch = images[first:first + TEST_BATCH]
            mean = network.encoder(batch)[:, :network.latent]
            errors.append(functional.mse_loss(network.decoder(mean), batch).item())
    network.train()
    return sum(errors) / len(errors)


def train(network, options, folder, ours):
    """Train PyTorch's network; its test error after each epoch, printed beside `ours`."""
    pictures = read_images(f"{folder}/train-images-idx3-ubyte.gz")
    held_out = read_images(f"{folder}/t10k-images-idx3-ubyte.gz")
    adam = torch.optim.Adam(network.parameters(), lr=RATE)
    batches = len(pictures) // options.batch
    key = random_bits(options.seed, 0, 0)
    errors = []
    for epoch in range(options.epochs):
        order = permutation(key, epoch, len(pictures))
        for i in range(batches):
            noise = normals(options.seed, "noise", epoch * batches + i, options.batch * options.latent)
            loss = network(pictures[order[i * options.batch:(i + 1) * options.batch]],
                           torch.from_numpy(noise.reshape(options.batch, options.latent, 1, 1)))
            adam.zero_grad()
            loss.backward()
            adam.step()
        errors.append(test_error(network, held_out))
        print(f"epoch {epoch + 1}: test error {ours[epoch]:.6f}, PyTorch's {errors[-1]:.6f}, "
              f"{100 * (ours[epoch] / errors[-1] - 1):+.3f} %", flush=True)
    return errors


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--data")
    for name, default in (("epochs", 3), ("batch", 32), ("features", 4), ("latent", 4), ("seed", 7), ("threads", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--limit", type=float, default=0.05)
    options = parser.parse_args()
    np.seterr(over="ignore")  # of uint64, which wrap around
    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    network = Autoencoder(options.features, options.latent)
    with tempfile.TemporaryDirectory() as work:
        folder = options.data or work
        if options.data is None:
            make_data(work)
        with h5py.File(f"{work}/init.h5", "w") as file:
            for name, value in network.state_dict().items():
                file[name] = value.numpy()
        with gzip.open(f"{folder}/train-images-idx3-ubyte.gz") as file:
            count = int.from_bytes(file.read(8)[4:], "big")
        subprocess.run(
            [options.program, "--quiet", "--data", folder, "--init", f"{work}/init.h5", "--out", f"{work}/vae",
             "--steps", str(options.epochs * (count // options.batch)), "--batch", str(options.batch),
             "--features", str(options.features), "--latent", str(options.latent), "--seed", str(options.seed),
             "--image-size", str(SIZE), "--kl", str(KL), "--lr", str(RATE), "--threads", str(options.threads),
             "--device", "cpu", "--sample-every", "0"], check=True)
        with open(f"{work}/vae-test.csv", encoding="ascii") as file:
            ours = [float(row["test_error"]) for row in csv.DictReader(file)]
        assert len(ours) == options.epochs, ours
        theirs = train(network, options, folder, ours)
        # The decoder alone, as its state_dict.
        with h5py.File(f"{work}/vae-decoder.h5") as file:
            names = []
            file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
            tensors = {name: torch.from_numpy(np.asarray(file[name])) for name in names}
        network.decoder.load_state_dict(tensors)
    if not abs(ours[-1] / theirs[-1] - 1) <= options.limit:
        sys.exit(f"the test errors differ by more than {100 * options.limit:g} %")


if __name__ == "__main__":
    main()
