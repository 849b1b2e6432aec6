/* Writing pictures in stripes: what zlib alone makes of the file is the picture, with the same
 * bytes for any number of threads and portions of rows, and about the size that libpng's own file
 * has. */
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <zlib.h>

#include "io/fixture.h"

typedef enum content { NOISE, FLAT, PHOTO, REPEATED, STRIPED, CONTENTS } content;

static uint32_t random_state;

static uint32_t next_random(void) {
    random_state = random_state * 1664525 + 1013904223;
    return random_state >> 16;
}

static unsigned sample_of(content kind, int64_t x, int64_t y, int64_t channel) {
    const unsigned smooth = (unsigned)(x * x / 700 + 3 * y + 40 * channel + x * y / 900);
    switch (kind) {
    case NOISE:
        return next_random();
    case PHOTO:
        return smooth * 64 + next_random() % 700;
    case REPEATED:
        return (unsigned)((x % 37) * (y % 23) * (5 + channel)) * 64;
    case STRIPED: /* stripes that level 6 packs better between stripes that it does not */
        return sample_of(y / 200 % 2 == 0 ? PHOTO : REPEATED, x, y, channel);
    default:
        return 0x4d4d;
    }
}

static uf_picture make_picture(content kind, int64_t width, int64_t height, int32_t channels,
                               int32_t depth) {
    uf_picture picture;
    assert_ok(uf_picture_create(width, height, channels, depth, &picture));
    random_state = 1;
    int64_t at = 0;
    for (int64_t y = 0; y < height; ++y) {
        for (int64_t x = 0; x < width; ++x) {
            for (int64_t c = 0; c < channels; ++c, ++at) {
                const unsigned sample = sample_of(kind, x, y, c) & 0xffff;
                if (depth == 16) {
                    ((uint16_t *)picture.samples)[at] = (uint16_t)sample;
                } else {
                    ((uint8_t *)picture.samples)[at] = (uint8_t)(sample >> 8);
                }
            }
        }
    }
    return picture;
}

static size_t row_size(const uf_picture *picture) {
    return (size_t)(picture->width * picture->channels * (picture->depth / 8));
}

/* ---- a decoder of zlib and the plain formulas of the standard ---- */

