/* bench_ops.c - times the transposed convolution of a list of shapes: forward, gradient of the
 * input, gradient of the weight, with cuDNN beside it where CMake found one. `bench_ops --help`
 * says how it is called.
 *
 * A time includes everything that a call does: packing, workspace, layout, split reductions. Every
 * timed result is held to f64 samples; a row that fails them prints VOID instead of a time, and so
 * does cuDNN's. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cell.h"
#include "every_variant.h"
#include "report.h"
#ifdef BENCH_CUDA
#include "kernels/cuda/conv/conv.h"
#endif

/* The kernel that the library chooses for this cell. */
static const char *variant_of(const bench_cell *c, const bench_shape *shape) {
#ifdef BENCH_CUDA
    uf_conv_kernel_args args;
    uf_conv_plan plan[2];
    static const uf_conv_direction directions[] = {UF_CONV_DGRAD, UF_CONV_FPROP, UF_CONV_WGRAD};
    bench_kernel_args(shape, c->views[BENCH_X].dtype, c->args.math, &args);
    args.variant = c->args.variant;
    if (uf_context_device(c->context) == UF_DEVICE_CUDA &&
        uf_cuda_conv_chosen(c->context, directions[c->op], &args, plan) == UF_OK) {
        return uf_cuda_conv_variant_name((uf_cuda_conv_variant)plan->variant);
    }
#endif
    (void)shape;
    return c->args.variant != NULL ? c->args.variant : "-";
}

static uf_status measure(uf_context *context, bench_cudnn *cudnn, const bench_options *o,
                         const bench_shape *shape, bench_op op, uf_dtype dtype, uf_math math,
                         double copy_rate, bench_result *out) {
    bench_cell c;
    bench_samples samples;
    bench_sample(shape, op, dtype, &samples);
    uf_status status = bench_cell_create(&c, context, shape, op, dtype, math);
    if (status == UF_OK) {
        status = bench_cell_force(&c, o->variant);
    }
    if (status == UF_OK) {
        const bench_work work = {bench_cell_run, &c, c.sets};
        bench_timing timing;
        out->variant = variant_of(&c, shape);
        if (bench_time(context, &work, o->budget_ms, &timing)) {
            out->ms = timing.ms;
            out->replayed = timing.replayed;
            status = bench_cell_check(&c, &samples, &out->error);
        } else {
            status = uf_context_check(context);
            status = status == UF_OK ? UF_ERROR_INTERNAL : status;
        }
    }
    bench_cell_destroy(&c);
    UF_TRY(status);
    const double flops = 2.0 * bench_products(shape);
    const double peak = bench_peak(context, dtype, math);
    const size_t element = uf_dtype_size(dtype);
    out->valid = out->error <= bench_tolerance(dtype, math);
    out->tflops = flops / (1e9 * out->ms);
    out->floor_ms = 0;
    if (copy_rate > 0) {
        out->floor_ms = 1e3 * bench_bytes(shape, element) / copy_rate;
    }
    if (peak > 0 && 1e3 * flops / peak > out->floor_ms) {
        out->floor_ms = 1e3 * flops / peak;
    }
    out->nchw.ms = out->nhwc.ms = -1;
    if (cudnn != NULL) {
        out->nchw = bench_cudnn_time(cudnn, shape, op, dtype, math, false, &samples, o->budget_ms);
        out->nhwc = bench_cudnn_time(cudnn, shape, op, dtype, math, true, &samples, o->budget_ms);
        /* As strict as with ourselves, but FFT and Winograd may lose a few bits more, and round to
         * bf16 between their steps. */
        const double tolerance = 8.0 * bench_tolerance(dtype == UF_BF16 ? UF_F32 : dtype, math);
        bench_rival *rivals[] = {&out->nchw, &out->nhwc};
        for (int i = 0; i < 2; ++i) {
            if (rivals[i]->ms >= 0 && !(rivals[i]->error <= tolerance)) {
                rivals[i]->ms = -1;
                (void)snprintf(rivals[i]->algorithm, sizeof rivals[i]->algorithm, "VOID(%.0e)",
                               rivals[i]->error);
            }
        }
    }
    return UF_OK;
}

