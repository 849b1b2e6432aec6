/* test_conv_tile.c - the tiles of the CPU's convolutions (conv_tile.h) by brute force, for the
 * vectors of every instruction set: each pixel is in one tile, and each of its taps reads the
 * element that the definition says, or one that no copy fills. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/conv_tile.h"
#include "support/random.h"

enum { CASES = 2000, NOTHING = -1 };

typedef struct axis {
    int64_t in, out, kernel, stride, padding, dilation; /* in: the large side */
} axis;

static axis random_axis(test_random *random) {
    static const int64_t steps[] = {1, 1, 1, 2, 2, 3, 5};
    axis a;
    do {
        a.kernel = test_random_integer(random, 1, 5);
        a.stride = steps[test_random_integer(random, 0, COUNT_OF(steps) - 1)];
        a.padding = test_random_integer(random, 0, 3);
        a.dilation = test_random_one_in(random, 3) ? test_random_integer(random, 2, 9) : 1;
        a.in = test_random_integer(random, 1, test_random_one_in(random, 4) ? 90 : 20);
        a.out = (a.in + 2 * a.padding - a.dilation * (a.kernel - 1) - 1) / a.stride + 1;
    } while (a.in + 2 * a.padding < a.dilation * (a.kernel - 1) + 1);
    return a;
}

static uf_axis_walk walk_of(const axis *a, bool dgrad, int64_t first) {
    return dgrad ? uf_axis_dgrad(a->in, a->kernel, a->stride, a->padding, a->dilation,
                                 (first + a->padding) % a->stride)
                 : uf_axis_fprop(a->out, a->kernel, a->stride, a->padding, a->dilation);
}

/* The offset that each element of a channel's copy is filled from. */
static int64_t *fill_copy(const uf_cpu_conv_plan *plan, const uf_conv_tile *tile) {
    const int64_t room = tile->channel + plan->code->lanes;
    int64_t *from = test_allocate((size_t)room * sizeof *from);
    int64_t filled = 0;
    for (int64_t i = 0; i < room; ++i) {
        from[i] = NOTHING;
    }
    for (int64_t i = 0; i < tile->copies; ++i) {
        const uf_conv_copy *copy = &tile->copy[i];
        for (int64_t j = 0; j < copy->count; ++j) {
            const int64_t to = copy->to + j * tile->interleave;
            assert_in_range(to, 0, tile->channel - 1);
            assert_int_equal(from[to], NOTHING);
            from[to] = copy->from + j * tile->walk[1]->in_step * plan->read.view->stride[3];
            ++filled;
        }
    }
    const int64_t elements = tile->lines[0].blocks * tile->lines[1].blocks * tile->block;
    assert_in_range(elements, 1, tile->channel);
    assert_int_equal(tile->padded, filled < elements);
    return from;
}

static void check_taps(const uf_cpu_conv_plan *plan, const uf_conv_tile *tile, const int64_t *from,
                       int64_t element, int64_t image, int64_t row, int64_t column) {
    const uf_axis_walk *rows = tile->walk[0], *columns = tile->walk[1];
    const uf_view *read = plan->read.view;
    for (int64_t r = 0; r < rows->taps; ++r) {
        const int64_t h = row * rows->in_step + rows->in_first + r * rows->in_tap_step;
        for (int64_t s = 0; s < columns->taps; ++s) {
            const int64_t w =
                column * columns->in_step + columns->in_first + s * columns->in_tap_step;
            const bool inside = h >= 0 && h < read->extent[2] && w >= 0 && w < read->extent[3];
            assert_int_equal(from[element + tile->tap[r * columns->taps + s]],
                             inside ? image * read->stride[0] + h * read->stride[2] +
                                          w * read->stride[3]
                                    : NOTHING);
        }
    }
}

