/* mainloop.cuh - the main loop of channel_blocked/launch.cu, which says how it works. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_WGRAD_CHANNEL_BLOCKED_MAINLOOP_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_WGRAD_CHANNEL_BLOCKED_MAINLOOP_CUH

#include "kernels/geometry.h"

#include "kernels/cuda/conv/transform/channel_blocked.cuh"
#include "kernels/cuda/conv/wgmma_wgrad/channel_blocked/plan.h"
#include "kernels/cuda/arch/sm80_mma.cuh"
#include "kernels/cuda/arch/sm90_tma.cuh"

/* The kernel's parameter. */
struct wgrad_channel_blocked {
    CUtensorMap x, y;
    uf_channel_blocked_plan plan;
    float *partial; /* [split][group][64 channels of y][row][chunk][tap][channel of x] */
    int32_t sum_rows, row_tiles; /* rows of a tile of `partial`; tiles of a group */
};

/* SPLIT_F16: FP32 by 3xF16 (split_f16/mainloop.cuh). */
template <int WIDTH_, int UNITS_, int ACROSS_, int ROWS_, uf_channel_blocked_source SOURCE_,
          bool SPLIT_F16_ = false>
struct channel_blocked_tile {
    static constexpr bool SPLIT_F16 = SPLIT_F16_;
    static constexpr int WIDTH = WIDTH_, UNITS = UNITS_, ACROSS = ACROSS_, ROWS = ROWS_;
    static constexpr uf_channel_blocked_source SOURCE = SOURCE_;
    static constexpr int WARPGROUPS = ACROSS * ROWS, THREADS = 128 * (WARPGROUPS + 1);
    /* setmaxnreg moves registers between warpgroups: their sum is the launch's, 128 or 168 a
     * thread.
     */
    static constexpr int CONSUMER_REGISTERS = WARPGROUPS == 3 ? 160 : 240;
    static constexpr int PRODUCER_REGISTERS = WARPGROUPS == 3 ? 32 : 24;
};

#if UF_HAS_WGMMA

/* run(d, a, b): d += a*b for 64 rows, N columns and 16 pixels, asynchronous; `a` is a fragment in
 * registers. split_f16_mma, of f16: run(d, a, b, add), as uf_wgmma_mma. */
template <int N>
struct channel_blocked_mma;
template <int N>
struct split_f16_mma;

#define CHANNEL_BLOCKED_F4(d, i) "+f"(d[i]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3])
#define CHANNEL_BLOCKED_F16(d, i)                                                                  \
    CHANNEL_BLOCKED_F4(d, i), CHANNEL_BLOCKED_F4(d, (i) + 4), CHANNEL_BLOCKED_F4(d, (i) + 8),      \
        CHANNEL_BLOCKED_F4(d, (i) + 12)
#include "kernels/cuda/conv/wgmma_wgrad/channel_blocked/mma.inc"
#undef CHANNEL_BLOCKED_F16
#undef CHANNEL_BLOCKED_F4

/* Descriptor of an MN-major operand without swizzle at `address`. Eight channels of a pixel are 16
 * bytes, and pixels of a run of eight follow each other. `run` is the distance of the second run,
 * `plane` that of the next eight channels. All three count 16 bytes. */
static __device__ __forceinline__ uint64_t channel_blocked_operand(uint32_t address, uint32_t run,
                                                                   uint32_t plane) {
    return (uint64_t)address | (uint64_t)run << 16 | (uint64_t)plane << 32;
}

struct channel_blocked_barriers {
    uint64_t full[UF_CHANNEL_BLOCKED_STAGES], empty[UF_CHANNEL_BLOCKED_STAGES];
};

/* A block's part of the problem: its first unit, tile of k, group and split, tiles [tile, end). */
struct channel_blocked_coord {
    int32_t unit, k_block, group, split, tile, end;
};

static __device__ __forceinline__ channel_blocked_coord
channel_blocked_coord_of(const uf_channel_blocked_plan &p, int32_t block) {
    channel_blocked_coord at;
    int32_t rest = block;
    int32_t next = rest / p.k_blocks;
    at.k_block = rest - next * p.k_blocks;
    rest = next / p.unit_blocks;
    at.unit = (next - rest * p.unit_blocks) * p.units * p.across;
    at.split = rest / p.groups;
    at.group = rest - at.split * p.groups;
    at.tile = (int32_t)((int64_t)at.split * p.pixel_tiles / p.splits);
    at.end = (int32_t)((int64_t)(at.split + 1) * p.pixel_tiles / p.splits);
    return at;
}

