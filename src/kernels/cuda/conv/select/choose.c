/* choose.c - the choice of a convolution kernel: of those that take the arguments, the one
 * that select/cost.c expects to be the fastest. */
#include "kernels/cuda/conv/select/choose.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/conv/mma_few_channels/stride2_k4/plan.h"
#include "kernels/cuda/conv/depthwise/plan.h"
#include "kernels/cuda/conv/simt_direct/plan.h"
#include "kernels/cuda/conv/select/cost.h"
#include "kernels/cuda/conv/mma_small/plan.h"
#include "kernels/cuda/conv/wgmma_patch_gemm/filter_stationary/plan.h"
#include "kernels/cuda/conv/transform/space_to_depth/plan.h"
#include "kernels/cuda/conv/mma_few_channels/row_stream/dgrad_plan.h"
#include "kernels/cuda/conv/mma_few_channels/row_stream/fprop_plan.h"
#include "kernels/cuda/conv/mma_few_channels/row_stream/wgrad_plan.h"
#include "kernels/cuda/conv/mma_few_channels/im2col/plan.h"
#include "kernels/cuda/conv/wgmma_patch_gemm/plan.h"
#include "kernels/cuda/conv/wgmma_implicit_gemm/plan.h"
#include "kernels/cuda/conv/wgmma_wgrad/channel_blocked/plan.h"
#include "kernels/cuda/conv/wgmma_patch_gemm/wgrad/plan.h"
#include "kernels/cuda/conv/mma_few_channels/im2col/wgrad_plan.h"

static const char *const direction_names[] = {
    [UF_CONV_FPROP] = "conv_fprop",
    [UF_CONV_DGRAD] = "conv_dgrad",
    [UF_CONV_WGRAD] = "conv_wgrad",
};

static bool anything(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    (void)direction;
    (void)args;
    return true;
}

/* Every extent, and every position that a tap can name, padding included, in 28 bits: sums of a few
 * of them are int32_t. */
static bool positions_fit(const uf_conv_kernel_args *args) {
    const int64_t limit = INT64_C(1) << 28;
    for (int axis = 0; axis < 2; ++axis) {
        const int64_t kernel = args->w.extent[2 + axis];
        if (args->x.extent[2 + axis] >= limit || args->y.extent[2 + axis] >= limit ||
            args->padding[axis] >= limit || args->stride[axis] >= limit ||
            args->dilation[axis] >= limit || kernel >= limit ||
            (kernel - 1) * args->dilation[axis] >= limit) {
            return false;
        }
    }
    return args->x.extent[0] < limit && args->x.extent[1] < limit && args->y.extent[1] < limit &&
           args->w.extent[2] * args->w.extent[3] < limit;
}

static int64_t round_up(int64_t value, int64_t unit) {
    return (value + unit - 1) / unit * unit;
}

/* Pixels, columns (c, r, s) and tiles (at least 16 x 48) are int32_t, and so are positions of up to
 * 32 strides beyond the end. */
static bool mma_wgrad_suits(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    (void)direction;
    if ((args->x.dtype != UF_F32 && args->x.dtype != UF_BF16) || !positions_fit(args)) {
        return false;
    }
    const int64_t limit = INT64_C(1) << 30;
    const int64_t most_tiles = INT64_C(1) << 22;
    const int64_t plane = args->y.extent[2] * args->y.extent[3];
    if (plane >= limit || plane * args->y.extent[0] >= limit) {
        return false;
    }
    const int64_t columns = round_up(args->w.extent[1], 8) * args->w.extent[2] * args->w.extent[3];
    const int64_t tiles = round_up(args->w.extent[0] / args->groups, 16) / 16 * args->groups;
    return args->stride[0] < INT64_C(1) << 24 && args->stride[1] < INT64_C(1) << 24 &&
           columns < limit && tiles < most_tiles &&
           tiles * (round_up(columns, 48) / 48) < most_tiles;
}

/* One tile of 128 pixels per phase at the least, and one per 32 channels of a group: the grid
 * counts them. */
