/* arguments.c - see arguments.h. */
#include "attack/arguments.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef TEST_SOURCE_DIR
#error "TEST_SOURCE_DIR is the root of the source tree; CMakeLists.txt defines it"
#endif

#define VALUES(kind) static bool kind##_values(world *w, int index, argument *a)
#define ROW(sort_, label_, ...)                                                                    \
    if (index-- == 0) {                                                                            \
        a->sort = (sort_);                                                                         \
        a->label = (label_);                                                                       \
        __VA_ARGS__;                                                                               \
        return true;                                                                               \
    }
#define SET(member, what) a->value.member = (what)
#define END                                                                                        \
    (void)w;                                                                                       \
    return false

/* One good value and NULL. */
#define OBJECT(kind, good)                                                                         \
    VALUES(kind) {                                                                                 \
        ROW(GOOD, "it", SET(kind, good))                                                           \
        ROW(BAD, "NULL", SET(kind, NULL))                                                          \
        END;                                                                                       \
    }

/* An object for a function that destroys it; NULL is legal. */
#define SPARE(kind, make)                                                                          \
    VALUES(kind) {                                                                                 \
        ROW(GOOD, "a new one", make)                                                               \
        ROW(GOOD, "NULL", SET(kind, NULL))                                                         \
        END;                                                                                       \
    }

/* Where a call puts an object that it makes. */
#define MADE(kind, place)                                                                          \
    VALUES(kind) {                                                                                 \
        ROW(GOOD, "a place", SET(kind, &w->made.place); a->made = (void **)&w->made.place)         \
        ROW(BAD, "NULL", SET(kind, NULL))                                                          \
        END;                                                                                       \
    }

/* Where a call puts plain data. */
#define PLACE(kind) OBJECT(kind, (void *)a->storage.bytes)
#define OPTIONAL_PLACE(kind)                                                                       \
    VALUES(kind) {                                                                                 \
        ROW(GOOD, "a place", SET(kind, (void *)a->storage.bytes))                                  \
        ROW(GOOD, "NULL", SET(kind, NULL))                                                         \
        END;                                                                                       \
    }

