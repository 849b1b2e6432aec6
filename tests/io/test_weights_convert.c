/* Files of weights made of others: formats, names, types, compression, metadata. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/fixture.h"

static const hsize_t six[] = {2, 3}, many[] = {64, 1024};

static void attribute(hid_t object, const char *name, const char *text) {
    const hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
    H5Tset_size(type, strlen(text) + 1);
    const hid_t id = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(id >= 0 && H5Awrite(id, type, text) >= 0);
    H5Aclose(id);
    H5Sclose(space);
    H5Tclose(type);
}

/* Every type, with values at its ends; halves with every bit, NaN's too. */
static void make_source(const char *path) {
    static const int64_t least[] = {INT64_MIN, INT64_MAX};
    static const int8_t small[] = {-128, 127};
    static const uint16_t halves[] = {0x3c00, 0x7e01, 0x8000, 0x0001, 0xfc00, 0x7bff};
    static const double reals[] = {1.0 / 3.0, -0.0, 1e300, 5e-324, 2.0, 1.00048828125};
    static const uint32_t wide[] = {4294967295u, 0};
    const hsize_t two[] = {2};
    const hid_t made = fixture_create(path);
    const hid_t bf16 = fixture_float16(8, 127, H5T_ORDER_LE),
                f16 = fixture_float16(5, 15, H5T_ORDER_BE);
    const hid_t f16_here = fixture_float16(5, 15, H5T_ORDER_LE);
    fixture_dataset(made, "main/0/f64", H5T_IEEE_F64BE, H5T_NATIVE_DOUBLE, 2, six, reals);
    fixture_dataset(made, "main/0/bf16", bf16, bf16, 2, six, halves);
    fixture_dataset(made, "main/0/f16", f16, f16_here, 2, six, halves);
    fixture_dataset(made, "main/n", H5T_STD_I64LE, H5T_NATIVE_INT64, 1, two, least);
    fixture_dataset(made, "main/i8", H5T_STD_I8LE, H5T_NATIVE_INT8, 1, two, small);
    fixture_dataset(made, "main/u32", H5T_STD_U32BE, H5T_NATIVE_UINT32, 1, two, wide);
    fixture_ramp(made, "ramp", 2, six);
    attribute(made, "made by", "a test");
    H5Tclose(bf16);
    H5Tclose(f16);
    H5Tclose(f16_here);
    H5Fclose(made);
}

static uf_weights_file *open_file(const char *path) {
    uf_weights_file *file;
    assert_ok(uf_weights_open(path, NULL, &file));
    return file;
}

static bool is_name(const char *name, const char *other) {
    for (; *name != '\0' && *other != '\0'; ++name, ++other) {
        const bool both = (*name == '.' || *name == '/') && (*other == '.' || *other == '/');
        if (*name != *other && !both) {
            return false;
        }
    }
    return *name == *other;
}

/* The same tensors, types and metadata, whatever stands between the parts of names. */
static void assert_same(const char *path, const char *other_path) {
    uf_weights_file *file = open_file(path), *other = open_file(other_path);
    assert_int_equal(uf_weights_count(file), uf_weights_count(other));
    for (int64_t i = 0; i < uf_weights_count(file); ++i) {
        uf_weights_entry one, same;
        int64_t at = 0;
        double values[6], again[6];
        assert_ok(uf_weights_entry_at(file, i, &one));
        do {
            assert_ok(uf_weights_entry_at(other, at++, &same));
        } while (!is_name(one.name, same.name));
        assert_string_equal(one.type, same.type);
        assert_true(uf_shape_equal(&one.shape, &same.shape));
        const int64_t count = uf_shape_count(&one.shape);
        assert_ok(uf_weights_read(file, i, UF_F64, values, 6));
        assert_ok(uf_weights_read(other, at - 1, UF_F64, again, 6));
        assert_memory_equal(values, again, (size_t)count * sizeof *values);
    }
    assert_int_equal(uf_weights_metadata_count(file), 1);
    assert_int_equal(uf_weights_metadata_count(other), 1);
    const char *name, *text;
    assert_ok(uf_weights_metadata_at(other, 0, &name, &text));
    assert_string_equal(name, "made by");
    assert_string_equal(text, "a test");
    uf_weights_close(file);
    uf_weights_close(other);
}

