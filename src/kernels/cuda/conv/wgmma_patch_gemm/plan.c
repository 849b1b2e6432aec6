/* plan.c - tiles of the patch GEMM. */
#include "kernels/cuda/conv/wgmma_patch_gemm/plan.h"

#include <string.h>

#include "kernels/cuda/conv/flatten.h"
#include "kernels/cuda/conv/wgmma_patch_gemm/instances/tiles.h"

enum {
    MULTIPROCESSORS = 132, /* of the largest GPU with wgmma */
    STAGE = 1100,          /* cycles of a stage's MMAs */
    PIECES = 12000,        /* times bytes of a copy below 16: cycles of a stage's copies */
    STAGE_FP32 = 2200,     /* cycles with three MMAs and their promotion */
    ARRIVE = 26,           /* bytes that arrive per cycle at each of all multiprocessors */
    REQUEST = 10,          /* cycles of a store request of up to 128 bytes */
    GATHER = 7000,         /* cycles of adding the sums of a cluster */
    LONGEST = 12,          /* stages of small copies that a CTA may sum while others idle */
    PACK = 3500,           /* cycles of packing weights, and bytes of them per cycle */
    PACKED = 700,
    FOLDED = 80,            /* cycles of dividing to find a unit's channel */
    IN_THREES = 120,        /* cycles of staging a column in shared memory */
    MOST_IN_CLUSTERS = 112, /* CTAs at once in clusters of four and more */
    MEMORY = 2400           /* bytes per cycle that all multiprocessors read and write */
};

/* Each element of the large side belongs to one of the small side. */
static bool is_patch(const uf_conv_kernel_args *args) {
    for (int axis = 0; axis < 2; ++axis) {
        const int64_t kernel = args->w.extent[2 + axis];
        if (kernel != args->stride[axis] || args->padding[axis] != 0 ||
            (kernel > 1 && args->dilation[axis] != 1) ||
            args->x.extent[2 + axis] != args->y.extent[2 + axis] * kernel) {
            return false;
        }
    }
    return args->stride[0] <= UF_PATCH_STRIDE && args->stride[1] <= UF_PATCH_STRIDE;
}

/* The largest power of two up to 16 that divides the bytes of all read rows; 0: none is usable. The
 * launch checks where the tensor begins. */
static int32_t piece_of(const uf_view *read, int64_t element, const uf_patch_plan *plan) {
    const int64_t most = INT64_C(1) << 38;
    const int32_t axes = plan->flat ? 2 : 3;
    int64_t bytes = 16;
    if (read->extent[3] > 1 && read->stride[3] != 1) {
        return 0;
    }
    for (int axis = 0; axis < axes; ++axis) {
        const int64_t step = read->stride[axis];
        if (read->extent[axis] > 1) {
            if (step <= 0 || step > most) {
                return 0;
            }
            while (bytes > 1 && step * element % bytes != 0) {
                bytes /= 2;
            }
        }
    }
    /* TMA loads fill the rest of a row with zeros; smaller copies cannot. */
    while (bytes < 16 && bytes > 1 && plan->width * element % bytes != 0) {
        bytes /= 2;
    }
    return bytes == 16 || (bytes >= 4 && plan->read_rows * plan->tile.side == 1) ? (int32_t)bytes
                                                                                 : 0;
}

/* log2; -1: no power of two. */
static int32_t log_of(int32_t value) {
    const int32_t log = uf_conv_log2(value);
    return 1 << log == value ? log : -1;
}

/* Units of the written side. Filter rows become tiles of their own where that costs no more. */
static void spread_out(uf_patch_plan *plan, const uf_conv_kernel_args *args, bool dgrad) {
    const int64_t channels = (dgrad ? args->x.extent[1] : args->y.extent[1]) / args->groups;
    for (int axis = 0; axis < 2; ++axis) {
        plan->over[axis] = dgrad ? (int32_t)args->stride[axis] : 1;
    }
    const int32_t rows = plan->over[0];
    plan->across = plan->over[1] / plan->tile.spread;
    const int32_t columns = plan->tile.columns;
    plan->threes = plan->tile.spread == 1 && plan->over[1] > 1;
    plan->tile_units =
        plan->threes ? columns / UF_PATCH_THREES * UF_PATCH_THREES : columns / plan->tile.spread;
    const int64_t of_row = channels * plan->across;
    const bool together =
        uf_div_up(of_row * rows, plan->tile_units) < uf_div_up(of_row, plan->tile_units) * rows;
    plan->written_rows = together ? 1 : rows;
    plan->fold = plan->across * (together ? rows : 1);
    plan->fold_log = log_of(plan->fold);
    plan->across_log = log_of(plan->across);
    plan->units = (int32_t)(channels * plan->fold);
    plan->channel_tiles = (int32_t)uf_div_up(plan->units, plan->tile_units);
    plan->column_tiles = plan->channel_tiles * plan->written_rows;
}

