/* The interface through which loads and lists read files: kinds by their contents, entries, data,
 * attributes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/fixture.h"
#include "io/tensor_file.h"

static const hsize_t six[] = {2, 3};

static void attribute(hid_t object, const char *name, hid_t stored, hid_t memory, hsize_t count,
                      const void *data) {
    const hid_t space = count == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &count, NULL);
    const hid_t id = H5Acreate2(object, name, stored, space, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(id >= 0 && H5Awrite(id, memory, data) >= 0);
    H5Aclose(id);
    H5Sclose(space);
}

static hid_t text_type(size_t size) {
    const hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, size);
    return type;
}

static void test_entries_and_data(void **state) {
    const char *path = fixture_path("plain.h5");
    const hid_t made = fixture_create(path);
    const int32_t small[] = {-7, 1 << 30};
    const hsize_t two[] = {2};
    uf_tensor_file file;
    void *data;
    (void)state;
    fixture_ramp(made, "b/weight", 2, six);
    fixture_dataset(made, "a", H5T_STD_I32BE, H5T_NATIVE_INT32, 1, two, small);
    fixture_strings(made, "c");
    H5Fclose(made);
    assert_ok(uf_tensor_file_open(path, UF_WEIGHTS_ANY, NULL, false, &file));
    assert_int_equal(file.kind->format, UF_WEIGHTS_HDF5);
    assert_int_equal(file.listing.count, 3);
    assert_string_equal(file.listing.datasets[0].entry.name, "a");
    assert_string_equal(file.listing.datasets[0].entry.type, "i32");
    assert_int_equal(file.listing.datasets[0].dtype, UF_I64);
    assert_string_equal(file.listing.datasets[1].entry.name, "b/weight");
    assert_false(file.listing.datasets[2].entry.is_tensor);
    assert_ok(uf_tensor_file_begin(&file));
    uf_status status = uf_tensor_file_read(&file, &file.listing.datasets[0], &data);
    assert_ok(uf_tensor_file_end(&file, status));
    assert_int_equal(((const int64_t *)data)[0], -7);
    assert_int_equal(((const int64_t *)data)[1], 1 << 30);
    free(data);
    assert_ok(uf_tensor_file_begin(&file));
    status = uf_tensor_file_read(&file, &file.listing.datasets[1], &data);
    assert_ok(uf_tensor_file_end(&file, status));
    for (int i = 0; i < 6; ++i) {
        assert_true(((const float *)data)[i] == (float)(i + 1));
    }
    free(data);
    assert_ok(uf_tensor_file_begin(&file));
    status = uf_tensor_file_read(&file, &file.listing.datasets[2], &data);
    assert_error(uf_tensor_file_end(&file, status), UF_ERROR_FORMAT, "c in", "strings");
    uf_tensor_file_close(&file);
}

/* A file pays for its contents, and not for how often a program reads them. */
static void test_reads_again(void **state) {
    const char *path = fixture_path("again.h5");
    const hid_t made = fixture_create(path);
    static const hsize_t many[] = {100, 1500};
    static float values[150000];
    uf_weights_open_options options = uf_weights_open_options_default();
    uf_weights_file *file;
    (void)state;
    fixture_ramp(made, "a", 2, six);
    fixture_ramp(made, "b", 2, six);
    fixture_dataset(made, "c", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, 2, many, NULL); /* not stored */
    fixture_dataset(made, "d", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, 2, many, NULL);
    H5Fclose(made);
    options.untrusted = true;
    assert_ok(uf_weights_open(path, &options, &file));
    for (int i = 0; i < 20000; ++i) {
        assert_ok(uf_weights_read(file, i % 2, UF_F32, values, 6));
        assert_true(values[5] == 6.0F);
    }
    for (int i = 0; i < 3; ++i) {
        assert_ok(uf_weights_read(file, 2, UF_F32, values, 150000));
        assert_error(uf_weights_read(file, 3, UF_F32, values, 150000), UF_ERROR_FORMAT, "d in",
                     "claims 600000 bytes that the file does not store");
    }
    uf_weights_close(file);
}

/* A dataset of another shape under a name that was listed is not read into the memory for the
 * first.
 */
static void test_a_file_that_changes(void **state) {
    const char *path = fixture_path("changes.h5");
    const hsize_t more[] = {200, 300};
    uf_tensor_file file;
    void *data;
    (void)state;
    hid_t made = fixture_create(path);
    fixture_ramp(made, "w", 2, six);
    H5Fclose(made);
    assert_ok(uf_tensor_file_open(path, UF_WEIGHTS_ANY, NULL, false, &file));
    made = fixture_create(path);
    fixture_ramp(made, "w", 2, more);
    H5Fclose(made);
    assert_ok(uf_tensor_file_begin(&file));
    const uf_status status = uf_tensor_file_read(&file, &file.listing.datasets[0], &data);
    assert_error(uf_tensor_file_end(&file, status), UF_ERROR_FORMAT, "changed while it was read");
    uf_tensor_file_close(&file);
}

