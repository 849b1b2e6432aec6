#include "common/data.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/common.h"
#include "common/source.h"

#define MOST_THREADS 16
#define MOST_SLOTS 8 /* steps that are made or waited for at a time, */
#define MOST_SLOT_BYTES                                                                            \
    (INT64_C(256) << 20) /* as far as their images fit into this; 2 at least                       \
                          */
#define SHARE 4          /* pictures that a thread takes at a time */
#define MOST_CLASSES 1000000

/* A step in the making, or finished. */
typedef struct slot {
    float *images;      /* [batch][channels][size][size] */
    int64_t *labels;    /* [batch]; NULL where there are none */
    int64_t left;       /* places that are not made yet */
    int64_t wrong;      /* first place whose picture cannot be read; batch where there is none */
    source_error error; /* of that place */
} slot;

/* Step s lies in slots[s % slot_count]. */
typedef struct ring {
    pthread_t threads[MOST_THREADS];
    int thread_count;
    slot slots[MOST_SLOTS];
    int slot_count;
    pthread_mutex_t lock; /* of what follows and of slot.left, .wrong and .error */
    pthread_cond_t room;  /* there is something to make, or an end */
    pthread_cond_t made;  /* a share is made */
    bool running, over;
    int64_t held;      /* the step that the caller has or waits for */
    int64_t next_step; /* the next share to make: from this place of this step on */
    int64_t next_place;
    int busy; /* threads that make a share */
} ring;

struct data_loader {
    data_options options; /* path and dataset are NULL after the opening */
    source source;
    int64_t *chosen; /* [count] numbers in the source; NULL: all */
    int64_t count;
    uint64_t order_key, crop_key, flip_key;
    resampler scratch; /* of data_read */
    ring ring;
    char *description;
};

/* ---- what sources need ---- */

void loaded_free(loaded *picture) {
    uf_picture_free(&picture->file);
    *picture = (loaded){0};
}

void source_describe(source *to, const char *format, ...) {
    char text[4608];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    to->description = strcpy(allocate((int64_t)strlen(text) + 1, 1), text);
}

void source_count_classes(source *to, const char *path) {
    int64_t highest = 0;
    for (int64_t i = 0; i < to->count; ++i) {
        const int64_t label = to->labels[i];
        if (label < 0 || label >= MOST_CLASSES) {
            fail("%s: the label of picture %" PRId64 " is %" PRId64 "; labels are 0 to %d", path, i,
                 label, MOST_CLASSES - 1);
        }
        highest = label > highest ? label : highest;
    }
    to->classes = (int)highest + 1;
}

/* ---- order ---- */

/* Where `index` goes in permutation `number` of 0 .. count - 1: a Feistel network over the next
 * power of 4, walked until it is in range. No list of numbers is needed, for any epoch. */
static int64_t permute(uint64_t key, int64_t number, int64_t count, int64_t index) {
    int half = 1;
    while (INT64_C(1) << 2 * half < count) ++half;
    const uint64_t mask = (UINT64_C(1) << half) - 1;
    const uint64_t round_key = random_bits(key, (uint64_t)number, 0);
    uint64_t place = (uint64_t)index;
    do {
        uint64_t left = place >> half, right = place & mask;
        for (uint64_t round = 0; round < 8; ++round) {
            const uint64_t mixed = left ^ (random_bits(round_key, round, right) & mask);
            left = right;
            right = mixed;
        }
        place = left << half | right;
    } while (place >= (uint64_t)count);
    return (int64_t)place;
}

int64_t data_index(const data_loader *d, int64_t step, int64_t place) {
    const int64_t steps = data_batches_per_epoch(d);
    return permute(d->order_key, step / steps, d->count, step % steps * d->options.batch + place);
}

