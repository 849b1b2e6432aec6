/* wgrad_mainloop.cuh - the kernel of im2col/wgrad_launch.cu. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_IM2COL_WGRAD_MAINLOOP_CUH
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_IM2COL_WGRAD_MAINLOOP_CUH

#include "kernels/cuda/conv/mma_few_channels/im2col/wgrad_load.cuh"
#include "kernels/cuda/arch/sm80_mma_split.cuh"

/* Loads four pixels of a column as an MMA operand. Pairs of bf16 tensors are pixels 2r, 2r + 1 and
 * 2r + 8, 2r + 9; pairs of others are r, r + 4 and r + 8, r + 12. y pairs its pixels alike. */
template <typename Tile>
static __device__ __forceinline__ void wgrad_im2col_read(const unsigned char *at, int32_t stride,
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

/* Multiplies 16 pixels of a warp's tile. at: byte offsets of this lane's columns in each column
 * block; stride: elements from pixel to pixel. */
template <typename Tile>
static __device__ __forceinline__ void
wgrad_im2col_multiply(const unsigned char *xs, const unsigned char *ys, int32_t pitch_y,
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
            wgrad_im2col_read<Tile>(xs + at[i][0], stride, low);
            wgrad_im2col_read<Tile>(xs + at[i][1], stride, high);
            const uint32_t a[4] = {low[0], high[0], low[1], high[1]};
#pragma unroll
            for (int j = 0; j < N; ++j) {
                uf_mma_bf16(sum[i][j], a, b[j]);
            }
        }
    } else {
#pragma unroll 1
        for (int step = 0; step < 2; ++step) { /* 8 pixels a step */
            uint32_t b[N][2], b_small[Tile::SPLIT ? N : 1][2];
#pragma unroll
            for (int j = 0; j < N; ++j) {
                const float *const y = (const float *)(ys + j * 8 * pitch_y);
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    if (Tile::SPLIT) {
                        mma_split_tf32_by_bits(y[i * 4], &b[j][i],
                                               &b_small[Tile::SPLIT ? j : 0][i]);
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
                        mma_split_tf32_by_bits(x, &a[reg], &a_small[reg]);
                    } else {
                        a[reg] = mma_round_by_bits(x);
                    }
                }
                if constexpr (Tile::SPLIT) {
                    /* The tensor core truncates its accumulator: each step is summed alone, small
                     * MMAs first. */
                    constexpr int SIDE = N < 2 ? N : 2; /* 8-row blocks whose sums are in flight */
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

/* Lays out the tables in shared memory. */
static __device__ __forceinline__ wgrad_im2col_tables
wgrad_im2col_tables_of(const uf_wgrad_im2col_plan &p, unsigned char *shared) {
    wgrad_im2col_tables tables;
    tables.starts = (int4 *)shared;
    tables.lanes = tables.starts + UF_WGRAD_IM2COL_WARPS * 32;
    tables.x = tables.lanes + UF_WGRAD_IM2COL_WARPS * 32;
    tables.y = tables.x + p.lines_x;
    tables.columns = (int32_t *)(tables.y + p.lines_y);
    return tables;
}

/* Byte offsets of this lane's columns in x. */
template <typename Tile>
static __device__ __forceinline__ void wgrad_im2col_columns(const int32_t *columns,
                                                            int32_t (&at)[Tile::M][2]) {
    constexpr int M = Tile::M;
#pragma unroll
    for (int i = 0; i < M; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            at[i][half] = columns[i * 16 + half * 8];
        }
    }
}

/* First elements of a tile's x and y. */
template <typename T>
static __device__ __forceinline__ void wgrad_im2col_find_tensors(const direct_wgrad_plan &sums,
                                                                 const direct_wgrad_tile &tile,
                                                                 const T *(&from)[2]) {
    from[0] =
        (const T *)sums.x + ((int64_t)tile.group * sums.c_per_group + tile.c) * sums.x_stride[1];
    from[1] =
        (const T *)sums.y + ((int64_t)tile.group * sums.k_per_group + tile.k) * sums.y_stride[1];
}

/* Waits for the oldest box in flight. */
static __device__ __forceinline__ void wgrad_im2col_wait(const uf_wgrad_im2col_plan &p) {
    if (p.stages == 3) {
        uf_copy_async_wait<1>();
    } else {
        uf_copy_async_wait<0>();
    }
}

/* Adds the sums of the warps from half on to those before it. */
template <typename Tile>
static __device__ __forceinline__ void
wgrad_im2col_exchange(int32_t warp_p, int32_t half, float *to, float (&sum)[Tile::M][Tile::N][4]) {
    constexpr int N = Tile::N, M = Tile::M;
    if (warp_p >= half && warp_p < 2 * half) {
#pragma unroll
        for (int i = 0; i < M * N * 4; ++i) {
            to[i * 32] = sum[i / (N * 4)][i / 4 % N][i & 3];
        }
    }
    __syncthreads();
    if (warp_p < half) {
#pragma unroll
        for (int i = 0; i < M * N * 4; ++i) {
            sum[i / (N * 4)][i / 4 % N][i & 3] += to[i * 32];
        }
    }
}

/* Stages the sums of a tile by rows. */
template <typename Tile>
static __device__ __forceinline__ void
wgrad_im2col_stage(const uf_wgrad_im2col_plan &p, wgrad_im2col_lane me,
                   const float (&sum)[Tile::M][Tile::N][4], float *rows) {
    constexpr int N = Tile::N, M = Tile::M;
    float *const to = rows + (me.lane & 3) * 2 * p.pitch_sums + (me.lane >> 2);
#pragma unroll
    for (int i = 0; i < M; ++i) {
        const int32_t sixteen = me.warp_m * M + i;
        if (sixteen < p.sixteens) {
#pragma unroll
            for (int reg = 0; reg < N * 4; ++reg) {
                to[((reg >> 2) * 8 + (reg & 1)) * p.pitch_sums + sixteen * 17 +
                   (reg >> 1 & 1) * 8] = sum[i][reg >> 2][reg & 3];
            }
        }
    }
}

/* Stores the staged rows of a tile. */
template <int N>
static __device__ __forceinline__ void wgrad_im2col_store(const uf_wgrad_im2col_plan &p,
                                                          int32_t columns, const float *rows,
                                                          float *partial) {
    int32_t eight = 0; /* 8-row block */
    for (int32_t column = (int32_t)threadIdx.x;; column += (int32_t)blockDim.x) {
        for (; column >= columns && eight < N; column -= columns) {
            ++eight;
        }
        if (eight >= N) {
            break;
        }
        const int32_t c = column / p.taps;
        const bool there = c < p.tile_c; /* false: a column that pads to a multiple of 4 */
        const float *const from = rows + eight * 8 * p.pitch_sums +
                                  (there ? uf_wgrad_im2col_sum(&p, c, column - c * p.taps) : 0);
        float *const out = partial + eight * 8 * columns + column;
#pragma unroll
        for (int row = 0; row < 8; ++row) {
            out[row * columns] = there ? from[row * p.pitch_sums] : 0.0f;
        }
    }
}

/* blockIdx.x: tile; blockIdx.y: split of the pixels. */
template <typename Tile>
static __global__ void __launch_bounds__(UF_WGRAD_IM2COL_WARPS * 32, 2)
    conv_wgrad_im2col(const __grid_constant__ wgrad_im2col_args args) {
    typedef typename Tile::T T;
    constexpr int N = Tile::N, M = Tile::M;
    extern __shared__ __align__(16) unsigned char wgrad_im2col_shared[];
    const uf_wgrad_im2col_plan &p = args.im2col;
    const direct_wgrad_plan &sums = args.sums;
    const wgrad_im2col_tables tables = wgrad_im2col_tables_of(p, wgrad_im2col_shared);
    unsigned char *const stages = wgrad_im2col_shared + p.table_bytes;
    __shared__ direct_wgrad_tile tile;
    __shared__ const T *from[2]; /* first elements of the tile's x and y */
    if (threadIdx.x == 0) {
        tile = direct_wgrad_tile_of(&sums, (int32_t)blockIdx.x);
        wgrad_im2col_find_tensors(sums, tile, from);
    }
    __syncthreads();
    wgrad_im2col_make_tables(args, tile, tables);
    __syncthreads();
    uf_overlap_launches();

    const int32_t run = p.box[1] / 16; /* 16-pixel runs of a row */
    const int32_t begin = (int32_t)((int64_t)blockIdx.y * p.all_boxes / p.splits);
    const int32_t end = (int32_t)((int64_t)(blockIdx.y + 1) * p.all_boxes / p.splits);
    wgrad_im2col_box next = wgrad_im2col_box_of(p, begin);
    float sum[M][N][4] = {};
    int32_t filled = 0, read = 0; /* byte offsets of stages */
    const int32_t all = p.stages * p.stage_bytes;
    /* For the boxes in flight, the oldest first: bytes that its lines are shifted by, and
     * NEEDS_ZEROS. */
    constexpr int32_t NEEDS_ZEROS = 16;
    int32_t shift[2] = {0, 0};
    for (int32_t box = begin - (p.stages - 1); box < end; ++box) {
        const int32_t now = shift[0];
        if (box >= begin) {
            wgrad_im2col_wait(p);
            __syncthreads();
            if (now & NEEDS_ZEROS) {
                wgrad_im2col_zero_padding<Tile>(
                    wgrad_im2col_x<Tile>(args, from[0], wgrad_im2col_box_of(p, box)), tables.x,
                    p.lines_x, p.chunks, (T *)(stages + read));
                __syncthreads();
            }
        }
        shift[0] = shift[1];
        if (box + p.stages - 1 < end) {
            const int4 starts = tables.starts[wgrad_im2col_thread()];
            unsigned char *const to = stages + filled;
            const wgrad_im2col_source<T> x = wgrad_im2col_x<Tile>(args, from[0], next);
            wgrad_im2col_load<Tile>(x, tables.x, p.lines_x, p.chunks, starts.x, starts.y, p.steps_x,
                                    (T *)to);
            shift[p.stages == 3 ? 1 : 0] = x.shift * (int32_t)sizeof(T) |
                                           (wgrad_im2col_needs_zeros<Tile>(x) ? NEEDS_ZEROS : 0);
            const wgrad_im2col_source<T> y = wgrad_im2col_y<Tile>(args, from[1], next);
            if (p.vector_y) {
                wgrad_im2col_load<Tile>(y, tables.y, p.lines_y, p.box[1] / Tile::UNIT, starts.z,
                                        starts.w, p.steps_y, (T *)(to + p.x_bytes));
            } else if (p.copy_y == 8) {
                wgrad_im2col_load_runs<Tile, 8>(y, tables.y, p.lines_y, p.box[1],
                                                (T *)(to + p.x_bytes));
            } else if (sizeof(T) == 2 && p.copy_y == 4) {
                wgrad_im2col_load_runs<Tile, 4>(y, tables.y, p.lines_y, p.box[1],
                                                (T *)(to + p.x_bytes));
            } else {
                wgrad_im2col_load_elements<Tile>(y, tables.y, p.lines_y, p.box[1], sums.y_stride[3],
                                                 (T *)(to + p.x_bytes));
            }
            wgrad_im2col_next(p, &next);
        }
        uf_copy_async_commit();
        filled = filled + p.stage_bytes == all ? 0 : filled + p.stage_bytes;
        if (box < begin) {
            continue;
        }
        /* Reloaded for each box: the loads of the next box need the registers. */
        const int4 here = tables.lanes[wgrad_im2col_thread()];
        const int32_t step_x = 16 * sums.stride[1] * (int32_t)sizeof(T);
        const int32_t row_x = p.pitch_h * (int32_t)sizeof(T);
        int32_t in_row = here.w & 255;
        const unsigned char *xs = stages + read + (now & (NEEDS_ZEROS - 1)) + here.y;
        const unsigned char *ys = stages + read + p.x_bytes + here.z;
        int32_t at[M][2];
        wgrad_im2col_columns<Tile>(tables.columns + here.x, at);
        for (int32_t step = here.w >> 8; step < p.box[0] * run; step += p.warps_p) {
            wgrad_im2col_multiply<Tile>(xs, ys, p.pitch_y, at, sums.stride[1], sum);
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

    const wgrad_im2col_lane me = wgrad_im2col_lane_of(p);
    /* Adds the sums of warps that share columns, pairwise in a fixed order. */
    for (int32_t half = p.warps_p / 2; half > 0; half /= 2) {
        float *const to = (float *)wgrad_im2col_shared + me.lane +
                          ((me.warp_p % half) * p.warps_m + me.warp_m) * (32 * M * N * 4);
        __syncthreads();
        wgrad_im2col_exchange<Tile>(me.warp_p, half, to, sum);
    }
    /* Stages rows: stored from registers, each number would be a sector of its own. */
    float *const rows = (float *)wgrad_im2col_shared;
    __syncthreads();
    if (me.warp_p == 0) {
        wgrad_im2col_stage<Tile>(p, me, sum, rows);
    }
    __syncthreads();
    float *const partial =
        sums.partial + ((int64_t)blockIdx.y * sums.tiles + blockIdx.x) * sums.size;
    wgrad_im2col_store<N>(p, sums.columns, rows, partial);
}

#endif
