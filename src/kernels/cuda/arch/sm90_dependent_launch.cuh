/* sm90_dependent_launch.cuh - programmatic dependent launch (PTX, 9.0): a kernel starts while the
 * one before it in its stream ends, and waits for it before it touches memory.
 *
 * Every kernel waits, in every thread, before its first access to global memory. A kernel that did
 * not would end before the one before it, and the kernel behind it, which waits for one kernel
 * alone, would run beside both. */
#ifndef UF_KERNELS_CUDA_ARCH_SM90_DEPENDENT_LAUNCH_CUH
#define UF_KERNELS_CUDA_ARCH_SM90_DEPENDENT_LAUNCH_CUH

/* The first compute capability whose code waits: machine code for it and later, and what the driver
 * makes of its PTX. Code of less would not wait, so that the host launches it the ordinary way
 * (uf_cuda_probe). */
#define UF_DEPENDENT_LAUNCH_CAPABILITY 90

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 10 * UF_DEPENDENT_LAUNCH_CAPABILITY
#define UF_HAS_DEPENDENTS 1
#else
#define UF_HAS_DEPENDENTS 0
#endif

/* The next kernel may start as soon as every block has said so or ended. */
static __device__ __forceinline__ void uf_launch_dependents() {
#if UF_HAS_DEPENDENTS
    asm volatile("griddepcontrol.launch_dependents;\n" ::: "memory");
#endif
}

/* Waits until the kernel before this one has ended and its stores are visible. The compiler keeps
 * ordinary loads behind it, but may move __ldg before it. */
static __device__ __forceinline__ void uf_wait_for_launcher() {
#if UF_HAS_DEPENDENTS
    asm volatile("griddepcontrol.wait;\n" ::: "memory");
#endif
}

/* Both, where a kernel begins. */
static __device__ __forceinline__ void uf_overlap_launches() {
    uf_launch_dependents();
    uf_wait_for_launcher();
}

#endif
