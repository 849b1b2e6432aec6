/* conv_choice.c - the choice of a convolution kernel. */
#include "kernels/cuda/conv_choice.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/conv_depthwise_plan.h"
#include "kernels/cuda/conv_direct_plan.h"
#include "kernels/cuda/conv_thin_plan.h"
#include "kernels/cuda/conv_wgmma_apart_plan.h"
#include "kernels/cuda/conv_wgmma_geometry.h"
#include "kernels/cuda/conv_wgrad_blocks_plan.h"
#include "kernels/cuda/conv_wgrad_thin_plan.h"

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
    if (args->x.dtype != UF_F32 || !positions_fit(args)) {
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

/* What is multiplied must be more than a sliver of what the smallest tiles multiply. */
static bool mma_wgrad_pays(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    (void)direction;
    const int64_t rows = args->w.extent[0] / args->groups;
    const int64_t columns = args->w.extent[1] * args->w.extent[2] * args->w.extent[3];
    return rows * columns * 24 >= round_up(rows, 16) * round_up(columns, 48);
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
    return args->x.dtype == UF_F32 && tiles_fit(direction, args);
}

/* Half a k-tile and half a tile's channels must be there: below that plain loops lose less. */
static bool mma_pays(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    const bool dgrad = direction == UF_CONV_DGRAD;
    const int64_t c_per_group = args->w.extent[1];
    const int64_t k_per_group = args->w.extent[0] / args->groups;
    const int64_t written = dgrad ? c_per_group : k_per_group;
    const int64_t read = dgrad ? k_per_group : c_per_group;
    return written >= 16 && read >= 16 && read * args->w.extent[2] * args->w.extent[3] >= 32;
}

static bool wgmma_suits(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    uf_wgmma_geometry geometry;
    const uf_conv_kernel_args canonical = uf_wgmma_canonical(args);
    return (args->x.dtype == UF_F32 || args->x.dtype == UF_BF16) && tiles_fit(direction, args) &&
           uf_wgmma_geometry_of(direction, &canonical, &geometry) &&
           geometry.tiles < INT64_C(1) << 30;
}

/* Below about 10^8 products mma.sync, which packs less, is faster. */
static bool worth_packing(const uf_conv_kernel_args *args) {
    return (double)uf_view_count(&args->y) * (double)args->w.extent[1] *
               (double)(args->w.extent[2] * args->w.extent[3]) >=
           1.2e8;
}

/* Padding to 64 channels, 16, 32 or 64 read channels and patches of pixels may not be most of the
 * work, nor phases without taps or residues that none reads. */
static bool wgmma_pays(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    uf_wgmma_geometry geometry;
    const uf_conv_kernel_args canonical = uf_wgmma_canonical(args);
    return mma_pays(direction, args) && worth_packing(args) &&
           uf_wgmma_geometry_of(direction, &canonical, &geometry) &&
           (args->x.dtype == UF_BF16 || /* who else has tensor cores for it? */
            2 * uf_wgmma_live(&geometry) >= canonical.stride[0] * canonical.stride[1]) &&
           uf_wgmma_efficiency(&canonical, &geometry) >= 20;
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

/* Few rows leave tensor cores idle, few pixels too; and in FP32 so do few columns. */
static bool direct_wgrad_pays(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    (void)direction;
    if (args->x.dtype == UF_BF16) {
        return true; /* nobody before it but naive takes it */
    }
    const int64_t rows = args->w.extent[0] / args->groups;
    const int64_t columns = args->w.extent[1] * args->w.extent[2] * args->w.extent[3];
    const int64_t pixels = args->y.extent[0] * args->y.extent[2] * args->y.extent[3];
    return rows < 16 || (args->math == UF_MATH_FP32 && columns < 32) ||
           (pixels <= 512 && !worth_packing(args));
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

/* Of at most 16 written channels wgmma's tiles of 64 are padding for the most part. */
static bool beats_wgmma(uf_conv_direction direction, const uf_conv_kernel_args *args,
                        double clocks) {
    const uf_view *written = direction == UF_CONV_DGRAD ? &args->x : &args->y;
    const uf_conv_kernel_args canonical = uf_wgmma_canonical(args);
    uf_wgmma_geometry geometry;
    uf_apart_plan apart;
    if (uf_apart_plan_of(direction, &canonical, &apart) ||
        !uf_wgmma_geometry_of(direction, &canonical, &geometry)) {
        return false;
    }
    return written->extent[1] / args->groups <= 16 && 1.2 * clocks < geometry.clocks;
}

/* Where tensor cores have too few channels, or nobody else but naive takes it; and where moving the
 * tensors takes about as long as `clocks` of multiply-adds: dgrad of a large stride then gains
 * most, because whole runs are written. */
static bool few_products(uf_conv_direction direction, const uf_conv_kernel_args *args,
                         double clocks, double memory) {
    return !mma_pays(direction, args) || beats_wgmma(direction, args, clocks) ||
           (args->x.dtype == UF_BF16 && !wgmma_pays(direction, args)) ||
           clocks <= (direction == UF_CONV_DGRAD ? 2.0 : 1.2) * memory;
}

static bool direct_pays(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    uf_direct_plan plan;
    return is_depthwise(direction, args) ||
           (uf_direct_plan_of(direction, args, &plan) &&
            few_products(direction, args, plan.clocks, plan.memory));
}

static bool thin_suits(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    uf_thin_plan plan;
    return (args->x.dtype == UF_F32 || args->x.dtype == UF_BF16) && positions_fit(args) &&
           uf_thin_plan_of(direction, args, &plan);
}

/* Where direct would be chosen, or nobody else but naive, and is slower. */
static bool thin_pays(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    uf_thin_plan plan;
    uf_direct_plan direct;
    if (is_depthwise(direction, args) || !uf_thin_plan_of(direction, args, &plan)) {
        return false;
    }
    if (!uf_direct_plan_of(direction, args, &direct)) {
        return !mma_pays(direction, args);
    }
    return plan.clocks < direct.clocks && few_products(direction, args, plan.clocks, direct.memory);
}

/* Few written channels and many taps: where warpgroup products have pixels as rows, they may be
 * faster than direct and thin, which go before. */
static bool narrow_pays(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    uf_wgmma_geometry narrow;
    uf_thin_plan thin;
    uf_direct_plan direct;
    return direction != UF_CONV_WGRAD && worth_packing(args) && !is_depthwise(direction, args) &&
           uf_wgmma_narrow_of(direction, args, &narrow) &&
           (!uf_thin_plan_of(direction, args, &thin) || narrow.clocks < thin.clocks) &&
           (!uf_direct_plan_of(direction, args, &direct) || narrow.clocks < 0.9 * direct.clocks);
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

/* A product this small is over before tensor cores have packed. */
static bool gemm_pays(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    (void)direction;
    return (double)uf_view_count(&args->w) * (double)args->y.extent[0] <=
           (args->math == UF_MATH_FP32 ? 6e8 : 3e8);
}

/* What the taps of 32 pixels read must fit shared memory: with 32 taps it does even where they
 * share nothing. */
static bool lines_wgrad_suits(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    return mma_wgrad_suits(direction, args) && args->w.extent[2] * args->w.extent[3] <= 32;
}

/* Blocks of eight channels, products of 32 rows and 64 columns, and taps that share what they read
 * or read all of it: of what large strides leave out, a line has too much. */
static bool lines_wgrad_pays(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    const int64_t rows = args->w.extent[0] / args->groups;
    const int64_t channels = args->w.extent[1];
    const int64_t taps = args->w.extent[2] * args->w.extent[3];
    const int64_t tile = round_up(rows, 32) * round_up(round_up(channels, 8) * taps, 64);
    const int64_t steps = args->stride[0] * args->stride[1];
    return !direct_wgrad_pays(direction, args) && !gemm_suits(direction, args) &&
           worth_packing(args) && 3 * rows * channels * taps >= 2 * tile &&
           (steps <= 4 || (steps <= 16 && taps >= steps));
}

static bool thin_wgrad_suits(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    (void)direction;
    uf_wgrad_thin_plan plan;
    const int64_t limit = INT64_C(1) << 28;
    return (args->x.dtype == UF_F32 || args->x.dtype == UF_BF16) && positions_fit(args) &&
           uf_view_count(&args->w) < limit && uf_wgrad_thin_plan_of(args, &plan);
}

/* Where direct would be chosen and is slower: its multiply-adds, of which a multiprocessor makes
 * 128 a clock, take about 2.8 times as long as they could, 3.5 times with bf16 tensors; this kernel
 * takes about 1.4 and 1.7 times as long as its plan says. */
static bool thin_wgrad_pays(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    uf_wgrad_thin_plan plan;
    const bool bf16 = args->x.dtype == UF_BF16;
    const double taps = (double)(args->w.extent[2] * args->w.extent[3]);
    const double products = (double)uf_view_count(&args->y) * (double)args->w.extent[1] * taps;
    return direct_wgrad_pays(direction, args) && uf_wgrad_thin_plan_of(args, &plan) &&
           plan.clocks * (bf16 ? 1.7 : 1.4) <= products / (128 * 132) * (bf16 ? 3.5 : 2.8);
}

/* In BF16 alone; positions and blocks of the packing kernel are 32-bit. */
static bool blocks_wgrad_suits(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    (void)direction;
    uf_blocks_plan plan;
    const int64_t limit = INT64_C(1) << 30;
    if (!(args->x.dtype == UF_BF16 || (args->x.dtype == UF_F32 && args->math == UF_MATH_BF16)) ||
        !positions_fit(args)) {
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
           uf_view_count(&args->y) > 0 && uf_wgrad_blocks_plan_of(args, false, &plan);
}

/* Rearranging the tensors must be worth it, and padding to 64 rows and whole patches may not be
 * most of the work. */
static bool blocks_wgrad_pays(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    (void)direction;
    uf_blocks_plan plan;
    const double taps = (double)(args->w.extent[2] * args->w.extent[3]);
    const double products = (double)uf_view_count(&args->y) * (double)args->w.extent[1] * taps;
    const double elements = (double)(uf_view_count(&args->x) + uf_view_count(&args->y));
    return worth_packing(args) && products >= 32.0 * elements &&
           uf_wgrad_blocks_plan_of(args, false, &plan) &&
           uf_wgrad_blocks_efficiency(&plan, products) >= 20;
}

static bool nothing(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    (void)direction;
    (void)args;
    return false;
}

/* What a kernel computes correctly (and may be forced for), and where it is the one to choose. */
typedef struct rule {
    bool (*suits)(uf_conv_direction direction, const uf_conv_kernel_args *args);
    bool (*pays)(uf_conv_direction direction,
                 const uf_conv_kernel_args *args); /* asked where it suits */
} rule;

/* A variant, of two kernels: fprop and dgrad are one correlation; and the GPUs that run it. A later
 * row goes before an earlier one; the first takes everything. */
static const struct {
    const char *name;
    rule correlate, wgrad;
    int least, most; /* compute capability, 80 for 8.0 */
} rows[UF_CUDA_CONV_VARIANTS] = {
    [UF_CUDA_CONV_NAIVE] = {"naive", {anything, anything}, {anything, anything}, 0, INT_MAX},
    [UF_CUDA_CONV_MMA] =
        {"mma", {mma_suits, mma_pays}, {mma_wgrad_suits, mma_wgrad_pays}, 80, INT_MAX},
    [UF_CUDA_CONV_WGMMA] =
        {"wgmma", {wgmma_suits, wgmma_pays}, {lines_wgrad_suits, lines_wgrad_pays}, 90, 90},
    [UF_CUDA_CONV_DIRECT] = {"direct",
                             {direct_suits, direct_pays},
                             {direct_wgrad_suits, direct_wgrad_pays},
                             80,
                             INT_MAX},
    [UF_CUDA_CONV_THIN] =
        {"thin", {thin_suits, thin_pays}, {thin_wgrad_suits, thin_wgrad_pays}, 80, INT_MAX},
    [UF_CUDA_CONV_GEMM] = {"gemm", {gemm_suits, gemm_pays}, {gemm_suits, gemm_pays}, 0, INT_MAX},
    [UF_CUDA_CONV_BLOCKS] =
        {"blocks", {nothing, nothing}, {blocks_wgrad_suits, blocks_wgrad_pays}, 90, 90},
};

static const rule *rule_of(int variant, uf_conv_direction direction) {
    return direction == UF_CONV_WGRAD ? &rows[variant].wgrad : &rows[variant].correlate;
}

const char *uf_cuda_conv_variant_name(uf_cuda_conv_variant variant) {
    return (unsigned)variant < UF_CUDA_CONV_VARIANTS ? rows[variant].name : "not a variant";
}

bool uf_cuda_conv_suits(uf_conv_direction direction, const uf_conv_kernel_args *args,
                        int capability, uf_cuda_conv_variant variant) {
    return (unsigned)variant < UF_CUDA_CONV_VARIANTS && rows[variant].least <= capability &&
           capability <= rows[variant].most &&
           rule_of((int)variant, direction)->suits(direction, args);
}

static uf_status forced(uf_conv_direction direction, const uf_conv_kernel_args *args,
                        int capability, uf_cuda_conv_variant *variant) {
    char known[256];
    size_t used = 0;
    for (int i = 0; i < UF_CUDA_CONV_VARIANTS; ++i) {
        const uf_cuda_conv_variant candidate = (uf_cuda_conv_variant)i;
        if (!uf_cuda_conv_suits(direction, args, capability, candidate)) {
            continue;
        }
        if (strcmp(args->variant, rows[i].name) == 0) {
            *variant = candidate;
            return UF_OK;
        }
        /* The names are ours and short: they fit. */
        used += (size_t)snprintf(known + used, sizeof known - used, "%s\"%s\"",
                                 used > 0 ? ", " : "", rows[i].name);
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
    int chosen = UF_CUDA_CONV_VARIANTS - 1;
    while (chosen > 0 &&
           !(uf_cuda_conv_suits(direction, args, capability, (uf_cuda_conv_variant)chosen) &&
             rule_of(chosen, direction)->pays(direction, args))) {
        --chosen;
    }
    /* bf16 on a GPU without warpgroup products: plain loops are the slowest of what takes it. */
    if (chosen == UF_CUDA_CONV_NAIVE && args->x.dtype == UF_BF16 &&
        uf_cuda_conv_suits(direction, args, capability, UF_CUDA_CONV_DIRECT)) {
        chosen = UF_CUDA_CONV_DIRECT;
    }
    if ((chosen == UF_CUDA_CONV_DIRECT || chosen == UF_CUDA_CONV_THIN) &&
        uf_cuda_conv_suits(direction, args, capability, UF_CUDA_CONV_WGMMA) &&
        narrow_pays(direction, args)) {
        chosen = UF_CUDA_CONV_WGMMA;
    }
    *variant = (uf_cuda_conv_variant)chosen;
    return UF_OK;
}
