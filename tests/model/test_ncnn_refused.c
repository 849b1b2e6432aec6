/* test_ncnn_refused.c - networks of ncnn's that are damaged, or that unfurl cannot run: a status
 * and a sentence with the line; and the extents that a model leaves free. */
#include "model/ncnn_net.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define HEAD "7767517\n1 1\n"
#define INPUT "Input a 0 1 a 0=4 1=6 2=3\n"

/* ---- refusals ---- */

typedef struct refusal {
    const char *text;
    int64_t weights; /* of them: a tag and as many numbers; 0: an empty file */
    uf_status status;
    const char *words;
} refusal;

static const refusal refusals[] = {
    {"", 0, UF_ERROR_FORMAT, "net.param is empty"},
    {"\n\n", 0, UF_ERROR_FORMAT, "a .param of ncnn begins with 7767517, not with ''"},
    {"7767518\n", 0, UF_ERROR_FORMAT, "line 1: a .param of ncnn begins with 7767517"},
    {"7767517\n", 0, UF_ERROR_FORMAT, "the numbers of layers and blobs are missing"},
    {"7767517\nx 1\n", 0, UF_ERROR_FORMAT, "line 2: the number of layers is 'x'"},
    {"7767517\n1 -1\n", 0, UF_ERROR_FORMAT, "line 2: the number of blobs is '-1'"},
    {HEAD, 0, UF_ERROR_FORMAT, "the network has no output"},
    {HEAD "Input\n", 0, UF_ERROR_FORMAT, "line 3: the layer's name has 0 bytes"},
    {HEAD "Input a\n", 0, UF_ERROR_FORMAT, "line 3: the number of inputs is ''"},
    {HEAD "Input a 0 65 a\n", 0, UF_ERROR_FORMAT, "the number of outputs is '65'"},
    {HEAD "Input a 0 2 a\n", 0, UF_ERROR_FORMAT, "an output's name has 0 bytes"},
    {HEAD "Input a 1 1 b a\n", 0, UF_ERROR_FORMAT, "no layer above writes a blob named b"},
    {HEAD "Input a 0 1 \xff\xfe\n", 0, UF_ERROR_FORMAT, "has the byte 0xff in it"},
    {HEAD "Input a 0 1 a 0=x\n", 0, UF_ERROR_FORMAT, "option 0 is 'x'; it must be a number"},
    {HEAD "Input a 0 1 a 0=1e999\n", 0, UF_ERROR_FORMAT, "option 0 is '1e999'"},
    {HEAD "Input a 0 1 a 0=nan\n", 0, UF_ERROR_FORMAT, "option 0 is 'nan'"},
    {HEAD "Input a 0 1 a 32=1\n", 0, UF_ERROR_FORMAT, "'32=1' is no option"},
    {HEAD "Input a 0 1 a -1=1\n", 0, UF_ERROR_FORMAT, "'-1=1' is no option"},
    {HEAD "Input a 0 1 a w\n", 0, UF_ERROR_FORMAT, "'w' is no option"},
    {HEAD "Input a 0 1 a 0=1 0=1\n", 0, UF_ERROR_FORMAT, "option 0 is there twice"},
    {HEAD "Input a 0 1 a 0=1,2\n", 0, UF_ERROR_FORMAT, "option 0 has more numbers than the 1"},
    {HEAD "Input a 0 1 a -23300=2,1\n", 0, UF_ERROR_FORMAT, "option 0 is ''; it must be a number"},
    {HEAD "Input a 0 1 a -23300=65,1\n", 0, UF_ERROR_FORMAT, "option 0 has '65' numbers"},
    {HEAD "Input a 0 1 a -23300=1,1\n", 0, UF_ERROR_FORMAT, "option 0 is an array"},
    {HEAD "Input a 0 1 a 0=4.5 1=6 2=3\n", 0, UF_ERROR_FORMAT, "option 0 is 4.5; it must be an"},
    {HEAD "Input a 0 1 a 0=-4 1=6 2=3\n", 0, UF_ERROR_FORMAT, "an extent of -4"},
    {HEAD "Input a 0 1 a 0=4 1=6 2=3 11=2\n", 0, UF_ERROR_UNSUPPORTED, "d (option 11) is 2"},
    {HEAD "Input a 0 1 a\nReLU y 1 1 a y\n", 0, UF_ERROR_UNSUPPORTED, "nothing says how many"},
    {HEAD INPUT "Input b 0 1 a\n", 0, UF_ERROR_FORMAT, "line 4: Input b: a layer above writes"},
    {HEAD INPUT "ReLU y 1 1 a a\n", 0, UF_ERROR_FORMAT, "a layer above writes a blob named a too"},
    {HEAD INPUT "ReLU y 1 1 x y\n", 0, UF_ERROR_FORMAT, "line 4: ReLU y: no layer above writes"},
    {HEAD INPUT "Split y 1 2 a y y\n", 0, UF_ERROR_FORMAT, "writes a blob named y twice"},
    {HEAD INPUT "ReLU y 2 1 a a y\n", 0, UF_ERROR_FORMAT, "2 inputs and 1 outputs"},
    {HEAD INPUT "ReLU y 1 2 a y z\n", 0, UF_ERROR_FORMAT, "1 inputs and 2 outputs"},
    {HEAD INPUT "ReLU y 1 0 a\n", 0, UF_ERROR_FORMAT, "1 inputs and 0 outputs"},
    {HEAD INPUT "ReLU y 1 1 a y 1=2\n", 0, UF_ERROR_UNSUPPORTED, "option 1 is none that unfurl"},
    {HEAD INPUT "LSTM y 1 1 a y\n", 0, UF_ERROR_UNSUPPORTED, "line 4: LSTM y: unfurl has no layer"},
    {HEAD INPUT "Convolution y 1 1 a y 0=2 1=0 6=6\n", 7, UF_ERROR_FORMAT, "a kernel of 0"},
    {HEAD INPUT "Convolution y 1 1 a y 0=2 1=1 6=7\n", 7, UF_ERROR_SHAPE,
     "an input of 3 channels takes 6 weights; the line says 7"},
    {HEAD INPUT "Convolution y 1 1 a y 0=2 1=1 6=6 4=-1\n", 7, UF_ERROR_FORMAT, "a padding of -1"},
    {HEAD INPUT "Convolution y 1 1 a y 0=2 1=1 6=6 18=1.0\n", 7, UF_ERROR_UNSUPPORTED, "pad_value"},
    {HEAD INPUT "Convolution y 1 1 a y 0=2 1=1 6=6 8=1\n", 7, UF_ERROR_UNSUPPORTED, "int8_scale"},
    {HEAD INPUT "Convolution y 1 1 a y 0=2 1=1 6=6 9=7\n", 7, UF_ERROR_UNSUPPORTED, "is 7; unfurl"},
    {HEAD INPUT "Convolution y 1 1 a y 0=2 1=1 6=6 9=3 -23310=1,2\n", 7, UF_ERROR_FORMAT,
     "activation_type 3 needs 2 numbers"},
    {HEAD INPUT "Convolution y 1 1 a y 0=2 1=9 6=486\n", 487, UF_ERROR_FORMAT,
     "line 4: Convolution"},
    {HEAD INPUT "Convolution y 1 1 a y 0=2 1=1 6=6\n", 6, UF_ERROR_FORMAT, "has 20 bytes left"},
    {HEAD INPUT "Convolution y 1 1 a y 0=2 1=1 6=6\n", 0, UF_ERROR_FORMAT, "ends at byte 0"},
    {HEAD INPUT "Convolution y 1 1 a y 0=2 1=1 6=6 5=1\n", 7, UF_ERROR_FORMAT,
     "bias of y needs 2 elements of 4 bytes"},
    {HEAD INPUT "Convolution y 1 1 a y 0=2 1=1 6=6\n", 8, UF_ERROR_FORMAT,
     "net.bin has 32 bytes; the layers of "},
    {HEAD INPUT "PReLU c 1 1 a b 0=3\nPReLU c 1 1 b y 0=3\n", 6, UF_ERROR_FORMAT,
     "line 5: PReLU c: a layer above has the name c too"},
    {HEAD INPUT "Convolution y 1 1 a y 0=2147483647 1=65535 6=2147483647\n", 7, UF_ERROR_SHAPE,
     "weights; the line says 2147483647"},
    {HEAD INPUT "ConvolutionDepthWise y 1 1 a y 0=2 1=1 6=6 7=2\n", 7, UF_ERROR_FORMAT,
     "3 to 2 channels cannot be in 2 groups"},
    {HEAD INPUT "Deconvolution y 1 1 a y 0=2 1=1 6=6 20=3\n", 7, UF_ERROR_UNSUPPORTED, "20, 21"},
    {HEAD INPUT "Deconvolution y 1 1 a y 0=2 1=1 6=6 4=-1\n", 7, UF_ERROR_FORMAT, "a cut of -1"},
    {HEAD INPUT "InnerProduct y 1 1 a y 0=2 2=6\n", 7, UF_ERROR_SHAPE, "an input of 72 values"},
    {HEAD INPUT "InnerProduct y 1 1 a y 0=4 2=6\n", 7, UF_ERROR_FORMAT, "6 weights cannot be"},
    {HEAD INPUT "Eltwise y 2 1 a a y 0=2\n", 0, UF_ERROR_UNSUPPORTED, "op_type (option 0) is 2"},
    {HEAD INPUT "Eltwise y 2 1 a a y 0=1 -23301=1,1\n", 0, UF_ERROR_FORMAT, "1 coefficients for 2"},
    {HEAD INPUT "Flatten f 1 1 a f\nEltwise y 2 1 a f y\n", 0, UF_ERROR_SHAPE,
     "input 1 is (1, 72)"},
    {HEAD INPUT "BinaryOp y 2 1 a a y 0=6\n", 0, UF_ERROR_UNSUPPORTED, "op_type (option 0) is 6"},
    {HEAD INPUT "BinaryOp y 1 1 a y 0=6 1=1 2=3.0\n", 0, UF_ERROR_UNSUPPORTED, "is 6; of two"},
    {HEAD INPUT "BinaryOp y 1 1 a y 0=0\n", 0, UF_ERROR_FORMAT, "with_scalar (option 1) is 0"},
    {HEAD INPUT "UnaryOp y 1 1 a y 0=9\n", 0, UF_ERROR_UNSUPPORTED, "op_type (option 0) is 9"},
    {HEAD INPUT "SELU y 1 1 a y 0=1.0\n", 0, UF_ERROR_UNSUPPORTED, "alpha is 1"},
    {HEAD INPUT "Clip y 1 1 a y 0=1.0 1=0.0\n", 0, UF_ERROR_FORMAT, "a clip from 1 to 0"},
    {HEAD INPUT "Scale y 1 1 a y 0=2\n", 2, UF_ERROR_SHAPE,
     "the line has 2 numbers and the input 3"},
    {HEAD INPUT "Scale y 1 1 a y 0=-233\n", 0, UF_ERROR_FORMAT, "scale_data_size"},
    {HEAD INPUT "PReLU y 1 1 a y 0=2\n", 2, UF_ERROR_SHAPE, "2 numbers and the input 3 channels"},
    {HEAD INPUT "PReLU y 1 1 a y 0=3\n", 0, UF_ERROR_FORMAT, "needs 3 elements of 4 bytes"},
    {HEAD INPUT "Concat y 2 1 a a y 0=3\n", 0, UF_ERROR_FORMAT, "axis 3 of a value with 3 axes"},
    {HEAD INPUT "Slice y 1 2 a y z -23300=1,1\n", 0, UF_ERROR_FORMAT, "1 extents for 2 outputs"},
    {HEAD INPUT "Slice y 1 2 a y z -23300=2,1,1e30\n", 0, UF_ERROR_FORMAT, "are no integers"},
    {HEAD INPUT "MemoryData m 0 1 m 0=4 1=-1\n", 3, UF_ERROR_FORMAT, "data of m needs -1 elements"},
    {HEAD INPUT "Slice y 1 2 a y z -23300=2,1,3\n", 0, UF_ERROR_SHAPE, "elements 1 to 3"},
    {HEAD INPUT "Crop y 1 1 a y 0=4\n", 0, UF_ERROR_SHAPE, "elements 4 to 3 of an axis with 4"},
    {HEAD INPUT "Crop y 1 1 a y -23309=1,0 -23310=2,1,2\n", 0, UF_ERROR_FORMAT, "1 starts, 2 ends"},
    {HEAD INPUT "Reshape y 1 1 a y 0=5\n", 0, UF_ERROR_SHAPE, "an extent of 5 does not divide"},
    {HEAD INPUT "Reshape y 1 1 a y 0=-1 1=-1\n", 0, UF_ERROR_SHAPE, "an extent of -1"},
    {HEAD INPUT "Reshape y 1 1 a y\n", 0, UF_ERROR_FORMAT, "no extent is given"},
    {HEAD INPUT "Reshape y 1 1 a y 0=5 1=5\n", 0, UF_ERROR_SHAPE, "does not divide"},
    {HEAD INPUT "Reshape y 1 1 a y 0=4\n", 0, UF_ERROR_SHAPE,
     "has 4 elements where (1, 3, 6, 4) has 72"},
    {HEAD INPUT "Permute y 1 1 a y 0=6\n", 0, UF_ERROR_UNSUPPORTED, "order_type"},
    {HEAD INPUT "ExpandDims y 1 1 a y 0=1\n", 0, UF_ERROR_UNSUPPORTED, "would have 4 axes"},
    {HEAD INPUT "Pooling y 1 1 a y 0=2 1=2\n", 0, UF_ERROR_UNSUPPORTED, "pooling_type"},
    {HEAD INPUT "Pooling y 1 1 a y 0=0 1=0\n", 0, UF_ERROR_FORMAT, "a kernel of 0"},
    {HEAD INPUT "Pooling y 1 1 a y 0=0 1=2 3=1 14=0\n", 0, UF_ERROR_UNSUPPORTED, "on both sides"},
    {HEAD INPUT "Pooling y 1 1 a y 0=0 1=1 2=4\n", 0, UF_ERROR_UNSUPPORTED, "is not whole"},
    {HEAD INPUT "Pooling y 1 1 a y 0=0 7=1 8=3\n", 0, UF_ERROR_UNSUPPORTED,
     "4 rows or columns to 3"},
    {HEAD INPUT "Interp y 1 1 a y 0=4 1=2.0 2=2.0\n", 0, UF_ERROR_UNSUPPORTED, "resize_type"},
    {HEAD INPUT "Interp y 1 1 a y 0=3 1=0.75 2=0.75\n", 0, UF_ERROR_UNSUPPORTED, "0.75 for 6 rows"},
    {HEAD INPUT "Interp y 1 1 a y 0=3 1=2.0 2=1.0\n", 0, UF_ERROR_UNSUPPORTED, "by two scales"},
    {HEAD INPUT "Interp y 1 1 a y 0=2 1=1e30 2=1.0\n", 0, UF_ERROR_UNSUPPORTED, "a scale of 1e+30"},
    {HEAD INPUT "Interp y 1 1 a y 0=2 1=0.123 2=1.0\n", 0, UF_ERROR_UNSUPPORTED,
     "a scale of 0.123"},
    {HEAD INPUT "PixelShuffle y 1 1 a y 0=2\n", 0, UF_ERROR_SHAPE, "line 4: PixelShuffle y: "},
    {HEAD INPUT "PixelShuffle y 1 1 a y 0=1 1=1\n", 0, UF_ERROR_UNSUPPORTED,
     "mode (option 1) is 1"},
    {HEAD INPUT "Padding y 1 1 a y 0=1 5=1.0\n", 0, UF_ERROR_UNSUPPORTED, "value (option 5) 1"},
    {HEAD INPUT "Flatten f 1 1 a f\nPadding y 1 1 f y 0=1\n", 0, UF_ERROR_UNSUPPORTED,
     "an input of 1 axes; unfurl has the layer for 3"},
};

