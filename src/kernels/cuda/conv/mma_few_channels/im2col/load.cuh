/* load.cuh - loads the window of a tile of conv_im2col into shared memory, unconverted. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_IM2COL_LOAD_CUH
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_IM2COL_LOAD_CUH

#include "kernels/cuda/conv/simt_direct/load.cuh"
#include "kernels/cuda/conv/mma_few_channels/im2col/plan.h"
#include "kernels/cuda/arch/sm80_mma_split.cuh"
#include "kernels/cuda/arch/sm90_wgmma.cuh"

/* PARTS: 2 splits operands into big and small TF32 parts (three MMAs), 1 rounds them. A warp has N
 * 8-column and M 16-cell blocks. */
template <typename Element, uf_mma_math MATH_, int N_, int M_>
struct im2col_tile {
    typedef Element T;
    static constexpr uf_mma_math MATH = MATH_;
    static constexpr int PARTS = MATH == UF_MMA_TF32X3 ? 2 : 1, N = N_, M = M_;
    /* The launch bounds allow two or three blocks of RATION threads. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
    /* Without `cp.async.bulk`, 80 registers are too few: ten warps a block, and eight for the
     * widest sums, which would spill 24 bytes. */
    static constexpr int WARPS =
        uf_im2col_resident(N, M, PARTS) > 16 && !(N == 8 && PARTS == 2) ? 20 : 16;
#else
    static constexpr int WARPS = uf_im2col_resident(N, M, PARTS);
#endif
    /* Registers for line ends in pieces and for filling dead rows slice by slice. Both are faster,
     * and spill with 80 registers. */
    static constexpr bool ROOMY = N >= 6 && WARPS == 16;
    static constexpr int BLOCKS = WARPS > 20 ? 3 : 2, RATION = WARPS / BLOCKS * 32;
    static constexpr int UNIT = MATH == UF_MMA_BF16 ? 8 : 4; /* elements of 16 bytes */
};

/* One operand word: one TF32 element (FP32 is split later) or two bf16 elements of K. */
template <typename Tile>
static __device__ __forceinline__ uint32_t im2col_word(const float (&value)[1]) {
    return Tile::MATH == UF_MMA_TF32 ? mma_round_by_bits(value[0]) : __float_as_uint(value[0]);
}

template <typename Tile>
static __device__ __forceinline__ uint32_t im2col_word(const float (&value)[2]) {
    return uf_pack_bf16(value[0], value[1]);
}

template <typename Tile>
static __device__ __forceinline__ uint32_t im2col_word(const uf_bf16 (&value)[2]) {
    return (uint32_t)value[0].bits | (uint32_t)value[1].bits << 16;
}

/* The first entry of table `which` for this thread. Each warp makes one of the short tables of the
 * prologue, all at the same time. */
static __device__ __forceinline__ int32_t im2col_table_first(const uf_im2col_conv &p,
                                                             int32_t which) {
    const int32_t at = (int32_t)threadIdx.x - (which < p.warps ? 32 * which : 0);
    return at < 0 ? at + (int32_t)blockDim.x : at;
}

static __device__ __forceinline__ direct_coord im2col_coord_of(const uf_im2col_conv &p,
                                                               int32_t group, int32_t tile) {
    const uf_direct_axis &rows = p.conv.axis[0], &columns = p.conv.axis[1];
    direct_coord at;
    const int32_t down = direct_divide(p.by_tiles_w, tile);
    at.cell[1] = columns.cell_first + (tile - down * columns.tiles) * p.across;
    at.n = direct_divide(p.by_tiles_h, down);
    at.cell[0] = rows.cell_first + (down - at.n * rows.tiles) * rows.tile;
    at.group = group;
    at.slice = 0;
    return at;
}

