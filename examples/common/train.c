#include "common/train.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/common.h"
#include "common/csv.h"
#include "common/progress.h"
#include "common/train_options.h"

enum { MOST_MODELS = 8, MOST_LOSSES = 14, MOST_PARTS = 4 * MOST_MODELS + 4, RECORD_SIZE = 16384 };

/* The discriminator's loss below which the generator gets no gradient to speak of, and the steps
 * after which that is worth a warning. */
#define HOPELESS_LOSS 1e-3
#define HOPELESS_STEPS 500

struct train {
    train_options options;
    train_setup setup;
    train_model models[MOST_MODELS];
    char averages[MOST_MODELS][64]; /* the names of their averages in a checkpoint */
    char loss_names[MOST_LOSSES][64];
    double losses[MOST_LOSSES];
    int loss_count;
    uf_schedule schedule;
    int64_t step, first; /* steps made; before this process */
    double seconds;      /* spent before this process */
    double start;        /* when this process began to train, by clock_seconds; 0: not yet */
    bool running;        /* the caller has run the program since train_next */
    double decay;        /* of the averages, as last set; -1: not yet */
    int stopped;         /* the signal that ended the training; 0: none */
    int64_t hopeless;    /* the first of the steps in a row that the discriminator won; -1: none */
    bool warned;
    char record[RECORD_SIZE], checkpoint[TRAIN_PATH];
    csv *table;
    progress line;
    struct sigaction old_interrupt, old_terminate;
};

/* ---- signals ---- */

static volatile sig_atomic_t stop_signal;

static void on_signal(int number) {
    if (stop_signal != 0) {
        _exit(128 + number);
    }
    stop_signal = number;
}

/* A signal that the process was told to ignore, as nohup does, stays ignored. */
static void catch_signal(int number, struct sigaction *old) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    if (sigaction(number, NULL, old) == 0 && old->sa_handler != SIG_IGN) {
        sigaction(number, &action, NULL);
    }
}

/* ---- checkpoints ---- */

static int32_t parts_of(train *run, uf_checkpoint_part *parts) {
    int32_t count = 0;
    for (int i = 0; i < run->setup.model_count; ++i) {
        const train_model *model = &run->models[i];
        const char *name = uf_store_name(model->store);
        parts[count++] = uf_checkpoint_store(name, model->store);
        if (model->optimizer != NULL) {
            parts[count++] = uf_checkpoint_optimizer(name, model->optimizer);
        }
        if (model->ema != NULL) {
            parts[count++] = uf_checkpoint_store(run->averages[i], model->average);
            parts[count++] = uf_checkpoint_ema(name, model->ema);
        }
    }
    parts[count++] = uf_checkpoint_program("training", run->setup.program);
    parts[count++] = uf_checkpoint_i64("step", &run->step, 1);
    parts[count++] = uf_checkpoint_f64("seconds", &run->seconds, 1);
    parts[count++] = uf_checkpoint_text("options", run->record, RECORD_SIZE);
    return count;
}

/* A line for each thing that must be the same where this training is resumed. */
static void make_record(train *run) {
    option common[TRAIN_OPTION_COUNT];
    option *const tables[2] = {train_table(&run->options, common), run->options.own};
    const int length = snprintf(run->record, RECORD_SIZE, "program %s\n", example_name);
    options_record(tables, tables[1] == NULL ? 1 : 2, run->record + length,
                   RECORD_SIZE - (size_t)length);
    const char *data = run->setup.data, *path = run->options.data;
    if (data != NULL) { /* they may lie elsewhere now */
        const size_t used = strlen(run->record), begin = path != NULL ? strlen(path) : 0;
        data += path != NULL && strncmp(data, path, begin) == 0 ? begin : 0;
        snprintf(run->record + used, RECORD_SIZE - used, "data%s%s\n", *data == ':' ? "" : ": ",
                 data);
    }
}

