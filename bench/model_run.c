/* model_run.c - a model compiled, filled with numbers, and timed. */
#include "model_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/context.h"
#include "graph/program.h"

#include "timer.h"

/* Runs of one measurement are queued for about so long, so that waiting for them is a small part.
 */
#define QUEUED_MS 2.0
enum { MOST_QUEUED = 100 };

/* Counts what a context holds of its device's memory. */
typedef struct memory {
    uf_allocator next;
    size_t held, peak;
} memory;

static void *allocate(void *user, size_t size, size_t alignment, uf_memory_kind kind,
                      void *stream) {
    memory *const m = user;
    void *const pointer = m->next.allocate(m->next.user, size, alignment, kind, stream);
    if (pointer != NULL && kind == UF_MEMORY_DEVICE) {
        m->held += size;
        m->peak = m->held > m->peak ? m->held : m->peak;
    }
    return pointer;
}

static void release(void *user, void *pointer, size_t size, uf_memory_kind kind, void *stream) {
    memory *const m = user;
    m->held -= pointer != NULL && kind == UF_MEMORY_DEVICE ? size : 0;
    m->next.release(m->next.user, pointer, size, kind, stream);
}

/* ---- numbers: a function of a tensor's or input's name and of the index alone ---- */

/* FNV-1a of a name. */
static uint64_t hash_of(const char *name) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *name != '\0'; ++name) {
        hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* In [-1, 1): the upper 24 bits, which an f32 holds, of splitmix64's number `index` behind a seed.
 */
static double number(uint64_t seed, int64_t index) {
    uint64_t z = seed + ((uint64_t)index + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ z >> 31) >> 40) * 0x1p-23 - 1.0;
}

static uf_status fill(uf_tensor *tensor, const char *name, double bound) {
    const int64_t count = uf_tensor_count(tensor);
    const uint64_t seed = hash_of(name);
    float *const values = malloc((size_t)(count + 1) * sizeof *values);
    if (values == NULL) {
        return uf_fail(UF_ERROR_OUT_OF_MEMORY, "out of host memory for \"%s\"", name);
    }
    for (int64_t i = 0; i < count; ++i) {
        values[i] = (float)(bound * number(seed, i));
    }
    const uf_status status = uf_tensor_upload_as(tensor, UF_F32, values, count);
    free(values);
    return status;
}

/* Weights within 1 / sqrt(fan_in), as PyTorch's default has them; biases 0 and batch norms that
 * change nothing. */
static uf_status fill_store(uf_graph *graph, uf_store *store) {
    UF_TRY(uf_init_default(graph, store));
    for (int64_t i = 0; i < uf_store_size(store); ++i) {
        uf_store_entry entry;
        UF_TRY(uf_store_entry_at(store, i, &entry));
        const size_t length = strlen(entry.name);
        if (entry.shape.rank >= 2) {
            uf_tensor *tensor;
            double fan_in = 1;
            for (int32_t axis = 1; axis < entry.shape.rank; ++axis) {
                fan_in *= (double)entry.shape.extent[axis];
            }
            UF_TRY(uf_store_tensor(store, entry.name, &tensor));
            UF_TRY(fill(tensor, entry.name, 1.0 / sqrt(fan_in)));
        } else if (length > 5 && strcmp(entry.name + length - 5, ".bias") == 0) {
            UF_TRY(uf_init_constant(store, entry.name, 0.0));
        }
    }
    uf_store_touch(store);
    return UF_OK;
}

/* ---- the program ---- */

typedef struct running {
    uf_context *context;
    bench_model model;
    uf_store *stores[BENCH_MODEL_STORES];
    int32_t store_count;
    uf_program *program;
} running;

static uf_status make_stores(running *r, const bench_model_setting *setting) {
    uf_store_options options = uf_store_options_default();
    options.dtype = setting->dtype == UF_F64 ? UF_F64 : UF_F32;
    while (r->store_count < BENCH_MODEL_STORES && setting->row->stores[r->store_count] != NULL) {
        UF_TRY(uf_store_create_with(r->context, setting->row->stores[r->store_count], &options,
                                    &r->stores[r->store_count]));
        ++r->store_count;
    }
    return UF_OK;
}

