/* checkpoint.c - parts of a training's state to a file and back.
 *
 * Each part becomes a list of pieces: a dataset's path, and the tensor or the memory behind it.
 * Saving and loading walk the same list, so what one writes the other finds. A new kind of part is
 * a row of `kinds` and a function that lists its pieces. docs/checkpoints.md has the layout. */
#include <unfurl/checkpoint.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/store.h"
#include "graph/program.h"
#include "io/h5_read.h"
#include "io/hdf5_file.h"
#include "optim/ema.h"
#include "optim/optimizer.h"

#define FORMAT_NAME "unfurl checkpoint"
#define FORMAT_VERSION 1
#define MAX_NAME 63
#define MAX_PARTS 4096

/* One dataset or, of a text, one attribute. */
typedef struct piece {
    char path[UF_NAME_SIZE * 2];
    uf_tensor tensor;  /* on a device; context NULL: in the caller's memory, tensor.data */
    int64_t text_room; /* of a text, its terminator included; else 0 */
    void *read;        /* host memory, owned: contents of the file, in tensor.dtype */
} piece;

typedef struct checkpoint {
    const char *path;
    uf_checkpoint_part *parts; /* as this library knows them; owned */
    int32_t part_count;
    piece *pieces;
    int64_t count, capacity;
} checkpoint;

static uf_status out_of_memory(const checkpoint *all) {
    return uf_fail(UF_ERROR_OUT_OF_MEMORY, "out of host memory for checkpoint %s", all->path);
}

/* ---- pieces ---- */

static uf_status add(checkpoint *all, const uf_tensor *tensor, const char *format, ...)
    UF_PRINTF(3, 4);
static uf_status add(checkpoint *all, const uf_tensor *tensor, const char *format, ...) {
    if (all->count == all->capacity) {
        const int64_t capacity = 2 * all->capacity + 16;
        piece *grown = realloc(all->pieces, (size_t)capacity * sizeof *grown);
        if (grown == NULL) {
            return out_of_memory(all);
        }
        all->pieces = grown;
        all->capacity = capacity;
    }
    piece *made = &all->pieces[all->count++];
    *made = (piece){.tensor = *tensor};
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(made->path, sizeof made->path, format, arguments);
    va_end(arguments);
    UF_CHECK_ARG(length > 0 && (size_t)length < sizeof made->path && uf_file_is_name(made->path),
                 "%s cannot be a name in %s", made->path, all->path);
    return UF_OK;
}

static uf_status list_store(checkpoint *all, const uf_checkpoint_part *part, const char *group) {
    uf_store *store = part->data;
    UF_TRY(uf_context_check(store->context));
    UF_TRY(uf_store_close(store));
    for (int64_t i = 0; i < store->count; ++i) {
        const uf_store_slot *slot = &store->slots[i];
        UF_CHECK_ARG(strchr(slot->name, '/') == NULL,
                     "store \"%s\": %s cannot be the name of a dataset", store->name, slot->name);
        if (slot->tensor.count > 0) { /* HDF5 files of the library have no empty tensors */
            UF_TRY(add(all, &slot->tensor, "%s/%s/%s", group, part->name, slot->name));
        }
    }
    return UF_OK;
}

/* torch.optim's names; a state that an optimizer does not keep is passed over. */
static const struct optimizer_names {
    const char *kind, *state1, *state2;
} optimizer_names[] = {
    [UF_OPTIMIZER_SGD] = {"sgd", "momentum_buffer", NULL},
    [UF_OPTIMIZER_ADAM] = {"adam", "exp_avg", "exp_avg_sq"},
    [UF_OPTIMIZER_RMSPROP] = {"rmsprop", "momentum_buffer", "square_avg"},
};

/* One state of the optimizer, laid out as the parameters, a dataset for each of these. */
static uf_status list_state(checkpoint *all, const uf_checkpoint_part *part, const char *group,
                            void *state, const char *name) {
    const uf_optimizer *optimizer = part->data;
    const uf_store *store = optimizer->store;
    for (int64_t i = 0; state != NULL && i < store->count; ++i) {
        const uf_store_slot *slot = &store->slots[i];
        if (slot->role == UF_ROLE_PARAMETER && slot->canonical == i && slot->tensor.count > 0) {
            const uf_tensor tensor = uf_tensor_over(store->context, (char *)state + slot->offset,
                                                    store->dtype, &slot->shape);
            UF_TRY(add(all, &tensor, "%s/%s/%s/%s", group, part->name, name, slot->name));
        }
    }
    return UF_OK;
}

