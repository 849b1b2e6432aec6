/* Pictures: every PNG format in, both depths out, colour chunks untouched, and a sentence for every
 * damage. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "io/fixture.h"
#include "io/png_builder.h"

/* ---- formats ---- */

static void formats(void **state) {
    (void)state;
    const char *path = fixture_path("format.png");
    static const unsigned char palette[] = {10, 20, 30, 40, 50, 60, 70, 80, 90};
    static const unsigned char clear[] = {0, 128};
    static const unsigned char clear_grey[] = {0, 3}, clear_rgb[] = {0, 1, 0, 2, 0, 3};
    static const struct {
        const char *what;
        uint32_t width, height;
        int depth, colour;
        const unsigned char *trns;
        size_t trns_size;
        const char *data;
        size_t size;
        int channels, bits;
        unsigned char expected[32];
        size_t expected_size;
    } cases[] = {
        {"grey 1", 4, 1, 1, 0, NULL, 0, "\0\xa0", 2, 1, 8, {255, 0, 255, 0}, 4},
        {"grey 2", 4, 1, 2, 0, NULL, 0, "\0\x1b", 2, 1, 8, {0, 85, 170, 255}, 4},
        {"grey 4", 3, 1, 4, 0, NULL, 0, "\0\x0f\x80", 3, 1, 8, {0, 255, 136}, 3},
        {"grey 8", 2, 2, 8, 0, NULL, 0, "\0\1\2\0\3\4", 6, 1, 8, {1, 2, 3, 4}, 4},
        {"grey 8 tRNS", 2, 1, 8, 0, clear_grey, 2, "\0\3\4", 3, 2, 8, {3, 0, 4, 255}, 4},
        {"grey alpha 8", 1, 1, 8, 4, NULL, 0, "\0\5\6", 3, 2, 8, {5, 6}, 2},
        {"rgb 8", 2, 1, 8, 2, NULL, 0, "\0\1\2\3\4\5\6", 7, 3, 8, {1, 2, 3, 4, 5, 6}, 6},
        {"rgb 8 tRNS",
         2,
         1,
         8,
         2,
         clear_rgb,
         6,
         "\0\1\2\3\4\5\6",
         7,
         4,
         8,
         {1, 2, 3, 0, 4, 5, 6, 255},
         8},
        {"rgba 8",
         1,
         2,
         8,
         6,
         NULL,
         0,
         "\0\1\2\3\4\0\5\6\7\10",
         10,
         4,
         8,
         {1, 2, 3, 4, 5, 6, 7, 8},
         8},
        {"palette 2",
         3,
         1,
         2,
         3,
         NULL,
         0,
         "\0\x18",
         2,
         3,
         8,
         {10, 20, 30, 40, 50, 60, 70, 80, 90},
         9},
        {"palette 8 tRNS",
         3,
         1,
         8,
         3,
         clear,
         2,
         "\0\2\1\0",
         4,
         4,
         8,
         {70, 80, 90, 255, 40, 50, 60, 128, 10, 20, 30, 0},
         12},
    };
    static builder file;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        header(&file, cases[i].width, cases[i].height, cases[i].depth, cases[i].colour, 0);
        if (cases[i].colour == 3) {
            chunk(&file, "PLTE", palette, sizeof palette);
        }
        if (cases[i].trns != NULL) {
            chunk(&file, "tRNS", cases[i].trns, cases[i].trns_size);
        }
        rows(&file, cases[i].data, cases[i].size);
        save(&file, path);
        uf_picture picture;
        assert_ok(uf_png_read(path, &picture));
        if (picture.width != cases[i].width || picture.height != cases[i].height ||
            picture.channels != cases[i].channels || picture.depth != cases[i].bits ||
            memcmp(picture.samples, cases[i].expected, cases[i].expected_size) != 0) {
            fail_msg("%s came out wrong", cases[i].what);
        }
        uf_picture_free(&picture);
    }
}

static void sixteen_bits_are_in_host_order(void **state) {
    (void)state;
    const char *path = fixture_path("deep.png"), *again = fixture_path("deep2.png");
    static const uint16_t expected[] = {0x0102, 0xfffe, 0x8000, 3};
    static builder file;
    header(&file, 2, 1, 16, 4, 0);
    rows(&file, "\0\1\2\xff\xfe\x80\0\0\3", 9);
    save(&file, path);
    for (int i = 0; i < 2; ++i) {
        uf_picture picture;
        assert_ok(uf_png_read(i == 0 ? path : again, &picture));
        assert_int_equal(picture.depth, 16);
        assert_int_equal(picture.channels, 2);
        assert_memory_equal(picture.samples, expected, sizeof expected);
        if (i == 0) {
            assert_ok(uf_png_write(again, &picture));
        }
        uf_picture_free(&picture);
    }
}

