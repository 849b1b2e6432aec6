/* superres_train.c - train FSRCNN to double photographs, and hold it against the bicubic filter.
 *
 * The network enlarges the luminance: convolutions at the small size, a transposed convolution
 * last. It learns from random windows of photographs beside the same at half the size
 * (bicubic_pair). Some photographs are held out; the peak signal-to-noise ratios of network and
 * filter on the middle of each are said and written to PREFIX-test.csv. Other files:
 *   PREFIX-000000.png   held-out windows: filter, network, original
 *   PREFIX.h5           weights, under the names of https://github.com/yjn870/FSRCNN-pytorch
 * Data: a folder of PNG or JPEG files; by default those of Debian's package mate-backgrounds.
 * Dong, Loy, Tang 2016, https://arxiv.org/abs/1608.00367 */
#include <unfurl/unfurl.h>

#include <stdlib.h>
#include <string.h>

#include "common/common.h"
#include "common/data.h"
#include "common/grid.h"
#include "common/held_out.h"
#include "common/train.h"
#include "superres/bicubic.h"

const char *const example_name = "superres_train";

enum { SHRUNK = 12, MAPPINGS = 4, SHOWN = 96, BORDER = 4 };

typedef struct settings {
    train_options train;
    int64_t features, crop, window;
    double held_out;
} settings;

static settings parse(int argc, char **argv) {
    static settings s = {.features = 56, .crop = 64, .window = 256, .held_out = 0.25};
    static option own[] = {
        {OPTION_INTEGER, "--features", &s.features, 1, 1024, "N", "first channels", true, false},
        {OPTION_INTEGER, "--crop", &s.crop, 8, 4096, "N", "side of a window, even", true, false},
        {OPTION_INTEGER, "--test-crop", &s.window, 16, 8192, "N", "of a held-out one", true, false},
        {OPTION_NUMBER, "--held-out", &s.held_out, 0, 1, "S", "share of the data", true, false},
        {.kind = OPTION_END},
    };
    s.train = train_options_default();
    s.train.data = "/usr/share/backgrounds/mate/nature";
    s.train.out = "superres";
    s.train.batch = 8;
    s.train.steps = 4000;
    s.train.schedule = UF_SCHEDULE_COSINE;
    train_parse("Train FSRCNN to double photographs; the default ones are mate-backgrounds'.", own,
                &s.train, argc, argv);
    if (s.crop % 2 != 0 || s.window % 2 != 0) {
        fail_usage("--crop and --test-crop take even numbers, not %lld and %lld", (long long)s.crop,
                   (long long)s.window);
    }
    return s;
}

/* ---- the network ---- */

/* Luminance of 0..1, (N, 1, H, W) -> (N, 1, 2 H, 2 W): what FSRCNN makes, added to the bilinear
 * enlargement, so that it has only to learn what that lacks. */
static uf_value fsrcnn(uf_graph *graph, uf_store *store, uf_value image, const settings *s) {
    uf_conv_transpose2d_options up = uf_conv_transpose2d_options_square(9, 2, 4, true);
    up.output_padding[0] = up.output_padding[1] = 1;
    uf_value x = uf_conv2d(graph, image, uf_at(store, "first_part.0"), s->features,
                           UF_CONV2D(5, 1, 2, true));
    x = uf_prelu(graph, x, uf_at(store, "first_part.1"), s->features);
    for (int i = 0; i < MAPPINGS + 2; ++i) { /* shrink, map at few channels, expand */
        const bool inside = 0 < i && i <= MAPPINGS;
        const int64_t channels = i <= MAPPINGS ? SHRUNK : s->features;
        x = uf_conv2d(graph, x, uf_atf(store, "mid_part.%d", 2 * i), channels,
                      inside ? UF_CONV2D(3, 1, 1, true) : UF_CONV2D(1, 1, 0, true));
        x = uf_prelu(graph, x, uf_atf(store, "mid_part.%d", 2 * i + 1), channels);
    }
    x = uf_conv_transpose2d(graph, x, uf_at(store, "last_part"), 1, &up);
    return uf_add(graph, x, uf_upsample_bilinear(graph, image, NULL));
}

/* The authors' first weights. Next to none in the last layer: the training begins at the bilinear
 * enlargement. */
static void initialise(uf_graph *graph, uf_store *store) {
    uf_kaiming_options kaiming = uf_kaiming_options_default();
    kaiming.fan = UF_FAN_OUT;
    must(uf_init_default(graph, store));
    for (int64_t i = 0; i < uf_store_size(store); ++i) {
        uf_store_entry entry;
        must(uf_store_entry_at(store, i, &entry));
        const bool bias = strstr(entry.name, ".bias") != NULL;
        if (bias) must(uf_init_constant(store, entry.name, 0.0));
        if (entry.shape.rank == 4) must(uf_init_kaiming_normal(store, entry.name, &kaiming));
    }
    must(uf_init_normal(store, "last_part.weight", 0.0, 0.001));
}

/* ---- the held-out photographs ---- */

typedef struct test_set {
    const settings *s;
    uf_program *program;         /* one window at a time */
    int64_t count, pixels;       /* windows, and pixels of each */
    float *original, *half;      /* of each window; 0..1 */
    float *filtered, *generated; /* of each window; as the filter and the network make them */
} test_set;

