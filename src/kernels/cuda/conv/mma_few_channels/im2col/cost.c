/* cost.c - the model that ranks conv_im2col's tiles. */
#include "kernels/cuda/conv/mma_few_channels/im2col/cost.h"

double uf_im2col_cost(const uf_im2col_plan *plan, int64_t size, int32_t multiprocessors) {
    const uf_im2col_conv *im2col = &plan->im2col;
    const uf_direct_conv *conv = &im2col->conv;
    const uf_direct_axis *rows = &conv->axis[0], *columns = &conv->axis[1];
    const double m = plan->m, n = plan->n, out = columns->out_step;
    const double element = (double)size;
    const bool split = im2col->split_parts == 2;
    const double warps = im2col->warps, slices = im2col->part_slices;

    const double busy =
        (double)uf_div_up(im2col->cells, 16 * (int64_t)plan->m); /* warps with cells */
    const double steps = busy * slices * im2col->steps * conv->chunks;
    double issue = 0; /* instructions of all warps except MMAs */
    const double multiply = steps * (m * (split ? 14 : 2) + n * (1 + m * (split ? 7 : 1)) + 6);
    double shared = steps * (4 * m + n * 2 * im2col->split_parts + 1);
    const double mmas = steps * m * n * (split ? 3 : 1) * 6.8 / 4;

    const double loads = (conv->chunks > 1 ? slices : 1) * conv->chunks;
    const double words = im2col->unit;
    const double turns =
        (double)uf_div_up((int64_t)im2col->lines_in * im2col->vectors << im2col->share_bits,
                          32 * (int64_t)im2col->warps);
    issue +=
        loads *
        (warps * 80 +
         (im2col->bulk ? 8.0 * im2col->lines_in * conv->chunk + warps * 60
                       : warps * turns *
                             (58 + 7 * (double)uf_div_up(conv->chunk, 1 << im2col->share_bits))) +
         (double)im2col->records / 32 *
             (im2col->paired ? 5 + im2col->record * (split ? 1.3 : 2.3) * words
                             : 19 + im2col->record * (2.0 * words + 13)));
    shared += loads * (im2col->window_words / 32.0 +
                       (double)im2col->records / 32 * im2col->record * (words + 4));

    /* The epilogue stores rows of the tile. */
    const double length = im2col->take * element;
    const double stored = (double)rows->tile * im2col->slice_pairs * slices;
    double requests = stored * (length / 128 + 1);
    if (im2col->lines) {
        const double turns_dead = (out - columns->live) / columns->live;
        issue += busy * slices * n * 2 * (1 + 2 * m * 2 + turns_dead * (6 + 2 * m)) +
                 warps * slices * 200 + stored / (im2col->flat ? rows->tile : 1) * 25;
        shared += stored * length / 128 + busy * slices * n * 4 * m * (1 + turns_dead) * 1.5;
    } else {
        issue += stored / (im2col->flat ? rows->tile : 1) * 28 + stored * 5 * (length / 128 + 1) +
                 warps * slices * (m * n * 4 + 160);
        shared += stored * length / element / 32 + warps * slices * m * n * 4 * 2;
    }
    const double dead = (double)(rows->out_step - rows->live) * rows->tile *
                        conv->written_per_group / im2col->parts;
    requests += dead * (length / 128 + 1);
    issue += dead * (25 + (im2col->zero_words > 0 ? 0 : 1.5 * (length / 128 + 1))) + warps * 200;

    /* Bulk copies store whole lines. Partial sectors at the ends of a line cost as much as 300
     * bytes. */
    const double merged = im2col->flat ? rows->tile : 1;
    const int64_t stride = conv->written_stride[2] * size;
    const bool whole =
        im2col->flat
            ? (int64_t)(length * merged) % 32 == 0
            : stride % 32 == 0 && (columns->tiles == 1 ||
                                   ((int64_t)length % 32 == 0 && uf_im2col_begin_at(im2col) == 0));
    /* Loads: of lines, of 16 bytes, or of less; short ones take six cycles a warp. */
    const double lines_in = loads * im2col->lines_in * conv->chunk;
    const double short_copies =
        !im2col->bulk && im2col->width < 4 ? 0.2 * lines_in * im2col->vectors : 0;
    const double memory =
        (im2col->lines ? (stored / merged + dead) * (length * merged + (whole ? 0 : 385)) / 24.4
                       : requests * 5) +
        lines_in * (im2col->bulk ? 16.1 : 1.6) + short_copies;
    shared *= 0.925;
    double most = shared > mmas ? shared : mmas;
    most = memory > most ? memory : most;

    /* Fitted to 867 tiles of 39 layers on an H200, with a standard deviation of 13 %. The tiles
     * that the model chooses take 1.1 % longer than the best measured ones.
     *
     * Phases of a tile follow each other, and a block has one tile at a time. An instruction of a
     * warp takes about three cycles of latency, a wait for a window or a barrier a thousand. Blocks
     * overlap: the throughput of the multiprocessor and the latency of the busiest block both bound
     * the time, and neither hides much of the other. */
    const int64_t families = (int64_t)conv->groups * im2col->parts;
    const double per = (double)uf_div_up(im2col->tiles * families, multiprocessors);
    const double throughput = per * (most + 0.236 * (shared + mmas + memory));
    const double latency = (double)uf_div_up(im2col->tiles, im2col->each) *
                           ((split ? 3.2 : 3.4) * (multiply / busy + issue / warps) +
                            (910 * loads + 1085 * slices) * (1 + 0.033 * warps) + short_copies);
    const double begin = (double)uf_div_up(plan->blocks, multiprocessors) * im2col->weight_words /
                         im2col->split_parts / 64 * 235 / warps;
    return (throughput > latency ? throughput + 0.71 * latency : latency + 0.71 * throughput) +
           begin + 8700;
}
