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

#include "bench.h"
#include "report.h"
#ifdef BENCH_CUDA
#include "kernels/cuda/conv/conv.h"
#endif

typedef struct options {
    const char *shapes, *variant, *only;
    uf_device device;
    int op;    /* -1: all */
    int math;  /* -1: all */
    int dtype; /* -1: bf16 for math bf16 on a GPU, else f32 */
    bool json, rival;
    double budget_ms;
} options;

/* Everything of one cell on our side. */
typedef struct cell {
    uf_context *context;
    bench_op op;
    uf_conv2d_args args;
    uf_view views[BENCH_TENSORS];
    char *memory[BENCH_TENSORS];
    size_t bytes[BENCH_TENSORS];
    int sets;
    void *workspace;
    size_t workspace_size;
} cell;

static const char *const math_names[] = {"fp32", "tf32", "bf16"};

static uf_status call(void *user, int set) {
    cell *c = user;
    uf_view views[BENCH_TENSORS];
    for (int t = 0; t < BENCH_TENSORS; ++t) {
        views[t] = c->views[t];
        views[t].data = c->memory[t] + (size_t)set * c->bytes[t];
    }
    uf_conv2d_args args = c->args;
    args.weight = views[BENCH_W];
    args.workspace = c->workspace;
    args.workspace_size = c->workspace_size;
    switch (c->op) {
    case BENCH_FORWARD:
        args.input = views[BENCH_Y];
        args.output = views[BENCH_X];
        return uf_conv_transpose2d_forward(c->context, &args);
    case BENCH_GRAD_INPUT:
        args.grad_output = views[BENCH_X];
        args.grad_input = views[BENCH_Y];
        return uf_conv_transpose2d_backward_input(c->context, &args);
    default:
        args.input = views[BENCH_Y];
        args.grad_output = views[BENCH_X];
        args.grad_weight = views[BENCH_W];
        memset(&args.weight, 0, sizeof args.weight);
        return uf_conv_transpose2d_backward_weight(c->context, &args);
    }
}

static uf_status query(cell *c) {
    uf_conv2d_args args = c->args;
    uf_view views[BENCH_TENSORS];
    for (int t = 0; t < BENCH_TENSORS; ++t) {
        views[t] = c->views[t];
        views[t].data = c->memory[t];
    }
    args.weight = views[BENCH_W];
    switch (c->op) {
    case BENCH_FORWARD:
        args.input = views[BENCH_Y];
        args.output = views[BENCH_X];
        return uf_conv_transpose2d_forward_workspace(c->context, &args, &c->workspace_size);
    case BENCH_GRAD_INPUT:
        args.grad_output = views[BENCH_X];
        args.grad_input = views[BENCH_Y];
        return uf_conv_transpose2d_backward_input_workspace(c->context, &args, &c->workspace_size);
    default:
        args.input = views[BENCH_Y];
        args.grad_output = views[BENCH_X];
        args.grad_weight = views[BENCH_W];
        memset(&args.weight, 0, sizeof args.weight);
        return uf_conv_transpose2d_backward_weight_workspace(c->context, &args, &c->workspace_size);
    }
}

static uf_status fill_one(const cell *c, bench_tensor t, uf_view view) {
    const struct uf_kernels *kernels = c->context->kernels;
    if (t == bench_written(c->op)) {
        uf_fill_kernel_args args;
        memset(&args, 0, sizeof args);
        args.output = view;
        args.value = (double)NAN; /* what is never written shows */
        return kernels->fill(c->context, &args);
    }
    uf_random_kernel_args args;
    memset(&args, 0, sizeof args);
    args.kind = UF_RANDOM_UNIFORM;
    args.seed = bench_seed(t);
    args.a = -1.0;
    args.b = 1.0;
    args.output = view;
    return kernels->random_fill(c->context, &args);
}

/* The f32 numbers that cuDNN's bf16 tensors are made of too, rounded. */
static uf_status fill_rounded(const cell *c, bench_tensor t) {
    const int64_t *e = c->views[t].extent;
    const size_t bytes = (size_t)uf_view_count(&c->views[t]) * sizeof(float);
    void *wide;
    UF_TRY(uf_context_allocate(c->context, bytes, UF_MEMORY_DEVICE, &wide));
    uf_status status = fill_one(c, t, uf_view_nchw(wide, UF_F32, e[0], e[1], e[2], e[3]));
    for (int set = 0; set < c->sets && status == UF_OK; ++set) {
        if (bench_convert(c->context->stream, c->memory[t] + (size_t)set * c->bytes[t], wide,
                          UF_F32, true, e, c->views[t].stride) != 0) {
            status = uf_fail(UF_ERROR_DEVICE, "benchmark: rounding to bf16 failed");
        }
    }
    if (status == UF_OK) {
        status = uf_context_synchronize(c->context);
    }
    uf_context_release(c->context, wide, bytes, UF_MEMORY_DEVICE);
    return status;
}

