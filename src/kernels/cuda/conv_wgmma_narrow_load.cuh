/* conv_wgmma_narrow_load.cuh - windows and weights of conv_wgmma_narrow.cuh. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_NARROW_LOAD_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_NARROW_LOAD_CUH

#include "kernels/cuda/conv_wgmma_narrow_tile.cuh"

#if UF_HAS_WGMMA

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
