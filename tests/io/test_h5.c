/* test_h5.c - the library's own reader of HDF5, on the small files of tests/data/h5 (make_h5.py):
 * the same as libhdf5 on whole ones, and a sentence, quickly and within bounds of memory, on
 * damaged ones. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "core/crc32c.h"
#include "io/compare_h5.h"
#include "io/fixture.h"
#include "io/h5/internal.h"

static const char *const names[] = {
    "symbols",     "chunked",          "compact_links", "dense_links", "dense_attributes",
    "fixed_array", "extensible_array", "tree",          "single",      "types"};

static const char *source(size_t i) {
    char name[64];
    snprintf(name, sizeof name, "h5/%s.h5", names[i]);
    return test_data_path(name);
}

static void as_libhdf5_reads_them(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
        assert_int_equal(compare_h5(source(i)), 0);
    }
}

/* ---- everything that can be read of a file ---- */

static void demand_refusal(uf_status status) {
    if (status != UF_ERROR_FORMAT && status != UF_ERROR_UNSUPPORTED) {
        fail_msg("%s: %s", uf_status_name(status), uf_last_error());
    }
}

/* Returns how many tensors were read whole. */
static int read_everything(const char *path) {
    uf_h5_file *file;
    uf_h5_list list;
    uf_file_attributes attributes;
    uf_h5_object root;
    int whole = 0;
    uf_status status = uf_h5_open(path, &file);
    if (status != UF_OK) {
        demand_refusal(status);
        return 0;
    }
    status = uf_h5_find(file, "", &root);
    if (status == UF_OK) {
        status = uf_h5_read_attributes(file, &root, &attributes);
        uf_file_attributes_free(&attributes);
    }
    if (status != UF_OK) {
        demand_refusal(status);
    }
    status = uf_h5_list_all(file, "", &list);
    if (status != UF_OK) {
        demand_refusal(status);
    }
    for (int64_t i = 0; i < list.count; ++i) {
        const uf_h5_object *object = &list.objects[i];
        status = object->is_tensor ? uf_h5_check(file, object) : UF_ERROR_FORMAT;
        if (status == UF_OK) {
            const int64_t count = uf_shape_count(&object->shape);
            void *values = test_allocate((size_t)count * uf_dtype_size(object->type.dtype));
            status = uf_h5_read(file, object, 0, count, values);
            free(values);
        }
        if (status != UF_OK) {
            demand_refusal(status);
        }
        whole += status == UF_OK;
    }
    uf_h5_list_free(&list);
    uf_h5_close(file);
    return whole;
}

/* A file that is changed in place. */
typedef struct scratch {
    char path[256];
    int descriptor;
    size_t size;
    unsigned char *bytes; /* as they were */
} scratch;

static scratch scratch_of(size_t name) {
    scratch made;
    made.bytes = fixture_read(source(name), &made.size);
    snprintf(made.path, sizeof made.path, "%s", fixture_path("damaged.h5"));
    made.descriptor = open(made.path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(made.descriptor >= 0);
    assert_int_equal(pwrite(made.descriptor, made.bytes, made.size, 0), made.size);
    return made;
}

/* Read it with these bytes changed. */
static int read_changed(const scratch *file, size_t at, const unsigned char *bytes, size_t size) {
    size = at + size <= file->size ? size : file->size - at;
    assert_int_equal(pwrite(file->descriptor, bytes, size, (off_t)at), size);
    const int whole = read_everything(file->path);
    assert_int_equal(pwrite(file->descriptor, file->bytes + at, size, (off_t)at), size);
    return whole;
}

static void scratch_free(const scratch *file) {
    close(file->descriptor);
    free(file->bytes);
}

static void spans(void **state) {
    uf_h5_file *file;
    uf_h5_object object;
    int64_t step;
    double whole[30], part[30];
    (void)state;
    assert_ok(uf_h5_open(source(1), &file));
    assert_ok(uf_h5_find(file, "a", &object));
    assert_ok(uf_h5_check(file, &object));
    assert_ok(uf_h5_span(file, &object, &step));
    assert_int_equal(step, 10); /* two rows of chunks of (2, 3) in (6, 5) */
    assert_ok(uf_h5_read(file, &object, 0, 30, whole));
    for (int64_t first = 0; first < 30; ++first) {
        for (int64_t count = 0; count <= 30 - first; ++count) {
            memset(part, 0xff, sizeof part);
            assert_ok(uf_h5_read(file, &object, first, count, part));
            assert_memory_equal(part, whole + first, (size_t)count * sizeof *part);
        }
    }
    assert_true(whole[0] == -3.0 && whole[29] == 11.5);
    assert_error(uf_h5_read(file, &object, 1, 30, part), UF_ERROR_INVALID_ARGUMENT, "1 to 31");
    uf_h5_close(file);
}

static void cut_anywhere(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
        const scratch file = scratch_of(i);
        for (size_t length = file.size - 1; length > 0; --length) {
            assert_int_equal(ftruncate(file.descriptor, (off_t)length), 0);
            assert_int_equal(read_everything(file.path), 0);
        }
        scratch_free(&file);
    }
}

