/* bench_layers.c - times single layers that are bound by memory, forward and backward, beside the
 * copy speed measured in the same run. `bench_layers --help` says how it is called. */
#include <inttypes.h>
#include <stdio.h>

#include "layer_options.h"
#include "layer_run.h"

/* The aim, of copy speed. */
#define AIM 0.8

typedef struct counts {
    int steps, below, failed;
} counts;

/* (16, 64, 256, 256) as "16x64x256x256". */
static void format_shape(char *text, size_t size, const uf_shape *shape) {
    size_t at = 0;
    (void)snprintf(text, size, "%s", shape->rank == 0 ? "1" : "");
    for (int32_t i = 0; i < shape->rank && at < size; ++i) {
        at += (size_t)snprintf(text + at, size - at, "%s%" PRId64, i > 0 ? "x" : "",
                               shape->extent[i]);
    }
}

static void print_json_shape(const char *key, const uf_shape *shape) {
    (void)printf(", \"%s\": [", key);
    for (int32_t i = 0; i < shape->rank; ++i) {
        (void)printf("%s%" PRId64, i > 0 ? ", " : "", shape->extent[i]);
    }
    (void)printf("]");
}

static void print_json(uf_context *context, const bench_layer_options *o,
                       const bench_layer_row *row, const bench_layer_result *r, int direction,
                       double copy_rate) {
    const bench_layer_time *const t = &r->times[direction];
    const double rate = t->bytes / (1e-3 * t->timing.ms);
    (void)printf("{\"name\": \"%s\", \"layer\": \"%s\", \"direction\": \"%s\", \"dtype\": \"%s\"",
                 row->name, r->layer, bench_layer_directions[direction], uf_dtype_name(o->dtype));
    print_json_shape("input", &r->input);
    print_json_shape("output", &r->output);
    (void)printf(", \"by\": \"unfurl %s\", \"device\": \"%s\", \"ms\": %.9g, \"spread\": %.4f"
                 ", \"runs\": %d, \"bytes\": %.0f, \"bytes_again\": %.0f, \"gbs\": %.9g"
                 ", \"copy_gbs\": %.9g, \"share\": %.9g",
                 uf_version(), uf_context_description(context), t->timing.ms, t->timing.spread,
                 t->timing.runs, t->bytes, t->again, rate / 1e9, copy_rate / 1e9,
                 copy_rate > 0 ? rate / copy_rate : 0.0);
    if (t->kernels >= 0) {
        (void)printf(", \"kernels\": %" PRId64 "}\n", t->kernels);
    } else {
        (void)printf(", \"kernels\": null}\n");
    }
}

static void print_text(const bench_layer_row *row, const bench_layer_result *r, int direction,
                       double copy_rate) {
    const bench_layer_time *const t = &r->times[direction];
    const double rate = t->bytes / (1e-3 * t->timing.ms);
    char shape[64], kernels[24] = "-";
    format_shape(shape, sizeof shape, &r->input);
    if (t->kernels >= 0) {
        (void)snprintf(kernels, sizeof kernels, "%" PRId64, t->kernels);
    }
    (void)printf("%-26s %-8s %-16s %7s %10.4f %5.1f%% %9.3f %8.1f", row->name,
                 bench_layer_directions[direction], shape, kernels, t->timing.ms,
                 100.0 * t->timing.spread, t->bytes / 1e6, rate / 1e9);
    if (copy_rate > 0) {
        (void)printf(" %6.1f%%%s", 100.0 * rate / copy_rate, rate < AIM * copy_rate ? " <" : "");
        if (t->again > 0) {
            (void)printf(" x2: %.1f%%", 100.0 * (1.0 + t->again / t->bytes) * rate / copy_rate);
        }
    }
    (void)printf("\n");
}

static void print_head(uf_context *context, const bench_layer_options *o, double copy_rate) {
    (void)printf("unfurl %s on %s, %s, copy %.1f GB/s\n", uf_version(),
                 uf_context_description(context), uf_dtype_name(o->dtype), copy_rate / 1e9);
    (void)printf("%-26s %-8s %-16s %7s %10s %6s %9s %8s %7s\n", "layer", "step", "input", "kernels",
                 "ms", "spread", "MB", "GB/s", "of copy");
}

static void run_row(uf_context *context, const bench_layer_options *o, const bench_layer_row *row,
                    double copy_rate, counts *n) {
    bench_layer_result r;
    if (bench_layer_measure(context, row, o->dtype, o->quick, o->budget_ms, &r) != UF_OK) {
        (void)fprintf(stderr, "bench_layers: %s: %s\n", row->name, uf_last_error());
        n->failed += 1;
        return;
    }
    for (int direction = 0; direction < BENCH_LAYER_DIRECTIONS; ++direction) {
        const bench_layer_time *const t = &r.times[direction];
        if (!t->there) {
            continue;
        }
        n->steps += 1;
        n->below += t->bytes / (1e-3 * t->timing.ms) < AIM * copy_rate;
        if (o->json) {
            print_json(context, o, row, &r, direction, copy_rate);
        } else {
            print_text(row, &r, direction, copy_rate);
        }
    }
    (void)fflush(stdout);
}

/* The copy moves as many bytes as an elementwise layer, or more. */
static void run_all(uf_context *context, const bench_layer_options *o, counts *n) {
    const bench_layer_size size = bench_layer_size_of(o->dtype, o->quick);
    const double copy_rate = bench_layer_copy_rate(
        context,
        (size_t)(size.batch * size.channels * size.height * size.width) * uf_dtype_size(o->dtype));
    if (!o->json) {
        print_head(context, o, copy_rate);
    }
    for (int32_t row = 0; row < bench_layer_row_count; ++row) {
        if (bench_layer_wanted(o, &bench_layer_rows[row])) {
            run_row(context, o, &bench_layer_rows[row], copy_rate, n);
            if (uf_context_check(context) != UF_OK) {
                return; /* the device is lost, and each row would fail like this one */
            }
        }
    }
    if (!o->json) {
        (void)printf("%d steps, %d below %.0f %% of copy speed\n", n->steps, n->below, 100.0 * AIM);
    }
}

static void print_list(const bench_layer_options *o) {
    for (int32_t row = 0; row < bench_layer_row_count; ++row) {
        if (bench_layer_wanted(o, &bench_layer_rows[row])) {
            (void)printf("%s\n", bench_layer_rows[row].name);
        }
    }
}

int main(int argc, char **argv) {
    bench_layer_options o;
    char error[256];
    if (!bench_layer_options_parse(argc, argv, &o, error, sizeof error)) {
        (void)fprintf(stderr, "bench_layers: %s\n%s", error, bench_layers_usage);
        return 2;
    }
    if (o.help) {
        (void)fputs(bench_layers_usage, stdout);
        return 0;
    }
    if (o.list) {
        print_list(&o);
        return 0;
    }
    uf_context_options options = uf_context_options_default();
    uf_context *context = NULL;
    counts n = {0, 0, 0};
    options.device = o.device;
    if (uf_context_create(&options, &context) != UF_OK) {
        (void)fprintf(stderr, "bench_layers: %s\n", uf_last_error());
        return 2;
    }
    run_all(context, &o, &n);
    uf_context_destroy(context);
    if (n.failed > 0) {
        (void)fprintf(stderr, "bench_layers: %d layers could not be timed\n", n.failed);
    }
    return n.failed > 0;
}
