#!/usr/bin/python3
"""exported_random.py UNFURL EXPORTER [FIRST [COUNT]]: random modules of PyTorch through the exporter.

Seed FIRST + i makes module i: up to ten calls, of modules, functions and methods with random options, on values that came
before. Each is exported and held to PyTorch value by value in f64; where the file lets extents vary, on other shapes too.
A refusal has to name its place, and few modules may be refused. Exit status 77: PyTorch or h5py is not installed.
"""
import math
import os
import random
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import exported  # ends with 77 where PyTorch is not there
import h5py
import torch
from torch import nn
from torch.nn import functional as F

COUNT = 150


def divisor(r, *numbers):
    return r.choice([d for d in range(1, min(numbers) + 1) if all(n % d == 0 for n in numbers)])


def conv(r, x):
    axes, c, out = x.dim() - 2, x.shape[1], r.choice([1, 2, 4, 6])
    kinds = {1: (nn.Conv1d, nn.ConvTranspose1d), 2: (nn.Conv2d, nn.ConvTranspose2d)}[axes]
    groups, kernel, dilation = divisor(r, c, out), r.choice([1, 2, 3, 4, 5]), r.choice([1, 1, 2])
    if r.random() < 0.5:
        padding = r.choice([0, 1, 2, "same", "valid"])
        made = kinds[0](c, out, kernel, 1 if padding == "same" else r.choice([1, 2]), padding, dilation, groups,
                        r.random() < 0.7, r.choice(["zeros", "zeros", "reflect", "replicate", "circular"]))
    else:
        made = kinds[1](c, out, kernel, r.choice([1, 2, 3]), r.choice([0, 1, 2]), r.choice([0, 0, 1]), groups,
                        r.random() < 0.7, dilation)
    wrap = r.choice([None, None, None, nn.utils.weight_norm, nn.utils.spectral_norm,
                     nn.utils.parametrizations.spectral_norm])
    return made if wrap is None else wrap(made)


def norm(r, x):
    c, flag = x.shape[1], r.random() < 0.5
    batch, instance = (nn.BatchNorm2d, nn.InstanceNorm2d) if x.dim() == 4 else (nn.BatchNorm1d, nn.InstanceNorm1d)
    return r.choice([batch(c, affine=flag), batch(c, track_running_stats=False), nn.GroupNorm(divisor(r, c), c, affine=flag),
                     instance(c, affine=flag, track_running_stats=r.random() < 0.5),
                     nn.LayerNorm(x.shape[-r.choice([1, 2]):], eps=1e-3, elementwise_affine=flag)])


def activation(r, _):
    return r.choice([
        nn.LeakyReLU(0.2), nn.ELU(0.5), nn.GELU(), nn.GELU("tanh"), nn.SiLU(), nn.Mish(), nn.Softplus(2.0), nn.CELU(0.5),
        nn.PReLU(), nn.Hardtanh(-0.5, 0.75), nn.Softsign(), nn.LogSigmoid(), nn.Hardswish(), nn.Softshrink(0.25),
        nn.Softmax(-1), nn.Dropout(0.5), torch.tanh, torch.sigmoid, F.relu6, F.selu, torch.Tensor.abs, torch.neg,
        lambda x: F.relu(x.clone(), inplace=True), lambda x: x.clone().mul_(0.5).add_(1), lambda x: x ** 2,
        lambda x: torch.exp(-x.abs()), lambda x: (x * x + 0.25).rsqrt(), lambda x: x.softmax(dim=1),
        lambda x: F.normalize(x + 1, dim=-1), lambda x: torch.maximum(x, -x), lambda x: x.clamp(max=0.5),
        lambda x: F.log_softmax(x, dim=-1)])


def numbers(r, _):
    a = round(r.uniform(0.25, 2.0), 2)
    return r.choice([
        lambda x: x + a, lambda x: a - x, lambda x: x * a, lambda x: 1.5 / (x.abs() + a), lambda x: torch.add(x, x, alpha=a),
        lambda x: torch.lerp(x, x * 2, a), lambda x: x + torch.linspace(0, 1, x.shape[-1]), lambda x: x * x.new_tensor([a]),
        lambda x: torch.addcmul(x, x, x, value=a), lambda x: x * math.sqrt(0.5) + torch.zeros_like(x), lambda x: (x + 1) / 2,
        lambda x: x + torch.arange(x.shape[-1]) / 10])


