/* mainloop.cuh - the kernel of mma_small/launch.cu, whose header describes it. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_SMALL_MAINLOOP_CUH
#define UF_KERNELS_CUDA_CONV_MMA_SMALL_MAINLOOP_CUH

#include "kernels/cuda/conv/mma_small/load.cuh"

/* A word of an operand; `other`: the pair's upper half in BF16. */
template <uf_mma_math MATH>
static __device__ __forceinline__ void small_operand(float value, float other, uint32_t *word,
                                                     uint32_t *small) {
    if (MATH == UF_MMA_TF32X3) {
        mma_split_tf32_by_bits(value, word, small);
    } else if (MATH == UF_MMA_TF32) {
        *word = mma_round_by_bits(value);
    } else {
        *word = uf_pack_bf16(value, other);
    }
}

template <uf_mma_math MATH>
static __device__ __forceinline__ void small_operand(uint16_t value, uint16_t other, uint32_t *word,
                                                     uint32_t *) {
    *word = value | (uint32_t)other << 16;
}

/* A thread's part of the operands of a step, as stored. */
template <typename Tile>
struct small_raw {
    static constexpr int PER = Tile::STEP / 8;
    typename Tile::bits a[Tile::TILES_M][4][PER], b[Tile::TILES_N][2][PER];
};

template <typename Tile>
static __device__ __forceinline__ void
small_operands(const small_raw<Tile> &raw, uint32_t (&a)[Tile::TILES_M][4],
               uint32_t (&a_small)[Tile::TILES_M][4], uint32_t (&b)[Tile::TILES_N][2],
               uint32_t (&b_small)[Tile::TILES_N][2]) {
    constexpr int LAST = small_raw<Tile>::PER - 1;
#pragma unroll
    for (int j = 0; j < Tile::TILES_N; ++j) {
#pragma unroll
        for (int reg = 0; reg < 2; ++reg) {
            small_operand<Tile::MATH>(raw.b[j][reg][0], raw.b[j][reg][LAST], &b[j][reg],
                                      &b_small[j][reg]);
        }
    }
#pragma unroll
    for (int m = 0; m < Tile::TILES_M; ++m) {
#pragma unroll
        for (int reg = 0; reg < 4; ++reg) {
            small_operand<Tile::MATH>(raw.a[m][reg][0], raw.a[m][reg][LAST], &a[m][reg],
                                      &a_small[m][reg]);
        }
    }
}

/* The operands of a step: `pixel` and `channel` (of the first eight) are bytes in a stage, `eighth`
 * those from eight channels to the next. */
template <typename Tile>
static __device__ __forceinline__ void
small_fetch(const unsigned char *stage, const uint32_t (&entry)[2][small_raw<Tile>::PER],
            const int32_t (&pixel)[Tile::TILES_M][2], int32_t channel, int32_t eighth,
            small_raw<Tile> *raw) {
    typedef typename Tile::bits bits;
#pragma unroll
    for (int half = 0; half < small_raw<Tile>::PER; ++half) {
#pragma unroll
        for (int reg = 0; reg < 2; ++reg) {
            const unsigned char *const weights = stage + (entry[reg][half] >> 16) + channel;
            const unsigned char *const pixels = stage + (entry[reg][half] & 0xffff);
#pragma unroll
            for (int j = 0; j < Tile::TILES_N; ++j) {
                raw->b[j][reg][half] = *(const bits *)(weights + j * eighth);
            }
#pragma unroll
            for (int m = 0; m < Tile::TILES_M; ++m) {
                raw->a[m][2 * reg][half] = *(const bits *)(pixels + pixel[m][0]);
                raw->a[m][2 * reg + 1][half] = *(const bits *)(pixels + pixel[m][1]);
            }
        }
    }
}

/* `count` MMAs, one at least. `next` reads a step's operands, each before the MMAs of the
 * step before it. */
