#include "common/common.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static _Noreturn void end(int status, const char *format, va_list arguments) UF_PRINTF(2, 0);

static _Noreturn void end(int status, const char *format, va_list arguments) {
    char text[8192];
    vsnprintf(text, sizeof text, format, arguments);
    fflush(NULL); /* earlier output stands first where both go to one file */
    fprintf(stderr, "%s: ", example_name);
    for (const char *c = text; *c != '\0'; ++c) {
        const unsigned char byte = (unsigned char)*c;
        fprintf(stderr, byte < 0x20 || byte == 0x7f ? "\\x%02x" : "%c", byte);
    }
    fputc('\n', stderr);
    _exit(status); /* threads may be at work: nothing is torn down under them */
}

void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    end(1, format, arguments);
}

void fail_usage(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    end(2, format, arguments);
}

void must(uf_status status) {
    if (status != UF_OK) fail("%s", uf_last_error());
}

void *allocate(int64_t count, size_t size) {
    void *memory = calloc(count > 0 ? (size_t)count : 1, size);
    if (memory == NULL) {
        fail("no memory for %lld elements of %zu bytes", (long long)count, size);
    }
    return memory;
}

static uint64_t mix(uint64_t z) {
    z += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

uint64_t random_bits(uint64_t seed, uint64_t stream, uint64_t index) {
    return mix(mix(mix(seed) ^ stream) ^ index);
}
