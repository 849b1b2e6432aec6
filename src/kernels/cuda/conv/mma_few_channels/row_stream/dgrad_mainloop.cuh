/* dgrad_mainloop.cuh - the kernel of row_stream/dgrad_launch.cu and its MMA warps. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_ROW_STREAM_DGRAD_MAINLOOP_CUH
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_ROW_STREAM_DGRAD_MAINLOOP_CUH

#include "kernels/cuda/conv/mma_few_channels/row_stream/dgrad_load.cuh"
#include "kernels/cuda/conv/mma_few_channels/row_stream/dgrad_epilogue.cuh"

#if UF_HAS_WGMMA

/* Adds a tile's MMAs: for each k-step and each phase that has taps there. */
template <typename Tile>
static __device__ __forceinline__ void
row_stream_multiply(const uf_row_stream_dgrad_conv &p, float (&sum)[Tile::L][Tile::N][4],
                    int32_t row_phase, int32_t low, uint32_t lines, const uint32_t *weights) {
    const int32_t lane = (int32_t)threadIdx.x & 31;
    weights += p.fragment_begin[row_phase] * (128 * Tile::PARTS) + lane * 4;
    /* An ldmatrix loads a step's two units and their small parts, or those of the next 8 cells. */
    const bool second = (lane & 8) != 0;
    if (Tile::PARTS == 2) {
        lines += (uint32_t)((lane & 7) * 16 + (lane & 16 ? p.small : 0));
    } else {
        lines += (uint32_t)((lane & 7) * 16 + (lane & 16 ? 128 : 0));
    }
#pragma unroll 1
    for (int32_t s = p.step_begin[row_phase]; s < p.step_begin[row_phase + 1]; ++s) {
        const uf_row_stream_dgrad_step &step = p.step[s];
        int32_t line = low + step.row;
        line -= line >= p.ring ? p.ring : 0;
        const uint32_t from =
            lines + (uint32_t)(line * p.line_bytes + (second ? step.coord[1] : step.coord[0]));
        uint32_t by[Tile::N][2 * Tile::PARTS];
#pragma unroll
        for (int n = 0; n < Tile::N; n += 3 - Tile::PARTS) {
            uint32_t four[4];
            uf_load_matrices(four, from + (uint32_t)(n * 128));
            by[n][0] = four[0];
            by[n][1] = four[1];
            if (Tile::PARTS == 2) {
                by[n][2 * Tile::PARTS - 2] = four[2];
                by[n][2 * Tile::PARTS - 1] = four[3];
            } else {
                by[n + 2 - Tile::PARTS][0] = four[2];
                by[n + 2 - Tile::PARTS][1] = four[3];
            }
        }
        const uint32_t mask = step.mask;
#pragma unroll
        for (int l = 0; l < Tile::L; ++l) {
            if ((mask >> l & 1) == 0) {
                continue;
            }
            const uint4 words = *(const uint4 *)weights;
            const uint32_t big[4] = {words.x, words.y, words.z, words.w};
            if (Tile::PARTS == 2) {
                const uint4 rest = *(const uint4 *)(weights + 128);
                const uint32_t small[4] = {rest.x, rest.y, rest.z, rest.w};
                /* The tensor core truncates its accumulator: each step is summed alone. */
                float part[Tile::N][4] = {};
#pragma unroll
                for (int n = 0; n < Tile::N; ++n) {
                    uf_mma_tf32(part[n], small, by[n]);
                }
#pragma unroll
                for (int n = 0; n < Tile::N; ++n) {
                    uf_mma_tf32(part[n], big, by[n] + 2 * Tile::PARTS - 2);
                }
#pragma unroll
                for (int n = 0; n < Tile::N; ++n) {
                    uf_mma_tf32(part[n], big, by[n]);
                }
#pragma unroll
                for (int n = 0; n < Tile::N; ++n) {
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        sum[l][n][i] += part[n][i];
                    }
                }
            } else {
#pragma unroll
                for (int n = 0; n < Tile::N; ++n) {
                    if (Tile::MATH == UF_MMA_BF16) {
                        uf_mma_bf16(sum[l][n], big, by[n]);
                    } else {
                        uf_mma_tf32(sum[l][n], big, by[n]);
                    }
                }
            }
            weights += 128 * Tile::PARTS;
        }
    }
}

/* The exact fix-up of a tile of a row. MMAs multiply padding and absent taps too, and 0 times
 * infinity is NaN. */
