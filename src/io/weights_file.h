/* weights_file.h - the insides of an open file of weights. */
#ifndef UF_IO_WEIGHTS_FILE_H
#define UF_IO_WEIGHTS_FILE_H

#include "io/tensor_file.h"

struct uf_weights_file {
    uf_tensor_file file;
    char *path;
    uf_file_attributes metadata; /* each is one text */
};

#endif
