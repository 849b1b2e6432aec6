/* values_sound.c - .wav files: an output with 16 bits a sample, an input with those or with f32.
 * Samples of 16 bits are 1/32768 apart, so that a sound which goes through unchanged has the same
 * bytes. http://soundfile.sapp.org/doc/WaveFormat/ */
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
enum { KIND_INTEGERS = 1, KIND_REALS = 3, KIND_EXTENSIBLE = 0xfffe };

static const double ONE = 32768.0; /* as a sample of 16 bits */

/* ---- writing ---- */

static void put_number(unsigned char *to, uint32_t number, int bytes) {
    for (int i = 0; i < bytes; i++) {
        to[i] = (unsigned char)(number >> 8 * i);
    }
}

static void fill_head(unsigned char *head, uint32_t channels, uint32_t rate, uint32_t bytes) {
    memcpy(head, "RIFF....WAVEfmt ", 16);
    put_number(head + 4, HEAD_SIZE - 8 + bytes, 4);
    put_number(head + 16, 16, 4); /* bytes of the format */
    put_number(head + 20, KIND_INTEGERS, 2);
    put_number(head + 22, channels, 2);
    put_number(head + 24, rate, 4);
    put_number(head + 28, rate * channels * SAMPLE_SIZE, 4);
    put_number(head + 32, channels * SAMPLE_SIZE, 2);
    put_number(head + 34, 8 * SAMPLE_SIZE, 2);
    memcpy(head + 36, "data", 4);
    put_number(head + 40, bytes, 4);
}

