/* test_whole_files.c [named] KILLS - what the library writes is whole or not there.
 *
 * A process that saves checkpoints, one over another, is killed at random moments; each time the
 * file is one of the two last states, and whole. Then a disk that is full and a limit on the size
 * of files, for everything that the library writes. `named`: on file systems without O_TMPFILE.
 * The linker puts __wrap_... in the place of the library's system calls, so that the test knows how
 * far a save had come, and so that a save takes as long as on a slow disk. */
#define _GNU_SOURCE

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "io/fixture.h"
#include "support/no_tmpfile.h"
#include "support/random.h"

enum { PIECE = 16384, PIECE_MICROSECONDS = 300, COUNT = 60000, LEAST_PIECES = 14 };

static int64_t kills = 500;

/* ---- system calls ---- */

typedef enum phase { BEFORE = 0, SAVING, WRITING, PLACING, PLACED, PHASES } phase;

/* Shared with the children that save. */
typedef struct watch {
    volatile int phase;
    volatile int calls;
    char order[1024]; /* w: write, s: fsync of the file, l: linkat, r: rename, d: fsync of a folder
                       */
} watch;

static watch *watched; /* NULL: let all pass */

ssize_t __real_write(int descriptor, const void *data, size_t size);
int __real_fsync(int descriptor);
int __real_linkat(int from, const char *name, int to, const char *other, int flags);
int __real_rename(const char *name, const char *other);
ssize_t __wrap_write(int descriptor, const void *data, size_t size);
int __wrap_fsync(int descriptor);
int __wrap_linkat(int from, const char *name, int to, const char *other, int flags);
int __wrap_rename(const char *name, const char *other);

static void note(char call, phase now) {
    if (watched->calls < (int)sizeof watched->order - 1) {
        watched->order[watched->calls++] = call;
    }
    watched->phase = now;
}

ssize_t __wrap_write(int descriptor, const void *data, size_t size) {
    if (watched == NULL) {
        return __real_write(descriptor, data, size);
    }
    note('w', WRITING);
    usleep(PIECE_MICROSECONDS);
    return __real_write(descriptor, data, size < PIECE ? size : PIECE);
}

int __wrap_fsync(int descriptor) {
    struct stat info;
    if (watched != NULL) {
        const bool folder = fstat(descriptor, &info) == 0 && S_ISDIR(info.st_mode);
        note(folder ? 'd' : 's', folder ? PLACED : PLACING);
    }
    return __real_fsync(descriptor);
}

int __wrap_linkat(int from, const char *name, int to, const char *other, int flags) {
    if (watched != NULL) {
        note('l', PLACING);
    }
    return __real_linkat(from, name, to, other, flags);
}

int __wrap_rename(const char *name, const char *other) {
    if (watched != NULL) {
        note('r', PLACING);
    }
    const int result = __real_rename(name, other);
    if (watched != NULL) {
        watched->phase = PLACED;
    }
    return result;
}

/* ---- states ---- */

typedef struct state {
    uf_store *store;
    int64_t round;
    uf_checkpoint_part parts[2];
} state;

static float value_of(int64_t round, int64_t i) {
    return (float)((round * 7919 + i) % 65521);
}

static void make_state(state *one, uf_context *context) {
    assert_ok(uf_store_create(context, "net", &one->store));
    fixture_declare(one->store, "weight", UF_SHAPE(COUNT), UF_ROLE_PARAMETER);
    one->parts[0] = uf_checkpoint_store("net", one->store);
    one->parts[1] = uf_checkpoint_i64("round", &one->round, 1);
}

static void set_state(state *one, int64_t round) {
    uf_tensor *tensor;
    float *values = test_allocate(COUNT * sizeof *values);
    for (int64_t i = 0; i < COUNT; ++i) {
        values[i] = value_of(round, i);
    }
    assert_ok(uf_store_tensor(one->store, "weight", &tensor));
    assert_ok(uf_tensor_upload(tensor, values));
    one->round = round;
    free(values);
}

/* Load the file; its round. Fails unless the file is the whole of that round. */
static int64_t load_round(state *one, const char *path) {
    uf_tensor *tensor;
    float *values = test_allocate(COUNT * sizeof *values);
    one->round = -1;
    assert_ok(uf_checkpoint_load(path, one->parts, 2));
    assert_ok(uf_store_tensor(one->store, "weight", &tensor));
    assert_ok(uf_tensor_download(tensor, values));
    for (int64_t i = 0; i < COUNT; ++i) {
        assert_true(values[i] == value_of(one->round, i));
    }
    free(values);
    return one->round;
}

