/* conv_wgrad_halves_pack.cuh - scales of conv_wgrad_halves.cu, and tensors of halves; elements that
 * are too small for these are counted. */
#ifndef UF_KERNELS_CUDA_CONV_WGRAD_HALVES_PACK_CUH
#define UF_KERNELS_CUDA_CONV_WGRAD_HALVES_PACK_CUH

#include "kernels/cuda/conv_wgrad_blocks.cuh"
#include "kernels/cuda/halves.cuh"

enum {
    HALVES_TOP_SAMPLED = 10,  /* exponent of the largest element of a sample, scaled */
    HALVES_LEAST = 113 << 23, /* bits of 2^-14: smaller ones have errors of up to 2^-37 */
    HALVES_GONE = 91 << 23    /* bits of 2^-36: even smaller ones may be zero */
};

/* What kernels of a call tell each other; zero at first. */
struct halves_state {
    uint32_t most[2];        /* bits of the largest element seen of x and y */
    uint32_t again;          /* something must be made again */
    uint32_t gone;           /* there are elements below HALVES_GONE, but not zero */
    unsigned long long tiny; /* elements below HALVES_LEAST, but not zero */
};

/* A tensor whose largest element is sought: as one span, or by its strides; all of it, or a sample
 * of `count` words of four elements (single ones, by strides). */
struct halves_tensor {
    const float *data;
    int64_t extent[4], stride[4];
    int64_t elements, count;
    bool dense, all;
};

/* log2 of what a tensor is multiplied by. Ordinary elements that the sample missed may be 16 times
 * as large as those that it has. */
static __device__ __forceinline__ int32_t halves_power(uint32_t most, bool all) {
    const int32_t top = all ? UF_HALVES_TOP : HALVES_TOP_SAMPLED;
    return most == 0 ? 0 : min(top - uf_halves_exponent(most), 126);
}

static __device__ __forceinline__ float halves_scale(uint32_t most, bool all) {
    return __uint_as_float(uf_halves_power(halves_power(most, all)));
}

/* Elements too small for their halves: how many, and whether there are some that may vanish. */
struct halves_lost {
    uint32_t tiny, gone;

    /* No branches: this is done among products. */
    template <int COUNT>
    __device__ __forceinline__ void see(const float (&value)[COUNT]) {
        uint32_t least = 0xffffffffu;
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            const uint32_t bits = (__float_as_uint(value[i]) & 0x7fffffffu) - 1;
            tiny += bits < HALVES_LEAST - 1 ? 1 : 0;
            least = min(least, bits);
        }
        gone |= least < HALVES_GONE - 1 ? 1 : 0;
    }

    /* All lanes of a warp. */
    __device__ __forceinline__ void tell(halves_state *state) const {
        uint32_t sum = tiny;
        for (int distance = 16; distance > 0; distance >>= 1) {
            sum += __shfl_xor_sync(0xffffffffu, sum, distance);
        }
        const bool any = __any_sync(0xffffffffu, gone != 0) != 0;
        if (sum != 0 && (threadIdx.x & 31) == 0) {
            atomicAdd(&state->tiny, (unsigned long long)sum);
            if (any) {
                atomicOr(&state->gone, 1u);
            }
        }
    }
};

/* ---- scales ---- */

static __device__ __forceinline__ uint32_t halves_size(float value) {
    const uint32_t bits = __float_as_uint(value) & 0x7fffffffu;
    return bits < 0x7f800000u ? bits : 0;
}

/* The largest finite element of each tensor, or of a sample of it: the first blocks look at x. */
static __global__ void __launch_bounds__(UF_BLOCK)
    conv_wgrad_halves_most(const __grid_constant__ halves_tensor x,
                           const __grid_constant__ halves_tensor y, int32_t x_blocks,
                           halves_state *state) {
    uf_launch_dependents();
    const bool of_x = (int32_t)blockIdx.x < x_blocks;
    const halves_tensor &t = of_x ? x : y;
    const int64_t first = ((int64_t)blockIdx.x - (of_x ? 0 : x_blocks)) * UF_BLOCK + threadIdx.x;
    const int64_t step = (int64_t)(of_x ? x_blocks : (int32_t)gridDim.x - x_blocks) * UF_BLOCK;
    uint32_t most = 0;
    if (t.dense) {
        const int64_t words = t.elements / 4;
        const bool aligned = (uintptr_t)t.data % 16 == 0;
        const double apart = t.all ? 1.0 : (double)words / (double)t.count;
#pragma unroll 4
        for (int64_t i = first; i < t.count; i += step) {
            const int64_t word = t.all ? i : (int64_t)((double)i * apart);
            const float *const at = t.data + 4 * word;
            if (aligned) {
                const float4 four = *(const float4 *)at;
                most = max(max(most, halves_size(four.x)), halves_size(four.y));
                most = max(max(most, halves_size(four.z)), halves_size(four.w));
            } else {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    most = max(most, halves_size(at[j]));
                }
            }
        }
        if (first < t.elements - 4 * words) {
            most = max(most, halves_size(t.data[4 * words + first]));
        }
    } else {
        for (int64_t i = first; i < t.count; i += step) {
            const int64_t element =
                t.all ? i : (int64_t)((double)i * ((double)t.elements / (double)t.count));
            const uf_position<int64_t> at =
                uf_locate<int64_t>(element, t.extent[1], t.extent[2], t.extent[3]);
            most = max(most, halves_size(t.data[at.n * t.stride[0] + at.c * t.stride[1] +
                                                at.h * t.stride[2] + at.w * t.stride[3]]));
        }
    }
    const uf_halves_range range = {most, 0xffffffffu};
    most = uf_halves_warp(range).largest;
    if (most != 0 && (threadIdx.x & 31) == 0) {
        atomicMax(&state->most[of_x ? 0 : 1], most);
    }
}

