/* test_digests.c - the bits of every convolution kernel, as hashes, against those of this GPU
 * model.
 *
 *     test_digests                 compare with tests/data/digests-MODEL.txt; skipped where there
 *                                  is none
 *     test_digests --write FILE    write the table of this GPU: the one command after a change of
 *                                  bits that is meant, or a new variant
 *
 * A line is a row of a layer's table of shapes, an operation, a type and a math mode; behind it
 * stands each variant that takes the call, with a hash of its output, in any order. Outputs are
 * functions of the arguments, so a change that only moves code changes no hash. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cases/layer_case.h"
#include "ops/accuracy.h"
#include "support/random.h"
#include "support/test.h"

enum { LINE = 128 + 48 * CONV_VARIANTS };

typedef uf_status (*operation)(uf_context *context, const uf_conv2d_args *args);
typedef uf_status (*query)(uf_context *context, const uf_conv2d_args *args, size_t *size);

enum { FORWARD, BACKWARD_INPUT, BACKWARD_WEIGHT, OPERATIONS };

static const struct {
    const char *name;
    operation run[2]; /* conv2d, conv_transpose2d */
    query workspace[2];
} operations[OPERATIONS] = {
    {"forward",
     {uf_conv2d_forward, uf_conv_transpose2d_forward},
     {uf_conv2d_forward_workspace, uf_conv_transpose2d_forward_workspace}},
    {"backward_input",
     {uf_conv2d_backward_input, uf_conv_transpose2d_backward_input},
     {uf_conv2d_backward_input_workspace, uf_conv_transpose2d_backward_input_workspace}},
    {"backward_weight",
     {uf_conv2d_backward_weight, uf_conv_transpose2d_backward_weight},
     {uf_conv2d_backward_weight_workspace, uf_conv_transpose2d_backward_weight_workspace}},
};

static const struct {
    const char *name;
    uf_dtype dtype;
    uf_math math;
} kinds[] = {
    {"f32 fp32", UF_F32, UF_MATH_FP32},
    {"f32 tf32", UF_F32, UF_MATH_TF32},
    {"f32 bf16", UF_F32, UF_MATH_BF16},
    {"bf16", UF_BF16, UF_MATH_FP32},
};

static uint32_t hash_bytes(const unsigned char *bytes, size_t size) {
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (size_t i = 0; i < size; ++i) {
        hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    }
    return (uint32_t)(hash >> 32 ^ hash);
}

/* A tensor of random numbers, or of NaN where it is to be written. */
static uf_tensor *make(uf_context *context, uf_dtype dtype, const int64_t extent[4], bool written,
                       test_random *random) {
    uf_tensor *made;
    assert_ok(uf_tensor_create(context, dtype, uf_shape_from(extent, 4), &made));
    const int64_t count = uf_tensor_count(made);
    double *values = test_allocate((size_t)count * sizeof *values);
    test_random_fill(random, values, count, 1.0);
    if (written) {
        memset(values, 0xff, (size_t)count * sizeof *values);
    }
    assert_ok(uf_tensor_upload_as(made, UF_F64, values, count));
    free(values);
    return made;
}

static uf_view view_of(const uf_tensor *made) {
    const uf_shape extents = uf_tensor_shape(made);
    return uf_view_nchw(uf_tensor_data(made), uf_tensor_dtype(made), extents.extent[0],
                        extents.extent[1], extents.extent[2], extents.extent[3]);
}

typedef struct call {
    uf_context *context;
    bool transposed;
    int op;
    uf_conv2d_args args;
    uf_tensor *input, *weight, *output, *bias; /* or their gradients; bias may be NULL */
    uf_tensor *written;
} call;

