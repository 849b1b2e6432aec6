/* every_variant.c - times of all variants of a cell and of their tiles, beside what the library
 * thinks of them. */
#include "every_variant.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cell.h"

#ifdef BENCH_CUDA
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/conv/select/explain.h"

/* Beyond so many times the chosen variant's estimate a variant is not worth the time that it takes.
 */
#define HOPELESS 20.0

typedef struct survey {
    uf_context *context; /* NULL: nothing is timed */
    const bench_options *options;
    uf_gpu gpu;
    FILE *out, *matrix; /* matrix may be NULL */
    int cells, rows, failures;
} survey;

static const uf_conv_direction directions[BENCH_OPS] = {UF_CONV_DGRAD, UF_CONV_FPROP,
                                                        UF_CONV_WGRAD};

/* The first number with a dot of the driver's own file; "" where there is none. */
static void driver_version(char *text, size_t size) {
    char line[256] = "";
    FILE *const file = fopen("/proc/driver/nvidia/version", "r");
    text[0] = '\0';
    if (file != NULL) {
        if (fgets(line, sizeof line, file) == NULL) {
            line[0] = '\0';
        }
        (void)fclose(file);
    }
    for (char *save = NULL, *word = strtok_r(line, " \t\n", &save); word != NULL;
         word = strtok_r(NULL, " \t\n", &save)) {
        if (strspn(word, "0123456789.") == strlen(word) && strchr(word, '.') != NULL) {
            (void)snprintf(text, size, "%s", word);
            return;
        }
    }
}

static void describe(const survey *s, bench_matrix_head *head) {
    const time_t now = time(NULL);
    struct tm utc;
    int cuda = 0;
    memset(head, 0, sizeof *head);
    head->capability = s->gpu.capability;
    head->budget_ms = s->options->budget_ms;
    (void)snprintf(head->version, sizeof head->version, "%s", uf_version());
    (void)snprintf(head->commit, sizeof head->commit, "%s",
                   s->options->commit != NULL ? s->options->commit : "");
    if (gmtime_r(&now, &utc) != NULL) {
        (void)strftime(head->date, sizeof head->date, "%Y-%m-%d", &utc);
    }
    if (cudaRuntimeGetVersion(&cuda) == cudaSuccess) {
        (void)snprintf(head->cuda, sizeof head->cuda, "%d.%d", cuda / 1000, cuda % 1000 / 10);
    }
    if (s->context != NULL) {
        (void)snprintf(head->gpu, sizeof head->gpu, "%s", uf_context_description(s->context));
        (void)snprintf(head->cudnn, sizeof head->cudnn, "%s", bench_cudnn_version());
        driver_version(head->driver, sizeof head->driver);
        head->copy_rate = bench_copy_rate(s->context);
    }
}

static void put(survey *s, const bench_matrix_row *row) {
    char ms[32] = "-", spread[32] = "-", ratio[32] = "-";
    if (row->ms >= 0) {
        (void)snprintf(ms, sizeof ms, "%.4f", row->ms);
        (void)snprintf(spread, sizeof spread, "%.1f%%", 100 * row->spread);
        (void)snprintf(ratio, sizeof ratio, "%.2f", row->estimate_us / (1e3 * row->ms));
    }
    const char *const untimed = s->context != NULL ? row->untimed : "";
    const char mark = row->chosen ? '*' : row->own_tile ? '+' : ' ';
    (void)fprintf(s->out, "%-12s %-11s %-4s %-4s %c%-24s %4d %-34s %10s %6s %10.1f %6s  %s%s%s\n",
                  row->shape.name, bench_op_names[row->op], uf_dtype_name(row->dtype),
                  bench_math_names[row->math], mark, row->variant, row->tile, row->main_loop, ms,
                  spread, row->estimate_us, ratio, row->plan,
                  untimed[0] != '\0' && row->plan[0] != '\0' ? "; " : "", untimed);
    (void)fflush(s->out);
    if (s->matrix != NULL) {
        bench_matrix_write_row(s->matrix, row);
    }
    s->rows += 1;
}

