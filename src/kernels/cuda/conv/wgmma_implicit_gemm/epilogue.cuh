/* epilogue.cuh - the epilogue through shared memory, for stores that epilogue_runs.cuh cannot
 * make. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_EPILOGUE_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_EPILOGUE_CUH

#include "kernels/cuda/conv/wgmma_implicit_gemm/epilogue_runs.cuh"

#if UF_HAS_WGMMA

/* A thread's two channels, from lane / 4 of the warp's `left` ones on. */
template <typename T>
static __device__ __forceinline__ wgmma_out<T>
wgmma_out_of(const mma_conv &c, int64_t channel_0, int32_t left, bool relu, bool leaky, int lane) {
    wgmma_out<T> out;
    out.base = (T *)c.written + (channel_0 + (lane >> 2)) * c.written_stride[1];
    out.relu = relu;
    out.slope = leaky ? c.parameter : 1.0f;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int32_t channel = (lane >> 2) + 8 * i;
        out.there[i] = channel < left;
        out.scale[i] = 1.0f;
        out.shift[i] = 0.0f;
        if (channel < left && c.scale != nullptr) {
            out.scale[i] = (float)((const T *)c.scale)[(channel_0 + channel) * c.scale_stride];
        }
        if (channel < left && c.shift != nullptr) {
            out.shift[i] = (float)((const T *)c.shift)[(channel_0 + channel) * c.shift_stride];
        }
    }
    return out;
}

/* A warp's channels straight from registers, by the fastest of the stores that apply. */
template <typename Tile>
static __device__ __forceinline__ void
wgmma_write_direct(const wgmma_conv &p, const wgmma_coord &at,
                   const wgmma_out<typename Tile::stored> &out, const mma_walk &down,
                   const mma_walk &across, int lane,
                   const float (&d)[Tile::NT][UF_WGMMA_PIXELS / 2]) {
    if (Tile::STACKS && p.stack > 0) {
        wgmma_write_runs<Tile, true>(p, at, out, down, across, lane, d);
    } else if (wgmma_images_fit<typename Tile::stored>(p, across)) {
        wgmma_write_images<Tile>(p, at, out, down, across, lane, d);
    } else {
        wgmma_write_runs<Tile, false>(p, at, out, down, across, lane, d);
    }
}

enum { WGMMA_LANE_ROWS = 8 }; /* channels of a lane, of a slice in shared memory */

/* Stores a lane's channels of two pixels that are neighbours in memory, or adds to what is there:
 * all loads come before all stores, or each would wait for the store before it. Channels are `step`
 * elements apart in memory and `pitch` words in shared memory. */
template <bool PAIRED, typename T>
static __device__ __forceinline__ void wgmma_store_pairs(T *to, int64_t step, const float *from,
                                                         int pitch, bool accumulate) {
    float2 value[WGMMA_LANE_ROWS];
#pragma unroll
    for (int k = 0; k < WGMMA_LANE_ROWS; ++k) {
        const float *const row = from + k * pitch;
        if (PAIRED) {
            value[k].x = row[0];
            value[k].y = row[1];
        } else {
            value[k] = *(const float2 *)row;
        }
    }
    if (accumulate) {
#pragma unroll
        for (int k = 0; k < WGMMA_LANE_ROWS; ++k) {
            const float2 before = wgmma_load_pair(to + k * step);
            value[k].x += before.x;
            value[k].y += before.y;
        }
    }
#pragma unroll
    for (int k = 0; k < WGMMA_LANE_ROWS; ++k) {
        wgmma_store_pair(to, value[k]);
        to += step;
    }
}

