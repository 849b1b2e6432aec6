/* test_resample.c - images out of pictures of any size, against plain loops in double and PyTorch's
 * numbers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/resample.h"
#include "examples/data_fixture.h"

/* ---- the plain reference ---- */

/* Channel c of a pixel in -1..1, over white and as grey or colour. */
static double pixel(const samples *p, int64_t y, int64_t x, int channels, int c) {
    double value[4] = {0};
    for (int i = 0; i < p->channels; ++i) {
        const int64_t at = (y * p->width + x) * p->pixel_stride + i * p->channel_stride;
        value[i] = p->type == SAMPLE_U8    ? ((const uint8_t *)p->values)[at] / 127.5 - 1.0
                   : p->type == SAMPLE_U16 ? ((const uint16_t *)p->values)[at] / 32767.5 - 1.0
                                           : (double)((const float *)p->values)[at];
    }
    const double opaque = p->channels % 2 == 0 ? (value[p->channels - 1] + 1.0) / 2.0 : 1.0;
    const double red = value[0], green = p->channels >= 3 ? value[1] : red,
                 blue = p->channels >= 3 ? value[2] : red;
    const double chosen = channels == 1 ? 0.299 * red + 0.587 * green + 0.114 * blue
                          : c == 0      ? red
                          : c == 1      ? green
                                        : blue;
    return opaque * chosen + 1.0 - opaque;
}

/* One pixel of the picture resized to full_width x full_height: all of the picture times a
 * triangle. */
static double resized(const samples *p, int64_t full_height, int64_t full_width, int64_t y,
                      int64_t x, int channels, int c) {
    const double ratio_y = (double)p->height / (double)full_height,
                 ratio_x = (double)p->width / (double)full_width;
    const double wide_y = fmax(ratio_y, 1.0), wide_x = fmax(ratio_x, 1.0);
    double sum = 0.0, weights = 0.0;
    for (int64_t v = 0; v < p->height; ++v) {
        const double wy =
            fmax(0.0, 1.0 - fabs((double)v + 0.5 - ((double)y + 0.5) * ratio_y) / wide_y);
        for (int64_t u = 0; wy > 0.0 && u < p->width; ++u) {
            const double wx =
                fmax(0.0, 1.0 - fabs((double)u + 0.5 - ((double)x + 0.5) * ratio_x) / wide_x);
            if (wx <= 0.0) {
                continue;
            }
            sum += wy * wx * pixel(p, v, u, channels, c);
            weights += wy * wx;
        }
    }
    return sum / weights;
}

static samples make_picture(void *values, sample_type type, int64_t width, int64_t height,
                            int channels, bool planar) {
    const samples p = {
        values, type, width, height, channels, planar ? 1 : channels, planar ? width * height : 1};
    for (int64_t i = 0; i < width * height * channels; ++i) {
        const uint64_t bits = random_bits(7, (uint64_t)(width * 1000 + height), (uint64_t)i);
        if (type == SAMPLE_U8) {
            ((uint8_t *)values)[i] = (uint8_t)(bits >> 56);
        } else if (type == SAMPLE_U16) {
            ((uint16_t *)values)[i] = (uint16_t)(bits >> 48);
        } else {
            ((float *)values)[i] = (float)((double)(bits >> 40) * 0x1p-23 - 1.0);
        }
    }
    return p;
}

static void assert_near(float got, double wanted, const char *where) {
    if (!(fabs((double)got - wanted) <= 2e-6)) {
        fail_msg("%s: %.9g instead of %.9g", where, (double)got, wanted);
    }
}

static void test_reference(void **state) {
    (void)state;
    static const struct {
        int64_t width, height, size;
    } sizes[] = {{1, 1, 4},   {1, 7, 3},    {9, 2, 5},    {28, 28, 32}, {64, 64, 64},
                 {37, 53, 8}, {100, 60, 7}, {60, 100, 1}, {33, 32, 16}, {17, 40, 17}};
    static const int channel_counts[] = {1, 3};
    float image[3 * 64 * 64];
    double *values = test_allocate(sizeof(double) * 4 * 100 * 100);
    resampler r = {0};
    for (int64_t i = 0; i < COUNT_OF(sizes); ++i) {
        for (int variant = 0; variant < 24; ++variant) {
            const int64_t size = sizes[i].size;
            const samples p = make_picture(values, (sample_type)(variant / 8), sizes[i].width,
                                           sizes[i].height, variant % 4 + 1, variant / 4 % 2 != 0);
            const int64_t shorter = p.width < p.height ? p.width : p.height;
            const int64_t full_width = (2 * p.width * size + shorter) / (2 * shorter),
                          full_height = (2 * p.height * size + shorter) / (2 * shorter);
            const int64_t left = (full_width - size) / 2, top = (full_height - size) / 2;
            const int channels = channel_counts[(i + variant) % 2];
            const bool mirrored = (i + variant) % 3 == 0;
            const resample_options options = {
                .channels = channels, .size = size, .mirrored = mirrored};
            memset(image, 0xff, sizeof image); /* NaN */
            assert_true(resample(&r, &p, &options, image));
            for (int64_t k = 0; k < channels * size * size; ++k) {
                const int64_t y = k / size % size, x = k % size;
                char where[96];
                snprintf(where, sizeof where, "picture %d, variant %d, element %d", (int)i, variant,
                         (int)k);
                assert_near(image[k],
                            resized(&p, full_height, full_width, top + y,
                                    left + (mirrored ? size - 1 - x : x), channels,
                                    (int)(k / (size * size))),
                            where);
            }
        }
    }
    resampler_free(&r);
    free(values);
}

