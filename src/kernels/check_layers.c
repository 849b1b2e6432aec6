/* check_layers.c - the validators of kernels that layers alone call. */
#include "kernels/check.h"

#include <inttypes.h>

uf_status uf_softmax_check(const uf_softmax_kernel_args *args, bool backward) {
    const char *kernel = backward ? "softmax_backward" : "softmax_forward";
    const uf_view *const views[] = {&args->output, backward ? &args->grad_output : &args->input,
                                    &args->grad_input};
    const char *const names[] = {"output", backward ? "grad_output" : "input", "grad_input"};
    int64_t count = args->outer;
    UF_CHECK_ARG(args->outer >= 1 && args->extent >= 1 && args->inner >= 1 &&
                     !__builtin_mul_overflow(count, args->extent, &count) &&
                     !__builtin_mul_overflow(count, args->inner, &count),
                 "%s: %" PRId64 " by %" PRId64 " by %" PRId64
                 " elements; each must be 1 or more, and their product a number of elements",
                 kernel, args->outer, args->extent, args->inner);
    UF_TRY(uf_check_mode(kernel, args->mode));
    UF_TRY(uf_check_stored(kernel, names[0], views[0]));
    for (int i = 0; i < (backward ? 3 : 2); ++i) {
        UF_CHECK_ARG(views[i]->data != NULL, "%s: %s is absent", kernel, names[i]);
        UF_TRY(uf_check_same_type(kernel, names[i], views[i], names[0], views[0]));
        UF_CHECK_ARG(uf_view_count(views[i]) == count,
                     "%s: %s has %" PRId64 " elements, not %" PRId64, kernel, names[i],
                     uf_view_count(views[i]), count);
    }
    return UF_OK;
}
