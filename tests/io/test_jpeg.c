/* Pictures of either format: told by the contents, JPEG in and out, and a sentence for every
 * damage. Small JPEG files are put together here by hand, from the standard (ITU-T T.81). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <unfurl/unfurl.h>

#include "io/fixture.h"
#include "io/png_builder.h"

static void need_jpeg(void) {
    if (!uf_picture_has_format(UF_PICTURE_JPEG)) {
        skip();
    }
}

/* ---- files by hand ---- */

typedef struct jpeg_file {
    unsigned char bytes[8192];
    size_t size;
} jpeg_file;

static void add(jpeg_file *file, const void *bytes, size_t size) {
    assert_true(file->size + size <= sizeof file->bytes);
    memcpy(file->bytes + file->size, bytes, size);
    file->size += size;
}
#define ADD(file, ...)                                                                             \
    add(file, (const unsigned char[]){__VA_ARGS__}, sizeof((const unsigned char[]){__VA_ARGS__}))

/* SOI; a table of quantization of 8s; DC code 0 for no difference and 10 for one of 5 bits; AC code
 * 0 for the end of the block; a frame of this SOF. */
static void begin_jpeg(jpeg_file *file, int sof, int width, int height, int components) {
    file->size = 0;
    ADD(file, 0xff, 0xd8, 0xff, 0xdb, 0, 67, 0);
    for (int i = 0; i < 64; ++i) {
        ADD(file, 8);
    }
    ADD(file, 0xff, 0xc4, 0, 21, 0x00, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5);
    ADD(file, 0xff, 0xc4, 0, 20, 0x10, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    ADD(file, 0xff, (unsigned char)sof, 0, (unsigned char)(8 + 3 * components), 8,
        (unsigned char)(height >> 8), (unsigned char)height, (unsigned char)(width >> 8),
        (unsigned char)width, (unsigned char)components);
    for (int i = 1; i <= components; ++i) {
        ADD(file, (unsigned char)i, 0x11, 0);
    }
}

/* A scan of coefficients `from` to `to`, bits `high` and `low`. */
static void add_scan(jpeg_file *file, int components, int from, int to, int high_low) {
    ADD(file, 0xff, 0xda, 0, (unsigned char)(6 + 2 * components), (unsigned char)components);
    for (int i = 1; i <= components; ++i) {
        ADD(file, (unsigned char)i, 0);
    }
    ADD(file, (unsigned char)from, (unsigned char)to, (unsigned char)high_low);
}

static void end_jpeg(jpeg_file *file, const char *path) {
    ADD(file, 0xff, 0xd9);
    fixture_bytes(path, file->bytes, file->size);
}

/* One block: a difference of 20, that is 20 * 8 / 8 above the middle, 128. */
static void samples_by_the_standard(void **state) {
    (void)state;
    need_jpeg();
    const char *path = fixture_path("a name without an ending");
    jpeg_file file;
    uf_picture picture;
    for (int components = 1; components <= 3; components += 2) {
        begin_jpeg(&file, 0xc0, 5, 3, components);
        add_scan(&file, components, 0, 63, 0);
        ADD(&file, 0xa8); /* 10 10100 0 */
        if (components == 3) {
            ADD(&file, 0x0f); /* 0 0, 0 0: colours in the middle */
        }
        end_jpeg(&file, path);
        assert_ok(uf_picture_read(path, NULL, &picture));
        assert_int_equal(picture.width, 5);
        assert_int_equal(picture.height, 3);
        assert_int_equal(picture.channels, components);
        assert_int_equal(picture.depth, 8);
        for (int i = 0; i < 15 * components; ++i) {
            assert_int_equal(((const uint8_t *)picture.samples)[i], 148);
        }
        uf_picture_free(&picture);
    }
}

static void refused_kinds(void **state) {
    (void)state;
    need_jpeg();
    const char *path = fixture_path("kind.jpg");
    static const struct {
        int sof, width, height, components;
        const char *sentence;
    } cases[] = {
        {0xc0, 5, 3, 4, "is a JPEG picture for print (CMYK), which is not read"},
        {0xc0, 5, 3, 2, "2 components; it must have 1 or 3"},
        {0xc9, 5, 3, 1, "arithmetic coding, which is not read"},
        {0xc0, 65000, 65000, 1, "has 65000x65000 pixels, more than the 268435456 that max_pixels"},
        {0xc0, 16000, 16000, 1, "claims 16000x16000 pixels, which its 143 bytes cannot hold"},
        {0xc0, 0, 3, 1, "is damaged or truncated (libjpeg: "},
        {0xc0, 5, 0, 1, "is damaged or truncated (libjpeg: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        jpeg_file file;
        uf_picture picture;
        const uf_picture zero = {0};
        begin_jpeg(&file, cases[i].sof, cases[i].width, cases[i].height, cases[i].components);
        add_scan(&file, cases[i].components, 0, 63, 0);
        ADD(&file, 0xa8, 0x0f);
        end_jpeg(&file, path);
        assert_error(uf_picture_read(path, NULL, &picture), UF_ERROR_FORMAT, cases[i].sentence,
                     "/kind.jpg");
        assert_memory_equal(&picture, &zero, sizeof zero);
    }
}

/* A progressive file says a coefficient again in each scan. */
static void many_scans(void **state) {
    (void)state;
    need_jpeg();
    const char *path = fixture_path("scans.jpg");
    for (int refined = 20; refined <= 60; refined += 40) {
        jpeg_file file;
        uf_picture picture;
        begin_jpeg(&file, 0xc2, 8, 8, 1);
        add_scan(&file, 1, 0, 0, 0);
        ADD(&file, 0xa9); /* 10 10100 and ones */
        for (int i = 1; i <= 60; ++i) {
            add_scan(&file, 1, i, i, 0x01);
            ADD(&file, 0x7f); /* 0: the end of the block */
        }
        for (int i = 1; i <= refined; ++i) {
            add_scan(&file, 1, i, i, 0x10);
            ADD(&file, 0x7f);
        }
        end_jpeg(&file, path);
        if (refined == 20) {
            assert_ok(uf_picture_read(path, NULL, &picture));
            assert_int_equal(((const uint8_t *)picture.samples)[63], 148);
            uf_picture_free(&picture);
        } else {
            assert_error(uf_picture_read(path, NULL, &picture), UF_ERROR_FORMAT,
                         "has more than 100 scans", "/scans.jpg");
        }
    }
}

/* ---- there and back ---- */

static double wave(int64_t x, int64_t y, int c) {
    return 40.0 + 2.0 * (double)(x % 64) + (double)((y * (c + 1)) % 80);
}

static void make_picture(uf_picture *picture, int64_t width, int64_t height, int channels) {
    assert_ok(uf_picture_create(width, height, channels, 8, picture));
    for (int64_t i = 0; i < width * height * channels; ++i) {
        const int64_t pixel = i / channels;
        ((uint8_t *)picture->samples)[i] =
            (uint8_t)wave(pixel % width, pixel / width, (int)(i % channels));
    }
}

static uf_picture_write_options jpeg_options(int quality) {
    uf_picture_write_options options = uf_picture_write_options_default();
    assert_int_equal(options.quality, 92);
    options.format = UF_PICTURE_JPEG;
    options.quality = quality;
    return options;
}

/* The mean difference, and the file's size. */
static double there_and_back(int width, int height, int channels, int quality, size_t *size) {
    const char *path = fixture_path("again.jpg");
    const uf_picture_write_options options = jpeg_options(quality);
    uf_picture picture, again;
    make_picture(&picture, width, height, channels);
    assert_ok(uf_picture_write(path, &picture, &options));
    free(fixture_read(path, size));
    assert_ok(uf_picture_read(path, NULL, &again));
    assert_true(again.width == width && again.height == height && again.channels == channels);
    double sum = 0.0;
    for (int i = 0; i < width * height * channels; ++i) {
        sum += abs(((const uint8_t *)picture.samples)[i] - ((const uint8_t *)again.samples)[i]);
    }
    uf_picture_free(&picture);
    uf_picture_free(&again);
    return sum / (width * height * channels);
}

static void qualities(void **state) {
    (void)state;
    need_jpeg();
    size_t size, best = 0;
    for (int channels = 1; channels <= 3; channels += 2) {
        assert_true(there_and_back(131, 77, channels, 100, &best) < 1.0);
        const double usual = there_and_back(131, 77, channels, 92, &size);
        assert_true(usual < 2.5 && size < best);
        const double least = there_and_back(131, 77, channels, 1, &best);
        assert_true(least > 2.0 * usual && best < size);
    }
    assert_true(there_and_back(1, 1, 3, 92, &size) < 4.0);
}

static void a_profile_is_carried(void **state) {
    (void)state;
    need_jpeg();
    enum { SIZE = 200000 }; /* pieces of a JPEG file have 65,519 bytes at most */
    const char *jpeg = fixture_path("profile.jpg"), *png = fixture_path("profile.png");
    const uf_picture_write_options options = jpeg_options(92);
    uf_picture picture, again;
    make_picture(&picture, 9, 9, 1);
    picture.icc_profile = malloc(SIZE);
    assert_non_null(picture.icc_profile);
    make_profile(picture.icc_profile, SIZE);
    picture.icc_size = SIZE;
    strcpy(picture.icc_name, "grey");
    assert_ok(uf_picture_write(jpeg, &picture, &options));
    assert_ok(uf_picture_read(jpeg, NULL, &again));
    assert_int_equal(again.icc_size, SIZE);
    assert_memory_equal(again.icc_profile, picture.icc_profile, SIZE);
    assert_ok(uf_picture_write(png, &again, NULL)); /* its name is one that PNG can store */
    uf_picture_free(&again);
    assert_ok(uf_picture_read(png, NULL, &again));
    assert_int_equal(again.icc_size, SIZE);
    uf_picture_free(&again);
    /* One that libpng refuses is left out, as in reading. */
    memset(picture.icc_profile, 7, SIZE);
    assert_ok(uf_picture_write(jpeg, &picture, &options));
    uf_picture_free(&picture);
    assert_ok(uf_picture_read(jpeg, NULL, &picture));
    assert_int_equal(picture.icc_size, SIZE);
    assert_ok(uf_picture_write(png, &picture, NULL));
    assert_ok(uf_picture_read(png, NULL, &again));
    assert_null(again.icc_profile);
    uf_picture_free(&again);
    uf_picture_free(&picture);
}

static void rows_make_the_same_file(void **state) {
    (void)state;
    for (int format = UF_PICTURE_PNG; format <= UF_PICTURE_JPEG; ++format) {
        const char *whole = fixture_path("whole"), *rows = fixture_path("rows");
        if (!uf_picture_has_format((uf_picture_format)format)) {
            continue;
        }
        uf_picture_write_options options = uf_picture_write_options_default();
        options.format = (uf_picture_format)format;
        uf_picture picture;
        uf_picture_writer *writer;
        make_picture(&picture, 50, 41, 3);
        assert_ok(uf_picture_write(whole, &picture, &options));
        const int files = fixture_count();
        assert_ok(uf_picture_writer_create(rows, &picture, &options, &writer));
        for (int y = 0; y < 41; y += 8) {
            assert_error(uf_picture_writer_finish(writer), UF_ERROR_STATE, "of 41 rows");
            assert_ok(uf_picture_writer_rows(writer, (const uint8_t *)picture.samples + y * 150,
                                             y == 40 ? 1 : 8));
        }
        assert_error(uf_picture_writer_rows(writer, picture.samples, 1), UF_ERROR_INVALID_ARGUMENT,
                     "lacks 0");
        assert_int_equal(fixture_count(), files);
        assert_ok(uf_picture_writer_finish(writer));
        assert_error(uf_picture_writer_finish(writer), UF_ERROR_STATE, "is finished");
        uf_picture_writer_destroy(writer);
        size_t size, other_size;
        unsigned char *bytes = fixture_read(whole, &size), *other = fixture_read(rows, &other_size);
        assert_int_equal(size, other_size);
        assert_memory_equal(bytes, other, size);
        free(bytes);
        free(other);
        unlink(rows);
        assert_ok(uf_picture_writer_create(rows, &picture, &options, &writer));
        assert_ok(uf_picture_writer_rows(writer, picture.samples, 41));
        uf_picture_writer_destroy(writer); /* unfinished */
        assert_int_equal(access(rows, F_OK), -1);
        uf_picture_free(&picture);
    }
}

/* ---- wrong files, wrong wishes ---- */

/* A picture cut anywhere is an error; damaged anywhere it is one or a picture of its size. */
static void cut_and_damaged(void **state) {
    (void)state;
    need_jpeg();
    const char *path = fixture_path("cut.jpg");
    const uf_picture_write_options options = jpeg_options(60);
    uf_picture picture;
    make_picture(&picture, 40, 30, 3);
    assert_ok(uf_picture_write(path, &picture, &options));
    uf_picture_free(&picture);
    size_t size;
    unsigned char *bytes = fixture_read(path, &size);
    for (size_t left = 0; left < size; left += left < 20 ? 1 : 7) {
        fixture_bytes(path, bytes, left);
        assert_error(uf_picture_read(path, NULL, &picture), UF_ERROR_FORMAT, "cut.jpg",
                     left == 0 ? "is empty, not a picture" : "is damaged or truncated (libjpeg: ");
    }
    for (size_t i = 3; i < size; i += 5) {
        bytes[i] ^= 0x15;
        fixture_bytes(path, bytes, size);
        bytes[i] ^= 0x15;
        const uf_status status = uf_picture_read(path, NULL, &picture);
        assert_true(status == UF_OK || status == UF_ERROR_FORMAT);
        uf_picture_free(&picture);
    }
    free(bytes);
}

static void told_by_contents(void **state) {
    (void)state;
    const char *path = fixture_path("wrong.jpg");
    uf_picture picture, again;
    make_picture(&picture, 3, 2, 4);
    assert_ok(uf_picture_write(path, &picture, NULL));
    assert_ok(uf_picture_read(path, NULL, &again));
    assert_int_equal(again.channels, 4);
    assert_memory_equal(again.samples, picture.samples, 3 * 2 * 4);
    uf_picture_free(&again);
    uf_picture_free(&picture);
    fixture_bytes(path, "no picture", 10);
    assert_error(uf_picture_read(path, NULL, &picture), UF_ERROR_FORMAT,
                 "/wrong.jpg is neither a PNG nor a JPEG picture");
    assert_error(uf_picture_read("/tmp", NULL, &picture), UF_ERROR_FORMAT,
                 "/tmp is a directory, not a picture");
    assert_error(uf_picture_read("/absent.jpg", NULL, &picture), UF_ERROR_NOT_FOUND,
                 "cannot open /absent.jpg");
    fixture_bytes(path, "\xff\xd8\xff\xe0 no whole file", 19);
    if (uf_picture_has_format(UF_PICTURE_JPEG)) {
        assert_error(uf_picture_read(path, NULL, &picture), UF_ERROR_FORMAT, "is damaged");
    } else {
        assert_error(uf_picture_read(path, NULL, &picture), UF_ERROR_UNSUPPORTED,
                     "has no libjpeg-turbo");
    }
    assert_false(uf_picture_has_format((uf_picture_format)2));
}

/* A pipe has no size that the reader could ask for. */
static void from_a_pipe(void **state) {
    (void)state;
    for (int format = UF_PICTURE_PNG; format <= UF_PICTURE_JPEG; ++format) {
        if (!uf_picture_has_format((uf_picture_format)format)) {
            continue;
        }
        const char *path = fixture_path("piped");
        uf_picture_write_options options = uf_picture_write_options_default();
        options.format = (uf_picture_format)format;
        uf_picture picture;
        make_picture(&picture, 30, 20, 3);
        assert_ok(uf_picture_write(path, &picture, &options));
        uf_picture_free(&picture);
        size_t size;
        unsigned char *bytes = fixture_read(path, &size);
        int ends[2];
        char name[64];
        assert_int_equal(pipe(ends), 0);
        assert_int_equal(write(ends[1], bytes, size), (ssize_t)size);
        close(ends[1]);
        snprintf(name, sizeof name, "/dev/fd/%d", ends[0]);
        assert_ok(uf_picture_read(name, NULL, &picture));
        assert_int_equal(picture.width, 30);
        uf_picture_free(&picture);
        close(ends[0]);
        free(bytes);
    }
}

static void unwritable(void **state) {
    (void)state;
    need_jpeg();
    const char *path = fixture_path("no.jpg");
    const uf_picture_write_options usual = jpeg_options(92);
    uf_picture_write_options options = usual;
    uf_picture picture;
    const int files = fixture_count();
    make_picture(&picture, 4, 4, 4);
    assert_error(uf_picture_write(path, &picture, &usual), UF_ERROR_INVALID_ARGUMENT,
                 "has no alpha; this one has 4 channels", "/no.jpg");
    uf_picture wrong = picture;
    wrong.channels = 3;
    wrong.depth = 16;
    assert_error(uf_picture_write(path, &wrong, &usual), UF_ERROR_INVALID_ARGUMENT,
                 "8 bits a sample, not 16");
    wrong.depth = 8;
    wrong.width = 65501;
    assert_error(uf_picture_write(path, &wrong, &usual), UF_ERROR_INVALID_ARGUMENT,
                 "65501x4 pixels; the sides of a JPEG picture are 1 to 65500");
    wrong.width = 4;
    wrong.samples = NULL;
    assert_error(uf_picture_write(path, &wrong, &usual), UF_ERROR_INVALID_ARGUMENT, "no samples");
    options.quality = 0;
    assert_error(uf_picture_write(path, &picture, &options), UF_ERROR_INVALID_ARGUMENT,
                 "quality is 0; it must be 1 to 100");
    options = usual;
    options.format = (uf_picture_format)7;
    assert_error(uf_picture_write(path, &picture, &options), UF_ERROR_INVALID_ARGUMENT,
                 "format is 7");
    wrong = picture;
    wrong.channels = 3;
    assert_error(uf_picture_write("/absent/x.jpg", &wrong, &usual), UF_ERROR_NOT_FOUND,
                 "its directory does not exist");
    assert_int_equal(fixture_count(), files);
    uf_picture_free(&picture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_by_the_standard),
        cmocka_unit_test(refused_kinds),
        cmocka_unit_test(many_scans),
        cmocka_unit_test(qualities),
        cmocka_unit_test(a_profile_is_carried),
        cmocka_unit_test(rows_make_the_same_file),
        cmocka_unit_test(cut_and_damaged),
        cmocka_unit_test(told_by_contents),
        cmocka_unit_test(from_a_pipe),
        cmocka_unit_test(unwritable),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
