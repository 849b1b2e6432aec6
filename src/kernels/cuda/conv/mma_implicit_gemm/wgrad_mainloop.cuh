/* wgrad_mainloop.cuh - the device code of mma_implicit_gemm/wgrad_launch.cu, which says how it
 * works. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_IMPLICIT_GEMM_WGRAD_MAINLOOP_CUH
#define UF_KERNELS_CUDA_CONV_MMA_IMPLICIT_GEMM_WGRAD_MAINLOOP_CUH

#include "kernels/cuda/conv/mma_implicit_gemm/wgrad_plan.h"
#include "kernels/cuda/device/device.cuh"
#include "kernels/cuda/arch/sm80_mma_split.cuh"

template <uf_mma_math MATH_, int ROWS_, int WARPS_M_, int WARPS_N_, int FRAGMENTS_>
struct wgrad_tile {
    static constexpr uf_mma_math MATH = MATH_;
    static constexpr int ROWS = ROWS_, WARPS_M = WARPS_M_, WARPS_N = WARPS_N_;
    static constexpr int WARPS = WARPS_M * WARPS_N, THREADS = 32 * WARPS;
    static constexpr int TILES_M = ROWS / WARPS_M / 16, TILES_N = FRAGMENTS_;
    static constexpr int COLUMNS = WARPS_N * TILES_N * 8;
};

/* The tensors as a block copies them, and a thread's part. */
struct wgrad_source {
    const float *x, *y; /* the group's first channel; y: the tile's first row */
    const wgrad_coord *coords;
    int32_t rows;        /* of y that there are */
    int32_t first_block; /* of channels (banded), or the first column's slot */
    int32_t blocks;      /* of channels (banded) */
    uint32_t inverse;    /* u * inverse >> 16 is u / blocks for the few units that there are */
    int32_t units;       /* of 32 entries and one block of channels each */
};

/* y: [row][pixel], 32 pixels of every row; x: see wgrad_coord. Zeros where there is no pixel or
 * channel. */
template <typename Tile>
static __device__ __forceinline__ void wgrad_copy(const wgrad_plan &p, const wgrad_source &source,
                                                  float *ys, float *xs, const wgrad_box &box,
                                                  int warp, int lane) {
    const int32_t n = box.n * (WGRAD_PIXELS >> (p.log_q + p.log_p));
    const int32_t row = box.p << p.log_p;
    const int32_t column = box.q << p.log_q;
    {
        const int32_t first = p.vector_y ? (lane & 7) * 4 : lane;
        const wgrad_pixel at = wgrad_pixel_of(&p, first);
        const bool there =
            n + at.n < p.batch && row + at.p < p.small[0] && column + at.q < p.small[1];
        const int together = p.vector_y ? 4 : 1; /* rows of one instruction */
        const int32_t mine = warp * together + (p.vector_y ? lane >> 3 : 0);
        const float *from = source.y + mine * p.y_stride[1] + (n + at.n) * p.y_stride[0] +
                            (row + at.p) * p.y_stride[2] + (column + at.q) * p.y_stride[3];
        float *to = ys + mine * WGRAD_PITCH + first;
        if (p.vector_y) {
            const int64_t step = 4 * Tile::WARPS * p.y_stride[1];
#pragma unroll 4
            for (int32_t m = mine; m < Tile::ROWS; m += 4 * Tile::WARPS) {
                uf_copy_async16(to, from, there && m < source.rows);
                to += 4 * Tile::WARPS * WGRAD_PITCH;
                from += step;
            }
        } else {
            const int64_t step = Tile::WARPS * p.y_stride[1];
#pragma unroll 4
            for (int32_t m = mine; m < Tile::ROWS; m += Tile::WARPS) {
                uf_copy_async4(to, from, there && m < source.rows);
                to += Tile::WARPS * WGRAD_PITCH;
                from += step;
            }
        }
    }
    const int32_t h = row * p.stride[0] - p.padding[0];
    const int32_t w = column * p.stride[1] - p.padding[1];
    const float *const x = source.x + n * p.x_stride[0] + h * p.x_stride[2] + w * p.x_stride[3];
    const int64_t channel_step = p.x_stride[1];
#pragma unroll 1
    for (int32_t unit = warp; unit < source.units; unit += Tile::WARPS) {
        int32_t chunk = unit;
        int32_t local = 0;
        int32_t block;
        if (p.banded) {
            chunk = (int32_t)((uint32_t)unit * source.inverse >> 16);
            local = unit - chunk * source.blocks;
            block = source.first_block + local;
        } else {
            block = (source.first_block + unit) / p.taps;
        }
        const int32_t entry = chunk * 32 + lane;
        if (entry >= p.entries) {
            continue;
        }
        const wgrad_coord coord = source.coords[entry];
        const bool there = n + coord.n < p.batch &&
                           (uint32_t)(h + coord.h) < (uint32_t)p.large[0] &&
                           (uint32_t)(w + coord.w) < (uint32_t)p.large[1];
        const int32_t channel = block * p.channels;
        const int32_t channels = there ? p.c_per_group - channel : 0;
        const float *from = x + coord.from + channel * channel_step;
        float *to = xs + coord.to + local * p.channels * p.pitch;
#pragma unroll
        for (int c = 0; c < 8; ++c) {
            if (c < p.channels) {
                uf_copy_async4(to, from, c < channels);
            }
            from += channel_step;
            to += p.pitch;
        }
    }
}

