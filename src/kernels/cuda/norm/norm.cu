/* norm.cu - gradients of the weight and bias of norms, their running statistics, and the two
 * kernels as the table has them.
 *
 * The elements of a parameter are runs of length = run * inner, one in each o that shares it. Where
 * runs are long a block takes a piece of one parameter's elements; where they are short, lanes take
 * neighbouring parameters and read one run of memory. Sums of pieces go to the workspace, and a
 * second launch adds them in order. Bound by memory. */
#include "kernels/cuda/norm/norm.cuh"

enum {
    BLOCK = 256,
    LANES = 32,
    LONG_RUN = 32,
    PIECE = 16384, /* elements of a block, about */
    ROWS = 128,    /* runs of a thread's parameter in a piece, about */
    MOST_PIECES = 256
};

/* How the elements of a parameter are cut: pieces of so many elements (long) or runs (short). */
struct param_plan {
    bool is_long;
    int64_t length, runs, params, pieces, piece;
};

static param_plan plan_of(const uf_norm_layout &layout) {
    param_plan made;
    made.length = layout.run * layout.inner;
    made.runs = layout.outer / layout.groups;
    made.params = uf_norm_params(&layout);
    made.is_long = made.length >= LONG_RUN;
    const int64_t count = made.is_long ? made.runs * made.length : made.runs;
    const int64_t pieces = uf_div_up(count, made.is_long ? (int64_t)PIECE : (int64_t)ROWS);
    const int64_t fewer = pieces < MOST_PIECES ? pieces : (int64_t)MOST_PIECES;
    made.pieces = fewer < 1 ? 1 : fewer;
    made.piece = uf_div_up(count, made.pieces);
    return made;
}

/* Adds element e of o, of parameter p. */
template <typename T, typename R>
static __device__ __forceinline__ void add_element(const uf_norm_call<T> &call,
                                                   const uf_norm_statistic<R> &of, int64_t e,
                                                   R weight, R bias, double2 *sums) {
    const R hat = uf_norm_hat(of, (R)uf_load<T, 1>(call.x + e).get(0));
    const R g = uf_norm_gradient<T, R>(call, hat, weight, bias, uf_load<T, 1>(call.g + e).get(0));
    sums->x += (double)(g * hat);
    sums->y += (double)g;
}

/* Block b: piece b / params of parameter b mod params. */
template <typename T, typename R>
static __global__ void __launch_bounds__(BLOCK)
    norm_params_long(uf_norm_call<T> call, param_plan plan) {
    uf_overlap_launches();
    __shared__ double shared[32];
    const uf_norm_layout &layout = call.layout;
    const int64_t piece = blockIdx.x / (uint32_t)plan.params;
    const int64_t p = blockIdx.x - (uint32_t)piece * (uint32_t)plan.params;
    const int64_t group = p / call.params, in_group = p - group * call.params;
    const R weight = (R)uf_norm_weight(call, p), bias = (R)uf_norm_bias(call, p);
    const int64_t begin = piece * plan.piece;
    const int64_t count = plan.runs * plan.length;
    const int64_t end = count - begin < plan.piece ? count : begin + plan.piece;
    int64_t run = (begin + threadIdx.x) / plan.length;
    int64_t e = begin + threadIdx.x - run * plan.length;
    int64_t held = -1;
    uf_norm_statistic<R> of = {};
    double2 sums = {0.0, 0.0};
    for (int64_t at = begin + threadIdx.x; at < end; at += BLOCK) {
        const int64_t o = run * layout.groups + group;
        const int64_t statistic = layout.inner == 1 ? o : o * layout.inner + e;
        if (statistic != held) { /* conversions of f64 are slow */
            of = uf_norm_statistic_of<R>(call.mean[statistic], call.invstd[statistic]);
            held = statistic;
        }
        const int64_t first = (o * layout.size + in_group * layout.run) * layout.inner;
        add_element<T, R>(call, of, first + e, weight, bias, &sums);
        e += BLOCK;
        while (e >= plan.length) { /* eight times at most: runs are long */
            e -= plan.length;
            ++run;
        }
    }
    sums.x = uf_block_sum(sums.x, shared);
    sums.y = uf_block_sum(sums.y, shared);
    if (threadIdx.x == 0) {
        call.partial[piece * plan.params + p] = sums;
    }
}