static void interlaced(void **state) {
    (void)state;
    const char *path = fixture_path("adam7.png");
    /* 8x8 grey, sample = 8y + x, in the order of the seven passes. */
    static const int start[7][4] = {{0, 0, 8, 8}, {0, 4, 8, 8}, {4, 0, 8, 4}, {0, 2, 4, 4},
                                    {2, 0, 4, 2}, {0, 1, 2, 2}, {1, 0, 2, 1}};
    unsigned char data[128];
    size_t size = 0;
    for (int pass = 0; pass < 7; ++pass) {
        for (int y = start[pass][0]; y < 8; y += start[pass][2]) {
            data[size++] = 0;
            for (int x = start[pass][1]; x < 8; x += start[pass][3]) {
                data[size++] = (unsigned char)(8 * y + x);
            }
        }
    }
    static builder file;
    header(&file, 8, 8, 8, 0, 1);
    rows(&file, data, size);
    save(&file, path);
    uf_picture picture;
    assert_ok(uf_png_read(path, &picture));
    for (int i = 0; i < 64; ++i) {
        assert_int_equal(((const uint8_t *)picture.samples)[i], i);
    }
    uf_picture_free(&picture);
}

static void every_format_round_trips(void **state) {
    (void)state;
    const char *path = fixture_path("round.png");
    for (int32_t channels = 1; channels <= 4; ++channels) {
        for (int32_t depth = 8; depth <= 16; depth += 8) {
            uf_picture picture, again;
            assert_ok(uf_picture_create(13, 7, channels, depth, &picture));
            const size_t size = (size_t)(13 * 7 * channels * depth / 8);
            for (size_t i = 0; i < size; ++i) {
                ((uint8_t *)picture.samples)[i] = (uint8_t)(i * 37 + 5);
            }
            assert_ok(uf_png_write(path, &picture));
            assert_ok(uf_png_read(path, &again));
            assert_true(again.width == 13 && again.height == 7 && again.channels == channels &&
                        again.depth == depth && again.gamma == 0.0 && again.srgb_intent == -1 &&
                        !again.has_chromaticities && again.icc_profile == NULL);
            assert_memory_equal(again.samples, picture.samples, size);
            uf_picture_free(&picture);
            uf_picture_free(&again);
        }
    }
}

#define PROFILE_SIZE 400 /* libpng ignores a chunk below 132 bytes, packed */

static void colour_chunks_are_carried(void **state) {
    (void)state;
    const char *path = fixture_path("colour.png"), *again = fixture_path("colour2.png");
    unsigned char gamma[4], primaries[32], profile[PROFILE_SIZE], packed[1024] = "a name\0";
    const unsigned char intent = 1;
    static const uint32_t xy[8] = {31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000};
    uLongf length = sizeof packed - 8;
    put32(gamma, 45455);
    for (size_t i = 0; i < 8; ++i) {
        put32(primaries + 4 * i, xy[i]);
    }
    make_profile(profile, sizeof profile);
    assert_int_equal(compress(packed + 8, &length, profile, sizeof profile), Z_OK);
    /* Each chunk alone, and all together: a chunk in must be the same chunk out, and none may
     * appear. */
    for (int which = 0; which < 16; ++which) {
        static builder file;
        header(&file, 2, 1, 8, 0, 0);
        if (which & 1) {
            chunk(&file, "gAMA", gamma, 4);
        }
        if (which & 2) {
            chunk(&file, "cHRM", primaries, 32);
        }
        if (which & 4) {
            chunk(&file, "sRGB", &intent, 1);
        }
        if (which & 8) {
            chunk(&file, "iCCP", packed, length + 8);
        }
        rows(&file, "\0\1\2", 3);
        save(&file, path);
        for (int i = 0; i < 2; ++i) {
            uf_picture picture;
            assert_ok(uf_png_read(i == 0 ? path : again, &picture));
            assert_true(picture.gamma == (which & 1 ? 0.45455 : 0.0));
            assert_true(picture.has_chromaticities == ((which & 2) != 0));
            assert_true(!(which & 2) ||
                        (picture.chromaticities[0] == 0.3127 && picture.chromaticities[7] == 0.06));
            assert_int_equal(picture.srgb_intent, which & 4 ? 1 : -1);
            assert_int_equal(picture.icc_size, which & 8 ? PROFILE_SIZE : 0);
            assert_string_equal(picture.icc_name, which & 8 ? "a name" : "");
            if (which & 8) {
                assert_memory_equal(picture.icc_profile, profile, sizeof profile);
            }
            if (i == 0) {
                assert_ok(uf_png_write(again, &picture));
            }
            uf_picture_free(&picture);
        }
    }
}

