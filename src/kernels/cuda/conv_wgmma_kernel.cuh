/* conv_wgmma_kernel.cuh - the kernel of conv_wgmma.cu: its roles, and the way out. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_KERNEL_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_KERNEL_CUH

#include "kernels/cuda/conv_wgmma.cuh"

#if UF_HAS_WGMMA

/* What a block keeps in shared memory, in this order. */
struct wgmma_shared {
    wgmma_barriers *barriers;
    float *staging; /* 16 channels x 32 pixels of each consuming warp, on the way out */
    uint32_t *places;
    uint32_t raw, windows, weights, window_bytes;
};

/* The accumulators of one warp, 16 channels, to memory: 32 pixels at a time through shared memory, so that its lanes
 * write a channel of 32 pixels. Scale, shift and what is cheap of the activations are applied in registers, where a
 * thread has two channels only. */
template <typename Tile>
static __device__ __forceinline__ void wgmma_write(const wgmma_conv &p, const wgmma_place &at,
                                                   const mma_walk &down, const mma_walk &across,
                                                   int32_t first_channel, int lane, float *staging,
                                                   const float (&d)[Tile::NT][UF_WGMMA_PIXELS / 2]) {
    const mma_conv &c = p.conv;
    constexpr int SLICES = Tile::NT * 4;
    const int32_t left = c.written_per_group - first_channel;
    const int64_t channel_0 = (int64_t)at.group * c.written_per_group + first_channel;
    const bool relu = c.activation == UF_ACTIVATION_RELU;
    const float slope = c.activation == UF_ACTIVATION_LEAKY_RELU ? c.parameter : 1.0f;
    const bool simple = !c.accumulate && (relu || c.activation == UF_ACTIVATION_IDENTITY ||
                                          c.activation == UF_ACTIVATION_LEAKY_RELU);
    float scale[2] = {1.0f, 1.0f}, shift[2] = {0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int32_t channel = (lane >> 2) + 8 * i;
        if (channel < left && c.scale != nullptr) {
            scale[i] = c.scale[(channel_0 + channel) * c.scale_stride];
        }
        if (channel < left && c.shift != nullptr) {
            shift[i] = c.shift[(channel_0 + channel) * c.shift_stride];
        }
    }
    float *const to = staging + (lane >> 2) * UF_WGMMA_PITCH + 2 * (lane & 3);
    const float *const from = staging + lane;
#pragma unroll 1
    for (int slice = 0; slice < SLICES; ++slice) {
        __syncwarp(); /* the slice before has been read */
#pragma unroll
        for (int k = 0; k < SLICES; ++k) {
            if (slice == k) {
#pragma unroll
                for (int run = 0; run < 4; ++run) {
#pragma unroll
                    for (int i = 0; i < 2; ++i) {
                        float value[2];
#pragma unroll
                        for (int e = 0; e < 2; ++e) {
                            const float sum =
                                d[k >> 2][(k & 3) * 16 + run * 4 + i * 2 + e] * scale[i] + shift[i];
                            value[e] = sum < 0.0f ? (relu ? 0.0f : slope * sum) : sum;
                        }
                        *(float2 *)(to + 8 * i * UF_WGMMA_PITCH + 8 * run) =
                            make_float2(value[0], value[1]);
                    }
                }
            }
        }
        __syncwarp();
        const wgmma_pixel pixel =
            wgmma_pixel_of(p, at, down, across, slice >> 2, (slice & 3) * 32 + lane);
        if (!pixel.there) {
            continue;
        }
        float *written = c.written + pixel.offset + channel_0 * c.written_stride[1];
        if (simple) {
#pragma unroll
            for (int k = 0; k < 16; ++k) {
                if (k < left) {
                    *written = from[k * UF_WGMMA_PITCH];
                }
                written += c.written_stride[1];
            }
        } else {
#pragma unroll 1
            for (int k = 0; k < 16 && k < left; ++k) {
                const float value = uf_activate(c.activation, from[k * UF_WGMMA_PITCH], c.parameter);
                *written = c.accumulate ? *written + value : value;
                written += c.written_stride[1];
            }
        }
    }
}

