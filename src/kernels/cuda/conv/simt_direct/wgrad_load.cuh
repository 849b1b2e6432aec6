/* wgrad_load.cuh - depthwise weight gradients: a block has one channel of x and one of
 * y, a lane one column of y and all R x S taps. A warp walks down its rows; rows of x that the next
 * row of y reads too stay in registers. Nothing goes through shared memory: neighbouring lanes find
 * each other's x in the first-level cache. */
#ifndef UF_KERNELS_CUDA_CONV_SIMT_DIRECT_WGRAD_LOAD_CUH
#define UF_KERNELS_CUDA_CONV_SIMT_DIRECT_WGRAD_LOAD_CUH

#include "kernels/cuda/conv/simt_direct/wgrad_reduce.cuh"

/* STEP: rows of x from one row of y to the next. Taps are neighbours in memory. */
template <typename T, int R, int S, int STEP>
static __global__ void __launch_bounds__(DIRECT_THREADS, R > 3 ? 2 : 3)
    conv_direct_wgrad_rows(const __grid_constant__ direct_wgrad_plan p) {
    __shared__ float shared[DIRECT_WARPS];
    const direct_wgrad_tile tile = direct_wgrad_tile_of(&p, (int32_t)blockIdx.x);
    const int32_t lane = (int32_t)threadIdx.x & 31;
    const int32_t warp = (int32_t)threadIdx.x >> 5;
    const T *const x_plane =
        (const T *)p.x + ((int64_t)tile.group * p.c_per_group + tile.c) * p.x_stride[1];
    const T *const y_plane =
        (const T *)p.y + ((int64_t)tile.group * p.k_per_group + tile.k) * p.y_stride[1];
    const int32_t lane_n = lane / p.box[2];
    float sum[R][S] = {};
    uf_overlap_launches();
    for (int32_t box = (int32_t)blockIdx.y * DIRECT_WARPS + warp; box < p.all_boxes;
         box += p.splits * DIRECT_WARPS) {
        int32_t rest = box / p.boxes[2];
        const int32_t q = (box - rest * p.boxes[2]) * p.box[2] + lane - lane_n * p.box[2];
        const int32_t n = rest / p.boxes[1] * p.box[0] + lane_n;
        const int32_t first = (rest - rest / p.boxes[1] * p.boxes[1]) * p.box[1];
        const int32_t last = min(first + p.box[1], p.small[0]);
        const bool there = lane_n < p.box[0] && n < p.batch && q < p.small[1];
        const T *y_at = y_plane + n * p.y_stride[0] + first * p.y_stride[2] + q * p.y_stride[3];
        bool inside[S];
        const int32_t w = q * p.stride[1] - p.padding[1];
        const T *const x_image = x_plane + n * p.x_stride[0] + w;
#pragma unroll
        for (int s = 0; s < S; ++s) {
            inside[s] = there && (uint32_t)(w + s) < (uint32_t)p.large[1];
        }
        int32_t h = first * STEP - p.padding[0];
        float window[R][S];
#pragma unroll
        for (int r = 0; r < R - STEP; ++r) {
            const bool row_inside = (uint32_t)(h + r) < (uint32_t)p.large[0];
#pragma unroll
            for (int s = 0; s < S; ++s) {
                window[r][s] = row_inside && inside[s]
                                   ? direct_load(x_image + (h + r) * p.x_stride[2] + s)
                                   : 0.0f;
            }
        }
        /* Pointers walk: multiplying strides anew would cost more than the FFMAs. */
        h += R - STEP;
        const T *x_at = x_image + h * p.x_stride[2];
#pragma unroll(R > 3 ? 4 : 8)
        for (int32_t row = first; row < last; ++row) {
            const float y = there ? direct_load(y_at) : 0.0f;
            y_at += p.y_stride[2];
#pragma unroll
            for (int r = 0; r < STEP; ++r) {
                const bool row_inside = (uint32_t)h < (uint32_t)p.large[0];
#pragma unroll
                for (int s = 0; s < S; ++s) {
                    window[R - STEP + r][s] =
                        row_inside && inside[s] ? direct_load(x_at + s) : 0.0f;
                }
                x_at += p.x_stride[2];
                ++h;
            }
#pragma unroll
            for (int r = 0; r < R; ++r) {
#pragma unroll
                for (int s = 0; s < S; ++s) {
                    sum[r][s] = fmaf(y, window[r][s], sum[r][s]);
                }
            }
#pragma unroll
            for (int r = 0; r < R - STEP; ++r) {
#pragma unroll
                for (int s = 0; s < S; ++s) {
                    window[r][s] = window[r + STEP][s];
                }
            }
        }
    }
    float *const to = p.partial + ((int64_t)blockIdx.y * p.tiles + blockIdx.x) * p.size;
#pragma unroll
    for (int i = 0; i < R * S; ++i) {
        float value = sum[i / S][i % S];
#pragma unroll
        for (int distance = 16; distance > 0; distance >>= 1) {
            value += __shfl_down_sync(0xffffffffu, value, (unsigned)distance);
        }
        if (lane == 0) {
            shared[warp] = value;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
#pragma unroll
            for (int other = 1; other < DIRECT_WARPS; ++other) {
                value += shared[other];
            }
            to[i] = value;
        }
        __syncthreads();
    }
}

#endif
