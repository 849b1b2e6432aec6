/* h5.c - a thin reader over the HDF5 library. */
#include "support/h5.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hdf5.h>

#include "support/test.h"

h5_file h5_open(const char *path) {
    const hid_t id = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (id < 0) {
        fail_msg("%s cannot be opened", path);
    }
    return (h5_file){(int64_t)id};
}

void h5_close(h5_file file) {
    (void)H5Fclose((hid_t)file.id);
}

int64_t h5_count(h5_file file, const char *group) {
    H5G_info_t info;
    if (H5Gget_info_by_name((hid_t)file.id, group, &info, H5P_DEFAULT) < 0) {
        fail_msg("the reference file has no group %s", group);
    }
    return (int64_t)info.nlinks;
}

void h5_child(h5_file file, const char *group, int64_t index, char *path, int64_t path_size) {
    char name[256];
    if (H5Lget_name_by_idx((hid_t)file.id, group, H5_INDEX_NAME, H5_ITER_INC, (hsize_t)index, name,
                           sizeof name, H5P_DEFAULT) < 0) {
        fail_msg("%s has no member %lld", group, (long long)index);
    }
    (void)snprintf(path, (size_t)path_size, "%s/%s", group, name);
}

bool h5_exists(h5_file file, const char *path) {
    return H5Lexists((hid_t)file.id, path, H5P_DEFAULT) > 0;
}

h5_array h5_read_optional(h5_file file, const char *group, const char *name) {
    h5_array array;
    memset(&array, 0, sizeof array);
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", group, name);
    if (!h5_exists(file, path)) {
        return array;
    }
    const hid_t dataset = H5Dopen2((hid_t)file.id, path, H5P_DEFAULT);
    const hid_t space = H5Dget_space(dataset);
    hsize_t extent[8] = {0};
    array.rank = H5Sget_simple_extent_dims(space, extent, NULL);
    array.count = 1;
    for (int i = 0; i < array.rank; ++i) {
        array.extent[i] = (int64_t)extent[i];
        array.count *= array.extent[i];
    }
    array.values = test_allocate((size_t)array.count * sizeof *array.values);
    const herr_t read =
        H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, array.values);
    (void)H5Sclose(space);
    (void)H5Dclose(dataset);
    if (read < 0 || array.rank < 0) {
        fail_msg("%s cannot be read", path);
    }
    return array;
}

h5_array h5_read(h5_file file, const char *group, const char *name) {
    h5_array array = h5_read_optional(file, group, name);
    if (array.values == NULL) {
        fail_msg("the reference file has no dataset %s/%s", group, name);
    }
    return array;
}

void h5_free(h5_array *array) {
    free(array->values);
    memset(array, 0, sizeof *array);
}

static void read_attribute(h5_file file, const char *group, const char *name, hid_t type,
                           void *values, int64_t count) {
    const hid_t attribute = H5Aopen_by_name((hid_t)file.id, group, name, H5P_DEFAULT, H5P_DEFAULT);
    if (attribute < 0) {
        fail_msg("%s has no attribute %s", group, name);
    }
    const hid_t space = H5Aget_space(attribute);
    const int64_t held = (int64_t)H5Sget_simple_extent_npoints(space);
    const herr_t read = held == count ? H5Aread(attribute, type, values) : -1;
    (void)H5Sclose(space);
    (void)H5Aclose(attribute);
    if (read < 0) {
        fail_msg("%s: attribute %s holds %lld numbers, not %lld", group, name, (long long)held,
                 (long long)count);
    }
}

void h5_attribute_integers(h5_file file, const char *group, const char *name, int64_t *values,
                           int64_t count) {
    read_attribute(file, group, name, H5T_NATIVE_INT64, values, count);
}

double h5_attribute_real(h5_file file, const char *group, const char *name) {
    double value = 0.0;
    read_attribute(file, group, name, H5T_NATIVE_DOUBLE, &value, 1);
    return value;
}
