#!/usr/bin/python3
"""check_checkpoint.py TEST_RESUME: a checkpoint as h5py sees it.

Its names are those of state_dict() and torch.optim, its values have the checksums that its attributes say.
Exit status 77: the Python package is not installed.
"""
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


def crc32c(data):
    """A bit at a time."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def check(file):
    assert file.attrs["format"] == b"unfurl checkpoint", file.attrs["format"]
    assert file.attrs["format_version"] == 1
    assert sorted(file["stores"]) == ["average", "body", "head", "middle"], sorted(file["stores"])
    assert sorted(file["stores/body"]) == [
        "0.weight",
        "1.bias",
        "1.num_batches_tracked",
        "1.running_mean",
        "1.running_var",
        "1.weight",
    ]
    assert file["stores/body/0.weight"].shape == (8, 6, 4, 4)
    assert file["stores/body/0.weight"].dtype == np.dtype("<f4")
    assert file["stores/body/1.num_batches_tracked"][()] == 2
    moments = {
        "body": (b"adam", ["exp_avg", "exp_avg_sq"]),
        "middle": (b"sgd", ["momentum_buffer"]),
        "head": (b"rmsprop", ["momentum_buffer", "square_avg"]),
    }
    for name, (kind, states) in moments.items():
        group = file["optimizers"][name]
        assert group.attrs["kind"] == kind
        assert sorted(key for key in group if isinstance(group[key], h5py.Group)) == states
        assert group["step"][()] == 2
        for state in states:
            parameters = [key for key in file["stores"][name] if key.endswith(("weight", "weight_orig", "bias"))]
            assert sorted(group[state]) == sorted(parameters)
            assert all(np.any(group[state][key][()]) for key in parameters)
    assert file["programs/train/random_step"][()] == 2
    assert list(file["numbers/step"]) == [2]

    seen = []

    def visit(name, item):
        if isinstance(item, h5py.Dataset):
            seen.append(name)
            assert item.attrs["unfurl_crc32c"] == crc32c(item[()].tobytes()), name

    file.visititems(visit)
    print(f"{len(seen)} datasets")


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "run.h5")
    subprocess.run([sys.argv[1], "steps", "0", "2", path], check=True, stderr=subprocess.DEVNULL)
    with h5py.File(path, "r") as checkpoint:
        check(checkpoint)
