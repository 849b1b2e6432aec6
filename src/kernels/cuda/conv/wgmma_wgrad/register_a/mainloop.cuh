/* mainloop.cuh - the kernel of register_a/launch.cu, which says how it works, and its warps
 * that multiply. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_WGRAD_REGISTER_A_MAINLOOP_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_WGRAD_REGISTER_A_MAINLOOP_CUH

#include "kernels/cuda/conv/wgmma_wgrad/register_a/load.cuh"
#include "kernels/cuda/arch/sm90_wgmma_rs.cuh"

#if UF_HAS_WGMMA

template <typename Tile>
struct wgrad_rs_type {
    typedef uf_wgmma_tf32 type;
};
template <int ROWS, int MOST, int PART>
struct wgrad_rs_type<wgrad_rs_tile<UF_MMA_BF16, ROWS, MOST, PART>> {
    typedef uf_wgmma_bf16 type;
};

/* The addresses in shared memory where this lane's two columns of one MMA begin in the first
 * stage's x. */
struct wgrad_rs_columns {
    uint32_t at[2];
};

static __device__ __forceinline__ float lines_x(uint32_t address) {
    float value;
    asm volatile("ld.shared.f32 %0, [%1];\n" : "=f"(value) : "r"(address));
    return value;
}

/* A step's words of one MMA, as they are; `stage`: bytes from the first stage. */
template <typename Tile>
static __device__ __forceinline__ void
wgrad_rs_load(const wgrad_rs_plan &plan, const wgrad_rs_columns &columns, uint32_t stage, int step,
              float (&raw)[Tile::BF16 ? 8 : 4]) {
    constexpr int RUNS = Tile::BF16 ? 4 : 2; /* of four pixels, in a step */
#pragma unroll
    for (int run = 0; run < RUNS; ++run) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            raw[run * 2 + j] = lines_x(columns.at[j] + (stage + plan.run[(step * RUNS + run) & 7]));
        }
    }
}

/* 16 pixels of the next SIDE MMAs, as they are. */
template <int SIDE, int MINE, int MOST>
static __device__ __forceinline__ void
wgrad_rs_load_side(const wgrad_rs_plan &plan, const wgrad_rs_columns (&columns)[MOST],
                   uint32_t stage, int first, float (&raw)[SIDE][2][4]) {
#pragma unroll
    for (int i = 0; i < SIDE; ++i) {
#pragma unroll
        for (int step = 0; step < 2; ++step) {
#pragma unroll
            for (int reg = 0; reg < 4; ++reg) {
                raw[i][step][reg] = first + i < MINE
                                        ? lines_x(columns[(first + i) % MINE].at[reg & 1] +
                                                  (stage + plan.run[step * 2 + (reg >> 1)]))
                                        : 0.0f;
            }
        }
    }
}

/* The same as an MMA takes them. */
template <typename Tile>
static __device__ __forceinline__ void wgrad_rs_fragment(const float (&raw)[Tile::BF16 ? 8 : 4],
                                                         uint32_t (&a)[4]) {
#pragma unroll
    for (int reg = 0; reg < 4; ++reg) {
        if (Tile::BF16) {
            const int run = (reg >> 1) * 4;
            a[reg] = uf_pack_bf16(raw[run + (reg & 1)],
                                  raw[(run + 2 + (reg & 1)) % (Tile::BF16 ? 8 : 4)]);
        } else {
            a[reg] = mma_round_by_bits(raw[reg]);
        }
    }
}

/* The operand `offset` 16-byte units on: only the address changes, which is in the lower word.
 * Volatile, or else every operand of a box is kept in registers. */
static __device__ __forceinline__ uint64_t wgrad_rs_operand(uint32_t low, int32_t offset) {
    uint64_t operand;
    asm("{\n.reg .b32 low;\nadd.s32 low, %1, %2;\nmov.b64 %0, {low, %3};\n}\n"
        : "=l"(operand)
        : "r"(low), "r"(offset), "n"(128 >> 4));
    return operand;
}

