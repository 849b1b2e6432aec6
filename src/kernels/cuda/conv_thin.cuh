/* conv_thin.cuh - the kernel of conv_thin.cu. */
#ifndef UF_KERNELS_CUDA_CONV_THIN_CUH
#define UF_KERNELS_CUDA_CONV_THIN_CUH

#include "kernels/cuda/conv_thin_store.cuh"

/* The products of a chunk with a slice's weights. */
template <typename Tile>
static __device__ __forceinline__ void
thin_multiply(float (&sum)[Tile::M][Tile::N][4], const typename Tile::T *const (&cell)[2 * Tile::M],
              const int32_t *table, const float *weights, int32_t steps) {
    const int32_t lane = (int32_t)threadIdx.x & 31;
    table += lane & 3;
    weights += lane * 2 * Tile::PARTS;
#pragma unroll 1
    for (int32_t step = 0; step < steps; ++step) {
        const int32_t place0 = table[0], place1 = table[4];
        table += 8;
        uint32_t big[Tile::M][4], small[Tile::PARTS == 2 ? Tile::M : 1][4];
#pragma unroll
        for (int m = 0; m < Tile::M; ++m) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float value = thin_get(cell[2 * m + (i & 1)] + (i < 2 ? place0 : place1));
                if (Tile::PARTS == 2) {
                    mma_halves_by_bits(value, &big[m][i], &small[Tile::PARTS == 2 ? m : 0][i]);
                } else {
                    big[m][i] = thin_round<Tile>(value);
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
                    /* The tensor core truncates what it adds to: each step is summed alone. */
                    float part[4] = {};
                    uf_mma_tf32(part, small[Tile::PARTS == 2 ? m : 0], by_big);
                    uf_mma_tf32(part, big[m], by_small);
                    uf_mma_tf32(part, big[m], by_big);
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        sum[m][n][i] += part[i];
                    }
                } else {
                    uf_mma_tf32(sum[m][n], big[m], by_big);
                }
            }
        }
        weights += Tile::N * 64 * Tile::PARTS;
    }
}

template <typename Tile>
static __global__ void __launch_bounds__(UF_THIN_WARPS * 32, 2)
    conv_thin(const __grid_constant__ uf_thin_conv p) {
    typedef typename Tile::T T;
    extern __shared__ __align__(16) float thin_shared[];
    const uf_direct_conv &conv = p.conv;
    T *const windows = (T *)thin_shared;
    float *const weights = thin_shared + 2 * p.window_words;
    int32_t *const table = (int32_t *)(weights + p.weight_words);
    const int32_t lane = (int32_t)threadIdx.x & 31, warp = (int32_t)threadIdx.x >> 5;
    thin_line *const lines = (thin_line *)(table + p.table_words);
    int32_t *const stage_table = (int32_t *)(lines + p.lines);
    uint32_t *const columns = (uint32_t *)(stage_table + Tile::N * 8);
    float *const stage = (float *)(columns + Tile::N * 8) + warp * p.stage_words;

    const int32_t families = conv.groups * p.parts;
    const int32_t family = (int32_t)blockIdx.x % families;
    const int32_t group = family / p.parts;
    const int32_t part = family - group * p.parts;
    const int32_t step = (int32_t)gridDim.x / families;
    int32_t tile = (int32_t)blockIdx.x / families;
    const int32_t first_slice = part * p.part_slices;
    const int32_t slices = min(p.part_slices, p.slices - first_slice);

    thin_make_lines(p, lines);
    if ((int32_t)threadIdx.x <
        Tile::N * 8) { /* columns of a slice: pair and phase, and where they are staged */
        const int32_t live = conv.axis[1].live;
        const int32_t pair = min((int32_t)threadIdx.x / live, p.slice_pairs);
        const int32_t phase = (int32_t)threadIdx.x % live;
        columns[threadIdx.x] = (uint32_t)pair << 8 | (uint32_t)phase;
        stage_table[threadIdx.x] =
            pair * (16 * p.together * conv.axis[1].out_step + 1) + conv.axis[1].phase[phase];
    }
    __syncthreads();
    if (tile < p.tiles) {
        thin_load<T>(p, thin_place_of(p, group, tile), 0, lines, windows);
    }
    uf_copy_async_commit();
    for (int32_t i = (int32_t)threadIdx.x; i < p.steps * 8; i += (int32_t)blockDim.x) {
        /* Beyond the depth weights are zeros, and any place will do. */
        const thin_deep at = thin_deep_of(p, i < p.depth ? i : 0);
        table[i] = at.c * conv.channel_words + p.row_place[at.row] + p.column_place[at.column];
    }
    thin_load_weights<Tile>(p, group, part, columns, weights);
    for (int32_t i = lane; i < p.stage_words; i += 32) {
        stage[i] = 0.0f; /* phases without taps stay so */
    }

    int32_t place[2 * Tile::M];
    const int32_t first_run = warp * 2 * Tile::M;
#pragma unroll
    for (int run = 0; run < 2 * Tile::M; ++run) {
        int32_t row, column;
        thin_run(p, first_run + run, row, column);
        /* Runs beyond the tile compute something that nobody stores. */
        place[run] = row < conv.axis[0].tile
                         ? row * conv.pitch + (column + lane / 4) * conv.axis[1].in_step
                         : 0;
    }

    const bool fill = conv.axis[0].live < conv.axis[0].out_step && !conv.accumulate;
    int buffer = 0;
    for (; tile < p.tiles; tile += step) {
        /* A window serves all slices, or, in chunks, one. */
#pragma unroll 1
        for (int32_t slice = 0; slice < slices; ++slice) {
            float sum[Tile::M][Tile::N][4] = {};
#pragma unroll 1
            for (int32_t chunk = 0; chunk < conv.chunks; ++chunk) {
                const bool again = conv.chunks > 1 || slice == 0;
                if (again) {
                    uf_copy_async_wait<0>();
                    __syncthreads();
                    const bool next_chunk = chunk + 1 < conv.chunks;
                    const bool next_slice = conv.chunks > 1 && slice + 1 < slices;
                    const int32_t next = next_chunk || next_slice ? tile : tile + step;
                    if (next < p.tiles) {
                        thin_load<T>(p, thin_place_of(p, group, next),
                                     next_chunk ? (chunk + 1) * conv.chunk : 0, lines,
                                     windows + (buffer ^ 1) * p.window_elements);
                    }
                    uf_copy_async_commit();
                    if (fill && slice == 0 && chunk == 0) {
                        thin_fill_rows<T>(p, thin_place_of(p, group, tile), part);
                    }
                }
                const T *cell[2 * Tile::M];
#pragma unroll
                for (int run = 0; run < 2 * Tile::M; ++run) {
                    cell[run] = windows + buffer * p.window_elements + place[run];
                }
                thin_multiply<Tile>(sum, cell, table,
                                    weights + (slice * conv.chunks + chunk) * p.steps * Tile::N *
                                                  64 * Tile::PARTS,
                                    p.steps);
                if (conv.chunks > 1 || slice + 1 == slices) {
                    buffer ^= 1;
                }
            }
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
            const direct_place at = thin_place_of(p, group, tile);
            if (!__all_sync(0xffffffffu, probe == 0.0f)) {
                thin_store_exact<T>(p, group, tile, first_slice + slice, first_run, 2 * Tile::M);
            } else if (p.plain) {
                thin_store_plain<Tile>(p, at, sum, first_slice + slice, first_run);
            } else {
                thin_store_staged<Tile>(p, at, sum, first_slice + slice, first_run, stage_table,
                                        stage);
            }
        }
    }
}

#endif
