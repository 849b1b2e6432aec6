/* test_contexts.c - two contexts in two threads, each with layers of its own: what one thread tells
 * the runtime about a kernel must not change what the other one's launch of the same kernel finds.
 */
#include "support/test.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "support/compare.h"
#include "support/conv_variants.h"
#include "support/random.h"

enum {
    ROUNDS = 150,
    MOST = 1 << 19, /* elements of a layer */
    WORKSPACE = 32 << 20,
    OPERATIONS = 3,
    LAYERS = 5,
    MATHS = 2
};

typedef struct layer {
    int64_t n, c_in, c_out, h, w, kernel, stride, padding;
} layer;

/* Small, and each with tiles, and so with shared memory, of its own size. */
static const layer layers[LAYERS] = {
    {2, 64, 64, 8, 16, 3, 1, 1}, {4, 64, 32, 8, 8, 4, 2, 1},  {2, 32, 64, 8, 8, 5, 2, 2},
    {2, 128, 64, 8, 8, 2, 2, 0}, {1, 8, 16, 24, 24, 3, 3, 1},
};
static const uf_math maths[MATHS] = {UF_MATH_FP32, UF_MATH_TF32};

typedef uf_status (*operation)(uf_context *, const uf_conv2d_args *);
typedef uf_status (*workspace_of)(uf_context *, const uf_conv2d_args *, size_t *);
static const operation operations[OPERATIONS] = {uf_conv_transpose2d_forward,
                                                 uf_conv_transpose2d_backward_input,
                                                 uf_conv_transpose2d_backward_weight};
static const workspace_of workspaces[OPERATIONS] = {uf_conv_transpose2d_forward_workspace,
                                                    uf_conv_transpose2d_backward_input_workspace,
                                                    uf_conv_transpose2d_backward_weight_workspace};

typedef struct worker {
    int first;     /* the layer to begin with */
    float *memory; /* of all layers, MOST elements each: host and device find it at one address */
    void *scratch;
    int64_t calls;    /* that were made */
    uf_status status; /* of the first one that failed, with its message */
    char message[512];
} worker;

/* Views of one layer: what the operations read, then what they write. Elements of both; `from` the
 * first one that is written. */
static int64_t describe(const layer *one, float *memory, uf_conv2d_args *args, int64_t *from) {
    const int64_t extent[2] = {one->h, one->w}, kernel[2] = {one->kernel, one->kernel};
    int64_t out[2];
    *args = uf_conv2d_args_default();
    for (int axis = 0; axis < 2; ++axis) {
        args->params.stride[axis] = one->stride;
        args->params.padding[axis] = one->padding;
    }
    assert_ok(uf_conv_transpose2d_output_size(&args->params, extent, kernel, out));
    const int64_t x = one->n * one->c_in * one->h * one->w;
    const int64_t w = one->c_in * one->c_out * one->kernel * one->kernel;
    const int64_t y = one->n * one->c_out * out[0] * out[1];
    uf_view *const views[2][3] = {{&args->input, &args->weight, &args->grad_output},
                                  {&args->grad_input, &args->grad_weight, &args->output}};
    float *at = memory;
    for (int written = 0; written < 2; ++written) {
        *from = at - memory;
        *views[written][0] = uf_view_nchw(at, UF_F32, one->n, one->c_in, one->h, one->w);
        at += x;
        *views[written][1] =
            uf_view_nchw(at, UF_F32, one->c_in, one->c_out, one->kernel, one->kernel);
        at += w;
        *views[written][2] = uf_view_nchw(at, UF_F32, one->n, one->c_out, out[0], out[1]);
        at += y;
    }
    return at - memory;
}

