/* mainloop.cuh - the kernel of filter_stationary/launch.cu. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_FILTER_STATIONARY_MAINLOOP_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_FILTER_STATIONARY_MAINLOOP_CUH

#include "kernels/cuda/conv/simt_direct/epilogue.cuh"
#include "kernels/cuda/conv/wgmma_patch_gemm/filter_stationary/plan.h"
#include "kernels/cuda/arch/sm80_mma.cuh"
#include "kernels/cuda/arch/sm90_tma.cuh"
#include "kernels/cuda/arch/sm90_wgmma_pairs.cuh"
#include "kernels/cuda/arch/sm90_wgmma_rs.cuh"

/* WIDE filter columns; CHUNKS of 64 read channels. PAIR: two CTAs of a cluster, with neighbouring
 * rows of weights, each load half of the pixels for both. */
template <int WIDE_, int CHUNKS_, bool PAIR_>
struct filter_stationary_tile {
    static constexpr int WIDE = WIDE_, CHUNKS = CHUNKS_;
    static constexpr bool PAIR = PAIR_;
    static constexpr int CONSUMERS = 128 * UF_FILTER_STATIONARY_GROUPS, THREADS = CONSUMERS + 128;
    static constexpr int CONSUMER_REGISTERS = 232, PRODUCER_REGISTERS = 40;
    static constexpr int DEPTH = 16; /* K of an MMA */
    static constexpr int CHUNK_STEPS = UF_FILTER_STATIONARY_CHANNELS / DEPTH,
                         STEPS = CHUNKS * CHUNK_STEPS;
    static constexpr int SUMS = UF_FILTER_STATIONARY_PIXELS / 2; /* accumulators of a lane */
    /* Bytes of 64 channels of 64 pixels, or of 64 rows of weights. */
    static constexpr int BOX = UF_FILTER_STATIONARY_CHANNELS * 128,
                         BOXES = UF_FILTER_STATIONARY_STAGE / BOX;
    static constexpr int READERS = CONSUMERS / 32 * (PAIR ? 2 : 1); /* warps that release a stage */
    /* Weights arrive in the last stages. */
    static constexpr int WEIGHT_STAGES =
        UF_FILTER_STATIONARY_GROUPS * CHUNKS * BOX / UF_FILTER_STATIONARY_STAGE;

    static_assert(BOXES == 2, "one for each block of a pair");
    static_assert(WEIGHT_STAGES < UF_FILTER_STATIONARY_STAGES,
                  "the first rows come beside the weights");
};

#if UF_HAS_WGMMA

struct filter_stationary_barriers {
    /* Warpgroups that take tiles in turn have `full` barriers of their own. On shared ones they
     * would skip rounds, and parity does not tell a round from the next but one. */
    uint64_t full[UF_FILTER_STATIONARY_GROUPS][UF_FILTER_STATIONARY_STAGES],
        empty[UF_FILTER_STATIONARY_STAGES];
    uint64_t weights_full, weights_read;
    uint32_t used[4 * UF_FILTER_STATIONARY_GROUPS]; /* per consumer warp: see
                                                       filter_stationary_weights */
};
static_assert(sizeof(filter_stationary_barriers) <= UF_FILTER_STATIONARY_BARRIERS &&
                  UF_FILTER_STATIONARY_GROUPS == 2,
              "plan");
static_assert(UF_FILTER_STATIONARY_STAGES <= 32, "parities of all stages are a word");

/* A tile's image and first pixel. */
static __device__ __forceinline__ int2
filter_stationary_coord_of(const uf_filter_stationary_plan &p, int32_t tile) {
    const int32_t n = direct_divide(p.by_image, tile);
    return make_int2(n, (tile - n * p.image_tiles) * UF_FILTER_STATIONARY_PIXELS);
}

