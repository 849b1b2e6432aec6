/* generate.c - `unfurl generate`: sample a trained DCGAN generator. */
#include "command.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include "dcgan.h"
#include "files.h"
#include "grid.h"
#include "json.h"
#include "latent.h"
#include "progress.h"
#include "runtime.h"
#include "weights.h"

enum { DEFAULT_COUNT = 64, LARGEST_BATCH = 64 };

struct generate_arguments {
    const char *weights, *out, *latent;
    int64_t count, seed; /* -1: not given */
    bool trust;
    struct run_options run;
};

/* Everything of one run, released together whatever happened. */
struct generation {
    const struct generate_arguments *arguments;
    uf_dtype dtype;
    uf_context *context;
    uf_store *store;
    uf_graph *graph;
    struct dcgan generator;
    struct latents latents;
    int64_t image_size;    /* values in an image */
    uf_shape images_shape; /* (count, C, H, W) */
    double *batch;         /* one batch of images */
    char *images;          /* all images in the run's type, for HDF5 */
    struct grid grid;      /* all images as a picture, for PNG */
    double seconds;        /* of running the network */
};

static void release(struct generation *work) {
    uf_picture_free(&work->grid.picture);
    free(work->images);
    free(work->batch);
    latents_free(&work->latents);
    uf_graph_destroy(work->graph);
    uf_store_destroy(work->store);
    uf_context_destroy(work->context);
}

static int64_t seed_of(const struct generate_arguments *arguments) {
    return arguments->seed < 0 ? 0 : arguments->seed;
}

static int check_arguments(const struct generate_arguments *arguments) {
    if (file_kind_of(arguments->out) == FILE_OTHER) {
        return fail_usage("generate: --out is '%s'; it takes a name that ends in .png or .h5",
                          arguments->out);
    }
    if (arguments->latent != NULL && arguments->seed >= 0) {
        return fail_usage("generate: --seed and --latent exclude each other; latents that are read "
                          "are not drawn");
    }
    TRY_LIBRARY(uf_file_check_output(arguments->out));
    return EXIT_DONE;
}

static int load_generator(struct generation *work) {
    const char *path = work->arguments->weights;
    uf_store_options options = uf_store_options_default();
    options.dtype = work->dtype;
    TRY_LIBRARY(uf_store_create_with(work->context, "generator", &options, &work->store));
    TRY(runtime_load(work->store, path, work->arguments->trust));
    return dcgan_discover(work->store, path, &work->generator);
}

static int make_latents(struct generation *work) {
    const struct generate_arguments *arguments = work->arguments;
    int64_t size = dcgan_latent_size(&work->generator);
    if (arguments->latent != NULL) {
        return latents_read(arguments->latent, arguments->count, size, &work->latents);
    }
    int64_t count = arguments->count < 0 ? DEFAULT_COUNT : arguments->count;
    return latents_draw(work->context, count, size, &work->latents);
}

static int64_t batch_size(const struct generation *work) {
    return work->latents.count < LARGEST_BATCH ? work->latents.count : LARGEST_BATCH;
}

static int build_graph(struct generation *work) {
    TRY_LIBRARY(uf_graph_create(work->context, &work->graph));
    uf_value z = uf_input(work->graph, "z", UF_SHAPE(batch_size(work), work->latents.size, 1, 1));
    uf_value images = dcgan_build(&work->generator, work->graph, work->store, z);
    uf_output(work->graph, "images", images);
    TRY_LIBRARY(uf_graph_status(work->graph));
    work->images_shape = uf_value_shape(work->graph, images);
    uf_shape one = work->images_shape;
    one.extent[0] = 1;
    work->image_size = uf_shape_count(&one);
    work->images_shape.extent[0] = work->latents.count;
    return EXIT_DONE;
}

static void *allocate_values(int64_t count, size_t size) {
    return count > 0 && (uint64_t)count <= SIZE_MAX / size ? malloc((size_t)count * size) : NULL;
}

