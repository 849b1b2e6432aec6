/* conv_wgmma_out.cuh - the way out of conv_wgmma.cu: accumulators to memory. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_OUT_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_OUT_CUH

#include "kernels/cuda/conv_wgmma.cuh"

#if UF_HAS_WGMMA

/* What a thread needs to know of its two channels, lane / 4 and 8 more. */
template <typename T>
struct wgmma_out {
    T *base; /* of the first of them */
    float scale[2], shift[2];
    bool there[2];
    bool relu;
    float slope; /* of what is negative, unless it is zero for `relu` */
};

/* What a thread has of 32 columns of the accumulators, scaled, shifted and through a cheap
 * activation, to `to`. */
template <int SLICE, bool PAIRED, int NT, typename T>
static __device__ __forceinline__ void wgmma_stage(const float (&d)[NT][UF_WGMMA_PIXELS / 2],
                                                   const wgmma_out<T> &out, float *to) {
    constexpr int pitch = PAIRED ? UF_WGMMA_PAIR_PITCH : UF_WGMMA_PITCH;
#pragma unroll
    for (int run = 0; run < 4; ++run) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int at = (SLICE & 3) * 16 + run * 4 + i * 2;
            float2 pair;
            pair.x = d[SLICE / 4 % NT][at] * out.scale[i] + out.shift[i];
            pair.y = d[SLICE / 4 % NT][at + 1] * out.scale[i] + out.shift[i];
            pair.x = pair.x < 0.0f ? (out.relu ? 0.0f : out.slope * pair.x) : pair.x;
            pair.y = pair.y < 0.0f ? (out.relu ? 0.0f : out.slope * pair.y) : pair.y;
            if (PAIRED) {
                to[8 * i * pitch + 16 * run] = pair.x;
                to[8 * i * pitch + 16 * run + 2] = pair.y;
            } else {
                *(float2 *)(to + 8 * i * pitch + 8 * run) = pair;
            }
        }
    }
}

/* The accumulators of one warp, 16 channels, to memory, straight from registers: four lanes have a
 * run of 8 pixels of a channel, a sector in f32. For what needs no more than scale, shift and a
 * cheap activation. */
template <typename Tile, bool STACKED>
static __device__ __forceinline__ void
wgmma_write_runs(const wgmma_conv &p, const wgmma_place &at,
                 const wgmma_out<typename Tile::stored> &out, const mma_walk &down,
                 const mma_walk &across, int lane,
                 const float (&d)[Tile::NT][UF_WGMMA_PIXELS / 2]) {
    typedef typename Tile::stored T;
    const mma_conv &c = p.conv;
    const uf_wgmma_axis &rows = p.axis[0], &columns = p.axis[1];
    const int64_t row_step = c.axis[0].out_step * c.written_stride[2];
    const int64_t image_step = c.written_stride[0] << columns.images_log;
    const int64_t channel_step = 8 * c.written_stride[1];
    const bool even = ((row_step | image_step | channel_step) & 1) == 0;
    const int image_mask = (1 << rows.images_log) - 1;
    const int64_t back =
        row_step - image_mask * image_step; /* to the next row, of the first image */
    const int64_t over = c.written_stride[0] - p.stack * row_step; /* and from there to an image's
                                                                      first row, if stacked */
#pragma unroll
    for (int product = 0; product < Tile::NT; ++product) {
        const wgmma_pixel first =
            wgmma_pixel_of<false>(p, at, down, across, product, 2 * (lane & 3));
        const wgmma_pixel second =
            wgmma_pixel_of<false>(p, at, down, across, product, 2 * (lane & 3) + 1);
        T *to_first = out.base + first.offset;
        T *to_second = out.base + second.offset;
        const bool mine = first.n < c.batch && first.j_w < across.out_count;
        const bool next = second.n < c.batch && second.j_w < across.out_count;
        const bool together =
            __all_sync(0xffffffffu, even && mine == next && second.offset == first.offset + 1 &&
                                        ((uintptr_t)to_first & (2 * sizeof(T) - 1)) == 0);
        int32_t row = first.j_h; /* STACKED: of image n; no images lie beside each other */
        int32_t n = first.n;
#pragma unroll
        for (int run = 0; run < UF_WGMMA_PIXELS / 8; ++run) {
            const int32_t image = STACKED ? 0 : run & image_mask;
            const bool inside = STACKED ? row < down.out_count && n < c.batch
                                        : first.j_h + (run >> rows.images_log) < down.out_count;
            const bool write =
                mine && inside && (STACKED || first.n + (image << columns.images_log) < c.batch);
            const bool write_next =
                next && inside && (STACKED || second.n + (image << columns.images_log) < c.batch);
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                float2 pair;
                pair.x = d[product][run * 4 + i * 2] * out.scale[i] + out.shift[i];
                pair.y = d[product][run * 4 + i * 2 + 1] * out.scale[i] + out.shift[i];
                pair.x = pair.x < 0.0f ? (out.relu ? 0.0f : out.slope * pair.x) : pair.x;
                pair.y = pair.y < 0.0f ? (out.relu ? 0.0f : out.slope * pair.y) : pair.y;
                if (together) {
                    if (write && out.there[i]) {
                        wgmma_store_pair(to_first + i * channel_step, pair);
                    }
                } else {
                    if (write && out.there[i]) {
                        to_first[i * channel_step] = (T)pair.x;
                    }
                    if (write_next && out.there[i]) {
                        to_second[i * channel_step] = (T)pair.y;
                    }
                }
            }
            int64_t step = STACKED || image == image_mask ? back : image_step;
            if (STACKED && ++row == p.stack) {
                row = 0;
                ++n;
                step += over;
            }
            to_first += step;
            to_second += step;
        }
    }
}