/* Producer: one lane loads the CTA's weights, then the stages of its tiles. */
template <typename Tile>
static __device__ __forceinline__ void
filter_stationary_produce(const uf_filter_stationary_plan &p, const CUtensorMap *pixels,
                          const CUtensorMap *weights, uint32_t stages,
                          filter_stationary_barriers *barriers, int32_t part, int32_t member) {
    const uint32_t to =
        stages + (UF_FILTER_STATIONARY_STAGES - Tile::WEIGHT_STAGES) * UF_FILTER_STATIONARY_STAGE;
    if (!p.gathered) {
        uf_barrier_expect(&barriers->weights_full,
                          UF_FILTER_STATIONARY_GROUPS * Tile::CHUNKS * Tile::BOX);
    }
#pragma unroll 1
    for (int32_t box = 0; box < UF_FILTER_STATIONARY_GROUPS * Tile::CHUNKS && !p.gathered; ++box) {
        const int32_t row = part * UF_FILTER_STATIONARY_ROWS + box / Tile::CHUNKS * 64;
        const int32_t channel = box % Tile::CHUNKS * UF_FILTER_STATIONARY_CHANNELS;
        uf_copy_tensor(to + (uint32_t)(box * Tile::BOX), weights, p.across ? channel : row,
                       p.across ? row : channel, 0, 0, &barriers->weights_full);
    }
    bool weights_there = true; /* weights occupy the last stages */
    const int32_t rank = Tile::PAIR ? (int32_t)uf_cluster_rank() : 0;
    int32_t turn = 0;
    uf_ring stage = {0, 1};
#pragma unroll 1
    for (int32_t tile = member; tile < p.tiles; tile += p.cta_group) {
        const int2 coord = filter_stationary_coord_of(p, tile);
#pragma unroll 1
        for (int32_t chunk = 0; chunk < Tile::CHUNKS; ++chunk) {
            if (weights_there && stage.index == UF_FILTER_STATIONARY_STAGES - Tile::WEIGHT_STAGES) {
                uf_barrier_wait(&barriers->weights_read, 0);
                weights_there = false;
            }
            uint64_t *const full = barriers->full[turn] + stage.index;
            uf_barrier_wait(barriers->empty + stage.index, stage.parity);
            uf_barrier_expect(full, UF_FILTER_STATIONARY_STAGE);
#pragma unroll
            for (int32_t i = 0; i < Tile::BOXES; ++i) {
                const uint32_t to =
                    stages + (uint32_t)(stage.index * UF_FILTER_STATIONARY_STAGE + i * Tile::BOX);
                const int32_t pixel = coord.y + i * 64,
                              channel = chunk * UF_FILTER_STATIONARY_CHANNELS;
                if (!Tile::PAIR) {
                    uf_copy_tensor(to, pixels, pixel, 0, channel, coord.x, full);
                } else if (i == rank) {
                    uf_pair_copy_tensor(to, pixels, pixel, 0, channel, coord.x, full);
                }
            }
            stage.next(UF_FILTER_STATIONARY_STAGES);
        }
        turn ^= (int32_t)p.by_turns;
    }
}

/* Weights by ordinary loads of all consumers, for views that TMA cannot read. */
template <typename Tile>
static __device__ __noinline__ void filter_stationary_gather(const uf_filter_stationary_plan &p,
                                                             unsigned char *to, int32_t part) {
    const uf_direct_conv &conv = p.conv;
    const int32_t thread = (int32_t)threadIdx.x;
    for (int32_t i = thread; i < Tile::WEIGHT_STAGES * UF_FILTER_STATIONARY_STAGE / 16;
         i += Tile::CONSUMERS) {
        ((uint4 *)to)[i] = make_uint4(0u, 0u, 0u, 0u);
    }
    uf_named_barrier(1, Tile::CONSUMERS);
    const int32_t rows =
        min(p.rows - part * UF_FILTER_STATIONARY_ROWS, (int32_t)UF_FILTER_STATIONARY_ROWS);
    const int32_t along = p.across ? conv.read_per_group : rows;
#pragma unroll 8
    for (int32_t i = thread; i < rows * conv.read_per_group; i += Tile::CONSUMERS) {
        const int32_t first = i / along, second = i - first * along;
        const int32_t row = p.across ? first : second, channel = p.across ? second : first;
        const int32_t filter = (part * UF_FILTER_STATIONARY_ROWS + row) / Tile::WIDE;
        const int32_t written = direct_divide(p.by_high, filter);
        const int64_t from = written * conv.w_written + (filter - written * p.high) * conv.w_row +
                             row % Tile::WIDE * conv.w_column + channel * conv.w_read;
        const int32_t line = (p.across ? row : channel) % 64, at = (p.across ? channel : row) % 64;
        *(uint16_t *)(to + (row / 64 * Tile::CHUNKS + channel / 64) * Tile::BOX + line * 128 +
                      (((at >> 3) ^ (line & 7)) << 4) + (at & 7) * 2) =
            ((const uint16_t *)conv.weight)[from];
    }
    uf_fence_async_shared(); /* TMA writes these stages later */
    uf_named_barrier(1, Tile::CONSUMERS);
}

