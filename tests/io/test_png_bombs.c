/* Small PNG files that claim or unpack to much: each is a picture or a sentence, from a file and
 * from a pipe, within 100 MB of memory and 2 seconds of a processor. */
#define _DEFAULT_SOURCE /* wait4 */

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "io/fixture.h"
#include "io/png_builder.h"

#ifdef __SANITIZE_ADDRESS__
enum { INSTRUMENTED = 1 };
#else
enum { INSTRUMENTED = 0 };
#endif
enum { MOST_KIB = 100 * 1000 * 1000 / 1024, MOST_SECONDS = INSTRUMENTED ? 20 : 2 };

/* Write the file into the pipe that the child reads. */
static void feed(const builder *file, int descriptor) {
    for (size_t done = 0; done < file->size;) {
        const ssize_t written = write(descriptor, file->bytes + done, file->size - done);
        if (written <= 0) {
            return; /* the reader has seen enough */
        }
        done += (size_t)written;
    }
}

/* In a child: read, compare the outcome. words NULL: a picture comes out. */
static _Noreturn void read_as_child(const char *path, const char *words) {
    const struct rlimit seconds = {MOST_SECONDS, MOST_SECONDS};
    uf_picture picture;
    setrlimit(RLIMIT_CPU, &seconds);
    const uf_status status = uf_png_read(path, &picture);
    const bool right = words == NULL
                           ? status == UF_OK
                           : status == UF_ERROR_FORMAT && strstr(uf_last_error(), words) != NULL;
    if (!right) {
        fprintf(stderr, "%s: \"%s\" without \"%s\"\n", path, status == UF_OK ? "" : uf_last_error(),
                words != NULL ? words : "");
    }
    uf_picture_free(&picture);
    exit(right ? 0 : 1); /* with LeakSanitizer's check */
}

static void expect_one(const builder *file, const char *path, const char *words) {
    int pipes[2] = {-1, -1};
    char from_pipe[32];
    struct rusage usage;
    int status;
    fflush(NULL);
    if (path == NULL) {
        assert_int_equal(pipe(pipes), 0);
        snprintf(from_pipe, sizeof from_pipe, "/dev/fd/%d", pipes[0]);
        path = from_pipe;
    }
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(pipes[1]);
        read_as_child(path, words);
    }
    if (pipes[0] >= 0) {
        close(pipes[0]);
        feed(file, pipes[1]);
        close(pipes[1]);
    }
    assert_int_equal(wait4(child, &status, 0, &usage), child);
    if (status != 0 || (!INSTRUMENTED && usage.ru_maxrss > MOST_KIB)) {
        fail_msg("%s, %s: wait status %#x, %ld KiB", path, words != NULL ? words : "a picture",
                 (unsigned)status, usage.ru_maxrss);
    }
}

/* `words`: what the sentence holds; NULL for a picture. */
static void expect(const builder *file, const char *words) {
    const char *path = fixture_path("bomb.png");
    save(file, path);
    expect_one(file, path, words);
    expect_one(file, NULL, words);
}

/* ---- chunks ---- */

static void claims_of_two_gigabytes(void **state) {
    (void)state;
    static const char *const names[] = {"gAMA", "cHRM", "sRGB", "iCCP", "zTXt", "tEXt", "iTXt",
                                        "sPLT", "eXIf", "sBIT", "bKGD", "hIST", "pCAL", "sCAL",
                                        "tIME", "pHYs", "oFFs", "tRNS", "PLTE", "IDAT", "abCd"};
    static builder file;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
        for (int colour = 2; colour <= 3; ++colour) { /* PLTE is needed, or is not */
            header(&file, 8, 8, 8, colour, 0);
            if (colour == 3 && strcmp(names[i], "PLTE") != 0) {
                chunk(&file, "PLTE", "\0\0\0", 3);
            }
            const size_t at = file.size;
            chunk(&file, names[i], "", 0);
            put32(file.bytes + at, 0x7fffffff);
            if (colour == 2) {
                file.size -= 1; /* the 44 bytes */
                assert_int_equal(file.size, 44);
            }
            expect(&file, strcmp(names[i], "PLTE") == 0 && colour == 3 ? "" : "truncated");
        }
    }
}