static void compare_records(const char *path, const char *before, const char *now) {
    while (*before != '\0' || *now != '\0') {
        const int a = (int)strcspn(before, "\n"), b = (int)strcspn(now, "\n");
        if (a != b || strncmp(before, now, (size_t)a) != 0) {
            fail("%s is of a training with '%.*s', this one has '%.*s': give it the same options, "
                 "or begin anew without --resume",
                 path, a, before, b, now);
        }
        before += a + (before[a] != '\0');
        now += b + (now[b] != '\0');
    }
}

static void resume(train *run) {
    const char *path = run->options.resume;
    if (strcmp(path, "auto") == 0) {
        path = run->checkpoint;
        if (access(path, F_OK) != 0 && errno == ENOENT) {
            return;
        }
    }
    char before[RECORD_SIZE] = "";
    const uf_checkpoint_part record = uf_checkpoint_text("options", before, RECORD_SIZE);
    must(uf_checkpoint_load(path, &record, 1));
    compare_records(path, before, run->record);
    uf_checkpoint_part parts[MOST_PARTS];
    const int32_t count = parts_of(run, parts);
    must(uf_checkpoint_load(path, parts, count));
    if (run->step < 0 || !(run->seconds >= 0)) {
        fail("%s was made after step %" PRId64 " and %g seconds, which no training has", path,
             run->step, run->seconds);
    }
    run->first = run->step;
}

static double seconds_spent(const train *run) {
    return run->start > 0 ? clock_seconds() - run->start : 0.0;
}

static void save_checkpoint(train *run) {
    uf_checkpoint_part parts[MOST_PARTS];
    const int32_t count = parts_of(run, parts);
    const double before = run->seconds;
    csv_flush(run->table);
    run->seconds += seconds_spent(run);
    must(uf_checkpoint_save(run->checkpoint, parts, count, NULL));
    run->seconds = before;
}

/* ---- losses ---- */

static void split_names(train *run, const char *names) {
    while (*names != '\0') {
        const size_t length = strcspn(names, ",");
        if (run->loss_count == MOST_LOSSES) {
            fail("a training has %d losses at most", MOST_LOSSES);
        }
        snprintf(run->loss_names[run->loss_count++], sizeof run->loss_names[0], "%.*s", (int)length,
                 names);
        names += length + (names[length] == ',');
    }
}

static void format_losses(const train *run, char *text, size_t size) {
    size_t length = 0;
    text[0] = '\0';
    for (int i = 0; i < run->loss_count && length < size; ++i) {
        length += (size_t)snprintf(text + length, size - length, "%s%s %.3f", i > 0 ? "  " : "",
                                   run->loss_names[i], run->losses[i]);
    }
}

/* Runs the program once more to find the layer; the state is lost anyway. */
static _Noreturn void fail_nonfinite(train *run) {
    uf_nonfinite at;
    char losses[512], place[1024] = "", shape[96];
    format_losses(run, losses, sizeof losses);
    if (uf_program_find_nonfinite(run->setup.program, &at) == UF_OK && at.found) {
        const bool read = strcmp(at.step, "before") == 0; /* an input or a parameter */
        snprintf(place, sizeof place,
                 "; the first such number is %g, element %" PRId64 " of %s %s %s", at.number,
                 at.index, read ? at.layer : "the", read && at.name[0] != '\0' ? at.name : at.value,
                 uf_shape_format(&at.shape, shape, sizeof shape));
        if (!read) {
            const size_t used = strlen(place);
            snprintf(place + used, sizeof place - used, " of %s %s, %s", at.layer, at.name,
                     at.step);
        }
    }
    fail("a loss is no longer a finite number after step %" PRId64 " (%s)%s", run->step, losses,
         place);
}

/* The losses of the newest run that has finished; after a synchronisation that of this step. */
static void read_losses(train *run) {
    int64_t runs;
    bool finite;
    must(uf_program_losses(run->setup.program, run->losses, run->loss_count, &runs, &finite));
    if (runs > 0 && !finite) {
        fail_nonfinite(run);
    }
}

