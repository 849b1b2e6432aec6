/* losses.c - losses, with the mean or the sum of their elements. */
#include "parity/replay.h"

#include <string.h>

struct loss {
    const char *group; /* up to the number of the case */
    uf_loss_kind kind;
    uf_reduction reduction;
    const char *inputs[2]; /* datasets; the second NULL: there is no target */
    const char *output;
};

static const struct loss losses[] = {
    {"loss/bce_with_logits",
     UF_LOSS_BCE_WITH_LOGITS,
     UF_REDUCTION_MEAN,
     {"input", "target"},
     "loss"},
    {"loss/bce", UF_LOSS_BCE, UF_REDUCTION_MEAN, {"input", "target"}, "loss"},
    {"loss/mse", UF_LOSS_MSE, UF_REDUCTION_MEAN, {"input", "target"}, "loss"},
    {"loss/l1", UF_LOSS_L1, UF_REDUCTION_MEAN, {"input", "target"}, "loss"},
    {"loss/smooth_l1", UF_LOSS_SMOOTH_L1, UF_REDUCTION_MEAN, {"input", "target"}, "loss"},
    {"loss_smooth_l1_sum", UF_LOSS_SMOOTH_L1, UF_REDUCTION_SUM, {"input", "target"}, "output"},
    {"loss_hinge_real", UF_LOSS_HINGE_REAL, UF_REDUCTION_MEAN, {"input", NULL}, "output"},
    {"loss_hinge_fake", UF_LOSS_HINGE_FAKE, UF_REDUCTION_MEAN, {"input", NULL}, "output"},
    {"loss_kl_normal", UF_LOSS_KL_NORMAL, UF_REDUCTION_MEAN, {"mean", "log_variance"}, "output"},
};

/* The row of a group: "loss_hinge_real/003" and "loss/bce" alike. */
static const struct loss *find_loss(const char *group) {
    const struct loss *found = NULL;
    for (size_t i = 0; i < sizeof losses / sizeof losses[0]; i++) {
        const size_t length = strlen(losses[i].group);
        if (strncmp(group, losses[i].group, length) == 0 &&
            (group[length] == '\0' || group[length] == '/')) {
            found = &losses[i];
        }
    }
    return found;
}

static int replay_loss(struct replay *replay) {
    const struct loss *loss = find_loss(replay->group);
    struct layer_run run;
    uf_loss_options options = uf_loss_options_default();
    TRY(parity_read_attribute(replay, "beta", &options.beta, 1));
    options.reduction = loss->reduction;
    int status = parity_begin(replay, &run, loss->inputs[0], loss->inputs[1], NULL);
    if (status == EXIT_DONE) {
        /* PyTorch's case is of sigmoid(input). */
        const uf_value x =
            loss->kind == UF_LOSS_BCE ? uf_sigmoid(run.graph, run.inputs[0]) : run.inputs[0];
        run.output = uf_loss(run.graph, loss->kind, x, run.inputs[1], &options);
        status = parity_run_layer(replay, &run, loss->output);
    }
    parity_end(&run);
    return status;
}

static int replay_cross_entropy(struct replay *replay) {
    struct layer_run run;
    int status = parity_begin(replay, &run, "input", "target", NULL);
    if (status == EXIT_DONE) {
        run.output = uf_cross_entropy_loss(run.graph, run.inputs[0], run.inputs[1], NULL);
        status = parity_run_layer(replay, &run, "output");
    }
    parity_end(&run);
    return status;
}

const struct kind parity_losses[] = {
    {"loss/bce_with_logits", replay_loss, true},
    {"loss/bce", replay_loss, true},
    {"loss/mse", replay_loss, true},
    {"loss/l1", replay_loss, true},
    {"loss/smooth_l1", replay_loss, true},
    {"loss_smooth_l1_sum/", replay_loss, false},
    {"loss_hinge_real/", replay_loss, false},
    {"loss_hinge_fake/", replay_loss, false},
    {"loss_kl_normal/", replay_loss, false},
    {"loss_cross_entropy/", replay_cross_entropy, false},
    {NULL, NULL, false},
};
