/* compare.c - do two results agree? Status 0 if so, 1 with a sentence if not. A value that is not
 * finite agrees with nothing.
 *
 *   cli_compare values A.h5:/x B.h5:/y TOLERANCE [A_PLANE B_PLANE COUNT]
 *   cli_compare mean A.h5:/x B.h5:/y TOLERANCE        A is one plane, the mean of B's three
 *   cli_compare head A.h5:/x B.h5:/y TOLERANCE        A is what B begins with
 *   cli_compare range A.h5:/x LOW HIGH                every value is inside
 *   cli_compare type A.h5:/x f32|f64 "(3, 128, 192)"
 *   cli_compare pictures A.png B.png LEVELS [CHANNEL]   every sample; with CHANNEL, that one of
 * both cli_compare colour A.png B.png                    same gamma, intent, chromaticities and
 * profile cli_compare rounded A.png B.h5:/x                 A is B, clamped to [0, 1] and rounded
 *   cli_compare grid A.png B.h5:/x                    A shows B's (N, C, H, W) as make_grid does */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unfurl/unfurl.h>

#include "support/compare.h"

static _Noreturn void stop(const char *message) {
    fprintf(stderr, "cli_compare: %s\n", message);
    exit(1);
}

struct array {
    uf_shape shape;
    int64_t count;
    double *values;
};

/* "FILE:/dataset" cut in two; `path` is overwritten. */
static const char *split(char *path) {
    char *colon = strrchr(path, ':');
    if (colon == NULL) {
        stop("FILE.h5:/dataset expected");
    }
    *colon = '\0';
    return colon + 1;
}

static struct array read_array(char *source) {
    const char *dataset = split(source);
    struct array array = {.values = NULL};
    if (uf_hdf5_read(source, dataset, UF_F64, &array.shape, NULL, 0) != UF_OK) {
        stop(uf_last_error());
    }
    array.count = uf_shape_count(&array.shape);
    array.values = malloc((size_t)array.count * sizeof *array.values);
    if (array.count < 1 || array.values == NULL) {
        stop("an empty dataset, or no memory");
    }
    if (uf_hdf5_read(source, dataset, UF_F64, &array.shape, array.values, array.count) != UF_OK) {
        stop(uf_last_error());
    }
    return array;
}

static uf_picture read_picture(const char *path) {
    uf_picture picture;
    if (uf_picture_read(path, NULL, &picture) != UF_OK) {
        stop(uf_last_error());
    }
    return picture;
}

static int64_t sample(const uf_picture *picture, int64_t index) {
    return picture->depth == 16 ? ((const uint16_t *)picture->samples)[index]
                                : ((const uint8_t *)picture->samples)[index];
}

static double number(const char *text) {
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(value)) {
        stop("a number expected");
    }
    return value;
}

static int judge(const double *a, const double *b, int64_t count, double tolerance) {
    comparison result = compare_absolute(a, b, count);
    printf("largest difference %.3g, allowed %.3g\n", result.error, tolerance);
    if (result.worst >= 0 && result.error <= tolerance) {
        return 0;
    }
    fprintf(stderr, "cli_compare: element %" PRId64 " is %.17g, expected %.17g\n", result.worst,
            result.got, result.expected);
    return 1;
}

static int values(int count, char **words) {
    struct array a = read_array(words[0]);
    struct array b = read_array(words[1]);
    double tolerance = number(words[2]);
    int64_t a_begin = 0, b_begin = 0, length = a.count;
    if (count == 6) { /* planes of (C, H, W) arrays */
        if (a.shape.rank != 3 || b.shape.rank != 3 || a.shape.extent[1] != b.shape.extent[1] ||
            a.shape.extent[2] != b.shape.extent[2]) {
            stop("planes of different extents");
        }
        int64_t plane = a.shape.extent[1] * a.shape.extent[2];
        a_begin = (int64_t)number(words[3]) * plane;
        b_begin = (int64_t)number(words[4]) * plane;
        length = (int64_t)number(words[5]) * plane;
        if (a_begin + length > a.count || b_begin + length > b.count || length < 1) {
            stop("not that many planes");
        }
    } else if (!uf_shape_equal(&a.shape, &b.shape)) {
        stop("different shapes");
    }
    int status = judge(a.values + a_begin, b.values + b_begin, length, tolerance);
    free(a.values);
    free(b.values);
    return status;
}