static void assert_bytes(const char *path, const char *other) {
    size_t size, other_size;
    unsigned char *bytes = fixture_read(path, &size), *others = fixture_read(other, &other_size);
    assert_int_equal(size, other_size);
    assert_memory_equal(bytes, others, size);
    free(bytes);
    free(others);
}

static void test_formats(void **state) {
    char source[256], plain[256], again[256], back[256];
    uf_weights_convert_options options = uf_weights_convert_options_default();
    (void)state;
    snprintf(source, sizeof source, "%s", fixture_path("source.h5"));
    snprintf(plain, sizeof plain, "%s", fixture_path("plain.safetensors"));
    snprintf(again, sizeof again, "%s", fixture_path("again.safetensors"));
    snprintf(back, sizeof back, "%s", fixture_path("back.h5"));
    make_source(source);
    options.names = UF_WEIGHTS_NAMES_DOTTED;
    assert_ok(uf_weights_convert(source, plain, &options));
    assert_same(source, plain);
    /* HDF5 from safetensors, mapped and read, and HDF5 from HDF5; and back to the same bytes. */
    for (int untrusted = 0; untrusted < 2; ++untrusted) {
        options = uf_weights_convert_options_default();
        options.untrusted = untrusted != 0;
        options.names = UF_WEIGHTS_NAMES_NESTED;
        assert_ok(uf_weights_convert(plain, back, &options));
        assert_same(source, back);
        options.names = UF_WEIGHTS_NAMES_DOTTED;
        assert_ok(uf_weights_convert(back, back, &options));
        assert_same(source, back);
        assert_ok(uf_weights_convert(back, again, &options));
        assert_bytes(plain, again);
        assert_ok(uf_weights_convert(again, again, &options));
        assert_bytes(plain, again);
    }
}

/* Halves keep their bits, so that NaN's payload is there too. */
static void test_bits(void **state) {
    static const unsigned char halves[] = {0, 0x3c, 1, 0x7e, 0, 0x80, 1, 0, 0, 0xfc, 0xff, 0x7b};
    const char *source = fixture_path("bits.h5"), *plain = fixture_path("bits.safetensors");
    size_t size;
    (void)state;
    make_source(source);
    assert_ok(uf_weights_convert(source, plain, NULL));
    unsigned char *bytes = fixture_read(plain, &size);
    int found = 0;
    for (size_t at = 0; at + sizeof halves <= size; ++at) {
        found += memcmp(bytes + at, halves, sizeof halves) == 0;
    }
    assert_int_equal(found, 2);
    free(bytes);
}