/* The sums of one warpgroup's tile: windows and weights as they arrive, in the order in which the loaders send them. */
template <typename Tile>
static __device__ __forceinline__ void wgmma_consume(
    const wgmma_conv &p, const wgmma_shared &shared, int32_t phase, bool idle, int warpgroup,
    bool elected, wgmma_ring &window, wgmma_ring &stage,
    float (&total)[Tile::NT][UF_WGMMA_PIXELS / 2]) {
    const uint32_t plane = (uint32_t)p.window_rows;
    const uint64_t weights_at =
        uf_wgmma_operand(shared.weights + (uint32_t)(warpgroup * p.stages) * UF_WGMMA_WEIGHTS,
                         UF_WGMMA_ROWS * 16, 128);
    const uint64_t window_at = uf_wgmma_operand(
        shared.windows, plane * 16,
        (uint32_t)(p.product_pitch * 16)); /* from one run of 8 pixels to the next */
    uint64_t *const weights_full = shared.barriers->weights_full + warpgroup * p.stages;
    uint64_t *const weights_empty = shared.barriers->weights_empty + warpgroup * p.stages;
    float part[Tile::FP32 ? UF_WGMMA_PIXELS / 2 : 1];
    int add = 0;             /* is there something in `total` */
    int last_stage = -1, last_window = -1; /* to be given back once their products are done */
#pragma unroll 1
    for (int32_t chunk = 0; chunk < p.chunks; chunk += p.depth) {
#pragma unroll 1
        for (int klass = 0; klass < p.classes; ++klass) {
            const int pair = phase * p.classes + klass;
            const int first = p.first_tap[pair];
            const int taps = idle ? 0 : p.first_tap[pair + 1] - first;
            const int units = taps * p.depth;
            uf_barrier_wait(shared.barriers->window_full + window.index, window.parity);
            const uint64_t b = window_at + (uint32_t)window.index * (shared.window_bytes >> 4);
            int tap = 0;
            uint32_t deep = 0;
#pragma unroll 1
            for (int unit = 0; unit < units;) {
                if (Tile::FP32) {
                    const int batch = units - unit < p.promote ? units - unit : p.promote;
                    const wgmma_ring begin = stage;
                    const int tap_begin = tap;
                    const uint32_t deep_begin = deep;
#pragma unroll
                    for (int product = 0; product < Tile::NT; ++product) {
                        stage = begin;
                        tap = tap_begin;
                        deep = deep_begin;
                        uf_wgmma_clear(part);
#pragma unroll 1
                        for (int i = 0; i < batch; ++i) {
                            uf_barrier_wait(weights_full + stage.index, stage.parity);
                            uf_wgmma_fence();
                            wgmma_multiply<Tile>(
                                (float(&)[UF_WGMMA_PIXELS / 2])part,
                                weights_at + (uint32_t)stage.index * (UF_WGMMA_WEIGHTS / 16),
                                b + deep + p.shift[first + tap] + product * p.product_rows, plane,
                                1);
                            stage.next(p.stages);
                            if (++tap == taps) {
                                tap = 0;
                                deep += UF_WGMMA_PLANES * plane;
                            }
                        }
                        uf_wgmma_commit();
                        uf_wgmma_wait<0>();
                        uf_wgmma_pin(part);
#pragma unroll
                        for (int i = 0; i < UF_WGMMA_PIXELS / 2; ++i) {
                            total[product][i] += part[Tile::FP32 ? i : 0];
                        }
                        uf_wgmma_pin(total[product]);
                    }
                    if (elected) {
                        wgmma_ring done = begin;
                        for (int i = 0; i < batch; ++i) {
                            uf_barrier_arrive(weights_empty + done.index);
                            done.next(p.stages);
                        }
                    }
                    unit += batch;
                } else {
                    uf_barrier_wait(weights_full + stage.index, stage.parity);
                    uf_wgmma_fence();
#pragma unroll
                    for (int product = 0; product < Tile::NT; ++product) {
                        wgmma_multiply<Tile>(
                            total[product],
                            weights_at + (uint32_t)stage.index * (UF_WGMMA_WEIGHTS / 16),
                            b + deep + p.shift[first + tap] + product * p.product_rows, plane,
                            add);
                    }
                    add = 1;
                    uf_wgmma_commit();
                    uf_wgmma_wait<1>();
                    if (elected && last_stage >= 0) {
                        uf_barrier_arrive(weights_empty + last_stage);
                    }
                    if (elected && last_window >= 0) {
                        uf_barrier_arrive(shared.barriers->window_empty + last_window);
                    }
                    last_stage = stage.index;
                    last_window = -1;
                    stage.next(p.stages);
                    if (++tap == taps) {
                        tap = 0;
                        deep += UF_WGMMA_PLANES * plane;
                    }
                    ++unit;
                }
            }
            if (Tile::FP32 || units == 0) {
                if (elected) {
                    uf_barrier_arrive(shared.barriers->window_empty + window.index);
                }
            } else if (p.windows > 1) {
                last_window = window.index;
            } else {
                /* The next window comes into this buffer: its products cannot be waited for from there. */
                uf_wgmma_wait<0>();
                if (elected) {
                    uf_barrier_arrive(shared.barriers->window_empty + window.index);
                }
            }
            window.next(p.windows);
        }
    }
    if (!Tile::FP32) {
        uf_wgmma_wait<0>();
        if (elected && last_stage >= 0) {
            uf_barrier_arrive(weights_empty + last_stage);
        }
        if (elected && last_window >= 0) {
            uf_barrier_arrive(shared.barriers->window_empty + last_window);
        }
    }
}

