/* png_job.h - the state that libpng's callbacks share, reading and writing. libpng reports errors
 * by longjmp; only functions that call setjmp see it. */
#ifndef UF_IO_PNG_JOB_H
#define UF_IO_PNG_JOB_H

#include <png.h>
#include <stdbool.h>

#include "io/picture.h"

UF_BEGIN_DECLS

#define UF_LARGEST_REAL 21474.83647 /* of gAMA and cHRM: 31 bits, in hundred-thousandths */
#define UF_LARGEST_PROFILE 8000000  /* bytes; libpng's usual limit, which not every build has */

typedef struct uf_png_job {
    png_structp png;
    png_infop info;
    bool out_of_memory; /* libpng could not have what it asked for */
    char message[128];  /* libpng's, or one of ours */
} uf_png_job;

/* libpng's callbacks. The job is its error_ptr and its mem_ptr. */
void uf_png_on_error(png_structp png, png_const_charp message);
void uf_png_on_warning(png_structp png, png_const_charp message);
png_voidp uf_png_on_malloc(png_structp png, png_alloc_size_t size);
void uf_png_on_free(png_structp png, png_voidp memory);

bool uf_is_little_endian(void);

/* Can a gAMA or cHRM chunk hold it? */
bool uf_png_is_storable(double value);

/* libpng writes no others: a name is what is left of it without characters that it cannot have. */
bool uf_png_is_storable_name(const char *name);

UF_END_DECLS

#endif