/* One box in shared memory into the accumulators of a warp. Column c of a fragment's K is a pixel;
 * for bf16 the pair (2r, 2r + 1) is pixels r and r + 4: K has no order. `column` and `pixel` are
 * bytes. */
template <typename Tile>
static __device__ __forceinline__ void
wgrad_multiply(const float *ys, const float *xs, const int32_t (&column)[Tile::TILES_N],
               const int32_t (&pixel)[8], float (&sum)[Tile::TILES_M][Tile::TILES_N][4]) {
    constexpr bool HALF = Tile::MATH == UF_MMA_BF16;
    constexpr bool SPLIT = Tile::MATH == UF_MMA_TF32X3;
    constexpr int STEP = HALF ? 16 : 8;
#pragma unroll
    for (int step = 0; step < WGRAD_PIXELS / STEP; ++step) {
        uint32_t a[Tile::TILES_M][4], a_small[SPLIT ? Tile::TILES_M : 1][4];
#pragma unroll
        for (int i = 0; i < Tile::TILES_M; ++i) {
#pragma unroll
            for (int reg = 0; reg < 4; ++reg) {
                const float *const at = ys + (i * 16 + (reg & 1) * 8) * WGRAD_PITCH + step * STEP +
                                        (reg >> 1) * (STEP / 2);
                if (SPLIT) {
                    mma_split_tf32(*at, &a[i][reg], &a_small[SPLIT ? i : 0][reg]);
                } else if (HALF) {
                    a[i][reg] = uf_pack_bf16(at[0], at[4]);
                } else {
                    a[i][reg] = uf_round_tf32(*at);
                }
            }
        }
#pragma unroll
        for (int j = 0; j < Tile::TILES_N; ++j) {
            uint32_t b[2], b_small[2];
#pragma unroll
            for (int reg = 0; reg < 2; ++reg) {
                const char *const from = (const char *)xs + column[j];
                if (SPLIT) {
                    mma_split_tf32(*(const float *)(from + pixel[step * 2 + reg]), &b[reg],
                                   &b_small[reg]);
                } else if (HALF) {
                    /* Half-steps of four pixels: 4 step + 2 reg and the next one. */
                    b[reg] =
                        uf_pack_bf16(*(const float *)(from + pixel[(step * 4 + reg * 2) & 7]),
                                     *(const float *)(from + pixel[(step * 4 + reg * 2 + 1) & 7]));
                } else {
                    b[reg] = uf_round_tf32(*(const float *)(from + pixel[step * 2 + reg]));
                }
            }
            if (SPLIT) {
                /* Each step's sum alone, small MMAs first: the tensor core truncates what it adds
                 * to. */
                float part[Tile::TILES_M][4] = {};
#pragma unroll
                for (int i = 0; i < Tile::TILES_M; ++i) {
                    uf_mma_tf32(part[i], a_small[SPLIT ? i : 0], b);
                }
#pragma unroll
                for (int i = 0; i < Tile::TILES_M; ++i) {
                    uf_mma_tf32(part[i], a[i], b_small);
                }
#pragma unroll
                for (int i = 0; i < Tile::TILES_M; ++i) {
                    uf_mma_tf32(part[i], a[i], b);
                }
#pragma unroll
                for (int i = 0; i < Tile::TILES_M; ++i) {
#pragma unroll
                    for (int reg = 0; reg < 4; ++reg) {
                        sum[i][j][reg] += part[i][reg];
                    }
                }
            } else {
#pragma unroll
                for (int i = 0; i < Tile::TILES_M; ++i) {
                    if (HALF) {
                        uf_mma_bf16(sum[i][j], a[i], b);
                    } else {
                        uf_mma_tf32(sum[i][j], a[i], b);
                    }
                }
            }
        }
    }
}

static __device__ __forceinline__ void wgrad_wait(int32_t stages) {
    if (stages == 2) {
        uf_copy_async_wait<0>();
    } else if (stages == 3) {
        uf_copy_async_wait<1>();
    } else {
        uf_copy_async_wait<2>();
    }
}

/* blockIdx.x: tile, columns fastest, so that blocks that read the same boxes run together;
 * blockIdx.y: split. */
