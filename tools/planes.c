#include "planes.h"

#include <math.h>

static bool alpha_is_constant(const uf_picture *picture) {
    int64_t channels = picture->channels;
    int64_t count = picture->width * picture->height * channels;
    double first = pixels_sample(picture, channels - 1);
    for (int64_t i = channels - 1; i < count; i += channels) {
        if (pixels_sample(picture, i) != first) {
            return false;
        }
    }
    return true;
}

struct planes_plan planes_plan_for(const uf_picture *picture, const uf_picture_map *in,
                                   const uf_picture_map *out) {
    struct planes_plan plan = {.in = *in, .out = *out, .inputs = 3, .outputs = 3, .images = 1};
    plan.has_alpha = pixels_have_alpha(picture);
    plan.colours = plan.has_alpha ? picture->channels - 1 : picture->channels;
    if (plan.has_alpha) {
        plan.constant_alpha = alpha_is_constant(picture);
        plan.alpha = pixels_sample(picture, picture->channels - 1);
        plan.images = plan.constant_alpha ? 1 : 2;
    }
    return plan;
}

void planes_read(const struct planes_plan *plan, const uf_picture *picture, struct area area,
                 uf_dtype dtype, void *planes) {
    const size_t size = (size_t)(area.height * area.width) * uf_dtype_size(dtype);
    char *plane = planes;
    for (int64_t image = 0; image < plan->images; image++) {
        for (int32_t channel = 0; channel < plan->inputs; channel++) {
            pixels_read(picture, &plan->in, plan->inputs, channel, image == 1, area, dtype, plane);
            plane += size;
        }
    }
}

/* A network's output for an area. */
struct source {
    const void *planes;
    uf_dtype dtype;
    struct area area;
};

/* row[x] = or += factor * the sample of plane `channel` of image `image`, in row y. */
static void add_row(const struct planes_plan *plan, const struct source *source, int64_t image,
                    int64_t channel, int64_t y, bool first, double factor, double *row) {
    const int64_t width = source->area.width;
    const int64_t offset = ((image * plan->outputs + channel) * source->area.height + y) * width;
    for (int64_t x = 0; x < width; x++) {
        const double value = source->dtype == UF_F64
                                 ? ((const double *)source->planes)[offset + x]
                                 : (double)((const float *)source->planes)[offset + x];
        const double sample = factor * pixels_sample_of(&plan->out, channel, value);
        row[x] = first ? sample : row[x] + sample;
    }
}

/* Row `y` of the target's channel, put together from the planes it comes from. */
static void gather_row(const struct planes_plan *plan, const struct source *source, int32_t channel,
                       int64_t y, double *row) {
    const bool is_alpha = channel == plan->colours;
    if (is_alpha && plan->constant_alpha) {
        for (int64_t x = 0; x < source->area.width; x++) {
            row[x] = plan->alpha;
        }
        return;
    }
    if (!is_alpha && plan->colours == plan->outputs) {
        add_row(plan, source, 0, pixels_colour(&plan->out, plan->outputs, channel), y, true, 1.0,
                row);
        return;
    }
    for (int32_t plane = 0; plane < plan->outputs; plane++) {
        add_row(plan, source, is_alpha ? 1 : 0, plane, y, plane == 0, 1.0 / plan->outputs, row);
    }
}

static void write_values(const struct planes_target *target, const struct source *source, int64_t y,
                         int32_t channel, const double *row) {
    const struct area *area = &source->area;
    int64_t offset = (channel * target->height + area->top + y) * target->width + area->left;
    for (int64_t x = 0; x < area->width; x++) {
        if (source->dtype == UF_F64) {
            ((double *)target->values)[offset + x] = row[x];
        } else {
            ((float *)target->values)[offset + x] = (float)row[x];
        }
    }
}

static void write_samples(uf_picture *picture, struct area area, int64_t y, int32_t channel,
                          const double *row) {
    double scale = picture->depth == 16 ? 65535.0 : 255.0;
    int64_t channels = picture->channels;
    int64_t offset = ((area.top + y) * picture->width + area.left) * channels + channel;
    for (int64_t x = 0; x < area.width; x++) {
        double value = row[x] <= 0 ? 0 : row[x] >= 1 ? 1 : row[x];
        double rounded = value * scale + 0.5; /* not negative: truncation rounds to nearest */
        if (picture->depth == 16) {
            ((uint16_t *)picture->samples)[offset + x * channels] = (uint16_t)rounded;
        } else {
            ((uint8_t *)picture->samples)[offset + x * channels] = (uint8_t)rounded;
        }
    }
}

static bool all_finite(const double *row, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(row[i])) {
            return false;
        }
    }
    return true;
}

bool planes_write(const struct planes_plan *plan, struct planes_target *target, struct area area,
                  uf_dtype dtype, const void *planes, double *row) {
    const struct source source = {planes, dtype, area};
    for (int32_t channel = 0; channel < target->channels; channel++) {
        for (int64_t y = 0; y < area.height; y++) {
            gather_row(plan, &source, channel, y, row);
            if (!all_finite(row, area.width)) {
                return false;
            }
            if (target->picture != NULL) {
                write_samples(target->picture, area, y, channel, row);
            } else {
                write_values(target, &source, y, channel, row);
            }
        }
    }
    return true;
}
