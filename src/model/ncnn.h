/* ncnn.h - a network of ncnn's on its way to a model: the lines of its text, the blobs that they
 * name, and the weights that wait in its second file. */
#ifndef UF_MODEL_NCNN_H
#define UF_MODEL_NCNN_H

#include <unfurl/ncnn.h>

#include "model/model.h"

enum {
    UF_NCNN_NAME_SIZE = 128,   /* of a layer or a blob, with its zero */
    UF_NCNN_MOST_BLOBS = 64,   /* that a layer reads or writes */
    UF_NCNN_MOST_NUMBERS = 64, /* of an array */
    UF_NCNN_KEYS = 32,         /* options of a layer are numbered */
    UF_NCNN_ABSENT = -233      /* a number that stands for none */
};

/* An option: one number, or an array. */
typedef struct uf_ncnn_option {
    bool given, used;
    bool array;
    bool whole; /* every number is an integer of the range of int32_t */
    int32_t count;
    double numbers[UF_NCNN_MOST_NUMBERS];
} uf_ncnn_option;

/* A line of the text. */
typedef struct uf_ncnn_layer {
    char type[UF_NCNN_NAME_SIZE], name[UF_NCNN_NAME_SIZE];
    int32_t bottom_count, top_count;
    char bottoms[UF_NCNN_MOST_BLOBS][UF_NCNN_NAME_SIZE],
        tops[UF_NCNN_MOST_BLOBS][UF_NCNN_NAME_SIZE];
    uf_ncnn_option options[UF_NCNN_KEYS];
} uf_ncnn_layer;

/* The text, read a line at a time. */
typedef struct uf_ncnn_text {
    const char *path; /* for messages */
    const char *at, *end;
    int32_t line; /* from 1; 0 before the first */
} uf_ncnn_text;

/* The value that a layer made. */
typedef struct uf_ncnn_blob {
    char name[UF_NCNN_NAME_SIZE]; /* the first member, for the index */
    uf_value value;
    bool read;
    int64_t multiple[2]; /* height and width are multiples of these, whatever the input's are */
} uf_ncnn_blob;

/* How a tensor lies in the file. */
typedef struct uf_ncnn_order {
    /* ncnn's deconvolution has (groups, out, in, kernel) and PyTorch's (groups, in, out, kernel);
     * with groups of 0 the order is the same. */
    int64_t groups, out, in, kernel;
} uf_ncnn_order;

/* A tensor of the store that waits for its contents. */
typedef struct uf_ncnn_weight {
    char name[UF_NAME_SIZE];
    int64_t at, count; /* the first byte in the file, and elements */
    bool half;         /* f16 */
    uf_ncnn_order order;
    double *made; /* contents that are not the file's; owned */
} uf_ncnn_weight;

typedef struct uf_ncnn {
    uf_model *model;
    uf_graph *graph;
    uf_ncnn_options options;
    uf_ncnn_text text;
    uf_ncnn_layer layer; /* of the line that is read */
    uf_ncnn_blob *blobs;
    int32_t blob_count, blob_capacity;
    uf_index blob_names;
    const char *bin; /* path */
    int descriptor;
    int64_t bin_size, bin_at;
    uf_ncnn_weight *weights;
    int32_t weight_count, weight_capacity;
    int64_t made; /* elements of weights that are not the file's */
    bool fixed;   /* a layer means another thing for another height and width */
    /* The first complaint about the layer, as a builder keeps it. */
    uf_status status;
    char message[UF_MESSAGE_SIZE];
} uf_ncnn;

/* ---- text ---- */

/* Check the first two lines. */
uf_status uf_ncnn_begin(uf_ncnn_text *text);

/* The next line that has words. *more: there is one. */
uf_status uf_ncnn_next(uf_ncnn_text *text, uf_ncnn_layer *layer, bool *more);

/* Complaints: the first one is kept, and fails the layer when its function has returned. */
void uf_ncnn_refuse(uf_ncnn *net, uf_status status, const char *format, ...) UF_PRINTF(3, 4);

