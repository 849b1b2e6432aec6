/* test_fusion.c - what fusion takes in a training program, and what it must leave; what a concat
 * copies, and what was made in its place. Each scene says how many of its steps go, or how many
 * copies are made. All that the program leaves has the bits of the program that is not fused and
 * shares no memory: outputs, losses, gradients of parameters and of values. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/program.h"
#include "support/compare.h"
#include "support/network.h"

enum { MOST = 4, RUNS = 2, ROOM = 1 << 17 };

/* A graph under construction, and what its passes name. */
typedef struct stage {
    uf_graph *graph;
    uf_store *stores[2]; /* of pass 0 and of pass 1 */
    uf_value x;          /* the input, (2, 3, 4, 4), or 8 x 8: 256 bytes a channel or 512 */
    uf_value losses[2][2];
    int32_t loss_count[2];
    uf_value asked[MOST]; /* by pass 0 */
    int32_t asked_count;
    bool external_seeds, accumulate, evaluated;
} stage;

static uf_value conv(stage *s, const char *name, uf_value x) {
    uf_conv2d_options same = uf_conv2d_options_default();
    same.padding[0] = same.padding[1] = 1;
    return uf_conv2d(s->graph, x, uf_at(s->stores[0], name), 3, &same);
}

static uf_value norm(stage *s, const char *name, uf_value x) {
    return uf_batch_norm2d(s->graph, x, uf_at(s->stores[0], name), NULL);
}

/* To the shape of the input, after a convolution without padding. */
static uf_value back(stage *s, const char *name, uf_value y) {
    return uf_conv_transpose2d(s->graph, y, uf_at(s->stores[0], name), 3, NULL);
}

static void output(stage *s, uf_value value) {
    char name[32];
    (void)snprintf(name, sizeof name, "y%d", (int)s->graph->outputs.count);
    uf_output(s->graph, name, value);
}

static void ask(stage *s, uf_value value) {
    s->asked[s->asked_count++] = value;
}

/* Pass 0 trains by the squares of `value`. */
static void lose(stage *s, uf_value value) {
    s->losses[0][s->loss_count[0]++] =
        uf_mse_loss(s->graph, value, uf_full_like(s->graph, s->x, 0.25));
}

static void after_conv(stage *s) {
    lose(s, uf_relu(s->graph, conv(s, "a", s->x)));
}

static void after_conv_transpose(stage *s) {
    uf_conv_transpose2d_options same = uf_conv_transpose2d_options_default();
    same.padding[0] = same.padding[1] = 1;
    const uf_value y = uf_conv_transpose2d(s->graph, s->x, uf_at(s->stores[0], "a"), 3, &same);
    lose(s, uf_leaky_relu(s->graph, y, 0.2));
}

static void after_linear(stage *s) {
    const uf_value rows = uf_reshape(s->graph, s->x, UF_SHAPE(2, 48));
    const uf_value y = uf_linear(s->graph, rows, uf_at(s->stores[0], "a"), 48, true);
    lose(s, uf_reshape(s->graph, uf_sigmoid(s->graph, y), UF_SHAPE(2, 3, 4, 4)));
}

static void after_batch_norm(stage *s) {
    lose(s, uf_tanh(s->graph, norm(s, "n", conv(s, "a", s->x))));
}

/* Norms of one image, which have no scale and shift in evaluation either. */
static void after_other_norms(stage *s) {
    const uf_scope scope = uf_at(s->stores[0], "g");
    uf_value y = uf_instance_norm2d(s->graph, conv(s, "a", s->x), (uf_scope){0}, NULL);
    y = uf_group_norm(s->graph, conv(s, "b", uf_relu(s->graph, y)), scope, 3, NULL);
    y = uf_layer_norm2d(s->graph, conv(s, "c", uf_tanh(s->graph, y)), uf_at(s->stores[0], "l"),
                        NULL);
    lose(s, uf_sigmoid(s->graph, y));
}

