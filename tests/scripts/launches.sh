#!/bin/bash
# launches.sh - kernels overlap (src/kernels/cuda/README.md): each waits for the one before it, and uf_cuda_launch launches
# it. The machine code is looked at on a machine with the toolkit (scripts/gpu-check.sh, step waits); its reader is tried
# here.
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

# check FOLDER: print each kernel below FOLDER that does not wait, and each launch that is not uf_cuda_launch's; fail if
# there is one, or no kernel.
check() {
    find "$1" \( -name '*.cu' -o -name '*.cuh' \) -print0 | sort -z | xargs -0 awk '
        function bad(text) { print FILENAME ":" text; broken = 1 }
        function close_kernel() {
            if (kernel && !waits) bad(kernel ": a kernel does not wait")
            kernel = 0
        }
        FNR == 1 { kernel = 0 }
        /__global__/ { close_kernel(); kernel = FNR; waits = 0; ++kernels }
        /uf_(overlap_launches|wait_for_launcher)\(\);/ { waits = 1 }
        /<<</ { bad(FNR ": a launch without uf_cuda_launch") }
        /^}|^    } +\\$/ { close_kernel() } # the second in a macro
        END {
            if (!kernels) print "no kernels"
            else if (!broken) print kernels " kernels"
            exit broken || !kernels
        }'
}

check "$root/src"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/good.cu" <<'END'
static __global__ void one(int *p) {
    uf_overlap_launches();
    *p = 1;
}
#define KERNEL(name)                \
    static __global__ void name() { \
        uf_wait_for_launcher();     \
    }                               \
    static void launch_##name() {   \
    }
END
[[ $(check "$work") == "2 kernels" ]] || die "finds no 2 kernels: $(check "$work")"
for edit in '/overlap/d' '/wait_for/d' 's/\*p = 1/two<<<1, 1>>>()/'; do
    sed "$edit" "$work/good.cu" >"$work/bad.cu"
    if check "$work" >"$work/out.txt" || ! grep -q '/bad.cu:[0-9]*: a ' "$work/out.txt"; then
        die "does not find what is wrong after $edit: $(cat "$work/out.txt")"
    fi
done

# early WAIT CAPABILITY ACCESS...: what the reader of machine code says of a kernel with these lines before and after WAIT.
early() {
    local wait=$1 capability=$2
    shift 2
    printf '%s\n' "	code for sm_$capability" \
        "		Function : before" "        /*0010*/   ACQBULK ;" "        /*0020*/   LDG.E R1, [R2] ;" \
        "		Function : kernel" "        /*0010*/   LDC R1, c[0x0][0x28] ;" "        /*0020*/   LDS R1, [R2] ;" \
        "$@" "        /*0040*/   $wait ;" "        /*0050*/   @P0 STG.E desc[UR4][R2.64], R1 ;" |
        awk -v object=x.o -f "$root/scripts/early-accesses.awk"
}
[[ -z $(early ACQBULK 90a) ]] || die "the reader finds an access before the wait where there is none: $(early ACQBULK 90a)"
[[ $(early NOP 90a) == "x.o kernel without a wait: STG.E desc[UR4][R2.64], R1 " ]] || die "the reader says: $(early NOP 90a)"
[[ -z $(early NOP 89) ]] || die "code for 8.9 cannot wait"
for access in "LDG.E.CONSTANT R1, [R2]" \
    "@!P1 LDGSTS.E [R1], [R2]" "UTMALDG.2D [UR1], [UR2]" "UBLKCP [UR1], [UR2]" "RED.E.MAX [R1], R2"; do
    [[ $(early ACQBULK 90a "        /*0030*/   $access ;") == "x.o kernel before the wait: ${access#@!P1 } " ]] ||
        die "the reader does not find $access: $(early ACQBULK 90a "        /*0030*/   $access ;")"
done
