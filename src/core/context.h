/* context.h - the context's insides. Knows no layer. */
#ifndef UF_CORE_CONTEXT_H
#define UF_CORE_CONTEXT_H

#include <unfurl/context.h>

#include "core/error.h"

UF_BEGIN_DECLS

struct uf_conv_kernel_args;
struct uf_kernels;
struct uf_tuning_result;

/* A device's part of tuning.h: measured choices of kernels, which the context keeps. */
typedef struct uf_tuning_interface {
    /* `direction` is a uf_conv_direction; the arguments have been checked. */
    uf_status (*conv)(uf_context *context, int direction, const struct uf_conv_kernel_args *args,
                      struct uf_tuning_result *result);
    int64_t (*count)(const uf_context *context);
    uf_status (*save)(const uf_context *context, const char *path);
    uf_status (*load)(uf_context *context, const char *path);
} uf_tuning_interface;

/* A moment among the work of a context. */
typedef struct uf_mark {
    void *event; /* the device's */
    double ms;   /* of the CPU's clock */
} uf_mark;

/* A device's operations besides its kernels. One table per device (cpu/cpu_device.c,
 * cuda/device/device.c). */
typedef struct uf_device_ops {
    uf_device device;
    int32_t (*count)(const char **reason); /* usable devices; 0 with a static sentence */
    /* Fill context->description, context->state, context->stream; check that the device works. */
    uf_status (*open)(uf_context *context, const uf_context_options *options);
    void (*close)(uf_context *context);
    void *(*allocate)(void *context, size_t size, size_t alignment, uf_memory_kind kind,
                      void *stream);
    void (*release)(void *context, void *pointer, size_t size, uf_memory_kind kind, void *stream);
    uf_status (*upload)(uf_context *context, void *device, const void *host, size_t size);
    uf_status (*download)(uf_context *context, void *host, const void *device, size_t size);
    uf_status (*copy)(uf_context *context, void *to, const void *from, size_t size);
    uf_status (*zero)(uf_context *context, void *device, size_t size);
    uf_status (*synchronize)(uf_context *context);
    /* Recording what is queued and replaying it (CUDA graphs). All NULL where the device has
     * none. */
    uf_status (*record_begin)(uf_context *context);
    uf_status (*record_end)(uf_context *context, void **recording); /* NULL on failure */
    uf_status (*record_play)(uf_context *context, void *recording);
    void (*record_destroy)(uf_context *context, void *recording);
    bool (*is_recording)(uf_context *context); /* the stream is under a capture already */
    /* Measuring time: a mark made from zeroed memory is set behind the work queued so far, as often
     * as one likes. mark_between waits for `to`. */
    uf_status (*mark_create)(uf_context *context, uf_mark *mark);
    void (*mark_destroy)(uf_context *context, uf_mark *mark);
    uf_status (*mark_set)(uf_context *context, uf_mark *mark);
    uf_status (*mark_between)(uf_context *context, const uf_mark *from, const uf_mark *to,
                              double *ms);
    const uf_tuning_interface *tuning; /* NULL where the choice of kernels is not tuned */
    const struct uf_kernels *kernels;
} uf_device_ops;

extern const uf_device_ops uf_cpu_device;

/* The CUDA device, or NULL with a sentence in *reason when the build or the machine has none.
 * Defined by cuda_absent.c or by the CUDA backend. */
const uf_device_ops *uf_cuda_device(const char **reason);

struct uf_context {
    const uf_device_ops *device;
    const struct uf_kernels *kernels; /* = device->kernels */
    uf_allocator allocator;
    uf_log_function log;
    void *log_user;
    int32_t threads;
    int32_t device_index;
    uint64_t seed;
    struct uf_object *objects; /* made from this context and not destroyed yet, newest first */
    uint32_t next_tag;    /* of a graph; the first is random, so that contexts do not share them */
    struct uf_pool *pool; /* the CPU's threads, see parallel.h; NULL on other devices */
    void *stream;         /* cudaStream_t; NULL on the CPU */
    void *state;          /* the device's own */
    uf_status fault;      /* not UF_OK once the device failed; fault_message says how */
    char fault_message[UF_MESSAGE_SIZE];
    char description[128];
};

#define UF_ALIGNMENT ((size_t)256)

static inline size_t uf_align_up(size_t size) {
    return (size + UF_ALIGNMENT - 1) / UF_ALIGNMENT * UF_ALIGNMENT;
}

/* Memory through the context's allocator, UF_ALIGNMENT-aligned. Size 0 gives NULL and UF_OK. */
uf_status uf_context_allocate(uf_context *context, size_t size, uf_memory_kind kind,
                              void **pointer);
void uf_context_release(uf_context *context, void *pointer, size_t size, uf_memory_kind kind);

/* UF_OK, or the fault that poisoned the context. */
uf_status uf_context_check(uf_context *context);

void uf_context_log(const uf_context *context, uf_log_level level, const char *format, ...)
    UF_PRINTF(3, 4);

UF_END_DECLS

#endif
