/* safetensors files in and out: every type, every way in which a header can lie, and names and
 * metadata that come back as they were. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/store.h"
#include "io/fixture.h"
#include "io/safetensors.h"

enum { ROOM = 8192 };

/* A file of a header and `count` bytes of data. `length` below 0: the header's own. */
static const char *make_file(const char *name, const char *header, int64_t length, const void *data,
                             size_t count) {
    const char *path = fixture_path(name);
    const uint64_t said = length < 0 ? strlen(header) : (uint64_t)length;
    unsigned char bytes[ROOM];
    const size_t size = 8 + strlen(header) + count;
    assert_true(size <= ROOM);
    for (int i = 0; i < 8; ++i) {
        bytes[i] = (unsigned char)(said >> (8 * i));
    }
    memcpy(bytes + 8, header, strlen(header));
    if (count > 0) {
        memcpy(bytes + 8 + strlen(header), data, count);
    }
    fixture_bytes(path, bytes, size);
    return path;
}

static uf_weights_file *open_file(const char *path, bool untrusted) {
    uf_weights_open_options options = uf_weights_open_options_default();
    uf_weights_file *file;
    options.untrusted = untrusted;
    assert_ok(uf_weights_open(path, &options, &file));
    assert_int_equal(uf_weights_format_of(file), UF_WEIGHTS_SAFETENSORS);
    return file;
}

static int64_t find(const uf_weights_file *file, const char *name, uf_weights_entry *entry) {
    for (int64_t i = 0; i < uf_weights_count(file); ++i) {
        assert_ok(uf_weights_entry_at(file, i, entry));
        if (strcmp(entry->name, name) == 0) {
            return i;
        }
    }
    fail_msg("there is no %s", name);
    return -1;
}

/* ---- reading ---- */

#define TENSOR(name, dtype, shape, from, to)                                                       \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #from "," #to   \
    "]}"

static void test_types(void **state) {
    static const unsigned char data[] = {
        0,    0,    0,    0,    0,    0,    0xf8, 0x3f, /* F64 1.5 */
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, /* U64 2^63 - 1 */
        0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, /* I64 -2 */
        0,    0,    0x20, 0xc0,                         /* F32 -2.5 */
        0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, /* I32 -3, U32 2^32 - 1 */
        0x40, 0x40, 0x00, 0x3e, 0x00, 0x80, 0xff, 0xff, /* BF16 3, F16 1.5, I16, U16 */
        0x80, 0xff, 1,                                  /* I8 -128, U8 255, BOOL */
    };
    static const char header[] =
        "{" TENSOR("f64", "F64", "[1]", 0, 8) "," TENSOR("u64", "U64", "[]", 8, 16) "," TENSOR(
            "i64", "I64", "[1,1]", 16, 24) "," TENSOR("f32", "F32", "[1]", 24, 28) "," //
        TENSOR("i32", "I32", "[1]", 28, 32) "," TENSOR("u32", "U32", "[1]", 32, 36) "," TENSOR(
            "bf16", "BF16", "[1]", 36, 38) "," TENSOR("f16", "F16", "[1]", 38, 40) "," //
        TENSOR("i16", "I16", "[1]", 40, 42) "," TENSOR("u16", "U16", "[1]", 42, 44) "," TENSOR(
            "i8", "I8", "[1]", 44, 45) "," TENSOR("u8", "U8", "[1]", 45, 46) "," //
        TENSOR("bool", "BOOL", "[1]", 46, 47) "}";
    static const struct {
        const char *name;
        double real;
        int64_t integer; /* of those that are */
    } cases[] = {
        {"f64", 1.5, 0},
        {"f32", -2.5, 0},
        {"bf16", 3.0, 0},
        {"f16", 1.5, 0},
        {"u64", 0x1p63, INT64_MAX},
        {"i64", -2.0, -2},
        {"i32", -3.0, -3},
        {"u32", 4294967295.0, 4294967295},
        {"i16", -32768.0, -32768},
        {"u16", 65535.0, 65535},
        {"i8", -128.0, -128},
        {"u8", 255.0, 255},
    };
    (void)state;
    const char *path = make_file("types.safetensors", header, -1, data, sizeof data);
    for (int untrusted = 0; untrusted < 2; ++untrusted) {
        uf_weights_file *file = open_file(path, untrusted != 0);
        uf_weights_entry entry;
        assert_int_equal(uf_weights_count(file), 13);
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
            const int64_t at = find(file, cases[i].name, &entry);
            double real;
            int64_t integer;
            assert_true(entry.is_tensor);
            assert_string_equal(entry.type, cases[i].name);
            assert_ok(uf_weights_read(file, at, UF_F64, &real, 1));
            assert_true(real == cases[i].real);
            if (cases[i].integer != 0) {
                assert_ok(uf_weights_read(file, at, UF_I64, &integer, 1));
                assert_int_equal(integer, cases[i].integer);
            } else {
                assert_error(uf_weights_read(file, at, UF_I64, &integer, 1), UF_ERROR_FORMAT,
                             cases[i].name, "not integers");
            }
            assert_error(uf_weights_read(file, at, UF_F64, &real, 0), UF_ERROR_SHAPE,
                         "there is room for 0");
        }
        double real;
        const int64_t at = find(file, "bool", &entry);
        assert_false(entry.is_tensor);
        assert_error(uf_weights_read(file, at, UF_F64, &real, 1), UF_ERROR_FORMAT, "bool in",
                     "holds truth values, which are not read");
        uf_weights_close(file);
    }
}

