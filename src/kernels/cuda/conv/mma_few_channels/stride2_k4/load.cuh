/* load.cuh - rows of y and windows on x in shared memory, their fragments and MMAs, for all kernels
 * of stride2_k4. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_STRIDE2_K4_LOAD_CUH
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_STRIDE2_K4_LOAD_CUH

#include "kernels/cuda/conv/mma_few_channels/stride2_k4/plan.h"
#include "kernels/cuda/conv/simt_direct/epilogue.cuh"
#include "kernels/cuda/arch/sm80_mma_split.cuh"
#include "kernels/cuda/arch/sm90_tma.cuh"

/* C channels of x. WARPS warps of a block, SHARE of which take a row together; RESIDENT blocks of a
 * multiprocessor. */
template <typename Element, uf_mma_math MATH_, int C_, int WARPS_, int SHARE_, int RESIDENT_>
struct stride2_k4_tile {
    typedef Element T;
    static constexpr uf_mma_math MATH = MATH_;
    static constexpr int WARPS = WARPS_, THREADS = 32 * WARPS, RESIDENT = RESIDENT_;
    static constexpr int SHARE = SHARE_, RINGS = WARPS / SHARE;
    static constexpr int C = C_, PARTS = MATH == UF_MMA_TF32X3 ? 2 : 1;
    static constexpr int PIECES =
        PARTS == 2 ? UF_STRIDE2_K4_PIECES : 1; /* boxes of a row of y, in dgrad */
    static constexpr int N =
        C * UF_STRIDE2_K4_FILTER * UF_STRIDE2_K4_FILTER / 8;          /* 8-column blocks */
    static constexpr int DEPTH = MATH == UF_MMA_BF16 ? 16 : 8;        /* K of an MMA */
    static constexpr int ROW = UF_STRIDE2_K4_PIXELS * (int)sizeof(T); /* bytes of a row of y */
    static constexpr int WINDOW_ROW =
        UF_STRIDE2_K4_WINDOW * (int)sizeof(T) / 4; /* words of a row of a window */
};

/* A row of a strip of an image. */
struct stride2_k4_coord {
    int32_t n, row, strip;
};

static __device__ __forceinline__ stride2_k4_coord stride2_k4_coord_of(const uf_stride2_k4_plan &p,
                                                                       int32_t unit) {
    const int32_t rows = direct_divide(p.by_strips, unit);
    stride2_k4_coord at;
    at.strip = unit - rows * p.strips;
    at.n = direct_divide(p.by_rows, rows);
    at.row = rows - at.n * p.rows;
    return at;
}

/* The first of a block's units; the next block's is its end. */
static __device__ __forceinline__ int32_t stride2_k4_first_unit(const uf_stride2_k4_plan &p,
                                                                unsigned block) {
    return (int32_t)((int64_t)block * p.units / gridDim.x);
}

static __device__ __forceinline__ int32_t stride2_k4_warp() {
    return __shfl_sync(0xffffffffu, (int32_t)threadIdx.x >> 5, 0);
}

#if UF_HAS_WGMMA

/* A fragment of 16 rows of operand A. */
template <typename Tile>
struct stride2_k4_fragment {
    uint32_t big[4], small[Tile::PARTS == 2 ? 4 : 1];

    /* Converts word i from shared memory. */
    __device__ __forceinline__ void set(int i, uint32_t word) {
        if (Tile::MATH == UF_MMA_BF16) {
            big[i] = word;
        } else if (Tile::MATH == UF_MMA_TF32) {
            big[i] = mma_round_by_bits(__uint_as_float(word));
        } else {
            mma_split_tf32_by_bits(__uint_as_float(word), &big[i],
                                   &small[Tile::PARTS == 2 ? i : 0]);
        }
    }
};

/* A lane's words of operand B: two, and in FP32 their small parts. */
template <typename Tile>
struct stride2_k4_by {
    uint32_t word[2 * Tile::PARTS];

    __device__ __forceinline__ void set(int i, float value) {
        if (Tile::PARTS == 2) {
            mma_split_tf32_by_bits(value, &word[i], &word[2 * Tile::PARTS - 2 + i]);
        } else {
            word[i] = mma_round_by_bits(value);
        }
    }
};

