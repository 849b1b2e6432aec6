/* mainloop.cuh - main loop and kernel of swap_ab/launch.cu. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_SWAP_AB_MAINLOOP_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_SWAP_AB_MAINLOOP_CUH

#include "kernels/cuda/conv/wgmma_implicit_gemm/swap_ab/load.cuh"
#include "kernels/cuda/conv/wgmma_implicit_gemm/swap_ab/epilogue.cuh"

#if UF_HAS_WGMMA

/* FP32 accumulators of an MMA, [large*large | large*small] and small*large: apart, because the
 * tensor core truncates at the largest sum. */
template <typename Tile>
struct wgmma_swap_ab_part {
    float both[Tile::FP32 ? 2 * Tile::SUMS : 1], small[Tile::FP32 ? Tile::SUMS : 1];
};

/* The sums of one tile. The other warpgroup's MMAs fill the gap while this one waits for a
 * chunk's. */
template <typename Tile>
static __device__ __forceinline__ void
wgmma_swap_ab_sum(const wgmma_conv &p, const wgmma_swap_ab_shared &shared, int first_window,
                  int first_mma, bool elected, uf_ring &window,
                  float (&total)[Tile::MMAS][Tile::SUMS]) {
    constexpr int TOGETHER = Tile::TOGETHER;
    const uint32_t plane = (uint32_t)p.window_rows;
    const int taps = p.first_tap[1];
    const uint64_t window_at =
        uf_wgmma_operand(shared.windows, plane * 16, 128) + (uint32_t)(first_mma * p.mma_rows);
    const uint64_t weights_at = uf_wgmma_operand(shared.weights, Tile::WEIGHT_ROWS * 16, 128);
    const uint64_t beside_at = uf_wgmma_operand(
        shared.windows + plane * 16 * UF_WGMMA_SWAP_AB_PLANES, Tile::WEIGHT_ROWS * 16, 128);
#pragma unroll
    for (int mma = 0; mma < Tile::MMAS; ++mma) {
#pragma unroll
        for (int i = 0; i < Tile::SUMS; ++i) {
            total[mma][i] = 0.0f;
        }
        uf_wgmma_pin(total[mma]);
    }
#pragma unroll 1
    for (int32_t chunk = 0; chunk < p.chunks; ++chunk) {
        const int at = first_window + window.index;
        uf_barrier_wait(shared.barriers->window_full + at, window.parity);
        const uint32_t moved = (uint32_t)at * (shared.window_bytes >> 4);
        const uint64_t a = window_at + moved;
        const uint64_t b =
            p.resident ? weights_at + (uint32_t)(chunk * taps) * (uint32_t)(Tile::TAP_BYTES / 16)
                       : beside_at + moved;
        if (Tile::FP32) {
#pragma unroll 1
            for (int tap = 0; tap < taps; tap += p.promote) {
                const int count = taps - tap < p.promote ? taps - tap : p.promote;
#pragma unroll
                for (int mma = 0; mma < Tile::MMAS; mma += TOGETHER) {
                    wgmma_swap_ab_part<Tile> part[TOGETHER];
#pragma unroll
                    for (int i = 0; i < TOGETHER; ++i) {
                        uf_wgmma_clear(part[i].both);
                        uf_wgmma_clear(part[i].small);
                    }
                    uint64_t b_at = b + (uint32_t)tap * (uint32_t)(Tile::TAP_BYTES / 16);
#pragma unroll 1
                    for (int t = tap; t < tap + count; ++t) {
                        uint64_t a_at = a + (uint32_t)(p.shift[t] + mma * p.mma_rows);
                        uf_wgmma_fence();
#pragma unroll
                        for (int i = 0; i < TOGETHER; ++i) {
                            uf_wgmma_mma<uf_wgmma_tf32, 2 * Tile::COLUMNS>::run(
                                (float(&)[2 * Tile::SUMS]) part[i].both, a_at, b_at, 1);
                            uf_wgmma_mma<uf_wgmma_tf32, Tile::COLUMNS>::run(
                                (float(&)[Tile::SUMS])part[i].small, a_at + 2 * plane, b_at, 1);
                            a_at += (uint32_t)p.mma_rows;
                        }
                        uf_wgmma_commit();
                        b_at += Tile::TAP_BYTES / 16;
                    }
                    uf_wgmma_wait<0>();
#pragma unroll
                    for (int j = 0; j < TOGETHER; ++j) {
                        uf_wgmma_pin(part[j].both);
                        uf_wgmma_pin(part[j].small);
#pragma unroll
                        for (int i = 0; i < Tile::SUMS; ++i) {
                            total[mma + j][i] += part[j].both[Tile::FP32 ? i : 0] +
                                                 (part[j].both[Tile::FP32 ? Tile::SUMS + i : 0] +
                                                  part[j].small[Tile::FP32 ? i : 0]);
                        }
                        uf_wgmma_pin(total[mma + j]);
                    }
                }
            }
        } else {
#pragma unroll 1
            for (int tap = 0; tap < taps; ++tap) {
                const uint64_t a_at = a + p.shift[tap];
                const uint64_t b_at = b + (uint32_t)tap * (uint32_t)(Tile::TAP_BYTES / 16);
                uf_wgmma_fence();
#pragma unroll
                for (int step = 0; step < Tile::STEPS; ++step) {
#pragma unroll
                    for (int mma = 0; mma < Tile::MMAS; ++mma) {
                        typedef uf_wgmma_mma<typename wgmma_element<Tile::MATH>::type,
                                             Tile::COLUMNS>
                            one;
                        one::run(total[mma], a_at + (uint32_t)(mma * p.mma_rows) + 2 * step * plane,
                                 b_at + 2 * step * Tile::WEIGHT_ROWS, 1);
                    }
                }
                uf_wgmma_commit();
            }
            uf_wgmma_wait<0>();
        }
        if (elected) {
            uf_barrier_arrive(shared.barriers->window_empty + at);
        }
        window.next(p.windows);
    }
#pragma unroll
    for (int mma = 0; mma < Tile::MMAS; ++mma) {
        uf_wgmma_pin(total[mma]);
    }
}

