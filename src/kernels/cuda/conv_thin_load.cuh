/* conv_thin_load.cuh - what conv_thin has before it computes: tiles, windows and weights in shared
 * memory. */
#ifndef UF_KERNELS_CUDA_CONV_THIN_LOAD_CUH
#define UF_KERNELS_CUDA_CONV_THIN_LOAD_CUH

#include "kernels/cuda/conv_direct_load.cuh"
#include "kernels/cuda/conv_thin_plan.h"
#include "kernels/cuda/mma_split.cuh"

/* PARTS: 2 splits operands into big and small halves (three products), 1 rounds them. N eights of
 * columns and M sixteens of cells per warp. */
template <typename Element, uf_math MATH_, int N_>
struct thin_tile {
    typedef Element T;
    static constexpr uf_math MATH = MATH_;
    static constexpr int PARTS = MATH == UF_MATH_FP32 ? 2 : 1, N = N_;
    static constexpr int M = N == 8 && PARTS == 2 ? 1 : N > 2 ? 2 : 4; /* uf_thin_rows */
    static constexpr int BLOCKS = N == 1 && PARTS == 1 ? 3 : 2;        /* uf_thin_resident */
    static constexpr int UNIT = MATH == UF_MATH_BF16 ? 8 : 4;          /* elements of 16 bytes */
};

/* Neighbours of K as a product takes them: one word of TF32 (FP32 is split later), two of bf16. */
template <typename Tile>
static __device__ __forceinline__ uint32_t thin_word(const float (&value)[1]) {
    return Tile::MATH == UF_MATH_TF32 ? mma_round_by_bits(value[0]) : __float_as_uint(value[0]);
}

template <typename Tile>
static __device__ __forceinline__ uint32_t thin_word(const float (&value)[2]) {
    return uf_pack_bf16(value[0], value[1]);
}

template <typename Tile>
static __device__ __forceinline__ uint32_t thin_word(const __nv_bfloat16 (&value)[2]) {
    return (uint32_t)__bfloat16_as_ushort(value[0]) | (uint32_t)__bfloat16_as_ushort(value[1])
                                                          << 16;
}

static __device__ __forceinline__ direct_place thin_place_of(const uf_thin_conv &p, int32_t group,
                                                             int32_t tile) {
    const uf_direct_axis &rows = p.conv.axis[0], &columns = p.conv.axis[1];
    direct_place at;
    const int32_t down = direct_divide(p.by_tiles_w, tile);
    at.cell[1] = columns.cell_first + (tile - down * columns.tiles) * columns.tile;
    at.n = direct_divide(p.by_tiles_h, down);
    at.cell[0] = rows.cell_first + (down - at.n * rows.tiles) * rows.tile;
    at.group = group;
    at.slice = 0;
    return at;
}

/* WIDTH neighbours to shared memory, `size` bytes of them and zeros for the others, as they are
 * stored. */
template <int WIDTH, typename T>
static __device__ __forceinline__ void thin_copy(uint32_t to, const T *from, int size) {
#if UF_HAS_MMA
    constexpr int BYTES = WIDTH * (int)sizeof(T);
    if (BYTES == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from),
                     "r"(size)
                     : "memory");
    } else if (BYTES == 2) {
        uint16_t bits = 0;
        if (size > 0) {
            bits = *(const uint16_t *)from;
        }
        asm volatile("st.shared.u16 [%0], %1;\n" ::"r"(to), "h"(bits) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;\n" ::"r"(to), "l"(from),
                     "n"(BYTES == 8 ? 8 : 4), "r"(size)
                     : "memory");
    }
#endif
}

/* A place of the window: the elements of an aligned copy; where it lies from the first, in memory
 * and in shared memory. The same for all tiles and channels, so it is made once. */
struct __align__(16) thin_position {
    int32_t from, to, row, column;
};

