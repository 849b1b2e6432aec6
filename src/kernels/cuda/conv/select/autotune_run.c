/* autotune_run.c - times the variants of a convolution, and tiles of the best ones, on this GPU and
 * keeps the fastest. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unfurl/tuning.h>

#include "kernels/cuda/conv/conv.h"

enum {
    MOST_CALLS = 20, /* in one recording */
    PLAYS = 7        /* of a recording; their median counts */
};

/* A recording is about this long, so that events and launches do not show. */
#define RECORDING_MS 1.0
/* After its first call a variant is given up when it takes so much longer than the best so far. */
#define HOPELESS 2.0
/* Less than this is noise: then the library's own choice stays. */
#define WORTH 0.97

typedef uf_status (*conv_function)(uf_context *context, const uf_conv_kernel_args *args);

static conv_function function_of(uf_conv_direction direction) {
    return direction == UF_CONV_FPROP   ? uf_cuda_conv_fprop
           : direction == UF_CONV_DGRAD ? uf_cuda_conv_dgrad
                                        : uf_cuda_conv_wgrad;
}

/* Owned by a tuning run. */
typedef struct bench {
    uf_context *context;
    uf_conv_direction direction;
    uf_conv_kernel_args args; /* contiguous tensors and scratch of our own */
    char forced[64];          /* "variant:tile" */
    size_t bytes[3], room;
    cudaEvent_t events[2];
} bench;

static uf_status timed(bench *b, void *recording, double *ms) {
    float elapsed = 0.0F;
    const cudaStream_t stream = uf_cuda_stream(b->context);
    UF_CUDA_TRY(b->context, cudaEventRecord(b->events[0], stream));
    if (recording != NULL) {
        UF_TRY(b->context->device->record_play(b->context, recording));
    } else {
        UF_TRY(function_of(b->direction)(b->context, &b->args));
    }
    UF_CUDA_TRY(b->context, cudaEventRecord(b->events[1], stream));
    UF_CUDA_TRY(b->context, cudaEventSynchronize(b->events[1]));
    UF_CUDA_TRY(b->context, cudaEventElapsedTime(&elapsed, b->events[0], b->events[1]));
    *ms = (double)elapsed;
    return UF_OK;
}

static uf_status record(bench *b, int calls, void **recording) {
    const uf_device_ops *device = b->context->device;
    UF_TRY(device->record_begin(b->context));
    uf_status status = UF_OK;
    for (int i = 0; i < calls && status == UF_OK; ++i) {
        status = function_of(b->direction)(b->context, &b->args);
    }
    /* Ended in any case: else the stream would stay in capture. */
    const uf_status ended = device->record_end(b->context, recording);
    if (status != UF_OK && ended == UF_OK) {
        device->record_destroy(b->context, *recording);
        *recording = NULL;
    }
    return status != UF_OK ? status : ended;
}

