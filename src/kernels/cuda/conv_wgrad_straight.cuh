/* conv_wgrad_straight.cuh - the device code of conv_wgrad_straight.cu, which says how it works. */
#ifndef UF_KERNELS_CUDA_CONV_WGRAD_STRAIGHT_CUH
#define UF_KERNELS_CUDA_CONV_WGRAD_STRAIGHT_CUH

#include <cuda.h>

#include "kernels/cuda/conv_wgrad_straight_plan.h"
#include "kernels/cuda/mma_split.cuh"
#include "kernels/cuda/wgmma_rs.cuh"

/* How the kernel sees a weight gradient. */
struct wgrad_straight {
    CUtensorMap x, y;
    uf_straight_plan plan;
    float *partial; /* as blocks_sums has it */
    int32_t sum_rows, row_tiles, columns;
};

template <uf_math MATH_, int WIDTH_, int CLUSTER_>
struct straight_tile {
    static constexpr uf_math MATH = MATH_;
    static constexpr int WIDTH = WIDTH_, CLUSTER = CLUSTER_;
    static constexpr int CONSUMERS = 128 * UF_STRAIGHT_UNITS, THREADS = CONSUMERS + 128;
    static constexpr int Y_BYTES = WIDTH * UF_STRAIGHT_Y_ROW;
    static constexpr int STAGE_BYTES = Y_BYTES + UF_STRAIGHT_UNITS * UF_STRAIGHT_UNIT_BYTES;
    /* Words from one row of sums to the next in shared memory: 4 mod 16, no bank conflict. */
    static constexpr int SUM_ROW = 2 * UF_STRAIGHT_CHANNELS, SUM_PITCH = SUM_ROW + 4;
    static constexpr int ROUNDERS = 2; /* warps */
};

static_assert(UF_STRAIGHT_UNITS * 128 * (2 * UF_STRAIGHT_CHANNELS + 4) * 4 <=
                  UF_STRAIGHT_STAGES *
                      (128 * UF_STRAIGHT_Y_ROW + UF_STRAIGHT_UNITS * UF_STRAIGHT_UNIT_BYTES),
              "sums take the place of the stages");

#if UF_HAS_WGMMA

struct straight_barriers {
    uint64_t full[UF_STRAIGHT_STAGES], rounded[UF_STRAIGHT_STAGES], empty[UF_STRAIGHT_STAGES];
};

/* What a block makes. Blocks of a cluster differ in their channels of y alone. */
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

/* A box at these coordinates, innermost first; with CLUSTER 2 to the same place in both blocks. */
template <int CLUSTER>
static __device__ __forceinline__ void straight_copy(uint32_t shared, const CUtensorMap *map,
                                                     int32_t column, int32_t row, int32_t channel,
                                                     int32_t image, uint64_t *barrier) {
    if (CLUSTER == 1) {
        asm volatile(
            "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
            "[%0], [%1, {%2, %3, %4, %5}], [%6];\n" ::"r"(shared),
            "l"(map), "r"(column), "r"(row), "r"(channel), "r"(image),
            "r"(uf_shared_address(barrier))
            : "memory");
    } else {
        asm volatile(
            "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
            ".multicast::cluster [%0], [%1, {%2, %3, %4, %5}], [%6], %7;\n" ::"r"(shared),
            "l"(map), "r"(column), "r"(row), "r"(channel), "r"(image),
            "r"(uf_shared_address(barrier)), "h"((uint16_t)3)
            : "memory");
    }
}

