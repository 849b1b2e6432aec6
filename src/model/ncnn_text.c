/* ncnn_text.c - the lines of ncnn's .param:
 *
 *     7767517
 *     LAYERS BLOBS
 *     TYPE NAME BOTTOMS TOPS bottom... top... KEY=NUMBER... -23300-KEY=COUNT,NUMBER,...
 *
 * Nothing is believed: words, counts and numbers have limits, and each refusal says its line. */
#include "model/ncnn.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC "7767517"
#define ARRAY_BASE (-23300)

/* ---- words ---- */

typedef struct slice {
    const char *at;
    size_t size;
} slice;

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

static uf_status fail_line(const uf_ncnn_text *text, const char *format, ...) UF_PRINTF(2, 3);

static uf_status fail_line(const uf_ncnn_text *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const uf_status status = uf_fail_v(UF_ERROR_FORMAT, format, arguments);
    va_end(arguments);
    uf_error_prefix("%s: line %" PRId32, text->path, text->line);
    return status;
}

/* The next word of the line; of size 0 at its end. */
static slice take_word(uf_ncnn_text *text) {
    while (text->at < text->end && is_space(*text->at)) {
        ++text->at;
    }
    slice word = {.at = text->at};
    while (text->at < text->end && !is_space(*text->at) && *text->at != '\n') {
        ++text->at;
    }
    word.size = (size_t)(text->at - word.at);
    return word;
}

static int shown(slice word) {
    return word.size < 60 ? (int)word.size : 60;
}

/* Go to the first word of the next line that has one. */
static bool take_line(uf_ncnn_text *text) {
    while (text->at < text->end) {
        if (text->line > 0) {
            while (text->at < text->end && *text->at != '\n') {
                ++text->at;
            }
            text->at += text->at < text->end ? 1 : 0;
        }
        ++text->line;
        while (text->at < text->end && is_space(*text->at)) {
            ++text->at;
        }
        if (text->at < text->end && *text->at != '\n') {
            return true;
        }
    }
    return false;
}

static bool read_integer(slice word, int64_t least, int64_t most, int64_t *value) {
    char digits[24], *end;
    if (word.size == 0 || word.size >= sizeof digits) {
        return false;
    }
    memcpy(digits, word.at, word.size);
    digits[word.size] = '\0';
    if (strspn(digits, "+-0123456789") != word.size) {
        return false;
    }
    *value = strtoll(digits, &end, 10);
    return *end == '\0' && end != digits && *value >= least && *value <= most;
}

static bool read_number(slice word, double *value) {
    char digits[48], *end;
    if (word.size == 0 || word.size >= sizeof digits) {
        return false;
    }
    memcpy(digits, word.at, word.size);
    digits[word.size] = '\0';
    if (strspn(digits, "+-0123456789.eE") != word.size) {
        return false;
    }
    *value = strtod(digits, &end);
    return *end == '\0' && end != digits && isfinite(*value);
}

static uf_status take_count(uf_ncnn_text *text, const char *what, int64_t most, int32_t *count) {
    const slice word = take_word(text);
    int64_t number;
    if (!read_integer(word, 0, most, &number)) {
        return fail_line(text, "%s is '%.*s'; it must be an integer from 0 to %" PRId64, what,
                         shown(word), word.at, most);
    }
    *count = (int32_t)number;
    return UF_OK;
}

static uf_status take_name(uf_ncnn_text *text, const char *what, char name[UF_NCNN_NAME_SIZE]) {
    const slice word = take_word(text);
    if (word.size == 0 || word.size >= UF_NCNN_NAME_SIZE) {
        return fail_line(text, "%s has %zu bytes; it must have 1 to %d", what, word.size,
                         UF_NCNN_NAME_SIZE - 1);
    }
    for (size_t i = 0; i < word.size; ++i) {
        const unsigned char byte = (unsigned char)word.at[i];
        if (byte <= 0x20 || byte >= 0x7f) {
            return fail_line(text, "%s has the byte 0x%02x in it; names are of ASCII", what,
                             (unsigned)byte);
        }
    }
    memcpy(name, word.at, word.size);
    name[word.size] = '\0';
    return UF_OK;
}

