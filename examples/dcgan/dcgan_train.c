/* dcgan_train.c - train a GAN on Fashion-MNIST: the DCGAN of pytorch/examples, in one file.
 *
 *   dcgan_train [--data DIR] [--features N] [--latent N] [--image-size 16|32|64|128] [--batch N]
 *               [--minutes M] [--steps N] [--sample-every N] [--seed S] [--device auto|cpu|cuda]
 *               [--threads N] [--math fp32|tf32|bf16] [--out PREFIX]
 *
 * Writes PREFIX-000000.png, ... (64 samples of fixed latents) and PREFIX.h5, the generator's
 * weights under the names of PyTorch's state_dict, which `unfurl generate --weights PREFIX.h5`
 * takes.
 * Data: Debian's dataset-fashion-mnist. Radford et al. 2015, https://arxiv.org/abs/1511.06434 */
#include <unfurl/unfurl.h>

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#define SAMPLES 64

typedef struct settings {
    const char *data, *out;
    long features, latent, image_size, batch, steps, sample_every, threads;
    double minutes;
    unsigned long long seed;
    uf_device device;
    uf_math math; /* a CPU computes in fp32 in every mode */
} settings;

static void fail(const char *format, const char *detail) {
    fprintf(stderr, "dcgan_train: ");
    fprintf(stderr, format, detail);
    fprintf(stderr, "\n");
    exit(1);
}

static void must(uf_status status) {
    if (status != UF_OK) {
        fail("%s", uf_last_error());
    }
}

/* ---- the data: IDX files, gzipped; http://yann.lecun.com/exdb/mnist/ describes the format ---- */

static unsigned char *read_images(const char *folder, long *count, long *side) {
    char path[4096];
    unsigned char header[16];
    snprintf(path, sizeof path, "%s/train-images-idx3-ubyte.gz", folder);
    gzFile file = gzopen(path, "rb");
    if (file == NULL) {
        fail("cannot open %s: install dataset-fashion-mnist or name its folder with --data", path);
    }
    if (gzread(file, header, sizeof header) != (int)sizeof header ||
        memcmp(header, "\0\0\10\3", 4) != 0) {
        fail("%s is no IDX file of images (it should begin with 00 00 08 03)", path);
    }
    long extent[3];
    for (int i = 0; i < 3; ++i) {
        const unsigned char *b = header + 4 + 4 * i;
        extent[i] = (long)b[0] << 24 | (long)b[1] << 16 | (long)b[2] << 8 | (long)b[3];
    }
    if (extent[0] < 1 || extent[0] > 1000000 || extent[1] != extent[2] || extent[1] < 1 ||
        extent[1] > 1024) {
        fail("%s: its header has sizes that no data set of square images has", path);
    }
    const size_t size = (size_t)extent[0] * (size_t)extent[1] * (size_t)extent[2];
    unsigned char *images = malloc(size);
    size_t have = 0;
    while (images != NULL && have < size) {
        const size_t left = size - have;
        const int got = gzread(file, images + have, left > 1u << 20 ? 1u << 20 : (unsigned)left);
        if (got <= 0) {
            fail("%s is truncated or damaged: it ends before its last image", path);
        }
        have += (size_t)got;
    }
    if (images == NULL) {
        fail("%s does not fit into memory", path);
    }
    gzclose(file);
    *count = extent[0];
    *side = extent[1];
    return images;
}

/* One image, resized bilinearly to `size` and scaled to -1 .. 1 (align_corners false, as
 * torchvision). */
