/* special_fillings.h - operands of a convolution that hold what f32 ends with. */
#ifndef TEST_OPS_SPECIAL_FILLINGS_H
#define TEST_OPS_SPECIAL_FILLINGS_H

#include "support/random.h"
#include "support/test.h"

typedef void (*filling)(test_random *random, float *a, int64_t a_count, float *b, int64_t b_count);

/* `underflow`: how far each product may be off, besides rounding. `beyond`: the second operand is
 * not finite, so that a product with padding is NaN. */
typedef struct special_filling {
    const char *name;
    filling fill;
    double underflow;
    bool beyond;
} special_filling;

enum { SPECIAL_FILLINGS = 16 };
extern const special_filling special_fillings[SPECIAL_FILLINGS];

/* Two of them, by themselves: infinities and NaN in a few places of the first operand. */
void infinite_first(test_random *random, float *a, int64_t a_count, float *b, int64_t b_count);
void nan_first(test_random *random, float *a, int64_t a_count, float *b, int64_t b_count);

/* Of either sign, their sizes uniform from low to high. */
void spread(test_random *random, float *values, int64_t count, double low, double high);

#endif
