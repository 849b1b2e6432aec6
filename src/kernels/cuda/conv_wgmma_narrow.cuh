/* conv_wgmma_narrow.cuh - the device code of conv_wgmma_narrow.cu, which says how it works. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_NARROW_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_NARROW_CUH

#include "kernels/cuda/conv_wgmma.cuh"

/* Products of 64 pixels by COLUMNS written channels, `PRODUCTS` rows of pixels below each other.
 * Warpgroups of consumers take tiles in turn, or (SHARED) halves of the same one. */
template <uf_math MATH_, int COLUMNS_, typename stored_>
struct wgmma_narrow {
    typedef stored_ stored;
    static constexpr uf_math MATH = MATH_;
    static constexpr bool FP32 = MATH == UF_MATH_FP32;
    static constexpr int COLUMNS = COLUMNS_;
    static constexpr int TURNS = UF_WGMMA_NARROW_TURNS(COLUMNS); /* tiles under way */
    static constexpr bool SHARED = TURNS == 1;
    static constexpr int PRODUCTS = UF_WGMMA_NARROW_PRODUCTS(FP32, COLUMNS);
    static constexpr int SUMS = COLUMNS / 2; /* of a thread and a product */
    /* Of the weights of a tap and two planes: FP32 has the small halves beside the big ones. */
    static constexpr int WEIGHT_ROWS = FP32 ? 2 * COLUMNS : COLUMNS;
    static constexpr int PER_PIECE = MATH == UF_MATH_BF16 ? 8 : 4; /* channels in 16 bytes */
    static constexpr int PIECES = FP32 ? 2 : UF_WGMMA_NARROW_PLANES;
    static constexpr int CHANNELS = PIECES * PER_PIECE; /* of a chunk */
    static constexpr int STEPS = PIECES / 2;            /* of two planes, in a chunk */
    static constexpr int CONSUMERS = 128 * UF_WGMMA_NARROW_GROUPS, PRODUCERS = 256;
    static constexpr int THREADS = CONSUMERS + PRODUCERS;
    static constexpr int CONSUMER_REGISTERS = FP32 ? 192 : 168;
    static constexpr int PRODUCER_REGISTERS = 256 - CONSUMER_REGISTERS;
    static constexpr int PRODUCER_WARPS = PRODUCERS / 32;
    /* What a producer loads at a time. */
    static constexpr int LOADS = 16, POSITIONS = FP32 ? 2 : 1;
    static constexpr int PART_CHANNELS = LOADS / POSITIONS, PARTS = CHANNELS / PART_CHANNELS;
    static constexpr int TOGETHER = 2; /* products of FP32 under way */
    static constexpr int TAP_BYTES = PIECES * WEIGHT_ROWS * 16;
    static_assert(!(FP32 && SHARED), "a tile has one flag for the repair");
};

#if UF_HAS_WGMMA

template <uf_math MATH>
struct wgmma_narrow_type {
    typedef uf_wgmma_tf32 type;
};

template <>
struct wgmma_narrow_type<UF_MATH_BF16> {
    typedef uf_wgmma_bf16 type;
};

struct wgmma_narrow_barriers {
    /* of each turn, one after the other's */
    uint64_t window_full[UF_WGMMA_WINDOWS], window_empty[UF_WGMMA_WINDOWS];
    uint64_t weights_full;
};

/* Which tile: its place on each axis, in tiles. */
struct wgmma_narrow_tile {
    int32_t group, n, y, x;

    __device__ __forceinline__ void add(const wgmma_conv &p, const wgmma_narrow_tile &step) {
        const int32_t across = p.axis[1].tiles, down = p.axis[0].tiles;
        x += step.x;
        y += step.y + (x >= across ? 1 : 0);
        x -= x >= across ? across : 0;
        n += step.n + (y >= down ? 1 : 0);
        y -= y >= down ? down : 0;
        group += step.group + (n >= p.image_tiles ? 1 : 0);
        n -= n >= p.image_tiles ? p.image_tiles : 0;
    }
};

static __device__ __forceinline__ wgmma_narrow_tile wgmma_narrow_tile_of(const wgmma_conv &p,
                                                                         int32_t tile) {
    wgmma_narrow_tile at;
    int32_t rest = tile / p.axis[1].tiles;
    at.x = tile - rest * p.axis[1].tiles;
    int32_t next = rest / p.axis[0].tiles;
    at.y = rest - next * p.axis[0].tiles;
    at.group = next / p.image_tiles;
    at.n = next - at.group * p.image_tiles;
    return at;
}

