/* test_scene.c - the pictures that examples/pix2pix learns from are functions of seed and number,
 * and their two halves show the same scene. */
#include "support/test.h"

#include <math.h>
#include <string.h>

#include "pix2pix/scene.h"

const char *const example_name = "test_scene"; /* common.h wants it */

enum { SIZE = 32, COUNT = 5, PLANE = SIZE * SIZE, ELEMENTS = 3 * PLANE };

static const size_t bytes = COUNT * ELEMENTS * sizeof(float);

static bool same_colour(const float *planes, int a, int b) {
    for (int c = 0; c < 3; ++c) {
        if (planes[c * PLANE + a] != planes[c * PLANE + b])
            return false;
    }
    return true;
}

static void test_function_of_place(void **state) {
    scenes one = scenes_create(COUNT, SIZE), other = scenes_create(COUNT, SIZE);
    (void)state;
    scenes_draw(&one, 3, 100, 1);
    scenes_draw(&other, 3, 100, 4);
    assert_memory_equal(one.labels, other.labels, bytes);
    assert_memory_equal(one.pictures, other.pictures, bytes);
    scenes_draw(&other, 3, 101, 2);
    assert_memory_equal(one.labels + ELEMENTS, other.labels, bytes - bytes / COUNT);
    assert_memory_equal(one.pictures + ELEMENTS, other.pictures, bytes - bytes / COUNT);
    scenes_draw(&other, 4, 100, 2);
    for (int i = 0; i < COUNT; ++i) {
        assert_true(memcmp(one.labels + i * ELEMENTS, other.labels + i * ELEMENTS, bytes / COUNT) !=
                    0);
    }
    scenes_free(&one);
    scenes_free(&other);
}

/* Labels have a few flat colours, pictures have many. The sky is above in both, the floor below. */
static void test_halves(void **state) {
    scenes room = scenes_create(COUNT, SIZE);
    (void)state;
    scenes_draw(&room, 1, 0, 2);
    for (int i = 0; i < COUNT; ++i) {
        const float *labels = room.labels + i * ELEMENTS, *picture = room.pictures + i * ELEMENTS;
        int palette[8], colours = 0, shades = 0;
        for (int p = 0; p < PLANE; ++p) {
            int k = 0;
            while (k < colours && !same_colour(labels, palette[k], p))
                ++k;
            assert_true(k < 6);
            if (k == colours)
                palette[colours++] = p;
            shades += p > 0 && !same_colour(picture, p - 1, p);
        }
        assert_in_range(colours, 3, 6);
        assert_true(shades > PLANE / 2);
        assert_true(same_colour(labels, 0, SIZE - 1));
        assert_false(same_colour(labels, 0, PLANE - 1));
        /* Blue outweighs red in the sky, red outweighs blue on the floor. */
        assert_true(picture[2 * PLANE] > picture[0]);
        assert_true(picture[PLANE - 1] > picture[3 * PLANE - 1]);
    }
    for (int i = 0; i < COUNT * ELEMENTS; ++i) {
        assert_true(fabsf(room.labels[i]) <= 1.0f && fabsf(room.pictures[i]) <= 1.0f);
    }
    scenes_free(&room);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_function_of_place),
        cmocka_unit_test(test_halves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