/* One lane brings everything. Blocks of a cluster bring one unit of x each, for both. */
template <typename Tile>
static __device__ __forceinline__ void straight_produce(const wgrad_straight &g,
                                                        const straight_place &at, uint32_t memory,
                                                        straight_barriers *barriers, int rank) {
    const uf_straight_plan &p = g.plan;
    const int32_t units = min(p.all_units - at.unit, (int32_t)UF_STRAIGHT_UNITS);
    int32_t x_row[UF_STRAIGHT_UNITS], x_channel[UF_STRAIGHT_UNITS];
#pragma unroll
    for (int u = 0; u < UF_STRAIGHT_UNITS; ++u) {
        const int32_t chunk = (at.unit + u) / p.kernel_h;
        const int32_t r = at.unit + u - chunk * p.kernel_h;
        x_row[u] = r * p.dilation_h - p.padding[0];
        x_channel[u] = at.group * p.c_per_group + chunk * UF_STRAIGHT_CHANNELS;
    }
    const int32_t y_channel = at.group * p.k_per_group + at.k_block * Tile::WIDTH;
    int32_t line = at.run / p.across;
    int32_t across = at.run - line * p.across;
    int32_t image = line / p.rows;
    int32_t row = line - image * p.rows;
    uf_ring stage = {0, 1};
#pragma unroll 1
    for (int32_t run = at.run; run < at.end; ++run) {
        uint64_t *const full = barriers->full + stage.index;
        const uint32_t to = memory + (uint32_t)(stage.index * Tile::STAGE_BYTES);
        const int32_t pixel = across * p.pixels;
        uf_barrier_wait(barriers->empty + stage.index, stage.parity);
        uf_barrier_expect(full, (uint32_t)(Tile::Y_BYTES + units * UF_STRAIGHT_UNIT_BYTES));
        straight_copy<1>(to, &g.y, pixel, row, y_channel, image, full);
#pragma unroll
        for (int u = 0; u < UF_STRAIGHT_UNITS; ++u) {
            if (u < units && (Tile::CLUSTER == 1 || u == rank)) {
                straight_copy<Tile::CLUSTER>(to + Tile::Y_BYTES + u * UF_STRAIGHT_UNIT_BYTES, &g.x,
                                             2 * pixel - p.padding[1], row * p.stride_h + x_row[u],
                                             x_channel[u], image, full);
            }
        }
        stage.next(UF_STRAIGHT_STAGES);
        if (++across == p.across) {
            across = 0;
            if (++row == p.rows) {
                row = 0;
                ++image;
            }
        }
    }
}

/* TF32: y to nearest, in place. */
template <typename Tile>
static __device__ __forceinline__ void straight_round(const straight_place &at, uint32_t memory,
                                                      straight_barriers *barriers, int thread) {
    constexpr int PIECES = Tile::Y_BYTES / 16 / (32 * Tile::ROUNDERS);
    uf_ring stage = {0, 0};
#pragma unroll 1
    for (int32_t run = at.run; run < at.end; ++run) {
        const uint32_t y =
            memory + (uint32_t)(stage.index * Tile::STAGE_BYTES) + (uint32_t)thread * 16;
        float value[PIECES][4];
        uf_barrier_wait(barriers->full + stage.index, stage.parity);
#pragma unroll
        for (int i = 0; i < PIECES; ++i) {
            asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];\n"
                         : "=f"(value[i][0]), "=f"(value[i][1]), "=f"(value[i][2]),
                           "=f"(value[i][3])
                         : "r"(y + (uint32_t)(i * 512 * Tile::ROUNDERS))
                         : "memory");
        }
#pragma unroll
        for (int i = 0; i < PIECES; ++i) {
            asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};\n" ::"r"(
                             y + (uint32_t)(i * 512 * Tile::ROUNDERS)),
                         "r"(mma_round_by_bits(value[i][0])), "r"(mma_round_by_bits(value[i][1])),
                         "r"(mma_round_by_bits(value[i][2])), "r"(mma_round_by_bits(value[i][3]))
                         : "memory");
        }
        uf_fence_async_shared();
        __syncwarp();
        if ((thread & 31) == 0) {
            uf_barrier_arrive(barriers->rounded + stage.index);
        }
        stage.next(UF_STRAIGHT_STAGES);
    }
}

/* The channel, of eight, of fragment row g: four lanes read 32 bytes of a channel, and these must
 * not meet those of the neighbouring channel in the same banks. */
static __device__ __forceinline__ int straight_row(int g) {
    return (g & 3) * 2 + (g >> 2);
}

/* Four words of a lane for each of the two taps: what it loads are neighbours of a row of x, one
 * for each tap. */
template <uf_math MATH>
struct straight_raw {
    uint32_t word[4][2];

    __device__ __forceinline__ void load(uint32_t from, int step) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];\n"
                         : "=r"(word[i][0]), "=r"(word[i][1])
                         : "r"((from ^ (uint32_t)(step * 64 + (i >> 1) * 32)) +
                               (uint32_t)((i & 1) * 8 * UF_STRAIGHT_X_ROW))
                         : "memory");
        }
    }

    __device__ __forceinline__ void split(uint32_t (&a)[2][4]) const {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (MATH == UF_MATH_BF16) {
                a[0][i] = __byte_perm(word[i][0], word[i][1], 0x5410);
                a[1][i] = __byte_perm(word[i][0], word[i][1], 0x7632);
            } else {
                a[0][i] = mma_round_by_bits(__uint_as_float(word[i][0]));
                a[1][i] = mma_round_by_bits(__uint_as_float(word[i][1]));
            }
        }
        /* All of them before the products begin: not one by one between these. */
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            asm volatile("" : "+r"(a[i >> 2][i & 3])::"memory");
        }
    }
};

