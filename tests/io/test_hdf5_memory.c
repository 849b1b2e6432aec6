/* test_hdf5_memory.c - one allocation fails, then all from it on: every call on files of weights
 * succeeds with the right result, or says that memory is out, and leaves everything as it was.
 *
 * UNFURL_TEST_ALLOCATIONS of a call's allocations are tried, at equal distances. Each has a child
 * process of its own, in which libhdf5 is new. Deaths inside libhdf5 are counted and named and do
 * not fail a save: it is not ours, and keeps broken tables when it runs out of memory. Nothing else
 * asks it. Compiled with -fno-builtin, since its malloc is not the compiler's. */
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/fixture.h"
#include "support/death.h"

/* glibc's own, which nobody interposes. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t number, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static bool counting;
static int64_t calls, first_failing, last_failing;

static bool fails(void) {
    if (!counting) {
        return false;
    }
    calls += 1;
    if (calls < first_failing || calls > last_failing) {
        return false;
    }
    errno = ENOMEM;
    return true;
}

void *malloc(size_t size) {
    return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t number, size_t size) {
    return fails() ? NULL : __libc_calloc(number, size);
}

void *realloc(void *old, size_t size) {
    return fails() ? NULL : __libc_realloc(old, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    return fails() ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void **pointer, size_t alignment, size_t size) {
    void *made = fails() ? NULL : __libc_memalign(alignment, size);
    if (made == NULL) {
        return ENOMEM;
    }
    *pointer = made;
    return 0;
}

/* How a child ended. */
enum { RIGHT, SAID_SO, MISLEADING, WRONG, IN_HDF5, IN_OURS, OUTCOMES };

/* Shared with the child. */
static struct shared {
    int64_t calls;
    int outcome;
    char text[1024];
    size_t size; /* of what a save writes when nothing fails; 0 before that is known */
    unsigned char saved[1 << 16];
} * shared;

static char source[256], target[256], plain[256]; /* HDF5, whatever is written, safetensors */

/* ---- what is done: each returns the call's status and sets *right when its result is the whole
 * one ---- */

static uf_context *context;
static uf_store *store;

static bool is_ramp(const float *values, int count) {
    for (int i = 0; i < count; ++i) {
        if (values[i] != (float)(i + 1)) {
            return false;
        }
    }
    return true;
}

static bool store_is_right(void) {
    float values[24];
    uf_tensor *tensor;
    return uf_store_size(store) == 12 &&
           uf_store_tensor(store, "layer.3.weight", &tensor) == UF_OK &&
           uf_tensor_download(tensor, values) == UF_OK && is_ramp(values, 24) &&
           uf_store_tensor(store, "layer.11.weight", &tensor) == UF_OK &&
           uf_tensor_download(tensor, values) == UF_OK && is_ramp(values, 24);
}

static uf_status load(bool *right) {
    const uf_status status = uf_store_load_hdf5(store, source, NULL);
    counting = false;
    *right = status == UF_OK ? store_is_right() : uf_store_size(store) == 0;
    return status;
}

static void declare(void) {
    for (int i = 0; i < 12; ++i) {
        char name[32];
        snprintf(name, sizeof name, "layer.%d.weight", i);
        fixture_declare(store, name, UF_SHAPE(4, 6), UF_ROLE_PARAMETER);
    }
}

static uf_status load_declared(bool *right) {
    uf_hdf5_load_report report = uf_hdf5_load_report_default();
    uf_hdf5_load_options options = uf_hdf5_load_options_default();
    options.strict = false; /* the more tempting: what is not found is not loaded */
    options.report = &report;
    const uf_status status = uf_store_load_hdf5(store, source, &options);
    counting = false;
    *right = status == UF_OK ? store_is_right() && report.loaded == 12 : report.loaded == 0;
    return status;
}

