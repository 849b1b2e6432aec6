/* cudnn_absent.c - linked where CMake found no cuDNN. */
#include "bench.h"

bench_cudnn *bench_cudnn_create(uf_context *context) {
    (void)context;
    return NULL;
}

void bench_cudnn_destroy(bench_cudnn *cudnn) {
    (void)cudnn;
}

const char *bench_cudnn_version(void) {
    return "none";
}

bench_rival bench_cudnn_time(bench_cudnn *cudnn, const bench_shape *shape, bench_op op,
                             uf_dtype dtype, uf_math math, bool channels_last,
                             const bench_samples *samples, double budget_ms) {
    const bench_rival none = {-1, "-", 0};
    (void)cudnn;
    (void)shape;
    (void)op;
    (void)dtype;
    (void)math;
    (void)channels_last;
    (void)samples;
    (void)budget_ms;
    return none;
}
