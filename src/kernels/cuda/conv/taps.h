/* taps.h - the filter taps of one axis, sorted by the residue of the positions that they read, for
 * plans of kernels that read windows. */
#ifndef UF_KERNELS_CUDA_CONV_TAPS_H
#define UF_KERNELS_CUDA_CONV_TAPS_H

#include "kernels/kernels.h"

UF_BEGIN_DECLS

enum {
    UF_CONV_TAPS = 64, /* most taps of an axis */
    UF_CONV_KINDS = 16 /* most kinds of an axis: the largest stride */
};

/* For each tap of a kind, element j of the written side reads element (j + shift) * mul + residue.
 * dgrad has a kind for each phase (mul 1, residue 0). fprop and wgrad have one for each residue of
 * the read position (mul: the stride). */
typedef struct uf_conv_taps {
    int32_t kinds;
    int32_t residue[UF_CONV_KINDS];
    int32_t count[UF_CONV_KINDS];                /* taps of a kind */
    uint8_t filter[UF_CONV_KINDS][UF_CONV_TAPS]; /* index in the filter, from 0 */
    int64_t shift[UF_CONV_KINDS][UF_CONV_TAPS];  /* ascending in fprop and wgrad */
} uf_conv_taps;

/* The taps by which y reads x, in the order of the filter. False: too many taps, or too large a
 * stride. */
bool uf_conv_taps_of_x(const uf_conv_kernel_args *args, int axis, uf_conv_taps *taps);

/* The taps by which x reads y. *elements: those of the largest phase. */
bool uf_conv_taps_of_y(const uf_conv_kernel_args *args, int axis, uf_conv_taps *taps,
                       int64_t *elements);

UF_END_DECLS

#endif
