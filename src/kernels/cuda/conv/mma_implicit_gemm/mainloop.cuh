/* mainloop.cuh - the device code of mma_implicit_gemm/launch.cu, whose header describes it. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_IMPLICIT_GEMM_MAINLOOP_CUH
#define UF_KERNELS_CUDA_CONV_MMA_IMPLICIT_GEMM_MAINLOOP_CUH

#include "kernels/cuda/conv/mma_implicit_gemm/plan.h"
#include "kernels/cuda/elementwise/activation.cuh"
#include "kernels/cuda/arch/sm80_warp_mma.cuh"

/* Other compilers than Hopper's need more registers for fragments: one block less. */
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ < 900 || __CUDA_ARCH__ >= 1000)
#define UF_MMA_BLOCKS(blocks) ((blocks) > 1 ? (blocks)-1 : 1)
#else
#define UF_MMA_BLOCKS(blocks) (blocks)
#endif

/* M is MMA_PIXELS always. A k-tile is DEPTH read channels of one tap. A warp computes WARP_M x 32.
 */
template <uf_mma_math MATH_, int N_, int WARPS_, int CHANNEL_BLOCKED_>
struct mma_tile {
    static constexpr uf_mma_math MATH = MATH_;
    static constexpr int N = N_, WARPS = WARPS_, THREADS = 32 * WARPS_, BLOCKS = CHANNEL_BLOCKED_;
    static constexpr int STEP = MATH == UF_MMA_BF16 ? 16 : 8; /* K of one MMA */
    static constexpr int DEPTH = MATH == UF_MMA_BF16 ? 32 : 16;
    static constexpr int STEPS = DEPTH / STEP;
    static constexpr int WARPS_N = N / 32, WARPS_M = WARPS / WARPS_N;
    static constexpr int WARP_M = MMA_PIXELS / WARPS_M;
    static constexpr int TILES_M = WARP_M / 16, TILES_N = 4;
    static constexpr int B_WORDS = STEPS * (N / 8) * 64;
    static constexpr int A_WORDS = DEPTH * MMA_PIXEL_PITCH;
    static constexpr int STAGES = MATH != UF_MMA_BF16 && N == 128 ? 4 : 3;
    static constexpr int PIPELINE = STAGES * (A_WORDS + B_WORDS);
    static constexpr int STAGING = N * MMA_STAGING_PITCH;
    static constexpr int SHARED = 4 * (PIPELINE > STAGING ? PIPELINE : STAGING);
};

/* Row of the pixel tile that holds column `column` of a fragment's K; B is packed to match. For
 * bf16 the pair (2r, 2r + 1) comes from rows r and r + 4: bank-conflict free, and K has no order.
 */
template <typename Tile>
static __host__ __device__ __forceinline__ int mma_k_of(int step, int reg, int r, int half) {
    return Tile::MATH == UF_MMA_BF16 ? step * 16 + reg * 8 + r + half * 4 : step * 8 + reg * 4 + r;
}

static __device__ __forceinline__ bool mma_inside(int32_t at, int32_t extent) {
    return (uint32_t)at < (uint32_t)extent;
}

/* One element as a chain of FFMAs, for sums of rounded MMAs that are not finite: an infinity or an
 * input near FLT_MAX spoils them. Tap 0 reads (read_h, read_w). */
template <typename T = float>
static __device__ __forceinline__ float
mma_exact(const mma_conv &p, const mma_walk &down, const mma_walk &across, int32_t group,
          int32_t channel, int32_t n, int32_t read_h, int32_t read_w) {
    const T *source = (const T *)p.read + n * p.read_stride[0] +
                      (int64_t)group * p.read_per_group * p.read_stride[1];
    const T *weight = (const T *)p.weight + group * p.w_group + channel * p.w_written;
    uf_long_sum<float> sum;
    sum.clear();
    for (int32_t t = 0; t < down.taps; ++t) {
        const int32_t h = read_h + t * p.axis[0].in_tap_step;
        if (!mma_inside(h, p.axis[0].read)) {
            continue;
        }
        for (int32_t u = 0; u < across.taps; ++u) {
            const int32_t w = read_w + u * p.axis[1].in_tap_step;
            if (!mma_inside(w, p.axis[1].read)) {
                continue;
            }
            const T *from = source + h * p.read_stride[2] + w * p.read_stride[3];
            const T *by = weight + (down.tap_first + t * p.axis[0].tap_step) * p.w_row +
                          (across.tap_first + u * p.axis[1].tap_step) * p.w_column;
            float part = 0.0f;
            for (int32_t c = 0; c < p.read_per_group; ++c) {
                part = fmaf((float)from[c * p.read_stride[1]], (float)by[c * p.w_read], part);
                if ((c & 31) == 31) {
                    sum.add(part);
                    part = 0.0f;
                }
            }
            sum.add(part);
        }
    }
    return sum.total();
}

