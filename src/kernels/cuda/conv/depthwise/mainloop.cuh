/* mainloop.cuh - the kernel of depthwise/launch.cu. */
#ifndef UF_KERNELS_CUDA_CONV_DEPTHWISE_MAINLOOP_CUH
#define UF_KERNELS_CUDA_CONV_DEPTHWISE_MAINLOOP_CUH

#include "kernels/cuda/conv/depthwise/plan.h"
#include "kernels/cuda/conv/simt_direct/epilogue.cuh"
#include "kernels/geometry.h"

/* The bits of a vector by its size in bytes. */
template <int BYTES>
struct depthwise_bits;
template <>
struct depthwise_bits<2> {
    typedef unsigned short type;
};
template <>
struct depthwise_bits<4> {
    typedef unsigned type;
};
template <>
struct depthwise_bits<8> {
    typedef uint2 type;
};
template <>
struct depthwise_bits<16> {
    typedef uint4 type;
};

/* N neighbours as they lie in memory: bf16 becomes f32 where it is multiplied. */
template <typename T, int N>
struct depthwise_vector {
    static constexpr int WORDS = N * sizeof(T) < 4 ? 1 : N * (int)sizeof(T) / 4;
    typedef typename depthwise_bits<N * sizeof(T)>::type bits;
    unsigned word[WORDS];

    __device__ __forceinline__ void load(const T *from, bool take) {
        bits all = {};
        if (take) {
            all = __ldg((const bits *)from);
        }
        if constexpr (sizeof(bits) == 2) {
            word[0] = all;
        } else {
            memcpy(word, &all, sizeof all);
        }
    }

    /* Elements that the thread will overwrite: not by __ldg, whose cache sees no writes. */
    __device__ __forceinline__ void load_written(const T *from) {
        bits all = *(const bits *)from;
        if constexpr (sizeof(bits) == 2) {
            word[0] = all;
        } else {
            memcpy(word, &all, sizeof all);
        }
    }

    __device__ __forceinline__ float get(int i) const {
        if (sizeof(T) == 4) {
            return __uint_as_float(word[sizeof(T) == 4 ? i : 0]);
        }
        const unsigned pair = word[i / 2 < WORDS ? i / 2 : 0];
        return __uint_as_float(i % 2 == 0 ? pair << 16 : pair & 0xffff0000u);
    }

    static __device__ __forceinline__ void store(T *to, const float *value) {
        T made[N];
#pragma unroll
        for (int i = 0; i < N; ++i) {
            made[i] = (T)value[i];
        }
        bits all;
        memcpy(&all, made, sizeof all);
        *(bits *)to = all;
    }
};

/* OUT, IN: steps of the written side and of the read one; FILTER x FILTER taps; a thread makes
 * ROWS x RUN elements. Element o of a thread reads, for tap r, coordinate o*IN + r - BEFORE of its
 * window where OUT is 1, and (o + BEFORE - r)/OUT elsewhere, where that is whole. */
template <typename Element, int OUT_, int IN_, int FILTER_, int ROWS_, int RUN_, bool VECTOR_>
struct depthwise_tile {
    typedef Element T;
    static constexpr int OUT = OUT_, IN = IN_, FILTER = FILTER_, ROWS = ROWS_, RUN = RUN_;
    static constexpr bool VECTOR = VECTOR_;
    static constexpr int BEFORE = (FILTER - 1) / 2; /* uf_depthwise_padding */
    /* Coordinates below 0, and all of them, of a window for `count` written elements. */
    static constexpr int LOW = OUT == 1 ? BEFORE : (FILTER - 1 - BEFORE) / 2;
    static constexpr UF_HD int coords(int count) {
        return OUT == 1 ? (count - 1) * IN + FILTER : LOW + (count - 1 + BEFORE) / 2 + 1;
    }
    static constexpr int WIDTH = coords(RUN), HEIGHT = coords(ROWS);
    /* A row of the window by vectors: before coordinate 0, from it on, and after that. */
    static constexpr int MAIN = RUN * IN / OUT;
    static constexpr int AFTER = WIDTH - LOW - MAIN;
    static constexpr UF_HD int power(int count) {
        return count <= 1 ? 1 : count == 2 ? 2 : 4;
    }
    static constexpr int LEFT = power(LOW), RIGHT = power(AFTER);
    /* The tap that written element `o` meets at coordinate `i` - LOW, or -1. */
    static constexpr UF_HD int tap(int o, int i) {
        const int r = OUT == 1 ? i - o * IN : o + BEFORE - OUT * (i - LOW);
        return r >= 0 && r < FILTER ? r : -1;
    }
    /* Blocks per multiprocessor, for the registers of sums, taps and some rows of the window. */
    static constexpr int NEED =
        ROWS * RUN + FILTER * FILTER +
        (VECTOR ? WIDTH * HEIGHT * (int)sizeof(T) / 4 : WIDTH * HEIGHT + (sizeof(T) == 2 ? 40 : 8));
    static constexpr int FEWEST = !VECTOR                                ? 2
                                  : FILTER == 7                          ? (sizeof(T) == 2 ? 3 : 2)
                                  : ROWS * RUN > 16 || FILTER *ROWS > 32 ? 3
                                                                         : 4;
    static constexpr int WANTED = NEED <= 36    ? 8
                                  : NEED <= 44  ? 6
                                  : NEED <= 66  ? 5
                                  : NEED <= 90  ? 4
                                  : NEED <= 140 ? 3
                                                : 2;
    static constexpr int BLOCKS = WANTED < FEWEST ? FEWEST : WANTED;
};

