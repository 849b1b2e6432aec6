/* test_both.c - every kernel on a CPU and on a GPU context, on the same numbers in memory of the
 * device itself, with guard bands: small odd shapes, quick enough for compute-sanitizer to watch
 * every access. Outputs and workspace begin as NaN, so what is never written, and what is read
 * before it is written, shows. `test_both ROW` runs the convolutions of that row of `geometries`
 * alone. */
#include "support/test.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/device/backend.h"
#include "kernels/cuda/conv/select/choose.h"
#include "kernels/kernels.h"
#include "support/random.h"

enum { MOST = 12, GUARD = 64 };

/* One buffer of a case: on the host, and on each device with GUARD elements of canary on both
 * sides. */
typedef struct buffer {
    uf_dtype dtype;
    int64_t extent[4];
    int64_t count;
    bool written; /* begins as NaN, unless the call adds to it */
    void *device[2];
    size_t size; /* guards included */
} buffer;

typedef struct both {
    uf_context *context[2]; /* CPU, GPU */
    buffer buffers[MOST];
    int count;
    test_random random;
} both;

static uf_context *context_of(uf_device device) {
    uf_context *context = NULL;
    uf_context_options options = uf_context_options_default();
    options.device = device;
    options.threads = 1;
    assert_ok(uf_context_create(&options, &context));
    return context;
}

static const unsigned char canary = 0xa5;

static void *device_copy(uf_context *context, const void *host, size_t size) {
    void *memory = NULL;
    assert_ok(uf_context_allocate(context, size, UF_MEMORY_DEVICE, &memory));
    assert_ok(context->device->upload(context, memory, host, size));
    return memory;
}

/* Add a buffer of numbers between least and 1, or of NaN that is to be written; returns its number.
 */
static int add_from(both *b, double least, uf_dtype dtype, bool written, int64_t n, int64_t c,
                    int64_t h, int64_t w) {
    buffer *made = &b->buffers[b->count];
    const size_t element = uf_dtype_size(dtype);
    made->dtype = dtype;
    made->written = written;
    made->extent[0] = n;
    made->extent[1] = c;
    made->extent[2] = h;
    made->extent[3] = w;
    made->count = n * c * h * w;
    made->size = (size_t)(made->count + 2 * GUARD) * element;
    unsigned char *host = test_allocate(made->size);
    memset(host, canary, made->size);
    for (int64_t i = 0; i < made->count; ++i) {
        const double value =
            written ? (double)NAN : (double)(float)test_random_real(&b->random, least, 1.0);
        uf_convert(host + (size_t)(GUARD + i) * element, dtype, &value, UF_F64, 1);
    }
    for (int d = 0; d < 2; ++d) {
        made->device[d] = device_copy(b->context[d], host, made->size);
    }
    free(host);
    return b->count++;
}

static int add(both *b, uf_dtype dtype, bool written, int64_t n, int64_t c, int64_t h, int64_t w) {
    return add_from(b, -1.0, dtype, written, n, c, h, w);
}

static uf_view view(const both *b, int device, int number) {
    const buffer *of = &b->buffers[number];
    char *data = (char *)of->device[device] + GUARD * uf_dtype_size(of->dtype);
    return uf_view_nchw(data, of->dtype, of->extent[0], of->extent[1], of->extent[2],
                        of->extent[3]);
}

static void *scratch(uf_context *context, size_t size) {
    if (size == 0) {
        return NULL;
    }
    void *host = test_allocate(size);
    memset(host, 0xff, size);
    void *memory = device_copy(context, host, size);
    free(host);
    return memory;
}

