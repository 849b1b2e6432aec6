/* bf16.h - bfloat16, the upper half of an f32, on the host: the exact way up, and the way down by
 * one rounding to nearest even. A number that rounds beyond the largest is infinite; NaN is quiet.
 */
#ifndef UF_CORE_BF16_H
#define UF_CORE_BF16_H

#include <stdint.h>
#include <string.h>

static inline float uf_bf16_to_f32(uint16_t bf16) {
    const uint32_t bits = (uint32_t)bf16 << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint16_t uf_bf16_from_f32(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    /* Half of the last place that stays, less one where that place is even. */
    const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    return (uint16_t)(value == value ? rounded : 0x7fc0u);
}

#endif