/* Four lanes that follow each other have a column each of a square: then a row each. */
static __device__ __forceinline__ void wgmma_transpose(uint32_t (&word)[4], int lane) {
#pragma unroll
    for (int step = 1; step <= 2; ++step) {
        const bool upper = (lane & step) != 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if ((i & step) == 0) {
                const uint32_t got =
                    __shfl_xor_sync(0xffffffffu, upper ? word[i] : word[i + step], step);
                word[i] = upper ? got : word[i];
                word[i + step] = upper ? word[i + step] : got;
            }
        }
    }
}

/* May wgmma_write_images be used? Images of 4 x 4 that follow each other by channels. */
template <typename T>
static __device__ __forceinline__ bool wgmma_images_fit(const wgmma_conv &p,
                                                        const mma_walk &across) {
    const mma_conv &c = p.conv;
    return p.axis[0].images_log == 2 && p.axis[1].images_log == 1 && c.axis[0].out_step == 1 &&
           c.axis[1].out_step == 1 && across.out_first == 0 && across.out_count == 4 &&
           c.written_stride[3] == 1 &&
           ((c.written_stride[0] | c.written_stride[1] | c.written_stride[2]) & 3) == 0 &&
           (uintptr_t)c.written % (4 * sizeof(T)) == 0;
}

/* The same as wgmma_write_runs for images of 4 x 4, two beside each other and four below: a lane
 * has a column of both, at single elements. Four lanes exchange columns for rows, and a warp writes
 * eight channels of an image, which follow each other in memory. */
template <typename Tile>
static __device__ __forceinline__ void
wgmma_write_images(const wgmma_conv &p, const wgmma_place &at,
                   const wgmma_out<typename Tile::stored> &out, const mma_walk &down,
                   const mma_walk &across, int lane,
                   const float (&d)[Tile::NT][UF_WGMMA_PIXELS / 2]) {
    typedef typename Tile::stored T;
    const mma_conv &c = p.conv;
    constexpr bool BF16 = sizeof(T) == 2;
#pragma unroll
    for (int product = 0; product < Tile::NT; ++product) {
        /* This lane's row: the first of the two images beside each other, four times. */
        const wgmma_pixel first =
            wgmma_pixel_of<false>(p, at, down, across, product, (lane & 3) * 32);
        const bool inside = first.j_h < down.out_count;
#pragma unroll
        for (int image = 0; image < 4; ++image) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                float value[4][2];
#pragma unroll
                for (int row = 0; row < 4; ++row) {
#pragma unroll
                    for (int beside = 0; beside < 2; ++beside) {
                        const float one =
                            d[product][(row * 4 + image) * 4 + i * 2 + beside] * out.scale[i] +
                            out.shift[i];
                        value[row][beside] = one < 0.0f ? (out.relu ? 0.0f : out.slope * one) : one;
                    }
                }
                T *const to = out.base + first.offset + 2 * image * c.written_stride[0] +
                              8 * i * c.written_stride[1];
                uint32_t word[4];
                if (BF16) {
#pragma unroll
                    for (int row = 0; row < 4; ++row) {
                        word[row] = uf_pack_bf16(value[row][0], value[row][1]);
                    }
                    wgmma_transpose(word, lane);
                }
#pragma unroll
                for (int beside = 0; beside < 2; ++beside) {
                    const bool there =
                        inside && first.n + 2 * image + beside < c.batch && out.there[i];
                    T *const row_to = to + beside * c.written_stride[0];
                    if (BF16) {
                        const uint32_t half = beside == 0 ? 0x5410 : 0x7632;
                        const uint2 pixels = make_uint2(__byte_perm(word[0], word[1], half),
                                                        __byte_perm(word[2], word[3], half));
                        if (there) {
                            *(uint2 *)row_to = pixels;
                        }
                    } else {
#pragma unroll
                        for (int row = 0; row < 4; ++row) {
                            word[row] = __float_as_uint(value[row][beside]);
                        }
                        wgmma_transpose(word, lane);
                        if (there) {
                            *(uint4 *)row_to = make_uint4(word[0], word[1], word[2], word[3]);
                        }
                    }
                }
            }
        }
    }
}

