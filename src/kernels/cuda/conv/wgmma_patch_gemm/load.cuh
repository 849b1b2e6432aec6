/* load.cuh - stages of the patch GEMM: filled by one warp, read by lanes into fragments. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_LOAD_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_LOAD_CUH

#include <cuda.h>

#include "kernels/cuda/conv/wgmma_patch_gemm/tile.cuh"
#include "kernels/cuda/arch/sm80_mma_split.cuh"

#if UF_HAS_WGMMA

/* The offset in a stage of 16 bytes of channel `channel` and pixels from `index` on, `quad` times
 * 16 bytes further. Rows are 128 bytes of neighbouring channels, swizzled as by TMA: lanes that
 * read few channels of few pixels meet no bank conflict. */
template <typename Tile>
static __device__ __forceinline__ uint32_t patch_chunk_at(const patch_conv &p, int32_t index,
                                                          int32_t channel, int32_t quad) {
    const int32_t across = index & ((1 << p.plan.log) - 1);
    const int32_t run =
        across / Tile::PIXELS * (UF_PATCH_PIXELS >> p.plan.log) + (index >> p.plan.log);
    const int32_t chunk = across % Tile::PIXELS * Tile::UNDER / 16 + quad;
    const int32_t row = run * Tile::CHANNELS + channel;
    return (uint32_t)(row * UF_PATCH_RUN + ((chunk ^ (row & 7)) << 4));
}

/* One run across, all rows of the tile and all channels of a stage; zeros outside. */
static __device__ __forceinline__ void patch_copy(uint32_t shared, const CUtensorMap *map,
                                                  int32_t column, int32_t channel, int32_t y,
                                                  int32_t filter_row, int32_t n,
                                                  uint64_t *barrier) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4, %5, %6}], [%7];\n" ::"r"(shared),
                 "l"(map), "r"(column), "r"(channel), "r"(y), "r"(filter_row), "r"(n),
                 "r"(uf_shared_address(barrier))
                 : "memory");
}

/* The same by ordinary loads, for tensors that begin at no multiple of 16 bytes. */
template <typename Tile>
static __device__ __forceinline__ void patch_copy_singly(const patch_conv &p, const patch_coord &at,
                                                         uint32_t to, int32_t first_channel,
                                                         int32_t filter_row, int lane) {
    typedef typename Tile::stored T;
    const mma_conv &c = p.conv;
    constexpr int UNIT = 16 / Tile::ELEMENT; /* elements */
    constexpr int PIECES = UF_PATCH_PIXELS * Tile::UNDER / 16;
    for (int32_t i = lane; i < UF_PATCH_READ / 16; i += 32) {
        const int32_t channel = i / PIECES;
        const int32_t first = (i - channel * PIECES) * UNIT;
        T *const target = (T *)__cvta_shared_to_generic(
            to + patch_chunk_at<Tile>(p, first / Tile::SIDE, channel, first % Tile::SIDE / UNIT));
        for (int e = 0; e < UNIT; ++e) {
            const patch_pixel pixel = patch_pixel_of(p, at, (first + e) / Tile::SIDE);
            T value = (T)0.0f;
            if (pixel.there && first_channel + channel < c.read_per_group) {
                value = ((const T *)c.read)
                    [at.n * c.read_stride[0] +
                     ((int64_t)at.group * c.read_per_group + first_channel + channel) *
                         c.read_stride[1] +
                     ((int64_t)pixel.h * p.plan.read_rows + filter_row) * c.read_stride[2] +
                     (int64_t)(pixel.w * Tile::SIDE + (first + e) % Tile::SIDE) * c.read_stride[3]];
            }
            target[e] = value;
        }
    }
    uf_fence_async_shared();
}

