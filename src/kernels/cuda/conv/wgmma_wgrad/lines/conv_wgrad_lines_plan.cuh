/* conv_wgrad_lines_plan.cuh - the plan of conv_wgrad_lines.cu: rows, columns, box, stages and
 * splits, from the shape alone. Columns, boxes and lines are those of conv_wgrad_mma_plan.cuh; here
 * the columns are the rows of a product. */
#ifndef UF_KERNELS_CUDA_CONV_WGRAD_LINES_PLAN_CUH
#define UF_KERNELS_CUDA_CONV_WGRAD_LINES_PLAN_CUH

#include "kernels/cuda/conv/mma_implicit_gemm/conv_wgrad_mma_plan.cuh"

enum {
    LINES_PRODUCERS = 8,                  /* warps that copy */
    LINES_CONSUMERS = 2,                  /* warpgroups that multiply */
    LINES_M = 64,                         /* columns of a product */
    LINES_ENTRIES = 1024,                 /* of the table of places, at most */
    LINES_SHARED = 227 << 10,             /* bytes of a block */
    LINES_BLOCKS = 132,                   /* one per multiprocessor of a large GPU */
    LINES_STAGES = 16,                    /* at most */
    LINES_CACHED = 12 << 20,              /* elements that the second-level cache holds */
    LINES_BARRIERS = 2 * LINES_STAGES * 8 /* bytes */
};

/* Channels of y in a product, and those that FP32 sums at once; products of each of two warpgroups,
 * in FP32 and otherwise. */
#define UF_LINES_TILES                                                                             \
    UF_LINES_TILE(32, 32, 6, 6)                                                                    \
    UF_LINES_TILE(64, 64, 2, 5)                                                                    \
    UF_LINES_TILE(128, 64, 2, 2)

struct lines_plan {
    wgrad_plan sums;
    int32_t products;      /* per block, each of LINES_M columns */
    int32_t group_warps;   /* that fill a stage together */
    int32_t plane;         /* bytes from one piece of 16 bytes of a row of y to the next */
    int32_t set;           /* bytes of one set of planes; there are two unless math is TF32 */
    int32_t operand[2][4]; /* 16-byte units from a stage to the planes of a product, by set */
    int32_t vector;        /* words of x that are copied at once: 4, 2 or 1, see lines_lay */
    int32_t lead;          /* words of a row of a box before the first that a tap reads */
    int32_t tap_w;         /* words from a column of lines[1] to the next */
    int32_t run[WGRAD_PIXELS / 4]; /* bytes of x from pixel 0 to pixels 0, 4, 8 ... */
    double clocks;                 /* an estimate for an H200 */
};

static inline UF_HD constexpr int32_t lines_per_piece(uf_math math) {
    return math == UF_MATH_BF16 ? 8 : 4;
}

/* Word of a column's pixel 0 in a stage's x. Columns past the last read something that is there. */
static inline UF_HD int32_t lines_column_offset(const lines_plan &plan, int32_t first_column,
                                                int32_t column) {
    const wgrad_plan &p = plan.sums;
    if (column >= p.all_columns) {
        return 0;
    }
    const wgrad_column at = wgrad_column_of(p, column);
    const int32_t r = at.tap / p.taps_w;
    const int32_t local = at.channel - wgrad_first_block(p, first_column) * p.channels;
    return local * p.pitch + wgrad_line_start(p.lines[0], r) * p.step_h +
           wgrad_line_start(p.lines[1], at.tap - r * p.taps_w) * plan.tap_w + plan.lead;
}

static inline UF_HD wgrad_place lines_place_of(const lines_plan &plan, int32_t first_column,
                                               int32_t entry) {
    const wgrad_plan &p = plan.sums;
    if (plan.vector == 1) {
        return wgrad_place_of(p, first_column, entry);
    }
    const int32_t across = p.lines[1].count / plan.vector;
    const int32_t plane = p.lines[0].count * across;
    wgrad_place place;
    place.n = entry / plane;
    entry -= place.n * plane;
    const int32_t row = entry / across;
    const int32_t column = (entry - row * across) * plan.vector;
    place.h = wgrad_line_source(p.lines[0], row);
    place.w = column - plan.lead;
    place.to = place.n * p.step_n + row * p.step_h + column;
    place.from = place.n * p.x_stride[0] + place.h * p.x_stride[2] + place.w;
    return place;
}

