#!/bin/bash
# include_order.sh - the folders of src/ form an order: a file includes headers of its own folder and of those that the
# table in docs/architecture.md says its folder knows. That table is the one place where the order is written.
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

# check HOUSE: print each line of HOUSE/src and of HOUSE's table that breaks the order; fail if there is one.
check() {
    (cd "$1" && {
        sed -n 's/^| `src\/\([^`]*\)\/` |\([^|]*\)|.*/row \1 \2/p' docs/architecture.md | tr -d '`,'
        find src -type f -printf 'file %P\n'
        # UF_VARIANTS_OF names what kernels/cpu/variants.inc includes.
        grep -rnE '^[[:space:]]*#[[:space:]]*(include[[:space:]]*["<]|define UF_VARIANTS_OF )' src | sed 's/^/include /'
    } | awk '
        # The row with the longest name that is a folder around `path`.
        function folder(path) {
            while (sub(/\/[^\/]*$/, "", path))
                if (path in rows) return path
            return ""
        }
        function bad(text) { print text; broken = 1 }
        $1 == "row" {
            for (i = 3; i <= NF; ++i) {
                if (!($i in rows)) bad("src/" $2 "/ knows " $i ", which has no row above it")
                knows[$2, $i]
            }
            rows[$2]
            knows[$2, $2]
        }
        $1 == "file" && $2 != "CMakeLists.txt" {
            files[$2]
            if (folder($2) == "") bad("src/" $2 " is in a folder without a row")
        }
        $1 == "include" {
            ++includes
            split($2, place, ":")
            from = folder(substr(place[1], 5))
            path = $0
            sub(/^[^"<]*["<]/, "", path)
            sub(/[">].*/, "", path)
            # A system header stands in angle brackets; a header of src/ in them is found through -I all the same.
            if (!(path in files)) {
                if ($0 !~ /</) bad(place[1] ":" place[2] ": " path " is no path from src/")
            } else if (!((from, folder(path)) in knows))
                bad(place[1] ":" place[2] ": " from " does not know " folder(path) " (" path ")")
        }
        END {
            if (!length(rows) || !length(files) || !includes) bad("no rows, no files or no includes")
            else if (!broken) print includes " includes between " length(rows) " folders"
            exit broken
        }')
}

check "$root"

# Each of these changes of a copy has to be found, with this message.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
refused() {
    local file=$1 edit=$2 message=$3
    rm -rf "$work/house"
    mkdir -p "$work/house/docs"
    cp -r "$root/src" "$work/house/src"
    cp "$root/docs/architecture.md" "$work/house/docs"
    sed -i -E "$edit" "$work/house/$file"
    if check "$work/house" >"$work/out.txt" || ! grep -qF "$message" "$work/out.txt"; then
        die "after '$edit' in $file: no '$message' in: $(cat "$work/out.txt")"
    fi
}
table=docs/architecture.md
refused src/core/index.c '1i #include "graph/graph.h"' \
    'src/core/index.c:1: core does not know graph (graph/graph.h)'
refused src/graph/program.h '1i #  include <train/gradcheck.c>' \
    'src/graph/program.h:1: graph does not know train (train/gradcheck.c)'
refused src/kernels/cpu/table.c '1i #include "kernels/cuda/device/backend.h"' \
    'src/kernels/cpu/table.c:1: kernels/cpu does not know kernels/cuda (kernels/cuda/device/backend.h)'
refused src/layers/pad.c '1i #include "../ops/ops.h"' \
    'src/layers/pad.c:1: ../ops/ops.h is no path from src/'
refused $table '/^\| `src\/io\//d' 'src/io/foreign.c is in a folder without a row'
refused $table 's/(^\| `src\/core\/` \|)/\1 `graph`/' 'src/core/ knows graph, which has no row above it'
