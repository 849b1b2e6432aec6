/* sm90_wgmma.cuh - Hopper's `wgmma`, barriers in shared memory and `cp.async.bulk` copies as
 * functions (PTX, sm_90a).
 *
 * Operands in shared memory are K-major without swizzle. With R rows and 16 bytes x P of K they are
 * P planes, each R rows of 16 bytes. A row is then 16 bytes from the next one, so that a tile may
 * begin at *any* row: a filter tap is an offset. Eight rows are 128 contiguous bytes, free of bank
 * conflicts to read, and to write by lanes that hold a row each.
 *
 * Accumulators of m64nN, lane l of warp w of the warpgroup: d[4j + 2i + e] is row 16w + 8i + l/4,
 * column 8j + 2(l%4) + e. */
#ifndef UF_KERNELS_CUDA_ARCH_SM90_WGMMA_CUH
#define UF_KERNELS_CUDA_ARCH_SM90_WGMMA_CUH

#include <cstdint>

#include "kernels/cuda/arch/sm90_dependent_launch.cuh"

/* Code for sm_90a; the other architectures compile empty bodies that nothing launches. */
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define UF_HAS_WGMMA 1
#else
#define UF_HAS_WGMMA 0
#endif

static __device__ __forceinline__ uint32_t uf_shared_address(const void *pointer) {
    return (uint32_t)__cvta_generic_to_shared(pointer);
}

/* Descriptor of an operand at `address` in shared memory. The next 16 bytes of K are `plane` bytes
 * on, the next eight rows `group` bytes on. All three are multiples of 16, below 2^18. Adding n to
 * the descriptor moves it by 16n bytes. */
static __device__ __forceinline__ uint64_t uf_wgmma_operand(uint32_t address, uint32_t plane,
                                                            uint32_t group) {
    return (uint64_t)((address & 0x3ffffu) >> 4) | (uint64_t)(plane >> 4) << 16 |
           (uint64_t)(group >> 4) << 32;
}

#if UF_HAS_WGMMA

struct uf_wgmma_tf32;        /* K = 8 per MMA, words hold f32 already rounded to TF32 */
struct uf_wgmma_bf16;        /* K = 16, words hold pairs */
struct uf_wgmma_bf16_across; /* the second operand lies by K: neighbours are columns (MN-major) */

template <bool BF16>
struct uf_wgmma_element {
    typedef uf_wgmma_tf32 type;
};

template <>
struct uf_wgmma_element<true> {
    typedef uf_wgmma_bf16 type;
};

/* run(d, a, b, add): d = a*b + (add ? d : 0), asynchronous; a is 64 rows, b is N. */
template <typename Type, int N>
struct uf_wgmma_mma;

#define UF_WGMMA_F4(d, i) "+f"(d[i]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3])
#define UF_WGMMA_F16(d, i)                                                                         \
    UF_WGMMA_F4(d, i), UF_WGMMA_F4(d, (i) + 4), UF_WGMMA_F4(d, (i) + 8), UF_WGMMA_F4(d, (i) + 12)
#include "kernels/cuda/arch/sm90_wgmma_mma.inc"
#undef UF_WGMMA_F16
#undef UF_WGMMA_F4

/* Before the first MMA, and whenever other code wrote registers that MMAs use. */
static __device__ __forceinline__ void uf_wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
}

static __device__ __forceinline__ void uf_wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
}

/* Waits until at most PENDING committed groups of this warpgroup are in flight. */
template <int PENDING>
static __device__ __forceinline__ void uf_wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(PENDING) : "memory");
}

/* Keeps the compiler from moving uses of accumulators across a wait or a fence. */
template <int COUNT>
static __device__ __forceinline__ void uf_wgmma_pin(float (&d)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        asm volatile("" : "+f"(d[i])::"memory");
    }
}

/* d = 0, not moved before code that precedes it: the same registers may serve one use after
 * another. */