static void test_what_is_listed_and_not_read(void **state) {
    static const unsigned char data[8] = {255, 255, 255, 255, 255, 255, 255, 255};
    static const char header[] =
        "{" TENSOR("b", "U64", "[1]", 0, 8) "," TENSOR("a", "F4", "[3]", 8, 8) "," TENSOR(
            "c", "F32", "[3,0,2]", 8, 8) "," TENSOR("d", "F64", "[1,1,1,1,1,1,1,1,0]", 8,
                                                    8) "}  \n";
    uf_weights_entry entry;
    int64_t value;
    (void)state;
    uf_weights_file *file =
        open_file(make_file("odd.safetensors", header, -1, data, sizeof data), false);
    assert_int_equal(find(file, "a", &entry), 0);
    assert_false(entry.is_tensor);
    assert_string_equal(entry.type, "F4");
    assert_error(uf_weights_read(file, 0, UF_F64, &value, 1), UF_ERROR_FORMAT, "a in ",
                 "has the type F4, which is not read");
    assert_error(uf_weights_read(file, 1, UF_I64, &value, 1), UF_ERROR_FORMAT, "b in ",
                 "holds 18446744073709551615, which is too large for 64 bits");
    assert_error(uf_weights_read(file, 2, UF_F32, &value, 1), UF_ERROR_FORMAT, "c in ",
                 "is empty, (3, 0, 2)");
    assert_error(uf_weights_read(file, 3, UF_F32, &value, 1), UF_ERROR_FORMAT, "d in ",
                 "has 9 axes, more than 8");
    assert_error(uf_weights_read(file, 4, UF_F32, &value, 1), UF_ERROR_INVALID_ARGUMENT, "index 4");
    uf_weights_close(file);
}

static void test_metadata_and_escapes(void **state) {
    static const char header[] =
        "{ \"__metadata__\" : { \"z\" : \"\\\"\\\\\\n\\u00E9\\/\\ud83d\\ude00\\u20ac\" , "
        "\"format\":\"pt\", \"\":\"\" }\t,"
        "\n\"caf\\u00e9.\\u001b[2J\":{\"data_offsets\":[0,4],\"shape\":[1],\"dtype\":"
        "\"F32\"}}";
    uf_weights_entry entry;
    const char *name, *text;
    (void)state;
    uf_weights_file *file = open_file(make_file("meta.safetensors", header, -1, "\0\0\0", 4), true);
    assert_int_equal(uf_weights_metadata_count(file), 3);
    assert_ok(uf_weights_metadata_at(file, 1, &name, &text));
    assert_string_equal(name, "format");
    assert_string_equal(text, "pt");
    assert_ok(uf_weights_metadata_at(file, 2, &name, &text));
    assert_string_equal(text, "\"\\\n\303\251/\360\237\230\200\342\202\254");
    assert_error(uf_weights_metadata_at(file, 3, &name, &text), UF_ERROR_INVALID_ARGUMENT,
                 "index 3");
    assert_null(name);
    find(file, "caf\303\251.\033[2J", &entry);
    uf_weights_close(file);
    /* A name does not reach a terminal as it is. */
    uf_context *context = fixture_context(NULL);
    uf_store *store;
    assert_ok(uf_store_create(context, "s", &store));
    fixture_declare(store, "w", UF_SHAPE(1), UF_ROLE_PARAMETER);
    assert_error(uf_weights_load(store, fixture_path("meta.safetensors"), NULL), UF_ERROR_SHAPE,
                 "caf\303\251.\\x1b[2J");
    uf_store_destroy(store);
    uf_context_destroy(context);
}

/* ---- headers that lie ---- */

