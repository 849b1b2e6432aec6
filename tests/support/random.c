/* random.c - splitmix64, https://prng.di.unimi.it/splitmix64.c */
#include "support/random.h"

#include <math.h>
#include <stdbool.h>

#include "support/test.h"

uint64_t test_seed(void) {
    static bool printed = false;
    const uint64_t seed = (uint64_t)test_environment("UNFURL_TEST_SEED", 20240229);
    if (!printed) {
        printed = true;
        print_message("UNFURL_TEST_SEED=%llu\n", (unsigned long long)seed);
    }
    return seed;
}

uint64_t test_random_next(test_random *random) {
    random->state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = random->state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

test_random test_random_for(const char *test, int64_t index) {
    test_random random = {test_seed()};
    for (const char *c = test; *c != '\0'; ++c) {
        random.state = test_random_next(&random) ^ (uint64_t)(unsigned char)*c;
    }
    random.state = test_random_next(&random) ^ (uint64_t)index;
    (void)test_random_next(&random);
    return random;
}

int64_t test_random_integer(test_random *random, int64_t low, int64_t high) {
    const uint64_t span = (uint64_t)(high - low) + 1; /* never 0 here: spans are small */
    return low + (int64_t)(test_random_next(random) % span);
}

double test_random_real(test_random *random, double low, double high) {
    const double unit = (double)(test_random_next(random) >> 11) * 0x1p-53;
    return low + (high - low) * unit;
}

int64_t test_random_log(test_random *random, int64_t low, int64_t high) {
    const double x = test_random_real(random, log((double)low), log((double)high + 1.0));
    const int64_t value = (int64_t)exp(x);
    return value < low ? low : value > high ? high : value;
}

int test_random_one_in(test_random *random, int64_t n) {
    return test_random_integer(random, 0, n - 1) == 0;
}

void test_random_fill(test_random *random, double *values, int64_t count, double deviation) {
    const double bound = sqrt(3.0) * deviation;
    for (int64_t i = 0; i < count; ++i) {
        values[i] = (double)(float)test_random_real(random, -bound, bound);
    }
}
