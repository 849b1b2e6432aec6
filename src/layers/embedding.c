/* embedding.c - rows of a weight, chosen by indices. */
#include "layers/function.h"

#include <inttypes.h>

typedef struct embedding_attributes {
    int64_t count, width;
} embedding_attributes;

static uf_status infer(uf_infer *infer) {
    const embedding_attributes *embedding = infer->attributes;
    const uf_shape *indices = &infer->inputs[0];
    UF_CHECK_ARG(embedding->count >= 1 && embedding->width >= 1,
                 "embedding: num_embeddings is %" PRId64 " and embedding_dim is %" PRId64
                 "; both must be 1 or more",
                 embedding->count, embedding->width);
    UF_CHECK_ARG(indices->rank < UF_MAX_RANK,
                 "embedding: the indices have rank %d; at most %d is possible", (int)indices->rank,
                 UF_MAX_RANK - 1);
    infer->output = *indices;
    infer->output.extent[infer->output.rank++] = embedding->width;
    infer->params[0] = (uf_param_need){"weight", UF_SHAPE(embedding->count, embedding->width),
                                       UF_ROLE_PARAMETER, UF_INIT_NORMAL};
    infer->param_count = 1;
    return UF_OK;
}

static uf_embedding_kernel_args arguments(const uf_exec *exec) {
    const embedding_attributes *embedding = exec->attributes;
    return (uf_embedding_kernel_args){
        .indices = exec->inputs[0],
        .count = embedding->count,
        .width = embedding->width,
        .weight = exec->params[0],
        .output = exec->output,
        .grad_output = exec->grad_output,
        .grad_weight = exec->grad_params[0],
        .mode = exec->grad_param_modes[0],
    };
}

static uf_status forward(const uf_exec *exec) {
    const uf_embedding_kernel_args args = arguments(exec);
    UF_TRY(uf_embedding_check(&args, false));
    return exec->context->kernels->embedding_forward(exec->context, &args);
}

static uf_status backward(const uf_exec *exec) {
    const uf_embedding_kernel_args args = arguments(exec);
    if (args.grad_weight.data == NULL) {
        return UF_OK;
    }
    UF_TRY(uf_embedding_check(&args, true));
    return exec->context->kernels->embedding_backward(exec->context, &args);
}

static uint32_t backward_reads(const void *attributes) {
    (void)attributes;
    return 1u << 0;
}

static const uf_option table[] = {
    UF_REQUIRED(INTEGER, "num_embeddings", embedding_attributes, count),
    UF_REQUIRED(INTEGER, "embedding_dim", embedding_attributes, width),
};
static const uf_layer_function functions[] = {
    {.name = "embedding",
     .size = sizeof(embedding_attributes),
     .least_inputs = 1,
     .most_inputs = 1,
     .scope = true,
     UF_TABLE(table)},
    {0},
};

const uf_layer uf_layer_embedding = {
    .name = "embedding",
    .functions = functions,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .backward_reads = backward_reads,
    .i64_inputs = 1u << 0,
};

uf_value uf_embedding(uf_graph *graph, uf_value indices, uf_scope scope, int64_t num_embeddings,
                      int64_t embedding_dim) {
    embedding_attributes embedding = {.count = num_embeddings, .width = embedding_dim};
    return uf_graph_append(graph, &uf_layer_embedding, &embedding, sizeof embedding, &indices, 1,
                           &scope);
}