static void put_weights(net *made, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        const float number = i == 0 ? 0.0f : 0.5f; /* the tag of f32 is 0 */
        memcpy(made->bin + made->bin_size, &number, sizeof number);
        made->bin_size += sizeof number;
    }
}

static void test_refusals(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    int wrong = 0;
    for (int64_t i = 0; i < COUNT_OF(refusals); ++i) {
        static net made;
        uf_model *model = (uf_model *)(void *)&made;
        memset(&made, 0, sizeof made);
        net_add(&made, "%s", refusals[i].text);
        put_weights(&made, refusals[i].weights);
        const uf_status status = net_load(context, &made, NULL, &model);
        if (status != refusals[i].status || strstr(uf_last_error(), refusals[i].words) == NULL ||
            strstr(uf_last_error(), "net.") == NULL || model != NULL) {
            print_error("%s: %s: %s\n", refusals[i].text, uf_status_name(status), uf_last_error());
            ++wrong;
        }
    }
    assert_int_equal(wrong, 0);
    uf_context_destroy(context);
}

/* A weight that is neither f32 nor f16 is named. */
static void test_tags(void **state) {
    static const struct {
        unsigned char tag[4];
        const char *words;
    } tags[] = {
        {{0x38, 0x4b, 0x0d, 0x00}, "weight of y is int8 (0x000d4b38 at byte 0 of "},
        {{1, 0, 0, 0}, "weight of y is neither f32 nor f16, but quantised or damaged (0x00000001"},
    };
    (void)state;
    uf_context *context = test_context(1);
    for (int64_t i = 0; i < COUNT_OF(tags); ++i) {
        static net made;
        uf_model *model;
        memset(&made, 0, sizeof made);
        net_add(&made, HEAD INPUT "Convolution y 1 1 a y 0=2 1=1 6=6\n");
        put_weights(&made, 7);
        memcpy(made.bin, tags[i].tag, sizeof tags[i].tag);
        assert_error(net_load(context, &made, NULL, &model), UF_ERROR_UNSUPPORTED, tags[i].words);
    }
    uf_context_destroy(context);
}

