/* random_math.h - the numbers that initialisers and layers draw, the same bits on every device.
 *
 * Uniforms are those of cuRAND's Philox4_32_10 in its default order: element i is word i mod 4 of
 * Philox4x32-10 at counter (b div 65536, 0, b mod 65536, 0), b = i div 4, with the seed's low and
 * high words as key. Normals are ours: cuRAND's own differ between its host and its device
 * generator.
 *
 * Every product that feeds a sum is an explicit fma or UF_PRODUCT, so that no compiler may choose.
 * Division and square root are rounded correctly on every device. */
#ifndef UF_KERNELS_RANDOM_MATH_H
#define UF_KERNELS_RANDOM_MATH_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifndef __CUDACC__
#include <Random123/philox.h>
#endif

#ifdef __CUDACC__
#define UF_RANDOM_FN static __host__ __device__ inline
#else
#define UF_RANDOM_FN static inline
#endif

#ifdef __CUDA_ARCH__
#define UF_PRODUCT(a, b) __dmul_rn((a), (b))
#else
#define UF_PRODUCT(a, b) ((a) * (b)) /* the build says -ffp-contract=off */
#endif

typedef struct uf_uniform4 {
    float u[4];
} uf_uniform4;

typedef struct uf_words {
    uint32_t word[4];
} uf_words;

/* splitmix64's finaliser: keys that differ little have nothing in common behind it. */
UF_RANDOM_FN uint64_t uf_random_mix(uint64_t key) {
    key = (key ^ (key >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    key = (key ^ (key >> 27)) * UINT64_C(0x94d049bb133111eb);
    return key ^ (key >> 31);
}

/* word * 2^-32 + 2^-33 in f32: in (0, 1], 1 itself because the word is rounded to 24 bits first.
 * The product is exact, so fused or not the bits are the same. */
UF_RANDOM_FN float uf_uniform_of(uint32_t word) {
    return (float)word * 2.3283064365386963e-10f + 1.16415321826934814453125e-10f;
}

#ifndef __CUDACC__ /* a GPU draws its words with cuRAND itself */
/* Elements 4*block to 4*block + 3 of the stream. */
UF_RANDOM_FN uf_uniform4 uf_uniform_block(uint64_t seed, uint64_t block) {
    const philox4x32_ctr_t counter = {{(uint32_t)(block / 65536), 0, (uint32_t)(block % 65536), 0}};
    const philox4x32_key_t key = {{(uint32_t)seed, (uint32_t)(seed >> 32)}};
    const philox4x32_ctr_t words = philox4x32(counter, key);
    uf_uniform4 result;
    for (int i = 0; i < 4; ++i) {
        result.u[i] = uf_uniform_of(words.v[i]);
    }
    return result;
}

/* Words 4*block to 4*block + 3 of a layer's stream at a step (draw.h). */
UF_RANDOM_FN uf_words uf_draw_words(uint64_t key, uint64_t step, uint64_t block) {
    const philox4x32_ctr_t counter = {
        {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)step, (uint32_t)(step >> 32)}};
    const philox4x32_key_t by = {{(uint32_t)key, (uint32_t)(key >> 32)}};
    const philox4x32_ctr_t drawn = philox4x32(counter, by);
    uf_words words;
    memcpy(words.word, drawn.v, sizeof words.word);
    return words;
}
#endif

/* A word below this is dropped: p of 2^32, none of them for 0 and all of them for 1. */
UF_RANDOM_FN uint64_t uf_dropout_threshold(double p) {
    return (uint64_t)ceil(p * 4294967296.0);
}

/* Kept elements are multiplied by this, so that the mean stays. For p = 1 nothing is kept. */
UF_RANDOM_FN double uf_dropout_scale(double p) {
    return p < 1.0 ? 1.0 / (1.0 - p) : 0.0;
}

/* log(x) for normal x > 0 away from 1: x = 2^e * m with m in [sqrt(1/2), sqrt(2)), and with
 * s = (m - 1) / (m + 1) log(m) = 2*(s + s^3/3 + s^5/5 + ...); |s| < 0.1716, so the term after s^21
 * is below 2^-57 of the first. */
UF_RANDOM_FN double uf_random_log(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52) - 1023;
    bits = (bits & UINT64_C(0xfffffffffffff)) | UINT64_C(0x3ff0000000000000);
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m >= 1.4142135623730951) {
        m *= 0.5;
        exponent += 1;
    }
    const double s = (m - 1.0) / (m + 1.0);
    const double t = UF_PRODUCT(s, s);
    double sum = 1.0 / 21.0;
    sum = fma(sum, t, 1.0 / 19.0);
    sum = fma(sum, t, 1.0 / 17.0);
    sum = fma(sum, t, 1.0 / 15.0);
    sum = fma(sum, t, 1.0 / 13.0);
    sum = fma(sum, t, 1.0 / 11.0);
    sum = fma(sum, t, 1.0 / 9.0);
    sum = fma(sum, t, 1.0 / 7.0);
    sum = fma(sum, t, 1.0 / 5.0);
    sum = fma(sum, t, 1.0 / 3.0);
    sum = fma(sum, t, 1.0);
    return fma((double)exponent, 0.69314718055994530942, UF_PRODUCT(2.0 * s, sum));
}