def reduced(r, x):
    axis = r.choice([-1, *range(1, x.dim())])
    return r.choice([
        lambda x: x - x.mean(axis, keepdim=True), lambda x: x.sum(dim=axis, keepdim=True) * 0.1 + x, lambda x: x.mean(axis),
        lambda x: x / (x.var(axis, unbiased=False, keepdim=True) + 1), lambda x: x - x.amax(axis, keepdim=True),
        lambda x: x + x.max(dim=axis, keepdim=True)[0], lambda x: x / (x.norm(dim=axis, keepdim=True) + 1),
        lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5), lambda x: x.cumsum(axis) * 0.1])


def shaped(r, x):
    rank = x.dim()
    a, b = r.randrange(1, rank), r.randrange(1, rank)
    order = [0, *r.sample(range(1, rank), rank - 1)]
    return r.choice([
        lambda x: x.permute(order), lambda x: torch.transpose(x, a, b), lambda x: x.movedim(a, b), lambda x: x.flatten(1),
        lambda x: x.reshape(x.shape[0], -1), lambda x: x.contiguous().view(x.size(0), x.size(1), -1),
        lambda x: x.unsqueeze(1).expand(-1, 2, *[-1] * (rank - 1)).flatten(1, 2), lambda x: x.repeat(1, 2, *[1] * (rank - 2)),
        lambda x: torch.stack([x, -x], dim=1).flatten(1, 2), lambda x: x.repeat_interleave(2, dim=a), lambda x: x.flip(a),
        lambda x: torch.roll(x, 1, a)])


def sliced(r, x):
    axis = r.randrange(1, x.dim())
    return r.choice([
        lambda x: torch.cat([x, -x], axis), lambda x: torch.cat(x.chunk(3, 1)[::-1], dim=1), lambda x: x[..., 1:] + x[..., :-1],
        lambda x: x[:, :1], lambda x: x[:, -1:], lambda x: x[:, ::2], lambda x: x[..., 1::2], lambda x: x[:, [0, 0]],
        lambda x: sum(torch.unbind(x, 1)).unsqueeze(1), lambda x: F.glu(x, axis), lambda x: x.split(1, axis)[0] * x,
        lambda x: torch.cat([part.unsqueeze(1) for part in x.unbind(dim=1)], dim=1), lambda x: x.narrow(1, 0, 1)])


def resized(r, x):
    amounts = tuple(r.randrange(-1, 3) for _ in range(2 * x.dim() - 4))
    pad, line = tuple(abs(n) for n in amounts), x.dim() == 3
    scale, mode = r.choice([2, 3, 1.5, 0.5]), r.choice(["nearest", "linear" if line else "bilinear"])
    corners = {} if mode == "nearest" else {"align_corners": r.random() < 0.5}
    pools = (F.max_pool1d, F.avg_pool1d, F.adaptive_avg_pool1d) if line else (F.max_pool2d, F.avg_pool2d, F.adaptive_avg_pool2d)
    kernel, stride, ceil = r.choice([2, 3]), r.choice([1, 2]), r.random() < 0.5
    return r.choice([
        lambda x: F.interpolate(x, scale_factor=scale, mode=mode, **corners),
        lambda x: F.interpolate(x, size=[n * 2 for n in x.shape[2:]], mode=mode, **corners),
        lambda x: pools[0](x, kernel, stride, 1, ceil_mode=ceil), lambda x: pools[1](x, kernel, stride, ceil_mode=ceil),
        lambda x: pools[2](x, 2), lambda x: F.pad(x, amounts),
        lambda x: F.pad(x, pad, value=0.5), lambda x: F.pad(x, pad, mode="reflect"), lambda x: F.pad(x, pad, mode="circular"),
        *([] if line else [lambda x: F.pixel_shuffle(x, 2), lambda x: F.pixel_unshuffle(x, 2), lambda x: F.unfold(x, 2),
                           lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), lambda x: x.mean((2, 3))])])


def attention(r, x):
    causal = torch.ones(x.shape[1], x.shape[1]).tril() == 0

    def of_heads(x):
        q, k, v = (part.view(*x.shape[:2], 1, -1).transpose(1, 2) for part in (x, x * 0.5, -x))
        return ((q @ k.transpose(-2, -1)) / 2).softmax(-1).matmul(v).transpose(1, 2).flatten(2)
    return r.choice([
        of_heads, lambda x: torch.bmm((x @ x.mT * 0.3).masked_fill(causal, float("-inf")).softmax(-1), x),
        lambda x: torch.einsum("bic,bjc->bij", x, x) * 0.1, nn.TransformerEncoderLayer(x.shape[2], 1, 6, batch_first=True)])


