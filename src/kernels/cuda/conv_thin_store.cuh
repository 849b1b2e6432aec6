/* conv_thin_store.cuh - the way out of conv_thin: epilogue, phases to neighbours, rows that no tap
 * reaches. */
#ifndef UF_KERNELS_CUDA_CONV_THIN_STORE_CUH
#define UF_KERNELS_CUDA_CONV_THIN_STORE_CUH

#include "kernels/cuda/conv_direct_store.cuh"
#include "kernels/cuda/conv_thin_load.cuh"

/* A warp's cells: the first of the tile's, and their count, at most. */
template <typename Tile>
static __device__ __forceinline__ int32_t thin_first_cell() {
    return ((int32_t)threadIdx.x >> 5) * 16 * Tile::M;
}

/* A slice of a warp's cells, element by element: where a sum is not finite. Padding and absent taps
 * are multiplied like anything else, and 0 times infinity is NaN where nothing should be. */
template <typename T>
static __device__ __noinline__ void thin_store_exact(const uf_thin_conv &p, int32_t group,
                                                     int32_t tile, int32_t slice,
                                                     int32_t first_cell, int32_t cells) {
    const uf_direct_conv &conv = p.conv;
    const uf_direct_axis &rows = conv.axis[0], &columns = conv.axis[1];
    const direct_place at = thin_place_of(p, group, tile);
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
        if ((uint32_t)h >= (uint32_t)rows.written || (uint32_t)w >= (uint32_t)columns.written) {
            continue;
        }
        const bool dead = columns.out_step > 1 && columns.map[f] == UF_DIRECT_DEAD;
        const float sum = dead ? 0.0f : direct_exact<T>(conv, at, channel, h, w);
        direct_put(
            direct_channel<T>(conv, at, channel) + h * conv.written_stride[2] +
                w * conv.written_stride[3],
            direct_finish(
                conv, direct_way_out_of<T>(conv, group * conv.written_per_group + channel), sum),
            conv.accumulate);
    }
}

/* Neighbours by a warp: a request for each 128 bytes that they lie in, not for each 32 elements.
 * `get` says what element i is. */
template <typename T, typename Get>
static __device__ __forceinline__ void thin_put_line(T *to, int32_t count, int32_t lane, Get get) {
    constexpr int PER = 4 / (int)sizeof(T);
    /* Words; of two elements there may be half a one at either end. */
    const int32_t head = PER == 1 ? 0 : (int32_t)((uintptr_t)to / sizeof(T) & (PER - 1));
    const int32_t words = (count - head) / PER;
    if (PER > 1) {
        if (lane == 0 && head > 0 && count > 0) {
            *to = (T)get(0);
        }
        if (lane == 1 && count > head && ((count - head) & 1) != 0) {
            to[count - 1] = (T)get(count - 1);
        }
    }
    to += head;
    int32_t i = lane - (int32_t)((uintptr_t)to / 4 & 31);
#pragma unroll 1
    for (int32_t left = words - (i - lane); left > 0; left -= 128) {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const int32_t at = i + 32 * k;
            if ((uint32_t)at < (uint32_t)words) {
                if (PER == 1) {
                    to[at] = (T)get(at);
                } else {
                    ((uint32_t *)to)[at] = uf_pack_bf16(get(head + 2 * at), get(head + 2 * at + 1));
                }
            }
        }
        i += 128;
    }
}

/* Neighbours become `value`, 16 bytes at a time where they are aligned. */
template <typename T>
static __device__ __forceinline__ void thin_fill_line(T *to, int32_t count, int32_t lane,
                                                      float value) {
    constexpr int32_t VECTOR = 16 / (int32_t)sizeof(T);
    const T stored = (T)value;
    const uint32_t word = sizeof(T) == 2 ? uf_pack_bf16(value, value) : __float_as_uint(value);
    const int32_t head =
        min((int32_t)(0 - (uintptr_t)to / sizeof(T) & (uintptr_t)(VECTOR - 1)), count);
    const int32_t body = (count - head) / VECTOR;
    const int32_t tail = count - head - body * VECTOR;
    /* Half a warp has what is before the first of these, half what is behind the last. */
    const int32_t edge = lane & 15;
    if (edge < (lane < 16 ? head : tail)) {
        to[lane < 16 ? edge : count - 1 - edge] = stored;
    }
    uint4 *const vectors = (uint4 *)(to + head);
#pragma unroll 1
    for (int32_t i = lane - (int32_t)((uintptr_t)vectors / 16 & 7); i < body; i += 32) {
        if (i >= 0) {
            vectors[i] = make_uint4(word, word, word, word);
        }
    }
}

