/* pix2pix_train.c - train a translator of pictures: from maps of labels to what they look like.
 *
 * The pairs are made while it learns, by a ray tracer (scene.h), so that it needs no data: labels
 * say where floor, sky and balls of four materials are, and the target has light, shadow, texture
 * and reflections. The generator is a U-Net with skips and dropout, the discriminator a PatchGAN
 * that looks at label map and picture together; the generator's loss is the discriminator's
 * judgement and, times lambda, the absolute error. Besides the files of common/train.h:
 *   PREFIX-000000.png   held-out scenes: input, output, target
 *   PREFIX-test.csv     the mean absolute error, per pixel of -1..1, on 32 held-out scenes
 *   PREFIX.h5           the generator, under the names of junyanz/pytorch-CycleGAN-and-pix2pix
 * Isola, Zhu, Zhou, Efros 2017, https://arxiv.org/abs/1611.07004 */
#include "common/common.h"
#include "common/grid.h"
#include "common/held_out.h"
#include "common/train.h"
#include "pix2pix/scene.h"

#include <stdlib.h>
#include <string.h>

const char *const example_name = "pix2pix_train";

enum { TESTED = 32, SHOWN = 8 };

/* No training gets as far as the held-out scenes. */
#define FIRST_HELD_OUT (UINT64_C(1) << 48)

typedef struct settings {
    train_options train;
    int64_t features, image_size, layers;
    double lambda;
} settings;

static settings parse(int argc, char **argv) {
    static settings s = {.features = 32, .image_size = 64, .layers = 2, .lambda = 100.0};
    static option own[] = {
        {OPTION_INTEGER, "--features", &s.features, 1, 1024, "N", "first channels", true, false},
        {OPTION_INTEGER, "--image-size", &s.image_size, 16, 512, "N", "power of two", true, false},
        {OPTION_INTEGER, "--patch-layers", &s.layers, 1, 3, "N",
         "of stride 2 in the discriminator: patches of 16, 34 or 70 pixels", true, false},
        {OPTION_NUMBER, "--lambda", &s.lambda, 0, 1e6, "W", "weight of the absolute error", true,
         false},
        {.kind = OPTION_END},
    };
    s.train = train_options_default();
    s.train.out = "pix2pix";
    s.train.batch = 8;
    s.train.steps = 4000;
    s.train.lr = 2e-4;
    train_parse("Train a translator of label maps to pictures.", own, &s.train, argc, argv);
    if ((s.image_size & (s.image_size - 1)) != 0) {
        fail_usage("--image-size takes a power of two from 16 to 512, not %lld",
                   (long long)s.image_size);
    }
    return s;
}

/* ---- the networks ---- */

/* The level of the U-Net that takes (N, outer, H, H), and all below it, down to 1x1: the input
 * beside what the levels make of it, (N, 2 outer, H, H). The outermost level gives its output
 * alone. */
static uf_value level(uf_graph *graph, uf_value x, uf_scope model, int depth, int64_t side,
                      int64_t outer, int64_t features) {
    const bool outermost = depth == 0, innermost = side == 2;
    const int64_t inner = features << (depth < 3 ? depth : 3);
    int module = outermost ? 0 : 1;
    const uf_value skip = outermost ? x : uf_leaky_relu(graph, x, 0.2);
    uf_value y =
        uf_conv2d(graph, skip, uf_inf(model, "%d", module++), inner, UF_CONV2D(4, 2, 1, false));
    if (!innermost) {
        if (!outermost) {
            y = uf_batch_norm2d(graph, y, uf_inf(model, "%d", module++), NULL);
        }
        y = level(graph, y, uf_inf(model, "%d.model", module++), depth + 1, side / 2, inner,
                  features);
    }
    y = uf_conv_transpose2d(graph, uf_relu(graph, y), uf_inf(model, "%d", module + 1), outer,
                            UF_CONV_TRANSPOSE2D(4, 2, 1, outermost));
    if (outermost) {
        return uf_tanh(graph, y);
    }
    y = uf_batch_norm2d(graph, y, uf_inf(model, "%d", module + 2), NULL);
    y = depth > 2 && !innermost ? uf_dropout(graph, y, 0.5) : y;
    return uf_concat(graph, (const uf_value[]){skip, y}, 2);
}

static uf_value generator(uf_graph *graph, uf_store *store, uf_value labels, const settings *s) {
    return level(graph, labels, uf_at(store, "model.model"), 0, s->image_size, 3, s->features);
}

/* Label maps and pictures (N, 3, H, H) each -> a logit for each patch. */
static uf_value discriminator(uf_graph *graph, uf_store *store, uf_value labels, uf_value picture,
                              const settings *s) {
    uf_value x = uf_concat(graph, (const uf_value[]){labels, picture}, 2);
    x = uf_conv2d(graph, x, uf_at(store, "model.0"), s->features, UF_CONV2D(4, 2, 1, true));
    x = uf_leaky_relu(graph, x, 0.2);
    int module = 2;
    for (int layer = 1; layer <= (int)s->layers; ++layer, module += 3) {
        const int stride = layer < (int)s->layers ? 2 : 1;
        x = uf_conv2d(graph, x, uf_atf(store, "model.%d", module), s->features << layer,
                      UF_CONV2D(4, stride, 1, false));
        x = uf_batch_norm2d(graph, x, uf_atf(store, "model.%d", module + 1), NULL);
        x = uf_leaky_relu(graph, x, 0.2);
    }
    return uf_conv2d(graph, x, uf_atf(store, "model.%d", module), 1, UF_CONV2D(4, 1, 1, true));
}

