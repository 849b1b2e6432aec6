/* train_options.c - the common options, and all that follows from them alone. */
#include "common/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/common.h"
#include "common/train_options.h"

train_options train_options_default(void) {
    train_options options;
    memset(&options, 0, sizeof options);
    options.out = example_name;
    options.steps = 1000;
    options.batch = 64;
    options.lr = 1e-3;
    options.lr_factor = 0.1;
    options.sample_every = options.checkpoint_every = 500;
    options.log_every = 10;
    return options;
}

option *train_table(train_options *o, option *table) {
    const double many = 1e9;
    const option rows[TRAIN_OPTION_COUNT] = {
        {OPTION_TEXT, "--data", &o->data, 0, 0, "PATH", "what is learned from", false, false},
        {OPTION_TEXT, "--out", &o->out, 0, 0, "PREFIX", "where files go", false, false},
        {OPTION_INTEGER, "--steps", &o->steps, 1, many, "N",
         "steps of the whole training; none with --minutes", false, false},
        {OPTION_NUMBER, "--minutes", &o->minutes, 0, 1e6, "M", "time of it; 0: no limit", false,
         false},
        {OPTION_INTEGER, "--batch", &o->batch, 1, 65536, "N", "images a step", true, false},
        {OPTION_INTEGER, "--seed", &o->seed, 0, 2147483647, "S", "of weights, latents and order",
         true, false},
        {OPTION_CHOICE, "--device", &o->device, 0, 0, "auto|cpu|cuda",
         "auto: a GPU if there is one", false, false},
        {OPTION_INTEGER, "--threads", &o->threads, 0, 1024, "N", "of a CPU; 0: all cores", false,
         false},
        {OPTION_CHOICE, "--math", &o->math, 0, 0, "fp32|tf32|bf16", "of products on a GPU", true,
         false},
        {OPTION_CHOICE, "--dtype", &o->dtype, 0, 0, "f32|f64|bf16",
         "of values; weights are f32 beside bf16", true, false},
        {OPTION_NUMBER, "--lr", &o->lr, 0, 1e3, "R", "learning rate", true, false},
        {OPTION_CHOICE, "--schedule", &o->schedule, 0, 0, "constant|step|exponential|cosine",
         "of the learning rate", true, false},
        {OPTION_NUMBER, "--lr-factor", &o->lr_factor, 0, 1e3, "F",
         "step: the rate times F after each period; exponential: the same, evenly", true, false},
        {OPTION_INTEGER, "--lr-period", &o->lr_period, 0, many, "N",
         "steps; 0: all, and a third of them for step", true, false},
        {OPTION_INTEGER, "--warmup", &o->warmup, 0, many, "N",
         "steps in which the rate climbs to its first value", true, false},
        {OPTION_NUMBER, "--ema", &o->ema, 0, 1, "D",
         "decay of a moving average of the weights, which samples come from; 0: none", true, false},
        {OPTION_INTEGER, "--sample-every", &o->sample_every, 0, many, "N",
         "steps to the next picture; 0: the last one alone", false, false},
        {OPTION_INTEGER, "--checkpoint-every", &o->checkpoint_every, 0, many, "N",
         "steps to the next checkpoint; 0: at the end and on a signal alone", false, false},
        {OPTION_INTEGER, "--log-every", &o->log_every, 1, many, "N",
         "steps to the next row of PREFIX-losses.csv", true, false},
        {OPTION_TEXT, "--resume", &o->resume, 0, 0, "FILE|auto",
         "go on from a checkpoint; auto: from PREFIX-checkpoint.h5 if it is there", false, false},
        {OPTION_FLAG, "--quiet", &o->quiet, 0, 0, NULL, "say nothing but warnings and errors",
         false, false},
        {OPTION_END, NULL, NULL, 0, 0, NULL, NULL, false, false},
    };
    memcpy(table, rows, sizeof rows);
    return o->data == NULL ? table + 1 : table;
}

/* The period that 0 stands for. A training without a number of steps has none. */
static void settle_period(train_options *o, bool endless) {
    if (o->schedule == UF_SCHEDULE_CONSTANT || o->lr_period > 0) {
        return;
    }
    if (endless) {
        fail_usage("--schedule needs --steps or --lr-period where --minutes ends the training");
    }
    o->lr_period = o->schedule == UF_SCHEDULE_STEP ? (o->steps + 2) / 3 : o->steps;
}

void train_parse(const char *purpose, option *own, train_options *o, int argc, char *const *argv) {
    option common[TRAIN_OPTION_COUNT];
    option *const tables[2] = {train_table(o, common), own};
    bool steps = false;
    options_parse(purpose, tables, own == NULL ? 1 : 2, argc, argv);
    for (const option *row = tables[0]; row->kind != OPTION_END; ++row) {
        steps = steps || (row->given && row->place == (void *)&o->steps);
    }
    const bool endless = o->minutes > 0 && !steps;
    settle_period(o, endless);
    o->steps = endless ? INT64_MAX : o->steps;
    o->own = own;
    char path[TRAIN_PATH];
    train_path(o, "-losses.csv", path);
    must(uf_file_check_output(path)); /* before long work begins */
}