/* Window of a unit: chunk of channels and class as one number, in the order of the loads. */
static __device__ __forceinline__ int32_t
channel_blocked_window_of(const uf_channel_blocked_plan &p, int32_t unit) {
    const int32_t chunk = unit / p.kinds;
    return chunk * p.classes + p.unit_class[unit - chunk * p.kinds];
}

/* Coordinates of a tile of pixels, in tiles. */
struct channel_blocked_walk {
    int32_t x, y, image; /* tiles */
};

static __device__ __forceinline__ channel_blocked_walk
channel_blocked_walk_of(const uf_channel_blocked_plan &p, int32_t tile) {
    channel_blocked_walk at;
    const int32_t plane = p.axis[0].tiles * p.axis[1].tiles;
    at.image = tile / plane;
    tile -= at.image * plane;
    if (p.down_first) {
        at.x = tile / p.axis[0].tiles;
        at.y = tile - at.x * p.axis[0].tiles;
    } else {
        at.y = tile / p.axis[1].tiles;
        at.x = tile - at.y * p.axis[1].tiles;
    }
    return at;
}

static __device__ __forceinline__ void channel_blocked_step(const uf_channel_blocked_plan &p,
                                                            channel_blocked_walk &at) {
    at.x += p.down_first ? 0 : 1;
    at.y += p.down_first ? 1 : 0;
    if (at.x == p.axis[1].tiles) {
        at.x = 0;
        ++at.y; /* the test below sees the end of the image */
    }
    if (at.y == p.axis[0].tiles) {
        at.y = 0;
        at.x += p.down_first ? 1 : 0;
        at.image += p.down_first && at.x < p.axis[1].tiles ? 0 : 1;
        at.x = at.x == p.axis[1].tiles ? 0 : at.x;
    }
}

/* The producer, one lane: loads the channels of y and each window of x, tile by tile. */
template <typename Tile>
static __device__ __forceinline__ void
channel_blocked_produce(const wgrad_channel_blocked &g, const channel_blocked_coord &at,
                        uint32_t memory, channel_blocked_barriers *barriers) {
    const uf_channel_blocked_plan &p = g.plan;
    const int32_t images_log = p.axis[1].images_log;
    const int32_t last_unit = at.unit + Tile::UNITS * Tile::ACROSS < p.all_units
                                  ? at.unit + Tile::UNITS * Tile::ACROSS
                                  : p.all_units;
    const int32_t first = channel_blocked_window_of(p, at.unit);
    const int32_t count = channel_blocked_window_of(p, last_unit - 1) - first + 1;
    constexpr int PARTS = Tile::SPLIT_F16 ? 2 : 1;
    const uint32_t window_copied = (uint32_t)p.window_rows * Tile::WIDTH * 2 * PARTS;
    const int32_t y_channel = at.k_block * Tile::ROWS * UF_CHANNEL_BLOCKED_ROWS;
    channel_blocked_walk walk = channel_blocked_walk_of(p, at.tile);
    int stage = 0;
    uint32_t parity = 1;
#pragma unroll 1
    for (int32_t tile = at.tile; tile < at.end; ++tile) {
        const int32_t x = walk.x * p.axis[1].patch, y = walk.y * p.axis[0].patch,
                      image = walk.image;
        uint64_t *const full = barriers->full + stage;
        uint32_t to = memory + (uint32_t)(stage * p.stage_bytes);
        uf_barrier_wait(barriers->empty + stage, parity);
        uf_barrier_expect(full, (uint32_t)p.y_bytes + (uint32_t)count * window_copied);
        if (Tile::SOURCE == UF_CHANNEL_BLOCKED_PACKED) {
#pragma unroll
            for (int part = 0; part < PARTS; ++part) {
                channel_blocked_copy(to + (uint32_t)(part * (p.y_bytes / 2)), &g.y, x, images_log,
                                     y - p.twin, image,
                                     (at.group * PARTS + part) * p.y_planes + y_channel / 8, full);
            }
        } else {
            const uint32_t row_bytes = (uint32_t)(p.y_bytes / p.y_rows);
#pragma unroll 1
            for (int32_t row = 0; row < p.y_rows; ++row) {
                uf_copy_tensor(to + (uint32_t)row * row_bytes, &g.y, x, y - p.twin + row,
                               at.group * p.k_per_group + y_channel, image, full);
            }
        }
        to += (uint32_t)p.y_bytes;
        int32_t chunk = first / p.classes;
        int32_t klass = first - chunk * p.classes;
#pragma unroll 1
        for (int32_t window = 0; window < count; ++window) {
#pragma unroll
            for (int part = 0; part < PARTS; ++part) {
                channel_blocked_copy(to + (uint32_t)(part * p.part_bytes), &g.x,
                                     x + p.first[klass][1], images_log, y + p.first[klass][0],
                                     image,
                                     ((at.group * p.classes + klass) * PARTS + part) * p.x_planes +
                                         chunk * (Tile::WIDTH / 8),
                                     full);
            }
            to += (uint32_t)p.window_bytes;
            if (++klass == p.classes) {
                klass = 0;
                ++chunk;
            }
        }
        if (++stage == p.stages) {
            stage = 0;
            parity ^= 1;
        }
        channel_blocked_step(p, walk);
    }
}

