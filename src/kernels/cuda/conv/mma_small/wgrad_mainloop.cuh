/* wgrad_mainloop.cuh - the weight gradient's device code; mma_small/wgrad_launch.cu describes it.
 */
#ifndef UF_KERNELS_CUDA_CONV_MMA_SMALL_WGRAD_MAINLOOP_CUH
#define UF_KERNELS_CUDA_CONV_MMA_SMALL_WGRAD_MAINLOOP_CUH

#include "kernels/cuda/conv/mma_small/mainloop.cuh"

struct small_wgrad_divisors {
    uf_small_divisor channel_tiles, row_tiles, splits, boxes[3], box[3], window[2], kernel, taps,
        row_warps, column_warps;
};

struct small_wgrad {
    const void *x, *y;
    void *w;
    float *partial; /* of the splits, each w in C order */
    int64_t x_stride[4], y_stride[4], w_stride[4];
    int64_t count; /* of w */
    int32_t batch, large[2], small[2], kernel[2], stride[2], padding[2], dilation[2];
    int32_t groups, k_per_group, c_per_group;
    small_sharing share_y, share_x, share_w; /* w: as columns of a tile, by fours where `whole` */
    int32_t words_y;                         /* that a row of y is copied by */
    bool accumulate;
    bool vector_y; /* y comes 16 bytes at a time */
    bool whole;    /* stores are of f32, dense and of 16 bytes */
    uf_small_wgrad_plan plan;
    small_wgrad_divisors by;
};

/* A warp's tile: 32 rows of 32 columns. */
template <uf_mma_math MATH_, typename stored_>
struct small_wgrad_tile {
    typedef stored_ stored;
    typedef typename small_bits<stored>::type bits;
    static constexpr uf_mma_math MATH = MATH_;
    static constexpr int TILES_M = 2, TILES_N = 4;
    static constexpr int STEP = MATH == UF_MMA_BF16 ? 16 : 8;
    static constexpr int ROWS = TILES_M * 16, COLUMNS = TILES_N * 8;
};

/* The part of w that a block computes. */
struct small_wgrad_block {
    int32_t group, row, channel; /* the first of the tile, within the group */
    int32_t split;
};

static __device__ __forceinline__ small_wgrad_block small_wgrad_block_of(const small_wgrad &p,
                                                                         int32_t block) {
    small_wgrad_block at;
    at.row = small_take(&block, p.by.channel_tiles);
    at.channel = block * p.plan.channels;
    at.split = small_take(&at.row, p.by.row_tiles);
    at.row *= p.plan.rows;
    at.group = small_take(&at.split, p.by.splits);
    return at;
}

/* The first position of a box. */
struct small_box {
    int32_t n, p, q;
};

static __device__ __forceinline__ small_box small_box_of(const small_wgrad &p, int32_t box) {
    const small_coord at = small_coord_of(box, p.by.boxes[1], p.by.boxes[2]);
    const small_box first = {at.image * p.plan.box[0], at.row * p.plan.box[1],
                             at.column * p.plan.box[2]};
    return first;
}