template <uf_math MATH>
struct straight_type {
    typedef uf_wgmma_bf16 type;
};
template <>
struct straight_type<UF_MATH_TF32> {
    typedef uf_wgmma_tf32 type;
};

/* This warp is done with a stage: its own producer hears of it, and that of the other block, whose
 * copies come here too. */
template <int CLUSTER>
static __device__ __forceinline__ void straight_give_back(uint64_t *empty, int rank) {
    uf_barrier_arrive(empty);
    if (CLUSTER > 1) {
        asm volatile("{\n"
                     ".reg .b32 there;\n"
                     "mapa.shared::cluster.u32 there, %0, %1;\n"
                     "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n"
                     "}\n" ::"r"(uf_shared_address(empty)),
                     "r"(rank ^ 1)
                     : "memory");
    }
}

static __device__ __forceinline__ void straight_cluster_sync() {
    asm volatile("barrier.cluster.arrive.release;\n"
                 "barrier.cluster.wait.acquire;\n" ::
                     : "memory");
}

/* The sums of a unit change places in shared memory, so that what is written are whole lines: a row
 * of `partial` has 64 channels of each of its two taps beside each other. */
template <typename Tile>
static __device__ __forceinline__ void
straight_write(const wgrad_straight &g, const straight_place &at, uint32_t memory, int warpgroup,
               int thread, const float (&sum)[2][Tile::WIDTH / 2]) {
    const uf_straight_plan &p = g.plan;
    const int lane = thread & 31;
    const uint32_t stage =
        memory + (uint32_t)(warpgroup * Tile::WIDTH * Tile::SUM_PITCH) * (uint32_t)sizeof(float);
    const uint32_t to = stage + (uint32_t)(2 * (lane & 3) * Tile::SUM_PITCH + (thread >> 5) * 16 +
                                           straight_row(lane >> 2)) *
                                    (uint32_t)sizeof(float);
    /* Both warpgroups are done with the stages. */
    uf_named_barrier(1, Tile::CONSUMERS);
#pragma unroll
    for (int s = 0; s < 2; ++s) {
#pragma unroll
        for (int j = 0; j < Tile::WIDTH / 2; ++j) {
            const int k = j / 4 * 8 + (j & 1), c = (j >> 1 & 1) * 8;
            asm volatile("st.shared.f32 [%0], %1;\n" ::"r"(
                             to + (uint32_t)(k * Tile::SUM_PITCH + s * UF_STRAIGHT_CHANNELS + c) *
                                      (uint32_t)sizeof(float)),
                         "f"(sum[s][j])
                         : "memory");
        }
    }
    uf_fence_async_shared();
    uf_named_barrier(2 + warpgroup, 128);
    const int32_t unit = at.unit + warpgroup;
    const int32_t k = at.k_block * Tile::WIDTH + thread;
    if (thread < Tile::WIDTH && k < p.k_per_group && unit < p.all_units) {
        const int32_t chunk = unit / p.kernel_h;
        const int32_t r = unit - chunk * p.kernel_h;
        const int64_t tile = ((int64_t)at.split * p.groups + at.group) * g.row_tiles + k / 64;
        float *const row = g.partial + (tile * g.sum_rows + k % 64) * g.columns +
                           (chunk * p.kernel_h + r) * Tile::SUM_ROW;
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n" ::"l"(row),
                     "r"(stage + (uint32_t)(thread * Tile::SUM_PITCH) * (uint32_t)sizeof(float)),
                     "r"(Tile::SUM_ROW * (int)sizeof(float))
                     : "memory");
        asm volatile("cp.async.bulk.commit_group;\n"
                     "cp.async.bulk.wait_group 0;\n" ::
                         : "memory");
    }
}