static void test_refusals(void **state) {
    static const struct {
        const char *header;
        int64_t length; /* that is said; below 0: the header's own */
        size_t data;    /* bytes */
        const char *message;
    } cases[] = {
        {"{}", 3, 0, "is truncated: its 10 bytes do not hold a header of 3"},
        {"{}", 100000001, 0, "says that its header has 100000001 bytes; 100000000 are the most"},
        {"{", -1, 0, "byte 1 of its header does not begin a text"},
        {"{}x", -1, 0, "byte 2 of its header follows the end of the object"},
        {"{} ", -1, 1, "its tensors end at byte 11, the file at byte 12"},
        {"{\"a\"}", -1, 0, "is no colon behind a name"},
        {"{\"a\":1}", -1, 0, "byte 5 of its header does not begin an object"},
        {"{\"a\":[{}]}", -1, 0, "does not begin an object"},
        {"{\"a\":{}}", -1, 0, "a in"},
        {"{\"a\":{\"dtype\":\"F32\",}}", -1, 0, "byte 20 of its header does not begin a text"},
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", -1, 0, "twice the field dtype"},
        {"{\"a\":{\"dtype\":\"F32\",\"strides\":[1]}}", -1, 0, "the unknown field strides"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", -1, 4, "it has no dtype, shape or"},
        {"{\"a\":{\"dtype\":5}}", -1, 0, "does not begin a text"},
        {"{\"a\":{\"shape\":5}}", -1, 0, "does not begin a list"},
        {"{\"a\":{\"shape\":[\"1\"]}}", -1, 0, "does not begin a count"},
        {"{\"a\":{\"shape\":[[1]]}}", -1, 0, "does not begin a count"},
        {"{\"a\":{\"shape\":[1,]}}", -1, 0, "does not begin a count"},
        {"{\"a\":{\"shape\":[1 1]}}", -1, 0, "does not end a list of counts"},
        {"{\"a\":{\"shape\":[1", -1, 0, "does not end a list of counts"},
        {"{" TENSOR("a", "F32", "[1]", 0, 4) ",}", -1, 4, "does not begin a text"},
        {"{" TENSOR("a", "F32", "[1]", 0, 4) " " TENSOR("b", "F32", "[1]", 0, 4) "}", -1, 4,
         "does not end an object"},
        {"{" TENSOR("a", "F32", "[1]", 0, 4) "," TENSOR("a", "F32", "[1]", 4, 8) "}", -1, 8,
         "two tensors of the name a"},
        {"{" TENSOR("a", "F32", "[1]", 0, 4) "," TENSOR("b", "F32", "[1]", 0, 4) "}", -1, 4,
         "overlap another tensor's"},
        {"{" TENSOR("a", "F32", "[1]", 0, 4) "," TENSOR("b", "F32", "[1]", 8, 12) "}", -1, 12,
         "follow a hole"},
        {"{" TENSOR("a", "F32", "[1]", 4, 8) "}", -1, 8, "follow a hole"},
        {"{" TENSOR("a", "F32", "[1]", 0, 4) "}", -1, 8, "the file at byte"},
        {"{" TENSOR("a", "F32", "[1]", 0, 4) "}", -1, 3, "no two offsets in order within the 3"},
        {"{" TENSOR("a", "F32", "[1]", 4, 0) "}", -1, 4, "no two offsets in order"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", -1, 4, "no two offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,4]}}", -1, 4,
         "no two offsets"},
        {"{" TENSOR("a", "F32", "[1]", -4, 0) "}", -1, 4, "does not begin a count"},
        {"{" TENSOR("a", "F32", "[1]", 0.0, 4) "}", -1, 4, "makes a fraction of a count"},
        {"{" TENSOR("a", "F32", "[1]", 0, 4e0) "}", -1, 4, "makes a fraction of a count"},
        {"{" TENSOR("a", "F32", "[01]", 0, 4) "}", -1, 4, "follows a zero that begins a number"},
        {"{" TENSOR("a", "F32", "[2]", 0, 4) "}", -1, 4, "its 2 elements of F32 do not fill 4"},
        {"{" TENSOR("a", "F32", "[4611686018427387905,4]", 0, 4) "}", -1, 4,
         "more elements than 64 bits count"},
        {"{" TENSOR("a", "F32", "[4611686018427387905]", 0, 4) "}", -1, 4, "do not fill 4 bytes"},
        {"{" TENSOR("a", "F32", "[1]", 0, 9007199254740993) "}", -1, 4, "no two offsets in order"},
        {"{" TENSOR("a", "F32", "[1]", 0, 9223372036854775808) "}", -1, 4, "beyond 64 bits"},
        {"{" TENSOR("a", "F32", "[1]", 0, 99999999999999999999) "}", -1, 4, "beyond 64 bits"},
        {"{" TENSOR("a\\u0000b", "F32", "[1]", 0, 4) "}", -1, 4, "ends an escape that is none"},
        {"{" TENSOR("a\\ud800b", "F32", "[1]", 0, 4) "}", -1, 4, "ends an escape that is none"},
        {"{" TENSOR("a\\udc00b", "F32", "[1]", 0, 4) "}", -1, 4, "ends an escape that is none"},
        {"{" TENSOR("a\\ud800\\u0041", "F32", "[1]", 0, 4) "}", -1, 4, "an escape that is none"},
        {"{" TENSOR("a\\u00g0", "F32", "[1]", 0, 4) "}", -1, 4, "ends an escape that is none"},
        {"{" TENSOR("a\\x", "F32", "[1]", 0, 4) "}", -1, 4, "ends an escape that is none"},
        {"{" TENSOR("a\nb", "F32", "[1]", 0, 4) "}", -1, 4, "is a control character in a text"},
        {"{" TENSOR("a\xff", "F32", "[1]", 0, 4) "}", -1, 4, "ends a text that is no UTF-8"},
        {"{" TENSOR("a\xc3", "F32", "[1]", 0, 4) "}", -1, 4, "ends a text that is no UTF-8"},
        {"{" TENSOR("a//b", "F32", "[1]", 0, 4) "}", -1, 4, "holds the name a//b"},
        {"{" TENSOR("", "F32", "[1]", 0, 4) "}", -1, 4, "a tensor whose name is empty"},
        {"{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", -1, 0, "two texts of the name a"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", -1, 0, "metadata twice"},
        {"{\"__metadata__\":{\"a\":1}}", -1, 0, "does not begin a text"},
        {"{\"__metadata__\":\"a\"}", -1, 0, "does not begin an object"},
        {"{\"__metadata__\":{\"a\":\"1\"", -1, 0, "does not end an object"},
        {"{\"a", -1, 0, "should have the end of a text behind it"},
        {"{\"a\\", -1, 0, "ends an escape that is none"},
        {"{\"a\\u00", -1, 0, "ends an escape that is none"},
    };
    static const unsigned char data[16];
    (void)state;
    uf_context *context = fixture_context(NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        uf_weights_file *file;
        uf_store *store;
        const char *path =
            make_file("bad.safetensors", cases[i].header, cases[i].length, data, cases[i].data);
        for (int untrusted = 0; untrusted < 2; ++untrusted) {
            uf_weights_open_options options = uf_weights_open_options_default();
            options.untrusted = untrusted != 0;
            assert_error(uf_weights_open(path, &options, &file), UF_ERROR_FORMAT, "bad.safetensors",
                         cases[i].message);
            assert_null(file);
        }
        assert_ok(uf_store_create(context, "s", &store));
        assert_error(uf_weights_load(store, path, NULL), UF_ERROR_FORMAT, cases[i].message);
        assert_int_equal(uf_store_size(store), 0);
        uf_store_destroy(store);
    }
    uf_context_destroy(context);
}

