/* fuzz_ncnn.c - any bytes as the two files of a network of ncnn's: a model that writes itself as
 * the same text again, or a sentence that begins with one of the files. A file here is the text's
 * length in two bytes, the text, and the weights. */
#define _GNU_SOURCE /* memfd_create */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <unfurl/unfurl.h>

#include "fuzz/fuzz.h"

static void write_again(uf_context *context, const uf_model *model) {
    fuzz_page first = {0}, second = {0};
    uf_model *again;
    FUZZ_DEMAND(uf_model_write(model, fuzz_append_line, &first) == UF_OK);
    FUZZ_DEMAND(uf_model_parse(context, "again", first.text, first.size, NULL, &again) == UF_OK);
    FUZZ_DEMAND(uf_model_write(again, fuzz_append_line, &second) == UF_OK);
    FUZZ_DEMAND(first.size == second.size && memcmp(first.text, second.text, first.size) == 0);
    uf_model_destroy(again);
    free(first.text);
    free(second.text);
}

/* A file that is gone when it is closed. */
static int make_file(const char *name, const uint8_t *bytes, size_t size, char path[64]) {
    const int file = memfd_create(name, 0);
    FUZZ_DEMAND(file >= 0 && write(file, bytes, size) == (ssize_t)size);
    snprintf(path, 64, "/proc/self/fd/%d", file);
    return file;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uf_context_options options = uf_context_options_default();
    options.device = UF_DEVICE_CPU;
    options.threads = 1;
    uf_context *context;
    uf_model *model;
    char param[64], bin[64];
    const size_t given = size >= 2 ? data[0] + 256u * data[1] : 0;
    const size_t text = size < 2 ? 0 : given < size - 2 ? given : size - 2;
    const int files[] = {
        make_file("param", size < 2 ? data : data + 2, text, param),
        make_file("bin", size < 2 ? data : data + 2 + text, size < 2 ? size : size - 2 - text, bin),
    };
    FUZZ_DEMAND(uf_context_create(&options, &context) == UF_OK);
    const uf_status status = uf_model_load_ncnn(context, param, bin, NULL, &model);
    if (status == UF_OK) {
        write_again(context, model);
    } else {
        FUZZ_DEMAND(status == UF_ERROR_FORMAT || status == UF_ERROR_SHAPE ||
                    status == UF_ERROR_UNSUPPORTED || status == UF_ERROR_OUT_OF_MEMORY);
        FUZZ_DEMAND(status == UF_ERROR_OUT_OF_MEMORY ||
                    strncmp(uf_last_error(), "/proc/self/fd/", 14) == 0);
        FUZZ_DEMAND(model == NULL);
    }
    uf_context_destroy(context);
    (void)close(files[0]);
    (void)close(files[1]);
    return 0;
}

/* Convolutions with their weights; layers that move elements; arithmetic. */
static const struct {
    const char *text;
    int numbers; /* f32 each; the first one is the tag 0 */
} seeds[] = {
    {"7767517\n5 5\nInput a 0 1 a 0=8 1=8 2=2\n"
     "Convolution c 1 1 a b 0=2 1=3 4=1 5=1 6=36 9=2 -23310=1,1.000000e-01\n"
     "Deconvolution d 1 1 b c 0=2 1=2 3=2 6=16\nPooling p 1 1 c g 0=1 4=1\n"
     "InnerProduct i 1 1 g y 0=3 1=1 2=6 9=4\n",
     1 + 36 + 2 + 1 + 16 + 1 + 6 + 3},
    {"7767517\n9 9\nInput a 0 1 a 0=8 1=8 2=4\nSplit s 1 2 a b c\n"
     "Interp i 1 1 b d 0=3 1=5.000000e-01 2=5.000000e-01\nInterp j 1 1 d e 0=1 1=2.0 2=2.0\n"
     "Concat k 2 1 c e f\nCrop r 1 1 f g -23309=2,1,1 -23310=2,-1,-1 -23311=2,-2,-1\n"
     "PixelShuffle x 1 1 g h 0=2\nReshape q 1 1 h l 0=24 1=-1\nPermute o 1 1 l y 0=1\n",
     0},
    {"7767517\n8 8\nInput a 0 1 a 0=4 1=4 2=2\nInput b 0 1 b 0=4 1=4 2=2\n"
     "BinaryOp c 2 1 a b c 0=2\nEltwise d 2 1 c a d 0=1 -23301=2,2.000000e-01,1.000000e+00\n"
     "PReLU e 1 1 d e 0=2\nScale f 1 1 e f 0=2 1=1\nSlice g 1 2 f g h -23300=2,1,-233\n"
     "Softmax y 1 1 g y 0=-1\n",
     2 + 4},
};

int fuzz_seed(int index, const char *path) {
    if (index >= (int)(sizeof seeds / sizeof *seeds)) {
        return 0;
    }
    FILE *file = fopen(path, "wb");
    const size_t size = strlen(seeds[index].text);
    const uint8_t head[2] = {(uint8_t)(size % 256), (uint8_t)(size / 256)};
    int written = file != NULL && fwrite(head, 1, 2, file) == 2 &&
                  fwrite(seeds[index].text, 1, size, file) == size;
    for (int i = 0; written && i < seeds[index].numbers; ++i) {
        /* Tags lie wherever a weight begins, and 0 is a number too. */
        const float number = 0.0f;
        written = fwrite(&number, sizeof number, 1, file) == 1;
    }
    return file != NULL && fclose(file) == 0 && written;
}
