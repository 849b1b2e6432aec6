/* Chunked datasets: everything that libhdf5 writes through the filters that are read comes out as
 * libhdf5 reads it, and a chunk that lies about itself ends in a sentence, whatever it claims. */
#define _DEFAULT_SOURCE /* wait4 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <zlib.h>

#include "io/fixture.h"

/* The cost of a hostile file: far less than what it claims. */
#define PEAK_KILOBYTES (100L * 1024)
#define CPU_SECONDS 4 /* of a load that may not hang: the worst takes less than one */
#define HANG_SECONDS 120

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MEASURES_MEMORY 0 /* shadow memory counts too */
#else
#define MEASURES_MEMORY 1
#endif

static hid_t create(const char *path, bool latest) {
    const hid_t how = H5Pcreate(H5P_FILE_ACCESS);
    if (latest) {
        assert_true(H5Pset_libver_bounds(how, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST) >= 0);
    }
    const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, how);
    H5Pclose(how);
    assert_true(file >= 0);
    return file;
}

/* ---- what libhdf5 writes ---- */

typedef struct chunked_case {
    const char *filters; /* in order: d deflate, s shuffle, f Fletcher-32 */
    int rank;
    hsize_t extent[3], chunk[3];
    int unlimited; /* axes that may grow, from the first on: they choose the index of the chunks */
} chunked_case;

static const chunked_case chunked_cases[] = {
    {"", 1, {13}, {13}, 0},
    {"", 2, {7, 9}, {3, 4}, 0},
    {"", 2, {7, 9}, {3, 4}, 1},
    {"", 2, {7, 9}, {3, 4}, 2},
    {"", 1, {5}, {64}, 1},
    {"d", 1, {13}, {13}, 0},
    {"d", 1, {5}, {64}, 1},
    {"d", 2, {7, 9}, {3, 4}, 0},
    {"d", 2, {7, 9}, {3, 4}, 1},
    {"d", 2, {7, 9}, {3, 4}, 2},
    {"d", 2, {8, 6}, {2, 6}, 0},
    {"d", 3, {5, 4, 3}, {2, 4, 3}, 0},
    {"d", 3, {5, 4, 3}, {1, 1, 1}, 0},
    {"s", 2, {7, 9}, {3, 4}, 0},
    {"f", 2, {7, 9}, {3, 3}, 0},
    {"sd", 3, {5, 4, 6}, {2, 3, 4}, 0},
    {"sdf", 3, {5, 4, 6}, {2, 3, 4}, 0},
    {"fsd", 3, {5, 4, 6}, {2, 3, 4}, 1},
    {"ds", 2, {7, 9}, {3, 4}, 0},
    {"dfs", 2, {7, 9}, {3, 4}, 2},
    {"fd", 1, {3001}, {1500}, 0},
};

static void set_filters(hid_t properties, const char *filters) {
    for (; *filters != '\0'; ++filters) {
        assert_true((*filters == 'd'   ? H5Pset_deflate(properties, 6)
                     : *filters == 's' ? H5Pset_shuffle(properties)
                                       : H5Pset_fletcher32(properties)) >= 0);
    }
}

/* A dataset w with values of both signs; written down to row `rows` only, the rest reads as 7. */
static void write_case(const char *path, const chunked_case *one, hid_t type, bool latest,
                       hsize_t rows, unsigned options) {
    static double values[1 << 12];
    hsize_t most[3], start[3] = {0}, part[3];
    const hid_t file = create(path, latest);
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    const double seven = 7;
    memcpy(part, one->extent, sizeof part);
    part[0] = rows;
    for (int i = 0; i < one->rank; ++i) {
        most[i] = i < one->unlimited ? H5S_UNLIMITED : one->extent[i];
    }
    for (size_t i = 0; i < sizeof values / sizeof values[0]; ++i) {
        values[i] = (double)(i % 101); /* every type here holds these */
    }
    H5Pset_chunk(properties, one->rank, one->chunk);
    set_filters(properties, one->filters);
    H5Pset_fill_value(properties, H5T_NATIVE_DOUBLE, &seven);
    if (options != 0) {
        assert_true(H5Pset_chunk_opts(properties, options) >= 0);
    }
    const hid_t space = H5Screate_simple(one->rank, one->extent, most);
    const hid_t id = H5Dcreate2(file, "w", type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    assert_true(id >= 0);
    if (rows > 0) {
        H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, part, NULL);
        assert_true(H5Dwrite(id, H5T_NATIVE_DOUBLE, space, space, H5P_DEFAULT, values) >= 0);
    }
    H5Dclose(id);
    H5Sclose(space);
    H5Pclose(properties);
    H5Fclose(file);
}

