/* test_tuning.c - measured choices of convolution kernels. The first argument says what: file (the
 * table, its text and CPU contexts: needs no GPU), gpu. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/cuda/conv/select/autotune.h"
#include "support/conv_variants.h"
#include "support/random.h"

#define DEVICE "Some GPU (CUDA)"
#define HEAD "unfurl tuning 3\ndevice " DEVICE "\nversion " UF_VERSION_STRING "\n"
#define FORMAT_2 "unfurl tuning 2\ndevice " DEVICE "\nversion " UF_VERSION_STRING "\n"
#define GEOMETRY                                                                                   \
    " n 8 c 64 h 66 w 67 k 32 p 64 q 65 r 3 s 3 stride 1 1 padding 0 0 dilation 1 1 groups 1"
#define ROW "conv_dgrad f32 tf32" GEOMETRY " variant mma_implicit_gemm tile 2 ms 0.25\n"

enum { TEXT_SIZE = 1 << 16 };

static char path[64];

static void write_text(const char *text, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static size_t read_text(char *text) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t size = fread(text, 1, TEXT_SIZE - 1, file);
    text[size] = '\0';
    assert_int_equal(fclose(file), 0);
    return size;
}

static int make_path(void **state) {
    (void)state;
    (void)snprintf(path, sizeof path, "/tmp/unfurl-tuning-XXXXXX");
    const int descriptor = mkstemp(path);
    return descriptor < 0 ? -1 : close(descriptor);
}

static int remove_path(void **state) {
    (void)state;
    return unlink(path);
}

static uf_conv_tuned random_row(test_random *random) {
    uf_conv_tuned row;
    int64_t *numbers = &row.key.n;
    memset(&row, 0, sizeof row);
    row.key.direction = test_random_integer(random, 0, 2);
    static const uf_dtype dtypes[] = {UF_F32, UF_F64, UF_BF16};
    row.key.dtype = dtypes[test_random_integer(random, 0, 2)];
    row.key.math = test_random_integer(random, 0, 2);
    for (int i = 0; i < 16; ++i) {
        numbers[i] = test_random_log(random, 1, INT64_C(1) << 40) - 1;
    }
    row.variant = (uf_cuda_conv_variant)test_random_integer(random, 0, UF_CUDA_CONV_VARIANTS - 1);
    row.tile = (int)test_random_integer(random, UF_CONV_ANY_TILE, 15);
    row.ms = (double)test_random_integer(random, 1, 99999) * 0.0625;
    return row;
}

/* What goes in comes out, from the table and through the file, and the file does not depend on the
 * order. */
static void test_round_trip(void **state) {
    enum { ROWS = 200 };
    static char first[TEXT_SIZE], second[TEXT_SIZE];
    uf_conv_tuned rows[ROWS];
    uf_conv_tuning forwards = {0}, backwards = {0}, loaded = {0};
    test_random random = test_random_for("tuning", 0);
    const char *ignored;
    (void)state;
    for (int i = 0; i < ROWS; ++i) {
        rows[i] = random_row(&random);
        assert_ok(uf_conv_tuning_set(&forwards, &rows[i]));
    }
    for (int i = ROWS; i-- > 0;) {
        assert_ok(uf_conv_tuning_set(&backwards, &rows[i]));
        assert_ok(uf_conv_tuning_set(&backwards, &rows[i])); /* replaces itself */
    }
    assert_int_equal(forwards.count, ROWS);
    assert_int_equal(backwards.count, ROWS);
    assert_ok(uf_conv_tuning_write(&forwards, DEVICE, path));
    (void)read_text(first);
    assert_ok(uf_conv_tuning_write(&backwards, DEVICE, path));
    (void)read_text(second);
    assert_string_equal(first, second);
    assert_ok(uf_conv_tuning_read(&loaded, DEVICE, path, &ignored));
    assert_null(ignored);
    assert_int_equal(loaded.count, ROWS);
    for (int i = 0; i < ROWS; ++i) {
        const uf_conv_tuned *found = uf_conv_tuning_find(&loaded, &rows[i].key);
        assert_non_null(found);
        assert_int_equal(found->variant, rows[i].variant);
        assert_int_equal(found->tile, rows[i].tile);
        uf_conv_key other = rows[i].key;
        other.groups += 1;
        assert_null(uf_conv_tuning_find(&loaded, &other));
    }
    /* A second file adds, and replaces what it repeats. */
    rows[0].variant = (uf_cuda_conv_variant)((rows[0].variant + 1) % UF_CUDA_CONV_VARIANTS);
    uf_conv_tuning_release(&forwards);
    assert_ok(uf_conv_tuning_set(&forwards, &rows[0]));
    assert_ok(uf_conv_tuning_write(&forwards, DEVICE, path));
    assert_ok(uf_conv_tuning_read(&loaded, DEVICE, path, &ignored));
    assert_int_equal(loaded.count, ROWS);
    assert_int_equal(uf_conv_tuning_find(&loaded, &rows[0].key)->variant, rows[0].variant);
    uf_conv_tuning_release(&forwards);
    uf_conv_tuning_release(&backwards);
    uf_conv_tuning_release(&loaded);
}