/* A warpgroup without an MMA frees the stages all the same. */
static __device__ __forceinline__ void wgrad_rs_idle(const wgrad_rs_plan &plan,
                                                     const wgrad_rs_shared &shared, int32_t boxes,
                                                     uf_ring &stage) {
#pragma unroll 1
    for (int32_t box = 0; box < boxes; ++box) {
        uf_barrier_wait(shared.full + stage.index, stage.parity);
        uf_barrier_arrive(shared.empty + stage.index);
        stage.next(plan.sums.stages);
    }
}

/* Keeps the compiler from making a fragment between a fence and its MMA. */
static __device__ __forceinline__ void wgrad_rs_pin(uint32_t (&a)[4]) {
    asm volatile("" : "+r"(a[0]), "+r"(a[1]), "+r"(a[2]), "+r"(a[3])::"memory");
}

/* Rounded MMAs. While one runs, the words for the next are rounded and those for the one after
 * it are loaded. */
template <typename Tile, int MINE>
static __device__ __forceinline__ void
wgrad_rs_consume(const wgrad_rs_plan &plan, const wgrad_rs_shared &shared, int32_t boxes,
                 const wgrad_rs_columns (&columns)[Tile::MOST],
                 float (&total)[Tile::MOST][Tile::ROWS / 2], uf_ring &stage) {
    typedef uf_wgmma_mma_rs<typename wgrad_rs_type<Tile>::type, Tile::ROWS> multiply;
    const int32_t stage_bytes = plan.sums.stage_words * 4;
    const uint32_t y_at =
        (uint32_t)uf_wgmma_operand(uf_shared_address(shared.stages), (uint32_t)plan.plane, 128);
    constexpr int MMAS = MINE * Tile::STEPS;
    uint32_t a[2][4];
    float raw[Tile::BF16 ? 8 : 4];
    int32_t last = -1;
    if (boxes > 0) {
        const uint32_t first = (uint32_t)(stage.index * stage_bytes);
        uf_barrier_wait(shared.full + stage.index, stage.parity);
        wgrad_rs_load<Tile>(plan, columns[0], first, 0, raw);
        wgrad_rs_fragment<Tile>(raw, a[0]);
        wgrad_rs_load<Tile>(plan, columns[1 % MINE], first, 1 / MINE, raw);
    }
#pragma unroll 1
    for (int32_t box = 0; box < boxes; ++box) {
        const uint32_t at = (uint32_t)(stage.index * stage_bytes);
        const int32_t now = stage.index;
        stage.next(plan.sums.stages);
        const uint32_t next = (uint32_t)(stage.index * stage_bytes);
#pragma unroll
        for (int mma = 0; mma < MMAS; ++mma) {
            wgrad_rs_pin(a[mma & 1]);
            uf_wgmma_fence();
            multiply::run(total[mma % MINE], a[mma & 1],
                          wgrad_rs_operand(y_at + at / 16, plan.operand[0][mma / MINE]), 1);
            uf_wgmma_commit();
            uf_wgmma_wait<1>();
            if (mma == 0 && last >= 0) {
                uf_barrier_arrive(shared.empty + last);
            }
            wgrad_rs_fragment<Tile>(raw, a[(mma + 1) & 1]);
            if (mma == MMAS - 2 && box + 1 < boxes) {
                uf_barrier_wait(shared.full + stage.index, stage.parity);
            }
            const int later = mma + 2;
            if (later < MMAS) {
                wgrad_rs_load<Tile>(plan, columns[later % MINE], at, later / MINE, raw);
            } else if (box + 1 < boxes) {
                wgrad_rs_load<Tile>(plan, columns[(later - MMAS) % MINE], next,
                                    (later - MMAS) / MINE, raw);
            }
        }
        last = now;
    }
    uf_wgmma_wait<0>();
    if (last >= 0) {
        uf_barrier_arrive(shared.empty + last);
    }
#pragma unroll
    for (int i = 0; i < Tile::MOST; ++i) {
        uf_wgmma_pin(total[i]);
    }
}

