/* load.cuh - producer warps: windows and weights of swap_ab/mainloop.cuh. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_SWAP_AB_LOAD_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_SWAP_AB_LOAD_CUH

#include "kernels/cuda/conv/wgmma_implicit_gemm/swap_ab/tile.cuh"

#if UF_HAS_WGMMA

/* A unit in registers, to be stored: first position, part of the chunk's channels, buffer of the
 * window. */
struct wgmma_swap_ab_due {
    int32_t first, part, at;
    uint32_t parity;
    const char *weights; /* weights of the window's chunk */
    bool begins, last;   /* first or last of this warp's units of the window */
};

/* The next unit that a producer warp loads: 16 values per lane, of `first` and 31 (FP32: 63) more
 * positions. Windows are filled in the consumers' order: a chunk of each turn's tile in turn. */
template <typename Tile>
struct wgmma_swap_ab_unit {
    typedef typename Tile::stored T;
    wgmma_swap_ab_tile at[Tile::TURNS];
    const T *corner[Tile::TURNS]; /* channel 0 of the window's corner, inside the tensor or not */
    bool inside[Tile::TURNS];     /* the whole window is inside the tensor */
    int32_t tile;                 /* tile of the first turn */
    int32_t turn, chunk, first, part;
    uf_ring window; /* buffer of one turn; the other turn uses the same index */
    bool there;

    __device__ __forceinline__ void locate(const wgmma_conv &p) {
        const mma_conv &c = p.conv;
        const int32_t height = c.axis[0].read - p.axis[0].extent;
        const int32_t width = c.axis[1].read - p.axis[1].extent;
#pragma unroll
        for (int i = 0; i < Tile::TURNS; ++i) {
            const int32_t y = at[i].y * p.nt + p.axis[0].first;
            const int32_t x = at[i].x * UF_WGMMA_SWAP_AB_PIXELS + p.axis[1].first;
            inside[i] = y >= 0 && x >= 0 && y <= height && x <= width;
            corner[i] = (const T *)c.read + at[i].n * c.read_stride[0] +
                        (int64_t)at[i].group * c.read_per_group * c.read_stride[1] +
                        y * c.read_stride[2] + x * c.read_stride[3];
        }
    }

    __device__ __forceinline__ void begin(const wgmma_conv &p, int warp) {
        tile = (int32_t)blockIdx.x;
#pragma unroll
        for (int i = 0; i < Tile::TURNS; ++i) {
            at[i] = wgmma_swap_ab_tile_of(p, tile + i * (int32_t)gridDim.x);
        }
        locate(p);
        turn = chunk = part = 0;
        first = warp * 32 * Tile::POSITIONS;
        window.index = 0;
        window.parity = 0;
        there = tile < p.tiles;
    }

    /* True for the last unit of a window. */
    __device__ __forceinline__ bool last(const wgmma_conv &p) const {
        return part == Tile::PARTS - 1 &&
               first + Tile::PRODUCERS * Tile::POSITIONS >= p.window_rows;
    }

    __device__ __forceinline__ wgmma_swap_ab_due due(const wgmma_conv &p, int warp) const {
        wgmma_swap_ab_due made;
        const int32_t group = turn == 0 ? at[0].group : at[Tile::TURNS - 1].group;
        made.first = first;
        made.part = part;
        made.at = turn * p.windows + window.index;
        made.parity = window.parity;
        made.weights = (const char *)p.conv.packed +
                       ((int64_t)group * p.chunks + chunk) * (p.first_tap[1] * Tile::TAP_BYTES);
        made.begins = part == 0 && first == warp * 32 * Tile::POSITIONS;
        made.last = last(p);
        return made;
    }

    __device__ __forceinline__ void next(const wgmma_conv &p, const wgmma_swap_ab_tile &step,
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
        window.next(p.windows);
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
        locate(p);
    }
};

/* Loads from the tensor: lanes are neighbouring positions of a channel. */
template <typename Tile>
static __device__ __forceinline__ void
wgmma_swap_ab_load(const wgmma_conv &p, const wgmma_swap_ab_shared &shared,
                   const wgmma_swap_ab_unit<Tile> &unit, int lane,
                   typename Tile::stored (&value)[Tile::LOADS]) {
    typedef typename Tile::stored T;
    const mma_conv &c = p.conv;
    const int turn = Tile::TURNS == 1 || unit.turn == 0 ? 0 : Tile::TURNS - 1;
    const T *const corner = turn == 0 ? unit.corner[0] : unit.corner[Tile::TURNS - 1];
    const bool inside = turn == 0 ? unit.inside[0] : unit.inside[Tile::TURNS - 1];
    const int32_t first = unit.chunk * Tile::CHANNELS + unit.part * Tile::PART_CHANNELS;
    const int32_t channels = c.read_per_group - first;
    const T *const channel = corner + first * c.read_stride[1];
#pragma unroll
    for (int j = 0; j < Tile::POSITIONS; ++j) {
        const int32_t row = unit.first + j * 32 + lane;
        bool there = row < p.window_rows;
        const wgmma_swap_ab_position position = shared.positions[there ? row : 0];
        if (!inside) {
            const wgmma_swap_ab_tile at = turn == 0 ? unit.at[0] : unit.at[Tile::TURNS - 1];
            there = there &&
                    mma_inside(at.y * p.nt + p.axis[0].first + (int32_t)(position.coord >> 16),
                               c.axis[0].read) &&
                    mma_inside(at.x * UF_WGMMA_SWAP_AB_PIXELS + p.axis[1].first +
                                   (int32_t)(position.coord & 0xffff),
                               c.axis[1].read);
        }
        const T *from = channel + position.offset;
        T *const to = value + j * Tile::PART_CHANNELS;
        if (channels >= Tile::PART_CHANNELS) {
#pragma unroll
            for (int i = 0; i < Tile::PART_CHANNELS; ++i) {
                to[i] = (T)0.0f;
                if (there) {
                    to[i] = *from;
                }
                from += c.read_stride[1];
            }
        } else {
#pragma unroll
            for (int i = 0; i < Tile::PART_CHANNELS; ++i) {
                to[i] = (T)0.0f;
                if (there && i < channels) {
                    to[i] = *from;
                }
                from += c.read_stride[1];
            }
        }
    }
}

