/* clang-format off */
/* autotune_file.c - the text file of tuned convolutions:
 *
 *     unfurl tuning 3
 *     device NVIDIA H200 (CUDA)
 *     version 0.2.0
 *     conv_dgrad f32 tf32 n 8 c 64 h 66 w 66 k 64 p 64 q 64 r 3 s 3 stride 1 1 padding 0 0
 *         dilation 1 1 groups 1 variant wgmma_implicit_gemm tile 5 ms 0.0123
 *
 * (one line each). Letters are those of the convolution's large side (n, c, h, w), small side (n,
 * k, p, q) and filter (r, s). A tile is a number (conv/plan.h) or "any": the variant takes the one
 * that it would. Files of format 2 name no tiles, and mean any. Empty lines and lines that begin
 * with # say nothing. */
/* clang-format on */
#include "kernels/cuda/conv/select/autotune.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unfurl/context.h>

#include "core/atomic_file.h"

enum { LINE_SIZE = 1024, MOST_TOKENS = 48 };

enum { MOST_TILE = 9999 };

static const char first_line[] = "unfurl tuning 3", without_tiles[] = "unfurl tuning 2";
static const char *const directions[] = {"conv_fprop", "conv_dgrad", "conv_wgrad", NULL};
static const char *const maths[] = {"fp32", "tf32", "bf16", NULL};
static const char *const dtypes[] = {"f32", "f64", "bf16", NULL};
static const uf_dtype dtype_of[] = {UF_F32, UF_F64, UF_BF16}; /* in that order */

/* The numbers of a line, in this order. */
static const struct {
    const char *name;
    size_t offset;
    int count;
} fields[] = {
#define FIELD(name, count)                                                                         \
    { #name, offsetof(uf_conv_key, name), count }
    FIELD(n, 1),       FIELD(c, 1),        FIELD(h, 1),      FIELD(w, 1), FIELD(k, 1),
    FIELD(p, 1),       FIELD(q, 1),        FIELD(r, 1),      FIELD(s, 1), FIELD(stride, 2),
    FIELD(padding, 2), FIELD(dilation, 2), FIELD(groups, 1),
#undef FIELD
};
enum { FIELDS = (int)(sizeof fields / sizeof fields[0]) };

static int64_t *numbers_of(uf_conv_key *key, int field) {
    return (int64_t *)(void *)((char *)key + fields[field].offset);
}

static uf_status write_row(uf_atomic_file *file, const uf_conv_tuned *row) {
    char line[LINE_SIZE];
    uf_conv_key key = row->key;
    int dtype = 0;
    while (dtypes[dtype + 1] != NULL && dtype_of[dtype] != (uf_dtype)key.dtype) {
        ++dtype;
    }
    size_t used = (size_t)snprintf(line, sizeof line, "%s %s %s", directions[key.direction],
                                   dtypes[dtype], maths[key.math]);
    for (int f = 0; f < FIELDS; ++f) {
        used += (size_t)snprintf(line + used, sizeof line - used, " %s", fields[f].name);
        for (int i = 0; i < fields[f].count; ++i) {
            used += (size_t)snprintf(line + used, sizeof line - used, " %" PRId64,
                                     numbers_of(&key, f)[i]);
        }
    }
    used += (size_t)snprintf(line + used, sizeof line - used, " variant %s tile ",
                             uf_cuda_conv_variant_name(row->variant));
    used += row->tile == UF_CONV_ANY_TILE
                ? (size_t)snprintf(line + used, sizeof line - used, "any")
                : (size_t)snprintf(line + used, sizeof line - used, "%d", row->tile);
    used += (size_t)snprintf(line + used, sizeof line - used, " ms %.6g\n", row->ms);
    return uf_atomic_write(file, line, used);
}

/* The thread in the C locale, while a file is written or read: a host program's locale may want
 * "0,25". */
typedef struct plain_numbers {
    locale_t c, before;
} plain_numbers;

static uf_status enter_plain(plain_numbers *state) {
    state->before = (locale_t)0;
    state->c = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    if (state->c == (locale_t)0) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a locale");
    }
    state->before = uselocale(state->c);
    return UF_OK;
}

static void epilogue_plain(const plain_numbers *state) {
    (void)uselocale(state->before);
    freelocale(state->c);
}

