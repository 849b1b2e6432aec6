/* clang-format off */
/* batch_norm.cu - batch normalisation over (N, H, W) per channel, with an activation behind it. The
 * formulas stand at uf_batch_norm_kernel_args.
 *
 * Blocks share the channels as channel_plan.h says, a function of the shape alone.
 *   A short channel (pieces == 1): one launch. A block reads it from memory once, and has it in
 *   registers or in a cache when the sums are there.
 *   A longer one: a launch writes the sums of each piece to the workspace; in the next launch each
 *   block adds the sums of its channel's pieces, in order, and writes its piece.
 *
 * bytes moved, E of an element   whole   in pieces
 *   forward, training              2E       3E
 *   forward, running statistics    2E       2E
 *   backward                       3E       5E
 *
 * Sums are in f64. Statistics of a piece are taken about its first element, which bounds the
 * relative error of the variance by the number of its elements times 2^-53; pieces are combined by
 * means and squared deviations (Chan, Golub and LeVeque, 1983), in which nothing cancels.
 * Bound by memory. */
/* clang-format on */
#include "kernels/cuda/norm/batch_norm.cuh"

/* ---- forward ---- */

template <int WIDTH, bool WHOLE, int KEPT, typename T>
static __device__ __forceinline__ void load_kept(const norm_call<T> &call, int32_t left,
                                                 norm_place<T> &at, uf_pack<T, WIDTH> *x) {
    each_vector<KEPT>(call, left, at, [&](int k, const norm_place<T> &here) {
        x[k] = uf_load_vector<WIDTH, WHOLE>(call.x, here.x, here.p);
    });
}

/* The first element of a piece. */
template <int WIDTH, bool WHOLE, typename T>
static __device__ __forceinline__ double pivot_of(const norm_call<T> &call,
                                                  const uf_channel_thread &me) {
    uf_channel_thread head = me;
    head.member = 0;
    const uf_channel_walk walk = uf_channel_begin(call.plan, head, me.piece);
    if (walk.left == 0) {
        return 0.0;
    }
    const T *const plane = uf_plane_of(call.x, me, walk);
    return (double)uf_load_vector<1, WHOLE>(call.x, plane, walk.p * WIDTH).get(0);
}

/* Mean and sum of squared deviations of one piece. x has the first vectors already, and `load` is
 * behind them. */
template <int WIDTH, bool WHOLE, int KEPT, bool ONCE, typename T>
static __device__ __forceinline__ double2 piece_statistics(const norm_call<T> &call,
                                                           const uf_channel_thread &me,
                                                           int32_t left, double pivot,
                                                           norm_place<T> load, uf_pack<T, WIDTH> *x,
                                                           double2 *shared) {
    const uf_channel_plan &plan = call.plan;
    double2 sums = {0.0, 0.0};
#pragma unroll 1
    for (int32_t rest = left; rest > 0; rest -= ONCE ? rest : KEPT) {
        if (rest < left) {
            load_kept<WIDTH, WHOLE, KEPT>(call, rest, load, x);
        }
        each_kept<KEPT>(rest, [&](int k) {
#pragma unroll
            for (int j = 0; j < WIDTH; ++j) {
                const double d = (double)x[k].get(j) - pivot;
                sums.x += d;
                sums.y = fma(d, d, sums.y);
            }
        });
    }
    sums = uf_channel_sum2(plan, me, sums, shared);
    const int64_t behind = plan.vectors - me.piece * uf_channel_piece(&plan);
    const int64_t here = behind < uf_channel_piece(&plan) ? behind : uf_channel_piece(&plan);
    const double count = (double)(here * WIDTH);
    const double scatter = sums.y - sums.x * sums.x / count;
    const double2 made = {pivot + sums.x / count, scatter < 0.0 ? 0.0 : scatter};
    return made;
}

