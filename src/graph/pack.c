/* pack.c - weights in the form that a convolution's kernel reads, made once for several reads.
 *
 * A program that only runs keeps each form between runs, until a store's version changes: run.c
 * makes it again before the steps, and outside of the recording that replays them. A program that
 * changes its stores makes the forms in every run. There a form that several steps read between two
 * changes of its store is made by the first of them; one that a single step reads stays in scratch.
 */
#include "graph/program.h"

#include <stdlib.h>
#include <string.h>

typedef struct packing {
    uf_program *program;
    uf_index changes; /* store: the number of the newest step that changes it */
    uf_index packs;   /* weight: its newest form */
} packing;

/* Addresses matter to plans of kernels by so many bytes. */
enum { ADDRESS_BYTES = 128 };

static bool same_view(const uf_view *a, const uf_view *b) {
    return a->dtype == b->dtype && memcmp(a->extent, b->extent, sizeof a->extent) == 0 &&
           memcmp(a->stride, b->stride, sizeof a->stride) == 0 &&
           (uintptr_t)a->data % ADDRESS_BYTES == (uintptr_t)b->data % ADDRESS_BYTES;
}

/* Is the packed form of one the other's? A plan depends on nothing else. */
static bool same_form(const uf_conv_kernel_args *a, const uf_conv_kernel_args *b) {
    return same_view(&a->x, &b->x) && same_view(&a->w, &b->w) && same_view(&a->y, &b->y) &&
           memcmp(a->stride, b->stride, sizeof a->stride) == 0 &&
           memcmp(a->padding, b->padding, sizeof a->padding) == 0 &&
           memcmp(a->dilation, b->dilation, sizeof a->dilation) == 0 && a->groups == b->groups &&
           a->math == b->math && a->mode == b->mode &&
           a->epilogue.activation.kind == b->epilogue.activation.kind &&
           (a->epilogue.scale.data == NULL) == (b->epilogue.scale.data == NULL) &&
           (a->epilogue.shift.data == NULL) == (b->epilogue.shift.data == NULL);
}

static size_t packed_bytes(const uf_program *program, uf_conv_direction direction,
                           const uf_conv_kernel_args *args) {
    const struct uf_kernels *kernels = program->context->kernels;
    return direction == UF_CONV_FPROP ? kernels->conv_fprop_packed_bytes(program->context, args)
                                      : kernels->conv_dgrad_packed_bytes(program->context, args);
}

/* The form of these arguments among those of its weight, or -1. */
static int32_t find(const packing *p, const uf_pack *wanted) {
    const uf_pack *packs = p->program->packs;
    int32_t at = (int32_t)uf_index_find(&p->packs, uf_index_address(wanted->weight));
    while (at >= 0 &&
           !(packs[at].changes == wanted->changes && packs[at].direction == wanted->direction &&
             same_form(&packs[at].args, &wanted->args))) {
        at = packs[at].next;
    }
    return at;
}

static uf_status add(packing *p, uf_pack *wanted, int32_t *at) {
    uf_program *program = p->program;
    const uint64_t key = uf_index_address(wanted->weight);
    *at = program->pack_count;
    wanted->next = (int32_t)uf_index_find(&p->packs, key);
    UF_TRY(uf_grow((void **)&program->packs, program->pack_count, &program->pack_capacity,
                   sizeof *program->packs));
    UF_TRY(uf_index_put(&p->packs, key, *at));
    program->packs[program->pack_count++] = *wanted;
    return UF_OK;
}

