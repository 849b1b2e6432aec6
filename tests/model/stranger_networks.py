#!/usr/bin/python3
"""stranger_networks.py UNFURL EXPORTER COMPILE... -- [NETWORK...]: modules in many hands, through the exporter.

Each is written in another way, with what Python has beside torch. Some come again as graphs of torch.ops.aten, as
torch.export makes them. All are checked as those of known_networks.py.
"""
import functools
import math
import sys
from collections import OrderedDict
from typing import Dict, List, Optional

sys.dont_write_bytecode = True
import known_networks  # ends with 77 where PyTorch is not there
import numpy as np
import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F
from torch.nn.utils import spectral_norm, weight_norm


class SqueezeExcite(nn.Module):

    def __init__(self, c, r=4):
        super().__init__()
        self.squeeze = nn.AdaptiveAvgPool2d((1, 1))
        self.excite = nn.Sequential(nn.Linear(c, c // r, bias=False), nn.ReLU(inplace=True),
                                    nn.Linear(c // r, c, bias=False), nn.Sigmoid())

    def forward(self, x):
        bs, c, *_ = x.shape
        y = self.squeeze(x).view(bs, c)
        y = self.excite(y).view(bs, c, 1, 1)
        return x * y.expand_as(x)


class Separable(nn.Sequential):

    def __init__(self, i, o, k=5, se=True):
        super().__init__(OrderedDict([
            ("dw", nn.Conv2d(i, i, k, padding=k // 2, groups=i, bias=False)), ("bn1", nn.BatchNorm2d(i)),
            ("act1", nn.Hardswish(inplace=True)), ("se", SqueezeExcite(i) if se else nn.Identity()),
            ("pw", nn.Conv2d(i, o, 1, bias=False)), ("bn2", nn.BatchNorm2d(o)), ("act2", nn.ReLU6(inplace=True))]))


class SeparableDecoder(nn.Module):
    """Lists of lists of modules that forward unpacks, and in-place arithmetic at the end."""

    def __init__(self, width_mult=0.5, chans=(32, 24, 16)):
        super().__init__()
        c = [int(x * width_mult) for x in chans]
        self.fc, self.c0 = nn.Linear(10, c[0] * 4 * 3), c[0]
        self.stages = nn.ModuleList()
        for i, o in zip(c, c[1:]):
            self.stages.append(nn.ModuleList([nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False),
                                              Separable(i, o), Separable(o, o, 3, False)]))
        self.head = nn.ConvTranspose2d(c[-1], 3, 2, 2)
        for m in self.modules():
            if isinstance(m, nn.BatchNorm2d):
                nn.init.uniform_(m.weight, 0.5, 1.5)
                nn.init.normal_(m.bias, 0, 0.1)
                m.running_mean.normal_(0, 0.1)
                m.running_var.uniform_(0.5, 2)

    def forward(self, z):
        x = self.fc(z).view(z.size(0), self.c0, 4, 3)
        for up, *blocks in self.stages:
            x = up(x)
            for b in blocks:
                x = b(x)
        return self.head(x).clamp_(-1, 1).add_(1).div_(2)


class WaveNet(nn.Module):
    """Gated, dilated convolutions of a line under the condition of a spectrogram."""

    def __init__(self, mel=8, c=8, layers=4):
        super().__init__()
        self.up = nn.ModuleList([weight_norm(nn.ConvTranspose1d(mel, mel, 8, 4, 2)),
                                 weight_norm(nn.ConvTranspose1d(mel, mel, 4, 2, 1, groups=mel))])
        self.front, self.c = nn.Conv1d(1, c, 1), c
        self.filt, self.cond, self.res, self.skip = (nn.ModuleList() for _ in range(4))
        for i in range(layers):
            self.filt.append(weight_norm(nn.Conv1d(c, 2 * c, 3, dilation=2 ** i)))
            self.cond.append(nn.Conv1d(mel, 2 * c, 1, bias=False))
            self.res.append(nn.Conv1d(c, c, 1))
            self.skip.append(nn.Conv1d(c, c, 1))
        self.out = nn.Sequential(nn.ReLU(), nn.Conv1d(c, c, 1), nn.ReLU(), nn.Conv1d(c, 1, 1), nn.Tanh())

    def forward(self, x, mel):
        for up in self.up:
            mel = F.leaky_relu(up(mel), 0.4)
        h, total = self.front(x), 0
        for i, (f, c, r, s) in enumerate(zip(self.filt, self.cond, self.res, self.skip)):
            y = f(F.pad(h, (2 * 2 ** i, 0))) + c(mel)
            a, b = torch.split(y, self.c, 1)
            y = torch.tanh(a) * torch.sigmoid(b)
            total = total + s(y)
            h = (h + r(y)) * math.sqrt(0.5)
        return self.out(total).squeeze(1)


class Dual(nn.Module):
    """Two branches by split, chosen by a softmax over a stack of them."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 12, 3, padding=1)
        self.local = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect"), nn.SiLU())
        self.glob = nn.Sequential(nn.AvgPool2d(2), nn.Conv2d(8, 8, 1), nn.LeakyReLU(0.1, True))
        self.select = nn.Conv2d(4, 8, 1)
        self.tail = nn.Conv2d(4, 3, 1)

    def forward(self, x):
        x = self.stem(x)
        a, b = torch.split(x, [4, 8], dim=1)
        a = self.local(a)
        b = F.interpolate(self.glob(b), size=a.shape[-2:], mode="nearest")
        b1, b2 = b.chunk(2, dim=1)
        stack = torch.stack((b1, b2), dim=1)
        s = F.adaptive_avg_pool2d(a, 1)
        s = self.select(s).reshape(x.shape[0], 2, -1, 1, 1).softmax(dim=1)
        out = (stack * s).sum(dim=1) + a
        return self.tail(torch.stack([out, a]).mean(0))


class LayerNorm2d(nn.LayerNorm):

    def forward(self, x):
        x = F.layer_norm(x.permute(0, 2, 3, 1), self.normalized_shape, self.weight, self.bias, self.eps)
        return x.permute(0, 3, 1, 2)


class ChannelsFirstLN(nn.Module):

    def __init__(self, c, eps=1e-6):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.rand(c) + 0.5), nn.Parameter(torch.randn(c) * 0.1)
        self.eps = eps

    def forward(self, x):
        u = x.mean(1, keepdim=True)
        s = (x - u).pow(2).mean(1, keepdim=True)
        x = (x - u) / torch.sqrt(s + self.eps)
        return self.weight[:, None, None] * x + self.bias[:, None, None]


class ConvNeXtDecoder(nn.Module):

    def __init__(self, dims=(16, 8), depth=2):
        super().__init__()
        self.proj = nn.Conv2d(4, dims[0], 1)
        self.blocks, self.ups = nn.ModuleList(), nn.ModuleList()
        for i, d in enumerate(dims):
            for _ in range(depth):
                self.blocks.append(nn.ModuleDict(dict(
                    dw=nn.Conv2d(d, d, 7, padding=3, groups=d), ln=nn.LayerNorm(d, eps=1e-6), p1=nn.Linear(d, 4 * d),
                    act=nn.GELU(), p2=nn.Linear(4 * d, d), drop=nn.Dropout(0.1))))
                self.register_parameter(f"gamma{len(self.blocks) - 1}", nn.Parameter(0.5 * torch.ones(d)))
            if i + 1 < len(dims):
                self.ups.append(nn.Sequential(ChannelsFirstLN(d), nn.ConvTranspose2d(d, dims[i + 1], 2, stride=2)))
        self.depth, self.norm, self.head = depth, LayerNorm2d(dims[-1]), nn.Conv2d(dims[-1], 3 * 4, 3, padding=1)
        self.shuffle = nn.PixelShuffle(2)

    def forward(self, x):
        x = self.proj(x)
        for i, b in enumerate(self.blocks):
            if i and i % self.depth == 0:
                x = self.ups[i // self.depth - 1](x)
            skip = x
            y = b["dw"](x).permute(0, 2, 3, 1)
            y = b["drop"](b["p2"](b["act"](b["p1"](b["ln"](y)))))
            y = getattr(self, f"gamma{i}") * y
            x = skip + y.permute(0, 3, 1, 2)
        return self.shuffle(self.head(self.norm(x)))


class LinearAttention(nn.Module):
    """Einsum of names with spaces, map and partial, and rows of keys that are parameters."""

    def __init__(self, dim=8, heads=2, dim_head=6, mem=3):
        super().__init__()
        self.scale, self.heads = dim_head ** -0.5, heads
        h = heads * dim_head
        self.mem_kv = nn.Parameter(torch.randn(2, heads, dim_head, mem))
        self.to_qkv = nn.Conv2d(dim, h * 3, 1, bias=False)
        self.to_out = nn.Sequential(nn.Conv2d(h, dim, 1), nn.GroupNorm(1, dim))

    def forward(self, x):
        b, c, h, w = x.shape
        qkv = self.to_qkv(x).chunk(3, dim=1)
        q, k, v = map(lambda t: t.reshape(b, self.heads, -1, h * w), qkv)
        mk, mv = map(lambda t: t.unsqueeze(0).repeat(b, 1, 1, 1), self.mem_kv)
        k, v = map(functools.partial(torch.cat, dim=-1), ((mk, k), (mv, v)))
        q = q.softmax(dim=-2) * self.scale
        k = k.softmax(dim=-1)
        context = torch.einsum("b h d n, b h e n -> b h d e", k, v)
        out = torch.einsum("b h d e, b h d n -> b h e n", context, q)
        return self.to_out(out.reshape(b, -1, h, w)) + x


class Configurable(nn.Module):
    """A configuration decides, None stands in a list of modules, and an input is not given."""

    __constants__ = ["use_bn", "residual"]

    def __init__(self, cfg: Optional[Dict[str, object]] = None):
        super().__init__()
        cfg = {"use_bn": True, "residual": "add", "act": "lrelu", "n": 3, **(cfg or {})}
        self.cfg = cfg
        self.conv = nn.ModuleList([nn.Conv2d(6, 6, 3, padding="same", dilation=d + 1) for d in range(cfg["n"])])
        self.bn = nn.ModuleList([nn.BatchNorm2d(6) if cfg["use_bn"] and i % 2 == 0 else None
                                 for i in range(cfg["n"])])
        self.act = dict(lrelu=nn.LeakyReLU(0.2), relu=nn.ReLU())[cfg["act"]]
        self.inp, self.outp = nn.Conv2d(3, 6, 1), nn.Conv2d(6, 3, 1)

    def forward(self, x: Tensor, mask: Optional[Tensor] = None, return_features: bool = False):
        feats: List[Tensor] = []
        h = self.inp(x)
        for i, conv in enumerate(self.conv):
            y = conv(h)
            if self.bn[i] is not None:
                y = self.bn[i](y)
            y = self.act(y)
            if self.cfg["residual"] == "add":
                h = h + y
            elif self.cfg["residual"] == "cat":
                h = torch.cat((h, y), 1)
            feats.append(h)
        if mask is not None:
            h = h * mask
        out = self.outp(h)
        if self.training or return_features:
            return out, feats
        return out


class Tied(nn.Module):
    """One weight in an encoder and in a decoder, one layer thrice, one parameter in two layers."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(6, 3, 4, 4) * 0.2)
        self.b = nn.Parameter(torch.randn(3) * 0.1)
        self.rec = nn.Conv2d(6, 6, 3, padding=1)
        self.lin = nn.Linear(6, 6, bias=False)
        self.lin2 = nn.Linear(6, 6)
        self.lin2.weight = self.lin.weight

    def forward(self, x):
        h = F.conv2d(x, self.w, stride=2, padding=1)
        for _ in range(3):
            h = h + F.relu(self.rec(h))
        g = self.lin2(F.relu(self.lin(h.mean(dim=[-1, -2]))))
        h = h * g[..., None, None].sigmoid()
        return torch.tanh(F.conv_transpose2d(h, self.w, self.b, stride=2, padding=1))


class NoiseInputs(nn.Module):
    """Noise that is concatenated, styles, a truncation by a buffer, and constants of NumPy's."""

    def __init__(self, nz=6, steps=3):
        super().__init__()
        self.register_buffer("w_avg", torch.randn(12) * 0.3)
        self.register_buffer("freq", torch.tensor([2.0 ** i for i in range(3)]) * np.pi)
        self.map = nn.Sequential(*[m for i in range(steps) for m in (nn.Linear(12 if i else nz, 12), nn.LeakyReLU(0.2))])
        self.start = nn.Parameter(torch.randn(1, 8, 4, 4))
        self.style = nn.ModuleList([nn.Linear(12, 9 * 2), nn.Linear(12, 9 * 2)])
        self.convs = nn.ModuleList([nn.Conv2d(9, 8, 3, 1, 1), nn.Conv2d(9, 8, 3, 1, 1)])
        self.rgb, self.pos = nn.Conv2d(8, 3, 1), nn.Linear(3 * 2, 12)

    def forward(self, z, noise0, noise1, t, psi: float = 0.7):
        w = self.map(F.normalize(z, dim=1) * math.sqrt(z.shape[1]))
        w = self.w_avg.lerp(w, psi)
        e = t[:, None] * self.freq[None, :]
        w = w + self.pos(torch.cat([e, e ** 2], -1))
        x = self.start.expand(z.shape[0], -1, -1, -1)
        for i, noise in enumerate((noise0, noise1)):
            if i:
                x = F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=True)
            x = torch.cat([x, noise], dim=1)
            scale, shift = self.style[i](w).view(-1, 2, 9, 1, 1).unbind(1)
            x = F.instance_norm(x, eps=1e-4) * (1 + scale) + shift
            x = self.convs[i](F.leaky_relu(x, 0.2, inplace=True))
        return {"image": torch.sigmoid(self.rgb(x)), "w": w}


class PaddedUNet(nn.Module):
    """A picture is padded to a multiple, and its result cut."""

    def __init__(self, c=4):
        super().__init__()

        def double(i, o):
            return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.InstanceNorm2d(o, affine=True), nn.PReLU(o),
                                 nn.Conv2d(o, o, 3, padding=1), nn.ELU(inplace=True))
        self.d1, self.d2, self.mid = double(3, c), double(c, 2 * c), double(2 * c, 4 * c)
        self.u2, self.u1 = nn.ConvTranspose2d(4 * c, 2 * c, 3, 2, 1, 1), nn.ConvTranspose2d(2 * c, c, 2, 2)
        self.e2, self.e1 = double(4 * c, 2 * c), double(2 * c, c)
        self.out = nn.Conv2d(c, 1, 1)

    def check_image_size(self, x, m=4):
        _, _, h, w = x.size()
        ph, pw = (m - h % m) % m, (m - w % m) % m
        return F.pad(x, (0, pw, 0, ph), "reflect")

    def forward(self, img):
        h0, w0 = img.shape[2:]
        x = self.check_image_size(img)
        s1 = self.d1(x)
        s2 = self.d2(F.max_pool2d(s1, 2))
        m = self.mid(F.max_pool2d(s2, kernel_size=2, stride=2))
        y = self.e2(torch.cat([s2, self.u2(m)], dim=1))
        up = self.u1(y)
        dy, dx = s1.size()[2] - up.size()[2], s1.size()[3] - up.size()[3]
        up = F.pad(up, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        y = self.e1(torch.cat((s1, up), 1))
        return self.out(y)[:, :, :h0, :w0]


class MaskedDecoder(nn.Module):
    """PyTorch's own transformer layers, tokens that are parameters, and patches that become an image."""

    def __init__(self, n=16, dim=12, p=2):
        super().__init__()
        self.embed = nn.Linear(8, dim)
        self.mask_token = nn.Parameter(torch.randn(1, 1, dim) * 0.1)
        self.cls = nn.Parameter(torch.randn(1, 1, dim))
        self.pos = nn.Parameter(torch.randn(1, n + 1, dim) * 0.1, requires_grad=False)
        self.blocks = nn.ModuleList([nn.TransformerEncoderLayer(dim, 3, 24, 0.1, "gelu", batch_first=True, norm_first=i == 0)
                                     for i in range(2)])
        self.norm, self.pred, self.p = nn.LayerNorm(dim), nn.Linear(dim, p * p * 3), p

    def unpatchify(self, x):
        p = self.p
        h = w = int(x.shape[1] ** 0.5)
        assert h * w == x.shape[1]
        x = x.reshape(shape=(x.shape[0], h, w, p, p, 3))
        x = torch.einsum("nhwpqc->nchpwq", x)
        return x.reshape(shape=(x.shape[0], 3, h * p, h * p))

    def forward(self, latent):
        x = self.embed(latent)
        mask = self.mask_token.repeat(x.shape[0], self.pos.shape[1] - 1 - x.shape[1], 1)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x, mask], dim=1) + self.pos
        for blk in self.blocks:
            x = blk(x)
        return self.unpatchify(self.pred(self.norm(x))[:, 1:, :])


class CodeDecoder(nn.Module):
    """Indices of a table, and a picture of bytes made of what was normalised."""

    def __init__(self):
        super().__init__()
        self.quantize = nn.Embedding(20, 6)
        self.post = nn.Conv2d(6, 8, 1)
        self.up = nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(8, 8, 3, padding=1), nn.GroupNorm(4, 8, eps=1e-6),
                                nn.SiLU(), nn.ConvTranspose2d(8, 3, 4, 2, 1))
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1), persistent=False)

    def forward(self, codes):
        b, h, w = codes.shape
        z = self.quantize(codes.reshape(b, -1)).permute(0, 2, 1).contiguous().view(b, 6, h, w)
        x = self.up(self.post(z))
        return ((x * self.std + self.mean) * 255).clamp(0, 255) / 255.0


