/* report.c - bench_ops' table, one line per cell, and what is said at its end. */
#include "report.h"

#include <math.h>
#include <stdio.h>

static double best_of(const bench_result *r) {
    return r->nchw.ms < 0 ? r->nhwc.ms : r->nhwc.ms < 0 ? r->nchw.ms : fmin(r->nchw.ms, r->nhwc.ms);
}

static void format_ms(char *text, size_t size, double ms) {
    (void)snprintf(text, size, ms < 0 ? "-" : "%.4f", ms);
}

void bench_print_row(bool json, const bench_shape *shape, bench_op op, const char *dtype,
                     const char *math, const bench_result *r, bench_means *m) {
    char ours[32], nchw[32], nhwc[32], ratio[32] = "-", ratio_best[32] = "-";
    const double best = best_of(r);
    if (r->valid && r->nchw.ms > 0) {
        (void)snprintf(ratio, sizeof ratio, "%.2f", r->nchw.ms / r->ms);
        (void)snprintf(ratio_best, sizeof ratio_best, "%.2f", best / r->ms);
        m->nchw += log(r->nchw.ms / r->ms);
        m->best += log(best / r->ms);
        m->count += 1;
        if (r->nchw.ms < r->ms) {
            m->losses[m->slower++] = (bench_loss){shape->name, op, r->nchw.ms / r->ms};
        }
    }
    format_ms(ours, sizeof ours, r->ms);
    format_ms(nchw, sizeof nchw, r->nchw.ms);
    format_ms(nhwc, sizeof nhwc, r->nhwc.ms);
    if (json) {
        (void)printf("{\"list\": \"%s\", \"shape\": \"%s\", \"op\": \"%s\", \"dtype\": \"%s\", "
                     "\"math\": \"%s\", "
                     "\"variant\": \"%s\", \"ms\": %.6f, \"valid\": %s, \"error\": %.3e, "
                     "\"graph\": %s, \"tflops\": %.3f, \"floor_ms\": %.6f, "
                     "\"cudnn_nchw_ms\": %.6f, \"cudnn_nchw_algorithm\": \"%s\", "
                     "\"cudnn_nhwc_ms\": %.6f, \"cudnn_nhwc_algorithm\": \"%s\"}\n",
                     shape->list, shape->name, bench_op_names[op], dtype, math, r->variant, r->ms,
                     r->valid ? "true" : "false", isfinite(r->error) ? r->error : 1e300,
                     r->replayed ? "true" : "false", r->tflops, r->floor_ms, r->nchw.ms,
                     r->nchw.algorithm, r->nhwc.ms, r->nhwc.algorithm);
    } else {
        (void)printf(
            "%-12s %-11s %-4s %-4s %-23s %10s%c %8.2f %5.1f%% %10s %-22s %10s %-22s %6s %6s  "
            "%.1e\n",
            shape->name, bench_op_names[op], dtype, math, r->variant, r->valid ? ours : "VOID",
            r->replayed ? 'g' : ' ', r->tflops, r->floor_ms > 0 ? 100.0 * r->floor_ms / r->ms : 0.0,
            nchw, r->nchw.algorithm, nhwc, r->nhwc.algorithm, ratio, ratio_best, r->error);
    }
    (void)fflush(stdout);
}

void bench_print_head(uf_context *context, bool rival, double copy_rate) {
    (void)printf("unfurl %s on %s, cuDNN %s%s, copy %.2f TB/s\n", uf_version(),
                 uf_context_description(context), rival ? bench_cudnn_version() : "none",
                 rival ? " (legacy interface, every algorithm)" : "", copy_rate / 1e12);
    (void)printf(
        "g: replayed as a CUDA graph; roof: the larger of bytes at copy speed and products at "
        "peak, over the time; error: largest |difference| / sum of |products| over f64 samples, "
        "less the one rounding of a bf16 result\n");
    (void)printf("%-12s %-11s %-4s %-4s %-23s %11s %8s %6s %10s %-22s %10s %-22s %6s %6s  %s\n",
                 "shape", "op", "type", "math", "kernel", "ms", "TFLOP/s", "roof", "cudnn nchw", "",
                 "cudnn nhwc", "", "/nchw", "/best", "error");
}

void bench_print_means(const char *math, const bench_means *m) {
    if (m->count == 0) {
        return;
    }
    (void)printf("%s: geometric mean of cuDNN's time over ours, %d cells of %d: NCHW %.2f, best of "
                 "NCHW and NHWC %.2f; slower than NCHW in %d\n",
                 math, m->count, m->cells, exp(m->nchw / m->count), exp(m->best / m->count),
                 m->slower);
    for (int i = 0; i < m->slower; ++i) {
        (void)printf("%s: slower than NCHW: %-12s %-11s %.2f\n", math, m->losses[i].shape,
                     bench_op_names[m->losses[i].op], m->losses[i].ratio);
    }
    (void)puts("");
    (void)fflush(stdout);
}
