/* grid.h - many small images in one PNG file. */
#ifndef EXAMPLES_COMMON_GRID_H
#define EXAMPLES_COMMON_GRID_H

#include <stdint.h>

/* Write `count` images (count, channels, height, width) in -1..1, 1 or 3 channels, `columns` in a
 * row, with two black pixels between and around them. Values outside are clamped. The file is there
 * whole or not at all. */
void grid_write(const char *path, const float *images, int64_t count, int64_t columns,
                int64_t channels, int64_t height, int64_t width);

#endif