static bool tiles_fit(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    if (!positions_fit(args)) {
        return false;
    }
    const int64_t limit = INT64_C(1) << 30;
    const uf_view *written = direction == UF_CONV_DGRAD ? &args->x : &args->y;
    const int64_t phases = direction == UF_CONV_DGRAD ? args->stride[0] * args->stride[1] : 1;
    const int64_t plane = written->extent[2] * written->extent[3];
    const int64_t channel_tiles = args->groups * ((written->extent[1] / args->groups + 31) / 32);
    if (phases >= limit || plane >= limit || plane * written->extent[0] >= limit) {
        return false;
    }
    /* Phases differ by one row and one column: each has as many tiles as the largest. */
    int64_t pixels = written->extent[0];
    for (int axis = 0; axis < 2; ++axis) {
        const int64_t step = direction == UF_CONV_DGRAD ? args->stride[axis] : 1;
        pixels *= (written->extent[2 + axis] + step - 1) / step;
    }
    const int64_t tiles = (pixels / 128 + 1) * phases;
    return tiles < limit && tiles * channel_tiles < limit;
}

static bool mma_suits(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    return (args->x.dtype == UF_F32 || args->x.dtype == UF_BF16) && tiles_fit(direction, args);
}

/* Taps that are apart: tiles of their own, which count the columns of a filter as channels. */
static bool is_patch(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    const uf_conv_kernel_args canonical = uf_wgmma_canonical(args);
    uf_patch_plan plan;
    return uf_patch_plan_of(direction, &canonical, &plan);
}

static bool wgmma_suits(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    uf_wgmma_geometry geometry;
    const uf_conv_kernel_args canonical = uf_wgmma_canonical(args);
    return (args->x.dtype == UF_F32 || args->x.dtype == UF_BF16) && tiles_fit(direction, args) &&
           (is_patch(direction, args) || (uf_wgmma_geometry_of(direction, &canonical, &geometry) &&
                                          geometry.tiles < INT64_C(1) << 30));
}

/* `wgmma_implicit_gemm` helps out where tensors begin anywhere. */
static bool filter_stationary_suits(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    uf_filter_stationary_plan plan;
    return uf_filter_stationary_plan_of(direction, args, &plan) && wgmma_suits(direction, args);
}

static bool space_to_depth_suits(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    uf_space_to_depth_plan plan;
    return positions_fit(args) && uf_space_to_depth_plan_of(direction, args, &plan);
}

static bool split_f16_suits(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    uf_wgmma_geometry geometry;
    const uf_conv_kernel_args canonical = uf_wgmma_canonical(args);
    return args->x.dtype == UF_F32 && tiles_fit(direction, args) &&
           uf_wgmma_split_f16_of(direction, &canonical, &geometry) &&
           geometry.tiles < INT64_C(1) << 30;
}

/* 32-bit offsets within a box of up to 128 images. */
static bool near_enough(int64_t steps, int64_t stride) {
    const int64_t limit = INT64_C(1) << 29;
    const int64_t size = stride < 0 ? -stride : stride;
    return size < limit && steps * size < limit;
}

static bool direct_wgrad_suits(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    (void)direction;
    const int64_t limit = INT64_C(1) << 28;
    const int64_t r = args->w.extent[2], s = args->w.extent[3];
    const bool images =
        args->y.extent[3] < 4 && args->y.extent[0] > 1; /* boxes of four images and more */
    return (args->x.dtype == UF_F32 || args->x.dtype == UF_BF16) && positions_fit(args) &&
           r <= 11 && s <= 11 && uf_view_count(&args->w) < limit && uf_view_count(&args->y) > 0 &&
           uf_view_count(&args->y) / args->y.extent[1] < limit &&
           near_enough((r - 1) * args->dilation[0] + 1, args->x.stride[2]) &&
           near_enough(3 * args->stride[1] + (s - 1) * args->dilation[1] + 1, args->x.stride[3]) &&
           near_enough(1, args->y.stride[2]) && near_enough(4, args->y.stride[3]) &&
           near_enough(512, args->y.stride[1]) &&
           (!images || (near_enough(4, args->x.stride[0]) && near_enough(4, args->y.stride[0])));
}

static bool columns_wgrad_suits(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    uf_stride2_k4_plan plan;
    return uf_stride2_k4_plan_of(direction, args, &plan) && direct_wgrad_suits(direction, args);
}

/* Then direct moves memory and no other variant has anything to save. */
static bool is_depthwise(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    uf_depthwise_plan plan;
    return uf_depthwise_plan_of(direction, args, &plan);
}

static bool direct_suits(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    uf_direct_plan plan;
    return (args->x.dtype == UF_F32 || args->x.dtype == UF_BF16) && positions_fit(args) &&
           (is_depthwise(direction, args) || uf_direct_plan_of(direction, args, &plan));
}

