/* mainloop.cuh - the main loop of conv_wgmma and the reduction of tiles that several CTAs share. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_MAINLOOP_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_MAINLOOP_CUH

#include "kernels/cuda/conv/wgmma_implicit_gemm/epilogue.cuh"

#if UF_HAS_WGMMA

/* A CTA's shared memory, in this order. */
struct wgmma_shared {
    wgmma_barriers *barriers;
    float *staging; /* epilogue: 16 channels x 32 pixels of each consumer warp */
    uint32_t *coords;
    uint32_t raw, windows, weights;
    uint32_t window_bytes,
        weight_bytes; /* bytes of a window; of the weights of one tap and chunk */
};

/* A warpgroup's operands: descriptors of its first weight stage and of the first window, and the
 * barriers of its weight stages. */
struct wgmma_operands {
    uint64_t weights, windows;
    uint64_t *full, *empty;
    uint32_t plane, below; /* window rows of a plane; from a row of pixels to the one below it */
    uint32_t weight_bytes; /* bytes of a weight stage */
};

template <typename Tile>
static __device__ __forceinline__ wgmma_operands wgmma_operands_of(const wgmma_conv &p,
                                                                   const wgmma_shared &shared,
                                                                   int warpgroup) {
    wgmma_operands of;
    of.plane = (uint32_t)p.window_rows;
    of.below = (uint32_t)p.mma_pitch;
    of.weight_bytes = shared.weight_bytes;
    of.weights =
        uf_wgmma_operand(shared.weights + (uint32_t)(warpgroup * p.stages) * shared.weight_bytes,
                         UF_WGMMA_PLANE, 128);
    of.windows = uf_wgmma_operand(shared.windows, of.plane * 16,
                                  (uint32_t)(Tile::WIDE ? 8 : p.run_pitch) *
                                      16); /* from one run of 8 pixels to the next */
    of.full = shared.barriers->weights_full + warpgroup * p.stages;
    of.empty = shared.barriers->weights_empty + warpgroup * p.stages;
    return of;
}

/* The taps that a warpgroup multiplies by one window. */
struct wgmma_window_taps {
    uint64_t b; /* descriptor of the window */
    int first, count;
};

/* The next tap of a window, and the units of 16 bytes to its chunk. */
struct wgmma_cursor {
    int tap;
    uint32_t deep;
};

/* 3xF16 with accumulators of their own, `rest`, for MMAs with a small part: a stage is released as
 * soon as its MMAs are done. Promotes `batch` taps. */
template <typename Tile, int STEPS>
static __device__ __forceinline__ void
wgmma_batch_separate(const wgmma_conv &p, const wgmma_operands &of, const wgmma_window_taps &taps,
                     int batch, int lane, uf_ring &stage, wgmma_cursor &cursor,
                     float (&part)[UF_WGMMA_PIXELS / 2], float (&rest)[UF_WGMMA_PIXELS / 2],
                     float (&total)[UF_WGMMA_PIXELS / 2]) {
    int tap = cursor.tap;
    uint32_t deep = cursor.deep;
    int before = -1;
#pragma unroll 1
    for (int i = 0; i < batch; ++i) {
        uf_barrier_wait(of.full + stage.index, stage.parity);
        uf_wgmma_fence();
        const uint64_t a_at = of.weights + (uint32_t)stage.index * (of.weight_bytes >> 4);
        const uint64_t b_at = taps.b + deep + p.shift[taps.first + tap];
        wgmma_patch<Tile, STEPS, true>(rest, a_at, b_at, of.below, of.plane, 1);
        wgmma_patch<Tile, STEPS, false>(part, a_at, b_at, of.below, of.plane, i);
        uf_wgmma_commit();
        uf_wgmma_wait<1>();
        if (lane == 0 && before >= 0) {
            uf_barrier_arrive(of.empty + before);
        }
        before = stage.index;
        stage.next(p.stages);
        if (++tap == taps.count) {
            tap = 0;
            deep += (uint32_t)p.planes * of.plane;
        }
    }
    cursor = {tap, deep};
    uf_wgmma_wait<0>();
    if (lane == 0) {
        uf_barrier_arrive(of.empty + before);
    }
    uf_wgmma_pin(part);
    uf_wgmma_pin(rest);
#pragma unroll
    for (int i = 0; i < UF_WGMMA_PIXELS / 2; ++i) {
        total[i] += part[i];
    }
    uf_wgmma_pin(total);
}

/* FP32: two passes over `batch` taps, then promotion. The tensor core truncates at the larger
 * number: MMAs with a small part come first, while the accumulator is small. PARTS of a chunk are
 * promoted one by one; `last`: this one ends its taps' stages. */
