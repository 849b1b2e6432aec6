/* planes.c - see planes.h. */
#include "kernels/cpu/planes.h"

#include "core/parallel.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/geometry.h"

typedef struct plane_loop {
    const void *arguments;
    const uf_view *written;
    int64_t rows_per_unit, bands; /* bands: units of a plane */
    uf_plane_rows *run;
} plane_loop;

static void run_unit(void *argument, int64_t unit, int32_t thread) {
    const plane_loop *loop = argument;
    const int64_t plane = unit / loop->bands;
    const int64_t begin = unit % loop->bands * loop->rows_per_unit;
    const int64_t left = loop->written->extent[2] - begin;
    const int64_t rows = left < loop->rows_per_unit ? left : loop->rows_per_unit;
    (void)thread;
    loop->run(loop->arguments, plane / loop->written->extent[1], plane % loop->written->extent[1],
              begin, begin + rows);
}

void uf_each_plane_rows(uf_context *context, const uf_view *written, const void *arguments,
                        uf_plane_rows *const functions[]) {
    const int64_t width = written->extent[3];
    plane_loop loop = {
        .arguments = arguments, .written = written, .run = functions[written->dtype]};
    loop.rows_per_unit = width < UF_UNIT_ELEMENTS ? UF_UNIT_ELEMENTS / width : 1;
    loop.bands = uf_div_up(written->extent[2], loop.rows_per_unit);
    uf_parallel_for(context, written->extent[0] * written->extent[1] * loop.bands, run_unit, &loop);
}
