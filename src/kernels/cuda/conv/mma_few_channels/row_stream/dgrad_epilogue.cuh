/* dgrad_epilogue.cuh - stores staged rows in whole sectors. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_ROW_STREAM_DGRAD_EPILOGUE_CUH
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_ROW_STREAM_DGRAD_EPILOGUE_CUH

#include "kernels/cuda/conv/mma_few_channels/row_stream/dgrad_load.cuh"

#if UF_HAS_WGMMA

/* Copies `bytes` bytes of elements, less than a sector. */
template <typename T>
static __device__ __forceinline__ void row_stream_copy(T *to, const T *from, int32_t bytes) {
    constexpr int MOST = UF_ROW_STREAM_DGRAD_SECTOR / (int)sizeof(T) - 1;
    T element[MOST];
#pragma unroll
    for (int i = 0; i < MOST; ++i) {
        if (i < bytes / (int32_t)sizeof(T)) {
            element[i] = from[i];
        }
    }
#pragma unroll
    for (int i = 0; i < MOST; ++i) {
        if (i < bytes / (int32_t)sizeof(T)) {
            to[i] = element[i];
        }
    }
}

template <typename T>
static __device__ __forceinline__ void row_stream_set(T *to, T value, int32_t bytes) {
#pragma unroll
    for (int i = 0; i < UF_ROW_STREAM_DGRAD_SECTOR / (int)sizeof(T) - 1; ++i) {
        if (i < bytes / (int32_t)sizeof(T)) {
            to[i] = value;
        }
    }
}

/* Fills rows without taps, h to end - 1, of a lane's channel: whole sectors without elements of a
 * row with taps, and the partial sectors at the run's ends. */
template <typename T>
static __device__ __forceinline__ void
row_stream_fill(const uf_row_stream_dgrad_conv &p, const row_stream_run &run, int32_t channel,
                int32_t h, int32_t end, float value, const char *fill) {
    char *const from = (char *)row_stream_row<T>(p.conv, run, channel, h);
    const int32_t skew = (int32_t)((uintptr_t)from & (UF_ROW_STREAM_DGRAD_SECTOR - 1));
    const int32_t until = skew + (end - h) * p.conv.axis[1].written * (int32_t)sizeof(T);
    uf_row_stream_dgrad_span span = uf_row_stream_dgrad_span_of(skew, until, false, false);
    if (h == run.begin) {
        row_stream_set((T *)from, (T)value, span.low - skew);
    }
    if (end == run.end) {
        row_stream_set((T *)(from - skew + span.high), (T)value, until - span.high);
    }
#pragma unroll 1
    for (; span.low < span.high; span.low += p.fill_bytes) {
        uf_store_bulk(from - skew + span.low, uf_shared_address(fill),
                      (uint32_t)min(span.high - span.low, p.fill_bytes));
    }
}

/* The writer warps: every other row each, one lane a channel, and the rows without taps after
 * it. */
