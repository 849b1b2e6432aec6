/* run.c - `unfurl run`: run a model file on pictures, arrays or random numbers. */
#include "run.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "command.h"
#include "files.h"
#include "json.h"
#include "progress.h"
#include "weights.h"

enum { PROFILE_RUNS = 10, USUAL_RATE = 22050 };

void run_forget(struct run_work *work) {
    for (int32_t i = 0; work->inputs != NULL && i < work->input_count; i++) {
        values_free(&work->inputs[i]);
    }
    free(work->inputs);
    free(work->shapes);
    uf_picture_free(&work->picture);
    uf_program_destroy(work->program);
    *work = (struct run_work){.arguments = work->arguments,
                              .streams = work->streams,
                              .context = work->context,
                              .model = work->model};
}

/* ---- the command line ---- */

/* "NAME=WORD": the length of the name, or 0 where there is none. */
static size_t name_length(const char *text) {
    const char *equals = strchr(text, '=');
    return equals != NULL && equals[1] != '\0' ? (size_t)(equals - text) : 0;
}

static bool is_named(const char *text, const char *name) {
    const size_t length = name_length(text);
    return strlen(name) == length && strncmp(text, name, length) == 0;
}

static bool ends_in(const char *path, const char *extension) {
    const size_t length = strlen(path), tail = strlen(extension);
    return length > tail && strcasecmp(path + length - tail, extension) == 0;
}

static int check_output(const char *text, bool *is_stdout) {
    const char *path = text + name_length(text) + 1;
    uf_picture_format format;
    if (name_length(text) > 0 && streams_output_type(path) != NULL) {
        if (*is_stdout) {
            return fail_usage("run: --output %s: stdout (-) is one output", text);
        }
        *is_stdout = true;
        return EXIT_DONE;
    }
    if (name_length(text) == 0 ||
        (file_kind_of(path) == FILE_OTHER && !file_picture_format(path, &format) &&
         !ends_in(path, ".npy") && !ends_in(path, ".wav"))) {
        return fail_usage("run: --output is '%s'; it takes NAME=FILE, a file that ends in .png, "
                          ".jpg, .npy, .h5 or .wav, or NAME=TYPE:- for stdout, as in y=npy:-",
                          text);
    }
    TRY_LIBRARY(uf_file_check_output(path));
    return EXIT_DONE;
}

static int check_arguments(const struct run_work *work) {
    const struct run_arguments *arguments = work->arguments;
    bool is_stdout = false;
    for (int64_t i = 0; i < arguments->outputs.count; i++) {
        TRY(check_output(arguments->outputs.texts[i], &is_stdout));
    }
    for (int64_t i = 0; i < arguments->inputs.count; i++) {
        if (name_length(arguments->inputs.texts[i]) == 0) {
            return fail_usage("run: --input is '%s'; it takes NAME=FILE or NAME=randn:EXTENTS",
                              arguments->inputs.texts[i]);
        }
    }
    return is_stdout ? streams_take_output(work->streams) : EXIT_DONE;
}

int run_output_open(struct run_work *work, const char *text, struct run_output *output) {
    const size_t length = name_length(text);
    const char *type = streams_output_type(text + length + 1);
    snprintf(output->name, sizeof output->name, "%.*s", (int)length, text);
    output->is_stdout = type != NULL;
    output->path = text + length + 1;
    return type == NULL ? EXIT_DONE : streams_output(work->streams, type, &output->path);
}

int run_output_close(struct run_work *work, const struct run_output *output) {
    return output->is_stdout ? streams_send(work->streams) : EXIT_DONE;
}

/* ---- inputs ---- */

static int read_one(struct run_work *work, int32_t index, const char *word, struct values *values) {
    const uf_input_shape *input = &work->shapes[index];
    const uf_dtype dtype = uf_model_input_dtype(work->model, index) == UF_I64 ? UF_I64 : UF_F64;
    TRY(streams_input(work->streams, &word));
    if (!values_is_picture(word)) {
        return values_read(work->context, input->input, word, dtype, &input->shape, values);
    }
    uf_picture_map map;
    TRY_LIBRARY(uf_model_picture(work->model, false, input->input, &map));
    if (input->shape.rank != 4 || dtype == UF_I64) {
        return fail("input %s is no picture: the model takes (N, C, H, W) of real values from one",
                    input->input);
    }
    if (work->arguments->tile != NULL) {
        return run_tile_input(work, index, word, &map);
    }
    return values_read_picture(word, &map, input->shape.extent[1], values, &work->frame);
}