static void texts_are_skipped(void **state) {
    (void)state;
    static const struct {
        const char *name, *head;
        size_t size;
    } kinds[] = {
        {"zTXt", "Comment\0", 9}, {"iTXt", "Comment\0\1\0\0\0", 12}, {"iCCP", "profile\0", 9}};
    static builder file;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; ++i) {
        header(&file, 8, 8, 8, 0, 0);
        for (int j = 0; j < 950; ++j) {
            if (j > 0) { /* one is like the others */
                const size_t length = (file.size - 33) / (size_t)j;
                unsigned char *copy = test_allocate(length);
                memcpy(copy, file.bytes + 33 + 8, length - 12);
                chunk(&file, kinds[i].name, copy, length - 12);
                free(copy);
            } else {
                packed_zeros(&file, kinds[i].name, kinds[i].head, kinds[i].size, 7900000);
            }
        }
        rows(&file, (const char[72]){0}, 72);
        assert_in_range(file.size, 6000000, 9000000);
        expect(&file, NULL);
    }
}

static void many_small_chunks(void **state) {
    (void)state;
    static const char *const names[] = {"gAMA", "tEXt", "abCd", "iCCP"};
    static builder file;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
        header(&file, 8, 8, 8, 0, 0);
        while (file.size < 7000000) {
            chunk(&file, names[i], "\0\0\1\0", 4);
        }
        rows(&file, (const char[72]){0}, 72);
        expect(&file, NULL);
    }
}

static void profiles_are_bounded(void **state) {
    (void)state;
    static builder file;
    static const uint32_t sizes[] = {7900000, 16u << 20, 100u << 20, 400u << 20, 0x7ffffff0};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
        unsigned char profile[144];
        static unsigned char packed[1 << 20];
        uLongf length = sizeof packed - 9;
        const size_t real = sizes[i] < (64u << 20) ? sizes[i] : 64u << 20;
        unsigned char *whole = calloc(real, 1);
        assert_non_null(whole);
        make_profile(profile, sizeof profile);
        memcpy(whole, profile, sizeof profile);
        put32(whole, sizes[i]);
        memcpy(packed, "profile\0", 9);
        assert_int_equal(compress(packed + 9, &length, whole, (uLong)real), Z_OK);
        free(whole);
        header(&file, 8, 8, 8, 0, 0);
        chunk(&file, "iCCP", packed, length + 9);
        rows(&file, (const char[72]){0}, 72);
        expect(&file, NULL);
    }
}

/* ---- pictures ---- */

static void more_rows_than_the_picture_has(void **state) {
    (void)state;
    static builder file;
    /* 8 x 8; one long row; the seven passes. */
    static const uint32_t sizes[][3] = {{8, 8, 0}, {3000000, 1, 0}, {9, 9, 1}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
        header(&file, sizes[i][0], sizes[i][1], 8, 0, (int)sizes[i][2]);
        packed_zeros(&file, "IDAT", "", 0, (size_t)7000000 * 1000);
        chunk(&file, "IEND", NULL, 0);
        assert_in_range(file.size, 6000000, 9000000);
        const char *path = fixture_path("bomb.png");
        save(&file, path);
        expect_one(&file, path, "more image data than its");
        if (sizes[i][0] < 1000000) {
            expect_one(&file, NULL, "more image data than its");
        }
    }
}

