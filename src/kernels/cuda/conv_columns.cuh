/* conv_columns.cuh - what the kernels of conv_columns*.cu share: rows of y and windows on x in
 * shared memory, their fragments, products. */
#ifndef UF_KERNELS_CUDA_CONV_COLUMNS_CUH
#define UF_KERNELS_CUDA_CONV_COLUMNS_CUH

#include "kernels/cuda/conv_columns_plan.h"
#include "kernels/cuda/conv_direct_store.cuh"
#include "kernels/cuda/mma_split.cuh"
#include "kernels/cuda/tensor_map.cuh"

/* C channels of x; WARPS of a block, of which SHARE take a row together, and RESIDENT blocks share
 * a multiprocessor. */
template <typename Element, uf_math MATH_, int C_, int WARPS_, int SHARE_, int RESIDENT_>
struct columns_tile {
    typedef Element T;
    static constexpr uf_math MATH = MATH_;
    static constexpr int WARPS = WARPS_, THREADS = 32 * WARPS, RESIDENT = RESIDENT_;
    static constexpr int SHARE = SHARE_, RINGS = WARPS / SHARE;
    static constexpr int C = C_, PARTS = MATH == UF_MATH_FP32 ? 2 : 1;
    static constexpr int N = C * UF_COLUMNS_FILTER * UF_COLUMNS_FILTER / 8; /* eights of columns */
    static constexpr int DEPTH = MATH == UF_MATH_BF16 ? 16 : 8;             /* of a product */
    static constexpr int ROW = UF_COLUMNS_PIXELS * (int)sizeof(T);          /* bytes, of y */
    static constexpr int WINDOW_ROW = UF_COLUMNS_WINDOW * (int)sizeof(T) / 4; /* words of 4 bytes */
};

/* A row of a strip. */
struct columns_place {
    int32_t n, row, strip;
};

static __device__ __forceinline__ columns_place columns_place_of(const uf_columns_plan &p,
                                                                 int32_t unit) {
    const int32_t rows = direct_divide(p.by_strips, unit);
    columns_place at;
    at.strip = unit - rows * p.strips;
    at.n = direct_divide(p.by_rows, rows);
    at.row = rows - at.n * p.rows;
    return at;
}

/* The first of a block's units; the next block's is its end. */
static __device__ __forceinline__ int32_t columns_first(const uf_columns_plan &p, unsigned block) {
    return (int32_t)((int64_t)block * p.units / gridDim.x);
}

static __device__ __forceinline__ int32_t columns_warp() {
    return __shfl_sync(0xffffffffu, (int32_t)threadIdx.x >> 5, 0);
}

#if UF_HAS_WGMMA

/* A fragment of 16 rows. */
template <typename Tile>
struct columns_fragment {
    uint32_t big[4], small[Tile::PARTS == 2 ? 4 : 1];

    /* Word i, as it comes from shared memory. */
    __device__ __forceinline__ void set(int i, uint32_t word) {
        if (Tile::MATH == UF_MATH_BF16) {
            big[i] = word;
        } else if (Tile::MATH == UF_MATH_TF32) {
            big[i] = mma_round_by_bits(__uint_as_float(word));
        } else {
            mma_halves_by_bits(__uint_as_float(word), &big[i], &small[Tile::PARTS == 2 ? i : 0]);
        }
    }
};

/* The words of B of a product: two of a lane, and in FP32 their small halves. */
template <typename Tile>
struct columns_by {
    uint32_t word[2 * Tile::PARTS];

    __device__ __forceinline__ void set(int i, float value) {
        if (Tile::PARTS == 2) {
            mma_halves_by_bits(value, &word[i], &word[2 * Tile::PARTS - 2 + i]);
        } else {
            word[i] = mma_round_by_bits(value);
        }
    }
};

/* sum[m][first + g] += a[m] * by[g]. */
template <typename Tile, int M, int N, int G>
static __device__ __forceinline__ void
columns_multiply(float (&sum)[M][N][4], const columns_fragment<Tile> (&a)[M],
                 const columns_by<Tile> (&by)[G], int first) {
    if constexpr (Tile::PARTS == 2) {
        /* The tensor core truncates what it adds to: each step is summed alone. */
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
                if (Tile::MATH == UF_MATH_BF16) {
                    uf_mma_bf16(sum[m][first + g], a[m].big, by[g].word);
                } else {
                    uf_mma_tf32(sum[m][first + g], a[m].big, by[g].word);
                }
            }
        }
    }
}

