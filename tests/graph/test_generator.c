/* test_generator.c - a trained DCGAN generator, built by hand, against PyTorch's images. */
#include "support/test.h"

#include <stdlib.h>

#include "support/compare.h"
#include "support/h5.h"
#include "support/network.h"

typedef struct images {
    double *values;
    int64_t count;
} images;

/* The 16 reference latents through the generator; the caller frees the images. */
static images generate(int32_t threads, uf_dtype dtype, bool fuse, uf_plan plan,
                       const h5_array *latents) {
    uf_context *context = test_context(threads);
    uf_store *store = NULL;
    uf_graph *graph = NULL;
    uf_program *program = NULL;
    uf_store_options store_options = uf_store_options_default();
    store_options.dtype = dtype;
    assert_ok(uf_store_create_with(context, "generator", &store_options, &store));
    assert_ok(uf_store_load_hdf5(store, test_source_path("weights/dcgan_fashion_mnist.h5"), NULL));
    assert_ok(uf_graph_create(context, &graph));
    network_generator(graph, store, latents->extent[0]);
    uf_program_options options = uf_program_options_default();
    options.dtype = dtype;
    options.fuse = fuse;
    options.plan = plan;
    assert_ok(uf_program_compile(graph, &options, &program));
    uf_tensor *z = uf_program_input(program, "z");
    uf_tensor *image = uf_program_output(program, "image");
    assert_non_null(z);
    assert_non_null(image);
    assert_ok(uf_tensor_upload_as(z, UF_F64, latents->values, latents->count));
    assert_ok(uf_program_run(program));
    images result = {NULL, uf_tensor_count(image)};
    result.values = test_allocate((size_t)result.count * sizeof *result.values);
    assert_ok(uf_tensor_download_as(image, UF_F64, result.values, result.count));
    uf_program_destroy(program);
    uf_graph_destroy(graph);
    uf_store_destroy(store);
    uf_context_destroy(context);
    return result;
}

static void test_images(void **state) {
    (void)state;
    const h5_file file = h5_open(test_data_path("dcgan_fashion_mnist_reference.h5"));
    h5_array latents = h5_read(file, "/", "z");
    h5_array expected = h5_read(file, "/", "images_f64");
    for (int fuse = 0; fuse < 2; ++fuse) {
        images f32 = generate(2, UF_F32, fuse == 1, UF_PLAN_REUSE, &latents);
        images f64 = generate(2, UF_F64, fuse == 1, UF_PLAN_REUSE, &latents);
        assert_int_equal(f32.count, expected.count);
        assert_int_equal(f64.count, expected.count);
        assert_close("images in f32", compare_absolute(f32.values, expected.values, f32.count),
                     1e-5);
        assert_close("images in f64", compare_absolute(f64.values, expected.values, f64.count),
                     1e-11);
        free(f32.values);
        free(f64.values);
    }
    h5_free(&latents);
    h5_free(&expected);
    h5_close(file);
}

static void test_bits(void **state) {
    (void)state;
    const h5_file file = h5_open(test_data_path("dcgan_fashion_mnist_reference.h5"));
    h5_array latents = h5_read(file, "/", "z");
    for (int type = 0; type < 2; ++type) {
        const uf_dtype dtype = type == 0 ? UF_F32 : UF_F64;
        images first = generate(1, dtype, true, UF_PLAN_REUSE, &latents);
        for (int32_t threads = 1; threads <= 3; ++threads) {
            images other = generate(threads, dtype, true, UF_PLAN_NO_REUSE, &latents);
            assert_same_bits("images", other.values, first.values,
                             first.count * (int64_t)sizeof *first.values);
            free(other.values);
        }
        free(first.values);
    }
    h5_free(&latents);
    h5_close(file);
}

int main(void) {
    const int skipped = test_device_or_skip();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_images), cmocka_unit_test(test_bits)};
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
