"""any_torch.py UNFURL PYTHON EXPORTER [CASE...]: modules of any PyTorch through the exporter, a line each and a count.

PYTHON needs torch (1.13 or 2) and h5py; a GPU and a network are not needed. Each module is exported, `run --check` holds its
values to PyTorch's, and `codegen` prints its C program. Where a C compiler, unfurl's headers and libunfurl.so are found in the
folders above UNFURL and EXPORTER, or UNFURL_INCLUDE and UNFURL_LIBRARY name them, the program must give the bits of run.
The test runs it with Debian's PyTorch, which skips the cases of torch 2; with another Python it says what that one's modules do.
"""
import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import warnings

warnings.filterwarnings("ignore")
sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "zoo")]
import exported
import exported_idioms
import known_networks
import stranger_networks
import torch
import zoo_models
import zoo_torch
import any_torch_cases

# As `zoo list` prints them.
SIZES = """dcgan test batch=3 side=16 channels=3 features=4 blocks=0 latent=6
vae test batch=3 side=16 channels=3 features=4 blocks=3 latent=5
pix2pix test batch=2 side=64 channels=3 features=2 blocks=6 latent=0
cyclegan test batch=2 side=16 channels=3 features=3 blocks=2 latent=0
fsrcnn test batch=2 side=11 channels=1 features=9 blocks=3 latent=0
fast_style test batch=2 side=24 channels=3 features=3 blocks=2 latent=0
hifigan test batch=2 side=5 channels=7 features=32 blocks=0 latent=0
sngan test batch=3 side=16 channels=3 features=3 blocks=0 latent=0
taesd test batch=2 side=3 channels=4 features=6 blocks=0 latent=0
ldm_decoder test batch=2 side=3 channels=4 features=32 blocks=0 latent=0
esrgan test batch=2 side=7 channels=3 features=6 blocks=2 latent=0
cond_gan test batch=3 side=12 channels=3 features=8 blocks=10 latent=7
sam_upscaler test batch=2 side=5 channels=0 features=16 blocks=0 latent=0"""


class Skip(Exception):
    pass


def found_above(paths, names):
    for path in paths:
        folder = os.path.dirname(os.path.abspath(path))
        while True:
            for name in names:
                if os.path.exists(os.path.join(folder, name)):
                    return os.path.join(folder, name)
            if folder == os.path.dirname(folder):
                break
            folder = os.path.dirname(folder)
    return None