/* Our reading of w is libhdf5's. */
static void compare_case(const char *path, const chunked_case *one) {
    static double expected[1 << 12], got[1 << 12];
    uf_shape shape;
    hsize_t count = 1;
    for (int i = 0; i < one->rank; ++i) {
        count *= one->extent[i];
    }
    const hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    const hid_t id = H5Dopen2(file, "w", H5P_DEFAULT);
    memset(expected, 0xff, sizeof expected);
    memset(got, 0xff, sizeof got);
    assert_true(H5Dread(id, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, expected) >= 0);
    H5Dclose(id);
    H5Fclose(file);
    assert_ok(uf_hdf5_read(path, "w", UF_F64, &shape, got, (int64_t)count));
    assert_int_equal(shape.rank, one->rank);
    assert_memory_equal(got, expected, sizeof got); /* and nothing behind the last element */
}

static void chunks_read_as_libhdf5_reads_them(void **state) {
    (void)state;
    const char *path = fixture_path("chunks.h5");
    const hid_t types[] = {H5T_IEEE_F32LE,
                           H5T_IEEE_F64BE,
                           H5T_STD_U8LE,
                           H5T_STD_I16BE,
                           H5T_STD_I64LE,
                           fixture_float16(5, 15, H5T_ORDER_BE),
                           fixture_float16(8, 127, H5T_ORDER_LE)};
    for (int64_t i = 0; i < COUNT_OF(chunked_cases); ++i) {
        const chunked_case *one = &chunked_cases[i];
        for (int64_t type = 0; type < COUNT_OF(types); ++type) {
            for (int form = 0; form < 4; ++form) {
                const hsize_t rows = form < 2 ? one->extent[0] : one->chunk[0] < one->extent[0];
                write_case(path, one, types[type], form % 2, rows, 0);
                compare_case(path, one);
            }
        }
    }
    H5Tclose(types[5]);
    H5Tclose(types[6]);
}

static void unwritten_chunks_are_the_fill_value(void **state) {
    (void)state;
    const char *path = fixture_path("unwritten.h5");
    for (int64_t i = 0; i < COUNT_OF(chunked_cases); ++i) {
        write_case(path, &chunked_cases[i], H5T_STD_I16BE, i % 2, 0, 0);
        compare_case(path, &chunked_cases[i]);
    }
}

static void partial_chunks_may_be_unfiltered(void **state) {
    (void)state;
    const char *path = fixture_path("partial.h5");
    for (int64_t i = 0; i < COUNT_OF(chunked_cases); ++i) {
        const chunked_case *one = &chunked_cases[i];
        write_case(path, one, H5T_IEEE_F32BE, true, one->extent[0],
                   H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS);
        compare_case(path, one);
    }
}

/* ---- chunks as a test wants them ---- */

typedef struct raw_case {
    const char *filters;
    hid_t type;
    hsize_t extent, chunk;
    const void *bytes; /* of the first chunk as it is stored; NULL: none is */
    size_t size;
    uint32_t mask;
} raw_case;

