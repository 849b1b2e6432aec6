/* type.c - how the elements of a dataset or an attribute look, and how many there are. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/tensor.h"
#include "io/h5/internal.h"

enum { INTEGER, FLOAT, TIME, STRING, BITFIELD, OPAQUE, COMPOUND, REFERENCE, ENUM, VARYING, ARRAY };

static const char *const class_names[][2] = {
    /* of a type, and how a sentence calls what it holds */
    [INTEGER] = {"integer", "integers"},
    [FLOAT] = {"float", "floats"},
    [TIME] = {"time", "times"},
    [STRING] = {"string", "strings"},
    [BITFIELD] = {"bitfield", "bit fields"},
    [OPAQUE] = {"opaque", "opaque bytes"},
    [COMPOUND] = {"compound", "compound values"},
    [REFERENCE] = {"reference", "references"},
    [ENUM] = {"enum", "enumerated values"},
    [VARYING] = {"vlen", "lists of varying length"},
    [ARRAY] = {"array", "arrays"},
};

#define CLASSES ((int)(sizeof class_names / sizeof class_names[0]))

/* The IEEE-like formats, by their fields. h5py has no bf16 of its own, so files carry it as a
 * user-defined float with exactly these fields. */
static const struct float_format {
    uf_dtype dtype;
    unsigned size, exponent_at, exponent_bits, mantissa_bits, bias;
} float_formats[] = {
    {UF_F16, 2, 10, 5, 10, 15},
    {UF_BF16, 2, 7, 8, 7, 127},
    {UF_F32, 4, 23, 8, 23, 127},
    {UF_F64, 8, 52, 11, 52, 1023},
};

const char *uf_h5_class_words(int class) {
    return class >= 0 && class < CLASSES ? class_names[class][1] : "values of an unknown type";
}

/* ---- types ---- */

/* Bits and bytes of a number as the message has them: its properties, without gaps. */
static void classify_integer(uf_h5_cursor *cursor, uint32_t bits, uf_h5_type *type) {
    const uint64_t offset = uf_h5_number(cursor, 2), precision = uf_h5_number(cursor, 2);
    const int64_t size = type->size;
    type->is_big_endian = (bits & 1) != 0;
    type->is_signed = (bits & 8) != 0;
    if (offset == 0 && precision == 8 * (uint64_t)size &&
        (size == 1 || size == 2 || size == 4 || size == 8)) {
        type->is_number = true;
        type->dtype = UF_I64;
        snprintf(type->name, sizeof type->name, "%c%d", type->is_signed ? 'i' : 'u', 8 * (int)size);
    }
}

static void classify_float(uf_h5_cursor *cursor, uint32_t bits, uf_h5_type *type) {
    const uint64_t offset = uf_h5_number(cursor, 2), precision = uf_h5_number(cursor, 2);
    const uint64_t exponent_at = uf_h5_number(cursor, 1), exponent_bits = uf_h5_number(cursor, 1);
    const uint64_t mantissa_at = uf_h5_number(cursor, 1), mantissa_bits = uf_h5_number(cursor, 1);
    const uint64_t bias = uf_h5_number(cursor, 4);
    const uint32_t order = (bits & 1) | (bits >> 5 & 2), norm = bits >> 4 & 3;
    type->is_big_endian = order == 1;
    for (size_t i = 0; i < sizeof float_formats / sizeof float_formats[0]; ++i) {
        const struct float_format *format = &float_formats[i];
        if (type->size == format->size && order <= 1 && norm == 2 && offset == 0 &&
            precision == 8 * format->size && (bits >> 8 & 0xff) == 8 * format->size - 1 &&
            exponent_at == format->exponent_at && exponent_bits == format->exponent_bits &&
            mantissa_at == 0 && mantissa_bits == format->mantissa_bits && bias == format->bias) {
            type->is_number = true;
            type->dtype = format->dtype;
            snprintf(type->name, sizeof type->name, "%s", uf_dtype_name(format->dtype));
        }
    }
}

