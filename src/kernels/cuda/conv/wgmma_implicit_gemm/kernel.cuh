/* kernel.cuh - the kernel of launch.cu and launch_split_f16.cu, and its warp roles. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_KERNEL_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_KERNEL_CUH

#include "kernels/cuda/conv/wgmma_implicit_gemm/range_flag.cuh"
#include "kernels/cuda/conv/wgmma_implicit_gemm/mainloop.cuh"

#if UF_HAS_WGMMA

/* The flags of a tile: one thread `writes`, by predicates alone. After a branch ptxas no longer
 * sees that a warp is uniform, and serialises MMAs (C7520). */
template <typename Tile>
static __device__ __forceinline__ void wgmma_flag(const wgmma_conv &p, int64_t flag, bool done,
                                                  bool writes) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.s32 p, %2, 0;\n@p st.global.u8 [%0], %1;\n}\n" ::"l"(
                     p.unfinished + flag),
                 "r"((int)(!Tile::SPLIT_F16 && !done)), "r"((int)writes)
                 : "memory");
    if (Tile::SPLIT_F16) {
        asm volatile(
            "{\n.reg .pred p, q;\nsetp.ne.s32 p, %3, 0;\nsetp.ne.and.s32 q, %2, 0, p;\n"
            "@p st.global.u8 [%0], %2;\n@q st.global.s32 [%1], %2;\n}\n" ::"l"(p.flagged + flag),
            "l"(p.range_flags), "r"((int)!done), "r"((int)writes)
            : "memory");
    }
}

template <typename Tile>
static __device__ __forceinline__ void wgmma_consumer(const wgmma_conv &p,
                                                      const wgmma_shared &shared) {
    /* From lane 0, so that the compiler knows a uniform value: it issues MMAs in a divergent branch
     * one by one. */
    const int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x >> 5, 0);
    const int warpgroup = warp >> 2;
    const int thread = (int)threadIdx.x & 127;
    const int lane = thread & 31;
    wgmma_share share = wgmma_share_of<Tile>(p, 0xffffffffu);
    uf_ring window = {0, 0}, stage = {0, 0};
#pragma unroll 1
    for (; share.tile < share.limit; wgmma_next<Tile>(p, share)) {
        const int32_t tile = share.tile;
        const wgmma_role role =
            wgmma_role_of(p, wgmma_coord_of(p, tile).block_m * Tile::WM + warpgroup);
        bool idle = role.idle;
        float total[Tile::NT][UF_WGMMA_PIXELS / 2];
#pragma unroll
        for (int mma = 0; mma < Tile::NT; ++mma) {
#pragma unroll
            for (int i = 0; i < UF_WGMMA_PIXELS / 2; ++i) {
                total[mma][i] = 0.0f;
            }
            uf_wgmma_pin(total[mma]);
        }
        if (Tile::FP32 && !Tile::SPLIT_F16 && p.promote == 0) {
            wgmma_consume<Tile, 1>(p, shared, share, role.phase, idle, warpgroup, lane, window,
                                   stage, total);
        } else if (Tile::PACKED && !Tile::FP32 && p.planes < UF_WGMMA_PLANES) {
            wgmma_consume<Tile, 2>(p, shared, share, role.phase, idle, warpgroup, lane, window,
                                   stage, total);
        } else {
            wgmma_consume<Tile, Tile::FP32 ? UF_WGMMA_FP32_STEPS : 4>(
                p, shared, share, role.phase, idle, warpgroup, lane, window, stage, total);
        }
#pragma unroll
        for (int mma = 0; mma < Tile::NT; ++mma) {
            uf_wgmma_pin(total[mma]);
        }
        if (Tile::SPLIT &&
            !wgmma_cluster_reduce<Tile>(p, shared, share, warpgroup, thread, total)) {
            break; /* another CTA of the cluster has these sums */
        }
        if (Tile::SHARED && !wgmma_stream_k_reduce<Tile>(p, share, warpgroup, thread, total)) {
            continue; /* the owner of the tile has these sums */
        }
        if (Tile::FP32) {
            bool good;
            if (Tile::SPLIT_F16) {
                const uf_split_f16_scales scales = shared.barriers->scales;
                good = wgmma_in_range<Tile>(p, tile, role, warp & 3, lane, scales, total);
            } else {
                /* NaN if a sum is infinite or NaN. */
                float probe = 0.0f;
#pragma unroll
                for (int mma = 0; mma < Tile::NT; ++mma) {
#pragma unroll
                    for (int i = 0; i < UF_WGMMA_PIXELS / 2; ++i) {
                        probe = fmaf(total[mma][i], 0.0f, probe);
                    }
                }
                good = probe == 0.0f;
            }
            bool done = p.paired ? uf_named_barrier_and(1, Tile::CONSUMERS, good)
                                 : uf_named_barrier_and(1 + warpgroup, 128, good);
            done = __shfl_sync(0xffffffffu, (int)done, 0) != 0; /* as for `warpgroup` */
            const int64_t flag = (int64_t)tile * Tile::WM + warpgroup;
            /* Perhaps only the tile's other half is computed again. */
            const bool mine = Tile::SPLIT_F16 || p.flagged == nullptr || p.flagged[flag] != 0;
            wgmma_flag<Tile>(p, flag, done, mine && thread == 0);
            idle = idle || !done; /* the fix-up stores the tile */
            if (!Tile::SPLIT_F16) {
                idle = idle || __shfl_sync(0xffffffffu, (int)mine, 0) == 0;
            }
        }
        if (!idle) {
            wgmma_write<Tile>(p, wgmma_coord_of(p, tile), role.phase, role.block * p.block_channels,
                              warp, lane, shared.staging, total);
        }
        __syncwarp();
    }
}