/* Compare everything, then forget it. */
static void finish(both *b, const char *label, double tolerance) {
    for (int i = 0; i < b->count; ++i) {
        buffer *of = &b->buffers[i];
        const size_t element = uf_dtype_size(of->dtype);
        unsigned char *host[2];
        double largest = 1.0;
        for (int d = 0; d < 2; ++d) {
            host[d] = test_allocate(of->size);
            assert_ok(
                b->context[d]->device->download(b->context[d], host[d], of->device[d], of->size));
            for (size_t byte = 0; byte < GUARD * element; ++byte) {
                if (host[d][byte] != canary || host[d][of->size - 1 - byte] != canary) {
                    fail_msg("%s: buffer %d on device %d: a write outside", label, i, d);
                }
            }
        }
        for (int64_t j = 0; j < of->count; ++j) {
            double value[2];
            for (int d = 0; d < 2; ++d) {
                uf_convert(&value[d], UF_F64, host[d] + (size_t)(GUARD + j) * element, of->dtype,
                           1);
            }
            largest = fabs(value[0]) > largest ? fabs(value[0]) : largest;
            if (!(fabs(value[0] - value[1]) <= tolerance * largest)) {
                fail_msg("%s: buffer %d, element %" PRId64 ": CPU %.17g, GPU %.17g", label, i, j,
                         value[0], value[1]);
            }
        }
        for (int d = 0; d < 2; ++d) {
            free(host[d]);
            uf_context_release(b->context[d], of->device[d], of->size, UF_MEMORY_DEVICE);
        }
    }
    b->count = 0;
}

static double tolerance_of(uf_dtype dtype) {
    return dtype == UF_F64 ? 1e-13 : 1e-5;
}

static const uf_dtype dtypes[] = {UF_F32, UF_F64};

/* {n, k, c, groups, p, q, kernel, stride, padding, dilation, spare rows and columns of the large
 * side} */
static const struct {
    int64_t n, k, c, groups, p, q, kernel[2], stride[2], padding[2], dilation[2], spare[2];
} geometries[] = {
    {1, 1, 1, 1, 1, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}, {0, 0}},
    {2, 5, 7, 1, 6, 5, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {2, 33, 17, 1, 5, 7, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {0, 0}},
    {1, 6, 9, 3, 4, 5, {5, 2}, {2, 3}, {2, 0}, {1, 1}, {1, 2}},
    {2, 8, 8, 8, 6, 5, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 0}},
    {1, 4, 6, 2, 5, 6, {3, 4}, {2, 3}, {2, 3}, {2, 3}, {1, 2}},
    {1, 4, 3, 1, 5, 6, {3, 3}, {4, 6}, {1, 2}, {2, 4}, {3, 0}},
    {1, 3, 2, 1, 3, 2, {2, 3}, {19, 23}, {0, 1}, {1, 1}, {18, 5}},
    {2, 2, 3, 1, 6, 7, {2, 2}, {2, 3}, {3, 4}, {1, 1}, {0, 0}},
    {128, 20, 12, 1, 1, 1, {4, 4}, {1, 1}, {0, 0}, {1, 1}, {0, 0}},
    {3, 70, 130, 1, 9, 9, {1, 1}, {1, 1}, {0, 0}, {1, 1}, {0, 0}},
    {2, 3, 2, 1, 70, 65, {3, 5}, {1, 1}, {1, 2}, {1, 1}, {0, 0}},
};

static int64_t only_row = -1; /* all */

static int64_t large_extent(int64_t row, int axis) {
    const int64_t small = axis == 0 ? geometries[row].p : geometries[row].q;
    return (small - 1) * geometries[row].stride[axis] - 2 * geometries[row].padding[axis] +
           (geometries[row].kernel[axis] - 1) * geometries[row].dilation[axis] + 1 +
           geometries[row].spare[axis];
}

/* What becomes of sums, but for scale and shift. */
static void set_epilogue(uf_conv_kernel_args *args, int64_t row, uf_conv_direction direction,
                         bool accumulate) {
    args->mode = accumulate ? UF_ACCUMULATE : UF_OVERWRITE;
    if (!accumulate && direction != UF_CONV_WGRAD) {
        args->epilogue.activation.kind = (uf_activation_kind)(row % UF_ACTIVATION_COUNT);
        args->epilogue.activation.parameter = 0.2;
    }
}

