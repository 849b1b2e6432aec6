/* fprop_mainloop.cuh - the kernel of row_stream/fprop_launch.cu. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_ROW_STREAM_FPROP_MAINLOOP_CUH
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_ROW_STREAM_FPROP_MAINLOOP_CUH

#include "kernels/cuda/conv/simt_direct/epilogue.cuh"
#include "kernels/cuda/conv/mma_few_channels/row_stream/fprop_plan.h"
#include "kernels/cuda/conv/mma_few_channels/row_stream/rows.cuh"
#include "kernels/cuda/arch/sm80_mma_split.cuh"

/* A warp has N 8-channel blocks of LAGS rows of pixels in M 16-pixel blocks. A lane has 2 * M
 * neighbouring pixels of a row, which one store writes; they are rows q and q + 8 of the
 * fragments. */
template <typename Element, uf_mma_math MATH_, int M_, int N_, int LAGS_>
struct row_stream_fprop_tile {
    typedef Element T;
    static constexpr uf_mma_math MATH = MATH_;
    static constexpr int PARTS = MATH == UF_MMA_TF32X3 ? 2 : 1, M = M_, N = N_, LAGS = LAGS_;
    static constexpr int MINE = 2 * M;                       /* pixels of a lane */
    static constexpr int KEEP = MATH == UF_MMA_BF16 ? 4 : 2; /* elements of K of a lane */
    static constexpr int DEPTH = 4 * KEEP;
    static constexpr int WORDS = 2 * PARTS;         /* words of a lane in a fragment of weights */
    static constexpr int FRAGMENT = 32 * 4 * WORDS; /* bytes of a fragment of weights */
};

/* The type of a store of a lane's pixels. */
template <int BYTES>
struct row_stream_fprop_vector;
template <>
struct row_stream_fprop_vector<4> {
    typedef uint32_t type;
};
template <>
struct row_stream_fprop_vector<8> {
    typedef uint2 type;
};
template <>
struct row_stream_fprop_vector<16> {
    typedef uint4 type;
};

/* Columns inside the image for the tile that begins at pixel `column`. */
static __device__ __forceinline__ row_stream_inside
row_stream_inside_at(const uf_row_stream_fprop_conv &p, int32_t column) {
    return row_stream_inside_of(column * p.conv.stride[1] - p.conv.padding[1],
                                min(p.tile, p.written[1] - column), p.conv.stride[1],
                                p.conv.kernel[1], p.conv.dilation[1], p.conv.axis[1].read);
}

/* A block's output: rows `row` to end - 1, of each a tile of pixels from `column`. */
struct row_stream_coord {
    int32_t n, group, slice, row, end, column;
    uint32_t corner; /* low 32 bits of row_stream_corner */
    row_stream_inside inside;
    uint8_t pixels[UF_ROW_STREAM_FPROP_WARPS]; /* pixels of each warp: ROW_STREAM_NONE, ... */
};

static_assert(2 * UF_ROW_STREAM_FPROP_STAGES * sizeof(uint64_t) + sizeof(row_stream_coord) <=
                  UF_ROW_STREAM_FPROP_HEAD,
              "barriers and what a block makes are before the weights");

/* NONE: no pixels. INNER: all columns that their taps read are inside the image. EDGE: others. */
enum { ROW_STREAM_NONE, ROW_STREAM_INNER, ROW_STREAM_EDGE };

/* The element of the group's first channel in row 0 that the first tap of the tile's first pixel
 * reads, inside the image or not. */
template <typename T>
static __device__ __forceinline__ const T *row_stream_corner(const uf_row_stream_fprop_conv &p,
                                                             const row_stream_coord &at) {
    return (const T *)p.conv.read + at.n * p.conv.read_stride[0] +
           (int64_t)at.group * p.conv.read_per_group * p.conv.read_stride[1] +
           (at.column * p.conv.stride[1] - p.conv.padding[1]);
}