static void resize(const unsigned char *image, long side, long size, float *out) {
    for (long y = 0; y < size; ++y) {
        for (long x = 0; x < size; ++x) {
            const double scale = (double)side / (double)size;
            const double fy = fmin(fmax(((double)y + 0.5) * scale - 0.5, 0.0), (double)(side - 1));
            const double fx = fmin(fmax(((double)x + 0.5) * scale - 0.5, 0.0), (double)(side - 1));
            const long y0 = (long)fy, x0 = (long)fx;
            const long y1 = y0 + 1 < side ? y0 + 1 : y0, x1 = x0 + 1 < side ? x0 + 1 : x0;
            const double wy = fy - (double)y0, wx = fx - (double)x0;
            const double top = image[y0 * side + x0] * (1.0 - wx) + image[y0 * side + x1] * wx;
            const double bottom = image[y1 * side + x0] * (1.0 - wx) + image[y1 * side + x1] * wx;
            out[y * size + x] = (float)((top * (1.0 - wy) + bottom * wy) / 127.5 - 1.0);
        }
    }
}

/* ---- random numbers for latents and the order of images: splitmix64, Box-Muller ---- */

static double uniform(unsigned long long *state) {
    unsigned long long z = *state += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return ((double)((z ^ z >> 31) >> 11) + 0.5) * 0x1p-53;
}

static void normals(unsigned long long *state, float *out, long count) {
    for (long i = 0; i < count; ++i) {
        const double radius = sqrt(-2.0 * log(uniform(state)));
        out[i] = (float)(radius * cos(6.283185307179586 * uniform(state)));
    }
}

/* ---- the networks ---- */

/* z (N, latent, 1, 1) -> (N, 1, size, size): 4x4, then doubled until `size`. */
static uf_value generator(uf_graph *graph, uf_store *store, uf_value z, const settings *s) {
    long channels = s->features * s->image_size / 8;
    uf_value x = z;
    int number = 0;
    for (long size = 4; size < s->image_size; size *= 2) {
        x = uf_conv_transpose2d(graph, x, uf_atf(store, "main.%d", number), channels,
                                size == 4 ? UF_CONV_TRANSPOSE2D(4, 1, 0, false)
                                          : UF_CONV_TRANSPOSE2D(4, 2, 1, false));
        x = uf_relu(graph, uf_batch_norm2d(graph, x, uf_atf(store, "main.%d", number + 1), NULL));
        channels /= 2;
        number += 3;
    }
    x = uf_conv_transpose2d(graph, x, uf_atf(store, "main.%d", number), 1,
                            UF_CONV_TRANSPOSE2D(4, 2, 1, false));
    return uf_tanh(graph, x);
}

/* (N, 1, size, size) -> logits (N, 1, 1, 1): halved until 4x4. */
static uf_value discriminator(uf_graph *graph, uf_store *store, uf_value image, const settings *s) {
    long channels = s->features;
    uf_value x =
        uf_conv2d(graph, image, uf_at(store, "main.0"), channels, UF_CONV2D(4, 2, 1, false));
    x = uf_leaky_relu(graph, x, 0.2);
    int number = 2;
    for (long size = s->image_size / 2; size > 4; size /= 2) {
        channels *= 2;
        x = uf_conv2d(graph, x, uf_atf(store, "main.%d", number), channels,
                      UF_CONV2D(4, 2, 1, false));
        x = uf_batch_norm2d(graph, x, uf_atf(store, "main.%d", number + 1), NULL);
        x = uf_leaky_relu(graph, x, 0.2);
        number += 3;
    }
    return uf_conv2d(graph, x, uf_atf(store, "main.%d", number), 1, UF_CONV2D(4, 1, 0, false));
}

/* ---- pictures and progress ---- */

