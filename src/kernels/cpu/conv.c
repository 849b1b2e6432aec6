/* conv.c - conv_fprop and conv_dgrad on the CPU: planning and the parallel loops. The arithmetic is
 * in conv_code.inc. */
#include "kernels/cpu/conv_plan.h"

#include <string.h>

#include "core/parallel.h"
#include "kernels/cpu/conv_tile.h"
#include "kernels/cpu/isa.h"

/* Channels of one unit: their sums, 192 pixels each, stay in the second cache beside the panels. */
#define ROW_BLOCK 256
/* Elements of Z that one unit of gather makes. */
#define GATHER_ELEMENTS 131072
/* Columns of one unit of direct. */
#define DIRECT_COLUMNS 1024
/* Fewer units than this keep too few threads busy. */
#define ENOUGH_UNITS 32

static const char *const variant_names[] = {"gemm", "gather", "direct"};

const uf_conv_code *uf_conv_code_for(uf_dtype dtype) {
    enum { TYPES = UF_BF16 + 1 };
    static const uf_conv_code *const codes[UF_ISA_COUNT][TYPES] = {
        [UF_ISA_BASELINE] = {[UF_F32] = &uf_conv_code_baseline_f32,
                             [UF_F64] = &uf_conv_code_baseline_f64,
                             [UF_BF16] = &uf_conv_code_baseline_bf16},
#if defined(__x86_64__) && defined(__GNUC__)
        [UF_ISA_AVX2] = {[UF_F32] = &uf_conv_code_avx2_f32,
                         [UF_F64] = &uf_conv_code_avx2_f64,
                         [UF_BF16] = &uf_conv_code_avx2_bf16},
        [UF_ISA_AVX512] = {[UF_F32] = &uf_conv_code_avx512_f32,
                           [UF_F64] = &uf_conv_code_avx512_f64,
                           [UF_BF16] = &uf_conv_code_avx512_bf16},
#endif
    };
    return codes[uf_cpu_isa_detect()][dtype];
}

static uf_axis_walk axis_walk(const uf_conv_kernel_args *args, bool dgrad, int axis,
                              int64_t first) {
    const int64_t kernel = args->w.extent[2 + axis];
    const int64_t stride = args->stride[axis];
    const int64_t padding = args->padding[axis];
    const int64_t dilation = args->dilation[axis];
    if (!dgrad) {
        return uf_axis_fprop(args->y.extent[2 + axis], kernel, stride, padding, dilation);
    }
    return uf_axis_dgrad(args->x.extent[2 + axis], kernel, stride, padding, dilation,
                         (first + padding) % stride);
}

__extension__ typedef unsigned __int128 wide;

/* The sum over i < n of floor((a*i + b)/m), by Euclid's algorithm on a and m. */
static wide floor_sum(wide n, wide m, wide a, wide b) {
    wide sum = 0;
    for (;;) {
        sum += n * (n - 1) / 2 * (a / m) + n * (b / m);
        a %= m;
        b %= m;
        const wide last = a * n + b;
        if (last < m) {
            return sum;
        }
        n = last / m;
        b = last % m;
        const wide swapped = a;
        a = m;
        m = swapped;
    }
}

double uf_conv_dgrad_products(int64_t in, int64_t kernel, int64_t stride, int64_t padding,
                              int64_t dilation) {
    /* Tap r meets the elements that are r*dilation - padding modulo the stride: in/stride of them,
     * and one more where that rest is below in % stride. x % stride < k is
     * floor(x/stride) - floor((x - k)/stride). */
    const uint64_t taps = (uint64_t)kernel;
    const uint64_t step = (uint64_t)stride;
    const uint64_t turn = (uint64_t)(dilation % stride);
    const uint64_t first = (uint64_t)(stride + (stride - padding % stride) % stride);
    const uint64_t rest = (uint64_t)(in % stride);
    const wide more =
        floor_sum(taps, step, turn, first) - floor_sum(taps, step, turn, first - rest);
    return (double)((wide)taps * (uint64_t)(in / stride) + more);
}

/* Products of one axis: elements times taps, over all phases. */
static double axis_products(const uf_cpu_conv_plan *plan, int axis) {
    const uf_conv_kernel_args *args = plan->args;
    const int64_t kernel = plan->kernel[axis];
    return plan->dgrad
               ? uf_conv_dgrad_products(args->x.extent[2 + axis], kernel, args->stride[axis],
                                        args->padding[axis], args->dilation[axis])
               : (double)args->y.extent[2 + axis] * (double)kernel;
}

int64_t uf_conv_micro_rows(const uf_conv_code *code, int64_t channels) {
    int64_t best = code->rows;
    double best_cost = (double)(uf_div_up(channels, best) * best);
    for (int64_t rows = code->rows / 2; rows >= 1; rows /= 2) {
        const double cost =
            (double)(uf_div_up(channels, rows) * rows) * (1.0 + 0.08 * (double)(code->rows / rows));
        if (cost < best_cost) {
            best = rows;
            best_cost = cost;
        }
    }
    return best;
}