def compiler_of(unfurl, exporter):
    """The words that compile a program, or None and the reason."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    header = found_above((unfurl, exporter), ["include/unfurl/unfurl.h"])
    include = os.environ.get("UNFURL_INCLUDE") or header and os.path.dirname(os.path.dirname(header))
    library = os.environ.get("UNFURL_LIBRARY") or found_above((unfurl,), ["src/libunfurl.so", "lib/libunfurl.so",
                                                                          "lib64/libunfurl.so"])
    for what, got in (("C compiler", compiler), ("headers", include), ("libunfurl.so", library)):
        if not got:
            return None, f"no {what}"
    folder = os.path.dirname(os.path.abspath(library))
    return [*compiler.split(), f"-I{include}", library, f"-Wl,-rpath,{folder}"], ""


class Bench:
    def __init__(self, unfurl, exporter, folder):
        self.unfurl, self.exporter, self.folder = os.path.abspath(unfurl), exported.loaded(exporter), folder
        self.compiler, self.reason = compiler_of(unfurl, exporter)
        self.counts = {"ok": 0, "FAIL": 0, "skip": 0}
        self.with_code = 0

    def one(self, name, make):
        """make() gives (module, {input: tensor}, keywords of export)."""
        start, verdict, said, heard = time.time(), "ok", "", io.StringIO()
        try:
            with contextlib.redirect_stdout(heard), contextlib.redirect_stderr(heard):
                torch.manual_seed(5)
                said = self.check(name, *make())
        except Skip as reason:
            verdict, said = "skip", str(reason)
        except self.exporter.Refused as reason:
            verdict, said = "FAIL", f"refused: {reason}"
        except SystemExit as reason:
            verdict, said = "FAIL", str(reason)
        except Exception as reason:  # pylint: disable=broad-except
            last = traceback.extract_tb(reason.__traceback__)[-1]
            verdict, said = "FAIL", f"{type(reason).__name__}: {reason} ({os.path.basename(last.filename)} line {last.lineno})"
        self.line(verdict, name, said, time.time() - start)

    def line(self, verdict, name, said, seconds):
        self.counts[verdict] += 1
        said = " | ".join(said.strip().splitlines()[:6])[:700]
        print(f"{verdict:4} {name}: {said} ({seconds:.1f} s)", flush=True)

    def refused(self, name, make, words):
        start = time.time()
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                torch.manual_seed(5)
                module, inputs, keywords = make()
                self.exporter.export(module, inputs, f"{self.folder}/refused.h5", **keywords)
            verdict, said = "FAIL", "was exported, and has to be refused"
        except self.exporter.Refused as reason:
            lacks = [word for word in words if word not in str(reason)]
            verdict, said = ("FAIL", f"no {lacks} in: {reason}") if lacks else ("ok", f"refused, as it has to be: {reason}")
        except Skip as reason:
            verdict, said = "skip", str(reason)
        except Exception as reason:  # pylint: disable=broad-except
            verdict, said = "FAIL", f"{type(reason).__name__}: {reason}"
        self.line(verdict, name, said, time.time() - start)

    def command(self, python, exporter):
        """The exporter as a process of its own, with weights from a file."""
        start, weights = time.time(), f"{self.folder}/weights.pth"
        torch.save(exported.Attention().state_dict(), weights)
        words = [python, exporter, f"{HERE}/exported.py:Attention", weights, f"{self.folder}/command.h5", "--input",
                 "tokens=2,5,12", "--reference", f"{self.folder}/command_reference.h5"]
        status, said = zoo_models.run(*words)
        if status == 0:
            status, said = zoo_models.run(self.unfurl, "run", words[4], "--check", words[-1])
        self.line("ok" if status == 0 else "FAIL", "command.Attention", said.replace(self.folder, ""), time.time() - start)

    def check(self, name, module, inputs, keywords):
        limit = keywords.pop("limit", "1e-5")
        path, reference = f"{self.folder}/{name}.h5", f"{self.folder}/{name}_reference.h5"
        text = self.exporter.export(module, inputs, path, reference=reference, **keywords)
        worst = []
        for dtype in ("f32", "f64"):
            words = [self.unfurl, "run", path, "--check", reference, "--device", "cpu", "--dtype", dtype, "--limit",
                     limit if dtype == "f32" else "1e-6"]
            status, said = zoo_models.run(*words)
            zoo_models.demand(status == 0, ["run --check", dtype], said)
            worst.append(said.strip().splitlines()[-1].replace(path, "").strip(": "))
        done = subprocess.run([self.unfurl, "codegen", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        zoo_models.demand(done.returncode == 0 and "uf_program" in done.stdout, ["codegen"], done.stderr)
        lines = done.stdout.count("\n")
        if self.compiler is None:
            return f"{worst[0]}; {lines} lines of C, not compiled ({self.reason})"
        outputs = re.findall(r'^output "?([^"\s]+)"? =', text, re.M)
        zoo_models.check_code(self.unfurl, self.compiler, name, list(inputs), outputs, path, reference, self.folder)
        self.with_code += 1
        return f"{worst[0]}; {lines} lines of C, the same bits"


def example(shape):
    return torch.randint(shape[0], shape[1:]) if isinstance(shape, list) else torch.randn(shape)


def cases(bench):
    sizes = {line.split()[0]: {key: int(number) for key, number in (item.split("=") for item in line.split()[2:])}
             for line in SIZES.splitlines()}

    def zoo(model):
        network, inputs = zoo_torch.make(model, sizes[model])
        _, names, outputs = zoo_torch.NETWORKS[model]
        return network, dict(zip(names, inputs)), {"output_names": list(outputs), "in_place": model in zoo_models.IN_PLACE}

    def known(network, shapes):
        torch.manual_seed(3)
        inputs = {key: example(shape) for key, shape in shapes.items()}
        return network(), inputs, {}

    def small(case, words):
        module = case()
        given = [bench.exporter.parse_input(word) for word in words]
        return module, {name: bench.exporter.example_of(module, shape, i64) for name, shape, i64 in given}, {}

    for model in sizes:
        yield f"zoo.{model}", lambda model=model: zoo(model), None
    for kind, networks in (("known", known_networks.NETWORKS), ("strangers", stranger_networks.NETWORKS)):
        for network, shapes in networks.items():
            yield f"{kind}.{network.__name__}", lambda network=network, shapes=shapes: known(network, shapes), None
    for kind, script in (("layers", exported), ("idioms", exported_idioms)):
        for case, words in script.CASES.items():
            yield f"{kind}.{case.__name__}", lambda case=case, words=words: small(case, words), None
    for case, (status, *expected) in exported.REFUSED.items():
        yield (f"refused.{case.__name__}", lambda case=case: small(case, ["x=1,3,4,4"]),
               [word for word in expected if not word.startswith(("exported.py line", "the module (Hidden"))])
    yield from any_torch_cases.cases(Skip)


def main():
    unfurl, python, exporter = sys.argv[1:4]
    only = sys.argv[4:]
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(unfurl, exporter, folder)
        print(f"Python {sys.version.split()[0]}, torch {torch.__version__}, "
              f"{'compiling with ' + ' '.join(bench.compiler[:1]) if bench.compiler else 'not compiling: ' + bench.reason}")
        for name, make, words in cases(bench):
            if only and not any(word in name for word in only):
                continue
            if words is None:
                bench.one(name, make)
            else:
                bench.refused(name, make, words)
        if not only or "command" in only:
            bench.command(python, exporter)
    count = bench.counts
    print(f"{sum(count.values())} cases: {count['ok']} ok, {count['FAIL']} failed, {count['skip']} skipped; "
          f"{bench.with_code} compiled with the same bits")
    sys.exit(1 if count["FAIL"] or not count["ok"] else 0)


if __name__ == "__main__":
    main()