/* ---- options ---- */

/* Up to the next comma. */
static slice take_item(slice *list) {
    slice item = *list;
    const char *comma = memchr(list->at, ',', list->size);
    item.size = comma != NULL ? (size_t)(comma - list->at) : list->size;
    const size_t skipped = item.size + (comma != NULL ? 1 : 0);
    list->at += skipped;
    list->size -= skipped;
    return item;
}

static uf_status read_numbers(const uf_ncnn_text *text, int64_t key, slice list,
                              uf_ncnn_option *option) {
    int64_t count = 1;
    if (option->array) {
        const slice first = take_item(&list);
        if (!read_integer(first, 0, UF_NCNN_MOST_NUMBERS, &count)) {
            return fail_line(text,
                             "the array of option %" PRId64 " has '%.*s' numbers; there may be 0 "
                             "to %d",
                             key, shown(first), first.at, UF_NCNN_MOST_NUMBERS);
        }
    }
    option->given = option->whole = true;
    for (option->count = 0; option->count < count; ++option->count) {
        const slice item = take_item(&list);
        double *number = &option->numbers[option->count];
        int64_t integer;
        if (!read_number(item, number)) {
            return fail_line(text, "option %" PRId64 " is '%.*s'; it must be a number", key,
                             shown(item), item.at);
        }
        option->whole = option->whole && read_integer(item, INT32_MIN, INT32_MAX, &integer);
    }
    if (list.size > 0) {
        return fail_line(text, "option %" PRId64 " has more numbers than the %" PRId64 " it counts",
                         key, count);
    }
    return UF_OK;
}

static uf_status read_option(const uf_ncnn_text *text, slice word, uf_ncnn_layer *layer) {
    const char *sign = memchr(word.at, '=', word.size);
    const slice left = {word.at, sign != NULL ? (size_t)(sign - word.at) : 0};
    int64_t key;
    if (!read_integer(left, ARRAY_BASE - UF_NCNN_KEYS + 1, UF_NCNN_KEYS - 1, &key) ||
        (key < 0 && key > ARRAY_BASE)) {
        return fail_line(text,
                         "'%.*s' is no option: KEY=NUMBER with a key from 0 to %d, or "
                         "%d-KEY=COUNT,NUMBER,...",
                         shown(word), word.at, UF_NCNN_KEYS - 1, ARRAY_BASE);
    }
    const bool array = key < 0;
    key = array ? ARRAY_BASE - key : key;
    /* Shapes that ncnn's optimizer noted, and bits for its own choice of kernels. */
    if (key == 30 || key == 31) {
        return UF_OK;
    }
    uf_ncnn_option *option = &layer->options[key];
    if (option->given) {
        return fail_line(text, "option %" PRId64 " is there twice", key);
    }
    option->array = array;
    const size_t used = left.size + 1;
    return read_numbers(text, key, (slice){word.at + used, word.size - used}, option);
}

/* ---- lines ---- */

uf_status uf_ncnn_begin(uf_ncnn_text *text) {
    int32_t layers, blobs;
    text->line = 0;
    const slice magic = take_line(text) ? take_word(text) : (slice){text->at, 0};
    if (magic.size != strlen(MAGIC) || memcmp(magic.at, MAGIC, magic.size) != 0) {
        return fail_line(text, "a .param of ncnn begins with " MAGIC ", not with '%.*s'",
                         shown(magic), magic.at);
    }
    if (!take_line(text)) {
        return fail_line(text, "the numbers of layers and blobs are missing");
    }
    UF_TRY(take_count(text, "the number of layers", UF_MODEL_MAX_LINES, &layers));
    return take_count(text, "the number of blobs", INT32_MAX, &blobs);
}

