/* program.h - the program's insides, and the stages of compilation in their order:
 *   program.c  the container that the stages fill
 *   compile.c  shapes, parameters and the list of steps      (uf_program_compile)
 *   differentiate.c  the backward steps of the passes
 *   fuse.c     steps folded into the convolution before them
 *   upsample.c nearest upsampling folded into the convolution behind it
 *   cast.c     copies of parameters that a bf16 program reads, written by its optimizers
 *   plan.c     where every value lives
 *   slice.c    values that lie inside others
 *   place.c    offsets for memory that lives for a while
 *   bind.c     values and parameters become pointers
 *   pack.c     packed weights that are kept, or shared by several steps
 *   run.c      executing the steps                            (uf_program_run)
 *   profile.c, nonfinite.c  the same, watched                 (inspect.h)
 *   random.c   the step that random numbers are drawn by */
#ifndef UF_GRAPH_PROGRAM_H
#define UF_GRAPH_PROGRAM_H

#include <unfurl/program.h>

#include "graph/graph.h"
#include "optim/ema.h"
#include "optim/optimizer.h"

/* A value of a program. Ids below the graph's value_count are the graph's values; the rest
 * was made by compilation (saved statistics, folded scales). */
typedef struct uf_program_value {
    uf_shape shape;
    uf_dtype dtype; /* the program's, but for saved statistics and the losses of bf16 */
    int32_t storage;
    size_t offset; /* in the storage, bytes */
    int64_t pitch; /* elements from image to image where there are gaps; 0: none */
} uf_program_value;

/* Memory of one or more values: a value and its reshapes share, as do the two sides of a step that
 * overwrites its input, and the parts of a value with the whole. */
typedef struct uf_storage {
    size_t size;
    int32_t first, last; /* steps that touch it first and last; -1: none */
    int32_t holder;      /* the storage that took it over, or its own number */
    bool persistent;     /* keeps its contents between runs: inputs, outputs, folded weights */
    size_t offset;       /* in the arena */
} uf_storage;

typedef enum uf_step_kind {
    UF_STEP_FORWARD = 0,
    UF_STEP_SEED, /* output (a gradient) = inputs[0] (its seed) */
    UF_STEP_CAST, /* output (bf16) = source (a parameter, f32) */
    UF_STEP_BACKWARD,
    UF_STEP_ZERO,    /* gradients in `store` that no step writes = 0 */
    UF_STEP_SQUARES, /* of the gradients in `store`, for CLIP */
    UF_STEP_CLIP,
    UF_STEP_OPTIMIZE,
    UF_STEP_AVERAGE
} uf_step_kind;

typedef struct uf_step {
    uf_step_kind kind;
    const uf_node *node; /* of FORWARD and BACKWARD */
    uf_node *own_node;   /* the same where it is not the graph's; owned */
    bool training;
    bool removed;        /* fused into another step */
    bool kept;           /* its output is kept between runs while no store changes but by its own
                            optimizers, which write it along */
    uf_param_ref source; /* CAST */
    /* Values that the node reads in place of its parameters; 0: the parameter itself. */
    int32_t params[UF_MAX_PARAMS];
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
    /* fusion: what was behind the node and is now its epilogue; BACKWARD has the activation only */
    const uf_node *scale_node; /* NULL: none */
    int32_t scale, shift;      /* values; 0: none */
    uf_activation activation;
    /* ZERO, SQUARES, CLIP */
    const uf_store *store;
    uf_clip_kernel_args clip;
    struct uf_ema *ema; /* AVERAGE */
    /* OPTIMIZE; output: copies in bf16 of the parameters, or 0 */
    struct uf_optimizer *optimizer;
    int64_t first_copied; /* the element of the store's parameters that output begins with */
    uf_span *spans;       /* owned; of ZERO, SQUARES and CLIP too */
    int32_t span_count;
    uf_exec exec;        /* resolved by compilation */
    uf_exec *scale_exec; /* of scale_node, for its fold; owned, NULL without one */
    int32_t packed; /* in `packs`; -1: its convolution packs its weight for itself, if at all */
} uf_step;

