#!/usr/bin/python3
"""exported_idioms.py UNFURL EXPORTER: how people write what a condition, a type or a result is, through the exporter.

Exit status 77: PyTorch or h5py is not installed.
"""
import dataclasses
import os
import sys
import tempfile
import warnings

sys.dont_write_bytecode = True
import exported  # ends with 77 where PyTorch is not there
import h5py
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


class OneHot(nn.Module):
    """Labels as a row with one 1, and labels whose shape changes on their way to the table."""

    def __init__(self):
        super().__init__()
        self.table, self.start = nn.Embedding(7, 3), nn.Linear(7 + 3 + 4, 5)

    def forward(self, z, labels):
        row = F.one_hot(labels.squeeze(1), num_classes=7).float()
        row = torch.cat([z, row, self.table(labels.view(-1).long())], 1)
        return self.start(row) + self.table(labels).flatten(1)[:, :1]


class Float32(nn.GroupNorm):
    """Guided diffusion's norm, which computes in float whatever the module does."""

    def forward(self, x):
        return super().forward(x.float()).type(x.dtype)


class Types(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.conv = Float32(2, 4), nn.Conv2d(4, 4, 1)

    def forward(self, x):
        return self.conv(self.norm(x).to(self.conv.weight.dtype)).type_as(x) + x.to(torch.float32).half().double()


@dataclasses.dataclass
class Result:
    sample: torch.Tensor
    scores: torch.Tensor
    extra: object = None


class Dataclass(nn.Module):
    def forward(self, x):
        scores = torch.einsum("...ic,...jc->...ij", x, x)
        return Result(torch.einsum("bhij,...hjc->...hic", scores, x), scores)


class Numbers(nn.Module):
    """NumPy's numbers, and NumPy's names of arguments."""

    def __init__(self):
        super().__init__()
        self.a, self.b = np.float32(1.5), np.sqrt(2)

    def forward(self, x):
        y = (x * self.a + np.float32(0.25) * x) / self.b - np.int64(2) + (x * x) ** np.float32(1.5)
        y = torch.stack([torch.cat([y, -x], axis=1), torch.cat([x, y], axis=1)], axis=2).sum(axis=2)
        return y + y.mean(axis=(2, 3), keepdims=True) + torch.amax(y, axis=1, keepdims=True)


class LikeAnother(nn.Module):
    """A constant with the type or the shape of a value is a constant still: any function of it may be taken."""

    def forward(self, x):
        x = x + torch.sin(torch.arange(x.shape[-1]).to(x))
        x = x + torch.cos(torch.linspace(0, 1, x.shape[-2]).type_as(x))[:, None]
        return x * torch.sin(torch.ones(3).view(1, 3, 1, 1).expand_as(x))


class Nested(nn.Module):
    def forward(self, x):
        return {"features": [x * 2, x + 1], "inner": {"c": x * x}, "image": x.tanh(), "nothing": None}, None


class Keeps(nn.Module):
    """A module that keeps a constant of its first run."""

    def __init__(self):
        super().__init__()
        self.weight, self.kernel, self.shift = nn.Parameter(torch.randn(4, 3, 3, 3)), None, None

    def forward(self, x):
        if self.kernel is None:
            self.kernel = self.weight / self.weight.flatten(1).norm(dim=1)[:, None, None, None]
            self.shift = torch.linspace(0, 1, 3).view(1, 3, 1, 1)
        return F.conv2d(x * torch.ones(1, 3, 1, 1).mul(0.5) + self.shift, self.kernel)


class DataInPlace(nn.Module):
    """`data` shares its memory with a value, and a change there is one of the value."""

    def forward(self, x):
        y = x * 2
        y.data.clamp_(0, 1)
        return y + x


class ShapesInPlace(nn.Module):
    def forward(self, x):
        y = x * 2
        y.unsqueeze_(1)
        z = y * 3
        y.squeeze_(1)
        return y.transpose_(2, 3) * 2 + z[:, 0].transpose(-1, -2)


class Inference(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    @torch.inference_mode()
    def forward(self, x):
        return F.relu(self.conv(x)).mul_(2).mean((2, 3))


class Parts(nn.Module):
    """Layers that want a GPU, and of two inputs; one input is not given."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.both = nn.Conv2d(3, 4, 3), nn.SyncBatchNorm(4), nn.Bilinear(4, 5, 6)

    def forward(self, x, mask=None, *, style=None):
        x = x if mask is None else x * mask
        return self.both(self.norm(self.conv(x)).mean((2, 3)), style)


class Wavelet(nn.Module):
    """The inverse of Haar's transform, which fills zeros with every second element."""

    def forward(self, x):
        b, c, h, w = x.size()
        x1, x2, x3, x4 = (x[:, i * c // 4:(i + 1) * c // 4] / 2 for i in range(4))
        out = torch.zeros([b, c // 4, h * 2, w * 2])
        out[:, :, 0::2, 0::2] = x1 - x2 - x3 + x4
        out[:, :, 1::2, 0::2] = x1 - x2 + x3 - x4
        out[:, :, 0::2, 1::2] = x1 + x2 - x3 - x4
        out[:, :, 1::2, 1::2] = x1 + x2 + x3 + x4
        return out


class Assigns(nn.Module):
    def forward(self, x):
        y, out = x * 2, torch.zeros_like(x)
        y[:, 0] = 0.5
        y[:, 1:, ::2] *= x[:, :1, ::2]
        y[..., -1] -= y[..., 0]
        y[:, -1, 1:3] = x[:, 0, 1:3] * x[0, 0, 0]
        out[:, :1, :, :-1] = x[:, :1, :, 1:]
        out[:, 1:2, :, 1:] = y[:, 1:2, :, :-1]
        z = torch.ones(2, 3, 5, 5)
        z[:, 1:, ::2, 1] = y[:, 1:, ::2, 1]
        z[0] = z[1] * 2
        return y * 3, z, out


CASES = {OneHot: ["z=2,4", "labels=2,1:i64"], Types: ["x=2,4,3,3"], Dataclass: ["x=1,2,3,4"],
         Numbers: ["x=2,3,4,4"], LikeAnother: ["x=2,3,4,5"], Nested: ["x=2,3,4,4"], Keeps: ["x=1,3,5,5"],
         DataInPlace: ["x=2,3"], ShapesInPlace: ["x=2,3,4,5"], Inference: ["x=2,3,6,6"],
         Wavelet: ["x=2,8,3,4"], Assigns: ["x=2,3,5,5"], Parts: ["x=2,3,5,5", "style=2,5"]}


class IndexMath(nn.Module):
    def forward(self, labels):
        return F.embedding(labels + 1, torch.ones(9, 2))


class IndexSlice(nn.Module):
    def forward(self, labels):
        return F.embedding(labels[:1], torch.ones(9, 2))


def late():
    """Layers that know their sizes from the first run on."""
    return nn.Sequential(nn.LazyConv2d(4, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(5))


class State(nn.Module):
    def __init__(self):
        super().__init__()
        self.state = torch.zeros(1)

    def forward(self, x):
        self.state = torch.tanh(x + self.state.mean())
        return self.state


class Counts(nn.Module):
    count = 0

    def forward(self, x):
        self.count += 1
        return x * self.count


class ByMask(nn.Module):
    def forward(self, x):
        y = x + 1
        y[y > 0] = 0
        return y


class EarlierView(nn.Module):
    """The view sees what is assigned later."""

    def forward(self, x):
        y = x + 1
        row = y[:, 0]
        y[:, 0] = 5
        return y + row[:, None]


class ThroughView(nn.Module):
    def forward(self, x):
        y = x + 1
        y[0][1] = 5
        return y * 2


class AddsThroughView(nn.Module):
    def forward(self, x):
        y = x + 1
        y[:, 1:].add_(1)
        return y


class ThroughPlainView(nn.Module):
    def forward(self, x):
        y = torch.zeros(1, 3, 4, 4)
        y[0][1] = x[0, 1]
        return y * x


REFUSED = {
    ByMask: (1, "by another index than numbers and slices", "exported_idioms.py line"),
    EarlierView: (1, "wrote into its memory", "exported_idioms.py line"),
    ThroughView: (1, "wrote into its memory", "exported_idioms.py line"),
    AddsThroughView: (1, "a value after the module (AddsThroughView, exported_idioms.py line", "wrote into its memory"),
    ThroughPlainView: (1, "a value that follows from an input is read as a constant"),
    State: (1, "the module has kept from the run before", "exported_idioms.py line"),
    Counts: (1, "the output of a second run is another one"),
    IndexMath: (1, "labels=3:i64", "torch.add of an input of indices", "exported_idioms.py line"),
    IndexSlice: (1, "labels=3:i64", "torch.__getitem__ of an input of indices", "exported_idioms.py line"),
}


def main():
    unfurl, here = sys.argv[1], os.path.abspath(__file__)
    export = exported.exporter_of(sys.argv[2])
    warnings.simplefilter("ignore")  # PyTorch's about lazy modules
    with tempfile.TemporaryDirectory() as folder:
        exported.check_cases(export, unfurl, here, CASES, REFUSED, folder, sys.argv[3:])
        model, reference, weights = (f"{folder}/{name}" for name in ("model.h5", "reference.h5", "weights.pth"))
        module = late()
        module(torch.randn(1, 3, 5, 5))
        torch.save(module.state_dict(), weights)
        for path in ("-", weights):
            words = [f"{here}:late", path, model, "--input", "input=2,3,5,5", "--reference", reference]
            status, _, err = export(*words)
            exported.demand(status == 0, words, err)
            status, out, err = exported.run(unfurl, "run", model, "--check", reference)
            exported.demand(status == 0, words, out, err)
        with h5py.File(model) as file:
            exported.demand((file["weights/3.bias"][()] == module[3].bias.detach().numpy()).all(), "another bias")


if __name__ == "__main__":
    main()