/* What a block keeps in shared memory, in this order. */
struct wgmma_narrow_shared {
    wgmma_narrow_barriers *barriers;
    float *staging;   /* of each consuming warpgroup: [channel][64 pixels], scale, shift */
    uint32_t *places; /* y << 16 | x of a window's positions */
    uint32_t weights, windows, window_bytes; /* of a window and, unless they stay, its weights */
};

/* The sums of a product of FP32, [big*big | big*small] and small*big: apart, so that none is cut
 * off at sums that are larger than its own. */
template <typename Tile>
struct wgmma_narrow_part {
    float both[Tile::FP32 ? 2 * Tile::SUMS : 1], small[Tile::FP32 ? Tile::SUMS : 1];
};

/* The sums of one tile. Waiting for a chunk's products costs little: the other warpgroup's fill the
 * gap. */
template <typename Tile>
static __device__ __forceinline__ void
wgmma_narrow_sum(const wgmma_conv &p, const wgmma_narrow_shared &shared, int first_window,
                 int first_product, bool elected, uf_ring &window,
                 float (&total)[Tile::PRODUCTS][Tile::SUMS]) {
    constexpr int TOGETHER = Tile::TOGETHER;
    const uint32_t plane = (uint32_t)p.window_rows;
    const int taps = p.first_tap[1];
    const uint64_t window_at = uf_wgmma_operand(shared.windows, plane * 16, 128) +
                               (uint32_t)(first_product * p.product_rows);
    const uint64_t weights_at = uf_wgmma_operand(shared.weights, Tile::WEIGHT_ROWS * 16, 128);
    const uint64_t beside_at = uf_wgmma_operand(
        shared.windows + plane * 16 * UF_WGMMA_NARROW_PLANES, Tile::WEIGHT_ROWS * 16, 128);
#pragma unroll
    for (int product = 0; product < Tile::PRODUCTS; ++product) {
#pragma unroll
        for (int i = 0; i < Tile::SUMS; ++i) {
            total[product][i] = 0.0f;
        }
        uf_wgmma_pin(total[product]);
    }
#pragma unroll 1
    for (int32_t chunk = 0; chunk < p.chunks; ++chunk) {
        const int at = first_window + window.index;
        uf_barrier_wait(shared.barriers->window_full + at, window.parity);
        const uint32_t moved = (uint32_t)at * (shared.window_bytes >> 4);
        const uint64_t a = window_at + moved;
        const uint64_t b =
            p.resident ? weights_at + (uint32_t)(chunk * taps) * (uint32_t)(Tile::TAP_BYTES / 16)
                       : beside_at + moved;
        if (Tile::FP32) {
#pragma unroll 1
            for (int tap = 0; tap < taps; tap += p.promote) {
                const int count = taps - tap < p.promote ? taps - tap : p.promote;
#pragma unroll
                for (int product = 0; product < Tile::PRODUCTS; product += TOGETHER) {
                    wgmma_narrow_part<Tile> part[TOGETHER];
#pragma unroll
                    for (int i = 0; i < TOGETHER; ++i) {
                        uf_wgmma_clear(part[i].both);
                        uf_wgmma_clear(part[i].small);
                    }
                    uint64_t b_at = b + (uint32_t)tap * (uint32_t)(Tile::TAP_BYTES / 16);
#pragma unroll 1
                    for (int t = tap; t < tap + count; ++t) {
                        uint64_t a_at = a + (uint32_t)(p.shift[t] + product * p.product_rows);
                        uf_wgmma_fence();
#pragma unroll
                        for (int i = 0; i < TOGETHER; ++i) {
                            uf_wgmma_product<uf_wgmma_tf32, 2 * Tile::COLUMNS>::run(
                                (float(&)[2 * Tile::SUMS]) part[i].both, a_at, b_at, 1);
                            uf_wgmma_product<uf_wgmma_tf32, Tile::COLUMNS>::run(
                                (float(&)[Tile::SUMS])part[i].small, a_at + 2 * plane, b_at, 1);
                            a_at += (uint32_t)p.product_rows;
                        }
                        uf_wgmma_commit();
                        b_at += Tile::TAP_BYTES / 16;
                    }
                    uf_wgmma_wait<0>();
#pragma unroll
                    for (int j = 0; j < TOGETHER; ++j) {
                        uf_wgmma_pin(part[j].both);
                        uf_wgmma_pin(part[j].small);
#pragma unroll
                        for (int i = 0; i < Tile::SUMS; ++i) {
                            total[product + j][i] +=
                                part[j].both[Tile::FP32 ? i : 0] +
                                (part[j].both[Tile::FP32 ? Tile::SUMS + i : 0] +
                                 part[j].small[Tile::FP32 ? i : 0]);
                        }
                        uf_wgmma_pin(total[product + j]);
                    }
                }
            }
        } else {
#pragma unroll 1
            for (int tap = 0; tap < taps; ++tap) {
                const uint64_t a_at = a + p.shift[tap];
                const uint64_t b_at = b + (uint32_t)tap * (uint32_t)(Tile::TAP_BYTES / 16);
                uf_wgmma_fence();
#pragma unroll
                for (int step = 0; step < Tile::STEPS; ++step) {
#pragma unroll
                    for (int product = 0; product < Tile::PRODUCTS; ++product) {
                        typedef uf_wgmma_product<typename wgmma_narrow_type<Tile::MATH>::type,
                                                 Tile::COLUMNS>
                            one;
                        one::run(total[product],
                                 a_at + (uint32_t)(product * p.product_rows) + 2 * step * plane,
                                 b_at + 2 * step * Tile::WEIGHT_ROWS, 1);
                    }
                }
                uf_wgmma_commit();
            }
            uf_wgmma_wait<0>();
        }
        if (elected) {
            uf_barrier_arrive(shared.barriers->window_empty + at);
        }
        window.next(p.windows);
    }
#pragma unroll
    for (int product = 0; product < Tile::PRODUCTS; ++product) {
        uf_wgmma_pin(total[product]);
    }
}

