#!/usr/bin/env python3
"""peer_models.py - times the models of bench_models in PyTorch: the same layers, weights, inputs and training steps.

    bench_models --list | peer_models.py [--math fp32|tf32|bf16|all] [--modes eager,graph,compile]
                                         [--layouts nchw,nhwc] [--device cuda|cpu] [--budget-ms MS]
                                         [--budget-seconds S] [--out FILE]

Prints a JSON line for each model, math, type, layout and mode:
  mode    eager; graph: the whole step as one CUDA graph; compile and compile_graph: the same with torch.compile around
          each network, in the layout that was faster before
  dtype   f32; in bf16 "autocast", and for models that are not trained "bf16": weights and pictures in bf16
  ms, waited_ms, runs, first, third, last      as bench_models has them
  bytes, peak_bytes   torch.cuda.memory_allocated, and the most of it in the timed runs, after the search of algorithms
  error   text, where something failed or no time was left; the rest goes on
All eager and graph rows come first, torch.compile after them as long as --budget-seconds last.
"""
import argparse, contextlib, gc, json, math, statistics, sys, time

import torch
from torch import nn
from torch.nn import functional as F

MASK = (1 << 64) - 1
MATHS = ("fp32", "tf32", "bf16")
QUEUED_MS, MOST_QUEUED, MOST_RUNS = 2.0, 100, 100


# ---- numbers: as bench/model_run.c makes them ----

def signed(value):
    value &= MASK
    return value - (1 << 64) if value >> 63 else value


def shifted(z, bits):
    """A logical shift to the right of 64 bits."""
    return (z >> bits) & ((1 << (64 - bits)) - 1)


def numbers(name, shape, bound, device):
    seed = 0xcbf29ce484222325
    for byte in name.encode():
        seed = ((seed ^ byte) * 0x100000001b3) & MASK
    z = torch.arange(1, math.prod(shape) + 1, dtype=torch.int64, device=device)
    z = z * signed(0x9e3779b97f4a7c15) + signed(seed)
    z = (z ^ shifted(z, 30)) * signed(0xbf58476d1ce4e5b9)
    z = (z ^ shifted(z, 27)) * signed(0x94d049bb133111eb)
    z = shifted(z ^ shifted(z, 31), 40)
    return ((z.double() * 2.0 ** -23 - 1.0) * bound).float().reshape(shape)


def fill(module, device):
    with torch.no_grad():
        for name, tensor in module.state_dict().items():
            if tensor.dim() >= 2:
                tensor.copy_(numbers(name, tuple(tensor.shape), 1.0 / math.sqrt(math.prod(tensor.shape[1:])), device))
            elif name.endswith("bias"):
                tensor.zero_()


# ---- networks: bench/models/*.c ----

class Main(nn.Module):
    """A sequence under the name that the published code gives it."""

    def __init__(self, name, modules):
        super().__init__()
        self.add_module(name, nn.Sequential(*modules))
        self.sequence = [name]

    def forward(self, x):
        return getattr(self, self.sequence[0])(x)


def dcgan_generator(row):
    channels, side, before, stride, padding = row["features"] * row["height"] // 8, 4, row["latent"], 1, 0
    modules = []
    while side < row["height"]:
        modules += [nn.ConvTranspose2d(before, channels, 4, stride, padding, bias=False), nn.BatchNorm2d(channels),
                    nn.ReLU(True)]
        before, channels, side, stride, padding = channels, channels // 2, 2 * side, 2, 1
    modules += [nn.ConvTranspose2d(before, row["channels"], 4, stride, padding, bias=False), nn.Tanh()]
    return Main("main", modules)


def dcgan_discriminator(row):
    channels, side = row["features"], row["height"] // 2
    modules = [nn.Conv2d(row["channels"], channels, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, True)]
    while side > 4:
        modules += [nn.Conv2d(channels, 2 * channels, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * channels),
                    nn.LeakyReLU(0.2, True)]
        channels, side = 2 * channels, side // 2
    return Main("main", modules + [nn.Conv2d(channels, 1, 4, 1, 0, bias=False)])


