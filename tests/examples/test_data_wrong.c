/* test_data_wrong.c - wrong data end the program with status 1 and one sentence that names them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "examples/data_fixture.h"
#include "io/fixture.h"

/* In a child: open, take `steps` batches or, with 0, read all that there is. */
static void use(const data_options *wish, int64_t steps) {
    data_loader *d = data_open(wish);
    for (int64_t step = 0; step < steps; ++step) {
        (void)data_batch(d, step, NULL);
    }
    float *image =
        test_allocate(sizeof(float) * (size_t)(wish->channels * wish->size * wish->size));
    for (int64_t i = 0; steps == 0 && i < data_count(d); ++i) {
        data_read(d, i, 1, image, NULL);
    }
    free(image);
    data_close(d);
}

/* The child must end with status 1 after one line that begins with the program's name and holds
 * every one of the words. */
static void expect_end(const data_options *wish, int64_t steps, const char *const *words) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        use(wish, steps);
        _exit(0);
    }
    close(ends[1]);
    char text[8192] = "";
    size_t have = 0;
    for (ssize_t got; (got = read(ends[0], text + have, sizeof text - 1 - have)) > 0;) {
        have += (size_t)got;
    }
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 1) {
        fail_msg("status %#x and \"%s\" where %s was expected", (unsigned)status, text, words[0]);
    }
    const char *newline = strchr(text, '\n');
    if (newline == NULL || newline[1] != '\0' || strncmp(text, "test_data: ", 11) != 0) {
        fail_msg("not one sentence: \"%s\"", text);
    }
    for (int i = 0; words[i] != NULL; ++i) {
        if (strstr(text, words[i]) == NULL) {
            fail_msg("no \"%s\" in \"%s\"", words[i], text);
        }
    }
}

/* A source, named relative to the test's folder, and words of the sentence. */
#define EXPECT_END(name, ...)                                                                      \
    do {                                                                                           \
        const data_options expect_wish = data_wish(data_path(name), 1, 8, 4);                      \
        expect_end(&expect_wish, 0, (const char *const[]){__VA_ARGS__, NULL});                     \
    } while (0)

static void test_paths(void **state) {
    (void)state;
    EXPECT_END("nowhere", "cannot open", "/nowhere: No such file or directory; ",
               "Debian's dataset-fashion-mnist");
    EXPECT_END("", "holds no pictures", "neither Fashion-MNIST's files nor PNG or JPEG pictures");
    data_folder("empty");
    EXPECT_END("", "holds no pictures");
    data_text("text", "a list of words");
    EXPECT_END("text", "/text is neither a folder nor an HDF5 file");
    EXPECT_END("", "holds no pictures");
    data_text("control\001\033[2J.png", "no picture");
    EXPECT_END("", "control\\x01\\x1b[2J.png is neither a PNG nor a JPEG picture");
}

static void test_pictures(void **state) {
    (void)state;
    for (int i = 0; i < 3; ++i) {
        data_png((const char *[]){"1.png", "2.png", "3.png"}[i], i, 9, 9, 3, 8);
    }
    EXPECT_END("", "has 3 pictures, fewer than one batch of 4");
    data_text("text.png", "these are no pixels");
    EXPECT_END("", "/text.png is neither a PNG nor a JPEG picture");
    unlink(data_path("text.png"));
    data_text("text.JPEG", "");
    EXPECT_END("", "/text.JPEG is neither a PNG nor a JPEG picture");
    unlink(data_path("text.JPEG"));
    data_folder("class");
    data_png("class/1.png", 5, 9, 9, 3, 8);
    EXPECT_END("", "holds 3 pictures beside 1 folders of pictures");
    unlink(data_path("class/1.png"));
    data_png("4.png", 4, 9, 9, 3, 8);
    data_cut("4.png", 20);
    EXPECT_END("", "/4.png", "truncated");
    data_jpeg("4.png", 64, 64);
    if (uf_picture_has_format(UF_PICTURE_JPEG)) {
        data_cut("4.png", 200);
        EXPECT_END("", "/4.png is damaged or truncated (libjpeg: ");
        data_cut("4.png", 500);
        EXPECT_END("", "/4.png is damaged or truncated (libjpeg: ");
    } else {
        EXPECT_END("", "/4.png is a JPEG picture", "this build reads none");
    }
    data_png("4.png", 4, 9, 9, 3, 8);
    data_options wish = data_wish(data_path(""), 1, 8, 4);
    wish.held_out = true;
    expect_end(&wish, 0, (const char *const[]){"a share of 0 leaves none to hold out", NULL});
    wish.held_out = false;
    wish.held_out_share = 1.0;
    expect_end(&wish, 0, (const char *const[]){"a share of 1 leaves none to train on", NULL});
    wish.held_out_share = 1.5;
    expect_end(&wish, 0, (const char *const[]){"a share that is not 0 to 1", NULL});
}

/* One of many is damaged: its name, for any number of threads. */
static void test_one_of_many(void **state) {
    (void)state;
    char name[32];
    for (int i = 0; i < 70; ++i) {
        snprintf(name, sizeof name, "%02d.png", i);
        data_png(name, i, 9, 9, 1, 8);
    }
    data_cut("47.png", 15);
    static const int threads[] = {1, 8};
    for (int i = 0; i < 2; ++i) {
        data_options wish = data_wish(data_path(""), 1, 8, 10);
        wish.threads = threads[i];
        expect_end(&wish, 7, (const char *const[]){"/47.png", "truncated", NULL});
    }
}

