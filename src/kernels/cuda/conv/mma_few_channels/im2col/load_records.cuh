/* load_records.cuh - the operands of conv_im2col in shared memory: records of the window, and
 * weights. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_IM2COL_LOAD_RECORDS_CUH
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_IM2COL_LOAD_RECORDS_CUH

#include "kernels/cuda/conv/mma_few_channels/im2col/load.cuh"

/* Offsets of a record's elements from its position in the window. Padding elements, whose weights
 * are zeros, repeat the first. */
static __device__ __forceinline__ void im2col_make_sources(const uf_im2col_conv &p,
                                                           int32_t *sources) {
#pragma unroll 1
    for (int32_t i = im2col_table_first(p, 1); i < p.source_words; i += (int32_t)blockDim.x) {
        const int32_t c = p.gathered ? direct_divide(p.by_offsets, i) : i;
        sources[i] = c >= p.conv.chunk ? 0
                                       : c * p.conv.channel_words +
                                             (p.gathered ? p.column_from[i - c * p.offsets[1]] : 0);
    }
}

/* Two neighbours of a line, one load. */
template <typename T>
struct im2col_two {
    T at[2];
};

template <>
struct __align__(8) im2col_two<float> {
    float at[2];
};

template <>
struct __align__(4) im2col_two<uf_bf16> {
    uf_bf16 at[2];
};

/* Makes records of channels, two neighbouring positions at a time: eight-byte loads with two-way
 * bank conflicts cost less than single elements. */
template <typename Tile>
static __device__ __forceinline__ void im2col_make_pairs(const uf_im2col_conv &p,
                                                         const typename Tile::T *window,
                                                         const int32_t *sources, uint4 *records) {
    typedef typename Tile::T T;
    constexpr int PER_WORD = Tile::UNIT / 4;
#pragma unroll 1
    for (int32_t i = 2 * (int32_t)threadIdx.x; i < p.records; i += 2 * (int32_t)blockDim.x) {
        const T *const from = window + i;
        uint4 *to = records + i + (p.by_skew.divisor > 0 ? direct_divide(p.by_skew, i) : 0);
        const int4 *source = (const int4 *)sources;
#pragma unroll 1
        for (int32_t u = 0; u < p.record; ++u) {
            im2col_two<T> two[Tile::UNIT];
#pragma unroll
            for (int c = 0; c < Tile::UNIT; c += 4) {
                const int4 at = *source++;
                two[c] = *(const im2col_two<T> *)(from + at.x);
                two[c + 1] = *(const im2col_two<T> *)(from + at.y);
                two[c + 2] = *(const im2col_two<T> *)(from + at.z);
                two[c + 3] = *(const im2col_two<T> *)(from + at.w);
            }
#pragma unroll
            for (int k = 0; k < 2; ++k) {
                uint32_t word[4];
#pragma unroll
                for (int m = 0; m < 4; ++m) {
                    T value[PER_WORD];
#pragma unroll
                    for (int j = 0; j < PER_WORD; ++j) {
                        value[j] = two[m * PER_WORD + j].at[k];
                    }
                    word[m] = im2col_word<Tile>(value);
                }
                to[k] = make_uint4(word[0], word[1], word[2], word[3]);
            }
            to += p.unit_plane;
        }
    }
}

