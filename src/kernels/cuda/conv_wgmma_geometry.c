/* conv_wgmma_geometry.c - the host side of conv_wgmma.cu: taps, windows, tiles. */
#include "kernels/cuda/conv_wgmma_geometry.h"

#include <string.h>

#include "kernels/geometry.h"

enum {
    MOST_AXIS_PHASES = 16,
    MULTIPROCESSORS = 132, /* of the GPUs that have wgmma: the largest. A shape's tiles are the same on all of them. */
    SHARED_WHOLE = 232448, /* bytes for one block of a multiprocessor */
    SHARED_HALF = 115712   /* for each of two */
};

static int64_t div_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static int32_t log2_up(int64_t value) {
    int32_t log = 0;
    while (INT64_C(1) << log < value) {
        ++log;
    }
    return log;
}

/* The taps of one axis: which filter index, which phase or class, which shift. */
typedef struct axis_taps {
    int32_t kinds;   /* phases (dgrad) or classes (fprop) */
    int32_t offset[MOST_AXIS_PHASES];                 /* fprop: the residue of the class */
    int32_t count[MOST_AXIS_PHASES];                  /* taps */
    int32_t filter[MOST_AXIS_PHASES][UF_WGMMA_TAPS];
    int64_t shift[MOST_AXIS_PHASES][UF_WGMMA_TAPS];
    int64_t first, last; /* shift */
    int64_t elements;    /* written, of the largest phase */
} axis_taps;

static void note_shift(axis_taps *taps, int64_t shift, bool *any) {
    taps->first = !*any || shift < taps->first ? shift : taps->first;
    taps->last = !*any || shift > taps->last ? shift : taps->last;
    *any = true;
}

static bool taps_of(uf_conv_direction direction, const uf_conv_kernel_args *args, int axis, axis_taps *taps) {
    const int64_t kernel = args->w.extent[2 + axis];
    const int64_t stride = args->stride[axis];
    const int64_t padding = args->padding[axis];
    const int64_t dilation = args->dilation[axis];
    bool any = false;
    memset(taps, 0, sizeof *taps);
    if (kernel > UF_WGMMA_TAPS || stride > MOST_AXIS_PHASES) {
        return false;
    }
    if (direction == UF_CONV_DGRAD) {
        taps->kinds = (int32_t)stride;
        for (int32_t phase = 0; phase < taps->kinds; ++phase) {
            const uf_axis_walk walk =
                uf_axis_dgrad(args->x.extent[2 + axis], kernel, stride, padding, dilation, phase);
            taps->count[phase] = (int32_t)walk.taps;
            taps->elements = walk.out_count > taps->elements ? walk.out_count : taps->elements;
            for (int32_t t = 0; t < taps->count[phase]; ++t) {
                taps->filter[phase][t] = (int32_t)(walk.tap_first + t * walk.tap_step);
                taps->shift[phase][t] = walk.in_first + t * walk.in_tap_step;
                note_shift(taps, taps->shift[phase][t], &any);
            }
        }
        return true;
    }
    taps->elements = args->y.extent[2 + axis];
    for (int32_t r = 0; r < kernel; ++r) {
        const int64_t at = r * dilation - padding;
        const int64_t residue = (at % stride + stride) % stride;
        int32_t kind = 0;
        while (kind < taps->kinds && taps->offset[kind] != residue) {
            ++kind;
        }
        if (kind == taps->kinds) {
            taps->offset[taps->kinds++] = (int32_t)residue;
        }
        taps->filter[kind][taps->count[kind]] = r;
        taps->shift[kind][taps->count[kind]] = (at - residue) / stride;
        note_shift(taps, taps->shift[kind][taps->count[kind]++], &any);
    }
    return true;
}

