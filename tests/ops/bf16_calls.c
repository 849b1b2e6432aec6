/* bf16_calls.c - see bf16_calls.h. */
#include "ops/bf16_calls.h"

#include <math.h>
#include <string.h>

#include "core/tensor.h"
#include "support/guard.h"

const char *const direction_names[DIRECTIONS] = {"forward", "backward_input", "backward_weight"};

run_function *const run_functions[2][DIRECTIONS] = {
    {uf_conv2d_forward, uf_conv2d_backward_input, uf_conv2d_backward_weight},
    {uf_conv_transpose2d_forward, uf_conv_transpose2d_backward_input,
     uf_conv_transpose2d_backward_weight}};
query_function *const query_functions[2][DIRECTIONS] = {
    {uf_conv2d_forward_workspace, uf_conv2d_backward_input_workspace,
     uf_conv2d_backward_weight_workspace},
    {uf_conv_transpose2d_forward_workspace, uf_conv_transpose2d_backward_input_workspace,
     uf_conv_transpose2d_backward_weight_workspace}};

double to_bf16(double value) {
    uint16_t bits;
    uf_convert(&bits, UF_BF16, &value, UF_F64, 1);
    uf_convert(&value, UF_F64, &bits, UF_BF16, 1);
    return value;
}

int64_t bf16_variants(unsigned directions, const char *names[CONV_VARIANTS]) {
    static const char *const cpu[] = {NULL, "gemm", "gather", "direct", "dot"};
    if (test_on_gpu()) {
        return conv_variants(directions, UF_CONV_BF16, names);
    }
    memcpy((void *)names, cpu, sizeof cpu);
    return (directions & UF_CONV_WEIGHTS) != 0 ? COUNT_OF(cpu) : COUNT_OF(cpu) - 1;
}

static bool takes_everything(const char *variant) {
    return variant == NULL || strcmp(variant, "naive") == 0;
}

bool call(uf_context *context, const char *label, bool transposed, direction which,
          uf_conv2d_args *args) {
    assert_null(args->workspace);
    uf_status status = query_functions[transposed][which](context, args, &args->workspace_size);
    if (status == UF_OK) {
        guarded scratch = guard_scratch(args->workspace_size);
        args->workspace = args->workspace_size > 0 ? scratch.view.data : NULL;
        status = run_functions[transposed][which](context, args);
        if (status == UF_OK) {
            assert_ok(uf_context_synchronize(context));
        }
        assert_guard_intact(label, &scratch);
        guard_destroy(&scratch);
        args->workspace = NULL;
    }
    if (status == UF_ERROR_UNSUPPORTED && !takes_everything(args->variant)) {
        assert_non_null(strstr(uf_last_error(), args->variant));
        return false;
    }
    if (status != UF_OK) {
        fail_msg("%s: %s: %s", label, uf_status_name(status), uf_last_error());
    }
    return true;
}

void assert_rounded_once(const char *label, const double *got, const double *expected,
                         int64_t count, double tolerance) {
    double size = 0.0;
    for (int64_t i = 0; i < count; ++i) {
        size = fmax(size, fabs(expected[i]));
    }
    for (int64_t i = 0; i < count; ++i) {
        const double low = to_bf16(expected[i] - tolerance * size);
        const double high = to_bf16(expected[i] + tolerance * size);
        if (!(low <= got[i] && got[i] <= high)) {
            fail_msg("%s: element %lld of %lld is %.9g; %.9g rounds to %.9g ... %.9g", label,
                     (long long)i, (long long)count, got[i], expected[i], low, high);
        }
    }
}