template <typename Tile>
static __device__ __noinline__ void
row_stream_stage_exact(const uf_row_stream_dgrad_conv &p, const row_stream_run &run, int32_t h,
                       int32_t cell, const float2 *scale_shift, char *stage) {
    typedef typename Tile::T T;
    const uf_direct_conv &conv = p.conv;
    const uf_direct_axis &columns = conv.axis[1];
    direct_coord at = {};
    at.n = run.n;
    at.group = run.group;
#pragma unroll 1
    for (int32_t i = (int32_t)threadIdx.x & 31; i < run.channels * Tile::CELLS * Tile::L; i += 32) {
        const int32_t l = i % Tile::L, rest = i / Tile::L;
        const int32_t channel = rest / Tile::CELLS;
        const int32_t w =
            columns.out_step * (cell + rest % Tile::CELLS) - columns.out_shift + columns.phase[l];
        if ((uint32_t)w >= (uint32_t)columns.written) {
            continue;
        }
        const float2 epilogue = scale_shift[channel];
        const direct_epilogue out = {epilogue.x, epilogue.y};
        T *const to = (T *)(stage + channel * p.stage_pitch +
                            ((uintptr_t)row_stream_row<T>(conv, run, channel, h) &
                             (UF_ROW_STREAM_DGRAD_SECTOR - 1)));
        to[w] = (T)direct_scale(out, direct_exact<T>(conv, at, run.first + channel, h, w));
    }
}

/* Stages a lane's cells: two neighbours of each of two channels. EDGE: some are outside the image
 * or beyond the last channel. */
template <typename Tile, bool EDGE>
static __device__ __forceinline__ void
row_stream_stage(const uf_row_stream_dgrad_conv &p, const float (&sum)[Tile::L][Tile::N][4],
                 int32_t w, char *const (&to)[2], const bool (&there)[2],
                 const direct_epilogue (&epilogue)[2]) {
    typedef typename Tile::T T;
    const uf_direct_axis &columns = p.conv.axis[1];
    const int32_t step = columns.out_step;
#pragma unroll
    for (int l = 0; l < Tile::L; ++l) {
        const int32_t at = w + columns.phase[l];
#pragma unroll
        for (int n = 0; n < Tile::N; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int32_t mine = at + (n * 8 + (i & 1)) * step;
                if (!EDGE || ((uint32_t)mine < (uint32_t)columns.written && there[i >> 1])) {
                    ((T *)to[i >> 1])[mine] = (T)sum[l][n][i];
                }
            }
        }
    }
    if (Tile::L == step) {
        return;
    }
    const T zero[2] = {(T)direct_scale(epilogue[0], 0.0f), (T)direct_scale(epilogue[1], 0.0f)};
#pragma unroll 1
    for (int32_t phase = 0; phase < step; ++phase) {
        if (columns.map[phase] != UF_DIRECT_DEAD) {
            continue;
        }
#pragma unroll
        for (int n = 0; n < Tile::N; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int32_t mine = w + phase + (n * 8 + (i & 1)) * step;
                if (!EDGE || ((uint32_t)mine < (uint32_t)columns.written && there[i >> 1])) {
                    ((T *)to[i >> 1])[mine] = zero[i >> 1];
                }
            }
        }
    }
}

