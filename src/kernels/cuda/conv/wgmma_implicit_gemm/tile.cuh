/* tile.cuh - the device side of a tile: coordinates, shares, windows by producer warps, MMAs of a
 * tap. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_TILE_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_TILE_CUH

#include "kernels/cuda/conv/transform/channel_blocked.cuh"
#include "kernels/cuda/conv/mma_implicit_gemm/mainloop.cuh"
#include "kernels/cuda/conv/wgmma_implicit_gemm/plan.h"
#include "kernels/cuda/arch/split_f16.cuh"
#include "kernels/cuda/arch/sm90_wgmma_f16.cuh"

/* The problem and its geometry, as a kernel's parameter. */
struct wgmma_conv : uf_wgmma_geometry {
    mma_conv conv;
    uint8_t *unfinished;  /* FP32, by tile and warpgroup: 1 if the exact fix-up computes it */
    uint8_t *flagged;     /* 3xF16: the same for the fix-up in 3xTF32, which skips all other tiles;
                             null: no fix-up */
    int32_t *range_flags; /* not 0: some tile is flagged */
    uf_split_f16_scales *scales; /* 3xF16: scales; a is that of the read tensor */
    float *parts;       /* partial sums of stream-K CTAs' first tiles, by CTA, warpgroup, MMA */
    int32_t *part_done; /* 1 once they are stored, by CTA and warpgroup */
};

/* swap_ab/launch.cu: packs weights and runs the main kernel. In FP32 the exact fix-up is left to
 * the caller. */
uf_status wgmma_swap_ab_launch(uf_context *context, const wgmma_conv &p, uf_dtype stored,
                               uf_mma_math math, uf_conv_packing packing, int processors);

/* launch.cu: computes tiles whose range flag is set, in 3xTF32: packing, main kernel and exact
 * fix-up, which end at once without flags. */
uf_status wgmma_fixup_launch(uf_context *context, uf_conv_direction direction,
                             const uf_conv_kernel_args *args, const wgmma_conv &p, void *blocks,
                             int processors);

/* Two consumer warpgroups share a window (one CTA per multiprocessor), or one has its own (two
 * CTAs). NT MMAs of 128 pixels lie beside each other. TMA loads bring PACKED windows, producer
 * warps make others. */
template <uf_mma_math MATH_, int WM_, int NT_, bool PACKED_, bool WIDE_, wgmma_scheduler SCHEDULER_,
          typename stored_>
struct wgmma_tile {
    typedef stored_ stored; /* element type of the tensors; bf16 is always packed */
    static constexpr uf_mma_math MATH = MATH_;
    static constexpr int WM = WM_, NT = NT_;
    static constexpr bool PACKED = PACKED_, WIDE = WIDE_, SPLIT_F16 = MATH == UF_MMA_F16X3;
    static constexpr bool FP32 = MATH == UF_MMA_TF32X3 || SPLIT_F16; /* by TF32 or by f16 parts */
    static constexpr bool SPLIT = SCHEDULER_ == WGMMA_CLUSTERS,
                          SHARED = SCHEDULER_ == WGMMA_STREAM_K;
    static constexpr int CONSUMERS = 128 * WM, PRODUCERS = PACKED ? 128 : 128 * WM;
    static constexpr int THREADS = CONSUMERS + PRODUCERS;
    static constexpr int WINDOW_PRODUCERS = PRODUCERS - 32 * WM; /* the other warps load weights */
    static constexpr int BLOCKS = WM == 1 ? 2 : 1;
    static constexpr int DEPTH = MATH == UF_MMA_TF32X3 ? 16 : MATH == UF_MMA_BF16 ? 64 : 32;
    static constexpr int PER_PIECE =
        MATH == UF_MMA_BF16 || SPLIT_F16 ? 8 : 4; /* channels in 16 bytes */
    static constexpr int SMALL =
        SPLIT_F16 ? 2 : 4;                         /* planes from large parts to their small ones */
    static constexpr int STEP = SPLIT_F16 ? 4 : 2; /* planes from a step of K to the next */
    static constexpr int PARTS = DEPTH / UF_WGMMA_UNIT;
    static constexpr int RAW =
        WM == 1 ? UF_WGMMA_RAW_HALF : UF_WGMMA_RAW_WHOLE; /* units in flight */
    static constexpr int CONSUMER_REGISTERS = PACKED    ? (WM == 1 ? 216 : 232)
                                              : NT == 2 ? 176
                                              : FP32    ? 168
                                                        : 152;
    /* Registers suffice for accumulators of the small parts. */
    static constexpr bool SEPARATE = SPLIT_F16 && PACKED && NT == 1 && !SHARED;
    /* Registers suffice to store results straight from them. */
    static constexpr bool RUNS = !WIDE && !(FP32 && WM == 2 && (NT == 2 || !PACKED));
    static constexpr bool MERGES = SCHEDULER_ == WGMMA_MERGED; /* rows are two phases */
    static constexpr bool STACKS = NT == 1; /* and to cross from an image to the one below */
    static constexpr int PRODUCER_REGISTERS = PACKED ? 40 : 256 - CONSUMER_REGISTERS;
};

