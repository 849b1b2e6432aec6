/* conv_wgmma_ends.cuh - what runs before and after conv_wgmma: packing weights, repairing tiles. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_ENDS_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_ENDS_CUH

#include "kernels/cuda/conv_wgmma.cuh"

enum { WGMMA_PACK_TAPS = 4 };

/* [group][phase][64 written channels][window][class][chunk of the window][tap][plane][row][16 bytes], zeros where
 * there is no channel. A thread makes one (FP32: two) 16 bytes of a row for some taps; lanes are rows. */
template <typename Tile>
static __global__ void __launch_bounds__(UF_BLOCK)
    conv_wgmma_pack(const __grid_constant__ wgmma_conv p, int64_t count) {
    const mma_conv &c = p.conv;
    const int64_t index = (int64_t)blockIdx.x * UF_BLOCK + threadIdx.x;
    if (index >= count) {
        return;
    }
    constexpr int PIECES = Tile::DEPTH / Tile::PER_PIECE;
    int64_t rest = index / UF_WGMMA_ROWS;
    const int row = (int)(index - rest * UF_WGMMA_ROWS);
    int64_t next = rest / PIECES;
    const int piece = (int)(rest - next * PIECES);
    rest = next / p.chunks;
    const int32_t chunk = (int32_t)(next - rest * p.chunks);
    const int64_t group = rest / p.channel_blocks;
    const int32_t block = (int32_t)(rest - group * p.channel_blocks);
    const int32_t written = block * UF_WGMMA_ROWS + row;
    const int32_t read = chunk * Tile::DEPTH + piece * Tile::PER_PIECE;
    const int32_t channels = written < c.written_per_group ? c.read_per_group - read : 0;
    const float *const from = c.weight + group * c.w_group + written * c.w_written + read * c.w_read;
    const int32_t all = p.first_tap[p.phases * p.classes];
    char *const to = (char *)c.packed + (group * all * p.channel_blocks * p.chunks) * UF_WGMMA_WEIGHTS +
                     (piece * UF_WGMMA_ROWS + row) * 16;
    int32_t pair = 0;
#pragma unroll 1
    for (int i = 0; i < WGMMA_PACK_TAPS; ++i) {
        const int32_t entry = (int32_t)blockIdx.y * WGMMA_PACK_TAPS + i;
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
        const float *const at = from + p.tap_of[entry][0] * c.w_row + p.tap_of[entry][1] * c.w_column;
        float value[Tile::PER_PIECE];
#pragma unroll
        for (int k = 0; k < Tile::PER_PIECE; ++k) {
            value[k] = k < channels ? at[k * c.w_read] : 0.0f;
        }
        uint4 words, small;
        wgmma_words<Tile>(value, &words, &small);
        *(uint4 *)(to + tile * UF_WGMMA_WEIGHTS) = words;
        if (Tile::FP32) {
            *(uint4 *)(to + tile * UF_WGMMA_WEIGHTS + 4 * UF_WGMMA_ROWS * 16) = small;
        }
    }
}

/* FP32 tiles that hold an infinity, or inputs near the largest float, where three rounded products are not finite:
 * chains of FFMAs. Looks at one byte per tile where there are none. */
static __global__ void __launch_bounds__(UF_BLOCK)
    conv_wgmma_repair(const __grid_constant__ wgmma_conv p) {
    const mma_conv &c = p.conv;
    const int32_t subs = p.phases * p.channel_blocks;
#pragma unroll 1
    for (int64_t i = blockIdx.x; i < p.tiles * p.wm; i += gridDim.x) {
        const int64_t tile = i / p.wm;
        const wgmma_place at = wgmma_place_of(p, tile);
        const int32_t sub = at.block_m * p.wm + (int32_t)(i - tile * p.wm);
        if (sub >= subs || !p.unfinished[i]) {
            continue;
        }
        const int32_t phase = sub / p.channel_blocks;
        const int32_t first_channel = (sub - phase * p.channel_blocks) * UF_WGMMA_ROWS;
        const mma_walk down = mma_walk_of(c.axis[0], phase / c.axis[1].phases);
        const mma_walk across = mma_walk_of(c.axis[1], phase % c.axis[1].phases);
        const int32_t left = c.written_per_group - first_channel;
        const int32_t rows = left < UF_WGMMA_ROWS ? left : UF_WGMMA_ROWS;
#pragma unroll 1
        for (int32_t element = (int32_t)threadIdx.x; element < rows * p.nt * UF_WGMMA_PIXELS;
             element += UF_BLOCK) {
            const int32_t column = element % (p.nt * UF_WGMMA_PIXELS);
            const int32_t channel = first_channel + element / (p.nt * UF_WGMMA_PIXELS);
            const wgmma_pixel pixel = wgmma_pixel_of(p, at, down, across, column / UF_WGMMA_PIXELS,
                                                     column % UF_WGMMA_PIXELS);
            if (pixel.there) {
                const int64_t of_all = (int64_t)at.group * c.written_per_group + channel;
                mma_finish(c, of_all, pixel.offset + of_all * c.written_stride[1],
                           mma_exact(c, down, across, at.group, channel, pixel.n,
                                     pixel.j_h * c.axis[0].in_step + down.in_first,
                                     pixel.j_w * c.axis[1].in_step + across.in_first));
            }
        }
    }
}

#endif
