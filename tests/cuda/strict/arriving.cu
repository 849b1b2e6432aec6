/* arriving.cu - a loop of wgmma products that may have no turn, without a fence behind it: ptxas
 * injects one, and it must not compile. */
#include <cstdint>

extern "C" __global__ void __launch_bounds__(128)
    arriving(float *out, uint64_t a, uint64_t b, int turns) {
    float d[4] = {0, 0, 0, 0};
    for (int i = 0; i < turns; ++i) {
        asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
        asm volatile("wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%0, %1, %2, %3}, %4, %5, "
                     "1, 1, 1;\n"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "l"(a + i), "l"(b));
    }
    asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;\n" ::: "memory");
    for (int i = 0; i < 4; ++i) {
        asm volatile("" : "+f"(d[i])::"memory");
        out[threadIdx.x * 4 + i] = d[i];
    }
}
