/* Opening, listing, reading and writing HDF5 files: what each failure says, and what a failure
 * leaves. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/fixture.h"

static const hsize_t four[] = {4};

static uf_status list(const char *path) {
    uf_hdf5_entry *entries;
    int64_t count;
    const uf_status status = uf_hdf5_list(path, NULL, &entries, &count);
    if (status != UF_OK) {
        assert_null(entries);
        assert_int_equal(count, 0);
    }
    uf_hdf5_list_free(entries);
    return status;
}

static uf_status load(const char *path) {
    uf_context *context = fixture_context(NULL);
    uf_store *store;
    assert_ok(uf_store_create(context, "s", &store));
    const uf_status status = uf_store_load_hdf5(store, path, NULL);
    uf_store_destroy(store);
    uf_context_destroy(context);
    return status;
}

static uf_status read_w(const char *path) {
    uf_shape shape;
    float values[16];
    return uf_hdf5_read(path, "w", UF_F32, &shape, values, 16);
}

/* Everything that opens a file refuses it with the same sentence, and prints nothing. */
static void assert_refused(const char *path, uf_status status, const char *message) {
    static uf_status (*const calls[])(const char *) = {list, load, read_w};
    char kept[256]; /* the fixture's paths do not last */
    snprintf(kept, sizeof kept, "%s", path);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; ++i) {
        fixture_watch_stderr();
        const uf_status got = calls[i](kept);
        const int64_t printed = fixture_printed();
        assert_error(got, status, kept, message);
        assert_int_equal(printed, 0);
    }
}

static void make_good(const char *path) {
    const hid_t file = fixture_create(path);
    fixture_ramp(file, "w", 1, four);
    H5Fclose(file);
}

static void files_that_cannot_be_opened(void **state) {
    (void)state;
    assert_refused(fixture_path("absent.h5"), UF_ERROR_NOT_FOUND, "No such file or directory");
    assert_refused("/tmp", UF_ERROR_FORMAT, "/tmp is a directory, not an HDF5 file");
    assert_refused("/dev/null", UF_ERROR_FORMAT, "not a regular file");
    char path[256];
    snprintf(path, sizeof path, "%s", fixture_path("file.h5"));
    fixture_bytes(path, "", 0);
    assert_refused(path, UF_ERROR_FORMAT, "is empty, not an HDF5 file");
    fixture_bytes(path, "hello\n", 6);
    assert_refused(path, UF_ERROR_FORMAT, "file.h5 is not an HDF5 file");
    fixture_bytes(path, "\211HDF\r\n\032\n", 8);
    assert_refused(path, UF_ERROR_FORMAT, "file.h5 is truncated: its 8 bytes");
    if (geteuid() != 0) { /* root may read everything */
        make_good(path);
        assert_int_equal(chmod(path, 0), 0);
        assert_refused(path, UF_ERROR_IO, "Permission denied");
    }
    assert_error(list(""), UF_ERROR_INVALID_ARGUMENT, "name of a file to read is empty");
}

/* A zip archive's first member: a local file header and its name. */
#define ZIP(length, name)                                                                          \
    "PK\3\4\0\0\10\10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0" length "\0\0\0" name

/* Files of others are told by their contents, whatever their names, and the message has a line of
 * Python. */