static void chain(stage *s) {
    uf_value y = uf_leaky_relu(s->graph, norm(s, "n", conv(s, "a", s->x)), 0.0);
    y = uf_leaky_relu(s->graph, conv(s, "b", y), 0.2);
    lose(s, uf_tanh(s->graph, norm(s, "m", conv(s, "c", y))));
}

/* The sign of the output is not the input's. */
static void negative_slope(stage *s) {
    lose(s, uf_leaky_relu(s->graph, conv(s, "a", s->x), -0.2));
}

static void is_output(stage *s) {
    const uf_value y = conv(s, "a", s->x);
    output(s, y);
    lose(s, uf_relu(s->graph, y));
}

static void two_readers(stage *s) {
    const uf_value y = conv(s, "a", s->x);
    lose(s, uf_add(s->graph, uf_relu(s->graph, y), uf_tanh(s->graph, y)));
}

/* The backward step of the second convolution reads what the first one wrote. */
static void read_by_backward(stage *s) {
    const uf_value y = conv(s, "a", s->x);
    lose(s, uf_relu(s->graph, conv(s, "b", y)));
}

static void detached(stage *s) {
    const uf_value y = conv(s, "a", s->x);
    lose(s, uf_add(s->graph, uf_relu(s->graph, uf_detach(s->graph, y)), y));
}

/* Losses are recorded after the run, so their memory may not be left unwritten. */
static void is_loss(stage *s) {
    const uf_value rows = uf_reshape(s->graph, s->x, UF_SHAPE(1, 96));
    const uf_value y = uf_linear(s->graph, rows, uf_at(s->stores[0], "a"), 1, true);
    s->external_seeds = true;
    s->losses[0][s->loss_count[0]++] = y;
    s->losses[0][s->loss_count[0]++] = uf_relu(s->graph, y);
}

static void later_pass(stage *s) {
    const uf_value y = conv(s, "a", s->x);
    lose(s, uf_relu(s->graph, y));
    const uf_value z =
        uf_conv2d(s->graph, uf_detach(s->graph, y), uf_at(s->stores[1], "a"), 2, NULL);
    s->losses[1][s->loss_count[1]++] = uf_mse_loss(s->graph, z, uf_full_like(s->graph, z, 0.5));
}

static void gradient_before(stage *s) {
    const uf_value y = conv(s, "a", s->x);
    ask(s, y);
    ask(s, s->x);
    lose(s, uf_tanh(s->graph, y));
}

static void gradient_behind(stage *s) {
    const uf_value y = uf_tanh(s->graph, conv(s, "a", s->x));
    ask(s, y);
    lose(s, norm(s, "n", y));
}

/* The gradient of the sum is read after one of its parts was made of it. */
static void residual(stage *s) {
    const uf_value y = uf_relu(s->graph, conv(s, "a", s->x));
    const uf_value z = uf_leaky_relu(s->graph, norm(s, "n", conv(s, "b", y)), 0.1);
    lose(s, uf_tanh(s->graph, conv(s, "c", uf_add(s->graph, y, z))));
}

static void accumulated(stage *s) {
    chain(s);
    s->accumulate = true;
}

/* Folded weights are made before a run, and passes change weights within it. */
static void evaluated(stage *s) {
    s->evaluated = true;
    const uf_value y = uf_relu(s->graph, norm(s, "n", conv(s, "a", s->x)));
    lose(s, conv(s, "b", uf_detach(s->graph, y)));
}

/* Backward makes the activation's input again. */
static void negative_slope_after_norm(stage *s) {
    lose(s, uf_leaky_relu(s->graph, norm(s, "n", conv(s, "a", s->x)), -0.2));
}

/* Backward is fused, forward is not. */
static void norm_is_output(stage *s) {
    const uf_value y = norm(s, "n", s->x);
    output(s, y);
    lose(s, uf_tanh(s->graph, y));
}

static void norm_two_readers(stage *s) {
    const uf_value y = norm(s, "n", s->x);
    lose(s, uf_add(s->graph, uf_sigmoid(s->graph, y), uf_tanh(s->graph, y)));
}

