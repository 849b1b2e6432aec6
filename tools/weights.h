/* weights.h - files of weights, as the commands that look into them see them. */
#ifndef UF_TOOLS_WEIGHTS_H
#define UF_TOOLS_WEIGHTS_H

#include <unfurl/unfurl.h>

struct weights_row {
    uf_weights_entry entry; /* is_tensor holds for a tensor of no elements too */
    int64_t index;          /* of the entry in the file */
};

/* An open file, its entries in natural order of their names. */
struct weights {
    const char *path;
    uf_weights_file *file;
    struct weights_row *rows;
    int64_t count;
};

/* Open and list a file. weights_close is right in any case. */
int weights_open(const char *path, bool trust, struct weights *weights);
void weights_close(struct weights *weights);

/* Are a tensor's elements integers? */
bool weights_is_integer(const uf_weights_entry *entry);

/* Memory for a tensor's values as UF_F64 or UF_I64, freed by free(); NULL where it is short. */
void *weights_room(const struct weights_row *row);

/* Read them into this room. */
uf_status weights_fill(const struct weights *weights, const struct weights_row *row, uf_dtype dtype,
                       void *values);

/* The values of a tensor as UF_F64 or UF_I64, freed by free(). */
int weights_read(const struct weights *weights, const struct weights_row *row, uf_dtype dtype,
                 void **values);

/* The rows of the tables of options. */
#define WEIGHTS_TRUST_ROW(type)                                                                    \
    {                                                                                              \
        .kind = OPTION_FLAG, .name = "trust", .help = "read files as from people you trust",       \
        .offset = offsetof(type, trust)                                                            \
    }
#define WEIGHTS_JSON_ROW(type)                                                                     \
    {                                                                                              \
        .kind = OPTION_FLAG, .name = "json", .help = "print the report as JSON",                   \
        .offset = offsetof(type, json)                                                             \
    }

#endif
