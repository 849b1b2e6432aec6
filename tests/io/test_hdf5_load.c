/* Loading a store from HDF5: names, types, what does not match, and that a failure changes nothing.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <sys/file.h>
#include <string.h>
#include <unistd.h>

#include "io/fixture.h"

/* An empty, open store, and what its context was told. */
typedef struct bench {
    uf_context *context;
    uf_store *store;
    fixture_log log;
} bench;

static void bench_open(bench *made) {
    memset(made, 0, sizeof *made);
    made->context = fixture_context(&made->log);
    assert_ok(uf_store_create(made->context, "generator", &made->store));
}

static void bench_close(bench *made) {
    uf_store_destroy(made->store);
    uf_context_destroy(made->context);
}

static void assert_ramp(uf_store *store, const char *name, int64_t count) {
    double *values = test_allocate((size_t)count * sizeof *values);
    fixture_values(store, name, values, count);
    for (int64_t i = 0; i < count; ++i) {
        assert_true(values[i] == (double)(i + 1));
    }
    free(values);
}

static const hsize_t two_by_three[] = {2, 3};
static const hsize_t four[] = {4};

static void names_flat_nested_and_wrapped(void **state) {
    (void)state;
    static const char *const spellings[] = {
        "main.0.weight",
        "main/0/weight",
        "module.main.0.weight",
        "_orig_mod.main.0.weight",
        "module._orig_mod.module.main.0.weight",
        "_orig_mod/module/main/0.weight",
    };
    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; ++i) {
        const char *path = fixture_path("names.h5");
        const hid_t file = fixture_create(path);
        fixture_ramp(file, spellings[i], 2, two_by_three);
        H5Fclose(file);
        bench b;
        bench_open(&b);
        assert_ok(uf_store_load_hdf5(b.store, path, NULL));
        assert_int_equal(uf_store_size(b.store), 1);
        assert_ramp(b.store, "main.0.weight", 6);
        bench_close(&b);
    }
}

static void prefixes_of_the_user(void **state) {
    (void)state;
    const char *path = fixture_path("prefix.h5");
    const hid_t file = fixture_create(path);
    fixture_ramp(file, "ema/module.net.0.weight", 1, four);
    fixture_ramp(file, "net.", 1, four); /* nothing would be left of it: it keeps its name */
    H5Fclose(file);
    const char *const prefixes[] = {"net.", "ema."};
    uf_hdf5_load_options options = uf_hdf5_load_options_default();
    options.strip_prefixes = prefixes;
    options.strip_prefix_count = 2;
    bench b;
    bench_open(&b);
    assert_ok(uf_store_load_hdf5(b.store, path, &options));
    assert_ramp(b.store, "0.weight", 4);
    assert_ramp(b.store, "net.", 4);
    const char *const empty[] = {""};
    options.strip_prefixes = empty;
    options.strip_prefix_count = 1;
    assert_error(uf_store_load_hdf5(b.store, path, &options), UF_ERROR_INVALID_ARGUMENT,
                 "strip_prefixes[0] is empty");
    options.strip_prefixes = NULL;
    assert_error(uf_store_load_hdf5(b.store, path, &options), UF_ERROR_INVALID_ARGUMENT,
                 "strip_prefixes");
    bench_close(&b);
}

static void only_a_group(void **state) {
    (void)state;
    const char *path = fixture_path("group.h5");
    const hid_t file = fixture_create(path);
    fixture_ramp(file, "before/generator/main.0.weight", 1, four);
    fixture_ramp(file, "before/discriminator/main.0.weight", 2, two_by_three);
    fixture_strings(file, "notes");
    H5Fclose(file);
    uf_hdf5_load_options options = uf_hdf5_load_options_default();
    static const char *const spellings[] = {"before/generator", "/before/generator",
                                            "//before/generator/"};
    for (size_t i = 0; i < 3; ++i) {
        options.group = spellings[i];
        bench b;
        bench_open(&b);
        assert_ok(uf_store_load_hdf5(b.store, path, &options));
        assert_int_equal(uf_store_size(b.store), 1);
        assert_ramp(b.store, "main.0.weight", 4);
        bench_close(&b);
    }
    bench b;
    bench_open(&b);
    options.group = "after";
    assert_error(uf_store_load_hdf5(b.store, path, &options), UF_ERROR_NOT_FOUND,
                 "group.h5 has no group after");
    options.group = "notes";
    assert_error(uf_store_load_hdf5(b.store, path, &options), UF_ERROR_FORMAT, "notes in ",
                 "is a dataset, not a group");
    bench_close(&b);
}