static void files_of_others(void **state) {
    (void)state;
#define CASE(bytes, what, remedy)                                                                  \
    { bytes, sizeof bytes - 1, what, remedy }
    static const struct {
        const char *bytes;
        size_t size;
        const char *what, *remedy;
    } cases[] = {
        CASE(ZIP("\x10", "archive/data.pkl") "FB", "a PyTorch checkpoint", "torch.load("),
        CASE(ZIP("\x0d", "script/data/0") "FB", "a TorchScript module", "torch.jit.load("),
        CASE("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", "a PyTorch checkpoint",
             "torch.load("),
        CASE("\x80\x04\x95rest", "a Python pickle", "pickle.load("),
        CASE(ZIP("\x05", "w.npy") "\x93NUMPY", "a NumPy archive", "numpy.load("),
        CASE("\x93NUMPY\1\0v\0{", "a NumPy array", "numpy.load("),
        CASE(ZIP("\x0d", "metadata.json") "{}", "a Keras file", "transpose(3, 2, 0, 1)"),
        CASE("\x48\0\0\0\0\0\0\0{\"w\":", "a safetensors file",
             "uf_weights_load reads it; `unfurl convert`"),
        CASE("\x08\x07\x12\x07pytorch", "an ONNX model", "onnx.numpy_helper"),
    };
    /* Near them, or cut. */
    static const struct {
        const char *bytes;
        size_t size;
    } unknown[] = {
#define NEAR(bytes) {bytes, sizeof bytes - 1}
        NEAR(ZIP("\x05", "w.txt")),
        NEAR("PK\3\4"),
        NEAR(ZIP("\xff", "a.npy")),
        NEAR("\x80"),
        NEAR("\x80\x09\x95rest"),
        NEAR("\xff\xff\xff\xff\xff\0\0\0{"),
        NEAR("\x48\0\0\0\0\0\0\0"),
        NEAR("\x08\x07\x13\x07"),
        NEAR("\x08"),
        NEAR("7767517"),
    };
    char path[256];
    snprintf(path, sizeof path, "%s", fixture_path("any.h5"));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        char sentence[64];
        const bool is_ours = strstr(cases[i].remedy, "uf_weights_load") != NULL;
        snprintf(sentence, sizeof sentence,
                 "any.h5 is %s, not an HDF5 file; in %s: ", cases[i].what,
                 is_ours ? "C" : "Python");
        fixture_bytes(path, cases[i].bytes, cases[i].size);
        assert_refused(path, UF_ERROR_FORMAT, sentence);
        assert_error(load(path), UF_ERROR_FORMAT, cases[i].remedy,
                     is_ours ? "makes an HDF5 file of it" : "h5py.File(");
    }
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; ++i) {
        fixture_bytes(path, unknown[i].bytes, unknown[i].size);
        assert_refused(path, UF_ERROR_FORMAT, "any.h5 is not an HDF5 file");
    }
}

/* Cut at every length: always a sentence, and "truncated" once HDF5 knows how long the file should
 * be. */
static void truncated_files(void **state) {
    (void)state;
    const char *good = fixture_path("whole.h5");
    const char *cut = fixture_path("cut.h5");
    make_good(good);
    size_t size;
    unsigned char *bytes = fixture_read(good, &size);
    int truncated = 0;
    for (size_t length = 1; length < size; ++length) {
        fixture_bytes(cut, bytes, length);
        assert_error(load(cut), UF_ERROR_FORMAT, "cut.h5");
        truncated += strstr(uf_last_error(), "cut.h5 is truncated: its ") != NULL;
        /* Past the superblock (96 bytes here) there is no doubt. */
        assert_true(length < 96 || strstr(uf_last_error(), "is truncated") != NULL);
    }
    assert_true(truncated > 1000);
    free(bytes);
}

static void hdf5_error_printing_is_left_as_it_was(void **state) {
    (void)state;
    const char *path = fixture_path("good.h5");
    H5E_auto2_t before, after;
    void *data_before, *data_after;
    make_good(path);
    H5Eget_auto2(H5E_DEFAULT, &before, &data_before);
    assert_non_null(before);
    assert_ok(list(path));
    assert_error(load("/tmp"), UF_ERROR_FORMAT, "directory");
    assert_error(uf_hdf5_write("/absent/x.h5", "w", UF_F32, UF_SCALAR, &data_before),
                 UF_ERROR_NOT_FOUND, "cannot write /absent/x.h5: its directory does not exist");
    H5Eget_auto2(H5E_DEFAULT, &after, &data_after);
    assert_true(before == after && data_before == data_after);
}