/* Files from before tiles had numbers: variants take the tile that they would. */
static void test_format_2(void **state) {
    static char text[TEXT_SIZE];
    static const char old[] =
        FORMAT_2 "conv_dgrad f32 tf32" GEOMETRY " variant mma_implicit_gemm ms 0.25\n";
    uf_conv_tuning tuning = {0};
    const char *ignored;
    (void)state;
    write_text(old, strlen(old));
    assert_ok(uf_conv_tuning_read(&tuning, DEVICE, path, &ignored));
    assert_null(ignored);
    assert_int_equal(tuning.count, 1);
    assert_int_equal(tuning.rows[0].tile, UF_CONV_ANY_TILE);
    assert_ok(uf_conv_tuning_write(&tuning, DEVICE, path));
    (void)read_text(text);
    assert_string_equal(text, HEAD "conv_dgrad f32 tf32" GEOMETRY
                                   " variant mma_implicit_gemm tile any ms 0.25\n");
    uf_conv_tuning_release(&tuning);
}

/* The key is the geometry, the type and the math, and nothing of memory. */
static void test_key(void **state) {
    static double somewhere[2];
    uf_conv_kernel_args args;
    (void)state;
    memset(&args, 0, sizeof args);
    args.x = uf_view_nchw(NULL, UF_F32, 8, 64, 66, 67);
    args.w = uf_view_nchw(NULL, UF_F32, 32, 64, 3, 3);
    args.y = uf_view_nchw(NULL, UF_F32, 8, 32, 64, 65);
    for (int axis = 0; axis < 2; ++axis) {
        args.stride[axis] = args.dilation[axis] = 1;
    }
    args.groups = 1;
    args.math = UF_MATH_TF32;
    write_text(HEAD ROW, strlen(HEAD ROW));
    uf_conv_tuning tuning = {0};
    const char *ignored;
    assert_ok(uf_conv_tuning_read(&tuning, DEVICE, path, &ignored));
    uf_conv_key key = uf_conv_key_of(UF_CONV_DGRAD, &args);
    assert_non_null(uf_conv_tuning_find(&tuning, &key));
    args.x.data = args.workspace = somewhere;
    args.workspace_size = SIZE_MAX;
    args.variant = "naive";
    args.x.stride[1] += 7;
    args.mode = UF_ACCUMULATE;
    key = uf_conv_key_of(UF_CONV_DGRAD, &args);
    assert_non_null(uf_conv_tuning_find(&tuning, &key));
    key = uf_conv_key_of(UF_CONV_FPROP, &args);
    assert_null(uf_conv_tuning_find(&tuning, &key));
    args.math = UF_MATH_BF16;
    key = uf_conv_key_of(UF_CONV_DGRAD, &args);
    assert_null(uf_conv_tuning_find(&tuning, &key));
    args.x.dtype = UF_F64;
    key = uf_conv_key_of(UF_CONV_DGRAD, &args);
    assert_int_equal(key.math, UF_MATH_FP32); /* f64 is f64 in every mode */
    uf_conv_tuning_release(&tuning);
}

static void test_ignored(void **state) {
    static const struct {
        const char *text, *reason;
    } others[] = {
        {"unfurl tuning 2\ndevice Another GPU (CUDA)\nversion " UF_VERSION_STRING
         "\nnot looked at\n",
         "device"},
        {"unfurl tuning 2\ndevice " DEVICE "\nversion 0.0.9\nnot looked at\n", "version"},
    };
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(others); ++i) {
        uf_conv_tuning tuning = {0};
        const char *ignored = NULL;
        write_text(others[i].text, strlen(others[i].text));
        assert_ok(uf_conv_tuning_read(&tuning, DEVICE, path, &ignored));
        assert_non_null(ignored);
        assert_non_null(strstr(ignored, others[i].reason));
        assert_int_equal(tuning.count, 0);
        uf_conv_tuning_release(&tuning);
    }
}

