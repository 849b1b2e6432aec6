/* load.cuh - tables, and a box's window and weights in shared memory, for mma_small/mainloop.cuh.
 */
#ifndef UF_KERNELS_CUDA_CONV_MMA_SMALL_LOAD_CUH
#define UF_KERNELS_CUDA_CONV_MMA_SMALL_LOAD_CUH

#include <cstring>

#include "kernels/cuda/conv/mma_small/plan.h"
#include "kernels/cuda/conv/mma_implicit_gemm/mainloop.cuh"
#include "kernels/cuda/device/element.cuh"
#include "kernels/cuda/arch/sm90_wgmma.cuh"

/* Divisors of index arithmetic. */
struct small_divisors {
    uf_small_divisor channel_tiles, splits, boxes[3], box[3], window[2], plane, kernel, taps, steps,
        pixel_warps, channel_warps, phases_all, phases /* across */, step[2], out[2];
};

/* The same for all threads: whole warps share a row, or all of them. */
struct small_sharing {
    uf_small_divisor together;
    int32_t beside;
};

static inline small_sharing small_sharing_of(int32_t words, int32_t threads) {
    const int32_t whole = (words + 31) / 32 * 32;
    const bool all = whole >= threads;
    const small_sharing made = {uf_small_divisor_of(all ? threads : whole),
                                all ? 1 : threads / whole};
    return made;
}

struct small_conv {
    mma_conv conv;
    uf_small_plan plan;
    small_divisors by;
    small_sharing window, weights, out;
    int8_t phase_of[2][UF_SMALL_PHASES]; /* of a written element, by its position modulo the step */
    bool dgrad;
    bool plain; /* nothing but the sum is written */
};

/* The quotient; the remainder stays in `number`. */
static __device__ __forceinline__ int32_t small_take(int32_t *number,
                                                     const uf_small_divisor &divisor) {
    const int32_t quotient = uf_small_divide(*number, divisor);
    *number -= quotient * divisor.by;
    return quotient;
}

/* An element of a box or window, which has any number of images. */
struct small_coord {
    int32_t image, row, column;
};

static __device__ __forceinline__ small_coord small_coord_of(int32_t i,
                                                             const uf_small_divisor &rows,
                                                             const uf_small_divisor &columns) {
    small_coord at;
    at.row = small_take(&i, columns);
    at.column = i;
    at.image = small_take(&at.row, rows);
    return at;
}

enum { SMALL_OUTSIDE = INT_MIN };

static_assert((int)UF_SMALL_PHASES <= (int)MMA_PHASES,
              "walks are read where the parameters hold them");

/* An element as it is read. */
template <typename T>
struct small_bits {
    typedef float type;
};

template <>
struct small_bits<uf_bf16> {
    typedef uint16_t type;
};

/* A warp's tile: TILES_M x 16 positions, TILES_N x 8 channels. */
template <uf_mma_math MATH_, bool WIDE_, bool TALL_, typename stored_>
struct small_tile {
    typedef stored_ stored;
    typedef typename small_bits<stored>::type bits;
    static constexpr uf_mma_math MATH = MATH_;
    static constexpr bool WIDE = WIDE_;
    static constexpr int TILES_M = WIDE && !TALL_ ? 2 : 4, TILES_N = WIDE ? 4 : 1;
    static constexpr int WARPS =
        TALL_ ? UF_SMALL_TALL_WARPS : UF_SMALL_WARPS; /* of a block, at most */
    static constexpr int STEP = MATH == UF_MMA_BF16 ? 16 : 8;
    static constexpr int PIXELS = TILES_M * 16, CHANNELS = TILES_N * 8;
};

/* A word is `elements` elements at `from` in memory and `to` in shared memory. */
struct small_piece {
    int32_t from, to, elements;
};

/* How threads share rows of words: every `together`-th word from `first` on, of every `beside`-th
 * row from `row` on. */
struct small_share {
    int32_t together, beside, first, row;
};

static __device__ __forceinline__ small_share small_share_of(const small_sharing &of,
                                                             int32_t words) {
    small_share share = {of.together.by, of.beside, (int32_t)threadIdx.x, 0};
    if (of.beside > 1) {
        share.row = small_take(&share.first, of.together);
        share.first = share.row < of.beside ? share.first : words;
    }
    return share;
}

/* Copies this thread's share of the words of rows [0, rows), `there` of which there are; the rest
 * is zero. A word is PIECE elements; piece_of(i) says where word i of the first row is. f32, and
 * whole pieces, are on their way until they are waited for. */
