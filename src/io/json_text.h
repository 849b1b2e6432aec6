/* json_text.h - pieces of JSON in a text that nobody has checked: strings and counts, one after
 * another. They are decoded where they stand, so nothing is allocated and nothing nests. */
#ifndef UF_IO_JSON_TEXT_H
#define UF_IO_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A text that is read from its beginning to its end; it needs no zero behind it. */
typedef struct uf_json_text {
    char *begin, *at, *end;
} uf_json_text;

void uf_json_skip_space(uf_json_text *json);

/* Step over `c` if it comes next, after spaces. */
bool uf_json_take(uf_json_text *json, char c);

/* Step over the string that comes next. *string points to it, decoded, UTF-8 with a zero at its
 * end. Returns NULL, or what is wrong with the text at json->at, to follow "byte 7 ". */
const char *uf_json_string(uf_json_text *json, char **string);

/* The same of an integer from 0 to INT64_MAX, without a point or an exponent. */
const char *uf_json_count(uf_json_text *json, int64_t *count);

#endif