static void test_idx(void **state) {
    (void)state;
    const char *images = "train-images-idx3-ubyte.gz", *labels = "train-labels-idx1-ubyte.gz";
    data_text(images, "not even gzip, which zlib reads as it is");
    EXPECT_END("", images, "is no IDX file of images (it should begin with 00 00 08 03)");
    data_text(images, "");
    EXPECT_END("", images, "is no IDX file of images");
    data_idx_images(images, 0, 0, 8, 8);
    EXPECT_END("", images, "its header has sizes that no data set of images has");
    data_idx_images(images, 0, 5, 8, 70000);
    EXPECT_END("", images, "its header has sizes that no data set of images has");
    data_idx_images(images, 0, INT64_C(4000000000), 16000, 16000);
    EXPECT_END("", images, "1024000000000000000 bytes of images do not fit into a file of");
    data_idx_images(images, 10, 11, 8, 8);
    EXPECT_END("", images, "it ends 64 bytes before its last of 11 images");
    data_idx_images(images, 10, 9, 8, 8);
    EXPECT_END("", images, "holds more than the 9 images of its header");
    data_idx_images(images, 10, 10, 8, 8);
    data_cut(images, 200);
    EXPECT_END("", images, "is truncated or damaged: it ends ");
    data_idx_images(images, 10, 10, 8, 8);
    data_cut(images, 5);
    EXPECT_END("", images, "is truncated or damaged: its checksum is wrong or missing");
    data_idx_images(images, 10, 10, 8, 8);
    data_idx_labels(labels, 9, 9);
    EXPECT_END("", labels, "has 9 labels for 10 images");
    data_idx_labels(labels, 9, 10);
    EXPECT_END("", labels, "it ends 1 bytes before its last of 10 labels");
    data_idx_images(labels, 10, 10, 8, 8);
    EXPECT_END("", labels, "is no IDX file of labels (it should begin with 00 00 08 01)");
    unlink(data_path(labels));
    data_options wish = data_wish(data_path(""), 1, 8, 4);
    wish.held_out = true;
    expect_end(&wish, 0, (const char *const[]){"cannot open", "/t10k-images-idx3-ubyte.gz", NULL});
}

static void test_hdf5(void **state) {
    (void)state;
    data_hdf5_labels("a.h5", "labels", 10);
    EXPECT_END("a.h5", "has no dataset of four axes (N, C, H, W)");
    data_hdf5("a.h5", "images", 10, 2, 5, 5);
    EXPECT_END("a.h5", "images in ", "is (10, 2, 5, 5): pictures have 1 or 3 channels");
    data_hdf5("a.h5", "more", 10, 1, 5, 5);
    EXPECT_END("a.h5", "has several datasets of pictures, images and more");
    data_options wish = data_wish(data_path("a.h5"), 1, 8, 4);
    wish.dataset = "faces";
    expect_end(&wish, 0, (const char *const[]){"/a.h5 has no dataset faces", NULL});
    wish.dataset = "labels";
    expect_end(&wish, 0, (const char *const[]){"labels in ", "is no dataset of pictures", NULL});
    data_hdf5("b.h5", "images", 10, 1, 5, 5);
    data_hdf5_labels("b.h5", "labels", 9);
    EXPECT_END("b.h5", "labels in ", "has 9 labels for 10 pictures");
    data_cut("b.h5", 300);
    EXPECT_END("b.h5", "/b.h5");
    float values[4] = {0.0f, 1.0f, -1.0f, 1.5f};
    assert_ok(uf_hdf5_write(data_path("c.h5"), "x", UF_F32, UF_SHAPE(4, 1, 1, 1), values));
    EXPECT_END("c.h5", "x in ", "has the value 1.5; floats of pictures are -1..1");
    const int64_t wide[4] = {1, 2, 3, 4};
    assert_ok(uf_hdf5_write(data_path("d.h5"), "x", UF_I64, UF_SHAPE(4, 1, 1, 1), wide));
    EXPECT_END("d.h5", "x in ", "is of type i64: pictures are u8 of 0..255 or floats of -1..1");
    data_hdf5("e.h5", "images", 4, 1, 5, 5);
    const hid_t file = H5Fopen(data_path("e.h5"), H5F_ACC_RDWR, H5P_DEFAULT);
    fixture_dataset(file, "labels", H5T_STD_I64LE, H5T_NATIVE_INT64, 1, (const hsize_t[]){4},
                    (const int64_t[]){0, 1, -2, 3});
    H5Fclose(file);
    EXPECT_END("e.h5", "/e.h5: the label of picture 2 is -2");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_paths, data_setup, data_teardown),
        cmocka_unit_test_setup_teardown(test_pictures, data_setup, data_teardown),
        cmocka_unit_test_setup_teardown(test_one_of_many, data_setup, data_teardown),
        cmocka_unit_test_setup_teardown(test_idx, data_setup, data_teardown),
        cmocka_unit_test_setup_teardown(test_hdf5, data_setup, data_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
