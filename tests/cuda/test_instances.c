/* test_instances.c - the tiles of which kernels are compiled, against those that plans ask for:
 * many layers are planned, each plan asks for one tile of its family's list, and each tile of the
 * lists is asked for by some plan. Needs no GPU. */
#include "support/test.h"

#include <string.h>

#include "cuda/plan/helpers.h"
#include "kernels/cuda/conv/depthwise/plan.h"
#include "kernels/cuda/conv/mma_few_channels/im2col/instances/tiles.h"
#include "kernels/cuda/conv/mma_few_channels/im2col/plan.h"
#include "kernels/cuda/conv/simt_direct/plan.h"
#include "kernels/cuda/conv/wgmma_implicit_gemm/instances/tiles.h"
#include "kernels/cuda/conv/wgmma_implicit_gemm/plan.h"
#include "kernels/cuda/conv/wgmma_patch_gemm/instances/tiles.h"
#include "kernels/cuda/conv/wgmma_patch_gemm/plan.h"
#include "kernels/cuda/conv/wgmma_wgrad/channel_blocked/plan.h"
#include "kernels/kernels.h"
#include "support/random.h"

enum {
    KEY = 7,
    MOST = 128,
    TYPES = 4,
    MOST_LISTED = 5 /* tiles of simt_direct or depthwise that suit a problem */
};

/* f32 tensors in each math, and bf16 tensors. */
static const struct {
    uf_dtype dtype;
    uf_math math;
} types[TYPES] = {{UF_F32, UF_MATH_FP32},
                  {UF_F32, UF_MATH_TF32},
                  {UF_F32, UF_MATH_BF16},
                  {UF_BF16, UF_MATH_BF16}};
enum { FP32, TF32, F32_BF16, BF16 };

/* The tiles of a family: template arguments, the type first. */
typedef struct instances {
    int key[MOST][KEY];
    bool asked[MOST];
    int count;
    int number; /* of the tile that plans are made for */
} instances;

typedef struct key {
    int of[KEY];
} key;

static void list(instances *all, key tile) {
    assert_true(all->count < MOST);
    memcpy(all->key[all->count++], tile.of, sizeof tile.of);
}

/* A plan whose tile the library chooses asks for it; one that is made for a tile by its number
 * needs it, too. */
static void ask(instances *all, key tile) {
    for (int i = 0; i < all->count; ++i) {
        if (memcmp(all->key[i], tile.of, sizeof tile.of) == 0) {
            all->asked[i] = all->asked[i] || all->number == UF_CONV_ANY_TILE;
            return;
        }
    }
    fail_msg("no kernel is compiled for tile %d, %d: %d %d %d %d %d %d", all->number, tile.of[0],
             tile.of[1], tile.of[2], tile.of[3], tile.of[4], tile.of[5], tile.of[6]);
}

static void check_all_are_asked_for(const instances *all) {
    for (int i = 0; i < all->count; ++i) {
        const int *const of = all->key[i];
        if (!all->asked[i]) {
            fail_msg("no plan asks for %d: %d %d %d %d %d %d", of[0], of[1], of[2], of[3], of[4],
                     of[5], of[6]);
        }
    }
}

typedef enum layer_kind { ANY, PATCHES, DEPTHWISE } layer_kind;

static int64_t one_of(test_random *random, const int64_t *values, int64_t count) {
    return values[test_random_integer(random, 0, count - 1)];
}

