/* layer_run.c - one layer's steps, forward and backward, timed by themselves.
 *
 * A program of one layer is compiled with a pass, and its steps are then called without the program
 * around them, as its run calls them: no seed, no copy of a gradient and no launch of a whole run
 * is part of a time. bench_time does the rest, on a GPU a CUDA graph of many calls. */
#include "layer_run.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/parallel.h"
#include "core/tensor.h"
#include "graph/program.h"

#include "timer.h"

const char *const bench_layer_directions[BENCH_LAYER_DIRECTIONS] = {"forward", "backward"};

/* ---- contents ---- */

static uf_status fill_wide(uf_context *context, const uf_view *output, uint64_t seed, double low,
                           double high) {
    uf_random_kernel_args args;
    memset(&args, 0, sizeof args);
    args.kind = UF_RANDOM_UNIFORM;
    args.seed = seed;
    args.a = low;
    args.b = high;
    args.output = *output;
    return context->kernels->random_fill(context, &args);
}

/* random_fill makes no bf16: such a tensor is filled by way of f32. */
static uf_status fill_real(uf_tensor *tensor, uint64_t seed, double low, double high) {
    uf_context *const context = tensor->context;
    const uf_view view = uf_view_of(tensor->data, tensor->dtype, &tensor->shape);
    if (tensor->dtype != UF_BF16) {
        return fill_wide(context, &view, seed, low, high);
    }
    uf_tensor *wide;
    UF_TRY(uf_tensor_create(context, UF_F32, tensor->shape, &wide));
    const uf_copy_kernel_args args = {.input = uf_view_of(wide->data, UF_F32, &wide->shape),
                                      .output = view,
                                      .mode = UF_OVERWRITE};
    uf_status status = fill_wide(context, &args.input, seed, low, high);
    if (status == UF_OK) {
        status = context->kernels->copy(context, &args);
    }
    uf_tensor_destroy(wide);
    return status;
}

/* In an order that no kernel can foresee: the upper bits of Knuth's multiplicative hash. */
static uf_status fill_indices(uf_tensor *tensor, int64_t most) {
    const int64_t count = uf_tensor_count(tensor);
    int64_t *const indices = malloc((size_t)(count + 1) * sizeof *indices);
    if (indices == NULL) {
        return uf_fail(UF_ERROR_OUT_OF_MEMORY, "out of host memory for indices");
    }
    for (int64_t i = 0; i < count; ++i) {
        indices[i] = (int64_t)(((uint64_t)i * UINT64_C(0x9e3779b97f4a7c15) >> 33) % (uint64_t)most);
    }
    const uf_status status = uf_tensor_upload(tensor, indices);
    free(indices);
    return status;
}

/* ---- the program ---- */

typedef struct built {
    bench_layer_graph g;
    uf_value output;
    uf_program *program;
    bool has_pass;
} built;

static uf_status fill(built *b) {
    for (int32_t i = 0; i < b->g.input_count; ++i) {
        const bench_layer_input *const input = &b->g.inputs[i];
        uf_tensor *const tensor = uf_program_input(b->program, input->name);
        UF_TRY(input->indices ? fill_indices(tensor, (int64_t)input->high)
                              : fill_real(tensor, (uint64_t)i + 1, input->low, input->high));
    }
    return b->has_pass ? fill_real(uf_program_seed(b->program, 0, 0), 99, -1.0, 1.0) : UF_OK;
}

static uf_status compile(built *b, const bench_layer_row *row, uf_dtype dtype) {
    uf_value wanted[BENCH_LAYER_INPUTS];
    uf_program_options options = uf_program_options_default();
    uf_pass pass = uf_pass_default();
    for (int32_t i = 0; i < b->g.input_count; ++i) {
        if (b->g.inputs[i].wanted) {
            wanted[pass.input_count++] = b->g.inputs[i].value;
        }
    }
    pass.inputs = wanted;
    pass.losses = &b->output;
    pass.loss_count = 1;
    pass.external_seeds = true;
    pass.stores = &b->g.store;
    pass.store_count = uf_store_size(b->g.store) > 0 ? 1 : 0;
    b->has_pass = pass.input_count > 0 || pass.store_count > 0;
    options.dtype = dtype;
    options.mode = (row->facts & BENCH_LAYER_EVAL) != 0 ? UF_EVAL : UF_TRAIN;
    options.plan = UF_PLAN_NO_REUSE;
    options.fuse = false;
    options.capture = false;
    options.passes = &pass;
    options.pass_count = b->has_pass ? 1 : 0;
    return uf_program_compile(b->g.graph, &options, &b->program);
}