template <int MOST, int COLUMNS, int COUNT>
static __device__ __forceinline__ void wgrad_rs_add(float (&total)[MOST][COLUMNS],
                                                    float (&part)[COUNT], int mma, int first) {
    uf_wgmma_pin(part);
#pragma unroll
    for (int j = 0; j < COUNT; ++j) {
        total[mma][first + j] += part[j];
    }
}

/* Three MMAs of TF32 parts. The tensor core truncates what it adds to: 16 pixels are summed at a
 * time, small MMAs first, and that is added to ordinary registers while the next sum is under
 * way. */
template <typename Tile, int MINE>
static __device__ __forceinline__ void
wgrad_rs_consume_fp32(const wgrad_rs_plan &plan, const wgrad_rs_shared &shared, int32_t boxes,
                      const wgrad_rs_columns (&columns)[Tile::MOST],
                      float (&total)[Tile::MOST][Tile::ROWS / 2], uf_ring &stage) {
    typedef uf_wgmma_mma_rs<uf_wgmma_tf32, Tile::PART> multiply;
    constexpr int PARTS = Tile::ROWS / Tile::PART, REGISTERS = Tile::PART / 2;
    constexpr int SIDE =
        Tile::PART == 32 ? 2 : 1; /* narrow MMAs are issued for two sums by turns */
    const int32_t stage_bytes = plan.sums.stage_words * 4;
    const uint32_t y_at =
        (uint32_t)uf_wgmma_operand(uf_shared_address(shared.stages), (uint32_t)plan.plane, 128);
#pragma unroll 1
    for (int32_t box = 0; box < boxes; ++box) {
        uf_barrier_wait(shared.full + stage.index, stage.parity);
        uint32_t x_at = (uint32_t)(stage.index * stage_bytes);
        uint32_t b_at = y_at + x_at / 16;
#pragma unroll 1
        for (int batch = 0; batch < 2; ++batch) {
            float raw[SIDE][2][4];
            wgrad_rs_load_side<SIDE, MINE>(plan, columns, x_at, 0, raw);
#pragma unroll
            for (int first = 0; first < MINE; first += SIDE) {
                uint32_t big[SIDE][2][4], small[SIDE][2][4];
#pragma unroll
                for (int i = 0; i < SIDE; ++i) {
#pragma unroll
                    for (int step = 0; step < 2; ++step) {
#pragma unroll
                        for (int reg = 0; reg < 4; ++reg) {
                            mma_split_tf32_by_mmas(raw[i][step][reg], &big[i][step][reg],
                                                   &small[i][step][reg]);
                        }
                        wgrad_rs_pin(big[i][step]);
                        wgrad_rs_pin(small[i][step]);
                    }
                }
#pragma unroll
                for (int half = 0; half < PARTS; ++half) {
                    float part[SIDE][REGISTERS];
                    const uint32_t b = b_at + (uint32_t)(half * Tile::PART);
                    uf_wgmma_fence();
#pragma unroll
                    for (int mma = 0; mma < 6; ++mma) {
                        const int step = mma & 1;
                        const uint64_t y =
                            wgrad_rs_operand(b, plan.operand[mma >> 1 == 1 ? 1 : 0][step]);
#pragma unroll
                        for (int i = 0; i < SIDE; ++i) {
                            if (first + i < MINE) {
                                multiply::run(part[i], mma < 2 ? small[i][step] : big[i][step], y,
                                              mma > 0);
                            }
                        }
                    }
                    uf_wgmma_commit();
                    if (half == 0 && first + SIDE < MINE) {
                        wgrad_rs_load_side<SIDE, MINE>(plan, columns, x_at, first + SIDE, raw);
                    }
                    uf_wgmma_wait<0>();
#pragma unroll
                    for (int i = 0; i < SIDE; ++i) {
                        if (first + i < MINE) {
                            wgrad_rs_add(total, part[i], first + i, half * REGISTERS);
                        }
                    }
                }
            }
            /* The other 16 pixels. */
            x_at += plan.run[4];
            b_at += plan.operand[0][2];
        }
        uf_barrier_arrive(shared.empty + stage.index);
        stage.next(plan.sums.stages);
    }
}

