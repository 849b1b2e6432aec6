/* launch.cu - convolution for any geometry, any strides, any size, f32, f64 and bf16: the kernels
 * that are right everywhere, and the f64 path.
 *
 * fprop and dgrad are one dense correlation (geometry.h): each thread owns one written element,
 * finds its phase per axis and walks the taps of that phase alone. wgrad: each block owns 4 x 4 (k,
 * c) pairs of one tap and one piece of the pixels; pieces follow from the shape, their sums go to
 * the workspace and are added in order by a second launch. Nothing is scattered, so nothing is
 * atomic.
 *
 * Bound by the load units: two loads per multiplication in the correlation, eight for sixteen in
 * wgrad. Sums of a few dozen MMAs feed a two-sum, which keeps the error of a long reduction that of
 * a short one. bf16 is how tensors are stored: sums, and the epilogue, are f32 and rounded once. */
#include "kernels/cuda/elementwise/activation.cuh"
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/device/element.cuh"
#include "kernels/geometry.h"

/* Phases that fit the kernel's parameters; larger strides compute theirs in the thread. */
enum { PHASES = 16 };

/* One axis of the correlation; entries by written index mod out_step. */
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
static void launch_correlate(uf_context *context, const uf_conv_kernel_args *args, bool dgrad) {
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
    conv_naive_correlate<T, I><<<uf_blocks(count), UF_BLOCK, 0, uf_cuda_stream(context)>>>(
        views, axis_of<I>(args, dgrad, 0), axis_of<I>(args, dgrad, 1),
        (I)(dgrad ? c_per_group : k_per_group), (I)(dgrad ? k_per_group : c_per_group), (I)count,
        epilogue.activation.kind, (typename uf_arithmetic<T>::type)epilogue.activation.parameter,
        args->mode == UF_ACCUMULATE);
}

/* ---- weight gradient ---- */

enum { TILE = 4 };

struct naive_wgrad_plan {
    int64_t k_per_group, c_per_group, k_tiles, c_tiles, tiles; /* tiles: of all groups and taps */
    int64_t pixels, piece, splits;
};

static int64_t div_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static naive_wgrad_plan plan_wgrad(const uf_conv_kernel_args *args) {
    naive_wgrad_plan plan;
    plan.k_per_group = args->w.extent[0] / args->groups;
    plan.c_per_group = args->w.extent[1];
    plan.k_tiles = div_up(plan.k_per_group, TILE);
    plan.c_tiles = div_up(plan.c_per_group, TILE);
    plan.tiles = args->groups * plan.k_tiles * plan.c_tiles * args->w.extent[2] * args->w.extent[3];
    plan.pixels = args->y.extent[0] * args->y.extent[2] * args->y.extent[3];
    /* Enough blocks for any GPU, but pieces long enough to pay for the reduction at their end and
     * short enough for plain sums: 256 MMAs per thread. */
    int64_t piece = div_up(plan.pixels, div_up(2048, plan.tiles));
    piece = piece < 2048 ? 2048 : piece > 65536 ? 65536 : piece;
    if (plan.pixels / piece > 4096) {
        piece = div_up(plan.pixels, 4096);
    }
    plan.piece = piece;
    plan.splits = plan.pixels > 0 ? div_up(plan.pixels, piece) : 1;
    return plan;
}