static void test_damage(void **state) {
    static const struct {
        const char *text, *line;
    } damaged[] = {
        {"", "line 1"},
        {"\n\n", "line 3"},
        {"unfurl tuning 4\n", "line 1"},
        {"unfurl tuning 2\n", "line 2"},
        {"unfurl tuning 2\nversion 0.2.0\n", "line 2"},
        {"unfurl tuning 2\ndevice " DEVICE "\n", "line 3"},
        {"unfurl tuning 2\ndevice " DEVICE "\nconv_dgrad\n", "line 3"},
        {HEAD "# good\n\nconv_nothing f32 tf32" GEOMETRY " variant mma_implicit_gemm tile 2 ms 1\n",
         "line 6"},
        {HEAD ROW "conv_dgrad f16 tf32" GEOMETRY " variant mma_implicit_gemm tile 2 ms 1\n",
         "line 5"},
        {HEAD "conv_dgrad f32 fp16" GEOMETRY " variant mma_implicit_gemm tile 2 ms 1\n", "line 4"},
        {HEAD "conv_dgrad f32 tf32" GEOMETRY " variant fastest tile 2 ms 1\n", "line 4"},
        {HEAD "conv_dgrad f32 tf32" GEOMETRY " variant mma_implicit_gemm tile 2\n", "line 4"},
        {HEAD "conv_dgrad f32 tf32" GEOMETRY " variant mma_implicit_gemm tile 2 ms\n", "line 4"},
        {HEAD "conv_dgrad f32 tf32" GEOMETRY " variant mma_implicit_gemm tile 2 ms nan\n",
         "line 4"},
        {HEAD "conv_dgrad f32 tf32" GEOMETRY " variant mma_implicit_gemm tile 2 ms -1\n", "line 4"},
        {HEAD "conv_dgrad f32 tf32" GEOMETRY " variant mma_implicit_gemm tile 2 ms 1 2\n",
         "line 4"},
        {HEAD "conv_dgrad f32 tf32" GEOMETRY " variant naive ms 1\n", "line 4"},
        {HEAD "conv_dgrad f32 tf32" GEOMETRY " variant naive tile ms 1\n", "line 4"},
        {HEAD "conv_dgrad f32 tf32" GEOMETRY " variant naive tile -1 ms 1\n", "line 4"},
        {HEAD "conv_dgrad f32 tf32" GEOMETRY " variant naive tile 10000 ms 1\n", "line 4"},
        {HEAD "conv_dgrad f32 tf32" GEOMETRY " variant naive tile all ms 1\n", "line 4"},
        {FORMAT_2 "conv_dgrad f32 tf32" GEOMETRY " variant naive tile 1 ms 1\n", "line 4"},
        {HEAD "conv_dgrad f32 tf32 n 8 c 64\n", "line 4"},
        {HEAD "conv_dgrad f32 tf32 n -8 c 64 h 66 w 67 k 32 p 64 q 65 r 3 s 3 stride 1 1 padding 0 "
              "0 dilation 1 1 "
              "groups 1 variant mma_implicit_gemm tile 2 ms 1\n",
         "line 4"},
        {HEAD "conv_dgrad f32 tf32 n 99999999999999999999 c 64 h 66 w 67 k 32 p 64 q 65 r 3 s 3 "
              "stride 1 1 padding "
              "0 0 dilation 1 1 groups 1 variant mma_implicit_gemm tile 2 ms 1\n",
         "line 4"},
        {HEAD ROW ROW, "line 5"},
    };
    (void)state;
    test_random random = test_random_for("tuning", 1);
    const uf_conv_tuned before = random_row(&random);
    for (int64_t i = 0; i < COUNT_OF(damaged); ++i) {
        uf_conv_tuning tuning = {0};
        const char *ignored;
        assert_ok(uf_conv_tuning_set(&tuning, &before));
        write_text(damaged[i].text, strlen(damaged[i].text));
        assert_error(uf_conv_tuning_read(&tuning, DEVICE, path, &ignored), UF_ERROR_FORMAT, path,
                     damaged[i].line);
        assert_int_equal(tuning.count, 1);
        uf_conv_tuning_release(&tuning);
    }
}