static int mean(int count, char **words) {
    (void)count;
    struct array a = read_array(words[0]);
    struct array b = read_array(words[1]);
    if (b.count != 3 * a.count) {
        stop("the second array does not have three times the values");
    }
    for (int64_t i = 0; i < a.count; i++) {
        b.values[i] = (b.values[i] + b.values[a.count + i] + b.values[2 * a.count + i]) / 3;
    }
    int status = judge(a.values, b.values, a.count, number(words[2]));
    free(a.values);
    free(b.values);
    return status;
}

static int head(int count, char **words) {
    (void)count;
    struct array a = read_array(words[0]);
    struct array b = read_array(words[1]);
    if (b.count <= a.count) {
        stop("the second array is not longer");
    }
    int status = judge(a.values, b.values, a.count, number(words[2]));
    free(a.values);
    free(b.values);
    return status;
}

static int range(int count, char **words) {
    (void)count;
    struct array a = read_array(words[0]);
    double low = number(words[1]);
    double high = number(words[2]);
    int status = 0;
    for (int64_t i = 0; i < a.count; i++) {
        if (!(a.values[i] >= low && a.values[i] <= high)) {
            status = 1;
        }
    }
    free(a.values);
    return status;
}

static int type(int count, char **words) {
    (void)count;
    const char *dataset = split(words[0]);
    uf_hdf5_entry *entries = NULL;
    int64_t entry_count = 0;
    if (uf_hdf5_list(words[0], NULL, &entries, &entry_count) != UF_OK) {
        stop(uf_last_error());
    }
    int status = 1;
    for (int64_t i = 0; i < entry_count; i++) {
        char shape[128];
        if (strcmp(entries[i].name, dataset + 1) == 0 && entries[i].is_tensor &&
            strcmp(entries[i].type, words[1]) == 0 &&
            strcmp(uf_shape_format(&entries[i].shape, shape, sizeof shape), words[2]) == 0) {
            status = 0;
        }
    }
    uf_hdf5_list_free(entries);
    return status;
}

static int pictures(int count, char **words) {
    uf_picture a = read_picture(words[0]);
    uf_picture b = read_picture(words[1]);
    if (a.width != b.width || a.height != b.height || a.channels != b.channels ||
        a.depth != b.depth) {
        stop("pictures of different kinds");
    }
    int64_t only = count == 4 ? (int64_t)number(words[3]) : -1;
    int64_t largest = 0;
    for (int64_t i = 0; i < a.width * a.height * a.channels; i++) {
        int64_t difference = sample(&a, i) - sample(&b, i);
        difference = difference < 0 ? -difference : difference;
        if (difference > largest && (only < 0 || i % a.channels == only)) {
            largest = difference;
        }
    }
    printf("largest difference %" PRId64 " levels\n", largest);
    uf_picture_free(&a);
    uf_picture_free(&b);
    return (double)largest <= number(words[2]) ? 0 : 1;
}

static int colour(int count, char **words) {
    (void)count;
    uf_picture a = read_picture(words[0]);
    uf_picture b = read_picture(words[1]);
    bool same = fabs(a.gamma - b.gamma) < 1e-9 && a.srgb_intent == b.srgb_intent &&
                a.has_chromaticities == b.has_chromaticities && a.icc_size == b.icc_size &&
                strcmp(a.icc_name, b.icc_name) == 0;
    for (int i = 0; i < 8 && same && a.has_chromaticities; i++) {
        same = fabs(a.chromaticities[i] - b.chromaticities[i]) < 1e-9;
    }
    if (same && a.icc_size > 0) {
        same = memcmp(a.icc_profile, b.icc_profile, a.icc_size) == 0;
    }
    uf_picture_free(&a);
    uf_picture_free(&b);
    return same ? 0 : 1;
}

/* Is the sample another than `expected` rounded? `expected` may have been stored in f32: as near to
 * a tie as that, either neighbour is right. */