/* Tiles and window for a given way of laying NT products beside each other: 0 down, 1 across, 2 in images. */
static bool lay_out(uf_wgmma_geometry *made, const axis_taps taps[2], int64_t batch, int beside) {
    int64_t rows = 1;
    made->image_products = beside == 2 ? made->nt : 1;
    for (int axis = 0; axis < 2; ++axis) {
        uf_wgmma_axis *on = &made->axis[axis];
        const int32_t most = axis == 0 ? 4 : 3; /* 16 down, 8 across */
        const int32_t log = log2_up(taps[axis].elements) < most ? log2_up(taps[axis].elements) : most;
        on->patch = 1 << log;
        on->images_log = most - log;
        on->products = beside == axis ? made->nt : 1;
        on->tiles = (int32_t)div_up(taps[axis].elements, on->patch * on->products);
        const int64_t extent = on->patch * on->products + taps[axis].last - taps[axis].first;
        if (extent > 2048 || taps[axis].first < -(INT64_C(1) << 28) || taps[axis].first > INT64_C(1) << 28) {
            return false;
        }
        on->first = (int32_t)taps[axis].first;
        on->extent = (int32_t)extent;
        rows *= extent << on->images_log;
    }
    rows *= made->image_products;
    if (rows > 1024) {
        return false;
    }
    const int64_t images = (int64_t)made->image_products << (made->axis[0].images_log + made->axis[1].images_log);
    made->image_tiles = (int32_t)div_up(batch, images);
    made->window_rows = (int32_t)rows;
    made->product_pitch = made->axis[1].extent << made->axis[1].images_log;
    made->product_rows = beside == 1   ? 8
                         : beside == 0 ? UF_WGMMA_PIXELS / 8 * made->product_pitch
                                       : (made->axis[0].extent << made->axis[0].images_log) * made->product_pitch;
    return true;
}

/* Buffers that shared memory has room for. */
static bool fit(uf_wgmma_geometry *made, int64_t most_taps, bool fp32) {
    const int32_t all = made->wm == 1 ? SHARED_HALF : SHARED_WHOLE;
    const int32_t least = fp32 ? 4 : 3; /* stages of weights */
    const int32_t weights = UF_WGMMA_WEIGHTS * made->wm;
    const int32_t raw = made->wm == 1 ? UF_WGMMA_RAW_HALF : UF_WGMMA_RAW_WHOLE;
    const int32_t loading =
        (made->window_rows + 31) / 32 * 32 * 4 + raw * made->window_rows * UF_WGMMA_UNIT * 4;
    const int32_t plain = UF_WGMMA_BARRIERS + made->wm * UF_WGMMA_ROWS * UF_WGMMA_PITCH * 4 +
                          (made->packed ? 0 : loading);
    const int32_t chunk = made->window_rows * UF_WGMMA_PLANES * 16;
    const int32_t chunks = made->chunks;
    made->windows = 2;
    if (plain + 2 * chunk + least * weights > all) {
        made->windows = 1;
        if (plain + chunk + 2 * weights > all) {
            return false;
        }
    }
    /* Few taps: more channels per window, so that a window is worth its barrier. */
    made->depth = 1;
    while (made->depth * most_taps < 4 && made->depth * 2 <= chunks && made->windows == 2 &&
           plain + made->windows * 2 * made->depth * chunk + least * weights <= all) {
        made->depth *= 2;
    }
    while (made->windows >= 2 && made->windows < UF_WGMMA_WINDOWS &&
           plain + (made->windows + 1) * made->depth * chunk + (least + 1) * weights <= all &&
           made->depth * most_taps < 8) {
        ++made->windows;
    }
    made->chunks = (int32_t)div_up(chunks, made->depth) * made->depth;
    const int32_t left = all - plain - made->windows * made->depth * chunk;
    const int32_t stages = left / weights;
    made->stages = stages < UF_WGMMA_STAGES / made->wm ? stages : UF_WGMMA_STAGES / made->wm;
    made->promote = made->stages > 4 ? 4 : made->stages > 2 ? made->stages - 1 : 1;
    made->shared = plain + made->windows * made->depth * chunk + made->stages * weights;
    return true;
}

static double window_bytes(const uf_wgmma_geometry *made) {
    return (double)made->window_count * made->depth * made->window_rows * (UF_WGMMA_PLANES * 16);
}

/* Clocks of a call, from what was measured on an H200 over layers of 32 to 1024 channels (docs/performance-gpu.md): good
 * to about 20 %, which is enough to choose. A multiprocessor is busy by products, by what it fetches, or by rounding
 * (packed windows are rounded once for all, but written and read again). */
