/* tuning.h - measure once which kernel computes a convolution fastest on this GPU, and keep the
 * answer in a file.
 *
 * Without tuning the library chooses by regime, from times measured in advance. Tuning replaces
 * that choice for exactly the convolutions that were tuned, by what was fastest here; a forced
 * variant beats both. The choice stays a function of the arguments and of the file: the same file
 * gives the same kernels and so the same bits, while two tuning runs may differ where kernels are
 * about as fast.
 *
 * A context's table is filled first, by uf_tuning_conv2d or from a file. It does not change once
 * the context has chosen a kernel from it (by a workspace query, a call or the compilation of a
 * program), because memory was planned for that kernel: tuning and loading then fail with
 * UF_ERROR_STATE. */
#ifndef UNFURL_TUNING_H
#define UNFURL_TUNING_H

#include <unfurl/ops.h>

UF_BEGIN_DECLS

typedef enum uf_conv2d_operation {
    UF_OPERATION_CONV_TRANSPOSE2D_FORWARD = 0,
    UF_OPERATION_CONV_TRANSPOSE2D_BACKWARD_INPUT,
    UF_OPERATION_CONV_TRANSPOSE2D_BACKWARD_WEIGHT,
    UF_OPERATION_CONV2D_FORWARD,
    UF_OPERATION_CONV2D_BACKWARD_INPUT,
    UF_OPERATION_CONV2D_BACKWARD_WEIGHT,
    UF_OPERATION_COUNT
} uf_conv2d_operation;

typedef struct uf_tuning_result {
    size_t struct_size;
    const char *variant,
        *untuned; /* the fastest; the one that the library would have chosen. Static storage */
    double ms, untuned_ms; /* of one call */
    int32_t candidates;    /* how many pairs of a variant and a tile were timed */
    int32_t tile,
        untuned_tile; /* the numbers of their tiles; "variant:tile" as args.variant forces one */
} uf_tuning_result;

/* Time the variants that compute `operation` for the arguments, and tiles of those that are
 * expected to be fastest, and remember the fastest pair in the context's table. The operation, the
 * shapes, the parameters, the element type and the math count; the views are as for the operation's
 * workspace query, and need no data. Tensors and scratch come from the context's allocator and are
 * given back. A pair must be 3 % faster to replace what the library would choose by itself.
 * `result` may be NULL. Takes some tenths of a second; other work on the GPU meanwhile spoils it.
 * Errors: those of the operation; STATE (see above, or the stream is being captured);
 * INVALID_ARGUMENT (a forced variant); OUT_OF_MEMORY; UNSUPPORTED on a CPU context, whose choice is
 * not tuned. */
UF_API UF_NODISCARD uf_status uf_tuning_conv2d_sized(uf_context *context,
                                                     uf_conv2d_operation operation,
                                                     const uf_conv2d_args *args,
                                                     uf_tuning_result *result, size_t result_size);
static inline UF_NODISCARD uf_status uf_tuning_conv2d(uf_context *context,
                                                      uf_conv2d_operation operation,
                                                      const uf_conv2d_args *args,
                                                      uf_tuning_result *result) {
    return uf_tuning_conv2d_sized(context, operation, args, result, sizeof *result);
}

/* How many convolutions the context's table has; 0 on a CPU context. */
UF_API int64_t uf_tuning_count(const uf_context *context);

/* Write the context's table as text, one line for each convolution, in a fixed order.
 * Errors: INVALID_ARGUMENT, NOT_FOUND, IO, OUT_OF_MEMORY; UNSUPPORTED on a CPU context. */
UF_API UF_NODISCARD uf_status uf_tuning_save(const uf_context *context, const char *path);

/* Add what a file has to the context's table; its lines replace those for the same convolutions. A
 * file of another device or library version is ignored with a line in the log, and so is every file
 * on a CPU context: programs may load what they have without asking. A damaged file changes
 * nothing. A tile that a main loop does not have for the tensors of a call is not used: the variant
 * takes the one that it would, with a line in the log. Errors: INVALID_ARGUMENT, NOT_FOUND, IO,
 * FORMAT (with the number of the line), STATE, OUT_OF_MEMORY. */
UF_API UF_NODISCARD uf_status uf_tuning_load(uf_context *context, const char *path);

UF_END_DECLS

#endif
