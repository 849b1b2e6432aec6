/* test_data.c - each kind of source gives the pictures that it has, in an order that is a
 * permutation in each epoch. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "examples/data_fixture.h"
#include "io/png_builder.h"

/* Is the image the picture of data_value, as it is? */
static bool is_picture(const float *image, int64_t index, int channels, int64_t size) {
    for (int64_t i = 0; i < channels * size * size; ++i) {
        const double wanted =
            data_value(index, i / size % size, i % size, (int)(i / (size * size))) / 127.5 - 1.0;
        if (!(fabs((double)image[i] - wanted) < 1e-6)) {
            return false;
        }
    }
    return true;
}

static void expect_text(const char *text, const char *part) {
    if (strstr(text, part) == NULL) {
        fail_msg("no \"%s\" in \"%s\"", part, text);
    }
}

static int64_t label_10(int64_t index) {
    return index % 10;
}
static int64_t label_3(int64_t index) {
    return index % 3;
}
static int64_t tens(int64_t index) {
    return index / 10;
}

/* Every batch of `epochs` epochs has the pictures that data_index tells, with their labels (NULL:
 * none), and each picture is there at most once an epoch. */
static void expect_epochs(data_loader *d, int channels, int64_t size, int64_t batch, int epochs,
                          int64_t (*label)(int64_t index)) {
    const int64_t count = data_count(d), steps = data_batches_per_epoch(d);
    int64_t *last = test_allocate((size_t)count * sizeof *last);
    for (int64_t i = 0; i < count; ++i) {
        last[i] = -1;
    }
    assert_int_equal(steps, count / batch);
    for (int64_t step = 0; step < epochs * steps; ++step) {
        const int64_t *labels = last;
        const float *images = data_batch(d, step, &labels);
        assert_true((labels != NULL) == (label != NULL));
        for (int64_t place = 0; place < batch; ++place) {
            const int64_t index = data_index(d, step, place);
            assert_in_range(index, 0, count - 1);
            assert_true(last[index] < step / steps);
            last[index] = step / steps;
            if (!is_picture(images + place * channels * size * size, index, channels, size)) {
                fail_msg("step %d, place %d is not picture %d", (int)step, (int)place, (int)index);
            }
            if (label != NULL) {
                assert_int_equal(labels[place], label(index));
            }
        }
    }
    free(last);
}

static void write_idx(void) {
    data_idx_images("train-images-idx3-ubyte.gz", 50, 50, 12, 12);
    data_idx_labels("train-labels-idx1-ubyte.gz", 50, 50);
    data_idx_images("t10k-images-idx3-ubyte.gz", 20, 20, 12, 12);
    data_idx_labels("t10k-labels-idx1-ubyte.gz", 20, 20);
}

static void test_idx(void **state) {
    (void)state;
    write_idx();
    data_options wish = data_wish(data_path(""), 1, 12, 8);
    data_loader *d = data_open(&wish);
    assert_int_equal(data_count(d), 50);
    assert_int_equal(data_classes(d), 10);
    assert_null(data_class_name(d, 3));
    expect_text(data_description(d), "50 images of 12x12 (IDX), 10 classes");
    expect_epochs(d, 1, 12, 8, 5, label_10);
    data_close(d);
    wish.held_out = true;
    wish.batch = 0;
    d = data_open(&wish);
    assert_int_equal(data_count(d), 20);
    assert_int_equal(data_batches_per_epoch(d), 0);
    float images[3 * 144];
    int64_t labels[3];
    data_read(d, 17, 3, images, labels);
    for (int i = 0; i < 3; ++i) {
        assert_true(is_picture(images + i * 144, 17 + i, 1, 12));
        assert_int_equal(labels[i], 7 + i);
    }
    data_close(d);
    /* Without labels; grey as colour. */
    unlink(data_path("train-labels-idx1-ubyte.gz"));
    wish = data_wish(data_path(""), 3, 12, 8);
    d = data_open(&wish);
    assert_int_equal(data_classes(d), 0);
    const int64_t *none = labels;
    const float *batch = data_batch(d, 0, &none);
    assert_null(none);
    assert_true(is_picture(batch, data_index(d, 0, 0), 1, 12));
    assert_memory_equal(batch, batch + 144, 144 * sizeof *batch);
    assert_memory_equal(batch, batch + 288, 144 * sizeof *batch);
    data_close(d);
    data_close(NULL);
}

