/* context.c - creating a context, its memory, its fault. */
#include "core/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/types.h>

#include "core/object.h"

const char *uf_version(void) {
    return UF_VERSION_STRING;
}

int32_t uf_device_count(uf_device device, const char **reason) {
    const char *why = "";
    int32_t count = 0;
    if (device == UF_DEVICE_CPU) {
        count = 1;
    } else if (device == UF_DEVICE_CUDA) {
        const uf_device_ops *cuda = uf_cuda_device(&why);
        count = cuda != NULL ? cuda->count(&why) : 0;
    } else {
        why = "auto is a choice, not a device";
    }
    if (reason != NULL) {
        *reason = why;
    }
    return count;
}

static uf_status choose_device(uf_device wanted, const uf_device_ops **device) {
    const char *why = "";
    *device = &uf_cpu_device;
    if (wanted == UF_DEVICE_CPU) {
        return UF_OK;
    }
    const uf_device_ops *cuda = uf_cuda_device(&why);
    if (cuda != NULL && cuda->count(&why) > 0) {
        *device = cuda;
        return UF_OK;
    }
    if (wanted == UF_DEVICE_AUTO) {
        return UF_OK;
    }
    UF_FAIL(UF_ERROR_UNSUPPORTED, "the CUDA device is not available: %s", why);
}

/* A context on that device; on failure *context stays as it is. */
static uf_status open_on(const uf_device_ops *device, const uf_context_options *options,
                         uf_context **context) {
    uf_context *made = calloc(1, sizeof *made);
    if (made == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a context");
    }
    made->device = device;
    made->kernels = device->kernels;
    made->threads = options->threads;
    made->device_index = options->device_index;
    made->seed = options->seed;
    made->log = options->log;
    made->log_user = options->log_user;
    /* Without random numbers, at an early start of the system, the address will do. */
    if (getrandom(&made->next_tag, sizeof made->next_tag, GRND_NONBLOCK) !=
        (ssize_t)sizeof made->next_tag) {
        made->next_tag = (uint32_t)((uintptr_t)made >> 4);
    }
    made->stream = options->cuda_stream;
    made->allocator = options->allocator;
    if (made->allocator.allocate == NULL) {
        made->allocator.allocate = device->allocate;
        made->allocator.release = device->release;
        made->allocator.user = made;
    }
    const uf_status status = device->open(made, options);
    if (status != UF_OK) {
        free(made);
        return status;
    }
    *context = made;
    return UF_OK;
}

uf_status uf_context_create(const uf_context_options *given, uf_context **context) {
    UF_CHECK_ARG(context != NULL, "uf_context_create: context is NULL");
    *context = NULL;
    uf_context_options known = uf_context_options_default();
    const uf_context_options *options = &known;
    UF_TRY(uf_read_struct("uf_context_options", given, &known, sizeof known));
    UF_CHECK_ARG(options->device == UF_DEVICE_AUTO || options->device == UF_DEVICE_CPU ||
                     options->device == UF_DEVICE_CUDA,
                 "uf_context_options.device is %d, which is no uf_device", (int)options->device);
    UF_CHECK_ARG(options->threads >= 1 && options->threads <= 1024,
                 "uf_context_options.threads is %d; it must be 1 to 1024", (int)options->threads);
    UF_CHECK_ARG(options->device_index >= 0,
                 "uf_context_options.device_index is %d; it must be 0 or more",
                 (int)options->device_index);
    UF_CHECK_ARG((options->allocator.allocate == NULL) == (options->allocator.release == NULL),
                 "uf_context_options.allocator must set both functions or neither");

    const uf_device_ops *device;
    UF_TRY(choose_device(options->device, &device));
    const uf_status status = open_on(device, options, context);
    /* A caller who names a GPU's number or a stream of its own wants that GPU. */
    if (status == UF_OK || options->device != UF_DEVICE_AUTO || device == &uf_cpu_device ||
        options->device_index != 0 || options->cuda_stream != NULL) {
        return status;
    }
    char cause[UF_MESSAGE_SIZE];
    (void)snprintf(cause, sizeof cause, "%s", uf_last_error());
    UF_TRY(open_on(&uf_cpu_device, options, context));
    uf_context_log(*context, UF_LOG_WARNING, "the CPU computes, since the GPU cannot: %s", cause);
    return UF_OK;
}

void uf_context_destroy(uf_context *context) {
    if (context == NULL) {
        return;
    }
    uf_objects_free(context);
    context->device->close(context);
    free(context);
}

uf_status uf_context_synchronize(uf_context *context) {
    UF_CHECK_ARG(context != NULL, "uf_context_synchronize: context is NULL");
    UF_TRY(uf_context_check(context));
    return context->device->synchronize(context);
}

uf_device uf_context_device(const uf_context *context) {
    return context != NULL ? context->device->device : UF_DEVICE_AUTO;
}

int32_t uf_context_threads(const uf_context *context) {
    return context != NULL ? context->threads : 0;
}

uint64_t uf_context_seed(const uf_context *context) {
    return context != NULL ? context->seed : 0;
}

const char *uf_context_description(const uf_context *context) {
    return context != NULL ? context->description : "";
}

uf_status uf_context_check(uf_context *context) {
    if (context->fault == UF_OK) {
        return UF_OK;
    }
    return uf_fail(context->fault, "%s", context->fault_message);
}

uf_status uf_context_allocate(uf_context *context, size_t size, uf_memory_kind kind,
                              void **pointer) {
    *pointer = NULL;
    if (size == 0) {
        return UF_OK;
    }
    *pointer = context->allocator.allocate(context->allocator.user, size, UF_ALIGNMENT, kind,
                                           context->stream);
    if (*pointer == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of %s memory: %zu bytes (%.1f MiB) were asked for",
                kind == UF_MEMORY_DEVICE ? "device" : "host", size,
                (double)size / (1024.0 * 1024.0));
    }
    return UF_OK;
}

void uf_context_release(uf_context *context, void *pointer, size_t size, uf_memory_kind kind) {
    if (pointer != NULL) {
        context->allocator.release(context->allocator.user, pointer, size, kind, context->stream);
    }
}

void uf_context_log(const uf_context *context, uf_log_level level, const char *format, ...) {
    if (context->log == NULL) {
        return;
    }
    char line[UF_MESSAGE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    uf_format_line(line, sizeof line, format, arguments);
    va_end(arguments);
    context->log(context->log_user, level, line);
}
