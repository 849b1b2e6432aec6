/* mainloop.cuh - the main loop of split_f16/launch.cu, which says how it works, and its epilogue.
 */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_WGRAD_SPLIT_F16_MAINLOOP_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_WGRAD_SPLIT_F16_MAINLOOP_CUH

#include "kernels/cuda/conv/wgmma_wgrad/channel_blocked/reduce.cuh"
#include "kernels/cuda/conv/wgmma_wgrad/split_f16/pack.cuh"

/* ---- epilogue ---- */

/* The sums are w times both scales. Spans are marked for the fix-up where a sum is not finite,
 * where a chain of FFMAs might overflow, or where elements that lost bits may have spoiled it. */
struct split_f16_epilogue {
    static constexpr bool LATER = true;
    split_f16_state *state;
    uint8_t *marks;
    float mmas;        /* products of a sum */
    bool x_all, y_all; /* the tensor was read whole, not sampled */
    /* Set by begin(). */
    int32_t back; /* log2 of the factor from a sum to w */
    float limit;  /* least |sum| that needs no fix-up */
    bool nothing; /* no sum is kept: exponents might overflow */

    __device__ __forceinline__ void begin() {
        back = -split_f16_power(__ldcg(&state->most[0]), x_all) -
               split_f16_power(__ldcg(&state->most[1]), y_all);
        /* An element that lost bits has an error of up to 2^-37, times up to 2^15; a sum may have
         * one of 2^-24 of itself. Zero is below the limit too: errors may cancel or vanish. */
        limit = 4.0f * fminf((float)__ldcg(&state->tiny), mmas);
        nothing = back + uf_split_f16_exponent(__float_as_uint(mmas)) + 31 > 126;
    }
    __device__ __forceinline__ bool whole() const {
        return nothing;
    }
    __device__ __forceinline__ float of(float sum) const {
        return ldexpf(sum, back);
    }
    __device__ __forceinline__ bool kept(float sum, float value) const {
        return mma_finite(value) && fabsf(sum) >= limit;
    }
    __device__ __forceinline__ void mark(int32_t item, bool fixup) const {
        if (threadIdx.x == 0) {
            marks[item] = fixup ? 1 : 0;
            if (fixup) {
                state->fixup = 1; /* all writers write 1: no race */
            }
        }
    }
};

/* ---- MMAs ---- */

#if UF_HAS_WGMMA

struct split_f16_barriers {
    channel_blocked_barriers of;
    uint64_t split[UF_CHANNEL_BLOCKED_STAGES]; /* consumers have split y of the stage */
};

/* The tensor y arrives as rows of 32 pixels, 128 bytes, of each channel, in TMA's swizzle of 128
 * bytes. After the split in place the first four pieces of a row are its big parts, the others its
 * small ones. */
template <typename Tile>
static __device__ __forceinline__ channel_blocked_fragments
split_f16_fragments_of(const uf_channel_blocked_plan &p, int row, int thread) {
    if (Tile::SOURCE == UF_CHANNEL_BLOCKED_PACKED) {
        return channel_blocked_fragments_of<Tile>(p, row, thread);
    }
    const int lane = thread & 31;
    int warp = thread >> 5;
    uint32_t up = (uint32_t)p.twin; /* as in channel_blocked_fragments_of */
    if (p.twin > 0 && warp >= 2) {
        warp -= 2;
        up = 0;
    }
    const uint32_t channel =
        (uint32_t)(row * UF_CHANNEL_BLOCKED_ROWS + warp * 16 + (lane >> 3 & 1) * 8 + (lane & 7));
    channel_blocked_fragments made;
    made.row_bytes = (uint32_t)(p.y_bytes / p.y_rows);
    made.base =
        up * made.row_bytes + channel * 128 + (((uint32_t)(lane >> 4) ^ (channel & 7)) << 4);
    return made;
}

/* A fragment of big or of small parts, in the layout of mma.m16n8k16. */
template <typename Tile>
static __device__ __forceinline__ void split_f16_load(uint32_t (&word)[4], uint32_t stage,
                                                      const channel_blocked_fragments &y,
                                                      uint32_t y_small, int step, bool small) {
    if (Tile::SOURCE == UF_CHANNEL_BLOCKED_PACKED) {
        uf_load_matrices_transposed(word,
                                    stage + y.base + (small ? y_small : 0) + (uint32_t)step * 256);
    } else {
        uf_load_matrices(word, (stage + y.base + (uint32_t)(step >> 1) * y.row_bytes) ^
                                   ((uint32_t)(step & 1) * 32 + (small ? 64 : 0)));
    }
}

