/* move.cuh - the kernels of space_to_depth/launch.cu that move x. */
#ifndef UF_KERNELS_CUDA_CONV_TRANSFORM_SPACE_TO_DEPTH_MOVE_CUH
#define UF_KERNELS_CUDA_CONV_TRANSFORM_SPACE_TO_DEPTH_MOVE_CUH

#include "kernels/cuda/conv/transform/space_to_depth/exact.cuh"
#include "kernels/cuda/conv/transform/space_to_depth/plan.h"
#include "kernels/cuda/conv/transform/space_to_depth/words.cuh"
#include "kernels/cuda/arch/sm90_wgmma.cuh"

enum {
    SPACE_TO_DEPTH_WARPS = UF_SPACE_TO_DEPTH_THREADS / 32,
    SPACE_TO_DEPTH_BLOCKS = 4, /* of a multiprocessor, at least: for more the compiler spills */
    SPACE_TO_DEPTH_EIGHT = 8   /* lanes with neighbouring cells, for each of four phases */
};

/* The shuffle lets the compiler see that the warp's lanes agree. */
static __device__ __forceinline__ int32_t space_to_depth_warp() {
    return __shfl_sync(0xffffffffu, (int32_t)threadIdx.x >> 5, 0);
}

static __device__ __forceinline__ int32_t space_to_depth_lane() {
    return (int32_t)threadIdx.x & 31;
}

/* A block's part of x. */
struct space_to_depth_block {
    int32_t unit, units;        /* first one; their number */
    int32_t cell[2], cells[2];  /* first one; those inside the plane */
    int32_t begin, first, last; /* pixels of a row: where the tile begins, [first, last) inside */
};

static __device__ __forceinline__ space_to_depth_block
space_to_depth_block_of(const uf_space_to_depth_move &p) {
    const int32_t row_tiles = (int32_t)blockIdx.x / p.tiles[1];
    const int32_t group = row_tiles / p.tiles[0];
    space_to_depth_block block;
    block.unit = group * p.together;
    block.units = min(p.together, p.units - block.unit);
    block.cell[0] = (row_tiles - group * p.tiles[0]) * p.tile[0];
    block.cell[1] = ((int32_t)blockIdx.x - row_tiles * p.tiles[1]) * p.tile[1];
    block.cells[0] = min(p.tile[0], p.cells[0] - block.cell[0]);
    block.cells[1] = min(p.tile[1], p.cells[1] - block.cell[1]);
    block.begin = block.cell[1] * p.phases[1] - p.origin[1];
    block.first = max(block.begin, 0);
    block.last = min(block.begin + block.cells[1] * p.phases[1], p.extent[1]);
    return block;
}

/* A row of pixels of a block. */
struct space_to_depth_row {
    int32_t n, channel, h;
    int32_t offset; /* of pixel 0, in elements of x */
    int32_t at;     /* of the first cell, in elements of shared memory */
    bool inside;    /* h is a row of the image */
};

static __device__ __forceinline__ space_to_depth_row space_to_depth_row_of(
    const uf_space_to_depth_move &p, const space_to_depth_block &block, int32_t index) {
    const int32_t of_block = direct_divide(p.by_rows, index);
    const int32_t unit = block.unit + of_block, i = index - of_block * p.tile[0];
    const int32_t plane = direct_divide(p.by_row_phases, unit);
    space_to_depth_row row;
    row.n = direct_divide(p.by_channels, plane);
    row.channel = plane - row.n * p.channels;
    row.h = (block.cell[0] + i) * p.phases[0] + unit - plane * p.phases[0] - p.origin[0];
    row.inside = i < block.cells[0] && (uint32_t)row.h < (uint32_t)p.extent[0];
    row.offset = row.n * p.stride[0] + row.channel * p.stride[1] + row.h * p.stride[2];
    row.at = index * p.tile[1] * p.spacing;
    return row;
}

/* Calls each(i, element of shared memory) for those of COUNT pixels from w on that the block has.
 * Phases of a cell are neighbours there, and cells `spacing` apart. */
