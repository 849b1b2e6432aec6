/* channel.cuh - threads, loads and sums of kernels that follow a channel plan (channel_plan.h). */
#ifndef UF_KERNELS_CUDA_CHANNEL_CUH
#define UF_KERNELS_CUDA_CHANNEL_CUH

#include "kernels/cuda/device/vector.cuh"
#include "kernels/cuda/elementwise/channel_plan.h"

/* A tensor (N, C, H, W) as planes of vectors. A plane whose rows follow each other is one row. */
template <typename T>
struct uf_planes {
    T *data;
    int64_t image, channel, row, column; /* strides */
    int64_t width;                       /* elements of a row */
    bool whole;                          /* vectors are aligned and their elements side by side */
};

template <typename T>
static uf_planes<T> uf_planes_of(const uf_view &view, const uf_channel_plan &plan) {
    uf_planes<T> made;
    made.data = static_cast<T *>(view.data);
    made.image = view.stride[0];
    made.channel = view.stride[1];
    made.row = view.stride[2];
    made.column = view.extent[3] > 1 ? view.stride[3] : view.extent[2] > 1 ? view.stride[2] : 1;
    const bool one_row = view.extent[2] == 1 || view.extent[3] == 1 ||
                         view.stride[2] == view.extent[3] * view.stride[3];
    made.width = one_row ? view.extent[2] * view.extent[3] : view.extent[3];
    made.whole = plan.width == 1 || (one_row && made.column == 1 &&
                                     (view.extent[0] == 1 || view.stride[0] % plan.width == 0) &&
                                     (view.extent[1] == 1 || view.stride[1] % plan.width == 0) &&
                                     (uintptr_t)view.data % (sizeof(T) * (size_t)plan.width) == 0);
    return made;
}

/* The offset of element `e` in its plane. Not inlined: it is for views whose vectors are not whole,
 * and each vector of a thread would have a copy. */
static __device__ __noinline__ int64_t uf_in_plane(int64_t e, int64_t width, int64_t row,
                                                   int64_t column) {
    if (e < width) {
        return e * column;
    }
    const int64_t h = e <= UINT32_MAX ? (int64_t)((uint32_t)e / (uint32_t)width) : e / width;
    return h * row + (e - h * width) * column;
}

template <typename T>
static __device__ __forceinline__ T *uf_plane_at(const uf_planes<T> &view, int64_t channel,
                                                 int64_t image) {
    return view.data + image * view.image + channel * view.channel;
}

template <int WIDTH, typename T>
static __device__ __forceinline__ uf_pack<T, WIDTH>
uf_load_vector(const uf_planes<T> &view, int64_t channel, const uf_channel_cursor &at) {
    const T *const plane = uf_plane_at(view, channel, at.n);
    if (WIDTH > 1 && view.whole) {
        return uf_load<T, WIDTH>(plane + at.p * WIDTH);
    }
    typedef typename uf_arithmetic<T>::type real;
    uf_pack<T, WIDTH> made;
#pragma unroll
    for (int j = 0; j < WIDTH; ++j) {
        const int64_t offset = uf_in_plane(at.p * WIDTH + j, view.width, view.row, view.column);
        made.set(j, (real)plane[offset]);
    }
    return made;
}

template <int WIDTH, typename T>
static __device__ __forceinline__ void uf_store_vector(const uf_planes<T> &view, int64_t channel,
                                                       const uf_channel_cursor &at,
                                                       const uf_pack<T, WIDTH> &pack) {
    T *const plane = uf_plane_at(view, channel, at.n);
    if (WIDTH > 1 && view.whole) {
        uf_store<T, WIDTH>(plane + at.p * WIDTH, pack);
        return;
    }
#pragma unroll
    for (int j = 0; j < WIDTH; ++j) {
        const int64_t offset = uf_in_plane(at.p * WIDTH + j, view.width, view.row, view.column);
        plane[offset] = (T)pack.get(j);
    }
}

/* A thread's place: its channel and piece, and its number among the threads that share them. */
struct uf_channel_thread {
    int64_t channel, piece;
    int32_t member, slot; /* slot: the channel's number in the block */
    bool works;           /* false beyond the last channel */
};

static __device__ __forceinline__ uf_channel_thread
uf_channel_thread_of(const uf_channel_plan &plan, int64_t channels) {
    const int32_t t = (int32_t)threadIdx.x;
    const int32_t unit = t / plan.lanes;
    const uint32_t piece = blockIdx.x / (uint32_t)plan.groups;
    uf_channel_thread made;
    made.slot = unit % plan.channels;
    made.member = unit / plan.channels * plan.lanes + t % plan.lanes;
    made.channel =
        (int64_t)(blockIdx.x - piece * (uint32_t)plan.groups) * plan.channels + made.slot;
    made.piece = piece;
    made.works = made.channel < channels;
    return made;
}

/* The first vector of a thread in a piece. A thread without work begins behind the last one. */
static __device__ __forceinline__ uf_channel_cursor uf_channel_begin(const uf_channel_plan &plan,
                                                                     const uf_channel_thread &me,
                                                                     int64_t piece) {
    const int64_t first = piece * uf_channel_piece(&plan) + me.member;
    return uf_channel_at(&plan, me.works ? first : plan.vectors);
}

/* Two sums over the threads that share a channel, in each of them, in a fixed order: lanes of a
 * warp by halving distances, then warps one after the other. All threads of the block call it.
 * `shared` has UF_CHANNEL_BLOCK elements and is free again after the call. */
static __device__ __forceinline__ double2 uf_channel_sum2(const uf_channel_plan &plan,
                                                          const uf_channel_thread &me,
                                                          double2 value, double2 *shared) {
    const int32_t row_threads = plan.lanes * plan.channels;
    for (int32_t distance = 16; distance > 0; distance /= 2) {
        if (distance < plan.lanes || (distance >= row_threads)) {
            value.x += __shfl_xor_sync(0xffffffffu, value.x, distance);
            value.y += __shfl_xor_sync(0xffffffffu, value.y, distance);
        }
    }
    const int32_t t = (int32_t)threadIdx.x;
    const int32_t unit = t / plan.lanes;
    const int32_t row = unit / plan.channels;
    const int32_t rows_of_warp = row_threads < 32 ? 32 / row_threads : 1;
    if (t % plan.lanes == 0 && row % rows_of_warp == 0) {
        shared[row / rows_of_warp * plan.channels + me.slot] = value;
    }
    __syncthreads();
    double2 total = shared[me.slot];
    for (int32_t part = 1; part < plan.rows / rows_of_warp; ++part) {
        const double2 next = shared[part * plan.channels + me.slot];
        total.x += next.x;
        total.y += next.y;
    }
    __syncthreads();
    return total;
}

#endif