/* The fastest variant by a model, in products of a full micro-kernel, per group. */
static uf_cpu_conv_variant choose_variant(const uf_cpu_conv_plan *plan) {
    const double batch = (double)plan->batch;
    const double read = (double)plan->read.channels;
    const double written = (double)plan->written.channels;
    const double taps = batch * axis_products(plan, 0) * axis_products(plan, 1);
    const int64_t rows = uf_conv_micro_rows(plan->code, plan->written.channels);
    const double padded = (double)(uf_div_up(plan->written.channels, rows) * rows);
    /* A tile's copy has about one element for each that is written (docs/lab/cpu.md). */
    const double copied = batch * (double)plan->written.view->extent[2] *
                          (double)plan->written.view->extent[3] * read;
    const double gemm = taps * read * (padded + 1.0) + copied * 8.0;
    double best = gemm;
    uf_cpu_conv_variant variant = UF_CPU_CONV_GEMM;
    if (plan->dgrad) {
        const double small =
            batch * (double)plan->args->y.extent[2] * (double)plan->args->y.extent[3];
        const double gather =
            small * (double)(plan->kernel[0] * plan->kernel[1]) * written * (read + 24.0) +
            small * read * 16.0;
        if (gather < best) {
            best = gather;
            variant = UF_CPU_CONV_GATHER;
        }
    }
    if (taps * read * written * 8.0 < best) {
        variant = UF_CPU_CONV_DIRECT;
    }
    return variant;
}

/* Rows are cut into blocks so that there are enough units. Each block copies the pixels again: not
 * below 64 rows. */
static void cut_rows(uf_cpu_conv_plan *plan, int64_t units) {
    int64_t blocks = uf_div_up(plan->packed_rows, ROW_BLOCK);
    if (units * blocks < ENOUGH_UNITS) {
        blocks = uf_max(blocks, uf_min(uf_div_up(ENOUGH_UNITS, units), plan->packed_rows / 64));
    }
    plan->row_block = uf_div_up(uf_div_up(plan->packed_rows, blocks), plan->rows) * plan->rows;
    plan->row_blocks = uf_div_up(plan->packed_rows, plan->row_block);
    plan->units = units * plan->row_blocks;
}

static void plan_gemm(uf_cpu_conv_plan *plan) {
    uf_axis_walk walk[2];
    for (int axis = 0; axis < 2; ++axis) {
        /* The first phase has the most pixels; some phase has these taps. */
        walk[axis] = axis_walk(plan->args, plan->dgrad, axis, 0);
        const int64_t stride = plan->args->stride[axis];
        walk[axis].taps =
            plan->dgrad
                ? uf_div_up(plan->kernel[axis], stride / uf_gcd(stride, plan->args->dilation[axis]))
                : plan->kernel[axis];
    }
    plan->rows = uf_conv_micro_rows(plan->code, plan->written.channels);
    plan->packed_rows = uf_div_up(plan->written.channels, plan->rows) * plan->rows;
    const int64_t repeats = plan->phase_count[0] * plan->groups;
    cut_rows(plan, repeats * uf_div_up(plan->batch * walk[0].out_count * walk[1].out_count,
                                       plan->pixel_block));
    uf_conv_tile_choose(plan, walk, plan->row_block);
    cut_rows(plan, repeats * plan->tiles[0] * plan->tiles[1] * plan->tiles[2]);
    plan->pack_units = plan->groups * plan->phase_count[0] * plan->phase_count[1] *
                       (plan->packed_rows / plan->rows);
    plan->packed_bytes =
        plan->element * (size_t)(plan->groups * plan->packed_rows * plan->read.channels *
                                 plan->kernel[0] * plan->kernel[1]);
    plan->scratch_bytes =
        plan->table_bytes + plan->element * (size_t)(plan->copy_elements + plan->code->lanes +
                                                     plan->pixel_block * plan->row_block);
}