static __device__ __forceinline__ void thin_make_positions(const uf_thin_conv &p,
                                                           thin_position *positions) {
    const uf_direct_axis &rows = p.conv.axis[0];
    for (int32_t i = (int32_t)threadIdx.x; i < p.positions; i += (int32_t)blockDim.x) {
        const int32_t line = direct_divide(p.by_vectors, i);
        const int32_t residue = direct_divide(p.conv.by_places, line);
        thin_position at;
        at.column = (i - line * p.vectors) * p.width;
        at.row = (line - residue * rows.places) * rows.in_step + rows.residue[residue];
        at.from =
            at.row * (int32_t)p.conv.read_stride[2] + at.column * (int32_t)p.conv.read_stride[3];
        at.to = line * p.conv.pitch + at.column;
        positions[i] = at;
    }
}

/* The window of a chunk of channels, zeros outside and beyond the last channel: a thread copies the
 * same place of every `share`-th channel. */
template <int WIDTH, typename T>
static __device__ __forceinline__ void thin_load_by(const uf_thin_conv &p, const direct_place &at,
                                                    int32_t first_channel,
                                                    const thin_position *positions, T *window) {
    const uf_direct_conv &conv = p.conv;
    const uf_direct_axis &rows = conv.axis[0], &columns = conv.axis[1];
    const int32_t h0 = at.cell[0] * rows.in_step + rows.low;
    const int32_t w0 = at.cell[1] * columns.in_step + columns.low;
    const T *const first =
        (const T *)conv.read + at.n * conv.read_stride[0] +
        ((int64_t)at.group * conv.read_per_group + first_channel) * conv.read_stride[1] +
        h0 * conv.read_stride[2] + w0 * conv.read_stride[3];
    const uint32_t shared = (uint32_t)__cvta_generic_to_shared(window);
    const int32_t share = 1 << p.share_bits;
    const int32_t to_next = share * conv.channel_words * (int32_t)sizeof(T);
#pragma unroll 1
    for (int32_t task = (int32_t)threadIdx.x; task < p.positions << p.share_bits;
         task += (int32_t)blockDim.x) {
        const int32_t c = direct_divide(p.by_positions, task);
        const thin_position place = positions[task - c * p.positions];
        const int32_t h = h0 + place.row;
        const int32_t w = w0 + place.column;
        const bool inside =
            (uint32_t)h < (uint32_t)rows.read && (uint32_t)w < (uint32_t)columns.read;
        const T *from =
            inside ? first + c * conv.read_stride[1] + place.from : (const T *)conv.read;
        const int64_t from_next = inside ? share * conv.read_stride[1] : 0;
        const int size = inside ? WIDTH * (int)sizeof(T) : 0;
        uint32_t to = shared + (uint32_t)((c * conv.channel_words + place.to) * (int32_t)sizeof(T));
        const int32_t all = (conv.chunk - c + share - 1) >> p.share_bits;
        int32_t left = (conv.read_per_group - first_channel - c + share - 1) >> p.share_bits;
        left = max(min(left, all), 0);
        int32_t beyond = all - left;
        /* No branches among copies: nvcc puts three empty loads before each run of them. */
#pragma unroll 1
        for (; left >= 4; left -= 4) {
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                thin_copy<WIDTH>(to, from, size);
                from += from_next;
                to += to_next;
            }
        }
#pragma unroll 1
        for (; left > 0; --left) {
            thin_copy<WIDTH>(to, from, size);
            from += from_next;
            to += to_next;
        }
#pragma unroll 1
        for (; beyond > 0; --beyond) {
            thin_copy<WIDTH>(to, (const T *)conv.read, 0);
            to += to_next;
        }
    }
}

template <typename T>
static __device__ __forceinline__ void thin_load(const uf_thin_conv &p, const direct_place &at,
                                                 int32_t first_channel,
                                                 const thin_position *positions, T *window) {
    if (p.width == 4) {
        thin_load_by<4>(p, at, first_channel, positions, window);
    } else if (p.width == 2) {
        thin_load_by<2>(p, at, first_channel, positions, window);
    } else {
        thin_load_by<1>(p, at, first_channel, positions, window);
    }
}

/* Where a record finds its elements, from its place in the window: elements beyond the last, whose
 * weights are zeros, are the first. */
static __device__ __forceinline__ void thin_make_sources(const uf_thin_conv &p, int32_t *sources) {
    for (int32_t i = (int32_t)threadIdx.x; i < p.source_words; i += (int32_t)blockDim.x) {
        const int32_t c = p.gathered ? i / p.offsets[1] : i;
        sources[i] = c >= p.conv.chunk ? 0
                                       : c * p.conv.channel_words +
                                             (p.gathered ? p.column_from[i - c * p.offsets[1]] : 0);
    }
}

