# shellcheck shell=bash
# Sourced by the scripts beside it. Works with an empty environment: sets the PATH it needs, wants no HOME.

set -euo pipefail

export PATH="${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
export LC_ALL=C.UTF-8

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jobs=$(nproc)

say() {
    printf '%s\n' "$*"
}

die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# quietly WHAT LOG COMMAND...: run the command with its output in the file LOG; on failure show the end of
# that, say what failed and stop.
quietly() {
    local what=$1 log=$2
    shift 2
    mkdir -p "$(dirname "$log")"
    if ! "$@" >"$log" 2>&1 </dev/null; then
        tail -n 60 "$log" >&2
        die "$what failed; all of its output is in $log"
    fi
}

# A build for the GPU of this machine, if the driver shows one and there is a toolkit.
has_gpu() {
    command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q '^GPU'
}

# build PRESET [TARGET...]: configure with configure_options and build, everything when no target is named.
configure_options=()
build() {
    local preset=$1
    shift
    say "building ($preset; output in build/$preset.log)"
    quietly "configuring the preset $preset" "$root/build/$preset.configure.log" \
        cmake -S "$root" --preset "$preset" "${configure_options[@]}"
    quietly "building the preset $preset" "$root/build/$preset.log" \
        cmake --build "$root/build/$preset" --parallel "$jobs" ${@:+--target "$@"}
}
