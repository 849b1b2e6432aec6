#!/usr/bin/python3
"""exported_torch2.py UNFURL EXPORTER: what torch 2 does in another way, by stubs, through the exporter.

Debian's PyTorch is 1.13. Each stub is a function or a class that torch 2 has, or a default that it changed, made of what
1.13 has: the exporter sees the same names, arguments and tensors. Exit status 77: PyTorch or h5py is not installed.
"""
import json
import os
import sys
import tempfile

sys.dont_write_bytecode = True
import exported  # ends with 77 where PyTorch is not there
import h5py
import torch
from torch import nn
from torch.nn import functional as F
from torch.overrides import handle_torch_function, has_torch_function

# ---- functions of torch 2 ----


def rms_norm(input, normalized_shape, weight=None, eps=None):
    if has_torch_function((input, weight)):
        return handle_torch_function(rms_norm, (input, weight), input, normalized_shape, weight=weight, eps=eps)
    axes = tuple(range(-len(normalized_shape), 0))
    eps = torch.finfo(input.dtype).eps if eps is None else eps
    made = input * torch.rsqrt(input.square().mean(axes, keepdim=True) + eps)
    return made if weight is None else made * weight


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None):
    operands = (query, key, value)
    if has_torch_function(operands):
        return handle_torch_function(scaled_dot_product_attention, operands, *operands, attn_mask=attn_mask,
                                     dropout_p=dropout_p, is_causal=is_causal, scale=scale)
    scores = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = torch.zeros(attn_mask.shape).masked_fill(~attn_mask, float("-inf"))
    return (scores if attn_mask is None else scores + attn_mask).softmax(-1) @ value


class Functions(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(6) + 0.5)
        self.norm = nn.BatchNorm1d(6)
        self.table = nn.Embedding(5, 6)

    def forward(self, x, labels):
        attend = scaled_dot_product_attention
        y = rms_norm(x, (6,), self.gain, 1e-6) + rms_norm(x, (4, 6))
        mask = torch.eye(4).bool() | torch.ones(4, 4).bool().tril()
        y = attend(y, x, x, mask) + attend(x, y, x, is_causal=True) + attend(x, x, y, torch.eye(4), scale=0.5)
        y, norm = y + torch.embedding(self.table.weight, labels), self.norm
        y = torch.batch_norm(y.mT, norm.weight, norm.bias, norm.running_mean, norm.running_var, False, 0.1, 1e-5, False)
        return torch.split(y, split_size_or_sections=2, dim=1)[1] + F.rrelu(y[:, 4:])


class Operators(nn.Module):
    """torch.ops.aten, as graphs of torch.export call it."""

    def __init__(self):
        super().__init__()
        self.conv, self.up = nn.Conv2d(3, 8, 3, 2, 1), nn.ConvTranspose2d(8, 4, 4, 2, 1, bias=False)
        self.norm, self.layer, self.group, self.lin = nn.BatchNorm2d(8), nn.LayerNorm(8), nn.GroupNorm(2, 8), nn.Linear(8, 8)
        self.norm.running_mean.uniform_(-0.3, 0.3)
        self.norm.running_var.uniform_(0.5, 1.5)

    def eval(self):
        raise NotImplementedError("Calling eval() is not supported yet.")

    def forward(self, x):
        aten, n = torch.ops.aten, self.norm
        aten._assert_tensor_metadata.default(x, None, None, None)
        x = aten.convolution.default(x, self.conv.weight, self.conv.bias, [2, 2], [1, 1], [1, 1], False, [0, 0], 1)
        x = aten.native_batch_norm.default(x, n.weight, n.bias, n.running_mean, n.running_var, False, 0.1, 1e-5)[0]
        x = aten.native_group_norm.default(aten.gelu.default(x), self.group.weight, self.group.bias, 2, 8, 16, 2, 1e-5)[0]
        y = aten.permute.default(aten.view.default(x, [2, 8, 16]), [0, 2, 1])
        y = aten.native_layer_norm.default(y, [8], self.layer.weight, self.layer.bias, 1e-5)[0]
        y = aten.addmm.default(self.lin.bias, aten.view.default(y, [32, 8]), aten.permute.default(self.lin.weight, [1, 0]))
        y = aten._softmax.default(aten._unsafe_view.default(y, [2, 16, 8]), -1, False)
        y = aten.clone.default(aten.transpose.int(y, 1, 2), memory_format=torch.contiguous_format)
        y = aten.view.default(y, [2, 8, 4, 4])
        x = aten.cat.default([aten.slice.Tensor(x, 1, 0, 4), aten.slice.Tensor(y, 1, 4, 2 ** 63 - 1)], 1)
        x = aten.add.Tensor(x, aten.mean.dim(x, [-1, -2], True))
        x = aten.max_pool2d_with_indices.default(aten.leaky_relu.default(x, 0.1), [2, 2], [2, 2])[0]
        x = aten.upsample_bilinear2d.vec(x, None, False, [2.0, 2.0])
        x = aten.upsample_nearest2d.vec(x, [8, 8], None)
        x = aten.convolution.default(x, self.up.weight, None, [2, 2], [1, 1], [1, 1], True, [0, 0], 1)
        a, b = aten.split.Tensor(x, 2, 1)
        a = aten._to_copy.default(a, dtype=x.dtype)
        x = aten.mul.Tensor(aten.sigmoid.default(a), aten.select.int(b, 1, 1).unsqueeze(1))
        x = aten.reflection_pad2d.default(aten.constant_pad_nd.default(x, [1, 1, 0, 0], 0.5), [1, 0, 1, 0])
        return aten.clamp.default(aten.index.Tensor(x, [None, torch.tensor([1, 0])]), -1, 1)


