/* launch.cu - naive: right everywhere, and the only path of f64.
 *
 * Computes: fprop, dgrad and wgrad.
 * Shapes and limits: any geometry, any strides, any size; f32, f64 and bf16.
 * GEMM mapping: none. fprop and dgrad are one dense correlation (geometry.h): a thread has one
 *     written element, finds its phase of each axis and walks the taps of that phase alone.
 *     wgrad: a block has 4 x 4 pairs (k, c) of one tap and one piece of the pixels.
 * Data path: global memory to registers. No scatter, so no atomics.
 * Precision: sums of a few dozen products feed a two-sum, so that the error of a long reduction
 *     is that of a short one. bf16 is a storage type: sums and epilogue are f32, rounded once.
 * Split and order of sums: the pieces of wgrad follow from the shape (plan.c); a second kernel
 *     adds their sums in order.
 * Bound by: load units. fprop and dgrad have two loads for a product, wgrad eight for sixteen.
 * Chosen when: its cost (plan.c) is the least, or no other variant takes the problem.
 */
#include "kernels/cuda/elementwise/activation.cuh"
#include "kernels/cuda/conv/naive/plan.h"
#include "kernels/cuda/conv/registry.h"
#include "kernels/cuda/device/element.cuh"
#include "kernels/geometry.h"

/* Phases that fit the kernel's parameters; larger strides compute theirs in the thread. */
enum { PHASES = 16 };

/* One axis of the correlation; arrays are by written index mod out_step. */
template <typename I>
struct correlation_axis {
    I extent; /* of the side that is read */
    I out_step, in_step, in_tap_step, tap_step;
    I in_first[PHASES], tap_first[PHASES], taps[PHASES];
    bool tabled;
    int64_t kernel, stride, padding, dilation, written; /* to make an entry in the thread */
};

/* The taps of one written index that lie inside: filter index tap + t*tap_step meets element
 * read + t*read_step for 0 <= t < count. */
template <typename I>
struct tap_range {
    I tap, tap_step, read, read_step, count;
};

template <typename I>
static __device__ __forceinline__ tap_range<I> taps_of(const correlation_axis<I> &axis, I written) {
    const I j = written / axis.out_step;
    const I phase = written - j * axis.out_step;
    I in_first, tap_first, taps;
    if (axis.tabled) {
        in_first = axis.in_first[phase];
        tap_first = axis.tap_first[phase];
        taps = axis.taps[phase];
    } else {
        const uf_axis_walk walk =
            uf_axis_dgrad(axis.written, axis.kernel, axis.stride, axis.padding, axis.dilation,
                          ((int64_t)phase + axis.padding) % axis.stride);
        in_first = (I)walk.in_first;
        tap_first = (I)walk.tap_first;
        taps = (I)walk.taps;
    }
    const I first = j * axis.in_step + in_first;
    const I step = axis.in_tap_step;
    I begin = 0;
    I end = taps;
    if (step > 0) {
        begin = first < 0 ? (-first + step - 1) / step : (I)0;
        const I inside = first < axis.extent ? (axis.extent - 1 - first) / step + 1 : (I)0;
        end = inside < end ? inside : end;
    } else {
        begin = first >= axis.extent ? (first - axis.extent) / -step + 1 : (I)0;
        const I inside = first >= 0 ? first / -step + 1 : (I)0;
        end = inside < end ? inside : end;
    }
    tap_range<I> range;
    range.tap = tap_first + begin * axis.tap_step;
    range.tap_step = axis.tap_step;
    range.read = first + begin * step;
    range.read_step = step;
    range.count = end > begin ? end - begin : (I)0;
    return range;
}

template <typename T>
struct correlation_views {
    uf_cuda_view<T> read, written;
    const T *weight;
    int64_t w_written, w_read, w_group, w_row,
        w_column; /* strides of w as this direction sees it */
    const T *scale, *shift;
    int64_t scale_stride, shift_stride;
};

