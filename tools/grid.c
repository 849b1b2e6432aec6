#include "grid.h"

#include <inttypes.h>
#include <string.h>

#include "command.h"

enum { GRID_COLUMNS = 8, GRID_PADDING = 2 };

int grid_create(int64_t count, int64_t channels, int64_t height, int64_t width, struct grid *grid) {
    *grid = (struct grid){.count = count, .channels = channels, .height = height, .width = width};
    if (channels != 1 && channels != 3) {
        return fail("a PNG shows images of 1 or 3 channels, these have %" PRId64
                    "; write them to a .h5 file",
                    channels);
    }
    grid->columns = count < GRID_COLUMNS ? count : GRID_COLUMNS;
    grid->rows = (count + grid->columns - 1) / grid->columns;
    grid->padding = count == 1 ? 0 : GRID_PADDING;
    int64_t grid_width = grid->columns * (width + grid->padding) + grid->padding;
    int64_t grid_height = grid->rows * (height + grid->padding) + grid->padding;
    TRY_LIBRARY(uf_picture_create(grid_width, grid_height, (int32_t)channels, 8, &grid->picture));
    memset(grid->picture.samples, 0, (size_t)(grid_width * grid_height * channels));
    return EXIT_DONE;
}

static uint8_t to_byte(double value) {
    double scaled = (value + 1.0) * 127.5 + 0.5;
    return scaled <= 0 ? 0 : scaled >= 255 ? 255 : (uint8_t)scaled;
}

void grid_place(struct grid *grid, int64_t index, const double *image) {
    int64_t top = index / grid->columns * (grid->height + grid->padding) + grid->padding;
    int64_t left = index % grid->columns * (grid->width + grid->padding) + grid->padding;
    uint8_t *samples = grid->picture.samples;
    for (int64_t c = 0; c < grid->channels; c++) {
        for (int64_t y = 0; y < grid->height; y++) {
            const double *from = image + (c * grid->height + y) * grid->width;
            uint8_t *to = samples + ((top + y) * grid->picture.width + left) * grid->channels + c;
            for (int64_t x = 0; x < grid->width; x++) {
                to[x * grid->channels] = to_byte(from[x]);
            }
        }
    }
}
