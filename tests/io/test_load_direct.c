/* Values that go straight from a file into the tensors of a store: each type in many
 * pieces, no second copy in memory, a file that is cut between its check and its values, and a disk
 * that fails. */
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/store.h"
#include "io/fixture.h"
#include "io/hdf5_file.h"

/* More than one piece of every type, and no whole number of them. */
enum { COUNT = (1 << 19) + 77, TYPES = 5 };

static const struct {
    const char *name, *type;
    int size;
    uf_dtype dtype;
} types[TYPES] = {
    {"a", "F64", 8, UF_F64}, {"b", "I64", 8, UF_I64},   {"c", "F32", 4, UF_F32},
    {"d", "F16", 2, UF_F16}, {"e", "BF16", 2, UF_BF16},
};

/* Numbers of every size that each type can hold, from a fixed sequence. */
static double number(int64_t i) {
    return (double)((i * 7919 % 2001 - 1000)) / 64.0;
}

/* A tensor of each type; `more` bytes before them, which one moves off every boundary. */
static const char *make_file(const char *name, int more) {
    const char *path = fixture_path(name);
    FILE *file = fopen(path, "wb");
    double *values = test_allocate(COUNT * sizeof *values);
    void *bytes = test_allocate((size_t)COUNT * 8);
    char header[1024] = "{";
    int length = 1;
    int64_t at = more;
    if (more > 0) {
        length = snprintf(header, sizeof header,
                          "{\"0\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[0,%d]},", more,
                          more);
    }
    assert_non_null(file);
    for (int i = 0; i < TYPES; ++i) {
        const int64_t end = at + (int64_t)COUNT * types[i].size;
        length += snprintf(header + length, sizeof header - (size_t)length,
                           "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%d],\"data_offsets\":[%" PRId64
                           ",%" PRId64 "]}",
                           i > 0 ? "," : "", types[i].name, types[i].type, COUNT, at, end);
        at = end;
    }
    strcat(header, "}");
    while (++length % 8 != 0) {
        strcat(header, " ");
    }
    for (int i = 0; i < 8; ++i) {
        fputc(i < 4 ? length >> (8 * i) & 255 : 0, file);
    }
    fputs(header, file);
    for (int i = 0; i < more; ++i) {
        fputc(5, file);
    }
    for (int64_t i = 0; i < COUNT; ++i) {
        values[i] = number(i);
    }
    for (int i = 0; i < TYPES; ++i) {
        uf_convert(bytes, types[i].dtype, values, UF_F64, COUNT);
        assert_int_equal(fwrite(bytes, (size_t)types[i].size, COUNT, file), COUNT);
    }
    assert_int_equal(fclose(file), 0);
    free(bytes);
    free(values);
    return path;
}

static uf_store *declared(uf_context *context, uf_dtype dtype) {
    uf_store_options options = uf_store_options_default();
    uf_store *store;
    options.dtype = dtype;
    assert_ok(uf_store_create_with(context, "s", &options, &store));
    for (int i = 0; i < TYPES; ++i) {
        assert_ok(uf_store_declare(store, types[i].name, UF_SHAPE(COUNT),
                                   types[i].dtype == UF_I64 ? UF_ROLE_COUNTER : UF_ROLE_PARAMETER));
    }
    return store;
}

/* Every element as converting it from the file's type to the store's says, once. */
static void demand_loaded(uf_store *store) {
    for (int i = 0; i < TYPES; ++i) {
        const uf_tensor *tensor = &store->slots[i].tensor;
        const size_t size = uf_dtype_size(tensor->dtype);
        unsigned char in_file[8], wanted[8];
        assert_true(store->slots[i].is_given);
        for (int64_t at = 0; at < COUNT; at += 3) {
            const double value = number(at);
            uf_convert(in_file, types[i].dtype, &value, UF_F64, 1);
            uf_convert(wanted, tensor->dtype, in_file, types[i].dtype, 1);
            if (memcmp((const char *)tensor->data + (size_t)at * size, wanted, size) != 0) {
                fail_msg("%s[%" PRId64 "] differs", types[i].name, at);
            }
        }
    }
}

