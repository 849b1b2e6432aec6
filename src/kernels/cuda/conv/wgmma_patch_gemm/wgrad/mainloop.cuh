/* mainloop.cuh - MMAs, sums and kernel of wgrad/launch.cu. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_WGRAD_MAINLOOP_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_WGRAD_MAINLOOP_CUH

#include "kernels/cuda/conv/wgmma_patch_gemm/wgrad/load.cuh"
#include "kernels/cuda/arch/sm90_wgmma_rs.cuh"

#if UF_HAS_WGMMA

/* x in shared memory, swizzled by TMA. With two taps four lanes read 32 bytes of a channel. In
 * channel order they would share banks with the next channel's lanes, so fragment rows are permuted
 * channels. With one tap ldmatrix reads. */
template <typename Tile>
struct patch_wgrad_rows {
    /* The channel, of eight, of fragment row g. */
    static __device__ __forceinline__ int channel(int g) {
        return Tile::WIDE == 2 ? (g & 3) * 2 + (g >> 2) : g;
    }

    /* The offset of this thread's reads from the unit's first byte. */
    static __device__ __forceinline__ uint32_t offset(int thread) {
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

/* A lane's four words of a step for each of two MMAs. These are the two taps, neighbours of a row
 * of x, or two times 64 channels. */
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

    /* FP32: large and small parts. */
    __device__ __forceinline__ void split(uint32_t (&big)[2][4], uint32_t (&small)[2][4]) const {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const int s = Tile::WIDE == 2 ? i & 1 : i >> 2;
            const int j = Tile::WIDE == 2 ? i >> 1 : i & 3;
            mma_split_tf32_by_mmas(__uint_as_float(word[i]), &big[s][j], &small[s][j]);
        }
        pin(big);
        pin(small);
    }

    /* Makes all fragments before the first MMA, not one by one in between. */
    static __device__ __forceinline__ void pin(uint32_t (&a)[2][4]) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            asm volatile("" : "+r"(a[i >> 2][i & 3])::"memory");
        }
    }
};

/* Transposes a unit's sums through shared memory, so that stores are whole lines. A row of
 * `partial` has 64 channels of each of two taps, or 128 channels. */
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
    /* A warp stores a row of 512 bytes; bulk copies by each lane took 10 cycles for 128 bytes. */
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

/* The operands of a warpgroup. */
template <typename Tile>
struct patch_wgrad_reads {
    uint64_t y_form; /* descriptor of y at address 0 */
    uint32_t x_at;   /* offset of this thread's reads of x in a stage */

    __device__ __forceinline__ patch_wgrad_reads(int warpgroup, int thread) {
        /* The next eight channels of y are 8 * Y_ROW bytes on; TMA's swizzle. */
        y_form = (uint64_t)1 << 16 | (uint64_t)(8 * Tile::Y_ROW >> 4) << 32 |
                 (uint64_t)(Tile::Y_ROW == 128 ? 1 : 2) << 62;
        x_at = (uint32_t)(Tile::X_AT + warpgroup * Tile::UNIT_BYTES) +
               patch_wgrad_rows<Tile>::offset(thread);
    }

    /* Descriptor of step `step` of the channels of y at `address`. */
    __device__ __forceinline__ uint64_t y(uint32_t address, int step) const {
        return y_form | (uint64_t)(((address & 0x3ffffu) >> 4) + step * 2);
    }
};

template <typename Tile>
static __device__ __forceinline__ void
patch_wgrad_consume(const patch_wgrad_coord &at, uint32_t memory, patch_wgrad_barriers *barriers,
                    int warpgroup, int thread, float (&sum)[2][Tile::WIDTH / 2]) {
    typedef uf_wgmma_mma_rs<typename uf_wgmma_element<Tile::MATH == UF_MMA_BF16>::type, Tile::WIDTH>
        multiply;
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
            /* With a first step in flight the MMAs of the stage before are done, and so are all
             * lanes' reads of it. Not uf_barrier_release: after its __syncwarp ptxas serialises
             * BF16 MMAs (C7513). */
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

/* 3xTF32. The tensor core truncates: sums of 16 pixels, MMAs with a small part first, are promoted
 * while the other warpgroup multiplies. */
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
    /* From lane 0, so that the compiler knows a uniform value. */
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
        uf_pair_arrive();
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
    if (Tile::PAIR) { /* the other CTA's barriers exist */
        uf_pair_sync();
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
            uf_pair_arrive();
        }
    }
    if (Tile::PAIR) { /* no CTA ends while the other may signal it */
        uf_pair_wait();
    }
#endif
}

#endif