/* The layout of x. Where rows of x are aligned to 4 or 2 words and stay so from box to box, whole
 * aligned runs of a row are copied, with what no tap reads: a pixel is then `stride` words from the
 * next. Otherwise as wgrad_band has it. */
static inline bool lines_lay(lines_plan &plan, int32_t vector) {
    wgrad_plan &p = plan.sums;
    plan.vector = vector;
    plan.lead = 0;
    if (vector == 1) {
        if (!wgrad_band(p, LINES_ENTRIES, LINES_SHARED)) {
            return false;
        }
        plan.tap_w = p.step_w;
    } else {
        const int64_t q = 1 << p.log_q, rows = 1 << p.log_p,
                      images = WGRAD_PIXELS >> (p.log_q + p.log_p);
        const int64_t kernel_h = p.taps / p.taps_w, kernel_w = p.taps_w;
        if (q < 4 || q * p.stride[1] % vector != 0 || kernel_h > LINES_ENTRIES ||
            kernel_w > LINES_ENTRIES) {
            return false;
        }
        plan.lead = (vector - p.padding[1] % vector) % vector;
        const int64_t last = plan.lead + (q - 1) * p.stride[1] + (kernel_w - 1) * p.dilation[1];
        const int64_t length = (last + vector) / vector * vector;
        p.lines[0] = wgrad_lines_of(rows, kernel_h, p.stride[0], p.dilation[0]);
        const int64_t words = images * p.lines[0].count * length;
        if (length > LINES_ENTRIES || words > LINES_ENTRIES) {
            return false;
        }
        const wgrad_lines across = {1, p.dilation[1],  1, p.dilation[1], (int32_t)length,
                                    1, (int32_t)length};
        p.lines[1] = across;
        p.entries = (int32_t)(words / vector);
        p.step_w = p.stride[1];
        p.step_h = (int32_t)length;
        p.step_n = p.step_h * p.lines[0].count;
        p.pitch = (int32_t)((words + 3) / 8 * 8 + 4);
        plan.tap_w = 1;
        if (!wgrad_spread(p, LINES_SHARED)) {
            return false;
        }
    }
    for (int i = 0; i < WGRAD_PIXELS / 4; ++i) {
        plan.run[i] = 4 * wgrad_pixel_offset(p, 4 * i);
    }
    return true;
}

/* Clocks of a multiprocessor for a box: the tensor cores' 1024 products, shared memory's 32 words,
 * the issue of four instructions, and the copies, which take longer than their words. */