template <typename Tile>
static __device__ __forceinline__ void wgmma_consumer(const wgmma_conv &p,
                                                      const wgmma_shared &shared) {
    /* From one lane, so that the compiler knows that a warp agrees about it: products in a branch that might diverge
     * are issued one by one. */
    const int warpgroup = __shfl_sync(0xffffffffu, (int)threadIdx.x >> 7, 0);
    const int thread = (int)threadIdx.x & 127;
    const bool elected = (thread & 31) == 0;
    wgmma_ring window = {0, 0}, stage = {0, 0};
#pragma unroll 1
    for (int64_t tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const int32_t sub = (int32_t)(tile % p.blocks_m) * Tile::WM + warpgroup;
        bool idle = sub >= p.phases * p.channel_blocks;
        const int32_t phase = idle ? 0 : sub / p.channel_blocks;
        float total[Tile::NT][UF_WGMMA_PIXELS / 2];
#pragma unroll
        for (int product = 0; product < Tile::NT; ++product) {
#pragma unroll
            for (int i = 0; i < UF_WGMMA_PIXELS / 2; ++i) {
                total[product][i] = 0.0f;
            }
            uf_wgmma_pin(total[product]);
        }
        wgmma_consume<Tile>(p, shared, phase, idle, warpgroup, elected, window, stage, total);
#pragma unroll
        for (int product = 0; product < Tile::NT; ++product) {
            uf_wgmma_pin(total[product]);
        }
        if (Tile::FP32) {
            /* NaN if a sum is infinite or NaN. */
            float probe = 0.0f;
#pragma unroll
            for (int product = 0; product < Tile::NT; ++product) {
#pragma unroll
                for (int i = 0; i < UF_WGMMA_PIXELS / 2; ++i) {
                    probe = fmaf(total[product][i], 0.0f, probe);
                }
            }
            bool finite = uf_named_barrier_and(1 + warpgroup, 128, probe == 0.0f);
            finite = __shfl_sync(0xffffffffu, (int)finite, 0) != 0; /* as for `warpgroup` */
            if (thread == 0) {
                p.unfinished[tile * Tile::WM + warpgroup] = !finite;
            }
            idle = idle || !finite; /* the repair writes the tile */
        }
        if (!idle) {
            const wgmma_place at = wgmma_place_of(p, tile);
            const mma_walk down = mma_walk_of(p.conv.axis[0], phase / p.conv.axis[1].phases);
            const mma_walk across = mma_walk_of(p.conv.axis[1], phase % p.conv.axis[1].phases);
            const int warp = (int)threadIdx.x >> 5;
            wgmma_write<Tile>(
                p, at, down, across,
                (sub - phase * p.channel_blocks) * UF_WGMMA_ROWS + (warp & 3) * UF_WGMMA_WARP_ROWS,
                thread & 31, shared.staging + warp * UF_WGMMA_WARP_ROWS * UF_WGMMA_PITCH, total);
        }
        __syncwarp();
    }
}