/* Forward is fused, backward is not. */
static void norm_gradient(stage *s) {
    const uf_value y = norm(s, "n", s->x);
    ask(s, y);
    lose(s, uf_tanh(s->graph, y));
}

static void evaluated_norm(stage *s) {
    s->evaluated = true;
    lose(s, uf_sigmoid(s->graph, norm(s, "n", conv(s, "a", s->x))));
}

/* Its gradient is the seed and what comes back through the activation. */
static void norm_is_loss(stage *s) {
    const uf_value y = norm(s, "n", s->x);
    s->external_seeds = true;
    s->losses[0][s->loss_count[0]++] = y;
    s->losses[0][s->loss_count[0]++] =
        uf_mse_loss(s->graph, uf_tanh(s->graph, y), uf_full_like(s->graph, y, 0.5));
}

/* Each pass has a gradient of its own in between. */
static void two_passes(stage *s) {
    const uf_value y = uf_tanh(s->graph, norm(s, "n", s->x));
    lose(s, y);
    s->losses[1][s->loss_count[1]++] = uf_mse_loss(s->graph, y, uf_full_like(s->graph, y, 0.5));
    s->stores[1] = s->stores[0];
}

/* exp's derivative is its result; gelu's reads what is in between. */
static void long_functions(stage *s) {
    const uf_value y = uf_scale(s->graph, uf_exp(s->graph, conv(s, "a", s->x)), 0.25);
    lose(s, uf_silu(s->graph, norm(s, "n", uf_gelu(s->graph, conv(s, "b", y)))));
}

/* An epilogue has no room for a maximum. */
static void bounds(stage *s) {
    const uf_value y = uf_hardtanh(s->graph, conv(s, "a", s->x), -0.25, 0.5);
    lose(s, uf_clamp(s->graph, norm(s, "n", y), -0.5, 0.25));
}

typedef struct scene {
    const char *name;
    void (*build)(stage *);
    int fused; /* steps that go */
} scene;

static const scene scenes[] = {
    {"activation after conv", after_conv, 1},
    {"activation after conv_transpose", after_conv_transpose, 1},
    {"activation after linear", after_linear, 1},
    {"activation after batch norm", after_batch_norm, 2},
    {"activations after instance, group and layer norm", after_other_norms, 6},
    {"a chain", chain, 5},
    {"a chain, gradients accumulated", accumulated, 5},
    {"leaky_relu with a negative slope", negative_slope, 0},
    {"the value in between is an output", is_output, 0},
    {"it has two readers", two_readers, 0},
    {"a backward step reads it", read_by_backward, 1},
    {"it is detached", detached, 0},
    {"it is a loss", is_loss, 0},
    {"a later pass reads it", later_pass, 0},
    {"its gradient is asked for", gradient_before, 1},
    {"the gradient behind it is asked for", gradient_behind, 1},
    {"a residual block", residual, 4},
    {"batch norm in evaluation is not folded", evaluated, 1},
    {"leaky_relu with a negative slope after batch norm", negative_slope_after_norm, 2},
    {"batch norm is an output", norm_is_output, 1},
    {"batch norm has two readers", norm_two_readers, 0},
    {"batch norm's gradient is asked for", norm_gradient, 1},
    {"batch norm in evaluation", evaluated_norm, 2},
    {"batch norm is a loss", norm_is_loss, 0},
    {"two passes go back", two_passes, 3},
    {"exp, gelu and silu", long_functions, 3},
    {"hardtanh and clamp", bounds, 0},
};

/* ---- concat ---- */

static uf_value pair(stage *s, uf_value a, uf_value b) {
    const uf_value parts[2] = {a, b};
    return uf_concat(s->graph, parts, 2);
}

static uf_value tanh_conv(stage *s, const char *name, uf_value x) {
    return uf_tanh(s->graph, conv(s, name, x));
}