static void conv_case(both *b, int64_t row, uf_conv_direction direction, uf_dtype dtype,
                      bool accumulate, const char *variant, uf_math math, double tolerance) {
    char label[128];
    const int64_t x_extent[2] = {large_extent(row, 0), large_extent(row, 1)};
    const bool fresh = !accumulate;
    const int x = add(b, dtype, fresh && direction == UF_CONV_DGRAD, geometries[row].n,
                      geometries[row].c, x_extent[0], x_extent[1]);
    const int w = add(b, dtype, fresh && direction == UF_CONV_WGRAD, geometries[row].k,
                      geometries[row].c / geometries[row].groups, geometries[row].kernel[0],
                      geometries[row].kernel[1]);
    const int y = add(b, dtype, fresh && direction == UF_CONV_FPROP, geometries[row].n,
                      geometries[row].k, geometries[row].p, geometries[row].q);
    const int64_t channels = direction == UF_CONV_DGRAD ? geometries[row].c : geometries[row].k;
    const int scale = add(b, dtype, false, 1, channels, 1, 1);
    const int shift = add(b, dtype, false, 1, channels, 1, 1);
    for (int d = 0; d < 2; ++d) {
        uf_context *context = b->context[d];
        uf_conv_kernel_args args;
        memset(&args, 0, sizeof args);
        args.x = view(b, d, x);
        args.w = view(b, d, w);
        args.y = view(b, d, y);
        memcpy(args.stride, geometries[row].stride, sizeof args.stride);
        memcpy(args.padding, geometries[row].padding, sizeof args.padding);
        memcpy(args.dilation, geometries[row].dilation, sizeof args.dilation);
        args.groups = geometries[row].groups;
        args.math = math;
        args.variant = d == 1 ? variant : NULL;
        set_epilogue(&args, row, direction, accumulate);
        if (!accumulate && direction != UF_CONV_WGRAD) {
            args.epilogue.scale = view(b, d, scale);
            args.epilogue.shift = view(b, d, shift);
        }
        assert_ok(uf_conv_check(direction, &args));
        const struct uf_kernels *k = context->kernels;
        const size_t size = direction == UF_CONV_FPROP   ? k->conv_fprop_workspace(context, &args)
                            : direction == UF_CONV_DGRAD ? k->conv_dgrad_workspace(context, &args)
                                                         : k->conv_wgrad_workspace(context, &args);
        args.workspace = scratch(context, size);
        args.workspace_size = size;
        assert_ok((direction == UF_CONV_FPROP   ? k->conv_fprop
                   : direction == UF_CONV_DGRAD ? k->conv_dgrad
                                                : k->conv_wgrad)(context, &args));
        assert_ok(uf_context_synchronize(context));
        uf_context_release(context, args.workspace, size, UF_MEMORY_DEVICE);
    }
    (void)snprintf(label, sizeof label, "conv row %" PRId64 " direction %d %s %s%s", row,
                   (int)direction, uf_dtype_name(dtype), variant != NULL ? variant : "chosen",
                   accumulate ? " accumulate" : "");
    finish(b, label, tolerance);
}

static bool takes(const both *b, int64_t row, uf_conv_direction direction, uf_dtype dtype,
                  bool accumulate, uf_cuda_conv_variant variant) {
    uf_conv_kernel_args args;
    memset(&args, 0, sizeof args);
    args.x = uf_view_nchw(NULL, dtype, geometries[row].n, geometries[row].c, large_extent(row, 0),
                          large_extent(row, 1));
    args.w =
        uf_view_nchw(NULL, dtype, geometries[row].k, geometries[row].c / geometries[row].groups,
                     geometries[row].kernel[0], geometries[row].kernel[1]);
    args.y = uf_view_nchw(NULL, dtype, geometries[row].n, geometries[row].k, geometries[row].p,
                          geometries[row].q);
    memcpy(args.stride, geometries[row].stride, sizeof args.stride);
    memcpy(args.padding, geometries[row].padding, sizeof args.padding);
    memcpy(args.dilation, geometries[row].dilation, sizeof args.dilation);
    args.groups = geometries[row].groups;
    set_epilogue(&args, row, direction, accumulate);
    const uf_conv_problem problem =
        uf_conv_problem_of(direction, &args, uf_cuda_gpu(b->context[1]));
    uf_conv_plan plan[2];
    plan[0].inner = &plan[1];
    plan[1].inner = NULL;
    return uf_conv_plan_variant(&problem, variant, plan);
}