/* The same for two pixels anywhere, if inside the tensor; `gap`: words from one to the other. */
template <typename T>
static __device__ __forceinline__ void
wgmma_store_elements(T *to_first, bool first, T *to_second, bool second, int64_t step,
                     const float *from, int pitch, int gap, bool accumulate) {
    float2 value[WGMMA_LANE_ROWS];
#pragma unroll
    for (int k = 0; k < WGMMA_LANE_ROWS; ++k) {
        const float *const row = from + k * pitch;
        value[k].x = row[0];
        value[k].y = row[gap];
    }
    if (accumulate) {
#pragma unroll
        for (int k = 0; k < WGMMA_LANE_ROWS; ++k) {
            value[k].x += first ? (float)to_first[k * step] : 0.0f;
            value[k].y += second ? (float)to_second[k * step] : 0.0f;
        }
    }
#pragma unroll
    for (int k = 0; k < WGMMA_LANE_ROWS; ++k) {
        if (first) {
            *to_first = (T)value[k].x;
        }
        if (second) {
            *to_second = (T)value[k].y;
        }
        to_first += step;
        to_second += step;
    }
}

/* Not inlined, and with all that it needs as arguments: the sums of other pixels are in registers.
 */
template <typename T>
static __device__ __noinline__ void wgmma_finish_one(uf_activation_kind kind, float parameter,
                                                     bool accumulate, float sum, T *to) {
    const float value = uf_activate(kind, sum, parameter);
    *to = (T)(accumulate ? (float)*to + value : value);
}

/* Stores one element; `simple`: its activation is done, and nothing accumulates. */
template <typename T>
static __device__ __forceinline__ void wgmma_store_one(const mma_conv &c, bool simple, float sum,
                                                       T *to) {
    if (simple) {
        *to = (T)sum;
    } else {
        wgmma_finish_one<T>(c.activation, c.parameter, c.accumulate, sum, to);
    }
}

/* Both warps of a pair, or the lanes of one warp. */
template <bool PAIRED>
static __device__ __forceinline__ void wgmma_slice_barrier(int warp) {
    if (PAIRED) {
        uf_named_barrier(3 + (warp & 3), 64);
    } else {
        __syncwarp();
    }
}

/* The accumulators of one warp, 16 channels, through shared memory, 32 pixels at a time. Lanes then
 * store runs of pixels, two each.
 *
 * Paired warpgroups hold the two phases of a row, whose pixels alternate in memory. Their warps
 * share staging, and each stores half the channels of both phases in whole sectors. */