/* Tiles with the fewest empty pixels, then with the longest rows. */
static void lay_out(uf_patch_plan *plan) {
    int64_t least = -1;
    const int32_t shortest =
        plan->tile.run < 4 ? 4 : plan->tile.run; /* a lane's pixels stay together */
    for (int32_t log = 8; 1 << log >= shortest; --log) {
        const int64_t down = uf_div_up(plan->height, UF_PATCH_PIXELS >> log);
        const int64_t across = uf_div_up(plan->width, INT64_C(1) << log);
        if ((1 << log) / plan->tile.run <= UF_PATCH_RUNS && (least < 0 || down * across < least)) {
            least = down * across;
            plan->log = log;
            plan->pixel_tiles[0] = (int32_t)down;
            plan->pixel_tiles[1] = (int32_t)across;
        }
    }
}

/* Few tiles with many stages: the number of CTAs per tile that is fastest. All of them run at
 * once. False: `tile` asks for a number that is impossible. */
static bool split(uf_patch_plan *plan, bool fp32, int tile) {
    const double copies = plan->piece == 16 ? 0.0 : PIECES / plan->piece;
    const double mmas = fp32 ? STAGE_FP32 : STAGE;
    const double multiply = copies > mmas ? copies : mmas;
    /* Store requests of eight lanes each. */
    const int32_t values = 16 / (plan->tile.spread * plan->tile.element);
    const int32_t lane = plan->threes ? 4 : plan->tile.spread * (values < 4 ? values : 4);
    const int32_t columns = plan->units < plan->tile_units ? plan->units : plan->tile_units;
    const double out = (double)REQUEST * UF_PATCH_PIXELS / 8 * columns * plan->tile.spread / lane +
                       (plan->threes     ? (double)IN_THREES * columns
                        : plan->fold > 1 ? (double)FOLDED * columns
                                         : 0.0);
    double best = -1.0;
    plan->splits = 1;
    for (int32_t log = 0; 1 << log <= UF_PATCH_SPLITS; ++log) {
        const int32_t splits = 1 << log;
        const int32_t eights = plan->tile.columns / 8;
        const int64_t blocks = plan->tiles * splits;
        /* Clusters of four and more do not fit all multiprocessors. */
        const int64_t most = splits < 4 ? MULTIPROCESSORS : MOST_IN_CLUSTERS;
        if (splits > 1 && (plan->threes || blocks > most || plan->stages < 2 * splits ||
                           eights < splits * (plan->tile.spread == 4 ? 2 : 1) ||
                           eights * 8192 > plan->buffers * plan->stage_bytes)) {
            break;
        }
        if (!uf_conv_is_tile(tile, log)) {
            continue;
        }
        const double busy = (double)(blocks < MULTIPROCESSORS ? blocks : MULTIPROCESSORS);
        const double arrive = plan->stage_bytes * busy / ((double)ARRIVE * MULTIPROCESSORS);
        const double total_cost =
            (double)uf_div_up(blocks, MULTIPROCESSORS) *
            ((double)uf_div_up(plan->stages, splits) * (arrive > multiply ? arrive : multiply) +
             (splits > 1 ? GATHER : 0) + out / splits);
        if (best < 0.0 || total_cost < best) {
            best = total_cost;
            plan->splits = splits;
        }
    }
    plan->cost = best + PACK + (double)plan->weight_bytes / PACKED;
    return best >= 0.0;
}

static bool has_brief(const uf_patch_tile *tile) {
#define UF_PATCH_TILE(SIDE, SPREAD) || (tile->side == (SIDE) && tile->spread == (SPREAD))
    return false UF_PATCH_TILES_BRIEF;
#undef UF_PATCH_TILE
}