/* Zeros unless `there`; predicated, because a branch among MMAs would cost a synchronisation. */
static __device__ __forceinline__ void split_f16_load_four(float (&value)[4], uint32_t address,
                                                           bool there) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.s32 p, %5, 0;\n"
                 "mov.f32 %0, 0f00000000;\nmov.f32 %1, 0f00000000;\n"
                 "mov.f32 %2, 0f00000000;\nmov.f32 %3, 0f00000000;\n"
                 "@p ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];\n}\n"
                 : "=f"(value[0]), "=f"(value[1]), "=f"(value[2]), "=f"(value[3])
                 : "r"(address), "r"((int)there)
                 : "memory");
}

static __device__ __forceinline__ void split_f16_store_two(uint32_t address, uint32_t first,
                                                           uint32_t second, bool there) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.s32 p, %3, 0;\n"
                 "@p st.shared.v2.b32 [%0], {%1, %2};\n}\n" ::"r"(address),
                 "r"(first), "r"(second), "r"((int)there)
                 : "memory");
}

/* A descriptor from its words: sums of addresses never carry into the second. */
static __device__ __forceinline__ uint64_t split_f16_operand(uint32_t low, uint32_t high) {
    return (uint64_t)high << 32 | low;
}

/* A warp's share of splitting y in place: four rows of 32 pixels at a time, eight lanes a row.
 * Neighbouring rows store big and small parts in opposite order, to stay out of each other's
 * banks. */
struct split_f16_splitter {
    uint32_t first;    /* the warp's first group of four rows */
    uint32_t from, to; /* bytes from a stage's begin, of a lane */
    uint32_t turn;     /* the swizzle's bits */
    float scale;
    bool odd; /* small parts first */

    __device__ __forceinline__ split_f16_splitter(int warp, int lane, float by) {
        const uint32_t row = (uint32_t)lane >> 3, piece = (uint32_t)lane & 7;
        first = (uint32_t)warp;
        turn = ((uint32_t)warp * 4 + row) & 7; /* of its later groups too: warps are even */
        from = (uint32_t)warp * 512 + row * 128 + ((piece ^ turn) << 4);
        to = (uint32_t)warp * 512 + row * 128 + ((piece >> 1 ^ turn) << 4) + (piece & 1) * 8;
        odd = (row & 1) != 0;
        to ^= odd ? 64 : 0;
        scale = by;
    }

    __device__ __forceinline__ void split(uint32_t stage, uint32_t four, uint32_t fours, bool count,
                                          split_f16_lost &lost) const {
        const bool there = first + four < fours;
        float value[4];
        uint32_t big[2], small[2];
        split_f16_load_four(value, stage + from + four * 512, there);
        if (count) {
            lost.see(value);
        }
        uf_split_f16_split(value[0] * scale, value[1] * scale, &big[0], &small[0]);
        uf_split_f16_split(value[2] * scale, value[3] * scale, &big[1], &small[1]);
        __syncwarp();
        const uint32_t at = stage + to + four * 512;
        split_f16_store_two(at, odd ? small[0] : big[0], odd ? small[1] : big[1], there);
        split_f16_store_two(at ^ 64, odd ? big[0] : small[0], odd ? big[1] : small[1], there);
    }
};

/* MMA `i` of a stage's 2 * STEPS for all units, `x` being the first unit's descriptor. The first
 * STEPS have a small part: x's big one by y's small one, and the other way round. Units take turns,
 * because an MMA into the accumulators of the one before would wait for it. */
template <typename Tile, int STEPS>
static __device__ __forceinline__ void
split_f16_multiply(float (&part)[Tile::UNITS][Tile::WIDTH / 2], const uint32_t (&big)[4],
                   const uint32_t (&small)[4], int i, uint32_t base,
                   const uint32_t (&offset)[Tile::UNITS], const uf_channel_blocked_plan &p,
                   uint32_t x_small, uint32_t form) {
    const int step = i % STEPS;
#pragma unroll
    for (int u = 0; u <= Tile::UNITS; ++u) {
        if (u < Tile::UNITS) {
            const uint64_t x =
                split_f16_operand(base + offset[u] + (uint32_t)p.step_at[step], form);
            split_f16_mma<Tile::WIDTH>::run(part[u], i < STEPS ? small : big, x, step > 0);
        }
        if (u > 0 && i < STEPS) {
            const uint64_t x =
                split_f16_operand(base + offset[u - 1] + (uint32_t)p.step_at[step] + x_small, form);
            split_f16_mma<Tile::WIDTH>::run(part[u - 1], big, x, 1);
        }
    }
}