/* Dense, at a multiple of 16 bytes; sizes are often powers of two or multiples of eight. */
static uf_conv_kernel_args layer(test_random *random, layer_kind kind) {
    static const int64_t sides[] = {1, 2, 3, 4, 6, 8, 16}, filters[] = {3, 4, 5, 7};
    uf_conv_kernel_args args;
    int64_t kernel[2], small[2], large[2];
    const bool square = kind == DEPTHWISE || test_random_one_in(random, 2);
    memset(&args, 0, sizeof args);
    for (int axis = 0; axis < 2; ++axis) {
        kernel[axis] = kind == PATCHES     ? one_of(random, sides, 7)
                       : kind == DEPTHWISE ? one_of(random, filters, 4)
                                           : test_random_integer(random, 1, 7);
        args.stride[axis] = kind == PATCHES ? kernel[axis] : test_random_integer(random, 1, 2);
        if (kind == ANY && test_random_one_in(random, 4)) {
            args.stride[axis] = test_random_integer(random, 1, 6);
        }
        args.padding[axis] = kind == PATCHES     ? 0
                             : kind == DEPTHWISE ? (kernel[axis] - 1) / 2
                                                 : test_random_integer(random, 0, kernel[axis] / 2);
        args.dilation[axis] = kind == ANY && test_random_one_in(random, 6) ? 2 : 1;
        if (axis == 1 && square) {
            kernel[1] = kernel[0];
            args.stride[1] = args.stride[0];
            args.padding[1] = args.padding[0];
            args.dilation[1] = args.dilation[0];
        }
        do {
            small[axis] = test_random_log(random, 1, test_random_one_in(random, 4) ? 1024 : 128);
            if (test_random_one_in(random, 2)) {
                small[axis] = (small[axis] + 3) / 4 * 4;
            }
            large[axis] = (small[axis] - 1) * args.stride[axis] - 2 * args.padding[axis] +
                          (kernel[axis] - 1) * args.dilation[axis] + 1;
            if (kind != PATCHES && test_random_one_in(random, 2)) {
                large[axis] += args.stride[axis] - 1;
            }
        } while (large[axis] < 1);
    }
    const int64_t batch = test_random_log(random, 1, 256);
    args.groups =
        kind == DEPTHWISE || test_random_one_in(random, 8) ? test_random_log(random, 1, 64) : 1;
    const int64_t most = kind == DEPTHWISE ? 1 : test_random_one_in(random, 2) ? 16 : 1024;
    const int64_t c = test_random_log(random, 1, most), k = test_random_log(random, 1, most);
    args.x.extent[0] = args.y.extent[0] = batch;
    args.x.extent[1] = c * args.groups;
    args.y.extent[1] = k * args.groups;
    args.w.extent[0] = k * args.groups;
    args.w.extent[1] = c;
    for (int axis = 0; axis < 2; ++axis) {
        args.x.extent[2 + axis] = large[axis];
        args.w.extent[2 + axis] = kernel[axis];
        args.y.extent[2 + axis] = small[axis];
    }
    return args;
}

static void set_type(uf_conv_kernel_args *args, int type) {
    uf_view *const views[] = {&args->x, &args->w, &args->y};
    for (int i = 0; i < 3; ++i) {
        const int64_t *const extent = views[i]->extent;
        *views[i] = uf_view_nchw((void *)4096, types[type].dtype, extent[0], extent[1], extent[2],
                                 extent[3]);
    }
    args->math = types[type].math;
}

typedef void walk(const uf_conv_kernel_args *args, uf_conv_direction direction, int type,
                  instances *all);

/* With any tile, and with each of `tiles`. */
static void walk_layers(const char *name, int64_t layers, layer_kind kind, int tiles, walk *each,
                        instances *all) {
    test_random random = test_random_for(name, 0);
    for (int64_t i = 0; i < layers; ++i) {
        uf_conv_kernel_args args = layer(&random, kind);
        for (int type = 0; type < TYPES; ++type) {
            set_type(&args, type);
            for (all->number = UF_CONV_ANY_TILE; all->number < tiles; ++all->number) {
                each(&args, UF_CONV_FPROP, type, all);
                each(&args, UF_CONV_DGRAD, type, all);
            }
        }
    }
    check_all_are_asked_for(all);
}

/* ---- wgmma_implicit_gemm: TYPES is split f16 ---- */