class FilteredVocoder(nn.Module):
    """A window as a filter of each channel, up and down, and an activation with a parameter."""

    def __init__(self, c=6):
        super().__init__()
        self.alpha = nn.Parameter(torch.zeros(c))
        k = torch.kaiser_window(12, beta=2.0, periodic=False)
        self.register_buffer("filt", (k / k.sum()).view(1, 1, 12))
        self.pre, self.post = nn.Conv1d(5, c, 7, padding=3), weight_norm(nn.Conv1d(c, 1, 7, padding=3))
        self.gru_like = nn.Conv1d(c, 2 * c, 1)

    def up(self, x):
        C = x.shape[1]
        x = F.pad(x, (5, 5), mode="replicate")
        x = 2 * F.conv_transpose1d(x, self.filt.expand(C, -1, -1), stride=2, groups=C)
        return x[..., 15:-15]

    def down(self, x):
        C = x.shape[1]
        x = F.pad(x, (5, 6), mode="replicate")
        return F.conv1d(x, self.filt.expand(C, -1, -1), stride=2, groups=C)

    def forward(self, mel):
        x = self.up(self.pre(mel))
        a = torch.exp(self.alpha)[None, :, None]
        x = x + (1.0 / (a + 1e-9)) * torch.tanh(x * a).pow(2)
        return self.post(F.glu(self.gru_like(self.down(x)), 1)).tanh()


