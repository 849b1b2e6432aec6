/* test_model_layers.c - no layer of the models in bench/models is computed by the general kernel on
 * an H200, in any direction, math or type, at batch 1 and at the batches that are timed; and
 * bench's lists have each of them. Needs no GPU. test_model_layers LIST.json...          the test;
 * the lists are those of bench_ops test_model_layers print                 a line for each layer,
 * direction, type and math test_model_layers missing LIST.json...  the convolutions that the lists
 * lack, as lines of one
 */
#include "support/test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "graph/graph.h"
#include "kernels/cuda/conv/select/choose.h"
#include "kernels/cuda/conv/select/cost.h"
#include "kernels/cuda/conv/select/explain.h"
#include "models/model.h"

enum { MOST_CELLS = 2048, LEAST_CELLS = 300, TEXT = 1024 };

/* A call of a model's: one direction of one layer. */
typedef struct cell {
    char layer[160]; /* the first model, batch and layer that has it */
    bool linear;
    uf_conv_direction direction;
    uf_conv_kernel_args args; /* f32; addresses mean nothing */
} cell;

static struct {
    cell cells[MOST_CELLS];
    int64_t count;
    const char *layer;
    bool linear;
} all;

static const char *const direction_names[] = {
    [UF_CONV_FPROP] = "fprop", [UF_CONV_DGRAD] = "dgrad", [UF_CONV_WGRAD] = "wgrad"};

static bool same(const cell *a, const cell *b) {
    return a->direction == b->direction && a->args.groups == b->args.groups &&
           memcmp(a->args.x.extent, b->args.x.extent, sizeof a->args.x.extent) == 0 &&
           memcmp(a->args.w.extent, b->args.w.extent, sizeof a->args.w.extent) == 0 &&
           memcmp(a->args.y.extent, b->args.y.extent, sizeof a->args.y.extent) == 0 &&
           memcmp(a->args.stride, b->args.stride, sizeof a->args.stride) == 0 &&
           memcmp(a->args.padding, b->args.padding, sizeof a->args.padding) == 0 &&
           memcmp(a->args.dilation, b->args.dilation, sizeof a->args.dilation) == 0 &&
           a->args.epilogue.activation.kind == b->args.epilogue.activation.kind &&
           (a->args.epilogue.scale.data == NULL) == (b->args.epilogue.scale.data == NULL) &&
           (a->args.epilogue.shift.data == NULL) == (b->args.epilogue.shift.data == NULL);
}

/* Stand in the place of the device's workspace functions: a layer asks these with the arguments of
 * its call. */
static size_t note(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    assert_true(all.count < MOST_CELLS);
    cell *const one = &all.cells[all.count];
    memset(one, 0, sizeof *one);
    (void)snprintf(one->layer, sizeof one->layer, "%s", all.layer);
    one->linear = all.linear;
    one->direction = direction;
    one->args = *args;
    for (int64_t i = 0; i < all.count; ++i) {
        if (same(&all.cells[i], one)) {
            return 0;
        }
    }
    ++all.count;
    return 0;
}

static size_t note_fprop(uf_context *context, const uf_conv_kernel_args *args) {
    (void)context;
    return note(UF_CONV_FPROP, args);
}

static size_t note_dgrad(uf_context *context, const uf_conv_kernel_args *args) {
    (void)context;
    return note(UF_CONV_DGRAD, args);
}

static size_t note_wgrad(uf_context *context, const uf_conv_kernel_args *args) {
    (void)context;
    return note(UF_CONV_WGRAD, args);
}

/* A layer's calls: forward as it stands and with a batch norm and an activation folded in, and both
 * gradients. */
static void walk_node(uf_context *context, const uf_graph *graph, const uf_node *node) {
    static char address[256] __attribute__((aligned(256)));
    const uf_shape *const input = &graph->values[node->inputs[0]].shape;
    uf_infer infer;
    uf_exec exec;
    size_t size;
    assert_ok(uf_node_infer(node, input, true, &infer));
    memset(&exec, 0, sizeof exec);
    exec.context = context;
    exec.attributes = node->attributes.bytes;
    exec.input_count = 1;
    exec.input_shapes[0] = input;
    exec.output_shape = &infer.output;
    exec.inputs[0] = exec.grad_inputs[0] = uf_view_of(address, UF_F32, input);
    exec.output = exec.grad_output = uf_view_of(address, UF_F32, &infer.output);
    for (int32_t p = 0; p < infer.param_count; ++p) {
        exec.params[p] = uf_view_of(address, UF_F32, &infer.params[p].shape);
    }
    exec.grad_params[0] = exec.params[0];
    assert_ok(node->layer->workspace(&exec, false, &size));
    assert_ok(node->layer->workspace(&exec, true, &size));
    exec.epilogue.activation.kind = UF_ACTIVATION_LEAKY_RELU;
    exec.epilogue.scale = exec.epilogue.shift =
        uf_view_nchw(address, UF_F32, 1, infer.output.extent[1], 1, 1);
    assert_ok(node->layer->workspace(&exec, false, &size));
}