/* Ready to run, and run once: every value that a step reads is there. */
static uf_status prepare(built *b, uf_context *context, const bench_layer_row *row, uf_dtype dtype,
                         bool quick) {
    uf_store_options options = uf_store_options_default();
    options.dtype = dtype == UF_F64 ? UF_F64 : UF_F32;
    b->g.size = bench_layer_size_of(dtype, quick);
    UF_TRY(uf_store_create_with(context, "store", &options, &b->g.store));
    UF_TRY(uf_graph_create(context, &b->g.graph));
    b->output = row->build(row, &b->g);
    uf_output(b->g.graph, "output", b->output);
    UF_TRY(uf_graph_status(b->g.graph));
    UF_TRY(uf_init_default(b->g.graph, b->g.store));
    UF_TRY(compile(b, row, dtype));
    UF_TRY(fill(b));
    UF_TRY(uf_program_run(b->program));
    return uf_context_synchronize(context);
}

/* ---- bytes ---- */

static double bytes_of(const uf_view *view) {
    return view->data != NULL ? (double)(uf_view_count(view) * (int64_t)uf_dtype_size(view->dtype))
                              : 0;
}

static double bytes_of_all(const uf_view *views, int32_t count) {
    double bytes = 0;
    for (int32_t i = 0; i < count; ++i) {
        bytes += bytes_of(&views[i]);
    }
    return bytes;
}

static double forward_bytes(const uf_exec *exec, uint32_t facts) {
    const double written = bytes_of(&exec->output);
    double read = bytes_of_all(exec->inputs, UF_MAX_INPUTS);
    if ((facts & BENCH_LAYER_READS_SHAPE) != 0) {
        read = 0;
    } else if ((facts & BENCH_LAYER_READS_PART) != 0) {
        read = written;
    }
    return read + written + bytes_of_all(exec->params, UF_MAX_PARAMS) +
           bytes_of_all(exec->saved, UF_MAX_SAVED);
}

/* A step of going backward has the views alone that its formula reads: uf_layer.backward_reads. */
static double backward_bytes(const uf_exec *exec, uint32_t facts) {
    double bytes = bytes_of(&exec->grad_output) + bytes_of(&exec->output) +
                   bytes_of_all(exec->inputs, UF_MAX_INPUTS) +
                   bytes_of_all(exec->saved, UF_MAX_SAVED) +
                   bytes_of_all(exec->grad_inputs, UF_MAX_INPUTS) +
                   bytes_of_all(exec->grad_params, UF_MAX_PARAMS);
    if ((facts & BENCH_LAYER_LOOKS_UP) == 0) {
        bytes += bytes_of_all(exec->params, UF_MAX_PARAMS);
    }
    return bytes;
}

/* ---- times ---- */

static bool is_timed(const uf_step *step, uf_step_kind kind) {
    return !step->removed && step->kind == kind &&
           (kind == UF_STEP_BACKWARD || !step->node->layer->shares_input);
}

typedef struct steps {
    const uf_program *program;
    uf_step_kind kind;
} steps;

static uf_status run_steps(void *user, int set) {
    const steps *const s = user;
    (void)set;
    for (int32_t i = 0; i < s->program->step_count; ++i) {
        const uf_step *const step = &s->program->steps[i];
        if (is_timed(step, s->kind)) {
            const uf_layer *const layer = step->node->layer;
            UF_TRY(s->kind == UF_STEP_FORWARD ? layer->forward(&step->exec)
                                              : layer->backward(&step->exec));
        }
    }
    return UF_OK;
}

/* ---- a test of what was timed ---- */

static uf_status write_nan(uf_context *context, const uf_view *view) {
    const uf_fill_kernel_args args = {.output = *view, .value = (double)NAN};
    return context->kernels->fill(context, &args);
}