/* One --input. Several of a name are one batch. */
static int take_input(struct run_work *work, const char *text) {
    const char *word = text + name_length(text) + 1;
    for (int32_t i = 0; i < work->input_count; i++) {
        if (!is_named(text, work->shapes[i].input)) {
            continue;
        }
        struct values values = {0};
        int status = read_one(work, i, word, &values);
        if (status == EXIT_DONE && work->inputs[i].data == NULL) {
            work->inputs[i] = values;
            return EXIT_DONE;
        }
        if (status == EXIT_DONE) {
            status = values_append(work->shapes[i].input, &work->inputs[i], &values);
        }
        values_free(&values);
        return status;
    }
    char names[512] = "";
    for (int32_t i = 0; i < work->input_count && strlen(names) < 256; i++) {
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i == 0 ? "" : ", ",
                 work->shapes[i].input);
    }
    return fail_usage("run: --input %s: the model's inputs are %s", text, names);
}

static int take_inputs(struct run_work *work) {
    work->input_count = uf_model_input_count(work->model);
    work->shapes = calloc((size_t)work->input_count + 1, sizeof *work->shapes);
    work->inputs = calloc((size_t)work->input_count + 1, sizeof *work->inputs);
    if (work->shapes == NULL || work->inputs == NULL) {
        return fail("out of memory for the inputs of a model");
    }
    TRY_LIBRARY(uf_model_input_shapes(work->model, NULL, 0, work->shapes));
    for (int64_t i = 0; i < work->arguments->inputs.count; i++) {
        TRY(take_input(work, work->arguments->inputs.texts[i]));
    }
    if (work->arguments->check != NULL) {
        TRY(run_check_inputs(work));
    }
    for (int32_t i = 0; i < work->input_count; i++) {
        if (work->tiled == i + 1) {
            continue; /* it has its shape */
        }
        if (work->inputs[i].data == NULL) {
            char text[128];
            return fail_usage("run: --input %s=... is missing: %s, from a file or randn",
                              work->shapes[i].input,
                              uf_shape_format(&work->shapes[i].shape, text, sizeof text));
        }
        work->shapes[i].shape = work->inputs[i].shape;
    }
    return EXIT_DONE;
}

/* ---- the run ---- */

static int compile(struct run_work *work) {
    uf_program_options options = runtime_program(&work->arguments->run);
    uf_input_shape *solved = calloc((size_t)work->input_count + 1, sizeof *solved);
    if (solved == NULL) {
        return fail("out of memory for the shapes of a model");
    }
    uf_status status = uf_model_input_shapes(work->model, work->shapes, work->input_count, solved);
    options.input_shapes = solved;
    options.input_shape_count = work->input_count;
    options.random_seed = (uint64_t)work->arguments->seed;
    if (status == UF_OK) {
        status = uf_program_compile(uf_model_graph(work->model), &options, &work->program);
    }
    free(solved);
    TRY_LIBRARY(status);
    return EXIT_DONE;
}

static int run_program(struct run_work *work) {
    for (int32_t i = 0; i < work->input_count; i++) {
        uf_tensor *input = uf_program_input(work->program, work->shapes[i].input);
        TRY_LIBRARY(uf_tensor_upload_as(input, work->inputs[i].dtype, work->inputs[i].data,
                                        uf_tensor_count(input)));
    }
    const double start = clock_seconds();
    TRY_LIBRARY(uf_program_run(work->program));
    TRY_LIBRARY(uf_context_synchronize(work->context));
    work->seconds = clock_seconds() - start;
    return EXIT_DONE;
}

int run_compute(struct run_work *work) {
    TRY(compile(work));
    return run_program(work);
}

/* ---- outputs ---- */

int run_download(const uf_tensor *tensor, struct values *values) {
    TRY(values_create(UF_F64, uf_tensor_shape(tensor), values));
    TRY_LIBRARY(
        uf_tensor_download_as(tensor, UF_F64, values->data, uf_shape_count(&values->shape)));
    return EXIT_DONE;
}

static int write_picture(struct run_work *work, const struct run_output *output,
                         const struct values *values) {
    uf_picture_map map;
    TRY_LIBRARY(uf_model_picture(work->model, true, output->name, &map));
    return values_write_picture(output->path, output->name, &map, values, &work->frame,
                                work->arguments->run.threads, work->arguments->quality);
}

/* The samples a second of --rate, or of a sound that went in. */
static int64_t rate_of(const struct run_work *work) {
    int64_t rate = work->arguments->rate;
    for (int32_t i = 0; rate < 1 && i < work->input_count; i++) {
        rate = work->inputs[i].rate;
    }
    return rate < 1 ? USUAL_RATE : rate;
}

