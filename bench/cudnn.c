/* cudnn.c - the same operation by cuDNN, over all the algorithms that it has.
 *
 * Through cudnnConvolutionForward, ...BackwardData and ...BackwardFilter, whose Find functions run
 * every algorithm; the fastest is timed as ours is. The graph interface of cuDNN 8 and later is not
 * asked: what it alone offers (engines with run-time compilation, fused epilogues) is not covered
 * here. forward of a transposed convolution is BackwardData, its input gradient Forward, its weight
 * gradient BackwardFilter with the two images in exchanged roles. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include "bench.h"

struct bench_cudnn {
    uf_context *context;
    cudnnHandle_t handle;
    void *workspace;
    size_t workspace_size;
};

/* Everything of one cell. */
typedef struct cell {
    bench_cudnn *owner;
    bench_op op;
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t conv;
    char *memory[BENCH_TENSORS]; /* `sets` of each */
    size_t bytes[BENCH_TENSORS];
    int sets;
    int algorithm;
    size_t workspace_size;
} cell;

bench_cudnn *bench_cudnn_create(uf_context *context) {
    bench_cudnn *made = calloc(1, sizeof *made);
    if (made == NULL || uf_context_device(context) != UF_DEVICE_CUDA) {
        free(made);
        return NULL;
    }
    made->context = context;
    if (cudnnCreate(&made->handle) != CUDNN_STATUS_SUCCESS) {
        free(made);
        return NULL;
    }
    (void)cudnnSetStream(made->handle, context->stream);
    /* Ample: the largest power of two up to 16 GiB that is free. */
    for (made->workspace_size = (size_t)16 << 30; made->workspace_size >= (size_t)64 << 20;
         made->workspace_size /= 2) {
        if (uf_context_allocate(context, made->workspace_size, UF_MEMORY_DEVICE,
                                &made->workspace) == UF_OK) {
            return made;
        }
    }
    bench_cudnn_destroy(made);
    return NULL;
}

void bench_cudnn_destroy(bench_cudnn *cudnn) {
    if (cudnn != NULL) {
        uf_context_release(cudnn->context, cudnn->workspace, cudnn->workspace_size,
                           UF_MEMORY_DEVICE);
        (void)cudnnDestroy(cudnn->handle);
        free(cudnn);
    }
}

const char *bench_cudnn_version(void) {
    static char text[32];
    const size_t version = cudnnGetVersion();
    (void)snprintf(text, sizeof text, "%zu.%zu.%zu", version / 10000, version / 100 % 100,
                   version % 100);
    return text;
}

static void *at_set(const cell *c, bench_tensor tensor, int set) {
    return c->memory[tensor] + (size_t)set * c->bytes[tensor];
}

static cudnnStatus_t call(const cell *c, int set) {
    const float one = 1.0f;
    const float zero = 0.0f;
    const double wide_one = 1.0;
    const double wide_zero = 0.0;
    cudnnDataType_t type;
    cudnnTensorFormat_t format;
    int rank;
    int extent[4];
    (void)cudnnGetFilterNdDescriptor(c->w, 4, &type, &format, &rank, extent);
    const void *alpha = type == CUDNN_DATA_DOUBLE ? (const void *)&wide_one : (const void *)&one;
    const void *beta = type == CUDNN_DATA_DOUBLE ? (const void *)&wide_zero : (const void *)&zero;
    const cudnnHandle_t handle = c->owner->handle;
    void *x = at_set(c, BENCH_X, set);
    void *w = at_set(c, BENCH_W, set);
    void *y = at_set(c, BENCH_Y, set);
    void *workspace = c->owner->workspace;
    switch (c->op) {
    case BENCH_FORWARD:
        return cudnnConvolutionBackwardData(handle, alpha, c->w, w, c->y, y, c->conv,
                                            (cudnnConvolutionBwdDataAlgo_t)c->algorithm, workspace,
                                            c->workspace_size, beta, c->x, x);
    case BENCH_GRAD_INPUT:
        return cudnnConvolutionForward(handle, alpha, c->x, x, c->w, w, c->conv,
                                       (cudnnConvolutionFwdAlgo_t)c->algorithm, workspace,
                                       c->workspace_size, beta, c->y, y);
    default:
        return cudnnConvolutionBackwardFilter(handle, alpha, c->x, x, c->y, y, c->conv,
                                              (cudnnConvolutionBwdFilterAlgo_t)c->algorithm,
                                              workspace, c->workspace_size, beta, c->w, w);
    }
}

