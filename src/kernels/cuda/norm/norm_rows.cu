/* norm_rows.cu - norms whose statistics are of consecutive elements: instance, group, layer norm.
 *
 * A warp, or a block where a row is longer, takes a row: it loads 16 bytes at a time, keeps the row
 * in registers, and sums in two passes over these. A row that is longer still is cut into
 * pieces: one launch for the sums of pieces, one for those of rows, one for the elements. Bound by
 * memory. Sums of a vector are in the type that computes, all others in f64, in an order that the
 * shape decides. */
#include "kernels/cuda/norm/norm.cuh"

enum { BLOCK = 256 };

/* Vectors that a thread keeps: 32 elements of f32 or bf16, 16 of f64. */
template <typename T, int WIDTH>
struct kept {
    enum { COUNT = WIDTH == 8 ? 4 : 8 };
};

enum row_phase { ROW_ALONE = 0, ROW_SUMS, ROW_APPLY };

/* The place of a thread in a row. Its vectors are v, v + TEAM and so on, below `end`; `run` is the
 * parameter of v's run, for weights that change within a row but not within a vector. */
struct row_cursor {
    int64_t v, end, run, rest;
};

/* How many parameters a row has, and how they lie. */
enum row_params { PARAMS_ONE = 0, PARAMS_EACH, PARAMS_RUNS };

template <typename T, int WIDTH, int TEAM>
struct row_call {
    uf_norm_call<T> norm;
    row_params params;
    int64_t vectors;                          /* of a row */
    int64_t run_vectors, step_run, step_rest; /* TEAM vectors on: so many runs and vectors */

    static constexpr int KEPT = kept<T, WIDTH>::COUNT;

    __device__ __forceinline__ row_cursor begin(int64_t piece) const {
        const int64_t length = norm.pieces > 1 ? (int64_t)TEAM * KEPT : vectors;
        row_cursor at;
        at.v = piece * length + (int64_t)threadIdx.x % TEAM;
        at.end = vectors - piece * length < length ? vectors : (piece + 1) * length;
        at.run = at.rest = 0;
        if (params == PARAMS_RUNS) {
            at.run = vectors <= UINT32_MAX ? (int64_t)((uint32_t)at.v / (uint32_t)run_vectors)
                                           : at.v / run_vectors;
            at.rest = at.v - at.run * run_vectors;
        }
        return at;
    }
    __device__ __forceinline__ void next(row_cursor *at) const {
        at->v += TEAM;
        if (params == PARAMS_RUNS) {
            at->run += step_run;
            at->rest += step_rest;
            if (at->rest >= run_vectors) {
                at->rest -= run_vectors;
                ++at->run;
            }
        }
    }
};

/* f(k, cursor) for the vectors of a thread in its piece, KEPT at most. */
template <typename T, int WIDTH, int TEAM, typename F>
static __device__ __forceinline__ void each_vector(const row_call<T, WIDTH, TEAM> &call,
                                                   row_cursor at, F f) {
#pragma unroll
    for (int k = 0; k < row_call<T, WIDTH, TEAM>::KEPT; ++k) {
        if (at.v < at.end) {
            f(k, at);
        }
        call.next(&at);
    }
}

/* Weight and bias of the elements of a vector. */
template <typename P, int WIDTH>
struct vector_params {
    P weight[WIDTH], bias[WIDTH];
};

template <typename T, int WIDTH, int TEAM>
static __device__ __forceinline__ vector_params<typename uf_norm_call<T>::param, WIDTH>
params_at(const row_call<T, WIDTH, TEAM> &call, int64_t base, const row_cursor &at) {
    typedef typename uf_norm_call<T>::param param;
    vector_params<param, WIDTH> made;
    if (call.params == PARAMS_EACH) {
        const int64_t p = base + at.v * WIDTH;
        uf_pack<param, WIDTH> weight, bias;
        if (call.norm.weight != nullptr) {
            weight = uf_load<param, WIDTH>(call.norm.weight + p);
        }
        if (call.norm.bias != nullptr) {
            bias = uf_load<param, WIDTH>(call.norm.bias + p);
        }
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            made.weight[j] = call.norm.weight != nullptr ? weight.get(j) : (param)1;
            made.bias[j] = call.norm.bias != nullptr ? bias.get(j) : (param)0;
        }
        return made;
    }
    const param weight = uf_norm_weight(call.norm, base + at.run);
    const param bias = uf_norm_bias(call.norm, base + at.run);