static int allocate_output(struct generation *work) {
    const int64_t *extent = work->images_shape.extent;
    uf_shape batch = work->images_shape;
    batch.extent[0] = batch_size(work);
    work->batch = allocate_values(uf_shape_count(&batch), sizeof *work->batch);
    if (work->batch == NULL) {
        return fail("out of memory for a batch of %" PRId64 " images", batch.extent[0]);
    }
    if (file_kind_of(work->arguments->out) == FILE_PNG) {
        return grid_create(extent[0], extent[1], extent[2], extent[3], &work->grid);
    }
    work->images = allocate_values(uf_shape_count(&work->images_shape), uf_dtype_size(work->dtype));
    return work->images != NULL
               ? EXIT_DONE
               : fail("out of memory for %" PRId64 " images; ask for fewer", extent[0]);
}

/* Take the images `first` … `first + count` from the program's output. */
static int take_images(struct generation *work, const uf_tensor *output, int64_t first,
                       int64_t count) {
    int64_t values = count * work->image_size;
    TRY_LIBRARY(uf_tensor_download_as(output, UF_F64, work->batch, values));
    for (int64_t i = 0; i < values; i++) {
        if (!isfinite(work->batch[i])) {
            return fail("%s: image %" PRId64
                        " has values that are not finite; the weights are damaged or not trained",
                        work->arguments->weights, first + i / work->image_size);
        }
    }
    if (work->images != NULL) {
        size_t offset = (size_t)(first * work->image_size) * uf_dtype_size(work->dtype);
        TRY_LIBRARY(uf_tensor_download(output, work->images + offset));
        return EXIT_DONE;
    }
    for (int64_t i = 0; i < count; i++) {
        grid_place(&work->grid, first + i, work->batch + i * work->image_size);
    }
    return EXIT_DONE;
}

/* Images `first` … `first + count`, in batches of `batch`, which divides `count`. */
static int run_batches(struct generation *work, uf_program *program, int64_t first, int64_t count,
                       int64_t batch, struct progress *progress) {
    uf_tensor *input = uf_program_input(program, "z");
    uf_tensor *output = uf_program_output(program, "images");
    if (input == NULL || output == NULL) {
        return fail_library();
    }
    for (int64_t done = 0; done < count; done += batch) {
        double start = clock_seconds();
        const double *z = work->latents.values + (first + done) * work->latents.size;
        TRY_LIBRARY(uf_tensor_upload_as(input, UF_F64, z, batch * work->latents.size));
        TRY_LIBRARY(uf_program_run(program));
        TRY_LIBRARY(uf_context_synchronize(work->context));
        work->seconds += clock_seconds() - start;
        TRY(take_images(work, output, first + done, batch));
        progress_advance(progress, batch);
    }
    return EXIT_DONE;
}

/* One program does the full batches and a second one what is left over. */
static int generate_part(struct generation *work, int64_t first, int64_t count, int64_t batch,
                         struct progress *progress) {
    uf_program_options options = runtime_program(&work->arguments->run);
    const uf_input_shape shape = {"z", UF_SHAPE(batch, work->latents.size, 1, 1)};
    options.input_shapes = &shape;
    options.input_shape_count = 1;
    uf_program *program = NULL;
    TRY_LIBRARY(uf_program_compile(work->graph, &options, &program));
    int status = run_batches(work, program, first, count, batch, progress);
    uf_program_destroy(program);
    return status;
}

static int generate_all(struct generation *work) {
    int64_t batch = batch_size(work);
    int64_t rest = work->latents.count % batch;
    int64_t full = work->latents.count - rest;
    struct progress progress = progress_begin("generate", "images", work->latents.count);
    int status = generate_part(work, 0, full, batch, &progress);
    if (status == EXIT_DONE && rest > 0) {
        status = generate_part(work, full, rest, rest, &progress);
    }
    progress_end(&progress);
    return status;
}

