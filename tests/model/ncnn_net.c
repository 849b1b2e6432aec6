#include "model/ncnn_net.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void net_begin(net *made) {
    memset(made, 0, sizeof *made);
    net_add(made, "7767517\n1 1\n");
}

void net_add(net *made, const char *format, ...) {
    const size_t used = strlen(made->text);
    va_list arguments;
    va_start(arguments, format);
    const int wrote = vsnprintf(made->text + used, sizeof made->text - used, format, arguments);
    va_end(arguments);
    assert_true(wrote >= 0 && (size_t)wrote < sizeof made->text - used);
}

/* A multiple of 1/64, -63/64 to 63/64. */
static double number(int32_t seed, int32_t i) {
    uint32_t mixed = (uint32_t)seed * 2654435761u + (uint32_t)i * 40503u + 12345u;
    mixed ^= mixed >> 15;
    mixed *= 2246822519u;
    mixed ^= mixed >> 13;
    return ((int32_t)(mixed % 127u) - 63) / 64.0;
}

/* Exact for the numbers above. */
static uint16_t half_of(double value) {
    int exponent;
    const double mantissa = frexp(fabs(value), &exponent);
    const unsigned sign = value < 0.0 ? 0x8000u : 0u;
    return value == 0.0 ? 0
                        : (uint16_t)(sign | (unsigned)(exponent + 14) << 10 |
                                     (unsigned)((2.0 * mantissa - 1.0) * 1024.0));
}

static void put(net *made, const void *bytes, size_t size) {
    assert_true(made->bin_size + size <= sizeof made->bin);
    memcpy(made->bin + made->bin_size, bytes, size);
    made->bin_size += size;
}

const double *net_weights(net *made, int64_t count, net_type type, bool positive) {
    static const unsigned char tags[][4] = {
        [NET_F32] = {0, 0, 0, 0}, [NET_F16] = {0x47, 0x6b, 0x30, 0x01}};
    double *to = made->weights + made->weight_count;
    assert_true(made->weight_count + count <= NET_MOST);
    if (type != NET_RAW) {
        put(made, tags[type], sizeof tags[type]);
    }
    for (int64_t i = 0; i < count; ++i) {
        const double value = number(7, made->weight_count++);
        to[i] = positive ? fabs(value) + 1.0 / 64.0 : value;
        const float single = (float)to[i];
        const uint16_t half = half_of(to[i]);
        put(made, type == NET_F16 ? (const void *)&half : &single, type == NET_F16 ? 2 : 4);
    }
    while (made->bin_size % 4 != 0) {
        put(made, "\xff", 1);
    }
    return to;
}

net_value net_made_value(int32_t dims, int64_t c, int64_t h, int64_t w, int32_t seed) {
    net_value value = {.dims = dims, .extent = {c, h, w}};
    for (int32_t i = 0; i < c * h * w; ++i) {
        value.v[i] = number(seed, i);
    }
    return value;
}

void net_add_input(net *made, const char *name, const net_value *value) {
    static const int keys[] = {2, 1, 0};
    net_add(made, "Input %s 0 1 %s", name, name);
    for (int i = 3 - value->dims; i < 3; ++i) {
        net_add(made, " %d=%d", keys[i], (int)value->extent[i]);
    }
    net_add(made, "\n");
}

static void write_file(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

uf_status net_load(uf_context *context, const net *made, const uf_ncnn_options *options,
                   uf_model **model) {
    char folder[] = "/tmp/unfurl-ncnn-XXXXXX", param[64], bin[64];
    assert_non_null(mkdtemp(folder));
    snprintf(param, sizeof param, "%s/net.param", folder);
    snprintf(bin, sizeof bin, "%s/net.bin", folder);
    write_file(param, made->text, strlen(made->text));
    /* A network without weights has a file too, which ncnn writes with nothing in it. */
    write_file(bin, made->bin, made->bin_size);
    const uf_status status = uf_model_load_ncnn(context, param, bin, options, model);
    assert_int_equal(remove(param), 0);
    assert_int_equal(remove(bin), 0);
    assert_int_equal(rmdir(folder), 0);
    return status;
}

static uf_shape shape_of(const net_value *value) {
    uf_shape shape = UF_SHAPE(1);
    for (int i = 3 - value->dims; i < 3; ++i) {
        shape.extent[shape.rank++] = value->extent[i];
    }
    return shape;
}

void net_expect_model(uf_model *model, const char *label, const net_value *inputs,
                      int32_t input_count, const net_value *expected) {
    uf_program_options options = uf_program_options_default();
    uf_input_shape shapes[4];
    uf_program *program;
    options.dtype = UF_F64;
    options.input_shapes = shapes;
    options.input_shape_count = input_count;
    for (int32_t i = 0; i < input_count; ++i) {
        shapes[i] = (uf_input_shape){uf_model_io_name(model, false, i), shape_of(&inputs[i])};
    }
    assert_ok(uf_program_compile(uf_model_graph(model), &options, &program));
    for (int32_t i = 0; i < input_count; ++i) {
        assert_ok(uf_tensor_upload(uf_program_input(program, shapes[i].input), inputs[i].v));
    }
    assert_ok(uf_program_run(program));
    const uf_tensor *output = uf_program_output(program, "y");
    const uf_shape shape = uf_tensor_shape(output), wanted = shape_of(expected);
    char text[64], other[64];
    if (!uf_shape_equal(&shape, &wanted)) {
        fail_msg("%s: the output is %s, it should be %s", label,
                 uf_shape_format(&shape, text, sizeof text),
                 uf_shape_format(&wanted, other, sizeof other));
    }
    static double got[NET_MOST];
    assert_ok(uf_tensor_download(output, got));
    for (int64_t i = 0; i < uf_shape_count(&shape); ++i) {
        const double error = fabs(got[i] - expected->v[i]);
        if (!(error <= 1e-12 * (1.0 + fabs(expected->v[i])))) {
            fail_msg("%s: element %d is %.17g, it should be %.17g", label, (int)i, got[i],
                     expected->v[i]);
        }
    }
    uf_program_destroy(program);
}

void net_expect(uf_context *context, const net *made, const char *label, const net_value *inputs,
                int32_t input_count, const net_value *expected) {
    uf_ncnn_options options = uf_ncnn_options_default();
    uf_model *model;
    options.dtype = UF_F64;
    const uf_status status = net_load(context, made, &options, &model);
    if (status != UF_OK) {
        fail_msg("%s: %s", label, uf_last_error());
    }
    net_expect_model(model, label, inputs, input_count, expected);
    uf_model_destroy(model);
}
