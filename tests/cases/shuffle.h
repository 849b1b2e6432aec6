/* shuffle.h - cases of PixelShuffle and PixelUnshuffle. */
#ifndef TEST_CASES_SHUFFLE_H
#define TEST_CASES_SHUFFLE_H

#include "cases/layer_case.h"

enum { SHUFFLE_CASES = 6 };

int64_t shuffle_factor(int64_t row);

/* `packs`: pixel_unshuffle, from (..., C, H r, W r) to (..., C r r, H, W). */
void shuffle_case(int64_t row, test_random *random, layer_case *one, bool packs);

#endif