/* ---- damage ---- */

static void assert_refused(const char *path, uf_status status, const char *message) {
    uf_picture picture;
    char kept[256];
    snprintf(kept, sizeof kept, "%s", path);
    memset(&picture, 0x55, sizeof picture);
    fixture_watch_stderr();
    const uf_status got = uf_png_read(kept, &picture);
    const int64_t printed = fixture_printed();
    assert_error(got, status, kept, message);
    assert_int_equal(printed, 0);
    const uf_picture zero = {0};
    assert_memory_equal(&picture, &zero, sizeof zero);
}

static void damaged_files(void **state) {
    (void)state;
    char path[256];
    snprintf(path, sizeof path, "%s", fixture_path("bad.png"));
    static builder file;
    assert_refused(fixture_path("absent.png"), UF_ERROR_NOT_FOUND, "No such file or directory");
    assert_refused("/tmp", UF_ERROR_FORMAT, "is a directory, not a PNG file");
    fixture_bytes(path, "", 0);
    assert_refused(path, UF_ERROR_FORMAT, "is empty, not a PNG file");
    fixture_bytes(path, "This is no picture, it is text.\n", 32);
    assert_refused(path, UF_ERROR_FORMAT, "bad.png is not a PNG file");
    fixture_bytes(path, "no", 2);
    assert_refused(path, UF_ERROR_FORMAT, "bad.png is not a PNG file");
    if (geteuid() != 0) { /* root may read everything */
        assert_int_equal(chmod(path, 0), 0);
        assert_refused(path, UF_ERROR_IO, "Permission denied");
        assert_int_equal(chmod(path, 0600), 0);
    }
    static const struct {
        uint32_t width, height;
        const char *message;
    } sizes[] = {
        {0, 0, "bad.png has a size of 0x0 pixels"},
        {0, 5, "bad.png has a size of 0x5 pixels"},
        {5, 0, "bad.png has a size of 5x0 pixels"},
        {2000000000, 2000000000, "claims 2000000000x2000000000 pixels, which its "},
        {60000, 60000, "claims 60000x60000 pixels, which its "},
        {0xffffffff, 1, "bytes cannot hold"},
        {0x80000000, 1, "bytes cannot hold"},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
        header(&file, sizes[i].width, sizes[i].height, 8, 2, 0);
        rows(&file, "\0\1\2\3", 4);
        save(&file, path);
        assert_refused(path, UF_ERROR_FORMAT, sizes[i].message);
    }
    begin(&file);
    chunk(&file, "IDAT", "0123456789abcdef", 16);
    save(&file, path);
    assert_refused(path, UF_ERROR_FORMAT, "it does not begin with an IHDR chunk");
    header(&file, 1, 1, 5, 2, 0); /* no such depth */
    rows(&file, "\0\1\2\3", 4);
    save(&file, path);
    assert_refused(path, UF_ERROR_FORMAT, "bad.png is damaged (libpng: Invalid IHDR data)");
    header(&file, 4, 4, 8, 2, 0); /* too few rows */
    rows(&file, "\0\1\2\3", 4);
    save(&file, path);
    assert_refused(path, UF_ERROR_FORMAT, "bad.png is damaged (libpng: ");
    header(&file, 1, 1, 8, 3, 0); /* no palette */
    rows(&file, "\0\1", 2);
    save(&file, path);
    assert_refused(path, UF_ERROR_FORMAT, "bad.png is damaged (libpng: ");
}

static void truncated_and_flipped_files(void **state) {
    (void)state;
    char path[256];
    snprintf(path, sizeof path, "%s", fixture_path("cut.png"));
    static builder file;
    static unsigned char data[8 * 25];
    for (size_t i = 0; i < sizeof data; ++i) {
        data[i] = (unsigned char)(i % 25 == 0 ? 0 : i * 7);
    }
    header(&file, 8, 8, 8, 2, 0);
    rows(&file, data, sizeof data);
    for (size_t length = 8; length < file.size; ++length) {
        fixture_bytes(path, file.bytes, length);
        assert_refused(path, UF_ERROR_FORMAT, "cut.png is truncated");
    }
    /* Every byte has a checksum over it or is checked itself; the picture is never silently
     * another. */
    for (size_t at = 0; at < file.size; ++at) {
        file.bytes[at] ^= 0x10;
        fixture_bytes(path, file.bytes, file.size);
        file.bytes[at] ^= 0x10;
        assert_refused(path, UF_ERROR_FORMAT, "cut.png ");
    }
    save(&file, path);
    uf_picture picture;
    assert_ok(uf_png_read(path, &picture));
    uf_picture_free(&picture);
    file.bytes[60] ^= 1; /* inside IDAT */
    save(&file, path);
    assert_refused(path, UF_ERROR_FORMAT, "cut.png is damaged (libpng: ");
}

