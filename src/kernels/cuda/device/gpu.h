/* gpu.h - one description of a GPU, read once when a context is made: everything that a plan may
 * ask of the device. Needs no GPU and no toolkit. */
#ifndef UF_KERNELS_CUDA_DEVICE_GPU_H
#define UF_KERNELS_CUDA_DEVICE_GPU_H

#include <unfurl/export.h>

UF_BEGIN_DECLS

typedef struct uf_gpu {
    int capability; /* of the code that runs: 90 is 9.0 */
    int multiprocessors;
    int shared_per_block; /* bytes of shared memory that one block may have */
    double cycles_per_microsecond;
} uf_gpu;

/* The GPU that costs were measured on (select/gpu_h200.def), for plans that are made without a GPU.
 */
uf_gpu uf_gpu_h200(void);

UF_END_DECLS

#endif