/* What a row of pixels of a channel needs on its way to memory. */
template <typename T>
struct wgmma_narrow_out {
    int64_t step;  /* to the next pixel */
    int32_t count; /* of pixels that are there */
    bool simple, relu;
    float slope; /* of what is negative, unless it is zero for `relu` */
};

/* 64 pixels of a channel by one warp. */
template <typename T>
static __device__ __forceinline__ void
wgmma_narrow_row(const mma_conv &c, const wgmma_narrow_out<T> &out, T *to, const float *staging,
                 const float *scales, const float *shifts, int channel, int lane) {
    const float *from = staging + channel * UF_WGMMA_NARROW_PITCH + lane;
#pragma unroll 1
    for (int pixel = lane; pixel < UF_WGMMA_NARROW_PIXELS; pixel += 32) {
        if (pixel < out.count) {
            T *const at = to + pixel * out.step;
            const float value =
                uf_activate(c.activation, *from * scales[channel] + shifts[channel], c.parameter);
            *at = (T)(c.accumulate ? (float)*at + value : value);
        }
        from += 32;
    }
}

/* The same of BATCH channels, 4 apart, for what needs no more than a cheap activation. */
template <int BATCH, typename T>
static __device__ __forceinline__ void
wgmma_narrow_rows(const mma_conv &c, const wgmma_narrow_out<T> &out, T *to, const float *staging,
                  const float *scales, const float *shifts, int channel, int lane) {
    const int64_t step = 4 * c.written_stride[1];
    /* Stores of two pixels are aligned for all channels if they are for one. */
    const bool pairs =
        out.step == 1 && (step & 1) == 0 && ((uintptr_t)to & (2 * sizeof(T) - 1)) == 0;
    const int first = pairs ? 2 * lane : lane;
    const int second = pairs ? first + 1 : first + 32;
    float2 value[BATCH];
#pragma unroll
    for (int i = 0; i < BATCH; ++i) {
        const float *const from = staging + (channel + 4 * i) * UF_WGMMA_NARROW_PITCH;
        value[i] = pairs ? *(const float2 *)(from + first) : make_float2(from[first], from[second]);
    }
#pragma unroll
    for (int i = 0; i < BATCH; ++i) {
        const float scale = scales[channel + 4 * i], shift = shifts[channel + 4 * i];
        value[i].x = value[i].x * scale + shift;
        value[i].y = value[i].y * scale + shift;
        value[i].x = value[i].x < 0.0f ? (out.relu ? 0.0f : out.slope * value[i].x) : value[i].x;
        value[i].y = value[i].y < 0.0f ? (out.relu ? 0.0f : out.slope * value[i].y) : value[i].y;
    }
    if (pairs && out.count >= UF_WGMMA_NARROW_PIXELS) {
#pragma unroll
        for (int i = 0; i < BATCH; ++i) {
            wgmma_store_pair(to + first, value[i]);
            to += step;
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < BATCH; ++i) {
        if (first < out.count) {
            to[first * out.step] = (T)value[i].x;
        }
        if (second < out.count) {
            to[second * out.step] = (T)value[i].y;
        }
        to += step;
    }
}

/* A product's sums to [channel][pixel]; lanes write without bank conflicts. */
template <int PRODUCT, typename Tile>
static __device__ __forceinline__ void
wgmma_narrow_stage(const float (&total)[Tile::PRODUCTS][Tile::SUMS], float *to) {
#pragma unroll
    for (int i = 0; i < Tile::SUMS; ++i) {
        to[((i >> 2) * 8 + (i & 1)) * UF_WGMMA_NARROW_PITCH + (i >> 1 & 1) * 8] =
            total[PRODUCT % Tile::PRODUCTS][i];
    }
}

/* The sums of a warpgroup's tile to memory: a row of 64 pixels at a time through shared memory, so
 * that a warp writes all of a channel's at once. */
template <typename Tile>
static __device__ __forceinline__ void
wgmma_narrow_write(const wgmma_conv &p, const wgmma_narrow_tile &at, int first_product,
                   int warpgroup, int warp, int lane, float *staging,
                   const float (&total)[Tile::PRODUCTS][Tile::SUMS]) {
    typedef typename Tile::stored T;
    const mma_conv &c = p.conv;
    const mma_walk down = mma_walk_of(c.axis[0], 0), across = mma_walk_of(c.axis[1], 0);
    const int channels = c.written_per_group;
    const int64_t channel_0 = (int64_t)at.group * channels;
    const int32_t first_y = at.y * p.nt + first_product, first_x = at.x * UF_WGMMA_NARROW_PIXELS;
    constexpr int BATCH = Tile::COLUMNS < 16 ? 2 : 4;
    float *const scales = staging + Tile::COLUMNS * UF_WGMMA_NARROW_PITCH;
    float *const shifts = scales + Tile::COLUMNS;
    float *const mine =
        staging + 2 * (lane & 3) * UF_WGMMA_NARROW_PITCH + (warp & 3) * 16 + (lane >> 2);
    wgmma_narrow_out<T> out;
    out.relu = c.activation == UF_ACTIVATION_RELU;
    const bool leaky = c.activation == UF_ACTIVATION_LEAKY_RELU;
    out.simple = !c.accumulate && (out.relu || leaky || c.activation == UF_ACTIVATION_IDENTITY);
    out.slope = leaky ? c.parameter : 1.0f;
    out.step = c.axis[1].out_step * c.written_stride[3];
    out.count = across.out_count - first_x;
    T *to = (T *)c.written + at.n * c.written_stride[0] +
            (channel_0 + (warp & 3)) * c.written_stride[1] +
            (down.out_first + (int64_t)first_y * c.axis[0].out_step) * c.written_stride[2] +
            across.out_first * c.written_stride[3] + first_x * out.step;
    int rows = down.out_count - first_y; /* that are there */
    rows = rows < Tile::PRODUCTS ? rows : Tile::PRODUCTS;
#pragma unroll 1
    for (int row = 0; row < rows; ++row) {
        uf_named_barrier(1 + warpgroup, 128); /* the row before has been read */
        if (row == 0) {
            const int channel = (warp & 3) * 32 + lane;
            if (channel < channels) {
                scales[channel] =
                    c.scale == nullptr
                        ? 1.0f
                        : (float)((const T *)c.scale)[(channel_0 + channel) * c.scale_stride];
                shifts[channel] =
                    c.shift == nullptr
                        ? 0.0f
                        : (float)((const T *)c.shift)[(channel_0 + channel) * c.shift_stride];
            }
        }
#define UF_WGMMA_ROW(PRODUCT)                                                                      \
    case PRODUCT:                                                                                  \
        wgmma_narrow_stage<PRODUCT, Tile>(total, mine);                                            \
        break;
        switch (row) {
            UF_WGMMA_ROW(0)
            UF_WGMMA_ROW(1)
            UF_WGMMA_ROW(2)
            UF_WGMMA_ROW(3)
            UF_WGMMA_ROW(4)
            UF_WGMMA_ROW(5)
            UF_WGMMA_ROW(6)
            UF_WGMMA_ROW(7)
        default:
            break;
        }
#undef UF_WGMMA_ROW
        uf_named_barrier(1 + warpgroup, 128);
        T *to_channel = to;
        int channel = warp & 3;
#pragma unroll 1
        for (; channel + 4 * (BATCH - 1) < channels && out.simple; channel += 4 * BATCH) {
            wgmma_narrow_rows<BATCH, T>(c, out, to_channel, staging, scales, shifts, channel, lane);
            to_channel += 4 * BATCH * c.written_stride[1];
        }
#pragma unroll 1
        for (; channel < channels; channel += 4) {
            wgmma_narrow_row<T>(c, out, to_channel, staging, scales, shifts, channel, lane);
            to_channel += 4 * c.written_stride[1];
        }
        to += c.axis[0].out_step * c.written_stride[2];
    }
}

/* Warpgroups take tiles in turn, each from windows of its own, or halves of the same window: one's
 * results leave while the other's products run. */
template <typename Tile>
static __device__ __forceinline__ void wgmma_narrow_consumer(const wgmma_conv &p,
                                                             const wgmma_narrow_shared &shared) {
    /* From one lane, so that the compiler knows that a warp agrees about it. */
    const int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x >> 5, 0);
    const int warpgroup = warp >> 2;
    const int lane = (int)threadIdx.x & 31;
    const bool elected = lane == 0;
    float *const staging = shared.staging + warpgroup * UF_WGMMA_NARROW_STAGING(Tile::COLUMNS);
    const int turn = Tile::SHARED ? 0 : warpgroup;
    const int first_product = Tile::SHARED ? warpgroup * Tile::PRODUCTS : 0;
    const wgmma_narrow_tile step = wgmma_narrow_tile_of(p, Tile::TURNS * (int32_t)gridDim.x);
    wgmma_narrow_tile at =
        wgmma_narrow_tile_of(p, (int32_t)(blockIdx.x + (uint32_t)turn * gridDim.x));
    uf_ring window = {0, 0};
    if (p.resident) {
        uf_barrier_wait(&shared.barriers->weights_full, 0);
    }
#pragma unroll 1
    for (int32_t tile = (int32_t)(blockIdx.x + (uint32_t)turn * gridDim.x); tile < p.tiles;
         tile += Tile::TURNS * (int32_t)gridDim.x) {
        float total[Tile::PRODUCTS][Tile::SUMS];
        wgmma_narrow_sum<Tile>(p, shared, turn * p.windows, first_product, elected, window, total);
        bool finite = true;
        if (Tile::FP32) {
            float probe = 0.0f; /* NaN if a sum is infinite or NaN */
#pragma unroll
            for (int product = 0; product < Tile::PRODUCTS; ++product) {
#pragma unroll
                for (int i = 0; i < Tile::SUMS; ++i) {
                    probe = fmaf(total[product][i], 0.0f, probe);
                }
            }
            finite = uf_named_barrier_and(1 + warpgroup, 128, probe == 0.0f);
            finite = __shfl_sync(0xffffffffu, (int)finite, 0) != 0;
            if ((warp & 3) == 0 && elected) {
                p.unfinished[tile] = !finite;
            }
        }
        if (finite) { /* else the repair writes the tile */
            wgmma_narrow_write<Tile>(p, at, first_product, warpgroup, warp, lane, staging, total);
        }
        __syncwarp();
        at.add(p, step);
    }
}