/* Rows of phases without taps: the epilogue of 0, by the block, each part its own channels. Lanes
 * find a row each, and the warp fills one after another. */
template <typename T>
static __device__ __forceinline__ void thin_fill_rows(const uf_thin_conv &p, const direct_place &at,
                                                      int32_t part) {
    const uf_direct_conv &conv = p.conv;
    const uf_direct_axis &rows = conv.axis[0], &columns = conv.axis[1];
    const int32_t low = max(columns.out_step * at.cell[1] - columns.out_shift, 0);
    const int32_t high =
        min(columns.out_step * (at.cell[1] + columns.tile) - columns.out_shift, columns.written);
    const int32_t h0 = rows.out_step * at.cell[0] - rows.out_shift;
    const int32_t lane = (int32_t)threadIdx.x & 31;
    const int32_t first = (int32_t)threadIdx.x >> 5;
    const int32_t tasks =
        direct_divide(p.by_parts, conv.written_per_group - part + p.parts - 1) * rows.tile;
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
                to = image + channel * conv.written_stride[1] + h * conv.written_stride[2];
                value = direct_finish(
                    conv, direct_way_out_of<T>(conv, at.group * conv.written_per_group + channel),
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
                    thin_fill_line(row, high - low, lane, filled);
                } else {
                    direct_fill(row, high - low, conv.written_stride[3], filled, lane);
                }
            }
        }
    }
}

/* Staged pairs, `count` from `first` on. Lanes find a row of the tile each, and the warp writes one
 * after another. */
template <typename T>
static __device__ __forceinline__ void thin_leave(const uf_thin_conv &p, const direct_place &at,
                                                  int32_t first, int32_t count,
                                                  const float *stage) {
    const uf_direct_conv &conv = p.conv;
    const uf_direct_axis &rows = conv.axis[0], &columns = conv.axis[1];
    const int32_t lane = (int32_t)threadIdx.x & 31;
    const bool quick = conv.activation == UF_ACTIVATION_IDENTITY && !conv.accumulate &&
                       conv.written_stride[3] == 1;
    const bool scaled = conv.scale != nullptr || conv.shift != nullptr;
    const int32_t h0 = rows.out_step * at.cell[0] - rows.out_shift;
    const int32_t w0 = columns.out_step * at.cell[1] - columns.out_shift;
    const int32_t low = max(-w0, 0);
    /* Rows as wide as the image are one. */
    const int32_t merged = p.flat ? min(rows.tile, rows.written - h0) : 1;
    const int32_t length =
        (min(columns.tile * columns.out_step, columns.written - w0) - low) * merged;
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
        direct_way_out my_way = {1.0f, 0.0f};
        if (mine < tasks) {
            const int32_t h = h0 + row * rows.out_step + rows.phase[row_phase];
            if ((uint32_t)h < (uint32_t)rows.written) {
                my_to = image + channel * conv.written_stride[1] + h * conv.written_stride[2];
                my_from = local * p.stage_pitch + row * columns.tile * columns.out_step + low;
                my_way = direct_way_out_of<T>(conv, at.group * conv.written_per_group + channel);
            }
        }
#pragma unroll 1
        for (int32_t i = 0, task = base; i < 32 && task < tasks; ++i, task += p.warps) {
            T *const to = (T *)__shfl_sync(0xffffffffu, (unsigned long long)my_to, i);
            const float *const line = stage + __shfl_sync(0xffffffffu, my_from, i);
            direct_way_out way = {1.0f, 0.0f};
            if (scaled) {
                way.scale = __shfl_sync(0xffffffffu, my_way.scale, i);
                way.shift = __shfl_sync(0xffffffffu, my_way.shift, i);
            }
            if (to == nullptr) {
                continue;
            }
            if (quick) {
                thin_put_line(to, length, lane,
                              [&](int32_t f) { return direct_scale(way, line[f]); });
            } else {
#pragma unroll 1
                for (int32_t f = lane; f < length; f += 32) {
                    direct_put(to + f * conv.written_stride[3], direct_finish(conv, way, line[f]),
                               conv.accumulate);
                }
            }
        }
    }
}

