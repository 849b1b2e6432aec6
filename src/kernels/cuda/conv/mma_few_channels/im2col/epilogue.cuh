/* epilogue.cuh - the epilogue of conv_im2col: stages phases side by side, stores rows, fills rows
 * that no tap reaches. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_IM2COL_EPILOGUE_CUH
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_IM2COL_EPILOGUE_CUH

#include "kernels/cuda/conv/simt_direct/epilogue.cuh"
#include "kernels/cuda/conv/mma_few_channels/im2col/epilogue_rows.cuh"
#include "kernels/cuda/conv/mma_few_channels/im2col/load_records.cuh"

/* The first cell of a warp within the tile. */
template <typename Tile>
static __device__ __forceinline__ int32_t im2col_first_cell() {
    return ((int32_t)threadIdx.x >> 5) * 16 * Tile::M;
}

/* Columns of the image that a tile writes: low to high - 1. */
struct im2col_range {
    int32_t low, high;
};

static __device__ __forceinline__ im2col_range im2col_range_of(const uf_im2col_conv &p,
                                                               const direct_coord &at) {
    const uf_direct_axis &columns = p.conv.axis[1];
    const int32_t first = columns.out_step * at.cell[1] - columns.out_shift;
    im2col_range range;
    range.low = max(first + p.skip, 0);
    range.high = min(first + p.skip + p.take, columns.written);
    return range;
}

/* The element (h, w) of the first channel of a group. 32 bits suffice within an image. */
template <typename T>
static __device__ __forceinline__ const T *
im2col_image(const uf_direct_conv &conv, const direct_coord &at, int32_t h, int32_t w) {
    return (const T *)conv.written + at.n * conv.written_stride[0] +
           (at.group * conv.written_per_group * (int32_t)conv.written_stride[1] +
            h * (int32_t)conv.written_stride[2] + w * (int32_t)conv.written_stride[3]);
}

/* The exact fix-up of a slice of a warp's cells. MMAs multiply padding and absent taps too, and 0
 * times infinity is NaN. */
template <typename T>
static __device__ __noinline__ void im2col_store_exact(const uf_im2col_conv &p, int32_t group,
                                                       int32_t tile, int32_t slice,
                                                       int32_t first_cell, int32_t cells) {
    const uf_direct_conv &conv = p.conv;
    const uf_direct_axis &rows = conv.axis[0], &columns = conv.axis[1];
    const direct_coord at = im2col_coord_of(p, group, tile);
    const im2col_range line = im2col_range_of(p, at);
    const int32_t pairs = min(p.slice_pairs, p.pairs - slice * p.slice_pairs);
    cells = min(cells, p.cells - first_cell);
#pragma unroll 1
    for (int32_t i = (int32_t)threadIdx.x & 31; i < cells * pairs * columns.out_step; i += 32) {
        int32_t rest = i / columns.out_step;
        const int32_t f = i - rest * columns.out_step;
        const int32_t local = rest / cells;
        const int32_t cell = first_cell + rest - local * cells;
        const int32_t row = direct_divide(p.by_tile_w, cell);
        const int32_t column = cell - row * columns.tile;
        const int32_t pair = slice * p.slice_pairs + local;
        const int32_t row_phase = pair / conv.written_per_group;
        const int32_t channel = pair - row_phase * conv.written_per_group;
        const int32_t h =
            rows.out_step * (at.cell[0] + row) - rows.out_shift + rows.phase[row_phase];
        const int32_t w = columns.out_step * (at.cell[1] + column) - columns.out_shift + f;
        if ((uint32_t)h >= (uint32_t)rows.written || w < line.low || w >= line.high) {
            continue;
        }
        const bool dead = columns.out_step > 1 && columns.map[f] == UF_DIRECT_DEAD;
        const float sum = dead ? 0.0f : direct_exact<T>(conv, at, channel, h, w);
        direct_write_element(
            direct_channel<T>(conv, at, channel) + h * conv.written_stride[2] +
                w * conv.written_stride[3],
            direct_finish(
                conv, direct_epilogue_of<T>(conv, group * conv.written_per_group + channel), sum),
            conv.accumulate);
    }
}

