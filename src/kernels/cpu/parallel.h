/* parallel.h - the CPU kernels' parallel loops: units of work cut by shape, taken as threads come
 * free. What a unit computes never depends on the thread, so results have the same bits for any
 * number. */
#ifndef UF_KERNELS_CPU_PARALLEL_H
#define UF_KERNELS_CPU_PARALLEL_H

#ifdef _OPENMP
#include <omp.h>

#define UF_PRAGMA(text) _Pragma(#text)
#define UF_PARALLEL_FOR(threads)                                                                   \
    UF_PRAGMA(omp parallel for num_threads(threads) schedule(dynamic))

static inline int uf_thread_index(void) {
    return omp_get_thread_num();
}
#else
#define UF_PARALLEL_FOR(threads) (void)(threads);

static inline int uf_thread_index(void) {
    return 0;
}
#endif

#endif