static void write_raw(const char *path, const raw_case *one, bool latest) {
    const hsize_t zero = 0;
    const hid_t file = create(path, latest);
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    const hid_t space = H5Screate_simple(1, &one->extent, NULL);
    H5Pset_chunk(properties, 1, &one->chunk);
    set_filters(properties, one->filters);
    const hid_t id = H5Dcreate2(file, "w", one->type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    assert_true(id >= 0);
    if (one->bytes != NULL) {
        assert_true(H5Dwrite_chunk(id, H5P_DEFAULT, one->mask, &zero, one->size, one->bytes) >= 0);
    }
    H5Dclose(id);
    H5Sclose(space);
    H5Pclose(properties);
    H5Fclose(file);
}

static void masked_filters_are_left_out(void **state) {
    (void)state;
    const char *path = fixture_path("mask.h5");
    const hsize_t four = 4;
    const float values[] = {1, -2, 3.5f, 4};
    Bytef packed[256];
    uLongf size = sizeof packed;
    float got[4];
    uf_shape shape;
    compress(packed, &size, (const Bytef *)values, sizeof values);
    const raw_case cases[] = {
        {"sdf", H5T_IEEE_F32LE, four, four, values, sizeof values, 7},
        {"sdf", H5T_IEEE_F32LE, four, four, packed, size, 5},
    };
    for (int i = 0; i < 4; ++i) {
        memset(got, 0, sizeof got);
        write_raw(path, &cases[i / 2], i % 2);
        assert_ok(uf_hdf5_read(path, "w", UF_F32, &shape, got, 4));
        assert_memory_equal(got, values, sizeof values);
    }
}

/* ---- hostile files ---- */

typedef struct verdict {
    uf_status status;
    char message[1024];
} verdict;

/* Load in a process of its own: it may not die, hang or take much memory. */
static verdict load_apart(const char *path) {
    verdict result = {.status = UF_OK};
    int ends[2], status;
    struct rusage usage;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        uf_context *context = fixture_context(NULL);
        uf_store *store;
        const struct rlimit processor = {CPU_SECONDS, CPU_SECONDS};
        alarm(HANG_SECONDS);
        assert_int_equal(setrlimit(RLIMIT_CPU, &processor), 0);
        assert_ok(uf_store_create(context, "s", &store));
        result.status = uf_store_load_hdf5(store, path, NULL);
        snprintf(result.message, sizeof result.message, "%s", uf_last_error());
        _exit(write(ends[1], &result, sizeof result) == (ssize_t)sizeof result ? 0 : 1);
    }
    close(ends[1]);
    const ssize_t got = read(ends[0], &result, sizeof result);
    close(ends[0]);
    assert_int_equal(wait4(child, &status, 0, &usage), child);
    if (WIFSIGNALED(status)) {
        fail_msg("loading %s ends in signal %d", path, WTERMSIG(status));
    }
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(got, sizeof result);
    if (MEASURES_MEMORY && usage.ru_maxrss > PEAK_KILOBYTES) {
        fail_msg("loading %s takes %ld kB", path, usage.ru_maxrss);
    }
    return result;
}

static void assert_hostile(const char *path, const char *message) {
    const verdict got = load_apart(path);
    if (got.status != UF_ERROR_FORMAT || strstr(got.message, message) == NULL) {
        fail_msg("%s: %s in place of: %s", uf_status_name(got.status), got.message, message);
    }
}

/* `size` zeros, deflated, in one allocation of *packed bytes. */
static unsigned char *deflate_zeros(size_t size, size_t *packed) {
    static unsigned char zeros[1 << 16];
    z_stream stream;
    memset(&stream, 0, sizeof stream);
    assert_int_equal(deflateInit(&stream, 1), Z_OK);
    const size_t room = size / 100 + 1024;
    unsigned char *bytes = test_allocate(room);
    stream.next_out = bytes;
    stream.avail_out = (uInt)room;
    for (size_t left = size; left > 0;) {
        const size_t now = left < sizeof zeros ? left : sizeof zeros;
        stream.next_in = zeros;
        stream.avail_in = (uInt)now;
        left -= now;
        assert_true(deflate(&stream, left == 0 ? Z_FINISH : Z_NO_FLUSH) >= 0);
    }
    *packed = stream.total_out;
    deflateEnd(&stream);
    return bytes;
}

