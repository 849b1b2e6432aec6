/* kernel_times_cupti.c - kernel_times.h through CUPTI. Its callbacks have no argument of the
 * caller's: one recording at a time. */
#include "kernel_times.h"

#include <stdlib.h>
#include <string.h>

#include <cupti.h>

#if CUPTI_API_VERSION >= 130000
typedef CUpti_ActivityKernel10 activity_kernel;
#else
typedef CUpti_ActivityKernel9 activity_kernel;
#endif

static bench_kernel_times found;

/* A launch waits within itself for the one before it, which ends later than this one begins. So the
 * time that a launch adds to the run is from the latest end before its own. */
struct launch {
    uint64_t begin, end;
    int32_t row;
};
static struct launch *launches;
static int64_t launch_room;
static bool launches_lost;

bool bench_kernel_times_known(void) {
    return true;
}

/* Records come in buffers of this size, which have an alignment of 8. */
enum { BUFFER = 1 << 20 };

static void CUPTIAPI give_buffer(uint8_t **buffer, size_t *size, size_t *most) {
    *buffer = malloc(BUFFER);
    *size = *buffer != NULL ? BUFFER : 0;
    *most = 0; /* as many records as fit */
}

/* The function's own name in a mangled one: the last of the names that begin it. */
static void name_of(const char *mangled, char name[BENCH_KERNEL_NAME]) {
    const char *at = strncmp(mangled, "_Z", 2) == 0 ? mangled + 2 : mangled;
    const char *begin = mangled;
    size_t length = strlen(mangled);
    at += strspn(at, "NL");
    for (char *end; *at >= '1' && *at <= '9'; at = end + length + strspn(end + length, "L")) {
        const size_t left = strlen(at);
        length = strtoul(at, &end, 10);
        if (length > left - (size_t)(end - at)) { /* no name of this kind */
            begin = mangled;
            length = strlen(mangled);
            break;
        }
        begin = end;
    }
    length = length < BENCH_KERNEL_NAME - 1 ? length : BENCH_KERNEL_NAME - 1;
    memcpy(name, begin, length);
    name[length] = '\0';
}

static void add(const activity_kernel *kernel) {
    char name[BENCH_KERNEL_NAME];
    name_of(kernel->name != NULL ? kernel->name : "unknown", name);
    int32_t row = 0;
    while (row < found.row_count && strcmp(found.rows[row].name, name) != 0) {
        ++row;
    }
    if (row == BENCH_KERNEL_NAMES) {
        row = BENCH_KERNEL_NAMES - 1;
        (void)strcpy(found.rows[row].name, "others");
    } else if (row == found.row_count) {
        memset(&found.rows[row], 0, sizeof found.rows[row]);
        (void)strcpy(found.rows[row].name, name);
        ++found.row_count;
    }
    ++found.rows[row].count;
    if (found.count == launch_room) {
        const int64_t room = launch_room > 0 ? 2 * launch_room : 4096;
        struct launch *const more = realloc(launches, (size_t)room * sizeof *more);
        if (more == NULL) {
            launches_lost = true;
            return;
        }
        launches = more;
        launch_room = room;
    }
    launches[found.count++] = (struct launch){kernel->start, kernel->end, row};
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
                                 size_t valid) {
    CUpti_Activity *record = NULL;
    (void)context;
    (void)stream;
    (void)size;
    while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
        if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
            add((const activity_kernel *)(const void *)record);
        }
    }
    free(buffer);
}

static int by_time(const void *a, const void *b) {
    const bench_kernel_time *const one = a, *const other = b;
    return one->us < other->us ? 1 : one->us > other->us ? -1 : strcmp(one->name, other->name);
}

static int by_end(const void *a, const void *b) {
    const struct launch *const one = a, *const other = b;
    return one->end < other->end ? -1 : one->end > other->end;
}

static void add_times(void) {
    uint64_t before = 0;
    if (found.count > 0)
        qsort(launches, (size_t)found.count, sizeof *launches, by_end);
    for (int64_t i = 0; i < found.count; ++i) {
        const struct launch *const l = &launches[i];
        const double us = 1e-3 * (double)(l->end - (l->begin > before ? l->begin : before));
        found.rows[l->row].us += us;
        found.us += us;
        before = l->end;
    }
    free(launches);
    launches = NULL;
    launch_room = 0;
}

bool bench_kernel_times_begin(void) {
    memset(&found, 0, sizeof found);
    launches_lost = false;
    return cuptiActivityRegisterCallbacks(give_buffer, take_buffer) == CUPTI_SUCCESS &&
           cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) == CUPTI_SUCCESS;
}

bool bench_kernel_times_end(bench_kernel_times *times) {
    const bool flushed = cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) == CUPTI_SUCCESS;
    (void)cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    add_times();
    qsort(found.rows, (size_t)found.row_count, sizeof found.rows[0], by_time);
    *times = found;
    return flushed && !launches_lost && found.count > 0;
}
