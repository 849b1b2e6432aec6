/* fill.c - output = value, in f32, f64 or i64; and zeros in several spans. */
#include "kernels/cpu/elementwise.h"

#include <string.h>

#include "core/parallel.h"

typedef struct fill_loop {
    const uf_view *output;
    uf_row_walk walk;
    unsigned char element[sizeof(double)];
} fill_loop;

static void fill_unit(void *argument, int64_t unit, int32_t thread) {
    const fill_loop *loop = argument;
    const size_t size = uf_dtype_size(loop->output->dtype);
    const size_t step = (size_t)loop->walk.stride[0][3] * size;
    (void)thread;
    for (uf_row_piece piece = uf_row_begin(&loop->walk, unit); uf_row_next(&loop->walk, &piece);) {
        unsigned char *to = (unsigned char *)loop->output->data + (size_t)piece.offset[0] * size;
        for (int64_t i = 0; i < piece.count; ++i) {
            memcpy(to + (size_t)i * step, loop->element, size);
        }
    }
}

uf_status uf_cpu_fill(uf_context *context, const uf_fill_kernel_args *args) {
    const uf_view *const views[] = {&args->output};
    fill_loop loop = {.output = &args->output, .walk = uf_row_walk_of(views, 1, 0)};
    uf_convert(loop.element, args->output.dtype, &args->value, UF_F64, 1);
    uf_parallel_for(context, loop.walk.units, fill_unit, &loop);
    return UF_OK;
}

uf_status uf_cpu_zero(uf_context *context, const uf_zero_kernel_args *args) {
    (void)context;
    for (int32_t i = 0; i < args->count; ++i) {
        memset((char *)args->memory + args->spans[i].offset, 0, (size_t)args->spans[i].size);
    }
    return UF_OK;
}