template <typename Tile, bool VECTOR>
struct depthwise_row;

template <typename Tile>
struct depthwise_row<Tile, true> {
    typedef typename Tile::T T;
    depthwise_vector<T, Tile::MAIN> main;
    depthwise_vector<T, Tile::LEFT> left;
    depthwise_vector<T, Tile::RIGHT> right;

    /* `from` is coordinate 0, column `column`: a vector is inside or outside as a whole. */
    __device__ __forceinline__ void load(const T *from, int32_t column, int32_t width,
                                         bool inside) {
        main.load(from, inside && (uint32_t)column < (uint32_t)width);
        if (Tile::LOW > 0) {
            left.load(from - Tile::LEFT, inside && (uint32_t)(column - 1) < (uint32_t)width);
        }
        if (Tile::AFTER > 0) {
            right.load(from + Tile::MAIN, inside && column + Tile::MAIN < width);
        }
    }

    __device__ __forceinline__ float get(int i) const {
        return i < Tile::LOW                ? left.get(i - Tile::LOW + Tile::LEFT)
               : i < Tile::LOW + Tile::MAIN ? main.get(i - Tile::LOW)
                                            : right.get(i - Tile::LOW - Tile::MAIN);
    }
};

template <typename Tile>
struct depthwise_row<Tile, false> {
    typedef typename Tile::T T;
    depthwise_vector<T, 1> coord[Tile::WIDTH];

    __device__ __forceinline__ void load(const T *from, int32_t column, int32_t width,
                                         bool inside) {
#pragma unroll
        for (int i = 0; i < Tile::WIDTH; ++i) {
            coord[i].load(from + i - Tile::LOW,
                          inside && (uint32_t)(column + i - Tile::LOW) < (uint32_t)width);
        }
    }

    __device__ __forceinline__ float get(int i) const {
        return coord[i].get(0);
    }
};

/* A thread's elements. */
struct depthwise_coord {
    direct_coord at; /* image and group */
    int32_t channel; /* of the group */
    int32_t h, w;    /* the first written element */
};

/* False: a thread that is none, or that fills up a row's warps. */
template <typename Tile>
static __device__ __forceinline__ bool depthwise_coord_of(const uf_depthwise_conv &p,
                                                          depthwise_coord *coord) {
    const int32_t thread = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
    const int32_t row = direct_divide(p.by_piece, thread);
    const int32_t rest = direct_divide(p.by_strips, row);
    const int32_t plane = direct_divide(p.by_pieces, rest);
    const int32_t run = thread - row * (int32_t)p.by_piece.divisor +
                        (rest - plane * (int32_t)p.by_pieces.divisor) * (int32_t)p.by_piece.divisor;
    const int32_t n = direct_divide(p.by_channels, plane);
    const int32_t channel = plane - n * (int32_t)p.by_channels.divisor;
    const int32_t group = direct_divide(p.by_written, channel);
    coord->at.n = n;
    coord->at.group = group;
    coord->channel = channel - group * (int32_t)p.by_written.divisor;
    coord->h = (row - rest * (int32_t)p.by_strips.divisor) * Tile::ROWS + p.origin[0];
    coord->w = run * Tile::RUN + p.origin[1];
    return thread < p.threads && run < p.runs;
}