static void test_conv(void **state) {
    both *b = *state;
    static const uf_conv_direction directions[] = {UF_CONV_FPROP, UF_CONV_DGRAD, UF_CONV_WGRAD};
    for (int64_t row = 0; row < COUNT_OF(geometries); ++row) {
        for (int d = 0; d < 3 && (only_row < 0 || row == only_row); ++d) {
            for (int t = 0; t < 2; ++t) {
                for (int v = 0; v < UF_CUDA_CONV_VARIANTS; ++v) {
                    const uf_cuda_conv_variant variant = (uf_cuda_conv_variant)v;
                    for (int accumulate = 0; accumulate < 2; ++accumulate) {
                        if (takes(b, row, directions[d], dtypes[t], accumulate == 1, variant)) {
                            conv_case(b, row, directions[d], dtypes[t], accumulate == 1,
                                      uf_cuda_conv_variant_name(variant), UF_MATH_FP32,
                                      tolerance_of(dtypes[t]));
                        }
                    }
                }
            }
        }
    }
}

static void test_activation(void **state) {
    both *b = *state;
    for (int t = 0; t < 2; ++t) {
        for (int kind = 0; kind < UF_ACTIVATION_COUNT; ++kind) {
            const bool is_positive = kind == UF_ACTIVATION_LOG || kind == UF_ACTIVATION_SQRT;
            const double least = is_positive ? 0.05 : -1.0;
            const int x = add_from(b, least, dtypes[t], false, 3, 5, 7, 11);
            const int y = add(b, dtypes[t], true, 3, 5, 7, 11);
            const int gy = add(b, dtypes[t], false, 3, 5, 7, 11);
            const int gx = add(b, dtypes[t], kind % 2 == 0, 3, 5, 7, 11);
            for (int d = 0; d < 2; ++d) {
                uf_context *context = b->context[d];
                uf_activation_kernel_args args;
                memset(&args, 0, sizeof args);
                args.activation.kind = (uf_activation_kind)kind;
                args.activation.parameter = 0.3;
                args.maximum = 0.7;
                args.input = view(b, d, x);
                args.output = view(b, d, y);
                assert_ok(context->kernels->activation_forward(context, &args));
                args.grad_output = view(b, d, gy);
                args.grad_input = view(b, d, gx);
                args.mode = kind % 2 == 0 ? UF_OVERWRITE : UF_ACCUMULATE;
                assert_ok(context->kernels->activation_backward(context, &args));
            }
            finish(b, "activation", tolerance_of(dtypes[t]));
        }
    }
}

