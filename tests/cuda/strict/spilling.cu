/* spilling.cu - needs more registers than its launch bounds leave: it must not compile. */
extern "C" __global__ void __launch_bounds__(1024, 2) spilling(float *a) {
    float v[64];
#pragma unroll
    for (int i = 0; i < 64; ++i) {
        v[i] = a[i * 1024 + threadIdx.x];
    }
    for (int turn = 0; turn < 9; ++turn) {
#pragma unroll
        for (int i = 0; i < 64; ++i) {
            v[i] = v[i] * v[(i * 7 + 3) % 64];
        }
    }
#pragma unroll
    for (int i = 0; i < 64; ++i) {
        a[i * 1024 + threadIdx.x] = v[i];
    }
}
