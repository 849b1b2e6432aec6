/* time_h5.c FILE MEGABYTES - how fast a state dict of so many megabytes is read, in f32 tensors of
 * 16 MiB with a checksum each, beside read() of the file with one CRC-32C of its bytes. FILE is
 * made where it is not there. The best of five runs in ms each, and the peak of memory. */
#define _POSIX_C_SOURCE 200809L

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <unfurl/unfurl.h>

#include "core/crc32c.h"
#include "io/hdf5_file.h"

#define ELEMENTS ((int64_t)4 << 20)
#define RUNS 5

static void stop(const char *what) {
    fprintf(stderr, "time_h5: %s: %s\n", what, uf_last_error());
    exit(1);
}

static void demand(uf_status status, const char *what) {
    if (status != UF_OK) {
        stop(what);
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

static void make(const char *path, int64_t megabytes) {
    uf_hdf5_file file;
    float *values = malloc((size_t)ELEMENTS * sizeof *values);
    const uf_shape shape = UF_SHAPE(64, 64, 32, 32);
    if (values == NULL) {
        stop("no memory");
    }
    demand(uf_hdf5_create(path, &file), "create");
    uf_status status = UF_OK;
    for (int64_t i = 0; i < megabytes / 16 && status == UF_OK; ++i) {
        char name[32];
        for (int64_t j = 0; j < ELEMENTS; ++j) {
            values[j] = (float)(j * 7919 % 65537 + i);
        }
        snprintf(name, sizeof name, "layer.%03d.weight", (int)i);
        status = uf_hdf5_write_tensor(&file, name, UF_F32, &shape, values,
                                      (uf_hdf5_storage){.checksum = true});
    }
    demand(uf_hdf5_finish(&file, status), "write");
    free(values);
}

/* read() in pieces, and their checksum. */
static void read_plainly(const char *path) {
    enum { PIECE = 1 << 19 };
    static unsigned char bytes[PIECE];
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    uint32_t crc = 0;
    for (ssize_t got = 1; got > 0;) {
        got = read(descriptor, bytes, sizeof bytes);
        crc = got > 0 ? uf_crc32c_more(crc, bytes, got, 1) : crc;
    }
    close(descriptor);
    printf("%s", crc == 0 ? " " : "");
}

/* The same into memory that keeps all of it, as a load does. */
static void read_whole(const char *path) {
    enum { PIECE = 1 << 19 };
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    const off_t size = lseek(descriptor, 0, SEEK_END);
    unsigned char *bytes = malloc((size_t)size);
    uint32_t crc = 0;
    off_t at = 0;
    for (ssize_t got = 1; got > 0 && bytes != NULL; at += got) {
        got = pread(descriptor, bytes + at, PIECE, at);
        crc = got > 0 ? uf_crc32c_more(crc, bytes + at, got, 1) : crc;
    }
    close(descriptor);
    free(bytes);
    printf("%s", crc == 0 ? " " : "");
}

static void load(const char *path, bool untrusted) {
    uf_context *context;
    uf_store *store;
    uf_context_options how = uf_context_options_default();
    uf_weights_load_options options = uf_weights_load_options_default();
    how.device = UF_DEVICE_CPU;
    how.threads = 1;
    options.untrusted = untrusted;
    demand(uf_context_create(&how, &context), "context");
    demand(uf_store_create(context, "s", &store), "store");
    demand(uf_weights_load(store, path, &options), "load");
    uf_store_destroy(store);
    uf_context_destroy(context);
}

static void load_trusted(const char *path) {
    load(path, false);
}

static void load_untrusted(const char *path) {
    load(path, true);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(const char *path);
    } ways[] = {{"read() and CRC-32C", read_plainly},
                {"the same, and keep it", read_whole},
                {"load, trusted", load_trusted},
                {"load, untrusted", load_untrusted}};
    if (argc != 3) {
        return 2;
    }
    if (access(argv[1], F_OK) != 0) {
        make(argv[1], strtoll(argv[2], NULL, 10));
    }
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; ++i) {
        double best = 1e30;
        struct rusage usage;
        for (int run = 0; run < RUNS; ++run) {
            const double start = now();
            ways[i].run(argv[1]);
            const double taken = now() - start;
            best = taken < best ? taken : best;
        }
        getrusage(RUSAGE_SELF, &usage);
        printf("%-24s %8.1f ms, peak so far %ld MiB\n", ways[i].name, best, usage.ru_maxrss / 1024);
    }
    return 0;
}
