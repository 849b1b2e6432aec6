/* test_checkpoint.c - checkpoints: every kind of part there and back, the file's layout, damage
 * anywhere in it, and parts that do not agree with it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/crc32c.h"
#include "core/store.h"
#include "io/fixture.h"
#include "optim/optimizer.h"
#include "support/random.h"

/* libhdf5 1.10 keeps some hundred bytes of each damaged object header that it refuses: called by
 * the leak detector where there is one, which then looks at our own memory alone. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
    return "leak:libhdf5";
}

/* A state with every kind of part. */
typedef struct state {
    uf_context *context;
    uf_store *store;
    uf_optimizer *adam, *sgd;
    double lrs[2];
    int64_t step;
    char note[32];
    uf_checkpoint_part parts[6];
} state;

enum { PARTS = 6 };

static state open_state(uf_dtype dtype, int64_t width) {
    state made = {.context = fixture_context(NULL), .note = "nothing yet"};
    uf_store_options options = uf_store_options_default();
    uf_sgd_options sgd = uf_sgd_options_default();
    options.dtype = dtype;
    sgd.momentum = 0.9;
    assert_ok(uf_store_create_with(made.context, "net", &options, &made.store));
    fixture_declare(made.store, "main.0.weight", UF_SHAPE(3, width, 2, 2), UF_ROLE_PARAMETER);
    fixture_declare(made.store, "main.0.bias", UF_SHAPE(3), UF_ROLE_PARAMETER);
    fixture_declare(made.store, "scale", UF_SCALAR, UF_ROLE_PARAMETER);
    fixture_declare(made.store, "main.1.running_mean", UF_SHAPE(3), UF_ROLE_BUFFER);
    fixture_declare(made.store, "main.1.num_batches_tracked", UF_SCALAR, UF_ROLE_COUNTER);
    assert_ok(uf_store_alias(made.store, "tied.weight", "main.0.weight"));
    assert_ok(uf_optimizer_create_adam(made.store, NULL, &made.adam));
    assert_ok(uf_optimizer_create_sgd(made.store, &sgd, &made.sgd));
    return made;
}

/* The parts of a state that stays where it is. */
static const uf_checkpoint_part *parts_of(state *one) {
    one->parts[0] = uf_checkpoint_store("net", one->store);
    one->parts[1] = uf_checkpoint_optimizer("net", one->adam); /* another kind, the same name */
    one->parts[2] = uf_checkpoint_optimizer("slow", one->sgd);
    one->parts[3] = uf_checkpoint_f64("rates", one->lrs, 2);
    one->parts[4] = uf_checkpoint_i64("step", &one->step, 1);
    one->parts[5] = uf_checkpoint_text("note", one->note, sizeof one->note);
    return one->parts;
}

static void close_state(state *one) {
    uf_context_destroy(one->context);
}

/* Random contents everywhere, and three steps of both optimizers. */
static void fill_state(state *one, int64_t seed) {
    test_random random = test_random_for("checkpoint", seed);
    for (int64_t i = 0; i < uf_store_size(one->store); ++i) {
        uf_store_entry entry;
        uf_tensor *tensor;
        assert_ok(uf_store_entry_at(one->store, i, &entry));
        double values[256];
        const int64_t count = uf_shape_count(&entry.shape);
        assert_true(count <= COUNT_OF(values));
        if (entry.role == UF_ROLE_COUNTER) {
            const int64_t counted = seed + 7;
            assert_ok(uf_store_tensor(one->store, entry.name, &tensor));
            assert_ok(uf_tensor_upload(tensor, &counted));
            continue;
        }
        test_random_fill(&random, values, count, 1.0);
        assert_ok(uf_store_tensor(one->store, entry.name, &tensor));
        assert_ok(uf_tensor_upload_as(tensor, UF_F64, values, count));
        if (entry.role == UF_ROLE_PARAMETER) {
            test_random_fill(&random, values, count, 1.0);
            assert_ok(uf_store_gradient(one->store, entry.name, &tensor));
            assert_ok(uf_tensor_upload_as(tensor, UF_F64, values, count));
        }
    }
    for (int i = 0; i < 3; ++i) {
        assert_ok(uf_optimizer_step(one->adam));
        assert_ok(uf_optimizer_step(one->sgd));
    }
    assert_ok(uf_optimizer_set_learning_rate(one->adam, 0.25 + (double)seed));
    one->lrs[0] = test_random_real(&random, 0.0, 1.0);
    one->lrs[1] = -0.0;
    one->step = (INT64_C(1) << 60) + seed;
    (void)snprintf(one->note, sizeof one->note, "epoch %d \xc3\xa9", (int)seed);
}