template <typename Tile, bool PAIRED>
static __device__ __forceinline__ void
wgmma_write_as(const wgmma_conv &p, const wgmma_coord &at, int32_t phase, int32_t first_channel,
               int warp, int lane, float *staging,
               const float (&d)[Tile::NT][UF_WGMMA_PIXELS / 2]) {
    typedef typename Tile::stored T;
    const mma_conv &c = p.conv;
    constexpr bool paired = PAIRED;
    const mma_walk down = mma_walk_of(&c.axis[0], phase / c.axis[1].phases);
    const mma_walk across = mma_walk_of(&c.axis[1], phase % c.axis[1].phases);
    const mma_walk other = mma_walk_of(&c.axis[1], phase % c.axis[1].phases ^ (paired ? 1 : 0));
    const int odd = across.out_first & 1;
    first_channel += (warp & 3) * UF_WGMMA_WARP_ROWS;
    const int32_t left = c.written_per_group - first_channel;
    if (left <= 0) {
        return; /* so does the warp that it is paired with */
    }
    const int64_t channel_0 = (int64_t)at.group * c.written_per_group + first_channel;
    const bool relu = c.activation == UF_ACTIVATION_RELU;
    const bool leaky = c.activation == UF_ACTIVATION_LEAKY_RELU;
    const bool cheap = relu || leaky || c.activation == UF_ACTIVATION_IDENTITY;
    const bool simple = cheap && !c.accumulate;
    const wgmma_out<T> out = wgmma_out_of<T>(c, channel_0, left, relu, leaky, lane);
    const bool line = !Tile::WIDE && Tile::PACKED && p.line > 0;
    if (Tile::RUNS && simple && !paired && (Tile::PACKED || p.runs_log == 0) && !line) {
        wgmma_write_direct<Tile>(p, at, out, down, across, lane, d);
        return;
    }
    /* One area per warp, or one of both sizes per pair. */
    staging += (paired ? (warp & 3) * 2 : warp) * UF_WGMMA_WARP_ROWS * UF_WGMMA_PITCH;
    const int pitch = paired ? UF_WGMMA_PAIR_PITCH : UF_WGMMA_PITCH;
    float *const to =
        staging + (lane >> 2) * pitch + 2 * (lane & 3) * (paired ? 2 : 1) + (paired ? odd : 0);
    /* Paired: a channel of 64 pixels per row of lanes. Otherwise two channels of 32. Rows of a line
     * end anywhere: its lanes store single elements. They walk a channel of 64 pixels in two
     * passes, or two channels of 32, eight apart. */
    const int first_k = paired ? (warp >> 2) * WGMMA_LANE_ROWS : line ? 0 : lane >> 4;
    const int step_k = paired || line ? 1 : 2;
    const int column = line ? (paired ? lane >> 1 : lane) : paired ? lane : 2 * (lane & 15);
    /* A lane's second element: words to it, and channels. */
    const int gap = !line ? 1 : paired ? 32 : WGMMA_LANE_ROWS * pitch;
    const int second_k = line && !paired ? WGMMA_LANE_ROWS : 0;
    const float *const from = staging + first_k * pitch +
                              (line     ? lane
                               : paired ? 2 * lane
                                        : column);
    const mma_walk of_lane = paired && (lane & 1) != odd ? other : across; /* walk of a line */
    const int64_t step = c.written_stride[1] * step_k;
    /* All channels exist, and stores of two elements are aligned for all if for one. */
    const bool whole = cheap && left >= UF_WGMMA_WARP_ROWS && (step & 1) == 0;
    T *const base = (T *)c.written + (channel_0 + first_k) * c.written_stride[1];
    /* Rows from a slice, four runs of 8, to the next of an MMA; 0: not paired or irregular. */
    const int rows =
        !PAIRED || Tile::WIDE || p.stack > 0 ? 0 : 4 >> (p.runs_log + p.axis[0].images_log);
    const int64_t row_step = c.axis[0].out_step * c.written_stride[2];
    const int64_t to_other = (int64_t)(other.out_first - across.out_first) * c.written_stride[3];
    wgmma_pixel mine;
#pragma unroll 1
    for (int slice = 0; slice < Tile::NT * 4; ++slice) {
        wgmma_slice_barrier<PAIRED>(warp); /* lanes have read the slice before */
#define UF_WGMMA_SLICE(SLICE) wgmma_stage<SLICE, PAIRED>(d, out, to)
        UF_SWITCH_8(slice, UF_WGMMA_SLICE)
#undef UF_WGMMA_SLICE
        wgmma_slice_barrier<PAIRED>(warp);
        const int at_column = (slice & 3) * 32 + column;
        if (line) {
            mine = wgmma_pixel_of<Tile::PACKED>(p, at, down, of_lane, slice >> 2, at_column);
        } else if (rows == 0 || (slice & 3) == 0) {
            mine = wgmma_pixel_of<Tile::PACKED>(p, at, down, across, slice >> 2, at_column);
        } else {
            mine.j_h += rows;
            mine.offset += rows * row_step;
            mine.there =
                mine.n < c.batch && mine.j_h < down.out_count && mine.j_w < across.out_count;
        }
        wgmma_pixel next = mine;
        if (line) {
            if (paired) {
                next =
                    wgmma_pixel_of<Tile::PACKED>(p, at, down, of_lane, slice >> 2, at_column + 16);
            } else {
                next.offset += WGMMA_LANE_ROWS * c.written_stride[1];
            }
        } else if (paired) {
            next.offset += to_other;
            next.there =
                mine.n < c.batch && mine.j_h < down.out_count && mine.j_w < other.out_count;
        } else {
            next = wgmma_pixel_of<Tile::PACKED>(p, at, down, across, slice >> 2, at_column + 1);
        }
        const bool swapped = paired && odd != 0 && !line;
        const wgmma_pixel first = swapped ? next : mine;
        const wgmma_pixel second = swapped ? mine : next;
        T *to_first = base + first.offset;
        T *to_second = base + second.offset;
        const bool together = !line && first.there && second.there &&
                              second.offset == first.offset + 1 &&
                              ((uintptr_t)to_first & (2 * sizeof(T) - 1)) == 0;
        if (whole && __all_sync(0xffffffffu, together)) {
            wgmma_store_pairs<PAIRED>(to_first, step, from, step_k * pitch, c.accumulate);
            continue;
        }
        if (cheap && left >= UF_WGMMA_WARP_ROWS) {
            wgmma_store_elements(to_first, first.there, to_second, second.there, step, from,
                                 step_k * pitch, gap, c.accumulate);
            continue;
        }
        /* Few values live around the call of a long activation: it would spill others. */
        T *const one = first.there ? to_first : nullptr;
        T *const another = second.there ? to_second : nullptr;
#pragma unroll 1
        for (int i = 0; i < WGMMA_LANE_ROWS && first_k + i * step_k < left; ++i) {
            const float *const row = from + i * step_k * pitch;
            if (one != nullptr) {
                wgmma_store_one(c, simple, row[0], one + i * step);
            }
            if (another != nullptr && first_k + i * step_k + second_k < left) {
                wgmma_store_one(c, simple, row[gap], another + i * step);
            }
        }
    }
}