static inline double lines_box_clocks(const lines_plan &plan, uf_math math) {
    const wgrad_plan &p = plan.sums;
    /* Of fragments: 4 steps, 4 warps, 4 words. Where rows lie as they are, pixels that are an even
     * number of words apart meet in half the banks, a multiple of four in a quarter. */
    const double words = 64.0 * plan.products;
    const double loads = words * (plan.vector > 1 ? (double)uf_gcd(p.stride[1], 4) : 1.0);
    const double pieces = p.rows * WGRAD_PIXELS / 128.0;
    const double copies = (double)(p.span * p.channels) * ((p.entries + 31) / 32);
    double tensor = plan.products * 2.0 * p.rows, shared = loads, issue = words * 3.0;
    double read = plan.products * (double)p.rows; /* y by the products */
    double part = 0.15, waits = 0.0;              /* of what is not the slowest; of the copies */
    if (math == UF_MATH_FP32 && p.rows <= 64) {
        /* Products, which narrow ones' splits and sums outlast, and the end of a box. Measured:
         * what is loaded for products waits behind copies. */
        tensor = plan.products * (p.rows == 32 ? 7.5 : 6.0) * p.rows + 500.0;
        read *= 3.0;
        issue = words * 7.0 + plan.products * 4.0 * p.rows;
        part = 0.05;
        waits = 0.35;
    } else if (math == UF_MATH_FP32) {
        /* Measured: products, and what a box waits for. */
        tensor *= 3.0;
        tensor += 700.0;
        read *= 3.0;
        issue = words * 7.0 + plan.products * 4.0 * p.rows;
        part = 0.08;
        waits = 0.1;
    } else if (math == UF_MATH_BF16) {
        tensor *= 0.5;
        read *= 0.5;
    }
    shared += read + (double)p.x_words / 32.0 + pieces * 12.0;
    issue = (issue + copies * 8.0 + pieces * (p.vector_y ? 20.0 : 50.0)) / 4.0;
    const double copying =
        copies * (plan.vector == 4 ? 16.0 : 12.0) + pieces * (p.vector_y ? 16.0 : 40.0);
    /* From the second-level cache, by sectors of 8 words. */
    const int32_t q = 1 << p.log_q, rows = WGRAD_PIXELS >> p.log_q,
                  images = WGRAD_PIXELS >> (p.log_q + p.log_p);
    const double sectors = (double)p.rows * rows * (q <= 8 ? (p.vector_y ? 1.0 : 1.5) : q / 8.0) +
                           (double)(p.span * p.channels * images * p.lines[0].count) *
                               ((p.lines[1].count * (plan.vector > 1 ? 1 : p.stride[1]) + 7) / 8.0);
    const double memory = sectors * 32.0 / 28.0;
    double most = tensor > memory ? tensor : memory;
    most = most > shared ? most : shared;
    most = most > issue ? most : issue;
    most = most > copying ? most : copying;
    return most + part * (tensor + shared + issue + memory) + waits * copying + 40.0;
}

/* Stages, as many as there is room for; false where there are less than two. */
static inline bool lines_stages(lines_plan &plan, uf_math math) {
    wgrad_plan &p = plan.sums;
    const int32_t pieces = WGRAD_PIXELS / lines_per_piece(math);
    /* Lanes that write different planes meet different banks. */
    plan.plane = p.rows * 16 + 128 / pieces;
    plan.set = pieces * plan.plane;
    for (int step = 0; step < 4; ++step) {
        plan.operand[0][step] = step * 2 * plan.plane / 16;
        plan.operand[1][step] = (plan.set + step * 2 * plan.plane) / 16;
    }
    p.stage_words = p.x_words + plan.set * (math == UF_MATH_TF32 ? 1 : 2) / 4;
    const int32_t before = LINES_BARRIERS + wgrad_table_bytes(p);
    p.stages = (LINES_SHARED - before) / (p.stage_words * 4);
    /* One stage more than warps that fill them, and a warp asks for its next box before it rounds the
     * one that products wait for: kb57 in TF32 took 4.0 ms instead of 2.8. */
    const int32_t most = math == UF_MATH_FP32 ? LINES_STAGES : LINES_PRODUCERS;
    p.stages = p.stages > most ? most : p.stages;
    if (p.stages < 2) {
        return false;
    }
    p.shared_bytes = before + p.stages * p.stage_words * 4;
    plan.group_warps = 1;
    while (plan.group_warps * p.stages < LINES_PRODUCERS) {
        plan.group_warps *= 2;
    }
    return true;
}

/* The widest copies of x that its strides allow. */
static inline int32_t lines_widest(const wgrad_plan &p) {
    int32_t vector = p.x_stride[3] == 1 ? 4 : 1;
    while (vector > 1 && (p.large[1] % vector != 0 || p.x_stride[0] % vector != 0 ||
                          p.x_stride[1] % vector != 0 || p.x_stride[2] % vector != 0)) {
        vector /= 2;
    }
    return vector;
}

