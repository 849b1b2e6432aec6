/* test_store.c - stores: open and sealed, the same name twice, aliases, copies, versions. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uf_context *context_of(void **state) {
    return *state;
}

static int set_up(void **state) {
    *state = test_context(1);
    return 0;
}

static int tear_down(void **state) {
    uf_context_destroy(*state);
    return 0;
}

static void test_declare(void **state) {
    uf_store *store = NULL;
    assert_ok(uf_store_create(context_of(state), "net", &store));
    assert_string_equal(uf_store_name(store), "net");
    assert_int_equal(uf_store_dtype(store), UF_F32);
    assert_ok(uf_store_declare(store, "a.weight", UF_SHAPE(2, 3), UF_ROLE_PARAMETER));
    assert_ok(uf_store_declare(store, "a.weight", UF_SHAPE(2, 3), UF_ROLE_PARAMETER));
    assert_ok(uf_store_declare(store, "a.count", UF_SCALAR, UF_ROLE_COUNTER));
    assert_int_equal(uf_store_size(store), 2);
    assert_error(uf_store_declare(store, "a.weight", UF_SHAPE(3, 2), UF_ROLE_PARAMETER),
                 UF_ERROR_SHAPE, "a.weight", "(2, 3)", "(3, 2)", "net");
    assert_error(uf_store_declare(store, "a.weight", UF_SHAPE(2, 3, 1), UF_ROLE_PARAMETER),
                 UF_ERROR_SHAPE, "a.weight", "(2, 3, 1)");
    assert_error(uf_store_declare(store, "a.weight", UF_SHAPE(2, 3), UF_ROLE_BUFFER),
                 UF_ERROR_SHAPE, "a.weight", "parameter", "buffer");
    assert_error(uf_store_declare(store, "", UF_SHAPE(1), UF_ROLE_BUFFER),
                 UF_ERROR_INVALID_ARGUMENT, "name");
    assert_error(uf_store_declare(store, NULL, UF_SHAPE(1), UF_ROLE_BUFFER),
                 UF_ERROR_INVALID_ARGUMENT, "name");
    assert_error(uf_store_declare(store, "b", UF_SHAPE(1), (uf_role)7), UF_ERROR_INVALID_ARGUMENT,
                 "7");
    assert_error(uf_store_declare(store, "b", UF_SHAPE(-1), UF_ROLE_BUFFER),
                 UF_ERROR_INVALID_ARGUMENT, "b", "(-1,)");
    assert_error(
        uf_store_declare(store, "b", UF_SHAPE(INT64_C(1) << 40, INT64_C(1) << 40), UF_ROLE_BUFFER),
        UF_ERROR_INVALID_ARGUMENT, "b", "1099511627776", "overflow");
    char name[2 * UF_NAME_SIZE];
    memset(name, 'n', sizeof name);
    name[UF_NAME_SIZE] = '\0';
    assert_error(uf_store_declare(store, name, UF_SHAPE(1), UF_ROLE_BUFFER),
                 UF_ERROR_INVALID_ARGUMENT, "159");
    name[UF_NAME_SIZE - 1] = '\0';
    assert_ok(uf_store_declare(store, name, UF_SHAPE(1), UF_ROLE_BUFFER));
    assert_int_equal(uf_store_size(store), 3);
    uf_store_destroy(store);
}

static void test_sealed(void **state) {
    uf_store *store = NULL;
    uf_tensor *tensor = NULL;
    assert_ok(uf_store_create(context_of(state), "net", &store));
    assert_ok(uf_store_declare(store, "w", UF_SHAPE(3), UF_ROLE_PARAMETER));
    assert_error(uf_store_tensor(store, "v", &tensor), UF_ERROR_NOT_FOUND, "net", "v");
    assert_null(tensor);
    assert_ok(uf_store_declare(store, "v", UF_SHAPE(70), UF_ROLE_PARAMETER)); /* still open */
    assert_ok(uf_store_tensor(store, "w", &tensor));                          /* seals */
    assert_error(uf_store_declare(store, "u", UF_SHAPE(1), UF_ROLE_PARAMETER), UF_ERROR_STATE,
                 "net", "u", "sealed");
    assert_ok(uf_store_declare(store, "w", UF_SHAPE(3), UF_ROLE_PARAMETER)); /* it is there */
    assert_error(uf_store_declare(store, "w", UF_SHAPE(4), UF_ROLE_PARAMETER), UF_ERROR_SHAPE, "w",
                 "(3,)", "(4,)");
    assert_ok(uf_store_seal(store));
    float values[70];
    memset(values, 0xff, sizeof values);
    assert_ok(uf_store_tensor(store, "v", &tensor));
    assert_int_equal((uintptr_t)uf_tensor_data(tensor) % 256, 0);
    assert_ok(uf_tensor_download(tensor, values));
    for (int i = 0; i < 70; ++i) {
        assert_true(values[i] == 0.0F); /* a new store is all zero */
    }
    assert_ok(uf_tensor_download_as(tensor, UF_F32, values, 70));
    assert_error(uf_tensor_download_as(tensor, UF_F32, values, 69), UF_ERROR_SHAPE, "69", "70");
    uf_store_destroy(store);
}