/* The accumulators of one warp, 16 channels, to memory: 32 pixels at a time through shared memory,
 * so that its lanes write runs of pixels, two each: for what wgmma_write_runs does not do.
 *
 * Paired warpgroups hold the two phases of a row, whose pixels alternate in memory: their warps
 * meet in shared memory, and each writes half the channels of both phases, in whole sectors. */
template <typename Tile, bool PAIRED>
static __device__ __forceinline__ void
wgmma_write_as(const wgmma_conv &p, const wgmma_place &at, int32_t phase, int32_t first_channel,
               int warp, int lane, float *staging,
               const float (&d)[Tile::NT][UF_WGMMA_PIXELS / 2]) {
    typedef typename Tile::stored T;
    const mma_conv &c = p.conv;
    constexpr int SLICES = Tile::NT * 4;
    constexpr int LANE_ROWS = 8; /* channels of a lane */
    constexpr bool paired = PAIRED;
    const mma_walk down = mma_walk_of(c.axis[0], phase / c.axis[1].phases);
    const mma_walk across = mma_walk_of(c.axis[1], phase % c.axis[1].phases);
    const mma_walk other = mma_walk_of(c.axis[1], phase % c.axis[1].phases ^ (paired ? 1 : 0));
    const int odd = across.out_first & 1;
    first_channel += (warp & 3) * UF_WGMMA_WARP_ROWS;
    const int32_t left = c.written_per_group - first_channel;
    if (left <= 0) {
        return; /* and so does the warp that it is paired with */
    }
    const int64_t channel_0 = (int64_t)at.group * c.written_per_group + first_channel;
    const bool relu = c.activation == UF_ACTIVATION_RELU;
    const bool leaky = c.activation == UF_ACTIVATION_LEAKY_RELU;
    const bool simple = !c.accumulate && (relu || leaky || c.activation == UF_ACTIVATION_IDENTITY);
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
    const bool line = !Tile::WIDE && Tile::PACKED && p.line > 0;
    if (Tile::RUNS && simple && !paired && (Tile::PACKED || p.runs_log == 0) && !line) {
        if (Tile::STACKS && p.stack > 0) {
            wgmma_write_runs<Tile, true>(p, at, out, down, across, lane, d);
        } else if (wgmma_images_fit<T>(p, across)) {
            wgmma_write_images<Tile>(p, at, out, down, across, lane, d);
        } else {
            wgmma_write_runs<Tile, false>(p, at, out, down, across, lane, d);
        }
        return;
    }
    /* One area per warp, or one of both sizes per pair. */
    constexpr int AREA = UF_WGMMA_WARP_ROWS * UF_WGMMA_PITCH;
    staging += (paired ? (warp & 3) * 2 : warp) * AREA;
    const int pitch = paired ? UF_WGMMA_PAIR_PITCH : UF_WGMMA_PITCH;
    float *const to =
        staging + (lane >> 2) * pitch + 2 * (lane & 3) * (paired ? 2 : 1) + (paired ? odd : 0);
    /* Paired: a channel of 64 pixels per row of lanes. Otherwise two channels of 32. Of a line, in
     * which rows end anywhere, lanes write single neighbours: a channel of 64 pixels in two halves,
     * or two channels, eight apart, of 32. */
    const int first_k = paired ? (warp >> 2) * LANE_ROWS : line ? 0 : lane >> 4;
    const int step_k = paired || line ? 1 : 2;
    const int column = line ? (paired ? lane >> 1 : lane) : paired ? lane : 2 * (lane & 15);
    const int gap = !line ? 1 : paired ? 32 : LANE_ROWS * pitch; /* to a lane's second element */
    const int second_k = line && !paired ? LANE_ROWS : 0;        /* and channel */
    const float *const from = staging + first_k * pitch +
                              (line     ? lane
                               : paired ? 2 * lane
                                        : column);
    const mma_walk of_lane = paired && (lane & 1) != odd ? other : across; /* of a line */
    const int64_t step = c.written_stride[1] * step_k;
    /* Every channel is there, and stores of two elements are aligned for all of them if they are
     * for one. */
    const bool whole = simple && left >= UF_WGMMA_WARP_ROWS && (step & 1) == 0;
    T *const base = (T *)c.written + (channel_0 + first_k) * c.written_stride[1];
    /* Paired: from a slice, four runs of 8, to the next of a product these are so many rows of the
     * same images; 0 where it is not so. */
    const int rows =
        !PAIRED || Tile::WIDE || p.stack > 0 ? 0 : 4 >> (p.runs_log + p.axis[0].images_log);
    const int64_t row_step = c.axis[0].out_step * c.written_stride[2];
    const int64_t to_other = (int64_t)(other.out_first - across.out_first) * c.written_stride[3];
    wgmma_pixel mine;
#pragma unroll 1
    for (int slice = 0; slice < SLICES; ++slice) {
        /* The slice before has been read. */
        if (paired) {
            uf_named_barrier(3 + (warp & 3), 64);
        } else {
            __syncwarp();
        }
#define UF_WGMMA_SLICE(SLICE)                                                                      \
    case SLICE:                                                                                    \
        wgmma_stage<SLICE, PAIRED>(d, out, to);                                                    \
        break;
        switch (slice) {
            UF_WGMMA_SLICE(0)
            UF_WGMMA_SLICE(1)
            UF_WGMMA_SLICE(2)
            UF_WGMMA_SLICE(3)
            UF_WGMMA_SLICE(4)
            UF_WGMMA_SLICE(5)
            UF_WGMMA_SLICE(6)
            UF_WGMMA_SLICE(7)
        default:
            break;
        }
#undef UF_WGMMA_SLICE
        if (paired) {
            uf_named_barrier(3 + (warp & 3), 64);
        } else {
            __syncwarp();
        }
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
                next.offset += LANE_ROWS * c.written_stride[1];
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
            float2 value[LANE_ROWS];
#pragma unroll
            for (int k = 0; k < LANE_ROWS; ++k) {
                const float *const row = from + k * step_k * pitch;
                if (paired) {
                    value[k].x = row[0];
                    value[k].y = row[1];
                } else {
                    value[k] = *(const float2 *)row;
                }
            }
#pragma unroll
            for (int k = 0; k < LANE_ROWS; ++k) {
                wgmma_store_pair(to_first, value[k]);
                to_first += step;
            }
            continue;
        }
        if (simple && left >= UF_WGMMA_WARP_ROWS) {
            float2 value[LANE_ROWS];
#pragma unroll
            for (int k = 0; k < LANE_ROWS; ++k) {
                const float *const row = from + k * step_k * pitch;
                value[k].x = row[0];
                value[k].y = row[gap];
            }
#pragma unroll
            for (int k = 0; k < LANE_ROWS; ++k) {
                if (first.there) {
                    *to_first = (T)value[k].x;
                }
                if (second.there) {
                    *to_second = (T)value[k].y;
                }
                to_first += step;
                to_second += step;
            }
            continue;
        }
        const float *row = from;
#pragma unroll 1
        for (int k = first_k; k < first_k + LANE_ROWS * step_k && k < left; k += step_k) {
            if (first.there) {
                const float value =
                    simple ? row[0] : uf_activate(c.activation, row[0], c.parameter);
                *to_first = (T)(c.accumulate ? (float)*to_first + value : value);
            }
            if (second.there && k + second_k < left) {
                const float value =
                    simple ? row[gap] : uf_activate(c.activation, row[gap], c.parameter);
                *to_second = (T)(c.accumulate ? (float)*to_second + value : value);
            }
            to_first += step;
            to_second += step;
            row += step_k * pitch;
        }
    }
}