/* The halves of one MMA's words. */
static __device__ __forceinline__ void
wgrad_rs_halve(const float (&raw)[2][4], uint32_t (&big)[2][4], uint32_t (&small)[2][4]) {
#pragma unroll
    for (int step = 0; step < 2; ++step) {
#pragma unroll
        for (int reg = 0; reg < 4; ++reg) {
            mma_split_tf32_by_mmas(raw[step][reg], &big[step][reg], &small[step][reg]);
        }
        wgrad_rs_pin(big[step]);
        wgrad_rs_pin(small[step]);
    }
}

/* The same where registers hold two sums and two sets of halves: while one sum is under way, the
 * one before is added and the words for the next are split. */
template <typename Tile, int MINE>
static __device__ __forceinline__ void
wgrad_rs_consume_fp32_twice(const wgrad_rs_plan &plan, const wgrad_rs_shared &shared, int32_t boxes,
                            const wgrad_rs_columns (&columns)[Tile::MOST],
                            float (&total)[Tile::MOST][Tile::ROWS / 2], uf_ring &stage) {
    typedef uf_wgmma_mma_rs<uf_wgmma_tf32, Tile::ROWS> multiply;
    constexpr int UNITS = 2 * MINE; /* of a box: 16 pixels of an MMA */
    const int32_t stage_bytes = plan.sums.stage_words * 4;
    const uint32_t y_at =
        (uint32_t)uf_wgmma_operand(uf_shared_address(shared.stages), (uint32_t)plan.plane, 128);
    uint32_t big[2][2][4], small[2][2][4];
    float part[2][Tile::ROWS / 2], raw[1][2][4];
    if (boxes > 0) {
        uf_barrier_wait(shared.full + stage.index, stage.parity);
        wgrad_rs_load_side<1, MINE>(plan, columns, (uint32_t)(stage.index * stage_bytes), 0, raw);
    }
#pragma unroll 1
    for (int32_t box = 0; box < boxes; ++box) {
        const uint32_t x_at = (uint32_t)(stage.index * stage_bytes);
        const uint32_t b_at = y_at + x_at / 16;
        const int32_t now = stage.index;
        stage.next(plan.sums.stages);
#pragma unroll
        for (int unit = 0; unit < UNITS; ++unit) {
            const int set = unit & 1;
            const uint32_t b = b_at + (uint32_t)(unit < MINE ? 0 : plan.operand[0][2]);
            wgrad_rs_halve(raw[0], big[set], small[set]);
            uf_wgmma_fence();
#pragma unroll
            for (int mma = 0; mma < 6; ++mma) {
                const int step = mma & 1;
                multiply::run(part[set], mma < 2 ? small[set][step] : big[set][step],
                              wgrad_rs_operand(b, plan.operand[mma >> 1 == 1 ? 1 : 0][step]),
                              mma > 0);
            }
            uf_wgmma_commit();
            if (unit + 1 < UNITS) {
                wgrad_rs_load_side<1, MINE>(plan, columns,
                                            x_at + (uint32_t)(unit + 1 < MINE ? 0 : plan.run[4]),
                                            (unit + 1) % MINE, raw);
            } else if (box + 1 < boxes) {
                uf_barrier_wait(shared.full + stage.index, stage.parity);
                wgrad_rs_load_side<1, MINE>(plan, columns, (uint32_t)(stage.index * stage_bytes), 0,
                                            raw);
            }
            if (unit > 0) {
                uf_wgmma_wait<1>();
                wgrad_rs_add(total, part[set ^ 1], (unit + MINE - 1) % MINE, 0);
            }
        }
        uf_wgmma_wait<0>();
        wgrad_rs_add(total, part[1], MINE - 1, 0);
        uf_barrier_arrive(shared.empty + now);
    }
}