/* Block b: piece b / tiles of 32 parameters, beginning at b mod tiles. */
template <typename T, typename R>
static __global__ void __launch_bounds__(BLOCK, 2)
    norm_params_short(uf_norm_call<T> call, param_plan plan, int64_t tiles) {
    uf_overlap_launches();
    __shared__ double2 shared[BLOCK / LANES][LANES + 1];
    const uf_norm_layout &layout = call.layout;
    const int lane = (int)threadIdx.x % LANES, warp = (int)threadIdx.x / LANES;
    const int64_t piece = blockIdx.x / (uint32_t)tiles;
    const int64_t p = (int64_t)(blockIdx.x - (uint32_t)piece * (uint32_t)tiles) * LANES + lane;
    const bool works = p < plan.params;
    const int64_t group = works ? p / call.params : 0;
    const int64_t in_group = works ? p - group * call.params : 0;
    const R weight = works ? (R)uf_norm_weight(call, p) : (R)1;
    const R bias = works ? (R)uf_norm_bias(call, p) : (R)0;
    const int64_t begin = piece * plan.piece;
    const int64_t end = plan.runs - begin < plan.piece ? plan.runs : begin + plan.piece;
    double2 sums = {0.0, 0.0};
    for (int64_t run = begin + warp; works && run < end; run += BLOCK / LANES) {
        const int64_t o = run * layout.groups + group;
        const int64_t first = (o * layout.size + in_group * layout.run) * layout.inner;
        for (int64_t e = 0; e < plan.length; ++e) {
            const int64_t statistic = layout.inner == 1 ? o : o * layout.inner + e;
            const uf_norm_statistic<R> of =
                uf_norm_statistic_of<R>(call.mean[statistic], call.invstd[statistic]);
            add_element<T, R>(call, of, first + e, weight, bias, &sums);
        }
    }
    shared[warp][lane] = sums;
    __syncthreads();
    if (warp == 0 && works) {
        for (int other = 1; other < BLOCK / LANES; ++other) {
            sums.x += shared[other][lane].x;
            sums.y += shared[other][lane].y;
        }
        call.partial[piece * plan.params + p] = sums;
    }
}

/* One thread per parameter adds the sums of its pieces. */
template <typename P>
static __global__ void __launch_bounds__(UF_BLOCK)
    norm_params_sums(const double2 *partial, int64_t params, int64_t pieces, P *grad_weight,
                     bool add_weight, P *grad_bias, bool add_bias) {
    uf_overlap_launches();
    UF_EACH(int64_t, p, params) {
        double2 sums = partial[p];
        for (int64_t piece = 1; piece < pieces; ++piece) {
            const double2 next = partial[piece * params + p];
            sums.x += next.x;
            sums.y += next.y;
        }
        if (grad_weight != nullptr) {
            grad_weight[p] = (P)(add_weight ? (double)grad_weight[p] + sums.x : sums.x);
        }
        if (grad_bias != nullptr) {
            grad_bias[p] = (P)(add_bias ? (double)grad_bias[p] + sums.y : sums.y);
        }
    }
}

template <typename T, typename R>
static uf_status run_params(uf_context *context, const uf_norm_kernel_args *args) {
    typedef typename uf_norm_call<T>::param param;
    const param_plan plan = plan_of(args->layout);
    uf_norm_call<T> call = uf_norm_call_of<T>(args);
    call.partial = static_cast<double2 *>(args->workspace);
    if (plan.is_long) {
        UF_TRY((uf_cuda_launch(context, "norm_params_long",
                               {dim3((unsigned)(plan.pieces * plan.params)), BLOCK},
                               norm_params_long<T, R>, call, plan)));
    } else {
        const int64_t tiles = uf_div_up(plan.params, LANES);
        UF_TRY((uf_cuda_launch(context, "norm_params_short",
                               {dim3((unsigned)(plan.pieces * tiles)), BLOCK},
                               norm_params_short<T, R>, call, plan, tiles)));
    }
    return uf_cuda_launch(
        context, "norm_params_sums", {dim3(uf_blocks(plan.params)), UF_BLOCK},
        norm_params_sums<param>, call.partial, plan.params, plan.pieces,
        static_cast<param *>(args->grad_weight.data), args->grad_weight_mode == UF_ACCUMULATE,
        static_cast<param *>(args->grad_bias.data), args->grad_bias_mode == UF_ACCUMULATE);
}

