/* ops_door.c - guarded views around one call of ops.h. */
#include "support/ops_door.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/compare.h"
#include "support/test.h"

/* Tensors of rank 1 are (1, C, 1, 1), as channel vectors are everywhere. */
static guarded guard_tensor(const case_tensor *tensor, uf_dtype dtype, guard_layout layout,
                            test_random *random) {
    int64_t extent[4] = {1, 1, 1, 1};
    if (tensor->rank == 1) {
        extent[1] = tensor->extent[0];
    } else {
        memcpy(extent, tensor->extent, sizeof extent);
    }
    return guard_create(dtype, extent, layout, random);
}

uf_status ops_door_try(uf_context *context, const layer_case *one, const ops_run *run,
                       double *result, double *before) {
    guarded parameters[CASE_PARAMETERS];
    guarded input = guard_tensor(&one->input, run->dtype, run->input, run->random);
    guarded output = guard_tensor(&one->output, run->dtype, run->output, run->random);
    guard_store(&input, one->input.values);
    if (run->mode == UF_ACCUMULATE) {
        test_random_fill(run->random, before, one->output.count, 1.0);
        guard_store(&output, before);
    }
    ops_call call;
    memset(&call, 0, sizeof call);
    call.one = one;
    call.input = input.view;
    call.output = output.view;
    call.mode = run->mode;
    call.variant = run->variant;
    for (int32_t i = 0; i < one->parameter_count; ++i) {
        parameters[i] = guard_tensor(&one->parameters[i], run->dtype, run->parameters, run->random);
        guard_store(&parameters[i], one->parameters[i].values);
        call.parameters[i] = parameters[i].view;
    }
    const uf_status status = one->family->ops(context, &call);
    if (status == UF_OK) {
        assert_ok(uf_context_synchronize(context));
        guard_load(&output, result);
    }
    assert_guard_intact(one->label, &output);
    assert_guard_intact(one->label, &input);
    /* Inputs are only read: what was stored is still there. */
    double *still = test_allocate((size_t)one->input.count * sizeof *still);
    guarded again = guard_tensor(&one->input, run->dtype, GUARD_NCHW, NULL);
    double *stored = test_allocate((size_t)one->input.count * sizeof *stored);
    guard_store(&again, one->input.values);
    guard_load(&again, stored);
    guard_load(&input, still);
    assert_same_bits(one->label, still, stored, one->input.count * (int64_t)sizeof *still);
    free(still);
    free(stored);
    guard_destroy(&again);
    guard_destroy(&input);
    guard_destroy(&output);
    for (int32_t i = 0; i < one->parameter_count; ++i) {
        assert_guard_intact(one->label, &parameters[i]);
        guard_destroy(&parameters[i]);
    }
    return status;
}

void ops_door_check(uf_context *context, const layer_case *one, const ops_run *run,
                    double tolerance, double floor) {
    static const char *const layouts[GUARD_LAYOUTS] = {"nchw", "nhwc",    "transposed",
                                                       "gaps", "shifted", "images"};
    char label[512];
    (void)snprintf(label, sizeof label, "%s [%s, in %s, out %s, parameters %s, %s, variant %s]",
                   one->label, uf_dtype_name(run->dtype), layouts[run->input], layouts[run->output],
                   layouts[run->parameters],
                   run->mode == UF_ACCUMULATE ? "accumulate" : "overwrite",
                   run->variant != NULL ? run->variant : "-");
    const size_t bytes = (size_t)one->output.count * sizeof(double);
    double *result = test_allocate(bytes);
    double *before = test_allocate(bytes);
    const uf_status status = ops_door_try(context, one, run, result, before);
    if (status != UF_OK) {
        fail_msg("%s: %s: %s", label, uf_status_name(status), uf_last_error());
    }
    double *expected = test_allocate(bytes);
    for (int64_t i = 0; i < one->output.count; ++i) {
        expected[i] = one->output.values[i] + (run->mode == UF_ACCUMULATE ? before[i] : 0.0);
    }
    assert_close(label, compare_values(result, expected, one->output.count, floor), tolerance);
    free(result);
    free(before);
    free(expected);
}