/* As many MMAs as this warpgroup has: no branch around an MMA. */
template <typename Tile, int MINE>
static __device__ __forceinline__ void
wgrad_rs_dispatch(const wgrad_rs_plan &plan, const wgrad_rs_shared &shared, int32_t boxes, int mine,
                  const wgrad_rs_columns (&columns)[Tile::MOST],
                  float (&total)[Tile::MOST][Tile::ROWS / 2], uf_ring &stage) {
    if constexpr (MINE > 0) {
        if (mine < MINE) {
            wgrad_rs_dispatch<Tile, MINE - 1>(plan, shared, boxes, mine, columns, total, stage);
        } else if (Tile::FP32 && Tile::ROWS <= 64) {
            wgrad_rs_consume_fp32_twice<Tile, MINE>(plan, shared, boxes, columns, total, stage);
        } else if (Tile::FP32) {
            wgrad_rs_consume_fp32<Tile, MINE>(plan, shared, boxes, columns, total, stage);
        } else {
            wgrad_rs_consume<Tile, MINE>(plan, shared, boxes, columns, total, stage);
        }
    } else {
        wgrad_rs_idle(plan, shared, boxes, stage);
    }
}

/* The number of an MMA's first column of this lane's in its tile. */
static __device__ __forceinline__ int wgrad_rs_row(const wgrad_rs_plan &plan, int thread) {
    const int first = (thread >> 7) * plan.mmas / WGRAD_RS_CONSUMERS;
    return first * WGRAD_RS_M + ((thread & 127) >> 5) * 16 + ((thread & 31) >> 2);
}

/* The sums of a part of a tile, to where they are added: [row][column], eight lanes write a sector.
 * Coordinates are computed anew, because registers hold the sums. */
template <typename Tile>
static __device__ __forceinline__ void
wgrad_rs_epilogue(const wgrad_rs_plan &plan, int mine, int32_t on,
                  const float (&total)[Tile::MOST][Tile::ROWS / 2]) {
    const wgrad_plan &p = plan.sums;
    int thread, block;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
    int64_t sum = (int64_t)blockIdx.y * p.tiles + block;
    if (p.share > 0) {
        sum = (int64_t)block + block * p.share / p.all_boxes + on;
    }
    float *const to = p.partial + sum * (Tile::ROWS * p.columns) + (thread & 3) * 2 * p.columns +
                      wgrad_rs_row(plan, thread);
#pragma unroll
    for (int i = 0; i < Tile::MOST; ++i) {
        if (i < mine) {
#pragma unroll
            for (int j = 0; j < Tile::ROWS / 2; ++j) {
                to[((j >> 2) * 8 + (j & 1)) * p.columns + (j >> 1 & 1) * 8 + i * WGRAD_RS_M] =
                    total[i][j];
            }
        }
    }
}