template <typename Tile>
static __device__ __forceinline__ void row_stream_coord_of(const uf_row_stream_fprop_conv &p,
                                                           row_stream_coord &at) {
    int32_t rest = (int32_t)blockIdx.x;
    at.slice = rest % p.slices;
    rest /= p.slices;
    at.column = rest % p.tiles * p.tile;
    rest /= p.tiles;
    at.row = rest % p.bands * p.band;
    at.end = min(at.row + p.band, p.written[0]);
    rest /= p.bands;
    at.group = rest % p.conv.groups;
    at.n = rest / p.conv.groups;
    at.inside = row_stream_inside_at(p, at.column);
    at.corner = (uint32_t)(uintptr_t)row_stream_corner<typename Tile::T>(p, at);
    const int32_t count = min(p.tile, p.written[1] - at.column);
    const int32_t taps = (p.conv.kernel[1] - 1) * p.conv.dilation[1];
#pragma unroll 1
    for (int32_t warp = 0; warp < p.warps; ++warp) {
        const int32_t first = warp * (16 * Tile::M);
        const int32_t last = min(first + 16 * Tile::M, count) - 1;
        const bool edge = first * p.conv.stride[1] < at.inside.begin ||
                          last * p.conv.stride[1] + taps >= at.inside.end;
        at.pixels[warp] = (uint8_t)(first >= count ? ROW_STREAM_NONE
                                    : edge         ? ROW_STREAM_EDGE
                                                   : ROW_STREAM_INNER);
    }
}

/* The row that a row of the filter reads for a row of pixels. */
static __device__ __forceinline__ int32_t row_stream_row(const uf_row_stream_fprop_conv &p,
                                                         int32_t pixels, int32_t which) {
    return pixels * p.conv.stride[0] - p.conv.padding[0] + which * p.conv.dilation[0];
}

#if UF_HAS_WGMMA

/* The producer warp: loads rows unconverted, one channel a lane. */
template <typename Tile>
static __device__ __forceinline__ void row_stream_produce(const uf_row_stream_fprop_conv &p,
                                                          const row_stream_coord &at, uint32_t ring,
                                                          uint64_t *full, uint64_t *empty) {
    typedef typename Tile::T T;
    const int32_t lane = (int32_t)threadIdx.x & 31;
    const row_stream_inside &inside = at.inside;
    const bool there = lane < p.chunk && inside.end > inside.begin;
    const int64_t channel = p.conv.read_stride[1];
    const T *const corner = row_stream_corner<T>(p, at) + inside.begin + lane * channel;
    const uint32_t length = (uint32_t)((inside.end - inside.begin) * (int32_t)sizeof(T));
    uf_ring at_stage = {0, 0};
#pragma unroll 1
    for (int32_t pixels = at.row; pixels < at.end + Tile::LAGS - 1; ++pixels) {
#pragma unroll 1
        for (int32_t which = 0; which < p.classes; ++which) {
            const int32_t h = row_stream_row(p, pixels, which);
            if ((uint32_t)h >= (uint32_t)p.conv.axis[0].read) {
                continue;
            }
            const T *from = corner + h * p.conv.read_stride[2];
#pragma unroll 1
            for (int32_t chunk = 0; chunk < p.chunks; ++chunk) {
                uint64_t *const barrier = full + at_stage.index;
                const uint32_t head = (uint32_t)(uintptr_t)from & 15u;
                const uint32_t bytes = there ? (head + length + 15u) & ~15u : 0u;
                const uint32_t sum = __reduce_add_sync(0xffffffffu, bytes);
                /* offset of the first channel's corner, modulo 16 */
                const uint32_t shift =
                    ((uint32_t)(uintptr_t)from -
                     (uint32_t)((inside.begin + lane * channel) * (int64_t)sizeof(T))) &
                    15u;
                uf_barrier_wait(empty + at_stage.index, at_stage.parity ^ 1);
                if (lane == 0) {
                    uf_barrier_expect(barrier, sum);
                }
                __syncwarp();
                if (there) {
                    uf_copy_bulk(ring + at_stage.index * p.stage_bytes + shift + lane * p.pitch +
                                     inside.begin * (int32_t)sizeof(T) - head,
                                 (const char *)from - head, bytes, barrier);
                }
                at_stage.next(p.stages);
                from += p.chunk * channel;
            }
        }
    }
}