/* Makes records: converts each element once for all taps. */
template <typename Tile>
static __device__ __forceinline__ void im2col_make_records(const uf_im2col_conv &p,
                                                           const typename Tile::T *window,
                                                           const int32_t *sources, uint4 *records) {
    typedef typename Tile::T T;
    constexpr int PER_WORD = Tile::UNIT / 4;
    const int32_t threads = (int32_t)blockDim.x;
#pragma unroll 1
    for (int32_t i = (int32_t)threadIdx.x; i < p.records; i += 2 * threads) {
        /* The second repeats the first where there is none. */
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
                        word[k][half * 2 + m] = im2col_word<Tile>(value);
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

/* An element of K: the offset of its channel's weights, the channel within the chunk or -1, and the
 * indices of its row and column offsets. */
struct __align__(16) im2col_k_element {
    int32_t from, channel, row, column;
};

/* Makes the table of K by unit. After it come the weight offsets of each phase's tap at each
 * offset, or INT32_MIN: rows, then columns. */
template <typename Tile>
static __device__ __forceinline__ void im2col_make_k_table(const uf_im2col_conv &p,
                                                           im2col_k_element *depth) {
    const int32_t elements = p.steps * 2 * Tile::UNIT;
#pragma unroll 1
    for (int32_t i = (int32_t)threadIdx.x; i < elements; i += (int32_t)blockDim.x) {
        const int32_t unit = i / Tile::UNIT;
        const int32_t coord = direct_divide(p.by_record, unit);
        const int32_t k = (unit - coord * p.record) * Tile::UNIT + i % Tile::UNIT;
        const int32_t by = p.gathered ? k : coord;
        const int32_t over = direct_divide(p.by_offsets, by);
        const int32_t c = p.gathered ? over : k;
        const bool there = unit < p.units && c < p.conv.chunk;
        im2col_k_element deep;
        deep.from = there ? c * (int32_t)p.conv.w_read : 0;
        deep.channel = there ? c : -1;
        deep.row = there ? (p.gathered ? coord : over) : 0;
        deep.column = there ? by - over * p.offsets[1] : 0;
        depth[i] = deep;
    }
    int32_t *const taps = (int32_t *)(depth + elements);
    const int32_t rows = p.conv.axis[0].live * UF_IM2COL_TAPS;
    const int32_t all = rows + p.conv.axis[1].live * UF_IM2COL_TAPS;
#pragma unroll 1
    for (int32_t i = (int32_t)blockDim.x - 1 - (int32_t)threadIdx.x; i < all;
         i += (int32_t)blockDim.x) {
        const bool row = i < rows;
        const int32_t at = row ? i : i - rows;
        const uint8_t tap = ((const uint8_t *)(row ? p.row_tap : p.column_tap))[at];
        taps[row ? at : UF_IM2COL_TAPS * UF_IM2COL_TAPS + at] =
            tap == UF_IM2COL_NONE ? INT32_MIN
                                  : tap * (int32_t)(row ? p.conv.w_row : p.conv.w_column);
    }
}

/* A column of a slice: the stage offset of its pair and phase, from the first pair of the round;
 * the pair, slice_pairs where there is none; the index of the live phase. */
struct __align__(8) im2col_column {
    int32_t to;
    int16_t pair, phase;
};

/* Loads the part's weights as [slice][chunk][step][8-column block][lane][2], with the small parts
 * after the big ones in FP32. A warp keeps one 8-column block of a slice to compute its addresses
 * once; warps share a block where blocks are few. */
template <typename Tile>
static __device__ __forceinline__ void
im2col_load_weights(const uf_im2col_conv &p, int32_t group, int32_t part,
                    const im2col_column *columns, const im2col_k_element *depth,
                    uint32_t *weights) {
    typedef typename Tile::T T;
    constexpr int PER_WORD = Tile::UNIT / 4;
    constexpr int BATCH = 4 / PER_WORD; /* loads in flight */
    const uf_direct_conv &conv = p.conv;
    const T *const from = (const T *)conv.weight + group * conv.w_group;
    const int32_t *const taps = (const int32_t *)(depth + p.steps * 2 * Tile::UNIT);
    const int32_t lane = (int32_t)threadIdx.x & 31;
    const int32_t blocks = conv.chunks * p.steps; /* k-steps of a slice */
    const int32_t warp = (int32_t)threadIdx.x >> 5;
    const int32_t first_eight = direct_divide(p.by_sharing, warp);
    const int32_t sharing = (int32_t)p.by_sharing.divisor;
    depth += (lane & 3) * PER_WORD;
    weights += lane * 2 * Tile::PARTS;
#pragma unroll 1
    for (int32_t eight = first_eight; eight < p.part_slices * Tile::N; eight += p.warps) {
        const int32_t slice = eight / Tile::N, n = eight - slice * Tile::N;
        const im2col_column column = columns[n * 8 + (lane >> 2)];
        const int32_t pair = (part * p.part_slices + slice) * p.slice_pairs + column.pair;
        const bool there = column.pair < p.slice_pairs && pair < p.pairs;
        const int32_t row_phase = there ? direct_divide(p.by_written, pair) : 0;
        const T *const mine = from + (pair - row_phase * conv.written_per_group) * conv.w_written;
        const int32_t *const row_taps = taps + row_phase * UF_IM2COL_TAPS;
        const int32_t *const column_taps = taps + (UF_IM2COL_TAPS + column.phase) * UF_IM2COL_TAPS;
        uint32_t *const to = weights + (slice * blocks * Tile::N + n) * 64 * Tile::PARTS;
#pragma unroll 1
        for (int32_t block0 = warp - first_eight * sharing; block0 < blocks;
             block0 += BATCH * sharing) {
            float value[BATCH][2][PER_WORD];
#pragma unroll
            for (int b = 0; b < BATCH; ++b) {
                const int32_t block = min(block0 + b * sharing, blocks - 1);
                const int32_t chunk = direct_divide(p.by_steps, block);
                const int32_t first = chunk * conv.chunk;
                const int32_t left = there ? conv.read_per_group - first : 0;
                const int32_t before = first * (int32_t)conv.w_read;
                const im2col_k_element *const deep =
                    depth + (block - chunk * p.steps) * 2 * Tile::UNIT;
#pragma unroll
                for (int i = 0; i < 2; ++i) {
#pragma unroll
                    for (int j = 0; j < PER_WORD; ++j) {
                        const im2col_k_element at = deep[i * Tile::UNIT + j];
                        const int32_t r = row_taps[at.row], s = column_taps[at.column];
                        const bool take = (uint32_t)at.channel < (uint32_t)left && r != INT32_MIN &&
                                          s != INT32_MIN;
                        value[b][i][j] =
                            take ? direct_get(mine + (before + at.from + r + s)) : 0.0f;
                    }
                }
            }
#pragma unroll
            for (int b = 0; b < BATCH; ++b) {
                const int32_t block = min(block0 + b * sharing, blocks - 1);
                uint32_t *const at = to + block * Tile::N * 64 * Tile::PARTS;
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    if (Tile::PARTS == 1) {
                        at[i] = im2col_word<Tile>(value[b][i]);
                    } else {
                        mma_split_tf32_by_bits(value[b][i][0], &at[i], &at[2 + i]);
                    }
                }
            }
        }
    }
}

#endif
