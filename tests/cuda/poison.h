/* poison.h - leaves a known value where kernels may find what others left. */
#ifndef TEST_CUDA_POISON_H
#define TEST_CUDA_POISON_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Every byte of every multiprocessor's shared memory becomes `byte`. */
bool poison_shared(int byte);

#ifdef __cplusplus
}
#endif

#endif