/* -1 to 1, rounded, and cut off at the largest sample; false at a number that is not finite. */
static bool fill_samples(unsigned char *to, const double *values, int64_t channels,
                         int64_t length) {
    for (int64_t i = 0; i < length; i++) {
        for (int64_t c = 0; c < channels; c++) {
            const double value = values[c * length + i];
            if (!isfinite(value)) {
                return false;
            }
            const double sample = fmax(-ONE, fmin(ONE * value, ONE - 1.0));
            put_number(to, (uint32_t)(int32_t)lrint(sample), SAMPLE_SIZE);
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

/* ---- reading ---- */

struct sound {
    const char *path;
    FILE *file;
    uint32_t kind, channels, rate, bits; /* channels = 0: the chunk "fmt " has not come */
    int64_t frames;                      /* one sample of each channel */
};

static int fail_errno(const char *path) {
    return fail("cannot read %s: %s", path, strerror(errno));
}

static uint32_t number_at(const unsigned char *from, int bytes) {
    uint32_t number = 0;
    for (int i = 0; i < bytes; i++) {
        number |= (uint32_t)from[i] << 8 * i;
    }
    return number;
}

static int read_bytes(const struct sound *sound, unsigned char *to, size_t size) {
    return fread(to, 1, size, sound->file) == size
               ? EXIT_DONE
               : fail("%s ends before its samples", sound->path);
}

static int read_format(struct sound *sound, uint32_t size) {
    unsigned char format[26] = {0};
    const uint32_t known = size < sizeof format ? size : (uint32_t)sizeof format;
    if (size < 16) {
        return fail("%s: the chunk that says how its samples are written is damaged", sound->path);
    }
    TRY(read_bytes(sound, format, known));
    sound->kind = number_at(format, 2);
    if (sound->kind == KIND_EXTENSIBLE) {
        sound->kind = number_at(format + 24, 2);
    }
    sound->channels = number_at(format + 2, 2);
    sound->rate = number_at(format + 4, 4);
    sound->bits = number_at(format + 14, 2);
    if (sound->channels < 1 || sound->channels > MOST_CHANNELS) {
        return fail("%s has %" PRIu32 " channels; 1 to %d are read", sound->path, sound->channels,
                    MOST_CHANNELS);
    }
    if (sound->rate < 1) {
        return fail("%s has 0 samples a second", sound->path);
    }
    if ((sound->kind != KIND_INTEGERS || sound->bits != 16) &&
        (sound->kind != KIND_REALS || sound->bits != 32)) {
        return fail("%s has samples of %" PRIu32 " bits and format %" PRIu32
                    "; integers of 16 bits and real numbers of 32 are read",
                    sound->path, sound->bits, sound->kind);
    }
    return fseek(sound->file, (long)(size - known), SEEK_CUR) == 0 ? EXIT_DONE
                                                                   : fail_errno(sound->path);
}

/* The bytes of samples; `size` is what the file says, if its writer could know. */
static int measure(struct sound *sound, uint32_t size) {
    const long here = ftell(sound->file);
    if (here < 0 || fseek(sound->file, 0, SEEK_END) != 0) {
        return fail_errno(sound->path);
    }
    const int64_t rest = (int64_t)ftell(sound->file) - here;
    const bool is_stream = size == 0 || size >= 0x7ffff000;
    if (!is_stream && size > rest) {
        return fail("%s is cut off: %" PRIu32 " bytes of samples, it says, and has %" PRId64,
                    sound->path, size, rest);
    }
    sound->frames = (is_stream ? rest : (int64_t)size) / (sound->channels * (sound->bits / 8));
    if (sound->frames < 1) {
        return fail("%s has no samples", sound->path);
    }
    return fseek(sound->file, here, SEEK_SET) == 0 ? EXIT_DONE : fail_errno(sound->path);
}

/* Up to the first sample. */
static int read_head(struct sound *sound) {
    unsigned char head[12];
    TRY(read_bytes(sound, head, sizeof head));
    for (;;) {
        TRY(read_bytes(sound, head, 8));
        const uint32_t size = number_at(head + 4, 4);
        if (memcmp(head, "data", 4) == 0) {
            return sound->channels > 0
                       ? measure(sound, size)
                       : fail("%s has samples before it says how they are written", sound->path);
        }
        if (memcmp(head, "fmt ", 4) == 0) {
            TRY(read_format(sound, size));
        } else if (fseek(sound->file, (long)size, SEEK_CUR) != 0) {
            return fail_errno(sound->path);
        }
        if (size % 2 == 1 && fseek(sound->file, 1, SEEK_CUR) != 0) {
            return fail_errno(sound->path);
        }
    }
}

static double sample_at(const struct sound *sound, const unsigned char *at) {
    if (sound->kind == KIND_INTEGERS) {
        return (double)(int16_t)(uint16_t)number_at(at, 2) / ONE;
    }
    const uint32_t bits = number_at(at, 4);
    float real;
    memcpy(&real, &bits, sizeof real);
    return (double)real;
}

static int read_samples(const struct sound *sound, double *to) {
    unsigned char row[4096];
    const int64_t size = sound->bits / 8, channels = sound->channels;
    const int64_t most = (int64_t)sizeof row / (size * channels);
    for (int64_t first = 0; first < sound->frames; first += most) {
        const int64_t part = sound->frames - first < most ? sound->frames - first : most;
        TRY(read_bytes(sound, row, (size_t)(part * size * channels)));
        for (int64_t i = 0; i < part * channels; i++) {
            to[i % channels * sound->frames + first + i / channels] =
                sample_at(sound, row + i * size);
        }
    }
    return EXIT_DONE;
}

static int read_sound(struct sound *sound, const char *name, const uf_shape *usual,
                      struct values *values) {
    TRY(read_head(sound));
    uf_shape shape = UF_SHAPE(1, sound->channels, sound->frames);
    if (usual->rank == 2) {
        shape = UF_SHAPE(sound->channels, sound->frames);
    } else if (usual->rank == 1) {
        if (sound->channels != 1) {
            return fail("%s has %" PRIu32 " channels, and the input %s is one row of numbers",
                        sound->path, sound->channels, name);
        }
        shape = UF_SHAPE(sound->frames);
    }
    TRY(values_create(UF_F64, shape, values));
    values->rate = sound->rate;
    return read_samples(sound, values->data);
}

int values_read_sound(const char *path, const char *name, const uf_shape *usual,
                      struct values *values) {
    struct sound sound = {.path = path, .file = fopen(path, "rb")};
    if (sound.file == NULL) {
        return fail_errno(path);
    }
    const int status = read_sound(&sound, name, usual, values);
    fclose(sound.file);
    return status;
}