static void sizes_that_the_file_cannot_hold(void **state) {
    (void)state;
    static builder file;
    static const struct {
        uint32_t width, height;
        int depth, colour;
        const char *file_says, *pipe_says;
    } cases[] = {
        {0x7fffffff, 0x7fffffff, 16, 6, "bytes cannot hold", "pixels, more than the 268435456"},
        {20000, 20000, 8, 2, "bytes cannot hold", "pixels, more than the 268435456"},
        /* 16 bits by 4 channels: fewer pixels fit than of one bit each. */
        {1000, 1000, 16, 6, "bytes cannot hold", "truncated"},
        {0x10000000, 1, 16, 6, "bytes cannot hold", "rows of 268435456 pixels"},
        {1, 0x10000000, 1, 0, "bytes cannot hold", "truncated"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        header(&file, cases[i].width, cases[i].height, cases[i].depth, cases[i].colour, 0);
        rows(&file, "\0\1\2\3", 4);
        file.size -= 12; /* without IEND: a pipe ends early */
        const char *path = fixture_path("bomb.png");
        save(&file, path);
        expect_one(&file, path, cases[i].file_says);
        if (strcmp(cases[i].pipe_says, "truncated") != 0) {
            expect_one(&file, NULL, cases[i].pipe_says);
        }
    }
}

static void a_limit_of_the_callers(void **state) {
    (void)state;
    static builder file;
    uf_picture picture;
    const uf_picture zero = {0};
    const char *path = fixture_path("limited.png");
    header(&file, 8, 4, 8, 0, 0);
    rows(&file, (const char[36]){0}, 36);
    save(&file, path);
    uf_png_read_options options = uf_png_read_options_default();
    assert_int_equal(options.struct_size, sizeof options);
    assert_true(options.max_pixels == UF_PNG_MAX_PIXELS);
    options.max_pixels = 32;
    assert_ok(uf_png_read_with(path, &options, &picture));
    uf_picture_free(&picture);
    options.max_pixels = 31;
    assert_error(uf_png_read_with(path, &options, &picture), UF_ERROR_FORMAT, path,
                 "has 8x4 pixels, more than the 31 that max_pixels allows");
    assert_memory_equal(&picture, &zero, sizeof zero);
    options.max_pixels = 0;
    assert_error(uf_png_read_with(path, &options, &picture), UF_ERROR_INVALID_ARGUMENT,
                 "max_pixels is 0");
    options = uf_png_read_options_default();
    options.struct_size = 1;
    assert_error(uf_png_read_with(path, &options, &picture), UF_ERROR_INVALID_ARGUMENT,
                 "uf_png_read_options");
    assert_ok(uf_png_read_with(path, NULL, &picture));
    uf_picture_free(&picture);
}

/* ---- colours ---- */

/* Colours that could be read and not be written are refused at the reading, before any work. */
static void colours_that_cannot_be_stored(void **state) {
    (void)state;
    static builder file;
    unsigned char data[32] = {0};
    for (size_t i = 0; i < 8; ++i) {
        put32(data + 4 * i, 30000);
    }
    put32(data, 0x80000000);
    header(&file, 1, 1, 8, 0, 0);
    chunk(&file, "gAMA", data, 4);
    rows(&file, "\0\1", 2);
    expect(&file, "has a gAMA chunk of 21474.83648; at most 21474.83647 can be stored");
    put32(data, 30000);
    put32(data + 28, 0xffffffff);
    header(&file, 1, 1, 8, 0, 0);
    chunk(&file, "cHRM", data, 32);
    rows(&file, "\0\1", 2);
    expect(&file, "has a cHRM chunk of 42949.67295; at most 21474.83647 can be stored");
    /* The largest that can be. */
    put32(data, 0x7fffffff);
    put32(data + 28, 0x7fffffff);
    header(&file, 1, 1, 8, 0, 0);
    chunk(&file, "gAMA", data, 4);
    chunk(&file, "cHRM", data, 32);
    rows(&file, "\0\1", 2);
    save(&file, fixture_path("largest.png"));
    uf_picture picture;
    const char *again = fixture_path("largest2.png");
    assert_ok(uf_png_read(fixture_path("largest.png"), &picture));
    assert_ok(uf_png_write(again, &picture));
    uf_picture_free(&picture);
    assert_ok(uf_png_read(again, &picture));
    assert_true(picture.gamma == 21474.83647 && picture.chromaticities[7] == 21474.83647);
    uf_picture_free(&picture);
    /* A profile whose name has no character that a name may have. */
    unsigned char whole[400], packed[1024];
    make_profile(whole, sizeof whole);
    memcpy(packed, " \1 \0", 5);
    uLongf length = sizeof packed - 5;
    assert_int_equal(compress(packed + 5, &length, whole, sizeof whole), Z_OK);
    header(&file, 1, 1, 8, 0, 0);
    chunk(&file, "iCCP", packed, length + 5);
    rows(&file, "\0\1", 2);
    expect(&file, "has a colour profile whose name cannot be stored");
}

/* ---- memory ---- */

/* The linker gives these the calls of the library and of this file, libpng's among them (they come
 * through png_job.c). */
static int64_t allocations_left = -1; /* until one fails; -1: none does */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);

static bool is_refused(void) {
    return allocations_left >= 0 && allocations_left-- == 0;
}

void *__wrap_malloc(size_t size) {
    return is_refused() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size) {
    return is_refused() ? NULL : __real_calloc(count, size);
}

