/* zero.c - zeros for the gradients of a store that no step of a program writes. */
#include "optim/optimizer.h"

uf_status uf_zero_run(const uf_store *store, const uf_span *spans, int32_t span_count) {
    const int64_t element = (int64_t)uf_dtype_size(store->dtype);
    for (int32_t first = 0; first < span_count; first += UF_ZERO_SPANS) {
        uf_zero_kernel_args args = {.memory = store->gradient_arena};
        for (; args.count < UF_ZERO_SPANS && first + args.count < span_count; ++args.count) {
            const uf_span *span = &spans[first + args.count];
            args.spans[args.count] = (uf_zero_span){span->offset * element, span->count * element};
        }
        UF_TRY(uf_zero_check(&args));
        UF_TRY(store->context->kernels->zero(store->context, &args));
    }
    return UF_OK;
}