static int run_all(uf_context *context, const bench_options *o, const bench_shape *shapes,
                   int64_t count) {
    bench_cudnn *cudnn = o->rival ? bench_cudnn_create(context) : NULL;
    const double copy_rate = bench_copy_rate(context);
    const bool on_gpu = uf_context_device(context) == UF_DEVICE_CUDA;
    bench_loss *losses = calloc((size_t)(count * BENCH_OPS), sizeof *losses);
    int invalid = 0;
    if (losses == NULL) {
        (void)fprintf(stderr, "bench_ops: out of memory\n");
        bench_cudnn_destroy(cudnn);
        return 1;
    }
    if (!o->json) {
        bench_print_head(context, cudnn != NULL, copy_rate);
    }
    for (int math = 0; math < BENCH_MATHS; ++math) {
        bench_means m = {0, 0, 0, 0, 0, losses};
        uf_dtype dtype;
        if (!bench_dtype_of(o, math, on_gpu, &dtype)) {
            continue;
        }
        for (int64_t i = 0; i < count; ++i) {
            for (int op = 0; op < BENCH_OPS; ++op) {
                bench_result r;
                memset(&r, 0, sizeof r);
                if (!bench_wanted(o, &shapes[i], op)) {
                    continue;
                }
                m.cells += 1;
                if (measure(context, cudnn, o, &shapes[i], (bench_op)op, dtype, (uf_math)math,
                            copy_rate, &r) != UF_OK) {
                    (void)fprintf(stderr, "bench_ops: %s %s: %s\n", shapes[i].name,
                                  bench_op_names[op], uf_last_error());
                    ++invalid;
                    if (uf_context_check(context) != UF_OK) {
                        free(losses);
                        bench_cudnn_destroy(cudnn);
                        return 1;
                    }
                    continue;
                }
                invalid += !r.valid;
                bench_print_row(o->json, &shapes[i], (bench_op)op, uf_dtype_name(dtype),
                                bench_math_names[math], &r, &m);
            }
        }
        if (!o->json) {
            bench_print_means(bench_math_names[math], &m);
        }
    }
    free(losses);
    bench_cudnn_destroy(cudnn);
    if (invalid > 0) {
        (void)fprintf(stderr, "bench_ops: %d cells are void\n", invalid);
    }
    return invalid > 0;
}

/* The lists one after the other; NULL after a sentence. */
static bench_shape *read_lists(const bench_options *o, int64_t *count) {
    static const char *const standard[] = {BENCH_SHAPES};
    const char *const *const files = o->lists > 0 ? o->shapes : standard;
    bench_shape *all = NULL;
    *count = 0;
    for (int i = 0; i < (o->lists > 0 ? o->lists : 1); ++i) {
        char error[256] = "out of memory";
        int64_t more = 0;
        bench_shape *const shapes = bench_read_shapes(files[i], &more, error, sizeof error);
        bench_shape *const larger =
            shapes == NULL ? NULL : realloc(all, (size_t)(*count + more) * sizeof *all);
        if (larger == NULL) {
            (void)fprintf(stderr, "bench_ops: %s: %s\n", files[i], error);
            free(shapes);
            free(all);
            return NULL;
        }
        all = larger;
        memcpy(all + *count, shapes, (size_t)more * sizeof *all);
        *count += more;
        free(shapes);
    }
    return all;
}

int main(int argc, char **argv) {
    bench_options o;
    char error[256];
    int64_t count;
    if (!bench_options_parse(argc, argv, &o, error, sizeof error)) {
        (void)fprintf(stderr, "bench_ops: %s\n%s", error, bench_usage);
        return 2;
    }
    if (o.help) {
        (void)fputs(bench_usage, stdout);
        return 0;
    }
    bench_shape *shapes = read_lists(&o, &count);
    if (shapes == NULL) {
        return 2;
    }
    uf_context *context = NULL;
    uf_context_options context_options = uf_context_options_default();
    context_options.device = o.device;
    int code = 2;
    if (o.capability != 0) {
        code = bench_every_variant(NULL, &o, shapes, count, stdout);
    } else if (uf_context_create(&context_options, &context) != UF_OK) {
        (void)fprintf(stderr, "bench_ops: %s\n", uf_last_error());
    } else if (o.every_variant) {
        code = bench_every_variant(context, &o, shapes, count, stdout);
    } else {
        code = run_all(context, &o, shapes, count);
    }
    uf_context_destroy(context);
    free(shapes);
    return code;
}