static uf_status compile(running *r, const bench_model_setting *setting, uf_graph *graph) {
    uf_optimizer *optimizers[BENCH_MODEL_PASSES];
    uf_pass passes[BENCH_MODEL_PASSES];
    uf_program_options options = uf_program_options_default();
    for (int32_t p = 0; p < r->model.pass_count; ++p) {
        const bench_model_pass *const pass = &r->model.passes[p];
        UF_TRY(uf_optimizer_create_adam(r->stores[pass->store], &r->model.adam, &optimizers[p]));
        passes[p] = uf_pass_default();
        passes[p].losses = pass->losses;
        passes[p].loss_count = pass->loss_count;
        passes[p].stores = &r->stores[pass->store];
        passes[p].store_count = 1;
        passes[p].optimizers = &optimizers[p];
        passes[p].optimizer_count = 1;
        passes[p].external_seeds = true;
    }
    options.dtype = setting->dtype;
    options.math = setting->math;
    options.mode = setting->row->mode;
    options.capture = setting->capture;
    options.passes = passes;
    options.pass_count = r->model.pass_count;
    UF_TRY(uf_program_compile(graph, &options, &r->program));
    for (int32_t p = 0; p < r->model.pass_count; ++p) {
        for (int32_t l = 0; l < r->model.passes[p].loss_count; ++l) {
            UF_TRY(uf_tensor_upload_as(uf_program_seed(r->program, p, l), UF_F64,
                                       &r->model.passes[p].weights[l], 1));
        }
    }
    return UF_OK;
}

/* The model, ready to run; what was made is destroyed with the context. */
static uf_status prepare(running *r, const bench_model_setting *setting) {
    uf_graph *graph;
    UF_TRY(make_stores(r, setting));
    UF_TRY(uf_graph_create(r->context, &graph));
    r->model.adam = uf_adam_options_default();
    setting->row->build(graph, r->stores, &setting->size, &r->model);
    UF_TRY(uf_graph_status(graph));
    for (int32_t s = 0; s < r->store_count; ++s) {
        UF_TRY(fill_store(graph, r->stores[s]));
    }
    UF_TRY(compile(r, setting, graph));
    for (int32_t i = 0; i < r->model.input_count; ++i) {
        const char *const name = r->model.inputs[i];
        UF_TRY(fill(uf_program_input(r->program, name), name, 1.0));
    }
    return UF_OK;
}

