/* autotune.h - a table from convolutions to the variants that were fastest, and its file. Needs no
 * GPU and no toolkit; select/autotune_run.c fills it by measuring. */
#ifndef UF_KERNELS_CUDA_CONV_SELECT_AUTOTUNE_H
#define UF_KERNELS_CUDA_CONV_SELECT_AUTOTUNE_H

#include "kernels/cuda/conv/select/choose.h"

UF_BEGIN_DECLS

/* A choice depends on these and on the device: integers without gaps, so that keys compare as
 * memory. Strides of the views are not in it: tuning is about geometry, and a variant is asked
 * whether it takes the arguments. */
typedef struct uf_conv_key {
    int64_t direction, dtype, math;
    int64_t n, c, h, w, k, p, q, r, s;
    int64_t stride[2], padding[2], dilation[2], groups;
} uf_conv_key;

typedef struct uf_conv_tuned {
    uf_conv_key key;
    uf_cuda_conv_variant variant;
    int tile; /* of the main loop that computes it, or UF_CONV_ANY_TILE */
    double ms;
} uf_conv_tuned;

/* Rows are in the order of their keys. All zero is an empty table. */
typedef struct uf_conv_tuning {
    uf_conv_tuned *rows;
    int64_t count, room;
    bool used; /* a choice was made: the table does not change any more */
} uf_conv_tuning;

void uf_conv_tuning_release(uf_conv_tuning *tuning);

uf_conv_key uf_conv_key_of(uf_conv_direction direction, const uf_conv_kernel_args *args);

/* The row of a convolution, or NULL. Allocates nothing. */
const uf_conv_tuned *uf_conv_tuning_find(const uf_conv_tuning *tuning, const uf_conv_key *key);

/* Add a row, or replace the one with its key. Errors: OUT_OF_MEMORY. */
uf_status uf_conv_tuning_set(uf_conv_tuning *tuning, const uf_conv_tuned *row);

/* Errors: STATE when the table has been used. */
uf_status uf_conv_tuning_check_unused(const uf_conv_tuning *tuning);

/* A variant and a tile that a convolution may be tuned to. */
typedef struct uf_conv_candidate {
    uf_cuda_conv_variant variant;
    int tile;
    double microseconds; /* estimated */
    size_t workspace;
} uf_conv_candidate;

enum {
    UF_CONV_MORE_TILES = 16, /* candidates whose tile a variant would not take by itself, at most */
    UF_CONV_CANDIDATES = UF_CUDA_CONV_VARIANTS + UF_CONV_MORE_TILES
};

/* select/candidates.c: the library's own choice; each other variant that takes the problem, with
 * the tile that it takes by itself; then further tiles, those of least estimate, of the variants of
 * least estimate. Gives their number; 0: args->variant is forced. */
int uf_conv_candidates(const uf_conv_problem *problem, uf_conv_candidate list[UF_CONV_CANDIDATES]);

/* select/autotune_file.c. `device` is the context's description; a file of another device or
 * version is left alone, and
 * `*ignored` says why (else it is NULL). On an error the table is as it was. */
uf_status uf_conv_tuning_write(const uf_conv_tuning *tuning, const char *device, const char *path);
uf_status uf_conv_tuning_read(uf_conv_tuning *tuning, const char *device, const char *path,
                              const char **ignored);

UF_END_DECLS

#endif