/* The row's bias and activation belong to forward. */
static call begin(uf_context *context, bool transposed, const layer_case *row, int op,
                  uf_dtype dtype) {
    const ref_conv *conv = &row->conv;
    const int64_t bias[4] = {1, conv->out_channels, 1, 1};
    const int64_t input[4] = {conv->batch, conv->in_channels, conv->height, conv->width};
    const int64_t output[4] = {conv->batch, conv->out_channels, conv->out_height, conv->out_width};
    const int64_t weight[4] = {transposed ? conv->in_channels : conv->out_channels,
                               (transposed ? conv->out_channels : conv->in_channels) / conv->groups,
                               conv->kernel[0], conv->kernel[1]};
    test_random random = {.state = 20261123};
    call made = {
        .context = context, .transposed = transposed, .op = op, .args = uf_conv2d_args_default()};
    made.input = make(context, dtype, input, op == BACKWARD_INPUT, &random);
    made.weight = make(context, dtype, weight, op == BACKWARD_WEIGHT, &random);
    made.output = make(context, dtype, output, op == FORWARD, &random);
    uf_conv2d_args *args = &made.args;
    for (int axis = 0; axis < 2; ++axis) {
        args->params.stride[axis] = conv->stride[axis];
        args->params.padding[axis] = conv->padding[axis];
        args->params.output_padding[axis] = conv->output_padding[axis];
        args->params.dilation[axis] = conv->dilation[axis];
    }
    args->params.groups = conv->groups;
    if (op == FORWARD) {
        args->activation = row->activation;
    }
    if (op == FORWARD && case_parameter(row, "bias") != NULL) {
        made.bias = make(context, dtype, bias, false, &random);
        args->bias = view_of(made.bias);
    }
    *(op == BACKWARD_INPUT ? &args->grad_input : &args->input) = view_of(made.input);
    *(op == BACKWARD_WEIGHT ? &args->grad_weight : &args->weight) = view_of(made.weight);
    *(op == FORWARD ? &args->output : &args->grad_output) = view_of(made.output);
    made.written = op == FORWARD ? made.output : op == BACKWARD_INPUT ? made.input : made.weight;
    return made;
}

static void end(call *done) {
    uf_tensor_destroy(done->input);
    uf_tensor_destroy(done->weight);
    uf_tensor_destroy(done->output);
    uf_tensor_destroy(done->bias);
}

/* Append " variant=hash" to the line where the variant takes the call. */
static void add_variant(call *one, const char *variant, char line[LINE]) {
    uf_tensor *scratch = NULL;
    uf_conv2d_args args = one->args;
    args.variant = variant;
    uf_status status =
        operations[one->op].workspace[one->transposed](one->context, &args, &args.workspace_size);
    if (status == UF_OK && args.workspace_size > 0) {
        const int64_t words = (int64_t)(args.workspace_size + 3) / 4;
        assert_ok(uf_tensor_create(one->context, UF_F32, UF_SHAPE(words), &scratch));
        args.workspace = uf_tensor_data(scratch);
    }
    if (status == UF_OK) {
        status = operations[one->op].run[one->transposed](one->context, &args);
    }
    if (status == UF_OK) {
        const size_t size =
            (size_t)uf_tensor_count(one->written) * uf_dtype_size(uf_tensor_dtype(one->written));
        unsigned char *bytes = test_allocate(size);
        assert_ok(uf_tensor_download(one->written, bytes));
        const size_t used = strlen(line);
        const int more = snprintf(line + used, LINE - used, " %s=%08x", variant_label(variant),
                                  (unsigned)hash_bytes(bytes, size));
        assert_true(used + (size_t)more < LINE);
        free(bytes);
    } else if (status != UF_ERROR_UNSUPPORTED) {
        fail_msg("%s %s: %s", line, variant_label(variant), uf_last_error());
    }
    uf_tensor_destroy(scratch);
}

