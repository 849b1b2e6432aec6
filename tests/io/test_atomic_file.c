/* Files that replace others whole: kills in the middle, several writers at once, outputs that
 * cannot be written. Each test of a save runs twice: with files that have no name until they are
 * complete (O_TMPFILE), and with named ones. */
#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/atomic_file.h"
#include "io/fixture.h"
#include "support/no_tmpfile.h"

#define KILLS 100
#define PIECE 4096
#define PIECES 16

/* cmocka's state says which of the two a test is. */
static char named, anonymous;

static bool has_names; /* in a child of a `named` test */

/* ---- children ---- */

/* Run `body` in a child, which must end with status 0; skips the test when it ends with 77. */
static void in_child(void (*body)(const char *path), const char *path, void *const *state) {
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (*state == &named && !test_refuse_tmpfile()) {
            _exit(TEST_SKIPPED);
        }
        has_names = *state == &named;
        body(path);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == TEST_SKIPPED) {
        skip();
    }
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* A child says this in place of cmocka's assertions, which jump to a frame that is its parent's. */
#define DEMAND(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s; %s\n", __FILE__, __LINE__, #condition, uf_last_error());   \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* A save of PIECES pieces that hold `mark`; stops for ever after `stop_at` of them. `told`: a
 * pipe's end that learns of it. */
static void save(const char *path, char mark, int stop_at, int told) {
    uf_atomic_file file;
    char piece[PIECE];
    memset(piece, mark, sizeof piece);
    DEMAND(uf_atomic_begin(path, &file) == UF_OK);
    for (int i = 0; i <= PIECES; ++i) {
        if (i == stop_at) {
            DEMAND(write(told, "", 1) == 1);
            for (;;) {
                pause();
            }
        }
        if (i < PIECES) {
            DEMAND(uf_atomic_write(&file, piece, sizeof piece) == UF_OK);
        }
    }
    DEMAND(uf_atomic_commit(&file) == UF_OK);
}

/* Is the file the whole of one save? Gives its mark. */
static char whole(const char *path) {
    FILE *file = fopen(path, "rb");
    DEMAND(file != NULL);
    int first = getc(file), next;
    long size = 1;
    while ((next = getc(file)) != EOF) {
        DEMAND(next == first);
        ++size;
    }
    fclose(file);
    DEMAND(size == PIECE * PIECES);
    return (char)first;
}

/* The directory of `path` must hold `count` files. */
static void demand_files(int count) {
    DEMAND(fixture_count() == count);
}

/* A save that is killed after `stop_at` pieces. Where it may, the saver is process 1 of a namespace
 * of its own, so that every one has the same number, as in a container. */
static void killed_save(const char *path, int stop_at) {
    int pipes[2];
    DEMAND(pipe(pipes) == 0);
    const pid_t outer = fork();
    DEMAND(outer >= 0);
    if (outer == 0) {
        (void)unshare(CLONE_NEWPID);
        const pid_t saver = fork();
        if (saver == 0) {
            save(path, 'k', stop_at, pipes[1]);
            _exit(1);
        }
        char byte;
        DEMAND(saver > 0 && read(pipes[0], &byte, 1) == 1 && kill(saver, SIGKILL) == 0);
        int status;
        DEMAND(waitpid(saver, &status, 0) == saver && WIFSIGNALED(status));
        _exit(0);
    }
    int status;
    DEMAND(waitpid(outer, &status, 0) == outer && status == 0);
    close(pipes[0]);
    close(pipes[1]);
}

/* ---- kills ---- */

static void kill_and_save(const char *path) {
    save(path, 'a', -1, -1);
    for (int i = 0; i < KILLS; ++i) {
        killed_save(path, i % (PIECES + 1));
        DEMAND(whole(path) == 'a');
        const int files = fixture_count(); /* the target, and what the last kill left */
        DEMAND(files == 2 || (files == 1 && !has_names));
    }
    save(path, 'b', -1, -1);
    DEMAND(whole(path) == 'b');
    demand_files(1);
}

static void saves_go_on_after_kills(void **state) {
    in_child(kill_and_save, fixture_path("killed.bin"), state);
}

static void kill_before_the_name(const char *path) {
    for (int i = 0; i <= PIECES; ++i) {
        killed_save(path, i);
        demand_files(0);
    }
}

static void a_nameless_save_leaves_nothing(void **state) {
    const int probe = open("/tmp", O_TMPFILE | O_WRONLY, 0600);
    if (probe < 0) {
        skip();
    }
    close(probe);
    in_child(kill_before_the_name, fixture_path("new.bin"), state);
}

