/* values_picture.c - pictures as values, by a model's map. */
#include "values.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "files.h"
#include "grid.h"
#include "pixels.h"

static void fill(const uf_picture *picture, const uf_picture_map *map, struct values *values) {
    const int64_t channels = values->shape.extent[1];
    const struct area area = {-map->border, -map->border, values->shape.extent[2],
                              values->shape.extent[3]};
    for (int64_t c = 0; c < channels; c++) {
        pixels_read(picture, map, channels, c, false, area, UF_F64,
                    (double *)values->data + c * area.height * area.width);
    }
}

struct values_frame values_frame_of(const uf_picture *picture, const uf_picture_map *map) {
    return (struct values_frame){picture->height, picture->width,
                                 pixels_up_to_multiple(map, picture->height),
                                 pixels_up_to_multiple(map, picture->width)};
}

uf_shape values_shape_of(const struct values_frame *frame, const uf_picture_map *map,
                         int64_t channels) {
    return UF_SHAPE(1, channels, frame->whole_height + 2 * map->border,
                    frame->whole_width + 2 * map->border);
}

int values_read_picture(const char *path, const uf_picture_map *map, int64_t channels,
                        struct values *values, struct values_frame *frame) {
    uf_picture picture;
    *values = (struct values){0};
    if (channels != 1 && channels != 3) {
        return fail("%s: the input has %" PRId64 " channels; a picture has 1 or 3", path, channels);
    }
    TRY_LIBRARY(uf_picture_read(path, NULL, &picture));
    *frame = values_frame_of(&picture, map);
    const int status = values_create(UF_F64, values_shape_of(frame, map, channels), values);
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
        const int64_t to = pixels_colour(map, extent[1], c);
        for (int64_t y = 0; y < grid->height; y++) {
            for (int64_t x = 0; x < grid->width; x++) {
                const double value = from[(c * extent[2] + top + y) * extent[3] + left + x];
                if (!isfinite(value)) {
                    return false;
                }
                const double sample = pixels_sample_of(map, c, value);
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
                         int64_t threads, int64_t quality) {
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
        status = file_write_picture(path, &grid.picture, threads, quality);
    }
    uf_picture_free(&grid.picture);
    return status;
}