/* Options by their number; `fallback` where the line lacks it. An integer is of the range of
 * int32_t. */
bool uf_ncnn_has(const uf_ncnn *net, int32_t key);
int64_t uf_ncnn_integer(uf_ncnn *net, int32_t key, int64_t fallback);
double uf_ncnn_number(uf_ncnn *net, int32_t key, double fallback);
/* An array's length and numbers; of one number too. 0: there is none. */
int32_t uf_ncnn_array(uf_ncnn *net, int32_t key, const double **numbers);

/* The same of integers, which are copied; others are refused. */
int32_t uf_ncnn_integers(uf_ncnn *net, int32_t key, int64_t numbers[UF_NCNN_MOST_NUMBERS]);

/* Refuse the option unless it has this value, for which it does nothing. */
void uf_ncnn_only(uf_ncnn *net, int32_t key, const char *what, int64_t value);

/* Look at no option of these, ended by -1: they say nothing about the values. */
void uf_ncnn_ignore(uf_ncnn *net, const int32_t *keys);

/* ---- weights ---- */

/* Read `size` bytes from place `at` of an open file, whose path is for messages. */
uf_status uf_ncnn_read(int descriptor, const char *path, int64_t at, size_t size, void *bytes);

uf_status uf_ncnn_open_weights(uf_ncnn *net);

/* The next tensor of the file becomes scope.name. `tagged`: four bytes say of which type it is. */
void uf_ncnn_take(uf_ncnn *net, const char *name, int64_t count, bool tagged, uf_ncnn_order order);

/* The next tensor becomes a value of this shape, in f32 and without a tag. */
uf_value uf_ncnn_take_parameter(uf_ncnn *net, const char *name, uf_shape shape);

/* A tensor with contents of our own, which are taken over. NULL is out of memory. */
void uf_ncnn_give(uf_ncnn *net, const char *name, int64_t count, double *contents);

/* Fill the store. */
uf_status uf_ncnn_load(uf_ncnn *net);

/* ---- layers ---- */

/* The scope of the layer's parameters. */
uf_scope uf_ncnn_scope(const uf_ncnn *net);

/* The layer's input number `i`, and its shape with the batch axis in front. */
uf_value uf_ncnn_bottom(uf_ncnn *net, int32_t i);
uf_shape uf_ncnn_shape(const uf_ncnn *net, uf_value value);

/* Refuse an input that has not `rank` axes, the batch counted. false: it was refused. */
bool uf_ncnn_need_rank(uf_ncnn *net, uf_value value, int32_t rank);

/* An axis of ncnn's of a value with `rank` axes: 0 is the one behind the batch. */
int32_t uf_ncnn_axis(uf_ncnn *net, int64_t axis, int32_t rank);

/* Appends a line of its type to the graph, and gives the values of the tops. */
typedef void uf_ncnn_function(uf_ncnn *net, uf_value *tops);

typedef struct uf_ncnn_kind {
    const char *type;
    uf_ncnn_function *convert;
    int32_t least_bottoms, most_bottoms;
    int32_t most_tops; /* 1 at least */
} uf_ncnn_kind;

/* Lists of kinds, ended by a type of NULL. */
extern const uf_ncnn_kind uf_ncnn_conv_kinds[], uf_ncnn_pointwise_kinds[], uf_ncnn_norm_kinds[],
    uf_ncnn_shape_kinds[], uf_ncnn_image_kinds[];

/* The activation that a convolution's options 9 and 10 name, on its value. */
uf_value uf_ncnn_activation(uf_ncnn *net, uf_value value);

/* x + number, x * clamp(alpha x + beta, 0, 1) and the like have no layer of their own. */
uf_value uf_ncnn_constant(uf_ncnn *net, uf_value like, double number);

/* For every extent of the network's input, is this value's height (0) or width (1) a multiple? */
bool uf_ncnn_is_multiple(const uf_ncnn *net, int32_t bottom, int64_t of);

#endif
