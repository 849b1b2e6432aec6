/* function.h - the functions of layers.h as data: the names, kinds and defaults of their options,
 * and where a layer keeps each of them. Models are read, written and printed as C by these rows
 * alone (src/model/). A layer's file has the rows of its functions. */
#ifndef UF_LAYERS_FUNCTION_H
#define UF_LAYERS_FUNCTION_H

#include "layers/layer.h"

/* The member of the attributes at `offset`. */
typedef enum uf_option_kind {
    UF_OPTION_INTEGER = 0, /* int64_t */
    UF_OPTION_SMALL,       /* int32_t */
    UF_OPTION_PAIR,        /* int64_t[2] */
    UF_OPTION_NUMBER,      /* double */
    UF_OPTION_NUMBERS,     /* double[2] */
    UF_OPTION_FLAG,        /* bool */
    UF_OPTION_CHOICE,      /* an enumeration from 0 on, in the order of `words` */
    UF_OPTION_AXES,        /* int32_t[UF_MAX_RANK]; their number is the int32_t at `count` */
    UF_OPTION_SHAPE,       /* uf_shape */
    UF_OPTION_NAME         /* char[UF_PARAMETER_NAME_SIZE] */
} uf_option_kind;

typedef enum uf_option_place {
    UF_PLACE_ARGUMENT = 0, /* an argument behind the values and the scope */
    UF_PLACE_FIRST,        /* an argument behind the graph */
    UF_PLACE_FIELD,        /* a field of the options struct, which is the last argument */
    UF_PLACE_FIXED,        /* no option: the attribute is `fallback`, which tells the function */
    UF_PLACE_INPUTS        /* no option: a bool, whether the last input that may be there is */
} uf_option_place;

/* A word of an enumeration, and its name in C. */
typedef struct uf_option_word {
    const char *word, *constant;
} uf_option_word;

typedef struct uf_option {
    const char *name; /* of an argument or field as layers.h has it */
    uf_option_kind kind;
    uf_option_place place;
    bool required; /* there is no default */
    size_t offset, count;
    double fallback; /* the default of each number; an integer from 2^63 on is INT64_MAX */
    const uf_option_word *words; /* ended by a word of NULL */
} uf_option;

/* A layer's list of them is ended by one without a name. */
typedef struct uf_layer_function {
    const char *name; /* "conv2d" of uf_conv2d */
    size_t size;      /* of the attributes */
    int32_t least_inputs, most_inputs;
    bool list;           /* the values are an array and a count */
    bool scope;          /* it has an argument for the scope */
    const char *options; /* "uf_conv2d_options"; NULL: it has no such struct */
    /* "UF_CONV2D": a macro of kernel, stride, padding and bias that gives a pointer to options
     * whose other fields are the defaults; NULL: there is none. */
    const char *shorthand;
    const uf_option *table;
    int32_t count; /* of the table */
    void (*complete)(
        void *attributes); /* make the attributes that follow from others; may be NULL */
} uf_layer_function;

#define UF_TABLE(rows) .table = (rows), .count = (int32_t)(sizeof(rows) / sizeof *(rows))

/* Rows of a table: the name that users know, and the member of the attributes. */
#define UF_ARGUMENT(kind_, name_, type_, member_, fallback_)                                       \
    {                                                                                              \
        .name = (name_), .kind = UF_OPTION_##kind_, .place = UF_PLACE_ARGUMENT,                    \
        .offset = offsetof(type_, member_), .fallback = (fallback_)                                \
    }
#define UF_REQUIRED(kind_, name_, type_, member_)                                                  \
    {                                                                                              \
        .name = (name_), .kind = UF_OPTION_##kind_, .place = UF_PLACE_ARGUMENT, .required = true,  \
        .offset = offsetof(type_, member_)                                                         \
    }
#define UF_FIELD(kind_, name_, type_, member_, fallback_)                                          \
    {                                                                                              \
        .name = (name_), .kind = UF_OPTION_##kind_, .place = UF_PLACE_FIELD,                       \
        .offset = offsetof(type_, member_), .fallback = (fallback_)                                \
    }
#define UF_FIXED(kind_, type_, member_, value_)                                                    \
    {                                                                                              \
        .kind = UF_OPTION_##kind_, .place = UF_PLACE_FIXED, .offset = offsetof(type_, member_),    \
        .fallback = (value_)                                                                       \
    }

extern const uf_option_word uf_reduction_words[]; /* of uf_reduction: loss.c */

#endif