static void batch_norm_case(both *b, uf_dtype dtype, bool training, bool keep, int64_t n, int64_t c,
                            int64_t h, int64_t w) {
    const int x = add(b, dtype, false, n, c, h, w);
    const int y = add(b, dtype, true, n, c, h, w);
    const int weight = add(b, dtype, false, 1, c, 1, 1);
    const int bias = add(b, dtype, false, 1, c, 1, 1);
    const int mean = add(b, dtype, false, 1, c, 1, 1);
    const int var = add(b, dtype, false, 1, c, 1, 1);
    const int save_mean = add(b, UF_F64, !keep || !training ? false : true, 1, c, 1, 1);
    const int save_invstd = add(b, UF_F64, !keep || !training ? false : true, 1, c, 1, 1);
    const int gy = add(b, dtype, false, n, c, h, w);
    const int gx = add(b, dtype, true, n, c, h, w);
    const int gw = add(b, dtype, false, 1, c, 1, 1);
    const int gb = add(b, dtype, true, 1, c, 1, 1);
    for (int d = 0; d < 2; ++d) {
        uf_context *context = b->context[d];
        uf_batch_norm_kernel_args args;
        int64_t counter = 41;
        memset(&args, 0, sizeof args);
        args.input = view(b, d, x);
        args.output = view(b, d, y);
        args.weight = view(b, d, weight);
        args.bias = view(b, d, bias);
        args.running_mean = view(b, d, mean);
        args.running_var = view(b, d, var);
        if (keep) {
            args.save_mean = view(b, d, save_mean);
            args.save_invstd = view(b, d, save_invstd);
        }
        args.num_batches_tracked = device_copy(context, &counter, sizeof counter);
        args.eps = training ? 1e-5 : 1.5; /* the "variance" above may be negative */
        args.momentum = 0.1;
        args.training = training;
        args.activation.kind = UF_ACTIVATION_TANH; /* without a kink that rounding may cross */
        const size_t size = context->kernels->batch_norm_forward_workspace(context, &args);
        args.workspace = scratch(context, size);
        args.workspace_size = size;
        assert_ok(uf_batch_norm_check(&args, false));
        assert_ok(context->kernels->batch_norm_forward(context, &args));
        assert_ok(
            context->device->download(context, &counter, args.num_batches_tracked, sizeof counter));
        assert_int_equal(counter, training ? 42 : 41);
        uf_context_release(context, args.num_batches_tracked, sizeof counter, UF_MEMORY_DEVICE);
        uf_context_release(context, args.workspace, size, UF_MEMORY_DEVICE);
        if (!keep && training) {
            continue; /* nothing to go back with */
        }
        args.num_batches_tracked = NULL;
        args.grad_output = view(b, d, gy);
        args.grad_input = view(b, d, gx);
        args.grad_weight = view(b, d, gw);
        args.grad_bias = view(b, d, gb);
        args.grad_param_mode = UF_OVERWRITE;
        args.workspace_size = context->kernels->batch_norm_backward_workspace(context, &args);
        args.workspace = scratch(context, args.workspace_size);
        assert_ok(context->kernels->batch_norm_backward(context, &args));
        assert_ok(uf_context_synchronize(context));
        uf_context_release(context, args.workspace, args.workspace_size, UF_MEMORY_DEVICE);
    }
    if (!keep && training) {
        /* gx and gb stay NaN on both: take them out of the comparison. */
        for (int d = 0; d < 2; ++d) {
            for (int i = 0; i < 2; ++i) {
                uf_fill_kernel_args fill;
                memset(&fill, 0, sizeof fill);
                fill.output = view(b, d, i == 0 ? gx : gb);
                assert_ok(b->context[d]->kernels->fill(b->context[d], &fill));
            }
        }
    }
    finish(b, "batch_norm", dtype == UF_F64 ? 1e-12 : 2e-5);
}

static void test_batch_norm(void **state) {
    both *b = *state;
    for (int t = 0; t < 2; ++t) {
        for (int mode = 0; mode < 4; ++mode) {
            batch_norm_case(b, dtypes[t], mode % 2 == 0, mode < 2, 3, 5, 7, 9);
            batch_norm_case(b, dtypes[t], mode % 2 == 0, mode < 2, 2, 70, 1, 1);
            batch_norm_case(b, dtypes[t], mode % 2 == 0, mode < 2, 2, 3, 40, 41);
            batch_norm_case(b, dtypes[t], mode % 2 == 0, mode < 2, 3, 2, 80, 84);
        }
        const int mean = add(b, dtypes[t], false, 1, 300, 1, 1);
        const int var = add(b, dtypes[t], false, 1, 300, 1, 1);
        const int bias = add(b, dtypes[t], false, 1, 300, 1, 1);
        const int scale = add(b, dtypes[t], true, 1, 300, 1, 1);
        const int shift = add(b, dtypes[t], true, 1, 300, 1, 1);
        for (int d = 0; d < 2; ++d) {
            uf_batch_norm_fold_kernel_args args;
            memset(&args, 0, sizeof args);
            args.running_mean = view(b, d, mean);
            args.running_var = view(b, d, var);
            args.input_bias = view(b, d, bias);
            args.eps = 1.5;
            args.scale = view(b, d, scale);
            args.shift = view(b, d, shift);
            assert_ok(b->context[d]->kernels->batch_norm_fold(b->context[d], &args));
        }
        finish(b, "batch_norm_fold", tolerance_of(dtypes[t]));
    }
}

