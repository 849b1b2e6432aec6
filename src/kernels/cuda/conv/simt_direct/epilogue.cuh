/* epilogue.cuh - the epilogue of conv_direct: scale, shift and activation; phases become
 * neighbours; rows that no tap reaches. */
#ifndef UF_KERNELS_CUDA_CONV_SIMT_DIRECT_EPILOGUE_CUH
#define UF_KERNELS_CUDA_CONV_SIMT_DIRECT_EPILOGUE_CUH

#include "kernels/cuda/elementwise/activation.cuh"
#include "kernels/cuda/conv/simt_direct/load.cuh"

template <typename T>
static __device__ __forceinline__ void direct_write_element(T *to, float value, bool accumulate) {
    *to = (T)(accumulate ? (float)*to + value : value);
}

struct direct_epilogue {
    float scale, shift;
};

template <typename T>
static __device__ __forceinline__ direct_epilogue direct_epilogue_of(const uf_direct_conv &p,
                                                                     int32_t channel) {
    direct_epilogue epilogue;
    epilogue.scale =
        p.scale != nullptr ? direct_get((const T *)p.scale + channel * p.scale_stride) : 1.0f;
    epilogue.shift =
        p.shift != nullptr ? direct_get((const T *)p.shift + channel * p.shift_stride) : 0.0f;
    return epilogue;
}

/* The same as {scale, shift}, for kernels that start while the one before them runs. The compiler
 * keeps ordinary loads behind the wait for that one; it may move __ldg before it. */
template <typename T>
static __device__ __forceinline__ float2 direct_epilogue_behind_wait(const uf_direct_conv &p,
                                                                     int32_t channel) {
    float2 epilogue = make_float2(1.0f, 0.0f);
    if (p.scale != nullptr) {
        epilogue.x = (float)((const T *)p.scale)[channel * p.scale_stride];
    }
    if (p.shift != nullptr) {
        epilogue.y = (float)((const T *)p.shift)[channel * p.shift_stride];
    }
    return epilogue;
}

static __device__ __forceinline__ float direct_scale(const direct_epilogue &epilogue, float value) {
    return fmaf(value, epilogue.scale, epilogue.shift);
}

/* Never inside an unrolled loop: copies of every activation would not fit the instruction cache. */
static __device__ __forceinline__ float
direct_finish(const uf_direct_conv &p, const direct_epilogue &epilogue, float value) {
    value = direct_scale(epilogue, value);
    return p.activation == UF_ACTIVATION_IDENTITY ? value
                                                  : uf_activate(p.activation, value, p.parameter);
}

template <typename T>
static __device__ __forceinline__ T *direct_channel(const uf_direct_conv &p, const direct_coord &at,
                                                    int32_t channel) {
    return (T *)p.written + at.n * p.written_stride[0] +
           (at.group * p.written_per_group + channel) * p.written_stride[1];
}

/* `count` neighbours become `value`; 16 bytes at a time where they are side by side. */
template <typename T>
static __device__ __forceinline__ void direct_fill(T *to, int32_t count, int64_t stride,
                                                   float value, int lane) {
    constexpr int32_t VECTOR = 16 / sizeof(T);
    const T stored = (T)value;
    int32_t first = 0;
    if (stride == 1) {
        const int32_t head =
            min((int32_t)(-(intptr_t)to / (int32_t)sizeof(T) & (VECTOR - 1)), count);
        const int32_t body = (count - head) / VECTOR;
        uint32_t word = 0;
        memcpy(&word, &stored, sizeof stored);
        if (sizeof(T) == 2) {
            word |= word << 16;
        }
        uint4 *const vectors = (uint4 *)(to + head);
#pragma unroll 1
        for (int32_t i = lane; i < body; i += 32) {
            vectors[i] = make_uint4(word, word, word, word);
        }
        if (lane < head) {
            to[lane] = stored;
        }
        first = head + body * VECTOR;
    }
#pragma unroll 1
    for (int32_t i = first + lane; i < count; i += 32) {
        to[i * stride] = stored;
    }
}