/* A megabyte of brackets nests nothing, and one of digits or of axes costs no memory. */
static void test_large_pieces(void **state) {
    enum { LARGE = 1 << 20 };
    static const char begin[] = "{\"a\":{\"shape\":[";
    static const struct {
        const char *fill;
        const char *message;
    } cases[] = {
        {"[", "byte 15 of its header does not begin a count"},
        {"1", "byte 34 of its header is in a number beyond 64 bits"},
        {"1,", "byte 1048573 of its header does not begin a count"},
        {" ", "it has no dtype, shape or data_offsets"},
    };
    uf_file_listing listing = {0};
    uf_file_attributes metadata = {0};
    char *header = test_allocate(LARGE);
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); ++i) {
        const size_t period = strlen(cases[i].fill);
        memcpy(header, begin, strlen(begin));
        for (size_t at = strlen(begin); at < LARGE; ++at) {
            header[at] = cases[i].fill[(at - strlen(begin)) % period];
        }
        memcpy(header + LARGE - 3, "]}}", 3);
        assert_error(uf_safetensors_parse("x", header, LARGE, 8 + LARGE, &listing, &metadata),
                     UF_ERROR_FORMAT, cases[i].message);
        uf_file_listing_free(&listing);
        uf_file_attributes_free(&metadata);
    }
    free(header);
}

/* ---- every byte ---- */

