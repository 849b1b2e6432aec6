# scripts/same-code tells what changed between two lists of kernels: nothing, a name, code, and what is gone or new.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
command -v python3 >/dev/null || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# same STATUS OLD NEW LINE: the comparison ends with STATUS and prints LINE.
same() {
    local status=0
    "$root/scripts/same-code" compare "$2" "$3" ${5:+"$5"} >out.txt || status=$?
    if [[ $status != "$1" ]] || ! grep -qF "$4" out.txt; then
        echo "$2 and $3: status $status in place of $1, or no line '$4' in:"
        cat out.txt
        exit 1
    fi
}

printf '%s\n' 'aaaa void k<3>(float*)' 'bbbb void k<4>(float*)' 'cccc add(int)' >old.txt
printf '%s\n' 'cccc add(int)' 'bbbb void k<4>(float*)' 'aaaa void k<3>(float*)' >order.txt
printf '%s\n' 'aaaa void gemm<3>(float*)' 'bbbb void gemm<4>(float*)' 'cccc add(int)' >renamed.txt
printf '%s\n' 'aaaa void k<3>(float*)' 'dddd void k<4>(float*)' 'cccc add(int)' >changed.txt
printf '%s\n' 'aaaa void k<3>(float*)' 'bbbb void k<4>(float*)' >less.txt
echo '\bk< -> gemm<' >map.txt
same 0 old.txt old.txt "3 kernels the same, 0 the same under another name"
same 0 old.txt order.txt "3 kernels the same"
same 0 old.txt renamed.txt "1 kernels the same, 2 the same under another name"
same 0 old.txt renamed.txt "3 kernels the same, 0 the same under another name" map.txt
same 1 old.txt changed.txt "changed  void k<4>(float*)"
same 1 old.txt less.txt "gone     add(int)"
same 1 less.txt old.txt "new      add(int)"