/* No assertion fails in here: it would end the wrong thread. */
static bool called(worker *mine, uf_context *context, uf_conv2d_args *args, int o) {
    size_t size;
    uf_status status = workspaces[o](context, args, &size);
    if (status == UF_OK) {
        args->workspace = mine->scratch;
        args->workspace_size = size <= WORKSPACE ? size : 0;
        status = operations[o](context, args);
    }
    if (status == UF_ERROR_UNSUPPORTED && args->variant != NULL) {
        return true; /* not for this variant */
    }
    ++mine->calls;
    if (status != UF_OK) {
        mine->status = status;
        (void)snprintf(mine->message, sizeof mine->message, "variant %s, operation %d: %s: %s",
                       args->variant == NULL ? "chosen" : args->variant, o, uf_status_name(status),
                       uf_last_error());
    }
    return status == UF_OK;
}

/* All layers by all variants, and at last by the library's own choice, which leaves its results. */
static void *work(void *user) {
    worker *mine = user;
    const char *variants[CONV_VARIANTS];
    const int64_t count = conv_variants(CONV_ANY_DIRECTION, UF_CONV_F32, variants);
    uf_context *context = test_context(1);
    for (int round = 0; round < ROUNDS && mine->status == UF_OK; ++round) {
        for (int i = 0; i < LAYERS; ++i) {
            const int index = (mine->first + i) % LAYERS;
            uf_conv2d_args args;
            int64_t from;
            (void)describe(&layers[index], mine->memory + (int64_t)index * MOST, &args, &from);
            for (int64_t v = count - 1; v >= 0; --v) {
                for (int m = MATHS - 1; m >= 0; --m) {
                    args.variant = variants[v];
                    args.math = maths[m];
                    for (int o = 0; o < OPERATIONS; ++o) {
                        if (!called(mine, context, &args, o)) {
                            break;
                        }
                    }
                }
            }
        }
    }
    if (uf_context_synchronize(context) != UF_OK && mine->status == UF_OK) {
        mine->status = UF_ERROR_DEVICE;
        (void)snprintf(mine->message, sizeof mine->message, "%s", uf_last_error());
    }
    uf_context_destroy(context);
    return NULL;
}

static void prepare(worker *mine, int first) {
    test_random random = test_random_for("threads", 0);
    memset(mine, 0, sizeof *mine);
    mine->first = first;
    mine->memory = test_shared_allocate((size_t)LAYERS * MOST * sizeof(float));
    mine->scratch = test_shared_allocate(WORKSPACE);
    for (int64_t i = 0; i < (int64_t)LAYERS * MOST; ++i) {
        mine->memory[i] = (float)test_random_integer(&random, -1000, 1000) / 1000.0f;
    }
}

static void test_layers_in_two_threads(void **state) {
    (void)state;
    worker alone, both[2];
    pthread_t threads[2];
    prepare(&alone, 0);
    (void)work(&alone);
    assert_string_equal(alone.message, "");
    for (int i = 0; i < 2; ++i) {
        prepare(&both[i], 2 * i + 1);
    }
    for (int i = 0; i < 2; ++i) {
        assert_int_equal(pthread_create(&threads[i], NULL, work, &both[i]), 0);
    }
    for (int i = 0; i < 2; ++i) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    for (int i = 0; i < 2; ++i) {
        assert_string_equal(both[i].message, "");
        assert_int_equal(both[i].calls, alone.calls);
        for (int l = 0; l < LAYERS; ++l) {
            uf_conv2d_args args;
            int64_t from;
            const int64_t end = describe(&layers[l], alone.memory, &args, &from);
            const int64_t at = l * (int64_t)MOST + from;
            assert_true(end <= MOST);
            assert_same_bits("a layer beside another thread's", both[i].memory + at,
                             alone.memory + at, (end - from) * (int64_t)sizeof(float));
        }
        test_shared_free(both[i].memory, (size_t)LAYERS * MOST * sizeof(float));
        test_shared_free(both[i].scratch, WORKSPACE);
    }
    print_message("%lld calls in each thread\n", (long long)alone.calls);
    test_shared_free(alone.memory, (size_t)LAYERS * MOST * sizeof(float));
    test_shared_free(alone.scratch, WORKSPACE);
}

int main(void) {
    const int skipped = test_device_or_skip();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_layers_in_two_threads)};
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
