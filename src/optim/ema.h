/* ema.h - the moving average's insides. */
#ifndef UF_OPTIM_EMA_H
#define UF_OPTIM_EMA_H

#include <unfurl/ema.h>

#include "core/store.h"
#include "kernels/kernels.h"

struct uf_ema {
    uf_object object;
    uf_store *store, *average;
    bool average_buffers;
    uf_optimizer_control *control; /* device memory; its lr is 1 - decay */
};

/* One step of the average; the caller says that its store changed (uf_store_changed). */
uf_status uf_ema_run(const uf_ema *ema);

#endif