template <typename Tile, int STEPS, int PARTS>
static __device__ __forceinline__ void
wgmma_batch_fp32(const wgmma_conv &p, const wgmma_operands &of, const wgmma_window_taps &taps,
                 int batch, uint32_t first_plane, bool last, int lane, uf_ring &stage,
                 wgmma_cursor &cursor, float (&part)[UF_WGMMA_PIXELS / 2],
                 float (&total)[Tile::NT][UF_WGMMA_PIXELS / 2]) {
    const uf_ring begin = stage;
    int tap = cursor.tap;
    uint32_t deep = cursor.deep;
#pragma unroll
    for (int mma = 0; mma < Tile::NT; ++mma) {
        if (Tile::NT > 1) {
            uf_wgmma_clear(part); /* fewer registers */
        }
#pragma unroll
        for (int small = 1; small >= 0; --small) {
            stage = begin;
            tap = cursor.tap;
            deep = cursor.deep;
#pragma unroll 1
            for (int i = 0; i < batch; ++i) {
                if (small == 1 && mma == 0) {
                    uf_barrier_wait(of.full + stage.index, stage.parity);
                }
                uf_wgmma_fence();
                const uint64_t a_at = of.weights + (uint32_t)stage.index * (of.weight_bytes >> 4) +
                                      first_plane * UF_WGMMA_ROWS;
                const uint64_t b_at = taps.b + deep + p.shift[taps.first + tap] + mma * p.mma_rows +
                                      first_plane * of.plane;
                if (small == 1) {
                    wgmma_patch<Tile, STEPS, true>(part, a_at, b_at, of.below, of.plane,
                                                   Tile::NT == 1 ? i : 1);
                } else {
                    wgmma_patch<Tile, STEPS, false>(part, a_at, b_at, of.below, of.plane,
                                                    Tile::SPLIT_F16 ? i : 1);
                }
                if (last) {
                    stage.next(p.stages);
                    if (++tap == taps.count) {
                        tap = 0;
                        deep += (uint32_t)p.planes * of.plane;
                    }
                }
            }
            if (Tile::SPLIT_F16 && small == 1) {
                /* Scaled apart from the large parts, whose accumulation then begins at zero. The
                 * fence serves a loop without a turn: ptxas would add it elsewhere. */
                uf_wgmma_fence();
                uf_wgmma_commit();
                uf_wgmma_wait<0>();
                uf_wgmma_pin(part);
#pragma unroll
                for (int i = 0; i < UF_WGMMA_PIXELS / 2; ++i) {
                    total[mma][i] = fmaf(part[i], 1.0f / (1 << UF_SPLIT_F16_SMALL), total[mma][i]);
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
        if (Tile::NT == 1 && last && batch > lane) { /* one lane per stage */
            const int done = begin.index + lane;
            uf_barrier_arrive(of.empty + (done < p.stages ? done : done - p.stages));
        }
        uf_wgmma_pin(part);
#pragma unroll
        for (int i = 0; i < UF_WGMMA_PIXELS / 2; ++i) {
            total[mma][i] += part[i];
        }
        uf_wgmma_pin(total[mma]);
    }
    cursor = {tap, deep};
    if (Tile::NT > 1 && lane == 0 && last) { /* one by one: fewer registers */
        uf_ring done = begin;
        for (int i = 0; i < batch; ++i) {
            uf_barrier_arrive(of.empty + done.index);
            done.next(p.stages);
        }
    }
}

/* Releases a weight stage and a window whose MMAs are done; -1: none. */
static __device__ __forceinline__ void
wgmma_release(const wgmma_operands &of, uint64_t *window_empty, int lane, int stage, int window) {
    if (lane == 0 && stage >= 0) {
        uf_barrier_arrive(of.empty + stage);
    }
    if (lane == 0 && window >= 0) {
        uf_barrier_arrive(window_empty + window);
    }
}

/* The sums of one warpgroup's tile, in the order in which the producers send windows and weights.
 * STEPS: steps of two planes in a chunk, or, in FP32, in the part of a chunk between promotions. */
template <typename Tile, int STEPS>
static __device__ __forceinline__ void
wgmma_consume(const wgmma_conv &p, const wgmma_shared &shared, const wgmma_share &share,
              int32_t phase, bool idle, int warpgroup, int lane, uf_ring &window, uf_ring &stage,
              float (&total)[Tile::NT][UF_WGMMA_PIXELS / 2]) {
    constexpr int PARTS =
        Tile::FP32 && STEPS < UF_WGMMA_FP32_STEPS ? UF_WGMMA_FP32_STEPS / STEPS : 1;
    const wgmma_operands of = wgmma_operands_of<Tile>(p, shared, warpgroup);
    uint64_t *const window_empty = shared.barriers->window_empty;
    float part[Tile::FP32 ? UF_WGMMA_PIXELS / 2 : 1];
    uf_wgmma_clear(part);                                 /* NT of 1: the first MMA overwrites it */
    float rest[Tile::SEPARATE ? UF_WGMMA_PIXELS / 2 : 1]; /* MMAs with a small part, of all of K */
    if (Tile::SEPARATE) {
        uf_wgmma_clear(rest);
    }
    int add = 0;                           /* the first MMA overwrites `total` */
    int last_stage = -1, last_window = -1; /* released once their MMAs are done */
#pragma unroll 1
    for (int32_t chunk = share.begin; chunk < share.end; chunk += p.depth) {
#pragma unroll 1
        for (int klass = 0; klass < p.classes; ++klass) {
            const int pair = phase * p.classes + klass;
            wgmma_window_taps taps;
            taps.first = p.first_tap[pair];
            taps.count = idle ? 0 : p.first_tap[pair + 1] - taps.first;
            const int units = taps.count * p.depth * PARTS;
            uf_barrier_wait(shared.barriers->window_full + window.index, window.parity);
            taps.b = of.windows + (uint32_t)window.index * (shared.window_bytes >> 4);
            wgmma_cursor cursor = {0, 0};
#pragma unroll 1
            for (int unit = 0; unit < units;) {
                if constexpr (Tile::FP32) {
                    const int most = PARTS == 1 ? p.promote : 1;
                    const int batch = units - unit < most ? units - unit : most;
                    if constexpr (Tile::SEPARATE) {
                        wgmma_batch_separate<Tile, STEPS>(p, of, taps, batch, lane, stage, cursor,
                                                          part, rest, total[0]);
                    } else {
                        const uint32_t first_plane =
                            PARTS == 1 ? 0 : (uint32_t)(unit % PARTS * STEPS * 2);
                        const bool last = PARTS == 1 || unit % PARTS == PARTS - 1;
                        wgmma_batch_fp32<Tile, STEPS, PARTS>(p, of, taps, batch, first_plane, last,
                                                             lane, stage, cursor, part, total);
                    }
                    unit += batch;
                } else {
                    uf_barrier_wait(of.full + stage.index, stage.parity);
                    uf_wgmma_fence();
#pragma unroll
                    for (int mma = 0; mma < Tile::NT; ++mma) {
                        wgmma_patch<Tile, STEPS, false>(
                            total[mma], of.weights + (uint32_t)stage.index * (of.weight_bytes >> 4),
                            taps.b + cursor.deep + p.shift[taps.first + cursor.tap] +
                                mma * p.mma_rows,
                            of.below, of.plane, add);
                    }
                    add = 1;
                    uf_wgmma_commit();
                    uf_wgmma_wait<1>();
                    wgmma_release(of, window_empty, lane, last_stage, last_window);
                    last_stage = stage.index;
                    last_window = -1;
                    stage.next(p.stages);
                    if (++cursor.tap == taps.count) {
                        cursor.tap = 0;
                        cursor.deep += (uint32_t)p.planes * of.plane;
                    }
                    ++unit;
                }
            }
            if (Tile::FP32 || units == 0) {
                if (lane == 0) {
                    uf_barrier_arrive(window_empty + window.index);
                }
            } else if (p.windows > 1) {
                last_window = window.index;
            } else {
                /* With one buffer the producer waits for this release: it cannot be left to the
                 * next window. */
                uf_wgmma_wait<0>();
                if (lane == 0) {
                    uf_barrier_arrive(window_empty + window.index);
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
        wgmma_release(of, window_empty, lane, last_stage, last_window);
    }
}

/* Adds another CTA's partial sums of a thread, four at a time from the i-th four on. */
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

/* Cluster split-K: adds the partial sums of a tile in the order of the cluster's CTAs, its own
 * first. One CTA adds those of a warpgroup (the first CTA both, if paired) and returns true. A CTA
 * of a cluster has one tile, so that sums may overwrite its windows and weights. */
template <typename Tile>
static __device__ __forceinline__ bool
wgmma_cluster_reduce(const wgmma_conv &p, const wgmma_shared &shared, const wgmma_share &share,
                     int warpgroup, int thread, float (&total)[Tile::NT][UF_WGMMA_PIXELS / 2]) {
    constexpr int QUADS = UF_WGMMA_PIXELS / 8; /* fours of a thread's sums of an MMA */
    constexpr int AT_ONCE = 8;
    const int32_t adds = Tile::WM == 2 && p.paired ? 0 : warpgroup;
    const uint32_t sums =
        shared.windows + (uint32_t)(warpgroup * Tile::NT * UF_WGMMA_SUMS + thread * 16);
    uf_named_barrier(7, Tile::CONSUMERS); /* all MMAs of this CTA are done */
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
    /* No CTA ends before the others have read its shared memory. */
    uf_cluster_arrive();
    uf_cluster_wait();
    return share.split == adds;
}

/* Stream-K: the CTA that owns a tile's first chunks adds the partial sums of the other CTAs, in
 * chunk order, and returns true. The others write theirs to the workspace; only a CTA's first tile
 * can be such. */
template <typename Tile>
static __device__ __forceinline__ bool
wgmma_stream_k_reduce(const wgmma_conv &p, const wgmma_share &share, int warpgroup, int thread,
                      float (&total)[Tile::NT][UF_WGMMA_PIXELS / 2]) {
    constexpr int QUADS = UF_WGMMA_PIXELS / 8; /* fours of a thread's sums of an MMA */
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
        if (thread == 0) { /* the barrier above made the others' stores precede this */
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
