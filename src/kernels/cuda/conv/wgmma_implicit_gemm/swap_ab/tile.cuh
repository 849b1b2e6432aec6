/* tile.cuh - what the parts of swap_ab/mainloop.cuh share: tiles, where they
 * are, what a block keeps. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_SWAP_AB_TILE_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_SWAP_AB_TILE_CUH

#include "kernels/cuda/conv/wgmma_implicit_gemm/tile.cuh"

/* MMAs of 64 pixels by COLUMNS written channels, `PRODUCTS` rows of pixels below each other.
 * Warpgroups of consumers take tiles in turn, or (SHARED) halves of the same one. */
template <uf_mma_math MATH_, int STRIDE2_K4_, typename stored_>
struct wgmma_swap_ab {
    typedef stored_ stored;
    static constexpr uf_mma_math MATH = MATH_;
    static constexpr bool FP32 = MATH == UF_MMA_TF32X3;
    static constexpr int COLUMNS = STRIDE2_K4_;
    static constexpr int TURNS = UF_WGMMA_SWAP_AB_TURNS(COLUMNS); /* tiles under way */
    static constexpr bool SHARED = TURNS == 1;
    static constexpr int MMAS = UF_WGMMA_SWAP_AB_MMAS(FP32, COLUMNS);
    static constexpr int SUMS = COLUMNS / 2; /* of a thread and a MMA */
    /* Of the weights of a tap and two planes: FP32 has the small halves beside the big ones. */
    static constexpr int WEIGHT_ROWS = FP32 ? 2 * COLUMNS : COLUMNS;
    static constexpr int PER_PIECE = MATH == UF_MMA_BF16 ? 8 : 4; /* channels in 16 bytes */
    static constexpr int PIECES = FP32 ? 2 : UF_WGMMA_SWAP_AB_PLANES;
    static constexpr int CHANNELS = PIECES * PER_PIECE; /* of a chunk */
    static constexpr int STEPS = PIECES / 2;            /* of two planes, in a chunk */
    static constexpr int CONSUMERS = 128 * UF_WGMMA_SWAP_AB_GROUPS, PRODUCERS = 256;
    static constexpr int THREADS = CONSUMERS + PRODUCERS;
    static constexpr int CONSUMER_REGISTERS = COLUMNS < 32 ? 144 : FP32 ? 192 : 168;
    static constexpr int PRODUCER_REGISTERS = 256 - CONSUMER_REGISTERS;
    static constexpr int PRODUCER_WARPS = PRODUCERS / 32;
    /* What a producer loads at a time. */
    static constexpr int LOADS = 16, POSITIONS = FP32 ? 2 : 1;
    static constexpr int PART_CHANNELS = LOADS / POSITIONS, PARTS = CHANNELS / PART_CHANNELS;
    static constexpr int TOGETHER = 2; /* MMAs of FP32 under way */
    static constexpr int TAP_BYTES = PIECES * WEIGHT_ROWS * 16;
    static_assert(!(FP32 && SHARED), "a tile has one flag for the repair");
};

#if UF_HAS_WGMMA

struct wgmma_swap_ab_barriers {
    /* of each turn, one after the other's */
    uint64_t window_full[UF_WGMMA_WINDOWS], window_empty[UF_WGMMA_WINDOWS];
    uint64_t weights_full;
};

/* Which tile: its place on each axis, in tiles. */
struct wgmma_swap_ab_tile {
    int32_t group, n, y, x;

    __device__ __forceinline__ void add(const wgmma_conv &p, const wgmma_swap_ab_tile &step) {
        const int32_t across = p.axis[1].tiles, down = p.axis[0].tiles;
        x += step.x;
        y += step.y + (x >= across ? 1 : 0);
        x -= x >= across ? across : 0;
        n += step.n + (y >= down ? 1 : 0);
        y -= y >= down ? down : 0;
        group += step.group + (n >= p.image_tiles ? 1 : 0);
        n -= n >= p.image_tiles ? p.image_tiles : 0;
    }
};

static __device__ __forceinline__ wgmma_swap_ab_tile wgmma_swap_ab_tile_of(const wgmma_conv &p,
                                                                           int32_t tile) {
    wgmma_swap_ab_tile at;
    int32_t rest = tile / p.axis[1].tiles;
    at.x = tile - rest * p.axis[1].tiles;
    int32_t next = rest / p.axis[0].tiles;
    at.y = rest - next * p.axis[0].tiles;
    at.group = next / p.image_tiles;
    at.n = next - at.group * p.image_tiles;
    return at;
}

/* A position of a window: elements from its corner, and y << 16 | x. */
struct wgmma_swap_ab_position {
    int32_t offset;
    uint32_t coord;
};

/* 16 bytes of channels as MMAs take them. */
template <uf_mma_math MATH, typename T>
struct wgmma_swap_ab_words : channel_blocked_words<MATH, T> {};

template <>
struct wgmma_swap_ab_words<UF_MMA_TF32, float> {
    static __device__ __forceinline__ void of(const float *values, uint4 *words, uint4 *) {
        *words = make_uint4(mma_round_by_bits(values[0]), mma_round_by_bits(values[1]),
                            mma_round_by_bits(values[2]), mma_round_by_bits(values[3]));
    }
};

/* What a block keeps in shared memory, in this order. */
struct wgmma_swap_ab_shared {
    wgmma_swap_ab_barriers *barriers;
    float *staging; /* of each consuming warpgroup: [channel][64 pixels], scale, shift */
    wgmma_swap_ab_position *positions;
    uint32_t weights, windows, window_bytes; /* of a window and, unless they stay, its weights */
};

#endif

#endif
