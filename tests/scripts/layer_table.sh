#!/bin/bash
# layer_table.sh - docs/benchmark-layers.md has the layers of bench/*.json as scripts/layer-table.sh writes them, and
# no name is in two of the lists.
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$root/scripts/layer-table.sh" >"$work/table"
sed -n '/^## /,$p' "$root/docs/benchmark-layers.md" >"$work/page"
sed -n '/^## /,$p' "$work/table" | diff -U 0 --label docs/benchmark-layers.md --label bench "$work/page" - ||
    die "docs/benchmark-layers.md has other layers than bench: write its tables anew with scripts/layer-table.sh"
names=$(sed -n 's/^| \([a-z][a-z0-9_]*\) |.*/\1/p' "$work/table" | grep -vx layer)
layers=$(grep -c '"name"' <(cat "$root"/bench/shapes*.json))
[[ $(wc -l <<<"$names") == "$layers" ]] || die "$(wc -l <<<"$names") rows for $layers layers"
! grep -qF '?' "$work/table" || die "a layer lacks something: $(grep -F '?' "$work/table")"
twice=$(sort <<<"$names" | uniq -d)
[[ -z $twice ]] || die "in two lists: $twice"
say "$layers layers"