/* ---- kills ---- */

static int64_t microseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* A child that saves `round`. */
static pid_t start_save(state *one, int64_t round, const char *path) {
    set_state(one, round);
    memset(watched, 0, sizeof *watched);
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        watched->phase = SAVING;
        _exit(uf_checkpoint_save(path, one->parts, 2, NULL) == UF_OK ? 0 : 1);
    }
    return child;
}

static void wait_for(phase wanted) {
    while (watched->phase < (int)wanted) {
        usleep(20);
    }
}

/* A save that nobody kills: its system calls in their order, and how long it takes. */
static int64_t whole_save(state *one, int64_t round, const char *path) {
    int status;
    const int64_t begin = microseconds();
    const pid_t child = start_save(one, round, path);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    const int64_t taken = microseconds() - begin;
    const size_t writes = strspn(watched->order, "w");
    assert_true(writes >= LEAST_PIECES);
    const char *rest = watched->order + writes;
    if (strcmp(rest, "srd") != 0 && strcmp(rest, "sld") != 0 && strcmp(rest, "sllrd") != 0) {
        fail_msg("after %zu writes a save calls %s", writes, rest);
    }
    return taken;
}

/* Every other kill comes at a random time after the first write, a fourth of them at one after the
 * beginning, a fourth soon after it, while the file is made in memory. */
static void killed_at_any_moment(void **cmocka) {
    (void)cmocka;
    char path[600];
    state saved, loaded;
    uf_context *context = fixture_context(NULL);
    int64_t counts[PHASES] = {0}, old_states = 0, inside = 0, round = 1;
    (void)snprintf(path, sizeof path, "%s", fixture_path("run.h5"));
    make_state(&saved, context);
    make_state(&loaded, context);
    int64_t last = round;
    int64_t longest = whole_save(&saved, round, path);         /* makes the file */
    longest = (longest + whole_save(&saved, round, path)) / 2; /* replaces it */
    for (int64_t kill_number = 0; kill_number < kills; ++kill_number) {
        test_random random = test_random_for("kills", kill_number);
        const bool in_writes = kill_number % 2 == 1;
        const pid_t child = start_save(&saved, ++round, path);
        wait_for(in_writes ? WRITING : SAVING);
        const int64_t most = in_writes              ? LEAST_PIECES * PIECE_MICROSECONDS
                             : kill_number % 4 == 0 ? longest
                                                    : PIECE_MICROSECONDS;
        usleep((useconds_t)test_random_integer(&random, 0, most));
        int status;
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
        const int at = watched->phase;
        counts[at] += 1;
        inside += at == WRITING || at == PLACING;
        const int64_t found = load_round(&loaded, path);
        assert_true(found == last || found == round);
        assert_true(at >= PLACING || found == last);
        assert_true(at != PLACED || found == round);
        old_states += found == last;
        last = found;
        /* The file, and at most the temporary file of the last kill. */
        assert_true(fixture_count() <= 2);
    }
    printf("%d kills: %d before the first write, %d while writing, %d between the last write and "
           "the rename, %d after it; %d times the file was the state before\n",
           (int)kills, (int)(counts[BEFORE] + counts[SAVING]), (int)counts[WRITING],
           (int)counts[PLACING], (int)counts[PLACED], (int)old_states);
    assert_true(inside * 5 >= kills * 2);
    assert_true(counts[WRITING] > 0 && counts[SAVING] > 0);
    (void)whole_save(&saved, ++round, path);
    assert_int_equal(load_round(&loaded, path), round);
    assert_int_equal(fixture_count(), 1);
    uf_context_destroy(context);
}

/* ---- no room ---- */

/* Everything that the library writes, small or beyond the room that there is. A child says UF_OK
 * or the status; it cannot fail by cmocka, which jumps to its parent's frame. */
