/* object.c - objects by name, and the list of a file's datasets. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/h5/internal.h"

#define MOST_SOFT_LINKS 16 /* that one name leads through, as libhdf5 has it */

/* Where a path leads. */
typedef struct walk {
    uf_h5_file *file;
    uint64_t address; /* of the object so far; UF_H5_NOWHERE: there is none */
    bool is_other_file;
    int soft_links; /* met so far */
} walk;

static uf_status follow(walk *at, const char *path);

/* One step, from the group at->address. */
static uf_status step(walk *at, const char *name, size_t length) {
    uf_h5_file *file = at->file;
    char part[UF_H5_NAME_SIZE];
    uf_h5_group *group = NULL;
    if (length >= sizeof part) {
        at->address = UF_H5_NOWHERE;
        return UF_OK;
    }
    memcpy(part, name, length);
    part[length] = '\0';
    const uf_status status = uf_h5_group_open(file, at->address, &group);
    if (status == UF_ERROR_NOT_FOUND) {
        at->address = UF_H5_NOWHERE;
        return UF_OK;
    }
    UF_TRY(status);
    const uf_h5_link *link = uf_h5_group_find(group, part);
    if (link == NULL || link->target == NULL) {
        at->is_other_file = link != NULL && link->is_other_file;
        at->address = link == NULL ? UF_H5_NOWHERE : link->address;
        if (link != NULL && !link->is_other_file && link->address == UF_H5_NOWHERE) {
            return uf_h5_damaged(file, group->address, "its link %s leads nowhere", part);
        }
        return UF_OK;
    }
    if (++at->soft_links > MOST_SOFT_LINKS) {
        at->address = UF_H5_NOWHERE;
        return UF_OK;
    }
    return follow(at, link->target);
}

/* Along a path from the group at->address, or from the root. Depth: one call for each soft link. */
static uf_status follow(walk *at, const char *path) {
    if (path[0] == '/') {
        at->address = at->file->root;
    }
    for (;;) {
        path += strspn(path, "/");
        const size_t length = strcspn(path, "/");
        if (length == 0 || at->address == UF_H5_NOWHERE) {
            return UF_OK;
        }
        if (length != 1 || path[0] != '.') {
            UF_TRY(step(at, path, length));
        }
        path += length;
    }
}

/* Fill kind and, of a dataset, its type and extents. */
static uf_status describe(uf_h5_file *file, uf_h5_object *object) {
    uf_h5_header header;
    UF_TRY(uf_h5_header_read(file, object->address, &header));
    uf_status status = UF_OK;
    object->shape.rank = -1;
    if (uf_h5_header_find(&header, UF_H5_MESSAGE_LAYOUT) != NULL) {
        status = uf_h5_describe(file, &header, object);
    } else if (uf_h5_is_group(&header)) {
        object->kind = UF_H5_GROUP;
    } else if (uf_h5_header_find(&header, UF_H5_MESSAGE_DATATYPE) != NULL) {
        object->kind = UF_H5_NAMED_TYPE;
    } else {
        status = uf_h5_damaged(file, object->address, "it is no group, no dataset and no type");
    }
    uf_h5_header_free(&header);
    return status;
}

static void describe_other_file(uf_h5_object *object) {
    object->kind = UF_H5_OTHER_FILE;
    object->shape.rank = -1;
    snprintf(object->type.name, sizeof object->type.name, "external link");
    snprintf(object->problem, sizeof object->problem,
             "is a link to another file, which is not followed");
}

static uf_status find(uf_h5_file *file, uf_h5_object *object) {
    walk at = {.file = file, .address = file->root};
    UF_TRY(follow(&at, object->name));
    if (at.is_other_file) {
        describe_other_file(object);
        return UF_OK;
    }
    if (at.address == UF_H5_NOWHERE) {
        UF_FAIL(UF_ERROR_NOT_FOUND, "%s has no object %s", file->path, object->name);
    }
    object->address = at.address;
    return describe(file, object);
}

uf_status uf_h5_find(uf_h5_file *file, const char *name, uf_h5_object *object) {
    memset(object, 0, sizeof *object);
    name += strspn(name, "/");
    const int length = snprintf(object->name, sizeof object->name, "%s", name);
    if (length >= (int)sizeof object->name) {
        UF_FAIL(UF_ERROR_NOT_FOUND, "%s has no object with a name of %d characters", file->path,
                length);
    }
    file->subject = object->name;
    const uf_status status = find(file, object);
    file->subject = "";
    return status;
}

/* ---- lists ---- */

typedef struct scan {
    uf_h5_file *file;
    uf_h5_list *list;
} scan;

static uf_status keep(scan *state, const uf_h5_object *object) {
    uf_h5_list *list = state->list;
    if (list->count == list->capacity) {
        uf_h5_object *grown = uf_h5_grow(list->objects, &list->capacity, sizeof *list->objects);
        if (grown == NULL) {
            return uf_h5_no_memory(state->file, (uint64_t)list->count * sizeof *grown);
        }
        list->objects = grown;
    }
    list->objects[list->count++] = *object;
    return UF_OK;
}

