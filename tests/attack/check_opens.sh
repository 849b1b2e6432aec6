#!/bin/bash
# check_opens.sh ATTACK_LOAD FOLDER DATA - a load of a file from a stranger opens that file and no other, starts no
# program and talks to nobody: watched by strace. FOLDER has the files of `attack_load make`, DATA those of tests/data/h5.
set -euo pipefail

load=$1 folder=$2 data=$3
if ! command -v strace >/dev/null; then
    echo "skipped: strace is not installed"
    exit 77
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
if ! strace -o log true 2>/dev/null; then
    echo "skipped: strace may not watch a process here"
    exit 77
fi
# What links of the file lead to is there to be opened.
cp "$data"/*.h5 "$folder"/{a,packed,keras}.h5 "$folder"/a.safetensors .
cp "$folder/a.h5" other.h5

# The program's own business: libraries, what the C library asks the system, and the output.
expected='^(/etc/ld\.so\..*|.*\.so(\.[0-9.]+)?|/proc/.*|/sys/devices/system/.*|out\.txt)$'
faults=0
for file in *.h5 a.safetensors; do
    how=untrusted store=empty
    if [[ $file == keras.h5 ]]; then
        how=keras store=declared
    fi
    rm -f out.txt
    strace -f -o log -e trace=open,openat,creat,socket,connect,execve,kill,ptrace \
        "$load" load "$file" "$how" "$store" out.txt >said 2>&1 || true
    opened=$(grep -oE '(open|openat|creat)\([^"]*"[^"]*"' log | sed 's/.*"\(.*\)"/\1/' | grep -vE "$expected" | sort -u)
    others=$(grep -E '(socket|connect|kill|ptrace)\(|execve\(' log | grep -vcE "execve\\(\"$load\"" || true)
    if [[ $opened != "$file" || $others != 0 ]]; then
        echo "a load of $file opens $(tr '\n' ' ' <<<"$opened"); other calls: $others"
        grep -vE '\.so[."]' log
        faults=1
    fi
    echo "$file: $(cat said)"
done
exit $faults
