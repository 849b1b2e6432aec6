#!/usr/bin/python3
"""exported_idioms.py UNFURL EXPORTER: how people write what a condition, a type or a result is, through the exporter.

Exit status 77: PyTorch or h5py is not installed.
"""
import dataclasses
import os
import sys
import tempfile

sys.dont_write_bytecode = True
import exported  # ends with 77 where PyTorch is not there
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


CASES = {OneHot: ["z=2,4", "labels=2,1:i64"], Types: ["x=2,4,3,3"], Dataclass: ["x=1,2,3,4"]}


class IndexMath(nn.Module):
    def forward(self, labels):
        return F.embedding(labels + 1, torch.ones(9, 2))


class IndexSlice(nn.Module):
    def forward(self, labels):
        return F.embedding(labels[:1], torch.ones(9, 2))


REFUSED = {
    IndexMath: (1, "labels=3:i64", "torch.add of an input of indices", "exported_idioms.py line"),
    IndexSlice: (1, "labels=3:i64", "torch.__getitem__ of an input of indices", "exported_idioms.py line"),
}


def main():
    with tempfile.TemporaryDirectory() as folder:
        exported.check_cases(exported.exporter_of(sys.argv[2]), sys.argv[1], os.path.abspath(__file__), CASES, REFUSED, folder,
                             sys.argv[3:])


if __name__ == "__main__":
    main()