/* Weights as the operand B of STEPS x N products, for good: in registers, or, where small halves do
 * not fit, in shared memory, 16 bytes of each lane. Its rows are taps, and its columns channels of
 * y, or the other way round. */
template <typename Tile, int STEPS, int N, bool TAPS_DOWN>
struct columns_weights {
    typedef typename Tile::T T;
    static constexpr int TAPS = Tile::C * UF_COLUMNS_FILTER * UF_COLUMNS_FILTER;
    static constexpr int VECTOR = 16 / (int)sizeof(T); /* elements of a cell of 16 bytes */
    /* On their way weights are as in memory, taps of a channel of y beside each other, and a cell
     * between channels: eight channels' cells, and words of every other one, are in different
     * banks. */
    static constexpr int CELLS = TAPS / VECTOR, PITCH = CELLS + 1; /* of a channel */
    static_assert(UF_COLUMNS_SMALL * PITCH * 16 == UF_COLUMNS_SCRATCH(Tile::C, sizeof(T)), "plan");
    static_assert(N % 2 == 0, "load() takes two");

    static constexpr int ALL = UF_COLUMNS_SMALL * CELLS;
    static constexpr int SHARE = (ALL + Tile::THREADS - 1) / Tile::THREADS;

    columns_by<Tile> by[Tile::PARTS == 2 ? 1 : STEPS][Tile::PARTS == 2 ? 1 : N];
    const uint4 *shared;
    uint4 raw[SHARE];

    /* First of all, and before rows are asked for: they would come behind those. Nothing waits. Not
     * by __ldg, which the compiler may move to before the wait for the kernel before this one. */
    __device__ __forceinline__ void fetch(const uf_columns_plan &p) {
        const uint4 *const from = (const uint4 *)p.conv.weight + threadIdx.x;
#pragma unroll
        for (int i = 0; i < SHARE; ++i) {
            raw[i] = make_uint4(0u, 0u, 0u, 0u);
            if ((int)threadIdx.x + i * Tile::THREADS < p.weight_vectors) {
                raw[i] = from[i * Tile::THREADS];
            }
        }
    }

    /* An f32 as load() wants it: rounded, where products want nothing smaller. */
    static __device__ __forceinline__ uint32_t rounded(uint32_t word) {
        return Tile::MATH == UF_MATH_TF32 ? mma_round_by_bits(__uint_as_float(word)) : word;
    }

    static __device__ __forceinline__ void put(uint4 *scratch, int channel, int tap, float value) {
        T *const to = (T *)(scratch + channel * PITCH) + tap;
        *to = (T)__uint_as_float(rounded(__float_as_uint(value)));
    }

    /* What was fetched of filters of 4 x 4, and zeros beyond the last channel. */
    __device__ __forceinline__ void store(uint4 *scratch) const {
#pragma unroll
        for (int i = 0; i < SHARE; ++i) {
            const uint32_t at = threadIdx.x + (uint32_t)(i * Tile::THREADS);
            if ((i + 1) * Tile::THREADS <= ALL || at < (uint32_t)ALL) {
                scratch[at + at / (uint32_t)CELLS] = make_uint4(
                    rounded(raw[i].x), rounded(raw[i].y), rounded(raw[i].z), rounded(raw[i].w));
            }
        }
    }

    /* Element e of what was fetched i-th. */
    __device__ __forceinline__ float element(int i, int e) const {
        const uint32_t word[4] = {raw[i].x, raw[i].y, raw[i].z, raw[i].w};
        return __uint_as_float(VECTOR == 4    ? word[e & 3]
                               : (e & 1) == 0 ? word[e / 2 & 3] << 16
                                              : word[e / 2 & 3] & 0xffff0000u);
    }

    /* The same of smaller filters; zeros are there. */
    __device__ __forceinline__ void scatter(const uf_columns_plan &p, uint4 *scratch) const {
#pragma unroll
        for (int i = 0; i < SHARE; ++i) {
            const int at = (int)threadIdx.x + i * Tile::THREADS;
            if (at < p.weight_vectors) {
#pragma unroll
                for (int e = 0; e < VECTOR; ++e) {
                    const int filter = direct_divide(p.by_taps, at * VECTOR + e);
                    const int tap = at * VECTOR + e - filter * (int)p.by_taps.divisor;
                    const int r = direct_divide(p.by_filter_row, tap);
                    const int s = tap - r * (int)p.by_filter_row.divisor;
                    put(scratch, filter / Tile::C, filter % Tile::C * 16 + r * 4 + s,
                        element(i, e));
                }
            }
        }
    }

