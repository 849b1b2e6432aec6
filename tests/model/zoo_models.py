#!/usr/bin/python3
"""zoo_models.py ZOO UNFURL EXPORTER COMPILE... -- [MODEL...]: PyTorch's models of tests/zoo through the exporter.

Each is made small, with random weights, exported, and checked value by value by `unfurl run --check` at 1e-5. The C
program that `unfurl codegen` makes of it is compiled by COMPILE with warnings as errors, and gives the same bits as run.
Exit status 77: PyTorch or h5py is not installed.
"""
import importlib.util
import os
import subprocess
import hashlib
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "zoo"))
import zoo_torch  # ends with 77 where PyTorch is not there


def load(path):
    spec = importlib.util.spec_from_file_location("unfurl_export", path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def run(*words):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def demand(condition, words, said):
    if not condition:
        sys.exit(f"{' '.join(words)}:\n{said}")


# A LeakyReLU in place in front of a skip connection: PyTorch hands the activated value on.
IN_PLACE = {"pix2pix"}


def check(unfurl, exporter, model, size, folder):
    path, reference = os.path.join(folder, f"{model}.h5"), os.path.join(folder, f"{model}_reference.h5")
    network, inputs = zoo_torch.make(model, size)
    inputs = dict(zip(zoo_torch.NETWORKS[model][1], inputs))
    if model in IN_PLACE:
        try:
            exporter.export(network, inputs, path)
            sys.exit(f"{model}: an operation in place with a second reader was exported without --in-place")
        except exporter.Refused as refused:
            demand("in place" in str(refused) and "networks.py line" in str(refused), [model], str(refused))
    text = exporter.export(network, inputs, path, zoo_torch.NETWORKS[model][2], reference=reference,
                           in_place=model in IN_PLACE)
    words = [unfurl, "run", path, "--check", reference, "--device", "cpu"]
    for name in zoo_torch.NETWORKS[model][2]:
        words += ["--output", f"{name}={folder}/{name}.check.h5"]
    status, said = run(*words)
    demand(status == 0, words, said + text)
    print(said, end="")
    return path, reference


WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wvla", "-Wdouble-promotion", "-Wcast-qual",
            "-Wstrict-prototypes", "-Wmissing-prototypes", "-Werror", "-std=c11"]


def bits(folder, name, maker):
    with zoo_torch.h5py.File(f"{folder}/{name}.{maker}.h5") as file:
        return hashlib.sha256(file[name][()].tobytes()).hexdigest()


def check_code(unfurl, compiler, model, inputs, outputs, path, reference, folder):
    source, program = os.path.join(folder, f"{model}.c"), os.path.join(folder, model)
    done = subprocess.run([unfurl, "codegen", path], stdout=subprocess.PIPE, text=True, check=True)
    with open(source, "w") as file:
        file.write(done.stdout)
    words = [compiler[0], *WARNINGS, source, "-o", program, *compiler[1:]]
    status, said = run(*words)
    demand(status == 0 and said == "", words, said + done.stdout)
    for name in inputs:
        with zoo_torch.h5py.File(reference) as known, zoo_torch.h5py.File(f"{folder}/{name}.in.h5", "w") as file:
            file[name] = known[f"inputs/{name}"][()]
    words = [program, path] + [f"{folder}/{name}.in.h5" for name in inputs]
    status, said = run(*words, *[f"{folder}/{name}.code.h5" for name in outputs])
    demand(status == 0, words, said + done.stdout)
    words = [unfurl, "run", path]
    for name in inputs:
        words += ["--input", f"{name}={folder}/{name}.in.h5"]
    for name in outputs:
        words += ["--output", f"{name}={folder}/{name}.run.h5"]
    status, said = run(*words)
    demand(status == 0, words, said)
    for name in outputs:
        demand(bits(folder, name, "code") == bits(folder, name, "run"), [model, name],
               "the C program gives other bits than run:\n" + done.stdout)
    print(f"{model}: {done.stdout.count(chr(10))} lines of C, the same bits")


def main():
    zoo, unfurl, exporter = sys.argv[1:4]
    end = sys.argv.index("--")
    compiler = sys.argv[4:end]
    exporter = load(exporter)
    known = zoo_torch.sizes(zoo)
    models = sys.argv[end + 1:] or [model for model, kind in known if kind == "test"]
    with tempfile.TemporaryDirectory() as folder:
        for model in models:
            path, reference = check(unfurl, exporter, model, known[model, "test"], folder)
            inputs, outputs = zoo_torch.NETWORKS[model][1:]
            check_code(unfurl, compiler, model, inputs, outputs, path, reference, folder)
            for name in outputs:  # --check compares what run computes
                demand(bits(folder, name, "check") == bits(folder, name, "run"), [model, name], "other bits with --check")


if __name__ == "__main__":
    main()
