/* random.h - the tests' own random numbers: splitmix64, seeded, the seed printed.
 *
 * UNFURL_TEST_SEED chooses another seed, UNFURL_TEST_CASE runs one case of a random test alone.
 * Each case has a generator of its own, so that it can be repeated without those before it. */
#ifndef TEST_SUPPORT_RANDOM_H
#define TEST_SUPPORT_RANDOM_H

#include <stdint.h>

typedef struct test_random {
    uint64_t state;
} test_random;

/* The seed of this process; printed on the first call. */
uint64_t test_seed(void);

/* The generator of case `index` of the test called `test`. */
test_random test_random_for(const char *test, int64_t index);

uint64_t test_random_next(test_random *random);

/* A uniform integer in [low, high], both included. */
int64_t test_random_integer(test_random *random, int64_t low, int64_t high);

/* An integer in [low, high] whose logarithm is uniform: small ones come often, large ones too. */
int64_t test_random_log(test_random *random, int64_t low, int64_t high);

/* A uniform real in [low, high). */
double test_random_real(test_random *random, double low, double high);

/* True once in `n` times. */
int test_random_one_in(test_random *random, int64_t n);

/* `count` uniform reals of standard deviation `deviation`, each representable in f32: so one result
 * in double is the exact one for both element types. */
void test_random_fill(test_random *random, double *values, int64_t count, double deviation);

#endif