/* Fills rows of phases without taps with the epilogue of 0; each part of a block's slices has its
 * own channels. Each lane computes one row's address, and the warp fills the rows one after
 * another. */
template <typename Tile>
static __device__ __forceinline__ void
im2col_fill_rows(const uf_im2col_conv &p, const direct_coord &at, int32_t part, int32_t slice,
                 int32_t slices, const typename Tile::T *zeros) {
    typedef typename Tile::T T;
    const uf_direct_conv &conv = p.conv;
    const uf_direct_axis &rows = conv.axis[0];
    const im2col_range line = im2col_range_of(p, at);
    const int32_t low = line.low, high = line.high;
    const int32_t h0 = rows.out_step * at.cell[0] - rows.out_shift;
    const int32_t lane = (int32_t)threadIdx.x & 31;
    const int32_t all =
        direct_divide(p.by_parts, conv.written_per_group - part + p.parts - 1) * rows.tile;
    const int32_t share = slices == 1 ? all : (all + slices - 1) / slices;
    const int32_t first = slice * share + ((int32_t)threadIdx.x >> 5);
    const int32_t tasks = min((slice + 1) * share, all);
    T *const image = direct_channel<T>(conv, at, 0) + low * conv.written_stride[3];
#pragma unroll 1
    for (int32_t phase = 0; phase < rows.out_step; ++phase) {
        if (rows.map[phase] != UF_DIRECT_DEAD || high <= low) {
            continue;
        }
#pragma unroll 1
        for (int32_t base = first; base < tasks; base += 32 * p.warps) {
            const int32_t mine = base + lane * p.warps;
            const int32_t local = direct_divide(p.by_tile_h, mine);
            const int32_t h = h0 + (mine - local * rows.tile) * rows.out_step + phase;
            const int32_t channel = part + local * p.parts;
            T *to = nullptr;
            float value = 0.0f;
            if (mine < tasks && (uint32_t)h < (uint32_t)rows.written) {
                to = image + (channel * (int32_t)conv.written_stride[1] +
                              h * (int32_t)conv.written_stride[2]);
            }
            if (p.zero_words > 0) {
                /* All zeros are alike, so the copy begins at the row's offset modulo 16 bytes. */
                const int32_t skip = (int32_t)((uintptr_t)to / sizeof(T) & (16 / sizeof(T) - 1));
                im2col_write<Tile>(to, zeros + skip, to != nullptr ? high - low : 0);
                continue;
            }
            if (to != nullptr) {
                value = direct_finish(
                    conv, direct_epilogue_of<T>(conv, at.group * conv.written_per_group + channel),
                    0.0f);
            }
#pragma unroll 1
            for (int32_t i = 0, task = base; i < 32 && task < tasks; ++i, task += p.warps) {
                T *const row = (T *)__shfl_sync(0xffffffffu, (unsigned long long)to, i);
                const float filled = __shfl_sync(0xffffffffu, value, i);
                if (row == nullptr) {
                    continue;
                }
                if (conv.written_stride[3] == 1) {
                    im2col_fill_line(row, high - low, lane, filled);
                } else {
                    direct_fill(row, high - low, conv.written_stride[3], filled, lane);
                }
            }
        }
    }
}

/* Stores `count` pairs staged as floats, from pair `first`. Each lane computes one row's address,
 * and the warp stores the rows one after another. */
