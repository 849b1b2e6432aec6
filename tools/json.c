#include "json.h"

#include <inttypes.h>
#include <math.h>

#include "../src/core/utf8.h"

struct json json_begin(FILE *stream) {
    return (struct json){.stream = stream};
}

static void write_string(FILE *stream, const char *text) {
    fputc('"', stream);
    while (*text != '\0') {
        const uf_character c = uf_character_at(text);
        if (!c.valid) {
            fputs("\\ufffd", stream);
        } else if (c.code == '"' || c.code == '\\') {
            fprintf(stream, "\\%c", *text);
        } else if (!c.shown) {
            fprintf(stream, "\\u%04x", (unsigned)c.code);
        } else {
            fwrite(text, 1, c.length, stream);
        }
        text += c.length;
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