/* Folders are classes in the order of their names; what claims to be no picture is no matter. */
static void test_classes(void **state) {
    (void)state;
    static const char *const names[] = {"cats", "dogs", "owls"};
    for (int i = 0; i < 3; ++i) {
        data_folder(names[i]);
    }
    data_folder("nothing in here");
    for (int i = 0; i < 30; ++i) {
        char name[64]; /* listed in the order 0, 1, 2, ... */
        snprintf(name, sizeof name, "%s/%02d%s", names[i / 10], i, i % 2 == 0 ? ".png" : "");
        data_png(name, i, 6, 6, 3, 8);
    }
    data_text("cats/LICENSE", "free");
    data_text("cats/.hidden.png", "no picture");
    data_text("notes.txt", "of somebody");
    const data_options wish = data_wish(data_path(""), 3, 6, 4);
    data_loader *d = data_open(&wish);
    assert_int_equal(data_count(d), 30);
    assert_int_equal(data_classes(d), 3);
    assert_string_equal(data_class_name(d, 2), "owls");
    expect_text(data_description(d), "30 PNG and 0 JPEG pictures, 3 classes");
    expect_epochs(d, 3, 6, 4, 2, tens);
    data_close(d);
}

/* 16 bits, transparency, other channels and sizes, 1x1, all in one folder. */
static void test_kinds_of_png(void **state) {
    (void)state;
    data_png("0.png", 0, 6, 6, 3, 16);
    data_png("1.png", 1, 6, 6, 4, 8);
    data_png("2.png", 2, 6, 6, 2, 8);
    data_png("3.png", 3, 1, 1, 1, 8);
    data_png("4.png", 4, 12, 6, 1, 8);
    data_png("5.png", 5, 300, 200, 3, 8);
    builder file = {0}; /* a palette: white and green, of which green is half transparent */
    header(&file, 6, 6, 8, 3, 0);
    chunk(&file, "PLTE", "\xff\xff\xff\x00\xff\x00", 6);
    chunk(&file, "tRNS", "\xff\x80", 2);
    unsigned char pixels[6 * 7] = {0};
    pixels[1] = 1;
    rows(&file, pixels, sizeof pixels);
    save(&file, data_path("6.png"));
    free(file.bytes);

    const data_options wish = data_wish(data_path(""), 3, 6, 0);
    data_loader *d = data_open(&wish);
    assert_int_equal(data_count(d), 7);
    assert_int_equal(data_classes(d), 0);
    float image[7][3][36];
    data_read(d, 0, 7, image[0][0], NULL);
    assert_true(is_picture(image[0][0], 0, 3, 6));
    for (int i = 0; i < 3 * 36; ++i) {
        const int c = i / 36, y = i / 6 % 6, x = i % 6;
        const double alpha_1 = data_value(1, y, x, 3) / 255.0,
                     alpha_2 = data_value(2, y, x, 1) / 255.0;
        const double over_1 = alpha_1 * data_value(1, y, x, c) + (1.0 - alpha_1) * 255.0;
        const double over_2 = alpha_2 * data_value(2, y, x, 0) + (1.0 - alpha_2) * 255.0;
        const double green = c == 1 || i % 36 > 0 ? 255.0 : 255.0 - 0x80;
        const double wanted[7] = {
            0.0, over_1, over_2, data_value(3, 0, 0, 0), data_value(4, y, x + 3, 0), 127.5, green};
        for (int k = 1; k < 7; ++k) {
            const double got = ((double)image[k][c][i % 36] + 1.0) * 127.5;
            /* Picture 5 is a mean of about 1,000 pixels. */
            assert_true(fabs(got - wanted[k]) < (k == 5 ? 25.0 : 1e-3));
        }
    }
    data_close(d);
}