/* ---- packing ---- */

/* As conv_blocks_make, of f32: `planes` planes of big halves and as many of small ones. */
static __device__ __forceinline__ void halves_make(const conv_blocks &b, float scale, int32_t block,
                                                   halves_state *state) {
    const int32_t blocks_across = conv_blocks_across<UF_MATH_BF16>(b);
    const int32_t tasks = block / blocks_across;
    const uint32_t width = (uint32_t)(b.columns * b.mul[1]);
    const uint32_t height = (uint32_t)(b.rows * b.mul[0]);
    const uint32_t index = (uint32_t)(block - tasks * blocks_across) * UF_BLOCK + threadIdx.x;
    uint32_t rest = index / width;
    const int32_t w = (int32_t)(index - rest * width);
    const int32_t across = (int32_t)rest & ((1 << b.images_log[1]) - 1);
    rest >>= b.images_log[1];
    const int32_t beside = (int32_t)(rest / height);
    const int32_t h = (int32_t)(rest - (uint32_t)beside * height);
    const int32_t n = (beside << b.images_log[1]) + across;
    const int32_t y = h / b.mul[0], x = w / b.mul[1];
    const int32_t class_y = b.class_of[0][h - y * b.mul[0]];
    const int32_t class_x = b.class_of[1][w - x * b.mul[1]];
    const int32_t image_group = n >> (b.images_log[0] + b.images_log[1]);
    const bool wanted = image_group < b.image_groups && class_y >= 0 && class_x >= 0;
    const bool there = wanted && n < b.batch && h < b.extent[0] && w < b.extent[1];
    const int32_t down = beside & ((1 << b.images_log[0]) - 1);
    const int64_t position =
        ((((int64_t)image_group * b.rows + y) << b.images_log[0]) + down) * b.pitch +
        (x << b.images_log[1]) + across;
    const int32_t units = b.planes * 8 / CONV_BLOCKS_UNIT;
    const int32_t group = tasks / units;
    const int32_t first = (tasks - group * units) * CONV_BLOCKS_UNIT;
    const float *at =
        (const float *)b.from + (there ? n * b.stride[0] + h * b.stride[2] + w * b.stride[3] +
                                             ((int64_t)group * b.channels + first) * b.stride[1]
                                       : 0);
    float value[CONV_BLOCKS_UNIT];
    if (there && first + CONV_BLOCKS_UNIT <= b.channels) {
#pragma unroll
        for (int i = 0; i < CONV_BLOCKS_UNIT; ++i) {
            value[i] = *at * scale;
            at += b.stride[1];
        }
    } else {
#pragma unroll
        for (int i = 0; i < CONV_BLOCKS_UNIT; ++i) {
            value[i] = 0.0f;
            if (there && first + i < b.channels) {
                value[i] = *at * scale;
                at += b.stride[1];
            }
        }
    }
    if (wanted) {
        const int32_t klass = class_y * b.classes[1] + class_x;
        const int32_t classes = b.classes[0] * b.classes[1];
        uint4 *to = b.to +
                    ((int64_t)(group * classes + klass) * 2 * b.planes + first / 8) * b.plane +
                    position;
#pragma unroll
        for (int piece = 0; piece < CONV_BLOCKS_UNIT / 8; ++piece) {
            uint4 big, small;
            uf_halves_words(value + 8 * piece, 1.0f, &big, &small);
            to[0] = big;
            to[b.planes * b.plane] = small;
            to += b.plane;
        }
    }
    halves_lost lost = {0, 0};
    lost.see(value);
    if (__any_sync(0xffffffffu, lost.tiny != 0)) {
        lost.tell(state);
    }
}

static inline int64_t halves_count(const conv_blocks &b) {
    return (int64_t)conv_blocks_across<UF_MATH_BF16>(b) * (b.planes * 8 / CONV_BLOCKS_UNIT) *
           b.groups;
}

/* The first blocks make x, the others y. */
static __global__ void __launch_bounds__(UF_BLOCK)
    conv_wgrad_halves_pack(const __grid_constant__ conv_blocks x,
                           const __grid_constant__ conv_blocks y, int32_t x_blocks, bool x_all,
                           bool y_all, halves_state *state) {
    const int32_t block = (int32_t)blockIdx.x;
    uf_launch_dependents();
    uf_wait_for_launcher();
    if (block < x_blocks) {
        halves_make(x, halves_scale(__ldcg(&state->most[0]), x_all), block, state);
    } else {
        halves_make(y, halves_scale(__ldcg(&state->most[1]), y_all), block - x_blocks, state);
    }
}

#endif
