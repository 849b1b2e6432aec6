#!/usr/bin/python3
"""check_keras.py LOAD_KERAS: files as Keras 2 and 3 write them are loaded into the right roles and axes.

The files are made with h5py, names and attributes as in keras/src/saving/saving_lib.py (H5IOStore, _save_state)
and keras/src/legacy/saving/legacy_h5_format.py. What the network computes is held to channels-last loops
over Keras's own definitions.
Exit status 77: h5py is not installed.
"""
import json
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

loader = sys.argv[1]
random = np.random.default_rng(3)


def layer(name, class_name, **variables):
    shapes = {k: random.standard_normal(v) if k != "moving_variance" else random.random(v) + 0.5
              for k, v in variables.items()}
    return name, class_name, shapes


LAYERS = [
    layer("dense", "dense", kernel=(6, 24), bias=24),
    layer("batch_normalization", "batch_normalization", gamma=24, beta=24, moving_mean=24, moving_variance=24),
    layer("conv2d_transpose", "conv2d_transpose", kernel=(3, 3, 5, 4), bias=5),
    layer("batch_normalization_1", "batch_normalization", gamma=5, beta=5, moving_mean=5, moving_variance=5),
    layer("depthwise_conv2d", "depthwise_conv2d", depthwise_kernel=(3, 3, 5, 2), bias=10),
    layer("p_re_lu", "p_re_lu", alpha=(1, 1, 10)),
    layer("conv2d", "conv2d", kernel=(2, 2, 10, 3)),
    layer("dense_1", "dense", kernel=(24, 7), bias=7),
]
MAPPING = ["dense=net.dense:out=2x3x4", "batch_normalization=net.norm0:out=2x3x4", "conv2d_transpose=net.up",
           "batch_normalization_1=net.norm1", "depthwise_conv2d=net.depthwise", "p_re_lu=net.slope",
           "conv2d=net.last", "dense_1=net.head:in=2x4x3"]


def norm(x, v):
    return (x - v["moving_mean"]) / np.sqrt(v["moving_variance"] + 1e-3) * v.get("gamma", 1.0) + v.get("beta", 0.0)


def expected():
    dense, norm0, up, norm1, depthwise, slope, last, head = (variables for _, _, variables in LAYERS)
    x = np.sin(np.arange(1.0, 13.0)).reshape(2, 6) @ dense["kernel"] + dense["bias"]
    x = norm(x, norm0).reshape(2, 2, 3, 4)
    y = np.zeros((2, 5, 7, 5))
    for i in range(2):
        for j in range(3):
            y[:, 2 * i:2 * i + 3, 2 * j:2 * j + 3] += np.einsum("nc,hwoc->nhwo", x[:, i, j], up["kernel"])
    x = norm(y + up["bias"], norm1)
    y = np.zeros((2, 3, 5, 5, 2))
    for i in range(3):
        for j in range(3):
            y += x[:, i:i + 3, j:j + 5, :, None] * depthwise["depthwise_kernel"][i, j]
    x = y.reshape(2, 3, 5, 10) + depthwise["bias"]
    x = np.where(x > 0, x, slope["alpha"] * x)
    y = sum(x[:, i:i + 2, j:j + 4] @ last["kernel"][i, j] for i in range(2) for j in range(2))
    return (y.reshape(2, 24) @ head["kernel"] + head["bias"]).ravel()


def keras3(path, top="layers"):
    """Model.save_weights of Keras 3: the names of classes, and the variables of a layer by number."""
    with h5py.File(path, "w") as file:
        file.create_group("vars")
        for name, _, variables in LAYERS:
            group = file.create_group(f"{top}/{name}").create_group("vars")
            for number, value in enumerate(variables.values()):
                group[str(number)] = value
        file.create_group(f"{top}/dropout/seed_generator/vars")["0"] = np.array([7, 1], np.uint32)
        file.create_group("optimizer/vars")["0"] = np.int64(1000)


def save_attributes(group, name, data, limit):
    """save_attributes_to_hdf5_group: an array of bytes, split where an object's header cannot hold it."""
    parts = [np.asarray(data)]
    while any(part.nbytes > limit for part in parts):
        parts = np.array_split(np.asarray(data), len(parts) + 1)
    for i, part in enumerate(parts):
        group.attrs[f"{name}{i}" if len(parts) > 1 else name] = part


def keras2(path, top="", suffix=":0", folder="", limit=64512, config=None, nested=False):
    """save_weights(".h5") of Keras 2, and Model.save(".h5") under model_weights."""
    with h5py.File(path, "w") as file:
        root = file.create_group(top) if top else file
        groups = {}
        for name, _, variables in LAYERS:
            group = "generator" if nested else name
            for variable, value in variables.items():
                groups.setdefault(group, []).append((f"{folder}{name}/{variable}{suffix}", value))
        groups["input_1"] = []
        save_attributes(root, "layer_names", [name.encode() for name in groups], limit)
        root.attrs["backend"] = b"tensorflow"
        root.attrs["keras_version"] = b"2.12.0"
        for name, variables in groups.items():
            group = root.create_group(name)
            save_attributes(group, "weight_names", [k.encode() for k, _ in variables], limit)
            for key, value in variables:
                group.create_dataset(key, data=value)
        if config:
            file.attrs["model_config"] = json.dumps(config).encode()


def load(path, *mapping):
    return subprocess.run([loader, path, *mapping], capture_output=True, text=True)


