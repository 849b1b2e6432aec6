/* sm90_wgmma_pairs.cuh - two blocks, a cluster, that read the same: each brings a half of it for
 * both (sm_90a). A buffer is full when both halves are there, and empty when both blocks are done
 * with it, so whoever gives one back tells both. */
#ifndef UF_KERNELS_CUDA_ARCH_SM90_WGMMA_PAIRS_CUH
#define UF_KERNELS_CUDA_ARCH_SM90_WGMMA_PAIRS_CUH

#include "kernels/cuda/arch/sm90_tma.cuh"

#if UF_HAS_WGMMA

/* Both blocks of a pair, for a copy that goes to the same place in each. */
enum { UF_PAIR_MASK = 3 };

static __device__ __forceinline__ uint32_t uf_cluster_rank() {
    uint32_t rank;
    asm("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(rank));
    return rank;
}

/* uf_copy_tensor for both blocks: to the same place in each, counted by the same barrier of each.
 */
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

/* All threads of both blocks, which were there at the beginning and have not ended. Orders nothing
 * but itself: with memory it would be a fence of the whole GPU. */
static __device__ __forceinline__ void uf_pair_meet() {
    asm volatile("barrier.cluster.arrive.relaxed;\n"
                 "barrier.cluster.wait;\n" ::
                     : "memory");
}

/* The end of a pair: no thread of one ends before all of both have left, after which none asks for
 * anything of the other. Everything that was asked for is there then: the one fence of the whole
 * GPU that a pair has, before results are written, so that it does not wait for them. */
static __device__ __forceinline__ void uf_pair_epilogue() {
    uf_cluster_arrive();
}

static __device__ __forceinline__ void uf_pair_end() {
    uf_cluster_wait();
}

/* Arrivals at barriers of buffers that a warp of a pair gives back: lane 0 at its block's, lane 1
 * at the other's. */
struct uf_pair_release {
    uint32_t at; /* the first of the barriers; 0 for other lanes */

    __device__ __forceinline__ uf_pair_release(const uint64_t *barriers, int lane) {
        at = lane < 2 ? uf_cluster_address(uf_shared_address(barriers),
                                           uf_cluster_rank() ^ (uint32_t)lane)
                      : 0;
    }

    /* Without a scope it is the block's: that of a cluster would be a fence of the whole GPU.
     * Before it are only reads whose results were used. */
    __device__ __forceinline__ void arrive(int32_t index) const {
        if (at != 0) {
            asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];\n" ::"r"(
                             at + (uint32_t)(index * (int)sizeof(uint64_t)))
                         : "memory");
        }
    }
};

/* A warp gives a stage back, all of whose lanes have waited for the MMAs that read it: to its
 * own block or, as one of a pair, to both. `barriers`: the first of the stages'. */
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