/* Whatever a header says, the tensors that are believed lie beside each other within the file. */
static void check_listing(const uf_file_listing *listing, int64_t from, int64_t size) {
    int64_t total = 0;
    for (int64_t i = 0; i < listing->count; ++i) {
        const uf_file_entry *one = &listing->datasets[i];
        assert_true(one->offset >= from && one->entry.bytes >= 0);
        assert_true(one->offset + one->entry.bytes <= size);
        total += one->entry.bytes;
        for (int64_t j = 0; j < i; ++j) {
            const uf_file_entry *other = &listing->datasets[j];
            assert_true(one->entry.bytes == 0 || other->entry.bytes == 0 ||
                        one->offset + one->entry.bytes <= other->offset ||
                        other->offset + other->entry.bytes <= one->offset);
            assert_true(strcmp(one->entry.name, other->entry.name) != 0);
        }
    }
    assert_int_equal(total, size - from);
}

static const char *const small_files[] = {
    "{}",
    "{" TENSOR("a", "F32", "[1]", 0, 4) "}",
    "{" TENSOR("a", "F64", "[]", 0, 8) "," TENSOR("b", "U8", "[2,2]", 8, 12) "}   ",
    "{" TENSOR("main.0.weight", "F16", "[2,3]", 0, 12) "," TENSOR("main.0.bias", "F16", "[3]", 12,
                                                                  18) "}",
    "{\"__metadata__\":{\"format\":\"pt\"}," TENSOR("w", "BF16", "[4,1,1,1]", 0, 8) "}",
    "{" TENSOR("n", "I64", "[1]", 0, 8) "," TENSOR("m", "I32", "[1]", 8, 12) "}",
    "{" TENSOR("e", "F32", "[0]", 0, 0) "," TENSOR("f", "F32", "[1]", 0, 4) "}",
    "{\"\\u00e9\\n\":{\"shape\":[1],\"data_offsets\":[0,1],\"dtype\":\"BOOL\"}}",
    "{\"__metadata__\":{\"a\":\"{\\\"b\\\": 1}\",\"b\":\"\"}}",
    "{" TENSOR("b", "F32", "[1]", 4, 8) "," TENSOR("a", "F32", "[1]", 0, 4) "}",
};

/* Every value of every byte of ten headers. A header on the heap: a sanitizer sees reads beyond. */
static void test_every_byte(void **state) {
    (void)state;
    int64_t accepted = 0, tried = 0;
    for (size_t i = 0; i < sizeof small_files / sizeof small_files[0]; ++i) {
        const size_t length = strlen(small_files[i]);
        int64_t data = 0;
        for (const char *at = strstr(small_files[i], "_offsets"); at != NULL;
             at = strstr(at + 1, "_offsets")) {
            const int64_t end = strtoll(strchr(at, ',') + 1, NULL, 10);
            data = end > data ? end : data;
        }
        char *header = test_allocate(length);
        const int64_t size = 8 + (int64_t)length + data;
        for (size_t place = 0; place < length; ++place) {
            for (int change = 0; change < 256; ++change) {
                uf_file_listing listing = {0};
                uf_file_attributes metadata = {0};
                memcpy(header, small_files[i], length);
                header[place] = (char)((unsigned char)header[place] ^ change);
                tried += 1;
                const uf_status status =
                    uf_safetensors_parse("x", header, (int64_t)length, size, &listing, &metadata);
                if (status == UF_OK) {
                    check_listing(&listing, 8 + (int64_t)length, size);
                    accepted += 1;
                } else {
                    assert_int_equal(status, UF_ERROR_FORMAT);
                    assert_true(change != 0);
                }
                uf_file_listing_free(&listing);
                uf_file_attributes_free(&metadata);
            }
        }
        free(header);
    }
    print_message("%" PRId64 " of %" PRId64 " changes are headers again\n", accepted, tried);
    assert_true(accepted > 1000); /* names and texts of metadata may be others */
}

static uf_status open_and_close(const char *path) {
    uf_weights_file *file;
    const uf_status status = uf_weights_open(path, NULL, &file);
    uf_weights_close(file);
    return status;
}

/* Each length that the file can have, and each value of each byte of the length that stands in
 * front. One file throughout: file systems flush those that are made anew. */