static uf_status run(void *user, int set) {
    const cudnnStatus_t status = call(user, set);
    if (status != CUDNN_STATUS_SUCCESS) {
        UF_FAIL(UF_ERROR_DEVICE, "cuDNN: %s", cudnnGetErrorString(status));
    }
    return UF_OK;
}

/* The fastest algorithm that the mode allows: FMA only for FP32 accuracy. */
static bool choose(cell *c, uf_math math, uf_dtype dtype, char *name, size_t name_size) {
    enum { MOST = 32 };
    int found = 0;
    const cudnnHandle_t handle = c->owner->handle;
    void *x = at_set(c, BENCH_X, 0);
    void *w = at_set(c, BENCH_W, 0);
    void *y = at_set(c, BENCH_Y, 0);
    void *workspace = c->owner->workspace;
    const size_t size = c->owner->workspace_size;
    const bool fma_only = math == UF_MATH_FP32 || dtype == UF_F64;
    cudnnMathType_t type = CUDNN_DEFAULT_MATH;
    int algorithm = -1;
    /* Each results list is sorted by time; failed algorithms are at its end with their status. */
#define CHOOSE(Perf, find_call)                                                                    \
    do {                                                                                           \
        Perf results[MOST];                                                                        \
        if ((find_call) != CUDNN_STATUS_SUCCESS) {                                                 \
            return false;                                                                          \
        }                                                                                          \
        for (int i = 0; i < found; ++i) {                                                          \
            if (results[i].status == CUDNN_STATUS_SUCCESS &&                                       \
                (!fma_only || results[i].mathType == CUDNN_FMA_MATH || dtype == UF_F64)) {         \
                algorithm = (int)results[i].algo;                                                  \
                type = results[i].mathType;                                                        \
                c->workspace_size = results[i].memory;                                             \
                break;                                                                             \
            }                                                                                      \
        }                                                                                          \
    } while (0)
    switch (c->op) {
    case BENCH_FORWARD:
        CHOOSE(cudnnConvolutionBwdDataAlgoPerf_t, cudnnFindConvolutionBackwardDataAlgorithmEx(
                                                      handle, c->w, w, c->y, y, c->conv, c->x, x,
                                                      MOST, &found, results, workspace, size));
        break;
    case BENCH_GRAD_INPUT:
        CHOOSE(cudnnConvolutionFwdAlgoPerf_t,
               cudnnFindConvolutionForwardAlgorithmEx(handle, c->x, x, c->w, w, c->conv, c->y, y,
                                                      MOST, &found, results, workspace, size));
        break;
    default:
        CHOOSE(cudnnConvolutionBwdFilterAlgoPerf_t, cudnnFindConvolutionBackwardFilterAlgorithmEx(
                                                        handle, c->x, x, c->y, y, c->conv, c->w, w,
                                                        MOST, &found, results, workspace, size));
        break;
    }
#undef CHOOSE
    if (algorithm < 0 || cudnnSetConvolutionMathType(c->conv, type) != CUDNN_STATUS_SUCCESS) {
        return false;
    }
    c->algorithm = algorithm;
    static const char *const names[BENCH_OPS][8] = {
        {"algo_0", "algo_1", "fft", "fft_tiling", "winograd", "winograd_nonfused", "algo_6",
         "algo_7"},
        {"implicit_gemm", "implicit_precomp_gemm", "gemm", "direct", "fft", "fft_tiling",
         "winograd", "winograd_nonfused"},
        {"algo_0", "algo_1", "fft", "algo_3", "winograd", "winograd_nonfused", "fft_tiling",
         "algo_7"},
    };
    (void)snprintf(name, name_size, "%s%s", algorithm < 8 ? names[c->op][algorithm] : "?",
                   type == CUDNN_FMA_MATH ? "" : "+tc");
    return true;
}