/* Consumer warpgroups take tiles in turn or halves of the same window: one stores results while the
 * other's MMAs run. */
template <typename Tile>
static __device__ __forceinline__ void wgmma_swap_ab_consumer(const wgmma_conv &p,
                                                              const wgmma_swap_ab_shared &shared) {
    /* From lane 0, so that the compiler knows a uniform value. */
    const int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x >> 5, 0);
    const int warpgroup = warp >> 2;
    const int lane = (int)threadIdx.x & 31;
    const bool elected = lane == 0;
    float *const staging = shared.staging + warpgroup * UF_WGMMA_SWAP_AB_STAGING(Tile::COLUMNS);
    const int turn = Tile::SHARED ? 0 : warpgroup;
    const int first_mma = Tile::SHARED ? warpgroup * Tile::MMAS : 0;
    const wgmma_swap_ab_tile step = wgmma_swap_ab_tile_of(p, Tile::TURNS * (int32_t)gridDim.x);
    wgmma_swap_ab_tile at =
        wgmma_swap_ab_tile_of(p, (int32_t)(blockIdx.x + (uint32_t)turn * gridDim.x));
    uf_ring window = {0, 0};
    if (p.resident) {
        uf_barrier_wait(&shared.barriers->weights_full, 0);
    }
#pragma unroll 1
    for (int32_t tile = (int32_t)(blockIdx.x + (uint32_t)turn * gridDim.x); tile < p.tiles;
         tile += Tile::TURNS * (int32_t)gridDim.x) {
        float total[Tile::MMAS][Tile::SUMS];
        wgmma_swap_ab_sum<Tile>(p, shared, turn * p.windows, first_mma, elected, window, total);
        bool finite = true;
        if (Tile::FP32) {
            float probe = 0.0f; /* NaN if a sum is infinite or NaN */
#pragma unroll
            for (int mma = 0; mma < Tile::MMAS; ++mma) {
#pragma unroll
                for (int i = 0; i < Tile::SUMS; ++i) {
                    probe = fmaf(total[mma][i], 0.0f, probe);
                }
            }
            finite = uf_named_barrier_and(1 + warpgroup, 128, probe == 0.0f);
            finite = __shfl_sync(0xffffffffu, (int)finite, 0) != 0;
            if ((warp & 3) == 0 && elected) {
                p.unfinished[tile] = !finite;
            }
        }
        if (finite) { /* else the exact fix-up stores the tile */
            wgmma_swap_ab_write<Tile>(p, at, first_mma, warpgroup, warp, lane, staging, total);
        }
        __syncwarp();
        at.add(p, step);
    }
}

#endif

template <typename Tile>
static __global__ void __launch_bounds__(Tile::THREADS, 1)
    conv_wgmma_swap_ab(const __grid_constant__ wgmma_conv p) {
#if UF_HAS_WGMMA
    UF_MMA_SHARED(memory);
    const int thread = (int)threadIdx.x;
    const uint32_t window = (uint32_t)p.window_rows * (16 * UF_WGMMA_SWAP_AB_PLANES);
    const uint32_t weights = (uint32_t)(p.first_tap[1] * Tile::TAP_BYTES);
    wgmma_swap_ab_shared shared;
    shared.barriers = (wgmma_swap_ab_barriers *)memory;
    shared.staging = (float *)(memory + UF_WGMMA_BARRIERS / 4);
    shared.positions =
        (wgmma_swap_ab_position *)(shared.staging + UF_WGMMA_SWAP_AB_GROUPS *
                                                        UF_WGMMA_SWAP_AB_STAGING(Tile::COLUMNS));
    shared.weights = uf_shared_address(shared.positions + (p.window_rows + 1) / 2 * 2);
    shared.windows = shared.weights + (p.resident ? weights * (uint32_t)p.chunks : 0);
    shared.window_bytes = window + (p.resident ? 0 : weights);
    if (thread == 0) {
        for (int i = 0; i < Tile::TURNS * p.windows; ++i) {
            uf_barrier_init(shared.barriers->window_full + i,
                            Tile::PRODUCER_WARPS + (p.resident ? 0 : 1));
            uf_barrier_init(shared.barriers->window_empty + i, Tile::SHARED ? 8 : 4);
        }
        uf_barrier_init(&shared.barriers->weights_full, 1);
        uf_barrier_init_fence();
    }
    for (int32_t row = thread; row < p.window_rows; row += Tile::THREADS) {
        const int32_t y = row / p.axis[1].extent;
        const int32_t x = row - y * p.axis[1].extent;
        shared.positions[row].offset =
            (int32_t)(y * p.conv.read_stride[2] + x * p.conv.read_stride[3]);
        shared.positions[row].coord = (uint32_t)y << 16 | (uint32_t)x;
    }
    __syncthreads();
    uf_wait_for_launcher();
    uf_launch_dependents();
    if (thread < Tile::CONSUMERS) {
        uf_registers_take<Tile::CONSUMER_REGISTERS>();
        wgmma_swap_ab_consumer<Tile>(p, shared);
    } else {
        uf_registers_release<Tile::PRODUCER_REGISTERS>();
        wgmma_swap_ab_producer<Tile>(p, shared, thread - Tile::CONSUMERS);
    }
#endif
}

#endif