static void report(const struct generation *work, double total) {
    const struct generate_arguments *arguments = work->arguments;
    const int64_t *extent = work->images_shape.extent;
    if (!arguments->run.json) {
        say("%s: %" PRId64 " images of %" PRId64 " x %" PRId64 "; %s, network %.3f s, "
            "total %.3f s",
            arguments->out, extent[0], extent[3], extent[2], uf_context_description(work->context),
            work->seconds, total);
        return;
    }
    struct json json = json_begin(stdout);
    json_open(&json, NULL, '{');
    json_text(&json, "output", arguments->out);
    json_text(&json, "weights", arguments->weights);
    json_integer(&json, "count", extent[0]);
    json_integer(&json, "channels", extent[1]);
    json_integer(&json, "height", extent[2]);
    json_integer(&json, "width", extent[3]);
    json_integer(&json, "latent_size", work->latents.size);
    if (arguments->latent == NULL) {
        json_integer(&json, "seed", seed_of(arguments));
    } else {
        json_text(&json, "latent", arguments->latent);
    }
    runtime_report(&json, work->context, work->dtype);
    json_text(&json, "math", runtime_maths[arguments->run.math]);
    json_number(&json, "network_seconds", work->seconds);
    json_number(&json, "total_seconds", total);
    json_close(&json, '}');
}

static int generate(struct generation *work) {
    double start = clock_seconds();
    TRY(check_arguments(work->arguments));
    TRY(runtime_open(&work->arguments->run, seed_of(work->arguments), &work->context));
    TRY(load_generator(work));
    TRY(make_latents(work));
    TRY(build_graph(work));
    TRY(allocate_output(work));
    TRY(generate_all(work));
    TRY(file_write(work->arguments->out, "images", work->dtype, work->images_shape, work->images,
                   &work->grid.picture, work->arguments->run.threads));
    report(work, clock_seconds() - start);
    return EXIT_DONE;
}

static int generate_run(const void *parsed) {
    const struct generate_arguments *arguments = parsed;
    struct generation work = {.arguments = arguments, .dtype = runtime_dtype(&arguments->run)};
    int status = generate(&work);
    release(&work);
    return status;
}

static const struct option generate_options[] = {
    {.kind = OPTION_TEXT,
     .name = "weights",
     .value = "FILE.h5",
     .help = "the generator's state_dict",
     .required = true,
     .offset = offsetof(struct generate_arguments, weights)},
    {.kind = OPTION_TEXT,
     .name = "out",
     .value = "OUT",
     .help = "OUT.png: the images in a grid; OUT.h5: the dataset /images",
     .required = true,
     .offset = offsetof(struct generate_arguments, out)},
    {.kind = OPTION_INTEGER,
     .name = "count",
     .value = "N",
     .help = "how many images; 64, or as many as there are latents",
     .minimum = 1,
     .maximum = 100000,
     .fallback = -1,
     .offset = offsetof(struct generate_arguments, count)},
    {.kind = OPTION_INTEGER,
     .name = "seed",
     .value = "S",
     .help = "of the latents that are drawn; 0 unless given",
     .minimum = 0,
     .maximum = INT64_MAX,
     .fallback = -1,
     .offset = offsetof(struct generate_arguments, seed)},
    {.kind = OPTION_TEXT,
     .name = "latent",
     .value = "FILE.h5:/NAME",
     .help = "read the latents, (N, size, 1, 1) or (N, size), instead",
     .offset = offsetof(struct generate_arguments, latent)},
    WEIGHTS_TRUST_ROW(struct generate_arguments),
    RUN_OPTION_ROWS(struct generate_arguments),
    MATH_OPTION_ROW(struct generate_arguments, run.math),
};

const struct command command_generate = {
    .name = "generate",
    .summary = "Sample a trained DCGAN generator.",
    .details =
        "Sizes are read from the weights: ConvTranspose2d layers, the first with stride 1 and\n"
        "padding 0, the others with stride 2 and padding 1; batch norm and ReLU after each but\n"
        "the last, tanh after that. The same seed gives the same images on every run.",
    .example = "unfurl generate --weights generator.h5 --out samples.png --count 64 --seed 7",
    .options = generate_options,
    .option_count = sizeof generate_options / sizeof generate_options[0],
    .arguments_size = sizeof(struct generate_arguments),
    .run = generate_run,
};