static void walk_model(uf_context *context, const bench_model_row *row, int64_t batch) {
    uf_store *stores[BENCH_MODEL_STORES] = {NULL};
    uf_graph *graph;
    bench_model model;
    bench_model_size size = row->size;
    size.batch = batch;
    memset(&model, 0, sizeof model);
    for (int s = 0; s < BENCH_MODEL_STORES && row->stores[s] != NULL; ++s) {
        assert_ok(uf_store_create(context, row->stores[s], &stores[s]));
    }
    assert_ok(uf_graph_create(context, &graph));
    row->build(graph, stores, &size, &model);
    assert_ok(uf_graph_status(graph));
    for (int32_t n = 0; n < graph->node_count; ++n) {
        const uf_node *const node = graph->nodes[n];
        char layer[160];
        all.linear = node->layer == &uf_layer_linear;
        all.layer = layer;
        (void)snprintf(layer, sizeof layer, "%.24s b%" PRId64 " %.100s", row->name, batch,
                       node->path);
        if (all.linear || node->layer == &uf_layer_conv2d ||
            node->layer == &uf_layer_conv_transpose2d) {
            walk_node(context, graph, node);
        }
    }
}

/* Every model at every batch of its row, and at batch 1. */
static void walk_models(void) {
    uf_context_options options = uf_context_options_default();
    uf_context *context;
    options.device = UF_DEVICE_CPU;
    options.threads = 1;
    assert_ok(uf_context_create(&options, &context));
    const struct uf_kernels *const real = context->kernels;
    struct uf_kernels noting = *real;
    noting.conv_fprop_workspace = note_fprop;
    noting.conv_dgrad_workspace = note_dgrad;
    noting.conv_wgrad_workspace = note_wgrad;
    context->kernels = &noting;
    for (int32_t row = 0; row < bench_model_row_count; ++row) {
        walk_model(context, &bench_model_rows[row], 1);
        for (int64_t b = 0; b < COUNT_OF(bench_model_rows[row].batches); ++b) {
            if (bench_model_rows[row].batches[b] > 1) {
                walk_model(context, &bench_model_rows[row], bench_model_rows[row].batches[b]);
            }
        }
    }
    context->kernels = real;
    uf_context_destroy(context);
}

static const struct {
    const char *name;
    uf_dtype dtype;
    uf_math math;
} kinds[] = {{"f32 in FP32", UF_F32, UF_MATH_FP32},
             {"f32 in TF32", UF_F32, UF_MATH_TF32},
             {"f32 in BF16", UF_F32, UF_MATH_BF16},
             {"bf16", UF_BF16, UF_MATH_BF16}};

static uf_conv_kernel_args args_of(const cell *one, int64_t kind) {
    uf_conv_kernel_args args = one->args;
    args.x.dtype = args.w.dtype = args.y.dtype = kinds[kind].dtype;
    args.epilogue.scale.dtype = args.epilogue.shift.dtype = kinds[kind].dtype;
    args.math = kinds[kind].math;
    return args;
}

static void plan_of(const cell *one, int64_t kind, uf_conv_plan plan[2], char *text, size_t size) {
    const uf_gpu gpu = uf_gpu_h200();
    const uf_conv_kernel_args args = args_of(one, kind);
    const uf_conv_problem problem = uf_conv_problem_of(one->direction, &args, &gpu);
    char loop[96], words[160];
    assert_ok(uf_conv_choose(&problem, plan));
    uf_conv_explain_loop(plan, loop, sizeof loop);
    uf_conv_explain_plan(&problem, plan, words, sizeof words);
    (void)snprintf(text, size,
                   "%-44s x %4" PRId64 " x %4" PRId64 " x %4" PRId64 " x %4" PRId64 ", w %4" PRId64
                   " x %4" PRId64 " x %2" PRId64 " x %2" PRId64 ", stride %" PRId64
                   ", padding %" PRId64 "%s | %s | %-11s | %-23s | %9.2f us | %s, %s",
                   one->layer, args.x.extent[0], args.x.extent[1], args.x.extent[2],
                   args.x.extent[3], args.w.extent[0], args.w.extent[1], args.w.extent[2],
                   args.w.extent[3], args.stride[0], args.padding[0],
                   args.epilogue.activation.kind != UF_ACTIVATION_IDENTITY ? ", fused" : "",
                   direction_names[one->direction], kinds[kind].name,
                   uf_cuda_conv_variant_name((uf_cuda_conv_variant)plan->variant),
                   plan->microseconds, loop, words);
}

/* One product for each written element, and few of them: any kernel takes the time of a launch, and
 * the general one is as good. */
static bool is_a_launch(const cell *one) {
    const uf_conv_problem problem = uf_conv_problem_of(one->direction, &one->args, NULL);
    const double products = uf_conv_multiply_adds(&problem);
    return products <= 8192.0 && products <= (double)uf_view_count(uf_conv_written(&problem));
}