/* The packed form of a weight, read by one or more steps. */
typedef struct uf_pack {
    const uf_store_slot *weight; /* the canonical one */
    int64_t changes;             /* the newest step before that changes the store, or -1 */
    uf_conv_direction direction;
    uf_conv_kernel_args args; /* of its first step; of the addresses only the last bits count */
    int32_t readers;
    int32_t next;       /* another form of the weight, or -1 */
    uf_storage storage; /* in the memory of packs */
} uf_pack;

typedef struct uf_program_io {
    char name[UF_NAME_SIZE];
    int32_t value;
    uf_tensor tensor;
} uf_program_io;

/* The results of a pass for its user. */
typedef struct uf_program_pass {
    uf_index gradients; /* the pass's inputs, by id: where in `borrowed` their gradients are */
    int32_t loss_count;
    int32_t first_seed; /* in `borrowed`, of loss_count */
    bool external_seeds;
} uf_program_pass;

/* Arrays that the passes of a compilation use in turn. A pass reads only places that it has set:
 * its cost is that of its own nodes, however many the graph has. */
typedef struct uf_scratch {
    int32_t *mark;  /* per graph node: the last search that found it */
    int32_t search; /* number of the newest one */
    int32_t *nodes; /* that it found, ascending */
    int32_t node_count;
    bool *asked;    /* per graph value: the pass names it in its inputs; all false between passes */
    bool *wanted;   /* per graph value: its gradient leads to something that is asked for */
    bool *written;  /* per graph value: its gradient has a first contribution */
    bool *balanced; /* per graph value: its gradient sums to 0 in each channel (axis 1) */
    int32_t *gradient; /* per graph value: the program's value that holds its gradient, or 0 */
} uf_scratch;

struct uf_program {
    uf_object object;
    uf_context *context;
    uf_graph *graph;
    uf_dtype dtype;
    uf_math math;
    uf_mode mode;
    uf_plan plan;
    const uf_program_options *options; /* the caller's, during compilation only */
    const uf_scope_mode **scope_modes; /* of the options, sorted; during compilation only */
    uf_index bindings;                 /* store: its binding; during compilation only */
    uf_index changes;   /* store: the last pass so far whose optimizers change it; likewise */
    uf_scratch scratch; /* likewise */
    uf_program_value *values;
    int32_t value_count, value_capacity;
    uf_storage *storages;
    int32_t storage_count, storage_capacity;
    uf_step *steps;
    int32_t step_count, step_capacity;
    int32_t *forward_pass; /* per graph node: its pass; pass_count: after all; -1: none */
    int32_t *forward_step; /* per graph node: its step */
    uf_program_pass *passes;
    int32_t pass_count;
    uf_program_io *borrowed; /* gradients and seeds that the user may ask for */
    int32_t borrowed_count, borrowed_capacity;
    uf_record_kernel_args record; /* the losses; count 0: none */
    uf_program_io *inputs, *outputs;
    int32_t input_count, output_count;
    uf_store **stores; /* every store the steps refer to, once */
    int32_t store_count, store_capacity;
    uf_index store_numbers;
    uf_param_ref *params; /* read by the forward steps; the store is the one in use */
    int32_t param_count, param_capacity;
    bool params_are_given; /* each has been loaded or initialised, as a run found */
    int64_t lost_loads;    /* of the stores until then */
    bool changes_stores;   /* has optimizers, or layers that change buffers */
    bool capture;          /* may be recorded by the device */
    void *recording;       /* the device's; NULL: not yet, or never */
    int64_t runs;
    uint64_t random_seed;
    int64_t *random_step;  /* device memory; NULL: no step draws */
    uint64_t kept_version; /* sum of the stores' versions that what is kept was made of */
    void *arena;
    size_t arena_size;
    uf_storage *
        *mortals; /* with UF_PLAN_POISON: storages that are not persistent, by their last step */
    int32_t mortal_count;
    void *workspace;
    size_t workspace_size;
    uf_pack *packs;
    int32_t pack_count, pack_capacity;
    bool packs_are_kept; /* between runs; false: made in every run */
    void *packed;        /* the memory of packs */
    size_t packed_size;
};

/* Frees a program when its last reference goes. */
void uf_program_free(uf_object *object);

/* A new value of the program with storage of its own. */
uf_status uf_program_add_value(uf_program *program, uf_dtype dtype, const uf_shape *shape,
                               bool persistent, int32_t *value);

