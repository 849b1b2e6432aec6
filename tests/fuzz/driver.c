/* driver.c - runs a fuzz target without a fuzzing compiler.
 *
 *     fuzz_X SECONDS SEED [any|cut|tails|bytes] [only=N] [tolerate=MODULE]
 *
 * Input i is a function of SEED and i alone: a valid file (number N alone with only=) that is
 * damaged in one to eight places. "cut" only truncates, zeroes or replaces the tail and appends:
 * what an interrupted copy or a full disk does. Two lists are run whole, whatever SECONDS: "tails"
 * truncates every file at many places and zeroes what follows each of them; "bytes" changes every
 * byte of every file, alone, in two ways. Inputs run in child processes. A child that dies is
 * put down to the module (library or program) whose code was running, the C library and the
 * sanitizers not counted: damage that makes a dependency crash is told apart from a defect of ours.
 * With tolerate=, deaths in that module are counted and printed but do not fail the run; everything
 * else does. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "support/death.h"

#define MAX_SEEDS 32
#define MAX_INPUT (1 << 20)
#define HANG_SECONDS 10
#define PER_CHILD 500
#define TAILS                                                                                      \
    720 /* places in a file: files of groups of 40 names die at few of them, if at all             \
         */

enum mode { ANY, CUT, TAILS_LISTED, BYTES };
static const char *const mode_names[] = {"any", "cut", "tails", "bytes"};

typedef struct seed_file {
    uint8_t *bytes;
    size_t size;
} seed_file;

/* Shared with the child. */
typedef struct progress {
    int64_t index;    /* of the input that is running */
    char module[128]; /* where it died */
} progress;

static progress *shared;
static char program[128];

/* ---- in the child ---- */

static void note_death(const char *module, const char *symbol) {
    snprintf(shared->module, sizeof shared->module, "%s, near %s", module, symbol);
}

/* AddressSanitizer leaves signals to death_watch, and aborts where it finds something. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "handle_segv=0:handle_abort=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:"
           "abort_on_error=1:allocator_may_return_null=1:detect_leaks=0";
}

static uint64_t next(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static size_t below(uint64_t *state, size_t limit) {
    return limit == 0 ? 0 : (size_t)(next(state) % limit);
}

static size_t damage_tail(uint64_t *random, uint8_t *bytes, size_t size) {
    const size_t at = below(random, size);
    switch (next(random) % 4) {
    case 0:
        return at;
    case 1:
        memset(bytes + at, 0, size - at);
        return size;
    case 2:
        for (size_t i = at; i < size; ++i) {
            bytes[i] = (uint8_t)next(random);
        }
        return size;
    default: {
        const size_t more = below(random, 4096);
        memset(bytes + size, (int)(next(random) & 255), more);
        return size + more;
    }
    }
}

static size_t damage_anywhere(uint64_t *random, uint8_t *bytes, size_t size) {
    static const uint64_t interesting[] = {0,          1,         0x7f,       0x80,
                                           0xff,       0x7fff,    0xffff,     0x7fffffff,
                                           0xffffffff, INT64_MAX, UINT64_MAX, 0x100000000};
    const size_t at = below(random, size);
    const size_t length = 1 + below(random, 32);
    const size_t fits = at + length <= size ? length : size - at;
    switch (next(random) % 7) {
    case 0:
        bytes[at] ^= (uint8_t)(1u << (next(random) % 8));
        break;
    case 1:
        bytes[at] = (uint8_t)next(random);
        break;
    case 2: {
        const uint64_t value =
            interesting[next(random) % (sizeof interesting / sizeof interesting[0])];
        const size_t width = (size_t)1 << (next(random) % 4);
        for (size_t i = 0; i < width && at + i < size; ++i) {
            const size_t shift = next(random) % 8 == 0 ? 8 * (width - 1 - i) : 8 * i;
            bytes[at + i] = (uint8_t)(value >> shift);
        }
        break;
    }
    case 3:
        memset(bytes + at, (int)(next(random) % 2 * 255), fits);
        break;
    case 4: {
        const size_t from = below(random, size - fits + 1);
        memmove(bytes + at, bytes + from, fits);
        break;
    }
    case 5: /* what follows moves forward; the file keeps its length, which is checked first of all
             */
        memmove(bytes + at, bytes + at + fits, size - at - fits);
        break;
    default:
        return next(random) % 8 == 0 ? damage_tail(random, bytes, size) : size;
    }
    return size;
}

/* How many inputs a list has; 0: the mode is random and endless. */
static int64_t list_length(const seed_file *seeds, int seed_count, enum mode mode) {
    int64_t length = 0;
    for (int i = 0; i < seed_count; ++i) {
        length += mode == TAILS_LISTED ? 2 * TAILS : mode == BYTES ? 2 * (int64_t)seeds[i].size : 0;
    }
    return length;
}

static size_t make_listed(const seed_file *seeds, int64_t index, enum mode mode, uint8_t *bytes) {
    for (;; ++seeds) {
        const int64_t here = list_length(seeds, 1, mode);
        if (index < here) {
            break;
        }
        index -= here;
    }
    memcpy(bytes, seeds->bytes, seeds->size);
    const size_t way = (size_t)index % 2, number = (size_t)index / 2;
    if (mode == BYTES) {
        bytes[number] ^= way == 0 ? 0xff : 0x01;
        return seeds->size;
    }
    const size_t at = seeds->size * number / TAILS;
    memset(bytes + at, 0, seeds->size - at);
    return way == 0 ? seeds->size : at;
}

