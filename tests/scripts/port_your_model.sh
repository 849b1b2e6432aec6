#!/bin/bash
# port_your_model.sh BUILD - docs/port-your-model.md with an installed unfurl: its files are written, its commands run, the
# check passes; with another slope it fails, and names the first layer that differs. Skipped without PyTorch and h5py.
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

build=$1
page=$root/docs/port-your-model.md
if ! /usr/bin/python3 -c 'import torch, h5py' 2>/dev/null; then
    say "torch or h5py is not installed: docs/port-your-model.md is not tried"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" >"$work/install.log"
pc=$(find "$work/prefix" -name unfurl.pc)
export PATH=/usr/bin:$work/prefix/bin:$PATH PKG_CONFIG_PATH=${pc%/*} LD_LIBRARY_PATH=${pc%/*}/.. PYTHONDONTWRITEBYTECODE=1
mkdir "$work/here"
cd "$work/here"

# Files are written as the page has them; commands are collected in order.
awk '
    /^<!-- test: file / { target = $4; next }
    /^<!-- test: run -->$/ { target = "commands"; next }
    /^```/ { inside = !inside && target != ""; if (!inside) target = ""; next }
    inside { print > target }' "$page"
for file in model.py export.py decoder.c check.c commands; do
    [[ -s $file ]] || die "the page has no block for $file"
done
bash -euo pipefail commands >said || { cat said; die "the commands of the page fail"; }
for words in "blocks.0.grow.weight" "^result  *[0-9.]*e-1[0-9]$" "^gradients "; do
    grep -q -- "$words" said || { cat said; die "the commands do not say '$words'"; }
done
! grep -q DIFFERS said || die "a layer differs"

sed -i 's/x, 0\.2)/x, 0.1)/' decoder.c
# shellcheck disable=SC2046 # flags are words
cc -std=c11 -Wall -Wextra -Werror check.c -o check $(pkg-config --cflags --libs unfurl) -lm
if ./check >said; then
    die "a wrong slope is not noticed"
fi
[[ $(grep -m 1 DIFFERS said) == "blocks.0 "* ]] || die "the first that differs is $(grep -m 1 DIFFERS said)"
say "docs/port-your-model.md: ok"
