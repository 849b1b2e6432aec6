/* conv_wgmma_apart_gather.cuh - the way out of conv_wgmma_apart.cuh where a cluster's blocks share
 * a tile, each some of its stages. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_APART_GATHER_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_APART_GATHER_CUH

#include "kernels/cuda/conv/wgmma_patch_gemm/conv_wgmma_apart_out.cuh"

#if UF_HAS_WGMMA

/* Sums of eight columns, or of sixteen where these are four over each pixel: all of some units.
 */
template <typename Tile>
struct apart_part {
    static constexpr int EIGHTS = Tile::SPREAD == 4 ? 2 : 1;
    static constexpr int UNITS = Tile::SPREAD == 1 ? 2 : 1; /* of a lane */
    float of[Tile::PRODUCTS][4 * EIGHTS];
};

/* Four sums of product `product` of a thread's columns `eight`: in shared memory, in the place of
 * the stages. */
template <typename Tile>
static __device__ __forceinline__ uint32_t apart_quad_at(const apart_shared &shared, int thread,
                                                         int eight, int product) {
    return shared.stages +
           (uint32_t)(((eight * Tile::PRODUCTS + product) * Tile::CONSUMERS + thread) * 16);
}

/* All sums of this block's share of the stages, where the cluster's blocks find them. */
template <typename Tile>
static __device__ __forceinline__ void apart_share_sums(const apart_shared &shared, int thread,
                                                        const apart_sums<Tile> &sums) {
    uf_named_barrier(7, Tile::CONSUMERS); /* all products of this block are done */
#pragma unroll
    for (int eight = 0; eight < Tile::COLUMNS / 8; ++eight) {
#pragma unroll
        for (int product = 0; product < Tile::PRODUCTS; ++product) {
            const float *const from = sums.of[product] + 4 * eight;
            asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};\n" ::"r"(
                             apart_quad_at<Tile>(shared, thread, eight, product)),
                         "f"(from[0]), "f"(from[1]), "f"(from[2]), "f"(from[3])
                         : "memory");
        }
    }
    uf_cluster_arrive();
    uf_cluster_wait();
}

/* Adds the blocks' sums of columns 8 * `first` to 8 * `end`, in the order of the blocks, into this
 * block's; are those of pixels that are there finite? */
template <typename Tile>
static __device__ __forceinline__ bool apart_add_shares(const apart_conv &p, const apart_place &at,
                                                        const apart_shared &shared, int warp,
                                                        int lane, int first, int end) {
    const int thread = warp * 32 + lane;
    float probe = 0.0f; /* NaN if a sum is infinite or NaN */
    bool there[Tile::PRODUCTS][2];
#pragma unroll
    for (int i = 0; i < 2 * Tile::PRODUCTS; ++i) {
        there[i >> 1][i & 1] =
            apart_pixel_of(p, at, warp * 32 + apart_index<Tile>(lane, i >> 1, i & 1)).there;
    }
#pragma unroll 1
    for (int eight = first; eight < end; ++eight) {
        float4 sum[Tile::PRODUCTS] = {};
#pragma unroll 1
        for (int32_t rank = 0; rank < p.plan.splits; rank += 2) {
            float4 got[2][Tile::PRODUCTS];
#pragma unroll
            for (int i = 0; i < 2 * Tile::PRODUCTS; ++i) {
                got[i / Tile::PRODUCTS][i % Tile::PRODUCTS] = uf_cluster_load(uf_cluster_address(
                    apart_quad_at<Tile>(shared, thread, eight, i % Tile::PRODUCTS),
                    (uint32_t)(rank + i / Tile::PRODUCTS)));
            }
#pragma unroll
            for (int product = 0; product < Tile::PRODUCTS; ++product) {
                float4 &to = sum[product];
                const float4 &a = got[0][product], &b = got[1][product];
                to.x = rank == 0 ? a.x + b.x : to.x + a.x + b.x;
                to.y = rank == 0 ? a.y + b.y : to.y + a.y + b.y;
                to.z = rank == 0 ? a.z + b.z : to.z + a.z + b.z;
                to.w = rank == 0 ? a.w + b.w : to.w + a.w + b.w;
            }
        }
#pragma unroll
        for (int product = 0; product < Tile::PRODUCTS; ++product) {
            const float4 &is = sum[product];
            asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};\n" ::"r"(
                             apart_quad_at<Tile>(shared, thread, eight, product)),
                         "f"(is.x), "f"(is.y), "f"(is.z), "f"(is.w)
                         : "memory");
            if (there[product][0]) {
                probe = fmaf(is.y, 0.0f, fmaf(is.x, 0.0f, probe));
            }
            if (there[product][1]) {
                probe = fmaf(is.w, 0.0f, fmaf(is.z, 0.0f, probe));
            }
        }
    }
    return probe == 0.0f;
}

template <typename Tile>
static __device__ __forceinline__ void apart_fetch_quad(const apart_shared &shared, int thread,
                                                        int eight, int product, float *to) {
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];\n"
                 : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
                 : "r"(apart_quad_at<Tile>(shared, thread, eight, product))
                 : "memory");
}

template <typename Tile, int VECTORS>
static __device__ __forceinline__ void
apart_write_parts(const apart_conv &p, const apart_place &at, const apart_shared &shared, int warp,
                  int32_t first_unit, int lane, int first, int end) {
    const apart_targets<Tile, VECTORS> targets(p, at, warp, lane);
#pragma unroll 1
    for (int eight = first; eight < end; eight += apart_part<Tile>::EIGHTS) {
        constexpr int UNITS = apart_part<Tile>::UNITS;
        apart_part<Tile> part;
#pragma unroll
        for (int i = 0; i < apart_part<Tile>::EIGHTS * Tile::PRODUCTS; ++i) {
            apart_fetch_quad<Tile>(shared, warp * 32 + lane, eight + i / Tile::PRODUCTS,
                                   i % Tile::PRODUCTS,
                                   part.of[i % Tile::PRODUCTS] + i / Tile::PRODUCTS * 4);
        }
#pragma unroll
        for (int i = 0; i < UNITS; ++i) {
            const int index = eight * UNITS / apart_part<Tile>::EIGHTS + i;
            targets.write(p, at.group, first_unit + apart_unit<Tile>(lane, index), i, part);
        }
    }
}

template <typename Tile>
static __device__ __forceinline__ void
apart_write_parts_singly(const apart_conv &p, const apart_place &at, const apart_shared &shared,
                         int warp, int32_t first_unit, int lane, float *staging, int first,
                         int end) {
    const apart_singly<Tile> singly(p, at, warp, lane);
#pragma unroll 1
    for (int eight = first; eight < end; ++eight) {
        float sum[Tile::PRODUCTS][4];
#pragma unroll
        for (int product = 0; product < Tile::PRODUCTS; ++product) {
            apart_fetch_quad<Tile>(shared, warp * 32 + lane, eight, product, sum[product]);
        }
        apart_stage<Tile>(sum[0], sum[1], lane, staging);
        singly.write(p, at.group, first_unit, lane, eight, staging);
    }
}

#endif

#endif
