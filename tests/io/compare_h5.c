/* compare_h5.c - HDF5 files through the library's own reader and through libhdf5: the same
 * datasets, the same values, the same attributes. */
#include "io/compare_h5.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t differences;

#define DIFFER(...)                                                                                \
    do {                                                                                           \
        fprintf(stderr, __VA_ARGS__);                                                              \
        fprintf(stderr, "\n");                                                                     \
        ++differences;                                                                             \
    } while (0)

static bool open_as(const char *path, const uf_file_kind *kind, uf_tensor_file *file) {
    *file = (uf_tensor_file){.kind = kind, .path = path, .untrusted = kind == &uf_file_h5};
    const uf_status status = kind->open(file, NULL);
    if (status != UF_OK) {
        DIFFER("%s: %s: %s", path, uf_status_name(status), uf_last_error());
    }
    return status == UF_OK;
}

static bool same_entry(const uf_file_entry *a, const uf_file_entry *b) {
    return strcmp(a->entry.name, b->entry.name) == 0 && strcmp(a->entry.type, b->entry.type) == 0 &&
           a->entry.is_tensor == b->entry.is_tensor && a->entry.bytes == b->entry.bytes &&
           a->is_numeric == b->is_numeric && a->dtype == b->dtype &&
           strcmp(a->problem, b->problem) == 0 && a->entry.shape.rank == b->entry.shape.rank &&
           memcmp(a->entry.shape.extent, b->entry.shape.extent, sizeof a->entry.shape.extent) == 0;
}

static void compare_values(uf_tensor_file *ours, uf_tensor_file *theirs, int64_t at) {
    const uf_file_entry *entry = &ours->listing.datasets[at];
    const size_t size = uf_dtype_size(entry->dtype);
    void *a, *b;
    const uf_status one = uf_tensor_file_read(ours, entry, &a);
    if (one != UF_OK) {
        DIFFER("%s: %s", uf_status_name(one), uf_last_error());
    }
    const uf_status other = uf_tensor_file_read(theirs, &theirs->listing.datasets[at], &b);
    if (other != UF_OK) {
        DIFFER("libhdf5: %s: %s", uf_status_name(other), uf_last_error());
    }
    if (one == UF_OK && other == UF_OK &&
        memcmp(a, b, size * (size_t)uf_shape_count(&entry->entry.shape)) != 0) {
        DIFFER("%s in %s has other values", entry->entry.name, ours->path);
    }
    free(a);
    free(b);
}

static bool same_attribute(const uf_file_attribute *a, const uf_file_attribute *b) {
    if (strcmp(a->name, b->name) != 0 || a->count != b->count ||
        (a->texts == NULL) != (b->texts == NULL) || (a->numbers == NULL) != (b->numbers == NULL)) {
        return false;
    }
    for (int64_t i = 0; i < a->count; ++i) {
        if ((a->texts != NULL && strcmp(a->texts[i], b->texts[i]) != 0) ||
            (a->numbers != NULL && memcmp(&a->numbers[i], &b->numbers[i], 8) != 0)) {
            return false;
        }
    }
    return true;
}

static void compare_attributes(uf_tensor_file *ours, uf_tensor_file *theirs, const char *object) {
    uf_file_attributes a, b;
    const uf_status one = ours->kind->attributes(ours, object, &a);
    if (one != UF_OK) {
        DIFFER("%s: %s", uf_status_name(one), uf_last_error());
    }
    const uf_status other = theirs->kind->attributes(theirs, object, &b);
    if (other != UF_OK) {
        DIFFER("libhdf5: %s: %s", uf_status_name(other), uf_last_error());
    }
    if (a.count != b.count) {
        DIFFER("%s in %s has %" PRId64 " attributes in place of %" PRId64, object, ours->path,
               a.count, b.count);
    }
    for (int64_t i = 0; i < a.count && i < b.count; ++i) {
        if (!same_attribute(&a.each[i], &b.each[i])) {
            DIFFER("attribute %s (%s) of %s in %s differs", a.each[i].name, b.each[i].name, object,
                   ours->path);
        }
    }
    uf_file_attributes_free(&a);
    uf_file_attributes_free(&b);
}

/* Attributes of a dataset and of the groups on the way to it. */
static void compare_all_attributes(uf_tensor_file *ours, uf_tensor_file *theirs, const char *name) {
    char object[UF_NAME_SIZE * 2];
    snprintf(object, sizeof object, "%s", name);
    compare_attributes(ours, theirs, object);
    for (char *slash = strrchr(object, '/'); slash != NULL; slash = strrchr(object, '/')) {
        *slash = '\0';
        compare_attributes(ours, theirs, object);
    }
}

static void compare_files(uf_tensor_file *ours, uf_tensor_file *theirs) {
    const int64_t count = ours->listing.count;
    if (count != theirs->listing.count) {
        DIFFER("%s holds %" PRId64 " datasets in place of %" PRId64, ours->path, count,
               theirs->listing.count);
    }
    compare_attributes(ours, theirs, "/");
    for (int64_t i = 0; i < count && i < theirs->listing.count; ++i) {
        const uf_file_entry *entry = &ours->listing.datasets[i];
        const uf_file_entry *other = &theirs->listing.datasets[i];
        if (!same_entry(entry, other)) {
            DIFFER("%s in %s is %s %s; libhdf5 has %s, %s %s", entry->entry.name, ours->path,
                   entry->entry.type, entry->problem, other->entry.name, other->entry.type,
                   other->problem);
        }
        if (entry->entry.is_tensor) {
            compare_values(ours, theirs, i);
        }
        /* Attributes of one in seven where there are many: each opens all groups on the way. */
        if (strcmp(entry->entry.type, "external link") != 0 && (i < 50 || i % 7 == 0)) {
            compare_all_attributes(ours, theirs, entry->entry.name);
        }
    }
}

int64_t compare_h5(const char *path) {
    uf_tensor_file ours, theirs;
    differences = 0;
    if (open_as(path, &uf_file_h5, &ours)) {
        if (open_as(path, &uf_file_libhdf5, &theirs)) {
            if (uf_tensor_file_begin(&theirs) != UF_OK) {
                DIFFER("libhdf5 cannot open %s: %s", path, uf_last_error());
            } else {
                compare_files(&ours, &theirs);
                (void)uf_tensor_file_end(&theirs, UF_OK);
            }
            uf_tensor_file_close(&theirs);
        }
        uf_tensor_file_close(&ours);
    }
    return differences;
}
