/* load.cuh - the warps of register_a/launch.cu that copy: x and y of a box into a
 * stage of shared memory, y as MMAs take it. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_WGRAD_REGISTER_A_LOAD_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_WGRAD_REGISTER_A_LOAD_CUH

#include "kernels/cuda/conv/wgmma_wgrad/register_a/plan.h"
#include "kernels/cuda/conv/mma_implicit_gemm/wgrad_mainloop.cuh"
#include "kernels/cuda/arch/sm90_wgmma.cuh"

template <uf_mma_math MATH_, int ROWS_, int MOST_, int PART_>
struct wgrad_rs_tile {
    static constexpr uf_mma_math MATH = MATH_;
    static constexpr bool FP32 = MATH == UF_MMA_TF32X3, BF16 = MATH == UF_MMA_BF16;
    static constexpr int ROWS = ROWS_, MOST = MOST_, PART = PART_;
    static constexpr int CONSUMERS = WGRAD_RS_CONSUMERS * 128, PRODUCERS = WGRAD_RS_PRODUCERS * 32;
    static constexpr int THREADS = CONSUMERS + PRODUCERS;
    static constexpr bool SHARES = WGRAD_RS_SHARES(MATH, ROWS);
    /* The launch gives 128 to each of four warpgroups. */
    static constexpr int CONSUMER_REGISTERS = 208, PRODUCER_REGISTERS = 48;
    static constexpr int PER_PIECE = WGRAD_RS_PER_PIECE(MATH), PIECES = WGRAD_PIXELS / PER_PIECE;
    static constexpr int SETS = MATH == UF_MMA_TF32 ? 1 : 2;
    static constexpr int STEP = BF16 ? 16 : 8, STEPS = WGRAD_PIXELS / STEP; /* pixels of an MMA */
};

#if UF_HAS_WGMMA

/* A block's shared memory. A stage: y, in one set of planes of pieces or two, then x. */
struct wgrad_rs_shared {
    uint64_t *full, *empty;
    unsigned char *stages;
};

/* The boxes of this block. */
static __device__ __forceinline__ wgrad_rs_part wgrad_rs_mine(const wgrad_plan &p) {
    wgrad_rs_part part;
    if (p.share > 0) {
        wgrad_rs_share_of(&p, (int32_t)blockIdx.x, &part);
    } else {
        wgrad_rs_split_of(&p, (int32_t)blockIdx.x, (int32_t)blockIdx.y, &part);
    }
    return part;
}

/* The boxes of this block in its tile `on`, from 0. */
static __device__ __forceinline__ int32_t wgrad_rs_boxes_on(const wgrad_plan &p, int32_t on) {
    const wgrad_rs_part part = wgrad_rs_mine(p);
    return wgrad_rs_boxes_of(&p, &part, on);
}

/* Is something of this thread's share of this block's tiles to be made again? All threads look. */
static __device__ __forceinline__ bool wgrad_rs_marked(const wgrad_plan &p, int32_t threads) {
    const wgrad_rs_part part = wgrad_rs_mine(p);
    bool marked = false;
#pragma unroll 1
    for (int32_t on = 0; on == 0 || wgrad_rs_boxes_on(p, on) > 0; ++on) {
        const wgrad_corner at = wgrad_corner_of(&p, part.tile + on);
        const int32_t first = wgrad_first_block(&p, at.column) * p.channels;
        const int32_t end = min(p.c_per_group, first + wgrad_span(&p, at.column) * p.channels);
        const int32_t first_span = first >> p.fixup.span_log;
        const int32_t spans = ((end - 1) >> p.fixup.span_log) - first_span + 1;
#pragma unroll 1
        for (int32_t i = (int32_t)threadIdx.x; i < p.rows * spans; i += threads) {
            const int32_t row = i / spans;
            const int32_t k = at.row + row;
            marked =
                marked || (k < p.k_per_group &&
                           p.fixup.spans[(int64_t)(at.group * p.k_per_group + k) * p.fixup.per_row +
                                         first_span + i - row * spans] != 0);
        }
    }
    return marked;
}

/* A tile as a block copies it, and a warp's part of x. */
struct wgrad_rs_source {
    const float *x, *y; /* the tile's first block of channels; the tile's first row */
    const wgrad_coord *coords;
    int32_t rows;     /* of y that there are */
    int32_t channels; /* of x that there are, from the first block on */
    int32_t blocks;   /* of channels */
    int32_t chunk, local,
        units; /* first chunk of 32 entries, block of channels there, number of both */
};

/* y as it is, each thread to where it will write what it makes of it: a piece of four pixels to the
 * first set, in BF16 the other four to the second. */
