/* wgrad_mainloop.cuh - the kernel of simt_direct/wgrad_launch.cu with a tile of w in registers. */
#ifndef UF_KERNELS_CUDA_CONV_SIMT_DIRECT_WGRAD_MAINLOOP_CUH
#define UF_KERNELS_CUDA_CONV_SIMT_DIRECT_WGRAD_MAINLOOP_CUH

#include "kernels/cuda/conv/simt_direct/wgrad_reduce.cuh"
#include "kernels/cuda/arch/sm80_mma.cuh"

template <int WORDS>
static __device__ __forceinline__ void direct_copy(float *shared, const float *from) {
    if (WORDS == 4) {
        uf_copy_async16(shared, from);
    } else {
        uf_copy_async4(shared, from, true);
    }
}

template <int WORDS>
static __device__ __forceinline__ void direct_copy(float *shared, const uint16_t *from) {
    *shared = direct_load(from);
}

/* threadIdx.x, read anew: values that follow from it do not stay in registers from the kernel's
 * beginning to its end. */
static __device__ __forceinline__ int32_t direct_thread() {
    int32_t thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}

/* A thread's part of its block's tile. */
struct direct_lane {
    int32_t c, k, g, warp_c, warp_k, warp_p;
};

static __device__ __forceinline__ direct_lane direct_lane_of(const direct_wgrad_plan &p,
                                                             int32_t thread) {
    const int32_t lane = thread & 31;
    const int32_t warp = thread >> 5;
    direct_lane at;
    at.c = lane & (p.lanes_c - 1);
    at.k = lane >> p.log_lanes_c & (p.lanes_k - 1);
    at.g = lane >> p.log_lanes_c >> p.log_lanes_k;
    at.warp_c = warp & (p.warps_c - 1);
    at.warp_k = warp >> p.log_warps_c & (p.warps_k - 1);
    at.warp_p = warp >> p.log_warps_c >> p.log_warps_k;
    return at;
}

/* Pixel i of a box: image, row, column, from its first. */
static __device__ __forceinline__ int3 direct_pixel(const direct_wgrad_plan &p, int32_t i) {
    int3 at;
    if (p.images_first) {
        const int32_t rest = i / p.box[0];
        at.x = i - rest * p.box[0];
        at.y = rest / p.box[2];
        at.z = rest - at.y * p.box[2];
    } else {
        const int32_t rest = i / p.box[2];
        at.z = i - rest * p.box[2];
        at.x = rest / p.box[1];
        at.y = rest - at.x * p.box[1];
    }
    return at;
}

/* The tables: entries of x and of y, and the offsets of quads and of columns of w in bytes. Entries
 * of x are nearly in the order of memory: class after class, neighbours would lie `stride` elements
 * from each other. Offset -1: none. */
static __device__ __forceinline__ void direct_make_tables(const direct_wgrad_plan &p,
                                                          const direct_wgrad_tile &tile,
                                                          int4 *x_entries, int4 *y_entries,
                                                          int32_t *quads, int32_t *columns) {
    for (int32_t i = (int32_t)threadIdx.x; i < p.x_entries; i += DIRECT_THREADS) {
        const int32_t plane = p.longest[0] * p.longest[1];
        const int32_t n = i / plane;
        const int32_t row = (i - n * plane) / p.longest[1];
        const int32_t position[2] = {row, i - n * plane - row * p.longest[1]};
        int32_t from[2], to[2];
        bool there = true;
#pragma unroll
        for (int axis = 0; axis < 2; ++axis) {
            const wgrad_rows &lines = p.lines[axis];
            const int32_t t = position[axis] / lines.step;
            const int32_t c = position[axis] - t * lines.step;
            there = there && (c < lines.longest || t < lines.length - lines.shift);
            from[axis] = t * lines.stride + c * lines.dilation;
            to[axis] = wgrad_line_start(&lines, c) + t;
        }
        const int32_t offset = n * (int32_t)p.x_stride[0] + from[0] * (int32_t)p.x_stride[2] +
                               from[1] * (int32_t)p.x_stride[3];
        const int32_t coord = n * p.pitch_n + to[0] * p.pitch_h + to[1] * p.pitch_w;
        x_entries[i] = make_int4(offset, there ? coord | n << 16 : -1, from[0], from[1]);
    }
    const int32_t unit = p.vector_y ? 4 : 1;
    for (int32_t i = (int32_t)threadIdx.x; i < p.y_entries; i += DIRECT_THREADS) {
        if (p.y_by_channel) {
            const int32_t coord = (i >> p.log_kt) * p.pitch_y + (i & (p.kt - 1)) * 4;
            y_entries[i] = make_int4(i * (int32_t)p.y_stride[1], i < tile.rows ? coord : -1, 0, 0);
            continue;
        }
        const int3 at = direct_pixel(p, i * unit);
        const int32_t offset = at.x * (int32_t)p.y_stride[0] + at.y * (int32_t)p.y_stride[2] +
                               at.z * (int32_t)p.y_stride[3];
        const int32_t pixel = i * unit;
        y_entries[i] =
            make_int4(offset, ((pixel >> 2) * p.pitch_quad + (pixel & 3)) | at.x << 16, at.y, at.z);
    }
    for (int32_t i = (int32_t)threadIdx.x; i < p.pixels / 4; i += DIRECT_THREADS) {
        const int3 at = direct_pixel(p, i * 4);
        quads[i] = (at.x * p.pitch_n + at.y * p.pitch_h + at.z * p.pitch_w) * 4;
    }
    for (int32_t i = (int32_t)threadIdx.x; i < p.columns; i += DIRECT_THREADS) {
        columns[i] = direct_column_offset(&p, tile.tap, i) * 4;
    }
}

