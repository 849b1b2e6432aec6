/* wgrad_columns.h - tiles of the two weight gradients whose tiles are rows (k) by columns (c, r,
 * s): mma_implicit_gemm's and register_a. */
#ifndef TEST_CUDA_PLAN_WGRAD_COLUMNS_H
#define TEST_CUDA_PLAN_WGRAD_COLUMNS_H

#include "cuda/plan/walk.h"
#include "kernels/cuda/conv/mma_implicit_gemm/wgrad_plan.h"

/* How a main loop finds a column's pixel in a stage's x, and how that came there. */
typedef struct wgrad_columns {
    const wgrad_plan *p;
    const void *plan; /* the main loop's own, for the functions */
    int32_t (*column)(const void *plan, int32_t first_column, int32_t column);
    wgrad_coord (*coord)(const void *plan, int32_t first_column, int32_t entry);
    int32_t words;               /* that an entry of the table copies */
    int32_t pixel[WGRAD_PIXELS]; /* words from pixel 0 */
} wgrad_columns;

/* Boxes from `begin` to before `end` of a tile. */
void wgrad_walk_boxes(plan_walk *walk, const plan_layer *layer, const wgrad_columns *of,
                      int32_t tile, int32_t begin, int32_t end);

/* Elements of a tile, once. */
void wgrad_store_tile(plan_walk *walk, const wgrad_plan *p, int32_t tile);

/* Tiles, boxes and entries of a plan of any size. */
void wgrad_check_tiles(const plan_layer *layer, const wgrad_plan *p, int32_t most_entries);

#endif
