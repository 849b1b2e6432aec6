/* launch_count.c - counts kernel launches by name. A library that the CUDA driver loads into every
 * process when CUDA_INJECTION64_PATH names it; at exit each process writes "count mangled-name"
 * lines into a file of its own in the folder UNFURL_LAUNCHES. Launches that a graph replays count
 * once, where they were captured. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cupti.h>

enum { MOST = 1024 };

static struct {
    char name[1024];
    long count;
} seen[MOST];
static int seen_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void count(const char *name) {
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < seen_count && strcmp(seen[i].name, name) != 0) {
        ++i;
    }
    if (i == seen_count && seen_count < MOST) {
        snprintf(seen[seen_count++].name, sizeof seen[0].name, "%s", name);
    }
    if (i < MOST) {
        ++seen[i].count;
    }
    pthread_mutex_unlock(&lock);
}

static void CUPTIAPI called(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                            const CUpti_CallbackData *data) {
    (void)user;
    (void)domain;
    (void)id;
    if (data->callbackSite == CUPTI_API_ENTER && data->symbolName != NULL) {
        count(data->symbolName);
    }
}

static void write_counts(void) {
    const char *folder = getenv("UNFURL_LAUNCHES");
    char path[4096];
    if (folder == NULL || seen_count == 0) {
        return;
    }
    snprintf(path, sizeof path, "%s/%ld", folder, (long)getpid());
    FILE *file = fopen(path, "w");
    for (int i = 0; file != NULL && i < seen_count; ++i) {
        fprintf(file, "%ld %s\n", seen[i].count, seen[i].name);
    }
    if (file != NULL) {
        fclose(file);
    }
}

int InitializeInjection(void);
int InitializeInjection(void) {
    static CUpti_SubscriberHandle subscriber;
    static const CUpti_CallbackId launches[] = {
        CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
        CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz};
    if (cuptiSubscribe(&subscriber, (CUpti_CallbackFunc)called, NULL) != CUPTI_SUCCESS) {
        return 1;
    }
    for (size_t i = 0; i < sizeof launches / sizeof launches[0]; ++i) {
        (void)cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, launches[i]);
    }
    atexit(write_counts);
    return 1;
}