static uf_status write_weights(uf_context *context, const char *path, bool large, bool checkpoint) {
    uf_store *store;
    UF_TRY(uf_store_create(context, "net", &store));
    UF_TRY(uf_store_declare(store, "w", UF_SHAPE(large ? 200000 : 20), UF_ROLE_PARAMETER));
    UF_TRY(uf_store_seal(store));
    const uf_checkpoint_part part = uf_checkpoint_store("net", store);
    const uf_status status =
        checkpoint ? uf_checkpoint_save(path, &part, 1, NULL) : uf_store_save_hdf5(store, path);
    uf_store_destroy(store);
    return status;
}

static uf_status write_store(uf_context *context, const char *path, bool large) {
    return write_weights(context, path, large, false);
}

static uf_status write_checkpoint(uf_context *context, const char *path, bool large) {
    return write_weights(context, path, large, true);
}

static uf_status write_tensor(uf_context *context, const char *path, bool large) {
    (void)context;
    static const double values[100000];
    return uf_hdf5_write(path, "x", UF_F64, UF_SHAPE(large ? 100000 : 10), values);
}

static uf_status write_picture(uf_context *context, const char *path, bool large) {
    (void)context;
    uf_picture picture;
    uint32_t noise = 1;
    const int64_t side = large ? 600 : 6;
    UF_TRY(uf_picture_create(side, side, 3, 8, &picture));
    for (int64_t i = 0; i < side * side * 3; ++i) { /* nothing that deflate could shrink */
        noise = noise * 1664525 + 1013904223;
        ((uint8_t *)picture.samples)[i] = (uint8_t)(noise >> 24);
    }
    const uf_status status = uf_png_write(path, &picture);
    uf_picture_free(&picture);
    return status;
}

static const struct writer {
    const char *name;
    uf_status (*write)(uf_context *context, const char *path, bool large);
} writers[] = {
    {"weights.h5", write_store},
    {"checkpoint.h5", write_checkpoint},
    {"tensor.h5", write_tensor},
    {"picture.png", write_picture},
};

#define DEMAND(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s; %s\n", __FILE__, __LINE__, #condition, uf_last_error());   \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* In a child, in the folder that has too little room: small files are written, large ones are not,
 * and the small ones stay. Ends by exit(), with the clean-ups of all libraries. */
static void demand_statuses(const char *words) {
    uf_context_options options = uf_context_options_default();
    uf_context *context;
    options.device = UF_DEVICE_CPU;
    options.threads = 1;
    DEMAND(uf_context_create(&options, &context) == UF_OK);
    for (size_t i = 0; i < sizeof writers / sizeof writers[0]; ++i) {
        const char *path = fixture_path(writers[i].name);
        DEMAND(writers[i].write(context, path, false) == UF_OK);
        size_t size, after;
        unsigned char *before = fixture_read(path, &size);
        DEMAND(writers[i].write(context, path, true) == UF_ERROR_IO);
        DEMAND(strstr(uf_last_error(), words) != NULL);
        unsigned char *bytes = fixture_read(path, &after);
        DEMAND(size == after && memcmp(before, bytes, size) == 0);
        free(before);
        free(bytes);
        DEMAND(fixture_count() == (int)i + 1);
        DEMAND(writers[i].write(context, path, false) == UF_OK);
    }
    uf_context_destroy(context);
    exit(0);
}

static void small_disk(void) {
    const char *folder = fixture_path(".");
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", folder, "tmpfs", 0, "size=300k") != 0) {
        _exit(TEST_SKIPPED);
    }
    demand_statuses("No space left on device");
}

static void small_files(void) {
    const struct rlimit limit = {300000, 300000};
    DEMAND(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    demand_statuses("File too large");
}

static void in_child(void (*body)(void)) {
    int status;
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        watched = NULL;
        body();
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == TEST_SKIPPED) {
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void on_a_full_disk(void **cmocka) {
    (void)cmocka;
    in_child(small_disk);
}

static void beyond_the_limit_on_files(void **cmocka) {
    (void)cmocka;
    in_child(small_files);
}

int main(int argc, char **argv) {
    const bool named = argc > 1 && strcmp(argv[1], "named") == 0;
    kills = argc > 2 ? strtoll(argv[2], NULL, 10) : kills;
    if (named && !test_refuse_tmpfile()) {
        return TEST_SKIPPED;
    }
    watched =
        mmap(NULL, sizeof *watched, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (watched == MAP_FAILED) {
        return 1;
    }
#define TEST(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(killed_at_any_moment),
        TEST(on_a_full_disk),
        TEST(beyond_the_limit_on_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
