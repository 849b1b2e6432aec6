/* conv_wgrad_wgmma.cuh - conv_wgrad by conv_wgmma: both operands packed, K-major, and the sums of the splits.
 *
 * The pixels of y are the depth of the product, and they are neighbours in memory on both sides: each thread takes 16 of
 * them, of one channel of y or of one column (c, r, s) of x as that tap sees it, rounds them, and writes pieces of 16
 * bytes. What the product kernel then reads is one run of bytes per tile and chunk. Its partial sums are those of
 * conv_wgrad_mma with a tile per 64 rows, and are added, repaired and written by the same kernel. */
#ifndef UF_KERNELS_CUDA_CONV_WGRAD_WGMMA_CUH
#define UF_KERNELS_CUDA_CONV_WGRAD_WGMMA_CUH

#include "kernels/cuda/conv_wgmma.cuh"
#include "kernels/cuda/conv_wgrad_add.cuh"

struct wgmma_wgrad {
    wgmma_conv product;
    wgrad_plan sums;
    int32_t pixels;
    int32_t row_threads, column_threads;
};

/* One row of an operand: where pixel (n, p, q) reads, and whether that is inside. */
struct wgmma_line {
    const float *from;
    int64_t stride[3]; /* n, h, w */
    int32_t mul[2], add[2], extent[2];
    bool there;
};

static __device__ __forceinline__ wgmma_line wgmma_line_of_row(const wgmma_wgrad &g, int32_t group,
                                                               int32_t k) {
    const wgrad_plan &w = g.sums;
    wgmma_line line = {w.y + ((int64_t)group * w.k_per_group + k) * w.y_stride[1],
                       {w.y_stride[0], w.y_stride[2], w.y_stride[3]},
                       {1, 1},
                       {0, 0},
                       {w.small[0], w.small[1]},
                       k < w.k_per_group};
    return line;
}

static __device__ __forceinline__ wgmma_line wgmma_line_of_column(const wgmma_wgrad &g,
                                                                  int32_t group, int32_t index) {
    const wgrad_plan &w = g.sums;
    const wgrad_column column = wgrad_column_of(w, index);
    const int32_t r = column.tap / w.taps_w;
    const int32_t s = column.tap - r * w.taps_w;
    wgmma_line line = {w.x + ((int64_t)group * w.c_per_group + column.channel) * w.x_stride[1],
                       {w.x_stride[0], w.x_stride[2], w.x_stride[3]},
                       {w.stride[0], w.stride[1]},
                       {r * w.dilation[0] - w.padding[0], s * w.dilation[1] - w.padding[1]},
                       {w.large[0], w.large[1]},
                       column.there};
    return line;
}

/* 16 pixels of a line, from pixel `first` on. Runs of four that are neighbours in memory are read at once: lanes have
 * different channels, so that an instruction meets up to 32 lines of the cache, however much it takes from each. */
static __device__ __forceinline__ void wgmma_read_line(const wgmma_wgrad &g, const wgmma_line &line,
                                                       int32_t first, float (&value)[UF_WGMMA_UNIT]) {
    const int32_t across = g.sums.small[1];
    const int32_t down = g.sums.small[0];
    int32_t rest = first / across;
    int32_t q = first - rest * across;
    int32_t n = rest / down;
    int32_t p = rest - n * down;
    if (across % 4 == 0 && line.mul[1] == 1 && line.stride[2] == 1 && line.there &&
        first + UF_WGMMA_UNIT <= g.pixels) {
        const float4 *run[UF_WGMMA_UNIT / 4];
        int32_t q_run = q, p_run = p, n_run = n;
        bool whole = true;
#pragma unroll
        for (int i = 0; i < UF_WGMMA_UNIT / 4; ++i) {
            const int32_t h = p_run * line.mul[0] + line.add[0];
            const int32_t w = q_run + line.add[1];
            const float *const from =
                line.from + (n_run * line.stride[0] + h * line.stride[1] + w);
            whole = whole && mma_inside(h, line.extent[0]) && w >= 0 && w + 4 <= line.extent[1] &&
                    (uintptr_t)from % 16 == 0;
            run[i] = (const float4 *)from;
            q_run += 4;
            if (q_run == across) {
                q_run = 0;
                if (++p_run == down) {
                    p_run = 0;
                    ++n_run;
                }
            }
        }
        if (whole) {
#pragma unroll
            for (int i = 0; i < UF_WGMMA_UNIT / 4; ++i) {
                const float4 four = *run[i];
                value[4 * i] = four.x;
                value[4 * i + 1] = four.y;
                value[4 * i + 2] = four.z;
                value[4 * i + 3] = four.w;
            }
            return;
        }
    }
#pragma unroll
    for (int i = 0; i < UF_WGMMA_UNIT; ++i) {
        const int32_t h = p * line.mul[0] + line.add[0];
        const int32_t w = q * line.mul[1] + line.add[1];
        const bool inside = line.there && first + i < g.pixels && mma_inside(h, line.extent[0]) &&
                            mma_inside(w, line.extent[1]);
        value[i] = inside ? line.from[n * line.stride[0] + h * line.stride[1] + w * line.stride[2]]
                          : 0.0f;
        if (++q == across) {
            q = 0;
            if (++p == down) {
                p = 0;
                ++n;
            }
        }
    }
}