/* A box: y as [row][position], x as [channel][element of the window]. */
template <typename T>
static __device__ __forceinline__ void
small_wgrad_load(const small_wgrad &p, const small_wgrad_block &block,
                 const small_share (&share)[2], int32_t box, T *stage) {
    const uf_small_wgrad_plan &plan = p.plan;
    const small_box first = small_box_of(p, box);
    const int32_t row = block.group * p.k_per_group + block.row;
    constexpr int UNIT = 16 / (int)sizeof(T);
    const T *const y = (const T *)p.y + first.n * p.y_stride[0] + row * p.y_stride[1] +
                       first.p * p.y_stride[2] + first.q * p.y_stride[3];
    if (p.vector_y) { /* whole rows of one image */
        const int32_t there = min(plan.box[1], p.small[0] - first.p) * plan.box[2];
        small_copy_rows<UNIT>(
            share[0], stage, y, plan.positions / UNIT, plan.row_pitch, plan.rows,
            p.k_per_group - block.row, p.y_stride[1], [&](int32_t i) {
                const small_piece piece = {i * UNIT, i * UNIT, max(min(there - i * UNIT, UNIT), 0)};
                return piece;
            });
    } else {
        small_copy_rows<1>(share[0], stage, y, plan.positions, plan.row_pitch, plan.rows,
                           p.k_per_group - block.row, p.y_stride[1], [&](int32_t i) {
                               const small_coord at = small_coord_of(i, p.by.box[1], p.by.box[2]);
                               const bool inside = at.image < plan.box[0] &&
                                                   first.n + at.image < p.batch &&
                                                   first.p + at.row < p.small[0] &&
                                                   first.q + at.column < p.small[1];
                               const int32_t offset =
                                   (int32_t)(at.image * p.y_stride[0] + at.row * p.y_stride[2] +
                                             at.column * p.y_stride[3]);
                               const small_piece piece = {inside ? offset : 0, i, inside ? 1 : 0};
                               return piece;
                           });
    }
    const int32_t channel = block.group * p.c_per_group + block.channel;
    const int32_t h0 = first.p * p.stride[0] - p.padding[0];
    const int32_t w0 = first.q * p.stride[1] - p.padding[1];
    small_copy_rows<1>(
        share[1], stage + plan.rows * plan.row_pitch,
        (const T *)p.x + first.n * p.x_stride[0] + channel * p.x_stride[1], plan.plane, plan.plane,
        plan.channels, p.c_per_group - block.channel, p.x_stride[1], [&](int32_t i) {
            const small_coord at = small_coord_of(i, p.by.window[0], p.by.window[1]);
            const int32_t h = h0 + at.row, w = w0 + at.column;
            const bool inside = at.image < plan.box[0] && first.n + at.image < p.batch &&
                                mma_inside(h, p.large[0]) && mma_inside(w, p.large[1]);
            const int32_t offset =
                (int32_t)(at.image * p.x_stride[0] + h * p.x_stride[2] + w * p.x_stride[3]);
            const small_piece piece = {inside ? offset : 0, i, inside ? 1 : 0};
            return piece;
        });
}

/* The operands of a step: the y's of its positions, the x's that these and the columns meet. */
template <typename Tile>
static __device__ __forceinline__ void
small_wgrad_fetch(const typename Tile::bits *rows, int32_t row_pitch,
                  const typename Tile::bits *window,
                  const int32_t (&coord)[2][small_raw<Tile>::PER],
                  const int32_t (&column)[Tile::TILES_N], small_raw<Tile> *raw) {
    constexpr int PER = small_raw<Tile>::PER;
#pragma unroll
    for (int reg = 0; reg < 2; ++reg) {
#pragma unroll
        for (int half = 0; half < PER; ++half) {
            const typename Tile::bits *const at = window + coord[reg][half];
#pragma unroll
            for (int j = 0; j < Tile::TILES_N; ++j) {
                raw->b[j][reg][half] = at[column[j]];
            }
        }
    }
#pragma unroll
    for (int m = 0; m < Tile::TILES_M; ++m) {
#pragma unroll
        for (int reg = 0; reg < 4; ++reg) {
#pragma unroll
            for (int half = 0; half < PER; ++half) {
                raw->a[m][reg][half] =
                    rows[(m * 16 + (reg & 1) * 8) * row_pitch + ((reg >> 1) * PER + half) * 4];
            }
        }
    }
}

/* `count` MMAs of a box in shared memory. `coords` has the offsets of positions in a window. */
template <typename Tile>
static __device__ __forceinline__ void
small_wgrad_chunk(const typename Tile::bits *rows, int32_t row_pitch,
                  const typename Tile::bits *window, const int32_t *coords, int32_t count,
                  const int32_t (&column)[Tile::TILES_N],
                  float (&c)[Tile::TILES_M][Tile::TILES_N][4]) {
    if (count == 0) {
        return;
    }
    int32_t coord[2][small_raw<Tile>::PER];
    small_look_up<Tile>(coords, coord);
    small_steps<Tile>(
        count,
        [&](small_raw<Tile> *raw) {
            small_wgrad_fetch<Tile>(rows, row_pitch, window, coord, column, raw);
            rows += Tile::STEP;
            small_look_up<Tile>(coords, coord);
        },
        c);
}