template <typename Tile>
static __device__ __forceinline__ void
wgrad_rs_copy_y(const wgrad_rs_plan &plan, const wgrad_rs_source &source, unsigned char *stage,
                const wgrad_box &box, int thread, int threads) {
    const wgrad_plan &p = plan.sums;
    const int32_t n = box.n * (WGRAD_PIXELS >> (p.log_q + p.log_p));
    const int32_t row = box.p << p.log_p;
    const int32_t column = box.q << p.log_q;
    const int piece = thread % Tile::PIECES;
    const int first_row = thread / Tile::PIECES;
    const int together = threads / Tile::PIECES;
    unsigned char *const to_piece = stage + piece * plan.plane + first_row * 16;
    const int64_t step = together * p.y_stride[1];
#pragma unroll 1
    for (int part = 0; part < (p.vector_y ? Tile::PER_PIECE / 4 : Tile::PER_PIECE); ++part) {
        const int pixel = piece * Tile::PER_PIECE + (p.vector_y ? part * 4 : part);
        const wgrad_pixel at = wgrad_pixel_of(&p, pixel);
        const bool there =
            n + at.n < p.batch && row + at.p < p.small[0] && column + at.q < p.small[1];
        const float *from = source.y + first_row * p.y_stride[1] + (n + at.n) * p.y_stride[0] +
                            (row + at.p) * p.y_stride[2] + (column + at.q) * p.y_stride[3];
        if (p.vector_y) {
            unsigned char *to = to_piece + part * plan.set;
#pragma unroll 2
            for (int m = first_row; m < Tile::ROWS; m += together) {
                uf_copy_async16(to, from, there && m < source.rows);
                to += together * 16;
                from += step;
            }
        } else {
            unsigned char *to = to_piece + (part >> 2) * plan.set + (part & 3) * 4;
#pragma unroll 1
            for (int m = first_row; m < Tile::ROWS; m += together) {
                uf_copy_async4((float *)to, from, there && m < source.rows);
                to += together * 16;
                from += step;
            }
        }
    }
}

/* The words that this thread copied, rounded. In BF16 a word is pixels i and i + 4, as the
 * fragments of x have them. */
template <typename Tile>
static __device__ __forceinline__ void
wgrad_rs_convert_y(const wgrad_rs_plan &plan, unsigned char *stage, int thread, int threads) {
    const int together = threads / Tile::PIECES;
    unsigned char *at = stage + thread % Tile::PIECES * plan.plane + thread / Tile::PIECES * 16;
#pragma unroll(Tile::FP32 ? 1 : 2)
    for (int m = thread / Tile::PIECES; m < Tile::ROWS; m += together) {
        const float4 four = *(const float4 *)at;
        uint4 words, small;
        if (Tile::BF16) {
            const float4 rest = *(const float4 *)(at + plan.set);
            const float values[8] = {four.x, rest.x, four.y, rest.y,
                                     four.z, rest.z, four.w, rest.w};
            mma_words<Tile::MATH>(values, &words, &small);
        } else {
            const float values[8] = {four.x, four.y, four.z, four.w};
            mma_words<Tile::MATH>(values, &words, &small);
        }
        *(uint4 *)at = words;
        if (Tile::FP32) {
            *(uint4 *)(at + plan.set) = small;
        }
        at += together * 16;
    }
}

template <int WORDS>
static __device__ __forceinline__ void wgrad_rs_copy(uint32_t to, const float *from, bool take) {
    const int size = take ? 4 * WORDS : 0;
    if (WORDS == 4) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from),
                     "r"(size)
                     : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;\n" ::"r"(to), "l"(from),
                     "r"(size), "n"(4 * WORDS)
                     : "memory");
    }
}

/* x: each warp has a run of the units of 32 entries and one block of channels, blocks fastest, so
 * that an entry is looked up for many channels. Zeros where there is no pixel or channel. */
template <typename Tile, int WORDS>
static __device__ __forceinline__ void wgrad_rs_copy_x(const wgrad_plan &p,
                                                       const wgrad_rs_source &source, uint32_t xs,
                                                       const wgrad_box &box, int lane) {
    const int32_t n = box.n * (WGRAD_PIXELS >> (p.log_q + p.log_p));
    const int32_t h = (box.p << p.log_p) * p.stride[0] - p.padding[0];
    const int32_t w = (box.q << p.log_q) * p.stride[1] - p.padding[1];
    const int64_t x = n * p.x_stride[0] + h * p.x_stride[2] + w * p.x_stride[3];
    const int64_t channel_step = p.x_stride[1];
    const uint32_t pitch = (uint32_t)p.pitch * 4;
    int32_t left = source.units;
    int32_t chunk = source.chunk;
    int32_t local = source.local;
#pragma unroll 1
    while (left > 0) {
        const int32_t end = source.blocks - local < left ? source.blocks : local + left;
        left -= end - local;
        const int32_t entry = chunk * 32 + lane;
        if (entry < p.entries) {
            const wgrad_coord coord = source.coords[entry];
            const bool there = n + coord.n < p.batch &&
                               (uint32_t)(h + coord.h) < (uint32_t)p.large[0] &&
                               (uint32_t)(w + coord.w) < (uint32_t)p.large[1];
            int32_t channels = there ? source.channels - local * p.channels : 0;
            const float *from = source.x + (x + coord.from + local * p.channels * channel_step);
            uint32_t to = xs + (uint32_t)coord.to * 4 + (uint32_t)(local * p.channels) * pitch;
            if (p.channels == 8) {
                /* No branches in between: ptxas puts three empty loads before the first copy of
                 * each basic block. */
#pragma unroll 1
                for (; local < end; ++local) {
#pragma unroll
                    for (int c = 0; c < 8; ++c) {
                        wgrad_rs_copy<WORDS>(to, from, c < channels);
                        from += channel_step;
                        to += pitch;
                    }
                    channels -= 8;
                }
            } else {
#pragma unroll 1
                for (int c = 0; c < p.channels; ++c) {
                    wgrad_rs_copy<WORDS>(to, from, c < channels);
                    from += channel_step;
                    to += pitch;
                }
            }
        }
        ++chunk;
        local = 0;
    }
}