/* Each byte alone, in `ways` ways, of every `step`th byte. */
static void change_bytes(size_t step, int ways) {
    static const unsigned char changes[] = {0xff, 0x01, 0x80, 0x10};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
        const scratch file = scratch_of(i);
        int64_t inputs = 0, harmless = 0;
        for (size_t at = 0; at < file.size; at += step) {
            for (int way = 0; way < ways; ++way, ++inputs) {
                const unsigned char changed = file.bytes[at] ^ changes[way];
                harmless += read_changed(&file, at, &changed, 1) > 0;
            }
        }
        printf("%s: %zu bytes, something was read of %" PRId64 " of %" PRId64 " damaged files\n",
               names[i], file.size, harmless, inputs);
        scratch_free(&file);
    }
}

static void some_bytes_changed(void **state) {
    (void)state;
    change_bytes(3, 1);
}

/* A hash of a file's names, types and shapes; 0 where the file is refused. */
static uint32_t digest(const char *path) {
    uf_h5_file *file;
    uf_h5_list list;
    uint32_t crc = 1;
    if (uf_h5_open(path, &file) != UF_OK) {
        return 0;
    }
    const uf_status status = uf_h5_list_all(file, "", &list);
    for (int64_t i = 0; i < list.count; ++i) {
        const uf_h5_object *object = &list.objects[i];
        crc = uf_crc32c_more(crc, object->name, (int64_t)strlen(object->name), 1);
        crc = uf_crc32c_more(crc, object->type.name, (int64_t)strlen(object->type.name), 1);
        crc = uf_crc32c_more(crc, &object->shape, (int64_t)sizeof object->shape, 1);
    }
    uf_h5_list_free(&list);
    uf_h5_close(file);
    return status == UF_OK ? crc : 0;
}

/* The metadata of the later formats have checksums: a list is what it was, or refused. */
static void changed_metadata_show(void **state) {
    (void)state;
    for (size_t i = 2; i < sizeof names / sizeof names[0]; ++i) {
        const scratch file = scratch_of(i);
        const uint32_t whole = digest(file.path);
        int64_t refused = 0;
        assert_true(whole != 0);
        for (size_t at = 0; at < file.size; at += 2) {
            const unsigned char changed = file.bytes[at] ^ 0x04;
            assert_int_equal(pwrite(file.descriptor, &changed, 1, (off_t)at), 1);
            const uint32_t now = digest(file.path);
            assert_true(now == whole || now == 0);
            refused += now == 0;
            assert_int_equal(pwrite(file.descriptor, file.bytes + at, 1, (off_t)at), 1);
        }
        assert_true(refused > 100);
        scratch_free(&file);
    }
}

static int64_t peak_kilobytes(void) {
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
}

/* ---- deliberate damage ---- */

static void with_number(const scratch *file, size_t at, uint64_t value) {
    unsigned char bytes[8];
    for (size_t i = 0; i < sizeof bytes; ++i) {
        bytes[i] = (unsigned char)(value >> 8 * i);
    }
    (void)read_changed(file, at, bytes, sizeof bytes);
}

