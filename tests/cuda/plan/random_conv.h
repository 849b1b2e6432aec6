/* random_conv.h - arguments of a convolution for tests of plans, which look at shapes alone. */
#ifndef TEST_CUDA_PLAN_RANDOM_CONV_H
#define TEST_CUDA_PLAN_RANDOM_CONV_H

#include "kernels/kernels.h"
#include "support/random.h"

/* Everything is from 1 (padding: 0) to the most that is given here. */
typedef struct conv_limits {
    int64_t stride, large_stride; /* usually, and one time in four */
    int64_t padding, dilation, kernel;
    int64_t extent[4];                /* of the small side: one of these */
    int64_t batch, large_batch;       /* usually, and one time in three */
    int64_t small_channels, channels; /* of a group: half the time each */
    bool groups;                      /* three of them, one time in four */
    bool bf16;                        /* tensors, half the time; else f32 */
} conv_limits;

/* In any math, overwriting, with dense views at address 4096 and no epilogue. */
uf_conv_kernel_args random_conv(test_random *random, const conv_limits *limits);

#endif
