/* random.c - uniform and normal numbers on the CPU. The arithmetic is in random_math.h. */
#include "kernels/kernels.h"

#include "core/parallel.h"
#include "kernels/random_math.h"

#define UNIT_BLOCKS 2048 /* of four elements */

static void fill_unit(void *argument, int64_t unit, int32_t thread) {
    const uf_random_kernel_args *args = argument;
    const int64_t count = uf_view_count(&args->output);
    const int64_t blocks = (count + 3) / 4;
    const int64_t last = (unit + 1) * UNIT_BLOCKS;
    float *narrow = args->output.dtype == UF_F32 ? args->output.data : NULL;
    double *wide = args->output.dtype == UF_F64 ? args->output.data : NULL;
    (void)thread;
    for (int64_t block = unit * UNIT_BLOCKS; block < last && block < blocks; ++block) {
        const uf_uniform4 drawn = uf_uniform_block(args->seed, (uint64_t)block);
        for (int64_t i = 0; i < 4 && 4 * block + i < count; ++i) {
            const double value =
                uf_random_number(args->kind == UF_RANDOM_NORMAL, args->a, args->b, drawn.u[i]);
            if (narrow != NULL) {
                narrow[4 * block + i] = (float)value;
            } else {
                wide[4 * block + i] = value;
            }
        }
    }
}

uf_status uf_cpu_random_fill(uf_context *context, const uf_random_kernel_args *args) {
    const int64_t count = uf_view_count(&args->output);
    const int64_t blocks = (count + 3) / 4;
    const int64_t units = (blocks + UNIT_BLOCKS - 1) / UNIT_BLOCKS;
    uf_random_kernel_args call = *args;
    uf_parallel_for(context, units, fill_unit, &call);
    return UF_OK;
}
