/* load.c - a store's tensors from a file, by name.
 *
 * Loading goes in steps, and only the last touches the store: list the file, give every dataset the
 * name that state_dict() would, compare with what is declared, read everything to host memory,
 * upload. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unfurl/hdf5.h>

#include "core/store.h"
#include "io/foreign.h"
#include "io/loader.h"

/* The prefixes that torch adds to a model's names: DataParallel and torch.compile, in any order. */
static const char *const wrapper_prefixes[] = {"module.", "_orig_mod."};

#define LISTED 8 /* names in a message; the log gets them all */
#define LINE_SIZE 512

/* One kind of disagreement between file and store. */
typedef struct findings {
    int64_t count;
    char first[LISTED][LINE_SIZE];
} findings;

enum { MISSING, UNEXPECTED, OF_ANOTHER_SHAPE, OF_ANOTHER_TYPE, KINDS };

static const char *const kind_names[KINDS] = {
    [MISSING] = "missing",
    [UNEXPECTED] = "unexpected",
    [OF_ANOTHER_SHAPE] = "of another shape",
    [OF_ANOTHER_TYPE] = "of another type",
};

/* ---- names ---- */

/* `name` past `prefix`, or `name` itself; never past the whole of it. */
static const char *strip(const char *name, const char *prefix) {
    const size_t length = strlen(prefix);
    return strncmp(name, prefix, length) == 0 && name[length] != '\0' ? name + length : name;
}

/* `name` past the first prefix that it begins with, or `name` itself. */
static const char *strip_one(const char *name, const uf_weights_load_options *options) {
    for (size_t i = 0; i < sizeof wrapper_prefixes / sizeof wrapper_prefixes[0]; ++i) {
        const char *rest = strip(name, wrapper_prefixes[i]);
        if (rest != name) {
            return rest;
        }
    }
    for (int32_t i = 0; i < options->strip_prefix_count; ++i) {
        const char *rest = strip(name, options->strip_prefixes[i]);
        if (rest != name) {
            return rest;
        }
    }
    return name;
}

/* The name as it is when the store knows it. Else prefixes come off, one after another, until the
 * store knows the rest or no prefix is left: wrappers nest in any order, and a network may call a
 * part of its own "module". */
static const char *name_in_store(const loader *load, const char *name) {
    for (;;) {
        const char *rest = strip_one(name, load->options);
        if (rest == name || uf_store_find(load->store, name) >= 0 ||
            (!load->options->keep_norms && uf_loader_is_part(load, name))) {
            return name;
        }
        name = rest;
    }
}

/* The characters of a dataset's whole name that name the group it was looked for in. */
static size_t group_length(const char *group) {
    size_t length = 0;
    if (group != NULL) {
        group += strspn(group, "/");
        length = strlen(group);
        while (length > 0 && group[length - 1] == '/') {
            --length;
        }
    }
    return length > 0 ? length + 1 : 0;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const item *)a)->name, ((const item *)b)->name);
}

/* Two datasets of one name are an error, in whatever order they come. */
static uf_status refuse_duplicates(const loader *load) {
    item *sorted = malloc(((size_t)load->count + 1) * sizeof *sorted);
    if (sorted == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory loading %s", load->path);
    }
    uf_status status = UF_OK;
    if (load->count > 0) {
        memcpy(sorted, load->items, (size_t)load->count * sizeof *sorted);
        qsort(sorted, (size_t)load->count, sizeof *sorted, by_name);
    }
    for (int64_t i = 1; i < load->count && status == UF_OK; ++i) {
        if (by_name(&sorted[i - 1], &sorted[i]) == 0) {
            const char *one = sorted[i - 1].dataset->entry.name;
            const char *other = sorted[i].dataset->entry.name;
            const bool ordered = strcmp(one, other) < 0;
            status = uf_fail(UF_ERROR_FORMAT, "%s and %s in %s are both %s", ordered ? one : other,
                             ordered ? other : one, load->path, sorted[i].name);
        }
    }
    free(sorted);
    return status;
}