static bool im2col_suits(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    uf_im2col_plan plan;
    return (args->x.dtype == UF_F32 || args->x.dtype == UF_BF16) && positions_fit(args) &&
           uf_im2col_plan_of(direction, args, &plan);
}

static bool stream_suits(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    uf_row_stream_fprop_plan fprop;
    uf_row_stream_dgrad_plan dgrad;
    return (args->x.dtype == UF_F32 || args->x.dtype == UF_BF16) && positions_fit(args) &&
           (direction == UF_CONV_DGRAD ? uf_row_stream_dgrad_plan_of(direction, args, &dgrad)
                                       : uf_row_stream_fprop_plan_of(direction, args, &fprop));
}

/* `simt_direct` helps out where tensors begin anywhere; its plan takes long, so it is asked last.
 */
static bool columns_suits(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    uf_stride2_k4_plan plan;
    return uf_stride2_k4_plan_of(direction, args, &plan) && direct_suits(direction, args);
}

static bool stream_wgrad_suits(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    (void)direction;
    uf_row_stream_wgrad_plan plan;
    return (args->x.dtype == UF_F32 || args->x.dtype == UF_BF16) && positions_fit(args) &&
           uf_row_stream_wgrad_plan_of(args, &plan);
}

/* Elements of (c, r, s) follow each other. */
static bool is_flat(const uf_view *view) {
    int64_t step = 1;
    for (int axis = 3; axis > 0; --axis) {
        if (view->extent[axis] != 1 && view->stride[axis] != step) {
            return false;
        }
        step *= view->extent[axis];
    }
    return true;
}

/* Each tap meets a pixel of its own: x is as large as the filter. Counts and tiles of 64 x 64 fit
 * 32 bits. */
static bool gemm_suits(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    (void)direction;
    const int64_t limit = INT64_C(1) << 28;
    const int64_t columns = args->w.extent[1] * args->w.extent[2] * args->w.extent[3];
    const int64_t rows =
        args->y.extent[0] > args->w.extent[0] ? args->y.extent[0] : args->w.extent[0];
    return (args->x.dtype == UF_F32 || args->x.dtype == UF_BF16) && args->y.extent[2] == 1 &&
           args->y.extent[3] == 1 && args->x.extent[2] == args->w.extent[2] &&
           args->x.extent[3] == args->w.extent[3] && args->padding[0] == 0 &&
           args->padding[1] == 0 && is_flat(&args->x) && is_flat(&args->w) &&
           uf_view_count(&args->x) > 0 && uf_view_count(&args->y) > 0 &&
           uf_view_count(&args->w) > 0 && columns < limit && rows < limit &&
           (columns / 64 + 1) * (rows / 64 + 1) * args->groups < limit;
}

/* Elements that `extent` pixels of a box and the taps read along an axis (wgrad_rows_of). */
static int64_t lines_along(const uf_conv_kernel_args *args, int axis, int64_t extent) {
    const int64_t kernel = args->w.extent[2 + axis];
    const int64_t g = uf_gcd(args->stride[axis], args->dilation[axis]);
    const int64_t step = args->stride[axis] / g < kernel ? args->stride[axis] / g : kernel;
    const int64_t most = (kernel + step - 1) / step, shift = args->dilation[axis] / g;
    const int64_t count = step * (extent + (most - 1) * shift) - (step * most - kernel) * shift;
    return count < extent * kernel && most > 1 ? count : extent * kernel;
}

/* What the taps of 32 pixels read must fit the table and shared memory: with 32 taps it does even
 * where they share nothing. */
static bool lines_fit(const uf_conv_kernel_args *args) {
    const int64_t most = 1024; /* WGRAD_RS_ENTRIES */
    if (args->w.extent[2] * args->w.extent[3] <= 32) {
        return true;
    }
    for (int64_t q = 1; q <= 32; q *= 2) {
        for (int64_t p = 1; p * q <= 32; p *= 2) {
            /* Boxes that half of them would hold as well are none. */
            if (args->w.extent[2] <= most && args->w.extent[3] <= most &&
                (q == 1 || q / 2 < args->y.extent[3]) && (p == 1 || p / 2 < args->y.extent[2]) &&
                32 / (p * q) * lines_along(args, 0, p) * lines_along(args, 1, q) <= most) {
                return true;
            }
        }
    }
    return false;
}