static double clocks(const uf_wgmma_geometry *made, double taps, double most_taps, double depth, uf_math math,
                     double element) {
    const double products = (math == UF_MATH_FP32 ? 320.0 : 215.0) * made->wm * made->nt;
    const double row = made->packed ? UF_WGMMA_PLANES * 16 : depth * element;
    const double fetch = (UF_WGMMA_WEIGHTS * made->wm + made->window_rows * row / most_taps) / 50.0;
    const double rounding = made->packed ? 0.0 : made->window_rows * depth / 1.5 / most_taps;
    const double units = made->chunks * taps / made->phases;
    const double windows = (double)made->chunks / made->depth * made->classes;
    const double per_window = made->windows == 1 ? 1200.0 : 300.0;
    const double way_out = 2000.0 * made->nt * made->wm;
    const double blocks = (double)div_up(made->tiles, MULTIPROCESSORS);
    double unit = products > fetch ? products : fetch;
    unit = unit > rounding ? unit : rounding;
    double all = blocks * (unit * units + way_out);
    if (made->wm == 1) {
        /* Two at a time: one's waiting is hidden by the other, where there is another. */
        all += (double)div_up(made->tiles, 2 * MULTIPROCESSORS) * windows * per_window;
        all += made->tiles <= MULTIPROCESSORS ? unit * units : 0.0;
    } else {
        all += blocks * windows * per_window;
    }
    if (made->packed) {
        all += 10000.0 + window_bytes(made) * (depth * element / 128.0 + 1.0) / MULTIPROCESSORS / 13.0;
    }
    return all;
}

static void list_taps(uf_conv_direction direction, const axis_taps taps[2], uf_wgmma_geometry *made) {
    const bool dgrad = direction == UF_CONV_DGRAD;
    int32_t pairs = 0, listed = 0;
    for (int32_t down = 0; down < taps[0].kinds; ++down) {
        for (int32_t across = 0; across < taps[1].kinds; ++across) {
            made->first_tap[pairs] = (uint16_t)listed;
            if (!dgrad) {
                made->class_of[pairs][0] = taps[0].offset[down];
                made->class_of[pairs][1] = taps[1].offset[across];
            }
            ++pairs;
            for (int32_t t = 0; t < taps[0].count[down]; ++t) {
                for (int32_t u = 0; u < taps[1].count[across]; ++u) {
                    const int64_t y = taps[0].shift[down][t] - taps[0].first;
                    const int64_t x = taps[1].shift[across][u] - taps[1].first;
                    made->shift[listed] =
                        (int16_t)((y << made->axis[0].images_log) * made->product_pitch +
                                  (x << made->axis[1].images_log));
                    made->tap_of[listed][0] = (uint8_t)taps[0].filter[down][t];
                    made->tap_of[listed++][1] = (uint8_t)taps[1].filter[across][u];
                }
            }
        }
    }
    made->first_tap[pairs] = (uint16_t)listed;
}

uf_conv_kernel_args uf_wgmma_canonical(const uf_conv_kernel_args *args) {
    uf_conv_kernel_args made = *args;
    for (int axis = 0; axis < 2; ++axis) {
        const int64_t all = args->x.extent[2 + axis] + args->padding[axis];
        if (args->y.extent[2 + axis] == 1 && all > args->stride[axis] && all <= 8) {
            made.stride[axis] = all;
        }
    }
    return made;
}

