/* random_conv.c - see random_conv.h. */
#include "cuda/plan/random_conv.h"

#include <string.h>

static int64_t up_to(test_random *random, int64_t odds, int64_t rarely, int64_t usually) {
    return test_random_integer(random, 1, test_random_one_in(random, odds) ? rarely : usually);
}

uf_conv_kernel_args random_conv(test_random *random, const conv_limits *limits) {
    uf_conv_kernel_args args;
    int64_t large[2], small[2], kernel[2];
    void *const nowhere = (void *)4096;
    memset(&args, 0, sizeof args);
    for (int axis = 0; axis < 2; ++axis) {
        args.stride[axis] = up_to(random, 4, limits->large_stride, limits->stride);
        args.padding[axis] = test_random_integer(random, 0, limits->padding);
        args.dilation[axis] = test_random_integer(random, 1, limits->dilation);
        kernel[axis] = test_random_integer(random, 1, limits->kernel);
        do {
            small[axis] =
                test_random_integer(random, 1, limits->extent[test_random_integer(random, 0, 3)]);
            large[axis] = (small[axis] - 1) * args.stride[axis] - 2 * args.padding[axis] +
                          (kernel[axis] - 1) * args.dilation[axis] + 1 +
                          test_random_integer(random, 0, args.stride[axis] - 1);
        } while (large[axis] < 1);
    }
    const uf_dtype dtype = limits->bf16 && test_random_one_in(random, 2) ? UF_BF16 : UF_F32;
    const int64_t batch = up_to(random, 3, limits->large_batch, limits->batch);
    const int64_t c = up_to(random, 2, limits->small_channels, limits->channels);
    const int64_t k = up_to(random, 2, limits->small_channels, limits->channels);
    args.groups = limits->groups && test_random_one_in(random, 4) ? 3 : 1;
    args.x = uf_view_nchw(nowhere, dtype, batch, c * args.groups, large[0], large[1]);
    args.w = uf_view_nchw(nowhere, dtype, k * args.groups, c, kernel[0], kernel[1]);
    args.y = uf_view_nchw(nowhere, dtype, batch, k * args.groups, small[0], small[1]);
    args.math = (uf_math)test_random_integer(random, 0, 2);
    return args;
}
