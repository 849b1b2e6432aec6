/* model.c - reads a model's text, makes another model of its graph, and writes both as text and as
 * C to a file: for runs in which an allocation fails. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unfurl/unfurl.h>

static char text[1 << 14], page[1 << 18];
static size_t used;

static void append(void *user, const char *line) {
    (void)user;
    const size_t length = strlen(line);
    if (used + length + 2 < sizeof page) {
        memcpy(page + used, line, length);
        used += length;
        page[used++] = '\n';
    }
}

static uf_status write_both(const uf_model *model) {
    UF_TRY(uf_model_write(model, append, NULL));
    return uf_model_write_c(model, append, NULL);
}

static uf_status work(uf_context *context, size_t size) {
    uf_model *model, *made;
    UF_TRY(uf_model_parse(context, "text", text, size, NULL, &model));
    UF_TRY(write_both(model));
    UF_TRY(uf_model_create(uf_model_graph(model), &made));
    return write_both(made);
}

int main(int count, char **words) {
    FILE *file = count == 3 ? fopen(words[1], "r") : NULL;
    if (file == NULL) {
        fprintf(stderr, "usage: attack_model TEXT OUT (UF_ERROR_OUT_OF_MEMORY)\n");
        return 1;
    }
    const size_t size = fread(text, 1, sizeof text, file);
    (void)fclose(file);
    uf_context_options options = uf_context_options_default();
    options.device = UF_DEVICE_CPU;
    options.threads = 1;
    uf_context *context = NULL;
    uf_status status = uf_context_create(&options, &context);
    if (status == UF_OK) {
        status = work(context, size);
    }
    if (status != UF_OK) {
        fprintf(stderr, "%s: %s\n", uf_status_name(status), uf_last_error());
    }
    uf_context_destroy(context);
    file = status == UF_OK ? fopen(words[2], "w") : NULL;
    if (file == NULL) {
        if (status == UF_OK) {
            fprintf(stderr, "UF_ERROR_OUT_OF_MEMORY: the output cannot be opened\n");
        }
        return 1;
    }
    setvbuf(file, NULL, _IONBF, 0);
    const size_t written = fwrite(page, 1, used, file);
    return fclose(file) == 0 && written == used ? 0 : 1;
}