static uf_status fill(const cell *c) {
    for (int t = 0; t < BENCH_TENSORS; ++t) {
        if (c->views[t].dtype == UF_BF16) {
            UF_TRY(fill_rounded(c, (bench_tensor)t));
            continue;
        }
        for (int set = 0; set < c->sets; ++set) {
            uf_view view = c->views[t];
            view.data = c->memory[t] + (size_t)set * c->bytes[t];
            UF_TRY(fill_one(c, (bench_tensor)t, view));
        }
    }
    return UF_OK;
}

static uf_status prepare(cell *c, const bench_shape *shape, uf_dtype dtype) {
    for (int t = 0; t < BENCH_TENSORS; ++t) {
        int64_t e[4];
        bench_extent(shape, (bench_tensor)t, e);
        c->views[t] = uf_view_nchw(NULL, dtype, e[0], e[1], e[2], e[3]);
        c->bytes[t] = uf_align_up((size_t)uf_view_count(&c->views[t]) * uf_dtype_size(dtype));
    }
    /* So many sets that together they pass the cache twice over. */
    const double sets =
        3.0 * (double)bench_cache(c->context) / bench_bytes(shape, uf_dtype_size(dtype));
    c->sets = sets < 1 ? 1 : sets > 64 ? 64 : (int)sets + 1;
    for (int t = 0; t < BENCH_TENSORS; ++t) {
        void *memory;
        UF_TRY(uf_context_allocate(c->context, c->bytes[t] * (size_t)c->sets, UF_MEMORY_DEVICE,
                                   &memory));
        c->memory[t] = memory;
    }
    UF_TRY(query(c));
    UF_TRY(uf_context_allocate(c->context, c->workspace_size, UF_MEMORY_DEVICE, &c->workspace));
    return fill(c);
}

static void release(cell *c) {
    for (int t = 0; t < BENCH_TENSORS; ++t) {
        uf_context_release(c->context, c->memory[t], c->bytes[t] * (size_t)c->sets,
                           UF_MEMORY_DEVICE);
    }
    uf_context_release(c->context, c->workspace, c->workspace_size, UF_MEMORY_DEVICE);
}

/* What the last timed call of every set left: set 0 was written by all kinds of runs. */
static uf_status check(const cell *c, uf_dtype dtype, const bench_samples *samples, double *error) {
    double got[BENCH_SAMPLES];
    const bench_tensor written = bench_written(c->op);
    const int64_t *stride = c->views[written].stride;
    const size_t element = uf_dtype_size(dtype);
    for (int i = 0; i < samples->count; ++i) {
        unsigned char raw[8];
        int64_t offset = 0;
        for (int axis = 0; axis < 4; ++axis) {
            offset += samples->at[i][axis] * stride[axis];
        }
        UF_TRY(c->context->device->download(
            c->context, raw, c->memory[written] + (size_t)offset * element, element));
        uf_convert(&got[i], UF_F64, raw, dtype, 1);
    }
    *error = bench_error(samples, got);
    return UF_OK;
}

/* The kernel that the library chooses for this cell. */
static const char *variant_of(const cell *c, const bench_shape *shape, uf_math math) {
#ifdef BENCH_CUDA
    uf_conv_kernel_args args;
    uf_conv_plan plan[2];
    static const uf_conv_direction directions[] = {UF_CONV_DGRAD, UF_CONV_FPROP, UF_CONV_WGRAD};
    memset(&args, 0, sizeof args);
    args.x = c->views[BENCH_X];
    args.w = c->views[BENCH_W];
    args.y = c->views[BENCH_Y];
    memcpy(args.stride, shape->stride, sizeof args.stride);
    memcpy(args.padding, shape->padding, sizeof args.padding);
    memcpy(args.dilation, shape->dilation, sizeof args.dilation);
    args.groups = shape->groups;
    args.math = math;
    args.variant = c->args.variant;
    if (uf_context_device(c->context) == UF_DEVICE_CUDA &&
        uf_cuda_conv_chosen(c->context, directions[c->op], &args, plan) == UF_OK) {
        return uf_cuda_conv_variant_name((uf_cuda_conv_variant)plan->variant);
    }
#endif
    (void)shape;
    (void)math;
    return c->args.variant != NULL ? c->args.variant : "-";
}

