/* conv_avx2.c - the convolution's code (conv_code.inc) for one instruction set. */
#include "kernels/cpu/conv_tile.h"

#include <math.h>
#include <string.h>

#include "core/bf16.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define UF_ISA_LEVEL 2
#define LANES_MAX 16

#define UF_DOUBLE 0
#define UF_IN_BF16 0
#include "kernels/cpu/conv_code.inc"

#define UF_DOUBLE 1
#define UF_IN_BF16 0
#include "kernels/cpu/conv_code.inc"

#define UF_DOUBLE 0
#define UF_IN_BF16 1
#include "kernels/cpu/conv_code.inc"

#endif