template <typename T = float>
static __device__ __forceinline__ void mma_finish(const mma_conv &p, int64_t channel,
                                                  int64_t offset, float value) {
    if (p.scale != nullptr) {
        value *= (float)((const T *)p.scale)[channel * p.scale_stride];
    }
    if (p.shift != nullptr) {
        value += (float)((const T *)p.shift)[channel * p.shift_stride];
    }
    value = uf_activate(p.activation, value, p.parameter);
    T *const to = (T *)p.written + offset;
    *to = (T)(p.accumulate ? (float)*to + value : value);
}

/* One k-tile in shared memory into the accumulators of a warp. */
template <typename Tile>
static __device__ __forceinline__ void mma_multiply(const float *pixels, const uint32_t *weights,
                                                    int lane, int first_m, int first_eighth,
                                                    float (&c)[Tile::TILES_M][Tile::TILES_N][4]) {
    const float *const a_at = pixels + first_m + (lane >> 2) + (lane & 3) * MMA_PIXEL_PITCH;
    const uint32_t *const b_at = weights + (first_eighth * 32 + lane) * 2;
#pragma unroll
    for (int step = 0; step < Tile::STEPS; ++step) {
        uint32_t a[Tile::TILES_M][4], b[Tile::TILES_N][2];
        uint32_t a_small[Tile::TILES_M][4], b_small[Tile::TILES_N][2];
#pragma unroll
        for (int j = 0; j < Tile::TILES_N; ++j) {
            const uint2 pair = *(const uint2 *)(b_at + (step * (Tile::N / 8) + j) * 64);
            b[j][0] = pair.x;
            b[j][1] = pair.y;
            if (Tile::MATH == UF_MMA_TF32X3) {
                mma_split_tf32(__uint_as_float(pair.x), &b[j][0], &b_small[j][0]);
                mma_split_tf32(__uint_as_float(pair.y), &b[j][1], &b_small[j][1]);
            }
        }
#pragma unroll
        for (int i = 0; i < Tile::TILES_M; ++i) {
#pragma unroll
            for (int reg = 0; reg < 4; ++reg) {
                const float *const at = a_at +
                                        mma_k_of<Tile>(step, reg >> 1, 0, 0) * MMA_PIXEL_PITCH +
                                        i * 16 + (reg & 1) * 8;
                if (Tile::MATH == UF_MMA_TF32X3) {
                    mma_split_tf32(*at, &a[i][reg], &a_small[i][reg]);
                } else if (Tile::MATH == UF_MMA_TF32) {
                    a[i][reg] = uf_round_tf32(*at);
                } else {
                    a[i][reg] = uf_pack_bf16(*at, at[4 * MMA_PIXEL_PITCH]);
                }
            }
        }
        mma_warp<Tile::MATH>(a, a_small, b, b_small, c);
    }
}

/* Taps [first, last) that some pixel of the block can use. Every thread must call it. */
static __device__ __forceinline__ void mma_used_taps(const mma_axis &axis, int32_t read_first,
                                                     bool there, int32_t taps, int32_t *first,
                                                     int32_t *last) {
    int32_t begin = 0, end = taps;
    while (
        begin < end &&
        !__syncthreads_or(there && mma_inside(read_first + begin * axis.in_tap_step, axis.read))) {
        ++begin;
    }
    while (end > begin &&
           !__syncthreads_or(there &&
                             mma_inside(read_first + (end - 1) * axis.in_tap_step, axis.read))) {
        --end;
    }
    *first = begin;
    *last = end;
}

template <typename Tile>
static __device__ __forceinline__ void mma_load_weights(uint32_t *to, const uint32_t *packed,
                                                        int thread) {
#pragma unroll
    for (int i = 0; i < Tile::B_WORDS / 4; i += Tile::THREADS) {
        if (Tile::B_WORDS / 4 >= Tile::THREADS || thread < Tile::B_WORDS / 4) {
            uf_copy_async16(to + (i + thread) * 4, packed + (i + thread) * 4);
        }
    }
}

