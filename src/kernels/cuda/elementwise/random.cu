/* random.cu - the random numbers of initialisers: cuRAND's Philox4_32_10, through its device
 * interface. cuRAND's own generator has elements 4*b to 4*b + 3 in subsequence b mod 65536 at
 * offset 4*(b div 65536). random_math.h makes uniforms and normals of the words, with the same bits
 * on every device. Needs no generator object, no scratch and no synchronisation. */
#include <curand_kernel.h>

#include "kernels/cuda/device/device.cuh"
#include "kernels/random_math.h"

template <typename T>
static __global__ void __launch_bounds__(UF_BLOCK)
    random_fill(bool normal, uint64_t seed, double a, double b, T *output, int64_t count) {
    uf_overlap_launches();
    UF_EACH(int64_t, block, (count + 3) / 4) {
        curandStatePhilox4_32_10_t state;
        curand_init(seed, (unsigned long long)(block % 65536),
                    (unsigned long long)(block / 65536) * 4, &state);
        const uint4 words = curand4(&state);
        const uint32_t word[4] = {words.x, words.y, words.z, words.w};
        for (int i = 0; i < 4 && 4 * block + i < count; ++i) {
            output[4 * block + i] = (T)uf_random_number(normal, a, b, uf_uniform_of(word[i]));
        }
    }
}

extern "C" uf_status uf_cuda_random_fill(uf_context *context, const uf_random_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_cuda_needs_real("random_fill", args->output.dtype));
    const int64_t count = uf_view_count(&args->output);
    const unsigned blocks = uf_blocks((count + 3) / 4);
    if (count == 0) {
        return UF_OK;
    }
    UF_DISPATCH(args->output.dtype, count,
                return uf_cuda_launch(context, "random_fill", {dim3(blocks), UF_BLOCK},
                                      random_fill<T>, args->kind == UF_RANDOM_NORMAL, args->seed,
                                      args->a, args->b, (T *)args->output.data, count));
}
