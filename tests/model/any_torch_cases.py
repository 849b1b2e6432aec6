"""any_torch_cases.py - modules with what torch 2 has of its own, and modules that torch.fx and torch.export have made."""
import copy

import torch
from torch import nn
from torch.nn import functional as F


class Norms(nn.Module):
    def __init__(self):
        super().__init__()
        self.rms, self.plain = nn.RMSNorm(6, eps=1e-6), nn.RMSNorm((4, 6), elementwise_affine=False)
        self.layer = nn.LayerNorm(6, bias=False)
        with torch.no_grad():
            self.rms.weight.uniform_(0.5, 1.5)
            self.layer.weight.uniform_(0.5, 1.5)

    def forward(self, x):
        return self.layer(self.rms(x) + self.plain(x)) + F.rms_norm(x, (6,), self.rms.weight)


class Attention(nn.Module):
    """scaled_dot_product_attention, plain, causal, with masks of both kinds and a scale."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.register_buffer("mask", torch.ones(5, 5, dtype=torch.bool).tril(), persistent=False)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, 2, c // 2).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v)
        y = y + F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=0.1 if self.training else 0.0)
        y = y + F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask, scale=0.5)
        y = y + F.scaled_dot_product_attention(q, k, v, attn_mask=torch.linspace(-1, 1, 25).view(5, 5))
        return self.out(y.transpose(1, 2).reshape(b, n, c))


class Transformer(nn.Module):
    """nn.TransformerEncoder, whose fast path is another function than its Python code."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.decoder = nn.TransformerDecoderLayer(8, 2, 12, batch_first=True, norm_first=True)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        y = self.encoder(x)
        z, weights = self.attention(y, x, x, average_attn_weights=True)
        return self.decoder(z, y), weights


class Parametrized(nn.Module):
    def __init__(self):
        super().__init__()
        p = nn.utils.parametrizations
        self.first = p.weight_norm(nn.ConvTranspose1d(4, 6, 4, 2, 1))
        self.second = p.spectral_norm(nn.Conv1d(6, 4, 3, padding=1))
        self.third = p.weight_norm(nn.Linear(12, 5), dim=None)
        self.fourth = p.orthogonal(nn.Linear(5, 5))

    def forward(self, x):
        return self.fourth(self.third(self.second(F.leaky_relu(self.first(x), 0.1))))


class Pads(nn.Module):
    def __init__(self):
        super().__init__()
        self.pads = nn.ModuleList([nn.ZeroPad2d(1), nn.ReflectionPad2d(1), nn.ReplicationPad2d(1), nn.CircularPad2d(1),
                                   nn.ConstantPad2d(1, 0.5)])
        self.lines = nn.ModuleList([nn.ZeroPad1d(1), nn.CircularPad1d(1), nn.ReflectionPad1d(1)])

    def forward(self, x):
        return sum(pad(x) for pad in self.pads), sum(pad(x.flatten(2)) for pad in self.lines)


class Buffers(nn.Module):
    """nn.Buffer of torch 2.5."""

    def __init__(self):
        super().__init__()
        self.mean, self.std = nn.Buffer(torch.rand(1, 3, 1, 1)), nn.Buffer(torch.rand(1, 3, 1, 1) + 0.5)
        self.conv = nn.Conv2d(3, 4, 3, padding="same", padding_mode="circular")

    def forward(self, x):
        return self.conv((x - self.mean) / self.std)


class Contexts(nn.Module):
    """Contexts and decorators around calls."""

    def __init__(self):
        super().__init__()
        self.conv, self.up = nn.Conv2d(3, 8, 3, padding=1), nn.ConvTranspose2d(8, 3, 4, 2, 1)

    @torch.no_grad()
    def middle(self, x):
        return F.silu(x)

    def forward(self, x):
        with torch.autocast("cpu", enabled=False):
            x = self.conv(x)
        x = torch.utils.checkpoint.checkpoint(self.middle, x, use_reentrant=False)
        with torch.autograd.profiler.record_function("up"):
            return self.up(x)