/* Rows of a phase that no tap reaches: each warp its own channels. */
template <typename Tile>
static __device__ void direct_fill_rows(const uf_direct_conv &p, const direct_coord &at,
                                        int32_t first_channel, int32_t turn, int32_t turns) {
    typedef typename Tile::T T;
    const uf_direct_axis &rows = p.axis[0], &columns = p.axis[1];
    if (p.accumulate || rows.live == rows.out_step) {
        return;
    }
    const int lane = (int)threadIdx.x & 31;
    const int32_t low = max(columns.out_step * at.cell[1] - columns.out_shift, 0);
    const int32_t high =
        min(columns.out_step * (at.cell[1] + columns.tile) - columns.out_shift, columns.written);
    const int32_t h0 = rows.out_step * at.cell[0] - rows.out_shift;
#pragma unroll 1
    for (int k = 0; k < Tile::C && first_channel + k < p.written_per_group; ++k) {
        const int32_t channel = at.group * p.written_per_group + first_channel + k;
        const float value = direct_finish(p, direct_epilogue_of<T>(p, channel), 0.0f);
        T *const to = direct_channel<T>(p, at, first_channel + k) + low * p.written_stride[3];
#pragma unroll 1
        for (int32_t row = turn; row < rows.tile; row += turns) {
#pragma unroll 1
            for (int32_t phase = 0; phase < rows.out_step; ++phase) {
                const int32_t h = h0 + row * rows.out_step + phase;
                if (rows.map[phase] == UF_DIRECT_DEAD && (uint32_t)h < (uint32_t)rows.written) {
                    direct_fill(to + h * p.written_stride[2], high - low, p.written_stride[3],
                                value, lane);
                }
            }
        }
    }
}

/* The results of channels [k0, k0 + TOGETHER) of a pass, cell by cell with all phases. `next`:
 * floats from channel to channel. */
template <typename Tile>
static __device__ __forceinline__ void
direct_stage_phases(const uf_direct_conv &p, const float (&sum)[Tile::L][Tile::C][Tile::P], int k0,
                    int32_t pass, float *stage, int lane, int32_t step, int32_t next) {
    const uf_direct_axis &columns = p.axis[1];
#pragma unroll
    for (int k = 0; k < Tile::TOGETHER; ++k) {
        float *const to = stage + k * next + lane * step;
        if (Tile::L == 2 && step == 2) {
#pragma unroll
            for (int i = 0; i < Tile::P; ++i) {
                *(float2 *)(to + 64 * i) =
                    make_float2(sum[0][k0 + k][i], sum[Tile::L - 1][k0 + k][i]);
            }
        } else if (Tile::L == 4 && step == 4) {
#pragma unroll
            for (int i = 0; i < Tile::P; ++i) {
                *(float4 *)(to + 128 * i) =
                    make_float4(sum[0][k0 + k][i], sum[Tile::L / 4][k0 + k][i],
                                sum[Tile::L / 2][k0 + k][i], sum[Tile::L - 1][k0 + k][i]);
            }
        } else {
#pragma unroll
            for (int l = 0; l < Tile::L; ++l) {
                if (pass * Tile::L + l < columns.live) {
                    float *const phase = to + columns.phase[pass * Tile::L + l];
#pragma unroll
                    for (int i = 0; i < Tile::P; ++i) {
                        phase[32 * i * step] = sum[l][k0 + k][i];
                    }
                }
            }
        }
    }
}

/* A warp's results, whose phases lie in registers of their own, become neighbours in shared memory
 * and are stored by the row. */
