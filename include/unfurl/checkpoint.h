/* checkpoint.h - a training's whole state in one HDF5 file, to stop and to go on from. */
#ifndef UNFURL_CHECKPOINT_H
#define UNFURL_CHECKPOINT_H

#include <unfurl/ema.h>
#include <unfurl/optimizer.h>
#include <unfurl/program.h>
#include <unfurl/store.h>

UF_BEGIN_DECLS

typedef enum uf_checkpoint_kind {
    UF_CHECKPOINT_STORE = 0, /* all tensors of a uf_store */
    UF_CHECKPOINT_OPTIMIZER, /* moments, steps and learning rate of a uf_optimizer */
    UF_CHECKPOINT_F64,       /* `count` numbers of type double */
    UF_CHECKPOINT_I64,       /* `count` numbers of type int64_t: steps, the position in the data */
    UF_CHECKPOINT_TEXT,      /* characters up to a 0 within the first `count` */
    UF_CHECKPOINT_PROGRAM,   /* the random step of a uf_program, if it draws */
    UF_CHECKPOINT_EMA        /* the decay of a uf_ema; its average is a store, a part of its own */
} uf_checkpoint_kind;

/* A part of a state. Saving reads what `data` points to, loading overwrites it. Names have at most
 * 63 characters and no slash; parts of one kind have different names, and so have F64 and I64. */
typedef struct uf_checkpoint_part {
    size_t struct_size; /* the same in every part of an array */
    uf_checkpoint_kind kind;
    const char *name; /* borrowed */
    void *data;       /* a uf_store, uf_optimizer, uf_program, uf_ema or the caller's; borrowed */
    int64_t count;    /* of F64, I64 and TEXT */
} uf_checkpoint_part;

static inline uf_checkpoint_part uf_checkpoint_part_of(uf_checkpoint_kind kind, const char *name,
                                                       void *data, int64_t count) {
    uf_checkpoint_part part;
    memset(&part, 0, sizeof part);
    part.struct_size = sizeof part;
    part.kind = kind;
    part.name = name;
    part.data = data;
    part.count = count;
    return part;
}
static inline uf_checkpoint_part uf_checkpoint_store(const char *name, uf_store *store) {
    return uf_checkpoint_part_of(UF_CHECKPOINT_STORE, name, store, 0);
}
static inline uf_checkpoint_part uf_checkpoint_optimizer(const char *name,
                                                         uf_optimizer *optimizer) {
    return uf_checkpoint_part_of(UF_CHECKPOINT_OPTIMIZER, name, optimizer, 0);
}
static inline uf_checkpoint_part uf_checkpoint_program(const char *name, uf_program *program) {
    return uf_checkpoint_part_of(UF_CHECKPOINT_PROGRAM, name, program, 0);
}
static inline uf_checkpoint_part uf_checkpoint_ema(const char *name, uf_ema *ema) {
    return uf_checkpoint_part_of(UF_CHECKPOINT_EMA, name, ema, 0);
}
static inline uf_checkpoint_part uf_checkpoint_f64(const char *name, double *numbers,
                                                   int64_t count) {
    return uf_checkpoint_part_of(UF_CHECKPOINT_F64, name, numbers, count);
}
static inline uf_checkpoint_part uf_checkpoint_i64(const char *name, int64_t *numbers,
                                                   int64_t count) {
    return uf_checkpoint_part_of(UF_CHECKPOINT_I64, name, numbers, count);
}
static inline uf_checkpoint_part uf_checkpoint_text(const char *name, char *text, int64_t count) {
    return uf_checkpoint_part_of(UF_CHECKPOINT_TEXT, name, text, count);
}

typedef struct uf_checkpoint_options {
    size_t struct_size;
    int32_t gzip_level; /* 0: tensors as they are; 1 to 9: in chunks, shuffled and deflated */
} uf_checkpoint_options;

static inline uf_checkpoint_options uf_checkpoint_options_default(void) {
    uf_checkpoint_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    return options;
}

/* Write the parts to `path`, whole or not at all: a temporary file beside it, flushed to disk, then
 * renamed over it. Waits for the runs that are queued, and seals the stores. `options` may be NULL.
 * Between two steps, not within one: gradients are no part of a state. Errors: INVALID_ARGUMENT,
 * NOT_FOUND (no such directory), IO, OUT_OF_MEMORY, DEVICE. */
UF_API UF_NODISCARD uf_status uf_checkpoint_save_sized(const char *path,
                                                       const uf_checkpoint_part *parts,
                                                       int32_t part_count,
                                                       const uf_checkpoint_options *options,
                                                       size_t part_size);
static inline UF_NODISCARD uf_status uf_checkpoint_save(const char *path,
                                                        const uf_checkpoint_part *parts,
                                                        int32_t part_count,
                                                        const uf_checkpoint_options *options) {
    return uf_checkpoint_save_sized(path, parts, part_count, options, sizeof *parts);
}

/* Overwrite the parts with what uf_checkpoint_save wrote of parts of the same kinds and names. The
 * stores have their tensors declared and the optimizers are of the same kind; names, types and
 * shapes must agree, and every tensor with its checksum. Parts of the file that are not named stay
 * in it: a generator can be loaded alone. Everything is read before anything is overwritten; only a
 * failing device leaves a part of it. The options of an optimizer other than its learning rate stay
 * the caller's. Errors: INVALID_ARGUMENT, NOT_FOUND (no such file or part), FORMAT (no checkpoint,
 * a later format, damaged, an optimizer of another kind), SHAPE, IO, OUT_OF_MEMORY, DEVICE. */
UF_API UF_NODISCARD uf_status uf_checkpoint_load_sized(const char *path,
                                                       const uf_checkpoint_part *parts,
                                                       int32_t part_count, size_t part_size);
static inline UF_NODISCARD uf_status uf_checkpoint_load(const char *path,
                                                        const uf_checkpoint_part *parts,
                                                        int32_t part_count) {
    return uf_checkpoint_load_sized(path, parts, part_count, sizeof *parts);
}

UF_END_DECLS

#endif
