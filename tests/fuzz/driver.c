/* driver.c - runs a fuzz target without a fuzzing compiler.
 *
 *     fuzz_X SECONDS SEED [any|cut|tails|bytes] [mend] [ways=N] [only=N,A-B] [tolerate=MODULE]
 *            [input=I]
 *
 * Input i is a function of SEED and i alone: a valid file (of those in only=) that is damaged in
 * one to eight places. "cut" only truncates, zeroes or replaces the tail and appends: what an
 * interrupted copy or a full disk does. Two lists are run whole, whatever SECONDS: "tails"
 * truncates every file at many places and zeroes what follows each of them; "bytes" changes every
 * byte of every file, alone, in ways= ways: 2, or up to 255, which are all. With "mend", 3 of 4
 * inputs get the checksums that their format demands, see sums.h; of "bytes", all do.
 *
 * Inputs run in child processes. A child that dies is put down to the module (library or program)
 * whose code was running, the C library and the sanitizers not counted: damage that makes a
 * dependency crash is told apart from a defect of ours. With tolerate=, deaths in that module are
 * counted and printed but do not fail the run; everything else does. A child that leaks, where a
 * sanitizer looks, has died as well. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "fuzz/sums.h"
#include "support/death.h"

#define MAX_SEEDS 64
#define MAX_INPUT (1 << 20)
#define HANG_SECONDS 10
#define PER_CHILD 500
/* Places in a file: files of groups of 40 names die at few of them, if at all. */
#define TAILS 720
#define LEAKED 23 /* a child's exit status */

enum mode { ANY, CUT, TAILS_LISTED, BYTES };
static const char *const mode_names[] = {"any", "cut", "tails", "bytes"};

typedef struct seed_file {
    uint8_t *bytes;
    size_t size;
    fuzz_sum *sums;
    int sum_count; /* 0 without "mend" */
} seed_file;

/* The inputs of a run. */
typedef struct inputs {
    enum mode mode;
    uint64_t seed;
    int64_t ways; /* in which BYTES changes each byte */
    seed_file files[MAX_SEEDS];
    int file_count;
} inputs;

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
           "abort_on_error=1:allocator_may_return_null=1";
}

int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

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

/* How many inputs a file has in a list; 0: the mode is random and endless. */
static int64_t listed_of(const inputs *all, const seed_file *file) {
    return all->mode == TAILS_LISTED ? 2 * TAILS
           : all->mode == BYTES      ? all->ways * (int64_t)file->size
                                     : 0;
}

static int64_t list_length(const inputs *all) {
    int64_t length = 0;
    for (int i = 0; i < all->file_count; ++i) {
        length += listed_of(all, &all->files[i]);
    }
    return length;
}

static size_t make_listed(const inputs *all, int64_t index, uint8_t *bytes) {
    const seed_file *file = all->files;
    while (index >= listed_of(all, file)) {
        index -= listed_of(all, file++);
    }
    memcpy(bytes, file->bytes, file->size);
    if (all->mode == BYTES) {
        /* The first two ways are to change all bits and the lowest. */
        const int64_t way = index % all->ways;
        bytes[index / all->ways] ^= (uint8_t)(way == 0 ? 0xff : way);
        fuzz_mend_sums(bytes, file->size, file->sums, file->sum_count);
        return file->size;
    }
    const size_t at = file->size * (size_t)(index / 2) / TAILS;
    memset(bytes + at, 0, file->size - at);
    return index % 2 == 0 ? file->size : at;
}

static size_t make_input(const inputs *all, int64_t index, uint8_t *bytes) {
    if (all->mode == TAILS_LISTED || all->mode == BYTES) {
        return make_listed(all, index, bytes);
    }
    uint64_t random = all->seed ^ ((uint64_t)index * UINT64_C(0xd1342543de82ef95));
    const seed_file *from = &all->files[below(&random, (size_t)all->file_count)];
    size_t size = from->size;
    memcpy(bytes, from->bytes, size);
    if (all->mode == CUT) {
        return damage_tail(&random, bytes, size);
    }
    const size_t places = 1 + below(&random, 8);
    for (size_t i = 0; i < places && size > 0; ++i) {
        size = damage_anywhere(&random, bytes, size);
    }
    if (from->sum_count > 0 && next(&random) % 4 != 0) {
        fuzz_mend_sums(bytes, size, from->sums, from->sum_count);
    }
    return size;
}

static void run_inputs(const inputs *all, time_t end, int64_t last) {
    static uint8_t bytes[MAX_INPUT];
    death_watch(note_death);
    for (; shared->index < last && time(NULL) < end; shared->index += 1) {
        const size_t size = make_input(all, shared->index, bytes);
        alarm(HANG_SECONDS);
        (void)LLVMFuzzerTestOneInput(bytes, size);
        alarm(0);
    }
    const int leaked =
        __lsan_do_recoverable_leak_check != NULL && __lsan_do_recoverable_leak_check() != 0;
    _exit(leaked ? LEAKED : 0);
}

/* Run one input in this process, for a debugger, and leave it beside the caller. */
static int run_one(const inputs *all, int64_t index) {
    static uint8_t bytes[MAX_INPUT];
    const size_t size = make_input(all, index, bytes);
    FILE *file = fopen("fuzz-input", "wb");
    if (file == NULL || fwrite(bytes, 1, size, file) != size || fclose(file) != 0) {
        return 2;
    }
    (void)LLVMFuzzerTestOneInput(bytes, size);
    fuzz_remove_file();
    return 0;
}

/* ---- in the parent ---- */