/* Column phases become neighbours in shared memory, where nobody reads any more. */
template <typename Tile>
static __device__ __forceinline__ void
thin_store(const uf_thin_conv &p, const direct_place &at, const float (&sum)[Tile::M][Tile::N][4],
           int32_t slice, const int32_t *stage_table, float *stage) {
    typedef typename Tile::T T;
    const int32_t lane = (int32_t)threadIdx.x & 31;
    const int32_t out = p.conv.axis[1].out_step;
    const int32_t first = slice * p.slice_pairs;
    const int32_t pairs = min(p.slice_pairs, p.pairs - first);
    const int32_t half = p.rounds == 2 ? min(p.slice_pairs / 2, pairs) : 0;
    float *const mine = stage + (thin_first_cell<Tile>() + (lane >> 2)) * out;
    stage_table += (lane & 3) * 2;
#pragma unroll
    for (int n = 0; n < Tile::N; ++n) {
        if (Tile::N > 2 && 2 * n == Tile::N && p.rounds == 2) {
            __syncthreads();
            thin_leave<T>(p, at, first, half, stage);
            __syncthreads();
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float *const to = mine + stage_table[n * 8 + i];
#pragma unroll
            for (int m = 0; m < 2 * Tile::M; ++m) {
                to[m * 8 * out] = sum[m / 2][n][(m & 1) * 2 + i];
            }
        }
    }
    __syncthreads();
    thin_leave<T>(p, at, first + half, pairs - half, stage);
}

/* One column phase of f32, nothing but scale and shift: fragments hold runs of eight pixels, whole
 * sectors. */
template <typename Tile>
static __device__ __forceinline__ void
thin_store_plain(const uf_thin_conv &p, const direct_place &at, float (&sum)[Tile::M][Tile::N][4],
                 int32_t slice) {
    typedef typename Tile::T T;
    const uf_direct_conv &conv = p.conv;
    const uf_direct_axis &rows = conv.axis[0], &columns = conv.axis[1];
    const int32_t lane = (int32_t)threadIdx.x & 31;
    const int32_t first = slice * p.slice_pairs;
    const int32_t local = (lane & 3) * 2;
    const int32_t pairs = min(p.slice_pairs, p.pairs - first) - local;
    if (conv.scale != nullptr || conv.shift != nullptr) {
#pragma unroll
        for (int i = 0; i < 2 * Tile::N; ++i) {
            const int next = i / 2 * 8 + (i & 1);
            const direct_way_out way =
                direct_way_out_of<T>(conv, at.group * conv.written_per_group + first +
                                               (next < pairs ? local + next : 0));
#pragma unroll
            for (int m = 0; m < Tile::M; ++m) {
                sum[m][i / 2][i & 1] = direct_scale(way, sum[m][i / 2][i & 1]);
                sum[m][i / 2][2 + (i & 1)] = direct_scale(way, sum[m][i / 2][2 + (i & 1)]);
            }
        }
    }
    const int64_t step = conv.written_stride[1], jump = 7 * step;
#pragma unroll
    for (int run = 0; run < 2 * Tile::M; ++run) {
        const int32_t cell = thin_first_cell<Tile>() + run * 8 + (lane >> 2);
        const int32_t row = direct_divide(p.by_tile_w, cell);
        const int32_t w = at.cell[1] + cell - row * columns.tile - columns.out_shift;
        const int32_t h = rows.out_step * (at.cell[0] + row) - rows.out_shift + rows.phase[0];
        if (cell >= p.cells || (uint32_t)h >= (uint32_t)rows.written ||
            (uint32_t)w >= (uint32_t)columns.written) {
            continue;
        }
        T *to = direct_channel<T>(conv, at, first + local) + h * conv.written_stride[2] +
                w * conv.written_stride[3];
#pragma unroll
        for (int i = 0; i < 2 * Tile::N; ++i) {
            if (i / 2 * 8 + (i & 1) < pairs) {
                *to = (T)sum[run / 2][i / 2][(run & 1) * 2 + (i & 1)];
            }
            to += i & 1 ? jump : step;
        }
    }
}

#endif