/* Operand A of all steps, for the life of the CTA: 64 rows of a warpgroup, 16 of a warp. With
 * filters two columns wide, a warp's rows 0 to 7 are the first columns of eight filter rows, 8 to
 * 15 the second ones. A lane's two rows are then neighbours in memory. A value made of all words is
 * stored to `used`: what follows that store follows all loads, and TMA may overwrite the words. */
template <typename Tile>
static __device__ __forceinline__ void
filter_stationary_weights(const uf_filter_stationary_plan &p, uint32_t from, int32_t warp,
                          uint32_t *used, uint32_t (&a)[Tile::STEPS][4]) {
    const int32_t lane = (int32_t)threadIdx.x & 31, g = lane >> 2, q = lane & 3;
#pragma unroll
    for (int step = 0; step < Tile::STEPS; ++step) {
        const uint32_t box = from + (uint32_t)(step / Tile::CHUNK_STEPS * Tile::BOX);
        const int32_t first =
            step % Tile::CHUNK_STEPS * Tile::DEPTH; /* first channel within the box */
        if (Tile::WIDE == 2) {
            const int32_t piece = warp * 2 + (g >> 2);
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                uint32_t word[2]; /* both columns of a channel and of the next one */
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const int32_t channel = first + half * 8 + 2 * q + i;
                    asm volatile(
                        "ld.shared.b32 %0, [%1];\n"
                        : "=r"(word[i])
                        : "r"(box + (uint32_t)(channel * 128 + ((piece ^ (channel & 7)) << 4) +
                                               (g & 3) * 4))
                        : "memory");
                }
                a[step][2 * half] = __byte_perm(word[0], word[1], 0x5410);
                a[step][2 * half + 1] = __byte_perm(word[0], word[1], 0x7632);
            }
        } else if (p.across) { /* a box row is a row of the operand */
            const int32_t row = warp * 16 + (lane & 15), piece = first / 8 + (lane >> 4);
            uf_load_matrices(a[step], box + (uint32_t)(row * 128 + ((piece ^ (row & 7)) << 4)));
        } else { /* a box row is a channel */
            const int32_t channel = first + (lane & 7) + (lane >> 4) * 8;
            const int32_t piece = warp * 2 + (lane >> 3 & 1);
            uf_load_matrices_transposed(
                a[step], box + (uint32_t)(channel * 128 + ((piece ^ (channel & 7)) << 4)));
        }
    }
    uint32_t any = 0;
#pragma unroll
    for (int step = 0; step < Tile::STEPS; ++step) {
        any |= a[step][0] | a[step][1] | a[step][2] | a[step][3];
    }
    any = __reduce_or_sync(0xffffffffu, any);
    if (lane == 0) {
        asm volatile("st.shared.b32 [%0], %1;\n" ::"r"(uf_shared_address(used)), "r"(any)
                     : "memory");
    }
}

/* A lane's stores: channel i is that of its rows g + 8i; `first` is its offset in an image;
 * epilogue: scale, shift. */