/* The same of the channel, from those of its pieces. */
template <typename T>
static __device__ double2 combined_statistics(const norm_call<T> &call, const uf_channel_thread &me,
                                              double2 *shared) {
    const uf_channel_plan &plan = call.plan;
    const double2 *const own = call.partial + me.channel * plan.pieces;
    const double full = (double)(uf_channel_piece(&plan) * plan.width);
    const double last = call.count - full * (double)(plan.pieces - 1);
    const int64_t pieces = me.works ? plan.pieces : 0;
    double2 sums = {0.0, 0.0};
#pragma unroll 1
    for (int64_t i = me.member; i < pieces; i += uf_channel_team(&plan)) {
        sums.x += (i + 1 < plan.pieces ? full : last) * own[i].x;
    }
    const double mean = uf_channel_sum2(plan, me, sums, shared).x / call.count;
    sums.x = 0.0;
#pragma unroll 1
    for (int64_t i = me.member; i < pieces; i += uf_channel_team(&plan)) {
        const double off = own[i].x - mean;
        sums.y += own[i].y + (i + 1 < plan.pieces ? full : last) * (off * off);
    }
    const double2 made = {mean, uf_channel_sum2(plan, me, sums, shared).y};
    return made;
}

/* A channel's first thread writes its statistics, once. */
template <typename T>
static __device__ void keep_statistics(const norm_call<T> &call, int64_t c, double mean,
                                       double scatter, double invstd) {
    typedef typename norm_call<T>::real real;
    if (call.save_mean.data != nullptr) {
        call.save_mean.data[c * call.save_mean.stride] = mean;
    }
    if (call.save_invstd.data != nullptr) {
        call.save_invstd.data[c * call.save_invstd.stride] = invstd;
    }
    const double now[2] = {mean, scatter / (call.count - 1.0)};
    const channel_values<real> running[2] = {call.running_mean, call.running_var};
    for (int i = 0; i < 2; ++i) {
        if (running[i].data != nullptr) {
            real *const to = running[i].data + c * running[i].stride;
            *to = (real)((1.0 - call.momentum) * (double)*to + call.momentum * now[i]);
        }
    }
}

template <typename T, int WIDTH, bool WHOLE, int KEPT, norm_phase PHASE>
static __global__ void NORM_BOUNDS(T, PHASE)
    batch_norm_forward(norm_call<T> call, norm_phase asked) {
    const norm_phase phase = PHASE == NORM_ANY ? asked : PHASE;
    enum { ONCE = PHASE == NORM_ALONE }; /* all vectors are kept */
    __shared__ double2 shared[UF_CHANNEL_BLOCK];
    typedef typename norm_call<T>::real real;
    const uf_channel_plan &plan = call.plan;
    const uf_channel_thread me = uf_channel_thread_of(plan, call.channels, norm_block(phase));
    const uf_channel_walk walk = uf_channel_begin(plan, me, me.piece);
    const norm_place<T> begin = place_of(call, me, walk);
    uf_overlap_launches();
    /* Loads are on their way before anything of this kernel is waited for. */
    uf_pack<T, WIDTH> x[KEPT];
    norm_place<T> load = begin;
    load_kept<WIDTH, WHOLE, KEPT>(call, walk.left, load, x);
    const norm_affine affine = affine_of(call, me);
    const bool first = me.works && me.member == 0;
    double mean = 0.0, invstd = 0.0;
    if (!call.training) {
        if (me.works) {
            mean = value_at(call.running_mean, me.channel, 0.0);
            invstd = 1.0 / sqrt(value_at(call.running_var, me.channel, 1.0) + call.eps);
        }
    } else {
        double2 made;
        if (phase == NORM_APPLY) {
            made = combined_statistics(call, me, shared);
        } else {
            double pivot = pivot_of<WIDTH, WHOLE>(call, me);
            /* infinity - infinity would hide the infinity */
            pivot = isfinite(pivot) ? pivot : 0.0;
            made = piece_statistics<WIDTH, WHOLE, KEPT, ONCE>(call, me, walk.left, pivot, load, x,
                                                              shared);
        }
        if (phase == NORM_SUMS) {
            if (first) {
                call.partial[me.channel * plan.pieces + me.piece] = made;
            }
            return;
        }
        mean = made.x;
        invstd = 1.0 / sqrt(made.y / call.count + call.eps);
        if (first && me.piece == 0) {
            keep_statistics(call, me.channel, mean, made.y, invstd);
        }
        if (blockIdx.x == 0 && threadIdx.x == 0 && call.num_batches_tracked != nullptr) {
            ++*call.num_batches_tracked;
        }
    }
    const norm_numbers<real> numbers = numbers_of<real>(affine, mean, invstd);
    /* Statistics of more vectors than are kept have left the last ones in x. */
    const bool loaded = ONCE || plan.steps <= KEPT || phase == NORM_APPLY || !call.training;
    norm_place<T> store = begin;
    load = loaded ? load : begin;
#pragma unroll 1
    for (int32_t rest = walk.left; rest > 0; rest -= ONCE ? rest : KEPT) {
        if (rest < walk.left || !loaded) {
            load_kept<WIDTH, WHOLE, KEPT>(call, rest, load, x);
        }
        each_vector<KEPT>(call, rest, store, [&](int k, const norm_place<T> &here) {
            real z[WIDTH];
#pragma unroll
            for (int j = 0; j < WIDTH; ++j) {
                z[j] = normalized(numbers, (real)x[k].get(j));
            }
            activate_vector<WIDTH>(call.kind, call.parameter, z);
#pragma unroll
            for (int j = 0; j < WIDTH; ++j) {
                x[k].set(j, z[j]);
            }
            uf_store_vector<WIDTH, WHOLE>(call.to, here.to, here.p, x[k]);
        });
    }
}

