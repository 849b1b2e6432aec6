/* device.c - a GPU as a device: its stream, its memory, its faults. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/device/backend.h"
#include "kernels/cuda/device/images.h"

const char *uf_cuda_explain(cudaError_t error, int driver_version, int runtime_version) {
    if (driver_version == 0) {
        return "no NVIDIA driver is installed (libcuda.so.1 was not found)";
    }
    if (error == cudaErrorInsufficientDriver || error == cudaErrorSystemDriverMismatch ||
        error == cudaErrorCompatNotSupportedOnDevice ||
        driver_version / 1000 < runtime_version / 1000) {
        return "the NVIDIA driver is too old for the CUDA version of this build; install a newer "
               "driver";
    }
    if (error == cudaErrorNoDevice) {
        return "the NVIDIA driver shows no GPU (is there one, and does CUDA_VISIBLE_DEVICES name "
               "it?)";
    }
    if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction) {
        return "this build has no kernels for this model of GPU; build unfurl for its compute "
               "capability";
    }
    return cudaGetErrorString(error);
}

/* The number of GPUs; 0 and a reason where this build has code for none. */
static int32_t cuda_count(const char **reason) {
    int driver = 0;
    int runtime = 0;
    int count = 0;
    *reason = "";
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess || count == 0) {
        (void)cudaGetLastError();
        *reason =
            uf_cuda_explain(error != cudaSuccess ? error : cudaErrorNoDevice, driver, runtime);
        return 0;
    }
    for (int device = 0; device < count; ++device) {
        int major = 0;
        int minor = 0;
        (void)cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
        (void)cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
        if (uf_cuda_images_run(UF_CUDA_ARCHITECTURES, 10 * major + minor)) {
            return count;
        }
    }
    *reason = uf_cuda_explain(cudaErrorNoKernelImageForDevice, driver, runtime);
    return 0;
}

/* After these the device context is lost: no later call on it can succeed. */
static bool poisons(cudaError_t error) {
    switch (error) {
    case cudaErrorMemoryAllocation:
    case cudaErrorInvalidValue:
    case cudaErrorInvalidConfiguration:
    case cudaErrorInvalidPitchValue:
    case cudaErrorInvalidSymbol:
    case cudaErrorInvalidDevice:
    case cudaErrorInvalidResourceHandle:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorLaunchOutOfResources:
    case cudaErrorNotReady:
    case cudaErrorNotPermitted:
    case cudaErrorNotSupported:
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureMerge:
    case cudaErrorStreamCaptureUnmatched:
    case cudaErrorStreamCaptureUnjoined:
    case cudaErrorStreamCaptureIsolation:
    case cudaErrorStreamCaptureImplicit:
    case cudaErrorStreamCaptureWrongThread:
        return false;
    default:
        return true;
    }
}

uf_status uf_cuda_check(uf_context *context, cudaError_t error, const char *what) {
    if (error == cudaSuccess) {
        return UF_OK;
    }
    (void)cudaGetLastError(); /* forget it, unless it is one that stays */
    if (error == cudaErrorMemoryAllocation) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of GPU memory: %s: %s", what,
                cudaGetErrorString(error));
    }
    if (error == cudaErrorNoKernelImageForDevice) {
        UF_FAIL(UF_ERROR_UNSUPPORTED, "%s", uf_cuda_explain(error, CUDART_VERSION, CUDART_VERSION));
    }
    if (!poisons(error)) {
        UF_FAIL(UF_ERROR_INTERNAL, "CUDA refused %s: %s (%s)", what, cudaGetErrorString(error),
                cudaGetErrorName(error));
    }
    if (context->fault == UF_OK) {
        context->fault = UF_ERROR_DEVICE;
        (void)snprintf(
            context->fault_message, sizeof context->fault_message,
            "the GPU failed, noticed at %s: %s (%s); the context is unusable from now on", what,
            cudaGetErrorString(error), cudaGetErrorName(error));
    }
    return uf_context_check(context);
}

uf_status uf_cuda_launched(uf_context *context, const char *name) {
    const cudaError_t error = cudaGetLastError();
    return error == cudaSuccess ? UF_OK : uf_cuda_check(context, error, name);
}