template <typename Tile>
static __global__ void __launch_bounds__(Tile::THREADS, 2)
    conv_wgrad_mma(const __grid_constant__ wgrad_plan p) {
    UF_WGRAD_SHARED(shared);
    uf_overlap_launches();
    const int thread = (int)threadIdx.x;
    const int lane = thread & 31;
    const int warp = thread >> 5;
    const int32_t rest = (int32_t)blockIdx.x / p.tiles_n;
    const int32_t first_column = ((int32_t)blockIdx.x - rest * p.tiles_n) * Tile::COLUMNS;
    const int32_t group = rest / p.tiles_m;
    const int32_t first_row = (rest - group * p.tiles_m) * Tile::ROWS;

    wgrad_coord *const coords = (wgrad_coord *)shared;
    float *const stages = (float *)(shared + wgrad_table_bytes(&p));
    for (int32_t entry = thread; entry < p.entries; entry += Tile::THREADS) {
        coords[entry] = wgrad_coord_of(&p, first_column, entry);
    }
    wgrad_source source;
    source.x = (const float *)p.x + (int64_t)group * p.c_per_group * p.x_stride[1];
    source.y = (const float *)p.y + ((int64_t)group * p.k_per_group + first_row) * p.y_stride[1];
    source.coords = coords;
    source.rows = p.k_per_group - first_row;
    source.first_block = p.banded ? wgrad_first_block(&p, first_column) : first_column / 8;
    source.blocks = p.banded ? wgrad_span(&p, first_column) : 1;
    source.inverse = 65536u / (uint32_t)source.blocks + 1u;
    source.units = (p.entries + 31) / 32 * source.blocks;

    const int first_m = warp / Tile::WARPS_N * (Tile::TILES_M * 16);
    const int first_n = warp % Tile::WARPS_N * (Tile::TILES_N * 8);
    int32_t column[Tile::TILES_N], pixel[8];
#pragma unroll
    for (int j = 0; j < Tile::TILES_N; ++j) {
        column[j] =
            4 * wgrad_column_offset(&p, first_column, first_column + first_n + j * 8 + (lane >> 2));
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        pixel[i] = 4 * wgrad_pixel_offset(&p, i * 4 + (lane & 3));
    }
    const int32_t a_at = (first_m + (lane >> 2)) * WGRAD_PITCH + (lane & 3);

    float sum[Tile::TILES_M][Tile::TILES_N][4];
#pragma unroll
    for (int i = 0; i < Tile::TILES_M; ++i) {
#pragma unroll
        for (int j = 0; j < Tile::TILES_N; ++j) {
#pragma unroll
            for (int reg = 0; reg < 4; ++reg) {
                sum[i][j][reg] = 0.0f;
            }
        }
    }

    const int32_t begin = wgrad_split_begin(&p, (int32_t)blockIdx.y);
    const int32_t end = wgrad_split_begin(&p, (int32_t)blockIdx.y + 1);
    int32_t next = begin;
    wgrad_box box = wgrad_box_of(&p, begin);
    __syncthreads();                   /* the table */
    int32_t slot_in = 0, slot_out = 0; /* words */
    const int32_t slots = p.stages * p.stage_words;
    for (int32_t stage = 0; stage < p.stages - 1; ++stage) {
        if (next < end) {
            wgrad_copy<Tile>(p, source, stages + slot_in,
                             stages + slot_in + Tile::ROWS * WGRAD_PITCH, box, warp, lane);
            wgrad_next(&p, &box);
            ++next;
        }
        uf_copy_async_commit();
        slot_in += p.stage_words;
    }
#pragma unroll 1
    for (int32_t at = begin; at < end; ++at) {
        wgrad_wait(p.stages);
        __syncthreads();
        if (next < end) {
            wgrad_copy<Tile>(p, source, stages + slot_in,
                             stages + slot_in + Tile::ROWS * WGRAD_PITCH, box, warp, lane);
            wgrad_next(&p, &box);
            ++next;
        }
        uf_copy_async_commit();
        slot_in = slot_in + p.stage_words == slots ? 0 : slot_in + p.stage_words;
        wgrad_multiply<Tile>(stages + slot_out + a_at, stages + slot_out + Tile::ROWS * WGRAD_PITCH,
                             column, pixel, sum);
        slot_out = slot_out + p.stage_words == slots ? 0 : slot_out + p.stage_words;
    }

    float *const to = p.partial +
                      ((int64_t)blockIdx.y * p.tiles + blockIdx.x) * (Tile::ROWS * Tile::COLUMNS) +
                      (first_m + (lane >> 2)) * Tile::COLUMNS + first_n + (lane & 3) * 2;
#pragma unroll
    for (int i = 0; i < Tile::TILES_M; ++i) {
#pragma unroll
        for (int j = 0; j < Tile::TILES_N; ++j) {
#pragma unroll
            for (int down = 0; down < 2; ++down) {
                float2 pair;
                pair.x = sum[i][j][down * 2];
                pair.y = sum[i][j][down * 2 + 1];
                *(float2 *)(to + (i * 16 + down * 8) * Tile::COLUMNS + j * 8) = pair;
            }
        }
    }
}

#endif