static uf_status name_items(loader *load) {
    const size_t skip = group_length(load->options->group);
    load->items = calloc((size_t)load->file.listing.count + 1, sizeof *load->items);
    if (load->items == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory loading %s", load->path);
    }
    if (load->options->keras != NULL) {
        UF_TRY(uf_loader_name_keras(load, load->options->keras));
        return refuse_duplicates(load);
    }
    for (int64_t i = 0; i < load->file.listing.count; ++i) {
        item *made = &load->items[load->count++];
        char dotted[sizeof load->file.listing.datasets[i].entry.name];
        made->dataset = &load->file.listing.datasets[i];
        made->shape = made->dataset->entry.shape;
        made->slot = -1;
        snprintf(dotted, sizeof dotted, "%s", made->dataset->entry.name + skip);
        for (char *at = dotted; *at != '\0'; ++at) {
            if (*at == '/') {
                *at = '.';
            }
        }
        const int length =
            snprintf(made->name, sizeof made->name, "%s", name_in_store(load, dotted));
        if (length >= UF_NAME_SIZE) {
            UF_FAIL(UF_ERROR_FORMAT, "%s in %s: a tensor's name has at most %d characters",
                    made->dataset->entry.name, load->path, UF_NAME_SIZE - 1);
        }
        if (uf_store_find(load->store, made->name) < 0) {
            uf_loader_rename(load, made->name);
        }
    }
    return refuse_duplicates(load);
}

/* ---- matching ---- */

static void note(loader *load, int kind, const char *format, ...) UF_PRINTF(3, 4);
static void note(loader *load, int kind, const char *format, ...) {
    char line[LINE_SIZE];
    findings *found = &load->found[kind];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (found->count < LISTED) {
        memcpy(found->first[found->count], line, sizeof line);
    }
    found->count += 1;
    uf_context_log(load->store->context, load->options->strict ? UF_LOG_ERROR : UF_LOG_WARNING,
                   "%s: %s: %s", load->path, kind_names[kind], line);
}

static const char *shape_text(const uf_shape *shape, char *text, size_t size) {
    if (shape->rank == 0) {
        snprintf(text, size, "a scalar");
        return text;
    }
    return uf_shape_format(shape, text, size);
}

/* A dataset without numbers is an error of the file, strict; lenient, it is passed over. */
static uf_status refuse_not_numbers(loader *load, const item *one) {
    if (load->options->strict) {
        UF_FAIL(UF_ERROR_FORMAT, "%s in %s %s", one->dataset->entry.name, load->path,
                one->dataset->problem);
    }
    load->not_numbers += 1;
    uf_context_log(load->store->context, UF_LOG_WARNING, "%s: %s %s", load->path,
                   one->dataset->entry.name, one->dataset->problem);
    return UF_OK;
}

/* Compare one dataset of numbers with the tensor of its name. */
static void match(loader *load, item *one, int64_t at) {
    char text[128], other[128];
    const uf_store *store = load->store;
    const uf_store_slot *slot = &store->slots[at];
    const uf_file_entry *dataset = one->dataset;
    const bool counts = slot->role == UF_ROLE_COUNTER;
    if (counts != (dataset->dtype == UF_I64)) {
        note(load, OF_ANOTHER_TYPE, "%s is %s in the file, %s in the store", one->name,
             dataset->entry.type, uf_dtype_name(counts ? UF_I64 : store->dtype));
    } else if (!uf_shape_equal(&slot->shape, &one->shape)) {
        shape_text(&slot->shape, other, sizeof other);
        if (dataset->problem[0] != '\0') {
            note(load, OF_ANOTHER_SHAPE, "%s %s in the file, %s in the store", one->name,
                 dataset->problem, other);
        } else {
            note(load, OF_ANOTHER_SHAPE, "%s is %s in the file, %s in the store", one->name,
                 shape_text(&one->shape, text, sizeof text), other);
        }
    } else {
        one->slot = at;
    }
}

/* A message that grows up to its buffer's end. */
typedef struct message {
    char text[UF_MESSAGE_SIZE];
    size_t used;
} message;

static void add(message *to, const char *format, ...) UF_PRINTF(2, 3);
static void add(message *to, const char *format, ...) {
    const size_t left = sizeof to->text - to->used;
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(to->text + to->used, left, format, arguments);
    va_end(arguments);
    to->used += (size_t)length < left ? (size_t)length : left - 1;
}

/* The first dataset that another library or a wrapper of PyTorch's named; NULL where all could be a
 * network's. */
static const char *foreign_dataset(const loader *load, const uf_foreign **made_by) {
    for (int64_t i = 0; i < load->count; ++i) {
        const char *name = load->items[i].dataset->entry.name;
        *made_by = load->options->keras == NULL ? uf_foreign_name(name) : NULL;
        if (*made_by != NULL && !load->items[i].part) {
            return name;
        }
    }
    return NULL;
}

