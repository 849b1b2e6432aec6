/* data_bench.c - pictures a second from a folder, a file or a data set, by number of threads.
 *
 *   data_bench PATH [SIZE [CHANNELS [SECONDS [MIB]]]]     batches of 64, images of SIZE x SIZE; MIB
 * of decoded pictures are kept data_bench make FOLDER COUNT SIZE                     PNG files of
 * SIZE x SIZE to try it on */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/common.h"
#include "common/data.h"

const char *const example_name = "data_bench";

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The sum over all threads; on a machine that others use too, it says more than the clock. */
static double processor_seconds(void) {
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static int64_t number(const char *text, int64_t low, int64_t high) {
    char *end;
    const long long value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || value < low || value > high) {
        fail_usage("'%s' is no whole number from %" PRId64 " to %" PRId64, text, low, high);
    }
    return value;
}

/* Waves of colour and a little noise: neither as easy to pack as a drawing nor as hard as noise. */
static void make(const char *folder, int64_t count, int64_t size) {
    uf_picture picture;
    must(uf_picture_create(size, size, 3, 8, &picture));
    if (mkdir(folder, 0777) != 0) fail("cannot make the folder %s: is it there already?", folder);
    for (int64_t i = 0; i < count; ++i) {
        uint8_t *sample = picture.samples;
        for (int64_t k = 0; k < size * size * 3; ++k) {
            const double x = (double)(k / 3 % size) / (double)size,
                         y = (double)(k / 3 / size) / (double)size;
            const double wave = sin(9.0 * x + (double)i) * cos(7.0 * y + (double)(k % 3));
            const uint64_t noise = random_bits((uint64_t)i, (uint64_t)k, 0) >> 60;
            sample[k] = (uint8_t)(120.0 + 100.0 * wave + (double)noise);
        }
        char path[4096];
        snprintf(path, sizeof path, "%s/%06" PRId64 ".png", folder, i);
        must(uf_png_write(path, &picture));
    }
    uf_picture_free(&picture);
}

/* Print a line of the table. The first half second does not count, with a cache the first epoch. */
static void measure(data_options wish, double length) {
    data_loader *d = data_open(&wish);
    const int64_t warm = wish.cache_bytes > 0 ? data_batches_per_epoch(d) + 1 : 0;
    int64_t step = 0, first = 0;
    const double begin = seconds();
    double start = begin, now = begin, used = 0.0;
    while (first == 0 || now - start < length) {
        (void)data_batch(d, step++, NULL);
        now = seconds();
        if (first == 0 && now - begin > 0.5 && step >= warm) {
            first = step;
            start = now;
            used = processor_seconds();
        }
    }
    used = processor_seconds() - used;
    data_close(d);
    const double pictures = (double)((step - first) * wish.batch);
    printf("%8d %12.0f %22.1f\n", wish.threads, pictures / (now - start), 1e6 * used / pictures);
    fflush(stdout);
}

int main(int argc, char **argv) {
    if (argc == 5 && strcmp(argv[1], "make") == 0) {
        make(argv[2], number(argv[3], 1, 1000000), number(argv[4], 1, 4096));
        return 0;
    }
    if (argc < 2 || argc > 6) {
        fail_usage("it takes PATH [SIZE [CHANNELS [SECONDS [MIB]]]], or make FOLDER COUNT SIZE");
    }
    data_options wish = {.path = argv[1], .batch = 64};
    wish.size = argc > 2 ? number(argv[2], 1, 16384) : 64;
    wish.channels = argc > 3 ? number(argv[3], 1, 3) : 3;
    const int64_t length = argc > 4 ? number(argv[4], 1, 3600) : 3;
    wish.cache_bytes = argc > 5 ? number(argv[5], 0, 1 << 20) << 20 : 0;
    data_loader *d = data_open(&wish);
    printf("%s\n%8s %12s %22s\n", data_description(d), "threads", "pictures/s",
           "CPU time a picture, us");
    data_close(d);
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    for (int threads = 1; threads <= (cores < 16 ? (int)cores : 16); threads *= 2) {
        wish.threads = threads;
        measure(wish, (double)length);
    }
    return 0;
}
