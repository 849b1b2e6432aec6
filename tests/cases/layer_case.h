/* layer_case.h - one test case of one layer, and the table of what each layer's case file provides.
 *
 * A case is data: what goes in, what must come out. It runs through both doors - ops.h on views
 * (support/ops_door.h) and the graph (support/graph_door.h) - on any device and in any element
 * type. Each row X of src/layers/layers.def has a case file tests/cases/X.c that defines X_family;
 * a row without one does not link. */
#ifndef TEST_CASES_LAYER_CASE_H
#define TEST_CASES_LAYER_CASE_H

#include <unfurl/unfurl.h>

#include "reference/reference.h"
#include "support/h5.h"
#include "support/random.h"

/* Kinds of activation below CASE_ACTIVATIONS take any number, and do not make a rounding error much
 * larger: they may follow any layer. Convolutions take those below CASE_FEW_ACTIVATIONS in turn,
 * for some variants take the identity alone, and each is to have rows; test_fusion has others. */
enum {
    CASE_PARAMETERS = 4,
    CASE_FEW_ACTIVATIONS = UF_ACTIVATION_SIGMOID + 1,
    CASE_ACTIVATIONS = UF_ACTIVATION_SQUARE
};

typedef struct case_tensor {
    const char *name; /* as in state_dict(): "weight"; "" for inputs and outputs */
    int32_t rank;
    int64_t extent[UF_MAX_RANK];
    int64_t count;
    double *values; /* NULL: absent */
} case_tensor;

typedef struct layer_family layer_family;

typedef struct layer_case {
    const layer_family *family;
    char label[320];
    bool plain; /* asked for before table() or random(): no bias or activation, as for ACCUMULATE */
    case_tensor input, output; /* output.values is what must come out */
    case_tensor parameters[CASE_PARAMETERS];
    int32_t parameter_count;
    /* The layer's settings; each family uses some of them. */
    ref_conv conv;
    ref_pad pad;
    double eps;
    int64_t row;              /* of the family's table */
    uf_activation activation; /* the layer itself, or what the call applies to its output */
    /* For the tolerance: how many products make an element, and how large elements typically
     * are. */
    int64_t reduction;
    double size;
} layer_case;

/* One call through ops.h. */
typedef struct ops_call {
    const layer_case *one;
    uf_view input, output;
    uf_view parameters[CASE_PARAMETERS]; /* in the case's order */
    uf_write_mode mode;
    const char *variant; /* NULL: the library chooses */
} ops_call;

struct layer_family {
    const char *name;    /* the row of layers.def */
    const char *pytorch; /* its group in ops_open.h5; NULL: none */
    bool accumulates;    /* its call has a write mode */
    bool variants;       /* its call takes the name of a kernel variant */
    /* Make a case of a group of PyTorch's results; false: a kind that this family does not have. */
    bool (*load)(h5_file file, const char *path, layer_case *one);
    /* The table of shapes: as a function of its row, with random values. */
    int64_t table_count;
    void (*table)(int64_t row, test_random *random, layer_case *one);
    /* A random geometry; NULL: none. */
    void (*random)(test_random *random, layer_case *one);
    uf_status (*ops)(uf_context *context, const ops_call *call); /* NULL: ops.h has no such call */
    uf_value (*graph)(uf_graph *graph, uf_value input, uf_scope scope, const layer_case *one);
};

#define UF_LAYER(name) extern const layer_family name##_family;
#include "layers/layers.def"
#undef UF_LAYER

/* Every family, in the order of layers.def, ended by NULL. */
extern const layer_family *const layer_families[];

/* Run `test` once per family, the family being its initial state, as a cmocka group; returns the
 * number of failures, which main returns. */
int test_run_families(const char *group, void (*test)(void **state));

/* What case files build cases with. */
void case_begin(layer_case *one, const layer_family *family);
void case_free(layer_case *one);
case_tensor case_tensor_of(const char *name, int32_t rank, const int64_t *extent);
case_tensor case_tensor_nchw(int64_t n, int64_t c, int64_t h, int64_t w);
case_tensor case_tensor_read(h5_file file, const char *path, const char *dataset, const char *name);
void case_add_parameter(layer_case *one, case_tensor parameter);
const case_tensor *case_parameter(const layer_case *one, const char *name); /* NULL: absent */

/* Apply the case's activation to its expected output. */
void case_activate(layer_case *one);

/* The call's view of a parameter; absent when the case has none of this name. */
uf_view ops_parameter(const ops_call *call, const char *name);

ref_activation case_ref_activation(uf_activation activation);
const char *case_activation_name(uf_activation activation);

/* A random activation, half of the time none. */
uf_activation case_random_activation(test_random *random);

/* Append the case's activation to a graph. */
uf_value case_graph_activation(uf_graph *graph, uf_value value, uf_activation activation);

/* The allowed error for a result in `dtype` relative to the case's size: a few rounding errors,
 * growing with the square root of how many are summed. */
double case_tolerance(const layer_case *one, uf_dtype dtype);

#endif