template <typename Tile, typename Next>
static __device__ __forceinline__ void small_steps(int32_t count, const Next &next,
                                                   float (&c)[Tile::TILES_M][Tile::TILES_N][4]) {
    small_raw<Tile> raw;
    next(&raw);
#pragma unroll 1
    for (int32_t i = 0; i < count; ++i) {
        uint32_t a[Tile::TILES_M][4], a_small[Tile::TILES_M][4];
        uint32_t b[Tile::TILES_N][2], b_small[Tile::TILES_N][2];
        small_operands<Tile>(raw, a, a_small, b, b_small);
        if (i + 1 < count) {
            next(&raw);
        }
        mma_warp<Tile::MATH>(a, a_small, b, b_small, c);
    }
}

/* The entries of a step for the two registers of a fragment's K, and on to the next step. */
template <typename Tile, typename Entry>
static __device__ __forceinline__ void small_look_up(const Entry *&steps,
                                                     Entry (&entry)[2][small_raw<Tile>::PER]) {
    constexpr int PER = small_raw<Tile>::PER;
#pragma unroll
    for (int reg = 0; reg < 2; ++reg) {
#pragma unroll
        for (int half = 0; half < PER; ++half) {
            entry[reg][half] = steps[(reg * PER + half) * 4];
        }
    }
    steps += Tile::STEP;
}

/* `count` MMAs of a phase's steps of the chunk in `stage`. */
template <typename Tile>
static __device__ __forceinline__ void
small_chunk(const unsigned char *stage, const uint32_t *steps, int32_t count,
            const int32_t (&pixel)[Tile::TILES_M][2], int32_t channel, int32_t eighth,
            float (&c)[Tile::TILES_M][Tile::TILES_N][4]) {
    if (count == 0) {
        return;
    }
    uint32_t entry[2][small_raw<Tile>::PER];
    small_look_up<Tile>(steps, entry);
    small_steps<Tile>(
        count,
        [&](small_raw<Tile> *raw) {
            small_fetch<Tile>(stage, entry, pixel, channel, eighth, raw);
            small_look_up<Tile>(steps, entry);
        },
        c);
}

/* Not inlined: once is enough of every activation. */
template <typename T>
static __device__ __noinline__ void small_finish(const mma_conv &conv, int64_t channel,
                                                 int64_t offset, float value) {
    mma_finish<T>(conv, channel, offset, value);
}

