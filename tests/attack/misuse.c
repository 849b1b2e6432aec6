/* misuse.c - every public function, called with good and bad arguments.
 *
 *   misuse walk          each value of each argument in turn, good ones beside it
 *   misuse random N      N worlds of random calls with random arguments, by UNFURL_TEST_SEED
 *   misuse list          the functions of functions.def
 *
 * Each call must give a defined answer: success, or a status with one line of message; a getter's
 * neutral answer. A call with one of the values that are BAD must not succeed. Calls run in a
 * child, which is started anew behind a call that killed it: one run names every defect. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attack/arguments.h"
#include "core/error.h"
#include "support/death.h"
#include "support/random.h"

enum { MOST_ARGUMENTS = 7, FEW_CALLS = 20, MANY_CALLS = 400, SECONDS = 120 };

typedef struct answer {
    uf_status status;
    int32_t id;
    double number;
    const char *text;
    const void *pointer;
    uf_shape shape;
    uf_scope scope;
} answer;

/* ---- the functions ---- */

typedef enum result_kind {
    RESULT_status,      /* fails with a message */
    RESULT_unsupported, /* so, and never succeeds on a CPU */
    RESULT_defined,     /* so, and may fail with good arguments */
    RESULT_value,       /* the invalid value; the graph keeps the error */
    RESULT_tensor,      /* NULL and a message */
    RESULT_nothing,
    RESULT_zero,
    RESULT_minus_one,
    RESULT_null,
    RESULT_text,   /* never NULL */
    RESULT_buffer, /* the caller's buffer, terminated */
    RESULT_shape,  /* rank -1 */
    RESULT_scope,  /* terminated */
    RESULT_anything,
    RESULT_anything_view
} result_kind;

#define ANSWER_status(call) answer_->status = (call)
#define ANSWER_unsupported(call) answer_->status = (call)
#define ANSWER_defined(call) answer_->status = (call)
#define ANSWER_value(call) answer_->id = (call).id
#define ANSWER_tensor(call) answer_->pointer = (call)
#define ANSWER_nothing(call) call
#define ANSWER_zero(call) answer_->number = (double)(call)
#define ANSWER_minus_one(call) answer_->number = (double)(call)
#define ANSWER_null(call) answer_->pointer = (call)
#define ANSWER_text(call) answer_->text = (call)
#define ANSWER_buffer(call) answer_->text = (call)
#define ANSWER_shape(call) answer_->shape = (call)
#define ANSWER_scope(call) answer_->scope = (call)
#define ANSWER_anything(call) answer_->number = (double)(call)
#define ANSWER_anything_view(call) (void)(call)

#define VALUES_0(a)
#define VALUES_1(a) v[0].value.a
#define VALUES_2(a, b) VALUES_1(a), v[1].value.b
#define VALUES_3(a, b, c) VALUES_2(a, b), v[2].value.c
#define VALUES_4(a, b, c, d) VALUES_3(a, b, c), v[3].value.d
#define VALUES_5(a, b, c, d, e) VALUES_4(a, b, c, d), v[4].value.e
#define VALUES_6(a, b, c, d, e, f) VALUES_5(a, b, c, d, e), v[5].value.f
#define VALUES_7(a, b, c, d, e, f, g) VALUES_6(a, b, c, d, e, f), v[6].value.g

#define KINDS_0(a) KIND_##a
#define KINDS_1(a) KIND_##a
#define KINDS_2(a, b) KINDS_1(a), KIND_##b
#define KINDS_3(a, b, c) KINDS_2(a, b), KIND_##c
#define KINDS_4(a, b, c, d) KINDS_3(a, b, c), KIND_##d
#define KINDS_5(a, b, c, d, e) KINDS_4(a, b, c, d), KIND_##e
#define KINDS_6(a, b, c, d, e, f) KINDS_5(a, b, c, d, e), KIND_##f
#define KINDS_7(a, b, c, d, e, f, g) KINDS_6(a, b, c, d, e, f), KIND_##g

#define CALL(result, count, function, ...)                                                         \
    static void call_##function(const argument *v, answer *answer_) {                              \
        (void)v;                                                                                   \
        (void)answer_;                                                                             \
        ANSWER_##result(function(VALUES_##count(__VA_ARGS__)));                                    \
    }
#include "attack/functions.def"
#undef CALL