template <typename T, typename I>
static __global__ void __launch_bounds__(UF_BLOCK)
    conv_naive_correlate(correlation_views<T> views, correlation_axis<I> rows,
                         correlation_axis<I> columns, I written_per_group, I read_per_group,
                         I count, uf_activation_kind kind,
                         typename uf_arithmetic<T>::type parameter, bool accumulate) {
    typedef typename uf_arithmetic<T>::type A;
    uf_overlap_launches();
    UF_EACH(I, i, count) {
        const uf_position<I> at = uf_locate<I>(
            i, (I)views.written.extent[1], (I)views.written.extent[2], (I)views.written.extent[3]);
        const I group = at.c / written_per_group;
        const tap_range<I> down = taps_of(rows, at.h);
        const tap_range<I> across = taps_of(columns, at.w);
        const T *source = views.read.data + at.n * views.read.stride[0] +
                          (int64_t)group * read_per_group * views.read.stride[1] +
                          down.read * views.read.stride[2] + across.read * views.read.stride[3];
        const T *weight = views.weight + (int64_t)group * views.w_group +
                          (int64_t)(at.c - group * written_per_group) * views.w_written +
                          down.tap * views.w_row + across.tap * views.w_column;
        const int64_t source_row = down.read_step * views.read.stride[2];
        const int64_t source_column = across.read_step * views.read.stride[3];
        const int64_t weight_row = down.tap_step * views.w_row;
        const int64_t weight_column = across.tap_step * views.w_column;
        uf_long_sum<A> sum;
        sum.clear();
        A partial = 0;
        int pending = 0;
        if (down.count > 0 && across.count > 0) {
            for (I c = 0; c < read_per_group; ++c) {
                const T *source_at = source;
                const T *weight_at = weight;
                for (I r = 0; r < down.count; ++r) {
                    for (I s = 0; s < across.count; ++s) {
                        partial +=
                            (A)source_at[s * source_column] * (A)weight_at[s * weight_column];
                    }
                    pending += across.count < 64 ? (int)across.count : 64;
                    if (pending >= 32) {
                        sum.add(partial);
                        partial = 0;
                        pending = 0;
                    }
                    source_at += source_row;
                    weight_at += weight_row;
                }
                source += views.read.stride[1];
                weight += views.w_read;
            }
        }
        sum.add(partial);
        A value = sum.total();
        if (views.scale != nullptr) {
            value *= (A)views.scale[at.c * views.scale_stride];
        }
        if (views.shift != nullptr) {
            value += (A)views.shift[at.c * views.shift_stride];
        }
        value = uf_activate(kind, value, parameter);
        T *const to = views.written.data + uf_offset(views.written, at.n, at.c, at.h, at.w);
        *to = (T)(accumulate ? (A)*to + value : value);
    }
}

static bool all_below(const uf_conv_kernel_args *args, int64_t limit) {
    for (int axis = 0; axis < 2; ++axis) {
        const int64_t reach = (args->w.extent[2 + axis] - 1) * args->dilation[axis];
        if (args->x.extent[2 + axis] >= limit || args->y.extent[2 + axis] >= limit ||
            args->padding[axis] >= limit || args->stride[axis] >= limit || reach >= limit ||
            (args->y.extent[2 + axis] - 1) * args->stride[axis] >= limit) {
            return false;
        }
    }
    return true;
}

template <typename I>
static correlation_axis<I> axis_of(const uf_conv_kernel_args *args, bool dgrad, int axis) {
    correlation_axis<I> made;
    const int64_t kernel = args->w.extent[2 + axis];
    const int64_t stride = args->stride[axis];
    const int64_t padding = args->padding[axis];
    const int64_t dilation = args->dilation[axis];
    const int64_t phases = dgrad ? stride : 1;
    made.extent = (I)(dgrad ? args->y.extent[2 + axis] : args->x.extent[2 + axis]);
    made.kernel = kernel;
    made.stride = stride;
    made.padding = padding;
    made.dilation = dilation;
    made.written = args->x.extent[2 + axis];
    made.tabled = phases <= PHASES;
    for (int64_t entry = 0; entry < PHASES; ++entry) {
        const bool there = entry < phases;
        const int64_t first = there ? entry : 0;
        const uf_axis_walk walk =
            dgrad ? uf_axis_dgrad(args->x.extent[2 + axis], kernel, stride, padding, dilation,
                                  (first + padding) % stride)
                  : uf_axis_fprop(args->y.extent[2 + axis], kernel, stride, padding, dilation);
        if (entry == 0) {
            made.out_step = (I)walk.out_step;
            made.in_step = (I)walk.in_step;
            made.in_tap_step = (I)walk.in_tap_step;
            made.tap_step = (I)walk.tap_step;
        }
        made.in_first[entry] = (I)walk.in_first;
        made.tap_first[entry] = (I)walk.tap_first;
        made.taps[entry] = (I)walk.taps;
    }
    return made;
}