/* One element's sum over the boxes of a split as a chain of FFMAs. */
template <typename T>
static __device__ __noinline__ float small_wgrad_exact(const small_wgrad &p, int32_t group,
                                                       int32_t k, int32_t c, int32_t r, int32_t s,
                                                       int32_t split) {
    const uf_small_wgrad_plan &plan = p.plan;
    const T *const x = (const T *)p.x + ((int64_t)group * p.c_per_group + c) * p.x_stride[1];
    const T *const y = (const T *)p.y + ((int64_t)group * p.k_per_group + k) * p.y_stride[1];
    uf_long_sum<float> sum;
    sum.clear();
    const int32_t end = min((split + 1) * plan.per_split, plan.all_boxes);
    for (int32_t box = split * plan.per_split; box < end; ++box) {
        const small_box first = small_box_of(p, box);
        float part = 0.0f;
        for (int32_t i = 0; i < plan.box[0] * plan.box[1] * plan.box[2]; ++i) {
            const small_coord at = small_coord_of(i, p.by.box[1], p.by.box[2]);
            const int32_t n = first.n + at.image, row = first.p + at.row, q = first.q + at.column;
            const int32_t h = row * p.stride[0] - p.padding[0] + r * p.dilation[0];
            const int32_t w = q * p.stride[1] - p.padding[1] + s * p.dilation[1];
            if (n < p.batch && row < p.small[0] && q < p.small[1] && mma_inside(h, p.large[0]) &&
                mma_inside(w, p.large[1])) {
                part = fmaf((float)x[n * p.x_stride[0] + h * p.x_stride[2] + w * p.x_stride[3]],
                            (float)y[n * p.y_stride[0] + row * p.y_stride[2] + q * p.y_stride[3]],
                            part);
            }
            if ((i & 31) == 31) {
                sum.add(part);
                part = 0.0f;
            }
        }
        sum.add(part);
    }
    return sum.total();
}

/* An element that is not finite: the same by FFMAs. */
template <typename T>
static __device__ __noinline__ float small_wgrad_fixup(const small_wgrad &p,
                                                       const small_wgrad_block &block, int32_t row,
                                                       int32_t column) {
    int32_t tap = column;
    const int32_t channel = small_take(&tap, p.by.taps);
    int32_t s = tap;
    const int32_t r = small_take(&s, p.by.kernel);
    return small_wgrad_exact<T>(p, block.group, block.row + row, block.channel + channel, r, s,
                                block.split);
}

/* The same where four f32 leave at a time. */
template <typename T>
static __device__ __forceinline__ void
small_wgrad_write_whole(const small_wgrad &p, const small_wgrad_block &block, const float *staging,
                        int32_t rows, int32_t columns) {
    const uf_small_wgrad_plan &plan = p.plan;
    const small_share share = small_share_of(p.share_w, columns / 4);
    const int32_t part_words = plan.rows * plan.staging_pitch;
    const int64_t row_stride = (int64_t)p.c_per_group * p.by.taps.by;
    float *const from = (p.partial != nullptr ? p.partial + block.split * p.count : (float *)p.w) +
                        ((int64_t)block.group * p.k_per_group + block.row) * row_stride +
                        block.channel * p.by.taps.by;
    const bool adds = p.accumulate && p.partial == nullptr;
    for (int32_t column = share.first; column < columns / 4; column += share.together) {
#pragma unroll 2
        for (int32_t row = share.row; row < rows; row += share.beside) {
            const float *at = staging + row * plan.staging_pitch + column * 4;
            float4 sum = *(const float4 *)at;
            for (int32_t part = 1; part < plan.depth_warps; ++part) {
                at += part_words;
                const float4 more = *(const float4 *)at;
                sum.x += more.x;
                sum.y += more.y;
                sum.z += more.z;
                sum.w += more.w;
            }
            if (!mma_finite(sum.x)) {
                sum.x = small_wgrad_fixup<T>(p, block, row, column * 4);
            }
            if (!mma_finite(sum.y)) {
                sum.y = small_wgrad_fixup<T>(p, block, row, column * 4 + 1);
            }
            if (!mma_finite(sum.z)) {
                sum.z = small_wgrad_fixup<T>(p, block, row, column * 4 + 2);
            }
            if (!mma_finite(sum.w)) {
                sum.w = small_wgrad_fixup<T>(p, block, row, column * 4 + 3);
            }
            float4 *const to = (float4 *)(from + row * row_stride + column * 4);
            if (adds) {
                const float4 old = *to;
                sum = make_float4(old.x + sum.x, old.y + sum.y, old.z + sum.z, old.w + sum.w);
            }
            *to = sum;
        }
    }
}