uf_status uf_h5_parse_type(const uf_h5_file *file, uint64_t address, uf_h5_cursor *cursor,
                           uf_h5_type *type) {
    memset(type, 0, sizeof *type);
    const unsigned first = (unsigned)uf_h5_number(cursor, 1);
    const uint32_t bits = (uint32_t)uf_h5_number(cursor, 3);
    const unsigned version = first >> 4;
    type->class = (int)(first & 15);
    type->size = (int64_t)uf_h5_number(cursor, 4);
    snprintf(type->name, sizeof type->name, "%s",
             type->class < CLASSES ? class_names[type->class][0] : "unknown");
    if (cursor->is_short || type->size == 0) {
        return uf_h5_damaged(file, address, "its type is not whole");
    }
    if (version < 1 || version > 3) {
        return uf_h5_outside(file, "has a type of version %u; 1 to 3 are known", version);
    }
    if (type->class == INTEGER) {
        classify_integer(cursor, bits, type);
    } else if (type->class == FLOAT) {
        classify_float(cursor, bits, type);
    }
    type->is_varying = type->class == VARYING;
    type->is_text = type->class == STRING || (type->class == VARYING && (bits & 15) == 1);
    if (type->class == VARYING && type->is_text) {
        snprintf(type->name, sizeof type->name, "%s", class_names[STRING][0]);
    }
    return cursor->is_short ? uf_h5_damaged(file, address, "its type is not whole") : UF_OK;
}

uf_status uf_h5_load_type(uf_h5_file *file, uint64_t address, uf_h5_cursor *cursor, bool is_shared,
                          uf_h5_type *type) {
    if (!is_shared) {
        return uf_h5_parse_type(file, address, cursor, type);
    }
    const uint64_t version = uf_h5_number(cursor, 1), kind = uf_h5_number(cursor, 1);
    if (version == 1) {
        (void)uf_h5_take(cursor, 6);
    }
    const uint64_t named = uf_h5_address(file, cursor);
    if (cursor->is_short || version < 1 || version > 3) {
        return uf_h5_damaged(file, address, "nothing says where its named type lies");
    }
    if (version == 3 && kind != 2) {
        return uf_h5_outside(file, "shares the message that says its type with other objects");
    }
    uf_h5_header header;
    uf_h5_cursor there;
    UF_TRY(uf_h5_header_read(file, named, &header));
    uf_status status = uf_h5_header_need(file, &header, UF_H5_MESSAGE_DATATYPE, "its type", &there);
    if (status == UF_OK) {
        status = uf_h5_parse_type(file, named, &there, type);
    }
    uf_h5_header_free(&header);
    return status;
}

/* ---- extents ---- */

uf_status uf_h5_parse_space(const uf_h5_file *file, uint64_t address, uf_h5_cursor *cursor,
                            uf_h5_space *space) {
    memset(space, 0, sizeof *space);
    const unsigned version = (unsigned)uf_h5_number(cursor, 1);
    const unsigned rank = (unsigned)uf_h5_number(cursor, 1);
    const unsigned flags = (unsigned)uf_h5_number(cursor, 1);
    if (!cursor->is_short && version != 1 && version != 2) {
        return uf_h5_outside(file, "has extents of version %u; 1 and 2 are known", version);
    }
    const unsigned kind = version == 2 ? (unsigned)uf_h5_number(cursor, 1) : rank > 0;
    if (version == 1) {
        (void)uf_h5_take(cursor, 5);
    }
    if (kind > 2 || rank > 32 || (kind != 1 && rank > 0)) {
        return uf_h5_damaged(file, address, "its extents are of kind %u and rank %u", kind, rank);
    }
    space->rank = kind == 2 ? -1 : (int)rank;
    for (unsigned i = 0; i < rank; ++i) {
        const uint64_t extent = uf_h5_length(file, cursor);
        if (rank <= UF_MAX_RANK) {
            space->extent[i] = space->most[i] = extent;
        }
    }
    for (unsigned i = 0; i < rank && (flags & 1) != 0; ++i) {
        const uint64_t most = uf_h5_length(file, cursor);
        if (rank <= UF_MAX_RANK) {
            space->most[i] = most == UINT64_MAX >> (64 - 8 * file->length_size) ? UINT64_MAX : most;
            if (space->most[i] < space->extent[i]) {
                return uf_h5_damaged(file, address, "an extent is above its own limit");
            }
        }
    }
    return cursor->is_short ? uf_h5_damaged(file, address, "its extents are not whole") : UF_OK;
}

/* ---- datasets ---- */

static void name_problem(uf_h5_object *object) {
    const uf_h5_type *type = &object->type;
    if (type->class == FLOAT || type->class == INTEGER) {
        snprintf(object->problem, sizeof object->problem,
                 "holds %s of an unusual format, %" PRId64 " bytes each",
                 uf_h5_class_words(type->class), type->size);
    } else {
        snprintf(object->problem, sizeof object->problem, "holds %s, not numbers",
                 type->is_text ? class_names[STRING][1] : uf_h5_class_words(type->class));
    }
}

/* Null, empty and overlong dataspaces are problems; shape.rank is then -1, except that an empty
 * dataspace keeps its extents for the message. */