/* Counts the pixels of a tile in `written`, [image][row][column] of the phase. */
static void check_tile(const uf_cpu_conv_plan *plan, const uf_conv_tile *tile, int64_t *written) {
    const int64_t lanes = plan->code->lanes;
    const bool taps = tile->walk[0]->taps * tile->walk[1]->taps > 0;
    int64_t *from = NULL;
    assert_in_range(tile->vectors, 1, plan->pixel_block / lanes);
    assert_in_range(tile->pieces, 1, UF_CONV_PIXELS);
    if (taps) {
        assert_true(tile->slots * tile->channel <= plan->copy_elements);
        assert_true((size_t)tile->copies * sizeof(uf_conv_copy) <= plan->table_bytes);
        from = fill_copy(plan, tile);
    }
    for (int64_t p = 0; p < tile->pieces; ++p) {
        const uf_conv_piece *piece = &tile->piece[p];
        for (int64_t x = 0; x < tile->extent[2] * tile->interleave; ++x) {
            const int64_t at = piece->at + x;
            const int64_t image = tile->first[0] + piece->image + x % tile->interleave;
            const int64_t row = tile->first[1] + piece->row;
            const int64_t column = tile->first[2] + x / tile->interleave;
            if (piece->image + x % tile->interleave >= tile->extent[0]) {
                continue;
            }
            assert_in_range(at, 0, tile->vectors * lanes - 1);
            ++written[(image * tile->walk[0]->out_count + row) * tile->walk[1]->out_count + column];
            if (taps) {
                check_taps(plan, tile, from, tile->place[at / lanes] + at % lanes, image, row,
                           column);
            }
        }
    }
    free(from);
}

static void check_phase(const uf_cpu_conv_plan *plan, const uf_axis_walk *rows,
                        const uf_axis_walk *columns) {
    const int64_t pixels = plan->batch * rows->out_count * columns->out_count;
    int64_t *written = test_allocate((size_t)(pixels + 1) * sizeof *written);
    void *table = test_allocate(plan->table_bytes);
    memset(written, 0, (size_t)(pixels + 1) * sizeof *written);
    for (int64_t i = 0; i < plan->tiles[0] * plan->tiles[1] * plan->tiles[2]; ++i) {
        uf_conv_tile tile;
        if (uf_conv_tile_make(plan, rows, columns, i, table, &tile)) {
            check_tile(plan, &tile, written);
        }
    }
    for (int64_t i = 0; i < pixels; ++i) {
        assert_int_equal(written[i], 1);
    }
    free(table);
    free(written);
}

static void test_tiles(void **state) {
    /* Lanes and pixels of a tile: f32, then f64. */
    static const int64_t sizes[][2] = {{16, 192}, {8, 192}, {4, 192}, {8, 96}, {4, 96}, {2, 96}};
    int64_t interleaved = 0, apart = 0;
    (void)state;
    for (int64_t i = 0; i < CASES; ++i) {
        test_random random = test_random_for("conv_tile", i);
        const int64_t *size = sizes[i % COUNT_OF(sizes)];
        const uf_conv_code code = {.lanes = size[0], .rows = 8};
        const bool dgrad = test_random_one_in(&random, 2);
        const axis axes[2] = {random_axis(&random), random_axis(&random)};
        uf_view read = {
            .extent = {test_random_integer(&random, 1, 20), test_random_integer(&random, 1, 300)}};
        uf_axis_walk walk[2];
        read.stride[3] = test_random_integer(&random, 1, 2);
        for (int a = 1; a >= 0; --a) {
            const int64_t step = axes[a].stride / uf_gcd(axes[a].stride, axes[a].dilation);
            read.extent[2 + a] = dgrad ? axes[a].out : axes[a].in;
            read.stride[1 + a] = read.extent[2 + a] * read.stride[2 + a] + 3;
            walk[a] = walk_of(&axes[a], dgrad, 0);
            walk[a].taps = dgrad ? uf_div_up(axes[a].kernel, step) : axes[a].kernel;
        }
        read.stride[0] = read.extent[1] * read.stride[1];
        uf_cpu_conv_plan plan = {.dgrad = dgrad,
                                 .code = &code,
                                 .read = {&read, read.extent[1]},
                                 .batch = read.extent[0],
                                 .pixel_block = size[1],
                                 .depth_block = UF_CONV_DEPTH};
        uf_conv_tile_choose(&plan, walk, test_random_integer(&random, 1, 32) * 8);
        interleaved += plan.interleave > 1 ? 1 : 0;
        apart += plan.tiles[1] * plan.tiles[2] > 1 ? 1 : 0;
        for (int64_t h = 0; h < (dgrad ? axes[0].stride : 1); ++h) {
            for (int64_t w = 0; w < (dgrad ? axes[1].stride : 1); ++w) {
                const uf_axis_walk rows = walk_of(&axes[0], dgrad, h);
                const uf_axis_walk columns = walk_of(&axes[1], dgrad, w);
                check_phase(&plan, &rows, &columns);
            }
        }
    }
    print_message("%lld interleaved, %lld in several tiles, of %d\n", (long long)interleaved,
                  (long long)apart, CASES);
    assert_in_range(interleaved, CASES / 20, CASES);
    assert_in_range(apart, CASES / 20, CASES);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tiles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
