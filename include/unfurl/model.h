/* model.h - a network as a file: its weights, its graph as text, the shapes of its inputs, and how
 * pictures become its tensors. docs/model-format.md defines it. */
#ifndef UNFURL_MODEL_H
#define UNFURL_MODEL_H

#include <unfurl/inspect.h>
#include <unfurl/program.h>

UF_BEGIN_DECLS

/* A graph with its store and with names for its values. */
typedef struct uf_model uf_model;

typedef struct uf_model_options {
    size_t struct_size;
    uf_dtype dtype; /* of the store: UF_F32 (default) or UF_F64 */
    bool untrusted; /* false; true: libhdf5 is not asked for weights that the library's own reader
                       does not know, as in uf_hdf5_load_options */
} uf_model_options;

static inline uf_model_options uf_model_options_default(void) {
    uf_model_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.dtype = UF_F32;
    return options;
}

/* Read a model file: makes a store and a graph, and loads the weights. The file may come from
 * anybody. Destroyed by the caller or with its context. `options` may be NULL; *model is NULL on
 * failure. Errors: NOT_FOUND, IO, FORMAT (no model, or text that is wrong: with line and column),
 * SHAPE (weights that lack or do not fit), OUT_OF_MEMORY. */
UF_API UF_NODISCARD uf_status uf_model_load(uf_context *context, const char *path,
                                            const uf_model_options *options, uf_model **model);

/* The same from `size` bytes of text alone; the store stays open and without contents. `name` is
 * for messages. */
UF_API UF_NODISCARD uf_status uf_model_parse(uf_context *context, const char *name,
                                             const char *text, size_t size,
                                             const uf_model_options *options, uf_model **model);

/* A model of a graph that a program has built; it keeps the graph and its store alive. Values are
 * named by their scopes and layers. Where all inputs have one first extent it is the symbol N.
 * Errors: INVALID_ARGUMENT (a graph that failed, or with layers of two stores), UNSUPPORTED (a
 * layer that a file cannot describe, with its name), OUT_OF_MEMORY. */
UF_API UF_NODISCARD uf_status uf_model_create(uf_graph *graph, uf_model **model);

UF_API void uf_model_destroy(uf_model *model); /* NULL is legal */

/* Write the text and the tensors that the graph names, as a whole file or none. Seals the store.
 * Errors: as uf_store_save_hdf5. */
UF_API UF_NODISCARD uf_status uf_model_save(uf_model *model, const char *path);

/* Write the text, line by line. Errors: INVALID_ARGUMENT. */
UF_API UF_NODISCARD uf_status uf_model_write(const uf_model *model, uf_line_function write,
                                             void *user);

/* Write a C program that builds the same graph with the functions of layers.h and runs it, line by
 * line: one that a person could have written. Errors: INVALID_ARGUMENT, OUT_OF_MEMORY. */
UF_API UF_NODISCARD uf_status uf_model_write_c(const uf_model *model, uf_line_function write,
                                               void *user);

/* Borrowed from the model. NULL of NULL; the store of a graph without parameters that a program has
 * built is NULL too. */
UF_API uf_graph *uf_model_graph(const uf_model *model);
UF_API uf_store *uf_model_store(const uf_model *model);

/* The inputs and the layers' values, in their order: how many, and the name of each (NULL where
 * there is none of that number). */
UF_API int32_t uf_model_value_count(const uf_model *model);
UF_API const char *uf_model_value_name(const uf_model *model, int32_t index);

/* A value by name. *value is zeroed on failure. Errors: INVALID_ARGUMENT. */
UF_API UF_NODISCARD uf_status uf_model_value(const uf_model *model, const char *name,
                                             uf_value *value);

/* The graph's inputs: how many, and the type of each, UF_F32 for real values and UF_I64 for
 * indices. A number that there is not has UF_F32. */
UF_API int32_t uf_model_input_count(const uf_model *model);
UF_API uf_dtype uf_model_input_dtype(const uf_model *model, int32_t index);

