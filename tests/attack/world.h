/* world.h - objects of every kind and in every state, for calls with good and bad arguments. */
#ifndef TEST_ATTACK_WORLD_H
#define TEST_ATTACK_WORLD_H

#include <unfurl/unfurl.h>

enum {
    WORLD_MEMORY =
        1 << 16, /* bytes behind every pointer to elements; a call's tensors are far smaller */
    WORLD_ORDERS = 3,
    WORLD_LIMIT = 1 << 26 /* bytes that a context's allocator gives in all */
};

/* Objects that a call made; each is destroyed with the world. */
typedef struct world_made {
    uf_context *context;
    uf_store *store;
    uf_graph *graph;
    uf_program *program;
    uf_model *model;
    uf_optimizer *optimizer;
    uf_ema *ema;
    uf_tensor *tensor;
    uf_picture picture;
    uf_png_writer *writer;
    uf_picture_writer *picture_writer;
    uf_hdf5_entry *entries;
    uf_weights_file *weights;
    uf_profile_row *profile;
} world_made;

typedef struct world {
    size_t used; /* of WORLD_LIMIT */
    int names;   /* that were new */
    uf_context *context, *other_context;
    uf_store *store;   /* sealed, of `graph`; "conv.weight" (4, 4, 3, 3) and others */
    uf_store *open;    /* accepts names; has a parameter "w" (2, 3) and a counter "n" */
    uf_store *foreign; /* of the other context; "w" */
    uf_graph *graph;
    uf_graph *other_graph;   /* of the same context */
    uf_graph *foreign_graph; /* of the other context */
    uf_graph *broken;        /* has an error in it */
    uf_value image;          /* (2, 4, 3, 3), the graph's input "x" */
    uf_value sequence;       /* (2, 4, 5), the graph's input "s" */
    uf_value flat;           /* (2, 6), the graph's input "f" */
    uf_value labels;         /* (2, 3, 3), the graph's input of indices "labels" */
    uf_value filters;        /* (4, 2, 3, 3), the graph's input "w" */
    uf_value matrix;         /* (2, 6), the graph's input "m" */
    uf_value biases;         /* (2), the graph's input "b" */
    uf_value loss;           /* a scalar of the graph */
    uf_value other_value;    /* of `other_graph`, of the image's shape */
    uf_program *program;     /* trains `store`: one pass with external seeds and a gradient of x, an
                                output "y" */
    uf_optimizer *optimizer; /* of `store` */
    uf_store *average;       /* a copy of `store` */
    uf_ema *ema;             /* of both */
    uf_model *model;         /* an input "x" and an output "x", one layer "conv" */
    uf_tensor *tensor;       /* (2, 3), f32 */
    world_made made;
    _Alignas(256) unsigned char memory[8][WORLD_MEMORY];
    _Alignas(256) unsigned char workspace[1 << 20];
} world;

/* Ends the process with a message when anything cannot be made. */
void world_create(world *one);

/* In one of WORLD_ORDERS orders: from the end; graphs and stores before what uses them; the
 * contexts, which destroy what was made from them. */
void world_destroy(world *one, int order);

/* Destroy what calls made so far. */
void world_forget(world *one);

/* A spare object for a call that destroys it. */
uf_context *world_spare_context(world *one);

/* Files in the current folder that calls read: a store's weights, a checkpoint of the store, its
 * optimizer, the program and the average (all "net"), a picture, and the model whose text is
 * WORLD_MODEL_TEXT. */
#define WORLD_MODEL_TEXT                                                                           \
    "unfurl model 1\ninput x f32 (N=2, 4, 3, 3)\n"                                                 \
    "conv = conv2d(x, out_channels=2)\noutput x = conv\n"
#define WORLD_WEIGHTS "weights.h5"
#define WORLD_TENSORS "tensors.h5" /* with metadata */
#define WORLD_KERAS "keras.h5"     /* as Keras 3 would write the world's store */
#define WORLD_CHECKPOINT "checkpoint.h5"
#define WORLD_PICTURE "picture.png"
#define WORLD_MODEL "model.h5"
#define WORLD_NCNN_PARAM "net.param" /* one PReLU, and its slopes */
#define WORLD_NCNN_BIN "net.bin"
void world_write_files(void);

#endif
