/* isa.c - which instruction set the CPU kernels use. */
#include "kernels/cpu/isa.h"

uf_cpu_isa uf_cpu_isa_detect(void) {
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx512f")) {
        return UF_ISA_AVX512;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        return UF_ISA_AVX2;
    }
#endif
    return UF_ISA_BASELINE;
}

const char *uf_cpu_isa_name(uf_cpu_isa isa) {
    static const char *const names[UF_ISA_COUNT] = {"baseline", "AVX2", "AVX-512"};
    return names[isa];
}