template <typename T, typename I>
static __global__ void __launch_bounds__(UF_BLOCK)
    conv_naive_wgrad(uf_cuda_view<T> x, uf_cuda_view<T> y, uf_cuda_view<T> w,
                     typename uf_arithmetic<T>::type *partial, naive_wgrad_plan plan,
                     int64_t stride_h, int64_t stride_w, int64_t padding_h, int64_t padding_w,
                     int64_t dilation_h, int64_t dilation_w, bool accumulate) {
    typedef typename uf_arithmetic<T>::type A;
    __shared__ A shared[32];
    int64_t tile = blockIdx.x;
    const int64_t s = tile % w.extent[3];
    tile /= w.extent[3];
    const int64_t r = tile % w.extent[2];
    tile /= w.extent[2];
    const int64_t c0 = tile % plan.c_tiles * TILE;
    tile /= plan.c_tiles;
    const int64_t k0 = tile % plan.k_tiles * TILE;
    const int64_t group = tile / plan.k_tiles;
    const int64_t begin = (int64_t)blockIdx.y * plan.piece;
    const int64_t end = plan.pixels - begin < plan.piece ? plan.pixels : begin + plan.piece;
    const I height = (I)y.extent[2];
    const I width = (I)y.extent[3];
    const int64_t h_first = r * dilation_h - padding_h;
    const int64_t w_first = s * dilation_w - padding_w;
    const T *const x_base = x.data + (group * plan.c_per_group + c0) * x.stride[1];
    const T *const y_base = y.data + (group * plan.k_per_group + k0) * y.stride[1];
    A sum[TILE][TILE] = {};
    for (int64_t i = begin + threadIdx.x; i < end; i += UF_BLOCK) {
        const uf_position<I> at = uf_locate<I>((I)i, (I)1, height, width);
        const int64_t h = at.h * stride_h + h_first;
        const int64_t col = at.w * stride_w + w_first;
        if (h < 0 || h >= x.extent[2] || col < 0 || col >= x.extent[3]) {
            continue;
        }
        const T *const x_at = x_base + at.n * x.stride[0] + h * x.stride[2] + col * x.stride[3];
        const T *const y_at = y_base + at.n * y.stride[0] + at.h * y.stride[2] + at.w * y.stride[3];
        A a[TILE], b[TILE];
#pragma unroll
        for (int j = 0; j < TILE; ++j) {
            a[j] = k0 + j < plan.k_per_group ? (A)y_at[j * y.stride[1]] : (A)0;
            b[j] = c0 + j < plan.c_per_group ? (A)x_at[j * x.stride[1]] : (A)0;
        }
#pragma unroll
        for (int k = 0; k < TILE; ++k) {
#pragma unroll
            for (int c = 0; c < TILE; ++c) {
                sum[k][c] += a[k] * b[c];
            }
        }
    }
    const int64_t taps = w.extent[2] * w.extent[3];
    const int64_t w_count = w.extent[0] * w.extent[1] * taps;
#pragma unroll
    for (int k = 0; k < TILE; ++k) {
#pragma unroll
        for (int c = 0; c < TILE; ++c) {
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

extern "C" uf_status uf_cuda_conv_add_splits(uf_context *context, const uf_conv_kernel_args *args,
                                             const void *partial, int64_t splits) {
    const int64_t count = uf_view_count(&args->w);
    const bool accumulate = args->mode == UF_ACCUMULATE;
    UF_DISPATCH_STORED(args->w.dtype, count,
                       conv_add_splits<T, I>
                       <<<uf_blocks(count), UF_BLOCK, 0, uf_cuda_stream(context)>>>(
                           (const typename uf_arithmetic<T>::type *)partial, (int)splits,
                           uf_cuda_view_of<T>(args->w), (I)count, accumulate));
    return uf_cuda_launched(context, "conv_add_splits");
}

template <typename T, typename I>
static void launch_wgrad(uf_context *context, const uf_conv_kernel_args *args,
                         const naive_wgrad_plan &plan) {
    const dim3 grid((unsigned)plan.tiles, (unsigned)plan.splits);
    conv_naive_wgrad<T, I><<<grid, UF_BLOCK, 0, uf_cuda_stream(context)>>>(
        uf_cuda_view_of<T>(args->x), uf_cuda_view_of<T>(args->y), uf_cuda_view_of<T>(args->w),
        plan.splits > 1 ? (typename uf_arithmetic<T>::type *)args->workspace : nullptr, plan,
        args->stride[0], args->stride[1], args->padding[0], args->padding[1], args->dilation[0],
        args->dilation[1], args->mode == UF_ACCUMULATE);
}

extern "C" size_t uf_cuda_conv_naive_workspace(uf_conv_direction direction,
                                               const uf_conv_kernel_args *args) {
    if (direction != UF_CONV_WGRAD) {
        return 0;
    }
    const naive_wgrad_plan plan = plan_wgrad(args);
    return plan.splits > 1
               ? (size_t)(plan.splits * uf_view_count(&args->w)) * uf_arithmetic_size(args->w.dtype)
               : 0;
}

extern "C" uf_status uf_cuda_conv_naive(uf_context *context, uf_conv_direction direction,
                                        const uf_conv_kernel_args *args) {
    UF_TRY(uf_cuda_needs_stored("convolution", args->x.dtype));
    if (direction != UF_CONV_WGRAD) {
        const bool dgrad = direction == UF_CONV_DGRAD;
        /* Positions past the 32-bit range, padding included, take the 64-bit kernel. */
        const int64_t count = all_below(args, INT64_C(1) << 29)
                                  ? uf_view_count(dgrad ? &args->x : &args->y)
                                  : INT64_MAX;
        UF_DISPATCH_STORED(args->x.dtype, count, launch_correlate<T, I>(context, args, dgrad));
        return uf_cuda_launched(context, "conv_naive_correlate");
    }
    const naive_wgrad_plan plan = plan_wgrad(args);
    if (plan.tiles > INT_MAX) {
        UF_FAIL(UF_ERROR_UNSUPPORTED, "conv_wgrad: the weight has more elements than a GPU grid");
    }
    UF_DISPATCH_STORED(args->x.dtype, plan.pixels, launch_wgrad<T, I>(context, args, plan));
    UF_TRY(uf_cuda_launched(context, "conv_naive_wgrad"));
    return plan.splits > 1 ? uf_cuda_conv_add_splits(context, args, args->workspace, plan.splits)
                           : UF_OK;
}
