/* data_fixture.h - pictures of every kind in a folder of the test's own. */
#ifndef TEST_EXAMPLES_DATA_FIXTURE_H
#define TEST_EXAMPLES_DATA_FIXTURE_H

#include "common/common.h"
#include "common/data.h"
#include "support/test.h"

/* cmocka setup and teardown of each test: a folder, removed with all that is in it. */
int data_setup(void **state);
int data_teardown(void **state);

/* A path in the folder; one of eight buffers used in turn. Empty: the folder. */
const char *data_path(const char *name);
void data_folder(const char *name); /* made */
void data_text(const char *name, const char *text);
void data_cut(const char *name, int64_t bytes); /* taken off the end */

/* Sample c of pixel (y, x) of picture `index`: looks like noise, the same everywhere. */
uint8_t data_value(int64_t index, int64_t y, int64_t x, int c);

/* Picture `index` of data_value; 1 to 4 channels, 8 or 16 bits (each byte twice). */
void data_png(const char *name, int64_t index, int64_t width, int64_t height, int channels,
              int depth);

/* A smooth picture: red grows with x, green with y, blue is 40. */
void data_jpeg(const char *name, int64_t width, int64_t height);
double data_smooth(int64_t width, int64_t height, int64_t y, int64_t x, int c);

/* An IDX file of pictures 0 .. count - 1 or of labels index % 10. The header says `claimed`. */
void data_idx_images(const char *name, int64_t count, int64_t claimed, int64_t height,
                     int64_t width);
void data_idx_labels(const char *name, int64_t count, int64_t claimed);

/* Pictures 0 .. count - 1 as u8. */
void data_hdf5(const char *name, const char *dataset, int64_t count, int64_t channels,
               int64_t height, int64_t width);
void data_hdf5_labels(const char *name, const char *dataset, int64_t count);

/* Options for what lies at `path`, kept by the caller. */
data_options data_wish(const char *path, int64_t channels, int64_t size, int64_t batch);

#endif