/* A tile's coordinates. */
struct wgmma_coord {
    int32_t group, block_m, n, y, x; /* first image, first element of a phase */
};

/* A CTA's share: chunks `begin` to `end` of a tile, then further tiles. CTAs of a cluster share one
 * tile. Stream-K shares begin and end anywhere and are numbered against the order of CTAs: a CTA
 * waits only for CTAs that have started before it. */
struct wgmma_share {
    int32_t tile, step, limit, begin, end;
    int32_t last_end; /* `end` of the last tile */
    int32_t split;    /* number within the cluster's split */
    uint32_t lanes;   /* lanes of the warp that take part */
};

/* Lane 0's value, which the compiler then knows to be uniform: it issues MMAs in a divergent branch
 * one by one. `lanes`: lanes that take part, all of them or 1 for lane 0 alone. */
static __device__ __forceinline__ int wgmma_uniform(int value, uint32_t lanes) {
    return __shfl_sync(lanes, value, 0);
}

/* True for a tile without a range flag in the fix-up launch. All roles ask. */
template <typename Tile>
static __device__ __forceinline__ bool wgmma_skips(const wgmma_conv &p, int32_t tile,
                                                   uint32_t lanes) {
    bool skipped = false;
    if (Tile::MATH == UF_MMA_TF32X3 && p.flagged != nullptr) {
        skipped = true;
#pragma unroll
        for (int i = 0; i < Tile::WM; ++i) {
            skipped = skipped && p.flagged[(int64_t)tile * Tile::WM + i] == 0;
        }
        skipped = wgmma_uniform(skipped, lanes) != 0;
    }
    return skipped;
}

static __device__ __forceinline__ int32_t wgmma_stream_k_peer(const wgmma_conv &p) {
    return p.stream_k - 1 - (int32_t)blockIdx.x;
}

template <typename Tile>
static __device__ __forceinline__ void wgmma_next(const wgmma_conv &p, wgmma_share &share) {
    do {
        share.tile += share.step;
        if (Tile::SHARED) {
            share.begin = 0;
            share.end = share.tile + 1 == share.limit ? share.last_end : p.chunks;
        }
    } while (share.tile < share.limit && wgmma_skips<Tile>(p, share.tile, share.lanes));
}

