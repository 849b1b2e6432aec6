/* pack.cuh - kernels before and after conv_wgmma: packing of weights and windows, exact fix-up. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_PACK_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_PACK_CUH

#include "kernels/cuda/conv/wgmma_implicit_gemm/tile.cuh"
#include "kernels/cuda/conv/wgmma_wgrad/channel_blocked/pack.cuh"

enum {
    WGMMA_FIXUP_BLOCKS = 4,      /* CTAs per multiprocessor that pack again */
    WGMMA_PAIRS_BYTES = 80 << 20 /* blocked bytes up to which pairs of pixels are packed faster */
};

/* The destination of a tap's weights, in blocks of one chunk and tap. It is first_block + (64
 * written channels) * phase_taps * chunks + (window) * phase_taps * depth + (chunk of the window) *
 * taps. */
struct wgmma_tap_coord {
    int32_t first_block;
    int16_t phase_taps, taps; /* taps of its phase; of its phase and class */
};

/* The work of one launch: threads for weights, then CTAs for the channel-blocked copy. */
struct wgmma_packing {
    wgmma_tap_coord
        coord[UF_WGMMA_TAPS]; /* by tap: filter row * columns + column; merged: by entry */
    int32_t taps, tap_columns;
    int32_t run_taps;   /* taps side by side and aligned that one load brings, or 0 */
    int32_t tap_groups; /* groups of run_taps taps, or taps */
    bool taps_first;    /* lanes are the groups of a row, then rows; else rows, then groups */
    int64_t weights;    /* threads that pack weights */
    int32_t weight_blocks;
    channel_blocked read;
    bool pairs; /* channel_blocked_make_pairs makes the copy */
};

/* Channels in 16 bytes of a plane. */
template <uf_mma_math MATH>
struct wgmma_pieces {
    static constexpr int CHANNELS = MATH == UF_MMA_BF16 || MATH == UF_MMA_F16X3 ? 8 : 4;
    static constexpr bool SPLIT = MATH == UF_MMA_TF32X3 || MATH == UF_MMA_F16X3;
    static constexpr int TOGETHER = MATH == UF_MMA_F16X3 ? 2 : 4; /* large parts, then small ones */
};

/* RUN taps of one channel by one load. */
template <int RUN, typename T>
struct wgmma_run {
    static constexpr int WORDS = RUN * sizeof(T) / 4;
    uint32_t word[WORDS];

    __device__ __forceinline__ void load(const T *from) {
        static_assert(WORDS == 4 || WORDS == 2, "16 bytes or 8");
        if constexpr (WORDS == 4) {
            const uint4 words = *(const uint4 *)from;
            word[0] = words.x;
            word[1] = words.y;
            word[2] = words.z;
            word[3] = words.w;
        } else {
            const uint2 words = *(const uint2 *)from;
            word[0] = words.x;
            word[1] = words.y;
        }
    }
};

/* 16 bytes of K of tap `tap` of a run. */
template <uf_mma_math MATH, int RUN, typename T>
static __device__ __forceinline__ void
wgmma_run_words(const wgmma_run<RUN, T> (&run)[wgmma_pieces<MATH>::CHANNELS], int tap, float scale,
                uint4 *words, uint4 *small) {
    if constexpr (sizeof(T) == 2) {
        uint32_t word[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            word[i] = __byte_perm(run[2 * i].word[tap / 2], run[2 * i + 1].word[tap / 2],
                                  tap % 2 == 0 ? 0x5410 : 0x7632);
        }
        *words = make_uint4(word[0], word[1], word[2], word[3]);
    } else {
        float value[wgmma_pieces<MATH>::CHANNELS];
#pragma unroll
        for (int k = 0; k < wgmma_pieces<MATH>::CHANNELS; ++k) {
            value[k] = __uint_as_float(run[k].word[tap]);
        }
        conv_words<MATH>(value, scale, words, small);
    }
}

/* [group][phase][64 written channels][window][class][chunk of the window][tap][plane][row][16
 * bytes], zeros where there is no channel. A thread makes 16 bytes (FP32: twice 16) of a row for
 * a run of taps.
 *
 * RUN > 0: a load brings a run of RUN taps. Lanes are the runs of a row, then rows, so that loads
 * and stores are whole sectors. Otherwise a thread has one tap and loads single elements, and lanes
 * are taps where the taps of the channels that it reads lie side by side. */
