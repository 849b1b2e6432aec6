/* option.c - the functions of layers.h by name, and their options as numbers and text. */
#include "model/model.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UF_LAYER(name) &uf_layer_##name,
static const uf_layer *const layers[] = {
#include "layers/layers.def"
};
#undef UF_LAYER

const uf_layer_function *uf_function_find(const char *name, const uf_layer **layer) {
    for (size_t i = 0; i < sizeof layers / sizeof *layers; ++i) {
        const uf_layer_function *function = layers[i]->functions;
        for (; function != NULL && function->name != NULL; ++function) {
            if (strcmp(function->name, name) == 0) {
                *layer = layers[i];
                return function;
            }
        }
    }
    return NULL;
}

/* ---- numbers ---- */

static int64_t saturated(double number) {
    return number >= 0x1p63 ? INT64_MAX : (int64_t)number;
}

double uf_option_number(const uf_option *option, const void *attributes, int i) {
    double number;
    memcpy(&number, (const char *)attributes + option->offset + (size_t)i * sizeof number,
           sizeof number);
    return number;
}

int64_t uf_option_integer(const uf_option *option, const void *attributes, int i) {
    const char *at = (const char *)attributes + option->offset;
    int64_t wide;
    int32_t narrow;
    bool flag;
    switch (option->kind) {
    case UF_OPTION_INTEGER:
    case UF_OPTION_PAIR:
        memcpy(&wide, at + (size_t)i * sizeof wide, sizeof wide);
        return wide;
    case UF_OPTION_FLAG:
        memcpy(&flag, at, sizeof flag);
        return flag;
    default: /* UF_OPTION_SMALL, _CHOICE, _AXES */
        memcpy(&narrow, at + (size_t)i * sizeof narrow, sizeof narrow);
        return narrow;
    }
}

void uf_option_reset(const uf_option *option, void *attributes) {
    char *at = (char *)attributes + option->offset;
    const double numbers[2] = {option->fallback, option->fallback};
    const int64_t integers[2] = {saturated(numbers[0]), saturated(numbers[0])};
    const int32_t small = (int32_t)integers[0];
    const bool flag = option->fallback != 0.0;
    switch (option->kind) {
    case UF_OPTION_INTEGER:
    case UF_OPTION_PAIR:
        memcpy(at, integers, (option->kind == UF_OPTION_PAIR ? 2 : 1) * sizeof integers[0]);
        break;
    case UF_OPTION_NUMBER:
    case UF_OPTION_NUMBERS:
        memcpy(at, numbers, (option->kind == UF_OPTION_NUMBERS ? 2 : 1) * sizeof numbers[0]);
        break;
    case UF_OPTION_SMALL:
    case UF_OPTION_CHOICE:
        memcpy(at, &small, sizeof small);
        break;
    case UF_OPTION_FLAG:
        memcpy(at, &flag, sizeof flag);
        break;
    case UF_OPTION_AXES:
    case UF_OPTION_SHAPE:
    case UF_OPTION_NAME:
        break; /* zeroed: no axes; the others are required */
    }
}

bool uf_option_is_default(const uf_option *option, const void *attributes) {
    int32_t count;
    switch (option->kind) {
    case UF_OPTION_NUMBERS:
    case UF_OPTION_NUMBER:
        return uf_option_number(option, attributes, 0) == option->fallback &&
               (option->kind == UF_OPTION_NUMBER ||
                uf_option_number(option, attributes, 1) == option->fallback);
    case UF_OPTION_AXES:
        memcpy(&count, (const char *)attributes + option->count, sizeof count);
        return count == 0;
    case UF_OPTION_SHAPE:
    case UF_OPTION_NAME:
        return false;
    default:
        return uf_option_integer(option, attributes, 0) == saturated(option->fallback) &&
               (option->kind != UF_OPTION_PAIR ||
                uf_option_integer(option, attributes, 1) == saturated(option->fallback));
    }
}

static bool fits(const uf_layer_function *function, const uf_node *node) {
    if (node->input_count < function->least_inputs || node->input_count > function->most_inputs) {
        return false;
    }
    for (int32_t i = 0; i < function->count; ++i) {
        const uf_option *option = &function->table[i];
        if (option->place == UF_PLACE_FIXED &&
            !uf_option_is_default(option, node->attributes.bytes)) {
            return false;
        }
        if (option->place == UF_PLACE_INPUTS &&
            uf_option_integer(option, node->attributes.bytes, 0) !=
                (node->input_count == function->most_inputs)) {
            return false;
        }
    }
    return true;
}

