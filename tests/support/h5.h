/* h5.h - reads PyTorch's reference results, with HDF5 alone: the library's own reader is under test
 * too. */
#ifndef TEST_SUPPORT_H5_H
#define TEST_SUPPORT_H5_H

#include <stdbool.h>
#include <stdint.h>

typedef struct h5_file {
    int64_t id; /* an hid_t */
} h5_file;

typedef struct h5_array {
    int rank;
    int64_t extent[8];
    int64_t count;
    double *values; /* NULL when there is no such dataset */
} h5_array;

/* Fails the test when the file is not there. */
h5_file h5_open(const char *path);
void h5_close(h5_file file);

/* How many groups or datasets `group` holds, and the path of one of them ("conv2d/003"). */
int64_t h5_count(h5_file file, const char *group);
void h5_child(h5_file file, const char *group, int64_t index, char *path, int64_t path_size);

bool h5_exists(h5_file file, const char *path);

/* A dataset as doubles; `group` and `name` are joined. h5_read fails the test when it is not there,
 * h5_read_optional gives values == NULL. */
h5_array h5_read(h5_file file, const char *group, const char *name);
h5_array h5_read_optional(h5_file file, const char *group, const char *name);
void h5_free(h5_array *array);

/* `count` numbers of an attribute; fails the test when it is not there. */
void h5_attribute_integers(h5_file file, const char *group, const char *name, int64_t *values,
                           int64_t count);
double h5_attribute_real(h5_file file, const char *group, const char *name);

#endif
