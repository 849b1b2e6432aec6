/* source.h - where pictures come from: one of the three kinds that data.h names. */
#ifndef EXAMPLES_COMMON_SOURCE_H
#define EXAMPLES_COMMON_SOURCE_H

#include <unfurl/unfurl.h>

#include "common/data.h"
#include "common/resample.h"

/* The sentence of a failure in a thread that may not end the program. */
typedef struct source_error {
    char text[4608];
} source_error;

/* A picture and, where it was read from one, its file; zeroed at first, freed by loaded_free. */
typedef struct loaded {
    samples samples;
    uf_picture file;
} loaded;

void loaded_free(loaded *picture);

typedef struct source {
    int64_t count;      /* pictures, 1 or more */
    int64_t *labels;    /* [count], owned; NULL where there are none */
    int classes;        /* 0 where there are none */
    char **class_names; /* [classes], all owned; NULL: classes are called by number */
    char *description;  /* owned */
    bool is_split;      /* held-out pictures have files of their own, which `held_out` chose */
    void *self;         /* the kind's own */
    /* Give picture `index`. Called by several threads at a time. False where it cannot be read. */
    bool (*load)(void *self, int64_t index, loaded *picture, source_error *error);
    void (*close)(void *self);
} source;

/* Each ends the program with a sentence where the data are wrong. source_open_idx gives false where
 * the folder has no file by one of IDX's names. */
bool source_open_idx(source *to, const data_options *options);
void source_open_folder(source *to, const data_options *options);
void source_open_hdf5(source *to, const data_options *options);

/* Keep a formatted description. */
void source_describe(source *to, const char *format, ...) UF_PRINTF(2, 3);

/* From the labels to the number of classes. `path` is named where a label is out of range. */
void source_count_classes(source *to, const char *path);

#endif
