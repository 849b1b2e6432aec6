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

const char *uf_cpu_isa_name(uf_cpu_isa isa); /* "AVX-512" */

#endif