struct filter_stationary_lane {
    bool there[2];
    int64_t first[2];
    float2 epilogue[2];
};

template <typename Tile>
static __device__ __forceinline__ filter_stationary_lane filter_stationary_lane_of(
    const uf_filter_stationary_plan &p, int32_t part, int32_t group, int32_t warp) {
    const uf_direct_conv &conv = p.conv;
    const int32_t g = ((int32_t)threadIdx.x & 31) >> 2;
    filter_stationary_lane lane;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        int32_t channel, row = 0;
        if (Tile::WIDE == 2) {
            const int32_t pair =
                (part * UF_FILTER_STATIONARY_ROWS + group * 64 + warp * 16) / 2 + g;
            channel = direct_divide(p.by_high, pair);
            row = pair - channel * p.high;
        } else {
            channel = part * UF_FILTER_STATIONARY_ROWS + group * 64 + warp * 16 + i * 8 + g;
        }
        lane.there[i] = channel < conv.written_per_group;
        lane.first[i] = channel * conv.written_stride[1] + row * conv.written_stride[2];
        lane.epilogue[i] = make_float2(1.0f, 0.0f);
        if (!p.plain && lane.there[i]) {
            lane.epilogue[i] = direct_epilogue_behind_wait<uf_bf16>(conv, channel);
        }
    }
    return lane;
}

/* Swaps this lane's *high with *low of lane ^ BIT, or *low with its *high in the upper lane. */
template <int BIT>
static __device__ __forceinline__ void filter_stationary_exchange(uint32_t *low, uint32_t *high) {
    const bool upper = (threadIdx.x & BIT) != 0;
    const uint32_t got = __shfl_xor_sync(0xffffffffu, upper ? *low : *high, BIT);
    *low = upper ? got : *low;
    *high = upper ? *high : got;
}

/* A row of 32 pixels: lane q of four has pixels 2q and 2q + 1 of each eight, and gets all of eight
 * q. */
static __device__ __forceinline__ void
filter_stationary_write_points(const uf_filter_stationary_plan &p,
                               const filter_stationary_lane &lane, int2 coord, const float *sum) {
    const int32_t q = (int32_t)threadIdx.x & 3;
    const int32_t pixel = coord.y + q * 8;
    uf_bf16 *const image = (uf_bf16 *)p.conv.written + coord.x * p.conv.written_stride[0] + pixel;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int eight = 0; eight < UF_FILTER_STATIONARY_PIXELS / 8; eight += 4) {
            uint32_t word[4];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const float *const pair = sum + 4 * (eight + j) + 2 * i;
                word[j] = uf_pack_bf16(pair[0], pair[1]);
            }
            filter_stationary_exchange<1>(&word[0], &word[1]);
            filter_stationary_exchange<1>(&word[2], &word[3]);
            filter_stationary_exchange<2>(&word[0], &word[2]);
            filter_stationary_exchange<2>(&word[1], &word[3]);
            if (lane.there[i] && pixel + eight * 8 < p.plane) {
                uf_store_words(image + lane.first[i] + eight * 8, word);
            }
        }
    }
}

/* A filter row: lane q of four has both columns of pixels 2q and 2q + 1 of two eights. It gets four
 * pixels of one eight. */