static uf_status list_optimizer(checkpoint *all, const uf_checkpoint_part *part,
                                const char *group) {
    const uf_optimizer *optimizer = part->data;
    uf_context *context = optimizer->store->context;
    uf_optimizer_control *control = optimizer->control;
    const struct optimizer_names *names = &optimizer_names[optimizer->rule.kind];
    const uf_shape one = UF_SCALAR;
    const struct {
        const char *name;
        uf_dtype dtype;
        void *data;
    } numbers[] = {
        {"lr", UF_F64, &control->lr},
        {"step", UF_I64, &control->step},
        {"beta1_power", UF_F64, &control->power1},
        {"beta2_power", UF_F64, &control->power2},
    };
    UF_TRY(uf_context_check(context));
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; ++i) {
        const uf_tensor tensor = uf_tensor_over(context, numbers[i].data, numbers[i].dtype, &one);
        UF_TRY(add(all, &tensor, "%s/%s/%s", group, part->name, numbers[i].name));
    }
    UF_TRY(list_state(all, part, group, optimizer->state1, names->state1));
    return list_state(all, part, group, optimizer->state2, names->state2);
}

static uf_status list_numbers(checkpoint *all, const uf_checkpoint_part *part, const char *group) {
    const uf_shape shape = UF_SHAPE(part->count);
    const uf_dtype dtype = part->kind == UF_CHECKPOINT_F64 ? UF_F64 : UF_I64;
    UF_CHECK_ARG(part->count > 0, "checkpoint %s: part %s has %" PRId64 " numbers", all->path,
                 part->name, part->count);
    const uf_tensor tensor = uf_tensor_over(NULL, part->data, dtype, &shape);
    return add(all, &tensor, "%s/%s", group, part->name);
}

static uf_status list_text(checkpoint *all, const uf_checkpoint_part *part, const char *group) {
    const uf_shape shape = UF_SHAPE(part->count);
    UF_CHECK_ARG(part->count > 0 && (size_t)part->count <= UF_HDF5_MAX_TEXT,
                 "checkpoint %s: text %s has room for %" PRId64
                 " bytes; it must be 1 to %zu, the terminator included",
                 all->path, part->name, part->count, UF_HDF5_MAX_TEXT);
    const uf_tensor tensor = uf_tensor_over(NULL, part->data, UF_I64, &shape);
    UF_TRY(add(all, &tensor, "%s/%s", group, part->name));
    all->pieces[all->count - 1].text_room = part->count;
    return UF_OK;
}

static uf_status list_program(checkpoint *all, const uf_checkpoint_part *part, const char *group) {
    const uf_program *program = part->data;
    const uf_shape one = UF_SCALAR;
    UF_TRY(uf_context_check(program->context));
    if (program->random_step == NULL) {
        return UF_OK;
    }
    const uf_tensor tensor = uf_tensor_over(program->context, program->random_step, UF_I64, &one);
    return add(all, &tensor, "%s/%s/random_step", group, part->name);
}

/* 1 - decay, as the device has it: the decay itself would be rounded on the way. */
static uf_status list_ema(checkpoint *all, const uf_checkpoint_part *part, const char *group) {
    const uf_ema *ema = part->data;
    uf_context *context = ema->store->context;
    const uf_shape one = UF_SCALAR;
    UF_TRY(uf_context_check(context));
    const uf_tensor tensor = uf_tensor_over(context, &ema->control->lr, UF_F64, &one);
    return add(all, &tensor, "%s/%s/one_minus_decay", group, part->name);
}

static const struct part_kind {
    const char *group;
    uf_status (*list)(checkpoint *all, const uf_checkpoint_part *part, const char *group);
} kinds[] = {
    [UF_CHECKPOINT_STORE] = {"stores", list_store},
    [UF_CHECKPOINT_OPTIMIZER] = {"optimizers", list_optimizer},
    [UF_CHECKPOINT_F64] = {"numbers", list_numbers},
    [UF_CHECKPOINT_I64] = {"numbers", list_numbers},
    [UF_CHECKPOINT_TEXT] = {"texts", list_text},
    [UF_CHECKPOINT_PROGRAM] = {"programs", list_program},
    [UF_CHECKPOINT_EMA] = {"emas", list_ema},
};

/* ---- parts ---- */

