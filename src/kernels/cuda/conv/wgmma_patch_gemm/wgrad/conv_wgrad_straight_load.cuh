/* conv_wgrad_straight_load.cuh - stages of conv_wgrad_straight.cu: brought by one lane, y of them
 * rounded by other warps. */
#ifndef UF_KERNELS_CUDA_CONV_WGRAD_STRAIGHT_LOAD_CUH
#define UF_KERNELS_CUDA_CONV_WGRAD_STRAIGHT_LOAD_CUH

#include "kernels/cuda/conv/wgmma_patch_gemm/wgrad/conv_wgrad_straight_plan.h"
#include "kernels/cuda/arch/mma_split.cuh"
#include "kernels/cuda/arch/tensor_map.cuh"
#include "kernels/cuda/arch/wgmma_pairs.cuh"

/* How the kernel sees a weight gradient. */
struct wgrad_straight {
    CUtensorMap x, y;
    uf_straight_plan plan;
    float *partial; /* as blocks_sums has it */
    int32_t sum_rows, row_tiles, columns;
};

/* PAIR: a block and its neighbour in the cluster bring x for both. */
template <uf_math MATH_, int WIDE_, int WIDTH_, int Y_ROW_, bool PAIR_>
struct straight_tile {
    static constexpr uf_math MATH = MATH_;
    static constexpr bool PAIR = PAIR_;
    static constexpr int WIDE = WIDE_, WIDTH = WIDTH_;
    static constexpr int CONSUMERS = 128 * UF_STRAIGHT_UNITS, THREADS = CONSUMERS + 128;
    /* A run: bytes of a channel of y, and what they meet of a row of x, in pieces that a copy can
     * exchange. */
    static constexpr int Y_ROW = Y_ROW_, STEPS = Y_ROW / 32;
    static constexpr int X_ROW = WIDE * Y_ROW < 128 ? WIDE * Y_ROW : 128;
    static constexpr int X_PIECES = WIDE * Y_ROW / X_ROW;
    static constexpr int X_PIECE_BYTES = UF_STRAIGHT_COLUMNS / WIDE * X_ROW;
    static constexpr int Y_BYTES = WIDTH * Y_ROW, UNIT_BYTES = UF_STRAIGHT_COLUMNS * Y_ROW;
    /* FP32: the small halves of y after the big ones. */
    static constexpr int X_AT = Y_BYTES * (MATH == UF_MATH_FP32 ? 2 : 1);
    static constexpr int STAGE_BYTES = X_AT + UF_STRAIGHT_UNITS * UNIT_BYTES;
    static constexpr int STAGES = UF_STRAIGHT_STAGES * 64 / Y_ROW;
    /* Words from one row of sums to the next in shared memory: 4 mod 16, no bank conflict. */
    static constexpr int SUM_ROW = UF_STRAIGHT_COLUMNS, SUM_PITCH = SUM_ROW + 4;
    static constexpr int ROUNDERS = 2; /* warps */

    static_assert(UF_STRAIGHT_UNITS * WIDTH * SUM_PITCH * 4 <= STAGES * STAGE_BYTES,
                  "sums take the place of the stages");
};

#if UF_HAS_WGMMA

struct straight_barriers {
    uint64_t full[UF_STRAIGHT_STAGES], rounded[UF_STRAIGHT_STAGES], empty[UF_STRAIGHT_STAGES];
};

/* What a block makes. */
struct straight_place {
    int32_t unit, k_block, group, split, run, end;
};

static __device__ __forceinline__ straight_place straight_place_of(const uf_straight_plan &p) {
    straight_place at;
    int32_t rest = (int32_t)blockIdx.x;
    int32_t next = rest / p.k_blocks;
    at.k_block = rest - next * p.k_blocks;
    rest = next / p.unit_blocks;
    at.unit = (next - rest * p.unit_blocks) * UF_STRAIGHT_UNITS;
    at.split = rest / p.groups;
    at.group = rest - at.split * p.groups;
    at.run = (int32_t)((int64_t)at.split * p.runs / p.splits);
    at.end = (int32_t)((int64_t)(at.split + 1) * p.runs / p.splits);
    return at;
}

/* One lane brings everything, of a pair one unit of x for both. A second unit past the last is not
 * there: its warpgroup makes something that nobody keeps. */
