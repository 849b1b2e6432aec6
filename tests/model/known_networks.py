#!/usr/bin/python3
"""known_networks.py UNFURL EXPORTER COMPILE... -- [NETWORK...]: networks as their authors write them, made small.

They are not written for the exporter: noise buffers and AdaIN, weights that a style modulates, attention of many kinds,
windows that are shifted, conditional batch norm, an autograd function, weight norm, in-place sums. Each is exported,
checked value by value, and its C program gives the same bits. Exit status 77: PyTorch or h5py is not installed.
"""
import functools
import math
import re
import sys
import tempfile

sys.dont_write_bytecode = True
import zoo_models  # ends with 77 where PyTorch is not there
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import spectral_norm, weight_norm


class Swish(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(x)


class TimeEmbedding(nn.Module):
    def __init__(self, T, d_model, dim):
        super().__init__()
        emb = torch.arange(0, d_model, step=2) / d_model * math.log(10000)
        emb = torch.exp(-emb)
        pos = torch.arange(T).float()
        emb = pos[:, None] * emb[None, :]
        emb = torch.stack([torch.sin(emb), torch.cos(emb)], dim=-1).view(T, d_model)
        self.timembedding = nn.Sequential(nn.Embedding.from_pretrained(emb), nn.Linear(d_model, dim), Swish(),
                                          nn.Linear(dim, dim))

    def forward(self, t):
        return self.timembedding(t)


class AttnBlock(nn.Module):
    def __init__(self, in_ch):
        super().__init__()
        self.group_norm = nn.GroupNorm(4, in_ch)
        self.proj_q, self.proj_k, self.proj_v, self.proj = (nn.Conv2d(in_ch, in_ch, 1) for _ in range(4))

    def forward(self, x):
        B, C, H, W = x.shape
        h = self.group_norm(x)
        q, k, v = (self.proj_q(h), self.proj_k(h), self.proj_v(h))
        q = q.permute(0, 2, 3, 1).view(B, H * W, C)
        k = k.view(B, C, H * W)
        w = torch.bmm(q, k) * int(C) ** (-0.5)
        assert list(w.shape) == [B, H * W, H * W]
        w = F.softmax(w, dim=-1)
        v = v.permute(0, 2, 3, 1).view(B, H * W, C)
        h = torch.bmm(w, v)
        h = h.view(B, H, W, C).permute(0, 3, 1, 2)
        return x + self.proj(h)


class DDPMRes(nn.Module):
    def __init__(self, i, o, tdim, attn=False):
        super().__init__()
        self.block1 = nn.Sequential(nn.GroupNorm(4, i), Swish(), nn.Conv2d(i, o, 3, stride=1, padding=1))
        self.temb_proj = nn.Sequential(Swish(), nn.Linear(tdim, o))
        self.block2 = nn.Sequential(nn.GroupNorm(4, o), Swish(), nn.Dropout(0.1), nn.Conv2d(o, o, 3, stride=1,
                                                                                            padding=1))
        self.shortcut = nn.Conv2d(i, o, 1) if i != o else nn.Identity()
        self.attn = AttnBlock(o) if attn else nn.Identity()

    def forward(self, x, temb):
        h = self.block1(x)
        h += self.temb_proj(temb)[:, :, None, None]
        h = self.block2(h)
        h = h + self.shortcut(x)
        return self.attn(h)


class DDPM(nn.Module):
    def __init__(self, ch=8):
        super().__init__()
        self.time_embedding = TimeEmbedding(50, ch, ch * 4)
        self.head = nn.Conv2d(3, ch, 3, padding=1)
        self.downblocks = nn.ModuleList([DDPMRes(ch, ch, ch * 4), nn.Conv2d(ch, ch, 3, stride=2, padding=1),
                                         DDPMRes(ch, 2 * ch, ch * 4, True)])
        self.mid = DDPMRes(2 * ch, 2 * ch, 4 * ch, True)
        self.upblocks = nn.ModuleList([DDPMRes(4 * ch, ch, ch * 4), DDPMRes(2 * ch, ch, ch * 4)])
        self.up = nn.Conv2d(ch, ch, 3, padding=1)
        self.tail = nn.Sequential(nn.GroupNorm(4, ch), Swish(), nn.Conv2d(ch, 3, 3, padding=1))

    def forward(self, x, t):
        temb = self.time_embedding(t)
        h = self.head(x)
        hs = [h]
        h = self.downblocks[0](h, temb)
        hs.append(h)
        h = self.downblocks[1](h)
        h = self.downblocks[2](h, temb)
        hs.append(h)
        h = self.mid(h, temb)
        h = self.upblocks[0](torch.cat([h, hs.pop()], dim=1), temb)
        _, _, H, W = h.shape
        h = self.up(F.interpolate(h, scale_factor=2, mode="nearest"))
        h = self.upblocks[1](torch.cat([h, hs.pop()], dim=1), temb)
        return self.tail(h)


class PixelNorm(nn.Module):
    def forward(self, x):
        return x * torch.rsqrt(torch.mean(x ** 2, dim=1, keepdim=True) + 1e-08)


class EqualLinear(nn.Module):
    def __init__(self, i, o, lr_mul=0.01, bias_init=0.0):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(o, i).div_(lr_mul))
        self.bias = nn.Parameter(torch.zeros(o).fill_(bias_init))
        self.scale, self.lr_mul = (1 / math.sqrt(i) * lr_mul, lr_mul)

    def forward(self, x):
        return F.linear(x, self.weight * self.scale, bias=self.bias * self.lr_mul)