/* The window as records: each element is rounded once, for all taps that read it. */
template <typename Tile>
static __device__ __forceinline__ void thin_make_records(const uf_thin_conv &p,
                                                         const typename Tile::T *window,
                                                         const int32_t *sources, uint4 *records) {
    typedef typename Tile::T T;
    constexpr int PER_WORD = Tile::UNIT / 4;
    const int32_t threads = (int32_t)blockDim.x;
#pragma unroll 1
    for (int32_t i = (int32_t)threadIdx.x; i < p.records; i += 2 * threads) {
        /* Two at a time, or one twice. */
        const int32_t two[2] = {i, i + threads < p.records ? i + threads : i};
        const T *from[2];
        uint4 *to[2];
#pragma unroll
        for (int k = 0; k < 2; ++k) {
            from[k] = window + two[k];
            to[k] = records + two[k];
            if (p.gathered) {
                const int32_t line = direct_divide(p.by_tile_w, two[k]);
                from[k] = window + line * p.conv.pitch +
                          (two[k] - line * p.conv.axis[1].tile) * p.conv.axis[1].in_step;
            } else if (p.by_skew.divisor > 0) {
                to[k] += direct_divide(p.by_skew, two[k]);
            }
        }
        const int4 *source = (const int4 *)sources;
#pragma unroll 1
        for (int32_t u = 0; u < p.record; ++u) {
            uint32_t word[2][4];
#pragma unroll
            for (int half = 0; half < PER_WORD; ++half) {
                const int4 at = source[half];
#pragma unroll
                for (int k = 0; k < 2; ++k) {
                    const T four[4] = {from[k][at.x], from[k][at.y], from[k][at.z], from[k][at.w]};
#pragma unroll
                    for (int m = 0; m < 4 / PER_WORD; ++m) {
                        T value[PER_WORD];
#pragma unroll
                        for (int j = 0; j < PER_WORD; ++j) {
                            value[j] = four[m * PER_WORD + j];
                        }
                        word[k][half * 2 + m] = thin_word<Tile>(value);
                    }
                }
            }
#pragma unroll
            for (int k = 0; k < 2; ++k) {
                *to[k] = make_uint4(word[k][0], word[k][1], word[k][2], word[k][3]);
                to[k] += p.unit_plane;
            }
            source += PER_WORD;
        }
    }
}

/* An element of the depth: where its channel's weights are, the channel in the chunk, or -1, and
 * where its offsets stand among the taps. */
struct __align__(8) thin_deep {
    int32_t from;
    int16_t channel;
    uint8_t row, column;
};

/* They, by unit, and behind them where each phase's tap at each offset is among the weights, or
 * INT32_MIN: rows and then columns. */
template <typename Tile>
static __device__ __forceinline__ void thin_make_depth(const uf_thin_conv &p, thin_deep *depth) {
    const int32_t elements = p.steps * 2 * Tile::UNIT;
    for (int32_t i = (int32_t)threadIdx.x; i < elements; i += (int32_t)blockDim.x) {
        const int32_t unit = i / Tile::UNIT;
        const int32_t place = unit / p.record;
        const int32_t k = (unit - place * p.record) * Tile::UNIT + i % Tile::UNIT;
        const int32_t by = p.gathered ? k : place;
        const int32_t over = by / p.offsets[1];
        const int32_t c = p.gathered ? over : k;
        const bool there = unit < p.units && c < p.conv.chunk;
        thin_deep deep;
        deep.from = there ? c * (int32_t)p.conv.w_read : 0;
        deep.channel = (int16_t)(there ? c : -1);
        deep.row = (uint8_t)(there ? (p.gathered ? place : over) : 0);
        deep.column = (uint8_t)(there ? by - over * p.offsets[1] : 0);
        depth[i] = deep;
    }
    int32_t *const taps = (int32_t *)(depth + elements);
    for (int32_t i = (int32_t)threadIdx.x; i < 2 * UF_THIN_TAPS * UF_THIN_TAPS;
         i += (int32_t)blockDim.x) {
        const bool row = i < UF_THIN_TAPS * UF_THIN_TAPS;
        const int32_t at = i & (UF_THIN_TAPS * UF_THIN_TAPS - 1);
        const uint8_t tap = ((const uint8_t *)(row ? p.row_tap : p.column_tap))[at];
        taps[i] =
            tap == UF_THIN_NONE ? INT32_MIN : tap * (int32_t)(row ? p.conv.w_row : p.conv.w_column);
    }
}

