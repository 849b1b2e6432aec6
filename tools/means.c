#include "means.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

/* A model's text, its lines ended by zeros. */
struct lines {
    char *text;
    size_t used, capacity;
    bool has_memory;
};

static void add_line(void *user, const char *line) {
    struct lines *lines = user;
    const size_t size = strlen(line) + 1;
    if (lines->used + size > lines->capacity) {
        const size_t capacity = 2 * (lines->used + size);
        char *text = realloc(lines->text, capacity);
        if (text == NULL) {
            lines->has_memory = false;
            return;
        }
        lines->text = text;
        lines->capacity = capacity;
    }
    memcpy(lines->text + lines->used, line, size);
    lines->used += size;
}

/* Behind the name at `at`, quoted or not. */
static const char *name_end(const char *at) {
    if (*at != '"') {
        return at + strcspn(at, " ,)");
    }
    for (at++; *at != '\0' && *at != '"'; at++) {
        at += *at == '\\' && at[1] != '\0';
    }
    return at + (*at == '"');
}

/* One line as uf_model_write writes it. */
struct mean_line {
    const char *name, *value; /* NAME = mean(VALUE, axes=(2, 3)) */
    int name_length, value_length;
    bool keeps; /* keepdim */
};

static bool is_mean(const char *line, struct mean_line *mean) {
    static const char operation[] = " = mean(", axes[] = ", axes=(2, 3)";
    const char *after = name_end(line);
    if (strncmp(after, operation, sizeof operation - 1) != 0) {
        return false;
    }
    mean->name = line;
    mean->name_length = (int)(after - line);
    mean->value = after + sizeof operation - 1;
    after = name_end(mean->value);
    mean->value_length = (int)(after - mean->value);
    mean->keeps = strstr(after, "keepdim=true") != NULL;
    return strncmp(after, axes, sizeof axes - 1) == 0;
}

/* "input ...", "output ..." and "picture ..." are no names of values: those have " = " behind. */
static bool is_value(const char *line) {
    return strncmp(name_end(line), " = ", 3) == 0 || strncmp(line, "input ", 6) == 0;
}

/* The batch's extent as the picture's input has it, "N=1"; false where it is not free. */
static bool batch_of(const struct lines *lines, char *batch, size_t size) {
    for (const char *line = lines->text; line < lines->text + lines->used;
         line += strlen(line) + 1) {
        const char *shape = strchr(line, '(');
        if (strncmp(line, "input ", 6) == 0 && shape != NULL) {
            snprintf(batch, size, "%.*s", (int)strcspn(shape + 1, ",)"), shape + 1);
            return strchr(batch, '=') != NULL;
        }
    }
    return false;
}

/* The network up to mean `stage` (all of it where there is none of that number) with the means
 * before as inputs. */
static bool write_stage(const uf_model *model, const struct lines *lines, const char *batch,
                        int32_t stage, FILE *to) {
    int32_t found = 0, value = 0;
    for (const char *line = lines->text; line < lines->text + lines->used;
         line += strlen(line) + 1) {
        struct mean_line mean;
        if (!is_mean(line, &mean)) {
            fprintf(to, "%s\n", line);
        } else if (found == stage) {
            fprintf(to, "output averaged = %.*s\n", mean.value_length, mean.value);
            return true;
        } else {
            uf_value made;
            if (uf_model_value(model, uf_model_value_name(model, value), &made) != UF_OK) {
                return false;
            }
            const uf_shape shape = uf_value_shape(uf_model_graph(model), made);
            fprintf(to, "input %.*s f32 (%s, %" PRId64 "%s)\n", mean.name_length, mean.name, batch,
                    shape.extent[1], mean.keeps ? ", 1, 1" : "");
            found++;
        }
        value += is_value(line);
    }
    return true;
}

static int make_stage(uf_context *context, const uf_model *model, uf_dtype dtype,
                      const struct lines *lines, int32_t stage, uf_model **made) {
    char batch[64], *text = NULL;
    size_t size = 0;
    uf_model_options options = uf_model_options_default();
    options.dtype = dtype;
    FILE *to = open_memstream(&text, &size);
    if (to == NULL) {
        return fail("out of memory for the text of a model");
    }
    const bool is_written =
        batch_of(lines, batch, sizeof batch) && write_stage(model, lines, batch, stage, to);
    const bool is_whole = fclose(to) == 0 && is_written;
    const uf_status status =
        is_whole ? uf_model_parse(context, "a part of the network", text, size, &options, made)
                 : UF_OK;
    free(text);
    TRY_LIBRARY(status);
    return is_whole ? EXIT_DONE : fail("out of memory for the text of a model");
}