template <typename T>
static __device__ __forceinline__ void im2col_epilogue(const uf_im2col_conv &p,
                                                       const direct_coord &at, int32_t first,
                                                       int32_t count, const float *stage) {
    const uf_direct_conv &conv = p.conv;
    const uf_direct_axis &rows = conv.axis[0], &columns = conv.axis[1];
    const int32_t lane = (int32_t)threadIdx.x & 31;
    const int32_t h0 = rows.out_step * at.cell[0] - rows.out_shift;
    const int32_t w0 = columns.out_step * at.cell[1] - columns.out_shift;
    const im2col_range line = im2col_range_of(p, at);
    const int32_t low = line.low - w0;
    /* Rows as wide as the image are one. */
    const int32_t merged = p.flat ? min(rows.tile, rows.written - h0) : 1;
    const int32_t length = (line.high - line.low) * merged;
    T *const image = direct_channel<T>(conv, at, 0) + (w0 + low) * conv.written_stride[3];
    const int32_t lines = p.flat ? 1 : rows.tile;
    const int32_t tasks = count * lines;
#pragma unroll 1
    for (int32_t base = (int32_t)threadIdx.x >> 5; base < tasks; base += 32 * p.warps) {
        const int32_t mine = base + lane * p.warps;
        const int32_t local = p.flat ? mine : direct_divide(p.by_tile_h, mine);
        const int32_t row = mine - local * lines;
        const int32_t row_phase = direct_divide(p.by_written, first + local);
        const int32_t channel = first + local - row_phase * conv.written_per_group;
        T *my_to = nullptr;
        int32_t my_from = 0;
        direct_epilogue my_epilogue = {1.0f, 0.0f};
        if (mine < tasks) {
            const int32_t h = h0 + row * rows.out_step + rows.phase[row_phase];
            if ((uint32_t)h < (uint32_t)rows.written) {
                my_to = image + channel * conv.written_stride[1] + h * conv.written_stride[2];
                my_from = local * p.stage_pitch + row * columns.tile * columns.out_step + low;
                my_epilogue =
                    direct_epilogue_of<T>(conv, at.group * conv.written_per_group + channel);
            }
        }
#pragma unroll 1
        for (int32_t i = 0, task = base; i < 32 && task < tasks; ++i, task += p.warps) {
            T *const to = (T *)__shfl_sync(0xffffffffu, (unsigned long long)my_to, i);
            const float *const staged = stage + __shfl_sync(0xffffffffu, my_from, i);
            const direct_epilogue epilogue = {__shfl_sync(0xffffffffu, my_epilogue.scale, i),
                                              __shfl_sync(0xffffffffu, my_epilogue.shift, i)};
            if (to == nullptr) {
                continue;
            }
#pragma unroll 1
            for (int32_t f = lane; f < length; f += 32) {
                direct_write_element(to + f * conv.written_stride[3],
                                     direct_finish(conv, epilogue, staged[f]), conv.accumulate);
            }
        }
    }
}

/* Stages sums as floats, phases side by side. The stage may overlay the records, which are free by
 * then. */
template <typename Tile>
static __device__ __forceinline__ void im2col_store(const uf_im2col_conv &p, const direct_coord &at,
                                                    const float (&sum)[Tile::M][Tile::N][4],
                                                    int32_t slice, const im2col_column *columns,
                                                    float *stage) {
    typedef typename Tile::T T;
    const int32_t lane = (int32_t)threadIdx.x & 31;
    const int32_t out = p.conv.axis[1].out_step;
    const int32_t first = slice * p.slice_pairs;
    const int32_t pairs = min(p.slice_pairs, p.pairs - first);
    const int32_t half = p.rounds == 2 ? min(p.slice_pairs / 2, pairs) : 0;
    float *const mine = stage + (im2col_first_cell<Tile>() + (lane >> 2)) * out;
    columns += (lane & 3) * 2;
#pragma unroll
    for (int n = 0; n < Tile::N; ++n) {
        if (Tile::N > 2 && 2 * n == Tile::N && p.rounds == 2) {
            __syncthreads();
            im2col_epilogue<T>(p, at, first, half, stage);
            __syncthreads();
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float *const to = mine + columns[n * 8 + i].to;
#pragma unroll
            for (int m = 0; m < 2 * Tile::M; ++m) {
                to[m * 8 * out] = sum[m / 2][n][(m & 1) * 2 + i];
            }
        }
    }
    __syncthreads();
    im2col_epilogue<T>(p, at, first + half, pairs - half, stage);
}

/* The offset of each pair of a part from the first channel's first element, modulo 16 bytes. Staged
 * lines and rows in memory must agree in it. */
