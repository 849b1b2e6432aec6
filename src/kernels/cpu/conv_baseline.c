/* conv_baseline.c - the convolution's code (conv_code.inc) for one instruction set. */
#include "kernels/cpu/conv_plan.h"

#include <math.h>

#define UF_ISA_LEVEL 0
#define LANES_MAX 16

#define UF_DOUBLE 0
#include "kernels/cpu/conv_code.inc"

#define UF_DOUBLE 1
#include "kernels/cpu/conv_code.inc"
