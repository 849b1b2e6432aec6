/* loader.h - a load on its way from a file to a store: load.c, load_read.c, load_direct.c, and
 * load_fold.c for weights that are made. */
#ifndef UF_IO_LOADER_H
#define UF_IO_LOADER_H

#include "core/index.h"
#include "core/store.h"
#include "io/fold.h"
#include "io/keras.h"
#include "io/tensor_file.h"

/* A dataset on its way to a tensor. */
typedef struct item {
    char name[UF_NAME_SIZE]; /* in the store; the first member, for loader.names */
    const uf_file_entry *dataset;
    uf_shape shape;     /* in the store; the dataset's, unless its axes are turned */
    uf_keras_turn turn; /* of a Keras file: rank 0, or how its axes are turned */
    int64_t slot;       /* in the store; -1: stays where it is */
    bool part;          /* of a weight that is made, see fold.h: read as f64 */
    void *data;         /* as read, in the tensor's type; owned; NULL where `mapped` will do */
    const void *mapped; /* in the file's type, where it lies in memory until the file is closed */
    bool direct;        /* read when the store is written, see load_direct.c: neither of the two */
} item;

/* Its values, wherever they are. */
static inline const void *item_values(const item *one) {
    return one->data != NULL ? one->data : one->mapped;
}

/* A weight that is made of parts, or one that is constant. */
typedef struct made_weight {
    const uf_fold_form *form;     /* NULL: every element is `value` */
    int64_t parts[UF_FOLD_PARTS]; /* items */
    double value;
    int64_t slot;
    void *data; /* in the tensor's type; owned */
} made_weight;

typedef struct loader {
    uf_store *store;
    const char *path;
    const uf_weights_load_options *options;
    const char *options_name; /* of their struct, for messages */
    uf_tensor_file file;
    item *items;
    int64_t count;
    struct findings *found; /* one for each kind of disagreement */
    int64_t not_numbers;
    uf_index names;    /* of items, where weights may have to be made */
    made_weight *made; /* see uf_loader_make_room */
    int64_t made_count;
    void *piece; /* of load_direct.c; owned */
} loader;

/* Is this item's dataset read? */
bool uf_loader_is_read(const item *one);

/* Read everything into host memory, in the tensors' types; then put it into the store. */
uf_status uf_loader_read_all(loader *load);
uf_status uf_loader_upload_all(loader *load, uf_store *store);

/* Set one->direct: may the values go straight from the file to the tensor, when the store is
 * written? All that the file can be refused for is checked here, and nothing is allocated later. */
uf_status uf_loader_try_direct(loader *load, item *one);

/* Do so. Into a tensor in this process's memory. After an error its values mean nothing. */
uf_status uf_loader_read_direct(loader *load, const item *one, uf_tensor *tensor);

/* After such an error: the tensors of the load are zero, and count as never loaded. Returns
 * `status`, with a sentence that says so. */
uf_status uf_loader_forget(const loader *load, uf_store *store, uf_status status);

/* Both at once, into a store that was declared for this load and that nobody sees. Closes it. */
uf_status uf_loader_fill(loader *load, uf_store *made);

/* A part of a weight by torch.nn.utils.parametrizations, in a store that has it by the names of
 * torch.nn.utils: give it this name. */
void uf_loader_rename(const loader *load, char name[UF_NAME_SIZE]);

/* Is `name` that of a part of a weight that the store has? */
bool uf_loader_is_part(const loader *load, const char *name);

/* Room in load->made for a constant and a weight of parts for each tensor of the store; once. */
uf_status uf_loader_make_room(loader *load);

/* Find the weights that the store has, the file lacks, and its other tensors make; their items are
 * marked as parts. */
uf_status uf_loader_find_folds(loader *load);

/* Make these weights of their parts' data. */
uf_status uf_loader_make_weights(loader *load);

/* Make the items of a Keras file, with their names, shapes and turns. Errors: INVALID_ARGUMENT,
 * STATE (an empty store), NOT_FOUND (no such layer), FORMAT, SHAPE, UNSUPPORTED (padding),
 * OUT_OF_MEMORY. */
uf_status uf_loader_name_keras(loader *load, const uf_keras_mapping *mapping);

#endif
