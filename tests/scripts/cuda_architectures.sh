#!/bin/bash
# cuda_architectures.sh - for which GPUs is compiled, given the GPUs that the driver shows and the toolkit that
# is there; both are made up.
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/bin"
printf '#!/bin/sh\ncat "%s/gpus"\n' "$work" >"$work/bin/nvidia-smi"
cat >"$work/bin/nvcc" <<X
#!/bin/sh
[ "\$1" = --list-gpu-arch ] && sed 's/^/compute_/' "$work/toolkit"
X
chmod +x "$work/bin"/*
cat >"$work/list.cmake" <<X
cmake_minimum_required(VERSION 3.22)
set(PROJECT_IS_TOP_LEVEL ON)
set(UNFURL_CUDA OFF)
set(UNFURL_NVIDIA_SMI "$work/bin/nvidia-smi")
include("$root/cmake/UnfurlCuda.cmake")
unfurl_known_list(known "$work/bin/nvcc")
unfurl_native_list(native "\${known}")
unfurl_release_list(release "\${known}")
unfurl_architectures_90a(of_release_90a "\${release}")
unfurl_architectures_90a(of_native_90a "\${native}")
file(WRITE "$work/native" "\${native}")
file(WRITE "$work/release" "\${release}")
file(WRITE "$work/of_release_90a" "\${of_release_90a}")
file(WRITE "$work/of_native_90a" "\${of_native_90a}")
X

expect() { # KIND EXPECTED, of $gpus and $toolkit
    printf '%s\n' $gpus >"$work/gpus"
    printf '%s\n' $toolkit >"$work/toolkit"
    cmake -P "$work/list.cmake"
    local got
    got=$(cat "$work/$1")
    [[ $got == "$2" ]] || die "GPUs '$gpus', toolkit '$toolkit': $1 is '$got' and not '$2'"
}

toolkit="75 80 86 89 90 100 103 110 120 121"
gpus="9.0" expect native "90a-real"
gpus="9.0 9.0 8.6" expect native "90a-real;86-real"
gpus="12.1" expect native "121-real"
gpus="" expect native "90a-real"
gpus="[N/A]" expect native "90a-real"
gpus="" expect release "75-real;80-real;86-real;89-real;90a-real;100-real;120-real;120-virtual"
gpus="" expect of_release_90a "90a-real"
gpus="8.6 9.0" expect of_native_90a "90a-real"
gpus="8.9 8.6" expect of_native_90a "89-real"
# The toolkit has dropped the one, and does not know the other yet.
gpus="6.1" expect native ""
gpus="6.1 9.0" expect native "90a-real"
gpus="13.0" expect native "121-virtual"
gpus="10.1" expect native "100-virtual"
toolkit="50 60 70 75 80 86 89"
gpus="9.0" expect native "89-virtual"
gpus="" expect native "89-virtual"
# It cannot say at all.
toolkit=""
gpus="9.0" expect native ""
say "lists of architectures: right"

# With a GPU that it does not compile for, AUTO builds for the CPU and ON says why not.
printf '6.1\n' >"$work/gpus"
printf '75\n90\n' >"$work/toolkit"
configure() {
    cmake -S "$root" -B "$work/build" -DUNFURL_CUDA="$1" -DUNFURL_NVCC="$work/bin/nvcc" -DBUILD_TESTING=OFF \
        -DUNFURL_NVIDIA_SMI="$work/bin/nvidia-smi" >"$work/log" 2>&1
}
said() {
    tr -s ' \n' ' ' <"$work/log" | grep -qF "$1" || { cat "$work/log"; die "missing: $1"; }
}
configure AUTO || { cat "$work/log"; exit 1; }
said "building for the CPU: $work/bin/nvcc does not compile for the GPUs of this machine"
if configure ON; then
    die "UNFURL_CUDA=ON was configured without a use for it"
fi
said "does not compile for the GPUs of this machine"
say "AUTO and ON: right"
