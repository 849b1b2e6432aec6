/* object.h - what a context owns: stores, graphs, programs, optimizers and tensors.
 *
 * An object counts who needs it: the user, until he destroys it, and other objects, as a program
 * needs its graph. So objects may be destroyed in any order. Destroying the context frees whatever
 * is left. */
#ifndef UF_CORE_OBJECT_H
#define UF_CORE_OBJECT_H

#include <stdint.h>

#include <unfurl/context.h>

/* In the order of need: an object refers to objects of later kinds alone. */
typedef enum uf_object_kind {
    UF_OBJECT_PROGRAM = 0,
    UF_OBJECT_MODEL,
    UF_OBJECT_GRAPH,
    UF_OBJECT_OPTIMIZER,
    UF_OBJECT_STORE,
    UF_OBJECT_TENSOR,
    UF_OBJECT_KINDS
} uf_object_kind;

/* The first member of whatever a context owns. */
typedef struct uf_object {
    struct uf_object *next, **link; /* the context's list, newest first; *link is this object */
    int64_t references;
    uf_object_kind kind;
    void (*free)(struct uf_object *object); /* releases what the object needs, and its memory */
} uf_object;

/* Add a new object to the context's list, with the user's reference. */
void uf_object_begin(uf_context *context, uf_object *object, uf_object_kind kind,
                     void (*free)(uf_object *object));

void uf_object_keep(uf_object *object);

/* Give back one reference; the last one frees. NULL is legal. */
void uf_object_release(uf_object *object);

/* Free every object of a context, whoever still refers to it. */
void uf_objects_free(uf_context *context);

#endif
