#include "io/fixture.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[64];
static int saved_stderr = -1;

static int for_each_file(void (*visit)(const char *path)) {
    DIR *open = opendir(directory);
    int count = 0;
    assert_non_null(open);
    for (const struct dirent *entry = readdir(open); entry != NULL; entry = readdir(open)) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        ++count;
        if (visit != NULL) {
            visit(fixture_path(entry->d_name));
        }
    }
    closedir(open);
    return count;
}

static void delete_file(const char *path) {
    (void)remove(path);
}

int fixture_setup(void **state) {
    (void)state;
    snprintf(directory, sizeof directory, "/tmp/unfurl-io-XXXXXX");
    return mkdtemp(directory) == NULL;
}

int fixture_teardown(void **state) {
    (void)state;
    for_each_file(delete_file);
    return rmdir(directory);
}

const char *fixture_path(const char *name) {
    static char paths[8][512];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

int fixture_count(void) {
    return for_each_file(NULL);
}

void fixture_bytes(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

unsigned char *fixture_read(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    struct stat info;
    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &info), 0);
    *size = (size_t)info.st_size;
    unsigned char *bytes = test_allocate(*size + 1);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

void fixture_truncate(const char *path, int64_t size) {
    assert_int_equal(truncate(path, size), 0);
}

hid_t fixture_create(const char *path) {
    const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(file >= 0);
    return file;
}

void fixture_dataset(hid_t file, const char *name, hid_t stored, hid_t memory, int rank,
                     const hsize_t *dims, const void *data) {
    const hid_t links = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_create_intermediate_group(links, 1);
    const hid_t space = rank == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(rank, dims, NULL);
    const hid_t id = H5Dcreate2(file, name, stored, space, links, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(id >= 0);
    if (data != NULL) {
        assert_true(H5Dwrite(id, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0);
    }
    H5Dclose(id);
    H5Sclose(space);
    H5Pclose(links);
}

void fixture_ramp(hid_t file, const char *name, int rank, const hsize_t *dims) {
    size_t count = 1;
    for (int i = 0; i < rank; ++i) {
        count *= (size_t)dims[i];
    }
    float *values = test_allocate((count + 1) * sizeof *values);
    for (size_t i = 0; i < count; ++i) {
        values[i] = (float)(i + 1);
    }
    fixture_dataset(file, name, H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, rank, dims, values);
    free(values);
}

void fixture_strings(hid_t file, const char *name) {
    const hid_t type = H5Tcopy(H5T_C_S1);
    const hsize_t two = 2;
    H5Tset_size(type, 4);
    fixture_dataset(file, name, type, type, 1, &two, "abc\0def");
    H5Tclose(type);
}

hid_t fixture_float16(size_t exponent, size_t bias, H5T_order_t order) {
    const hid_t type = H5Tcopy(H5T_IEEE_F32LE);
    H5Tset_fields(type, 15, 15 - exponent, exponent, 0, 15 - exponent);
    H5Tset_precision(type, 16);
    H5Tset_size(type, 2);
    H5Tset_ebias(type, bias);
    H5Tset_order(type, order);
    return type;
}

void fixture_watch_stderr(void) {
    fflush(stderr);
    saved_stderr = dup(STDERR_FILENO);
    assert_non_null(freopen(fixture_path("stderr.txt"), "w", stderr));
}

int64_t fixture_printed(void) {
    struct stat info;
    fflush(stderr);
    assert_int_equal(fstat(fileno(stderr), &info), 0);
    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
    remove(fixture_path("stderr.txt"));
    return info.st_size;
}

static void on_log(void *user, uf_log_level level, const char *line) {
    (void)level;
    fixture_log *log = user;
    const size_t used = strlen(log->text);
    snprintf(log->text + used, sizeof log->text - used, "%s\n", line);
    log->lines += 1;
}

uf_context *fixture_context(fixture_log *log) {
    uf_context_options options = uf_context_options_default();
    uf_context *context;
    options.device = UF_DEVICE_CPU;
    options.threads = 1;
    if (log != NULL) {
        memset(log, 0, sizeof *log);
        options.log = on_log;
        options.log_user = log;
    }
    assert_ok(uf_context_create(&options, &context));
    return context;
}

void fixture_declare(uf_store *store, const char *name, uf_shape shape, uf_role role) {
    assert_ok(uf_store_declare(store, name, shape, role));
}

void fixture_values(uf_store *store, const char *name, double *values, int64_t count) {
    uf_tensor *tensor;
    assert_ok(uf_store_tensor(store, name, &tensor));
    assert_ok(uf_tensor_download_as(tensor, UF_F64, values, count));
}
