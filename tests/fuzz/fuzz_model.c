/* fuzz_model.c - any bytes as the text of a model: a model that writes itself as the same text
 * again, or a sentence with a line. No memory is allocated for weights. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unfurl/unfurl.h>

#include "fuzz/fuzz.h"

/* A model that could be read is written, and read and written again to the same text; and as C. */
static void write_again(uf_context *context, uf_model *model) {
    fuzz_page first = {0}, second = {0}, code = {0};
    uf_model *again;
    FUZZ_DEMAND(uf_model_write(model, fuzz_append_line, &first) == UF_OK);
    FUZZ_DEMAND(uf_model_parse(context, "again", first.text, first.size, NULL, &again) == UF_OK);
    FUZZ_DEMAND(uf_model_write(again, fuzz_append_line, &second) == UF_OK);
    FUZZ_DEMAND(first.size == second.size && memcmp(first.text, second.text, first.size) == 0);
    FUZZ_DEMAND(uf_model_write_c(model, fuzz_append_line, &code) == UF_OK);
    uf_model_destroy(again);
    free(first.text);
    free(second.text);
    free(code.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uf_context_options options = uf_context_options_default();
    options.device = UF_DEVICE_CPU;
    options.threads = 1;
    uf_context *context;
    uf_model *model;
    FUZZ_DEMAND(uf_context_create(&options, &context) == UF_OK);
    const uf_status status =
        uf_model_parse(context, "text", (const char *)data, size, NULL, &model);
    if (status == UF_OK) {
        write_again(context, model);
    } else {
        FUZZ_DEMAND(status == UF_ERROR_FORMAT || status == UF_ERROR_OUT_OF_MEMORY);
        FUZZ_DEMAND(status != UF_ERROR_FORMAT || strncmp(uf_last_error(), "text: ", 6) == 0);
        FUZZ_DEMAND(model == NULL);
    }
    uf_context_destroy(context);
    return 0;
}

/* Every function of layers.h, and a small network. */
int fuzz_seed(int index, const char *path) {
    static const char small[] =
        "unfurl model 1\ninput z f32 (N=2, 3, H=4, W=4)\n"
        "a = conv2d(z, out_channels=4, kernel=(3, 1), padding=1, bias=false)\n"
        "b = batch_norm2d(a)\nc = concat(b, a)\n\"d e\" = reshape(c, shape=(-1, 8))\n"
        "output y = \"d e\"\npicture input z range=(-1, 1) mean=(1, 2, 3) border=2\n";
    static char every[1 << 14];
    size_t size = sizeof small - 1;
    const char *text = small;
    if (index == 0) {
        FILE *file = fopen(TEST_SOURCE_DIR "/tests/model/every_function.txt", "r");
        FUZZ_DEMAND(file != NULL);
        size = fread(every, 1, sizeof every, file);
        text = every;
        (void)fclose(file);
    } else if (index > 1) {
        return 0;
    }
    FILE *seed = fopen(path, "w");
    const int written = seed != NULL && fwrite(text, 1, size, seed) == size;
    return seed != NULL && fclose(seed) == 0 && written;
}
