/* mainloop.cuh - the kernel of im2col/launch.cu. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_IM2COL_MAINLOOP_CUH
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_IM2COL_MAINLOOP_CUH

#include "kernels/cuda/conv/mma_few_channels/im2col/epilogue.cuh"

/* Multiplies a chunk with a slice's weights. Lanes 0 to 15 address the cells' first unit, lanes 16
 * to 31 their second. */
template <typename Tile>
static __device__ __forceinline__ void
im2col_multiply(float (&sum)[Tile::M][Tile::N][4], const uint32_t (&cell)[Tile::M],
                const int32_t *table, const uint32_t *weights, int32_t steps) {
    const int32_t lane = (int32_t)threadIdx.x & 31;
    table += lane >> 4;
    weights += lane * 2 * Tile::PARTS;
#pragma unroll(Tile::PARTS == 1 && Tile::M * Tile::N != 8 ? 2 : 1)
    for (int32_t step = 0; step < steps; ++step) {
        const uint32_t coord = (uint32_t)table[0];
        table += 2;
        uint32_t big[Tile::M][4], small[Tile::PARTS == 2 ? Tile::M : 1][4];
#pragma unroll
        for (int m = 0; m < Tile::M; ++m) {
            uf_load_matrices(big[m], cell[m] + coord);
        }
        if (Tile::PARTS == 2) {
#pragma unroll
            for (int m = 0; m < Tile::M; ++m) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    mma_split_tf32_by_bits(__uint_as_float(big[m][i]), &big[m][i],
                                           &small[Tile::PARTS == 2 ? m : 0][i]);
                }
            }
        }
#pragma unroll
        for (int n = 0; n < Tile::N; ++n) {
            uint32_t by_big[2], by_small[2];
            if (Tile::PARTS == 2) {
                const uint4 by = *(const uint4 *)(weights + n * 128);
                by_big[0] = by.x;
                by_big[1] = by.y;
                by_small[0] = by.z;
                by_small[1] = by.w;
            } else {
                const uint2 by = *(const uint2 *)(weights + n * 64);
                by_big[0] = by.x;
                by_big[1] = by.y;
            }
#pragma unroll
            for (int m = 0; m < Tile::M; ++m) {
                if (Tile::PARTS == 2) {
                    /* The tensor core truncates its accumulator: each step is summed alone. */
                    float part[4] = {};
                    uf_mma_tf32(part, small[Tile::PARTS == 2 ? m : 0], by_big);
                    uf_mma_tf32(part, big[m], by_small);
                    uf_mma_tf32(part, big[m], by_big);
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        sum[m][n][i] += part[i];
                    }
                } else if (Tile::MATH == UF_MMA_BF16) {
                    uf_mma_bf16(sum[m][n], big[m], by_big);
                } else {
                    uf_mma_tf32(sum[m][n], big[m], by_big);
                }
            }
        }
        weights += Tile::N * 64 * Tile::PARTS;
    }
}

/* False: some sum of the thread is not finite. */
template <typename Tile>
static __device__ __forceinline__ bool im2col_is_finite(const float (&sum)[Tile::M][Tile::N][4]) {
    float probe = 0.0f;
#pragma unroll
    for (int m = 0; m < Tile::M; ++m) {
#pragma unroll
        for (int n = 0; n < Tile::N; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                probe = fmaf(sum[m][n][i], 0.0f, probe);
            }
        }
    }
    return probe == 0.0f;
}

/* Shared-memory addresses of the first record of each of a lane's cells. */
template <typename Tile>
static __device__ __forceinline__ void im2col_find_records(const uf_im2col_conv &p,
                                                           const uint4 *records, int32_t first_cell,
                                                           uint32_t (&cell)[Tile::M]) {
    const int32_t lane = (int32_t)threadIdx.x & 31;
#pragma unroll
    for (int m = 0; m < Tile::M; ++m) {
        /* Cells beyond the tile repeat the first one and are not stored. */
        const int32_t mine = first_cell + m * 16 + (lane & 15);
        const int32_t row = direct_divide(p.by_tile_w, mine < p.cells ? mine : 0);
        const int32_t column = mine < p.cells ? mine - row * p.conv.axis[1].tile : 0;
        cell[m] = (uint32_t)__cvta_generic_to_shared(records) +
                  (uint32_t)(row * p.cell_row + column * p.cell_column);
    }
}