static void pictures_that_cannot_be_made(void **state) {
    (void)state;
    uf_picture picture;
    const uf_picture zero = {0};
    /* In so little room the caller could not be told where the samples are. */
    assert_error(uf_picture_create_sized(2, 2, 3, 8, &picture, 16), UF_ERROR_INVALID_ARGUMENT,
                 "16 bytes");
    assert_error(uf_picture_create(0, 5, 3, 8, &picture), UF_ERROR_INVALID_ARGUMENT,
                 "a picture of 0x5 pixels");
    assert_memory_equal(&picture, &zero, sizeof zero);
    assert_error(uf_picture_create(1, INT64_C(1) << 40, 3, 8, &picture), UF_ERROR_INVALID_ARGUMENT,
                 "each side must be");
    assert_error(uf_picture_create(1, 1, 5, 8, &picture), UF_ERROR_INVALID_ARGUMENT,
                 "1 to 4 channels, not 5");
    assert_error(uf_picture_create(1, 1, 0, 8, &picture), UF_ERROR_INVALID_ARGUMENT,
                 "1 to 4 channels, not 0");
    assert_error(uf_picture_create(1, 1, 1, 12, &picture), UF_ERROR_INVALID_ARGUMENT,
                 "8 or 16 bits a sample, not 12");
    assert_error(uf_picture_create(0x7fffffff, 0x7fffffff, 4, 16, &picture), UF_ERROR_OUT_OF_MEMORY,
                 "2147483647x2147483647 pixels");
    assert_error(uf_picture_create(1, 1, 1, 8, NULL), UF_ERROR_INVALID_ARGUMENT, "NULL");
    assert_ok(uf_picture_create(2, 2, 3, 8, &picture));
    uf_picture_free(&picture);
    assert_memory_equal(&picture, &zero, sizeof zero);
    uf_picture_free(&picture);
    uf_picture_free(NULL);
}

static void failed_writes_leave_nothing(void **state) {
    (void)state;
    const char *path = fixture_path("kept.png");
    uf_picture picture;
    assert_ok(uf_picture_create(600, 600, 3, 8, &picture));
    uint32_t noise = 1;
    for (size_t i = 0; i < 600 * 600 * 3; ++i) { /* nothing that deflate could shrink */
        noise = noise * 1664525 + 1013904223;
        ((uint8_t *)picture.samples)[i] = (uint8_t)(noise >> 24);
    }
    fixture_bytes(path, "old", 3);
    const int files = fixture_count();
    assert_error(uf_png_write("/absent/x.png", &picture), UF_ERROR_NOT_FOUND,
                 "cannot write /absent/x.png: its directory does not exist");
    assert_error(uf_png_write("/tmp", &picture), UF_ERROR_IO, "/tmp: it is a directory");
    assert_error(uf_png_write("/dev/null", &picture), UF_ERROR_IO, "not a regular file");
    assert_error(uf_png_write(NULL, &picture), UF_ERROR_INVALID_ARGUMENT, "NULL");
    struct rlimit limit, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = limit;
    small.rlim_cur = 65536;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const uf_status status = uf_png_write(path, &picture);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_error(status, UF_ERROR_IO, "cannot write ", "kept.png: File too large");
    uf_picture wrong = picture;
    wrong.gamma = -1.0;
    assert_error(uf_png_write(path, &wrong), UF_ERROR_INVALID_ARGUMENT, "gamma");
    wrong = picture;
    wrong.channels = 7;
    assert_error(uf_png_write(path, &wrong), UF_ERROR_INVALID_ARGUMENT, "7 channels");
    wrong = picture;
    wrong.samples = NULL;
    assert_error(uf_png_write(path, &wrong), UF_ERROR_INVALID_ARGUMENT, "no samples");
    assert_int_equal(fixture_count(), files);
    size_t size;
    unsigned char *bytes = fixture_read(path, &size);
    assert_true(size == 3 && memcmp(bytes, "old", 3) == 0);
    free(bytes);
    assert_ok(uf_png_write(path, &picture));
    assert_int_equal(fixture_count(), files);
    uf_picture_free(&picture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats),
        cmocka_unit_test(sixteen_bits_are_in_host_order),
        cmocka_unit_test(interlaced),
        cmocka_unit_test(every_format_round_trips),
        cmocka_unit_test(colour_chunks_are_carried),
        cmocka_unit_test(damaged_files),
        cmocka_unit_test(truncated_and_flipped_files),
        cmocka_unit_test(pictures_that_cannot_be_made),
        cmocka_unit_test(failed_writes_leave_nothing),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
