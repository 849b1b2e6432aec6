#include "npy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "files.h"

enum { HEADER_SIZE = 65536 };

/* ---- reading ---- */

struct element {
    const char *descr;
    size_t size;
};

static const struct element elements[] = {
    {"<f4", 4}, {"<f8", 8}, {"|i1", 1}, {"<i2", 2}, {"<i4", 4},
    {"<i8", 8}, {"|u1", 1}, {"<u2", 2}, {"<u4", 4},
};

static double number_at(const struct element *element, const unsigned char *at) {
    union {
        float f4;
        double f8;
        int8_t i1;
        int16_t i2;
        int32_t i4;
        int64_t i8;
        uint8_t u1;
        uint16_t u2;
        uint32_t u4;
    } one;
    memcpy(&one, at, element->size);
    switch (element - elements) {
    case 0:
        return (double)one.f4;
    case 1:
        return one.f8;
    case 2:
        return one.i1;
    case 3:
        return one.i2;
    case 4:
        return one.i4;
    case 5:
        return (double)one.i8;
    case 6:
        return one.u1;
    case 7:
        return one.u2;
    default:
        return one.u4;
    }
}

/* The text behind 'key': in the header, a dictionary of Python's. */
static const char *find_key(const char *header, const char *key) {
    char quoted[64];
    snprintf(quoted, sizeof quoted, "'%s':", key);
    const char *at = strstr(header, quoted);
    if (at == NULL) {
        return "";
    }
    at += strlen(quoted);
    return at + strspn(at, " ");
}

static int read_shape(const char *path, const char *at, uf_shape *shape) {
    *shape = UF_SCALAR;
    at += *at == '(' ? 1 : 0;
    while (*at >= '0' && *at <= '9') {
        char *end;
        errno = 0;
        const long long extent = strtoll(at, &end, 10);
        if (errno != 0 || shape->rank == UF_MAX_RANK) {
            return fail("%s: an array of more than %d axes, or one that is too long", path,
                        UF_MAX_RANK);
        }
        shape->extent[shape->rank++] = extent;
        at = end + strspn(end, ", ");
    }
    return *at == ')' ? EXIT_DONE : fail("%s: the shape in its header is damaged", path);
}

static int read_header(const char *path, FILE *file, const struct element **element,
                       uf_shape *shape) {
    unsigned char head[12];
    static char header[HEADER_SIZE];
    if (fread(head, 1, 8, file) != 8 || memcmp(head, "\x93NUMPY", 6) != 0 || head[6] < 1 ||
        head[6] > 3 || fread(head + 8, 1, head[6] == 1 ? 2 : 4, file) != (head[6] == 1 ? 2U : 4U)) {
        return fail("%s is no file of NumPy's (.npy)", path);
    }
    const size_t length = head[6] == 1 ? (size_t)head[8] | (size_t)head[9] << 8
                                       : (size_t)head[8] | (size_t)head[9] << 8 |
                                             (size_t)head[10] << 16 | (size_t)head[11] << 24;
    if (length >= sizeof header || fread(header, 1, length, file) != length) {
        return fail("%s: its header is cut off or longer than %d bytes", path, HEADER_SIZE - 1);
    }
    header[length] = '\0';
    const char *descr = find_key(header, "descr");
    *element = NULL;
    for (size_t i = 0; i < sizeof elements / sizeof elements[0]; i++) {
        if (descr[0] == '\'' && strncmp(descr + 1, elements[i].descr, 3) == 0 && descr[4] == '\'') {
            *element = &elements[i];
        }
    }
    if (*element == NULL) {
        return fail("%s: elements of type %.12s; f4, f8 and integers, little-endian, are read",
                    path, descr);
    }
    if (strncmp(find_key(header, "fortran_order"), "False", 5) != 0) {
        return fail("%s: an array in Fortran's order; numpy.ascontiguousarray turns it", path);
    }
    return read_shape(path, find_key(header, "shape"), shape);
}