class BatchDeviation(nn.Module):
    """A discriminator's deviation over groups of the batch."""

    def __init__(self):
        super().__init__()
        self.c = spectral_norm(nn.Conv2d(4, 4, 3, 2, 1))
        self.l = spectral_norm(nn.Linear(4 * 4, 1))

    def forward(self, x):
        N, C, H, W = x.shape
        G = min(2, N)
        y = x.reshape(G, -1, 1, C, H, W)
        y = y - y.mean(dim=0)
        y = y.square().mean(dim=0)
        y = (y + 1e-8).sqrt().mean(dim=[2, 3, 4]).reshape(-1, 1, 1, 1).repeat(G, 1, H, W)
        x = torch.cat([x, y], dim=1)
        x = self.c(x)
        return self.l(x.flatten(1))


class Pythonic(nn.Module):
    """Properties, reduce, generators, a table of tensors, and an argument by its name alone."""

    def __init__(self, n=3):
        super().__init__()
        for i in range(n):
            setattr(self, f"conv_{i}", nn.Conv2d(4, 4, 3, padding=1))
        self.n = n
        self.scale = 1 / math.sqrt(2)
        self.relu = F.relu
        self.table = {k: torch.full((1, 4, 1, 1), float(k)) for k in range(3)}

    @property
    def convs(self):
        return [getattr(self, f"conv_{i}") for i in range(self.n)]

    def forward(self, x, *, alpha=0.5):
        outs = [self.relu(c(x)) for c in self.convs]
        y = functools.reduce(torch.add, outs) * self.scale
        y = sum(w * o for w, o in zip((0.1, 0.2, 0.3), outs)) + y
        y += self.table[2]
        y = y if (k := y.ndim) == 4 else y[None]
        first, *rest = outs
        y = torch.where(torch.arange(4).view(1, 4, 1, 1) < 2, y, first) * alpha
        return torch.cat((y, *rest), dim=1).unflatten(1, (3, 4)).amax(1)


