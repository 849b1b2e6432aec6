/* time_weights.c FILE MEGABYTES - how fast a state dict of so many megabytes is read, in f32
 * tensors of 16 MiB, beside read() of the file: HDF5 with a checksum each, or safetensors, as
 * FILE's name ends. FILE is made where it is not there. The best of seven runs each in ms, of the
 * clock and of the processor, and the peak of memory. */
#define _DEFAULT_SOURCE /* wait4 */

#include <fcntl.h>
#include <inttypes.h>
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
#define RUNS 7

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

/* read() in pieces; `keeps`: into `bytes`, one behind the other. */
static void read_pieces(unsigned char *bytes, bool keeps, bool checks) {
    enum { PIECE = 1 << 19 };
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    uint32_t crc = 0;
    off_t at = 0;
    for (ssize_t got = 1; got > 0 && bytes != NULL; at += got) {
        unsigned char *to = keeps ? bytes + at : bytes;
        got = pread(descriptor, to, PIECE, at);
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

static void time_way(void (*way)(void)) {
    double best = 1e30, best_processor = 1e30;
    for (int run = 0; run < RUNS; ++run) {
        const double start = now(CLOCK_MONOTONIC), busy = now(CLOCK_PROCESS_CPUTIME_ID);
        way();
        const double taken = now(CLOCK_MONOTONIC) - start;
        const double processor = now(CLOCK_PROCESS_CPUTIME_ID) - busy;
        best = taken < best ? taken : best;
        best_processor = processor < best_processor ? processor : best_processor;
    }
    printf("%8.1f ms, %8.1f ms of the processor", best, best_processor);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } ways[] = {{"read() and CRC-32C", read_and_check},
                {"the same into new memory", keep_checked},
                {"read() into new memory", keep_new},
                {"read() into memory in use", keep_in_use},
                {"read() and CRC-32C, in use", keep_in_use_checked},
                {"load, empty store, trusted", empty_trusted},
                {"load, empty store, untrusted", empty_untrusted},
                {"load, declared store, trusted", declared_trusted},
                {"load, declared store, untrusted", declared_untrusted},
                {"load again, trusted", again_trusted},
                {"load again, untrusted", again_untrusted}};
    if (argc != 3) {
        return 2;
    }
    path = argv[1];
    megabytes = strtoll(argv[2], NULL, 10);
    if (access(path, F_OK) != 0) {
        make();
    }
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; ++i) {
        struct rusage usage;
        int status = 0;
        fflush(stdout);
        const pid_t child = fork(); /* so that each has a peak of its own */
        if (child == 0) {
            printf("%-32s", ways[i].name);
            time_way(ways[i].run);
            fflush(stdout);
            _exit(0);
        }
        if (child < 0 || wait4(child, &status, 0, &usage) != child || status != 0) {
            stop(ways[i].name);
        }
        printf(", peak %ld MiB\n", usage.ru_maxrss / 1024);
    }
    return 0;
}