uf_status uf_cuda_enter(uf_context *context) {
    UF_TRY(uf_context_check(context));
    return uf_cuda_check(context, cudaSetDevice(context->device_index), "cudaSetDevice");
}

/* While a context opens it has no fault to set: plain statuses. */
static uf_status open_failed(const uf_context *context, cudaError_t error, const char *what) {
    (void)cudaGetLastError();
    if (error == cudaErrorMemoryAllocation) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "GPU %d has no memory left for a context: %s",
                (int)context->device_index, what);
    }
    if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction) {
        UF_FAIL(UF_ERROR_UNSUPPORTED, "GPU %d: %s", (int)context->device_index,
                uf_cuda_explain(error, CUDART_VERSION, CUDART_VERSION));
    }
    UF_FAIL(UF_ERROR_DEVICE, "GPU %d cannot be used: %s: %s (%s)", (int)context->device_index, what,
            cudaGetErrorString(error), cudaGetErrorName(error));
}

/* Costs are cycles of the GPU that they were fitted on, so the rate stays that GPU's. */
static uf_gpu gpu_of(const struct cudaDeviceProp *properties) {
    uf_gpu gpu = uf_gpu_h200();
    gpu.capability = properties->major * 10 + properties->minor;
#if !UF_CUDA_HAS_90A
    if (gpu.capability == 90) {
        gpu.capability = 89; /* this build lacks the code that only an H100's like can run */
    }
#endif
    gpu.multiprocessors = properties->multiProcessorCount;
    gpu.shared_per_block = (int)properties->sharedMemPerBlockOptin;
    return gpu;
}

static uf_status cuda_open(uf_context *context, const uf_context_options *options) {
    struct cudaDeviceProp properties;
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess) {
        return open_failed(context, error, "cudaGetDeviceCount");
    }
    UF_CHECK_ARG(context->device_index < count,
                 "uf_context_options.device_index is %d; there %s %d GPU%s, numbered from 0",
                 (int)context->device_index, count == 1 ? "is" : "are", count,
                 count == 1 ? "" : "s");
    if ((error = cudaSetDevice(context->device_index)) != cudaSuccess) {
        return open_failed(context, error, "cudaSetDevice");
    }
    bool overlaps = false;
    if ((error = uf_cuda_probe(&overlaps)) != cudaSuccess) {
        return open_failed(context, error, "looking for a kernel");
    }
    if ((error = cudaGetDeviceProperties(&properties, context->device_index)) != cudaSuccess) {
        return open_failed(context, error, "cudaGetDeviceProperties");
    }
    uf_cuda_state *state = calloc(1, sizeof *state);
    if (state == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a context");
    }
    state->stream = options->cuda_stream;
    if (state->stream == NULL) {
        /* A blocking stream and the caller's default stream would wait for each other. */
        error = cudaStreamCreateWithFlags(&state->stream, cudaStreamNonBlocking);
        if (error != cudaSuccess) {
            free(state);
            return open_failed(context, error, "cudaStreamCreate");
        }
        state->owns_stream = true;
    }
    state->overlaps = overlaps;
    state->gpu = gpu_of(&properties);
    enum cudaDriverEntryPointQueryResult found;
    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &state->encode_tensor_map, 12000,
                                         cudaEnableDefault, &found) != cudaSuccess ||
        found != cudaDriverEntryPointSuccess) {
        (void)cudaGetLastError();
        state->encode_tensor_map = NULL;
    }
    context->state = state;
    context->stream = state->stream;
    (void)snprintf(context->description, sizeof context->description, "%.100s (CUDA)",
                   properties.name);
    return UF_OK;
}

static void cuda_close(uf_context *context) {
    uf_cuda_state *state = context->state;
    /* Runs after a fault too, and cannot report errors. */
    (void)cudaSetDevice(context->device_index);
    (void)cudaStreamSynchronize(state->stream);
    if (state->owns_stream) {
        (void)cudaStreamDestroy(state->stream);
    }
    (void)cudaGetLastError();
    uf_conv_tuning_release(&state->tuning);
    uf_conv_plan_cache_release(&state->plan_cache);
    free(state);
}

