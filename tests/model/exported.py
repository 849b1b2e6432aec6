#!/usr/bin/python3
"""exported.py UNFURL EXPORTER [CASE...]: modules that nobody has prepared, through the exporter's command.

Each class of CASES is exported and checked value by value; each of REFUSED ends in one sentence with the words that it
has, and an exit status of 1 or 2. Exit status 77: PyTorch or h5py is not installed.
"""
import contextlib
import importlib.util
import io
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
try:
    import h5py
    import torch
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

from torch import nn
from torch.nn import functional as F


# ---- modules that are exported ----


class Activations(nn.Module):
    def forward(self, x):
        parts = [F.elu(x, 0.5), F.selu(x), F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x), F.mish(x),
                 F.softplus(x, 2.0), F.softsign(x), F.logsigmoid(x), F.relu6(x), F.hardsigmoid(x), F.hardswish(x),
                 F.hardtanh(x, -0.5, 0.25), x.clamp(min=-0.25), x.clamp(max=0.5), x.abs(), -x, x ** 2, x.pow(3),
                 torch.exp(x), (x.abs() + 1).log(), (x * x + 1).sqrt(), (x * x + 0.5).rsqrt(), 1 / (2 + x * x),
                 3 - x, x - 2, 2 + x, x / 4, F.leaky_relu(x, 0.3), x.sigmoid(), torch.lerp(x, x * x, 0.25)]
        return torch.cat(parts, 1)


class Shapes(nn.Module):
    def forward(self, x):
        b, c, h, w = x.shape
        a, rest = x.split([1, c - 1], dim=1)
        first, second = rest.chunk(2, dim=2)
        y = torch.stack([first, second], dim=1).flatten(1, 2)
        y = y.permute(0, 2, 3, 1).contiguous().view(b, -1, y.shape[1]).transpose(1, 2)
        z = a[:, 0, 1:, ..., None].squeeze(-1).unsqueeze(1).expand(-1, 2, -1, -1)
        q = x.mean((2, 3), keepdim=True).expand_as(x) + x.sum(1, keepdim=True) + x.var(1, keepdim=True)
        q = torch.cat([q, x[:, :1].repeat(1, 2, 1, 1)], dim=-3)
        return {"y": y, "z": z, "q": q, "unbound": sum(x.unbind(1)), "padded": F.pad(x, (1, 2, 0, 1), mode="reflect"),
                "cropped": F.pad(x, (-1, -1, -1, -1)), "std": x.std((1, 2), unbiased=False)}


class Pools(nn.Module):
    def forward(self, x):
        line = x.flatten(2)
        return (F.max_pool2d(x, 3, 2, 1, ceil_mode=True), F.avg_pool2d(x, (2, 3), count_include_pad=False),
                F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, (4, 3)), F.avg_pool1d(line, 3, 2),
                F.interpolate(x, size=(5, 7), mode="bilinear", align_corners=True), F.interpolate(x, scale_factor=1.5),
                F.pixel_unshuffle(x, 2), F.interpolate(line, scale_factor=2), F.max_pool1d(line, 2))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out, self.norm = nn.Linear(12, 36), nn.Linear(12, 12, bias=False), nn.LayerNorm(12, eps=1e-6)
        self.scale = nn.Parameter(torch.full((12,), 0.5))
        self.register_buffer("shift", torch.linspace(-1, 1, 12))

    def forward(self, tokens):
        b, n, _ = tokens.shape
        q, k, v = self.qkv(self.norm(tokens)).reshape(b, n, 3, 2, 6).permute(2, 0, 3, 1, 4)
        weights = ((q @ k.transpose(-2, -1)) * 6 ** -0.5).softmax(-1)
        made = (weights @ v).transpose(1, 2).reshape(b, n, 12)
        return tokens + self.out(made) * self.scale + self.shift


class Modulated(nn.Module):
    """A weight that is computed, functional calls with parameters, a module that is used twice, a constant."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4, 3, 3) * 0.2)
        self.bias = nn.Parameter(torch.randn(4))
        self.shared = nn.Conv2d(4, 4, 1)
        self.norm = nn.BatchNorm2d(4)
        self.transposed = nn.utils.weight_norm(nn.ConvTranspose2d(4, 4, 4, 2, 1))
        self.spectral = nn.utils.parametrizations.spectral_norm(nn.Conv2d(4, 4, 3, padding="same", padding_mode="reflect"))

    def forward(self, x, flag=None, factor=2.0):
        x = self.shared(F.relu(self.norm(self.shared(x))))
        x = F.conv2d(x, self.weight * 0.5, self.bias, padding=1)
        x = F.conv2d(x, self.weight, padding=1)
        mask = torch.ones(1, 4, 1, 1)
        mask[:, 1] = 0.5
        return self.spectral(self.transposed(x * mask)) * factor


class InPlaceAlone(nn.Module):
    """Operations in place whose results are all that is read."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x):
        x = self.conv(x)
        x.mul_(0.5)
        x += 1
        return F.relu(self.conv(x), inplace=True)


