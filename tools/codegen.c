/* codegen.c - `unfurl codegen`: a model file as the C program that does the same. */
#include "command.h"

#include <stddef.h>
#include <stdio.h>

#include "runtime.h"
#include "weights.h"

struct codegen_arguments {
    const char *path;
    bool text, trust;
};

static void print_line(void *user, const char *line) {
    (void)user;
    fputs(line, stdout);
    fputc('\n', stdout);
}

static int codegen_run(const void *parsed) {
    const struct codegen_arguments *arguments = parsed;
    const struct run_options run = {.device = 1 /* cpu */, .threads = 1};
    uf_context *context = NULL;
    uf_model *model = NULL;
    TRY(runtime_open(&run, 0, &context));
    uf_model_options options = uf_model_options_default();
    options.untrusted = !arguments->trust;
    uf_status status = uf_model_load(context, arguments->path, &options, &model);
    if (status == UF_OK) {
        status = arguments->text ? uf_model_write(model, print_line, NULL)
                                 : uf_model_write_c(model, print_line, NULL);
    }
    uf_context_destroy(context);
    TRY_LIBRARY(status);
    return EXIT_DONE;
}

static const struct option codegen_options[] = {
    {.kind = OPTION_OPERAND,
     .name = "MODEL.h5",
     .help = "the model file",
     .offset = offsetof(struct codegen_arguments, path)},
    {.kind = OPTION_FLAG,
     .name = "text",
     .help = "print the model's own text instead",
     .offset = offsetof(struct codegen_arguments, text)},
    WEIGHTS_TRUST_ROW(struct codegen_arguments),
};

const struct command command_codegen = {
    .name = "codegen",
    .summary = "Print a model file as the C program that does the same.",
    .details =
        "    unfurl codegen model.h5 >model.c\n"
        "    cc model.c $(pkg-config --cflags --libs unfurl) -o model\n"
        "    ./model model.h5 z.h5 image.h5\n\n"
        "The program builds the graph with the functions of layers.h, reads the weights from "
        "the\n"
        "model file, and gives the same bits as `unfurl run`.",
    .options = codegen_options,
    .option_count = sizeof codegen_options / sizeof codegen_options[0],
    .arguments_size = sizeof(struct codegen_arguments),
    .run = codegen_run,
};
