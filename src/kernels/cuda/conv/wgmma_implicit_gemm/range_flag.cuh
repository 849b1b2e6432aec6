/* range_flag.cuh - the range flag of 3xF16 tiles (arch/split_f16.h). */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_RANGE_FLAG_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_RANGE_FLAG_CUH

#include "kernels/cuda/conv/wgmma_implicit_gemm/tile.cuh"

#if UF_HAS_WGMMA

/* The accumulators of a thread that are stored: a bit per column, for the first of its two rows and
 * for the second. */
struct wgmma_stored {
    uint32_t row[2];
};

/* `warp` counts within the warpgroup. */
template <typename Tile>
static __device__ __forceinline__ wgmma_stored wgmma_stored_of(const wgmma_conv &p,
                                                               const wgmma_coord &at,
                                                               const wgmma_role &role, int warp,
                                                               int lane, int mma) {
    const mma_conv &c = p.conv;
    constexpr int ROWS = Tile::MERGES ? 8 : UF_WGMMA_WARP_ROWS; /* channels of a warp */
    const int32_t phases = Tile::MERGES ? 1 : c.axis[1].phases;
    const mma_walk down = mma_walk_of(&c.axis[0], role.phase / phases);
    mma_walk even, odd; /* walks of the first row's and of the second row's columns */
    if (Tile::MERGES) {
        const wgmma_sides sides = wgmma_sides_of(c.axis[1]);
        even = sides.even;
        odd = sides.odd;
    } else {
        even = odd = mma_walk_of(&c.axis[1], role.phase % phases);
    }
    const int32_t back = Tile::MERGES ? p.merged_back : 0;
    const int32_t left =
        c.written_per_group - role.block * p.block_channels - warp * ROWS - (lane >> 2);
    wgmma_stored made = {{0, 0}};
#pragma unroll 1
    for (int i = 0; i < UF_WGMMA_PIXELS / 4; ++i) {
        const wgmma_pixel pixel = wgmma_pixel_of<Tile::PACKED>(
            p, at, down, even, mma, (i >> 1) * 8 + 2 * (lane & 3) + (i & 1));
        const int32_t j_w = pixel.j_w - back; /* column within the odd phase */
        const bool inside = pixel.n < c.batch && pixel.j_h < down.out_count;
        made.row[0] |= pixel.there && left > 0 ? 1u << i : 0;
        made.row[1] |= inside && j_w >= 0 && j_w < odd.out_count && left > (Tile::MERGES ? 0 : 8)
                           ? 1u << i
                           : 0;
    }
    return made;
}

/* Scales the sums back; false if a sum that is stored is out of range. Padding of a tile is zero,
 * so out of range too: only where such a sum exists are the stored ones looked up. All lanes of a
 * warp agree. */
template <typename Tile>
static __device__ __forceinline__ bool
wgmma_in_range(const wgmma_conv &p, int32_t tile, const wgmma_role &role, int warp, int lane,
               const uf_split_f16_scales &scales, float (&total)[Tile::NT][UF_WGMMA_PIXELS / 2]) {
    constexpr int CHAINS = 4;
    const float limit = scales.limit * scales.back; /* a power of two changes no comparison */
    float least[CHAINS];
#pragma unroll
    for (int i = 0; i < CHAINS; ++i) {
        least[i] = limit;
    }
#pragma unroll
    for (int mma = 0; mma < Tile::NT; ++mma) {
#pragma unroll
        for (int i = 0; i < UF_WGMMA_PIXELS / 2; ++i) {
            total[mma][i] *= scales.back;
            least[i % CHAINS] = fminf(least[i % CHAINS], fabsf(total[mma][i]));
        }
    }
    bool flagged = fminf(fminf(least[0], least[1]), fminf(least[2], least[3])) < limit;
    if (role.idle || wgmma_uniform(__any_sync(0xffffffffu, flagged), 0xffffffffu) == 0) {
        return true;
    }
    const wgmma_coord at = wgmma_coord_of(p, tile);
    flagged = false;
#pragma unroll
    for (int mma = 0; mma < Tile::NT; ++mma) {
        const wgmma_stored wanted = wgmma_stored_of<Tile>(p, at, role, warp, lane, mma);
#pragma unroll
        for (int i = 0; i < UF_WGMMA_PIXELS / 2; ++i) {
            flagged = flagged || ((wanted.row[i >> 1 & 1] >> ((i >> 2) * 2 + (i & 1)) & 1) != 0 &&
                                  fabsf(total[mma][i]) < limit);
        }
    }
    return wgmma_uniform(__any_sync(0xffffffffu, flagged), 0xffffffffu) == 0;
}

#endif

#endif
