/* wgrad_load.cuh - loads boxes of x and y into shared memory for im2col/wgrad_mainloop.cuh. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_IM2COL_WGRAD_LOAD_CUH
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_IM2COL_WGRAD_LOAD_CUH

#include "kernels/cuda/conv/simt_direct/wgrad_reduce.cuh"
#include "kernels/cuda/arch/mma_math.h"
#include "kernels/cuda/conv/mma_few_channels/im2col/wgrad_plan.h"
#include "kernels/cuda/arch/sm80_mma.cuh"

/* T: float, or uint16_t for bf16. A warp has N 8-row and M 16-column blocks. */
template <typename T_, uf_mma_math MATH_, int N_, int M_>
struct wgrad_im2col_tile {
    typedef T_ T;
    static constexpr uf_mma_math MATH = MATH_;
    static constexpr int N = N_, M = M_;
    static constexpr int UNIT = 16 / (int)sizeof(T); /* elements of a 16-byte copy */
    static constexpr bool HALF = MATH == UF_MMA_BF16, SPLIT = MATH == UF_MMA_TF32X3;
};

struct wgrad_im2col_args {
    direct_wgrad_plan sums; /* tensors and geometry; the reduction of the splits */
    uf_wgrad_im2col_plan im2col;
};

struct wgrad_im2col_box {
    int32_t n, p, q; /* image; row and column in boxes */
};

/* Advances down the rows first: neighbouring boxes share rows of x. */
static __device__ __forceinline__ void wgrad_im2col_next(const uf_wgrad_im2col_plan &p,
                                                         wgrad_im2col_box *box) {
    if (++box->p == p.boxes[1]) {
        box->p = 0;
        if (++box->q == p.boxes[2]) {
            box->q = 0;
            ++box->n;
        }
    }
}

static __device__ __forceinline__ wgrad_im2col_box
wgrad_im2col_box_of(const uf_wgrad_im2col_plan &p, int32_t index) {
    wgrad_im2col_box box;
    const int32_t rest = index / p.boxes[1];
    box.p = index - rest * p.boxes[1];
    box.n = rest / p.boxes[2];
    box.q = rest - box.n * p.boxes[2];
    return box;
}

/* Reads threadIdx.x again, so that no register keeps what follows from it. */
static __device__ __forceinline__ int32_t wgrad_im2col_thread() {
    int32_t thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}

struct wgrad_im2col_lane {
    int32_t lane, warp_m, warp_p;
};

static __device__ __forceinline__ wgrad_im2col_lane
wgrad_im2col_lane_of(const uf_wgrad_im2col_plan &p) {
    const int32_t thread = wgrad_im2col_thread();
    wgrad_im2col_lane me;
    me.lane = thread & 31;
    me.warp_p = (thread >> 5) / p.warps_m;
    me.warp_m = (thread >> 5) - me.warp_p * p.warps_m;
    return me;
}

/* Tables in shared memory, made once. x, y: lines. columns: byte offsets of columns of w in a box's
 * x. starts: first line and pair of copies of each thread, of x and of y. lanes: first column; byte
 * offsets of the first pixels in x and y; first 16-pixel run of the warp << 8 | that run in its
 * row. */
struct wgrad_im2col_tables {
    int4 *x, *y, *starts, *lanes;
    int32_t *columns;
};

/* A line: {offset in the tensor, offset in shared memory, row} from the box's first line. Both
 * offsets are in elements and agree modulo 16 bytes. Channels beyond the last have a row that no
 * tensor has. */
enum { WGRAD_IM2COL_NO_ROW = -(1 << 30) };

