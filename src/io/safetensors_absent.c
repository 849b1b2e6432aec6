/* safetensors_absent.c - safetensors files in a copy of the library that cannot read them. */
#include "io/safetensors.h"

static uf_status open_file(uf_tensor_file *file, const char *group) {
    (void)group;
    UF_FAIL(UF_ERROR_UNSUPPORTED,
            "%s is a safetensors file, and this copy of unfurl does not read them: it was built "
            "without jansson (UNFURL_SAFETENSORS=ON builds with it)",
            file->path);
}

/* No such file is ever open. */
const uf_file_kind uf_file_safetensors = {
    .format = UF_WEIGHTS_SAFETENSORS,
    .what = "a safetensors file",
    .matches = uf_safetensors_matches,
    .open = open_file,
};