/* One forced variant and tile. False where the context can be used no more. */
static bool time_variant(survey *s, bench_cell *cell, bench_matrix_row *row) {
    const bench_work work = {bench_cell_run, cell, cell->sets};
    bench_timing timing;
    bool finite = false;
    char forced[64];
    (void)snprintf(forced, sizeof forced, "%s:%d", row->variant, row->tile);
    uf_status status = bench_cell_force(cell, forced);
    if (status == UF_OK) {
        status = bench_cell_clear(cell);
    }
    if (status == UF_OK) {
        if (!bench_time(s->context, &work, s->options->budget_ms, &timing)) {
            status = UF_ERROR_INTERNAL;
        } else {
            status = bench_cell_finite(cell, &finite);
        }
    }
    if (status == UF_OK && finite) {
        row->ms = timing.ms;
        row->spread = timing.spread;
        return true;
    }
    s->failures += 1;
    (void)snprintf(row->untimed, sizeof row->untimed, "FAILED: %s",
                   status != UF_OK ? uf_last_error() : "results are not finite");
    return uf_context_check(s->context) == UF_OK;
}

/* A row of the plan, which `own` says to be that of the variant's own tile. */
static bool survey_plan(survey *s, bench_cell *cell, const bench_matrix_row *of,
                        const uf_conv_problem *problem, const uf_conv_plan *plan,
                        const uf_conv_plan *chosen, bool own) {
    bench_matrix_row row = *of;
    bool usable = true;
    row.ms = row.spread = -1;
    row.estimate_us = plan->microseconds;
    row.tile = plan->tile;
    row.own_tile = own;
    row.chosen = own && plan->variant == chosen->variant;
    (void)snprintf(row.variant, sizeof row.variant, "%s", uf_conv_variants[plan->variant].name);
    uf_conv_explain_loop(plan, row.main_loop, sizeof row.main_loop);
    uf_conv_explain_plan(problem, plan, row.plan, sizeof row.plan);
    if (s->context == NULL) {
        (void)snprintf(row.untimed, sizeof row.untimed, "without a GPU");
    } else if (!(plan->microseconds <= HOPELESS * chosen->microseconds)) {
        (void)snprintf(
            row.untimed, sizeof row.untimed, "skipped: the estimate is %.0f times that of %s",
            plan->microseconds / chosen->microseconds, uf_conv_variants[chosen->variant].name);
    } else {
        usable = time_variant(s, cell, &row);
    }
    put(s, &row);
    return usable;
}

/* A variant with the tile that it takes, then with each other one. */
static bool survey_variant(survey *s, bench_cell *cell, const bench_matrix_row *of,
                           const uf_conv_problem *problem, int variant,
                           const uf_conv_plan *chosen) {
    uf_conv_plan plan[2] = {{.inner = &plan[1]}, {.inner = NULL}};
    uf_conv_problem tiled = *problem;
    if (!uf_conv_plan_variant(problem, (uf_cuda_conv_variant)variant, plan)) {
        return true;
    }
    const int own = plan->tile, tiles = plan->tiles;
    bool usable = survey_plan(s, cell, of, problem, plan, chosen, true);
    for (tiled.tile = 0; tiled.tile < tiles && usable; ++tiled.tile) {
        if (tiled.tile != own &&
            uf_conv_plan_variant(&tiled, (uf_cuda_conv_variant)variant, plan)) {
            usable = survey_plan(s, cell, of, problem, plan, chosen, false);
        }
    }
    return usable;
}