#pragma unroll
    for (int j = 0; j < WIDTH; ++j) {
        made.weight[j] = weight;
        made.bias[j] = bias;
    }
    return made;
}

/* The row and the piece of it that this thread works on. */
struct row_place {
    int64_t o, piece;
};

template <int TEAM>
static __device__ __forceinline__ row_place place_of(int64_t pieces) {
    if constexpr (TEAM < BLOCK) {
        (void)pieces;
        return {(int64_t)blockIdx.x * (BLOCK / TEAM) + (int64_t)threadIdx.x / TEAM, 0};
    } else {
        const uint32_t o = pieces > 1 ? blockIdx.x / (uint32_t)pieces : blockIdx.x;
        return {(int64_t)o, (int64_t)(blockIdx.x - o * (uint32_t)pieces)};
    }
}

/* ---- forward ---- */

/* Mean of a piece's elements and the sum of their squared distances from it, in every thread. */
template <typename R, typename T, int WIDTH, int TEAM>
static __device__ double2 piece_statistics(const row_call<T, WIDTH, TEAM> &call,
                                           const row_cursor &first, R pivot, int64_t count,
                                           const uf_pack<T, WIDTH> *x, double *shared) {
    double sum = 0.0;
    each_vector(call, first, [&](int k, const row_cursor &) {
        R part = (R)0;
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            part += (R)x[k].get(j) - pivot;
        }
        sum += (double)part;
    });
    sum = uf_norm_team_sum<TEAM>(sum, shared);
    const double mean = (double)pivot + sum / (double)count;
    const R high = (R)mean;
    const R low = (R)(mean - (double)high);
    double scatter = 0.0;
    each_vector(call, first, [&](int k, const row_cursor &) {
        R part = (R)0;
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            const R distance = ((R)x[k].get(j) - high) - low;
            part += distance * distance;
        }
        scatter += (double)part;
    });
    return {mean, uf_norm_team_sum<TEAM>(scatter, shared)};
}

template <typename T, typename R, int WIDTH, int TEAM>
static __global__ void __launch_bounds__(BLOCK, sizeof(R) == 8 ? 1 : 2)
    norm_rows_forward(row_call<T, WIDTH, TEAM> call, row_phase phase) {
    uf_overlap_launches();
    __shared__ double shared[32];
    const uf_norm_call<T> &norm = call.norm;
    const row_place me = place_of<TEAM>(norm.pieces);
    if (TEAM < BLOCK && me.o >= norm.layout.outer) {
        return; /* the whole warp */
    }
    const int64_t size = norm.layout.size;
    const T *const x = norm.x + me.o * size;
    const row_cursor first = call.begin(me.piece);
    uf_pack<T, WIDTH> row[row_call<T, WIDTH, TEAM>::KEPT];
    each_vector(call, first,
                [&](int k, const row_cursor &at) { row[k] = uf_load<T, WIDTH>(x + at.v * WIDTH); });
    double mean = 0.0, invstd = 0.0;
    if (phase == ROW_APPLY) {
        mean = norm.mean[me.o];
        invstd = norm.invstd[me.o];
    } else {
        const int64_t before = first.v - (int64_t)threadIdx.x % TEAM; /* the piece's first vector */
        /* Read before any thread of this row writes: the sums lie in between. */
        const R pivot = (R)uf_load<T, 1>(x + before * WIDTH).get(0);
        const double2 made =
            piece_statistics<R>(call, first, pivot, (first.end - before) * WIDTH, row, shared);
        if (phase == ROW_SUMS) {
            if (threadIdx.x == 0) {
                norm.partial[me.o * norm.pieces + me.piece] = made;
            }
            return;
        }
        mean = made.x;
        invstd = 1.0 / sqrt(made.y / (double)size + norm.eps);
        if (threadIdx.x % TEAM == 0) {
            norm.mean[me.o] = mean;
            norm.invstd[me.o] = invstd;
        }
    }
    const uf_norm_statistic<R> of = uf_norm_statistic_of<R>(mean, invstd);
    const int64_t base = me.o % norm.layout.groups * norm.params;
    T *const to = norm.to + me.o * size;
    each_vector(call, first, [&](int k, const row_cursor &at) {
        const auto params = params_at(call, base, at);
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            const auto z = uf_norm_z<T, R>(uf_norm_hat(of, (R)row[k].get(j)), (R)params.weight[j],
                                           (R)params.bias[j]);
            row[k].set(j, uf_norm_activate(norm.kind, z, norm.parameter));
        }
        uf_store<T, WIDTH>(to + at.v * WIDTH, row[k]);
    });
}