/* One tensor's part of a box. */
template <typename T>
struct direct_source {
    const T *from; /* the first element of the box, which may lie outside */
    int32_t images, first[2], extent[2];
    int64_t step; /* from channel to channel */
};

/* The element that an entry reads, or null where that lies outside. */
template <typename T>
static __device__ __forceinline__ const T *direct_inside(const direct_source<T> &source,
                                                         const int4 &entry) {
    const bool inside = (entry.y >> 16) < source.images &&
                        (uint32_t)(source.first[0] + entry.z) < (uint32_t)source.extent[0] &&
                        (uint32_t)(source.first[1] + entry.w) < (uint32_t)source.extent[1];
    return inside ? source.from + entry.x : nullptr;
}

/* Copies one entry of `count` channels; zeros if `from` is null. WORDS of an entry: 1 or 4. */
template <int WORDS, typename T>
static __device__ __forceinline__ void direct_copy_channels(float *to, int32_t pitch, const T *from,
                                                            int64_t step, int32_t count) {
    if (from == nullptr) {
        for (int32_t c = 0; c < count; ++c) {
#pragma unroll
            for (int i = 0; i < WORDS; ++i) {
                to[i] = 0.0f;
            }
            to += pitch;
        }
        return;
    }
    int32_t c = 0;
    for (; c + 4 <= count; c += 4) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            direct_copy<WORDS>(to, from);
            to += pitch;
            from += step;
        }
    }
    for (; c < count; ++c) {
        direct_copy<WORDS>(to, from);
        to += pitch;
        from += step;
    }
}

/* A box's indices among the boxes. */
struct direct_box {
    int32_t n, p, q;
};

/* y: entries are pixels (WORDS of them), walked are channels in blocks of KT. */
template <int KT, int WORDS, typename T>
static __device__ __forceinline__ void
direct_load_y(const direct_wgrad_plan &p, const direct_wgrad_tile &tile,
              const direct_source<T> &source, const int4 *entries, float *ys, int32_t thread) {
    const int32_t warp = thread >> 5;
    const int32_t sets = DIRECT_WARPS >> p.log_y_warps;
    const int32_t set = warp >> p.log_y_warps;
    const int32_t blocks = p.tile_k / KT; /* of a group */
    for (int32_t i = (warp & ((1 << p.log_y_warps) - 1)) * 32 + (thread & 31); i < p.y_entries;
         i += 32 << p.log_y_warps) {
        const int4 entry = entries[i];
        const T *const from = direct_inside(source, entry);
        /* A warp walks whole blocks of KT channels, or every so many of them where a group has but
         * one block. */
        const int32_t by = blocks >= sets || p.lanes_g > 1 ? KT : 1;
        for (int32_t k = set * by; k < p.lanes_g * p.tile_k; k += sets * by) {
            const int32_t g = p.lanes_g > 1 ? k / p.tile_k : 0;
            const int32_t row = k - g * p.tile_k;
            if (g < tile.groups && row < tile.rows) {
                direct_copy_channels<WORDS>(
                    ys + (entry.y & 0xffff) + k / KT * p.pitch_y + k % KT * 4, 4,
                    from == nullptr ? from
                                    : from + ((int64_t)g * p.k_per_group + row) * source.step,
                    source.step, min(by, tile.rows - row));
            }
        }
    }
}

/* Loads a box: the x that any tap reads, and y. Channels and rows that do not exist are zero from
 * the beginning. */