static void test_no_general_kernel(void **state) {
    (void)state;
    int64_t general = 0, directions[3] = {0};
    assert_true(all.count >= LEAST_CELLS);
    for (int64_t i = 0; i < all.count; ++i) {
        for (int64_t kind = 0; kind < COUNT_OF(kinds); ++kind) {
            uf_conv_plan plan[2];
            char text[TEXT];
            plan_of(&all.cells[i], kind, plan, text, sizeof text);
            if (plan->variant == UF_CUDA_CONV_NAIVE && !is_a_launch(&all.cells[i])) {
                print_message("%s\n", text);
                ++general;
            }
        }
        ++directions[all.cells[i].direction];
    }
    assert_true(directions[0] > 0 && directions[1] > 0 && directions[2] > 0);
    assert_int_equal(general, 0);
}

/* ---- the lists of bench_ops ---- */

static bench_shape *shapes;
static int64_t shape_count;

static bool read_list(const char *path) {
    char error[256];
    int64_t count;
    bench_shape *const list = bench_read_shapes(path, &count, error, sizeof error);
    bench_shape *const larger =
        list == NULL ? NULL : realloc(shapes, (size_t)(shape_count + count) * sizeof *shapes);
    if (larger == NULL) {
        (void)fprintf(stderr, "test_model_layers: %s: %s\n", path, error);
        free(list);
        return false;
    }
    memcpy(larger + shape_count, list, (size_t)count * sizeof *list);
    free(list);
    shapes = larger;
    shape_count += count;
    return true;
}

static bool is_listed(const cell *one) {
    for (int64_t i = 0; i < shape_count; ++i) {
        cell listed;
        memset(&listed, 0, sizeof listed);
        listed.direction = UF_CONV_WGRAD;
        bench_kernel_args(&shapes[i], UF_F32, UF_MATH_FP32, &listed.args);
        if (same(&listed, one)) {
            return true;
        }
    }
    return false;
}

/* A weight gradient stands for its layer: it has no epilogue. Linear layers are not of the lists.
 */
static bool is_missing(const cell *one) {
    return one->direction == UF_CONV_WGRAD && !one->linear && !is_listed(one);
}

static void test_lists(void **state) {
    (void)state;
    int64_t missing = 0;
    for (int64_t i = 0; i < all.count; ++i) {
        if (is_missing(&all.cells[i])) {
            print_message("bench has not %s\n", all.cells[i].layer);
            ++missing;
        }
    }
    assert_int_equal(missing, 0);
}

static void print_missing(void) {
    for (int64_t i = 0; i < all.count; ++i) {
        const uf_conv_kernel_args *const a = &all.cells[i].args;
        if (!is_missing(&all.cells[i])) {
            continue;
        }
        (void)printf("  {\"name\": \"%s\", \"n\": %" PRId64 ", \"c_in\": %" PRId64
                     ", \"c_out\": %" PRId64 ", \"h\": %" PRId64 ", \"w\": %" PRId64,
                     all.cells[i].layer, a->y.extent[0], a->y.extent[1], a->x.extent[1],
                     a->y.extent[2], a->y.extent[3]);
        int64_t rest[2];
        for (int axis = 0; axis < 2; ++axis) {
            rest[axis] = a->x.extent[2 + axis] - (a->y.extent[2 + axis] - 1) * a->stride[axis] +
                         2 * a->padding[axis] - a->dilation[axis] * (a->w.extent[2 + axis] - 1) - 1;
        }
        const struct {
            const char *name;
            const int64_t *pair;
        } pairs[] = {{"kernel", &a->w.extent[2]},
                     {"stride", a->stride},
                     {"padding", a->padding},
                     {"output_padding", rest},
                     {"dilation", a->dilation}};
        for (int64_t p = 0; p < COUNT_OF(pairs); ++p) {
            (void)printf(", \"%s\": [%" PRId64 ", %" PRId64 "]", pairs[p].name, pairs[p].pair[0],
                         pairs[p].pair[1]);
        }
        (void)printf(", \"groups\": %" PRId64 "},\n", a->groups);
    }
}

static void print_choices(void) {
    for (int64_t i = 0; i < all.count; ++i) {
        for (int64_t kind = 0; kind < COUNT_OF(kinds); ++kind) {
            uf_conv_plan plan[2];
            char text[TEXT];
            plan_of(&all.cells[i], kind, plan, text, sizeof text);
            (void)puts(text);
        }
    }
}

static int walk(void **state) {
    (void)state;
    walk_models();
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_general_kernel),
        cmocka_unit_test(test_lists),
    };
    const bool prints = argc == 2 && strcmp(argv[1], "print") == 0;
    const bool lacks = argc > 1 && strcmp(argv[1], "missing") == 0;
    for (int i = lacks ? 2 : 1; i < argc && !prints; ++i) {
        if (!read_list(argv[i])) {
            return 2;
        }
    }
    if (prints || lacks) {
        walk_models();
        if (prints) {
            print_choices();
        } else {
            print_missing();
        }
    }
    const int failed = prints || lacks ? 0 : cmocka_run_group_tests(tests, walk, NULL);
    free(shapes);
    return failed;
}
