/* tile.cuh - tiles, coordinates and shared memory of swap_ab/mainloop.cuh. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_SWAP_AB_TILE_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_SWAP_AB_TILE_CUH

#include "kernels/cuda/conv/wgmma_implicit_gemm/tile.cuh"

/* MMAs of 64 pixels by COLUMNS written channels, with MMAS rows of pixels below each other.
 * Consumer warpgroups take tiles in turn, or (SHARED) halves of the same one. */
template <uf_mma_math MATH_, int COLUMNS_, typename stored_>
struct wgmma_swap_ab {
    typedef stored_ stored;
    static constexpr uf_mma_math MATH = MATH_;
    static constexpr bool FP32 = MATH == UF_MMA_TF32X3;
    static constexpr int COLUMNS = COLUMNS_;
    static constexpr int TURNS = UF_WGMMA_SWAP_AB_TURNS(COLUMNS); /* tiles in flight */
    static constexpr bool SHARED = TURNS == 1;
    static constexpr int MMAS = UF_WGMMA_SWAP_AB_MMAS(FP32, COLUMNS);
    static constexpr int SUMS = COLUMNS / 2; /* accumulators of a thread and an MMA */
    /* Rows of a tap's weights per two planes: FP32 has the small parts beside the large ones. */
    static constexpr int WEIGHT_ROWS = FP32 ? 2 * COLUMNS : COLUMNS;
    static constexpr int PER_PIECE = MATH == UF_MMA_BF16 ? 8 : 4; /* channels in 16 bytes */
    static constexpr int PIECES = FP32 ? 2 : UF_WGMMA_SWAP_AB_PLANES;
    static constexpr int CHANNELS = PIECES * PER_PIECE; /* channels of a chunk */
    static constexpr int STEPS = PIECES / 2;            /* steps of two planes in a chunk */
    static constexpr int CONSUMERS = 128 * UF_WGMMA_SWAP_AB_GROUPS, PRODUCERS = 256;
    static constexpr int THREADS = CONSUMERS + PRODUCERS;
    static constexpr int CONSUMER_REGISTERS = COLUMNS < 32 ? 144 : FP32 ? 192 : 168;
    static constexpr int PRODUCER_REGISTERS = 256 - CONSUMER_REGISTERS;
    static constexpr int PRODUCER_WARPS = PRODUCERS / 32;
    /* Values of a lane per unit. */
    static constexpr int LOADS = 16, POSITIONS = FP32 ? 2 : 1;
    static constexpr int PART_CHANNELS = LOADS / POSITIONS, PARTS = CHANNELS / PART_CHANNELS;
    static constexpr int TOGETHER = 2; /* MMAs in flight in FP32 */
    static constexpr int TAP_BYTES = PIECES * WEIGHT_ROWS * 16;
    static_assert(!(FP32 && SHARED), "a tile has one flag for the fix-up");
};

#if UF_HAS_WGMMA

struct wgmma_swap_ab_barriers {
    /* by turn, then buffer */
    uint64_t window_full[UF_WGMMA_WINDOWS], window_empty[UF_WGMMA_WINDOWS];
    uint64_t weights_full;
};

/* A tile's coordinates, in tiles. */
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

/* 16 bytes of channels as MMA operands. */
template <uf_mma_math MATH, typename T>
struct wgmma_swap_ab_words : channel_blocked_words<MATH, T> {};

template <>
struct wgmma_swap_ab_words<UF_MMA_TF32, float> {
    static __device__ __forceinline__ void of(const float *values, uint4 *words, uint4 *) {
        *words = make_uint4(mma_round_by_bits(values[0]), mma_round_by_bits(values[1]),
                            mma_round_by_bits(values[2]), mma_round_by_bits(values[3]));
    }
};

/* A CTA's shared memory, in this order. */
struct wgmma_swap_ab_shared {
    wgmma_swap_ab_barriers *barriers;
    float *staging; /* per consumer warpgroup: [channel][64 pixels], scale, shift */
    wgmma_swap_ab_position *positions;
    uint32_t weights, windows,
        window_bytes; /* window_bytes: a window and, unless resident, its weights */
};

#endif

#endif
