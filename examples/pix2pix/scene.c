#include "pix2pix/scene.h"

#include "common/common.h"

#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

enum {
    SKY,
    FLOOR,
    RED,
    BLUE,
    YELLOW,
    MIRROR,
    MATERIALS,
    MOST_BALLS = 6,
    FINE = 2,
    MOST_THREADS = 16
};

typedef struct vec {
    double x, y, z;
} vec;

typedef struct ball {
    vec centre;
    double radius;
    int material;
} ball;

typedef struct scene {
    int count;
    ball balls[MOST_BALLS];
    vec light; /* towards the sun; of length 1 */
} scene;

static const vec flat[MATERIALS] = {
    [SKY] = {0.27, 0.51, 0.71},  [FLOOR] = {0.50, 0.25, 0.50},  [RED] = {0.86, 0.08, 0.24},
    [BLUE] = {0.00, 0.00, 0.56}, [YELLOW] = {0.98, 0.67, 0.12}, [MIRROR] = {0.60, 0.98, 0.60},
};

static vec add(vec a, vec b) {
    return (vec){a.x + b.x, a.y + b.y, a.z + b.z};
}

static vec times(vec a, double k) {
    return (vec){a.x * k, a.y * k, a.z * k};
}

static double dot(vec a, vec b) {
    return a.x * b.x + a.y * b.y + a.z * b.z;
}

static vec unit(vec a) {
    return times(a, 1.0 / sqrt(dot(a, a)));
}

static vec mixed(vec a, vec b, double share) {
    return add(times(a, 1.0 - share), times(b, share));
}

/* ---- the scene ---- */

static double uniform(uint64_t seed, uint64_t index, uint64_t *draw) {
    return (double)(random_bits(seed, index, (*draw)++) >> 11) * 0x1p-53;
}

/* Three to six balls that stand on the floor and do not touch; a place that is taken is left. */
static scene scene_make(uint64_t seed, uint64_t index) {
    uint64_t draw = 0;
    scene s = {0};
    const int wanted = 3 + (int)(4.0 * uniform(seed, index, &draw));
    for (int attempt = 0; attempt < 40 && s.count < wanted; ++attempt) {
        const double radius = 0.35 + 0.5 * uniform(seed, index, &draw);
        ball b = {.radius = radius};
        b.centre.z = -0.8 + 3.2 * uniform(seed, index, &draw);
        b.centre.x = (uniform(seed, index, &draw) - 0.5) * (3.4 + 0.8 * b.centre.z);
        b.centre.y = radius;
        b.material = RED + (int)((MATERIALS - RED) * uniform(seed, index, &draw));
        bool taken = false;
        for (int i = 0; i < s.count; ++i) {
            const vec d = add(b.centre, times(s.balls[i].centre, -1.0));
            taken = taken || sqrt(dot(d, d)) < 1.05 * (radius + s.balls[i].radius);
        }
        if (!taken) s.balls[s.count++] = b;
    }
    return s;
}

/* ---- light ---- */

typedef struct hit {
    double distance;
    int material;
    vec at, normal;
} hit;

/* The first thing that a ray meets; `direction` has length 1. */
static hit meet(const scene *s, vec from, vec direction) {
    hit h = {INFINITY, SKY, {0, 0, 0}, {0, 0, 0}};
    if (direction.y < 0.0) {
        h.distance = -from.y / direction.y;
        h.material = FLOOR;
        h.at = add(from, times(direction, h.distance));
        h.normal = (vec){0, 1, 0};
    }
    for (int i = 0; i < s->count; ++i) {
        const vec to = add(s->balls[i].centre, times(from, -1.0));
        const double along = dot(to, direction), radius = s->balls[i].radius;
        const double inside = along * along - dot(to, to) + radius * radius;
        const double distance = inside > 0.0 ? along - sqrt(inside) : -1.0;
        if (distance > 1e-6 && distance < h.distance) {
            h.distance = distance;
            h.material = s->balls[i].material;
            h.at = add(from, times(direction, distance));
            h.normal = times(add(h.at, times(s->balls[i].centre, -1.0)), 1.0 / radius);
        }
    }
    return h;
}

static vec sky(vec direction) {
    return mixed((vec){0.95, 0.95, 0.92}, (vec){0.25, 0.48, 0.86},
                 sqrt(fmin(fmax(direction.y, 0.0), 1.0)));
}

/* The colour of a surface in white light. */
static vec surface(const hit *h) {
    switch (h->material) {
    case FLOOR: {
        const bool dark = ((int64_t)floor(h->at.x / 0.7) + (int64_t)floor(h->at.z / 0.7)) % 2 != 0;
        return dark ? (vec){0.36, 0.24, 0.17} : (vec){0.85, 0.76, 0.62};
    }
    case RED: /* white rings */
        return (int)((h->normal.y + 1.0) * 3.5) % 2 != 0 ? (vec){0.95, 0.93, 0.9}
                                                         : (vec){0.82, 0.10, 0.12};
    case BLUE:
        return (vec){0.10, 0.22, 0.75};
    default: /* a yellow ball with orange sectors */
        return (int)((atan2(h->normal.z, h->normal.x) + 4.0) * 6.0 / 3.14159265358979) % 2 != 0
                   ? (vec){0.98, 0.80, 0.18}
                   : (vec){0.93, 0.45, 0.10};
    }
}