template <typename T, typename I>
static uf_status launch_correlate(uf_context *context, const uf_conv_kernel_args *args,
                                  bool dgrad) {
    const uf_view &written = dgrad ? args->x : args->y;
    const int64_t k_per_group = args->w.extent[0] / args->groups;
    const int64_t c_per_group = args->w.extent[1];
    const int64_t count = uf_view_count(&written);
    const uf_epilogue &epilogue = args->epilogue;
    correlation_views<T> views;
    views.read = uf_cuda_view_of<T>(dgrad ? args->y : args->x);
    views.written = uf_cuda_view_of<T>(written);
    views.weight = (const T *)args->w.data;
    views.w_group = k_per_group * args->w.stride[0];
    views.w_written = args->w.stride[dgrad ? 1 : 0];
    views.w_read = args->w.stride[dgrad ? 0 : 1];
    views.w_row = args->w.stride[2];
    views.w_column = args->w.stride[3];
    views.scale = (const T *)epilogue.scale.data;
    views.scale_stride = epilogue.scale.stride[1];
    views.shift = (const T *)epilogue.shift.data;
    views.shift_stride = epilogue.shift.stride[1];
    return uf_cuda_launch(
        context, "conv_naive_correlate", {dim3(uf_blocks(count)), UF_BLOCK},
        conv_naive_correlate<T, I>, views, axis_of<I>(args, dgrad, 0), axis_of<I>(args, dgrad, 1),
        (I)(dgrad ? c_per_group : k_per_group), (I)(dgrad ? k_per_group : c_per_group), (I)count,
        epilogue.activation.kind, (typename uf_arithmetic<T>::type)epilogue.activation.parameter,
        args->mode == UF_ACCUMULATE);
}

/* ---- weight gradient ---- */

template <typename T, typename I>
static __global__ void __launch_bounds__(UF_BLOCK)
    conv_naive_wgrad(uf_cuda_view<T> x, uf_cuda_view<T> y, uf_cuda_view<T> w,
                     typename uf_arithmetic<T>::type *partial, naive_wgrad_plan plan,
                     int64_t stride_h, int64_t stride_w, int64_t padding_h, int64_t padding_w,
                     int64_t dilation_h, int64_t dilation_w, bool accumulate) {
    typedef typename uf_arithmetic<T>::type A;
    __shared__ A shared[32];
    uf_overlap_launches();
    int64_t tile = blockIdx.x;
    const int64_t s = tile % w.extent[3];
    tile /= w.extent[3];
    const int64_t r = tile % w.extent[2];
    tile /= w.extent[2];
    const int64_t c0 = tile % plan.c_tiles * NAIVE_TILE;
    tile /= plan.c_tiles;
    const int64_t k0 = tile % plan.k_tiles * NAIVE_TILE;
    const int64_t group = tile / plan.k_tiles;
    const int64_t begin = (int64_t)blockIdx.y * plan.piece;
    const int64_t end = plan.pixels - begin < plan.piece ? plan.pixels : begin + plan.piece;
    const I height = (I)y.extent[2];
    const I width = (I)y.extent[3];
    const int64_t h_first = r * dilation_h - padding_h;
    const int64_t w_first = s * dilation_w - padding_w;
    const T *const x_base = x.data + (group * plan.c_per_group + c0) * x.stride[1];
    const T *const y_base = y.data + (group * plan.k_per_group + k0) * y.stride[1];
    A sum[NAIVE_TILE][NAIVE_TILE] = {};
    for (int64_t i = begin + threadIdx.x; i < end; i += UF_BLOCK) {
        const uf_position<I> at = uf_locate<I>((I)i, (I)1, height, width);
        const int64_t h = at.h * stride_h + h_first;
        const int64_t col = at.w * stride_w + w_first;
        if (h < 0 || h >= x.extent[2] || col < 0 || col >= x.extent[3]) {
            continue;
        }
        const T *const x_at = x_base + at.n * x.stride[0] + h * x.stride[2] + col * x.stride[3];
        const T *const y_at = y_base + at.n * y.stride[0] + at.h * y.stride[2] + at.w * y.stride[3];
        A a[NAIVE_TILE], b[NAIVE_TILE];
#pragma unroll
        for (int j = 0; j < NAIVE_TILE; ++j) {
            a[j] = k0 + j < plan.k_per_group ? (A)y_at[j * y.stride[1]] : (A)0;
            b[j] = c0 + j < plan.c_per_group ? (A)x_at[j * x.stride[1]] : (A)0;
        }
#pragma unroll
        for (int k = 0; k < NAIVE_TILE; ++k) {
#pragma unroll
            for (int c = 0; c < NAIVE_TILE; ++c) {
                sum[k][c] += a[k] * b[c];
            }
        }
    }
    const int64_t taps = w.extent[2] * w.extent[3];
    const int64_t w_count = w.extent[0] * w.extent[1] * taps;
#pragma unroll
    for (int k = 0; k < NAIVE_TILE; ++k) {
#pragma unroll
        for (int c = 0; c < NAIVE_TILE; ++c) {
            const A total = uf_block_sum(sum[k][c], shared);
            if (threadIdx.x != 0 || k0 + k >= plan.k_per_group || c0 + c >= plan.c_per_group) {
                continue;
            }
            const int64_t row = group * plan.k_per_group + k0 + k;
            if (partial != nullptr) {
                partial[blockIdx.y * w_count + (row * plan.c_per_group + c0 + c) * taps +
                        r * w.extent[3] + s] = total;
            } else {
                T *const to = w.data + uf_offset(w, row, c0 + c, r, s);
                *to = (T)(accumulate ? (A)*to + total : total);
            }
        }
    }
}

