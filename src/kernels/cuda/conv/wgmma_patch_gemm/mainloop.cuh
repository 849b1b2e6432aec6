/* mainloop.cuh - main loop and kernels of the patch GEMM. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_MAINLOOP_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_MAINLOOP_CUH

#include "kernels/cuda/conv/wgmma_patch_gemm/epilogue_cluster.cuh"
#include "kernels/cuda/conv/wgmma_patch_gemm/load.cuh"
#include "kernels/cuda/arch/sm90_wgmma_rs.cuh"

#if UF_HAS_WGMMA

/* Fragments of a stage. pin() keeps the compiler from making one between a fence and its MMA. */
template <typename Tile>
struct patch_fragments {
    uint32_t of[Tile::STEPS][Tile::MMAS][4];

    __device__ __forceinline__ void pin() {
#pragma unroll
        for (int step = 0; step < Tile::STEPS; ++step) {
#pragma unroll
            for (int mma = 0; mma < Tile::MMAS; ++mma) {
                uint32_t(&a)[4] = of[step][mma];
                asm volatile("" : "+r"(a[0]), "+r"(a[1]), "+r"(a[2]), "+r"(a[3])::"memory");
            }
        }
    }
};

/* mma_round_by_bits into registers of its own. The next stage's words arrive while MMAs read these:
 * in shared registers ptxas would serialise the MMAs. */
static __device__ __forceinline__ uint32_t patch_round(uint32_t bits) {
    const uint32_t half = fabsf(__uint_as_float(bits)) < __int_as_float(0x7f800000) ? 0x1000u : 0u;
    uint32_t rounded;
    asm volatile("add.u32 %0, %1, %2;\n" : "=r"(rounded) : "r"(bits), "r"(half) : "memory");
    return rounded;
}

/* The sums of `stages` stages of a tile. A stage's MMAs run while the words of the next arrive, and
 * beside the other warpgroup's. */
template <typename Tile>
static __device__ __forceinline__ void
patch_sum(const patch_conv &p, const patch_shared &shared, const patch_lane<Tile> &lane,
          bool elected, int32_t stages, uf_ring &stage, patch_sums<Tile> &sums) {
    typedef uf_wgmma_mma_rs<typename uf_wgmma_element<Tile::BF16>::type, Tile::COLUMNS> multiply;
    const uint64_t weights_at =
        uf_wgmma_operand(shared.stages + UF_PATCH_READ, Tile::COLUMNS * 16, 128);
    patch_fragments<Tile> a;
    int32_t last = -1;
#pragma unroll
    for (int mma = 0; mma < Tile::MMAS; ++mma) {
        uf_wgmma_clear(sums.of[mma]);
    }
#pragma unroll 1
    for (int32_t i = 0; i < stages; ++i) {
        const uint32_t moved = (uint32_t)stage.index * Tile::STAGE_BYTES;
        const uint64_t b = weights_at + moved / 16;
        uint32_t word[Tile::WORDS];
        uf_barrier_wait(shared.barriers->full + stage.index, stage.parity);
        if (!Tile::AS_IT_IS) {
            patch_load<Tile>(lane, shared.stages + moved, word);
        }
        uf_wgmma_wait<0>();
        if (Tile::AS_IT_IS) {
            patch_load<Tile>(lane, shared.stages + moved, word);
        }
        if (last >= 0) {
            uf_barrier_release(shared.barriers->empty + last, elected);
        }
#pragma unroll
        for (int step = 0; step < Tile::STEPS; ++step) {
#pragma unroll
            for (int mma = 0; mma < Tile::MMAS; ++mma) {
#pragma unroll
                for (int reg = 0; reg < 4; ++reg) {
                    const uint32_t bits = patch_word<Tile>(word, step, mma, reg);
                    a.of[step][mma][reg] = Tile::BF16 ? bits : patch_round(bits);
                }
            }
        }
        a.pin();
        uf_wgmma_fence();
#pragma unroll
        for (int step = 0; step < Tile::STEPS; ++step) {
#pragma unroll
            for (int mma = 0; mma < Tile::MMAS; ++mma) {
                multiply::run(sums.of[mma], a.of[step][mma],
                              b + (uint32_t)(2 * step * Tile::COLUMNS), 1);
            }
        }
        uf_wgmma_commit();
        last = stage.index;
        stage.next(p.plan.buffers);
    }
    uf_wgmma_wait<0>();
#pragma unroll
    for (int mma = 0; mma < Tile::MMAS; ++mma) {
        uf_wgmma_pin(sums.of[mma]);
    }
    if (last >= 0) {
        uf_barrier_release(shared.barriers->empty + last, elected);
    }
}