class Blur(nn.Module):
    def __init__(self, channel):
        super().__init__()
        weight = torch.tensor([[1, 2, 1], [2, 4, 2], [1, 2, 1]], dtype=torch.float32)
        weight = weight.view(1, 1, 3, 3) / weight.sum()
        self.register_buffer("weight", weight.repeat(channel, 1, 1, 1))

    def forward(self, x):
        return F.conv2d(x, self.weight, padding=1, groups=x.shape[1])


class NoiseInjection(nn.Module):
    def __init__(self, channel, size):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(1, channel, 1, 1) * 0.1)
        self.register_buffer("noise", torch.randn(1, 1, size, size))

    def forward(self, image, noise=None):
        if noise is None:
            noise = self.noise
        return image + self.weight * noise


class AdaIN(nn.Module):
    def __init__(self, c, style):
        super().__init__()
        self.norm = nn.InstanceNorm2d(c)
        self.style = EqualLinear(style, c * 2, 1.0)
        self.style.bias.data[:c] = 1
        self.style.bias.data[c:] = 0

    def forward(self, x, style):
        style = self.style(style).unsqueeze(2).unsqueeze(3)
        gamma, beta = style.chunk(2, 1)
        return gamma * self.norm(x) + beta


class StyleGAN1(nn.Module):
    def __init__(self, c=8, style=16):
        super().__init__()
        layers = [PixelNorm()]
        for _ in range(3):
            layers += [EqualLinear(style, style), nn.LeakyReLU(0.2)]
        self.mapping = nn.Sequential(*layers)
        self.register_buffer("w_avg", torch.randn(style) * 0.1)
        self.const = nn.Parameter(torch.randn(1, c, 4, 4))
        self.noise = nn.ModuleList([NoiseInjection(c, s) for s in (4, 8, 16)])
        self.adain = nn.ModuleList([AdaIN(c, style) for _ in range(3)])
        self.conv = nn.ModuleList([nn.Conv2d(c, c, 3, padding=1) for _ in range(2)])
        self.blur = Blur(c)
        self.lrelu = nn.LeakyReLU(0.2)
        self.to_rgb = nn.Conv2d(c, 3, 1)

    def forward(self, z, truncation=0.7):
        w = self.mapping(z)
        w = torch.lerp(self.w_avg, w, truncation)
        x = self.const.repeat(z.shape[0], 1, 1, 1)
        x = self.adain[0](self.lrelu(self.noise[0](x)), w)
        for i in range(2):
            x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
            x = self.blur(self.conv[i](x))
            x = self.adain[i + 1](self.lrelu(self.noise[i + 1](x)), w)
        return self.to_rgb(x)


