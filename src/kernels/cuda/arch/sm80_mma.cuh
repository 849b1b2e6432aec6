/* clang-format off */
/* sm80_mma.cuh - tensor core MMAs and asynchronous copies as functions (PTX, sm_80 and later).
 *
 * Fragments, with q = lane / 4 and r = lane % 4. A is 16 x K, B is K x 8, C is 16 x 8:
 *   tf32, K = 8    a0 (q, r)  a1 (q + 8, r)  a2 (q, r + 4)  a3 (q + 8, r + 4)
 *                  b0 (r, q)  b1 (r + 4, q)
 *   bf16, K = 16   the same with pairs: column c of the above is columns 2r, 2r + 1 (c < 4) or
 *                  2r + 8, 2r + 9, the even one in the lower half of the word
 *   C              c0 (q, 2r)  c1 (q, 2r + 1)  c2 (q + 8, 2r)  c3 (q + 8, 2r + 1) */
/* clang-format on */
#ifndef UF_KERNELS_CUDA_ARCH_SM80_MMA_CUH
#define UF_KERNELS_CUDA_ARCH_SM80_MMA_CUH

#include <cstdint>

#include "kernels/cuda/device/bf16.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define UF_HAS_MMA 0
#else
#define UF_HAS_MMA 1
#endif

/* Copy 4 (16) bytes to shared memory; `take` false writes zeros and reads nothing. */
static __device__ __forceinline__ void uf_copy_async4(uint32_t shared, const float *from,
                                                      bool take) {
#if UF_HAS_MMA
    const int size = take ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(shared), "l"(from),
                 "r"(size)
                 : "memory");
#endif
}

static __device__ __forceinline__ void uf_copy_async4(float *shared, const float *from, bool take) {
    uf_copy_async4((uint32_t)__cvta_generic_to_shared(shared), from, take);
}

static __device__ __forceinline__ void uf_copy_async16(void *shared, const void *from,
                                                       bool take = true) {
#if UF_HAS_MMA
    const unsigned to = (unsigned)__cvta_generic_to_shared(shared);
    const int size = take ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from), "r"(size)
                 : "memory");
#endif
}

/* The first `bytes` of 16, and zeros. */
static __device__ __forceinline__ void uf_copy_async_part(void *shared, const void *from,
                                                          int bytes) {
#if UF_HAS_MMA
    const unsigned to = (unsigned)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from), "r"(bytes)
                 : "memory");
#endif
}

/* Copies are counted in groups; wait until no more than PENDING groups of this thread are under
 * way. */
static __device__ __forceinline__ void uf_copy_async_commit() {
#if UF_HAS_MMA
    asm volatile("cp.async.commit_group;\n" ::: "memory");
#endif
}

template <int PENDING>
static __device__ __forceinline__ void uf_copy_async_wait() {
#if UF_HAS_MMA
    asm volatile("cp.async.wait_group %0;\n" ::"n"(PENDING) : "memory");
#endif
}

/* To nearest, ties away from zero; NaN stays NaN. The hardware by itself would
 * truncate. */
static __device__ __forceinline__ uint32_t uf_round_tf32(float x) {
    uint32_t rounded = 0;
#if UF_HAS_MMA
    asm("cvt.rna.tf32.f32 %0, %1;\n" : "=r"(rounded) : "f"(x));
#endif
    return rounded;
}

/* 16 bytes at once: of a vector written through a pointer the compiler may make four stores. */
static __device__ __forceinline__ void uf_store_words(void *to, const uint32_t (&word)[4]) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};\n" ::"l"(to), "r"(word[0]), "r"(word[1]),
                 "r"(word[2]), "r"(word[3])
                 : "memory");
}

/* Four matrices of 8 rows of 16 bytes: lane i names row i % 8 of matrix i / 8, and gets word lane %
 * 4 of row lane / 4 of each, a fragment of A where these are its rows 0 to 7 and 8 to 15, of the
 * first and then the second half of K. */
static __device__ __forceinline__ void uf_load_matrices(uint32_t a[4], uint32_t shared) {
#if UF_HAS_MMA
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"(shared)
                 : "memory");
#endif
}

/* The same, rows and columns exchanged: lane i gets elements 2 (lane % 4) and the next one of
 * column lane / 4, a pair, of each matrix. */
static __device__ __forceinline__ void uf_load_matrices_transposed(uint32_t a[4], uint32_t shared) {
#if UF_HAS_MMA
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"(shared)
                 : "memory");
#endif
}

/* Back to shared memory; stored by columns. Compute capability 9.0. */
static __device__ __forceinline__ void uf_store_matrices_transposed(const uint32_t a[4],
                                                                    uint32_t shared) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile(
        "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};\n" ::"r"(shared),
        "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])
        : "memory");
#endif
}

static __device__ __forceinline__ void uf_mma_tf32(float c[4], const uint32_t a[4],
                                                   const uint32_t b[2]) {
#if UF_HAS_MMA
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

static __device__ __forceinline__ void uf_mma_bf16(float c[4], const uint32_t a[4],
                                                   const uint32_t b[2]) {
#if UF_HAS_MMA
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

#endif
