/* test_draws.c - dropout and noise: each number against a plain loop, in every run (replayed on a
 * GPU), in every type and for gaps between images; what numbers have in common over layers, steps
 * and seeds; the step; what fusion leaves away. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/bf16.h"
#include "graph/program.h"
#include "support/compare.h"
#include "support/random.h"

/* ---- the plain loops: J. K. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011),
 * Philox4x32-10 ---- */

static void plain_philox(uint64_t key, uint64_t step, uint64_t block, uint32_t word[4]) {
    uint32_t c[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)step,
                     (uint32_t)(step >> 32)};
    uint32_t k[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    for (int round = 0; round < 10; ++round) {
        const uint64_t a = UINT64_C(0xD2511F53) * c[0], b = UINT64_C(0xCD9E8D57) * c[2];
        const uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k[0], (uint32_t)b,
                                  (uint32_t)(a >> 32) ^ c[3] ^ k[1], (uint32_t)a};
        memcpy(c, next, sizeof c);
        k[0] += 0x9E3779B9U;
        k[1] += 0xBB67AE85U;
    }
    memcpy(word, c, sizeof c);
}

static uint64_t plain_mix(uint64_t z) {
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* The key of the layer that is number `layer` among those that draw. */
static uint64_t plain_key(uint64_t context_seed, uint64_t program_seed, uint64_t layer) {
    const uint64_t golden = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t key = plain_mix(context_seed + golden);
    key = plain_mix((key ^ program_seed) + golden);
    return plain_mix((key ^ layer) + golden);
}

static uint32_t plain_word(uint64_t key, int64_t step, int64_t i) {
    uint32_t word[4];
    plain_philox(key, (uint64_t)step, (uint64_t)(i / 4), word);
    return word[i % 4];
}

static bool plain_kept(uint64_t key, int64_t step, int64_t i, double p) {
    return (double)plain_word(key, step, i) * 0x1p-32 >= p;
}

/* ---- programs of one input x ---- */

enum { N = 3, C = 5, H = 3, W = 7, COUNT = N * C * H * W, SEED = 11, PROGRAM_SEED = 5 };

typedef struct fixture {
    uf_context *context;
    uf_graph *graph;
    uf_program *program;
    uf_value x;
} fixture;

static uf_context *seeded_context(int32_t threads, uint64_t seed) {
    uf_context *of_device = test_context(1);
    uf_context_options options = uf_context_options_default();
    uf_context *context;
    options.device = uf_context_device(of_device);
    options.threads = threads;
    options.seed = seed;
    uf_context_destroy(of_device);
    assert_ok(uf_context_create(&options, &context));
    return context;
}

static fixture open_fixture(int32_t threads, uf_shape shape) {
    fixture f;
    f.context = seeded_context(threads, SEED);
    f.program = NULL;
    assert_ok(uf_graph_create(f.context, &f.graph));
    f.x = uf_input(f.graph, "x", shape);
    return f;
}

/* Compile; with `y` also a pass that differentiates it with respect to x. */
static void compile(fixture *f, uf_dtype dtype, uf_mode mode, const uf_value *y) {
    uf_pass pass = uf_pass_default();
    pass.losses = y;
    pass.loss_count = 1;
    pass.external_seeds = true;
    pass.inputs = &f->x;
    pass.input_count = 1;
    uf_program_options options = uf_program_options_default();
    options.dtype = dtype;
    options.mode = mode;
    options.random_seed = PROGRAM_SEED;
    options.passes = &pass;
    options.pass_count = y != NULL ? 1 : 0;
    assert_ok(uf_program_compile(f->graph, &options, &f->program));
}

static void close_fixture(fixture *f) {
    uf_context_destroy(f->context);
    memset(f, 0, sizeof *f);
}

static double in_type(double value, uf_dtype dtype) {
    return dtype == UF_F64   ? value
           : dtype == UF_F32 ? (double)(float)value
                             : (double)uf_bf16_to_f32(uf_bf16_from_f32((float)value));
}

/* Random numbers that every type has. */
static void fill(uf_tensor *tensor, const char *name, double *values) {
    test_random random = test_random_for(name, 0);
    for (int64_t i = 0; i < uf_tensor_count(tensor); ++i) {
        values[i] = in_type(test_random_real(&random, -1.0, 1.0), UF_BF16);
    }
    assert_ok(uf_tensor_upload_as(tensor, UF_F64, values, uf_tensor_count(tensor)));
}

static const uf_dtype dtypes[] = {UF_F32, UF_F64, UF_BF16};

/* Four runs, which a GPU replays from the third one on. */
static void test_dropout(void **state) {
    (void)state;
    static const double rates[] = {0.0, 0.25, 0.7, 1.0};
    for (int64_t number = 0; number < COUNT_OF(dtypes) * COUNT_OF(rates) * 2; ++number) {
        const uf_dtype dtype = dtypes[number % COUNT_OF(dtypes)];
        const double p = rates[number / COUNT_OF(dtypes) % COUNT_OF(rates)];
        const bool channels = number >= COUNT_OF(dtypes) * COUNT_OF(rates);
        fixture f = open_fixture(2, UF_SHAPE(N, C, H, W));
        const uf_value first = uf_dropout(f.graph, f.x, 0.5); /* number 0 */
        const uf_value y = channels ? uf_dropout2d(f.graph, f.x, p) : uf_dropout(f.graph, f.x, p);
        uf_output(f.graph, "y", y);
        uf_output(f.graph, "first", first);
        compile(&f, dtype, UF_TRAIN, &y);
        double x[COUNT], upstream[COUNT], got[COUNT], gradient[COUNT];
        fill(uf_program_input(f.program, "x"), "dropout", x);
        fill(uf_program_seed(f.program, 0, 0), "upstream", upstream);
        const uint64_t key = plain_key(SEED, PROGRAM_SEED, 1);
        const double scale = in_type(1.0 / (1.0 - p), dtype == UF_F64 ? UF_F64 : UF_F32);
        for (int64_t run = 0; run < 4; ++run) {
            assert_ok(uf_program_run(f.program));
            assert_ok(uf_tensor_download_as(uf_program_output(f.program, "y"), UF_F64, got, COUNT));
            assert_ok(uf_tensor_download_as(uf_program_gradient(f.program, 0, f.x), UF_F64,
                                            gradient, COUNT));
            for (int64_t i = 0; i < COUNT; ++i) {
                const bool kept = plain_kept(key, run, channels ? i / (H * W) : i, p);
                const double value = in_type(kept ? x[i] * scale : 0.0, dtype);
                const double back = in_type(kept ? upstream[i] * scale : 0.0, dtype);
                if (got[i] != value || gradient[i] != back) {
                    fail_msg("%s, p %g, run %d, element %d: %g and %g, expected %g and %g",
                             uf_dtype_name(dtype), p, (int)run, (int)i, got[i], gradient[i], value,
                             back);
                }
            }
        }
        close_fixture(&f);
    }
}

static void test_noise(void **state) {
    (void)state;
    for (int64_t number = 0; number < 2 * COUNT_OF(dtypes); ++number) {
        const uf_dtype dtype = dtypes[number / 2];
        const bool normal = number % 2 == 0;
        fixture f = open_fixture(2, UF_SHAPE(N, C, H, W));
        uf_output(f.graph, "y",
                  normal ? uf_noise_normal_like(f.graph, f.x, 2.0, 0.5)
                         : uf_noise_uniform_like(f.graph, f.x, -3.0, 1.0));
        compile(&f, dtype, UF_EVAL, NULL);
        const uint64_t key = plain_key(SEED, PROGRAM_SEED, 0);
        for (int64_t run = 0; run < 4; ++run) {
            double got[COUNT];
            assert_ok(uf_program_run(f.program));
            assert_ok(uf_tensor_download_as(uf_program_output(f.program, "y"), UF_F64, got, COUNT));
            for (int64_t i = 0; i < COUNT; ++i) {
                const float u = (float)plain_word(key, run, i) * 0x1p-32F + 0x1p-33F;
                if (!normal) {
                    assert_true(got[i] == in_type(-3.0 + 4.0 * (double)u, dtype));
                } else if (dtype == UF_F64) {
                    /* The distribution function leads back to u. */
                    const double z = (got[i] - 2.0) / 0.5;
                    assert_true(fabs(0.5 * erfc(-z / sqrt(2.0)) - (double)u) < 1e-13);
                } else {
                    assert_true(got[i] == in_type(got[i], dtype) && fabs(got[i] - 2.0) < 4.0);
                }
            }
        }
        close_fixture(&f);
    }
}

/* The same draws in every type: f64's normals, rounded. */
static void test_noise_of_types(void **state) {
    (void)state;
    double exact[COUNT], got[COUNT];
    for (int64_t t = 0; t < COUNT_OF(dtypes); ++t) {
        const uf_dtype dtype = dtypes[(t + 1) % COUNT_OF(dtypes)]; /* f64 first */
        fixture f = open_fixture(1, UF_SHAPE(COUNT));
        uf_output(f.graph, "y", uf_noise_normal_like(f.graph, f.x, 0.0, 1.0));
        compile(&f, dtype, UF_EVAL, NULL);
        assert_ok(uf_program_run(f.program));
        assert_ok(uf_tensor_download_as(uf_program_output(f.program, "y"), UF_F64, got, COUNT));
        for (int64_t i = 0; i < COUNT; ++i) {
            exact[i] = t == 0 ? got[i] : exact[i];
            assert_true(got[i] == in_type(exact[i], dtype));
        }
        close_fixture(&f);
    }
}

/* ---- what numbers have in common ---- */

enum { MANY = 1 << 16 };

/* MANY normal numbers of a program's only layer, or of its second one, after `runs` runs. */
static double *normals(uint64_t seed, uint64_t program_seed, int layer, int runs) {
    uf_context *context = seeded_context(2, seed);
    uf_graph *graph;
    uf_program *program;
    assert_ok(uf_graph_create(context, &graph));
    const uf_value x = uf_input(graph, "x", UF_SHAPE(MANY));
    uf_output(graph, "0", uf_noise_normal_like(graph, x, 0.0, 1.0));
    uf_output(graph, "1", uf_noise_normal_like(graph, x, 0.0, 1.0));
    uf_program_options options = uf_program_options_default();
    options.dtype = UF_F64;
    options.random_seed = program_seed;
    assert_ok(uf_program_compile(graph, &options, &program));
    for (int run = 0; run < runs; ++run) {
        assert_ok(uf_program_run(program));
    }
    double *values = test_allocate(MANY * sizeof *values);
    assert_ok(uf_tensor_download(uf_program_output(program, layer == 0 ? "0" : "1"), values));
    uf_context_destroy(context);
    return values;
}

static double mean_of_products(const double *a, const double *b) {
    double sum = 0.0;
    for (int64_t i = 0; i < MANY; ++i) {
        sum += a[i] * b[i];
    }
    return sum / MANY;
}

/* n independent normals have a mean of 0 and products of 0 within 4 of sqrt(1/n), and squares of 1
 * within 4 of sqrt(2/n). */
static void test_independence(void **state) {
    (void)state;
    static const struct {
        uint64_t seed, program_seed;
        int layer, runs;
    } table[] = {{0, 0, 0, 1}, {0, 0, 1, 1}, {0, 0, 0, 2}, {1, 0, 0, 1},
                 {0, 1, 0, 1}, {0, 0, 1, 2}, {1, 1, 0, 1}, {2, 0, 0, 1}};
    double *draws[COUNT_OF(table)];
    const double bound = 4.0 / sqrt((double)MANY);
    for (int64_t i = 0; i < COUNT_OF(table); ++i) {
        draws[i] = normals(table[i].seed, table[i].program_seed, table[i].layer, table[i].runs);
        double mean = 0.0;
        double neighbours = 0.0;
        for (int64_t k = 0; k < MANY; ++k) {
            mean += draws[i][k] / MANY;
            neighbours += draws[i][k] * draws[i][(k + 1) % MANY] / MANY;
        }
        assert_true(fabs(mean) < bound);
        assert_true(fabs(neighbours) < bound);
        assert_true(fabs(mean_of_products(draws[i], draws[i]) - 1.0) < sqrt(2.0) * bound);
        for (int64_t k = 0; k < i; ++k) {
            assert_true(fabs(mean_of_products(draws[i], draws[k])) < bound);
        }
    }
    for (int64_t i = 0; i < COUNT_OF(table); ++i) {
        free(draws[i]);
    }
}

/* The share that is kept, and the mean that the scale keeps. */
static void test_rate(void **state) {
    (void)state;
    static const double rates[] = {0.1, 0.5, 0.9};
    for (int64_t r = 0; r < COUNT_OF(rates); ++r) {
        fixture f = open_fixture(2, UF_SHAPE(MANY));
        uf_output(f.graph, "y", uf_dropout(f.graph, uf_full_like(f.graph, f.x, 1.0), rates[r]));
        compile(&f, UF_F64, UF_TRAIN, NULL);
        double *values = test_allocate(MANY * sizeof *values);
        double mean = 0.0;
        assert_ok(uf_program_run(f.program));
        assert_ok(uf_tensor_download(uf_program_output(f.program, "y"), values));
        for (int64_t i = 0; i < MANY; ++i) {
            mean += values[i] / MANY;
        }
        assert_true(fabs(mean - 1.0) < 4.0 * sqrt(rates[r] / (1.0 - rates[r]) / MANY));
        free(values);
        close_fixture(&f);
    }
}

/* ---- the step ---- */

static void draw_once(fixture *f, double values[COUNT]) {
    assert_ok(uf_program_run(f->program));
    assert_ok(uf_tensor_download_as(uf_program_output(f->program, "y"), UF_F64, values, COUNT));
}

static int64_t step_of(fixture *f) {
    int64_t step = -1;
    assert_ok(uf_program_random_step(f->program, &step));
    return step;
}

/* A program goes on where another stopped, and goes back. */
static void test_step(void **state) {
    (void)state;
    double runs[4][COUNT], again[COUNT];
    fixture f = open_fixture(1, UF_SHAPE(COUNT));
    uf_output(f.graph, "y", uf_noise_uniform_like(f.graph, f.x, 0.0, 1.0));
    compile(&f, UF_F32, UF_TRAIN, NULL);
    for (int64_t i = 0; i < 4; ++i) {
        assert_int_equal(step_of(&f), i);
        draw_once(&f, runs[i]);
        for (int64_t k = 0; k < i; ++k) {
            assert_memory_not_equal(runs[k], runs[i], sizeof again);
        }
    }
    assert_ok(uf_program_set_random_step(f.program, 1));
    draw_once(&f, again);
    assert_memory_equal(again, runs[1], sizeof again);
    assert_int_equal(step_of(&f), 2);
    fixture other = open_fixture(3, UF_SHAPE(COUNT));
    uf_output(other.graph, "y", uf_noise_uniform_like(other.graph, other.x, 0.0, 1.0));
    compile(&other, UF_F32, UF_TRAIN, NULL);
    assert_ok(uf_program_set_random_step(other.program, step_of(&f)));
    draw_once(&other, again);
    assert_memory_equal(again, runs[2], sizeof again);
    /* Far steps are steps too. */
    assert_ok(uf_program_set_random_step(other.program, INT64_C(1) << 40));
    draw_once(&other, again);
    assert_int_equal(step_of(&other), (INT64_C(1) << 40) + 1);
    assert_true(again[5] ==
                (double)((float)plain_word(plain_key(SEED, PROGRAM_SEED, 0), INT64_C(1) << 40, 5) *
                             0x1p-32F +
                         0x1p-33F));
    close_fixture(&other);
    close_fixture(&f);

    fixture plain = open_fixture(1, UF_SHAPE(COUNT));
    uf_output(plain.graph, "y", uf_tanh(plain.graph, plain.x));
    compile(&plain, UF_F32, UF_TRAIN, NULL);
    assert_ok(uf_program_set_random_step(plain.program, 7));
    assert_int_equal(step_of(&plain), 0);
    int64_t step;
    assert_error(uf_program_set_random_step(plain.program, -1), UF_ERROR_INVALID_ARGUMENT, "-1");
    assert_error(uf_program_set_random_step(NULL, 1), UF_ERROR_INVALID_ARGUMENT, "NULL");
    assert_error(uf_program_random_step(NULL, &step), UF_ERROR_INVALID_ARGUMENT, "NULL");
    assert_error(uf_program_random_step(plain.program, NULL), UF_ERROR_INVALID_ARGUMENT, "NULL");
    close_fixture(&plain);
}

/* Sizes beyond one unit of work of the CPU, for any number of threads. */
static void test_threads(void **state) {
    (void)state;
    double *values[3];
    const uf_shape shape = UF_SHAPE(3, 7, 41, 43);
    const int64_t count = uf_shape_count(&shape);
    for (int i = 0; i < 3; ++i) {
        fixture f = open_fixture(i + 1, shape);
        const uf_value noise = uf_noise_normal_like(f.graph, f.x, 0.0, 1.0);
        uf_output(f.graph, "y", uf_dropout2d(f.graph, uf_dropout(f.graph, noise, 0.3), 0.3));
        compile(&f, UF_F64, UF_TRAIN, NULL);
        values[i] = test_allocate((size_t)count * sizeof *values[i]);
        assert_ok(uf_program_run(f.program));
        assert_ok(uf_tensor_download(uf_program_output(f.program, "y"), values[i]));
        assert_same_bits("threads", values[i], values[0], count * (int64_t)sizeof *values[i]);
        close_fixture(&f);
    }
    for (int i = 0; i < 3; ++i) {
        free(values[i]);
    }
}

/* Layers whose images lie in a concat's result draw as they do elsewhere. An image is 256 bytes. */
static void test_gaps(void **state) {
    (void)state;
    enum { IMAGE = 64, IMAGES = 3 };
    static const uf_plan plans[] = {UF_PLAN_NO_REUSE, UF_PLAN_REUSE, UF_PLAN_POISON};
    float results[COUNT_OF(plans)][5 * IMAGES * IMAGE];
    for (int64_t i = 0; i < COUNT_OF(plans); ++i) {
        fixture f = open_fixture(2, UF_SHAPE(IMAGES, 1, 8, 8));
        const uf_value parts[3] = {uf_dropout(f.graph, uf_tanh(f.graph, f.x), 0.4),
                                   uf_dropout2d(f.graph, uf_sigmoid(f.graph, f.x), 0.4),
                                   uf_noise_normal_like(f.graph, f.x, 0.0, 1.0)};
        const uf_value y = uf_concat(f.graph, parts, 3);
        uf_output(f.graph, "y", uf_relu(f.graph, y));
        uf_pass pass = uf_pass_default();
        const uf_value loss = uf_mse_loss(f.graph, y, uf_full_like(f.graph, y, 0.5));
        pass.losses = &loss;
        pass.loss_count = 1;
        pass.inputs = &f.x;
        pass.input_count = 1;
        uf_program_options options = uf_program_options_default();
        options.mode = UF_TRAIN;
        options.plan = plans[i];
        options.passes = &pass;
        options.pass_count = 1;
        assert_ok(uf_program_compile(f.graph, &options, &f.program));
        double x[IMAGES * IMAGE];
        fill(uf_program_input(f.program, "x"), "gaps", x);
        assert_ok(uf_program_run(f.program));
        assert_ok(uf_tensor_download(uf_program_output(f.program, "y"), results[i]));
        assert_ok(uf_tensor_download(uf_program_gradient(f.program, 0, f.x),
                                     results[i] + 3 * IMAGES * IMAGE));
        if (i > 0) {
            assert_true(f.program->values[parts[0].id].pitch != 0);
            assert_true(f.program->values[parts[2].id].pitch != 0);
        }
        assert_memory_equal(results[i], results[0], 4 * IMAGES * IMAGE * sizeof(float));
        close_fixture(&f);
    }
}

/* In EVAL a dropout between a convolution and its activation is not there. */
static void test_fused(void **state) {
    (void)state;
    double results[3][2 * 4 * 6 * 6];
    for (int i = 0; i < 3; ++i) {
        fixture f = open_fixture(2, UF_SHAPE(2, 3, 6, 6));
        uf_store *store;
        uf_conv2d_options conv = uf_conv2d_options_default();
        conv.padding[0] = conv.padding[1] = 1;
        assert_ok(uf_store_create(f.context, "weights", &store));
        uf_value y = uf_conv2d(f.graph, f.x, uf_at(store, "0"), 4, &conv);
        y = uf_dropout(f.graph, uf_batch_norm2d(f.graph, y, uf_at(store, "1"), NULL), 0.5);
        uf_output(f.graph, "y", uf_relu(f.graph, y));
        assert_ok(uf_init_default(f.graph, store));
        uf_program_options options = uf_program_options_default();
        options.mode = i == 2 ? UF_TRAIN : UF_EVAL;
        options.fuse = i > 0;
        assert_ok(uf_program_compile(f.graph, &options, &f.program));
        int removed = 0;
        for (int32_t s = 0; s < f.program->step_count; ++s) {
            removed += f.program->steps[s].removed ? 1 : 0;
        }
        assert_int_equal(removed, i == 1 ? 3 : 0);
        double x[2 * 3 * 6 * 6];
        fill(uf_program_input(f.program, "x"), "fused", x);
        assert_ok(uf_program_run(f.program));
        assert_ok(uf_tensor_download_as(uf_program_output(f.program, "y"), UF_F64, results[i],
                                        COUNT_OF(results[i])));
        assert_int_equal(step_of(&f), i == 2 ? 1 : 0); /* EVAL draws nothing */
        close_fixture(&f);
    }
    assert_close("fused", compare_values(results[1], results[0], COUNT_OF(results[0]), 0.0), 1e-5);
}

static void test_errors(void **state) {
    (void)state;
    static const double bad[] = {-0.1, 1.1, (double)NAN};
    for (int64_t i = 0; i < COUNT_OF(bad) + 4; ++i) {
        fixture f = open_fixture(1, UF_SHAPE(2, 3));
        if (i < COUNT_OF(bad)) {
            (void)uf_dropout(f.graph, f.x, bad[i]);
            assert_error(uf_graph_status(f.graph), UF_ERROR_INVALID_ARGUMENT, "dropout: p is");
        } else if (i == COUNT_OF(bad)) {
            (void)uf_dropout2d(f.graph, f.x, 0.5);
            assert_error(uf_graph_status(f.graph), UF_ERROR_INVALID_ARGUMENT, "dropout2d",
                         "(2, 3)");
        } else if (i == COUNT_OF(bad) + 1) {
            (void)uf_noise_normal_like(f.graph, f.x, 0.0, -1.0);
            assert_error(uf_graph_status(f.graph), UF_ERROR_INVALID_ARGUMENT, "std is -1");
        } else if (i == COUNT_OF(bad) + 2) {
            (void)uf_noise_uniform_like(f.graph, f.x, 1.0, 0.0);
            assert_error(uf_graph_status(f.graph), UF_ERROR_INVALID_ARGUMENT, "low is 1");
        } else {
            (void)uf_noise_uniform_like(f.graph, f.x, 0.0, (double)INFINITY);
            assert_error(uf_graph_status(f.graph), UF_ERROR_INVALID_ARGUMENT, "high is inf");
        }
        close_fixture(&f);
    }
}

int main(void) {
    const int skipped = test_device_or_skip();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dropout),        cmocka_unit_test(test_noise),
        cmocka_unit_test(test_noise_of_types), cmocka_unit_test(test_independence),
        cmocka_unit_test(test_rate),           cmocka_unit_test(test_step),
        cmocka_unit_test(test_threads),        cmocka_unit_test(test_gaps),
        cmocka_unit_test(test_fused),          cmocka_unit_test(test_errors),
    };
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
