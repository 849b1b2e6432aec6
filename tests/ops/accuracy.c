/* accuracy.c - see accuracy.h. */
#include "ops/accuracy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const direction_names[DIRECTIONS] = {"fprop", "dgrad", "wgrad"};

int64_t variants_there_are(const char *names[CONV_VARIANTS]) {
    static const char *const cpu[] = {NULL, "gemm", "gather", "direct"};
    if (test_on_gpu()) {
        /* One that this build lacks refuses, as one does that does not take the arguments. */
        return conv_variants(CONV_ANY_DIRECTION, UF_CONV_F32, names);
    }
    memcpy(names, cpu, sizeof cpu);
    return COUNT_OF(cpu);
}

const char *variant_label(const char *variant) {
    return variant != NULL ? variant : "chosen";
}

tensor written_by(direction which) {
    return which == FPROP ? Y : which == DGRAD ? X : W;
}

void read_by(direction which, tensor *first, tensor *second) {
    *first = which == DGRAD ? Y : X;
    *second = which == WGRAD ? Y : W;
}

static int64_t large_extent(const shape *of, int64_t small) {
    return (small - 1) * of->stride - 2 * of->padding + of->dilation * (of->kernel - 1) + 1 +
           of->extra;
}

static int64_t most_products(const tensors *all) {
    const shape *of = all->of;
    const int64_t taps = of->kernel * of->kernel;
    const int64_t wide = (of->c > of->k ? of->c : of->k) / of->groups * taps;
    const int64_t pixels = of->n * of->p * of->q;
    return wide > pixels ? wide : pixels;
}

tensors tensors_create(uf_context *context, const shape *of) {
    tensors all;
    memset(&all, 0, sizeof all);
    all.of = of;
    const int64_t extent[TENSORS][4] = {
        {of->n, of->c, large_extent(of, of->p), large_extent(of, of->q)},
        {of->k, of->c / of->groups, of->kernel, of->kernel},
        {of->n, of->k, of->p, of->q},
    };
    memcpy(all.extent, extent, sizeof extent);
    for (int t = 0; t < TENSORS; ++t) {
        all.count[t] = extent[t][0] * extent[t][1] * extent[t][2] * extent[t][3];
        all.host[t] = test_allocate((size_t)all.count[t] * sizeof(float));
        assert_ok(uf_tensor_create(context, UF_F32, uf_shape_from(extent[t], 4), &all.device[t]));
    }
    all.a = test_allocate((size_t)most_products(&all) * sizeof(float));
    all.b = test_allocate((size_t)most_products(&all) * sizeof(float));
    return all;
}

void tensors_destroy(tensors *all) {
    for (int t = 0; t < TENSORS; ++t) {
        free(all->host[t]);
        uf_tensor_destroy(all->device[t]);
    }
    free(all->a);
    free(all->b);
}

void tensors_upload(tensors *all) {
    for (int t = 0; t < TENSORS; ++t) {
        assert_ok(uf_tensor_upload(all->device[t], all->host[t]));
    }
}

static uf_view view_of(const tensors *all, tensor which, const uf_tensor *device) {
    const int64_t *extent = all->extent[which];
    return uf_view_nchw(uf_tensor_data(device), UF_F32, extent[0], extent[1], extent[2], extent[3]);
}

/* A device tensor of `bytes` (a multiple of 4), every byte of it `fill`. */
static uf_tensor *poisoned(uf_context *context, size_t bytes, int fill) {
    uf_tensor *made;
    void *host = test_allocate(bytes);
    const int64_t count = (int64_t)(bytes / sizeof(float));
    memset(host, fill, bytes);
    assert_ok(uf_tensor_create(context, UF_F32, uf_shape_from(&count, 1), &made));
    assert_ok(uf_tensor_upload(made, host));
    free(host);
    return made;
}

bool run_direction(uf_context *context, const tensors *all, direction which, uf_math math,
                   const char *variant, int poison, float *result) {
    typedef uf_status (*operation)(uf_context *, const uf_conv2d_args *);
    typedef uf_status (*query)(uf_context *, const uf_conv2d_args *, size_t *);
    static const operation operations[DIRECTIONS] = {uf_conv2d_forward, uf_conv_transpose2d_forward,
                                                     uf_conv2d_backward_weight};
    static const query queries[DIRECTIONS] = {uf_conv2d_forward_workspace,
                                              uf_conv_transpose2d_forward_workspace,
                                              uf_conv2d_backward_weight_workspace};
    const shape *of = all->of;
    const tensor written = written_by(which);
    enum { NAN_BYTE = 0xff };
    uf_tensor *output = poisoned(context, (size_t)all->count[written] * sizeof(float), NAN_BYTE);
    uf_tensor *scratch = NULL;
    uf_conv2d_args args = uf_conv2d_args_default();
    uf_view views[TENSORS];
    for (int t = 0; t < TENSORS; ++t) {
        views[t] = view_of(all, (tensor)t, t == (int)written ? output : all->device[t]);
    }
    for (int axis = 0; axis < 2; ++axis) {
        args.params.stride[axis] = of->stride;
        args.params.padding[axis] = of->padding;
        args.params.dilation[axis] = of->dilation;
        args.params.output_padding[axis] = which == DGRAD ? of->extra : 0;
    }
    args.params.groups = of->groups;
    args.math = math;
    args.variant = variant;
    args.input = which == DGRAD ? views[Y] : views[X];
    if (which == WGRAD) {
        args.grad_weight = views[W];
        args.grad_output = views[Y];
    } else {
        args.weight = views[W];
        args.output = views[written];
    }
    assert_ok(queries[which](context, &args, &args.workspace_size));
    if (args.workspace_size > 0) {
        scratch = poisoned(context, (args.workspace_size + 3) / 4 * 4, poison);
        args.workspace = uf_tensor_data(scratch);
    }
    const uf_status status = operations[which](context, &args);
    if (status == UF_OK) {
        assert_ok(uf_tensor_download(output, result));
    } else if (status != UF_ERROR_UNSUPPORTED || variant == NULL) {
        fail_msg("%s of %s, variant %s: %s: %s", direction_names[which], of->label,
                 variant_label(variant), uf_status_name(status), uf_last_error());
    }
    uf_tensor_destroy(scratch);
    uf_tensor_destroy(output);
    return status == UF_OK;
}