/* The losses, or the mean of the picture's absolute values. Waits. */
static uf_status figures_of(const running *r, double *figures, int32_t count) {
    UF_TRY(uf_context_synchronize(r->context));
    bool finite = true;
    if (r->model.pass_count > 0) {
        int64_t step;
        UF_TRY(uf_program_losses(r->program, figures, count, &step, &finite));
    } else {
        const uf_tensor *const image = uf_program_output(r->program, "image");
        const int64_t pixels = uf_tensor_count(image);
        float *const values = malloc((size_t)(pixels + 1) * sizeof *values);
        if (values == NULL) {
            return uf_fail(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a picture");
        }
        const uf_status status = uf_tensor_download_as(image, UF_F32, values, pixels);
        figures[0] = 0;
        for (int64_t i = 0; i < pixels && status == UF_OK; ++i) {
            figures[0] += fabs((double)values[i]) / (double)pixels;
        }
        free(values);
        UF_TRY(status);
        finite = isfinite(figures[0]);
    }
    return finite ? UF_OK : uf_fail(UF_ERROR_INTERNAL, "a result is not a finite number");
}

static uf_status run_once(void *user, int set) {
    (void)set;
    return uf_program_run(((running *)user)->program);
}

/* `count` runs and the wait for them, in milliseconds for a run. */
static uf_status timed_runs(running *r, int64_t count, int64_t *runs, double *ms) {
    const double begin = bench_seconds();
    for (int64_t i = 0; i < count; ++i) {
        UF_TRY(uf_program_run(r->program));
    }
    UF_TRY(uf_context_synchronize(r->context));
    *ms = 1e3 * (bench_seconds() - begin) / (double)count;
    *runs += count;
    return UF_OK;
}

static uf_status timing_of(running *r, int64_t count, double budget_ms, int64_t *runs,
                           bench_timing *timing) {
    double times[BENCH_MOST_RUNS];
    double spent = 0;
    int samples = 0;
    while (bench_more(samples, spent, budget_ms)) {
        UF_TRY(timed_runs(r, count, runs, &times[samples]));
        spent += times[samples++] * (double)count;
    }
    bench_summary(times, samples, timing);
    timing->replayed = false;
    return UF_OK;
}

/* Some more runs, with their kernels recorded: slower than those that were timed. */
static uf_status profile(running *r, bench_model_result *out) {
    enum { RUNS = 5 };
    double ms;
    int64_t runs = 0;
    if (!bench_kernel_times_begin()) {
        return uf_fail(UF_ERROR_UNSUPPORTED, "CUPTI does not record kernels here");
    }
    UF_TRY(timed_runs(r, RUNS, &runs, &ms));
    if (!bench_kernel_times_end(&out->kernel_times)) {
        return uf_fail(UF_ERROR_UNSUPPORTED, "CUPTI recorded no kernels");
    }
    out->profiled = runs;
    return UF_OK;
}

static uf_status refresh_once(void *user, int set) {
    const running *r = user;
    (void)set;
    return uf_program_refresh(r->program);
}

/* Kernels of a run. They are counted in a capture, where a program makes what it keeps in every
 * run: these kernels do not count. */
static int64_t kernels_of(running *r) {
    const bench_work work = {run_once, r, 1}, refresh = {refresh_once, r, 1};
    const int64_t all = bench_kernels(r->context, &work);
    const int64_t kept = bench_kernels(r->context, &refresh);
    return all >= 0 && kept >= 0 ? all - kept : all;
}

static uf_status measure(running *r, const bench_model_setting *setting, bench_model_result *out) {
    double once = 0;
    for (int32_t p = 0; p < r->model.pass_count; ++p) {
        for (int32_t l = 0; l < r->model.passes[p].loss_count; ++l) {
            out->names[out->figure_count++] = r->model.passes[p].names[l];
        }
    }
    if (out->figure_count == 0) {
        out->names[out->figure_count++] = "mean_abs";
    }
    /* The first run loads, the second records, the third shows how long one takes. */
    UF_TRY(timed_runs(r, 1, &out->runs, &once));
    UF_TRY(figures_of(r, out->first, out->figure_count));
    UF_TRY(timed_runs(r, 1, &out->runs, &once));
    UF_TRY(timed_runs(r, 1, &out->runs, &once));
    UF_TRY(figures_of(r, out->third, out->figure_count));
    const double queued = ceil(QUEUED_MS / once);
    const int64_t count = queued < MOST_QUEUED ? (int64_t)queued : MOST_QUEUED;
    UF_TRY(timing_of(r, 1, setting->budget_ms / 2, &out->runs, &out->waited));
    if (count > 1) {
        UF_TRY(timing_of(r, count, setting->budget_ms / 2, &out->runs, &out->queued));
    } else {
        out->queued = out->waited;
    }
    UF_TRY(figures_of(r, out->last, out->figure_count));
    out->kernels = kernels_of(r);
    return setting->profile ? profile(r, out) : UF_OK;
}

uf_status bench_model_measure(uf_context *context, const bench_model_setting *setting,
                              bench_model_result *result) {
    memory counted = {context->allocator, 0, 0};
    running r;
    memset(&r, 0, sizeof r);
    memset(result, 0, sizeof *result);
    r.context = context;
    context->allocator = (uf_allocator){allocate, release, &counted};
    uf_status status = prepare(&r, setting);
    if (status == UF_OK) {
        status = measure(&r, setting, result);
    }
    result->bytes = counted.held;
    result->peak = counted.peak;
    result->program = uf_program_memory(r.program);
    result->stores = result->bytes - result->program;
    context->allocator = counted.next;
    return status;
}