static void chunks_of_another_length(void **state) {
    (void)state;
    const char *path = fixture_path("length.h5");
    static unsigned char long_tail[1 << 17]; /* 16 bytes deflated, and junk that nobody reads */
    const hsize_t mebi = 1 << 20;
    size_t large_size, exact_size;
    unsigned char *large = deflate_zeros((size_t)200 << 20, &large_size);
    unsigned char *exact = deflate_zeros(4096, &exact_size);
    Bytef small[64];
    uLongf small_size = sizeof small;
    compress(small, &small_size, (const Bytef *)"sixteen bytes ..", 16);
    memcpy(long_tail, small, small_size);
    const struct {
        raw_case raw;
        const char *message;
    } cases[] = {
        {{"d", H5T_IEEE_F32LE, 16 * mebi, 16 * mebi, small, small_size, 0},
         "w in ^ claims 67108864 bytes, which a file of "},
        {{"d", H5T_IEEE_F32LE, 16 * mebi, 16 * mebi, long_tail, sizeof long_tail, 0},
         "w in ^ is damaged: its chunk at (0,) does not inflate to 67108864 bytes"},
        {{"d", H5T_IEEE_F32LE, 1024, 1024, small, small_size, 0},
         "w in ^ is damaged: its chunk at (0,) does not inflate to 4096 bytes"},
        {{"d", H5T_IEEE_F32LE, 1000, 1000, exact, exact_size, 0}, "does not inflate to 4000 bytes"},
        {{"d", H5T_IEEE_F32LE, 1024, 1024, exact, exact_size - 1, 0},
         "does not inflate to 4096 bytes"},
        {{"d", H5T_IEEE_F32LE, 64, 64, large, large_size, 0}, "does not inflate to 256 bytes"},
        {{"sd", H5T_IEEE_F32LE, 1024, 1024, small, small_size, 0}, "does not inflate to 4096"},
        {{"d", H5T_IEEE_F32LE, 1024, 1024, small, small_size, 1},
         "w in ^ is damaged: its chunk at (0,) holds 24 bytes in place of 4096"},
        {{"s", H5T_IEEE_F32LE, 1024, 1024, long_tail, 4095, 0},
         "claims 4096 bytes, which 4095 stored bytes cannot hold"},
        {{"s", H5T_IEEE_F32LE, 1024, 1024, long_tail, 4097, 0},
         "holds 4097 bytes in place of 4096"},
        {{"fd", H5T_IEEE_F32LE, 1024, 1024, exact, exact_size, 0},
         "does not inflate to 4100 bytes"},
        {{"df", H5T_IEEE_F32LE, 1, 1, small, 2, 0},
         "w in ^ is damaged: its chunk at (0,) has 2 bytes, too few for data and a checksum"},
        {{"f", H5T_STD_U8LE, 1, 1, small, 2, 0}, "has 2 bytes, too few for data and a checksum"},
        {{"f", H5T_IEEE_F32LE, 1024, 1024, long_tail, 4100, 0}, "fails its checksum"},
    };
    for (int64_t i = 0; i < 2 * COUNT_OF(cases); ++i) {
        const char *message = cases[i / 2].message, *gap = strchr(message, '^');
        char whole[512];
        snprintf(whole, sizeof whole, "%.*s%s%s", gap == NULL ? 0 : (int)(gap - message), message,
                 gap == NULL ? "" : path, gap == NULL ? message : gap + 1);
        write_raw(path, &cases[i / 2].raw, i % 2);
        assert_hostile(path, whole);
    }
    free(large);
    free(exact);
}

/* The index of the older format says how long a chunk without filters is, and libhdf5 believes it.
 */
static void lengths_of_plain_chunks_are_not_used(void **state) {
    (void)state;
    const char *path = fixture_path("plain.h5");
    float values[1024];
    for (int i = 0; i < 1024; ++i) {
        values[i] = (float)i;
    }
    const raw_case raw = {"", H5T_IEEE_F32LE, 1024, 1024, values, sizeof values, 0};
    write_raw(path, &raw, false);
    size_t size;
    unsigned char *bytes = fixture_read(path, &size);
    const unsigned char node[] = {'T', 'R', 'E', 'E', 1, 0, 1, 0}; /* of chunks, a leaf of one */
    unsigned char *key = NULL;
    for (size_t i = 0; i + 32 <= size; ++i) {
        key = memcmp(bytes + i, node, sizeof node) == 0 ? bytes + i + 24 : key;
    }
    assert_non_null(key);
    assert_true(key[0] == 0 && key[1] == 16 && key[2] == 0 && key[3] == 0);
    static const unsigned char lies[][4] = {
        {16, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 16, 0}, {0, 0, 0, 127}, {255, 255, 255, 255}};
    for (int64_t i = 0; i < COUNT_OF(lies); ++i) {
        uf_shape shape;
        float got[1024] = {0};
        memcpy(key, lies[i], 4);
        fixture_bytes(path, bytes, size);
        const verdict loaded = load_apart(path);
        assert_true(loaded.status == UF_OK || loaded.status == UF_ERROR_FORMAT);
        if (loaded.status == UF_OK) {
            assert_ok(uf_hdf5_read(path, "w", UF_F32, &shape, got, 1024));
            assert_memory_equal(got, values, sizeof values);
        }
    }
    free(bytes);
}