/* The same file as HDF5 in contiguous blocks. */
static const char *make_hdf5(const char *name, const char *from) {
    const char *path = fixture_path(name);
    uf_weights_convert_options options = uf_weights_convert_options_default();
    options.format = UF_WEIGHTS_HDF5;
    assert_ok(uf_weights_convert(from, path, &options));
    return path;
}

static void every_type(void **state) {
    uf_context *context = fixture_context(NULL);
    uf_weights_load_options options = uf_weights_load_options_default();
    (void)state;
    for (int kind = 0; kind < 4; ++kind) {
        const int odd = kind % 2;
        const char *path = make_file("types.safetensors", odd);
        path = kind < 2 ? path : make_hdf5("types.h5", path);
        options.strict = !odd;
        for (int way = 0; way < 4; ++way) {
            uf_store *store = declared(context, way / 2 == 0 ? UF_F32 : UF_F64), *empty;
            const uint64_t version = uf_store_version(store);
            options.untrusted = way % 2 == 0;
            assert_ok(uf_weights_load(store, path, &options));
            demand_loaded(store);
            assert_true(uf_store_version(store) > version);
            assert_ok(uf_weights_load(store, path, &options)); /* over contents */
            demand_loaded(store);
            uf_store_destroy(store);
            assert_ok(uf_store_create(context, "empty", &empty));
            assert_ok(uf_weights_load(empty, path, &options));
            assert_int_equal(uf_store_size(empty), TYPES + odd);
            uf_store_destroy(empty);
        }
    }
    uf_context_destroy(context);
}

static int64_t peak_kilobytes(void) {
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
}

/* The tensors' size, and little more: once for each format. */
static void no_second_copy_of(const char *path) {
    uf_context *context = fixture_context(NULL);
    uf_weights_load_options options = uf_weights_load_options_default();
    enum { ROWS = 4, LARGE = 8 << 20 };
    uf_store *store, *copy;
    char name[32];
    assert_ok(uf_store_create(context, "large", &store));
    for (int i = 0; i < ROWS; ++i) {
        snprintf(name, sizeof name, "w%d", i);
        assert_ok(uf_store_declare(store, name, UF_SHAPE(LARGE), UF_ROLE_PARAMETER));
    }
    assert_ok(uf_store_seal(store));
    assert_ok(uf_weights_save(store, path, NULL));
    options.untrusted = true;
    const int64_t before = peak_kilobytes();
    assert_ok(uf_weights_load(store, path, &options)); /* over contents: nothing more */
    assert_ok(uf_weights_load(store, path, NULL));
    const int64_t over = peak_kilobytes();
    uf_store_destroy(store);
    assert_ok(uf_store_create(context, "copy", &copy));
    assert_ok(uf_weights_load(copy, path, &options)); /* the first store's memory is free */
    const int64_t empty = peak_kilobytes();
    uf_store_destroy(copy);
    uf_context_destroy(context);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* these keep freed memory */
    assert_true(over - before < 4 * 1024);
    assert_true(empty - before < 4 * 1024);
#else
    (void)before, (void)over, (void)empty;
#endif
}

/* To be run first: the peak never falls. */
static void no_second_copy(void **state) {
    (void)state;
    no_second_copy_of(fixture_path("large.h5"));
    no_second_copy_of(fixture_path("large.safetensors"));
}

