/* scene.h - pairs of pictures for image-to-image translation that need no download: random balls of
 * four materials on a chequered floor, as a map of labels and as light makes them look. */
#ifndef EXAMPLES_PIX2PIX_SCENE_H
#define EXAMPLES_PIX2PIX_SCENE_H

#include <stdint.h>

/* Draw scene number `index` of `seed`, a function of both: `labels` has one flat colour for each of
 * sky, floor, red, blue, yellow and mirroring balls; `picture` is the same scene ray-traced, with
 * shadows, highlights, textures and reflections. Both get (3, size, size) in -1..1. */
void scene_draw(uint64_t seed, uint64_t index, int64_t size, float *labels, float *picture);

/* Room for `count` scenes, and what is in it: (count, 3, size, size) each. */
typedef struct scenes {
    int64_t count, size;
    float *labels, *pictures;
} scenes;

scenes scenes_create(int64_t count, int64_t size);
void scenes_free(scenes *room);

/* Draw the scenes from number `first` on, by `threads` threads. */
void scenes_draw(const scenes *room, uint64_t seed, uint64_t first, int threads);

#endif