/* Not through libhdf5, which may be in pieces: the same tensors give the same bytes. */
static bool is_target(void) {
    size_t size;
    unsigned char *bytes = fixture_read(target, &size);
    if (shared->size == 0 && size <= sizeof shared->saved) {
        memcpy(shared->saved, bytes, size);
        shared->size = size;
    }
    const bool same = size == shared->size && memcmp(bytes, shared->saved, size) == 0;
    free(bytes);
    return same;
}

static void fill(void) {
    declare();
    for (int i = 0; i < 12; ++i) {
        char name[32];
        float values[24];
        uf_tensor *tensor;
        for (int j = 0; j < 24; ++j) {
            values[j] = (float)(j + 1);
        }
        snprintf(name, sizeof name, "layer.%d.weight", i);
        assert_ok(uf_store_tensor(store, name, &tensor));
        assert_ok(uf_tensor_upload(tensor, values));
    }
}

static uf_status save(bool *right) {
    counting = false;
    const int files = fixture_count(); /* a child that died may have left its temporary file */
    counting = true;
    const uf_status status = uf_store_save_hdf5(store, target);
    counting = false;
    *right = status == UF_OK ? is_target() && fixture_count() == files + 1
                             : access(target, F_OK) != 0 && fixture_count() == files;
    remove(target);
    return status;
}

static uf_status list(bool *right) {
    uf_hdf5_entry *entries;
    int64_t count;
    const uf_status status = uf_hdf5_list(source, NULL, &entries, &count);
    counting = false;
    *right = status == UF_OK ? count == 12 && strcmp(entries[0].name, "layer/0/weight") == 0 &&
                                   entries[0].is_tensor
                             : entries == NULL && count == 0;
    uf_hdf5_list_free(entries);
    return status;
}

static uf_status read_one(bool *right) {
    uf_shape shape;
    float values[24];
    const uf_status status = uf_hdf5_read(source, "layer/3/weight", UF_F32, &shape, values, 24);
    counting = false;
    *right = status != UF_OK || (shape.rank == 2 && is_ramp(values, 24));
    return status;
}

static uf_status read_attribute(bool *right) {
    double values[2] = {0, 0};
    int32_t count;
    const uf_status status =
        uf_hdf5_read_attribute(source, "layer/3/weight", "version", values, 2, &count);
    counting = false;
    *right = status == UF_OK ? count == 1 && values[0] == 7.0 : count == 0;
    return status;
}

static const char *const metadata[] = {"made by", "a test"};

static uf_status load_plain(bool *right) {
    const uf_status status = uf_weights_load(store, plain, NULL);
    counting = false;
    *right = status == UF_OK ? store_is_right() : uf_store_size(store) == 0;
    return status;
}

static uf_status load_plain_untrusted(bool *right) {
    uf_weights_load_options options = uf_weights_load_options_default();
    options.untrusted = true;
    const uf_status status = uf_weights_load(store, plain, &options);
    counting = false;
    *right = status == UF_OK && store_is_right();
    if (status != UF_OK) { /* the zeros that were declared */
        float values[24];
        uf_tensor *tensor;
        *right = uf_store_tensor(store, "layer.3.weight", &tensor) == UF_OK &&
                 uf_tensor_download(tensor, values) == UF_OK && values[23] == 0.0F;
    }
    return status;
}

static uf_status save_plain(bool *right) {
    uf_weights_save_options options = uf_weights_save_options_default();
    counting = false;
    const int files = fixture_count();
    options.format = UF_WEIGHTS_SAFETENSORS;
    options.metadata = metadata;
    options.metadata_count = 1;
    counting = true;
    const uf_status status = uf_weights_save(store, target, &options);
    counting = false;
    *right = status == UF_OK ? is_target() && fixture_count() == files + 1
                             : access(target, F_OK) != 0 && fixture_count() == files;
    remove(target);
    return status;
}

