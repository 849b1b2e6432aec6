/* program.h - a graph compiled for fixed shapes and one element type, ready to run.
 *
 * Compiling fixes shapes, plans the memory and chooses the kernels; after it a run allocates
 * nothing, computes no shapes and waits for nothing. */
#ifndef UNFURL_PROGRAM_H
#define UNFURL_PROGRAM_H

#include <unfurl/graph.h>
#include <unfurl/ops.h>

UF_BEGIN_DECLS

typedef struct uf_program uf_program;

typedef enum uf_mode {
    UF_EVAL = 0, /* batch norm uses its running statistics */
    UF_TRAIN     /* batch norm uses the batch's statistics and updates the running ones */
} uf_mode;

typedef enum uf_plan {
    UF_PLAN_REUSE = 0, /* values whose lives do not meet share memory */
    UF_PLAN_NO_REUSE,  /* every value has its own */
    UF_PLAN_POISON     /* REUSE, with dead and unwritten memory filled by NaN: to find defects */
} uf_plan;

/* The mode of the layers under one scope, in place of the program's. The longest matching path
 * wins. */
typedef struct uf_scope_mode {
    uf_scope scope;
    uf_mode mode;
} uf_scope_mode;

/* One step of training: gradients of the weighted sum of `losses`, then the optimizers. A program
 * runs its passes in order. The layers a pass needs that no earlier pass has run are run first,
 * with the weights as they then are; differentiating through a layer that ran before its weights
 * changed is an error of compilation. */
typedef struct uf_pass {
    size_t struct_size;     /* of every pass the same; 0: uf_program_options.pass_size */
    const uf_value *losses; /* scalars, unless external_seeds */
    int32_t loss_count;
    uf_store *const *stores; /* receive gradients, overwritten in every run; may be NULL */
    int32_t store_count;
    struct uf_optimizer *const *optimizers; /* each of one of `stores`; may be NULL */
    int32_t optimizer_count;
    const uf_value *inputs; /* their gradients are wanted: uf_program_gradient; may be NULL */
    int32_t input_count;
    bool accumulate; /* false; true: add to the stores' gradients (see uf_store_zero_gradients) */
    bool external_seeds; /* false: a loss has its weight for gradient. true: uf_program_seed's */
    const double *loss_weights; /* of loss_count; NULL: all 1. Compilation reads them;
                                   uf_program_losses reports the losses without them */
    /* 0: no limit. Above: scale the gradients of all stores so that their common norm is at most
     * this, as clip_grad_norm_; before the optimizers, in place. */
    double clip_norm;
    double clip_value;          /* 0: no limit. Above: then cut each to [-clip_value, clip_value] */
    struct uf_ema *const *emas; /* averages (ema.h), updated last; may be NULL */
    int32_t ema_count;
} uf_pass;

static inline uf_pass uf_pass_default(void) {
    uf_pass pass;
    memset(&pass, 0, sizeof pass);
    pass.struct_size = sizeof pass;
    return pass;
}

/* Another shape for one input of the graph. */
typedef struct uf_input_shape {
    const char *input;
    uf_shape shape;
} uf_input_shape;

/* Use `with` wherever the graph refers to `store`. */
typedef struct uf_binding {
    uf_store *store;
    uf_store *with;
} uf_binding;

/* A program of UF_BF16 keeps values and their gradients in bf16. Layers compute in f32 and round
 * each result once, to nearest even; a gradient of several contributions is rounded after each.
 * Stores, with their gradients and optimizers, are f32, and so are losses and what is computed from
 * losses alone; a layer that would join these with bf16 values is refused (INVALID_ARGUMENT).
 * Convolutions and linear layers read their weight and bias rounded to bf16, and so is a batch norm
 * that is folded into them. The program keeps these copies: its optimizers write them with the
 * weights, and it makes them again when a store has changed by other means (uf_store_touch).
 * Inputs, outputs, seeds and gradients that the program owns have the type of their value:
 * uf_tensor_upload_as and uf_tensor_download_as convert. */