/* The place of these letters; the file's size where it has none. */
static size_t place_of(const scratch *file, const char *letters) {
    size_t at = 0;
    while (at + 4 <= file->size && memcmp(file->bytes + at, letters, 4) != 0) {
        ++at;
    }
    return at + 4 <= file->size ? at : file->size;
}

/* Trees that are their own children, heaps of any size, nodes of any count, in the format without
 * checksums. */
static void circles_and_claims(void **state) {
    static const char *const blocks[] = {"TREE", "SNOD", "HEAP"};
    static const uint64_t values[] = {0, 0xffff, 0x7fffffff, INT64_MAX, UINT64_MAX - 1};
    const int64_t before = peak_kilobytes();
    (void)state;
    for (size_t name = 0; name < 2; ++name) {
        const scratch file = scratch_of(name);
        for (int block = 0; block < 3; ++block) {
            const size_t at = place_of(&file, blocks[block]);
            for (size_t field = 4; field < 48 && at < file.size; ++field) {
                for (size_t i = 0; i < sizeof values / sizeof values[0]; ++i) {
                    with_number(&file, at + field, values[i]);
                }
                with_number(&file, at + field, at); /* it leads to itself */
            }
        }
        scratch_free(&file);
    }
    assert_true(peak_kilobytes() - before < 64 * 1024);
}

/* Whoever lists the file and whoever asks for the name would get different objects. */
static void one_name_twice(void **state) {
    const scratch file = scratch_of(0);
    uf_hdf5_entry *entries;
    int64_t count;
    (void)state;
    /* The heap of names has moved while the file was written: both copies. */
    for (size_t at = 0; at + 4 <= file.size; ++at) {
        if (memcmp(file.bytes + at, "soft", 4) == 0) {
            assert_int_equal(pwrite(file.descriptor, "main", 4, (off_t)at), 4);
        }
    }
    assert_error(uf_hdf5_list(file.path, NULL, &entries, &count), UF_ERROR_FORMAT, "damaged.h5",
                 "two links of a group are called main");
    scratch_free(&file);
}

/* A file whose messages are shared in a heap of their own, which the reader does not know. */
static void make_shared(const char *path) {
    const hid_t how = H5Pcreate(H5P_FILE_CREATE);
    assert_true(H5Pset_shared_mesg_nindexes(how, 1) >= 0 &&
                H5Pset_shared_mesg_index(how, 0, H5O_SHMESG_ALL_FLAG, 8) >= 0);
    const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, how, H5P_DEFAULT);
    const hsize_t dims[] = {2, 3};
    assert_true(file >= 0);
    fixture_ramp(file, "a", 2, dims);
    fixture_ramp(file, "b", 2, dims);
    H5Fclose(file);
    H5Pclose(how);
}

static void files_from_strangers(void **state) {
    const char *path = fixture_path("shared.h5");
    uf_context *context = fixture_context(NULL);
    uf_hdf5_load_options options = uf_hdf5_load_options_default();
    uf_hdf5_entry *entries;
    uf_store *store;
    double values[6];
    int64_t count;
    (void)state;
    make_shared(path);
    assert_ok(uf_store_create(context, "s", &store));
    options.untrusted = true;
    assert_error(uf_store_load_hdf5(store, path, &options), UF_ERROR_FORMAT, "b in ", "shared.h5",
                 "only libhdf5 reads that, in files that you trust");
    assert_int_equal(uf_store_size(store), 0);
    assert_error(uf_hdf5_list(path, NULL, &entries, &count), UF_ERROR_FORMAT, "only libhdf5");
    options.untrusted = false;
    assert_ok(uf_store_load_hdf5(store, path, &options));
    assert_int_equal(uf_store_size(store), 2);
    fixture_values(store, "b", values, 6);
    assert_true(values[0] == 1.0 && values[5] == 6.0);
    uf_store_destroy(store);
    uf_context_destroy(context);
}

/* A row of 2^34 elements in chunks of 2^30 rows: what one row of chunks could hold is more than 64
 * bits count, and what it holds of the dataset is one row. libhdf5 writes no such chunks, so those
 * of another height are made higher. The file is large enough for the claim, and has holes. */