/* Plain cudaMalloc, not a pool: results of a call must not depend on free memory. */
static void *cuda_allocate(void *context, size_t size, size_t alignment, uf_memory_kind kind,
                           void *stream) {
    const uf_context *owner = context;
    void *pointer = NULL;
    cudaError_t error;
    (void)stream;
    if (kind == UF_MEMORY_HOST) {
        return size > SIZE_MAX - alignment
                   ? NULL
                   : aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    }
    error = cudaSetDevice(owner->device_index);
    if (error == cudaSuccess) {
        error = kind == UF_MEMORY_PINNED
                    ? cudaHostAlloc(&pointer, size, cudaHostAllocMapped | cudaHostAllocPortable)
                    : cudaMalloc(&pointer, size);
    }
    if (error != cudaSuccess) {
        (void)cudaGetLastError();
        return NULL;
    }
    return pointer;
}

static void cuda_release(void *context, void *pointer, size_t size, uf_memory_kind kind,
                         void *stream) {
    const uf_context *owner = context;
    (void)size;
    (void)stream;
    if (kind == UF_MEMORY_HOST) {
        free(pointer);
        return;
    }
    (void)cudaSetDevice(owner->device_index);
    (void)(kind == UF_MEMORY_PINNED ? cudaFreeHost(pointer) : cudaFree(pointer));
    (void)cudaGetLastError();
}

static uf_status cuda_upload(uf_context *context, void *device, const void *host, size_t size) {
    struct cudaPointerAttributes attributes;
    UF_TRY(uf_cuda_enter(context));
    if (size == 0) {
        return UF_OK;
    }
    UF_CUDA_TRY(context, cudaMemcpyAsync(device, host, size, cudaMemcpyHostToDevice,
                                         uf_cuda_stream(context)));
    /* The copy reads pageable memory before it returns, but pinned memory later. The caller may
     * reuse either on return. */
    if (cudaPointerGetAttributes(&attributes, host) == cudaSuccess &&
        attributes.type != cudaMemoryTypeUnregistered) {
        UF_CUDA_TRY(context, cudaStreamSynchronize(uf_cuda_stream(context)));
    }
    (void)cudaGetLastError();
    return UF_OK;
}

static uf_status cuda_download(uf_context *context, void *host, const void *device, size_t size) {
    UF_TRY(uf_cuda_enter(context));
    if (size > 0) {
        UF_CUDA_TRY(context, cudaMemcpyAsync(host, device, size, cudaMemcpyDeviceToHost,
                                             uf_cuda_stream(context)));
    }
    return uf_cuda_check(context, cudaStreamSynchronize(uf_cuda_stream(context)),
                         "waiting for a download");
}

static uf_status cuda_copy(uf_context *context, void *to, const void *from, size_t size) {
    UF_TRY(uf_cuda_enter(context));
    if (size > 0) {
        UF_CUDA_TRY(context, cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice,
                                             uf_cuda_stream(context)));
    }
    return UF_OK;
}

static uf_status cuda_zero(uf_context *context, void *device, size_t size) {
    UF_TRY(uf_cuda_enter(context));
    if (size > 0) {
        UF_CUDA_TRY(context, cudaMemsetAsync(device, 0, size, uf_cuda_stream(context)));
    }
    return UF_OK;
}

static uf_status cuda_synchronize(uf_context *context) {
    UF_TRY(uf_cuda_enter(context));
    return uf_cuda_check(context, cudaStreamSynchronize(uf_cuda_stream(context)),
                         "waiting for the context's work");
}

/* A recording is a cudaGraphExec_t. The capture concerns this thread alone: others may go on
 * allocating. */
static uf_status cuda_record_begin(uf_context *context) {
    UF_TRY(uf_cuda_enter(context));
    return uf_cuda_check(
        context, cudaStreamBeginCapture(uf_cuda_stream(context), cudaStreamCaptureModeThreadLocal),
        "cudaStreamBeginCapture");
}