/* Makes the table of byte offsets of the units of a chunk, from a cell's first record. */
static __device__ __forceinline__ void im2col_make_unit_table(const uf_im2col_conv &p,
                                                              int32_t *table) {
#pragma unroll 1
    for (int32_t i = im2col_table_first(p, 5); i < p.table_words; i += (int32_t)blockDim.x) {
        /* Weights beyond K are zeros, so any unit will do. */
        const int32_t unit = i < p.units ? i : 0;
        const int32_t coord = direct_divide(p.by_record, unit);
        const int32_t row = p.gathered ? coord : direct_divide(p.by_offsets, coord);
        table[i] = (unit - coord * p.record) * p.unit_plane * 16 + p.row_offset[row] +
                   (p.gathered ? 0 : p.column_offset[coord - row * p.offsets[1]]);
    }
}

/* Makes the records of a window. */
template <typename Tile>
static __device__ __forceinline__ void im2col_convert(const uf_im2col_conv &p,
                                                      const typename Tile::T *window,
                                                      const int32_t *sources, uint4 *records) {
    if (p.paired) {
        im2col_make_pairs<Tile>(p, window, sources, records);
    } else {
        im2col_make_records<Tile>(p, window, sources, records);
    }
}

/* Loads the window that the block needs after this chunk, if any. */
template <typename T>
static __device__ __forceinline__ void
im2col_load_next(const uf_im2col_conv &p, int32_t group, int32_t tile, int32_t slice,
                 int32_t slices, int32_t chunk, const im2col_line *lines, T *window,
                 uint64_t *barrier, int32_t &shift) {
    const uf_direct_conv &conv = p.conv;
    const bool next_chunk = chunk + 1 < conv.chunks;
    const bool next_slice = conv.chunks > 1 && slice + 1 < slices;
    const int32_t next = next_chunk || next_slice ? tile : tile + p.each;
    if (next < p.tiles) {
        shift = im2col_load<T>(p, im2col_coord_of(p, group, next),
                               next_chunk ? (chunk + 1) * conv.chunk : 0, lines, window, barrier);
    }
}

/* Shared memory of a block, in the order in which fit.c counts it. */
template <typename T>
struct im2col_layout {
    T *window;
    uint4 *records;
    uint32_t *weights;
    int32_t *table, *sources;
    im2col_line *lines;
    uint64_t *barrier;
    im2col_column *columns;
    int32_t *aligns, *coords;
    uint4 *zeros;
    float *stage;
};

template <typename Tile>
static __device__ __forceinline__ im2col_layout<typename Tile::T>
im2col_layout_of(const uf_im2col_conv &p, uint32_t *begin) {
    im2col_layout<typename Tile::T> at;
    at.window = (typename Tile::T *)begin;
    at.records = (uint4 *)(begin + p.window_words);
    at.weights = (uint32_t *)at.records + p.record_words;
    at.table = (int32_t *)(at.weights + p.weight_words);
    at.sources = at.table + p.table_words;
    at.lines = (im2col_line *)(at.sources + p.source_words);
    at.barrier = (uint64_t *)(at.lines + (p.lines_in << p.share_bits));
    at.columns = (im2col_column *)(at.barrier + 2);
    at.aligns = (int32_t *)(at.columns + Tile::N * 8);
    at.coords = at.aligns + p.align_words;
    at.zeros = (uint4 *)(at.coords + (p.lines ? (1 + p.dead_turns) * Tile::N * 8 : 0));
    at.stage = p.own_stage ? (float *)((uint32_t *)at.zeros + p.zero_words) : (float *)at.records;
    return at;
}

/* Waits until the lines of the slice before are stored. */
template <typename Tile>
static __device__ __forceinline__ void im2col_wait_for_stores(const uf_im2col_conv &p) {
    if (p.lines) {
        if (Tile::ROOMY) {
            im2col_lines_wait_but_zeros();
        } else {
            im2col_lines_wait();
        }
    }
}

/* A block's work: from `tile` every p.each-th tile, and slices of one part. */
struct im2col_block {
    int32_t tile, group, part, first_slice, slices;
};