typedef struct uf_program_options {
    size_t struct_size;
    uf_dtype dtype; /* of all real values: UF_F32, UF_F64 or UF_BF16. The stores have the same, f32
                       for bf16; see below */
    uf_math math;   /* UF_MATH_FP32 */
    uf_mode mode;   /* UF_EVAL */
    uf_plan plan;   /* UF_PLAN_REUSE */
    bool fuse;    /* true: fold batch norm and activations into the convolution before them, nearest
                     upsampling by 2 into the one behind it, and make values of parameters alone
                     only when a store has changed; with passes, activations into the layer
                     before them */
    bool capture; /* true: on a GPU, replay the run as one CUDA graph from the second run on */
    const uf_input_shape *input_shapes; /* for inputs that differ from the graph's; may be NULL */
    int32_t input_shape_count;
    const uf_binding *bindings; /* may be NULL */
    int32_t binding_count;
    const uf_scope_mode *scope_modes; /* may be NULL */
    int32_t scope_mode_count;
    const uf_pass *passes; /* makes it a training program; may be NULL */
    int32_t pass_count;
    size_t pass_size;     /* sizeof(uf_pass) here, for passes whose struct_size is 0 */
    uint64_t random_seed; /* 0; of dropout and noise, besides the context's: see below */
    /* true: convolutions keep their weights in the form that their kernels read. A program that
     * only runs makes that form again when a store has changed, and holds it in memory of its own,
     * about the size of the weights (uf_program_memory counts it). With passes, or layers that
     * change their store, it is made in every run, once for all layers that read the same weight
     * between two changes of it. false: each layer makes it in each run, in scratch. Same bits
     * either way. */
    bool keep_packed_weights;
} uf_program_options;

static inline uf_program_options uf_program_options_default(void) {
    uf_program_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.dtype = UF_F32;
    options.fuse = true;
    options.capture = true;
    options.pass_size = sizeof(uf_pass);
    options.keep_packed_weights = true;
    return options;
}

/* Compile `graph`; `options` may be NULL. The builder's first error is reported here. Seals the
 * stores. Destroyed by the caller or with its context; it keeps graph, stores and optimizers alive.
 * *program is NULL on failure. */
UF_API UF_NODISCARD uf_status uf_program_compile(uf_graph *graph, const uf_program_options *options,
                                                 uf_program **program);
UF_API void uf_program_destroy(uf_program *program); /* NULL is legal */

/* Run once: reads the inputs, overwrites the outputs. Asynchronous on a GPU. Errors: STATE when a
 * tensor that it reads was neither loaded nor initialised, and names the first (see uf_store_seal);
 * DEVICE. */
UF_API UF_NODISCARD uf_status uf_program_run(uf_program *program);

/* An input or output by name: owned by the program, at the same address for its whole life. An
 * output's contents stand until the next run. NULL, with a message in uf_last_error(), for an
 * unknown name. */
UF_API uf_tensor *uf_program_input(uf_program *program, const char *name);
UF_API uf_tensor *uf_program_output(uf_program *program, const char *name);

/* The inputs and outputs in the order of their making: how many, and the name (owned by the
 * program) and shape of each. NULL has 0; a number that there is not has NULL and a shape of rank
 * -1. */
UF_API int32_t uf_program_input_count(const uf_program *program);
UF_API const char *uf_program_input_name(const uf_program *program, int32_t index);
UF_API uf_shape uf_program_input_shape(const uf_program *program, int32_t index);
UF_API int32_t uf_program_output_count(const uf_program *program);
UF_API const char *uf_program_output_name(const uf_program *program, int32_t index);
UF_API uf_shape uf_program_output_shape(const uf_program *program, int32_t index);

/* The gradient of pass `pass` for a value that the pass named in `inputs`, and the seed of its loss
 * number `loss` when it has external_seeds: owned by the program like an output. NULL, with a
 * message, otherwise. */
UF_API uf_tensor *uf_program_gradient(uf_program *program, int32_t pass, uf_value value);
UF_API uf_tensor *uf_program_seed(uf_program *program, int32_t pass, int32_t loss);

/* The losses of the newest finished run, in the order of the passes; of a pass with external_seeds
 * those that are one number, as long as there is room (14 in all). Does not wait: on a GPU this may
 * be an earlier run than the last one queued. *step counts runs from 1 and is 0 before the first
 * has finished; *finite is false when one of the losses is not a finite number. At most `capacity`
 * numbers are written. Errors: INVALID_ARGUMENT, STATE (not a training program with scalar losses).
 */
UF_API UF_NODISCARD uf_status uf_program_losses(uf_program *program, double *losses,
                                                int32_t capacity, int64_t *step, bool *finite);

/* Random numbers inside a program (dropout, noise) are a function of the context's seed and the
 * options' random_seed, of the layer's number among those of its graph that draw, of the program's
 * random step and of the element. The step is 0 at first and advances by one in every run; it lies
 * on the device. To go on where another program stopped, save it and set it. Reading waits for the
 * runs that are queued; setting counts from the next run on. A program that draws nothing (dropout
 * in EVAL does not) has step 0 and ignores what is set. Errors: INVALID_ARGUMENT for NULL or a
 * negative step, DEVICE. */
UF_API UF_NODISCARD uf_status uf_program_random_step(uf_program *program, int64_t *step);
UF_API UF_NODISCARD uf_status uf_program_set_random_step(uf_program *program, int64_t step);

/* Bytes the program holds for values and scratch (stores not counted); 0 of NULL. */
UF_API size_t uf_program_memory(const uf_program *program);

UF_END_DECLS

#endif