class FollowsShape(nn.Module):
    """A constant of the height, which may not vary; the batch may."""

    def forward(self, x):
        return x * torch.full((1,), 1.0 / x.shape[2])


class Labels(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.up = nn.Embedding(7, 5), nn.ConvTranspose1d(5, 3, 4, 2, 1, groups=1)

    def forward(self, labels):
        return self.up(self.table(labels).transpose(1, 2))


class Composed(nn.Module):
    """Functions that are written with several layers."""

    def forward(self, x):
        positive = x.abs() + 0.25
        parts = [F.celu(x, 0.5), F.softshrink(x, 0.25), F.tanhshrink(x), F.threshold(x, 0.125, 0.125), positive ** 1.5,
                 x ** 5, positive ** -3, 2 ** x, positive.log2(), torch.log_softmax(x, 1), F.softmin(x, dim=-1),
                 x.logsumexp((2, 3), keepdim=True) + x, torch.addcdiv(x, x, positive, value=0.5), F.rrelu(x, 0.1, 0.3),
                 x.masked_fill(torch.eye(4).bool(), -2.0), torch.where(torch.eye(4) > 0, x, 0.5), x * True,
                 torch.maximum(x, x * x), torch.min(x, -x), torch.addmm(x[0, 0], x[0, 1], x[0, 2], alpha=0.5) + x,
                 x.cumsum(1)]
        line = F.local_response_norm(x.flatten(2), 2)
        return torch.cat(parts, 1), line, x @ x[0, 0, 0], x[0, 0, 0] @ x, x[0, 0, 0].cumsum(0)


class Extremes(nn.Module):
    def forward(self, x):
        values, _ = x.max(1)
        made = [x.max(), x.amin((1, 3)), x.amax((2, 3), keepdim=True), values, x.min(dim=1, keepdim=True)[0], x[0].max(0)[0],
                x.flatten(2).amax(2), x.norm(dim=1), x.norm(p=1, dim=3),
                torch.linalg.vector_norm(x, dim=(1, 2)), *torch.var_mean(x, (2, 3), unbiased=False), *torch.std_mean(x, 1)]
        return tuple(made)


class Chosen(nn.Module):
    """Indices, steps, and other orders."""

    def forward(self, x):
        a, _ = F.max_pool2d(x, 2, return_indices=True)
        b, c = torch.broadcast_tensors(x[:, :1], x)
        made = [x[:, [2, 0, 1, 1]], x[:, :, ::2, 1::2], x[:, ::2], x[..., :-1], x[:, -1], x[:, -2], x[:, :, -3:-1],
                x[:, torch.tensor([True, False, True])], x.index_select(2, torch.tensor([3, 0])), x.flip(1), x.flip((2, 3)),
                x.roll(1, 1), x.roll((1, -2), (2, 3)), x.repeat_interleave(2, 1), x.repeat_interleave(3, dim=2),
                torch.hstack([x, x]), a, b * c, x[0].flatten(1)[::2], F.channel_shuffle(torch.cat([x, -x], 1), 2)]
        return tuple(made)


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.fold = nn.Fold((5, 6), (2, 3), stride=(1, 2), padding=(0, 1))

    def forward(self, x):
        line = x.flatten(2)
        columns = F.unfold(x, (2, 3), stride=2, padding=1)
        made = [F.interpolate(x, scale_factor=2, mode="bicubic"), F.interpolate(x, size=(12, 15), mode="bicubic"), columns,
                F.interpolate(x, (2, 5), mode="area"), F.interpolate(x, scale_factor=3, mode="nearest-exact"),
                F.interpolate(line, scale_factor=2, mode="linear"), F.interpolate(line, 31, mode="linear", align_corners=True),
                F.adaptive_avg_pool2d(x, (3, 4)), F.adaptive_avg_pool1d(line, 5), F.adaptive_max_pool2d(x, (2, 1)),
                F.adaptive_max_pool1d(line, 1), F.avg_pool2d(x, 2, divisor_override=3),
                self.fold(torch.cat([x.flatten(2)[:, :, :12]] * 6, 1))]
        return tuple(made)


class Attends(nn.Module):
    """PyTorch's own attention, whose Python code runs call by call, and masks that are constants."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.layer = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True, norm_first=True)

    def forward(self, x):
        ahead = torch.ones(5, 5, dtype=torch.bool).triu(1)
        x = x + self.attention(x, x, x, attn_mask=ahead, need_weights=False)[0]
        x, weights = self.attention(x, x[:, :4], x[:, :4])
        scores = torch.einsum("bnc,bmc->bnm", x, x) + torch.einsum("b n c -> b n", x)[:, None]
        made = torch.einsum("bnm,bmc,c->bnc", scores.masked_fill(ahead, float("-inf")).softmax(-1), x, x[0, 0])
        return self.layer(made), weights


class OwnWeights(nn.Module):
    """Weights that belong to no module, that are computed, or that lack their bias."""

    def __init__(self):
        super().__init__()
        self.table, self.taps = nn.Parameter(torch.randn(4, 6)), nn.Parameter(torch.randn(4, 4, 3) * 0.3)
        self.gain, self.shift = nn.Parameter(torch.rand(4) + 0.5), nn.Parameter(torch.randn(4))
        self.statistics = nn.InstanceNorm1d(4, affine=True, track_running_stats=True)
        self.batch = nn.BatchNorm1d(4, track_running_stats=False)

    def forward(self, x, gate):
        x = F.conv1d(x, self.taps, self.shift * 2, padding=1)
        x = F.conv_transpose1d(x, self.taps, self.gain, stride=2, padding=1, output_padding=1)
        x = F.conv1d(x, self.taps * gate.mean(), padding="same", dilation=2)
        x = F.conv_transpose1d(x, self.taps * gate.mean(), self.shift, stride=(2,))
        x = F.prelu(F.group_norm(x, 2, self.gain), self.shift)
        x = F.group_norm(x, 2, bias=self.shift) + F.instance_norm(x, weight=self.gain, bias=self.shift)
        x = F.batch_norm(x, self.shift, self.gain, bias=self.shift) + F.batch_norm(x, self.shift, self.gain * 2, self.gain)
        x = F.layer_norm(x, (x.shape[2],)) + F.group_norm(x, 1, self.gain * gate[0], self.shift)
        return self.batch(self.statistics(x)) + F.layer_norm(x.transpose(1, 2), (4,), gate[0], self.shift).mT


class Tables(nn.Module):
    """A table that is no module's, and one that is computed."""

    def __init__(self):
        super().__init__()
        self.rows = nn.Parameter(torch.randn(7, 4))

    def forward(self, labels):
        return F.embedding(labels.long(), self.rows) + F.embedding(labels, torch.tanh(self.rows))


class Borders(nn.Module):
    def forward(self, x):
        line = x[:, 0]
        row = line[:, 0]
        even = torch.ones(3, 3, 2, 4) * 0.125
        made = [F.pad(x, (1, 2, 0, 1), mode="circular"), F.pad(x, (1, 0, 0, 2), value=0.5), F.pad(x, (0, 0, 0, 0, 1, 2)),
                F.pad(x, (-1, 2, 1, -2)), F.pad(x, (0, 1, 1, 0), mode="replicate"), F.pad(line, (1, 0, 0, 1)),
                F.pad(line, (2, 1), mode="circular"), F.pad(line, (2, 0), mode="reflect"), F.pad(row, (1, 2), value=-1e9),
                F.pad(row, (0, 0, 1, 0)), F.conv2d(x, even, padding="same"), F.conv2d(x, even, padding="valid")]
        return tuple(made)


class Constants(nn.Module):
    """Functions of parameters alone may be any, in place as well; a constant may change between two uses."""

    def __init__(self):
        super().__init__()
        self.weight, self.gain = nn.Parameter(torch.randn(4, 4)), nn.Parameter(torch.tensor(0.5))
        self.register_buffer("step", torch.ones(4))

    def forward(self, x):
        if (self.gain * 2).item() > 0:
            x = x * 2
        row = self.weight[0] * 2
        x = x + row
        row[0] = 0.5
        row.mul_(3)
        row += self.step
        changing = torch.zeros(4)
        changing[1] = 2
        x = x * row + changing
        changing[2] = 5
        kernel = torch.where(self.weight > 0, self.weight, self.weight * 0.1)
        x = (x + changing) @ torch.linalg.qr(kernel * 2)[0] + F.linear(x, (self.weight * 2).flip(0))
        zeros = torch.zeros(1, 4)
        zeros += x.mean(0)
        return torch.cat([x, x.new_full((x.shape[0], 1), 0.25)], 1), zeros


class Rounding(nn.Module):
    """The mean is 0 but for rounding, which is no difference."""

    def forward(self, x):
        x = F.instance_norm(x)
        return x * 2 + x.mean((2, 3), keepdim=True)[:, :1]


class Varies(nn.Module):
    """Batch and length may vary: a constant for each of the batch, borders of a line, and channels that are split."""

    def __init__(self):
        super().__init__()
        self.start, self.bias = nn.Parameter(torch.randn(1, 4, 1)), nn.Parameter(torch.randn(1, 1, 1))

    def forward(self, x):
        b, c, length = x.shape
        y = F.pad(x, (1, 1), mode="reflect") + self.start.repeat(b, 1, 1) + self.bias.expand(b, 4, 1)
        y = F.interpolate(F.avg_pool1d(y, 3, 1), size=2 * length)
        return y.reshape(b, 2, 2, 2 * length).transpose(1, 2).reshape(b, 4, -1)[..., 1:-1]


class SizeOfInput(nn.Module):
    """A size that is twice the pool's for the examples, and not for each height: it may not vary."""

    def forward(self, x):
        return F.interpolate(F.max_pool2d(x, 2, ceil_mode=True), size=x.shape[2:])


CASES = {
    Activations: ["x=2,3,5,4"],
    Shapes: ["x=2,3,4,6"],
    Pools: ["x=2,3,8,6"],
    Attention: ["tokens=2,5,12"],
    Modulated: ["x=1,4,6,5"],
    InPlaceAlone: ["image=1,3,6,6"],
    FollowsShape: ["x=2,3,4,4"],
    Labels: ["labels=2,9:i64"],
    Composed: ["x=2,3,4,4"],
    Extremes: ["x=2,3,4,5"],
    Chosen: ["x=2,3,4,6"],
    Images: ["x=2,2,4,5"],
    Attends: ["x=2,5,8"],
    Varies: ["x=1,4,6"],
    SizeOfInput: ["x=1,2,4,6"],
    OwnWeights: ["x=2,4,6", "gate=1,4"],
    Tables: ["labels=2,3:i64"],
    Borders: ["x=2,3,4,5"],
    Constants: ["x=2,4"],
    Rounding: ["x=2,3,4,4"],
}


# ---- modules that are refused ----


class Lacks(nn.Module):
    def forward(self, x):
        return torch.fft.fft2(x).abs()


class LacksLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Hardshrink(), nn.ReLU())

    def forward(self, x):
        return self.body(x)