/* Find or add the form that step `s` reads. */
static uf_status add_reader(packing *p, int32_t s) {
    uf_program *program = p->program;
    uf_step *step = &program->steps[s];
    uf_pack wanted;
    memset(&wanted, 0, sizeof wanted);
    if (!step->node->layer->packed_conv(&step->exec, step->kind == UF_STEP_BACKWARD,
                                        &wanted.direction, &wanted.args)) {
        return UF_OK;
    }
    UF_TRY(uf_conv_check(wanted.direction, &wanted.args));
    /* Some forms are not made by a call that uses them, and so no step can make them for others. */
    wanted.args.packing = program->packs_are_kept ? UF_CONV_PACKED : UF_CONV_PACK_APART;
    const size_t bytes = packed_bytes(program, wanted.direction, &wanted.args);
    if (bytes == 0) {
        return UF_OK;
    }
    int64_t slot;
    UF_TRY(uf_program_slot(program, &step->node->params[0], &slot));
    const uf_store *store = uf_program_store(program, step->node->params[0].store);
    wanted.weight = uf_store_canonical(store, slot);
    wanted.changes = uf_index_find(&p->changes, uf_index_address(store));
    int32_t at = find(p, &wanted);
    if (at < 0) {
        wanted.storage =
            (uf_storage){.size = uf_align_up(bytes), .first = s, .last = s, .persistent = true};
        UF_TRY(add(p, &wanted, &at));
    }
    program->packs[at].readers += 1;
    program->packs[at].storage.last = s;
    step->packed = at;
    return UF_OK;
}

static uf_status find_readers(packing *p) {
    const uf_program *program = p->program;
    for (int32_t s = 0; s < program->step_count; ++s) {
        const uf_step *step = &program->steps[s];
        if (step->removed) {
            continue;
        }
        if (step->kind == UF_STEP_OPTIMIZE) {
            UF_TRY(uf_index_put(&p->changes, uf_index_address(step->optimizer->store), s));
        } else if (step->kind == UF_STEP_AVERAGE) {
            UF_TRY(uf_index_put(&p->changes, uf_index_address(step->ema->average), s));
        }
        if (step->node != NULL && step->node->layer->packed_conv != NULL) {
            UF_TRY(add_reader(p, s));
        }
    }
    return UF_OK;
}

static int larger_first(const void *a, const void *b) {
    const uf_storage *left = *(uf_storage *const *)a;
    const uf_storage *right = *(uf_storage *const *)b;
    if (left->size != right->size) {
        return left->size > right->size ? -1 : 1;
    }
    return left < right ? -1 : left > right;
}

/* Forms that are kept lie side by side, and so do all without reuse; `order` has room for all. */
static uf_status place(uf_program *program, uf_storage **order) {
    int32_t count = 0;
    for (int32_t i = 0; i < program->pack_count; ++i) {
        uf_pack *pack = &program->packs[i];
        if (!program->packs_are_kept && pack->readers == 1) {
            continue; /* in scratch */
        }
        if (program->packs_are_kept || program->plan == UF_PLAN_NO_REUSE) {
            pack->storage.offset = program->packed_size;
            UF_TRY(uf_arena_reach(&pack->storage, &program->packed_size));
        } else {
            order[count++] = &pack->storage;
        }
    }
    qsort(order, (size_t)count, sizeof *order, larger_first);
    return uf_place(order, count, program->step_count, &program->packed_size);
}

static void bind(uf_program *program) {
    for (int32_t s = 0; s < program->step_count; ++s) {
        uf_step *step = &program->steps[s];
        if (step->packed < 0) {
            continue;
        }
        const uf_pack *pack = &program->packs[step->packed];
        if (!program->packs_are_kept && pack->readers == 1) {
            step->packed = -1;
            continue;
        }
        step->exec.packed = (char *)program->packed + pack->storage.offset;
        step->exec.packing = program->packs_are_kept || pack->storage.first != s
                                 ? UF_CONV_PACKED
                                 : UF_CONV_PACK_APART;
    }
}

uf_status uf_program_pack(uf_program *program) {
    if (!program->options->keep_packed_weights) {
        return UF_OK;
    }
    program->packs_are_kept = program->pass_count == 0 && !program->changes_stores;
    packing p = {.program = program};
    uf_status status = find_readers(&p);
    uf_index_free(&p.changes);
    uf_index_free(&p.packs);
    UF_TRY(status);
    uf_storage **order = malloc(((size_t)program->pack_count + 1) * sizeof *order);
    if (order == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a plan of %d packed weights",
                (int)program->pack_count);
    }
    status = place(program, order);
    free(order);
    UF_TRY(status);
    const size_t size = program->packed_size;
    program->packed_size = 0; /* nothing to release yet */
    UF_TRY(uf_context_allocate(program->context, size, UF_MEMORY_DEVICE, &program->packed));
    program->packed_size = size;
    bind(program);
    return UF_OK;
}
