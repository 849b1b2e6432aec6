/* custom.c - an operation of the user's own: uf_exec in the words of custom.h.
 *
 * A callback always overwrites. A gradient that has to be added to is made in scratch, which lies
 * before the callback's workspace, and added by the kernel `copy`. */
#include <unfurl/custom.h>

#include <inttypes.h>
#include <string.h>

#include "layers/layer.h"

typedef struct custom_attributes {
    uf_custom_definition definition; /* its name is the one below */
    char name[48];
    int32_t count;
} custom_attributes;

static const char *title(const void *attributes) {
    return ((const custom_attributes *)attributes)->name;
}

/* Call a callback. Without a message of its own a failure gets one; the thread's earlier message
 * stays where it succeeds. */
#define CALL(own, callback, call)                                                                  \
    do {                                                                                           \
        char before[UF_MESSAGE_SIZE];                                                              \
        memcpy(before, uf_last_error(), sizeof before);                                            \
        uf_fail(UF_OK, "%s", "");                                                                  \
        const uf_status called = (call);                                                           \
        UF_TRY(judge(own, callback, called, before));                                              \
    } while (0)

static uf_status judge(const custom_attributes *own, const char *callback, uf_status status,
                       const char *before) {
    if (status == UF_OK) {
        return uf_fail(UF_OK, "%s", before);
    }
    if ((unsigned)status > UF_ERROR_INTERNAL) {
        UF_FAIL(UF_ERROR_INVALID_ARGUMENT, "%s: %s returned %d, which is no uf_status", own->name,
                callback, (int)status);
    }
    if (uf_last_error()[0] == '\0') {
        UF_FAIL(status, "%s: %s returned %s without a message", own->name, callback,
                uf_status_name(status));
    }
    uf_error_prefix("%s", own->name);
    return status;
}

static uf_status infer(uf_infer *infer) {
    const custom_attributes *own = infer->attributes;
    const uf_custom_definition *definition = &own->definition;
    infer->output = infer->inputs[0];
    if (definition->infer == NULL) {
        return UF_OK;
    }
    infer->output = uf_shape_from(NULL, -1);
    CALL(own, "infer",
         definition->infer(definition->user, infer->inputs, infer->input_count, &infer->output));
    if (uf_shape_count(&infer->output) < 1) {
        char text[128];
        UF_FAIL(UF_ERROR_SHAPE, "%s: infer gave the output the shape %s", own->name,
                uf_shape_format(&infer->output, text, sizeof text));
    }
    return UF_OK;
}

static uf_dtype dtype_of(const uf_exec *exec) {
    return exec->grad_output.data != NULL ? exec->grad_output.dtype : exec->output.dtype;
}

static uf_custom_tensor tensor_of(const uf_exec *exec, void *data, const uf_shape *shape) {
    return (uf_custom_tensor){.data = data, .dtype = dtype_of(exec), .shape = *shape};
}

/* Bytes of scratch for gradient `i`; 0 where the callback writes it itself. */
static size_t scratch_of(const uf_exec *exec, int32_t i) {
    const bool added =
        exec->grad_inputs[i].data != NULL && exec->grad_input_modes[i] == UF_ACCUMULATE;
    return added ? uf_align_up((size_t)uf_shape_count(exec->input_shapes[i]) *
                               uf_dtype_size(dtype_of(exec)))
                 : 0;
}

static uf_status workspace(const uf_exec *exec, bool of_backward, size_t *size) {
    const custom_attributes *own = exec->attributes;
    const uf_custom_definition *definition = &own->definition;
    uf_shape shapes[UF_MAX_INPUTS];
    *size = 0;
    for (int32_t i = 0; i < own->count; ++i) {
        shapes[i] = *exec->input_shapes[i];
        *size += of_backward ? scratch_of(exec, i) : 0;
    }
    if (definition->workspace != NULL) {
        const size_t more = definition->workspace(definition->user, shapes, own->count,
                                                  dtype_of(exec), of_backward);
        if (more > SIZE_MAX / 2 - *size) {
            UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "%s: %zu bytes of workspace are more than there can be",
                    own->name, more);
        }
        *size += more;
    }
    return UF_OK;
}

/* Everything but gradients. `inputs` has room for UF_MAX_INPUTS. */
static uf_custom_call call_of(const uf_exec *exec, uf_custom_tensor *inputs, size_t scratch) {
    const custom_attributes *own = exec->attributes;
    uf_custom_call call;
    memset(&call, 0, sizeof call);
    call.struct_size = sizeof call;
    call.context = exec->context;
    call.stream = exec->context->stream;
    call.training = exec->training;
    call.input_count = own->count;
    for (int32_t i = 0; i < own->count; ++i) {
        inputs[i] = tensor_of(exec, exec->inputs[i].data, exec->input_shapes[i]);
    }
    call.inputs = inputs;
    call.output = tensor_of(exec, exec->output.data, exec->output_shape);
    call.workspace = exec->workspace_size > scratch ? (char *)exec->workspace + scratch : NULL;
    call.workspace_size = exec->workspace_size - scratch;
    return call;
}