static uint32_t read32(const unsigned char *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* The image data of a file, inflated: exactly `size` bytes, with every checksum right. */
static unsigned char *inflate_file(const char *path, size_t size) {
    size_t file_size;
    unsigned char *file = fixture_read(path, &file_size);
    unsigned char *data = malloc(size + 1);
    z_stream stream = {0};
    assert_non_null(data);
    assert_int_equal(inflateInit(&stream), Z_OK);
    stream.next_out = data;
    stream.avail_out = (uInt)size + 1;
    int state = Z_OK;
    bool ended = false;
    for (size_t at = 8; at < file_size;) {
        const uint32_t length = read32(file + at);
        unsigned char *const name = file + at + 4;
        assert_true(!ended && at + 12 + length <= file_size);
        assert_int_equal(read32(name + 4 + length), crc32(crc32(0, NULL, 0), name, 4 + length));
        if (memcmp(name, "IDAT", 4) == 0) {
            assert_int_equal(state, Z_OK);
            stream.next_in = name + 4;
            stream.avail_in = length;
            state = inflate(&stream, Z_NO_FLUSH);
            assert_int_equal(stream.avail_in, 0);
        }
        ended = memcmp(name, "IEND", 4) == 0;
        at += 12 + length;
    }
    assert_true(ended);
    assert_int_equal(state, Z_STREAM_END);
    assert_int_equal(stream.total_out, size);
    inflateEnd(&stream);
    free(file);
    return data;
}

static int paeth(int left, int up, int corner) {
    const int guess = left + up - corner;
    const int to_left = abs(guess - left), to_up = abs(guess - up), to_corner = abs(guess - corner);
    if (to_left <= to_up && to_left <= to_corner) {
        return left;
    }
    return to_up <= to_corner ? up : corner;
}

/* Undo the filters in place; `filters` counts the rows that have each. */
static void unfilter(unsigned char *data, const uf_picture *picture, int64_t filters[5]) {
    const size_t size = row_size(picture);
    const size_t pixel = (size_t)(picture->channels * (picture->depth / 8));
    for (size_t y = 0; y < (size_t)picture->height; ++y) {
        unsigned char *row = data + y * (size + 1) + 1;
        const unsigned char *above = y > 0 ? row - size - 1 : NULL;
        assert_in_range(row[-1], 0, 4);
        ++filters[row[-1]];
        for (size_t i = 0; i < size; ++i) {
            const int left = i >= pixel ? row[i - pixel] : 0, up = above != NULL ? above[i] : 0;
            const int corner = i >= pixel && above != NULL ? above[i - pixel] : 0;
            const int predictions[] = {0, left, up, (left + up) / 2, paeth(left, up, corner)};
            row[i] = (unsigned char)(row[i] + predictions[row[-1]]);
        }
    }
}

static void assert_holds(const char *path, const uf_picture *picture, int64_t filters[5]) {
    const size_t size = row_size(picture);
    unsigned char *data = inflate_file(path, (size + 1) * (size_t)picture->height);
    unfilter(data, picture, filters);
    for (size_t y = 0; y < (size_t)picture->height; ++y) {
        unsigned char *row = data + y * (size + 1) + 1;
        for (size_t i = 0; picture->depth == 16 && i < size; i += 2) {
            const uint16_t sample = (uint16_t)(row[i] << 8 | row[i + 1]);
            memcpy(row + i, &sample, 2);
        }
        assert_memory_equal(row, (const unsigned char *)picture->samples + y * size, size);
    }
    free(data);
    uf_picture again; /* by libpng */
    assert_ok(uf_png_read(path, &again));
    assert_true(again.width == picture->width && again.height == picture->height &&
                again.channels == picture->channels && again.depth == picture->depth);
    assert_memory_equal(again.samples, picture->samples, size * (size_t)picture->height);
    uf_picture_free(&again);
}

/* ---- bytes ---- */

/* Rows in portions of 1, 2, 3... or `portion` of them. */
static void write_rows(const char *path, const uf_picture *picture, int32_t threads,
                       int64_t portion) {
    uf_png_write_options options = uf_png_write_options_default();
    options.threads = threads;
    uf_picture head = *picture;
    head.samples = NULL;
    uf_png_writer *writer;
    assert_ok(uf_png_writer_create(path, &head, &options, &writer));
    int64_t count;
    for (int64_t y = 0, step = 1; y < picture->height; y += count, ++step) {
        count = portion > 0 ? portion : step;
        count = count < picture->height - y ? count : picture->height - y;
        const unsigned char *rows = picture->samples;
        assert_ok(uf_png_writer_rows(writer, rows + (size_t)y * row_size(picture), count));
    }
    assert_ok(uf_png_writer_finish(writer));
    uf_png_writer_destroy(writer);
}

static void the_same_bytes_for_any_number_of_threads(void **state) {
    (void)state;
    static const struct {
        content kind;
        int64_t width, height;
        int32_t channels, depth;
    } cases[] = {
        {PHOTO, 800, 900, 3, 8},     {REPEATED, 700, 900, 4, 8}, {STRIPED, 801, 900, 3, 8},
        {NOISE, 500, 600, 2, 16},    {PHOTO, 700, 800, 1, 16},   {FLAT, 2000, 1000, 3, 8},
        {NOISE, 1, 5000, 3, 8},      {NOISE, 5000, 1, 3, 8},     {NOISE, 1, 1, 1, 8},
        {PHOTO, 300000, 7, 3, 8},    {NOISE, 200000, 3, 4, 8}, /* one row and less in a stripe */
        {REPEATED, 1, 700000, 1, 8},
    };
    int64_t filters[5] = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        uf_picture picture = make_picture(cases[i].kind, cases[i].width, cases[i].height,
                                          cases[i].channels, cases[i].depth);
        const char *path = fixture_path("one.png"), *other = fixture_path("other.png");
        write_rows(path, &picture, 1, picture.height);
        assert_holds(path, &picture, filters);
        size_t size, other_size;
        unsigned char *bytes = fixture_read(path, &size);
        for (int32_t threads = 0; threads <= 8; threads += threads < 4 ? 1 : 4) {
            if (threads == 0) {
                assert_ok(uf_png_write(other, &picture));
            } else {
                write_rows(other, &picture, threads, threads % 2 == 0 ? picture.height : 0);
            }
            unsigned char *others = fixture_read(other, &other_size);
            if (other_size != size || memcmp(others, bytes, size) != 0) {
                fail_msg("case %zu: %d threads write other bytes than one", i, (int)threads);
            }
            free(others);
        }
        free(bytes);
        uf_picture_free(&picture);
    }
    for (int i = 0; i < 5; ++i) {
        assert_true(filters[i] > 0); /* so all of them were tried */
    }
}