/* Copies WIDTH elements to shared memory: `size` bytes of them, then zeros. */
template <int WIDTH, typename T>
static __device__ __forceinline__ void im2col_copy(uint32_t to, const T *from, int size) {
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

/* A line of the window, of one of the first channels: offsets from the window's first element, in
 * the tensor and in shared memory. The same for all tiles. */
struct __align__(16) im2col_line {
    int32_t from, to, row, channel;
};

static __device__ __forceinline__ void im2col_make_lines(const uf_im2col_conv &p,
                                                         im2col_line *lines) {
    const uf_direct_axis &rows = p.conv.axis[0];
#pragma unroll 1
    for (int32_t i = (int32_t)threadIdx.x; i < p.lines_in << p.share_bits;
         i += (int32_t)blockDim.x) {
        im2col_line line;
        line.channel = direct_divide(p.by_lines, i);
        const int32_t at = i - line.channel * p.lines_in;
        const int32_t residue = direct_divide(p.conv.by_coords, at);
        line.row = (at - residue * rows.coords) * rows.in_step + rows.residue[residue];
        line.from = line.row * (int32_t)p.conv.read_stride[2];
        line.to = at * p.conv.pitch + line.channel * p.conv.channel_words;
        lines[i] = line;
    }
}

/* The window of a tile: its first element, and that element's row and column in the image. */
template <typename T>
struct im2col_window {
    const T *first;
    int32_t h, w;
};

template <typename T>
static __device__ __forceinline__ im2col_window<T>
im2col_window_of(const uf_im2col_conv &p, const direct_coord &at, int32_t first_channel) {
    const uf_direct_conv &conv = p.conv;
    im2col_window<T> window;
    window.h = at.cell[0] * conv.axis[0].in_step + conv.axis[0].low;
    window.w = at.cell[1] * conv.axis[1].in_step + conv.axis[1].low;
    window.first = (const T *)conv.read + at.n * conv.read_stride[0] +
                   ((int64_t)at.group * conv.read_per_group + first_channel) * conv.read_stride[1] +
                   window.h * conv.read_stride[2] + window.w * conv.read_stride[3];
    return window;
}

/* Loads a chunk of channels by cp.async, with zeros outside the image and beyond the last channel.
 * A thread copies the same position of every `share`-th channel. */
template <int WIDTH, typename T>
static __device__ __forceinline__ void
im2col_load_by(const uf_im2col_conv &p, const im2col_window<T> &from_window, int32_t first_channel,
               const im2col_line *lines, T *window) {
    const uf_direct_conv &conv = p.conv;
    const uf_direct_axis &rows = conv.axis[0], &columns = conv.axis[1];
    const uint32_t shared = (uint32_t)__cvta_generic_to_shared(window);
    const int32_t share = 1 << p.share_bits;
    const int32_t to_next = share * conv.channel_words * (int32_t)sizeof(T);
#pragma unroll 1
    for (int32_t task = (int32_t)threadIdx.x; task < p.lines_in * p.vectors << p.share_bits;
         task += (int32_t)blockDim.x) {
        const int32_t which = direct_divide(p.by_vectors, task);
        const im2col_line line = lines[which];
        const int32_t c = line.channel;
        const int32_t column = (task - which * p.vectors) * WIDTH;
        const int32_t h = from_window.h + line.row;
        const int32_t w = from_window.w + column;
        const bool inside =
            (uint32_t)h < (uint32_t)rows.read && (uint32_t)w < (uint32_t)columns.read;
        const T *from = inside ? from_window.first + c * conv.read_stride[1] + line.from +
                                     column * conv.read_stride[3]
                               : (const T *)conv.read;
        const int64_t from_next = inside ? share * conv.read_stride[1] : 0;
        const int size = inside ? WIDTH * (int)sizeof(T) : 0;
        uint32_t to = shared + (uint32_t)((line.to + column) * (int32_t)sizeof(T));
        const int32_t all = (conv.chunk - c + share - 1) >> p.share_bits;
        int32_t left = (conv.read_per_group - first_channel - c + share - 1) >> p.share_bits;
        left = max(min(left, all), 0);
        int32_t beyond = all - left;
        /* A branch among the copies makes nvcc put three empty loads before each run of them. */
#pragma unroll 1
        for (; left >= 4; left -= 4) {
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                im2col_copy<WIDTH>(to, from, size);
                from += from_next;
                to += to_next;
            }
        }
#pragma unroll 1
        for (; left > 0; --left) {
            im2col_copy<WIDTH>(to, from, size);
            from += from_next;
            to += to_next;
        }
#pragma unroll 1
        for (; beyond > 0; --beyond) {
            im2col_copy<WIDTH>(to, (const T *)conv.read, 0);
            to += to_next;
        }
    }
}