template <int COUNT>
static __device__ __forceinline__ void uf_wgmma_clear(float (&d)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        asm volatile("mov.f32 %0, 0f00000000;\n" : "=f"(d[i])::"memory");
    }
}

/* CALL(i) for i = index, below 8 or 16. Accumulators live in registers, so that their indices must
 * be constants. A loop that is not unrolled would move them to local memory. */
#define UF_SWITCH_CASE(i, CALL)                                                                    \
    case i:                                                                                        \
        CALL(i);                                                                                   \
        break;
#define UF_SWITCH_CASES_8(first, CALL)                                                             \
    UF_SWITCH_CASE((first) + 0, CALL)                                                              \
    UF_SWITCH_CASE((first) + 1, CALL)                                                              \
    UF_SWITCH_CASE((first) + 2, CALL)                                                              \
    UF_SWITCH_CASE((first) + 3, CALL)                                                              \
    UF_SWITCH_CASE((first) + 4, CALL)                                                              \
    UF_SWITCH_CASE((first) + 5, CALL)                                                              \
    UF_SWITCH_CASE((first) + 6, CALL)                                                              \
    UF_SWITCH_CASE((first) + 7, CALL)
#define UF_SWITCH_8(index, CALL)                                                                   \
    switch (index) {                                                                               \
        UF_SWITCH_CASES_8(0, CALL)                                                                 \
    default:                                                                                       \
        break;                                                                                     \
    }
#define UF_SWITCH_16(index, CALL)                                                                  \
    switch (index) {                                                                               \
        UF_SWITCH_CASES_8(0, CALL)                                                                 \
        UF_SWITCH_CASES_8(8, CALL)                                                                 \
    default:                                                                                       \
        break;                                                                                     \
    }

/* A ring of buffers: the next index, and the parity of its round. */
struct uf_ring {
    int32_t index;
    uint32_t parity;

    __device__ __forceinline__ void next(int32_t count) {
        if (++index == count) {
            index = 0;
            parity ^= 1;
        }
    }

    __device__ __forceinline__ void skip(int32_t stages, int32_t count) {
        index += stages;
        while (index >= count) {
            index -= count;
            parity ^= 1;
        }
    }
};

static __device__ __forceinline__ void uf_barrier_init(uint64_t *barrier, uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(uf_shared_address(barrier)),
                 "r"(arrivals)
                 : "memory");
}

/* Makes initialised barriers visible to `cp.async.bulk` copies. */
static __device__ __forceinline__ void uf_barrier_init_fence() {
    asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
}

static __device__ __forceinline__ void uf_barrier_arrive(uint64_t *barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(uf_shared_address(barrier))
                 : "memory");
}

/* One thread arrives for `count`. */
static __device__ __forceinline__ void uf_barrier_arrive(uint64_t *barrier, uint32_t count) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;\n" ::"r"(uf_shared_address(barrier)),
                 "r"(count)
                 : "memory");
}

/* Lane 0 arrives for its warp after all lanes have read the buffer: without __syncwarp some might
 * not have. */
static __device__ __forceinline__ void uf_barrier_release(uint64_t *barrier, bool elected) {
    __syncwarp();
    if (elected) {
        uf_barrier_arrive(barrier);
    }
}

/* Arrives; the phase ends only after `bytes` more have been copied. */
static __device__ __forceinline__ void uf_barrier_expect(uint64_t *barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(
                     uf_shared_address(barrier)),
                 "r"(bytes)
                 : "memory");
}

/* Waits until the phase of this parity is over. A barrier begins in phase 0; waiting for parity 1
 * then returns at once. */
static __device__ __forceinline__ void uf_barrier_wait(uint64_t *barrier, uint32_t parity) {
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}\n" ::"r"(uf_shared_address(barrier)),
                 "r"(parity)
                 : "memory");
}