template <typename Tile>
static __device__ __forceinline__ void depthwise_taps(const uf_depthwise_conv &p,
                                                      const typename Tile::T *from,
                                                      float (&tap)[Tile::FILTER * Tile::FILTER]) {
    constexpr int TAPS = Tile::FILTER * Tile::FILTER;
    if (Tile::OUT == 1 && Tile::IN == 1 && p.flip) {
#pragma unroll
        for (int i = 0; i < TAPS; ++i) {
            tap[i] = direct_get(from + TAPS - 1 - i);
        }
    } else {
#pragma unroll
        for (int i = 0; i < TAPS; ++i) {
            tap[i] = direct_get(from + i);
        }
    }
}

/* The range that a block of whole strips writes. Its elements follow each other; in shared memory
 * they lie as in memory, from the beginning of a line of 128 bytes on. */
struct depthwise_range {
    int64_t first;
    int32_t count, skip; /* elements; elements of the line before the first */
};

static __device__ __forceinline__ int64_t depthwise_strip(const uf_depthwise_conv &p, int32_t rows,
                                                          int32_t strip) {
    const int32_t plane = direct_divide(p.by_pieces, direct_divide(p.by_strips, strip));
    const int32_t h = (strip - plane * (int32_t)p.by_strips.divisor) * rows + p.origin[0];
    return ((int64_t)plane * p.conv.axis[0].written + max(h, 0)) * p.conv.axis[1].written;
}

/* The range of a block that has whole strips. */
template <typename Tile>
static __device__ __forceinline__ depthwise_range depthwise_range_of(const uf_depthwise_conv &p) {
    typedef typename Tile::T T;
    depthwise_range range;
    const int32_t from = (int32_t)(blockIdx.x * blockDim.x);
    const int32_t to = (int32_t)min((unsigned)from + blockDim.x, (unsigned)p.threads);
    range.first = depthwise_strip(p, Tile::ROWS, direct_divide(p.by_piece, from));
    range.count =
        (int32_t)(depthwise_strip(p, Tile::ROWS, direct_divide(p.by_piece, to)) - range.first);
    range.skip = (int32_t)((uintptr_t)((const T *)p.conv.written + range.first) % 128 / sizeof(T));
    return range;
}

/* Row 0 of the thread's channel there. */
template <typename Tile>
static __device__ __forceinline__ typename Tile::T *
depthwise_base(const uf_depthwise_conv &p, const depthwise_coord &coord,
               const depthwise_range &range, typename Tile::T *shared) {
    const int64_t plane = (int64_t)coord.at.n * (int32_t)p.by_channels.divisor +
                          coord.at.group * p.conv.written_per_group + coord.channel;
    return shared + range.skip +
           (int32_t)(plane * p.conv.axis[0].written * p.conv.axis[1].written - range.first);
}

/* Exact fix-up, element by element, where a sum is not finite (see direct_store_exact). `to` is row
 * 0 of the channel. */
template <typename Tile>
static __device__ __noinline__ void depthwise_write_exact(const uf_depthwise_conv &p,
                                                          typename Tile::T *to, int64_t stride) {
    typedef typename Tile::T T;
    depthwise_coord coord;
    depthwise_coord_of<Tile>(p, &coord);
    const direct_epilogue epilogue =
        direct_epilogue_of<T>(p.conv, coord.at.group * p.conv.written_per_group + coord.channel);
#pragma unroll 1
    for (int32_t i = 0; i < Tile::ROWS * Tile::RUN; ++i) {
        const int32_t h = coord.h + i / Tile::RUN, w = coord.w + i % Tile::RUN;
        if ((uint32_t)h < (uint32_t)p.conv.axis[0].written &&
            (uint32_t)w < (uint32_t)p.conv.axis[1].written) {
            const float sum = direct_exact<T>(p.conv, coord.at, coord.channel, h, w);
            direct_write_element(to + h * stride + w, direct_finish(p.conv, epilogue, sum),
                                 p.conv.accumulate);
        }
    }
}

