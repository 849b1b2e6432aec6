#include "networks.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "command.h"
#include "files.h"

struct network {
    const char *model;
    int64_t scale, noise, tile, overlap;
    const char *source, *picture;
    int64_t residual;
};

static const struct network networks[] = {
#define NETWORK(model, scale, noise, tile, overlap, source, picture, residual)                     \
    {model, scale, noise, tile, overlap, source, picture, residual},
#include "networks.def"
#undef NETWORK
};
enum { NETWORK_COUNT = (int)(sizeof networks / sizeof networks[0]) };

/* upconv_7, the network of waifu2x that doubles a picture (nagadomi, MIT licence): n + 14 pixels
 * become 2n. Output pixels 2a and 2a + 1 read the transposed convolution's inputs a, a + 1 and
 * a + 2, and each of these reads 13 pixels, so together they see the input pixels a - 7 ... a + 7.
 * https://github.com/nagadomi/waifu2x */
static const char upconv_7[] = //
    "unfurl model 1\n"
    "input tile f32 (N=1, 3, H=142, W=142)\n"
    "0 = conv2d(tile, out_channels=16)\n"
    "1 = leaky_relu(0, negative_slope=0.1)\n"
    "2 = conv2d(1, out_channels=32)\n"
    "3 = leaky_relu(2, negative_slope=0.1)\n"
    "4 = conv2d(3, out_channels=64)\n"
    "5 = leaky_relu(4, negative_slope=0.1)\n"
    "6 = conv2d(5, out_channels=128)\n"
    "7 = leaky_relu(6, negative_slope=0.1)\n"
    "8 = conv2d(7, out_channels=128)\n"
    "9 = leaky_relu(8, negative_slope=0.1)\n"
    "10 = conv2d(9, out_channels=256)\n"
    "11 = leaky_relu(10, negative_slope=0.1)\n"
    "12 = conv_transpose2d(11, out_channels=3, kernel=4, stride=2, padding=3)\n"
    "output doubled = 12\n"
    "picture input tile border=7\n"
    "picture output doubled scale=2\n";
#define UPCONV_7_WEIGHTS "upconv7_scale2x.h5" /* among the shipped weights */

static bool is_file(const char *model) {
    return strchr(model, '/') != NULL || file_kind_of(model) == FILE_HDF5;
}

/* "cunet-x2-noise1.h5" */
static void file_name(const struct network *network, char *name, size_t size) {
    int used = snprintf(name, size, "%s-x%" PRId64, network->model, network->scale);
    if (network->noise >= 0) {
        used += snprintf(name + used, size - (size_t)used, "-noise%" PRId64, network->noise);
    }
    snprintf(name + used, size - (size_t)used, ".h5");
}

static int fail_unknown(const char *model) {
    const char *names[NETWORK_COUNT];
    size_t count = 0;
    char list[256] = "";
    for (int i = 0; i < NETWORK_COUNT; i++) {
        if (count == 0 || strcmp(names[count - 1], networks[i].model) != 0) {
            names[count++] = networks[i].model;
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s, ", networks[i].model);
        }
    }
    const char *nearest = options_nearest(model, names, count);
    if (nearest != NULL) {
        return fail_usage("upscale: there is no network '%s'; did you mean %s?", model, nearest);
    }
    return fail_usage("upscale: --model is '%s'; it takes %sor a model file FILE.h5", model, list);
}