/* The caller's shapes, and what is wrong with them. */
static void test_shapes(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    static net made;
    uf_model *model;
    uf_ncnn_options options = uf_ncnn_options_default();
    uf_input_shape given = {"a", UF_SHAPE(2, 3, 5, 7)};
    uf_input_shape found[1];
    net_begin(&made);
    net_add(&made, INPUT "ReLU y 1 1 a y\n");
    options.input_shapes = &given;
    options.input_shape_count = 1;
    assert_ok(net_load(context, &made, &options, &model));
    assert_ok(uf_model_input_shapes(model, NULL, 0, found));
    assert_true(uf_shape_equal(&found[0].shape, &given.shape));
    assert_string_equal(uf_model_io_name(model, true, 0), "y");
    assert_null(uf_model_io_name(model, true, 1));
    assert_null(uf_model_io_name(model, false, -1));
    uf_model_destroy(model);
    given.input = "b";
    assert_error(net_load(context, &made, &options, &model), UF_ERROR_INVALID_ARGUMENT,
                 "has no input named b, of which a shape is given");
    given = (uf_input_shape){"a", UF_SHAPE(2, 0, 5, 7)};
    assert_error(net_load(context, &made, &options, &model), UF_ERROR_FORMAT, "line 3: Input a: ");
    uf_context_destroy(context);
}

