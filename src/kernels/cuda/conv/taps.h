/* taps.h - the filter taps of one axis, sorted by what they read: the host side of kernels
 * that read windows. */
#ifndef UF_KERNELS_CUDA_CONV_TAPS_H
#define UF_KERNELS_CUDA_CONV_TAPS_H

#include "kernels/kernels.h"

UF_BEGIN_DECLS

enum {
    UF_CONV_TAPS = 64, /* of a filter, at most */
    UF_CONV_KINDS = 16 /* of an axis, at most: the largest stride */
};

/* Element j of the written side reads, for each tap of a kind, element (j + shift)*mul + residue.
 * dgrad has a kind per phase (mul 1, residue 0), fprop and wgrad have one per residue of the read
 * position (mul: the stride). */
typedef struct uf_conv_taps {
    int32_t kinds;
    int32_t residue[UF_CONV_KINDS];
    int32_t count[UF_CONV_KINDS];
    uint8_t filter[UF_CONV_KINDS][UF_CONV_TAPS]; /* index in the filter */
    int64_t shift[UF_CONV_KINDS][UF_CONV_TAPS];  /* grows with the index in fprop and wgrad */
} uf_conv_taps;

/* The taps with which y reads x, in the order of the filter. False: too many, or too large a
 * stride. */
bool uf_conv_taps_of_x(const uf_conv_kernel_args *args, int axis, uf_conv_taps *taps);

/* The taps with which x reads y; *elements: of the phase that has most. */
bool uf_conv_taps_of_y(const uf_conv_kernel_args *args, int axis, uf_conv_taps *taps,
                       int64_t *elements);

UF_END_DECLS

#endif
