/* conv_few.cuh - the device code of conv_few.cu, which says how it works. */
#ifndef UF_KERNELS_CUDA_CONV_FEW_CUH
#define UF_KERNELS_CUDA_CONV_FEW_CUH

#include <cstring>

#include "kernels/cuda/conv_few_plan.h"
#include "kernels/cuda/conv_mma.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/wgmma.cuh"

/* What is divided by. */
struct few_divisors {
    uf_few_divisor channel_tiles, splits, boxes[3], box[3], window[2], plane, kernel, taps, steps,
        pixel_warps, channel_warps, phases_all, phases /* across */, step[2], out[2];
};

/* The same for all threads: whole warps share a row, or all of them. */
struct few_sharing {
    uf_few_divisor together;
    int32_t beside;
};

static inline few_sharing few_sharing_of(int32_t words, int32_t threads) {
    const int32_t whole = (words + 31) / 32 * 32;
    const bool all = whole >= threads;
    const few_sharing made = {uf_few_divisor_of(all ? threads : whole), all ? 1 : threads / whole};
    return made;
}

struct few_conv {
    mma_conv conv;
    uf_few_plan plan;
    few_divisors by;
    few_sharing window, weights, out;
    int8_t phase_of[2][UF_FEW_PHASES]; /* of a written element, by its place in a step */
    bool dgrad;
    bool plain; /* nothing but the sum is written */
};

/* The quotient; what remains stays in `number`. */
static __device__ __forceinline__ int32_t few_take(int32_t *number, const uf_few_divisor &divisor) {
    const int32_t quotient = uf_few_divide(*number, divisor);
    *number -= quotient * divisor.by;
    return quotient;
}

/* An element of a box or window, which has any number of images. */
struct few_place {
    int32_t image, row, column;
};

static __device__ __forceinline__ few_place few_place_of(int32_t i, const uf_few_divisor &rows,
                                                         const uf_few_divisor &columns) {
    few_place at;
    at.row = few_take(&i, columns);
    at.column = i;
    at.image = few_take(&at.row, rows);
    return at;
}

enum { FEW_OUTSIDE = INT_MIN };

static_assert((int)UF_FEW_PHASES <= (int)MMA_PHASES,
              "walks are read where the parameters hold them");

/* May `kernel` be launched while the one before it runs? It waits by an instruction that code for
 * 9.0 and later has. */
static inline uf_status few_early(uf_context *context, const void *kernel, bool *early) {
    cudaFuncAttributes attributes;
    UF_CUDA_TRY(context, cudaFuncGetAttributes(&attributes, kernel));
    *early = attributes.ptxVersion >= 90;
    return UF_OK;
}

static inline cudaLaunchConfig_t few_after(dim3 blocks, int threads, bool early,
                                           cudaStream_t stream, cudaLaunchAttribute *attribute) {
    cudaLaunchConfig_t config;
    memset((void *)&config, 0, sizeof config);
    memset((void *)attribute, 0, sizeof *attribute);
    attribute->id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute->val.programmaticStreamSerializationAllowed = 1;
    config.gridDim = blocks;
    config.blockDim = dim3((unsigned)threads);
    config.stream = stream;
    config.attrs = attribute;
    config.numAttrs = early ? 1 : 0;
    return config;
}

/* An element as it is read. */
template <typename T>
struct few_bits {
    typedef float type;
};

template <>
struct few_bits<__nv_bfloat16> {
    typedef uint16_t type;
};

/* A warp's tile: TILES_M x 16 positions, TILES_N x 8 channels. */
template <uf_math MATH_, bool WIDE_, bool TALL_, typename stored_>
struct few_tile {
    typedef stored_ stored;
    typedef typename few_bits<stored>::type bits;
    static constexpr uf_math MATH = MATH_;
    static constexpr bool WIDE = WIDE_;
    static constexpr int TILES_M = WIDE && !TALL_ ? 2 : 4, TILES_N = WIDE ? 4 : 1;
    static constexpr int WARPS = TALL_ ? UF_FEW_TALL_WARPS : UF_FEW_WARPS; /* of a block, at most */
    static constexpr int STEP = MATH == UF_MATH_BF16 ? 16 : 8;
    static constexpr int PIXELS = TILES_M * 16, CHANNELS = TILES_N * 8;
};