class Hyper(nn.Module):
    """Weights that an input makes, one set for each row of the batch, through groups."""

    def __init__(self):
        super().__init__()
        self.h = nn.Linear(5, 4 * 3 * 9)
        self.b = nn.Linear(5, 4)

    def forward(self, x, s):
        b, c, hh, ww = x.shape
        w = self.h(s).view(b * 4, 3, 3, 3)
        w = w * torch.rsqrt(w.view(b, 4, -1).pow(2).sum(-1).view(b * 4, 1, 1, 1) + 1e-8)
        y = F.conv2d(x.reshape(1, b * c, hh, ww), w, self.b(s).flatten(), padding=1, groups=b)
        return y.view(b, 4, *y.shape[2:])


class Unfolds(nn.Module):
    """A perceptron on the patches of a picture."""

    def __init__(self):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(27, 16), nn.Tanh(), nn.Linear(16, 12))

    def forward(self, x):
        b, c, h, w = x.shape
        p = F.unfold(x, 3, padding=1).transpose(1, 2)
        y = self.mlp(p).transpose(1, 2).reshape(b, 3, 2, 2, h, w)
        y = y.permute(0, 1, 4, 2, 5, 3).reshape(b, 3, 2 * h, 2 * w)
        up_mask = torch.softmax(self.mlp(p).reshape(b, h, w, 3, 4), -1).mean((-1, -2))
        return y * F.interpolate(up_mask[:, None], scale_factor=2)


