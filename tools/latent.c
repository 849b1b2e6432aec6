#include "latent.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

/* Enough for count * size doubles; counts and sizes come from files and the command line. */
static int latents_allocate(int64_t count, int64_t size, struct latents *latents) {
    uf_shape shape = UF_SHAPE(count, size);
    int64_t total = uf_shape_count(&shape);
    if (total < 1 || (uint64_t)total > SIZE_MAX / sizeof(double)) {
        return fail("%" PRId64 " latents of %" PRId64 " values do not fit in memory", count, size);
    }
    latents->values = malloc((size_t)total * sizeof(double));
    if (latents->values == NULL) {
        return fail("out of memory for %" PRId64 " latents of %" PRId64 " values", count, size);
    }
    latents->count = count;
    latents->size = size;
    return EXIT_DONE;
}

void latents_free(struct latents *latents) {
    free(latents->values);
    *latents = (struct latents){0};
}

/* The library's own normals, as a parameter that is drawn. In double, so that a run in f32 starts
 * from the rounded latents of the run in f64. */
static int draw(uf_store *store, int64_t count, int64_t size, struct latents *latents) {
    TRY_LIBRARY(uf_store_declare(store, "z", UF_SHAPE(count, size), UF_ROLE_PARAMETER));
    TRY_LIBRARY(uf_init_normal(store, "z", 0.0, 1.0));
    uf_tensor *z = NULL;
    TRY_LIBRARY(uf_store_tensor(store, "z", &z));
    TRY(latents_allocate(count, size, latents));
    TRY_LIBRARY(uf_tensor_download(z, latents->values));
    return EXIT_DONE;
}

int latents_draw(uf_context *context, int64_t count, int64_t size, struct latents *latents) {
    uf_store_options options = uf_store_options_default();
    options.dtype = UF_F64;
    uf_store *store = NULL;
    TRY_LIBRARY(uf_store_create_with(context, "latents", &options, &store));
    int status = draw(store, count, size, latents);
    uf_store_destroy(store);
    return status;
}

static int check_shape(const char *source, const uf_shape *shape, int64_t size) {
    bool flat = shape->rank == 2;
    bool image = shape->rank == 4 && shape->extent[2] == 1 && shape->extent[3] == 1;
    if ((flat || image) && shape->extent[0] > 0 && shape->extent[1] == size) {
        return EXIT_DONE;
    }
    char text[128];
    return fail("%s is %s; the generator takes latents of shape (N, %" PRId64 ", 1, 1) or "
                "(N, %" PRId64 ")",
                source, uf_shape_format(shape, text, sizeof text), size, size);
}

static int check_finite(const char *source, const struct latents *latents) {
    for (int64_t i = 0; i < latents->count * latents->size; i++) {
        if (!isfinite(latents->values[i])) {
            return fail("%s: value %" PRId64 " of latent %" PRId64 " is %g; latents must be finite",
                        source, i % latents->size, i / latents->size, latents->values[i]);
        }
    }
    return EXIT_DONE;
}

static int read_dataset(const char *source, const char *path, const char *dataset, int64_t count,
                        int64_t size, struct latents *latents) {
    uf_shape shape;
    TRY_LIBRARY(uf_hdf5_read(path, dataset, UF_F64, &shape, NULL, 0));
    TRY(check_shape(source, &shape, size));
    if (count > shape.extent[0]) {
        return fail("%s holds %" PRId64 " latents, --count asks for %" PRId64, source,
                    shape.extent[0], count);
    }
    TRY(latents_allocate(shape.extent[0], size, latents));
    TRY_LIBRARY(
        uf_hdf5_read(path, dataset, UF_F64, &shape, latents->values, uf_shape_count(&shape)));
    if (count >= 0) {
        latents->count = count;
    }
    return check_finite(source, latents);
}

int latents_read(const char *source, int64_t count, int64_t size, struct latents *latents) {
    const char *colon = strrchr(source, ':');
    if (colon == NULL || colon == source || colon[1] == '\0') {
        return fail_usage("generate: --latent is '%s'; it takes a file and a dataset in it, as in "
                          "latents.h5:/z",
                          source);
    }
    size_t length = (size_t)(colon - source);
    char *path = malloc(length + 1);
    if (path == NULL) {
        return fail("out of memory");
    }
    memcpy(path, source, length);
    path[length] = '\0';
    int status = read_dataset(source, path, colon + 1, count, size, latents);
    free(path);
    return status;
}