/* Every stored type gives exactly the values that were stored, in either byte order. */
static void types_are_converted(void **state) {
    (void)state;
    const char *path = fixture_path("types.h5");
    /* 1, -2.5, the smallest denormal, the largest finite, infinity, -0: as bits of each 16-bit
     * format. */
    static const uint16_t f16[] = {0x3c00, 0xc100, 0x0001, 0x7bff, 0x7c00, 0x8000};
    static const uint16_t bf16[] = {0x3f80, 0xc020, 0x0001, 0x7f7f, 0x7f80, 0x8000};
    static const double f16_values[] = {1.0, -2.5, 0x1p-24, 65504.0, (double)INFINITY, -0.0};
    static const double bf16_values[] = {1.0, -2.5, 0x1p-133, 0x1.fep127, (double)INFINITY, -0.0};
    static const double reals[] = {1.0, -2.5, 0x1p-126, 0x1.fffffep127, (double)INFINITY, -0.0};
    static const int64_t integer = -5;
    const hsize_t six = 6;
    const hid_t f16_le = fixture_float16(5, 15, H5T_ORDER_LE);
    const hid_t f16_be = fixture_float16(5, 15, H5T_ORDER_BE);
    const hid_t bf16_le = fixture_float16(8, 127, H5T_ORDER_LE);
    const hid_t bf16_be = fixture_float16(8, 127, H5T_ORDER_BE);
    const struct {
        const char *name, *listed;
        hid_t stored, memory;
        const void *data;
        const double *expected;
    } cases[] = {
        {"f16le", "f16", f16_le, f16_le, f16, f16_values},
        {"f16be", "f16", f16_be, f16_le, f16, f16_values},
        {"bf16le", "bf16", bf16_le, bf16_le, bf16, bf16_values},
        {"bf16be", "bf16", bf16_be, bf16_le, bf16, bf16_values},
        {"f32le", "f32", H5T_IEEE_F32LE, H5T_NATIVE_DOUBLE, reals, reals},
        {"f32be", "f32", H5T_IEEE_F32BE, H5T_NATIVE_DOUBLE, reals, reals},
        {"f64le", "f64", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, reals, reals},
        {"f64be", "f64", H5T_IEEE_F64BE, H5T_NATIVE_DOUBLE, reals, reals},
    };
    const struct {
        const char *name;
        hid_t stored;
    } integers[] = {
        {"i8", H5T_STD_I8LE},   {"i16", H5T_STD_I16BE},   {"i32", H5T_STD_I32LE},
        {"i64", H5T_STD_I64LE}, {"i64be", H5T_STD_I64BE},
    };
    const hid_t file = fixture_create(path);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        fixture_dataset(file, cases[i].name, cases[i].stored, cases[i].memory, 1, &six,
                        cases[i].data);
    }
    for (size_t i = 0; i < sizeof integers / sizeof integers[0]; ++i) {
        fixture_dataset(file, integers[i].name, integers[i].stored, H5T_NATIVE_INT64, 0, NULL,
                        &integer);
    }
    H5Fclose(file);
    for (int wide = 0; wide < 2; ++wide) {
        uf_context *context = fixture_context(NULL);
        uf_store_options options = uf_store_options_default();
        options.dtype = wide ? UF_F64 : UF_F32;
        uf_store *store;
        assert_ok(uf_store_create_with(context, "types", &options, &store));
        assert_ok(uf_store_load_hdf5(store, path, NULL));
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
            double got[6];
            fixture_values(store, cases[i].name, got, 6);
            for (int j = 0; j < 6; ++j) {
                if (got[j] != cases[i].expected[j] ||
                    signbit(got[j]) != signbit(cases[i].expected[j])) {
                    fail_msg("%s[%d] is %a, not %a", cases[i].name, j, got[j],
                             cases[i].expected[j]);
                }
            }
        }
        for (size_t i = 0; i < sizeof integers / sizeof integers[0]; ++i) {
            uf_tensor *tensor;
            int64_t got;
            assert_ok(uf_store_tensor(store, integers[i].name, &tensor));
            assert_int_equal(uf_tensor_dtype(tensor), UF_I64);
            assert_ok(uf_tensor_download(tensor, &got));
            assert_int_equal(got, -5);
        }
        uf_store_destroy(store);
        uf_context_destroy(context);
    }
    uf_hdf5_entry *entries;
    int64_t count;
    assert_ok(uf_hdf5_list(path, NULL, &entries, &count));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        int64_t at = 0;
        while (at < count && strcmp(entries[at].name, cases[i].name) != 0) {
            ++at;
        }
        assert_true(at < count);
        assert_string_equal(entries[at].type, cases[i].listed);
    }
    uf_hdf5_list_free(entries);
    H5Tclose(f16_le);
    H5Tclose(f16_be);
    H5Tclose(bf16_le);
    H5Tclose(bf16_be);
}

/* f64 values that f32 cannot hold are rounded once, to nearest even; bf16 through HDF5's own
 * conversion and ours agree. */
static void rounding(void **state) {
    (void)state;
    const char *path = fixture_path("round.h5");
    const double values[] = {1.0 + 0x1p-24, 1.0 + 0x1.8p-23, 1e300, 0.1};
    const double expected[] = {1.0, 1.0 + 0x1p-22, (double)INFINITY, (double)0.1f};
    double got[4];
    const hid_t brain = fixture_float16(8, 127, H5T_ORDER_LE);
    const hid_t file = fixture_create(path);
    fixture_dataset(file, "w", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, 1, four, values);
    const double halves[] = {0.5, -1.25, 3.0e38, 0.0};
    fixture_dataset(file, "b", brain, H5T_NATIVE_DOUBLE, 1, four, halves); /* converted by HDF5 */
    double by_hdf5[4];
    const hid_t id = H5Dopen2(file, "b", H5P_DEFAULT);
    assert_true(H5Dread(id, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, by_hdf5) >= 0);
    H5Dclose(id);
    H5Fclose(file);
    H5Tclose(brain);
    bench b;
    bench_open(&b);
    assert_ok(uf_store_load_hdf5(b.store, path, NULL));
    fixture_values(b.store, "w", got, 4);
    for (int i = 0; i < 4; ++i) {
        assert_true(got[i] == expected[i]);
    }
    fixture_values(b.store, "b", got, 4);
    for (int i = 0; i < 4; ++i) {
        assert_true(got[i] == by_hdf5[i] && isfinite(got[i]));
    }
    bench_close(&b);
}