static void write_grid(const char *path, const float *images, long size) {
    const long border = 2, across = 8, side = across * (size + border) + border;
    uf_picture picture;
    must(uf_picture_create(side, side, 1, 8, &picture));
    unsigned char *pixels = picture.samples;
    memset(pixels, 0, (size_t)(side * side));
    for (long i = 0; i < SAMPLES; ++i) {
        const long top = border + i / across * (size + border),
                   left = border + i % across * (size + border);
        for (long y = 0; y < size; ++y) {
            for (long x = 0; x < size; ++x) {
                const double value = ((double)images[(i * size + y) * size + x] + 1.0) * 127.5;
                pixels[(top + y) * side + left + x] =
                    (unsigned char)(fmin(fmax(value, 0.0), 255.0) + 0.5);
            }
        }
    }
    must(uf_png_write(path, &picture));
    uf_picture_free(&picture);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* A line that rewrites itself on a terminal; every 100 steps a line on anything else. */
static void report(const settings *s, long step, double elapsed, const double *losses) {
    const bool terminal = isatty(STDERR_FILENO) != 0;
    const double by_time = s->minutes > 0 ? elapsed / (60.0 * s->minutes) : 0.0;
    const double done = fmin(fmax(by_time, (double)step / (double)s->steps), 1.0);
    if (!terminal && step % 100 != 0) {
        return;
    }
    char bar[21];
    for (int i = 0; i < 20; ++i) {
        bar[i] = i < (int)(done * 20.0) ? '#' : '.';
    }
    bar[20] = '\0';
    fprintf(stderr, "%s[%s] step %ld  D %.3f  G %.3f  %.0f images/s  %.0f s left%s",
            terminal ? "\r" : "", bar, step, losses[0] + losses[1], losses[2],
            (double)(step * s->batch) / elapsed, done > 0.0 ? elapsed * (1.0 - done) / done : 0.0,
            terminal ? "   " : "\n");
}

/* ---- options ---- */

static long number(const char *name, const char *text, long low, long high) {
    char *end;
    const long value = strtol(text, &end, 10);
    if (*text == '\0' || *end != '\0' || value < low || value > high) {
        fprintf(stderr, "dcgan_train: %s takes a whole number from %ld to %ld, not '%s'\n", name,
                low, high, text);
        exit(2);
    }
    return value;
}

static settings parse(int argc, char **argv) {
    settings s = {"/usr/share/datasets/fashion-mnist",
                  "dcgan",
                  16,
                  64,
                  32,
                  64,
                  1000000,
                  500,
                  0,
                  12.0,
                  1,
                  UF_DEVICE_AUTO,
                  UF_MATH_FP32};
    for (int i = 1; i < argc; ++i) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        const struct {
            const char *name;
            long *place, low, high;
        } numbers[] = {
            {"--features", &s.features, 1, 1024},
            {"--latent", &s.latent, 1, 4096},
            {"--image-size", &s.image_size, 16, 128},
            {"--batch", &s.batch, 2, 4096},
            {"--steps", &s.steps, 1, 100000000},
            {"--sample-every", &s.sample_every, 1, 100000000},
            {"--threads", &s.threads, 1, 1024},
        };
        bool known = true;
        if (strcmp(name, "--help") == 0) {
            printf("usage: dcgan_train [--data DIR] [--features N] [--latent N] [--image-size "
                   "16|32|64|128]\n"
                   "                   [--batch N] [--minutes M] [--steps N] [--sample-every N] "
                   "[--seed S]\n"
                   "                   [--device auto|cpu|cuda] [--threads N] "
                   "[--math fp32|tf32|bf16] [--out PREFIX]\n");
            exit(0);
        } else if (strcmp(name, "--data") == 0) {
            s.data = value;
        } else if (strcmp(name, "--out") == 0) {
            s.out = value;
        } else if (strcmp(name, "--seed") == 0) {
            s.seed = (unsigned long long)number(name, value, 0, 2147483647);
        } else if (strcmp(name, "--minutes") == 0) {
            s.minutes = (double)number(name, value, 0, 100000);
        } else if (strcmp(name, "--device") == 0) {
            known = strcmp(value, "auto") == 0 || strcmp(value, "cpu") == 0 ||
                    strcmp(value, "cuda") == 0;
            s.device = value[0] == 'a'   ? UF_DEVICE_AUTO
                       : value[1] == 'p' ? UF_DEVICE_CPU
                                         : UF_DEVICE_CUDA;
        } else if (strcmp(name, "--math") == 0) {
            known = strcmp(value, "fp32") == 0 || strcmp(value, "tf32") == 0 ||
                    strcmp(value, "bf16") == 0;
            s.math = value[0] == 'f' ? UF_MATH_FP32 : value[0] == 't' ? UF_MATH_TF32 : UF_MATH_BF16;
        } else {
            known = false;
            for (size_t n = 0; n < sizeof numbers / sizeof numbers[0]; ++n) {
                if (strcmp(name, numbers[n].name) == 0) {
                    *numbers[n].place = number(name, value, numbers[n].low, numbers[n].high);
                    known = true;
                }
            }
        }
        if (!known || *value == '\0') {
            fprintf(stderr, "dcgan_train: '%s %s' is no option with its value; see --help\n", name,
                    value);
            exit(2);
        }
        ++i;
    }
    if ((s.image_size & (s.image_size - 1)) != 0) {
        fprintf(stderr, "dcgan_train: --image-size takes 16, 32, 64 or 128, not %ld\n",
                s.image_size);
        exit(2);
    }
    return s;
}