/* All variants of a cell; false where the context can be used no more. */
static bool survey_cell(survey *s, const bench_shape *shape, bench_op op, uf_dtype dtype,
                        uf_math math) {
    uf_conv_kernel_args args;
    uf_conv_plan chosen[2];
    const uf_conv_problem problem = uf_conv_problem_of(directions[op], &args, &s->gpu);
    bench_matrix_row row;
    bench_cell cell;
    bool usable = true;
    bench_kernel_args(shape, dtype, math, &args);
    if (uf_conv_choose(&problem, chosen) != UF_OK) {
        (void)fprintf(stderr, "bench_ops: %s %s: %s\n", shape->name, bench_op_names[op],
                      uf_last_error());
        s->failures += 1;
        return true;
    }
    if (s->context != NULL &&
        bench_cell_create(&cell, s->context, shape, op, dtype, math) != UF_OK) {
        (void)fprintf(stderr, "bench_ops: %s %s: %s\n", shape->name, bench_op_names[op],
                      uf_last_error());
        bench_cell_destroy(&cell);
        s->failures += 1;
        return uf_context_check(s->context) == UF_OK;
    }
    s->cells += 1;
    memset(&row, 0, sizeof row);
    row.shape = *shape;
    row.op = op;
    row.dtype = dtype;
    row.math = math;
    for (int v = 0; v < UF_CUDA_CONV_VARIANTS && usable; ++v) {
        usable = survey_variant(s, &cell, &row, &problem, v, chosen);
    }
    if (s->context != NULL) {
        bench_cell_destroy(&cell);
    }
    return usable;
}

static bool survey_math(survey *s, const bench_shape *shapes, int64_t count, int math) {
    uf_dtype dtype;
    if (!bench_dtype_of(s->options, math, true, &dtype)) {
        return true;
    }
    for (int64_t i = 0; i < count; ++i) {
        for (int op = 0; op < BENCH_OPS; ++op) {
            if (bench_wanted(s->options, &shapes[i], op) &&
                !survey_cell(s, &shapes[i], (bench_op)op, dtype, (uf_math)math)) {
                return false;
            }
        }
    }
    return true;
}

int bench_every_variant(uf_context *context, const bench_options *options,
                        const bench_shape *shapes, int64_t count, FILE *out) {
    survey s = {context, options, uf_gpu_h200(), out, NULL, 0, 0, 0};
    bench_matrix_head head;
    bool usable = true;
    if (context != NULL && uf_context_device(context) != UF_DEVICE_CUDA) {
        (void)fprintf(stderr, "bench_ops: --every-variant needs a GPU, or --capability\n");
        return 2;
    }
    if (context != NULL) {
        s.gpu = ((const uf_cuda_state *)context->state)->gpu;
    } else {
        s.gpu.capability = options->capability;
    }
    if (options->matrix != NULL && (s.matrix = fopen(options->matrix, "w")) == NULL) {
        (void)fprintf(stderr, "bench_ops: %s cannot be written\n", options->matrix);
        return 2;
    }
    describe(&s, &head);
    if (s.matrix != NULL) {
        bench_matrix_write_head(s.matrix, &head);
    }
    (void)fprintf(
        out,
        "unfurl %s on %s, compute capability %d.%d, copy %.2f TB/s; *: the library's choice; "
        "+: the variant's own tile\n",
        head.version, context != NULL ? head.gpu : "no GPU", s.gpu.capability / 10,
        s.gpu.capability % 10, head.copy_rate / 1e12);
    (void)fprintf(out, "%-12s %-11s %-4s %-4s %-25s %4s %-34s %10s %6s %10s %6s  %s\n", "shape",
                  "op", "type", "math", "variant", "tile", "main loop", "ms", "spread", "est. us",
                  "/ms", "plan");
    for (int math = 0; math < BENCH_MATHS && usable; ++math) {
        usable = survey_math(&s, shapes, count, math);
    }
    bool written = true;
    if (s.matrix != NULL) {
        written = ferror(s.matrix) == 0;
        written = fclose(s.matrix) == 0 && written;
    }
    (void)fprintf(out, "%d rows of %d cells\n", s.rows, s.cells);
    if (!written) {
        (void)fprintf(stderr, "bench_ops: %s could not be written\n", options->matrix);
    }
    if (s.failures > 0 || !usable) {
        (void)fprintf(stderr, "bench_ops: %d failures%s\n", s.failures,
                      usable ? "" : ", the last one fatal");
    }
    return s.failures > 0 || !usable || !written;
}

#else

int bench_every_variant(uf_context *context, const bench_options *options,
                        const bench_shape *shapes, int64_t count, FILE *out) {
    (void)context;
    (void)options;
    (void)shapes;
    (void)count;
    (void)out;
    (void)fprintf(stderr, "bench_ops: --every-variant needs a build with CUDA\n");
    return 2;
}

#endif
