#!/bin/bash
# api_docs.sh BUILD - the target `docs`: doxygen reads the public headers without a warning, every public function of the
# ABI has an entry, comments arrive whole. Skipped without doxygen.
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

build=$1
if [[ ! -e $build/Doxyfile.docs ]]; then
    say "the build tree was configured without doxygen: the reference of the API is not made"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --build "$build" --target docs >"$work/log" 2>&1 || { cat "$work/log" >&2; die "the reference cannot be made"; }
pages=$build/share/doc/unfurl/api

# text PAGE: the page without its marks, one space between words.
text() {
    sed 's/<[^>]*>//g; s/&gt;/>/g; s/&lt;/</g; s/&#160;/ /g; s/&amp;/\&/g' "$pages/$1" | tr -s ' \n' ' '
}
functions=$(sed -n 's/^symbol \(uf_[a-z0-9_]*\) .*/\1/p' "$root/tests/data/abi.txt")
(($(wc -l <<<"$functions") > 100)) || die "the ABI has $(wc -l <<<"$functions") functions"
cat "$pages"/*_8h.html >"$work/all"
for name in $functions; do
    grep -qF "</span>$name()</h2>" "$work/all" || die "$name has no entry"
done
say "$(wc -l <<<"$functions") functions"

# Formulas, signs that HTML or doxygen would take for their own, one comment for two functions, the file's own words.
expect() { # PAGE WORDS
    grep -qF -- "$2" <(text "$1") || die "$1 lacks: $2"
}
expect layers_8h.html "ConvTranspose2d: (N, C_in, H, W) -> (N, C_out, H', W'), parameters weight"
expect layers_8h.html "The same value, through which no gradient passes."
expect layers_8h.html "https://docs.pytorch.org/docs/stable/nn.html#dropout-layers"
expect ops_8h.html "x >= 0 ? x : parameter * x"
expect structuf__conv2d__params.html "0; may exceed the kernel"
expect files.html "one function per operation and direction, on memory the caller owns"
expect index.html "The C API of unfurl"
for name in uf_pixel_shuffle uf_pixel_unshuffle; do
    text layers_8h.html | grep -oE "$name\(\).{200}" | grep -qF "PixelUnshuffle, r = factor: (..., C r r, H, W) -> (" ||
        die "$name lacks its comment"
done
say "comments: ok"