static uf_status cuda_record_end(uf_context *context, void **recording) {
    cudaGraph_t graph = NULL;
    cudaGraphExec_t executable = NULL;
    *recording = NULL;
    /* Also on a poisoned context: a stream in capture cannot be destroyed. */
    (void)cudaSetDevice(context->device_index);
    UF_CUDA_TRY(context, cudaStreamEndCapture(uf_cuda_stream(context), &graph));
    UF_TRY(uf_context_check(context));
    /* A fault in the middle of a capture may end it with success and no graph. */
    const cudaError_t error = graph != NULL ? cudaGraphInstantiate(&executable, graph, 0)
                                            : cudaStreamSynchronize(uf_cuda_stream(context));
    const uf_status status = uf_cuda_check(context, error, "cudaGraphInstantiate");
    if (graph == NULL && status == UF_OK) {
        UF_FAIL(UF_ERROR_INTERNAL, "CUDA ended a capture without an error and without a graph");
    }
    if (graph != NULL && context->fault == UF_OK) {
        (void)cudaGraphDestroy(graph);
    }
    if (status == UF_OK) {
        *recording = executable;
    }
    return status;
}

static uf_status cuda_record_play(uf_context *context, void *recording) {
    UF_TRY(uf_cuda_enter(context));
    return uf_cuda_check(context, cudaGraphLaunch(recording, uf_cuda_stream(context)),
                         "cudaGraphLaunch");
}

static void cuda_record_destroy(uf_context *context, void *recording) {
    /* On a lost device there is nothing to free, and the attempt may crash the driver. */
    if (recording != NULL && context->fault == UF_OK) {
        (void)cudaSetDevice(context->device_index);
        /* The recording may still run. */
        (void)cudaStreamSynchronize(uf_cuda_stream(context));
        (void)cudaGraphExecDestroy(recording);
        (void)cudaGetLastError();
    }
}

static bool cuda_is_recording(uf_context *context) {
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    if (cudaStreamIsCapturing(uf_cuda_stream(context), &status) != cudaSuccess) {
        (void)cudaGetLastError();
        return false;
    }
    return status != cudaStreamCaptureStatusNone;
}

static uf_status cuda_mark_create(uf_context *context, uf_mark *mark) {
    cudaEvent_t event = NULL;
    UF_TRY(uf_cuda_enter(context));
    UF_CUDA_TRY(context, cudaEventCreate(&event));
    mark->event = event;
    return UF_OK;
}

static void cuda_mark_destroy(uf_context *context, uf_mark *mark) {
    /* As with recordings: a lost device has nothing to free. */
    if (mark->event != NULL && context->fault == UF_OK) {
        (void)cudaSetDevice(context->device_index);
        (void)cudaEventDestroy(mark->event);
        (void)cudaGetLastError();
    }
    mark->event = NULL;
}

static uf_status cuda_mark_set(uf_context *context, uf_mark *mark) {
    UF_TRY(uf_cuda_enter(context));
    UF_CUDA_TRY(context, cudaEventRecord(mark->event, uf_cuda_stream(context)));
    return UF_OK;
}

static uf_status cuda_mark_between(uf_context *context, const uf_mark *from, const uf_mark *to,
                                   double *ms) {
    float elapsed = 0.0f;
    UF_TRY(uf_cuda_enter(context));
    UF_CUDA_TRY(context, cudaEventSynchronize(to->event));
    UF_CUDA_TRY(context, cudaEventElapsedTime(&elapsed, from->event, to->event));
    *ms = (double)elapsed;
    return UF_OK;
}

static const uf_device_ops uf_cuda_device_ops = {
    .device = UF_DEVICE_CUDA,
    .count = cuda_count,
    .open = cuda_open,
    .close = cuda_close,
    .allocate = cuda_allocate,
    .release = cuda_release,
    .upload = cuda_upload,
    .download = cuda_download,
    .copy = cuda_copy,
    .zero = cuda_zero,
    .synchronize = cuda_synchronize,
    .record_begin = cuda_record_begin,
    .record_end = cuda_record_end,
    .record_play = cuda_record_play,
    .record_destroy = cuda_record_destroy,
    .is_recording = cuda_is_recording,
    .mark_create = cuda_mark_create,
    .mark_destroy = cuda_mark_destroy,
    .mark_set = cuda_mark_set,
    .mark_between = cuda_mark_between,
    .tuning = &uf_cuda_tuning,
    .kernels = &uf_cuda_kernels,
};

const uf_device_ops *uf_cuda_device(const char **reason) {
    *reason = "";
    return &uf_cuda_device_ops;
}
