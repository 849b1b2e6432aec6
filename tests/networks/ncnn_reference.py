"""ncnn_reference.py - an independent run of ncnn's networks, to hold unfurl's pictures to.

It reads .param and .bin by itself and computes each layer with torch.nn.functional in double. It shares no
code with unfurl: a mistake in reading a file or in a layer's meaning has to be made twice to pass.

    ncnn_reference.py NET.param NET.bin IN.png OUT.png --scale 2 [--border 18] [--reflect] [--multiple 2]
                      [--residual]

The picture is 8 bit RGB. `--residual` adds the input picture, each of its pixels `scale` times repeated: the
authors of Real-CUGAN do that outside the network of scale 4.
"""
import argparse
import struct
import sys
import zlib

import numpy as np
import torch
import torch.nn.functional as functional


# ---- ncnn's files ----

def parse_options(words):
    """{0: '64', 10: ['0.1']}: arrays stand under their number, without the -23300."""
    options = {}
    for word in words:
        key, text = word.split("=")
        key = int(key)
        options[-23300 - key if key <= -23300 else key] = text.split(",")[1:] if key <= -23300 else text
    return options


def read_param(path):
    """A list of (kind, name, inputs, outputs, options)."""
    with open(path, encoding="ascii") as file:
        lines = [line.split() for line in file if line.strip()]
    if lines[0] != ["7767517"]:
        raise SystemExit(f"{path}: not a .param of ncnn's in text")
    layers = []
    for words in lines[2:]:
        counts = int(words[2]), int(words[3])
        blobs, rest = words[4:4 + sum(counts)], words[4 + sum(counts):]
        layers.append((words[0], words[1], blobs[:counts[0]], blobs[counts[0]:], parse_options(rest)))
    if len(layers) != int(lines[1][0]):
        raise SystemExit(f"{path}: {lines[1][0]} layers are promised, {len(layers)} are there")
    return layers


