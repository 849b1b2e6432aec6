/* safetensors.h - the format of the safetensors library: eight bytes with the length of a header,
 * the header in JSON, and the tensors' bytes.
 *
 * https://github.com/huggingface/safetensors#format
 * {"__metadata__": {"k": "v"}, "main.0.weight": {"dtype": "F32", "shape": [64, 32, 4, 4],
 * "data_offsets": [0, 131072]}, ...}; offsets count from the end of the header. */
#ifndef UF_IO_SAFETENSORS_H
#define UF_IO_SAFETENSORS_H

#include "io/tensor_file.h"

#define UF_SAFETENSORS_LENGTH 8         /* bytes of the length that stands in front */
#define UF_SAFETENSORS_HEADER 100000000 /* bytes of the longest header, as upstream has it */
#define UF_SAFETENSORS_METADATA "__metadata__"

/* A length that could be meant, and the beginning of an object. */
static inline bool uf_safetensors_matches(const uf_file_head *head) {
    return head->count > UF_SAFETENSORS_LENGTH && head->bytes[UF_SAFETENSORS_LENGTH] == '{' &&
           head->bytes[UF_SAFETENSORS_LENGTH - 1] == 0 &&
           head->bytes[UF_SAFETENSORS_LENGTH - 2] == 0;
}

/* A type of elements. */
typedef struct uf_safetensors_type {
    const char *name;  /* in the file */
    const char *type;  /* of a uf_weights_entry */
    int64_t size;      /* bytes of an element */
    uf_dtype dtype;    /* that it is read as */
    const char *holds; /* where it is no number that is read: "truth values" */
} uf_safetensors_type;

/* Every type that the library knows, in the order in which upstream writes them; ended by NULL. */
extern const uf_safetensors_type uf_safetensors_types[];

/* Fill `listing`, in name order, and `metadata` from a header; the tensors' data begin at
 * `data_offset` of a file of `size` bytes. Errors: FORMAT: not such JSON; a name twice; data that
 * overlap, leave holes, reach beyond the file or do not fit a shape. The header is decoded where it
 * stands. The caller frees both lists. */
uf_status uf_safetensors_parse(const char *path, char *header, int64_t length, int64_t size,
                               uf_file_listing *listing, uf_file_attributes *metadata);

#endif