static int write_output(struct run_work *work, const char *text) {
    struct run_output output;
    struct values values = {0};
    TRY(run_output_open(work, text, &output));
    const uf_tensor *tensor = uf_program_output(work->program, output.name);
    if (tensor == NULL) {
        return fail_library();
    }
    int status = run_download(tensor, &values);
    uf_picture_format format;
    if (status == EXIT_DONE && file_picture_format(output.path, &format)) {
        status = write_picture(work, &output, &values);
    } else if (status == EXIT_DONE && ends_in(output.path, ".wav")) {
        status = values_write_sound(output.path, output.name, &values, rate_of(work));
    } else if (status == EXIT_DONE) {
        status =
            values_write(output.path, output.name, runtime_stored(&work->arguments->run), &values);
    }
    values_free(&values);
    return status == EXIT_DONE ? run_output_close(work, &output) : status;
}

/* ---- the report ---- */

struct summary {
    double least, most, mean;
    int64_t count, not_finite;
};

static struct summary sum_up(const struct values *values) {
    struct summary made = {.least = HUGE_VAL, .most = -HUGE_VAL};
    made.count = uf_shape_count(&values->shape);
    double sum = 0.0;
    for (int64_t i = 0; i < made.count; i++) {
        const double number = ((const double *)values->data)[i];
        made.not_finite += !isfinite(number);
        made.least = fmin(made.least, number);
        made.most = fmax(made.most, number);
        sum += number;
    }
    made.mean = sum / (double)made.count;
    return made;
}

static void report_shape(struct json *json, const uf_shape *shape) {
    json_open(json, "shape", '[');
    for (int32_t i = 0; i < shape->rank; i++) {
        json_integer(json, NULL, shape->extent[i]);
    }
    json_close(json, ']');
}

static int report_output(struct run_work *work, struct json *json, int32_t index) {
    const char *name = uf_program_output_name(work->program, index);
    struct values values = {0};
    char shape[128];
    TRY(run_download(uf_program_output(work->program, name), &values));
    const struct summary sum = sum_up(&values);
    if (json == NULL) {
        say("%s %s: %.6g to %.6g, mean %.6g%s", name,
            uf_shape_format(&values.shape, shape, sizeof shape), sum.least, sum.most, sum.mean,
            sum.not_finite > 0 ? ", NOT FINITE" : "");
    } else {
        json_open(json, NULL, '{');
        json_text(json, "name", name);
        report_shape(json, &values.shape);
        json_number(json, "least", sum.least);
        json_number(json, "most", sum.most);
        json_number(json, "mean", sum.mean);
        json_integer(json, "not_finite", sum.not_finite);
        json_close(json, '}');
    }
    values_free(&values);
    return EXIT_DONE;
}

static int profile(struct run_work *work, struct json *json) {
    uf_profile_row *rows = NULL;
    int64_t count = 0;
    TRY_LIBRARY(uf_program_profile(work->program, PROFILE_RUNS, &rows, &count));
    if (json != NULL) {
        json_open(json, "steps", '[');
    }
    for (int64_t i = 0; i < count; i++) {
        if (json == NULL) {
            say("%10.4f ms  %-18s %s", rows[i].ms, rows[i].layer, rows[i].name);
        } else {
            json_open(json, NULL, '{');
            json_text(json, "name", rows[i].name);
            json_text(json, "layer", rows[i].layer);
            json_number(json, "ms", rows[i].ms);
            json_close(json, '}');
        }
    }
    if (json != NULL) {
        json_close(json, ']');
    }
    uf_profile_free(rows);
    return EXIT_DONE;
}

static int report(struct run_work *work) {
    const struct run_arguments *arguments = work->arguments;
    struct json json = json_begin(stdout);
    struct json *as_json = arguments->run.json ? &json : NULL;
    if (as_json != NULL) {
        json_open(&json, NULL, '{');
        json_text(&json, "model", arguments->path);
        json_integer(&json, "seed", arguments->seed);
        runtime_report(&json, work->context, runtime_dtype(&arguments->run));
        json_text(&json, "math", runtime_maths[arguments->run.math]);
        json_number(&json, "seconds", work->seconds);
        json_open(&json, "outputs", '[');
    }
    for (int32_t i = 0; i < uf_program_output_count(work->program); i++) {
        TRY(report_output(work, as_json, i));
    }
    if (as_json != NULL) {
        json_close(&json, ']');
    }
    if (arguments->profile) {
        TRY(profile(work, as_json));
    }
    if (as_json != NULL) {
        json_close(&json, '}');
    } else {
        say("%s: %.3f s on %s", arguments->path, work->seconds,
            uf_context_description(work->context));
    }
    return EXIT_DONE;
}

/* ---- the command ---- */

static int open_model(struct run_work *work) {
    const struct run_arguments *arguments = work->arguments;
    uf_model_options options = uf_model_options_default();
    options.dtype = runtime_stored(&arguments->run);
    options.untrusted = !arguments->trust;
    TRY(runtime_open(&arguments->run, arguments->seed, &work->context));
    TRY_LIBRARY(uf_model_load(work->context, arguments->path, &options, &work->model));
    return EXIT_DONE;
}