/* A word is `elements` elements at `from` in memory and `to` in shared memory. */
struct few_piece {
    int32_t from, to, elements;
};

/* How threads share rows of words: every `together`-th word from `first` on, of every `beside`-th
 * row from `row` on. */
struct few_share {
    int32_t together, beside, first, row;
};

static __device__ __forceinline__ few_share few_share_of(const few_sharing &of, int32_t words) {
    few_share share = {of.together.by, of.beside, (int32_t)threadIdx.x, 0};
    if (of.beside > 1) {
        share.row = few_take(&share.first, of.together);
        share.first = share.row < of.beside ? share.first : words;
    }
    return share;
}

/* Copies this thread's share of the words of rows [0, rows), `there` of which there are; the rest
 * is zero. A word is PIECE elements; piece_of(i) says where word i of the first row is. f32, and
 * whole pieces, are on their way until they are waited for. */
template <int PIECE, typename T, typename Pieces>
static __device__ __forceinline__ void
few_copy_rows(const few_share &share, T *to, const T *from, int32_t words, int32_t row_pitch,
              int32_t rows, int32_t there, int64_t row_stride, const Pieces &piece_of) {
    constexpr int BATCH = 8;
    const int32_t beside = share.beside, row_first = share.row, together = share.together;
    const int64_t stride = beside * row_stride;
    const int32_t pitch = beside * row_pitch;
    there = min(there, rows);
#pragma unroll 1
    for (int32_t i = share.first; i < words; i += together) {
        const few_piece piece = piece_of(i);
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
struct few_tables {
    int32_t *window; /* of a place of a window: its element's offset, or FEW_OUTSIDE */
    /* [phase][step of K]: bytes to the window's element (16 bits), and to the weight */
    uint32_t *steps;
    int2 *weights; /* of a piece of a row of w: its offset, and where it goes */
    unsigned char *stages;
};

static __device__ __forceinline__ few_tables few_tables_of(const few_conv &p, uint32_t *shared) {
    const uf_few_plan &plan = p.plan;
    few_tables at;
    at.weights = (int2 *)shared;
    at.window = (int32_t *)(at.weights + plan.pieces);
    at.steps = (uint32_t *)(at.window + plan.plane);
    const int32_t words =
        2 * plan.pieces + plan.plane + plan.phases * plan.most_steps + 2 * plan.step;
    at.stages = (unsigned char *)(shared + ((words + 3) & ~3));
    return at;
}

/* The box of a block, and what it reads. */
struct few_block {
    int32_t image, position[2]; /* the first */
    int32_t group, first_channel, split;
};

static __device__ __forceinline__ few_block few_block_of(const few_conv &p, int32_t block) {
    const uf_few_plan &plan = p.plan;
    few_block at;
    at.first_channel = few_take(&block, p.by.splits);
    at.split = block;
    at.position[1] = few_take(&at.first_channel, p.by.channel_tiles);
    at.first_channel *= plan.tile_channels;
    int32_t rest = few_take(&at.position[1], p.by.boxes[2]);
    at.position[1] *= plan.box[2];
    at.position[0] = rest;
    at.image = few_take(&at.position[0], p.by.boxes[1]);
    at.position[0] *= plan.box[1];
    at.group = few_take(&at.image, p.by.boxes[0]);
    at.image *= plan.box[0];
    return at;
}

/* What the first copies wait for. */
static __device__ __forceinline__ void few_make_offsets(const few_conv &p, const few_block &block,
                                                        const few_tables &table, int32_t element) {
    const uf_few_plan &plan = p.plan;
    const mma_conv &conv = p.conv;
    const int32_t threads = (int32_t)blockDim.x;
#pragma unroll 1
    for (int32_t i = (int32_t)threadIdx.x; i < plan.plane; i += threads) {
        const few_place at = few_place_of(i, p.by.window[0], p.by.window[1]);
        const int32_t h = block.position[0] * conv.axis[0].in_step + plan.first[0] + at.row;
        const int32_t w = block.position[1] * conv.axis[1].in_step + plan.first[1] + at.column;
        const bool inside = at.image < plan.box[0] && block.image + at.image < conv.batch &&
                            mma_inside(h, conv.axis[0].read) && mma_inside(w, conv.axis[1].read);
        table.window[i] = inside ? (int32_t)(at.image * conv.read_stride[0] +
                                             h * conv.read_stride[2] + w * conv.read_stride[3])
                                 : FEW_OUTSIDE;
    }
    const int32_t piece = plan.vector ? 16 / element : 1;
#pragma unroll 1
    for (int32_t i = (int32_t)threadIdx.x; i < plan.pieces; i += threads) {
        int32_t tap = i * piece;
        const int32_t channel = few_take(&tap, p.by.taps);
        int32_t s = tap;
        const int32_t r = few_take(&s, p.by.kernel);
        table.weights[i] = make_int2((int32_t)(channel * (p.dgrad ? conv.w_written : conv.w_read) +
                                               r * conv.w_row + s * conv.w_column),
                                     channel * (p.dgrad ? plan.across : plan.deep) + tap);
    }
}

/* What the first products wait for. */
static __device__ __forceinline__ void few_make_steps(const few_conv &p, const few_tables &table,
                                                      int32_t element) {
    const uf_few_plan &plan = p.plan;
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
            int32_t phase_w = few_take(&step, p.by.steps);
            const mma_walk down = conv.axis[0].walk[few_take(&phase_w, p.by.phases)];
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
        const int32_t stages = min(plan.per_split, (int32_t)UF_FEW_STAGES);
#pragma unroll 1
        for (int32_t i = (int32_t)threadIdx.x; i < stages * plan.plane; i += threads) {
            int32_t place = i;
            const int32_t stage = few_take(&place, p.by.plane);
            unsigned char *const to =
                table.stages + stage * plan.stage + (plan.depth * plan.plane + place) * element;
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
few_load(const few_conv &p, const few_block &block, const few_tables &table,
         const few_share (&share)[2], unsigned char *stage, int32_t first) {
    constexpr int UNIT = 16 / (int)sizeof(T);
    const uf_few_plan &plan = p.plan;
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
        few_copy_rows<UNIT>(
            share[1], weights, weight, plan.pieces, plan.row_pitch, rows, there, row_stride,
            [&](int32_t i) {
                const int2 at = table.weights[i];
                const few_piece piece = {at.x, at.y, max(min(elements - i * UNIT, UNIT), 0)};
                return piece;
            });
    } else {
        few_copy_rows<1>(share[1], weights, weight, plan.pieces, plan.row_pitch, rows, there,
                         row_stride, [&](int32_t i) {
                             const int2 at = table.weights[i];
                             const few_piece piece = {at.x, at.y, i < elements ? 1 : 0};
                             return piece;
                         });
    }
    few_copy_rows<1>(share[0], (T *)stage,
                     (const T *)conv.read + block.image * conv.read_stride[0] +
                         ((int64_t)block.group * conv.read_per_group + first) * conv.read_stride[1],
                     plan.plane, plan.plane, plan.depth, channels, conv.read_stride[1],
                     [&](int32_t i) {
                         const int32_t offset = table.window[i];
                         const bool inside = offset != FEW_OUTSIDE;
                         const few_piece piece = {inside ? offset : 0, i, inside ? 1 : 0};
                         return piece;
                     });
}

/* A word of an operand; `other`: the pair's upper half in BF16. */
template <uf_math MATH>
static __device__ __forceinline__ void few_operand(float value, float other, uint32_t *word,
                                                   uint32_t *small) {
    if (MATH == UF_MATH_FP32) {
        mma_halves_by_bits(value, word, small);
    } else if (MATH == UF_MATH_TF32) {
        *word = mma_round_by_bits(value);
    } else {
        *word = uf_pack_bf16(value, other);
    }
}

template <uf_math MATH>
static __device__ __forceinline__ void few_operand(uint16_t value, uint16_t other, uint32_t *word,
                                                   uint32_t *) {
    *word = value | (uint32_t)other << 16;
}

/* What a thread reads of the operands of a step, as it is stored. */
template <typename Tile>
struct few_raw {
    static constexpr int PER = Tile::STEP / 8;
    typename Tile::bits a[Tile::TILES_M][4][PER], b[Tile::TILES_N][2][PER];
};

template <typename Tile>
static __device__ __forceinline__ void
few_operands(const few_raw<Tile> &raw, uint32_t (&a)[Tile::TILES_M][4],
             uint32_t (&a_small)[Tile::TILES_M][4], uint32_t (&b)[Tile::TILES_N][2],
             uint32_t (&b_small)[Tile::TILES_N][2]) {
    constexpr int LAST = few_raw<Tile>::PER - 1;
#pragma unroll
    for (int j = 0; j < Tile::TILES_N; ++j) {
#pragma unroll
        for (int reg = 0; reg < 2; ++reg) {
            few_operand<Tile::MATH>(raw.b[j][reg][0], raw.b[j][reg][LAST], &b[j][reg],
                                    &b_small[j][reg]);
        }
    }
#pragma unroll
    for (int m = 0; m < Tile::TILES_M; ++m) {
#pragma unroll
        for (int reg = 0; reg < 4; ++reg) {
            few_operand<Tile::MATH>(raw.a[m][reg][0], raw.a[m][reg][LAST], &a[m][reg],
                                    &a_small[m][reg]);
        }
    }
}

template <typename Tile>
static __device__ __forceinline__ void
few_products(const uint32_t (&a)[Tile::TILES_M][4], const uint32_t (&a_small)[Tile::TILES_M][4],
             const uint32_t (&b)[Tile::TILES_N][2], const uint32_t (&b_small)[Tile::TILES_N][2],
             float (&c)[Tile::TILES_M][Tile::TILES_N][4]) {
    if (Tile::MATH == UF_MATH_FP32) {
        /* As in conv_mma: the tensor core truncates what it adds to, so each step's sum is made
         * alone, small products first. */
#pragma unroll
        for (int j = 0; j < Tile::TILES_N; ++j) {
            float part[Tile::TILES_M][4] = {};
#pragma unroll
            for (int product = 0; product < 3; ++product) {
#pragma unroll
                for (int m = 0; m < Tile::TILES_M; ++m) {
                    uf_mma_tf32(part[m], product == 0 ? a_small[m] : a[m],
                                product == 1 ? b_small[j] : b[j]);
                }
            }
#pragma unroll
            for (int m = 0; m < Tile::TILES_M; ++m) {
#pragma unroll
                for (int reg = 0; reg < 4; ++reg) {
                    c[m][j][reg] += part[m][reg];
                }
            }
        }
    } else {
#pragma unroll
        for (int m = 0; m < Tile::TILES_M; ++m) {
#pragma unroll
            for (int j = 0; j < Tile::TILES_N; ++j) {
                if (Tile::MATH == UF_MATH_BF16) {
                    uf_mma_bf16(c[m][j], a[m], b[j]);
                } else {
                    uf_mma_tf32(c[m][j], a[m], b[j]);
                }
            }
        }
    }
}

/* The operands of a step: `pixel` and `channel` (of the first eight) are bytes in a stage, `eighth`
 * those from eight channels to the next. */
template <typename Tile>
static __device__ __forceinline__ void
few_fetch(const unsigned char *stage, const uint32_t (&entry)[2][few_raw<Tile>::PER],
          const int32_t (&pixel)[Tile::TILES_M][2], int32_t channel, int32_t eighth,
          few_raw<Tile> *raw) {
    typedef typename Tile::bits bits;
#pragma unroll
    for (int half = 0; half < few_raw<Tile>::PER; ++half) {
#pragma unroll
        for (int reg = 0; reg < 2; ++reg) {
            const unsigned char *const weights = stage + (entry[reg][half] >> 16) + channel;
            const unsigned char *const pixels = stage + (entry[reg][half] & 0xffff);
#pragma unroll
            for (int j = 0; j < Tile::TILES_N; ++j) {
                raw->b[j][reg][half] = *(const bits *)(weights + j * eighth);
            }
#pragma unroll
            for (int m = 0; m < Tile::TILES_M; ++m) {
                raw->a[m][2 * reg][half] = *(const bits *)(pixels + pixel[m][0]);
                raw->a[m][2 * reg + 1][half] = *(const bits *)(pixels + pixel[m][1]);
            }
        }
    }
}

/* `count` products of a phase's steps of the chunk in `stage`. The next step's operands are read
 * before this one's products. */
template <typename Tile>
static __device__ __forceinline__ void
few_chunk(const unsigned char *stage, const uint32_t *steps, int32_t count,
          const int32_t (&pixel)[Tile::TILES_M][2], int32_t channel, int32_t eighth,
          float (&c)[Tile::TILES_M][Tile::TILES_N][4]) {
    constexpr int PER = few_raw<Tile>::PER;
    uint32_t entry[2][PER];
    few_raw<Tile> raw;
    const auto look_up = [&]() {
#pragma unroll
        for (int reg = 0; reg < 2; ++reg) {
#pragma unroll
            for (int half = 0; half < PER; ++half) {
                entry[reg][half] = steps[(reg * PER + half) * 4];
            }
        }
        steps += Tile::STEP;
    };
    if (count == 0) {
        return;
    }
    look_up();
    few_fetch<Tile>(stage, entry, pixel, channel, eighth, &raw);
    look_up();
#pragma unroll 1
    for (int32_t i = 0; i < count; ++i) {
        uint32_t a[Tile::TILES_M][4], a_small[Tile::TILES_M][4];
        uint32_t b[Tile::TILES_N][2], b_small[Tile::TILES_N][2];
        few_operands<Tile>(raw, a, a_small, b, b_small);
        if (i + 1 < count) {
            few_fetch<Tile>(stage, entry, pixel, channel, eighth, &raw);
            look_up();
        }
        few_products<Tile>(a, a_small, b, b_small, c);
    }
}

/* Not inlined: once is enough of every activation. */
template <typename T>
static __device__ __noinline__ void few_finish(const mma_conv &conv, int64_t channel,
                                               int64_t offset, float value) {
    mma_finish<T>(conv, channel, offset, value);
}

/* The tile leaves shared memory: lanes write neighbours of a row, whatever their phases. */
template <typename T>
static __device__ __forceinline__ void few_write(const few_conv &p, const few_block &block,
                                                 const float *staging) {
    const uf_few_plan &plan = p.plan;
    const mma_conv &conv = p.conv;
    const int32_t step_h = conv.axis[0].out_step, step_w = conv.axis[1].out_step;
    const int32_t rows = plan.box[1] * step_h, columns = plan.box[2] * step_w;
    const int32_t elements = plan.box[0] * rows * columns;
    const few_share share = few_share_of(p.out, elements);
    const int32_t beside = share.beside, my_first = share.row;
    const int32_t channels = min(conv.written_per_group - block.first_channel, plan.tile_channels);
    const int32_t part_words = plan.phases * plan.tile_channels * plan.staging_pitch;
    const int64_t channel_0 = (int64_t)block.group * conv.written_per_group + block.first_channel;
    const int64_t plane = (int64_t)conv.axis[0].written * conv.axis[1].written;
#pragma unroll 1
    for (int32_t i = share.first; i < elements; i += share.together) {
        few_place at;
        at.column = i;
        at.row = few_take(&at.column, p.by.out[1]);
        at.image = few_take(&at.row, p.by.out[0]);
        const int32_t n = block.image + at.image;
        const int32_t h = block.position[0] * step_h + at.row;
        const int32_t w = block.position[1] * step_w + at.column;
        if (n >= conv.batch || h >= conv.axis[0].written || w >= conv.axis[1].written) {
            continue;
        }
        int32_t phase_h = at.row, phase_w = at.column;
        const int32_t th = few_take(&phase_h, p.by.step[0]);
        const int32_t tw = few_take(&phase_w, p.by.step[1]);
        phase_h = p.phase_of[0][phase_h];
        phase_w = p.phase_of[1][phase_w];
        const float *const from =
            staging +
            (phase_h * conv.axis[1].phases + phase_w) * plan.tile_channels * plan.staging_pitch +
            (at.image * plan.box[1] + th) * plan.box[2] + tw;
        const auto sum_of = [&](int32_t channel) {
            const float *at = from + channel * plan.staging_pitch;
            float sum = *at;
            for (int32_t part = 1; part < plan.depth_warps; ++part) {
                at += part_words;
                sum += *at;
            }
            return sum;
        };
        if (plan.splits > 1) {
            float *to =
                conv.partial + block.split * conv.partial_count +
                (n * (int64_t)conv.groups * conv.written_per_group + channel_0 + my_first) * plane +
                h * conv.axis[1].written + w;
#pragma unroll 4
            for (int32_t channel = my_first; channel < channels; channel += beside) {
                *to = sum_of(channel);
                to += beside * plane;
            }
            continue;
        }
        const int64_t offset =
            n * conv.written_stride[0] + h * conv.written_stride[2] + w * conv.written_stride[3];
        bool all_finite = true;
#pragma unroll 2
        for (int32_t channel = my_first; channel < channels; channel += beside) {
            const float value = sum_of(channel);
            if (mma_finite(value)) {
                const int64_t to = offset + (channel_0 + channel) * conv.written_stride[1];
                if (p.plain) {
                    ((T *)conv.written)[to] = (T)value;
                } else {
                    few_finish<T>(conv, channel_0 + channel, to, value);
                }
            } else {
                all_finite = false;
            }
        }
        if (all_finite) {
            continue;
        }
        const mma_walk down = conv.axis[0].walk[phase_h];
        const mma_walk across = conv.axis[1].walk[phase_w];
        const int32_t read_h = (block.position[0] + th) * conv.axis[0].in_step + down.in_first;
        const int32_t read_w = (block.position[1] + tw) * conv.axis[1].in_step + across.in_first;
#pragma unroll 1
        for (int32_t channel = my_first; channel < channels; channel += beside) {
            if (!mma_finite(sum_of(channel))) {
                few_finish<T>(conv, channel_0 + channel,
                              offset + (channel_0 + channel) * conv.written_stride[1],
                              mma_exact<T>(conv, down, across, block.group,
                                           block.first_channel + channel, n, read_h, read_w));
            }
        }
    }
}

template <typename Tile>
static __global__ void __launch_bounds__(32 * Tile::WARPS, 1)
    conv_few(const __grid_constant__ few_conv p) {
    UF_MMA_SHARED(shared);
    typedef typename Tile::stored stored;
    const uf_few_plan &plan = p.plan;
    const few_block block = few_block_of(p, (int32_t)blockIdx.x);
    const few_tables table = few_tables_of(p, shared);
    few_make_offsets(p, block, table, (int32_t)sizeof(stored));
    const few_share share[2] = {few_share_of(p.window, plan.plane),
                                few_share_of(p.weights, plan.pieces)};
    few_make_steps(p, table, (int32_t)sizeof(stored));

    /* This warp's phase, positions, channels, and part of each chunk. */
    const int lane = (int)threadIdx.x & 31;
    int32_t phase = (int32_t)threadIdx.x >> 5;
    int32_t first_pixel = few_take(&phase, p.by.phases_all);
    int32_t first_channel = few_take(&first_pixel, p.by.pixel_warps);
    const int32_t part = few_take(&first_channel, p.by.channel_warps);
    first_pixel *= Tile::PIXELS;
    first_channel *= Tile::CHANNELS;
    int32_t phase_w = phase;
    const int32_t phase_h = few_take(&phase_w, p.by.phases);
    const int32_t steps_here =
        p.conv.axis[0].walk[phase_h].taps * p.conv.axis[1].walk[phase_w].taps * plan.depth;
    const int32_t products = (steps_here + Tile::STEP - 1) / Tile::STEP;
    const int32_t begin = part * products >> plan.depth_log;
    const int32_t count = ((part + 1) * products >> plan.depth_log) - begin;
    int32_t pixel[Tile::TILES_M][2];
#pragma unroll
    for (int m = 0; m < Tile::TILES_M; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const few_place at = few_place_of(first_pixel + m * 16 + half * 8 + (lane >> 2),
                                              p.by.box[1], p.by.box[2]);
            pixel[m][half] = at.image < plan.box[0]
                                 ? ((at.image * plan.window[0] + at.row * p.conv.axis[0].in_step) *
                                        plan.window[1] +
                                    at.column * p.conv.axis[1].in_step) *
                                       (int32_t)sizeof(stored)
                                 : 0;
        }
    }
    const int32_t channel = ((plan.depth + (plan.padded ? 1 : 0)) * plan.plane +
                             (first_channel + (lane >> 2)) * plan.across) *
                            (int32_t)sizeof(stored);
    const int32_t eighth = 8 * plan.across * (int32_t)sizeof(stored);

    __syncthreads();

    const int32_t first_chunk = block.split * plan.per_split;
    const int32_t chunks = min(plan.chunks - first_chunk, plan.per_split);
    uf_wait_for_launcher(); /* nothing before this touches a tensor */
#pragma unroll 1
    for (int stage = 0; stage < UF_FEW_STAGES - 1; ++stage) {
        if (stage < chunks) {
            few_load<stored>(p, block, table, share, table.stages + stage * plan.stage,
                             (first_chunk + stage) * plan.depth);
        }
        uf_copy_async_commit();
    }
    float c[Tile::TILES_M][Tile::TILES_N][4] = {};
    int stage = 0;
#pragma unroll 1
    for (int32_t i = 0; i < chunks; ++i) {
        uf_copy_async_wait<UF_FEW_STAGES - 2>();
        __syncthreads(); /* this chunk has arrived, and the one before has been used, everywhere */
        if (i + UF_FEW_STAGES - 1 < chunks) {
            const int next = stage == 0 ? UF_FEW_STAGES - 1 : stage - 1;
            few_load<stored>(p, block, table, share, table.stages + next * plan.stage,
                             (first_chunk + i + UF_FEW_STAGES - 1) * plan.depth);
        }
        uf_copy_async_commit();
        few_chunk<Tile>(table.stages + stage * plan.stage,
                        table.steps + phase * plan.most_steps + begin * Tile::STEP + (lane & 3),
                        count, pixel, channel, eighth, c);
        stage = stage == UF_FEW_STAGES - 1 ? 0 : stage + 1;
    }
    uf_copy_async_wait<0>();
    __syncthreads();
    uf_launch_dependents();

    float *const staging =
        (float *)table.stages +
        ((part * plan.phases + phase) * plan.tile_channels + first_channel) * plan.staging_pitch +
        first_pixel;
#pragma unroll
    for (int m = 0; m < Tile::TILES_M; ++m) {
#pragma unroll
        for (int j = 0; j < Tile::TILES_N; ++j) {
#pragma unroll
            for (int reg = 0; reg < 4; ++reg) {
                staging[(j * 8 + (lane & 3) * 2 + (reg & 1)) * plan.staging_pitch + m * 16 +
                        (reg >> 1) * 8 + (lane >> 2)] = c[m][j][reg];
            }
        }
    }
    __syncthreads();
    few_write<stored>(p, block, (const float *)table.stages);
}

#endif
