/* mainloop.cuh - the sums of a tile of conv_wgmma: MMAs as windows and weights arrive,
 * and what blocks that share a tile add to each other's. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_MAINLOOP_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_MAINLOOP_CUH

#include "kernels/cuda/conv/wgmma_implicit_gemm/epilogue.cuh"

#if UF_HAS_WGMMA

/* What a block keeps in shared memory, in this order. */
struct wgmma_shared {
    wgmma_barriers *barriers;
    float *staging; /* 16 channels x 32 pixels of each consuming warp, on the epilogue */
    uint32_t *coords;
    uint32_t raw, windows, weights;
    uint32_t window_bytes, weight_bytes; /* of a window, and of the weights of one tap and chunk */
};

/* The sums of one warpgroup's tile: windows and weights as they arrive, in the order in which the
 * producer warps send them. STEPS: of two planes, in a chunk, or, in FP32, in a part of one: sums
 * of few MMAs go to ordinary registers after each step. */
template <typename Tile, int STEPS>
static __device__ __forceinline__ void
wgmma_consume(const wgmma_conv &p, const wgmma_shared &shared, const wgmma_share &share,
              int32_t phase, bool idle, int warpgroup, int lane, uf_ring &window, uf_ring &stage,
              float (&total)[Tile::NT][UF_WGMMA_PIXELS / 2]) {
    const bool elected = lane == 0;
    const uint32_t plane = (uint32_t)p.window_rows;
    const uint64_t weights_at =
        uf_wgmma_operand(shared.weights + (uint32_t)(warpgroup * p.stages) * shared.weight_bytes,
                         UF_WGMMA_PLANE, 128);
    const uint64_t window_at = uf_wgmma_operand(shared.windows, plane * 16,
                                                (uint32_t)(Tile::WIDE ? 8 : p.run_pitch) *
                                                    16); /* from one run of 8 pixels to the next */
    const uint32_t below = (uint32_t)p.mma_pitch;
    uint64_t *const weights_full = shared.barriers->weights_full + warpgroup * p.stages;
    uint64_t *const weights_empty = shared.barriers->weights_empty + warpgroup * p.stages;
    constexpr int PARTS =
        Tile::FP32 && STEPS < UF_WGMMA_FP32_STEPS ? UF_WGMMA_FP32_STEPS / STEPS : 1;
    float part[Tile::FP32 ? UF_WGMMA_PIXELS / 2 : 1];
    uf_wgmma_clear(part); /* NT of 1: whatever it holds, the first MMA does not add to it */
    float rest[Tile::SEPARATE ? UF_WGMMA_PIXELS / 2 : 1]; /* sums with a small half, of all of K */
    if (Tile::SEPARATE) {
        uf_wgmma_clear(rest);
    }
    int add = 0;                           /* is there something in `total` */
    int last_stage = -1, last_window = -1; /* to be given back once their MMAs are done */
#pragma unroll 1
    for (int32_t chunk = share.begin; chunk < share.end; chunk += p.depth) {
#pragma unroll 1
        for (int klass = 0; klass < p.classes; ++klass) {
            const int pair = phase * p.classes + klass;
            const int first = p.first_tap[pair];
            const int taps = idle ? 0 : p.first_tap[pair + 1] - first;
            const int units = taps * p.depth * PARTS;
            uf_barrier_wait(shared.barriers->window_full + window.index, window.parity);
            const uint64_t b = window_at + (uint32_t)window.index * (shared.window_bytes >> 4);
            int tap = 0;
            uint32_t deep = 0;
#pragma unroll 1
            for (int unit = 0; unit < units;) {
                if (Tile::SEPARATE) {
                    /* Sums with a small half have registers of their own: a stage is given back as
                     * soon as its MMAs are done. */
                    const int batch = units - unit < p.promote ? units - unit : p.promote;
                    int before = -1;
#pragma unroll 1
                    for (int i = 0; i < batch; ++i) {
                        uf_barrier_wait(weights_full + stage.index, stage.parity);
                        uf_wgmma_fence();
                        const uint64_t a_at =
                            weights_at + (uint32_t)stage.index * (shared.weight_bytes >> 4);
                        const uint64_t b_at = b + deep + p.shift[first + tap];
                        wgmma_patch<Tile, STEPS, Tile::SEPARATE>(
                            (float(&)[UF_WGMMA_PIXELS / 2]) rest, a_at, b_at, below, plane, 1);
                        wgmma_patch<Tile, STEPS, false>((float(&)[UF_WGMMA_PIXELS / 2]) part, a_at,
                                                        b_at, below, plane, i);
                        uf_wgmma_commit();
                        uf_wgmma_wait<1>();
                        if (elected && before >= 0) {
                            uf_barrier_arrive(weights_empty + before);
                        }
                        before = stage.index;
                        stage.next(p.stages);
                        if (++tap == taps) {
                            tap = 0;
                            deep += (uint32_t)p.planes * plane;
                        }
                    }
                    uf_wgmma_wait<0>();
                    if (elected) {
                        uf_barrier_arrive(weights_empty + before);
                    }
                    uf_wgmma_pin(part);
                    uf_wgmma_pin(rest);
#pragma unroll
                    for (int i = 0; i < UF_WGMMA_PIXELS / 2; ++i) {
                        total[0][i] += part[Tile::FP32 ? i : 0];
                    }
                    uf_wgmma_pin(total[0]);
                    unit += batch;
                } else if (Tile::FP32) {
                    /* A MMA's sums are truncated: the small ones come first, while there is
                     * nothing big that they would be cut off at. */
                    const int most = PARTS == 1 ? p.promote : 1;
                    const int batch = units - unit < most ? units - unit : most;
                    const uint32_t before = /* planes */
                        PARTS == 1 ? 0 : (uint32_t)(unit % PARTS * STEPS * 2);
                    const bool last = PARTS == 1 || unit % PARTS == PARTS - 1;
                    const uf_ring begin = stage;
                    const int tap_begin = tap;
                    const uint32_t deep_begin = deep;
#pragma unroll
                    for (int mma = 0; mma < Tile::NT; ++mma) {
                        if (Tile::NT > 1) {
                            uf_wgmma_clear(part); /* fewer registers */
                        }
#pragma unroll
                        for (int small = 1; small >= 0; --small) {
                            stage = begin;
                            tap = tap_begin;
                            deep = deep_begin;
#pragma unroll 1
                            for (int i = 0; i < batch; ++i) {
                                if (small == 1 && mma == 0) {
                                    uf_barrier_wait(weights_full + stage.index, stage.parity);
                                }
                                uf_wgmma_fence();
                                const uint64_t a_at =
                                    weights_at +
                                    (uint32_t)stage.index * (shared.weight_bytes >> 4) +
                                    before * UF_WGMMA_ROWS;
                                const uint64_t b_at = b + deep + p.shift[first + tap] +
                                                      mma * p.mma_rows + before * plane;
                                if (small == 1) {
                                    wgmma_patch<Tile, STEPS, Tile::FP32>(
                                        (float(&)[UF_WGMMA_PIXELS / 2]) part, a_at, b_at, below,
                                        plane, Tile::NT == 1 ? i : 1);
                                } else {
                                    wgmma_patch<Tile, STEPS, false>(
                                        (float(&)[UF_WGMMA_PIXELS / 2]) part, a_at, b_at, below,
                                        plane, Tile::SPLIT_F16 ? i : 1);
                                }
                                if (last) {
                                    stage.next(p.stages);
                                    if (++tap == taps) {
                                        tap = 0;
                                        deep += (uint32_t)p.planes * plane;
                                    }
                                }
                            }
                            if (Tile::SPLIT_F16 && small == 1) {
                                /* In units of their own, so that the big ones begin anew. The
                                 * fence is for the loop without a turn: ptxas adds it otherwise. */
                                uf_wgmma_fence();
                                uf_wgmma_commit();
                                uf_wgmma_wait<0>();
                                uf_wgmma_pin(part);
#pragma unroll
                                for (int i = 0; i < UF_WGMMA_PIXELS / 2; ++i) {
                                    total[mma][i] =
                                        fmaf(part[Tile::FP32 ? i : 0],
                                             1.0f / (1 << UF_SPLIT_F16_SMALL), total[mma][i]);
                                }
                                uf_wgmma_pin(total[mma]);
                            }
                        }
                        /* As above; a loop of one turn before another MMA needs none. */
                        if (PARTS == 1 || mma == Tile::NT - 1) {
                            uf_wgmma_fence();
                        }
                        uf_wgmma_commit();
                        uf_wgmma_wait<0>();
                        if (Tile::NT == 1 && last && lane < batch) { /* a lane for each stage */
                            const int done = begin.index + lane;
                            uf_barrier_arrive(weights_empty +
                                              (done < p.stages ? done : done - p.stages));
                        }
                        uf_wgmma_pin(part);
#pragma unroll
                        for (int i = 0; i < UF_WGMMA_PIXELS / 2; ++i) {
                            total[mma][i] += part[Tile::FP32 ? i : 0];
                        }
                        uf_wgmma_pin(total[mma]);
                    }
                    if (Tile::NT > 1 && elected && last) { /* one by one: fewer registers */
                        uf_ring done = begin;
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
                    for (int mma = 0; mma < Tile::NT; ++mma) {
                        wgmma_patch<Tile, STEPS, false>(
                            total[mma],
                            weights_at + (uint32_t)stage.index * (shared.weight_bytes >> 4),
                            b + deep + p.shift[first + tap] + mma * p.mma_rows, below, plane, add);
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
                        deep += (uint32_t)p.planes * plane;
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
                /* The next window comes into this buffer: its MMAs cannot be waited for from
                 * there. */
                uf_wgmma_wait<0>();
                if (elected) {
                    uf_barrier_arrive(shared.barriers->window_empty + window.index);
                }
            }
            window.next(p.windows);
        }
    }
    if (Tile::SEPARATE) {
#pragma unroll
        for (int i = 0; i < UF_WGMMA_PIXELS / 2; ++i) {
            total[0][i] =
                fmaf(rest[Tile::SEPARATE ? i : 0], 1.0f / (1 << UF_SPLIT_F16_SMALL), total[0][i]);
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

/* Adds what another block left of a thread's sums: fours of them, from the i-th on. */
template <int NT, int MMA, int COUNT>
static __device__ __forceinline__ void wgmma_add_fours(float (&total)[NT][MMA], int i,
                                                       const float4 (&got)[COUNT]) {
#pragma unroll
    for (int j = 0; j < COUNT; ++j) {
        float *const to = total[(i + j) / (MMA / 4)] + (i + j) % (MMA / 4) * 4;
        to[0] += got[j].x;
        to[1] += got[j].y;
        to[2] += got[j].z;
        to[3] += got[j].w;
    }
}

/* The sums of a tile's splits, in the order of the cluster's blocks: this block's first, then those
 * after it. One block adds those of a warpgroup (paired warpgroups write together: the first block
 * adds both), true there. Such a block has one tile, so that its windows and weights have been used
 * up, and sums may lie in their place. */
template <typename Tile>
static __device__ __forceinline__ bool
wgmma_gather(const wgmma_conv &p, const wgmma_shared &shared, const wgmma_share &share,
             int warpgroup, int thread, float (&total)[Tile::NT][UF_WGMMA_PIXELS / 2]) {
    constexpr int QUADS = UF_WGMMA_PIXELS / 8; /* of a thread's sums of a MMA */
    constexpr int AT_ONCE = 8;
    const int32_t adds = Tile::WM == 2 && p.paired ? 0 : warpgroup;
    const uint32_t sums =
        shared.windows + (uint32_t)(warpgroup * Tile::NT * UF_WGMMA_SUMS + thread * 16);
    uf_named_barrier(7, Tile::CONSUMERS); /* all MMAs of this block are done */
    if (share.split != adds) {
#pragma unroll
        for (int i = 0; i < Tile::NT * QUADS; ++i) {
            const float *const from = total[i / QUADS] + i % QUADS * 4;
            asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};\n" ::"r"(sums + i * 2048),
                         "f"(from[0]), "f"(from[1]), "f"(from[2]), "f"(from[3])
                         : "memory");
        }
    }
    uf_cluster_arrive();
    uf_cluster_wait();
    if (share.split == adds) {
#pragma unroll 1
        for (int32_t other = 1; other < p.splits; ++other) {
            const int32_t rank = adds + other < p.splits ? adds + other : adds + other - p.splits;
            const uint32_t from = uf_cluster_address(sums, (uint32_t)rank);
#pragma unroll
            for (int i = 0; i < Tile::NT * QUADS; i += AT_ONCE) {
                float4 got[AT_ONCE];
#pragma unroll
                for (int j = 0; j < AT_ONCE; ++j) {
                    got[j] = uf_cluster_load(from + (i + j) * 2048);
                }
                wgmma_add_fours(total, i, got);
            }
        }
    }
    /* Until then the others' shared memory is read. */
    uf_cluster_arrive();
    uf_cluster_wait();
    return share.split == adds;
}

/* Stream-K CTAs meet. Who has not a tile's first chunks leaves sums in the workspace: only its
 * first tile can be such a one. Who has them adds those of the stream-K CTAs after it, in their
 * order: true there.
 */
template <typename Tile>
static __device__ __forceinline__ bool wgmma_meet(const wgmma_conv &p, const wgmma_share &share,
                                                  int warpgroup, int thread,
                                                  float (&total)[Tile::NT][UF_WGMMA_PIXELS / 2]) {
    constexpr int QUADS = UF_WGMMA_PIXELS / 8; /* of a thread's sums of a MMA */
    constexpr int AT_ONCE = 8;
    constexpr int64_t SUMS = Tile::NT * UF_WGMMA_SUMS / 4;
    if (share.begin == 0 && share.end == p.chunks) {
        return true;
    }
    int32_t stream_k_peer = wgmma_stream_k_peer(p);
    if (share.begin > 0) {
        float *const to = p.parts + (stream_k_peer * Tile::WM + warpgroup) * SUMS + thread * 4;
#pragma unroll
        for (int i = 0; i < Tile::NT * QUADS; ++i) {
            const float *const from = total[i / QUADS] + i % QUADS * 4;
            asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};\n" ::"l"(to + i * 512),
                         "f"(from[0]), "f"(from[1]), "f"(from[2]), "f"(from[3])
                         : "memory");
        }
        uf_named_barrier(7 + warpgroup, 128);
        if (thread == 0) { /* of what the others wrote too: they met */
            asm volatile("st.release.gpu.global.s32 [%0], 1;\n" ::"l"(
                             p.part_done + stream_k_peer * Tile::WM + warpgroup)
                         : "memory");
        }
        return false;
    }
    bool more = true;
#pragma unroll 1
    while (more) {
        ++stream_k_peer;
        more = uf_wgmma_cut_of(&p, stream_k_peer + 1).tile == share.tile;
        if (thread == 0) {
            int32_t done = 0;
            while (done == 0) {
                asm volatile("ld.acquire.gpu.global.s32 %0, [%1];\n"
                             : "=r"(done)
                             : "l"(p.part_done + stream_k_peer * Tile::WM + warpgroup)
                             : "memory");
            }
        }
        uf_named_barrier(7 + warpgroup, 128);
        const float *const from =
            p.parts + (stream_k_peer * Tile::WM + warpgroup) * SUMS + thread * 4;
#pragma unroll
        for (int i = 0; i < Tile::NT * QUADS; i += AT_ONCE) {
            float4 got[AT_ONCE];
#pragma unroll
            for (int j = 0; j < AT_ONCE; ++j) {
                got[j] = __ldcg((const float4 *)(from + (i + j) * 512));
            }
            wgmma_add_fours(total, i, got);
        }
    }
    return true;
}

#endif

#endif