/* A warp's sums into shared memory, as [channel][pixel]. */
template <typename Tile>
static __device__ __forceinline__ void mma_stage(const float (&c)[Tile::TILES_M][Tile::TILES_N][4],
                                                 float *staging, int lane, int first_m,
                                                 int first_n) {
#pragma unroll
    for (int i = 0; i < Tile::TILES_M; ++i) {
#pragma unroll
        for (int j = 0; j < Tile::TILES_N; ++j) {
#pragma unroll
            for (int reg = 0; reg < 4; ++reg) {
                const int channel = first_n + j * 8 + (lane & 3) * 2 + (reg & 1);
                const int pixel = first_m + i * 16 + (lane >> 2) + (reg >> 1) * 8;
                staging[channel * MMA_STAGING_PITCH + pixel] = c[i][j][reg];
            }
        }
    }
}

/* The tile leaves shared memory: a thread writes every ROWS-th channel, from `row` on, of its pixel
 * `m` of the tile, or its part of the sums of a split. */
template <typename Tile>
static __device__ __forceinline__ void
mma_store(const mma_conv &p, const mma_walk &down, const mma_walk &across, const mma_pixel &at,
          int32_t group, int32_t first_channel, const float *staging, int m, int row) {
    constexpr int ROWS = Tile::THREADS / MMA_PIXELS;
    const int64_t out_h = down.out_first + (int64_t)at.h * p.axis[0].out_step;
    const int64_t out_w = across.out_first + (int64_t)at.w * p.axis[1].out_step;
    const int32_t here = p.written_per_group - first_channel;
    const int32_t channels = here < Tile::N ? here : Tile::N;
    const int64_t channel_0 = (int64_t)group * p.written_per_group + first_channel;
    if (p.splits > 1) {
        const int64_t pixels = (int64_t)p.axis[0].written * p.axis[1].written;
        float *const to = p.partial + blockIdx.y * p.partial_count +
                          ((int64_t)at.n * p.groups * p.written_per_group + channel_0) * pixels +
                          out_h * p.axis[1].written + out_w;
#pragma unroll 4
        for (int32_t n = row; n < channels; n += ROWS) {
            to[n * pixels] = staging[n * MMA_STAGING_PITCH + m];
        }
        return;
    }
    const int64_t offset =
        at.n * p.written_stride[0] + out_h * p.written_stride[2] + out_w * p.written_stride[3];
    bool all_finite = true;
#pragma unroll 4
    for (int32_t n = row; n < channels; n += ROWS) {
        const float value = staging[n * MMA_STAGING_PITCH + m];
        if (mma_finite(value)) {
            mma_finish(p, channel_0 + n, offset + (channel_0 + n) * p.written_stride[1], value);
        } else {
            all_finite = false;
        }
    }
    if (!all_finite) {
#pragma unroll 1
        for (int32_t n = row; n < channels; n += ROWS) {
            if (!mma_finite(staging[n * MMA_STAGING_PITCH + m])) {
                mma_finish(p, channel_0 + n, offset + (channel_0 + n) * p.written_stride[1],
                           mma_exact(p, down, across, group, first_channel + n, at.n, at.read_h,
                                     at.read_w));
            }
        }
    }
}