/* A checkpoint with numbers that are not finite must not replace one that can be gone on from. */
static void check_models(train *run) {
    for (int i = 0; i < run->setup.model_count; ++i) {
        uf_store *store = run->models[i].store;
        for (int64_t t = 0; t < uf_store_size(store); ++t) {
            uf_store_entry entry;
            uf_tensor *tensor;
            must(uf_store_entry_at(store, t, &entry));
            must(uf_store_tensor(store, entry.name, &tensor));
            const int64_t count = uf_tensor_count(tensor);
            double *values = allocate(count, sizeof *values);
            must(uf_tensor_download_as(tensor, UF_F64, values, count));
            double worst = 0;
            for (int64_t k = 0; k < count && isfinite(worst); ++k) {
                worst = values[k];
            }
            free(values);
            if (!isfinite(worst)) {
                fail("%s of %s has %g after step %" PRId64, entry.name, uf_store_name(store), worst,
                     run->step);
            }
        }
    }
}

static void watch_discriminator(train *run) {
    double loss = 0;
    for (int i = 0; i < run->setup.discriminator_losses; ++i) {
        loss += run->losses[i];
    }
    if (run->setup.discriminator_losses == 0 || loss >= HOPELESS_LOSS) {
        run->hopeless = -1;
    } else if (run->hopeless < 0) {
        run->hopeless = run->step;
    } else if (run->step - run->hopeless >= HOPELESS_STEPS && !run->warned) {
        run->warned = true;
        char text[256];
        snprintf(
            text, sizeof text,
            "%s: warning: the discriminator always wins: its loss was below %g for %d steps up "
            "to step %" PRId64 ", and the generator learns nothing from that",
            example_name, HOPELESS_LOSS, HOPELESS_STEPS, run->step);
        progress_say(&run->line, text);
    }
}

/* ---- the run ---- */

static void name_averages(train *run) {
    for (int i = 0; i < run->setup.model_count; ++i) {
        snprintf(run->averages[i], sizeof run->averages[i], "%s_average",
                 uf_store_name(run->models[i].store));
    }
}

train *train_begin(const train_options *options, const train_setup *setup) {
    train *run = allocate(1, sizeof *run);
    run->options = *options;
    run->setup = *setup;
    if (setup->model_count > MOST_MODELS) {
        fail("a training has %d models at most", MOST_MODELS);
    }
    memcpy(run->models, setup->models, (size_t)setup->model_count * sizeof *setup->models);
    name_averages(run);
    split_names(run, setup->losses);
    run->schedule = train_schedule(&run->options);
    run->hopeless = -1;
    run->decay = -1;
    train_path(options, "-checkpoint.h5", run->checkpoint);
    must(uf_file_check_output(run->checkpoint));
    make_record(run);
    if (options->resume != NULL) {
        resume(run);
    }
    char path[TRAIN_PATH], columns[MOST_LOSSES * 64 + 32];
    train_path(options, "-losses.csv", path);
    snprintf(columns, sizeof columns, "learning_rate,%s", setup->losses);
    run->table = csv_open(path, columns, run->step);
    run->line = progress_begin(options->quiet);
    stop_signal = 0;
    catch_signal(SIGINT, &run->old_interrupt);
    catch_signal(SIGTERM, &run->old_terminate);
    if (setup->data != NULL) {
        train_say(run, "%s", setup->data);
    }
    train_say(run, "%s", uf_context_description(setup->context));
    if (run->step > 0) {
        train_say(run, "resumed after step %" PRId64, run->step);
    }
    return run;
}

static double share_done(const train *run) {
    const double minutes = (run->seconds + seconds_spent(run)) / 60.0;
    const double by_time = run->options.minutes > 0 ? minutes / run->options.minutes : 0.0;
    return fmin(fmax(by_time, (double)run->step / (double)run->options.steps), 1.0);
}

static void show(train *run, bool last) {
    char step[64], losses[512], speed[64], left[64];
    const double spent = seconds_spent(run), share = share_done(run);
    const double total = run->seconds + spent;
    const double remaining = share > 0 ? total / share - total : 0.0;
    const int seconds = remaining < 360000 ? (int)(remaining + 0.5) : 359999;
    snprintf(step, sizeof step, "step %" PRId64, run->step);
    format_losses(run, losses, sizeof losses);
    snprintf(speed, sizeof speed, "%.0f images/s",
             spent > 0 ? (double)((run->step - run->first) * run->options.batch) / spent : 0.0);
    snprintf(left, sizeof left, "%d:%02d left", seconds / 60, seconds % 60);
    const char *const texts[] = {step, losses, left, speed};
    progress_show(&run->line, run->step, share, texts, 4, last);
}

