/* sm90_wgmma_pairs.cuh - two CTAs of a cluster that read the same data: each loads half of it for
 * both (sm_90a). A buffer is full when both halves have arrived, and empty when both CTAs have
 * released it, so that a release signals both. */
#ifndef UF_KERNELS_CUDA_ARCH_SM90_WGMMA_PAIRS_CUH
#define UF_KERNELS_CUDA_ARCH_SM90_WGMMA_PAIRS_CUH

#include "kernels/cuda/arch/sm90_tma.cuh"

#if UF_HAS_WGMMA

/* Both CTAs of a pair, for a copy to the same address in each. */
enum { UF_PAIR_MASK = 3 };

static __device__ __forceinline__ uint32_t uf_cluster_rank() {
    uint32_t rank;
    asm("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(rank));
    return rank;
}

/* uf_copy_tensor to the same address in both CTAs, counted by the same barrier of each. */
static __device__ __forceinline__ void uf_pair_copy_tensor(uint32_t shared, const CUtensorMap *map,
                                                           int32_t column, int32_t row,
                                                           int32_t channel, int32_t image,
                                                           uint64_t *barrier) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%2, %3, %4, %5}], [%6], %7;\n" ::"r"(shared),
                 "l"(map), "r"(column), "r"(row), "r"(channel), "r"(image),
                 "r"(uf_shared_address(barrier)), "h"((uint16_t)UF_PAIR_MASK)
                 : "memory");
}

/* A barrier for all threads of both CTAs, which have all started and not ended. It orders no
 * memory: with memory it would be a fence of the whole GPU. */
static __device__ __forceinline__ void uf_pair_sync() {
    asm volatile("barrier.cluster.arrive.relaxed;\n"
                 "barrier.cluster.wait;\n" ::
                     : "memory");
}

/* The end of a pair: no thread ends before all of both have arrived, after which none signals the
 * other. The arrival is the pair's one fence of the whole GPU. Before the stores of results it does
 * not wait for them. */
static __device__ __forceinline__ void uf_pair_arrive() {
    uf_cluster_arrive();
}

static __device__ __forceinline__ void uf_pair_wait() {
    uf_cluster_wait();
}

/* Releases a warp's buffers in both CTAs: lane 0 arrives at its own CTA's barriers, lane 1 at the
 * other's. */
struct uf_pair_release {
    uint32_t at; /* address of the first barrier; 0 in other lanes */

    __device__ __forceinline__ uf_pair_release(const uint64_t *barriers, int lane) {
        at = lane < 2 ? uf_cluster_address(uf_shared_address(barriers),
                                           uf_cluster_rank() ^ (uint32_t)lane)
                      : 0;
    }

    /* CTA scope: cluster scope would be a fence of the whole GPU. Before it are only reads whose
     * results were used. */
    __device__ __forceinline__ void arrive(int32_t index) const {
        if (at != 0) {
            asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];\n" ::"r"(
                             at + (uint32_t)(index * (int)sizeof(uint64_t)))
                         : "memory");
        }
    }
};

/* Releases a stage to the warp's CTA or, in a pair, to both. All lanes have waited for the MMAs
 * that read it. `barriers`: that of the first stage. */
template <bool PAIR>
struct uf_stage_release {
    enum { NO_LANE = 32 };

    uint64_t *barriers;
    uf_pair_release both;

    __device__ __forceinline__ explicit uf_stage_release(uint64_t *first)
        : barriers(first), both(first, PAIR ? (int)threadIdx.x & 31 : NO_LANE) {
    }

    __device__ __forceinline__ void arrive(int32_t index) const {
        if (PAIR) {
            both.arrive(index);
        } else if ((threadIdx.x & 31) == 0) {
            uf_barrier_arrive(barriers + index);
        }
    }
};

#endif

#endif