/* The MMA warps: tiles of all rows of the run, in turn. */
template <typename Tile>
static __device__ __forceinline__ void
row_stream_mmas(const uf_row_stream_dgrad_conv &p, const row_stream_run &run, int32_t warp,
                uf_ring &low, uf_ring &newest, uf_ring &staged, int32_t &turn, uint64_t *line_full,
                uint64_t *line_empty, uint64_t *stage_full, uint64_t *stage_empty, char *shared) {
    typedef typename Tile::T T;
    const uf_direct_conv &conv = p.conv;
    const uf_direct_axis &rows = conv.axis[0], &columns = conv.axis[1];
    const int32_t lane = (int32_t)threadIdx.x & 31;
    const float2 *const scale_shift = (const float2 *)(shared + UF_ROW_STREAM_DGRAD_BARRIER_BYTES);
    const uint32_t lines = uf_shared_address(shared + p.ring_at);
    const uint32_t *const weights = (const uint32_t *)(shared + p.weight_at);
    const bool scaled = conv.scale != nullptr || conv.shift != nullptr;
    direct_epilogue epilogue[2];
    bool there[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int32_t channel = (lane >> 2) + 8 * i;
        there[i] = channel < run.channels;
        epilogue[i].scale = scale_shift[channel].x;
        epilogue[i].shift = scale_shift[channel].y;
    }
#pragma unroll 1
    for (int32_t k = 0; k < p.lines - 1; ++k) {
        uf_barrier_wait(line_full + newest.index, newest.parity);
        newest.next(p.ring);
    }
#pragma unroll 1
    for (int32_t cell = 0; cell < run.cells; ++cell) {
        uf_barrier_wait(line_full + newest.index, newest.parity);
        newest.next(p.ring);
#pragma unroll 1
        for (int32_t phase = 0; phase < rows.live; ++phase) {
            const int32_t h = run.base + cell * rows.out_step + rows.phase[phase];
            if ((uint32_t)h >= (uint32_t)rows.written) {
                continue;
            }
            if (turn < p.tiles) {
                uf_barrier_wait(stage_empty + staged.index, staged.parity ^ 1);
            }
            char *const stage = shared + p.stage_at + staged.index * p.stage_bytes;
#pragma unroll 1
            for (; turn < p.tiles; turn += p.mmas) {
                const int32_t first = turn * Tile::CELLS;
                float sum[Tile::L][Tile::N][4] = {};
                row_stream_multiply<Tile>(p, sum, phase, low.index, lines + (uint32_t)first * 16,
                                          weights);
                float probe = 0.0f;
#pragma unroll
                for (int l = 0; l < Tile::L; ++l) {
#pragma unroll
                    for (int n = 0; n < Tile::N; ++n) {
#pragma unroll
                        for (int i = 0; i < 4; ++i) {
                            probe = fmaf(sum[l][n][i], 0.0f, probe);
                            if (scaled) {
                                sum[l][n][i] = direct_scale(epilogue[i >> 1], sum[l][n][i]);
                            }
                        }
                    }
                }
                char *to[2];
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const int32_t channel = (lane >> 2) + 8 * i;
                    to[i] = stage + channel * p.stage_pitch +
                            ((uint32_t)(uintptr_t)row_stream_row<T>(conv, run, channel, h) &
                             (UF_ROW_STREAM_DGRAD_SECTOR - 1));
                }
                const int32_t w0 =
                    columns.out_step * (columns.cell_first + first) - columns.out_shift;
                const int32_t w = w0 + (lane & 3) * 2 * columns.out_step;
                const bool inside = w0 >= 0 && run.channels == UF_ROW_STREAM_DGRAD_CHANNELS &&
                                    w0 + Tile::CELLS * columns.out_step <= columns.written;
                if (inside) {
                    row_stream_stage<Tile, false>(p, sum, w, to, there, epilogue);
                } else {
                    row_stream_stage<Tile, true>(p, sum, w, to, there, epilogue);
                }
                if (!__all_sync(0xffffffffu, probe == 0.0f)) {
                    row_stream_stage_exact<Tile>(p, run, h, columns.cell_first + first, scale_shift,
                                                 stage);
                }
                uf_fence_async_shared();
                uf_barrier_arrive(stage_full + staged.index);
            }
            turn -= p.tiles;
            staged.next(p.stages);
        }
        uf_barrier_arrive(line_empty + low.index);
        low.next(p.ring);
    }
#pragma unroll 1
    for (int32_t k = 0; k < p.lines - 1; ++k) {
        uf_barrier_arrive(line_empty + low.index);
        low.next(p.ring);
    }
}

#endif

