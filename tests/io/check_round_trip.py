#!/usr/bin/python3
"""check_round_trip.py UNFURL EXPORT_STORE: PyTorch -> file -> unfurl -> file -> PyTorch keeps every bit, through HDF5 and
through safetensors: by `unfurl convert` for every type, by a store for those that a store has. safetensors files are written
and read here, by a few lines of numpy. Exit status 77: a Python package is not installed.
"""
import itertools
import json
import os
import subprocess
import sys
import tempfile

try:
    import h5py
    import numpy as np
    import torch
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

# PyTorch's type, its name in safetensors, and the one of numpy with the same bits.
TYPES = {
    torch.float64: ("F64", "<u8"), torch.float32: ("F32", "<u4"), torch.float16: ("F16", "<u2"),
    torch.bfloat16: ("BF16", "<u2"), torch.int64: ("I64", "<u8"), torch.int32: ("I32", "<u4"),
    torch.int16: ("I16", "<u2"), torch.int8: ("I8", "<u1"), torch.uint8: ("U8", "<u1"),
}
INTEGER = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.int8}


def bits(tensor):
    """The bits of a tensor, as numpy has them."""
    size = tensor.element_size()
    if tensor.numel() == 0:
        return np.empty(tuple(tensor.shape), TYPES[tensor.dtype][1])
    integer = tensor if tensor.dtype == torch.uint8 else tensor.reshape(-1).view(INTEGER[size]).reshape(tensor.shape)
    return integer.numpy().view(TYPES[tensor.dtype][1])


def tensor_of(array, dtype):
    signed = np.ascontiguousarray(array).view(f"<i{array.dtype.itemsize}").copy()
    made = torch.from_numpy(signed)
    return made.view(dtype).reshape(array.shape) if array.ndim else made.reshape(1).view(dtype).reshape(())


def write_safetensors(path, state):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, tensor in state.items():
        raw = bits(tensor).tobytes()
        header[name] = {"dtype": TYPES[tensor.dtype][0], "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + data)


def read_safetensors(path):
    with open(path, "rb") as file:
        whole = file.read()
    length = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8:8 + length])
    assert header.pop("__metadata__", {}) in ({"format": "pt"}, {}), path
    state = {}
    for name, entry in header.items():
        dtype = next(dtype for dtype, row in TYPES.items() if row[0] == entry["dtype"])
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        state[name] = tensor_of(np.frombuffer(whole[begin:end], TYPES[dtype][1]).reshape(entry["shape"]), dtype)
    return state


def float_type(dtype):
    """HDF5's type of a half with these fields, which h5py has no name for where it is bfloat16."""
    made = h5py.h5t.IEEE_F32LE.copy()
    exponent, bias = (8, 127) if dtype == torch.bfloat16 else (5, 15)
    made.set_fields(15, 15 - exponent, exponent, 0, 15 - exponent)
    made.set_size(2)
    made.set_ebias(bias)
    return made


def write_hdf5(path, state):
    with h5py.File(path, "w") as file:
        file.attrs["format"] = np.bytes_("pt")
        for name, tensor in state.items():
            if tensor.dtype == torch.bfloat16:
                kind, space = float_type(tensor.dtype), h5py.h5s.create_simple(tuple(tensor.shape))
                made = h5py.h5d.create(file.id, name.encode(), kind, space)
                made.write(h5py.h5s.ALL, h5py.h5s.ALL, bits(tensor), mtype=kind)
            else:
                file[name] = tensor.numpy()


def read_hdf5(path):
    state = {}
    with h5py.File(path) as file:
        for name, dataset in file.items():
            kind = dataset.id.get_type()
            if isinstance(kind, h5py.h5t.TypeFloatID) and kind.get_size() == 2 and kind.get_ebias() == 127:
                array = np.empty(dataset.shape, "<u2")
                dataset.id.read(h5py.h5s.ALL, h5py.h5s.ALL, array, mtype=float_type(torch.bfloat16))
                state[name] = tensor_of(array, torch.bfloat16)
            else:
                state[name] = torch.from_numpy(np.asarray(dataset[()]).reshape(dataset.shape))
    return state


FORMATS = {"h5": (write_hdf5, read_hdf5), "safetensors": (write_safetensors, read_safetensors)}


