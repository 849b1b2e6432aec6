/* parallel.h - a context's own threads, and the parallel loop over them.
 *
 * Work is cut into units by shape; threads take units as they come free. A unit's results
 * must not depend on the thread that runs it, so results have the same bits for any number of
 * threads.
 */
#ifndef UF_CORE_PARALLEL_H
#define UF_CORE_PARALLEL_H

#include "core/context.h"

UF_BEGIN_DECLS

/* Threads that wait for work. They block every signal, so that handlers run in the caller's
 * threads. */
typedef struct uf_pool uf_pool;

/* A pool for loops on `threads` threads, 1 or more: the caller and threads - 1 of its own.
 * Errors: OUT_OF_MEMORY, when the system gives no more memory or threads. */
uf_status uf_pool_create(int32_t threads, uf_pool **pool);

/* Wait for the threads' end. NULL is legal. No loop may be running. */
void uf_pool_destroy(uf_pool *pool);

/* One unit of a loop; `thread` is 0 to threads - 1, for scratch memory, and never two units' at
 * once. */
typedef void (*uf_unit_function)(void *argument, int64_t unit, int32_t thread);

/* function(argument, unit, thread) for every unit from 0 to units - 1; returns when all have run.
 * The caller runs units too, so a loop ends without the pool's threads when the system does not
 * schedule them. A unit must not start a loop on the same context. Allocates nothing. */
void uf_parallel_for(const uf_context *context, int64_t units, uf_unit_function function,
                     void *argument);

UF_END_DECLS

#endif