static vec seen(const scene *s, vec from, vec direction, int mirrors) {
    const hit h = meet(s, from, direction);
    if (h.material == SKY) return sky(direction);
    const vec off = add(direction, times(h.normal, -2.0 * dot(direction, h.normal)));
    const vec start = add(h.at, times(h.normal, 1e-6));
    if (h.material == MIRROR && mirrors > 0) {
        const vec reflected = seen(s, start, off, mirrors - 1);
        return add(times(reflected, 0.85), (vec){0.02, 0.05, 0.03});
    }
    const bool lit = meet(s, start, s->light).material < RED;
    const double facing = lit ? fmax(dot(h.normal, s->light), 0.0) : 0.0;
    /* Light from above and, from below, off the floor; the floor is darker below a ball. */
    double ambient = 0.32 + 0.13 * h.normal.y;
    for (int i = 0; h.material == FLOOR && i < s->count; ++i) {
        const vec d = add(h.at, times(s->balls[i].centre, -1.0));
        const double near = s->balls[i].radius * s->balls[i].radius / dot(d, d);
        ambient *= 1.0 - 0.6 * near * near;
    }
    vec colour = times(surface(&h), ambient + 0.75 * facing);
    if (lit && h.material == BLUE) {
        const double shine = pow(fmax(dot(off, s->light), 0.0), 40.0);
        colour = add(colour, (vec){shine, shine, shine});
    }
    if (h.material == BLUE) colour = add(colour, times(sky(off), 0.12));
    const double haze = 1.0 - exp(-0.0025 * h.distance * h.distance);
    return mixed(colour, (vec){0.95, 0.95, 0.92}, haze);
}

/* ---- the camera ---- */

static void put(float *planes, int64_t size, int64_t y, int64_t x, vec colour) {
    const double channels[3] = {colour.x, colour.y, colour.z};
    for (int64_t c = 0; c < 3; ++c) {
        planes[(c * size + y) * size + x] = (float)(2.0 * fmin(fmax(channels[c], 0.0), 1.0) - 1.0);
    }
}

/* The ray through a place of the picture, 0..1 from left to right and from top to bottom. */
static vec ray(double down, double right) {
    const vec forward = unit((vec){0.0, -0.28, 1.0}), up = {0.0, forward.z, -forward.y};
    return unit(add(forward, add((vec){1.1 * (right - 0.5), 0, 0}, times(up, 1.1 * (0.5 - down)))));
}

void scene_draw(uint64_t seed, uint64_t index, int64_t size, float *labels, float *picture) {
    const vec eye = {0.0, 1.9, -4.4};
    scene s = scene_make(seed, index);
    for (int64_t y = 0; y < size; ++y) {
        for (int64_t x = 0; x < size; ++x) {
            const vec middle =
                ray(((double)y + 0.5) / (double)size, ((double)x + 0.5) / (double)size);
            put(labels, size, y, x, flat[meet(&s, eye, middle).material]);
            vec sum = {0, 0, 0};
            for (int i = 0; i < FINE * FINE; ++i) { /* the sun has an extent: soft shadows */
                const double down = (i / FINE + 0.5) / FINE, right = (i % FINE + 0.5) / FINE;
                s.light = unit((vec){-0.62 + 0.1 * (right - 0.5), 1.0, -0.45 + 0.1 * (down - 0.5)});
                const vec fine =
                    ray(((double)y + down) / (double)size, ((double)x + right) / (double)size);
                sum = add(sum, seen(&s, eye, fine, 3));
            }
            put(picture, size, y, x, times(sum, 1.0 / (FINE * FINE)));
        }
    }
}

/* ---- many of them ---- */

scenes scenes_create(int64_t count, int64_t size) {
    const int64_t elements = count * 3 * size * size;
    return (scenes){count, size, allocate(elements, sizeof(float)),
                    allocate(elements, sizeof(float))};
}

void scenes_free(scenes *room) {
    free(room->labels);
    free(room->pictures);
}

/* Every `stride`-th scene from `begin` on. */
typedef struct share {
    const scenes *room;
    uint64_t seed, first;
    int64_t begin, stride;
} share;

static void *draw_share(void *argument) {
    const share *s = argument;
    const int64_t size = s->room->size, elements = 3 * size * size;
    for (int64_t i = s->begin; i < s->room->count; i += s->stride) {
        scene_draw(s->seed, s->first + (uint64_t)i, size, s->room->labels + i * elements,
                   s->room->pictures + i * elements);
    }
    return NULL;
}

void scenes_draw(const scenes *room, uint64_t seed, uint64_t first, int threads) {
    pthread_t others[MOST_THREADS];
    share shares[MOST_THREADS];
    threads = threads < MOST_THREADS ? threads : MOST_THREADS;
    threads = threads < room->count ? threads : (int)room->count;
    for (int i = threads - 1; i >= 0; --i) { /* the first share is the caller's */
        shares[i] = (share){room, seed, first, i, threads};
        if (i == 0) {
            draw_share(&shares[0]);
        } else if (pthread_create(&others[i], NULL, draw_share, &shares[i]) != 0) {
            fail("cannot start a thread that draws scenes");
        }
    }
    for (int i = 1; i < threads; ++i) pthread_join(others[i], NULL);
}
