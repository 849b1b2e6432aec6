/* test_transparency.c - colours for pixels that nobody sees. */
#include "support/test.h"

#include <string.h>

#include "transparency.h"

/* Width x height pixels of grey and alpha, and the greys that are to come out. */
static const struct {
    int64_t width, height;
    uint16_t pixels[32], expected[16];
} rows[] = {
    /* clang-format off: one row each */
    /* From both sides, and the middle is the mean of what came. */
    {5, 1, {10, 255, 0, 0, 0, 0, 0, 0, 50, 1}, {10, 10, 30, 50, 50}},
    /* Rounded to nearest; a round sees nothing of itself. */
    {3, 1, {10, 9, 77, 0, 13, 9}, {10, 12, 13}},
    {4, 1, {10, 9, 77, 0, 88, 0, 13, 9}, {10, 10, 13, 13}},
    /* Eight neighbours. */
    {3, 3, {1, 1, 2, 1, 3, 1, 4, 1, 99, 0, 5, 1, 6, 1, 7, 1, 16, 1}, {1, 2, 3, 4, 6, 5, 6, 7, 16}},
    /* One visible pixel fills a column; rows do not run into each other. */
    {1, 4, {0, 0, 0, 0, 0, 0, 8, 1}, {8, 8, 8, 8}},
    {2, 2, {9, 1, 0, 0, 0, 0, 5, 0}, {9, 9, 9, 9}},
    /* Nothing is hidden; nothing is visible. */
    {2, 1, {3, 1, 4, 1}, {3, 4}},
    {2, 1, {3, 0, 4, 0}, {3, 4}},
    /* clang-format on */
};

static void test_rows(void **state) {
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(rows); ++i) {
        for (int32_t depth = 8; depth <= 16; depth += 8) {
            const int64_t count = rows[i].width * rows[i].height;
            uint8_t bytes[32];
            uint16_t wide[32];
            uf_picture picture = uf_picture_default();
            picture.width = rows[i].width;
            picture.height = rows[i].height;
            picture.channels = 2;
            picture.depth = depth;
            picture.samples = depth == 8 ? (void *)bytes : (void *)wide;
            for (int64_t k = 0; k < 2 * count; ++k) {
                bytes[k] = (uint8_t)rows[i].pixels[k];
                wide[k] = rows[i].pixels[k];
            }
            assert_true(transparency_fill(&picture));
            for (int64_t k = 0; k < count; ++k) {
                assert_int_equal(depth == 8 ? bytes[2 * k] : wide[2 * k], rows[i].expected[k]);
                assert_int_equal(depth == 8 ? bytes[2 * k + 1] : wide[2 * k + 1],
                                 rows[i].pixels[2 * k + 1]);
            }
        }
    }
}

/* Without alpha nothing is hidden. */
static void test_opaque(void **state) {
    (void)state;
    uint8_t samples[6] = {0, 1, 2, 0, 0, 0};
    const uint8_t same[6] = {0, 1, 2, 0, 0, 0};
    uf_picture picture = uf_picture_default();
    picture.width = 2;
    picture.height = 1;
    picture.channels = 3;
    picture.depth = 8;
    picture.samples = samples;
    assert_true(transparency_fill(&picture));
    assert_memory_equal(samples, same, sizeof same);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_opaque),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