static uf_status check_part(const checkpoint *all, int32_t at) {
    const uf_checkpoint_part *part = &all->parts[at];
    UF_CHECK_ARG((unsigned)part->kind < sizeof kinds / sizeof kinds[0],
                 "checkpoint %s: part %" PRId32 " has kind %d, which is none", all->path, at,
                 (int)part->kind);
    UF_CHECK_ARG(part->name != NULL && part->data != NULL,
                 "checkpoint %s: part %" PRId32 " has no name or no data", all->path, at);
    UF_CHECK_ARG(strlen(part->name) <= MAX_NAME && strchr(part->name, '/') == NULL &&
                     uf_file_is_name(part->name),
                 "checkpoint %s: %.80s cannot be the name of a part: it is \".\", \"..\", empty, "
                 "longer than %d characters, or has a slash",
                 all->path, part->name, MAX_NAME);
    for (int32_t i = 0; i < at; ++i) {
        UF_CHECK_ARG(strcmp(kinds[all->parts[i].kind].group, kinds[part->kind].group) != 0 ||
                         strcmp(all->parts[i].name, part->name) != 0,
                     "checkpoint %s: two parts are called %s/%s", all->path,
                     kinds[part->kind].group, part->name);
    }
    return UF_OK;
}

/* The parts as this library knows them, and their pieces. The caller closes, on failure too. */
static uf_status open_parts(checkpoint *all, const void *parts, int32_t count, size_t part_size) {
    UF_CHECK_ARG(count > 0 && count <= MAX_PARTS && parts != NULL,
                 "checkpoint %s: there are %" PRId32 " parts; 1 to %d can be saved", all->path,
                 count, MAX_PARTS);
    all->parts = calloc((size_t)count, sizeof *all->parts);
    if (all->parts == NULL) {
        return out_of_memory(all);
    }
    for (int32_t i = 0; i < count; ++i) {
        size_t size;
        const unsigned char *given = (const unsigned char *)parts + (size_t)i * part_size;
        memcpy(&size, given, sizeof size);
        UF_CHECK_ARG(size == part_size,
                     "checkpoint %s: part %" PRId32 " has struct_size %zu, the others %zu: make it "
                     "by uf_checkpoint_store() and the like",
                     all->path, i, size, part_size);
        UF_TRY(uf_read_struct("uf_checkpoint_part", given, &all->parts[i], sizeof *all->parts));
        UF_TRY(check_part(all, i));
        all->part_count = i + 1;
    }
    for (int32_t i = 0; i < count; ++i) {
        const struct part_kind *kind = &kinds[all->parts[i].kind];
        UF_TRY(kind->list(all, &all->parts[i], kind->group));
    }
    return UF_OK;
}

static void close_parts(checkpoint *all) {
    for (int64_t i = 0; i < all->count; ++i) {
        free(all->pieces[i].read);
    }
    free(all->pieces);
    free(all->parts);
}

static size_t piece_bytes(const piece *one) {
    return (size_t)one->tensor.count * uf_dtype_size(one->tensor.dtype);
}

/* The last part of a path: a text is an attribute of the group before it. */
static const char *text_name(const piece *one) {
    return strrchr(one->path, '/') + 1;
}

/* ---- saving ---- */

static uf_status save_text(uf_hdf5_file *file, const piece *one) {
    const char *text = one->tensor.data;
    UF_CHECK_ARG(memchr(text, '\0', (size_t)one->text_room) != NULL,
                 "checkpoint %s: %s has no terminator in its %" PRId64 " bytes", file->path,
                 one->path, one->text_room);
    uf_hdf5_make_groups(file, one->path);
    return uf_hdf5_write_text(file, kinds[UF_CHECKPOINT_TEXT].group, text_name(one), text);
}

/* `host` has room for the largest piece on a device. */
static uf_status save_piece(uf_hdf5_file *file, const piece *one, void *host, int32_t gzip_level) {
    const uf_hdf5_storage storage = {.checksum = true, .gzip_level = gzip_level};
    const void *data = one->tensor.data;
    if (one->text_room > 0) {
        return save_text(file, one);
    }
    if (one->tensor.context != NULL) {
        UF_TRY(uf_tensor_download(&one->tensor, host));
        data = host;
    }
    return uf_hdf5_write_tensor(file, one->path, one->tensor.dtype, &one->tensor.shape, data,
                                storage);
}

static uf_status save_all(const checkpoint *all, uf_hdf5_file *file, void *host,
                          int32_t gzip_level) {
    UF_TRY(uf_hdf5_write_text(file, "/", "format", FORMAT_NAME));
    UF_TRY(uf_hdf5_write_integer(file, "/", "format_version", FORMAT_VERSION));
    for (int64_t i = 0; i < all->count; ++i) {
        UF_TRY(save_piece(file, &all->pieces[i], host, gzip_level));
    }
    for (int32_t i = 0; i < all->part_count; ++i) {
        const uf_checkpoint_part *part = &all->parts[i];
        if (part->kind == UF_CHECKPOINT_OPTIMIZER) {
            char group[UF_NAME_SIZE];
            const uf_optimizer *optimizer = part->data;
            (void)snprintf(group, sizeof group, "%s/%s", kinds[part->kind].group, part->name);
            UF_TRY(uf_hdf5_write_text(file, group, "kind",
                                      optimizer_names[optimizer->rule.kind].kind));
        }
    }
    return UF_OK;
}

