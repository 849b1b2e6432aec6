#!/usr/bin/python3
"""check_export.py h5py|torch EXPORT_STORE: weights that the library writes are read by Python.

h5py: names, shapes, types and values of an exported file are those of the file it came from.
torch: load_state_dict(strict=True) takes it, and the model computes the same.
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


def export(exporter, state, dtype, *tied):
    """The state as the library loads and saves it: a dict of arrays."""
    with tempfile.TemporaryDirectory() as folder:
        before, after = os.path.join(folder, "in.h5"), os.path.join(folder, "out.h5")
        with h5py.File(before, "w") as file:
            for name, value in state.items():
                file[name] = value
        subprocess.run([exporter, before, after, dtype, *tied], check=True)
        if sorted(os.listdir(folder)) != ["in.h5", "out.h5"]:
            sys.exit(f"the export left {os.listdir(folder)}")
        with h5py.File(after) as file:
            return {name: file[name][()] for name in file}


def check_h5py(exporter):
    random = np.random.default_rng(7)
    state = {
        "main.0.weight": random.standard_normal((3, 5, 4, 4)),
        "main.1.running_var": random.random(5),
        "main.1.num_batches_tracked": np.int64(1 << 40),
        "tied.weight": random.standard_normal((2, 3)),
    }
    state["also.tied.weight"] = state["tied.weight"]
    for dtype in ("f32", "f64"):
        real = np.dtype("<" + dtype.replace("f32", "f4").replace("f64", "f8"))
        for tied in ((), ("tied.weight", "also.tied.weight")):
            got = export(exporter, state, dtype, *tied)
            assert sorted(got) == sorted(state), sorted(got)
            for name, value in state.items():
                wanted = np.asarray(value)
                wanted = wanted if wanted.dtype == np.int64 else wanted.astype(real)
                array = np.asarray(got[name])
                assert array.dtype == wanted.dtype and array.shape == wanted.shape, name
                assert array.tobytes() == wanted.tobytes(), name


def check_torch(exporter):
    try:
        import torch
    except ImportError as missing:
        print(f"skipped: {missing}")
        sys.exit(77)

    def model():
        return torch.nn.Sequential(
            torch.nn.ConvTranspose2d(6, 8, 4, stride=2, padding=1),
            torch.nn.BatchNorm2d(8),
            torch.nn.ReLU(),
            torch.nn.Conv2d(8, 3, 3, bias=False),
        )

    torch.manual_seed(3)
    trained = model()
    for _ in range(3):
        trained(torch.randn(2, 6, 5, 5))
    trained.eval()
    state = {name: value.cpu().numpy() for name, value in trained.state_dict().items()}
    got = export(exporter, state, "f32")
    loaded = model()
    loaded.load_state_dict({k: torch.from_numpy(np.asarray(v)) for k, v in got.items()}, strict=True)
    loaded.eval()
    assert int(loaded[1].num_batches_tracked) == 3
    z = torch.randn(2, 6, 5, 5)
    assert torch.equal(trained(z), loaded(z))


if __name__ == "__main__":
    {"h5py": check_h5py, "torch": check_torch}[sys.argv[1]](sys.argv[2])