/* Producer of weights of one warpgroup. They are packed in the order of use. */
template <typename Tile>
static __device__ __forceinline__ void
wgmma_produce_weights(const wgmma_conv &p, const wgmma_shared &shared, int warpgroup) {
    uf_ring stage = {0, 0};
    const uint32_t bytes = shared.weight_bytes;
    const uint32_t weights = shared.weights + (uint32_t)(warpgroup * p.stages) * bytes;
    uint64_t *const full = shared.barriers->weights_full + warpgroup * p.stages;
    uint64_t *const empty = shared.barriers->weights_empty + warpgroup * p.stages;
    wgmma_share share = wgmma_share_of<Tile>(p, 1);
#pragma unroll 1
    for (; share.tile < share.limit; wgmma_next<Tile>(p, share)) {
        const wgmma_coord at = wgmma_coord_of(p, share.tile);
        const wgmma_role role = wgmma_role_of(p, at.block_m * Tile::WM + warpgroup);
        if (role.idle) {
            continue;
        }
        const int32_t first = p.first_tap[role.phase * p.classes];
        const int32_t taps = p.first_tap[(role.phase + 1) * p.classes] - first;
        const int32_t chunks = p.chunks;
        const char *from =
            (const char *)p.conv.packed +
            (int64_t)at.group * p.first_tap[p.phases * p.classes] * p.channel_blocks * chunks *
                bytes +
            (((int64_t)first * p.channel_blocks + (int64_t)role.block * taps) * chunks +
             (int64_t)taps * share.begin) *
                bytes;
#pragma unroll 1
        for (int32_t left = taps * (share.end - share.begin); left > 0; --left) {
            uf_barrier_wait(empty + stage.index, stage.parity ^ 1);
            uf_barrier_expect(full + stage.index, bytes);
            uf_copy_bulk(weights + (uint32_t)stage.index * bytes, from, bytes, full + stage.index);
            from += bytes;
            stage.next(p.stages);
        }
    }
}

/* Producer of packed windows. */
template <typename Tile>
static __device__ __forceinline__ void wgmma_produce_packed_windows(const wgmma_conv &p,
                                                                    const CUtensorMap *map,
                                                                    const wgmma_shared &shared) {
    uf_ring window = {0, 0};
    const int images_log = p.axis[0].images_log + p.axis[1].images_log;
    wgmma_share share = wgmma_share_of<Tile>(p, 1);
#pragma unroll 1
    for (; share.tile < share.limit; wgmma_next<Tile>(p, share)) {
        const wgmma_coord at = wgmma_coord_of(p, share.tile);
#pragma unroll 1
        for (int32_t chunk = share.begin; chunk < share.end; chunk += p.depth) {
#pragma unroll 1
            for (int32_t klass = 0; klass < p.classes; ++klass) {
                uint64_t *const full = shared.barriers->window_full + window.index;
                uf_barrier_wait(shared.barriers->window_empty + window.index, window.parity ^ 1);
                uf_barrier_expect(full, shared.window_bytes);
                channel_blocked_copy(
                    shared.windows + (uint32_t)window.index * shared.window_bytes, map,
                    at.x + p.axis[1].first + p.class_first[klass][1], p.axis[1].images_log,
                    at.y + p.axis[0].first + p.class_first[klass][0], at.n >> images_log,
                    ((at.group * p.classes + klass) * p.chunks + chunk) * p.planes, full);
                window.next(p.windows);
            }
        }
    }
}

/* Producer warps of windows that are not packed. They keep RAW units in flight ahead of the one
 * they convert. */