static __global__ void count_batch(int64_t *num_batches_tracked) {
    uf_overlap_launches();
    ++*num_batches_tracked;
}

/* ---- backward ---- */

template <int WIDTH, bool WHOLE, int KEPT, typename T>
static __device__ __forceinline__ void load_pair(const norm_call<T> &call, int32_t left,
                                                 norm_place<T> &at, uf_pack<T, WIDTH> *x,
                                                 uf_pack<T, WIDTH> *g) {
    each_vector<KEPT>(call, left, at, [&](int k, const norm_place<T> &here) {
        x[k] = uf_load_vector<WIDTH, WHOLE>(call.x, here.x, here.p);
        g[k] = uf_load_vector<WIDTH, WHOLE>(call.g, here.g, here.p);
    });
}

/* Sums of g and g*(x - mean) over one piece. x and g have its first vectors already, and `load` is
 * behind them. */
template <int WIDTH, bool WHOLE, int KEPT, bool ONCE, typename T>
static __device__ __forceinline__ double2
piece_sums(const norm_call<T> &call, const uf_channel_thread &me,
           const norm_numbers<typename norm_call<T>::real> &numbers, int32_t left,
           norm_place<T> load, uf_pack<T, WIDTH> *x, uf_pack<T, WIDTH> *g, double2 *shared) {
    typedef typename norm_call<T>::real real;
    double2 sums = {0.0, 0.0};
#pragma unroll 1
    for (int32_t rest = left; rest > 0; rest -= ONCE ? rest : KEPT) {
        if (rest < left) {
            load_pair<WIDTH, WHOLE, KEPT>(call, rest, load, x, g);
        }
        each_kept<KEPT>(rest, [&](int k) {
            real gradient[WIDTH];
            gradients_at<WIDTH>(call, numbers, x[k], g[k], gradient);
#pragma unroll
            for (int j = 0; j < WIDTH; ++j) {
                sums.x += (double)gradient[j];
                sums.y = fma((double)gradient[j], (double)(real)x[k].get(j) - numbers.mean, sums.y);
            }
        });
    }
    return uf_channel_sum2(call.plan, me, sums, shared);
}

/* grad_input = scale*g + b*x + offset over one piece. `loaded`: x and g have its first vectors, and
 * `load` is behind them. */
template <int WIDTH, bool WHOLE, int KEPT, bool ONCE, typename T>
static __device__ __forceinline__ void
write_piece(const norm_call<T> &call, const norm_numbers<typename norm_call<T>::real> &numbers,
            double b, double offset, int32_t left, bool loaded, norm_place<T> load,
            norm_place<T> store, uf_pack<T, WIDTH> *x, uf_pack<T, WIDTH> *g) {
    typedef typename norm_call<T>::real real;
#pragma unroll 1
    for (int32_t rest = left; rest > 0; rest -= ONCE ? rest : KEPT) {
        if (rest < left || !loaded) {
            load_pair<WIDTH, WHOLE, KEPT>(call, rest, load, x, g);
        }
        each_vector<KEPT>(call, rest, store, [&](int k, const norm_place<T> &here) {
            real gradient[WIDTH];
            gradients_at<WIDTH>(call, numbers, x[k], g[k], gradient);
            uf_pack<T, WIDTH> old;
            if (call.adds_to_input) {
                old = uf_load_vector<WIDTH, WHOLE>(call.to, here.to, here.p);
            }
#pragma unroll
            for (int j = 0; j < WIDTH; ++j) {
                const double value = (double)(real)x[k].get(j);
                const real made =
                    (real)fma(numbers.scale, (double)gradient[j], fma(b, value, offset));
                g[k].set(j, call.adds_to_input ? (real)old.get(j) + made : made);
            }
            uf_store_vector<WIDTH, WHOLE>(call.to, here.to, here.p, g[k]);
        });
    }
}