class ModulatedConv2d(nn.Module):
    def __init__(self, i, o, k, style, demodulate=True, upsample=False):
        super().__init__()
        self.i, self.o, self.k, self.demodulate, self.upsample = (i, o, k, demodulate, upsample)
        self.scale = 1 / math.sqrt(i * k * k)
        self.padding = k // 2
        self.weight = nn.Parameter(torch.randn(1, o, i, k, k))
        self.modulation = EqualLinear(style, i, 1.0, 1.0)
        if upsample:
            self.blur = Blur(o)

    def forward(self, input, style):
        batch, in_channel, height, width = input.shape
        style = self.modulation(style).view(batch, 1, in_channel, 1, 1)
        weight = self.scale * self.weight * style
        if self.demodulate:
            demod = torch.rsqrt(weight.pow(2).sum([2, 3, 4]) + 1e-08)
            weight = weight * demod.view(batch, self.o, 1, 1, 1)
        weight = weight.view(batch * self.o, in_channel, self.k, self.k)
        if self.upsample:
            input = input.view(1, batch * in_channel, height, width)
            weight = weight.view(batch, self.o, in_channel, self.k, self.k)
            weight = weight.transpose(1, 2).reshape(batch * in_channel, self.o, self.k, self.k)
            out = F.conv_transpose2d(input, weight, padding=1, stride=2, output_padding=1, groups=batch)
            _, _, height, width = out.shape
            return self.blur(out.view(batch, self.o, height, width))
        input = input.view(1, batch * in_channel, height, width)
        out = F.conv2d(input, weight, padding=self.padding, groups=batch)
        _, _, height, width = out.shape
        return out.view(batch, self.o, height, width)


class StyleGAN2(nn.Module):
    def __init__(self, c=8, style=16):
        super().__init__()
        self.style = nn.Sequential(PixelNorm(), EqualLinear(style, style), nn.LeakyReLU(0.2))
        self.input = nn.Parameter(torch.randn(1, c, 4, 4))
        self.conv1, self.up, self.rgb = (ModulatedConv2d(c, c, 3, style), ModulatedConv2d(c, c, 3, style,
                                                                                          upsample=True),
                                         ModulatedConv2d(c, 3, 1, style, demodulate=False))
        self.bias = nn.Parameter(torch.zeros(1, 3, 1, 1))
        self.act = nn.Parameter(torch.randn(c) * 0.1)
        self.noises = nn.Module()
        self.noises.register_buffer("noise_0", torch.randn(1, 1, 8, 8))

    def fused(self, x):
        return F.leaky_relu(x + self.act.view((1, -1) + (1,) * (len(x.shape) - 2)), 0.2) * 2 ** 0.5

    def forward(self, styles):
        w = self.style(styles)
        out = self.input.repeat(w.shape[0], 1, 1, 1)
        out = self.fused(self.conv1(out, w))
        out = self.fused(self.up(out, w) + 0.1 * getattr(self.noises, "noise_0"))
        return self.rgb(out, w) + self.bias


class CCBN(nn.Module):
    def __init__(self, output_size, input_size, eps=1e-05):
        super().__init__()
        self.gain, self.bias = (spectral_norm(nn.Linear(input_size, output_size, bias=False)),
                                spectral_norm(nn.Linear(input_size, output_size, bias=False)))
        self.eps = eps
        self.register_buffer("stored_mean", torch.randn(output_size) * 0.1)
        self.register_buffer("stored_var", torch.rand(output_size) + 0.5)

    def forward(self, x, y):
        gain = (1 + self.gain(y)).view(y.size(0), -1, 1, 1)
        bias = self.bias(y).view(y.size(0), -1, 1, 1)
        out = F.batch_norm(x, self.stored_mean, self.stored_var, None, None, self.training, 0.1, self.eps)
        return out * gain + bias


