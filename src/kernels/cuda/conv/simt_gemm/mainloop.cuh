/* mainloop.cuh - the kernels of simt_gemm/launch.cu: a product of two matrices by multiply-adds,
 * and the sum of its splits. */
#ifndef UF_KERNELS_CUDA_CONV_SIMT_GEMM_MAINLOOP_CUH
#define UF_KERNELS_CUDA_CONV_SIMT_GEMM_MAINLOOP_CUH

#include "kernels/cuda/conv/simt_gemm/plan.h"
#include "kernels/cuda/device/element.cuh"
#include "kernels/cuda/elementwise/activation.cuh"

/* 2 x 4 warps of 32 x 16, 4 x 4 of it per lane: few blocks need many warps. */
enum { GEMM_THREADS = 256 };

/* Four elements as they are stored: the upcast waits for its load, so it comes last. */
template <typename T>
struct gemm_quad {
    typedef float4 type;
};

template <>
struct gemm_quad<uf_bf16> {
    typedef uint2 type;
};

static __device__ __forceinline__ float4 gemm_upcast(float4 quad) {
    return quad;
}

static __device__ __forceinline__ float4 gemm_upcast(uint2 quad) {
    return make_float4(__uint_as_float(quad.x << 16), __uint_as_float(quad.x & 0xffff0000u),
                       __uint_as_float(quad.y << 16), __uint_as_float(quad.y & 0xffff0000u));
}

static __device__ __forceinline__ float4 gemm_quad_of(float a, float b, float c, float d) {
    return make_float4(a, b, c, d);
}

static __device__ __forceinline__ uint2 gemm_quad_of(uint16_t a, uint16_t b, uint16_t c,
                                                     uint16_t d) {
    return make_uint2(a | (uint32_t)b << 16, c | (uint32_t)d << 16);
}

static __device__ __forceinline__ float gemm_bits(const float *from) {
    return *from;
}

static __device__ __forceinline__ uint16_t gemm_bits(const uf_bf16 *from) {
    return *(const uint16_t *)from;
}

static __device__ __forceinline__ void gemm_store4(float *to, float4 value) {
    *(float4 *)to = value;
}

static __device__ __forceinline__ void gemm_store4(uf_bf16 *to, float4 value) {
    *(uint2 *)to = make_uint2(uf_pack_bf16(value.x, value.y), uf_pack_bf16(value.z, value.w));
}

/* Up to four elements that lie `step` apart, zeros beyond `count`. */
template <typename T>
static __device__ __forceinline__ typename gemm_quad<T>::type
gemm_fetch(const T *from, int64_t step, bool vector, int32_t count) {
    typedef decltype(gemm_bits(from)) bits;
    if (vector && count >= 4) {
        return __ldg((const typename gemm_quad<T>::type *)from);
    }
    const bits zero = 0;
    return gemm_quad_of(count > 0 ? gemm_bits(from) : zero,
                        count > 1 ? gemm_bits(from + step) : zero,
                        count > 2 ? gemm_bits(from + 2 * step) : zero,
                        count > 3 ? gemm_bits(from + 3 * step) : zero);
}

/* In shared memory an operand is [depth][64], quads of neighbours at quad ^ (depth / 4 mod 8): then
 * neither transposed stores nor loads meet a bank twice. */
static __device__ __forceinline__ int32_t gemm_coord(int32_t depth, int32_t across) {
    return depth * GEMM_TILE + (across ^ (depth & 28));
}

/* This thread's part of an operand's next GEMM_DEPTH x 64. DEEP: neighbours in memory follow each
 * other in the sum. */
template <typename T, bool DEEP>
struct gemm_producer {
    static constexpr int QUADS = GEMM_TILE * GEMM_DEPTH / 4 / GEMM_THREADS;
    static constexpr int NEXT = (DEEP ? GEMM_TILE : GEMM_DEPTH) / QUADS; /* from quad to quad */
    const T *from;
    int64_t across_step, deep_step;
    int32_t across, deep; /* of the first quad */
    int32_t left;         /* rows or columns from `across` on */
    bool vector;
    typename gemm_quad<T>::type quad[QUADS];

    __device__ __forceinline__ gemm_producer(const gemm_operand &operand, int32_t group,
                                             int32_t first, int32_t extent) {
        const int32_t thread = (int32_t)threadIdx.x;
        across = DEEP ? thread >> 3 : (thread & 15) * 4;
        deep = DEEP ? (thread & 7) * 4 : thread >> 4;
        across_step = operand.across;
        deep_step = operand.deep;
        vector = operand.vector;
        left = extent - first - across;
        from = (const T *)operand.data + group * operand.group +
               (int64_t)(first + across) * across_step;
    }

