#include "common/grid.h"

#include <math.h>
#include <string.h>

#include "common/common.h"

void grid_write(const char *path, const float *images, int64_t count, int64_t columns,
                int64_t channels, int64_t height, int64_t width) {
    const int64_t border = 2, rows = (count + columns - 1) / columns;
    const int64_t across = columns * (width + border) + border;
    const int64_t down = rows * (height + border) + border;
    uf_picture picture;
    must(uf_picture_create(across, down, (int32_t)channels, 8, &picture));
    uint8_t *samples = picture.samples;
    memset(samples, 0, (size_t)(across * down * channels));
    for (int64_t i = 0; i < count; ++i) {
        const int64_t top = border + i / columns * (height + border);
        const int64_t left = border + i % columns * (width + border);
        for (int64_t c = 0; c < channels; ++c) {
            for (int64_t y = 0; y < height; ++y) {
                const float *row = images + ((i * channels + c) * height + y) * width;
                uint8_t *out = samples + ((top + y) * across + left) * channels + c;
                for (int64_t x = 0; x < width; ++x) {
                    const double level = ((double)row[x] + 1.0) * 127.5;
                    out[x * channels] = (uint8_t)(fmin(fmax(level, 0.0), 255.0) + 0.5);
                }
            }
        }
    }
    must(uf_png_write(path, &picture));
    uf_picture_free(&picture);
}