static uf_status open_plain(bool *right) {
    uf_weights_file *file;
    const char *name, *text;
    float values[24];
    uf_status status = uf_weights_open(plain, NULL, &file);
    *right = (status == UF_OK) == (file != NULL);
    if (status == UF_OK) {
        status = uf_weights_read(file, 4, UF_F32, values, 24); /* by name: layer.11 comes fourth */
        *right = uf_weights_count(file) == 12 && (status != UF_OK || is_ramp(values, 24)) &&
                 uf_weights_metadata_at(file, 0, &name, &text) == UF_OK &&
                 strcmp(text, "a test") == 0;
    }
    counting = false;
    uf_weights_close(file);
    return status;
}

static const struct action {
    const char *name;
    void (*prepare)(void);
    uf_status (*act)(bool *right);
} actions[] = {
    {"load into an empty store", NULL, load},
    {"load into a declared store", declare, load_declared},
    {"save", fill, save},
    {"list", NULL, list},
    {"read", NULL, read_one},
    {"read an attribute", NULL, read_attribute},
    {"load safetensors into an empty store", NULL, load_plain},
    {"load safetensors into a declared store", declare, load_plain_untrusted},
    {"save safetensors", fill, save_plain},
    {"open safetensors", NULL, open_plain},
};

/* ---- children ---- */