template <typename T, int WIDTH, bool WHOLE, int KEPT, norm_phase PHASE>
static __global__ void NORM_BOUNDS(T, PHASE)
    batch_norm_backward(norm_call<T> call, norm_phase asked) {
    const norm_phase phase = PHASE == NORM_ANY ? asked : PHASE;
    enum { ONCE = PHASE == NORM_ALONE }; /* all vectors are kept */
    __shared__ double2 shared[UF_CHANNEL_BLOCK];
    typedef typename norm_call<T>::real real;
    const uf_channel_plan &plan = call.plan;
    const uf_channel_thread me = uf_channel_thread_of(plan, call.channels, norm_block(phase));
    const uf_channel_walk walk = uf_channel_begin(plan, me, me.piece);
    const norm_place<T> begin = place_of(call, me, walk);
    const bool writes = call.to.data != nullptr;
    const bool sums_wanted =
        call.training || call.grad_weight.data != nullptr || call.grad_bias.data != nullptr;
    uf_overlap_launches();
    /* Loads are on their way before anything of this kernel is waited for. */
    uf_pack<T, WIDTH> x[KEPT], g[KEPT];
    norm_place<T> load = begin;
    if (phase != NORM_APPLY || writes) {
        load_pair<WIDTH, WHOLE, KEPT>(call, walk.left, load, x, g);
    }
    const norm_affine affine = affine_of(call, me);
    double mean = 0.0, invstd = 0.0;
    if (me.works && call.training) {
        mean = value_at(call.save_mean, me.channel, 0.0);
        invstd = value_at(call.save_invstd, me.channel, 1.0);
    } else if (me.works) {
        mean = value_at(call.running_mean, me.channel, 0.0);
        invstd = 1.0 / sqrt(value_at(call.running_var, me.channel, 1.0) + call.eps);
    }
    const norm_numbers<real> numbers = numbers_of<real>(affine, mean, invstd);
    if (phase == NORM_SUMS) {
        const double2 made =
            piece_sums<WIDTH, WHOLE, KEPT, ONCE>(call, me, numbers, walk.left, load, x, g, shared);
        if (me.works && me.member == 0) {
            call.partial[me.channel * plan.pieces + me.piece] = made;
        }
        return;
    }
    /* Pieces that this block makes the sums of. */
    const int64_t alone = ONCE ? 1 : phase == NORM_ALONE ? plan.pieces : 0;
    double2 total = {0.0, 0.0};
    if (sums_wanted) {
        /* Either phase gives the same pieces to the same thread: the bits are the same. */
#pragma unroll 1
        for (int64_t i = 0; i < alone; ++i) {
            uf_channel_walk at = walk;
            if (i > 0) {
                at = uf_channel_begin(plan, me, i);
                load = place_of(call, me, at);
                load_pair<WIDTH, WHOLE, KEPT>(call, at.left, load, x, g);
            }
            const double2 piece = piece_sums<WIDTH, WHOLE, KEPT, ONCE>(call, me, numbers, at.left,
                                                                       load, x, g, shared);
            if (i % uf_channel_team(&plan) == me.member) {
                total.x += piece.x;
                total.y += piece.y;
            }
        }
        if (phase == NORM_APPLY && me.works) {
            const double2 *const own = call.partial + me.channel * plan.pieces;
#pragma unroll 1
            for (int64_t i = me.member; i < plan.pieces; i += uf_channel_team(&plan)) {
                total.x += own[i].x;
                total.y += own[i].y;
            }
        }
        total = uf_channel_sum2(plan, me, total, shared);
    }
    if (!me.works) {
        return;
    }
    const double sum = total.x;
    const double dot = total.y * numbers.invstd;
    if (me.member == 0 && me.piece == 0) {
        const double sums[2] = {dot, sum};
        const channel_values<real> to[2] = {call.grad_weight, call.grad_bias};
        for (int i = 0; i < 2; ++i) {
            if (to[i].data != nullptr) {
                real *const at = to[i].data + me.channel * to[i].stride;
                *at = (real)(call.adds_to_parameters ? (double)*at + sums[i] : sums[i]);
            }
        }
    }
    if (!writes) {
        return;
    }
    const double b = call.training ? -numbers.scale * numbers.invstd * dot / call.count : 0.0;
    const double offset =
        call.training ? -numbers.scale * sum / call.count - b * numbers.mean : 0.0;
    /* Sums over more vectors than are kept have left the last ones in x and g. */
    const bool loaded = ONCE || phase == NORM_APPLY || (plan.pieces == 1 && plan.steps <= KEPT);
    const int64_t end = alone > 0 ? alone : me.piece + 1;
#pragma unroll 1
    for (int64_t i = me.piece; i < end; ++i) {
        const uf_channel_walk at = i == me.piece ? walk : uf_channel_begin(plan, me, i);
        const norm_place<T> store = place_of(call, me, at);
        write_piece<WIDTH, WHOLE, KEPT, ONCE>(call, numbers, b, offset, at.left, loaded,
                                              loaded ? load : store, store, x, g);
    }
}