/* ---- several at once ---- */

static void overlapping(const char *target) {
    uf_atomic_file first, second;
    char path[600];
    snprintf(path, sizeof path, "%s", target); /* the fixture's buffer comes round again */
    DEMAND(uf_atomic_begin(path, &first) == UF_OK);
    DEMAND(uf_atomic_write(&first, "first", 5) == UF_OK);
    /* Another save of the same file clears away what is dead, not what is alive. */
    save(path, 'c', -1, -1);
    DEMAND(whole(path) == 'c');
    DEMAND(uf_atomic_begin(path, &second) == UF_OK);
    DEMAND(uf_atomic_commit(&first) == UF_OK);
    size_t size;
    unsigned char *bytes = fixture_read(path, &size);
    DEMAND(size == 5 && memcmp(bytes, "first", 5) == 0);
    free(bytes);
    uf_atomic_abort(&second);
    demand_files(1);
    /* A file that looks like a temporary one and is none, or another target's, stays. */
    char near[8][600];
    const char *names[] = {".x.bin.0123456789abcdef.unfurl", ".overlap.bin.0123.unfurl",
                           ".overlap.bin.0123456789abcdeg.unfurl", "overlap.bin.0123456789abcdef",
                           ".overlap.bin.0123456789abcdef.unfurl2"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
        snprintf(near[i], sizeof near[i], "%s", fixture_path(names[i]));
        fixture_bytes(near[i], "mine", 4);
    }
    DEMAND(symlink(near[0], fixture_path(".overlap.bin.0000000000000001.unfurl")) == 0);
    DEMAND(mkfifo(fixture_path(".overlap.bin.0000000000000002.unfurl"), 0600) == 0);
    DEMAND(mkdir(fixture_path(".overlap.bin.0000000000000003.unfurl"), 0700) == 0);
    fixture_bytes(fixture_path(".overlap.bin.0000000000000004.unfurl"), "dead", 4);
    save(path, 'd', -1, -1);
    demand_files(1 + 5 + 3);
}

static void the_living_are_left_alone(void **state) {
    in_child(overlapping, fixture_path("overlap.bin"), state);
}

static void many_writers(const char *path) {
    enum { WRITERS = 6, SAVES = 15 };
    for (int writer = 0; writer < WRITERS; ++writer) {
        const pid_t child = fork();
        DEMAND(child >= 0);
        if (child == 0) {
            for (int i = 0; i < SAVES; ++i) {
                save(path, (char)('A' + writer), -1, -1);
                (void)whole(path);
            }
            _exit(0);
        }
    }
    for (int writer = 0; writer < WRITERS; ++writer) {
        int status;
        DEMAND(wait(&status) > 0 && status == 0);
    }
    demand_files(1);
}

static void writers_do_not_disturb_each_other(void **state) {
    in_child(many_writers, fixture_path("many.bin"), state);
}

/* ---- what is kept, what is followed ---- */

static void links(const char *path) {
    char folder[600], relative[600];
    struct stat info;
    snprintf(folder, sizeof folder, "%s", fixture_path("folder"));
    snprintf(relative, sizeof relative, "%s", fixture_path("folder/relative"));
    DEMAND(mkdir(folder, 0700) == 0);
    /* path -> folder/relative -> ../made.bin, which does not exist. */
    DEMAND(symlink("folder/relative", path) == 0 && symlink("../made.bin", relative) == 0);
    for (int i = 0; i < 2; ++i) { /* dangling, then not */
        save(path, (char)('e' + i), -1, -1);
        DEMAND(lstat(path, &info) == 0 && S_ISLNK(info.st_mode));
        DEMAND(lstat(relative, &info) == 0 && S_ISLNK(info.st_mode));
        DEMAND(whole(fixture_path("made.bin")) == 'e' + i);
    }
    DEMAND(remove(path) == 0 && symlink("loop.bin", fixture_path("loop.bin")) == 0);
    uf_atomic_file file;
    DEMAND(uf_atomic_begin(fixture_path("loop.bin"), &file) == UF_ERROR_IO);
    DEMAND(strstr(uf_last_error(), "Too many levels of symbolic links") != NULL);
    /* Mode, and where that is allowed the owner. */
    const char *made = fixture_path("made.bin");
    DEMAND(chmod(made, 0640) == 0);
    const bool root = geteuid() == 0;
    DEMAND(!root || chown(made, 1234, 5678) == 0);
    save(made, 'g', -1, -1);
    DEMAND(stat(made, &info) == 0 && (info.st_mode & 07777) == 0640);
    DEMAND(!root || (info.st_uid == 1234 && info.st_gid == 5678));
    umask(027);
    save(fixture_path("folder/new.bin"), 'h', -1, -1);
    DEMAND(stat(fixture_path("folder/new.bin"), &info) == 0 && (info.st_mode & 07777) == 0640);
    DEMAND(remove(fixture_path("folder/new.bin")) == 0 && remove(relative) == 0);
    demand_files(3); /* made.bin, loop.bin, the folder */
}

