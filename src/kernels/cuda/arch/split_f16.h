/* split_f16.h - FP32 by three MMAs of split f16: scales, and what f16 is too narrow for.
 *
 * f16 has as many bits as TF32, at twice the rate, but few exponents. So each tensor of a MMA
 * is multiplied by a power of two that brings its largest element to [2^14, 2^15), and is
 *     t * scale = big + 2^-12 * small,
 * both f16 to nearest: a sum is that of big*big + 2^-12 * (big*small + small*big), over both
 * scales. Elements down to 2^-28 of their tensor's largest have 23 bits so; those below it an error
 * of up to 2^-51 of the largest. A sum that this may be too much for, zero too, is doubtful, and is
 * made again from TF32 halves, which have all exponents: so is everything where a tensor has an
 * infinity, a NaN or exponents that scales or sums could not hold. */
#ifndef UF_KERNELS_CUDA_ARCH_SPLIT_F16_H
#define UF_KERNELS_CUDA_ARCH_SPLIT_F16_H

#include <stdint.h>

#include "kernels/geometry.h"
#include "kernels/kernels.h"

enum {
    UF_SPLIT_F16_BLOCKS = 264, /* of the pass over both tensors, at most */
    UF_SPLIT_F16_SMALL = 12,   /* log2 of what small halves are multiplied by */
    UF_SPLIT_F16_TOP = 14,     /* exponent of a tensor's largest element, scaled */
    UF_SPLIT_F16_SUMS = 96,    /* exponents of a sum, at most */
    UF_SPLIT_F16_EXACT = 28    /* exponents below the largest that keep all bits */
};

/* Bits of |t|: the largest, and the least that is not zero, less one. All of a tensor of zeros, or
 * of none: 0 and 0xffffffff. */
typedef struct uf_split_f16_range {
    uint32_t largest, least;
} uf_split_f16_range;

/* The numbers that kernels take from the two ranges of an MMA's operands. */
typedef struct uf_split_f16_scales {
    float a, b;    /* powers of two */
    float back;    /* 1 / (a * b) */
    float limit;   /* a sum is doubtful if it is smaller */
    uint32_t fits; /* else nothing else counts, and everything is doubtful */
    uint32_t unused[3];
} uf_split_f16_scales;

static inline UF_HD int32_t uf_split_f16_exponent(uint32_t bits) {
    return bits >> 23 != 0 ? (int32_t)(bits >> 23) - 127 : -149;
}

static inline UF_HD uint32_t uf_split_f16_power(int32_t exponent) {
    return (uint32_t)(exponent + 127) << 23;
}

/* Bits of floats are given back, so that host and device agree: sums of `MMAs` MMAs, from
 * 1 to 2^40. */
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
    made.fits = a.largest < 0x7f800000u && b.largest < 0x7f800000u && e_a >= -UF_SPLIT_F16_SUMS &&
                e_a <= UF_SPLIT_F16_SUMS && e_b >= -UF_SPLIT_F16_SUMS && e_b <= UF_SPLIT_F16_SUMS &&
                both + sums <= UF_SPLIT_F16_SUMS;
    if (!made.fits) {
        return made;
    }
    made.a = as_float(uf_split_f16_power(UF_SPLIT_F16_TOP - e_a));
    made.b = as_float(uf_split_f16_power(UF_SPLIT_F16_TOP - e_b));
    made.back = as_float(uf_split_f16_power(e_a + e_b - 2 * UF_SPLIT_F16_TOP));
    /* MMAs of 2^-37 by 2^15, twice: more than 2^-22 of a sum below 4 times their number. Zero
     * is such a sum: what lost bits may cancel, and what vanished is not there. */
    if (under_a > UF_SPLIT_F16_EXACT || under_b > UF_SPLIT_F16_EXACT) {
        made.limit = 4.0f * mmas;
    }
    return made;
}

#endif