static bool describe(cell *c, const bench_shape *shape, cudnnDataType_t type, uf_dtype dtype,
                     uf_math math, bool last, size_t element) {
    const cudnnTensorFormat_t format = last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
    const cudnnDataType_t compute = dtype == UF_F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    const cudnnMathType_t wanted = dtype == UF_F64        ? CUDNN_DEFAULT_MATH
                                   : math == UF_MATH_FP32 ? CUDNN_FMA_MATH
                                                          : CUDNN_TENSOR_OP_MATH;
    int64_t e[BENCH_TENSORS][4];
    for (int t = 0; t < BENCH_TENSORS; ++t) {
        bench_extent(shape, (bench_tensor)t, e[t]);
        c->bytes[t] = uf_align_up((size_t)bench_count(shape, (bench_tensor)t) * element);
    }
    return cudnnCreateTensorDescriptor(&c->x) == CUDNN_STATUS_SUCCESS &&
           cudnnCreateTensorDescriptor(&c->y) == CUDNN_STATUS_SUCCESS &&
           cudnnCreateFilterDescriptor(&c->w) == CUDNN_STATUS_SUCCESS &&
           cudnnCreateConvolutionDescriptor(&c->conv) == CUDNN_STATUS_SUCCESS &&
           cudnnSetTensor4dDescriptor(c->x, format, type, (int)e[BENCH_X][0], (int)e[BENCH_X][1],
                                      (int)e[BENCH_X][2],
                                      (int)e[BENCH_X][3]) == CUDNN_STATUS_SUCCESS &&
           cudnnSetTensor4dDescriptor(c->y, format, type, (int)e[BENCH_Y][0], (int)e[BENCH_Y][1],
                                      (int)e[BENCH_Y][2],
                                      (int)e[BENCH_Y][3]) == CUDNN_STATUS_SUCCESS &&
           cudnnSetFilter4dDescriptor(c->w, type, format, (int)e[BENCH_W][0], (int)e[BENCH_W][1],
                                      (int)e[BENCH_W][2],
                                      (int)e[BENCH_W][3]) == CUDNN_STATUS_SUCCESS &&
           cudnnSetConvolution2dDescriptor(
               c->conv, (int)shape->padding[0], (int)shape->padding[1], (int)shape->stride[0],
               (int)shape->stride[1], (int)shape->dilation[0], (int)shape->dilation[1],
               CUDNN_CROSS_CORRELATION, compute) == CUDNN_STATUS_SUCCESS &&
           cudnnSetConvolutionGroupCount(c->conv, (int)shape->groups) == CUDNN_STATUS_SUCCESS &&
           cudnnSetConvolutionMathType(c->conv, wanted) == CUDNN_STATUS_SUCCESS;
}

static void strides_of(const int64_t e[4], bool last, int64_t stride[4]) {
    stride[0] = e[1] * e[2] * e[3];
    stride[1] = last ? 1 : e[2] * e[3];
    stride[2] = last ? e[3] * e[1] : e[3];
    stride[3] = last ? e[1] : 1;
}

