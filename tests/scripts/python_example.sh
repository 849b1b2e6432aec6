#!/bin/bash
# python_example.sh BUILD - examples/python with an installed unfurl: cffi reads the headers, every public function is
# there, the picture has the bits of `unfurl generate`, a failure is an exception with the library's sentence. Skipped
# without cffi.
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

build=$1
python=/usr/bin/python3 # Debian's, which has Debian's packages
if ! "$python" -c 'import cffi, pycparser' 2>/dev/null; then
    say "python3-cffi is not installed: the example in Python is not tried"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" >"$work/install.log"
PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name unfurl.pc)")
export PKG_CONFIG_PATH PYTHONDONTWRITEBYTECODE=1
example=$(find "$work/prefix" -path '*examples/python' -type d)
weights=$root/weights/dcgan_fashion_mnist.h5

"$python" "$example/generate.py" "$weights" "$work/one.png" 7
"$work/prefix/bin/unfurl" generate --weights "$weights" --count 1 --seed 7 --device cpu --out "$work/one.h5"
cd "$work"
PYTHONPATH=$example "$python" - "$weights" "$root/tests/data/abi.txt" <<'P'
import sys
import generate
from unfurl import Error, check, create, ffi, lib

names = [line.split()[1] for line in open(sys.argv[2]) if line.startswith("symbol ")]
assert len(names) > 100, len(names)
lacking = [name for name in names if not hasattr(lib, name)]
assert not lacking, lacking
assert lib.UF_ACTIVATION_TANH == 3

options = ffi.new("uf_context_options *", lib.uf_context_options_default())
options.device = lib.UF_DEVICE_CPU
context = create(lib.uf_context_create, options)
store = create(lib.uf_store_create, context, b"expected")
check(lib.uf_store_load_hdf5(store, b"one.h5", ffi.NULL))
expected = ffi.new("float[]", 64 * 64)
check(lib.uf_tensor_download(create(lib.uf_store_tensor, store, b"images"), expected))
# The interface takes the GPU where there is one, and so does this example: there the bits are others.
image = generate.generate(sys.argv[1], 7)
if lib.uf_device_count(lib.UF_DEVICE_CUDA, ffi.NULL) == 0:
    assert ffi.buffer(image)[:] == ffi.buffer(expected)[:], "not the bits of unfurl generate"
assert max(abs(a - b) for a, b in zip(image, expected)) < 1e-4
assert ffi.buffer(generate.generate(sys.argv[1], 8))[:] != ffi.buffer(image)[:], "the seed does not count"
try:
    generate.generate("missing.h5", 7)
except Error as error:
    assert str(error).startswith("UF_ERROR_NOT_FOUND: ") and "missing.h5" in str(error), error
else:
    raise AssertionError("a missing file is no error")
print(f"{len(names)} functions, the same picture")
P
[[ $(head -c 8 one.png | od -An -tx1) == " 89 50 4e 47 0d 0a 1a 0a" ]] || die "one.png is no picture"