template <typename Tile>
static __device__ __forceinline__ void wgrad_rs_consumer(const wgrad_rs_plan &plan,
                                                         const wgrad_rs_shared &shared) {
    const wgrad_plan &p = plan.sums;
    /* From one lane, so that the compiler knows that a warp agrees about it: MMAs in a branch
     * that might diverge are issued one by one. */
    const int warpgroup = __shfl_sync(0xffffffffu, (int)threadIdx.x >> 7, 0);
    const int mine = (warpgroup + 1) * plan.mmas / WGRAD_RS_CONSUMERS -
                     warpgroup * plan.mmas / WGRAD_RS_CONSUMERS;
    uf_ring stage = {0, 0};
    int32_t on = 0;
#pragma unroll 1
    do {
        int thread;
        asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
        const int32_t boxes = wgrad_rs_boxes_on(p, on);
        const int32_t first_column = wgrad_corner_of(&p, wgrad_rs_mine(p).tile + on).column;
        const int row = wgrad_rs_row(plan, thread);
        /* The offset of a pixel is the sum of those of its bits: lanes differ in the two lowest,
         * runs of four in the others. */
        const uint32_t x_at = uf_shared_address(shared.stages) + (uint32_t)(Tile::SETS * plan.set) +
                              4 * (uint32_t)wgrad_pixel_offset(&p, thread & 3);
        wgrad_rs_columns columns[Tile::MOST];
#pragma unroll
        for (int i = 0; i < Tile::MOST; ++i) {
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                const int column = row + i * WGRAD_RS_M + j * 8;
                columns[i].at[j] =
                    x_at + 4 * (uint32_t)wgrad_rs_column_offset(
                                   &plan, first_column,
                                   column < p.columns ? first_column + column : p.all_columns);
            }
        }
        float total[Tile::MOST][Tile::ROWS / 2];
#pragma unroll
        for (int i = 0; i < Tile::MOST; ++i) {
#pragma unroll
            for (int j = 0; j < Tile::ROWS / 2; ++j) {
                total[i][j] = 0.0f;
            }
            uf_wgmma_pin(total[i]);
        }
        wgrad_rs_dispatch<Tile, Tile::MOST>(plan, shared, boxes, mine, columns, total, stage);
        wgrad_rs_epilogue<Tile>(plan, mine, on, total);
        ++on;
    } while (Tile::SHARES && wgrad_rs_boxes_on(p, on) > 0);
}

#endif

/* blockIdx.x: tile, columns fastest, so that blocks that read the same boxes run together;
 * blockIdx.y: split. Or blockIdx.x: share. */
template <typename Tile>
static __global__ void __launch_bounds__(Tile::THREADS, 1)
    conv_wgrad_rs(const __grid_constant__ wgrad_rs_plan plan) {
#if UF_HAS_WGMMA
    UF_WGRAD_SHARED(memory);
    const wgrad_plan &p = plan.sums;
    uf_wait_for_launcher();
    if (p.fixup.any != nullptr && __ldcg(p.fixup.any) == 0) {
        return;
    }
    if (p.fixup.spans != nullptr && __syncthreads_or(wgrad_rs_marked(p, Tile::THREADS)) == 0) {
        return;
    }
    uf_launch_dependents();
    const int thread = (int)threadIdx.x;

    wgrad_rs_shared shared;
    shared.full = (uint64_t *)memory;
    shared.empty = shared.full + WGRAD_RS_STAGES;
    wgrad_coord *const coords = (wgrad_coord *)(memory + WGRAD_RS_BARRIERS);
    shared.stages = memory + WGRAD_RS_BARRIERS + wgrad_table_bytes(&p);
    if (thread < p.stages) {
        uf_barrier_init(shared.full + thread, 32u * (unsigned)plan.group_warps);
        /* Every lane gives back what it has read: one for its warp is as fast, and no race either,
         * but ptxas leaves nothing of the __syncwarp before it, and racecheck then reports all
         * other lanes. */
        uf_barrier_init(shared.empty + thread, Tile::CONSUMERS);
        uf_barrier_init_fence();
    }
    for (int32_t entry = thread; entry < p.entries; entry += Tile::THREADS) {
        coords[entry] = wgrad_rs_coord_of(&plan, 0, entry);
    }
    __syncthreads();
    if (thread < Tile::CONSUMERS) {
        uf_registers_take<Tile::CONSUMER_REGISTERS>();
        wgrad_rs_consumer<Tile>(plan, shared);
    } else {
        uf_registers_release<Tile::PRODUCER_REGISTERS>();
        const int warp = __shfl_sync(0xffffffffu, (thread - Tile::CONSUMERS) >> 5, 0);
        const int producers = warp / plan.group_warps; /* its group */
        wgrad_rs_produce<Tile>(plan, shared, coords, wgrad_rs_mine(p), producers,
                               warp - producers * plan.group_warps, thread & 31);
    }
#endif
}

#endif