class Branches(nn.Module):
    def forward(self, x):
        if x.mean() > 0:
            return x
        return -x


class Items(nn.Module):
    def forward(self, x):
        return x * x.max().item()


class TwoReaders(nn.Module):
    def forward(self, x):
        y = x * 2
        z = F.relu(y, inplace=True)
        return torch.tanh(z) + y


class Partly(nn.Module):
    def forward(self, x):
        y = x * 2
        y[:, :1].add_(1)
        return y


class Fails(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3)

    def forward(self, x):
        return self.conv(x)


class Constant(nn.Module):
    def forward(self, x):
        return torch.zeros(3)


class Strings(nn.Module):
    def forward(self, x):
        return "x"


class Draws(nn.Module):
    def forward(self, x):
        return x + torch.randn(1, 3, 1, 1)


class Integers(nn.Module):
    def forward(self, labels):
        return labels.float() * 2


@torch.jit.script
def scripted(x):
    return torch.tanh(x) * 2


class Hidden(nn.Module):
    """The result of a compiled function is an ordinary tensor, which looks like a constant."""

    def forward(self, x):
        return x + scripted(x)


class WritesIntoConstant(nn.Module):
    def forward(self, x):
        zeros = torch.zeros(1, 3, 4, 4)
        zeros.add_(x)
        return x * zeros


