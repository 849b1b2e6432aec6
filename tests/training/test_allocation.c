/* test_allocation.c - a training step allocates nothing. */
#include <stdlib.h>
#include <sys/mman.h>

#include "support/test.h"

#include "allocations.h"
#include "gan.h"
#include "kernels/kernels.h"

enum { STEPS = 100 };

/* The step as examples/dcgan takes it: new inputs, a run, the losses. */
static void step(gan *one, const float *z, const float *real, double losses[3]) {
    int64_t finished;
    bool finite;
    assert_ok(uf_tensor_upload(uf_program_input(one->program, "z"), z));
    assert_ok(uf_tensor_upload(uf_program_input(one->program, "real"), real));
    assert_ok(uf_program_run(one->program));
    assert_ok(uf_program_losses(one->program, losses, 3, &finished, &finite));
    assert_true(finite);
}

static long steps_allocate(int32_t threads) {
    gan one = gan_open(threads, UF_F32, UF_PLAN_REUSE);
    float z[GAN_BATCH * GAN_LATENT], real[GAN_BATCH * GAN_SIZE * GAN_SIZE];
    double losses[3];
    for (int64_t i = 0; i < COUNT_OF(z); ++i) {
        z[i] = (float)(i % 7) * 0.3f - 0.9f;
    }
    for (int64_t i = 0; i < COUNT_OF(real); ++i) {
        real[i] = (float)(i % 11) * 0.2f - 1.0f;
    }
    allocations_start();
    for (int i = 0; i < STEPS; ++i) {
        z[i % GAN_LATENT] += 0.01f;
        step(&one, z, real, losses);
    }
    const long allocations = allocations_stop();
    gan_close(&one);
    return allocations;
}

static void test_one_thread(void **state) {
    (void)state;
    assert_int_equal(steps_allocate(1), 0);
}

static void test_two_threads(void **state) {
    (void)state;
    assert_int_equal(steps_allocate(2), 0);
}

static void test_three_threads(void **state) {
    (void)state;
    assert_int_equal(steps_allocate(3), 0);
}

/* A kernel with an allocation planted in it. */
static const struct uf_kernels *real_kernels;

static uf_status leaky_activation(uf_context *context, const uf_activation_kernel_args *args) {
    void *volatile scratch = malloc(64);
    free(scratch);
    return real_kernels->activation_backward(context, args);
}

static void test_planted_allocation_is_seen(void **state) {
    (void)state;
    gan one = gan_open(1, UF_F32, UF_PLAN_REUSE);
    struct uf_kernels planted = *one.context->kernels;
    real_kernels = one.context->kernels;
    planted.activation_backward = leaky_activation;
    gan_step(&one, 0);
    one.context->kernels = &planted;
    allocations_start();
    assert_ok(uf_program_run(one.program));
    const long seen = allocations_stop();
    one.context->kernels = real_kernels;
    gan_close(&one);
    /* Two per activation that backward goes through and that is not behind a batch norm: 1 and 1 in
     * D's pass, 1 and 1 in G's. */
    assert_int_equal(seen, 2 * (1 + 1 + 1 + 1));
}

/* Each of the names above is the one that this process calls. */
static void test_every_name_is_counted(void **state) {
    (void)state;
    void *volatile p[6];
    void *aligned = NULL;
    allocations_start();
    p[0] = malloc(1);
    p[1] = calloc(1, 1);
    p[2] = aligned_alloc(64, 64);
    const int status = posix_memalign(&aligned, 64, 64);
    p[3] = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, -1, 0); /* fails: no file */
    p[0] = realloc(p[0], 2);
    const long seen = allocations_stop();
    assert_int_equal(seen, 6);
    assert_int_equal(status, 0);
    assert_ptr_equal(p[3], MAP_FAILED);
    free(p[0]);
    free(p[1]);
    free(p[2]);
    free(aligned);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_name_is_counted),
        cmocka_unit_test(test_planted_allocation_is_seen),
        cmocka_unit_test(test_one_thread),
        cmocka_unit_test(test_two_threads),
        cmocka_unit_test(test_three_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
