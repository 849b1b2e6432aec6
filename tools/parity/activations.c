/* activations.c - the elementwise functions that are not in layers.c, PReLU and softmax. */
#include "parity/replay.h"

#include <stdlib.h>
#include <string.h>

typedef struct function {
    const char *group;
    uf_value (*plain)(uf_graph *graph, uf_value input);
    uf_value (*with)(uf_graph *graph, uf_value input, double parameter);
    uf_value (*between)(uf_graph *graph, uf_value input, double minimum, double maximum);
    double a, b;
} function;

/* log(|t| + 0.5) and sqrt(|t| + 0.5), so that they are defined for every t. */
static uf_value away_from_zero(uf_graph *graph, uf_value input) {
    return uf_add(graph, uf_abs(graph, input), uf_full_like(graph, input, 0.5));
}

static uf_value log_of_size(uf_graph *graph, uf_value input) {
    return uf_log(graph, away_from_zero(graph, input));
}

static uf_value root_of_size(uf_graph *graph, uf_value input) {
    return uf_sqrt(graph, away_from_zero(graph, input));
}

static const function functions[] = {
    {"activation/elu", .with = uf_elu, .a = 1.0},
    {"activation/gelu", .plain = uf_gelu},
    {"activation/gelu_tanh", .plain = uf_gelu_tanh},
    {"activation/hardtanh", .between = uf_hardtanh, .a = -1.0, .b = 1.0},
    {"activation/mish", .plain = uf_mish},
    {"activation/silu", .plain = uf_silu},
    {"activation/softplus", .with = uf_softplus, .a = 1.0},
    {"unary/abs", .plain = uf_abs},
    {"unary/clamp", .between = uf_clamp, .a = -0.5, .b = 0.8},
    {"unary/elu_0p7", .with = uf_elu, .a = 0.7},
    {"unary/exp", .plain = uf_exp},
    {"unary/hardsigmoid", .plain = uf_hardsigmoid},
    {"unary/hardswish", .plain = uf_hardswish},
    {"unary/log", .plain = log_of_size},
    {"unary/logsigmoid", .plain = uf_log_sigmoid},
    {"unary/neg", .plain = uf_neg},
    {"unary/relu6", .plain = uf_relu6},
    {"unary/scale", .with = uf_scale, .a = 0.2},
    {"unary/selu", .plain = uf_selu},
    {"unary/softsign", .plain = uf_softsign},
    {"unary/sqrt", .plain = root_of_size},
    {"unary/square", .plain = uf_square},
};

static int replay_function(struct replay *replay) {
    struct layer_run run;
    int status = parity_begin(replay, &run, "input", NULL);
    for (size_t i = 0; i < sizeof functions / sizeof functions[0] && status == EXIT_DONE; i++) {
        const function *f = &functions[i];
        if (strcmp(replay->group, f->group) == 0) {
            run.output = f->plain != NULL  ? f->plain(run.graph, run.inputs[0])
                         : f->with != NULL ? f->with(run.graph, run.inputs[0], f->a)
                                           : f->between(run.graph, run.inputs[0], f->a, f->b);
            status = parity_run_layer(replay, &run, "output");
        }
    }
    parity_end(&run);
    return status;
}

static int replay_softmax(struct replay *replay) {
    struct layer_run run;
    int64_t axis = 1;
    TRY(parity_read_integers(replay, "axis", &axis, 1));
    int status = parity_begin(replay, &run, "input", NULL);
    if (status == EXIT_DONE) {
        run.output = uf_softmax(run.graph, run.inputs[0], (int32_t)axis);
        status = parity_run_layer(replay, &run, "output");
    }
    parity_end(&run);
    return status;
}

static int replay_prelu(struct replay *replay) {
    struct layer_run run;
    struct array weight;
    TRY(parity_read_array(replay, "weight", &weight));
    free(weight.values);
    int status = parity_begin(replay, &run, "input", NULL);
    if (status == EXIT_DONE) {
        run.output = uf_prelu(run.graph, run.inputs[0], uf_at(run.store, ""), weight.count);
        status = parity_run_layer(replay, &run, "output");
    }
    parity_end(&run);
    return status;
}

const struct kind parity_activations[] = {
    {"prelu/", replay_prelu, false},
    {"softmax/", replay_softmax, false},
    {"activation/elu", replay_function, true},
    {"activation/gelu", replay_function, true},
    {"activation/gelu_tanh", replay_function, true},
    {"activation/hardtanh", replay_function, true},
    {"activation/mish", replay_function, true},
    {"activation/silu", replay_function, true},
    {"activation/softplus", replay_function, true},
    {"unary/abs", replay_function, true},
    {"unary/clamp", replay_function, true},
    {"unary/elu_0p7", replay_function, true},
    {"unary/exp", replay_function, true},
    {"unary/hardsigmoid", replay_function, true},
    {"unary/hardswish", replay_function, true},
    {"unary/log", replay_function, true},
    {"unary/logsigmoid", replay_function, true},
    {"unary/neg", replay_function, true},
    {"unary/relu6", replay_function, true},
    {"unary/scale", replay_function, true},
    {"unary/selu", replay_function, true},
    {"unary/softsign", replay_function, true},
    {"unary/sqrt", replay_function, true},
    {"unary/square", replay_function, true},
    {NULL, NULL, false},
};