/* The extents of the stage's value for a picture of extents (height, width). */
static int value_shape(const struct means_stage *stage, const uf_input_shape *picture,
                       uf_dtype dtype, uf_shape *shape) {
    const int32_t count = uf_model_input_count(stage->model);
    uf_input_shape *solved = calloc((size_t)count, sizeof *solved);
    uf_program *program = NULL;
    if (solved == NULL) {
        return fail("out of memory for the shapes of a model");
    }
    uf_program_options options = uf_program_options_default();
    options.dtype = dtype;
    options.input_shapes = solved;
    options.input_shape_count = count;
    uf_status status = uf_model_input_shapes(stage->model, picture, 1, solved);
    if (status == UF_OK) {
        status = uf_program_compile(uf_model_graph(stage->model), &options, &program);
    }
    free(solved);
    TRY_LIBRARY(status);
    *shape = uf_program_output_shape(program, 0);
    uf_program_destroy(program);
    return EXIT_DONE;
}

/* How the value grows with the picture: by the extents that two pictures give. */
static int measure(struct means_stage *stage, uf_dtype dtype, int64_t multiple) {
    enum { UNITS = 12 }; /* strides of 2, 3 and 4 divide it */
    uf_input_shape picture;
    uf_shape small, large;
    const int32_t count = uf_model_input_count(stage->model);
    uf_input_shape *shapes = calloc((size_t)count, sizeof *shapes);
    if (shapes == NULL) {
        return fail("out of memory for the shapes of a model");
    }
    const uf_status status = uf_model_input_shapes(stage->model, NULL, 0, shapes);
    picture = shapes[0];
    free(shapes);
    TRY_LIBRARY(status);
    stage->run = UNITS * multiple;
    TRY(value_shape(stage, &picture, dtype, &small));
    picture.shape.extent[2] += stage->run;
    picture.shape.extent[3] += stage->run;
    TRY(value_shape(stage, &picture, dtype, &large));
    stage->channels = small.extent[1];
    stage->rise = large.extent[2] - small.extent[2];
    return stage->rise == large.extent[3] - small.extent[3]
               ? EXIT_DONE
               : fail("the network's height and width do not grow alike");
}

static int split(uf_context *context, const uf_model *model, uf_dtype dtype, int64_t multiple,
                 const struct lines *lines, struct means *means) {
    struct mean_line mean;
    char batch[64];
    int32_t count = 0;
    for (const char *line = lines->text; line < lines->text + lines->used;
         line += strlen(line) + 1) {
        count += is_mean(line, &mean);
    }
    if (count == 0 || !batch_of(lines, batch, sizeof batch)) {
        return EXIT_DONE;
    }
    means->stages = calloc((size_t)count, sizeof *means->stages);
    if (means->stages == NULL) {
        return fail("out of memory for the parts of a network");
    }
    means->count = count;
    for (int32_t i = 0; i < count; i++) {
        TRY(make_stage(context, model, dtype, lines, i, &means->stages[i].model));
        TRY(measure(&means->stages[i], dtype, multiple));
    }
    return make_stage(context, model, dtype, lines, count, &means->whole);
}

int means_split(uf_context *context, const uf_model *model, uf_dtype dtype, int64_t multiple,
                struct means *means) {
    struct lines lines = {.has_memory = true};
    means->is_known = true;
    const uf_status status = uf_model_write(model, add_line, &lines);
    int result = status != UF_OK     ? fail_library()
                 : !lines.has_memory ? fail("out of memory for the text of a model")
                                     : split(context, model, dtype, multiple, &lines, means);
    free(lines.text);
    return result;
}

void means_free(struct means *means) {
    for (int32_t i = 0; i < means->count; i++) {
        uf_model_destroy(means->stages[i].model);
    }
    uf_model_destroy(means->whole);
    free(means->stages);
    *means = (struct means){0};
}