static bool lines_wgrad_suits(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    uf_patch_wgrad_copies copies;
    return args->x.dtype == UF_F32 && mma_wgrad_suits(direction, args) &&
           (lines_fit(args) ||
            (args->math != UF_MATH_BF16 && uf_patch_wgrad_copies_of(args, &copies)));
}

static bool im2col_wgrad_suits(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    (void)direction;
    uf_wgrad_im2col_plan plan;
    const int64_t limit = INT64_C(1) << 28;
    return (args->x.dtype == UF_F32 || args->x.dtype == UF_BF16) && positions_fit(args) &&
           uf_view_count(&args->w) < limit && uf_wgrad_im2col_plan_of(args, &plan);
}

/* Positions and blocks of the packing kernel are 32-bit. */
static bool blocks_fit(const uf_conv_kernel_args *args) {
    const int64_t limit = INT64_C(1) << 30;
    if (!positions_fit(args)) {
        return false;
    }
    int64_t positions = args->x.extent[0] + 127; /* of images that are added where rows are short */
    for (int axis = 0; axis < 2; ++axis) {
        const int64_t x = args->x.extent[2 + axis] + args->stride[axis],
                      y = args->y.extent[2 + axis];
        positions *= x > y ? x : y;
        if (positions >= limit) {
            return false;
        }
    }
    const int64_t units = (args->x.extent[1] + args->y.extent[1]) / 16 + 2 * args->groups;
    return (positions / 256 + 1) * units < limit && uf_view_count(&args->w) < limit &&
           uf_view_count(&args->y) > 0;
}

/* In BF16 alone. */
static bool blocks_wgrad_suits(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    (void)direction;
    uf_channel_blocked_plan plan;
    uf_patch_wgrad_copies copies;
    return (args->x.dtype == UF_BF16 || (args->x.dtype == UF_F32 && args->math == UF_MATH_BF16)) &&
           blocks_fit(args) &&
           (uf_wgrad_channel_blocked_plan_of(args, false, &plan) ||
            (args->x.dtype == UF_BF16 && uf_patch_wgrad_copies_of(args, &copies)));
}

/* Where lines can make again what halves are too narrow for. */
static bool split_f16_wgrad_suits(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    uf_channel_blocked_plan plan;
    return args->x.dtype == UF_F32 && args->math == UF_MATH_FP32 &&
           mma_wgrad_suits(direction, args) && lines_fit(args) && blocks_fit(args) &&
           uf_wgrad_channel_blocked_plan_of(args, false, &plan);
}

static bool small_suits(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    uf_small_plan plan;
    return (args->x.dtype == UF_F32 || args->x.dtype == UF_BF16) && tiles_fit(direction, args) &&
           uf_small_plan_of(direction, args, &plan);
}

static bool small_wgrad_suits(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    (void)direction;
    uf_small_wgrad_plan plan;
    return (args->x.dtype == UF_F32 || args->x.dtype == UF_BF16) && positions_fit(args) &&
           uf_small_wgrad_plan_of(args, &plan);
}

static bool nothing(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    (void)direction;
    (void)args;
    return false;
}

/* What a kernel computes correctly, and may be forced for. */
typedef bool takes(uf_conv_direction direction, const uf_conv_kernel_args *args);