/* Where the box and the tile fit: the clocks of a box, else -1. */
static inline double lines_try(lines_plan &plan, uf_math math, int32_t rows, int32_t products,
                               int32_t log_q, int32_t log_p, int32_t vector) {
    wgrad_plan &p = plan.sums;
    wgrad_cut(p, rows, products * LINES_M, true, log_q, log_p);
    plan.products = products;
    p.vector_y = p.log_q >= 2 && p.small[1] % 4 == 0 && p.y_stride[3] == 1 &&
                 p.y_stride[0] % 4 == 0 && p.y_stride[1] % 4 == 0 && p.y_stride[2] % 4 == 0;
    if (!lines_lay(plan, vector) || !lines_stages(plan, math)) {
        return -1.0;
    }
    return lines_box_clocks(plan, math) * (p.stages == 2 ? 1.5 : 1.0);
}

/* Blocks that go on to another tile keep more in registers: no room beside five products of 64. */
static inline UF_HD constexpr bool lines_shares(uf_math math, int32_t rows) {
    return math == UF_MATH_FP32 || rows != 64;
}

/* Clocks to write so many sums of a tile and to add them. */
static inline double lines_sums_clocks(const wgrad_plan &p, double sums) {
    return sums * p.rows * p.columns * 8.0 / 2000.0;
}

/* Shares of all tiles' boxes instead of splits of each (wgrad_sums_of), where they take fewer
 * clocks than `least`; the clocks. Blocks then read other boxes than their neighbours: both tensors
 * must fit the second-level cache. */
static inline double lines_share(lines_plan &plan, uf_math math, double clocks, int64_t longest,
                                 double least) {
    wgrad_plan &p = plan.sums;
    const int64_t all = (int64_t)p.tiles * p.all_boxes;
    const double elements = (double)p.batch * p.groups *
                            ((double)p.c_per_group * p.large[0] * p.large[1] +
                             (double)p.k_per_group * p.small[0] * p.small[1]);
    if (!lines_shares(math, p.rows) || all < LINES_BLOCKS || all >= INT64_C(1) << 30 ||
        elements > LINES_CACHED) {
        return least;
    }
    const int64_t waves = wgrad_div_up(all, LINES_BLOCKS * longest);
    const int64_t share = wgrad_div_up(all, waves * LINES_BLOCKS);
    const double sums = (double)wgrad_div_up(all, share) + p.tiles;
    const double cost = (double)waves * ((double)share * clocks + 3000.0) +
                        lines_sums_clocks(p, sums) +
                        2000.0 * (double)p.tiles / LINES_BLOCKS; /* a block's next tile */
    if (cost >= least) {
        return least;
    }
    p.share = (int32_t)share;
    p.splits = (int32_t)((p.all_boxes - 1) / share + 2); /* of a tile, at most */
    return cost;
}

/* Whole waves of blocks; the clocks of everything. Long sums inside the tensor core, which
 * truncates, are kept below 16384 pixels where nothing else shortens them. */
static inline double lines_split(lines_plan &plan, uf_math math, double clocks) {
    wgrad_plan &p = plan.sums;
    const int64_t longest = math == UF_MATH_FP32 ? 1024 : 512;
    int64_t least = wgrad_div_up(p.all_boxes, longest);
    least = least < 1 ? 1 : least > 32768 ? 32768 : least;
    const int64_t first = wgrad_div_up(least * p.tiles, LINES_BLOCKS);
    double best = -1.0;
    p.splits = (int32_t)least;
    p.share = 0;
    for (int64_t wave = first; wave < first + 5; ++wave) {
        int64_t splits = wave * LINES_BLOCKS / p.tiles;
        const int64_t halves = p.all_boxes / 2; /* of two boxes at least */
        splits = splits > halves ? halves : splits;
        splits = splits < least ? least : splits;
        const int64_t waves = wgrad_div_up(p.tiles * splits, LINES_BLOCKS);
        const double cost =
            (double)waves * ((double)wgrad_div_up(p.all_boxes, splits) * clocks + 3000.0) +
            lines_sums_clocks(p, (double)(splits * p.tiles));
        if (best < 0.0 || cost < best) {
            best = cost;
            p.splits = (int32_t)splits;
        }
    }
    best = lines_share(plan, math, clocks, longest, best);
    p.adders = p.splits >= 16 ? 8 : 1;
    return best;
}

