/* epilogue_rows.cuh - stores staged lines of conv_im2col: `cp.async.bulk` for whole sectors,
 * ordinary stores for the ends; and fills lines with one value. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_IM2COL_EPILOGUE_ROWS_CUH
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_IM2COL_EPILOGUE_ROWS_CUH

#include "kernels/cuda/conv/mma_few_channels/im2col/load.cuh"

/* Precedes the barrier after which staged lines are stored. */
static __device__ __forceinline__ void im2col_lines_fence() {
#if UF_HAS_WGMMA
    uf_fence_async_shared();
#endif
}

/* Precedes the barrier after which staged lines are overwritten. */
static __device__ __forceinline__ void im2col_lines_wait() {
#if UF_HAS_WGMMA
    uf_store_bulk_commit();
    uf_store_bulk_wait<0>();
#endif
}

/* Rows without taps and the lines of a slice are separate groups of bulk stores. The line of zeros
 * is never overwritten, so staging waits only for the lines before. */
static __device__ __forceinline__ void im2col_lines_commit() {
#if UF_HAS_WGMMA
    uf_store_bulk_commit();
#endif
}

static __device__ __forceinline__ void im2col_lines_wait_but_zeros() {
#if UF_HAS_WGMMA
    uf_store_bulk_wait<1>();
#endif
}

/* Stores `count` elements of each lane; both addresses agree modulo 16 bytes. Whole sectors go by
 * `cp.async.bulk`: a partial sector slows the memory down by a fifth. The lanes share the ends. All
 * lanes of the warp must call it. */
template <typename T>
static __device__ __forceinline__ void im2col_write_rows(T *to, const T *from, int32_t count) {
    constexpr int32_t SECTOR = 32 / (int32_t)sizeof(T);
    const int32_t lane = (int32_t)threadIdx.x & 31;
    const int32_t head =
        min((int32_t)(0 - (uintptr_t)to / sizeof(T) & (uintptr_t)(SECTOR - 1)), count);
    const int32_t body = (count - head) / SECTOR * SECTOR;
#if UF_HAS_WGMMA
    if (body > 0) {
        uf_store_bulk(to + head, uf_shared_address(from + head),
                      (uint32_t)(body * (int32_t)sizeof(T)));
    }
    uint32_t lines = __ballot_sync(0xffffffffu, count > body);
#else
    constexpr int32_t VECTOR = 16 / (int32_t)sizeof(T);
    uint32_t lines = __ballot_sync(0xffffffffu, count > 0);
#endif
#pragma unroll 1
    for (; lines != 0; lines &= lines - 1) {
        const int i = __ffs((int)lines) - 1;
        T *const there = (T *)__shfl_sync(0xffffffffu, (unsigned long long)to, i);
        const T *const here = (const T *)__shfl_sync(0xffffffffu, (unsigned long long)from, i);
        const int32_t before = __shfl_sync(0xffffffffu, head, i);
        const int32_t whole = __shfl_sync(0xffffffffu, body, i);
        const int32_t all = __shfl_sync(0xffffffffu, count, i);
        const int32_t at = lane < before ? lane : lane + whole;
        if (at < all) {
            there[at] = here[at];
        }
#if !UF_HAS_WGMMA
#pragma unroll 1
        for (int32_t k = lane * VECTOR; k < whole; k += 32 * VECTOR) {
            *(uint4 *)(there + before + k) = *(const uint4 *)(here + before + k);
        }
#endif
    }
}

/* Stores one V at byte `at` if `wanted`, and advances `at`. */
template <typename V>
static __device__ __forceinline__ void im2col_write_piece(void *to, const void *from, int32_t &at,
                                                          bool wanted) {
    if (wanted) {
        *(V *)((char *)to + at) = *(const V *)((const char *)from + at);
        at += (int32_t)sizeof(V);
    }
}

/* The same, with ends in pieces as long as their alignment allows. */
template <typename T>
static __device__ __forceinline__ void im2col_write_pieces(T *to, const T *from, int32_t count) {
#if UF_HAS_WGMMA
    constexpr int32_t SECTOR = 32;
    const int32_t bytes = count * (int32_t)sizeof(T);
    const int32_t head = (int32_t)(0 - (uintptr_t)to & (uintptr_t)(SECTOR - 1));
    if (bytes < head) {
#pragma unroll 1
        for (int32_t i = 0; i < count; ++i) {
            to[i] = from[i];
        }
        return;
    }
    const int32_t body = (bytes - head) & ~(SECTOR - 1), tail = bytes - head - body;
    if (body > 0) {
        uf_store_bulk((char *)to + head, uf_shared_address((const char *)from + head),
                      (uint32_t)body);
    }
    if ((head | tail) == 0) {
        return;
    }
    int32_t at = 0;
    if (sizeof(T) == 2) {
        im2col_write_piece<uint16_t>(to, from, at, head & 2);
    }
    im2col_write_piece<uint32_t>(to, from, at, head & 4);
    im2col_write_piece<uint2>(to, from, at, head & 8);
    im2col_write_piece<uint4>(to, from, at, head & 16);
    at += body;
    im2col_write_piece<uint4>(to, from, at, tail & 16);
    im2col_write_piece<uint2>(to, from, at, tail & 8);
    im2col_write_piece<uint32_t>(to, from, at, tail & 4);
    if (sizeof(T) == 2) {
        im2col_write_piece<uint16_t>(to, from, at, tail & 2);
    }
#else
    im2col_write_rows(to, from, count);
#endif
}

template <typename Tile>
static __device__ __forceinline__ void im2col_write(typename Tile::T *to,
                                                    const typename Tile::T *from, int32_t count) {
    if (Tile::ROOMY) {
        im2col_write_pieces(to, from, count);
    } else {
        im2col_write_rows(to, from, count);
    }
}

/* Fills `count` elements, 16 bytes at a time where they are aligned. */
template <typename T>
static __device__ __forceinline__ void im2col_fill_line(T *to, int32_t count, int32_t lane,
                                                        float value) {
    constexpr int32_t VECTOR = 16 / (int32_t)sizeof(T);
    const T stored = (T)value;
    const uint32_t word = sizeof(T) == 2 ? uf_pack_bf16(value, value) : __float_as_uint(value);
    const int32_t head =
        min((int32_t)(0 - (uintptr_t)to / sizeof(T) & (uintptr_t)(VECTOR - 1)), count);
    const int32_t body = (count - head) / VECTOR;
    const int32_t tail = count - head - body * VECTOR;
    /* Lanes 0 to 15 fill the unaligned head, the others the tail. */
    const int32_t edge = lane & 15;
    if (edge < (lane < 16 ? head : tail)) {
        to[lane < 16 ? edge : count - 1 - edge] = stored;
    }
    uint4 *const vectors = (uint4 *)(to + head);
#pragma unroll 1
    for (int32_t i = lane - (int32_t)((uintptr_t)vectors / 16 & 7); i < body; i += 32) {
        if (i >= 0) {
            vectors[i] = make_uint4(word, word, word, word);
        }
    }
}

#endif
