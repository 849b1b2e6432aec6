/* conv_wgrad_thin.cuh - the kernel of conv_wgrad_thin.cu, which says how it works. */
#ifndef UF_KERNELS_CUDA_CONV_WGRAD_THIN_CUH
#define UF_KERNELS_CUDA_CONV_WGRAD_THIN_CUH

#include "kernels/cuda/conv_direct_wgrad_add.cuh"
#include "kernels/cuda/conv_wgrad_thin_plan.h"
#include "kernels/cuda/mma_split.cuh"

/* T: float, or uint16_t for bf16. Of a warp: N eights of rows, M sixteens of columns. */
template <typename T_, uf_math MATH_, int N_, int M_>
struct wgrad_thin_tile {
    typedef T_ T;
    static constexpr uf_math MATH = MATH_;
    static constexpr int N = N_, M = M_;
    static constexpr int UNIT = 16 / (int)sizeof(T); /* elements of a copy */
    static constexpr bool HALF = MATH == UF_MATH_BF16, SPLIT = MATH == UF_MATH_FP32;
};

struct wgrad_thin_args {
    direct_wgrad_plan sums; /* tensors and geometry; how the splits are added */
    uf_wgrad_thin_plan thin;
};

struct wgrad_thin_box {
    int32_t n, p, q; /* in boxes */
};

/* Rows first: neighbouring boxes share rows of x. */
static __device__ __forceinline__ void wgrad_thin_next(const uf_wgrad_thin_plan &p,
                                                       wgrad_thin_box *box) {
    if (++box->p == p.boxes[1]) {
        box->p = 0;
        if (++box->q == p.boxes[2]) {
            box->q = 0;
            ++box->n;
        }
    }
}

static __device__ __forceinline__ wgrad_thin_box wgrad_thin_box_of(const uf_wgrad_thin_plan &p,
                                                                   int32_t index) {
    wgrad_thin_box box;
    const int32_t rest = index / p.boxes[1];
    box.p = index - rest * p.boxes[1];
    box.n = rest / p.boxes[2];
    box.q = rest - box.n * p.boxes[2];
    return box;
}

/* threadIdx.x, read anew: what follows from it is not kept in registers. */
static __device__ __forceinline__ int32_t wgrad_thin_thread() {
    int32_t thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}

struct wgrad_thin_lane {
    int32_t lane, warp_m, warp_p;
};

static __device__ __forceinline__ wgrad_thin_lane wgrad_thin_lane_of(const uf_wgrad_thin_plan &p) {
    const int32_t thread = wgrad_thin_thread();
    wgrad_thin_lane me;
    me.lane = thread & 31;
    me.warp_p = (thread >> 5) / p.warps_m;
    me.warp_m = (thread >> 5) - me.warp_p * p.warps_m;
    return me;
}

/* In shared memory, made once: lines of x and of y; where columns of w begin in a box's x, in
 * bytes. Of each thread: its first line and pair of copies, of x and of y; its first column, the
 * places in x and y of its first pixels, in bytes, and its warp's first sixteen of pixels << 8 |
 * that one in its row. */
struct wgrad_thin_tables {
    int4 *x, *y, *starts, *lanes;
    int32_t *columns;
};

/* A line: {offset in the tensor, place in shared memory, row}, from the box's first; the first two
 * in elements, and alike modulo 16 bytes. A row that no tensor has: channels beyond the last. */
enum { WGRAD_THIN_NO_ROW = -(1 << 30) };