/* Loads lines by `cp.async.bulk`: the 16-byte words around the part that is inside the image. */
template <typename T>
static __device__ __forceinline__ void
im2col_load_bulk(const uf_im2col_conv &p, const im2col_window<T> &from_window,
                 int32_t first_channel, const im2col_line *lines, T *window, uint64_t *barrier) {
#if UF_HAS_WGMMA
    constexpr int32_t VECTOR = 16 / (int32_t)sizeof(T);
    const uf_direct_conv &conv = p.conv;
    const uf_direct_axis &rows = conv.axis[0], &columns = conv.axis[1];
    const int32_t lane = (int32_t)threadIdx.x & 31;
    const int32_t begin = max(-from_window.w, 0);
    const int32_t end = min(columns.span, columns.read - from_window.w);
    const int32_t tasks = min(conv.chunk, conv.read_per_group - first_channel) * p.lines_in;
    int32_t base = (int32_t)threadIdx.x >> 5;
#pragma unroll 1
    for (int32_t turn = 0; turn < p.bulk_turns; ++turn, base += 32 * p.warps) {
        const int32_t mine = base + lane * p.warps;
        const int32_t c = direct_divide(p.by_lines, mine);
        const im2col_line line = lines[mine < tasks ? mine - c * p.lines_in : 0];
        const bool inside = mine < tasks && end > begin &&
                            (uint32_t)(from_window.h + line.row) < (uint32_t)rows.read;
        const T *const from = from_window.first + c * conv.read_stride[1] + line.from + begin;
        const int32_t head = (int32_t)((uintptr_t)from / sizeof(T) & (uintptr_t)(VECTOR - 1));
        const int32_t all = (end - begin + head + VECTOR - 1) & ~(VECTOR - 1);
        const uint32_t bytes = inside ? (uint32_t)(all * (int32_t)sizeof(T)) : 0;
        const uint32_t sum = __reduce_add_sync(0xffffffffu, bytes);
        if (lane == 0) {
            uf_barrier_expect(barrier, sum);
        }
        if (inside) {
            uf_copy_bulk(
                uf_shared_address(window + c * conv.channel_words + line.to + begin - head),
                from - head, bytes, barrier);
        }
    }
#endif
}

/* Zeros the elements outside the image and beyond the last channel, which bulk copies do not write.
 * The window begins at (first_h, first_w) and has `left` channels. */
template <typename T>
static __device__ __noinline__ void im2col_zero_outside(const uf_im2col_conv &p, int32_t first_h,
                                                        int32_t first_w, int32_t left,
                                                        const im2col_line *lines, T *window) {
#if UF_HAS_WGMMA
    const uf_direct_conv &conv = p.conv;
    const uf_direct_axis &rows = conv.axis[0], &columns = conv.axis[1];
    const int32_t span = columns.span;
    const int32_t begin = max(-first_w, 0);
    const int32_t end = min(span, columns.read - first_w);
    const int32_t lane = (int32_t)threadIdx.x & 31;
    int32_t base = (int32_t)threadIdx.x >> 5;
#pragma unroll 1
    for (int32_t turn = 0; turn < p.bulk_turns; ++turn, base += 32 * p.warps) {
        const int32_t mine = base + lane * p.warps;
        const bool there = mine < conv.chunk * p.lines_in;
        const int32_t c = there ? direct_divide(p.by_lines, mine) : 0;
        const im2col_line line = lines[there ? mine - c * p.lines_in : 0];
        const bool inside =
            c < left && end > begin && (uint32_t)(first_h + line.row) < (uint32_t)rows.read;
        T *const to = window + c * conv.channel_words + line.to;
        if (there && inside) {
#pragma unroll 1
            for (int32_t i = 0; i < begin + span - end; ++i) {
                to[i < begin ? i : i - begin + end] = (T)0.0f;
            }
        }
        uint32_t outside = __ballot_sync(0xffffffffu, there && !inside);
#pragma unroll 1
        for (; outside != 0; outside &= outside - 1) {
            T *const all =
                (T *)__shfl_sync(0xffffffffu, (unsigned long long)to, __ffs((int)outside) - 1);
#pragma unroll 1
            for (int32_t i = lane; i < span; i += 32) {
                all[i] = (T)0.0f;
            }
        }
    }
    uf_fence_async_shared(); /* orders these stores before the next bulk copies */
#endif
}

/* Returns the elements by which the window begins after `window`. */
template <typename T>
static __device__ __forceinline__ int32_t im2col_load(const uf_im2col_conv &p,
                                                      const direct_coord &at, int32_t first_channel,
                                                      const im2col_line *lines, T *window,
                                                      uint64_t *barrier) {
    const im2col_window<T> from = im2col_window_of<T>(p, at, first_channel);
    int32_t shift = 0;
    if (p.bulk) {
        shift = (int32_t)((uintptr_t)from.first / sizeof(T) & (16 / sizeof(T) - 1));
        window += shift;
        if (UF_HAS_WGMMA) {
            im2col_load_bulk(p, from, first_channel, lines, window, barrier);
            return shift;
        }
    }
    if (p.width == 4) {
        im2col_load_by<4>(p, from, first_channel, lines, window);
    } else if (p.width == 2) {
        im2col_load_by<2>(p, from, first_channel, lines, window);
    } else {
        im2col_load_by<1>(p, from, first_channel, lines, window);
    }
    uf_copy_async_commit();
    return shift;
}

#endif