    __device__ __forceinline__ void fetch(int32_t begin, int32_t end) {
        const T *at = from + (int64_t)(begin + deep) * deep_step;
#pragma unroll
        for (int i = 0; i < QUADS; ++i) {
            if (DEEP) {
                const int32_t count = i * NEXT < left ? end - begin - deep : 0;
                quad[i] = gemm_fetch(at, deep_step, vector, count);
                at += NEXT * across_step;
            } else {
                const int32_t count = begin + deep + i * NEXT < end ? left : 0;
                quad[i] = gemm_fetch(at, across_step, vector, count);
                at += NEXT * deep_step;
            }
        }
    }

    __device__ __forceinline__ void store_word(float *shared) const {
#pragma unroll
        for (int i = 0; i < QUADS; ++i) {
            const float4 four = gemm_upcast(quad[i]);
            if (DEEP) {
                const int32_t coord = gemm_coord(deep, across + NEXT * i);
                shared[coord] = four.x;
                shared[coord + GEMM_TILE] = four.y;
                shared[coord + 2 * GEMM_TILE] = four.z;
                shared[coord + 3 * GEMM_TILE] = four.w;
            } else {
                *(float4 *)(shared + gemm_coord(deep + NEXT * i, across)) = four;
            }
        }
    }
};

/* Not inlined: copies of every activation would not fit the instruction cache. */
static __device__ __noinline__ float gemm_activate(uf_activation_kind kind, float value,
                                                   float parameter) {
    return uf_activate(kind, value, parameter);
}

/* Stores up to four sums of neighbouring columns of a row. */
template <typename T>
static __device__ __forceinline__ void gemm_write(const gemm_call &p, int32_t group, int32_t row,
                                                  int32_t column, float4 four) {
    float value[4] = {four.x, four.y, four.z, four.w};
    T *const to = (T *)p.c + group * p.c_group + row * p.c_row + column * p.c_column;
    const int32_t count = p.n - column;
    if (p.scale != nullptr || p.shift != nullptr) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int64_t channel =
                ((int64_t)group * p.n + min(column + i, p.n - 1)) / p.per_channel;
            const float scale =
                p.scale != nullptr ? (float)((const T *)p.scale)[channel * p.scale_stride] : 1.0f;
            const float shift =
                p.shift != nullptr ? (float)((const T *)p.shift)[channel * p.shift_stride] : 0.0f;
            value[i] = fmaf(value[i], scale, shift);
        }
    }
    if (p.activation != UF_ACTIVATION_IDENTITY) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            value[i] = gemm_activate(p.activation, value[i], p.parameter);
        }
    }
    if (p.accumulate) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            value[i] += i < count ? (float)to[i * p.c_column] : 0.0f;
        }
    }
    if (p.c_vector && count >= 4) {
        gemm_store4(to, make_float4(value[0], value[1], value[2], value[3]));
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (i < count) {
                to[i * p.c_column] = (T)value[i];
            }
        }
    }
}

template <typename T, bool A_DEEP, bool B_DEEP>
static __global__ void __launch_bounds__(GEMM_THREADS, 2)
    conv_gemm(const __grid_constant__ gemm_call p) {
    __shared__ __align__(16) float shared[2][2][GEMM_DEPTH * GEMM_TILE];
    int32_t rest = (int32_t)blockIdx.x;
    const int32_t tile_m = rest % p.tiles_m;
    rest /= p.tiles_m;
    const int32_t tile_n = rest % p.tiles_n;
    rest /= p.tiles_n;
    const int32_t split = rest % p.splits;
    const int32_t group = rest / p.splits;
    const int32_t begin = split * p.split_depth;
    const int32_t end = min(begin + p.split_depth, p.k);

    uf_overlap_launches();
    gemm_producer<T, A_DEEP> a(p.a, group, tile_m * GEMM_TILE, p.m);
    gemm_producer<T, B_DEEP> b(p.b, group, tile_n * GEMM_TILE, p.n);
    a.fetch(begin, end);
    b.fetch(begin, end);

    const int32_t lane = (int32_t)threadIdx.x & 31;
    const int32_t warp = (int32_t)threadIdx.x >> 5;
    const int32_t row = (warp & 1) * 32 + (lane & 7) * 4;
    const int32_t column = (warp >> 1) * 16 + (lane >> 3) * 4;
    float sum[4][4] = {};
    int buffer = 0;
    for (int32_t at = begin; at < end; at += GEMM_DEPTH) {
        float *const rows = shared[buffer][0], *const columns = shared[buffer][1];
        a.store_word(rows);
        b.store_word(columns);
        if (at + GEMM_DEPTH < end) {
            a.fetch(at + GEMM_DEPTH, end);
            b.fetch(at + GEMM_DEPTH, end);
        }
        __syncthreads(); /* one is enough: a buffer is written again only behind the next */
        const int32_t depth =
            min(end - at, (int32_t)GEMM_DEPTH); /* beyond: zeros up to the next four */
#pragma unroll 2
        for (int32_t k = 0; k < depth; k += 4) {
            const int32_t turn = k & 28;
            const float *const left = rows + k * GEMM_TILE + (row ^ turn);
            const float *const right = columns + k * GEMM_TILE + (column ^ turn);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float4 down = *(const float4 *)(left + i * GEMM_TILE);
                const float4 by = *(const float4 *)(right + i * GEMM_TILE);
                const float factor[4] = {down.x, down.y, down.z, down.w};
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    sum[j][0] = fmaf(factor[j], by.x, sum[j][0]);
                    sum[j][1] = fmaf(factor[j], by.y, sum[j][1]);
                    sum[j][2] = fmaf(factor[j], by.z, sum[j][2]);
                    sum[j][3] = fmaf(factor[j], by.w, sum[j][3]);
                }
            }
        }
        buffer ^= 1;
    }

    /* Through shared memory: the epilogue is a loop, so that its code exists once. */
    __syncthreads();
    float *const stage = shared[0][0];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        *(float4 *)(stage + (row + j) * (GEMM_TILE + 4) + column) =
            make_float4(sum[j][0], sum[j][1], sum[j][2], sum[j][3]);
    }
    __syncthreads();
    const int32_t out_column = (int32_t)threadIdx.x % 16 * 4;
    const int32_t n = tile_n * GEMM_TILE + out_column;
    if (n >= p.n) {
        return;
    }
