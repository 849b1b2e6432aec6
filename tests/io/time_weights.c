/* time_weights.c FILE MEGABYTES [peak] - how fast a state dict of so many megabytes is read, in f32
 * tensors of 16 MiB, beside read() of the file: HDF5 with a checksum each, or safetensors, as
 * FILE's name ends. FILE is made where it is not there. Each round runs every way once, so that a
 * crowded machine slows all alike. `peak`: one round without times, which fails where a load takes
 * 64 MB more than its tensors. */
#define _DEFAULT_SOURCE /* wait4 */

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <unfurl/unfurl.h>

#include "core/crc32c.h"
#include "io/hdf5_file.h"
#include "io/tensor_writer.h"

#define ELEMENTS ((int64_t)4 << 20)
enum { ROUNDS = 7 };

/* A way to read; `baseline`: the row of the plain way that it is held against, or itself. */
struct way {
    const char *name;
    void (*run)(void);
    size_t baseline;
    bool warms, loads; /* runs once before it is timed; its peak is held to the limit */
};

/* Time of the clock and of the processor in ms, and the peak in KiB. */
struct figures {
    double clock, processor, peak;
};

static const char *path;
static int64_t megabytes;

static void stop(const char *what) {
    fprintf(stderr, "time_weights: %s: %s\n", what, uf_last_error());
    exit(1);
}

static void demand(uf_status status, const char *what) {
    if (status != UF_OK) {
        stop(what);
    }
}

static double now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

/* An empty store, or one that declares the tensors; its context is never freed. */
static uf_store *new_store(bool is_declared) {
    uf_context *context;
    uf_store *store;
    uf_context_options how = uf_context_options_default();
    how.device = UF_DEVICE_CPU;
    how.threads = 1;
    demand(uf_context_create(&how, &context), "context");
    demand(uf_store_create(context, "s", &store), "store");
    for (int64_t i = 0; i < megabytes / 16 && is_declared; ++i) {
        char name[32];
        snprintf(name, sizeof name, "layer.%03d.weight", (int)i);
        demand(uf_store_declare(store, name, UF_SHAPE(64, 64, 32, 32), UF_ROLE_PARAMETER),
               "declare");
    }
    return store;
}

/* HDF5 gets checksums, which uf_weights_save writes none of. */
static void make(void) {
    const bool is_hdf5 = uf_weights_format_for(path, UF_WEIGHTS_ANY) == UF_WEIGHTS_HDF5;
    const uf_shape shape = UF_SHAPE(64, 64, 32, 32);
    uf_store *store = new_store(!is_hdf5);
    uf_hdf5_file file;
    float *values = malloc((size_t)ELEMENTS * sizeof *values);
    if (values == NULL) {
        stop("no memory");
    }
    if (is_hdf5) {
        demand(uf_hdf5_create(path, &file), "create");
    }
    for (int64_t i = 0; i < megabytes / 16; ++i) {
        char name[32];
        uf_tensor *tensor;
        for (int64_t j = 0; j < ELEMENTS; ++j) {
            values[j] = (float)(j * 7919 % 65537 + i);
        }
        snprintf(name, sizeof name, "layer.%03d.weight", (int)i);
        if (is_hdf5) {
            demand(uf_hdf5_write_tensor(&file, name, UF_F32, &shape, values,
                                        (uf_hdf5_storage){.checksum = true}),
                   name);
            continue;
        }
        demand(uf_store_tensor(store, name, &tensor), name);
        demand(uf_tensor_upload(tensor, values), name);
    }
    demand(is_hdf5 ? uf_hdf5_finish(&file, UF_OK) : uf_weights_save(store, path, NULL), "save");
    uf_store_destroy(store);
    free(values);
}

/* ---- ways to read ---- */

/* read() in one call, or in pieces that are still in a cache when they are checked; `keeps`: into
 * `bytes`, one behind the other. */
static void read_pieces(unsigned char *bytes, bool keeps, bool checks) {
    const size_t piece = checks ? (size_t)1 << 19 : (size_t)1 << 30;
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    uint32_t crc = 0;
    off_t at = 0;
    for (ssize_t got = 1; got > 0 && bytes != NULL; at += got) {
        unsigned char *to = keeps ? bytes + at : bytes;
        got = pread(descriptor, to, piece, at);
        crc = got > 0 && checks ? uf_crc32c_more(crc, to, got, 1) : crc;
    }
    close(descriptor);
    printf("%s", crc == 1 ? " " : "");
}

static void read_and_check(void) {
    static unsigned char bytes[1 << 19];
    read_pieces(bytes, false, true);
}

static void keep(bool checks, bool again) {
    static unsigned char *bytes;
    if (bytes == NULL) {
        bytes = malloc(((size_t)megabytes + 17) << 20);
    }
    read_pieces(bytes, true, checks);
    if (!again) {
        free(bytes);
        bytes = NULL;
    }
}

static void keep_new(void) {
    keep(false, false);
}

static void keep_checked(void) {
    keep(true, false);
}

static void keep_in_use(void) {
    keep(false, true);
}

static void keep_in_use_checked(void) {
    keep(true, true);
}

static void load(uf_store *store, bool untrusted) {
    uf_weights_load_options options = uf_weights_load_options_default();
    options.untrusted = untrusted;
    demand(uf_weights_load(store, path, &options), "load");
}

static void load_new(bool is_declared, bool untrusted) {
    uf_store *store = new_store(is_declared);
    load(store, untrusted);
    uf_store_destroy(store);
}

