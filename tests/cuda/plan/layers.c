/* layers.c - see cuda/plan/layers.h. */
#include "cuda/plan/layers.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* clang-format off */
const plan_named plan_table[] = {
    /*                 n    c    k   small       kernel    stride   padding  dilation  spare    g */
    {"single",        {1,   1,   1, {1, 1},     {1, 1},   {1, 1},  {0, 0},  {1, 1},   {0, 0},   1}},
    {"single groups", {3,   1,   1, {1, 1},     {1, 1},   {1, 1},  {0, 0},  {1, 1},   {0, 0},   5}},
    {"beyond",        {2,   3,   5, {1, 1},     {7, 7},   {1, 1},  {3, 3},  {1, 1},   {0, 0},   1}},
    {"dead phases",   {2,   4,   6, {9, 7},     {1, 1},   {3, 3},  {0, 0},  {1, 1},   {2, 1},   1}},
    {"dead rows",     {2,   9,   7, {8, 11},    {3, 3},   {2, 2},  {1, 1},  {2, 2},   {1, 0},   1}},
    {"padded",        {1,   5,   3, {14, 12},   {3, 3},   {1, 1},  {5, 4},  {1, 1},   {0, 0},   1}},
    {"dilated",       {2,   8,   8, {5, 6},     {3, 3},   {1, 1},  {4, 4},  {4, 4},   {0, 0},   1}},
    {"line",          {3,  17,   9, {1, 300},   {1, 5},   {1, 1},  {0, 2},  {1, 1},   {0, 0},   1}},
    {"column",        {3,   9,  17, {300, 1},   {5, 1},   {1, 1},  {2, 0},  {1, 1},   {0, 0},   1}},
    {"unequal",       {2,  16,  24, {13, 20},   {5, 3},   {3, 2},  {2, 1},  {1, 1},   {1, 1},   1}},
    {"three groups",  {2,  11,  13, {10, 9},    {3, 3},   {2, 2},  {1, 1},  {1, 1},   {1, 1},   3}},
    {"dcgan g1",      {8, 512, 100, {1, 1},     {4, 4},   {1, 1},  {0, 0},  {1, 1},   {0, 0},   1}},
    {"dcgan g2",      {4, 256, 512, {4, 4},     {4, 4},   {2, 2},  {1, 1},  {1, 1},   {0, 0},   1}},
    {"dcgan g3",      {4, 128, 256, {8, 8},     {4, 4},   {2, 2},  {1, 1},  {1, 1},   {0, 0},   1}},
    {"dcgan g5",      {3,   3,  64, {32, 32},   {4, 4},   {2, 2},  {1, 1},  {1, 1},   {0, 0},   1}},
    {"unet up",       {2,  64, 128, {16, 32},   {2, 2},   {2, 2},  {0, 0},  {1, 1},   {0, 0},   1}},
    {"unet wide",     {1,  48,  96, {24, 48},   {2, 2},   {2, 2},  {0, 0},  {1, 1},   {0, 0},   1}},
    {"pointwise",     {2, 256,  64, {16, 16},   {1, 1},   {1, 1},  {0, 0},  {1, 1},   {0, 0},   1}},
    {"pointwise odd", {3, 100, 130, {7, 12},    {1, 1},   {1, 1},  {0, 0},  {1, 1},   {0, 0},   1}},
    {"vit patch",     {2,   3,  96, {8, 8},     {4, 4},   {4, 4},  {0, 0},  {1, 1},   {0, 0},   1}},
    {"body",          {2,  64,  64, {28, 28},   {3, 3},   {1, 1},  {1, 1},  {1, 1},   {0, 0},   1}},
    {"body wide",     {1,  32,  32, {12, 128},  {3, 3},   {1, 1},  {1, 1},  {1, 1},   {0, 0},   1}},
    {"body deep",     {1, 300, 280, {7, 7},     {3, 3},   {1, 1},  {1, 1},  {1, 1},   {0, 0},   1}},
    {"large filter",  {2,   3,  16, {24, 24},   {7, 7},   {2, 2},  {3, 3},  {1, 1},   {1, 1},   1}},
    {"fcn up",        {1,   2,   3, {6, 6},     {16, 16}, {8, 8},  {4, 4},  {1, 1},   {0, 0},   1}},
    {"depthwise",     {2,   1,   1, {20, 24},   {3, 3},   {1, 1},  {1, 1},  {1, 1},   {0, 0},  32}},
    {"depthwise two", {2,   1,   1, {16, 16},   {5, 5},   {2, 2},  {2, 2},  {1, 1},   {1, 1},  20}},
    {"grouped",       {2,  16,  16, {14, 14},   {3, 3},   {1, 1},  {1, 1},  {1, 1},   {0, 0},   4}},
    {"stream",        {1,  16,  16, {40, 96},   {3, 3},   {1, 1},  {1, 1},  {1, 1},   {0, 0},   1}},
};
/* clang-format on */

const int64_t plan_table_rows = (int64_t)(sizeof plan_table / sizeof plan_table[0]);

