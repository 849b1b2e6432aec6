/* init.h - parts of the initialisers that init.c and init_matrix.c share. */
#ifndef UF_TRAIN_INIT_H
#define UF_TRAIN_INIT_H

#include <unfurl/init.h>

#include "core/store.h"

/* The tensor's own slot (an alias leads to what it names), in a sealed store. */
uf_status uf_init_find(const char *function, uf_store *store, const char *name,
                       uf_store_slot **slot);

/* The Philox seed of a tensor. */
uint64_t uf_init_stream(const uf_store *store, const char *name);

/* INVALID_ARGUMENT for a counter. */
uf_status uf_init_check_real(const char *function, const uf_store_slot *slot);

/* SHAPE for a rank below `least`, which `purpose` ("a fan") needs. */
uf_status uf_init_check_rank(const char *function, const uf_store_slot *slot, int32_t least,
                             const char *purpose);

uf_status uf_init_check_gain(const char *function, double gain);

/* The standard deviation of Kaiming's rule for a weight of this shape; `options` may be NULL. */
uf_status uf_init_kaiming_std(const char *function, const uf_shape *shape,
                              const uf_kaiming_options *options, double *std);

/* The norms of `of` over the axes in which it is larger than `slot`. */
uf_status uf_init_norms(uf_store *store, uf_store_slot *slot, const uf_store_slot *of);

/* The tensor's elements, divided by their norm. */
uf_status uf_init_divide_by_norm(uf_store *store, uf_store_slot *slot);

#endif