/* The signature may follow a user's block of 512 bytes, 1024, 2048... */
static void test_kinds_by_contents(void **state) {
    uf_tensor_file file;
    (void)state;
    for (hsize_t block = 512; block <= 4096; block *= 2) {
        const char *path = fixture_path("block.safetensors");
        const hid_t how = H5Pcreate(H5P_FILE_CREATE);
        H5Pset_userblock(how, block);
        const hid_t made = H5Fcreate(path, H5F_ACC_TRUNC, how, H5P_DEFAULT);
        fixture_ramp(made, "w", 2, six);
        H5Fclose(made);
        H5Pclose(how);
        assert_ok(uf_tensor_file_open(path, UF_WEIGHTS_ANY, NULL, true, &file));
        assert_int_equal(file.listing.count, 1);
        uf_tensor_file_close(&file);
    }
    const char *path = fixture_path("text.h5");
    fixture_bytes(path, "no weights", 10);
    assert_error(uf_tensor_file_open(path, UF_WEIGHTS_ANY, NULL, false, &file), UF_ERROR_FORMAT,
                 "text.h5 is not a file of weights");
    fixture_bytes(path, "\x93NUMPY\1\0v\0", 10);
    assert_error(uf_tensor_file_open(path, UF_WEIGHTS_ANY, NULL, false, &file), UF_ERROR_FORMAT,
                 "text.h5 is a NumPy array, not a file of weights; in Python: ");
    assert_error(uf_tensor_file_open("/nowhere", UF_WEIGHTS_ANY, NULL, false, &file),
                 UF_ERROR_NOT_FOUND, "cannot open /nowhere");
}

static void test_attributes(void **state) {
    const char *path = fixture_path("attributes.h5");
    const hid_t made = fixture_create(path);
    const char fixed[2][8] = {"conv", "8 bytes."};
    const char *varying[] = {"one", "", "three"};
    const double numbers[] = {0.5, -2.0};
    const uint8_t one = 200;
    const hid_t short_type = text_type(8), long_type = text_type(H5T_VARIABLE);
    uf_tensor_file file;
    uf_file_attributes found;
    (void)state;
    attribute(made, "numbers", H5T_IEEE_F64BE, H5T_NATIVE_DOUBLE, 2, numbers);
    attribute(made, "fixed", short_type, short_type, 2, fixed);
    attribute(made, "varying", long_type, long_type, 3, (const void *)varying);
    attribute(made, "byte", H5T_STD_U8LE, H5T_NATIVE_UINT8, 0, &one);
    fixture_ramp(made, "a/w", 2, six);
    H5Fclose(made);
    H5Tclose(short_type);
    H5Tclose(long_type);
    assert_ok(uf_tensor_file_open(path, UF_WEIGHTS_ANY, NULL, false, &file));
    assert_ok(uf_tensor_file_begin(&file));
    assert_ok(file.kind->attributes(&file, "/", &found));
    assert_int_equal(found.count, 4);
    assert_string_equal(found.each[0].name, "byte");
    assert_int_equal(found.each[0].count, 1);
    assert_true(found.each[0].numbers[0] == 200.0);
    assert_string_equal(found.each[1].name, "fixed");
    assert_string_equal(found.each[1].texts[0], "conv");
    assert_string_equal(found.each[1].texts[1], "8 bytes.");
    assert_string_equal(found.each[2].name, "numbers");
    assert_true(found.each[2].numbers[1] == -2.0);
    assert_null(found.each[2].texts);
    assert_string_equal(found.each[3].name, "varying");
    assert_int_equal(found.each[3].count, 3);
    assert_string_equal(found.each[3].texts[1], "");
    assert_string_equal(found.each[3].texts[2], "three");
    uf_file_attributes_free(&found);
    assert_ok(file.kind->attributes(&file, "a/w", &found));
    assert_int_equal(found.count, 0);
    uf_file_attributes_free(&found);
    assert_error(file.kind->attributes(&file, "b", &found), UF_ERROR_NOT_FOUND, "no object b");
    assert_ok(uf_tensor_file_end(&file, UF_OK));
    uf_tensor_file_close(&file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entries_and_data),    cmocka_unit_test(test_reads_again),
        cmocka_unit_test(test_a_file_that_changes), cmocka_unit_test(test_kinds_by_contents),
        cmocka_unit_test(test_attributes),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
