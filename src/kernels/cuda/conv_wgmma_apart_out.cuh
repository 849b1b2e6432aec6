/* conv_wgmma_apart_out.cuh - the way out of conv_wgmma_apart.cuh. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_APART_OUT_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_APART_OUT_CUH

#include "kernels/cuda/conv_wgmma_apart_tile.cuh"

#if UF_HAS_WGMMA

/* Sums of products of 64 pixels, as wgmma.cuh says: [product][4*eight + 2*i + e] is pixel `i` of
 * run `product`, column 8*eight + 2*(lane & 3) + e of the tile. */
template <typename Tile>
struct apart_sums {
    float of[Tile::PRODUCTS][Tile::SUMS];
};

/* A lane has all columns of its channels: which channel, from the tile's first, its `index`th is,
 * and where among a product's sums pixel `i` and column `over` of it are. */
template <typename Tile>
static __device__ __forceinline__ int apart_channel(int lane, int index) {
    return Tile::SPREAD == 1 ? 8 * (index >> 1) + 2 * (lane & 3) + (index & 1)
                             : 4 * index + (lane & 3);
}

template <typename Tile>
static __device__ __forceinline__ constexpr int apart_sum_at(int index, int i, int over) {
    return Tile::SPREAD == 1   ? 4 * (index >> 1) + 2 * i + (index & 1)
           : Tile::SPREAD == 2 ? 4 * index + 2 * i + over
                               : 4 * (2 * index + (over >> 1)) + 2 * i + (over & 1);
}

/* Where a pixel's first column is in the plane of a written channel. */
static __device__ __forceinline__ int64_t apart_offset(const apart_conv &p, const apart_place &at,
                                                       int spread, const apart_pixel &pixel) {
    return ((int64_t)pixel.h * p.plan.written_rows + at.row) * p.conv.written_stride[2] +
           (int64_t)pixel.w * spread * p.conv.written_stride[3];
}

struct apart_epilogue {
    float scale, shift;
};

template <typename T>
static __device__ __forceinline__ apart_epilogue apart_epilogue_of(const mma_conv &c,
                                                                   int64_t channel) {
    apart_epilogue made = {1.0f, 0.0f};
    if (c.scale != nullptr) {
        made.scale = (float)((const T *)c.scale)[channel * c.scale_stride];
    }
    if (c.shift != nullptr) {
        made.shift = (float)((const T *)c.shift)[channel * c.shift_stride];
    }
    return made;
}

/* One store each: the compiler would make four of some of them. */
static __device__ __forceinline__ void apart_store(float *to, const float (&value)[4]) {
    asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};\n" ::"l"(to), "f"(value[0]),
                 "f"(value[1]), "f"(value[2]), "f"(value[3])
                 : "memory");
}

static __device__ __forceinline__ void apart_store(__nv_bfloat16 *to, const float (&value)[4]) {
    asm volatile("st.global.v2.b32 [%0], {%1, %2};\n" ::"l"(to),
                 "r"(uf_pack_bf16(value[0], value[1])), "r"(uf_pack_bf16(value[2], value[3]))
                 : "memory");
}

static __device__ __forceinline__ void apart_store(__nv_bfloat16 *to, const float (&value)[8]) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};\n" ::"l"(to),
                 "r"(uf_pack_bf16(value[0], value[1])), "r"(uf_pack_bf16(value[2], value[3])),
                 "r"(uf_pack_bf16(value[4], value[5])), "r"(uf_pack_bf16(value[6], value[7]))
                 : "memory");
}

/* A run of a channel's neighbours in memory, scaled, shifted and through a cheap activation. */
template <int COUNT, typename T>
static __device__ __forceinline__ void apart_write_run(T *to, float (&value)[COUNT],
                                                       const apart_epilogue &epilogue, bool relu,
                                                       float slope) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        value[i] = value[i] * epilogue.scale + epilogue.shift;
        value[i] = value[i] < 0.0f ? (relu ? 0.0f : slope * value[i]) : value[i];
    }
    apart_store(to, value);
}

/* Straight from registers, 16 bytes a lane (bf16 of one column: 8): eight lanes write 128 bytes
 * that follow each other. */
