/* jpeg_job.c - libjpeg's callbacks. */
#include "io/jpeg_job.h"

#include <jerror.h>

static _Noreturn void on_error(j_common_ptr jpeg) {
    uf_jpeg_job *job = jpeg->client_data;
    job->out_of_memory = jpeg->err->msg_code == JERR_OUT_OF_MEMORY;
    jpeg->err->format_message(jpeg, job->message);
    longjmp(job->back, 1);
}

/* libjpeg goes on after a warning with samples of its own making: that is an error here. Exempt are
 * warnings after which no sample is missing. Traces have a level of 0 or more. */
static void on_message(j_common_ptr jpeg, int level) {
    const int code = jpeg->err->msg_code;
    if (level < 0 && code != JWRN_EXTRANEOUS_DATA && code != JWRN_ADOBE_XFORM &&
        code != JWRN_JFIF_MAJOR && code != JWRN_BOGUS_ICC) {
        on_error(jpeg);
    }
}

static void on_output(j_common_ptr jpeg) {
    (void)jpeg; /* libjpeg would print */
}

void uf_jpeg_job_begin(uf_jpeg_job *job, j_common_ptr jpeg) {
    jpeg->err = jpeg_std_error(&job->errors);
    job->errors.error_exit = on_error;
    job->errors.emit_message = on_message;
    job->errors.output_message = on_output;
    jpeg->client_data = job;
}
