/* isa.h - which instruction set the CPU kernels use. */
#ifndef UF_KERNELS_CPU_ISA_H
#define UF_KERNELS_CPU_ISA_H

typedef enum uf_cpu_isa {
    UF_ISA_BASELINE = 0,
    UF_ISA_AVX2,
    UF_ISA_AVX512,
    UF_ISA_COUNT
} uf_cpu_isa;

/* The best one that this processor and this build have. */
uf_cpu_isa uf_cpu_isa_detect(void);

/* Files whose loops the compiler turns into vectors include them once for each instruction set,
 * with UF_VARIANT(name) for the name's version and the compiler's target set, if UF_HAS_TARGETS.
 * The compiler neither reorders additions nor fuses products. UF_BY_ISA(name) are a name's
 * versions, by uf_cpu_isa. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define UF_HAS_TARGETS 1
#define UF_BY_ISA(name)                                                                            \
    { name##_baseline, name##_avx2, name##_avx512 }
#else
#define UF_HAS_TARGETS 0
#define UF_BY_ISA(name)                                                                            \
    { name##_baseline, name##_baseline, name##_baseline }
#endif

const char *uf_cpu_isa_name(uf_cpu_isa isa); /* "AVX-512" */

#endif