class WritesIntoParameter(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(4))

    def forward(self, x):
        self.gain.mul_(2)
        return x * self.gain


class Raises(nn.Module):
    def forward(self, x):
        return x + {}["absent"]


REFUSED = {
    Hidden: (1, "the module (Hidden, exported.py line", "follows from an input is read as a constant"),
    WritesIntoConstant: (1, "reads a constant that a value was written into", "exported.py line"),
    WritesIntoParameter: (1, "torch.mul changes a parameter in place", "exported.py line"),
    Raises: (1, "does not run on inputs of shapes (1, 3, 4, 4): KeyError: 'absent'"),
    Draws: (1, "draws random numbers"),
    Lacks: (1, "torch.fft_fft2 is no layer of unfurl", "exported.py line"),
    LacksLayer: (1, "body.1 (Hardshrink", "torch.hardshrink is no layer"),
    Branches: (1, "a branch or a number depends on the data", "exported.py line"),
    Items: (1, "a branch or a number depends on the data"),
    TwoReaders: (1, "overwritten in place", "--in-place", "exported.py line"),
    Partly: (1, "an output of the module: it reads a value that the module (Partly, exported.py line", "through a view"),
    Fails: (1, "does not run on inputs of shapes (1, 3, 4, 4)", "channels"),
    Constant: (1, "does not depend on its inputs"),
    Strings: (1, "forward returned str"),
}


