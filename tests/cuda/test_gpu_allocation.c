/* test_gpu_allocation.c - a training step asks the GPU for no memory. The linker sends every
 * allocation of the library through the functions below (--wrap). */
#include "support/test.h"

#include <stdatomic.h>

#include <cuda_runtime_api.h>

#include "training/gan.h"

static atomic_long calls;

/* WRAP(name, (parameters), (arguments)): count, then do it. */
#define WRAP(name, parameters, arguments)                                                          \
    cudaError_t __real_##name parameters;                                                          \
    cudaError_t __wrap_##name parameters;                                                          \
    cudaError_t __wrap_##name parameters {                                                         \
        atomic_fetch_add(&calls, 1);                                                               \
        return __real_##name arguments;                                                            \
    }

WRAP(cudaMalloc, (void **pointer, size_t size), (pointer, size))
WRAP(cudaHostAlloc, (void **pointer, size_t size, unsigned flags), (pointer, size, flags))
WRAP(cudaMallocHost, (void **pointer, size_t size), (pointer, size))
WRAP(cudaMallocAsync, (void **pointer, size_t size, cudaStream_t stream), (pointer, size, stream))
WRAP(cudaMallocManaged, (void **pointer, size_t size, unsigned flags), (pointer, size, flags))

static void test_steps_allocate_nothing(void **state) {
    (void)state;
    atomic_store(&calls, 0);
    gan one = gan_open(1, UF_F32, UF_PLAN_REUSE);
    assert_true(atomic_load(&calls) > 3); /* compiling is seen */
    atomic_store(&calls, 0);
    for (int64_t step = 0; step < 100; ++step) {
        gan_step(&one, step);
    }
    assert_ok(uf_context_synchronize(one.context));
    assert_int_equal(atomic_load(&calls), 0);
    gan_close(&one);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_steps_allocate_nothing)};
    const int skipped = test_device_or_skip();
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
