/* conv_thin_store.cuh - the way out of conv_thin: epilogue, phases to neighbours, rows that no tap
 * reaches. */
#ifndef UF_KERNELS_CUDA_CONV_THIN_STORE_CUH
#define UF_KERNELS_CUDA_CONV_THIN_STORE_CUH

#include "kernels/cuda/conv_direct_store.cuh"
#include "kernels/cuda/conv_thin_load.cuh"

/* First cell of a warp's run of eight, from the tile's. */
static __device__ __forceinline__ void thin_run(const uf_thin_conv &p, int32_t run, int32_t &row,
                                                int32_t &column) {
    row = direct_divide(p.by_runs, run);
    column = (run - row * p.runs) * 8;
}

/* A slice of a warp's cells, element by element: where a sum is not finite. Padding and absent taps
 * are multiplied like anything else, and 0 times infinity is NaN where nothing should be. */
template <typename T>
static __device__ __noinline__ void thin_store_exact(const uf_thin_conv &p, int32_t group,
                                                     int32_t tile, int32_t slice, int32_t first_run,
                                                     int32_t runs) {
    const uf_direct_conv &conv = p.conv;
    const uf_direct_axis &rows = conv.axis[0], &columns = conv.axis[1];
    const direct_place at = thin_place_of(p, group, tile);
    const int32_t length = 8 * columns.out_step;
    const int32_t pairs = min(p.slice_pairs, p.pairs - slice * p.slice_pairs);
#pragma unroll 1
    for (int32_t i = (int32_t)threadIdx.x & 31; i < runs * pairs * length; i += 32) {
        const int32_t f = i % length;
        const int32_t local = i / length % pairs;
        int32_t row, column;
        thin_run(p, first_run + i / (length * pairs), row, column);
        const int32_t pair = slice * p.slice_pairs + local;
        const int32_t row_phase = pair / conv.written_per_group;
        const int32_t channel = pair - row_phase * conv.written_per_group;
        const int32_t h =
            rows.out_step * (at.cell[0] + row) - rows.out_shift + rows.phase[row_phase];
        const int32_t w = columns.out_step * (at.cell[1] + column) - columns.out_shift + f;
        if (row >= rows.tile || (uint32_t)h >= (uint32_t)rows.written ||
            (uint32_t)w >= (uint32_t)columns.written) {
            continue;
        }
        const bool dead =
            columns.out_step > 1 && columns.map[f % columns.out_step] == UF_DIRECT_DEAD;
        const float sum = dead ? 0.0f : direct_exact<T>(conv, at, channel, h, w);
        direct_put(
            direct_channel<T>(conv, at, channel) + h * conv.written_stride[2] +
                w * conv.written_stride[3],
            direct_finish(
                conv, direct_way_out_of<T>(conv, group * conv.written_per_group + channel), sum),
            conv.accumulate);
    }
}

/* Rows of phases without taps: the epilogue of 0, by the block, each part its own channels. */
template <typename T>
static __device__ __forceinline__ void thin_fill_rows(const uf_thin_conv &p, const direct_place &at,
                                                      int32_t part) {
    const uf_direct_conv &conv = p.conv;
    const uf_direct_axis &rows = conv.axis[0], &columns = conv.axis[1];
    const int32_t low = max(columns.out_step * at.cell[1] - columns.out_shift, 0);
    const int32_t high =
        min(columns.out_step * (at.cell[1] + columns.tile) - columns.out_shift, columns.written);
    const int32_t lane = (int32_t)threadIdx.x & 31, warp = (int32_t)threadIdx.x >> 5;
    const bool plain = conv.shift == nullptr && conv.activation == UF_ACTIVATION_IDENTITY;
    /* Rows to warps, and where there are fewer of them, channels too. */
    const int32_t first_row = warp % rows.tile;
    const int32_t sharers =
        p.warps > rows.tile ? (p.warps - first_row + rows.tile - 1) / rows.tile : 1;
    const int32_t first_channel = part + warp / rows.tile * p.parts;
    const int32_t next_channel = p.parts * sharers;
#pragma unroll 1
    for (int32_t phase = 0; phase < rows.out_step; ++phase) {
        if (rows.map[phase] != UF_DIRECT_DEAD || high <= low) {
            continue;
        }
#pragma unroll 1
        for (int32_t row = first_row; row < rows.tile; row += p.warps) {
            const int32_t h = rows.out_step * (at.cell[0] + row) - rows.out_shift + phase;
            if ((uint32_t)h >= (uint32_t)rows.written) {
                continue;
            }
            T *to = direct_channel<T>(conv, at, first_channel) + h * conv.written_stride[2] +
                    low * conv.written_stride[3];
#pragma unroll 1
            for (int32_t channel = first_channel; channel < conv.written_per_group;
                 channel += next_channel) {
                const float value =
                    plain ? 0.0f
                          : direct_finish(conv,
                                          direct_way_out_of<T>(
                                              conv, at.group * conv.written_per_group + channel),
                                          0.0f);
                direct_fill(to, high - low, conv.written_stride[3], value, lane);
                to += next_channel * conv.written_stride[1];
            }
        }
    }
}