/* Producer: channels under a tile's pixels, of one filter row, and their weights. */
template <typename Tile>
static __device__ __forceinline__ void patch_producer(const patch_conv &p, const CUtensorMap *map,
                                                      const patch_shared &shared, int lane) {
    const uf_patch_plan &plan = p.plan;
    const patch_share share = patch_share_of(p);
    const int32_t runs = (1 << plan.log) / Tile::PIXELS;
    const uint32_t run_bytes =
        (uint32_t)((UF_PATCH_PIXELS >> plan.log) * Tile::CHANNELS * UF_PATCH_RUN);
    uf_ring stage = {0, 0};
#pragma unroll 1
    for (int32_t tile = share.tile; tile < plan.tiles; tile += share.step) {
        const patch_coord at = patch_coord_of(p, tile);
        const char *weights =
            (const char *)p.conv.packed +
            (((int64_t)at.group * plan.column_tiles + at.column_tile) * plan.stages + share.begin) *
                Tile::WEIGHT_BYTES;
        int32_t filter_row = share.begin % plan.read_rows;
        int32_t channel = share.begin / plan.read_rows * Tile::CHANNELS;
#pragma unroll 1
        for (int32_t i = share.begin; i < share.end; ++i) {
            uint64_t *const full = shared.barriers->full + stage.index;
            const uint32_t to = shared.stages + (uint32_t)stage.index * Tile::STAGE_BYTES;
            uf_barrier_wait(shared.barriers->empty + stage.index, stage.parity ^ 1);
            if (p.piece == 0) {
                patch_copy_singly<Tile>(p, at, to, channel, filter_row, lane);
                if (lane != 0) { /* each lane for its stores */
                    uf_barrier_arrive(full);
                }
            }
            if (lane == 0) {
                uf_barrier_expect(full, p.piece == 16 ? Tile::STAGE_BYTES : Tile::WEIGHT_BYTES);
                uf_copy_bulk(to + UF_PATCH_READ, weights, Tile::WEIGHT_BYTES, full);
                for (int32_t run = 0; run < runs && p.piece == 16; ++run) {
                    patch_copy(to + (uint32_t)run * run_bytes, map,
                               (at.x + run * Tile::PIXELS) * Tile::SIDE,
                               at.group * p.conv.read_per_group + channel, at.y, filter_row, at.n,
                               full);
                }
            }
            __syncwarp();
            weights += Tile::WEIGHT_BYTES;
            if (++filter_row == plan.read_rows) {
                filter_row = 0;
                channel += Tile::CHANNELS;
            }
            stage.next(plan.buffers);
        }
    }
}

template <int BYTES>
static __device__ __forceinline__ void patch_copy_piece(uint32_t to, const void *from, bool there) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;\n" ::"r"(to), "l"(from), "n"(BYTES),
                 "r"(there ? BYTES : 0)
                 : "memory");
}

/* patch_producer by a whole warpgroup, where planes are no multiple of 16 bytes and one column is
 * read. A thread copies the same few pixels of many channels, BYTES at once. */
template <typename Tile, int BYTES>
static __device__ __forceinline__ void patch_producers(const patch_conv &p,
                                                       const patch_shared &shared, int thread) {
    typedef typename Tile::stored T;
    const uf_patch_plan &plan = p.plan;
    const mma_conv &c = p.conv;
    const patch_share share = patch_share_of(p);
    constexpr int PIXELS = BYTES / Tile::ELEMENT, ACROSS = UF_PATCH_PIXELS / PIXELS;
    constexpr int COLUMNS = ACROSS > 128 ? ACROSS / 128 : 1; /* copies of a thread per channel */
    constexpr int ROWS = ACROSS < 128 ? 128 / ACROSS : 1;    /* channels at once */
    const int32_t row = thread / ACROSS;
    uf_ring stage = {0, 0};
#pragma unroll 1
    for (int32_t tile = share.tile; tile < plan.tiles; tile += share.step) {
        const patch_coord at = patch_coord_of(p, tile);
        const char *weights =
            (const char *)c.packed +
            (((int64_t)at.group * plan.column_tiles + at.column_tile) * plan.stages + share.begin) *
                Tile::WEIGHT_BYTES;
        const T *from[COLUMNS];
        bool there[COLUMNS];
        uint32_t run[COLUMNS], chunk[COLUMNS];
#pragma unroll
        for (int i = 0; i < COLUMNS; ++i) {
            const int32_t index = (thread % ACROSS + i * 128) * PIXELS;
            const patch_pixel pixel = patch_pixel_of(p, at, index);
            there[i] = pixel.there;
            from[i] = (const T *)c.read + at.n * c.read_stride[0] +
                      ((int64_t)at.group * c.read_per_group + share.begin * Tile::CHANNELS + row) *
                          c.read_stride[1] +
                      pixel.h * c.read_stride[2] + pixel.w;
            const uint32_t first = patch_chunk_at<Tile>(p, index, 0, 0);
            run[i] = first / (UF_PATCH_RUN * 8) * (UF_PATCH_RUN * 8) +
                     (uint32_t)(index * Tile::ELEMENT & 15);
            chunk[i] = first % UF_PATCH_RUN;
        }
        const int64_t step = ROWS * c.read_stride[1];
#pragma unroll 1
        for (int32_t i = share.begin; i < share.end; ++i) {
            uint64_t *const full = shared.barriers->full + stage.index;
            const uint32_t to = shared.stages + (uint32_t)stage.index * Tile::STAGE_BYTES;
            const int32_t left = c.read_per_group - i * Tile::CHANNELS;
            uf_barrier_wait(shared.barriers->empty + stage.index, stage.parity ^ 1);
#pragma unroll 4
            for (int32_t channel = row; channel < Tile::CHANNELS; channel += ROWS) {
#pragma unroll
                for (int j = 0; j < COLUMNS; ++j) {
                    const bool valid = there[j] && channel < left;
                    patch_copy_piece<BYTES>(to + run[j] + (uint32_t)(channel * UF_PATCH_RUN) +
                                                (chunk[j] ^ (uint32_t)((channel & 7) << 4)),
                                            valid ? (const void *)from[j] : c.read, valid);
                    from[j] += step;
                }
            }
            asm volatile(
                "cp.async.mbarrier.arrive.noinc.shared.b64 [%0];\n" ::"r"(uf_shared_address(full))
                : "memory");
            if (thread == 0) {
                uf_barrier_expect(full, Tile::WEIGHT_BYTES);
                uf_copy_bulk(to + UF_PATCH_READ, weights, Tile::WEIGHT_BYTES, full);
            }
            weights += Tile::WEIGHT_BYTES;
            stage.next(plan.buffers);
        }
    }
}

