#include "pixels.h"

bool pixels_have_alpha(const uf_picture *picture) {
    return picture->channels % 2 == 0;
}

double pixels_sample(const uf_picture *picture, int64_t place) {
    return picture->depth == 16 ? ((const uint16_t *)picture->samples)[place] / 65535.0
                                : ((const uint8_t *)picture->samples)[place] / 255.0;
}

int64_t pixels_up_to_multiple(const uf_picture_map *map, int64_t extent) {
    return (extent + map->multiple - 1) / map->multiple * map->multiple;
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

int64_t pixels_colour(const uf_picture_map *map, int64_t channels, int64_t channel) {
    return map->channels == UF_CHANNELS_BGR && channels == 3 ? 2 - channel : channel;
}

/* The sample at one pixel; a negative `from` is grey of colours. */
static double sample_from(const uf_picture *picture, int64_t pixel, int64_t from) {
    const int64_t place = pixel * picture->channels;
    if (from >= 0) {
        return pixels_sample(picture, place + from);
    }
    return 0.299 * pixels_sample(picture, place) + 0.587 * pixels_sample(picture, place + 1) +
           0.114 * pixels_sample(picture, place + 2);
}

void pixels_read(const uf_picture *picture, const uf_picture_map *map, int64_t channels,
                 int64_t channel, bool alpha, struct area area, uf_dtype dtype, void *plane) {
    const bool coloured = picture->channels >= 3;
    const int64_t from = alpha           ? picture->channels - 1
                         : !coloured     ? 0
                         : channels == 1 ? -1
                                         : pixels_colour(map, channels, channel);
    const double factor = map->maximum - map->minimum;
    int64_t to = 0;
    for (int64_t y = 0; y < area.height; y++) {
        const int64_t row = inside(area.top + y, picture->height, map->border_mode);
        for (int64_t x = 0; x < area.width; x++, to++) {
            const int64_t column = inside(area.left + x, picture->width, map->border_mode);
            const double sample = row < 0 || column < 0
                                      ? 0.0
                                      : sample_from(picture, row * picture->width + column, from);
            const double value =
                (map->minimum + sample * factor - map->mean[channel]) / map->std[channel];
            if (dtype == UF_F64) {
                ((double *)plane)[to] = value;
            } else {
                ((float *)plane)[to] = (float)value;
            }
        }
    }
}

double pixels_sample_of(const uf_picture_map *map, int64_t channel, double value) {
    return (value * map->std[channel] + map->mean[channel] - map->minimum) /
           (map->maximum - map->minimum);
}