template <typename Tile>
static __device__ __forceinline__ void straight_produce(const wgrad_straight &g,
                                                        const straight_place &at, uint32_t memory,
                                                        straight_barriers *barriers) {
    const uf_straight_plan &p = g.plan;
    const int32_t units = min(p.all_units - at.unit, (int32_t)UF_STRAIGHT_UNITS);
    const int32_t piece = p.wide * p.pixels / Tile::X_PIECES;
    int32_t x_row[UF_STRAIGHT_UNITS], x_channel[UF_STRAIGHT_UNITS];
#pragma unroll
    for (int u = 0; u < UF_STRAIGHT_UNITS; ++u) {
        const int32_t chunk = (at.unit + u) / p.kernel_h;
        const int32_t r = at.unit + u - chunk * p.kernel_h;
        x_row[u] = r * p.dilation_h - p.padding[0];
        x_channel[u] = at.group * p.c_per_group + chunk * p.channels;
    }
    const int32_t y_channel = at.group * p.k_per_group + at.k_block * Tile::WIDTH;
    const int32_t rank = Tile::PAIR ? (int32_t)uf_cluster_rank() : 0;
    int32_t line = at.run / p.across;
    int32_t across = at.run - line * p.across;
    int32_t image = line / p.rows;
    int32_t row = line - image * p.rows;
    uf_ring stage = {0, 1};
#pragma unroll 1
    for (int32_t run = at.run; run < at.end; ++run) {
        uint64_t *const full = barriers->full + stage.index;
        uint32_t to = memory + (uint32_t)(stage.index * Tile::STAGE_BYTES);
        const int32_t pixel = across * p.pixels;
        uf_barrier_wait(barriers->empty + stage.index, stage.parity);
        uf_barrier_expect(full, (uint32_t)(Tile::Y_BYTES + units * Tile::UNIT_BYTES));
        uf_copy_tensor(to, &g.y, pixel, row, y_channel, image, full);
        to += Tile::X_AT;
#pragma unroll
        for (int u = 0; u < UF_STRAIGHT_UNITS; ++u) {
#pragma unroll
            for (int i = 0; i < Tile::X_PIECES; ++i) {
                if (Tile::PAIR && u < units && u == rank) {
                    uf_pair_copy_tensor(to, &g.x, Tile::WIDE * pixel - p.padding[1] + i * piece,
                                        row * p.stride_h + x_row[u], x_channel[u], image, full);
                }
                if (!Tile::PAIR && u < units) {
                    uf_copy_tensor(to, &g.x, Tile::WIDE * pixel - p.padding[1] + i * piece,
                                   row * p.stride_h + x_row[u], x_channel[u], image, full);
                }
                to += Tile::X_PIECE_BYTES;
            }
        }
        stage.next(Tile::STAGES);
        if (++across == p.across) {
            across = 0;
            if (++row == p.rows) {
                row = 0;
                ++image;
            }
        }
    }
}

static __device__ __forceinline__ void straight_store(uint32_t to, const uint32_t (&word)[4]) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};\n" ::"r"(to), "r"(word[0]), "r"(word[1]),
                 "r"(word[2]), "r"(word[3])
                 : "memory");
}

/* y to nearest in TF32, in place; in FP32 with what is left of it. */
template <typename Tile>
static __device__ __forceinline__ void straight_round(const straight_place &at, uint32_t memory,
                                                      straight_barriers *barriers, int thread) {
    constexpr int STEP = 512 * Tile::ROUNDERS; /* bytes at once */
    constexpr int PIECES = Tile::Y_BYTES / STEP < 8 ? Tile::Y_BYTES / STEP : 8;
    uf_ring stage = {0, 0};
#pragma unroll 1
    for (int32_t run = at.run; run < at.end; ++run) {
        const uint32_t y =
            memory + (uint32_t)(stage.index * Tile::STAGE_BYTES) + (uint32_t)thread * 16;
        uf_barrier_wait(barriers->full + stage.index, stage.parity);
#pragma unroll 1
        for (uint32_t from = y; from < y + Tile::Y_BYTES; from += PIECES * STEP) {
            float value[PIECES][4];
#pragma unroll
            for (int i = 0; i < PIECES; ++i) {
                asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];\n"
                             : "=f"(value[i][0]), "=f"(value[i][1]), "=f"(value[i][2]),
                               "=f"(value[i][3])
                             : "r"(from + (uint32_t)(i * STEP))
                             : "memory");
            }
#pragma unroll
            for (int i = 0; i < PIECES; ++i) {
                uint32_t big[4], small[4];
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    if (Tile::MATH == UF_MATH_FP32) {
                        mma_halves(value[i][j], &big[j], &small[j]);
                    } else {
                        big[j] = mma_round_by_bits(value[i][j]);
                    }
                }
                straight_store(from + (uint32_t)(i * STEP), big);
                if (Tile::MATH == UF_MATH_FP32) {
                    straight_store(from + (uint32_t)(i * STEP + Tile::Y_BYTES), small);
                }
            }
        }
        uf_fence_async_shared();
        uf_barrier_release(barriers->rounded + stage.index, (thread & 31) == 0);
        stage.next(Tile::STAGES);
    }
}

#endif

#endif