template <typename T>
static __device__ __forceinline__ uint32_t row_stream_get(uint32_t shared) {
    return sizeof(T) == 2 ? row_stream_half(shared) : row_stream_word(shared);
}

/* Multiplies a stage. `pixel`: offsets of a lane's pixels from the stage's corner, in the lane's
 * channel. EDGE: some columns that their taps read are outside the image. */
template <typename Tile, bool EDGE>
static __device__ __forceinline__ void
row_stream_multiply(const uf_row_stream_fprop_conv &p, const row_stream_coord &at,
                    float (&sum)[Tile::LAGS][Tile::N][Tile::M][4],
                    const uint32_t (&pixel)[Tile::MINE], uint32_t corner, uint32_t weights) {
    typedef typename Tile::T T;
    constexpr int GROUP = Tile::LAGS * Tile::N <= 4 ? Tile::LAGS * Tile::N : Tile::N;
    const uint32_t four = (uint32_t)(4 * p.pitch);
    /* Relative to the stage's corner, like `pixel`; moved back from tap to tap in place of the
     * pixels. */
    row_stream_valid valid =
        row_stream_valid_of(at.inside, (uint32_t)(((int32_t)threadIdx.x & 3) * p.pitch), sizeof(T));
#pragma unroll 1
    for (int32_t s = 0; s < p.conv.kernel[1];
         ++s, corner += p.tap_bytes, valid.low -= p.tap_bytes) {
        uint32_t coord = corner;
#pragma unroll 1
        for (int32_t c = 0; c < p.chunk; c += Tile::DEPTH, coord += Tile::KEEP * four) {
            uint32_t big[Tile::M][4], small[Tile::PARTS == 2 ? Tile::M : 1][4];
#pragma unroll
            for (int i = 0; i < Tile::MINE; ++i) {
                uint32_t value[Tile::KEEP];
#pragma unroll
                for (int k = 0; k < Tile::KEEP; ++k) {
                    value[k] = !EDGE || valid.holds(pixel[i])
                                   ? row_stream_get<T>(pixel[i] + (coord + k * four))
                                   : 0;
                }
                /* Pixel i is row i % 2 of fragment i / 2. */
                uint32_t *const to = &big[i / 2][i % 2];
                if (Tile::MATH == UF_MMA_BF16) {
                    to[0] = __byte_perm(value[0], value[1], 0x5410);
                    to[2] = __byte_perm(value[Tile::KEEP - 2], value[Tile::KEEP - 1], 0x5410);
                } else if (Tile::MATH == UF_MMA_TF32) {
                    to[0] = mma_round_by_bits(__uint_as_float(value[0]));
                    to[2] = mma_round_by_bits(__uint_as_float(value[1]));
                } else {
                    uint32_t *const rest = &small[Tile::PARTS == 2 ? i / 2 : 0][i % 2];
                    mma_split_tf32_by_bits(__uint_as_float(value[0]), &to[0], &rest[0]);
                    mma_split_tf32_by_bits(__uint_as_float(value[1]), &to[2], &rest[2]);
                }
            }
#pragma unroll
            for (int first = 0; first < Tile::LAGS * Tile::N; first += GROUP) {
                if (Tile::PARTS == 2) {
                    uint32_t by[GROUP][4];
                    float part[GROUP][Tile::M][4] = {};
#pragma unroll
                    for (int g = 0; g < GROUP; ++g) {
                        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];\n"
                                     : "=r"(by[g][0]), "=r"(by[g][1]), "=r"(by[g][2]),
                                       "=r"(by[g][3])
                                     : "r"(weights + (first + g) * Tile::FRAGMENT)
                                     : "memory");
                    }
                    /* The tensor core truncates its accumulator: each step is summed alone. */
#pragma unroll
                    for (int turn = 0; turn < 3; ++turn) {
#pragma unroll
                        for (int g = 0; g < GROUP; ++g) {
#pragma unroll
                            for (int m = 0; m < Tile::M; ++m) {
                                uf_mma_tf32(part[g][m],
                                            turn == 0 ? small[Tile::PARTS == 2 ? m : 0] : big[m],
                                            turn == 1 ? &by[g][2] : &by[g][0]);
                            }
                        }
                    }
#pragma unroll
                    for (int g = 0; g < GROUP; ++g) {
#pragma unroll
                        for (int m = 0; m < Tile::M; ++m) {
#pragma unroll
                            for (int i = 0; i < 4; ++i) {
                                sum[(first + g) / Tile::N][(first + g) % Tile::N][m][i] +=
                                    part[g][m][i];
                            }
                        }
                    }
                } else {
#pragma unroll
                    for (int g = first; g < first + GROUP; ++g) {
                        uint32_t by[2];
                        asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];\n"
                                     : "=r"(by[0]), "=r"(by[1])
                                     : "r"(weights + g * Tile::FRAGMENT)
                                     : "memory");
#pragma unroll
                        for (int m = 0; m < Tile::M; ++m) {
                            float(&to)[4] = sum[g / Tile::N][g % Tile::N][m];
                            if (Tile::MATH == UF_MMA_BF16) {
                                uf_mma_bf16(to, big[m], by);
                            } else {
                                uf_mma_tf32(to, big[m], by);
                            }
                        }
                    }
                }
            }
            weights += Tile::LAGS * Tile::N * Tile::FRAGMENT;
        }
    }
}