template <typename Tile>
static __global__ void __launch_bounds__(Tile::THREADS, UF_MMA_BLOCKS(Tile::BLOCKS))
    conv_mma(const __grid_constant__ mma_conv p) {
    UF_MMA_SHARED(shared);
    uf_overlap_launches();
    const int thread = (int)threadIdx.x;
    const int lane = thread & 31;
    const int warp = thread >> 5;
    const int first_m = warp / Tile::WARPS_N * Tile::WARP_M;
    const int first_n = warp % Tile::WARPS_N * 32;

    const mma_block block = mma_block_of(&p, (int32_t)blockIdx.x);
    const int32_t channel_block = block.channel_block;
    const int32_t tile = block.tile;
    const mma_walk down = mma_walk_of(&p.axis[0], block.phase / p.axis[1].phases);
    const mma_walk across = mma_walk_of(&p.axis[1], block.phase % p.axis[1].phases);
    if ((int64_t)tile * MMA_PIXELS >= (int64_t)p.batch * down.out_count * across.out_count) {
        return;
    }
    const int32_t group = channel_block / p.blocks_n;
    const int32_t first_channel = (channel_block - group * p.blocks_n) * Tile::N;

    /* A thread copies, and later writes, one pixel; of the k rows (channels) every ROWS-th. */
    constexpr int ROWS = Tile::THREADS / MMA_PIXELS;
    const int m = thread % MMA_PIXELS;
    const int row = thread / MMA_PIXELS;
    const mma_pixel at = mma_locate(&p, &down, &across, tile * MMA_PIXELS + m);
    const float *const source = p.read + (at.there ? at.n * p.read_stride[0] : 0) +
                                ((int64_t)group * p.read_per_group + row) * p.read_stride[1];

    int32_t h_begin = 0, h_end = down.taps, w_begin = 0, w_end = across.taps;
    if (p.batch_fastest) {
        mma_used_taps(p.axis[0], at.read_h, at.there, down.taps, &h_begin, &h_end);
        mma_used_taps(p.axis[1], at.read_w, at.there, across.taps, &w_begin, &w_end);
    }

    /* k-tiles: chunk slowest, so that the taps of a chunk find their pixels in the first-level
     * cache. */
    const int32_t window = (h_end - h_begin) * (w_end - w_begin);
    const int64_t all = (int64_t)p.chunks * window;
    const int32_t begin = (int32_t)(all * blockIdx.y / p.splits);
    const int32_t tiles = (int32_t)(all * (blockIdx.y + 1) / p.splits) - begin;
    int32_t chunk = 0, tap_h = h_begin, tap_w = w_begin;
    if (begin > 0) {
        chunk = begin / window;
        const int32_t in_window = begin - chunk * window;
        tap_h = h_begin + in_window / (w_end - w_begin);
        tap_w = w_begin + in_window % (w_end - w_begin);
    }

    const auto load = [&](int stage) {
        float *const a = (float *)shared + stage * (Tile::A_WORDS + Tile::B_WORDS);
        uint32_t *const b = (uint32_t *)a + Tile::A_WORDS;
        const int32_t tap = (down.tap_first + tap_h * p.axis[0].tap_step) * p.axis[1].kernel +
                            across.tap_first + tap_w * p.axis[1].tap_step;
        const int64_t taps = (int64_t)p.axis[0].kernel * p.axis[1].kernel;
        const uint32_t *const packed =
            p.packed + ((channel_block * taps + tap) * p.chunks + chunk) * Tile::B_WORDS;
        mma_load_weights<Tile>(b, packed, thread);
        const int32_t h = at.read_h + tap_h * p.axis[0].in_tap_step;
        const int32_t w = at.read_w + tap_w * p.axis[1].in_tap_step;
        const bool inside =
            at.there && mma_inside(h, p.axis[0].read) && mma_inside(w, p.axis[1].read);
        const float *from = p.read;
        int32_t channels = 0; /* that are left from this thread's first row on */
        if (inside) {
            from = source + h * p.read_stride[2] + w * p.read_stride[3] +
                   (int64_t)chunk * Tile::DEPTH * p.read_stride[1];
            channels = p.read_per_group - chunk * Tile::DEPTH - row;
        }
        const int64_t next = ROWS * p.read_stride[1];
#pragma unroll
        for (int i = 0; i < Tile::DEPTH; i += ROWS) {
            uf_copy_async4(a + (i + row) * MMA_PIXEL_PITCH + m, from, i < channels);
            from += next;
        }
        if (++tap_w == w_end) {
            tap_w = w_begin;
            if (++tap_h == h_end) {
                tap_h = h_begin;
                ++chunk;
            }
        }
    };

    float c[Tile::TILES_M][Tile::TILES_N][4] = {};
#pragma unroll
    for (int stage = 0; stage < Tile::STAGES - 1; ++stage) {
        if (stage < tiles) {
            load(stage);
        }
        uf_copy_async_commit();
    }
    int stage = 0;
#pragma unroll 1
    for (int32_t i = 0; i < tiles; ++i) {
        uf_copy_async_wait<Tile::STAGES - 2>();
        __syncthreads(); /* this k-tile has arrived everywhere, and the one before has been used
                            everywhere */
        if (i + Tile::STAGES - 1 < tiles) {
            load(stage == 0 ? Tile::STAGES - 1 : stage - 1);
        }
        uf_copy_async_commit();
        const float *const a = (const float *)shared + stage * (Tile::A_WORDS + Tile::B_WORDS);
        mma_multiply<Tile>(a, (const uint32_t *)a + Tile::A_WORDS, lane, first_m, first_n / 8, c);
        stage = stage == Tile::STAGES - 1 ? 0 : stage + 1;
    }
    uf_copy_async_wait<0>();
    __syncthreads();

    /* Out through shared memory: lanes then write runs of pixels. */
    float *const staging = (float *)shared;
    mma_stage<Tile>(c, staging, lane, first_m, first_n);
    __syncthreads();
    if (!at.there) {
        return;
    }
    mma_store<Tile>(p, down, across, at, group, first_channel, staging, m, row);
}

#endif
