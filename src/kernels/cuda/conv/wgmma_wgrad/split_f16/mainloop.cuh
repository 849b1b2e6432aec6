/* mainloop.cuh - MMAs of split_f16/launch.cu, which says how it works, and their end.
 */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_WGRAD_SPLIT_F16_MAINLOOP_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_WGRAD_SPLIT_F16_MAINLOOP_CUH

#include "kernels/cuda/conv/wgmma_wgrad/channel_blocked/reduce.cuh"
#include "kernels/cuda/conv/wgmma_wgrad/split_f16/pack.cuh"

/* ---- the end ---- */

/* A sum over `MMAs` MMAs, scaled, is w times both scales; what is not finite, what a chain
 * of FFMAs might overflow at, and what elements without all their bits may have spoiled is marked,
 * for another kernel to make. */
struct split_f16_epilogue {
    static constexpr bool LATER = true;
    split_f16_state *state;
    uint8_t *marks;
    float mmas;
    bool x_all, y_all;
    /* From here on: made by begin. */
    int32_t back; /* log2 of what a sum is multiplied by */
    float limit;
    bool nothing;

    __device__ __forceinline__ void begin() {
        back = -split_f16_power(__ldcg(&state->most[0]), x_all) -
               split_f16_power(__ldcg(&state->most[1]), y_all);
        /* Errors of up to 2^-37 times up to 2^15 each, and a 2^-24th of the sum. Of zero too: what
         * has errors may cancel, or have vanished. */
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
                state->fixup = 1; /* as all who write it */
            }
        }
    }
};

/* ---- MMAs ---- */

#if UF_HAS_WGMMA

struct split_f16_barriers {
    channel_blocked_barriers of;
    uint64_t split[UF_CHANNEL_BLOCKED_STAGES]; /* y as it is, in halves */
};

/* y as it is arrives as rows of 32 pixels, 128 bytes, of each channel, pieces of 16 bytes exchanged
 * by the low bits of the channel. It is split in place: the first four pieces of a row are then its
 * big halves, the others its small ones. */
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

/* Big or small halves as mma.m16n8k16 has them, per warp. */
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

/* Zeros where it is not `there`. */
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

/* A descriptor's words: sums of addresses never carry into the second. */
static __device__ __forceinline__ uint64_t split_f16_operand(uint32_t low, uint32_t high) {
    return (uint64_t)high << 32 | low;
}

/* What a warp splits of y, in place: four rows of 32 pixels at a time, eight lanes for each. `of`:
 * every so many fours are its own. Neighbouring rows store their halves in turn, so that they do
 * not meet in the same banks. */
struct split_f16_splitter {
    uint32_t first, from, to, turn; /* of a lane: bytes from a stage's begin, and bits of turns */
    float scale;
    bool odd;

    __device__ __forceinline__ split_f16_splitter(int warp, int lane, float by) {
        const uint32_t row = (uint32_t)lane >> 3, piece = (uint32_t)lane & 7;
        first = (uint32_t)warp;
        turn = ((uint32_t)warp * 4 + row) & 7; /* of its other fours too: `of` is even */
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

/* A stage's MMAs with a small half are summed first, then those of big halves: both sums are
 * brief, because the tensor core truncates, and are added to ordinary registers. */
template <typename Tile>
static __device__ __forceinline__ void
split_f16_consume(const wgrad_channel_blocked &g, const channel_blocked_coord &at, uint32_t memory,
                  split_f16_barriers *barriers, float scale, split_f16_state *state) {
    constexpr int STEPS = UF_CHANNEL_BLOCKED_PIXELS / 16;
    constexpr float DOWN = 1.0f / (1 << UF_SPLIT_F16_SMALL);
    constexpr bool SPLITS = Tile::SOURCE == UF_CHANNEL_BLOCKED_F32;
    constexpr uint32_t WARPS = Tile::WARPGROUPS * 4;
    /* Fours of a warp, at most, and of a step: a stage has 64 of them for 64 channels. */
    constexpr int FOURS = (64 * Tile::ROWS + (int)WARPS - 1) / (int)WARPS;
    constexpr int EACH = (FOURS + 2 * STEPS - 3) / (2 * STEPS - 2);
    const uf_channel_blocked_plan &p = g.plan;
    /* From one lane, so that the compiler knows that a warp agrees about it. */
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
    const uint32_t y_small = (uint32_t)p.y_bytes / 2, x_small = (uint32_t)p.half_bytes >> 4;
    const split_f16_splitter splitter(warp, lane, scale);
    const uint32_t fours = (uint32_t)p.y_bytes / 512;
    /* Of the blocks that read the same, one counts. */
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
        /* Behind the last stage there is nothing to split: nothing is loaded or stored then. */
        const uint32_t next = memory + (uint32_t)(stage.index * p.stage_bytes);
        const uint32_t next_fours = tile + 1 < at.end ? fours : 0;
        split_f16_load<Tile>(big[0], address, y, y_small, 0, false);
        split_f16_load<Tile>(small[0], address, y, y_small, 0, true);
#pragma unroll
        for (int i = 0; i < 2 * STEPS; ++i) {
            const int step = i % STEPS, set = i & 1;
            if (i == STEPS) {
                /* Operands are found again: there are no registers to keep them in. */
                base = __shfl_sync(0xffffffffu, base, 0);
            }
            /* Sums by turns: a MMA into the same sums as the one before it would wait for it.
             */
            uf_wgmma_fence();
#pragma unroll
            for (int u = 0; u <= Tile::UNITS; ++u) {
                if (u < Tile::UNITS) {
                    const uint64_t x =
                        split_f16_operand(base + offset[u] + (uint32_t)p.step_at[step], form);
                    split_f16_mma<Tile::WIDTH>::run(part[u], i < STEPS ? small[set] : big[set], x,
                                                    step > 0);
                }
                if (u > 0 && i < STEPS) {
                    const uint64_t x = split_f16_operand(
                        base + offset[u - 1] + (uint32_t)p.step_at[step] + x_small, form);
                    split_f16_mma<Tile::WIDTH>::run(part[u - 1], big[set], x, 1);
                }
            }
            uf_wgmma_commit();
            /* While MMAs run, a part of the next stage is split. */
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
            /* MMAs read their words until they are done: those before this step's. */
            uf_wgmma_wait<1>();
            if (i + 1 < 2 * STEPS) {
                split_f16_load<Tile>(big[set ^ 1], address, y, y_small, (i + 1) % STEPS, false);
            }
            if (i + 1 < STEPS) {
                split_f16_load<Tile>(small[set ^ 1], address, y, y_small, i + 1, true);
            }
            if (step == STEPS - 1) {
                uf_wgmma_wait<0>();
#pragma unroll
                for (int u = 0; u < Tile::UNITS; ++u) {
                    uf_wgmma_pin(part[u]);
#pragma unroll
                    for (int j = 0; j < Tile::WIDTH / 2; ++j) {
                        sum[u][j] =
                            i < STEPS ? part[u][j] * DOWN + sum[u][j] : part[u][j] + sum[u][j];
                    }
                }
            }
        }
        if (SPLITS) {
            /* Copies that come here later are not before what was written. */
            uf_fence_async_shared();
        }
        uf_barrier_release(barriers->of.empty + now, lane == 0);
    }
    if (SPLITS && count) {
        lost.tell(state);
    }
    /* Found anew: not kept in registers beside sums. */
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