class Level(nn.Module):
    """A level of pix2pix's U-Net and all below it."""

    def __init__(self, depth, levels, outer, features):
        super().__init__()
        inner = features << min(depth, 3)
        self.outermost, innermost = depth == 0, depth + 1 == levels
        down = [nn.Conv2d(outer, inner, 4, 2, 1, bias=False)]
        if not self.outermost:
            down.insert(0, nn.LeakyReLU(0.2, True))
        if not self.outermost and not innermost:
            down.append(nn.BatchNorm2d(inner))
        below = [] if innermost else [Level(depth + 1, levels, inner, features)]
        up = [nn.ReLU(True), nn.ConvTranspose2d(inner if innermost else 2 * inner, outer, 4, 2, 1,
                                                bias=self.outermost),
              nn.Tanh() if self.outermost else nn.BatchNorm2d(outer)]
        self.model = nn.Sequential(*down, *below, *up)

    def forward(self, x):
        return self.model(x) if self.outermost else torch.cat([x, self.model(x)], 1)


class Unet(nn.Module):
    def __init__(self, row):
        super().__init__()
        self.model = Level(0, row["height"].bit_length() - 1, row["channels"], row["features"])

    def forward(self, x):
        return self.model(x)


def patch_discriminator(row):
    f = row["features"]
    modules = [nn.Conv2d(2 * row["channels"], f, 4, 2, 1), nn.LeakyReLU(0.2, True)]
    for before, after, stride in ((f, 2 * f, 2), (2 * f, 4 * f, 2), (4 * f, 8 * f, 1)):
        modules += [nn.Conv2d(before, after, 4, stride, 1, bias=False), nn.BatchNorm2d(after), nn.LeakyReLU(0.2, True)]
    return Main("model", modules + [nn.Conv2d(8 * f, 1, 4, 1, 1)])


class Vae(nn.Module):
    def __init__(self, row):
        super().__init__()
        widths = [row["features"] << i for i in range(row["height"].bit_length() - 2)]
        self.deepest = widths[-1]
        self.encoder = nn.Sequential(*[
            nn.Sequential(nn.Conv2d(before, after, 3, 2, 1), nn.BatchNorm2d(after), nn.LeakyReLU(0.01, True))
            for before, after in zip([row["channels"]] + widths, widths)])
        self.fc_mu = nn.Linear(4 * self.deepest, row["latent"])
        self.decoder_input = nn.Linear(row["latent"], 4 * self.deepest)
        self.decoder = nn.Sequential(*[
            nn.Sequential(nn.ConvTranspose2d(before, after, 3, 2, 1, 1), nn.BatchNorm2d(after),
                          nn.LeakyReLU(0.01, True))
            for before, after in zip(widths[:0:-1], widths[-2::-1])])
        self.final_layer = nn.Sequential(
            nn.ConvTranspose2d(widths[0], widths[0], 3, 2, 1, 1), nn.BatchNorm2d(widths[0]), nn.LeakyReLU(0.01, True),
            nn.Conv2d(widths[0], row["channels"], 3, 1, 1), nn.Tanh())

    def decode(self, z):
        x = self.decoder_input(z).view(-1, self.deepest, 2, 2)
        return self.final_layer(self.decoder(x))

    def forward(self, image, noise):
        mu = self.fc_mu(torch.flatten(self.encoder(image), 1))
        return self.decode(mu + noise), mu


class Decoder(Vae):
    def __init__(self, row):
        super().__init__(row)
        del self.encoder, self.fc_mu

    def forward(self, z):
        return self.decode(z)


def upconv7(row):
    modules, before = [], row["channels"]
    for after in (16, 32, 64, 128, 128, 256):
        modules += [nn.Conv2d(before, after, 3), nn.LeakyReLU(0.1, True)]
        before = after
    return nn.Sequential(*modules, nn.ConvTranspose2d(before, row["channels"], 4, 2, 3))


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv_block = nn.Sequential(
            nn.ReflectionPad2d(1), nn.Conv2d(channels, channels, 3), nn.InstanceNorm2d(channels), nn.ReLU(True),
            nn.ReflectionPad2d(1), nn.Conv2d(channels, channels, 3), nn.InstanceNorm2d(channels))

    def forward(self, x):
        return x + self.conv_block(x)