/* Stores a thread's accumulators of 32 columns to `to` in memory order, where two phases are
 * merged: two pixels of both phases of a channel. */
template <int SLICE, int NT>
static __device__ __forceinline__ void wgmma_stage_merged(const float (&d)[NT][UF_WGMMA_PIXELS / 2],
                                                          float scale, float shift, bool relu,
                                                          float slope, bool odd_first, float *to) {
#pragma unroll
    for (int run = 0; run < 4; ++run) {
        float value[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) { /* even columns of both pixels, then odd ones */
            value[i] = d[SLICE / 4 % NT][(SLICE & 3) * 16 + run * 4 + i] * scale + shift;
            value[i] = value[i] < 0.0f ? (relu ? 0.0f : slope * value[i]) : value[i];
        }
        *(float4 *)(to + 16 * run) = odd_first
                                         ? make_float4(value[2], value[0], value[3], value[1])
                                         : make_float4(value[0], value[2], value[1], value[3]);
    }
}

/* The accumulators of one warp where two phases are merged: 8 channels, 32 pixels at a time. Lanes
 * store neighbours of a row of both phases, two each, 32 apart. */
template <typename Tile>
static __device__ __forceinline__ void
wgmma_write_merged(const wgmma_conv &p, const wgmma_coord &at, int32_t phase, int32_t first_channel,
                   int warp, int lane, float *staging,
                   const float (&d)[Tile::NT][UF_WGMMA_PIXELS / 2]) {
    typedef typename Tile::stored T;
    const mma_conv &c = p.conv;
    constexpr int CHANNELS = 8;
    constexpr int PITCH = 80; /* words: 16 bytes of 8 lanes without bank conflict */
    static_assert(CHANNELS * PITCH <= UF_WGMMA_WARP_ROWS * UF_WGMMA_PITCH, "a warp's area");
    const mma_walk down = mma_walk_of(&c.axis[0], phase);
    const wgmma_sides sides = wgmma_sides_of(c.axis[1]);
    first_channel += (warp & 3) * CHANNELS;
    const int32_t left = c.written_per_group - first_channel;
    if (left <= 0) {
        return;
    }
    const int64_t channel_0 = (int64_t)at.group * c.written_per_group + first_channel;
    const int64_t channel = channel_0 + (lane >> 2);
    const bool scaled = c.scale != nullptr && (lane >> 2) < left;
    const bool shifted = c.shift != nullptr && (lane >> 2) < left;
    const float scale = scaled ? (float)((const T *)c.scale)[channel * c.scale_stride] : 1.0f;
    const float shift = shifted ? (float)((const T *)c.shift)[channel * c.shift_stride] : 0.0f;
    const bool relu = c.activation == UF_ACTIVATION_RELU;
    const bool leaky = c.activation == UF_ACTIVATION_LEAKY_RELU;
    const bool cheap = relu || leaky || c.activation == UF_ACTIVATION_IDENTITY;
    const float slope = leaky ? c.parameter : 1.0f;
    staging += warp * UF_WGMMA_WARP_ROWS * UF_WGMMA_PITCH;
    float *const to = staging + (lane >> 2) * PITCH + 4 * (lane & 3);
    const bool odd = ((lane & 1) != 0) != (p.merged_back != 0);
    const int32_t back = odd ? p.merged_back : 0;
    const mma_walk across = odd ? sides.odd : sides.even;
    const int64_t step = c.written_stride[1];
    T *const base = (T *)c.written + channel_0 * step;
#pragma unroll 1
    for (int slice = 0; slice < Tile::NT * 4; ++slice) {
        __syncwarp(); /* lanes have read the slice before */
#define UF_WGMMA_SLICE(SLICE)                                                                      \
    wgmma_stage_merged<SLICE>(d, scale, shift, relu, slope, p.merged_back != 0, to)
        UF_SWITCH_8(slice, UF_WGMMA_SLICE)
#undef UF_WGMMA_SLICE
        __syncwarp();
        T *target[2];
        bool there[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const wgmma_pixel pixel = wgmma_pixel_of<Tile::PACKED>(
                p, at, down, across, slice >> 2, (slice & 3) * 32 + (lane >> 1) + 16 * i);
            const int32_t j_w = pixel.j_w - back;
            target[i] = base + pixel.offset - back * c.axis[1].out_step * c.written_stride[3];
            there[i] = pixel.n < c.batch && pixel.j_h < down.out_count && j_w >= 0 &&
                       j_w < across.out_count;
        }
        const float *row = staging + lane;
        if (cheap && left >= CHANNELS) {
            float value[CHANNELS][2];
#pragma unroll
            for (int k = 0; k < CHANNELS; ++k) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    value[k][i] = row[k * PITCH + 32 * i];
                    if (c.accumulate && there[i]) {
                        value[k][i] += (float)target[i][k * step];
                    }
                }
            }
#pragma unroll
            for (int k = 0; k < CHANNELS; ++k) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    if (there[i]) {
                        *target[i] = (T)value[k][i];
                    }
                    target[i] += step;
                }
            }
            continue;
        }