#pragma unroll 1
    for (int32_t out_row = (int32_t)threadIdx.x / 16; out_row < GEMM_TILE;
         out_row += GEMM_THREADS / 16) {
        const int32_t m = tile_m * GEMM_TILE + out_row;
        if (m >= p.m) {
            return;
        }
        const float4 four = *(const float4 *)(stage + out_row * (GEMM_TILE + 4) + out_column);
        if (p.splits == 1) {
            gemm_write<T>(p, group, m, n, four);
            continue;
        }
        float *const to = p.partial + (((int64_t)split * p.groups + group) * p.m + m) * p.n + n;
        if (p.n % 4 == 0) {
            *(float4 *)to = four;
        } else {
            const float value[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                if (n + i < p.n) {
                    to[i] = value[i];
                }
            }
        }
    }
}

enum { GEMM_ADDERS = 8 }; /* threads that share an element's splits, where there are more */

/* The splits of an element, those of each of its ADDERS threads in order, then threads in order. Up
 * to GEMM_ADDERS splits are added in the same order by one thread. */
template <typename T, int ADDERS>
static __global__ void __launch_bounds__(256) conv_gemm_add(const __grid_constant__ gemm_call p) {
    constexpr int ELEMENTS = 256 / ADDERS;
    __shared__ float shared[ADDERS][ELEMENTS];
    const int32_t lane = (int32_t)threadIdx.x % ELEMENTS;
    const int32_t adder = (int32_t)threadIdx.x / ELEMENTS;
    const int64_t size = (int64_t)p.groups * p.m * p.n;
    const int64_t element = (int64_t)blockIdx.x * ELEMENTS + lane;
    float sum = 0.0f;
    uf_overlap_launches();
    if (element < size) {
#pragma unroll 8
        for (int32_t split = adder; split < p.splits; split += ADDERS) {
            sum += p.partial[split * size + element];
        }
    }
    if (ADDERS > 1) {
        shared[adder][lane] = sum;
        __syncthreads();
    }
    if (adder > 0 || element >= size) {
        return;
    }
#pragma unroll
    for (int i = 1; i < ADDERS; ++i) {
        sum += shared[i][lane];
    }
    const int64_t row = element / p.n;
    const int32_t group = (int32_t)(row / p.m);
    const int32_t m = (int32_t)(row - (int64_t)group * p.m);
    const int32_t n = (int32_t)(element - row * p.n);
    T *const to = (T *)p.c + group * p.c_group + m * p.c_row + n * p.c_column;
    const int64_t channel = ((int64_t)group * p.n + n) / p.per_channel;
    const float scale =
        p.scale != nullptr ? (float)((const T *)p.scale)[channel * p.scale_stride] : 1.0f;
    const float shift =
        p.shift != nullptr ? (float)((const T *)p.shift)[channel * p.shift_stride] : 0.0f;
    float value = fmaf(sum, scale, shift);
    if (p.activation != UF_ACTIVATION_IDENTITY) {
        value = gemm_activate(p.activation, value, p.parameter);
    }
    *to = (T)(p.accumulate ? (float)*to + value : value);
}

#endif
