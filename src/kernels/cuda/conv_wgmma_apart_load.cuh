/* conv_wgmma_apart_load.cuh - stages of conv_wgmma_apart.cuh: filled by one warp, read by lanes
 * into fragments. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_APART_LOAD_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_APART_LOAD_CUH

#include "kernels/cuda/conv_wgmma_apart_tile.cuh"
#include "kernels/cuda/mma_split.cuh"

#if UF_HAS_WGMMA

/* A run of a row of the read side under neighbouring pixels: where it begins in a channel's
 * plane, and how many pixels it is long. */
struct apart_run {
    int64_t from;
    int32_t first, pixels; /* from the tile's first on */
};

static __device__ __forceinline__ apart_run apart_run_of(const apart_conv &p, const apart_place &at,
                                                         int side, int32_t filter_row,
                                                         int32_t index, int32_t left) {
    apart_run made;
    const int32_t width = p.plan.width;
    if (p.plan.read_rows * side == 1) { /* planes are one run */
        made.from = at.pixel;
        made.first = 0;
        made.pixels = left;
        return made;
    }
    const int32_t row = at.pixel / width + index;
    const int32_t begin = row * width > at.pixel ? row * width : at.pixel;
    const int32_t end = (row + 1) * width < at.pixel + left ? (row + 1) * width : at.pixel + left;
    made.from = ((int64_t)row * p.plan.read_rows + filter_row) * p.conv.read_stride[2] +
                (begin - row * width) * side;
    made.first = begin - at.pixel;
    made.pixels = end - begin;
    return made;
}

/* One stage: some channels under the tile's pixels, of one filter row, and its weights. Channels
 * that are not there are zeros; pixels that are not there are not written. */
template <typename Tile>
static __device__ __forceinline__ void apart_fill(const apart_conv &p, const apart_place &at,
                                                  int32_t stage, uint32_t to, uint64_t *full,
                                                  int lane) {
    typedef typename Tile::stored T;
    const mma_conv &c = p.conv;
    const uf_apart_plan &plan = p.plan;
    const int32_t chunk = stage / plan.read_rows;
    const int32_t filter_row = stage - chunk * plan.read_rows;
    const int32_t first_channel = chunk * Tile::CHANNELS;
    const int32_t rest = c.read_per_group - first_channel;
    const int32_t channels = rest < Tile::CHANNELS ? rest : Tile::CHANNELS;
    const int32_t left =
        plan.pixels - at.pixel < UF_APART_PIXELS ? plan.pixels - at.pixel : UF_APART_PIXELS;
    const int32_t runs = plan.read_rows * Tile::SIDE == 1
                             ? 1
                             : (at.pixel + left - 1) / plan.width - at.pixel / plan.width + 1;
    const T *const from = (const T *)c.read + at.n * c.read_stride[0] +
                          ((int64_t)at.group * c.read_per_group + first_channel) * c.read_stride[1];
    if (channels < Tile::CHANNELS) {
        for (uint32_t i = (uint32_t)(channels * Tile::PITCH / 16 + lane); i < Tile::READ_BYTES / 16;
             i += 32) {
            asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};\n" ::"r"(to + i * 16), "r"(0)
                         : "memory");
        }
        uf_fence_async_shared(); /* before a later copy comes to the same place */
    }
    if (!p.bulk) {
        for (int32_t channel = 0; channel < channels; ++channel) {
            for (int32_t index = 0; index < runs; ++index) {
                const apart_run run = apart_run_of(p, at, Tile::SIDE, filter_row, index, left);
                const T *const source = from + channel * c.read_stride[1] + run.from;
                T *const target = (T *)__cvta_shared_to_generic(
                    to +
                    (uint32_t)(channel * Tile::PITCH + run.first * Tile::SIDE * Tile::ELEMENT));
                for (int32_t i = lane; i < run.pixels * Tile::SIDE; i += 32) {
                    target[i] = source[i];
                }
            }
        }
        uf_fence_async_shared();
    }
    __syncwarp();
    if (lane == 0) {
        const int32_t read = p.bulk ? channels * left * Tile::SIDE * Tile::ELEMENT : 0;
        uf_barrier_expect(full, (uint32_t)(read + Tile::WEIGHT_BYTES));
        uf_copy_bulk(
            to + Tile::READ_BYTES,
            (const char *)c.packed +
                (((int64_t)at.group * plan.column_tiles + at.column_tile) * plan.stages + stage) *
                    Tile::WEIGHT_BYTES,
            Tile::WEIGHT_BYTES, full);
    }
    __syncwarp();
    if (!p.bulk) {
        return;
    }
    if (runs == 1) {
        const apart_run run = apart_run_of(p, at, Tile::SIDE, filter_row, 0, left);
        for (int32_t channel = lane; channel < channels; channel += 32) {
            uf_copy_bulk(to + (uint32_t)(channel * Tile::PITCH),
                         from + channel * c.read_stride[1] + run.from,
                         (uint32_t)(run.pixels * Tile::SIDE * Tile::ELEMENT), full);
        }
        return;
    }
    for (int32_t i = lane; i < channels * runs; i += 32) {
        const int32_t channel = i / runs;
        const apart_run run = apart_run_of(p, at, Tile::SIDE, filter_row, i - channel * runs, left);
        uf_copy_bulk(to +
                         (uint32_t)(channel * Tile::PITCH + run.first * Tile::SIDE * Tile::ELEMENT),
                     from + channel * c.read_stride[1] + run.from,
                     (uint32_t)(run.pixels * Tile::SIDE * Tile::ELEMENT), full);
    }
}