static void test_every_length(void **state) {
    static const unsigned char data[12];
    size_t size;
    (void)state;
    const char *path = make_file("cut.safetensors", small_files[2], -1, data, 12);
    unsigned char *whole = fixture_read(path, &size);
    const int descriptor = open(path, O_RDWR);
    assert_ok(open_and_close(path));
    for (int place = 0; place < 8; ++place) {
        for (int change = 1; change < 256; ++change) {
            const unsigned char other = (unsigned char)(whole[place] ^ change);
            assert_int_equal(pwrite(descriptor, &other, 1, place), 1);
            /* Spaces would become data, or data part of the header. */
            assert_int_equal(open_and_close(path), UF_ERROR_FORMAT);
        }
        assert_int_equal(pwrite(descriptor, &whole[place], 1, place), 1);
    }
    assert_ok(open_and_close(path));
    for (size_t cut = size; cut-- > 0;) {
        assert_int_equal(ftruncate(descriptor, (off_t)cut), 0);
        assert_int_equal(open_and_close(path), UF_ERROR_FORMAT);
        assert_non_null(strstr(uf_last_error(), "cut.safetensors"));
    }
    close(descriptor);
    free(whole);
}

/* ---- stores ---- */

static void test_load(void **state) {
    static const unsigned char data[] = {0, 0x3c, 0, 0xc0, 0x80, 0x3f, 3, 0, 0, 0, 0, 0, 0, 0};
    /* An odd offset for the f32 values, which are not read where they are mapped. */
    static const unsigned char shifted[] = {7, 0, 0, 0xc0, 0x3f};
    (void)state;
    uf_context *context = fixture_context(NULL);
    const char *path = make_file("load.safetensors",
                                 "{" TENSOR("module.a.weight", "F16", "[2]", 0, 4) "," TENSOR(
                                     "module.a.running_var", "BF16", "[1]", 4, 6) "," //
                                 TENSOR("module.n", "I64", "[]", 6, 14) "}",
                                 -1, data, sizeof data);
    for (int declared = 0; declared < 2; ++declared) {
        uf_weights_load_report report = uf_weights_load_report_default();
        uf_weights_load_options options = uf_weights_load_options_default();
        uf_store *store;
        double values[2];
        options.report = &report;
        options.untrusted = declared != 0;
        assert_ok(uf_store_create(context, "s", &store));
        if (declared != 0) {
            fixture_declare(store, "a.weight", UF_SHAPE(2), UF_ROLE_PARAMETER);
            fixture_declare(store, "a.running_var", UF_SHAPE(1), UF_ROLE_BUFFER);
            fixture_declare(store, "n", UF_SCALAR, UF_ROLE_COUNTER);
        }
        assert_ok(uf_weights_load(store, path, &options));
        assert_int_equal(report.loaded, 3);
        fixture_values(store, "a.weight", values, 2);
        assert_true(values[0] == 1.0 && values[1] == -2.0);
        fixture_values(store, "a.running_var", values, 1);
        assert_true(values[0] == 1.0);
        fixture_values(store, "n", values, 1);
        assert_true(values[0] == 3.0);
        assert_error(uf_store_load_hdf5(store, path, NULL), UF_ERROR_FORMAT,
                     "load.safetensors is a safetensors file, not an HDF5 file");
        uf_store_destroy(store);
    }
    path =
        make_file("shifted.safetensors",
                  "{" TENSOR("net.b", "F32", "[1]", 1, 5) "," TENSOR("m.a", "U8", "[1]", 0, 1) "}",
                  -1, shifted, sizeof shifted);
    uf_weights_load_options options = uf_weights_load_options_default();
    uf_store *store;
    double value;
    assert_ok(uf_store_create(context, "s", &store));
    options.group = "/net/";
    assert_ok(uf_weights_load(store, path, &options));
    assert_int_equal(uf_store_size(store), 1);
    fixture_values(store, "b", &value, 1);
    assert_true(value == 1.5);
    options.group = "ne";
    assert_error(uf_weights_load(store, path, &options), UF_ERROR_NOT_FOUND, "has no group ne");
    uf_store_destroy(store);
    uf_context_destroy(context);
}

/* Weight norm's parts in f64, which are taken where they are mapped. */
static void test_fold(void **state) {
    static const double data[] = {3.0, 4.0, 10.0};
    (void)state;
    uf_context *context = fixture_context(NULL);
    const char *path = make_file("fold.safetensors",
                                 "{" TENSOR("a.weight_v", "F64", "[1,2]", 0, 16) "," TENSOR(
                                     "a.weight_g", "F64", "[1,1]", 16, 24) "}      ",
                                 -1, data, sizeof data);
    uf_store *store;
    double values[2];
    assert_ok(uf_store_create(context, "s", &store));
    fixture_declare(store, "a.weight", UF_SHAPE(1, 2), UF_ROLE_PARAMETER);
    assert_ok(uf_weights_load(store, path, NULL));
    fixture_values(store, "a.weight", values, 2);
    assert_true(values[0] == 6.0 && values[1] == 8.0);
    uf_store_destroy(store);
    uf_context_destroy(context);
}

