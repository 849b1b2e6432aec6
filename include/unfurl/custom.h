/* custom.h - an operation of the user's own in a graph. docs/custom-operation.md has an example. */
#ifndef UNFURL_CUSTOM_H
#define UNFURL_CUSTOM_H

#include <unfurl/graph.h>

UF_BEGIN_DECLS

/* A tensor that an operation reads or writes: contiguous, in the context's memory (a GPU's on a
 * CUDA context). */
typedef struct uf_custom_tensor {
    void *data; /* NULL: absent */
    uf_dtype dtype;
    uf_shape shape; /* there in absent ones too */
} uf_custom_tensor;

/* One call of an operation, good until the callback returns. No two tensors share memory. In a
 * program of UF_BF16 values are bf16 (uint16_t). */
typedef struct uf_custom_call {
    size_t struct_size;
    uf_context *context; /* of the program; its device is current in the calling thread */
    void *stream;        /* cudaStream_t on which work is queued; NULL on the CPU */
    bool training;       /* the program's mode is UF_TRAIN here */
    int32_t input_count;
    const uf_custom_tensor *inputs; /* backward: those of backward_reads, the rest absent */
    uf_custom_tensor output;        /* forward writes all of it; backward reads it, if it asked */
    uf_custom_tensor grad_output;   /* backward reads it */
    const uf_custom_tensor *grad_inputs; /* backward overwrites those that are not absent; the
                                            library adds where a gradient has several parts */
    void *workspace;                     /* 256-byte aligned, not initialised */
    size_t workspace_size;               /* at least what `workspace` asked for */
} uf_custom_call;

#define UF_CUSTOM_READS_OUTPUT (UINT32_C(1) << 31)

/* An operation. The callbacks get `user`, which with the functions must be there as long as graphs
 * and programs with the operation. They may run in any thread that compiles or runs, and may call
 * functions of ops.h on call->context; an exception must not leave them. One that fails returns
 * another status than UF_OK: the building or the run ends with it. Its message comes from
 * uf_custom_fail, or from the call of the library that failed; the operation's name is put before.
 *
 * On a GPU a callback queues its work on call->stream. With uf_program_options.capture it is called
 * in the first two runs alone: from then on the work that it queued in the second is replayed. So
 * it must not wait, allocate, or do on the host what has to happen in every run, unless `every_run`
 * says so. */
typedef struct uf_custom_definition {
    size_t struct_size;
    const char *name; /* in messages and tables; 1 to 47 characters, copied */
    void *user;       /* may be NULL */
    /* The output's shape, a pure function of the inputs' shapes. NULL: that of input 0. */
    uf_status (*infer)(void *user, const uf_shape *inputs, int32_t input_count, uf_shape *output);
    uf_status (*forward)(void *user, const uf_custom_call *call);
    uf_status (*backward)(void *user, const uf_custom_call *call); /* NULL: no gradient passes */
    /* Bytes of workspace that forward or backward needs. NULL: none. */
    size_t (*workspace)(void *user, const uf_shape *inputs, int32_t input_count, uf_dtype dtype,
                        bool of_backward);
    uint32_t backward_reads; /* all; bit i: inputs[i], and UF_CUSTOM_READS_OUTPUT. The memory of the
                                others may be used for something else by then */
    bool every_run; /* false; true: called in every run, so that the program is not recorded */
} uf_custom_definition;

static inline uf_custom_definition uf_custom_definition_default(void) {
    uf_custom_definition definition;
    memset(&definition, 0, sizeof definition);
    definition.struct_size = sizeof definition;
    definition.backward_reads = UINT32_MAX;
    return definition;
}

/* Append the operation to a graph; `definition` is copied. 1 to 8 inputs, all of them real. Several
 * definitions may have one name. Memory planning and differentiation treat it like any layer,
 * fusion leaves it alone; the same bits in every run are the callbacks' affair. Errors:
 * INVALID_ARGUMENT (a definition without name or forward), those of `infer`, SHAPE (an output that
 * infer left empty). */
UF_API uf_value uf_custom(uf_graph *graph, const uf_custom_definition *definition,
                          const uf_value *inputs, int32_t count);

/* Set the calling thread's message (NULL: none) and return `status`: for callbacks. */
UF_API uf_status uf_custom_fail(uf_status status, const char *message);

UF_END_DECLS

#endif
