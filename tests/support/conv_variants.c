/* conv_variants.c - see conv_variants.h. */
#include "support/conv_variants.h"

#include <stdio.h>
#include <string.h>

#include "support/test.h"

/* Eight bits for each direction: the types that its main loops take. */
#define UF_CONV_LOOP(id, name, directions, types)                                                  \
    | (unsigned)(types) * (((directions) >> UF_CONV_FPROP & 1U) |                                  \
                           ((directions) >> UF_CONV_DGRAD & 1U) << 8 |                             \
                           ((directions) >> UF_CONV_WGRAD & 1U) << 16)
#define UF_CONV_VARIANT(enumerator, name, least, most, loops) {name, least, most, 0U loops},
static const struct {
    const char *name;
    int least, most; /* compute capabilities */
    unsigned takes;
} rows[] = {
#include "kernels/cuda/conv/registry.def"
};
#undef UF_CONV_VARIANT
#undef UF_CONV_LOOP

static unsigned takes(int64_t row, uf_conv_direction direction) {
    const int shift = direction == UF_CONV_FPROP ? 0 : direction == UF_CONV_DGRAD ? 8 : 16;
    return rows[row].takes >> shift & 0xffU;
}

static bool has(int64_t row, unsigned directions, unsigned types) {
    return ((directions & UF_CONV_FORWARD) != 0 && (takes(row, UF_CONV_FPROP) & types) != 0) ||
           ((directions & UF_CONV_DATA) != 0 && (takes(row, UF_CONV_DGRAD) & types) != 0) ||
           ((directions & UF_CONV_WEIGHTS) != 0 && (takes(row, UF_CONV_WGRAD) & types) != 0);
}

int64_t conv_variants(unsigned directions, unsigned types, const char *names[CONV_VARIANTS]) {
    int64_t count = 0;
    names[count++] = NULL;
    for (int64_t row = 0; row < COUNT_OF(rows); ++row) {
        if (has(row, directions, types)) {
            names[count++] = rows[row].name;
        }
    }
    return count;
}

static int64_t row_of(const char *name) {
    int64_t row = 0;
    while (row < COUNT_OF(rows) && strcmp(rows[row].name, name) != 0) {
        ++row;
    }
    if (row == COUNT_OF(rows)) {
        fail_msg("registry.def has no variant \"%s\"", name);
    }
    return row;
}

bool conv_variant_has(const char *name, unsigned directions, unsigned types) {
    return name == NULL || has(row_of(name), directions, types);
}

bool conv_variant_runs(const char *name, int capability) {
    const int64_t row = name != NULL ? row_of(name) : 0;
    return name == NULL || (rows[row].least <= capability && capability <= rows[row].most);
}

/* A refusal names it. */
int conv_capability(uf_context *context) {
    enum { ELEMENTS = 3, BYTES = ELEMENTS * sizeof(float) };
    static const char words[] = "compute capability ";
    float *memory = test_shared_allocate(BYTES);
    uf_conv2d_args args = uf_conv2d_args_default();
    args.input = uf_view_nchw(memory, UF_F32, 1, 1, 1, 1);
    args.weight = uf_view_nchw(memory + 1, UF_F32, 1, 1, 1, 1);
    args.output = uf_view_nchw(memory + 2, UF_F32, 1, 1, 1, 1);
    args.variant = "none";
    assert_int_equal(uf_conv2d_forward(context, &args), UF_ERROR_UNSUPPORTED);
    const char *at = strstr(uf_last_error(), words);
    int major = 0, minor = 0;
    if (at == NULL || sscanf(at + strlen(words), "%d.%d", &major, &minor) != 2) {
        fail_msg("no compute capability: %s", uf_last_error());
    }
    test_shared_free(memory, BYTES);
    return 10 * major + minor;
}