static void load_again(bool untrusted) {
    static uf_store *store;
    store = store != NULL ? store : new_store(true);
    load(store, untrusted);
}

static void empty_trusted(void) {
    load_new(false, false);
}

static void empty_untrusted(void) {
    load_new(false, true);
}

static void declared_trusted(void) {
    load_new(true, false);
}

static void declared_untrusted(void) {
    load_new(true, true);
}

static void again_trusted(void) {
    load_again(false);
}

static void again_untrusted(void) {
    load_again(true);
}

/* ---- the ways in turns ---- */

static const struct way ways[] = {
    {"read() and CRC-32C, nothing kept", read_and_check, 0, false, false},
    {"read() into new memory", keep_new, 1, false, false},
    {"read() and CRC-32C, new memory", keep_checked, 2, false, false},
    {"read() into memory in use", keep_in_use, 3, true, false},
    {"read() and CRC-32C, in use", keep_in_use_checked, 4, true, false},
    {"load, empty store, trusted", empty_trusted, 1, false, true},
    {"load, empty store, untrusted", empty_untrusted, 1, false, true},
    {"load, declared store, trusted", declared_trusted, 1, false, true},
    {"load, declared store, untrusted", declared_untrusted, 1, false, true},
    {"load again, trusted", again_trusted, 3, true, true},
    {"load again, untrusted", again_untrusted, 3, true, true},
};
enum { WAYS = sizeof ways / sizeof ways[0] };

/* Runs a way in a process of its own, which gives it a peak of its own. */
static struct figures measure(const struct way *way) {
    struct figures figures = {0.0, 0.0, 0.0};
    struct rusage usage;
    int status = 0, ends[2];
    if (pipe(ends) != 0) {
        stop("pipe");
    }
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        if (way->warms) {
            way->run();
        }
        const double start = now(CLOCK_MONOTONIC), busy = now(CLOCK_PROCESS_CPUTIME_ID);
        way->run();
        figures.clock = now(CLOCK_MONOTONIC) - start;
        figures.processor = now(CLOCK_PROCESS_CPUTIME_ID) - busy;
        _exit(write(ends[1], &figures, sizeof figures) != (ssize_t)sizeof figures);
    }
    close(ends[1]);
    if (child < 0 || read(ends[0], &figures, sizeof figures) != (ssize_t)sizeof figures ||
        wait4(child, &status, 0, &usage) != child || status != 0) {
        stop(way->name);
    }
    close(ends[0]);
    figures.peak = (double)usage.ru_maxrss;
    return figures;
}

static int by_size(const void *a, const void *b) {
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* The checksum is part of the plain way where the file has one. */
static size_t baseline_of(size_t way, bool is_hdf5) {
    return ways[way].baseline + (is_hdf5 && ways[way].loads ? 1 : 0);
}

static void time_ways(bool is_hdf5) {
    static double clock_ms[WAYS][ROUNDS], processor_ms[WAYS][ROUNDS], peak[WAYS];
    for (int round = 0; round < ROUNDS; ++round) {
        for (size_t i = 0; i < WAYS; ++i) {
            const struct figures figures = measure(&ways[i]);
            clock_ms[i][round] = figures.clock;
            processor_ms[i][round] = figures.processor;
            peak[i] = figures.peak > peak[i] ? figures.peak : peak[i];
        }
    }
    printf("%-34s %21s %21s %18s %9s\n", "ms: least, median", "clock", "processor", "of plain, %",
           "peak, MiB");
    for (size_t i = 0; i < WAYS; ++i) {
        qsort(clock_ms[i], ROUNDS, sizeof(double), by_size);
        qsort(processor_ms[i], ROUNDS, sizeof(double), by_size);
    }
    for (size_t i = 0; i < WAYS; ++i) {
        const size_t plain = baseline_of(i, is_hdf5);
        printf("%-34s %10.1f %10.1f %10.1f %10.1f %9.0f %8.0f %9.0f\n", ways[i].name,
               clock_ms[i][0], clock_ms[i][ROUNDS / 2], processor_ms[i][0],
               processor_ms[i][ROUNDS / 2], 100.0 * processor_ms[plain][0] / processor_ms[i][0],
               100.0 * processor_ms[plain][ROUNDS / 2] / processor_ms[i][ROUNDS / 2],
               peak[i] / 1024.0);
    }
}

static int check_peaks(void) {
    const double limit = (double)megabytes * 1024.0 + 64e6 / 1024.0;
    int failures = 0;
    for (size_t i = 0; i < WAYS; ++i) {
        const struct figures figures = measure(&ways[i]);
        if (ways[i].loads && !(figures.peak <= limit)) {
            printf("%s: %.0f KiB at its peak, more than %.0f\n", ways[i].name, figures.peak, limit);
            failures++;
        }
    }
    return failures > 0;
}

int main(int argc, char **argv) {
    if (argc != 3 && (argc != 4 || strcmp(argv[3], "peak") != 0)) {
        return 2;
    }
    path = argv[1];
    megabytes = strtoll(argv[2], NULL, 10);
    const bool makes = access(path, F_OK) != 0;
    if (makes) {
        make();
    }
    if (argc == 4) {
        const int status = check_peaks();
        return makes && remove(path) != 0 ? 1 : status;
    }
    time_ways(uf_weights_format_for(path, UF_WEIGHTS_ANY) == UF_WEIGHTS_HDF5);
    return 0;
}