/* What a thread has of 32 columns where two phases are merged, as they lie in memory, to `to`: two
 * pixels of both phases of a channel. */
template <int SLICE, int NT>
static __device__ __forceinline__ void wgmma_stage_merged(const float (&d)[NT][UF_WGMMA_PIXELS / 2],
                                                          float scale, float shift, bool relu,
                                                          float slope, bool odd_first, float *to) {
#pragma unroll
    for (int run = 0; run < 4; ++run) {
        float value[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) { /* even ones of both pixels, odd ones of both */
            value[i] = d[SLICE / 4 % NT][(SLICE & 3) * 16 + run * 4 + i] * scale + shift;
            value[i] = value[i] < 0.0f ? (relu ? 0.0f : slope * value[i]) : value[i];
        }
        *(float4 *)(to + 16 * run) = odd_first
                                         ? make_float4(value[2], value[0], value[3], value[1])
                                         : make_float4(value[0], value[2], value[1], value[3]);
    }
}

/* The accumulators of one warp where two phases are merged, 8 channels, 32 pixels at a time: lanes
 * write neighbours of a row of both phases, each its own two, 32 apart. */
template <typename Tile>
static __device__ __forceinline__ void
wgmma_write_merged(const wgmma_conv &p, const wgmma_place &at, int32_t phase, int32_t first_channel,
                   int warp, int lane, float *staging,
                   const float (&d)[Tile::NT][UF_WGMMA_PIXELS / 2]) {
    typedef typename Tile::stored T;
    const mma_conv &c = p.conv;
    constexpr int CHANNELS = 8;
    constexpr int PITCH = 80; /* words: 16 bytes of 8 lanes are free of bank conflicts */
    static_assert(CHANNELS * PITCH <= UF_WGMMA_WARP_ROWS * UF_WGMMA_PITCH, "a warp's area");
    const mma_walk down = mma_walk_of(c.axis[0], phase);
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
    const bool simple = !c.accumulate && (relu || leaky || c.activation == UF_ACTIVATION_IDENTITY);
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
        __syncwarp(); /* the slice before has been read */
#define UF_WGMMA_SLICE(SLICE)                                                                      \
    case SLICE:                                                                                    \
        wgmma_stage_merged<SLICE>(d, scale, shift, relu, slope, p.merged_back != 0, to);           \
        break;
        switch (slice) {
            UF_WGMMA_SLICE(0)
            UF_WGMMA_SLICE(1)
            UF_WGMMA_SLICE(2)
            UF_WGMMA_SLICE(3)
            UF_WGMMA_SLICE(4)
            UF_WGMMA_SLICE(5)
            UF_WGMMA_SLICE(6)
            UF_WGMMA_SLICE(7)
        default:
            break;
        }
#undef UF_WGMMA_SLICE
        __syncwarp();
        T *place[2];
        bool there[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const wgmma_pixel pixel = wgmma_pixel_of<Tile::PACKED>(
                p, at, down, across, slice >> 2, (slice & 3) * 32 + (lane >> 1) + 16 * i);
            const int32_t j_w = pixel.j_w - back;
            place[i] = base + pixel.offset - back * c.axis[1].out_step * c.written_stride[3];
            there[i] = pixel.n < c.batch && pixel.j_h < down.out_count && j_w >= 0 &&
                       j_w < across.out_count;
        }
        const float *row = staging + lane;
        if (simple && left >= CHANNELS) {
            float value[CHANNELS][2];
#pragma unroll
            for (int k = 0; k < CHANNELS; ++k) {
                value[k][0] = row[k * PITCH];
                value[k][1] = row[k * PITCH + 32];
            }
#pragma unroll
            for (int k = 0; k < CHANNELS; ++k) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    if (there[i]) {
                        *place[i] = (T)value[k][i];
                    }
                    place[i] += step;
                }
            }
            continue;
        }
#pragma unroll 1
        for (int k = 0; k < CHANNELS && k < left; ++k) {
#pragma unroll 1
            for (int i = 0; i < 2; ++i) {
                T *const one = i == 0 ? place[0] : place[1];
                if (i == 0 ? there[0] : there[1]) {
                    const float value =
                        simple ? row[32 * i] : uf_activate(c.activation, row[32 * i], c.parameter);
                    one[k * step] = (T)(c.accumulate ? (float)one[k * step] + value : value);
                }
            }
            row += PITCH;
        }
    }
}

template <typename Tile>
static __device__ __forceinline__ void
wgmma_write(const wgmma_conv &p, const wgmma_place &at, int32_t phase, int32_t first_channel,
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