static void plan_gather(uf_cpu_conv_plan *plan) {
    const uf_conv_kernel_args *args = plan->args;
    const int64_t taps = plan->kernel[0] * plan->kernel[1];
    const int64_t *small = &args->y.extent[2];
    const int64_t halo[2] = {uf_conv_halo(args, 0), uf_conv_halo(args, 1)};
    plan->rows = plan->code->rows;
    plan->row_block = uf_min(plan->written.channels, uf_max(512 / taps, 1));
    plan->row_blocks = uf_div_up(plan->written.channels, plan->row_block);
    const int64_t block_rows = uf_div_up(plan->row_block * taps, plan->rows) * plan->rows;
    plan->packed_rows = block_rows * plan->row_blocks;
    const int64_t pixels = uf_max(GATHER_ELEMENTS / block_rows, 2 * plan->code->lanes);
    /* Tiles cover the large side; steps[axis] is how many steps of the stride it has. */
    int64_t steps[2];
    for (int axis = 0; axis < 2; ++axis) {
        steps[axis] = uf_div_up(args->x.extent[2 + axis], args->stride[axis]);
    }
    plan->tile[0] = 1;
    plan->tile[2] = uf_min(steps[1], 128);
    plan->tile[1] = uf_min(steps[0], uf_max(pixels / uf_min(plan->tile[2] + halo[1], small[1]), 1));
    plan->tiles[1] = uf_div_up(steps[0], plan->tile[1]);
    plan->tiles[2] = uf_div_up(steps[1], plan->tile[2]);
    int64_t tile_pixels =
        uf_min(plan->tile[1] + halo[0], small[0]) * uf_min(plan->tile[2] + halo[1], small[1]);
    if (plan->tiles[1] == 1 && plan->tiles[2] == 1) {
        const int64_t enough = uf_div_up(ENOUGH_UNITS, plan->groups * plan->row_blocks);
        plan->tile[0] = uf_min(uf_max(pixels / uf_max(tile_pixels, 1), 1),
                               uf_div_up(plan->batch, uf_min(enough, plan->batch)));
        tile_pixels *= plan->tile[0];
    }
    plan->tiles[0] = uf_div_up(plan->batch, plan->tile[0]);
    plan->tile_pixels = uf_div_up(tile_pixels, plan->code->lanes) * plan->code->lanes;
    plan->units =
        plan->groups * plan->row_blocks * plan->tiles[0] * plan->tiles[1] * plan->tiles[2];
    plan->pack_units = plan->groups * (plan->packed_rows / plan->rows);
    plan->packed_bytes =
        plan->element * (size_t)(plan->groups * plan->packed_rows * plan->read.channels);
    plan->scratch_bytes =
        plan->element * (size_t)(plan->pixel_block * plan->depth_block +
                                 uf_div_up(plan->tile[2], plan->code->lanes) * plan->code->lanes +
                                 block_rows * plan->tile_pixels);
}

static void plan_direct(uf_cpu_conv_plan *plan) {
    const uf_view *written = plan->written.view;
    plan->tile[1] = uf_max(1, uf_min(written->extent[2], 16384 / uf_max(written->extent[3], 1)));
    plan->tile[2] = DIRECT_COLUMNS;
    plan->tiles[1] = uf_div_up(written->extent[2], plan->tile[1]);
    plan->units = written->extent[0] * written->extent[1] * plan->tiles[1];
    plan->scratch_bytes = plan->element * 2 * DIRECT_COLUMNS;
}

/* Everything about the call but the addresses in its workspace. */
static uf_status make_plan(const uf_conv_kernel_args *args, bool dgrad, uf_cpu_conv_plan *plan) {
    memset(plan, 0, sizeof *plan);
    plan->args = args;
    plan->dgrad = dgrad;
    plan->code = uf_conv_code_for(args->x.dtype);
    plan->element = uf_conv_element(args->x.dtype);
    plan->groups = args->groups;
    plan->batch = args->x.extent[0];
    const uf_conv_side x = {&args->x, args->w.extent[1]};
    const uf_conv_side y = {&args->y, args->w.extent[0] / args->groups};
    plan->read = dgrad ? y : x;
    plan->written = dgrad ? x : y;
    plan->w_group = y.channels * args->w.stride[0];
    plan->w_written = args->w.stride[dgrad ? 1 : 0];
    plan->w_read = args->w.stride[dgrad ? 0 : 1];
    for (int axis = 0; axis < 2; ++axis) {
        plan->kernel[axis] = args->w.extent[2 + axis];
        plan->w_tap[axis] = args->w.stride[2 + axis];
        plan->phase_count[axis] = dgrad ? uf_min(args->stride[axis], args->x.extent[2 + axis]) : 1;
    }
    plan->pixel_block = plan->element == 4 ? UF_CONV_PIXELS : UF_CONV_PIXELS / 2;
    plan->depth_block = UF_CONV_DEPTH;
    if (args->variant == NULL) {
        plan->variant = choose_variant(plan);
    } else {
        int found = -1;
        for (int i = 0; i < 3; ++i) {
            if (strcmp(args->variant, variant_names[i]) == 0) {
                found = i;
            }
        }
        if (found < 0 || (found == UF_CPU_CONV_GATHER && !dgrad)) {
            UF_FAIL(UF_ERROR_UNSUPPORTED, "there is no variant \"%s\" of %s on the CPU; it has %s",
                    args->variant, dgrad ? "conv_dgrad" : "conv_fprop",
                    dgrad ? "\"gemm\", \"gather\" and \"direct\"" : "\"gemm\" and \"direct\"");
        }
        plan->variant = (uf_cpu_conv_variant)found;
    }
    switch (plan->variant) {
    case UF_CPU_CONV_GEMM:
        plan_gemm(plan);
        break;
    case UF_CPU_CONV_GATHER:
        plan_gather(plan);
        break;
    case UF_CPU_CONV_DIRECT:
        plan_direct(plan);
        break;
    }
    plan->phase_bytes =
        sizeof(uf_conv_phase) * (size_t)(plan->phase_count[0] + plan->phase_count[1]);
    plan->scratch_bytes = uf_align_up(plan->scratch_bytes);
    return UF_OK;
}