    /* Where that cannot be done: one by one, and zeros where the filter has nothing. */
    static __device__ __noinline__ void gather(const uf_columns_plan &p, uint4 *scratch) {
        const uf_direct_conv &conv = p.conv;
        const int channels = TAPS_DOWN ? conv.written_per_group : conv.read_per_group;
        const int64_t by_channel = TAPS_DOWN ? conv.w_written : conv.w_read;
        const int64_t by_c = TAPS_DOWN ? conv.w_read : conv.w_written;
#pragma unroll 8
        for (int i = (int)threadIdx.x; i < UF_COLUMNS_SMALL * TAPS; i += Tile::THREADS) {
            const int channel = i / TAPS, tap = i % TAPS;
            const int c = tap >> 4, r = tap >> 2 & 3, s = tap & 3;
            const bool there = channel < channels && r < conv.kernel[0] && s < conv.kernel[1];
            const T *const from = (const T *)conv.weight + channel * by_channel + c * by_c +
                                  r * conv.w_row + s * conv.w_column;
            put(scratch, channel, tap, there ? (float)*from : 0.0f);
        }
    }

    /* By all threads; `scratch` is free again after the next __syncthreads. */
    __device__ __forceinline__ void keep(const uf_columns_plan &p, uint4 *scratch, uint4 *to) {
        if (p.weight_vectors == 0) {
            gather(p, scratch);
        } else if (p.by_taps.divisor == 16) {
            store(scratch);
        } else {
#pragma unroll 1
            for (int i = (int)threadIdx.x; i < UF_COLUMNS_SMALL * PITCH; i += Tile::THREADS) {
                scratch[i] = make_uint4(0u, 0u, 0u, 0u);
            }
            __syncthreads();
            scatter(p, scratch);
        }
        __syncthreads();
        if constexpr (Tile::PARTS == 2) {
            const int lane = (int)threadIdx.x & 31;
            shared = to + lane;
            /* Each warp some channels, so that little is left to be computed of where it reads and
             * writes. */
            constexpr int ACROSS = TAPS_DOWN ? N / 2 : STEPS, ALONG = TAPS_DOWN ? STEPS : N / 2;
            static_assert(ACROSS % Tile::WARPS == 0, "as much for each");
#pragma unroll 1
            for (int across = columns_warp(); across < ACROSS; across += Tile::WARPS) {
#pragma unroll
                for (int along = 0; along < ALONG; ++along) {
                    const int step = TAPS_DOWN ? along : across;
                    const int n = 2 * (TAPS_DOWN ? across : along);
                    columns_by<Tile> made[2];
                    load(made, scratch, step, n);
#pragma unroll
                    for (int i = 0; i < 2; ++i) {
                        to[(step * N + n + i) * 32 + lane] = make_uint4(
                            made[i].word[0], made[i].word[1], made[i].word[2], made[i].word[3]);
                    }
                }
            }
        } else {
#pragma unroll
            for (int step = 0; step < STEPS; ++step) {
#pragma unroll
                for (int n = 0; n < N; n += 2) {
                    load(&by[step][n], scratch, step, n);
                }
            }
        }
    }

    /* Words of columns 8n to 8n + 15: cells are rows of matrices, but for f32 where these are to be
     * turned. */
    static __device__ __forceinline__ void load(columns_by<Tile> *made, const uint4 *scratch,
                                                int step, int n) {
        const int lane = (int)threadIdx.x & 31;
        uint32_t word[4];
        if constexpr (TAPS_DOWN) {
            uf_load_matrices(word,
                             uf_shared_address(scratch + ((lane & 7) + (lane >> 4) * 8) * PITCH +
                                               (lane >> 3 & 1)) +
                                 (uint32_t)(n * 8 * PITCH + 2 * step) * 16);
        } else if constexpr (Tile::MATH == UF_MATH_BF16) {
            uf_load_matrices_transposed(
                word, uf_shared_address(scratch + (lane & 15) * PITCH + (lane >> 4)) +
                          (uint32_t)(step * 16 * PITCH + n) * 16);
        } else {
            /* Channels as columns_pixels has them: both of a lane beside each other. */
            const uint32_t *const from =
                (const uint32_t *)(scratch + 2 * (lane & 3) * PITCH) + (lane >> 2);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                word[i] = from[(step * 8 + (i & 1)) * PITCH * 4 + (n + (i >> 1)) * 8];
            }
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (Tile::PARTS == 2) {
                made[i >> 1].set(i & 1, __uint_as_float(word[i]));
            } else {
                made[i >> 1].word[i & 1] = word[i];
            }
        }
    }

    template <int M>
    __device__ __forceinline__ void multiply(float (&sum)[M][N][4],
                                             const columns_fragment<Tile> (&a)[M], int step) const {
        if constexpr (Tile::PARTS == 2) {
            columns_by<Tile> all[N];
#pragma unroll
            for (int n = 0; n < N; ++n) {
                const uint4 words = shared[(step * N + n) * 32];
                all[n].word[0] = words.x;
                all[n].word[1] = words.y;
                all[n].word[2] = words.z;
                all[n].word[3] = words.w;
            }
            columns_multiply<Tile>(sum, a, all, 0);
        } else {
            columns_multiply<Tile>(sum, a, by[step], 0);
        }
    }
};