class BigGANDeepBlock(nn.Module):
    def __init__(self, i, o, cond, upsample=None):
        super().__init__()
        self.i, self.o, self.hidden, self.upsample = (i, o, i // 4, upsample)
        c = lambda a, b, k: spectral_norm(nn.Conv2d(a, b, k, padding=k // 2))
        self.conv1, self.conv2, self.conv3, self.conv4 = (c(i, self.hidden, 1), c(self.hidden, self.hidden, 3),
                                                          c(self.hidden, self.hidden, 3), c(self.hidden, o, 1))
        self.bn1, self.bn2, self.bn3, self.bn4 = (CCBN(i, cond), CCBN(self.hidden, cond), CCBN(self.hidden, cond),
                                                  CCBN(self.hidden, cond))
        self.activation = nn.ReLU(inplace=False)

    def forward(self, x, y):
        h = self.conv1(self.activation(self.bn1(x, y)))
        h = self.activation(self.bn2(h, y))
        if self.i != self.o:
            x = x[:, :self.o]
        if self.upsample:
            h, x = (self.upsample(h), self.upsample(x))
        h = self.conv2(h)
        h = self.conv3(self.activation(self.bn3(h, y)))
        h = self.conv4(self.activation(self.bn4(h, y)))
        return h + x


class SAAttention(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.ch = ch
        self.theta, self.phi, self.g, self.o = (spectral_norm(nn.Conv2d(a, b, 1, bias=False)) for a, b in ((ch,
                                                                                                            ch // 8),
                                                                                                           (ch,
                                                                                                            ch // 8),
                                                                                                           (ch,
                                                                                                            ch // 2),
                                                                                                           (ch // 2,
                                                                                                            ch)))
        self.gamma = nn.Parameter(torch.tensor(0.7), requires_grad=True)

    def forward(self, x, y=None):
        theta = self.theta(x)
        phi = F.max_pool2d(self.phi(x), [2, 2])
        g = F.max_pool2d(self.g(x), [2, 2])
        theta = theta.view(-1, self.ch // 8, x.shape[2] * x.shape[3])
        phi = phi.view(-1, self.ch // 8, x.shape[2] * x.shape[3] // 4)
        g = g.view(-1, self.ch // 2, x.shape[2] * x.shape[3] // 4)
        beta = F.softmax(torch.bmm(theta.transpose(1, 2), phi), -1)
        o = self.o(torch.bmm(g, beta.transpose(1, 2)).view(-1, self.ch // 2, x.shape[2], x.shape[3]))
        return self.gamma * o + x


class BigGAN(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        self.shared, self.linear = (nn.Embedding(5, 8), spectral_norm(nn.Linear(16, ch * 16)))
        self.blocks = nn.ModuleList([nn.ModuleList([BigGANDeepBlock(ch, ch, 16),
                                                    BigGANDeepBlock(ch, ch // 2, 16,
                                                                    functools.partial(F.interpolate,
                                                                                      scale_factor=2))]),
                                     nn.ModuleList([SAAttention(ch // 2)])])
        self.output_layer = nn.Sequential(nn.BatchNorm2d(ch // 2), nn.ReLU(), spectral_norm(nn.Conv2d(ch // 2, 3, 3,
                                                                                                      padding=1)))

    def forward(self, z, y):
        y = self.shared(y)
        z = torch.cat([y, z], 1)
        y = z
        h = self.linear(z).view(z.size(0), -1, 4, 4)
        for blocklist in self.blocks:
            for block in blocklist:
                h = block(h, y)
        return torch.tanh(self.output_layer(h))


class MelResStack(nn.Module):
    def __init__(self, dim, dilation):
        super().__init__()
        self.block = nn.Sequential(
            nn.LeakyReLU(0.2), nn.ReflectionPad1d(dilation),
            weight_norm(nn.Conv1d(dim, dim, kernel_size=3, dilation=dilation)),
            nn.LeakyReLU(0.2), weight_norm(nn.Conv1d(dim, dim, kernel_size=1)))
        self.shortcut = weight_norm(nn.Conv1d(dim, dim, kernel_size=1))

    def forward(self, x):
        return self.shortcut(x) + self.block(x)


class MelGAN(nn.Module):
    def __init__(self, input_size=16, ngf=8):
        super().__init__()
        model = [nn.ReflectionPad1d(3), weight_norm(nn.Conv1d(input_size, ngf * 4, kernel_size=7, padding=0))]
        mult = 4
        for r in (4, 2):
            model += [nn.LeakyReLU(0.2), weight_norm(nn.ConvTranspose1d(mult * ngf, mult * ngf // 2,
                                                                        kernel_size=r * 2, stride=r,
                                                                        padding=r // 2 + r % 2, output_padding=r % 2))]
            for j in range(2):
                model += [MelResStack(mult * ngf // 2, dilation=3 ** j)]
            mult //= 2
        model += [nn.LeakyReLU(0.2), nn.ReflectionPad1d(3), weight_norm(nn.Conv1d(ngf, 1, kernel_size=7, padding=0)),
                  nn.Tanh()]
        self.model = nn.Sequential(*model)

    def forward(self, x):
        return self.model(x)


class CBAM(nn.Module):
    def __init__(self, c=8):
        super().__init__()
        self.stem = nn.Conv2d(3, c, 3, padding=1)
        self.mlp = nn.Sequential(nn.Flatten(), nn.Linear(c, 2), nn.ReLU(), nn.Linear(2, c))
        self.spatial = nn.Conv2d(2, 1, 7, padding=3)

    def forward(self, x):
        x = self.stem(x)
        s = 0
        for pool in ("avg", "max"):
            if pool == "avg":
                p = F.avg_pool2d(x, (x.size(2), x.size(3)), stride=(x.size(2), x.size(3)))
            else:
                p = F.max_pool2d(x, (x.size(2), x.size(3)), stride=(x.size(2), x.size(3)))
            s = s + self.mlp(p)
        x = x * torch.sigmoid(s).unsqueeze(2).unsqueeze(3).expand_as(x)
        c = torch.cat((torch.max(x, 1)[0].unsqueeze(1), torch.mean(x, 1).unsqueeze(1)), dim=1)
        return x * torch.sigmoid(self.spatial(c))


class LayerNormFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        ctx.eps = eps
        N, C, H, W = x.size()
        mu = x.mean(1, keepdim=True)
        var = (x - mu).pow(2).mean(1, keepdim=True)
        y = (x - mu) / (var + eps).sqrt()
        ctx.save_for_backward(y, var, weight)
        return weight.view(1, C, 1, 1) * y + bias.view(1, C, 1, 1)


class NAFNet(nn.Module):
    def __init__(self, c=8):
        super().__init__()
        self.intro, self.ending = (nn.Conv2d(3, c, 3, 1, 1), nn.Conv2d(c, 3, 3, 1, 1))
        self.conv1, self.conv2, self.conv3 = (nn.Conv2d(c, 2 * c, 1), nn.Conv2d(2 * c, 2 * c, 3, padding=1,
                                                                                groups=2 * c), nn.Conv2d(c, c, 1))
        self.sca = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(c, c, 1))
        self.w, self.b, self.beta = (nn.Parameter(torch.rand(c) + 0.5), nn.Parameter(torch.randn(c)),
                                     nn.Parameter(torch.rand(1, c, 1, 1)))

    def forward(self, inp):
        _, _, h, w = inp.size()
        inp = F.pad(inp, (0, (4 - w % 4) % 4, 0, (4 - h % 4) % 4))
        x = self.intro(inp)
        y = x
        x = LayerNormFunction.apply(x, self.w, self.b, 1e-06)
        x = self.conv2(self.conv1(x))
        x1, x2 = x.chunk(2, dim=1)
        x = x1 * x2
        x = x * self.sca(x)
        x = self.ending(y + self.conv3(x) * self.beta) + inp
        return x[:, :, :h, :w]


class Restormer(nn.Module):
    def __init__(self, dim=8, heads=2):
        super().__init__()
        self.embed, self.heads, self.temperature = (nn.Conv2d(3, dim, 3, 1, 1, bias=False), heads,
                                                    nn.Parameter(torch.ones(heads, 1, 1) * 1.3))
        self.qkv, self.qkv_dwconv, self.project_out = (nn.Conv2d(dim, dim * 3, 1), nn.Conv2d(dim * 3, dim * 3, 3, 1,
                                                                                             1, groups=dim * 3),
                                                       nn.Conv2d(dim, dim, 1))
        self.up = nn.Sequential(nn.Conv2d(dim, dim * 2, 3, 1, 1, bias=False), nn.PixelShuffle(2))
        self.down = nn.Sequential(nn.Conv2d(dim, dim // 2, 3, 1, 1, bias=False), nn.PixelUnshuffle(2))
        self.gate_in, self.gate_dw = (nn.Conv2d(dim, 16, 1), nn.Conv2d(16, 16, 3, padding=1, groups=16))
        self.gate_out = nn.Conv2d(8, dim, 1)

    def forward(self, x):
        x = self.embed(x)
        b, c, h, w = x.shape
        q, k, v = self.qkv_dwconv(self.qkv(x)).chunk(3, dim=1)
        q, k, v = (t.reshape(b, self.heads, c // self.heads, h * w) for t in (q, k, v))
        q = F.normalize(q, dim=-1)
        k = F.normalize(k, dim=-1)
        attn = q @ k.transpose(-2, -1) * self.temperature
        attn = attn.softmax(dim=-1)
        out = (attn @ v).reshape(b, -1, h, w)
        x = x + self.project_out(out)
        x1, x2 = self.gate_dw(self.gate_in(x)).chunk(2, dim=1)
        x = x + self.gate_out(F.gelu(x1) * x2)
        return (self.up(x), self.down(x))


class Swin(nn.Module):
    """A block of windows with a shift, and its relative positions."""

    def __init__(self, dim=8, ws=4, heads=2, res=8):
        super().__init__()
        self.ws, self.heads, self.res, self.dim = (ws, heads, res, dim)
        self.table = nn.Parameter(torch.randn((2 * ws - 1) ** 2, heads) * 0.2)
        coords = torch.stack(torch.meshgrid([torch.arange(ws), torch.arange(ws)], indexing="ij"))
        flat = torch.flatten(coords, 1)
        rel = (flat[:, :, None] - flat[:, None, :]).permute(1, 2, 0).contiguous()
        rel[:, :, 0] += ws - 1
        rel[:, :, 1] += ws - 1
        rel[:, :, 0] *= 2 * ws - 1
        self.register_buffer("relative_position_index", rel.sum(-1))
        self.norm, self.qkv, self.proj = (nn.LayerNorm(dim), nn.Linear(dim, 3 * dim), nn.Linear(dim, dim))
        self.reduction, self.norm2 = (nn.Linear(4 * dim, 2 * dim, bias=False), nn.LayerNorm(4 * dim))
        mask = torch.zeros((1, res, res, 1))
        cnt = 0
        for h in (slice(0, -ws), slice(-ws, -2), slice(-2, None)):
            for w in (slice(0, -ws), slice(-ws, -2), slice(-2, None)):
                mask[:, h, w, :] = cnt
                cnt += 1
        mw = self.part(mask).view(-1, ws * ws)
        am = mw.unsqueeze(1) - mw.unsqueeze(2)
        self.register_buffer("attn_mask", am.masked_fill(am != 0, float(-100.0)).masked_fill(am == 0, float(0.0)))

    def part(self, x):
        B, H, W, C = x.shape
        x = x.view(B, H // self.ws, self.ws, W // self.ws, self.ws, C)
        return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, self.ws, self.ws, C)

    def forward(self, x):
        B, L, C = x.shape
        H = W = self.res
        shortcut = x
        x = self.norm(x).view(B, H, W, C)
        x = torch.roll(x, shifts=(-2, -2), dims=(1, 2))
        x = self.part(x).view(-1, self.ws * self.ws, C)
        B_, N, C = x.shape
        qkv = self.qkv(x).reshape(B_, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = (qkv[0], qkv[1], qkv[2])
        attn = q * (C // self.heads) ** (-0.5) @ k.transpose(-2, -1)
        bias = self.table[self.relative_position_index.view(-1)].view(N, N, -1).permute(2, 0, 1).contiguous()
        attn = attn + bias.unsqueeze(0)
        nW = self.attn_mask.shape[0]
        attn = attn.view(B_ // nW, nW, self.heads, N, N) + self.attn_mask.unsqueeze(1).unsqueeze(0)
        attn = attn.view(-1, self.heads, N, N).softmax(-1)
        x = self.proj((attn @ v).transpose(1, 2).reshape(B_, N, C))
        x = x.view(-1, self.ws, self.ws, C).view(B, H // self.ws, W // self.ws, self.ws, self.ws, -1)
        x = x.permute(0, 1, 3, 2, 4, 5).contiguous().view(B, H, W, -1)
        x = torch.roll(x, shifts=(2, 2), dims=(1, 2)).view(B, H * W, C) + shortcut
        x = x.view(B, H, W, C)
        x = torch.cat([x[:, 0::2, 0::2, :], x[:, 1::2, 0::2, :], x[:, 0::2, 1::2, :], x[:, 1::2, 1::2, :]], -1)
        return self.reduction(self.norm2(x.view(B, -1, 4 * C)))


# The names and shapes of the inputs of each network; a number is the count of indices, whose shape follows.
NETWORKS = {
    DDPM: {"x": (2, 3, 8, 8), "t": [50, 2]},
    StyleGAN1: {"z": (2, 16)},
    StyleGAN2: {"styles": (2, 16)},
    BigGAN: {"z": (2, 8), "y": [5, 2]},
    MelGAN: {"x": (2, 16, 10)},
    CBAM: {"x": (2, 3, 8, 6)},
    NAFNet: {"inp": (1, 3, 7, 8)},
    Swin: {"x": (2, 64, 8)},
    Restormer: {"x": (1, 3, 8, 6)},
}
# Extents that the file has to let vary.
VARY = {DDPM: "x f32 (N=2,", StyleGAN1: "z f32 (N=2, 16)", BigGAN: "y i64 (N=2)", MelGAN: "x f32 (N=2, 16, L=10)"}


def example(shape):
    return torch.randint(shape[0], shape[1:]) if isinstance(shape, list) else torch.randn(shape)


def main(networks, vary):
    """Each of {network: {input: shape}}; {network: words that its text has}."""
    unfurl, exporter = sys.argv[1:3]
    end = sys.argv.index("--")
    compiler, only = sys.argv[3:end], sys.argv[end + 1:]
    exporter = zoo_models.load(exporter)
    with tempfile.TemporaryDirectory() as folder:
        for network, shapes in networks.items():
            name = network.__name__
            if only and name not in only:
                continue
            torch.manual_seed(3)
            inputs = {key: example(shape) for key, shape in shapes.items()}
            path, reference = f"{folder}/{name}.h5", f"{folder}/{name}_reference.h5"
            text = exporter.export(network(), inputs, path, reference=reference)
            zoo_models.demand(vary.get(network, "input") in text, [name], text)
            words = [unfurl, "run", path, "--check", reference, "--device", "cpu"]
            status, said = zoo_models.run(*words)
            zoo_models.demand(status == 0, words, said + text)
            print(said, end="")
            outputs = re.findall(r"^output (\S+) =", text, re.M)
            zoo_models.check_code(unfurl, compiler, name, inputs, outputs, path, reference, folder)


if __name__ == "__main__":
    main(NETWORKS, VARY)