static void roles_of_an_empty_store(void **state) {
    (void)state;
    const char *path = fixture_path("roles.h5");
    const int64_t steps = 7;
    const hid_t file = fixture_create(path);
    fixture_ramp(file, "1.weight", 1, four);
    fixture_ramp(file, "1.running_mean", 1, four);
    fixture_ramp(file, "1.running_var", 1, four);
    fixture_dataset(file, "1.num_batches_tracked", H5T_STD_I64LE, H5T_NATIVE_INT64, 0, NULL,
                    &steps);
    H5Fclose(file);
    bench b;
    bench_open(&b);
    assert_ok(uf_store_load_hdf5(b.store, path, NULL));
    assert_int_equal(uf_store_size(b.store), 4);
    for (int64_t i = 0; i < 4; ++i) {
        uf_store_entry entry;
        assert_ok(uf_store_entry_at(b.store, i, &entry));
        const uf_role expected = strstr(entry.name, "running") != NULL ? UF_ROLE_BUFFER
                                 : strstr(entry.name, "num_") != NULL  ? UF_ROLE_COUNTER
                                                                       : UF_ROLE_PARAMETER;
        assert_int_equal(entry.role, expected);
        assert_int_equal(entry.shape.rank, expected == UF_ROLE_COUNTER ? 0 : 1);
    }
    assert_error(uf_store_declare(b.store, "new", UF_SHAPE(1), UF_ROLE_PARAMETER), UF_ERROR_STATE,
                 "sealed");
    bench_close(&b);
}

/* ---- what does not match ---- */

static void strict_reports_everything_together(void **state) {
    (void)state;
    const char *path = fixture_path("generator.h5");
    const hsize_t small[] = {4, 2, 1, 1};
    const hid_t file = fixture_create(path);
    fixture_ramp(file, "main.3.weight", 4, small);
    fixture_ramp(file, "main.99.weight", 1, four);
    fixture_ramp(file, "main.0.weight", 1, four);
    H5Fclose(file);
    bench b;
    bench_open(&b);
    fixture_declare(b.store, "main.0.weight", UF_SHAPE(4), UF_ROLE_PARAMETER);
    fixture_declare(b.store, "main.3.weight", UF_SHAPE(8, 4, 1, 1), UF_ROLE_PARAMETER);
    fixture_declare(b.store, "main.9.weight", UF_SHAPE(1), UF_ROLE_PARAMETER);
    fixture_declare(b.store, "main.10.bias", UF_SHAPE(1), UF_ROLE_PARAMETER);
    assert_error(uf_store_load_hdf5(b.store, path, NULL), UF_ERROR_SHAPE,
                 "generator.h5 does not match store \"generator\": "
                 "2 missing (main.9.weight, main.10.bias), 1 unexpected (main.99.weight), "
                 "1 of another shape (main.3.weight is (4, 2, 1, 1) in the file, (8, 4, 1, 1) in "
                 "the store)");
    assert_int_equal(b.log.lines, 4);
    assert_non_null(strstr(b.log.text, "generator.h5: missing: main.10.bias\n"));
    assert_non_null(strstr(b.log.text, "generator.h5: unexpected: main.99.weight\n"));
    bench_close(&b);
}