/* ---- extents ---- */

/* Height and width are free where each layer stays what it is. */
static void test_extents(void **state) {
    static const struct {
        const char *lines;
        bool free;
    } nets[] = {
        {"ReLU y 1 1 a y", true},
        {"Pooling p 1 1 a p 0=1 4=1\nScale y 2 1 a p y 0=-233", true},
        {"Pooling p 1 1 a p 0=1 4=1\nExpandDims e 1 1 p e 0=1 1=1\nBinaryOp y 2 1 a e y", true},
        {"Pooling y 1 1 a y 0=0 1=2 2=2", true},
        {"Pooling y 1 1 a y 0=0 4=1", false},
        {"Pooling y 1 1 a y 0=1 1=2 2=2 6=1", false},
        {"Crop y 1 1 a y -23309=2,1,1 -23310=2,-1,-1 -23311=2,-2,-1", true},
        {"Crop y 1 1 a y -23309=2,1,1 -23310=2,3,3 -23311=2,-2,-1", false},
        {"Crop y 1 1 a y 3=2 4=2", false},
        {"Reshape y 1 1 a y 0=8 1=8 2=3", false},
        {"Flatten y 1 1 a y", true},
        {"Interp y 1 1 a y 0=2 1=2.0 2=2.0", true},
        {"Interp y 1 1 a y 0=2 1=0.5 2=0.5", false},
        {"Interp b 1 1 a b 0=1 1=2.0 2=2.0\nInterp y 1 1 b y 0=2 1=0.5 2=0.5", true},
        {"Interp b 1 1 a b 0=1 1=2.0 2=2.0\nInterp y 1 1 b y 0=3 1=0.25 2=0.25", false},
        {"Interp b 1 1 a b 0=1 1=2.0 2=2.0\nPadding c 1 1 b c 0=1 1=1 2=1 3=1\n"
         "Interp y 1 1 c y 0=3 1=0.5 2=0.5",
         false},
    };
    (void)state;
    uf_context *context = test_context(1);
    for (int64_t i = 0; i < COUNT_OF(nets); ++i) {
        static net made;
        uf_model *model;
        const uf_input_shape larger = {"a", UF_SHAPE(5, 3, 12, 16)};
        const uf_input_shape batch = {"a", UF_SHAPE(5, 3, 8, 8)};
        uf_input_shape found[1];
        net_begin(&made);
        net_add(&made, "Input a 0 1 a 0=8 1=8 2=3\n%s\n", nets[i].lines);
        assert_ok(net_load(context, &made, NULL, &model));
        assert_ok(uf_model_input_shapes(model, &batch, 1, found));
        const uf_status status = uf_model_input_shapes(model, &larger, 1, found);
        if ((status == UF_OK) != nets[i].free) {
            fail_msg("%s: %s", nets[i].lines, status == UF_OK ? "free" : uf_last_error());
        }
        uf_model_destroy(model);
    }
    uf_context_destroy(context);
}