static void make_source(void) {
    const hsize_t dims[] = {4, 6}, chunk[] = {2, 3};
    const int64_t version = 7;
    const hid_t file = fixture_create(source);
    for (int i = 0; i < 12; ++i) {
        char name[32];
        snprintf(name, sizeof name, "layer/%d/weight", i);
        if (i % 4 != 3) {
            fixture_ramp(file, name, 2, dims);
            continue;
        }
        float values[24];
        for (int j = 0; j < 24; ++j) {
            values[j] = (float)(j + 1);
        }
        const hid_t links = H5Pcreate(H5P_LINK_CREATE), properties = H5Pcreate(H5P_DATASET_CREATE);
        const hid_t space = H5Screate_simple(2, dims, NULL), point = H5Screate(H5S_SCALAR);
        H5Pset_create_intermediate_group(links, 1);
        H5Pset_chunk(properties, 2, chunk);
        H5Pset_deflate(properties, 6);
        const hid_t id =
            H5Dcreate2(file, name, H5T_IEEE_F32LE, space, links, properties, H5P_DEFAULT);
        H5Dwrite(id, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
        const hid_t note =
            H5Acreate2(id, "version", H5T_STD_I64LE, point, H5P_DEFAULT, H5P_DEFAULT);
        H5Awrite(note, H5T_NATIVE_INT64, &version);
        H5Aclose(note);
        H5Dclose(id);
        H5Sclose(point);
        H5Sclose(space);
        H5Pclose(properties);
        H5Pclose(links);
    }
    H5Fclose(file);
}

static void note_death(const char *module, const char *symbol) {
    counting = false;
    shared->outcome = strncmp(module, "libhdf5", 7) == 0 ? IN_HDF5 : IN_OURS;
    snprintf(shared->text, sizeof shared->text, "in %s, near %s", module, symbol);
}

static void in_child(const struct action *action) {
    bool right = false;
    context = fixture_context(NULL);
    assert_ok(uf_store_create(context, "s", &store));
    if (action->prepare != NULL) {
        action->prepare();
    }
    death_watch(note_death);
    alarm(60);
    calls = 0;
    counting = true;
    const uf_status status = action->act(&right);
    counting = false;
    shared->calls = calls;
    shared->outcome = !right                             ? WRONG
                      : status == UF_OK                  ? RIGHT
                      : status == UF_ERROR_OUT_OF_MEMORY ? SAID_SO
                                                         : MISLEADING;
    snprintf(shared->text, sizeof shared->text, "%s: %s", uf_status_name(status), uf_last_error());
    /* libhdf5 still works, or at least does no harm. */
    bool again;
    if (action->act == load || action->act == load_declared) {
        (void)read_one(&again);
    } else {
        (void)action->act(&again);
    }
    uf_store_destroy(store);
    uf_context_destroy(context);
    exit(0); /* with what libhdf5 does at the end */
}

static int run(void (*body)(const struct action *), const struct action *action) {
    int status;
    fflush(NULL);
    shared->outcome = IN_OURS;
    shared->text[0] = '\0';
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        /* libhdf5 prints what goes wrong while it starts: before that nobody can stop it. */
        assert_non_null(freopen("/dev/null", "w", stderr));
        body(action);
        _exit(1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0) {
        /* libhdf5's H5I_register calls exit(-1). */
        snprintf(shared->text, sizeof shared->text, "exit status %d", WEXITSTATUS(status));
        return WEXITSTATUS(status) == 255 ? IN_HDF5 : IN_OURS;
    }
    return shared->outcome;
}

static void body_of_source(const struct action *action) {
    (void)action;
    make_source();
    uf_weights_save_options options = uf_weights_save_options_default();
    options.metadata = metadata;
    options.metadata_count = 1;
    context = fixture_context(NULL);
    assert_ok(uf_store_create(context, "s", &store));
    fill();
    assert_ok(uf_weights_save(store, plain, &options));
    _exit(0);
}

/* Say each text once. */
static void say(const char *action, int64_t call, const char *outcome) {
    static char known[256][256];
    static int count;
    char text[256];
    snprintf(text, sizeof text, "%s: %s: %.180s", action, outcome, shared->text);
    for (int i = 0; i < count; ++i) {
        if (strcmp(known[i], text) == 0) {
            return;
        }
    }
    if (count < 256) {
        memcpy(known[count++], text, sizeof text);
        print_message("%s (allocation %" PRId64 ")\n", text, call);
    }
}

static void no_allocation_is_taken_for_granted(void **state) {
    (void)state;
    static const char *const outcomes[OUTCOMES] = {
        "right",        "out of memory",         "misleading",
        "wrong result", "deaths inside libhdf5", "deaths elsewhere"};
    const int64_t most = test_environment("UNFURL_TEST_ALLOCATIONS", 100);
    int64_t bad = 0;
    run(body_of_source, NULL);
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; ++i) {
        first_failing = INT64_MAX;
        last_failing = INT64_MAX;
        shared->size = 0;
        assert_int_equal(run(in_child, &actions[i]), RIGHT);
        const int64_t total = shared->calls, runs = total < most ? total : most;
        for (int onwards = 0; onwards < 2; ++onwards) {
            int64_t seen[OUTCOMES] = {0};
            for (int64_t at = 0; at < runs; ++at) {
                first_failing = 1 + at * total / runs;
                last_failing = onwards ? INT64_MAX : first_failing;
                const int outcome = run(in_child, &actions[i]);
                seen[outcome] += 1;
                if (outcome != RIGHT && outcome != SAID_SO) {
                    say(actions[i].name, first_failing, outcomes[outcome]);
                    remove(target);
                }
            }
            print_message("%s, %" PRId64 " of %" PRId64 " allocations fail %s:", actions[i].name,
                          runs, total, onwards ? "with all after them" : "alone");
            for (int outcome = 0; outcome < OUTCOMES; ++outcome) {
                print_message("%s %" PRId64 " %s", outcome > 0 ? "," : "", seen[outcome],
                              outcomes[outcome]);
            }
            print_message("\n");
            bad += seen[MISLEADING] + seen[WRONG] + seen[IN_OURS];
            bad += actions[i].act != save ? seen[IN_HDF5] : 0; /* it is not asked */
            if (strstr(actions[i].name, "safetensors") != NULL) {
                bad += seen[IN_HDF5]; /* libhdf5 has no part in it */
            }
            assert_true(seen[SAID_SO] > 0);
        }
    }
    assert_int_equal(bad, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_allocation_is_taken_for_granted)};
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || fixture_setup(NULL) != 0) {
        return 1;
    }
    snprintf(source, sizeof source, "%s", fixture_path("source.h5"));
    snprintf(target, sizeof target, "%s", fixture_path("target.h5"));
    snprintf(plain, sizeof plain, "%s", fixture_path("plain.safetensors"));
    const int result = cmocka_run_group_tests(tests, NULL, NULL);
    return fixture_teardown(NULL) == 0 ? result : 1;
}
