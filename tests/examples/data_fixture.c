#include "examples/data_fixture.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "io/fixture.h"

const char *const example_name = "test_data";

static char root[64];

int data_setup(void **state) {
    (void)state;
    snprintf(root, sizeof root, "/tmp/unfurl-data-XXXXXX");
    return mkdtemp(root) == NULL;
}

static int remove_all(const char *path) {
    DIR *directory = opendir(path);
    if (directory == NULL) {
        return remove(path);
    }
    for (const struct dirent *item; (item = readdir(directory)) != NULL;) {
        char inner[1024];
        if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0) {
            continue;
        }
        snprintf(inner, sizeof inner, "%.400s/%.300s", path, item->d_name);
        remove_all(inner);
    }
    closedir(directory);
    return rmdir(path);
}

int data_teardown(void **state) {
    (void)state;
    return remove_all(root);
}

const char *data_path(const char *name) {
    static char paths[8][512];
    static int next;
    if (*name == '\0') {
        return root;
    }
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", root, name);
    return path;
}

void data_folder(const char *name) {
    assert_int_equal(mkdir(data_path(name), 0700), 0);
}

void data_text(const char *name, const char *text) {
    fixture_bytes(data_path(name), text, strlen(text));
}

void data_cut(const char *name, int64_t bytes) {
    struct stat about;
    assert_int_equal(stat(data_path(name), &about), 0);
    fixture_truncate(data_path(name), about.st_size - bytes);
}

uint8_t data_value(int64_t index, int64_t y, int64_t x, int c) {
    return (uint8_t)(random_bits((uint64_t)index, (uint64_t)(y * 65536 + x), (uint64_t)c) >> 56);
}

void data_png(const char *name, int64_t index, int64_t width, int64_t height, int channels,
              int depth) {
    uf_picture picture;
    assert_ok(uf_picture_create(width, height, channels, depth, &picture));
    for (int64_t i = 0; i < width * height * channels; ++i) {
        const int64_t pixel = i / channels;
        const uint8_t value = data_value(index, pixel / width, pixel % width, (int)(i % channels));
        if (depth == 16) {
            ((uint16_t *)picture.samples)[i] = (uint16_t)(value * 257);
        } else {
            ((uint8_t *)picture.samples)[i] = value;
        }
    }
    assert_ok(uf_png_write(data_path(name), &picture));
    uf_picture_free(&picture);
}

double data_smooth(int64_t width, int64_t height, int64_t y, int64_t x, int c) {
    return c == 0   ? floor(255.0 * (double)x / (double)width)
           : c == 1 ? floor(255.0 * (double)y / (double)height)
                    : 40.0;
}

void data_jpeg(const char *name, int64_t width, int64_t height) {
    uf_picture picture;
    if (!uf_picture_has_format(UF_PICTURE_JPEG)) {
        fixture_bytes(data_path(name), "\xff\xd8\xff\xe0 no whole file", 19);
        return;
    }
    assert_ok(uf_picture_create(width, height, 3, 8, &picture));
    for (int64_t i = 0; i < width * height * 3; ++i) {
        ((uint8_t *)picture.samples)[i] =
            (uint8_t)data_smooth(width, height, i / 3 / width, i / 3 % width, (int)(i % 3));
    }
    uf_picture_write_options options = uf_picture_write_options_default();
    options.format = UF_PICTURE_JPEG;
    options.quality = 95;
    assert_ok(uf_picture_write(data_path(name), &picture, &options));
    uf_picture_free(&picture);
}

static gzFile begin_idx(const char *name, int rank, const int64_t *extent) {
    unsigned char header[16] = {0, 0, 8, (unsigned char)rank};
    for (int i = 0; i < 4 * rank; ++i) {
        header[4 + i] = (unsigned char)(extent[i / 4] >> (8 * (3 - i % 4)));
    }
    gzFile file = gzopen(data_path(name), "wb1");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, header, (unsigned)(4 + 4 * rank)), 4 + 4 * rank);
    return file;
}

void data_idx_images(const char *name, int64_t count, int64_t claimed, int64_t height,
                     int64_t width) {
    gzFile file = begin_idx(name, 3, (const int64_t[]){claimed, height, width});
    for (int64_t i = 0; i < count * height * width; ++i) {
        const int64_t at = i % (height * width);
        gzputc(file, data_value(i / (height * width), at / width, at % width, 0));
    }
    assert_int_equal(gzclose(file), Z_OK);
}

void data_idx_labels(const char *name, int64_t count, int64_t claimed) {
    gzFile file = begin_idx(name, 1, &claimed);
    for (int64_t i = 0; i < count; ++i) {
        gzputc(file, (int)(i % 10));
    }
    assert_int_equal(gzclose(file), Z_OK);
}

static hid_t open_file(const char *name) {
    const char *path = data_path(name);
    return access(path, F_OK) == 0 ? H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT)
                                   : fixture_create(path);
}

void data_hdf5(const char *name, const char *dataset, int64_t count, int64_t channels,
               int64_t height, int64_t width) {
    const int64_t plane = height * width, all = count * channels * plane;
    unsigned char *values = test_allocate((size_t)all);
    for (int64_t i = 0; i < all; ++i) {
        values[i] = data_value(i / (channels * plane), i % plane / width, i % width,
                               (int)(i / plane % channels));
    }
    const hid_t file = open_file(name);
    fixture_dataset(
        file, dataset, H5T_STD_U8LE, H5T_NATIVE_UCHAR, 4,
        (const hsize_t[]){(hsize_t)count, (hsize_t)channels, (hsize_t)height, (hsize_t)width},
        values);
    H5Fclose(file);
    free(values);
}

void data_hdf5_labels(const char *name, const char *dataset, int64_t count) {
    int64_t *labels = test_allocate((size_t)count * sizeof *labels);
    for (int64_t i = 0; i < count; ++i) {
        labels[i] = i % 3;
    }
    const hid_t file = open_file(name);
    fixture_dataset(file, dataset, H5T_STD_I64LE, H5T_NATIVE_INT64, 1,
                    (const hsize_t[]){(hsize_t)count}, labels);
    H5Fclose(file);
    free(labels);
}

data_options data_wish(const char *path, int64_t channels, int64_t size, int64_t batch) {
    return (data_options){
        .path = path, .channels = channels, .size = size, .batch = batch, .seed = 1, .threads = 2};
}
