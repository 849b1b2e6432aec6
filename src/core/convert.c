/* convert.c - element types of host memory into each other. */
#include "core/tensor.h"

#include <math.h>
#include <string.h>

#include "core/bf16.h"

static double f16_to_double(uint16_t half) {
    const int exponent = (half >> 10) & 31;
    const int mantissa = half & 1023;
    double value;
    if (exponent == 31) {
        value = mantissa != 0 ? (double)NAN : (double)INFINITY;
    } else if (exponent == 0) {
        value = ldexp(mantissa, -24);
    } else {
        value = ldexp(1024 + mantissa, exponent - 25);
    }
    return (half & 0x8000) != 0 ? -value : value;
}

/* Round a double to `bits` of significand (the hidden one included) with the smallest exponent
 * `min_exponent` of a normal number, ties to even: what a narrower IEEE type would hold. Straight
 * from double, so that nothing is rounded twice. */
static double round_to(double value, int bits, int min_exponent) {
    int exponent;
    if (value == 0.0 || !isfinite(value)) {
        return value;
    }
    frexp(value, &exponent);
    exponent -= 1;
    const int scale = bits - 1 - (exponent < min_exponent ? min_exponent : exponent);
    return ldexp(nearbyint(ldexp(value, scale)), -scale);
}

static uint16_t double_to_f16(double value) {
    const uint16_t sign = signbit(value) ? 0x8000 : 0;
    if (isnan(value)) {
        return (uint16_t)(sign | 0x7e00);
    }
    const double magnitude = fabs(round_to(value, 11, -14));
    if (magnitude > 65504.0) {
        return (uint16_t)(sign | 0x7c00);
    }
    int exponent;
    const double fraction = frexp(magnitude, &exponent);
    if (magnitude < 0x1p-14) {
        return (uint16_t)(sign | (uint16_t)ldexp(magnitude, 24));
    }
    const int mantissa = (int)ldexp(fraction, 11) - 1024;
    return (uint16_t)(sign | ((exponent + 14) << 10) | mantissa);
}

static uint16_t double_to_bf16(double value) {
    /* 8 bits of significand always fit a float: the second conversion is exact but for overflow. */
    return uf_bf16_from_f32((float)round_to(value, 8, -126));
}

static double load(const void *from, uf_dtype type, int64_t i) {
    switch (type) {
    case UF_F32:
        return (double)((const float *)from)[i];
    case UF_F64:
        return ((const double *)from)[i];
    case UF_BF16:
        return (double)uf_bf16_to_f32(((const uint16_t *)from)[i]);
    case UF_F16:
        return f16_to_double(((const uint16_t *)from)[i]);
    case UF_I64:
        return (double)((const int64_t *)from)[i];
    }
    return (double)NAN;
}

static void save(void *to, uf_dtype type, int64_t i, double value) {
    switch (type) {
    case UF_F32:
        ((float *)to)[i] = (float)value;
        break;
    case UF_F64:
        ((double *)to)[i] = value;
        break;
    case UF_BF16:
        ((uint16_t *)to)[i] = double_to_bf16(value);
        break;
    case UF_F16:
        ((uint16_t *)to)[i] = double_to_f16(value);
        break;
    case UF_I64:
        /* The cast is undefined outside the range and for NaN. */
        ((int64_t *)to)[i] = value >= 0x1p63   ? INT64_MAX
                             : value < -0x1p63 ? INT64_MIN
                             : value != value  ? 0
                                               : (int64_t)value;
        break;
    }
}

void uf_convert(void *to, uf_dtype to_type, const void *from, uf_dtype from_type, int64_t count) {
    if (count <= 0) {
        return;
    }
    if (to_type == from_type) {
        memcpy(to, from, (size_t)count * uf_dtype_size(to_type));
        return;
    }
    /* The inputs and outputs of bf16 programs: every step of training converts a batch. */
    if (to_type == UF_BF16 && from_type == UF_F32) {
        for (int64_t i = 0; i < count; ++i) {
            ((uint16_t *)to)[i] = uf_bf16_from_f32(((const float *)from)[i]);
        }
        return;
    }
    if (to_type == UF_F32 && from_type == UF_BF16) {
        for (int64_t i = 0; i < count; ++i) {
            ((float *)to)[i] = uf_bf16_to_f32(((const uint16_t *)from)[i]);
        }
        return;
    }
    for (int64_t i = 0; i < count; ++i) {
        save(to, to_type, i, load(from, from_type, i));
    }
}