/* Another process saves the file again and again meanwhile: it is always there, and whole. */
static void a_file_that_is_saved_can_be_read(void **state) {
    (void)state;
    const char *path = fixture_path("saved.h5");
    const float values[3] = {1.0f, 2.0f, 3.0f};
    assert_ok(uf_hdf5_write(path, "w", UF_F32, UF_SHAPE(3), values));
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        for (int i = 0; i < 300; ++i) {
            if (uf_hdf5_write(path, "w", UF_F32, UF_SHAPE(3), values) != UF_OK) {
                _exit(1);
            }
        }
        _exit(0);
    }
    int status = -1;
    do {
        float got[3];
        uf_shape shape;
        assert_ok(uf_hdf5_read(path, "w", UF_F32, &shape, got, 3));
    } while (waitpid(child, &status, WNOHANG) == 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* A program that has the file open to write holds a lock that libhdf5 respects. */
static void a_locked_file_is_not_called_damaged(void **state) {
    (void)state;
    const char *path = fixture_path("locked.h5");
    const float value = 1.0f;
    uf_shape shape;
    assert_ok(uf_hdf5_write(path, "w", UF_F32, UF_SCALAR, &value));
    const int descriptor = open(path, O_RDWR);
    assert_int_equal(flock(descriptor, LOCK_EX | LOCK_NB), 0);
    assert_error(uf_hdf5_read(path, "w", UF_F32, &shape, NULL, 0), UF_ERROR_IO, "locked");
    close(descriptor);
    assert_ok(uf_hdf5_read(path, "w", UF_F32, &shape, NULL, 0));
}

static void long_reports_give_eight_and_the_count(void **state) {
    (void)state;
    const char *path = fixture_path("many.h5");
    const hid_t file = fixture_create(path);
    fixture_ramp(file, "a", 1, four);
    H5Fclose(file);
    bench b;
    bench_open(&b);
    fixture_declare(b.store, "a", UF_SHAPE(4), UF_ROLE_PARAMETER);
    for (int i = 0; i < 20; ++i) {
        char name[16];
        snprintf(name, sizeof name, "w%02d", i);
        fixture_declare(b.store, name, UF_SHAPE(4), UF_ROLE_PARAMETER);
    }
    assert_error(uf_store_load_hdf5(b.store, path, NULL), UF_ERROR_SHAPE,
                 "20 missing (w00, w01, w02, w03, w04, w05, w06, w07 and 12 more)");
    assert_int_equal(b.log.lines, 20);
    bench_close(&b);
}

static void lenient_loads_what_matches(void **state) {
    (void)state;
    const char *path = fixture_path("lenient.h5");
    const hid_t file = fixture_create(path);
    fixture_ramp(file, "good", 1, four);
    fixture_ramp(file, "shape", 2, two_by_three);
    fixture_ramp(file, "extra", 1, four);
    fixture_strings(file, "notes");
    H5Fclose(file);
    uf_hdf5_load_options options = uf_hdf5_load_options_default();
    options.strict = false;
    bench b;
    bench_open(&b);
    fixture_declare(b.store, "good", UF_SHAPE(4), UF_ROLE_PARAMETER);
    fixture_declare(b.store, "shape", UF_SHAPE(6), UF_ROLE_PARAMETER);
    fixture_declare(b.store, "absent", UF_SHAPE(1), UF_ROLE_PARAMETER);
    assert_ok(uf_store_load_hdf5(b.store, path, &options));
    assert_ramp(b.store, "good", 4);
    double values[6];
    fixture_values(b.store, "shape", values, 6);
    assert_true(values[0] == 0.0 && values[5] == 0.0);
    static const char *const told[] = {"missing: absent", "unexpected: extra",
                                       "notes holds strings",
                                       "shape is (2, 3) in the file, (6,) in the store"};
    for (size_t i = 0; i < 4; ++i) {
        if (strstr(b.log.text, told[i]) == NULL) {
            fail_msg("the log lacks \"%s\": %s", told[i], b.log.text);
        }
    }
    bench_close(&b);
}

/* A program without a log can tell that a lenient load matched little or nothing. */
static void loads_are_counted(void **state) {
    (void)state;
    const char *path = fixture_path("counted.h5");
    const int64_t steps = 7;
    hid_t file = fixture_create(path);
    fixture_ramp(file, "good", 1, four);
    fixture_ramp(file, "better", 1, four);
    fixture_ramp(file, "shape", 2, two_by_three);
    fixture_ramp(file, "extra.1", 1, four);
    fixture_ramp(file, "extra.2", 1, four);
    fixture_ramp(file, "extra.3", 1, four);
    fixture_dataset(file, "type", H5T_STD_I64LE, H5T_NATIVE_INT64, 0, NULL, &steps);
    H5Fclose(file);
    for (int strict = 0; strict < 2; ++strict) {
        uf_hdf5_load_report report = uf_hdf5_load_report_default();
        uf_hdf5_load_options options = uf_hdf5_load_options_default();
        assert_null(options.report);
        options.strict = strict;
        options.report = &report;
        bench b;
        bench_open(&b);
        static const char *const absent[] = {"absent.1", "absent.2", "absent.3", "absent.4"};
        fixture_declare(b.store, "good", UF_SHAPE(4), UF_ROLE_PARAMETER);
        fixture_declare(b.store, "better", UF_SHAPE(4), UF_ROLE_PARAMETER);
        fixture_declare(b.store, "shape", UF_SHAPE(6), UF_ROLE_PARAMETER);
        fixture_declare(b.store, "type", UF_SCALAR, UF_ROLE_PARAMETER);
        for (int i = 0; i < 4; ++i) {
            fixture_declare(b.store, absent[i], UF_SHAPE(1), UF_ROLE_PARAMETER);
        }
        assert_int_equal(uf_store_load_hdf5(b.store, path, &options),
                         strict ? UF_ERROR_SHAPE : UF_OK);
        assert_int_equal(report.loaded, strict ? 0 : 2);
        assert_int_equal(report.missing, 4);
        assert_int_equal(report.unexpected, 3);
        assert_int_equal(report.other_shape, 1);
        assert_int_equal(report.other_type, 1);
        assert_int_equal(report.not_numbers, 0);
        assert_int_equal(report.struct_size, sizeof report);
        /* The counts of an earlier load are overwritten. */
        assert_error(uf_store_load_hdf5(b.store, "/absent.h5", &options), UF_ERROR_NOT_FOUND,
                     "/absent.h5");
        assert_int_equal(
            report.missing + report.unexpected + report.other_shape + report.other_type, 0);
        report.struct_size = 3;
        assert_error(uf_store_load_hdf5(b.store, path, &options), UF_ERROR_INVALID_ARGUMENT,
                     "uf_hdf5_load_report.struct_size is 3");
        bench_close(&b);
    }
    /* Into an empty store: all that are numbers. */
    file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    fixture_strings(file, "notes");
    H5Fclose(file);
    uf_hdf5_load_report report = uf_hdf5_load_report_default();
    uf_hdf5_load_options options = uf_hdf5_load_options_default();
    options.strict = false;
    options.report = &report;
    bench b;
    bench_open(&b);
    assert_ok(uf_store_load_hdf5(b.store, path, &options));
    assert_int_equal(report.loaded, 7);
    assert_int_equal(report.not_numbers, 1);
    assert_int_equal(report.missing + report.unexpected, 0);
    bench_close(&b);
}

/* A network may call a part of its own "module": what it saves, it loads. */
static void names_with_a_wrapper_in_them(void **state) {
    (void)state;
    const char *path = fixture_path("module.h5");
    bench b;
    bench_open(&b);
    fixture_declare(b.store, "module.w", UF_SHAPE(4), UF_ROLE_PARAMETER);
    fixture_declare(b.store, "w", UF_SHAPE(2, 3), UF_ROLE_PARAMETER);
    const float four_values[] = {1, 2, 3, 4}, six_values[] = {1, 2, 3, 4, 5, 6};
    uf_tensor *tensor;
    assert_ok(uf_store_tensor(b.store, "module.w", &tensor));
    assert_ok(uf_tensor_upload(tensor, four_values));
    assert_ok(uf_store_tensor(b.store, "w", &tensor));
    assert_ok(uf_tensor_upload(tensor, six_values));
    assert_ok(uf_store_save_hdf5(b.store, path));
    bench_close(&b);

    bench_open(&b);
    fixture_declare(b.store, "module.w", UF_SHAPE(4), UF_ROLE_PARAMETER);
    fixture_declare(b.store, "w", UF_SHAPE(2, 3), UF_ROLE_PARAMETER);
    assert_ok(uf_store_load_hdf5(b.store, path, NULL));
    assert_ramp(b.store, "module.w", 4);
    assert_ramp(b.store, "w", 6);
    bench_close(&b);

    /* A store that knows only one of the two, or none: which of them is meant, nobody can tell. */
    for (int declared = 0; declared < 2; ++declared) {
        bench_open(&b);
        if (declared) {
            fixture_declare(b.store, "w", UF_SHAPE(4), UF_ROLE_PARAMETER);
        }
        assert_error(uf_store_load_hdf5(b.store, path, NULL), UF_ERROR_FORMAT, "module.w and w in ",
                     "are both w");
        bench_close(&b);
    }

    /* Wrappers around such a network: they come off until the store knows the name. */
    static const char *const spellings[] = {"module.w", "module.module.w",
                                            "_orig_mod/module/module.w"};
    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; ++i) {
        const hid_t file = fixture_create(path);
        fixture_ramp(file, spellings[i], 1, four);
        H5Fclose(file);
        bench_open(&b);
        fixture_declare(b.store, "module.w", UF_SHAPE(4), UF_ROLE_PARAMETER);
        assert_ok(uf_store_load_hdf5(b.store, path, NULL));
        assert_ramp(b.store, "module.w", 4);
        bench_close(&b);
    }
}

