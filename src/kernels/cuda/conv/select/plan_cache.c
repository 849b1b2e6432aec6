/* plan_cache.c - see select/plan_cache.h. */
#include "kernels/cuda/conv/select/plan_cache.h"

#include <stdlib.h>
#include <string.h>

enum { ADDRESS_BITS = 127 }; /* of an address, that plans may ask for (conv/problem.h) */

static uf_conv_plan_cache_key key_of(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    const uf_view *const views[] = {&args->x, &args->w, &args->y};
    uf_conv_plan_cache_key key;
    memset(&key, 0, sizeof key);
    key.of = uf_conv_key_of(direction, args);
    for (int i = 0; i < 3; ++i) {
        memcpy(key.strides[i], views[i]->stride, sizeof key.strides[i]);
        key.aligned[i] = (int64_t)((uintptr_t)views[i]->data & ADDRESS_BITS);
    }
    key.mode = args->mode;
    key.epilogue = (args->epilogue.scale.data != NULL ? 1 : 0) +
                   (args->epilogue.shift.data != NULL ? 2 : 0) +
                   4 * (int64_t)args->epilogue.activation.kind;
    if (args->variant != NULL) {
        const uf_conv_forced forced = uf_conv_forced_of(args->variant);
        key.forced = (int64_t)forced.variant + 1;
        key.tile = (int64_t)forced.tile + 1;
    }
    return key;
}

/* FNV-1a over the words. */
static uint64_t hash_of(const uf_conv_plan_cache_key *key) {
    int64_t words[sizeof *key / sizeof(int64_t)];
    uint64_t hash = UINT64_C(14695981039346656037);
    memcpy(words, key, sizeof words);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; ++i) {
        hash = (hash ^ (uint64_t)words[i]) * UINT64_C(1099511628211);
    }
    return hash ^ hash >> 32;
}

uf_conv_plan_cache_row *uf_conv_plan_cache_row_of(uf_conv_plan_cache *plan_cache,
                                                  uf_conv_direction direction,
                                                  const uf_conv_kernel_args *args) {
    const uf_conv_plan_cache_key key = key_of(direction, args);
    const uint64_t first = hash_of(&key) & (UF_CONV_PLAN_CACHE_SLOTS - 1);
    uf_conv_plan_cache_row *row = &plan_cache->rows[first];
    /* Two slots for each key, so that two layers that meet do not forget each other in turns. */
    for (uint64_t other = 0; other < 2; ++other) {
        uf_conv_plan_cache_row *here = &plan_cache->rows[first ^ other];
        if (here->plan != NULL && memcmp(&here->key, &key, sizeof key) == 0) {
            return here;
        }
        row = here->plan != NULL ? row : here;
    }
    free(row->plan);
    row->plan = NULL;
    row->key = key;
    return row;
}

/* A vector of the epilogue that is there, or is not. */
static uf_view vector_of(const uf_view *view) {
    const int64_t *e = view->extent;
    uf_view absent;
    memset(&absent, 0, sizeof absent);
    return view->data == NULL
               ? absent
               : uf_view_nchw((void *)(uintptr_t)UF_ALIGNMENT, view->dtype, e[0], e[1], e[2], e[3]);
}

uf_conv_kernel_args uf_conv_plan_cache_args(const uf_conv_kernel_args *args) {
    uf_conv_kernel_args made = *args;
    uf_view *const views[] = {&made.x, &made.w, &made.y};
    for (int i = 0; i < 3; ++i) {
        views[i]->data = (void *)((uintptr_t)views[i]->data & ADDRESS_BITS);
    }
    made.epilogue.scale = vector_of(&args->epilogue.scale);
    made.epilogue.shift = vector_of(&args->epilogue.shift);
    made.epilogue.activation.parameter = 0.0;
    made.workspace = NULL;
    made.workspace_size = 0;
    made.packing = UF_CONV_PACK_IN_CALL;
    made.packed = NULL;
    return made;
}

void uf_conv_plan_cache_keep(uf_conv_plan_cache_row *row, const uf_conv_plan *plan) {
    const size_t count = plan->inner != NULL && plan->inner->loop != NULL ? 2 : 1;
    uf_conv_plan *const kept = malloc(count * sizeof *kept);
    if (kept != NULL) {
        kept[0] = *plan;
        kept[0].inner = NULL;
        if (count == 2) {
            kept[1] = *plan->inner;
            kept[0].inner = &kept[1];
        }
        row->plan = kept;
    }
}

void uf_conv_plan_cache_release(uf_conv_plan_cache *plan_cache) {
    for (int i = 0; i < UF_CONV_PLAN_CACHE_SLOTS; ++i) {
        free(plan_cache->rows[i].plan);
        plan_cache->rows[i].plan = NULL;
    }
}
