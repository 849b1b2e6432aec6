/* gpu.h - everything that a plan may ask of a GPU; a context reads it once. Needs no GPU and no
 * toolkit. */
#ifndef UF_KERNELS_CUDA_DEVICE_GPU_H
#define UF_KERNELS_CUDA_DEVICE_GPU_H

#include <unfurl/export.h>

UF_BEGIN_DECLS

typedef struct uf_gpu {
    int capability;                /* compute capability of the code that runs; 90 is 9.0 */
    int multiprocessors;           /* streaming multiprocessors */
    int shared_per_block;          /* most bytes of shared memory of a block */
    double cycles_per_microsecond; /* the rate by which cost becomes time */
} uf_gpu;

/* The GPU of the measured costs (select/gpu_h200.def), for plans without a GPU. */
uf_gpu uf_gpu_h200(void);

UF_END_DECLS

#endif