template <typename Tile>
static __device__ __forceinline__ void
wgmma_produce_windows(const wgmma_conv &p, const wgmma_shared &shared, int thread) {
    const uint32_t raw_bytes = (uint32_t)p.window_rows * (UF_WGMMA_UNIT * 4);
    uf_ring window = {0, 0};
    wgmma_unit ahead, due;
    int slot = 0;
    const float scale = Tile::SPLIT_F16 ? shared.barriers->scales.a : 1.0f;
    const wgmma_share share = wgmma_share_of<Tile>(p, 0xffffffffu);
    wgmma_begin(p, share, ahead);
    due = ahead;
#pragma unroll 1
    for (int i = 0; i < Tile::RAW; ++i) {
        if (ahead.tile < p.tiles) {
            wgmma_load<Tile>(p, ahead, shared.coords, shared.raw + i * raw_bytes, thread);
            wgmma_advance<Tile>(p, share, ahead);
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
                            shared.windows + (uint32_t)window.index * shared.window_bytes, scale,
                            thread);
        if (due.deep == p.depth - 1 && due.part == Tile::PARTS - 1) {
            uf_fence_async_shared();
            uf_barrier_arrive(shared.barriers->window_full + window.index);
            window.next(p.windows);
        }
        wgmma_advance<Tile>(p, share, due);
        if (ahead.tile < p.tiles) {
            wgmma_load<Tile>(p, ahead, shared.coords, raw, thread);
            wgmma_advance<Tile>(p, share, ahead);
        }
        uf_copy_async_commit();
        slot = slot == Tile::RAW - 1 ? 0 : slot + 1;
    }
}

/* Beyond f16's exponents all tiles go to 3xTF32. */
template <typename Tile>
static __device__ __forceinline__ bool wgmma_exceeds_f16(const wgmma_conv &p) {
    if (wgmma_uniform(__ldcg(&p.scales->fits), 0xffffffffu) != 0) {
        return false;
    }
    const int64_t flags = p.tiles * Tile::WM;
    for (int64_t i = (int64_t)blockIdx.x * Tile::THREADS + threadIdx.x; i < flags;
         i += (int64_t)gridDim.x * Tile::THREADS) {
        p.flagged[i] = 1;
        p.unfinished[i] = 0;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        *p.range_flags = 1;
    }
    return true;
}

#endif

template <typename Tile>
static __global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS)
    conv_wgmma(const __grid_constant__ wgmma_conv p, const __grid_constant__ CUtensorMap map) {
#if UF_HAS_WGMMA
    UF_MMA_SHARED(memory);
    const int thread = (int)threadIdx.x;
    wgmma_shared shared;
    shared.barriers = (wgmma_barriers *)memory;
    shared.staging = (float *)(memory + UF_WGMMA_BARRIERS / 4);
    shared.coords = (uint32_t *)(shared.staging + Tile::WM * UF_WGMMA_ROWS * UF_WGMMA_PITCH);
    shared.window_bytes = (uint32_t)(p.window_rows * p.depth * p.planes) * 16;
    shared.weight_bytes = (uint32_t)p.planes * UF_WGMMA_PLANE;
    shared.raw = uf_shared_address(shared.coords + (p.window_rows + 31) / 32 * 32);
    shared.windows = Tile::PACKED
                         ? uf_shared_address(shared.coords)
                         : shared.raw + (uint32_t)(Tile::RAW * p.window_rows * UF_WGMMA_UNIT * 4);
    shared.weights = shared.windows + (uint32_t)p.windows * shared.window_bytes;
    if (thread == 0) {
        for (int i = 0; i < p.windows; ++i) {
            uf_barrier_init(shared.barriers->window_full + i,
                            Tile::PACKED ? 1 : Tile::WINDOW_PRODUCERS);
            uf_barrier_init(shared.barriers->window_empty + i, Tile::CONSUMERS / 32);
        }
        for (int i = 0; i < p.stages * Tile::WM; ++i) {
            uf_barrier_init(shared.barriers->weights_full + i, 1);
            uf_barrier_init(shared.barriers->weights_empty + i, 4);
        }
        uf_barrier_init_fence();
    }
    if (!Tile::PACKED) {
        for (int32_t row = thread; row < p.window_rows; row += Tile::THREADS) {
            shared.coords[row] = wgmma_row(p, row);
        }
    }
    if (!Tile::SPLIT_F16) {
        __syncthreads();
    }
    uf_wait_for_launcher();
    uf_launch_dependents();
    if (Tile::SPLIT_F16) {
        if (wgmma_exceeds_f16<Tile>(p)) {
            return;
        }
        if (thread == 0) {
            shared.barriers->scales = *p.scales;
        }
        __syncthreads();
    } else if (Tile::FP32 && p.flagged != nullptr &&
               wgmma_uniform(__ldcg(p.range_flags), 0xffffffffu) == 0) {
        return;
    }
    if (thread < Tile::CONSUMERS) {
        uf_registers_take<Tile::CONSUMER_REGISTERS>();
        wgmma_consumer<Tile>(p, shared);
    } else {
        uf_registers_release<Tile::PRODUCER_REGISTERS>();
        const int warp = (thread - Tile::CONSUMERS) >> 5;
        if (warp >= Tile::WM && !Tile::PACKED) {
            wgmma_produce_windows<Tile>(p, shared, thread - Tile::CONSUMERS - 32 * Tile::WM);
        } else if (warp == Tile::WM && (thread & 31) == 0) {
            wgmma_produce_packed_windows<Tile>(p, &map, shared);
        } else if (warp < Tile::WM && (thread & 31) == 0) {
            wgmma_produce_weights<Tile>(p, shared, warp);
        }
    }
#endif
}

#endif
