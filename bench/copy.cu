/* copy.cu - the copy that memory-bound kernels are measured against: 16 bytes an access, four of
 * them on their way in each thread. */
#include "bench.h"

enum { THREADS = 256, EACH = 4 };

static __global__ void __launch_bounds__(THREADS)
    copy_vectors(uint4 *to, const uint4 *from, int64_t count) {
    const int64_t first = (int64_t)blockIdx.x * (THREADS * EACH) + threadIdx.x;
    uint4 held[EACH];
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        if (first + i * THREADS < count) {
            held[i] = from[first + i * THREADS];
        }
    }
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        if (first + i * THREADS < count) {
            to[first + i * THREADS] = held[i];
        }
    }
}

int bench_copy(void *stream, void *to, const void *from, size_t bytes) {
    const int64_t count = (int64_t)(bytes / sizeof(uint4));
    const int64_t blocks = (count + THREADS * EACH - 1) / (THREADS * EACH);
    copy_vectors<<<(unsigned)blocks, THREADS, 0, (cudaStream_t)stream>>>(
        (uint4 *)to, (const uint4 *)from, count);
    return (int)cudaGetLastError();
}