/* What a producing warp loads at a time: 16 values per lane of `first` position and 31 (FP32: 63)
 * more. The order is that in which windows are filled: of the tiles of both turns, a chunk of each
 * in turn. */
template <typename Tile>
struct wgmma_narrow_unit {
    wgmma_narrow_tile at[Tile::TURNS];
    int32_t tile; /* of the first turn */
    int32_t turn, chunk, first, part;
    bool there;

    __device__ __forceinline__ void begin(const wgmma_conv &p, int warp) {
        tile = (int32_t)blockIdx.x;
#pragma unroll
        for (int i = 0; i < Tile::TURNS; ++i) {
            at[i] = wgmma_narrow_tile_of(p, tile + i * (int32_t)gridDim.x);
        }
        turn = chunk = part = 0;
        first = warp * 32 * Tile::POSITIONS;
        there = tile < p.tiles;
    }

    /* Is this the last of a window? */
    __device__ __forceinline__ bool last(const wgmma_conv &p) const {
        return part == Tile::PARTS - 1 &&
               first + Tile::PRODUCERS * Tile::POSITIONS >= p.window_rows;
    }

    __device__ __forceinline__ bool begins(int warp) const {
        return part == 0 && first == warp * 32 * Tile::POSITIONS;
    }

    __device__ __forceinline__ void next(const wgmma_conv &p, const wgmma_narrow_tile &step,
                                         int warp) {
        const bool whole = last(p);
        if (++part == Tile::PARTS) {
            part = 0;
            first += Tile::PRODUCERS * Tile::POSITIONS;
        }
        if (!whole) {
            return;
        }
        first = warp * 32 * Tile::POSITIONS;
        if (++turn < Tile::TURNS && tile + turn * (int32_t)gridDim.x < p.tiles) {
            return;
        }
        turn = 0;
        if (++chunk < p.chunks) {
            return;
        }
        chunk = 0;
        tile += Tile::TURNS * (int32_t)gridDim.x;
        there = tile < p.tiles;
#pragma unroll
        for (int i = 0; i < Tile::TURNS; ++i) {
            at[i].add(p, step);
        }
    }
};