template <int COUNT, typename Each>
static __device__ __forceinline__ void
space_to_depth_each_pixel(const uf_space_to_depth_move &p, const space_to_depth_block &block,
                          const space_to_depth_row &row, int32_t w, Each each) {
    const bool whole = w >= block.first && w + COUNT <= block.last;
    const int32_t from = max(w, block.first);
    const int32_t cell = direct_divide(p.by_phases, from - block.begin);
    int32_t phase = from - block.begin - cell * p.phases[1];
    int32_t at = row.at + cell * p.spacing + phase;
    if (whole && p.wide) { /* the pixels are in two cells at most */
        const int32_t left = p.phases[1] - phase, next = at + p.spacing - p.phases[1];
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            each(i, (i < left ? at : next) + i);
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        if (w + i >= block.first && w + i < block.last) {
            each(i, at);
            const bool next = ++phase == p.phases[1];
            at += next ? p.spacing - p.phases[1] + 1 : 1;
            phase = next ? 0 : phase;
        }
    }
}

/* A segment of a row of pixels: a warp's unit of work. */
template <int COUNT>
struct space_to_depth_segment {
    static constexpr int32_t STEP = 32 * COUNT;
    space_to_depth_row row;
    int32_t w; /* first pixel of this lane; its others are STEP apart */

    static __device__ __forceinline__ int32_t count(const uf_space_to_depth_move &p,
                                                    const space_to_depth_block &block) {
        return block.units * p.tile[0] * p.segments[COUNT > 1];
    }
    __device__ __forceinline__ space_to_depth_segment(const uf_space_to_depth_move &p,
                                                      const space_to_depth_block &block,
                                                      int32_t item) {
        const int32_t index = direct_divide(p.by_segments[COUNT > 1], item);
        const int32_t segment = item - index * p.segments[COUNT > 1];
        row = space_to_depth_row_of(p, block, index);
        w = block.first / COUNT * COUNT + segment * UF_SPACE_TO_DEPTH_TOGETHER * STEP +
            space_to_depth_lane() * COUNT;
    }
};

template <int COUNT, typename Word>
static __device__ __forceinline__ void space_to_depth_pixels_in(const uf_space_to_depth_move &p,
                                                                const space_to_depth_block &block,
                                                                const Word *pixels, Word *tile) {
    typedef space_to_depth_segment<COUNT> segment;
#pragma unroll 1
    for (int32_t item = space_to_depth_warp(); item < segment::count(p, block);
         item += SPACE_TO_DEPTH_WARPS) {
        const segment mine(p, block, item);
        const Word *const line = pixels + mine.row.offset;
        space_to_depth_run<Word, COUNT> run[UF_SPACE_TO_DEPTH_TOGETHER];
        if (!mine.row.inside) {
            continue;
        }
#pragma unroll
        for (int i = 0; i < UF_SPACE_TO_DEPTH_TOGETHER; ++i) {
            const int32_t w = mine.w + i * segment::STEP;
            if (w >= block.first && w + COUNT <= block.last) {
                run[i].load(line + (COUNT == 1 ? w * p.stride[3] : w));
            } else if (w < block.last) {
                run[i].load_some(line + w * p.stride[3], p.stride[3], block.first - w,
                                 block.last - w);
            }
        }
#pragma unroll
        for (int i = 0; i < UF_SPACE_TO_DEPTH_TOGETHER; ++i) {
            const int32_t w = mine.w + i * segment::STEP;
            if (w < block.last) {
                space_to_depth_each_pixel<COUNT>(
                    p, block, mine.row, w, [&](int e, int32_t at) { tile[at] = run[i].get(e); });
            }
        }
    }
}

/* Neighbouring cells of a phase, as many as 16 bytes hold. */
struct space_to_depth_cells {
    int32_t offset; /* elements of scratch */
    int32_t at;     /* elements of shared memory */
    int32_t high;   /* cells that are no padding */
    bool there;
};

/* The cells of this lane. Eight lanes have neighbours of a row, for each of four neighbouring
 * phases: their words in shared memory, an odd number apart, are in 32 banks. */
