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

has_gpu() {
    command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q '^GPU'
}

# The value of UNFURL_CUDA for what is built to run here: without a GPU, kernels would be compiled for nobody.
cuda_of_this_machine() {
    if has_gpu; then
        say AUTO
    else
        say OFF
    fi
}

# help_of SCRIPT: the comment at its beginning.
help_of() {
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$1"
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

# unpack_debs DEBS FOLDER: Debian packages (DEBS/*.deb, or unpacked in DEBS/root) for a machine that lacks them and
# may install none. Their files go under FOLDER, where the compiler, CMake, pkg-config and the loader are told to look;
# `flags` is what a compiler wants besides. Without such packages nothing happens.
flags=""
unpack_debs() {
    local debs=$1 packages=$2 deb libraries
    if [[ -d $debs/root && ! -d $packages ]]; then
        mkdir -p "$(dirname "$packages")"
        cp -r "$debs/root" "$packages"
    elif compgen -G "$debs/*.deb" >/dev/null && [[ ! -d $packages ]]; then
        mkdir -p "$packages"
        for deb in "$debs"/*.deb; do
            dpkg -x "$deb" "$packages"
        done
    fi
    [[ -d $packages ]] || return 0
    find "$packages" -name '*.pc' -exec sed -i "s|\([=LI]\)/usr\>|\1$packages/usr|" {} +
    libraries=$packages/usr/lib/$(uname -m)-linux-gnu
    export PKG_CONFIG_PATH=$libraries/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
    export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LIBRARY_PATH=$libraries${LIBRARY_PATH:+:$LIBRARY_PATH}
    export CMAKE_INCLUDE_PATH=$packages/usr/include
    # shellcheck disable=SC2034
    flags="-isystem $packages/usr/include"
}