/* The graph's outputs: how many. */
UF_API int32_t uf_model_output_count(const uf_model *model);

/* The name of the graph's input, or output, of this number; NULL where there is none. */
UF_API const char *uf_model_io_name(const uf_model *model, bool output, int32_t index);

/* Shapes of all inputs for a program, in the order of the graph's inputs, from those in `given`:
 * the symbols that they fix hold for the others too. `shapes` gets one for each input, with names
 * that the model owns. Errors: INVALID_ARGUMENT (an unknown input), SHAPE (a rank or extent that is
 * not free, two extents for one symbol). */
UF_API UF_NODISCARD uf_status uf_model_input_shapes(const uf_model *model,
                                                    const uf_input_shape *given, int32_t count,
                                                    uf_input_shape *shapes);

typedef enum uf_channel_order {
    UF_CHANNELS_AUTO = 0, /* one channel is grey, three are RGB */
    UF_CHANNELS_RGB,
    UF_CHANNELS_BGR,
    UF_CHANNELS_GREY
} uf_channel_order;

/* Between a picture's samples, 0 to 1, and a tensor's channel c:
 *   x = (minimum + sample * (maximum - minimum) - mean[c]) / std[c] */
typedef struct uf_picture_map {
    size_t struct_size;
    double minimum, maximum;   /* 0, 1 */
    double mean[3], std[3];    /* 0 and 1; by the tensor's channels */
    uf_channel_order channels; /* UF_CHANNELS_AUTO */
    uf_pad_mode border_mode;   /* UF_PAD_REPLICATE */
    int64_t border;            /* 0: rows and columns added on each side of an input */
    int64_t scale;    /* 1: an output's picture is so many times as large as the input's; of a
                         larger output the centre counts */
    int64_t multiple; /* 1: an input gets rows below and columns on the right, like those of
                         the border, until the picture's extents are multiples of it */
} uf_picture_map;

static inline uf_picture_map uf_picture_map_default(void) {
    uf_picture_map map;
    memset(&map, 0, sizeof map);
    map.struct_size = sizeof map;
    map.maximum = 1.0;
    map.std[0] = map.std[1] = map.std[2] = 1.0;
    map.border_mode = UF_PAD_REPLICATE;
    map.scale = 1;
    map.multiple = 1;
    return map;
}

/* How a picture becomes the input `name`, or how the output `name` becomes a picture. Overwrites
 * *map; the defaults where the model says nothing. Errors: INVALID_ARGUMENT, for an unknown name
 * too. */
UF_API UF_NODISCARD uf_status uf_model_picture_sized(const uf_model *model, bool output,
                                                     const char *name, uf_picture_map *map,
                                                     size_t map_size);
static inline UF_NODISCARD uf_status uf_model_picture(const uf_model *model, bool output,
                                                      const char *name, uf_picture_map *map) {
    return uf_model_picture_sized(model, output, name, map, sizeof *map);
}

/* Say it, in place of what the model said. Errors: INVALID_ARGUMENT (an unknown name, numbers that
 * are not finite, maximum not above minimum, a std that is not above 0, a border, scale or
 * multiple out of range), OUT_OF_MEMORY. */
UF_API UF_NODISCARD uf_status uf_model_set_picture(uf_model *model, bool output, const char *name,
                                                   const uf_picture_map *map);

/* Options in the words of a model's picture line, "range=(-1, 1) border=7": the others have their
 * defaults. Overwrites *map. Errors: INVALID_ARGUMENT, FORMAT (with the column). */
UF_API UF_NODISCARD uf_status uf_picture_map_parse_sized(const char *text, uf_picture_map *map,
                                                         size_t map_size);
static inline UF_NODISCARD uf_status uf_picture_map_parse(const char *text, uf_picture_map *map) {
    return uf_picture_map_parse_sized(text, map, sizeof *map);
}

UF_END_DECLS

#endif
