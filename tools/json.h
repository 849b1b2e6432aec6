/* json.h - a report as JSON on a stream, a member at a time. Knows where commas go, nothing else.
 */
#ifndef UF_TOOLS_JSON_H
#define UF_TOOLS_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
    FILE *stream;
    int depth;
    bool has_member; /* of the innermost object or array: the next one needs a comma */
};

/* A writer at the top of `stream`. */
struct json json_begin(FILE *stream);

/* `name` is NULL for the top value and inside arrays. */
void json_open(struct json *json, const char *name, char bracket); /* '{' or '[' */
void json_close(struct json *json, char bracket);                  /* '}' or ']' */
void json_text(struct json *json, const char *name, const char *text);
void json_integer(struct json *json, const char *name, int64_t number);
void json_number(struct json *json, const char *name, double number); /* not finite: null */
void json_bool(struct json *json, const char *name, bool value);

#endif
