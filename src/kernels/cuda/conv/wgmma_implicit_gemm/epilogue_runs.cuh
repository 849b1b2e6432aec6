/* epilogue_runs.cuh - the epilogue straight from registers. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_EPILOGUE_RUNS_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_EPILOGUE_RUNS_CUH

#include "kernels/cuda/conv/wgmma_implicit_gemm/tile.cuh"

#if UF_HAS_WGMMA

/* A thread's two channels, lane / 4 and 8 more. */
template <typename T>
struct wgmma_out {
    T *base; /* image 0 of the first channel */
    float scale[2], shift[2];
    bool there[2];
    bool relu;
    float slope; /* factor of negative values, unless `relu` */
};

/* Stores a thread's accumulators of 32 columns to `to`, after scale, shift and a cheap
 * activation. */
template <int SLICE, bool PAIRED, int NT, typename T>
static __device__ __forceinline__ void wgmma_stage(const float (&d)[NT][UF_WGMMA_PIXELS / 2],
                                                   const wgmma_out<T> &out, float *to) {
    constexpr int pitch = PAIRED ? UF_WGMMA_PAIR_PITCH : UF_WGMMA_PITCH;
#pragma unroll
    for (int run = 0; run < 4; ++run) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int at = (SLICE & 3) * 16 + run * 4 + i * 2;
            float2 pair;
            pair.x = d[SLICE / 4 % NT][at] * out.scale[i] + out.shift[i];
            pair.y = d[SLICE / 4 % NT][at + 1] * out.scale[i] + out.shift[i];
            pair.x = pair.x < 0.0f ? (out.relu ? 0.0f : out.slope * pair.x) : pair.x;
            pair.y = pair.y < 0.0f ? (out.relu ? 0.0f : out.slope * pair.y) : pair.y;
            if (PAIRED) {
                to[8 * i * pitch + 16 * run] = pair.x;
                to[8 * i * pitch + 16 * run + 2] = pair.y;
            } else {
                *(float2 *)(to + 8 * i * pitch + 8 * run) = pair;
            }
        }
    }
}

/* The accumulators of one warp, 16 channels, straight from registers: four lanes hold a run of 8
 * pixels of a channel, a sector in f32. Scale, shift and a cheap activation only. */
template <typename Tile, bool STACKED>
static __device__ __forceinline__ void
wgmma_write_runs(const wgmma_conv &p, const wgmma_coord &at,
                 const wgmma_out<typename Tile::stored> &out, const mma_walk &down,
                 const mma_walk &across, int lane,
                 const float (&d)[Tile::NT][UF_WGMMA_PIXELS / 2]) {
    typedef typename Tile::stored T;
    const mma_conv &c = p.conv;
    const uf_wgmma_axis &rows = p.axis[0], &columns = p.axis[1];
    const int64_t row_step = c.axis[0].out_step * c.written_stride[2];
    const int64_t image_step = c.written_stride[0] << columns.images_log;
    const int64_t channel_step = 8 * c.written_stride[1];
    const bool even = ((row_step | image_step | channel_step) & 1) == 0;
    const int image_mask = (1 << rows.images_log) - 1;
    const int64_t back =
        row_step - image_mask * image_step; /* to the next row of the first image */
    const int64_t over =
        c.written_stride[0] -
        p.stack * row_step; /* and from there to the next image's first row, if stacked */
#pragma unroll
    for (int mma = 0; mma < Tile::NT; ++mma) {
        const wgmma_pixel first = wgmma_pixel_of<false>(p, at, down, across, mma, 2 * (lane & 3));
        const wgmma_pixel second =
            wgmma_pixel_of<false>(p, at, down, across, mma, 2 * (lane & 3) + 1);
        T *to_first = out.base + first.offset;
        T *to_second = out.base + second.offset;
        const bool mine = first.n < c.batch && first.j_w < across.out_count;
        const bool next = second.n < c.batch && second.j_w < across.out_count;
        const bool together =
            __all_sync(0xffffffffu, even && mine == next && second.offset == first.offset + 1 &&
                                        ((uintptr_t)to_first & (2 * sizeof(T) - 1)) == 0);
        int32_t row = first.j_h; /* STACKED: a row of image n; no images lie beside each other */
        int32_t n = first.n;
#pragma unroll
        for (int run = 0; run < UF_WGMMA_PIXELS / 8; ++run) {
            const int32_t image = STACKED ? 0 : run & image_mask;
            const bool inside = STACKED ? row < down.out_count && n < c.batch
                                        : first.j_h + (run >> rows.images_log) < down.out_count;
            const bool write =
                mine && inside && (STACKED || first.n + (image << columns.images_log) < c.batch);
            const bool write_next =
                next && inside && (STACKED || second.n + (image << columns.images_log) < c.batch);
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                float2 pair;
                pair.x = d[mma][run * 4 + i * 2] * out.scale[i] + out.shift[i];
                pair.y = d[mma][run * 4 + i * 2 + 1] * out.scale[i] + out.shift[i];
                pair.x = pair.x < 0.0f ? (out.relu ? 0.0f : out.slope * pair.x) : pair.x;
                pair.y = pair.y < 0.0f ? (out.relu ? 0.0f : out.slope * pair.y) : pair.y;
                if (together) {
                    if (write && out.there[i]) {
                        wgmma_store_pair(to_first + i * channel_step, pair);
                    }
                } else {
                    if (write && out.there[i]) {
                        to_first[i * channel_step] = (T)pair.x;
                    }
                    if (write_next && out.there[i]) {
                        to_second[i * channel_step] = (T)pair.y;
                    }
                }
            }
            int64_t step = STACKED || image == image_mask ? back : image_step;
            if (STACKED && ++row == p.stack) {
                row = 0;
                ++n;
                step += over;
            }
            to_first += step;
            to_second += step;
        }
    }
}