# ---- parametrizations of torch 2 ----


class WeightNorm(nn.Module):
    """That of torch.nn.utils.parametrizations.weight_norm, for dim 0."""

    def forward(self, weight_g, weight_v):
        return torch._weight_norm(weight_v, weight_g, 0)

    def right_inverse(self, weight):
        return torch.norm_except_dim(weight, 2, 0), weight


class Parametrized(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.last = nn.Conv1d(3, 4, 3), nn.utils.parametrizations.spectral_norm(nn.Linear(4, 2))
        nn.utils.parametrize.register_parametrization(self.conv, "weight", WeightNorm(), unsafe=True)

    def forward(self, x):
        return self.last(self.conv(x).mean(2))


class Hooked(nn.Module):
    """The same by the hooks of torch 1."""

    def __init__(self):
        super().__init__()
        self.conv, self.last = nn.utils.weight_norm(nn.Conv1d(3, 4, 3)), nn.utils.spectral_norm(nn.Linear(4, 2))

    forward = Parametrized.forward


class Compiled(nn.Module):
    """The result of torch.compile has the module as _orig_mod."""

    def __init__(self, module):
        super().__init__()
        self._orig_mod = module

    def forward(self, x):
        raise RuntimeError("compiled code sees no tensor of the exporter's")


def compiled():
    return Compiled(nn.Sequential(nn.Linear(6, 4), Compiled(nn.Linear(4, 2))))


def write_safetensors(path, state):
    head, data = {"__metadata__": {"format": "pt"}}, b""
    for name, value in state.items():
        start, kind = len(data), "BF16" if value.dtype == torch.bfloat16 else "F32"
        data += value.view(torch.int16).numpy().tobytes() if kind == "BF16" else value.numpy().tobytes()
        head[name] = {"dtype": kind, "shape": list(value.shape), "data_offsets": [start, len(data)]}
    text = json.dumps(head).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + data)


def main():
    unfurl, exporter = sys.argv[1:3]
    here, demand = os.path.abspath(__file__), exported.demand
    export = exported.exporter_of(exporter)
    with tempfile.TemporaryDirectory() as folder:
        model, reference, weights = (os.path.join(folder, name) for name in ("model.h5", "reference.h5", "weights.pth"))

        def check(name, path, *inputs):
            words = [f"{here}:{name}", path, model, "--reference", reference, *[w for x in inputs for w in ("--input", x)]]
            status, _, err = export(*words)
            demand(status == 0, words, err)
            status, out, err = exported.run(unfurl, "run", model, "--check", reference, "--dtype", "f64")
            demand(status == 0, words, out, err)

        check("Functions", "-", "x=2,4,6", "labels=2,4:i64")
        check("Operators", "-", "x=2,3,8,8")
        check("compiled", "-", "x=2,6")
        # torch.load of 2.6 reads weights alone unless told otherwise; the exporter says which, always.
        torch.manual_seed(2)
        hooked, load, said = Hooked().eval(), torch.load, []
        torch.load = lambda *args, **kwargs: said.append(kwargs["weights_only"]) or load(*args, **kwargs)
        torch.save(hooked.state_dict(), weights)
        x = torch.randn(2, 3, 7)
        with torch.no_grad():
            expected = hooked(x)
        torch.save({"_orig_mod.module." + name: value for name, value in hooked.state_dict().items()}, weights + ".2")
        write_safetensors(weights + ".safetensors", hooked.state_dict())
        for name in ("Hooked", "Parametrized"):
            for path in (weights, weights + ".2", weights + ".safetensors"):
                check(name, path, "x=2,3,7")
                with h5py.File(reference + ".2", "w") as file:
                    file["inputs/x"], file["outputs/output"] = x.numpy(), expected.numpy()
                status, out, err = exported.run(unfurl, "run", model, "--check", reference + ".2", "--limit", "1e-6")
                demand(status == 0, name, path, out, err)
        demand(said == [True] * 4, said)
        torch.load = load
        parametrized = Parametrized()
        torch.save(parametrized.state_dict(), weights)
        check("Hooked", weights, "x=2,3,7")
        write_safetensors(weights + ".safetensors", {name: x.bfloat16() for name, x in nn.Linear(6, 4).state_dict().items()})
        check("nn.Linear(6, 4)", weights + ".safetensors", "input=2,6")
        # As a command it runs the Python code of a function that torch.jit compiles.
        words = [sys.executable, exporter, f"{os.path.dirname(here)}/exported.py:Hidden", "-", model, "--input", "x=1,3,4,4"]
        status, out, err = exported.run(*words)
        demand(status == 0 and "tanh(" in h5py.File(model)["model"][()].decode(), words, out, err)


if __name__ == "__main__":
    main()