/* Make the whole name of a link of the group whose path is object->name. */
static uf_status append_name(const uf_h5_file *file, const char *name, uf_h5_object *object) {
    const size_t before = strlen(object->name), left = sizeof object->name - before;
    const int length = snprintf(object->name + before, left, "%s%s", before > 0 ? "/" : "", name);
    if ((size_t)length >= left) {
        /* This also bounds how deep scan_group calls itself. */
        UF_FAIL(UF_ERROR_FORMAT,
                "%s holds a name of %zu characters, %zu at most are read: %.60s...", file->path,
                before + (size_t)length, sizeof object->name - 1, object->name);
    }
    if (!uf_file_is_name(object->name)) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s holds the name %s, of which a part between slashes is empty, \".\" or \"..\"",
                file->path, object->name);
    }
    return UF_OK;
}

static uf_status scan_group(scan *state, uf_h5_object *at, uint64_t address);

/* `at` has the link's whole name. */
static uf_status scan_link(scan *state, uf_h5_object *at, uint64_t group, const uf_h5_link *link) {
    uf_h5_file *file = state->file;
    if (link->is_other_file) {
        describe_other_file(at);
        return keep(state, at);
    }
    walk found = {.file = file, .address = link->address};
    if (link->target != NULL) {
        found.address = group;
        found.soft_links = 1;
        UF_TRY(follow(&found, link->target));
    }
    if (found.is_other_file) {
        describe_other_file(at);
        return keep(state, at);
    }
    if (found.address == UF_H5_NOWHERE) {
        /* A soft link that leads nowhere names nothing. */
        return link->target != NULL
                   ? UF_OK
                   : uf_h5_damaged(file, group, "its link %s leads nowhere", link->name);
    }
    at->address = found.address;
    UF_TRY(describe(file, at));
    if (at->kind == UF_H5_DATASET) {
        return keep(state, at);
    }
    return at->kind == UF_H5_GROUP && link->target == NULL ? scan_group(state, at, found.address)
                                                           : UF_OK;
}

/* By links, not by objects: a dataset under two names (tied weights) is listed under both. A group
 * is entered once, under the first of its names. `at` has the group's name, and is used for what is
 * in it. */
static uf_status scan_group(scan *state, uf_h5_object *at, uint64_t address) {
    uf_h5_group *group;
    const size_t length = strlen(at->name);
    UF_TRY(uf_h5_group_open(state->file, address, &group));
    if (group->is_listed) {
        return UF_OK;
    }
    group->is_listed = true;
    for (int64_t i = 0; i < group->count; ++i) {
        memset((char *)at + length, 0, sizeof *at - length);
        UF_TRY(append_name(state->file, group->links[i].name, at));
        UF_TRY(scan_link(state, at, address, &group->links[i]));
    }
    return UF_OK;
}

static uf_status scan_from(scan *state, const char *name, uf_h5_object *at) {
    uf_h5_file *file = state->file;
    walk found = {.file = file, .address = file->root};
    UF_TRY(follow(&found, name));
    if (found.is_other_file) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s needs another file through an external link, which is not followed",
                file->path);
    }
    if (found.address == UF_H5_NOWHERE) {
        UF_FAIL(UF_ERROR_NOT_FOUND, "%s has no group %s", file->path, name);
    }
    at->address = found.address;
    UF_TRY(describe(file, at));
    if (at->kind != UF_H5_GROUP) {
        UF_FAIL(UF_ERROR_FORMAT, "%s in %s is a %s, not a group", name, file->path,
                at->kind == UF_H5_DATASET ? "dataset" : "named type");
    }
    return scan_group(state, at, found.address);
}

uf_status uf_h5_list_all(uf_h5_file *file, const char *group, uf_h5_list *list) {
    uf_h5_object at;
    scan state = {.file = file, .list = list};
    memset(list, 0, sizeof *list);
    memset(&at, 0, sizeof at);
    group += strspn(group, "/");
    size_t length = strlen(group);
    while (length > 0 && group[length - 1] == '/') {
        --length;
    }
    UF_CHECK_ARG(length + 2 <= sizeof at.name,
                 "the name of a group in %s is longer than %zu characters", file->path,
                 sizeof at.name - 2);
    memcpy(at.name, group, length);
    if (length > 0) {
        UF_TRY(uf_file_check_name(file->path, at.name));
    }
    for (int64_t i = 0; i < file->group_count; ++i) {
        file->groups[i]->is_listed = false;
    }
    char name[UF_H5_NAME_SIZE];
    memcpy(name, at.name, sizeof name);
    file->subject = at.name;
    const uf_status status = scan_from(&state, name, &at);
    file->subject = "";
    if (status != UF_OK) {
        uf_h5_list_free(list);
    }
    return status;
}

void uf_h5_list_free(uf_h5_list *list) {
    free(list->objects);
    memset(list, 0, sizeof *list);
}
