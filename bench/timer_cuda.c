/* timer_cuda.c - times on a GPU by events; short calls as replays of a CUDA graph, so that launches
 * by the host stay out. */
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "bench.h"

#include "timer.h"

/* Below this a launch by the host would show. */
#define SHORT_MS 1.0
/* Calls in one graph. */
#define GRAPH_CALLS 20

static bool failed(cudaError_t error, const char *what) {
    if (error != cudaSuccess) {
        (void)cudaGetLastError();
        (void)uf_fail(UF_ERROR_DEVICE, "benchmark: %s: %s", what, cudaGetErrorString(error));
        return true;
    }
    return false;
}

/* Time of `calls` calls between two events, or of one replay of `graph`. */
static double measure(cudaStream_t stream, const bench_work *work, cudaGraphExec_t graph, int first,
                      int calls, cudaEvent_t events[2]) {
    float ms = 0;
    if (failed(cudaEventRecord(events[0], stream), "cudaEventRecord")) {
        return -1;
    }
    if (graph != NULL) {
        if (failed(cudaGraphLaunch(graph, stream), "cudaGraphLaunch")) {
            return -1;
        }
    } else {
        for (int i = 0; i < calls; ++i) {
            if (work->run(work->user, (first + i) % work->sets) != UF_OK) {
                return -1;
            }
        }
    }
    if (failed(cudaEventRecord(events[1], stream), "cudaEventRecord") ||
        failed(cudaEventSynchronize(events[1]), "waiting for the work") ||
        failed(cudaEventElapsedTime(&ms, events[0], events[1]), "cudaEventElapsedTime")) {
        return -1;
    }
    return (double)ms;
}

/* The calls as a graph that is not run; NULL when they cannot be captured. */
static cudaGraph_t capture(cudaStream_t stream, const bench_work *work, int calls) {
    cudaGraph_t graph = NULL;
    bool good = true;
    if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess) {
        (void)cudaGetLastError();
        return NULL;
    }
    for (int i = 0; i < calls && good; ++i) {
        good = work->run(work->user, i % work->sets) == UF_OK;
    }
    good = cudaStreamEndCapture(stream, &graph) == cudaSuccess && good;
    (void)cudaGetLastError();
    if (!good && graph != NULL) {
        (void)cudaGraphDestroy(graph);
        graph = NULL;
    }
    return graph;
}

/* NULL when the calls cannot be captured. */
static cudaGraphExec_t record(cudaStream_t stream, const bench_work *work, int calls) {
    cudaGraphExec_t executable = NULL;
    cudaGraph_t graph = capture(stream, work, calls);
    if (graph != NULL) {
        if (cudaGraphInstantiate(&executable, graph, 0) != cudaSuccess) {
            executable = NULL;
        }
        (void)cudaGraphDestroy(graph);
        (void)cudaGetLastError();
    }
    return executable;
}

int64_t bench_kernels(uf_context *context, const bench_work *work) {
    if (uf_context_device(context) != UF_DEVICE_CUDA) {
        return -1;
    }
    cudaGraph_t graph = capture(context->stream, work, 1);
    cudaGraphNode_t *nodes = NULL;
    size_t count = 0;
    int64_t kernels = -1;
    if (graph != NULL && cudaGraphGetNodes(graph, NULL, &count) == cudaSuccess &&
        (nodes = calloc(count + 1, sizeof *nodes)) != NULL &&
        cudaGraphGetNodes(graph, nodes, &count) == cudaSuccess) {
        kernels = 0;
        for (size_t i = 0; i < count; ++i) {
            enum cudaGraphNodeType type;
            kernels += cudaGraphNodeGetType(nodes[i], &type) == cudaSuccess &&
                       type == cudaGraphNodeTypeKernel;
        }
    }
    free(nodes);
    if (graph != NULL) {
        (void)cudaGraphDestroy(graph);
    }
    (void)cudaGetLastError();
    return kernels;
}