template <typename Tile>
static __device__ __forceinline__ void straight_consume(const wgrad_straight &g,
                                                        const straight_place &at, uint32_t memory,
                                                        straight_barriers *barriers, int rank) {
    typedef uf_wgmma_product_rs<typename straight_type<Tile::MATH>::type, Tile::WIDTH> multiply;
    /* From one lane, so that the compiler knows that a warp agrees about it. */
    const int warpgroup = __shfl_sync(0xffffffffu, (int)threadIdx.x >> 7, 0);
    const int thread = (int)threadIdx.x & 127;
    const int lane = thread & 31;
    float sum[2][Tile::WIDTH / 2];
#pragma unroll
    for (int s = 0; s < 2; ++s) {
#pragma unroll
        for (int i = 0; i < Tile::WIDTH / 2; ++i) {
            sum[s][i] = 0.0f;
        }
        uf_wgmma_pin(sum[s]);
    }
    /* y: rows of 64 bytes, 8 rows 512 bytes, pieces of 16 bytes exchanged by the copy (64-byte
     * swizzle). */
    const uint64_t y_form = (uint64_t)1 << 16 | (uint64_t)(512 >> 4) << 32 | (uint64_t)2 << 62;
    const int row = straight_row(lane >> 2);
    const uint32_t x_at = (uint32_t)(Tile::Y_BYTES + warpgroup * UF_STRAIGHT_UNIT_BYTES +
                                     ((thread >> 5) * 16 + row) * UF_STRAIGHT_X_ROW +
                                     (((lane >> 1 & 1) ^ row) << 4) + (lane & 1) * 8);
    uf_ring stage = {0, 0};
    int32_t last = -1;
#pragma unroll 1
    for (int32_t run = at.run; run < at.end; ++run) {
        const uint32_t address = memory + (uint32_t)(stage.index * Tile::STAGE_BYTES);
        uf_barrier_wait(barriers->full + stage.index, stage.parity);
        straight_raw<Tile::MATH> raw;
        uint32_t a[2][2][4];
        raw.load(address + x_at, 0);
        raw.split(a[0]);
        if (Tile::MATH == UF_MATH_TF32) {
            uf_barrier_wait(barriers->rounded + stage.index, stage.parity);
        }
#pragma unroll
        for (int step = 0; step < 2; ++step) {
            uf_wgmma_fence();
#pragma unroll
            for (int s = 0; s < 2; ++s) {
                multiply::run(sum[s], a[step][s],
                              y_form | (uint64_t)(((address & 0x3ffffu) >> 4) + step * 2), 1);
            }
            uf_wgmma_commit();
            uf_wgmma_wait<1>();
            if (step == 0) {
                raw.load(address + x_at, 1);
                raw.split(a[1]);
                /* With a first step under way, the products of the stage before are done. */
                if (lane == 0 && last >= 0) {
                    straight_give_back<Tile::CLUSTER>(barriers->empty + last, rank);
                }
            }
        }
        last = stage.index;
        stage.next(UF_STRAIGHT_STAGES);
    }
    uf_wgmma_wait<0>();
#pragma unroll
    for (int s = 0; s < 2; ++s) {
        uf_wgmma_pin(sum[s]);
    }
    straight_write<Tile>(g, at, memory, warpgroup, thread, sum);
}

#endif

template <typename Tile>
static __global__ void __launch_bounds__(Tile::THREADS, 1)
    conv_wgrad_straight(const __grid_constant__ wgrad_straight g) {
#if UF_HAS_WGMMA
    extern __shared__ __align__(128) unsigned char straight_memory[];
    straight_barriers *const barriers = (straight_barriers *)straight_memory;
    const uint32_t memory =
        (uf_shared_address(straight_memory) + (uint32_t)sizeof(straight_barriers) + 1023) / 1024 *
        1024;
    const int thread = (int)threadIdx.x;
    const int rank = Tile::CLUSTER > 1 ? (int)blockIdx.x % Tile::CLUSTER : 0;
    if (thread == 0) {
        for (int i = 0; i < UF_STRAIGHT_STAGES; ++i) {
            uf_barrier_init(barriers->full + i, 1);
            uf_barrier_init(barriers->rounded + i, Tile::ROUNDERS);
            uf_barrier_init(barriers->empty + i, Tile::CLUSTER * Tile::CONSUMERS / 32);
        }
        uf_barrier_init_fence();
    }
    if (Tile::CLUSTER > 1) {
        straight_cluster_sync();
    } else {
        __syncthreads();
    }
    uf_wait_for_launcher();
    uf_launch_dependents();
    const straight_place at = straight_place_of(g.plan);
    if (thread < Tile::CONSUMERS) {
        uf_registers_take<216>();
        straight_consume<Tile>(g, at, memory, barriers, rank);
    } else {
        uf_registers_release<72>();
        if (thread == Tile::CONSUMERS) {
            straight_produce<Tile>(g, at, memory, barriers, rank);
        } else if (Tile::MATH == UF_MATH_TF32 && thread >= Tile::THREADS - 32 * Tile::ROUNDERS) {
            straight_round<Tile>(at, memory, barriers,
                                 thread - (Tile::THREADS - 32 * Tile::ROUNDERS));
        }
    }
    if (Tile::CLUSTER > 1) {
        /* No block is gone while the other's barriers still hear from it. */
        straight_cluster_sync();
    }
#endif
}

#endif
