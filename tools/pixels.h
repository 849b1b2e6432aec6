/* pixels.h - between a picture's interleaved samples and a network's planes, by a model's map
 * (uf_picture_map). */
#ifndef UF_TOOLS_PIXELS_H
#define UF_TOOLS_PIXELS_H

#include <unfurl/unfurl.h>

/* A rectangle of a picture, in pixels. It may reach over the edges. */
struct area {
    int64_t top, left, height, width;
};

/* The last of the picture's channels, where that is alpha. */
bool pixels_have_alpha(const uf_picture *picture);

/* A sample in 0 to 1, by its place in the picture's samples. */
double pixels_sample(const uf_picture *picture, int64_t place);

/* The least multiple of the map's `multiple` that is not below `extent`. */
int64_t pixels_up_to_multiple(const uf_picture_map *map, int64_t extent);

/* Channel `channel` of a network's `channels` (1 or 3) that a picture has: its colours in the map's
 * order, or of `alpha` that one in all channels. Grey stands for three equal colours, and grey of
 * colours is ITU-R BT.601's. Beyond the picture's edges is what the map's border_mode says. `plane`
 * is (area.height, area.width) of `dtype`, UF_F32 or UF_F64. */
void pixels_read(const uf_picture *picture, const uf_picture_map *map, int64_t channels,
                 int64_t channel, bool alpha, struct area area, uf_dtype dtype, void *plane);

/* The picture's channel that the network's `channel` of `channels` is. */
int64_t pixels_colour(const uf_picture_map *map, int64_t channels, int64_t channel);

/* The sample, 0 to 1 where it is not beyond black and white, of a value in the network's channel.
 */
double pixels_sample_of(const uf_picture_map *map, int64_t channel, double value);

#endif