/* Loads weights as fragments, by row class, chunk, tap across, k-step, lag and 8-channel block. */
template <typename Tile>
static __device__ __forceinline__ void row_stream_load_weights(const uf_row_stream_fprop_conv &p,
                                                               const row_stream_coord &at,
                                                               uint32_t *weights) {
    typedef typename Tile::T T;
    const int32_t lane = (int32_t)threadIdx.x & 31;
    const int32_t deep = p.chunk / Tile::DEPTH;
    const int32_t all = p.classes * p.chunks * p.conv.kernel[1] * deep * Tile::LAGS * Tile::N;
    const T *const from = (const T *)p.conv.weight + at.group * p.conv.w_group;
#pragma unroll 4
    for (int32_t i = (int32_t)threadIdx.x >> 5; i < all; i += p.warps) {
        const int32_t step = i / (Tile::LAGS * Tile::N);
        const int32_t lag = (i - step * (Tile::LAGS * Tile::N)) / Tile::N;
        const int32_t n = i % Tile::N;
        int32_t rest = step / deep;
        int32_t c = (step - rest * deep) * Tile::DEPTH;
        const int32_t across = rest / p.conv.kernel[1];
        const int32_t s = rest - across * p.conv.kernel[1];
        rest = across / p.chunks;
        c += (across - rest * p.chunks) * p.chunk;
        const int32_t r = Tile::LAGS == 1 ? rest : Tile::LAGS - 1 - lag;
        const int32_t k = (at.slice * Tile::N + n) * 8 + (lane >> 2);
        const T *const first = from + k * p.conv.w_written + (c + (lane & 3)) * p.conv.w_read +
                               r * p.conv.w_row + s * p.conv.w_column;
        T value[Tile::KEEP];
#pragma unroll
        for (int j = 0; j < Tile::KEEP; ++j) {
            value[j] = k < p.conv.written_per_group ? first[4 * j * p.conv.w_read] : (T)0.0f;
        }
        uint32_t *const to = weights + (i * 32 + lane) * Tile::WORDS;
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            if constexpr (Tile::MATH == UF_MMA_BF16) {
                to[j] = (uint32_t)value[2 * j].bits | (uint32_t)value[2 * j + 1].bits << 16;
            } else if (Tile::MATH == UF_MMA_TF32) {
                to[j] = uf_round_tf32((float)value[j]);
            } else {
                mma_split_tf32((float)value[j], &to[j], &to[j + Tile::WORDS / 2]);
            }
        }
    }
}