template <int COUNT>
static __device__ __forceinline__ space_to_depth_cells space_to_depth_cells_of(
    const uf_space_to_depth_move &p, const space_to_depth_block &block, int32_t item) {
    const int32_t rest = direct_divide(p.by_runs, item);
    const int32_t unit = direct_divide(p.by_fours, rest);
    const int32_t phase = (rest - unit * p.fours) * 4 + (space_to_depth_lane() & 3);
    const int32_t index =
        (item - rest * p.runs) * SPACE_TO_DEPTH_EIGHT + (space_to_depth_lane() >> 2);
    const int32_t i = direct_divide(p.by_row, index);
    const int32_t j = index * COUNT - i * p.tile[1];
    space_to_depth_cells cells;
    cells.offset = ((block.unit + unit) * p.phases[1] + phase) * p.plane +
                   (block.cell[0] + i) * p.pitch + block.cell[1] + j;
    cells.at = (unit * p.tile[0] * p.tile[1] + index * COUNT) * p.spacing + phase;
    cells.high = block.cells[1] - j;
    cells.there = phase < p.phases[1] && i < block.cells[0] && cells.high > 0;
    return cells;
}

template <int COUNT, typename Word>
static __device__ __forceinline__ void space_to_depth_cells_out(const uf_space_to_depth_move &p,
                                                                const space_to_depth_block &block,
                                                                const Word *tile, Word *cells) {
#pragma unroll 1
    for (int32_t item = space_to_depth_warp(); item < block.units * p.fours * p.runs;
         item += SPACE_TO_DEPTH_WARPS) {
        const space_to_depth_cells mine = space_to_depth_cells_of<COUNT>(p, block, item);
        space_to_depth_run<Word, COUNT> run;
        if (mine.there) {
#pragma unroll
            for (int i = 0; i < COUNT; ++i) {
                run.set(i, tile[mine.at + i * p.spacing]);
            }
            run.store(cells + mine.offset);
        }
    }
}

template <int COUNT, typename Word>
static __device__ __forceinline__ void space_to_depth_cells_in(const uf_space_to_depth_move &p,
                                                               const space_to_depth_block &block,
                                                               const Word *cells, Word *tile) {
#pragma unroll 1
    for (int32_t first = space_to_depth_warp(); first < block.units * p.fours * p.runs;
         first += UF_SPACE_TO_DEPTH_TOGETHER * SPACE_TO_DEPTH_WARPS) {
        space_to_depth_run<Word, COUNT> run[UF_SPACE_TO_DEPTH_TOGETHER];
        space_to_depth_cells mine[UF_SPACE_TO_DEPTH_TOGETHER];
#pragma unroll
        for (int i = 0; i < UF_SPACE_TO_DEPTH_TOGETHER; ++i) {
            const int32_t item = first + i * SPACE_TO_DEPTH_WARPS;
            mine[i] = space_to_depth_cells_of<COUNT>(p, block, item);
            mine[i].there = mine[i].there && item < block.units * p.fours * p.runs;
            if (mine[i].there && mine[i].high >= COUNT) {
                run[i].load(cells + mine[i].offset);
            } else if (mine[i].there) {
                run[i].load_some(cells + mine[i].offset, 1, 0, mine[i].high);
            }
        }
#pragma unroll
        for (int i = 0; i < UF_SPACE_TO_DEPTH_TOGETHER; ++i) {
            if (mine[i].there) {
#pragma unroll
                for (int e = 0; e < COUNT; ++e) {
                    tile[mine[i].at + e * p.spacing] = run[i].get(e);
                }
            }
        }
    }
}

/* Writes or accumulates pixel by pixel, with the fix-up of NaN. */
template <typename T>
static __device__ __forceinline__ void
space_to_depth_write_exact(const uf_space_to_depth_move &p, const uf_direct_conv &conv,
                           const space_to_depth_block &block, const space_to_depth_row &row,
                           int32_t w, int32_t end,
                           const typename space_to_depth_word<T>::type *tile, T *pixels) {
#pragma unroll 1
    for (; w < end; ++w) {
        const int32_t e = w - block.begin;
        const int32_t cell = direct_divide(p.by_phases, e);
        float value = space_to_depth_value(tile[row.at + e + cell * (p.spacing - p.phases[1])]);
        if (value != value) {
            value = space_to_depth_exact<T>(conv, row.n, row.channel, row.h, w);
        }
        direct_write_element(pixels + (row.offset + w * p.stride[3]), value, conv.accumulate);
    }
}

