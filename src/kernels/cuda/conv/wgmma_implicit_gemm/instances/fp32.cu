/* fp32.cu - the tiles of wgmma_implicit_gemm/launch.cu in 3xTF32, and both fix-ups: of tiles whose
 * range flag is set, and of results that are not finite. */
#include "kernels/cuda/conv/wgmma_implicit_gemm/instances/launch.cuh"

/* Packs again in 3xTF32 if some range flag is set; the grid is as many CTAs as run at once. */
static __global__ void __launch_bounds__(UF_BLOCK)
    conv_wgmma_pack_fixup(const __grid_constant__ wgmma_conv p,
                          const __grid_constant__ wgmma_packing packing, int32_t blocks) {
    uf_overlap_launches();
    if (__ldcg(p.range_flags) == 0) {
        return;
    }
    wgmma_pack_begin(p);
#pragma unroll 1
    for (int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
        wgmma_pack_block<UF_MMA_TF32X3, float>(p, packing, (int32_t)block, 1.0f, 1.0f);
    }
}

/* One tile of one warpgroup by chains of FFMAs. */
[[maybe_unused]] static __device__ __forceinline__ void wgmma_fixup_tile(const wgmma_conv &p,
                                                                         int64_t index) {
    const mma_conv &c = p.conv;
    const int32_t tile = (int32_t)(index / p.wm);
    const wgmma_coord at = wgmma_coord_of(p, tile);
    const wgmma_role role = wgmma_role_of(p, at.block_m * p.wm + (int32_t)(index % p.wm));
    const int32_t first_channel = role.block * p.block_channels;
    const int32_t phases = p.merged ? 1 : c.axis[1].phases;
    const mma_walk down = mma_walk_of(&c.axis[0], role.phase / phases);
    const int32_t left = c.written_per_group - first_channel;
    const int32_t rows = left < p.block_channels ? left : p.block_channels;
    const int32_t sides = p.merged ? 2 : 1;
#pragma unroll 1
    for (int32_t element = (int32_t)threadIdx.x; element < rows * sides * p.nt * p.pixels;
         element += UF_BLOCK) {
        const int32_t column = element % (p.nt * p.pixels);
        const int32_t row = element / (p.nt * p.pixels);
        const int32_t channel = first_channel + row / sides;
        const mma_walk across = p.merged ? (row % sides == 0 ? wgmma_sides_of(c.axis[1]).even
                                                             : wgmma_sides_of(c.axis[1]).odd)
                                         : mma_walk_of(&c.axis[1], role.phase % phases);
        wgmma_pixel pixel =
            wgmma_pixel_of(p, at, down, across, column / p.pixels, column % p.pixels);
        if (row % sides != 0 && p.merged_back != 0) {
            --pixel.j_w;
            pixel.offset -= c.axis[1].out_step * c.written_stride[3];
            pixel.there = pixel.n < c.batch && pixel.j_h < down.out_count && pixel.j_w >= 0 &&
                          pixel.j_w < across.out_count;
        }
        if (pixel.there) {
            const int64_t of_all = (int64_t)at.group * c.written_per_group + channel;
            mma_finish(c, of_all, pixel.offset + of_all * c.written_stride[1],
                       mma_exact(c, down, across, at.group, channel, pixel.n,
                                 pixel.j_h * c.axis[0].in_step + down.in_first,
                                 pixel.j_w * c.axis[1].in_step + across.in_first));
        }
    }
}

/* Exact fix-up of FP32 tiles that hold an infinity, or inputs near the largest float, where the sum
 * of three MMAs is not finite. A CTA checks UF_BLOCK flags at a time and usually finds none. */
static __global__ void __launch_bounds__(UF_BLOCK, 2)
    conv_wgmma_fixup(const __grid_constant__ wgmma_conv p) {
#if UF_HAS_WGMMA
    const int64_t count = p.tiles * p.wm;
    uf_overlap_launches();
#pragma unroll 1
    for (int64_t first = (int64_t)blockIdx.x * UF_BLOCK; first < count;
         first += (int64_t)gridDim.x * UF_BLOCK) {
        const int64_t mine = first + threadIdx.x;
        const bool bad = mine < count && p.unfinished[mine] != 0;
        if (__syncthreads_or(bad)) {
#pragma unroll 1
            for (int64_t i = first; i < first + UF_BLOCK && i < count; ++i) {
                if (p.unfinished[i] != 0) {
                    wgmma_fixup_tile(p, i);
                }
            }
        }
    }
#endif
}

uf_status wgmma_launch_pack_flagged(uf_context *context, const wgmma_conv &p,
                                    const wgmma_packing &packing, int64_t blocks, int processors) {
    const int64_t most = processors * WGMMA_FIXUP_BLOCKS;
    const uf_launch fixup = {dim3((unsigned)(blocks < most ? blocks : most)), UF_BLOCK};
    return uf_cuda_launch(context, "conv_wgmma_pack_fixup", fixup, conv_wgmma_pack_fixup, p,
                          packing, (int32_t)blocks);
}

uf_status wgmma_launch_exact(uf_context *context, const wgmma_conv &p, int processors) {
    const int64_t flags = blocks_of(p.tiles * p.wm);
    const uf_launch how = {dim3((unsigned)(flags < processors ? flags : processors)), UF_BLOCK};
    return uf_cuda_launch(context, "conv_wgmma_fixup", how, conv_wgmma_fixup, p);
}

uf_status wgmma_launch_fp32(uf_context *context, uf_conv_direction direction,
                            const uf_conv_kernel_args *args, const wgmma_conv &p, void *blocks,
                            int processors) {
    UF_WGMMA_TILES_FP32
    return wgmma_no_tile(p, "f32 tensors in FP32");
}