/* A thread's results, `to` being row 0 of the channel. */
template <typename Tile>
static __device__ __forceinline__ void
depthwise_write(const uf_depthwise_conv &p, const depthwise_coord &coord,
                const float (&sum)[Tile::ROWS][Tile::RUN], typename Tile::T *to, int64_t stride,
                bool accumulate) {
    typedef typename Tile::T T;
    constexpr int N = Tile::VECTOR ? Tile::RUN : 1;
    to += coord.h * stride + coord.w;
#pragma unroll
    for (int o = 0; o < Tile::ROWS; ++o) {
#pragma unroll
        for (int v = 0; v < Tile::RUN; v += N) {
            if ((uint32_t)(coord.h + o) < (uint32_t)p.conv.axis[0].written &&
                (N > 1 || (uint32_t)(coord.w + v) < (uint32_t)p.conv.axis[1].written)) {
                float value[N];
#pragma unroll
                for (int i = 0; i < N; ++i) {
                    value[i] = sum[o][v + i];
                }
                if (accumulate) {
                    depthwise_vector<T, N> before;
                    before.load_written(to + v);
#pragma unroll
                    for (int i = 0; i < N; ++i) {
                        value[i] += before.get(i);
                    }
                }
                depthwise_vector<T, N>::store(to + v, value);
            }
        }
        to += stride;
    }
}

/* By a loop that is not unrolled, through shared memory that no other thread uses. */
template <typename Tile>
static __device__ __forceinline__ void depthwise_activate(const uf_depthwise_conv &p, float *mine,
                                                          float (&sum)[Tile::ROWS][Tile::RUN]) {
    constexpr int RESULTS = Tile::ROWS * Tile::RUN;
#pragma unroll
    for (int i = 0; i < RESULTS; ++i) {
        mine[i * UF_DEPTHWISE_THREADS] = sum[i / Tile::RUN][i % Tile::RUN];
    }
#pragma unroll 1
    for (int i = 0; i < RESULTS; ++i) {
        mine[i * UF_DEPTHWISE_THREADS] =
            uf_activate(p.conv.activation, mine[i * UF_DEPTHWISE_THREADS], p.conv.parameter);
    }
#pragma unroll
    for (int i = 0; i < RESULTS; ++i) {
        sum[i / Tile::RUN][i % Tile::RUN] = mine[i * UF_DEPTHWISE_THREADS];
    }
}

/* A block's range, in lines of 128 bytes; its first and last elements one by one. */
template <typename T>
static __device__ __forceinline__ void
depthwise_epilogue(const uf_depthwise_conv &p, const depthwise_range &range, const T *shared) {
    constexpr int N = 16 / sizeof(T);
    T *const to = (T *)p.conv.written + range.first - range.skip;
    const int32_t end = range.skip + range.count;
    for (int32_t i = (int32_t)threadIdx.x * N; i < end; i += (int32_t)blockDim.x * N) {
        if (i >= range.skip && i + N <= end) {
            *(uint4 *)(to + i) = *(const uint4 *)(shared + i);
        } else {
#pragma unroll 1
            for (int32_t k = max(i, range.skip); k < min(i + N, end); ++k) {
                to[k] = shared[k];
            }
        }
    }
}