/* Straight from the tensor: lanes are neighbouring positions of a channel. */
template <typename Tile>
static __device__ __forceinline__ void
wgmma_narrow_load(const wgmma_conv &p, const wgmma_narrow_shared &shared,
                  const wgmma_narrow_unit<Tile> &unit, int lane,
                  typename Tile::stored (&value)[Tile::LOADS]) {
    typedef typename Tile::stored T;
    const mma_conv &c = p.conv;
    const wgmma_narrow_tile at =
        Tile::TURNS == 1 || unit.turn == 0 ? unit.at[0] : unit.at[Tile::TURNS - 1];
    const int32_t first = unit.chunk * Tile::CHANNELS + unit.part * Tile::PART_CHANNELS;
    const int32_t channels = c.read_per_group - first;
    const T *const image = (const T *)c.read + at.n * c.read_stride[0] +
                           ((int64_t)at.group * c.read_per_group + first) * c.read_stride[1];
#pragma unroll
    for (int j = 0; j < Tile::POSITIONS; ++j) {
        const int32_t row = unit.first + j * 32 + lane;
        const uint32_t place = row < p.window_rows ? shared.places[row] : 0;
        const int32_t y = at.y * p.nt + p.axis[0].first + (int32_t)(place >> 16);
        const int32_t x =
            at.x * UF_WGMMA_NARROW_PIXELS + p.axis[1].first + (int32_t)(place & 0xffff);
        const bool there =
            row < p.window_rows && mma_inside(y, c.axis[0].read) && mma_inside(x, c.axis[1].read);
        const T *from = image + (there ? y * c.read_stride[2] + x * c.read_stride[3] : 0);
        const int32_t count = there ? channels : 0;
#pragma unroll
        for (int i = 0; i < Tile::PART_CHANNELS; ++i) {
            value[j * Tile::PART_CHANNELS + i] = (T)0.0f;
            if (i < count) {
                value[j * Tile::PART_CHANNELS + i] = *from;
            }
            from += c.read_stride[1];
        }
    }
}