/* The tile leaves shared memory: a thread has a column. */
template <typename T>
static __device__ __forceinline__ void
small_wgrad_write(const small_wgrad &p, const small_wgrad_block &block, const float *staging) {
    const uf_small_wgrad_plan &plan = p.plan;
    const int32_t taps = p.kernel[0] * p.kernel[1];
    const int32_t columns = min(plan.channels, p.c_per_group - block.channel) * taps;
    const int32_t rows = min(plan.rows, p.k_per_group - block.row);
    const int32_t part_words = plan.rows * plan.staging_pitch;
    if (p.whole) {
        small_wgrad_write_whole<T>(p, block, staging, rows, columns);
        return;
    }
    const small_share share = small_share_of(p.share_w, columns);
    const int32_t first = share.row, beside = share.beside;
    for (int32_t column = share.first; column < columns; column += share.together) {
        int32_t tap = column;
        const int32_t channel = small_take(&tap, p.by.taps);
        int32_t s = tap;
        const int32_t r = small_take(&s, p.by.kernel);
        const int32_t c = block.channel + channel;
        const int64_t in_row = p.partial != nullptr
                                   ? (int64_t)c * taps + tap + block.split * p.count
                                   : c * p.w_stride[1] + r * p.w_stride[2] + s * p.w_stride[3];
        const int64_t row_stride =
            p.partial != nullptr ? (int64_t)p.c_per_group * taps : p.w_stride[0];
        const int64_t row_0 = (int64_t)block.group * p.k_per_group + block.row;
#pragma unroll 4
        for (int32_t row = first; row < rows; row += beside) {
            const float *at = staging + row * plan.staging_pitch + column;
            float sum = *at;
            for (int32_t part = 1; part < plan.depth_warps; ++part) {
                at += part_words;
                sum += *at;
            }
            if (!mma_finite(sum)) {
                sum = small_wgrad_exact<T>(p, block.group, block.row + row, c, r, s, block.split);
            }
            const int64_t offset = in_row + (row_0 + row) * row_stride;
            if (p.partial != nullptr) {
                p.partial[offset] = sum;
            } else {
                T *const to = (T *)p.w + offset;
                *to = (T)(p.accumulate ? (float)*to + sum : sum);
            }
        }
    }
}

