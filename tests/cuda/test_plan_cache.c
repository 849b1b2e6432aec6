/* test_plan_cache.c - what is remembered about choices of convolution kernels: needs no GPU. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/conv/select/choose.h"
#include "kernels/cuda/conv/select/plan_cache.h"

static uf_conv_kernel_args arguments(void) {
    uf_conv_kernel_args args;
    memset(&args, 0, sizeof args);
    args.x = uf_view_nchw((void *)4096, UF_F32, 2, 4, 16, 18);
    args.w = uf_view_nchw((void *)8192, UF_F32, 6, 4, 3, 3);
    args.y = uf_view_nchw((void *)12288, UF_F32, 2, 6, 7, 8);
    args.stride[0] = args.stride[1] = 2;
    args.dilation[0] = args.dilation[1] = 1;
    args.groups = 1;
    return args;
}

static uf_conv_plan_cache *new_plan_cache(void) {
    uf_conv_plan_cache *cache = test_allocate(sizeof *cache);
    memset(cache, 0, sizeof *cache);
    return cache;
}

/* One thing changed; false: there is no such thing. */
static bool change(int what, uf_conv_kernel_args *args) {
    uf_view *const views[] = {&args->x, &args->w, &args->y};
    static const float one = 1.0f;
    if (what < 12) {
        ++views[what / 4]->extent[what % 4];
        /* What two tensors must agree about. */
        args->y.extent[0] = args->x.extent[0] = args->x.extent[0] + (what == 8 ? 1 : 0);
        args->w.extent[1] = args->x.extent[1] = args->x.extent[1] + (what == 5 ? 1 : 0);
        args->y.extent[1] = args->w.extent[0] = args->w.extent[0] + (what == 9 ? 1 : 0);
        return true;
    }
    if (what < 24) {
        ++views[what / 4 - 3]->stride[what % 4];
        return true;
    }
    if (what < 27) {
        views[what - 24]->data = (char *)views[what - 24]->data + 4;
        return true;
    }
    switch (what) {
    case 27:
        args->x.dtype = args->w.dtype = args->y.dtype = UF_F64;
        return true;
    case 28:
    case 29:
        ++args->stride[what - 28];
        return true;
    case 30:
    case 31:
        ++args->padding[what - 30];
        return true;
    case 32:
    case 33:
        ++args->dilation[what - 32];
        return true;
    case 34:
        args->groups = 2;
        return true;
    case 35:
        args->math = UF_MATH_TF32;
        return true;
    case 36:
        args->mode = UF_ACCUMULATE;
        return true;
    case 37:
        args->epilogue.shift.data = (void *)(uintptr_t)&one;
        return true;
    case 38:
        args->epilogue.scale.data = (void *)(uintptr_t)&one;
        return true;
    case 39:
        args->epilogue.activation.kind = UF_ACTIVATION_RELU;
        return true;
    case 40:
        args->variant = "first";
        return true;
    case 41:
        args->variant = "another";
        return true;
    case 42:
        args->variant = "first:0";
        return true;
    default:
        return false;
    }
}

static void keep(uf_conv_plan_cache_row *row, size_t workspace) {
    uf_conv_plan plan;
    memset(&plan, 0, sizeof plan);
    plan.workspace = workspace;
    free(row->plan);
    uf_conv_plan_cache_keep(row, &plan);
    assert_non_null(row->plan);
}

/* Known once it was filled in, and with any other argument or direction not. */
static void test_key(void **state) {
    const uf_conv_kernel_args args = arguments();
    int changes = 0;
    (void)state;
    for (uf_conv_kernel_args other = args; change(changes, &other); other = args, ++changes) {
        uf_conv_plan_cache *cache = new_plan_cache();
        uf_conv_plan_cache_row *row = uf_conv_plan_cache_row_of(cache, UF_CONV_DGRAD, &args);
        assert_null(row->plan);
        keep(row, 77);
        row = uf_conv_plan_cache_row_of(cache, UF_CONV_DGRAD, &args);
        assert_non_null(row->plan);
        assert_int_equal(row->plan->workspace, 77);
        if (uf_conv_plan_cache_row_of(cache, UF_CONV_DGRAD, &other)->plan != NULL) {
            fail_msg("change %d is taken for what was asked before", changes);
        }
        assert_null(uf_conv_plan_cache_row_of(cache, UF_CONV_FPROP, &args)->plan);
        uf_conv_plan_cache_release(cache);
        free(cache);
    }
    assert_int_equal(changes, 43);
}

