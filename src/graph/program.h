/* program.h - the program's insides, and the stages of compilation in their order:
 *   program.c  the container that the stages fill
 *   compile.c  shapes, parameters and the list of steps      (uf_program_compile)
 *   differentiate.c  the backward steps of the passes
 *   fuse.c     steps folded into the convolution before them
 *   plan.c     where every value lives
 *   bind.c     values and parameters become pointers
 *   run.c      executing the steps                            (uf_program_run) */
#ifndef UF_GRAPH_PROGRAM_H
#define UF_GRAPH_PROGRAM_H

#include <unfurl/program.h>

#include "graph/graph.h"
#include "train/optimizer.h"

/* What a program computes with. Ids below the graph's value_count are the graph's values; the rest was made
 * by compilation (saved statistics, folded scales). */
typedef struct uf_program_value {
    uf_shape shape;
    uf_dtype dtype; /* the program's, but for saved statistics */
    int32_t storage;
} uf_program_value;

/* Memory of one or more values: a value and its reshapes share, as do the two sides of a step that
 * overwrites its input. */
typedef struct uf_storage {
    size_t size;
    int32_t first, last; /* steps that touch it first and last; -1: none */
    bool persistent;     /* keeps its contents between runs: inputs, outputs, folded weights */
    size_t offset;       /* in the arena */
} uf_storage;

typedef enum uf_step_kind {
    UF_STEP_FORWARD = 0,
    UF_STEP_SEED,     /* output (a gradient) = inputs[0] (its seed) */
    UF_STEP_BACKWARD,
    UF_STEP_OPTIMIZE
} uf_step_kind;

typedef struct uf_step {
    uf_step_kind kind;
    const uf_node *node; /* of FORWARD and BACKWARD */
    bool training;
    bool removed; /* fused into another step */
    int32_t inputs[UF_MAX_INPUTS]; /* values; 0: none (one that BACKWARD does not read) */
    int32_t input_count;
    int32_t output;
    int32_t saved[UF_MAX_SAVED];
    int32_t saved_count;
    /* BACKWARD */
    int32_t grad_output;
    int32_t grad_inputs[UF_MAX_INPUTS]; /* values; 0: not wanted */
    uf_write_mode grad_input_modes[UF_MAX_INPUTS];
    uf_tensor *grad_params[UF_MAX_PARAMS]; /* in a store; NULL: not wanted */
    uf_write_mode grad_param_modes[UF_MAX_PARAMS];
    /* fusion: what was behind the node and is now its epilogue */
    const uf_node *scale_node; /* NULL: none */
    int32_t scale, shift;      /* values; 0: none */
    uf_activation activation;
    /* OPTIMIZE */
    struct uf_optimizer *optimizer;
    uf_span *spans; /* owned */
    int32_t span_count;
    uf_exec exec;       /* resolved by compilation */
    uf_exec scale_exec; /* of scale_node, for its fold */
} uf_step;

typedef struct uf_program_io {
    char name[UF_NAME_SIZE];
    int32_t value;
    uf_tensor tensor;
} uf_program_io;

/* What a pass leaves for its user. */
typedef struct uf_program_pass {
    int32_t *gradients; /* per graph value: the value that holds its gradient, or 0 */
    int32_t loss_count;
    int32_t *seeds; /* per loss */
    bool external_seeds;
} uf_program_pass;

struct uf_program {
    uf_object object;
    uf_context *context;
    uf_graph *graph;
    uf_dtype dtype;
    uf_math math;
    uf_mode mode;
    uf_plan plan;
    const uf_program_options *options; /* the caller's, during compilation only */
    uf_program_value *values;
    int32_t value_count, value_capacity;
    uf_storage *storages;
    int32_t storage_count;
    uf_step *steps;
    int32_t step_count, step_capacity;
    int32_t *forward_pass; /* per graph node: the pass that runs it; pass_count: after all; -1: nobody */
    int32_t *forward_step; /* per graph node: its step */
    uf_program_pass *passes;
    int32_t pass_count;
    uf_program_io *borrowed; /* gradients and seeds that the user may ask for */
    int32_t borrowed_count;
    uf_record_kernel_args record; /* the losses; count 0: none */
    uf_program_io *inputs, *outputs;
    int32_t input_count, output_count;
    uf_store **stores; /* every store the steps refer to, once */
    int32_t store_count;
    uf_param_ref *params; /* what the forward steps read; the store is the one that the program uses */
    int64_t param_count, param_capacity;
    bool params_are_given; /* each has been loaded or initialised, as the first run found */
    bool changes_stores; /* has optimizers, or layers that change buffers */
    bool capture;        /* may be recorded by the device */
    void *recording;     /* the device's; NULL: not yet, or never */
    int64_t runs;
    uint64_t folded_version; /* sum of the stores' versions when folded weights were made */
    void *arena;
    size_t arena_size;
    void *workspace;
    size_t workspace_size;
};

/* What the program's object is freed by. */
void uf_program_free(uf_object *object);

/* A new value of the program with storage of its own. */
uf_status uf_program_add_value(uf_program *program, uf_dtype dtype, const uf_shape *shape,
                               bool persistent, int32_t *value);


/* One more step, zeroed; the pointer is good until the next one. */
uf_status uf_program_add_step(uf_program *program, uf_step_kind kind, uf_step **step);

/* Append the forward steps of the nodes that `values` need and that have none yet. */
uf_status uf_program_add_forward(uf_program *program, const int32_t *values, int32_t count,
                                 int32_t pass);

/* Append the backward steps and optimizers of one pass. */
uf_status uf_program_differentiate(uf_program *program, const uf_pass *pass, int32_t index);

/* Note a store that the program uses, once, and check that it fits. */
uf_status uf_program_add_store(uf_program *program, uf_store *store);

/* The store that the program uses where the graph says `store`. */
uf_store *uf_program_store(const uf_program *program, uf_store *store);

/* Fold batch norms and activations into the steps before them. */
uf_status uf_program_fuse(uf_program *program);

/* Assign offsets and allocate the arena. */
uf_status uf_program_plan(uf_program *program);

/* The slot of a parameter in the store that the program uses for it; checks that it fits. */
uf_status uf_program_slot(uf_program *program, const uf_param_ref *ref, int64_t *index);

/* Resolve every step to pointers and allocate the scratch that the hungriest one needs. */
uf_status uf_program_bind(uf_program *program);

/* The value as a view of the arena. */
uf_view uf_program_view(const uf_program *program, int32_t value);

#endif