/* sum[m][first + g] += a[m] * by[g]. */
template <typename Tile, int M, int N, int G>
static __device__ __forceinline__ void
stride2_k4_multiply(float (&sum)[M][N][4], const stride2_k4_fragment<Tile> (&a)[M],
                    const stride2_k4_by<Tile> (&by)[G], int first) {
    if constexpr (Tile::PARTS == 2) {
        /* The tensor core truncates its accumulator: each step is summed alone. */
        float part[M][G][4] = {};
#pragma unroll
        for (int turn = 0; turn < 3; ++turn) {
#pragma unroll
            for (int m = 0; m < M; ++m) {
#pragma unroll
                for (int g = 0; g < G; ++g) {
                    uf_mma_tf32(part[m][g], turn == 0 ? a[m].small : a[m].big,
                                by[g].word + (turn == 1 ? 2 : 0));
                }
            }
        }
#pragma unroll
        for (int m = 0; m < M; ++m) {
#pragma unroll
            for (int g = 0; g < G; ++g) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    sum[m][first + g][i] += part[m][g][i];
                }
            }
        }
    } else {
#pragma unroll
        for (int g = 0; g < G; ++g) {
#pragma unroll
            for (int m = 0; m < M; ++m) {
                if (Tile::MATH == UF_MMA_BF16) {
                    uf_mma_bf16(sum[m][first + g], a[m].big, by[g].word);
                } else {
                    uf_mma_tf32(sum[m][first + g], a[m].big, by[g].word);
                }
            }
        }
    }
}

/* Byte offset of a 16-byte piece of row `channel` in a tile of y. TMA swizzles the pieces, so that
 * columns meet no bank conflicts. */
template <typename Tile>
static __device__ __forceinline__ uint32_t stride2_k4_at(int channel, int piece) {
    const int exchange = Tile::ROW == 128 ? channel & 7 : (channel >> 1) & 3;
    return (uint32_t)(channel * Tile::ROW + ((piece ^ exchange) << 4));
}

/* Byte offset of a lane's f32 of a fragment or of sums: pixel lane / 4 + 8 * half + 16 * m, channel
 * 2 (lane % 4) + odd of the first eight. */
template <typename Tile>
static __device__ __forceinline__ uint32_t stride2_k4_word_at(int m, int half, int odd) {
    const int lane = (int)threadIdx.x & 31;
    const uint32_t first =
        stride2_k4_at<Tile>(2 * (lane & 3), lane >> 4) + (uint32_t)(lane >> 2 & 3) * 4;
    return (first ^ (uint32_t)(m * 64 + half * 32 + odd * 16)) + (uint32_t)(odd * Tile::ROW);
}

/* The ring of the warps that share rows. Each stage has a full barrier for each of its PIECES
 * boxes. */
template <int PIECES>
struct stride2_k4_ring {
    uint64_t *full;
    uint64_t *read; /* barriers of the stages that all warps sharing them have read */
    unsigned char *stages;
    uf_ring at;

    __device__ __forceinline__ const unsigned char *stage(const uf_stride2_k4_plan &p) const {
        return stages + at.index * p.stage_bytes;
    }

    __device__ __forceinline__ void wait(int32_t piece) const {
        uf_barrier_wait(full + at.index * PIECES + piece, at.parity);
    }
};

/* One lane loads rows for all warps that share them. */
template <typename Tile>
static __device__ __forceinline__ bool stride2_k4_is_producer() {
    return threadIdx.x % (32 * Tile::SHARE) == 0;
}

/* Initialises the barriers of all rings; other barriers may follow them. */
template <typename Tile, int PIECES>
static __device__ __forceinline__ stride2_k4_ring<PIECES>
stride2_k4_ring_of(const uf_stride2_k4_plan &p, unsigned char *shared) {
    const int32_t number = stride2_k4_warp() / Tile::SHARE;
    stride2_k4_ring<PIECES> ring = {(uint64_t *)shared + number * UF_STRIDE2_K4_STAGES * PIECES,
                                    (uint64_t *)shared +
                                        (Tile::RINGS * PIECES + number) * UF_STRIDE2_K4_STAGES,
                                    shared + UF_STRIDE2_K4_HEAD + number * p.stages * p.stage_bytes,
                                    {0, 0}};
    if (stride2_k4_is_producer<Tile>()) {
#pragma unroll 1
        for (int32_t i = 0; i < p.stages * PIECES; ++i) {
            uf_barrier_init(ring.full + i, 1);
        }
        if (Tile::SHARE > 1) {
#pragma unroll 1
            for (int32_t i = 0; i < p.stages; ++i) {
                uf_barrier_init(ring.read + i, Tile::SHARE);
            }
        }
        uf_barrier_init_fence();
    }
    if (Tile::SHARE > 1) {
        __syncthreads();
    } else {
        __syncwarp();
    }
    return ring;
}