/* One block per row puts the statistics of its pieces together; all but the last one have
 * `length` elements. */
static __global__ void __launch_bounds__(BLOCK)
    norm_rows_statistics(const double2 *partial, int64_t pieces, int64_t length, int64_t size,
                         double eps, double *save_mean, double *save_invstd) {
    uf_overlap_launches();
    __shared__ double shared[32];
    const double2 *const own = partial + (int64_t)blockIdx.x * pieces;
    const double pivot = own[0].x;
    double sum = 0.0;
    for (int64_t i = threadIdx.x; i < pieces; i += BLOCK) {
        const int64_t count = i + 1 < pieces ? length : size - i * length;
        sum += (own[i].x - pivot) * (double)count;
    }
    const double mean = pivot + uf_block_sum(sum, shared) / (double)size;
    double scatter = 0.0;
    for (int64_t i = threadIdx.x; i < pieces; i += BLOCK) {
        const int64_t count = i + 1 < pieces ? length : size - i * length;
        scatter += own[i].y + (own[i].x - mean) * (own[i].x - mean) * (double)count;
    }
    scatter = uf_block_sum(scatter, shared);
    if (threadIdx.x == 0) {
        save_mean[blockIdx.x] = mean;
        save_invstd[blockIdx.x] = 1.0 / sqrt(scatter / (double)size + eps);
    }
}

/* ---- backward ---- */