class Weights:
    """The .bin file, read from its beginning to its end."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.bytes = file.read()
        self.place = 0

    def take(self, dtype, count):
        size = count * np.dtype(dtype).itemsize
        if self.place + size > len(self.bytes):
            raise SystemExit(f"the .bin ends at {len(self.bytes)}, {self.place + size} are wanted")
        values = np.frombuffer(self.bytes, dtype, count, self.place)
        self.place += size
        return torch.from_numpy(values.astype(np.float64))

    def plain(self, count):
        return self.take("<f4", count)

    def tagged(self, count):
        tag = struct.unpack_from("<I", self.bytes, self.place)[0]
        self.place += 4
        if tag == 0x01306B47:
            values = self.take("<f2", count)
            self.place += -count * 2 % 4
            return values
        if tag == 0:
            return self.take("<f4", count)
        raise SystemExit(f"weights of the kind {tag:#x} at byte {self.place - 4}")


# ---- layers; each takes its inputs (N, C, H, W), its options and the weights ----

def integer(options, key, default=0):
    return int(options.get(key, default))


def activate(x, options):
    numbers = [float(text) for text in options.get(10, [])]
    kind = integer(options, 9)
    if kind == 0:
        return x
    if kind == 1:
        return functional.relu(x)
    if kind == 2:
        return functional.leaky_relu(x, numbers[0])
    if kind == 3:
        return x.clamp(numbers[0], numbers[1])
    if kind == 4:
        return torch.sigmoid(x)
    raise SystemExit(f"activation {kind} is not known")


def geometry(options):
    kernel = integer(options, 1)
    return dict(kernel=(integer(options, 11, kernel), kernel),
                dilation=(integer(options, 12, integer(options, 2, 1)), integer(options, 2, 1)),
                stride=(integer(options, 13, integer(options, 3, 1)), integer(options, 3, 1)),
                padding=(integer(options, 14, integer(options, 4)), integer(options, 4)))


def convolution(inputs, options, weights, transposed=False):
    x, = inputs
    shape = geometry(options)
    outputs, (height, width) = integer(options, 0), shape.pop("kernel")
    filters = weights.tagged(integer(options, 6)).reshape(outputs, x.shape[1], height, width)
    bias = weights.plain(outputs) if integer(options, 5) else None
    if transposed: # torch wants (in, out, height, width)
        return activate(functional.conv_transpose2d(x, filters.transpose(0, 1), bias, **shape), options)
    return activate(functional.conv2d(x, filters, bias, **shape), options)


def deconvolution(inputs, options, weights):
    return convolution(inputs, options, weights, transposed=True)


def inner_product(inputs, options, weights):
    x = inputs[0].flatten(1)
    outputs = integer(options, 0)
    matrix = weights.tagged(integer(options, 2)).reshape(outputs, x.shape[1])
    bias = weights.plain(outputs) if integer(options, 1) else None
    return activate(functional.linear(x, matrix, bias), options)[:, :, None, None]


def pooling(inputs, options, weights):
    if integer(options, 0) != 1 or integer(options, 4) != 1:
        raise SystemExit("a pooling that is not the mean over the picture")
    return inputs[0].mean((2, 3), keepdim=True)


def prelu(inputs, options, weights):
    return functional.prelu(inputs[0], weights.plain(integer(options, 0)))


def scale(inputs, options, weights):
    if integer(options, 0) != -233:
        raise SystemExit("a scale with numbers of its own")
    return inputs[0] * inputs[1]


def binary(inputs, options, weights):
    first, second = inputs
    return {0: torch.add, 1: torch.sub, 2: torch.mul, 3: torch.div}[integer(options, 0)](first, second)


def eltwise(inputs, options, weights):
    if integer(options, 0) != 1:
        raise SystemExit("an Eltwise that is not a sum")
    factors = [float(text) for text in options.get(1, [])] or [1.0] * len(inputs)
    return sum(factor * x for factor, x in zip(factors, inputs))


def crop(inputs, options, weights):
    x = inputs[0]
    if len(inputs) == 2: # as large as the second, from an offset
        left, top = integer(options, 0), integer(options, 1)
        return x[:, :, top:top + inputs[1].shape[2], left:left + inputs[1].shape[3]]
    starts, ends = ([int(text) for text in options[key]] for key in (9, 10))
    axes = [int(text) % 3 for text in options[11]] # of C, H, W
    for start, end, axis in zip(starts, ends, axes):
        x = x.narrow(axis + 1, start, (end if end > 0 else x.shape[axis + 1] + end) - start)
    return x


def cubic_weights(fraction):
    """Keys' kernel with a = -0.75 at distances 1 + f, f, 1 - f, 2 - f."""
    a = -0.75

    def inner(x):
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def outer(x):
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return outer(1 + fraction), inner(fraction), inner(1 - fraction), outer(2 - fraction)


def bicubic(x, axis, factor):
    """Along one axis; pixel centres are at half numbers, and beyond the edge the edge is repeated."""
    extent = x.shape[axis]
    rows = []
    for i in range(int(extent * factor)):
        place = (i + 0.5) / factor - 0.5
        low = int(np.floor(place))
        at = [min(max(low + k, 0), extent - 1) for k in (-1, 0, 1, 2)]
        rows.append(sum(w * x.select(axis, k) for w, k in zip(cubic_weights(place - low), at)))
    return torch.stack(rows, axis)


def interp(inputs, options, weights):
    x, = inputs
    high, wide = float(options[1]), float(options[2])
    kind = integer(options, 0)
    if kind == 1 and high == int(high) and wide == int(wide):
        return x.repeat_interleave(int(high), 2).repeat_interleave(int(wide), 3)
    if kind == 3:
        return bicubic(bicubic(x, 2, high), 3, wide)
    raise SystemExit(f"Interp of the kind {kind}")


KINDS = {
    "Convolution": convolution, "Deconvolution": deconvolution, "InnerProduct": inner_product,
    "Pooling": pooling, "PReLU": prelu, "Scale": scale, "BinaryOp": binary, "Eltwise": eltwise,
    "Crop": crop, "Interp": interp,
    "Concat": lambda inputs, options, weights: torch.cat(inputs, 1),
    "PixelShuffle": lambda inputs, options, weights: functional.pixel_shuffle(inputs[0], integer(options, 0)),
}