def linear(r, x):
    return nn.Linear(x.shape[-1], r.choice([1, 4, 6]), bias=r.random() < 0.7)


ANY = [activation, activation, numbers, reduced, shaped, sliced, linear]
MAKERS = {2: ANY, 3: ANY + [conv, norm, resized, attention], 4: ANY + [conv, conv, norm, resized, resized]}


class Random(nn.Module):
    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        r = random.Random(seed)
        self.x = torch.randn(r.choice([(2, 4, 6, 5), (1, 6, 4, 8), (3, 2, 8, 6), (2, 4, 8), (1, 6, 5), (2, 6)]))
        self.parts, self.steps, values = nn.ModuleList(), [], [self.x]
        length, tries = r.choice([1, 2, 3, 6, 10]), 0
        while len(self.steps) < length and tries < 50:
            tries += 1
            at = len(values) - 1 if r.random() < 0.8 else r.randrange(len(values))
            x = values[at]
            try:
                step = r.choice(MAKERS[x.dim()])(r, x)
                with torch.no_grad():
                    y = step.eval()(x) if isinstance(step, nn.Module) else step(x)
            except (RuntimeError, ValueError, IndexError, KeyError):
                continue  # not on this shape
            flat = y.numel() < 4 or float(y.std()) < 0.02 * float(y.abs().max())
            if flat or not y.isfinite().all() or not 1e-3 < y.abs().max() < 50 or y.numel() > 10000 or y.dim() not in MAKERS:
                continue
            if isinstance(step, nn.Module):
                self.parts.append(step)
            other = next((i for i, v in enumerate(values) if v.shape == y.shape and r.random() < 0.3), None)
            self.steps.append((step, at, other))
            values.append(y if other is None else y + values[other])

    def forward(self, x):
        values = [x]
        for step, at, other in self.steps:
            y = step(values[at])
            values.append(y if other is None else y + values[other])
        return values[-1]


def run(unfurl, model, reference):
    done = subprocess.run([unfurl, "run", model, "--check", reference, "--dtype", "f64", "--limit", "2e-6"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def on_another_shape(unfurl, module, text, model, path, dtype):
    """Where the file names extents: the module on other ones, if it takes them."""
    extents = re.search(r"^input x f32 \((.*)\)$", text, re.M)[1].split(", ")
    if not any("=" in extent for extent in extents):
        return False
    more = {"N": 2, "H": 3, "W": 5, "L": 4}
    shape = [int(extent.split("=")[-1]) + more.get(extent[0], 0) for extent in extents]
    try:
        with torch.no_grad():
            x = torch.randn(shape, dtype=dtype)
            y = module(x)
    except (RuntimeError, ValueError, IndexError):
        return False
    with h5py.File(path, "w") as file:
        file["inputs/x"] = x.numpy()
        file["outputs/" + re.search(r"^output (\S+) =", text, re.M)[1]] = y.numpy()
    status, said = run(unfurl, model, path)
    exported.demand(status == 0, shape, said, text)
    return True


def main():
    unfurl = sys.argv[1]
    first, count = (int(word) for word in (sys.argv[3:] + ["1", str(COUNT)][len(sys.argv) - 3:])[:2])
    exporter = exported.loaded(sys.argv[2])
    refused, varied = [], 0
    with tempfile.TemporaryDirectory() as folder:
        model, reference = os.path.join(folder, "model.h5"), os.path.join(folder, "reference.h5")
        for seed in range(first, first + count):
            module = Random(seed)
            if not module.steps:
                continue
            try:
                text = exporter.export(module, {"x": module.x}, model, reference=reference)
            except exporter.Refused as error:
                exported.demand(re.match(r"\S.* \(\w+, \w+\.py line \d+\): \S", str(error)), seed, error)
                refused.append(f"{seed}: {error}")
                continue
            status, said = run(unfurl, model, reference)
            exported.demand(status == 0, f"seed {seed}", said, text)
            torch.set_default_dtype(torch.float64)
            varied += on_another_shape(unfurl, module, text, model, reference, torch.float64)
            torch.set_default_dtype(torch.float32)
    print("\n".join(refused))
    print(f"{count} modules, {len(refused)} refused, {varied} on another shape too")
    exported.demand(len(refused) <= count // 20 and (varied >= count // 3 or count < COUNT), "too many are refused")


if __name__ == "__main__":
    main()