template <typename T, typename R, int WIDTH, int TEAM>
static __global__ void __launch_bounds__(BLOCK, sizeof(R) == 8 ? 1 : 2)
    norm_rows_backward(row_call<T, WIDTH, TEAM> call, row_phase phase) {
    uf_overlap_launches();
    __shared__ double shared[32];
    typedef typename uf_norm_call<T>::param param;
    constexpr int KEPT = row_call<T, WIDTH, TEAM>::KEPT;
    const uf_norm_call<T> &norm = call.norm;
    const row_place me = place_of<TEAM>(norm.pieces);
    if (TEAM < BLOCK && me.o >= norm.layout.outer) {
        return; /* the whole warp */
    }
    const int64_t size = norm.layout.size;
    const int64_t base = me.o % norm.layout.groups * norm.params;
    const T *const x = norm.x + me.o * size, *const g = norm.g + me.o * size;
    const row_cursor first = call.begin(me.piece);
    uf_pack<T, WIDTH> row[KEPT], gradient[KEPT];
    each_vector(call, first, [&](int k, const row_cursor &at) {
        row[k] = uf_load<T, WIDTH>(x + at.v * WIDTH);
        gradient[k] = uf_load<T, WIDTH>(g + at.v * WIDTH);
    });
    const uf_norm_statistic<R> of = uf_norm_statistic_of<R>(norm.mean[me.o], norm.invstd[me.o]);
    R h[KEPT][WIDTH];
    double sum = 0.0, dot = 0.0;
    each_vector(call, first, [&](int k, const row_cursor &at) {
        const auto params = params_at(call, base, at);
        R part = (R)0, product = (R)0;
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            const R hat = uf_norm_hat(of, (R)row[k].get(j));
            const R weight = (R)params.weight[j];
            h[k][j] = uf_norm_gradient<T, R>(norm, hat, weight, (R)params.bias[j],
                                             (param)gradient[k].get(j)) *
                      weight;
            part += h[k][j];
            product += h[k][j] * hat;
        }
        sum += (double)part;
        dot += (double)product;
    });
    R mean_h, mean_dot;
    if (phase == ROW_APPLY) {
        mean_h = (R)norm.sums[me.o].x;
        mean_dot = (R)norm.sums[me.o].y;
    } else {
        sum = uf_norm_team_sum<TEAM>(sum, shared);
        dot = uf_norm_team_sum<TEAM>(dot, shared);
        if (phase == ROW_SUMS) {
            if (threadIdx.x == 0) {
                norm.partial[me.o * norm.pieces + me.piece] = {sum, dot};
            }
            return;
        }
        mean_h = (R)(sum / (double)size);
        mean_dot = (R)(dot / (double)size);
    }
    T *const to = norm.to + me.o * size;
    each_vector(call, first, [&](int k, const row_cursor &at) {
        uf_pack<T, WIDTH> old;
        if (norm.accumulate) {
            old = uf_load<T, WIDTH>(to + at.v * WIDTH);
        }
        uf_pack<T, WIDTH> made;
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            const R hat = uf_norm_hat(of, (R)row[k].get(j));
            const param value = (param)(of.invstd * (h[k][j] - mean_h - hat * mean_dot));
            made.set(j, norm.accumulate ? (param)old.get(j) + value : value);
        }
        uf_store<T, WIDTH>(to + at.v * WIDTH, made);
    });
}

/* One block per row: the means of both sums over its pieces. */
static __global__ void __launch_bounds__(BLOCK)
    norm_rows_sums(const double2 *partial, int64_t pieces, int64_t size, double2 *sums) {
    uf_overlap_launches();
    __shared__ double shared[32];
    const double2 *const own = partial + (int64_t)blockIdx.x * pieces;
    double sum = 0.0, dot = 0.0;
    for (int64_t i = threadIdx.x; i < pieces; i += BLOCK) {
        sum += own[i].x;
        dot += own[i].y;
    }
    sum = uf_block_sum(sum, shared);
    dot = uf_block_sum(dot, shared);
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = {sum / (double)size, dot / (double)size};
    }
}

/* ---- the launches ---- */

/* Elements that a team keeps. */
template <typename T, int WIDTH, int TEAM>
static constexpr int64_t capacity() {
    return (int64_t)TEAM * WIDTH * kept<T, WIDTH>::COUNT;
}

template <typename T, int WIDTH, int TEAM>
static row_call<T, WIDTH, TEAM> row_call_of(const uf_norm_kernel_args *args, const uf_view *to) {
    const uf_norm_layout &layout = args->layout;
    row_call<T, WIDTH, TEAM> made = {};
    made.norm = uf_norm_call_of<T>(args);
    made.norm.to = static_cast<T *>(to->data);
    made.norm.pieces = TEAM < BLOCK ? 1 : uf_div_up(layout.size, capacity<T, WIDTH, TEAM>());
    made.norm.partial = static_cast<double2 *>(args->workspace);
    made.norm.sums = made.norm.partial + layout.outer * made.norm.pieces;
    made.params = layout.run == layout.size ? PARAMS_ONE
                  : layout.run == 1         ? PARAMS_EACH
                                            : PARAMS_RUNS;
    made.vectors = layout.size / WIDTH;
    made.run_vectors = layout.run / WIDTH;
    if (made.params == PARAMS_RUNS) {
        made.step_run = TEAM / made.run_vectors;
        made.step_rest = TEAM % made.run_vectors;
    }
    return made;
}