static void test_pad(void **state) {
    both *b = *state;
    for (int t = 0; t < 2; ++t) {
        for (int mode = 0; mode <= UF_PAD_REFLECT; ++mode) {
            const int x = add(b, dtypes[t], false, 2, 3, 6, 5);
            const int y = add(b, dtypes[t], true, 2, 3, 6 + 5 + 4, 5 + 3 + 2);
            const int gy = add(b, dtypes[t], false, 2, 3, 6 + 5 + 4, 5 + 3 + 2);
            const int gx = add(b, dtypes[t], mode != UF_PAD_REPLICATE, 2, 3, 6, 5);
            for (int d = 0; d < 2; ++d) {
                uf_context *context = b->context[d];
                uf_pad_kernel_args args;
                memset(&args, 0, sizeof args);
                args.pad_mode = (uf_pad_mode)mode;
                args.left = 3;
                args.right = 2;
                args.top = 5;
                args.bottom = 4;
                args.input = view(b, d, x);
                args.output = view(b, d, y);
                assert_ok(context->kernels->pad_forward(context, &args));
                args.grad_output = view(b, d, gy);
                args.grad_input = view(b, d, gx);
                args.mode = mode != UF_PAD_REPLICATE ? UF_OVERWRITE : UF_ACCUMULATE;
                assert_ok(context->kernels->pad_backward(context, &args));
            }
            finish(b, "pad", tolerance_of(dtypes[t]));
        }
    }
}

static void test_copy_and_fill(void **state) {
    both *b = *state;
    for (int t = 0; t < 2; ++t) {
        const int from = add(b, dtypes[t], false, 2, 3, 5, 7);
        const int to = add(b, dtypes[t], false, 2, 3, 7, 5);
        const int filled = add(b, dtypes[t], true, 2, 3, 5, 7);
        for (int d = 0; d < 2; ++d) {
            uf_context *context = b->context[d];
            uf_copy_kernel_args copy;
            uf_fill_kernel_args fill;
            memset(&copy, 0, sizeof copy);
            memset(&fill, 0, sizeof fill);
            copy.input = view(b, d, from);
            copy.output = view(b, d, to);
            /* Rows and columns exchanged. */
            copy.output.extent[2] = 5;
            copy.output.extent[3] = 7;
            copy.output.stride[2] = 1;
            copy.output.stride[3] = 5;
            copy.mode = UF_ACCUMULATE;
            assert_ok(context->kernels->copy(context, &copy));
            fill.output = view(b, d, filled);
            fill.value = 0.1;
            assert_ok(context->kernels->fill(context, &fill));
        }
        finish(b, "copy and fill", 0.0);
    }
}

static void test_sums(void **state) {
    both *b = *state;
    for (int t = 0; t < 2; ++t) {
        for (int64_t extent = 1; extent < 300; extent = 3 * extent + 2) {
            const int x = add(b, dtypes[t], false, 2, 3, extent, extent);
            const int sum = add(b, dtypes[t], extent % 2 == 0, 1, 3, 1, 1);
            for (int d = 0; d < 2; ++d) {
                uf_context *context = b->context[d];
                uf_channel_sum_kernel_args args;
                memset(&args, 0, sizeof args);
                args.input = view(b, d, x);
                args.output = view(b, d, sum);
                args.mode = extent % 2 == 0 ? UF_OVERWRITE : UF_ACCUMULATE;
                args.workspace_size = context->kernels->channel_sum_workspace(context, &args);
                args.workspace = scratch(context, args.workspace_size);
                assert_ok(context->kernels->channel_sum(context, &args));
                assert_ok(uf_context_synchronize(context));
                uf_context_release(context, args.workspace, args.workspace_size, UF_MEMORY_DEVICE);
            }
            finish(b, "channel_sum", 100 * tolerance_of(dtypes[t]));
        }
    }
}

