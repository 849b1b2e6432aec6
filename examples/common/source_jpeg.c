/* source_jpeg.c - JPEG pictures, through libjpeg-turbo where the build has it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/source.h"

static bool refuse(source_error *error, const char *path, const char *reason) {
    snprintf(error->text, sizeof error->text, "%s %s", path, reason);
    return false;
}

#ifndef EXAMPLES_HAVE_JPEG

const bool source_has_jpeg = false;

bool source_load_jpeg(const char *path, int64_t channels, loaded *picture, source_error *error) {
    (void)channels, (void)picture;
    return refuse(error, path, "is a JPEG picture, which this build does not read");
}

#else

#include <turbojpeg.h>

#define MOST_BYTES (INT64_C(1) << 30)

const bool source_has_jpeg = true;

/* The file's bytes, freed by free(); NULL after a failure. */
static unsigned char *read_file(const char *path, unsigned long *size, source_error *error) {
    FILE *file = fopen(path, "rbe");
    unsigned char *bytes = NULL;
    long end = -1;
    if (file != NULL && fseek(file, 0, SEEK_END) == 0) end = ftell(file);
    if (end >= 0 && end <= MOST_BYTES) {
        bytes = malloc((size_t)end + 1);
        rewind(file);
        *size = (unsigned long)end;
    }
    if (bytes != NULL && fread(bytes, 1, *size, file) != *size) {
        free(bytes);
        bytes = NULL;
    }
    if (bytes == NULL) {
        snprintf(error->text, sizeof error->text, "cannot read %s: %s", path,
                 end > MOST_BYTES ? "it has more than a gigabyte" : strerror(errno));
    }
    if (file != NULL) fclose(file);
    return bytes;
}

static bool decode(tjhandle decoder, const char *path, const unsigned char *bytes,
                   unsigned long size, int64_t channels, loaded *picture, source_error *error) {
    int width, height, subsampling, colours;
    if (tjDecompressHeader3(decoder, bytes, size, &width, &height, &subsampling, &colours) != 0) {
        snprintf(error->text, sizeof error->text, "%s is damaged or truncated: %s", path,
                 tjGetErrorStr2(decoder));
        return false;
    }
    if (colours == TJCS_CMYK || colours == TJCS_YCCK) {
        return refuse(error, path, "is a JPEG picture for print (CMYK), which is not read");
    }
    if ((int64_t)width * height > UF_PNG_MAX_PIXELS) {
        return refuse(error, path, "has more pixels than are read");
    }
    const int wanted = channels == 1 ? 1 : 3;
    picture->memory = malloc((size_t)width * (size_t)height * (size_t)wanted);
    if (picture->memory == NULL) return refuse(error, path, "does not fit into memory");
    if (tjDecompress2(decoder, bytes, size, picture->memory, width, 0, height,
                      wanted == 1 ? TJPF_GRAY : TJPF_RGB, 0) != 0) {
        snprintf(error->text, sizeof error->text, "%s is damaged or truncated: %s", path,
                 tjGetErrorStr2(decoder));
        return false;
    }
    picture->samples = (samples){
        .values = picture->memory,
        .type = SAMPLE_U8,
        .width = width,
        .height = height,
        .channels = wanted,
        .pixel_stride = wanted,
        .channel_stride = 1,
    };
    return true;
}

bool source_load_jpeg(const char *path, int64_t channels, loaded *picture, source_error *error) {
    unsigned long size = 0;
    unsigned char *bytes = read_file(path, &size, error);
    tjhandle decoder = bytes != NULL ? tjInitDecompress() : NULL;
    bool done = false;
    if (decoder != NULL) {
        done = decode(decoder, path, bytes, size, channels, picture, error);
        tjDestroy(decoder);
    } else if (bytes != NULL) {
        (void)refuse(error, path, "cannot be read: libjpeg-turbo does not begin");
    }
    free(bytes);
    return done;
}

#endif
