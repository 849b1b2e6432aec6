/* epilogue.cuh - stores of the patch GEMM. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_EPILOGUE_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_EPILOGUE_CUH

#include "kernels/cuda/conv/wgmma_patch_gemm/tile.cuh"

#if UF_HAS_WGMMA

/* Accumulators of MMAs of 64 pixels, as in arch/sm90_wgmma.cuh. [MMA][4*eight + 2*i + e] is pixel
 * `i` of run `MMA`, column 8*eight + 2*(lane & 3) + e of the tile. */
template <typename Tile>
struct patch_sums {
    float of[Tile::MMAS][Tile::SUMS];
};

/* A lane has all columns of its units. The `index`th of its units, from the tile's first; then the
 * accumulator of an MMA for pixel `i` and column `over` of it. */
template <typename Tile>
static __device__ __forceinline__ int patch_unit(int lane, int index) {
    return Tile::SPREAD == 1 ? 8 * (index >> 1) + 2 * (lane & 3) + (index & 1)
                             : 4 * index + (lane & 3);
}

template <typename Tile>
static __device__ __forceinline__ constexpr int patch_sum_at(int index, int i, int over) {
    return Tile::SPREAD == 1   ? 4 * (index >> 1) + 2 * i + (index & 1)
           : Tile::SPREAD == 2 ? 4 * index + 2 * i + over
                               : 4 * (2 * index + (over >> 1)) + 2 * i + (over & 1);
}

/* The offset of a pixel's first column in the plane of a written channel. */
static __device__ __forceinline__ int64_t patch_offset(const patch_conv &p, const patch_coord &at,
                                                       const patch_pixel &pixel) {
    return ((int64_t)pixel.h * p.plan.over[0] + at.row) * p.conv.written_stride[2] +
           (int64_t)pixel.w * p.plan.over[1] * p.conv.written_stride[3];
}

struct patch_epilogue {
    float scale, shift;
};

template <typename T>
static __device__ __forceinline__ patch_epilogue patch_epilogue_of(const mma_conv &c,
                                                                   int64_t channel) {
    patch_epilogue made = {1.0f, 0.0f};
    if (c.scale != nullptr) {
        made.scale = (float)((const T *)c.scale)[channel * c.scale_stride];
    }
    if (c.shift != nullptr) {
        made.shift = (float)((const T *)c.shift)[channel * c.shift_stride];
    }
    return made;
}

/* One store each: the compiler would split some into four. */
static __device__ __forceinline__ void patch_store(float *to, const float (&value)[4]) {
    asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};\n" ::"l"(to), "f"(value[0]),
                 "f"(value[1]), "f"(value[2]), "f"(value[3])
                 : "memory");
}

static __device__ __forceinline__ void patch_store(uf_bf16 *to, const float (&value)[4]) {
    asm volatile("st.global.v2.b32 [%0], {%1, %2};\n" ::"l"(to),
                 "r"(uf_pack_bf16(value[0], value[1])), "r"(uf_pack_bf16(value[2], value[3]))
                 : "memory");
}

static __device__ __forceinline__ void patch_store(uf_bf16 *to, const float (&value)[8]) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};\n" ::"l"(to),
                 "r"(uf_pack_bf16(value[0], value[1])), "r"(uf_pack_bf16(value[2], value[3])),
                 "r"(uf_pack_bf16(value[4], value[5])), "r"(uf_pack_bf16(value[6], value[7]))
                 : "memory");
}

/* Stores neighbours of a channel after scale, shift and a cheap activation. */
template <int COUNT, typename T>
static __device__ __forceinline__ void patch_write_run(T *to, float (&value)[COUNT],
                                                       const patch_epilogue &epilogue, bool relu,
                                                       float slope) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        value[i] = value[i] * epilogue.scale + epilogue.shift;
        value[i] = value[i] < 0.0f ? (relu ? 0.0f : slope * value[i]) : value[i];
    }
    patch_store(to, value);
}

/* The addresses of a lane's four pixels in a group's first channel. */
template <typename Tile, int VECTORS>
struct patch_targets {
    static constexpr int RUN = VECTORS == PATCH_RUNS ? Tile::RUN : 1, STORES = 4 / RUN,
                         VALUES = RUN * Tile::SPREAD;
    typename Tile::stored *to[STORES];
    bool there[STORES];