/* A variant, of two kernels: fprop and dgrad are one correlation; and the GPUs that run it. */
static const struct {
    const char *name;
    takes *correlate, *wgrad;
    int least, most; /* compute capability, 80 for 8.0 */
} rows[UF_CUDA_CONV_VARIANTS] = {
    [UF_CUDA_CONV_NAIVE] = {"naive", anything, anything, 0, INT_MAX},
    [UF_CUDA_CONV_MMA_IMPLICIT_GEMM] = {"mma_implicit_gemm", mma_suits, mma_wgrad_suits, 80,
                                        INT_MAX},
    [UF_CUDA_CONV_WGMMA_IMPLICIT_GEMM] = {"wgmma_implicit_gemm", wgmma_suits, lines_wgrad_suits, 90,
                                          90},
    [UF_CUDA_CONV_SIMT_DIRECT] = {"simt_direct", direct_suits, direct_wgrad_suits, 80, INT_MAX},
    [UF_CUDA_CONV_MMA_IM2COL] = {"mma_im2col", im2col_suits, im2col_wgrad_suits, 80, INT_MAX},
    [UF_CUDA_CONV_SIMT_GEMM] = {"simt_gemm", gemm_suits, gemm_suits, 0, INT_MAX},
    [UF_CUDA_CONV_WGMMA_CHANNEL_BLOCKED] = {"wgmma_channel_blocked", nothing, blocks_wgrad_suits,
                                            90, 90},
    [UF_CUDA_CONV_MMA_SMALL] = {"mma_small", small_suits, small_wgrad_suits, 80, INT_MAX},
    [UF_CUDA_CONV_WGMMA_SPLIT_F16] = {"wgmma_split_f16", split_f16_suits, split_f16_wgrad_suits, 90,
                                      90},
    [UF_CUDA_CONV_MMA_ROW_STREAM] = {"mma_row_stream", stream_suits, stream_wgrad_suits, 90, 90},
    [UF_CUDA_CONV_MMA_STRIDE2_K4] = {"mma_stride2_k4", columns_suits, columns_wgrad_suits, 90, 90},
    [UF_CUDA_CONV_WGMMA_FILTER_STATIONARY] = {"wgmma_filter_stationary", filter_stationary_suits,
                                              nothing, 90, 90},
    [UF_CUDA_CONV_SPACE_TO_DEPTH] = {"space_to_depth", space_to_depth_suits, space_to_depth_suits,
                                     UF_CUDA_CONV_SPACE_TO_DEPTH_CAPABILITY,
                                     UF_CUDA_CONV_SPACE_TO_DEPTH_CAPABILITY},
};

const char *uf_cuda_conv_variant_name(uf_cuda_conv_variant variant) {
    return (unsigned)variant < UF_CUDA_CONV_VARIANTS ? rows[variant].name : "not a variant";
}

bool uf_cuda_conv_suits(uf_conv_direction direction, const uf_conv_kernel_args *args,
                        int capability, uf_cuda_conv_variant variant) {
    return (unsigned)variant < UF_CUDA_CONV_VARIANTS && rows[variant].least <= capability &&
           capability <= rows[variant].most &&
           (direction == UF_CONV_WGRAD ? rows[variant].wgrad : rows[variant].correlate)(direction,
                                                                                        args);
}

static uf_status forced(uf_conv_direction direction, const uf_conv_kernel_args *args,
                        int capability, uf_cuda_conv_variant *variant) {
    /* Others make plans, which takes long: only where they must be told. */
    for (int i = 0; i < UF_CUDA_CONV_VARIANTS; ++i) {
        const uf_cuda_conv_variant candidate = (uf_cuda_conv_variant)i;
        if (strcmp(args->variant, rows[i].name) == 0 &&
            uf_cuda_conv_suits(direction, args, capability, candidate)) {
            *variant = candidate;
            return UF_OK;
        }
    }
    char known[256];
    size_t used = 0;
    for (int i = 0; i < UF_CUDA_CONV_VARIANTS; ++i) {
        if (uf_cuda_conv_suits(direction, args, capability, (uf_cuda_conv_variant)i)) {
            /* The names are ours and short: they fit. */
            used += (size_t)snprintf(known + used, sizeof known - used, "%s\"%s\"",
                                     used > 0 ? ", " : "", rows[i].name);
        }
    }
    UF_FAIL(UF_ERROR_UNSUPPORTED,
            "no variant \"%s\" of %s takes these arguments on a GPU of compute capability %d.%d; "
            "these do: %s",
            args->variant, direction_names[direction], capability / 10, capability % 10, known);
}

uf_status uf_cuda_conv_choose(uf_conv_direction direction, const uf_conv_kernel_args *args,
                              int capability, uf_cuda_conv_variant *variant) {
    if (args->variant != NULL) {
        return forced(direction, args, capability, variant);
    }
    *variant = UF_CUDA_CONV_NAIVE;
    if (uf_view_count(&args->x) == 0 || uf_view_count(&args->w) == 0 ||
        uf_view_count(&args->y) == 0) {
        return UF_OK; /* nothing to be fast at */
    }
    double least = uf_cuda_conv_estimate(direction, args, UF_CUDA_CONV_NAIVE);
    for (int v = UF_CUDA_CONV_NAIVE + 1; v < UF_CUDA_CONV_VARIANTS; ++v) {
        const uf_cuda_conv_variant candidate = (uf_cuda_conv_variant)v;
        if (uf_cuda_conv_suits(direction, args, capability, candidate)) {
            const double microseconds = uf_cuda_conv_estimate(direction, args, candidate);
            if (microseconds < least) {
                least = microseconds;
                *variant = candidate;
            }
        }
    }
    return UF_OK;
}