/* Any file whatever gives a table, is ignored, or is refused with a line. */
static void test_broken_bytes(void **state) {
    static const char good[] = HEAD ROW "# more\r\n\n" ROW;
    const size_t size = strlen(HEAD ROW "# more\r\n\n");
    char text[sizeof good];
    test_random random = test_random_for("tuning", 2);
    int64_t fine = 0, refused = 0;
    (void)state;
    for (int64_t i = 0; i < 3000; ++i) {
        uf_conv_tuning tuning = {0};
        const char *ignored;
        size_t length = size;
        memcpy(text, good, sizeof text);
        if (i < (int64_t)size) {
            length = (size_t)i; /* cut anywhere */
        } else {
            for (int64_t broken = test_random_integer(&random, 1, 4); broken > 0; --broken) {
                text[test_random_integer(&random, 0, (int64_t)size - 1)] =
                    (char)test_random_integer(&random, 0, 255);
            }
        }
        write_text(text, length);
        const uf_status status = uf_conv_tuning_read(&tuning, DEVICE, path, &ignored);
        fine += status == UF_OK ? 1 : 0;
        if (status != UF_OK) {
            assert_int_equal(status, UF_ERROR_FORMAT);
            assert_non_null(strstr(uf_last_error(), ", line "));
            assert_int_equal(tuning.count, 0);
            ++refused;
        }
        uf_conv_tuning_release(&tuning);
    }
    print_message("%lld files were read or ignored, %lld refused\n", (long long)fine,
                  (long long)refused);
    assert_true(fine > 0 && refused > 1000);
    /* A line without an end, longer than any. */
    char *line = test_allocate(1 << 20);
    memset(line, '7', 1 << 20);
    memcpy(line, HEAD, strlen(HEAD));
    write_text(line, 1 << 20);
    uf_conv_tuning tuning = {0};
    const char *ignored;
    assert_error(uf_conv_tuning_read(&tuning, DEVICE, path, &ignored), UF_ERROR_FORMAT, "line 4");
    free(line);
}

static void test_used(void **state) {
    uf_conv_tuning tuning = {0};
    const char *ignored;
    (void)state;
    write_text(HEAD ROW, strlen(HEAD ROW));
    assert_error(uf_conv_tuning_read(&tuning, DEVICE, "/nowhere/at/all", &ignored),
                 UF_ERROR_NOT_FOUND, "/nowhere");
    tuning.used = true;
    assert_error(uf_conv_tuning_read(&tuning, DEVICE, path, &ignored), UF_ERROR_STATE, "before");
    assert_error(uf_conv_tuning_write(&tuning, DEVICE, "/nowhere/at/all"), UF_ERROR_NOT_FOUND,
                 "/nowhere");
}

/* The choice, every other variant once, and tiles of the best ones: none twice. */
static void test_candidates(void **state) {
    test_random random = test_random_for("candidates", 0);
    const uf_gpu gpu = uf_gpu_h200();
    int64_t tiles = 0, most = 0;
    (void)state;
    for (int64_t i = 0; i < 300; ++i) {
        uf_conv_candidate list[UF_CONV_CANDIDATES];
        const uf_conv_key key = random_row(&random).key;
        const int64_t kernel = 1 + key.r % 5, pixels = 1 + key.p % 40, large = pixels + kernel - 1;
        const int64_t n = 1 + key.n % 8, c = 1 + key.c % 200, k = 1 + key.k % 200;
        uf_conv_kernel_args args;
        memset(&args, 0, sizeof args);
        args.x = uf_view_nchw(NULL, UF_F32, n, c, large, large);
        args.w = uf_view_nchw(NULL, UF_F32, k, c, kernel, kernel);
        args.y = uf_view_nchw(NULL, UF_F32, n, k, pixels, pixels);
        args.stride[0] = args.stride[1] = args.dilation[0] = args.dilation[1] = args.groups = 1;
        args.math = (uf_math)(i / 3 % 3);
        const uf_conv_problem problem = uf_conv_problem_of((uf_conv_direction)(i % 3), &args, &gpu);
        uf_conv_plan plan[2];
        const int count = uf_conv_candidates(&problem, list);
        int own = 0;
        assert_in_range(count, 1, UF_CONV_CANDIDATES);
        assert_ok(uf_conv_choose(&problem, plan));
        assert_int_equal(list[0].variant, plan->variant);
        assert_int_equal(list[0].tile, plan->tile);
        for (int v = 0; v < UF_CUDA_CONV_VARIANTS; ++v) {
            own += uf_conv_plan_variant(&problem, (uf_cuda_conv_variant)v, plan);
        }
        for (int at = 0; at < count; ++at) {
            uf_conv_problem tiled = problem;
            tiled.tile = list[at].tile;
            assert_true(uf_conv_plan_variant(&tiled, list[at].variant, plan));
            assert_true(plan->workspace == list[at].workspace);
            assert_true(plan->microseconds == list[at].microseconds);
            for (int other = 0; other < at; ++other) {
                assert_true(list[other].variant != list[at].variant ||
                            (at >= own && list[other].tile != list[at].tile));
            }
        }
        tiles += count - own;
        most += count - own == UF_CONV_MORE_TILES;
    }
    print_message("%lld tiles for 300 convolutions, %lld with as many as there may be\n",
                  (long long)tiles, (long long)most);
    assert_true(tiles > 300 && most > 10);
}