/* The same, rounded, to `to`, whose planes are `plane` pieces apart. */
template <typename Tile>
static __device__ __forceinline__ void wgmma_pack_line(const wgmma_wgrad &g, const wgmma_line &line,
                                                       int32_t first, uint4 *to, int64_t plane) {
    float value[UF_WGMMA_UNIT];
    wgmma_read_line(g, line, first, value);
#pragma unroll
    for (int piece = 0; piece < UF_WGMMA_UNIT / Tile::PER_PIECE; ++piece) {
        uint4 words, small;
        wgmma_words<Tile>(value + piece * Tile::PER_PIECE, &words, &small);
        to[0] = words;
        if (Tile::FP32) {
            to[4 * plane] = small;
        }
        to += plane;
    }
}

/* [group][split][64 rows or a tile of columns][chunk][plane][row][16 bytes], both. Lanes are rows. */
template <typename Tile>
static __global__ void __launch_bounds__(UF_BLOCK)
    conv_wgrad_wgmma_pack(const __grid_constant__ wgmma_wgrad g) {
    const wgmma_conv &p = g.product;
    uf_launch_dependents();
    int32_t index = (int32_t)(blockIdx.x * UF_BLOCK + threadIdx.x);
    const bool is_row = index < g.row_threads;
    if (!is_row) {
        index -= g.row_threads;
        if (index >= g.column_threads) {
            return;
        }
    }
    const int32_t lines = is_row ? UF_WGMMA_ROWS : p.window_rows;
    const int32_t blocks = is_row ? p.channel_blocks : p.axis[0].tiles;
    int32_t rest = index / lines;
    const int32_t line = index - rest * lines;
    int32_t next = rest / Tile::PARTS;
    const int32_t part = rest - next * Tile::PARTS;
    const int64_t chunk_of_all = next;
    rest = next / p.chunks;
    const int32_t chunk = next - rest * p.chunks;
    next = rest / blocks;
    const int32_t block = rest - next * blocks;
    const int32_t group = next / p.splits;
    const int32_t split = next - group * p.splits;
    const int32_t first = (split * p.chunks + chunk) * Tile::DEPTH + part * UF_WGMMA_UNIT;
    uint4 *const to = (uint4 *)(is_row ? (char *)p.conv.packed : p.packed_windows) +
                      (chunk_of_all * UF_WGMMA_PLANES + part * (UF_WGMMA_UNIT / Tile::PER_PIECE)) * lines +
                      line;
    wgmma_pack_line<Tile>(g,
                          is_row ? wgmma_line_of_row(g, group, block * UF_WGMMA_ROWS + line)
                                 : wgmma_line_of_column(g, group, block * p.window_rows + line),
                          first, to, lines);
}

/* Packed rows of y, packed columns of x, partial sums. */
static inline int64_t wgmma_wgrad_row_bytes(const uf_wgmma_geometry &g, int64_t groups) {
    return groups * g.splits * g.channel_blocks * g.chunks * UF_WGMMA_WEIGHTS;
}

static inline int64_t wgmma_wgrad_columns(const uf_wgmma_geometry &g) {
    return (int64_t)g.axis[0].tiles * g.window_rows;
}

static inline int64_t wgmma_wgrad_partial_bytes(const uf_wgmma_geometry &g, int64_t groups) {
    return g.splits * groups * g.channel_blocks * UF_WGMMA_ROWS * wgmma_wgrad_columns(g) * 4;
}

/* The product's view of its result: a matrix of rows x columns per split, columns as runs of eight. */
static inline wgmma_wgrad wgmma_wgrad_of(const uf_conv_kernel_args *args,
                                         const uf_wgmma_geometry &geometry, int32_t parts) {
    wgmma_wgrad g;
    memset((void *)&g, 0, sizeof g);
    wgmma_conv &p = g.product;
    (uf_wgmma_geometry &)p = geometry;
    wgrad_plan &w = g.sums;
    w = wgrad_begin(args);
    const int64_t columns = wgmma_wgrad_columns(geometry);
    char *at = (char *)args->workspace;
    p.conv.packed = (uint32_t *)at;
    at += wgmma_wgrad_row_bytes(geometry, args->groups);
    p.packed_windows = at;
    at += geometry.window_count * geometry.depth * geometry.window_rows * (UF_WGMMA_PLANES * 16);
    p.conv.written = w.partial = (float *)at;

    w.rows = UF_WGMMA_ROWS;
    w.columns = (int32_t)columns;
    w.channels = 1;
    w.channel_blocks = w.c_per_group;
    w.all_columns = w.c_per_group * w.taps;
    w.tiles_m = geometry.channel_blocks;
    w.tiles_n = 1;
    w.tiles = (int32_t)args->groups * geometry.channel_blocks;
    w.splits = geometry.splits;
    w.adders = w.splits >= 16 ? 8 : 1;

    p.conv.batch = geometry.splits;
    p.conv.groups = (int32_t)args->groups;
    p.conv.written_per_group = geometry.channel_blocks * UF_WGMMA_ROWS;
    p.conv.written_stride[0] = (int64_t)w.tiles * UF_WGMMA_ROWS * columns;
    p.conv.written_stride[1] = columns;
    p.conv.written_stride[2] = 8;
    p.conv.written_stride[3] = 1;
    for (int axis = 0; axis < 2; ++axis) {
        p.conv.axis[axis].phases = 1;
        p.conv.axis[axis].out_step = 1;
        p.conv.axis[axis].walk[0].out_count = axis == 0 ? (int32_t)(columns / 8) : 8;
    }
    g.pixels = w.batch * w.small[0] * w.small[1];
    g.row_threads =
        (int32_t)(args->groups * geometry.splits * geometry.channel_blocks * geometry.chunks * parts *
                  UF_WGMMA_ROWS);
    g.column_threads =
        (int32_t)(geometry.window_count * geometry.depth * parts * geometry.window_rows);
    return g;
}

#endif