/* The thread's sums, of each read channel one window. */
template <typename Tile>
static __device__ __forceinline__ void depthwise_multiply(const uf_depthwise_conv &p,
                                                          const depthwise_coord &coord,
                                                          float (&sum)[Tile::ROWS][Tile::RUN]) {
    typedef typename Tile::T T;
    const uf_direct_axis &rows = p.conv.axis[0], &columns = p.conv.axis[1];
    const int32_t h0 =
        Tile::OUT == 1 ? coord.h * Tile::IN + p.shift[0] : (coord.h + p.shift[0]) >> 1;
    const int32_t w0 = Tile::VECTOR     ? coord.w * Tile::IN / Tile::OUT
                       : Tile::OUT == 1 ? coord.w * Tile::IN + p.shift[1]
                                        : (coord.w + p.shift[1]) >> 1;
    const T *channel = (const T *)p.conv.read + coord.at.n * p.conv.read_stride[0] +
                       (int64_t)coord.at.group * p.conv.read_per_group * p.conv.read_stride[1] +
                       (h0 - Tile::LOW) * p.conv.read_stride[2] + w0;
    const T *weight = (const T *)p.conv.weight + coord.at.group * p.conv.w_group +
                      coord.channel * p.conv.w_written;
    const bool within = h0 >= Tile::LOW && h0 - Tile::LOW + Tile::HEIGHT <= rows.read;
#pragma unroll 1
    for (int32_t c = 0; c < p.conv.read_per_group; ++c) {
        float tap[Tile::FILTER * Tile::FILTER];
        depthwise_row<Tile, Tile::VECTOR> window[Tile::HEIGHT];
        const T *row = channel;
        if (within) { /* one predicate for each column, not for each element */
#pragma unroll
            for (int i = 0; i < Tile::HEIGHT; ++i) {
                window[i].load(row, w0, columns.read, true);
                row += p.conv.read_stride[2];
            }
        } else {
#pragma unroll
            for (int i = 0; i < Tile::HEIGHT; ++i) {
                window[i].load(row, w0, columns.read,
                               (uint32_t)(h0 + i - Tile::LOW) < (uint32_t)rows.read);
                row += p.conv.read_stride[2];
            }
        }
        depthwise_taps<Tile>(p, weight, tap);
#pragma unroll
        for (int i = 0; i < Tile::HEIGHT; ++i) {
#pragma unroll
            for (int j = 0; j < Tile::WIDTH; ++j) {
                const float value = window[i].get(j);
#pragma unroll
                for (int o = 0; o < Tile::ROWS; ++o) {
#pragma unroll
                    for (int v = 0; v < Tile::RUN; ++v) {
                        if (Tile::tap(o, i) >= 0 && Tile::tap(v, j) >= 0) {
                            sum[o][v] =
                                fmaf(value, tap[Tile::tap(o, i) * Tile::FILTER + Tile::tap(v, j)],
                                     sum[o][v]);
                        }
                    }
                }
            }
        }
        channel += p.conv.read_stride[1];
        weight += p.conv.w_read;
    }
}

/* Shared memory: the sums of each thread while an activation is applied, then the block's range. */
template <typename Tile>
static __global__ void __launch_bounds__(UF_DEPTHWISE_THREADS, Tile::BLOCKS)
    conv_depthwise(const __grid_constant__ uf_depthwise_conv p) {
    typedef typename Tile::T T;
    extern __shared__ __align__(128) float depthwise_shared[];
    depthwise_coord coord;
    const bool there = depthwise_coord_of<Tile>(p, &coord);
    uf_overlap_launches();
    const bool whole = Tile::IN == 1 && p.whole; /* never with a step of the read side */
    if (!there && !whole) {
        return;
    }
    float sum[Tile::ROWS][Tile::RUN] = {};
    bool finite = true;
    if (there) {
        depthwise_multiply<Tile>(p, coord, sum);
        float probe = 0.0f;
#pragma unroll
        for (int o = 0; o < Tile::ROWS; ++o) {
#pragma unroll
            for (int v = 0; v < Tile::RUN; ++v) {
                probe = fmaf(sum[o][v], 0.0f, probe);
            }
        }
        finite = probe == 0.0f;
        const direct_epilogue epilogue = direct_epilogue_of<T>(
            p.conv, coord.at.group * p.conv.written_per_group + coord.channel);
#pragma unroll
        for (int o = 0; o < Tile::ROWS; ++o) {
#pragma unroll
            for (int v = 0; v < Tile::RUN; ++v) {
                sum[o][v] = direct_scale(epilogue, sum[o][v]);
            }
        }
        if (p.conv.activation != UF_ACTIVATION_IDENTITY) {
            depthwise_activate<Tile>(p, depthwise_shared + threadIdx.x, sum);
        }
    }
    if (!whole) {
        T *const to = direct_channel<T>(p.conv, coord.at, coord.channel);
        if (finite) {
            depthwise_write<Tile>(p, coord, sum, to, p.conv.written_stride[2], p.conv.accumulate);
        } else {
            depthwise_write_exact<Tile>(p, to, p.conv.written_stride[2]);
        }
        return;
    }
    const depthwise_range range = depthwise_range_of<Tile>(p);
    if (p.conv.activation != UF_ACTIVATION_IDENTITY) {
        __syncthreads(); /* others' sums */
    }
    if (there) {
        T *const to = depthwise_base<Tile>(p, coord, range, (T *)depthwise_shared);
        if (finite) {
            depthwise_write<Tile>(p, coord, sum, to, p.conv.axis[1].written, false);
        } else {
            depthwise_write_exact<Tile>(p, to, p.conv.axis[1].written);
        }
    }
    __syncthreads();
    depthwise_epilogue<T>(p, range, (const T *)depthwise_shared);
}

#endif