/* Transposes 4 x 4 words of four neighbouring lanes. */
static __device__ __forceinline__ void wgmma_transpose(uint32_t (&word)[4], int lane) {
#pragma unroll
    for (int step = 1; step <= 2; ++step) {
        const bool upper = (lane & step) != 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if ((i & step) == 0) {
                const uint32_t got =
                    __shfl_xor_sync(0xffffffffu, upper ? word[i] : word[i + step], step);
                word[i] = upper ? got : word[i];
                word[i + step] = upper ? word[i + step] : got;
            }
        }
    }
}

/* True if wgmma_write_images applies: images of 4 x 4, dense by channel. */
template <typename T>
static __device__ __forceinline__ bool wgmma_images_fit(const wgmma_conv &p,
                                                        const mma_walk &across) {
    const mma_conv &c = p.conv;
    return p.axis[0].images_log == 2 && p.axis[1].images_log == 1 && c.axis[0].out_step == 1 &&
           c.axis[1].out_step == 1 && across.out_first == 0 && across.out_count == 4 &&
           c.written_stride[3] == 1 &&
           ((c.written_stride[0] | c.written_stride[1] | c.written_stride[2]) & 3) == 0 &&
           (uintptr_t)c.written % (4 * sizeof(T)) == 0;
}

/* The same as wgmma_write_runs for images of 4 x 4, two beside each other and four below. A lane
 * has single elements of a column. Four lanes exchange columns for rows, so that a warp stores
 * eight channels of an image as one piece of memory. */
template <typename Tile>
static __device__ __forceinline__ void
wgmma_write_images(const wgmma_conv &p, const wgmma_coord &at,
                   const wgmma_out<typename Tile::stored> &out, const mma_walk &down,
                   const mma_walk &across, int lane,
                   const float (&d)[Tile::NT][UF_WGMMA_PIXELS / 2]) {
    typedef typename Tile::stored T;
    const mma_conv &c = p.conv;
    constexpr bool BF16 = sizeof(T) == 2;
#pragma unroll
    for (int mma = 0; mma < Tile::NT; ++mma) {
        /* This lane's row of the first of the two images beside each other, four times. */
        const wgmma_pixel first = wgmma_pixel_of<false>(p, at, down, across, mma, (lane & 3) * 32);
        const bool inside = first.j_h < down.out_count;
#pragma unroll
        for (int image = 0; image < 4; ++image) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                float value[4][2];
#pragma unroll
                for (int row = 0; row < 4; ++row) {
#pragma unroll
                    for (int beside = 0; beside < 2; ++beside) {
                        const float one =
                            d[mma][(row * 4 + image) * 4 + i * 2 + beside] * out.scale[i] +
                            out.shift[i];
                        value[row][beside] = one < 0.0f ? (out.relu ? 0.0f : out.slope * one) : one;
                    }
                }
                T *const to = out.base + first.offset + 2 * image * c.written_stride[0] +
                              8 * i * c.written_stride[1];
                uint32_t word[4];
                if (BF16) {
#pragma unroll
                    for (int row = 0; row < 4; ++row) {
                        word[row] = uf_pack_bf16(value[row][0], value[row][1]);
                    }
                    wgmma_transpose(word, lane);
                }
#pragma unroll
                for (int beside = 0; beside < 2; ++beside) {
                    const bool there =
                        inside && first.n + 2 * image + beside < c.batch && out.there[i];
                    T *const row_to = to + beside * c.written_stride[0];
                    if (BF16) {
                        const uint32_t half = beside == 0 ? 0x5410 : 0x7632;
                        const uint2 pixels = make_uint2(__byte_perm(word[0], word[1], half),
                                                        __byte_perm(word[2], word[3], half));
                        if (there) {
                            *(uint2 *)row_to = pixels;
                        }
                    } else {
#pragma unroll
                        for (int row = 0; row < 4; ++row) {
                            word[row] = __float_as_uint(value[row][beside]);
                        }
                        wgmma_transpose(word, lane);
                        if (there) {
                            *(uint4 *)row_to = make_uint4(word[0], word[1], word[2], word[3]);
                        }
                    }
                }
            }
        }
    }
}

#endif

#endif
