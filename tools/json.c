#include "json.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>

struct json json_begin(FILE *stream) {
    return (struct json){.stream = stream};
}

/* The length of the UTF-8 sequence at `text`, or 0 where there is none: names of files are bytes.
 */
static size_t utf8_length(const unsigned char *text) {
    size_t length = text[0] < 0x80   ? 1
                    : text[0] < 0xC2 ? 0
                    : text[0] < 0xE0 ? 2
                    : text[0] < 0xF0 ? 3
                    : text[0] < 0xF5 ? 4
                                     : 0;
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    bool overlong = (text[0] == 0xE0 && text[1] < 0xA0) || (text[0] == 0xF0 && text[1] < 0x90);
    bool outside = (text[0] == 0xED && text[1] > 0x9F) || (text[0] == 0xF4 && text[1] > 0x8F);
    return overlong || outside ? 0 : length;
}

static void write_string(FILE *stream, const char *text) {
    const unsigned char *byte = (const unsigned char *)text;
    fputc('"', stream);
    while (*byte != '\0') {
        size_t length = utf8_length(byte);
        if (length == 0) {
            fputs("\\ufffd", stream);
            length = 1;
        } else if (*byte == '"' || *byte == '\\') {
            fprintf(stream, "\\%c", *byte);
        } else if (*byte < 0x20 || *byte == 0x7F) {
            fprintf(stream, "\\u%04x", (unsigned)*byte);
        } else {
            fwrite(byte, 1, length, stream);
        }
        byte += length;
    }
    fputc('"', stream);
}

static void begin_value(struct json *json, const char *name) {
    if (json->has_member) {
        fputc(',', json->stream);
    }
    if (json->depth > 0) {
        fprintf(json->stream, "\n%*s", 2 * json->depth, "");
    }
    if (name != NULL) {
        write_string(json->stream, name);
        fputs(": ", json->stream);
    }
    json->has_member = true;
}

void json_open(struct json *json, const char *name, char bracket) {
    begin_value(json, name);
    fputc(bracket, json->stream);
    json->depth++;
    json->has_member = false;
}

void json_close(struct json *json, char bracket) {
    json->depth--;
    if (json->has_member) {
        fprintf(json->stream, "\n%*s", 2 * json->depth, "");
    }
    fputc(bracket, json->stream);
    json->has_member = true;
    if (json->depth == 0) {
        fputc('\n', json->stream);
    }
}

void json_text(struct json *json, const char *name, const char *text) {
    begin_value(json, name);
    write_string(json->stream, text);
}

void json_integer(struct json *json, const char *name, int64_t number) {
    begin_value(json, name);
    fprintf(json->stream, "%" PRId64, number);
}

void json_number(struct json *json, const char *name, double number) {
    begin_value(json, name);
    if (isfinite(number)) {
        fprintf(json->stream, "%.9g", number);
    } else {
        fputs("null", json->stream);
    }
}

void json_bool(struct json *json, const char *name, bool value) {
    begin_value(json, name);
    fputs(value ? "true" : "false", json->stream);
}