static uf_store *filled_store(uf_context *context, uf_dtype dtype) {
    uf_store_options options = uf_store_options_default();
    const float ramp[6] = {1, 2, 3, 4, 5, 6};
    const int64_t count = INT64_C(1) << 40;
    uf_tensor *tensor;
    uf_store *store;
    options.dtype = dtype;
    assert_ok(uf_store_create_with(context, "s", &options, &store));
    fixture_declare(store, "z.weight", UF_SHAPE(2, 3), UF_ROLE_PARAMETER);
    fixture_declare(store, "a.n", UF_SCALAR, UF_ROLE_COUNTER);
    fixture_declare(store, "a.weight", UF_SHAPE(3), UF_ROLE_PARAMETER);
    assert_ok(uf_store_alias(store, "tied", "z.weight"));
    assert_ok(uf_store_tensor(store, "z.weight", &tensor));
    assert_ok(uf_tensor_upload_as(tensor, UF_F32, ramp, 6));
    assert_ok(uf_store_tensor(store, "a.n", &tensor));
    assert_ok(uf_tensor_upload_as(tensor, UF_I64, &count, 1));
    return store;
}

/* The very bytes that the safetensors library writes: order, spaces, and all. */
static void test_save(void **state) {
    static const char *const metadata[] = {"format", "pt", "\"q\"", "a\nb\\\303\251"};
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\",\"\\\"q\\\"\":\"a\\u000ab\\\\\303\251\"}," //
        TENSOR("a.n", "I64", "[]", 0, 8) "," TENSOR("a.weight", "F32", "[3]", 8, 20) "," //
        TENSOR("tied", "F32", "[2,3]", 20, 44) "," TENSOR("z.weight", "F32", "[2,3]", 44, 68) "}";
    uf_weights_save_options options = uf_weights_save_options_default();
    (void)state;
    uf_context *context = fixture_context(NULL);
    uf_store *store = filled_store(context, UF_F32);
    const char *path = fixture_path("save.safetensors");
    size_t size;
    options.metadata = metadata;
    options.metadata_count = 2;
    assert_ok(uf_weights_save(store, path, &options));
    unsigned char *bytes = fixture_read(path, &size);
    const size_t padded = (strlen(header) + 7) / 8 * 8;
    assert_int_equal(size, 8 + padded + 68);
    assert_int_equal(bytes[0] + 256 * bytes[1], padded);
    assert_memory_equal(bytes + 8, header, strlen(header));
    for (size_t i = strlen(header); i < padded; ++i) {
        assert_int_equal(bytes[8 + i], ' ');
    }
    const float last = 6.0f;
    assert_memory_equal(bytes + size - 4, &last, 4);
    free(bytes);
    uf_store_destroy(store);
    uf_context_destroy(context);
}

static void test_round_trip(void **state) {
    static const char *const metadata[] = {"by", "unfurl", "empty", ""};
    static const uf_dtype dtypes[] = {UF_F32, UF_F64};
    (void)state;
    uf_context *context = fixture_context(NULL);
    for (int i = 0; i < 4; ++i) {
        const uf_dtype dtype = dtypes[i % 2];
        uf_weights_save_options options = uf_weights_save_options_default();
        uf_store *store = filled_store(context, dtype), *copy;
        uf_store_options same = uf_store_options_default();
        const char *path = fixture_path("trip.safetensors"), *name, *text;
        uf_weights_file *file;
        double values[6];
        same.dtype = dtype;
        options.format = i < 2 ? UF_WEIGHTS_ANY : UF_WEIGHTS_HDF5;
        options.metadata = metadata;
        options.metadata_count = 2;
        assert_ok(uf_weights_save(store, path, &options));
        assert_ok(uf_store_create_with(context, "copy", &same, &copy));
        assert_ok(uf_weights_load(copy, path, NULL));
        assert_int_equal(uf_store_size(copy), 4);
        fixture_values(copy, "tied", values, 6);
        assert_true(values[0] == 1.0 && values[5] == 6.0);
        fixture_values(copy, "a.n", values, 1);
        assert_true(values[0] == 0x1p40);
        assert_ok(uf_weights_open(path, NULL, &file));
        assert_int_equal(uf_weights_format_of(file),
                         i < 2 ? UF_WEIGHTS_SAFETENSORS : UF_WEIGHTS_HDF5);
        assert_int_equal(uf_weights_metadata_count(file), 2);
        assert_ok(uf_weights_metadata_at(file, 0, &name, &text));
        assert_string_equal(name, "by");
        assert_string_equal(text, "unfurl");
        assert_ok(uf_weights_metadata_at(file, 1, &name, &text));
        assert_string_equal(text, "");
        uf_weights_close(file);
        uf_store_destroy(copy);
        uf_store_destroy(store);
    }
    uf_context_destroy(context);
}