static __device__ __forceinline__ im2col_block im2col_block_of(const uf_im2col_conv &p) {
    im2col_block block;
    block.tile = direct_divide(p.by_families, (int32_t)blockIdx.x);
    const int32_t family = (int32_t)blockIdx.x - block.tile * p.conv.groups * p.parts;
    block.group = direct_divide(p.by_parts, family);
    block.part = family - block.group * p.parts;
    block.first_slice = block.part * p.part_slices;
    block.slices = min(p.part_slices, p.slices - block.first_slice);
    return block;
}

/* Makes the line of zeros that rows without taps are stored from. */
static __device__ __forceinline__ void im2col_make_zeros(const uf_im2col_conv &p, uint4 *zeros) {
#pragma unroll 1
    for (int32_t i = im2col_table_first(p, 4); i < p.zero_words / 4; i += (int32_t)blockDim.x) {
        zeros[i] = make_uint4(0u, 0u, 0u, 0u);
    }
    im2col_lines_fence();
}

/* Prepares the stage of lines of a slice. */
template <typename Tile>
static __device__ __forceinline__ void
im2col_begin_lines(const uf_im2col_conv &p, int32_t group, int32_t tile, int32_t slice,
                   const im2col_layout<typename Tile::T> &in) {
    if (Tile::ROOMY) {
        im2col_lines_commit();
    }
    /* The table is read after the barrier before the stage, and its last readers are done. */
    im2col_find_columns<Tile>(p, im2col_coord_of(p, group, tile), slice, in.columns, in.aligns,
                              in.coords);
}

/* Makes the records of the window that has arrived. */
template <typename Tile>
static __device__ __forceinline__ void
im2col_prepare(const uf_im2col_conv &p, const im2col_layout<typename Tile::T> &in, int32_t shift) {
    if (p.lines && !p.own_stage) {
        im2col_lines_wait();
    }
    __syncthreads(); /* the window has arrived, and the records are free */
    im2col_convert<Tile>(p, in.window + shift, in.sources, in.records);
    __syncthreads();
}

/* The barrier that counts the bulk copies of a window. */
static __device__ __forceinline__ void im2col_init_barrier(const uf_im2col_conv &p,
                                                           uint64_t *barrier) {
#if UF_HAS_WGMMA
    if (threadIdx.x == 0) {
        uf_barrier_init(barrier, (uint32_t)(p.warps * p.bulk_turns));
        uf_barrier_init_fence();
    }
#endif
}

