/* test_both_bits.c - kernels that promise the same bits on the CPU and on a GPU: dropout, noise,
 * embedding and its gradient, in every type. Memory has guard bands, what is written begins as NaN,
 * and views begin at every place within 16 bytes. */
#include "support/test.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "support/random.h"

enum { GUARD = 64 }; /* bytes before and behind a buffer's elements, which are never written */

static const unsigned char canary = 0xa5;

/* `count` elements, `skipped` elements behind the first guard. */
typedef struct buffer {
    uf_dtype dtype;
    int64_t count, skipped;
    size_t size;
    void *memory[2]; /* of each device */
} buffer;

static uf_context *contexts[2];
static test_random numbers;

static buffer make(uf_dtype dtype, int64_t count, int64_t skipped, const double *values) {
    const size_t element = uf_dtype_size(dtype);
    buffer made = {.dtype = dtype, .count = count, .skipped = skipped};
    made.size = (size_t)(count + skipped) * element + 2 * GUARD;
    unsigned char *host = test_allocate(made.size);
    memset(host, canary, made.size);
    for (int64_t i = 0; i < count; ++i) {
        const double value = values != NULL ? values[i] : test_random_real(&numbers, -1.0, 1.0);
        uf_convert(host + GUARD + (size_t)(skipped + i) * element, dtype, &value, UF_F64, 1);
    }
    for (int d = 0; d < 2; ++d) {
        assert_ok(uf_context_allocate(contexts[d], made.size, UF_MEMORY_DEVICE, &made.memory[d]));
        assert_ok(contexts[d]->device->upload(contexts[d], made.memory[d], host, made.size));
    }
    free(host);
    return made;
}

/* A call overwrites these. */
static buffer make_result(uf_dtype dtype, int64_t count, int64_t skipped) {
    double *nan_values = test_allocate((size_t)count * sizeof *nan_values);
    for (int64_t i = 0; i < count; ++i) {
        nan_values[i] = (double)NAN;
    }
    const buffer made = make(dtype, count, skipped, nan_values);
    free(nan_values);
    return made;
}

static uf_view view_of(const buffer *of, int device, uf_shape shape) {
    char *data =
        (char *)of->memory[device] + GUARD + (size_t)of->skipped * uf_dtype_size(of->dtype);
    return uf_view_of(data, of->dtype, &shape);
}

static bool is_nan(const unsigned char *element, uf_dtype dtype) {
    double value;
    uf_convert(&value, UF_F64, element, dtype, 1);
    return isnan(value);
}

static void drop(buffer *of) {
    for (int d = 0; d < 2; ++d) {
        uf_context_release(contexts[d], of->memory[d], of->size, UF_MEMORY_DEVICE);
    }
}

/* All bytes, guards included; NaN has several. */
static void compare(const char *label, buffer *of) {
    const size_t element = uf_dtype_size(of->dtype);
    const size_t first = GUARD + (size_t)of->skipped * element;
    unsigned char *host[2];
    for (int d = 0; d < 2; ++d) {
        host[d] = test_allocate(of->size);
        assert_ok(contexts[d]->device->download(contexts[d], host[d], of->memory[d], of->size));
        for (size_t byte = 0; byte < of->size; ++byte) {
            if ((byte < first || byte >= of->size - GUARD) && host[d][byte] != canary) {
                fail_msg("%s, %s: a write outside on device %d", label, uf_dtype_name(of->dtype),
                         d);
            }
        }
    }
    for (int64_t i = 0; i < of->count; ++i) {
        const size_t at = first + (size_t)i * element;
        if (memcmp(host[0] + at, host[1] + at, element) != 0 &&
            !(is_nan(host[0] + at, of->dtype) && is_nan(host[1] + at, of->dtype))) {
            fail_msg("%s, %s: element %" PRId64 " has other bits", label, uf_dtype_name(of->dtype),
                     i);
        }
    }
    free(host[0]);
    free(host[1]);
    drop(of);
}

static const uf_dtype dtypes[] = {UF_F32, UF_F64, UF_BF16};
static const int64_t counts[] = {1, 3, 4, 1021, 8192, 262144 + 77};

static void test_dropout(void **state) {
    (void)state;
    static const double step_value[] = {5.0};
    for (int64_t number = 0; number < 2 * COUNT_OF(dtypes) * COUNT_OF(counts); ++number) {
        const uf_dtype dtype = dtypes[number % COUNT_OF(dtypes)];
        const int64_t count = counts[number / 2 / COUNT_OF(dtypes)];
        const bool adds = number / COUNT_OF(dtypes) % 2 == 1;
        const int64_t skipped = number % 5;
        buffer step = make(UF_I64, 1, 0, step_value);
        buffer from = make(dtype, count, skipped, NULL);
        buffer to =
            adds ? make(dtype, count, number % 3, NULL) : make_result(dtype, count, skipped);
        for (int d = 0; d < 2; ++d) {
            const uf_shape shape = UF_SHAPE(count);
            const uf_dropout_kernel_args args = {
                .draw = {UINT64_C(0x123456789abcdef0) + (uint64_t)number,
                         view_of(&step, d, UF_SHAPE(1)).data},
                .p = 0.3,
                .plane = number % 4 == 0 ? 1 : 7,
                .input = view_of(&from, d, shape),
                .output = view_of(&to, d, shape),
                .mode = adds ? UF_ACCUMULATE : UF_OVERWRITE,
            };
            assert_ok(uf_dropout_check(&args));
            assert_ok(contexts[d]->kernels->dropout(contexts[d], &args));
        }
        compare("dropout", &to);
        compare("dropout's input", &from);
        drop(&step);
    }
}

