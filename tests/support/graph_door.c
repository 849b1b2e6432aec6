/* graph_door.c - a case as a program. */
#include "support/graph_door.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/compare.h"
#include "support/test.h"

void store_put(uf_store *store, const char *name, const double *values, int64_t count) {
    uf_tensor *tensor = NULL;
    assert_ok(uf_store_tensor(store, name, &tensor));
    assert_ok(uf_tensor_upload_as(tensor, UF_F64, values, count));
    uf_store_touch(store);
}

static void fill_store(uf_store *store, const layer_case *one) {
    for (int32_t i = 0; i < one->parameter_count; ++i) {
        char name[64];
        (void)snprintf(name, sizeof name, "layer.%s", one->parameters[i].name);
        store_put(store, name, one->parameters[i].values, one->parameters[i].count);
    }
}

graph_door graph_door_open(uf_context *context, const layer_case *one, uf_dtype dtype, bool fuse) {
    graph_door door = {NULL, NULL, NULL};
    uf_store_options store_options = uf_store_options_default();
    store_options.dtype = dtype == UF_BF16 ? UF_F32 : dtype;
    assert_ok(uf_store_create_with(context, "case", &store_options, &door.store));
    assert_ok(uf_graph_create(context, &door.graph));
    const uf_value x = uf_input(door.graph, "x", uf_shape_from(one->input.extent, one->input.rank));
    const uf_value y = one->family->graph(door.graph, x, uf_at(door.store, "layer"), one);
    const uf_shape expected = uf_shape_from(one->output.extent, one->output.rank);
    const uf_shape inferred = uf_value_shape(door.graph, y);
    uf_output(door.graph, "y", y);
    const uf_status status = uf_graph_status(door.graph);
    if (status != UF_OK) {
        fail_msg("%s: %s: %s", one->label, uf_status_name(status), uf_last_error());
    }
    if (!uf_shape_equal(&inferred, &expected)) {
        char got[128];
        char wanted[128];
        fail_msg("%s: the graph infers %s, expected %s", one->label,
                 uf_shape_format(&inferred, got, sizeof got),
                 uf_shape_format(&expected, wanted, sizeof wanted));
    }
    uf_program_options options = uf_program_options_default();
    options.dtype = dtype;
    options.fuse = fuse;
    assert_ok(uf_program_compile(door.graph, &options, &door.program));
    fill_store(door.store, one);
    return door;
}

void graph_door_close(graph_door *door) {
    uf_program_destroy(door->program);
    uf_graph_destroy(door->graph);
    uf_store_destroy(door->store);
    memset(door, 0, sizeof *door);
}

void graph_door_run(graph_door *door, const layer_case *one, double *result) {
    uf_tensor *input = uf_program_input(door->program, "x");
    uf_tensor *output = uf_program_output(door->program, "y");
    assert_non_null(input);
    assert_non_null(output);
    assert_ok(uf_tensor_upload_as(input, UF_F64, one->input.values, one->input.count));
    /* An output that a run does not write must not keep an earlier run's values. */
    const size_t bytes = (size_t)one->output.count * sizeof *result;
    memset(result, 0xff, bytes);
    assert_ok(uf_tensor_upload_as(output, UF_F64, result, one->output.count));
    assert_ok(uf_program_run(door->program));
    assert_ok(uf_tensor_download_as(output, UF_F64, result, one->output.count));
}

void graph_door_check(uf_context *context, const layer_case *one, uf_dtype dtype, bool fuse,
                      double tolerance, double floor) {
    char label[512];
    (void)snprintf(label, sizeof label, "%s [graph, %s, %s]", one->label, uf_dtype_name(dtype),
                   fuse ? "fused" : "not fused");
    const size_t bytes = (size_t)one->output.count * sizeof(double);
    double *result = test_allocate(bytes);
    double *again = test_allocate(bytes);
    graph_door door = graph_door_open(context, one, dtype, fuse);
    graph_door_run(&door, one, result);
    assert_close(label, compare_values(result, one->output.values, one->output.count, floor),
                 tolerance);
    graph_door_run(&door, one, again);
    assert_same_bits(label, again, result, (int64_t)bytes);
    graph_door_close(&door);
    free(result);
    free(again);
}