def run(*words):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return done.returncode, done.stdout, done.stderr


def loaded(path):
    spec = importlib.util.spec_from_file_location("unfurl_export", path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def exporter_of(path):
    """The exporter's command in this process: PyTorch takes seconds to start."""
    made = loaded(path)

    def export(*words):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = made.main(list(words))
        return status, out.getvalue(), err.getvalue()
    return export


def demand(condition, *said):
    if not condition:
        sys.exit("\n".join(str(text) for text in said))


def one_sentence(said, status, words, *expected):
    got, out, err = said
    demand(got == status and out == "", words, f"status {got}, not {status}", out, err)
    demand(err.startswith("unfurl_export.py: ") and err.count("\n") == 1, words, "more than a sentence:", err)
    for text in expected:
        demand(text in err, words, f"no '{text}' in:", err)


def vary(export, unfurl, place, module, model, weights, shapes, wanted):
    torch.save(module.state_dict(), weights)
    extents = wanted.strip("()").replace("N=", "").replace("L=", "").replace(" ", "")
    demand(export(place, weights, model, "--input", "x=" + extents)[0] == 0, place)
    text = h5py.File(model)["model"][()].decode()
    demand("input x f32 " + wanted in text, text)
    for shape in shapes:
        with h5py.File(weights + ".h5", "w") as file, torch.no_grad():
            file["inputs/x"] = torch.randn(shape).numpy()
            file["outputs/output"] = module.eval()(torch.from_numpy(file["inputs/x"][()])).numpy()
        status, out, err = run(unfurl, "run", model, "--check", weights + ".h5", "--limit", "1e-6")
        demand(status == 0, shape, out, err, text)


def check_cases(export, unfurl, place, cases, refused, folder, only=()):
    """The modules of the file `place`. One of `refused` has its input with its words, where the usual one does not do."""
    model, reference, weights = (os.path.join(folder, name) for name in ("model.h5", "reference.h5", "weights.pth"))
    for case, inputs in cases.items():
        if only and case.__name__ not in only:
            continue
        torch.manual_seed(5)
        torch.save(case().state_dict(), weights)
        words = [f"{place}:{case.__name__}", weights, model, "--reference", reference]
        status, _, err = export(*words, *[word for text in inputs for word in ("--input", text)])
        demand(status == 0, words, err)
        for dtype, limit in (("f32", "1e-5"), ("f64", "1e-6")):
            status, out, err = run(unfurl, "run", model, "--check", reference, "--dtype", dtype, "--limit", limit)
            demand(status == 0, case.__name__, out, err, h5py.File(model)["model"][()].decode())
        print(case.__name__, out, end="")
    for case, (status, *expected) in refused.items():
        if not only or case.__name__ in only:
            given = expected.pop(0) if "=" in expected[0] else "x=1,3,4,4"
            words = [f"{place}:{case.__name__}", "-", model, "--input", given]
            one_sentence(export(*words), status, words, *expected)


def main():
    unfurl, exporter = sys.argv[1:3]
    only = sys.argv[3:]
    here = os.path.abspath(__file__)

    export = exporter_of(exporter)
    with tempfile.TemporaryDirectory() as folder:
        model, reference = os.path.join(folder, "model.h5"), os.path.join(folder, "reference.h5")
        weights = os.path.join(folder, "weights.pth")
        check_cases(export, unfurl, here, CASES, REFUSED, folder, only)
        if only:
            return
        # The same module with the flag is what PyTorch computes.
        words = [f"{here}:TwoReaders", "-", model, "--input", "x=1,3,4,4", "--in-place", "--reference", reference]
        demand(export(*words)[0] == 0, words)
        demand(run(unfurl, "run", model, "--check", reference)[0] == 0, words)
        words = [f"{here}:Integers", "-", model, "--input", "labels=3:i64"]
        one_sentence(export(*words), 1, words, "indices that become real numbers")
        demand(export(f"{here}:FollowsShape", "-", model, "--input", "x=2,3,4,4")[0] == 0, "FollowsShape")
        text = h5py.File(model)["model"][()].decode()
        demand("input x f32 (N=2, 3, 4, 4)" in text, text)
        # A run on other shapes than the model was exported with.
        vary(export, unfurl, f"{here}:Varies", Varies(), model, weights, ((3, 4, 9), (1, 4, 4)), "(N=1, 4, L=6)")
        demand(export(f"{here}:SizeOfInput", "-", model, "--input", "x=2,2,4,6")[0] == 0, "SizeOfInput")
        text = h5py.File(model)["model"][()].decode()
        demand("input x f32 (N=2, 2, 4, 6)" in text, text)
        # Files, names and options; the first one as a process of its own.
        one_sentence(run(sys.executable, exporter, f"{here}:Lacks", "-", model, "--input", "x=1,3,4,4"), 1, "a process")
        torch.save({"conv.weight": torch.zeros(4, 4, 3, 3)}, weights)
        fails = f"{here}:Fails"
        one_sentence(export(fails, weights, model), 1, "a missing weight", "lacks conv.bias")
        torch.save({"conv.weight": torch.zeros(4, 4, 5, 5), "conv.bias": torch.zeros(4)}, weights)
        one_sentence(export(fails, weights, model), 1, "another shape", "conv.weight is (4, 4, 5, 5)")
        torch.save({"conv.weight": torch.zeros(4, 4, 3, 3), "conv.bias": torch.zeros(4), "x": torch.zeros(1)}, weights)
        one_sentence(export(fails, weights, model), 1, "one too many", "has x, which the module has not")
        one_sentence(export(fails, os.path.join(folder, "no.pth"), model), 2, "no file", "there is no file")
        one_sentence(export(f"{here}:Nobody", "-", model), 1, "no class", "Nobody")
        one_sentence(export("no.py:Nobody", "-", model), 2, "no file", "there is no file no.py")
        one_sentence(export(here, "-", model), 2, "no class", "is not FILE.py:MODULE")
        one_sentence(export(fails, "-", model, "--input", "x=0"), 2, "an extent of 0", "1 or more")
        words = [f"{here}:Fails", "-", os.path.join(folder, "no", "model.h5"), "--input", "x=1,4,5,5"]
        one_sentence(export(*words), 1, "no folder", "there is no such folder")
        # A layer that differs is named, and the first one of them.
        words = [f"{here}:InPlaceAlone", "-", model, "--input", "image=1,3,6,6", "--reference", reference]
        demand(export(*words)[0] == 0, words)
        with h5py.File(model, "r+") as file:
            file["weights/conv.bias"][1] += 0.01
        status, out, err = run(unfurl, "run", model, "--check", reference)
        demand(status == 1 and out == "" and "values/conv (1, 3, 6, 6) is the first that differs" in err
               and "; 6 of 6 values differ" in err, out, err)
        with h5py.File(model, "r+") as file:
            del file["weights/conv.bias"]
        status, out, err = run(unfurl, "run", model, "--check", reference)
        demand(status == 1 and "conv.bias" in err, out, err)
        # A guessed shape, a state_dict of DataParallel's in HDF5, names of the outputs, and what may vary.
        with h5py.File(weights, "w") as file:
            for name, value in Fails().state_dict().items():
                file["module." + name] = value.numpy()
        demand(export(fails, weights, model, "--output-names", "made")[0] == 0, "a guessed shape")
        text = h5py.File(model)["model"][()].decode()
        demand("input x f32 (N=1, 4, H=64, W=64)\n" in text and "output made = conv\n" in text, text)
        status, out, err = run(unfurl, "run", model, "--input", "x=randn:2,4,7,9", "--json")
        demand(status == 0 and '"shape": [' in out, out, err)
        status, _, err = run(unfurl, "run", model, "--input", "x=randn:2,5,7,9")
        demand(status == 1 and "input x cannot be (2, 5, 7, 9)" in err, err)


if __name__ == "__main__":
    main()
