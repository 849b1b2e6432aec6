/* tile.cuh - tiles, coordinates and shared memory of the patch GEMM. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_TILE_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_TILE_CUH

#include "kernels/cuda/conv/mma_implicit_gemm/mainloop.cuh"
#include "kernels/cuda/conv/wgmma_patch_gemm/plan.h"
#include "kernels/cuda/device/element.cuh"
#include "kernels/cuda/arch/sm90_wgmma.cuh"

/* One store of a thread. SINGLY: an element, through shared memory. THREES: the same for three or
 * six columns over 32 pixels. COLUMNS: the columns of a unit. RUNS: those of neighbouring pixels
 * too, up to 16 bytes. */
enum { PATCH_SINGLY, PATCH_THREES, PATCH_COLUMNS, PATCH_RUNS };

/* The problem and its plan, as a kernel's parameter. */
struct patch_conv {
    mma_conv conv;
    uf_patch_plan plan;
    bool columns_first;  /* weights of neighbouring columns are neighbours in memory */
    int32_t piece;       /* bytes of a copy: 16 (TMA loads), 8, 4; 0: elements by ordinary loads */
    int32_t vectors;     /* a thread's store: PATCH_SINGLY, ... */
    bool stepped;        /* PATCH_RUNS with units that are channels */
    bool cheap;          /* no accumulation, an activation that is a comparison */
    bool plain;          /* no scale, shift or activation */
    uint8_t *unfinished; /* FP32, by tile, warpgroup and split: 1 if the exact fix-up computes it */
};

/* SIDE columns of the read side are summed for a pixel, or units of SPREAD columns of the written
 * side made. BRIEF (FP32): promotion after each step, not after each stage. */
template <uf_mma_math MATH_, int SIDE_, int SPREAD_, typename stored_, bool BRIEF_ = false>
struct patch_tile {
    typedef stored_ stored;
    static constexpr uf_mma_math MATH = MATH_;
    static constexpr bool FP32 = MATH == UF_MMA_TF32X3, BF16 = MATH == UF_MMA_BF16;
    static constexpr bool BRIEF = BRIEF_;
    static constexpr int SIDE = SIDE_, SPREAD = SPREAD_, ELEMENT = sizeof(stored);
    static constexpr int COLUMNS = FP32 ? 64 : 128;
    static constexpr int SUMS = COLUMNS / 2; /* accumulators of a thread and an MMA of 64 pixels */
    static constexpr int MMAS = 2;           /* MMAs of a warpgroup */
    static constexpr int CHANNELS = UF_PATCH_READ / (UF_PATCH_PIXELS * SIDE * ELEMENT);
    static constexpr int VALUES = BF16 ? 8 : 4; /* values of K in 16 bytes */
    static constexpr int PLANES = CHANNELS * SIDE / VALUES;
    static constexpr int STEPS = PLANES / 2;                       /* MMA steps of a stage */
    static constexpr int PIXELS = UF_PATCH_RUN / (SIDE * ELEMENT); /* pixels of a run */
    static constexpr int HALF_BYTES =
        PLANES * COLUMNS * 16; /* bytes of the weights; in FP32 of their large parts */
    static constexpr int WEIGHT_BYTES = FP32 ? 2 * HALF_BYTES : HALF_BYTES;
    static constexpr int STAGE_BYTES = UF_PATCH_READ + WEIGHT_BYTES;
    static constexpr int UNDER = SIDE * ELEMENT;              /* bytes of a channel under a pixel */
    static constexpr int QUADS = UNDER < 16 ? 1 : UNDER / 16; /* lanes that share them */
    /* Neighbouring pixels of a lane, of its four: as many as make a store of 16 bytes. */
    static constexpr int RUN = 16 / (SPREAD * ELEMENT) < 4 ? 16 / (SPREAD * ELEMENT) : 4;
    static constexpr int WORDS = 32; /* words that a thread reads of a stage */
    /* Words are fragments already: they must not be loaded while MMAs read the previous ones. */
    static constexpr bool AS_IT_IS = SIDE > 1 && ELEMENT == 2;
    static constexpr int CONSUMERS = 128 * UF_PATCH_GROUPS, THREADS = CONSUMERS + 128;
    static constexpr int CONSUMER_REGISTERS = 232, PRODUCER_REGISTERS = 40;