static size_t pass_on(unsigned flags, size_t count, const unsigned values[], size_t size,
                      size_t *room, void **buffer) {
    (void)flags, (void)count, (void)values, (void)room, (void)buffer;
    return size;
}

static void filters_that_are_not_read(void **state) {
    (void)state;
    const char *path = fixture_path("filters.h5");
    static const H5Z_class2_t own = {H5Z_CLASS_T_VERS,       300,  1,    1,
                                     "a filter of the test", NULL, NULL, pass_on};
    static const char *const messages[] = {
        "w in ^ applies the filter deflate twice",
        "w in ^ applies the filter shuffle twice",
        "w in ^ applies the filter Fletcher-32 twice",
        "w in ^ needs filter 6 (scaleoffset); deflate, shuffle and Fletcher-32 are read",
        "w in ^ needs filter 5 (nbit); deflate, shuffle and Fletcher-32 are read",
        "w in ^ needs filter 300 (a filter of the test); deflate, shuffle",
    };
    static const char *const twice[] = {"dd", "sds", "fdf"};
    const hsize_t extent = 64;
    const int values[64] = {1, 2, 3};
    unsigned before, after;
    assert_true(H5Zregister(&own) >= 0);
    for (int i = 0; i < (int)COUNT_OF(messages); ++i) {
        const hid_t file = create(path, false);
        const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
        const hid_t space = H5Screate_simple(1, &extent, NULL);
        H5Pset_chunk(properties, 1, &extent);
        if (i < 3) {
            set_filters(properties, twice[i]);
        } else if (i == 3) {
            H5Pset_scaleoffset(properties, H5Z_SO_INT, 0);
        } else if (i == 4) {
            H5Pset_nbit(properties);
        } else {
            H5Pset_filter(properties, 300, H5Z_FLAG_MANDATORY, 0, NULL);
        }
        const hid_t id =
            H5Dcreate2(file, "w", H5T_STD_I32LE, space, H5P_DEFAULT, properties, H5P_DEFAULT);
        assert_true(H5Dwrite(id, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
        H5Dclose(id);
        H5Sclose(space);
        H5Pclose(properties);
        H5Fclose(file);
        char whole[512];
        const char *gap = strchr(messages[i], '^');
        snprintf(whole, sizeof whole, "%.*s%s%s", (int)(gap - messages[i]), messages[i], path,
                 gap + 1);
        assert_hostile(path, whole);
    }
    H5Zunregister(300);
    H5PLget_loading_state(&before);
    assert_error(uf_hdf5_read(path, "w", UF_I64, &(uf_shape){0}, &(int64_t){0}, 64),
                 UF_ERROR_FORMAT, "needs filter 300");
    H5PLget_loading_state(&after);
    assert_true(before != 0 && before == after);
}

/* `count` datasets w0, w1... of 1 MiB each that are never written. */
static void make_unstored(const char *path, int count, const char *filters, bool chunked) {
    const hsize_t extent = 1 << 18, chunk = 1 << 16;
    const hid_t file = create(path, true);
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    const hid_t space = H5Screate_simple(1, &extent, NULL);
    if (chunked) {
        H5Pset_chunk(properties, 1, &chunk);
        set_filters(properties, filters);
    }
    for (int i = 0; i < count; ++i) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        const hid_t id =
            H5Dcreate2(file, name, H5T_IEEE_F32LE, space, H5P_DEFAULT, properties, H5P_DEFAULT);
        assert_true(id >= 0);
        H5Dclose(id);
    }
    H5Sclose(space);
    H5Pclose(properties);
    H5Fclose(file);
}

/* Bytes behind the end of the file, for whoever goes by its size. */
static void append_junk(const char *path, size_t size) {
    static const unsigned char junk[1 << 20];
    FILE *file = fopen(path, "ab");
    assert_non_null(file);
    assert_int_equal(fwrite(junk, 1, size, file), size);
    fclose(file);
}

static void unstored_claims(void **state) {
    (void)state;
    const char *path = fixture_path("unstored.h5");
    static const char *const filters[] = {"", "", "sd"};
    for (int i = 0; i < 3; ++i) {
        make_unstored(path, 1, filters[i], i > 0);
        assert_int_equal(load_apart(path).status, UF_OK);
        make_unstored(path, 400, filters[i], i > 0); /* more than the whole file can claim */
        assert_hostile(path, "claims ");
        make_unstored(path, 2, filters[i], i > 0);
        append_junk(path, 4096);
        assert_hostile(path, "claims 1048576 bytes that the file does not store; 1048576 in one "
                             "file are the most that read as fill values");
    }
    /* Chunks of one byte: libhdf5 needs kilobytes for each. */
    const raw_case bytes = {"", H5T_STD_U8LE, 1 << 20, 1, NULL, 0, 0};
    const raw_case deflated = {"d", H5T_STD_U8LE, 1 << 20, 1, NULL, 0, 0};
    for (int i = 0; i < 4; ++i) {
        write_raw(path, i / 2 ? &deflated : &bytes, i % 2);
        assert_hostile(path, "claims 1048576 chunks, which a file of ");
    }
}

/* A chunk for each byte of a file, and one of them stored: libhdf5 needs 9 microseconds to read one
 * that is not there. */
static void chunks_that_are_not_there(void **state) {
    (void)state;
    const char *path = fixture_path("absent.h5");
    const unsigned char seven = 7;
    const raw_case sparse = {"", H5T_STD_U8LE, 1 << 20, 1, &seven, 1, 0};
    for (int latest = 0; latest < 2; ++latest) {
        write_raw(path, &sparse, latest);
        append_junk(path, 1 << 20);
        assert_int_equal(load_apart(path).status, UF_OK);
    }
    int64_t *values = test_allocate((1 << 20) * sizeof *values);
    uf_shape shape;
    assert_ok(uf_hdf5_read(path, "w", UF_I64, &shape, values, 1 << 20));
    assert_true(values[0] == 7 && values[1] == 0 && values[(1 << 20) - 1] == 0);
    free(values);
}

/* A block behind the end of the file, of a file whose own end is where it should be. */
static void blocks_outside_the_file(void **state) {
    (void)state;
    const char *path = fixture_path("outside.h5");
    const hsize_t extent = 1000;
    const hid_t file = create(path, false);
    fixture_ramp(file, "w", 1, &extent);
    const hid_t id = H5Dopen2(file, "w", H5P_DEFAULT);
    /* Where the block lies and its length, one after the other in the dataset's header. */
    const uint64_t block[] = {H5Dget_offset(id), 4000};
    H5Dclose(id);
    H5Fclose(file);
    size_t size;
    int patched = 0;
    unsigned char *bytes = fixture_read(path, &size);
    for (size_t i = 0; i + sizeof block <= size; ++i) {
        if (memcmp(bytes + i, block, sizeof block) == 0) {
            const uint64_t outside = size - 3999;
            memcpy(bytes + i, &outside, sizeof outside);
            ++patched;
        }
    }
    assert_int_equal(patched, 1);
    fixture_bytes(path, bytes, size);
    free(bytes);
    assert_hostile(path, "is damaged: its 4000 bytes do not lie within the file's ");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_read_as_libhdf5_reads_them),
        cmocka_unit_test(unwritten_chunks_are_the_fill_value),
        cmocka_unit_test(partial_chunks_may_be_unfiltered),
        cmocka_unit_test(masked_filters_are_left_out),
        cmocka_unit_test(chunks_of_another_length),
        cmocka_unit_test(lengths_of_plain_chunks_are_not_used),
        cmocka_unit_test(filters_that_are_not_read),
        cmocka_unit_test(unstored_claims),
        cmocka_unit_test(chunks_that_are_not_there),
        cmocka_unit_test(blocks_outside_the_file),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
