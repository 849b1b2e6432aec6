/* split_f16.h - FP32 by 3xF16: the scales of two tensors, and the limits of f16.
 *
 * f16 has as many bits as TF32 at twice the rate, but few exponents. So a power of two scales each
 * tensor of an MMA, by which its largest element comes to [2^14, 2^15):
 *     t * scale = big + 2^-12 * small,
 * both parts f16, rounded to nearest. A result is the sum of big*big + 2^-12 * (big*small +
 * small*big), divided by both scales. Elements down to 2^-28 of their tensor's largest keep 23
 * bits; smaller ones have an error of up to 2^-51 of the largest. Sums that this may spoil, zero
 * included, set the range flag and are computed again by 3xTF32, which has all exponents. All sums
 * are where a tensor has an infinity, a NaN, or exponents that scales or sums cannot hold. */
#ifndef UF_KERNELS_CUDA_ARCH_SPLIT_F16_H
#define UF_KERNELS_CUDA_ARCH_SPLIT_F16_H

#include <stdint.h>

#include "kernels/geometry.h"
#include "kernels/kernels.h"

enum {
    UF_SPLIT_F16_BLOCKS = 264, /* most blocks of the pass over both tensors */
    UF_SPLIT_F16_SMALL = 12,   /* log2 of the factor on small parts */
    UF_SPLIT_F16_TOP = 14,     /* exponent of a tensor's largest element, scaled */
    UF_SPLIT_F16_SUMS = 96,    /* largest exponent of a sum */
    UF_SPLIT_F16_EXACT = 28    /* exponents below the largest that keep all bits */
};

/* The range of a tensor's absolute values, as bits. Without an element other than 0: {0,
 * 0xffffffff}.
 */
typedef struct uf_split_f16_range {
    uint32_t largest;
    uint32_t least; /* of those that are not zero, less one */
} uf_split_f16_range;

/* The numbers that kernels take from the two ranges of an MMA's operands. */
typedef struct uf_split_f16_scales {
    float a, b;    /* powers of two */
    float back;    /* 1 / (a * b) */
    float limit;   /* a smaller |sum| sets the range flag */
    uint32_t fits; /* 0: every sum sets the range flag, and the other fields have no meaning */
    uint32_t unused[3];
} uf_split_f16_scales;

static inline UF_HD int32_t uf_split_f16_exponent(uint32_t bits) {
    return bits >> 23 != 0 ? (int32_t)(bits >> 23) - 127 : -149;
}

static inline UF_HD uint32_t uf_split_f16_power(int32_t exponent) {
    return (uint32_t)(exponent + 127) << 23;
}

/* Has a tensor of this range a scale? */
static inline UF_HD bool uf_split_f16_holds(uf_split_f16_range range) {
    const int32_t e = range.largest == 0 ? 0 : uf_split_f16_exponent(range.largest);
    return range.largest < 0x7f800000u && e >= -UF_SPLIT_F16_SUMS && e <= UF_SPLIT_F16_SUMS;
}

static inline UF_HD float uf_split_f16_scale_of(uf_split_f16_range range,
                                                float (*as_float)(uint32_t)) {
    const int32_t e = range.largest == 0 ? 0 : uf_split_f16_exponent(range.largest);
    return as_float(uf_split_f16_power(UF_SPLIT_F16_TOP - e));
}

/* The scales for sums of `mmas` products, from 1 to 2^40. The caller's as_float and as_bits let
 * host and device agree. */
static inline UF_HD uf_split_f16_scales uf_split_f16_scales_of(uf_split_f16_range a,
                                                               uf_split_f16_range b, float mmas,
                                                               float (*as_float)(uint32_t),
                                                               uint32_t (*as_bits)(float)) {
    const int32_t sums = uf_split_f16_exponent(as_bits(mmas)) + 1;
    const int32_t e_a = a.largest == 0 ? 0 : uf_split_f16_exponent(a.largest);
    const int32_t e_b = b.largest == 0 ? 0 : uf_split_f16_exponent(b.largest);
    const int32_t both = e_a + e_b < 0 ? -e_a - e_b : e_a + e_b;
    const int32_t under_a = a.largest == 0 ? 0 : e_a - uf_split_f16_exponent(a.least + 1);
    const int32_t under_b = b.largest == 0 ? 0 : e_b - uf_split_f16_exponent(b.least + 1);
    uf_split_f16_scales made = {1.0f, 1.0f, 1.0f, 0.0f, 0, {0, 0, 0}};
    made.fits = uf_split_f16_holds(a) && uf_split_f16_holds(b) && both + sums <= UF_SPLIT_F16_SUMS;
    if (!made.fits) {
        return made;
    }
    made.a = uf_split_f16_scale_of(a, as_float);
    made.b = uf_split_f16_scale_of(b, as_float);
    made.back = as_float(uf_split_f16_power(e_a + e_b - 2 * UF_SPLIT_F16_TOP));
    /* Errors of 2^-37 times 2^15, twice a product: more than 2^-22 of a sum below 4 * mmas. Zero is
     * such a sum: elements that lost bits may cancel or have vanished. */
    if (under_a > UF_SPLIT_F16_EXACT || under_b > UF_SPLIT_F16_EXACT) {
        made.limit = 4.0f * mmas;
    }
    return made;
}

#endif