template <int KT, typename T>
static __device__ __forceinline__ void
direct_fill(const direct_wgrad_plan &p, const direct_wgrad_tile &tile, const int4 *x_entries,
            const int4 *y_entries, float *xs, const direct_box &box) {
    const int32_t thread = direct_thread();
    const int32_t warp = thread >> 5;
    const int32_t n = box.n * p.box[0];
    const int32_t first[2] = {box.p * p.box[1], box.q * p.box[2]};
    direct_source<T> source;
    source.images = p.batch - n;
    for (int axis = 0; axis < 2; ++axis) {
        source.first[axis] = first[axis] * p.stride[axis] - p.padding[axis];
        source.extent[axis] = p.large[axis];
    }
    source.step = p.x_stride[1];
    source.from = (const T *)p.x + n * p.x_stride[0] + source.first[0] * p.x_stride[2] +
                  source.first[1] * p.x_stride[3] +
                  ((int64_t)tile.group * p.c_per_group + tile.c) * p.x_stride[1];
    {
        /* Runs of channels, one per set of warps; several groups: all channels of each. */
        const int32_t channels = tile.groups * tile.channels;
        const int32_t log_sets = DIRECT_LOG_WARPS - p.log_x_warps;
        const int32_t run = (channels + (1 << log_sets) - 1) >> log_sets;
        const int32_t c = (warp >> p.log_x_warps) * run;
        const int32_t count = min(run, channels - c);
        for (int32_t i = (warp & ((1 << p.log_x_warps) - 1)) * 32 + (thread & 31); i < p.x_entries;
             i += 32 << p.log_x_warps) {
            const int4 entry = x_entries[i];
            if (entry.y >= 0) {
                const T *const from = direct_inside(source, entry);
                direct_copy_channels<1>(xs + (entry.y & 0xffff) + c * p.pitch_c, p.pitch_c,
                                        from == nullptr ? from : from + c * source.step,
                                        source.step, count);
            }
        }
    }
    for (int axis = 0; axis < 2; ++axis) {
        source.first[axis] = first[axis];
        source.extent[axis] = p.small[axis];
    }
    source.step = p.y_stride[1];
    source.from = (const T *)p.y + n * p.y_stride[0] + first[0] * p.y_stride[2] +
                  first[1] * p.y_stride[3] +
                  ((int64_t)tile.group * p.k_per_group + tile.k) * p.y_stride[1];
    float *const ys = xs + p.x_words;
    if (p.y_by_channel) {
        const int32_t row = thread & (DIRECT_THREADS - 1);
        for (int32_t i = row; i < p.y_entries * (p.box[0] / 4); i += DIRECT_THREADS) {
            const int32_t quad = i / p.y_entries;
            const int4 entry = y_entries[i - quad * p.y_entries];
            if (entry.y >= 0) {
                const int32_t there = max(0, min(4, source.images - quad * 4));
                float *const to = ys + entry.y + quad * p.pitch_quad;
                direct_copy_channels<1>(to, 1, source.from + entry.x + quad * 4 * p.y_stride[0],
                                        p.y_stride[0], there);
                direct_copy_channels<1>(to + there, 1, (const T *)nullptr, 0, 4 - there);
            }
        }
    } else if (sizeof(T) == 4 && p.vector_y) {
        direct_load_y<KT, 4>(p, tile, source, y_entries, ys, thread);
    } else {
        direct_load_y<KT, 1>(p, tile, source, y_entries, ys, thread);
    }
}

/* N consecutive words of shared memory by one load. */
template <typename V, int N>
struct __align__(4 * N) direct_vector {
    V at[N];

    direct_vector() = default;
    __device__ __forceinline__ explicit direct_vector(const V *from) {
        *this = *(const direct_vector *)from;
    }
};

/* The end of a block: warps that share a tile add their sums, each half the other's, and one stores
 * them in the workspace. */
template <int KT, int CT>
static __device__ __forceinline__ void direct_store_sums(const direct_wgrad_plan &p,
                                                         float (&sum)[KT][CT], float *shared) {
    const direct_lane last = direct_lane_of(p, direct_thread());
    /* A warp's sums lie at the warp's number, or half the sharing warps lower. */
    const int32_t spacing = p.warps_c * p.warps_k * 32 * KT * CT;
    for (int32_t half = p.warps_p / 2; half > 0; half /= 2) {
        float *const sums =
            shared + (direct_thread() >> 5) * (32 * KT * CT) + (direct_thread() & 31);
        __syncthreads();
        if (last.warp_p >= half && last.warp_p < 2 * half) {
#pragma unroll
            for (int i = 0; i < KT * CT; ++i) {
                (sums - half * spacing)[i * 32] = sum[i / CT][i % CT];
            }
        }
        __syncthreads();
        if (last.warp_p < half) {
#pragma unroll
            for (int i = 0; i < KT * CT; ++i) {
                sum[i / CT][i % CT] += sums[i * 32];
            }
        }
    }
    if (last.warp_p != 0) {
        return;
    }
    float *to = p.partial + ((int64_t)blockIdx.y * p.tiles + blockIdx.x) * p.size +
                (last.g * p.tile_k + (last.warp_k * p.lanes_k + last.k) * KT) * p.columns +
                last.warp_c * CT * p.lanes_c + last.c;
#pragma unroll
    for (int k = 0; k < KT; ++k) {
        float *at = to;
#pragma unroll
        for (int j = 0; j < CT; ++j) {
            *at = sum[k][j];
            at += p.lanes_c;
        }
        to += p.columns;
    }
}

