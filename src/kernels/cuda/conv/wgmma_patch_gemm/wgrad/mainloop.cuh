/* mainloop.cuh - MMAs, sums and kernel of wgrad/launch.cu, which says how it
 * works. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_WGRAD_MAINLOOP_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_WGRAD_MAINLOOP_CUH

#include "kernels/cuda/conv/wgmma_patch_gemm/wgrad/load.cuh"
#include "kernels/cuda/arch/sm90_wgmma_rs.cuh"

#if UF_HAS_WGMMA

/* x in shared memory; pieces of 16 bytes have changed places by the copy. With two taps four lanes
 * read 32 bytes of a channel, and these must not meet those of the neighbouring channel in the same
 * banks: fragment rows are not channels in their order. With one, ldmatrix reads. */
template <typename Tile>
struct patch_wgrad_rows {
    /* The channel, of eight, of fragment row g. */
    static __device__ __forceinline__ int channel(int g) {
        return Tile::WIDE == 2 ? (g & 3) * 2 + (g >> 2) : g;
    }

    /* Where this thread of a warpgroup reads, from the unit's first byte on. */
    static __device__ __forceinline__ uint32_t coord(int thread) {
        const int lane = thread & 31, warp = thread >> 5;
        if (Tile::WIDE == 2) {
            const int row = channel(lane >> 2);
            return (uint32_t)((warp * 16 + row) * 128 + (((lane >> 1 & 1) ^ row) << 4) +
                              (lane & 1) * 8);
        }
        /* Matrix lane/8 of four is channels 8*(matrix & 1) and bytes 16*(matrix >> 1) on. */
        const int row = lane & 7;
        const int exchange = Tile::X_ROW == 128 ? row : row >> 1;
        return (uint32_t)((warp * 16 + (lane >> 3 & 1) * 8 + row) * Tile::X_ROW +
                          (((lane >> 4) ^ exchange) << 4));
    }
};

/* Of a step, a lane's four words for each of two MMAs: the two taps, neighbours of a row of x;
 * or two times 64 channels. */
template <typename Tile>
struct patch_wgrad_raw {
    uint32_t word[8];

    __device__ __forceinline__ void load(uint32_t from, int step) {
        if (Tile::WIDE == 2) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];\n"
                             : "=r"(word[2 * i]), "=r"(word[2 * i + 1])
                             : "r"((from ^ (uint32_t)((step & 1) * 64 + (i >> 1) * 32)) +
                                   (uint32_t)((step >> 1) * Tile::X_PIECE_BYTES + (i & 1) * 1024))
                             : "memory");
            }
        } else {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                asm volatile(
                    "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                    : "=r"(word[4 * i]), "=r"(word[4 * i + 1]), "=r"(word[4 * i + 2]),
                      "=r"(word[4 * i + 3])
                    : "r"((from ^ (uint32_t)(step * 32)) + (uint32_t)(i * 64 * Tile::X_ROW))
                    : "memory");
            }
        }
    }

    __device__ __forceinline__ void split(uint32_t (&a)[2][4]) const {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const uint32_t first = Tile::WIDE == 2 ? word[2 * i] : word[i];
            const uint32_t second = Tile::WIDE == 2 ? word[2 * i + 1] : word[4 + i];
            if (Tile::MATH == UF_MMA_TF32) {
                a[0][i] = mma_round_by_bits(__uint_as_float(first));
                a[1][i] = mma_round_by_bits(__uint_as_float(second));
            } else if (Tile::WIDE == 2) {
                a[0][i] = __byte_perm(first, second, 0x5410);
                a[1][i] = __byte_perm(first, second, 0x7632);
            } else {
                a[0][i] = first;
                a[1][i] = second;
            }
        }
        pin(a);
    }

    /* FP32: both halves. */
    __device__ __forceinline__ void split(uint32_t (&big)[2][4], uint32_t (&small)[2][4]) const {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const int s = Tile::WIDE == 2 ? i & 1 : i >> 2;
            const int j = Tile::WIDE == 2 ? i >> 1 : i & 3;
            mma_split_f16_by_mmas(__uint_as_float(word[i]), &big[s][j], &small[s][j]);
        }
        pin(big);
        pin(small);
    }

    /* All of them before the MMAs begin: not one by one between these. */
    static __device__ __forceinline__ void pin(uint32_t (&a)[2][4]) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            asm volatile("" : "+r"(a[i >> 2][i & 3])::"memory");
        }
    }
};