/* The whole disagreement in one sentence: counts, and the first names of each kind. */
static uf_status report(const loader *load) {
    message told = {.used = 0};
    int64_t kinds = 0;
    for (int kind = 0; kind < KINDS; ++kind) {
        kinds += load->found[kind].count > 0;
    }
    if (kinds == 0) {
        return UF_OK;
    }
    /* The kinds share the names a message has room for, so that none hides another. */
    const int64_t listed = LISTED / kinds;
    for (int kind = 0; kind < KINDS; ++kind) {
        const findings *found = &load->found[kind];
        if (found->count == 0) {
            continue;
        }
        add(&told, "%s%" PRId64 " %s (", told.used > 0 ? ", " : "", found->count, kind_names[kind]);
        for (int64_t i = 0; i < found->count && i < listed; ++i) {
            add(&told, "%s%s", i > 0 ? ", " : "", found->first[i]);
        }
        if (found->count > listed) {
            add(&told, " and %" PRId64 " more", found->count - listed);
        }
        add(&told, ")");
    }
    const uf_foreign *made_by;
    const char *foreign = foreign_dataset(load, &made_by);
    if (foreign != NULL) {
        UF_FAIL(UF_ERROR_SHAPE, "%s does not match store \"%s\", for its %s was made by %s; %s; %s",
                load->path, uf_store_name(load->store), foreign, made_by->what, made_by->remedy,
                told.text);
    }
    UF_FAIL(UF_ERROR_SHAPE, "%s does not match store \"%s\": %s", load->path,
            uf_store_name(load->store), told.text);
}

static uf_status match_all(loader *load) {
    uf_store *store = load->store;
    bool *met = calloc((size_t)store->count, sizeof *met);
    if (met == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory loading %s", load->path);
    }
    uf_status status = load->options->keep_norms ? UF_OK : uf_loader_find_folds(load);
    for (int64_t i = 0; i < load->made_count; ++i) {
        met[load->made[i].slot] = true;
    }
    for (int64_t i = 0; i < load->count && status == UF_OK; ++i) {
        item *one = &load->items[i];
        const int64_t at = uf_store_find(store, one->name);
        if (one->part) {
            continue;
        }
        if (!one->dataset->is_numeric) {
            status = refuse_not_numbers(load, one);
        } else if (at < 0) {
            note(load, UNEXPECTED, "%s", one->name);
        } else {
            met[at] = true;
            match(load, one, at);
        }
    }
    for (int64_t i = 0; i < store->count && status == UF_OK; ++i) {
        /* Keras counts no batches: the counter of a batch norm stays. */
        if (!met[i] && (load->options->keras == NULL || store->slots[i].role != UF_ROLE_COUNTER)) {
            note(load, MISSING, "%s", store->slots[i].name);
        }
    }
    free(met);
    return status == UF_OK && load->options->strict ? report(load) : status;
}

static bool ends_with(const char *name, const char *end) {
    const size_t length = strlen(name), tail = strlen(end);
    return length >= tail && strcmp(name + length - tail, end) == 0;
}

static uf_role role_of(const item *one) {
    if (one->dataset->dtype == UF_I64) {
        return UF_ROLE_COUNTER;
    }
    return ends_with(one->name, "running_mean") || ends_with(one->name, "running_var")
               ? UF_ROLE_BUFFER
               : UF_ROLE_PARAMETER;
}

/* Declare the file's tensors in `made`, a new store that will become the caller's empty one. */
static uf_status declare_all(loader *load, uf_store *made) {
    const uf_foreign *made_by;
    const char *foreign = load->options->strict ? foreign_dataset(load, &made_by) : NULL;
    if (foreign != NULL) {
        /* Nothing would fail before a layer looks for its weight in vain. */
        UF_FAIL(UF_ERROR_FORMAT, "%s in %s was made by %s; %s", foreign, load->path, made_by->what,
                made_by->remedy);
    }
    for (int64_t i = 0; i < load->count; ++i) {
        item *one = &load->items[i];
        if (!one->dataset->entry.is_tensor) {
            UF_TRY(refuse_not_numbers(load, one));
            continue;
        }
        one->slot = made->count;
        UF_TRY(uf_store_declare(made, one->name, one->dataset->entry.shape, role_of(one)));
    }
    if (made->count == 0) {
        UF_FAIL(UF_ERROR_FORMAT, "%s holds no tensors%s%s", load->path,
                load->options->group != NULL ? " under " : "",
                load->options->group != NULL ? load->options->group : "");
    }
    return UF_OK;
}

/* ---- loading ---- */

/* An empty store is filled through a second one, whose contents it takes over at the end: so it
 * stays empty and open when anything fails on the way. */
static uf_status load_into_empty(loader *load) {
    uf_store *store = load->store;
    if (store->sealed) {
        UF_FAIL(UF_ERROR_STATE, "store \"%s\" is sealed and empty: nothing can be loaded into it",
                store->name);
    }
    uf_store_options options = uf_store_options_default();
    options.dtype = store->dtype;
    uf_store *made;
    UF_TRY(uf_store_create_with(store->context, store->name, &options, &made));
    uf_status status = declare_all(load, made);
    if (status == UF_OK) {
        status = uf_loader_fill(load, made);
    }
    if (status == UF_OK) {
        made->version += store->version;
        uf_store_swap(store, made);
    }
    uf_store_destroy(made);
    return status;
}