static __device__ __forceinline__ void wgrad_im2col_make_tables(const wgrad_im2col_args &args,
                                                                const direct_wgrad_tile &tile,
                                                                const wgrad_im2col_tables &tables) {
    const uf_wgrad_im2col_plan &p = args.im2col;
    const direct_wgrad_plan &sums = args.sums;
    int4 *const x = tables.x, *const y = tables.y;
    int32_t *const columns = tables.columns;
    {
        const int32_t thread = (int32_t)threadIdx.x, lane = thread & 31;
        const int32_t pairs_x = p.chunks / 2, pairs_y = p.box[1] * p.size / 32;
        tables.starts[thread] =
            make_int4(thread / pairs_x, thread % pairs_x, thread / pairs_y, thread % pairs_y);
        const wgrad_im2col_lane me = wgrad_im2col_lane_of(p);
        const int32_t run = p.box[1] / 16, row = me.warp_p / run, in_row = me.warp_p - row * run;
        tables.lanes[thread] =
            make_int4(me.warp_m * p.m * 16 + (lane >> 2),
                      (row * p.pitch_h + in_row * 16 * sums.stride[1]) * p.size +
                          (lane & 3) * sums.stride[1] * 4,
                      (lane >> 2) * p.pitch_y + (lane & 3) * 4 + me.warp_p * 16 * p.size,
                      me.warp_p << 8 | in_row);
    }
    for (int32_t i = (int32_t)threadIdx.x; i < p.lines_x; i += (int32_t)blockDim.x) {
        int32_t c, of_class, t;
        uf_wgrad_im2col_line(&p, i, &c, &of_class, &t);
        const int32_t row = t * sums.stride[0] + of_class * sums.dilation[0];
        x[i] = make_int4((int32_t)(c * sums.x_stride[1] + row * sums.x_stride[2]),
                         c * p.pitch_c + of_class * p.pitch_class + t * p.pitch_h,
                         c < tile.channels ? row : (int32_t)WGRAD_IM2COL_NO_ROW, 0);
    }
    for (int32_t i = (int32_t)threadIdx.x; i < p.lines_y; i += (int32_t)blockDim.x) {
        const int32_t k = i / p.box[0];
        const int32_t row = i - k * p.box[0];
        y[i] = make_int4((int32_t)(k * sums.y_stride[1] + row * sums.y_stride[2]),
                         k * (p.pitch_y / p.size) + row * p.box[1],
                         k < tile.rows ? row : (int32_t)WGRAD_IM2COL_NO_ROW, 0);
    }
    for (int32_t i = (int32_t)threadIdx.x; i < p.warps_m * p.m * 16; i += (int32_t)blockDim.x) {
        int32_t c, tap;
        uf_wgrad_im2col_column(&p, i >> 4, i & 15, &c, &tap);
        const int32_t r = tap / sums.taps_w;
        columns[i] =
            c < p.tile_c && tap < p.taps
                ? uf_wgrad_im2col_coord(&p, c, r, tap - r * sums.taps_w, sums.dilation[1]) * p.size
                : 0;
    }
}

/* One tensor's part of a box. */
template <typename T>
struct wgrad_im2col_source {
    const T *base, *from; /* the tensor; the box's first element, maybe outside */
    int32_t first[2], extent[2];
    int32_t shift; /* elements from a multiple of 16 bytes to `from` */
    bool last;     /* the box has the last rows of the last image */
};

template <typename Tile>
static __device__ __forceinline__ wgrad_im2col_source<typename Tile::T>
wgrad_im2col_x(const wgrad_im2col_args &args, const void *tile, const wgrad_im2col_box &box) {
    typedef typename Tile::T T;
    const direct_wgrad_plan &sums = args.sums;
    wgrad_im2col_source<T> source;
    const int32_t at[2] = {box.p * args.im2col.box[0], box.q * args.im2col.box[1]};
    for (int axis = 0; axis < 2; ++axis) {
        source.first[axis] = at[axis] * sums.stride[axis] - sums.padding[axis];
        source.extent[axis] = sums.large[axis];
    }
    source.base = (const T *)sums.x;
    source.from = (const T *)tile + box.n * sums.x_stride[0] + source.first[0] * sums.x_stride[2] +
                  source.first[1];
    source.shift = (int32_t)((uintptr_t)source.from / sizeof(T)) & (Tile::UNIT - 1);
    const int32_t rows = (args.im2col.box[0] - 1) * sums.stride[0] +
                         (sums.taps / sums.taps_w - 1) * sums.dilation[0] + 1;
    source.last = box.n + 1 == sums.batch && source.first[0] + rows >= sums.large[0];
    return source;
}