def model(dtype):
    made = torch.nn.Sequential(
        torch.nn.ConvTranspose2d(6, 8, 4, stride=2, padding=1), torch.nn.BatchNorm2d(8), torch.nn.Conv2d(8, 3, 3))
    return made.to(dtype)


def trained(dtype):
    torch.manual_seed(3)
    made = model(torch.float32)
    for _ in range(3):
        made(torch.randn(2, 6, 5, 5))
    made.to(dtype)
    with torch.no_grad():
        weight = made[0].weight.view(-1)
        weight[0], weight[1], weight[2] = float("inf"), -0.0, float("nan")
        # A NaN with bits of its own, and the smallest number.
        of_bits = weight.view(INTEGER[made[0].weight.element_size()])
        of_bits[3], of_bits[4] = of_bits[2] + 1, 1
    return made


def check(state, path, read, fresh):
    got = read(path)
    assert sorted(got) == sorted(state), sorted(got)
    for name, tensor in state.items():
        assert got[name].dtype == tensor.dtype and got[name].shape == tensor.shape, (name, got[name].dtype)
        assert bits(got[name]).tobytes() == bits(tensor).tobytes(), name
    if fresh is not None:
        fresh.load_state_dict(got, strict=True)
        for name, tensor in fresh.state_dict().items():
            assert bits(tensor).tobytes() == bits(state[name]).tobytes(), name


def refuse_others(unfurl, folder):
    """Types that PyTorch has and unfurl does not read: a sentence with the name, and no file."""
    after = os.path.join(folder, "refused.safetensors")
    for tensor, safe in ((torch.tensor([True, False]), "BOOL"), (torch.tensor([1j]), "C64")):
        paths = [os.path.join(folder, "refused.h5"), os.path.join(folder, "refused.in")]
        with h5py.File(paths[0], "w") as file:
            file["mask"] = tensor.numpy()
        raw = tensor.numpy().tobytes()
        text = json.dumps({"mask": {"dtype": safe, "shape": list(tensor.shape), "data_offsets": [0, len(raw)]}}).encode()
        with open(paths[1], "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text + raw)
        for path in paths:
            told = subprocess.run([unfurl, "convert", path, after], capture_output=True, text=True)
            assert told.returncode == 1 and told.stderr.count("\n") == 1, told
            assert told.stderr.startswith(f"unfurl: mask in {path} holds "), told.stderr
            assert not os.path.exists(after)


def main(unfurl, export_store):
    checked = 0
    more = {f"scalar.{dtype}".replace("torch.", ""): torch.tensor(3, dtype=dtype) for dtype in TYPES}
    more |= {f"empty.{dtype}".replace("torch.", ""): torch.empty((0, 3), dtype=dtype) for dtype in TYPES}
    integers = {f"of.{dtype}".replace("torch.", ""): torch.tensor([[0, 1, 127], [5, 6, 100]], dtype=dtype)
                for dtype in TYPES if not dtype.is_floating_point}
    cases = [(trained(dtype).state_dict(), model(dtype), dtype) for dtype in TYPES if dtype.is_floating_point]
    cases += [(integers, None, None), (more, None, None)]
    with tempfile.TemporaryDirectory() as folder:
        for (state, fresh, dtype), (first, second) in itertools.product(cases, itertools.product(FORMATS, FORMATS)):
            before, after = os.path.join(folder, f"in.{first}"), os.path.join(folder, f"out.{second}")
            FORMATS[first][0](before, state)
            commands = [[unfurl, "convert", before, after]]
            if dtype in (torch.float32, torch.float64):
                commands.append([export_store, before, after, "f64" if dtype == torch.float64 else "f32"])
            for command in commands:
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
                check(state, after, FORMATS[second][1], fresh)
                os.remove(after)
                checked += 1
            if second == "h5" and first == "h5":  # in chunks, which no empty or small tensor has
                subprocess.run([unfurl, "convert", before, after, "--compress", "5"], check=True, stdout=subprocess.DEVNULL)
                check(state, after, FORMATS[second][1], fresh)
                checked += 1
        refuse_others(unfurl, folder)
    print(f"{checked} round trips")


if __name__ == "__main__":
    main(*sys.argv[1:])
