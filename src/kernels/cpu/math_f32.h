/* math_f32.h - the functions of <math.h> for float that the CPU's kernels call: uf_expf for expf,
 * and so on. exp is our own, so that loops of it become vectors. */
#ifndef UF_KERNELS_CPU_MATH_F32_H
#define UF_KERNELS_CPU_MATH_F32_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define uf_erfcf erfcf
#define uf_expm1f expm1f
#define uf_fabsf fabsf
#define uf_log1pf log1pf
#define uf_logf logf
#define uf_sqrtf sqrtf
#define uf_tanhf tanhf

/* exp(x) = 2^n exp(r) with r = x - n log(2), |r| <= log(2)/2, in double: its series ends where it
 * is 2e-10 off, so that the result is the float next to exp(x), or where that lies halfway between
 * two either of them. No branch, no fused multiply-add: the same bits for every vector. A loop
 * with a call in it would be none. */
static inline __attribute__((always_inline)) float uf_expf(float x) {
    /* Beyond 110 exp(x) is 0 or infinite as a float, which the last conversion makes of it. NaN
     * stays. (Two limits, each with a comparison, would become branches.) */
    const double v = fabs((double)x) > 110.0 ? copysign(110.0, (double)x) : (double)x;
    /* Adding 1.5 * 2^52 rounds to an integer, whose lowest bits are then the lowest of the sum. */
    const double shifted = v * 1.4426950408889634 + 0x1.8p52;
    const double r = v - (shifted - 0x1.8p52) * 0.69314718055994531;
    double e = 1.0 / 40320.0;
    e = e * r + 1.0 / 5040.0;
    e = e * r + 1.0 / 720.0;
    e = e * r + 1.0 / 120.0;
    e = e * r + 1.0 / 24.0;
    e = e * r + 1.0 / 6.0;
    e = e * r + 0.5;
    e = e * r + 1.0;
    e = e * r + 1.0;
    uint64_t n, bits;
    memcpy(&n, &shifted, sizeof n);
    memcpy(&bits, &e, sizeof bits);
    bits += n << 52; /* the exponent's place */
    memcpy(&e, &bits, sizeof e);
    return (float)e;
}

#endif