static int by_size(const void *a, const void *b) {
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* The time of one call of a candidate; one that cannot beat `best` any more keeps its first, rough
 * time. */
static uf_status measure(bench *b, const uf_conv_candidate *candidate, double best, double *ms) {
    double times[PLAYS];
    void *recording = NULL;
    (void)snprintf(b->forced, sizeof b->forced, "%s:%d",
                   uf_cuda_conv_variant_name(candidate->variant), candidate->tile);
    b->args.variant = b->forced;
    UF_TRY(timed(b, NULL, ms)); /* loads the kernel */
    UF_TRY(timed(b, NULL, ms));
    if (best > 0.0 && *ms > HOPELESS * best && *ms > RECORDING_MS) {
        return UF_OK;
    }
    const double wanted = RECORDING_MS / (*ms > 1e-3 ? *ms : 1e-3);
    const int calls = wanted < 1.0 ? 1 : wanted > MOST_CALLS ? MOST_CALLS : (int)wanted;
    UF_TRY(record(b, calls, &recording));
    uf_status status = timed(b, recording, &times[0]); /* the first play uploads the recording */
    for (int i = 0; i < PLAYS && status == UF_OK; ++i) {
        status = timed(b, recording, &times[i]);
    }
    b->context->device->record_destroy(b->context, recording);
    qsort(times, PLAYS, sizeof times[0], by_size);
    *ms = times[PLAYS / 2] / calls;
    return status;
}

/* Values of [-1, 1): zeros would be computed faster than the values of networks. */
static uf_status fill(uf_context *context, const uf_view *view, uint64_t seed) {
    uf_random_kernel_args random;
    memset(&random, 0, sizeof random);
    random.kind = UF_RANDOM_UNIFORM;
    random.seed = seed;
    random.a = -1.0;
    random.b = 1.0;
    random.output = *view;
    return uf_cuda_random_fill(context, &random);
}

/* Random numbers are drawn in f32, and rounded from there. */
static uf_status fill_bf16(uf_context *context, const uf_view *view, uint64_t seed) {
    const size_t size = (size_t)uf_view_count(view) * sizeof(float);
    const int64_t *e = view->extent;
    void *data;
    UF_TRY(uf_context_allocate(context, size, UF_MEMORY_DEVICE, &data));
    const uf_view drawn = uf_view_nchw(data, UF_F32, e[0], e[1], e[2], e[3]);
    const uf_copy_kernel_args rounding = {.input = drawn, .output = *view, .mode = UF_OVERWRITE};
    uf_status status = fill(context, &drawn, seed);
    if (status == UF_OK) {
        status = uf_cuda_convert(context, &rounding);
    }
    /* The caller's allocator may hand the memory out again at once. */
    const uf_status ended = context->device->synchronize(context);
    uf_context_release(context, data, size, UF_MEMORY_DEVICE);
    return status != UF_OK ? status : ended;
}

static uf_status make_tensor(bench *b, uf_view *view, size_t *bytes, uint64_t seed) {
    const int64_t *e = view->extent;
    const size_t size = (size_t)uf_view_count(view) * uf_dtype_size(view->dtype);
    void *data;
    UF_TRY(uf_context_allocate(b->context, size, UF_MEMORY_DEVICE, &data));
    *view = uf_view_nchw(data, view->dtype, e[0], e[1], e[2], e[3]);
    *bytes = size;
    return size == 0                ? UF_OK
           : view->dtype == UF_BF16 ? fill_bf16(b->context, view, seed)
                                    : fill(b->context, view, seed);
}

static uf_status open_bench(bench *b) {
    uf_view *views[3] = {&b->args.x, &b->args.w, &b->args.y};
    for (int i = 0; i < 3; ++i) {
        views[i]->data = NULL; /* the caller's memory is neither read nor written */
    }
    for (int i = 0; i < 3; ++i) {
        UF_TRY(make_tensor(b, views[i], &b->bytes[i], (uint64_t)i));
    }
    for (int i = 0; i < 2; ++i) {
        UF_CUDA_TRY(b->context, cudaEventCreate(&b->events[i]));
    }
    return UF_OK;
}

static void close_bench(bench *b) {
    const uf_view *views[3] = {&b->args.x, &b->args.w, &b->args.y};
    (void)b->context->device->synchronize(b->context);
    for (int i = 0; i < 3; ++i) {
        uf_context_release(b->context, views[i]->data, b->bytes[i], UF_MEMORY_DEVICE);
    }
    uf_context_release(b->context, b->args.workspace, b->room, UF_MEMORY_DEVICE);
    for (int i = 0; i < 2; ++i) {
        if (b->events[i] != NULL) {
            (void)cudaEventDestroy(b->events[i]);
        }
    }
}

/* The library's own choice is timed first, then the others. */
static uf_status compare(bench *b, const uf_conv_candidate *list, int candidates,
                         const uf_conv_candidate **fastest, double *own_ms, double *best_ms) {
    UF_TRY(measure(b, &list[0], 0.0, own_ms));
    *fastest = &list[0];
    *best_ms = *own_ms;
    for (int i = 1; i < candidates; ++i) {
        double ms;
        UF_TRY(measure(b, &list[i], *best_ms, &ms));
        if (ms < *best_ms && ms < WORTH * *own_ms) {
            *best_ms = ms;
            *fastest = &list[i];
        }
    }
    return UF_OK;
}

static uf_status tune_conv(uf_context *context, int direction, const uf_conv_kernel_args *args,
                           uf_tuning_result *result) {
    uf_cuda_state *state = context->state;
    uf_conv_candidate list[UF_CONV_CANDIDATES];
    const uf_conv_candidate *fastest = list;
    uf_conv_tuned row;
    double own_ms = 0.0;
    int candidates = 0;
    bench b;
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_conv_tuning_check_unused(&state->tuning));
    if (context->device->is_recording(context)) {
        UF_FAIL(UF_ERROR_STATE,
                "the stream is being captured: a convolution cannot be tuned in a recording");
    }
    memset(&b, 0, sizeof b);
    memset(&row, 0, sizeof row);
    b.context = context;
    b.direction = (uf_conv_direction)direction;
    b.args = *args;
    b.args.mode = UF_OVERWRITE;
    b.args.w.dtype = args->x.dtype; /* an f32 gradient of bf16 tensors is made of a bf16 one */
    memset(&b.args.epilogue, 0, sizeof b.args.epilogue);
    uf_status status = open_bench(&b);
    if (status == UF_OK) {
        const uf_conv_problem problem = uf_conv_problem_of(b.direction, &b.args, &state->gpu);
        candidates = uf_conv_candidates(&problem, list);
        for (int i = 0; i < candidates; ++i) {
            b.room = list[i].workspace > b.room ? list[i].workspace : b.room;
        }
        status = uf_context_allocate(context, b.room, UF_MEMORY_DEVICE, &b.args.workspace);
        b.args.workspace_size = b.room;
    }
    if (status == UF_OK) {
        status = compare(&b, list, candidates, &fastest, &own_ms, &row.ms);
    }
    close_bench(&b);
    UF_TRY(status);
    row.key = uf_conv_key_of(b.direction, args);
    row.variant = fastest->variant;
    row.tile = fastest->tile;
    UF_TRY(uf_conv_tuning_set(&state->tuning, &row));
    if (result != NULL) {
        result->variant = uf_cuda_conv_variant_name(row.variant);
        result->untuned = uf_cuda_conv_variant_name(list[0].variant);
        result->ms = row.ms;
        result->untuned_ms = own_ms;
        result->candidates = candidates;
        result->tile = row.tile;
        result->untuned_tile = list[0].tile;
    }
    return UF_OK;
}

static int64_t count(const uf_context *context) {
    return ((const uf_cuda_state *)context->state)->tuning.count;
}

static uf_status save(const uf_context *context, const char *path) {
    return uf_conv_tuning_write(&((const uf_cuda_state *)context->state)->tuning,
                                context->description, path);
}

static uf_status load(uf_context *context, const char *path) {
    uf_cuda_state *state = context->state;
    const char *ignored;
    UF_TRY(uf_conv_tuning_read(&state->tuning, context->description, path, &ignored));
    if (ignored != NULL) {
        uf_context_log(context, UF_LOG_INFO, "%s is ignored: %s", path, ignored);
    }
    return UF_OK;
}

const uf_tuning_interface uf_cuda_tuning = {
    .conv = tune_conv,
    .count = count,
    .save = save,
    .load = load,
};