/* ---- training ---- */

int main(int argc, char **argv) {
    const settings s = parse(argc, argv);
    long count, side;
    unsigned char *data = read_images(s.data, &count, &side);

    uf_context_options options = uf_context_options_default();
    options.device = s.device;
    options.seed = s.seed;
    options.threads = s.threads > 0 ? (int32_t)s.threads : options.threads;
    uf_context *context;
    uf_store *g_store, *d_store;
    uf_graph *graph;
    must(uf_context_create(&options, &context));
    must(uf_store_create(context, "generator", &g_store));
    must(uf_store_create(context, "discriminator", &d_store));
    must(uf_graph_create(context, &graph));

    /* D learns from real images and from fakes that it may not change; then G learns from D as it
     * now is. */
    const uf_value z = uf_input(graph, "z", UF_SHAPE(s.batch, s.latent, 1, 1));
    const uf_value real = uf_input(graph, "real", UF_SHAPE(s.batch, 1, s.image_size, s.image_size));
    const uf_value fake = generator(graph, g_store, z, &s);
    const uf_value on_real = discriminator(graph, d_store, real, &s);
    const uf_value on_fake = discriminator(graph, d_store, uf_detach(graph, fake), &s);
    const uf_value judged = discriminator(graph, d_store, fake, &s);
    const uf_value ones = uf_full_like(graph, on_real, 1.0),
                   zeros = uf_full_like(graph, on_real, 0.0);
    const uf_value d_losses[] = {uf_bce_with_logits_loss(graph, on_real, ones),
                                 uf_bce_with_logits_loss(graph, on_fake, zeros)};
    const uf_value g_losses[] = {uf_bce_with_logits_loss(graph, judged, ones)};
    must(uf_init_dcgan(graph, g_store));
    must(uf_init_dcgan(graph, d_store));

    uf_adam_options adam = uf_adam_options_default();
    adam.lr = 2e-4;
    adam.beta1 = 0.5;
    uf_optimizer *g_adam, *d_adam;
    must(uf_optimizer_create_adam(g_store, &adam, &g_adam));
    must(uf_optimizer_create_adam(d_store, &adam, &d_adam));
    const uf_pass passes[] = {
        {.losses = d_losses,
         .loss_count = 2,
         .stores = &d_store,
         .store_count = 1,
         .optimizers = &d_adam,
         .optimizer_count = 1},
        {.losses = g_losses,
         .loss_count = 1,
         .stores = &g_store,
         .store_count = 1,
         .optimizers = &g_adam,
         .optimizer_count = 1},
    };
    uf_program_options training = uf_program_options_default();
    training.mode = UF_TRAIN;
    training.math = s.math;
    training.passes = passes;
    training.pass_count = 2;
    uf_program *trainer;
    must(uf_program_compile(graph, &training, &trainer));

    uf_graph *sample_graph;
    uf_program *sampler;
    must(uf_graph_create(context, &sample_graph));
    const uf_value sample_z = uf_input(sample_graph, "z", UF_SHAPE(SAMPLES, s.latent, 1, 1));
    uf_output(sample_graph, "image", generator(sample_graph, g_store, sample_z, &s));
    uf_program_options sampling = uf_program_options_default();
    sampling.math = s.math;
    must(uf_program_compile(sample_graph, &sampling, &sampler));

    const long pixels = s.image_size * s.image_size;
    float *latents =
        malloc(sizeof(float) * (size_t)(s.batch > SAMPLES ? s.batch : SAMPLES) * (size_t)s.latent);
    float *images =
        malloc(sizeof(float) * (size_t)(s.batch > SAMPLES ? s.batch : SAMPLES) * (size_t)pixels);
    long *order = malloc(sizeof(long) * (size_t)count);
    if (latents == NULL || images == NULL || order == NULL || count < s.batch) {
        fail("%s", "out of memory, or fewer images than one batch");
    }
    unsigned long long random = s.seed;
    normals(&random, latents, SAMPLES * s.latent);
    must(uf_tensor_upload(uf_program_input(sampler, "z"), latents));
    for (long i = 0; i < count; ++i) {
        order[i] = i;
    }

    fprintf(stderr, "%s: %ld images, generator %ld -> %ldx%ld\n", uf_context_description(context),
            count, s.latent, s.image_size, s.image_size);
    const double start = seconds();
    long next = count;
    for (long step = 0;; ++step) {
        const bool over =
            step >= s.steps || (s.minutes > 0 && seconds() - start > 60.0 * s.minutes);
        if (step % s.sample_every == 0 || over) {
            char path[4096];
            snprintf(path, sizeof path, "%s-%06ld.png", s.out, step);
            must(uf_program_run(sampler));
            must(uf_tensor_download(uf_program_output(sampler, "image"), images));
            write_grid(path, images, s.image_size);
        }
        if (over) {
            break;
        }
        if (next + s.batch >
            count) { /* a new epoch, in a new order; the short last batch is left out */
            for (long i = count - 1; i > 0; --i) {
                const long other = (long)(uniform(&random) * (double)(i + 1));
                const long swap = order[i];
                order[i] = order[other];
                order[other] = swap;
            }
            next = 0;
        }
        for (long i = 0; i < s.batch; ++i) {
            resize(data + order[next + i] * side * side, side, s.image_size, images + i * pixels);
        }
        next += s.batch;
        normals(&random, latents, s.batch * s.latent);
        must(uf_tensor_upload(uf_program_input(trainer, "z"), latents));
        must(uf_tensor_upload(uf_program_input(trainer, "real"), images));
        must(uf_program_run(trainer));
        double losses[3] = {0};
        int64_t finished;
        bool finite;
        must(uf_program_losses(trainer, losses, 3, &finished, &finite));
        if (finished > 0 && !finite) {
            fail("%s", "a loss is no longer a finite number");
        }
        report(&s, step + 1, seconds() - start, losses);
    }
    char weights[4096];
    snprintf(weights, sizeof weights, "%s.h5", s.out);
    must(uf_store_save_hdf5(g_store, weights));
    fprintf(stderr, "\n%s written; try: unfurl generate --weights %s --out samples.png\n", weights,
            weights);

    free(order);
    free(images);
    free(latents);
    free(data);
    uf_program_destroy(sampler);
    uf_program_destroy(trainer);
    uf_optimizer_destroy(g_adam);
    uf_optimizer_destroy(d_adam);
    uf_graph_destroy(sample_graph);
    uf_graph_destroy(graph);
    uf_store_destroy(d_store);
    uf_store_destroy(g_store);
    uf_context_destroy(context);
    return 0;
}