bool uf_wgmma_geometry_of(uf_conv_direction direction, const uf_conv_kernel_args *args,
                          uf_wgmma_geometry *made) {
    const bool dgrad = direction == UF_CONV_DGRAD;
    const uf_view *read = dgrad ? &args->y : &args->x;
    const uf_view *written = dgrad ? &args->x : &args->y;
    const uf_math math = args->x.dtype == UF_F32 ? args->math : UF_MATH_BF16;
    const int64_t depth = math == UF_MATH_FP32 ? 16 : math == UF_MATH_TF32 ? 32 : 64;
    const int64_t element = args->x.dtype == UF_F32 ? 4 : 2;
    axis_taps taps[2];
    if (args->w.extent[2] * args->w.extent[3] > UF_WGMMA_TAPS || !taps_of(direction, args, 0, &taps[0]) ||
        !taps_of(direction, args, 1, &taps[1]) || taps[0].kinds * taps[1].kinds > UF_WGMMA_PAIRS) {
        return false;
    }
    int64_t most_taps = 1;
    for (int32_t down = 0; down < taps[0].kinds; ++down) {
        for (int32_t across = 0; across < taps[1].kinds; ++across) {
            const int64_t here = taps[0].count[down] * taps[1].count[across];
            most_taps = here > most_taps ? here : most_taps;
        }
    }
    const double taps_of_filter = (double)(args->w.extent[2] * args->w.extent[3]);
    double best = -1.0;
    /* FP32 keeps its sums twice, in the tensor core's registers and in ordinary ones: where loaders need registers too,
     * one product is what fits. */
    for (int32_t wm = 1; wm <= 2; ++wm) {
        for (int32_t nt = 1; nt <= 2; ++nt) {
            /* Three ways to lay products beside each other, with and without packing. */
            for (int way = 0; way < 6; ++way) {
                uf_wgmma_geometry tried;
                memset(&tried, 0, sizeof tried);
                tried.wm = wm;
                tried.nt = nt;
                tried.packed = way >= 3;
                tried.phases = dgrad ? taps[0].kinds * taps[1].kinds : 1;
                tried.classes = dgrad ? 1 : taps[0].kinds * taps[1].kinds;
                tried.axis[0].mul = dgrad ? 1 : (int32_t)args->stride[0];
                tried.axis[1].mul = dgrad ? 1 : (int32_t)args->stride[1];
                tried.chunks = (int32_t)div_up(read->extent[1] / args->groups, depth);
                tried.channel_blocks =
                    (int32_t)div_up(written->extent[1] / args->groups, UF_WGMMA_ROWS);
                tried.paired = dgrad && wm == 2 && taps[1].kinds == 2;
                tried.blocks_m = (int32_t)div_up((int64_t)tried.phases * tried.channel_blocks, wm);
                if ((math == UF_MATH_FP32 && nt == 2 && !tried.packed) ||
                    !lay_out(&tried, taps, written->extent[0], way % 3) ||
                    !fit(&tried, most_taps, math == UF_MATH_FP32)) {
                    continue;
                }
                const int64_t places = (int64_t)tried.axis[0].tiles * tried.axis[1].tiles *
                                       tried.image_tiles * args->groups;
                tried.tiles = tried.blocks_m * places;
                tried.window_count = places * (tried.chunks / tried.depth) * tried.classes;
                /* A thread of the packing kernel has a number of 32 bits; and what is far beyond the second-level cache
                 * costs more to pack than it saves. */
                if (tried.packed && window_bytes(&tried) > 1.5e8) {
                    continue;
                }
                const double cost =
                    clocks(&tried, taps_of_filter, (double)most_taps, (double)depth, math, (double)element);
                if (best < 0.0 || cost < best) {
                    best = cost;
                    *made = tried;
                }
            }
        }
    }
    if (best < 0.0) {
        return false;
    }
    list_taps(direction, taps, made);
    return true;
}

/* Bytes of packed operands beyond which the kernel that rounds as it goes is faster, and kinder to memory. */
#define MOST_WGRAD_BYTES 4e8

