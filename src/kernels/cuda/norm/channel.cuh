/* channel.cuh - threads, loads and sums of kernels that follow a channel plan (channel_plan.h). */
#ifndef UF_KERNELS_CUDA_CHANNEL_CUH
#define UF_KERNELS_CUDA_CHANNEL_CUH

#include "kernels/cuda/device/vector.cuh"
#include "kernels/cuda/norm/channel_plan.h"

/* A tensor (N, C, H, W) as planes of vectors. A plane whose rows follow each other is one row. */
template <typename T>
struct uf_planes {
    T *data;
    int64_t image, channel, row, column; /* strides */
    int64_t step;                        /* a plan's step_images */
    int64_t width;                       /* elements of a row */
    bool whole;                          /* vectors are aligned and their elements side by side */
};

template <typename T>
static uf_planes<T> uf_planes_of(const uf_view &view, const uf_channel_plan &plan) {
    uf_planes<T> made;
    made.data = static_cast<T *>(view.data);
    made.image = view.stride[0];
    made.step = view.stride[0] * plan.step_images;
    made.channel = view.stride[1];
    made.row = view.stride[2];
    made.column = view.extent[3] > 1 ? view.stride[3] : view.extent[2] > 1 ? view.stride[2] : 1;
    const bool one_row = view.extent[2] == 1 || view.extent[3] == 1 ||
                         view.stride[2] == view.extent[3] * view.stride[3];
    made.width = one_row ? view.extent[2] * view.extent[3] : view.extent[3];
    made.whole = one_row && made.column == 1 &&
                 (view.extent[0] == 1 || view.stride[0] % plan.width == 0) &&
                 (view.extent[1] == 1 || view.stride[1] % plan.width == 0) &&
                 (uintptr_t)view.data % (sizeof(T) * (size_t)plan.width) == 0;
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

/* Vector `p` of the plane that begins at `plane`. WHOLE: the view is, and that is known. */
template <int WIDTH, bool WHOLE, typename T>
static __device__ __forceinline__ uf_pack<T, WIDTH> uf_load_vector(const uf_planes<T> &view,
                                                                   const T *plane, int64_t p) {
    uf_pack<T, WIDTH> made;
    if constexpr (WHOLE) {
        made = uf_load<T, WIDTH>(plane + p * WIDTH);
    } else {
        typedef typename uf_arithmetic<T>::type real;
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            const int64_t offset = uf_in_plane(p * WIDTH + j, view.width, view.row, view.column);
            made.set(j, (real)plane[offset]);
        }
    }
    return made;
}

template <int WIDTH, bool WHOLE, typename T>
static __device__ __forceinline__ void uf_store_vector(const uf_planes<T> &view, T *plane,
                                                       int64_t p, const uf_pack<T, WIDTH> &pack) {
    if constexpr (WHOLE) {
        uf_store<T, WIDTH>(plane + p * WIDTH, pack);
    } else {
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            const int64_t offset = uf_in_plane(p * WIDTH + j, view.width, view.row, view.column);
            plane[offset] = (T)pack.get(j);
        }
    }
}

/* A thread's place: its channel and piece, and its number among the threads that share them. */
struct uf_channel_thread {
    int64_t channel, piece;
    int32_t member, slot; /* slot: the channel's number in the block */
    bool works;           /* false beyond the last channel */
};

/* `block` is its number in a grid of groups*pieces. */
static __device__ __forceinline__ uf_channel_thread
uf_channel_thread_of(const uf_channel_plan &plan, int64_t channels, uint32_t block) {
    const int32_t t = (int32_t)threadIdx.x;
    const uint32_t piece = block / (uint32_t)plan.groups;
    uf_channel_thread made;
    made.slot = (t >> plan.lane_bits) & (plan.channels - 1);
    made.member = (t >> plan.unit_bits << plan.lane_bits) + (t & (plan.lanes - 1));
    made.channel = (int64_t)(block - piece * (uint32_t)plan.groups) * plan.channels + made.slot;
    made.piece = piece;
    made.works = made.channel < channels;
    return made;
}

/* A thread's way through a piece: its next vector, and how many there are from it on. */
struct uf_channel_walk {
    int64_t n, p;
    int32_t left; /* of UF_CHANNEL_PIECES pieces: more would fit into no memory */
};

/* A thread without work has no vector. */
static __device__ __forceinline__ uf_channel_walk uf_channel_begin(const uf_channel_plan &plan,
                                                                   const uf_channel_thread &me,
                                                                   int64_t piece) {
    const int64_t first = piece * uf_channel_piece(&plan) + me.member;
    const uf_channel_cursor at = uf_channel_at(&plan, first);
    uf_channel_walk made = {at.n, at.p, 0};
    if (me.works && first < plan.vectors) {
        const int64_t rest = plan.vectors - 1 - first;
        const int32_t team = uf_channel_team(&plan);
        /* 64-bit division is slow on a GPU. */
        const int64_t left =
            1 + (rest <= UINT32_MAX ? (int64_t)((uint32_t)rest / (uint32_t)team) : rest / team);
        made.left = (int32_t)(left < plan.steps ? left : plan.steps);
    }
    return made;
}

/* The plane of a walk's next vector in one tensor. */
template <typename T>
static __device__ __forceinline__ T *
uf_plane_of(const uf_planes<T> &view, const uf_channel_thread &me, const uf_channel_walk &walk) {
    return view.data + walk.n * view.image + me.channel * view.channel;
}

template <typename T>
static __device__ __forceinline__ T *uf_next_plane(const uf_planes<T> &view, T *plane, bool wraps) {
    return plane + (view.step + (wraps ? view.image : 0));
}

/* Two sums over the threads that share a channel, in each of them, in a fixed order: lanes of a
 * warp by halving distances, then warps one after the other. All threads of the block call it.
 * `shared` has UF_CHANNEL_BLOCK elements and is free again after the call. */
static __device__ __forceinline__ double2 uf_channel_sum2(const uf_channel_plan &plan,
                                                          const uf_channel_thread &me,
                                                          double2 value, double2 *shared) {
    enum { WARPS = UF_CHANNEL_BLOCK / 32 };
    const int32_t row_threads = 1 << plan.unit_bits;
#pragma unroll
    for (int32_t distance = 16; distance > 0; distance /= 2) {
        if (distance < plan.lanes || distance >= row_threads) {
            value.x += __shfl_xor_sync(0xffffffffu, value.x, distance);
            value.y += __shfl_xor_sync(0xffffffffu, value.y, distance);
        }
    }
    /* Parts that shuffles have left: of warps, or of rows where a row is several warps. */
    const int32_t t = (int32_t)threadIdx.x;
    const int32_t part_bits = plan.unit_bits < 5 ? 5 : plan.unit_bits;
    const int32_t parts = UF_CHANNEL_BLOCK >> part_bits;
    const int32_t in_part = t & ((1 << part_bits) - 1);
    if ((t & (plan.lanes - 1)) == 0 && in_part < row_threads) {
        shared[(t >> part_bits) * plan.channels + me.slot] = value;
    }
    __syncthreads();
    double2 total = shared[me.slot];
#pragma unroll
    for (int32_t part = 1; part < WARPS; ++part) {
        if (part < parts) {
            const double2 next = shared[part * plan.channels + me.slot];
            total.x += next.x;
            total.y += next.y;
        }
    }
    __syncthreads();
    return total;
}

#endif