/* True if that phase is over. */
static __device__ __forceinline__ bool uf_barrier_test(uint64_t *barrier, uint32_t parity) {
    int done;
    asm volatile("{\n"
                 ".reg .pred over;\n"
                 "mbarrier.test_wait.parity.shared::cta.b64 over, [%1], %2;\n"
                 "selp.s32 %0, 1, 0, over;\n"
                 "}\n"
                 : "=r"(done)
                 : "r"(uf_shared_address(barrier)), "r"(parity)
                 : "memory");
    return done != 0;
}

/* Copies `bytes`, a multiple of 16, from global to shared memory, both 16-byte aligned; `barrier`
 * counts them. */
static __device__ __forceinline__ void uf_copy_bulk(uint32_t shared, const void *from,
                                                    uint32_t bytes, uint64_t *barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], "
                 "%2, [%3];\n" ::"r"(shared),
                 "l"(from), "r"(bytes), "r"(uf_shared_address(barrier))
                 : "memory");
}

/* Copies `bytes`, a multiple of 16, from shared to global memory, both 16-byte aligned. */
static __device__ __forceinline__ void uf_store_bulk(void *to, uint32_t shared, uint32_t bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n" ::"l"(to),
                 "r"(shared), "r"(bytes)
                 : "memory");
}

/* Commits this thread's bulk stores since the last commit as a group. */
static __device__ __forceinline__ void uf_store_bulk_commit() {
    asm volatile("cp.async.bulk.commit_group;\n" ::: "memory");
}

/* Waits until all groups of this thread but the last PENDING have read shared memory. */
template <int PENDING>
static __device__ __forceinline__ void uf_store_bulk_wait() {
    asm volatile("cp.async.bulk.wait_group.read %0;\n" ::"n"(PENDING) : "memory");
}

/* __syncthreads for `threads` threads that use the same number from 1 to 15. */
static __device__ __forceinline__ void uf_named_barrier(int number, int threads) {
    asm volatile("bar.sync %0, %1;\n" ::"r"(number), "r"(threads) : "memory");
}

/* The same; true if `value` is true in all of them. */
static __device__ __forceinline__ bool uf_named_barrier_and(int number, int threads, bool value) {
    int all;
    asm volatile("{\n"
                 ".reg .pred mine, together;\n"
                 "setp.ne.s32 mine, %3, 0;\n"
                 "barrier.cta.red.and.pred together, %1, %2, mine;\n"
                 "selp.s32 %0, 1, 0, together;\n"
                 "}\n"
                 : "=r"(all)
                 : "r"(number), "r"(threads), "r"((int)value)
                 : "memory");
    return all != 0;
}

/* A barrier for all threads of a cluster that have not ended. Stores to shared memory before the
 * arrival are visible to all after the wait. */
static __device__ __forceinline__ void uf_cluster_arrive() {
    asm volatile("barrier.cluster.arrive.release;\n" ::: "memory");
}

static __device__ __forceinline__ void uf_cluster_wait() {
    asm volatile("barrier.cluster.wait.acquire;\n" ::: "memory");
}

/* The same address in the shared memory of another CTA of the cluster; then four floats from
 * there. */
static __device__ __forceinline__ uint32_t uf_cluster_address(uint32_t shared, uint32_t rank) {
    uint32_t address;
    asm("mapa.shared::cluster.u32 %0, %1, %2;\n" : "=r"(address) : "r"(shared), "r"(rank));
    return address;
}

static __device__ __forceinline__ float4 uf_cluster_load(uint32_t address) {
    float4 value;
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];\n"
                 : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
                 : "r"(address)
                 : "memory");
    return value;
}

/* Makes this thread's stores to shared memory visible to wgmma and bulk copies; a barrier
 * follows. */
static __device__ __forceinline__ void uf_fence_async_shared() {
    asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
}

template <int REGISTERS>
static __device__ __forceinline__ void uf_registers_release() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(REGISTERS));
}

template <int REGISTERS>
static __device__ __forceinline__ void uf_registers_take() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(REGISTERS));
}

#endif

#endif