static uf_status measure(uf_context *context, bench_cudnn *cudnn, const options *o,
                         const bench_shape *shape, bench_op op, uf_dtype dtype, uf_math math,
                         double copy_rate, bench_result *out) {
    cell c;
    bench_samples samples;
    memset(&c, 0, sizeof c);
    c.context = context;
    c.op = op;
    c.args = uf_conv2d_args_default();
    memcpy(c.args.params.stride, shape->stride, sizeof shape->stride);
    memcpy(c.args.params.padding, shape->padding, sizeof shape->padding);
    memcpy(c.args.params.output_padding, shape->output_padding, sizeof shape->output_padding);
    memcpy(c.args.params.dilation, shape->dilation, sizeof shape->dilation);
    c.args.params.groups = shape->groups;
    c.args.math = math;
    c.args.variant = o->variant;
    bench_sample(shape, op, dtype, &samples);
    uf_status status = prepare(&c, shape, dtype);
    if (status == UF_OK) {
        const bench_work work = {call, &c, c.sets};
        out->variant = variant_of(&c, shape, math);
        out->ms = bench_time(context, &work, o->budget_ms, &out->replayed);
        status = out->ms >= 0 ? check(&c, dtype, &samples, &out->error) : uf_context_check(context);
        if (out->ms < 0 && status == UF_OK) {
            status = UF_ERROR_INTERNAL;
        }
    }
    release(&c);
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

static void usage(void) {
    (void)puts(
        "bench_ops [--shapes FILE.json] [--device cpu|cuda] [--math fp32|tf32|bf16|all]\n"
        "          [--op forward|grad_input|grad_weight|all] [--dtype f32|f64] [--only SHAPE]\n"
        "          [--variant NAME] [--budget-ms MS] [--no-cudnn] [--json]\n"
        "Times the transposed convolution of each shape, beside cuDNN where it was found. With "
        "--math bf16 tensors\n"
        "are bf16 on a GPU, ours as cuDNN's; --dtype f32 keeps ours in f32.");
}

/* The index of `name` among `count` names; -1 for "all", -2 when it is none of them. */
static int find(const char *name, const char *const *names, int count) {
    for (int i = 0; i < count; ++i) {
        if (strcmp(name, names[i]) == 0) {
            return i;
        }
    }
    return strcmp(name, "all") == 0 ? -1 : -2;
}

static bool parse(int argc, char **argv, options *o) {
    static const char *const devices[] = {"auto", "cpu", "cuda"};
    static const char *const dtypes[] = {"f32", "f64"};
    for (int i = 1; i < argc; ++i) {
        const char *key = argv[i];
        if (strcmp(key, "--json") == 0) {
            o->json = true;
            continue;
        }
        if (strcmp(key, "--no-cudnn") == 0) {
            o->rival = false;
            continue;
        }
        if (i + 1 == argc) {
            return false;
        }
        const char *value = argv[++i];
        int found = 0;
        if (strcmp(key, "--shapes") == 0) {
            o->shapes = value;
        } else if (strcmp(key, "--only") == 0) {
            o->only = value;
        } else if (strcmp(key, "--variant") == 0) {
            o->variant = value;
        } else if (strcmp(key, "--budget-ms") == 0) {
            o->budget_ms = strtod(value, NULL);
        } else if (strcmp(key, "--device") == 0) {
            found = find(value, devices, 3);
            o->device = (uf_device)found;
        } else if (strcmp(key, "--math") == 0) {
            found = o->math = find(value, math_names, 3);
        } else if (strcmp(key, "--op") == 0) {
            found = o->op = find(value, bench_op_names, BENCH_OPS);
        } else if (strcmp(key, "--dtype") == 0) {
            found = o->dtype = find(value, dtypes, 2);
        } else {
            return false;
        }
        if (found == -2 || (found == -1 && strcmp(key, "--device") == 0)) {
            (void)fprintf(stderr, "bench_ops: %s does not take \"%s\"\n", key, value);
            return false;
        }
    }
    return true;
}

static int run_all(uf_context *context, const options *o, const bench_shape *shapes,
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
    for (int math = 0; math < 3; ++math) {
        bench_means m = {0, 0, 0, 0, 0, losses};
        const uf_dtype dtype = o->dtype == 1                                    ? UF_F64
                               : o->dtype < 0 && math == UF_MATH_BF16 && on_gpu ? UF_BF16
                                                                                : UF_F32;
        if ((o->math >= 0 && o->math != math) || (dtype == UF_F64 && math != UF_MATH_FP32)) {
            continue;
        }
        for (int64_t i = 0; i < count; ++i) {
            for (int op = 0; op < BENCH_OPS; ++op) {
                bench_result r;
                memset(&r, 0, sizeof r);
                if ((o->op >= 0 && o->op != op) ||
                    (o->only != NULL && strcmp(o->only, shapes[i].name) != 0)) {
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
                                math_names[math], &r, &m);
            }
        }
        if (!o->json) {
            bench_print_means(math_names[math], &m);
        }
    }
    free(losses);
    bench_cudnn_destroy(cudnn);
    if (invalid > 0) {
        (void)fprintf(stderr, "bench_ops: %d cells are void\n", invalid);
    }
    return invalid > 0;
}

int main(int argc, char **argv) {
    options o = {BENCH_SHAPES, NULL, NULL, UF_DEVICE_AUTO, -1, 0, -1, false, true, 200.0};
    char error[256];
    int64_t count;
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        usage();
        return 0;
    }
    if (!parse(argc, argv, &o)) {
        usage();
        return 2;
    }
    bench_shape *shapes = bench_read_shapes(o.shapes, &count, error, sizeof error);
    if (shapes == NULL) {
        (void)fprintf(stderr, "bench_ops: %s: %s\n", o.shapes, error);
        return 2;
    }
    uf_context *context = NULL;
    uf_context_options context_options = uf_context_options_default();
    context_options.device = o.device;
    int code = 2;
    if (uf_context_create(&context_options, &context) != UF_OK) {
        (void)fprintf(stderr, "bench_ops: %s\n", uf_last_error());
    } else {
        code = run_all(context, &o, shapes, count);
    }
    uf_context_destroy(context);
    free(shapes);
    return code;
}