/* Channel, of eight, of fragment row g. Four lanes read an f32 row; this order keeps them out of
 * the banks of the neighbouring channel. */
template <typename Tile>
static __device__ __forceinline__ int channel_blocked_row(int g) {
    return Tile::SOURCE == UF_CHANNEL_BLOCKED_F32 && !Tile::SPLIT_F16 ? (g & 3) * 2 + (g >> 2) : g;
}

/* A lane's addresses of y: a step multiplies 64 channels, 16 of each warp, by 16 pixels. */
struct channel_blocked_fragments {
    uint32_t base;      /* bytes from the stage's begin */
    uint32_t row_bytes; /* from one row of 32 pixels to the next; 0: packed */
};

template <typename Tile>
static __device__ __forceinline__ channel_blocked_fragments
channel_blocked_fragments_of(const uf_channel_blocked_plan &p, int row, int thread) {
    const int lane = thread & 31;
    int warp = thread >> 5;
    /* Rows 0 to 31 of the MMA read the tile's own rows, which follow `twin` rows above them. */
    uint32_t up = (uint32_t)p.twin;
    if (p.twin > 0 && warp >= 2) {
        warp -= 2;
        up = 0;
    }
    channel_blocked_fragments made;
    if (Tile::SOURCE == UF_CHANNEL_BLOCKED_PACKED) {
        /* Planes of positions, which ldmatrix transposes: matrix lane / 8 has channels from
         * 8 * (matrix & 1) on and pixels from 8 * (matrix >> 1) on. */
        const uint32_t y_row = (uint32_t)(UF_CHANNEL_BLOCKED_PIXELS / p.axis[0].patch);
        const uint32_t plane = y_row * (uint32_t)p.y_rows;
        made.row_bytes = 0;
        made.base = ((uint32_t)(row * 8 + warp * 2 + (lane >> 3 & 1)) * plane + up * y_row +
                     (uint32_t)(lane >> 4) * 8 + (uint32_t)(lane & 7)) *
                    16;
    } else if (Tile::SOURCE == UF_CHANNEL_BLOCKED_BF16) {
        /* TMA's swizzle of 64 bytes: bits 1 and 2 of the channel exchange pieces of 16 bytes. */
        const uint32_t channel = (uint32_t)(row * UF_CHANNEL_BLOCKED_ROWS + warp * 16 +
                                            (lane >> 3 & 1) * 8 + (lane & 7));
        made.row_bytes = (uint32_t)(p.y_bytes / p.y_rows);
        made.base = up * made.row_bytes + channel * 64 +
                    (((uint32_t)(lane >> 4) ^ (channel >> 1 & 3)) << 4);
    } else {
        /* TMA's swizzle of 128 bytes: the low bits of the channel exchange pieces of 16 bytes. */
        const uint32_t channel = (uint32_t)(row * UF_CHANNEL_BLOCKED_ROWS + warp * 16 +
                                            channel_blocked_row<Tile>(lane >> 2));
        made.row_bytes = (uint32_t)(p.y_bytes / p.y_rows);
        made.base = up * made.row_bytes + channel * 128 +
                    (((uint32_t)(lane >> 1 & 1) ^ (channel & 7)) << 4) + (uint32_t)(lane & 1) * 8;
    }
    return made;
}

static __device__ __forceinline__ void channel_blocked_load_two(float *pair, uint32_t address) {
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];\n"
                 : "=f"(pair[0]), "=f"(pair[1])
                 : "r"(address)
                 : "memory");
}

/* A fragment, in the layout of mma.m16n8k16: load() leaves it as it is in shared memory, so that
 * the next one arrives while MMAs run; round() makes it bf16. */