def graph_of(network, name, shape):
    """A maker of the network's graph of torch.ops.aten, with its input's name."""
    def make():
        with torch.no_grad():
            return make_fx(network().eval())(known_networks.example(shape))
    make.__name__ = "graph_of_" + network.__name__
    return make, {name + "_1": shape}


NETWORKS = {
    SeparableDecoder: {"z": (2, 10)},
    WaveNet: {"x": (2, 1, 48), "mel": (2, 8, 6)},
    Dual: {"x": (2, 3, 8, 6)},
    ConvNeXtDecoder: {"x": (2, 4, 4, 5)},
    LinearAttention: {"x": (2, 8, 4, 5)},
    Configurable: {"x": (2, 3, 7, 9)},
    Tied: {"x": (2, 3, 8, 8)},
    NoiseInputs: {"z": (2, 6), "noise0": (2, 1, 4, 4), "noise1": (2, 1, 8, 8), "t": (2,)},
    PaddedUNet: {"img": (1, 3, 13, 10)},
    MaskedDecoder: {"latent": (2, 5, 8)},
    CodeDecoder: {"codes": [20, 2, 3, 4]},
    FilteredVocoder: {"mel": (2, 5, 9)},
    BatchDeviation: {"x": (4, 3, 4, 4)},
    Pythonic: {"x": (2, 4, 5, 6)},
    Hyper: {"x": (2, 3, 5, 6), "s": (2, 5)},
    Unfolds: {"x": (2, 3, 5, 4)},
    **dict([graph_of(ConvNeXtDecoder, "x", (2, 4, 4, 5)), graph_of(LinearAttention, "x", (2, 8, 4, 5)),
            graph_of(CodeDecoder, "codes", [20, 2, 3, 4]), graph_of(known_networks.Restormer, "x", (1, 3, 8, 6))]),
}
# Extents that the file has to let vary.
VARY = {SeparableDecoder: "z f32 (N=2,", ConvNeXtDecoder: "x f32 (N=2, 4, H=4, W=5)", Tied: "x f32 (N=2, 3, H=8, W=8)",
        Configurable: "x f32 (N=2, 3, H=7, W=9)", FilteredVocoder: "mel f32 (N=2, 5, L=9)"}

if __name__ == "__main__":
    known_networks.main(NETWORKS, VARY)