/* A layer's arguments without data. */
static uf_conv2d_args layer(uf_conv2d_operation operation, int64_t channels_in,
                            int64_t channels_out, int64_t pixels, int64_t kernel, int64_t stride,
                            int64_t padding) {
    uf_conv2d_args args = uf_conv2d_args_default();
    const bool transposed = operation < UF_OPERATION_CONV2D_FORWARD;
    const int of = (int)operation % UF_OPERATION_CONV2D_FORWARD;
    const int64_t size[2] = {pixels, pixels}, kernels[2] = {kernel, kernel};
    int64_t out[2];
    for (int axis = 0; axis < 2; ++axis) {
        args.params.stride[axis] = stride;
        args.params.padding[axis] = padding;
    }
    assert_ok(transposed ? uf_conv_transpose2d_output_size(&args.params, size, kernels, out)
                         : uf_conv2d_output_size(&args.params, size, kernels, out));
    const uf_view input = uf_view_nchw(NULL, UF_F32, 2, channels_in, pixels, pixels);
    const uf_view output = uf_view_nchw(NULL, UF_F32, 2, channels_out, out[0], out[1]);
    const uf_view weight =
        transposed ? uf_view_nchw(NULL, UF_F32, channels_in, channels_out, kernel, kernel)
                   : uf_view_nchw(NULL, UF_F32, channels_out, channels_in, kernel, kernel);
    *(of == 1 ? &args.grad_input : &args.input) = input;
    *(of == 2 ? &args.grad_weight : &args.weight) = weight;
    *(of == 0 ? &args.output : &args.grad_output) = output;
    return args;
}

/* Forward with a variant, or the choice of the context; the bits of the result. */
static void forward(uf_context *context, const char *variant, int64_t channels, float *result) {
    uf_conv2d_args args =
        layer(UF_OPERATION_CONV_TRANSPOSE2D_FORWARD, channels, channels, 9, 4, 2, 1);
    uf_view *views[3] = {&args.input, &args.weight, &args.output};
    uf_tensor *tensors[4] = {NULL, NULL, NULL, NULL};
    test_random random = test_random_for("tuned", channels);
    args.variant = variant;
    for (int i = 0; i < 3; ++i) {
        assert_ok(
            uf_tensor_create(context, UF_F32, uf_shape_from(views[i]->extent, 4), &tensors[i]));
        views[i]->data = uf_tensor_data(tensors[i]);
        const int64_t count = uf_tensor_count(tensors[i]);
        double *values = test_allocate((size_t)count * sizeof *values);
        test_random_fill(&random, values, count, 1.0);
        assert_ok(uf_tensor_upload_as(tensors[i], UF_F64, values, count));
        free(values);
    }
    assert_ok(uf_conv_transpose2d_forward_workspace(context, &args, &args.workspace_size));
    const int64_t words = (int64_t)(args.workspace_size / sizeof(float)) + 1;
    assert_ok(uf_tensor_create(context, UF_F32, uf_shape_from(&words, 1), &tensors[3]));
    args.workspace = uf_tensor_data(tensors[3]);
    assert_ok(uf_conv_transpose2d_forward(context, &args));
    assert_ok(uf_tensor_download(tensors[2], result));
    for (int i = 0; i < 4; ++i) {
        uf_tensor_destroy(tensors[i]);
    }
}