/* What goes in at the left is read again at the right. */
static void skips(stage *s) {
    const uf_value a = tanh_conv(s, "a", s->x);
    const uf_value b = tanh_conv(s, "b", a);
    const uf_value c = tanh_conv(s, "c", b);
    lose(s, conv(s, "e", pair(s, tanh_conv(s, "d", pair(s, c, b)), a)));
}

static void joined_input(stage *s) {
    lose(s, conv(s, "b", pair(s, s->x, tanh_conv(s, "a", s->x))));
}

static void joined_input_asked(stage *s) {
    ask(s, s->x);
    joined_input(s);
}

static void joined_output(stage *s) {
    const uf_value a = tanh_conv(s, "a", s->x);
    output(s, a);
    lose(s, conv(s, "c", pair(s, a, tanh_conv(s, "b", a))));
}

static void joined_twice(stage *s) {
    const uf_value a = tanh_conv(s, "a", s->x);
    lose(s, conv(s, "b", pair(s, a, a)));
}

/* The other concat's gradient of `a` is there first, or comes second. */
static void in_two_concats(stage *s) {
    const uf_value a = tanh_conv(s, "a", s->x);
    const uf_value b = conv(s, "c", pair(s, a, tanh_conv(s, "b", a)));
    lose(s, conv(s, "d", pair(s, b, a)));
}

static void concat_of_concat(stage *s) {
    const uf_value a = tanh_conv(s, "a", s->x);
    const uf_value inner = pair(s, a, tanh_conv(s, "b", a));
    const uf_value c = conv(s, "c", inner);
    lose(s, conv(s, "d", pair(s, c, inner)));
}

/* The inner one is read after the outer one, and `a` after the inner one: their gradients have
 * first contributions then. */
static void inner_read_later(stage *s) {
    const uf_value a = tanh_conv(s, "a", s->x);
    const uf_value inner = pair(s, a, tanh_conv(s, "b", a));
    const uf_value outer = conv(s, "d", pair(s, inner, conv(s, "c", a)));
    lose(s, outer);
    lose(s, conv(s, "e", inner));
}

static void whole_is_output(stage *s) {
    const uf_value w = pair(s, tanh_conv(s, "a", s->x), tanh_conv(s, "b", s->x));
    output(s, w);
    lose(s, conv(s, "c", w));
}

/* What comes back to the parts may not be added to what the user reads. */
static void whole_asked(stage *s) {
    const uf_value a = tanh_conv(s, "a", s->x);
    const uf_value w = pair(s, tanh_conv(s, "b", a), a);
    ask(s, w);
    lose(s, conv(s, "c", w));
}

static void part_asked(stage *s) {
    const uf_value a = tanh_conv(s, "a", s->x);
    const uf_value b = tanh_conv(s, "b", a);
    ask(s, a);
    lose(s, conv(s, "c", pair(s, b, a)));
}

static void joined_detached(stage *s) {
    const uf_value a = tanh_conv(s, "a", s->x);
    lose(s, conv(s, "c", pair(s, uf_detach(s->graph, a), tanh_conv(s, "b", a))));
}

/* tanh would work in place, on the part or on the whole, if nobody read either again. */
static void overwritten(stage *s) {
    const uf_value a = tanh_conv(s, "a", s->x);
    const uf_value b = norm(s, "n", s->x);
    const uf_value w = pair(s, a, b);
    lose(s, uf_tanh(s->graph, uf_tanh(s->graph, a)));
    lose(s, conv(s, "c", uf_sigmoid(s->graph, uf_tanh(s->graph, w))));
}

/* A channel is 36 bytes or 72: the second part would begin in the middle of a line. */
static void not_aligned(stage *s) {
    uf_conv2d_options small = uf_conv2d_options_default();
    small.kernel[0] = small.kernel[1] = 6;
    const uf_value a = uf_conv2d(s->graph, s->x, uf_at(s->stores[0], "a"), 2, &small);
    const uf_value b = uf_conv2d(s->graph, s->x, uf_at(s->stores[0], "b"), 2, &small);
    const uf_value y = conv(s, "c", pair(s, a, b));
    s->losses[0][s->loss_count[0]++] = uf_mse_loss(s->graph, y, uf_full_like(s->graph, y, 0.25));
}