/* ---- launches ---- */

static bool is_empty(const uf_view &view) {
    return uf_view_count(&view) == 0;
}

/* The sums of the pieces of long channels; 0 where a block keeps a channel. */
static size_t workspace_of(const uf_batch_norm_kernel_args *args, bool wanted) {
    if (!wanted || is_empty(args->input)) {
        return 0;
    }
    const uf_channel_plan plan =
        uf_channel_plan_of(args->input.extent, uf_dtype_size(args->input.dtype));
    return plan.pieces == 1 ? 0 : (size_t)(plan.pieces * args->input.extent[1]) * sizeof(double2);
}

extern "C" size_t uf_cuda_batch_norm_forward_workspace(uf_context *context,
                                                       const uf_batch_norm_kernel_args *args) {
    (void)context;
    return workspace_of(args, args->training);
}

static bool sums_wanted(const uf_batch_norm_kernel_args *args) {
    return args->training || args->grad_weight.data != NULL || args->grad_bias.data != NULL;
}

extern "C" size_t uf_cuda_batch_norm_backward_workspace(uf_context *context,
                                                        const uf_batch_norm_kernel_args *args) {
    (void)context;
    return workspace_of(args, sums_wanted(args));
}

template <typename T>
static norm_call<T> call_of(const uf_batch_norm_kernel_args &args) {
    typedef typename norm_call<T>::real real;
    norm_call<T> made;
    made.plan = uf_channel_plan_of(args.input.extent, sizeof(T));
    made.channels = args.input.extent[1];
    made.count = (double)(args.input.extent[0] * args.input.extent[2] * args.input.extent[3]);
    made.x = uf_planes_of<T>(args.input, made.plan);
    made.g.data = nullptr;
    made.weight = channel_values_of<real>(args.weight);
    made.bias = channel_values_of<real>(args.bias);
    made.running_mean = channel_values_of<real>(args.running_mean);
    made.running_var = channel_values_of<real>(args.running_var);
    made.grad_weight = channel_values_of<real>(args.grad_weight);
    made.grad_bias = channel_values_of<real>(args.grad_bias);
    made.save_mean = channel_values_of<double>(args.save_mean);
    made.save_invstd = channel_values_of<double>(args.save_invstd);
    made.num_batches_tracked = args.num_batches_tracked;
    made.partial = (double2 *)args.workspace;
    made.eps = args.eps;
    made.momentum = args.momentum;
    made.kind = args.activation.kind;
    made.parameter = (real)args.activation.parameter;
    made.training = args.training;
    made.adds_to_input = args.grad_input_mode == UF_ACCUMULATE;
    made.adds_to_parameters = args.grad_param_mode == UF_ACCUMULATE;
    return made;
}

/* May kernels move vectors of all tensors of the call at once? */
template <typename T>
static bool is_whole(const norm_call<T> &call) {
    return call.x.whole && (call.g.data == nullptr || call.g.whole) &&
           (call.to.data == nullptr || call.to.whole);
}

template <typename T>
using norm_kernel = void (*)(norm_call<T> call, norm_phase phase);

