/* keras_config.c - padding="same" in the configuration of a Keras network, which Model.save writes
 * as JSON: objects of a class_name and a config stand in each other, one for each layer and model.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "io/json_text.h"
#include "io/keras.h"

enum { MOST_DEPTH = 64, MOST_SIZE = 1 << 20 };

/* The members of an object that say how a layer pads. */
typedef struct config {
    const char *name, *padding;
    int64_t window[2], stride[2], dilation[2];
} config;

typedef struct reader {
    uf_json_text json;
    const char *path;
    int depth;
} reader;

/* ---- what padding="same" is ---- */

/* A transposed convolution loses window - stride rows; a convolution gets as many, of an image
 * whose size is a multiple of the stride. The odd one is behind. */
static uf_status check_axis(const reader *from, const config *layer, bool transposed, int axis) {
    const int64_t stride = layer->stride[axis];
    const int64_t window = (layer->window[axis] - 1) * layer->dilation[axis] + 1;
    const int64_t total = window > stride ? window - stride : 0;
    const int64_t less = total / 2, more = total - less;
    const char *name = layer->name != NULL ? layer->name : "a convolution";
    if (transposed && less != more) {
        UF_FAIL(UF_ERROR_UNSUPPORTED,
                "%s: %.64s pads by \"same\", which takes %" PRId64 " rows in front and %" PRId64
                " behind; closest are padding %" PRId64 " with output_padding 1, which takes them "
                "the other way round, and padding %" PRId64 " with the last row cut off, which is "
                "the same: uf_keras_mapping.same_padding says that the graph has it",
                from->path, name, less, more, more, less);
    }
    if (!transposed && (less != more || stride > 1)) {
        UF_FAIL(UF_ERROR_UNSUPPORTED,
                "%s: %.64s pads by \"same\", which adds %" PRId64 " rows in front and %" PRId64
                " behind%s; closest are padding %" PRId64 ", and uf_pad2d by these before a "
                "convolution without padding, which is the same: uf_keras_mapping.same_padding "
                "says that the graph has it",
                from->path, name, less, more,
                stride > 1 ? " where the size is a multiple of the stride" : "", more);
    }
    return UF_OK;
}

static uf_status check_layer(const reader *from, const char *class_name, const config *layer) {
    static const struct {
        const char *name;
        bool transposed;
    } convolutions[] = {{"Conv1D", false},          {"Conv2D", false},
                        {"DepthwiseConv2D", false}, {"SeparableConv2D", false},
                        {"Conv1DTranspose", true},  {"Conv2DTranspose", true}};
    if (class_name == NULL || layer->padding == NULL || strcmp(layer->padding, "same") != 0) {
        return UF_OK;
    }
    for (size_t i = 0; i < sizeof convolutions / sizeof convolutions[0]; ++i) {
        for (int axis = 0; axis < 2 && strcmp(class_name, convolutions[i].name) == 0; ++axis) {
            UF_TRY(check_axis(from, layer, convolutions[i].transposed, axis));
        }
    }
    return UF_OK;
}

/* ---- JSON ---- */

static uf_status refuse(const reader *from, const char *problem) {
    UF_FAIL(UF_ERROR_FORMAT, "%s: byte %td of its model_config %s", from->path,
            from->json.at - from->json.begin, problem);
}

static bool comes(reader *from, char c) {
    uf_json_skip_space(&from->json);
    return from->json.at < from->json.end && *from->json.at == c;
}

static uf_status take_text(reader *from, char **text) {
    const char *problem = uf_json_string(&from->json, text);
    return problem != NULL ? refuse(from, problem) : UF_OK;
}

/* A number, true, false or null. A size of a window is a count within reason; others leave
 * *count. */
