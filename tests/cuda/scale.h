/* scale.h - a kernel of a user's own. */
#ifndef TEST_CUDA_SCALE_H
#define TEST_CUDA_SCALE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Queue to[i] = factor * from[i] on the stream (a cudaStream_t). */
bool scale_on(void *stream, const float *from, float *to, float factor, int64_t count);

#ifdef __cplusplus
}
#endif

#endif