/* The exact fix-up of a row of a warp's pixels. */
template <typename Tile>
static __device__ __noinline__ void
row_stream_store_exact(const uf_row_stream_fprop_conv &p, const row_stream_coord &at, int32_t row) {
    typedef typename Tile::T T;
    const int32_t column = at.column + ((int32_t)threadIdx.x >> 5) * (16 * Tile::M);
    const int32_t end = min(min(column + 16 * Tile::M, at.column + p.tile), p.written[1]);
    direct_coord coord = {};
    coord.n = at.n;
    coord.group = at.group;
    const int32_t first = at.slice * Tile::N * 8;
    const int32_t count = min(Tile::N * 8, p.conv.written_per_group - first);
#pragma unroll 1
    for (int32_t channel = first; channel < first + count; ++channel) {
        const direct_epilogue epilogue =
            direct_epilogue_of<T>(p.conv, at.group * p.conv.written_per_group + channel);
#pragma unroll 1
        for (int32_t w = column + ((int32_t)threadIdx.x & 31); w < end; w += 32) {
            direct_channel<T>(
                p.conv, coord,
                channel)[row * p.conv.written_stride[2] + w * p.conv.written_stride[3]] =
                (T)direct_scale(epilogue, direct_exact<T>(p.conv, coord, channel, row, w));
        }
    }
}

/* Stores a row of a warp's pixels; a lane's begin at `column`. */
template <typename Tile>
static __device__ __forceinline__ void
row_stream_store(const uf_row_stream_fprop_conv &p, const row_stream_coord &at,
                 const float (&sum)[Tile::N][Tile::M][4], int32_t row, int32_t column) {
    typedef typename Tile::T T;
    const int32_t lane = (int32_t)threadIdx.x & 31;
    const int32_t end = min(at.column + p.tile, p.written[1]);
    direct_coord coord = {};
    coord.n = at.n;
    coord.group = at.group;
#pragma unroll
    for (int n = 0; n < Tile::N; ++n) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            const int32_t channel = (at.slice * Tile::N + n) * 8 + 2 * (lane & 3) + e;
            if (channel >= p.conv.written_per_group || column >= end) {
                continue;
            }
            const direct_epilogue epilogue =
                direct_epilogue_of<T>(p.conv, at.group * p.conv.written_per_group + channel);
            T value[Tile::MINE];
#pragma unroll
            for (int i = 0; i < Tile::MINE; ++i) {
                value[i] = (T)direct_scale(epilogue, sum[n][i / 2][i % 2 * 2 + e]);
            }
            T *const to = direct_channel<T>(p.conv, coord, channel) +
                          row * p.conv.written_stride[2] + column * p.conv.written_stride[3];
            if (p.vector && column + Tile::MINE <= end) {
                typename row_stream_fprop_vector<sizeof value>::type all;
                memcpy(&all, value, sizeof all);
                *(decltype(all) *)to = all;
            } else {
#pragma unroll
                for (int i = 0; i < Tile::MINE; ++i) {
                    if (column + i < end) {
                        to[i * p.conv.written_stride[3]] = value[i];
                    }
                }
            }
        }
    }
}

