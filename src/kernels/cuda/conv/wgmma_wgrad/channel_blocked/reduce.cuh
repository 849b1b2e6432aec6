/* reduce.cuh - the split-K reduction of channel_blocked/launch.cu, split_f16/launch.cu and
 * wgmma_patch_gemm/wgrad: adds the sums of the splits in order, fixes what is not finite, writes w.
 */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_WGRAD_CHANNEL_BLOCKED_REDUCE_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_WGRAD_CHANNEL_BLOCKED_REDUCE_CUH

#include "kernels/cuda/conv/reduce/split_k.cuh"
#include "kernels/cuda/conv/wgmma_wgrad/channel_blocked/reduce.h"
#include "kernels/cuda/device/element.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/arch/sm90_wgmma.cuh"

enum {
    CHANNEL_BLOCKED_SPAN_WORDS =
        UF_CHANNEL_BLOCKED_LONG_ELEMENTS + 16, /* taps have a word of padding */
    CHANNEL_BLOCKED_ADD_RESIDENT = 8           /* most blocks of a multiprocessor */
};
static_assert((int)UF_CHANNEL_BLOCKED_ADD_THREADS == (int)UF_BLOCK,
              "the plan's threads are the kernel's");
static_assert(CHANNEL_BLOCKED_SPAN_WORDS >= UF_CHANNEL_BLOCKED_SPAN_ELEMENTS + 64,
              "64 taps have their padding");

/* The kernel's parameter: see uf_channel_blocked_reduction. */
struct channel_blocked_sums : wgrad_plan {
    int32_t span_log, spans;
    int32_t width_log;
    int32_t items;
    uint32_t inverse; /* i * inverse >> 16 is i / taps for the elements of a span */
    bool plain;       /* rows of w are contiguous */
    bool paired;      /* and bf16, and pairs of elements aligned: written two at a time */
    bool wide;        /* w is f32, whatever the type of its factors */
};

struct channel_blocked_four {
    uf_long_sum<float> sum[4];

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            sum[i].clear();
        }
    }
    __device__ __forceinline__ void add(const float4 &value) {
        sum[0].add(value.x);
        sum[1].add(value.y);
        sum[2].add(value.z);
        sum[3].add(value.w);
    }
    __device__ __forceinline__ float4 total() const {
        return make_float4(sum[0].total(), sum[1].total(), sum[2].total(), sum[3].total());
    }
};

/* An epilogue: of() maps a sum to an element of w; an element that kept() refuses is fixed up, by
 * the kernel itself or, with LATER, by another one that reads the marks. whole(): everything is
 * fixed up. This epilogue stores sums unchanged. */
struct channel_blocked_as_they_are {
    __device__ __forceinline__ void begin() {
    }
    __device__ __forceinline__ bool whole() const {
        return false;
    }
    __device__ __forceinline__ float of(float sum) const {
        return sum;
    }
    __device__ __forceinline__ bool kept(float, float value) const {
        return mma_finite(value);
    }
    static constexpr bool LATER = false;
    __device__ __forceinline__ void mark(int32_t, bool) const {
    }
};

/* Stores a span's results, (tap, channel) in shared memory, in the order of w: row k of a group,
 * from channel `first` on. W: the type of w. TOGETHER loads come before as many stores, or each
 * load would wait for the store before it. */