static uf_status save(const checkpoint *all, int32_t gzip_level) {
    size_t largest = 1;
    for (int64_t i = 0; i < all->count; ++i) {
        const size_t bytes = piece_bytes(&all->pieces[i]);
        largest = bytes > largest ? bytes : largest;
    }
    void *host = malloc(largest);
    if (host == NULL) {
        return out_of_memory(all);
    }
    uf_hdf5_file file;
    uf_status status = uf_hdf5_create(all->path, &file);
    if (status == UF_OK) {
        status = uf_hdf5_finish(&file, save_all(all, &file, host, gzip_level));
    }
    free(host);
    return status;
}

uf_status uf_checkpoint_save_sized(const char *path, const uf_checkpoint_part *parts,
                                   int32_t part_count, const uf_checkpoint_options *given,
                                   size_t part_size) {
    uf_checkpoint_options options = uf_checkpoint_options_default();
    UF_CHECK_ARG(path != NULL, "uf_checkpoint_save: path is NULL");
    UF_TRY(uf_read_struct("uf_checkpoint_options", given, &options, sizeof options));
    UF_CHECK_ARG(options.gzip_level >= 0 && options.gzip_level <= 9,
                 "uf_checkpoint_options.gzip_level is %" PRId32 "; it must be 0 to 9",
                 options.gzip_level);
    checkpoint all = {.path = path};
    uf_status status = open_parts(&all, parts, part_count, part_size);
    if (status == UF_OK) {
        status = save(&all, options.gzip_level);
    }
    close_parts(&all);
    return status;
}

/* ---- loading ---- */

/* The attribute `name` of the group or root `object`. */
static uf_status read_text_of(uf_h5_file *file, const char *object, const char *name, char *text,
                              size_t size) {
    uf_h5_object owner;
    UF_TRY(uf_h5_find(file, object, &owner));
    return uf_h5_read_text(file, &owner, name, text, size);
}

static uf_status check_format(const checkpoint *all, uf_h5_file *file) {
    char format[32];
    int64_t version = 0;
    bool found = false;
    uf_h5_object root;
    if (read_text_of(file, "", "format", format, sizeof format) != UF_OK ||
        strcmp(format, FORMAT_NAME) != 0) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s is no checkpoint: its root has no attribute format = \"%s\"; "
                "uf_store_load_hdf5 reads weights",
                all->path, FORMAT_NAME);
    }
    UF_TRY(uf_h5_find(file, "", &root));
    UF_TRY(uf_h5_read_integer(file, &root, "format_version", &found, &version));
    if (!found || version < 1 || version > FORMAT_VERSION) {
        UF_FAIL(UF_ERROR_FORMAT, "%s is a checkpoint of format %" PRId64 "; this library reads %d",
                all->path, version, FORMAT_VERSION);
    }
    return UF_OK;
}

static uf_status check_optimizer(uf_h5_file *file, const uf_checkpoint_part *part,
                                 const char *group) {
    char kind[32];
    const uf_optimizer *optimizer = part->data;
    const char *expected = optimizer_names[optimizer->rule.kind].kind;
    UF_TRY(read_text_of(file, group, "kind", kind, sizeof kind));
    if (strcmp(kind, expected) != 0) {
        UF_FAIL(UF_ERROR_FORMAT, "%s in %s is of kind %s, the optimizer here of kind %s", group,
                uf_h5_path(file), kind, expected);
    }
    return UF_OK;
}

/* Has the file tensors of this store that the caller's lacks? Their absence the other way shows
 * when they are read. */
static uf_status check_store(uf_h5_file *file, const uf_checkpoint_part *part, const char *group) {
    const uf_store *store = part->data;
    uf_h5_list list;
    UF_TRY(uf_h5_list_all(file, group, &list));
    uf_status status = UF_OK;
    for (int64_t i = 0; i < list.count && status == UF_OK; ++i) {
        const char *name = list.objects[i].name + strlen(group) + 1;
        if (uf_store_find(store, name) < 0) {
            status = uf_fail(UF_ERROR_SHAPE, "%s in %s has %s, which store \"%s\" has not", group,
                             uf_h5_path(file), name, store->name);
        }
    }
    uf_h5_list_free(&list);
    return status;
}