/* `in_group`: the warp's number in its group. */
static __device__ __forceinline__ wgrad_rs_source wgrad_rs_source_of(const wgrad_rs_plan &plan,
                                                                     const wgrad_coord *coords,
                                                                     int32_t tile, int in_group) {
    const wgrad_plan &p = plan.sums;
    const wgrad_corner at = wgrad_corner_of(&p, tile);
    const int32_t first_channel = wgrad_first_block(&p, at.column) * p.channels;
    wgrad_rs_source source;
    source.x =
        (const float *)p.x + ((int64_t)at.group * p.c_per_group + first_channel) * p.x_stride[1];
    source.y = (const float *)p.y + ((int64_t)at.group * p.k_per_group + at.row) * p.y_stride[1];
    source.coords = coords;
    source.rows = p.k_per_group - at.row;
    source.channels = p.c_per_group - first_channel;
    source.blocks = wgrad_span(&p, at.column);
    const int32_t units = (p.entries + 31) / 32 * source.blocks;
    const int32_t first = in_group * units / plan.group_warps;
    source.units = (in_group + 1) * units / plan.group_warps - first;
    source.chunk = first / source.blocks;
    source.local = first - source.chunk * source.blocks;
    return source;
}

/* A group of warps fills every so many-th stage on its own: what a box costs beside its copies is a
 * long chain of instructions, and chains of different boxes run side by side. */
template <typename Tile>
static __device__ __forceinline__ void
wgrad_rs_produce(const wgrad_rs_plan &plan, const wgrad_rs_shared &shared,
                 const wgrad_coord *coords, const wgrad_rs_part &part, int group, int in_group,
                 int lane) {
    const wgrad_plan &p = plan.sums;
    const int32_t stage_bytes = p.stage_words * 4;
    const int threads = 32 * plan.group_warps;
    const int groups = Tile::PRODUCERS / threads;
    const int thread = in_group * 32 + lane;
    const int32_t begin = part.box + group;
    int32_t tile = part.tile;
    wgrad_box box = wgrad_box_of(&p, begin);
    uf_ring ring = {0, 0};
    ring.skip(group, p.stages);
    int32_t asked = -1; /* the stage of the box before, while it is on its way */
    int32_t left = part.boxes - group;
    wgrad_rs_source source = wgrad_rs_source_of(plan, coords, tile, in_group);
#pragma unroll 1
    while (left > 0 || asked >= 0) {
        /* The next box is asked for first where there is room for it; else the one before must not
         * wait, because room may depend on it. */
        const bool next =
            left > 0 &&
            (asked < 0 ||
             __all_sync(0xffffffffu, uf_barrier_test(shared.empty + ring.index, ring.parity ^ 1)));
        const int32_t due = asked;
        asked = -1;
        if (next) {
            uf_barrier_wait(shared.empty + ring.index, ring.parity ^ 1);
            unsigned char *const stage = shared.stages + ring.index * stage_bytes;
            if (Tile::SHARES && box.n >= p.boxes[0]) { /* of a tile further on */
                const int32_t on = box.n / p.boxes[0];
                box.n -= on * p.boxes[0];
                tile += on;
                source = wgrad_rs_source_of(plan, coords, tile, in_group);
            }
            wgrad_rs_copy_y<Tile>(plan, source, stage, box, thread, threads);
            const uint32_t xs = uf_shared_address(stage) + (uint32_t)(Tile::SETS * plan.set);
            if (plan.vector == 4) {
                wgrad_rs_copy_x<Tile, 4>(p, source, xs, box, lane);
            } else if (plan.vector == 2) {
                wgrad_rs_copy_x<Tile, 2>(p, source, xs, box, lane);
            } else {
                wgrad_rs_copy_x<Tile, 1>(p, source, xs, box, lane);
            }
            box.q += groups;
            while (box.q >= p.boxes[2]) {
                box.q -= p.boxes[2];
                if (++box.p == p.boxes[1]) {
                    box.p = 0;
                    ++box.n;
                }
            }
            asked = ring.index;
            ring.skip(groups, p.stages);
            left -= groups;
        }
        uf_copy_async_commit();
        if (due >= 0) {
            if (next) {
                uf_copy_async_wait<1>();
            } else {
                uf_copy_async_wait<0>();
            }
            wgrad_rs_convert_y<Tile>(plan, shared.stages + due * stage_bytes, thread, threads);
            uf_fence_async_shared();
            uf_barrier_arrive(shared.full + due);
        }
    }
}

#endif

#endif