    __device__ __forceinline__ patch_targets(const patch_conv &p, const patch_coord &at, int warp,
                                             int lane) {
        typedef typename Tile::stored T;
        const mma_conv &c = p.conv;
        T *const image = (T *)c.written + at.n * c.written_stride[0] +
                         (int64_t)at.group * c.written_per_group * c.written_stride[1];
#pragma unroll
        for (int store = 0; store < STORES; ++store) {
            const int pixel = store * RUN;
            const patch_pixel mine =
                patch_pixel_of(p, at, warp * 32 + patch_index<Tile>(lane, pixel >> 1, pixel & 1));
            there[store] = mine.there;
            to[store] = image + patch_offset(p, at, mine);
        }
    }

    /* Stores unit `unit`, the `index`th of a lane in `sums`. */
    template <typename Sums>
    __device__ __forceinline__ void write(const patch_conv &p, int32_t group, int32_t unit,
                                          int index, const Sums &sums) const {
        typedef typename Tile::stored T;
        const mma_conv &c = p.conv;
        if (unit >= p.plan.units) {
            return;
        }
        int32_t row, column;
        const int32_t channel = uf_patch_unit(&p.plan, unit, &row, &column);
        const int64_t offset = channel * c.written_stride[1] + row * c.written_stride[2] +
                               column * c.written_stride[3];
        const bool relu = c.activation == UF_ACTIVATION_RELU;
        const float slope = c.activation == UF_ACTIVATION_LEAKY_RELU ? c.parameter : 1.0f;
        patch_epilogue epilogue = {1.0f, 0.0f};
        if (!p.plain) {
            epilogue = patch_epilogue_of<T>(c, (int64_t)group * c.written_per_group + channel);
        }
#pragma unroll
        for (int store = 0; store < STORES; ++store) {
            float value[VALUES];
#pragma unroll
            for (int i = 0; i < VALUES; ++i) {
                const int pixel = store * RUN + i / Tile::SPREAD;
                value[i] =
                    sums.of[pixel >> 1][patch_sum_at<Tile>(index, pixel & 1, i % Tile::SPREAD)];
            }
            if (there[store] && p.plain) {
                patch_store(to[store] + offset, value);
            } else if (there[store]) {
                patch_write_run<VALUES>(to[store] + offset, value, epilogue, relu, slope);
            }
        }
    }
};

/* The same where units are channels (p.stepped): pointers step from channel to channel, which takes
 * few instructions per store. EPILOGUE: scale, shift or activation. */
template <typename Tile, bool EPILOGUE>
static __device__ __forceinline__ void patch_write_steps(const patch_conv &p, const patch_coord &at,
                                                         int warp, int32_t first, int lane,
                                                         const patch_sums<Tile> &sums) {
    typedef typename Tile::stored T;
    typedef patch_targets<Tile, PATCH_RUNS> targets;
    const mma_conv &c = p.conv;
    const targets mine(p, at, warp, lane);
    const int32_t channel = first + patch_unit<Tile>(lane, 0);
    const int32_t left = p.plan.units - channel;
    const int64_t step = c.written_stride[1];
    constexpr int BESIDE = Tile::SPREAD == 1 ? 2 : 1; /* neighbouring channels of a lane */
    constexpr int NEXT = Tile::SPREAD == 1 ? 8 : 4;   /* channels from these to its next ones */
    const bool relu = c.activation == UF_ACTIVATION_RELU;
    const float slope = c.activation == UF_ACTIVATION_LEAKY_RELU ? c.parameter : 1.0f;
    const int64_t of_all = (int64_t)at.group * c.written_per_group + channel;
    const T *scale = (const T *)c.scale + of_all * c.scale_stride;
    const T *shift = (const T *)c.shift + of_all * c.shift_stride;
    T *to[targets::STORES];
#pragma unroll
    for (int store = 0; store < targets::STORES; ++store) {
        to[store] = mine.to[store] + channel * step;
    }
    if (targets::STORES == 1 && !mine.there[0]) {
        return;
    }
#pragma unroll
    for (int index = 0; index < Tile::COLUMNS / (4 * Tile::SPREAD); ++index) {
        const int beside = index % BESIDE;
        patch_epilogue epilogue = {1.0f, 0.0f};
        if (patch_unit<Tile>(0, index) < left) {
            if (EPILOGUE && c.scale != nullptr) {
                epilogue.scale = (float)scale[beside * c.scale_stride];
            }
            if (EPILOGUE && c.shift != nullptr) {
                epilogue.shift = (float)shift[beside * c.shift_stride];
            }
#pragma unroll
            for (int store = 0; store < targets::STORES; ++store) {
                float value[targets::VALUES];
#pragma unroll
                for (int i = 0; i < targets::VALUES; ++i) {
                    const int pixel = store * targets::RUN + i / Tile::SPREAD;
                    value[i] =
                        sums.of[pixel >> 1][patch_sum_at<Tile>(index, pixel & 1, i % Tile::SPREAD)];
                }
                if (targets::STORES == 1 || mine.there[store]) {
                    T *const target = beside == 0 ? to[store] : to[store] + step;
                    if (EPILOGUE) {
                        patch_write_run<targets::VALUES>(target, value, epilogue, relu, slope);
                    } else {
                        patch_store(target, value);
                    }
                }
            }
        }
        if (beside == BESIDE - 1) {
#pragma unroll
            for (int store = 0; store < targets::STORES; ++store) {
                to[store] += NEXT * step;
            }
            scale += NEXT * c.scale_stride;
            shift += NEXT * c.shift_stride;
        }
    }
}