template <typename Tile>
static __device__ __forceinline__ void
row_stream_write(const uf_row_stream_dgrad_conv &p, const row_stream_run &run, int32_t warp,
                 uf_ring &staged, int32_t &turn, uint64_t *stage_full, uint64_t *stage_empty,
                 char *shared) {
    typedef typename Tile::T T;
    const uf_direct_conv &conv = p.conv;
    const uf_direct_axis &rows = conv.axis[0];
    const int32_t lane = (int32_t)threadIdx.x & 31;
    /* One lane stores a channel's head, another its tail and the rows without taps after it. */
    const bool behind = lane >= UF_ROW_STREAM_DGRAD_CHANNELS;
    const bool mine = (lane & (UF_ROW_STREAM_DGRAD_CHANNELS - 1)) < run.channels;
    const int32_t channel = mine ? lane & (UF_ROW_STREAM_DGRAD_CHANNELS - 1) : 0;
    const float2 affine = ((const float2 *)(shared + UF_ROW_STREAM_DGRAD_BARRIER_BYTES))[channel];
    const float value = affine.y;
    const T filled = (T)value;
    const char *const fill = shared + p.fill_at + (p.fills > 1 ? channel * p.fill_bytes : 0);
    T *const carry =
        (T *)(shared + UF_ROW_STREAM_DGRAD_BARRIER_BYTES + UF_ROW_STREAM_DGRAD_EPILOGUE_BYTES) +
        channel * (UF_ROW_STREAM_DGRAD_SECTOR / (int32_t)sizeof(T));
    constexpr int32_t CARRIES = UF_ROW_STREAM_DGRAD_CARRY_BYTES / 2 / (int32_t)sizeof(T);
    bool first = true;
#pragma unroll 1
    for (int32_t cell = 0; cell < run.cells; ++cell) {
#pragma unroll 1
        for (int32_t phase = 0; phase < rows.live; ++phase) {
            const int32_t base = run.base + cell * rows.out_step;
            const int32_t h = base + rows.phase[phase];
            if ((uint32_t)h >= (uint32_t)rows.written) {
                continue;
            }
            if (first && warp == 0 && h > run.begin && mine && behind) {
                row_stream_fill<T>(p, run, channel, run.begin, h, value, fill);
            }
            first = false;
            if (turn == warp) {
                const uf_row_stream_dgrad_row epilogue =
                    uf_row_stream_dgrad_row_of(&rows, base, phase, run.begin, run.end);
                uf_barrier_wait(stage_full + staged.index, staged.parity);
                char *const line =
                    shared + p.stage_at + staged.index * p.stage_bytes + channel * p.stage_pitch;
                char *const row = (char *)row_stream_row<T>(conv, run, channel, h);
                const int32_t skew = (int32_t)((uintptr_t)row & (UF_ROW_STREAM_DGRAD_SECTOR - 1));
                const int32_t until = skew + conv.axis[1].written * (int32_t)sizeof(T);
                const uf_row_stream_dgrad_span span = uf_row_stream_dgrad_span_of(
                    skew, until, epilogue.head != UF_ROW_STREAM_DGRAD_ALONE,
                    epilogue.tail == UF_ROW_STREAM_DGRAD_FILLED);
                if (mine && !behind) {
                    if (epilogue.head == UF_ROW_STREAM_DGRAD_CARRIED) {
                        row_stream_copy((T *)line, carry + (turn & 1) * CARRIES, skew);
                    } else if (epilogue.head == UF_ROW_STREAM_DGRAD_FILLED) {
                        row_stream_set((T *)line, filled, skew);
                    } else {
                        row_stream_copy((T *)row, (const T *)(line + skew), span.low - skew);
                    }
                } else if (mine) {
                    if (epilogue.tail == UF_ROW_STREAM_DGRAD_FILLED) {
                        row_stream_set((T *)(line + until), filled, span.high - until);
                    } else {
                        row_stream_copy(epilogue.tail == UF_ROW_STREAM_DGRAD_CARRIED
                                            ? carry + (1 - (turn & 1)) * CARRIES
                                            : (T *)(row - skew + span.high),
                                        (const T *)(line + span.high), until - span.high);
                    }
                }
                uf_fence_async_shared();
                uf_ring next = staged;
                next.next(p.stages);
                uf_barrier_arrive(stage_full + next.index);
                if (mine && !behind && span.high > span.low) {
                    uf_store_bulk(row - skew + span.low, uf_shared_address(line + span.low),
                                  (uint32_t)(span.high - span.low));
                }
                uf_store_bulk_commit();
                if (mine && behind && epilogue.behind > h + 1) {
                    row_stream_fill<T>(p, run, channel, h + 1, epilogue.behind, value, fill);
                }
                uf_store_bulk_commit();
                uf_store_bulk_wait<1>();
                uf_barrier_arrive(stage_empty + staged.index);
            }
            turn = turn + 1 == UF_ROW_STREAM_DGRAD_WRITERS ? 0 : turn + 1;
            staged.next(p.stages);
        }
    }
    if (first && warp == 0 && run.end > run.begin && mine && behind) {
        row_stream_fill<T>(p, run, channel, run.begin, run.end, value, fill);
    }
    uf_store_bulk_commit();
    uf_store_bulk_wait<0>();
}

#endif

#endif
