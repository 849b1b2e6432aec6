# scripts/same-code tells what changed between two lists of kernels: nothing, a name, code, and what is gone or new.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
command -v python3 >/dev/null && command -v c++filt >/dev/null || exit 77
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

# Machine code out of objects, made by hand: kernels NAME=CODE,LITERAL,REGISTERS in a cubin in an object of the host.
cat >object.py <<'END'
import struct, sys

def elf(machine, sections):
    names, body, headers = b"\0", b"", [bytes(64)]
    for name, kind, link, content in sections + [(".shstrtab", 3, 0, b"")]:
        at, start = len(names), 64 + len(body)
        names += name.encode() + b"\0"
        content = names if name == ".shstrtab" else content
        headers.append(struct.pack("<IIQQQQIIQQ", at, kind, 0, 0, start, len(content), link, 0, 1, 0))
        body += content
    return struct.pack("<4s5B7xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 0, 0, 1, machine, 1, 0, 0, 64 + len(body), 0, 64,
                       0, 0, 64, len(headers), len(headers) - 1) + body + b"".join(headers)

strings, symbols, info, parts = b"\0", bytes(24), b"", []
for number, argument in enumerate(sys.argv[3:]):
    name, rest = argument.split("=")
    code, literal, registers = rest.split(",")
    symbols += struct.pack("<I20x", len(strings))
    strings += name.encode() + b"\0"
    info += struct.pack("<BBHII", 4, 0x2F, 8, number + 1, int(registers))
    # A relocation whose symbol's index depends on the order of the kernels.
    parts += [(".text." + name, 1, 0, code.encode()), (".nv.constant2." + name, 1, 0, literal.encode()),
              (".rela.text." + name, 4, 0, struct.pack("<QIIq", 4, 2, number + 1, 0)),
              (".nv.info." + name, 0x70000000, 0, struct.pack("<BBH", 3, 0x19, 8))]
cubin = elf(190, [(".strtab", 3, 0, strings), (".symtab", 2, 1, symbols), (".nv.info", 0x70000000, 0, info)] + parts)
if sys.argv[1] == "compressed":
    cubin = b"\x28\xb5\x2f\xfd" + cubin
entry = struct.pack("<HHIQ48x", 1, 257, 64, 8) + b".version" + struct.pack("<HHIQ48x", 2, 257, 64, len(cubin)) + cubin
fatbin = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entry)) + entry
open(sys.argv[2], "wb").write(cubin if sys.argv[1] == "cubin" else elf(62, [(".nv_fatbin", 1, 0, bytes(8) + fatbin)]))
END
kernel() { python3 object.py "$@"; }
kernel plain old.o _Z3twoi=STOP,7,32 _Z3onei=GO,8,40
kernel plain moved.o _Z3onei=GO,8,40 _Z5thirdi=STOP,7,32
kernel plain code.o _Z3twoi=STAY,7,32 _Z3onei=GO,8,40
kernel plain literal.o _Z3twoi=STOP,9,32 _Z3onei=GO,8,40
kernel plain registers.o _Z3twoi=STOP,7,33 _Z3onei=GO,8,40
kernel cubin old.cubin _Z3twoi=STOP,7,32 _Z3onei=GO,8,40
kernel compressed compressed.o _Z3onei=GO,8,40
echo 'two -> third' >map.txt
same 0 old.o old.cubin "2 kernels the same, 0 the same under another name"
same 0 old.o moved.o "1 kernels the same, 1 the same under another name"
same 0 old.o moved.o "2 kernels the same, 0 the same under another name" map.txt
same 1 old.o code.o "changed  two(int)"
same 1 old.o literal.o "changed  two(int)"
same 1 old.o registers.o "changed  two(int)"
mkdir -p build/unfurl_cuda_objects.dir
cp old.o build/unfurl_cuda_objects.dir/kernel.cu.o
"$root/scripts/same-code" list build >listed.txt
same 0 listed.txt old.o "2 kernels the same, 0 the same under another name"
if "$root/scripts/same-code" list compressed.o 2>error.txt ||
    ! grep -qF -- "-DUNFURL_CUDA_COMPRESS=none" error.txt; then
    echo "compressed kernels were not refused:"
    cat error.txt
    exit 1
fi