/* The same in 3xTF32, MMAs with a small part first. The tensor core truncates: sums are promoted
 * after each stage or step. */
template <typename Tile>
static __device__ __forceinline__ void
patch_sum_fp32(const patch_conv &p, const patch_shared &shared, const patch_lane<Tile> &lane,
               bool elected, int32_t stages, uf_ring &stage, patch_sums<Tile> &sums) {
    typedef uf_wgmma_mma_rs<uf_wgmma_tf32, Tile::COLUMNS> multiply;
    const uint64_t weights_at =
        uf_wgmma_operand(shared.stages + UF_PATCH_READ, Tile::COLUMNS * 16, 128);
#pragma unroll
    for (int mma = 0; mma < Tile::MMAS; ++mma) {
#pragma unroll
        for (int i = 0; i < Tile::SUMS; ++i) {
            sums.of[mma][i] = 0.0f;
        }
        uf_wgmma_pin(sums.of[mma]);
    }
#pragma unroll 1
    for (int32_t i = 0; i < stages; ++i) {
        const uint32_t moved = (uint32_t)stage.index * Tile::STAGE_BYTES;
        const uint64_t b = weights_at + moved / 16;
        uint32_t word[Tile::WORDS];
        patch_fragments<Tile> big, small;
        uf_barrier_wait(shared.barriers->full + stage.index, stage.parity);
        patch_load<Tile>(lane, shared.stages + moved, word);
#pragma unroll
        for (int step = 0; step < Tile::STEPS; ++step) {
#pragma unroll
            for (int mma = 0; mma < Tile::MMAS; ++mma) {
#pragma unroll
                for (int reg = 0; reg < 4; ++reg) {
                    mma_split_tf32_by_mmas(__uint_as_float(patch_word<Tile>(word, step, mma, reg)),
                                           &big.of[step][mma][reg], &small.of[step][mma][reg]);
                }
            }
        }
        big.pin();
        small.pin();
        constexpr int TOGETHER = Tile::BRIEF ? 1 : Tile::STEPS;
#pragma unroll
        for (int first = 0; first < Tile::STEPS; first += TOGETHER) {
            patch_sums<Tile> part;
            uf_wgmma_fence();
#pragma unroll
            for (int which = 0; which < 3; ++which) {
#pragma unroll
                for (int step = first; step < first + TOGETHER; ++step) {
#pragma unroll
                    for (int mma = 0; mma < Tile::MMAS; ++mma) {
                        multiply::run(part.of[mma],
                                      which == 0 ? small.of[step][mma] : big.of[step][mma],
                                      b + (uint32_t)(2 * step * Tile::COLUMNS +
                                                     (which == 1 ? Tile::HALF_BYTES / 16 : 0)),
                                      which + step > first);
                    }
                }
            }
            uf_wgmma_commit();
            uf_wgmma_wait<0>();
            if (first + TOGETHER == Tile::STEPS) {
                uf_barrier_release(shared.barriers->empty + stage.index, elected);
            }
#pragma unroll
            for (int mma = 0; mma < Tile::MMAS; ++mma) {
                uf_wgmma_pin(part.of[mma]);
#pragma unroll
                for (int j = 0; j < Tile::SUMS; ++j) {
                    sums.of[mma][j] += part.of[mma][j];
                }
            }
        }
        stage.next(p.plan.buffers);
    }
}

