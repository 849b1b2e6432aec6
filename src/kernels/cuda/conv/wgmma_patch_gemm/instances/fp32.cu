/* fp32.cu - the tiles of wgmma_patch_gemm/launch.cu for FP32, and the exact fix-up. */
#include "kernels/cuda/conv/wgmma_patch_gemm/instances/launch.cuh"

/* Exact fix-up of FP32 tiles by chains of FFMAs: tiles that hold an infinity, or large inputs whose
 * three MMAs are not finite. A CTA checks UF_BLOCK flags at a time and usually finds none. */
static __global__ void __launch_bounds__(UF_BLOCK, 2)
    conv_wgmma_patch_fixup(const __grid_constant__ patch_conv p) {
#if UF_HAS_WGMMA
    const mma_conv &c = p.conv;
    const int32_t spread = p.plan.tile.spread, columns = p.plan.tile_units * spread;
    const int32_t splits = p.plan.splits;
    const int64_t count = p.plan.tiles * UF_PATCH_GROUPS * splits;
    constexpr int PIXELS = UF_PATCH_PIXELS / UF_PATCH_GROUPS;
    uf_overlap_launches();
#pragma unroll 1
    for (int64_t first = (int64_t)blockIdx.x * UF_BLOCK; first < count;
         first += (int64_t)gridDim.x * UF_BLOCK) {
        const int64_t mine = first + threadIdx.x;
        const bool bad = mine < count && p.unfinished[mine] != 0;
        if (!__syncthreads_or(bad)) {
            continue;
        }
#pragma unroll 1
        for (int64_t i = first; i < first + UF_BLOCK && i < count; ++i) {
            if (p.unfinished[i] == 0) {
                continue;
            }
            const int32_t of_tiles = (int32_t)(i / splits), split = (int32_t)(i % splits);
            const patch_coord at = patch_coord_of(p, of_tiles / UF_PATCH_GROUPS);
            const int32_t from = of_tiles % UF_PATCH_GROUPS * PIXELS;
            const int32_t each = columns / splits;
#pragma unroll 1
            for (int32_t e = (int32_t)threadIdx.x; e < PIXELS * each; e += UF_BLOCK) {
                const patch_pixel pixel = patch_pixel_of(p, at, from + e % PIXELS);
                const int32_t column = split * each + e / PIXELS;
                const int32_t unit = at.unit + column / spread;
                if (!pixel.there || unit >= p.plan.units) {
                    continue;
                }
                int32_t row, over;
                const int32_t channel = uf_patch_unit(&p.plan, unit, &row, &over);
                row += at.row;
                over += column % spread;
                /* fprop has one phase, dgrad one per filter element. */
                const mma_walk down = mma_walk_of(&c.axis[0], row);
                const mma_walk across = mma_walk_of(&c.axis[1], over);
                const int64_t of_all = (int64_t)at.group * c.written_per_group + channel;
                const int64_t offset =
                    at.n * c.written_stride[0] + of_all * c.written_stride[1] +
                    ((int64_t)pixel.h * p.plan.over[0] + row) * c.written_stride[2] +
                    ((int64_t)pixel.w * p.plan.over[1] + over) * c.written_stride[3];
                mma_finish(c, of_all, offset,
                           mma_exact(c, down, across, at.group, channel, at.n,
                                     pixel.h * c.axis[0].in_step + down.in_first,
                                     pixel.w * c.axis[1].in_step + across.in_first));
            }
        }
    }
#endif
}

uf_status wgmma_patch_launch_exact(uf_context *context, const patch_conv &p, int processors) {
    const int64_t flags =
        (p.plan.tiles * p.plan.splits * UF_PATCH_GROUPS + UF_BLOCK - 1) / UF_BLOCK;
    const uf_launch fixup = {dim3((unsigned)(flags < processors ? flags : processors)), UF_BLOCK};
    return uf_cuda_launch(context, "conv_wgmma_patch_fixup", fixup, conv_wgmma_patch_fixup, p);
}

uf_status wgmma_patch_launch_fp32(uf_context *context, const patch_conv &p, const CUtensorMap &map,
                                  uf_conv_packing packing, int processors) {
    return wgmma_patch_launch_tiles<UF_MMA_TF32X3, float>(context, p, map, packing, processors);
}