/* Stores straight from registers. PATCH_RUNS: 16 bytes a lane (bf16 of one column: 8); eight lanes
 * store 128 contiguous bytes. */
template <typename Tile, int VECTORS>
static __device__ __forceinline__ void patch_write_runs(const patch_conv &p, const patch_coord &at,
                                                        int warp, int32_t first, int lane,
                                                        const patch_sums<Tile> &sums) {
    const patch_targets<Tile, VECTORS> targets(p, at, warp, lane);
#pragma unroll
    for (int index = 0; index < Tile::COLUMNS / (4 * Tile::SPREAD); ++index) {
        targets.write(p, at.group, first + patch_unit<Tile>(lane, index), index, sums);
    }
}

/* The offset in a warp's staging of column `column` of eight and pixel `pixel`: no bank conflict,
 * neither in accumulator order nor in memory order. */
template <typename Tile>
static __device__ __forceinline__ int patch_staged_at(int column, int pixel) {
    const int pair = column >> 1;
    const int exchange = Tile::RUN == 4   ? pair
                         : Tile::RUN == 2 ? (pair & 1) + 16 * (pair >> 1)
                                          : 8 * pair;
    return column * 32 + (pixel ^ exchange);
}

/* Stores eight accumulators of each lane, [MMA][4] of `sums`, to shared memory. */
template <typename Tile>
static __device__ __forceinline__ void patch_stage(const float *first, const float *second,
                                                   int lane, float *staging) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        staging[patch_staged_at<Tile>(2 * (lane & 3) + (i & 1),
                                      patch_index<Tile>(lane, i >> 2, i >> 1 & 1))] =
            (i < 4 ? first : second)[i & 3];
    }
    __syncwarp();
}

/* All other stores: other activations, accumulation, unaligned rows. A warp's 32 pixels, one per
 * lane, of one column after the other. */
template <typename Tile>
struct patch_singly {
    typename Tile::stored *to;
    bool there;

    __device__ __forceinline__ patch_singly(const patch_conv &p, const patch_coord &at, int warp,
                                            int lane) {
        typedef typename Tile::stored T;
        const mma_conv &c = p.conv;
        const patch_pixel mine = patch_pixel_of(p, at, warp * 32 + lane);
        there = mine.there;
        to = (T *)c.written + at.n * c.written_stride[0] +
             (int64_t)at.group * c.written_per_group * c.written_stride[1] +
             patch_offset(p, at, mine);
    }