def cyclegan_generator(row):
    f = row["features"]
    modules = [nn.ReflectionPad2d(3), nn.Conv2d(row["channels"], f, 7), nn.InstanceNorm2d(f), nn.ReLU(True)]
    for channels in (2 * f, 4 * f):
        modules += [nn.Conv2d(channels // 2, channels, 3, 2, 1), nn.InstanceNorm2d(channels), nn.ReLU(True)]
    modules += [Block(4 * f) for _ in range(9)]
    for channels in (2 * f, f):
        modules += [nn.ConvTranspose2d(2 * channels, channels, 3, 2, 1, 1), nn.InstanceNorm2d(channels), nn.ReLU(True)]
    return Main("model", modules + [nn.ReflectionPad2d(3), nn.Conv2d(f, row["channels"], 7), nn.Tanh()])


# ---- what is run: a dictionary of numbers from the inputs ----

def run_network(work):
    with torch.no_grad(), work.amp():
        return {"mean_abs": work.networks[0](work.inputs[0])}


def train_dcgan(work):
    generator, discriminator = work.networks
    g_adam, d_adam = work.optimizers
    z, real = work.inputs
    d_adam.zero_grad(set_to_none=True)
    with work.amp():
        on_real = discriminator(real)
        d_real = F.binary_cross_entropy_with_logits(on_real, torch.ones_like(on_real))
    d_real.backward()
    with work.amp():
        fake = generator(z)
        on_fake = discriminator(fake.detach())
        d_fake = F.binary_cross_entropy_with_logits(on_fake, torch.zeros_like(on_fake))
    d_fake.backward()
    d_adam.step()
    g_adam.zero_grad(set_to_none=True)
    discriminator.requires_grad_(False)
    with work.amp():
        judged = discriminator(fake)
        g = F.binary_cross_entropy_with_logits(judged, torch.ones_like(judged))
    g.backward()
    discriminator.requires_grad_(True)
    g_adam.step()
    return {"d_real": d_real.detach(), "d_fake": d_fake.detach(), "g": g.detach()}


def train_pix2pix(work):
    generator, discriminator = work.networks
    g_adam, d_adam = work.optimizers
    a, b = work.inputs
    with work.amp():
        fake = generator(a)
    d_adam.zero_grad(set_to_none=True)
    with work.amp():
        on_fake = discriminator(torch.cat([a, fake.detach().to(a.dtype)], 1))
        d_fake = F.binary_cross_entropy_with_logits(on_fake, torch.zeros_like(on_fake))
        on_real = discriminator(torch.cat([a, b], 1))
        d_real = F.binary_cross_entropy_with_logits(on_real, torch.ones_like(on_real))
    (0.5 * d_fake + 0.5 * d_real).backward()
    d_adam.step()
    g_adam.zero_grad(set_to_none=True)
    discriminator.requires_grad_(False)
    with work.amp():
        judged = discriminator(torch.cat([a, fake.to(a.dtype)], 1))
        g_gan = F.binary_cross_entropy_with_logits(judged, torch.ones_like(judged))
        g_l1 = F.l1_loss(fake.to(b.dtype), b)
    (g_gan + 100.0 * g_l1).backward()
    discriminator.requires_grad_(True)
    g_adam.step()
    return {"d_fake": d_fake.detach(), "d_real": d_real.detach(), "g_gan": g_gan.detach(), "g_l1": g_l1.detach()}


def train_vae(work):
    image, noise = work.inputs
    work.optimizers[0].zero_grad(set_to_none=True)
    with work.amp():
        made, mu = work.networks[0](image, noise)
        reconstruction = F.mse_loss(made.float(), image.float())
        mu_squared = mu.float().square().mean()
    (reconstruction + 0.00025 * 0.5 * noise.shape[1] * mu_squared).backward()
    work.optimizers[0].step()
    return {"reconstruction": reconstruction.detach(), "mu_squared": mu_squared.detach()}


def images(row):
    return row["batch"], row["channels"], row["height"], row["width"]


def latents(row):
    return row["batch"], row["latent"]


# name: (networks, inputs, what is run, Adam's lr and beta1). Without Adam a network runs in eval().
MODELS = {
    "dcgan_generate": ([dcgan_generator], {"z": lambda row: latents(row) + (1, 1)}, run_network, None),
    "dcgan_train": ([dcgan_generator, dcgan_discriminator], {"z": lambda row: latents(row) + (1, 1), "real": images},
                    train_dcgan, (2e-4, 0.5)),
    "pix2pix_generate": ([Unet], {"a": images}, run_network, None),
    "pix2pix_train": ([Unet, patch_discriminator], {"a": images, "b": images}, train_pix2pix, (2e-4, 0.5)),
    "vae_decode": ([Decoder], {"z": latents}, run_network, None),
    "vae_train": ([Vae], {"image": images, "noise": latents}, train_vae, (5e-3, 0.9)),
    "upconv7": ([upconv7], {"a": images}, run_network, None),
    "cyclegan_generate": ([cyclegan_generator], {"a": images}, run_network, None),
}
MODELS["dcgan_train_gray"] = MODELS["dcgan_train"]


class Work:
    """A model with its inputs and optimizers, ready to step."""

    def __init__(self, row, math_name, dtype, layout, device, compiled):
        makers, inputs, self.what, adam = MODELS[row["name"]]
        kind = torch.bfloat16 if dtype == "bf16" else torch.float32
        order = torch.channels_last if layout == "nhwc" else torch.contiguous_format
        torch.set_float32_matmul_precision("highest" if math_name == "fp32" else "high")
        torch.backends.cudnn.allow_tf32 = math_name != "fp32"
        self.device, self.dtype = device, dtype
        self.networks, self.inputs = [], []
        for maker in makers:
            network = maker(row).to(device)
            fill(network, device)
            self.networks.append(network.to(dtype=kind, memory_format=order).train(adam is not None))
        for name, shape_of in inputs.items():
            tensor = numbers(name, shape_of(row), 1.0, device).to(kind)
            self.inputs.append(tensor.contiguous(memory_format=order) if tensor.dim() == 4 else tensor)
        extra = {"fused": True, "capturable": True} if device == "cuda" else {}
        self.optimizers = [] if adam is None else [
            torch.optim.Adam(network.parameters(), lr=adam[0], betas=(adam[1], 0.999), **extra)
            for network in self.networks]
        if compiled:
            self.networks = [torch.compile(network, dynamic=False) for network in self.networks]

    def amp(self):
        if self.dtype != "autocast":
            return contextlib.nullcontext()
        return torch.autocast(self.device, dtype=torch.bfloat16)

    def step(self):
        return self.what(self)

    def drop_gradients(self):
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)


# ---- times: as measure() of bench/model_run.c ----

def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def figures_of(results):
    figures = {name: value.detach().double().abs().mean().item() for name, value in results.items()}
    if not all(math.isfinite(value) for value in figures.values()):
        raise ArithmeticError(f"a result is not a finite number: {figures}")
    return figures


def timed_runs(device, call, count):
    begin = time.perf_counter()
    for _ in range(count):
        call()
    wait(device)
    return 1e3 * (time.perf_counter() - begin) / count


def timing_of(device, call, count, budget_ms):
    times, spent = [], 0.0
    while not times or (len(times) < 3 and spent < 10 * budget_ms) or (len(times) < MOST_RUNS and spent < budget_ms):
        times.append(timed_runs(device, call, count))
        spent += times[-1] * count
    times.sort()
    quarters = statistics.quantiles(times, n=4, method="inclusive") if len(times) > 1 else [times[0]] * 3
    return quarters[1], (quarters[2] - quarters[0]) / quarters[1], len(times) * count


def measured(device, call, budget_ms):
    once = timed_runs(device, call, 1)
    count = max(1, min(MOST_QUEUED, math.ceil(QUEUED_MS / once)))
    waited, spread, runs = timing_of(device, call, 1, budget_ms / 2)
    ms = waited
    if count > 1:
        ms, spread, more = timing_of(device, call, count, budget_ms / 2)
        runs += more
    return {"ms": ms, "spread": spread, "waited_ms": waited, "runs": runs + 1}


def free_memory(device):
    gc.collect()
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def memory_of(device):
    if device != "cuda":
        return {"bytes": None, "peak_bytes": None}
    return {"bytes": torch.cuda.memory_allocated(), "peak_bytes": torch.cuda.max_memory_allocated()}


def capture(work):
    """The step as a CUDA graph, and its results, which each replay overwrites."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = work.step()
    return graph, results


def run_work(work, modes, budget_ms):
    """Yields (the mode's number among `modes`, what was measured): step by step, then as a graph."""
    device = work.device
    first = figures_of(work.step())
    work.step()
    third = figures_of(work.step())
    if modes[0] is not None:
        free_memory(device)
        times = measured(device, work.step, budget_ms)
        memory = memory_of(device)
        yield 0, {**times, **memory, "first": first, "third": third, "last": figures_of(work.step())}
    if modes[1] is not None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            work.step()
        torch.cuda.current_stream().wait_stream(side)
        work.drop_gradients()
        free_memory(device)
        graph, results = capture(work)
        graph.replay()
        times = measured(device, graph.replay, budget_ms)
        memory = memory_of(device)
        yield 1, {**times, **memory, "first": first, "third": third, "last": figures_of(results)}


# ---- the rows ----

class Bench:
    def __init__(self, options):
        self.options = options
        self.end = time.perf_counter() + options.budget_seconds
        self.out = open(options.out, "w", encoding="utf-8") if options.out else sys.stdout
        self.by = f"torch {torch.__version__}"
        self.gpu = "CPU"
        self.failed = 0
        if options.device == "cuda":
            self.by += f", cuDNN {torch.backends.cudnn.version()}"
            self.gpu = torch.cuda.get_device_name()
            torch.backends.cudnn.benchmark = True

    def say(self, row, math_name, dtype, layout, mode, what):
        line = {**row, "by": self.by, "device": self.gpu, "math": math_name, "dtype": dtype, "layout": layout,
                "mode": mode, **what}
        print(json.dumps(line), file=self.out, flush=True)
        self.failed += "error" in what

    def run(self, row, math_name, dtype, layout, modes, compiled):
        """Milliseconds of the fastest of the two modes; None where both failed."""
        best, said = None, [mode is None for mode in modes]
        work = None
        try:
            if time.perf_counter() > self.end:
                raise TimeoutError(f"no time is left of {self.options.budget_seconds:g} seconds")
            if compiled:
                torch.compiler.reset()
            free_memory(self.options.device)
            work = Work(row, math_name, dtype, layout, self.options.device, compiled)
            for number, what in run_work(work, modes, self.options.budget_ms):
                self.say(row, math_name, dtype, layout, modes[number], what)
                said[number] = True
                best = what["ms"] if best is None else min(best, what["ms"])
        except Exception as error:  # whatever a mode does not do is said, and the rest goes on
            text = f"{type(error).__name__}: {error}".split("\n")[0][:300]
            for number in (0, 1):
                if not said[number]:
                    self.say(row, math_name, dtype, layout, modes[number], {"error": text})
        del work
        return best

    def all(self, rows):
        options = self.options
        plain = ("eager" if "eager" in options.modes else None, "graph" if "graph" in options.modes else None)
        fused = ("compile", "compile_graph" if "graph" in options.modes else None)
        if options.device != "cuda":
            plain, fused = (plain[0], None), ("compile", None)
        layouts = {}
        cells = []
        for row in rows:
            for math_name in options.math:
                trained = MODELS[row["name"]][3] is not None
                for dtype in ("f32",) if math_name != "bf16" else ("autocast",) if trained else ("autocast", "bf16"):
                    cells.append((row, math_name, dtype))
        for number, (row, math_name, dtype) in enumerate(cells):
            times = {}
            for layout in options.layouts:
                if plain != (None, None):
                    times[layout] = self.run(row, math_name, dtype, layout, plain, False)
            layouts[number] = min(times, key=lambda layout: times[layout] or math.inf, default=options.layouts[0])
        if "compile" in options.modes:
            for number, (row, math_name, dtype) in enumerate(cells):
                self.run(row, math_name, dtype, layouts[number], fused, True)


def chosen(words):
    def parse(text):
        names = words if text == "all" else tuple(text.split(","))
        if not names or any(name not in words for name in names):
            raise argparse.ArgumentTypeError(f"names of {', '.join(words)} are wanted, not \"{text}\"")
        return names
    return parse


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--math", type=chosen(MATHS), default=("fp32",))
    parser.add_argument("--modes", type=chosen(("eager", "graph", "compile")), default=("eager", "graph", "compile"))
    parser.add_argument("--layouts", type=chosen(("nchw", "nhwc")), default=("nchw", "nhwc"))
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--budget-ms", type=float, default=200.0, metavar="MS", help="for a mode of a row")
    parser.add_argument("--budget-seconds", type=float, default=360.0, metavar="S", help="for all of it")
    parser.add_argument("--out", metavar="FILE")
    options = parser.parse_args()
    rows = [json.loads(line) for line in sys.stdin if line.strip()]
    strangers = sorted({row["name"] for row in rows} - MODELS.keys())
    if not rows or strangers:
        print(f"peer_models.py: it has no model {', '.join(strangers)}" if strangers else
              "peer_models.py: no rows came: bench_models --list prints them", file=sys.stderr)
        return 2
    if options.device == "cuda" and not torch.cuda.is_available():
        print("peer_models.py: PyTorch finds no GPU", file=sys.stderr)
        return 2
    bench = Bench(options)
    bench.all(rows)
    if bench.failed:
        print(f"peer_models.py: {bench.failed} rows have an error in place of a time", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
