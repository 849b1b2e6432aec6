/* cost.c - the cost model that chooses tiles; tile.h says how good it is. */
#include "kernels/cuda/conv/wgmma_implicit_gemm/tile.h"

/* Split f16: cycles of a store request of whole sectors, and of another one. */
static const double split_f16_request[2] = {7.4, 21.0};

/* Cycles of the stores of a CTA's tile. Beyond the second-level cache a multiprocessor sends about
 * one request in ten cycles, of a word or of 128 bytes. A run of a patch is one request, or two
 * where rows are not whole sectors. */
static double store_cycles(const uf_wgmma_job *job, const uf_wgmma_geometry *made) {
    const bool fp32 = uf_wgmma_is_fp32(job->math);
    const bool dgrad = job->direction == UF_CONV_DGRAD;
    const uf_view *written = dgrad ? &job->args->x : &job->args->y;
    if ((double)uf_view_count(written) * (double)job->element < 2e7) {
        return 0.0;
    }
    const double across = made->axis[1].patch < 32 ? made->axis[1].patch : 32.0;
    const double run = made->paired || made->merged        ? 2.0 * across
                       : dgrad && job->args->stride[1] > 1 ? across / (double)job->args->stride[1]
                                                           : across;
    const bool aligned = written->extent[3] * job->element % 32 == 0;
    const double channels = job->written < UF_WGMMA_ROWS ? (double)job->written : UF_WGMMA_ROWS;
    const bool whole = aligned || run > 8.0;
    const double request = job->math == UF_MMA_F16X3
                               ? (whole ? split_f16_request[0] : split_f16_request[1])
                           : fp32  ? 6.7
                           : whole ? 9.5
                                   : 15.0;
    return request * channels * UF_WGMMA_PIXELS * made->wm * made->nt / run;
}

/* Measured rates of cost(), in cycles unless said otherwise. */
typedef struct cost_rates {
    double mma, second;    /* a chunk and tap; factor for two MMAs per warpgroup */
    double together;       /* factor for two warpgroups, which wait at the same time */
    double position, line; /* to make a window position of a channel; to request a line */
    double behind[2]; /* share of the smaller of MMAs and fetching that stays visible: with one MMA
                         per CTA, whose gaps another CTA fills; with more */
    double first_out, phase_out, one_out,
        two_out;                     /* epilogue: per warpgroup; per MMA, in three cases */
    double one_window, more_windows; /* wait for a window: with one buffer, with more */
    double kept; /* factor where 3xF16 has no accumulators for the small parts */
} cost_rates;

static const cost_rates fast_rates = {215.0,  1.0,    1.0,    0.55,  1.4,   {0.28, 0.9}, 800.0,
                                      4000.0, 1700.0, 2400.0, 700.0, 300.0, 1.0};
static const cost_rates fp32_rates = {424.0,  1.036,  1.068,  0.447, 0.97,  {0.5, 0.5}, 0.0,
                                      5980.0, 2600.0, 3880.0, 840.0, 445.0, 1.0};
static const cost_rates split_f16_rates = {380.0,  0.97,   1.03,   0.521,  1.01,  {0.58, 0.33}, 0.0,
                                           4130.0, 3330.0, 2920.0, 1670.0, 548.0, 1.19};

/* Modelled cycles of a call, fitted to an H200 over layers of 32 to 1024 channels: within about 20
 * % (FP32: 7 %, split f16: 10 %). A multiprocessor is busy with MMAs, fetching, or rounding
 * (packing did it for packed windows), and at least `least` cycles with a tile's stores. */
static double cost(const uf_wgmma_geometry *made, bool beside, uf_mma_math math, double element,
                   double least) {
    const double whole = made->planes / (double)UF_WGMMA_PLANES;
    const double depth = (double)uf_wgmma_depth(math) * whole;
    const cost_rates *const rates = math == UF_MMA_F16X3    ? &split_f16_rates
                                    : math == UF_MMA_TF32X3 ? &fp32_rates
                                                            : &fast_rates;
    const bool kept = !(made->packed && made->nt == 1 && made->stream_k == 0);
    const double mmas = rates->mma * (made->nt == 2 ? rates->second : 1.0) *
                        (kept ? rates->kept : 1.0) * whole * made->wm * made->nt;
    const double row = made->packed ? made->planes * 16 : depth * element;
    const double window_taps = made->busiest / made->classes; /* taps that use one window */
    const double fetch =
        (made->planes * UF_WGMMA_PLANE * made->wm + made->window_rows * row / window_taps) / 50.0;
    const double line = (8 << made->patch_log) + 4.0; /* window positions a line covers, about */
    const double rounding = made->packed ? 0.0
                                         : made->window_rows * depth / window_taps *
                                               (rates->position + rates->line / line);
    const double per_window = made->windows == 1 ? rates->one_window : rates->more_windows;
    /* Column phases that are stored apart store single elements. */
    const bool scattered = beside && !made->paired; /* merged: about as slow */
    /* Warpgroups of a CTA that reduce and store; other CTAs do it for the rest. */
    const int32_t writers = made->splits > 1 && !made->paired ? 1 : made->wm;
    const double splitting =
        made->splits > 1 ? 2500.0 + 1200.0 * (made->splits - 1) * writers * made->nt : 0.0;
    const double epilogue = writers * (rates->first_out + (scattered       ? rates->phase_out
                                                           : made->wm == 1 ? rates->one_out
                                                                           : rates->two_out) *
                                                              made->nt) +
                            splitting;
    double unit = mmas > fetch ? mmas : fetch;
    const double behind = rates->behind[made->wm * made->nt > 1 ? 1 : 0];
    unit = unit > rounding ? unit + behind * rounding : rounding + behind * unit;
    const double together = made->wm == 2 ? rates->together : 1.0;
    if (made->stream_k > 0) {
        /* CTAs have equal work and at most one epilogue more than others. A tile's first CTA reads
         * the partial sums of the others. */
        const double blocks = (double)made->stream_k;
        const double windows =
            (double)made->tiles * (made->chunks / made->depth) * made->classes / blocks;
        const double outs = (double)uf_div_up(made->tiles, made->stream_k);
        const double parts = (double)(uf_div_up(made->stream_k, made->tiles) + 1);
        const double adding = 6000.0 + 2000.0 * (parts - 1.0) + (made->paired ? 10000.0 : 0.0);
        const double units = (double)made->work * made->depth / made->wm / blocks;
        const double all = (unit * units + outs * epilogue + adding) * together;
        const double store_cost = least * (double)made->tiles / blocks;
        return (all > store_cost ? all : store_cost) + windows * per_window;
    }
    const double share = (double)uf_div_up(made->chunks / made->depth, made->splits) * made->depth;
    const double units = share * made->busiest;
    const double windows = share / made->depth * made->classes;
    const int64_t tiles = made->tiles * made->splits;
    const double blocks = (double)uf_div_up(tiles, UF_WGMMA_MULTIPROCESSORS);
    const double tile = (unit * units + epilogue) * together;
    double all = blocks * (tile > least ? tile : least);
    if (made->wm == 1) {
        /* Two CTAs at a time: one computes while the other waits. */
        all += (double)uf_div_up(tiles, 2 * UF_WGMMA_MULTIPROCESSORS) * windows * per_window;
        /* The last tile may have no other beside it. */
        all += tiles <= UF_WGMMA_MULTIPROCESSORS                     ? unit * units
               : uf_div_up(tiles, UF_WGMMA_MULTIPROCESSORS) % 2 == 1 ? 0.6 * unit * units
                                                                     : 0.0;
    } else {
        all += blocks * windows * per_window;
    }
    return all;
}