template <typename Tile>
static __device__ __forceinline__ wgmma_share wgmma_share_of(const wgmma_conv &p, uint32_t lanes) {
    wgmma_share share = {
        (int32_t)blockIdx.x, (int32_t)gridDim.x, (int32_t)p.tiles, 0, p.chunks, p.chunks, 0, lanes};
    if (Tile::SPLIT) {
        share.tile = (int32_t)blockIdx.x / p.splits;
        share.step = (int32_t)p.tiles;
        share.split = (int32_t)blockIdx.x - share.tile * p.splits;
        share.begin = uf_wgmma_split_begin(&p, share.split);
        share.end = uf_wgmma_split_begin(&p, share.split + 1);
    } else if (Tile::SHARED) {
        const uf_wgmma_cut from = uf_wgmma_cut_of(&p, wgmma_stream_k_peer(p));
        const uf_wgmma_cut to = uf_wgmma_cut_of(&p, wgmma_stream_k_peer(p) + 1);
        share.tile = from.tile;
        share.step = 1;
        share.limit = to.chunk > 0 ? to.tile + 1 : to.tile;
        share.last_end = to.chunk > 0 ? to.chunk : p.chunks;
        share.begin = from.chunk;
        share.end = share.tile + 1 == share.limit ? share.last_end : p.chunks;
    }
    if (share.tile < share.limit && wgmma_skips<Tile>(p, share.tile, lanes)) {
        wgmma_next<Tile>(p, share);
    }
    return share;
}

static __device__ __forceinline__ wgmma_coord wgmma_coord_of(const wgmma_conv &p, int32_t tile) {
    wgmma_coord at;
    int32_t next = tile / p.together;
    at.block_m = tile - next * p.together;
    const int32_t turn = next / p.coords;
    int32_t rest = next - turn * p.coords;
    at.block_m += p.backwards ? p.blocks_m - (turn + 1) * p.together : turn * p.together;
    next = rest / p.axis[1].tiles;
    at.x = (rest - next * p.axis[1].tiles) * p.axis[1].patch * p.axis[1].mmas;
    rest = next / p.axis[0].tiles;
    at.y = (next - rest * p.axis[0].tiles) * p.axis[0].patch * p.axis[0].mmas;
    next = rest / p.image_tiles;
    at.n = ((rest - next * p.image_tiles) * p.image_mmas)
           << (p.axis[0].images_log + p.axis[1].images_log);
    at.group = next;
    return at;
}

/* A warpgroup's part of a tile: 64 channels of one phase. */
struct wgmma_role {
    int32_t phase, block;
    bool idle;
};

static __device__ __forceinline__ wgmma_role wgmma_role_of(const wgmma_conv &p, int32_t sub) {
    wgmma_role role = {0, 0, sub >= p.phases * p.channel_blocks};
    if (role.idle) {
        return role;
    }
    if (p.paired) {
        const int32_t pair = sub >> 1;
        const int32_t down = pair / p.channel_blocks;
        role.block = pair - down * p.channel_blocks;
        role.phase = down * 2 + (sub & 1);
    } else {
        role.phase = sub / p.channel_blocks;
        role.block = sub - role.phase * p.channel_blocks;
    }
    return role;
}

/* The image of row `y` of a stack; y becomes the row within it. Rows above the stack stay. */
static __device__ __forceinline__ int32_t wgmma_unstack(const wgmma_conv &p, int32_t &y) {
    if (p.stack == 0 || y < 0) {
        return 0;
    }
    const int32_t image =
        p.stack == 1 ? y
                     : (int32_t)__umulhi((uint32_t)y, p.stack_inverse); /* 2^32 exceeds a word */
    y -= image * p.stack;
    return image;
}

/* Column `column` of MMA `mma` of a tile: element (j_h, j_w) of a phase of image n. LINES: p.line
 * may be set. */
struct wgmma_pixel {
    int64_t offset; /* element of channel 0 */
    int32_t n, j_h, j_w;
    bool there;
};