bool uf_patch_plan_of(uf_conv_direction direction, const uf_conv_kernel_args *given, int tile,
                      uf_patch_plan *plan) {
    const uf_conv_kernel_args flat = uf_conv_flat(given), *args = &flat;
    const bool dgrad = direction == UF_CONV_DGRAD;
    const int32_t element = args->x.dtype == UF_BF16 ? 2 : 4;
    const uf_mma_math math = uf_mma_math_of(args);
    const uf_view *read = dgrad ? &args->y : &args->x;
    const int64_t limit = INT64_C(1) << 28;
    if (!is_patch(args) || (args->x.dtype != UF_F32 && args->x.dtype != UF_BF16)) {
        return false;
    }
    const int32_t columns = (int32_t)args->stride[1];
    const int64_t read_channels = read->extent[1] / args->groups;
    const int32_t spread = !dgrad || columns == 3 || columns == 6 ? 1
                           : columns % 4 == 0                     ? 4
                                                                  : columns;
    const int64_t pixels = args->y.extent[2] * args->y.extent[3];
    /* The read side has a power of two of columns over a pixel; stores of the written side are
     * whole. */
    if ((dgrad ? spread > 4 : columns > 16 || (columns & (columns - 1)) != 0) ||
        args->x.extent[1] > limit / (columns * args->stride[0])) {
        return false;
    }
    memset(plan, 0, sizeof *plan);
    plan->tile = uf_patch_tile_of(math, element, dgrad ? 1 : columns, spread);
    plan->read_rows = dgrad ? 1 : (int32_t)args->stride[0];
    plan->row = (int32_t)args->y.extent[3];
    plan->flat = plan->read_rows * plan->tile.side == 1 &&
                 (read->extent[2] == 1 || read->stride[2] == read->extent[3]);
    if (pixels >= limit) {
        return false;
    }
    plan->width = plan->flat ? (int32_t)pixels : plan->row;
    plan->piece = piece_of(read, element, plan);
    if (plan->piece == 0) {
        return false;
    }
    plan->height = plan->flat ? 1 : (int32_t)args->y.extent[2];
    plan->chunks = (int32_t)uf_div_up(read_channels, plan->tile.channels);
    plan->stages = plan->chunks * plan->read_rows;
    spread_out(plan, args, dgrad);
    lay_out(plan);
    const int64_t coords = (int64_t)plan->pixel_tiles[0] * plan->pixel_tiles[1];
    plan->tiles = plan->column_tiles * coords * args->y.extent[0] * args->groups;
    const int32_t weights =
        plan->tile.planes * plan->tile.columns * 16 * (math == UF_MMA_TF32X3 ? 2 : 1);
    plan->stage_bytes = UF_PATCH_READ + weights;
    plan->weight_bytes = (int64_t)weights * plan->stages * plan->column_tiles * args->groups;
    plan->staging = UF_PATCH_STAGING * (plan->threes ? UF_PATCH_THREES / 8 : 1);
    const int32_t fixed = UF_PATCH_BARRIERS + plan->staging;
    const int32_t buffers = (UF_PATCH_SHARED - fixed) / plan->stage_bytes;
    plan->buffers = buffers < UF_PATCH_STAGES ? buffers : UF_PATCH_STAGES;
    plan->shared = fixed + plan->buffers * plan->stage_bytes;
    if (!split(plan, math == UF_MMA_TF32X3, tile)) {
        return false;
    }
    plan->brief = math == UF_MMA_TF32X3 &&
                  read_channels * plan->read_rows * plan->tile.side <= UF_PATCH_BRIEF;
    if (plan->brief && !has_brief(&plan->tile)) {
        return false;
    }
    /* Channels beyond the last read as zeros, unless another group follows. Most of each tile must
     * be wanted. */
    const double written = (double)plan->units * plan->tile.spread; /* per row of tiles */
    const double wanted = (double)pixels * (double)read_channels;
    const double made =
        (double)coords * UF_PATCH_PIXELS * plan->chunks * (double)plan->tile.channels;
    const double columns_made = (double)plan->channel_tiles * plan->tile.columns;
    /* Padding in MMAs costs nothing where memory is the bound. */
    const double memory =
        (double)(uf_view_count(&args->x) + uf_view_count(&args->y)) * element / MEMORY;
    /* Small copies of pointwise layers: the general kernel packs the tensor instead. It wins where
     * copies are small, or tiles few and their sums long. */
    if (plan->piece < 16 && args->stride[0] * args->stride[1] == 1 &&
        (plan->piece < 8 ||
         (plan->tiles * plan->splits < MULTIPROCESSORS && plan->stages / plan->splits > LONGEST))) {
        return false;
    }
    return (args->groups == 1 || read_channels % plan->tile.channels == 0) &&
           (2.5 * wanted * written >= made * columns_made ||
            (1.6 * (double)pixels >= (double)coords * UF_PATCH_PIXELS &&
             plan->cost <= 3.5 * memory)) &&
           plan->tiles > 0 && plan->tiles < INT64_C(1) << 29;
}
