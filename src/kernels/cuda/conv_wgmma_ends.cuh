/* conv_wgmma_ends.cuh - what runs before and after conv_wgmma: packing weights, repairing tiles. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_ENDS_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_ENDS_CUH

#include "kernels/cuda/conv_wgmma.cuh"

enum { WGMMA_PACK_TAPS = 4 };

/* [group][phase][64 written channels][window][class][chunk of the window][tap][plane][row][16
 * bytes], zeros where there is no channel. A thread makes one (FP32: two) 16 bytes of a row for
 * some taps; lanes are rows. */
template <typename Tile, typename T>
static __device__ __forceinline__ void wgmma_pack_weights(const wgmma_conv &p, int32_t index,
                                                          int32_t first_entry) {
    const mma_conv &c = p.conv;
    const int32_t pieces = Tile::FP32 ? p.planes / 2 : p.planes;
    int32_t rest = index / UF_WGMMA_ROWS;
    const int row = index - rest * UF_WGMMA_ROWS;
    int32_t next = rest / pieces;
    const int piece = rest - next * pieces;
    rest = next / p.chunks;
    const int32_t chunk = next - rest * p.chunks;
    const int64_t group = rest / p.channel_blocks;
    const int32_t block = rest % p.channel_blocks;
    const int32_t written = block * UF_WGMMA_ROWS + row;
    const int32_t read = (chunk * pieces + piece) * Tile::PER_PIECE;
    const int32_t channels = written < c.written_per_group ? c.read_per_group - read : 0;
    const int32_t bytes = p.planes * UF_WGMMA_PLANE;
    const T *const from =
        (const T *)c.weight + group * c.w_group + written * c.w_written + read * c.w_read;
    const int32_t all = p.first_tap[p.phases * p.classes];
    char *const to = (char *)c.packed + (group * all * p.channel_blocks * p.chunks) * bytes +
                     (piece * UF_WGMMA_ROWS + row) * 16;
    int32_t pair = 0;
#pragma unroll 1
    for (int i = 0; i < WGMMA_PACK_TAPS; ++i) {
        const int32_t entry = first_entry + i;
        if (entry >= all) {
            return;
        }
        while (entry >= p.first_tap[pair + 1]) {
            ++pair;
        }
        const int32_t first = p.first_tap[pair];
        const int32_t taps = p.first_tap[pair + 1] - first;
        const int32_t phase = pair / p.classes;
        const int32_t phase_first = p.first_tap[phase * p.classes];
        const int32_t phase_taps = p.first_tap[(phase + 1) * p.classes] - phase_first;
        const int32_t window = chunk / p.depth;
        const int64_t tile =
            ((int64_t)phase_first * p.channel_blocks + (int64_t)block * phase_taps) * p.chunks +
            ((int64_t)window * phase_taps + (first - phase_first)) * p.depth +
            (chunk - window * p.depth) * taps + (entry - first);
        const T *const at = from + p.tap_of[entry][0] * c.w_row + p.tap_of[entry][1] * c.w_column;
        float value[Tile::PER_PIECE];
#pragma unroll
        for (int k = 0; k < Tile::PER_PIECE; ++k) {
            value[k] = k < channels ? (float)at[k * c.w_read] : 0.0f;
        }
        uint4 words, small;
        mma_words<Tile::MATH>(value, &words, &small);
        *(uint4 *)(to + tile * bytes) = words;
        if (Tile::FP32) {
            *(uint4 *)(to + tile * bytes + 4 * UF_WGMMA_PLANE) = small;
        }
    }
}

/* What one launch packs: threads for weights, per group of taps, in whole blocks; then the blocked
 * tensor. */
struct wgmma_packing {
    int32_t weights;       /* threads */
    int32_t weight_blocks; /* per group of taps */
    int32_t tap_groups;
    conv_blocks read;
};

template <typename Tile, typename T>
static __global__ void __launch_bounds__(UF_BLOCK)
    conv_wgmma_pack(const __grid_constant__ wgmma_conv p,
                    const __grid_constant__ wgmma_packing packing) {
    uf_launch_dependents();
    const int32_t block = (int32_t)blockIdx.x;
    const int32_t windows_from = packing.weight_blocks * packing.tap_groups;
    if (block < windows_from) {
        const int32_t group = block / packing.weight_blocks;
        const int32_t index =
            (block - group * packing.weight_blocks) * UF_BLOCK + (int32_t)threadIdx.x;
        if (index < packing.weights) {
            wgmma_pack_weights<Tile, T>(p, index, group * WGMMA_PACK_TAPS);
        }
    } else {
        conv_blocks_make<Tile::MATH, T>(packing.read, block - windows_from);
    }
}

/* One tile of one warpgroup by chains of FFMAs. */
static __device__ __forceinline__ void wgmma_repair_tile(const wgmma_conv &p, int64_t index) {
    const mma_conv &c = p.conv;
    const int32_t tile = (int32_t)(index / p.wm);
    const wgmma_place at = wgmma_place_of(p, tile);
    const wgmma_role role = wgmma_role_of(p, at.block_m * p.wm + (int32_t)(index % p.wm));
    const int32_t first_channel = role.block * p.block_channels;
    const mma_walk down = mma_walk_of(c.axis[0], role.phase / c.axis[1].phases);
    const mma_walk across = mma_walk_of(c.axis[1], role.phase % c.axis[1].phases);
    const int32_t left = c.written_per_group - first_channel;
    const int32_t rows = left < p.block_channels ? left : p.block_channels;
#pragma unroll 1
    for (int32_t element = (int32_t)threadIdx.x; element < rows * p.nt * p.pixels;
         element += UF_BLOCK) {
        const int32_t column = element % (p.nt * p.pixels);
        const int32_t channel = first_channel + element / (p.nt * p.pixels);
        const wgmma_pixel pixel =
            wgmma_pixel_of(p, at, down, across, column / p.pixels, column % p.pixels);
        if (pixel.there) {
            const int64_t of_all = (int64_t)at.group * c.written_per_group + channel;
            mma_finish(c, of_all, pixel.offset + of_all * c.written_stride[1],
                       mma_exact(c, down, across, at.group, channel, pixel.n,
                                 pixel.j_h * c.axis[0].in_step + down.in_first,
                                 pixel.j_w * c.axis[1].in_step + across.in_first));
        }
    }
}

/* FP32 tiles that hold an infinity, or inputs near the largest float, where three rounded products
 * are not finite. A block looks at UF_BLOCK of them at a time; where there are none, that is all.
 */
static __global__ void __launch_bounds__(UF_BLOCK, 2)
    conv_wgmma_repair(const __grid_constant__ wgmma_conv p) {
#if UF_HAS_WGMMA
    const int64_t count = p.tiles * p.wm;
    uf_wait_for_launcher();
#pragma unroll 1
    for (int64_t first = (int64_t)blockIdx.x * UF_BLOCK; first < count;
         first += (int64_t)gridDim.x * UF_BLOCK) {
        const int64_t mine = first + threadIdx.x;
        const bool bad = mine < count && p.unfinished[mine] != 0;
        if (__syncthreads_or(bad)) {
#pragma unroll 1
            for (int64_t i = first; i < first + UF_BLOCK && i < count; ++i) {
                if (p.unfinished[i] != 0) {
                    wgmma_repair_tile(p, i);
                }
            }
        }
    }
#endif
}

#endif