/* All that a checkpoint holds, in a row; the caller frees it. On the CPU device memory is the
 * host's. */
static unsigned char *contents(const state *one, size_t *size) {
    const size_t arena[3] = {one->store->arena_size[0], one->store->arena_size[1],
                             one->store->arena_size[2]};
    const uf_optimizer *optimizers[2] = {one->adam, one->sgd};
    unsigned char *all = test_allocate(4 * arena[0] + arena[1] + arena[2] + 1024);
    size_t used = 0;
#define PUT(from, bytes) (memcpy(all + used, (from), (bytes)), used += (bytes))
    for (int role = 0; role < 3; ++role) {
        PUT(one->store->arena[role], arena[role]);
    }
    for (int i = 0; i < 2; ++i) {
        PUT(optimizers[i]->control, sizeof *optimizers[i]->control);
        PUT(&optimizers[i]->lr, sizeof optimizers[i]->lr);
        PUT(optimizers[i]->state1, arena[0]);
    }
    PUT(one->adam->state2, arena[0]);
    PUT(one->lrs, sizeof one->lrs);
    PUT(&one->step, sizeof one->step);
    PUT(one->note, strlen(one->note));
#undef PUT
    *size = used;
    return all;
}

static bool same_contents(const state *one, const state *other) {
    size_t size, other_size;
    unsigned char *bytes = contents(one, &size), *others = contents(other, &other_size);
    const bool same = size == other_size && memcmp(bytes, others, size) == 0;
    free(bytes);
    free(others);
    return same;
}

/* ---- there and back ---- */

static void checksums(void **cmocka) {
    (void)cmocka;
    unsigned char bytes[80];
    assert_int_equal(uf_crc32c("123456789", 9, 1), 0xe3069283u);
    /* RFC 3720, B.4 */
    memset(bytes, 0, 32);
    assert_int_equal(uf_crc32c(bytes, 32, 1), 0x8a9136aau);
    memset(bytes, 0xff, 32);
    assert_int_equal(uf_crc32c(bytes, 8, 4), 0x62a8ab43u);
    for (int i = 0; i < 32; ++i) {
        bytes[i] = (unsigned char)i;
    }
    assert_int_equal(uf_crc32c(bytes, 32, 1), 0x46dd794eu);
    assert_int_equal(uf_crc32c(NULL, 0, 4), 0u);
    /* Every length and start, against a bit at a time. */
    test_random random = test_random_for("crc", 0);
    for (int length = 0; length <= 64; ++length) {
        uint32_t crc = 0xffffffffu;
        for (int i = 0; i < length; ++i) {
            bytes[i + length % 8] = (unsigned char)test_random_next(&random);
            crc ^= bytes[i + length % 8];
            for (int bit = 0; bit < 8; ++bit) {
                crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
            }
        }
        assert_int_equal(uf_crc32c(bytes + length % 8, length, 1), ~crc);
        assert_int_equal(uf_crc32c_by_tables(bytes + length % 8, length, 1), ~crc);
        const uint32_t half = uf_crc32c(bytes + length % 8, length / 2, 1);
        assert_int_equal(
            uf_crc32c_more(half, bytes + length % 8 + length / 2, length - length / 2, 1), ~crc);
    }
}