static void test_losses(void **state) {
    both *b = *state;
    for (int t = 0; t < 2; ++t) {
        for (int kind = 0; kind < UF_LOSS_COUNT; ++kind) {
            const int64_t count = kind % 2 == 0 ? 70001 : 13;
            const int x = add(b, dtypes[t], false, 1, 1, 1, count);
            const int target = add(b, dtypes[t], false, 1, 1, 1, count);
            const int loss = add(b, dtypes[t], true, 1, 1, 1, 1);
            const int seed = add(b, dtypes[t], false, 1, 1, 1, 1);
            const int gx = add(b, dtypes[t], kind < 2, 1, 1, 1, count);
            if (kind == UF_LOSS_BCE) { /* probabilities */
                for (int d = 0; d < 2; ++d) {
                    for (int i = 0; i < 2; ++i) {
                        uf_activation_kernel_args args;
                        memset(&args, 0, sizeof args);
                        args.activation.kind = UF_ACTIVATION_SIGMOID;
                        args.input = args.output = view(b, d, i == 0 ? x : target);
                        assert_ok(b->context[d]->kernels->activation_forward(b->context[d], &args));
                    }
                }
            }
            for (int d = 0; d < 2; ++d) {
                uf_context *context = b->context[d];
                uf_loss_kernel_args args;
                memset(&args, 0, sizeof args);
                args.kind = (uf_loss_kind)kind;
                args.beta = 0.5;
                args.input = view(b, d, x);
                args.target = view(b, d, target);
                args.output = view(b, d, loss);
                args.workspace_size = context->kernels->loss_workspace(context, &args);
                args.workspace = scratch(context, args.workspace_size);
                assert_ok(context->kernels->loss_forward(context, &args));
                args.grad_output = view(b, d, seed);
                args.grad_input = view(b, d, gx);
                args.mode = kind < 2 ? UF_OVERWRITE : UF_ACCUMULATE;
                assert_ok(context->kernels->loss_backward(context, &args));
                assert_ok(uf_context_synchronize(context));
                uf_context_release(context, args.workspace, args.workspace_size, UF_MEMORY_DEVICE);
            }
            finish(b, "loss", tolerance_of(dtypes[t]));
        }
    }
}