#define ENUM(kind, good, last)                                                                     \
    VALUES(kind) {                                                                                 \
        ROW(GOOD, #good, SET(kind, good))                                                          \
        ROW(EITHER, #last, SET(kind, last))                                                        \
        ROW(BAD, "99", SET(kind, 99))                                                              \
        ROW(BAD, "-1", memset(&a->value, 0xff, sizeof a->value))                                   \
        END;                                                                                       \
    }

#define INTEGER(kind, good, outside)                                                               \
    VALUES(kind) {                                                                                 \
        ROW(GOOD, #good, SET(kind, good))                                                          \
        ROW(BAD, "-1", SET(kind, -1))                                                              \
        ROW(BAD, #outside, SET(kind, outside))                                                     \
        ROW(BAD, "the least", SET(kind, sizeof a->value.kind == 4 ? INT32_MIN : INT64_MIN))        \
        ROW(BAD, "the most", SET(kind, sizeof a->value.kind == 4 ? INT32_MAX : INT64_MAX))         \
        END;                                                                                       \
    }

VALUES(none) {
    ROW(GOOD, "nothing", SET(none, 0))
    END;
}

/* ---- structs: a good one, and one field of it after the other with values of its type ---- */

/* A stride's values: those that no memory could have, those that stay inside ours. */
typedef enum field_type {
    SIZE,
    ZEROED_SIZE, /* of a struct that may be zeroed */
    ENUMERATION,
    LOOSE_ENUMERATION,
    INTEGER64,
    STRIDE,
    COUNT,
    REAL,
    POINTER
} field_type;

typedef struct field {
    const char *name;
    size_t offset;
    field_type type;
} field;

#define FIELD(type, name, of)                                                                      \
    { #name, offsetof(type, name), of }
#define PAIR(type, name) FIELD(type, name[0], INTEGER64), FIELD(type, name[1], INTEGER64)

/* `index` counts the values of all fields; false when there are fewer. */
static bool break_field(const field *fields, size_t count, int index, argument *a) {
    static const size_t sizes[] = {0, 8, 97, 1 << 20};
    static const int enumerations[] = {99, -1};
    static const int64_t integers[] = {
        -1, 0, 7, INT64_C(3037000500), INT64_C(1) << 62, INT64_MIN, INT64_MAX};
    static const int64_t strides[] = {-1, 0, 7, INT64_C(1) << 62, INT64_MIN, INT64_MAX};
    static const int32_t counts[] = {-1, INT32_MIN};
    const double reals[] = {-1.0, 0.0, 1e308, (double)INFINITY, (double)-INFINITY, (double)NAN};
    static const void *const null = NULL;
    const struct {
        const void *values;
        size_t size;
        int count;
        argument_sort sort;
    } types[] = {
        [SIZE] = {sizes, sizeof sizes[0], 4, BAD},
        [ZEROED_SIZE] = {sizes + 1, sizeof sizes[0], 3, BAD},
        [ENUMERATION] = {enumerations, sizeof enumerations[0], 2, BAD},
        [LOOSE_ENUMERATION] = {enumerations, sizeof enumerations[0], 2, EITHER},
        [INTEGER64] = {integers, sizeof integers[0], 7, EITHER},
        [STRIDE] = {strides, sizeof strides[0], 6, EITHER},
        [COUNT] = {counts, sizeof counts[0], 2, BAD},
        [REAL] = {reals, sizeof reals[0], 6, EITHER},
        [POINTER] = {&null, sizeof null, 1, EITHER},
    };
    static char label[160];
    for (size_t i = 0; i < count; ++i) {
        if (index < types[fields[i].type].count) {
            const unsigned char *values = types[fields[i].type].values;
            const size_t size = types[fields[i].type].size;
            memcpy(a->storage.bytes + fields[i].offset, values + (size_t)index * size, size);
            a->sort = types[fields[i].type].sort;
            (void)snprintf(label, sizeof label, "%s, value %d", fields[i].name, index);
            a->label = label;
            return true;
        }
        index -= types[fields[i].type].count;
    }
    return false;
}

/* A kind that points to a struct: `fill` makes a good one; NULL is legal where `null_sort` says so.
 */
#define STRUCT(kind, type, null_sort, fill, ...)                                                   \
    VALUES(kind) {                                                                                 \
        static const field fields[] = {__VA_ARGS__};                                               \
        _Static_assert(sizeof(type) <= sizeof a->storage, "a larger storage is needed");           \
        type *object = (type *)(void *)a->storage.bytes;                                           \
        ROW(null_sort, "NULL", SET(kind, NULL))                                                    \
        fill;                                                                                      \
        SET(kind, object);                                                                         \
        ROW(GOOD, "a good one", (void)0)                                                           \
        (void)w;                                                                                   \
        return break_field(fields, sizeof fields / sizeof fields[0], index, a);                    \
    }
#define OPTIONS(kind, type, ...)                                                                   \
    STRUCT(kind, type, GOOD, *object = type##_default(), FIELD(type, struct_size, SIZE),           \
           __VA_ARGS__)

/* ---- context, status ---- */

OBJECT(context, w->context)
SPARE(spare_context, SET(spare_context, world_spare_context(w)))
MADE(context_out, context)
OPTIONS(context_options, uf_context_options, FIELD(uf_context_options, device, ENUMERATION),
        FIELD(uf_context_options, device_index, COUNT), FIELD(uf_context_options, threads, COUNT))
ENUM(device, UF_DEVICE_CPU, UF_DEVICE_CUDA)
OPTIONAL_PLACE(reason_out)
ENUM(status_code, UF_OK, UF_ERROR_INTERNAL)

/* ---- tensors ---- */

VALUES(dtype) {
    ROW(GOOD, "f32", SET(dtype, UF_F32))
    ROW(GOOD, "i64", SET(dtype, UF_I64))
    ROW(GOOD, "f16", SET(dtype, UF_F16))
    ROW(BAD, "99", SET(dtype, 99))
    ROW(BAD, "-1", memset(&a->value, 0xff, sizeof a->value))
    END;
}

VALUES(real_dtype) {
    ROW(GOOD, "f32", SET(real_dtype, UF_F32))
    ROW(GOOD, "f64", SET(real_dtype, UF_F64))
    ROW(BAD, "bf16", SET(real_dtype, UF_BF16))
    ROW(BAD, "i64", SET(real_dtype, UF_I64))
    ROW(BAD, "99", SET(real_dtype, 99))
    END;
}

VALUES(number_dtype) {
    ROW(GOOD, "f32", SET(number_dtype, UF_F32))
    ROW(GOOD, "f64", SET(number_dtype, UF_F64))
    ROW(BAD, "f16", SET(number_dtype, UF_F16))
    ROW(BAD, "99", SET(number_dtype, 99))
    END;
}

static uf_shape shape_of(int32_t rank, int64_t extent) {
    uf_shape shape;
    shape.rank = rank;
    for (int i = 0; i < UF_MAX_RANK; ++i) {
        shape.extent[i] = extent;
    }
    return shape;
}

VALUES(extents) {
    ROW(GOOD, "extents", SET(extents, (const int64_t *)(void *)w->memory[0]))
    ROW(BAD, "NULL", SET(extents, NULL))
    END;
}
INTEGER(rank, 2, 9)

/* Shapes that no tensor can have. */
#define ILLEGAL_SHAPES(kind, out_of)                                                               \
    ROW(BAD, "rank -1", out_of(shape_of(-1, 2)))                                                   \
    ROW(BAD, "rank 9", out_of(shape_of(9, 1)))                                                     \
    ROW(BAD, "rank 2^31 - 1", out_of(shape_of(INT32_MAX, 1)))                                      \
    ROW(BAD, "a negative extent", out_of(shape_of(2, -3)))                                         \
    ROW(BAD, "2^62 twice", out_of(shape_of(2, INT64_C(1) << 62)))                                  \
    ROW(BAD, "2^63 - 1 eight times", out_of(shape_of(8, INT64_MAX)))                               \
    ROW(BAD, "the least extents", out_of(shape_of(4, INT64_MIN)))

VALUES(shape_in) {
    uf_shape *shape = (uf_shape *)(void *)a->storage.bytes;
    SET(shape_in, shape);
    ROW(GOOD, "(2, 3)", *shape = UF_SHAPE(2, 3))
    ROW(BAD, "NULL", SET(shape_in, NULL))
#define STORE(what) *shape = (what)
    ROW(EITHER, "a scalar", *shape = UF_SCALAR)
    ILLEGAL_SHAPES(shape_in, STORE)
    END;
}

VALUES(shape) {
#define SHAPE(what) SET(shape, what)
    ROW(GOOD, "(2, 3)", SHAPE(UF_SHAPE(2, 3)))
    ROW(EITHER, "(0, 3)", SHAPE(UF_SHAPE(0, 3)))
    ROW(EITHER, "3037000500", SHAPE(shape_of(1, INT64_C(3037000500))))
    ROW(EITHER, "2^62", SHAPE(shape_of(1, INT64_C(1) << 62)))
    ILLEGAL_SHAPES(shape, SHAPE)
    END;
}

VALUES(input_shape) {
#define INPUT_SHAPE(what) SET(input_shape, what)
    ROW(GOOD, "(2, 4, 3, 3)", INPUT_SHAPE(UF_SHAPE(2, 4, 3, 3)))
    ROW(GOOD, "3037000500", INPUT_SHAPE(shape_of(1, INT64_C(3037000500))))
    ROW(GOOD, "(2^61, 2, 1, 1)", INPUT_SHAPE(UF_SHAPE(INT64_C(1) << 61, 2, 1, 1)))
    ROW(BAD, "(0, 3)", INPUT_SHAPE(UF_SHAPE(0, 3)))
    ILLEGAL_SHAPES(input_shape, INPUT_SHAPE)
    END;
}

VALUES(image_shape) {
#define IMAGE_SHAPE(what) SET(image_shape, what)
    ROW(GOOD, "(2, 36)", IMAGE_SHAPE(UF_SHAPE(2, 36)))
    ROW(GOOD, "(2, -1)", IMAGE_SHAPE(UF_SHAPE(2, -1)))
    ROW(BAD, "(-1, -1)", IMAGE_SHAPE(UF_SHAPE(-1, -1)))
    ROW(GOOD, "(0, -1)", IMAGE_SHAPE(UF_SHAPE(0, -1)))
    ROW(BAD, "(7, 7)", IMAGE_SHAPE(UF_SHAPE(7, 7)))
    ILLEGAL_SHAPES(image_shape, IMAGE_SHAPE)
    END;
}

VALUES(constant_shape) {
#define CONSTANT_SHAPE(what) SET(constant_shape, what)
    ROW(GOOD, "(2, 3)", CONSTANT_SHAPE(UF_SHAPE(2, 3)))
    ROW(GOOD, "a scalar", CONSTANT_SHAPE(UF_SCALAR))
    ROW(BAD, "(0, 3)", CONSTANT_SHAPE(UF_SHAPE(0, 3)))
    ILLEGAL_SHAPES(constant_shape, CONSTANT_SHAPE)
    END;
}

VALUES(weight_shape) {
#define WEIGHT_SHAPE(what) SET(weight_shape, what)
    ROW(GOOD, "(2, 3)", WEIGHT_SHAPE(UF_SHAPE(2, 3)))
    ROW(GOOD, "(2^28, 2, 1, 1)", WEIGHT_SHAPE(UF_SHAPE(INT64_C(1) << 28, 2, 1, 1)))
    ROW(BAD, "(0, 3)", WEIGHT_SHAPE(UF_SHAPE(0, 3)))
    ROW(BAD, "one axis", WEIGHT_SHAPE(UF_SHAPE(3)))
    ILLEGAL_SHAPES(weight_shape, WEIGHT_SHAPE)
    END;
}
INTEGER(weight_dim, 1, 8)

VALUES(small_shape) { /* nothing that the memory behind it might not have */
#define SMALL_SHAPE(what) SET(small_shape, what)
    ROW(GOOD, "(2, 3)", SMALL_SHAPE(UF_SHAPE(2, 3)))
    ROW(BAD, "2^62", SMALL_SHAPE(shape_of(1, INT64_C(1) << 62)))
    ILLEGAL_SHAPES(small_shape, SMALL_SHAPE)
    END;
}

PLACE(shape_out)
VALUES(characters) {
    ROW(GOOD, "a buffer", SET(characters, (char *)w->memory[1]))
    END; /* a length that is not there cannot be told from one that is */
}

VALUES(capacity) {
    ROW(GOOD, "1000", SET(capacity, 1000))
    ROW(EITHER, "1", SET(capacity, 1))
    ROW(EITHER, "0", SET(capacity, 0))
    END;
}

VALUES(room) {
    ROW(GOOD, "64", SET(room, 64))
    ROW(EITHER, "1", SET(room, 1))
    ROW(EITHER, "0", SET(room, 0))
    END;
}

/* The size of a struct that the library fills: a newer caller has a larger one, an older one a
 * smaller. */
VALUES(result_room) {
    ROW(GOOD, "1024", SET(result_room, 1024))
    ROW(EITHER, "16", SET(result_room, 16))
    ROW(EITHER, "8", SET(result_room, 8))
    ROW(EITHER, "0", SET(result_room, 0))
    END;
}

VALUES(picture_room) {
    ROW(GOOD, "a picture", SET(picture_room, sizeof(uf_picture)))
    ROW(EITHER, "16", SET(picture_room, 16))
    ROW(EITHER, "8", SET(picture_room, 8))
    ROW(EITHER, "0", SET(picture_room, 0))
    END;
}

VALUES(capacity32) {
    ROW(GOOD, "8", SET(capacity32, 8))
    ROW(EITHER, "0", SET(capacity32, 0))
    ROW(BAD, "-1", SET(capacity32, -1))
    ROW(BAD, "the least", SET(capacity32, INT32_MIN))
    END;
}

static uf_tensor *spare_tensor_of(world *w) {
    uf_tensor *tensor = NULL;
    return uf_tensor_create(w->context, UF_F32, UF_SHAPE(3), &tensor) == UF_OK ? tensor : NULL;
}

OBJECT(tensor, w->tensor)
SPARE(spare_tensor, SET(spare_tensor, spare_tensor_of(w)))
MADE(tensor_out, tensor)
VALUES(borrowed_out) {
    a->storage.pointer = w; /* not NULL: a failure must make it so */
    ROW(GOOD, "a place", SET(borrowed_out, (uf_tensor **)&a->storage.pointer);
        a->made = &a->storage.pointer)
    ROW(BAD, "NULL", SET(borrowed_out, NULL))
    END;
}
OBJECT(elements_in, (const void *)w->memory[2])
OBJECT(elements_out, (void *)w->memory[3])
VALUES(elements_or_null) {
    ROW(GOOD, "memory", SET(elements_or_null, w->memory[3]))
    ROW(GOOD, "NULL", SET(elements_or_null, NULL))
    END;
}
INTEGER(count_of_6, 6, 7)

/* ---- names and paths ---- */

static const char *long_text(void) {
    static char text[100000];
    memset(text, 'a', sizeof text - 1);
    return text;
}

/* Texts that name nothing. */
#define NO_NAMES(kind)                                                                             \
    ROW(BAD, "NULL", SET(kind, NULL))                                                              \
    ROW(BAD, "an empty text", SET(kind, ""))                                                       \
    ROW(BAD, "100000 letters", SET(kind, long_text()))
#define KNOWN_NAME(kind, good)                                                                     \
    VALUES(kind) {                                                                                 \
        ROW(GOOD, good, SET(kind, good))                                                           \
        NO_NAMES(kind)                                                                             \
        ROW(BAD, "control characters", SET(kind, "a\nunfurl: \033[2Jb\x7f"))                       \
        ROW(BAD, "bytes that are no UTF-8", SET(kind, "\xff\xfe%s%n"))                             \
        ROW(BAD, "a/../b", SET(kind, "a/../b"))                                                    \
        END;                                                                                       \
    }
#define PATH(kind, good, last_sort, strange)                                                       \
    VALUES(kind) {                                                                                 \
        ROW(GOOD, "a path", SET(kind, good))                                                       \
        NO_NAMES(kind)                                                                             \
        ROW(BAD, "a folder", SET(kind, "."))                                                       \
        ROW(BAD, "no such folder", SET(kind, "no/such/folder/file"))                               \
        ROW(last_sort, "control characters", SET(kind, strange))                                   \
        END;                                                                                       \
    }

VALUES(any_text) {
    ROW(GOOD, "layer", SET(any_text, "layer"))
    ROW(GOOD, "NULL", SET(any_text, NULL))
    ROW(GOOD, "100000 letters", SET(any_text, long_text()))
    ROW(GOOD, "control characters", SET(any_text, "\x01\n\033[2J"))
    END;
}

/* The format takes one int32_t. */
VALUES(path_format) {
    ROW(GOOD, "main.%d", SET(path_format, "main.%d"))
    ROW(GOOD, "NULL", SET(path_format, NULL))
    ROW(GOOD, "no conversion", SET(path_format, "main"))
    ROW(GOOD, "a million digits", SET(path_format, "%01000000d"))
    ROW(GOOD, "100000 letters", SET(path_format, long_text()))
    END;
}

VALUES(store_name) {
    ROW(GOOD, "name", SET(store_name, "name"))
    ROW(BAD, "NULL", SET(store_name, NULL))
    ROW(EITHER, "an empty text", SET(store_name, ""))
    ROW(BAD, "100000 letters", SET(store_name, long_text()))
    ROW(EITHER, "control characters", SET(store_name, "a\nunfurl: \033[2Jb\x7f"))
    END;
}

VALUES(group_name) {
    ROW(GOOD, "/", SET(group_name, "/"))
    ROW(GOOD, "NULL", SET(group_name, NULL))
    ROW(BAD, "no such group", SET(group_name, "nothing"))
    ROW(BAD, "a dataset", SET(group_name, "conv.weight"))
    ROW(BAD, "100000 letters", SET(group_name, long_text()))
    END;
}

VALUES(new_name) {
    ROW(GOOD, "a new name",
        (void)snprintf((char *)a->storage.bytes, sizeof a->storage, "new%d", ++w->names);
        SET(new_name, (const char *)a->storage.bytes))
    NO_NAMES(new_name)
    ROW(EITHER, "control characters", SET(new_name, "b\nunfurl: \033[2Jb\x7f"))
    ROW(EITHER, "bytes that are no UTF-8", SET(new_name, "\xff\xfd%s%n"))
    ROW(EITHER, "a/../b", SET(new_name, "b/../b"))
    END;
}
KNOWN_NAME(open_name, "w")
KNOWN_NAME(weight_name, "conv.weight")
KNOWN_NAME(input_name, "x")
KNOWN_NAME(output_name, "y")
KNOWN_NAME(object_name, "/")
KNOWN_NAME(attribute_name, "batch")
PATH(weights_path, WORLD_WEIGHTS, BAD, "no\nunfurl: \033[2Jfile")
PATH(keras_path, WORLD_KERAS, BAD, "no\nunfurl: \033[2Jfile")
PATH(attribute_path, TEST_SOURCE_DIR "/tests/data/dcgan_trace_open.h5", BAD,
     "no\nunfurl: \033[2Jfile")
PATH(picture_path, WORLD_PICTURE, BAD, "no\nunfurl: \033[2Jfile")
PATH(new_path, "new.file", EITHER, "a\nunfurl: \033[2Jfile")
VALUES(any_path) {
    ROW(GOOD, "a path", SET(any_path, "tuning.txt"))
    ROW(BAD, "NULL", SET(any_path, NULL))
    ROW(EITHER, "100000 letters", SET(any_path, long_text()))
    END;
}

/* ---- stores ---- */

static uf_store *spare_store_of(world *w) {
    uf_store *store = NULL;
    return uf_store_create(w->context, "spare", &store) == UF_OK ? store : NULL;
}

VALUES(any_store) {
    ROW(GOOD, "a store", SET(any_store, w->store))
    ROW(GOOD, "NULL", SET(any_store, NULL))
    END;
}

VALUES(store) {
    ROW(GOOD, "a store", SET(store, w->store))
    ROW(BAD, "NULL", SET(store, NULL))
    ROW(EITHER, "an open store", SET(store, w->open))
    ROW(EITHER, "a store of another context", SET(store, w->foreign))
    END;
}

VALUES(open_store) {
    ROW(GOOD, "an open store", SET(open_store, w->open))
    ROW(BAD, "NULL", SET(open_store, NULL))
    ROW(BAD, "a sealed store", SET(open_store, w->store))
    END;
}

SPARE(spare_store, SET(spare_store, spare_store_of(w)))
MADE(store_out, store)
OPTIONS(store_options, uf_store_options, FIELD(uf_store_options, dtype, ENUMERATION))
PLACE(store_entry_out)
ENUM(role, UF_ROLE_PARAMETER, UF_ROLE_COUNTER)
INTEGER(index, 0, 1000)
INTEGER(first, 0, 1)
INTEGER(io_index, 0, 1000)

VALUES(scope) {
    ROW(GOOD, "a scope",
        SET(scope, uf_at(spare_store_of(w), "layer"))) /* its context destroys the store */
    ROW(EITHER, "a scope without a store", SET(scope, uf_at(NULL, "layer")))
    ROW(EITHER, "too long a scope", SET(scope, uf_at(w->open, long_text())))
    ROW(EITHER, "a scope of a sealed store", SET(scope, uf_at(w->store, "layer")))
    ROW(EITHER, "a scope of another context's store", SET(scope, uf_at(w->foreign, "layer")))
    ROW(EITHER, "control characters", SET(scope, uf_at(w->open, "a\nunfurl: \033[2Jb\x7f")))
    END;
}

/* ---- graphs ---- */

static uf_graph *spare_graph_of(world *w) {
    uf_graph *graph = NULL;
    return uf_graph_create(w->context, &graph) == UF_OK ? graph : NULL;
}

static uf_value no_value(int32_t id) {
    uf_value value;
    memset(&value, 0, sizeof value);
    value.id = id;
    return value;
}

VALUES(graph) {
    ROW(GOOD, "a graph", SET(graph, w->graph))
    ROW(BAD, "NULL", SET(graph, NULL))
    ROW(BAD, "a graph with an error", SET(graph, w->broken))
    END;
}

SPARE(spare_graph, SET(spare_graph, spare_graph_of(w)))
MADE(graph_out, graph)

/* A file that takes any text; open until the process ends. */
static FILE *null_file(void) {
    static FILE *file;
    file = file != NULL ? file : fopen("/dev/null", "w");
    return file;
}

static void ignore_line(void *user, const char *line) {
    (void)user;
    (void)line;
}

OBJECT(text_file, null_file())
OBJECT(line_function, ignore_line)

#define GRAPH_VALUE(kind, good)                                                                    \
    VALUES(kind) {                                                                                 \
        ROW(GOOD, "a value", SET(kind, good))                                                      \
        ROW(BAD, "no value", SET(kind, no_value(0)))                                               \
        ROW(BAD, "number -1", SET(kind, no_value(-1)))                                             \
        ROW(BAD, "number 2^31 - 1", SET(kind, no_value(INT32_MAX)))                                \
        ROW(BAD, "a value of another graph", SET(kind, w->other_value))                            \
        END;                                                                                       \
    }
GRAPH_VALUE(image, w->image)
GRAPH_VALUE(labels, w->labels)
GRAPH_VALUE(sequence, w->sequence)
GRAPH_VALUE(flat, w->flat)
GRAPH_VALUE(filters, w->filters)
GRAPH_VALUE(matrix, w->matrix)

VALUES(biases) {
    ROW(GOOD, "a value", SET(biases, w->biases))
    ROW(GOOD, "none", SET(biases, no_value(0)))
    ROW(BAD, "number -1", SET(biases, no_value(-1)))
    ROW(BAD, "an image", SET(biases, w->image))
    ROW(BAD, "a value of another graph", SET(biases, w->other_value))
    END;
}

VALUES(images_in) {
    uf_value *values = (uf_value *)(void *)a->storage.bytes;
    for (int i = 0; i < 16; ++i) {
        values[i] = w->image;
    }
    SET(images_in, values);
    ROW(GOOD, "values", (void)0)
    ROW(BAD, "NULL", SET(images_in, NULL))
    ROW(BAD, "an invalid one", values[0] = no_value(0))
    ROW(BAD, "one of another graph", values[0] = w->other_value)
    END;
}
INTEGER(image_count, 2, 9)

VALUES(axes_in) {
    int32_t *axes = (int32_t *)(void *)a->storage.bytes;
    memset(axes, 0, 16 * sizeof *axes);
    axes[0] = 3;
    axes[1] = -2;
    SET(axes_in, axes);
    ROW(GOOD, "axes", (void)0)
    ROW(BAD, "NULL", SET(axes_in, NULL))
    ROW(BAD, "4", axes[1] = 4)
    ROW(BAD, "-5", axes[0] = -5)
    ROW(BAD, "the least", axes[0] = INT32_MIN)
    ROW(BAD, "one twice", axes[1] = -1)
    END;
}
INTEGER(axis_count, 2, 9)

VALUES(softmax_axis) {
    ROW(GOOD, "1", SET(softmax_axis, 1))
    ROW(GOOD, "-4", SET(softmax_axis, -4))
    ROW(BAD, "4", SET(softmax_axis, 4))
    ROW(BAD, "-5", SET(softmax_axis, -5))
    ROW(BAD, "the least", SET(softmax_axis, INT32_MIN))
    ROW(BAD, "the most", SET(softmax_axis, INT32_MAX))
    END;
}
VALUES(axis_order) {
    int32_t *axes = (int32_t *)(void *)a->storage.bytes;
    memset(axes, 0, 16 * sizeof *axes);
    axes[0] = 2;
    axes[2] = -1;
    axes[3] = 1;
    SET(axis_order, axes);
    ROW(GOOD, "axes", (void)0)
    ROW(BAD, "NULL", SET(axis_order, NULL))
    ROW(BAD, "4", axes[1] = 4)
    ROW(BAD, "the least", axes[0] = INT32_MIN)
    ROW(BAD, "one twice", axes[1] = -1)
    END;
}
INTEGER(axis_order_count, 4, 9)

VALUES(axis) {
    ROW(GOOD, "1", SET(axis, 1))
    ROW(EITHER, "-1", SET(axis, -1))
    ROW(BAD, "4", SET(axis, 4))
    ROW(BAD, "-5", SET(axis, -5))
    ROW(BAD, "the least", SET(axis, INT32_MIN))
    ROW(BAD, "the most", SET(axis, INT32_MAX))
    END;
}

VALUES(slice_start) {
    ROW(GOOD, "1", SET(slice_start, 1))
    ROW(GOOD, "the least", SET(slice_start, INT64_MIN))
    ROW(BAD, "4", SET(slice_start, 4))
    ROW(BAD, "the most", SET(slice_start, INT64_MAX))
    END;
}

VALUES(slice_stop) {
    ROW(GOOD, "-1", SET(slice_stop, -1))
    ROW(GOOD, "the most", SET(slice_stop, INT64_MAX))
    ROW(BAD, "0", SET(slice_stop, 0))
    ROW(BAD, "the least", SET(slice_stop, INT64_MIN))
    END;
}
INTEGER(shuffle_factor, 1, 0)

VALUES(channels) {
    ROW(GOOD, "4", SET(channels, 4))
    ROW(BAD, "0", SET(channels, 0))
    ROW(BAD, "-1", SET(channels, -1))
    ROW(EITHER, "2^40", SET(channels, INT64_C(1) << 40))
    ROW(BAD, "2^62", SET(channels, INT64_C(1) << 62))
    ROW(BAD, "the least", SET(channels, INT64_MIN))
    ROW(BAD, "the most", SET(channels, INT64_MAX))
    END;
}

VALUES(flag) {
    ROW(GOOD, "false", SET(flag, false))
    ROW(GOOD, "true", SET(flag, true))
    END;
}

#define NUMBERS(kind, sort)                                                                        \
    VALUES(kind) {                                                                                 \
        ROW(GOOD, "0.5", SET(kind, 0.5))                                                           \
        ROW(EITHER, "-1", SET(kind, -1.0))                                                         \
        ROW(EITHER, "1e308", SET(kind, 1e308))                                                     \
        ROW(sort, "infinity", SET(kind, (double)INFINITY))                                         \
        ROW(sort, "-infinity", SET(kind, (double)-INFINITY))                                       \
        ROW(sort, "NaN", SET(kind, (double)NAN))                                                   \
        END;                                                                                       \
    }
NUMBERS(number, EITHER)
NUMBERS(finite, BAD)
NUMBERS(rate, BAD)
VALUES(random_step) {
    ROW(GOOD, "3", SET(random_step, 3))
    ROW(GOOD, "the most", SET(random_step, INT64_MAX - 1))
    ROW(BAD, "-1", SET(random_step, -1))
    ROW(BAD, "the least", SET(random_step, INT64_MIN))
    END;
}
ENUM(pad_mode, UF_PAD_ZERO, UF_PAD_REFLECT)
ENUM(loss_kind, UF_LOSS_BCE_WITH_LOGITS, UF_LOSS_KL_NORMAL)
INTEGER(amount, 1, INT64_C(1) << 62)
INTEGER(upscale_factor, 2, 3)

OPTIONS(upsample_options, uf_upsample_options, PAIR(uf_upsample_options, size),
        FIELD(uf_upsample_options, scale[0], REAL), FIELD(uf_upsample_options, scale[1], REAL))
OPTIONS(max_pool_options, uf_max_pool2d_options, PAIR(uf_max_pool2d_options, kernel),
        PAIR(uf_max_pool2d_options, stride), PAIR(uf_max_pool2d_options, padding),
        PAIR(uf_max_pool2d_options, dilation))
OPTIONS(avg_pool_options, uf_avg_pool2d_options, PAIR(uf_avg_pool2d_options, kernel),
        PAIR(uf_avg_pool2d_options, stride), PAIR(uf_avg_pool2d_options, padding))
OPTIONS(conv_transpose_options, uf_conv_transpose2d_options,
        PAIR(uf_conv_transpose2d_options, kernel), PAIR(uf_conv_transpose2d_options, stride),
        PAIR(uf_conv_transpose2d_options, padding),
        PAIR(uf_conv_transpose2d_options, output_padding),
        PAIR(uf_conv_transpose2d_options, dilation),
        FIELD(uf_conv_transpose2d_options, groups, INTEGER64))
OPTIONS(conv_options, uf_conv2d_options, PAIR(uf_conv2d_options, kernel),
        PAIR(uf_conv2d_options, stride), PAIR(uf_conv2d_options, padding),
        PAIR(uf_conv2d_options, dilation), FIELD(uf_conv2d_options, groups, INTEGER64))
OPTIONS(loss_options, uf_loss_options, FIELD(uf_loss_options, reduction, ENUMERATION),
        FIELD(uf_loss_options, beta, REAL))
OPTIONS(conv_transpose1d_options, uf_conv_transpose1d_options,
        FIELD(uf_conv_transpose1d_options, kernel, INTEGER64),
        FIELD(uf_conv_transpose1d_options, stride, INTEGER64),
        FIELD(uf_conv_transpose1d_options, padding, INTEGER64),
        FIELD(uf_conv_transpose1d_options, output_padding, INTEGER64),
        FIELD(uf_conv_transpose1d_options, dilation, INTEGER64),
        FIELD(uf_conv_transpose1d_options, groups, INTEGER64))
OPTIONS(conv1d_options, uf_conv1d_options, FIELD(uf_conv1d_options, kernel, INTEGER64),
        FIELD(uf_conv1d_options, stride, INTEGER64), FIELD(uf_conv1d_options, padding, INTEGER64),
        FIELD(uf_conv1d_options, dilation, INTEGER64), FIELD(uf_conv1d_options, groups, INTEGER64))
OPTIONS(batch_norm_options, uf_batch_norm2d_options, FIELD(uf_batch_norm2d_options, eps, REAL),
        FIELD(uf_batch_norm2d_options, momentum, REAL))
OPTIONS(instance_norm_options, uf_instance_norm_options, FIELD(uf_instance_norm_options, eps, REAL),
        FIELD(uf_instance_norm_options, momentum, REAL))
OPTIONS(group_norm_options, uf_group_norm_options, FIELD(uf_group_norm_options, eps, REAL))
OPTIONS(layer_norm_options, uf_layer_norm_options, FIELD(uf_layer_norm_options, eps, REAL))
OPTIONS(penalty_options, uf_gradient_penalty_options,
        FIELD(uf_gradient_penalty_options, kind, ENUMERATION),
        FIELD(uf_gradient_penalty_options, weight, REAL))

static uf_status custom_forward(void *user, const uf_custom_call *call) {
    (void)user;
    (void)call;
    return UF_OK;
}

static void fill_custom(uf_custom_definition *object) {
    *object = uf_custom_definition_default();
    object->name = "custom";
    object->forward = custom_forward;
}

STRUCT(custom_definition, uf_custom_definition, BAD, fill_custom(object),
       FIELD(uf_custom_definition, struct_size, SIZE))

/* ---- programs ---- */

static uf_program *spare_program_of(world *w) {
    uf_program *program = NULL;
    return uf_program_compile(w->graph, NULL, &program) == UF_OK ? program : NULL;
}

OBJECT(program, w->program)
SPARE(spare_program, SET(spare_program, spare_program_of(w)))
MADE(program_out, program)

VALUES(profile_runs) {
    ROW(GOOD, "1", SET(profile_runs, 1))
    ROW(BAD, "0", SET(profile_runs, 0))
    ROW(BAD, "the least", SET(profile_runs, INT32_MIN))
    END;
}

static uf_profile_row *spare_profile_of(world *w) {
    uf_profile_row *rows = NULL;
    int64_t count;
    return uf_program_profile(w->program, 1, &rows, &count) == UF_OK ? rows : NULL;
}

MADE(profile_out, profile)
SPARE(spare_profile, SET(spare_profile, spare_profile_of(w)))
PLACE(nonfinite_out)
PLACE(numbers_out)
PLACE(integer_out)
PLACE(integer32_out)
PLACE(size_out)
PLACE(flag_out)

/* Options of a training program, with all that they point to. */
typedef struct full_options {
    uf_program_options options;
    uf_pass pass;
    uf_value losses[2], inputs[1];
    double loss_weights[2];
    uf_store *stores[1];
    uf_optimizer *optimizers[1];
    uf_ema *emas[1];
    uf_input_shape input_shape;
    uf_binding binding;
    uf_scope_mode scope_mode;
} full_options;

static void fill_options(world *w, full_options *all) {
    memset(all, 0, sizeof *all);
    all->pass = uf_pass_default();
    all->losses[0] = w->loss;
    all->loss_weights[0] = 0.5;
    all->inputs[0] = w->image;
    all->stores[0] = w->store;
    all->optimizers[0] = w->optimizer;
    all->pass.losses = all->losses;
    all->pass.loss_weights = all->loss_weights;
    all->pass.inputs = all->inputs;
    all->pass.stores = all->stores;
    all->pass.optimizers = all->optimizers;
    all->emas[0] = w->ema;
    all->pass.emas = all->emas;
    all->pass.ema_count = 1;
    all->pass.loss_count = all->pass.input_count = all->pass.store_count =
        all->pass.optimizer_count = 1;
    all->input_shape.input = "x";
    all->input_shape.shape = UF_SHAPE(3, 4, 3, 3);
    all->binding.store = all->binding.with = w->store;
    all->scope_mode.scope = uf_at(w->store, "norm");
    all->scope_mode.mode = UF_EVAL;
    all->options = uf_program_options_default();
    all->options.passes = &all->pass;
    all->options.input_shapes = &all->input_shape;
    all->options.bindings = &all->binding;
    all->options.scope_modes = &all->scope_mode;
    all->options.pass_count = all->options.input_shape_count = 1;
    all->options.binding_count = all->options.scope_mode_count = 1;
}

#define OPTION(member, of) FIELD(full_options, options.member, of)
#define PASS(member, of) FIELD(full_options, pass.member, of)
VALUES(program_options) {
    static const field fields[] = {OPTION(struct_size, SIZE),
                                   OPTION(dtype, ENUMERATION),
                                   OPTION(math, ENUMERATION),
                                   OPTION(mode, ENUMERATION),
                                   OPTION(plan, ENUMERATION),
                                   OPTION(input_shapes, POINTER),
                                   OPTION(input_shape_count, COUNT),
                                   OPTION(bindings, POINTER),
                                   OPTION(binding_count, COUNT),
                                   OPTION(scope_modes, POINTER),
                                   OPTION(scope_mode_count, COUNT),
                                   OPTION(passes, POINTER),
                                   OPTION(pass_count, COUNT),
                                   PASS(struct_size, ZEROED_SIZE),
                                   PASS(losses, POINTER),
                                   PASS(loss_count, COUNT),
                                   PASS(stores, POINTER),
                                   PASS(store_count, COUNT),
                                   PASS(optimizers, POINTER),
                                   PASS(optimizer_count, COUNT),
                                   PASS(inputs, POINTER),
                                   PASS(input_count, COUNT),
                                   PASS(loss_weights, POINTER),
                                   PASS(clip_norm, REAL),
                                   PASS(clip_value, REAL),
                                   PASS(emas, POINTER),
                                   PASS(ema_count, COUNT),
                                   FIELD(full_options, emas[0], POINTER),
                                   FIELD(full_options, loss_weights[0], REAL),
                                   FIELD(full_options, stores[0], POINTER),
                                   FIELD(full_options, optimizers[0], POINTER),
                                   FIELD(full_options, input_shape.input, POINTER),
                                   FIELD(full_options, binding.store, POINTER),
                                   FIELD(full_options, binding.with, POINTER),
                                   FIELD(full_options, scope_mode.scope.store, POINTER),
                                   FIELD(full_options, scope_mode.mode, ENUMERATION)};
    _Static_assert(sizeof(full_options) <= sizeof a->storage, "a larger storage is needed");
    full_options *all = (full_options *)(void *)a->storage.bytes;
    ROW(GOOD, "NULL", SET(program_options, NULL))
    fill_options(w, all);
    SET(program_options, &all->options);
    ROW(GOOD, "a training program", (void)0)
    ROW(BAD, "no loss", all->losses[0] = no_value(0))
    ROW(BAD, "a loss of another graph", all->losses[0] = w->other_value)
    ROW(BAD, "a loss that is an image", all->losses[0] = w->image)
    ROW(BAD, "a gradient of nothing", all->inputs[0] = no_value(0))
    ROW(BAD, "a gradient of another graph's value", all->inputs[0] = w->other_value)
    ROW(BAD, "a store of another context", all->stores[0] = w->foreign)
    ROW(EITHER, "a store without a part in it", all->stores[0] = w->open)
    ROW(BAD, "a binding to another context", all->binding.with = w->foreign)
    ROW(BAD, "a binding to another store", all->binding.with = w->open)
    ROW(EITHER, "a binding of another store", all->binding.store = w->open)
    ROW(BAD, "no such input", all->input_shape.input = "z")
    ROW(BAD, "an input of rank 9", all->input_shape.shape = shape_of(9, 1))
    ROW(BAD, "an input of rank -1", all->input_shape.shape = shape_of(-1, 1))
    ROW(BAD, "an input of 2^62", all->input_shape.shape = UF_SHAPE(INT64_C(1) << 60, 4, 1, 1))
    return break_field(fields, sizeof fields / sizeof fields[0], index, a);
}

/* ---- files ---- */

OPTIONS(load_options, uf_weights_load_options,
        FIELD(uf_weights_load_options, strip_prefix_count, COUNT))

/* Options with a mapping, and what it points to: all of it lies in the argument's storage. */
typedef struct keras_call {
    uf_weights_load_options options;
    uf_keras_mapping mapping;
    uf_keras_layer layers[2];
} keras_call;

VALUES(keras_options) {
    static const field fields[] = {FIELD(keras_call, options.struct_size, SIZE),
                                   FIELD(keras_call, options.keras, POINTER),
                                   FIELD(keras_call, mapping.struct_size, SIZE),
                                   FIELD(keras_call, mapping.layer_count, COUNT),
                                   FIELD(keras_call, layers[0].in_image[0], INTEGER64),
                                   FIELD(keras_call, layers[0].in_image[2], INTEGER64),
                                   FIELD(keras_call, layers[1].in_image[1], INTEGER64),
                                   FIELD(keras_call, layers[0].out_image[0], INTEGER64),
                                   FIELD(keras_call, layers[0].out_image[1], INTEGER64),
                                   FIELD(keras_call, layers[1].out_image[2], INTEGER64)};
    _Static_assert(sizeof(keras_call) <= sizeof a->storage, "a larger storage is needed");
    keras_call *call = (keras_call *)(void *)a->storage.bytes;
    call->options = uf_weights_load_options_default();
    call->options.keras = &call->mapping;
    call->mapping = uf_keras_mapping_default();
    call->mapping.layers = call->layers;
    call->mapping.layer_count = 2;
    memset(call->layers, 0, sizeof call->layers);
    call->layers[0].layer = call->layers[0].prefix = "conv";
    call->layers[1].layer = call->layers[1].prefix = "norm";
    SET(keras_options, &call->options);
    ROW(GOOD, "a good one", (void)0)
    ROW(GOOD, "a rule alone", call->mapping.layer_count = 0; call->mapping.prefix = "")
    ROW(BAD, "no rows and no rule", call->mapping.layer_count = 0)
    ROW(BAD, "layers NULL", call->mapping.layers = NULL)
    ROW(BAD, "layer_size 0", call->mapping.layer_size = 0)
    ROW(BAD, "layer_size 8", call->mapping.layer_size = 8)
    ROW(BAD, "layer_size 97", call->mapping.layer_size = 97)
    ROW(BAD, "a rule of 100000 letters", call->mapping.layer_count = 1;
        call->mapping.prefix = long_text())
    ROW(BAD, "a prefix of 100000 letters", call->layers[1].prefix = long_text())
    ROW(BAD, "a prefix of control characters", call->layers[1].prefix = "a\n\033[2J")
    ROW(BAD, "no prefix", call->layers[1].prefix = NULL)
    ROW(BAD, "one prefix twice", call->layers[1].prefix = "conv")
    ROW(BAD, "a layer of 100000 letters", call->layers[1].layer = long_text())
    ROW(BAD, "a layer of control characters", call->layers[1].layer = "a\n\033[2J")
    ROW(BAD, "no layer", call->layers[1].layer = NULL)
    ROW(BAD, "one layer twice", call->layers[1].layer = "conv")
    (void)w;
    return break_field(fields, sizeof fields / sizeof fields[0], index, a);
}
OPTIONS(save_options, uf_weights_save_options, FIELD(uf_weights_save_options, format, ENUMERATION),
        FIELD(uf_weights_save_options, metadata_count, COUNT))
OPTIONS(convert_options, uf_weights_convert_options,
        FIELD(uf_weights_convert_options, format, ENUMERATION),
        FIELD(uf_weights_convert_options, names, ENUMERATION),
        FIELD(uf_weights_convert_options, dtype, LOOSE_ENUMERATION),
        FIELD(uf_weights_convert_options, gzip_level, COUNT))
OPTIONS(open_options, uf_weights_open_options, FIELD(uf_weights_open_options, group, POINTER))
ENUM(weights_format, UF_WEIGHTS_HDF5, UF_WEIGHTS_SAFETENSORS)

static uf_weights_file *weights_file_of(void) {
    uf_weights_file *file;
    return uf_weights_open(WORLD_TENSORS, NULL, &file) == UF_OK ? file : NULL;
}
OBJECT(weights_file, w->made.weights = weights_file_of())
SPARE(spare_weights_file, SET(spare_weights_file, weights_file_of()))
MADE(weights_file_out, weights)
INTEGER(weights_index, 0, 1000)
PLACE(weights_entry_out)
PLACE(text_out)

PATH(checkpoint_path, WORLD_CHECKPOINT, BAD, "no\nunfurl: \033[2Jfile")

/* The parts of a world's checkpoint, as its file has them. */
static const uf_checkpoint_part *parts_of(world *w, argument *a, uf_store *store) {
    uf_checkpoint_part *parts = (void *)a->storage.bytes;
    parts[0] = uf_checkpoint_store("net", store);
    parts[1] = uf_checkpoint_optimizer("net", w->optimizer);
    parts[2] = uf_checkpoint_program("net", w->program);
    parts[3] = uf_checkpoint_ema("net", w->ema);
    return parts;
}

static const uf_checkpoint_part *odd_part(world *w, argument *a, int kind, const char *name) {
    uf_checkpoint_part *parts = (void *)a->storage.bytes;
    parts_of(w, a, w->store);
    parts[1] = uf_checkpoint_part_of((uf_checkpoint_kind)kind, name, w->memory[0], -1);
    return parts;
}

VALUES(checkpoint_parts) {
    ROW(GOOD, "a store, its optimizer, a program and an average",
        SET(checkpoint_parts, parts_of(w, a, w->store)))
    ROW(BAD, "NULL", SET(checkpoint_parts, NULL))
    ROW(BAD, "no store", SET(checkpoint_parts, parts_of(w, a, NULL)))
    ROW(BAD, "no name", SET(checkpoint_parts, odd_part(w, a, UF_CHECKPOINT_F64, NULL)))
    ROW(BAD, "-1 numbers", SET(checkpoint_parts, odd_part(w, a, UF_CHECKPOINT_F64, "n")))
    ROW(BAD, "-1 characters", SET(checkpoint_parts, odd_part(w, a, UF_CHECKPOINT_TEXT, "t")))
    ROW(BAD, "a long name", SET(checkpoint_parts, odd_part(w, a, UF_CHECKPOINT_I64, long_text())))
    ROW(BAD, "kind 99", SET(checkpoint_parts, odd_part(w, a, 99, "k")))
    ROW(BAD, "kind -1", SET(checkpoint_parts, odd_part(w, a, -1, "k")))
    END;
}
INTEGER(checkpoint_count, 4, 0)
VALUES(checkpoint_room) {
    ROW(GOOD, "a part", SET(checkpoint_room, sizeof(uf_checkpoint_part)))
    ROW(BAD, "16", SET(checkpoint_room, 16))
    ROW(BAD, "0", SET(checkpoint_room, 0))
    END;
}
OPTIONS(checkpoint_options, uf_checkpoint_options, FIELD(uf_checkpoint_options, gzip_level, COUNT))

VALUES(entries_out) {
    ROW(GOOD, "a place", SET(entries_out, &w->made.entries); a->made = (void **)&w->made.entries)
    ROW(BAD, "NULL", SET(entries_out, NULL))
    END;
}

static uf_hdf5_entry *spare_entries_of(void) {
    uf_hdf5_entry *entries = NULL;
    int64_t count;
    return uf_hdf5_list(WORLD_WEIGHTS, NULL, &entries, &count) == UF_OK ? entries : NULL;
}
SPARE(spare_entries, SET(spare_entries, spare_entries_of()))

VALUES(extent) {
    ROW(GOOD, "3", SET(extent, 3))
    ROW(EITHER, "0", SET(extent, 0))
    ROW(EITHER, "-1", SET(extent, -1))
    ROW(EITHER, "2^40", SET(extent, INT64_C(1) << 40))
    ROW(EITHER, "2^62", SET(extent, INT64_C(1) << 62))
    ROW(EITHER, "the least", SET(extent, INT64_MIN))
    ROW(EITHER, "the most", SET(extent, INT64_MAX))
    END;
}
INTEGER(picture_channels, 3, 5)
INTEGER(picture_depth, 8, 9)
OBJECT(picture_out, &w->made.picture)

/* Made in storage that the call sees, not in the world: what it frees is not freed again. */
static void fill_picture(uf_picture *picture) {
    if (uf_picture_create(2, 2, 3, 8, picture) != UF_OK) {
        abort();
    }
}
SPARE(spare_picture, fill_picture((uf_picture *)(void *)a->storage.bytes);
      SET(spare_picture, (uf_picture *)(void *)a->storage.bytes))

STRUCT(
    picture_in, uf_picture, BAD,
    if (w->made.picture.samples == NULL) {
        fill_picture(&w->made.picture);
        memset(w->made.picture.samples, 9, (size_t)(2 * 2 * 3));
    } memcpy(object, &w->made.picture, sizeof *object),
    FIELD(uf_picture, struct_size, ZEROED_SIZE), FIELD(uf_picture, samples, POINTER),
    FIELD(uf_picture, channels, COUNT), FIELD(uf_picture, depth, COUNT),
    FIELD(uf_picture, gamma, REAL), FIELD(uf_picture, srgb_intent, LOOSE_ENUMERATION),
    FIELD(uf_picture, chromaticities[0], REAL))

STRUCT(picture_head, uf_picture, BAD, *object = uf_picture_default();
       object->width = object->height = 2; object->channels = 3;
       object->depth = 8, FIELD(uf_picture, struct_size, ZEROED_SIZE),
       FIELD(uf_picture, width, INTEGER64), FIELD(uf_picture, height, INTEGER64),
       FIELD(uf_picture, channels, COUNT), FIELD(uf_picture, depth, COUNT),
       FIELD(uf_picture, gamma, REAL))

OPTIONS(png_read_options, uf_png_read_options, FIELD(uf_png_read_options, max_pixels, INTEGER64))
OPTIONS(png_write_options, uf_png_write_options, FIELD(uf_png_write_options, threads, COUNT))

/* A writer of two rows of six bytes; it has got them with `full`. */
static uf_png_writer *png_writer_of(bool full) {
    uf_picture head = uf_picture_default();
    uf_png_writer *writer;
    head.width = head.height = 2;
    head.channels = 3;
    head.depth = 8;
    if (uf_png_writer_create("written.png", &head, NULL, &writer) != UF_OK ||
        (full && uf_png_writer_rows(writer, "twelve bytes", 2) != UF_OK)) {
        abort();
    }
    return writer;
}
OBJECT(png_writer, w->made.writer = png_writer_of(false))
OBJECT(full_png_writer, w->made.writer = png_writer_of(true))
SPARE(spare_png_writer, SET(spare_png_writer, png_writer_of(false)))
MADE(png_writer_out, writer)
INTEGER(picture_rows, 2, 3)

ENUM(picture_format, UF_PICTURE_PNG, UF_PICTURE_JPEG)
OPTIONS(picture_read_options, uf_picture_read_options,
        FIELD(uf_picture_read_options, max_pixels, INTEGER64))
OPTIONS(picture_write_options, uf_picture_write_options,
        FIELD(uf_picture_write_options, format, ENUMERATION),
        FIELD(uf_picture_write_options, quality, COUNT),
        FIELD(uf_picture_write_options, threads, COUNT))

/* The same of a writer of either format. */
static uf_picture_writer *picture_writer_of(bool full) {
    uf_picture head = uf_picture_default();
    uf_picture_writer *writer;
    head.width = head.height = 2;
    head.channels = 3;
    head.depth = 8;
    if (uf_picture_writer_create("written.png", &head, NULL, &writer) != UF_OK ||
        (full && uf_picture_writer_rows(writer, "twelve bytes", 2) != UF_OK)) {
        abort();
    }
    return writer;
}
OBJECT(picture_writer, w->made.picture_writer = picture_writer_of(false))
OBJECT(full_picture_writer, w->made.picture_writer = picture_writer_of(true))
SPARE(spare_picture_writer, SET(spare_picture_writer, picture_writer_of(false)))
MADE(picture_writer_out, picture_writer)

/* ---- tiles ---- */

static uf_status read_tile(void *user, const uf_tile_area *area, void *values) {
    (void)user;
    memset(values, 0, (size_t)(2 * 4 * area->height * area->width) * sizeof(float));
    return UF_OK;
}

static uf_status write_tile(void *user, const uf_tile_area *area, const void *values) {
    (void)user, (void)area, (void)values;
    return UF_OK;
}

STRUCT(tiles_options, uf_tiles_options, BAD, *object = uf_tiles_options_default();
       object->read = read_tile;
       object->write = write_tile, FIELD(uf_tiles_options, struct_size, SIZE),
       FIELD(uf_tiles_options, read, POINTER), FIELD(uf_tiles_options, write, POINTER),
       FIELD(uf_tiles_options, tile, INTEGER64), FIELD(uf_tiles_options, shape.rank, COUNT))
PLACE(tiles_plan_out)

/* ---- training ---- */

ENUM(nonlinearity, UF_NONLINEARITY_LINEAR, UF_NONLINEARITY_SELU)
OPTIONS(kaiming_options, uf_kaiming_options, FIELD(uf_kaiming_options, a, REAL),
        FIELD(uf_kaiming_options, fan, ENUMERATION),
        FIELD(uf_kaiming_options, nonlinearity, ENUMERATION))
OPTIONS(adam_options, uf_adam_options, FIELD(uf_adam_options, lr, REAL),
        FIELD(uf_adam_options, beta1, REAL), FIELD(uf_adam_options, beta2, REAL),
        FIELD(uf_adam_options, eps, REAL), FIELD(uf_adam_options, weight_decay, REAL))
OPTIONS(sgd_options, uf_sgd_options, FIELD(uf_sgd_options, lr, REAL),
        FIELD(uf_sgd_options, momentum, REAL), FIELD(uf_sgd_options, dampening, REAL),
        FIELD(uf_sgd_options, weight_decay, REAL))

OPTIONS(rmsprop_options, uf_rmsprop_options, FIELD(uf_rmsprop_options, lr, REAL),
        FIELD(uf_rmsprop_options, alpha, REAL), FIELD(uf_rmsprop_options, eps, REAL),
        FIELD(uf_rmsprop_options, weight_decay, REAL), FIELD(uf_rmsprop_options, momentum, REAL))
VALUES(trained_scope) {
    ROW(GOOD, "the root", SET(trained_scope, uf_at(w->store, "")))
    ROW(BAD, "a scope without a store", SET(trained_scope, uf_at(NULL, "")))
    ROW(BAD, "too long a scope", SET(trained_scope, uf_at(w->store, long_text())))
    ROW(BAD, "no such scope", SET(trained_scope, uf_at(w->store, "a\nunfurl: \033[2Jb\x7f")))
    ROW(BAD, "a scope of another store", SET(trained_scope, uf_at(w->foreign, "")))
    END;
}
OPTIONS(group_options, uf_optimizer_group_options,
        FIELD(uf_optimizer_group_options, lr_factor, REAL),
        FIELD(uf_optimizer_group_options, weight_decay, REAL))
OPTIONS(ema_options, uf_ema_options, FIELD(uf_ema_options, decay, REAL))
VALUES(average) {
    ROW(GOOD, "a copy", SET(average, w->average))
    ROW(BAD, "NULL", SET(average, NULL))
    ROW(BAD, "the store itself", SET(average, w->store))
    ROW(BAD, "a store with other names", SET(average, w->open))
    ROW(BAD, "a store of another context", SET(average, w->foreign))
    END;
}
VALUES(decay) {
    ROW(GOOD, "0.5", SET(decay, 0.5))
    ROW(GOOD, "0", SET(decay, 0.0))
    ROW(BAD, "-1", SET(decay, -1.0))
    ROW(BAD, "2", SET(decay, 2.0))
    ROW(BAD, "infinity", SET(decay, (double)INFINITY))
    ROW(BAD, "NaN", SET(decay, (double)NAN))
    END;
}
static uf_ema *spare_ema_of(world *w) {
    uf_ema *ema = NULL;
    return uf_ema_create(w->store, w->average, NULL, &ema) == UF_OK ? ema : NULL;
}
OBJECT(ema, w->ema)
SPARE(spare_ema, SET(spare_ema, spare_ema_of(w)))
MADE(ema_out, ema)
OPTIONS(schedule, uf_schedule, FIELD(uf_schedule, kind, ENUMERATION),
        FIELD(uf_schedule, rate, REAL), FIELD(uf_schedule, factor, REAL),
        FIELD(uf_schedule, minimum, REAL), FIELD(uf_schedule, period, INTEGER64),
        FIELD(uf_schedule, warmup, INTEGER64))

static uf_optimizer *spare_optimizer_of(world *w) {
    uf_optimizer *optimizer = NULL;
    return uf_optimizer_create_adam(w->store, NULL, &optimizer) == UF_OK ? optimizer : NULL;
}
OBJECT(optimizer, w->optimizer)
SPARE(spare_optimizer, SET(spare_optimizer, spare_optimizer_of(w)))
MADE(optimizer_out, optimizer)

STRUCT(gradcheck_options, uf_gradcheck_options, GOOD, *object = uf_gradcheck_options_default();
       object->projections = 1, FIELD(uf_gradcheck_options, struct_size, SIZE),
       FIELD(uf_gradcheck_options, eps, REAL), FIELD(uf_gradcheck_options, atol, REAL),
       FIELD(uf_gradcheck_options, rtol, REAL), FIELD(uf_gradcheck_options, mode, ENUMERATION),
       FIELD(uf_gradcheck_options, projections, COUNT),
       FIELD(uf_gradcheck_options, input_count, COUNT),
       FIELD(uf_gradcheck_options, scope_mode_count, COUNT))
PLACE(gradcheck_out)

/* ---- ops ---- */

#define VIEW(type, view)                                                                           \
    FIELD(type, view.data, POINTER), FIELD(type, view.dtype, LOOSE_ENUMERATION),                   \
        FIELD(type, view.extent[0], INTEGER64), FIELD(type, view.extent[1], INTEGER64),            \
        FIELD(type, view.extent[2], INTEGER64), FIELD(type, view.extent[3], INTEGER64),            \
        FIELD(type, view.stride[0], STRIDE), FIELD(type, view.stride[1], STRIDE),                  \
        FIELD(type, view.stride[2], STRIDE), FIELD(type, view.stride[3], STRIDE)

static uf_view image_view(world *w, int number) {
    return uf_view_nchw(w->memory[number], UF_F32, 2, 4, 3, 3);
}

static uf_view channel_view(world *w, int number, uf_dtype dtype) {
    return uf_view_nchw(w->memory[number] + WORLD_MEMORY / 2, dtype, 1, 4, 1, 1);
}

static void fill_conv(world *w, uf_conv2d_args *args) {
    *args = uf_conv2d_args_default();
    args->params.padding[0] = args->params.padding[1] = 1;
    args->input = image_view(w, 0);
    args->output = image_view(w, 1);
    args->grad_input = image_view(w, 2);
    args->grad_output = image_view(w, 3);
    args->weight = uf_view_nchw(w->memory[4], UF_F32, 4, 4, 3, 3);
    args->grad_weight = uf_view_nchw(w->memory[5], UF_F32, 4, 4, 3, 3);
    args->bias = channel_view(w, 4, UF_F32);
    args->grad_bias = channel_view(w, 5, UF_F32);
    args->workspace = w->workspace;
    args->workspace_size = sizeof w->workspace;
}

STRUCT(conv_args, uf_conv2d_args, BAD, fill_conv(w, object),
       FIELD(uf_conv2d_args, struct_size, SIZE), FIELD(uf_conv2d_args, mode, ENUMERATION),
       FIELD(uf_conv2d_args, math, ENUMERATION),
       FIELD(uf_conv2d_args, activation.kind, LOOSE_ENUMERATION),
       FIELD(uf_conv2d_args, workspace, POINTER), PAIR(uf_conv2d_args, params.stride),
       PAIR(uf_conv2d_args, params.padding), PAIR(uf_conv2d_args, params.output_padding),
       PAIR(uf_conv2d_args, params.dilation), FIELD(uf_conv2d_args, params.groups, INTEGER64),
       VIEW(uf_conv2d_args, input), VIEW(uf_conv2d_args, weight), VIEW(uf_conv2d_args, bias),
       VIEW(uf_conv2d_args, output), VIEW(uf_conv2d_args, grad_input),
       VIEW(uf_conv2d_args, grad_weight), VIEW(uf_conv2d_args, grad_bias),
       VIEW(uf_conv2d_args, grad_output))

static void fill_activation(world *w, uf_activation_args *args) {
    *args = uf_activation_args_default();
    args->activation.kind = UF_ACTIVATION_LEAKY_RELU;
    args->input = image_view(w, 0);
    args->output = image_view(w, 1);
    args->grad_input = image_view(w, 2);
    args->grad_output = image_view(w, 3);
}
STRUCT(activation_args, uf_activation_args, BAD, fill_activation(w, object),
       FIELD(uf_activation_args, struct_size, SIZE),
       FIELD(uf_activation_args, activation.kind, ENUMERATION),
       FIELD(uf_activation_args, activation.parameter, REAL),
       FIELD(uf_activation_args, maximum, REAL), FIELD(uf_activation_args, mode, LOOSE_ENUMERATION),
       VIEW(uf_activation_args, input), VIEW(uf_activation_args, output),
       VIEW(uf_activation_args, grad_input), VIEW(uf_activation_args, grad_output))

static void fill_batch_norm(world *w, uf_batch_norm2d_args *args) {
    *args = uf_batch_norm2d_args_default();
    args->training = true;
    args->input = image_view(w, 0);
    args->output = image_view(w, 1);
    args->grad_input = image_view(w, 2);
    args->grad_output = image_view(w, 3);
    args->weight = channel_view(w, 0, UF_F32);
    args->bias = channel_view(w, 1, UF_F32);
    args->running_mean = channel_view(w, 2, UF_F32);
    args->running_var = channel_view(w, 3, UF_F32);
    args->grad_weight = channel_view(w, 4, UF_F32);
    args->grad_bias = channel_view(w, 5, UF_F32);
    args->save_mean = channel_view(w, 6, UF_F64);
    args->save_invstd = channel_view(w, 7, UF_F64);
    args->workspace = w->workspace;
    args->workspace_size = sizeof w->workspace;
}
STRUCT(batch_norm_args, uf_batch_norm2d_args, BAD, fill_batch_norm(w, object),
       FIELD(uf_batch_norm2d_args, struct_size, SIZE), FIELD(uf_batch_norm2d_args, eps, REAL),
       FIELD(uf_batch_norm2d_args, momentum, REAL),
       FIELD(uf_batch_norm2d_args, activation.kind, LOOSE_ENUMERATION),
       FIELD(uf_batch_norm2d_args, grad_input_mode, LOOSE_ENUMERATION),
       FIELD(uf_batch_norm2d_args, grad_param_mode, LOOSE_ENUMERATION),
       FIELD(uf_batch_norm2d_args, workspace, POINTER), VIEW(uf_batch_norm2d_args, input),
       VIEW(uf_batch_norm2d_args, output), VIEW(uf_batch_norm2d_args, weight),
       VIEW(uf_batch_norm2d_args, bias), VIEW(uf_batch_norm2d_args, running_mean),
       VIEW(uf_batch_norm2d_args, running_var), VIEW(uf_batch_norm2d_args, save_mean),
       VIEW(uf_batch_norm2d_args, save_invstd), VIEW(uf_batch_norm2d_args, grad_input),
       VIEW(uf_batch_norm2d_args, grad_output), VIEW(uf_batch_norm2d_args, grad_weight),
       VIEW(uf_batch_norm2d_args, grad_bias))

static void fill_pad(world *w, uf_pad2d_args *args) {
    *args = uf_pad2d_args_default();
    args->left = args->right = args->top = args->bottom = 1;
    args->input = image_view(w, 0);
    args->grad_input = image_view(w, 2);
    args->output = uf_view_nchw(w->memory[1], UF_F32, 2, 4, 5, 5);
    args->grad_output = uf_view_nchw(w->memory[3], UF_F32, 2, 4, 5, 5);
}
STRUCT(pad_args, uf_pad2d_args, BAD, fill_pad(w, object), FIELD(uf_pad2d_args, struct_size, SIZE),
       FIELD(uf_pad2d_args, pad_mode, ENUMERATION), FIELD(uf_pad2d_args, mode, LOOSE_ENUMERATION),
       FIELD(uf_pad2d_args, left, INTEGER64), FIELD(uf_pad2d_args, right, INTEGER64),
       FIELD(uf_pad2d_args, top, INTEGER64), FIELD(uf_pad2d_args, bottom, INTEGER64),
       VIEW(uf_pad2d_args, input), VIEW(uf_pad2d_args, output), VIEW(uf_pad2d_args, grad_input),
       VIEW(uf_pad2d_args, grad_output))

STRUCT(conv_params, uf_conv2d_params, BAD, *object = uf_conv2d_params_default(),
       PAIR(uf_conv2d_params, stride), PAIR(uf_conv2d_params, padding),
       PAIR(uf_conv2d_params, output_padding), PAIR(uf_conv2d_params, dilation),
       FIELD(uf_conv2d_params, groups, INTEGER64))

typedef struct int64_pair {
    int64_t a[2];
} int64_pair;

#define PAIR_OF(kind, number)                                                                      \
    VALUES(kind) {                                                                                 \
        static const field fields[] = {PAIR(int64_pair, a)};                                       \
        int64_t *pair = (int64_t *)(void *)a->storage.bytes;                                       \
        ROW(BAD, "NULL", SET(kind, NULL))                                                          \
        pair[0] = pair[1] = (number);                                                              \
        SET(kind, pair);                                                                           \
        ROW(GOOD, "a pair", (void)0)                                                               \
        (void)w;                                                                                   \
        return break_field(fields, 2, index, a);                                                   \
    }
PAIR_OF(pair, 3)
PAIR_OF(pair5, 5)
PLACE(pair_out)
ENUM(operation, UF_OPERATION_CONV_TRANSPOSE2D_FORWARD, UF_OPERATION_CONV2D_BACKWARD_WEIGHT)
OPTIONAL_PLACE(tuning_out)

/* ---- all ---- */

typedef bool values_function(world *w, int index, argument *a);

/* ---- models ---- */

static uf_model *spare_model_of(world *w) {
    uf_model *model = NULL;
    return uf_model_create(w->graph, &model) == UF_OK ? model : NULL;
}

OBJECT(model, w->model)
SPARE(spare_model, SET(spare_model, spare_model_of(w)))
MADE(model_out, model)
PATH(model_path, WORLD_MODEL, BAD, "no\nunfurl: \033[2Jfile")
OPTIONS(model_options, uf_model_options, FIELD(uf_model_options, dtype, ENUMERATION))
PATH(ncnn_param, WORLD_NCNN_PARAM, BAD, "no\nunfurl: \033[2Jfile")
PATH(ncnn_bin, WORLD_NCNN_BIN, BAD, "no\nunfurl: \033[2Jfile")
OPTIONS(ncnn_options, uf_ncnn_options, FIELD(uf_ncnn_options, dtype, ENUMERATION),
        FIELD(uf_ncnn_options, input_shape_count, COUNT))
VALUES(picture_text) {
    ROW(GOOD, "options", SET(picture_text, "range=(-1, 1) border=7"))
    ROW(GOOD, "none", SET(picture_text, ""))
    ROW(BAD, "NULL", SET(picture_text, NULL))
    ROW(BAD, "a word", SET(picture_text, "border"))
    ROW(BAD, "100000 letters", SET(picture_text, long_text()))
    ROW(BAD, "control characters", SET(picture_text, "a\nunfurl: \033[2Jb\x7f"))
    END;
}
OBJECT(model_text, WORLD_MODEL_TEXT)
VALUES(model_text_size) {
    ROW(GOOD, "all", SET(model_text_size, strlen(WORLD_MODEL_TEXT)))
    ROW(BAD, "0", SET(model_text_size, 0))
    ROW(BAD, "3", SET(model_text_size, 3))
    END;
}
PLACE(value_out)
VALUES(given_shapes) {
    uf_input_shape *shape = (uf_input_shape *)(void *)a->storage.bytes;
    shape->input = "x";
    shape->shape = UF_SHAPE(3, 4, 3, 3);
    SET(given_shapes, shape);
    ROW(GOOD, "a shape", (void)0)
    ROW(BAD, "NULL", SET(given_shapes, NULL))
    ROW(BAD, "of nobody", shape->input = NULL)
    ROW(BAD, "of z", shape->input = "z")
    ROW(BAD, "a rank of -1", shape->shape.rank = -1)
    ROW(BAD, "a rank of 9", shape->shape.rank = 9)
    ROW(BAD, "an extent of 0", shape->shape.extent[0] = 0)
    ROW(BAD, "a fixed extent", shape->shape.extent[1] = 5)
    END;
}
VALUES(given_count) {
    ROW(GOOD, "1", SET(given_count, 1))
    ROW(BAD, "-1", SET(given_count, -1))
    ROW(BAD, "the least", SET(given_count, INT32_MIN))
    END;
}
PLACE(shapes_out)
PLACE(picture_map_out)
OPTIONS(picture_map, uf_picture_map, FIELD(uf_picture_map, minimum, REAL),
        FIELD(uf_picture_map, maximum, REAL), FIELD(uf_picture_map, mean[1], REAL),
        FIELD(uf_picture_map, std[2], REAL), FIELD(uf_picture_map, channels, ENUMERATION),
        FIELD(uf_picture_map, border_mode, ENUMERATION), FIELD(uf_picture_map, border, INTEGER64),
        FIELD(uf_picture_map, scale, INTEGER64), FIELD(uf_picture_map, multiple, INTEGER64))

static values_function *const functions[KIND_COUNT] = {
#define ARGUMENT_KIND(name, type) name##_values,
    ARGUMENT_KINDS
#undef ARGUMENT_KIND
};

bool argument_get(world *one, argument_kind kind, int index, argument *result) {
    memset(result, 0, sizeof *result);
    return functions[kind](one, index, result);
}

void argument_get_good(world *one, argument_kind kind, argument *result) {
    int index = 0;
    while (argument_get(one, kind, index, result) && result->sort != GOOD) {
        ++index;
    }
}