/* The gradient of a reshape is one long row. */
static void joined_reshaped(stage *s) {
    const int64_t images = uf_value_shape(s->graph, s->x).extent[0];
    const uf_value rows =
        uf_reshape(s->graph, tanh_conv(s, "a", s->x), UF_SHAPE(images, 3 * 8 * 8));
    const uf_value a = uf_reshape(s->graph, uf_tanh(s->graph, rows), UF_SHAPE(images, 3, 8, 8));
    lose(s, conv(s, "c", pair(s, a, tanh_conv(s, "b", s->x))));
}

/* The place of `a` with its gaps is no larger than `a` in lines of memory. Yet `a` may not be made
 * over the sum: its second image would lie over the third one that is still to be read. */
static void small_part(stage *s) {
    const int64_t images = uf_value_shape(s->graph, s->x).extent[0];
    const uf_value rows = uf_reshape(s->graph, s->x, UF_SHAPE(images, 3 * 8 * 8));
    const uf_value one = uf_linear(s->graph, rows, uf_at(s->stores[0], "a"), 50, true);
    const uf_value two = uf_linear(s->graph, rows, uf_at(s->stores[0], "b"), 50, true);
    const uf_value a = uf_tanh(s->graph, uf_add(s->graph, one, two));
    const uf_value b = uf_linear(s->graph, rows, uf_at(s->stores[0], "c"), 14, true);
    const uf_value w = uf_tanh(s->graph, pair(s, a, b));
    const uf_value y = uf_linear(s->graph, w, uf_at(s->stores[0], "d"), 3 * 8 * 8, true);
    lose(s, uf_reshape(s->graph, y, UF_SHAPE(images, 3, 8, 8)));
}

/* The wholes are of one size, and `a` begins the one while its tanh ends the other. One may not be
 * made over the other: it would be written over what is still to be read. */
static void other_place(stage *s) {
    const uf_value a = uf_conv2d(s->graph, s->x, uf_at(s->stores[0], "a"), 32, NULL);
    const uf_value b = uf_conv2d(s->graph, s->x, uf_at(s->stores[0], "b"), 16, NULL);
    lose(s, back(s, "c", uf_tanh(s->graph, pair(s, a, b))));
    const uf_value c = uf_tanh(s->graph, a);
    const uf_value d = uf_conv2d(s->graph, s->x, uf_at(s->stores[0], "d"), 16, NULL);
    lose(s, back(s, "e", pair(s, d, c)));
}

/* Losses read numbers in a row. */
static void part_lost(stage *s) {
    const uf_value a = tanh_conv(s, "a", s->x);
    lose(s, conv(s, "c", pair(s, a, tanh_conv(s, "b", s->x))));
    lose(s, a);
}

typedef struct join {
    const char *name;
    void (*build)(stage *);
    int copies, copies_of_three; /* of one image and of three */
} join;

static const join joins[] = {
    {"skips", skips, 0, 0},
    {"an input is joined", joined_input, 1, 1},
    {"and its gradient asked for", joined_input_asked, 2, 2},
    {"an output is joined", joined_output, 1, 1},
    {"a value is joined with itself", joined_twice, 2, 2},
    {"a value in two concats", in_two_concats, 2, 2},
    {"a concat of a concat", concat_of_concat, 0, 0},
    {"the inner concat is read later", inner_read_later, 2, 2},
    {"the result is an output", whole_is_output, 0, 0},
    {"the result's gradient is asked for", whole_asked, 2, 2},
    {"a part's gradient is asked for", part_asked, 1, 1},
    {"a detached value is joined", joined_detached, 0, 0},
    {"parts and the result are overwritten", overwritten, 1, 1},
    {"parts that are not aligned", not_aligned, 2, 4},
    {"a part is reshaped", joined_reshaped, 1, 2},
    {"a small part behind a large one", small_part, 2, 2},
    {"a part has a loss", part_lost, 1, 2},
    {"a part is made of one at another place", other_place, 1, 1},
};