/* Weights under a wrapper of PyTorch's, or Keras's: the message has the line of Python that helps.
 */
static void names_of_others(void **state) {
    (void)state;
    static const struct {
        const char *dataset, *remedy;
    } cases[] = {
        {"main.0.weight_g",
         "torch.nn.utils.weight_norm; in Python: [torch.nn.utils.remove_weight_norm(m) for"},
        {"main/0/weight_g", "torch.nn.utils.remove_weight_norm(m)"},
        {"module.main.0.parametrizations.weight.original0",
         "remove_parametrizations(m, \"weight\")"},
        {"main.0.parametrizations.weight.0._u", "remove_parametrizations(m, \"weight\")"},
        {"main.0.weight_orig", "torch.nn.utils.remove_spectral_norm(m)"},
        {"main.0.weight_mask", "torch.nn.utils.prune.remove(m, \"weight\")"},
        {"conv2d/conv2d/kernel:0", "was made by Keras; in Python: h5py.File("},
        {"model_weights/conv2d/kernel", "was made by Keras"},
        {"layers/conv2d/vars/0", "was made by Keras"},
    };
    static const char *const innocent[] = {"vars.0", "main.0.weight", "weights_g.0",
                                           "main.0.weight_gain", "parametrizations.0"};
    const char *path = fixture_path("others.h5");
    uf_hdf5_load_options lenient = uf_hdf5_load_options_default();
    lenient.strict = false;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        hid_t file = fixture_create(path);
        fixture_ramp(file, "main.0.bias", 1, four);
        fixture_ramp(file, cases[i].dataset, 2, two_by_three);
        H5Fclose(file);
        for (int declared = 0; declared < 2; ++declared) {
            bench b;
            bench_open(&b);
            if (declared) {
                for (int j = 0; j < 20; ++j) { /* the way out comes before a long list */
                    char name[160];
                    snprintf(name, sizeof name, "%0150d.weight", j);
                    fixture_declare(b.store, name, UF_SHAPE(2, 3), UF_ROLE_PARAMETER);
                }
            }
            assert_error(uf_store_load_hdf5(b.store, path, NULL),
                         declared ? UF_ERROR_SHAPE : UF_ERROR_FORMAT, cases[i].dataset,
                         cases[i].remedy);
            assert_ok(uf_store_load_hdf5(b.store, path, &lenient));
            bench_close(&b);
        }
    }
    for (size_t i = 0; i < sizeof innocent / sizeof innocent[0]; ++i) {
        hid_t file = fixture_create(path);
        fixture_ramp(file, innocent[i], 2, two_by_three);
        H5Fclose(file);
        bench b;
        bench_open(&b);
        assert_ok(uf_store_load_hdf5(b.store, path, NULL));
        bench_close(&b);
    }
}

