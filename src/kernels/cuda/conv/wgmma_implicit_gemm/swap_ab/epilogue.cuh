/* epilogue.cuh - the epilogue of swap_ab/mainloop.cuh. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_SWAP_AB_EPILOGUE_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_SWAP_AB_EPILOGUE_CUH

#include "kernels/cuda/conv/wgmma_implicit_gemm/swap_ab/tile.cuh"

#if UF_HAS_WGMMA

/* The stores of a row of pixels of a channel. */
template <typename T>
struct wgmma_swap_ab_out {
    int64_t step;  /* elements to the next pixel */
    int32_t count; /* pixels inside the tensor */
    bool simple, relu;
    float slope; /* factor of negative values, unless `relu` */
};

/* 64 pixels of a channel by one warp. */
template <typename T>
static __device__ __forceinline__ void
wgmma_swap_ab_row(const mma_conv &c, const wgmma_swap_ab_out<T> &out, T *to, const float *staging,
                  const float *scales, const float *shifts, int channel, int lane) {
    const float *from = staging + channel * UF_WGMMA_SWAP_AB_PITCH + lane;
#pragma unroll 1
    for (int pixel = lane; pixel < UF_WGMMA_SWAP_AB_PIXELS; pixel += 32) {
        if (pixel < out.count) {
            T *const at = to + pixel * out.step;
            const float value =
                uf_activate(c.activation, *from * scales[channel] + shifts[channel], c.parameter);
            *at = (T)(c.accumulate ? (float)*at + value : value);
        }
        from += 32;
    }
}