/* Kernels of one direction by phase: for whole vectors one each, for others one for all. Planes
 * whose elements do not fill vectors go by single ones, as a PatchGAN's 31 x 31; f64 has one kernel
 * for these. */
template <typename T>
struct norm_kernels {
    norm_kernel<T> whole[NORM_ANY], single[NORM_ANY], pieced, scalar;
};

template <typename T>
static uf_status launch(uf_context *context, const norm_kernels<T> &kernels,
                        const norm_call<T> &call, norm_phase phase, unsigned blocks,
                        const char *name) {
    const bool by_one = call.plan.width == 1;
    const bool whole = is_whole(call) && (phase != NORM_ALONE || call.plan.pieces == 1);
    const norm_kernel<T> of_phase = by_one ? kernels.single[phase] : kernels.whole[phase];
    const norm_kernel<T> of_any = by_one ? kernels.scalar : kernels.pieced;
    return uf_cuda_launch(context, name, {dim3(blocks), UF_CHANNEL_BLOCK},
                          whole && of_phase != nullptr ? of_phase : of_any, call, phase);
}

template <typename T, norm_phase PHASE>
static constexpr norm_kernel<T> single_forward() {
    if constexpr (sizeof(T) == 8) {
        return nullptr;
    } else {
        return batch_norm_forward<T, 1, true, KEPT_ALONE, PHASE>;
    }
}

template <typename T>
static uf_status forward_as(uf_context *context, const uf_batch_norm_kernel_args *args) {
    enum { WIDTH = uf_vector<T>::COUNT };
    static const norm_kernels<T> kernels = {
        {batch_norm_forward<T, WIDTH, true, KEPT_ALONE, NORM_ALONE>,
         batch_norm_forward<T, WIDTH, true, KEPT_FORWARD, NORM_SUMS>,
         batch_norm_forward<T, WIDTH, true, KEPT_FORWARD, NORM_APPLY>},
        {single_forward<T, NORM_ALONE>(), single_forward<T, NORM_SUMS>(),
         single_forward<T, NORM_APPLY>()},
        batch_norm_forward<T, WIDTH, false, KEPT_BACKWARD, NORM_ANY>,
        batch_norm_forward<T, 1, false, KEPT_ALONE, NORM_ANY>};
    norm_call<T> call = call_of<T>(*args);
    call.to = uf_planes_of<T>(args->output, call.plan);
    const unsigned blocks = (unsigned)(call.plan.groups * call.plan.pieces);
    const bool in_pieces = call.training && call.plan.pieces > 1;
    if (in_pieces) {
        UF_TRY(launch(context, kernels, call, NORM_SUMS, blocks, "batch_norm_forward, sums"));
    }
    /* Running statistics are there: a block needs no other, and no channel alone. */
    const norm_phase phase = in_pieces || !call.training ? NORM_APPLY : NORM_ALONE;
    return launch(context, kernels, call, phase, blocks, "batch_norm_forward");
}

extern "C" uf_status uf_cuda_batch_norm_forward(uf_context *context,
                                                const uf_batch_norm_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_stored("batch_norm_forward", args->input.dtype));
    if (is_empty(args->input)) {
        if (args->training && args->num_batches_tracked != NULL) {
            return uf_cuda_launch(context, "count_batch", {dim3(1), 1}, count_batch,
                                  args->num_batches_tracked);
        }
        return UF_OK;
    }
    const size_t needed = uf_cuda_batch_norm_forward_workspace(context, args);
    if (args->workspace_size < needed) {
        UF_FAIL(UF_ERROR_INTERNAL,
                "batch_norm_forward was given %zu bytes of workspace and needs "
                "%zu",
                args->workspace_size, needed);
    }
    return args->input.dtype == UF_F64    ? forward_as<double>(context, args)
           : args->input.dtype == UF_BF16 ? forward_as<uf_bf16>(context, args)
                                          : forward_as<float>(context, args);
}

template <typename T, norm_phase PHASE>
static constexpr norm_kernel<T> single_backward() {
    if constexpr (sizeof(T) == 8) {
        return nullptr;
    } else {
        return batch_norm_backward<T, 1, true, KEPT_ALONE, PHASE>;
    }
}