void train_path(const train_options *o, const char *suffix, char *path) {
    const int length = snprintf(path, TRAIN_PATH, "%s%s", o->out, suffix);
    if (length < 0 || length >= TRAIN_PATH) {
        fail("--out has more than %d characters", TRAIN_PATH - 64);
    }
}

uf_schedule train_schedule(const train_options *o) {
    uf_schedule schedule = uf_schedule_default();
    schedule.kind = (uf_schedule_kind)o->schedule;
    schedule.rate = o->lr;
    schedule.factor = o->lr_factor;
    schedule.warmup = o->warmup;
    schedule.period = o->lr_period > 0 ? o->lr_period : 1;
    if (schedule.kind == UF_SCHEDULE_EXPONENTIAL) { /* the library's is a factor of one step */
        schedule.factor = pow(o->lr_factor, 1.0 / (double)schedule.period);
    }
    return schedule;
}

uf_context *train_context(const train_options *o) {
    uf_context_options options = uf_context_options_default();
    uf_context *context;
    options.device = (uf_device)o->device;
    options.seed = (uint64_t)o->seed;
    options.threads = o->threads > 0 ? (int32_t)o->threads : options.threads;
    must(uf_context_create(&options, &context));
    return context;
}

uf_store *train_store(const train_options *o, uf_context *context, const char *name) {
    uf_store_options options = uf_store_options_default();
    uf_store *store;
    options.dtype = o->dtype == UF_F64 ? UF_F64 : UF_F32;
    must(uf_store_create_with(context, name, &options, &store));
    return store;
}

void train_average(const train_options *o, uf_context *context, train_model *model) {
    if (o->ema > 0) {
        uf_ema_options options = uf_ema_options_default();
        options.decay = o->ema;
        options.average_buffers = true;
        must(uf_store_copy(model->store, context, uf_store_dtype(model->store), &model->average));
        must(uf_ema_create(model->store, model->average, &options, &model->ema));
    }
}

uf_pass train_pass(const uf_value *losses, int loss_count, const train_model *model) {
    uf_pass pass = uf_pass_default();
    pass.losses = losses;
    pass.loss_count = loss_count;
    pass.stores = &model->store;
    pass.store_count = 1;
    pass.optimizers = &model->optimizer;
    pass.optimizer_count = 1;
    pass.emas = &model->ema;
    pass.ema_count = model->ema != NULL ? 1 : 0;
    return pass;
}

static uf_program_options program_options(const train_options *o, uf_mode mode) {
    uf_program_options options = uf_program_options_default();
    options.dtype = (uf_dtype)o->dtype;
    options.math = (uf_math)o->math;
    options.mode = mode;
    return options;
}

uf_program *train_compile(const train_options *o, uf_graph *graph, const uf_pass *passes,
                          int pass_count) {
    uf_program_options options = program_options(o, UF_TRAIN);
    uf_program *program;
    options.passes = passes;
    options.pass_count = pass_count;
    must(uf_program_compile(graph, &options, &program));
    return program;
}

uf_program *train_compile_sampler(const train_options *o, uf_graph *graph,
                                  const train_model *model) {
    uf_program_options options = program_options(o, UF_EVAL);
    uf_program *program;
    uf_binding binding = {NULL, NULL};
    if (model != NULL && model->average != NULL) {
        binding.store = model->store;
        binding.with = model->average;
        options.bindings = &binding;
        options.binding_count = 1;
    }
    must(uf_program_compile(graph, &options, &program));
    return program;
}

static uf_tensor *input_of(uf_program *program, const char *name) {
    uf_tensor *tensor = uf_program_input(program, name);
    if (tensor == NULL) {
        fail("%s", uf_last_error());
    }
    return tensor;
}

void train_upload(uf_program *program, const char *input, const float *values) {
    uf_tensor *tensor = input_of(program, input);
    must(uf_tensor_dtype(tensor) == UF_F32 /* needs no copy on the way */
             ? uf_tensor_upload(tensor, values)
             : uf_tensor_upload_as(tensor, UF_F32, values, uf_tensor_count(tensor)));
}

void train_upload_normals(uf_program *program, const char *input, random_stream stream) {
    const int64_t count = uf_tensor_count(input_of(program, input));
    float *values = allocate(count, sizeof *values);
    random_normals(&stream, values, count);
    train_upload(program, input, values);
    free(values);
}

void train_download(uf_program *program, const char *output, float *values) {
    const uf_tensor *tensor = uf_program_output(program, output);
    if (tensor == NULL) {
        fail("%s", uf_last_error());
    }
    must(uf_tensor_download_as(tensor, UF_F32, values, uf_tensor_count(tensor)));
}