template <typename T>
static __device__ __forceinline__ void im2col_make_aligns(const uf_im2col_conv &p,
                                                          int32_t first_pair, int32_t *aligns) {
#pragma unroll 1
    for (int32_t i = im2col_table_first(p, 3); i < p.align_words; i += (int32_t)blockDim.x) {
        const int32_t pair = min(first_pair + i, p.pairs - 1);
        const int32_t row_phase = direct_divide(p.by_written, pair);
        const int32_t channel = pair - row_phase * p.conv.written_per_group;
        aligns[i] = (int32_t)((channel * p.conv.written_stride[1] +
                               p.conv.axis[0].phase[row_phase] * p.conv.written_stride[2]) *
                                  (int64_t)sizeof(T) &
                              15);
    }
}

/* Offsets of a thread's cells in a staged pair, in elements, packed in 16 bits to save registers.
 * IM2COL_NOWHERE: the cell is beyond the tile. */
enum { IM2COL_NOWHERE = 0xffff };

static __device__ __forceinline__ uint32_t im2col_cell(const uint32_t *coord, int m) {
    return m & 1 ? coord[m / 2] >> 16 : coord[m / 2] & 0xffff;
}

/* Columns of a slice that belong to a pair. */
static __device__ __forceinline__ int32_t im2col_wanted(const uf_im2col_conv &p) {
    return p.slice_pairs * p.conv.axis[1].live;
}

template <typename Tile>
static __device__ __forceinline__ void im2col_find_cells(const uf_im2col_conv &p,
                                                         uint32_t (&coord)[Tile::M]) {
    const uf_direct_axis &columns = p.conv.axis[1];
    const int32_t first = im2col_first_cell<Tile>() + (((int32_t)threadIdx.x & 31) >> 2);
#pragma unroll
    for (int m = 0; m < Tile::M; ++m) {
        int32_t two[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int32_t cell = first + m * 16 + i * 8;
            const int32_t row = direct_divide(p.by_tile_w, cell);
            two[i] = cell < p.cells
                         ? row * p.line_pitch + (cell - row * columns.tile) * columns.out_step
                         : IM2COL_NOWHERE;
        }
        coord[m] = (uint32_t)two[0] | (uint32_t)two[1] << 16;
    }
}

/* Stores `count` pairs staged as elements, from pair `first`. A lane has one row of one pair. */
template <typename Tile>
static __device__ __forceinline__ void im2col_epilogue_rows(const uf_im2col_conv &p,
                                                            const direct_coord &at, int32_t first,
                                                            int32_t count, const char *stage) {
    typedef typename Tile::T T;
    const uf_direct_conv &conv = p.conv;
    const uf_direct_axis &rows = conv.axis[0], &columns = conv.axis[1];
    const int32_t lane = (int32_t)threadIdx.x & 31;
    const int32_t h0 = rows.out_step * at.cell[0] - rows.out_shift;
    const int32_t w0 = columns.out_step * at.cell[1] - columns.out_shift;
    const im2col_range line = im2col_range_of(p, at);
    const int32_t low = line.low - w0;
    /* Rows as wide as the image are one. */
    const int32_t merged = p.flat ? min(rows.tile, rows.written - h0) : 1;
    const int32_t length = (line.high - line.low) * merged;
    const T *const image = im2col_image<T>(conv, at, h0, w0);
    const int32_t lines = p.flat ? 1 : rows.tile;
    const int32_t tasks = count * lines;
#pragma unroll 1
    for (int32_t base = (int32_t)threadIdx.x >> 5; base < tasks; base += 32 * p.warps) {
        const int32_t mine = min(base + lane * p.warps, tasks - 1);
        const int32_t local = p.flat ? mine : direct_divide(p.by_tile_h, mine);
        const int32_t row = mine - local * lines;
        const int32_t row_phase = direct_divide(p.by_written, first + local);
        const int32_t channel = first + local - row_phase * conv.written_per_group;
        const int32_t h = row * rows.out_step + rows.phase[row_phase];
        /* offset of the first row, which may be outside */
        const int32_t plane = channel * (int32_t)conv.written_stride[1];
        const uintptr_t slot = (uintptr_t)(image + plane) + (uint32_t)rows.phase[row_phase] *
                                                                (uint32_t)conv.written_stride[2] *
                                                                (uint32_t)sizeof(T);
        const T *const from = (const T *)(stage + local * p.stage_pitch + (int32_t)(slot & 15)) +
                              row * p.line_pitch + low;
        const bool there =
            base + lane * p.warps < tasks && (uint32_t)(h0 + h) < (uint32_t)rows.written;
        im2col_write<Tile>((T *)image + (plane + h * (int32_t)conv.written_stride[2] + low), from,
                           there ? length : 0);
    }
}

