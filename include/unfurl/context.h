/* context.h - a device, its threads or stream, its memory and its seed. All state of the library
 * hangs off a context: two contexts in two threads never meet. One context is used by one thread at
 * a time. A CPU context has threads of its own, which fork() does not copy: a child makes its own
 * context and leaves its parent's alone. */
#ifndef UNFURL_CONTEXT_H
#define UNFURL_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <unfurl/status.h>

UF_BEGIN_DECLS

typedef struct uf_context uf_context;

typedef enum uf_device {
    /* CUDA if this build has it and the GPU can be opened, else CPU; the log then tells why. With a
     * device_index or cuda_stream in the options, a GPU that cannot be opened is an error. */
    UF_DEVICE_AUTO = 0,
    UF_DEVICE_CPU,
    UF_DEVICE_CUDA
} uf_device;

typedef enum uf_memory_kind {
    UF_MEMORY_HOST = 0, /* read and written by the CPU */
    UF_MEMORY_DEVICE,   /* on a CPU context the same as host memory */
    UF_MEMORY_PINNED    /* host memory that a GPU can copy to and from asynchronously */
} uf_memory_kind;

/* Where tensors, stores and workspaces come from. `allocate` returns NULL when memory is out; the
 * alignment is a power of two, 256 or less. `stream` is the context's cudaStream_t, NULL on the
 * CPU. Small host-side bookkeeping does not go through it. Both functions or neither must be
 * set. */
typedef struct uf_allocator {
    void *(*allocate)(void *user, size_t size, size_t alignment, uf_memory_kind kind, void *stream);
    void (*release)(void *user, void *pointer, size_t size, uf_memory_kind kind, void *stream);
    void *user;
} uf_allocator;

typedef enum uf_log_level { UF_LOG_INFO = 0, UF_LOG_WARNING, UF_LOG_ERROR } uf_log_level;

/* Receives what is too long for one message, a line per call. The library itself prints nothing. */
typedef void (*uf_log_function)(void *user, uf_log_level level, const char *line);

typedef struct uf_context_options {
    size_t struct_size;
    uf_device device;     /* UF_DEVICE_AUTO */
    int32_t device_index; /* number of the GPU; 0 */
    int32_t threads; /* CPU threads, 1 to 1024, the caller among them; the number of usable cores */
    uint64_t seed;   /* of every initialiser; 0 */
    uf_allocator allocator; /* all NULL: the library's own */
    uf_log_function log;    /* NULL: nobody listens */
    void *log_user;
    void *cuda_stream; /* a cudaStream_t to borrow; NULL: the context makes its own */
} uf_context_options;

/* Cores that this process may run on, 1 to 1024. */
UF_API int32_t uf_usable_cores(void);

static inline uf_context_options uf_context_options_default(void) {
    uf_context_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.threads = uf_usable_cores();
    return options;
}

/* Create a context. `options` may be NULL for all defaults. On failure *context is NULL.
 * Errors: INVALID_ARGUMENT, UNSUPPORTED (a device this build lacks), DEVICE, OUT_OF_MEMORY. */
UF_API UF_NODISCARD uf_status uf_context_create(const uf_context_options *options,
                                                uf_context **context);

/* Destroy a context and what was made from it and is not destroyed yet: tensors, stores, graphs,
 * programs and optimizers, whose pointers are then as dead as the context's. NULL is legal. Waits
 * for the device. */
UF_API void uf_context_destroy(uf_context *context);

/* Wait until all work queued on the context is done. Faults of asynchronous work surface here (or
 * at the next call after them) as UF_ERROR_DEVICE; from then on every call of the context returns
 * it. */
UF_API UF_NODISCARD uf_status uf_context_synchronize(uf_context *context);

/* NULL has AUTO, 0, 0 and "". */
UF_API uf_device uf_context_device(const uf_context *context); /* CPU or CUDA, never AUTO */
UF_API int32_t uf_context_threads(const uf_context *context);
UF_API uint64_t uf_context_seed(const uf_context *context);

/* "CPU (AVX-512, 2 threads)" or "NVIDIA H200 (CUDA)". Owned by the context. */
UF_API const char *uf_context_description(const uf_context *context);

/* How many devices of a kind this build can use; 0 for CUDA when the build or the machine has none.
 * In that case, and if `reason` is not NULL, *reason is a static sentence that says why. */
UF_API int32_t uf_device_count(uf_device device, const char **reason);

UF_API const char *uf_version(void); /* "0.2.0" of the library at run time */

UF_END_DECLS

#endif