static uf_status write_file(const uf_conv_tuning *tuning, const char *device, const char *path) {
    uf_atomic_file file;
    char head[LINE_SIZE];
    uf_status status = uf_atomic_begin(path, &file);
    if (status != UF_OK) {
        return status;
    }
    const int used = snprintf(head, sizeof head, "%s\ndevice %s\nversion %s\n", first_line, device,
                              uf_version());
    status = uf_atomic_write(&file, head, (size_t)used);
    for (int64_t i = 0; status == UF_OK && i < tuning->count; ++i) {
        status = write_row(&file, &tuning->rows[i]);
    }
    if (status != UF_OK) {
        uf_atomic_abort(&file);
        return status;
    }
    return uf_atomic_commit(&file);
}

uf_status uf_conv_tuning_write(const uf_conv_tuning *tuning, const char *device, const char *path) {
    plain_numbers state;
    UF_TRY(enter_plain(&state));
    const uf_status status = write_file(tuning, device, path);
    epilogue_plain(&state);
    return status;
}

/* One line cut at its blanks; `at` goes from token to token. */
typedef struct words {
    char *token[MOST_TOKENS];
    int count, at;
} words;

static bool split(char *line, words *made) {
    char *rest = NULL;
    memset(made, 0, sizeof *made);
    for (char *token = strtok_r(line, " \t", &rest); token != NULL;
         token = strtok_r(NULL, " \t", &rest)) {
        if (made->count == MOST_TOKENS) {
            return false;
        }
        made->token[made->count++] = token;
    }
    return true;
}

static const char *next(words *line) {
    return line->at < line->count ? line->token[line->at++] : "";
}

static bool expect(words *line, const char *word) {
    return strcmp(next(line), word) == 0;
}

/* One of the words of a list, as its index. */
static bool index_of(words *line, const char *const *list, int64_t *index) {
    const char *word = next(line);
    for (*index = 0; list[*index] != NULL; ++*index) {
        if (strcmp(word, list[*index]) == 0) {
            return true;
        }
    }
    return false;
}

static bool number(words *line, int64_t *value) {
    const char *word = next(line);
    char *end = NULL;
    errno = 0;
    *value = strtoll(word, &end, 10);
    return *word >= '0' && *word <= '9' && *end == '\0' && errno == 0 && *value < INT64_C(1) << 62;
}

static bool parse_variant(words *line, uf_cuda_conv_variant *variant) {
    const char *word = next(line);
    for (int v = 0; v < UF_CUDA_CONV_VARIANTS; ++v) {
        if (strcmp(word, uf_cuda_conv_variant_name((uf_cuda_conv_variant)v)) == 0) {
            *variant = (uf_cuda_conv_variant)v;
            return true;
        }
    }
    return false;
}

static bool parse_tile(words *line, int *tile) {
    int64_t value;
    if (line->at < line->count && strcmp(line->token[line->at], "any") == 0) {
        ++line->at;
        *tile = UF_CONV_ANY_TILE;
        return true;
    }
    const bool good = number(line, &value) && value <= MOST_TILE;
    *tile = good ? (int)value : UF_CONV_ANY_TILE;
    return good;
}

/* NULL, or what is wrong with the line. */
static const char *parse_row(char *text, bool has_tile, uf_conv_tuned *row) {
    words line;
    memset(row, 0, sizeof *row);
    if (!split(text, &line)) {
        return "it has too many words";
    }
    if (!index_of(&line, directions, &row->key.direction)) {
        return "it begins with no convolution";
    }
    int64_t dtype;
    if (!index_of(&line, dtypes, &dtype)) {
        return "its element type is none of f32, f64, bf16";
    }
    row->key.dtype = dtype_of[dtype];
    if (!index_of(&line, maths, &row->key.math)) {
        return "its math is none of fp32, tf32, bf16";
    }
    for (int f = 0; f < FIELDS; ++f) {
        bool good = expect(&line, fields[f].name);
        for (int i = 0; good && i < fields[f].count; ++i) {
            good = number(&line, &numbers_of(&row->key, f)[i]);
        }
        if (!good) {
            return "its geometry is not complete";
        }
    }
    if (!expect(&line, "variant") || !parse_variant(&line, &row->variant)) {
        return "it names no variant of this version";
    }
    row->tile = UF_CONV_ANY_TILE;
    if (has_tile && (!expect(&line, "tile") || !parse_tile(&line, &row->tile))) {
        return "its tile is neither a number nor any";
    }
    char *end = NULL;
    if (!expect(&line, "ms") || line.at == line.count) {
        return "it has no time";
    }
    row->ms = strtod(next(&line), &end);
    if (*end != '\0' || !isfinite(row->ms) || row->ms < 0.0) {
        return "its time is no number";
    }
    return line.at == line.count ? NULL : "something follows its time";
}

