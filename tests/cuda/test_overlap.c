/* test_overlap.c - kernels start while the one before them ends, and wait for it: a training step
 * gives the bits that it gives when each kernel starts behind the other's end. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "kernels/cuda/device/backend.h"
#include "support/compare.h"
#include "training/gan.h"

enum { STEPS = 20 };

#define assert_cuda(call) assert_int_equal((call), cudaSuccess)

static uf_context *context_on(cudaStream_t stream) {
    uf_context_options options = uf_context_options_default();
    uf_context *context = NULL;
    options.device = UF_DEVICE_CUDA;
    options.cuda_stream = stream;
    options.seed = 11;
    assert_ok(uf_context_create(&options, &context));
    return context;
}

static bool *overlaps_of(uf_context *context) {
    return &((uf_cuda_state *)context->state)->overlaps;
}

/* The weights after STEPS steps. */
static unsigned char *train(uf_dtype dtype, bool capture, bool overlaps, size_t *size) {
    uf_context *const context = context_on(NULL);
    *overlaps_of(context) = *overlaps_of(context) && overlaps;
    gan one = gan_open_on(context, dtype, UF_PLAN_REUSE, capture);
    for (int64_t step = 0; step < STEPS; ++step) {
        gan_step(&one, step);
    }
    unsigned char *bytes = gan_contents(&one, size);
    gan_close(&one);
    return bytes;
}

static void test_same_bits(void **state) {
    (void)state;
    static const uf_dtype dtypes[] = {UF_F32, UF_F64};
    for (int64_t i = 0; i < COUNT_OF(dtypes); ++i) {
        size_t size, other;
        unsigned char *const expected = train(dtypes[i], false, false, &size);
        for (int capture = 0; capture < 2; ++capture) {
            unsigned char *const got = train(dtypes[i], capture != 0, true, &other);
            assert_int_equal(other, size);
            assert_same_bits(capture ? "recorded" : "step by step", got, expected, (int64_t)size);
            free(got);
        }
        free(expected);
    }
}

#if CUDART_VERSION >= 13000
#define graph_edges cudaGraphGetEdges
#elif CUDART_VERSION >= 12030
#define graph_edges cudaGraphGetEdges_v2
#endif

#ifdef graph_edges
/* The edges of a recorded step, and those of them that let a kernel start early. */
static void count_edges(bool overlaps, size_t *all, size_t *early) {
    cudaStream_t stream;
    cudaGraph_t graph;
    assert_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    uf_context *const context = context_on(stream);
    *overlaps_of(context) = *overlaps_of(context) && overlaps;
    gan one = gan_open_on(context, UF_F32, UF_PLAN_REUSE, false);
    gan_step(&one, 0); /* loads what is loaded at first use */
    assert_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    assert_ok(uf_program_run(one.program));
    assert_cuda(cudaStreamEndCapture(stream, &graph));
    assert_cuda(graph_edges(graph, NULL, NULL, NULL, all));
    cudaGraphNode_t *const from = calloc(*all, sizeof *from), *const to = calloc(*all, sizeof *to);
    cudaGraphEdgeData *const edges = calloc(*all, sizeof *edges);
    assert_true(from != NULL && to != NULL && edges != NULL);
    assert_cuda(graph_edges(graph, from, to, edges, all));
    *early = 0;
    for (size_t i = 0; i < *all; ++i) {
        *early += edges[i].type == cudaGraphDependencyTypeProgrammatic;
    }
    free(from);
    free(to);
    free(edges);
    assert_cuda(cudaGraphDestroy(graph));
    gan_close(&one);
    assert_cuda(cudaStreamDestroy(stream));
}

static void test_edges(void **state) {
    (void)state;
    size_t all, early;
    count_edges(false, &all, &early);
    assert_true(all > 20);
    assert_int_equal(early, 0);
    uf_context *const context = context_on(NULL);
    const bool overlaps = *overlaps_of(context);
    uf_context_destroy(context);
    if (!overlaps) {
        return; /* the code of this GPU does not wait */
    }
    count_edges(true, &all, &early);
    assert_true(all > 20);
    assert_true(early > all / 2);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
#ifdef graph_edges
        cmocka_unit_test(test_edges),
#endif
    };
    const int skipped = test_device_or_skip();
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