template <typename Tile>
static __device__ __forceinline__ void
direct_store_phases(const uf_direct_conv &p, const direct_coord &at,
                    float (&sum)[Tile::L][Tile::C][Tile::P], int32_t first_cell, int32_t row_phase,
                    int32_t pass, int32_t first_channel, float *stage) {
    typedef typename Tile::T T;
    const uf_direct_axis &rows = p.axis[0], &columns = p.axis[1];
    const int lane = (int)threadIdx.x & 31;
    const int32_t step = columns.out_step;
    const int32_t h0 = rows.out_step * at.cell[0] - rows.out_shift + row_phase;
    const int32_t w0 = step * at.cell[1] - columns.out_shift;
    const int32_t first_row = direct_divide(p.by_pitch, first_cell);
    const int32_t next = Tile::CELLS * step; /* from channel to channel */
    const bool plain = p.passes == 1 && !p.accumulate && p.activation == UF_ACTIVATION_IDENTITY &&
                       p.written_stride[3] == 1;
#pragma unroll
    for (int k0 = 0; k0 < Tile::C; k0 += Tile::TOGETHER) {
        __syncwarp();
        direct_stage_phases<Tile>(p, sum, k0, pass, stage, lane, step, next);
        __syncwarp();
        const int32_t left = p.written_per_group - first_channel - k0;
        if (left <= 0) {
            return;
        }
        T *to[Tile::TOGETHER];
        direct_epilogue epilogue[Tile::TOGETHER];
#pragma unroll
        for (int k = 0; k < Tile::TOGETHER; ++k) {
            const int32_t channel = first_channel + k0 + (k < left ? k : 0);
            to[k] = direct_channel<T>(p, at, channel);
            epilogue[k] = direct_epilogue_of<T>(p, at.group * p.written_per_group + channel);
        }
#pragma unroll 1
        for (int32_t row = first_row; row < rows.tile; ++row) {
            const int32_t from_first = row * p.pitch - first_cell; /* cells from the warp's first */
            if (from_first >= Tile::CELLS) {
                break;
            }
            const int32_t h = h0 + row * rows.out_step;
            if ((uint32_t)h >= (uint32_t)rows.written) {
                continue;
            }
            const int32_t low = max(w0 + max(-from_first, 0) * step, 0);
            const int32_t high =
                min(w0 + min(Tile::CELLS - from_first, columns.tile) * step, columns.written);
            const float *const from = stage + from_first * step - w0;
            const int64_t row_offset = h * p.written_stride[2];
            if (plain && left >= Tile::TOGETHER) {
                const float *from_lane = from + low + lane;
                T *to_lane = to[0] + row_offset + low + lane;
                const int64_t to_next = p.written_stride[1];
                int32_t count = high - low - lane;
                for (; count > 96; count -= 128) {
#pragma unroll
                    for (int k = 0; k < Tile::TOGETHER; ++k) {
#pragma unroll
                        for (int i = 0; i < 4; ++i) {
                            to_lane[k * to_next + 32 * i] =
                                (T)direct_scale(epilogue[k], from_lane[k * next + 32 * i]);
                        }
                    }
                    from_lane += 128;
                    to_lane += 128;
                }
#pragma unroll 1
                for (; count > 0; count -= 32) {
#pragma unroll
                    for (int k = 0; k < Tile::TOGETHER; ++k) {
                        to_lane[k * to_next] = (T)direct_scale(epilogue[k], from_lane[k * next]);
                    }
                    from_lane += 32;
                    to_lane += 32;
                }
                continue;
            }
#pragma unroll 1
            for (int32_t w = low + lane; w < high; w += 32) {
                if (p.passes > 1) {
                    const int32_t live = columns.map[(w - w0) % step];
                    if (live == UF_DIRECT_DEAD ? pass > 0 : live / Tile::L != pass) {
                        continue;
                    }
                }
                const int64_t offset = row_offset + w * p.written_stride[3];
#pragma unroll
                for (int k = 0; k < Tile::TOGETHER; ++k) {
                    if (k < left) {
                        direct_write_element(to[k] + offset,
                                             direct_finish(p, epilogue[k], from[k * next + w]),
                                             p.accumulate);
                    }
                }
            }
        }
    }
}

/* Position that filter element `tap` meets at written position `at`, or -1. */
static __device__ __forceinline__ int32_t direct_meets(const uf_direct_conv &p, int axis,
                                                       int32_t at, int32_t tap) {
    int32_t read = p.dgrad ? at + p.padding[axis] - tap * p.dilation[axis]
                           : at * p.stride[axis] - p.padding[axis] + tap * p.dilation[axis];
    if (p.dgrad) {
        if (read < 0 || read % p.stride[axis] != 0) {
            return -1;
        }
        read /= p.stride[axis];
    }
    return (uint32_t)read < (uint32_t)p.axis[axis].read ? read : -1;
}

