/* status.h - what a call returns, and the sentence that goes with a failure. */
#ifndef UNFURL_STATUS_H
#define UNFURL_STATUS_H

#include <unfurl/export.h>

UF_BEGIN_DECLS

typedef enum uf_status {
    UF_OK = 0,
    UF_ERROR_INVALID_ARGUMENT, /* a value the caller passed is not legal */
    UF_ERROR_SHAPE,            /* tensors whose shapes do not fit each other */
    UF_ERROR_NOT_FOUND,        /* a name or a file that does not exist */
    UF_ERROR_STATE,            /* a legal call at the wrong time (a sealed store, say) */
    UF_ERROR_OUT_OF_MEMORY,    /* host or device memory */
    UF_ERROR_IO,               /* the operating system refused to read or write */
    UF_ERROR_FORMAT,           /* a file that is not what it should be */
    UF_ERROR_UNSUPPORTED,      /* legal, but this build or device does not do it */
    UF_ERROR_DEVICE,           /* the device failed; its context is poisoned */
    UF_ERROR_INTERNAL          /* a defect of the library */
} uf_status;

/* The enumerator's name, "UF_ERROR_SHAPE"; static storage, never NULL. */
UF_API const char *uf_status_name(uf_status status);

/* The message of the newest failure in the calling thread: one sentence, with the numbers. It stays
 * until the next failing call of this thread; a succeeding call does not clear it. Never NULL. */
UF_API const char *uf_last_error(void);

/* Return from the enclosing function with the status of `call` if it failed. */
#define UF_TRY(call)                                                                               \
    do {                                                                                           \
        uf_status uf_try_status = (call);                                                          \
        if (uf_try_status != UF_OK) {                                                              \
            return uf_try_status;                                                                  \
        }                                                                                          \
    } while (0)

UF_END_DECLS

#endif