static void test_entries(void **state) {
    uf_store *store = NULL;
    uf_store_entry entry;
    assert_ok(uf_store_create(context_of(state), "net", &store));
    for (int i = 0; i < 300; ++i) {
        char name[32];
        (void)snprintf(name, sizeof name, "layer.%d.weight", i);
        assert_ok(uf_store_declare(store, name, UF_SHAPE(i + 1, 2),
                                   i % 2 == 0 ? UF_ROLE_PARAMETER : UF_ROLE_BUFFER));
    }
    for (int i = 0; i < 300; ++i) {
        char name[32];
        (void)snprintf(name, sizeof name, "layer.%d.weight", i);
        assert_ok(uf_store_entry_at(store, i, &entry));
        assert_string_equal(entry.name, name);
        assert_int_equal(entry.shape.extent[0], i + 1);
        assert_int_equal(entry.role, i % 2 == 0 ? UF_ROLE_PARAMETER : UF_ROLE_BUFFER);
        assert_int_equal(entry.dtype, UF_F32);
    }
    assert_error(uf_store_entry_at(store, 300, &entry), UF_ERROR_INVALID_ARGUMENT, "300");
    assert_error(uf_store_entry_at(store, -1, &entry), UF_ERROR_INVALID_ARGUMENT, "-1");
    /* No two tensors overlap. */
    for (int i = 0; i < 300; ++i) {
        char name[32];
        uf_tensor *tensor = NULL;
        float *values = test_allocate(sizeof *values * 2 * (size_t)(i + 1));
        for (int k = 0; k < 2 * (i + 1); ++k) {
            values[k] = (float)i;
        }
        (void)snprintf(name, sizeof name, "layer.%d.weight", i);
        assert_ok(uf_store_tensor(store, name, &tensor));
        assert_ok(uf_tensor_upload(tensor, values));
        free(values);
    }
    for (int i = 0; i < 300; ++i) {
        char name[32];
        uf_tensor *tensor = NULL;
        float *values = test_allocate(sizeof *values * 2 * (size_t)(i + 1));
        (void)snprintf(name, sizeof name, "layer.%d.weight", i);
        assert_ok(uf_store_tensor(store, name, &tensor));
        assert_ok(uf_tensor_download(tensor, values));
        for (int k = 0; k < 2 * (i + 1); ++k) {
            assert_true(values[k] == (float)i);
        }
        free(values);
    }
    uf_store_destroy(store);
}

static void test_alias(void **state) {
    uf_store *store = NULL;
    assert_ok(uf_store_create(context_of(state), "net", &store));
    assert_ok(uf_store_declare(store, "encoder.weight", UF_SHAPE(2), UF_ROLE_PARAMETER));
    assert_ok(uf_store_declare(store, "other", UF_SHAPE(2), UF_ROLE_PARAMETER));
    assert_error(uf_store_alias(store, "decoder.weight", "missing"), UF_ERROR_NOT_FOUND, "missing");
    assert_error(uf_store_alias(store, "other", "encoder.weight"), UF_ERROR_STATE, "other",
                 "encoder.weight");
    assert_ok(uf_store_alias(store, "decoder.weight", "encoder.weight"));
    assert_ok(uf_store_alias(store, "decoder.weight", "encoder.weight"));
    assert_ok(uf_store_alias(store, "third.weight", "decoder.weight"));
    assert_int_equal(uf_store_size(store), 4);
    assert_error(uf_store_declare(store, "decoder.weight", UF_SHAPE(3), UF_ROLE_PARAMETER),
                 UF_ERROR_SHAPE, "decoder.weight", "(2,)", "(3,)");
    uf_tensor *a = NULL;
    uf_tensor *b = NULL;
    assert_ok(uf_store_tensor(store, "encoder.weight", &a));
    assert_ok(uf_store_tensor(store, "third.weight", &b));
    assert_ptr_equal(uf_tensor_data(a), uf_tensor_data(b));
    assert_error(uf_store_alias(store, "late", "encoder.weight"), UF_ERROR_STATE, "late", "sealed");
    uf_store_destroy(store);
}