static void test_jpeg(void **state) {
    (void)state;
    data_jpeg("photo", 64, 48);
    if (!uf_picture_has_format(UF_PICTURE_JPEG)) {
        skip();
    }
    for (int channels = 1; channels <= 3; channels += 2) {
        const data_options wish = data_wish(data_path(""), channels, 48, 1);
        data_loader *d = data_open(&wish);
        expect_text(data_description(d), "0 PNG and 1 JPEG pictures");
        const float *image = data_batch(d, 0, NULL);
        for (int i = 0; i < channels * 48 * 48; ++i) {
            const int y = i / 48 % 48, x = i % 48 + 8;
            const double red = data_smooth(64, 48, y, x, 0), green = data_smooth(64, 48, y, x, 1);
            const double wanted = channels == 1 ? 0.299 * red + 0.587 * green + 0.114 * 40.0
                                                : data_smooth(64, 48, y, x, i / (48 * 48));
            assert_true(fabs(((double)image[i] + 1.0) * 127.5 - wanted) < 4.0);
        }
        data_close(d);
    }
}

static void test_hdf5(void **state) {
    (void)state;
    data_hdf5("bytes.h5", "faces/images", 10, 3, 7, 7);
    data_hdf5_labels("bytes.h5", "faces/labels", 10);
    data_hdf5_labels("bytes.h5", "labels", 4); /* of something else */
    data_options wish = data_wish(data_path("bytes.h5"), 3, 7, 3);
    data_loader *d = data_open(&wish);
    assert_int_equal(data_classes(d), 3);
    expect_text(data_description(d), "10 pictures of 7x7 (HDF5, faces/images, u8), 3 classes");
    expect_epochs(d, 3, 7, 3, 4, label_3);
    data_close(d);

    float values[4 * 9], images[4 * 9];
    for (int i = 0; i < 36; ++i) {
        values[i] = (float)(i - 18) / 18.0f;
    }
    assert_ok(uf_hdf5_write(data_path("floats.h5"), "x", UF_F32, UF_SHAPE(4, 1, 3, 3), values));
    wish = data_wish(data_path("floats.h5"), 1, 3, 0);
    wish.dataset = "x";
    d = data_open(&wish);
    data_read(d, 0, 4, images, NULL);
    assert_memory_equal(images, values, sizeof values);
    data_close(d);

    /* Several such datasets: by name. */
    data_hdf5("two.h5", "a", 4, 1, 5, 5);
    data_hdf5("two.h5", "b", 6, 1, 5, 5);
    wish = data_wish(data_path("two.h5"), 1, 5, 2);
    wish.dataset = "b";
    d = data_open(&wish);
    expect_epochs(d, 1, 5, 2, 2, NULL);
    data_close(d);
}

/* Each picture is either held out or trained on, whatever the seed. */
static void test_held_out(void **state) {
    (void)state;
    data_hdf5("all.h5", "images", 100, 1, 4, 4);
    float images[100 * 16], before[100 * 16] = {0};
    for (uint64_t seed = 0; seed < 2; ++seed) {
        bool seen[100] = {false};
        int64_t total = 0;
        data_options wish = data_wish(data_path("all.h5"), 1, 4, 0);
        wish.seed = seed;
        wish.held_out_share = 0.25;
        for (int held = 0; held < 2; ++held) {
            wish.held_out = held != 0;
            data_loader *d = data_open(&wish);
            const int64_t count = data_count(d);
            assert_int_equal(count, held ? 25 : 75);
            expect_text(data_description(d),
                        held ? ", 25 of them held out" : ", 75 of them to train on");
            data_read(d, 0, count, images + total * 16, NULL);
            total += count;
            data_close(d);
        }
        for (int i = 0; i < 100; ++i) {
            int found = 0;
            for (int k = 0; k < 100; ++k) {
                if (is_picture(images + i * 16, k, 1, 4)) {
                    assert_false(seen[k]);
                    seen[k] = true;
                    ++found;
                }
            }
            assert_int_equal(found, 1);
        }
        if (seed > 0) {
            assert_memory_equal(images, before, sizeof images);
        }
        memcpy(before, images, sizeof images);
    }
}

