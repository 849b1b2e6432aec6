/* phases.c - taps, phases and classes of a call. */
#include "kernels/cuda/conv/wgmma_implicit_gemm/phases.h"

#include <string.h>

static bool taps_of(uf_conv_direction direction, const uf_conv_kernel_args *args, int axis,
                    uf_wgmma_taps *taps) {
    const bool dgrad = direction == UF_CONV_DGRAD;
    taps->elements = args->y.extent[2 + axis];
    taps->read =
        dgrad ? args->y.extent[2 + axis] : uf_div_up(args->x.extent[2 + axis], args->stride[axis]);
    if (dgrad ? !uf_conv_taps_of_y(args, axis, &taps->of, &taps->elements)
              : !uf_conv_taps_of_x(args, axis, &taps->of)) {
        return false;
    }
    int64_t first[UF_CONV_KINDS], last[UF_CONV_KINDS];
    bool any[UF_CONV_KINDS] = {false};
    for (int32_t kind = 0; kind < taps->of.kinds; ++kind) {
        const int32_t klass = dgrad ? 0 : kind;
        for (int32_t t = 0; t < taps->of.count[kind]; ++t) {
            const int64_t shift = taps->of.shift[kind][t];
            first[klass] = !any[klass] || shift < first[klass] ? shift : first[klass];
            last[klass] = !any[klass] || shift > last[klass] ? shift : last[klass];
            any[klass] = true;
        }
    }
    taps->first = taps->last = taps->span = 0;
    bool found = false;
    for (int32_t klass = 0; klass < (dgrad ? 1 : taps->of.kinds); ++klass) {
        if (any[klass]) {
            taps->first = !found || first[klass] < taps->first ? first[klass] : taps->first;
            taps->last = !found || last[klass] > taps->last ? last[klass] : taps->last;
            taps->span =
                last[klass] - first[klass] > taps->span ? last[klass] - first[klass] : taps->span;
            found = true;
        }
    }
    for (int32_t klass = 0; klass < UF_CONV_KINDS; ++klass) {
        taps->class_first[klass] = any[klass] ? first[klass] - taps->first : 0;
    }
    return true;
}

void uf_wgmma_list_taps(const uf_wgmma_job *job, uf_wgmma_geometry *made) {
    const uf_wgmma_taps *const taps = job->taps;
    const uf_wgmma_taps *const rows = &taps[0], *const columns = &taps[1];
    int32_t pairs = 0, listed = 0;
    for (int32_t down = 0; down < rows->of.kinds; ++down) {
        for (int32_t across = 0; across < columns->of.kinds; ++across) {
            made->first_tap[pairs] = (uint16_t)listed;
            made->class_of[pairs][0] = rows->of.residue[down];
            made->class_of[pairs][1] = columns->of.residue[across];
            /* dgrad has one class, and its pairs are phases. */
            const int64_t first[2] = {made->classes > 1 ? rows->class_first[down] : 0,
                                      made->classes > 1 ? columns->class_first[across] : 0};
            made->class_first[pairs][0] = made->line > 0 ? 0 : (int32_t)first[0];
            made->class_first[pairs][1] =
                (int32_t)(made->line > 0 ? first[0] * made->line + first[1] : first[1]);
            ++pairs;
            for (int32_t t = 0; t < rows->of.count[down]; ++t) {
                for (int32_t u = 0; u < columns->of.count[across]; ++u) {
                    const int64_t y = rows->of.shift[down][t] - rows->first - first[0];
                    const int64_t x = columns->of.shift[across][u] - columns->first - first[1];
                    made->shift[listed] =
                        (int16_t)((y << made->axis[0].images_log << made->patch_log) *
                                      made->mma_pitch +
                                  (x << made->axis[1].images_log));
                    made->tap_of[listed][0] = rows->of.filter[down][t];
                    made->odd_tap[listed] = job->merged ? job->odd_tap[u] : UF_WGMMA_NO_TAP;
                    made->tap_of[listed++][1] = columns->of.filter[across][u];
                }
            }
        }
    }
    made->first_tap[pairs] = (uint16_t)listed;
}

uf_conv_kernel_args uf_wgmma_canonical(const uf_conv_kernel_args *args) {
    uf_conv_kernel_args made = *args;
    for (int axis = 0; axis < 2; ++axis) {
        const int64_t all = args->x.extent[2 + axis] + args->padding[axis];
        if (args->y.extent[2 + axis] == 1 && all > args->stride[axis] && all <= 8) {
            made.stride[axis] = all;
        }
    }
    return made;
}