static void links_are_followed_and_modes_kept(void **state) {
    in_child(links, fixture_path("link.bin"), state);
}

static void long_names(const char *path) {
    (void)path;
    char name[256];
    memset(name, 'n', 255);
    name[255] = '\0';
    save(fixture_path(name), 'i', -1, -1);
    demand_files(1);
}

static void a_name_may_be_as_long_as_any(void **state) {
    in_child(long_names, NULL, state);
}

/* Without /proc a nameless file cannot be given a name, and nothing is lost. */
static void no_proc(const char *path) {
    const char *name = strrchr(path, '/');
    char folder[600];
    snprintf(folder, sizeof folder, "%.*s", (int)(name - path), path);
    if (chroot(folder) != 0) {
        _exit(TEST_SKIPPED);
    }
    save(name, 'j', -1, -1);
    DEMAND(whole(name) == 'j');
}

static void without_proc(void **state) {
    in_child(no_proc, fixture_path("rooted.bin"), state);
}

/* ---- refusals: the same sentence before the work and at the save ---- */

static void refused(const char *path, uf_status status, const char *words) {
    uf_atomic_file file;
    for (int i = 0; i < 2; ++i) {
        const uf_status got = i == 0 ? uf_file_check_output(path) : uf_atomic_begin(path, &file);
        if (got != status || strstr(uf_last_error(), words) == NULL) {
            fprintf(stderr, "%s: %s, \"%s\" without \"%s\"\n", path, uf_status_name(got),
                    uf_last_error(), words);
            _exit(1);
        }
    }
}

static void refusals(const char *path) {
    refused("", UF_ERROR_INVALID_ARGUMENT, "the name of a file to write is empty");
    refused("/absent/x.bin", UF_ERROR_NOT_FOUND,
            "cannot write /absent/x.bin: its directory does not exist");
    refused(fixture_path("x/"), UF_ERROR_NOT_FOUND, "its directory does not exist");
    refused("/tmp", UF_ERROR_IO, "cannot write /tmp: it is a directory");
    refused("/dev/null", UF_ERROR_IO, "cannot write /dev/null: it is not a regular file");
    refused("/dev/full", UF_ERROR_IO, "it is not a regular file");
    const char *fifo = fixture_path("fifo");
    DEMAND(mkfifo(fifo, 0600) == 0);
    refused(fifo, UF_ERROR_IO, "fifo: it is not a regular file");
    const char *link = fixture_path("alias");
    DEMAND(symlink(fifo, link) == 0);
    refused(link, UF_ERROR_IO, "alias: it is not a regular file");
    fixture_bytes(path, "old", 3);
    char below[600];
    snprintf(below, sizeof below, "%s/x.bin", path);
    refused(below, UF_ERROR_IO, "Not a directory");
    /* Root too: the bits say that nobody is to write. */
    DEMAND(chmod(path, 0444) == 0);
    refused(path, UF_ERROR_IO, "cannot write ");
    refused(path, UF_ERROR_IO, "it is read-only");
    DEMAND(chmod(path, 0644) == 0);
    DEMAND(uf_file_check_output(path) == UF_OK);
    DEMAND(uf_file_check_output(fixture_path("absent.bin")) == UF_OK);
    demand_files(3);
    /* As somebody else, where that is possible. */
    if (geteuid() == 0) {
        char folder[600];
        snprintf(folder, sizeof folder, "%s", fixture_path("."));
        DEMAND(chmod(folder, 0755) == 0 && setgid(4321) == 0 && setuid(4321) == 0);
        refused(path, UF_ERROR_IO, "it is read-only");
        refused(fixture_path("absent.bin"), UF_ERROR_IO, "its directory is not writable");
    }
}

static void outputs_that_cannot_be_written(void **state) {
    in_child(refusals, fixture_path("old.bin"), state);
}