template <typename Tile>
static __device__ __forceinline__ void apart_write_runs(const apart_conv &p, const apart_place &at,
                                                        int warp, int32_t first_channel, int lane,
                                                        const apart_sums<Tile> &sums) {
    typedef typename Tile::stored T;
    const mma_conv &c = p.conv;
    const bool relu = c.activation == UF_ACTIVATION_RELU;
    const float slope = c.activation == UF_ACTIVATION_LEAKY_RELU ? c.parameter : 1.0f;
    const int64_t group_channel = (int64_t)at.group * c.written_per_group;
    T *const image =
        (T *)c.written + at.n * c.written_stride[0] + group_channel * c.written_stride[1];
    constexpr int STORES = 4 / Tile::RUN, VALUES = Tile::RUN * Tile::SPREAD;
    T *to[STORES];
    bool there[STORES];
#pragma unroll
    for (int store = 0; store < STORES; ++store) {
        const int pixel = store * Tile::RUN;
        const apart_pixel mine =
            apart_pixel_of(p, at, warp * 32 + apart_index<Tile>(lane, pixel >> 1, pixel & 1));
        there[store] = mine.there;
        to[store] = image + apart_offset(p, at, Tile::SPREAD, mine);
    }
#pragma unroll
    for (int index = 0; index < Tile::COLUMNS / (4 * Tile::SPREAD); ++index) {
        const int32_t channel = first_channel + apart_channel<Tile>(lane, index);
        if (channel >= c.written_per_group) {
            continue;
        }
        const apart_epilogue epilogue = apart_epilogue_of<T>(c, group_channel + channel);
        const int64_t offset = channel * c.written_stride[1];
#pragma unroll
        for (int store = 0; store < STORES; ++store) {
            float value[VALUES];
#pragma unroll
            for (int i = 0; i < VALUES; ++i) {
                const int pixel = store * Tile::RUN + i / Tile::SPREAD;
                value[i] =
                    sums.of[pixel >> 1][apart_sum_at<Tile>(index, pixel & 1, i % Tile::SPREAD)];
            }
            if (there[store]) {
                apart_write_run<VALUES>(to[store] + offset, value, epilogue, relu, slope);
            }
        }
    }
}

/* Eight sums of each lane to shared memory. */
template <int EIGHT, typename Tile>
static __device__ __forceinline__ void apart_stage(const apart_sums<Tile> &sums, float *to) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        to[i * 32] = sums.of[i >> 2][4 * (EIGHT % (Tile::COLUMNS / 8)) + (i & 3)];
    }
}

/* Whatever apart_write_runs does not do: other activations, accumulation, rows that do not begin at
 * 16 bytes. Lanes find their sums in shared memory, where a loop can count them. */
template <typename Tile>
static __device__ __forceinline__ void
apart_write_singly(const apart_conv &p, const apart_place &at, int warp, int32_t first_channel,
                   int lane, float *staging, const apart_sums<Tile> &sums) {
    typedef typename Tile::stored T;
    const mma_conv &c = p.conv;
    const int64_t group_channel = (int64_t)at.group * c.written_per_group;
    T *const image =
        (T *)c.written + at.n * c.written_stride[0] + group_channel * c.written_stride[1];
#pragma unroll 1
    for (int eight = 0; eight < Tile::COLUMNS / 8; ++eight) {
#define UF_APART_EIGHT(EIGHT)                                                                      \
    case EIGHT:                                                                                    \
        apart_stage<EIGHT, Tile>(sums, staging + lane);                                            \
        break;
        switch (eight) {
            UF_APART_EIGHT(0)
            UF_APART_EIGHT(1)
            UF_APART_EIGHT(2)
            UF_APART_EIGHT(3)
            UF_APART_EIGHT(4)
            UF_APART_EIGHT(5)
            UF_APART_EIGHT(6)
            UF_APART_EIGHT(7)
            UF_APART_EIGHT(8)
            UF_APART_EIGHT(9)
            UF_APART_EIGHT(10)
            UF_APART_EIGHT(11)
            UF_APART_EIGHT(12)
            UF_APART_EIGHT(13)
            UF_APART_EIGHT(14)
            UF_APART_EIGHT(15)
        default:
            break;
        }
#undef UF_APART_EIGHT
#pragma unroll 1
        for (int i = 0; i < 8; ++i) {
            int32_t in_tile, over;
            uf_apart_column(&p.plan.tile, 8 * eight + 2 * (lane & 3) + (i & 1), &in_tile, &over);
            const apart_pixel mine =
                apart_pixel_of(p, at, warp * 32 + apart_index<Tile>(lane, i >> 2, i >> 1 & 1));
            const int32_t channel = first_channel + in_tile;
            if (!mine.there || channel >= c.written_per_group) {
                continue;
            }
            const apart_epilogue epilogue = apart_epilogue_of<T>(c, group_channel + channel);
            T *const to = image + channel * c.written_stride[1] +
                          apart_offset(p, at, Tile::SPREAD, mine) + over * c.written_stride[3];
            const float value =
                uf_activate(c.activation, staging[i * 32 + lane] * epilogue.scale + epilogue.shift,
                            c.parameter);
            *to = (T)(c.accumulate ? (float)*to + value : value);
        }
    }
}

#endif

#endif