/* Download y of a program that ran on `images` images. */
static void run_batch(uf_model *model, int64_t images, const double *input, double *output) {
    uf_program_options options = uf_program_options_default();
    const uf_input_shape shape = {"a", UF_SHAPE(images, 2, 4, 4)};
    uf_program *program;
    options.dtype = UF_F64;
    options.input_shapes = &shape;
    options.input_shape_count = 1;
    assert_ok(uf_program_compile(uf_model_graph(model), &options, &program));
    assert_ok(uf_tensor_upload(uf_program_input(program, "a"), input));
    assert_ok(uf_program_run(program));
    assert_int_equal(uf_tensor_count(uf_program_output(program, "y")), images * 6);
    assert_ok(uf_tensor_download(uf_program_output(program, "y"), output));
    uf_program_destroy(program);
}

/* ncnn has no batch: each image of one is as if it were alone. */
static void test_batch(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    static net made;
    uf_ncnn_options options = uf_ncnn_options_default();
    uf_model *model;
    const net_value input = net_made_value(3, 4, 4, 4, 5); /* two images of two channels */
    double both[12], alone[12];
    options.dtype = UF_F64;
    net_begin(&made);
    net_add(&made, "Input a 0 1 a 0=4 1=4 2=2\nPooling p 1 1 a g 0=1 4=1\n"
                   "Scale s 2 1 a g b 0=-233\nReshape r 1 1 b c 0=16 1=2\n"
                   "Softmax t 1 1 c d 0=1\nInnerProduct i 1 1 d e 0=3 2=48\n"
                   "Flatten f 1 1 e h\nSlice l 1 2 h k m -23300=2,1,-233\n"
                   "Concat y 2 1 m k y\n");
    (void)net_weights(&made, 48, NET_F16, false);
    assert_ok(net_load(context, &made, &options, &model));
    run_batch(model, 2, input.v, both);
    run_batch(model, 1, input.v, alone);
    run_batch(model, 1, input.v + 2 * 4 * 4, alone + 6);
    for (int i = 0; i < 12; ++i) {
        assert_true(fabs(both[i] - alone[i]) <= 1e-14);
        assert_true(i % 6 == 0 || both[i] != both[i - 1]);
    }
    uf_context_destroy(context);
}

