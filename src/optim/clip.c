/* clip.c - clipping of the gradients in a store's flat arena. */
#include "optim/optimizer.h"

uf_status uf_clip_run(const uf_store *store, const uf_clip_kernel_args *given, bool squares,
                      const uf_span *spans, int32_t span_count) {
    uf_context *context = store->context;
    uf_clip_kernel_args args = *given;
    args.dtype = store->dtype;
    for (int32_t i = 0; i < span_count; ++i) {
        args.count = spans[i].count;
        args.gradient =
            (char *)store->gradient_arena + (size_t)spans[i].offset * uf_dtype_size(store->dtype);
        UF_TRY(uf_clip_check(&args, squares));
        UF_TRY(squares ? context->kernels->gradient_squares(context, &args)
                       : context->kernels->gradient_clip(context, &args));
        args.mode = UF_ACCUMULATE;
    }
    return UF_OK;
}