template <typename Tile>
static __global__ void __launch_bounds__(32 * UF_SMALL_WARPS, 1)
    conv_small_wgrad(const __grid_constant__ small_wgrad p) {
    UF_MMA_SHARED(shared);
    typedef typename Tile::stored stored;
    const uf_small_wgrad_plan &plan = p.plan;
    const small_wgrad_block block = small_wgrad_block_of(p, (int32_t)blockIdx.x);
    int32_t *const coords = (int32_t *)shared;
    stored *const stages = (stored *)(shared + plan.positions + 2 * Tile::STEP);
    for (int32_t i = (int32_t)threadIdx.x; i < plan.positions + 2 * Tile::STEP;
         i += (int32_t)blockDim.x) {
        const small_coord at = small_coord_of(i, p.by.box[1], p.by.box[2]);
        coords[i] = at.image < plan.box[0]
                        ? (at.image * plan.window[0] + at.row * p.stride[0]) * plan.window[1] +
                              at.column * p.stride[1]
                        : 0; /* y is zero there */
    }

    const int lane = (int)threadIdx.x & 31;
    int32_t first_row = (int32_t)threadIdx.x >> 5;
    int32_t first_column = small_take(&first_row, p.by.row_warps);
    const int32_t part = small_take(&first_column, p.by.column_warps);
    first_row *= Tile::ROWS;
    first_column *= Tile::COLUMNS;
    const int32_t mmas = plan.positions / Tile::STEP;
    const int32_t begin = part * mmas >> plan.depth_log;
    const int32_t count = ((part + 1) * mmas >> plan.depth_log) - begin;
    int32_t column[Tile::TILES_N];
#pragma unroll
    for (int j = 0; j < Tile::TILES_N; ++j) {
        const int32_t at = first_column + j * 8 + (lane >> 2);
        int32_t s = at;
        const int32_t channel = small_take(&s, p.by.taps);
        const int32_t r = small_take(&s, p.by.kernel);
        column[j] =
            channel < plan.channels
                ? channel * plan.plane + r * p.dilation[0] * plan.window[1] + s * p.dilation[1]
                : 0;
    }

    const small_share share[2] = {small_share_of(p.share_y, p.words_y),
                                  small_share_of(p.share_x, plan.plane)};
    const int32_t first_box = block.split * plan.per_split;
    const int32_t boxes = min(plan.all_boxes - first_box, plan.per_split);
    uf_wait_for_launcher(); /* nothing before this touches a tensor */
#pragma unroll 1
    for (int stage = 0; stage < UF_SMALL_STAGES - 1; ++stage) {
        if (stage < boxes) {
            small_wgrad_load<stored>(p, block, share, first_box + stage,
                                     stages + stage * plan.stage);
        }
        uf_copy_async_commit();
    }
    float c[Tile::TILES_M][Tile::TILES_N][4] = {};
    int stage = 0;
#pragma unroll 1
    for (int32_t i = 0; i < boxes; ++i) {
        uf_copy_async_wait<UF_SMALL_STAGES - 2>();
        __syncthreads(); /* this box has arrived, and the one before has been used, everywhere */
        if (i + UF_SMALL_STAGES - 1 < boxes) {
            const int next = stage == 0 ? UF_SMALL_STAGES - 1 : stage - 1;
            small_wgrad_load<stored>(p, block, share, first_box + i + UF_SMALL_STAGES - 1,
                                     stages + next * plan.stage);
        }
        uf_copy_async_commit();
        const typename Tile::bits *const at =
            (const typename Tile::bits *)(stages + stage * plan.stage);
        small_wgrad_chunk<Tile>(at + (first_row + (lane >> 2)) * plan.row_pitch +
                                    begin * Tile::STEP + (lane & 3),
                                plan.row_pitch, at + plan.rows * plan.row_pitch,
                                coords + begin * Tile::STEP + (lane & 3), count, column, c);
        stage = stage == UF_SMALL_STAGES - 1 ? 0 : stage + 1;
    }
    uf_copy_async_wait<0>();
    __syncthreads();
    uf_launch_dependents();
    float *const staging =
        (float *)stages + (part * plan.rows + first_row) * plan.staging_pitch + first_column;
#pragma unroll
    for (int m = 0; m < Tile::TILES_M; ++m) {
#pragma unroll
        for (int j = 0; j < Tile::TILES_N; ++j) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                *(float2 *)(staging + (m * 16 + half * 8 + (lane >> 2)) * plan.staging_pitch +
                            j * 8 + (lane & 3) * 2) =
                    make_float2(c[m][j][2 * half], c[m][j][2 * half + 1]);
            }
        }
    }
    __syncthreads();
    small_wgrad_write<stored>(p, block, (const float *)stages);
}

enum { SMALL_ADDERS = 8 }; /* threads that share an element's splits */

/* The splits of an element of w, those of each thread in order, then threads in order. */
template <typename T>
static __global__ void __launch_bounds__(32 * SMALL_ADDERS)
    conv_small_wgrad_add(const __grid_constant__ small_wgrad p) {
    __shared__ float shared[SMALL_ADDERS][32];
    const int32_t lane = (int32_t)threadIdx.x & 31;
    const int32_t adder = (int32_t)threadIdx.x >> 5;
    const int32_t element = (int32_t)blockIdx.x * 32 + lane;
    const int32_t taps = p.kernel[0] * p.kernel[1];
    uf_wait_for_launcher();
    float sum = 0.0f;
    if (element < p.count) {
#pragma unroll 4
        for (int32_t split = adder; split < p.plan.splits; split += SMALL_ADDERS) {
            sum += p.partial[split * p.count + element];
        }
    }
    shared[adder][lane] = sum;
    __syncthreads();
    if (adder > 0 || element >= p.count) {
        return;
    }
#pragma unroll
    for (int i = 1; i < SMALL_ADDERS; ++i) {
        sum += shared[i][lane];
    }
    const int32_t row = element / (p.c_per_group * taps);
    const int32_t in_row = element - row * p.c_per_group * taps;
    const int32_t c = in_row / taps;
    const int32_t r = (in_row - c * taps) / p.kernel[1];
    T *const to = (T *)p.w + row * p.w_stride[0] + c * p.w_stride[1] + r * p.w_stride[2] +
                  (in_row - c * taps - r * p.kernel[1]) * p.w_stride[3];
    *to = (T)(p.accumulate ? (float)*to + sum : sum);
}

#endif