/* Where a word of row `channel` of a tile of y is, from the tile's begin: pieces of 16 bytes have
 * changed places as tensor copies do it, so that columns are free of bank conflicts. */
template <typename Tile>
static __device__ __forceinline__ uint32_t columns_at(int channel, int piece) {
    const int exchange = Tile::ROW == 128 ? channel & 7 : (channel >> 1) & 3;
    return (uint32_t)(channel * Tile::ROW + ((piece ^ exchange) << 4));
}

/* Where a lane's f32 of a fragment or of sums is: of pixel lane / 4 + 8 * half + 16 * m and of
 * channel 2 (lane % 4) + odd of the first eight. */
template <typename Tile>
static __device__ __forceinline__ uint32_t columns_word_at(int m, int half, int odd) {
    const int lane = (int)threadIdx.x & 31;
    const uint32_t first =
        columns_at<Tile>(2 * (lane & 3), lane >> 4) + (uint32_t)(lane >> 2 & 3) * 4;
    return (first ^ (uint32_t)(m * 64 + half * 32 + odd * 16)) + (uint32_t)(odd * Tile::ROW);
}

/* Scale and shift of a written channel; read as weights are, and for the same reason. */
template <typename T>
static __device__ __forceinline__ float2 columns_way(const uf_direct_conv &p, int32_t channel) {
    float2 way = make_float2(1.0f, 0.0f);
    if (p.scale != nullptr) {
        way.x = (float)((const T *)p.scale)[channel * p.scale_stride];
    }
    if (p.shift != nullptr) {
        way.y = (float)((const T *)p.shift)[channel * p.shift_stride];
    }
    return way;
}

/* Not inlined: copies of every activation for each sum of a lane would not fit the instruction
 * cache. */
static __device__ __noinline__ float columns_activate_one(uf_activation_kind kind, float value,
                                                          float parameter) {
    return uf_activate(kind, value, parameter);
}

/* The short ones in place. */
template <int A, int B, int C>
static __device__ __forceinline__ void columns_activate(const uf_direct_conv &p,
                                                        float (&values)[A][B][C]) {
    float *const flat = &values[0][0][0];
    if (p.activation == UF_ACTIVATION_RELU) {
#pragma unroll
        for (int i = 0; i < A * B * C; ++i) {
            flat[i] = uf_activate(UF_ACTIVATION_RELU, flat[i], 0.0f);
        }
    } else if (p.activation == UF_ACTIVATION_LEAKY_RELU) {
#pragma unroll
        for (int i = 0; i < A * B * C; ++i) {
            flat[i] = uf_activate(UF_ACTIVATION_LEAKY_RELU, flat[i], p.parameter);
        }
    } else if (p.activation != UF_ACTIVATION_IDENTITY) {
#pragma unroll
        for (int i = 0; i < A * B * C; ++i) {
            flat[i] = columns_activate_one(p.activation, flat[i], p.parameter);
        }
    }
}

/* What warps that share rows have in shared memory: stages, each with barriers that say when its
 * PIECES, all as long, have come. */
template <int PIECES>
struct columns_ring {
    uint64_t *full;
    unsigned char *stages;
    uf_ring at;

    __device__ __forceinline__ const unsigned char *stage(const uf_columns_plan &p) const {
        return stages + at.index * p.stage_bytes;
    }

    __device__ __forceinline__ void wait(int32_t piece) const {
        uf_barrier_wait(full + at.index * PIECES + piece, at.parity);
    }
};