static size_t make_input(const seed_file *seeds, int seed_count, uint64_t seed, int64_t index,
                         enum mode mode, uint8_t *bytes) {
    if (mode == TAILS_LISTED || mode == BYTES) {
        return make_listed(seeds, index, mode, bytes);
    }
    uint64_t random = seed ^ ((uint64_t)index * UINT64_C(0xd1342543de82ef95));
    const seed_file *from = &seeds[below(&random, (size_t)seed_count)];
    size_t size = from->size;
    memcpy(bytes, from->bytes, size);
    if (mode == CUT) {
        return damage_tail(&random, bytes, size);
    }
    const size_t places = 1 + below(&random, 8);
    for (size_t i = 0; i < places && size > 0; ++i) {
        size = damage_anywhere(&random, bytes, size);
    }
    return size;
}

static void run_inputs(const seed_file *seeds, int seed_count, uint64_t seed, enum mode mode,
                       time_t end, int64_t last) {
    static uint8_t bytes[MAX_INPUT];
    death_watch(note_death);
    for (; shared->index < last && time(NULL) < end; shared->index += 1) {
        const size_t size = make_input(seeds, seed_count, seed, shared->index, mode, bytes);
        alarm(HANG_SECONDS);
        (void)LLVMFuzzerTestOneInput(bytes, size);
        alarm(0);
    }
    _exit(0);
}

/* ---- in the parent ---- */

static int read_seeds(seed_file *seeds, int only) {
    char path[64];
    int count = 0;
    snprintf(path, sizeof path, "/tmp/unfurl-seed-%" PRIdMAX, (intmax_t)getpid());
    for (int i = 0; i < MAX_SEEDS && fuzz_seed(i, path); ++i) {
        FILE *file = fopen(path, "rb");
        struct stat info;
        if (file == NULL || fstat(fileno(file), &info) != 0 || info.st_size > MAX_INPUT / 2) {
            fprintf(stderr, "fuzz: seed %d cannot be read\n", i);
            exit(2);
        }
        seed_file *made = &seeds[count];
        made->size = (size_t)info.st_size;
        made->bytes = malloc(made->size);
        if (made->bytes == NULL || fread(made->bytes, 1, made->size, file) != made->size) {
            exit(2);
        }
        fclose(file);
        count += only < 0 || only == i;
    }
    remove(path);
    return count;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "%s SECONDS SEED [any|cut|tails|bytes] [only=N] [tolerate=MODULE]\n",
                argv[0]);
        return 2;
    }
    const long seconds = strtol(argv[1], NULL, 10);
    const uint64_t seed = strtoull(argv[2], NULL, 10);
    const char *tolerated = NULL;
    enum mode mode = ANY;
    int only = -1;
    for (int i = 3; i < argc; ++i) {
        for (int name = ANY; name <= BYTES; ++name) {
            mode = strcmp(argv[i], mode_names[name]) == 0 ? (enum mode)name : mode;
        }
        if (strncmp(argv[i], "only=", 5) == 0) {
            only = (int)strtol(argv[i] + 5, NULL, 10);
        } else if (strncmp(argv[i], "tolerate=", 9) == 0) {
            tolerated = argv[i] + 9;
        }
    }
    snprintf(program, sizeof program, "%s", death_module(argv[0]));
    seed_file seeds[MAX_SEEDS];
    const int seed_count = read_seeds(seeds, only);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || seed_count == 0) {
        return 2;
    }
    (void)fuzz_file(NULL, 0); /* made here, so that it can be removed here */
    int64_t deaths_there = 0, deaths_here = 0;
    const int64_t listed = list_length(seeds, seed_count, mode);
    const time_t end = time(NULL) + (listed > 0 ? 1 << 20 : seconds);
    while (listed > 0 ? shared->index < listed : time(NULL) < end) {
        const int64_t next_child = shared->index + PER_CHILD;
        const int64_t last = listed > 0 && listed < next_child ? listed : next_child;
        shared->module[0] = '\0';
        const pid_t child = fork();
        if (child == 0) {
            run_inputs(seeds, seed_count, seed, mode, end, last);
        }
        int status;
        if (child < 0 || waitpid(child, &status, 0) != child) {
            return 2;
        }
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
            continue;
        }
        const int there =
            tolerated != NULL && strncmp(shared->module, tolerated, strlen(tolerated)) == 0;
        deaths_there += there;
        deaths_here += !there;
        if (!there || deaths_there <= 5) {
            printf("input %" PRId64 " of seed %" PRIu64 ": %s %d in %s%s\n", shared->index, seed,
                   WIFSIGNALED(status) ? "signal" : "exit status",
                   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
                   shared->module[0] != '\0' ? shared->module : "unknown code",
                   WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? " (it hangs)" : "");
            fflush(stdout);
        }
        shared->index += 1;
    }
    fuzz_remove_file();
    printf("%s: %" PRId64 " inputs from %d files, %" PRId64 " deaths", program, shared->index,
           seed_count, deaths_here);
    if (tolerated != NULL) {
        printf(", %" PRId64 " more in %s", deaths_there, tolerated);
    }
    printf("\n");
    return deaths_here > 0 ? 1 : 0;
}