template <uf_mma_math MATH>
struct patch_wgrad_type {
    typedef uf_wgmma_bf16 type;
};
template <>
struct patch_wgrad_type<UF_MMA_TF32> {
    typedef uf_wgmma_tf32 type;
};

/* The sums of a unit change places in shared memory, so that what is written are whole lines: a row
 * of `partial` has 64 channels of each of its two taps, or 128, beside each other. */
template <typename Tile>
static __device__ __forceinline__ void
patch_wgrad_write(const patch_wgrad &g, const patch_wgrad_coord &at, uint32_t memory, int warpgroup,
                  int thread, const float (&sum)[2][Tile::WIDTH / 2]) {
    const uf_patch_wgrad_plan &p = g.plan;
    const int lane = thread & 31;
    const uint32_t stage =
        memory + (uint32_t)(warpgroup * Tile::WIDTH * Tile::SUM_PITCH) * (uint32_t)sizeof(float);
    const uint32_t to = stage + (uint32_t)(2 * (lane & 3) * Tile::SUM_PITCH + (thread >> 5) * 16 +
                                           patch_wgrad_rows<Tile>::channel(lane >> 2)) *
                                    (uint32_t)sizeof(float);
    /* Both warpgroups are done with the stages. */
    uf_named_barrier(1, Tile::CONSUMERS);
#pragma unroll
    for (int s = 0; s < 2; ++s) {
#pragma unroll
        for (int j = 0; j < Tile::WIDTH / 2; ++j) {
            const int k = j / 4 * 8 + (j & 1), c = (j >> 1 & 1) * 8;
            asm volatile(
                "st.shared.f32 [%0], %1;\n" ::"r"(
                    to + (uint32_t)(k * Tile::SUM_PITCH + s * 64 + c) * (uint32_t)sizeof(float)),
                "f"(sum[s][j])
                : "memory");
        }
    }
    uf_named_barrier(2 + warpgroup, 128);
    const int32_t unit = at.unit + warpgroup;
    if (unit >= p.all_units) {
        return;
    }
    const int32_t k_first = at.k_block * Tile::WIDTH;
    const int32_t rows = min(p.k_per_group - k_first, (int32_t)Tile::WIDTH);
    const int64_t tile = ((int64_t)at.split * p.groups + at.group) * g.row_tiles;
    float *const unit_first = g.partial + unit * Tile::SUM_ROW + lane * 4;
    const uint32_t from = stage + (uint32_t)(lane * 16);
    /* A warp a row: 512 bytes. Bulk copies of as much, one of each lane, took 10 cycles for 128. */
    constexpr int WARPS = 4, TOGETHER = 4;
#pragma unroll 1
    for (int32_t row = thread >> 5; row < rows; row += WARPS * TOGETHER) {
        uint32_t word[TOGETHER][4];
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) {
            asm volatile(
                "ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];\n"
                : "=r"(word[i][0]), "=r"(word[i][1]), "=r"(word[i][2]), "=r"(word[i][3])
                : "r"(from + (uint32_t)((row + i * WARPS) * Tile::SUM_PITCH * (int)sizeof(float)))
                : "memory");
        }
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) {
            const int32_t k = k_first + row + i * WARPS;
            float *const to = unit_first + ((tile + k / 64) * g.sum_rows + k % 64) * g.columns;
            if (row + i * WARPS < rows) {
                uf_store_words(to, word[i]);
            }
        }
    }
}

/* Where a warpgroup's operands are. */
template <typename Tile>
struct patch_wgrad_reads {
    uint64_t y_form; /* an operand of y, at address 0 */
    uint32_t x_at;   /* where this thread reads x, from a stage's first byte on */

    __device__ __forceinline__ patch_wgrad_reads(int warpgroup, int thread) {
        /* y: the next eight channels are 8 * Y_ROW bytes on; the swizzle of the copy. */
        y_form = (uint64_t)1 << 16 | (uint64_t)(8 * Tile::Y_ROW >> 4) << 32 |
                 (uint64_t)(Tile::Y_ROW == 128 ? 1 : 2) << 62;
        x_at = (uint32_t)(Tile::X_AT + warpgroup * Tile::UNIT_BYTES) +
               patch_wgrad_rows<Tile>::coord(thread);
    }