static uf_status check_finite(uf_context *context, const uf_view *view) {
    const int64_t count = uf_view_count(view);
    const uf_shape shape = UF_SHAPE(count);
    const uf_tensor tensor = uf_tensor_over(context, view->data, view->dtype, &shape);
    double *const values = malloc((size_t)(count + 1) * sizeof *values);
    if (values == NULL) {
        return uf_fail(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a result");
    }
    uf_status status = uf_tensor_download_as(&tensor, UF_F64, values, count);
    for (int64_t i = 0; status == UF_OK && i < count; ++i) {
        if (!isfinite(values[i])) {
            status = uf_fail(UF_ERROR_INTERNAL, "element %" PRId64 " of a result is not finite", i);
        }
    }
    free(values);
    return status;
}

/* Call `function` for everything that the timed steps write, but saved sums. */
static uf_status for_results(const steps *s,
                             uf_status (*function)(uf_context *context, const uf_view *view)) {
    for (int32_t i = 0; i < s->program->step_count; ++i) {
        const uf_step *const step = &s->program->steps[i];
        if (!is_timed(step, s->kind)) {
            continue;
        }
        if (s->kind == UF_STEP_FORWARD) {
            UF_TRY(function(s->program->context, &step->exec.output));
        }
        for (int32_t j = 0; j < UF_MAX_INPUTS; ++j) {
            const uf_view *const gradient = &step->exec.grad_inputs[j];
            UF_TRY(gradient->data != NULL ? function(s->program->context, gradient) : UF_OK);
        }
        for (int32_t j = 0; j < UF_MAX_PARAMS; ++j) {
            const uf_view *const gradient = &step->exec.grad_params[j];
            UF_TRY(gradient->data != NULL ? function(s->program->context, gradient) : UF_OK);
        }
    }
    return UF_OK;
}

/* Times all steps of a direction: a function of layers.h may append several layers. */
static uf_status time_direction(const built *b, const bench_layer_row *row, int direction,
                                bool quick, double budget_ms, bench_layer_time *out) {
    const bool forward = direction == BENCH_LAYER_FORWARD;
    steps s = {b->program, forward ? UF_STEP_FORWARD : UF_STEP_BACKWARD};
    const bench_work work = {run_steps, &s, 1};
    for (int32_t i = 0; i < b->program->step_count; ++i) {
        const uf_step *const step = &b->program->steps[i];
        if (is_timed(step, s.kind)) {
            out->there = true;
            out->bytes += forward ? forward_bytes(&step->exec, row->facts)
                                  : backward_bytes(&step->exec, row->facts);
            if ((row->facts & BENCH_LAYER_SUMS_FIRST) != 0) {
                out->again += bytes_of(&step->exec.inputs[0]) + bytes_of(&step->exec.grad_output);
            }
        }
    }
    if (!out->there) {
        return UF_OK;
    }
    uf_context *const context = b->program->context;
    UF_TRY(quick ? for_results(&s, write_nan) : UF_OK);
    if (!bench_time(context, &work, budget_ms, &out->timing)) {
        const uf_status status = uf_context_check(context);
        return status != UF_OK ? status : UF_ERROR_INTERNAL;
    }
    out->kernels = bench_kernels(context, &work);
    return quick ? for_results(&s, check_finite) : uf_context_synchronize(context);
}

static uf_status measure(built *b, uf_context *context, const bench_layer_row *row, uf_dtype dtype,
                         bool quick, double budget_ms, bench_layer_result *out) {
    UF_TRY(prepare(b, context, row, dtype, quick));
    for (int32_t i = 0; i < b->program->step_count; ++i) {
        const uf_step *const step = &b->program->steps[i];
        if (step->kind == UF_STEP_FORWARD) {
            out->layer = step->node->layer->name;
        }
    }
    out->input = uf_program_input_shape(b->program, 0);
    out->output = uf_program_output_shape(b->program, 0);
    for (int direction = 0; direction < BENCH_LAYER_DIRECTIONS; ++direction) {
        UF_TRY(time_direction(b, row, direction, quick, budget_ms, &out->times[direction]));
    }
    return UF_OK;
}

uf_status bench_layer_measure(uf_context *context, const bench_layer_row *row, uf_dtype dtype,
                              bool quick, double budget_ms, bench_layer_result *result) {
    built b;
    memset(&b, 0, sizeof b);
    memset(result, 0, sizeof *result);
    const uf_status status = measure(&b, context, row, dtype, quick, budget_ms, result);
    uf_program_destroy(b.program);
    uf_graph_destroy(b.g.graph);
    uf_store_destroy(b.g.store);
    return status;
}

/* ---- the copy ---- */

typedef struct copy {
    uf_context *context;
    char *to, *from;
    size_t part; /* bytes of a thread */
} copy;

static void copy_part(void *argument, int64_t unit, int32_t thread) {
    const copy *const c = argument;
    const size_t at = (size_t)unit * c->part;
    (void)thread;
    memcpy(c->to + at, c->from + at, c->part);
}

static uf_status copy_once(void *user, int set) {
    copy *const c = user;
    (void)set;
    uf_parallel_for(c->context, uf_context_threads(c->context), copy_part, c);
    return UF_OK;
}

double bench_layer_copy_rate(uf_context *context, size_t size) {
    if (uf_context_device(context) != UF_DEVICE_CPU) {
        return bench_copy_rate(context);
    }
    const size_t threads = (size_t)uf_context_threads(context);
    const size_t whole = size / threads * threads;
    void *memory = NULL;
    if (uf_context_allocate(context, 2 * whole, UF_MEMORY_DEVICE, &memory) != UF_OK) {
        return 0;
    }
    memset(memory, 1, 2 * whole); /* pages that were never written are one page to a reader */
    copy c = {context, memory, (char *)memory + whole, whole / threads};
    const bench_work work = {copy_once, &c, 1};
    bench_timing timing;
    const double rate =
        bench_time_cpu(&work, 200, &timing) ? 2.0 * (double)whole / (1e-3 * timing.ms) : 0;
    uf_context_release(context, memory, 2 * whole, UF_MEMORY_DEVICE);
    return rate;
}
