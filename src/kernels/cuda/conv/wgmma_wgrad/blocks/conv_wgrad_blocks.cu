/* conv_wgrad_blocks.cu - conv_wgrad in BF16 on Hopper's warpgroup products (sm_90a), any geometry
 * whose windows fit.
 *
 * D[k][(tap, c)] = the sum over pixels of y[k][pixel] x[c][pixel at that tap]. Products of 16 bits
 * take the second operand MN-major: with eight channels in 16 bytes and pixels 16 bytes apart
 * (conv_blocks.cuh), eight pixels of eight channels are 128 contiguous bytes that may begin at any
 * position. So a filter tap is an offset in a descriptor, though pixels are what is summed over,
 * and nothing is copied once per tap. Strided reads have a window per class of taps.
 *
 * Data path: x is rounded and rearranged once. y, which no tap shifts, goes through registers, so
 * that each fragment serves all units: straight from the tensor where its rows are aligned and at
 * least 32 pixels long (rounded on the way if it is f32), else rearranged too. A block has 64 or
 * 128 channels of y by some units (a tap of 32 or 64 channels of x) in registers and walks its
 * share of the tiles of 128 pixels, which one lane brings by tensor copies. Where a group has at
 * most 32 channels of y, the other half of a product's rows are the same channels some rows of the
 * image further up, which makes the next tap of a column. Shares follow from the shape; their sums
 * go to the workspace and a second kernel adds them in order. FP32, of f16 halves:
 * conv_wgrad_halves.cu. */
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/conv/wgmma_wgrad/blocks/conv_wgrad_blocks_call.cuh"
#include "kernels/cuda/conv/wgmma_wgrad/blocks/conv_wgrad_blocks_pack.cuh"
#include "kernels/cuda/conv/wgmma_patch_gemm/wgrad/conv_wgrad_straight.h"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/arch/tensor_map.cuh"

static_assert(sizeof(wgrad_blocks) <= 4000, "kernel parameters");

template <typename T>
static __device__ __forceinline__ void blocks_pack(const conv_blocks &blocks, bool paired,
                                                   int32_t block) {
    if (sizeof(T) == 2 && paired) {
        blocks_make_pairs(blocks, block);
    } else {
        conv_blocks_make<UF_MATH_BF16, T>(blocks, block);
    }
}

static int64_t pack_count(const conv_blocks &blocks, bool paired) {
    return paired ? blocks_pairs_count(blocks) : conv_blocks_count<UF_MATH_BF16>(blocks);
}

/* The first blocks make x, the others y. */
template <typename T>
static __global__ void __launch_bounds__(UF_BLOCK)
    conv_wgrad_blocks_pack(const __grid_constant__ conv_blocks x,
                           const __grid_constant__ conv_blocks y, int32_t x_blocks, bool x_paired,
                           bool y_paired) {
    const int32_t block = (int32_t)blockIdx.x;
    uf_launch_dependents();
    if (block < x_blocks) {
        blocks_pack<T>(x, x_paired, block);
    } else {
        blocks_pack<T>(y, y_paired, block - x_blocks);
    }
}

static bool call_of(const uf_conv_kernel_args *args, bool packed, blocks_call *call) {
    memset((void *)call, 0, sizeof *call);
    if (!uf_wgrad_blocks_plan_of(args, packed, &call->product.plan)) {
        return false;
    }
    blocks_lay_out(args, 1, (char *)args->workspace, call);
    return true;
}

extern "C" size_t uf_cuda_conv_wgrad_blocks_workspace(uf_conv_direction,
                                                      const uf_conv_kernel_args *args) {
    /* Where y will be is not always known yet. */
    blocks_call call;
    const size_t packed = call_of(args, true, &call) ? call.bytes : 0;
    const size_t bytes = call_of(args, false, &call) ? call.bytes : 0;
    const size_t straight = uf_wgrad_straight_workspace(args);
    const size_t most = bytes > packed ? bytes : packed;
    return most > straight ? most : straight;
}