/* Free what only compilation needs. */
void uf_program_free_scratch(uf_program *program);

/* Note that the user may ask for this value's tensor: it is the last of `borrowed`. */
uf_status uf_program_lend(uf_program *program, int32_t value);

/* One more step, zeroed; the pointer is good until the next one. */
uf_status uf_program_add_step(uf_program *program, uf_step_kind kind, uf_step **step);

/* Release what a step owns. */
void uf_step_free(uf_step *step);

/* Are a pass's lists legal? Makes the gradients of its stores. */
uf_status uf_program_check_pass(uf_program *program, const uf_pass *pass, int32_t index);

/* Append the backward steps and optimizers of one pass, whose losses need the nodes of `scratch`.
 */
uf_status uf_program_differentiate(uf_program *program, const uf_pass *pass, int32_t index);

/* The type of the stores that a program of this type uses. */
static inline uf_dtype uf_parameter_dtype(uf_dtype dtype) {
    return dtype == UF_BF16 ? UF_F32 : dtype;
}

/* Note a store that the program uses, once, and check that it fits. */
uf_status uf_program_add_store(uf_program *program, uf_store *store);

/* Prepare uf_program_store. */
uf_status uf_program_index_bindings(uf_program *program);

/* The store that the program uses where the graph says `store`. */
uf_store *uf_program_store(const uf_program *program, uf_store *store);

/* Fold batch norms and activations into the steps before them. */
uf_status uf_program_fuse(uf_program *program);

/* Merge nearest upsampling by 2 with the convolution behind it. `readers` has the only step that
 * reads a value, below 0 where there is not exactly one, and is kept true. */
uf_status uf_program_merge_upsampling(uf_program *program, int32_t *readers);

/* Give the steps of a bf16 program their copies of parameters, and let its optimizers write these.
 * Nothing in other programs. */
uf_status uf_program_cast(uf_program *program);

/* Assign offsets and allocate the arena. */
uf_status uf_program_plan(uf_program *program);

/* Put the inputs of steps that join them into the results, and gradients likewise. Lives of
 * storages are known. */
uf_status uf_program_slice(uf_program *program);

/* Raise *end to where `storage` ends; refuses what no address space holds. */
uf_status uf_arena_reach(const uf_storage *storage, size_t *end);

/* Give every storage of `order`, one after the other, the lowest offset from *end on that is free
 * during its life among those before it; `steps` is the number of steps. Raises *end to where the
 * highest one ends. */
uf_status uf_place(uf_storage *const *order, int32_t count, int32_t steps, size_t *end);

/* The slot of a parameter in the store that the program uses for it; checks that it fits. */
uf_status uf_program_slot(uf_program *program, const uf_param_ref *ref, int64_t *index);

/* Resolve every step to pointers and allocate the scratch that the hungriest one needs. */
uf_status uf_program_bind(uf_program *program);

/* Decide which packed weights outlive a step, and allocate their memory. Every step's views are
 * bound. */
uf_status uf_program_pack(uf_program *program);

/* Make what is kept between runs, folded and packed weights, copies and layers of parameters alone,
 * again if a store changed since. Under a capture of the user's it becomes part of his graph, which
 * makes it again in every replay: nobody can tell the graph of a change. */
uf_status uf_program_refresh(uf_program *program);

/* Looks on while a program runs: called with -1 before the first step, then with the number of each
 * step that was executed, behind it. */
typedef struct uf_watch {
    uf_status (*look)(void *user, int32_t step);
    void *user;
    bool stops; /* set by `look`: the run ends here */
} uf_watch;

/* uf_program_run with all it does, step by step in any case. STATE when the caller captures. */
uf_status uf_program_run_watched(uf_program *program, uf_watch *watch);

/* A step's place in uf_profile_row's words. */
typedef struct uf_step_words {
    const char *name, *layer, *step;
} uf_step_words;

uf_step_words uf_step_describe(const uf_step *step);

/* Allocate the step that layers draw by, 0, where a step of the program draws. */
uf_status uf_program_begin_random(uf_program *program);

/* The stream of a node that draws. */
uf_draw uf_program_draw(const uf_program *program, const uf_node *node);

/* The value as a view of the arena. */
uf_view uf_program_view(const uf_program *program, int32_t value);

#endif