static uf_status params_backward(uf_context *context, const uf_norm_kernel_args *args) {
    if (args->layout.size <= UF_NORM_EXACT) {
        UF_NORM_DISPATCH(args->input.dtype, return (run_params<T, double>(context, args)));
    }
    UF_NORM_DISPATCH(args->input.dtype,
                     return (run_params<T, typename uf_norm_call<T>::param>(context, args)));
}

/* One thread per channel; the formula stands at uf_norm_kernel_args. */
template <typename P>
static __global__ void __launch_bounds__(UF_BLOCK)
    norm_running(uf_norm_layout layout, double eps, double momentum, const double *save_mean,
                 const double *save_invstd, P *running_mean, P *running_var) {
    uf_overlap_launches();
    UF_EACH(int64_t, c, layout.groups) {
        double mean = 0.0, var = 0.0;
        for (int64_t o = c; o < layout.outer; o += layout.groups) {
            mean += save_mean[o];
            var += fmax(1.0 / (save_invstd[o] * save_invstd[o]) - eps, 0.0);
        }
        const double images = (double)(layout.outer / layout.groups);
        const double unbias = (double)layout.size / (double)(layout.size - 1);
        running_mean[c] =
            (P)((1.0 - momentum) * (double)running_mean[c] + momentum * mean / images);
        running_var[c] =
            (P)((1.0 - momentum) * (double)running_var[c] + momentum * unbias * var / images);
    }
}

template <typename P>
static uf_status run_running(uf_context *context, const uf_norm_kernel_args *args) {
    return uf_cuda_launch(
        context, "norm_running", {dim3(uf_blocks(args->layout.groups)), UF_BLOCK}, norm_running<P>,
        args->layout, args->eps, args->momentum, static_cast<const double *>(args->save_mean.data),
        static_cast<const double *>(args->save_invstd.data),
        static_cast<P *>(args->running_mean.data), static_cast<P *>(args->running_var.data));
}

static bool wants_params(const uf_norm_kernel_args *args) {
    return args->grad_weight.data != NULL || args->grad_bias.data != NULL;
}

/* ---- the kernels of the table ---- */

static uf_status needs_workspace(const char *kernel, size_t given, size_t needed) {
    if (given < needed) {
        UF_FAIL(UF_ERROR_INTERNAL, "%s was given %zu bytes of workspace and needs %zu", kernel,
                given, needed);
    }
    return UF_OK;
}

extern "C" size_t uf_cuda_norm_forward_workspace(uf_context *context,
                                                 const uf_norm_kernel_args *args) {
    (void)context;
    return args->layout.inner == 1 ? uf_norm_rows_workspace(args, false) : 0;
}

extern "C" size_t uf_cuda_norm_backward_workspace(uf_context *context,
                                                  const uf_norm_kernel_args *args) {
    (void)context;
    const param_plan plan = plan_of(args->layout);
    const size_t rows = args->layout.inner == 1 ? uf_norm_rows_workspace(args, true) : 0;
    const size_t params =
        wants_params(args) ? (size_t)(plan.pieces * plan.params) * sizeof(double2) : 0;
    return rows > params ? rows : params; /* one after the other */
}

extern "C" uf_status uf_cuda_norm_forward(uf_context *context, const uf_norm_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_stored("norm_forward", args->input.dtype));
    UF_TRY(needs_workspace("norm_forward", args->workspace_size,
                           uf_cuda_norm_forward_workspace(context, args)));
    if (args->layout.outer == 0) {
        return UF_OK;
    }
    UF_TRY(args->layout.inner == 1 ? uf_norm_rows_run(context, args, false)
                                   : uf_norm_columns_run(context, args, false));
    if (args->running_mean.data == NULL) {
        return UF_OK;
    }
    return args->running_mean.dtype == UF_F64 ? run_running<double>(context, args)
                                              : run_running<float>(context, args);
}

extern "C" uf_status uf_cuda_norm_backward(uf_context *context, const uf_norm_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_stored("norm_backward", args->input.dtype));
    UF_TRY(needs_workspace("norm_backward", args->workspace_size,
                           uf_cuda_norm_backward_workspace(context, args)));
    /* Before grad_input, which may be grad_output's memory. */
    if (wants_params(args)) {
        UF_TRY(params_backward(context, args));
    }
    if (args->grad_input.data == NULL || args->layout.outer == 0) {
        return UF_OK;
    }
    return args->layout.inner == 1 ? uf_norm_rows_run(context, args, true)
                                   : uf_norm_columns_run(context, args, true);
}