/* One element by a chain of FFMAs of its own. */
template <typename T>
static __device__ float direct_exact(const uf_direct_conv &p, const direct_coord &at,
                                     int32_t channel, int32_t h, int32_t w) {
    const T *const source = (const T *)p.read + at.n * p.read_stride[0] +
                            (int64_t)at.group * p.read_per_group * p.read_stride[1];
    const T *const weight = (const T *)p.weight + at.group * p.w_group + channel * p.w_written;
    uf_long_sum<float> sum;
    sum.clear();
#pragma unroll 1
    for (int32_t r = 0; r < p.kernel[0]; ++r) {
        const int32_t down = direct_meets(p, 0, h, r);
#pragma unroll 1
        for (int32_t s = 0; down >= 0 && s < p.kernel[1]; ++s) {
            const int32_t across = direct_meets(p, 1, w, s);
            if (across < 0) {
                continue;
            }
            const T *const from = source + down * p.read_stride[2] + across * p.read_stride[3];
            const T *const by = weight + r * p.w_row + s * p.w_column;
            float part = 0.0f;
#pragma unroll 1
            for (int32_t c = 0; c < p.read_per_group; ++c) {
                part = fmaf(direct_get(from + c * p.read_stride[1]), direct_get(by + c * p.w_read),
                            part);
                if ((c & 31) == 31) {
                    sum.add(part);
                    part = 0.0f;
                }
            }
            sum.add(part);
        }
    }
    return sum.total();
}

/* Exact fix-up, element by element, where a sum is not finite: the main loop multiplies padding
 * too, and 0 times an infinite weight is NaN. */
template <typename Tile>
static __device__ __noinline__ void direct_store_exact(const uf_direct_conv &p, int32_t live_row,
                                                       int32_t pass) {
    typedef typename Tile::T T;
    const direct_coord at = direct_coord_of(p);
    const direct_warp me = direct_warp_of<Tile>(p);
    const int32_t first_channel = direct_first_channel<Tile>(p, at, me);
    const int32_t first_cell = me.first_cell;
    const int32_t row_phase = p.axis[0].phase[live_row];
    const uf_direct_axis &rows = p.axis[0], &columns = p.axis[1];
    const int lane = (int)threadIdx.x & 31;
#pragma unroll 1
    for (int32_t cell = first_cell + lane; cell < first_cell + Tile::CELLS; cell += 32) {
        const int32_t row = direct_divide(p.by_pitch, cell);
        const int32_t column = cell - row * p.pitch;
        const int32_t h = rows.out_step * (at.cell[0] + row) - rows.out_shift + row_phase;
        if (row >= rows.tile || column >= columns.tile || (uint32_t)h >= (uint32_t)rows.written) {
            continue;
        }
#pragma unroll 1
        for (int32_t phase = 0; phase < columns.out_step; ++phase) {
            const int32_t live = columns.out_step > 1 ? columns.map[phase] : 0;
            const int32_t w = columns.out_step * (at.cell[1] + column) - columns.out_shift + phase;
            if ((uint32_t)w >= (uint32_t)columns.written ||
                (live == UF_DIRECT_DEAD ? pass > 0 : live / Tile::L != pass)) {
                continue;
            }
#pragma unroll 1
            for (int32_t channel = first_channel;
                 channel < min(first_channel + Tile::C, p.written_per_group); ++channel) {
                const float sum =
                    live == UF_DIRECT_DEAD ? 0.0f : direct_exact<T>(p, at, channel, h, w);
                const direct_epilogue epilogue =
                    direct_epilogue_of<T>(p, at.group * p.written_per_group + channel);
                direct_write_element(direct_channel<T>(p, at, channel) + h * p.written_stride[2] +
                                         w * p.written_stride[3],
                                     direct_finish(p, epilogue, sum), p.accumulate);
            }
        }
    }
}

/* True where a lane's sums are finite: all of them, or those of cells within the tile alone. */
template <typename Tile, bool WITHIN>
static __device__ __forceinline__ bool
direct_lane_finite(const uf_direct_conv &p, const float (&sum)[Tile::L][Tile::C][Tile::P],
                   int32_t first_cell) {
    float probe = 0.0f;
#pragma unroll
    for (int i = 0; i < Tile::P; ++i) {
        if (WITHIN) {
            const int32_t cell = first_cell + ((int32_t)threadIdx.x & 31) + 32 * i;
            const int32_t row = direct_divide(p.by_pitch, cell);
            if (row >= p.axis[0].tile || cell - row * p.pitch >= p.axis[1].tile) {
                continue;
            }
        }
#pragma unroll
        for (int l = 0; l < Tile::L; ++l) {
#pragma unroll
            for (int k = 0; k < Tile::C; ++k) {
                probe = fmaf(sum[l][k][i], 0.0f, probe);
            }
        }
    }
    return probe == 0.0f;
}

