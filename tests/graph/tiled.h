/* tiled.h - graphs run in tiles beside the same graphs run whole. */
#ifndef UF_TESTS_TILED_H
#define UF_TESTS_TILED_H

#include <math.h>
#include <stdlib.h>

#include "support/random.h"
#include "support/test.h"

/* A run in tiles, of f64 on the host. */
typedef struct image {
    const double *in; /* whole */
    double *out;
    uf_shape in_shape, out_shape;
    int64_t parts, written;
    bool single; /* the values handed over are f32 */
} image;

static inline int64_t rows_of(const uf_shape *shape) {
    return shape->rank == 4 ? shape->extent[2] : 1;
}

/* Element (plane, y, x) of a shape. */
static inline int64_t at(const uf_shape *shape, int64_t plane, int64_t y, int64_t x) {
    return (plane * rows_of(shape) + y) * shape->extent[shape->rank - 1] + x;
}

static inline int64_t planes_of(const uf_shape *shape) {
    return shape->extent[0] * shape->extent[1];
}

static inline uf_status read_part(void *user, const uf_tile_area *area, void *values) {
    const image *one = user;
    int64_t i = 0;
    for (int64_t plane = 0; plane < planes_of(&one->in_shape); ++plane) {
        for (int64_t y = area->top; y < area->top + area->height; ++y) {
            for (int64_t x = area->left; x < area->left + area->width; ++x, ++i) {
                const double value = one->in[at(&one->in_shape, plane, y, x)];
                if (one->single) {
                    ((float *)values)[i] = (float)value;
                } else {
                    ((double *)values)[i] = value;
                }
            }
        }
    }
    return UF_OK;
}

static inline uf_status write_part(void *user, const uf_tile_area *area, const void *values) {
    image *one = user;
    int64_t i = 0;
    ++one->parts;
    for (int64_t plane = 0; plane < planes_of(&one->out_shape); ++plane) {
        for (int64_t y = area->top; y < area->top + area->height; ++y) {
            for (int64_t x = area->left; x < area->left + area->width; ++x, ++i) {
                double *to = &one->out[at(&one->out_shape, plane, y, x)];
                assert_true(isnan(*to)); /* each element comes once */
                *to =
                    one->single ? (double)((const float *)values)[i] : ((const double *)values)[i];
                ++one->written;
            }
        }
    }
    return UF_OK;
}

/* The worst difference between the run in tiles and the whole one, by the largest number. */
static inline double compare(uf_graph *graph, const char *name, const uf_shape *shape, int64_t tile,
                             uf_dtype dtype, test_random *random, uf_tiles_plan *plan) {
    uf_program_options whole = uf_program_options_default();
    whole.dtype = dtype;
    uf_tiles_options options = uf_tiles_options_default();
    options.program = &whole;
    options.shape = *shape;
    options.tile = tile;
    assert_ok(uf_tiles_plan_of(graph, &options, plan));
    image one = {.in_shape = *shape, .out_shape = plan->output, .single = dtype == UF_F32};
    const int64_t count = uf_shape_count(shape), made = uf_shape_count(&plan->output);
    double *in = test_allocate((size_t)count * sizeof *in);
    double *expected = test_allocate((size_t)made * sizeof *expected);
    test_random_fill(random, in, count, 1.0);
    one.in = in;
    one.out = test_allocate((size_t)made * sizeof *one.out);
    for (int64_t i = 0; i < made; ++i) {
        one.out[i] = NAN;
    }
    options.user = &one;
    options.read = read_part;
    options.write = write_part;
    assert_ok(uf_tiles_run(graph, &options));
    assert_int_equal(one.parts, plan->rows * plan->columns);
    assert_int_equal(one.written, made);

    uf_program *program;
    uf_program_options again = whole;
    const uf_input_shape input = {name, *shape};
    again.input_shapes = &input;
    again.input_shape_count = 1;
    assert_ok(uf_program_compile(graph, &again, &program));
    assert_ok(uf_tensor_upload_as(uf_program_input(program, name), UF_F64, in, count));
    assert_ok(uf_program_run(program));
    const uf_tensor *output = uf_program_output(program, uf_program_output_name(program, 0));
    const uf_shape out = uf_tensor_shape(output);
    assert_true(uf_shape_equal(&out, &plan->output));
    assert_ok(uf_tensor_download_as(output, UF_F64, expected, made));
    double worst = 0.0, largest = 0.0;
    for (int64_t i = 0; i < made; ++i) {
        const double difference = fabs(one.out[i] - expected[i]);
        assert_true(isfinite(expected[i]));
        worst = isfinite(difference) && difference <= worst ? worst : difference;
        largest = fmax(largest, fabs(expected[i]));
    }
    uf_program_destroy(program);
    free(in);
    free(expected);
    free(one.out);
    return worst / fmax(largest, 1e-30);
}

#endif
