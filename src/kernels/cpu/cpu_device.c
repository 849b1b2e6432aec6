/* cpu_device.c - the CPU as a device: plain memory, work done when the call returns. */
#define _GNU_SOURCE /* sched_getaffinity: a container's or taskset's cores, not the machine's */
#include "kernels/kernels.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/parallel.h"
#include "kernels/cpu/isa.h"

int32_t uf_usable_cores(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0) {
        return 1;
    }
    const int cores = CPU_COUNT(&set);
    return cores < 1 ? 1 : cores > 1024 ? 1024 : (int32_t)cores;
}

static int32_t cpu_count(const char **reason) {
    *reason = "";
    return 1;
}

static uf_status cpu_open(uf_context *context, const uf_context_options *options) {
    (void)options;
    UF_CHECK_ARG(context->device_index == 0, "there is one CPU device, index 0; %d was asked for",
                 (int)context->device_index);
    UF_CHECK_ARG(context->stream == NULL, "a CPU context takes no cuda_stream");
    snprintf(context->description, sizeof context->description, "CPU (%s, %d thread%s)",
             uf_cpu_isa_name(uf_cpu_isa_detect()), (int)context->threads,
             context->threads == 1 ? "" : "s");
    return uf_pool_create(context->threads, &context->pool);
}

static void cpu_close(uf_context *context) {
    uf_pool_destroy(context->pool);
}

static void *cpu_allocate(void *context, size_t size, size_t alignment, uf_memory_kind kind,
                          void *stream) {
    (void)context;
    (void)kind;
    (void)stream;
    if (size > SIZE_MAX - alignment) {
        return NULL;
    }
    /* aligned_alloc wants a size that is a multiple of the alignment. */
    return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void cpu_release(void *context, void *pointer, size_t size, uf_memory_kind kind,
                        void *stream) {
    (void)context;
    (void)size;
    (void)kind;
    (void)stream;
    free(pointer);
}

static uf_status cpu_copy(uf_context *context, void *to, const void *from, size_t size) {
    (void)context;
    if (size > 0) {
        memmove(to, from, size);
    }
    return UF_OK;
}

static uf_status cpu_zero(uf_context *context, void *device, size_t size) {
    (void)context;
    if (size > 0) {
        memset(device, 0, size);
    }
    return UF_OK;
}

static uf_status cpu_synchronize(uf_context *context) {
    (void)context;
    return UF_OK;
}

static uf_status cpu_mark_create(uf_context *context, uf_mark *mark) {
    (void)context;
    (void)mark;
    return UF_OK;
}

static void cpu_mark_destroy(uf_context *context, uf_mark *mark) {
    (void)context;
    (void)mark;
}

static uf_status cpu_mark_set(uf_context *context, uf_mark *mark) {
    struct timespec now;
    (void)context;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    mark->ms = (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
    return UF_OK;
}

static uf_status cpu_mark_between(uf_context *context, const uf_mark *from, const uf_mark *to,
                                  double *ms) {
    (void)context;
    *ms = to->ms - from->ms;
    return UF_OK;
}

const uf_device_ops uf_cpu_device = {
    .device = UF_DEVICE_CPU,
    .count = cpu_count,
    .open = cpu_open,
    .close = cpu_close,
    .allocate = cpu_allocate,
    .release = cpu_release,
    .upload = cpu_copy,
    .download = cpu_copy,
    .copy = cpu_copy,
    .zero = cpu_zero,
    .synchronize = cpu_synchronize,
    .mark_create = cpu_mark_create,
    .mark_destroy = cpu_mark_destroy,
    .mark_set = cpu_mark_set,
    .mark_between = cpu_mark_between,
    .kernels = &uf_cpu_kernels,
};