static size_t forward_bytes(int64_t channels) {
    return (size_t)(2 * channels * 18 * 18) * sizeof(float);
}

/* Two contexts with one file choose the same, and what the file says. */
static void test_tune(void **state) {
    static char first[TEXT_SIZE], second[TEXT_SIZE];
    static const int64_t channels[] = {3, 24, 64};
    char variants[COUNT_OF(channels)][64];
    uf_context *context = test_context(2);
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(channels); ++i) {
        for (int operation = 0; operation < UF_OPERATION_COUNT; ++operation) {
            const uf_conv2d_operation which = (uf_conv2d_operation)operation;
            uf_tuning_result result;
            uf_conv2d_args args = layer(which, channels[i], channels[i], 9, 4, 2, 1);
            assert_ok(uf_tuning_conv2d(context, which, &args, &result));
            print_message("operation %d, %lld channels: %s:%d %.4f ms, chosen untuned: %s:%d %.4f "
                          "ms, %d candidates\n",
                          operation, (long long)channels[i], result.variant, (int)result.tile,
                          result.ms, result.untuned, (int)result.untuned_tile, result.untuned_ms,
                          (int)result.candidates);
            assert_true(result.ms > 0.0 && result.ms <= result.untuned_ms &&
                        result.candidates >= 1);
            if (which == UF_OPERATION_CONV_TRANSPOSE2D_FORWARD) {
                (void)snprintf(variants[i], sizeof variants[i], "%s:%d", result.variant,
                               (int)result.tile);
            }
            args.variant = "naive";
            assert_error(uf_tuning_conv2d(context, which, &args, NULL), UF_ERROR_INVALID_ARGUMENT,
                         "naive");
        }
    }
    const int64_t count = uf_tuning_count(context);
    assert_int_equal(count, UF_OPERATION_COUNT * COUNT_OF(channels));
    assert_ok(uf_tuning_save(context, path));
    (void)read_text(first);
    uf_context *other = test_context(2);
    assert_ok(uf_tuning_load(other, path));
    assert_int_equal(uf_tuning_count(other), count);
    assert_ok(uf_tuning_save(other, path));
    (void)read_text(second);
    assert_string_equal(first, second);
    for (int64_t i = 0; i < COUNT_OF(channels); ++i) {
        const size_t bytes = forward_bytes(channels[i]);
        float *results[3];
        for (int r = 0; r < 3; ++r) {
            results[r] = test_allocate(bytes);
        }
        forward(context, NULL, channels[i], results[0]);
        forward(other, NULL, channels[i], results[1]);
        forward(other, variants[i], channels[i], results[2]);
        assert_memory_equal(results[0], results[1], bytes);
        assert_memory_equal(results[0], results[2], bytes);
        for (int r = 0; r < 3; ++r) {
            free(results[r]);
        }
    }
    /* Memory is planned for what was chosen: no changes any more. */
    uf_conv2d_args args = layer(UF_OPERATION_CONV_TRANSPOSE2D_FORWARD, 5, 5, 9, 4, 2, 1);
    assert_error(uf_tuning_conv2d(context, UF_OPERATION_CONV_TRANSPOSE2D_FORWARD, &args, NULL),
                 UF_ERROR_STATE, "chosen");
    assert_error(uf_tuning_load(context, path), UF_ERROR_STATE, "chosen");
    assert_ok(uf_tuning_save(context, path));
    uf_context_destroy(other);
    uf_context_destroy(context);
}

/* bf16 tensors are tuned as themselves: their rows say so, and are found again by them alone. */
static void test_bf16(void **state) {
    static char text[TEXT_SIZE];
    uf_context *context = test_context(2);
    (void)state;
    for (int operation = 0; operation < UF_OPERATION_COUNT; ++operation) {
        const uf_conv2d_operation which = (uf_conv2d_operation)operation;
        uf_tuning_result result;
        uf_conv2d_args args = layer(which, 24, 24, 9, 4, 2, 1);
        uf_view *const views[] = {&args.input,       &args.weight,     &args.output,
                                  &args.grad_output, &args.grad_input, &args.grad_weight};
        for (int64_t i = 0; i < COUNT_OF(views); ++i) {
            if (uf_view_count(views[i]) > 0) {
                *views[i] = uf_view_nchw(NULL, UF_BF16, views[i]->extent[0], views[i]->extent[1],
                                         views[i]->extent[2], views[i]->extent[3]);
            }
        }
        args.math = UF_MATH_BF16;
        assert_ok(uf_tuning_conv2d(context, which, &args, &result));
        assert_true(result.ms > 0.0 && result.candidates >= 2);
    }
    assert_int_equal(uf_tuning_count(context), UF_OPERATION_COUNT);
    assert_ok(uf_tuning_save(context, path));
    (void)read_text(text);
    int rows = 0;
    for (const char *at = text; (at = strstr(at, " bf16 bf16 n ")) != NULL; ++at) {
        ++rows;
    }
    assert_int_equal(rows, UF_OPERATION_COUNT);
    uf_context_destroy(context);
}

