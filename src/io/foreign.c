/* foreign.c - the one table of formats and names that are not ours. */
#include "io/foreign.h"

#include <fnmatch.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define PYTHON "in Python: "
#define H5PY(datasets) PYTHON "h5py.File(\"weights.h5\", \"w\").update(" datasets ")"
#define EACH_MODULE(condition, call) PYTHON "[" call " for m in model.modules() if " condition "]"
/* Keras stores a convolution, transposed or not, as (height, width, a, b) where PyTorch has (b, a,
 * height, width). */
#define KERAS_REMEDY                                                                               \
    H5PY("{\"main.0.weight\": keras.models.load_model(\"model.keras\").layers[0].get_weights()[0]" \
         ".transpose(3, 2, 0, 1)}")

static const uf_foreign torch_file = {
    "a PyTorch checkpoint",
    H5PY("{k: v.numpy() for k, v in torch.load(\"weights.pth\", map_location=\"cpu\").items()}"),
};
static const uf_foreign torch_script = {
    "a TorchScript module",
    H5PY("{k: v.numpy() for k, v in torch.jit.load(\"weights.pt\", "
         "map_location=\"cpu\").state_dict().items()}"),
};
static const uf_foreign pickle = {
    "a Python pickle",
    H5PY("{k: numpy.asarray(v) for k, v in pickle.load(open(\"weights.pkl\", \"rb\")).items()}"),
};
static const uf_foreign keras_file = {"a Keras file", KERAS_REMEDY};
static const uf_foreign numpy_archive = {
    "a NumPy archive",
    H5PY("numpy.load(\"weights.npz\")"),
};
static const uf_foreign numpy_array = {
    "a NumPy array",
    H5PY("{\"main.0.weight\": numpy.load(\"weight.npy\")}"),
};
static const uf_foreign safetensors_file = {
    "a safetensors file",
    "in C: uf_weights_load reads it; `unfurl convert` makes an HDF5 file of it",
};
static const uf_foreign onnx_file = {
    "an ONNX model",
    H5PY("{t.name: onnx.numpy_helper.to_array(t) for t in "
         "onnx.load(\"model.onnx\").graph.initializer}"),
};

static const uf_foreign ncnn_file = {
    "a network of ncnn's",
    "`unfurl convert NET.param NET.bin MODEL.h5` makes a model file of it",
};

static bool begins_with(const void *head, size_t size, const char *begin, size_t length) {
    return size >= length && memcmp(head, begin, length) == 0;
}

static bool ends_with(const void *text, size_t length, const char *end) {
    const size_t tail = strlen(end);
    return length >= tail && memcmp((const char *)text + length - tail, end, tail) == 0;
}

static uint64_t little_endian(const unsigned char *bytes, int count) {
    uint64_t value = 0;
    while (count-- > 0) {
        value = value << 8 | bytes[count];
    }
    return value;
}

/* Archives differ in the name of their first member. */
static const uf_foreign *zip_file(const unsigned char *head, size_t size) {
    static const struct {
        const char *end;
        const uf_foreign *format;
    } members[] = {
        {".npy", &numpy_archive},          {"metadata.json", &keras_file},
        {"config.json", &keras_file},      {"model.weights.h5", &keras_file},
        {"/data.pkl", &torch_file},        {"/byteorder", &torch_file},
        {"/.format_version", &torch_file}, {"/data/0", &torch_script},
    };
    enum { NAME_LENGTH_AT = 26, NAME_AT = 30 };
    if (size < NAME_AT || little_endian(head + NAME_LENGTH_AT, 2) > size - NAME_AT) {
        return NULL;
    }
    const size_t length = (size_t)little_endian(head + NAME_LENGTH_AT, 2);
    for (size_t i = 0; i < sizeof members / sizeof members[0]; ++i) {
        if (ends_with(head + NAME_AT, length, members[i].end)) {
            return members[i].format;
        }
    }
    return NULL;
}

/* A protocol buffer without magic bytes: the version of the format, then the producer's name, the
 * graph or the operators' versions. */
static bool is_onnx(const unsigned char *head, size_t size) {
    return size >= 4 && head[0] == 0x08 && head[1] >= 1 && head[1] <= 32 &&
           (head[2] == 0x12 || head[2] == 0x3a || head[2] == 0x42);
}

const uf_foreign *uf_foreign_file(const void *head, size_t size) {
    const unsigned char *bytes = head;
    if (begins_with(head, size, "PK\3\4", 4)) {
        return zip_file(bytes, size);
    }
    /* The pickled number with which checkpoints began before PyTorch 1.6; any other pickle. */
    if (begins_with(head, size, "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 14)) {
        return &torch_file;
    }
    if (size >= 2 && bytes[0] == 0x80 && bytes[1] >= 2 && bytes[1] <= 5) {
        return &pickle;
    }
    if (begins_with(head, size, "\x93NUMPY", 6)) {
        return &numpy_array;
    }
    /* The length of a JSON header, and the header. */
    if (size > 8 && bytes[8] == '{' && little_endian(bytes, 8) <= UINT64_C(100000000)) {
        return &safetensors_file;
    }
    if (begins_with(head, size, "7767517\n", 8) || begins_with(head, size, "7767517\r\n", 9)) {
        return &ncnn_file;
    }
    return is_onnx(bytes, size) ? &onnx_file : NULL;
}

static const uf_foreign keras = {"Keras", KERAS_REMEDY "; in C: uf_weights_load_options.keras"};
static const uf_foreign pruning = {
    "torch.nn.utils.prune",
    EACH_MODULE("hasattr(m, \"weight_mask\")", "torch.nn.utils.prune.remove(m, \"weight\")"),
};
static const uf_foreign weight_norm = {
    "torch.nn.utils.weight_norm",
    EACH_MODULE("hasattr(m, \"weight_g\")", "torch.nn.utils.remove_weight_norm(m)"),
};
static const uf_foreign spectral_norm = {
    "torch.nn.utils.spectral_norm",
    EACH_MODULE("hasattr(m, \"weight_u\")", "torch.nn.utils.remove_spectral_norm(m)"),
};
static const uf_foreign parametrization = {
    "torch.nn.utils.parametrize",
    EACH_MODULE("torch.nn.utils.parametrize.is_parametrized(m, \"weight\")",
                "torch.nn.utils.parametrize.remove_parametrizations(m, \"weight\")"),
};

/* Pruning comes before spectral norm: both rename the weight to weight_orig, in the order of names
 * after their other tensors. */
static const struct {
    const char *pattern; /* of fnmatch */
    const uf_foreign *made_by;
} names[] = {
    {"*[./]weight_mask", &pruning},
    {"*[./]weight_g", &weight_norm},
    {"*[./]weight_orig", &spectral_norm},
    {"*[./]parametrizations[./]weight[./]*", &parametrization},
    {"*:0", &keras},
    {"model_weights[./]*", &keras},
    {"layers[./]*[./]vars[./]*", &keras},
};

const uf_foreign *uf_foreign_name(const char *name) {
    for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
        if (fnmatch(names[i].pattern, name, 0) == 0) {
            return names[i].made_by;
        }
    }
    return NULL;
}