    /* The same where units are channels and the activation is cheap: eight independent stores,
     * after the loads of what they add to. */
    __device__ __forceinline__ void write_channels(const patch_conv &p, int32_t group,
                                                   int32_t first, int lane, int eight,
                                                   const float *staging) const {
        typedef typename Tile::stored T;
        const mma_conv &c = p.conv;
        constexpr int SPREAD = Tile::SPREAD,
                      COLUMNS = SPREAD == 1 ? 1 : 2; /* of a unit, in eight columns */
        const int32_t channel = first + (SPREAD == 4 ? 4 * (eight >> 1) : 8 / COLUMNS * eight);
        const int64_t over = SPREAD == 4 ? 2 * (eight & 1) : 0;
        const bool relu = c.activation == UF_ACTIVATION_RELU;
        const float slope = c.activation == UF_ACTIVATION_LEAKY_RELU ? c.parameter : 1.0f;
        float value[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            value[i] = staging[patch_staged_at<Tile>(i, lane)];
        }
        if (!p.plain) {
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const int32_t mine = channel + i / COLUMNS;
                if (mine < p.plan.units) {
                    const patch_epilogue epilogue =
                        patch_epilogue_of<T>(c, (int64_t)group * c.written_per_group + mine);
                    value[i] = value[i] * epilogue.scale + epilogue.shift;
                    value[i] = value[i] < 0.0f ? (relu ? 0.0f : slope * value[i]) : value[i];
                }
            }
        }
        if (c.accumulate) {
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const int32_t mine = channel + i / COLUMNS;
                if (there && mine < p.plan.units) {
                    value[i] += (float)
                        to[mine * c.written_stride[1] + (over + i % COLUMNS) * c.written_stride[3]];
                }
            }
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const int32_t mine = channel + i / COLUMNS;
            if (there && mine < p.plan.units) {
                to[mine * c.written_stride[1] + (over + i % COLUMNS) * c.written_stride[3]] =
                    (T)value[i];
            }
        }
    }

    /* Stores columns 8 * `eight` on of a tile whose first unit is `first`. */
    __device__ __forceinline__ void write(const patch_conv &p, int32_t group, int32_t first,
                                          int lane, int eight, const float *staging) const {
        typedef typename Tile::stored T;
        const mma_conv &c = p.conv;
        if ((p.cheap || (p.plain && c.accumulate)) && p.plan.fold == 1) {
            write_channels(p, group, first, lane, eight, staging);
            __syncwarp();
            return;
        }
#pragma unroll 1
        for (int i = 0; i < 8; ++i) {
            int32_t in_tile, over, row, column;
            uf_patch_column(&p.plan.tile, 8 * eight + i, &in_tile, &over);
            if (first + in_tile >= p.plan.units) {
                continue;
            }
            const int32_t channel = uf_patch_unit(&p.plan, first + in_tile, &row, &column);
            const patch_epilogue epilogue =
                patch_epilogue_of<T>(c, (int64_t)group * c.written_per_group + channel);
            T *const target = to + channel * c.written_stride[1] + row * c.written_stride[2] +
                              (column + over) * c.written_stride[3];
            const float value = uf_activate(
                c.activation,
                staging[patch_staged_at<Tile>(i, lane)] * epilogue.scale + epilogue.shift,
                c.parameter);
            if (there) {
                *target = (T)(c.accumulate ? (float)*target + value : value);
            }
        }
        __syncwarp(); /* before staging is overwritten */
    }
};

template <typename Tile>
static __device__ __forceinline__ void
patch_write_singly(const patch_conv &p, const patch_coord &at, int warp, int32_t first, int lane,
                   float *staging, const patch_sums<Tile> &sums) {
    const patch_singly<Tile> singly(p, at, warp, lane);
#pragma unroll 1
    for (int eight = 0; eight < Tile::COLUMNS / 8; ++eight) {
#define UF_PATCH_EIGHT(EIGHT)                                                                      \
    patch_stage<Tile>(sums.of[0] + 4 * ((EIGHT) % (Tile::COLUMNS / 8)),                            \
                      sums.of[1] + 4 * ((EIGHT) % (Tile::COLUMNS / 8)), lane, staging)
        UF_SWITCH_16(eight, UF_PATCH_EIGHT)
#undef UF_PATCH_EIGHT
        singly.write(p, at.group, first, lane, eight, staging);
    }
}

/* Units that are single columns, three or six over a pixel. Those over a warp's 32 pixels are
 * contiguous in memory, and lanes store them in that order from shared memory. */
