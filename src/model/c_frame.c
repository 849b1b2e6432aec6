/* c_frame.c - the parts of a generated C program that are the same for every model. */
#include "model/c_code.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LINE_SIZE = 8192 };

typedef struct frame {
    const uf_graph *graph;
    uf_line_function write;
    void *user;
} frame;

static void put(const frame *to, const char *line) {
    to->write(to->user, line);
}

void uf_c_string(uf_text *text, const char *string) {
    uf_text_add(text, "\"");
    for (const char *c = string; *c != '\0'; ++c) {
        if (*c == '"' || *c == '\\') {
            uf_text_add(text, "\\%c", *c);
        } else if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f || *c == '?') {
            uf_text_add(text, "\\%03o", (unsigned)(unsigned char)*c);
        } else {
            uf_text_add(text, "%c", *c);
        }
    }
    uf_text_add(text, "\"");
}

static const char *const head[] = {
    "/* Made of a model file by `unfurl codegen`: builds the model's graph and runs it.",
    " *",
    " *   cc model.c $(pkg-config --cflags --libs unfurl) -o model",
    " *   ./model MODEL.h5 INPUT.h5... OUTPUT.h5...",
    " *",
    " * The weights come from the model file. An input is the dataset of its name in its file, and "
    "an",
    " * output becomes one. */",
    "#include <math.h>",
    "#include <stdio.h>",
    "#include <stdlib.h>",
    "",
    "#include <unfurl/unfurl.h>",
    "",
    "static void must(uf_status status) {",
    "    if (status != UF_OK) {",
    "        fprintf(stderr, \"%s\\n\", uf_last_error());",
    "        exit(1);",
    "    }",
    "}",
    "",
};

static const char *const tail[] = {
    "",
    "/* Memory for all elements of a tensor. */",
    "static void *reserve(const uf_tensor *tensor) {",
    "    void *memory = malloc((size_t)uf_tensor_count(tensor) *",
    "                          uf_dtype_size(uf_tensor_dtype(tensor)));",
    "    if (memory == NULL) {",
    "        fprintf(stderr, \"out of memory\\n\");",
    "        exit(1);",
    "    }",
    "    return memory;",
    "}",
    "",
    "static void read_input(uf_tensor *tensor, const char *path, const char *name) {",
    "    uf_shape shape;",
    "    void *data = reserve(tensor);",
    "    must(uf_hdf5_read(path, name, uf_tensor_dtype(tensor), &shape, data,",
    "                      uf_tensor_count(tensor)));",
    "    must(uf_tensor_upload(tensor, data));",
    "    free(data);",
    "}",
    "",
    "static void write_output(const uf_tensor *tensor, const char *path, const char *name) {",
    "    void *data = reserve(tensor);",
    "    must(uf_tensor_download(tensor, data));",
    "    must(uf_hdf5_write(path, name, uf_tensor_dtype(tensor), uf_tensor_shape(tensor), data));",
    "    free(data);",
    "}",
    "",
    "int main(int argc, char **argv) {",
    "    if (argc != 2 + INPUTS + OUTPUTS) {",
    "        fprintf(stderr, \"usage: %s %s\\n\", argv[0], usage);",
    "        return 2;",
    "    }",
    "    uf_context *context;",
    "    uf_store *weights;",
    "    uf_graph *graph;",
    "    uf_program *program;",
    "    must(uf_context_create(NULL, &context));",
    "    must(uf_store_create(context, \"weights\", &weights));",
    "    must(uf_graph_create(context, &graph));",
    "    build(graph, weights);",
    "    must(uf_graph_status(graph));",
    "    if (uf_store_size(weights) > 0) {",
    "        uf_hdf5_load_options load = uf_hdf5_load_options_default();",
    "        load.group = \"weights\";",
    "        load.keep_norms = true;",
    "        must(uf_store_load_hdf5(weights, argv[1], &load));",
    "    }",
    "    uf_input_shape shapes[INPUTS + 1];",
    "    for (int i = 0; i < INPUTS; ++i) {",
    "        shapes[i].input = inputs[i];",
    "        must(uf_hdf5_read(argv[2 + i], inputs[i], UF_F64, &shapes[i].shape, NULL, 0));",
    "    }",
    "    uf_program_options options = uf_program_options_default();",
    "    options.input_shapes = shapes;",
    "    options.input_shape_count = INPUTS;",
    "    must(uf_program_compile(graph, &options, &program));",
    "    for (int i = 0; i < INPUTS; ++i) {",
    "        read_input(uf_program_input(program, inputs[i]), argv[2 + i], inputs[i]);",
    "    }",
    "    must(uf_program_run(program));",
    "    for (int i = 0; i < OUTPUTS; ++i) {",
    "        write_output(uf_program_output(program, outputs[i]), argv[2 + INPUTS + i], "
    "outputs[i]);",
    "    }",
    "    uf_context_destroy(context);",
    "    return 0;",
    "}",
};

void uf_c_head(uf_line_function write, void *user) {
    const frame to = {.write = write, .user = user};
    for (size_t i = 0; i < sizeof head / sizeof *head; ++i) {
        put(&to, head[i]);
    }
}

static void put_names(const frame *to, const char *what, const uf_graph_ios *ios) {
    put(to, "");
    char row[LINE_SIZE];
    uf_text line = {.at = row, .size = sizeof row};
    uf_text_add(&line, "static const char *const %s[] = {", what);
    put(to, row);
    for (int32_t i = 0; i < ios->count; ++i) {
        line.used = 0;
        uf_text_add(&line, "    ");
        uf_c_string(&line, ios->list[i].name);
        uf_text_add(&line, ",");
        put(to, row);
    }
    put(to, "    NULL,");
    put(to, "};");
}

static void put_usage(const frame *to) {
    const uf_graph *graph = to->graph;
    char words[4096];
    uf_text usage = {.at = words, .size = sizeof words};
    uf_text_add(&usage, "MODEL.h5");
    for (int32_t i = 0; i < graph->inputs.count; ++i) {
        uf_text_add(&usage, " %s.h5", graph->inputs.list[i].name);
    }
    for (int32_t i = 0; i < graph->outputs.count; ++i) {
        uf_text_add(&usage, " %s.h5", graph->outputs.list[i].name);
    }
    if (usage.used > 80) {
        snprintf(words, sizeof words, "MODEL.h5 INPUT.h5... OUTPUT.h5...");
    }
    char row[LINE_SIZE];
    uf_text line = {.at = row, .size = sizeof row};
    uf_text_add(&line, "static const char usage[] = ");
    uf_c_string(&line, words);
    uf_text_add(&line, ";");
    put(to, row);
    line.used = 0;
    uf_text_add(&line, "enum { INPUTS = %" PRId32 ", OUTPUTS = %" PRId32 " };", graph->inputs.count,
                graph->outputs.count);
    put(to, row);
}

void uf_c_tail(const uf_graph *graph, uf_line_function write, void *user) {
    const frame to = {.graph = graph, .write = write, .user = user};
    put_names(&to, "inputs", &graph->inputs);
    put_names(&to, "outputs", &graph->outputs);
    put_usage(&to);
    for (size_t i = 0; i < sizeof tail / sizeof *tail; ++i) {
        put(&to, tail[i]);
    }
}