static int compare_numbers(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The pictures that are held out are the first of a permutation that no seed changes. */
static void choose_pictures(data_loader *d) {
    const int64_t all = d->count = d->source.count;
    if (d->source.is_split) return;
    const int64_t held = (int64_t)(d->options.held_out_share * (double)all + 0.5);
    const int64_t first = d->options.held_out ? 0 : held;
    d->count = d->options.held_out ? held : all - held;
    if (d->count < 1) {
        fail("%s has %" PRId64 " pictures, of which a share of %g leaves none %s", d->options.path,
             all, d->options.held_out_share, d->options.held_out ? "to hold out" : "to train on");
    }
    if (d->count == all) return;
    d->chosen = allocate(d->count, sizeof *d->chosen);
    for (int64_t i = 0; i < d->count; ++i) d->chosen[i] = permute(0, 0, all, first + i);
    qsort(d->chosen, (size_t)d->count, sizeof *d->chosen, compare_numbers);
}

/* ---- one image ---- */

static int64_t image_floats(const data_loader *d) {
    return d->options.channels * d->options.size * d->options.size;
}

static bool make_image(const data_loader *d, int64_t index, resample_options options, resampler *r,
                       float *image, int64_t *label, source_error *error) {
    const int64_t number = d->chosen != NULL ? d->chosen[index] : index;
    loaded picture = {0};
    options.channels = (int)d->options.channels;
    options.size = d->options.size;
    bool done = d->source.load(d->source.self, number, &picture, error);
    if (done && !resample(r, &picture.samples, &options, image)) {
        snprintf(error->text, sizeof error->text,
                 "no memory to resize a picture of %" PRId64 "x%" PRId64, picture.samples.width,
                 picture.samples.height);
        done = false;
    }
    loaded_free(&picture);
    if (label != NULL) *label = d->source.labels[number];
    return done;
}

static bool make_place(const data_loader *d, int64_t step, int64_t place, slot *to, resampler *r,
                       source_error *error) {
    const uint64_t s = (uint64_t)step, p = (uint64_t)place;
    const resample_options options = {
        .random_crop = d->options.crop == DATA_CROP_RANDOM,
        .random = random_bits(d->crop_key, s, p),
        .mirrored = d->options.flip && (random_bits(d->flip_key, s, p) & 1) != 0,
    };
    return make_image(d, data_index(d, step, place), options, r,
                      to->images + place * image_floats(d),
                      to->labels != NULL ? to->labels + place : NULL, error);
}

/* ---- steps made ahead ---- */

static slot *slot_of(ring *r, int64_t step) {
    return &r->slots[step % r->slot_count];
}

/* With the lock: take the next share, if there is room for it. */
static bool take_share(data_loader *d, int64_t *step, int64_t *first, int64_t *end) {
    ring *r = &d->ring;
    if (!r->running || r->next_step >= r->held + r->slot_count) return false;
    const int64_t batch = d->options.batch;
    *step = r->next_step;
    *first = r->next_place;
    *end = *first + SHARE < batch ? *first + SHARE : batch;
    if (*first == 0) {
        slot *to = slot_of(r, *step);
        to->left = to->wrong = batch;
    }
    r->next_place = *end;
    if (*end == batch) {
        r->next_place = 0;
        ++r->next_step;
    }
    return true;
}

/* The first place whose picture cannot be read; the batch where there is none. */
static int64_t make_share(const data_loader *d, slot *to, int64_t step, int64_t first, int64_t end,
                          resampler *r, source_error *error) {
    for (int64_t place = first; place < end; ++place) {
        if (!make_place(d, step, place, to, r, error)) return place;
    }
    return d->options.batch;
}

static void *work(void *argument) {
    data_loader *d = argument;
    ring *r = &d->ring;
    resampler scratch = {0};
    source_error error;
    pthread_mutex_lock(&r->lock);
    while (!r->over) {
        int64_t step, first, end;
        if (!take_share(d, &step, &first, &end)) {
            pthread_cond_wait(&r->room, &r->lock);
            continue;
        }
        ++r->busy;
        slot *to = slot_of(r, step);
        pthread_mutex_unlock(&r->lock);
        const int64_t wrong = make_share(d, to, step, first, end, &scratch, &error);
        pthread_mutex_lock(&r->lock);
        --r->busy;
        if (wrong < to->wrong) {
            to->wrong = wrong;
            to->error = error;
        }
        to->left -= end - first;
        if (to->left == 0 || r->busy == 0) pthread_cond_broadcast(&r->made);
    }
    pthread_mutex_unlock(&r->lock);
    resampler_free(&scratch);
    return NULL;
}

/* Signals go to the thread that trains. */
static void start_threads(data_loader *d, int count) {
    ring *r = &d->ring;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int status = 0;
    while (status == 0 && r->thread_count < count) {
        status = pthread_create(&r->threads[r->thread_count], NULL, work, d);
        if (status == 0) ++r->thread_count;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r->thread_count == 0)
        fail("cannot start a thread that reads pictures: %s", strerror(status));
}

static void open_ring(data_loader *d) {
    ring *r = &d->ring;
    const data_options *o = &d->options;
    const int64_t bytes = o->batch * image_floats(d) * (int64_t)sizeof(float);
    const int64_t fit = MOST_SLOT_BYTES / bytes;
    r->slot_count = (int)(fit < 2 ? 2 : fit > MOST_SLOTS ? MOST_SLOTS : fit);
    for (int i = 0; i < r->slot_count; ++i) {
        r->slots[i].images = allocate(o->batch * image_floats(d), sizeof(float));
        if (d->source.labels != NULL) {
            r->slots[i].labels = allocate(o->batch, sizeof *r->slots[i].labels);
        }
    }
    if (pthread_mutex_init(&r->lock, NULL) != 0 || pthread_cond_init(&r->room, NULL) != 0 ||
        pthread_cond_init(&r->made, NULL) != 0) {
        fail("cannot make a lock for threads");
    }
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const long wanted = o->threads > 0 ? o->threads : cores;
    start_threads(d, wanted < 1 ? 1 : wanted > MOST_THREADS ? MOST_THREADS : (int)wanted);
}

static void close_ring(ring *r) {
    pthread_mutex_lock(&r->lock);
    r->over = true;
    pthread_cond_broadcast(&r->room);
    pthread_mutex_unlock(&r->lock);
    for (int i = 0; i < r->thread_count; ++i) pthread_join(r->threads[i], NULL);
    for (int i = 0; i < r->slot_count; ++i) {
        free(r->slots[i].images);
        free(r->slots[i].labels);
    }
    pthread_cond_destroy(&r->made);
    pthread_cond_destroy(&r->room);
    pthread_mutex_destroy(&r->lock);
}

const float *data_batch(data_loader *d, int64_t step, const int64_t **labels) {
    ring *r = &d->ring;
    pthread_mutex_lock(&r->lock);
    if (!r->running || (step != r->held && step != r->held + 1)) {
        /* A jump: nobody may write to a slot any more when it becomes another step's. */
        r->running = false;
        while (r->busy > 0) pthread_cond_wait(&r->made, &r->lock);
        r->next_step = step;
        r->next_place = 0;
        r->running = true;
    }
    r->held = step;
    pthread_cond_broadcast(&r->room);
    const slot *made = slot_of(r, step);
    while (r->next_step <= step || made->left > 0) pthread_cond_wait(&r->made, &r->lock);
    pthread_mutex_unlock(&r->lock);
    if (made->wrong < d->options.batch) fail("%s", made->error.text);
    if (labels != NULL) *labels = made->labels;
    return made->images;
}

/* ---- opening, reading, closing ---- */

static bool is_hdf5(const char *path) {
    static const char signature[] = "\x89HDF\r\n\x1a\n";
    char first[8];
    FILE *file = fopen(path, "rbe");
    if (file == NULL) fail("cannot open %s: %s", path, strerror(errno));
    /* Behind a block of the user's it is at 512, 1024, 2048, ... */
    bool found = false;
    for (long at = 0; !found; at = at == 0 ? 512 : 2 * at) {
        if (fseek(file, at, SEEK_SET) != 0 || fread(first, 1, sizeof first, file) != sizeof first) {
            break;
        }
        found = memcmp(first, signature, sizeof first) == 0;
    }
    fclose(file);
    return found;
}

static void open_source(data_loader *d) {
    const char *path = d->options.path;
    struct stat about;
    if (stat(path, &about) != 0) {
        fail(
            "cannot open %s: %s; data are Fashion-MNIST's folder (Debian's dataset-fashion-mnist), "
            "a folder of pictures or an HDF5 file",
            path, strerror(errno));
    }
    if (S_ISDIR(about.st_mode)) {
        if (!source_open_idx(&d->source, &d->options)) {
            source_open_folder(&d->source, &d->options);
        }
    } else if (S_ISREG(about.st_mode) && is_hdf5(path)) {
        source_open_hdf5(&d->source, &d->options);
    } else {
        fail("%s is neither a folder nor an HDF5 file", path);
    }
}

static void describe(data_loader *d) {
    const source *from = &d->source;
    char classes[48] = "";
    if (from->classes > 0) snprintf(classes, sizeof classes, ", %d classes", from->classes);
    d->description = allocate((int64_t)strlen(from->description) + 128, 1);
    sprintf(d->description, "%s%s", from->description, classes);
    if (d->count < from->count) {
        sprintf(d->description + strlen(d->description), ", %" PRId64 " of them %s", d->count,
                d->options.held_out ? "held out" : "to train on");
    }
}

data_loader *data_open(const data_options *options) {
    if (options->path == NULL || (options->channels != 1 && options->channels != 3) ||
        options->size < 1 || options->size > 16384 || options->batch < 0 ||
        options->batch > 1 << 20 ||
        !(options->held_out_share >= 0.0 && options->held_out_share <= 1.0)) {
        fail("data_open: no path, channels other than 1 or 3, a size that is not 1 to 16384, a "
             "batch that is not 0 to 1048576, or a share that is not 0 to 1");
    }
    data_loader *d = allocate(1, sizeof *d);
    d->options = *options;
    d->order_key = random_bits(options->seed, 0, 0);
    d->crop_key = random_bits(options->seed, 1, 0);
    d->flip_key = random_bits(options->seed, 2, 0);
    open_source(d);
    choose_pictures(d);
    if (d->count < options->batch) {
        fail("%s has %" PRId64 " pictures, fewer than one batch of %" PRId64, options->path,
             d->count, options->batch);
    }
    describe(d);
    if (options->batch > 0) open_ring(d);
    d->options.path = d->options.dataset = NULL; /* the caller's */
    return d;
}

void data_close(data_loader *d) {
    if (d == NULL) return;
    if (d->options.batch > 0) close_ring(&d->ring);
    d->source.close(d->source.self);
    free(d->source.labels);
    for (int i = 0; d->source.class_names != NULL && i < d->source.classes; ++i) {
        free(d->source.class_names[i]);
    }
    free(d->source.class_names);
    free(d->source.description);
    free(d->chosen);
    free(d->description);
    resampler_free(&d->scratch);
    free(d);
}

int64_t data_count(const data_loader *d) {
    return d->count;
}

int64_t data_batches_per_epoch(const data_loader *d) {
    return d->options.batch > 0 ? d->count / d->options.batch : 0;
}

int data_classes(const data_loader *d) {
    return d->source.classes;
}

const char *data_class_name(const data_loader *d, int label) {
    return d->source.class_names != NULL ? d->source.class_names[label] : NULL;
}

const char *data_description(const data_loader *d) {
    return d->description;
}

void data_read(data_loader *d, int64_t first, int64_t count, float *images, int64_t *labels) {
    source_error error;
    if (first < 0 || count < 0 || first > d->count - count) {
        fail("data_read: pictures %" PRId64 " to %" PRId64 " of %" PRId64 " were asked for", first,
             first + count - 1, d->count);
    }
    for (int64_t i = 0; i < count; ++i) {
        if (!make_image(d, first + i, (resample_options){0}, &d->scratch,
                        images + i * image_floats(d),
                        labels != NULL && d->source.labels != NULL ? labels + i : NULL, &error)) {
            fail("%s", error.text);
        }
    }
}