/* A file beats the library's choice, and a forced variant beats the file. */
static void test_precedence(void **state) {
    static char text[TEXT_SIZE];
    const size_t bytes = forward_bytes(64);
    float *results[4];
    uf_context *plain = test_context(2), *told = test_context(2);
    (void)state;
    for (int r = 0; r < 4; ++r) {
        results[r] = test_allocate(bytes);
    }
    (void)snprintf(text, sizeof text,
                   "unfurl tuning 2\ndevice %s\nversion %s\nconv_dgrad f32 fp32 n 2 c 64 h 18 w 18 "
                   "k 64 p 9 q 9 r 4 s 4 "
                   "stride 2 2 padding 1 1 dilation 1 1 groups 1 variant naive ms 1\n",
                   uf_context_description(told), uf_version());
    write_text(text, strlen(text));
    assert_ok(uf_tuning_load(told, path));
    assert_int_equal(uf_tuning_count(told), 1);
    forward(plain, NULL, 64, results[0]);
    forward(plain, "naive", 64, results[1]);
    forward(told, NULL, 64, results[2]);
    forward(told, "mma_implicit_gemm", 64, results[3]);
    assert_memory_not_equal(results[0], results[1], bytes);
    assert_memory_equal(results[1], results[2], bytes);
    assert_memory_not_equal(results[2], results[3], bytes);
    for (int r = 0; r < 4; ++r) {
        free(results[r]);
    }
    uf_context_destroy(plain);
    uf_context_destroy(told);
}

/* A tile that there is not is not used, with a sentence: the variant takes its own. */
static void remember(void *user, uf_log_level level, const char *line) {
    (void)level;
    (void)snprintf(user, TEXT_SIZE, "%s", line);
}

static void test_unknown_tile(void **state) {
    static char text[TEXT_SIZE], said[TEXT_SIZE];
    const size_t bytes = forward_bytes(64);
    float *const plain = test_allocate(bytes), *const got = test_allocate(bytes);
    uf_context *context = NULL;
    uf_context_options options = uf_context_options_default();
    (void)state;
    options.device = UF_DEVICE_CUDA;
    options.log = remember;
    options.log_user = said;
    assert_ok(uf_context_create(&options, &context));
    (void)snprintf(text, sizeof text,
                   "unfurl tuning 3\ndevice %s\nversion %s\nconv_dgrad f32 fp32 n 2 c 64 h 18 w 18 "
                   "k 64 p 9 q 9 r 4 s 4 "
                   "stride 2 2 padding 1 1 dilation 1 1 groups 1 variant naive tile 7 ms 1\n",
                   uf_context_description(context), uf_version());
    write_text(text, strlen(text));
    assert_ok(uf_tuning_load(context, path));
    forward(context, NULL, 64, got);
    assert_non_null(strstr(said, "tile 7 of a tuned convolution is not used"));
    forward(context, "naive", 64, plain);
    assert_memory_equal(plain, got, bytes);
    free(plain);
    free(got);
    uf_context_destroy(context);
}

/* What `space_to_depth` makes of a layer is another convolution, and a file may know that one:
 * scratch was asked for without, so it must not count. Nor may timing `space_to_depth` be a choice
 * of the context. */