/* Memory that is anything but zero. */
static void *allocate_ones(void *user, size_t size, size_t alignment, uf_memory_kind kind,
                           void *stream) {
    (void)user, (void)kind, (void)stream;
    void *made = aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    if (made != NULL) {
        memset(made, 0xff, size);
    }
    return made;
}

static void release_ones(void *user, void *pointer, size_t size, uf_memory_kind kind,
                         void *stream) {
    (void)user, (void)size, (void)kind, (void)stream;
    free(pointer);
}

/* A store that was empty: its tensors count as loaded, and the padding behind them is zero. */
static void test_load_in_place(void **state) {
    uf_context_options options = uf_context_options_default();
    uf_context *context = fixture_context(NULL), *strict;
    uf_store *store = filled_store(context, UF_F32), *copy;
    const char *path = fixture_path("place.safetensors");
    (void)state;
    assert_ok(uf_weights_save(store, path, NULL));
    options.device = UF_DEVICE_CPU;
    options.allocator.allocate = allocate_ones;
    options.allocator.release = release_ones;
    assert_ok(uf_context_create(&options, &strict));
    assert_ok(uf_store_create(strict, "copy", &copy));
    assert_ok(uf_weights_load(copy, path, NULL));
    assert_int_equal(copy->count, 4);
    for (int64_t i = 0; i < copy->count; ++i) {
        const uf_store_slot *slot = &copy->slots[i];
        const unsigned char *data = slot->tensor.data;
        const size_t bytes = (size_t)slot->tensor.count * uf_dtype_size(slot->tensor.dtype);
        assert_ok(uf_store_check_given(copy, i));
        assert_true(slot->is_given);
        for (size_t at = bytes; at < uf_align_up(bytes); ++at) {
            assert_int_equal(data[at], 0);
        }
    }
    uf_store_destroy(copy);
    uf_context_destroy(strict);
    uf_store_destroy(store);
    uf_context_destroy(context);
}

/* A refusal leaves no file, and the old one as it was. */
static void test_save_refusals(void **state) {
    static const char *const twice[] = {"a", "1", "a", "2"}, *const missing[] = {"a", NULL},
                             *const bytes[] = {"a", "\xff"};
    static char large[40000];
    const char *const too_large[] = {"a", large};
    (void)state;
    uf_context *context = fixture_context(NULL);
    uf_store *store = filled_store(context, UF_F32);
    uf_weights_save_options options = uf_weights_save_options_default();
    memset(large, 'x', sizeof large - 1);
    const int files = fixture_count();
    const char *path = fixture_path("none.safetensors");
    options.metadata_count = 1;
    assert_error(uf_weights_save(store, path, &options), UF_ERROR_INVALID_ARGUMENT, "metadata");
    options.metadata = missing;
    assert_error(uf_weights_save(store, path, &options), UF_ERROR_INVALID_ARGUMENT, "is NULL");
    options.metadata = bytes;
    assert_error(uf_weights_save(store, path, &options), UF_ERROR_INVALID_ARGUMENT, "no UTF-8");
    options.metadata = twice;
    options.metadata_count = 2;
    assert_error(uf_weights_save(store, path, &options), UF_ERROR_INVALID_ARGUMENT,
                 "two metadata of the name a");
    options.metadata = too_large;
    options.metadata_count = 1;
    options.format = UF_WEIGHTS_HDF5;
    assert_error(uf_weights_save(store, path, &options), UF_ERROR_INVALID_ARGUMENT,
                 "too long for an attribute");
    options.format = (uf_weights_format)7;
    assert_error(uf_weights_save(store, path, &options), UF_ERROR_INVALID_ARGUMENT,
                 "no uf_weights_format");
    assert_int_equal(fixture_count(), files);
    uf_store_destroy(store);
    uf_context_destroy(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_what_is_listed_and_not_read),
        cmocka_unit_test(test_metadata_and_escapes),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_large_pieces),
        cmocka_unit_test(test_every_byte),
        cmocka_unit_test(test_every_length),
        cmocka_unit_test(test_load),
        cmocka_unit_test(test_fold),
        cmocka_unit_test(test_save),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_load_in_place),
        cmocka_unit_test(test_save_refusals),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
