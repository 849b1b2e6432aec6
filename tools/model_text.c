#include "model_text.h"

#include <stdlib.h>
#include <string.h>

#include <unfurl/unfurl.h>

struct text {
    char *all; /* owned */
    size_t used, capacity;
    bool failed;
};

static void add_line(void *user, const char *line) {
    struct text *text = user;
    const size_t length = strlen(line);
    if (text->capacity - text->used < length + 2) {
        const size_t capacity = 2 * text->capacity + length + 4096;
        char *grown = realloc(text->all, capacity);
        if (grown == NULL) {
            text->failed = true;
            return;
        }
        text->all = grown;
        text->capacity = capacity;
    }
    memcpy(text->all + text->used, line, length);
    memcpy(text->all + text->used + length, "\n", 2);
    text->used += length + 1;
}

char *model_text(const char *path, bool trust) {
    uf_context_options of_context = uf_context_options_default();
    uf_model_options of_model = uf_model_options_default();
    uf_context *context = NULL;
    uf_model *model = NULL;
    struct text text = {0};
    of_context.device = UF_DEVICE_CPU;
    of_context.threads = 1;
    of_model.untrusted = !trust;
    const bool written = uf_context_create(&of_context, &context) == UF_OK &&
                         uf_model_load(context, path, &of_model, &model) == UF_OK &&
                         uf_model_write(model, add_line, &text) == UF_OK && !text.failed;
    uf_context_destroy(context); /* and the model */
    if (!written) {
        free(text.all);
        text.all = NULL;
    }
    return text.all;
}