template <bool LINES = true>
static __device__ __forceinline__ wgmma_pixel wgmma_pixel_of(const wgmma_conv &p,
                                                             const wgmma_coord &at,
                                                             const mma_walk &down,
                                                             const mma_walk &across, int mma,
                                                             int column) {
    const uf_wgmma_axis &rows = p.axis[0], &columns = p.axis[1];
    const int32_t beside_x = columns.mmas > 1 ? mma : 0;
    const int32_t beside_y = rows.mmas > 1 ? mma : 0;
    const int32_t beside_n = p.image_mmas > 1 ? mma : 0;
    const int run = column >> (3 + p.runs_log);
    const int in_run = column & 7;
    const int run_across = (column >> 3) & ((1 << p.runs_log) - 1);
    wgmma_pixel made;
    made.j_h = at.y + beside_y * rows.patch + (run >> rows.images_log);
    made.j_w = at.x + beside_x * columns.patch + run_across * 8 + (in_run >> columns.images_log);
    made.n = at.n + (beside_n << (rows.images_log + columns.images_log)) +
             ((run & ((1 << rows.images_log) - 1)) << columns.images_log) +
             (in_run & ((1 << columns.images_log) - 1));
    if (LINES && p.line > 0) {
        const uint32_t position = (uint32_t)(at.x + mma * UF_WGMMA_PIXELS + column);
        made.j_h = (int32_t)__umulhi(position, p.line_inverse);
        made.j_w = (int32_t)position - made.j_h * p.line;
    }
    made.n += wgmma_unstack(p, made.j_h);
    made.there = made.n < p.conv.batch && made.j_h < down.out_count && made.j_w < across.out_count;
    made.offset =
        made.n * p.conv.written_stride[0] +
        (down.out_first + (int64_t)made.j_h * p.conv.axis[0].out_step) * p.conv.written_stride[2] +
        (across.out_first + (int64_t)made.j_w * p.conv.axis[1].out_step) * p.conv.written_stride[3];
    return made;
}

/* The two column phases of a row. */
struct wgmma_sides {
    mma_walk even, odd;
};

static __device__ __forceinline__ wgmma_sides wgmma_sides_of(const mma_axis &across) {
    const mma_walk first = mma_walk_of(&across, 0), second = mma_walk_of(&across, 1);
    const bool in_order = first.out_first == 0;
    wgmma_sides made = {in_order ? first : second, in_order ? second : first};
    return made;
}

/* Row (((MMA of images, y), image or run down), x), image across) of a window, as image << 24 | y
 * << 12 | x. */
static __device__ __forceinline__ uint32_t wgmma_row(const wgmma_conv &p, int32_t row) {
    const uf_wgmma_axis &rows = p.axis[0], &columns = p.axis[1];
    const int32_t image_across = row & ((1 << columns.images_log) - 1);
    int32_t rest = row >> columns.images_log;
    int32_t x = rest % columns.extent;
    rest /= columns.extent;
    x += (rest & ((1 << p.patch_log) - 1)) * 8;
    rest >>= p.patch_log;
    const int32_t image_down = rest & ((1 << rows.images_log) - 1);
    rest >>= rows.images_log;
    const int32_t y = rest % rows.extent;
    const int32_t mma = rest / rows.extent;
    const int32_t image =
        (((mma << rows.images_log) + image_down) << columns.images_log) + image_across;
    return (uint32_t)image << 24 | (uint32_t)y << 12 | (uint32_t)x;
}

/* The source of a window row: its first channel, and the channels that exist from there on. */
struct wgmma_source {
    const float *from;
    int32_t channels;
};

static __device__ __forceinline__ wgmma_source wgmma_source_of(const wgmma_conv &p,
                                                               const wgmma_coord &at, uint32_t row,
                                                               int klass, int32_t first_channel) {
    const mma_conv &c = p.conv;
    int32_t down = at.y + p.axis[0].first + p.class_first[klass][0] + (int32_t)(row >> 12 & 0xfff);
    const int32_t n = at.n + (int32_t)(row >> 24) + wgmma_unstack(p, down);
    const int32_t y = down * p.axis[0].mul + p.class_of[klass][0];
    const int32_t x = (at.x + p.axis[1].first + p.class_first[klass][1] + (int32_t)(row & 0xfff)) *
                          p.axis[1].mul +
                      p.class_of[klass][1];
    wgmma_source made = {c.read, 0};
    if (n < c.batch && mma_inside(y, c.axis[0].read) && mma_inside(x, c.axis[1].read) &&
        first_channel < c.read_per_group) {
        made.from += n * c.read_stride[0] +
                     ((int64_t)at.group * c.read_per_group + first_channel) * c.read_stride[1] +
                     y * c.read_stride[2] + x * c.read_stride[3];
        made.channels = c.read_per_group - first_channel;
    }
    return made;
}