static __device__ __forceinline__ void wgrad_thin_make_tables(const wgrad_thin_args &args,
                                                              const direct_tile &tile,
                                                              const wgrad_thin_tables &tables) {
    const uf_wgrad_thin_plan &p = args.thin;
    const direct_wgrad_plan &sums = args.sums;
    int4 *const x = tables.x, *const y = tables.y;
    int32_t *const columns = tables.columns;
    {
        const int32_t thread = (int32_t)threadIdx.x, lane = thread & 31;
        const int32_t pairs_x = p.chunks / 2, pairs_y = p.box[1] * p.size / 32;
        tables.starts[thread] =
            make_int4(thread / pairs_x, thread % pairs_x, thread / pairs_y, thread % pairs_y);
        const wgrad_thin_lane me = wgrad_thin_lane_of(p);
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
        uf_wgrad_thin_line(&p, i, &c, &of_class, &t);
        const int32_t row = t * sums.stride[0] + of_class * sums.dilation[0];
        x[i] = make_int4((int32_t)(c * sums.x_stride[1] + row * sums.x_stride[2]),
                         c * p.pitch_c + of_class * p.pitch_class + t * p.pitch_h,
                         c < tile.channels ? row : (int32_t)WGRAD_THIN_NO_ROW, 0);
    }
    for (int32_t i = (int32_t)threadIdx.x; i < p.lines_y; i += (int32_t)blockDim.x) {
        const int32_t k = i / p.box[0];
        const int32_t row = i - k * p.box[0];
        y[i] = make_int4((int32_t)(k * sums.y_stride[1] + row * sums.y_stride[2]),
                         k * (p.pitch_y / p.size) + row * p.box[1],
                         k < tile.rows ? row : (int32_t)WGRAD_THIN_NO_ROW, 0);
    }
    for (int32_t i = (int32_t)threadIdx.x; i < p.warps_m * p.m * 16; i += (int32_t)blockDim.x) {
        int32_t c, tap;
        uf_wgrad_thin_column(&p, i >> 4, i & 15, &c, &tap);
        const int32_t r = tap / sums.taps_w;
        columns[i] =
            c < p.tile_c && tap < p.taps
                ? uf_wgrad_thin_place(&p, c, r, tap - r * sums.taps_w, sums.dilation[1]) * p.size
                : 0;
    }
}

/* One tensor's part of a box. */
template <typename T>
struct wgrad_thin_source {
    const T *base, *from; /* the tensor; the first element of the box, which may lie outside */
    int32_t first[2], extent[2];
    int32_t shift; /* elements of `from` after a multiple of 16 bytes */
};

template <typename Tile>
static __device__ __forceinline__ wgrad_thin_source<typename Tile::T>
wgrad_thin_x(const wgrad_thin_args &args, const void *tile, const wgrad_thin_box &box) {
    typedef typename Tile::T T;
    const direct_wgrad_plan &sums = args.sums;
    wgrad_thin_source<T> source;
    const int32_t at[2] = {box.p * args.thin.box[0], box.q * args.thin.box[1]};
    for (int axis = 0; axis < 2; ++axis) {
        source.first[axis] = at[axis] * sums.stride[axis] - sums.padding[axis];
        source.extent[axis] = sums.large[axis];
    }
    source.base = (const T *)sums.x;
    source.from = (const T *)tile + box.n * sums.x_stride[0] + source.first[0] * sums.x_stride[2] +
                  source.first[1];
    source.shift = (int32_t)((uintptr_t)source.from / sizeof(T)) & (Tile::UNIT - 1);
    return source;
}

template <typename Tile>
static __device__ __forceinline__ wgrad_thin_source<typename Tile::T>
wgrad_thin_y(const wgrad_thin_args &args, const void *tile, const wgrad_thin_box &box) {
    typedef typename Tile::T T;
    const direct_wgrad_plan &sums = args.sums;
    wgrad_thin_source<T> source;
    for (int axis = 0; axis < 2; ++axis) {
        source.first[axis] = (axis == 0 ? box.p : box.q) * args.thin.box[axis];
        source.extent[axis] = sums.small[axis];
    }
    source.base = (const T *)sums.y;
    source.from = (const T *)tile + box.n * sums.y_stride[0] + source.first[0] * sums.y_stride[2] +
                  source.first[1] * sums.y_stride[3];
    source.shift = 0;
    return source;
}

/* Where a line begins in shared memory, and how far after a multiple of 16 bytes. */
struct wgrad_thin_start {
    int32_t at, after;
};

template <typename Tile>
static __device__ __forceinline__ wgrad_thin_start wgrad_thin_start_of(const int4 &line,
                                                                       int32_t shift) {
    wgrad_thin_start start;
    start.at = line.y + shift;
    start.after = start.at & (Tile::UNIT - 1);
    return start;
}

template <typename T>
static __device__ __forceinline__ bool wgrad_thin_inside(const wgrad_thin_source<T> &source,
                                                         const int4 &line) {
    return (uint32_t)(source.first[0] + line.z) < (uint32_t)source.extent[0];
}

/* Lines by copies of 16 bytes, an even number, two of a line by each thread. WHOLE: all lie within
 * their rows. Else zeros beyond the end of a row; what lies before a row's first element comes
 * along: wgrad_thin_mend. */