/* True if the accumulators of the warpgroup's pixels inside the tensor are finite. */
template <typename Tile>
static __device__ __forceinline__ bool patch_finite(const patch_conv &p, const patch_coord &at,
                                                    int warp, int lane,
                                                    const patch_sums<Tile> &sums) {
    float probe = 0.0f; /* NaN if a sum is infinite or NaN */
#pragma unroll
    for (int mma = 0; mma < Tile::MMAS; ++mma) {
#pragma unroll
        for (int low = 0; low < 2; ++low) {
            if (patch_pixel_of(p, at, warp * 32 + patch_index<Tile>(lane, mma, low)).there) {
#pragma unroll
                for (int i = 0; i < Tile::SUMS; i += 4) {
                    probe = fmaf(sums.of[mma][i + 2 * low], 0.0f, probe);
                    probe = fmaf(sums.of[mma][i + 2 * low + 1], 0.0f, probe);
                }
            }
        }
    }
    const bool finite = uf_named_barrier_and(1 + (warp >> 2), 128, probe == 0.0f);
    return __shfl_sync(0xffffffffu, (int)finite, 0) != 0;
}

/* The stores of a unit's columns: in pieces of less than 16 bytes only for units of four bf16. */
template <typename Tile>
static __device__ __forceinline__ constexpr int patch_columns_per_pass() {
    return Tile::SPREAD == 4 && Tile::ELEMENT == 2 ? PATCH_COLUMNS : PATCH_RUNS;
}

template <typename Tile>
static __device__ __forceinline__ void patch_write(const patch_conv &p, const patch_coord &at,
                                                   const patch_shared &shared, int warp, int lane,
                                                   const patch_sums<Tile> &sums) {
    constexpr int COLUMNS = patch_columns_per_pass<Tile>();
    const int32_t first = at.unit;
    if (p.stepped && p.plain) {
        patch_write_steps<Tile, false>(p, at, warp, first, lane, sums);
    } else if (p.stepped) {
        patch_write_steps<Tile, true>(p, at, warp, first, lane, sums);
    } else if (Tile::SIDE == 1 && Tile::SPREAD == 1 && p.vectors == PATCH_THREES) {
        patch_write_threes<Tile>(p, at, warp, lane, shared.staging + warp * UF_PATCH_THREES * 32,
                                 sums);
    } else if (Tile::SPREAD == 1 || p.vectors == PATCH_SINGLY) { /* runs of one column are steps */
        patch_write_singly<Tile>(p, at, warp, first, lane, shared.staging + warp * 256, sums);
    } else if (COLUMNS == PATCH_COLUMNS && p.vectors == PATCH_COLUMNS) {
        patch_write_runs<Tile, COLUMNS>(p, at, warp, first, lane, sums);
    } else {
        patch_write_runs<Tile, PATCH_RUNS>(p, at, warp, first, lane, sums);
    }
}

/* The same for a cluster: each CTA adds and stores some columns. */
template <typename Tile>
static __device__ __forceinline__ void
patch_write_shared(const patch_conv &p, const patch_coord &at, const patch_share &share,
                   const patch_shared &shared, int warp, int lane, const patch_sums<Tile> &sums) {
    const int each = Tile::COLUMNS / 8 / p.plan.splits;
    const int first = share.split * each, end = first + each;
    constexpr int COLUMNS = patch_columns_per_pass<Tile>();
    const int32_t unit = at.unit;
    patch_share_sums<Tile>(shared, warp * 32 + lane, sums);
    bool finite = patch_add_shares<Tile>(p, at, shared, warp, lane, first, end);
    uf_cluster_arrive(); /* this CTA has read the others' shared memory */
    if (Tile::FP32) {
        finite = uf_named_barrier_and(1 + (warp >> 2), 128, finite);
        finite = __shfl_sync(0xffffffffu, (int)finite, 0) != 0;
        if ((warp & 3) == 0 && lane == 0) {
            p.unfinished[((int64_t)share.tile * UF_PATCH_GROUPS + (warp >> 2)) * p.plan.splits +
                         share.split] = !finite;
        }
    }
    if (finite || !Tile::FP32) {
        if (p.vectors == PATCH_SINGLY) {
            patch_write_parts_singly<Tile>(p, at, shared, warp, unit, lane,
                                           shared.staging + warp * 256, first, end);
        } else if (COLUMNS == PATCH_COLUMNS && p.vectors == PATCH_COLUMNS) {
            patch_write_parts<Tile, COLUMNS>(p, at, shared, warp, unit, lane, first, end);
        } else {
            patch_write_parts<Tile, PATCH_RUNS>(p, at, shared, warp, unit, lane, first, end);
        }
    }
    uf_cluster_wait();
}