static bool same_views(const uf_view *a, const uf_view *b) {
    return a->data == b->data && a->dtype == b->dtype &&
           memcmp(a->extent, b->extent, sizeof a->extent) == 0 &&
           memcmp(a->stride, b->stride, sizeof a->stride) == 0;
}

/* All that a plan function may look at, and all that it may not. */
static bool same_args(const uf_conv_kernel_args *a, const uf_conv_kernel_args *b) {
    return same_views(&a->x, &b->x) && same_views(&a->w, &b->w) && same_views(&a->y, &b->y) &&
           same_views(&a->epilogue.scale, &b->epilogue.scale) &&
           same_views(&a->epilogue.shift, &b->epilogue.shift) &&
           a->epilogue.activation.kind == b->epilogue.activation.kind &&
           memcmp(&a->epilogue.activation.parameter, &b->epilogue.activation.parameter,
                  sizeof(double)) == 0 &&
           memcmp(a->stride, b->stride, sizeof a->stride) == 0 &&
           memcmp(a->padding, b->padding, sizeof a->padding) == 0 &&
           memcmp(a->dilation, b->dilation, sizeof a->dilation) == 0 && a->groups == b->groups &&
           a->mode == b->mode && a->math == b->math && a->variant == b->variant &&
           a->packing == b->packing && a->packed == b->packed && a->workspace == b->workspace &&
           a->workspace_size == b->workspace_size;
}

/* Something else of a call, which a plan may not depend on; false: there is no such thing. */
static bool call_again(int what, uf_conv_kernel_args *args) {
    uf_view *const views[] = {&args->x, &args->w, &args->y, &args->epilogue.scale,
                              &args->epilogue.shift};
    if (what < 5) {
        views[what]->data = (char *)views[what]->data + 1024;
        return true;
    }
    switch (what) {
    case 5:
    case 6:
        ++views[what - 2]->stride[1];
        return true;
    case 7:
        args->epilogue.activation.parameter = 0.5;
        return true;
    case 8:
        args->workspace = (void *)1024;
        return true;
    case 9:
        args->workspace_size = 1024;
        return true;
    case 10:
    case 11:
    case 12:
        args->packing = (uf_conv_packing)(what - 9);
        return true;
    case 13:
        args->packed = (void *)1024;
        return true;
    default:
        return false;
    }
}

/* Whatever the key does not hold is none of the plan function's, and all else is. */
static void test_args(void **state) {
    uf_conv_kernel_args args = arguments();
    int changes = 0;
    (void)state;
    args.epilogue.scale = uf_view_nchw((void *)16384, UF_F32, 1, 4, 1, 1);
    args.epilogue.shift = uf_view_nchw((void *)20480, UF_F32, 1, 4, 1, 1);
    args.epilogue.activation.kind = UF_ACTIVATION_LEAKY_RELU;
    const uf_conv_kernel_args asked = uf_conv_plan_cache_args(&args);
    for (uf_conv_kernel_args other = args; call_again(changes, &other); other = args, ++changes) {
        uf_conv_plan_cache *cache = new_plan_cache();
        keep(uf_conv_plan_cache_row_of(cache, UF_CONV_DGRAD, &args), 77);
        assert_non_null(uf_conv_plan_cache_row_of(cache, UF_CONV_DGRAD, &other)->plan);
        const uf_conv_kernel_args again = uf_conv_plan_cache_args(&other);
        if (!same_args(&asked, &again)) {
            fail_msg("a plan may depend on change %d, which its key does not hold", changes);
        }
        uf_conv_plan_cache_release(cache);
        free(cache);
    }
    assert_int_equal(changes, 14);
    args = arguments();
    const uf_conv_kernel_args plain = uf_conv_plan_cache_args(&args);
    changes = 0;
    for (uf_conv_kernel_args other = args; change(changes, &other); other = args, ++changes) {
        const uf_conv_kernel_args again = uf_conv_plan_cache_args(&other);
        assert_false(same_args(&plain, &again));
    }
}