#pragma unroll 1
        for (int k = 0; k < CHANNELS && k < left; ++k) {
#pragma unroll 1
            for (int i = 0; i < 2; ++i) {
                T *const one = i == 0 ? target[0] : target[1];
                if (i == 0 ? there[0] : there[1]) {
                    const float value =
                        cheap ? row[32 * i] : uf_activate(c.activation, row[32 * i], c.parameter);
                    one[k * step] = (T)(c.accumulate ? (float)one[k * step] + value : value);
                }
            }
            row += PITCH;
        }
    }
}

template <typename Tile>
static __device__ __forceinline__ void
wgmma_write(const wgmma_conv &p, const wgmma_coord &at, int32_t phase, int32_t first_channel,
            int warp, int lane, float *staging, const float (&d)[Tile::NT][UF_WGMMA_PIXELS / 2]) {
    if constexpr (Tile::MERGES) {
        wgmma_write_merged<Tile>(p, at, phase, first_channel, warp, lane, staging, d);
    } else {
        if constexpr (Tile::WM == 2) {
            if (p.paired) {
                wgmma_write_as<Tile, true>(p, at, phase, first_channel, warp, lane, staging, d);
                return;
            }
        }
        wgmma_write_as<Tile, false>(p, at, phase, first_channel, warp, lane, staging, d);
    }
}

#endif

#endif