/* Computes the stage offset of each column of a slice, and of the zeros that it writes for phases
 * without taps. Runs before the barrier that precedes staging. */
template <typename Tile>
static __device__ __forceinline__ void
im2col_find_columns(const uf_im2col_conv &p, const direct_coord &at, int32_t slice,
                    const im2col_column *columns, const int32_t *aligns, int32_t *coords) {
    typedef typename Tile::T T;
    constexpr int32_t COLUMNS = Tile::N * 8;
    const uf_direct_conv &conv = p.conv;
    const uf_direct_axis &axis = conv.axis[1];
    for (int32_t i = (int32_t)threadIdx.x; i < (1 + p.dead_turns) * COLUMNS;
         i += (int32_t)blockDim.x) {
        const im2col_column column = columns[i % COLUMNS];
        const int32_t h0 = conv.axis[0].out_step * at.cell[0] - conv.axis[0].out_shift;
        const int32_t w0 = axis.out_step * at.cell[1] - axis.out_shift;
        const uintptr_t first = (uintptr_t)im2col_image<T>(conv, at, h0, w0);
        const int32_t pair = min(slice * p.slice_pairs + column.pair, p.align_words - 1);
        int32_t coord = column.to + ((aligns[pair] + (int32_t)(first & 15)) & 15);
        if (i >= COLUMNS) {
            /* The last turn repeats columns where they do not divide evenly. */
            const int32_t dead =
                min(column.phase + (i / COLUMNS - 1) * axis.live, axis.out_step - axis.live - 1);
            coord += (p.dead_phase[dead] - axis.phase[column.phase]) * (int32_t)sizeof(T);
        }
        coords[i] = coord;
    }
}

/* Applies scale and shift. */
template <typename Tile>
static __device__ __forceinline__ void im2col_scale(const uf_im2col_conv &p, const direct_coord &at,
                                                    float (&sum)[Tile::M][Tile::N][4],
                                                    int32_t first, const im2col_column *columns) {
    typedef typename Tile::T T;
    columns += ((int32_t)threadIdx.x & 3) * 2;
#pragma unroll
    for (int n = 0; n < 2 * Tile::N; ++n) {
        const int32_t pair = min(first + columns[n / 2 * 8 + (n & 1)].pair, p.pairs - 1);
        const int32_t channel = pair - direct_divide(p.by_written, pair) * p.conv.written_per_group;
        const direct_epilogue epilogue =
            direct_epilogue_of<T>(p.conv, at.group * p.conv.written_per_group + channel);
#pragma unroll
        for (int m = 0; m < 2 * Tile::M; ++m) {
            float &value = sum[m / 2][n / 2][(m & 1) * 2 + (n & 1)];
            value = direct_scale(epilogue, value);
        }
    }
}

/* Stages the epilogue of zero for phases without taps, some for each live phase, in 8-column blocks
 * `begin` to `end` - 1. */
template <typename Tile>
static __device__ __forceinline__ void
im2col_store_dead(const uf_im2col_conv &p, const direct_coord &at, int32_t first, int32_t begin,
                  int32_t end, const im2col_column *columns, const int32_t *coords,
                  const uint32_t (&coord)[Tile::M], char *stage) {
    typedef typename Tile::T T;
    const uf_direct_conv &conv = p.conv;
    const bool scaled = conv.scale != nullptr || conv.shift != nullptr;
    const int32_t mine = ((int32_t)threadIdx.x & 3) * 2;
    const int32_t last = min(end * 8, im2col_wanted(p));
#pragma unroll 1
    for (int32_t turn = 1; turn <= p.dead_turns; ++turn) {
#pragma unroll 1
        for (int32_t n = begin * 8 + mine; n < last; n += 8) {
            const int2 to = *(const int2 *)(coords + turn * Tile::N * 8 + n);
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                T zero = (T)0.0f;
                if (scaled) {
                    const int32_t pair = min(first + columns[n + i].pair, p.pairs - 1);
                    const int32_t channel =
                        pair - direct_divide(p.by_written, pair) * conv.written_per_group;
                    zero = (T)direct_scale(
                        direct_epilogue_of<T>(conv, at.group * conv.written_per_group + channel),
                        0.0f);
                }
                T *const beside = (T *)(stage + (i == 0 ? to.x : to.y));
#pragma unroll
                for (int m = 0; m < 2 * Tile::M; ++m) {
                    const uint32_t cell = im2col_cell(coord, m);
                    if (n + i < last && cell != IM2COL_NOWHERE) {
                        beside[cell] = zero;
                    }
                }
            }
        }
    }
}