/* The tile leaves shared memory: lanes write neighbours of a row, whatever their phases. */
template <typename T>
static __device__ __forceinline__ void small_write(const small_conv &p, const small_block &block,
                                                   const float *staging) {
    const uf_small_plan &plan = p.plan;
    const mma_conv &conv = p.conv;
    const int32_t step_h = conv.axis[0].out_step, step_w = conv.axis[1].out_step;
    const int32_t rows = plan.box[1] * step_h, columns = plan.box[2] * step_w;
    const int32_t elements = plan.box[0] * rows * columns;
    const small_share share = small_share_of(p.out, elements);
    const int32_t beside = share.beside, my_first = share.row;
    const int32_t channels = min(conv.written_per_group - block.first_channel, plan.tile_channels);
    const int32_t part_words = plan.phases * plan.tile_channels * plan.staging_pitch;
    const int64_t channel_0 = (int64_t)block.group * conv.written_per_group + block.first_channel;
    const int64_t plane = (int64_t)conv.axis[0].written * conv.axis[1].written;
#pragma unroll 1
    for (int32_t i = share.first; i < elements; i += share.together) {
        small_coord at;
        at.column = i;
        at.row = small_take(&at.column, p.by.out[1]);
        at.image = small_take(&at.row, p.by.out[0]);
        const int32_t n = block.image + at.image;
        const int32_t h = block.position[0] * step_h + at.row;
        const int32_t w = block.position[1] * step_w + at.column;
        if (n >= conv.batch || h >= conv.axis[0].written || w >= conv.axis[1].written) {
            continue;
        }
        int32_t phase_h = at.row, phase_w = at.column;
        const int32_t th = small_take(&phase_h, p.by.step[0]);
        const int32_t tw = small_take(&phase_w, p.by.step[1]);
        phase_h = p.phase_of[0][phase_h];
        phase_w = p.phase_of[1][phase_w];
        const float *const from =
            staging +
            (phase_h * conv.axis[1].phases + phase_w) * plan.tile_channels * plan.staging_pitch +
            (at.image * plan.box[1] + th) * plan.box[2] + tw;
        const auto sum_of = [&](int32_t channel) {
            const float *at = from + channel * plan.staging_pitch;
            float sum = *at;
            for (int32_t part = 1; part < plan.depth_warps; ++part) {
                at += part_words;
                sum += *at;
            }
            return sum;
        };
        if (plan.splits > 1) {
            float *to =
                conv.partial + block.split * conv.partial_count +
                (n * (int64_t)conv.groups * conv.written_per_group + channel_0 + my_first) * plane +
                h * conv.axis[1].written + w;
#pragma unroll 4
            for (int32_t channel = my_first; channel < channels; channel += beside) {
                *to = sum_of(channel);
                to += beside * plane;
            }
            continue;
        }
        const int64_t offset =
            n * conv.written_stride[0] + h * conv.written_stride[2] + w * conv.written_stride[3];
        bool all_finite = true;
#pragma unroll 2
        for (int32_t channel = my_first; channel < channels; channel += beside) {
            const float value = sum_of(channel);
            if (mma_finite(value)) {
                const int64_t to = offset + (channel_0 + channel) * conv.written_stride[1];
                if (p.plain) {
                    ((T *)conv.written)[to] = (T)value;
                } else {
                    small_finish<T>(conv, channel_0 + channel, to, value);
                }
            } else {
                all_finite = false;
            }
        }
        if (all_finite) {
            continue;
        }
        const mma_walk down = conv.axis[0].walk[phase_h];
        const mma_walk across = conv.axis[1].walk[phase_w];
        const int32_t read_h = (block.position[0] + th) * conv.axis[0].in_step + down.in_first;
        const int32_t read_w = (block.position[1] + tw) * conv.axis[1].in_step + across.in_first;
#pragma unroll 1
        for (int32_t channel = my_first; channel < channels; channel += beside) {
            if (!mma_finite(sum_of(channel))) {
                small_finish<T>(conv, channel_0 + channel,
                                offset + (channel_0 + channel) * conv.written_stride[1],
                                mma_exact<T>(conv, down, across, block.group,
                                             block.first_channel + channel, n, read_h, read_w));
            }
        }
    }
}