/* The part's weights by [slice][chunk][step][eight of columns][lane][2], big halves and then small
 * ones where there are such; zeros where a phase does not read. */
template <typename Tile>
static __device__ __forceinline__ void
thin_load_weights(const uf_thin_conv &p, int32_t group, int32_t part, const uint32_t *columns,
                  const thin_deep *depth, uint32_t *weights) {
    typedef typename Tile::T T;
    constexpr int PER_WORD = Tile::UNIT / 4;
    constexpr int BATCH = 4; /* whose loads are under way together */
    const uf_direct_conv &conv = p.conv;
    const T *const from = (const T *)conv.weight + group * conv.w_group;
    const int32_t *const taps = (const int32_t *)(depth + p.steps * 2 * Tile::UNIT);
    const int32_t lane = (int32_t)threadIdx.x & 31;
    const int32_t blocks = conv.chunks * p.steps; /* of a slice: N eights and two units */
    depth += (lane & 3) * PER_WORD;
    weights += lane * 2 * Tile::PARTS;
#pragma unroll 1
    for (int32_t all = 0; all < p.part_slices * Tile::N; ++all) {
        const int32_t slice = all / Tile::N, n = all - slice * Tile::N;
        const uint32_t column = columns[n * 8 + (lane >> 2)];
        const int32_t pair =
            (part * p.part_slices + slice) * p.slice_pairs + (int32_t)(column >> 8);
        const bool there = column >> 8 < (uint32_t)p.slice_pairs && pair < p.pairs;
        const int32_t row_phase = there ? direct_divide(p.by_written, pair) : 0;
        const T *const mine = from + (pair - row_phase * conv.written_per_group) * conv.w_written;
        const int32_t *const row_taps = taps + row_phase * UF_THIN_TAPS;
        const int32_t *const column_taps =
            taps + (UF_THIN_TAPS + (int32_t)(column & 255)) * UF_THIN_TAPS;
        uint32_t *const to = weights + (slice * blocks * Tile::N + n) * 64 * Tile::PARTS;
#pragma unroll 1
        for (int32_t block0 = (int32_t)threadIdx.x >> 5; block0 < blocks;
             block0 += BATCH * p.warps) {
            float value[BATCH][2][PER_WORD];
#pragma unroll
            for (int b = 0; b < BATCH; ++b) {
                const int32_t block = min(block0 + b * p.warps, blocks - 1);
                const int32_t chunk = direct_divide(p.by_steps, block);
                const int32_t first = chunk * conv.chunk;
                const thin_deep *const deep = depth + (block - chunk * p.steps) * 2 * Tile::UNIT;
                const T *const of_chunk = mine + first * conv.w_read;
#pragma unroll
                for (int i = 0; i < 2; ++i) {
#pragma unroll
                    for (int j = 0; j < PER_WORD; ++j) {
                        const thin_deep at = deep[i * Tile::UNIT + j];
                        const int32_t r = row_taps[at.row], s = column_taps[at.column];
                        const bool take = there && at.channel >= 0 && r != INT32_MIN &&
                                          s != INT32_MIN &&
                                          first + at.channel < conv.read_per_group;
                        const float found = direct_get(take ? of_chunk + (at.from + r + s) : from);
                        value[b][i][j] = take ? found : 0.0f;
                    }
                }
            }
#pragma unroll
            for (int b = 0; b < BATCH; ++b) {
                const int32_t block = min(block0 + b * p.warps, blocks - 1);
                uint32_t *const at = to + block * Tile::N * 64 * Tile::PARTS;
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    if (Tile::PARTS == 1) {
                        at[i] = thin_word<Tile>(value[b][i]);
                    } else {
                        mma_halves_by_bits(value[b][i][0], &at[i], &at[2 + i]);
                    }
                }
            }
        }
    }
}

#endif
