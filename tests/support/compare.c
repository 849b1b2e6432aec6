/* compare.c - comparisons that nothing slips through. */
#include "support/compare.h"

#include <math.h>

#include "support/test.h"

comparison compare_absolute(const double *got, const double *expected, int64_t count) {
    comparison result = {0.0, -1, 0.0, 0.0};
    for (int64_t i = 0; i < count; ++i) {
        /* Written so that a NaN takes the branch. */
        double error = fabs(got[i] - expected[i]);
        if (!isfinite(got[i]) || !isfinite(expected[i])) {
            error = (double)INFINITY;
        }
        if (result.worst < 0 || !(error <= result.error)) {
            result = (comparison){error, i, got[i], expected[i]};
        }
    }
    return result;
}

comparison compare_values(const double *got, const double *expected, int64_t count, double floor) {
    double scale = floor;
    for (int64_t i = 0; i < count; ++i) {
        if (fabs(expected[i]) > scale) {
            scale = fabs(expected[i]);
        }
    }
    comparison result = compare_absolute(got, expected, count);
    if (result.error > 0.0) {
        result.error = scale > 0.0 ? result.error / scale : (double)INFINITY;
    }
    return result;
}

void assert_close(const char *label, comparison result, double tolerance) {
    if (!isfinite(tolerance)) {
        fail_msg("%s: the tolerance is not finite", label);
    }
    if (!(result.error <= tolerance)) {
        fail_msg("%s: error %.3g, allowed %.3g; worst at element %lld: got %.17g, expected %.17g",
                 label, result.error, tolerance, (long long)result.worst, result.got,
                 result.expected);
    }
}

void assert_same_bits(const char *label, const void *got, const void *expected, int64_t bytes) {
    const unsigned char *a = got;
    const unsigned char *b = expected;
    for (int64_t i = 0; i < bytes; ++i) {
        if (a[i] != b[i]) {
            fail_msg("%s: bits differ first at byte %lld of %lld", label, (long long)i,
                     (long long)bytes);
        }
    }
}