/* ---- size ---- */

static void count_bytes(png_structp png, png_bytep bytes, size_t size) {
    (void)bytes;
    *(size_t *)png_get_io_ptr(png) += size;
}

static void flush_nothing(png_structp png) {
    (void)png;
}

/* A file that libpng writes by itself, of the same picture. */
static size_t size_by_libpng(const uf_picture *picture) {
    static const int colours[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA,
                                  PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGB_ALPHA};
    size_t size = 0;
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    assert_int_equal(setjmp(png_jmpbuf(png)), 0);
    png_set_write_fn(png, &size, count_bytes, flush_nothing);
    png_set_IHDR(png, info, (png_uint_32)picture->width, (png_uint_32)picture->height,
                 picture->depth, colours[picture->channels - 1], PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    const uint16_t one = 1;
    if (*(const unsigned char *)&one == 1) {
        png_set_swap(png);
    }
    for (int64_t y = 0; y < picture->height; ++y) {
        png_write_row(png, (png_const_bytep)picture->samples + (size_t)y * row_size(picture));
    }
    png_write_end(png, NULL);
    png_destroy_write_struct(&png, &info);
    return size;
}

static void assert_small(const char *what, const uf_picture *picture) {
    const char *path = fixture_path("small.png");
    size_t size;
    assert_ok(uf_png_write(path, picture));
    free(fixture_read(path, &size));
    const size_t usual = size_by_libpng(picture);
    printf("%-28s %9zu bytes, libpng's file has %9zu\n", what, size, usual);
    if (100 * size > 105 * usual) {
        fail_msg("%s: %zu bytes are more than 5 %% above libpng's %zu", what, size, usual);
    }
}

static void files_are_as_small_as_libpngs(void **state) {
    (void)state;
    static const struct {
        const char *what;
        content kind;
        int64_t width, height;
        int32_t channels, depth;
    } cases[] = {
        {"photo", PHOTO, 900, 1300, 3, 8},        {"photo, 16 bits", PHOTO, 900, 600, 3, 16},
        {"repeated", REPEATED, 1200, 1300, 3, 8}, {"photo and repeated", STRIPED, 801, 1201, 3, 8},
        {"noise", NOISE, 700, 700, 3, 8},         {"flat", FLAT, 2000, 1500, 3, 8},
        {"a column", NOISE, 1, 5000, 3, 8},       {"a row", NOISE, 5000, 1, 3, 8},
        {"a flat row", FLAT, 300000, 1, 3, 8},    {"long rows", PHOTO, 300000, 7, 3, 8},
        {"a pixel", NOISE, 1, 1, 3, 8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        uf_picture picture = make_picture(cases[i].kind, cases[i].width, cases[i].height,
                                          cases[i].channels, cases[i].depth);
        assert_small(cases[i].what, &picture);
        uf_picture_free(&picture);
    }
    static const char *const files[] = {
        "tests/data/upconv7_scale2x.png", "examples/upscale/upconv7_scale2x_input.png",
        "docs/images/generated.png", "docs/images/dcgan-early.png", "docs/images/upscale.png"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; ++i) {
        char path[4096];
        uf_picture picture;
        snprintf(path, sizeof path, "%s/%s", SOURCE_DIR, files[i]);
        assert_ok(uf_png_read(path, &picture));
        assert_small(files[i], &picture);
        uf_picture_free(&picture);
    }
}

/* ---- calls at the wrong time ---- */

static void a_file_is_whole_or_not_there(void **state) {
    (void)state;
    char path[256];
    snprintf(path, sizeof path, "%s", fixture_path("kept.png"));
    fixture_bytes(path, "old", 3);
    const int files = fixture_count();
    uf_picture picture = make_picture(NOISE, 600, 600, 3, 8);
    uf_picture head = picture;
    head.samples = NULL;
    uf_png_write_options options = uf_png_write_options_default();
    uf_png_writer *writer = (uf_png_writer *)&options;
    assert_error(uf_png_writer_create(path, NULL, NULL, &writer), UF_ERROR_INVALID_ARGUMENT,
                 "NULL");
    assert_null(writer);
    assert_error(uf_png_writer_create(path, &head, NULL, NULL), UF_ERROR_INVALID_ARGUMENT, "NULL");
    options.threads = -1;
    assert_error(uf_png_writer_create(path, &head, &options, &writer), UF_ERROR_INVALID_ARGUMENT,
                 "threads is -1");
    options.threads = 1025;
    assert_error(uf_png_writer_create(path, &head, &options, &writer), UF_ERROR_INVALID_ARGUMENT,
                 "threads is 1025");
    options.threads = 3;
    head.channels = 5;
    assert_error(uf_png_writer_create(path, &head, &options, &writer), UF_ERROR_INVALID_ARGUMENT,
                 "5 channels");
    head.channels = 3;
    assert_error(uf_png_writer_create("/absent/x.png", &head, &options, &writer),
                 UF_ERROR_NOT_FOUND, "its directory does not exist");

    assert_ok(uf_png_writer_create(path, &head, &options, &writer));
    assert_error(uf_png_writer_rows(writer, NULL, 1), UF_ERROR_INVALID_ARGUMENT, "NULL");
    assert_error(uf_png_writer_rows(NULL, picture.samples, 1), UF_ERROR_INVALID_ARGUMENT, "NULL");
    assert_error(uf_png_writer_rows(writer, picture.samples, 0), UF_ERROR_INVALID_ARGUMENT,
                 "0 rows");
    assert_ok(uf_png_writer_rows(writer, picture.samples, 590));
    assert_error(uf_png_writer_rows(writer, picture.samples, 11), UF_ERROR_INVALID_ARGUMENT,
                 "11 rows for ", "kept.png, which lacks 10");
    assert_error(uf_png_writer_finish(writer), UF_ERROR_STATE, "kept.png has 590 of 600 rows");
    uf_png_writer_destroy(writer); /* full stripes and one that is not, at work or not */
    assert_int_equal(fixture_count(), files);
    size_t size;
    unsigned char *bytes = fixture_read(path, &size);
    assert_true(size == 3 && memcmp(bytes, "old", 3) == 0);
    free(bytes);

    assert_ok(uf_png_writer_create(path, &head, &options, &writer));
    assert_ok(uf_png_writer_rows(writer, picture.samples, 600));
    assert_ok(uf_png_writer_finish(writer));
    assert_error(uf_png_writer_finish(writer), UF_ERROR_STATE, "kept.png is finished");
    uf_png_writer_destroy(writer);
    uf_png_writer_destroy(NULL);
    int64_t filters[5] = {0};
    assert_holds(path, &picture, filters);
    uf_picture_free(&picture);
}

static void a_full_disk(void **state) {
    (void)state;
    char path[256];
    snprintf(path, sizeof path, "%s", fixture_path("full.png"));
    const int files = fixture_count();
    uf_picture picture = make_picture(NOISE, 600, 600, 3, 8);
    struct rlimit limit, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = limit;
    small.rlim_cur = 700000;
    for (int32_t threads = 1; threads <= 3; ++threads) {
        uf_png_write_options options = uf_png_write_options_default();
        options.threads = threads;
        uf_png_writer *writer;
        assert_ok(uf_png_writer_create(path, &picture, &options, &writer));
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        uf_status status = UF_OK;
        for (int64_t y = 0; y < 600 && status == UF_OK; y += 100) {
            status = uf_png_writer_rows(
                writer, (const unsigned char *)picture.samples + (size_t)y * row_size(&picture),
                100);
        }
        status = status == UF_OK ? uf_png_writer_finish(writer) : status;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        assert_error(status, UF_ERROR_IO, "cannot write ", "full.png: File too large");
        assert_error(uf_png_writer_finish(writer), UF_ERROR_STATE, "has failed already");
        uf_png_writer_destroy(writer);
        assert_int_equal(fixture_count(), files);
    }
    uf_picture_free(&picture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_bytes_for_any_number_of_threads),
        cmocka_unit_test(files_are_as_small_as_libpngs),
        cmocka_unit_test(a_file_is_whole_or_not_there),
        cmocka_unit_test(a_full_disk),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