/* The best box and splits for tiles of so many rows, in up to `most` products per block: into
 * `best` where they take fewer clocks than `least`. */
static inline void lines_consider(lines_plan plan, uf_math math, int32_t rows, int32_t most,
                                  lines_plan &best, double &least) {
    const int64_t channels = plan.sums.c_per_group < 8 ? plan.sums.c_per_group : 8;
    const int64_t columns =
        wgrad_div_up(plan.sums.c_per_group, channels) * channels * plan.sums.taps;
    const int64_t all = wgrad_div_up(columns, LINES_M);
    const int64_t few = wgrad_div_up(all, most);
    const int32_t widest = lines_widest(plan.sums);
    int64_t before = 0;
    bool fits = false;
    /* Where much of x goes with few columns, fewer products until it fits. */
    for (int64_t across = few; across < few + 4 || (!fits && before > 1);
         across += across < few + 4 ? 1 : across) {
        const int64_t products = wgrad_div_up(all, across);
        if (products == before) {
            continue;
        }
        before = products;
        double clocks = -1.0;
        lines_plan chosen = plan;
        for (int32_t box = 0; box < 36; ++box) {
            const int32_t log_q = box / 6, log_p = box % 6;
            /* Boxes that half of them would hold as well are none. */
            if (log_q + log_p > 5 || (log_q > 0 && 1 << (log_q - 1) >= plan.sums.small[1]) ||
                (log_p > 0 && 1 << (log_p - 1) >= plan.sums.small[0])) {
                continue;
            }
            /* What single words do not fit is left out: tensors may turn out not to be aligned. */
            double one = 0.0;
            for (int32_t vector = 1; vector <= widest && one >= 0.0;
                 vector = vector < widest ? widest : 8) {
                one = lines_try(plan, math, rows, (int32_t)products, log_q, log_p, vector);
                if (one >= 0.0 &&
                    (clocks < 0.0 || one * plan.sums.all_boxes < clocks * chosen.sums.all_boxes)) {
                    clocks = one;
                    chosen = plan;
                }
            }
        }
        if (clocks >= 0.0) {
            fits = true;
            const double cost = lines_split(chosen, math, clocks);
            if (least < 0.0 || cost < least) {
                least = cost;
                best = chosen;
                best.clocks = cost;
            }
        }
    }
}

/* The plan; `rows` is 0 where nothing fits. */
static inline lines_plan lines_plan_of(const uf_conv_kernel_args *args) {
    lines_plan plan;
    memset((void *)&plan, 0, sizeof plan);
    plan.sums = wgrad_begin(args);
    lines_plan best = plan;
    double least = -1.0;
    const bool fp32 = args->math == UF_MATH_FP32;
#define UF_LINES_TILE(ROWS, PART, MOST32, MOST)                                                    \
    if (ROWS == 32 || plan.sums.k_per_group > ROWS / 2) {                                          \
        lines_consider(plan, args->math, ROWS, LINES_CONSUMERS *(fp32 ? MOST32 : MOST), best,      \
                       least);                                                                     \
    }
    UF_LINES_TILES
#undef UF_LINES_TILE
    return best;
}

/* The same for tensors that are where they are: copies as wide as that allows. */
static inline lines_plan lines_plan_at(const uf_conv_kernel_args *args) {
    lines_plan plan = lines_plan_of(args);
    if (plan.vector > 1 && (uintptr_t)plan.sums.x % 16 != 0) {
        lines_lay(plan, 1);
        lines_stages(plan, args->math);
    }
    plan.sums.vector_y = plan.sums.vector_y && (uintptr_t)plan.sums.y % 16 == 0;
    return plan;
}

#endif