template <int PIECE, typename T, typename Pieces>
static __device__ __forceinline__ void
small_copy_rows(const small_share &share, T *to, const T *from, int32_t words, int32_t row_pitch,
                int32_t rows, int32_t there, int64_t row_stride, const Pieces &piece_of) {
    constexpr int BATCH = 8;
    const int32_t beside = share.beside, row_first = share.row, together = share.together;
    const int64_t stride = beside * row_stride;
    const int32_t pitch = beside * row_pitch;
    there = min(there, rows);
#pragma unroll 1
    for (int32_t i = share.first; i < words; i += together) {
        const small_piece piece = piece_of(i);
        const T *at = from + piece.from + row_first * row_stride;
        T *word = to + piece.to + row_first * row_pitch;
        int32_t row = row_first;
        if (sizeof(T) == 2 && PIECE == 1) {
            for (; row < there; row += BATCH * beside) {
                T value[BATCH];
#pragma unroll
                for (int j = 0; j < BATCH; ++j) {
                    value[j] = (T)0.0f;
                    if (piece.elements > 0 && row + j * beside < there) {
                        value[j] = at[j * stride];
                    }
                }
#pragma unroll
                for (int j = 0; j < BATCH; ++j) {
                    if (row + j * beside < rows) {
                        word[j * pitch] = value[j];
                    }
                }
                at += BATCH * stride;
                word += BATCH * pitch;
            }
        } else if (PIECE == 1 || piece.elements == PIECE || piece.elements == 0) {
            const bool take = piece.elements > 0;
#pragma unroll 2
            for (; row < there; row += beside) {
                if (PIECE == 1) {
                    uf_copy_async4((float *)word, (const float *)at, take);
                } else {
                    uf_copy_async16(word, at, take);
                }
                at += stride;
                word += pitch;
            }
        } else {
#pragma unroll 1
            for (; row < there; row += beside) {
                uf_copy_async_part(word, at, piece.elements * (int)sizeof(T));
                at += stride;
                word += pitch;
            }
        }
#pragma unroll 1
        for (; row < rows; row += beside) {
#pragma unroll
            for (int j = 0; j < PIECE; ++j) {
                word[j] = (T)0.0f;
            }
            word += pitch;
        }
    }
}

/* Where a block's warps find things in shared memory. */
struct small_tables {
    int32_t *window; /* by element of a window: its offset in the tensor, or SMALL_OUTSIDE */
    /* [phase][step of K]: bytes to the window's element (16 bits), and to the weight */
    uint32_t *steps;
    int2 *weights; /* of a piece of a row of w: its offset, and where it goes */
    unsigned char *stages;
};

static __device__ __forceinline__ small_tables small_tables_of(const small_conv &p,
                                                               uint32_t *shared) {
    const uf_small_plan &plan = p.plan;
    small_tables at;
    at.weights = (int2 *)shared;
    at.window = (int32_t *)(at.weights + plan.pieces);
    at.steps = (uint32_t *)(at.window + plan.plane);
    const int32_t words =
        2 * plan.pieces + plan.plane + plan.phases * plan.most_steps + 2 * plan.step;
    at.stages = (unsigned char *)(shared + ((words + 3) & ~3));
    return at;
}

/* The box of a block, and what it reads. */
struct small_block {
    int32_t image, position[2]; /* the first */
    int32_t group, first_channel, split;
};

static __device__ __forceinline__ small_block small_block_of(const small_conv &p, int32_t block) {
    const uf_small_plan &plan = p.plan;
    small_block at;
    at.first_channel = small_take(&block, p.by.splits);
    at.split = block;
    at.position[1] = small_take(&at.first_channel, p.by.channel_tiles);
    at.first_channel *= plan.tile_channels;
    int32_t rest = small_take(&at.position[1], p.by.boxes[2]);
    at.position[1] *= plan.box[2];
    at.position[0] = rest;
    at.image = small_take(&at.position[0], p.by.boxes[1]);
    at.position[0] *= plan.box[1];
    at.group = small_take(&at.image, p.by.boxes[0]);
    at.image *= plan.box[0];
    return at;
}

/* The tables that the first copies wait for. */
static __device__ __forceinline__ void small_make_offsets(const small_conv &p,
                                                          const small_block &block,
                                                          const small_tables &table,
                                                          int32_t element) {
    const uf_small_plan &plan = p.plan;
    const mma_conv &conv = p.conv;
    const int32_t threads = (int32_t)blockDim.x;
#pragma unroll 1
    for (int32_t i = (int32_t)threadIdx.x; i < plan.plane; i += threads) {
        const small_coord at = small_coord_of(i, p.by.window[0], p.by.window[1]);
        const int32_t h = block.position[0] * conv.axis[0].in_step + plan.first[0] + at.row;
        const int32_t w = block.position[1] * conv.axis[1].in_step + plan.first[1] + at.column;
        const bool inside = at.image < plan.box[0] && block.image + at.image < conv.batch &&
                            mma_inside(h, conv.axis[0].read) && mma_inside(w, conv.axis[1].read);
        table.window[i] = inside ? (int32_t)(at.image * conv.read_stride[0] +
                                             h * conv.read_stride[2] + w * conv.read_stride[3])
                                 : SMALL_OUTSIDE;
    }
    const int32_t piece = plan.vector ? 16 / element : 1;
#pragma unroll 1
    for (int32_t i = (int32_t)threadIdx.x; i < plan.pieces; i += threads) {
        int32_t tap = i * piece;
        const int32_t channel = small_take(&tap, p.by.taps);
        int32_t s = tap;
        const int32_t r = small_take(&s, p.by.kernel);
        table.weights[i] = make_int2((int32_t)(channel * (p.dgrad ? conv.w_written : conv.w_read) +
                                               r * conv.w_row + s * conv.w_column),
                                     channel * (p.dgrad ? plan.across : plan.deep) + tap);
    }
}