static __device__ __forceinline__ void patch_load1(uint32_t from, uint32_t *words) {
    asm volatile("ld.shared.b32 %0, [%1];\n" : "=r"(words[0]) : "r"(from) : "memory");
}

static __device__ __forceinline__ void patch_load2(uint32_t from, uint32_t *words) {
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];\n"
                 : "=r"(words[0]), "=r"(words[1])
                 : "r"(from)
                 : "memory");
}

static __device__ __forceinline__ void patch_load4(uint32_t from, uint32_t *words) {
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(from)
                 : "memory");
}

/* Offsets of a lane's words in a stage: its first channel of a unit (uf_patch_k), and the next one.
 * Inverted address bits reach the rest of the same 128 bytes. */
template <typename Tile>
struct patch_lane {
    static constexpr int NEXT = Tile::UNDER >= 16 ? 4 / Tile::QUADS : Tile::UNDER == 8 ? 2 : 1;
    uint32_t at[2];
    uint32_t next_run; /* bytes to the second run of a lane's pixels */
};

template <typename Tile>
static __device__ __forceinline__ patch_lane<Tile> patch_lane_of(const patch_conv &p, int warp,
                                                                 int lane) {
    const int value = lane & 3;
    const int channel = Tile::UNDER >= 16  ? value / Tile::QUADS
                        : Tile::UNDER == 8 ? (value & 1) + 4 * (value >> 1)
                                           : 2 * value;
    const int index = warp * 32 + patch_index<Tile>(lane, 0, 0);
    const uint32_t within = (uint32_t)(index * Tile::UNDER) & 15;
    patch_lane<Tile> made;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        made.at[i] = patch_chunk_at<Tile>(p, index, channel + i * patch_lane<Tile>::NEXT,
                                          value % Tile::QUADS) +
                     within;
    }
    made.next_run = (uint32_t)((UF_PATCH_PIXELS >> p.plan.log) * Tile::CHANNELS * UF_PATCH_RUN);
    return made;
}

/* A channel of a lane's four pixels where one column is read: a word each, or half a word of
 * bf16. */
template <typename Tile>
static __device__ __forceinline__ void patch_load_pixels(uint32_t stage, uint32_t at,
                                                         uint32_t *word) {
    constexpr uint32_t FIRST = 8 * Tile::UNDER,
                       SECOND = 16 * Tile::UNDER; /* bytes of 8 and of 16 pixels */
    if (Tile::RUN == 4 && Tile::ELEMENT == 4) {
        patch_load4(stage + at, word);
    } else if (Tile::RUN == 4) {
        patch_load2(stage + at, word);
    } else if (Tile::ELEMENT == 2) {
        patch_load1(stage + at, word);
        patch_load1(stage + (at ^ SECOND), word + 1);
    } else if (Tile::RUN == 2) {
        patch_load2(stage + at, word);
        patch_load2(stage + (at ^ SECOND), word + 2);
    } else {
        patch_load1(stage + at, word);
        patch_load1(stage + (at ^ FIRST), word + 1);
        patch_load1(stage + (at ^ SECOND), word + 2);
        patch_load1(stage + (at ^ (FIRST | SECOND)), word + 3);
    }
}