static void test_noise(void **state) {
    (void)state;
    static const double step_value[] = {0x1p40};
    for (int64_t number = 0; number < 2 * COUNT_OF(dtypes) * COUNT_OF(counts); ++number) {
        const uf_dtype dtype = dtypes[number % COUNT_OF(dtypes)];
        const int64_t count = counts[number / 2 / COUNT_OF(dtypes)];
        buffer step = make(UF_I64, 1, 0, step_value);
        buffer to = make_result(dtype, count, number % 5);
        for (int d = 0; d < 2; ++d) {
            int64_t *const at = view_of(&step, d, UF_SHAPE(1)).data;
            const uf_noise_kernel_args args = {
                .draw = {UINT64_C(0xfedcba9876543210) + (uint64_t)number, at},
                .kind = number / COUNT_OF(dtypes) % 2 == 0 ? UF_RANDOM_NORMAL : UF_RANDOM_UNIFORM,
                .a = 0.7,
                .b = 1.9,
                .output = view_of(&to, d, UF_SHAPE(count)),
            };
            const uf_random_advance_kernel_args advance = {.step = at};
            assert_ok(uf_noise_check(&args));
            assert_ok(contexts[d]->kernels->noise(contexts[d], &args));
            assert_ok(contexts[d]->kernels->random_advance(contexts[d], &advance));
        }
        compare("noise", &to);
        compare("the step", &step);
    }
}

static void test_embedding(void **state) {
    (void)state;
    static const struct {
        int64_t indices, count, width;
    } table[] = {{1, 1, 1}, {7, 3, 8}, {300, 70, 65}, {600, 9, 129}, {257, 1000, 16}, {33, 8, 256}};
    for (int64_t number = 0; number < 2 * COUNT_OF(dtypes) * COUNT_OF(table); ++number) {
        const uf_dtype dtype = dtypes[number % COUNT_OF(dtypes)];
        const uf_dtype computed = dtype == UF_F64 ? UF_F64 : UF_F32;
        const int64_t row = number / 2 / COUNT_OF(dtypes), skipped = number % 5;
        const int64_t n = table[row].indices, count = table[row].count, width = table[row].width;
        const bool adds = number / COUNT_OF(dtypes) % 2 == 1;
        double *values = test_allocate((size_t)n * sizeof *values);
        for (int64_t i = 0; i < n; ++i) { /* a few are illegal, many are the same */
            values[i] =
                i % 3 == 0 ? (double)(count / 2) : (double)test_random_integer(&numbers, -1, count);
        }
        buffer indices = make(UF_I64, n, 0, values);
        buffer weight = make(computed, count * width, skipped, NULL);
        buffer output = make_result(dtype, n * width, number % 3);
        buffer upstream = make(dtype, n * width, number % 4, NULL);
        buffer gradient = adds ? make(computed, count * width, skipped, NULL)
                               : make_result(computed, count * width, skipped);
        for (int d = 0; d < 2; ++d) {
            const uf_embedding_kernel_args args = {
                .indices = view_of(&indices, d, UF_SHAPE(n)),
                .count = count,
                .width = width,
                .weight = view_of(&weight, d, UF_SHAPE(count, width)),
                .output = view_of(&output, d, UF_SHAPE(n, width)),
                .grad_output = view_of(&upstream, d, UF_SHAPE(n, width)),
                .grad_weight = view_of(&gradient, d, UF_SHAPE(count, width)),
                .mode = adds ? UF_ACCUMULATE : UF_OVERWRITE,
            };
            assert_ok(uf_embedding_check(&args, false));
            assert_ok(uf_embedding_check(&args, true));
            assert_ok(contexts[d]->kernels->embedding_forward(contexts[d], &args));
            assert_ok(contexts[d]->kernels->embedding_backward(contexts[d], &args));
        }
        compare("embedding's output", &output);
        compare("embedding's gradient", &gradient);
        drop(&indices);
        drop(&weight);
        drop(&upstream);
        free(values);
    }
}

static uf_context *context_of(uf_device device) {
    uf_context *context = NULL;
    uf_context_options options = uf_context_options_default();
    options.device = device;
    options.threads = 1;
    assert_ok(uf_context_create(&options, &context));
    return context;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_noise),
        cmocka_unit_test(test_embedding),
    };
    const int skipped = test_device_or_skip();
    if (skipped != 0) {
        return skipped;
    }
    contexts[0] = context_of(UF_DEVICE_CPU);
    contexts[1] = context_of(UF_DEVICE_CUDA);
    numbers = test_random_for("both bits", 0);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    uf_context_destroy(contexts[0]);
    uf_context_destroy(contexts[1]);
    return failed;
}
