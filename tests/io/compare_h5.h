/* compare_h5.h - the library's own reader of HDF5 beside libhdf5. */
#ifndef TEST_IO_COMPARE_H5_H
#define TEST_IO_COMPARE_H5_H

#include "io/tensor_file.h"

/* How many differences a file has, each told on stderr: in datasets, their values, attributes. */
int64_t compare_h5(const char *path);

#endif