template <typename Tile>
static __global__ void __launch_bounds__(32 * Tile::WARPS, 1)
    conv_small(const __grid_constant__ small_conv p) {
    UF_MMA_SHARED(shared);
    typedef typename Tile::stored stored;
    const uf_small_plan &plan = p.plan;
    const small_block block = small_block_of(p, (int32_t)blockIdx.x);
    const small_tables table = small_tables_of(p, shared);
    small_make_offsets(p, block, table, (int32_t)sizeof(stored));
    const small_share share[2] = {small_share_of(p.window, plan.plane),
                                  small_share_of(p.weights, plan.pieces)};
    small_make_steps(p, table, (int32_t)sizeof(stored));

    /* This warp's phase, positions, channels, and part of each chunk. */
    const int lane = (int)threadIdx.x & 31;
    int32_t phase = (int32_t)threadIdx.x >> 5;
    int32_t first_pixel = small_take(&phase, p.by.phases_all);
    int32_t first_channel = small_take(&first_pixel, p.by.pixel_warps);
    const int32_t part = small_take(&first_channel, p.by.channel_warps);
    first_pixel *= Tile::PIXELS;
    first_channel *= Tile::CHANNELS;
    int32_t phase_w = phase;
    const int32_t phase_h = small_take(&phase_w, p.by.phases);
    const int32_t steps_here =
        p.conv.axis[0].walk[phase_h].taps * p.conv.axis[1].walk[phase_w].taps * plan.depth;
    const int32_t mmas = (steps_here + Tile::STEP - 1) / Tile::STEP;
    const int32_t begin = part * mmas >> plan.depth_log;
    const int32_t count = ((part + 1) * mmas >> plan.depth_log) - begin;
    int32_t pixel[Tile::TILES_M][2];
#pragma unroll
    for (int m = 0; m < Tile::TILES_M; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const small_coord at = small_coord_of(first_pixel + m * 16 + half * 8 + (lane >> 2),
                                                  p.by.box[1], p.by.box[2]);
            pixel[m][half] = at.image < plan.box[0]
                                 ? ((at.image * plan.window[0] + at.row * p.conv.axis[0].in_step) *
                                        plan.window[1] +
                                    at.column * p.conv.axis[1].in_step) *
                                       (int32_t)sizeof(stored)
                                 : 0;
        }
    }
    const int32_t channel = ((plan.depth + (plan.padded ? 1 : 0)) * plan.plane +
                             (first_channel + (lane >> 2)) * plan.across) *
                            (int32_t)sizeof(stored);
    const int32_t eighth = 8 * plan.across * (int32_t)sizeof(stored);

    __syncthreads();

    const int32_t first_chunk = block.split * plan.per_split;
    const int32_t chunks = min(plan.chunks - first_chunk, plan.per_split);
    uf_wait_for_launcher(); /* nothing before this touches a tensor */
#pragma unroll 1
    for (int stage = 0; stage < UF_SMALL_STAGES - 1; ++stage) {
        if (stage < chunks) {
            small_load<stored>(p, block, table, share, table.stages + stage * plan.stage,
                               (first_chunk + stage) * plan.depth);
        }
        uf_copy_async_commit();
    }
    float c[Tile::TILES_M][Tile::TILES_N][4] = {};
    int stage = 0;
#pragma unroll 1
    for (int32_t i = 0; i < chunks; ++i) {
        uf_copy_async_wait<UF_SMALL_STAGES - 2>();
        __syncthreads(); /* this chunk has arrived, and the one before has been used, everywhere */
        if (i + UF_SMALL_STAGES - 1 < chunks) {
            const int next = stage == 0 ? UF_SMALL_STAGES - 1 : stage - 1;
            small_load<stored>(p, block, table, share, table.stages + next * plan.stage,
                               (first_chunk + i + UF_SMALL_STAGES - 1) * plan.depth);
        }
        uf_copy_async_commit();
        small_chunk<Tile>(table.stages + stage * plan.stage,
                          table.steps + phase * plan.most_steps + begin * Tile::STEP + (lane & 3),
                          count, pixel, channel, eighth, c);
        stage = stage == UF_SMALL_STAGES - 1 ? 0 : stage + 1;
    }
    uf_copy_async_wait<0>();
    __syncthreads();
    uf_launch_dependents();

    float *const staging =
        (float *)table.stages +
        ((part * plan.phases + phase) * plan.tile_channels + first_channel) * plan.staging_pitch +
        first_pixel;
#pragma unroll
    for (int m = 0; m < Tile::TILES_M; ++m) {
#pragma unroll
        for (int j = 0; j < Tile::TILES_N; ++j) {
#pragma unroll
            for (int reg = 0; reg < 4; ++reg) {
                staging[(j * 8 + (lane & 3) * 2 + (reg & 1)) * plan.staging_pitch + m * 16 +
                        (reg >> 1) * 8 + (lane >> 2)] = c[m][j][reg];
            }
        }
    }
    __syncthreads();
    small_write<stored>(p, block, (const float *)table.stages);
}

#endif