/* Rounded or split, to its place in the window: 16 bytes of channels per position and plane. */
template <typename Tile>
static __device__ __forceinline__ void
wgmma_narrow_place(const wgmma_conv &p, const wgmma_narrow_shared &shared,
                   const wgmma_narrow_unit<Tile> &unit, uf_ring &window, int warp, int lane,
                   const typename Tile::stored (&value)[Tile::LOADS]) {
    typedef typename Tile::stored T;
    constexpr int PIECES = Tile::PART_CHANNELS / Tile::PER_PIECE;
    const uint32_t plane = (uint32_t)p.window_rows * 16;
    const int at = unit.turn * p.windows + window.index;
    const uint32_t to = shared.windows + (uint32_t)at * shared.window_bytes;
    if (unit.begins(warp)) {
        uf_barrier_wait(shared.barriers->window_empty + at, window.parity ^ 1);
        if (!p.resident && warp == 0 && lane == 0) {
            const uint32_t bytes = (uint32_t)(p.first_tap[1] * Tile::TAP_BYTES);
            const int32_t group =
                unit.turn == 0 ? unit.at[0].group : unit.at[Tile::TURNS - 1].group;
            uf_barrier_expect(shared.barriers->window_full + at, bytes);
            uf_copy_bulk(to + plane * UF_WGMMA_NARROW_PLANES,
                         (const char *)p.conv.packed +
                             ((int64_t)group * p.chunks + unit.chunk) * bytes,
                         bytes, shared.barriers->window_full + at);
        }
        __syncwarp();
    }
#pragma unroll
    for (int j = 0; j < Tile::POSITIONS; ++j) {
        const int32_t row = unit.first + j * 32 + lane;
        if (row < p.window_rows) {
            uint32_t at_row = to + (uint32_t)row * 16 + (uint32_t)(unit.part * PIECES) * plane;
#pragma unroll
            for (int piece = 0; piece < PIECES; ++piece) {
                uint4 words, small;
                conv_blocks_words<Tile::MATH, T>::of(
                    value + j * Tile::PART_CHANNELS + piece * Tile::PER_PIECE, &words, &small);
                wgmma_store(at_row, words);
                if (Tile::FP32) {
                    wgmma_store(at_row + Tile::PIECES * plane, small);
                }
                at_row += plane;
            }
        }
    }
    if (unit.last(p)) {
        uf_fence_async_shared();
        __syncwarp();
        if (lane == 0) {
            uf_barrier_arrive(shared.barriers->window_full + at);
        }
        if (unit.turn == Tile::TURNS - 1 ||
            unit.tile + (unit.turn + 1) * (int32_t)gridDim.x >= p.tiles) {
            window.next(p.windows);
        }
    }
}