/* In a directory like /tmp nobody replaces another's file, whatever its mode. */
static void sticky(const char *path) {
    if (geteuid() != 0) {
        _exit(TEST_SKIPPED);
    }
    char folder[600];
    snprintf(folder, sizeof folder, "%s", fixture_path("."));
    fixture_bytes(path, "old", 3);
    DEMAND(chmod(path, 0666) == 0 && chmod(folder, 01777) == 0);
    DEMAND(setgid(4321) == 0 && setuid(4321) == 0);
    refused(path, UF_ERROR_IO, "it is another user's, and its directory is sticky");
    DEMAND(uf_file_check_output(fixture_path("absent.bin")) == UF_OK);
}

static void sticky_directories(void **state) {
    in_child(sticky, fixture_path("theirs.bin"), state);
}

/* ---- disks ---- */

/* Writes until it is refused, aborts, and demands that the old file is as it was. */
static void fill(const char *path, int most_pieces, const char *words) {
    uf_atomic_file file;
    static const char piece[65536];
    const int files = fixture_count();
    DEMAND(uf_atomic_begin(path, &file) == UF_OK);
    uf_status status = UF_OK;
    for (int i = 0; i < most_pieces && status == UF_OK; ++i) {
        status = uf_atomic_write(&file, piece, sizeof piece);
    }
    DEMAND(status == UF_ERROR_IO && strstr(uf_last_error(), words) != NULL);
    uf_atomic_abort(&file);
    DEMAND(fixture_count() == files);
    size_t size;
    unsigned char *bytes = fixture_read(path, &size);
    DEMAND(size == 3 && memcmp(bytes, "old", 3) == 0);
    free(bytes);
}

static volatile sig_atomic_t limit_signals;

static void on_limit(int signal_number) {
    limit_signals += signal_number == SIGXFSZ;
}

/* The signal that the kernel sends there would end the process. A save takes that of its own write
 * and no other: the caller's handler still hears of his. */
static void file_too_large(const char *path) {
    const struct rlimit limit = {100000, 100000};
    fixture_bytes(path, "old", 3);
    DEMAND(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    fill(path, 2, "kept.bin: File too large");
    DEMAND(signal(SIGXFSZ, on_limit) == SIG_DFL);
    fill(path, 2, "kept.bin: File too large");
    DEMAND(limit_signals == 0 && raise(SIGXFSZ) == 0 && limit_signals == 1);
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGXFSZ);
    DEMAND(sigprocmask(SIG_BLOCK, &mask, NULL) == 0 && raise(SIGXFSZ) == 0);
    fill(path, 2, "kept.bin: File too large"); /* the signal that waits stays the caller's */
    DEMAND(sigprocmask(SIG_UNBLOCK, &mask, NULL) == 0 && limit_signals == 2);
}

static void a_limit_on_files(void **state) {
    in_child(file_too_large, fixture_path("kept.bin"), state);
}

static void full_disk(const char *path) {
    char folder[600];
    snprintf(folder, sizeof folder, "%s", fixture_path("."));
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", folder, "tmpfs", 0, "size=200k") != 0) {
        _exit(TEST_SKIPPED);
    }
    /* The mount is over what an open directory would still name. */
    DEMAND(chdir(folder) == 0);
    fixture_bytes(path, "old", 3);
    fill(path, 4, "kept.bin: No space left on device");
}

static void a_full_disk(void **state) {
    in_child(full_disk, fixture_path("kept.bin"), state);
}

#define ONE_WAY(test)                                                                              \
    { #test, test, fixture_setup, fixture_teardown, &anonymous }
#define BOTH_WAYS(test)                                                                            \
    {#test " (O_TMPFILE)", test, fixture_setup, fixture_teardown, &anonymous}, {                   \
#test " (named)", test, fixture_setup, fixture_teardown, &named                            \
    }

int main(void) {
    const struct CMUnitTest tests[] = {
        BOTH_WAYS(saves_go_on_after_kills),
        ONE_WAY(a_nameless_save_leaves_nothing),
        BOTH_WAYS(the_living_are_left_alone),
        BOTH_WAYS(writers_do_not_disturb_each_other),
        BOTH_WAYS(links_are_followed_and_modes_kept),
        BOTH_WAYS(a_name_may_be_as_long_as_any),
        ONE_WAY(without_proc),
        BOTH_WAYS(outputs_that_cannot_be_written),
        BOTH_WAYS(sticky_directories),
        BOTH_WAYS(a_limit_on_files),
        BOTH_WAYS(a_full_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