template <typename T, int COUNT>
static __device__ __forceinline__ void
space_to_depth_pixels_out(const uf_space_to_depth_move &p, const uf_direct_conv &conv,
                          const space_to_depth_block &block,
                          const typename space_to_depth_word<T>::type *tile, T *pixels) {
    typedef typename space_to_depth_word<T>::type Word;
    typedef space_to_depth_segment<COUNT> segment;
#pragma unroll 1
    for (int32_t item = space_to_depth_warp(); item < segment::count(p, block);
         item += SPACE_TO_DEPTH_WARPS) {
        const segment mine(p, block, item);
        const int32_t end = min(mine.w + UF_SPACE_TO_DEPTH_TOGETHER * segment::STEP, block.last);
#pragma unroll 1
        for (int32_t w = mine.row.inside ? mine.w : end; w < end; w += segment::STEP) {
            space_to_depth_run<Word, COUNT> run;
            bool plain = w >= block.first && w + COUNT <= block.last && !conv.accumulate;
            if (plain) {
                space_to_depth_each_pixel<COUNT>(p, block, mine.row, w, [&](int i, int32_t at) {
                    const float value = space_to_depth_value(tile[at]);
                    run.set(i, tile[at]);
                    plain = plain && value == value;
                });
            }
            if (plain) {
                run.store((Word *)pixels + mine.row.offset + (COUNT == 1 ? w * p.stride[3] : w));
            } else {
                space_to_depth_write_exact(p, conv, block, mine.row, max(w, block.first),
                                           min(w + COUNT, block.last), tile, pixels);
            }
        }
    }
}

template <typename T>
static __global__ void __launch_bounds__(UF_SPACE_TO_DEPTH_THREADS, SPACE_TO_DEPTH_BLOCKS)
    conv_space_to_depth_in(const __grid_constant__ uf_space_to_depth_move p, const T *pixels,
                           T *cells) {
    typedef typename space_to_depth_word<T>::type Word;
    constexpr int COUNT = 16 / sizeof(T);
    __shared__ __align__(16) Word tile[UF_SPACE_TO_DEPTH_TILE / sizeof(Word)];
    uf_launch_dependents();
    const space_to_depth_block block = space_to_depth_block_of(p);
#pragma unroll
    for (int i = 0; i < UF_SPACE_TO_DEPTH_TILE / 16 / UF_SPACE_TO_DEPTH_THREADS; ++i) {
        ((uint4 *)tile)[i * UF_SPACE_TO_DEPTH_THREADS + (int)threadIdx.x] =
            make_uint4(0u, 0u, 0u, 0u);
    }
    __syncthreads();
    uf_wait_for_launcher();
    if (p.vector) {
        space_to_depth_pixels_in<COUNT>(p, block, (const Word *)pixels, tile);
    } else {
        space_to_depth_pixels_in<1>(p, block, (const Word *)pixels, tile);
    }
    __syncthreads();
    space_to_depth_cells_out<COUNT>(p, block, tile, (Word *)cells);
}

/* dgrad. The filter's padding zeros times a number that is not finite make a sum NaN, wrongly: so
 * NaN is fixed up. */
template <typename T>
static __global__ void __launch_bounds__(UF_SPACE_TO_DEPTH_THREADS, SPACE_TO_DEPTH_BLOCKS)
    conv_space_to_depth_out(const __grid_constant__ uf_space_to_depth_move p,
                            const __grid_constant__ uf_direct_conv conv, const T *cells,
                            T *pixels) {
    typedef typename space_to_depth_word<T>::type Word;
    constexpr int COUNT = 16 / sizeof(T);
    __shared__ __align__(16) Word tile[UF_SPACE_TO_DEPTH_TILE / sizeof(Word)];
    uf_launch_dependents();
    const space_to_depth_block block = space_to_depth_block_of(p);
    uf_wait_for_launcher();
    space_to_depth_cells_in<COUNT>(p, block, (const Word *)cells, tile);
    __syncthreads();
    if (p.vector) {
        space_to_depth_pixels_out<T, COUNT>(p, conv, block, tile, pixels);
    } else {
        space_to_depth_pixels_out<T, 1>(p, conv, block, tile, pixels);
    }
}

#endif