/* Fills windows: loads of a unit are under way while the one before is written. */
template <typename Tile>
static __device__ __forceinline__ void
wgmma_narrow_producer(const wgmma_conv &p, const wgmma_narrow_shared &shared, int thread) {
    typedef typename Tile::stored T;
    const int warp = __shfl_sync(0xffffffffu, thread >> 5, 0), lane = thread & 31;
    if (p.resident && thread == 0) {
        const uint32_t bytes = (uint32_t)(p.first_tap[1] * Tile::TAP_BYTES);
        uf_barrier_expect(&shared.barriers->weights_full, bytes * (uint32_t)p.chunks);
        for (int32_t chunk = 0; chunk < p.chunks; ++chunk) {
            uf_copy_bulk(shared.weights + (uint32_t)chunk * bytes,
                         (const char *)p.conv.packed + (int64_t)chunk * bytes, bytes,
                         &shared.barriers->weights_full);
        }
    }
    __syncwarp();
    const wgmma_narrow_tile step = wgmma_narrow_tile_of(p, Tile::TURNS * (int32_t)gridDim.x);
    wgmma_narrow_unit<Tile> asked, due;
    uf_ring window = {0, 0}; /* of one turn; the other's goes with it */
    T even[Tile::LOADS], odd[Tile::LOADS];
    asked.begin(p, warp);
    due = asked;
    wgmma_narrow_load<Tile>(p, shared, asked, lane, even);
    asked.next(p, step, warp);
#pragma unroll 1
    while (due.there) {
        if (asked.there) {
            wgmma_narrow_load<Tile>(p, shared, asked, lane, odd);
            asked.next(p, step, warp);
        }
        wgmma_narrow_place<Tile>(p, shared, due, window, warp, lane, even);
        due.next(p, step, warp);
        if (!due.there) {
            break;
        }
        if (asked.there) {
            wgmma_narrow_load<Tile>(p, shared, asked, lane, even);
            asked.next(p, step, warp);
        }
        wgmma_narrow_place<Tile>(p, shared, due, window, warp, lane, odd);
        due.next(p, step, warp);
    }
}

#endif

