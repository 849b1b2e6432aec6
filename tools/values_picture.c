/* values_picture.c - pictures as values, by a model's map. */
#include "values.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "files.h"
#include "grid.h"

static double sample_at(const uf_picture *picture, int64_t y, int64_t x, int32_t channel) {
    const int64_t place = (y * picture->width + x) * picture->channels + channel;
    return picture->depth == 16 ? ((const uint16_t *)picture->samples)[place] / 65535.0
                                : ((const uint8_t *)picture->samples)[place] / 255.0;
}

/* The place in a row of `extent` elements that stands for place `at`, which may lie outside;
 * -1: nothing does. */
static int64_t inside(int64_t at, int64_t extent, uf_pad_mode mode) {
    if (at >= 0 && at < extent) {
        return at;
    }
    if (mode == UF_PAD_ZERO) {
        return -1;
    }
    const bool mirrors = mode == UF_PAD_REFLECT && extent > 1;
    const int64_t mirrored = at < 0 ? -at : 2 * (extent - 1) - at;
    return mirrors && mirrored >= 0 && mirrored < extent ? mirrored : at < 0 ? 0 : extent - 1;
}

static bool is_bgr(const uf_picture_map *map, int64_t channels) {
    return map->channels == UF_CHANNELS_BGR && channels == 3;
}

/* A pixel's channel as the network counts them: grey of colours is ITU-R BT.601's. */
static double channel_at(const uf_picture *picture, int64_t y, int64_t x, int64_t channel,
                         int64_t channels) {
    const bool colours = picture->channels >= 3;
    if (channels == 1 && colours) {
        return 0.299 * sample_at(picture, y, x, 0) + 0.587 * sample_at(picture, y, x, 1) +
               0.114 * sample_at(picture, y, x, 2);
    }
    return sample_at(picture, y, x, colours ? (int32_t)channel : 0);
}

static void fill(const uf_picture *picture, const uf_picture_map *map, struct values *values) {
    const int64_t channels = values->shape.extent[1];
    const int64_t height = values->shape.extent[2], width = values->shape.extent[3];
    double *to = values->data;
    for (int64_t c = 0; c < channels; c++) {
        const int64_t from = is_bgr(map, channels) ? 2 - c : c;
        for (int64_t y = 0; y < height; y++) {
            const int64_t row = inside(y - map->border, picture->height, map->border_mode);
            for (int64_t x = 0; x < width; x++) {
                const int64_t column = inside(x - map->border, picture->width, map->border_mode);
                const double sample =
                    row < 0 || column < 0 ? 0.0 : channel_at(picture, row, column, from, channels);
                *to++ = (map->minimum + sample * (map->maximum - map->minimum) - map->mean[c]) /
                        map->std[c];
            }
        }
    }
}

static int64_t up_to_multiple(int64_t extent, int64_t multiple) {
    return (extent + multiple - 1) / multiple * multiple;
}

int values_read_picture(const char *path, const uf_picture_map *map, int64_t channels,
                        struct values *values, struct values_frame *frame) {
    uf_picture picture;
    *values = (struct values){0};
    if (channels != 1 && channels != 3) {
        return fail("%s: the input has %" PRId64 " channels; a picture has 1 or 3", path, channels);
    }
    TRY_LIBRARY(uf_png_read(path, &picture));
    *frame = (struct values_frame){picture.height, picture.width,
                                   up_to_multiple(picture.height, map->multiple),
                                   up_to_multiple(picture.width, map->multiple)};
    const uf_shape shape = UF_SHAPE(1, channels, frame->whole_height + 2 * map->border,
                                    frame->whole_width + 2 * map->border);
    const int status = values_create(UF_F64, shape, values);
    if (status == EXIT_DONE) {
        fill(&picture, map, values);
    }
    uf_picture_free(&picture);
    return status;
}

/* One image in -1 to 1, as the grid takes it, from (top, left) on; false at a number that is not
 * finite. */
static bool take_image(const struct values *values, const uf_picture_map *map, int64_t index,
                       int64_t top, int64_t left, const struct grid *grid, double *image) {
    const int64_t *extent = values->shape.extent;
    const double *from = (const double *)values->data + index * extent[1] * extent[2] * extent[3];
    for (int64_t c = 0; c < extent[1]; c++) {
        const int64_t to = is_bgr(map, extent[1]) ? 2 - c : c;
        for (int64_t y = 0; y < grid->height; y++) {
            for (int64_t x = 0; x < grid->width; x++) {
                const double value = from[(c * extent[2] + top + y) * extent[3] + left + x];
                if (!isfinite(value)) {
                    return false;
                }
                const double sample = (value * map->std[c] + map->mean[c] - map->minimum) /
                                      (map->maximum - map->minimum);
                image[(to * grid->height + y) * grid->width + x] = 2.0 * sample - 1.0;
            }
        }
    }
    return true;
}

static int fill_grid(const char *name, const uf_picture_map *map, const struct values *values,
                     int64_t top, int64_t left, struct grid *grid) {
    const uf_shape one = UF_SHAPE(grid->channels, grid->height, grid->width);
    struct values image;
    TRY(values_create(UF_F64, one, &image));
    int status = EXIT_DONE;
    for (int64_t i = 0; status == EXIT_DONE && i < grid->count; i++) {
        if (take_image(values, map, i, top, left, grid, image.data)) {
            grid_place(grid, i, image.data);
        } else {
            status = fail("output %s: image %" PRId64 " has values that are not finite", name, i);
        }
    }
    values_free(&image);
    return status;
}

int values_write_picture(const char *path, const char *name, const uf_picture_map *map,
                         const struct values *values, const struct values_frame *frame,
                         int64_t threads) {
    const int64_t *extent = values->shape.extent;
    char text[128];
    struct grid grid;
    if (values->shape.rank != 4) {
        return fail("output %s is %s; a picture is made of (N, C, H, W)", name,
                    uf_shape_format(&values->shape, text, sizeof text));
    }
    /* The centre is that of the picture up to its multiple. */
    const int64_t top = (extent[2] - frame->whole_height * map->scale) / 2;
    const int64_t left = (extent[3] - frame->whole_width * map->scale) / 2;
    const bool cut = frame->height > 0 && frame->whole_height * map->scale <= extent[2] &&
                     frame->whole_width * map->scale <= extent[3];
    TRY(grid_create(extent[0], extent[1], cut ? frame->height * map->scale : extent[2],
                    cut ? frame->width * map->scale : extent[3], &grid));
    int status = fill_grid(name, map, values, cut ? top : 0, cut ? left : 0, &grid);
    if (status == EXIT_DONE) {
        status = file_write(path, name, UF_F32, values->shape, NULL, &grid.picture, threads);
    }
    uf_picture_free(&grid.picture);
    return status;
}
