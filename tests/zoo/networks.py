"""networks.py - the models of examples/zoo in PyTorch, with the state_dict names of their authors' code.

NETWORKS has a function for each: from its sizes, as `zoo list` prints them, to a module. A module's forward takes the
inputs that INPUTS names, in that order, and returns a tensor or a tuple for the outputs that OUTPUTS names.
"""
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import spectral_norm, weight_norm


class Dcgan(nn.Module):
    """pytorch/examples: dcgan/main.py"""

    def __init__(self, s):
        super().__init__()
        channels, side = s["features"] * s["side"] // 8, 4
        modules = [nn.ConvTranspose2d(s["latent"], channels, 4, 1, 0, bias=False), nn.BatchNorm2d(channels),
                   nn.ReLU(True)]
        while 2 * side < s["side"]:
            modules += [nn.ConvTranspose2d(channels, channels // 2, 4, 2, 1, bias=False),
                        nn.BatchNorm2d(channels // 2), nn.ReLU(True)]
            channels, side = channels // 2, 2 * side
        self.main = nn.Sequential(*modules, nn.ConvTranspose2d(channels, s["channels"], 4, 2, 1, bias=False), nn.Tanh())

    def forward(self, z):
        return self.main(z)


class Vae(nn.Module):
    """AntixK/PyTorch-VAE: models/vanilla_vae.py"""

    def __init__(self, s):
        super().__init__()
        widths = [s["features"] << i for i in range(s["blocks"])]
        self.encoder = nn.Sequential(*[
            nn.Sequential(nn.Conv2d(before, after, kernel_size=3, stride=2, padding=1), nn.BatchNorm2d(after),
                          nn.LeakyReLU())
            for before, after in zip([s["channels"]] + widths, widths)])
        self.fc_mu = nn.Linear(widths[-1] * 4, s["latent"])
        self.fc_var = nn.Linear(widths[-1] * 4, s["latent"])
        self.decoder_input = nn.Linear(s["latent"], widths[-1] * 4)
        self.decoder = nn.Sequential(*[
            nn.Sequential(nn.ConvTranspose2d(before, after, kernel_size=3, stride=2, padding=1, output_padding=1),
                          nn.BatchNorm2d(after), nn.LeakyReLU())
            for before, after in zip(widths[:0:-1], widths[-2::-1])])
        self.final_layer = nn.Sequential(
            nn.ConvTranspose2d(widths[0], widths[0], kernel_size=3, stride=2, padding=1, output_padding=1),
            nn.BatchNorm2d(widths[0]), nn.LeakyReLU(), nn.Conv2d(widths[0], out_channels=3, kernel_size=3, padding=1),
            nn.Tanh())

    def forward(self, image, noise):
        result = torch.flatten(self.encoder(image), start_dim=1)
        mu, log_var = self.fc_mu(result), self.fc_var(result)
        z = noise * torch.exp(0.5 * log_var) + mu
        result = self.decoder_input(z).view(len(z), -1, 2, 2)
        return self.final_layer(self.decoder(result)), mu, log_var


class UnetBlock(nn.Module):
    """UnetSkipConnectionBlock of models/networks.py in junyanz/pytorch-CycleGAN-and-pix2pix, with batch norm"""

    def __init__(self, outer, inner, submodule=None, outermost=False, dropout=False):
        super().__init__()
        self.outermost = outermost
        downconv = nn.Conv2d(outer, inner, kernel_size=4, stride=2, padding=1, bias=False)
        if outermost:
            model = [downconv, submodule, nn.ReLU(True),
                     nn.ConvTranspose2d(inner * 2, outer, kernel_size=4, stride=2, padding=1), nn.Tanh()]
        elif submodule is None:
            model = [nn.LeakyReLU(0.2, True), downconv, nn.ReLU(True),
                     nn.ConvTranspose2d(inner, outer, kernel_size=4, stride=2, padding=1, bias=False),
                     nn.BatchNorm2d(outer)]
        else:
            model = [nn.LeakyReLU(0.2, True), downconv, nn.BatchNorm2d(inner), submodule, nn.ReLU(True),
                     nn.ConvTranspose2d(inner * 2, outer, kernel_size=4, stride=2, padding=1, bias=False),
                     nn.BatchNorm2d(outer)] + ([nn.Dropout(0.5)] if dropout else [])
        self.model = nn.Sequential(*model)

    def forward(self, x):
        return self.model(x) if self.outermost else torch.cat([x, self.model(x)], 1)


class Pix2pix(nn.Module):
    """UnetGenerator of the same file"""

    def __init__(self, s):
        super().__init__()
        ngf = s["features"]
        block = UnetBlock(ngf * 8, ngf * 8)
        for _ in range(s["blocks"] - 5):
            block = UnetBlock(ngf * 8, ngf * 8, block, dropout=True)
        block = UnetBlock(ngf * 4, ngf * 8, block)
        block = UnetBlock(ngf * 2, ngf * 4, block)
        block = UnetBlock(ngf, ngf * 2, block)
        self.model = UnetBlock(s["channels"], ngf, block, outermost=True)

    def forward(self, image):
        return self.model(image)


class ResnetBlock(nn.Module):
    """ResnetBlock of the same file, with instance norm and padding by reflection"""

    def __init__(self, dim):
        super().__init__()
        self.conv_block = nn.Sequential(
            nn.ReflectionPad2d(1), nn.Conv2d(dim, dim, kernel_size=3), nn.InstanceNorm2d(dim), nn.ReLU(True),
            nn.ReflectionPad2d(1), nn.Conv2d(dim, dim, kernel_size=3), nn.InstanceNorm2d(dim))

    def forward(self, x):
        return x + self.conv_block(x)


class Cyclegan(nn.Module):
    """ResnetGenerator of the same file"""

    def __init__(self, s):
        super().__init__()
        ngf = s["features"]
        model = [nn.ReflectionPad2d(3), nn.Conv2d(s["channels"], ngf, kernel_size=7), nn.InstanceNorm2d(ngf),
                 nn.ReLU(True)]
        for mult in (1, 2):
            model += [nn.Conv2d(ngf * mult, ngf * mult * 2, kernel_size=3, stride=2, padding=1),
                      nn.InstanceNorm2d(ngf * mult * 2), nn.ReLU(True)]
        model += [ResnetBlock(ngf * 4) for _ in range(s["blocks"])]
        for mult in (4, 2):
            model += [nn.ConvTranspose2d(ngf * mult, ngf * mult // 2, kernel_size=3, stride=2, padding=1,
                                         output_padding=1), nn.InstanceNorm2d(ngf * mult // 2), nn.ReLU(True)]
        self.model = nn.Sequential(*model, nn.ReflectionPad2d(3), nn.Conv2d(ngf, s["channels"], kernel_size=7),
                                   nn.Tanh())

    def forward(self, image):
        return self.model(image)


class Fsrcnn(nn.Module):
    """yjn870/FSRCNN-pytorch: models.py"""

    def __init__(self, s, shrunk=12, mappings=4):
        super().__init__()
        d, scale = s["features"], s["blocks"]
        self.first_part = nn.Sequential(nn.Conv2d(1, d, kernel_size=5, padding=2), nn.PReLU(d))
        mid = [nn.Conv2d(d, shrunk, kernel_size=1), nn.PReLU(shrunk)]
        for _ in range(mappings):
            mid += [nn.Conv2d(shrunk, shrunk, kernel_size=3, padding=1), nn.PReLU(shrunk)]
        self.mid_part = nn.Sequential(*mid, nn.Conv2d(shrunk, d, kernel_size=1), nn.PReLU(d))
        self.last_part = nn.ConvTranspose2d(d, 1, kernel_size=9, stride=scale, padding=4, output_padding=scale - 1)

    def forward(self, image):
        return self.last_part(self.mid_part(self.first_part(image)))


class ConvLayer(nn.Module):
    """pytorch/examples: fast_neural_style/neural_style/transformer_net.py; with `upsample` UpsampleConvLayer"""

    def __init__(self, before, after, kernel_size, stride, upsample=None):
        super().__init__()
        self.upsample = upsample
        self.reflection_pad = nn.ReflectionPad2d(kernel_size // 2)
        self.conv2d = nn.Conv2d(before, after, kernel_size, stride)

    def forward(self, x):
        if self.upsample:
            x = F.interpolate(x, mode="nearest", scale_factor=self.upsample)
        return self.conv2d(self.reflection_pad(x))


class StyleBlock(nn.Module):
    """ResidualBlock of the same file"""

    def __init__(self, channels):
        super().__init__()
        self.conv1 = ConvLayer(channels, channels, 3, 1)
        self.in1 = nn.InstanceNorm2d(channels, affine=True)
        self.conv2 = ConvLayer(channels, channels, 3, 1)
        self.in2 = nn.InstanceNorm2d(channels, affine=True)

    def forward(self, x):
        return self.in2(self.conv2(F.relu(self.in1(self.conv1(x))))) + x


class FastStyle(nn.Module):
    """TransformerNet of the same file"""

    def __init__(self, s):
        super().__init__()
        f, self.blocks = s["features"], s["blocks"]
        self.conv1, self.in1 = ConvLayer(3, f, 9, 1), nn.InstanceNorm2d(f, affine=True)
        self.conv2, self.in2 = ConvLayer(f, 2 * f, 3, 2), nn.InstanceNorm2d(2 * f, affine=True)
        self.conv3, self.in3 = ConvLayer(2 * f, 4 * f, 3, 2), nn.InstanceNorm2d(4 * f, affine=True)
        for i in range(self.blocks):
            self.add_module(f"res{i + 1}", StyleBlock(4 * f))
        self.deconv1, self.in4 = ConvLayer(4 * f, 2 * f, 3, 1, 2), nn.InstanceNorm2d(2 * f, affine=True)
        self.deconv2, self.in5 = ConvLayer(2 * f, f, 3, 1, 2), nn.InstanceNorm2d(f, affine=True)
        self.deconv3 = ConvLayer(f, 3, 9, 1)

    def forward(self, image):
        y = F.relu(self.in1(self.conv1(image)))
        y = F.relu(self.in2(self.conv2(y)))
        y = F.relu(self.in3(self.conv3(y)))
        for i in range(self.blocks):
            y = getattr(self, f"res{i + 1}")(y)
        y = F.relu(self.in4(self.deconv1(y)))
        y = F.relu(self.in5(self.deconv2(y)))
        return self.deconv3(y)


class ResBlock1(nn.Module):
    """jik876/hifi-gan: models.py"""

    def __init__(self, channels, kernel_size):
        super().__init__()
        self.convs1 = nn.ModuleList([
            weight_norm(nn.Conv1d(channels, channels, kernel_size, 1, dilation=d, padding=d * (kernel_size - 1) // 2))
            for d in (1, 3, 5)])
        self.convs2 = nn.ModuleList([
            weight_norm(nn.Conv1d(channels, channels, kernel_size, 1, padding=(kernel_size - 1) // 2))
            for _ in range(3)])

    def forward(self, x):
        for c1, c2 in zip(self.convs1, self.convs2):
            x = c2(F.leaky_relu(c1(F.leaky_relu(x, 0.1)), 0.1)) + x
        return x


class Hifigan(nn.Module):
    """Generator of the same file, config_v1.json"""

    def __init__(self, s):
        super().__init__()
        channels, kernels = s["features"], (3, 7, 11)
        self.conv_pre = weight_norm(nn.Conv1d(s["channels"], channels, 7, 1, padding=3))
        self.ups, self.resblocks = nn.ModuleList(), nn.ModuleList()
        for u, k in zip((8, 8, 2, 2), (16, 16, 4, 4)):
            self.ups.append(weight_norm(nn.ConvTranspose1d(channels, channels // 2, k, u, padding=(k - u) // 2)))
            channels //= 2
            self.resblocks.extend(ResBlock1(channels, kernel) for kernel in kernels)
        self.conv_post = weight_norm(nn.Conv1d(channels, 1, 7, 1, padding=3))

    def forward(self, mel):
        x = self.conv_pre(mel)
        for i, up in enumerate(self.ups):
            x = up(F.leaky_relu(x, 0.1))
            x = sum(block(x) for block in self.resblocks[3 * i:3 * i + 3]) / 3
        return torch.tanh(self.conv_post(F.leaky_relu(x)))


class Sngan(nn.Module):
    """Discriminator of model.py in christiancosgrove/pytorch-spectral-normalization-gan, with PyTorch's spectral_norm"""

    def __init__(self, s):
        super().__init__()
        before, f = s["channels"], s["features"]
        for i, after in enumerate((f, f, 2 * f, 2 * f, 4 * f, 4 * f, 8 * f)):
            kernel, stride = ((3, 1), (4, 2))[i % 2]
            self.add_module(f"conv{i + 1}", spectral_norm(nn.Conv2d(before, after, kernel, stride, padding=1)))
            before = after
        self.fc = spectral_norm(nn.Linear((s["side"] // 8) ** 2 * before, 1))

    def forward(self, image):
        m = image
        for i in range(7):
            m = F.leaky_relu(getattr(self, f"conv{i + 1}")(m), 0.1)
        return self.fc(m.view(len(m), -1))


class Clamp(nn.Module):
    """madebyollin/taesd: taesd.py"""

    def forward(self, x):
        return torch.tanh(x / 3) * 3


class TaesdBlock(nn.Module):
    """Block of the same file"""

    def __init__(self, n):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(n, n, 3, padding=1), nn.ReLU(), nn.Conv2d(n, n, 3, padding=1), nn.ReLU(),
                                  nn.Conv2d(n, n, 3, padding=1))
        self.fuse = nn.ReLU()

    def forward(self, x):
        return self.fuse(self.conv(x) + x)


def taesd(s):
    """Decoder of the same file"""
    n = s["features"]
    modules = [Clamp(), nn.Conv2d(s["channels"], n, 3, padding=1), nn.ReLU()]
    for _ in range(3):
        modules += [TaesdBlock(n), TaesdBlock(n), TaesdBlock(n), nn.Upsample(scale_factor=2),
                    nn.Conv2d(n, n, 3, padding=1, bias=False)]
    return nn.Sequential(*modules, TaesdBlock(n), nn.Conv2d(n, 3, 3, padding=1))


def ldm_norm(channels):
    return nn.GroupNorm(num_groups=32, num_channels=channels, eps=1e-6, affine=True)


class LdmBlock(nn.Module):
    """ResnetBlock of ldm/modules/diffusionmodules/model.py in CompVis/latent-diffusion"""

    def __init__(self, before, after):
        super().__init__()
        self.norm1, self.conv1 = ldm_norm(before), nn.Conv2d(before, after, 3, padding=1)
        self.norm2, self.conv2 = ldm_norm(after), nn.Conv2d(after, after, 3, padding=1)
        if before != after:
            self.nin_shortcut = nn.Conv2d(before, after, 1)

    def forward(self, x):
        h = self.conv1(F.silu(self.norm1(x)))
        h = self.conv2(F.silu(self.norm2(h)))
        return (self.nin_shortcut(x) if hasattr(self, "nin_shortcut") else x) + h


class LdmAttention(nn.Module):
    """AttnBlock of the same file"""

    def __init__(self, channels):
        super().__init__()
        self.norm = ldm_norm(channels)
        for name in ("q", "k", "v", "proj_out"):
            self.add_module(name, nn.Conv2d(channels, channels, 1))

    def forward(self, x):
        b, c, h, w = x.shape
        normed = self.norm(x)
        q = self.q(normed).reshape(b, c, h * w).permute(0, 2, 1)
        weights = torch.bmm(q, self.k(normed).reshape(b, c, h * w)) * c ** -0.5
        weights = F.softmax(weights, dim=2).permute(0, 2, 1)
        y = torch.bmm(self.v(normed).reshape(b, c, h * w), weights).reshape(b, c, h, w)
        return x + self.proj_out(y)


class LdmDecoder(nn.Module):
    """Decoder of the same file, inside AutoencoderKL of ldm/models/autoencoder.py"""

    def __init__(self, s, multiples=(1, 2, 4, 4)):
        super().__init__()
        before = s["features"] * multiples[-1]
        d = self.decoder = nn.Module()
        d.conv_in = nn.Conv2d(s["channels"], before, 3, padding=1)
        d.mid = nn.Module()
        d.mid.block_1, d.mid.attn_1, d.mid.block_2 = LdmBlock(before, before), LdmAttention(before), LdmBlock(before, before)
        levels = []
        for level in reversed(range(len(multiples))):
            after, up = s["features"] * multiples[level], nn.Module()
            up.block = nn.ModuleList([LdmBlock(before if i == 0 else after, after) for i in range(3)])
            if level > 0:
                up.upsample = nn.Module()
                up.upsample.conv = nn.Conv2d(after, after, 3, padding=1)
            levels.insert(0, up)
            before = after
        d.up = nn.ModuleList(levels)
        d.norm_out, d.conv_out = ldm_norm(before), nn.Conv2d(before, 3, 3, padding=1)
        self.post_quant_conv = nn.Conv2d(s["channels"], s["channels"], 1)

    def forward(self, latents):
        d = self.decoder
        h = d.conv_in(self.post_quant_conv(latents))
        h = d.mid.block_2(d.mid.attn_1(d.mid.block_1(h)))
        for up in reversed(d.up):
            for block in up.block:
                h = block(h)
            if hasattr(up, "upsample"):
                h = up.upsample.conv(F.interpolate(h, scale_factor=2.0, mode="nearest"))
        return d.conv_out(F.silu(d.norm_out(h)))


class DenseBlock(nn.Module):
    """ResidualDenseBlock_5C of RRDBNet_arch.py in xinntao/ESRGAN"""

    def __init__(self, nf, gc):
        super().__init__()
        for i in range(5):
            self.add_module(f"conv{i + 1}", nn.Conv2d(nf + i * gc, nf if i == 4 else gc, 3, 1, 1))

    def forward(self, x):
        parts = [x]
        for i in range(4):
            parts.append(F.leaky_relu(getattr(self, f"conv{i + 1}")(torch.cat(parts, 1)), 0.2))
        return self.conv5(torch.cat(parts, 1)) * 0.2 + x


class Rrdb(nn.Module):
    """RRDB of the same file"""

    def __init__(self, nf, gc):
        super().__init__()
        self.RDB1, self.RDB2, self.RDB3 = DenseBlock(nf, gc), DenseBlock(nf, gc), DenseBlock(nf, gc)

    def forward(self, x):
        return self.RDB3(self.RDB2(self.RDB1(x))) * 0.2 + x


class Esrgan(nn.Module):
    """RRDBNet of the same file"""

    def __init__(self, s):
        super().__init__()
        nf = s["features"]
        self.conv_first = nn.Conv2d(3, nf, 3, 1, 1)
        self.RRDB_trunk = nn.Sequential(*[Rrdb(nf, nf // 2) for _ in range(s["blocks"])])
        for name in ("trunk_conv", "upconv1", "upconv2", "HRconv"):
            self.add_module(name, nn.Conv2d(nf, nf, 3, 1, 1))
        self.conv_last = nn.Conv2d(nf, 3, 3, 1, 1)

    def forward(self, image):
        fea = self.conv_first(image)
        fea = fea + self.trunk_conv(self.RRDB_trunk(fea))
        fea = F.leaky_relu(self.upconv1(F.interpolate(fea, scale_factor=2, mode="nearest")), 0.2)
        fea = F.leaky_relu(self.upconv2(F.interpolate(fea, scale_factor=2, mode="nearest")), 0.2)
        return self.conv_last(F.leaky_relu(self.HRconv(fea), 0.2))


class CondGan(nn.Module):
    """eriklindernoren/PyTorch-GAN: implementations/acgan/acgan.py"""

    def __init__(self, s):
        super().__init__()
        f, self.init_size = s["features"], s["side"] // 4
        self.label_emb = nn.Embedding(s["blocks"], s["latent"])
        self.l1 = nn.Sequential(nn.Linear(s["latent"], f * self.init_size ** 2))
        self.conv_blocks = nn.Sequential(
            nn.BatchNorm2d(f), nn.Upsample(scale_factor=2), nn.Conv2d(f, f, 3, stride=1, padding=1),
            nn.BatchNorm2d(f, 0.8), nn.LeakyReLU(0.2, inplace=True), nn.Upsample(scale_factor=2),
            nn.Conv2d(f, f // 2, 3, stride=1, padding=1), nn.BatchNorm2d(f // 2, 0.8), nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(f // 2, s["channels"], 3, stride=1, padding=1), nn.Tanh())

    def forward(self, z, labels):
        out = self.l1(torch.mul(self.label_emb(labels), z))
        return self.conv_blocks(out.view(len(out), -1, self.init_size, self.init_size))


class LayerNorm2d(nn.Module):
    """facebookresearch/segment-anything: segment_anything/modeling/common.py"""

    def __init__(self, num_channels, eps=1e-6):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(num_channels)), nn.Parameter(torch.zeros(num_channels))
        self.eps = eps

    def forward(self, x):
        u = x.mean(1, keepdim=True)
        s = (x - u).pow(2).mean(1, keepdim=True)
        x = (x - u) / torch.sqrt(s + self.eps)
        return self.weight[:, None, None] * x + self.bias[:, None, None]


class Mlp(nn.Module):
    """MLP of segment_anything/modeling/mask_decoder.py, with 3 layers"""

    def __init__(self, before, hidden, after):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(before, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, after)])

    def forward(self, x):
        return self.layers[2](F.relu(self.layers[1](F.relu(self.layers[0](x)))))


class SamUpscaler(nn.Module):
    """The second half of predict_masks in the same file"""

    def __init__(self, s):
        super().__init__()
        dim = s["features"]
        self.output_upscaling = nn.Sequential(
            nn.ConvTranspose2d(dim, dim // 4, kernel_size=2, stride=2), LayerNorm2d(dim // 4), nn.GELU(),
            nn.ConvTranspose2d(dim // 4, dim // 8, kernel_size=2, stride=2), nn.GELU())
        self.output_hypernetworks_mlps = nn.ModuleList([Mlp(dim, dim, dim // 8) for _ in range(4)])

    def forward(self, image, tokens):
        upscaled = self.output_upscaling(image)
        hyper = torch.stack([mlp(tokens[:, i, :]) for i, mlp in enumerate(self.output_hypernetworks_mlps)], dim=1)
        b, c, h, w = upscaled.shape
        return (hyper @ upscaled.view(b, c, h * w)).view(b, -1, h, w)


def image(s):
    return s["batch"], s["channels"], s["side"], s["side"]


def colours(s):
    return s["batch"], 3, s["side"], s["side"]


# name: (module from sizes, shape of each input from sizes, outputs)
NETWORKS = {
    "dcgan": (Dcgan, {"z": lambda s: (s["batch"], s["latent"], 1, 1)}, ["image"]),
    "vae": (Vae, {"image": image, "noise": lambda s: (s["batch"], s["latent"])}, ["image", "mu", "log_var"]),
    "pix2pix": (Pix2pix, {"image": image}, ["image"]),
    "cyclegan": (Cyclegan, {"image": image}, ["image"]),
    "fsrcnn": (Fsrcnn, {"image": image}, ["image"]),
    "fast_style": (FastStyle, {"image": image}, ["image"]),
    "hifigan": (Hifigan, {"mel": lambda s: (s["batch"], s["channels"], s["side"])}, ["sound"]),
    "sngan": (Sngan, {"image": image}, ["logit"]),
    "taesd": (taesd, {"latents": image}, ["image"]),
    "ldm_decoder": (LdmDecoder, {"latents": image}, ["image"]),
    "esrgan": (Esrgan, {"image": image}, ["image"]),
    "cond_gan": (CondGan, {"z": lambda s: (s["batch"], s["latent"]), "labels": lambda s: (s["batch"],)}, ["image"]),
    "sam_upscaler": (SamUpscaler, {"image": lambda s: (s["batch"], s["features"], s["side"], s["side"]),
                                   "tokens": lambda s: (s["batch"], 4, s["features"])}, ["masks"]),
}
