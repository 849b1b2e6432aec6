/* batch_norm.c - batch normalisation on the CPU. Statistics are summed in f64, in two passes, each
 * channel by one thread: the same bits for any number of threads. */
#include "kernels/cpu/elementwise.h"

#include <math.h>

#include "core/bf16.h"
#include "core/parallel.h"
#include "core/tensor.h"

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

#include "kernels/cpu/real_bf16.inc"
#include "kernels/cpu/batch_norm.inc"
#include "kernels/cpu/real_end.inc"

typedef void channel_function(const uf_batch_norm_kernel_args *args, int64_t channel);
typedef void unit_function(const uf_batch_norm_kernel_args *args, const uf_row_walk *walk,
                           int64_t unit);

static channel_function *const statistics_of[] = {
    [UF_F32] = statistics_f32, [UF_F64] = statistics_f64, [UF_BF16] = statistics_bf16};
static unit_function *const normalize_units[] = {
    [UF_F32] = normalize_unit_f32, [UF_F64] = normalize_unit_f64, [UF_BF16] = normalize_unit_bf16};
static channel_function *const backward_channels[] = {[UF_F32] = backward_channel_f32,
                                                      [UF_F64] = backward_channel_f64,
                                                      [UF_BF16] = backward_channel_bf16};

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

size_t uf_cpu_batch_norm_backward_workspace(uf_context *context,
                                            const uf_batch_norm_kernel_args *args) {
    (void)context;
    (void)args;
    return 0;
}

typedef struct batch_norm_loop {
    const uf_batch_norm_kernel_args *args;
    uf_row_walk walk;
} batch_norm_loop;

static void statistics(void *argument, int64_t channel, int32_t thread) {
    const batch_norm_loop *loop = argument;
    (void)thread;
    statistics_of[loop->args->input.dtype](loop->args, channel);
}

static void normalize_unit(void *argument, int64_t unit, int32_t thread) {
    const batch_norm_loop *loop = argument;
    (void)thread;
    normalize_units[loop->args->input.dtype](loop->args, &loop->walk, unit);
}

static void backward_channel(void *argument, int64_t channel, int32_t thread) {
    const batch_norm_loop *loop = argument;
    (void)thread;
    backward_channels[loop->args->input.dtype](loop->args, channel);
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

/* Channel c of a view of any type. */
static void *place_of(const uf_view *view, int64_t c) {
    return (char *)view->data + c * view->stride[1] * (int64_t)uf_dtype_size(view->dtype);
}

static double value_of(const uf_view *view, int64_t c, double absent) {
    double value = absent;
    if (view->data != NULL) {
        uf_convert(&value, UF_F64, place_of(view, c), view->dtype, 1);
    }
    return value;
}

uf_status uf_cpu_batch_norm_fold(uf_context *context, const uf_batch_norm_fold_kernel_args *args) {
    (void)context;
    for (int64_t c = 0; c < args->scale.extent[1]; ++c) {
        const double scale = value_of(&args->weight, c, 1.0) /
                             sqrt(value_of(&args->running_var, c, 1.0) + args->eps);
        const double offset =
            value_of(&args->input_bias, c, 0.0) - value_of(&args->running_mean, c, 0.0);
        const double shift = value_of(&args->bias, c, 0.0) + offset * scale;
        uf_convert(place_of(&args->scale, c), args->scale.dtype, &scale, UF_F64, 1);
        uf_convert(place_of(&args->shift, c), args->shift.dtype, &shift, UF_F64, 1);
    }
    return UF_OK;
}

uf_status uf_cpu_batch_norm_backward(uf_context *context, const uf_batch_norm_kernel_args *args) {
    const int64_t channels = is_empty(&args->input) ? 0 : args->input.extent[1];
    batch_norm_loop loop = {.args = args};
    uf_parallel_for(context, channels, backward_channel, &loop);
    return UF_OK;
}
