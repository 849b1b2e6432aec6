/* gradcheck.h - are the gradients of a graph right? Central differences in double, on any graph. */
#ifndef UNFURL_GRADCHECK_H
#define UNFURL_GRADCHECK_H

#include <unfurl/program.h>

UF_BEGIN_DECLS

/* Values for one input of the graph, in C order and of the graph's shape; integers for an input of
 * indices. */
typedef struct uf_gradcheck_input {
    const char *input;
    const double *values;
} uf_gradcheck_input;

typedef struct uf_gradcheck_options {
    size_t struct_size;
    double eps; /* 1e-6: the step of the central difference */
    double atol,
        rtol;      /* 1e-5, 1e-3: |analytic - numeric| <= atol + rtol*|numeric|, signs and all */
    uf_mode mode;  /* TRAIN */
    uint64_t seed; /* of the upstream gradients, the inputs not given and the projections; 0 */
    int32_t projections; /* 0: every element; n > 0: fast, n random directions per tensor */
    /* Others are drawn: 0.1 to 1 away from zero, either sign; those of uf_input_i64 are 0 or 1. */
    const uf_gradcheck_input *inputs;
    int32_t input_count;
    const uf_scope_mode *scope_modes; /* as in uf_program_options */
    int32_t scope_mode_count;
} uf_gradcheck_options;

static inline uf_gradcheck_options uf_gradcheck_options_default(void) {
    uf_gradcheck_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.eps = 1e-6;
    options.atol = 1e-5;
    options.rtol = 1e-3;
    options.mode = UF_TRAIN;
    return options;
}

typedef struct uf_gradcheck_result {
    size_t struct_size;
    bool passed;
    int64_t checked; /* elements (fast mode: directions) compared */
    int64_t skipped; /* elements at a kink: the slopes to the left and to the right differ */
    int64_t failed;
    /* The worst one, by |analytic - numeric| over its tolerance. */
    char worst_tensor[UF_NAME_SIZE]; /* an input's or a parameter's name */
    int64_t worst_index;             /* element in C order; fast mode: the direction's number */
    double worst_analytic, worst_numeric, worst_ratio;
} uf_gradcheck_result;

/* Check the gradient of sum over all outputs of <u, output>, u random, by every input and every
 * parameter of the graph. The graph is compiled anew in f64 on copies of its stores: neither it nor
 * they change. Inputs and parameters that no output depends on through a differentiable path are
 * left out. Elements whose function has a kink within eps are skipped and counted. Synchronous.
 * `options` may be NULL. A wrong gradient is no error: UF_OK, and result->passed is false.
 * Errors: those of uf_program_compile; INVALID_ARGUMENT when there is nothing to check; STATE when
 * a parameter was neither loaded nor initialised. */
UF_API UF_NODISCARD uf_status uf_gradcheck_sized(uf_graph *graph,
                                                 const uf_gradcheck_options *options,
                                                 uf_gradcheck_result *result, size_t result_size);
static inline UF_NODISCARD uf_status uf_gradcheck(uf_graph *graph,
                                                  const uf_gradcheck_options *options,
                                                  uf_gradcheck_result *result) {
    return uf_gradcheck_sized(graph, options, result, sizeof *result);
}

UF_END_DECLS

#endif
