/* field.c - the fields that several layers have. */
#include "layers/field.h"

bool uf_field_point(const uf_field_query *query, uf_field *field) {
    *field = (uf_field){1, 1, 0, 0};
    for (int32_t i = 0; i < query->input_count; ++i) {
        const uf_shape *input = &query->inputs[i];
        if ((query->tiled >> i & 1) == 0 && input->rank >= query->back &&
            input->extent[input->rank - query->back] != 1) {
            return false; /* it has an element for each of the whole image */
        }
    }
    return true;
}

uf_field uf_field_window(int64_t kernel, int64_t stride, int64_t padding, int64_t dilation) {
    return (uf_field){1, stride, -padding, (kernel - 1) * dilation - padding};
}

bool uf_field_is_axis(const uf_field_query *query, int64_t axis) {
    const int64_t rank = query->inputs[0].rank;
    return (axis < 0 ? axis + rank : axis) == rank - query->back;
}
