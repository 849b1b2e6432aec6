/* object.c - the list of what a context owns. */
#include "core/object.h"

#include "core/context.h"

void uf_object_begin(uf_context *context, uf_object *object, uf_object_kind kind,
                     void (*free)(uf_object *object)) {
    *object = (uf_object){
        .next = context->objects,
        .link = &context->objects,
        .references = 1,
        .kind = kind,
        .free = free,
    };
    if (object->next != NULL) {
        object->next->link = &object->next;
    }
    context->objects = object;
}

void uf_object_keep(uf_object *object) {
    object->references += 1;
}

static void unlink_and_free(uf_object *object) {
    *object->link = object->next;
    if (object->next != NULL) {
        object->next->link = object->link;
    }
    object->free(object);
}

void uf_object_release(uf_object *object) {
    if (object != NULL && --object->references == 0) {
        unlink_and_free(object);
    }
}

void uf_objects_free(uf_context *context) {
    /* Each is freed here, in the order of kinds, and not by the last release on the way. */
    for (uf_object *object = context->objects; object != NULL; object = object->next) {
        object->references = INT64_MAX;
    }
    for (int kind = 0; kind < UF_OBJECT_KINDS; ++kind) {
        for (uf_object *object = context->objects, *next = NULL; object != NULL; object = next) {
            next = object->next;
            if ((int)object->kind == kind) {
                unlink_and_free(object);
            }
        }
    }
}