/* The same for BATCH channels, 4 apart; cheap activations only. */
template <int BATCH, typename T>
static __device__ __forceinline__ void
wgmma_swap_ab_rows(const mma_conv &c, const wgmma_swap_ab_out<T> &out, T *to, const float *staging,
                   const float *scales, const float *shifts, int channel, int lane) {
    const int64_t step = 4 * c.written_stride[1];
    /* Stores of two pixels are aligned for all channels if they are for one. */
    const bool pairs =
        out.step == 1 && (step & 1) == 0 && ((uintptr_t)to & (2 * sizeof(T) - 1)) == 0;
    const int first = pairs ? 2 * lane : lane;
    const int second = pairs ? first + 1 : first + 32;
    float2 value[BATCH];
#pragma unroll
    for (int i = 0; i < BATCH; ++i) {
        const float *const from = staging + (channel + 4 * i) * UF_WGMMA_SWAP_AB_PITCH;
        value[i] = pairs ? *(const float2 *)(from + first) : make_float2(from[first], from[second]);
    }
#pragma unroll
    for (int i = 0; i < BATCH; ++i) {
        const float scale = scales[channel + 4 * i], shift = shifts[channel + 4 * i];
        value[i].x = value[i].x * scale + shift;
        value[i].y = value[i].y * scale + shift;
        value[i].x = value[i].x < 0.0f ? (out.relu ? 0.0f : out.slope * value[i].x) : value[i].x;
        value[i].y = value[i].y < 0.0f ? (out.relu ? 0.0f : out.slope * value[i].y) : value[i].y;
    }
    if (pairs && out.count >= UF_WGMMA_SWAP_AB_PIXELS) {
#pragma unroll
        for (int i = 0; i < BATCH; ++i) {
            wgmma_store_pair(to + first, value[i]);
            to += step;
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < BATCH; ++i) {
        if (first < out.count) {
            to[first * out.step] = (T)value[i].x;
        }
        if (second < out.count) {
            to[second * out.step] = (T)value[i].y;
        }
        to += step;
    }
}

/* An MMA's accumulators to [channel][pixel], without bank conflicts. */
template <int MMA, typename Tile>
static __device__ __forceinline__ void
wgmma_swap_ab_stage(const float (&total)[Tile::MMAS][Tile::SUMS], float *to) {
#pragma unroll
    for (int i = 0; i < Tile::SUMS; ++i) {
        to[((i >> 2) * 8 + (i & 1)) * UF_WGMMA_SWAP_AB_PITCH + (i >> 1 & 1) * 8] =
            total[MMA % Tile::MMAS][i];
    }
}

/* Stores a warpgroup's tile through shared memory, a row of 64 pixels at a time. A warp then stores
 * all pixels of a channel at once. */
template <typename Tile>
static __device__ __forceinline__ void
wgmma_swap_ab_write(const wgmma_conv &p, const wgmma_swap_ab_tile &at, int first_mma, int warpgroup,
                    int warp, int lane, float *staging,
                    const float (&total)[Tile::MMAS][Tile::SUMS]) {
    typedef typename Tile::stored T;
    const mma_conv &c = p.conv;
    const mma_walk down = mma_walk_of(&c.axis[0], 0), across = mma_walk_of(&c.axis[1], 0);
    const int channels = c.written_per_group;
    const int64_t channel_0 = (int64_t)at.group * channels;
    const int32_t first_y = at.y * p.nt + first_mma, first_x = at.x * UF_WGMMA_SWAP_AB_PIXELS;
    constexpr int BATCH = Tile::COLUMNS < 16 ? 2 : 4;
    float *const scales = staging + Tile::COLUMNS * UF_WGMMA_SWAP_AB_PITCH;
    float *const shifts = scales + Tile::COLUMNS;
    float *const mine =
        staging + 2 * (lane & 3) * UF_WGMMA_SWAP_AB_PITCH + (warp & 3) * 16 + (lane >> 2);
    wgmma_swap_ab_out<T> out;
    out.relu = c.activation == UF_ACTIVATION_RELU;
    const bool leaky = c.activation == UF_ACTIVATION_LEAKY_RELU;
    out.simple = !c.accumulate && (out.relu || leaky || c.activation == UF_ACTIVATION_IDENTITY);
    out.slope = leaky ? c.parameter : 1.0f;
    out.step = c.axis[1].out_step * c.written_stride[3];
    out.count = across.out_count - first_x;
    T *to = (T *)c.written + at.n * c.written_stride[0] +
            (channel_0 + (warp & 3)) * c.written_stride[1] +
            (down.out_first + (int64_t)first_y * c.axis[0].out_step) * c.written_stride[2] +
            across.out_first * c.written_stride[3] + first_x * out.step;
    int rows = down.out_count - first_y; /* inside the tensor */
    rows = rows < Tile::MMAS ? rows : Tile::MMAS;
#pragma unroll 1
    for (int row = 0; row < rows; ++row) {
        uf_named_barrier(1 + warpgroup, 128); /* all warps have read the row before */
        if (row == 0) {
            const int channel = (warp & 3) * 32 + lane;
            if (channel < channels) {
                scales[channel] =
                    c.scale == nullptr
                        ? 1.0f
                        : (float)((const T *)c.scale)[(channel_0 + channel) * c.scale_stride];
                shifts[channel] =
                    c.shift == nullptr
                        ? 0.0f
                        : (float)((const T *)c.shift)[(channel_0 + channel) * c.shift_stride];
            }
        }
#define UF_WGMMA_ROW(MMA) wgmma_swap_ab_stage<MMA, Tile>(total, mine)
        UF_SWITCH_8(row, UF_WGMMA_ROW)
#undef UF_WGMMA_ROW
        uf_named_barrier(1 + warpgroup, 128);
        T *to_channel = to;
        int channel = warp & 3;
#pragma unroll 1
        for (; channel + 4 * (BATCH - 1) < channels && out.simple; channel += 4 * BATCH) {
            wgmma_swap_ab_rows<BATCH, T>(c, out, to_channel, staging, scales, shifts, channel,
                                         lane);
            to_channel += 4 * BATCH * c.written_stride[1];
        }
#pragma unroll 1
        for (; channel < channels; channel += 4) {
            wgmma_swap_ab_row<T>(c, out, to_channel, staging, scales, shifts, channel, lane);
            to_channel += 4 * c.written_stride[1];
        }
        to += c.axis[0].out_step * c.written_stride[2];
    }
}

#endif

#endif