static void test_copy(void **state) {
    uf_store *store = NULL;
    uf_store *copy = NULL;
    uf_tensor *tensor = NULL;
    const float weights[3] = {0.1F, -2.5F, 3e30F};
    const int64_t counter = INT64_C(1) << 40;
    assert_ok(uf_store_create(context_of(state), "net", &store));
    assert_ok(uf_store_declare(store, "w", UF_SHAPE(3), UF_ROLE_PARAMETER));
    assert_ok(uf_store_declare(store, "n", UF_SCALAR, UF_ROLE_COUNTER));
    assert_ok(uf_store_alias(store, "tied", "w"));
    assert_ok(uf_store_tensor(store, "w", &tensor));
    assert_ok(uf_tensor_upload(tensor, weights));
    assert_ok(uf_store_tensor(store, "n", &tensor));
    assert_ok(uf_tensor_upload(tensor, &counter));
    assert_ok(uf_store_copy(store, context_of(state), UF_F64, &copy));
    assert_int_equal(uf_store_dtype(copy), UF_F64);
    assert_int_equal(uf_store_size(copy), 3);
    double wide[3];
    int64_t n = 0;
    uf_tensor *tied = NULL;
    assert_ok(uf_store_tensor(copy, "w", &tensor));
    assert_ok(uf_store_tensor(copy, "tied", &tied));
    assert_ptr_equal(uf_tensor_data(tensor), uf_tensor_data(tied));
    assert_ok(uf_tensor_download(tensor, wide));
    for (int i = 0; i < 3; ++i) {
        assert_true(wide[i] == (double)weights[i]);
    }
    assert_ok(uf_store_tensor(copy, "n", &tensor));
    assert_ok(uf_tensor_download(tensor, &n));
    assert_true(n == counter);
    uf_store_destroy(copy);
    assert_error(uf_store_copy(store, context_of(state), UF_I64, &copy), UF_ERROR_INVALID_ARGUMENT,
                 "i64");
    assert_null(copy);
    uf_store_destroy(store);
}

static void test_version(void **state) {
    uf_store *store = NULL;
    assert_ok(uf_store_create(context_of(state), "net", &store));
    const uint64_t before = uf_store_version(store);
    uf_store_touch(store);
    assert_true(uf_store_version(store) > before);
    uf_store_destroy(store);
    uf_store_destroy(NULL);
}

static void test_bad_stores(void **state) {
    uf_store *store = (uf_store *)state;
    assert_error(uf_store_create(NULL, "net", &store), UF_ERROR_INVALID_ARGUMENT, "NULL");
    assert_null(store);
    assert_error(uf_store_create(context_of(state), NULL, &store), UF_ERROR_INVALID_ARGUMENT,
                 "NULL");
    uf_store_options options = uf_store_options_default();
    options.dtype = UF_BF16;
    assert_error(uf_store_create_with(context_of(state), "net", &options, &store),
                 UF_ERROR_INVALID_ARGUMENT, "net", "bf16");
    options = uf_store_options_default();
    options.struct_size = 2;
    assert_error(uf_store_create_with(context_of(state), "net", &options, &store),
                 UF_ERROR_INVALID_ARGUMENT, "uf_store_options.struct_size is 2");
}

static void test_scopes(void **state) {
    (void)state;
    uf_store *none = NULL;
    assert_string_equal(uf_at(none, "a").path, "a");
    assert_string_equal(uf_at(none, "").path, "");
    assert_string_equal(uf_at(none, NULL).path, "");
    assert_string_equal(uf_in(uf_at(none, "a"), "b").path, "a.b");
    assert_string_equal(uf_in(uf_at(none, ""), "b").path, "b");
    assert_string_equal(uf_in(uf_in(uf_at(none, "a"), "b"), "c").path, "a.b.c");
    assert_string_equal(uf_atf(none, "main.%d.%s", 12, "b").path, "main.12.b");
    assert_string_equal(uf_atf(none, NULL).path, "");
    assert_string_equal(uf_inf(uf_at(none, "a"), "%d", 3).path, "a.3");
    assert_string_equal(uf_inf(uf_at(none, ""), "%d", 3).path, "3");
    /* A name of UF_NAME_SIZE - 1 characters fits, one more does not; neither does a joined one. */
    assert_int_equal(strlen(uf_atf(none, "%0*d", UF_NAME_SIZE - 1, 7).path), UF_NAME_SIZE - 1);
    const uf_scope overlong = uf_atf(none, "%0*d", UF_NAME_SIZE, 7);
    assert_string_equal(uf_inf(uf_at(none, "a"), "%0*d", UF_NAME_SIZE - 2, 7).path, overlong.path);
    assert_string_equal(uf_inf(uf_at(none, "a"), "%0*d", UF_NAME_SIZE, 7).path, overlong.path);
    assert_string_equal(uf_inf(overlong, "%d", 3).path, overlong.path);
}

int main(void) {
    const int skipped = test_device_or_skip();
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_declare), TEST(test_sealed),  TEST(test_entries),    TEST(test_alias),
        TEST(test_copy),    TEST(test_version), TEST(test_bad_stores), TEST(test_scopes),
    };
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