/* Is `index` in a list like "2,5-7"? */
static int is_listed(const char *list, int index) {
    while (list != NULL && *list != '\0') {
        char *end;
        const long first = strtol(list, &end, 10);
        const long last = *end == '-' ? strtol(end + 1, &end, 10) : first;
        if (index >= first && index <= last) {
            return 1;
        }
        list = *end == ',' ? end + 1 : "";
    }
    return list == NULL;
}

static void read_seed(const char *path, int index, int mend, seed_file *made) {
    FILE *file = fopen(path, "rb");
    struct stat info;
    if (file == NULL || fstat(fileno(file), &info) != 0 || info.st_size > MAX_INPUT / 2) {
        fprintf(stderr, "fuzz: seed %d cannot be read\n", index);
        exit(2);
    }
    made->size = (size_t)info.st_size;
    made->bytes = malloc(made->size);
    made->sums = malloc(FUZZ_SUMS * sizeof *made->sums);
    if (made->bytes == NULL || made->sums == NULL ||
        fread(made->bytes, 1, made->size, file) != made->size) {
        exit(2);
    }
    fclose(file);
    made->sum_count = mend ? fuzz_find_sums(made->bytes, made->size, made->sums) : 0;
}

static void read_seeds(inputs *all, const char *only, int mend) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/unfurl-seed-%" PRIdMAX, (intmax_t)getpid());
    for (int i = 0; i < MAX_SEEDS && fuzz_seed(i, path); ++i) {
        if (is_listed(only, i)) {
            read_seed(path, i, mend, &all->files[all->file_count++]);
        }
    }
    remove(path);
}

/* Say how a child died. */
static void tell_death(const inputs *all, int status) {
    const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    const int code = signal != 0 ? signal : WEXITSTATUS(status);
    printf("input %" PRId64 " of seed %" PRIu64 ": %s %d in %s%s\n", shared->index, all->seed,
           signal != 0 ? "signal" : "exit status", code,
           shared->module[0] != '\0' ? shared->module : "unknown code",
           signal == SIGALRM               ? " (it hangs)"
           : signal == 0 && code == LEAKED ? " (one of the inputs before it leaks)"
                                           : "");
    fflush(stdout);
}

/* Run all inputs. Returns the deaths that are not in `tolerated`, and the others in *there. */
static int64_t run_children(const inputs *all, long seconds, const char *tolerated,
                            int64_t *there) {
    const int64_t listed = list_length(all);
    const time_t end = time(NULL) + (listed > 0 ? 1 << 20 : seconds);
    int64_t here = 0;
    while (listed > 0 ? shared->index < listed : time(NULL) < end) {
        const int64_t next_child = shared->index + PER_CHILD;
        const int64_t last = listed > 0 && listed < next_child ? listed : next_child;
        shared->module[0] = '\0';
        const pid_t child = fork();
        if (child == 0) {
            run_inputs(all, end, last);
        }
        int status;
        if (child < 0 || waitpid(child, &status, 0) != child) {
            exit(2);
        }
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
            continue;
        }
        const int is_there =
            tolerated != NULL && strncmp(shared->module, tolerated, strlen(tolerated)) == 0;
        *there += is_there;
        here += !is_there;
        if (!is_there || *there <= 5) {
            tell_death(all, status);
        }
        shared->index += !(WIFEXITED(status) && WEXITSTATUS(status) == LEAKED);
    }
    return here;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr,
                "%s SECONDS SEED [any|cut|tails|bytes] [mend] [ways=N] [only=N,A-B] "
                "[tolerate=MODULE] [input=I]\n",
                argv[0]);
        return 2;
    }
    static inputs all = {.mode = ANY, .ways = 2};
    const long seconds = strtol(argv[1], NULL, 10);
    const char *tolerated = NULL, *only = NULL;
    int mend = 0;
    int64_t one = -1;
    all.seed = strtoull(argv[2], NULL, 10);
    for (int i = 3; i < argc; ++i) {
        for (int name = ANY; name <= BYTES; ++name) {
            all.mode = strcmp(argv[i], mode_names[name]) == 0 ? (enum mode)name : all.mode;
        }
        mend = mend || strcmp(argv[i], "mend") == 0;
        if (strncmp(argv[i], "ways=", 5) == 0) {
            all.ways = strtol(argv[i] + 5, NULL, 10);
        } else if (strncmp(argv[i], "only=", 5) == 0) {
            only = argv[i] + 5;
        } else if (strncmp(argv[i], "input=", 6) == 0) {
            one = strtoll(argv[i] + 6, NULL, 10);
        } else if (strncmp(argv[i], "tolerate=", 9) == 0) {
            tolerated = argv[i] + 9;
        }
    }
    snprintf(program, sizeof program, "%s", death_module(argv[0]));
    read_seeds(&all, only, mend);
    if (one >= 0 && all.file_count > 0) {
        return run_one(&all, one);
    }
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || all.file_count == 0 || all.ways < 1 || all.ways > 255) {
        return 2;
    }
    (void)fuzz_file(NULL, 0); /* made here, so that it can be removed here */
    int64_t there = 0;
    const int64_t here = run_children(&all, seconds, tolerated, &there);
    fuzz_remove_file();
    struct rusage used;
    getrusage(RUSAGE_CHILDREN, &used);
    printf("%s: %" PRId64 " inputs from %d files in %ld s of processor time, peak memory %ld KiB, "
           "%" PRId64 " deaths",
           program, shared->index, all.file_count,
           (long)(used.ru_utime.tv_sec + used.ru_stime.tv_sec), used.ru_maxrss, here);
    if (tolerated != NULL) {
        printf(", %" PRId64 " more in %s", there, tolerated);
    }
    printf("\n");
    return here > 0 ? 1 : 0;
}
