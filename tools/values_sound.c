/* values_sound.c - an output as a .wav file: 16 bits, little-endian, a channel for each.
 * http://soundfile.sapp.org/doc/WaveFormat/ */
#include "values.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "files.h"
#include "signals.h"

enum { HEAD_SIZE = 44, SAMPLE_SIZE = 2, MOST_CHANNELS = 64 };

static void put_number(unsigned char *to, uint32_t number, int bytes) {
    for (int i = 0; i < bytes; i++) {
        to[i] = (unsigned char)(number >> 8 * i);
    }
}

static void fill_head(unsigned char *head, uint32_t channels, uint32_t rate, uint32_t bytes) {
    memcpy(head, "RIFF....WAVEfmt ", 16);
    put_number(head + 4, HEAD_SIZE - 8 + bytes, 4);
    put_number(head + 16, 16, 4); /* bytes of the format */
    put_number(head + 20, 1, 2);  /* PCM */
    put_number(head + 22, channels, 2);
    put_number(head + 24, rate, 4);
    put_number(head + 28, rate * channels * SAMPLE_SIZE, 4);
    put_number(head + 32, channels * SAMPLE_SIZE, 2);
    put_number(head + 34, 8 * SAMPLE_SIZE, 2);
    memcpy(head + 36, "data", 4);
    put_number(head + 40, bytes, 4);
}

/* -1 to 1, cut off and rounded; false at a number that is not finite. */
static bool fill_samples(unsigned char *to, const double *values, int64_t channels,
                         int64_t length) {
    for (int64_t i = 0; i < length; i++) {
        for (int64_t c = 0; c < channels; c++) {
            const double value = values[c * length + i];
            if (!isfinite(value)) {
                return false;
            }
            const double cut = value < -1.0 ? -1.0 : value > 1.0 ? 1.0 : value;
            put_number(to, (uint32_t)(int32_t)lrint(32767.0 * cut), SAMPLE_SIZE);
            to += SAMPLE_SIZE;
        }
    }
    return true;
}

int values_write_sound(const char *path, const char *name, const struct values *values,
                       int64_t rate) {
    const uf_shape *shape = &values->shape;
    char text[128];
    const int64_t length = shape->rank > 0 ? shape->extent[shape->rank - 1] : 1;
    const int64_t channels = uf_shape_count(shape) / length;
    const int64_t bytes = channels * length * SAMPLE_SIZE;
    if (shape->rank < 1 || channels > MOST_CHANNELS || bytes > INT32_MAX - HEAD_SIZE ||
        (shape->rank == 3 && shape->extent[0] > 1)) {
        return fail("output %s is %s; a sound is made of (1, channels, length), or (channels, "
                    "length), of up to %d channels",
                    name, uf_shape_format(shape, text, sizeof text), MOST_CHANNELS);
    }
    unsigned char *file = malloc((size_t)(HEAD_SIZE + bytes));
    if (file == NULL) {
        return fail("out of memory writing %s", path);
    }
    int status = EXIT_DONE;
    fill_head(file, (uint32_t)channels, (uint32_t)rate, (uint32_t)bytes);
    if (!fill_samples(file + HEAD_SIZE, values->data, channels, length)) {
        status = fail("output %s has values that are not finite", name);
    } else {
        status = file_write_bytes(path, file, (size_t)(HEAD_SIZE + bytes));
    }
    free(file);
    return status;
}
