/* test_bicubic.c - the bicubic filter of examples/superres, held to PyTorch's. */
#include "support/test.h"

#include <math.h>

#include "superres/bicubic.h"

const char *const example_name = "test_bicubic"; /* common.h wants it */

enum { HEIGHT = 6, WIDTH = 8 };

/* torch.nn.functional.interpolate(mode="bicubic", antialias=True) of PyTorch 1.13 in f64 makes
 * these of x[0, 0, y, x] = (7 y y + 13 x y + 5 x) % 31 / 31: both axes smaller; both larger, the
 * first 24 elements; both at ratios that are no integers. */
static const double halved[] = {0.356562837, 0.597688505, 0.647958681, 0.551957898,
                                0.59689577,  0.727236383, 0.633573525, 0.75596886,
                                0.567479561, 0.333892151, 0.723658641, 0.492916847};
static const double doubled[] = {-0.030890724, -0.000990318, 0.062249229, 0.153359227, 0.267893145,
                                 0.352096181,  0.405968335,  0.488103356, 0.598501245, 0.708899134,
                                 0.819297023,  0.926937559,  1.031820742, 0.805191419, 0.283715841,
                                 0.037532091,  0.005644122,  0.075228714, 0.222592688, 0.302010978,
                                 0.303122057,  0.376997734,  0.523638009, 0.602474909};
static const double smaller[] = {0.267243157, 0.587188845, 0.553936316, 0.774566016,
                                 0.785712291, 0.711478185, 0.448037837, 0.546780652,
                                 0.656617972, 0.535269416, 0.54747364,  0.559677865};
static const double larger[] = {-0.015557767, 0.066799693, 0.196525541, 0.327857261, 0.433169592,
                                0.556276948,  0.68982077,  0.820735454, 1.004088053, 0.631594769,
                                0.076031578,  0.110497239, 0.480991897, 0.609618785, 0.349112022,
                                0.803423234,  0.768860387, 0.447581644, 0.198531895, 0.619443351,
                                0.563370404,  0.192001761, 0.747247718, 0.871977722};

static void test_pytorch(void **state) {
    static const struct {
        int64_t height, width, count;
        const double *expected;
    } cases[] = {
        {3, 4, 12, halved}, {12, 16, 24, doubled}, {4, 3, 12, smaller}, {7, 11, 24, larger}};
    float in[HEIGHT * WIDTH], out[12 * 16];
    (void)state;
    for (int y = 0; y < HEIGHT; ++y) {
        for (int x = 0; x < WIDTH; ++x) {
            in[y * WIDTH + x] = (float)((7 * y * y + 13 * x * y + 5 * x) % 31) / 31.0f;
        }
    }
    for (int64_t c = 0; c < COUNT_OF(cases); ++c) {
        bicubic(in, HEIGHT, WIDTH, out, cases[c].height, cases[c].width);
        for (int64_t i = 0; i < cases[c].count; ++i) {
            /* The numbers have 9 digits, and both inputs and results are rounded to f32. */
            if (!(fabs((double)out[i] - cases[c].expected[i]) < 2e-7)) {
                fail_msg("case %lld, element %lld: %.9g, PyTorch has %.9g", (long long)c,
                         (long long)i, (double)out[i], cases[c].expected[i]);
            }
        }
    }
}

/* The same size changes nothing, and an even picture stays even at every size. */
static void test_plain(void **state) {
    float in[HEIGHT * WIDTH], out[40 * 40];
    (void)state;
    for (int i = 0; i < HEIGHT * WIDTH; ++i)
        in[i] = (float)(i * i % 17);
    bicubic(in, HEIGHT, WIDTH, out, HEIGHT, WIDTH);
    for (int i = 0; i < HEIGHT * WIDTH; ++i)
        assert_true(out[i] == in[i]);
    for (int i = 0; i < HEIGHT * WIDTH; ++i)
        in[i] = 0.75f;
    for (int64_t side = 1; side <= 40; ++side) {
        bicubic(in, HEIGHT, WIDTH, out, side, 41 - side);
        for (int64_t i = 0; i < side * (41 - side); ++i) {
            assert_true(fabs((double)out[i] - 0.75) < 1e-7);
        }
    }
}

/* A window of -1..1 at half its size in 0..1, and at a quarter in the levels of a file. */
static void test_pair(void **state) {
    enum { SIDE = 32, HALF = SIDE / 2, QUARTER = SIDE / 4 };
    float window[SIDE * SIDE], large[HALF * HALF], small[QUARTER * QUARTER];
    float expected[HALF * HALF];
    (void)state;
    for (int i = 0; i < SIDE * SIDE; ++i) {
        window[i] = i / SIDE % 8 < 4 ? (float)(i * 37 % 256) / 127.5f - 1.0f : (float)(i % 9 < 4);
    }
    bicubic_pair(window, SIDE, large, small);
    bicubic(window, SIDE, SIDE, expected, HALF, HALF);
    for (int i = 0; i < HALF * HALF; ++i) {
        const double clamped = fmin(fmax(0.5 + 0.5 * (double)expected[i], 0.0), 1.0);
        assert_true(fabs((double)large[i] - clamped) < 1e-6);
    }
    bicubic(large, HALF, HALF, expected, QUARTER, QUARTER);
    for (int i = 0; i < QUARTER * QUARTER; ++i) {
        const double level = (double)small[i] * 255.0;
        const double clamped = fmin(fmax((double)expected[i], 0.0), 1.0);
        assert_true(fabs(level - round(level)) < 1e-4 && level >= 0.0 && level <= 255.0);
        assert_true(fabs((double)small[i] - clamped) <= 0.5001 / 255.0);
    }
}

static void test_psnr(void **state) {
    enum { SIDE = 10 };
    float original[SIDE * SIDE], image[SIDE * SIDE];
    (void)state;
    for (int i = 0; i < SIDE * SIDE; ++i) {
        original[i] = 0.5f;
        image[i] = i % 2 == 0 ? 0.6f : 0.4f;
    }
    assert_true(fabs(psnr(image, original, SIDE, 2) - 20.0) < 1e-5);
    assert_true(psnr(original, original, SIDE, 2) == 100.0);
    image[0] = 1e30f; /* in the border, and beyond it clamped: an error of 0.5 */
    assert_true(fabs(psnr(image, original, SIDE, 1) - 20.0) < 1e-5);
    const double sum = 99 * 0.01 + 0.25;
    assert_true(fabs(psnr(image, original, SIDE, 0) + 10.0 * log10(sum / 100)) < 1e-5);
    image[55] = NAN;
    assert_true(isnan(psnr(image, original, SIDE, 2)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pytorch),
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_pair),
        cmocka_unit_test(test_psnr),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
