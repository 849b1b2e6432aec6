/* compare.h - are two results the same? A value that is not finite never is. */
#ifndef TEST_SUPPORT_COMPARE_H
#define TEST_SUPPORT_COMPARE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct comparison {
    double error;  /* max|got - expected| / scale; infinite when anything is not finite */
    int64_t worst; /* where; -1 when there are no elements */
    double got, expected;
} comparison;

/* max|got - expected| / max(max|expected|, floor). The floor is the size that results of this kind
 * typically have: it keeps a single element that came out near 0 from being held to its own size. 0
 * for none. When both scales are 0, any difference is infinite. */
comparison compare_values(const double *got, const double *expected, int64_t count, double floor);

/* max|got - expected|, not divided. */
comparison compare_absolute(const double *got, const double *expected, int64_t count);

/* Fail the test, naming `label`, unless the error is at most `tolerance` (which must be finite). */
void assert_close(const char *label, comparison result, double tolerance);

/* Fail the test, naming `label` and the first differing byte, unless all bytes are the same. */
void assert_same_bits(const char *label, const void *got, const void *expected, int64_t bytes);

#endif