template <typename Tile, bool WHOLE>
static __device__ __forceinline__ void
wgrad_thin_bring_lines(const wgrad_thin_source<typename Tile::T> &source, const int4 *lines,
                       int32_t count, int32_t pairs, int32_t i, int32_t chunk, int32_t down,
                       int32_t across, typename Tile::T *to) {
    typedef typename Tile::T T;
#pragma unroll 2
    while (i < count) {
        const int4 line = lines[i];
        const wgrad_thin_start start = wgrad_thin_start_of<Tile>(line, source.shift);
        const int32_t from = chunk * Tile::UNIT - start.after; /* from the line's first */
        const T *const address = source.from + (line.x + from);
        const bool inside = wgrad_thin_inside(source, line);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int32_t on = half * pairs * Tile::UNIT;
            T *const shared = to + start.at + from + on;
            if (WHOLE) {
                uf_copy_async16(shared, address + on, inside);
            } else {
                const int32_t column = source.first[1] + from + on;
                const bool take = inside && column > -Tile::UNIT && address + on >= source.base;
                const int32_t there = max(0, min(source.extent[1] - column, Tile::UNIT));
                uf_copy_async_part(shared, address + on, take ? there * (int)sizeof(T) : 0);
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

/* i, chunk: the thread's first line and pair; steps: from one of its pairs to the next. */
template <typename Tile>
static __device__ __forceinline__ void
wgrad_thin_bring(const wgrad_thin_source<typename Tile::T> &source, const int4 *lines,
                 int32_t count, int32_t chunks, int32_t i, int32_t chunk, const int32_t (&steps)[2],
                 typename Tile::T *to) {
    if (source.first[1] >= Tile::UNIT - 1 &&
        source.first[1] + chunks * Tile::UNIT <= source.extent[1]) {
        wgrad_thin_bring_lines<Tile, true>(source, lines, count, chunks / 2, i, chunk, steps[0],
                                           steps[1], to);
    } else {
        wgrad_thin_bring_lines<Tile, false>(source, lines, count, chunks / 2, i, chunk, steps[0],
                                            steps[1], to);
    }
}

/* Element by element: rows that are not aligned. */
template <typename Tile>
static __device__ __forceinline__ void
wgrad_thin_bring_elements(const wgrad_thin_source<typename Tile::T> &source, const int4 *lines,
                          int32_t count, int32_t length, int64_t step, typename Tile::T *to) {
    for (int32_t i = (int32_t)threadIdx.x; i < count * length; i += (int32_t)blockDim.x) {
        const int32_t row = i / length;
        const int32_t column = i - row * length;
        const int4 line = lines[row];
        const bool take =
            wgrad_thin_inside(source, line) && source.first[1] + column < source.extent[1];
        const typename Tile::T *const from = source.from + line.x + column * step;
        if constexpr (sizeof(typename Tile::T) == 4) {
            uf_copy_async4(to + line.y + column, from, take);
        } else {
            to[line.y + column] = take ? *from : (typename Tile::T)0;
        }
    }
}

/* Does a copy hold what lies before a row, or before the tensor? The same for the whole block. */
template <typename Tile>
static __device__ __forceinline__ bool
wgrad_thin_broken(const wgrad_thin_source<typename Tile::T> &source) {
    return source.first[1] < 0 ||
           (source.first[1] < Tile::UNIT && (uintptr_t)source.base % 16 != 0);
}

/* Zeros before a row's first element, which taps in the padding read. Where copying 16 bytes would
 * have read before the tensor: its elements. */
template <typename Tile>
static __device__ __forceinline__ void
wgrad_thin_mend(const wgrad_thin_source<typename Tile::T> &source, const int4 *lines, int32_t count,
                int32_t chunks, typename Tile::T *to) {
    typedef typename Tile::T T;
    for (int32_t i = (int32_t)threadIdx.x; i < count; i += (int32_t)blockDim.x) {
        const int4 line = lines[i];
        const wgrad_thin_start start = wgrad_thin_start_of<Tile>(line, source.shift);
        const int32_t before = start.after - source.first[1]; /* elements before the row's first */
        const int32_t in_chunk = before & (Tile::UNIT - 1);
        if (before <= 0 || in_chunk == 0 || before / Tile::UNIT >= chunks ||
            !wgrad_thin_inside(source, line)) {
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

/* Four pixels of a column as a product's operand takes them: bf16 pairs are pixels 2r, 2r + 1 and
 * 2r + 8, 2r + 9 of bf16 tensors and r, r + 4 and r + 8, r + 12 of others. */
template <typename Tile>
static __device__ __forceinline__ void wgrad_thin_read(const unsigned char *at, int32_t stride,
                                                       uint32_t (&pair)[2]) {
    if constexpr (sizeof(typename Tile::T) == 2) {
        uint32_t raw[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            raw[i] = *(const uint16_t *)(at + (i % 2 + i / 2 * 8) * 2 * stride);
        }
        pair[0] = __byte_perm(raw[0], raw[1], 0x5410);
        pair[1] = __byte_perm(raw[2], raw[3], 0x5410);
    } else {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            pair[i] = uf_pack_bf16(*(const float *)(at + i * 32 * stride),
                                   *(const float *)(at + (i * 32 + 16) * stride));
        }
    }
}

/* 16 pixels of a warp's tile. at: of each sixteen the columns of this lane, in bytes; stride:
 * from pixel to pixel, in elements. */
template <typename Tile>
static __device__ __forceinline__ void
wgrad_thin_multiply(const unsigned char *xs, const unsigned char *ys, int32_t pitch_y,
                    const int32_t (&at)[Tile::M][2], int32_t stride,
                    float (&sum)[Tile::M][Tile::N][4]) {
    constexpr int N = Tile::N, M = Tile::M;
    if constexpr (Tile::HALF) {
        uint32_t b[N][2];
#pragma unroll
        for (int j = 0; j < N; ++j) {
            const unsigned char *const from = ys + j * 8 * pitch_y;
            if constexpr (sizeof(typename Tile::T) == 2) {
                b[j][0] = *(const uint32_t *)from;
                b[j][1] = *(const uint32_t *)(from + 16);
            } else {
                const float *const y = (const float *)from;
                b[j][0] = uf_pack_bf16(y[0], y[4]);
                b[j][1] = uf_pack_bf16(y[8], y[12]);
            }
        }
#pragma unroll
        for (int i = 0; i < M; ++i) {
            uint32_t low[2], high[2];
            wgrad_thin_read<Tile>(xs + at[i][0], stride, low);
            wgrad_thin_read<Tile>(xs + at[i][1], stride, high);
            const uint32_t a[4] = {low[0], high[0], low[1], high[1]};
#pragma unroll
            for (int j = 0; j < N; ++j) {
                uf_mma_bf16(sum[i][j], a, b[j]);
            }
        }
    } else {
#pragma unroll 1
        for (int step = 0; step < 2; ++step) { /* of 8 pixels */
            uint32_t b[N][2], b_small[Tile::SPLIT ? N : 1][2];
#pragma unroll
            for (int j = 0; j < N; ++j) {
                const float *const y = (const float *)(ys + j * 8 * pitch_y);
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    if (Tile::SPLIT) {
                        mma_halves_by_bits(y[i * 4], &b[j][i], &b_small[Tile::SPLIT ? j : 0][i]);
                    } else {
                        b[j][i] = mma_round_by_bits(y[i * 4]);
                    }
                }
            }
#pragma unroll
            for (int i = 0; i < M; ++i) {
                uint32_t a[4], a_small[4];
#pragma unroll
                for (int reg = 0; reg < 4; ++reg) {
                    const float x =
                        *(const float *)(xs + at[i][reg & 1] + (reg >> 1) * 16 * stride);
                    if (Tile::SPLIT) {
                        mma_halves_by_bits(x, &a[reg], &a_small[reg]);
                    } else {
                        a[reg] = mma_round_by_bits(x);
                    }
                }
                if constexpr (Tile::SPLIT) {
                    /* Each step's sum alone, small products first: the tensor core truncates what
                     * it adds to. */
                    constexpr int SIDE = N < 2 ? N : 2; /* sums at a time */
#pragma unroll
                    for (int first = 0; first < N; first += SIDE) {
                        float part[SIDE][4] = {};
#pragma unroll
                        for (int j = 0; j < SIDE; ++j) {
                            uf_mma_tf32(part[j], a_small, b[first + j]);
                        }
#pragma unroll
                        for (int j = 0; j < SIDE; ++j) {
                            uf_mma_tf32(part[j], a, b_small[first + j]);
                        }
#pragma unroll
                        for (int j = 0; j < SIDE; ++j) {
                            uf_mma_tf32(part[j], a, b[first + j]);
                        }
#pragma unroll
                        for (int j = 0; j < SIDE; ++j) {
#pragma unroll
                            for (int reg = 0; reg < 4; ++reg) {
                                sum[i][first + j][reg] += part[j][reg];
                            }
                        }
                    }
                } else {
#pragma unroll
                    for (int j = 0; j < N; ++j) {
                        uf_mma_tf32(sum[i][j], a, b[j]);
                    }
                }
            }
            xs += 32 * stride;
            ys += 32;
        }
    }
}

/* blockIdx.x: tile; blockIdx.y: split. */
template <typename Tile>
static __global__ void __launch_bounds__(UF_WGRAD_THIN_WARPS * 32, 2)
    conv_wgrad_thin(const __grid_constant__ wgrad_thin_args args) {
    typedef typename Tile::T T;
    constexpr int N = Tile::N, M = Tile::M;
    extern __shared__ __align__(16) unsigned char wgrad_thin_shared[];
    const uf_wgrad_thin_plan &p = args.thin;
    const direct_wgrad_plan &sums = args.sums;
    wgrad_thin_tables tables;
    tables.starts = (int4 *)wgrad_thin_shared;
    tables.lanes = tables.starts + UF_WGRAD_THIN_WARPS * 32;
    tables.x = tables.lanes + UF_WGRAD_THIN_WARPS * 32;
    tables.y = tables.x + p.lines_x;
    tables.columns = (int32_t *)(tables.y + p.lines_y);
    unsigned char *const stages = wgrad_thin_shared + p.table_bytes;
    __shared__ direct_tile tile;
    __shared__ const T *from[2]; /* the tile's x and y */
    if (threadIdx.x == 0) {
        tile = direct_tile_of(sums, (int32_t)blockIdx.x);
        from[0] = (const T *)sums.x +
                  ((int64_t)tile.group * sums.c_per_group + tile.c) * sums.x_stride[1];
        from[1] = (const T *)sums.y +
                  ((int64_t)tile.group * sums.k_per_group + tile.k) * sums.y_stride[1];
    }
    __syncthreads();
    wgrad_thin_make_tables(args, tile, tables);
    __syncthreads();

    const int32_t run = p.box[1] / 16; /* sixteens of pixels of a row */
    const int32_t begin = (int32_t)((int64_t)blockIdx.y * p.all_boxes / p.splits);
    const int32_t end = (int32_t)((int64_t)(blockIdx.y + 1) * p.all_boxes / p.splits);
    wgrad_thin_box next = wgrad_thin_box_of(p, begin);
    float sum[M][N][4] = {};
    int32_t filled = 0, read = 0; /* bytes of stages */
    const int32_t all = p.stages * p.stage_bytes;
    /* Of the boxes under way, the next to be multiplied first: bytes that its lines are shifted by,
     * and BROKEN. */
    constexpr int32_t BROKEN = 16;
    int32_t shift[2] = {0, 0};
    for (int32_t box = begin - (p.stages - 1); box < end; ++box) {
        const int32_t now = shift[0];
        if (box >= begin) {
            if (p.stages == 3) {
                uf_copy_async_wait<1>();
            } else {
                uf_copy_async_wait<0>();
            }
            __syncthreads();
            if (now & BROKEN) {
                wgrad_thin_mend<Tile>(wgrad_thin_x<Tile>(args, from[0], wgrad_thin_box_of(p, box)),
                                      tables.x, p.lines_x, p.chunks, (T *)(stages + read));
                __syncthreads();
            }
        }
        shift[0] = shift[1];
        if (box + p.stages - 1 < end) {
            const int4 starts = tables.starts[wgrad_thin_thread()];
            unsigned char *const to = stages + filled;
            const wgrad_thin_source<T> x = wgrad_thin_x<Tile>(args, from[0], next);
            wgrad_thin_bring<Tile>(x, tables.x, p.lines_x, p.chunks, starts.x, starts.y, p.steps_x,
                                   (T *)to);
            shift[p.stages == 3 ? 1 : 0] =
                x.shift * (int32_t)sizeof(T) | (wgrad_thin_broken<Tile>(x) ? BROKEN : 0);
            const wgrad_thin_source<T> y = wgrad_thin_y<Tile>(args, from[1], next);
            if (p.vector_y) {
                wgrad_thin_bring<Tile>(y, tables.y, p.lines_y, p.box[1] / Tile::UNIT, starts.z,
                                       starts.w, p.steps_y, (T *)(to + p.x_bytes));
            } else {
                wgrad_thin_bring_elements<Tile>(y, tables.y, p.lines_y, p.box[1], sums.y_stride[3],
                                                (T *)(to + p.x_bytes));
            }
            wgrad_thin_next(p, &next);
        }
        uf_copy_async_commit();
        filled = filled + p.stage_bytes == all ? 0 : filled + p.stage_bytes;
        if (box < begin) {
            continue;
        }
        /* Read again for each box: what brings the next one wants the registers. */
        const int4 here = tables.lanes[wgrad_thin_thread()];
        const int32_t step_x = 16 * sums.stride[1] * (int32_t)sizeof(T);
        const int32_t row_x = p.pitch_h * (int32_t)sizeof(T);
        int32_t in_row = here.w & 255;
        const unsigned char *xs = stages + read + (now & (BROKEN - 1)) + here.y;
        const unsigned char *ys = stages + read + p.x_bytes + here.z;
        int32_t at[M][2];
#pragma unroll
        for (int i = 0; i < M; ++i) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                at[i][half] = tables.columns[here.x + i * 16 + half * 8];
            }
        }
        for (int32_t step = here.w >> 8; step < p.box[0] * run; step += p.warps_p) {
            wgrad_thin_multiply<Tile>(xs, ys, p.pitch_y, at, sums.stride[1], sum);
            ys += p.warps_p * (16 * (int32_t)sizeof(T));
            xs += p.walk[0] * row_x + p.walk[1] * step_x;
            in_row += p.walk[1];
            if (in_row >= run) {
                in_row -= run;
                xs += row_x - run * step_x;
            }
        }
        read = read + p.stage_bytes == all ? 0 : read + p.stage_bytes;
    }
    uf_copy_async_wait<0>();

    const wgrad_thin_lane me = wgrad_thin_lane_of(p);
    /* Warps that share columns: each half adds the other's sums. */
    for (int32_t half = p.warps_p / 2; half > 0; half /= 2) {
        float *const to = (float *)wgrad_thin_shared + me.lane +
                          ((me.warp_p % half) * p.warps_m + me.warp_m) * (32 * M * N * 4);
        __syncthreads();
        if (me.warp_p >= half && me.warp_p < 2 * half) {
#pragma unroll
            for (int i = 0; i < M * N * 4; ++i) {
                to[i * 32] = sum[i / (N * 4)][i / 4 % N][i & 3];
            }
        }
        __syncthreads();
        if (me.warp_p < half) {
#pragma unroll
            for (int i = 0; i < M * N * 4; ++i) {
                sum[i / (N * 4)][i / 4 % N][i & 3] += to[i * 32];
            }
        }
    }
    if (me.warp_p != 0) {
        return;
    }
    float *const partial =
        sums.partial + ((int64_t)blockIdx.y * sums.tiles + blockIdx.x) * sums.size;
    if (me.warp_m == 0) { /* columns that fill a four */
        const int32_t all_columns = p.tile_c * p.taps, unused = sums.columns - all_columns;
        for (int32_t i = me.lane; i < unused * N * 8; i += 32) {
            const int32_t row = i / unused;
            partial[row * sums.columns + all_columns + i - row * unused] = 0.0f;
        }
    }
    float *const to = partial + (me.lane & 3) * 2 * sums.columns;
#pragma unroll
    for (int i = 0; i < M; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            int32_t c, tap;
            uf_wgrad_thin_column(&p, me.warp_m * M + i, half * 8 + (me.lane >> 2), &c, &tap);
            if (c < p.tile_c && tap < p.taps) {
                float *const column = to + c * p.taps + tap;
#pragma unroll
                for (int j = 0; j < N; ++j) {
                    column[j * 8 * sums.columns] = sum[i][j][half * 2];
                    column[(j * 8 + 1) * sums.columns] = sum[i][j][half * 2 + 1];
                }
            }
        }
    }
}

#endif