static key of_geometry(const uf_wgmma_geometry *geometry, int type) {
    return (key){{type, geometry->wm, geometry->nt, geometry->packed,
                  geometry->packed && geometry->runs_log > 0,
                  (int)uf_wgmma_scheduler_of(geometry)}};
}

static void walk_wgmma(const uf_conv_kernel_args *given, uf_conv_direction direction, int type,
                       instances *all) {
    const uf_conv_kernel_args args = uf_wgmma_canonical(given);
    uf_wgmma_geometry geometry;
    if (uf_wgmma_geometry_of(direction, &args, all->number, &geometry) && geometry.columns == 0) {
        ask(all, of_geometry(&geometry, type));
    }
    if (uf_wgmma_split_f16_of(direction, &args, all->number, &geometry)) {
        const uf_wgmma_geometry fixup = uf_wgmma_fixup(direction, &args, &geometry);
        ask(all, of_geometry(&geometry, TYPES));
        ask(all, of_geometry(&fixup, FP32));
    }
}

static void wgmma_implicit_gemm(void **state) {
    (void)state;
    instances all = {.count = 0};
    int type = FP32;
#define UF_WGMMA_TILE(MATH, WM, NT, PACKED, WIDE, SCHEDULER, DTYPE, STORED)                        \
    list(&all, (key){{type, WM, NT, PACKED, WIDE, SCHEDULER}});
    UF_WGMMA_TILES_FP32
    type = TF32;
    UF_WGMMA_TILES_TF32
    type = F32_BF16;
    UF_WGMMA_TILES_BF16(UF_F32, float)
    type = BF16;
    UF_WGMMA_TILES_BF16(UF_BF16, bf16)
    type = TYPES;
    UF_WGMMA_TILES_SPLIT_F16
#undef UF_WGMMA_TILE
    walk_layers("wgmma_instances", 12000, ANY, UF_WGMMA_TILES, walk_wgmma, &all);
}

/* ---- wgmma_patch_gemm: TYPES is FP32 with brief sums ---- */

static void walk_patch(const uf_conv_kernel_args *given, uf_conv_direction direction, int type,
                       instances *all) {
    const uf_conv_kernel_args args = uf_wgmma_canonical(given);
    uf_patch_plan plan;
    if (uf_patch_plan_of(direction, &args, all->number, &plan)) {
        ask(all, (key){{plan.brief ? TYPES : type, plan.tile.side, plan.tile.spread}});
    }
}

static void wgmma_patch_gemm(void **state) {
    (void)state;
    instances all = {.count = 0};
    int type = 0;
#define UF_PATCH_TILE(SIDE, SPREAD) list(&all, (key){{type, SIDE, SPREAD}});
    for (; type < TYPES; ++type) {
        UF_PATCH_TILES
    }
    UF_PATCH_TILES_BRIEF
#undef UF_PATCH_TILE
    walk_layers("patch_instances", 60000, PATCHES, UF_PATCH_TILE_NUMBERS, walk_patch, &all);
}

/* ---- im2col ---- */

static void walk_im2col(const uf_conv_kernel_args *args, uf_conv_direction direction, int type,
                        instances *all) {
    const uf_conv_problem problem = tiled_problem_of(direction, args, all->number);
    uf_im2col_plan plan;
    if (uf_im2col_plan_of(&problem, &plan)) {
        ask(all, (key){{type, plan.n, plan.m}});
    }
}

static void im2col(void **state) {
    (void)state;
    instances all = {.count = 0};
    int type = FP32;
#define UF_IM2COL_TILE(N, M) list(&all, (key){{type, N, M}});
    UF_IM2COL_TILES_FP32
    for (type = TF32; type < TYPES; ++type) {
        UF_IM2COL_TILES
    }
#undef UF_IM2COL_TILE
    walk_layers("im2col_instances", 1500, ANY, UF_IM2COL_TILE_NUMBERS, walk_im2col, &all);
}