/* "--scale 2 with --noise none, 0 or 1; --scale 3 with ..." of one model */
static int fail_combination(const char *model, int64_t scale, int64_t noise) {
    char list[512] = "";
    int64_t last = -1;
    for (int i = 0; i < NETWORK_COUNT; i++) {
        const struct network *row = &networks[i];
        if (strcmp(row->model, model) != 0) {
            continue;
        }
        const size_t used = strlen(list);
        if (row->scale != last) {
            snprintf(list + used, sizeof list - used, "%s--scale %" PRId64 " with ",
                     used == 0 ? "" : "; ", row->scale);
        } else {
            snprintf(list + used, sizeof list - used, ", ");
        }
        last = row->scale;
        const size_t now = strlen(list);
        if (row->noise < 0) {
            snprintf(list + now, sizeof list - now, "no --noise");
        } else {
            snprintf(list + now, sizeof list - now, "--noise %" PRId64, row->noise);
        }
    }
    char wanted[64] = "";
    if (scale >= 0) {
        snprintf(wanted, sizeof wanted, " --scale %" PRId64, scale);
    }
    if (noise >= 0) {
        const size_t used = strlen(wanted);
        snprintf(wanted + used, sizeof wanted - used, " --noise %" PRId64, noise);
    }
    return fail_usage("upscale: --model %s has no network for%s; it has %s", model, wanted, list);
}

/* The row that fits; of several scales 2, or else the first. */
static const struct network *find(const char *model, int64_t scale, int64_t noise) {
    const struct network *found = NULL;
    for (int i = 0; i < NETWORK_COUNT; i++) {
        const struct network *row = &networks[i];
        if (strcmp(row->model, model) == 0 && row->noise == noise &&
            (scale < 0 || row->scale == scale) &&
            (found == NULL || (row->scale == 2 && found->scale != 2))) {
            found = row;
        }
    }
    return found;
}

static bool is_known(const char *model) {
    for (int i = 0; i < NETWORK_COUNT; i++) {
        if (strcmp(networks[i].model, model) == 0) {
            return true;
        }
    }
    return false;
}

static int take_path(const char *path, struct network_choice *choice) {
    const int length = snprintf(choice->path, sizeof choice->path, "%s", path);
    return length >= 0 && length < (int)sizeof choice->path ? EXIT_DONE
                                                            : fail("the name %s is too long", path);
}

static int choose_file(const char *model, int64_t scale, int64_t noise,
                       struct network_choice *choice) {
    if (scale >= 0 || noise >= 0) {
        return fail_usage("upscale: the file %s is one network; --scale and --noise choose among "
                          "those that have names",
                          model);
    }
    choice->name = model;
    return take_path(model, choice);
}

static int choose_row(const struct network *row, const char *weights,
                      struct network_choice *choice) {
    char name[64];
    choice->tile = row->tile;
    choice->overlap = row->overlap;
    if (row->source != NULL) {
        choice->name = row->model;
        file_name(row, name, sizeof name);
        return file_find_network(row->model, name, choice->path, sizeof choice->path);
    }
    choice->name = "upconv_7";
    choice->text = upconv_7;
    return weights != NULL ? take_path(weights, choice)
                           : file_find_weights(UPCONV_7_WEIGHTS, choice->path, sizeof choice->path);
}

int network_choose(const char *model, int64_t scale, int64_t noise, const char *weights,
                   struct network_choice *choice) {
    *choice = (struct network_choice){.overlap = -1};
    if (weights != NULL && (model != NULL || noise >= 0)) {
        return fail_usage("upscale: --weights is for upconv_7 alone, the network without --model "
                          "and --noise");
    }
    if (model != NULL && is_file(model)) {
        return choose_file(model, scale, noise, choice);
    }
    model = model != NULL ? model : networks[0].model;
    if (!is_known(model)) {
        return fail_unknown(model);
    }
    const struct network *row = find(model, scale, noise);
    return row != NULL ? choose_row(row, weights, choice) : fail_combination(model, scale, noise);
}

void networks_print(FILE *stream) {
    for (int i = 0; i < NETWORK_COUNT; i++) {
        const struct network *row = &networks[i];
        char name[64];
        file_name(row, name, sizeof name);
        if (row->source != NULL) {
            fprintf(stream, "%s\t%s\t%s\t%" PRId64 "\t%" PRId64 "\n", name, row->source,
                    row->picture, row->scale, row->residual);
        }
    }
}