static test_set test_begin(const settings *s, data_loader *photographs) {
    const int64_t side = s->window;
    test_set t = {.s = s, .count = data_count(photographs), .pixels = side * side};
    t.original = allocate(t.count * t.pixels, sizeof(float));
    t.half = allocate(t.count * t.pixels / 4, sizeof(float));
    t.filtered = allocate(t.count * t.pixels, sizeof(float));
    t.generated = allocate(t.count * t.pixels, sizeof(float));
    float *window = allocate(4 * t.pixels, sizeof(float));
    for (int64_t i = 0; i < t.count; ++i) {
        float *half = t.half + i * t.pixels / 4;
        data_read(photographs, i, 1, window, NULL);
        bicubic_pair(window, 2 * side, t.original + i * t.pixels, half);
        bicubic(half, side / 2, side / 2, t.filtered + i * t.pixels, side, side);
    }
    free(window);
    return t;
}

static void test_end(test_set *t) {
    free(t->original);
    free(t->half);
    free(t->filtered);
    free(t->generated);
}

/* The mean PSNR over the windows of network and filter, and what the network is better by. */
static void test(test_set *t, double *result) {
    const int64_t side = t->s->window;
    result[0] = result[1] = 0.0;
    for (int64_t i = 0; i < t->count; ++i) {
        const float *original = t->original + i * t->pixels;
        train_upload(t->program, "image", t->half + i * t->pixels / 4);
        must(uf_program_run(t->program));
        train_download(t->program, "image", t->generated + i * t->pixels);
        result[0] += psnr(t->generated + i * t->pixels, original, side, BORDER) / (double)t->count;
        result[1] += psnr(t->filtered + i * t->pixels, original, side, BORDER) / (double)t->count;
    }
    result[2] = result[0] - result[1];
}

/* The middle of each window: filtered, generated, original. */
static void sample(void *user, const char *path) {
    test_set *t = user;
    const float *sources[] = {t->filtered, t->generated, t->original};
    const int64_t side = t->s->window, shown = side < SHOWN ? side : SHOWN;
    const int64_t first = (side - shown) / 2 * (side + 1);
    float *images = allocate(3 * t->count * shown * shown, sizeof(float)), *out = images;
    double result[3];
    test(t, result);
    for (int64_t i = 0; i < 3 * t->count; ++i) {
        const float *from = sources[i % 3] + i / 3 * t->pixels + first;
        for (int64_t y = 0; y < shown; ++y) {
            for (int64_t x = 0; x < shown; ++x) *out++ = 2.0f * from[y * side + x] - 1.0f;
        }
    }
    grid_write(path, images, 3 * t->count, 3, 1, shown, shown);
    free(images);
}

/* ---- training ---- */

int main(int argc, char **argv) {
    const settings s = parse(argc, argv);
    const train_options *o = &s.train;
    const int64_t side = s.crop, half = s.crop / 2;
    data_options source = {.path = o->data, .channels = 1, .size = 2 * side, .batch = o->batch};
    source.seed = (uint64_t)o->seed;
    source.flip = true;
    source.crop = DATA_CROP_RANDOM;
    source.held_out_share = s.held_out;
    source.cache_bytes = DATA_CACHE_BYTES;
    data_loader *photographs = data_open(&source);
    data_options apart = source;
    apart.held_out = true;
    apart.batch = 0;
    apart.size = 2 * s.window;
    data_loader *held = data_open(&apart);
    test_set t = test_begin(&s, held);

    uf_context *context = train_context(o);
    train_model model = {.store = train_store(o, context, "fsrcnn")};
    uf_graph *graph, *test_graph;
    must(uf_graph_create(context, &graph));
    const uf_value small = uf_input(graph, "small", UF_SHAPE(o->batch, 1, half, half));
    const uf_value large = uf_input(graph, "large", UF_SHAPE(o->batch, 1, side, side));
    const uf_value loss = uf_mse_loss(graph, fsrcnn(graph, model.store, small, &s), large);
    initialise(graph, model.store);

    uf_adam_options adam = uf_adam_options_default();
    adam.lr = o->lr;
    must(uf_optimizer_create_adam(model.store, &adam, &model.optimizer));
    train_average(o, context, &model);
    const uf_pass pass = train_pass(&loss, 1, &model);
    uf_program *program = train_compile(o, graph, &pass, 1);

    must(uf_graph_create(context, &test_graph));
    const uf_shape window = UF_SHAPE(1, 1, s.window / 2, s.window / 2);
    const uf_value tested = uf_input(test_graph, "image", window);
    uf_output(test_graph, "image", fsrcnn(test_graph, model.store, tested, &s));
    t.program = train_compile_sampler(o, test_graph, &model);

    train_setup setup = {.context = context, .program = program, .losses = "squared_error"};
    setup.models = &model;
    setup.model_count = 1;
    setup.data = data_description(photographs);
    setup.sample = sample;
    setup.user = &t;
    train *run = train_begin(o, &setup);
    held_out table = {o->out, "psnr_network,psnr_bicubic,gain", 500, NULL};
    float *originals = allocate(o->batch * side * side, sizeof(float));
    float *halves = allocate(o->batch * half * half, sizeof(float));
    double result[3];
    int64_t step;
    while (train_next(run, &step)) {
        if (held_out_due(&table, step)) {
            test(&t, result);
            held_out_add(&table, run, step, result);
        }
        const float *windows = data_batch(photographs, step, NULL);
        for (int64_t i = 0; i < o->batch; ++i) {
            bicubic_pair(windows + 4 * i * side * side, 2 * side, originals + i * side * side,
                         halves + i * half * half);
        }
        train_upload(program, "small", halves);
        train_upload(program, "large", originals);
        must(uf_program_run(program));
    }
    test(&t, result);
    held_out_add(&table, run, step, result);
    held_out_close(&table);
    train_save(run, model.store, ".h5");
    if (model.average != NULL) train_save(run, model.average, "-ema.h5");

    free(halves);
    free(originals);
    test_end(&t);
    data_close(held);
    data_close(photographs);
    uf_context_destroy(context); /* and all that was made of it */
    return train_end(run);
}