/* torch.nn.functional.interpolate(x, size, mode='bilinear', antialias=True) of PyTorch 1.13 in f64,
 * the middle of the result. */
static void test_pytorch(void **state) {
    (void)state;
    static const struct {
        int64_t size;
        double image[25];
    } cases[] = {
        {2, {-0.271098, -0.095565, 0.163433, -0.00799}},
        {3,
         {-0.45877, -0.137165, 0.218151, -0.11497, -0.181734, -0.111111, 0.294171, 0.174499,
          -0.04977}},
        {5, {-0.207843, 0.584314,  -0.631373, 0.160784,  0.952941,  0.223529, -0.905882,
             -0.027451, 0.85098,   -0.278431, -0.772549, 0.192157,  -0.85098, 0.113725,
             -0.929412, 0.819608,  -0.137255, 0.913725,  -0.043137, -1.0,     0.984314,
             0.113725,  -0.756863, 0.380392,  -0.490196}},
    };
    static const double first_row_of_8[] = {-0.639929, -0.135829, 0.368271, 0.142246,
                                            -0.631373, -0.127273, 0.376827, 0.880927};
    uint8_t values[35];
    for (int i = 0; i < 35; ++i) {
        const int y = i / 7, x = i % 7;
        values[i] = (uint8_t)(37 * y * y + 11 * y * x + 101 * x + 7 * y);
    }
    const samples p = {values, SAMPLE_U8, 7, 5, 1, 1, 0};
    resampler r = {0};
    float image[64];
    for (int64_t i = 0; i < COUNT_OF(cases); ++i) {
        const int64_t size = cases[i].size;
        assert_true(resample(&r, &p, &(resample_options){.channels = 1, .size = size}, image));
        for (int64_t k = 0; k < size * size; ++k) {
            assert_near(image[k], cases[i].image[k], "PyTorch's");
        }
    }
    assert_true(resample(&r, &p, &(resample_options){.channels = 1, .size = 8}, image));
    for (int k = 0; k < 8; ++k) {
        assert_near(image[k], first_row_of_8[k], "PyTorch's, larger");
    }
    resampler_free(&r);
}

/* A random crop is a window of the picture as it is; over many draws it is every window. */
static void test_random_crop(void **state) {
    (void)state;
    float values[9 * 7], image[5 * 5];
    const samples p = make_picture(values, SAMPLE_F32, 9, 7, 1, false);
    resampler r = {0};
    bool seen[5][3] = {{false}};
    for (uint64_t draw = 0; draw < 500; ++draw) {
        const resample_options options = {
            .channels = 1, .size = 5, .random_crop = true, .random = random_bits(3, draw, 0)};
        assert_true(resample(&r, &p, &options, image));
        int found = 0;
        for (int left = 0; left < 5; ++left) {
            for (int top = 0; top < 3; ++top) {
                bool same = true;
                for (int i = 0; i < 25; ++i) {
                    same = same && image[i] == values[(top + i / 5) * 9 + left + i % 5];
                }
                found += same;
                seen[left][top] = seen[left][top] || same;
            }
        }
        assert_int_equal(found, 1);
    }
    for (int i = 0; i < 15; ++i) {
        assert_true(seen[i / 3][i % 3]);
    }
    /* A smaller picture is resized until its short side fits; then there is no choice across. */
    const samples small = make_picture(values, SAMPLE_F32, 3, 3, 1, false);
    const resample_options options = {
        .channels = 1, .size = 5, .random_crop = true, .random = random_bits(3, 0, 0)};
    assert_true(resample(&r, &small, &options, image));
    for (int i = 0; i < 25; ++i) {
        assert_near(image[i], resized(&small, 5, 5, i / 5, i % 5, 1, 0), "small");
    }
    resampler_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),
        cmocka_unit_test(test_pytorch),
        cmocka_unit_test(test_random_crop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
