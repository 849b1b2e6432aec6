/* jpeg_job.h - the state that libjpeg's callbacks share, reading and writing. libjpeg reports
 * errors by longjmp; only functions that call setjmp see it. */
#ifndef UF_IO_JPEG_JOB_H
#define UF_IO_JPEG_JOB_H

#include <setjmp.h>
#include <stddef.h>
#include <stdio.h>

#include <jpeglib.h>

#include "io/jpeg.h"

UF_BEGIN_DECLS

typedef struct uf_jpeg_job {
    struct jpeg_error_mgr errors;
    jmp_buf back;
    bool out_of_memory;
    char message[JMSG_LENGTH_MAX]; /* libjpeg's */
} uf_jpeg_job;

/* Make `jpeg`, whose structure the caller has, report to the job: nothing is printed or ended. */
void uf_jpeg_job_begin(uf_jpeg_job *job, j_common_ptr jpeg);

UF_END_DECLS

#endif