uf_conv_kernel_args plan_args_of(const plan_sizes *sizes, uf_dtype dtype, uf_math math) {
    uf_conv_kernel_args args;
    void *const nowhere = (void *)4096;
    int64_t large[2];
    memset(&args, 0, sizeof args);
    for (int axis = 0; axis < 2; ++axis) {
        args.stride[axis] = sizes->stride[axis];
        args.padding[axis] = sizes->padding[axis];
        args.dilation[axis] = sizes->dilation[axis];
        large[axis] = (sizes->small[axis] - 1) * sizes->stride[axis] - 2 * sizes->padding[axis] +
                      (sizes->kernel[axis] - 1) * sizes->dilation[axis] + 1 + sizes->spare[axis];
    }
    args.groups = sizes->groups;
    args.math = math;
    args.x = uf_view_nchw(nowhere, dtype, sizes->n, sizes->c * sizes->groups, large[0], large[1]);
    args.w = uf_view_nchw(nowhere, dtype, sizes->k * sizes->groups, sizes->c, sizes->kernel[0],
                          sizes->kernel[1]);
    args.y = uf_view_nchw(nowhere, dtype, sizes->n, sizes->k * sizes->groups, sizes->small[0],
                          sizes->small[1]);
    return args;
}

/* ---- as text ---- */

static const char *const directions[] = {"fprop", "dgrad", "wgrad"};

static int print_view(char *text, size_t size, char name, const uf_view *view) {
    const int64_t *e = view->extent, *s = view->stride;
    return snprintf(text, size,
                    " %c=%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "/%" PRId64 ",%" PRId64
                    ",%" PRId64 ",%" PRId64 "@%" PRIu64,
                    name, e[0], e[1], e[2], e[3], s[0], s[1], s[2], s[3],
                    (uint64_t)(uintptr_t)view->data);
}

void plan_print(const plan_layer *layer, char text[PLAN_TEXT]) {
    const uf_conv_kernel_args *a = &layer->args;
    size_t at = (size_t)snprintf(
        text, PLAN_TEXT,
        "%s type=%d math=%d mode=%d act=%d scale=%d shift=%d s=%" PRId64 ",%" PRId64 " p=%" PRId64
        ",%" PRId64 " d=%" PRId64 ",%" PRId64 " g=%" PRId64,
        directions[layer->direction], (int)a->x.dtype, (int)a->math, (int)a->mode,
        (int)a->epilogue.activation.kind, a->epilogue.scale.data != NULL,
        a->epilogue.shift.data != NULL, a->stride[0], a->stride[1], a->padding[0], a->padding[1],
        a->dilation[0], a->dilation[1], a->groups);
    at += (size_t)print_view(text + at, PLAN_TEXT - at, 'x', &a->x);
    at += (size_t)print_view(text + at, PLAN_TEXT - at, 'w', &a->w);
    (void)print_view(text + at, PLAN_TEXT - at, 'y', &a->y);
}

static bool parse_view(const char *text, char name, uf_dtype dtype, uf_view *view) {
    char find[] = {' ', name, '=', 0};
    uint64_t at = 0;
    int64_t *e = view->extent, *s = view->stride;
    const char *const from = strstr(text, find);
    const bool is_whole =
        from != NULL && sscanf(from + 3,
                               "%" SCNd64 ",%" SCNd64 ",%" SCNd64 ",%" SCNd64 "/%" SCNd64
                               ",%" SCNd64 ",%" SCNd64 ",%" SCNd64 "@%" SCNu64,
                               &e[0], &e[1], &e[2], &e[3], &s[0], &s[1], &s[2], &s[3], &at) == 9;
    view->dtype = dtype;
    view->data = (void *)(uintptr_t)at;
    return is_whole;
}

bool plan_parse(const char *text, plan_layer *layer) {
    uf_conv_kernel_args *const a = &layer->args;
    int type = 0, math = 0, mode = 0, activation = 0, scale = 0, shift = 0;
    memset(layer, 0, sizeof *layer);
    for (int i = 0; i < 3; ++i) {
        if (strncmp(text, directions[i], 5) == 0) {
            layer->direction = (uf_conv_direction)i;
        }
    }
    if (sscanf(text + 5,
               " type=%d math=%d mode=%d act=%d scale=%d shift=%d s=%" SCNd64 ",%" SCNd64
               " p=%" SCNd64 ",%" SCNd64 " d=%" SCNd64 ",%" SCNd64 " g=%" SCNd64,
               &type, &math, &mode, &activation, &scale, &shift, &a->stride[0], &a->stride[1],
               &a->padding[0], &a->padding[1], &a->dilation[0], &a->dilation[1],
               &a->groups) != 13) {
        return false;
    }
    a->math = (uf_math)math;
    a->mode = (uf_write_mode)mode;
    a->epilogue.activation.kind = (uf_activation_kind)activation;
    a->epilogue.scale.data = scale != 0 ? (void *)4096 : NULL;
    a->epilogue.shift.data = shift != 0 ? (void *)4096 : NULL;
    return parse_view(text, 'x', (uf_dtype)type, &a->x) &&
           parse_view(text, 'w', (uf_dtype)type, &a->w) &&
           parse_view(text, 'y', (uf_dtype)type, &a->y);
}
