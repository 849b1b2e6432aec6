/* hdf5_list.c - which datasets a file holds. */
#include "io/hdf5_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct scan {
    uf_hdf5_file *file;
    uf_hdf5_listing *listing;
    char prefix[UF_NAME_SIZE * 2]; /* the group, with a slash after it; "" for the root */
    uf_status status;              /* the error that ended the visit */
} scan;

static uf_hdf5_dataset *append(uf_hdf5_listing *listing) {
    if (listing->count == listing->capacity) {
        const int64_t capacity = listing->capacity == 0 ? 64 : listing->capacity * 2;
        uf_hdf5_dataset *grown = realloc(listing->datasets, (size_t)capacity * sizeof *grown);
        if (grown == NULL) {
            return NULL;
        }
        listing->datasets = grown;
        listing->capacity = capacity;
    }
    uf_hdf5_dataset *dataset = &listing->datasets[listing->count++];
    memset(dataset, 0, sizeof *dataset);
    return dataset;
}

static uf_status scan_link(scan *state, const char *name, const H5L_info_t *link) {
    uf_hdf5_file *file = state->file;
    uf_hdf5_dataset found;
    memset(&found, 0, sizeof found);
    const int length =
        snprintf(found.entry.name, sizeof found.entry.name, "%s%s", state->prefix, name);
    if (length >= (int)sizeof found.entry.name) {
        /* This also bounds how deep HDF5 recurses into nested groups. */
        UF_FAIL(UF_ERROR_FORMAT, "%s holds a name of %d characters, %zu at most are read: %.60s...",
                file->path, length, sizeof found.entry.name - 1, found.entry.name);
    }
    if (!uf_hdf5_is_name(found.entry.name)) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s holds the name %s, of which a part between slashes is empty, \".\" or \"..\"",
                file->path, found.entry.name);
    }
    file->met_other_file = false;
    const hid_t object = link->type == H5L_TYPE_EXTERNAL
                             ? H5I_INVALID_HID
                             : H5Oopen(file->id, found.entry.name, file->access);
    if (object < 0) {
        if (link->type == H5L_TYPE_HARD) {
            char reason[192];
            UF_FAIL(UF_ERROR_FORMAT, "%s in %s is damaged (HDF5: %s)", found.entry.name, file->path,
                    uf_hdf5_reason(reason, sizeof reason));
        }
        if (link->type == H5L_TYPE_SOFT && !file->met_other_file) {
            return UF_OK; /* a soft link that leads nowhere names nothing */
        }
        found.entry.shape.rank = -1;
        snprintf(found.entry.type, sizeof found.entry.type, "external link");
        snprintf(found.problem, sizeof found.problem,
                 "is a link to another file, which is not followed");
    } else {
        const bool is_dataset = H5Iget_type(object) == H5I_DATASET;
        const uf_status status = is_dataset ? uf_hdf5_describe(file, object, &found) : UF_OK;
        H5Oclose(object);
        if (!is_dataset || status != UF_OK) {
            return status; /* the visit itself enters groups */
        }
    }
    uf_hdf5_dataset *kept = append(state->listing);
    if (kept == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory listing %s", file->path);
    }
    *kept = found;
    return UF_OK;
}

static herr_t on_link(hid_t group, const char *name, const H5L_info_t *link, void *data) {
    (void)group;
    scan *state = data;
    state->status = scan_link(state, name, link);
    return state->status == UF_OK ? 0 : -1;
}

uf_status uf_hdf5_scan(uf_hdf5_file *file, const char *group, uf_hdf5_listing *listing) {
    scan state = {.file = file, .listing = listing, .status = UF_OK};
    char reason[192];
    memset(listing, 0, sizeof *listing);
    group = group == NULL ? "" : group;
    group += strspn(group, "/");
    size_t length = strlen(group);
    while (length > 0 && group[length - 1] == '/') {
        --length;
    }
    UF_CHECK_ARG(length + 2 <= sizeof state.prefix,
                 "the name of a group in %s is longer than %zu characters", file->path,
                 sizeof state.prefix - 2);
    snprintf(state.prefix, sizeof state.prefix, "%.*s", (int)length, group);
    if (length > 0) {
        UF_TRY(uf_hdf5_check_name(file->path, state.prefix));
        state.prefix[length] = '/';
        state.prefix[length + 1] = '\0';
    }
    hid_t id;
    UF_TRY(uf_hdf5_open_object(file, length > 0 ? state.prefix : "/", &id));
    if (id < 0 && length == 0) {
        UF_FAIL(UF_ERROR_FORMAT, "%s is damaged: its root group cannot be opened (HDF5: %s)",
                file->path, uf_hdf5_reason(reason, sizeof reason));
    }
    if (id < 0) {
        UF_FAIL(UF_ERROR_NOT_FOUND, "%s has no group %.*s", file->path, (int)length, group);
    }
    if (H5Iget_type(id) != H5I_GROUP) {
        H5Oclose(id);
        UF_FAIL(UF_ERROR_FORMAT, "%.*s in %s is a dataset, not a group", (int)length, group,
                file->path);
    }
    /* By links, not by objects: a dataset under two names (tied weights) is listed under both. */
    const herr_t visited = H5Lvisit(id, H5_INDEX_NAME, H5_ITER_INC, on_link, &state);
    uf_status status = state.status;
    if (visited < 0 && status == UF_OK) {
        status = uf_fail(UF_ERROR_FORMAT, "%s is damaged: its contents cannot be listed (HDF5: %s)",
                         file->path, uf_hdf5_reason(reason, sizeof reason));
    }
    H5Oclose(id);
    if (status != UF_OK) {
        uf_hdf5_listing_free(listing);
    }
    return status;
}

void uf_hdf5_listing_free(uf_hdf5_listing *listing) {
    free(listing->datasets);
    memset(listing, 0, sizeof *listing);
}

uf_status uf_hdf5_list_sized(const char *path, const char *group, uf_hdf5_entry **entries,
                             int64_t *count, size_t entry_size) {
    UF_CHECK_ARG(entries != NULL && count != NULL, "uf_hdf5_list: entries or count is NULL");
    *entries = NULL;
    *count = 0;
    uf_hdf5_file file;
    uf_hdf5_listing listing;
    UF_TRY(uf_hdf5_open(path, &file));
    const uf_status status = uf_hdf5_close(&file, uf_hdf5_scan(&file, group, &listing));
    if (status != UF_OK) {
        uf_hdf5_listing_free(&listing);
        return status;
    }
    /* One more than needed: an empty file gives an allocation, not NULL. */
    unsigned char *made = calloc((size_t)listing.count + 1, entry_size);
    if (made == NULL) {
        uf_hdf5_listing_free(&listing);
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory listing %s", path);
    }
    for (int64_t i = 0; i < listing.count; ++i) {
        uf_give_struct(&listing.datasets[i].entry, sizeof listing.datasets[i].entry,
                       made + (size_t)i * entry_size, entry_size);
    }
    *entries = (uf_hdf5_entry *)(void *)made;
    *count = listing.count;
    uf_hdf5_listing_free(&listing);
    return UF_OK;
}

void uf_hdf5_list_free(uf_hdf5_entry *entries) {
    free(entries);
}