/* The table that the first MMAs wait for. */
static __device__ __forceinline__ void
small_make_steps(const small_conv &p, const small_tables &table, int32_t element) {
    const uf_small_plan &plan = p.plan;
    const mma_conv &conv = p.conv;
    const int32_t threads = (int32_t)blockDim.x;
    const int32_t taps_w = conv.axis[1].kernel;
    const int32_t all = plan.phases * plan.most_steps;
#pragma unroll 1
    for (int32_t i = (int32_t)threadIdx.x; i < all + 2 * plan.step; i += threads) {
        /* Steps of padding multiply a plane of zeros; what is read and not multiplied is there. */
        uint32_t entry = plan.padded ? (uint32_t)(plan.depth * plan.plane) : 0;
        if (i < all) {
            int32_t step = i;
            int32_t phase_w = small_take(&step, p.by.steps);
            const mma_walk down = conv.axis[0].walk[small_take(&phase_w, p.by.phases)];
            const mma_walk across = conv.axis[1].walk[phase_w];
            const int32_t taps = down.taps * across.taps;
            if (step < taps * plan.depth) {
                const int32_t channel = step / taps;
                const int32_t tap = step - channel * taps;
                const int32_t t = tap / across.taps;
                const int32_t u = tap - t * across.taps;
                const int32_t row = down.in_first + t * conv.axis[0].in_tap_step - plan.first[0];
                const int32_t column =
                    across.in_first + u * conv.axis[1].in_tap_step - plan.first[1];
                const int32_t by = (down.tap_first + t * conv.axis[0].tap_step) * taps_w +
                                   across.tap_first + u * conv.axis[1].tap_step;
                entry = (uint32_t)(channel * plan.plane + row * plan.window[1] + column) |
                        (uint32_t)(by + channel * plan.deep) << 16;
            }
        }
        table.steps[i] = entry * (uint32_t)element;
    }
    if (plan.padded) {
        const int32_t stages = min(plan.per_split, (int32_t)UF_SMALL_STAGES);
#pragma unroll 1
        for (int32_t i = (int32_t)threadIdx.x; i < stages * plan.plane; i += threads) {
            int32_t coord = i;
            const int32_t stage = small_take(&coord, p.by.plane);
            unsigned char *const to =
                table.stages + stage * plan.stage + (plan.depth * plan.plane + coord) * element;
            if (element == 4) {
                *(float *)to = 0.0f;
            } else {
                *(uint16_t *)to = 0;
            }
        }
    }
}

/* Read channels from `first` on, and their weights: on their way when this returns. */
template <typename T>
static __device__ __forceinline__ void
small_load(const small_conv &p, const small_block &block, const small_tables &table,
           const small_share (&share)[2], unsigned char *stage, int32_t first) {
    constexpr int UNIT = 16 / (int)sizeof(T);
    const uf_small_plan &plan = p.plan;
    const mma_conv &conv = p.conv;
    const int32_t channels = min(conv.read_per_group - first, plan.depth);
    const int32_t here = min(conv.written_per_group - block.first_channel, plan.tile_channels);
    const T *const weight = (const T *)conv.weight + block.group * conv.w_group +
                            block.first_channel * conv.w_written + first * conv.w_read;
    T *const weights = (T *)stage + (plan.depth + (plan.padded ? 1 : 0)) * plan.plane;
    const int32_t rows = p.dgrad ? plan.depth : plan.tile_channels;
    const int32_t there = p.dgrad ? channels : here;
    const int32_t elements = (p.dgrad ? here : channels) * p.by.taps.by;
    const int64_t row_stride = p.dgrad ? conv.w_read : conv.w_written;
    if (plan.vector) {
        small_copy_rows<UNIT>(
            share[1], weights, weight, plan.pieces, plan.row_pitch, rows, there, row_stride,
            [&](int32_t i) {
                const int2 at = table.weights[i];
                const small_piece piece = {at.x, at.y, max(min(elements - i * UNIT, UNIT), 0)};
                return piece;
            });
    } else {
        small_copy_rows<1>(share[1], weights, weight, plan.pieces, plan.row_pitch, rows, there,
                           row_stride, [&](int32_t i) {
                               const int2 at = table.weights[i];
                               const small_piece piece = {at.x, at.y, i < elements ? 1 : 0};
                               return piece;
                           });
    }
    small_copy_rows<1>(
        share[0], (T *)stage,
        (const T *)conv.read + block.image * conv.read_stride[0] +
            ((int64_t)block.group * conv.read_per_group + first) * conv.read_stride[1],
        plan.plane, plan.plane, plan.depth, channels, conv.read_stride[1], [&](int32_t i) {
            const int32_t offset = table.window[i];
            const bool inside = offset != SMALL_OUTSIDE;
            const small_piece piece = {inside ? offset : 0, i, inside ? 1 : 0};
            return piece;
        });
}

#endif
