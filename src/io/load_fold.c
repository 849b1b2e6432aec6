/* load_fold.c - weights that a store has and a file lacks, made of what it has in their place. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/loader.h"

enum { TAIL = sizeof "weight" - 1 };

void uf_loader_rename(const loader *load, char name[UF_NAME_SIZE]) {
    const size_t length = strlen(name);
    for (int form = UF_FOLD_KINDS; form < UF_FOLD_FORMS; ++form) {
        const uf_fold_form *modern = &uf_fold_forms[form];
        for (int i = 0; i < UF_FOLD_PARTS && modern->parts[i] != NULL; ++i) {
            char whole[2 * UF_NAME_SIZE];
            const size_t tail = strlen(modern->parts[i]);
            if (length < tail || strcmp(name + length - tail, modern->parts[i]) != 0 ||
                (length > tail && name[length - tail - 1] != '.')) {
                continue;
            }
            const int needed = snprintf(whole, sizeof whole, "%.*s%s", (int)(length - tail), name,
                                        uf_fold_forms[form - UF_FOLD_KINDS].parts[i]);
            if (needed < UF_NAME_SIZE && uf_store_find(load->store, whole) >= 0) {
                memcpy(name, whole, (size_t)needed + 1);
                return;
            }
        }
    }
}

bool uf_loader_is_part(const loader *load, const char *name) {
    const size_t length = strlen(name);
    for (int form = 0; form < UF_FOLD_FORMS; ++form) {
        for (int i = 0; i < UF_FOLD_PARTS && uf_fold_forms[form].parts[i] != NULL; ++i) {
            char whole[2 * UF_NAME_SIZE];
            const char *part = uf_fold_forms[form].parts[i];
            const size_t tail = strlen(part);
            const size_t stem = length >= tail ? length - tail : 0;
            if (strcmp(name + stem, part) != 0 || (stem > 0 && name[stem - 1] != '.')) {
                continue;
            }
            const int needed = snprintf(whole, sizeof whole, "%.*sweight", (int)stem, name);
            if (needed < (int)sizeof whole && uf_store_find(load->store, whole) >= 0) {
                return true;
            }
        }
    }
    return false;
}

/* The item of this name that holds numbers and that the store has no tensor for; -1: none. */
static int64_t find_part(const loader *load, const char *name, size_t stem, const char *part) {
    char whole[2 * UF_NAME_SIZE];
    snprintf(whole, sizeof whole, "%.*s%s", (int)stem, name, part);
    const int64_t at = uf_index_find_name(&load->names, load->items, sizeof *load->items, whole);
    const bool fits = at >= 0 && load->items[at].dataset->entry.is_tensor &&
                      load->items[at].dataset->dtype != UF_I64 &&
                      uf_store_find(load->store, whole) < 0;
    return fits ? at : -1;
}

/* Note that tensor `slot`, a weight that the file lacks, is made of what it has in its place. */
static void find_fold(loader *load, int64_t slot) {
    const uf_store_slot *wanted = &load->store->slots[slot];
    const size_t length = strlen(wanted->name);
    const size_t stem = length > TAIL ? length - TAIL : 0;
    if (strcmp(wanted->name + stem, "weight") != 0 || (stem > 0 && wanted->name[stem - 1] != '.') ||
        wanted->role == UF_ROLE_COUNTER) {
        return;
    }
    for (int form = 0; form < UF_FOLD_FORMS; ++form) {
        made_weight *made = &load->made[load->made_count];
        bool whole = true;
        made->form = &uf_fold_forms[form];
        made->slot = slot;
        for (int i = 0; i < UF_FOLD_PARTS && made->form->parts[i] != NULL; ++i) {
            made->parts[i] = find_part(load, wanted->name, stem, made->form->parts[i]);
            whole = whole && made->parts[i] >= 0;
        }
        if (!whole ||
            !uf_shape_equal(&wanted->shape, &load->items[made->parts[0]].dataset->entry.shape)) {
            continue;
        }
        for (int i = 0; i < UF_FOLD_PARTS && made->form->parts[i] != NULL; ++i) {
            load->items[made->parts[i]].part = true;
        }
        load->made_count += 1;
        return;
    }
}

uf_status uf_loader_make_room(loader *load) {
    if (load->made == NULL) {
        load->made = calloc(2 * (size_t)load->store->count + 1, sizeof *load->made);
    }
    if (load->made == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory loading %s", load->path);
    }
    return UF_OK;
}

uf_status uf_loader_find_folds(loader *load) {
    UF_TRY(uf_loader_make_room(load));
    for (int64_t i = 0; i < load->count; ++i) {
        UF_TRY(uf_index_add_name(&load->names, load->items[i].name, i));
    }
    for (int64_t i = 0; i < load->store->count; ++i) {
        const char *name = load->store->slots[i].name;
        if (uf_index_find_name(&load->names, load->items, sizeof *load->items, name) < 0) {
            find_fold(load, i);
        }
    }
    return UF_OK;
}

/* In f64. */
static uf_status compute_weight(const loader *load, const made_weight *made, double *weight) {
    const uf_store_slot *slot = &load->store->slots[made->slot];
    uf_fold fold = {.form = made->form};
    if (made->form == NULL) {
        for (int64_t i = 0; i < uf_shape_count(&slot->shape); ++i) {
            weight[i] = made->value;
        }
        return UF_OK;
    }
    for (int i = 0; i < UF_FOLD_PARTS && made->form->parts[i] != NULL; ++i) {
        const item *part = &load->items[made->parts[i]];
        fold.shapes[i] = &part->dataset->entry.shape;
        fold.values[i] = item_values(part);
    }
    return uf_fold_weight(&fold, slot->name, weight);
}

static uf_status make_weight(const loader *load, made_weight *made) {
    const uf_store_slot *slot = &load->store->slots[made->slot];
    const int64_t count = uf_shape_count(&slot->shape);
    const size_t size = uf_dtype_size(load->store->dtype);
    double *weight = calloc((size_t)count + 1, sizeof *weight);
    made->data = calloc((size_t)count + 1, size);
    uf_status status = UF_OK;
    if (weight == NULL || made->data == NULL) {
        status = uf_fail(UF_ERROR_OUT_OF_MEMORY, "out of host memory for %s", slot->name);
    }
    if (status == UF_OK) {
        status = compute_weight(load, made, weight);
    }
    if (status == UF_OK) {
        uf_convert(made->data, load->store->dtype, weight, UF_F64, count);
    }
    free(weight);
    return status;
}

uf_status uf_loader_make_weights(loader *load) {
    for (int64_t i = 0; i < load->made_count; ++i) {
        UF_TRY(make_weight(load, &load->made[i]));
    }
    return UF_OK;
}