/* Rounds or splits a unit and stores it to the window: 16 bytes of channels per position and
 * plane. */
template <typename Tile>
static __device__ __forceinline__ void
wgmma_swap_ab_store(const wgmma_conv &p, const wgmma_swap_ab_shared &shared,
                    const wgmma_swap_ab_due &due, int warp, int lane,
                    const typename Tile::stored (&value)[Tile::LOADS]) {
    typedef typename Tile::stored T;
    constexpr int PIECES = Tile::PART_CHANNELS / Tile::PER_PIECE;
    const uint32_t plane = (uint32_t)p.window_rows * 16;
    const uint32_t to = shared.windows + (uint32_t)due.at * shared.window_bytes;
    if (due.begins) {
        uf_barrier_wait(shared.barriers->window_empty + due.at, due.parity ^ 1);
        if (!p.resident && warp == 0 && lane == 0) {
            const uint32_t bytes = (uint32_t)(p.first_tap[1] * Tile::TAP_BYTES);
            uf_barrier_expect(shared.barriers->window_full + due.at, bytes);
            uf_copy_bulk(to + plane * UF_WGMMA_SWAP_AB_PLANES, due.weights, bytes,
                         shared.barriers->window_full + due.at);
        }
        __syncwarp();
    }
#pragma unroll
    for (int j = 0; j < Tile::POSITIONS; ++j) {
        const int32_t row = due.first + j * 32 + lane;
        if (row < p.window_rows) {
            uint32_t at_row = to + (uint32_t)row * 16 + (uint32_t)(due.part * PIECES) * plane;
#pragma unroll
            for (int piece = 0; piece < PIECES; ++piece) {
                uint4 words, small;
                wgmma_swap_ab_words<Tile::MATH, T>::of(
                    value + j * Tile::PART_CHANNELS + piece * Tile::PER_PIECE, &words, &small);
                wgmma_store(at_row, words);
                if (Tile::FP32) {
                    wgmma_store(at_row + Tile::PIECES * plane, small);
                }
                at_row += plane;
            }
        }
    }
    if (due.last) {
        uf_fence_async_shared();
        __syncwarp();
        if (lane == 0) {
            uf_barrier_arrive(shared.barriers->window_full + due.at);
        }
    }
}

/* Fills windows: loads of a unit are in flight while the one before is stored. */
template <typename Tile>
static __device__ __forceinline__ void
wgmma_swap_ab_producer(const wgmma_conv &p, const wgmma_swap_ab_shared &shared, int thread) {
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
    const wgmma_swap_ab_tile step = wgmma_swap_ab_tile_of(p, Tile::TURNS * (int32_t)gridDim.x);
    wgmma_swap_ab_unit<Tile> unit;
    wgmma_swap_ab_due due, next;
    T even[Tile::LOADS], odd[Tile::LOADS];
    unit.begin(p, warp);
    wgmma_swap_ab_load<Tile>(p, shared, unit, lane, even);
    due = unit.due(p, warp);
    unit.next(p, step, warp);
#pragma unroll 1
    while (true) {
        const bool more = unit.there;
        if (more) {
            wgmma_swap_ab_load<Tile>(p, shared, unit, lane, odd);
            next = unit.due(p, warp);
            unit.next(p, step, warp);
        }
        wgmma_swap_ab_store<Tile>(p, shared, due, warp, lane, even);
        if (!more) {
            break;
        }
        const bool still = unit.there;
        if (still) {
            wgmma_swap_ab_load<Tile>(p, shared, unit, lane, even);
            due = unit.due(p, warp);
            unit.next(p, step, warp);
        }
        wgmma_swap_ab_store<Tile>(p, shared, next, warp, lane, odd);
        if (!still) {
            break;
        }
    }
}

#endif

/* [group][block of written channels][chunk][tap][plane][row][16 bytes], zeros where there is no
 * channel; FP32 has the rows of small parts after those of large ones. A thread makes 16 bytes
 * (FP32: twice 16). */
template <typename Tile>
static __global__ void __launch_bounds__(UF_BLOCK)
    conv_wgmma_swap_ab_pack(const __grid_constant__ wgmma_conv p, int32_t count) {
    typedef typename Tile::stored T;
    const mma_conv &c = p.conv;
    const int32_t index = (int32_t)(blockIdx.x * UF_BLOCK + threadIdx.x);
    uf_overlap_launches();
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