static void test_optimizer(void **state) {
    both *b = *state;
    for (int t = 0; t < 2; ++t) {
        /* Adam, AdamW, SGD with and without momentum, RMSprop without and with, an average. */
        for (int kind = 0; kind < 7; ++kind) {
            const int64_t count = 5003;
            const int p = add(b, dtypes[t], false, 1, 1, 1, count);
            const int g = add(b, dtypes[t], false, 1, 1, 1, count);
            const int m = add(b, dtypes[t], false, 1, 1, 1, count);
            const int v = add(b, dtypes[t], false, 1, 1, 1, count);
            for (int d = 0; d < 2; ++d) {
                uf_context *context = b->context[d];
                /* Every third share of the elements is in the second group. */
                uf_optimizer_control control = {
                    .lr = 0.01, .power1 = 1.0, .power2 = 1.0, .groups = {{1.0, 0.1}, {0.25, 0.5}}};
                uint8_t group_of[5003 * sizeof(double) / UF_ALIGNMENT + 1];
                for (size_t i = 0; i < sizeof group_of; ++i) {
                    group_of[i] = i % 3 == 1;
                }
                uf_optimizer_kernel_args args;
                uf_fill_kernel_args fill; /* second moments are not negative */
                memset(&args, 0, sizeof args);
                memset(&fill, 0, sizeof fill);
                fill.output = view(b, d, v);
                fill.value = 0.25;
                assert_ok(context->kernels->fill(context, &fill));
                static const uf_optimizer_kind kinds[] = {
                    UF_OPTIMIZER_ADAM,   UF_OPTIMIZER_ADAM,    UF_OPTIMIZER_SGD,
                    UF_OPTIMIZER_SGD,    UF_OPTIMIZER_RMSPROP, UF_OPTIMIZER_RMSPROP,
                    UF_OPTIMIZER_AVERAGE};
                args.rule.kind = kinds[kind];
                args.rule.beta1 = 0.5;
                args.rule.beta2 = 0.999;
                args.rule.eps = 1e-8;
                args.rule.momentum = kind == 2 || kind == 5 ? 0.9 : 0.0;
                args.rule.decoupled = kind == 1;
                args.rule.nesterov = kind == 2;
                args.dtype = dtypes[t];
                /* Every second kind has a parameter that no vector begins at. */
                const int64_t skipped = kind % 2;
                args.first = skipped;
                args.count = count - skipped;
                void *groups = device_copy(context, group_of, sizeof group_of);
                args.group_of = kind < 5 ? groups : NULL;
                args.parameter =
                    (char *)view(b, d, p).data + (size_t)skipped * uf_dtype_size(dtypes[t]);
                args.gradient = view(b, d, g).data;
                args.state1 = uf_optimizer_has_state1(&args.rule) ? view(b, d, m).data : NULL;
                args.state2 = uf_optimizer_has_state2(&args.rule) ? view(b, d, v).data : NULL;
                args.control = device_copy(context, &control, sizeof control);
                for (int step = 0; step < 3; ++step) {
                    assert_ok(context->kernels->optimizer_advance(context, &args));
                    assert_ok(context->kernels->optimizer_step(context, &args));
                }
                assert_ok(
                    context->device->download(context, &control, args.control, sizeof control));
                assert_int_equal(control.step, 3);
                assert_true(control.power1 == 0.5 * 0.5 * 0.5);
                uf_context_release(context, args.control, sizeof control, UF_MEMORY_DEVICE);
                uf_context_release(context, groups, sizeof group_of, UF_MEMORY_DEVICE);
            }
            finish(b, "optimizer", tolerance_of(dtypes[t]));
        }
    }
}

/* The same bits, also past element 2^18 where the counter's other word begins, and with the last
 * block cut. */
static void test_random_bits(void **state) {
    both *b = *state;
    static const int64_t counts[] = {1, 3, 4, 1021, 262144 + 77};
    for (int t = 0; t < 2; ++t) {
        for (int kind = 0; kind < 2; ++kind) {
            for (int64_t i = 0; i < COUNT_OF(counts); ++i) {
                const int to = add(b, dtypes[t], true, 1, 1, 1, counts[i]);
                for (int d = 0; d < 2; ++d) {
                    uf_random_kernel_args args;
                    memset(&args, 0, sizeof args);
                    args.kind = (uf_random_kind)kind;
                    args.seed = UINT64_C(0x123456789abcdef0) + (uint64_t)i;
                    args.a = 0.7;
                    args.b = 1.9;
                    args.output = view(b, d, to);
                    assert_ok(b->context[d]->kernels->random_fill(b->context[d], &args));
                }
                finish(b, "random_fill", 0.0);
            }
        }
    }
}

int main(int argc, char **argv) {
    static both b;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_conv, &b),
        cmocka_unit_test_prestate(test_activation, &b),
        cmocka_unit_test_prestate(test_batch_norm, &b),
        cmocka_unit_test_prestate(test_pad, &b),
        cmocka_unit_test_prestate(test_copy_and_fill, &b),
        cmocka_unit_test_prestate(test_sums, &b),
        cmocka_unit_test_prestate(test_losses, &b),
        cmocka_unit_test_prestate(test_optimizer, &b),
        cmocka_unit_test_prestate(test_random_bits, &b),
    };
    const int skipped = test_device_or_skip();
    if (skipped != 0) {
        return skipped;
    }
    b.context[0] = context_of(UF_DEVICE_CPU);
    b.context[1] = context_of(UF_DEVICE_CUDA);
    b.random = test_random_for("both", 0);
    if (argc > 1) {
        only_row = strtol(argv[1], NULL, 10);
        cmocka_set_test_filter("test_conv");
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    uf_context_destroy(b.context[0]);
    uf_context_destroy(b.context[1]);
    return failed;
}