/* One lane brings rows for all warps that share them, */
template <typename Tile>
static __device__ __forceinline__ bool columns_is_bringer() {
    return threadIdx.x % (32 * Tile::SHARE) == 0;
}

/* which wait for each other. */
template <typename Tile>
static __device__ __forceinline__ void columns_sync() {
    if (Tile::SHARE == 1) {
        __syncwarp();
    } else {
        static_assert(Tile::RINGS < 16, "named barriers");
        uf_named_barrier(1 + columns_warp() / Tile::SHARE, 32 * Tile::SHARE);
    }
}

/* Barriers of all rings; behind them is room for others. */
template <typename Tile, int PIECES>
static __device__ __forceinline__ columns_ring<PIECES> columns_ring_of(const uf_columns_plan &p,
                                                                       unsigned char *shared) {
    const int32_t number = columns_warp() / Tile::SHARE;
    columns_ring<PIECES> ring = {(uint64_t *)shared + number * UF_COLUMNS_STAGES * PIECES,
                                 shared + UF_COLUMNS_HEAD + number * p.stages * p.stage_bytes,
                                 {0, 0}};
    if (columns_is_bringer<Tile>()) {
#pragma unroll 1
        for (int32_t i = 0; i < p.stages * PIECES; ++i) {
            uf_barrier_init(ring.full + i, 1);
        }
        uf_barrier_init_fence();
    }
    columns_sync<Tile>();
    return ring;
}

/* A row of y, whose boxes are of a piece, and its window on x, or one of them, to a stage; by one
 * lane. */
template <int PIECES>
static __device__ __forceinline__ void
columns_bring(const uf_columns_plan &p, const CUtensorMap *tile, const CUtensorMap *window,
              int32_t unit, const columns_ring<PIECES> &ring, int32_t stage) {
    static_assert(UF_COLUMNS_SMALL % PIECES == 0, "channels of a piece");
    const columns_place at = columns_place_of(p, unit);
    const uint32_t to = uf_shared_address(ring.stages + stage * p.stage_bytes);
    const int32_t column = at.strip * UF_COLUMNS_PIXELS;
    uint64_t *const full = ring.full + stage * PIECES;
    if (PIECES > 1) { /* of a row alone */
        const uint32_t bytes = (uint32_t)p.tile_bytes / PIECES;
#pragma unroll
        for (int32_t i = 0; i < PIECES; ++i) {
            uf_barrier_expect(full + i, bytes);
            uf_copy_tensor(to + (uint32_t)i * bytes, tile, column, at.row,
                           i * (UF_COLUMNS_SMALL / PIECES), at.n, full + i);
        }
        return;
    }
    uf_barrier_expect(full, (uint32_t)(p.tile_bytes + p.window_bytes));
    if (tile != nullptr) {
        uf_copy_tensor(to, tile, column, at.row, 0, at.n, full);
    }
    if (window != nullptr) {
        uf_copy_tensor(to + (uint32_t)p.tile_bytes, window,
                       column * UF_COLUMNS_STRIDE - p.conv.padding[1] - p.window_shift,
                       at.row * UF_COLUMNS_STRIDE - p.conv.padding[0], 0, at.n, full);
    }
}

/* The first rows of a ring, from `unit` on. */
template <typename Tile, int PIECES>
static __device__ __forceinline__ void
columns_begin(const uf_columns_plan &p, const CUtensorMap *tile, const CUtensorMap *window,
              int32_t unit, int32_t end, const columns_ring<PIECES> &ring) {
    if (columns_is_bringer<Tile>()) {
#pragma unroll 1
        for (int32_t i = 0; i < p.stages && unit < end; ++i, unit += Tile::RINGS) {
            columns_bring(p, tile, window, unit, ring, i);
        }
    }
}

/* All lanes have read the stage of row `unit`: it takes the row that comes then. */
template <typename Tile, int PIECES>
static __device__ __forceinline__ void
columns_next(const uf_columns_plan &p, const CUtensorMap *tile, const CUtensorMap *window,
             int32_t unit, int32_t end, columns_ring<PIECES> &ring) {
    columns_sync<Tile>();
    const int32_t next = unit + Tile::RINGS * p.stages;
    if (columns_is_bringer<Tile>() && next < end) {
        columns_bring(p, tile, window, next, ring, ring.at.index);
    }
    ring.at.next(p.stages);
}

#endif

#endif