def check(what, path, *mapping):
    result = load(path, *mapping)
    if result.returncode != 0:
        sys.exit(f"{what}: {result.stderr}")
    difference = np.abs(np.array(result.stdout.split(), float) - expected()).max()
    if not difference < 1e-12:
        sys.exit(f"{what}: differs from Keras by {difference}")
    print(f"{what}: {difference:.1e}")


def refuse(what, part, path, *mapping):
    result = load(path, *mapping)
    if result.returncode != 1 or part not in result.stderr or result.stdout:
        sys.exit(f"{what}: expected '{part}', got {result.returncode} '{result.stderr}'")


def conv(class_name, kernel, stride, **more):
    config = {"name": "up", "padding": "same", "kernel_size": [kernel] * 2, "strides": [stride] * 2, **more}
    model = {"class_name": "Sequential", "config": {"layers": [{"class_name": class_name, "config": config}]}}
    return {"class_name": "Functional", "config": {"layers": [model]}}


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "weights.h5")
    keras3(path)
    check("Keras 3", path, *MAPPING)
    refuse("no such layer", "no layer \"conv2d_9\"", path, "conv2d_9=net.up", *MAPPING)
    refuse("nothing is mapped", "unexpected", path)
    refuse("one prefix twice", "both net.norm0", path, *MAPPING[:3], "batch_normalization_1=net.norm0", *MAPPING[4:])
    refuse("a wrong layer", "another shape", path, *[
        row.replace("net.dense:", "net.head:").replace("1=net.head:in", "1=net.dense:in") for row in MAPPING])
    refuse("an image that does not fit", "does not fit", path, "dense=net.dense:out=2x3x5", *MAPPING[1:])
    refuse("one variable too few", "has 2 tensors", path, *MAPPING[:6], "conv2d=net.dense", MAPPING[7])
    keras3(path, "_layer_checkpoint_dependencies")
    check("Keras 2.13", path, *MAPPING)
    keras3(path, "layers/sequential/layers")
    check("Keras 3, a model in the model", path, *["sequential/" + row for row in MAPPING])
    keras2(path)
    check("Keras 2", path, *MAPPING)
    keras2(path, limit=100)
    check("Keras 2, long attributes in pieces", path, *MAPPING)
    keras2(path, nested=True)
    check("Keras 2, a model in the model", path, *["generator/" + row for row in MAPPING])
    keras2(path, "model_weights", suffix="", folder="sequential/")
    check("Keras 3, Model.save as .h5", path, *MAPPING)
    plain = LAYERS[3]
    for lacks in (["gamma"], ["beta"], ["gamma", "beta"]):
        LAYERS[3] = (*plain[:2], {k: v for k, v in plain[2].items() if k not in lacks})
        words = {"gamma": "scale", "beta": "center"}
        said = [row + "".join(":" + words[k] for k in lacks) if row.endswith("net.norm1") else row for row in MAPPING]
        other = [row + (":center" if lacks == ["gamma"] else ":scale") if row.endswith("net.norm1") else row
                 for row in MAPPING]
        for write, part, wrong in ((keras3, "no_scale", "no_scale"), (keras2, "missing", "no_center says it has not")):
            write(path)
            check(f"{write.__name__} without {lacks}", path, *said)
            refuse(f"{write.__name__} without {lacks}, not said", part, path, *MAPPING)
            if len(lacks) == 1 and write is keras2:
                refuse(f"without {lacks}, said otherwise", wrong, path, *other)
    LAYERS[3] = plain
    refuse("a constant that the store lacks", "has no net.last.bias", path, *MAPPING[:6], "conv2d=net.last:center", MAPPING[7])
    rule = [row for row in MAPPING if not row.startswith("conv2d=")]
    LAYERS[6] = ("last", *LAYERS[6][1:])
    keras2(path)
    check("a rule for the rest", path, "--prefix", "net.", *rule)
    LAYERS[6] = ("conv2d", *LAYERS[6][1:])
    for what, config, part in [
            ("5x5 by 2", conv("Conv2DTranspose", 5, 2), "padding 2 with output_padding 1"),
            ("3x3 by 2", conv("Conv2D", 3, 2), "padding 1, and uf_pad2d"),
            ("4x4 by 1", conv("Conv2D", 4, 1), "adds 1 rows in front and 2 behind"),
            ("4x4 by 2", conv("Conv2DTranspose", 4, 2), None),
            ("3x3 by 1", conv("DepthwiseConv2D", 3, 1), None),
            ("2x2 by 2, valid", conv("Conv2D", 2, 2, padding="valid"), None)]:
        keras2(path, "model_weights", config=config)
        if part:
            refuse(what, part, path, *MAPPING)
            check(what + ", on request", path, "--same", *MAPPING)
        else:
            check(what, path, *MAPPING)
    for config, part in [("{", "does not begin a text"), ("[" * 99, "nested too deep"), ('{"a": [1, {"b": "\\ud800"}]}', "escape"),
                         ('{"class_name": 7, "config": [1.5e3, null, true]} x', "behind the end")]:
        keras2(path)
        with h5py.File(path, "a") as file:
            file.attrs["model_config"] = config
        refuse(config, part, path, *MAPPING)
    keras2(path)
    with h5py.File(path, "a") as file:
        del file["dense/dense/bias:0"]
    refuse("a weight that is not there", "which is not there", path, *MAPPING)