/* Cycles to move that many bytes. */
static double copy_cycles(double bytes) {
    return bytes / UF_WGMMA_MULTIPROCESSORS / 13.0;
}

double uf_wgmma_cost(const uf_wgmma_job *job, const uf_wgmma_geometry *made) {
    const bool beside = job->direction == UF_CONV_DGRAD && job->args->stride[1] > 1;
    return cost(made, beside, job->math, (double)job->element, store_cycles(job, made));
}

double uf_wgmma_packing_cost(const uf_wgmma_job *job, const uf_wgmma_geometry *made) {
    const uf_view *read = job->direction == UF_CONV_DGRAD ? &job->args->y : &job->args->x;
    const int images_log = made->axis[0].images_log + made->axis[1].images_log;
    double positions = (double)(uf_div_up(read->extent[0], INT64_C(1) << images_log) << images_log);
    double classes = 1.0;
    for (int axis = 0; axis < 2; ++axis) {
        const double mul = made->axis[axis].mul;
        const int64_t rows = axis == 0 && made->stack > 0 ? made->stack
                             : made->line > 0
                                 ? made->line
                                 : uf_div_up(read->extent[2 + axis], made->axis[axis].mul);
        positions *= (double)rows * mul;
        classes *= job->direction == UF_CONV_DGRAD ? 1.0 : job->taps[axis].of.kinds / mul;
    }
    const double bytes =
        classes * positions * (double)job->args->groups * made->chunks * made->planes * 16;
    if (positions >= 2147483647.0 || bytes / (256.0 * 16.0) >= 2147483647.0) {
        return -1.0;
    }
    return 5000.0 + copy_cycles((double)(uf_view_count(read) * job->element) + bytes);
}

/* The range pass, and fix-up launches that find no flag. */
double uf_wgmma_range_cost(const uf_wgmma_job *job) {
    const uf_view *read = job->direction == UF_CONV_DGRAD ? &job->args->y : &job->args->x;
    return 9000.0 + copy_cycles((double)((uf_view_count(read) + uf_view_count(&job->args->w)) *
                                         job->element));
}

/* Swap-AB, from times with parts left out. MMAs, windows (`position` cycles for each of a chunk)
 * and the epilogue hardly overlap, because MMAs take all of shared memory's bandwidth. */
double uf_wgmma_swap_ab_cost(const uf_wgmma_job *job, const uf_wgmma_geometry *made, double taps) {
    const bool fp32 = job->math == UF_MMA_TF32X3;
    const double element = (double)job->element;
    const double n = made->columns;
    const double one = n / 2.0 > 16.0 ? n / 2.0 : 16.0;
    const double mmas =
        made->chunks * taps * made->nt * (fp32 ? 1.12 * (one + (n > 16.0 ? n : 16.0)) : 2.1 * one);
    const double position = fp32 ? 4.5 : job->math == UF_MMA_TF32 ? 6.8 : 12.2;
    const double requests = UF_WGMMA_SWAP_AB_PIXELS * element / 128.0 + 0.5;
    const double epilogue = 4.0 * requests * (double)job->written * made->nt;
    /* FP32's MMAs hide the weights. */
    const double weights =
        made->resident || fp32 ? 0.0 : made->chunks * taps * n * made->planes * 16.0;
    const double tile =
        mmas + position * made->chunks * made->window_rows + epilogue + weights / 24.0 + 1000.0;
    /* Halves of a window drift further apart than tiles taken in turn. */
    const double scale = UF_WGMMA_SWAP_AB_TURNS(made->columns) == 1 ? 0.77 : 1.0;
    return 8000.0 + scale * (double)uf_div_up(made->tiles, UF_WGMMA_MULTIPROCESSORS) * tile;
}