bool bench_time(uf_context *context, const bench_work *work, double budget_ms,
                bench_timing *timing) {
    cudaStream_t stream = context->stream;
    cudaEvent_t events[2] = {NULL, NULL};
    cudaGraphExec_t graph = NULL;
    double times[BENCH_MOST_RUNS];
    bool good = false;
    timing->replayed = false;
    if (uf_context_device(context) != UF_DEVICE_CUDA) {
        return bench_time_cpu(work, budget_ms, timing);
    }
    if (failed(cudaEventCreate(&events[0]), "cudaEventCreate") ||
        failed(cudaEventCreate(&events[1]), "cudaEventCreate")) {
        return false;
    }
    /* The first call loads code; the second says how long one takes. */
    double once = measure(stream, work, NULL, 0, 1, events);
    if (once >= 0) {
        once = measure(stream, work, NULL, 1, 1, events);
    }
    if (once < 0) {
        goto done;
    }
    int calls = 1;
    if (once < SHORT_MS) {
        calls = work->sets > GRAPH_CALLS ? work->sets : GRAPH_CALLS;
        graph = record(stream, work, calls);
        timing->replayed = graph != NULL;
    }
    double spent = 0;
    int runs = 0;
    /* A long call warms itself up and is not repeated for that. */
    if ((calls > 1 || once < budget_ms) && measure(stream, work, graph, 2, calls, events) < 0) {
        goto done;
    }
    while (bench_more(runs, spent, budget_ms)) {
        const double ms = measure(stream, work, graph, runs * calls, calls, events);
        if (ms < 0) {
            goto done;
        }
        spent += ms;
        times[runs++] = ms / calls;
    }
    bench_summary(times, runs, timing);
    good = true;
done:
    if (graph != NULL) {
        (void)cudaGraphExecDestroy(graph);
    }
    (void)cudaEventDestroy(events[0]);
    (void)cudaEventDestroy(events[1]);
    return good;
}

size_t bench_cache(uf_context *context) {
    int bytes = 0;
    if (uf_context_device(context) != UF_DEVICE_CUDA ||
        cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, context->device_index) !=
            cudaSuccess) {
        return (size_t)32 << 20;
    }
    return (size_t)bytes;
}

typedef struct copies {
    cudaStream_t stream;
    char *from, *to;
    size_t size;
} copies;

static uf_status copy_once(void *user, int set) {
    const copies *c = user;
    (void)set;
    return failed((cudaError_t)bench_copy(c->stream, c->to, c->from, c->size), "copying")
               ? UF_ERROR_DEVICE
               : UF_OK;
}

double bench_copy_rate(uf_context *context) {
    size_t size = (size_t)4 << 30;
    double rate = 0;
    void *memory = NULL;
    bench_timing timing;
    if (uf_context_device(context) != UF_DEVICE_CUDA) {
        return 0;
    }
    while (uf_context_allocate(context, 2 * size, UF_MEMORY_DEVICE, &memory) != UF_OK) {
        size /= 2;
        if (size < (size_t)64 << 20) {
            return 0;
        }
    }
    copies c = {context->stream, memory, (char *)memory + size, size};
    const bench_work work = {copy_once, &c, 1};
    /* Random numbers, for zeros may cost less to move. */
    uf_random_kernel_args args;
    memset(&args, 0, sizeof args);
    args.kind = UF_RANDOM_UNIFORM;
    args.seed = 1;
    args.b = 1.0;
    args.output = uf_view_nchw(memory, UF_F32, 1, 1, 1, (int64_t)(size / sizeof(float)));
    if (context->kernels->random_fill(context, &args) == UF_OK &&
        bench_time(context, &work, 200, &timing) && /* until the clocks have risen */
        bench_time(context, &work, 200, &timing)) {
        rate = 2.0 * (double)size / (1e-3 * timing.ms);
    }
    uf_context_release(context, memory, 2 * size, UF_MEMORY_DEVICE);
    return rate;
}

double bench_peak(uf_context *context, uf_dtype dtype, uf_math math) {
    int processors = 0;
    int kilohertz = 0;
    int major = 0;
    const int device = context->device_index;
    if (uf_context_device(context) != UF_DEVICE_CUDA) {
        return 0;
    }
    (void)cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    (void)cudaDeviceGetAttribute(&kilohertz, cudaDevAttrClockRate, device);
    (void)cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    (void)cudaGetLastError();
    /* Fused multiply-adds per cycle and multiprocessor. FP32 accuracy by three TF32 products may
     * exceed the plain FFMA rate: such a row reads above 100 %. */
    const double tf32 = major >= 9 ? 1024 : major == 8 ? 512 : 128;
    const double each = dtype == UF_F64        ? (major == 9 || major == 10 ? 64 : 2)
                        : math == UF_MATH_FP32 ? 128
                        : math == UF_MATH_TF32 ? tf32
                                               : 2 * tf32;
    return 2.0 * each * processors * 1e3 * kilohertz;
}