/* A tensor that fails its checksum is found before the first one is written. */
static void damaged_values(void **state) {
    uf_context *context = fixture_context(NULL);
    uf_weights_load_options options = uf_weights_load_options_default();
    const char *path = fixture_path("damaged.h5");
    const float good[4] = {1.0F, 2.0F, 3.0F, 4.0F}, marked[6] = {0.0F, 1234.5F};
    const uf_hdf5_storage storage = {.checksum = true};
    const uf_shape shape = UF_SHAPE(4);
    uf_hdf5_file file;
    uf_store *store;
    uf_tensor *first, *last;
    double values[4];
    size_t size;
    (void)state;
    assert_ok(uf_store_create(context, "s", &store));
    assert_ok(uf_store_declare(store, "a", UF_SHAPE(4), UF_ROLE_PARAMETER));
    assert_ok(uf_store_declare(store, "z", UF_SHAPE(4), UF_ROLE_PARAMETER));
    assert_ok(uf_store_tensor(store, "a", &first));
    assert_ok(uf_store_tensor(store, "z", &last));
    assert_ok(uf_hdf5_create(path, &file));
    assert_ok(uf_hdf5_write_tensor(&file, "a", UF_F32, &shape, marked + 2, storage));
    assert_ok(uf_hdf5_write_tensor(&file, "z", UF_F32, &shape, marked, storage));
    assert_ok(uf_hdf5_finish(&file, UF_OK));
    unsigned char *bytes = fixture_read(path, &size);
    int found = 0;
    for (size_t at = 0; at + sizeof marked[1] <= size; ++at) {
        if (memcmp(bytes + at, &marked[1], sizeof marked[1]) == 0) {
            bytes[at] ^= 1;
            found += 1;
        }
    }
    assert_int_equal(found, 1);
    fixture_bytes(path, bytes, size);
    free(bytes);
    assert_ok(uf_tensor_upload(first, good));
    assert_ok(uf_tensor_upload(last, good));
    for (int untrusted = 0; untrusted < 2; ++untrusted) {
        options.untrusted = untrusted;
        assert_error(uf_weights_load(store, path, &options), UF_ERROR_FORMAT, "z in ",
                     "is damaged: its checksum is");
        fixture_values(store, "a", values, 4);
        assert_true(values[0] == 1.0 && values[3] == 4.0);
        fixture_values(store, "z", values, 4);
        assert_true(values[0] == 1.0 && values[3] == 4.0);
        assert_true(store->slots[0].is_given && store->slots[1].is_given);
    }
    uf_store_destroy(store);
    uf_context_destroy(context);
}

/* ---- a file that is cut when it has been checked ---- */

/* A listener that cuts the file when the library logs what it passes over: the header has been
 * checked by then, and no value been read. */
typedef struct cutter {
    const char *path;
    int64_t size;
} cutter;

static void cut(void *user, uf_log_level level, const char *message) {
    const cutter *self = user;
    (void)level, (void)message;
    if (self->path != NULL) {
        assert_int_equal(truncate(self->path, self->size), 0);
    }
}

static void demand_forgotten(uf_store *store) {
    for (int i = 0; i < TYPES; ++i) {
        const uf_tensor *tensor = &store->slots[i].tensor;
        const size_t bytes = COUNT * uf_dtype_size(tensor->dtype);
        assert_false(store->slots[i].is_given);
        for (size_t at = 0; at < bytes; ++at) {
            assert_int_equal(((const unsigned char *)tensor->data)[at], 0);
        }
    }
}

/* A program that reads the third tensor. */
static uf_program *reader(uf_context *context, uf_store *store) {
    const uf_scope root = {.store = store};
    uf_graph *graph;
    uf_program *program;
    assert_ok(uf_graph_create(context, &graph));
    uf_output(graph, "c", uf_parameter(graph, root, "c", UF_SHAPE(COUNT)));
    assert_ok(uf_program_compile(graph, NULL, &program));
    return program;
}

