/* activation_double.h - the second derivatives of activations. */
#ifndef UF_KERNELS_ACTIVATION_DOUBLE_H
#define UF_KERNELS_ACTIVATION_DOUBLE_H

#include <unfurl/ops.h>

#include "core/tensor.h"

UF_BEGIN_DECLS

/* activation_double_backward: grad_source (+)= grad_output * grad * f''(source): backward through
 * grad * f'(source), where `source` is what the derivative reads (uf_activation_reads) and f'' is
 * the derivative of f' by it. It takes curved kinds alone, which have one parameter. One type; bf16
 * computes in f32. grad_source may be grad_output's memory. */
typedef struct uf_activation_double_kernel_args {
    uf_activation activation;
    uf_view source, grad_output, grad;
    uf_view grad_source;
    uf_write_mode mode; /* of grad_source */
} uf_activation_double_kernel_args;

/* Is f'' other than 0 anywhere but at jumps? */
static inline bool uf_activation_is_curved(uf_activation_kind kind) {
    switch (kind) {
#define UF_CURVED(name, function, second)                                                          \
    case UF_ACTIVATION_##name:                                                                     \
        return true;
#define UF_STRAIGHT(name)                                                                          \
    case UF_ACTIVATION_##name:                                                                     \
        return false;
#include "kernels/activation_curves.def"
#undef UF_CURVED
#undef UF_STRAIGHT
    case UF_ACTIVATION_COUNT:
        break;
    }
    return false;
}

uf_status uf_activation_double_check(const uf_activation_double_kernel_args *args);

UF_END_DECLS

#endif