template <typename W, int TOGETHER>
static __device__ __forceinline__ void
channel_blocked_store(const channel_blocked_sums &p, const float *result, int32_t group, int32_t k,
                      int32_t first, int32_t span) {
    W *const row =
        (W *)p.w + ((int64_t)group * p.k_per_group + k) * p.w_stride[0] + first * p.w_stride[1];
    const int32_t there = (p.c_per_group - first < span ? p.c_per_group - first : span) * p.taps;
    if (sizeof(W) == 2 && p.paired) {
        for (int32_t i = 2 * (int32_t)threadIdx.x; i < there; i += 2 * UF_BLOCK) {
            uint32_t *const to = (uint32_t *)(row + i);
            float value[2];
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                const int32_t channel = (int32_t)((uint32_t)(i + j) * p.inverse >> 16);
                value[j] = result[(i + j - channel * p.taps) * (span + 1) + channel];
            }
            if (p.accumulate) {
                const uint32_t before = *to;
                value[0] += __uint_as_float(before << 16);
                value[1] += __uint_as_float(before & 0xffff0000u);
            }
            *to = uf_pack_bf16(value[0], value[1]);
        }
        __syncthreads();
        return;
    }
    for (int32_t mine = (int32_t)threadIdx.x; mine < there; mine += TOGETHER * UF_BLOCK) {
        W *to[TOGETHER];
        float value[TOGETHER];
#pragma unroll
        for (int j = 0; j < TOGETHER; ++j) {
            const int32_t i = mine + j * UF_BLOCK;
            const int32_t channel = (int32_t)((uint32_t)i * p.inverse >> 16);
            const int32_t tap = i - channel * p.taps;
            to[j] = row + i;
            if (!p.plain) {
                const int32_t r = tap / p.taps_w;
                to[j] = row + channel * p.w_stride[1] + r * p.w_stride[2] +
                        (tap - r * p.taps_w) * p.w_stride[3];
            }
            if (i < there) {
                value[j] = result[tap * (span + 1) + channel];
                value[j] = p.accumulate ? (float)*to[j] + value[j] : value[j];
            }
        }
#pragma unroll
        for (int j = 0; j < TOGETHER; ++j) {
            if (mine + j * UF_BLOCK < there) {
                *to[j] = (W)value[j];
            }
        }
    }
    __syncthreads();
}

/* Blocks walk over spans. `adders` threads share four neighbouring elements: each adds a run of
 * splits, and the first adds the runs, always in the same order. Shared memory transposes the
 * results to the order of w. T: the type of the factors; W: that of w. */
template <typename T, typename W, typename Epilogue>
static __global__ void __launch_bounds__(UF_BLOCK, 4)
    conv_wgrad_channel_blocked_add(const __grid_constant__ channel_blocked_sums p,
                                   Epilogue epilogue) {
    __shared__ float4 fours[UF_BLOCK];
    __shared__ float result[CHANNEL_BLOCKED_SPAN_WORDS];
    const int32_t slots = UF_BLOCK / p.adders;
    const int32_t slot = (int32_t)threadIdx.x % slots;
    float *const shared = (float *)fours;
    const int32_t adder = (int32_t)threadIdx.x / slots;
    const int32_t begin = (int32_t)((int64_t)adder * p.splits / p.adders);
    const int32_t end = (int32_t)((int64_t)(adder + 1) * p.splits / p.adders);
    const int32_t span = 1 << p.span_log;
    const int32_t elements = p.taps << p.span_log;
    const int64_t step = (int64_t)p.tiles * p.rows * p.columns;
    uf_overlap_launches();
    epilogue.begin();
#pragma unroll 1
    for (int32_t item = (int32_t)blockIdx.x; item < p.items; item += (int32_t)gridDim.x) {
        const int32_t line = item / p.spans;
        const int32_t first = (item - line * p.spans) << p.span_log;
        const int32_t group = line / p.k_per_group;
        const int32_t k = line - group * p.k_per_group;
        const float *const from =
            p.partial + begin * step +
            ((int64_t)(group * p.tiles_m + k / 64) * p.rows + k % 64) * p.columns;
        bool kept = true;
        if (Epilogue::LATER && epilogue.whole()) {
            epilogue.mark(item, true);
            continue;
        }
#pragma unroll 1
        for (int32_t together = 0; together < elements; together += slots * 4) {
            const int32_t element = together + slot * 4;
            const int32_t tap = element >> p.span_log;
            const int32_t channel = first + (element & (span - 1));
            const bool there = element < elements && channel < p.c_per_group;
            const float *at =
                from + (((channel >> p.width_log) * (p.taps - 1) + tap) << p.width_log) + channel;
            channel_blocked_four sum;
            sum.clear();
            if (there) {
#pragma unroll 8
                for (int32_t split = begin; split < end; ++split) {
                    sum.add(*(const float4 *)at);
                    at += step;
                }
            }
            float4 value = sum.total();
            if (p.adders > 1) {
                __syncthreads();
                fours[threadIdx.x] = value;
                __syncthreads();
                sum.clear();
                for (int32_t i = 0; i < p.adders; ++i) {
                    sum.add(fours[i * slots + slot]);
                }
                value = sum.total();
            }
            if (adder == 0 && there) {
                float *const to = result + element + tap;
                const int32_t left = p.c_per_group - channel; /* channels beyond are padding */
                to[0] = epilogue.of(value.x);
                to[1] = epilogue.of(value.y);
                to[2] = epilogue.of(value.z);
                to[3] = epilogue.of(value.w);
                kept = kept && epilogue.kept(value.x, to[0]) &&
                       (left < 2 || epilogue.kept(value.y, to[1])) &&
                       (left < 3 || epilogue.kept(value.z, to[2])) &&
                       (left < 4 || epilogue.kept(value.w, to[3]));
            }
        }
        const bool fixup = __syncthreads_or(!kept) != 0;
        if (Epilogue::LATER) {
            epilogue.mark(item, fixup);
            if (fixup) {
                continue; /* this span's results in shared memory have no reader */
            }
        } else if (fixup) {
            for (int32_t i = 0; i < elements; ++i) {
                const int32_t tap = i >> p.span_log;
                const int32_t channel = first + (i & (span - 1));
                if (!mma_finite(result[i + tap]) && channel < p.c_per_group) {
                    const wgrad_element at = {group, k, {0, 0, tap, channel, true}, true};
                    const float exact = uf_block_sum(wgrad_exact<T>(p, at), shared);
                    if (threadIdx.x == 0) {
                        result[i + tap] = exact;
                    }
                }
            }
            __syncthreads();
        }
        /* With an epilogue for later a second one would spill registers. */
        channel_blocked_store<W, Epilogue::LATER ? 1 : 2>(p, result, group, k, first, span);
    }
}