#if UF_HAS_WGMMA

struct wgmma_barriers {
    uint64_t window_full[UF_WGMMA_WINDOWS], window_empty[UF_WGMMA_WINDOWS];
    uint64_t weights_full[UF_WGMMA_STAGES], weights_empty[UF_WGMMA_STAGES];
    uf_split_f16_scales scales; /* 3xF16 only */
};

static __device__ __forceinline__ void wgmma_store(uint32_t shared, const uint4 &words) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};\n" ::"r"(shared), "r"(words.x),
                 "r"(words.y), "r"(words.z), "r"(words.w)
                 : "memory");
}

/* Stores two neighbouring results. */
static __device__ __forceinline__ void wgmma_store_pair(float *to, float2 pair) {
    *(float2 *)to = pair;
}

static __device__ __forceinline__ void wgmma_store_pair(uf_bf16 *to, float2 pair) {
    *(uint32_t *)to = uf_pack_bf16(pair.x, pair.y);
}

static __device__ __forceinline__ float2 wgmma_load_pair(const float *from) {
    return *(const float2 *)from;
}

static __device__ __forceinline__ float2 wgmma_load_pair(const uf_bf16 *from) {
    const uint32_t pair = *(const uint32_t *)from;
    return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u));
}

/* A unit of a producer warp: 16 channels of a window, in the consumers' order. */
struct wgmma_unit {
    int32_t tile;
    wgmma_coord at;
    int32_t chunk, klass, deep, part;
};

static __device__ __forceinline__ void wgmma_begin(const wgmma_conv &p, const wgmma_share &share,
                                                   wgmma_unit &unit) {
    unit.tile = share.tile;
    unit.at = wgmma_coord_of(p, unit.tile);
    unit.chunk = share.begin;
    unit.klass = unit.deep = unit.part = 0;
}

template <typename Tile>
static __device__ __forceinline__ void wgmma_advance(const wgmma_conv &p, const wgmma_share &share,
                                                     wgmma_unit &unit) {
    if (++unit.part < Tile::PARTS) {
        return;
    }
    unit.part = 0;
    if (++unit.deep < p.depth) {
        return;
    }
    unit.deep = 0;
    if (++unit.klass < p.classes) {
        return;
    }
    unit.klass = 0;
    unit.chunk += p.depth;
    if (unit.chunk >= share.end) {
        unit.chunk = share.begin;
        do {
            unit.tile += share.step;
        } while (unit.tile < p.tiles && wgmma_skips<Tile>(p, unit.tile, share.lanes));
        unit.at = wgmma_coord_of(p, unit.tile);
    }
}

/* Starts the loads of a unit: a thread's rows (positions of the read side) to [channel][row] in
 * `raw`. No other thread reads them. */
template <typename Tile>
static __device__ __forceinline__ void wgmma_load(const wgmma_conv &p, const wgmma_unit &unit,
                                                  const uint32_t *coords, uint32_t raw,
                                                  int thread) {
    const int32_t first_channel =
        (unit.chunk + unit.deep) * Tile::DEPTH + unit.part * UF_WGMMA_UNIT;
    const uint32_t pitch = (uint32_t)p.window_rows * 4;
#pragma unroll 1
    for (int32_t row = thread; row < p.window_rows; row += Tile::WINDOW_PRODUCERS) {
        wgmma_source source = wgmma_source_of(p, unit.at, coords[row], unit.klass, first_channel);
        uint32_t to = raw + (uint32_t)row * 4;
#pragma unroll
        for (int i = 0; i < UF_WGMMA_UNIT; ++i) {
            uf_copy_async4(to, source.from, i < source.channels);
            source.from +=
                i + 1 < source.channels ? p.conv.read_stride[1] : 0; /* never beyond the tensor */
            to += pitch;
        }
    }
}

/* Rounds or splits a unit that has arrived and stores it to the window: 16 bytes of channels per
 * row and plane. */