template <typename Tile>
static __device__ __forceinline__ void patch_consumer(const patch_conv &p,
                                                      const patch_shared &shared) {
    /* From lane 0, so that the compiler knows a uniform value. */
    const int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x >> 5, 0);
    const int warpgroup = warp >> 2;
    const int lane = (int)threadIdx.x & 31;
    const bool elected = lane == 0;
    const patch_lane<Tile> mine = patch_lane_of<Tile>(p, warp, lane);
    const patch_share share = patch_share_of(p);
    uf_ring stage = {0, 0};
#pragma unroll 1
    for (int32_t tile = share.tile; tile < p.plan.tiles; tile += share.step) {
        const patch_coord at = patch_coord_of(p, tile);
        patch_sums<Tile> sums;
        if (Tile::FP32) {
            patch_sum_fp32<Tile>(p, shared, mine, elected, share.end - share.begin, stage, sums);
        } else {
            patch_sum<Tile>(p, shared, mine, elected, share.end - share.begin, stage, sums);
        }
        if (p.plan.splits > 1) {
            patch_write_shared<Tile>(p, at, share, shared, warp, lane, sums);
            break;
        }
        bool finite = true;
        if (Tile::FP32) {
            finite = patch_finite<Tile>(p, at, warp, lane, sums);
            if ((warp & 3) == 0 && elected) {
                p.unfinished[(int64_t)tile * UF_PATCH_GROUPS + warpgroup] = !finite;
            }
        }
        if (finite) { /* else the exact fix-up stores it */
            patch_write<Tile>(p, at, shared, warp, lane, sums);
        }
        __syncwarp();
    }
}

#endif

template <typename Tile>
static __global__ void __launch_bounds__(Tile::THREADS, 1)
    conv_wgmma_patch(const __grid_constant__ patch_conv p,
                     const __grid_constant__ CUtensorMap map) {
#if UF_HAS_WGMMA
    extern __shared__ __align__(1024) uint32_t memory[]; /* TMA swizzles by address */
    const int thread = (int)threadIdx.x;
    patch_shared shared;
    shared.stages = uf_shared_address(memory);
    shared.staging = (float *)(memory + p.plan.buffers * (Tile::STAGE_BYTES / 4));
    shared.barriers = (patch_barriers *)(shared.staging + p.plan.staging / 4);
    const bool pieces = Tile::SIDE == 1 && (p.piece == 8 || p.piece == 4);
    const uint32_t writers = pieces ? 1 + 128 : p.piece == 0 ? 32 : 1;
    if (thread == 0) {
        for (int i = 0; i < p.plan.buffers; ++i) {
            uf_barrier_init(shared.barriers->full + i, writers);
            uf_barrier_init(shared.barriers->empty + i, Tile::CONSUMERS / 32);
        }
        uf_barrier_init_fence();
    }
    __syncthreads();
    uf_wait_for_launcher();
    uf_launch_dependents();
    if (thread < Tile::CONSUMERS) {
        uf_registers_take<Tile::CONSUMER_REGISTERS>();
        patch_consumer<Tile>(p, shared);
    } else {
        uf_registers_release<Tile::PRODUCER_REGISTERS>();
        if (pieces) {
            if constexpr (Tile::SIDE == 1) {
                if (p.piece == 8) {
                    patch_producers<Tile, 8>(p, shared, thread - Tile::CONSUMERS);
                } else {
                    patch_producers<Tile, 4>(p, shared, thread - Tile::CONSUMERS);
                }
            }
        } else if (__shfl_sync(0xffffffffu, thread >> 5, 0) == Tile::CONSUMERS / 32) {
            patch_producer<Tile>(p, &map, shared, thread & 31);
        }
    }
#endif
}

