/* train.h - what a program that trains needs around its graph: options, checkpoints and --resume,
 * signals, the clock, the progress line, sample pictures, PREFIX-losses.csv, learning rates and
 * averages of weights.
 *
 *   train_options o = train_options_default();       and this program's own defaults
 *   train_parse("train ...", own, &o, argc, argv);
 *   uf_context *context = train_context(&o);
 *   ...                                              stores, graph, optimizers
 *   uf_program *program = train_compile(&o, graph, passes, pass_count);
 *   train *run = train_begin(&o, &setup);            resumes, where that was asked for
 *   for (int64_t step; train_next(run, &step);) {
 *       ...                                          the inputs, functions of (seed, step)
 *       must(uf_program_run(program));
 *   }
 *   train_save(run, store, ".h5");
 *   return train_end(run);
 *
 * Files: PREFIX-losses.csv, PREFIX-checkpoint.h5, PREFIX-000000.png and so on. A run that was
 * interrupted, by SIGINT, SIGTERM or kill -9, and resumed leaves the same bytes in the table, the
 * pictures and the weights as one that was not, if its inputs are functions of the step
 * (random.h, data_batch). Errors end the program with a sentence (common.h). */
#ifndef EXAMPLES_COMMON_TRAIN_H
#define EXAMPLES_COMMON_TRAIN_H

#include <unfurl/unfurl.h>

#include "common/options.h"
#include "common/random.h"

/* The options that every training has, as --help explains them. A program sets its own defaults
 * between train_options_default and train_parse. */
typedef struct train_options {
    const char *data;   /* NULL: the program takes no data, and has no option --data */
    const char *out;    /* PREFIX */
    const char *resume; /* NULL: none; "auto": PREFIX-checkpoint.h5 if it is there; a file */
    int64_t steps;      /* in all, those before a resumption counted; without --steps but with
                           --minutes there is no limit */
    double minutes;     /* in all; 0: no limit */
    int64_t batch, seed, threads; /* threads 0: all cores */
    int device, math, dtype;      /* uf_device, uf_math, uf_dtype */
    double lr;
    int schedule;      /* uf_schedule_kind */
    double lr_factor;  /* STEP: per period; EXPONENTIAL: over a period, evenly */
    int64_t lr_period; /* 0: --steps, a third of it for STEP */
    int64_t warmup;    /* steps */
    double ema;        /* decay; 0: no average */
    int64_t sample_every, checkpoint_every, log_every; /* steps; 0: at the end only */
    bool quiet;
    option *own; /* the program's table, set by train_parse */
} train_options;

train_options train_options_default(void);

/* Parse the common options and `own` (ended by {OPTION_END}; may be NULL; outlives the training).
 */
void train_parse(const char *purpose, option *own, train_options *options, int argc,
                 char *const *argv);

/* ---- short for what the options decide; the caller destroys each ---- */

uf_context *train_context(const train_options *options);                 /* device, threads, seed */
uf_store *train_store(const train_options *options, uf_context *context, /* f64 for --dtype f64 */
                      const char *name);

/* A store that is trained, and all that a checkpoint keeps of it. */
typedef struct train_model {
    uf_store *store;
    uf_optimizer *optimizer; /* its learning rate follows --lr and --schedule; NULL: none */
    uf_store *average;       /* the moving average of the store; NULL without --ema */
    uf_ema *ema;             /* NULL without --ema; belongs into the pass that trains the store */
} train_model;

/* With --ema: make the average, a copy of the store as it is now, so after its initialisation. The
 * decay of step t is min(--ema, (1 + t)/(10 + t)); running statistics are averaged too. */
void train_average(const train_options *options, uf_context *context, train_model *model);

/* A pass that trains one model, which outlives its use and has its average by now: gradients of the
 * losses' sum, optimizer, average. The caller may change the other members. */
uf_pass train_pass(const uf_value *losses, int loss_count, const train_model *model);

/* A training program: --dtype, --math, --seed. Inputs and outputs have the dtype's type. */
uf_program *train_compile(const train_options *options, uf_graph *graph, const uf_pass *passes,
                          int pass_count);

/* A program that samples (EVAL), with the model's average in its store's place if there is one;
 * `model` may be NULL. */
uf_program *train_compile_sampler(const train_options *options, uf_graph *graph,
                                  const train_model *model);

/* A program's whole input or output by name, f32 on the host, for any --dtype. */
void train_upload(uf_program *program, const char *input, const float *values);
void train_upload_normals(uf_program *program, const char *input, random_stream stream);
void train_download(uf_program *program, const char *output, float *values);

/* ---- the run ---- */

typedef struct train_setup {
    uf_context *context;
    uf_program *program;       /* its losses are recorded, its random step is kept */
    const char *losses;        /* their names in the order of the passes: "d_real,d_fake,g" */
    int discriminator_losses;  /* the first so many are a discriminator's: a warning says once when
                                  their sum was below 1e-3 for 500 steps; 0: none */
    const train_model *models; /* with different names of stores; copied */
    int model_count;
    const char *data; /* as data_description tells it, "PATH: ..."; must be the same on resumption,
                         but for the path; may be NULL */
    /* Writes a picture to `path`: before the first step, every --sample-every steps and at the end,
     * not where a signal ended the run. NULL: none. */
    void (*sample)(void *user, const char *path);
    void *user;
} train_setup;

typedef struct train train;

/* Check that PREFIX can be written, load the checkpoint of --resume, open the table, catch SIGINT
 * and SIGTERM. The first signal ends the training behind its step with a checkpoint, the second one
 * ends the process at once. A checkpoint of a training with other
 * fixed options is an error that names the first option that differs. */
train *train_begin(const train_options *options, const train_setup *setup);

/* Finish the step before: losses, table, progress, sample, checkpoint. Then either set the learning
 * rates for step *step, counted from 0, and return true; or return false at the end, with *step the
 * number of steps made. A loss that is not finite is an error that names its layer. */
bool train_next(train *run, int64_t *step);

/* The losses of the newest step that has finished, in the setup's order. */
const double *train_losses(const train *run);

/* A line on stderr above the progress line, unless --quiet. */
void train_say(train *run, const char *format, ...) UF_PRINTF(2, 3);

/* Write a store to PREFIX + `suffix`, whole or not at all: "-decoder.h5". */
void train_save(train *run, uf_store *store, const char *suffix);

/* Free the run and give the signals back; NULL is legal. Models, programs and context stay the
 * caller's. Returns the exit status of the program: 0, or 128 + signal where one ended the run. */
int train_end(train *run);

#endif
