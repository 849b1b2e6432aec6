/* check_draw.c - are the arguments of dropout and noise legal, on any device? */
#include "kernels/check.h"

#include <inttypes.h>
#include <math.h>

/* Contiguous but for the distance of its images. */
static uf_status check_images(const char *kernel, const char *name, const uf_view *view,
                              bool written) {
    UF_TRY(uf_check_stored(kernel, name, view));
    UF_TRY(uf_check_view(kernel, name, view, written, uf_any_extent));
    uf_view image = *view;
    image.extent[0] = 1;
    UF_CHECK_ARG(uf_view_is_contiguous(&image), "%s: the images of %s must be contiguous", kernel,
                 name);
    return UF_OK;
}

static uf_status check_draw(const char *kernel, const uf_draw *draw) {
    UF_CHECK_ARG(draw->step != NULL, "%s: step is NULL", kernel);
    return UF_OK;
}

uf_status uf_dropout_check(const uf_dropout_kernel_args *args) {
    const char *kernel = "dropout";
    UF_TRY(check_draw(kernel, &args->draw));
    UF_TRY(uf_check_mode(kernel, args->mode));
    UF_CHECK_ARG(args->p >= 0.0 && args->p <= 1.0, "%s: p is %g; it must be 0 to 1", kernel,
                 args->p);
    UF_CHECK_ARG(args->plane >= 1, "%s: plane is %" PRId64 "; it must be 1 or more", kernel,
                 args->plane);
    UF_TRY(check_images(kernel, "input", &args->input, false));
    UF_TRY(check_images(kernel, "output", &args->output, true));
    UF_TRY(uf_check_same_type(kernel, "output", &args->output, "input", &args->input));
    return uf_check_same_shape(kernel, "output", &args->output, "input", &args->input);
}

uf_status uf_noise_check(const uf_noise_kernel_args *args) {
    const char *kernel = "noise";
    UF_TRY(check_draw(kernel, &args->draw));
    UF_CHECK_ARG(args->kind == UF_RANDOM_UNIFORM || args->kind == UF_RANDOM_NORMAL,
                 "%s: %d is no uf_random_kind", kernel, (int)args->kind);
    return check_images(kernel, "output", &args->output, true);
}
