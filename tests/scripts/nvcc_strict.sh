# scripts/nvcc-strict fails where ptxas spills or synchronises wgmma products, and only there. A compiler that is made
# up says what nvcc would; the tests cuda.strict_* have the true one.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

cat >compiler <<'X'
#!/bin/bash
echo "ptxas $1" >&2
touch "$3"
exit "$4"
X
chmod +x compiler

# strict STATUS MESSAGE COMPILED: a compiler that says MESSAGE and ends with COMPILED ends with STATUS here, its message
# is passed on, and an object is left exactly where STATUS is that of the compiler.
strict() {
    local status=0 object=false kept=false
    rm -f object.o
    "$root/scripts/nvcc-strict" ./compiler "$2" -o object.o "$3" >said 2>&1 || status=$?
    [[ -e object.o ]] && object=true
    [[ $1 == "$3" ]] && kept=true
    if [[ $status != "$1" || $object != "$kept" ]] || ! grep -qF "ptxas $2" said; then
        echo "\"$2\", $3: status $status in place of $1, object: $object in place of $kept; it said:"
        cat said
        exit 1
    fi
}
spills="warning : Registers are spilled to local memory in function '_Z5spillPf', 4 bytes spill stores"
strict 0 "info    : Used 32 registers" 0
strict 0 "info    : (C7507) something else" 0
strict 0 "info    : (C7521) something else" 0
strict 2 "error   : syntax" 2
strict 1 "$spills" 0
strict 2 "$spills" 2
for number in 7508 7510 7519 7520; do
    strict 1 "info    : (C$number) warpgroup.arrive is injected in around line 5 by compiler" 0
done