    /* Step `step` of the channels of y at `address`. */
    __device__ __forceinline__ uint64_t y(uint32_t address, int step) const {
        return y_form | (uint64_t)(((address & 0x3ffffu) >> 4) + step * 2);
    }
};

template <typename Tile>
static __device__ __forceinline__ void
patch_wgrad_consume(const patch_wgrad_coord &at, uint32_t memory, patch_wgrad_barriers *barriers,
                    int warpgroup, int thread, float (&sum)[2][Tile::WIDTH / 2]) {
    typedef uf_wgmma_mma_rs<typename patch_wgrad_type<Tile::MATH>::type, Tile::WIDTH> multiply;
    const patch_wgrad_reads<Tile> reads(warpgroup, thread);
    const uf_stage_release<Tile::PAIR> empty(barriers->empty);
    uf_ring stage = {0, 0};
    int32_t last = -1;
#pragma unroll
    for (int s = 0; s < 2; ++s) {
        uf_wgmma_pin(sum[s]);
    }
#pragma unroll 1
    for (int32_t run = at.run; run < at.end; ++run) {
        const uint32_t address = memory + (uint32_t)(stage.index * Tile::STAGE_BYTES);
        uf_barrier_wait(barriers->full + stage.index, stage.parity);
        patch_wgrad_raw<Tile> raw;
        uint32_t a[2][2][4];
        raw.load(address + reads.x_at, 0);
        raw.split(a[0]);
        if (Tile::MATH == UF_MMA_TF32) {
            uf_barrier_wait(barriers->rounded + stage.index, stage.parity);
        }
#pragma unroll
        for (int step = 0; step < Tile::STEPS; ++step) {
            uf_wgmma_fence();
#pragma unroll
            for (int s = 0; s < 2; ++s) {
                multiply::run(sum[s], a[step & 1][s], reads.y(address, step), 1);
            }
            uf_wgmma_commit();
            uf_wgmma_wait<1>();
            if (step + 1 < Tile::STEPS) {
                raw.load(address + reads.x_at, step + 1);
                raw.split(a[(step + 1) & 1]);
            }
            /* With a first step under way, the MMAs of the stage before are done, which took
             * what all lanes read. No uf_barrier_release: after its __syncwarp ptxas issues bf16
             * MMAs one by one (C7513). */
            if (step == 0 && last >= 0) {
                empty.arrive(last);
            }
        }
        last = stage.index;
        stage.next(Tile::STAGES);
    }
    uf_wgmma_wait<0>();
#pragma unroll
    for (int s = 0; s < 2; ++s) {
        uf_wgmma_pin(sum[s]);
    }
}

/* Three MMAs of halves. The tensor core truncates what it adds to: 16 pixels are summed at a
 * time, small MMAs first, and that is added to ordinary registers while the other warpgroup
 * multiplies. */
template <typename Tile>
static __device__ __forceinline__ void
patch_wgrad_consume_fp32(const patch_wgrad_coord &at, uint32_t memory,
                         patch_wgrad_barriers *barriers, int warpgroup, int thread,
                         float (&sum)[2][Tile::WIDTH / 2]) {
    typedef uf_wgmma_mma_rs<uf_wgmma_tf32, Tile::WIDTH> multiply;
    const patch_wgrad_reads<Tile> reads(warpgroup, thread);
    uf_ring stage = {0, 0};
#pragma unroll 1
    for (int32_t run = at.run; run < at.end; ++run) {
        const uint32_t address = memory + (uint32_t)(stage.index * Tile::STAGE_BYTES);
        patch_wgrad_raw<Tile> raw[2];
        uf_barrier_wait(barriers->full + stage.index, stage.parity);
        raw[0].load(address + reads.x_at, 0);
        raw[1].load(address + reads.x_at, 1);
        uf_barrier_wait(barriers->rounded + stage.index, stage.parity);
#pragma unroll
        for (int step = 0; step < Tile::STEPS; step += 2) {
            uint32_t big[2][2][4], small[2][2][4];
            float part[2][Tile::WIDTH / 2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                raw[i].split(big[i], small[i]);
            }
            uf_wgmma_fence();
#pragma unroll
            for (int mma = 0; mma < 6; ++mma) {
                const int i = mma & 1;
                const uint64_t y =
                    reads.y(address + (uint32_t)(mma >> 1 == 1 ? Tile::Y_BYTES : 0), step + i);
#pragma unroll
                for (int s = 0; s < 2; ++s) {
                    multiply::run(part[s], mma < 2 ? small[i][s] : big[i][s], y, mma > 0);
                }
            }
            uf_wgmma_commit();
            if (step + 2 < Tile::STEPS) {
                raw[0].load(address + reads.x_at, step + 2);
                raw[1].load(address + reads.x_at, step + 3);
            }
            uf_wgmma_wait<0>();
#pragma unroll
            for (int s = 0; s < 2; ++s) {
                uf_wgmma_pin(part[s]);
#pragma unroll
                for (int j = 0; j < Tile::WIDTH / 2; ++j) {
                    sum[s][j] += part[s][j];
                }
            }
        }
        uf_barrier_release(barriers->empty + stage.index, (thread & 31) == 0);
        stage.next(Tile::STAGES);
    }
}