template <typename Tile>
static __device__ __forceinline__ wgrad_im2col_source<typename Tile::T>
wgrad_im2col_y(const wgrad_im2col_args &args, const void *tile, const wgrad_im2col_box &box) {
    typedef typename Tile::T T;
    const direct_wgrad_plan &sums = args.sums;
    wgrad_im2col_source<T> source;
    for (int axis = 0; axis < 2; ++axis) {
        source.first[axis] = (axis == 0 ? box.p : box.q) * args.im2col.box[axis];
        source.extent[axis] = sums.small[axis];
    }
    source.base = (const T *)sums.y;
    source.from = (const T *)tile + box.n * sums.y_stride[0] + source.first[0] * sums.y_stride[2] +
                  source.first[1] * sums.y_stride[3];
    source.shift = 0;
    source.last = box.n + 1 == sums.batch && source.first[0] + args.im2col.box[0] >= sums.small[0];
    return source;
}

/* Offset of a line in shared memory, and of that from a multiple of 16 bytes, in elements. */
struct wgrad_im2col_start {
    int32_t at, after;
};

template <typename Tile>
static __device__ __forceinline__ wgrad_im2col_start wgrad_im2col_start_of(const int4 &line,
                                                                           int32_t shift) {
    wgrad_im2col_start start;
    start.at = line.y + shift;
    start.after = start.at & (Tile::UNIT - 1);
    return start;
}

template <typename T>
static __device__ __forceinline__ bool wgrad_im2col_inside(const wgrad_im2col_source<T> &source,
                                                           const int4 &line) {
    return (uint32_t)(source.first[0] + line.z) < (uint32_t)source.extent[0];
}

/* Cases of loading lines. WHOLE: all lie within their rows. PARTS: zeros follow the ends of rows.
 * LAST: a line may end at the tensor's end. There, copies of less than 16 bytes go by elements,
 * because compute-sanitizer takes a partial copy for one of 16 bytes. */
enum { WGRAD_IM2COL_WHOLE, WGRAD_IM2COL_PARTS, WGRAD_IM2COL_LAST };

/* Loads lines by 16-byte copies, two of a line by each thread. Copies may include elements before a
 * row's first; wgrad_im2col_zero_padding clears them. */
template <typename Tile, int HOW>
static __device__ __forceinline__ void
wgrad_im2col_load_lines(const wgrad_im2col_source<typename Tile::T> &source, const int4 *lines,
                        int32_t count, int32_t pairs, int32_t i, int32_t chunk, int32_t down,
                        int32_t across, typename Tile::T *to) {
    typedef typename Tile::T T;
#pragma unroll 2
    while (i < count) {
        const int4 line = lines[i];
        const wgrad_im2col_start start = wgrad_im2col_start_of<Tile>(line, source.shift);
        const int32_t from = chunk * Tile::UNIT - start.after; /* from the line's first element */
        const T *const address = source.from + (line.x + from);
        const bool inside = wgrad_im2col_inside(source, line);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int32_t on = half * pairs * Tile::UNIT;
            T *const shared = to + start.at + from + on;
            if (HOW == WGRAD_IM2COL_WHOLE) {
                uf_copy_async16(shared, address + on, inside);
            } else {
                const int32_t column = source.first[1] + from + on;
                const bool take = inside && column > -Tile::UNIT && address + on >= source.base;
                const int32_t there = max(0, min(source.extent[1] - column, Tile::UNIT));
                if (HOW == WGRAD_IM2COL_PARTS || !take || there % Tile::UNIT == 0) {
                    uf_copy_async_part(shared, address + on, take ? there * (int)sizeof(T) : 0);
                } else {
#pragma unroll 1
                    for (int32_t e = 0; e < Tile::UNIT; ++e) {
                        shared[e] = e < there ? address[on + e] : (T)0;
                    }
                }
            }
        }
        i += down;
        chunk += across;
        if (chunk >= pairs) {
            chunk -= pairs;
            ++i;
        }
    }
}

/* Loads lines in the cheapest case. i, chunk: the thread's first line and pair; steps: from one of
 * its pairs to the next. */
template <typename Tile>
static __device__ __forceinline__ void
wgrad_im2col_load(const wgrad_im2col_source<typename Tile::T> &source, const int4 *lines,
                  int32_t count, int32_t chunks, int32_t i, int32_t chunk,
                  const int32_t (&steps)[2], typename Tile::T *to) {
    if (source.first[1] >= Tile::UNIT - 1 &&
        source.first[1] + chunks * Tile::UNIT <= source.extent[1]) {
        wgrad_im2col_load_lines<Tile, WGRAD_IM2COL_WHOLE>(source, lines, count, chunks / 2, i,
                                                          chunk, steps[0], steps[1], to);
    } else if (!source.last) {
        wgrad_im2col_load_lines<Tile, WGRAD_IM2COL_PARTS>(source, lines, count, chunks / 2, i,
                                                          chunk, steps[0], steps[1], to);
    } else {
        wgrad_im2col_load_lines<Tile, WGRAD_IM2COL_LAST>(source, lines, count, chunks / 2, i, chunk,
                                                         steps[0], steps[1], to);
    }
}