template <typename Tile>
static __global__ void __launch_bounds__(Tile::THREADS, 1)
    conv_wgmma_narrow(const __grid_constant__ wgmma_conv p) {
#if UF_HAS_WGMMA
    UF_MMA_SHARED(memory);
    const int thread = (int)threadIdx.x;
    const uint32_t window = (uint32_t)p.window_rows * (16 * UF_WGMMA_NARROW_PLANES);
    const uint32_t weights = (uint32_t)(p.first_tap[1] * Tile::TAP_BYTES);
    wgmma_narrow_shared shared;
    shared.barriers = (wgmma_narrow_barriers *)memory;
    shared.staging = (float *)(memory + UF_WGMMA_BARRIERS / 4);
    shared.places = (uint32_t *)(shared.staging +
                                 UF_WGMMA_NARROW_GROUPS * UF_WGMMA_NARROW_STAGING(Tile::COLUMNS));
    shared.weights = uf_shared_address(shared.places + (p.window_rows + 31) / 32 * 32);
    shared.windows = shared.weights + (p.resident ? weights * (uint32_t)p.chunks : 0);
    shared.window_bytes = window + (p.resident ? 0 : weights);
    if (thread == 0) {
        for (int i = 0; i < Tile::TURNS * p.windows; ++i) {
            uf_barrier_init(shared.barriers->window_full + i,
                            Tile::PRODUCER_WARPS + (p.resident ? 0 : 1));
            uf_barrier_init(shared.barriers->window_empty + i, Tile::SHARED ? 8 : 4);
        }
        uf_barrier_init(&shared.barriers->weights_full, 1);
        uf_barrier_init_fence();
    }
    for (int32_t row = thread; row < p.window_rows; row += Tile::THREADS) {
        const int32_t y = row / p.axis[1].extent;
        shared.places[row] = (uint32_t)y << 16 | (uint32_t)(row - y * p.axis[1].extent);
    }
    __syncthreads();
    uf_wait_for_launcher();
    uf_launch_dependents();
    if (thread < Tile::CONSUMERS) {
        uf_registers_take<Tile::CONSUMER_REGISTERS>();
        wgmma_narrow_consumer<Tile>(p, shared);
    } else {
        uf_registers_release<Tile::PRODUCER_REGISTERS>();
        wgmma_narrow_producer<Tile>(p, shared, thread - Tile::CONSUMERS);
    }
#endif
}

/* [group][block of written channels][chunk][tap][plane][row][16 bytes], zeros where there is no
 * channel; FP32 has the rows of small halves behind those of big ones. A thread makes one (FP32:
 * two) 16 bytes. */
template <typename Tile>
static __global__ void __launch_bounds__(UF_BLOCK)
    conv_wgmma_narrow_pack(const __grid_constant__ wgmma_conv p, int32_t count) {
    typedef typename Tile::stored T;
    const mma_conv &c = p.conv;
    const int32_t index = (int32_t)(blockIdx.x * UF_BLOCK + threadIdx.x);
    uf_launch_dependents();
    if (index >= count) {
        return;
    }
    const int32_t taps = p.first_tap[1];
    int32_t rest = index / Tile::COLUMNS;
    const int32_t row = index - rest * Tile::COLUMNS;
    int32_t next = rest / Tile::PIECES;
    const int32_t piece = rest - next * Tile::PIECES;
    char *const to =
        (char *)c.packed + (int64_t)next * Tile::TAP_BYTES + (piece * Tile::WEIGHT_ROWS + row) * 16;
    rest = next / taps;
    const int32_t tap = next - rest * taps;
    next = rest / p.chunks;
    const int32_t chunk = rest - next * p.chunks;
    const int32_t group = next / p.channel_blocks;
    const int32_t written = (next - group * p.channel_blocks) * Tile::COLUMNS + row;
    const int32_t read = chunk * Tile::CHANNELS + piece * Tile::PER_PIECE;
    const int32_t channels = written < c.written_per_group ? c.read_per_group - read : 0;
    const T *const from = (const T *)c.weight + group * c.w_group + written * c.w_written +
                          read * c.w_read + p.tap_of[tap][0] * c.w_row +
                          p.tap_of[tap][1] * c.w_column;
    float value[Tile::PER_PIECE];
#pragma unroll
    for (int k = 0; k < Tile::PER_PIECE; ++k) {
        value[k] = k < channels ? (float)from[k * c.w_read] : 0.0f;
    }
    uint4 words, small;
    mma_words<Tile::MATH>(value, &words, &small);
    *(uint4 *)to = words;
    if (Tile::FP32) {
        *(uint4 *)(to + Tile::COLUMNS * 16) = small;
    }
}

#endif
