/* foreign.h - files and names of others that are taken for weights, and what makes weights of
 * them. Needs nothing of the library: the `unfurl` command compiles it too. */
#ifndef UF_IO_FOREIGN_H
#define UF_IO_FOREIGN_H

#include <stddef.h>

/* Bytes of a file's beginning that tell its format. */
#define UF_FOREIGN_HEAD 256

typedef struct uf_foreign {
    const char
        *what; /* "a PyTorch checkpoint"; of a name its maker, "torch.nn.utils.weight_norm" */
    const char *remedy; /* "in Python: " and a line of it, or what of our own reads the file; of a
                           name to be run before the export, with the network in `model` */
} uf_foreign;

/* The format of a file that is no HDF5 file, by its first bytes; NULL when it is not known. */
const uf_foreign *uf_foreign_file(const void *head, size_t size);

/* The maker of a dataset whose name, a path with slashes or dots, no network of unfurl has; NULL
 * for any other. */
const uf_foreign *uf_foreign_name(const char *name);

#endif
