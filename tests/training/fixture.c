/* fixture.c - makes the files, good and bad, that the scripts here feed to commands.
 *
 *   training_fixture perturb FILE.h5 DATASET    change the first element by 1% (and 0.01)
 *   training_fixture relu FILE.h5 X Y Z         the case activation/relu of inputs X and 2,
 * expected to give Y and Z training_fixture add FILE.h5 GROUP          a case of another kind:
 * GROUP/input, three numbers; the file is made if it is not there training_fixture attribute
 * FILE.h5 GROUP NAME VALUE     one number, in place of what is there training_fixture idx FILE.gz
 * COUNT SIDE     COUNT images of SIDE x SIDE with shapes in them, as MNIST's are training_fixture
 * cut FILE BYTES             keep the first BYTES only */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

static int fail(const char *what) {
    fprintf(stderr, "training_fixture: %s failed\n", what);
    return 1;
}

static int perturb(const char *path, const char *name) {
    const hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    const hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT);
    const hid_t space = H5Dget_space(dataset);
    const hssize_t count = H5Sget_simple_extent_npoints(space);
    double *values = count > 0 ? malloc((size_t)count * sizeof *values) : NULL;
    if (values == NULL ||
        H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0) {
        return fail("reading the dataset");
    }
    values[0] = values[0] * 1.01 + 0.01;
    const herr_t status =
        H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
    free(values);
    H5Sclose(space);
    H5Dclose(dataset);
    return status < 0 || H5Fclose(file) < 0 ? fail("writing the dataset") : 0;
}

/* Add a dataset and the groups that it lies in; the file is made if it is not there. */
static int add_values(const char *path, const char *name, hsize_t count, const double *values) {
    const hid_t file = access(path, F_OK) == 0
                           ? H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT)
                           : H5Fcreate(path, H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t create = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_create_intermediate_group(create, 1);
    const hid_t space = H5Screate_simple(1, &count, NULL);
    const hid_t dataset =
        H5Dcreate2(file, name, H5T_NATIVE_DOUBLE, space, create, H5P_DEFAULT, H5P_DEFAULT);
    const herr_t status =
        H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
    H5Dclose(dataset);
    H5Sclose(space);
    H5Pclose(create);
    return status < 0 || H5Fclose(file) < 0 ? fail("adding a dataset") : 0;
}

static int add(const char *path, const char *group) {
    static const double values[3] = {1.0, 2.0, 3.0};
    char name[256];
    (void)snprintf(name, sizeof name, "%s/input", group);
    return add_values(path, name, 3, values);
}

/* No gradient comes to the first element: that of a NaN would not be agreed upon. */
static int relu(char **words) {
    const double input[2] = {strtod(words[1], NULL), 2.0};
    const double output[2] = {strtod(words[2], NULL), strtod(words[3], NULL)};
    static const double gradient[2] = {0.0, 1.0};
    return add_values(words[0], "activation/relu/input", 2, input) +
           add_values(words[0], "activation/relu/output", 2, output) +
           add_values(words[0], "activation/relu/grad_output", 2, gradient) +
           add_values(words[0], "activation/relu/grad_input", 2, gradient);
}

static int attribute(const char *path, const char *group, const char *name, const char *value) {
    const double number = strtod(value, NULL);
    const hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    const hid_t object = H5Oopen(file, group, H5P_DEFAULT);
    const hid_t space = H5Screate(H5S_SCALAR);
    const herr_t removed = H5Adelete(object, name);
    const hid_t made = H5Acreate2(object, name, H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT);
    const herr_t status = H5Awrite(made, H5T_NATIVE_DOUBLE, &number);
    H5Aclose(made);
    H5Sclose(space);
    H5Oclose(object);
    return removed < 0 || status < 0 || H5Fclose(file) < 0 ? fail("writing the attribute") : 0;
}

/* Rectangles that differ from image to image. */
static int idx(const char *path, long count, long side) {
    unsigned char header[16] = {0, 0, 8, 3};
    const long extent[3] = {count, side, side};
    for (int i = 0; i < 12; ++i) {
        header[4 + i] = (unsigned char)(extent[i / 4] >> (8 * (3 - i % 4)) & 0xff);
    }
    gzFile file = gzopen(path, "wb");
    if (file == NULL || gzwrite(file, header, sizeof header) != (int)sizeof header) {
        return fail("writing the header");
    }
    for (long i = 0; i < count * side * side; ++i) {
        const long image = i / (side * side), y = i / side % side, x = i % side;
        const int inside =
            y >= image % 5 && y < side - image % 3 && x >= image % 7 && x < side - image % 4;
        if (gzputc(file, inside ? 255 - (int)(image % 40) : 0) < 0) {
            return fail("writing an image");
        }
    }
    return gzclose(file) == Z_OK ? 0 : fail("closing the file");
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "perturb") == 0) {
        return perturb(argv[2], argv[3]);
    }
    if (argc == 6 && strcmp(argv[1], "relu") == 0) {
        return relu(argv + 2);
    }
    if (argc == 4 && strcmp(argv[1], "add") == 0) {
        return add(argv[2], argv[3]);
    }
    if (argc == 6 && strcmp(argv[1], "attribute") == 0) {
        return attribute(argv[2], argv[3], argv[4], argv[5]);
    }
    if (argc == 5 && strcmp(argv[1], "idx") == 0) {
        return idx(argv[2], strtol(argv[3], NULL, 10), strtol(argv[4], NULL, 10));
    }
    if (argc == 4 && strcmp(argv[1], "cut") == 0) {
        return truncate(argv[2], strtol(argv[3], NULL, 10)) == 0 ? 0 : fail("cutting the file");
    }
    fprintf(stderr, "training_fixture: see the first lines of its source\n");
    return 2;
}