static inline channel_blocked_sums
channel_blocked_sums_of(const uf_conv_kernel_args *args,
                        const uf_channel_blocked_reduction &reduction, float *partial) {
    channel_blocked_sums w;
    memset((void *)&w, 0, sizeof w);
    (wgrad_plan &)w = uf_wgrad_begin(args);
    w.partial = partial;
    w.rows = reduction.rows;
    w.channel_blocks = reduction.channel_blocks;
    w.columns = w.all_columns = reduction.columns;
    w.channels = reduction.width;
    w.tiles_m = reduction.tiles_m;
    w.tiles_n = 1;
    w.tiles = reduction.tiles;
    w.splits = reduction.splits;
    w.adders = reduction.adders;
    w.width_log = reduction.width_log;
    w.span_log = reduction.span_log;
    w.spans = reduction.spans;
    w.items = reduction.items;
    w.inverse = 65535u / (uint32_t)w.taps + 1;
    w.plain = w.w_stride[3] == 1 && w.w_stride[2] == w.taps_w && w.w_stride[1] == w.taps;
    w.paired = w.plain && args->w.dtype == UF_BF16 && (uintptr_t)args->w.data % 4 == 0 &&
               w.w_stride[0] % 2 == 0 && w.c_per_group * w.taps % 2 == 0;
    w.wide = args->w.dtype == UF_F32;
    return w;
}

template <typename T, typename W, typename Epilogue>
static uf_status channel_blocked_add_with(uf_context *context, const channel_blocked_sums &sums,
                                          const Epilogue &epilogue) {
    const int32_t most = uf_cuda_gpu(context)->multiprocessors * CHANNEL_BLOCKED_ADD_RESIDENT;
    const uf_launch how = {dim3((unsigned)(sums.items < most ? sums.items : most)), UF_BLOCK};
    return uf_cuda_launch(context, "conv_wgrad_channel_blocked_add", how,
                          conv_wgrad_channel_blocked_add<T, W, Epilogue>, sums, epilogue);
}

/* The same without an epilogue; in channel_blocked/launch.cu, so that one object has these kernels.
 * T: float or uf_bf16, the type of the factors. */
template <typename T>
uf_status channel_blocked_add(uf_context *context, const channel_blocked_sums &sums);

#endif
