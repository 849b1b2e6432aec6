/* tuning.c - the door to measured choices of kernels; a device brings what is behind it. */
#include <unfurl/tuning.h>

#include <string.h>

#include "ops/conv.h"

#define UNTUNED "the choice of kernels is not tuned on %s"

/* The tuning of the context's device. Errors: UNSUPPORTED where it has none. */
static uf_status find_tuning(const uf_context *context, const uf_tuning_interface **tuning) {
    *tuning = context->device->tuning;
    if (*tuning == NULL) {
        UF_FAIL(UF_ERROR_UNSUPPORTED, UNTUNED, context->description);
    }
    return UF_OK;
}

uf_status uf_tuning_conv2d_sized(uf_context *context, uf_conv2d_operation operation,
                                 const uf_conv2d_args *args, uf_tuning_result *result,
                                 size_t result_size) {
    uf_conv_direction direction;
    uf_conv_kernel_args kernel;
    uf_tuning_result known;
    const uf_tuning_interface *tuning;
    memset(&known, 0, sizeof known);
    known.struct_size = sizeof known;
    if (result != NULL) {
        memset(result, 0, result_size);
    }
    UF_TRY(uf_conv_kernel_of(context, operation, args, &direction, &kernel));
    UF_CHECK_ARG(kernel.variant == NULL,
                 "tuning chooses a variant, but \"%s\" is forced; args.variant must be NULL",
                 kernel.variant);
    UF_TRY(find_tuning(context, &tuning));
    UF_TRY(tuning->conv(context, (int)direction, &kernel, &known));
    if (result != NULL) {
        uf_give_struct(&known, sizeof known, result, result_size);
    }
    return UF_OK;
}

int64_t uf_tuning_count(const uf_context *context) {
    return context != NULL && context->device->tuning != NULL
               ? context->device->tuning->count(context)
               : 0;
}

uf_status uf_tuning_save(const uf_context *context, const char *path) {
    UF_CHECK_ARG(context != NULL && path != NULL,
                 "uf_tuning_save: the context or the path is NULL");
    const uf_tuning_interface *tuning;
    UF_TRY(find_tuning(context, &tuning));
    return tuning->save(context, path);
}

uf_status uf_tuning_load(uf_context *context, const char *path) {
    UF_CHECK_ARG(context != NULL && path != NULL,
                 "uf_tuning_load: the context or the path is NULL");
    if (context->device->tuning == NULL) {
        uf_context_log(context, UF_LOG_INFO, "%s is ignored: " UNTUNED, path, context->description);
        return UF_OK;
    }
    return context->device->tuning->load(context, path);
}