/* Sends one warpgroup its weights: packed in the order of use, so only the count matters. */
template <typename Tile>
static __device__ __forceinline__ void wgmma_feed(const wgmma_conv &p, const wgmma_shared &shared,
                                                  int warpgroup) {
    wgmma_ring stage = {0, 0};
    const uint32_t weights = shared.weights + (uint32_t)(warpgroup * p.stages) * UF_WGMMA_WEIGHTS;
    uint64_t *const full = shared.barriers->weights_full + warpgroup * p.stages;
    uint64_t *const empty = shared.barriers->weights_empty + warpgroup * p.stages;
#pragma unroll 1
    for (int64_t tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const wgmma_place at = wgmma_place_of(p, tile);
        const int32_t sub = at.block_m * Tile::WM + warpgroup;
        if (sub >= p.phases * p.channel_blocks) {
            continue;
        }
        const int32_t phase = sub / p.channel_blocks;
        const int32_t block = sub - phase * p.channel_blocks;
        const int32_t first = p.first_tap[phase * p.classes];
        const int32_t taps = p.first_tap[(phase + 1) * p.classes] - first;
        const int32_t chunks = p.chunks;
        const char *from = (const char *)p.conv.packed +
                           (int64_t)at.group * p.first_tap[p.phases * p.classes] *
                               p.channel_blocks * chunks * UF_WGMMA_WEIGHTS +
                           ((int64_t)first * p.channel_blocks + (int64_t)block * taps) * chunks *
                               UF_WGMMA_WEIGHTS;
#pragma unroll 1
        for (int32_t left = taps * chunks; left > 0; --left) {
            uf_barrier_wait(empty + stage.index, stage.parity ^ 1);
            uf_barrier_expect(full + stage.index, UF_WGMMA_WEIGHTS);
            uf_copy_bulk(weights + (uint32_t)stage.index * UF_WGMMA_WEIGHTS, from, UF_WGMMA_WEIGHTS,
                         full + stage.index);
            from += UF_WGMMA_WEIGHTS;
            stage.next(p.stages);
        }
    }
}

/* Fills windows: asks for RAW units ahead of the one that it converts, so that memory is never waited for in vain. */
template <typename Tile>
static __device__ __forceinline__ void wgmma_loader(const wgmma_conv &p,
                                                    const wgmma_shared &shared, int thread) {
    const uint32_t raw_bytes = (uint32_t)p.window_rows * (UF_WGMMA_UNIT * 4);
    wgmma_ring window = {0, 0};
    wgmma_unit asked, due;
    int slot = 0;
    wgmma_begin(p, asked);
    due = asked;
#pragma unroll 1
    for (int i = 0; i < Tile::RAW; ++i) {
        if (asked.tile < p.tiles) {
            wgmma_ask<Tile>(p, asked, shared.places, shared.raw + i * raw_bytes, thread);
            wgmma_advance<Tile>(p, asked);
        }
        uf_copy_async_commit();
    }
#pragma unroll 1
    while (due.tile < p.tiles) {
        const uint32_t raw = shared.raw + slot * raw_bytes;
        uf_copy_async_wait<Tile::RAW - 1>();
        if (due.deep == 0 && due.part == 0) {
            uf_barrier_wait(shared.barriers->window_empty + window.index, window.parity ^ 1);
        }
        wgmma_convert<Tile>(p, due, raw,
                            shared.windows + (uint32_t)window.index * shared.window_bytes, thread);
        if (due.deep == p.depth - 1 && due.part == Tile::PARTS - 1) {
            uf_fence_async_shared();
            uf_barrier_arrive(shared.barriers->window_full + window.index);
            window.next(p.windows);
        }
        wgmma_advance<Tile>(p, due);
        if (asked.tile < p.tiles) {
            wgmma_ask<Tile>(p, asked, shared.places, raw, thread);
            wgmma_advance<Tile>(p, asked);
        }
        uf_copy_async_commit();
        slot = slot == Tile::RAW - 1 ? 0 : slot + 1;
    }
}

