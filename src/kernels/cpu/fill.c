/* fill.c - output = value, in f32, f64 or i64. */
#include "kernels/cpu/elementwise.h"

#include <string.h>

#include "kernels/cpu/parallel.h"

uf_status uf_cpu_fill(uf_context *context, const uf_fill_kernel_args *args) {
    const uf_view *const views[] = {&args->output};
    const uf_row_walk walk = uf_row_walk_of(views, 1, 0);
    const size_t size = uf_dtype_size(args->output.dtype);
    const size_t step = (size_t)walk.stride[0][3] * size;
    unsigned char element[sizeof(double)];
    uf_convert(element, args->output.dtype, &args->value, UF_F64, 1);
    UF_PARALLEL_FOR(context->threads)
    for (int64_t unit = 0; unit < walk.units; ++unit) {
        for (uf_row_piece piece = uf_row_begin(&walk, unit); uf_row_next(&walk, &piece);) {
            unsigned char *to = (unsigned char *)args->output.data + (size_t)piece.offset[0] * size;
            for (int64_t i = 0; i < piece.count; ++i) {
                memcpy(to + (size_t)i * step, element, size);
            }
        }
    }
    return UF_OK;
}