/* The next line without its end; false at the end of the file. A fault of the line goes to *fault.
 */
static bool read_line(FILE *file, char *line, int64_t *number_of_line, const char **fault) {
    *fault = NULL;
    memset(line, 0, LINE_SIZE);
    if (fgets(line, LINE_SIZE, file) == NULL) {
        return false;
    }
    ++*number_of_line;
    char *end = strchr(line, '\n');
    /* A line may hold NUL bytes: then strchr finds nothing, and neither does a line that is too
     * long. */
    if (end == NULL && !feof(file)) {
        *fault = "it is too long, or not text";
        return true;
    }
    end = end != NULL ? end : line + strlen(line);
    if (end > line && end[-1] == '\r') {
        --end;
    }
    *end = '\0';
    return true;
}

/* "word rest": the rest must be `wanted`. */
static bool says(const char *line, const char *word, const char *wanted, bool *same) {
    const size_t length = strlen(word);
    if (strncmp(line, word, length) != 0 || line[length] != ' ') {
        return false;
    }
    *same = strcmp(line + length + 1, wanted) == 0;
    return true;
}

static uf_status read_rows(FILE *file, const char *device, const char *path, uf_conv_tuning *found,
                           const char **ignored) {
    char line[LINE_SIZE];
    const char *fault;
    int64_t at = 0;
    int head = 0; /* lines of it that were seen */
    bool has_tiles = true;
    while (read_line(file, line, &at, &fault)) {
        uf_conv_tuned row;
        bool same = true;
        if (fault == NULL && (line[0] == '#' || line[strspn(line, " \t")] == '\0')) {
            continue;
        }
        if (fault == NULL && head == 0) {
            has_tiles = strcmp(line, without_tiles) != 0;
            fault = !has_tiles || strcmp(line, first_line) == 0
                        ? NULL
                        : "it should be \"unfurl tuning 3\"";
            ++head;
        } else if (fault == NULL && head <= 2) {
            const bool good = head == 1 ? says(line, "device", device, &same)
                                        : says(line, "version", uf_version(), &same);
            fault = good        ? NULL
                    : head == 1 ? "it should name the device"
                                : "it should name the library's version";
            if (!same) {
                *ignored = head == 1 ? "it was made on another device"
                                     : "it was made by another version of unfurl";
                return UF_OK;
            }
            ++head;
        } else if (fault == NULL) {
            fault = parse_row(line, has_tiles, &row);
            if (fault == NULL && uf_conv_tuning_find(found, &row.key) != NULL) {
                fault = "it repeats the convolution of an earlier line";
            }
            if (fault == NULL) {
                UF_TRY(uf_conv_tuning_set(found, &row));
            }
        }
        if (fault != NULL) {
            UF_FAIL(UF_ERROR_FORMAT, "%s, line %" PRId64 ": %s", path, at, fault);
        }
    }
    if (ferror(file)) {
        UF_FAIL(UF_ERROR_IO, "%s: cannot be read: %s", path, strerror(errno));
    }
    if (head < 3) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s, line %" PRId64 ": the file ends before it has named its device and version",
                path, at + 1);
    }
    return UF_OK;
}

uf_status uf_conv_tuning_read(uf_conv_tuning *tuning, const char *device, const char *path,
                              const char **ignored) {
    uf_conv_tuning found;
    plain_numbers state;
    memset(&found, 0, sizeof found);
    *ignored = NULL;
    UF_TRY(uf_conv_tuning_check_unused(tuning));
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        UF_FAIL(errno == ENOENT ? UF_ERROR_NOT_FOUND : UF_ERROR_IO, "%s: cannot be opened: %s",
                path, strerror(errno));
    }
    uf_status status = enter_plain(&state);
    if (status == UF_OK) {
        status = read_rows(file, device, path, &found, ignored);
        epilogue_plain(&state);
    }
    (void)fclose(file);
    /* Room first: a table that is half merged would be neither. */
    uf_conv_tuning merged;
    memset(&merged, 0, sizeof merged);
    for (int64_t i = 0; status == UF_OK && i < tuning->count; ++i) {
        status = uf_conv_tuning_set(&merged, &tuning->rows[i]);
    }
    for (int64_t i = 0; status == UF_OK && i < found.count; ++i) {
        status = uf_conv_tuning_set(&merged, &found.rows[i]);
    }
    uf_conv_tuning_release(&found);
    if (status != UF_OK) {
        uf_conv_tuning_release(&merged);
        return status;
    }
    uf_conv_tuning_release(tuning);
    *tuning = merged;
    return UF_OK;
}