/* Make the context's device current: zeroing nothing enters it. */
static uf_status enter(const uf_exec *exec) {
    return exec->context->device->zero(exec->context, NULL, 0);
}

static uf_status forward(const uf_exec *exec) {
    const custom_attributes *own = exec->attributes;
    uf_custom_tensor inputs[UF_MAX_INPUTS];
    const uf_custom_call call = call_of(exec, inputs, 0);
    UF_TRY(enter(exec));
    CALL(own, "forward", own->definition.forward(own->definition.user, &call));
    return UF_OK;
}

static uf_status backward(const uf_exec *exec) {
    const custom_attributes *own = exec->attributes;
    uf_custom_tensor inputs[UF_MAX_INPUTS], gradients[UF_MAX_INPUTS];
    size_t scratch = 0;
    if (own->definition.backward == NULL) {
        return uf_fail(UF_ERROR_INTERNAL, "%s: no gradient passes it", own->name);
    }
    for (int32_t i = 0; i < own->count; ++i) {
        const size_t size = scratch_of(exec, i);
        void *data = size > 0 ? (char *)exec->workspace + scratch : exec->grad_inputs[i].data;
        gradients[i] = tensor_of(exec, data, exec->input_shapes[i]);
        scratch += size;
    }
    uf_custom_call call = call_of(exec, inputs, scratch);
    call.grad_output = tensor_of(exec, exec->grad_output.data, exec->output_shape);
    call.grad_inputs = gradients;
    UF_TRY(enter(exec));
    CALL(own, "backward", own->definition.backward(own->definition.user, &call));
    for (int32_t i = 0; i < own->count; ++i) {
        if (scratch_of(exec, i) > 0) {
            const uf_view part =
                uf_view_of(gradients[i].data, gradients[i].dtype, exec->input_shapes[i]);
            const uf_copy_kernel_args args = {
                .input = part, .output = exec->grad_inputs[i], .mode = UF_ACCUMULATE};
            UF_TRY(exec->context->kernels->copy(exec->context, &args));
        }
    }
    return UF_OK;
}

static uint32_t backward_reads(const void *attributes) {
    const custom_attributes *own = attributes;
    return own->definition.backward_reads & (((1u << own->count) - 1) | UF_READS_OUTPUT);
}

static bool calls_every_run(const void *attributes) {
    return ((const custom_attributes *)attributes)->definition.every_run;
}

#define CUSTOM_LAYER(variable, back)                                                               \
    const uf_layer variable = {                                                                    \
        .name = "custom",                                                                          \
        .title = title,                                                                            \
        .infer = infer,                                                                            \
        .forward = forward,                                                                        \
        .backward = back,                                                                          \
        .workspace = workspace,                                                                    \
        .backward_reads = backward_reads,                                                          \
        .calls_every_run = calls_every_run,                                                        \
    }

CUSTOM_LAYER(uf_layer_custom, backward);
/* An operation without backward. */
static CUSTOM_LAYER(one_way, NULL);

static uf_status check(const uf_custom_definition *definition, int32_t count) {
    const char *name = definition->name;
    UF_CHECK_ARG(name != NULL && name[0] != '\0' &&
                     strlen(name) < sizeof((custom_attributes *)NULL)->name,
                 "uf_custom: an operation needs a name of 1 to %zu characters",
                 sizeof((custom_attributes *)NULL)->name - 1);
    UF_CHECK_ARG(definition->forward != NULL, "uf_custom: operation %s has no forward", name);
    UF_CHECK_ARG(count >= 1 && count <= UF_MAX_INPUTS,
                 "uf_custom: operation %s takes 1 to %d inputs, not %" PRId32, name, UF_MAX_INPUTS,
                 count);
    return UF_OK;
}

uf_value uf_custom(uf_graph *graph, const uf_custom_definition *definition, const uf_value *inputs,
                   int32_t count) {
    custom_attributes own;
    memset(&own, 0, sizeof own);
    own.definition = uf_custom_definition_default();
    if (!uf_graph_options(graph, "uf_custom_definition", definition, &own.definition,
                          sizeof own.definition)) {
        return (uf_value){0};
    }
    const uf_status status = check(&own.definition, count);
    if (status != UF_OK) {
        return uf_graph_reject(graph, status);
    }
    memcpy(own.name, own.definition.name, strlen(own.definition.name));
    own.definition.name = NULL;
    own.count = count;
    return uf_graph_append(graph, own.definition.backward != NULL ? &uf_layer_custom : &one_way,
                           &own, sizeof own, inputs, count, NULL);
}

uf_status uf_custom_fail(uf_status status, const char *message) {
    return uf_fail(status, "%s", message != NULL ? message : "");
}
