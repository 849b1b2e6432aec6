/* embedding.cu - rows of a matrix chosen by indices. Forward: a thread writes a pack of one row;
 * bound by memory.
 *
 * Backward: a warp owns a row of the gradient and WARP_COLUMNS of its columns, a block WARPS such
 * rows. The block walks all indices; each warp picks those of its row, in ascending order, and adds
 * in f64, without atomics and without memory of its own. The walk reads 8 bytes of each index once
 * for WARPS rows and WARP_COLUMNS columns: ceil(count / 8) * ceil(width / 128) times, from L2. Rows
 * of one index are added by one warp, AHEAD loads at a time. */
#include "kernels/cuda/device/vector.cuh"

enum {
    WARPS = UF_BLOCK / 32,
    LANE_COLUMNS = 4, /* 32 apart */
    WARP_COLUMNS = 32 * LANE_COLUMNS,
    AHEAD = 4
};

template <typename T, typename I, int COUNT>
static __global__ void __launch_bounds__(UF_BLOCK)
    embedding_forward(const int64_t *indices, const typename uf_arithmetic<T>::type *weight,
                      T *output, int64_t rows, I packs_of_a_row, I packs) {
    typedef typename uf_arithmetic<T>::type R;
    uf_overlap_launches();
    UF_EACH(I, i, packs) {
        const I row = i / packs_of_a_row;
        const int64_t index = indices[row];
        uf_pack<R, COUNT> from;
        uf_pack<T, COUNT> to = uf_pack<T, COUNT>();
        const bool legal = index >= 0 && index < rows;
        if (legal) {
            from = uf_load<R, COUNT>(weight +
                                     (index * packs_of_a_row + (i - row * packs_of_a_row)) * COUNT);
        }
#pragma unroll
        for (int k = 0; k < COUNT; ++k) {
            to.set(k, legal ? from.get(k) : (R)NAN);
        }
        uf_store<T, COUNT>(output + (int64_t)i * COUNT, to);
    }
}

/* Grid: x over blocks of WARPS rows, y over columns. */
template <typename T>
static __global__ void __launch_bounds__(UF_BLOCK)
    embedding_backward(const int64_t *indices, int64_t index_count, const T *grad_output,
                       typename uf_arithmetic<T>::type *grad_weight, int64_t rows, int64_t width,
                       bool accumulate) {
    typedef typename uf_arithmetic<T>::type R;
    __shared__ int64_t chunk[UF_BLOCK];
    const int lane = (int)threadIdx.x % 32;
    uf_overlap_launches();
    for (int64_t block = blockIdx.x; block * WARPS < rows; block += gridDim.x) {
        const int64_t row = block * WARPS + threadIdx.x / 32;
        for (int64_t first = (int64_t)blockIdx.y * WARP_COLUMNS; first < width;
             first += (int64_t)gridDim.y * WARP_COLUMNS) {
            double sum[LANE_COLUMNS] = {};
            for (int64_t begin = 0; begin < index_count; begin += UF_BLOCK) {
                const int64_t own = begin + threadIdx.x;
                __syncthreads(); /* the last chunk has been read */
                chunk[threadIdx.x] = own < index_count ? indices[own] : -1;
                __syncthreads();
                for (int group = 0; group < UF_BLOCK; group += 32) {
                    unsigned found = __ballot_sync(0xffffffffu, chunk[group + lane] == row);
                    while (found != 0) {
                        R value[AHEAD][LANE_COLUMNS];
#pragma unroll
                        for (int a = 0; a < AHEAD; ++a) {
                            const int64_t i = begin + group + (__ffs((int)found) - 1);
#pragma unroll
                            for (int c = 0; c < LANE_COLUMNS; ++c) {
                                const int64_t column = first + 32 * c + lane;
                                value[a][c] = found != 0 && column < width
                                                  ? (R)grad_output[i * width + column]
                                                  : (R)0;
                            }
                            found &= found - 1;
                        }
#pragma unroll
                        for (int a = 0; a < AHEAD; ++a) {
#pragma unroll
                            for (int c = 0; c < LANE_COLUMNS; ++c) {
                                sum[c] += (double)value[a][c];
                            }
                        }
                    }
                }
            }
#pragma unroll
            for (int c = 0; c < LANE_COLUMNS; ++c) {
                const int64_t column = first + 32 * c + lane;
                if (row < rows && column < width) {
                    R *const to = grad_weight + row * width + column;
                    *to = accumulate ? *to + (R)sum[c] : (R)sum[c];
                }
            }
        }
    }
}

template <typename T, typename I, int COUNT>
static uf_status run_forward(uf_context *context, const uf_embedding_kernel_args *args) {
    typedef typename uf_arithmetic<T>::type R;
    const int64_t packs = uf_view_count(&args->output) / COUNT;
    return uf_cuda_launch(context, "embedding_forward", {dim3(uf_blocks(packs)), UF_BLOCK},
                          embedding_forward<T, I, COUNT>, (const int64_t *)args->indices.data,
                          (const R *)args->weight.data, (T *)args->output.data, args->count,
                          (I)(args->width / COUNT), (I)packs);
}

template <typename T, typename I>
static uf_status forward_of(uf_context *context, const uf_embedding_kernel_args *args) {
    enum { COUNT = 4 };
    typedef typename uf_arithmetic<T>::type R;
    const bool packed = args->width % COUNT == 0 && uf_is_aligned<T, COUNT>(args->output.data) &&
                        uf_is_aligned<R, COUNT>(args->weight.data);
    return packed ? run_forward<T, I, COUNT>(context, args) : run_forward<T, I, 1>(context, args);
}

extern "C" uf_status uf_cuda_embedding_forward(uf_context *context,
                                               const uf_embedding_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_stored("embedding_forward", args->output.dtype));
    const int64_t count = uf_view_count(&args->output);
    if (count == 0) {
        return UF_OK;
    }
    UF_DISPATCH_STORED(args->output.dtype, count, return forward_of<T, I>(context, args));
}

template <typename T>
static uf_status backward_of(uf_context *context, const uf_embedding_kernel_args *args) {
    typedef typename uf_arithmetic<T>::type R;
    const int64_t most = 65535; /* beyond, blocks loop */
    const int64_t across = (args->width + WARP_COLUMNS - 1) / WARP_COLUMNS;
    const int64_t down = (args->count + WARPS - 1) / WARPS;
    const dim3 grid((unsigned)(down < (1 << 20) ? down : 1 << 20),
                    (unsigned)(across < most ? across : most));
    return uf_cuda_launch(context, "embedding_backward", {grid, UF_BLOCK}, embedding_backward<T>,
                          (const int64_t *)args->indices.data, uf_view_count(&args->indices),
                          (const T *)args->grad_output.data, (R *)args->grad_weight.data,
                          args->count, args->width, args->mode == UF_ACCUMULATE);
}

extern "C" uf_status uf_cuda_embedding_backward(uf_context *context,
                                                const uf_embedding_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_stored("embedding_backward", args->grad_output.dtype));
    UF_DISPATCH_STORED_TYPE(args->grad_output.dtype, return backward_of<T>(context, args));
}