template <typename Tile>
static __device__ __forceinline__ void
patch_wgrad_multiply(const patch_wgrad &g, const patch_wgrad_coord &at, uint32_t memory,
                     patch_wgrad_barriers *barriers) {
    /* From one lane, so that the compiler knows that a warp agrees about it. */
    const int warpgroup = __shfl_sync(0xffffffffu, (int)threadIdx.x >> 7, 0);
    const int thread = (int)threadIdx.x & 127;
    float sum[2][Tile::WIDTH / 2];
#pragma unroll
    for (int s = 0; s < 2; ++s) {
#pragma unroll
        for (int i = 0; i < Tile::WIDTH / 2; ++i) {
            sum[s][i] = 0.0f;
        }
    }
    if constexpr (Tile::MATH == UF_MMA_TF32X3) {
        patch_wgrad_consume_fp32<Tile>(at, memory, barriers, warpgroup, thread, sum);
    } else {
        patch_wgrad_consume<Tile>(at, memory, barriers, warpgroup, thread, sum);
    }
    if (Tile::PAIR) {
        uf_pair_epilogue();
    }
    patch_wgrad_write<Tile>(g, at, memory, warpgroup, thread, sum);
}

#endif

template <typename Tile>
static __global__ void __launch_bounds__(Tile::THREADS, 1)
    conv_patch_wgrad(const __grid_constant__ patch_wgrad g) {
#if UF_HAS_WGMMA
    extern __shared__ __align__(128) unsigned char patch_wgrad_memory[];
    patch_wgrad_barriers *const barriers = (patch_wgrad_barriers *)patch_wgrad_memory;
    const uint32_t memory =
        (uf_shared_address(patch_wgrad_memory) + (uint32_t)sizeof(patch_wgrad_barriers) + 1023) /
        1024 * 1024;
    const int thread = (int)threadIdx.x;
    if (thread == 0) {
        for (int i = 0; i < Tile::STAGES; ++i) {
            uf_barrier_init(barriers->full + i, 1);
            uf_barrier_init(barriers->rounded + i, Tile::ROUNDERS);
            uf_barrier_init(barriers->empty + i, Tile::CONSUMERS / 32 * (Tile::PAIR ? 2 : 1));
        }
        uf_barrier_init_fence();
    }
    __syncthreads();
    if (Tile::PAIR) { /* the other's barriers are there */
        uf_pair_meet();
    }
    uf_wait_for_launcher();
    uf_launch_dependents();
    const patch_wgrad_coord at = patch_wgrad_coord_of(g.plan);
    if (thread < Tile::CONSUMERS) {
        uf_registers_take<216>();
        patch_wgrad_multiply<Tile>(g, at, memory, barriers);
    } else {
        uf_registers_release<72>();
        if (thread == Tile::CONSUMERS) {
            patch_wgrad_produce<Tile>(g, at, memory, barriers);
        } else if (Tile::MATH != UF_MMA_BF16 && thread >= Tile::THREADS - 32 * Tile::ROUNDERS) {
            patch_wgrad_round<Tile>(at, memory, barriers,
                                    thread - (Tile::THREADS - 32 * Tile::ROUNDERS));
        }
        if (Tile::PAIR) {
            uf_pair_epilogue();
        }
    }
    if (Tile::PAIR) { /* nothing of this block is asked for any more */
        uf_pair_end();
    }
#endif
}

#endif
