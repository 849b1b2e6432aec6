/* grid.h - many small images in one picture, laid out as torchvision.utils.make_grid does: eight in
 * a row, two black pixels between and around them (none around a single image). */
#ifndef UF_TOOLS_GRID_H
#define UF_TOOLS_GRID_H

#include <unfurl/png.h>

struct grid {
    int64_t count, channels, height, width; /* of the images */
    int64_t columns, rows, padding;
    uf_picture picture; /* 8 bits; owned, freed with uf_picture_free */
};

/* Images have 1 channel (a grey picture) or 3 (RGB). Memory is the only reason to fail besides. */
int grid_create(int64_t count, int64_t channels, int64_t height, int64_t width, struct grid *grid);

/* Draw image `index` from (C, H, W) values: [-1, 1] becomes 0 to 255, rounded to nearest. */
void grid_place(struct grid *grid, int64_t index, const double *image);

#endif