/* ---- held-out scenes ---- */

typedef struct test_set {
    uf_program *program;
    scenes scenes;
    float *outputs;
} test_set;

/* The mean absolute error of the generator. */
static double test(test_set *t) {
    float error;
    must(uf_program_run(t->program));
    train_download(t->program, "picture", t->outputs);
    train_download(t->program, "error", &error);
    return (double)error;
}

static void sample(void *user, const char *path) {
    test_set *t = user;
    const int64_t size = t->scenes.size, elements = 3 * size * size;
    const float *sources[] = {t->scenes.labels, t->outputs, t->scenes.pictures};
    float *images = allocate(3 * SHOWN * elements, sizeof(float));
    test(t);
    for (int64_t i = 0; i < 3 * SHOWN; ++i) {
        memcpy(images + i * elements, sources[i % 3] + i / 3 * elements,
               sizeof(float) * (size_t)elements);
    }
    grid_write(path, images, 3 * SHOWN, 6, 3, size, size);
    free(images);
}

/* ---- training ---- */

int main(int argc, char **argv) {
    const settings s = parse(argc, argv);
    const train_options *o = &s.train;
    const int64_t size = s.image_size;
    uf_context *context = train_context(o);
    const int threads = (int)uf_context_threads(context);
    train_model g = {.store = train_store(o, context, "generator")};
    train_model d = {.store = train_store(o, context, "discriminator")};
    uf_graph *graph, *test_graph;

    /* The discriminator learns to tell targets from outputs, which it may not change; then the
     * generator learns from the discriminator as it now is, and from the target itself. */
    must(uf_graph_create(context, &graph));
    const uf_value labels = uf_input(graph, "labels", UF_SHAPE(o->batch, 3, size, size));
    const uf_value target = uf_input(graph, "target", UF_SHAPE(o->batch, 3, size, size));
    const uf_value output = generator(graph, g.store, labels, &s);
    const uf_value on_real = discriminator(graph, d.store, labels, target, &s);
    const uf_value on_fake = discriminator(graph, d.store, labels, uf_detach(graph, output), &s);
    const uf_value judged = discriminator(graph, d.store, labels, output, &s);
    const uf_value ones = uf_full_like(graph, on_real, 1.0);
    const uf_value zeros = uf_full_like(graph, on_real, 0.0);
    const uf_value d_losses[] = {uf_bce_with_logits_loss(graph, on_real, ones),
                                 uf_bce_with_logits_loss(graph, on_fake, zeros)};
    const uf_value g_losses[] = {uf_bce_with_logits_loss(graph, judged, ones),
                                 uf_l1_loss(graph, output, target)};
    must(uf_init_dcgan(graph, g.store));
    must(uf_init_dcgan(graph, d.store));

    uf_adam_options adam = uf_adam_options_default();
    adam.lr = o->lr;
    adam.beta1 = 0.5;
    must(uf_optimizer_create_adam(g.store, &adam, &g.optimizer));
    must(uf_optimizer_create_adam(d.store, &adam, &d.optimizer));
    train_average(o, context, &g);
    uf_pass passes[] = {train_pass(d_losses, 2, &d), train_pass(g_losses, 2, &g)};
    passes[0].loss_weights = (const double[]){0.5, 0.5};
    passes[1].loss_weights = (const double[]){1.0, s.lambda};
    uf_program *program = train_compile(o, graph, passes, 2);

    test_set t = {.scenes = scenes_create(TESTED, size)};
    t.outputs = allocate(TESTED * 3 * size * size, sizeof(float));
    must(uf_graph_create(context, &test_graph));
    const uf_value held = uf_input(test_graph, "labels", UF_SHAPE(TESTED, 3, size, size));
    const uf_value wanted = uf_input(test_graph, "target", UF_SHAPE(TESTED, 3, size, size));
    const uf_value made = generator(test_graph, g.store, held, &s);
    uf_output(test_graph, "picture", made);
    uf_output(test_graph, "error", uf_l1_loss(test_graph, made, wanted));
    t.program = train_compile_sampler(o, test_graph, &g);
    scenes_draw(&t.scenes, 0, FIRST_HELD_OUT, threads);
    train_upload(t.program, "labels", t.scenes.labels);
    train_upload(t.program, "target", t.scenes.pictures);

    const train_model models[] = {g, d};
    train_setup setup = {.context = context, .program = program};
    setup.losses = "d_real,d_fake,g_judged,g_error";
    setup.discriminator_losses = 2;
    setup.models = models;
    setup.model_count = 2;
    setup.sample = sample;
    setup.user = &t;
    train *run = train_begin(o, &setup);
    held_out table = {o->out, "test_error", 500, NULL};
    scenes batch = scenes_create(o->batch, size);
    int64_t step;
    while (train_next(run, &step)) {
        if (held_out_due(&table, step)) held_out_add(&table, run, step, &(double){test(&t)});
        scenes_draw(&batch, (uint64_t)o->seed, (uint64_t)(step * o->batch), threads);
        train_upload(program, "labels", batch.labels);
        train_upload(program, "target", batch.pictures);
        must(uf_program_run(program));
    }
    held_out_add(&table, run, step, &(double){test(&t)});
    held_out_close(&table);
    train_save(run, g.store, ".h5");
    if (g.average != NULL) train_save(run, g.average, "-ema.h5");

    scenes_free(&batch);
    scenes_free(&t.scenes);
    free(t.outputs);
    uf_context_destroy(context); /* and all that was made of it */
    return train_end(run);
}
