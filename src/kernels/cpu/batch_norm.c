/* batch_norm.c - batch normalisation on the CPU. Statistics are summed in f64, in two passes, each
 * channel by one thread: the same bits for any number of threads. */
#include "kernels/cpu/elementwise.h"

#include <math.h>

#include "core/parallel.h"

/* A saved statistic: f64 for either element type, see kernels.h. */
static inline double *saved_at(const uf_view *view, int64_t channel) {
    return (double *)view->data + channel * view->stride[1];
}

#include "kernels/cpu/real_f32.inc"
#include "kernels/cpu/batch_norm.inc"
#include "kernels/cpu/real_end.inc"

#include "kernels/cpu/real_f64.inc"
#include "kernels/cpu/batch_norm.inc"
#include "kernels/cpu/real_end.inc"

/* Statistics that the caller does not keep live in the workspace. */
static uf_view channels_in(void *memory, const uf_view *input, size_t index) {
    const size_t bytes = uf_align_up((size_t)input->extent[1] * sizeof(double));
    return uf_view_nchw((char *)memory + index * bytes, UF_F64, 1, input->extent[1], 1, 1);
}

static bool is_empty(const uf_view *view) {
    return view->extent[0] == 0 || view->extent[2] == 0 || view->extent[3] == 0;
}

size_t uf_cpu_batch_norm_forward_workspace(uf_context *context,
                                           const uf_batch_norm_kernel_args *args) {
    (void)context;
    if (!args->training || (args->save_mean.data != NULL && args->save_invstd.data != NULL)) {
        return 0;
    }
    return 2 * uf_align_up((size_t)args->input.extent[1] * sizeof(double));
}

typedef struct batch_norm_loop {
    const uf_batch_norm_kernel_args *args;
    uf_row_walk walk;
} batch_norm_loop;

static void statistics(void *argument, int64_t channel, int32_t thread) {
    const batch_norm_loop *loop = argument;
    (void)thread;
    if (loop->args->input.dtype == UF_F64) {
        statistics_f64(loop->args, channel);
    } else {
        statistics_f32(loop->args, channel);
    }
}

static void normalize_unit(void *argument, int64_t unit, int32_t thread) {
    const batch_norm_loop *loop = argument;
    (void)thread;
    if (loop->args->input.dtype == UF_F64) {
        normalize_unit_f64(loop->args, &loop->walk, unit);
    } else {
        normalize_unit_f32(loop->args, &loop->walk, unit);
    }
}

static void backward_channel(void *argument, int64_t channel, int32_t thread) {
    const batch_norm_loop *loop = argument;
    (void)thread;
    if (loop->args->input.dtype == UF_F64) {
        backward_channel_f64(loop->args, channel);
    } else {
        backward_channel_f32(loop->args, channel);
    }
}

uf_status uf_cpu_batch_norm_forward(uf_context *context, const uf_batch_norm_kernel_args *args) {
    uf_batch_norm_kernel_args call = *args;
    const uf_view *const views[] = {&args->input, &args->output};
    batch_norm_loop loop = {&call, uf_row_walk_of(views, 2, 2)};
    if (args->training) {
        if (args->save_mean.data == NULL || args->save_invstd.data == NULL) {
            call.save_mean = channels_in(args->workspace, &args->input, 0);
            call.save_invstd = channels_in(args->workspace, &args->input, 1);
        }
        if (args->num_batches_tracked != NULL) {
            ++*args->num_batches_tracked;
        }
        const int64_t channels = is_empty(&args->input) ? 0 : args->input.extent[1];
        uf_parallel_for(context, channels, statistics, &loop);
    }
    uf_parallel_for(context, loop.walk.units, normalize_unit, &loop);
    return UF_OK;
}

uf_status uf_cpu_batch_norm_fold(uf_context *context, const uf_batch_norm_fold_kernel_args *args) {
    (void)context;
    if (args->scale.dtype == UF_F64) {
        fold_f64(args);
    } else {
        fold_f32(args);
    }
    return UF_OK;
}

uf_status uf_cpu_batch_norm_backward(uf_context *context, const uf_batch_norm_kernel_args *args) {
    const int64_t channels = is_empty(&args->input) ? 0 : args->input.extent[1];
    batch_norm_loop loop = {.args = args};
    uf_parallel_for(context, channels, backward_channel, &loop);
    return UF_OK;
}
