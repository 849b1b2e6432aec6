#include "common/random.h"

#include <math.h>

#include "common/common.h"

random_stream random_at(uint64_t seed, const char *purpose, int64_t step) {
    uint64_t number = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (const char *c = purpose; *c != '\0'; ++c) {
        number = (number ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    }
    const random_stream stream = {random_bits(seed, number, (uint64_t)step), 0};
    return stream;
}

double random_uniform(random_stream *stream) {
    return ((double)(random_bits(stream->key, 0, stream->drawn++) >> 11) + 0.5) * 0x1p-53;
}

int64_t random_below(random_stream *stream, int64_t bound) {
    return (int64_t)(random_uniform(stream) * (double)bound);
}

/* Box and Muller: two normal numbers of two uniform ones, in f32, which is several times as fast.
 */
void random_normals(random_stream *stream, float *out, int64_t count) {
    for (int64_t i = 0; i < count; i += 2) {
        const float radius = sqrtf(-2.0f * logf((float)random_uniform(stream)));
        const float angle = 6.2831853f * (float)random_uniform(stream);
        out[i] = radius * cosf(angle);
        if (i + 1 < count) {
            out[i + 1] = radius * sinf(angle);
        }
    }
}
