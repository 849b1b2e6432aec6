/* epilogue_cluster.cuh - cluster split-K of the patch GEMM: CTAs add the sums of their stages and
 * store. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_EPILOGUE_CLUSTER_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_EPILOGUE_CLUSTER_CUH

#include "kernels/cuda/conv/wgmma_patch_gemm/epilogue.cuh"

#if UF_HAS_WGMMA

/* Accumulators of eight columns, or of sixteen where units are four columns: whole units. */
template <typename Tile>
struct patch_part {
    static constexpr int EIGHTS = Tile::SPREAD == 4 ? 2 : 1;
    static constexpr int UNITS = Tile::SPREAD == 1 ? 2 : 1; /* units of a lane */
    float of[Tile::MMAS][4 * EIGHTS];
};

/* The address of four accumulators of MMA `mma` of a thread's columns `eight`, over the stages. */
template <typename Tile>
static __device__ __forceinline__ uint32_t patch_quad_at(const patch_shared &shared, int thread,
                                                         int eight, int mma) {
    return shared.stages + (uint32_t)(((eight * Tile::MMAS + mma) * Tile::CONSUMERS + thread) * 16);
}

/* Stores all accumulators of this CTA's stages for the cluster. */
template <typename Tile>
static __device__ __forceinline__ void patch_share_sums(const patch_shared &shared, int thread,
                                                        const patch_sums<Tile> &sums) {
    uf_named_barrier(7, Tile::CONSUMERS); /* all MMAs of this CTA are done */
#pragma unroll
    for (int eight = 0; eight < Tile::COLUMNS / 8; ++eight) {
#pragma unroll
        for (int mma = 0; mma < Tile::MMAS; ++mma) {
            const float *const from = sums.of[mma] + 4 * eight;
            asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};\n" ::"r"(
                             patch_quad_at<Tile>(shared, thread, eight, mma)),
                         "f"(from[0]), "f"(from[1]), "f"(from[2]), "f"(from[3])
                         : "memory");
        }
    }
    uf_cluster_arrive();
    uf_cluster_wait();
}

/* Adds the CTAs' sums of columns 8 * `first` to 8 * `end` in the order of the CTAs, into this
 * CTA's. True if those of pixels inside the tensor are finite. */
template <typename Tile>
static __device__ __forceinline__ bool patch_add_shares(const patch_conv &p, const patch_coord &at,
                                                        const patch_shared &shared, int warp,
                                                        int lane, int first, int end) {
    const int thread = warp * 32 + lane;
    float probe = 0.0f; /* NaN if a sum is infinite or NaN */
    bool there[Tile::MMAS][2];
#pragma unroll
    for (int i = 0; i < 2 * Tile::MMAS; ++i) {
        there[i >> 1][i & 1] =
            patch_pixel_of(p, at, warp * 32 + patch_index<Tile>(lane, i >> 1, i & 1)).there;
    }
#pragma unroll 1
    for (int eight = first; eight < end; ++eight) {
        float4 sum[Tile::MMAS] = {};
#pragma unroll 1
        for (int32_t rank = 0; rank < p.plan.splits; rank += 2) {
            float4 got[2][Tile::MMAS];
#pragma unroll
            for (int i = 0; i < 2 * Tile::MMAS; ++i) {
                got[i / Tile::MMAS][i % Tile::MMAS] = uf_cluster_load(
                    uf_cluster_address(patch_quad_at<Tile>(shared, thread, eight, i % Tile::MMAS),
                                       (uint32_t)(rank + i / Tile::MMAS)));
            }
#pragma unroll
            for (int mma = 0; mma < Tile::MMAS; ++mma) {
                float4 &to = sum[mma];
                const float4 &a = got[0][mma], &b = got[1][mma];
                to.x = rank == 0 ? a.x + b.x : to.x + a.x + b.x;
                to.y = rank == 0 ? a.y + b.y : to.y + a.y + b.y;
                to.z = rank == 0 ? a.z + b.z : to.z + a.z + b.z;
                to.w = rank == 0 ? a.w + b.w : to.w + a.w + b.w;
            }
        }
#pragma unroll
        for (int mma = 0; mma < Tile::MMAS; ++mma) {
            const float4 &is = sum[mma];
            asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};\n" ::"r"(
                             patch_quad_at<Tile>(shared, thread, eight, mma)),
                         "f"(is.x), "f"(is.y), "f"(is.z), "f"(is.w)
                         : "memory");
            if (there[mma][0]) {
                probe = fmaf(is.y, 0.0f, fmaf(is.x, 0.0f, probe));
            }
            if (there[mma][1]) {
                probe = fmaf(is.w, 0.0f, fmaf(is.z, 0.0f, probe));
            }
        }
    }
    return probe == 0.0f;
}

template <typename Tile>
static __device__ __forceinline__ void patch_fetch_quad(const patch_shared &shared, int thread,
                                                        int eight, int mma, float *to) {
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];\n"
                 : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
                 : "r"(patch_quad_at<Tile>(shared, thread, eight, mma))
                 : "memory");
}

template <typename Tile, int VECTORS>
static __device__ __forceinline__ void
patch_write_parts(const patch_conv &p, const patch_coord &at, const patch_shared &shared, int warp,
                  int32_t first_unit, int lane, int first, int end) {
    const patch_targets<Tile, VECTORS> targets(p, at, warp, lane);
#pragma unroll 1
    for (int eight = first; eight < end; eight += patch_part<Tile>::EIGHTS) {
        constexpr int UNITS = patch_part<Tile>::UNITS;
        patch_part<Tile> part;
#pragma unroll
        for (int i = 0; i < patch_part<Tile>::EIGHTS * Tile::MMAS; ++i) {
            patch_fetch_quad<Tile>(shared, warp * 32 + lane, eight + i / Tile::MMAS, i % Tile::MMAS,
                                   part.of[i % Tile::MMAS] + i / Tile::MMAS * 4);
        }
#pragma unroll
        for (int i = 0; i < UNITS; ++i) {
            const int index = eight * UNITS / patch_part<Tile>::EIGHTS + i;
            targets.write(p, at.group, first_unit + patch_unit<Tile>(lane, index), i, part);
        }
    }
}

template <typename Tile>
static __device__ __forceinline__ void
patch_write_parts_singly(const patch_conv &p, const patch_coord &at, const patch_shared &shared,
                         int warp, int32_t first_unit, int lane, float *staging, int first,
                         int end) {
    const patch_singly<Tile> singly(p, at, warp, lane);
#pragma unroll 1
    for (int eight = first; eight < end; ++eight) {
        float sum[Tile::MMAS][4];
#pragma unroll
        for (int mma = 0; mma < Tile::MMAS; ++mma) {
            patch_fetch_quad<Tile>(shared, warp * 32 + lane, eight, mma, sum[mma]);
        }
        patch_stage<Tile>(sum[0], sum[1], lane, staging);
        singly.write(p, at.group, first_unit, lane, eight, staging);
    }
}

#endif

#endif