/* Numerator and denominator of a rational approximation, highest power first. */
UF_RANDOM_FN double uf_random_ratio(const double n[8], const double d[8], double r) {
    double num = n[0];
    double den = d[0];
    for (int i = 1; i < 8; ++i) {
        num = fma(num, r, n[i]);
        den = fma(den, r, d[i]);
    }
    return num / den;
}

/* The z below which a standard normal falls with probability u: M. J. Wichura, "Algorithm AS 241:
 * The percentage points of the normal distribution", Applied Statistics 37 (1988), PPND16, relative
 * accuracy about 1e-16. Its third range, sqrt(-log(tail)) > 5, begins at 1.4e-11: no f32 uniform of
 * ours (2^-33 or more) comes there. u = 1 would be infinity; it stands for the interval above the
 * largest f32 below 1, whose middle 1 - 2^-25 is taken instead. */
UF_RANDOM_FN double uf_normal_of(float u) {
    const double a[8] = {2.5090809287301226727e+3, 3.3430575583588128105e+4,
                         6.7265770927008700853e+4, 4.5921953931549871457e+4,
                         1.3731693765509461125e+4, 1.9715909503065514427e+3,
                         1.3314166789178437745e+2, 3.3871328727963666080e+0};
    const double b[8] = {5.2264952788528545610e+3, 2.8729085735721942674e+4,
                         3.9307895800092710610e+4, 2.1213794301586595867e+4,
                         5.3941960214247511077e+3, 6.8718700749205790830e+2,
                         4.2313330701600911252e+1, 1.0};
    const double c[8] = {7.74545014278341407640e-4, 2.27238449892691845833e-2,
                         2.41780725177450611770e-1, 1.27045825245236838258e+0,
                         3.64784832476320460504e+0, 5.76949722146069140550e+0,
                         4.63033784615654529590e+0, 1.42343711074968357734e+0};
    const double d[8] = {1.05075007164441684324e-9, 5.47593808499534494600e-4,
                         1.51986665636164571966e-2, 1.48103976427480074590e-1,
                         6.89767334985100004550e-1, 1.67638483018380384940e+0,
                         2.05319162663775882187e+0, 1.0};
    const double p = u < 1.0f ? (double)u : 1.0 - 0x1p-25;
    const double q = p - 0.5;
    if (fabs(q) <= 0.425) {
        return UF_PRODUCT(q, uf_random_ratio(a, b, 0.180625 - UF_PRODUCT(q, q)));
    }
    const double tail = q < 0.0 ? p : 1.0 - p;
    const double z = uf_random_ratio(c, d, sqrt(-uf_random_log(tail)) - 1.6);
    return q < 0.0 ? -z : z;
}

/* The number for a uniform u: between a and b, or normal with mean a and standard deviation b. */
UF_RANDOM_FN double uf_random_number(bool normal, double a, double b, float u) {
    return normal ? fma(b, uf_normal_of(u), a) : fma(b - a, (double)u, a);
}

#endif
