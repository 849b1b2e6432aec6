/* load.cuh - stages of wgrad/launch.cu: loaded by one lane; other warps round or split y. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_WGRAD_LOAD_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_WGRAD_LOAD_CUH

#include "kernels/cuda/conv/wgmma_patch_gemm/wgrad/plan.h"
#include "kernels/cuda/arch/sm80_mma_split.cuh"
#include "kernels/cuda/arch/sm90_tma.cuh"
#include "kernels/cuda/arch/sm90_wgmma_pairs.cuh"

/* The problem and its plan, as a kernel's parameter. */
struct patch_wgrad {
    CUtensorMap x, y;
    uf_patch_wgrad_plan plan;
    float *partial; /* partial sums, as in channel_blocked_sums */
    int32_t sum_rows, row_tiles, columns;
};

/* PAIR: two CTAs of a cluster load x for both. */
template <uf_mma_math MATH_, int WIDE_, int WIDTH_, int Y_ROW_, bool PAIR_>
struct patch_wgrad_tile {
    static constexpr uf_mma_math MATH = MATH_;
    static constexpr bool PAIR = PAIR_;
    static constexpr int WIDE = WIDE_, WIDTH = WIDTH_;
    static constexpr int CONSUMERS = 128 * UF_PATCH_WGRAD_UNITS, THREADS = CONSUMERS + 128;
    /* A run: bytes of a channel of y, and the bytes of a row of x under them, in pieces that TMA
     * can swizzle. */
    static constexpr int Y_ROW = Y_ROW_, STEPS = Y_ROW / 32;
    static constexpr int X_ROW = WIDE * Y_ROW < 128 ? WIDE * Y_ROW : 128;
    static constexpr int X_PIECES = WIDE * Y_ROW / X_ROW;
    static constexpr int X_PIECE_BYTES = UF_PATCH_WGRAD_COLUMNS / WIDE * X_ROW;
    static constexpr int Y_BYTES = WIDTH * Y_ROW, UNIT_BYTES = UF_PATCH_WGRAD_COLUMNS * Y_ROW;
    /* FP32: small parts of y after the large ones. */
    static constexpr int X_AT = Y_BYTES * (MATH == UF_MMA_TF32X3 ? 2 : 1);
    static constexpr int STAGE_BYTES = X_AT + UF_PATCH_WGRAD_UNITS * UNIT_BYTES;
    static constexpr int STAGES = UF_PATCH_WGRAD_STAGES * 64 / Y_ROW;
    /* Words of a row of sums in shared memory: 4 mod 16, no bank conflict. */
    static constexpr int SUM_ROW = UF_PATCH_WGRAD_COLUMNS, SUM_PITCH = SUM_ROW + 4;
    static constexpr int ROUNDERS = 2; /* warps that round or split y */

    static_assert(UF_PATCH_WGRAD_UNITS * WIDTH * SUM_PITCH * 4 <= STAGES * STAGE_BYTES,
                  "sums overwrite the stages");
};

#if UF_HAS_WGMMA

struct patch_wgrad_barriers {
    uint64_t full[UF_PATCH_WGRAD_STAGES], rounded[UF_PATCH_WGRAD_STAGES],
        empty[UF_PATCH_WGRAD_STAGES];
};

/* A CTA's coordinates. */
struct patch_wgrad_coord {
    int32_t unit, k_block, group, split, run, end;
};

static __device__ __forceinline__ patch_wgrad_coord
patch_wgrad_coord_of(const uf_patch_wgrad_plan &p) {
    patch_wgrad_coord at;
    int32_t rest = (int32_t)blockIdx.x;
    int32_t next = rest / p.k_blocks;
    at.k_block = rest - next * p.k_blocks;
    rest = next / p.unit_blocks;
    at.unit = (next - rest * p.unit_blocks) * UF_PATCH_WGRAD_UNITS;
    at.split = rest / p.groups;
    at.group = rest - at.split * p.groups;
    at.run = (int32_t)((int64_t)at.split * p.runs / p.splits);
    at.end = (int32_t)((int64_t)(at.split + 1) * p.runs / p.splits);
    return at;
}

/* Producer: one lane loads everything; in a pair each CTA loads one unit of x for both. A second
 * unit past the last is not loaded, and its warpgroup's sums are not stored. */
template <typename Tile>
static __device__ __forceinline__ void
patch_wgrad_produce(const patch_wgrad &g, const patch_wgrad_coord &at, uint32_t memory,
                    patch_wgrad_barriers *barriers) {
    const uf_patch_wgrad_plan &p = g.plan;
    const int32_t units = min(p.all_units - at.unit, (int32_t)UF_PATCH_WGRAD_UNITS);
    const int32_t piece = p.wide * p.pixels / Tile::X_PIECES;
    int32_t x_row[UF_PATCH_WGRAD_UNITS], x_channel[UF_PATCH_WGRAD_UNITS];
#pragma unroll
    for (int u = 0; u < UF_PATCH_WGRAD_UNITS; ++u) {
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
        for (int u = 0; u < UF_PATCH_WGRAD_UNITS; ++u) {
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

static __device__ __forceinline__ void patch_wgrad_store(uint32_t to, const uint32_t (&word)[4]) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};\n" ::"r"(to), "r"(word[0]), "r"(word[1]),
                 "r"(word[2]), "r"(word[3])
                 : "memory");
}

/* Rounds y to nearest TF32 in place; FP32 also stores its small parts. */
template <typename Tile>
static __device__ __forceinline__ void
patch_wgrad_round(const patch_wgrad_coord &at, uint32_t memory, patch_wgrad_barriers *barriers,
                  int thread) {
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
                    if (Tile::MATH == UF_MMA_TF32X3) {
                        mma_split_tf32(value[i][j], &big[j], &small[j]);
                    } else {
                        big[j] = mma_round_by_bits(value[i][j]);
                    }
                }
                patch_wgrad_store(from + (uint32_t)(i * STEP), big);
                if (Tile::MATH == UF_MMA_TF32X3) {
                    patch_wgrad_store(from + (uint32_t)(i * STEP + Tile::Y_BYTES), small);
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
