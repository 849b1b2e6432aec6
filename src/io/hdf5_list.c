/* hdf5_list.c - which datasets a file holds.
 *
 * Groups are visited here and not by H5Lvisit. In name order libhdf5 builds a table of a group's
 * links, and frees entries that it never filled when the file is damaged. In native order there is
 * no table, so the sort is ours. H5Lvisit also trusts the file's count of a group's names to find
 * cycles. */
#include "io/hdf5_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One link of a group. */
typedef struct named {
    char *name; /* owned */
    H5L_type_t type;
} named;

/* The links of a group. */
typedef struct links {
    named *each;
    size_t count, capacity;
    bool out_of_memory, too_many;
    int64_t *left; /* how many more the file has room for */
} links;

typedef struct scan {
    uf_hdf5_file *file;
    uf_hdf5_listing *listing;
    haddr_t *groups; /* addresses of those that were entered, ascending */
    size_t group_count, group_capacity;
    int64_t links_left;
} scan;

static uf_status keep(scan *state, const uf_hdf5_dataset *found) {
    uf_hdf5_dataset *kept = uf_file_listing_append(state->listing);
    if (kept == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory listing %s", state->file->path);
    }
    *kept = *found;
    return UF_OK;
}

/* List a link that could not be opened as what it stands for. */
static uf_status keep_unopened(scan *state, H5L_type_t type, uf_hdf5_dataset *found) {
    const uf_hdf5_file *file = state->file;
    if (type == H5L_TYPE_HARD) {
        char reason[192];
        UF_FAIL(UF_ERROR_FORMAT, "%s in %s is damaged (HDF5: %s)", found->entry.name, file->path,
                uf_hdf5_reason(reason, sizeof reason));
    }
    if (type == H5L_TYPE_SOFT && !file->met_other_file) {
        return UF_OK; /* a soft link that leads nowhere names nothing */
    }
    found->entry.shape.rank = -1;
    snprintf(found->entry.type, sizeof found->entry.type, "external link");
    snprintf(found->problem, sizeof found->problem,
             "is a link to another file, which is not followed");
    return keep(state, found);
}

static uf_status scan_group(scan *state, hid_t group, const char *path);

static uf_status scan_link(scan *state, hid_t group, const char *prefix, const named *link) {
    uf_hdf5_file *file = state->file;
    uf_hdf5_dataset found;
    memset(&found, 0, sizeof found);
    const int length =
        snprintf(found.entry.name, sizeof found.entry.name, "%s%s", prefix, link->name);
    if (length >= (int)sizeof found.entry.name) {
        /* This also bounds how deep scan_group calls itself. */
        UF_FAIL(UF_ERROR_FORMAT, "%s holds a name of %d characters, %zu at most are read: %.60s...",
                file->path, length, sizeof found.entry.name - 1, found.entry.name);
    }
    if (!uf_file_is_name(found.entry.name)) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s holds the name %s, of which a part between slashes is empty, \".\" or \"..\"",
                file->path, found.entry.name);
    }
    file->met_other_file = false;
    const hid_t object = link->type == H5L_TYPE_EXTERNAL ? H5I_INVALID_HID
                                                         : H5Oopen(group, link->name, file->access);
    if (object < 0) {
        return keep_unopened(state, link->type, &found);
    }
    const H5I_type_t kind = H5Iget_type(object);
    uf_status status = UF_OK;
    if (kind == H5I_DATASET) {
        status = uf_hdf5_describe(file, object, &found);
        found.has_checksum = status == UF_OK && uf_hdf5_has_checksum(object);
        if (status == UF_OK) {
            status = keep(state, &found);
        }
    } else if (kind == H5I_GROUP && link->type == H5L_TYPE_HARD) {
        status = scan_group(state, object, found.entry.name);
    }
    H5Oclose(object);
    return status;
}

static herr_t on_link(hid_t group, const char *name, const H5L_info_t *link, void *data) {
    (void)group;
    links *to = data;
    if (--*to->left < 0) {
        to->too_many = true;
        return -1;
    }
    if (to->count == to->capacity) {
        const size_t capacity = to->capacity == 0 ? 16 : to->capacity * 2;
        named *grown = realloc(to->each, capacity * sizeof *grown);
        if (grown == NULL) {
            to->out_of_memory = true;
            return -1;
        }
        to->each = grown;
        to->capacity = capacity;
    }
    char *copy = strdup(name);
    if (copy == NULL) {
        to->out_of_memory = true;
        return -1;
    }
    to->each[to->count++] = (named){.name = copy, .type = link->type};
    return 0;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const named *)a)->name, ((const named *)b)->name);
}