/* A plan of one tile is none of another one, and none of the tile that a variant takes by itself.
 */
static void test_tiles(void **state) {
    static const struct {
        int variant;
        const char *tile;
    } asked[] = {{0, ""}, {0, ":0"}, {0, ":1"}, {1, ":1"}};
    uf_conv_plan_cache *cache = new_plan_cache();
    (void)state;
    for (size_t i = 0; i < COUNT_OF(asked); ++i) {
        uf_conv_kernel_args args = arguments();
        char name[64];
        (void)snprintf(name, sizeof name, "%s%s",
                       uf_cuda_conv_variant_name((uf_cuda_conv_variant)asked[i].variant),
                       asked[i].tile);
        args.variant = name;
        uf_conv_plan_cache_row *row = uf_conv_plan_cache_row_of(cache, UF_CONV_DGRAD, &args);
        assert_null(row->plan);
        keep(row, i);
        row = uf_conv_plan_cache_row_of(cache, UF_CONV_DGRAD, &args);
        assert_non_null(row->plan);
        assert_int_equal(row->plan->workspace, i);
    }
    uf_conv_plan_cache_release(cache);
    free(cache);
}

/* A kept plan has a copy of its inner plan, where there is one. */
static void test_inner(void **state) {
    (void)state;
    static const uf_conv_loop loop;
    const uf_conv_kernel_args args = arguments();
    uf_conv_plan_cache *cache = new_plan_cache();
    uf_conv_plan plan[2];
    memset(plan, 0, sizeof plan);
    plan[0].inner = &plan[1];
    uf_conv_plan_cache_row *row = uf_conv_plan_cache_row_of(cache, UF_CONV_DGRAD, &args);
    uf_conv_plan_cache_keep(row, plan);
    assert_null(row->plan->inner);
    free(row->plan);
    plan[1].loop = &loop;
    plan[1].workspace = 5;
    plan[1].own[UF_CONV_PLAN_BYTES - 1] = 9;
    uf_conv_plan_cache_keep(row, plan);
    memset(plan, 0, sizeof plan);
    assert_ptr_equal(row->plan->inner, &row->plan[1]);
    assert_int_equal(row->plan->inner->workspace, 5);
    assert_int_equal(row->plan->inner->own[UF_CONV_PLAN_BYTES - 1], 9);
    uf_conv_plan_cache_release(cache);
    free(cache);
}

/* More convolutions than rows: what is known is what was filled in. */
static void test_many(void **state) {
    uf_conv_plan_cache *cache = new_plan_cache();
    int64_t known = 0;
    (void)state;
    for (int64_t i = 0; i < 20000; ++i) {
        const int64_t which = i * 7919 % 200;
        uf_conv_kernel_args args = arguments();
        args.x.extent[0] = args.y.extent[0] = which + 1;
        uf_conv_plan_cache_row *row = uf_conv_plan_cache_row_of(cache, UF_CONV_FPROP, &args);
        if (row->plan != NULL) {
            ++known;
            assert_int_equal(row->plan->workspace, which);
        }
        keep(row, (size_t)which);
    }
    print_message("%lld of 20000 known\n", (long long)known);
    uf_conv_plan_cache_release(cache);
    free(cache);
}

/* As many as a network has, asked again and again: nearly all are known. */
static void test_small(void **state) {
    uf_conv_plan_cache *cache = new_plan_cache();
    int64_t known = 0;
    (void)state;
    for (int64_t i = 0; i < 1000; ++i) {
        uf_conv_kernel_args args = arguments();
        args.w.extent[1] = args.x.extent[1] = 16 << i % 5;
        uf_conv_plan_cache_row *row =
            uf_conv_plan_cache_row_of(cache, (uf_conv_direction)(i / 5 % 3), &args);
        known += row->plan != NULL ? 1 : 0;
        keep(row, 0);
    }
    assert_true(known > 600);
    uf_conv_plan_cache_release(cache);
    free(cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_key),   cmocka_unit_test(test_args), cmocka_unit_test(test_tiles),
        cmocka_unit_test(test_inner), cmocka_unit_test(test_many), cmocka_unit_test(test_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