/* Stretches that go side by side begin at 12288 bytes. */
static void long_checksums(void **cmocka) {
    (void)cmocka;
    static unsigned char bytes[50000];
    static const int64_t lengths[] = {12287, 12288, 12289, 20000, 24575, 24576, 24600, 49999};
    test_random random = test_random_for("long crc", 0);
    for (size_t i = 0; i < sizeof bytes; ++i) {
        bytes[i] = (unsigned char)test_random_next(&random);
    }
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; ++i) {
        const uint32_t whole = uf_crc32c_by_tables(bytes + 1, lengths[i], 1);
        assert_int_equal(uf_crc32c(bytes + 1, lengths[i], 1), whole);
        const uint32_t some = uf_crc32c(bytes + 1, 11, 1);
        assert_int_equal(uf_crc32c_more(some, bytes + 12, lengths[i] - 11, 1), whole);
    }
}

static void there_and_back(void **cmocka) {
    (void)cmocka;
    for (int round = 0; round < 4; ++round) {
        const uf_dtype dtype = round % 2 == 0 ? UF_F32 : UF_F64;
        const char *path = fixture_path("state.h5"), *again = fixture_path("again.h5");
        uf_checkpoint_options options = uf_checkpoint_options_default();
        options.gzip_level = round < 2 ? 0 : 6;
        state saved = open_state(dtype, 20), loaded = open_state(dtype, 20);
        fill_state(&saved, round);
        fill_state(&loaded, round + 50);
        assert_false(same_contents(&saved, &loaded));
        assert_ok(uf_checkpoint_save(path, parts_of(&saved), PARTS, &options));
        const uint64_t version = uf_store_version(loaded.store);
        assert_ok(uf_checkpoint_load(path, parts_of(&loaded), PARTS));
        assert_true(same_contents(&saved, &loaded));
        assert_true(uf_store_version(loaded.store) > version);
        assert_true(uf_optimizer_learning_rate(loaded.adam) ==
                    uf_optimizer_learning_rate(saved.adam));
        /* The same state, the same bytes. */
        assert_ok(uf_checkpoint_save(again, parts_of(&loaded), PARTS, &options));
        size_t size, other;
        unsigned char *bytes = fixture_read(path, &size), *others = fixture_read(again, &other);
        assert_int_equal(size, other);
        assert_memory_equal(bytes, others, size);
        free(bytes);
        free(others);
        /* One part alone, in another order; the rest keeps what it has. */
        fill_state(&loaded, 99);
        assert_ok(uf_checkpoint_load(path, &loaded.parts[4], 1));
        assert_int_equal(loaded.step, saved.step);
        assert_false(same_contents(&saved, &loaded));
        close_state(&saved);
        close_state(&loaded);
    }
}

/* Long tensors of few values, so that deflate has something to do. */
static void deflated(void **cmocka) {
    (void)cmocka;
    enum { COUNT = 700000 };
    const char *plain = fixture_path("plain.h5"), *small = fixture_path("small.h5");
    int64_t *numbers = test_allocate(COUNT * sizeof *numbers);
    int64_t *read = test_allocate(COUNT * sizeof *read);
    for (int64_t i = 0; i < COUNT; ++i) {
        numbers[i] = i / 3;
    }
    const uf_checkpoint_part saved = uf_checkpoint_i64("order", numbers, COUNT);
    const uf_checkpoint_part loaded = uf_checkpoint_i64("order", read, COUNT);
    uf_checkpoint_options options = uf_checkpoint_options_default();
    assert_ok(uf_checkpoint_save(plain, &saved, 1, NULL));
    options.gzip_level = 1;
    assert_ok(uf_checkpoint_save(small, &saved, 1, &options));
    assert_ok(uf_checkpoint_load(small, &loaded, 1));
    assert_memory_equal(numbers, read, COUNT * sizeof *read);
    size_t size, deflated_size;
    free(fixture_read(plain, &size));
    free(fixture_read(small, &deflated_size));
    assert_true(size > COUNT * sizeof *numbers && deflated_size < size / 10);
    free(numbers);
    free(read);
}

