/* test_parallel.c - the context's threads: every unit once, sleeping and waking, several contexts
 * at once. */
#define _GNU_SOURCE /* pthread_setattr_default_np */
#include "support/test.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "core/parallel.h"

enum { MAX_UNITS = 1000, MAX_THREADS = 8 };

static void pause_ms(long ms) {
    const struct timespec time = {.tv_nsec = ms * 1000000};
    nanosleep(&time, NULL);
}

static uf_context *cpu_context(int32_t threads) {
    uf_context *context = NULL;
    uf_context_options options = uf_context_options_default();
    options.device = UF_DEVICE_CPU;
    options.threads = threads;
    assert_ok(uf_context_create(&options, &context));
    return context;
}

/* What the units of one loop saw. Units run in threads that must not call cmocka: they count, main
 * asserts. */
typedef struct record {
    int32_t threads;
    int runs[MAX_UNITS];            /* of each unit; plain, for ThreadSanitizer to watch */
    atomic_int inside[MAX_THREADS]; /* units that a thread index has in hand */
    atomic_int strange;
} record;

static void count_unit(void *argument, int64_t unit, int32_t thread) {
    record *seen = argument;
    if (thread < 0 || thread >= seen->threads || atomic_fetch_add(&seen->inside[thread], 1) != 0) {
        atomic_fetch_add(&seen->strange, 1);
        return;
    }
    ++seen->runs[unit];
    atomic_fetch_sub(&seen->inside[thread], 1);
}

/* Loops that went wrong. */
static int count_loop(const uf_context *context, record *seen, int64_t units) {
    memset(seen, 0, sizeof *seen);
    seen->threads = uf_context_threads(context);
    uf_parallel_for(context, units, count_unit, seen);
    int wrong = atomic_load(&seen->strange);
    for (int64_t unit = 0; unit < MAX_UNITS; ++unit) {
        wrong += seen->runs[unit] != (unit < units);
    }
    return wrong;
}

static void test_every_unit_once(void **state) {
    (void)state;
    static const int64_t units[] = {0, 1, 2, 3, 7, 64, MAX_UNITS};
    record seen;
    for (int32_t threads = 1; threads <= MAX_THREADS; ++threads) {
        uf_context *context = cpu_context(threads);
        for (int64_t i = 0; i < COUNT_OF(units); ++i) {
            for (int repeat = 0; repeat < 20; ++repeat) {
                assert_int_equal(count_loop(context, &seen, units[i]), 0);
            }
        }
        uf_context_destroy(context);
    }
}

/* Units that wait for each other: there must be a thread for each. */
typedef struct meeting {
    int32_t threads;
    atomic_int arrived;
    bool blocks[MAX_THREADS]; /* the signals that a user may handle */
    long pause;               /* ms that all but the caller work longer */
} meeting;

static void meet(void *argument, int64_t unit, int32_t thread) {
    meeting *all = argument;
    sigset_t mask;
    (void)unit;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    all->blocks[thread] = sigismember(&mask, SIGINT) == 1 && sigismember(&mask, SIGTERM) == 1 &&
                          sigismember(&mask, SIGUSR1) == 1 && sigismember(&mask, SIGCHLD) == 1;
    atomic_fetch_add(&all->arrived, 1);
    while (atomic_load(&all->arrived) < all->threads) {
        sched_yield();
    }
    if (thread != 0) {
        pause_ms(all->pause);
    }
}

/* Workers that fell asleep wake up; a caller that fell asleep does; signals are the caller's. */
static void test_sleep_and_signals(void **state) {
    (void)state;
    uf_context *context = cpu_context(4);
    for (int repeat = 0; repeat < 20; ++repeat) {
        meeting all = {.threads = 4, .pause = repeat % 2 == 0 ? 2 : 0};
        if (repeat % 4 < 2) {
            pause_ms(2);
        }
        uf_parallel_for(context, 4, meet, &all);
        assert_int_equal(atomic_load(&all.arrived), 4);
        assert_false(all.blocks[0]);
        for (int thread = 1; thread < 4; ++thread) {
            assert_true(all.blocks[thread]);
        }
    }
    uf_context_destroy(context);
}

typedef struct user_thread {
    pthread_t thread;
    uf_context *context;
    int wrong;
} user_thread;

static void *use_context(void *argument) {
    user_thread *user = argument;
    static const int64_t units[] = {2, 3, 5, 9};
    record seen;
    for (int call = 0; call < 1000; ++call) {
        user->wrong += count_loop(user->context, &seen, units[call % 4]);
    }
    return NULL;
}

static void test_contexts_at_once(void **state) {
    (void)state;
    user_thread users[3];
    for (int32_t i = 0; i < 3; ++i) {
        users[i].context = cpu_context(i + 2);
        users[i].wrong = 0;
        assert_int_equal(pthread_create(&users[i].thread, NULL, use_context, &users[i]), 0);
    }
    for (int i = 0; i < 3; ++i) {
        assert_int_equal(pthread_join(users[i].thread, NULL), 0);
        assert_int_equal(users[i].wrong, 0);
        uf_context_destroy(users[i].context);
    }
}

static void test_create_and_destroy(void **state) {
    (void)state;
    for (int i = 0; i < 50; ++i) {
        uf_context_destroy(cpu_context(5));
    }
}

/* A stack that no address space holds: the system gives no thread. */
static void test_no_threads(void **state) {
    (void)state;
#ifdef __GLIBC__
    pthread_attr_t usual, huge;
    assert_int_equal(pthread_getattr_default_np(&usual), 0);
    assert_int_equal(pthread_attr_init(&huge), 0);
    assert_int_equal(pthread_attr_setstacksize(&huge, (size_t)1 << 50), 0);
    assert_int_equal(pthread_setattr_default_np(&huge), 0);
    uf_context_options options = uf_context_options_default();
    options.device = UF_DEVICE_CPU;
    options.threads = 3;
    uf_context *context = (uf_context *)state;
    const uf_status status = uf_context_create(&options, &context);
    assert_int_equal(pthread_setattr_default_np(&usual), 0);
    assert_error(status, UF_ERROR_OUT_OF_MEMORY, "3 threads only 1");
    assert_null(context);
    pthread_attr_destroy(&usual);
    pthread_attr_destroy(&huge);
#else
    skip();
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_unit_once),  cmocka_unit_test(test_sleep_and_signals),
        cmocka_unit_test(test_contexts_at_once), cmocka_unit_test(test_create_and_destroy),
        cmocka_unit_test(test_no_threads),
    };
    return cmocka_run_group_tests_name("parallel", tests, NULL, NULL);
}