static void scalars_and_empty_spaces_match_no_shape(void **state) {
    (void)state;
    const char *path = fixture_path("spaces.h5");
    const hsize_t none[] = {0, 3};
    const float one = 1.0f;
    const hid_t file = fixture_create(path);
    fixture_dataset(file, "scalar", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, 0, NULL, &one);
    fixture_dataset(file, "zero", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, 2, none, NULL);
    const hid_t space = H5Screate(H5S_NULL);
    H5Dclose(
        H5Dcreate2(file, "null", H5T_IEEE_F32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Sclose(space);
    fixture_ramp(file, "vector", 1, four);
    H5Fclose(file);
    static const struct {
        const char *name, *message;
        bool scalar; /* declared as one */
    } cases[] = {
        {"scalar", "scalar is a scalar in the file, (1,) in the store", false},
        {"zero", "zero is empty, (0, 3) in the file, (1,) in the store", false},
        {"null", "null has no data (a null dataspace) in the file, (1,) in the store", false},
        {"vector", "vector is (4,) in the file, a scalar in the store", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        bench b;
        bench_open(&b);
        fixture_declare(b.store, cases[i].name, cases[i].scalar ? UF_SCALAR : UF_SHAPE(1),
                        UF_ROLE_PARAMETER);
        assert_error(uf_store_load_hdf5(b.store, path, NULL), UF_ERROR_SHAPE, cases[i].message);
        bench_close(&b);
    }
    bench empty;
    bench_open(&empty);
    assert_error(uf_store_load_hdf5(empty.store, path, NULL), UF_ERROR_FORMAT, "null in ",
                 "spaces.h5 has no data (a null dataspace)");
    bench_close(&empty);
}

static void kinds_of_numbers_must_match(void **state) {
    (void)state;
    const char *path = fixture_path("kinds.h5");
    const int64_t integers[] = {1, 2, 3, 4};
    const hid_t file = fixture_create(path);
    fixture_dataset(file, "w", H5T_STD_I32LE, H5T_NATIVE_INT64, 1, four, integers);
    fixture_ramp(file, "n", 1, four);
    H5Fclose(file);
    bench b;
    bench_open(&b);
    fixture_declare(b.store, "w", UF_SHAPE(4), UF_ROLE_PARAMETER);
    fixture_declare(b.store, "n", UF_SHAPE(4), UF_ROLE_COUNTER);
    assert_error(uf_store_load_hdf5(b.store, path, NULL), UF_ERROR_SHAPE,
                 "2 of another type (n is f32 in the file, i64 in the store, "
                 "w is i32 in the file, f32 in the store)");
    bench_close(&b);
}

static void what_holds_no_numbers(void **state) {
    (void)state;
    const char *path = fixture_path("kindless.h5");
    const hid_t pair = H5Tcreate(H5T_COMPOUND, 16);
    H5Tinsert(pair, "x", 0, H5T_NATIVE_DOUBLE);
    H5Tinsert(pair, "y", 8, H5T_NATIVE_DOUBLE);
    const hid_t word = H5Tcopy(H5T_C_S1);
    H5Tset_size(word, H5T_VARIABLE);
    const hid_t lists = H5Tvlen_create(H5T_NATIVE_INT);
    const hid_t flag = H5Tenum_create(H5T_NATIVE_INT8); /* as h5py stores booleans */
    const int8_t no = 0, yes = 1;
    H5Tenum_insert(flag, "FALSE", &no);
    H5Tenum_insert(flag, "TRUE", &yes);
    const hid_t opaque = H5Tcreate(H5T_OPAQUE, 3);
    const hsize_t two = 2;
    const hid_t array = H5Tarray_create2(H5T_NATIVE_FLOAT, 1, &two);
    const hid_t odd = fixture_float16(6, 31, H5T_ORDER_LE);
    const struct {
        hid_t type;
        const char *message;
    } cases[] = {
        {H5T_C_S1, "kindless.h5 holds strings, not numbers"},
        {word, "kindless.h5 holds strings, not numbers"},
        {pair, "kindless.h5 holds compound values, not numbers"},
        {lists, "kindless.h5 holds lists of varying length, not numbers"},
        {flag, "kindless.h5 holds enumerated values, not numbers"},
        {opaque, "kindless.h5 holds opaque bytes, not numbers"},
        {array, "kindless.h5 holds arrays, not numbers"},
        {H5T_STD_REF_OBJ, "kindless.h5 holds references, not numbers"},
        {H5T_STD_B8LE, "kindless.h5 holds bit fields, not numbers"},
        {odd, "kindless.h5 holds floats of an unusual format, 2 bytes each"},
        {H5T_NATIVE_LDOUBLE, "kindless.h5 holds floats of an unusual format, 16 bytes each"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        const hid_t file = fixture_create(path);
        fixture_dataset(file, "main.0.weight", cases[i].type, cases[i].type, 1, four, NULL);
        H5Fclose(file);
        for (int declared = 0; declared < 2; ++declared) {
            bench b;
            bench_open(&b);
            if (declared) {
                fixture_declare(b.store, "main.0.weight", UF_SHAPE(4), UF_ROLE_PARAMETER);
            }
            assert_error(uf_store_load_hdf5(b.store, path, NULL), UF_ERROR_FORMAT,
                         "main.0.weight in ", cases[i].message);
            bench_close(&b);
        }
    }
    H5Tclose(pair);
    H5Tclose(word);
    H5Tclose(lists);
    H5Tclose(flag);
    H5Tclose(opaque);
    H5Tclose(array);
    H5Tclose(odd);
}

static void two_datasets_of_one_name(void **state) {
    (void)state;
    const char *path = fixture_path("twice.h5");
    const hid_t file = fixture_create(path);
    fixture_ramp(file, "main.0.weight", 1, four);
    fixture_ramp(file, "module/main.0.weight", 1, four);
    H5Fclose(file);
    bench b;
    bench_open(&b);
    assert_error(uf_store_load_hdf5(b.store, path, NULL), UF_ERROR_FORMAT,
                 "main.0.weight and module/main.0.weight in ", "twice.h5 are both main.0.weight");
    bench_close(&b);
}

static void names_that_are_too_long(void **state) {
    (void)state;
    const char *path = fixture_path("long.h5");
    char name[400];
    memset(name, 'a', sizeof name);
    name[200] = '\0';
    hid_t file = fixture_create(path);
    fixture_ramp(file, name, 1, four);
    H5Fclose(file);
    bench b;
    bench_open(&b);
    assert_error(uf_store_load_hdf5(b.store, path, NULL), UF_ERROR_FORMAT,
                 "a tensor's name has at most 159 characters");
    memset(name, 'a', sizeof name);
    name[350] = '\0';
    file = fixture_create(path);
    fixture_ramp(file, name, 1, four);
    H5Fclose(file);
    assert_error(uf_store_load_hdf5(b.store, path, NULL), UF_ERROR_FORMAT,
                 "holds a name of 350 characters, 319 at most are read");
    bench_close(&b);
}

/* A scope marks its overlong path with this character, and a damaged file may begin a name with it.
 */
static void names_may_begin_with_any_character(void **state) {
    (void)state;
    const char *path = fixture_path("control.h5");
    const hid_t file = fixture_create(path);
    fixture_ramp(file, "\x01w", 1, four);
    H5Fclose(file);
    bench b;
    bench_open(&b);
    assert_ok(uf_store_load_hdf5(b.store, path, NULL));
    assert_ramp(b.store, "\x01w", 4);
    bench_close(&b);
}

/* ---- a failure changes nothing ---- */

static void failure_leaves_a_filled_store(void **state) {
    (void)state;
    const char *good = fixture_path("good.h5");
    const char *bad = fixture_path("bad.h5");
    hid_t file = fixture_create(good);
    fixture_ramp(file, "a", 1, four);
    fixture_ramp(file, "z", 1, four);
    H5Fclose(file);
    /* "a" is readable and different; "z" has a broken checksum, which only reading it finds. */
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    const float other[] = {9, 9, 9, 9};
    H5Pset_chunk(properties, 1, four);
    H5Pset_fletcher32(properties);
    file = fixture_create(bad);
    fixture_dataset(file, "a", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, 1, four, other);
    const hid_t space = H5Screate_simple(1, four, NULL);
    const hid_t id =
        H5Dcreate2(file, "z", H5T_IEEE_F32LE, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    const float marked[] = {1234.5f, 1, 2, 3};
    H5Dwrite(id, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, marked);
    H5Dclose(id);
    H5Sclose(space);
    H5Pclose(properties);
    H5Fclose(file);
    size_t size;
    unsigned char *bytes = fixture_read(bad, &size);
    bool found = false;
    for (size_t i = 0; i + sizeof marked <= size; ++i) {
        if (memcmp(bytes + i, marked, sizeof marked) == 0) {
            bytes[i] ^= 1;
            found = true;
        }
    }
    assert_true(found);
    fixture_bytes(bad, bytes, size);
    free(bytes);

    bench b;
    bench_open(&b);
    assert_ok(uf_store_load_hdf5(b.store, good, NULL));
    const uint64_t version = uf_store_version(b.store);
    assert_error(uf_store_load_hdf5(b.store, bad, NULL), UF_ERROR_FORMAT, "z in ",
                 "bad.h5 is damaged: its chunk at (0,) fails its checksum");
    assert_ramp(b.store, "a", 4);
    assert_ramp(b.store, "z", 4);
    assert_true(uf_store_version(b.store) == version);
    assert_ok(uf_store_load_hdf5(b.store, good, NULL));
    assert_true(uf_store_version(b.store) > version);
    bench_close(&b);

    /* An empty store stays empty and open: the good file still defines it. */
    bench empty;
    bench_open(&empty);
    assert_error(uf_store_load_hdf5(empty.store, bad, NULL), UF_ERROR_FORMAT, "z in ");
    assert_int_equal(uf_store_size(empty.store), 0);
    assert_ok(uf_store_declare(empty.store, "a", UF_SHAPE(4), UF_ROLE_PARAMETER));
    bench_close(&empty);
}

static void *refuse_memory(void *user, size_t size, size_t alignment, uf_memory_kind kind,
                           void *stream) {
    (void)user, (void)size, (void)alignment, (void)kind, (void)stream;
    return NULL;
}

static void release_nothing(void *user, void *pointer, size_t size, uf_memory_kind kind,
                            void *stream) {
    (void)user, (void)size, (void)kind, (void)stream;
    assert_null(pointer);
}

static void out_of_device_memory(void **state) {
    (void)state;
    const char *path = fixture_path("memory.h5");
    const hid_t file = fixture_create(path);
    fixture_ramp(file, "a", 1, four);
    H5Fclose(file);
    uf_context_options options = uf_context_options_default();
    options.device = UF_DEVICE_CPU;
    options.allocator.allocate = refuse_memory;
    options.allocator.release = release_nothing;
    uf_context *context;
    uf_store *store;
    assert_ok(uf_context_create(&options, &context));
    assert_ok(uf_store_create(context, "generator", &store));
    assert_error(uf_store_load_hdf5(store, path, NULL), UF_ERROR_OUT_OF_MEMORY, "out of", "memory");
    assert_int_equal(uf_store_size(store), 0);
    assert_ok(uf_store_declare(store, "b", UF_SHAPE(4), UF_ROLE_PARAMETER));
    uf_store_destroy(store);
    uf_context_destroy(context);
}

static void empty_files_and_sealed_stores(void **state) {
    (void)state;
    const char *path = fixture_path("nothing.h5");
    H5Fclose(fixture_create(path));
    bench b;
    bench_open(&b);
    assert_error(uf_store_load_hdf5(b.store, path, NULL), UF_ERROR_FORMAT,
                 "nothing.h5 holds no tensors");
    assert_ok(uf_store_seal(b.store));
    assert_error(uf_store_load_hdf5(b.store, path, NULL), UF_ERROR_STATE,
                 "store \"generator\" is sealed and empty");
    uf_hdf5_load_options options = uf_hdf5_load_options_default();
    options.struct_size = 3;
    assert_error(uf_store_load_hdf5(b.store, path, &options), UF_ERROR_INVALID_ARGUMENT,
                 "uf_hdf5_load_options.struct_size");
    assert_error(uf_store_load_hdf5(NULL, path, NULL), UF_ERROR_INVALID_ARGUMENT, "NULL");
    assert_error(uf_store_load_hdf5(b.store, NULL, NULL), UF_ERROR_INVALID_ARGUMENT, "NULL");
    bench_close(&b);
}

static void not_finite_weights_are_state(void **state) {
    (void)state;
    const char *path = fixture_path("nan.h5");
    const float values[] = {NAN, INFINITY, -INFINITY, 1.0f};
    const hid_t file = fixture_create(path);
    fixture_dataset(file, "w", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, 1, four, values);
    H5Fclose(file);
    bench b;
    bench_open(&b);
    double got[4];
    assert_ok(uf_store_load_hdf5(b.store, path, NULL));
    fixture_values(b.store, "w", got, 4);
    assert_true(isnan(got[0]) && isinf(got[1]) && isinf(got[2]) && got[3] == 1.0);
    bench_close(&b);
}

static void aliases_load_and_save_under_every_name(void **state) {
    (void)state;
    const char *path = fixture_path("tied.h5");
    const char *saved = fixture_path("tied2.h5");
    const hid_t file = fixture_create(path);
    fixture_ramp(file, "a", 1, four);
    H5Lcreate_hard(file, "a", file, "b", H5P_DEFAULT, H5P_DEFAULT); /* h5py: f["b"] = f["a"] */
    H5Fclose(file);
    bench b;
    bench_open(&b);
    fixture_declare(b.store, "a", UF_SHAPE(4), UF_ROLE_PARAMETER);
    assert_ok(uf_store_alias(b.store, "b", "a"));
    assert_ok(uf_store_load_hdf5(b.store, path, NULL));
    assert_ramp(b.store, "b", 4);
    assert_ok(uf_store_save_hdf5(b.store, saved));
    bench_close(&b);
    bench again;
    bench_open(&again);
    assert_ok(uf_store_load_hdf5(again.store, saved, NULL));
    assert_int_equal(uf_store_size(again.store), 2);
    assert_ramp(again.store, "a", 4);
    assert_ramp(again.store, "b", 4);
    bench_close(&again);
}

static void *load_many_times(void *data) {
    for (int i = 0; i < 20; ++i) {
        uf_context *context = NULL;
        uf_store *store = NULL;
        uf_context_options options = uf_context_options_default();
        options.device = UF_DEVICE_CPU;
        if (uf_context_create(&options, &context) != UF_OK ||
            uf_store_create(context, "t", &store) != UF_OK ||
            uf_store_load_hdf5(store, data, NULL) != UF_OK || uf_store_size(store) != 1) {
            return data;
        }
        uf_store_destroy(store);
        uf_context_destroy(context);
    }
    return NULL;
}

static void threads_may_load_at_once(void **state) {
    (void)state;
    char path[256];
    snprintf(path, sizeof path, "%s", fixture_path("threads.h5"));
    const hid_t file = fixture_create(path);
    fixture_ramp(file, "a", 1, four);
    H5Fclose(file);
    pthread_t threads[3];
    for (int i = 0; i < 3; ++i) {
        assert_int_equal(pthread_create(&threads[i], NULL, load_many_times, path), 0);
    }
    for (int i = 0; i < 3; ++i) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_flat_nested_and_wrapped),
        cmocka_unit_test(prefixes_of_the_user),
        cmocka_unit_test(only_a_group),
        cmocka_unit_test(types_are_converted),
        cmocka_unit_test(rounding),
        cmocka_unit_test(roles_of_an_empty_store),
        cmocka_unit_test(strict_reports_everything_together),
        cmocka_unit_test(long_reports_give_eight_and_the_count),
        cmocka_unit_test(a_file_that_is_saved_can_be_read),
        cmocka_unit_test(a_locked_file_is_not_called_damaged),
        cmocka_unit_test(lenient_loads_what_matches),
        cmocka_unit_test(loads_are_counted),
        cmocka_unit_test(names_with_a_wrapper_in_them),
        cmocka_unit_test(names_of_others),
        cmocka_unit_test(scalars_and_empty_spaces_match_no_shape),
        cmocka_unit_test(kinds_of_numbers_must_match),
        cmocka_unit_test(what_holds_no_numbers),
        cmocka_unit_test(two_datasets_of_one_name),
        cmocka_unit_test(names_that_are_too_long),
        cmocka_unit_test(names_may_begin_with_any_character),
        cmocka_unit_test(failure_leaves_a_filled_store),
        cmocka_unit_test(out_of_device_memory),
        cmocka_unit_test(empty_files_and_sealed_stores),
        cmocka_unit_test(not_finite_weights_are_state),
        cmocka_unit_test(aliases_load_and_save_under_every_name),
        cmocka_unit_test(threads_may_load_at_once),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