template <typename Tile>
static __global__ void __launch_bounds__(Tile::RATION, Tile::BLOCKS)
    conv_im2col(const __grid_constant__ uf_im2col_conv p) {
    typedef typename Tile::T T;
    extern __shared__ __align__(16) uint32_t im2col_shared[];
    const uf_direct_conv &conv = p.conv;
    const im2col_layout<T> in = im2col_layout_of<Tile>(p, im2col_shared);
    const im2col_block block = im2col_block_of(p);
    int32_t tile = block.tile;
    const int32_t group = block.group, first_slice = block.first_slice;
    /* The first copies need the table of lines; the other tables are made while they run. */
    im2col_make_lines(p, in.lines);
    im2col_init_barrier(p, in.barrier);
#if UF_HAS_WGMMA
    uint32_t parity = 0;
#endif
    __syncthreads();
    uf_overlap_launches();
    int32_t shift = 0;
    if (tile < p.tiles) {
        shift =
            im2col_load<T>(p, im2col_coord_of(p, group, tile), 0, in.lines, in.window, in.barrier);
    }
    im2col_make_sources(p, in.sources);
#pragma unroll 1
    for (int32_t i = im2col_table_first(p, 2); i < Tile::N * 8; i += (int32_t)blockDim.x) {
        const int32_t all = direct_divide(p.by_live, i);
        const int32_t pair = min(all, p.slice_pairs);
        const int32_t phase = i - all * conv.axis[1].live;
        const int32_t before = p.rounds == 2 && 2 * pair >= p.slice_pairs ? p.slice_pairs / 2 : 0;
        const int32_t beside = conv.axis[1].phase[phase];
        im2col_column column;
        column.to = (pair - before) * p.stage_pitch + beside * (p.lines ? (int32_t)sizeof(T) : 1);
        column.pair = (int16_t)pair;
        column.phase = (int16_t)phase;
        in.columns[i] = column;
    }
    im2col_make_aligns<T>(p, first_slice * p.slice_pairs, in.aligns);
    im2col_make_zeros(p, in.zeros);
    im2col_make_unit_table(p, in.table);
    im2col_k_element *const depth = (im2col_k_element *)in.records; /* records are written later */
    im2col_make_k_table<Tile>(p, depth);
    __syncthreads();
    im2col_load_weights<Tile>(p, group, block.part, in.columns, depth, in.weights);
    __syncthreads();
#pragma unroll 1
    for (int32_t i = (int32_t)threadIdx.x; p.own_stage && !p.lines && i < p.stage_words;
         i += (int32_t)blockDim.x) {
        in.stage[i] = 0.0f; /* phases without taps stay zero */
    }
    uint32_t coord[Tile::M], cell[Tile::M];
    im2col_find_cells<Tile>(p, coord);
    const int32_t first_cell = im2col_first_cell<Tile>();
    im2col_find_records<Tile>(p, in.records, first_cell, cell);
    const bool fill = conv.axis[0].live < conv.axis[0].out_step && !conv.accumulate;
    for (; tile < p.tiles; tile += p.each) {
        /* One window serves all slices; a window in chunks serves one. */
#pragma unroll 1
        for (int32_t slice = 0; slice < block.slices; ++slice) {
            float sum[Tile::M][Tile::N][4] = {};
#pragma unroll 1
            for (int32_t chunk = 0; chunk < conv.chunks; ++chunk) {
                if (conv.chunks > 1 || slice == 0) {
                    uf_copy_async_wait<0>();
#if UF_HAS_WGMMA
                    if (p.bulk) {
                        uf_barrier_wait(in.barrier, parity);
                        parity ^= 1;
                        const direct_coord at = im2col_coord_of(p, group, tile);
                        const uf_direct_axis &rows = conv.axis[0], &columns = conv.axis[1];
                        const int32_t h = at.cell[0] * rows.in_step + rows.low;
                        const int32_t w = at.cell[1] * columns.in_step + columns.low;
                        const int32_t left = conv.read_per_group - chunk * conv.chunk;
                        if (h < 0 || h + rows.span > rows.read || w < 0 ||
                            w + columns.span > columns.read || left < conv.chunk) {
                            im2col_zero_outside<T>(p, h, w, left, in.lines, in.window + shift);
                        }
                    }
#endif
                    im2col_prepare<Tile>(p, in, shift);
                    im2col_load_next<T>(p, group, tile, slice, block.slices, chunk, in.lines,
                                        in.window, in.barrier, shift);
                    if (!Tile::ROOMY && fill && slice == 0 && chunk == 0) {
                        im2col_fill_rows<Tile>(p, im2col_coord_of(p, group, tile), block.part, 0, 1,
                                               (const T *)in.zeros);
                    }
                }
                if (Tile::ROOMY && fill && chunk == 0) {
                    im2col_fill_rows<Tile>(p, im2col_coord_of(p, group, tile), block.part, slice,
                                           block.slices, (const T *)in.zeros);
                }
                if (p.lines && chunk == 0) {
                    im2col_begin_lines<Tile>(p, group, tile, slice, in);
                }
                if (first_cell < p.cells) { /* warps without cells only move data */
                    const int32_t step = (slice * conv.chunks + chunk) * p.steps;
                    im2col_multiply<Tile>(sum, cell, in.table,
                                          in.weights + step * Tile::N * 64 * Tile::PARTS, p.steps);
                }
            }
            const bool finite = im2col_is_finite<Tile>(sum);
            const direct_coord at = im2col_coord_of(p, group, tile);
            im2col_wait_for_stores<Tile>(p);
            if (__syncthreads_and(finite) == 0) {
                im2col_store_exact<T>(p, group, tile, first_slice + slice, first_cell,
                                      16 * Tile::M);
            } else if (p.lines) {
                im2col_store_lines<Tile>(p, at, sum, first_slice + slice, in.columns, in.coords,
                                         coord, (char *)in.stage);
            } else {
                im2col_store<Tile>(p, at, sum, first_slice + slice, in.columns, in.stage);
            }
            if (Tile::ROOMY) {
                im2col_lines_commit();
            }
        }
    }
    if (p.lines) {
        im2col_lines_wait();
    }
}

#endif
