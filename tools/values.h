/* values.h - what goes into a program and comes out: arrays of f64 or i64, from files and back. */
#ifndef UF_TOOLS_VALUES_H
#define UF_TOOLS_VALUES_H

#include <stdbool.h>

#include <unfurl/unfurl.h>

struct values {
    uf_dtype dtype; /* UF_F64 or UF_I64 */
    uf_shape shape;
    void *data;   /* owned; freed by values_free */
    int64_t rate; /* of a sound: samples a second; else 0 */
};

/* Reserve memory for a shape. */
int values_create(uf_dtype dtype, uf_shape shape, struct values *values);
void values_free(struct values *values); /* a zeroed struct is legal */

/* Is it a file of a PNG or JPEG picture? By its contents, as for all files that are read. */
bool values_is_picture(const char *path);

/* An input as the command line says it, other than a picture. `word` is what stands behind NAME=:
 *   FILE of .npy, FILE of HDF5 (the dataset NAME or inputs/NAME), FILE:DATASET, FILE of .wav
 *   randn, rand, zeros, randint:K, each with :EXTENT,EXTENT,... where the shape is not `usual`
 * Random numbers follow the context's seed and the input's name. */
int values_read(uf_context *context, const char *name, const char *word, uf_dtype dtype,
                const uf_shape *usual, struct values *values);

/* Write to FILE.npy, or to FILE.h5 as the dataset NAME, in the program's type. */
int values_write(const char *path, const char *name, uf_dtype dtype, const struct values *values);

/* Put `more` behind `values` along the first axis; the other extents are equal. */
int values_append(const char *name, struct values *values, const struct values *more);

/* Sounds (values_sound.c). An input: (1, channels, length), or (channels, length) or (length) where
 * `usual` has that rank. */
int values_read_sound(const char *path, const char *name, const uf_shape *usual,
                      struct values *values);

/* An output of such a shape as sound, of `rate` samples a second. */
int values_write_sound(const char *path, const char *name, const struct values *values,
                       int64_t rate);

/* The picture that went in: its extents, and those up to the map's multiple. */
struct values_frame {
    int64_t height, width, whole_height, whole_width; /* all 0: none did */
};

struct values_frame values_frame_of(const uf_picture *picture, const uf_picture_map *map);

/* The shape of the input that the picture of a frame makes, borders included. */
uf_shape values_shape_of(const struct values_frame *frame, const uf_picture_map *map,
                         int64_t channels);

/* Pictures (values_picture.c). An input: (1, C, H, W) by the map; `channels` is C. */
int values_read_picture(const char *path, const uf_picture_map *map, int64_t channels,
                        struct values *values, struct values_frame *frame);

/* An output (N, C, H, W), all images in one picture: one, or a grid (grid.h). The part of each
 * image is written that belongs to the picture of the frame; without one, all of it. */
int values_write_picture(const char *path, const char *name, const uf_picture_map *map,
                         const struct values *values, const struct values_frame *frame,
                         int64_t threads, int64_t quality);

#endif