static void listing(void **state) {
    (void)state;
    const char *path = fixture_path("list.h5");
    const hsize_t none[] = {0, 3}, matrix[] = {2, 3};
    const hid_t file = fixture_create(path);
    fixture_ramp(file, "g/h/w", 2, matrix);
    fixture_ramp(file, "a", 0, NULL);
    fixture_strings(file, "notes");
    fixture_dataset(file, "zero", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, 2, none, NULL);
    H5Lcreate_soft("/g/h/w", file, "soft", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/nowhere", file, "dangling", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("self", file, "self", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_hard(file, "/", file, "g/cycle", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_external("/etc/hostname", "/x", file, "outside", H5P_DEFAULT, H5P_DEFAULT);
    H5Fclose(file);
    static const struct {
        const char *name, *type, *shape;
        bool is_tensor;
        int64_t bytes;
    } expected[] = {
        {"a", "f32", "()", true, 4},         {"g/h/w", "f32", "(2, 3)", true, 24},
        {"notes", "string", NULL, false, 0}, {"outside", "external link", NULL, false, 0},
        {"soft", "f32", "(2, 3)", true, 24}, {"zero", "f32", NULL, false, 0},
    };
    uf_hdf5_entry *entries;
    int64_t count;
    assert_ok(uf_hdf5_list(path, NULL, &entries, &count));
    assert_int_equal(count, sizeof expected / sizeof expected[0]);
    for (int64_t i = 0; i < count; ++i) {
        char text[64];
        assert_string_equal(entries[i].name, expected[i].name);
        assert_string_equal(entries[i].type, expected[i].type);
        assert_int_equal(entries[i].is_tensor, expected[i].is_tensor);
        assert_int_equal(entries[i].bytes, expected[i].bytes);
        if (expected[i].shape != NULL) {
            assert_string_equal(uf_shape_format(&entries[i].shape, text, sizeof text),
                                expected[i].shape);
        }
    }
    uf_hdf5_list_free(entries);
    assert_ok(uf_hdf5_list(path, "g/h", &entries, &count));
    assert_int_equal(count, 1);
    assert_string_equal(entries[0].name, "g/h/w");
    uf_hdf5_list_free(entries);
    uf_hdf5_list_free(NULL);
    assert_error(uf_hdf5_list(path, "x", &entries, &count), UF_ERROR_NOT_FOUND, "has no group x");
    assert_error(uf_hdf5_list(path, "outside", &entries, &count), UF_ERROR_FORMAT,
                 "needs another file through an external link, which is not followed");
}

typedef struct visited {
    char names[64][96];
    int count;
} visited;

static herr_t on_visit(hid_t root, const char *name, const H5L_info_t *link, void *data) {
    (void)link;
    visited *to = data;
    const hid_t id = H5Oopen(root, name, H5P_DEFAULT);
    if (H5Iget_type(id) == H5I_DATASET) {
        snprintf(to->names[to->count++], sizeof to->names[0], "%s", name);
    }
    H5Oclose(id);
    return 0;
}

/* Name order is libhdf5's: by groups, not by whole paths. More than 8 names are stored in another
 * way than fewer. */
static void listing_in_name_order(void **state) {
    (void)state;
    static const char *const first[] = {"a/c", "a-b", "a.b", "a/b/z", "a/b-", "B", "b/0/w", "b/00"};
    const char *path = fixture_path("order.h5");
    for (int i = 0; i < 4; ++i) {
        const hid_t how = H5Pcreate(H5P_FILE_ACCESS);
        if (i % 2 == 1) {
            H5Pset_libver_bounds(how, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
        }
        const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, how);
        H5Pclose(how);
        for (int64_t j = COUNT_OF(first); j-- > 0;) {
            fixture_ramp(file, first[j], 1, four);
        }
        for (int j = 0; i >= 2 && j < 40; ++j) {
            char name[32];
            snprintf(name, sizeof name, j % 2 ? "main.%d" : "many/%d", j);
            fixture_ramp(file, name, 1, four);
        }
        H5Lcreate_hard(file, "a/b", file, "again", H5P_DEFAULT, H5P_DEFAULT);
        visited expected = {.count = 0};
        assert_true(H5Lvisit(file, H5_INDEX_NAME, H5_ITER_INC, on_visit, &expected) >= 0);
        H5Fclose(file);
        uf_hdf5_entry *entries;
        int64_t count;
        assert_ok(uf_hdf5_list(path, NULL, &entries, &count));
        assert_int_equal(count, expected.count);
        assert_int_equal(count, COUNT_OF(first) + (i >= 2 ? 40 : 0));
        for (int64_t j = 0; j < count; ++j) {
            assert_string_equal(entries[j].name, expected.names[j]);
        }
        uf_hdf5_list_free(entries);
    }
}

/* Groups inside themselves, under two names each, in a file that says that each has one: a visitor
 * that believes it needs 2^160 steps. */
static void cycles_that_the_file_denies(void **state) {
    (void)state;
    const char *path = fixture_path("cycles.h5");
    const hid_t file = fixture_create(path);
    fixture_ramp(file, "g/w", 1, four);
    H5Lcreate_hard(file, "/g", file, "g/again", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_hard(file, "/g", file, "g/more", H5P_DEFAULT, H5P_DEFAULT);
    const hid_t group = H5Gopen2(file, "g", H5P_DEFAULT);
    assert_true(H5Odecr_refcount(group) >= 0 && H5Odecr_refcount(group) >= 0);
    H5Gclose(group);
    H5Fclose(file);
    uf_hdf5_entry *entries;
    int64_t count;
    assert_ok(uf_hdf5_list(path, NULL, &entries, &count));
    assert_int_equal(count, 1);
    assert_string_equal(entries[0].name, "g/w");
    uf_hdf5_list_free(entries);
}

/* A file of weights reads no other file, whichever way it asks. */
static void other_files_are_not_followed(void **state) {
    (void)state;
    const char *secret = fixture_path("secret.h5"), *path = fixture_path("asks.h5");
    make_good(secret);
    hid_t file = fixture_create(path);
    H5Lcreate_external(secret, "/w", file, "w", H5P_DEFAULT, H5P_DEFAULT);
    H5Fclose(file);
    assert_error(load(path), UF_ERROR_FORMAT, "w in ", "asks.h5 is a link to another file");
    assert_error(read_w(path), UF_ERROR_FORMAT, "external link, which is not followed");

    file = fixture_create(path);
    H5Lcreate_external(secret, "/", file, "there", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("there/w", file, "w", H5P_DEFAULT, H5P_DEFAULT);
    H5Fclose(file);
    assert_error(load(path), UF_ERROR_FORMAT, "is a link to another file");
    assert_error(read_w(path), UF_ERROR_FORMAT, "external link, which is not followed");

    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    const hid_t space = H5Screate_simple(1, four, NULL);
    H5Pset_external(properties, "/etc/passwd", 0, 16);
    file = fixture_create(path);
    H5Dclose(H5Dcreate2(file, "w", H5T_IEEE_F32LE, space, H5P_DEFAULT, properties, H5P_DEFAULT));
    H5Fclose(file);
    H5Pclose(properties);
    assert_error(load(path), UF_ERROR_FORMAT, "w in ", "keeps its data in other files");
    assert_error(read_w(path), UF_ERROR_FORMAT, "keeps its data in other files");

    const hid_t virtual = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_virtual(virtual, space, secret, "/w", space);
    file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    H5Dclose(H5Dcreate2(file, "w", H5T_IEEE_F32LE, space, H5P_DEFAULT, virtual, H5P_DEFAULT));
    H5Fclose(file);
    H5Pclose(virtual);
    H5Sclose(space);
    assert_error(load(path), UF_ERROR_FORMAT, "w in ", "keeps its data in other files");
    assert_error(read_w(path), UF_ERROR_FORMAT, "keeps its data in other files");
}

/* Extents are only a claim: a few bytes of file must not cost the reader its memory. */
static void hostile_extents(void **state) {
    (void)state;
    const char *path = fixture_path("hostile.h5");
    const hsize_t huge[] = {(hsize_t)1 << 60}, square[] = {(hsize_t)1 << 40, (hsize_t)1 << 40};
    const hsize_t large[] = {(hsize_t)1 << 32}, chunk[] = {1024, 1024};
    const hid_t chunked = H5Pcreate(H5P_DATASET_CREATE), flat = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_alloc_time(flat, H5D_ALLOC_TIME_LATE);
    const struct {
        int rank, layout; /* 1: chunked */
        const hsize_t *dims;
        const char *message;
    } cases[] = {
        {1, 1, huge, "claims 4611686018427387904 bytes, which a file of "},
        {2, 1, square, "more elements than memory can address"},
        {1, 1, large, "claims 17179869184 bytes, which a file of "},
        {1, 0, large, "claims 17179869184 bytes, which a file of "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        H5Pset_chunk(chunked, cases[i].rank, chunk);
        const hid_t file = fixture_create(path);
        const hid_t space = H5Screate_simple(cases[i].rank, cases[i].dims, NULL);
        const hid_t id = H5Dcreate2(file, "w", H5T_IEEE_F32LE, space, H5P_DEFAULT,
                                    cases[i].layout ? chunked : flat, H5P_DEFAULT);
        assert_true(id >= 0);
        H5Dclose(id);
        H5Sclose(space);
        H5Fclose(file);
        assert_error(load(path), UF_ERROR_FORMAT, "w in ", cases[i].message);
    }
    /* Every one of many names for one dataset of a few bytes is small enough: their sum is not. */
    const hid_t file = fixture_create(path);
    const hsize_t most[] = {(hsize_t)1 << 18};
    const hid_t space = H5Screate_simple(1, most, NULL);
    float *zeros = test_allocate(sizeof(float) << 18);
    memset(zeros, 0, sizeof(float) << 18);
    H5Pset_chunk(chunked, 1, most);
    H5Pset_deflate(chunked, 9);
    const hid_t id =
        H5Dcreate2(file, "w", H5T_IEEE_F32LE, space, H5P_DEFAULT, chunked, H5P_DEFAULT);
    assert_true(H5Dwrite(id, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, zeros) >= 0);
    free(zeros);
    H5Dclose(id);
    H5Sclose(space);
    for (int i = 0; i < 100; ++i) {
        char name[16];
        snprintf(name, sizeof name, "v%d", i);
        H5Lcreate_hard(file, "w", file, name, H5P_DEFAULT, H5P_DEFAULT);
    }
    H5Fclose(file);
    assert_error(load(path), UF_ERROR_FORMAT, "everything in", "claims");
    H5Pclose(chunked);
    H5Pclose(flat);
}

static void too_many_axes(void **state) {
    (void)state;
    const char *path = fixture_path("axes.h5");
    const hsize_t ones[] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    const hid_t file = fixture_create(path);
    fixture_ramp(file, "w", 9, ones);
    H5Fclose(file);
    assert_error(load(path), UF_ERROR_FORMAT, "w in ", "axes.h5 has 9 axes, more than 8");
}

static void deeply_nested_groups(void **state) {
    (void)state;
    const char *path = fixture_path("deep.h5");
    const hid_t file = fixture_create(path);
    hid_t group = file;
    for (int i = 0; i < 5000; ++i) {
        const hid_t inner = H5Gcreate2(group, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        if (group != file) {
            H5Gclose(group);
        }
        group = inner;
    }
    H5Gclose(group);
    H5Fclose(file);
    assert_error(load(path), UF_ERROR_FORMAT, "deep.h5 holds a name of 321 characters");
}

static void reading_one_dataset(void **state) {
    (void)state;
    const char *path = fixture_path("read.h5");
    const double reals[] = {0.5, -1.5, 0.1, 3.0};
    const int64_t integers[] = {1, -2, 3, 4};
    const uint64_t large[] = {1, UINT64_MAX, 2, 3};
    const uint8_t bytes[] = {0, 127, 128, 255};
    const hid_t file = fixture_create(path);
    fixture_dataset(file, "g/reals", H5T_IEEE_F64BE, H5T_NATIVE_DOUBLE, 1, four, reals);
    fixture_dataset(file, "integers", H5T_STD_I16LE, H5T_NATIVE_INT64, 1, four, integers);
    fixture_dataset(file, "large", H5T_STD_U64LE, H5T_NATIVE_UINT64, 1, four, large);
    fixture_dataset(file, "bytes", H5T_STD_U8LE, H5T_NATIVE_UINT8, 1, four, bytes);
    fixture_dataset(file, "null", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, 0, NULL, NULL);
    H5Fclose(file);
    uf_shape shape;
    double f64[4];
    float f32[4];
    int64_t i64[4];
    assert_ok(uf_hdf5_read(path, "g/reals", UF_F64, &shape, NULL, 0));
    assert_true(shape.rank == 1 && shape.extent[0] == 4);
    assert_ok(uf_hdf5_read(path, "/g/reals", UF_F64, &shape, f64, 4));
    assert_memory_equal(f64, reals, sizeof reals);
    assert_ok(uf_hdf5_read(path, "g/reals", UF_F32, &shape, f32, 4));
    assert_ok(uf_hdf5_read(path, "integers", UF_I64, &shape, i64, 4));
    for (int i = 0; i < 4; ++i) {
        assert_true(f32[i] == (float)reals[i] && i64[i] == integers[i]);
    }
    assert_ok(uf_hdf5_read(path, "bytes", UF_F32, &shape, f32, 4));
    for (int i = 0; i < 4; ++i) {
        assert_true(f32[i] == (float)bytes[i]);
    }
    assert_error(uf_hdf5_read(path, "g/reals", UF_F64, &shape, f64, 3), UF_ERROR_SHAPE,
                 "g/reals in ", "read.h5 is (4,), 4 elements; there is room for 3");
    assert_error(uf_hdf5_read(path, "g/reals", UF_I64, &shape, i64, 4), UF_ERROR_FORMAT,
                 "holds f64 values, not integers");
    assert_error(uf_hdf5_read(path, "large", UF_I64, &shape, i64, 4), UF_ERROR_FORMAT,
                 "holds 18446744073709551615, which is too large");
    assert_error(uf_hdf5_read(path, "large", UF_F64, &shape, f64, 4), UF_ERROR_FORMAT, "too large");
    assert_error(uf_hdf5_read(path, "nothing/here", UF_F64, &shape, f64, 4), UF_ERROR_NOT_FOUND,
                 "read.h5 has no dataset nothing/here");
    assert_error(uf_hdf5_read(path, "g", UF_F64, &shape, f64, 4), UF_ERROR_FORMAT, "g in ",
                 "is a group, not a dataset");
    assert_error(uf_hdf5_read(path, "/", UF_F64, &shape, f64, 4), UF_ERROR_INVALID_ARGUMENT,
                 "the name of a dataset");
    assert_error(uf_hdf5_read(path, "bytes", UF_BF16, &shape, f64, 4), UF_ERROR_INVALID_ARGUMENT,
                 "bf16");
}

static void writing_round_trips(void **state) {
    (void)state;
    const char *path = fixture_path("written.h5");
    const double reals[] = {0.1, -0.0, 1e300, 5, 6, 7};
    double got[6];
    uf_shape shape;
    const int before = fixture_count();
    assert_ok(uf_hdf5_write(path, "/a/b", UF_F64, UF_SHAPE(2, 3), reals));
    assert_ok(uf_hdf5_read(path, "a/b", UF_F64, &shape, got, 6));
    assert_memory_equal(got, reals, sizeof reals);
    assert_true(shape.rank == 2 && shape.extent[0] == 2 && shape.extent[1] == 3);
    /* The same again gives the same bytes, and replaces; the mode of the file stays. HDF5 would
     * store times to the second: the second one must fall into another. */
    size_t size, again;
    unsigned char *one = fixture_read(path, &size);
    sleep(1);
    assert_int_equal(chmod(path, 0640), 0);
    assert_ok(uf_hdf5_write(path, "/a/b", UF_F64, UF_SHAPE(2, 3), reals));
    unsigned char *other = fixture_read(path, &again);
    assert_true(size == again && memcmp(one, other, size) == 0);
    free(one);
    free(other);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    /* A symbolic link stays one. */
    const char *alias = fixture_path("link.h5");
    assert_int_equal(symlink(path, alias), 0);
    const int64_t step = 42;
    int64_t read_step;
    assert_ok(uf_hdf5_write(alias, "step", UF_I64, UF_SCALAR, &step));
    assert_int_equal(lstat(alias, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_ok(uf_hdf5_read(path, "step", UF_I64, &shape, &read_step, 1));
    assert_true(read_step == 42 && shape.rank == 0);
    assert_int_equal(fixture_count(), before + 2);
}

static void failed_writes_leave_nothing(void **state) {
    (void)state;
    const char *path = fixture_path("kept.h5");
    static float values[100000];
    make_good(path);
    size_t size, after;
    unsigned char *before = fixture_read(path, &size);
    const int files = fixture_count();
    assert_error(uf_hdf5_write("/tmp", "w", UF_F32, UF_SCALAR, values), UF_ERROR_IO,
                 "cannot write /tmp: it is a directory");
    assert_error(uf_hdf5_write("/dev/null", "w", UF_F32, UF_SCALAR, values), UF_ERROR_IO,
                 "cannot write /dev/null: it is not a regular file");
    assert_error(uf_hdf5_write("", "w", UF_F32, UF_SCALAR, values), UF_ERROR_INVALID_ARGUMENT,
                 "empty");
    assert_error(uf_hdf5_write(path, "/", UF_F32, UF_SCALAR, values), UF_ERROR_INVALID_ARGUMENT,
                 "the name of a dataset in ", "is empty");
    assert_error(uf_hdf5_write(path, "w", UF_BF16, UF_SCALAR, values), UF_ERROR_INVALID_ARGUMENT,
                 "bf16");
    assert_error(uf_hdf5_write(path, "w", UF_F32, UF_SHAPE(-1), values), UF_ERROR_INVALID_ARGUMENT,
                 "is not a shape");
    /* A disk that fills up: no file of this process may pass 64 KiB. SIGXFSZ would end it. */
    struct rlimit limit, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = limit;
    small.rlim_cur = 65536;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const uf_status status = uf_hdf5_write(path, "w", UF_F32, UF_SHAPE(100000), values);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_error(status, UF_ERROR_IO, "cannot write ", "kept.h5", "File too large");
    assert_int_equal(fixture_count(), files);
    unsigned char *bytes = fixture_read(path, &after);
    assert_true(size == after && memcmp(before, bytes, size) == 0);
    free(before);
    free(bytes);
    /* HDF5 itself is still usable. */
    assert_ok(uf_hdf5_write(path, "w", UF_F32, UF_SHAPE(100000), values));
}

/* HDF5 takes ".." for a name like any other and skips "." and empty parts: two names of ours would
 * be one of its. */
static void names_that_mean_another(void **state) {
    (void)state;
    static const char *const names[] = {"a//b", "a/../b", "..",   ".",     "a/",
                                        "a/.",  "./a",    "../a", "/a//b", "//.."};
    const char *path = fixture_path("names.h5"), *odd = fixture_path("odd.h5");
    const float one = 1.0f;
    uf_context *context = fixture_context(NULL);
    make_good(path);
    const int files = fixture_count();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
        const char *name = names[i] + strspn(names[i], "/");
        uf_shape shape;
        float value;
        double number;
        int32_t numbers;
        uf_hdf5_entry *entries;
        int64_t count;
        char sentence[64];
        snprintf(sentence, sizeof sentence, "%s cannot be a name in ", name);
        assert_error(uf_hdf5_write(odd, names[i], UF_F32, UF_SCALAR, &one),
                     UF_ERROR_INVALID_ARGUMENT, sentence, "odd.h5");
        assert_error(uf_hdf5_read(path, names[i], UF_F32, &shape, &value, 1),
                     UF_ERROR_INVALID_ARGUMENT, sentence, "names.h5");
        assert_error(uf_hdf5_read_attribute(path, names[i], "x", &number, 1, &numbers),
                     UF_ERROR_INVALID_ARGUMENT, sentence);
        if (name[strlen(name) - 1] != '/') { /* behind a group a slash says nothing */
            assert_error(uf_hdf5_list(path, names[i], &entries, &count), UF_ERROR_INVALID_ARGUMENT,
                         sentence);
        }
        if (strchr(name, '/') == NULL) {
            uf_store *store;
            assert_ok(uf_store_create(context, "s", &store));
            fixture_declare(store, name, UF_SHAPE(1), UF_ROLE_PARAMETER);
            assert_error(uf_store_save_hdf5(store, odd), UF_ERROR_INVALID_ARGUMENT,
                         "cannot be the name of a dataset");
            uf_store_destroy(store);
        }
    }
    assert_int_equal(fixture_count(), files);
    char longest[2 * UF_NAME_SIZE + 1];
    memset(longest, 'n', sizeof longest);
    longest[2 * UF_NAME_SIZE] = '\0';
    assert_error(uf_hdf5_write(odd, longest, UF_F32, UF_SCALAR, &one), UF_ERROR_INVALID_ARGUMENT,
                 "longer than 319 characters");
    uf_context_destroy(context);
    /* A file may hold such names all the same. */
    const hid_t file = fixture_create(odd);
    fixture_ramp(file, "../w", 1, four);
    H5Fclose(file);
    assert_error(load(odd), UF_ERROR_FORMAT, "odd.h5 holds the name .., of which a part");
    assert_error(list(odd), UF_ERROR_FORMAT, "odd.h5 holds the name .., of which a part");
}

/* Where HDF5's superblock of the 1.8 format says that the file ends. */
static uint64_t end_of_contents(const char *path, size_t *size) {
    unsigned char *bytes = fixture_read(path, size);
    uint64_t end = 0;
    assert_true(*size > 48 && bytes[8] == 2 && bytes[9] == 8);
    for (int i = 7; i >= 0; --i) {
        end = end << 8 | bytes[28 + i];
    }
    free(bytes);
    return end;
}

static void files_are_as_long_as_their_contents(void **state) {
    (void)state;
    const char *path = fixture_path("length.h5");
    static const float values[1 << 20];
    static const int64_t counts[] = {1, 1900, 1 << 18, 1 << 20};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; ++i) {
        size_t size;
        assert_ok(uf_hdf5_write(path, "w", UF_F32, UF_SHAPE(counts[i]), values));
        assert_true(end_of_contents(path, &size) == size);
        assert_true(size >= 4 * (size_t)counts[i] && size < 4 * (size_t)counts[i] + 4096);
        assert_ok(load(path));
    }
}

static void saving_a_store(void **state) {
    (void)state;
    const char *path = fixture_path("saved.h5");
    uf_context *context = fixture_context(NULL);
    uf_store *store, *again;
    const float weights[] = {1.5f, -2.0f, NAN, 4.0f};
    const int64_t steps = 123456789012345;
    uf_tensor *tensor;
    assert_ok(uf_store_create(context, "s", &store));
    fixture_declare(store, "main.0.weight", UF_SHAPE(2, 2), UF_ROLE_PARAMETER);
    fixture_declare(store, "main.1.running_mean", UF_SHAPE(1), UF_ROLE_BUFFER);
    fixture_declare(store, "main.1.num_batches_tracked", UF_SCALAR, UF_ROLE_COUNTER);
    assert_ok(uf_store_tensor(store, "main.0.weight", &tensor));
    assert_ok(uf_tensor_upload(tensor, weights));
    assert_ok(uf_store_tensor(store, "main.1.num_batches_tracked", &tensor));
    assert_ok(uf_tensor_upload(tensor, &steps));
    assert_ok(uf_store_save_hdf5(store, path));
    assert_ok(uf_store_create(context, "again", &again));
    assert_ok(uf_store_load_hdf5(again, path, NULL));
    assert_int_equal(uf_store_size(again), 3);
    float got[4];
    int64_t got_steps;
    assert_ok(uf_store_tensor(again, "main.0.weight", &tensor));
    assert_ok(uf_tensor_download(tensor, got));
    assert_memory_equal(got, weights, sizeof weights);
    assert_ok(uf_store_tensor(again, "main.1.num_batches_tracked", &tensor));
    assert_int_equal(uf_tensor_shape(tensor).rank, 0);
    assert_ok(uf_tensor_download(tensor, &got_steps));
    assert_true(got_steps == steps);
    assert_error(uf_store_save_hdf5(store, "/absent/s.h5"), UF_ERROR_NOT_FOUND,
                 "its directory does not exist");
    assert_error(uf_store_save_hdf5(NULL, path), UF_ERROR_INVALID_ARGUMENT, "NULL");
    uf_store_destroy(again);
    uf_store_destroy(store);
    assert_ok(uf_store_create(context, "s", &store));
    fixture_declare(store, "main/0", UF_SHAPE(1), UF_ROLE_PARAMETER);
    assert_error(uf_store_save_hdf5(store, path), UF_ERROR_INVALID_ARGUMENT,
                 "main/0 cannot be the name of a dataset");
    uf_store_destroy(store);
    uf_context_destroy(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_that_cannot_be_opened),
        cmocka_unit_test(files_of_others),
        cmocka_unit_test(truncated_files),
        cmocka_unit_test(hdf5_error_printing_is_left_as_it_was),
        cmocka_unit_test(listing),
        cmocka_unit_test(listing_in_name_order),
        cmocka_unit_test(cycles_that_the_file_denies),
        cmocka_unit_test(other_files_are_not_followed),
        cmocka_unit_test(hostile_extents),
        cmocka_unit_test(too_many_axes),
        cmocka_unit_test(deeply_nested_groups),
        cmocka_unit_test(reading_one_dataset),
        cmocka_unit_test(writing_round_trips),
        cmocka_unit_test(failed_writes_leave_nothing),
        cmocka_unit_test(names_that_mean_another),
        cmocka_unit_test(files_are_as_long_as_their_contents),
        cmocka_unit_test(saving_a_store),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