static float at(const tensors *all, tensor which, int64_t i, int64_t j, int64_t h, int64_t w) {
    const int64_t *extent = all->extent[which];
    return all->host[which][((i * extent[1] + j) * extent[2] + h) * extent[3] + w];
}

static int64_t large_of(const shape *of, int64_t small, int64_t tap) {
    return small * of->stride - of->padding + tap * of->dilation;
}

/* The small side's element behind element `large` at a tap, or -1. */
static int64_t small_of(const shape *of, int64_t large, int64_t tap, int64_t extent) {
    const int64_t scaled = large + of->padding - tap * of->dilation;
    return scaled >= 0 && scaled % of->stride == 0 && scaled / of->stride < extent
               ? scaled / of->stride
               : -1;
}

static bool inside(int64_t position, int64_t extent) {
    return position >= 0 && position < extent;
}

static int64_t products_wgrad(const tensors *all, const int64_t e[4]) {
    const shape *of = all->of;
    const int64_t channel = e[0] / (of->k / of->groups) * (of->c / of->groups) + e[1];
    int64_t count = 0;
    for (int64_t n = 0; n < of->n; ++n) {
        for (int64_t p = 0; p < of->p; ++p) {
            const int64_t h = large_of(of, p, e[2]);
            for (int64_t q = 0; inside(h, all->extent[X][2]) && q < of->q; ++q) {
                const int64_t w = large_of(of, q, e[3]);
                if (inside(w, all->extent[X][3])) {
                    all->a[count] = at(all, X, n, channel, h, w);
                    all->b[count++] = at(all, Y, n, e[0], p, q);
                }
            }
        }
    }
    return count;
}

int64_t products(const tensors *all, direction which, int64_t index) {
    const shape *of = all->of;
    const int64_t *written = all->extent[written_by(which)];
    const int64_t c_per_group = of->c / of->groups, k_per_group = of->k / of->groups;
    int64_t e[4];
    for (int axis = 3; axis >= 0; --axis) {
        e[axis] = index % written[axis];
        index /= written[axis];
    }
    if (which == WGRAD) {
        return products_wgrad(all, e);
    }
    int64_t count = 0;
    for (int64_t r = 0; r < of->kernel; ++r) {
        for (int64_t s = 0; s < of->kernel; ++s) {
            if (which == FPROP) {
                const int64_t h = large_of(of, e[2], r), w = large_of(of, e[3], s);
                const int64_t first = e[1] / k_per_group * c_per_group;
                for (int64_t c = 0; inside(h, all->extent[X][2]) && inside(w, all->extent[X][3]) &&
                                    c < c_per_group;
                     ++c) {
                    all->a[count] = at(all, X, e[0], first + c, h, w);
                    all->b[count++] = at(all, W, e[1], c, r, s);
                }
            } else {
                const int64_t p = small_of(of, e[2], r, of->p), q = small_of(of, e[3], s, of->q);
                const int64_t first = e[1] / c_per_group * k_per_group;
                for (int64_t k = 0; p >= 0 && q >= 0 && k < k_per_group; ++k) {
                    all->a[count] = at(all, Y, e[0], first + k, p, q);
                    all->b[count++] = at(all, W, first + k, e[1] % c_per_group, r, s);
                }
            }
        }
    }
    return count;
}

double sum_exact(const tensors *all, int64_t count) {
    double sum = 0.0;
    for (int64_t i = 0; i < count; ++i) {
        sum += (double)all->a[i] * (double)all->b[i];
    }
    return sum;
}

float sum_chain(const tensors *all, int64_t count) {
    float sum = 0.0F;
    for (int64_t i = 0; i < count; ++i) {
        sum = fmaf(all->a[i], all->b[i], sum);
    }
    return sum;
}

float sum_chain_reversed(const tensors *all, int64_t count) {
    float sum = 0.0F;
    for (int64_t i = count; i-- > 0;) {
        sum = fmaf(all->a[i], all->b[i], sum);
    }
    return sum;
}

double sum_sizes(const tensors *all, int64_t count) {
    double sum = 0.0;
    for (int64_t i = 0; i < count; ++i) {
        sum += fabs((double)all->a[i] * (double)all->b[i]);
    }
    return sum;
}
