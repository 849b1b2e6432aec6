/* parallel.c - the pool of threads behind the CPU kernels' loops. */
#include "core/parallel.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A waiting thread spins so long before it sleeps: waking a sleeper costs about as much, and the
 * loops of one run follow each other faster. Longer spinning would take the cores from whoever else
 * needs them. */
#define SPIN_NANOSECONDS 15000
#define SPINS_PER_LOOK 16 /* at the clock */
#define CACHE_LINE 64

typedef struct worker {
    uf_pool *pool;
    pthread_t thread;
    int32_t index; /* 1 or more; 0 is the caller */
} worker;

struct uf_pool {
    /* The loop. Written by the caller while no unit is out, read by threads that hold a unit: a
     * loop does not end before they have reported it. */
    uf_unit_function function;
    void *argument;
    int64_t units;

    /* Units that nobody has taken, 0 or less when there are none. Taking one is subtracting 1; who
     * gets a positive number has it, of whatever loop is running. So a thread that comes late finds
     * nothing, or a unit of the next loop, and nobody waits for it. */
    _Alignas(CACHE_LINE) atomic_int_fast64_t left;
    _Alignas(CACHE_LINE) atomic_int_fast64_t finished; /* units of this loop, by the workers */

    /* For sleeping. A thread that sleeps says so first and looks again then; one with news gives it
     * first and looks for sleepers then; in the one order of these (sequentially consistent) steps
     * one sees the other. */
    _Alignas(CACHE_LINE) atomic_int sleepers; /* workers */
    atomic_bool caller_sleeps;
    atomic_bool stop;
    pthread_mutex_t mutex;
    pthread_cond_t work, done;

    int32_t count; /* workers that run */
    worker workers[];
};

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static bool has_work(uf_pool *pool) {
    return atomic_load(&pool->left) > 0 || atomic_load(&pool->stop);
}

static bool is_done(uf_pool *pool, int64_t others) {
    return atomic_load(&pool->finished) == others;
}

/* Take units until there are none; returns how many. */
static int64_t run_units(uf_pool *pool, int32_t thread) {
    int64_t mine = 0;
    while (atomic_load_explicit(&pool->left, memory_order_relaxed) > 0) {
        const int64_t left = atomic_fetch_sub(&pool->left, 1);
        if (left <= 0) {
            break;
        }
        pool->function(pool->argument, pool->units - left, thread);
        ++mine;
    }
    return mine;
}

static void wait_for_work(uf_pool *pool) {
    const int64_t end = now() + SPIN_NANOSECONDS;
    do {
        for (int i = 0; i < SPINS_PER_LOOK; ++i) {
            if (has_work(pool)) {
                return;
            }
            relax();
        }
    } while (now() < end);
    pthread_mutex_lock(&pool->mutex);
    atomic_fetch_add(&pool->sleepers, 1);
    while (!has_work(pool)) {
        pthread_cond_wait(&pool->work, &pool->mutex);
    }
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->mutex);
}

static void wait_for_workers(uf_pool *pool, int64_t others) {
    const int64_t end = now() + SPIN_NANOSECONDS;
    do {
        for (int i = 0; i < SPINS_PER_LOOK; ++i) {
            if (is_done(pool, others)) {
                return;
            }
            relax();
        }
    } while (now() < end);
    pthread_mutex_lock(&pool->mutex);
    atomic_store(&pool->caller_sleeps, true);
    while (!is_done(pool, others)) {
        pthread_cond_wait(&pool->done, &pool->mutex);
    }
    atomic_store(&pool->caller_sleeps, false);
    pthread_mutex_unlock(&pool->mutex);
}

static void *worker_main(void *user) {
    const worker *self = user;
    uf_pool *pool = self->pool;
    while (!atomic_load(&pool->stop)) {
        const int64_t mine = run_units(pool, self->index);
        if (mine > 0) {
            atomic_fetch_add(&pool->finished, mine);
            if (atomic_load(&pool->caller_sleeps)) {
                pthread_mutex_lock(&pool->mutex);
                pthread_cond_signal(&pool->done);
                pthread_mutex_unlock(&pool->mutex);
            }
        }
        wait_for_work(pool);
    }
    return NULL;
}

static void wake_workers(uf_pool *pool, int64_t wanted) {
    const int64_t sleepers = atomic_load(&pool->sleepers);
    if (sleepers == 0) {
        return;
    }
    pthread_mutex_lock(&pool->mutex);
    if (wanted >= sleepers) {
        pthread_cond_broadcast(&pool->work);
    } else {
        for (int64_t i = 0; i < wanted; ++i) {
            pthread_cond_signal(&pool->work);
        }
    }
    pthread_mutex_unlock(&pool->mutex);
}

void uf_parallel_for(const uf_context *context, int64_t units, uf_unit_function function,
                     void *argument) {
    uf_pool *pool = context->pool;
    if (pool == NULL || pool->count == 0 || units <= 1) {
        for (int64_t unit = 0; unit < units; ++unit) {
            function(argument, unit, 0);
        }
        return;
    }
    pool->function = function;
    pool->argument = argument;
    pool->units = units;
    atomic_store(&pool->finished, 0);
    atomic_store(&pool->left, units);
    wake_workers(pool, units - 1);
    const int64_t mine = run_units(pool, 0);
    if (mine < units) {
        wait_for_workers(pool, units - mine);
    }
}

void uf_pool_destroy(uf_pool *pool) {
    if (pool == NULL) {
        return;
    }
    atomic_store(&pool->stop, true);
    wake_workers(pool, pool->count);
    for (int32_t i = 0; i < pool->count; ++i) {
        pthread_join(pool->workers[i].thread, NULL);
    }
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}

/* Start the workers; returns pthread_create's error. */
static int start_workers(uf_pool *pool, int32_t count) {
    sigset_t every, before;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before); /* a thread starts with its maker's mask */
    int error = 0;
    while (pool->count < count && error == 0) {
        worker *next = &pool->workers[pool->count];
        next->pool = pool;
        next->index = pool->count + 1;
        error = pthread_create(&next->thread, NULL, worker_main, next);
        pool->count += error == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

uf_status uf_pool_create(int32_t threads, uf_pool **pool) {
    *pool = NULL;
    const size_t size = sizeof(uf_pool) + (size_t)(threads - 1) * sizeof(worker);
    uf_pool *made = aligned_alloc(CACHE_LINE, (size + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    if (made == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for %d threads", (int)threads);
    }
    memset(made, 0, size);
    atomic_init(&made->left, 0);
    atomic_init(&made->finished, 0);
    atomic_init(&made->sleepers, 0);
    atomic_init(&made->caller_sleeps, false);
    atomic_init(&made->stop, false);
    /* Without attributes these three cannot fail on the systems that have them. */
    pthread_mutex_init(&made->mutex, NULL);
    pthread_cond_init(&made->work, NULL);
    pthread_cond_init(&made->done, NULL);
    const int error = start_workers(made, threads - 1);
    if (error != 0) {
        const int32_t started = made->count + 1;
        uf_pool_destroy(made);
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY,
                "the system gives a context of %d threads only %d (pthread_create: error %d)",
                (int)threads, (int)started, error);
    }
    *pool = made;
    return UF_OK;
}