template <typename Tile>
static __device__ __forceinline__ void
row_stream_consume(const uf_row_stream_fprop_conv &p, const row_stream_coord &at, uint32_t ring,
                   uint32_t weights, uint64_t *full, uint64_t *empty) {
    typedef typename Tile::T T;
    constexpr int32_t BYTES = (int32_t)sizeof(T);
    const int32_t lane = (int32_t)threadIdx.x & 31;
    const int32_t first = ((int32_t)threadIdx.x >> 5) * (16 * Tile::M);
    const int32_t count = min(p.tile, p.written[1] - at.column); /* pixels of the tile */
    const int32_t mine = first + (lane >> 2) * Tile::MINE;
    uint32_t pixel[Tile::MINE];
#pragma unroll
    for (int i = 0; i < Tile::MINE; ++i) {
        /* Lanes beyond the last pixel repeat it and store nothing. */
        pixel[i] = (uint32_t)(max(min(mine + i, count - 1), 0) * p.conv.stride[1] * BYTES +
                              (lane & 3) * p.pitch);
    }
    weights += (uint32_t)(lane * 4 * Tile::WORDS);
    float sum[Tile::LAGS][Tile::N][Tile::M][4] = {};
    uf_ring at_stage = {0, 0};
#pragma unroll 1
    for (int32_t pixels = at.row; pixels < at.end + Tile::LAGS - 1; ++pixels) {
#pragma unroll 1
        for (int32_t which = 0; which < p.classes; ++which) {
            const int32_t h = row_stream_row(p, pixels, which);
            if ((uint32_t)h >= (uint32_t)p.conv.axis[0].read) {
                continue;
            }
            uint32_t row = at.corner + (uint32_t)h * p.row_bytes;
#pragma unroll 1
            for (int32_t chunk = 0; chunk < p.chunks; ++chunk, row += p.chunk_bytes) {
                const uint32_t stage =
                    ring + (uint32_t)(at_stage.index * p.stage_bytes) + (row & 15u);
                uf_barrier_wait(full + at_stage.index, at_stage.parity);
                const uint32_t by =
                    weights + (uint32_t)((which * p.chunks + chunk) * p.stage_weight_bytes);
                const int32_t what = at.pixels[threadIdx.x >> 5];
                if (what == ROW_STREAM_EDGE) {
                    row_stream_multiply<Tile, true>(p, at, sum, pixel, stage, by);
                } else if (what == ROW_STREAM_INNER) {
                    row_stream_multiply<Tile, false>(p, at, sum, pixel, stage, by);
                }
                uf_barrier_release(empty + at_stage.index, lane == 0);
                at_stage.next(p.stages);
            }
        }
        const int32_t done = pixels - (Tile::LAGS - 1);
        if (done >= at.row && at.pixels[threadIdx.x >> 5] != ROW_STREAM_NONE) {
            float probe = 0.0f;
#pragma unroll
            for (int n = 0; n < Tile::N; ++n) {
#pragma unroll
                for (int m = 0; m < Tile::M; ++m) {
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        probe = fmaf(sum[0][n][m][i], 0.0f, probe);
                    }
                }
            }
            if (__all_sync(0xffffffffu, probe == 0.0f)) {
                row_stream_store<Tile>(p, at, sum[0], done, at.column + mine);
            } else {
                row_stream_store_exact<Tile>(p, at, done);
            }
        }
#pragma unroll
        for (int lag = 0; lag < Tile::LAGS; ++lag) {
#pragma unroll
            for (int n = 0; n < Tile::N; ++n) {
#pragma unroll
                for (int m = 0; m < Tile::M; ++m) {
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        sum[lag][n][m][i] = lag + 1 < Tile::LAGS
                                                ? sum[lag + 1 < Tile::LAGS ? lag + 1 : 0][n][m][i]
                                                : 0.0f;
                    }
                }
            }
        }
    }
}

#endif

template <typename Tile>
static __global__ void __launch_bounds__((UF_ROW_STREAM_FPROP_WARPS + 1) * 32, 2)
    conv_row_stream_fprop(const __grid_constant__ uf_row_stream_fprop_conv p) {
#if UF_HAS_WGMMA
    extern __shared__ __align__(128) unsigned char row_stream_shared[];
    uint64_t *const full = (uint64_t *)row_stream_shared;
    uint64_t *const empty = full + UF_ROW_STREAM_FPROP_STAGES;
    /* In shared memory, because registers are few. */
    row_stream_coord &at = *(row_stream_coord *)(empty + UF_ROW_STREAM_FPROP_STAGES);
    uint32_t *const weights = (uint32_t *)(row_stream_shared + UF_ROW_STREAM_FPROP_HEAD);
    const uint32_t ring =
        uf_shared_address(row_stream_shared + UF_ROW_STREAM_FPROP_HEAD + p.weight_bytes);
    if (threadIdx.x == 0) {
        row_stream_coord_of<Tile>(p, at);
#pragma unroll 1
        for (int32_t i = 0; i < p.stages; ++i) {
            uf_barrier_init(full + i, 1);
            uf_barrier_init(empty + i, (uint32_t)p.warps);
        }
        uf_barrier_init_fence();
    }
    __syncthreads();
    uf_overlap_launches();
    if ((int32_t)threadIdx.x >= 32 * p.warps) {
        row_stream_produce<Tile>(p, at, ring, full, empty);
        return;
    }
    row_stream_load_weights<Tile>(p, at, weights);
    uf_named_barrier(1, 32 * p.warps);
    row_stream_consume<Tile>(p, at, ring, uf_shared_address(weights), full, empty);
#endif
}

#endif
