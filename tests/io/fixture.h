/* fixture.h - a directory of a test's own, and small HDF5 files in it made with HDF5 alone. */
#ifndef TEST_IO_FIXTURE_H
#define TEST_IO_FIXTURE_H

#include <hdf5.h>

#include "support/test.h"

/* cmocka group setup and teardown: make and remove the directory. */
int fixture_setup(void **state);
int fixture_teardown(void **state);

/* The path of `name` in the directory; one of eight buffers used in turn. */
const char *fixture_path(const char *name);

/* How many files the directory holds. */
int fixture_count(void);

void fixture_bytes(const char *path, const void *bytes, size_t size);
/* The whole file; freed by free(). */
unsigned char *fixture_read(const char *path, size_t *size);
void fixture_truncate(const char *path, int64_t size);

hid_t fixture_create(const char *path);

/* Add a dataset; intermediate groups are made. dims: `rank` extents. `data` NULL writes nothing. */
void fixture_dataset(hid_t file, const char *name, hid_t stored, hid_t memory, int rank,
                     const hsize_t *dims, const void *data);

/* One f32 dataset of a shape, values 1, 2, 3... */
void fixture_ramp(hid_t file, const char *name, int rank, const hsize_t *dims);

/* Fixed-length strings. */
void fixture_strings(hid_t file, const char *name);

/* A 16-bit float type with `exponent` bits, in either byte order. */
hid_t fixture_float16(size_t exponent, size_t bias, H5T_order_t order);

/* stderr goes to a file from here... */
void fixture_watch_stderr(void);
/* ...to here; returns how many bytes were printed. */
int64_t fixture_printed(void);

/* What the library told the log, a line each, joined by newlines. */
typedef struct fixture_log {
    char text[8192];
    int lines;
} fixture_log;
uf_context *fixture_context(fixture_log *log);

/* A store that is declared like this: a pair of name and shape each. */
void fixture_declare(uf_store *store, const char *name, uf_shape shape, uf_role role);

/* A tensor's values as doubles. */
void fixture_values(uf_store *store, const char *name, double *values, int64_t count);

#endif