/* Gather the links of a group, in name order. */
static uf_status gather(const scan *state, hid_t group, links *to) {
    const char *path = state->file->path;
    hsize_t from = 0;
    if (H5Literate(group, H5_INDEX_NAME, H5_ITER_NATIVE, &from, on_link, to) < 0) {
        char reason[192];
        if (to->out_of_memory) {
            UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory listing %s", path);
        }
        if (to->too_many) {
            UF_FAIL(UF_ERROR_FORMAT,
                    "%s is damaged: its groups hold more names than its %" PRId64 " bytes", path,
                    state->file->size);
        }
        UF_FAIL(UF_ERROR_FORMAT, "%s is damaged: its contents cannot be listed (HDF5: %s)", path,
                uf_hdf5_reason(reason, sizeof reason));
    }
    if (to->count > 0) {
        qsort(to->each, to->count, sizeof *to->each, by_name);
    }
    return UF_OK;
}

/* Note that a group is entered; *first is false when it was before, under whatever name. */
static uf_status enter_group(scan *state, hid_t group, bool *first) {
    H5O_info_t info;
    if (H5Oget_info2(group, &info, H5O_INFO_BASIC) < 0) {
        char reason[192];
        UF_FAIL(UF_ERROR_FORMAT, "%s is damaged: its contents cannot be listed (HDF5: %s)",
                state->file->path, uf_hdf5_reason(reason, sizeof reason));
    }
    size_t low = 0, high = state->group_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (state->groups[middle] < info.addr) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *first = low == state->group_count || state->groups[low] != info.addr;
    if (!*first) {
        return UF_OK;
    }
    if (state->group_count == state->group_capacity) {
        const size_t capacity = state->group_capacity == 0 ? 16 : state->group_capacity * 2;
        haddr_t *grown = realloc(state->groups, capacity * sizeof *grown);
        if (grown == NULL) {
            UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory listing %s", state->file->path);
        }
        state->groups = grown;
        state->group_capacity = capacity;
    }
    memmove(state->groups + low + 1, state->groups + low,
            (state->group_count - low) * sizeof *state->groups);
    state->groups[low] = info.addr;
    state->group_count += 1;
    return UF_OK;
}

/* List what is under a group of this path ("" for the root). By links, not by objects: a dataset
 * under two names (tied weights) is listed under both. A group is entered once, under the first of
 * its names. */
static uf_status scan_group(scan *state, hid_t group, const char *path) {
    char prefix[UF_NAME_SIZE * 2 + 1];
    links here = {.left = &state->links_left};
    bool first = false;
    UF_TRY(enter_group(state, group, &first));
    if (!first) {
        return UF_OK;
    }
    snprintf(prefix, sizeof prefix, "%s%s", path, path[0] != '\0' ? "/" : "");
    uf_status status = gather(state, group, &here);
    for (size_t i = 0; i < here.count; ++i) {
        if (status == UF_OK) {
            status = scan_link(state, group, prefix, &here.each[i]);
        }
        free(here.each[i].name);
    }
    free(here.each);
    return status;
}

uf_status uf_hdf5_scan(uf_hdf5_file *file, const char *group, uf_hdf5_listing *listing) {
    /* A link takes more than a byte. */
    scan state = {.file = file, .listing = listing, .links_left = file->size};
    char path[UF_NAME_SIZE * 2], reason[192];
    memset(listing, 0, sizeof *listing);
    group = group == NULL ? "" : group;
    group += strspn(group, "/");
    size_t length = strlen(group);
    while (length > 0 && group[length - 1] == '/') {
        --length;
    }
    UF_CHECK_ARG(length + 2 <= sizeof path,
                 "the name of a group in %s is longer than %zu characters", file->path,
                 sizeof path - 2);
    snprintf(path, sizeof path, "%.*s", (int)length, group);
    if (length > 0) {
        UF_TRY(uf_file_check_name(file->path, path));
    }
    hid_t id;
    UF_TRY(uf_hdf5_open_object(file, length > 0 ? path : "/", &id));
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
    const uf_status status = scan_group(&state, id, path);
    free(state.groups);
    H5Oclose(id);
    if (status != UF_OK) {
        uf_file_listing_free(listing);
    }
    return status;
}

uf_status uf_hdf5_list_sized(const char *path, const char *group, uf_hdf5_entry **entries,
                             int64_t *count, size_t entry_size) {
    UF_CHECK_ARG(entries != NULL && count != NULL, "uf_hdf5_list: entries or count is NULL");
    *entries = NULL;
    *count = 0;
    uf_tensor_file file;
    UF_TRY(uf_tensor_file_open(path, UF_WEIGHTS_HDF5, group, true, &file));
    const uf_file_listing listing = file.listing;
    /* One more than needed: an empty file gives an allocation, not NULL. */
    unsigned char *made = calloc((size_t)listing.count + 1, entry_size);
    if (made == NULL) {
        uf_tensor_file_close(&file);
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory listing %s", path);
    }
    for (int64_t i = 0; i < listing.count; ++i) {
        uf_give_struct(&listing.datasets[i].entry, sizeof listing.datasets[i].entry,
                       made + (size_t)i * entry_size, entry_size);
    }
    *entries = (uf_hdf5_entry *)(void *)made;
    *count = listing.count;
    uf_tensor_file_close(&file);
    return UF_OK;
}

void uf_hdf5_list_free(uf_hdf5_entry *entries) {
    free(entries);
}