uf_status uf_ncnn_next(uf_ncnn_text *text, uf_ncnn_layer *layer, bool *more) {
    *more = take_line(text);
    if (!*more) {
        return UF_OK;
    }
    if (text->line > UF_MODEL_MAX_LINES) {
        return fail_line(text, "the text has more than %d lines", UF_MODEL_MAX_LINES);
    }
    memset(layer->options, 0, sizeof layer->options);
    UF_TRY(take_name(text, "the type", layer->type));
    UF_TRY(take_name(text, "the layer's name", layer->name));
    UF_TRY(take_count(text, "the number of inputs", UF_NCNN_MOST_BLOBS, &layer->bottom_count));
    UF_TRY(take_count(text, "the number of outputs", UF_NCNN_MOST_BLOBS, &layer->top_count));
    for (int32_t i = 0; i < layer->bottom_count; ++i) {
        UF_TRY(take_name(text, "an input's name", layer->bottoms[i]));
    }
    for (int32_t i = 0; i < layer->top_count; ++i) {
        UF_TRY(take_name(text, "an output's name", layer->tops[i]));
    }
    for (slice word = take_word(text); word.size > 0; word = take_word(text)) {
        UF_TRY(read_option(text, word, layer));
    }
    return UF_OK;
}

/* ---- options of a layer ---- */

void uf_ncnn_refuse(uf_ncnn *net, uf_status status, const char *format, ...) {
    if (net->status != UF_OK) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    net->status = uf_fail_v(status, format, arguments);
    va_end(arguments);
    memcpy(net->message, uf_last_error(), strlen(uf_last_error()) + 1);
}

bool uf_ncnn_has(const uf_ncnn *net, int32_t key) {
    return net->layer.options[key].given;
}

double uf_ncnn_number(uf_ncnn *net, int32_t key, double fallback) {
    uf_ncnn_option *option = &net->layer.options[key];
    option->used = true;
    if (option->given && option->array) {
        uf_ncnn_refuse(net, UF_ERROR_FORMAT,
                       "option %" PRId32 " is an array where one number "
                       "belongs",
                       key);
    }
    return option->given ? option->numbers[0] : fallback;
}

int64_t uf_ncnn_integer(uf_ncnn *net, int32_t key, int64_t fallback) {
    const double number = uf_ncnn_number(net, key, (double)fallback);
    if (uf_ncnn_has(net, key) && !net->layer.options[key].whole) {
        uf_ncnn_refuse(net, UF_ERROR_FORMAT, "option %" PRId32 " is %g; it must be an integer", key,
                       number);
        return fallback;
    }
    return (int64_t)number;
}

int32_t uf_ncnn_array(uf_ncnn *net, int32_t key, const double **numbers) {
    uf_ncnn_option *option = &net->layer.options[key];
    option->used = true;
    *numbers = option->numbers;
    return option->given ? option->count : 0;
}

int32_t uf_ncnn_integers(uf_ncnn *net, int32_t key, int64_t numbers[UF_NCNN_MOST_NUMBERS]) {
    const double *given;
    const int32_t count = uf_ncnn_array(net, key, &given);
    if (count > 0 && !net->layer.options[key].whole) {
        uf_ncnn_refuse(net, UF_ERROR_FORMAT, "option %" PRId32 " has numbers that are no integers",
                       key);
        return 0;
    }
    for (int32_t i = 0; i < count; ++i) {
        numbers[i] = (int64_t)given[i];
    }
    return count;
}

void uf_ncnn_only(uf_ncnn *net, int32_t key, const char *what, int64_t value) {
    const double given = uf_ncnn_number(net, key, (double)value);
    if (given != (double)value) {
        uf_ncnn_refuse(net, UF_ERROR_UNSUPPORTED,
                       "%s (option %" PRId32 ") is %g; unfurl has it as %" PRId64 " alone", what,
                       key, given, value);
    }
}

void uf_ncnn_ignore(uf_ncnn *net, const int32_t *keys) {
    for (; *keys >= 0; ++keys) {
        net->layer.options[*keys].used = true;
    }
}
