/* ncnn_net.h - small networks of ncnn's, made in memory and run as models. */
#ifndef TEST_MODEL_NCNN_NET_H
#define TEST_MODEL_NCNN_NET_H

#include "support/test.h"

enum { NET_MOST = 1024 }; /* elements of a value, and weights of a net */

/* How numbers lie in the .bin: behind a tag of f32 or of f16, or f32 without one. */
typedef enum net_type { NET_RAW, NET_F32, NET_F16 } net_type;

typedef struct net {
    char text[8192];
    unsigned char bin[8 * NET_MOST];
    size_t bin_size;
    double weights[NET_MOST];
    int32_t weight_count;
} net;

/* A value as ncnn has it: (c, h, w), or fewer axes, of which the last one is the width. */
typedef struct net_value {
    int32_t dims;
    int64_t extent[3]; /* c, h, w; 1 where there is no such axis */
    double v[NET_MOST];
} net_value;

static inline double *net_at(net_value *value, int64_t c, int64_t y, int64_t x) {
    return &value->v[(c * value->extent[1] + y) * value->extent[2] + x];
}

/* Magic and counts. */
void net_begin(net *made);

void net_add(net *made, const char *format, ...) UF_PRINTF(2, 3);

/* A tensor of `count` numbers, multiples of 1/64 in -1 to 1 and so exact in f16; `positive`: from
 * 1/64 on. Returns them. */
const double *net_weights(net *made, int64_t count, net_type type, bool positive);

/* A value of numbers of the same kind. */
net_value net_made_value(int32_t dims, int64_t c, int64_t h, int64_t w, int32_t seed);

/* "c=3 ..." is "Input NAME 0 1 NAME 0=w 1=h 2=c" for the value. */
void net_add_input(net *made, const char *name, const net_value *value);

/* Write the two files and make a model of them; the files are gone when it returns. */
uf_status net_load(uf_context *context, const net *made, const uf_ncnn_options *options,
                   uf_model **model);

/* Run in f64 and fail unless the output y is `expected` to 1e-12. Inputs are those named a, b, ...
 * in their order. */
void net_expect(uf_context *context, const net *made, const char *label, const net_value *inputs,
                int32_t input_count, const net_value *expected);

/* The same for a model that is there. */
void net_expect_model(uf_model *model, const char *label, const net_value *inputs,
                      int32_t input_count, const net_value *expected);

#endif