/* Call `take` with each line of this GPU's table. */
static void each_line(uf_context *context, void (*take)(void *user, const char *line), void *user) {
    const layer_family *const families[] = {&conv2d_family, &conv_transpose2d_family};
    const char *variants[CONV_VARIANTS];
    const int64_t variant_count =
        conv_variants(CONV_ANY_DIRECTION, UF_CONV_F32 | UF_CONV_BF16, variants);
    for (int transposed = 0; transposed < 2; ++transposed) {
        const layer_family *family = families[transposed];
        for (int64_t row = 0; row < family->table_count; ++row) {
            test_random random = {.state = (uint64_t)row};
            layer_case filled;
            case_begin(&filled, family);
            family->table(row, &random, &filled);
            for (int op = 0; op < OPERATIONS; ++op) {
                for (int64_t k = 0; k < COUNT_OF(kinds); ++k) {
                    char line[LINE];
                    call one = begin(context, transposed, &filled, op, kinds[k].dtype);
                    one.args.math = kinds[k].math;
                    snprintf(line, sizeof line, "%s row %d %s %s:", family->name, (int)row,
                             operations[op].name, kinds[k].name);
                    for (int64_t v = 0; v < variant_count; ++v) {
                        add_variant(&one, variants[v], line);
                    }
                    take(user, line);
                    end(&one);
                }
            }
            case_free(&filled);
        }
    }
}

static void write_line(void *user, const char *line) {
    fprintf(user, "%s\n", line);
}

/* The table's lines are read as they are needed. */
typedef struct comparison {
    FILE *table;
    int64_t lines, different, absent; /* absent: of rows that the table has not yet, at its end */
} comparison;

/* Are all words of a line among those of another? */
static bool has_words_of(const char *line, const char *other) {
    while (*line != '\0') {
        const size_t size = strcspn(line, " ");
        const char *at = other;
        while (*at != '\0' && (strcspn(at, " ") != size || memcmp(at, line, size) != 0)) {
            at += strcspn(at, " ");
            at += strspn(at, " ");
        }
        if (*at == '\0') {
            return false;
        }
        line += size;
        line += strspn(line, " ");
    }
    return true;
}

static void compare_line(void *user, const char *line) {
    comparison *with = user;
    char expected[LINE] = "";
    bool there;
    do {
        there = fgets(expected, sizeof expected, with->table) != NULL;
    } while (there && expected[0] == '#');
    expected[strcspn(expected, "\n")] = '\0';
    with->lines += 1;
    if (!there) {
        with->absent += 1;
        return;
    }
    if (!has_words_of(line, expected) || !has_words_of(expected, line)) {
        with->different += 1;
        if (with->different <= 10) {
            print_message("is  %s\nwas %s\n", line, expected);
        }
    }
}

/* tests/data/digests-nvidia-h200.txt for "NVIDIA H200 (CUDA)". */
static const char *table_path(const uf_context *context) {
    char name[160] = "digests-";
    size_t used = strlen(name);
    for (const char *at = uf_context_description(context); *at != '\0' && *at != '('; ++at) {
        const bool letter = isalnum((unsigned char)*at) != 0;
        if (letter || (at[1] != '(' && name[used - 1] != '-')) {
            name[used++] = letter ? (char)tolower((unsigned char)*at) : '-';
        }
    }
    snprintf(name + used, sizeof name - used, ".txt");
    return test_data_path(name);
}

int main(int count, char **words) {
    const int skipped = test_device_or_skip();
    if (skipped != 0) {
        return skipped;
    }
    uf_context *context = test_context(1);
    if (count == 3 && strcmp(words[1], "--write") == 0) {
        FILE *file = fopen(words[2], "w");
        if (file == NULL) {
            return 1;
        }
        fprintf(file, "# %s: written by test_digests --write\n", uf_context_description(context));
        each_line(context, write_line, file);
        return fclose(file) == 0 ? 0 : 1;
    }
    comparison with = {.table = fopen(table_path(context), "r")};
    if (with.table == NULL) {
        print_message("there is no table %s\n", table_path(context));
        return TEST_SKIPPED;
    }
    each_line(context, compare_line, &with);
    char rest[LINE];
    with.different += fgets(rest, sizeof rest, with.table) != NULL;
    fclose(with.table);
    uf_context_destroy(context);
    print_message("%lld of %lld lines differ, %lld are not in the table yet\n",
                  (long long)with.different, (long long)with.lines, (long long)with.absent);
    return with.lines > with.absent && with.different == 0 ? 0 : 1;
}