/* Channels of an input without a shape come from the convolution behind it, and a locale with a
 * comma changes nothing. */
static void test_channels(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    static net made;
    uf_model *model;
    uf_input_shape found[1];
    if (setlocale(LC_NUMERIC, "de_DE.UTF-8") == NULL) {
        (void)setlocale(LC_NUMERIC, "de_DE");
    }
    net_begin(&made);
    net_add(&made, "Input a 0 1 a\nSplit s 1 2 a b c\nInterp i 1 1 b d 0=1 1=2.5e0 2=2.5e0\n"
                   "Convolution y 1 1 c y 0=2 1=1 11=3 6=30 9=2 -23310=1,0.25\n");
    put_weights(&made, 31);
    assert_ok(net_load(context, &made, NULL, &model));
    (void)setlocale(LC_NUMERIC, "C");
    assert_ok(uf_model_input_shapes(model, NULL, 0, found));
    const uf_shape expected = UF_SHAPE(1, 5, 64, 64);
    assert_true(uf_shape_equal(&found[0].shape, &expected));
    uf_context_destroy(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_tags),
        cmocka_unit_test(test_shapes),   cmocka_unit_test(test_extents),
        cmocka_unit_test(test_channels), cmocka_unit_test(test_batch),
    };
    const int skipped = test_device_or_skip();
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