static uf_status check_parts(const checkpoint *all, uf_h5_file *file) {
    for (int32_t i = 0; i < all->part_count; ++i) {
        char group[UF_NAME_SIZE];
        const uf_checkpoint_part *part = &all->parts[i];
        (void)snprintf(group, sizeof group, "%s/%s", kinds[part->kind].group, part->name);
        if (part->kind == UF_CHECKPOINT_STORE) {
            UF_TRY(check_store(file, part, group));
        } else if (part->kind == UF_CHECKPOINT_OPTIMIZER) {
            UF_TRY(check_optimizer(file, part, group));
        }
    }
    return UF_OK;
}

static uf_status read_text(uf_h5_file *file, piece *one) {
    one->read = malloc((size_t)one->text_room);
    if (one->read == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for %s in %s", one->path,
                uf_h5_path(file));
    }
    return read_text_of(file, kinds[UF_CHECKPOINT_TEXT].group, text_name(one), one->read,
                        (size_t)one->text_room);
}

static uf_status read_piece(uf_h5_file *file, piece *one) {
    char text[128], other[128];
    uf_h5_object object;
    if (one->text_room > 0) {
        return read_text(file, one);
    }
    /* Its shape and type first, before memory for it. */
    UF_TRY(uf_h5_find_dataset(file, one->path, &object));
    if (!uf_shape_equal(&object.shape, &one->tensor.shape)) {
        UF_FAIL(UF_ERROR_SHAPE, "%s is %s in %s, %s here", one->path,
                uf_shape_format(&object.shape, text, sizeof text), uf_h5_path(file),
                uf_shape_format(&one->tensor.shape, other, sizeof other));
    }
    if (strcmp(object.type.name, uf_dtype_name(one->tensor.dtype)) != 0) {
        UF_FAIL(UF_ERROR_SHAPE, "%s is %s in %s, %s here", one->path, object.type.name,
                uf_h5_path(file), uf_dtype_name(one->tensor.dtype));
    }
    UF_TRY(uf_h5_check(file, &object));
    one->read = malloc((size_t)object.bytes);
    if (one->read == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for %s in %s: %" PRId64 " bytes",
                one->path, uf_h5_path(file), object.bytes);
    }
    return uf_h5_read_verified(file, &object, object.type.dtype, true, one->read);
}

static uf_status read_all(checkpoint *all) {
    uf_h5_file *file;
    uf_status status = uf_h5_open(all->path, &file);
    if (status == UF_OK) {
        status = check_format(all, file);
    }
    if (status == UF_OK) {
        status = check_parts(all, file);
    }
    for (int64_t i = 0; i < all->count && status == UF_OK; ++i) {
        status = read_piece(file, &all->pieces[i]);
    }
    uf_h5_close(file);
    return uf_h5_settle(status);
}

static uf_status put_piece(piece *one) {
    if (one->text_room > 0) {
        memcpy(one->tensor.data, one->read, strlen(one->read) + 1);
        return UF_OK;
    }
    if (one->tensor.context != NULL) {
        return uf_tensor_upload(&one->tensor, one->read);
    }
    memcpy(one->tensor.data, one->read, piece_bytes(one));
    return UF_OK;
}

/* A part's own knowledge besides its tensors. */
static uf_status finish_part(const uf_checkpoint_part *part) {
    if (part->kind == UF_CHECKPOINT_STORE) {
        uf_store_changed(part->data);
    } else if (part->kind == UF_CHECKPOINT_OPTIMIZER) {
        uf_optimizer *optimizer = part->data;
        uf_context *context = optimizer->store->context;
        return context->device->download(context, &optimizer->lr, &optimizer->control->lr,
                                         sizeof optimizer->lr);
    }
    return UF_OK;
}

uf_status uf_checkpoint_load_sized(const char *path, const uf_checkpoint_part *parts,
                                   int32_t part_count, size_t part_size) {
    UF_CHECK_ARG(path != NULL, "uf_checkpoint_load: path is NULL");
    checkpoint all = {.path = path};
    uf_status status = open_parts(&all, parts, part_count, part_size);
    if (status == UF_OK) {
        status = read_all(&all);
    }
    for (int64_t i = 0; i < all.count && status == UF_OK; ++i) {
        status = put_piece(&all.pieces[i]);
    }
    for (int32_t i = 0; i < all.part_count && status == UF_OK; ++i) {
        status = finish_part(&all.parts[i]);
    }
    close_parts(&all);
    return status;
}