/* Other readers see groups and names, and the format of HDF5 1.8. */
static void layout(void **cmocka) {
    (void)cmocka;
    static const char *const names[] = {
        "numbers/rates",
        "numbers/step",
        "optimizers/net/beta1_power",
        "optimizers/net/beta2_power",
        "optimizers/net/exp_avg/main.0.bias",
        "optimizers/net/exp_avg/main.0.weight",
        "optimizers/net/exp_avg/scale",
        "optimizers/net/exp_avg_sq/main.0.bias",
        "optimizers/net/exp_avg_sq/main.0.weight",
        "optimizers/net/exp_avg_sq/scale",
        "optimizers/net/lr",
        "optimizers/net/step",
        "optimizers/slow/beta1_power",
        "optimizers/slow/beta2_power",
        "optimizers/slow/lr",
        "optimizers/slow/momentum_buffer/main.0.bias",
        "optimizers/slow/momentum_buffer/main.0.weight",
        "optimizers/slow/momentum_buffer/scale",
        "optimizers/slow/step",
        "stores/net/main.0.bias",
        "stores/net/main.0.weight",
        "stores/net/main.1.num_batches_tracked",
        "stores/net/main.1.running_mean",
        "stores/net/scale",
        "stores/net/tied.weight",
    };
    const char *path = fixture_path("layout.h5");
    state saved = open_state(UF_F32, 2);
    uf_hdf5_entry *entries;
    int64_t count, step;
    fill_state(&saved, 1);
    assert_ok(uf_checkpoint_save(path, parts_of(&saved), PARTS, NULL));
    assert_ok(uf_hdf5_list(path, NULL, &entries, &count));
    assert_int_equal(count, COUNT_OF(names));
    for (int64_t i = 0; i < count; ++i) {
        assert_string_equal(entries[i].name, names[i]);
    }
    uf_hdf5_list_free(entries);
    uf_shape shape;
    assert_ok(uf_hdf5_read(path, "optimizers/net/step", UF_I64, &shape, &step, 1));
    assert_true(step == 3 && shape.rank == 0);
    /* A store is a group of weights. */
    uf_hdf5_load_options options = uf_hdf5_load_options_default();
    options.group = "stores/net";
    uf_store *store;
    assert_ok(uf_store_create(saved.context, "weights", &store));
    assert_ok(uf_store_load_hdf5(store, path, &options));
    double values[24], expected[24];
    fixture_values(store, "main.0.weight", values, 24);
    fixture_values(saved.store, "main.0.weight", expected, 24);
    assert_memory_equal(values, expected, sizeof values);
    /* Superblock 2 came with HDF5 1.8; 3 and later need 1.10. */
    size_t size;
    unsigned char *bytes = fixture_read(path, &size);
    assert_memory_equal(bytes, "\211HDF\r\n\032\n\002", 9);
    free(bytes);
    close_state(&saved);
}

/* ---- damage ---- */

/* Every fifth byte of a file in turn: the load says so and changes nothing, or the byte meant
 * nothing. */