static void test_types_and_groups(void **state) {
    static const struct {
        uf_dtype dtype;
        const char *type;
        double third; /* as it rounds */
    } cases[] = {{UF_F64, "f64", 1.0 / 3.0},
                 {UF_F32, "f32", 0x1.555556p-2},
                 {UF_F16, "f16", 0x1.554p-2},
                 {UF_BF16, "bf16", 0x1.56p-2}};
    const char *source = fixture_path("types.h5"), *to = fixture_path("types.out");
    (void)state;
    make_source(source);
    for (int64_t i = 0; i < 2 * COUNT_OF(cases); ++i) {
        uf_weights_convert_options options = uf_weights_convert_options_default();
        uf_weights_entry entry;
        double values[6];
        options.format = i % 2 == 0 ? UF_WEIGHTS_HDF5 : UF_WEIGHTS_SAFETENSORS;
        options.keep_types = false;
        options.dtype = cases[i / 2].dtype;
        options.group = "/main/0/";
        options.names = UF_WEIGHTS_NAMES_DOTTED;
        assert_ok(uf_weights_convert(source, to, &options));
        uf_weights_file *file = open_file(to);
        assert_int_equal(uf_weights_format_of(file), options.format);
        assert_int_equal(uf_weights_count(file), 3);
        for (int64_t j = 0; j < 3; ++j) {
            assert_ok(uf_weights_entry_at(file, j, &entry));
            assert_string_equal(entry.type, cases[i / 2].type);
        }
        assert_string_equal(entry.name, "f64");
        assert_ok(uf_weights_read(file, 2, UF_F64, values, 6));
        assert_true(values[0] == cases[i / 2].third && values[4] == 2.0);
        uf_weights_close(file);
    }
    /* Integers keep their types, and a ramp that is deflated its values. */
    const hid_t made = fixture_create(source);
    const int16_t shorts[] = {1, -2, 3, -4, 5, -6};
    fixture_ramp(made, "ramp", 2, many);
    fixture_dataset(made, "i16", H5T_STD_I16LE, H5T_NATIVE_INT16, 2, six, shorts);
    H5Fclose(made);
    uf_weights_convert_options options = uf_weights_convert_options_default();
    options.keep_types = false;
    options.dtype = UF_F64;
    options.gzip_level = 6;
    options.format = UF_WEIGHTS_HDF5;
    assert_ok(uf_weights_convert(source, to, &options));
    uf_weights_file *file = open_file(to);
    uf_weights_entry entry;
    double *values = test_allocate(65536 * sizeof *values);
    size_t size;
    assert_ok(uf_weights_entry_at(file, 0, &entry));
    assert_string_equal(entry.type, "i16");
    assert_ok(uf_weights_read(file, 1, UF_F64, values, 65536));
    assert_true(values[65535] == 65536.0);
    free(fixture_read(to, &size));
    assert_true(size < 65536);
    uf_weights_close(file);
    free(values);
}

static void test_refusals(void **state) {
    const char *source = fixture_path("refused.h5"), *to = fixture_path("refused.safetensors");
    uf_weights_convert_options options = uf_weights_convert_options_default();
    (void)state;
    hid_t made = fixture_create(source);
    fixture_ramp(made, "a/b", 2, six);
    fixture_ramp(made, "a.b", 2, six);
    H5Fclose(made);
    const int files = fixture_count();
    options.names = UF_WEIGHTS_NAMES_DOTTED;
    assert_error(uf_weights_convert(source, to, &options), UF_ERROR_INVALID_ARGUMENT,
                 "two tensors of the name a.b");
    options.names = UF_WEIGHTS_NAMES_KEPT;
    options.gzip_level = 1;
    assert_error(uf_weights_convert(source, to, &options), UF_ERROR_INVALID_ARGUMENT,
                 "cannot be deflated");
    options.gzip_level = 10;
    assert_error(uf_weights_convert(source, to, &options), UF_ERROR_INVALID_ARGUMENT, "0 to 9");
    options.gzip_level = 0;
    options.keep_types = false;
    options.dtype = UF_I64;
    assert_error(uf_weights_convert(source, to, &options), UF_ERROR_INVALID_ARGUMENT,
                 "f16, bf16, f32 or f64");
    options.keep_types = true;
    options.group = "c";
    assert_error(uf_weights_convert(source, to, &options), UF_ERROR_NOT_FOUND, "no group c");
    assert_error(uf_weights_convert("/nowhere", to, NULL), UF_ERROR_NOT_FOUND, "/nowhere");
    made = fixture_create(source);
    fixture_ramp(made, "a.b", 2, six);
    fixture_ramp(made, "a.b.c", 2, six);
    H5Fclose(made);
    options.group = NULL;
    options.names = UF_WEIGHTS_NAMES_NESTED;
    assert_error(uf_weights_convert(source, source, &options), UF_ERROR_INVALID_ARGUMENT,
                 "cannot hold a/b and a/b/c");
    options.format = UF_WEIGHTS_SAFETENSORS;
    assert_ok(uf_weights_convert(source, to, &options));
    options.format = UF_WEIGHTS_ANY;
    assert_int_equal(remove(to), 0);
    made = fixture_create(source);
    fixture_strings(made, "s");
    H5Fclose(made);
    assert_error(uf_weights_convert(source, to, NULL), UF_ERROR_FORMAT, "s in ", "strings");
    assert_int_equal(fixture_count(), files);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_types_and_groups),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
