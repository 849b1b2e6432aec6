#include "planes.h"

#include <math.h>

static double largest_sample(const uf_picture *picture) {
    return picture->depth == 16 ? 65535.0 : 255.0;
}

static double sample_at(const uf_picture *picture, int64_t index) {
    return picture->depth == 16 ? (double)((const uint16_t *)picture->samples)[index]
                                : (double)((const uint8_t *)picture->samples)[index];
}

static bool alpha_is_constant(const uf_picture *picture) {
    int64_t channels = picture->channels;
    int64_t count = picture->width * picture->height * channels;
    double first = sample_at(picture, channels - 1);
    for (int64_t i = channels - 1; i < count; i += channels) {
        if (sample_at(picture, i) != first) {
            return false;
        }
    }
    return true;
}

struct planes_plan planes_plan_for(const uf_picture *picture) {
    struct planes_plan plan = {.images = 1};
    plan.has_alpha = picture->channels % 2 == 0;
    plan.colours = plan.has_alpha ? picture->channels - 1 : picture->channels;
    if (plan.has_alpha) {
        plan.constant_alpha = alpha_is_constant(picture);
        plan.alpha = sample_at(picture, picture->channels - 1) / largest_sample(picture);
        plan.images = plan.constant_alpha ? 1 : 2;
    }
    return plan;
}

static int64_t clamp(int64_t value, int64_t count) {
    return value < 0 ? 0 : value >= count ? count - 1 : value;
}

/* One row of one channel. */
static void read_row(const uf_picture *picture, int64_t y, int64_t left, int64_t width,
                     int32_t channel, uf_dtype dtype, void *row) {
    double scale = largest_sample(picture);
    int64_t start = clamp(y, picture->height) * picture->width;
    for (int64_t x = 0; x < width; x++) {
        int64_t pixel = start + clamp(left + x, picture->width);
        double value = sample_at(picture, pixel * picture->channels + channel) / scale;
        if (dtype == UF_F64) {
            ((double *)row)[x] = value;
        } else {
            ((float *)row)[x] = (float)value;
        }
    }
}

void planes_read(const struct planes_plan *plan, const uf_picture *picture, struct area area,
                 uf_dtype dtype, void *planes) {
    size_t row_size = (size_t)area.width * uf_dtype_size(dtype);
    char *row = planes;
    for (int64_t image = 0; image < plan->images; image++) {
        for (int32_t plane = 0; plane < 3; plane++) {
            int32_t channel = image == 1 ? plan->colours : plan->colours == 3 ? plane : 0;
            for (int64_t y = 0; y < area.height; y++) {
                read_row(picture, area.top + y, area.left, area.width, channel, dtype, row);
                row += row_size;
            }
        }
    }
}

/* row[x] = or += factor * plane[x], where `plane` starts at element `offset`. */
static void add_row(double *row, int64_t width, bool first, double factor, uf_dtype dtype,
                    const void *planes, int64_t offset) {
    for (int64_t x = 0; x < width; x++) {
        double value = dtype == UF_F64 ? ((const double *)planes)[offset + x]
                                       : (double)((const float *)planes)[offset + x];
        row[x] = first ? factor * value : row[x] + factor * value;
    }
}

/* Row `y` of the target's channel, put together from the planes it comes from. */
static void gather_row(const struct planes_plan *plan, struct area area, int32_t channel, int64_t y,
                       uf_dtype dtype, const void *planes, double *row) {
    bool is_alpha = channel == plan->colours;
    if (is_alpha && plan->constant_alpha) {
        for (int64_t x = 0; x < area.width; x++) {
            row[x] = plan->alpha;
        }
        return;
    }
    int64_t plane_size = area.height * area.width;
    int64_t offset = (is_alpha ? 3 * plane_size : 0) + y * area.width;
    if (!is_alpha && plan->colours == 3) {
        add_row(row, area.width, true, 1.0, dtype, planes, offset + channel * plane_size);
        return;
    }
    for (int32_t plane = 0; plane < 3; plane++) {
        add_row(row, area.width, plane == 0, 1.0 / 3.0, dtype, planes, offset + plane * plane_size);
    }
}

static void write_values(const struct planes_target *target, struct area area, int64_t y,
                         int32_t channel, const double *row) {
    int64_t offset = (channel * target->height + area.top + y) * target->width + area.left;
    for (int64_t x = 0; x < area.width; x++) {
        if (target->dtype == UF_F64) {
            ((double *)target->values)[offset + x] = row[x];
        } else {
            ((float *)target->values)[offset + x] = (float)row[x];
        }
    }
}

static void write_samples(uf_picture *picture, struct area area, int64_t y, int32_t channel,
                          const double *row) {
    double scale = largest_sample(picture);
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
    for (int32_t channel = 0; channel < target->channels; channel++) {
        for (int64_t y = 0; y < area.height; y++) {
            gather_row(plan, area, channel, y, dtype, planes, row);
            if (!all_finite(row, area.width)) {
                return false;
            }
            if (target->picture != NULL) {
                write_samples(target->picture, area, y, channel, row);
            } else {
                write_values(target, area, y, channel, row);
            }
        }
    }
    return true;
}