const uf_layer_function *uf_function_of(const uf_node *node) {
    const uf_layer_function *function = node->layer->functions;
    for (; function != NULL && function->name != NULL; ++function) {
        if (fits(function, node)) {
            return function;
        }
    }
    return NULL;
}

/* ---- text ---- */

void uf_text_add(uf_text *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const size_t room = text->used < text->size ? text->size - text->used : 0;
    const int length = vsnprintf(room > 0 ? text->at + text->used : NULL, room, format, arguments);
    va_end(arguments);
    text->used += length > 0 ? (size_t)length : 0;
}

/* printf writes the locale's point, which may be anything that is no digit. */
static void write_number(char text[64], double number, int digits) {
    snprintf(text, 64, "%.*g", digits, number);
    const size_t lead = strspn(text, "-0123456789");
    const size_t point = strcspn(text + lead, "-+0123456789eEinfa");
    if (point > 0) {
        memmove(text + lead + 1, text + lead + point, strlen(text + lead + point) + 1);
        text[lead] = '.';
    }
}

void uf_text_number(uf_text *text, double number) {
    char local[64], shown[64];
    int digits = 1;
    do {
        snprintf(local, sizeof local, "%.*g", digits, number); /* strtod reads the same locale */
    } while (strtod(local, NULL) != number && ++digits < 17);
    write_number(shown, number, digits);
    uf_text_add(text, "%s", shown);
}

static bool is_plain(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           strchr("_.-", c) != NULL;
}

void uf_text_name(uf_text *text, const char *name) {
    bool plain = name[0] != '\0';
    for (const char *c = name; *c != '\0'; ++c) {
        plain = plain && is_plain(*c);
    }
    if (plain) {
        uf_text_add(text, "%s", name);
        return;
    }
    uf_text_add(text, "\"");
    for (; *name != '\0'; ++name) {
        uf_text_add(text, *name == '"' || *name == '\\' ? "\\%c" : "%c", *name);
    }
    uf_text_add(text, "\"");
}

static void add_shape(uf_text *text, const uf_shape *shape) {
    uf_text_add(text, "(");
    for (int32_t i = 0; i < shape->rank; ++i) {
        uf_text_add(text, "%s%" PRId64, i == 0 ? "" : ", ", shape->extent[i]);
    }
    uf_text_add(text, ")");
}

static void add_axes(uf_text *text, const uf_option *option, const void *attributes) {
    int32_t count;
    memcpy(&count, (const char *)attributes + option->count, sizeof count);
    uf_text_add(text, "(");
    for (int i = 0; i < count; ++i) {
        uf_text_add(text, "%s%" PRId64, i == 0 ? "" : ", ",
                    uf_option_integer(option, attributes, i));
    }
    uf_text_add(text, ")");
}

void uf_text_option(uf_text *text, const uf_option *option, const void *attributes) {
    const void *at = (const char *)attributes + option->offset;
    switch (option->kind) {
    case UF_OPTION_INTEGER:
    case UF_OPTION_SMALL:
        uf_text_add(text, "%" PRId64, uf_option_integer(option, attributes, 0));
        break;
    case UF_OPTION_PAIR:
        if (uf_option_integer(option, attributes, 0) == uf_option_integer(option, attributes, 1)) {
            uf_text_add(text, "%" PRId64, uf_option_integer(option, attributes, 0));
        } else {
            uf_text_add(text, "(%" PRId64 ", %" PRId64 ")",
                        uf_option_integer(option, attributes, 0),
                        uf_option_integer(option, attributes, 1));
        }
        break;
    case UF_OPTION_NUMBER:
        uf_text_number(text, uf_option_number(option, attributes, 0));
        break;
    case UF_OPTION_NUMBERS:
        uf_text_add(text, "(");
        uf_text_number(text, uf_option_number(option, attributes, 0));
        uf_text_add(text, ", ");
        uf_text_number(text, uf_option_number(option, attributes, 1));
        uf_text_add(text, ")");
        break;
    case UF_OPTION_FLAG:
        uf_text_add(text, uf_option_integer(option, attributes, 0) != 0 ? "true" : "false");
        break;
    case UF_OPTION_CHOICE:
        uf_text_add(text, "%s", option->words[uf_option_integer(option, attributes, 0)].word);
        break;
    case UF_OPTION_AXES:
        add_axes(text, option, attributes);
        break;
    case UF_OPTION_SHAPE:
        add_shape(text, at);
        break;
    case UF_OPTION_NAME:
        uf_text_name(text, at);
        break;
    }
}