/* Loads a row of y, in PIECES boxes, or its window on x, or both, into a stage. Called by one
 * lane. */
template <int PIECES>
static __device__ __forceinline__ void
stride2_k4_load_stage(const uf_stride2_k4_plan &p, const CUtensorMap *tile,
                      const CUtensorMap *window, int32_t unit, const stride2_k4_ring<PIECES> &ring,
                      int32_t stage) {
    static_assert(UF_STRIDE2_K4_SMALL % PIECES == 0, "channels of a piece");
    const stride2_k4_coord at = stride2_k4_coord_of(p, unit);
    const uint32_t to = uf_shared_address(ring.stages + stage * p.stage_bytes);
    const int32_t column = at.strip * UF_STRIDE2_K4_PIXELS;
    uint64_t *const full = ring.full + stage * PIECES;
    if (PIECES > 1) { /* rows of y without windows */
        const uint32_t bytes = (uint32_t)p.tile_bytes / PIECES;
#pragma unroll
        for (int32_t i = 0; i < PIECES; ++i) {
            uf_barrier_expect(full + i, bytes);
            uf_copy_tensor(to + (uint32_t)i * bytes, tile, column, at.row,
                           i * (UF_STRIDE2_K4_SMALL / PIECES), at.n, full + i);
        }
        return;
    }
    uf_barrier_expect(full, (uint32_t)(p.tile_bytes + p.window_bytes));
    if (tile != nullptr) {
        uf_copy_tensor(to, tile, column, at.row, 0, at.n, full);
    }
    if (window != nullptr) {
        uf_copy_tensor(to + (uint32_t)p.tile_bytes, window,
                       column * UF_STRIDE2_K4_STRIDE - p.conv.padding[1] - p.window_shift,
                       at.row * UF_STRIDE2_K4_STRIDE - p.conv.padding[0], 0, at.n, full);
    }
}

/* Loads the first rows of a ring, from `unit`. */
template <typename Tile, int PIECES>
static __device__ __forceinline__ void
stride2_k4_begin(const uf_stride2_k4_plan &p, const CUtensorMap *tile, const CUtensorMap *window,
                 int32_t unit, int32_t end, const stride2_k4_ring<PIECES> &ring) {
    if (stride2_k4_is_producer<Tile>()) {
#pragma unroll 1
        for (int32_t i = 0; i < p.stages && unit < end; ++i, unit += Tile::RINGS) {
            stride2_k4_load_stage(p, tile, window, unit, ring, i);
        }
    }
}

/* Releases the stage of row `unit`, and reloads it once all warps that share it have. (With named
 * barriers racecheck reports hazards where pairs have different numbers of rows.) */
template <typename Tile, int PIECES>
static __device__ __forceinline__ void
stride2_k4_next(const uf_stride2_k4_plan &p, const CUtensorMap *tile, const CUtensorMap *window,
                int32_t unit, int32_t end, stride2_k4_ring<PIECES> &ring) {
    if (Tile::SHARE > 1) {
        uf_barrier_release(ring.read + ring.at.index, (threadIdx.x & 31) == 0);
    } else {
        __syncwarp();
    }
    const int32_t next = unit + Tile::RINGS * p.stages;
    if (stride2_k4_is_producer<Tile>() && next < end) {
        if (Tile::SHARE > 1) {
            uf_barrier_wait(ring.read + ring.at.index, ring.at.parity);
        }
        stride2_k4_load_stage(p, tile, window, next, ring, ring.at.index);
    }
    ring.at.next(p.stages);
}

#endif

#endif