int run_once(struct run_work *work) {
    const struct run_arguments *arguments = work->arguments;
    TRY(check_arguments(work));
    if (work->model == NULL) {
        TRY(open_model(work));
    }
    TRY(take_inputs(work));
    if (arguments->tile != NULL) {
        return run_tiles(work);
    }
    TRY(run_compute(work));
    for (int64_t i = 0; i < arguments->outputs.count; i++) {
        TRY(write_output(work, arguments->outputs.texts[i]));
    }
    return arguments->check != NULL ? run_check(work) : report(work);
}

static int run_run(const void *parsed) {
    struct streams streams = {.command = "run"};
    struct run_work work = {.arguments = parsed, .streams = &streams};
    const int status = run_is_folder(&work) ? run_folder(&work) : run_once(&work);
    run_forget(&work);
    uf_context_destroy(work.context);
    streams_free(&streams);
    return status;
}

static const struct option run_options[] = {
    {.kind = OPTION_OPERAND,
     .name = "MODEL.h5",
     .help = "the model file",
     .offset = offsetof(struct run_arguments, path)},
    {.kind = OPTION_LIST,
     .name = "input",
     .value = "NAME=WHAT",
     .help = "a picture, FILE.wav, FILE.npy, FILE.h5[:DATASET], - or randn[:EXTENTS]; see below",
     .offset = offsetof(struct run_arguments, inputs)},
    {.kind = OPTION_LIST,
     .name = "output",
     .value = "NAME=FILE",
     .help = "write an output to FILE.png, FILE.jpg, FILE.npy, FILE.h5, FILE.wav or TYPE:-",
     .offset = offsetof(struct run_arguments, outputs)},
    {.kind = OPTION_INTEGER,
     .name = "seed",
     .value = "S",
     .help = "of random inputs",
     .minimum = 0,
     .maximum = INT64_MAX,
     .offset = offsetof(struct run_arguments, seed)},
    {.kind = OPTION_INTEGER,
     .name = "rate",
     .value = "HZ",
     .help = "samples a second of a .wav; those of the sound that went in, or 22050",
     .minimum = 1,
     .maximum = 384000,
     .offset = offsetof(struct run_arguments, rate)},
    {.kind = OPTION_INTEGER,
     .name = "quality",
     .value = "Q",
     .help = "of a .jpg, 1 to 100",
     .minimum = 1,
     .maximum = 100,
     .fallback = 92,
     .offset = offsetof(struct run_arguments, quality)},
    {.kind = OPTION_TEXT,
     .name = "tile",
     .value = "N|auto",
     .help = "run a picture in tiles of N rows and columns, without seams; see below",
     .offset = offsetof(struct run_arguments, tile)},
    {.kind = OPTION_TEXT,
     .name = "check",
     .value = "REFERENCE.h5",
     .help = "compare every value that the file has; name the first that differs",
     .offset = offsetof(struct run_arguments, check)},
    {.kind = OPTION_TEXT,
     .name = "limit",
     .value = "X",
     .help = "of --check: a value differs by more than X of its largest number; 1e-5 unless given",
     .offset = offsetof(struct run_arguments, limit)},
    {.kind = OPTION_FLAG,
     .name = "profile",
     .help = "print the time of each step, the mean of 10 runs",
     .offset = offsetof(struct run_arguments, profile)},
    WEIGHTS_TRUST_ROW(struct run_arguments),
    RUN_OPTION_ROWS_OF(struct run_arguments, runtime_dtypes_bf16),
    MATH_OPTION_ROW(struct run_arguments, run.math),
};

const struct command command_run = {
    .name = "run",
    .summary = "Run a model file on pictures, arrays or random numbers.",
    .details =
        "--input NAME=WHAT: a file, or randn, rand, zeros (of real values) and randint:K (indices\n"
        "0 to K - 1), each with :EXTENT,EXTENT,... for another shape than the model's. A file's\n"
        "contents say what it is: a PNG or JPEG picture, a sound (.wav), or an array of .npy or\n"
        "HDF5; - is stdin.\n"
        "--input again with the same name makes a batch. --output NAME=png:- writes to stdout, as\n"
        "do jpg:-, npy:-, h5:- and wav:-; - alone is png:-. The report then goes to stderr.\n"
        "A .png of several images is a grid. A folder as input and output: each of its pictures\n"
        "by itself, under its own name. --tile takes one picture in and gives one out, whatever\n"
        "its size: tiles overlap by as much as the model's layers look at. A model with a layer\n"
        "that looks at the whole picture, other than for a sum or mean, is refused. REFERENCE.h5\n"
        "is written by share/unfurl/unfurl_export.py --reference; inputs that are not given come\n"
        "from it.",
    .options = run_options,
    .option_count = sizeof run_options / sizeof run_options[0],
    .arguments_size = sizeof(struct run_arguments),
    .run = run_run,
};
