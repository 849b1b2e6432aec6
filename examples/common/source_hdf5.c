/* source_hdf5.c - one dataset (N, C, H, W) of an HDF5 file, whole in memory: bytes as bytes, floats
 * as f32. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/common.h"
#include "common/source.h"

typedef struct pictures {
    void *values;
    sample_type type;
    int64_t channels, height, width;
} pictures;

/* The dataset to read: by its name, or the only one of four axes. */
static const uf_hdf5_entry *choose(const uf_hdf5_entry *entries, int64_t count, const char *path,
                                   const char *name) {
    const uf_hdf5_entry *found = NULL;
    for (int64_t i = 0; i < count; ++i) {
        const uf_hdf5_entry *entry = &entries[i];
        if (name != NULL ? strcmp(entry->name, name) != 0
                         : !entry->is_tensor || entry->shape.rank != 4) {
            continue;
        }
        if (found != NULL) {
            fail("%s has several datasets of pictures, %s and %s: name the one to read", path,
                 found->name, entry->name);
        }
        found = entry;
    }
    if (found == NULL && name != NULL) fail("%s has no dataset %s", path, name);
    if (found == NULL) fail("%s has no dataset of four axes (N, C, H, W)", path);
    return found;
}

static void check_pictures(const uf_hdf5_entry *entry, const char *path) {
    const uf_shape *shape = &entry->shape;
    if (!entry->is_tensor || shape->rank != 4) {
        fail("%s in %s is no dataset of pictures: it needs four axes (N, C, H, W)", entry->name,
             path);
    }
    const int64_t *extent = shape->extent;
    if (extent[0] < 1 || (extent[1] != 1 && extent[1] != 3) || extent[2] < 1 || extent[3] < 1) {
        fail("%s in %s is (%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
             "): pictures have 1 or 3 channels and at least one pixel",
             entry->name, path, extent[0], extent[1], extent[2], extent[3]);
    }
    if (strcmp(entry->type, "u8") != 0 && strchr("fb", entry->type[0]) == NULL) {
        fail("%s in %s is of type %s: pictures are u8 of 0..255 or floats of -1..1", entry->name,
             path, entry->type);
    }
    const double bytes =
        4.0 * (double)extent[0] * (double)extent[1] * (double)extent[2] * (double)extent[3];
    const double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    if (bytes > memory) {
        fail("%s in %s needs %.1f GiB of memory as f32, this machine has %.1f GiB; a folder of "
             "pictures is read as it is used",
             entry->name, path, bytes * 0x1p-30, memory * 0x1p-30);
    }
}

/* The public reader gives floats; bytes become bytes again, in place. */
static void pack_bytes(pictures *p, int64_t count) {
    const float *values = p->values;
    unsigned char *bytes = p->values;
    for (int64_t i = 0; i < count; ++i) {
        const float value = values[i]; /* read before its place is written to */
        bytes[i] = (unsigned char)value;
    }
    void *shrunk = realloc(p->values, (size_t)count);
    if (shrunk != NULL) p->values = shrunk;
    p->type = SAMPLE_U8;
}

static void check_range(const float *values, int64_t count, const char *name, const char *path) {
    for (int64_t i = 0; i < count; ++i) {
        if (!(values[i] >= -1.0f && values[i] <= 1.0f)) {
            fail("%s in %s has the value %g; floats of pictures are -1..1", name, path,
                 (double)values[i]);
        }
    }
}

/* "labels" beside the pictures, where there is such a dataset. */
static void read_labels(source *to, const uf_hdf5_entry *entries, int64_t count, const char *path,
                        const char *dataset) {
    const char *slash = strrchr(dataset, '/');
    char name[sizeof entries->name + 8];
    snprintf(name, sizeof name, "%.*slabels", slash == NULL ? 0 : (int)(slash - dataset) + 1,
             dataset);
    for (int64_t i = 0; i < count; ++i) {
        const uf_hdf5_entry *entry = &entries[i];
        if (strcmp(entry->name, name) != 0) continue;
        if (!entry->is_tensor || entry->shape.rank != 1 || strchr("iu", entry->type[0]) == NULL) {
            fail("%s in %s is no list of whole numbers", name, path);
        }
        if (entry->shape.extent[0] != to->count) {
            fail("%s in %s has %" PRId64 " labels for %" PRId64 " pictures", name, path,
                 entry->shape.extent[0], to->count);
        }
        uf_shape shape;
        to->labels = allocate(to->count, sizeof *to->labels);
        must(uf_hdf5_read(path, name, UF_I64, &shape, to->labels, to->count));
        source_count_classes(to, path);
    }
}

static bool load(void *self, int64_t index, loaded *picture, source_error *error) {
    (void)error;
    const pictures *p = self;
    const int64_t plane = p->height * p->width, at = index * p->channels * plane;
    picture->samples = (samples){
        .values =
            (const char *)p->values + at * (p->type == SAMPLE_U8 ? 1 : (int64_t)sizeof(float)),
        .type = p->type,
        .width = p->width,
        .height = p->height,
        .channels = (int)p->channels,
        .pixel_stride = 1,
        .channel_stride = plane,
    };
    return true;
}

static void close_pictures(void *self) {
    pictures *p = self;
    free(p->values);
    free(p);
}

void source_open_hdf5(source *to, const data_options *options) {
    const char *path = options->path;
    uf_hdf5_entry *entries;
    int64_t entry_count;
    must(uf_hdf5_list(path, NULL, &entries, &entry_count));
    const uf_hdf5_entry *entry = choose(entries, entry_count, path, options->dataset);
    check_pictures(entry, path);
    const int64_t *extent = entry->shape.extent;
    const int64_t count = extent[0] * extent[1] * extent[2] * extent[3];
    pictures *p = allocate(1, sizeof *p);
    *p = (pictures){allocate(count, sizeof(float)), SAMPLE_F32, extent[1], extent[2], extent[3]};
    uf_shape shape;
    must(uf_hdf5_read(path, entry->name, UF_F32, &shape, p->values, count));
    if (strcmp(entry->type, "u8") == 0) {
        pack_bytes(p, count);
    } else {
        check_range(p->values, count, entry->name, path);
    }
    to->count = extent[0];
    to->self = p;
    to->load = load;
    to->close = close_pictures;
    read_labels(to, entries, entry_count, path, entry->name);
    source_describe(to, "%s: %" PRId64 " pictures of %" PRId64 "x%" PRId64 " (HDF5, %s, %s)", path,
                    to->count, p->width, p->height, entry->name, entry->type);
    uf_hdf5_list_free(entries);
}