static void chunks_higher_than_all_rows(void **state) {
    (void)state;
    const int64_t row = INT64_C(1) << 34;
    const hsize_t extent[2] = {1, (hsize_t)row}, most[2] = {H5S_UNLIMITED, (hsize_t)row};
    const hsize_t chunk[2] = {0x12345, 0x4000};
    static const unsigned char before[] = {0x45, 0x23, 1, 0, 0, 0x40, 0, 0, 1, 0, 0, 0};
    static const unsigned char height[] = {0, 0, 0, 0x40};
    const char *path = fixture_path("high.h5");
    const hid_t file = fixture_create(path);
    const hid_t space = H5Screate_simple(2, extent, most);
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(properties, 2, chunk);
    const hid_t id =
        H5Dcreate2(file, "a", H5T_STD_U8LE, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    assert_true(id >= 0);
    H5Dclose(id);
    H5Pclose(properties);
    H5Sclose(space);
    H5Fclose(file);
    size_t size;
    unsigned char *bytes = fixture_read(path, &size);
    unsigned char *at = bytes;
    while (at + sizeof before <= bytes + size && memcmp(at, before, sizeof before) != 0) {
        ++at;
    }
    assert_true(at + sizeof before <= bytes + size);
    memcpy(at, height, sizeof height);
    fixture_bytes(path, bytes, size);
    free(bytes);
    fixture_truncate(path, INT64_C(1) << 34);

    uf_h5_file *opened;
    uf_h5_object object;
    int64_t elements, values[2] = {1, 1};
    assert_int_equal(uf_h5_open(path, &opened), UF_OK);
    assert_int_equal(uf_h5_find(opened, "a", &object), UF_OK);
    assert_int_equal(uf_h5_span(opened, &object, &elements), UF_OK);
    assert_int_equal(elements, row);
    assert_int_equal(uf_h5_read(opened, &object, row - 2, 2, values), UF_OK);
    assert_int_equal(values[0] + values[1], 0);
    demand_refusal(uf_h5_check(opened, &object)); /* none of it is stored */
    uf_h5_close(opened);
}

/* Seconds of the processor that a load of Keras's layer_names in so many parts takes. */
static double seconds_of_parts(uf_store *store, int parts) {
    const char *path = fixture_path("parts.h5");
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    const hid_t space = H5Screate(H5S_SCALAR), type = H5Tcopy(H5T_C_S1);
    H5Gclose(H5Gcreate2(file, "a", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    for (int i = 0; i < parts; ++i) {
        char name[32];
        snprintf(name, sizeof name, "layer_names%d", i);
        const hid_t id = H5Acreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
        assert_true(id >= 0 && H5Awrite(id, type, "a") >= 0);
        H5Aclose(id);
    }
    H5Tclose(type);
    H5Sclose(space);
    H5Fclose(file);
    H5Pclose(access);
    uf_weights_load_options options = uf_weights_load_options_default();
    uf_keras_mapping mapping = uf_keras_mapping_default();
    mapping.prefix = "";
    options.keras = &mapping;
    options.untrusted = true;
    const clock_t begin = clock();
    assert_error(uf_weights_load(store, path, &options), UF_ERROR_SHAPE, "1 missing (w)");
    return (double)(clock() - begin) / CLOCKS_PER_SEC;
}

/* Four times the parts take four times as long, or little more, and not sixteen times. */
static void many_parts_of_a_list(void **state) {
    uf_context *context = fixture_context(NULL);
    uf_store *store;
    (void)state;
    assert_ok(uf_store_create(context, "s", &store));
    assert_ok(uf_store_declare(store, "w", UF_SHAPE(1), UF_ROLE_PARAMETER));
    const double few = seconds_of_parts(store, 4000), many = seconds_of_parts(store, 16000);
    if (many > 9.0 * few) {
        fail_msg("%.3f s for 4000 parts, %.3f s for 16000", few, many);
    }
    uf_store_destroy(store);
    uf_context_destroy(context);
}

/* An attribute whose 70 texts are one text of 2000 characters, in a group that Keras's layer_names
 * lists a thousand times: little metadata, and far more to copy than the file has. */
static void one_text_many_times(void **state) {
    enum { TEXTS = 70, LENGTH = 2000, TIMES = 1000 };
    const char *path = fixture_path("texts.h5");
    const hid_t file = fixture_create(path);
    const hid_t group = H5Gcreate2(file, "a", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t type = H5Tcopy(H5T_C_S1), letter = H5Tcopy(H5T_C_S1);
    const hsize_t texts = TEXTS, times = TIMES;
    char text[LENGTH + 1] = "", letters[TIMES];
    const char *values[TEXTS];
    (void)state;
    memset(text, 'y', LENGTH);
    memset(letters, 'a', sizeof letters);
    for (int i = 0; i < TEXTS; ++i) {
        values[i] = i == 0 ? text : "z";
    }
    H5Tset_size(type, H5T_VARIABLE);
    hid_t space = H5Screate_simple(1, &texts, NULL);
    hid_t id = H5Acreate2(group, "x", type, space, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(id >= 0 && H5Awrite(id, type, values) >= 0);
    H5Aclose(id);
    H5Sclose(space);
    space = H5Screate_simple(1, &times, NULL);
    id = H5Acreate2(file, "layer_names", letter, space, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(id >= 0 && H5Awrite(id, letter, letters) >= 0);
    H5Aclose(id);
    H5Sclose(space);
    H5Tclose(letter);
    H5Tclose(type);
    H5Gclose(group);
    H5Fclose(file);

    /* An element is a length, an address of 8 bytes, and the number of the text there. */
    size_t size;
    unsigned char *bytes = fixture_read(path, &size);
    size_t at = 0;
    while (at + 16 * TEXTS <= size && (uf_h5_number_at(bytes + at, 4) / 2 != LENGTH / 2 ||
                                       memcmp(bytes + at + 4, bytes + at + 20, 8) != 0)) {
        ++at;
    }
    assert_true(at + 16 * TEXTS <= size);
    for (size_t i = 1; i < TEXTS; ++i) {
        memcpy(bytes + at + 16 * i, bytes + at, 16);
    }
    fixture_bytes(path, bytes, size);
    free(bytes);
    fixture_truncate(path, TEXTS * (LENGTH + 1) + 1000); /* as much as one group may copy */

    uf_context *context = fixture_context(NULL);
    uf_store *store;
    uf_weights_load_options options = uf_weights_load_options_default();
    uf_keras_mapping mapping = uf_keras_mapping_default();
    mapping.prefix = "";
    options.keras = &mapping;
    options.untrusted = true;
    assert_ok(uf_store_create(context, "s", &store));
    assert_ok(uf_store_declare(store, "w", UF_SHAPE(1), UF_ROLE_PARAMETER));
    assert_error(uf_weights_load(store, path, &options), UF_ERROR_FORMAT,
                 "its parts lead to each other, so that reading would not end");
    uf_store_destroy(store);
    uf_context_destroy(context);
}

static void checksum_of_metadata(void **state) {
    (void)state;
    /* The values that lookup3.c's driver5() prints for an initial value of 0. */
    assert_int_equal(uf_h5_checksum((const unsigned char *)"", 0), 0xdeadbeef);
    assert_int_equal(uf_h5_checksum((const unsigned char *)"Four score and seven years ago", 30),
                     0x17770551);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "every") == 0) {
        void *state = NULL;
        if (fixture_setup(&state) != 0) {
            return 1;
        }
        change_bytes(1, 4);
        return fixture_teardown(&state);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checksum_of_metadata),
        cmocka_unit_test(as_libhdf5_reads_them),
        cmocka_unit_test(spans),
        cmocka_unit_test(cut_anywhere),
        cmocka_unit_test(some_bytes_changed),
        cmocka_unit_test(files_from_strangers),
        cmocka_unit_test(changed_metadata_show),
        cmocka_unit_test(circles_and_claims),
        cmocka_unit_test(one_name_twice),
        cmocka_unit_test(chunks_higher_than_all_rows),
        cmocka_unit_test(many_parts_of_a_list),
        cmocka_unit_test(one_text_many_times),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
