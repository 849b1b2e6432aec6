/* model.h - what the kernels of conv_space_to_depth do with a plan, on the CPU and
 * in plain C: for cuda/plan/space_to_depth/test_space_to_depth.c. */
#ifndef TEST_CUDA_PLAN_SPACE_TO_DEPTH_MODEL_H
#define TEST_CUDA_PLAN_SPACE_TO_DEPTH_MODEL_H

#include "kernels/cuda/conv/transform/space_to_depth/plan.h"
#include "support/random.h"

/* Memory of a tensor: a number for each element, whatever its type. */
typedef struct tensor {
    uf_view view;
    int64_t count;  /* elements from the first to the last, gaps included; 0: absent */
    double *values; /* NaN: in gaps, and what is not written yet. NULL: places alone are checked */
} tensor;

/* Without values, and with NaN in all of them. The view's address is none of the memory. */
tensor coords_of(const uf_view *view);
tensor tensor_of(const uf_view *view);

int64_t place_of(const tensor *of, int64_t n, int64_t c, int64_t h, int64_t w);

/* Fail the test outside of the memory, where nothing is read, and where something is written. */
double get(const tensor *from, int64_t place);
void put(const tensor *to, int64_t place, double value);

/* Small whole numbers, so that sums are exact; `random` NULL: zeros. */
void fill(const tensor *of, test_random *random);

/* conv_space_to_depth_in or conv_space_to_depth_out: one block, and all of them. Every place of
 * shared memory, too, is written once before it is read. */
void move_block(const uf_space_to_depth_move *p, int32_t index, bool in, const tensor *pixels,
                const tensor *cells);
void move(const uf_space_to_depth_move *p, bool in, const tensor *pixels, const tensor *cells);

/* conv_space_to_depth_filter_in and conv_space_to_depth_filter_out: one element of what is written.
 */
void filter_in(const uf_space_to_depth_filter *p, int32_t index, const tensor *w,
               const tensor *moved);
void filter_out(const uf_space_to_depth_filter *p, int32_t index, const tensor *moved,
                const tensor *w);

/* A scale or a shift for the inner convolution, `view`: what comes with the filter. */
tensor spread_of(const tensor *vector, const uf_view *view, const uf_space_to_depth_plan *plan);

/* Cells, or the filter, by what space_to_depth/plan.h says of them; those outside are zero, unless
 * it is the pixels that were made of them. */
void check_cells(const int32_t phases[2], const int32_t origin[2], const tensor *pixels,
                 const tensor *cells, bool moved_out);

/* All elements of the view are written, and no gap. */
void check_whole(const tensor *of);

#endif