/* ---- everything that a program leaves ---- */

typedef struct record {
    double values[ROOM];
    int64_t count;
    int steps;
    int copies; /* of a run, without those of seeds and sums */
} record;

/* A kernel that counts its calls. */
static const struct uf_kernels *real_kernels;
static int copies;

static uf_status counted_copy(uf_context *context, const uf_copy_kernel_args *args) {
    ++copies;
    return real_kernels->copy(context, args);
}

static void note(record *all, const uf_tensor *tensor) {
    assert_non_null(tensor);
    const int64_t count = uf_tensor_count(tensor);
    assert_true(all->count + count <= ROOM);
    assert_ok(uf_tensor_download_as(tensor, UF_F64, all->values + all->count, count));
    all->count += count;
}

static void note_run(record *all, const stage *s, uf_program *program) {
    double losses[MOST] = {0.0}; /* those that are no single number are not recorded */
    int64_t step;
    bool finite;
    assert_ok(uf_context_synchronize(s->graph->context));
    assert_ok(uf_program_losses(program, losses, MOST, &step, &finite));
    assert_true(finite);
    for (int i = 0; i < s->loss_count[0] + s->loss_count[1]; ++i) {
        all->values[all->count++] = losses[i];
    }
    for (int i = 0; i < s->graph->outputs.count; ++i) {
        note(all, uf_program_output(program, s->graph->outputs.list[i].name));
    }
    for (int i = 0; i < s->asked_count; ++i) {
        note(all, uf_program_gradient(program, 0, s->asked[i]));
    }
    for (int p = 0; p < 2; ++p) {
        for (int64_t i = 0; s->loss_count[p] > 0 && i < uf_store_size(s->stores[p]); ++i) {
            uf_store_entry entry;
            uf_tensor *tensor;
            assert_ok(uf_store_entry_at(s->stores[p], i, &entry));
            if (entry.role == UF_ROLE_PARAMETER) {
                assert_ok(uf_store_gradient(s->stores[p], entry.name, &tensor));
                note(all, tensor);
            }
        }
    }
}

static record *run_scene(void (*build)(stage *), int64_t images, int64_t extent, uf_dtype dtype,
                         uf_plan plan, bool fuse) {
    record *all = test_allocate(sizeof *all);
    memset(all, 0, sizeof *all);
    uf_context *context = test_context(1);
    uf_store_options store_options = uf_store_options_default();
    store_options.dtype = uf_parameter_dtype(dtype);
    test_random random = test_random_for("fusion", 0);
    stage s;
    memset(&s, 0, sizeof s);
    for (int p = 0; p < 2; ++p) {
        assert_ok(uf_store_create_with(context, p == 0 ? "first" : "second", &store_options,
                                       &s.stores[p]));
    }
    assert_ok(uf_graph_create(context, &s.graph));
    s.x = uf_input(s.graph, "x", UF_SHAPE(images, 3, extent, extent));
    build(&s);
    uf_pass passes[2];
    memset(passes, 0, sizeof passes);
    for (int p = 0; p < 2; ++p) {
        network_fill_store(s.stores[p], &random);
        passes[p] = (uf_pass){.losses = s.losses[p],
                              .loss_count = s.loss_count[p],
                              .stores = &s.stores[p],
                              .store_count = 1,
                              .inputs = p == 0 ? s.asked : NULL,
                              .input_count = p == 0 ? s.asked_count : 0,
                              .external_seeds = s.external_seeds,
                              .accumulate = s.accumulate};
    }
    uf_program_options options = uf_program_options_default();
    options.dtype = dtype;
    options.mode = s.evaluated ? UF_EVAL : UF_TRAIN;
    options.plan = plan;
    options.fuse = fuse;
    options.passes = passes;
    options.pass_count = s.loss_count[1] > 0 ? 2 : 1;
    uf_program *program;
    assert_ok(uf_program_compile(s.graph, &options, &program));
    for (int32_t i = 0; i < program->step_count; ++i) {
        all->steps += program->steps[i].removed ? 0 : 1;
    }
    real_kernels = context->kernels;
    struct uf_kernels counting = *real_kernels;
    counting.copy = counted_copy;
    context->kernels = &counting;
    for (int run = 0; run < RUNS; ++run) {
        double x[3 * 3 * 8 * 8];
        const int64_t count = uf_tensor_count(uf_program_input(program, "x"));
        test_random_fill(&random, x, count, 1.0);
        assert_ok(uf_tensor_upload_as(uf_program_input(program, "x"), UF_F64, x, count));
        copies = 0;
        assert_ok(uf_program_run(program));
        all->copies = copies - s.loss_count[0] - s.loss_count[1];
        note_run(all, &s, program);
    }
    context->kernels = real_kernels;
    uf_context_destroy(context);
    return all;
}

