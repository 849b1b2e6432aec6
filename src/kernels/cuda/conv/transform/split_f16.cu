/* split_f16.cu - the pass over an MMA's two tensors that arch/split_f16.h needs: the largest and
 * the least element of each, by block. */
#include "kernels/cuda/arch/split_f16.cuh"

#include <cstring>

enum {
    FIND_THREADS = 512,
    FIND_AT_ONCE = 4,              /* 16-byte loads of a thread in flight */
    FIND_BLOCK = FIND_THREADS * 16 /* elements of a block, at least */
};

/* A tensor: one span of memory (dense), or strides. */
struct find_tensor {
    const float *data;
    int64_t count;
    int64_t extent[4], stride[4];
    bool dense;
};

/* Elements before the first 16 aligned bytes, whole words, and the others, by the threads of
 * `blocks` blocks. */
static __device__ __forceinline__ void find_span(const find_tensor &t, int32_t block,
                                                 int32_t blocks, uf_split_f16_range &range) {
    const int64_t to_aligned = (int64_t)((16 - ((uintptr_t)t.data & 15)) & 15) / 4;
    const int64_t head = to_aligned < t.count ? to_aligned : t.count;
    const int64_t words = (t.count - head) / 4;
    const float4 *const from = (const float4 *)(t.data + head);
    const int64_t step = (int64_t)blocks * FIND_THREADS;
    const int64_t thread = (int64_t)block * FIND_THREADS + threadIdx.x;
    int64_t i = thread;
    for (; i + (FIND_AT_ONCE - 1) * step < words; i += FIND_AT_ONCE * step) {
        float4 word[FIND_AT_ONCE];
#pragma unroll
        for (int j = 0; j < FIND_AT_ONCE; ++j) {
            word[j] = from[i + j * step];
        }
#pragma unroll
        for (int j = 0; j < FIND_AT_ONCE; ++j) {
            uf_split_f16_see(range, word[j].x);
            uf_split_f16_see(range, word[j].y);
            uf_split_f16_see(range, word[j].z);
            uf_split_f16_see(range, word[j].w);
        }
    }
    for (; i < words; i += step) {
        const float4 word = from[i];
        uf_split_f16_see(range, word.x);
        uf_split_f16_see(range, word.y);
        uf_split_f16_see(range, word.z);
        uf_split_f16_see(range, word.w);
    }
    if (thread < head) {
        uf_split_f16_see(range, t.data[thread]);
    }
    if (thread < t.count - head - words * 4) {
        uf_split_f16_see(range, t.data[head + words * 4 + thread]);
    }
}

template <typename I>
static __device__ __forceinline__ void find_elements(const find_tensor &t, int32_t block,
                                                     int32_t blocks, uf_split_f16_range &range) {
    const I step = (I)blocks * FIND_THREADS;
    for (I i = (I)block * FIND_THREADS + (I)threadIdx.x; i < (I)t.count; i += step) {
        const uf_position<I> at = uf_locate(i, (I)t.extent[1], (I)t.extent[2], (I)t.extent[3]);
        uf_split_f16_see(range, t.data[at.n * t.stride[0] + at.c * t.stride[1] +
                                       at.h * t.stride[2] + at.w * t.stride[3]]);
    }
}

static __global__ void __launch_bounds__(FIND_THREADS)
    split_f16_find(const __grid_constant__ find_tensor a, const __grid_constant__ find_tensor b,
                   uf_split_f16_found found) {
    __shared__ uf_split_f16_range shared[FIND_THREADS / 32];
    uf_overlap_launches();
    const int32_t block = (int32_t)blockIdx.x;
    const bool of_a = block < found.of_a;
    const find_tensor &t = of_a ? a : b;
    const int32_t mine = of_a ? block : block - found.of_a;
    const int32_t blocks = of_a ? found.of_a : found.all - found.of_a;
    uf_split_f16_range range = {0, 0xffffffffu};
    if (t.dense) {
        find_span(t, mine, blocks, range);
    } else if (t.count < (1 << 30)) {
        find_elements<int32_t>(t, mine, blocks, range);
    } else {
        find_elements<int64_t>(t, mine, blocks, range);
    }
    range = uf_split_f16_warp(range);
    if ((threadIdx.x & 31) == 0) {
        shared[threadIdx.x >> 5] = range;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        range = uf_split_f16_warp(shared[threadIdx.x % (FIND_THREADS / 32)]);
        if (threadIdx.x == 0) {
            found.range[block] = range;
        }
    }
}

static find_tensor find_tensor_of(const uf_view *view) {
    find_tensor made;
    memset((void *)&made, 0, sizeof made);
    made.data = (const float *)view->data;
    made.count = uf_view_count(view);
    for (int axis = 0; axis < 4; ++axis) {
        made.extent[axis] = view->extent[axis];
        made.stride[axis] = view->stride[axis];
    }
    made.dense = uf_split_f16_dense(view);
    return made;
}

uf_status uf_split_f16_find(uf_context *context, const uf_view *a, const uf_view *b, void *at,
                            uf_split_f16_found *found) {
    const find_tensor tensor_a = find_tensor_of(a), tensor_b = find_tensor_of(b);
    int64_t of_a = (tensor_a.count + FIND_BLOCK - 1) / FIND_BLOCK;
    int64_t of_b = (tensor_b.count + FIND_BLOCK - 1) / FIND_BLOCK;
    of_a = of_a < 1 ? 1 : of_a;
    of_b = of_b < 1 ? 1 : of_b;
    if (of_a + of_b > UF_SPLIT_F16_BLOCKS) {
        of_b = of_b * UF_SPLIT_F16_BLOCKS / (of_a + of_b);
        of_b = of_b < 1 ? 1 : of_b;
        of_b = of_b > UF_SPLIT_F16_BLOCKS - 1 ? UF_SPLIT_F16_BLOCKS - 1 : of_b;
        of_a = UF_SPLIT_F16_BLOCKS - of_b;
    }
    found->range = (uf_split_f16_range *)at;
    found->of_a = (int32_t)of_a;
    found->all = (int32_t)(of_a + of_b);
    return uf_cuda_launch(context, "split_f16_find", {dim3((unsigned)found->all), FIND_THREADS},
                          split_f16_find, tensor_a, tensor_b, *found);
}