static __device__ __forceinline__ void
filter_stationary_write_pairs(const uf_filter_stationary_plan &p,
                              const filter_stationary_lane &lane, int2 coord, const float *sum) {
    const int32_t q = (int32_t)threadIdx.x & 3;
    const int32_t pixel = coord.y + (q & 1) * 8 + (q >> 1) * 4;
    const int64_t row_step = p.high * p.conv.written_stride[2];
    uf_bf16 *const image =
        (uf_bf16 *)p.conv.written + coord.x * p.conv.written_stride[0] + lane.first[0];
    const bool one_row = p.row % UF_FILTER_STATIONARY_PIXELS == 0;
    const int32_t first_row = direct_divide(p.by_row, pixel);
    uf_bf16 *const first = image + first_row * row_step + 2 * (pixel - first_row * p.row);
#pragma unroll
    for (int eight = 0; eight < UF_FILTER_STATIONARY_PIXELS / 8; eight += 2) {
        uint32_t word[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) { /* eights, then pixels */
            const float *const pair = sum + 4 * (eight + (j >> 1)) + (j & 1);
            word[j] = uf_pack_bf16(pair[0], pair[2]);
        }
        filter_stationary_exchange<1>(&word[0], &word[2]);
        filter_stationary_exchange<1>(&word[1], &word[3]);
        uf_bf16 *to = first + eight * 16;
        const int32_t at = pixel + eight * 8;
        if (!one_row) {
            const int32_t row = direct_divide(p.by_row, at);
            to = image + row * row_step + 2 * (at - row * p.row);
        }
        if (lane.there[0] && at < p.plane) {
            uf_store_words(to, word);
        }
    }
}

template <typename Tile>
static __device__ __forceinline__ void
filter_stationary_consume(const uf_filter_stationary_plan &p, unsigned char *memory,
                          filter_stationary_barriers *barriers, int32_t part, int32_t member,
                          int32_t group) {
    constexpr int WEIGHTS_AT =
        (UF_FILTER_STATIONARY_STAGES - Tile::WEIGHT_STAGES) * UF_FILTER_STATIONARY_STAGE;
    const uint32_t stages = uf_shared_address(memory);
    typedef uf_wgmma_mma_rs<uf_wgmma_bf16_across, UF_FILTER_STATIONARY_PIXELS> mma;
    const int32_t warp = __shfl_sync(0xffffffffu, (int32_t)threadIdx.x >> 5 & 3, 0);
    const int32_t rows = p.by_turns ? 0 : group, turn = p.by_turns ? group : 0;
    const int32_t turns = p.by_turns ? UF_FILTER_STATIONARY_GROUPS : 1;
    const filter_stationary_lane lane = filter_stationary_lane_of<Tile>(p, part, rows, warp);
    uint32_t a[Tile::STEPS][4];
    if (p.gathered) {
        filter_stationary_gather<Tile>(p, memory + WEIGHTS_AT, part);
    } else {
        uf_barrier_wait(&barriers->weights_full, 0);
    }
    filter_stationary_weights<Tile>(
        p, stages + WEIGHTS_AT + (uint32_t)(rows * Tile::CHUNKS * Tile::BOX), warp,
        barriers->used + group * 4 + warp, a);
    const uf_stage_release<Tile::PAIR> read(&barriers->weights_read), empty(barriers->empty);
    read.arrive(0);
    /* Eight channels are 1024 bytes, 64 pixels a box, in TMA's 128-byte swizzle. */
    const uint64_t form = uf_wgmma_operand(0, Tile::BOX, 1024) | (uint64_t)1 << 62;
    uint32_t rounds = 0; /* bit i: parity of this warpgroup's next round of stage i */
    uf_ring stage = {0, 0};
    stage.skip(turn * Tile::CHUNKS, UF_FILTER_STATIONARY_STAGES);
#pragma unroll 1
    for (int32_t tile = member + turn * p.cta_group; tile < p.tiles; tile += turns * p.cta_group) {
        float sum[Tile::SUMS];
        int32_t last = 0;
#pragma unroll
        for (int chunk = 0; chunk < Tile::CHUNKS; ++chunk) {
            uf_barrier_wait(barriers->full[turn] + stage.index, rounds >> stage.index & 1);
            rounds ^= 1u << stage.index;
            const uint64_t pixels =
                form |
                ((stages + (uint32_t)(stage.index * UF_FILTER_STATIONARY_STAGE)) & 0x3ffffu) >> 4;
            uf_wgmma_fence();
#pragma unroll
            for (int i = 0; i < Tile::CHUNK_STEPS; ++i) {
                const int step = chunk * Tile::CHUNK_STEPS + i;
                mma::run(sum, a[step], pixels + (uint64_t)(i * Tile::DEPTH * 128 >> 4), step > 0);
            }
            uf_wgmma_commit();
            if (chunk > 0) {
                uf_wgmma_wait<1>();
                empty.arrive(last);
            }
            last = stage.index;
            stage.next(UF_FILTER_STATIONARY_STAGES);
        }
        stage.skip((turns - 1) * Tile::CHUNKS, UF_FILTER_STATIONARY_STAGES);
        uf_wgmma_wait<0>();
        uf_wgmma_pin(sum);
        empty.arrive(last);
        /* After the last tile's MMAs and before its stores: the arrival is a fence. */
        if (Tile::PAIR && tile + p.cta_group >= p.tiles) {
            uf_pair_arrive();
        }
        if (!p.plain) {
#pragma unroll
            for (int i = 0; i < Tile::SUMS; ++i) {
                sum[i] = fmaf(sum[i], lane.epilogue[i >> 1 & 1].x, lane.epilogue[i >> 1 & 1].y);
            }
            uf_activate_all<Tile::SUMS>(p.conv.activation, p.conv.parameter, sum);
        }
        const int2 coord = filter_stationary_coord_of(p, tile);
        if (Tile::WIDE == 2) {
            filter_stationary_write_pairs(p, lane, coord, sum);
        } else {
            filter_stationary_write_points(p, lane, coord, sum);
        }
    }
}