static uf_status load_into_declared(loader *load) {
    UF_TRY(match_all(load));
    UF_TRY(uf_loader_read_all(load));
    UF_TRY(uf_loader_make_weights(load));
    return uf_loader_upload_all(load, load->store);
}

/* The counts of a load that was matched, `status` being its end: UF_OK, or the disagreement itself.
 * Others leave 0. */
static void fill_report(const loader *load, uf_status status) {
    uf_weights_load_report *report = load->options->report;
    if (report == NULL) {
        return;
    }
    uf_weights_load_report counts = uf_weights_load_report_default();
    if (load->found != NULL && (status == UF_OK || status == UF_ERROR_SHAPE)) {
        for (int64_t i = 0; i < load->count; ++i) {
            counts.loaded +=
                status == UF_OK && uf_loader_is_read(&load->items[i]) && !load->items[i].part;
        }
        counts.loaded += status == UF_OK ? load->made_count : 0;
        counts.missing = load->found[MISSING].count;
        counts.unexpected = load->found[UNEXPECTED].count;
        counts.other_shape = load->found[OF_ANOTHER_SHAPE].count;
        counts.other_type = load->found[OF_ANOTHER_TYPE].count;
        counts.not_numbers = load->not_numbers;
    }
    uf_give_struct(&counts, sizeof counts, report, report->struct_size);
}

/* The arguments that every load has. */
static uf_status check_arguments(const loader *load) {
    const uf_weights_load_options *options = load->options;
    UF_CHECK_ARG(options->strip_prefix_count >= 0 &&
                     (options->strip_prefix_count == 0 || options->strip_prefixes != NULL),
                 "%s.strip_prefixes is NULL or its count is negative (%" PRId32 ")",
                 load->options_name, options->strip_prefix_count);
    for (int32_t i = 0; i < options->strip_prefix_count; ++i) {
        UF_CHECK_ARG(options->strip_prefixes[i] != NULL && options->strip_prefixes[i][0] != '\0',
                     "%s.strip_prefixes[%" PRId32 "] is empty", load->options_name, i);
    }
    return uf_context_check(load->store->context);
}

static uf_status run(loader *load, uf_weights_format format) {
    UF_TRY(check_arguments(load));
    load->found = calloc(KINDS, sizeof *load->found);
    if (load->found == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory loading %s", load->path);
    }
    UF_TRY(uf_tensor_file_open(load->path, format, load->options->group, load->options->untrusted,
                               &load->file));
    UF_TRY(name_items(load));
    return uf_store_size(load->store) == 0 ? load_into_empty(load) : load_into_declared(load);
}

static uf_status load_file(uf_store *store, const char *path, uf_weights_format format,
                           const uf_weights_load_options *given, const char *options_name,
                           const char *report_name) {
    uf_weights_load_options options = uf_weights_load_options_default();
    UF_TRY(uf_read_struct(options_name, given, &options, sizeof options));
    uf_weights_load_report report = uf_weights_load_report_default();
    UF_TRY(uf_read_struct(report_name, options.report, &report, sizeof report));
    loader load = {.store = store, .path = path, .options = &options, .options_name = options_name};
    fill_report(&load, UF_ERROR_INVALID_ARGUMENT);
    const uf_status status = run(&load, format);
    fill_report(&load, status);
    for (int64_t i = 0; i < load.count; ++i) {
        free(load.items[i].data);
    }
    for (int64_t i = 0; i < load.made_count; ++i) {
        free(load.made[i].data);
    }
    free(load.made);
    free(load.piece);
    uf_index_free(&load.names);
    free(load.items);
    free(load.found);
    uf_tensor_file_close(&load.file);
    return status;
}

uf_status uf_store_load_hdf5(uf_store *store, const char *path, const uf_hdf5_load_options *given) {
    UF_CHECK_ARG(store != NULL && path != NULL, "uf_store_load_hdf5: store or path is NULL");
    return load_file(store, path, UF_WEIGHTS_HDF5, given, "uf_hdf5_load_options",
                     "uf_hdf5_load_report");
}

uf_status uf_weights_load(uf_store *store, const char *path, const uf_weights_load_options *given) {
    UF_CHECK_ARG(store != NULL && path != NULL, "uf_weights_load: store or path is NULL");
    return load_file(store, path, UF_WEIGHTS_ANY, given, "uf_weights_load_options",
                     "uf_weights_load_report");
}