static bool differs(const uf_picture *picture, int64_t index, double expected, double largest) {
    double clamped = expected < 0 ? 0 : expected > 1 ? 1 : expected;
    return !isfinite(expected) ||
           fabs((double)sample(picture, index) - clamped * largest) > 0.5 + largest * 0x1p-24;
}

static int rounded(int count, char **words) {
    (void)count;
    uf_picture a = read_picture(words[0]);
    struct array b = read_array(words[1]);
    if (b.shape.rank != 3 || b.shape.extent[0] != a.channels || b.shape.extent[1] != a.height ||
        b.shape.extent[2] != a.width) {
        stop("the array's extents are not the picture's");
    }
    double largest = a.depth == 16 ? 65535 : 255;
    int64_t pixels = a.width * a.height;
    int64_t wrong = 0;
    for (int64_t i = 0; i < pixels * a.channels; i++) {
        double value = b.values[i % a.channels * pixels + i / a.channels];
        wrong += differs(&a, i, value, largest) ? 1 : 0;
    }
    uf_picture_free(&a);
    free(b.values);
    printf("%" PRId64 " samples differ\n", wrong);
    return wrong == 0 ? 0 : 1;
}

/* What make_grid puts at channel c of pixel (y, x): a pixel of an image, or the black between them.
 */
static double grid_value(const struct array *images, int64_t c, int64_t y, int64_t x) {
    const int64_t *extent = images->shape.extent; /* N, C, H, W */
    int64_t padding = extent[0] == 1 ? 0 : 2;
    int64_t row = y / (extent[2] + padding), in_row = y % (extent[2] + padding) - padding;
    int64_t column = x / (extent[3] + padding), in_column = x % (extent[3] + padding) - padding;
    int64_t columns = extent[0] < 8 ? extent[0] : 8;
    int64_t index = row * columns + column;
    if (in_row < 0 || in_column < 0 || column >= columns || index >= extent[0]) {
        return 0;
    }
    int64_t at = ((index * extent[1] + c) * extent[2] + in_row) * extent[3] + in_column;
    return (images->values[at] + 1) / 2;
}

static int grid(int count, char **words) {
    (void)count;
    uf_picture a = read_picture(words[0]);
    struct array b = read_array(words[1]);
    const int64_t *extent = b.shape.extent;
    int64_t padding = extent[0] == 1 ? 0 : 2;
    int64_t columns = extent[0] < 8 ? extent[0] : 8;
    int64_t rows = (extent[0] + columns - 1) / columns;
    if (b.shape.rank != 4 || a.channels != extent[1] || a.depth != 8 ||
        a.width != columns * (extent[3] + padding) + padding ||
        a.height != rows * (extent[2] + padding) + padding) {
        stop("the picture does not have the extents of such a grid");
    }
    int64_t wrong = 0;
    for (int64_t i = 0; i < a.width * a.height * a.channels; i++) {
        int64_t pixel = i / a.channels;
        double value = grid_value(&b, i % a.channels, pixel / a.width, pixel % a.width);
        wrong += differs(&a, i, value, 255) ? 1 : 0;
    }
    uf_picture_free(&a);
    free(b.values);
    printf("%" PRId64 " samples differ\n", wrong);
    return wrong == 0 ? 0 : 1;
}

int main(int count, char **words) {
    static const struct {
        const char *name;
        int least, most; /* words after the name */
        int (*run)(int count, char **words);
    } modes[] = {
        {"values", 3, 6, values}, {"mean", 3, 3, mean},       {"head", 3, 3, head},
        {"range", 3, 3, range},   {"type", 3, 3, type},       {"pictures", 3, 4, pictures},
        {"colour", 2, 2, colour}, {"rounded", 2, 2, rounded}, {"grid", 2, 2, grid},
    };
    for (size_t i = 0; count > 1 && i < sizeof modes / sizeof modes[0]; i++) {
        if (strcmp(words[1], modes[i].name) == 0 && count - 2 >= modes[i].least &&
            count - 2 <= modes[i].most) {
            return modes[i].run(count - 2, words + 2);
        }
    }
    stop("no such comparison");
}