static void finish_step(train *run) {
    ++run->step;
    run->running = false;
    const bool logged = run->step % run->options.log_every == 0;
    if (logged) {
        must(uf_context_synchronize(run->setup.context));
    }
    read_losses(run);
    if (logged) {
        double numbers[MOST_LOSSES + 1];
        must(uf_schedule_rate(&run->schedule, run->step - 1, &numbers[0]));
        memcpy(numbers + 1, run->losses, (size_t)run->loss_count * sizeof numbers[0]);
        csv_row(run->table, run->step, numbers, run->loss_count + 1);
    }
    watch_discriminator(run);
    show(run, false);
}

/* Everything that changes with the step is a function of it, and so no part of a checkpoint. */
static void prepare_step(train *run) {
    double rate;
    must(uf_schedule_rate(&run->schedule, run->step, &rate));
    const double young = (1.0 + (double)run->step) / (10.0 + (double)run->step);
    const double decay = fmin(run->options.ema, young);
    for (int i = 0; i < run->setup.model_count; ++i) {
        const train_model *model = &run->models[i];
        if (model->optimizer != NULL && uf_optimizer_learning_rate(model->optimizer) != rate) {
            must(uf_optimizer_set_learning_rate(model->optimizer, rate));
        }
        if (model->ema != NULL && decay != run->decay) {
            must(uf_ema_set_decay(model->ema, decay));
        }
    }
    run->decay = decay;
    run->running = true;
}

static bool due(const train *run, int64_t every) {
    return every > 0 && run->step % every == 0;
}

bool train_next(train *run, int64_t *step) {
    const bool began = run->start > 0;
    if (!began) {
        run->start = clock_seconds();
    }
    if (run->running) {
        finish_step(run);
    }
    *step = run->step;
    const train_options *o = &run->options;
    const double minutes = (run->seconds + seconds_spent(run)) / 60.0;
    const bool over = run->step >= o->steps || (o->minutes > 0 && minutes >= o->minutes);
    const bool stopped = stop_signal != 0;
    if (run->setup.sample != NULL && (due(run, o->sample_every) || (over && !stopped))) {
        char suffix[32], path[TRAIN_PATH];
        snprintf(suffix, sizeof suffix, "-%06" PRId64 ".png", run->step);
        train_path(o, suffix, path);
        run->setup.sample(run->setup.user, path);
    }
    if ((due(run, o->checkpoint_every) && began) || over || stopped) {
        must(uf_context_synchronize(run->setup.context));
        read_losses(run);
        check_models(run);
        save_checkpoint(run);
    }
    if (!over && !stopped) {
        prepare_step(run);
        return true;
    }
    show(run, true);
    if (!over) {
        run->stopped = stop_signal;
        train_say(run, "stopped by signal %d: --resume %s goes on behind step %" PRId64,
                  run->stopped, run->checkpoint, run->step);
    }
    return false;
}

const double *train_losses(const train *run) {
    return run->losses;
}

void train_say(train *run, const char *format, ...) {
    char text[4096 + 256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (!run->options.quiet) {
        progress_say(&run->line, text);
    }
}

void train_save(train *run, uf_store *store, const char *suffix) {
    char path[TRAIN_PATH];
    train_path(&run->options, suffix, path);
    must(uf_store_save_hdf5(store, path));
}

int train_end(train *run) {
    int status = 0;
    if (run != NULL) {
        status = run->stopped != 0 ? 128 + run->stopped : 0;
        csv_close(run->table);
        sigaction(SIGINT, &run->old_interrupt, NULL);
        sigaction(SIGTERM, &run->old_terminate, NULL);
        free(run);
    }
    return status;
}
