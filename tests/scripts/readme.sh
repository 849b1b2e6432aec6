#!/bin/bash
# readme.sh BUILD - what README.md shows is true: its commands run, its programs compile (as C11 and as
# C++17) and run, its Python writes a file that unfurl reads as PyTorch wrote it. A comment before a block says how:
#   test: file NAME    the block is written to the file NAME
#   test: run          each line is run in a folder with those files, weights/, examples/ and tests/
#   test: excerpt FILE each line is one of FILE
#   test: help         programs of the tree that are not run here: they exist, and their --help names every option
#   test: export       run with the generator of weights/ as a module of PyTorch; skipped as the next
#   test: python       run after a model has been made; skipped where torch or h5py is not installed
#   test: build        the commands that made BUILD; the preset must exist
#   test: ci           .ci/run must run the command, which builds the whole tree
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "README.md: $*" >&2
    exit 1
}

cmake --install "$build" --prefix "$work/prefix" >"$work/install.log"
pc=$(find "$work/prefix" -name unfurl.pc)
export PATH=$work/prefix/bin:$PATH PKG_CONFIG_PATH=${pc%/*} LD_LIBRARY_PATH=${pc%/*}/..

mkdir "$work/here"
cd "$work/here"
ln -s "$root/weights" "$root/examples" "$root/tests" "$root/scripts" .
mkdir build
ln -s "$build" build/release

try_python() { # BLOCK
    local python=/usr/bin/python3
    if ! "$python" -c 'import torch, h5py' 2>/dev/null; then
        echo "README.md: the Python block was not tried: torch or h5py is not installed"
        return
    fi
    cat >export.py <<'P'
import torch
from torch import nn

class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(10, 24, 4, 1, 0, bias=False), nn.BatchNorm2d(24), nn.ReLU(True),
            nn.ConvTranspose2d(24, 12, 4, 2, 1, bias=False), nn.BatchNorm2d(12), nn.ReLU(True),
            nn.ConvTranspose2d(12, 3, 4, 2, 1, bias=False), nn.Tanh())

    def forward(self, z):
        return self.main(z)

torch.manual_seed(1)
model = Generator()
for _ in range(3):
    model(torch.randn(16, 10, 1, 1))  # gives the running statistics values of their own
P
    cat "$1" >>export.py
    cat >>export.py <<'P'
z = torch.randn(5, 10, 1, 1)
with h5py.File("z.h5", "w") as f:
    f["z"] = z.numpy()
with torch.no_grad():
    expected = model.double().eval()(z.double()).numpy()
import subprocess
subprocess.run(["unfurl", "generate", "--weights", "generator.h5", "--latent", "z.h5:/z",
                "--dtype", "f64", "--out", "exported.h5"], check=True, stdout=subprocess.DEVNULL)
with h5py.File("exported.h5") as f:
    error = abs(f["images"][:] - expected).max()
print("README.md: exported from PyTorch, largest difference", error)
assert error <= 1e-12, error
P
    "$python" export.py
}

try_export() { # BLOCK
    local python=/usr/bin/python3 line
    if ! "$python" -c 'import torch, h5py' 2>/dev/null; then
        echo "README.md: the exporter was not tried: torch or h5py is not installed"
        return
    fi
    cat >generator.py <<'P'
from torch import nn

class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        widths = [64, 256, 128, 64, 32, 1]
        layers = []
        for i, (before, after) in enumerate(zip(widths, widths[1:])):
            layers += [nn.ConvTranspose2d(before, after, 4, 2 if i else 1, 1 if i else 0, bias=False)]
            layers += [nn.BatchNorm2d(after), nn.ReLU(True)] if after > 1 else [nn.Tanh()]
        self.main = nn.Sequential(*layers)

    def forward(self, z):
        return self.main(z)
P
    "$python" - <<'P'
import h5py, numpy, torch
from generator import Generator
model = Generator()
with h5py.File("weights/dcgan_fashion_mnist.h5") as file:
    model.load_state_dict({name: torch.from_numpy(numpy.asarray(file[name])) for name in model.state_dict()})
torch.save(model.state_dict(), "weights.pth")
P
    cp "$work/prefix/share/unfurl/unfurl_export.py" .
    while IFS= read -r line; do
        echo "$ $line"
        PATH=/usr/bin:$PATH bash -euo pipefail -c "$line" </dev/null || fail "'$line' failed"
    done <"$1"
    # shellcheck disable=SC2046 # flags are words
    cc -std=c11 -Wall -Wextra -Werror model.c -o model $(pkg-config --cflags --libs unfurl) -lm ||
        fail "the C program that codegen prints does not compile"
    [[ $(head -c 4 out.png) == $'\x89PNG' ]] || fail "out.png is no picture"
}

try_help() { # BLOCK
    local line program option group
    while IFS= read -r line; do
        line=${line%%#*}
        program=${line%% *}
        if [[ $program == build/release/examples/* && ! -d build/release/examples ]]; then
            continue # a build without examples
        fi
        [[ -x $program ]] || fail "there is no program $program"
        if [[ $program == scripts/install-packages.sh ]]; then
            for group in ${line#* }; do
                grep -q "^$group " "$root/scripts/packages.txt" || fail "packages.txt has no group $group"
            done
            continue
        fi
        for option in $(grep -oE -- '--[a-z-]+' <<<"$line"); do
            "$program" --help | grep -qE -- "$option([] ]|\$)" || fail "$program has no option $option"
        done
    done <"$1"
}

use() { # KIND ARGUMENT BLOCK
    local kind=$1 argument=$2 block=$3 line
    case $kind in
    file)
        cp "$block" "$argument"
        if [[ $argument == *.c ]]; then
            local flags
            flags="-Wall -Wextra -Wpedantic -Werror $(pkg-config --cflags unfurl)"
            # shellcheck disable=SC2086 # flags are words
            cc -std=c11 $flags -c "$argument" -o /dev/null && c++ -std=c++17 $flags -x c++ -c "$argument" -o /dev/null ||
                fail "$argument does not compile as C11 and C++17"
        fi
        ;;
    run)
        while IFS= read -r line; do
            echo "$ $line"
            bash -euo pipefail -c "$line" </dev/null || fail "'$line' failed"
        done <"$block"
        ;;
    excerpt)
        while IFS= read -r line; do
            grep -qxF -- "$line" "$root/$argument" || fail "$argument has no line '$line'"
        done <"$block"
        ;;
    help) try_help "$block" ;;
    python) try_python "$block" ;;
    export) try_export "$block" ;;
    build)
        grep -q "^cmake --preset release" "$block"
        while IFS= read -r line; do
            for preset in $(grep -oE -- '--preset [a-z]+|# or .*' <<<"$line" | grep -oE '\b(release|dev|asan|tsan|tidy)\b'); do
                grep -q "\"name\": \"$preset\"" "$root/CMakePresets.json" || fail "there is no preset $preset"
            done
        done <"$block"
        ;;
    ci)
        while read -r line; do
            line=$(sed 's/ *#.*//' <<<"$line")
            [[ -x $root/${line%% *} ]] && grep -qE "^$line( |\$)" "$root/.ci/run" || fail "$line is not run by .ci/run"
        done <"$block"
        ;;
    *) fail "unknown mark 'test: $kind'" ;;
    esac
}

kind='' argument='' inside='' used=0
while IFS= read -r line; do
    if [[ -z $inside && $line =~ ^'<!-- test: '([a-z]+)' '?(.*)' -->'$ ]]; then
        kind=${BASH_REMATCH[1]} argument=${BASH_REMATCH[2]}
    elif [[ -z $inside && $line == '```'* ]]; then
        inside=yes
        : >"$work/block"
    elif [[ $line == '```' ]]; then
        inside=''
        if [[ -n $kind ]]; then
            use "$kind" "$argument" "$work/block"
            used=$((used + 1))
        fi
        kind=''
    elif [[ -n $inside ]]; then
        printf '%s\n' "$line" >>"$work/block"
    fi
done <"$root/README.md"

((used >= 10)) || fail "only $used marked blocks found"
for picture in photo@2x.png generated.png images.h5 sample.png disc.h5; do
    [[ -s $picture ]] || fail "$picture was not written"
done
echo "README.md: $used blocks are true"