static int read_elements(const char *path, FILE *file, const struct element *element,
                         struct values *values) {
    unsigned char row[4096];
    const int64_t count = uf_shape_count(&values->shape);
    const int64_t most = (int64_t)(sizeof row / element->size);
    for (int64_t first = 0; first < count; first += most) {
        const int64_t part = count - first < most ? count - first : most;
        if (fread(row, element->size, (size_t)part, file) != (size_t)part) {
            return fail("%s is cut off: it has fewer than %" PRId64 " elements", path, count);
        }
        for (int64_t i = 0; i < part; i++) {
            const double number = number_at(element, row + (size_t)i * element->size);
            if (values->dtype == UF_F64) {
                ((double *)values->data)[first + i] = number;
            } else {
                ((int64_t *)values->data)[first + i] = (int64_t)number;
            }
        }
    }
    return EXIT_DONE;
}

static int read_open(const char *path, FILE *file, uf_dtype dtype, struct values *values) {
    const struct element *element = NULL;
    uf_shape shape;
    TRY(read_header(path, file, &element, &shape));
    if (dtype == UF_I64 && element < elements + 2) {
        return fail("%s has real numbers where indices are needed", path);
    }
    /* No more memory than the file can fill. */
    const long start = ftell(file);
    if (start < 0 || fseek(file, 0, SEEK_END) != 0) {
        return fail("cannot read %s: %s", path, strerror(errno));
    }
    const int64_t count = uf_shape_count(&shape);
    if (count < 1 || count > (int64_t)(ftell(file) - start) / (int64_t)element->size) {
        return fail("%s is empty or cut off", path);
    }
    if (fseek(file, start, SEEK_SET) != 0) {
        return fail("cannot read %s: %s", path, strerror(errno));
    }
    TRY(values_create(dtype, shape, values));
    return read_elements(path, file, element, values);
}

int npy_read(const char *path, uf_dtype dtype, struct values *values) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return fail("cannot open %s: %s", path, strerror(errno));
    }
    const int status = read_open(path, file, dtype, values);
    fclose(file);
    return status;
}

/* ---- writing ---- */

static bool write_all(FILE *file, uf_dtype dtype, const struct values *values) {
    char shape[256] = "", header[512];
    for (int32_t i = 0; i < values->shape.rank; i++) {
        snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%" PRId64 ",%s",
                 values->shape.extent[i], i + 1 < values->shape.rank ? " " : "");
    }
    const char *descr = values->dtype == UF_I64 ? "<i8" : dtype == UF_F64 ? "<f8" : "<f4";
    int length = snprintf(header, sizeof header,
                          "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, shape);
    while ((10 + length + 1) % 64 != 0) {
        header[length++] = ' ';
    }
    header[length++] = '\n';
    const unsigned char head[10] = {0x93,
                                    'N',
                                    'U',
                                    'M',
                                    'P',
                                    'Y',
                                    1,
                                    0,
                                    (unsigned char)(length & 0xff),
                                    (unsigned char)(length >> 8)};
    bool written = fwrite(head, 1, sizeof head, file) == sizeof head &&
                   fwrite(header, 1, (size_t)length, file) == (size_t)length;
    const int64_t count = uf_shape_count(&values->shape);
    for (int64_t i = 0; written && i < count; i++) {
        if (strcmp(descr, "<f4") == 0) {
            const float number = (float)((const double *)values->data)[i];
            written = fwrite(&number, sizeof number, 1, file) == 1;
        } else {
            written = fwrite((const char *)values->data + 8 * i, 8, 1, file) == 1;
        }
    }
    return written;
}

int npy_write(const char *path, uf_dtype dtype, const struct values *values) {
    char *bytes = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&bytes, &size);
    bool written = stream != NULL && write_all(stream, dtype, values);
    written = stream != NULL && fclose(stream) == 0 && written;
    const int status =
        written ? file_write_bytes(path, bytes, size) : fail("out of memory writing %s", path);
    free(bytes);
    return status;
}