bool uf_wgmma_wgrad_geometry_of(const uf_conv_kernel_args *args, uf_wgmma_geometry *made) {
    const uf_math math = args->x.dtype == UF_F32 ? args->math : UF_MATH_BF16;
    const int64_t depth = math == UF_MATH_FP32 ? 16 : math == UF_MATH_TF32 ? 32 : 64;
    const int64_t rows = args->w.extent[0] / args->groups;
    const int64_t columns = args->w.extent[1] * args->w.extent[2] * args->w.extent[3];
    const int64_t pixels = args->y.extent[0] * args->y.extent[2] * args->y.extent[3];
    const int64_t all_chunks = div_up(pixels, depth);
    double best = -1.0;
    for (int32_t wm = 1; wm <= 2; ++wm) {
        for (int32_t nt = 1; nt <= 2; ++nt) {
            uf_wgmma_geometry tried;
            memset(&tried, 0, sizeof tried);
            tried.wm = wm;
            tried.nt = nt;
            tried.packed = true;
            tried.phases = tried.classes = 1;
            tried.first_tap[1] = 1;
            tried.channel_blocks = (int32_t)div_up(rows, UF_WGMMA_ROWS);
            tried.blocks_m = (int32_t)div_up(tried.channel_blocks, wm);
            tried.axis[0].patch = UF_WGMMA_PIXELS / 8;
            tried.axis[0].products = nt;
            tried.axis[0].tiles = (int32_t)div_up(columns, UF_WGMMA_PIXELS * nt);
            tried.axis[1].patch = 8;
            tried.axis[1].products = tried.axis[1].tiles = 1;
            tried.image_products = 1;
            tried.product_pitch = 8;
            tried.product_rows = UF_WGMMA_PIXELS;
            tried.window_rows = UF_WGMMA_PIXELS * nt;
            const int64_t base = (int64_t)tried.blocks_m * tried.axis[0].tiles * args->groups;
            const int64_t wanted = MULTIPROCESSORS * (wm == 1 ? 2 : 1) / base;
            const int64_t most = all_chunks / 16;
            const int64_t splits = wanted < most ? wanted : most;
            /* In TF32 and BF16 the tensor core adds a split alone, and truncates: 16384 pixels at the most. */
            const int64_t least = math == UF_MATH_FP32 ? 1 : div_up(pixels, 16384);
            tried.splits = (int32_t)(splits < least ? least : splits > 64 ? 64 : splits);
            tried.image_tiles = tried.splits;
            const int64_t chunks = div_up(all_chunks, tried.splits);
            if (chunks > INT32_C(1) << 24) {
                continue;
            }
            tried.chunks = (int32_t)chunks;
            if (!fit(&tried, 1, math == UF_MATH_FP32)) {
                continue;
            }
            tried.tiles = base * tried.splits;
            tried.window_count =
                args->groups * tried.splits * tried.axis[0].tiles * (tried.chunks / tried.depth);
            const double row_bytes = (double)args->groups * tried.splits * tried.channel_blocks *
                                     tried.chunks * UF_WGMMA_WEIGHTS;
            if (window_bytes(&tried) + row_bytes > MOST_WGRAD_BYTES) {
                continue;
            }
            const double cost =
                clocks(&tried, 1.0, 1.0, (double)depth, math, 4.0) +
                2.0 * row_bytes / MULTIPROCESSORS / 13.0 +
                8.0 * (double)(tried.splits * rows * args->groups * columns) / MULTIPROCESSORS / 13.0;
            if (best < 0.0 || cost < best) {
                best = cost;
                *made = tried;
            }
        }
    }
    return best >= 0.0;
}

int uf_wgmma_live(const uf_wgmma_geometry *geometry) {
    int live = 0;
    for (int32_t pair = 0; pair < geometry->phases * geometry->classes; ++pair) {
        live += geometry->first_tap[pair + 1] > geometry->first_tap[pair] ? 1 : 0;
    }
    return live;
}

int uf_wgmma_efficiency(const uf_conv_kernel_args *args, const uf_wgmma_geometry *geometry) {
    const uf_math math = args->x.dtype == UF_F32 ? args->math : UF_MATH_BF16;
    const double depth = math == UF_MATH_FP32 ? 16 : math == UF_MATH_TF32 ? 32 : 64;
    const double taps = (double)(args->w.extent[2] * args->w.extent[3]);
    const double wanted = (double)uf_view_count(&args->y) * (double)args->w.extent[1] * taps;
    /* Every pair of a tile's phases is made in full; over all phases each tap is made once. */
    const double made = (double)geometry->tiles / geometry->blocks_m * geometry->channel_blocks *
                        UF_WGMMA_ROWS * geometry->nt * UF_WGMMA_PIXELS * geometry->chunks * depth * taps;
    return made > 0 ? (int)(100.0 * wanted / made) : 0;
}
