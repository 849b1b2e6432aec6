/* bench_models.c - times whole models through the public interface: pictures made, and steps of
 * training. `bench_models --help` says how it is called, bench/peer_models.py times the same models
 * in PyTorch, and scripts/bench-models sets one beside the other. */
#include <inttypes.h>
#include <stdio.h>

#include "model_options.h"
#include "model_run.h"

#define MEBIBYTE 1048576.0

/* A model's name, arguments and tensors: what the other side needs to build the same one. */
static void print_row_fields(const bench_model_row *row, const bench_model_size *size) {
    (void)printf("{\"name\": \"%s\", \"batch\": %" PRId64 ", \"channels\": %" PRId64
                 ", \"height\": %" PRId64 ", \"width\": %" PRId64 ", \"features\": %" PRId64
                 ", \"latent\": %" PRId64,
                 row->name, size->batch, size->channels, size->height, size->width, size->features,
                 size->latent);
}

static void print_figures(const char *key, const bench_model_result *r, const double *values) {
    (void)printf(", \"%s\": {", key);
    for (int32_t i = 0; i < r->figure_count; ++i) {
        (void)printf("%s\"%s\": %.9g", i > 0 ? ", " : "", r->names[i], values[i]);
    }
    (void)printf("}");
}

static void print_json(uf_context *context, const bench_model_setting *s,
                       const bench_model_result *r) {
    print_row_fields(s->row, &s->size);
    (void)printf(", \"by\": \"unfurl %s\", \"device\": \"%s\", \"math\": \"%s\", \"dtype\": \"%s\""
                 ", \"ms\": %.6f, \"spread\": %.4f, \"waited_ms\": %.6f, \"runs\": %" PRId64,
                 uf_version(), uf_context_description(context), bench_math_names[s->math],
                 uf_dtype_name(s->dtype), r->queued.ms, r->queued.spread, r->waited.ms, r->runs);
    if (r->kernels >= 0) {
        (void)printf(", \"kernels\": %" PRId64, r->kernels);
    } else {
        (void)printf(", \"kernels\": null");
    }
    (void)printf(", \"bytes\": %zu, \"peak_bytes\": %zu, \"program_bytes\": %zu, "
                 "\"store_bytes\": %zu",
                 r->bytes, r->peak, r->program, r->stores);
    print_figures("first", r, r->first);
    print_figures("third", r, r->third);
    print_figures("last", r, r->last);
    for (int32_t i = 0; i < r->kernel_times.row_count; ++i) {
        const bench_kernel_time *const row = &r->kernel_times.rows[i];
        (void)printf("%s{\"name\": \"%s\", \"launches\": %.3g, \"us\": %.4f}",
                     i > 0 ? ", " : ", \"by_kernel\": [", row->name,
                     (double)row->count / (double)r->profiled, row->us / (double)r->profiled);
    }
    (void)printf("%s", r->kernel_times.row_count > 0 ? "]" : "");
    (void)printf("}\n");
}

static void print_head(void) {
    (void)printf("%-18s %5s %-4s %-4s %10s %6s %10s %7s %9s %9s %9s  %s\n", "model", "batch",
                 "math", "type", "ms", "spread", "waited ms", "kernels", "MiB", "program", "peak",
                 "first to last");
}

static void print_text(const bench_model_setting *s, const bench_model_result *r) {
    char kernels[24] = "-";
    if (r->kernels >= 0) {
        (void)snprintf(kernels, sizeof kernels, "%" PRId64, r->kernels);
    }
    (void)printf("%-18s %5" PRId64 " %-4s %-4s %10.4f %5.1f%% %10.4f %7s %9.1f %9.1f %9.1f ",
                 s->row->name, s->size.batch, bench_math_names[s->math], uf_dtype_name(s->dtype),
                 r->queued.ms, 100.0 * r->queued.spread, r->waited.ms, kernels,
                 (double)r->bytes / MEBIBYTE, (double)r->program / MEBIBYTE,
                 (double)r->peak / MEBIBYTE);
    for (int32_t i = 0; i < r->figure_count; ++i) {
        (void)printf(" %s %.4f to %.4f", r->names[i], r->first[i], r->last[i]);
    }
    (void)printf("\n");
}

/* A run's launches, microseconds and share of the sum, by kernel. */
static void print_kernels(const bench_model_result *r) {
    const double runs = (double)r->profiled;
    for (int32_t i = 0; i < r->kernel_times.row_count; ++i) {
        const bench_kernel_time *const row = &r->kernel_times.rows[i];
        (void)printf("  %7.1f %10.1f us %5.1f %%  %s\n", (double)row->count / runs, row->us / runs,
                     100.0 * row->us / r->kernel_times.us, row->name);
    }
    if (r->kernel_times.row_count > 0) {
        (void)printf("  %7.1f %10.1f us          kernels alone\n",
                     (double)r->kernel_times.count / runs, r->kernel_times.us / runs);
    }
}

static bool run_row(const bench_model_options *o, const bench_model_setting *setting) {
    uf_context_options options = uf_context_options_default();
    uf_context *context = NULL;
    bench_model_result result;
    options.device = o->device;
    options.threads = o->threads > 0 ? o->threads : options.threads;
    uf_status status = uf_context_create(&options, &context);
    if (status == UF_OK) {
        status = bench_model_measure(context, setting, &result);
    }
    if (status != UF_OK) {
        (void)fprintf(stderr, "bench_models: %s, batch %" PRId64 ", %s, %s: %s\n",
                      setting->row->name, setting->size.batch, bench_math_names[setting->math],
                      uf_dtype_name(setting->dtype), uf_last_error());
    } else if (o->json) {
        print_json(context, setting, &result);
    } else {
        print_text(setting, &result);
        print_kernels(&result);
    }
    (void)fflush(stdout);
    uf_context_destroy(context);
    return status == UF_OK;
}

/* The number of models that could not be timed. */
static int run_all(const bench_model_options *o) {
    int failed = 0;
    if (!o->list && !o->json) {
        print_head();
    }
    for (int32_t row = 0; row < bench_model_row_count; ++row) {
        bench_model_setting setting = {.row = &bench_model_rows[row],
                                       .dtype = o->dtype,
                                       .capture = o->capture,
                                       .profile = o->kernels,
                                       .budget_ms = o->budget_ms};
        for (int i = 0; bench_model_wanted(o, setting.row) &&
                        bench_model_size_of(o, setting.row, i, &setting.size);
             ++i) {
            if (o->list) {
                print_row_fields(setting.row, &setting.size);
                (void)printf("}\n");
                continue;
            }
            for (int math = 0; math < BENCH_MATHS; ++math) {
                setting.math = (uf_math)math;
                failed += (o->math < 0 || o->math == math) && !run_row(o, &setting);
            }
        }
    }
    return failed;
}

int main(int argc, char **argv) {
    bench_model_options o;
    char error[256];
    if (!bench_model_options_parse(argc, argv, &o, error, sizeof error)) {
        (void)fprintf(stderr, "bench_models: %s\n%s", error, bench_models_usage);
        return 2;
    }
    if (o.help) {
        (void)fputs(bench_models_usage, stdout);
        return 0;
    }
    const int failed = run_all(&o);
    if (failed > 0) {
        (void)fprintf(stderr, "bench_models: %d models could not be timed\n", failed);
    }
    return failed > 0;
}