class Inference(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    @torch.inference_mode()
    def forward(self, x):
        return F.relu(self.conv(x)).mean((2, 3))


class Flow(nn.Module):
    """No tensor decides: attributes, shapes, isinstance and None do."""

    def __init__(self, residual=True):
        super().__init__()
        self.residual = residual
        self.layers = nn.ModuleDict({"a": nn.Conv2d(4, 4, 3, 1, 1), "b": nn.Sequential(nn.Conv2d(4, 4, 1), nn.Hardswish())})
        self.gain = nn.ParameterList([nn.Parameter(torch.rand(1)) for _ in range(2)])

    def forward(self, x, skip=None):
        for gain, (name, layer) in zip(self.gain, self.layers.items()):
            y = layer(x)
            if self.residual and y.shape == x.shape:
                y = y * gain + x
            if isinstance(layer, nn.Sequential) and skip is None:
                y = F.glu(torch.cat([y, x], 1), dim=1)
            x = y
        assert x.size(1) == 4, "channels"
        return x if torch.jit.is_scripting() or not torch.jit.is_tracing() else x * 2


class ForTracing(nn.Module):
    """All that torch.fx and torch.export take as well."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.GELU(), nn.Dropout(0.3))
        self.norm, self.mix = nn.GroupNorm(2, 8), nn.Linear(8, 8)
        self.up = nn.ConvTranspose2d(8, 4, 4, 2, 1, bias=False)
        self.last = nn.Conv2d(4, 12, 1, groups=4)
        self.scale = nn.Parameter(torch.rand(8, 1, 1))
        self.body[1].running_mean.uniform_(-0.3, 0.3)
        self.body[1].running_var.uniform_(0.5, 1.5)

    def forward(self, x):
        x = self.norm(self.body(x)) * self.scale
        y = self.mix(x.flatten(2).transpose(1, 2)).softmax(-1).transpose(1, 2).reshape(x.shape[0], 8, x.size(2), -1)
        x = torch.cat([x[:, :4], y[:, 4:]], dim=1) + F.adaptive_avg_pool2d(x, 1)
        x = F.pixel_shuffle(self.last(F.leaky_relu(self.up(x), 0.2)), 2)
        return torch.tanh(F.interpolate(F.avg_pool2d(x, 2), scale_factor=2, mode="bilinear", align_corners=False))


class Encoder(nn.Module):
    """Layers that PyTorch has under other names once a graph is made of them."""

    def __init__(self):
        super().__init__()
        self.table, self.conv = nn.Embedding(9, 6), nn.Conv1d(6, 6, 3, padding=1)
        self.norm, self.act, self.out = nn.LayerNorm(6), nn.LeakyReLU(0.1), nn.Linear(6, 4)

    def forward(self, labels):
        x = self.norm(self.table(labels))
        x = self.act(self.conv(x.transpose(1, 2))).transpose(1, 2)
        parts = self.out(x).chunk(2, -1)
        a, b = parts[0], parts[1]
        return a.exp() * b.sigmoid() - (a ** 2).mean(1, keepdim=True), torch.stack([a, b], 1).squeeze(0).permute(0, 2, 1, 3)


def fx_of(module, inputs):
    return torch.fx.symbolic_trace(module.eval())


def export_of(module, inputs):
    return torch.export.export(module.eval(), tuple(inputs.values())).module()


def aten_of(module, inputs):
    """The core operators alone."""
    return torch.export.export(module.eval(), tuple(inputs.values())).run_decompositions().module()


def compiled(module, inputs):
    return torch.compile(module)


class Complex(nn.Module):
    def forward(self, x):
        return torch.fft.rfft(x).real


class Scripted(nn.Module):
    def forward(self, x):
        return x * 2


class Antialias(nn.Module):
    def forward(self, x):
        return F.interpolate(x, scale_factor=0.5, mode="bilinear", antialias=True)


class Grouped(nn.Module):
    def forward(self, x):
        return F.scaled_dot_product_attention(x, x[:, :1], x[:, :1], enable_gqa=True)


class Routed(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x, lambda x: -x, (x,))


def has(path):
    found = torch
    for name in path.split(".")[1:]:
        found = getattr(found, name, None)
        if found is None:
            return False
    return True


IMAGE = {"x": lambda: torch.randn(2, 3, 8, 8)}
# (name, class, inputs, what torch must have, what is made of the module)
TABLE = [
    ("Norms", Norms, {"x": lambda: torch.randn(2, 4, 6)}, ["torch.nn.RMSNorm"], None),
    ("Attention", Attention, {"x": lambda: torch.randn(2, 5, 8)},
     ["torch.nn.functional.scaled_dot_product_attention"], None),
    ("Transformer", Transformer, {"x": lambda: torch.randn(2, 5, 8)}, [], None),
    ("Parametrized", Parametrized, {"x": lambda: torch.randn(2, 4, 6)}, ["torch.nn.utils.parametrizations.weight_norm"], None),
    ("Pads", Pads, IMAGE, ["torch.nn.CircularPad2d", "torch.nn.ZeroPad1d"], None),
    ("Buffers", Buffers, IMAGE, ["torch.nn.Buffer"], None),
    ("Contexts", Contexts, IMAGE, [], None),
    ("Inference", Inference, IMAGE, [], None),
    ("Flow", Flow, {"x": lambda: torch.randn(2, 4, 6, 6)}, [], None),
    ("ForTracing", ForTracing, IMAGE, [], None),
    ("Encoder", Encoder, {"labels": lambda: torch.randint(9, (2, 7))}, [], None),
    ("ForTracing.fx", ForTracing, IMAGE, [], fx_of),
    ("Encoder.fx", Encoder, {"labels": lambda: torch.randint(9, (2, 7))}, [], fx_of),
    ("ForTracing.export", ForTracing, IMAGE, ["torch.export.export"], export_of),
    ("Encoder.export", Encoder, {"labels": lambda: torch.randint(9, (2, 7))}, ["torch.export.export"], export_of),
    ("Attention.export", Attention, {"x": lambda: torch.randn(2, 5, 8)}, ["torch.export.export"], export_of),
    ("ForTracing.aten", ForTracing, IMAGE, ["torch.export.export"], aten_of),
    ("Encoder.aten", Encoder, {"labels": lambda: torch.randint(9, (2, 7))}, ["torch.export.export"], aten_of),
    ("ForTracing.compile", ForTracing, IMAGE, ["torch.compile"], compiled),
]
REFUSED = [
    ("Complex", Complex, IMAGE, [], None, ["no layer of unfurl", "any_torch_cases.py line"]),
    ("Antialias", Antialias, IMAGE, [], None, ["antialias", "any_torch_cases.py line"]),
    ("Grouped", Grouped, IMAGE, ["torch.nn.attention"], None, ["enable_gqa"]),
    ("Routed", Routed, IMAGE, ["torch.cond"], None, []),
]


def cases(skip):
    for name, kind, inputs, needs, way, *words in TABLE + REFUSED:
        def make(name=name, kind=kind, inputs=inputs, needs=needs, way=way):
            import torch.fx  # pylint: disable=unused-import
            import torch.utils.checkpoint  # pylint: disable=unused-import
            try:
                import torch.export  # pylint: disable=unused-import
            except ImportError:
                pass
            for path in needs:
                if not has(path):
                    raise skip(f"torch {torch.__version__} has no {path}")
            module, made = kind().eval(), {key: value() for key, value in inputs.items()}
            return (way(copy.deepcopy(module), made) if way else module), made, {}
        yield f"torch2.{name}", make, words[0] if words else None