template <typename Tile>
static __device__ __forceinline__ void apart_producer(const apart_conv &p,
                                                      const apart_shared &shared, int lane) {
    uf_ring stage = {0, 0};
#pragma unroll 1
    for (int32_t tile = (int32_t)blockIdx.x; tile < p.plan.tiles; tile += (int32_t)gridDim.x) {
        const apart_place at = apart_place_of(p, tile);
#pragma unroll 1
        for (int32_t i = 0; i < p.plan.stages; ++i) {
            uf_barrier_wait(shared.barriers->empty + stage.index, stage.parity ^ 1);
            apart_fill<Tile>(p, at, i, shared.stages + (uint32_t)stage.index * Tile::STAGE_BYTES,
                             shared.barriers->full + stage.index, lane);
            stage.next(p.plan.buffers);
        }
    }
}

static __device__ __forceinline__ void apart_load2(uint32_t from, uint32_t *words) {
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];\n"
                 : "=r"(words[0]), "=r"(words[1])
                 : "r"(from)
                 : "memory");
}

static __device__ __forceinline__ void apart_load4(uint32_t from, uint32_t *words) {
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(from)
                 : "memory");
}

/* Where in a stage the first word of this lane is: its channel of a unit (uf_apart_k), and the
 * first of its pixels. */
template <typename Tile>
static __device__ __forceinline__ uint32_t apart_lane_at(int warp, int lane) {
    const int value = lane & 3;
    const int channel =
        Tile::SIDE == 2 && Tile::ELEMENT == 4 ? (value & 1) + 4 * (value >> 1) : 2 * value;
    const int pixel = warp * 32 + apart_pixel<Tile>(lane, 0, 0);
    return (uint32_t)(channel * Tile::PITCH + pixel * Tile::SIDE * Tile::ELEMENT);
}

/* This lane's words of a stage, as they are. */
template <typename Tile>
static __device__ __forceinline__ void apart_load(uint32_t at, uint32_t (&word)[Tile::WORDS]) {
    constexpr int PITCH = Tile::PITCH;
#pragma unroll
    for (int step = 0; step < Tile::STEPS; ++step) {
        if (Tile::SIDE == 1 && Tile::BF16) { /* four channels of four pixels */
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const uint32_t from = at + (uint32_t)((step * 16 + (i & 1) + 8 * (i >> 1)) * PITCH);
                uint32_t *const to = word + step * (Tile::WORDS / Tile::STEPS) + i * Tile::ELEMENT;
                if (Tile::ELEMENT == 2) {
                    apart_load2(from, to);
                } else if (Tile::RUN == 4) {
                    apart_load4(from, to);
                } else {
                    apart_load2(from, to);
                    apart_load2(from + 16 * Tile::ELEMENT, to + 2);
                }
            }
        } else if (Tile::SIDE == 1) { /* two channels of four pixels */
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const uint32_t from = at + (uint32_t)((step * 8 + i) * PITCH);
                if (Tile::RUN == 4) {
                    apart_load4(from, word + step * 8 + i * 4);
                } else {
                    apart_load2(from, word + step * 8 + i * 4);
                    apart_load2(from + 16 * Tile::ELEMENT, word + step * 8 + i * 4 + 2);
                }
            }
        } else if (Tile::ELEMENT == 2) { /* two channels of four pixels, two columns each */
            apart_load4(at + (uint32_t)(step * 8 * PITCH), word + step * 8);
            apart_load4(at + (uint32_t)((step * 8 + 1) * PITCH), word + step * 8 + 4);
        } else { /* a channel of four pixels, two columns each; BF16 has another */
            constexpr int HALVES = Tile::BF16 ? 2 : 1;
#pragma unroll
            for (int half = 0; half < HALVES; ++half) {
                const int channel =
                    Tile::BF16 ? step * 8 + half * 2 : (step >> 1) * 8 + (step & 1) * 2;
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    apart_load4(at + (uint32_t)(channel * PITCH + i * 16),
                                word + (step * HALVES + half) * 8 + i * 4);
                }
            }
        }
    }
}

/* Word `reg` of the fragment of pixels `run` in step `step`: rows l/4 (reg 0, 2) and l/4 + 8, of
 * the first and the second half of K. As it is in f32, which is still to be rounded. */
template <typename Tile>
static __device__ __forceinline__ uint32_t apart_word(const uint32_t (&word)[Tile::WORDS], int step,
                                                      int run, int reg) {
    const int low = reg & 1, half = reg >> 1;
    if (Tile::SIDE == 1 && Tile::ELEMENT == 2) {
        const uint32_t a = word[step * 8 + half * 4 + run], b = word[step * 8 + half * 4 + 2 + run];
        return __byte_perm(a, b, low == 0 ? 0x5410 : 0x7632);
    }
    if (Tile::SIDE == 1 && Tile::BF16) {
        const int at = step * 16 + half * 8 + 2 * run + low;
        return uf_pack_bf16(__uint_as_float(word[at]), __uint_as_float(word[at + 4]));
    }
    if (Tile::SIDE == 1 || Tile::ELEMENT == 2) {
        return word[step * 8 + half * 4 + 2 * run + low];
    }
    if (Tile::BF16) {
        const int at = step * 16 + half * 8 + run * 4 + 2 * low;
        return uf_pack_bf16(__uint_as_float(word[at]), __uint_as_float(word[at + 1]));
    }
    return word[step * 8 + run * 4 + 2 * low + half];
}

#endif

#endif