template <typename T, typename I>
static __global__ void __launch_bounds__(UF_BLOCK)
    conv_add_splits(const typename uf_arithmetic<T>::type *partial, int splits, uf_cuda_view<T> w,
                    I count, bool accumulate) {
    typedef typename uf_arithmetic<T>::type A;
    uf_overlap_launches();
    UF_EACH(I, i, count) {
        uf_long_sum<A> sum;
        sum.clear();
        const A *from = partial + i;
        for (int split = 0; split < splits; ++split, from += count) {
            sum.add(*from);
        }
        const uf_position<I> at = uf_locate<I>(i, (I)w.extent[1], (I)w.extent[2], (I)w.extent[3]);
        T *const to = w.data + uf_offset(w, at.n, at.c, at.h, at.w);
        *to = (T)(accumulate ? (A)*to + sum.total() : sum.total());
    }
}

/* w = the sum over `splits` partial weight gradients, each in C order, in `partial` (the arithmetic
 * type of w); honours the strides of w and the write mode. */
static uf_status add_splits(uf_context *context, const uf_conv_kernel_args *args,
                            const void *partial, int64_t splits) {
    const int64_t count = uf_view_count(&args->w);
    const bool accumulate = args->mode == UF_ACCUMULATE;
    UF_DISPATCH_STORED(args->w.dtype, count,
                       return uf_cuda_launch(
                           context, "conv_add_splits", {dim3(uf_blocks(count)), UF_BLOCK},
                           conv_add_splits<T, I>, (const typename uf_arithmetic<T>::type *)partial,
                           (int)splits, uf_cuda_view_of<T>(args->w), (I)count, accumulate));
}

template <typename T, typename I>
static uf_status launch_wgrad(uf_context *context, const uf_conv_kernel_args *args,
                              const naive_wgrad_plan &plan) {
    const dim3 grid((unsigned)plan.tiles, (unsigned)plan.splits);
    typedef typename uf_arithmetic<T>::type A;
    UF_TRY(uf_cuda_launch(context, "conv_naive_wgrad", {grid, UF_BLOCK}, conv_naive_wgrad<T, I>,
                          uf_cuda_view_of<T>(args->x), uf_cuda_view_of<T>(args->y),
                          uf_cuda_view_of<T>(args->w),
                          plan.splits > 1 ? (A *)args->workspace : (A *)nullptr, plan,
                          args->stride[0], args->stride[1], args->padding[0], args->padding[1],
                          args->dilation[0], args->dilation[1], args->mode == UF_ACCUMULATE));
    return plan.splits > 1 ? add_splits(context, args, args->workspace, plan.splits) : UF_OK;
}

extern "C" uf_status uf_conv_launch_naive(uf_context *context, const uf_conv_problem *problem,
                                          const uf_conv_plan *) {
    const uf_conv_kernel_args *args = problem->args;
    UF_TRY(uf_cuda_needs_stored("convolution", args->x.dtype));
    /* Positions past the 32-bit range, padding included, take the 64-bit kernel. */
    const int64_t count =
        all_below(args, INT64_C(1) << 29) ? uf_view_count(uf_conv_written(problem)) : INT64_MAX;
    UF_DISPATCH_STORED(
        args->x.dtype, count,
        return launch_correlate<T, I>(context, args, problem->direction == UF_CONV_DGRAD));
}

extern "C" uf_status uf_conv_launch_naive_wgrad(uf_context *context, const uf_conv_problem *problem,
                                                const uf_conv_plan *chosen) {
    const uf_conv_kernel_args *args = problem->args;
    const naive_wgrad_plan &plan = *UF_CONV_CONST_PLAN_OF(naive_wgrad_plan, chosen);
    UF_TRY(uf_cuda_needs_stored("convolution", args->x.dtype));
    if (plan.tiles > INT_MAX) {
        UF_FAIL(UF_ERROR_UNSUPPORTED, "conv_wgrad: the weight has more elements than a GPU grid");
    }
    UF_DISPATCH_STORED(args->x.dtype, plan.pixels, return launch_wgrad<T, I>(context, args, plan));
}