static void cut_meanwhile(void **state) {
    uf_context_options options = uf_context_options_default();
    uf_weights_load_options load = uf_weights_load_options_default();
    cutter self = {0};
    uf_context *context;
    (void)state;
    options.device = UF_DEVICE_CPU;
    options.log = cut;
    options.log_user = &self;
    assert_ok(uf_context_create(&options, &context));
    load.strict = false;
    for (int way = 0; way < 8; ++way) {
        uf_store *store = declared(context, UF_F32);
        const char *told = way < 4 ? "cannot read c in" : "cut.h5 became shorter while it was read";
        load.untrusted = way / 2 % 2 == 0;
        if (way % 2 == 1) { /* over contents, which somebody vouched for */
            const char *whole = make_file("whole.safetensors", 0);
            load.strict = true;
            assert_ok(uf_weights_load(store, whole, &load));
            load.strict = false;
            uf_store_touch(store);
        }
        uf_program *program = reader(context, store);
        assert_int_equal(uf_program_run(program), way % 2 == 1 ? UF_OK : UF_ERROR_STATE);
        const uint64_t version = uf_store_version(store);
        self.path = make_file("cut.safetensors", 8); /* aligned: it could be mapped */
        self.path = way < 4 ? self.path : make_hdf5("cut.h5", self.path);
        self.size = (int64_t)COUNT * 19; /* in the third tensor */
        assert_error(uf_weights_load(store, self.path, &load), UF_ERROR_FORMAT, told, "shorter",
                     "store \"s\" has lost what it was to load");
        demand_forgotten(store);
        assert_error(uf_store_check_given(store, 0), UF_ERROR_STATE, "a of store");
        assert_error(uf_program_run(program), UF_ERROR_STATE, "c of store");
        assert_true(uf_store_version(store) > version);
        /* The store is as good as before for another load. */
        self.path = NULL;
        load.strict = true;
        assert_ok(uf_weights_load(store, make_file("whole.safetensors", 0), &load));
        load.strict = false;
        demand_loaded(store);
        assert_ok(uf_program_run(program));
        uf_store_destroy(store);
    }
    uf_context_destroy(context);
}

/* ---- a disk that fails ---- */

static int64_t fails_from; /* reads beyond this byte fail; 0: none */

ssize_t __real_pread(int descriptor, void *to, size_t size, off_t at);
ssize_t __wrap_pread(int descriptor, void *to, size_t size, off_t at);
ssize_t __wrap_pread(int descriptor, void *to, size_t size, off_t at) {
    if (fails_from > 0 && at + (off_t)size > fails_from) {
        errno = EIO;
        return -1;
    }
    return __real_pread(descriptor, to, size, at);
}

/* A strict load sets every tensor, and so the memory of a new store has no zeros before. After a
 * failure it has. */
static void failing_disk(void **state) {
    uf_context *context = fixture_context(NULL);
    uf_weights_load_options options = uf_weights_load_options_default();
    const char *whole = make_file("whole.safetensors", 0);
    (void)state;
    mallopt(M_PERTURB, 0x5a); /* no memory is zero by chance */
    for (int way = 0; way < 8; ++way) {
        uf_store *store = declared(context, way % 2 == 0 ? UF_F32 : UF_F64);
        const char *path = way < 4 ? whole : make_hdf5("whole.h5", whole);
        options.untrusted = way / 2 % 2 == 0;
        fails_from = (int64_t)COUNT * 19; /* in the third tensor */
        assert_error(uf_weights_load(store, path, &options), UF_ERROR_IO, "cannot read",
                     "Input/output error", "store \"s\" has lost what it was to load");
        demand_forgotten(store);
        assert_error(uf_store_check_given(store, 0), UF_ERROR_STATE, "a of store");
        fails_from = 20; /* in the header */
        assert_error(uf_weights_load(store, path, &options), UF_ERROR_IO, "cannot read",
                     "Input/output error");
        fails_from = 0;
        assert_ok(uf_weights_load(store, path, &options));
        demand_loaded(store);
        uf_store_destroy(store);
    }
    mallopt(M_PERTURB, 0);
    uf_context_destroy(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_second_copy), cmocka_unit_test(every_type),
        cmocka_unit_test(damaged_values), cmocka_unit_test(cut_meanwhile),
        cmocka_unit_test(failing_disk),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