/* Random inputs in every set, NaN where the result goes. */
static bool fill(cell *c, const bench_shape *shape, uf_dtype dtype, bool narrow, bool last) {
    uf_context *context = c->owner->context;
    for (int t = 0; t < BENCH_TENSORS; ++t) {
        int64_t e[4];
        int64_t stride[4];
        bench_extent(shape, (bench_tensor)t, e);
        strides_of(e, last, stride);
        const size_t all = c->bytes[t] * (size_t)c->sets;
        void *memory = NULL;
        if (uf_context_allocate(context, all, UF_MEMORY_DEVICE, &memory) != UF_OK) {
            return false;
        }
        c->memory[t] = memory;
        if ((bench_tensor)t == bench_written(c->op)) {
            if (cudaMemsetAsync(memory, 0xff, all, context->stream) != cudaSuccess) {
                return false;
            }
            continue;
        }
        const size_t bytes = (size_t)bench_count(shape, (bench_tensor)t) * uf_dtype_size(dtype);
        void *plain = c->owner->workspace;
        if (bytes > c->owner->workspace_size) {
            return false;
        }
        uf_random_kernel_args args;
        memset(&args, 0, sizeof args);
        args.kind = UF_RANDOM_UNIFORM;
        args.seed = bench_seed((bench_tensor)t);
        args.a = -1.0;
        args.b = 1.0;
        args.output = uf_view_nchw(plain, dtype, e[0], e[1], e[2], e[3]);
        if (context->kernels->random_fill(context, &args) != UF_OK) {
            return false;
        }
        for (int set = 0; set < c->sets; ++set) {
            if (bench_convert(context->stream, at_set(c, (bench_tensor)t, set), plain, dtype,
                              narrow, e, stride) != 0) {
                return false;
            }
        }
    }
    return true;
}

static double read_element(const cell *c, size_t offset, uf_dtype dtype, bool narrow,
                           size_t element) {
    unsigned char raw[8] = {0};
    uf_context *context = c->owner->context;
    const char *from = c->memory[bench_written(c->op)] + offset * element;
    double value = 0;
    if (context->device->download(context, raw, from, element) != UF_OK) {
        return value / value;
    }
    uf_convert(&value, UF_F64, raw, narrow ? UF_BF16 : dtype, 1);
    return value;
}

bench_rival bench_cudnn_time(bench_cudnn *cudnn, const bench_shape *shape, bench_op op,
                             uf_dtype dtype, uf_math math, bool channels_last,
                             const bench_samples *samples, double budget_ms) {
    bench_rival rival = {-1, "-", 0};
    cell c;
    memset(&c, 0, sizeof c);
    c.owner = cudnn;
    c.op = op;
    const bool narrow = math == UF_MATH_BF16; /* f64 is never asked for in it */
    if (dtype == UF_BF16) {
        dtype = UF_F32; /* of the numbers before they are rounded */
    }
    const size_t element = narrow ? 2 : uf_dtype_size(dtype);
    const cudnnDataType_t type = narrow            ? CUDNN_DATA_BFLOAT16
                                 : dtype == UF_F64 ? CUDNN_DATA_DOUBLE
                                                   : CUDNN_DATA_FLOAT;
    const double wanted = 3.0 * (double)bench_cache(cudnn->context) / bench_bytes(shape, element);
    c.sets = wanted < 1 ? 1 : wanted > 64 ? 64 : (int)wanted + 1;
    if (describe(&c, shape, type, dtype, math, channels_last, element) &&
        fill(&c, shape, dtype, narrow, channels_last) &&
        choose(&c, math, dtype, rival.algorithm, sizeof rival.algorithm)) {
        const bench_work work = {run, &c, c.sets};
        bench_timing timing;
        rival.ms = bench_time(cudnn->context, &work, budget_ms, &timing) ? timing.ms : -1;
        int64_t e[4];
        int64_t stride[4];
        double got[BENCH_SAMPLES];
        bench_extent(shape, bench_written(op), e);
        strides_of(e, channels_last, stride);
        for (int i = 0; i < samples->count; ++i) {
            int64_t offset = 0;
            for (int axis = 0; axis < 4; ++axis) {
                offset += samples->at[i][axis] * stride[axis];
            }
            got[i] = read_element(&c, (size_t)offset, dtype, narrow, element);
        }
        rival.error = bench_error(samples, got);
    }
    for (int t = 0; t < BENCH_TENSORS; ++t) {
        uf_context_release(cudnn->context, c.memory[t], c.bytes[t] * (size_t)c.sets,
                           UF_MEMORY_DEVICE);
    }
    (void)cudnnDestroyConvolutionDescriptor(c.conv);
    (void)cudnnDestroyFilterDescriptor(c.w);
    (void)cudnnDestroyTensorDescriptor(c.x);
    (void)cudnnDestroyTensorDescriptor(c.y);
    (void)cudaGetLastError();
    return rival;
}