template <uf_mma_math MATH, int RUN, typename T>
static __device__ __forceinline__ void
wgmma_pack_weights(const wgmma_conv &p, const wgmma_packing &packing, int32_t index, float scale) {
    const mma_conv &c = p.conv;
    constexpr int CHANNELS = wgmma_pieces<MATH>::CHANNELS;
    constexpr bool SPLIT = wgmma_pieces<MATH>::SPLIT;
    constexpr int TOGETHER = wgmma_pieces<MATH>::TOGETHER;
    const int32_t pieces = SPLIT ? p.planes / 2 : p.planes;
    const int32_t together = packing.tap_groups * UF_WGMMA_ROWS;
    int32_t rest = index / together;
    index -= rest * together;
    constexpr int TAPS = RUN > 0 ? RUN : 1;
    const bool taps_first = RUN > 0 || packing.taps_first;
    const int32_t row = taps_first ? index / packing.tap_groups : index % UF_WGMMA_ROWS;
    const int32_t first_tap =
        (taps_first ? index - row * packing.tap_groups : index / UF_WGMMA_ROWS) * TAPS;
    int32_t next = rest / pieces;
    const int piece = rest - next * pieces;
    rest = next / p.chunks;
    const int32_t chunk = next - rest * p.chunks;
    const int64_t group = rest / p.channel_blocks;
    const int32_t block = rest % p.channel_blocks;
    /* Merged phases: rows 8 to 15 of 16 are odd columns. */
    const int32_t written = p.merged ? block * UF_WGMMA_MERGED + (row >> 4) * 8 + (row & 7)
                                     : block * UF_WGMMA_ROWS + row;
    const int32_t read = (chunk * pieces + piece) * CHANNELS;
    const int32_t channels = written < c.written_per_group ? c.read_per_group - read : 0;
    const int32_t bytes = p.planes * UF_WGMMA_PLANE;
    const T *const from =
        (const T *)c.weight + group * c.w_group + written * c.w_written + read * c.w_read;
    char *const to =
        (char *)c.packed + (group * packing.taps * p.channel_blocks * p.chunks) * bytes +
        ((SPLIT ? piece + piece / TOGETHER * TOGETHER : piece) * UF_WGMMA_ROWS + row) * 16;
    const int32_t window = chunk / p.depth;
    const int32_t by_phase_tap = block * p.chunks + window * p.depth;
    const int32_t by_tap = chunk - window * p.depth;
    constexpr int WIDTH = RUN > 0 ? RUN : 4;
    wgmma_run<WIDTH, T> run[CHANNELS] = {};
    if (RUN > 0) {
#pragma unroll
        for (int k = 0; k < CHANNELS; ++k) {
            if (k < channels) {
                run[k].load(from + k * c.w_read + first_tap);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < TAPS; ++i) {
        const int32_t tap = first_tap + i;
        uint4 words, small;
        if constexpr (RUN > 0) {
            wgmma_run_words<MATH, RUN, T>(run, i, scale, &words, &small);
        } else {
            int32_t tap_row = tap / packing.tap_columns;
            int32_t tap_column = tap - tap_row * packing.tap_columns;
            if (p.merged) { /* `tap` counts entries of the geometry's lists */
                tap_row = p.tap_of[tap][0];
                tap_column = (row & 8) != 0 ? p.odd_tap[tap] : p.tap_of[tap][1];
            }
            const int32_t there = tap_column == UF_WGMMA_NO_TAP ? 0 : channels;
            const T *const at = from + tap_row * c.w_row + tap_column * c.w_column;
            float value[CHANNELS];
#pragma unroll
            for (int k = 0; k < CHANNELS; ++k) {
                value[k] = k < there ? (float)at[k * c.w_read] : 0.0f;
            }
            conv_words<MATH>(value, scale, &words, &small);
        }
        const wgmma_tap_coord &coord = packing.coord[tap];
        const int64_t at =
            coord.first_block + (int64_t)by_phase_tap * coord.phase_taps + by_tap * coord.taps;
        *(uint4 *)(to + at * bytes) = words;
        if (SPLIT) {
            *(uint4 *)(to + at * bytes + TOGETHER * UF_WGMMA_PLANE) = small;
        }
    }
}

/* CTA `block` of a launch. */
template <uf_mma_math MATH, typename T>
static __device__ __forceinline__ void wgmma_pack_block(const wgmma_conv &p,
                                                        const wgmma_packing &packing, int32_t block,
                                                        float read_scale, float weight_scale) {
    if (block < packing.weight_blocks) {
        const int32_t index = block * UF_BLOCK + (int32_t)threadIdx.x;
        if (index >= packing.weights) {
            return;
        }
        if (packing.run_taps == 0) {
            wgmma_pack_weights<MATH, 0, T>(p, packing, index, weight_scale);
        } else if (sizeof(T) == 2 && packing.run_taps == 8) {
            wgmma_pack_weights<MATH, sizeof(T) == 2 ? 8 : 4, T>(p, packing, index, weight_scale);
        } else {
            wgmma_pack_weights<MATH, 4, T>(p, packing, index, weight_scale);
        }
    } else if (sizeof(T) == 2 && packing.pairs) {
        channel_blocked_make_pairs(packing.read, block - packing.weight_blocks);
    } else {
        channel_blocked_make<MATH, T>(packing.read, block - packing.weight_blocks, read_scale);
    }
}

static __device__ __forceinline__ void wgmma_pack_begin(const wgmma_conv &p) {
    if (blockIdx.x == 0) {
        for (int32_t i = (int32_t)threadIdx.x; i < p.stream_k * p.wm; i += UF_BLOCK) {
            p.part_done[i] = 0;
        }
    }
}

template <uf_mma_math MATH, typename T>
static __global__ void __launch_bounds__(UF_BLOCK)
    conv_wgmma_pack(const __grid_constant__ wgmma_conv p,
                    const __grid_constant__ wgmma_packing packing) {
    uf_overlap_launches();
    wgmma_pack_begin(p);
    wgmma_pack_block<MATH, T>(p, packing, (int32_t)blockIdx.x, 1.0f, 1.0f);
}

/* Threads and destinations of the taps. */
static inline wgmma_packing wgmma_packing_of(const wgmma_conv &p, bool fp32, size_t element) {
    const mma_conv &c = p.conv;
    wgmma_packing made;
    memset((void *)&made, 0, sizeof made);
    made.tap_columns = c.axis[1].kernel;
    made.taps = p.merged ? p.first_tap[p.phases * p.classes] : c.axis[0].kernel * made.tap_columns;
    for (int32_t pair = 0; pair < p.phases * p.classes; ++pair) {
        const int32_t phase = pair / p.classes * p.classes;
        const int32_t phase_first = p.first_tap[phase];
        const int32_t phase_taps = p.first_tap[phase + p.classes] - phase_first;
        const int32_t first = p.first_tap[pair];
        const int32_t taps = p.first_tap[pair + 1] - first;
        for (int32_t entry = first; entry < first + taps; ++entry) {
            wgmma_tap_coord &coord =
                made.coord[p.merged ? entry
                                    : p.tap_of[entry][0] * made.tap_columns + p.tap_of[entry][1]];
            coord.first_block = phase_first * p.channel_blocks * p.chunks +
                                (first - phase_first) * p.depth + (entry - first);
            coord.phase_taps = (int16_t)phase_taps;
            coord.taps = (int16_t)taps;
        }
    }
    /* Taps by loads of 16 bytes, or of 8. */
    const int64_t strides = c.w_group | c.w_written | c.w_read;
    if (!p.merged && (made.tap_columns == 1 || c.w_column == 1) &&
        (c.axis[0].kernel == 1 || c.w_row == made.tap_columns)) {
        for (int32_t run = 16 / (int32_t)element; run >= 4 && made.run_taps == 0; run /= 2) {
            made.run_taps = made.taps % run == 0 && strides % run == 0 &&
                                    (uintptr_t)c.weight % (run * element) == 0
                                ? run
                                : 0;
        }
    }
    made.tap_groups = made.run_taps > 0 ? made.taps / made.run_taps : made.taps;
    made.taps_first = made.run_taps > 0 ||
                      (!p.merged && llabs((long long)c.w_read) < llabs((long long)c.w_written));
    made.weights = (int64_t)c.groups * p.channel_blocks * p.chunks *
                   (fp32 ? p.planes / 2 : p.planes) * UF_WGMMA_ROWS * made.tap_groups;
    made.weight_blocks = (int32_t)((made.weights + UF_BLOCK - 1) / UF_BLOCK);
    return made;
}

#endif