static void assert_same_record(const char *label, const record *got, const record *expected) {
    assert_int_equal(got->count, expected->count);
    assert_close(label, compare_absolute(got->values, expected->values, got->count),
                 0.0); /* finite */
    assert_same_bits(label, got->values, expected->values, got->count * (int64_t)sizeof(double));
}

static void test_scenes(void **state) {
    (void)state;
    for (int64_t i = 0; i < 2 * COUNT_OF(scenes); ++i) {
        const scene *one = &scenes[i / 2];
        const uf_dtype dtype = i % 2 == 0 ? UF_F32 : UF_F64;
        record *separate = run_scene(one->build, 2, 4, dtype, UF_PLAN_NO_REUSE, false);
        for (int plan = UF_PLAN_REUSE; plan <= UF_PLAN_POISON; ++plan) {
            record *fused = run_scene(one->build, 2, 4, dtype, (uf_plan)plan, true);
            char label[96];
            (void)snprintf(label, sizeof label, "%s, %s, plan %d", one->name, uf_dtype_name(dtype),
                           plan);
            if (separate->steps - fused->steps != one->fused) {
                fail_msg("%s: %d of %d steps are gone, not %d", label,
                         separate->steps - fused->steps, separate->steps, one->fused);
            }
            assert_same_record(label, fused, separate);
            free(fused);
        }
        free(separate);
    }
}

/* Where values share memory, one image's parts are made in their places, and those of two images
 * are copied. */
static void test_joins(void **state) {
    (void)state;
    static const uf_dtype types[] = {UF_F32, UF_F64, UF_BF16};
    for (int64_t i = 0; i < 6 * COUNT_OF(joins); ++i) {
        const join *one = &joins[i / 6];
        const uf_dtype dtype = types[i % 3];
        const int64_t images = 1 + i / 3 % 2 * 2;
        const bool lines = dtype != UF_BF16; /* a channel is whole lines of memory */
        /* In bf16 what lies between fused layers is not rounded. */
        record *separate = run_scene(one->build, images, 8, dtype, UF_PLAN_NO_REUSE, !lines);
        for (int plan = UF_PLAN_REUSE; plan <= UF_PLAN_POISON; ++plan) {
            record *joined = run_scene(one->build, images, 8, dtype, (uf_plan)plan, true);
            char label[96];
            (void)snprintf(label, sizeof label, "%s, %d images, %s, plan %d", one->name,
                           (int)images, uf_dtype_name(dtype), plan);
            assert_same_record(label, joined, separate);
            const int expected = images == 1 ? one->copies : one->copies_of_three;
            if (lines && plan != UF_PLAN_NO_REUSE && joined->copies != expected) {
                fail_msg("%s: %d copies, not %d", label, joined->copies, expected);
            }
            free(joined);
        }
        free(separate);
    }
}

int main(void) {
    const int skipped = test_device_or_skip();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_scenes), cmocka_unit_test(test_joins)};
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
