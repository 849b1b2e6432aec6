/* consumer.c - a program of a project that uses an installed unfurl. The same file is legal C11 and
 * C++17. It builds a graph of one layer, gives it weights, runs it and checks the result. */
#include <stdio.h>
#include <stdlib.h>

#include <unfurl/unfurl.h>

/* Doubling by ConvTranspose2d with a 2 x 2 kernel of ones and stride 2 repeats every pixel. */
static uf_status repeat_pixels(uf_context *context, float *result) {
    const float pixels[4] = {1.0f, 2.0f, 3.0f, 4.0f};
    const float ones[4] = {1.0f, 1.0f, 1.0f, 1.0f};
    uf_store *weights = NULL;
    uf_graph *graph = NULL;
    uf_program *program = NULL;
    uf_tensor *weight = NULL;
    uf_status status = uf_store_create(context, "repeat", &weights);
    if (status == UF_OK) {
        status = uf_graph_create(context, &graph);
    }
    if (status == UF_OK) {
        uf_value x = uf_input(graph, "x", UF_SHAPE(1, 1, 2, 2));
        x = uf_conv_transpose2d(graph, x, uf_at(weights, "grow"), 1,
                                UF_CONV_TRANSPOSE2D(2, 2, 0, false));
        uf_output(graph, "y", x);
        status = uf_program_compile(graph, NULL, &program);
    }
    if (status == UF_OK) {
        status = uf_store_tensor(weights, "grow.weight", &weight);
    }
    if (status == UF_OK) {
        status = uf_tensor_upload(weight, ones);
    }
    if (status == UF_OK) {
        uf_store_touch(weights);
        status = uf_tensor_upload(uf_program_input(program, "x"), pixels);
    }
    if (status == UF_OK) {
        status = uf_program_run(program);
    }
    if (status == UF_OK) {
        status = uf_tensor_download(uf_program_output(program, "y"), result);
    }
    uf_program_destroy(program);
    uf_graph_destroy(graph);
    uf_store_destroy(weights);
    return status;
}

int main(void) {
    const float expected[16] = {1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4};
    float result[16] = {0};
    uf_context *context = NULL;
    uf_status status = uf_context_create(NULL, &context);
    if (status == UF_OK) {
        status = repeat_pixels(context, result);
    }
    if (status != UF_OK) {
        fprintf(stderr, "%s: %s\n", uf_status_name(status), uf_last_error());
    }
    uf_context_destroy(context);
    int wrong = status != UF_OK;
    for (int i = 0; i < 16; ++i) {
        wrong |= !(result[i] == expected[i]);
    }
    printf("unfurl %s: %s\n", uf_version(), wrong ? "wrong" : "right");
    return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