static void damage_anywhere(void **cmocka) {
    (void)cmocka;
    const char *path = fixture_path("damaged.h5");
    state saved = open_state(UF_F32, 1), loaded = open_state(UF_F32, 1), before;
    size_t size;
    int64_t refused = 0, harmless = 0, checksum = 0;
    fill_state(&saved, 1);
    fill_state(&loaded, 2);
    before = open_state(UF_F32, 1);
    fill_state(&before, 2);
    assert_ok(uf_checkpoint_save(path, parts_of(&saved), PARTS, NULL));
    unsigned char *bytes = fixture_read(path, &size);
    for (size_t at = 0; at < size; at += 5) {
        bytes[at] ^= (unsigned char)(1u << (at % 8));
        fixture_bytes(path, bytes, size);
        bytes[at] ^= (unsigned char)(1u << (at % 8));
        const uf_status status = uf_checkpoint_load(path, parts_of(&loaded), PARTS);
        if (status == UF_OK) {
            assert_true(same_contents(&saved, &loaded));
            fill_state(&loaded, 2);
            /* The steps of the optimizers went on from what was loaded. */
            close_state(&loaded);
            loaded = open_state(UF_F32, 1);
            fill_state(&loaded, 2);
            ++harmless;
        } else {
            assert_true(same_contents(&before, &loaded));
            checksum += strstr(uf_last_error(), "its checksum is") != NULL;
            ++refused;
        }
    }
    printf("%zu bytes: %d refused, %d of these by a tensor's checksum; %d harmless\n", size,
           (int)refused, (int)checksum, (int)harmless);
    assert_true(checksum > 60 && refused > 1000);
    for (size_t kept = 0; kept < size; kept += 97) {
        fixture_bytes(path, bytes, kept);
        assert_true(uf_checkpoint_load(path, parts_of(&loaded), PARTS) != UF_OK);
        assert_true(same_contents(&before, &loaded));
    }
    free(bytes);
    close_state(&saved);
    close_state(&loaded);
    close_state(&before);
}

/* ---- disagreement ---- */

static void what_does_not_agree(void **cmocka) {
    (void)cmocka;
    const char *path = fixture_path("other.h5");
    state saved = open_state(UF_F32, 2), loaded = open_state(UF_F32, 2);
    state wider = open_state(UF_F32, 3), real = open_state(UF_F64, 2);
    fill_state(&saved, 1);
    fill_state(&loaded, 2);
    assert_ok(uf_checkpoint_save(path, parts_of(&saved), PARTS, NULL));
    assert_error(uf_checkpoint_load(path, parts_of(&wider), PARTS), UF_ERROR_SHAPE,
                 "stores/net/main.0.weight is (3, 2, 2, 2) in", "(3, 3, 2, 2) here");
    assert_error(uf_checkpoint_load(path, parts_of(&real), PARTS), UF_ERROR_SHAPE,
                 "stores/net/main.0.weight is f32 in", "f64 here");
    uf_checkpoint_part part = uf_checkpoint_optimizer("net", loaded.sgd);
    assert_error(uf_checkpoint_load(path, &part, 1), UF_ERROR_FORMAT, "optimizers/net in ",
                 "is of kind adam, the optimizer here of kind sgd");
    part = uf_checkpoint_optimizer("fast", loaded.sgd);
    assert_error(uf_checkpoint_load(path, &part, 1), UF_ERROR_NOT_FOUND, "optimizers/fast");
    part = uf_checkpoint_f64("step", loaded.lrs, 1);
    assert_error(uf_checkpoint_load(path, &part, 1), UF_ERROR_SHAPE, "numbers/step is i64");
    part = uf_checkpoint_i64("step", (int64_t[2]){0}, 2);
    assert_error(uf_checkpoint_load(path, &part, 1), UF_ERROR_SHAPE, "numbers/step is (1,) in",
                 "(2,) here");
    part = uf_checkpoint_text("note", loaded.note, 4);
    assert_error(uf_checkpoint_load(path, &part, 1), UF_ERROR_SHAPE, "attribute note",
                 "has 10 characters; there is room for 3");
    part = uf_checkpoint_text("word", loaded.note, 4);
    assert_error(uf_checkpoint_load(path, &part, 1), UF_ERROR_NOT_FOUND, "texts in ",
                 "has no attribute word");
    uf_store *less, *more;
    assert_ok(uf_store_create(loaded.context, "less", &less));
    fixture_declare(less, "main.0.bias", UF_SHAPE(3), UF_ROLE_PARAMETER);
    part = uf_checkpoint_store("net", less);
    assert_error(uf_checkpoint_load(path, &part, 1), UF_ERROR_SHAPE, "stores/net in ",
                 "has main.0.weight, which store \"less\" has not");
    assert_ok(uf_store_copy(loaded.store, loaded.context, UF_F32, &more));
    part = uf_checkpoint_store("absent", more);
    assert_error(uf_checkpoint_load(path, &part, 1), UF_ERROR_NOT_FOUND, "stores/absent");
    /* The last of all parts is missing: nothing is loaded. */
    state before = open_state(UF_F32, 2);
    fill_state(&before, 2);
    (void)parts_of(&loaded);
    loaded.parts[5].name = "gone";
    assert_error(uf_checkpoint_load(path, loaded.parts, PARTS), UF_ERROR_NOT_FOUND, "gone");
    assert_true(same_contents(&before, &loaded));
    /* Files that are no checkpoints, or later ones. */
    assert_error(uf_checkpoint_load(fixture_path("absent.h5"), &part, 1), UF_ERROR_NOT_FOUND,
                 "absent.h5");
    assert_ok(uf_store_save_hdf5(more, path));
    assert_error(uf_checkpoint_load(path, &part, 1), UF_ERROR_FORMAT,
                 "is no checkpoint: its root has no attribute format");
    close_state(&before);
    close_state(&saved);
    close_state(&loaded);
    close_state(&wider);
    close_state(&real);
}

