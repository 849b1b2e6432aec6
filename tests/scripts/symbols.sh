#!/bin/bash
# symbols.sh LIBRARY - the shared library exports what the public headers declare and nothing else, and
# needs no other libraries than it should.
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

library=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

nm --dynamic --defined-only "$library" | awk '{ print $NF }' | sed 's/@.*//' | sort >"$work/exported"
# A declaration begins with UF_API; its name is the word before the first parenthesis.
cat "$root"/include/unfurl/*.h | grep -v '^#' | tr '\n' ' ' | grep -oE 'UF_API [^;()]*\(' | grep -v '__' |
    sed -E 's/.*[^a-z0-9_](uf_[a-z0-9_]+) *\($/\1/' | sort -u >"$work/declared"
[[ -s $work/declared ]]
diff --label declared --label exported "$work/declared" "$work/exported"

unexpected=$(readelf --dynamic "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
    grep -vE '^(libhdf5.*|libpng16|libjpeg|libz|libm|libc|libpthread)\.so|^ld-linux' || true)
if [[ -n $unexpected ]]; then
    echo "$library needs $unexpected" >&2
    exit 1
fi
echo "$(wc -l <"$work/exported") symbols"