static bool packs_apart(const uf_cpu_conv_plan *plan) {
    return plan->args->packing != UF_CONV_PACK_IN_CALL;
}

static size_t plan_workspace(const uf_cpu_conv_plan *plan, int32_t threads) {
    return uf_align_up(plan->phase_bytes) +
           (packs_apart(plan) ? 0 : uf_align_up(plan->packed_bytes)) +
           plan->scratch_bytes * (size_t)threads;
}

static size_t workspace(const uf_context *context, const uf_conv_kernel_args *args, bool dgrad) {
    uf_cpu_conv_plan plan;
    if (args->x.extent[0] == 0) {
        return 0;
    }
    /* An unknown variant is reported by the call itself. */
    return make_plan(args, dgrad, &plan) == UF_OK ? plan_workspace(&plan, context->threads) : 0;
}

static size_t packed_bytes(const uf_conv_kernel_args *args, bool dgrad) {
    uf_cpu_conv_plan plan;
    return args->x.extent[0] != 0 && make_plan(args, dgrad, &plan) == UF_OK ? plan.packed_bytes : 0;
}

static void pack_unit(void *argument, int64_t unit, int32_t thread) {
    const uf_cpu_conv_plan *plan = argument;
    (void)thread;
    plan->code->pack(plan, unit);
}

static void run_unit(void *argument, int64_t unit, int32_t thread) {
    const uf_cpu_conv_plan *plan = argument;
    plan->code->run[plan->variant](plan, unit,
                                   plan->scratch + (size_t)thread * plan->scratch_bytes);
}

static uf_status run(const uf_context *context, const uf_conv_kernel_args *args, bool dgrad) {
    uf_cpu_conv_plan plan;
    if (args->x.extent[0] == 0) {
        return UF_OK;
    }
    UF_TRY(make_plan(args, dgrad, &plan));
    if (args->workspace_size < plan_workspace(&plan, context->threads)) {
        UF_FAIL(UF_ERROR_INTERNAL, "convolution was given %zu bytes of workspace and needs %zu",
                args->workspace_size, plan_workspace(&plan, context->threads));
    }
    uf_conv_phase *phases = args->workspace;
    for (int axis = 0; axis < 2; ++axis) {
        int64_t taps = 0;
        plan.phase[axis] = phases;
        for (int64_t first = 0; first < plan.phase_count[axis]; ++first, ++phases) {
            phases->walk = axis_walk(args, dgrad, axis, first);
            phases->taps_before = taps;
            taps += phases->walk.taps;
        }
    }
    char *const rest = (char *)args->workspace + uf_align_up(plan.phase_bytes);
    plan.packed = packs_apart(&plan) ? args->packed : rest;
    plan.scratch = packs_apart(&plan) ? rest : rest + uf_align_up(plan.packed_bytes);
    if (args->packing != UF_CONV_PACKED) {
        uf_parallel_for(context, plan.pack_units, pack_unit, &plan);
    }
    if (args->packing != UF_CONV_PACK_ONLY) {
        uf_parallel_for(context, plan.units, run_unit, &plan);
    }
    return UF_OK;
}

uf_status uf_cpu_conv_fprop(uf_context *context, const uf_conv_kernel_args *args) {
    return run(context, args, false);
}

uf_status uf_cpu_conv_dgrad(uf_context *context, const uf_conv_kernel_args *args) {
    return run(context, args, true);
}

size_t uf_cpu_conv_fprop_workspace(uf_context *context, const uf_conv_kernel_args *args) {
    return workspace(context, args, false);
}

size_t uf_cpu_conv_dgrad_workspace(uf_context *context, const uf_conv_kernel_args *args) {
    return workspace(context, args, true);
}

size_t uf_cpu_conv_fprop_packed_bytes(uf_context *context, const uf_conv_kernel_args *args) {
    (void)context;
    return packed_bytes(args, false);
}

size_t uf_cpu_conv_dgrad_packed_bytes(uf_context *context, const uf_conv_kernel_args *args) {
    (void)context;
    return packed_bytes(args, true);
}