static void wrong_parts(void **cmocka) {
    (void)cmocka;
    const char *path = fixture_path("wrong.h5");
    double number = 1.0;
    char text[3] = {'a', 'b', 'c'};
    static const char *const names[] = {"",
                                        ".",
                                        "..",
                                        "a/b",
                                        NULL,
                                        "sixty-four characters are one more than a name of a part "
                                        "may have, and so this is refused"};
    for (int64_t i = 0; i < COUNT_OF(names); ++i) {
        const uf_checkpoint_part part = uf_checkpoint_f64(names[i], &number, 1);
        assert_error(uf_checkpoint_save(path, &part, 1, NULL), UF_ERROR_INVALID_ARGUMENT, "part");
    }
    uf_checkpoint_part two[2] = {uf_checkpoint_f64("a", &number, 1),
                                 uf_checkpoint_i64("a", (int64_t[]){1}, 1)};
    assert_error(uf_checkpoint_save(path, two, 2, NULL), UF_ERROR_INVALID_ARGUMENT,
                 "two parts are called numbers/a");
    two[1] = uf_checkpoint_text("a", text, 3);
    assert_error(uf_checkpoint_save(path, two, 2, NULL), UF_ERROR_INVALID_ARGUMENT,
                 "texts/a has no terminator in its 3 bytes");
    two[1].count = 40000;
    assert_error(uf_checkpoint_save(path, two, 2, NULL), UF_ERROR_INVALID_ARGUMENT,
                 "text a has room for 40000 bytes");
    two[1] = uf_checkpoint_f64("b", &number, 0);
    assert_error(uf_checkpoint_save(path, two, 2, NULL), UF_ERROR_INVALID_ARGUMENT,
                 "part b has 0 numbers");
    two[1].data = NULL;
    assert_error(uf_checkpoint_save(path, two, 2, NULL), UF_ERROR_INVALID_ARGUMENT, "no data");
    two[1] = uf_checkpoint_part_of((uf_checkpoint_kind)9, "b", &number, 1);
    assert_error(uf_checkpoint_save(path, two, 2, NULL), UF_ERROR_INVALID_ARGUMENT, "kind 9");
    two[1].struct_size = 0;
    assert_error(uf_checkpoint_save(path, two, 2, NULL), UF_ERROR_INVALID_ARGUMENT,
                 "part 1 has struct_size 0");
    assert_error(uf_checkpoint_save(path, two, 0, NULL), UF_ERROR_INVALID_ARGUMENT, "0 parts");
    uf_checkpoint_options options = uf_checkpoint_options_default();
    options.gzip_level = 10;
    assert_error(uf_checkpoint_save(path, two, 1, &options), UF_ERROR_INVALID_ARGUMENT,
                 "gzip_level is 10");
    assert_int_equal(fixture_count(), 0);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(checksums), TEST(long_checksums),  TEST(there_and_back),      TEST(deflated),
        TEST(layout),    TEST(damage_anywhere), TEST(what_does_not_agree), TEST(wrong_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