static uf_status measure(const uf_h5_file *file, const uf_h5_space *space, uf_h5_object *object) {
    char text[128], where[UF_MESSAGE_SIZE / 2];
    if (space->rank < 0) {
        snprintf(object->problem, sizeof object->problem, "has no data (a null dataspace)");
        return UF_OK;
    }
    if (space->rank > UF_MAX_RANK) {
        snprintf(object->problem, sizeof object->problem, "has %d axes, more than %d", space->rank,
                 UF_MAX_RANK);
        return UF_OK;
    }
    object->shape.rank = space->rank;
    for (int i = 0; i < space->rank; ++i) {
        object->shape.extent[i] =
            space->extent[i] <= INT64_MAX ? (int64_t)space->extent[i] : INT64_MAX;
    }
    const int64_t count = uf_shape_count(&object->shape);
    if (count < 0 || uf_mul_overflows(count, object->type.size, &object->bytes)) {
        UF_FAIL(UF_ERROR_FORMAT, "%s is %s, more elements than memory can address",
                uf_h5_where(file, where, sizeof where),
                uf_shape_format(&object->shape, text, sizeof text));
    }
    if (count == 0) {
        snprintf(object->problem, sizeof object->problem, "is empty, %s",
                 uf_shape_format(&object->shape, text, sizeof text));
    }
    return UF_OK;
}

/* Does the dataset keep its data in other files? Such files are not followed: a file of weights
 * should not be able to read the rest of the disk. */
static bool data_lie_elsewhere(const uf_h5_header *header) {
    const uf_h5_message *layout = uf_h5_header_find(header, UF_H5_MESSAGE_LAYOUT);
    const bool is_virtual =
        layout != NULL && layout->size >= 2 && layout->bytes[0] >= 3 && layout->bytes[1] == 3;
    return is_virtual || uf_h5_header_find(header, UF_H5_MESSAGE_EXTERNAL_FILES) != NULL;
}

uf_status uf_h5_describe(uf_h5_file *file, const uf_h5_header *header, uf_h5_object *object) {
    uf_h5_cursor cursor;
    uf_h5_space space;
    const uf_h5_message *type = uf_h5_header_find(header, UF_H5_MESSAGE_DATATYPE);
    object->kind = UF_H5_DATASET;
    object->shape.rank = -1;
    if (type == NULL) {
        return uf_h5_damaged(file, header->address, "its header does not say its type");
    }
    cursor = uf_h5_cursor_over(type->bytes, type->size);
    UF_TRY(uf_h5_load_type(file, header->address, &cursor, (type->flags & 2) != 0, &object->type));
    if (data_lie_elsewhere(header)) {
        snprintf(object->problem, sizeof object->problem,
                 "keeps its data in other files, which are not read");
        return UF_OK;
    }
    object->is_numeric = object->type.is_number;
    if (!object->is_numeric) {
        name_problem(object);
        return UF_OK;
    }
    UF_TRY(uf_h5_header_need(file, header, UF_H5_MESSAGE_DATASPACE, "its extents", &cursor));
    UF_TRY(uf_h5_parse_space(file, header->address, &cursor, &space));
    UF_TRY(measure(file, &space, object));
    object->is_tensor = object->problem[0] == '\0';
    return UF_OK;
}

/* ---- elements ---- */

static void copy_swapped(const unsigned char *from, int64_t count, int64_t size,
                         unsigned char *to) {
    for (int64_t i = 0; i < count; ++i) {
        for (int64_t byte = 0; byte < size; ++byte) {
            to[i * size + byte] = from[i * size + size - 1 - byte];
        }
    }
}

static int64_t integer_at(const uf_h5_type *type, const unsigned char *from) {
    uint64_t value = 0;
    for (int64_t byte = 0; byte < type->size; ++byte) {
        value = value << 8 | from[type->is_big_endian ? byte : type->size - 1 - byte];
    }
    const uint64_t sign = UINT64_C(1) << (8 * type->size - 1);
    if (type->is_signed) {
        value = (value ^ sign) - sign;
    }
    int64_t result;
    memcpy(&result, &value, sizeof result);
    return result;
}

void uf_h5_decode(const uf_h5_type *type, const unsigned char *from, int64_t count, void *to) {
    const bool is_native =
        type->is_big_endian == (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) || type->size == 1;
    if (type->size == (int64_t)uf_dtype_size(type->dtype)) {
        if (is_native) {
            memcpy(to, from, (size_t)(count * type->size));
        } else {
            copy_swapped(from, count, type->size, to);
        }
        return;
    }
    for (int64_t i = 0; i < count; ++i) {
        const int64_t value = integer_at(type, from + i * type->size);
        memcpy((unsigned char *)to + i * 8, &value, sizeof value);
    }
}
