/* shuffle_model.h - what the kernels of conv_shuffle do with a plan, on the CPU and in plain C, and
 * the convolution itself by its definition: for test_shuffle_plan.c. */
#ifndef TEST_CUDA_SHUFFLE_MODEL_H
#define TEST_CUDA_SHUFFLE_MODEL_H

#include "kernels/cuda/conv/transform/space_to_depth/conv_shuffle_plan.h"
#include "support/random.h"

/* Memory of a tensor: a number for each element, whatever its type. */
typedef struct tensor {
    uf_view view;
    int64_t count;  /* elements from the first to the last, gaps included; 0: absent */
    double *values; /* NaN: in gaps, and what is not written yet. NULL: places alone are checked */
} tensor;

typedef struct shuffle_layer {
    uf_conv_direction direction;
    uf_conv_kernel_args args;
    tensor x, w, y, scale, shift; /* args' */
} shuffle_layer;

/* Without values, and with NaN in all of them. The view's address is none of the memory. */
tensor places_of(const uf_view *view);
tensor tensor_of(const uf_view *view);

int64_t place_of(const tensor *of, int64_t n, int64_t c, int64_t h, int64_t w);

/* Fail the test outside of the memory, where nothing is read, and where something is written. */
double get(const tensor *from, int64_t place);
void put(const tensor *to, int64_t place, double value);

/* Small whole numbers, so that sums are exact; `random` NULL: zeros. */
void fill(const tensor *of, test_random *random);

tensor *written_of(shuffle_layer *of);

/* The written tensor from the other two, with dgrad's scale and shift. */
void convolve(shuffle_layer *of);

/* conv_shuffle_in or conv_shuffle_out: one block, and all of them. Every place of shared memory,
 * too, is written once before it is read. */
void move_block(const uf_shuffle_move *p, int32_t index, bool in, const tensor *pixels,
                const tensor *cells);
void move(const uf_shuffle_move *p, bool in, const tensor *pixels, const tensor *cells);

/* conv_shuffle_filter_in and conv_shuffle_filter_out: one element of what is written. */
void filter_in(const uf_shuffle_filter *p, int32_t index, const tensor *w, const tensor *moved);
void filter_out(const uf_shuffle_filter *p, int32_t index, const tensor *moved, const tensor *w);

/* A scale or a shift for the inner convolution, `view`: what comes with the filter. */
tensor spread_of(const tensor *vector, const uf_view *view, const uf_shuffle_plan *plan);

/* Cells, or the filter, by what conv_shuffle_plan.h says of them. */
void check_cells(const int32_t phases[2], const int32_t origin[2], const tensor *pixels,
                 const tensor *cells);

#endif
