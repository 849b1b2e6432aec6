/* ncnn.h - networks of ncnn's as models. docs/ncnn.md lists the layers and says what is refused. */
#ifndef UNFURL_NCNN_H
#define UNFURL_NCNN_H

#include <unfurl/model.h>

UF_BEGIN_DECLS

typedef struct uf_ncnn_options {
    size_t struct_size;
    uf_dtype dtype; /* of the store: UF_F32 (default) or UF_F64 */
    /* (N, C, H, W), or less for inputs of fewer axes, of inputs for which the file's shape is not
     * to be taken; may be NULL. An input for which neither says anything has the channels that its
     * first convolution takes, and 64 rows and columns. */
    const uf_input_shape *input_shapes;
    int32_t input_shape_count;
} uf_ncnn_options;

static inline uf_ncnn_options uf_ncnn_options_default(void) {
    uf_ncnn_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.dtype = UF_F32;
    return options;
}

/* Make a model of ncnn's text file `param` and its file of weights `bin`, f32 or f16. Values have
 * the names of ncnn's blobs, parameters those of its layers; blobs that no layer reads are the
 * outputs. ncnn has no batch axis: the model's first axis is N, and ncnn's axis 0 is the second.
 * Height and width are free where no layer's meaning depends on them. Both files may come from
 * anybody. Destroyed by the caller or with its context. `options` may be NULL; *model is NULL on
 * failure. Errors: NOT_FOUND, IO, FORMAT (with the line), SHAPE (of an input that is not what the
 * network takes), UNSUPPORTED (a layer or an option that unfurl lacks, with its name and line),
 * OUT_OF_MEMORY. */
UF_API UF_NODISCARD uf_status uf_model_load_ncnn(uf_context *context, const char *param,
                                                 const char *bin, const uf_ncnn_options *options,
                                                 uf_model **model);

UF_END_DECLS

#endif