def run(layers, weights, x):
    """The last layer's output. A blob is let go after its one reader."""
    blobs, last = {}, None
    for kind, name, inputs, outputs, options in layers:
        given = [blobs.pop(blob) for blob in inputs]
        if kind == "Input":
            made = x
        elif kind == "Split":
            made = given[0]
        elif kind in KINDS:
            made = KINDS[kind](given, options, weights)
        else:
            raise SystemExit(f"{name}: a layer of the kind {kind}")
        blobs.update({blob: made for blob in outputs})
        last = made
    if weights.place != len(weights.bytes):
        raise SystemExit(f"{len(weights.bytes) - weights.place} bytes of the .bin are left over")
    return last


# ---- pictures ----

def read_png(path):
    """8 bit RGB without interlacing: (H, W, 3)."""
    with open(path, "rb") as file:
        data = file.read()
    place, packed, head = 8, b"", None
    while place < len(data):
        length, kind = struct.unpack_from(">I4s", data, place)
        body = data[place + 8:place + 8 + length]
        head = struct.unpack(">IIBBBBB", body) if kind == b"IHDR" else head
        packed += body if kind == b"IDAT" else b""
        place += 12 + length
    width, height, depth, colour, _, _, interlaced = head
    if (depth, colour, interlaced) != (8, 2, 0):
        raise SystemExit(f"{path}: not 8 bit RGB")
    rows = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + 3 * width)
    image = np.zeros((height + 1, width + 1, 3), np.int64) # a black pixel in front of each row, a row above
    for y in range(height):
        kind, row = rows[y, 0], rows[y, 1:].reshape(width, 3).astype(np.int64)
        above = image[y, 1:]
        if kind == 0:
            image[y + 1, 1:] = row
        elif kind == 1:
            image[y + 1, 1:] = np.cumsum(row, 0) % 256
        elif kind == 2:
            image[y + 1, 1:] = (row + above) % 256
        else:
            for x in range(width):
                a, b, c = image[y + 1, x], image[y, x + 1], image[y, x]
                p = a + b - c
                pa, pb, pc = abs(p - a), abs(p - b), abs(p - c)
                paeth = np.where((pa <= pb) & (pa <= pc), a, np.where(pb <= pc, b, c))
                image[y + 1, x + 1] = (row[x] + (paeth if kind == 4 else (a + b) // 2)) % 256
    return image[1:, 1:].astype(np.uint8)


def write_png(path, image):
    height, width, _ = image.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), image.reshape(height, -1)], 1)

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
                   chunk(b"IDAT", zlib.compress(rows.tobytes())) + chunk(b"IEND", b""))


def border_of(image, before, high, wide, reflect):
    """`before` more pixels on the left and above, `high` and `wide` more below and on the right."""
    mode = "reflect" if reflect else "edge"
    return np.pad(image, ((before, high), (before, wide), (0, 0)), mode)


def upscale(param, binary_file, image, scale, border=0, reflect=False, multiple=1, residual=False):
    """The picture `image` (H, W, 3) of bytes, enlarged; values in 0 to 1, not clamped: (sH, sW, 3)."""
    height, width, _ = image.shape
    high, wide = (border + -extent % multiple for extent in (height, width))
    padded = border_of(image, border, high, wide, reflect)
    x = torch.from_numpy(padded.astype(np.float64) / 255).permute(2, 0, 1)[None]
    with torch.no_grad():
        y = run(read_param(param), Weights(binary_file), x)[0].permute(1, 2, 0).numpy()
    # Some networks eat the border, of others it is cut off.
    rest = y.shape[0] - scale * (height + -height % multiple)
    if rest % 2 != 0 or rest < 0 or y.shape[1] - scale * (width + -width % multiple) != rest:
        raise SystemExit(f"{height} x {width} pixels became {y.shape[0]} x {y.shape[1]}")
    y = y[rest // 2:rest // 2 + scale * height, rest // 2:rest // 2 + scale * width]
    if residual:
        y = y + image.repeat(scale, 0).repeat(scale, 1) / 255
    return y


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("param", "bin", "input", "output"):
        parser.add_argument(name)
    for name, default in (("scale", 2), ("border", 0), ("multiple", 1)):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--reflect", action="store_true")
    parser.add_argument("--residual", action="store_true")
    given = parser.parse_args()
    y = upscale(given.param, given.bin, read_png(given.input), given.scale, given.border, given.reflect,
                given.multiple, given.residual)
    write_png(given.output, np.floor(y.clip(0, 1) * 255 + 0.5).astype(np.uint8))
    return 0


if __name__ == "__main__":
    sys.exit(main())