#endif

template <typename Tile>
static __global__ void __launch_bounds__(Tile::THREADS, 1)
    conv_filter_stationary(const __grid_constant__ CUtensorMap pixels,
                           const __grid_constant__ CUtensorMap weights,
                           const __grid_constant__ uf_filter_stationary_plan p) {
#if UF_HAS_WGMMA
    extern __shared__ __align__(1024) unsigned char filter_stationary_memory[];
    const uint32_t stages = uf_shared_address(filter_stationary_memory);
    filter_stationary_barriers *const barriers =
        (filter_stationary_barriers *)(filter_stationary_memory +
                                       UF_FILTER_STATIONARY_STAGES * UF_FILTER_STATIONARY_STAGE);
    const int32_t member = (int32_t)blockIdx.x / p.parts;
    const int32_t part = (int32_t)blockIdx.x - member * p.parts;
    if (threadIdx.x == 0) {
#pragma unroll 1
        for (int32_t i = 0; i < UF_FILTER_STATIONARY_STAGES; ++i) {
            uf_barrier_init(barriers->full[0] + i, 1);
            uf_barrier_init(barriers->full[1] + i, 1);
            uf_barrier_init(barriers->empty + i,
                            (uint32_t)(p.by_turns ? Tile::READERS / UF_FILTER_STATIONARY_GROUPS
                                                  : Tile::READERS));
        }
        uf_barrier_init(&barriers->weights_full, 1);
        uf_barrier_init(&barriers->weights_read, Tile::READERS);
        uf_barrier_init_fence();
    }
    __syncthreads();
    if (Tile::PAIR) { /* the other CTA's barriers exist */
        uf_pair_sync();
    }
    uf_launch_dependents();
    uf_wait_for_launcher();
    const int32_t group = __shfl_sync(0xffffffffu, (int32_t)threadIdx.x >> 7, 0);
    if (group == UF_FILTER_STATIONARY_GROUPS) {
        uf_registers_release<Tile::PRODUCER_REGISTERS>();
        if (threadIdx.x == Tile::CONSUMERS) {
            filter_stationary_produce<Tile>(p, &pixels, &weights, stages, barriers, part, member);
        }
        if (Tile::PAIR) {
            uf_pair_arrive();
        }
    } else {
        uf_registers_take<Tile::CONSUMER_REGISTERS>();
        filter_stationary_consume<Tile>(p, filter_stationary_memory, barriers, part, member, group);
    }
    if (Tile::PAIR) { /* no CTA ends while the other may signal it */
        uf_pair_wait();
    }
#endif
}

#endif
