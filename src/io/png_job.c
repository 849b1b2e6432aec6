/* png_job.c - libpng's callbacks, and which values its files can hold. */
#include "io/png_job.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void uf_png_on_error(png_structp png, png_const_charp message) {
    uf_png_job *job = png_get_error_ptr(png);
    snprintf(job->message, sizeof job->message, "%s", message);
    png_longjmp(png, 1);
}

png_voidp uf_png_on_malloc(png_structp png, png_alloc_size_t size) {
    uf_png_job *job = png_get_mem_ptr(png);
    void *memory = malloc(size);
    job->out_of_memory = job->out_of_memory || memory == NULL;
    return memory;
}

void uf_png_on_free(png_structp png, png_voidp memory) {
    (void)png;
    free(memory);
}

void uf_png_on_warning(png_structp png, png_const_charp message) {
    (void)png, (void)message;
}

bool uf_is_little_endian(void) {
    const uint16_t one = 1;
    unsigned char first;
    memcpy(&first, &one, 1);
    return first == 1;
}
bool uf_png_is_storable(double value) {
    return value >= 0.0 && value <= UF_LARGEST_REAL;
}

bool uf_png_is_storable_name(const char *name) {
    for (; *name != '\0'; ++name) {
        const unsigned char c = (unsigned char)*name;
        if ((c > 32 && c < 127) || c > 160) {
            return true;
        }
    }
    return false;
}
