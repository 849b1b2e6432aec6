/* launch.cu - wgmma_implicit_gemm/launch.cu where few channels are written: 32, in TF32 and
 * BF16 64.
 *
 * There written channels are a MMA's 64 rows, and half of them are padding where 32 are
 * written. Here pixels are the rows, 64 neighbours of a row of the result, and written channels the
 * columns. A window lies in shared memory as there, so that a tap is an offset.
 *
 * Nothing is packed before but weights: at this ratio of MMAs to bytes a pass over the tensor
 * costs as much as the MMAs. Two warpgroups of producers load pixels of a chunk of channels (64
 * bytes of each position in shared memory), round or split them in registers and write 16 bytes of
 * channels; lanes are neighbouring positions, so any stride and alignment will do. Weights stay in
 * shared memory for as long as the block lives, or come with each window where they are too large.
 * Two warpgroups of consumers take tiles in turn, each from windows of its own; with 64 columns,
 * where weights are large, they take halves of the same window.
 *
 * FP32: the weights' small halves are columns beside the big ones, so that one MMA makes
 * big*big and big*small; small*big is summed apart too, and all three go to ordinary registers
 * every 64 of K. */
#define UF_MMA_SHARED(name) extern __shared__ __align__(128) uint32_t name[]

#include "kernels/cuda/conv/wgmma_implicit_gemm/swap_ab/mainloop.cuh"
#include "kernels/cuda/device/launch.cuh"

#if UF_HAS_WGMMA
static_assert(sizeof(wgmma_swap_ab_barriers) <= UF_WGMMA_BARRIERS, "what the plan counts on");
#endif

template <typename Tile>
static uf_status launch(uf_context *context, const wgmma_conv &p) {
    const cudaStream_t stream = uf_cuda_stream(context);
    int processors = 0;
    UF_CUDA_TRY(context, cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount,
                                                context->device_index));
    const int64_t pieces = (int64_t)p.conv.groups * p.channel_blocks * p.chunks * p.first_tap[1] *
                           Tile::PIECES * Tile::COLUMNS;
    if (pieces > INT32_MAX) {
        UF_FAIL(UF_ERROR_INTERNAL, "conv_wgmma_swap_ab was given a filter too large to pack");
    }
    conv_wgmma_swap_ab_pack<Tile>
        <<<(unsigned)((pieces + UF_BLOCK - 1) / UF_BLOCK), UF_BLOCK, 0, stream>>>(p,
                                                                                  (int32_t)pieces);
    UF_TRY(uf_cuda_launched(context, "conv_wgmma_swap_ab_pack"));
    const uf_launch how = {dim3((unsigned)(p.tiles < processors ? p.tiles : processors)),
                           Tile::THREADS, (size_t)p.shared, true, 0};
    return uf_cuda_launch(context, "conv_wgmma_swap_ab", how, conv_wgmma_swap_ab<Tile>, p);
}

template <uf_mma_math MATH, typename T>
static uf_status launch_columns(uf_context *context, const wgmma_conv &p) {
    switch (p.columns) {
    case 8:
        return launch<wgmma_swap_ab<MATH, 8, T>>(context, p);
    case 16:
        return launch<wgmma_swap_ab<MATH, 16, T>>(context, p);
    case 32:
        return launch<wgmma_swap_ab<MATH, 32, T>>(context, p);
    case 64:
        if constexpr (MATH != UF_MMA_TF32X3) {
            return launch<wgmma_swap_ab<MATH, 64, T>>(context, p);
        }
        break;
    default:
        break;
    }
    UF_FAIL(UF_ERROR_INTERNAL, "conv_wgmma_swap_ab has no tile of %d columns", (int)p.columns);
}

uf_status wgmma_swap_ab_launch(uf_context *context, const wgmma_conv &p, uf_dtype stored,
                               uf_mma_math math) {
    if (stored == UF_BF16) {
        return launch_columns<UF_MMA_BF16, __nv_bfloat16>(context, p);
    }
    switch (math) {
    case UF_MMA_BF16:
        return launch_columns<UF_MMA_BF16, float>(context, p);
    case UF_MMA_TF32:
        return launch_columns<UF_MMA_TF32, float>(context, p);
    default:
        return launch_columns<UF_MMA_TF32X3, float>(context, p);
    }
}