/* Pictures are mirrored or not by chance, and about every other. */
static void test_flip(void **state) {
    (void)state;
    data_hdf5("all.h5", "images", 100, 1, 4, 4);
    data_options wish = data_wish(data_path("all.h5"), 1, 4, 100);
    wish.flip = true;
    data_loader *d = data_open(&wish);
    int mirrored = 0, as_it_is = 0;
    for (int step = 0; step < 4; ++step) {
        const float *images = data_batch(d, step, NULL);
        for (int place = 0; place < 100; ++place) {
            float back[16];
            for (int i = 0; i < 16; ++i) {
                back[i] = images[place * 16 + i / 4 * 4 + 3 - i % 4];
            }
            const int64_t index = data_index(d, step, place);
            as_it_is += is_picture(images + place * 16, index, 1, 4);
            mirrored += is_picture(back, index, 1, 4);
        }
    }
    assert_int_equal(mirrored + as_it_is, 400);
    assert_in_range(mirrored, 160, 240);
    data_close(d);
}

/* Each picture comes to each place of an epoch about as often, for any number of pictures. */
static void test_order(void **state) {
    (void)state;
    for (int64_t count = 1; count <= 12; ++count) {
        char name[16];
        snprintf(name, sizeof name, "%d.h5", (int)count);
        data_hdf5(name, "images", count, 1, 1, 1);
        const data_options wish = data_wish(data_path(name), 1, 1, 1);
        data_loader *d = data_open(&wish);
        const int epochs = 6000;
        int64_t seen[12][12] = {{0}};
        for (int64_t epoch = 0; epoch < epochs; ++epoch) {
            bool there[12] = {false};
            for (int64_t place = 0; place < count; ++place) {
                const int64_t index = data_index(d, epoch * count + place, 0);
                assert_in_range(index, 0, count - 1);
                assert_false(there[index]);
                there[index] = true;
                ++seen[place][index];
            }
        }
        for (int64_t i = 0; i < count * count; ++i) {
            const double mean = (double)epochs / (double)count;
            const double deviation = sqrt(mean * (1.0 - 1.0 / (double)count));
            const double got = (double)seen[i / count][i % count];
            if (!(fabs(got - mean) <= 5.0 * deviation)) {
                fail_msg("picture %d of %d is at place %d %.0f times in %d epochs",
                         (int)(i % count), (int)count, (int)(i / count), got, epochs);
            }
        }
        data_close(d);
    }
}

/* A kept picture needs its file no more; one that is not kept is read again. */
static void test_cache(void **state) {
    (void)state;
    for (int i = 0; i < 8; ++i) {
        char name[16];
        snprintf(name, sizeof name, "%d.png", i);
        data_png(name, i, 10, 10, 1, 8);
    }
    data_options wish = data_wish(data_path(""), 1, 10, 8);
    wish.cache_bytes = 800;
    data_loader *d = data_open(&wish);
    (void)data_batch(d, 0, NULL);
    data_close(d); /* with steps in the making */
    d = data_open(&wish);
    float images[800];
    data_read(d, 0, 8, images, NULL);
    for (int i = 0; i < 8; ++i) {
        char name[16];
        snprintf(name, sizeof name, "%d.png", i);
        data_png(name, 7 - i, 10, 10, 1, 8); /* another picture */
    }
    expect_epochs(d, 1, 10, 8, 3, NULL);
    data_close(d);
    wish.cache_bytes = 799; /* the last one does not fit */
    d = data_open(&wish);
    data_read(d, 0, 8, images, NULL);
    for (int i = 0; i < 8; ++i) {
        char name[16];
        snprintf(name, sizeof name, "%d.png", i);
        data_png(name, 20 + i, 10, 10, 1, 8);
    }
    data_read(d, 0, 8, images, NULL);
    for (int i = 0; i < 8; ++i) {
        assert_true(is_picture(images + i * 100, i < 7 ? 7 - i : 27, 1, 10));
    }
    data_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_idx, data_setup, data_teardown),
        cmocka_unit_test_setup_teardown(test_classes, data_setup, data_teardown),
        cmocka_unit_test_setup_teardown(test_kinds_of_png, data_setup, data_teardown),
        cmocka_unit_test_setup_teardown(test_jpeg, data_setup, data_teardown),
        cmocka_unit_test_setup_teardown(test_hdf5, data_setup, data_teardown),
        cmocka_unit_test_setup_teardown(test_held_out, data_setup, data_teardown),
        cmocka_unit_test_setup_teardown(test_flip, data_setup, data_teardown),
        cmocka_unit_test_setup_teardown(test_order, data_setup, data_teardown),
        cmocka_unit_test_setup_teardown(test_cache, data_setup, data_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
