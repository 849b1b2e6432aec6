#include "transparency.h"

#include <stdlib.h>

#include "pixels.h"

/* A pixel has no colour, waits for one in this round or the next, or has one. */
enum { UNKNOWN, QUEUED, KNOWN };

struct filling {
    uf_picture *picture;
    uint8_t *states;          /* one a pixel */
    int64_t *queue;           /* pixels, round by round */
    int64_t begin, end, last; /* this round's are begin ... end, the next round's end ... last */
};

static int64_t sample(const uf_picture *picture, int64_t place) {
    return picture->depth == 16 ? ((const uint16_t *)picture->samples)[place]
                                : ((const uint8_t *)picture->samples)[place];
}

static void set_sample(const uf_picture *picture, int64_t place, int64_t value) {
    if (picture->depth == 16) {
        ((uint16_t *)picture->samples)[place] = (uint16_t)value;
    } else {
        ((uint8_t *)picture->samples)[place] = (uint8_t)value;
    }
}

/* The eight neighbours that are in the picture; returns their number. */
static int neighbours(const uf_picture *picture, int64_t pixel, int64_t around[8]) {
    const int64_t y = pixel / picture->width, x = pixel % picture->width;
    int count = 0;
    for (int64_t row = y - 1; row <= y + 1; row++) {
        for (int64_t column = x - 1; column <= x + 1; column++) {
            if (row >= 0 && row < picture->height && column >= 0 && column < picture->width &&
                (row != y || column != x)) {
                around[count++] = row * picture->width + column;
            }
        }
    }
    return count;
}

/* The pixels without colour around this one wait for the next round. */
static void queue_around(struct filling *filling, int64_t pixel) {
    int64_t around[8];
    const int count = neighbours(filling->picture, pixel, around);
    for (int i = 0; i < count; i++) {
        if (filling->states[around[i]] == UNKNOWN) {
            filling->states[around[i]] = QUEUED;
            filling->queue[filling->last++] = around[i];
        }
    }
}

/* The mean of the neighbours that had a colour before this round. */
static void colour(const struct filling *filling, int64_t pixel) {
    const uf_picture *picture = filling->picture;
    int64_t around[8];
    const int count = neighbours(picture, pixel, around);
    for (int32_t channel = 0; channel + 1 < picture->channels; channel++) {
        int64_t sum = 0, known = 0;
        for (int i = 0; i < count; i++) {
            if (filling->states[around[i]] == KNOWN) {
                sum += sample(picture, around[i] * picture->channels + channel);
                known++;
            }
        }
        set_sample(picture, pixel * picture->channels + channel, (sum + known / 2) / known);
    }
}

static void fill(struct filling *filling) {
    const int64_t count = filling->picture->width * filling->picture->height;
    for (int64_t i = 0; i < count; i++) {
        if (filling->states[i] == KNOWN) {
            queue_around(filling, i);
        }
    }
    while (filling->begin < filling->last) {
        filling->end = filling->last;
        for (int64_t i = filling->begin; i < filling->end; i++) {
            colour(filling, filling->queue[i]);
        }
        for (int64_t i = filling->begin; i < filling->end; i++) {
            filling->states[filling->queue[i]] = KNOWN;
        }
        for (int64_t i = filling->begin; i < filling->end; i++) {
            queue_around(filling, filling->queue[i]);
        }
        filling->begin = filling->end;
    }
}

bool transparency_fill(uf_picture *picture) {
    if (!pixels_have_alpha(picture)) {
        return true;
    }
    const int64_t count = picture->width * picture->height;
    int64_t hidden = 0;
    for (int64_t i = 0; i < count; i++) {
        hidden += sample(picture, (i + 1) * picture->channels - 1) == 0;
    }
    if (hidden == 0) {
        return true;
    }
    struct filling filling = {.picture = picture,
                              .states = malloc((size_t)count),
                              .queue = malloc((size_t)hidden * sizeof *filling.queue)};
    const bool has_memory = filling.states != NULL && filling.queue != NULL;
    if (has_memory) {
        for (int64_t i = 0; i < count; i++) {
            const bool visible = sample(picture, (i + 1) * picture->channels - 1) != 0;
            filling.states[i] = visible ? KNOWN : UNKNOWN;
        }
        fill(&filling);
    }
    free(filling.states);
    free(filling.queue);
    return has_memory;
}