template <typename T>
static uf_status launch_pack(uf_context *context, const blocks_call &call) {
    const bool x_paired = blocks_paired(call.x, sizeof(T)),
               y_paired = blocks_paired(call.y, sizeof(T));
    const int64_t x_blocks = pack_count(call.x, x_paired);
    const int64_t y_blocks =
        call.product.plan.source == UF_BLOCKS_PACKED ? pack_count(call.y, y_paired) : 0;
    conv_wgrad_blocks_pack<T>
        <<<(unsigned)(x_blocks + y_blocks), UF_BLOCK, 0, uf_cuda_stream(context)>>>(
            call.x, call.y, (int32_t)x_blocks, x_paired, y_paired);
    return uf_cuda_launched(context, "conv_wgrad_blocks_pack");
}

template <typename Tile>
static uf_status launch_product(uf_context *context, const wgrad_blocks &product) {
    const uf_launch how = {dim3((unsigned)product.plan.blocks), Tile::THREADS,
                           (size_t)product.plan.shared, true, 0};
    return uf_cuda_launch(context, "conv_wgrad_blocks", how, conv_wgrad_blocks<Tile>, product);
}

template <uf_blocks_source SOURCE>
static uf_status launch_tile(uf_context *context, const wgrad_blocks &product) {
#define UF_BLOCKS_TILE(ID, WIDTH, UNITS, ACROSS, ROWS)                                             \
    if (product.plan.tile_id == ID) {                                                              \
        return launch_product<blocks_tile<WIDTH, UNITS, ACROSS, ROWS, SOURCE>>(context, product);  \
    }
    UF_BLOCKS_TILES
#undef UF_BLOCKS_TILE
    UF_FAIL(UF_ERROR_INTERNAL, "conv_wgrad_blocks has no tile %d", (int)product.plan.tile_id);
}

static uf_status launch_source(uf_context *context, const wgrad_blocks &product) {
    switch (product.plan.source) {
    case UF_BLOCKS_BF16:
        return launch_tile<UF_BLOCKS_BF16>(context, product);
    case UF_BLOCKS_F32:
        return launch_tile<UF_BLOCKS_F32>(context, product);
    default:
        return launch_tile<UF_BLOCKS_PACKED>(context, product);
    }
}

static uf_status make_maps(uf_context *context, const uf_conv_kernel_args *args,
                           blocks_call *call) {
    const uf_blocks_plan &p = call->product.plan;
    UF_TRY(conv_blocks_map(context, call->x, p.axis[1].extent, p.axis[0].extent, 1, p.width / 8,
                           &call->product.x));
    if (p.source != UF_BLOCKS_PACKED) {
        return blocks_map_y(context, args, p, &call->product.y);
    }
    return conv_blocks_map(context, call->y, p.axis[1].patch, p.y_rows, 1, blocks_channels(p) / 8,
                           &call->product.y);
}

template <typename T>
static uf_status launch_all(uf_context *context, const blocks_call &call) {
    UF_TRY(launch_pack<T>(context, call));
    UF_TRY(launch_source(context, call.product));
    return blocks_add<T>(context, call.sums);
}

extern "C" uf_status uf_cuda_conv_wgrad_blocks(uf_context *context, uf_conv_direction,
                                               const uf_conv_kernel_args *args) {
    blocks_call call;
    if (uf_wgrad_straight_takes(args)) {
        return uf_wgrad_straight(context, args);
    }
    if (!call_of(args, (uintptr_t)args->y.data % 16 != 0, &call)) {
        UF_FAIL(UF_ERROR_INTERNAL, "conv_wgrad_blocks was given a geometry that it does not take");
    }
    UF_TRY(make_maps(context, args, &call));
    return args->x.dtype == UF_BF16 ? launch_all<__nv_bfloat16>(context, call)
                                    : launch_all<float>(context, call);
}