#endif

template <typename Tile>
static __global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS)
    conv_wgmma(const __grid_constant__ wgmma_conv p) {
#if UF_HAS_WGMMA
    UF_MMA_SHARED(memory);
    const int thread = (int)threadIdx.x;
    wgmma_shared shared;
    shared.barriers = (wgmma_barriers *)memory;
    shared.staging = (float *)(shared.barriers + 1);
    shared.places = (uint32_t *)(shared.staging + Tile::WM * UF_WGMMA_ROWS * UF_WGMMA_PITCH);
    shared.window_bytes = (uint32_t)(p.window_rows * p.depth) * (UF_WGMMA_PLANES * 16);
    shared.raw = uf_shared_address(shared.places + (p.window_rows + 31) / 32 * 32);
    shared.windows = shared.raw + (uint32_t)(Tile::RAW * p.window_rows * UF_WGMMA_UNIT * 4);
    shared.weights = shared.windows + (uint32_t)p.windows * shared.window_bytes;
    if (thread == 0) {
        for (int i = 0; i < p.windows; ++i) {
            uf_barrier_init(shared.barriers->window_full + i, Tile::LOADERS);
            uf_barrier_init(shared.barriers->window_empty + i, Tile::CONSUMERS / 32);
        }
        for (int i = 0; i < p.stages * Tile::WM; ++i) {
            uf_barrier_init(shared.barriers->weights_full + i, 1);
            uf_barrier_init(shared.barriers->weights_empty + i, 4);
        }
        uf_barrier_init_fence();
    }
    /* Row (((product of images, y), image down), x), image across) of a window. */
    const uf_wgmma_axis &rows = p.axis[0], &columns = p.axis[1];
    for (int32_t row = thread; row < p.window_rows; row += Tile::THREADS) {
        const int32_t image_across = row & ((1 << columns.images_log) - 1);
        int32_t rest = row >> columns.images_log;
        const int32_t x = rest % columns.extent;
        rest /= columns.extent;
        const int32_t image_down = rest & ((1 << rows.images_log) - 1);
        rest >>= rows.images_log;
        const int32_t y = rest % rows.extent;
        const int32_t product = rest / rows.extent;
        const int32_t image = (((product << rows.images_log) + image_down) << columns.images_log) +
                              image_across;
        shared.places[row] = (uint32_t)image << 24 | (uint32_t)y << 12 | (uint32_t)x;
    }
    __syncthreads();
    if (thread < Tile::CONSUMERS) {
        uf_registers_take<Tile::CONSUMER_REGISTERS>();
        wgmma_consumer<Tile>(p, shared);
    } else {
        uf_registers_release<Tile::PRODUCER_REGISTERS>();
        const int warp = (thread - Tile::CONSUMERS) >> 5;
        if (warp >= Tile::WM) {
            wgmma_loader<Tile>(p, shared, thread - Tile::CONSUMERS - 32 * Tile::WM);
        } else if ((thread & 31) == 0) {
            wgmma_feed<Tile>(p, shared, warp);
        }
    }
#endif
}

#endif
