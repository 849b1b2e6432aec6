/* mma_math.h - the arithmetic of a main loop on tensor cores. */
#ifndef UF_KERNELS_CUDA_MMA_MATH_H
#define UF_KERNELS_CUDA_MMA_MATH_H

#include "kernels/kernels.h"

UF_BEGIN_DECLS

/* A caller asks for a uf_math, a main loop computes with one of these; UF_MATH_FP32 has two of
 * them. The numbers are template arguments, and so a part of the kernels' names. */
typedef enum uf_mma_math {
    UF_MMA_TF32X3 = 0, /* f32 accuracy by three MMAs on two TF32 parts of each operand */
    UF_MMA_TF32,       /* operands rounded to TF32 */
    UF_MMA_BF16,       /* operands that are bf16, or rounded to it */
    UF_MMA_F16X3       /* f32 accuracy by three MMAs on two f16 parts of each, see split_f16.h */
} uf_mma_math;

/* For f32 and bf16 tensors. Only the split_f16 variants replace UF_MMA_TF32X3 by UF_MMA_F16X3. */
static inline uf_mma_math uf_mma_math_of(const uf_conv_kernel_args *args) {
    return args->x.dtype == UF_BF16 || args->math == UF_MATH_BF16 ? UF_MMA_BF16
           : args->math == UF_MATH_TF32                           ? UF_MMA_TF32
                                                                  : UF_MMA_TF32X3;
}

UF_END_DECLS

#endif