static void count_taps(uf_wgmma_job *job) {
    job->most_taps = job->least_taps = 1;
    job->all_taps = 0;
    for (int32_t down = 0; down < job->taps[0].of.kinds; ++down) {
        for (int32_t across = 0; across < job->taps[1].of.kinds; ++across) {
            const int32_t here = job->taps[0].of.count[down] * job->taps[1].of.count[across];
            job->most_taps = here > job->most_taps ? here : job->most_taps;
            job->least_taps =
                here > 0 && (here < job->least_taps || job->all_taps == 0) ? here : job->least_taps;
            job->all_taps += here;
        }
    }
}

bool uf_wgmma_job_of(uf_conv_direction direction, const uf_conv_kernel_args *args,
                     uf_wgmma_job *job) {
    const bool dgrad = direction == UF_CONV_DGRAD;
    memset(job, 0, sizeof *job);
    job->direction = direction;
    job->args = args;
    job->math = uf_mma_math_of(args);
    job->element = args->x.dtype == UF_F32 ? 4 : 2;
    job->read = (dgrad ? args->y.extent[1] : args->x.extent[1]) / args->groups;
    job->written = (dgrad ? args->x.extent[1] : args->y.extent[1]) / args->groups;
    if (args->w.extent[2] * args->w.extent[3] > UF_WGMMA_TAPS ||
        !taps_of(direction, args, 0, &job->taps[0]) ||
        !taps_of(direction, args, 1, &job->taps[1]) ||
        job->taps[0].of.kinds * job->taps[1].of.kinds > UF_WGMMA_PAIRS) {
        return false;
    }
    count_taps(job);
    return true;
}

bool uf_wgmma_job_merge(const uf_wgmma_job *job, uf_wgmma_job *made) {
    const uf_conv_taps *const from = &job->taps[1].of;
    const int64_t width = job->args->x.extent[3];
    const int32_t even = (int32_t)(job->args->padding[1] & 1), odd = 1 - even;
    if (job->direction != UF_CONV_DGRAD || from->kinds != 2 || width < 2 || from->count[0] == 0 ||
        from->count[1] == 0 ||
        uf_div_up(job->written, UF_WGMMA_MERGED) >= 2 * uf_div_up(job->written, UF_WGMMA_ROWS)) {
        return false;
    }
    int32_t best = UF_CONV_TAPS + 1;
    for (int32_t back = 0; back < 2; ++back) {
        uf_wgmma_taps to = job->taps[1];
        uint8_t odd_tap[UF_CONV_TAPS];
        int32_t count = 0;
        memset(&to.of, 0, sizeof to.of);
        memset(odd_tap, UF_WGMMA_NO_TAP, sizeof odd_tap);
        to.of.kinds = 1;
        for (int32_t t = 0; t < from->count[even]; ++t) {
            to.of.shift[0][count] = from->shift[even][t];
            to.of.filter[0][count++] = from->filter[even][t];
        }
        for (int32_t t = 0; t < from->count[odd]; ++t) {
            int32_t u = 0;
            while (u < count && to.of.shift[0][u] != from->shift[odd][t] - back) {
                ++u;
            }
            if (u == count) {
                to.of.shift[0][u] = from->shift[odd][t] - back;
                to.of.filter[0][u] = UF_WGMMA_NO_TAP;
                ++count;
            }
            odd_tap[u] = from->filter[odd][t];
        }
        /* A tap of one phase has zero weights for the other, and zero times infinity is NaN. Only
         * FP32 has a fix-up for such results. */
        if (count >= best ||
            (!uf_wgmma_is_fp32(job->math) && count > from->count[0] + from->count[1] - count)) {
            continue;
        }
        best = to.of.count[0] = count;
        to.first = to.last = to.of.shift[0][0];
        for (int32_t u = 1; u < count; ++u) {
            to.first = to.of.shift[0][u] < to.first ? to.of.shift[0][u] : to.first;
            to.last = to.of.shift[0][u] > to.last ? to.of.shift[0][u] : to.last;
        }
        to.span = to.last - to.first;
        to.class_first[0] = 0;
        to.elements =
            uf_div_up(width, 2) > width / 2 + back ? uf_div_up(width, 2) : width / 2 + back;
        *made = *job;
        made->taps[1] = to;
        made->merged = true;
        made->merged_back = back;
        memcpy(made->odd_tap, odd_tap, sizeof odd_tap);
    }
    if (best > UF_CONV_TAPS) {
        return false;
    }
    count_taps(made);
    return made->all_taps <= UF_WGMMA_TAPS;
}