/* sum += part, or part * 2^-12 of MMAs with a small part, behind all MMAs. */
template <typename Tile>
static __device__ __forceinline__ void
split_f16_promote(float (&sum)[Tile::UNITS][Tile::WIDTH / 2],
                  float (&part)[Tile::UNITS][Tile::WIDTH / 2], bool small) {
    constexpr float DOWN = 1.0f / (1 << UF_SPLIT_F16_SMALL);
    uf_wgmma_wait<0>();
#pragma unroll
    for (int u = 0; u < Tile::UNITS; ++u) {
        uf_wgmma_pin(part[u]);
#pragma unroll
        for (int j = 0; j < Tile::WIDTH / 2; ++j) {
            sum[u][j] = small ? part[u][j] * DOWN + sum[u][j] : part[u][j] + sum[u][j];
        }
    }
}

/* MMAs of a stage with a small part are summed first, then those of big parts. The tensor core
 * truncates, so that both sums are promoted to f32 registers after each stage. */
template <typename Tile>
static __device__ __forceinline__ void
split_f16_consume(const wgrad_channel_blocked &g, const channel_blocked_coord &at, uint32_t memory,
                  split_f16_barriers *barriers, float scale, split_f16_state *state) {
    constexpr int STEPS = UF_CHANNEL_BLOCKED_PIXELS / 16;
    constexpr bool SPLITS = Tile::SOURCE == UF_CHANNEL_BLOCKED_F32;
    constexpr uint32_t WARPS = Tile::WARPGROUPS * 4;
    /* Most groups of four rows of a warp, and of a step: a stage has 64 for 64 channels. */
    constexpr int FOURS = (64 * Tile::ROWS + (int)WARPS - 1) / (int)WARPS;
    constexpr int EACH = (FOURS + 2 * STEPS - 3) / (2 * STEPS - 2);
    const uf_channel_blocked_plan &p = g.plan;
    /* A shuffle tells the compiler that the value is the same in the whole warp. */
    const int warpgroup = __shfl_sync(0xffffffffu, (int)threadIdx.x >> 7, 0);
    const int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x >> 5, 0);
    const int thread = (int)threadIdx.x & 127, lane = (int)threadIdx.x & 31;
    const int row = warpgroup % Tile::ROWS;
    const int32_t unit = at.unit + warpgroup / Tile::ROWS * Tile::UNITS;
    float sum[Tile::UNITS][Tile::WIDTH / 2];
    uint32_t offset[Tile::UNITS];
    channel_blocked_begin(p, unit, channel_blocked_window_of(p, at.unit), sum, offset);
    const uint64_t b_form =
        channel_blocked_operand(0, (uint32_t)p.run_pitch, (uint32_t)p.window_rows);
    const uint32_t form = (uint32_t)(b_form >> 32);
    const channel_blocked_fragments y = split_f16_fragments_of<Tile>(p, row, thread);
    const uint32_t y_small = (uint32_t)p.y_bytes / 2, x_small = (uint32_t)p.part_bytes >> 4;
    const split_f16_splitter splitter(warp, lane, scale);
    const uint32_t fours = (uint32_t)p.y_bytes / 512;
    /* Several blocks split the same y: one of them counts. */
    const bool count = at.unit == 0;
    split_f16_lost lost(scale);
    uf_ring stage = {0, 0};
    if (SPLITS) {
        uf_barrier_wait(barriers->of.full, 0);
#pragma unroll 1
        for (uint32_t four = 0; four < FOURS * WARPS; four += WARPS) {
            splitter.split(memory, four, fours, count, lost);
        }
        uf_barrier_release(barriers->split, lane == 0);
    }