static void any_allocation_may_fail(void **state) {
    (void)state;
    static builder file;
    unsigned char whole[400], packed[1024] = "a name\0";
    uLongf length = sizeof packed - 8;
    char in[256], out[256];
    snprintf(in, sizeof in, "%s", fixture_path("in.png"));
    snprintf(out, sizeof out, "%s", fixture_path("out.png"));
    make_profile(whole, sizeof whole);
    assert_int_equal(compress(packed + 8, &length, whole, sizeof whole), Z_OK);
    header(&file, 8, 8, 8, 0, 1);
    chunk(&file, "gAMA", "\0\1\0\0", 4);
    chunk(&file, "iCCP", packed, length + 8);
    rows(&file, (const char[8 * 15]){0}, 8 * 15);
    save(&file, in);
    const uf_picture zero = {0};
    int read_failures = 0, write_failures = 0;
    const int files = fixture_count();
    for (int64_t i = 0;; ++i) {
        uf_picture picture;
        allocations_left = i;
        uf_status status = uf_png_read(in, &picture);
        if (status == UF_OK) {
            status = uf_png_write(out, &picture);
            const bool unlimited = allocations_left > 0;
            allocations_left = -1;
            uf_picture_free(&picture);
            if (unlimited) {
                assert_ok(status);
                break;
            }
            write_failures += status != UF_OK;
        } else {
            allocations_left = -1;
            assert_memory_equal(&picture, &zero, sizeof zero);
            ++read_failures;
        }
        if (status != UF_OK) {
            assert_int_equal(status, UF_ERROR_OUT_OF_MEMORY);
            assert_non_null(strstr(uf_last_error(), "out of host memory"));
            assert_int_equal(fixture_count(), files + (access(out, F_OK) == 0 ? 1 : 0));
        }
    }
    assert_true(read_failures > 5 && write_failures > 5);
}

/* ---- threads ---- */

typedef void *thread_function(void *argument);
static int threads_left = -1; /* until none is given; -1: all are */
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          thread_function *start, void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          thread_function *start, void *argument);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          thread_function *start, void *argument) {
    if (threads_left == 0) {
        return EAGAIN;
    }
    threads_left -= threads_left > 0 ? 1 : 0;
    return __real_pthread_create(thread, attributes, start, argument);
}

static uf_status write_with_threads(const char *path, const uf_picture *picture, int32_t threads) {
    uf_png_write_options options = uf_png_write_options_default();
    uf_png_writer *writer;
    options.threads = threads;
    UF_TRY(uf_png_writer_create(path, picture, &options, &writer));
    uf_status status = uf_png_writer_rows(writer, picture->samples, picture->height);
    status = status == UF_OK ? uf_png_writer_finish(writer) : status;
    uf_png_writer_destroy(writer);
    return status;
}

static uf_picture large_picture(void) {
    uf_picture picture;
    assert_ok(uf_picture_create(900, 700, 3, 8, &picture)); /* four stripes */
    for (size_t i = 0; i < 900 * 700 * 3; ++i) {
        ((uint8_t *)picture.samples)[i] = (uint8_t)(i * i >> 7);
    }
    return picture;
}

/* Fewer threads write the same file. */
static void any_thread_may_be_refused(void **state) {
    (void)state;
    const char *whole = fixture_path("whole.png"), *path = fixture_path("fewer.png");
    uf_picture picture = large_picture();
    assert_ok(write_with_threads(whole, &picture, 4));
    size_t size, other_size;
    unsigned char *bytes = fixture_read(whole, &size);
    for (int given = 0; given < 3; ++given) {
        threads_left = given;
        assert_ok(write_with_threads(path, &picture, 4));
        assert_int_equal(threads_left, 0);
        threads_left = -1;
        unsigned char *other = fixture_read(path, &other_size);
        assert_int_equal(other_size, size);
        assert_memory_equal(other, bytes, size);
        free(other);
    }
    free(bytes);
    uf_picture_free(&picture);
}

static void any_allocation_for_threads_may_fail(void **state) {
    (void)state;
    const char *path = fixture_path("absent.png");
    uf_picture picture = large_picture();
    const int files = fixture_count();
    int failures = 0;
    while (true) {
        allocations_left = failures;
        const uf_status status = write_with_threads(path, &picture, 4);
        const bool unlimited = allocations_left >= 0;
        allocations_left = -1;
        if (unlimited) {
            assert_ok(status);
            break;
        }
        ++failures;
        assert_int_equal(status, UF_ERROR_OUT_OF_MEMORY);
        assert_non_null(strstr(uf_last_error(), "out of host memory"));
        assert_int_equal(fixture_count(), files);
    }
    assert_true(failures > 4 * 6); /* zlib's five and a row of each thread */
    uf_picture_free(&picture);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(claims_of_two_gigabytes),
        cmocka_unit_test(texts_are_skipped),
        cmocka_unit_test(many_small_chunks),
        cmocka_unit_test(profiles_are_bounded),
        cmocka_unit_test(more_rows_than_the_picture_has),
        cmocka_unit_test(sizes_that_the_file_cannot_hold),
        cmocka_unit_test(a_limit_of_the_callers),
        cmocka_unit_test(colours_that_cannot_be_stored),
        cmocka_unit_test(any_allocation_may_fail),
        cmocka_unit_test(any_thread_may_be_refused),
        cmocka_unit_test(any_allocation_for_threads_may_fail),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