static const struct {
    const char *name;
    result_kind result;
    int count;
    argument_kind kinds[MOST_ARGUMENTS];
    void (*call)(const argument *arguments, answer *result);
} functions[] = {
#define CALL(result, count, function, ...)                                                         \
    {#function, RESULT_##result, count, {KINDS_##count(__VA_ARGS__)}, call_##function},
#include "attack/functions.def"
#undef CALL
};

enum { FUNCTION_COUNT = (int)(sizeof functions / sizeof functions[0]) };

/* ---- one call ---- */

/* Shared with the child. */
typedef struct progress {
    int64_t job[3]; /* function, argument, value; or the random world's number */
    int64_t calls, defects;
    char call[1024]; /* that runs */
    char module[256], symbol[256];
} progress;

static progress *shared;

static void complain(const char *text) {
    shared->defects += 1;
    printf("%s: %s (last message: %s)\n", shared->call, text, uf_last_error());
}

static void describe(int function, const argument *arguments) {
    size_t used =
        (size_t)snprintf(shared->call, sizeof shared->call, "%s(", functions[function].name);
    for (int i = 0; i < functions[function].count && used < sizeof shared->call; ++i) {
        used += (size_t)snprintf(shared->call + used, sizeof shared->call - used, "%s%s%s",
                                 i > 0 ? ", " : "", arguments[i].sort == BAD ? "!" : "",
                                 arguments[i].label);
    }
    if (used < sizeof shared->call) {
        (void)snprintf(shared->call + used, sizeof shared->call - used, ")");
    }
}

static const char sentinel[] = "nothing failed yet";

static void check_message(void) {
    const char *message = uf_last_error();
    if (strcmp(message, sentinel) == 0) {
        complain("it failed without a message");
    }
    for (const char *c = message; *c != '\0'; ++c) {
        if ((unsigned char)*c < ' ' || *c == 0x7f) {
            complain("a control character in the message");
            return;
        }
    }
}

static bool failed(result_kind result, const answer *got) {
    switch (result) {
    case RESULT_status:
    case RESULT_unsupported:
    case RESULT_defined:
        return got->status != UF_OK;
    case RESULT_value:
        return got->id == 0;
    case RESULT_tensor:
    case RESULT_null:
        return got->pointer == NULL;
    case RESULT_zero:
        return got->number == 0.0;
    case RESULT_minus_one:
        return got->number == -1.0;
    case RESULT_shape:
        return got->shape.rank == -1;
    default:
        return false;
    }
}

/* `exact`: the arguments are those of a fresh world, where good ones suffice. */
static void check_result(int function, const argument *arguments, const answer *got, bool exact) {
    const result_kind result = functions[function].result;
    bool bad = false, good = exact;
    for (int i = 0; i < functions[function].count; ++i) {
        bad = bad || arguments[i].sort == BAD;
        good = good && arguments[i].sort == GOOD;
    }
    const bool has_failed = failed(result, got);
    const bool has_status =
        result == RESULT_status || result == RESULT_unsupported || result == RESULT_defined;
    if (bad && !has_failed && result <= RESULT_shape && result != RESULT_nothing &&
        result != RESULT_text && result != RESULT_buffer) {
        complain("a bad argument was accepted");
    }
    if (good && has_failed &&
        (result == RESULT_status || result == RESULT_value || result == RESULT_tensor)) {
        complain("good arguments were refused");
    }
    if (result == RESULT_unsupported && !has_failed) {
        complain("a CPU is not tuned");
    }
    if (has_failed && (has_status || result == RESULT_tensor)) {
        check_message();
        if (has_status && ((int)got->status < 0 || got->status >= UF_ERROR_INTERNAL)) {
            complain(uf_status_name(got->status));
        }
    }
    if (has_failed && result == RESULT_value && arguments[0].value.graph != NULL) {
        if (uf_graph_status(arguments[0].value.graph) == UF_OK) {
            complain("an invalid value of a graph without an error");
        }
        check_message();
    }
    for (int i = 0; i < functions[function].count; ++i) {
        if (has_failed && has_status && arguments[i].made != NULL && *arguments[i].made != NULL) {
            complain("it failed and gave an object");
        }
    }
    if (result == RESULT_text && got->text == NULL) {
        complain("no text");
    }
    if (result == RESULT_scope && memchr(got->scope.path, '\0', sizeof got->scope.path) == NULL) {
        complain("a path without an end");
    }
}

static void run_call(int function, argument *arguments, bool exact) {
    answer got;
    memset(&got, 0, sizeof got);
    describe(function, arguments);
    (void)uf_fail(UF_ERROR_INTERNAL, "%s", sentinel);
    alarm(SECONDS);
    functions[function].call(arguments, &got);
    alarm(0);
    check_result(function, arguments, &got, exact);
    shared->calls += 1;
}

/* ---- in the child ---- */

static void note_death(const char *module, const char *symbol) {
    (void)snprintf(shared->module, sizeof shared->module, "%s", module);
    (void)snprintf(shared->symbol, sizeof shared->symbol, "%s", symbol);
}

/* AddressSanitizer leaves signals to death_watch; an absurd size is out of memory. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "handle_segv=0:handle_abort=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:"
           "abort_on_error=1:allocator_may_return_null=1";
}

static world scene;
static argument values[MOST_ARGUMENTS];

/* Value `value` of argument `at`, good ones beside it; false when there is no such value. */
static bool walk_call(int function, int at, int value) {
    world_create(&scene);
    for (int i = 0; i < functions[function].count; ++i) {
        if (i != at) {
            argument_get_good(&scene, functions[function].kinds[i], &values[i]);
        }
    }
    const bool there = argument_get(&scene, functions[function].kinds[at], value, &values[at]);
    if (there) {
        run_call(function, values, true);
    }
    shared->call[0] = '\0';
    world_destroy(&scene, 0);
    return there;
}

static void walk(void) {
    int64_t *job = shared->job;
    for (; job[0] < FUNCTION_COUNT; ++job[0], job[1] = 0) {
        const int count = functions[job[0]].count > 0 ? functions[job[0]].count : 1;
        for (; job[1] < count; ++job[1], job[2] = 0) {
            while (walk_call((int)job[0], (int)job[1], (int)job[2])) {
                ++job[2];
            }
        }
    }
}

static void random_argument(test_random *random, bool careful, argument_kind kind,
                            argument *result) {
    if (careful || test_random_integer(random, 0, 3) > 0) {
        argument_get_good(&scene, kind, result);
        return;
    }
    int64_t most = 128;
    while (!argument_get(&scene, kind, (int)test_random_integer(random, 0, most), result)) {
        most /= 2;
    }
}

/* The world is as calls left it: what they make is destroyed before the next one. */
static void random_world(int64_t number) {
    test_random random = test_random_for("misuse", number);
    /* Many, for graphs and stores to outgrow their first memory. */
    const int calls = test_random_one_in(&random, 10) ? MANY_CALLS : FEW_CALLS;
    world_create(&scene);
    for (int i = 0; i < calls; ++i) {
        const int function = (int)test_random_integer(&random, 0, FUNCTION_COUNT - 1);
        /* A graph keeps its first error, and nothing is built on it from then on. */
        const bool careful =
            functions[function].result == RESULT_value && !test_random_one_in(&random, 50);
        world_forget(&scene);
        for (int k = 0; k < functions[function].count; ++k) {
            random_argument(&random, careful, functions[function].kinds[k], &values[k]);
        }
        run_call(function, values, false);
    }
    const int order = (int)test_random_integer(&random, 0, WORLD_ORDERS - 1);
    (void)snprintf(shared->call, sizeof shared->call, "the end of world %" PRId64 " in order %d",
                   number, order);
    world_destroy(&scene, order);
}

/* ---- the parent ---- */

/* Run `jobs` worlds, or the walk when there are none, in one child. Returns whether all are done.
 */
static bool run_child(int64_t jobs) {
    (void)fflush(NULL);
    const pid_t child = fork();
    if (child < 0) {
        perror("fork");
        exit(2);
    }
    if (child == 0) {
        death_watch(note_death);
        if (jobs == 0) {
            walk();
        }
        for (; shared->job[0] < jobs; ++shared->job[0]) {
            random_world(shared->job[0]);
        }
        exit(0);
    }
    int status;
    if (waitpid(child, &status, 0) != child) {
        perror("waitpid");
        exit(2);
    }
    if (status == 0) {
        return true;
    }
    shared->defects += 1;
    if (WIFEXITED(status)) {
        printf("%s: exit status %d (job %" PRId64 ")\n", shared->call, WEXITSTATUS(status),
               shared->job[0]);
    } else {
        printf("%s: %s in %s, near %s (job %" PRId64 ")\n", shared->call,
               strsignal(WTERMSIG(status)), shared->module, shared->symbol, shared->job[0]);
    }
    if (shared->job[0] >= (jobs == 0 ? FUNCTION_COUNT : jobs)) {
        return true; /* at its end, a leak say */
    }
    shared->job[jobs == 0 ? 2 : 0] += 1;
    return false;
}

static void leave_folder(const char *folder) {
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    if (chdir("/") != 0 || system(command) != 0) {
        perror(folder);
    }
}

int main(int argc, char **argv) {
    char folder[] = "/tmp/unfurl-misuse-XXXXXX";
    const bool random = argc >= 3 && strcmp(argv[1], "random") == 0;
    if (argc == 2 && strcmp(argv[1], "list") == 0) {
        for (int i = 0; i < FUNCTION_COUNT; ++i) {
            puts(functions[i].name);
        }
        return 0;
    }
    if (!random && (argc != 2 || strcmp(argv[1], "walk") != 0)) {
        fprintf(stderr, "misuse: its first lines say how it is called\n");
        return 2;
    }
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || mkdtemp(folder) == NULL || chdir(folder) != 0) {
        perror(folder);
        return 2;
    }
    world_write_files();
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* a child that dies has said what it had to */
    const int64_t jobs = random ? strtoll(argv[2], NULL, 10) : 0;
    (void)test_seed(); /* says which it is, once */
    while (!run_child(jobs)) {
    }
    leave_folder(folder);
    printf("%" PRId64 " calls of %d functions, %" PRId64 " defects\n", shared->calls,
           (int)FUNCTION_COUNT, shared->defects);
    return shared->calls > 0 && shared->defects == 0 ? 0 : 1;
}