template <uf_channel_blocked_source SOURCE>
struct channel_blocked_raw {
    uint32_t word[4];

    __device__ __forceinline__ void load(uint32_t stage, const channel_blocked_fragments &y,
                                         int step) {
        if (SOURCE == UF_CHANNEL_BLOCKED_PACKED) {
            uf_load_matrices_transposed(word, stage + y.base + (uint32_t)step * 256);
        } else {
            uf_load_matrices(word, (stage + y.base + (uint32_t)(step >> 1) * y.row_bytes) ^
                                       (uint32_t)(step & 1) * 32);
        }
    }

    __device__ __forceinline__ void round(uint32_t (&a)[4]) const {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            a[i] = word[i];
        }
    }
};

template <>
struct channel_blocked_raw<UF_CHANNEL_BLOCKED_F32> {
    float value[8];

    __device__ __forceinline__ void load(uint32_t stage, const channel_blocked_fragments &y,
                                         int step) {
        const uint32_t address =
            (stage + y.base + (uint32_t)(step >> 1) * y.row_bytes) ^ (uint32_t)(step & 1) * 64;
        channel_blocked_load_two(value, address);
        channel_blocked_load_two(value + 2, address + 1024);
        channel_blocked_load_two(value + 4, address ^ 32);
        channel_blocked_load_two(value + 6, (address ^ 32) + 1024);
    }

    __device__ __forceinline__ void round(uint32_t (&a)[4]) const {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            a[i] = uf_pack_bf16(value[2 * i], value[2 * i + 1]);
        }
    }
};

/* Sums of zero, and the offset of each unit in a stage, in 16 bytes. */
template <int UNITS, int REGISTERS>
static __device__ __forceinline__ void
channel_blocked_begin(const uf_channel_blocked_plan &p, int32_t unit, int32_t first_window,
                      float (&sum)[UNITS][REGISTERS], uint32_t (&offset)[UNITS]) {
#pragma unroll
    for (int u = 0; u < UNITS; ++u) {
#pragma unroll
        for (int i = 0; i < REGISTERS; ++i) {
            sum[u][i] = 0.0f;
        }
        uf_wgmma_pin(sum[u]);
        /* Units past the last read unit 0; the epilogue drops them. */
        const bool there = unit + u < p.all_units;
        const int32_t slot = there ? channel_blocked_window_of(p, unit + u) - first_window : 0;
        offset[u] = (uint32_t)((p.y_bytes >> 4) + slot * (p.window_bytes >> 4) +
                               (there ? p.shift[(unit + u) % p.kinds] : 0));
    }
}

/* Stores the sums of a block's share in `partial`. */
template <typename Tile>
static __device__ __forceinline__ void
channel_blocked_epilogue(const wgrad_channel_blocked &g, const channel_blocked_coord &at, int row,
                         int32_t unit, int thread,
                         const float (&sum)[Tile::UNITS][Tile::WIDTH / 2]) {
    const uf_channel_blocked_plan &p = g.plan;
    const int lane = thread & 31;
    const int32_t row_tile = at.k_block * Tile::ROWS + row;
    const int32_t columns = p.chunks * p.taps * Tile::WIDTH;
    const int half = p.twin > 0 ? thread >> 6 : 0; /* index of the tap in a pair */
    const int32_t first_row =
        ((thread >> 5) - 2 * half) * 16 + channel_blocked_row<Tile>(lane >> 2);
    const int64_t tile_0 = ((int64_t)at.split * p.groups + at.group) * g.row_tiles + row_tile;
#pragma unroll
    for (int u = 0; u < Tile::UNITS; ++u) {
        const int32_t chunk = (unit + u) / p.kinds;
        const int32_t tap =
            unit + u < p.all_units ? p.unit_tap[unit + u - chunk * p.kinds][half] : -1;
        if (tap >= 0) {
            float *const to = g.partial + (tile_0 * g.sum_rows + first_row) * columns +
                              (chunk * p.taps + tap) * Tile::WIDTH + 2 * (lane & 3);
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                if (row_tile * UF_CHANNEL_BLOCKED_ROWS + first_row + 8 * i < p.k_per_group) {
#pragma unroll
                    for (int j = 0; j < Tile::WIDTH / 8; ++j) {
                        *(float2 *)(to + (int64_t)(8 * i) * columns + 8 * j) =
                            make_float2(sum[u][4 * j + 2 * i], sum[u][4 * j + 2 * i + 1]);
                    }
                }
            }
        }
    }
}