template <typename Tile>
static __device__ __forceinline__ void wgmma_convert(const wgmma_conv &p, const wgmma_unit &unit,
                                                     uint32_t raw, uint32_t window, float scale,
                                                     int thread) {
    const uint32_t plane = (uint32_t)p.window_rows * 16;
    const uint32_t pitch = (uint32_t)p.window_rows * 4;
    constexpr int PIECES = UF_WGMMA_UNIT / Tile::PER_PIECE;
    window +=
        (uint32_t)(unit.deep * UF_WGMMA_PLANES + unit.part * PIECES * (Tile::FP32 ? 2 : 1)) * plane;
#pragma unroll 1
    for (int32_t row = thread; row < p.window_rows; row += Tile::WINDOW_PRODUCERS) {
        float value[UF_WGMMA_UNIT];
        uint32_t from = raw + (uint32_t)row * 4;
#pragma unroll
        for (int i = 0; i < UF_WGMMA_UNIT; ++i) {
            asm volatile("ld.shared.f32 %0, [%1];\n" : "=f"(value[i]) : "r"(from) : "memory");
            from += pitch;
        }
        uint32_t to = window + (uint32_t)row * 16;
#pragma unroll
        for (int piece = 0; piece < PIECES; ++piece) {
            uint4 words, small;
            conv_words<Tile::MATH>(value + piece * Tile::PER_PIECE, scale, &words, &small);
            wgmma_store(to, words);
            if (Tile::FP32) {
                wgmma_store(to + Tile::SMALL * plane, small);
            }
            to += plane;
        }
    }
}

template <uf_mma_math MATH>
struct wgmma_element : uf_wgmma_element<MATH == UF_MMA_BF16> {};

template <>
struct wgmma_element<UF_MMA_F16X3> {
    typedef uf_wgmma_f16 type;
};

/* MMAs of one tap, one chunk and 128 pixels: `a` weights, `b` pixels, two planes per step. FP32 has
 * small parts in planes 4 to 7 (f16: 2, 3, 6, 7). SMALL: the two MMAs with a small part; else the
 * one without. */
template <typename Tile, int STEPS, bool SMALL, int N>
static __device__ __forceinline__ void wgmma_multiply(float (&d)[N / 2], uint64_t a, uint64_t b,
                                                      uint32_t plane, int add) {
    constexpr uint32_t A_PLANE = UF_WGMMA_ROWS; /* in units of 16 bytes, as in descriptors */
    typedef uf_wgmma_mma<typename wgmma_element<Tile::MATH>::type, N> mma;
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
        const uint64_t a_at = a + Tile::STEP * step * A_PLANE;
        const uint64_t b_at = b + Tile::STEP * step * plane;
        if (SMALL) {
            mma::run(d, a_at + Tile::SMALL * A_PLANE, b_at, add);
            mma::run(d, a_at, b_at + Tile::SMALL * plane, 1);
        } else {
            mma::run(d, a_at, b_at, add);
        }
        add = 1;
    }
}

/* MMAs of a patch: 16 runs of 8 pixels below each other, or (WIDE) two rows of 64, `below`
 * apart. */
template <typename Tile, int STEPS, bool SMALL>
static __device__ __forceinline__ void wgmma_patch(float (&d)[UF_WGMMA_PIXELS / 2], uint64_t a,
                                                   uint64_t b, uint32_t below, uint32_t plane,
                                                   int add) {
    constexpr int HALF = UF_WGMMA_PIXELS / 2;
    if (Tile::WIDE) {
        wgmma_multiply<Tile, STEPS, SMALL, HALF>((float(&)[HALF / 2]) d[0], a, b, plane, add);
        wgmma_multiply<Tile, STEPS, SMALL, HALF>((float(&)[HALF / 2]) d[HALF / 2], a, b + below,
                                                 plane, add);
    } else {
        wgmma_multiply<Tile, STEPS, SMALL, UF_WGMMA_PIXELS>(d, a, b, plane, add);
    }
}

#endif

#endif