/* Stages a thread's two columns of an 8-column block. EXACT: no cell and no column is beyond the
 * tile's. */
template <typename Tile, bool EXACT>
static __device__ __forceinline__ void
im2col_store_eight(const float (&sum)[Tile::M][Tile::N][4], int n, int32_t wanted, int2 to,
                   const uint32_t (&coord)[Tile::M], char *stage) {
    typedef typename Tile::T T;
    const int32_t column = n * 8 + ((int32_t)threadIdx.x & 3) * 2;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        T *const here = (T *)(stage + (i == 0 ? to.x : to.y));
        if (!EXACT && column + i >= wanted) {
            continue;
        }
#pragma unroll
        for (int m = 0; m < 2 * Tile::M; ++m) {
            const uint32_t cell = im2col_cell(coord, m);
            if (EXACT || cell != IM2COL_NOWHERE) {
                here[cell] = (T)sum[m / 2][n][(m & 1) * 2 + i];
            }
        }
    }
}

/* Stages sums as elements, phases side by side. Code that runs once per slice waits for the
 * instruction cache, so it is kept short. */
template <typename Tile>
static __device__ __forceinline__ void
im2col_store_lines(const uf_im2col_conv &p, const direct_coord &at,
                   float (&sum)[Tile::M][Tile::N][4], int32_t slice, const im2col_column *columns,
                   const int32_t *coords, const uint32_t (&packed)[Tile::M], char *stage) {
    typedef typename Tile::T T;
    const uf_direct_conv &conv = p.conv;
    uint32_t coord[Tile::M];
#pragma unroll
    for (int m = 0; m < Tile::M; ++m) {
        coord[m] = packed[m];
        if (Tile::N == 4 && Tile::M == 2) {
            /* Otherwise the compiler unpacks them before the first tile, and registers spill. */
            asm volatile("" : "+r"(coord[m]));
        }
    }
    const int32_t first = slice * p.slice_pairs;
    const int32_t pairs = min(p.slice_pairs, p.pairs - first);
    const int32_t half = p.rounds == 2 ? min(p.slice_pairs / 2, pairs) : 0;
    if (conv.scale != nullptr || conv.shift != nullptr) {
        im2col_scale<Tile>(p, at, sum, first, columns);
    }
    const int2 *const to = (const int2 *)coords + ((int32_t)threadIdx.x & 3);
    const int32_t wanted = im2col_wanted(p);
#pragma unroll
    for (int n = 0; n < Tile::N; ++n) {
        if (Tile::N > 2 && 2 * n == Tile::N && p.rounds == 2) {
            im2col_store_dead<Tile>(p, at, first, 0, n, columns, coords, coord, stage);
            im2col_lines_fence();
            __syncthreads();
            im2col_epilogue_rows<Tile>(p, at, first, half, stage);
            im2col_lines_wait();
            __syncthreads();
        }
        const int2 two = to[n * 4];
        if (p.exact) {
            im2col_store_eight<Tile, true>(sum, n, wanted, two, coord, stage);
        } else {
            im2col_store_eight<Tile, false>(sum, n, wanted, two, coord, stage);
        }
    }
    im2col_store_dead<Tile>(p, at, first, p.rounds == 2 ? Tile::N / 2 : 0, Tile::N, columns, coords,
                            coord, stage);
    im2col_lines_fence();
    __syncthreads();
    im2col_epilogue_rows<Tile>(p, at, first + half, pairs - half, stage);
}

#endif