template <typename T, int KT, int CT>
static __global__ void __launch_bounds__(DIRECT_THREADS, 2)
    conv_direct_wgrad(const __grid_constant__ direct_wgrad_plan p) {
    constexpr int UNIT = KT * CT > 60 ? 2 : 4; /* pixels of y in registers */
    extern __shared__ __align__(16) unsigned char direct_shared[];
    int4 *const x_entries = (int4 *)direct_shared;
    int4 *const y_entries = x_entries + p.x_entries;
    int32_t *const quads = (int32_t *)(y_entries + p.y_entries);
    int32_t *const columns = quads + (p.pixels / 4 + 3) / 4 * 4;
    float *const stages = (float *)(columns + p.columns);
    __shared__ direct_wgrad_tile tile;
    if (threadIdx.x == 0) {
        tile = direct_wgrad_tile_of(&p, (int32_t)blockIdx.x);
    }
    __syncthreads();
    const int32_t begin = (int32_t)((int64_t)blockIdx.y * p.all_boxes / p.splits);
    const int32_t end = (int32_t)((int64_t)(blockIdx.y + 1) * p.all_boxes / p.splits);

    direct_make_tables(p, tile, x_entries, y_entries, quads, columns);
    if (tile.groups < p.lanes_g || tile.rows < p.tile_k || tile.channels < p.tile_c) {
        for (int32_t i = (int32_t)threadIdx.x; i < p.stages * p.stage_words; i += DIRECT_THREADS) {
            stages[i] = 0.0f;
        }
    }
    __syncthreads();
    uf_overlap_launches();

    float sum[KT][CT] = {};
    int32_t stage = 0;
    direct_box next;
    next.n = begin / p.boxes[2];
    next.q = begin - next.n * p.boxes[2];
    next.p = next.n;
    next.n = next.p / p.boxes[1];
    next.p -= next.n * p.boxes[1];
    for (int32_t box = begin - (p.stages - 1); box < end; ++box) {
        if (box >= begin) {
            if (p.stages == 3) {
                uf_copy_async_wait<1>();
            } else {
                uf_copy_async_wait<0>();
            }
            __syncthreads();
        }
        if (box + p.stages - 1 < end) {
            direct_fill<KT, T>(p, tile, x_entries, y_entries, stages + stage * p.stage_words, next);
            if (++next.q == p.boxes[2]) {
                next.q = 0;
                if (++next.p == p.boxes[1]) {
                    next.p = 0;
                    ++next.n;
                }
            }
        }
        uf_copy_async_commit();
        stage = stage + 1 == p.stages ? 0 : stage + 1; /* the next to be filled is the oldest */
        if (box < begin) {
            continue;
        }

        const direct_lane here = direct_lane_of(p, direct_thread());
        const float *const xs = stages + stage * p.stage_words + here.g * p.tile_c * p.pitch_c;
        const float *ys = stages + stage * p.stage_words + p.x_words + here.g * p.pitch_g +
                          (here.warp_k * p.lanes_k + here.k) * p.pitch_y +
                          here.warp_p * p.pitch_quad;
        int32_t at[CT]; /* read again for each box: the load of the next one needs the registers */
#pragma unroll
        for (int j = 0; j < CT; ++j) {
            at[j] = columns[here.c + p.lanes_c * (here.warp_c * CT + j)];
        }
        for (int32_t quad = here.warp_p; quad < p.pixels >> 2; quad += p.warps_p) {
            const unsigned char *const x_quad = (const unsigned char *)xs + quads[quad];
#pragma unroll
            for (int part = 0; part < 4; part += UNIT) {
                direct_vector<float, UNIT> y[KT];
#pragma unroll
                for (int k = 0; k < KT; ++k) {
                    y[k] = direct_vector<float, UNIT>(ys + k * 4 + part);
                }
#pragma unroll
                for (int j = 0; j < CT; ++j) {
                    const float *const x_at = (const float *)(x_quad + at[j]) + part;
#pragma unroll
                    for (int i = 0; i < UNIT; ++i) {
                        const float x = x_at[i];
#pragma unroll
                        for (int k = 0; k < KT; ++k) {
                            sum[k][j] = fmaf(y[k].at[i], x, sum[k][j]);
                        }
                    }
                }
            }
            ys += p.warps_p * p.pitch_quad;
        }
    }
    uf_copy_async_wait<0>();
    direct_store_sums<KT, CT>(p, sum, (float *)direct_shared);
}

#endif