template <typename T, typename R, int WIDTH, int TEAM>
static uf_status run(uf_context *context, const uf_norm_kernel_args *args, bool backward) {
    const uf_norm_layout &layout = args->layout;
    auto call = row_call_of<T, WIDTH, TEAM>(args, backward ? &args->grad_input : &args->output);
    call.norm.accumulate = backward && args->grad_input_mode == UF_ACCUMULATE;
    const int64_t pieces = call.norm.pieces;
    const unsigned grid =
        (unsigned)(TEAM < BLOCK ? uf_div_up(layout.outer, BLOCK / TEAM) : layout.outer * pieces);
    void (*const kernel)(row_call<T, WIDTH, TEAM>, row_phase) =
        backward ? norm_rows_backward<T, R, WIDTH, TEAM> : norm_rows_forward<T, R, WIDTH, TEAM>;
    const char *const name = backward ? "norm_rows_backward" : "norm_rows_forward";
    const uf_launch how = {dim3(grid), BLOCK};
    if (pieces == 1) {
        return uf_cuda_launch(context, name, how, kernel, call, ROW_ALONE);
    }
    UF_TRY(uf_cuda_launch(context, name, how, kernel, call, ROW_SUMS));
    const uf_launch sums = {dim3((unsigned)layout.outer), BLOCK};
    if (backward) {
        UF_TRY(uf_cuda_launch(context, "norm_rows_sums", sums, norm_rows_sums, call.norm.partial,
                              pieces, layout.size, call.norm.sums));
    } else {
        UF_TRY((uf_cuda_launch(context, "norm_rows_statistics", sums, norm_rows_statistics,
                               call.norm.partial, pieces, capacity<T, WIDTH, TEAM>(), layout.size,
                               args->eps, call.norm.mean, call.norm.invstd)));
    }
    return uf_cuda_launch(context, name, how, kernel, call, ROW_APPLY);
}

template <typename T, typename R, int WIDTH>
static uf_status run_width(uf_context *context, const uf_norm_kernel_args *args, bool backward) {
    return args->layout.size <= capacity<T, WIDTH, 32>()
               ? run<T, R, WIDTH, 32>(context, args, backward)
               : run<T, R, WIDTH, BLOCK>(context, args, backward);
}

/* Does each row begin at a multiple of 16 bytes, and do vectors have whole runs of parameters? */
template <typename T>
static bool takes_vectors(const uf_norm_kernel_args *args) {
    typedef typename uf_norm_call<T>::param param;
    constexpr int WIDTH = uf_vector<T>::COUNT;
    const uf_norm_layout &layout = args->layout;
    const void *const tensors[] = {args->input.data, args->output.data, args->grad_output.data,
                                   args->grad_input.data};
    bool takes = layout.size % WIDTH == 0 && (layout.run == 1 || layout.run % WIDTH == 0);
    for (const void *tensor : tensors) {
        takes = takes && uf_is_aligned<T, WIDTH>(tensor);
    }
    return takes && (layout.run != 1 || (uf_is_aligned<param, WIDTH>(args->weight.data) &&
                                         uf_is_aligned<param, WIDTH>(args->bias.data)));
}

template <typename T>
static uf_status run_rows(uf_context *context, const uf_norm_kernel_args *args, bool backward) {
    typedef typename uf_norm_call<T>::param param;
    if (args->layout.size <= UF_NORM_EXACT) {
        return run<T, double, 1, 32>(context, args, backward);
    }
    if (takes_vectors<T>(args)) {
        return run_width<T, param, uf_vector<T>::COUNT>(context, args, backward);
    }
    return run_width<T, param, 1>(context, args, backward);
}

uf_status uf_norm_rows_run(uf_context *context, const uf_norm_kernel_args *args, bool backward) {
    UF_NORM_DISPATCH(args->input.dtype, return run_rows<T>(context, args, backward));
}

size_t uf_norm_rows_workspace(const uf_norm_kernel_args *args, bool backward) {
    const int64_t pieces = uf_div_up(args->layout.size, capacity<float, 1, BLOCK>());
    const int64_t count = args->layout.outer * (pieces + (backward ? 1 : 0));
    return pieces > 1 ? (size_t)count * sizeof(double2) : 0;
}