/* Loads this lane's words of a stage. */
template <typename Tile>
static __device__ __forceinline__ void patch_load(const patch_lane<Tile> &lane, uint32_t stage,
                                                  uint32_t (&word)[Tile::WORDS]) {
    constexpr bool PACKED = Tile::BF16 && Tile::ELEMENT == 4; /* two words make one */
#pragma unroll
    for (int step = 0; step < Tile::STEPS; ++step) {
        if (Tile::SIDE == 1) { /* two channels; BF16 has two more, eight on */
            constexpr int COUNT = Tile::BF16 ? 4 : 2;
#pragma unroll
            for (int i = 0; i < COUNT; ++i) {
                const uint32_t on = (uint32_t)((step * 4 * COUNT + 8 * (i >> 1)) * UF_PATCH_RUN);
                patch_load_pixels<Tile>(stage + on, lane.at[i & 1],
                                        word + (step * COUNT + i) * Tile::ELEMENT);
            }
        } else if (Tile::UNDER == 4) { /* two channels of four pixels */
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                patch_load4(stage + lane.at[i] + (uint32_t)(step * 8 * UF_PATCH_RUN),
                            word + step * 8 + i * 4);
            }
        } else if (Tile::UNDER == 8) { /* a channel of four pixels; two of f32 in BF16, two on */
            constexpr int PARTS = Tile::ELEMENT == 4 && Tile::BF16 ? 2 : 1;
#pragma unroll
            for (int half = 0; half < PARTS; ++half) {
                const int i = PARTS == 2 ? half : step & 1;
                const uint32_t on = (uint32_t)((PARTS == 2 ? step : step >> 1) * 8 * UF_PATCH_RUN);
                uint32_t *const to = word + (step * PARTS + half) * 8;
                patch_load4(stage + on + lane.at[i], to);
                patch_load4(stage + on + (lane.at[i] ^ 16), to + 4);
            }
        } else if (PACKED || step % 2 == 0) { /* 16 bytes of four pixels */
            const int four = PACKED ? step : step / 2;
#pragma unroll
            for (int pixel = 0; pixel < 4; ++pixel) {
                const uint32_t within = (uint32_t)(pixel % Tile::PIXELS * Tile::UNDER);
                patch_load4(stage + (lane.at[four & 1] ^ within) +
                                (uint32_t)(pixel / Tile::PIXELS) * lane.next_run,
                            word + (four * 4 + pixel) * 4);
            }
        }
    }
}

/* Word `reg` of the fragment of pixels `run` in step `step`. Rows are l/4 (reg 0, 2) and l/4 + 8;
 * reg 2 and 3 are the second half of K. f32 is not rounded yet. */
template <typename Tile>
static __device__ __forceinline__ uint32_t patch_word(const uint32_t (&word)[Tile::WORDS], int step,
                                                      int run, int reg) {
    const int low = reg & 1, half = reg >> 1;
    if (Tile::SIDE == 1 && Tile::ELEMENT == 2) {
        const uint32_t a = word[step * 8 + half * 4 + run], b = word[step * 8 + half * 4 + 2 + run];
        return __byte_perm(a, b, low == 0 ? 0x5410 : 0x7632);
    }
    if (Tile::SIDE == 1 && Tile::BF16) {
        const int at = step * 16 + half * 8 + 2 * run + low;
        return uf_pack_bf16(__uint_as_float(word[at]), __uint_as_float(word[at + 4]));
    }
    if (Tile::UNDER == 4) {
        return word[step * 8 + half * 4 + 2 * run + low];
    }
    if (Tile::UNDER == 8) {
        const int at = step * 16 + half * 8 + run * 4 + 2 * low;
        return Tile::ELEMENT == 4 && Tile::BF16
                   ? uf_pack_bf16(__uint_as_float(word[at % Tile::WORDS]),
                                  __uint_as_float(word[(at + 1) % Tile::WORDS]))
                   : word[step * 8 + run * 4 + 2 * low + half];
    }
    const int pixel = 2 * run + low;
    if (Tile::BF16 && Tile::ELEMENT == 4) {
        const int at = (step * 4 + pixel) * 4 + 2 * half;
        return uf_pack_bf16(__uint_as_float(word[at % Tile::WORDS]),
                            __uint_as_float(word[(at + 1) % Tile::WORDS]));
    }
    return word[((step >> 1) * 4 + pixel) * 4 + 2 * (step & 1) + half];
}

#endif

#endif