template <typename Tile>
static __device__ __forceinline__ void
patch_write_threes(const patch_conv &p, const patch_coord &at, int warp, int lane, float *staging,
                   const patch_sums<Tile> &sums) {
    typedef typename Tile::stored T;
    const mma_conv &c = p.conv;
    constexpr int MOST = 6, EIGHTS = UF_PATCH_THREES / 8;
    const int across = p.plan.over[1];
    const patch_pixel mine = patch_pixel_of(p, at, warp * 32 + lane);
    const int64_t offset = patch_offset(p, at, mine);
    int64_t target[MOST];
    int pixel[MOST], column[MOST];
    bool there[MOST];
#pragma unroll
    for (int i = 0; i < MOST; ++i) {
        const int element_at = lane + 32 * i;
        pixel[i] = element_at / across;
        column[i] = element_at - pixel[i] * across;
        target[i] =
            __shfl_sync(0xffffffffu, offset, pixel[i] & 31) + column[i] * c.written_stride[3];
        there[i] = i < across && __shfl_sync(0xffffffffu, (int)mine.there, pixel[i] & 31) != 0;
    }
    const bool relu = c.activation == UF_ACTIVATION_RELU;
    const float slope = c.activation == UF_ACTIVATION_LEAKY_RELU ? c.parameter : 1.0f;
    const int32_t rows = p.plan.fold / across; /* contiguous rows of a channel */
    int32_t unit = at.unit, row, first_column;
    int32_t channel = uf_patch_unit(&p.plan, unit, &row, &first_column);
    T *to = (T *)c.written + at.n * c.written_stride[0] +
            ((int64_t)at.group * c.written_per_group + channel) * c.written_stride[1] +
            row * c.written_stride[2];
#pragma unroll 1
    for (int group = 0; group < Tile::COLUMNS / UF_PATCH_THREES; ++group) {
#define UF_PATCH_GROUP(GROUP)                                                                      \
    case GROUP:                                                                                    \
        patch_stage<Tile>(sums.of[0] + 4 * (3 * GROUP % (Tile::COLUMNS / 8)),                      \
                          sums.of[1] + 4 * (3 * GROUP % (Tile::COLUMNS / 8)), lane, staging);      \
        patch_stage<Tile>(sums.of[0] + 4 * ((3 * GROUP + 1) % (Tile::COLUMNS / 8)),                \
                          sums.of[1] + 4 * ((3 * GROUP + 1) % (Tile::COLUMNS / 8)), lane,          \
                          staging + 256);                                                          \
        patch_stage<Tile>(sums.of[0] + 4 * ((3 * GROUP + 2) % (Tile::COLUMNS / 8)),                \
                          sums.of[1] + 4 * ((3 * GROUP + 2) % (Tile::COLUMNS / 8)), lane,          \
                          staging + 512);                                                          \
        break;
        static_assert(EIGHTS == 3, "of a group");
        switch (group) {
            UF_PATCH_GROUP(0)
            UF_PATCH_GROUP(1)
            UF_PATCH_GROUP(2)
            UF_PATCH_GROUP(3)
            UF_PATCH_GROUP(4)
        default:
            break;
        }
#undef UF_PATCH_GROUP
#pragma unroll 1
        for (int first = 0; first < UF_PATCH_THREES && unit < p.plan.units; first += across) {
            float value[MOST];
#pragma unroll
            for (int i = 0; i < MOST; ++i) {
                const int staged = (first + column[i]) % UF_PATCH_THREES;
                value[i] =
                    staging[(staged & ~7) * 32 + patch_staged_at<Tile>(staged & 7, pixel[i] & 31)];
            }
            if (!p.plain) {
                const patch_epilogue epilogue =
                    patch_epilogue_of<T>(c, (int64_t)at.group * c.written_per_group + channel);
#pragma unroll
                for (int i = 0; i < MOST; ++i) {
                    value[i] = value[i] * epilogue.scale + epilogue.shift;
                    value[i] = p.cheap
                                   ? (value[i] < 0.0f ? (relu ? 0.0f : slope * value[i]) : value[i])
                                   : uf_activate(c.activation, value[i], c.parameter);
                }
            }
#pragma unroll
            for (int i = 0; i < MOST; ++i) {
                if (there[i]) {
                    T *const element = to + target[i];
                    *element = (T)(c.accumulate ? (float)*element + value[i] : value[i]);
                }
            }
            /* The next row of the channel, or the first of the next channel. */
            unit += across;
            if (++row == rows) {
                row = 0;
                ++channel;
                to += c.written_stride[1] - (rows - 1) * c.written_stride[2];
            } else {
                to += c.written_stride[2];
            }
        }
        __syncwarp(); /* before staging is overwritten */
    }
}

#endif

#endif