/* False where a sum that the warp writes is infinite or NaN. Cells beyond the tile read shared
 * memory that another block wrote: results must not depend on them. */
template <typename Tile>
static __device__ __forceinline__ bool
direct_all_finite(const uf_direct_conv &p, const float (&sum)[Tile::L][Tile::C][Tile::P],
                  int32_t first_cell) {
    return __all_sync(0xffffffffu, direct_lane_finite<Tile, false>(p, sum, first_cell)) ||
           __all_sync(0xffffffffu, direct_lane_finite<Tile, true>(p, sum, first_cell));
}

/* One column phase: lanes are neighbours already. */
template <typename Tile>
static __device__ __forceinline__ int64_t direct_plain_offset(const uf_direct_conv &p,
                                                              const direct_coord &at, int32_t q,
                                                              int32_t row_phase) {
    const uf_direct_axis &rows = p.axis[0], &columns = p.axis[1];
    const int32_t row = direct_divide(p.by_pitch, q);
    const int32_t column = q - row * p.pitch;
    const int32_t h = rows.out_step * (at.cell[0] + row) - rows.out_shift + row_phase;
    const int32_t w = at.cell[1] + column - columns.out_shift;
    const bool inside = row < rows.tile && column < columns.tile &&
                        (uint32_t)h < (uint32_t)rows.written &&
                        (uint32_t)w < (uint32_t)columns.written;
    return inside ? h * p.written_stride[2] + w * p.written_stride[3] : INT64_MIN;
}

template <typename Tile>
static __device__ __forceinline__ void
direct_store_plain(const uf_direct_conv &p, const direct_coord &at,
                   float (&sum)[Tile::L][Tile::C][Tile::P], int32_t first_cell, int32_t row_phase,
                   int32_t first_channel, float *stage) {
    typedef typename Tile::T T;
    const int lane = (int)threadIdx.x & 31;
    if (p.activation != UF_ACTIVATION_IDENTITY ||
        p.accumulate) { /* by loops that are not unrolled */
#pragma unroll
        for (int k = 0; k < Tile::C; ++k) {
#pragma unroll
            for (int i = 0; i < Tile::P; ++i) {
                stage[(k * Tile::P + i) * 32 + lane] = sum[0][k][i];
            }
        }
#pragma unroll 1
        for (int i = 0; i < Tile::P; ++i) {
            const int64_t offset =
                direct_plain_offset<Tile>(p, at, first_cell + lane + 32 * i, row_phase);
#pragma unroll 1
            for (int k = 0;
                 k < Tile::C && first_channel + k < p.written_per_group && offset != INT64_MIN;
                 ++k) {
                const direct_epilogue epilogue =
                    direct_epilogue_of<T>(p, at.group * p.written_per_group + first_channel + k);
                direct_write_element(
                    direct_channel<T>(p, at, first_channel + k) + offset,
                    direct_finish(p, epilogue, stage[(k * Tile::P + i) * 32 + lane]), p.accumulate);
            }
        }
        return;
    }
    int64_t offset[Tile::P];
#pragma unroll
    for (int i = 0; i < Tile::P; ++i) {
        offset[i] = direct_plain_offset<Tile>(p, at, first_cell + lane + 32 * i, row_phase);
    }
#pragma unroll
    for (int k = 0; k < Tile::C; ++k) {
        if (first_channel + k >= p.written_per_group) {
            break;
        }
        const direct_epilogue epilogue =
            direct_epilogue_of<T>(p, at.group * p.written_per_group + first_channel + k);
        T *const to = direct_channel<T>(p, at, first_channel + k);
#pragma unroll
        for (int i = 0; i < Tile::P; ++i) {
            if (offset[i] != INT64_MIN) {
                direct_write_element(to + offset[i], direct_scale(epilogue, sum[0][k][i]), false);
            }
        }
    }
}

#endif