/* ---- simt_direct and depthwise, by the dtype alone ---- */

static void walk_direct(const uf_conv_kernel_args *args, uf_conv_direction direction, int type,
                        instances *all) {
    uf_direct_plan plan;
    const uf_conv_problem problem = tiled_problem_of(direction, args, all->number);
    if ((type == FP32 || type == BF16) && uf_direct_plan_of(&problem, &plan)) {
        ask(all, (key){{type, plan.phases, plan.channels, plan.cells}});
    }
}

static void walk_depthwise(const uf_conv_kernel_args *args, uf_conv_direction direction, int type,
                           instances *all) {
    uf_depthwise_plan plan;
    const uf_conv_problem problem = tiled_problem_of(direction, args, all->number);
    if ((type == FP32 || type == BF16) && uf_depthwise_plan_of(&problem, &plan)) {
        ask(all, (key){{type, plan.out_step, plan.in_step, plan.filter, plan.rows, plan.run,
                        plan.vector}});
    }
}

static void simt_direct(void **state) {
    (void)state;
    instances direct = {.count = 0}, depthwise = {.count = 0};
    int type = FP32;
#define UF_DIRECT_TILE(L, C, P) list(&direct, (key){{type, L, C, P}});
#define UF_DEPTHWISE_TILE(OUT, IN, FILTER, ROWS, RUN, VECTOR)                                      \
    list(&depthwise, (key){{type, OUT, IN, FILTER, ROWS, RUN, VECTOR}});
    UF_DIRECT_TILES
    UF_DEPTHWISE_TILES
    type = BF16;
    UF_DIRECT_TILES
    UF_DEPTHWISE_TILES
    UF_DEPTHWISE_TILES_BF16
#undef UF_DIRECT_TILE
#undef UF_DEPTHWISE_TILE
    walk_layers("direct_instances", 12000, ANY, MOST_LISTED, walk_direct, &direct);
    walk_layers("depthwise_instances", 60000, DEPTHWISE, MOST_LISTED, walk_depthwise, &depthwise);
}

/* ---- the weight gradients of channel-blocked tensors ---- */

static void walk_channel_blocked(const uf_conv_kernel_args *args, uf_conv_direction direction,
                                 int type, instances *all) {
    uf_channel_blocked_plan plan;
    if (type != TF32 &&
        uf_wgrad_channel_blocked_plan_of(args, direction == UF_CONV_FPROP, all->number, &plan)) {
        ask(all, (key){{type == FP32, plan.tile_id, (int)plan.source}});
    }
}

static void channel_blocked(void **state) {
    (void)state;
    instances all = {.count = 0};
    int split_f16 = 0;
#define UF_CHANNEL_BLOCKED_TILE(ID, WIDTH, UNITS, ACROSS, ROWS)                                    \
    list(&all, (key){{split_f16, ID, UF_CHANNEL_BLOCKED_PACKED}});                                 \
    if (!split_f16) {                                                                              \
        list(&all, (key){{split_f16, ID, UF_CHANNEL_BLOCKED_BF16}});                               \
    }                                                                                              \
    if (!split_f16 || UF_SPLIT_F16_SPLITS_Y(WIDTH, UNITS, ROWS)) {                                 \
        list(&all, (key){{split_f16, ID, UF_CHANNEL_BLOCKED_F32}});                                \
    }
    UF_CHANNEL_BLOCKED_TILES
    split_f16 = 1;
    UF_SPLIT_F16_TILES
#undef UF_CHANNEL_BLOCKED_TILE
    walk_layers("channel_blocked_instances", 20000, ANY, UF_CHANNEL_BLOCKED_IDS,
                walk_channel_blocked, &all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wgmma_implicit_gemm),
        cmocka_unit_test(wgmma_patch_gemm),
        cmocka_unit_test(im2col),
        cmocka_unit_test(simt_direct),
        cmocka_unit_test(channel_blocked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