/* One column phase, nothing but scale and shift: fragments hold runs of eight pixels, whole
 * sectors. */
template <typename Tile>
static __device__ __forceinline__ void
thin_store_plain(const uf_thin_conv &p, const direct_place &at, float (&sum)[Tile::M][Tile::N][4],
                 int32_t slice, int32_t first_run) {
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
        int32_t row, column;
        thin_run(p, first_run + run, row, column);
        const int32_t w = at.cell[1] + column + lane / 4 - columns.out_shift;
        const int32_t h = rows.out_step * (at.cell[0] + row) - rows.out_shift + rows.phase[0];
        if (row >= rows.tile || (uint32_t)h >= (uint32_t)rows.written ||
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

/* Column phases become neighbours in the warp's part of shared memory, sixteen cells at a time. */
template <typename Tile>
static __device__ __forceinline__ void
thin_store_staged(const uf_thin_conv &p, const direct_place &at, float (&sum)[Tile::M][Tile::N][4],
                  int32_t slice, int32_t first_run, const int32_t *stage_table, float *stage) {
    typedef typename Tile::T T;
    const uf_direct_conv &conv = p.conv;
    const uf_direct_axis &rows = conv.axis[0], &columns = conv.axis[1];
    const int32_t lane = (int32_t)threadIdx.x & 31;
    const int32_t out = columns.out_step;
    const int32_t pitch = 16 * p.together * out + 1;
    const int32_t pairs = min(p.slice_pairs, p.pairs - slice * p.slice_pairs);
    const int32_t length = p.segment * out;
    const bool quick = conv.activation == UF_ACTIVATION_IDENTITY && !conv.accumulate &&
                       conv.written_stride[3] == 1;
    const bool scaled = conv.scale != nullptr || conv.shift != nullptr;
    const int32_t first_pair = slice * p.slice_pairs;
    const int32_t first_phase = direct_divide(p.by_written, first_pair);
    const int32_t first_channel = first_pair - first_phase * conv.written_per_group;
    stage_table += (lane & 3) * 2;
#pragma unroll
    for (int m = 0; m < Tile::M; ++m) {
        const bool second = p.together == 2 && (m & 1) == 1;
        if (!second) {
            __syncwarp();
        }
        float *const mine = stage + ((second ? 16 : 0) + (lane >> 2)) * out;
        float *const next = mine + 8 * out;
#pragma unroll
        for (int i = 0; i < 2 * Tile::N; ++i) {
            const int32_t place = stage_table[i / 2 * 8 + (i & 1)];
            mine[place] = sum[m][i / 2][i & 1];
            next[place] = sum[m][i / 2][2 + (i & 1)];
        }
        if (p.together == 2 && !second) {
            continue;
        }
        __syncwarp();
#pragma unroll 1
        for (int32_t part = 0; part < 16 * p.together; part += p.segment) {
            int32_t row, column;
            thin_run(p, first_run + 2 * (second ? m - 1 : m) + part / 8, row, column);
            if (row >= rows.tile) {
                continue;
            }
            const int32_t h0 = rows.out_step * (at.cell[0] + row) - rows.out_shift;
            const int32_t w0 = out * (at.cell[1] + column) - columns.out_shift;
            const int32_t low = max(-w0, 0) + lane;
            const int32_t high = min(length, columns.written - w0);
            const float *line = stage + part * out + low;
            T *const image = direct_channel<T>(conv, at, 0) + (w0 + low) * conv.written_stride[3];
            int32_t row_phase = first_phase, channel = first_channel, left = pairs;
            while (left > 0) {
                const int32_t h = h0 + rows.phase[row_phase++];
                const int32_t some = min(left, conv.written_per_group - channel);
                T *to = image + channel * conv.written_stride[1] + h * conv.written_stride[2];
                left -= some;
                if ((uint32_t)h >= (uint32_t)rows.written) {
                    line += some * pitch;
                } else if (quick && !scaled) {
                    const int32_t count = high - low;
#pragma unroll 2
                    for (int32_t pair = 0; pair < some; ++pair) {
                        if (count > 0) {
                            to[0] = (T)line[0];
                        }
                        if (count > 32) {
                            to[32] = (T)line[32];
                        }
                        if (count > 64) {
                            to[64] = (T)line[64];
                        }
#pragma unroll 1
                        for (int32_t f = 96; f < count; f += 32) {
                            to[f] = (T)line[f];
                        }
                        line += pitch;
                        to += conv.written_stride[1];
                    }
                } else {
#pragma unroll 1
                    for (int32_t pair = 0; pair < some; ++pair) {
                        const direct_way_out way = direct_way_out_of<T>(
                            conv, at.group * conv.written_per_group + channel + pair);
#pragma unroll 1
                        for (int32_t f = 0; f < high - low; f += 32) {
                            direct_put(to + f * conv.written_stride[3],
                                       direct_finish(conv, way, line[f]), conv.accumulate);
                        }
                        line += pitch;
                        to += conv.written_stride[1];
                    }
                }
                channel = 0;
            }
        }
    }
}

#endif