    static_assert(SIDE == 1 || SPREAD == 1, "a direction writes or reads them");
    static_assert(ELEMENT == 4 || BF16, "bf16 is multiplied as it is");
};

/* A CTA's share: tiles from one on, stages `begin` to `end` of each. CTAs of a cluster share one
 * tile. */
struct patch_share {
    int32_t tile, step, split, begin, end;
};

static __device__ __forceinline__ patch_share patch_share_of(const patch_conv &p) {
    const uf_patch_plan &plan = p.plan;
    patch_share share = {(int32_t)blockIdx.x, (int32_t)gridDim.x, 0, 0, plan.stages};
    if (plan.splits > 1) {
        share.tile = (int32_t)blockIdx.x / plan.splits;
        share.step = (int32_t)plan.tiles; /* one tile per CTA */
        share.split = (int32_t)blockIdx.x - share.tile * plan.splits;
        share.begin = uf_patch_split_begin(&plan, share.split);
        share.end = uf_patch_split_begin(&plan, share.split + 1);
    }
    return share;
}

/* A tile's coordinates. */
struct patch_coord {
    int32_t group, n, y, x; /* first of its pixels, as walked */
    int32_t column_tile;    /* tile of columns within the group, as weights are packed */
    int32_t row, unit;      /* written filter row; first unit within the group */
};

static __device__ __forceinline__ patch_coord patch_coord_of(const patch_conv &p, int32_t tile) {
    const uf_patch_plan &plan = p.plan;
    patch_coord at;
    int32_t rest = tile / plan.column_tiles;
    at.column_tile = tile - rest * plan.column_tiles;
    const int32_t channel_tile = at.column_tile / plan.written_rows;
    at.row = at.column_tile - channel_tile * plan.written_rows;
    at.unit = channel_tile * plan.tile_units;
    int32_t next = rest / plan.pixel_tiles[1];
    at.x = (rest - next * plan.pixel_tiles[1]) << plan.log;
    rest = next / plan.pixel_tiles[0];
    at.y = (next - rest * plan.pixel_tiles[0]) * (UF_PATCH_PIXELS >> plan.log);
    at.group = rest / p.conv.batch;
    at.n = rest - at.group * p.conv.batch;
    return at;
}

/* A pixel of the small side. */
struct patch_pixel {
    int32_t h, w;
    bool there;
};

static __device__ __forceinline__ patch_pixel patch_pixel_of(const patch_conv &p,
                                                             const patch_coord &at, int32_t index) {
    const uf_patch_plan &plan = p.plan;
    patch_pixel made;
    made.h = at.y + (index >> plan.log);
    made.w = at.x + (index & ((1 << plan.log) - 1));
    made.there = made.h < plan.height && made.w < plan.width;
    if (plan.flat) {
        const int32_t flat = made.w;
        made.h = flat / plan.row;
        made.w = flat - made.h * plan.row;
    }
    return made;
}

/* The index, of its warp's 32, of neighbour `i` of MMA `run` of a lane's pixels. */
template <typename Tile>
static __device__ __forceinline__ int patch_index(int lane, int run, int i) {
    const int at = lane >> 2;
    return Tile::RUN == 4   ? 4 * at + 2 * run + i
           : Tile::RUN == 2 ? 16 * run + 2 * at + i
                            : 16 * run + 8 * i + at;
}

struct patch_barriers {
    uint64_t full[UF_PATCH_STAGES], empty[UF_PATCH_STAGES];
};

/* A CTA's shared memory. */
struct patch_shared {
    patch_barriers *barriers;
    float *staging;
    uint32_t stages; /* aligned to 1024 bytes */
};

#endif