template <typename Tile>
static __global__ void __launch_bounds__(32 * UF_ROW_STREAM_DGRAD_WARPS, 1)
    conv_row_stream_dgrad(const __grid_constant__ uf_row_stream_dgrad_conv p) {
#if UF_HAS_WGMMA
    typedef typename Tile::T T;
    extern __shared__ __align__(128) char row_stream_shared[];
    char *const shared = row_stream_shared;
    const uf_direct_conv &conv = p.conv;
    uint64_t *const line_full = (uint64_t *)shared, *const line_empty = line_full + p.ring;
    uint64_t *const stage_full = line_empty + p.ring, *const stage_empty = stage_full + p.stages;
    float2 *const scale_shift = (float2 *)(shared + UF_ROW_STREAM_DGRAD_BARRIER_BYTES);
    uint8_t *const fragments =
        (uint8_t *)(shared + UF_ROW_STREAM_DGRAD_FIXED - UF_ROW_STREAM_DGRAD_FRAGMENT_BYTES);
    const int32_t warp = __shfl_sync(0xffffffffu, (int32_t)threadIdx.x >> 5, 0);

    const int32_t steps = p.step_begin[conv.axis[0].live];
#pragma unroll 1
    for (int32_t s = (int32_t)threadIdx.x; s < steps; s += (int32_t)blockDim.x) {
        int32_t at = 0;
        for (int32_t i = 0; i < s; ++i) {
            at += __popc(p.step[i].mask);
        }
        for (int32_t l = 0; l < Tile::L; ++l) {
            if (p.step[s].mask >> l & 1) {
                fragments[2 * at] = (uint8_t)s;
                fragments[2 * at + 1] = (uint8_t)l;
                ++at;
            }
        }
    }
    /* Every lane arrives for its own accesses. One arrival per warp would do, but racecheck does
     * not see it. */
    if (threadIdx.x == 0) {
        for (int32_t i = 0; i < p.ring; ++i) {
            uf_barrier_init(line_full + i, 32);
            uf_barrier_init(line_empty + i, (uint32_t)p.mmas * 32);
        }
        for (int32_t i = 0; i < p.stages; ++i) {
            /* Arrivals: the row's tiles, and the writer of the row before. */
            uf_barrier_init(stage_full + i, ((uint32_t)p.tiles + 1) * 32);
            uf_barrier_init(stage_empty + i, 32);
        }
        uf_barrier_init_fence();
        uf_barrier_arrive(stage_full, 32);
    }
    uint4 *const ring = (uint4 *)(shared + p.ring_at);
#pragma unroll 1
    for (int32_t i = (int32_t)threadIdx.x; i < p.ring * p.line_bytes / 16;
         i += (int32_t)blockDim.x) {
        ring[i] = make_uint4(0u, 0u, 0u, 0u);
    }
    uf_ring newest = {0, 0}, low = {0, 0}, staged = {0, 0};
    int32_t turn = warp < UF_ROW_STREAM_DGRAD_MMAS ? warp : 0;
    const int64_t all = (int64_t)p.families * conv.axis[0].cells;
    const int32_t until = (int32_t)(((int64_t)blockIdx.x + 1) * all / gridDim.x);
    uf_overlap_launches();
#pragma unroll 1
    for (int32_t at = (int32_t)((int64_t)blockIdx.x * all / gridDim.x); at < until;) {
        const row_stream_run run = row_stream_run_of(p, at, until);
        at += run.cells;
        __syncthreads();
        if ((int32_t)threadIdx.x < UF_ROW_STREAM_DGRAD_CHANNELS) {
            direct_epilogue epilogue = {1.0f, 0.0f};
            if ((int32_t)threadIdx.x < run.channels) {
                epilogue = direct_epilogue_of<T>(conv, run.group * conv.written_per_group +
                                                           run.first + (int32_t)threadIdx.x);
            }
            scale_shift[threadIdx.x] = make_float2(epilogue.scale, epilogue.shift);
        }
        row_stream_load_weights<Tile>(p, run, fragments, (uint32_t *)(shared + p.weight_at));
        __syncthreads();
        T *const fill = (T *)(shared + p.fill_at);
        const int32_t length = p.fill_bytes / (int32_t)sizeof(T);
#pragma unroll 1
        for (int32_t i = (int32_t)threadIdx.x; i < p.fills * length; i += (int32_t)blockDim.x) {
            fill[i] = (T)(p.fills > 1 ? scale_shift[i / length].y : scale_shift[0].y);
        }
        uf_fence_async_shared();
        __syncthreads();
        if (warp < p.mmas) {
            row_stream_mmas<Tile>(p, run, warp, low, newest, staged, turn, line_full, line_empty,
                                  stage_full, stage_empty, shared);
        } else if (warp < UF_ROW_STREAM_DGRAD_MMAS) {
            continue;
        } else if (warp < UF_ROW_STREAM_DGRAD_MMAS + UF_ROW_STREAM_DGRAD_PRODUCERS) {
            const int32_t producer = warp - UF_ROW_STREAM_DGRAD_MMAS;
            if (p.vector) {
                row_stream_load<Tile, 4>(p, run, producer, turn, newest, line_full, line_empty,
                                         shared + p.ring_at);
            } else {
                row_stream_load<Tile, 1>(p, run, producer, turn, newest, line_full, line_empty,
                                         shared + p.ring_at);
            }
        } else {
            row_stream_write<Tile>(p, run,
                                   warp - UF_ROW_STREAM_DGRAD_MMAS - UF_ROW_STREAM_DGRAD_PRODUCERS,
                                   staged, turn, stage_full, stage_empty, shared);
        }
    }
#endif
}

#endif