template <typename Tile>
static __device__ __forceinline__ void
channel_blocked_consume(const wgrad_channel_blocked &g, const channel_blocked_coord &at,
                        uint32_t memory, channel_blocked_barriers *barriers) {
    constexpr int STEPS = UF_CHANNEL_BLOCKED_PIXELS / 16;
    const uf_channel_blocked_plan &p = g.plan;
    /* A shuffle tells the compiler that the value is the same in the whole warp. */
    const int warpgroup = __shfl_sync(0xffffffffu, (int)threadIdx.x >> 7, 0);
    const int thread = (int)threadIdx.x & 127;
    const int lane = thread & 31;
    const int row = warpgroup % Tile::ROWS;
    const int32_t unit = at.unit + warpgroup / Tile::ROWS * Tile::UNITS;
    const int32_t first_window = channel_blocked_window_of(p, at.unit);
    float sum[Tile::UNITS][Tile::WIDTH / 2];
    uint32_t offset[Tile::UNITS];
    channel_blocked_begin(p, unit, first_window, sum, offset);
    const uint64_t b_form =
        channel_blocked_operand(0, (uint32_t)p.run_pitch, (uint32_t)p.window_rows);
    const channel_blocked_fragments y = channel_blocked_fragments_of<Tile>(p, row, thread);
    int stage = 0, last = -1;
    uint32_t parity = 0;
#pragma unroll 1
    for (int32_t tile = at.tile; tile < at.end; ++tile) {
        const uint32_t address = memory + (uint32_t)(stage * p.stage_bytes);
        const uint32_t base = address >> 4;
        uf_barrier_wait(barriers->full + stage, parity);
        uint32_t a[2][4];
        channel_blocked_raw<Tile::SOURCE> raw;
        raw.load(address, y, 0);
        raw.round(a[0]);
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            if (step + 1 < STEPS) {
                raw.load(address, y, step + 1);
            }
            uf_wgmma_fence();
#pragma unroll
            for (int u = 0; u < Tile::UNITS; ++u) {
                channel_blocked_mma<Tile::WIDTH>::run(
                    sum[u], a[step & 1], b_form + (base + offset[u] + (uint32_t)p.step_at[step]));
            }
            uf_wgmma_commit();
            uf_wgmma_wait<1>();
            if (step + 1 < STEPS) {
                raw.round(a[(step + 1) & 1]);
            }
            /* wait<1> behind a first step: the MMAs of the stage before are done. */
            if (step == 0 && last >= 0) {
                uf_barrier_release(barriers->empty + last, lane == 0);
            }
        }
        last = stage;
        if (++stage == p.stages) {
            stage = 0;
            parity ^= 1;
        }
    }
    uf_wgmma_wait<0>();
#pragma unroll
    for (int u = 0; u < Tile::UNITS; ++u) {
        uf_wgmma_pin(sum[u]);
    }
    channel_blocked_epilogue<Tile>(g, at, row, unit, thread, sum);
}

#endif

template <typename Tile>
static __global__ void __launch_bounds__(Tile::THREADS, 1)
    conv_wgrad_channel_blocked(const __grid_constant__ wgrad_channel_blocked g) {
#if UF_HAS_WGMMA
    extern __shared__ __align__(128) unsigned char channel_blocked_memory[];
    channel_blocked_barriers *const barriers = (channel_blocked_barriers *)channel_blocked_memory;
    const uint32_t memory = (uf_shared_address(channel_blocked_memory) + 128 + 1023) / 1024 * 1024;
    const int thread = (int)threadIdx.x;
    if (thread == 0) {
        for (int i = 0; i < g.plan.stages; ++i) {
            uf_barrier_init(barriers->full + i, 1);
            uf_barrier_init(barriers->empty + i, Tile::WARPGROUPS * 4);
        }
        uf_barrier_init_fence();
    }
    __syncthreads();
    uf_wait_for_launcher();
    uf_launch_dependents();
    const channel_blocked_coord at = channel_blocked_coord_of(g.plan, (int32_t)blockIdx.x);
    if (thread < Tile::WARPGROUPS * 128) {
        uf_registers_take<Tile::CONSUMER_REGISTERS>();
        channel_blocked_consume<Tile>(g, at, memory, barriers);
    } else {
        uf_registers_release<Tile::PRODUCER_REGISTERS>();
        if (thread == Tile::WARPGROUPS * 128) {
            channel_blocked_produce<Tile>(g, at, memory, barriers);
        }
    }
#endif
}

#endif