static void test_inner(void **state) {
    static char text[TEXT_SIZE];
    const size_t bytes = forward_bytes(64);
    float *const plain = test_allocate(bytes), *const got = test_allocate(bytes);
    (void)state;
    uf_context *context = test_context(2);
    if (!conv_variant_runs("space_to_depth", conv_capability(context))) {
        uf_context_destroy(context);
        free(plain);
        free(got);
        skip();
    }
    forward(context, "space_to_depth", 64, plain);
    uf_conv2d_args args = layer(UF_OPERATION_CONV_TRANSPOSE2D_FORWARD, 64, 64, 9, 4, 2, 1);
    assert_ok(uf_tuning_conv2d(context, UF_OPERATION_CONV_TRANSPOSE2D_FORWARD, &args, NULL));
    assert_ok(uf_tuning_conv2d(context, UF_OPERATION_CONV_TRANSPOSE2D_FORWARD, &args, NULL));
    for (int v = 0; v < UF_CUDA_CONV_VARIANTS; ++v) {
        uf_context *told = test_context(2);
        (void)snprintf(
            text, sizeof text,
            "unfurl tuning 2\ndevice %s\nversion %s\nconv_dgrad f32 fp32 n 2 c 256 h 10 w "
            "10 k 64 p 9 q 9 r 2 s 2 stride 1 1 padding 0 0 dilation 1 1 groups 1 variant "
            "%s ms 1\n",
            uf_context_description(told), uf_version(),
            uf_cuda_conv_variant_name((uf_cuda_conv_variant)v));
        write_text(text, strlen(text));
        assert_ok(uf_tuning_load(told, path));
        assert_int_equal(uf_tuning_count(told), 1);
        forward(told, "space_to_depth", 64, got);
        assert_memory_equal(plain, got, bytes);
        uf_context_destroy(told);
    }
    free(plain);
    free(got);
    uf_context_destroy(context);
}

/* Device memory through the caller's allocator. */
typedef struct counter {
    uf_context *owner;
    int64_t allocated, released;
    bool refuse;
} counter;

static void *count_allocate(void *user, size_t size, size_t alignment, uf_memory_kind kind,
                            void *stream) {
    counter *count = user;
    (void)stream;
    if (count->refuse && count->allocated == 2) {
        return NULL;
    }
    ++count->allocated;
    /* Pinned memory is read and written by the GPU as well. */
    (void)kind;
    (void)alignment;
    return test_shared_allocate(size);
}

static void count_release(void *user, void *pointer, size_t size, uf_memory_kind kind,
                          void *stream) {
    counter *count = user;
    (void)kind;
    (void)stream;
    ++count->released;
    test_shared_free(pointer, size);
}

static void test_memory(void **state) {
    (void)state;
    for (int refuse = 0; refuse < 2; ++refuse) {
        counter count = {.refuse = refuse == 1};
        uf_context *context = NULL;
        uf_context_options options = uf_context_options_default();
        options.device = UF_DEVICE_CUDA;
        options.allocator = (uf_allocator){count_allocate, count_release, &count};
        assert_ok(uf_context_create(&options, &context));
        uf_conv2d_args args = layer(UF_OPERATION_CONV2D_BACKWARD_WEIGHT, 24, 24, 9, 3, 1, 1);
        const uf_status status =
            uf_tuning_conv2d(context, UF_OPERATION_CONV2D_BACKWARD_WEIGHT, &args, NULL);
        assert_int_equal(status, refuse == 1 ? UF_ERROR_OUT_OF_MEMORY : UF_OK);
        assert_int_equal(uf_tuning_count(context), 1 - refuse);
        assert_true(count.allocated >= 2);
        assert_int_equal(count.allocated, count.released);
        uf_context_destroy(context);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest files[] = {
        cmocka_unit_test(test_round_trip),   cmocka_unit_test(test_key),
        cmocka_unit_test(test_ignored),      cmocka_unit_test(test_damage),
        cmocka_unit_test(test_broken_bytes), cmocka_unit_test(test_used),
        cmocka_unit_test(test_format_2),     cmocka_unit_test(test_candidates),
    };
    const struct CMUnitTest gpu[] = {
        cmocka_unit_test(test_tune),       cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_precedence), cmocka_unit_test(test_inner),
        cmocka_unit_test(test_memory),     cmocka_unit_test(test_unknown_tile),
    };
    if (argc == 2 && strcmp(argv[1], "file") == 0) {
        return cmocka_run_group_tests(files, make_path, remove_path);
    }
    const int skipped = test_device_or_skip();
    if (argc == 2 && strcmp(argv[1], "gpu") == 0) {
        return skipped != 0 ? skipped : cmocka_run_group_tests(gpu, make_path, remove_path);
    }
    fprintf(stderr, "usage: test_tuning file|gpu\n");
    return 2;
}