/* Loads lines by copies of BYTES < 16, for rows aligned to that alone. */
template <typename Tile, int BYTES>
static __device__ __forceinline__ void
wgrad_im2col_load_runs(const wgrad_im2col_source<typename Tile::T> &source, const int4 *lines,
                       int32_t count, int32_t length, typename Tile::T *to) {
    constexpr int RUN = BYTES / (int)sizeof(typename Tile::T);
    const int32_t runs = length / RUN;
    for (int32_t i = (int32_t)threadIdx.x; i < count * runs; i += (int32_t)blockDim.x) {
        const int32_t row = i / runs;
        const int32_t column = (i - row * runs) * RUN;
        const int4 line = lines[row];
        const bool take =
            wgrad_im2col_inside(source, line) && source.first[1] + column < source.extent[1];
#if UF_HAS_MMA
        asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;\n" ::"r"(
                         (unsigned)__cvta_generic_to_shared(to + line.y + column)),
                     "l"(source.from + line.x + column), "r"(take ? BYTES : 0), "n"(BYTES)
                     : "memory");
#else
        (void)column;
        (void)take;
#endif
    }
}

/* Loads lines element by element, for any rows. */
template <typename Tile>
static __device__ __forceinline__ void
wgrad_im2col_load_elements(const wgrad_im2col_source<typename Tile::T> &source, const int4 *lines,
                           int32_t count, int32_t length, int64_t step, typename Tile::T *to) {
    for (int32_t i = (int32_t)threadIdx.x; i < count * length; i += (int32_t)blockDim.x) {
        const int32_t row = i / length;
        const int32_t column = i - row * length;
        const int4 line = lines[row];
        const bool take =
            wgrad_im2col_inside(source, line) && source.first[1] + column < source.extent[1];
        const typename Tile::T *const from = source.from + line.x + column * step;
        if constexpr (sizeof(typename Tile::T) == 4) {
            uf_copy_async4(to + line.y + column, from, take);
        } else {
            to[line.y + column] = take ? *from : (typename Tile::T)0;
        }
    }
}

/* Some copy holds elements before a row's first or before the tensor. Uniform in the block. */
template <typename Tile>
static __device__ __forceinline__ bool
wgrad_im2col_needs_zeros(const wgrad_im2col_source<typename Tile::T> &source) {
    return source.first[1] < 0 ||
           (source.first[1] < Tile::UNIT && (uintptr_t)source.base % 16 != 0);
}

/* Writes zeros before a row's first element, which taps in the padding read. Where a 16-byte copy
 * would have begun before the tensor, loads its elements. */
template <typename Tile>
static __device__ __forceinline__ void
wgrad_im2col_zero_padding(const wgrad_im2col_source<typename Tile::T> &source, const int4 *lines,
                          int32_t count, int32_t chunks, typename Tile::T *to) {
    typedef typename Tile::T T;
    for (int32_t i = (int32_t)threadIdx.x; i < count; i += (int32_t)blockDim.x) {
        const int4 line = lines[i];
        const wgrad_im2col_start start = wgrad_im2col_start_of<Tile>(line, source.shift);
        const int32_t before = start.after - source.first[1]; /* elements before the row's first */
        const int32_t in_chunk = before & (Tile::UNIT - 1);
        if (before <= 0 || in_chunk == 0 || before / Tile::UNIT >= chunks ||
            !wgrad_im2col_inside(source, line)) {
            continue;
        }
        const int32_t from = before - in_chunk - start.after;
        const T *const address = source.from + (line.x + from);
        const bool outside = address < source.base;
        T *const chunk = to + start.at + from;
#pragma unroll
        for (int e = 0; e < Tile::UNIT; ++e) {
            if (e < in_chunk) {
                chunk[e] = (T)0;
            } else if (outside) {
                chunk[e] = e - in_chunk < source.extent[1] ? address[e] : (T)0;
            }
        }
    }
}

#endif
