/* pack.cuh - copies for wgrad/mainloop.cuh: each filter element becomes a channel. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_WGRAD_PACK_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_WGRAD_PACK_CUH

#include <cstring>

#include "kernels/cuda/device/backend.h"
#include "kernels/cuda/device/element.cuh"

/* Copies from[n][c][h * rows + r][w * columns + s] to to[n][c][r][s][pixel h * width + w], in
 * planes of `pitch` elements. A thread takes `values` columns of patch_wgrad_pixels() pixels. */
struct patch_wgrad_packing {
    const void *from;
    void *to;
    int64_t stride[4];
    int32_t channels, rows, columns;
    int32_t width, plane, pitch;
    int32_t pieces; /* threads per plane */
    int32_t values;
    int32_t count; /* threads */
};

/* Neighbouring pixels of a thread: 4 bytes. */
template <typename T>
static __device__ __forceinline__ constexpr int patch_wgrad_pixels() {
    return 4 / (int)sizeof(T);
}

template <typename T, int VALUES>
struct alignas(VALUES * sizeof(T)) patch_wgrad_values {
    T of[VALUES];
};

template <typename T, int VALUES>
static __global__ void __launch_bounds__(UF_BLOCK)
    conv_patch_wgrad_pack(const __grid_constant__ patch_wgrad_packing p) {
    constexpr int PIXELS = patch_wgrad_pixels<T>();
    const int32_t index = (int32_t)(blockIdx.x * UF_BLOCK + threadIdx.x);
    uf_overlap_launches();
    if (index >= p.count) {
        return;
    }
    int32_t rest = index / p.pieces;
    const int32_t pixel = (index - rest * p.pieces) * PIXELS;
    const int32_t across = p.columns / VALUES;
    int32_t next = rest / across;
    const int32_t column = (rest - next * across) * VALUES;
    rest = next / p.rows;
    const int32_t row = next - rest * p.rows;
    const int32_t n = rest / p.channels;
    const int32_t channel = rest - n * p.channels;
    const T *const from =
        (const T *)p.from + n * p.stride[0] + channel * p.stride[1] + column * p.stride[3];
    patch_wgrad_values<T, VALUES> value[PIXELS];
#pragma unroll
    for (int i = 0; i < PIXELS; ++i) {
        const int32_t at = pixel + i < p.plane ? pixel + i : pixel; /* pads the end of a plane */
        const int32_t h = at / p.width, w = at - h * p.width;
        value[i] =
            *(const patch_wgrad_values<T, VALUES> *)(from +
                                                     ((int64_t)h * p.rows + row) * p.stride[2] +
                                                     (int64_t)w * p.columns * p.stride[3]);
    }
    T *const to =
        (T *)p.to +
        ((((int64_t)n * p.channels + channel) * p.rows + row) * p.columns + column) * p.pitch +
        pixel;
#pragma unroll
    for (int v = 0; v < VALUES; ++v) {
        patch_wgrad_values<T, PIXELS> pixels;
#pragma unroll
        for (int i = 0; i < PIXELS; ++i) {
            pixels.of[i] = value[i].of[v];
        }
        *(patch_wgrad_values<T, PIXELS> *)(to + (int64_t)v * p.pitch) = pixels;
    }
}

/* Copies `view` for a filter of rows x columns, to planes of `pitch` pixels. */
template <typename T>
static uf_status patch_wgrad_pack(uf_context *context, const uf_view &view, int64_t rows,
                                  int64_t columns, int64_t pitch, void *to) {
    constexpr int VALUES = 16 / (int)sizeof(T), PIXELS = 4 / (int)sizeof(T);
    patch_wgrad_packing p;
    memset((void *)&p, 0, sizeof p);
    p.from = view.data;
    p.to = to;
    bool aligned = view.stride[3] == 1 && columns % VALUES == 0 && (uintptr_t)view.data % 16 == 0;
    for (int axis = 0; axis < 4; ++axis) {
        p.stride[axis] = view.stride[axis];
        aligned = aligned && (axis == 3 || view.stride[axis] % VALUES == 0);
    }
    p.channels = (int32_t)view.extent[1];
    p.rows = (int32_t)rows;
    p.columns = (int32_t)columns;
    p.width = (int32_t)(view.extent[3] / columns);
    p.plane = (int32_t)(view.extent[2] / rows) * p.width;
    p.pitch = (int32_t)pitch;
    p.pieces = (p.plane + PIXELS - 1) / PIXELS;
    p.values = aligned ? VALUES : 1;
    p.count = (int32_t)(view.extent[0] * p.channels * rows * (columns / p.values) * p.pieces);
    const uf_launch how = {dim3((unsigned)((p.count + UF_BLOCK - 1) / UF_BLOCK)), UF_BLOCK};
    return uf_cuda_launch(context, "conv_patch_wgrad_pack", how,
                          aligned ? conv_patch_wgrad_pack<T, VALUES> : conv_patch_wgrad_pack<T, 1>,
                          p);
}

#endif
