/* source_idx.c - the files of MNIST and Fashion-MNIST, gzipped or not.
 * http://yann.lecun.com/exdb/mnist/ describes the format. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "common/common.h"
#include "common/source.h"

#define PATH_ROOM 4096
#define MOST_EXTENT 16384  /* of a picture: sizes stay below 2^60 */
#define DEFLATE_RATIO 1032 /* at most */

typedef struct idx_pictures {
    unsigned char *values;
    int64_t width, height;
} idx_pictures;

/* The name of an IDX file that is there, gzipped or not. */
static bool find_file(const char *folder, const char *name, char *path) {
    static const char *const endings[] = {".gz", ""};
    for (int i = 0; i < 2; ++i) {
        struct stat about;
        snprintf(path, PATH_ROOM, "%s/%s%s", folder, name, endings[i]);
        if (stat(path, &about) == 0) return true;
    }
    snprintf(path, PATH_ROOM, "%s/%s.gz", folder, name);
    return false;
}

/* The bytes of an IDX file with `rank` extents, which go to extent[]. */
static unsigned char *read_idx(const char *path, int rank, int64_t *extent) {
    const char *kind = rank == 3 ? "images" : "labels";
    struct stat about;
    gzFile file = gzopen(path, "rb");
    if (file == NULL || stat(path, &about) != 0) fail("cannot open %s: %s", path, strerror(errno));
    unsigned char header[16] = {0};
    const int header_size = 4 + 4 * rank;
    const unsigned char magic[4] = {0, 0, 8, (unsigned char)rank};
    if (gzread(file, header, (unsigned)header_size) != header_size ||
        memcmp(header, magic, sizeof magic) != 0) {
        fail("%s is no IDX file of %s (it should begin with 00 00 08 %02x)", path, kind, rank);
    }
    int64_t size = 1;
    for (int i = 0; i < rank; ++i) {
        const unsigned char *b = header + 4 + 4 * i;
        extent[i] = (int64_t)b[0] << 24 | (int64_t)b[1] << 16 | (int64_t)b[2] << 8 | b[3];
        if (extent[i] < 1 || (i > 0 && extent[i] > MOST_EXTENT)) {
            fail("%s: its header has sizes that no data set of %s has", path, kind);
        }
        size *= extent[i];
    }
    if (size / DEFLATE_RATIO > about.st_size) {
        fail("%s is truncated or damaged: %" PRId64
             " bytes of %s do not fit into a file of %" PRId64,
             path, size, kind, (int64_t)about.st_size);
    }
    unsigned char *values = allocate(size, 1);
    for (int64_t have = 0; have < size;) {
        const int64_t left = size - have;
        const int got = gzread(file, values + have, left > 1 << 20 ? 1u << 20 : (unsigned)left);
        if (got <= 0) {
            fail("%s is truncated or damaged: it ends %" PRId64 " bytes before its last of %" PRId64
                 " %s",
                 path, left, extent[0], kind);
        }
        have += got;
    }
    /* The checksum is behind the last byte. */
    const int more = gzread(file, header, 1);
    if (more > 0)
        fail("%s holds more than the %" PRId64 " %s of its header", path, extent[0], kind);
    if (gzclose(file) != Z_OK || more < 0) {
        fail("%s is truncated or damaged: its checksum is wrong or missing", path);
    }
    return values;
}

static bool load(void *self, int64_t index, loaded *picture, source_error *error) {
    (void)error;
    const idx_pictures *pictures = self;
    picture->samples = (samples){
        .values = pictures->values + index * pictures->width * pictures->height,
        .type = SAMPLE_U8,
        .width = pictures->width,
        .height = pictures->height,
        .channels = 1,
        .pixel_stride = 1,
    };
    return true;
}

static void close_pictures(void *self) {
    idx_pictures *pictures = self;
    free(pictures->values);
    free(pictures);
}

static void read_labels(source *to, const char *path) {
    int64_t count;
    unsigned char *values = read_idx(path, 1, &count);
    if (count != to->count) {
        fail("%s has %" PRId64 " labels for %" PRId64 " images", path, count, to->count);
    }
    to->labels = allocate(count, sizeof *to->labels);
    for (int64_t i = 0; i < count; ++i) to->labels[i] = values[i];
    free(values);
    source_count_classes(to, path);
}

bool source_open_idx(source *to, const data_options *options) {
    static const char *const images[] = {"train-images-idx3-ubyte", "t10k-images-idx3-ubyte"};
    static const char *const labels[] = {"train-labels-idx1-ubyte", "t10k-labels-idx1-ubyte"};
    char path[PATH_ROOM];
    if (!find_file(options->path, images[0], path) && !find_file(options->path, images[1], path)) {
        return false;
    }
    (void)find_file(options->path, images[options->held_out], path);
    int64_t extent[3];
    idx_pictures *pictures = allocate(1, sizeof *pictures);
    pictures->values = read_idx(path, 3, extent);
    pictures->height = extent[1];
    pictures->width = extent[2];
    to->count = extent[0];
    to->self = pictures;
    to->is_split = true;
    to->load = load;
    to->close = close_pictures;
    const bool labelled = find_file(options->path, labels[options->held_out], path);
    if (labelled) read_labels(to, path);
    source_describe(to, "%s: %" PRId64 " images of %" PRId64 "x%" PRId64 " (IDX)", options->path,
                    to->count, pictures->width, pictures->height);
    return true;
}