/* Less workspace than is wanted is none: then a block makes its channels' sums alone. */
template <typename T>
static uf_status backward_as(uf_context *context, const uf_batch_norm_kernel_args *args) {
    enum { WIDTH = uf_vector<T>::COUNT };
    static const norm_kernels<T> kernels = {
        {batch_norm_backward<T, WIDTH, true, KEPT_ALONE, NORM_ALONE>,
         batch_norm_backward<T, WIDTH, true, KEPT_BACKWARD, NORM_SUMS>,
         batch_norm_backward<T, WIDTH, true, KEPT_BACKWARD, NORM_APPLY>},
        {single_backward<T, NORM_ALONE>(), single_backward<T, NORM_SUMS>(),
         single_backward<T, NORM_APPLY>()},
        batch_norm_backward<T, WIDTH, false, KEPT_BACKWARD, NORM_ANY>,
        batch_norm_backward<T, 1, false, KEPT_ALONE, NORM_ANY>};
    norm_call<T> call = call_of<T>(*args);
    call.g = uf_planes_of<T>(args->grad_output, call.plan);
    call.to = uf_planes_of<T>(args->grad_input, call.plan);
    const unsigned groups = (unsigned)call.plan.groups;
    const unsigned blocks = groups * (unsigned)call.plan.pieces;
    const bool wanted = sums_wanted(args);
    const bool in_pieces =
        wanted && call.plan.pieces > 1 &&
        args->workspace_size >= uf_cuda_batch_norm_backward_workspace(context, args);
    if (in_pieces) {
        UF_TRY(launch(context, kernels, call, NORM_SUMS, blocks, "batch_norm_backward, sums"));
    }
    const norm_phase phase = in_pieces || !wanted ? NORM_APPLY : NORM_ALONE;
    /* Without grad_input only the blocks of first pieces have something to write. */
    const unsigned applying = phase == NORM_ALONE || call.to.data == NULL ? groups : blocks;
    return launch(context, kernels, call, phase, applying, "batch_norm_backward");
}

extern "C" uf_status uf_cuda_batch_norm_backward(uf_context *context,
                                                 const uf_batch_norm_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_stored("batch_norm_backward", args->grad_output.dtype));
    if (is_empty(args->input) || (!sums_wanted(args) && args->grad_input.data == NULL)) {
        return UF_OK;
    }
    return args->input.dtype == UF_F64    ? backward_as<double>(context, args)
           : args->input.dtype == UF_BF16 ? backward_as<uf_bf16>(context, args)
                                          : backward_as<float>(context, args);
}

/* ---- folding ---- */

/* A folded scale and shift have the type of the tensors: bf16 beside f32 parameters. */
template <typename T, typename To>
static __global__ void __launch_bounds__(UF_BLOCK)
    batch_norm_fold(channel_values<T> running_mean, channel_values<T> running_var,
                    channel_values<T> weight, channel_values<T> bias, channel_values<T> input_bias,
                    double eps, channel_values<To> scale, channel_values<To> shift,
                    int64_t channels) {
    uf_overlap_launches();
    UF_EACH(int64_t, c, channels) {
        const double a = value_at(weight, c, 1.0) / sqrt(value_at(running_var, c, 1.0) + eps);
        const double offset = value_at(input_bias, c, 0.0) - value_at(running_mean, c, 0.0);
        scale.data[c * scale.stride] = (To)a;
        shift.data[c * shift.stride] = (To)(value_at(bias, c, 0.0) + offset * a);
    }
}

template <typename T, typename To>
static uf_status launch_fold(uf_context *context, const uf_batch_norm_fold_kernel_args *args) {
    return uf_cuda_launch(
        context, "batch_norm_fold", {dim3(uf_blocks(args->scale.extent[1])), UF_BLOCK},
        batch_norm_fold<T, To>, channel_values_of<T>(args->running_mean),
        channel_values_of<T>(args->running_var), channel_values_of<T>(args->weight),
        channel_values_of<T>(args->bias), channel_values_of<T>(args->input_bias), args->eps,
        channel_values_of<To>(args->scale), channel_values_of<To>(args->shift),
        args->scale.extent[1]);
}

extern "C" uf_status uf_cuda_batch_norm_fold(uf_context *context,
                                             const uf_batch_norm_fold_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_stored("batch_norm_fold", args->scale.dtype));
    return args->scale.dtype == UF_F64    ? launch_fold<double, double>(context, args)
           : args->scale.dtype == UF_BF16 ? launch_fold<float, uf_bf16>(context, args)
                                          : launch_fold<float, float>(context, args);
}