/* Packs weights in the order of use: [group][tile of columns][stage][plane][column][16 bytes],
 * zeros where there is no channel. FP32 has planes of small parts after those of large ones. A
 * thread makes one piece (FP32: two). Neighbours make pieces that lie together in memory: of the
 * same column, or (p.columns_first) of the next columns. All tiles of a math and a type have this
 * kernel: their `stage_channels` differ, the channels of a stage, and Tile is one of them. */
template <typename Tile>
static __global__ void __launch_bounds__(UF_BLOCK)
    conv_wgmma_patch_pack(const __grid_constant__ patch_conv p, int32_t count,
                          int32_t stage_channels) {
    typedef typename Tile::stored T;
    const mma_conv &c = p.conv;
    const uf_patch_plan &plan = p.plan;
    const int32_t index = (int32_t)(blockIdx.x * UF_BLOCK + threadIdx.x);
    uf_overlap_launches();
    if (index >= count) {
        return;
    }
    const int32_t units = stage_channels / plan.tile.unit;
    const int32_t rows = plan.read_rows * plan.written_rows; /* one factor is 1 */
    int32_t rest = index, next, column = 0;
    if (p.columns_first) {
        rest = index / Tile::COLUMNS;
        column = index - rest * Tile::COLUMNS;
    }
    next = rest / plan.tile.pieces;
    const int32_t piece = rest - next * plan.tile.pieces;
    rest = next / rows;
    const int32_t row = next - rest * rows;
    if (!p.columns_first) {
        next = rest / Tile::COLUMNS;
        column = rest - next * Tile::COLUMNS;
        rest = next;
    }
    next = rest / units;
    const int32_t unit = rest - next * units;
    rest = next / plan.chunks;
    const int32_t chunk = next - rest * plan.chunks;
    const int32_t group = rest / plan.channel_tiles;
    const int32_t channel_tile = rest - group * plan.channel_tiles;
    int32_t in_tile, over, row_over, column_over;
    uf_patch_column(&plan.tile, column, &in_tile, &over);
    const int32_t written = channel_tile * plan.tile_units + in_tile;
    const int32_t written_channel = uf_patch_unit(&plan, written, &row_over, &column_over);
    const int32_t channels = in_tile < plan.tile_units && written < plan.units
                                 ? c.read_per_group - chunk * stage_channels
                                 : 0;
    const T *const from = (const T *)c.weight + group * c.w_group + written_channel * c.w_written +
                          chunk * stage_channels * c.w_read + (row + row_over) * c.w_row +
                          (column_over + over) * c.w_column;
    const int32_t column_tile =
        channel_tile * plan.written_rows + (plan.written_rows > 1 ? row : 0);
    const int32_t stage = chunk * plan.read_rows + (plan.read_rows > 1 ? row : 0);
    char *const to = (char *)c.packed +
                     (((int64_t)group * plan.column_tiles + column_tile) * plan.stages + stage) *
                         Tile::WEIGHT_BYTES +
                     ((unit * plan.tile.pieces + piece) * Tile::COLUMNS + column) * 16;
    /* All loads before the first use; absent values load some address that exists. */
    T raw[Tile::VALUES];
    bool there[Tile::VALUES];
#pragma unroll
    for (int i = 0; i < Tile::VALUES; ++i) {
        int32_t channel, side;
        uf_patch_k(&plan.tile, piece, i, &channel, &side);
        channel += unit * plan.tile.unit;
        there[i] = channel < channels;
        raw[i] =
            __ldg(there[i] ? from + channel * c.w_read + side * c.w_column : (const T *)c.weight);
    }
    float value[Tile::VALUES];
#pragma unroll
    for (int i = 0; i < Tile::VALUES; ++i) {
        value[i] = there[i] ? (float)raw[i] : 0.0f;
    }
    uint4 words, small;
    mma_words<Tile::MATH>(value, &words, &small);
    *(uint4 *)to = words;
    if (Tile::FP32) {
        *(uint4 *)(to + Tile::HALF_BYTES) = small;
    }
}

#endif