#pragma unroll 1
    for (int32_t tile = at.tile; tile < at.end; ++tile) {
        const uint32_t address = memory + (uint32_t)(stage.index * p.stage_bytes);
        const int32_t now = stage.index;
        uint32_t base = (address >> 4) + (uint32_t)b_form;
        float part[Tile::UNITS][Tile::WIDTH / 2];
        uint32_t big[2][4], small[2][4];
        uf_barrier_wait(barriers->of.full + now, stage.parity);
        if (SPLITS) {
            uf_barrier_wait(barriers->split + now, stage.parity);
        }
        stage.next(p.stages);
        /* Behind the last stage `next_fours` is 0: nothing is loaded or stored. */
        const uint32_t next = memory + (uint32_t)(stage.index * p.stage_bytes);
        const uint32_t next_fours = tile + 1 < at.end ? fours : 0;
        split_f16_load<Tile>(big[0], address, y, y_small, 0, false);
        split_f16_load<Tile>(small[0], address, y, y_small, 0, true);
#pragma unroll
        for (int i = 0; i < 2 * STEPS; ++i) {
            const int step = i % STEPS, set = i & 1;
            if (i == STEPS) {
                /* Makes the compiler compute operands again: it has no registers to keep them. */
                base = __shfl_sync(0xffffffffu, base, 0);
            }
            uf_wgmma_fence();
            split_f16_multiply<Tile, STEPS>(part, big[set], small[set], i, base, offset, p, x_small,
                                            form);
            uf_wgmma_commit();
            /* During the MMAs: splits a part of the next stage. */
            if (SPLITS && i == 0 && next_fours > 0) {
                uf_barrier_wait(barriers->of.full + stage.index, stage.parity);
            }
            if (SPLITS) {
#pragma unroll
                for (int j = (i - 1) * EACH; j < i * EACH && j < FOURS; ++j) {
                    if (j >= 0) {
                        splitter.split(next, (uint32_t)j * WARPS, next_fours, count, lost);
                    }
                }
                if (i * EACH >= FOURS && (i - 1) * EACH < FOURS && next_fours > 0) {
                    uf_barrier_release(barriers->split + stage.index, lane == 0);
                }
            }
            /* MMAs read registers until they are done: those of the step before now are. */
            uf_wgmma_wait<1>();
            if (i + 1 < 2 * STEPS) {
                split_f16_load<Tile>(big[set ^ 1], address, y, y_small, (i + 1) % STEPS, false);
            }
            if (i + 1 < STEPS) {
                split_f16_load<Tile>(small[set ^ 1], address, y, y_small, i + 1, true);
            }
            if (step == STEPS - 1) {
                split_f16_promote<Tile>(sum, part, i < STEPS);
            }
        }
        if (SPLITS) {
            /* Orders the generic stores before later TMA loads into this stage. */
            uf_fence_async_shared();
        }
        uf_barrier_release(barriers->of.empty + now, lane == 0);
    }
    if (SPLITS && count) {
        lost.tell(state);
    }
    /* Volatile: read anew, so that no registers hold them beside the sums. */
    int block, here;
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(here));
    const channel_blocked_coord end = channel_blocked_coord_of(p, block);
    channel_blocked_epilogue<Tile>(g, end, (here >> 7) % Tile::ROWS,
                                   end.unit + (here >> 7) / Tile::ROWS * Tile::UNITS, here & 127,
                                   sum);
}

#endif

template <typename Tile>
static __global__ void __launch_bounds__(Tile::THREADS, 1)
    conv_wgrad_split_f16(const __grid_constant__ wgrad_channel_blocked g, bool y_all,
                         split_f16_state *state) {
#if UF_HAS_WGMMA
    extern __shared__ __align__(128) unsigned char channel_blocked_memory[];
    split_f16_barriers *const barriers = (split_f16_barriers *)channel_blocked_memory;
    const uint32_t memory =
        (uf_shared_address(channel_blocked_memory) + (uint32_t)sizeof(split_f16_barriers) + 1023) /
        1024 * 1024;
    const int thread = (int)threadIdx.x;
    if (thread == 0) {
        for (int i = 0; i < g.plan.stages; ++i) {
            uf_barrier_init(barriers->of.full + i, 1);
            uf_barrier_init(barriers->split + i, Tile::WARPGROUPS * 4);
            uf_barrier_init(barriers->of.empty + i, Tile::WARPGROUPS * 4);
        }
        uf_barrier_init_fence();
    }
    __syncthreads();
    uf_wait_for_launcher();
    uf_launch_dependents();
    const channel_blocked_coord at = channel_blocked_coord_of(g.plan, (int32_t)blockIdx.x);
    if (thread < Tile::WARPGROUPS * 128) {
        uf_registers_take<Tile::CONSUMER_REGISTERS>();
        const float scale = Tile::SOURCE == UF_CHANNEL_BLOCKED_F32
                                ? split_f16_scale(__ldcg(&state->most[1]), y_all)
                                : 1.0f;
        split_f16_consume<Tile>(g, at, memory, barriers, scale, state);
    } else {
        uf_registers_release<Tile::PRODUCER_REGISTERS>();
        if (thread == Tile::WARPGROUPS * 128) {
            channel_blocked_produce<Tile>(g, at, memory, &barriers->of);
        }
    }
#endif
}

#endif
