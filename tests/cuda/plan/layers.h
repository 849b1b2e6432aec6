/* layers.h - convolutions for the tests of plans: one table of named geometries, views, and a line
 * of text that makes the same layer again. Plans look at shapes alone: every tensor is at some
 * address that nobody reads. */
#ifndef TEST_CUDA_PLAN_LAYERS_H
#define TEST_CUDA_PLAN_LAYERS_H

#include <stdbool.h>

#include "kernels/kernels.h"

enum { PLAN_TEXT = 640 };

typedef struct plan_layer {
    uf_conv_direction direction;
    uf_conv_kernel_args args;
} plan_layer;

/* The channels of one group, the small side, the filter; `spare` elements of the large side behind
 * the last tap's reach. */
typedef struct plan_sizes {
    int64_t n, c, k, small[2], kernel[2], stride[2], padding[2], dilation[2], spare[2], groups;
} plan_sizes;

typedef struct plan_named {
    const char *name;
    plan_sizes sizes;
} plan_named;

/* Layers of known networks, and degenerate ones: single elements, filters beyond the image, phases
 * without taps, padding beyond the filter. */
extern const plan_named plan_table[];
extern const int64_t plan_table_rows;

/* Dense tensors at address 4096; no epilogue; overwriting. */
uf_conv_kernel_args plan_args_of(const plan_sizes *sizes, uf_dtype dtype, uf_math math);

static inline const uf_view *plan_read(const plan_layer *layer) {
    return layer->direction == UF_CONV_DGRAD ? &layer->args.y : &layer->args.x;
}

static inline const uf_view *plan_written(const plan_layer *layer) {
    return layer->direction == UF_CONV_FPROP   ? &layer->args.y
           : layer->direction == UF_CONV_DGRAD ? &layer->args.x
                                               : &layer->args.w;
}

/* The layer in one line. UNFURL_TEST_LAYER with such a line runs that layer alone. */
void plan_print(const plan_layer *layer, char text[PLAN_TEXT]);

/* False: no such line. */
bool plan_parse(const char *text, plan_layer *layer);

#endif