static uf_status take_word(reader *from, int64_t *count) {
    uf_json_skip_space(&from->json);
    char *begin = from->json.at, *end = begin;
    while (end < from->json.end && memchr(" \t\r\n,:[]{}\"", *end, 11) == NULL) {
        ++end;
    }
    if (end == begin) {
        return refuse(from, "begins no value");
    }
    int64_t value = 0;
    if (uf_json_count(&from->json, &value) == NULL && from->json.at == end && value >= 1 &&
        value <= MOST_SIZE && count != NULL) {
        *count = value;
    }
    from->json.at = end;
    return UF_OK;
}

static uf_status walk(reader *from, config *own, int64_t pair[2]);

/* Where a member of an object goes; NULL: nowhere. */
static int64_t *pair_of(config *own, const char *key) {
    return strcmp(key, "kernel_size") == 0     ? own->window
           : strcmp(key, "strides") == 0       ? own->stride
           : strcmp(key, "dilation_rate") == 0 ? own->dilation
                                               : NULL;
}

/* One member. *class_name and *layer are those of the object that it belongs to. */
static uf_status walk_member(reader *from, config *own, char **class_name, config *layer) {
    char *key, *text = NULL;
    UF_TRY(take_text(from, &key));
    if (!uf_json_take(&from->json, ':')) {
        return refuse(from, "should be a colon");
    }
    if (!comes(from, '"')) {
        config other = {0};
        return walk(from, strcmp(key, "config") == 0 ? layer : &other, pair_of(own, key));
    }
    UF_TRY(take_text(from, &text));
    if (strcmp(key, "class_name") == 0) {
        *class_name = text;
    } else if (strcmp(key, "name") == 0) {
        own->name = text;
    } else if (strcmp(key, "padding") == 0) {
        own->padding = text;
    }
    return UF_OK;
}

static uf_status walk_object(reader *from, config *own) {
    char *class_name = NULL;
    config layer = {.window = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}};
    if (uf_json_take(&from->json, '}')) {
        return UF_OK;
    }
    do {
        UF_TRY(walk_member(from, own, &class_name, &layer));
    } while (uf_json_take(&from->json, ','));
    if (!uf_json_take(&from->json, '}')) {
        return refuse(from, "should be the end of an object");
    }
    return check_layer(from, class_name, &layer);
}

static uf_status walk_array(reader *from, int64_t pair[2]) {
    config other = {0};
    if (uf_json_take(&from->json, ']')) {
        return UF_OK;
    }
    for (int at = 0; at == 0 || uf_json_take(&from->json, ','); at += at < 2) {
        int64_t both[2] = {0, 0};
        UF_TRY(walk(from, &other, both));
        if (pair != NULL && at < 2 && both[0] > 0) {
            pair[at] = both[0];
        }
    }
    return uf_json_take(&from->json, ']') ? UF_OK : refuse(from, "should be the end of an array");
}

/* Any value: the members of an object go to `own`, and a count, which stands for both axes, or an
 * array of counts to `pair`, which may be NULL. */
static uf_status walk(reader *from, config *own, int64_t pair[2]) {
    char *text;
    int64_t count = 0;
    uf_status status;
    if (++from->depth > MOST_DEPTH) {
        return refuse(from, "is nested too deep");
    }
    if (comes(from, '"')) {
        status = take_text(from, &text);
    } else if (uf_json_take(&from->json, '{')) {
        status = walk_object(from, own);
    } else if (uf_json_take(&from->json, '[')) {
        status = walk_array(from, pair);
    } else {
        status = take_word(from, &count);
    }
    if (pair != NULL && count > 0) {
        pair[0] = pair[1] = count;
    }
    --from->depth;
    return status;
}

uf_status uf_keras_check_padding(char *text, const char *path) {
    config none = {0};
    reader from = {.json = {.begin = text, .at = text, .end = text + strlen(text)}, .path = path};
    UF_TRY(walk(&from, &none, NULL));
    uf_json_skip_space(&from.json);
    return from.json.at == from.json.end ? UF_OK : refuse(&from, "is behind the end");
}
