/* launch.cu - conv_fprop and conv_dgrad with A and B swapped, for few written channels (sm_90a).
 *
 * Computes: fprop and dgrad; a main loop of wgmma_implicit_gemm, which launches it.
 *
 * Shapes and limits: stride 1; at most 32 written channels, 64 in TF32 and BF16; windows of at most
 * 2048 positions. Any strides and alignment of the tensors.
 *
 * GEMM mapping (M, N, K): 64 neighbours of an image row; 8, 32 or 64 written channels; read
 * channels times taps. With channels as the 64 rows, half or more of them would be padding.
 *
 * Data path: only weights are packed: a pass over the tensor would cost as much as the MMAs. Two
 * producer warpgroups load a chunk of channels, round or split it and store 64 bytes of channels
 * per position. A tap is an offset in this window. Weights stay in shared memory if they fit, else
 * they come with each window. Two consumer warpgroups take tiles in turn, each with windows of its
 * own; with 64 columns they take halves of the same window.
 *
 * Precision: FP32 has the weights' small parts as columns beside the large ones: one MMA makes
 * large*large and large*small, another small*large. All three are promoted every 64 of K. TF32;
 * BF16.
 *
 * Split and order of sums: none.
 *
 * Bound by: shared memory, whose bandwidth the MMAs take up.
 *
 * Chosen when: half a tile of written channels would be padding. */
#define UF_MMA_SHARED(name) extern __shared__ __align__(128) uint32_t name[]

#include "kernels/cuda/conv/wgmma_implicit_gemm/swap_ab/mainloop.cuh"
#include "kernels/cuda/device/launch.cuh"

#if UF_HAS_WGMMA
static_assert(sizeof(wgmma_swap_ab_barriers) <= UF_WGMMA_BARRIERS, "what the plan counts on");
#endif

template <typename Tile>
static uf_status launch(uf_context *context, const wgmma_conv &p, uf_conv_packing packing,
                        int processors) {
    const int64_t pieces = (int64_t)p.conv.groups * p.channel_blocks * p.chunks * p.first_tap[1] *
                           Tile::PIECES * Tile::COLUMNS;
    if (pieces > INT32_MAX) {
        UF_FAIL(UF_ERROR_INTERNAL, "conv_wgmma_swap_ab was given a filter too large to pack");
    }
    const uf_launch pack = {dim3((unsigned)((pieces + UF_BLOCK - 1) / UF_BLOCK)), UF_BLOCK};
    if (packing != UF_CONV_PACKED) {
        UF_TRY(uf_cuda_launch(context, "conv_wgmma_swap_ab_pack", pack,
                              conv_wgmma_swap_ab_pack<Tile>, p, (int32_t)pieces));
    }
    if (packing == UF_CONV_PACK_ONLY) {
        return UF_OK;
    }
    const uf_launch how = {dim3((unsigned)(p.tiles < processors ? p.tiles : processors)),
                           Tile::THREADS, (size_t)p.shared};
    return uf_cuda_launch(context, "conv_wgmma_swap_ab", how, conv_wgmma_swap_ab<Tile>, p);
}

template <uf_mma_math MATH, typename T>
static uf_status launch_columns(uf_context *context, const wgmma_conv &p, uf_conv_packing packing,
                                int processors) {
    switch (p.columns) {
    case 8:
        return launch<wgmma_swap_ab<MATH, 8, T>>(context, p, packing, processors);
    case 32:
        return launch<wgmma_swap_ab<MATH, 32, T>>(context, p, packing, processors);
    case 64:
        if constexpr (MATH != UF_MMA_TF32X3) {
            return launch<wgmma_swap_ab<MATH, 64, T>>(context, p, packing, processors);
        }
        break;
    default:
        break;
    }
    UF_FAIL(UF_ERROR_INTERNAL, "conv_wgmma_swap_ab has no tile of %d columns", (int)p.columns);
}

uf_status wgmma_swap_ab_launch(uf_context *context, const wgmma_conv &p, uf_dtype stored,
                               uf_mma_math math, uf_conv_packing packing, int processors) {
    if (stored == UF_BF16) {
        return launch_columns<UF_MMA_BF16, uf_bf16>(context, p, packing, processors);
    }
    switch (math) {
    case UF_MMA_BF16:
        return launch_columns<UF_MMA_BF16, float>(context, p, packing, processors);
    case UF_MMA_TF32:
        return launch_columns<UF_MMA_TF32, float>(context, p, packing, processors);
    default:
        return launch_columns<UF_MMA_TF32X3, float>(context, p, packing, processors);
    }
}
