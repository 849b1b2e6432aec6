/* attack.c - bad command lines by the thousand.
 *
 *   cli_attack UNFURL FIRST COUNT
 *
 * Runs number FIRST to FIRST + COUNT - 1 of one endless list: each number makes the same words
 * every time. A run must end by itself with a status that docs/cli.md names. A failure has one line
 * on stderr that begins with "unfurl: "; success has none; neither stream has control characters.
 */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_WORDS = 24, WORD_SIZE = 9000, OUTPUT_SIZE = 1 << 20, SECONDS = 120, STATUSES = 3 };
enum stdout_kind { STDOUT_FILE, STDOUT_FULL, STDOUT_CLOSED };

struct command_line {
    int count;
    char *words[MAX_WORDS + 1];
    char text[MAX_WORDS][WORD_SIZE];
    enum stdout_kind out;
};

/* splitmix64 */
static uint64_t next(uint64_t *state) {
    uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static bool one_in(uint64_t *state, uint64_t n) {
    return next(state) % n == 0;
}

#define PICK(state, list) ((list)[next(state) % (sizeof(list) / sizeof((list)[0]))])

/* The options of each command; "" ends a list. Work that is asked for is small. */
static const struct {
    const char *name;
    const char *operands[3];
    const char *options[14];
} commands[] = {
    {"upscale",
     {"small.png", "x.png", ""},
     {"weights", "tile", "device", "dtype", "threads", "json", ""}},
    {"upscale", {"small.png", "x.h5", ""}, {"tile", "dtype", "json", ""}},
    {"generate",
     {""},
     {"weights", "out", "count", "seed", "latent", "device", "dtype", "threads", "json", ""}},
    {"generate",
     {"--weights=one.h5", "--out=x.png", ""},
     {"count", "seed", "latent", "dtype", "json", ""}},
    {"generate", {"--weights=one.h5", "--latent=one_z.h5:/z", ""}, {"out", "count", "dtype", ""}},
    {"run",
     {"model.h5", "--input=x=randn", ""},
     {"input", "output", "check", "limit", "seed", "device", "dtype", "json", ""}},
    {"run", {""}, {"input", "output", "profile", "threads", "math", ""}},
    {"codegen", {"model.h5", ""}, {"text", ""}},
    {"inspect", {"one.h5", ""}, {"stats", "trust", "json", ""}},
    {"convert", {"one.h5", "x.h5", ""}, {"format", "names", "dtype", "compress", "json", ""}},
    {"convert", {"one.h5", "x.safetensors", ""}, {"format", "names", "group", "trust", ""}},
    {"diff", {"one.h5", "one_z.h5", ""}, {"tolerance", "trust", "json", ""}},
    {"verify", {"one.h5", ""}, {"trust", "json", ""}},
    {"inspect", {""}, {"json", ""}},
    {"plot", {"table.csv", "--out=x.png", ""}, {"out", "columns", "smooth", "log", "json", ""}},
    {"plot", {""}, {"out", "columns", "smooth", "json", ""}},
    {"gradcheck", {"--layer=add", ""}, {"device", "threads", "seed", "layer", "fast", "json", ""}},
    {"gradcheck", {"--layer", ""}, {"seed", "json", ""}},
    {"parity", {"cases.h5", ""}, {"device", "dtype", "threads", "json", ""}},
    {"parity", {""}, {"dtype", "json", ""}},
    {"tune",
     {""},
     {"layer", "batch", "in", "out", "size", "kernel", "stride", "padding", "dilation", "groups",
      "math", ""}},
    {"tune",
     {"x.txt", "--in=8", "--out=8"},
     {"size", "kernel", "stride", "padding", "output-padding", "groups", "json", ""}},
    {"devices", {""}, {"json", ""}},
    {"help", {""}, {"json", "help", ""}},
    {"--version", {""}, {"json", ""}},
    {"", {""}, {"json", "version", ""}},
};

static const char *const values[] = {
    /* numbers */
    "x=randn",
    "x=randn:2,3",
    "y=x.png",
    "y=x.npy",
    "x=x.npy",
    "0",
    "1",
    "2",
    "3",
    "7",
    "64",
    "-1",
    "-0",
    "+1",
    " 1",
    "1 ",
    "1.5",
    "1e3",
    "0x10",
    "nan",
    "inf",
    "-inf",
    "2147483647",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "99999999999999999999",
    "1048576",
    "3x5",
    "3x",
    "x3",
    "0x0",
    "1048576x1048576",
    "2x99999999999999999999",
    "3x5x7",
    /* choices */
    "cpu",
    "auto",
    "gpu",
    "f32",
    "f64",
    "f16",
    "tf32",
    "conv2d",
    "conv_transpose2d",
    "add",
    "network",
    "CPU",
    /* files: good, bad, missing, special */
    "small.png",
    "one.h5",
    "one_z.h5",
    "cases.h5",
    "strings.h5",
    "text.h5",
    "text.png",
    "cut.h5",
    "cut.png",
    "empty.h5",
    "empty.png",
    "folder",
    "folder.png",
    "no/such/x.png",
    "nowhere.h5",
    "x.png",
    "x.h5",
    "x.gif",
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/",
    ".",
    "..",
    ".png",
    "one_z.h5:/z",
    "one_z.h5:/y",
    "one_z.h5:",
    ":/z",
    ":",
    "strings.h5:/main.0.weight",
    "forged.h5",
    /* words that look like others */
    "",
    "-",
    "--",
    "---",
    "=",
    "--=",
    "-h",
    "-V",
    "--json",
    "--json=1",
    "--help=1",
    "%s%n%d",
    "$(id)",
    "*",
    "'",
    /* a terminal's language */
    "a\nunfurl: done",
    "\x1b[2J",
    "\x1b]0;title\a",
    "\xc2\x9b"
    "31m",
    "\x9b"
    "31m",
    "\r\t\v\f\b\x7f",
    "\xff\xfe",
    "\xe2\x80\xae"
    "gnp.x",
    "\xc0\x8a",
    "\xed\xa0\x80",
    "h\xc3\xa4\xc3\x9f"
    "lich.png",
    "\xf0\x9f\x8c\xb1.h5",
};

static void add_word(struct command_line *line, const char *format, const char *a, const char *b,
                     const char *c) {
    if (line->count < MAX_WORDS) {
        char *text = line->text[line->count];
        (void)snprintf(text, WORD_SIZE, format, a, b, c);
        line->words[line->count++] = text;
    }
}

/* A value of the list, sometimes changed in a byte or made long. */
static const char *make_value(uint64_t *state, char *text) {
    size_t length = (size_t)snprintf(text, WORD_SIZE / 2, "%s", PICK(state, values));
    if (one_in(state, 40)) {
        length = 255 + next(state) % (WORD_SIZE / 2 - 300);
        memset(text, "a\n\x1b\xff"[next(state) % 4], length);
        text[length] = '\0';
    }
    if (length > 0 && one_in(state, 8)) {
        text[next(state) % length] = (char)(1 + next(state) % 255);
    }
    return text;
}

/* The values that the option is meant for, so that some lines come far enough to fail late, or to
 * succeed. */
static void add_good_option(struct command_line *line, const char *name) {
    static const char *const pairs[][2] = {
        {"weights", "one.h5"}, {"out", "x.png"}, {"count", "3"},   {"seed", "7"},
        {"device", "cpu"},     {"dtype", "f64"}, {"threads", "2"}, {"tile", "1"},
        {"layer", "add"},      {"size", "4x6"},  {"kernel", "3"},  {"latent", "one_z.h5:/z"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        if (strcmp(pairs[i][0], name) == 0) {
            add_word(line, "--%s=%s%s", name, pairs[i][1], "");
            return;
        }
    }
    add_word(line, "--%s%s%s", name, "", "");
}

static void add_option(struct command_line *line, uint64_t *state, const char *name) {
    char value[WORD_SIZE / 2];
    make_value(state, value);
    switch (next(state) % 16) {
    case 0:
        add_word(line, "%s%s%s", value, "", ""); /* no option at all */
        break;
    case 1:
        add_word(line, "--%s%s%s", name, "", ""); /* with the next word as its value, or none */
        break;
    case 2:
        add_word(line, "-%s%s%s", name, "", ""); /* one dash */
        break;
    case 3:
    case 4:
        add_word(line, "--%s%s%s", name, "", "");
        add_word(line, "%s%s%s", value, "", "");
        break;
    case 5:
    case 6:
        add_word(line, "--%s=%s%s", name, value, "");
        break;
    default:
        add_good_option(line, name);
        break;
    }
}

static void make_line(uint64_t number, struct command_line *line) {
    uint64_t state = number * UINT64_C(0xD1B54A32D192ED03) + 20;
    memset(line->words, 0, sizeof line->words);
    line->count = 0;
    line->out = one_in(&state, 24) ? STDOUT_FULL : one_in(&state, 24) ? STDOUT_CLOSED : STDOUT_FILE;
    const size_t row = next(&state) % (sizeof commands / sizeof commands[0]);
    char value[WORD_SIZE / 2];
    add_word(line, "%s%s%s", "unfurl", "", "");
    if (commands[row].name[0] != '\0') {
        add_word(line, "%s%s%s", commands[row].name, "", "");
    } else if (!one_in(&state, 4)) {
        add_word(line, "%s%s%s", make_value(&state, value), "", "");
    }
    for (int i = 0;
         i < 3 && commands[row].operands[i] != NULL && commands[row].operands[i][0] != '\0'; i++) {
        const bool other = one_in(&state, 6);
        add_word(line, "%s%s%s", other ? make_value(&state, value) : commands[row].operands[i], "",
                 "");
    }
    size_t options = 0;
    while (commands[row].options[options][0] != '\0') {
        options++;
    }
    for (uint64_t i = next(&state) % 4; i > 0; i--) {
        add_option(line, &state, commands[row].options[next(&state) % options]);
    }
}

/* Single quotes: what a shell would take back. */
static void print_line(uint64_t number, const struct command_line *line) {
    fprintf(stderr, "run %llu%s:", (unsigned long long)number,
            line->out == STDOUT_FULL     ? " >/dev/full"
            : line->out == STDOUT_CLOSED ? " >&-"
                                         : "");
    for (int i = 0; i < line->count; i++) {
        fputs(" $'", stderr);
        for (const char *at = line->words[i]; *at != '\0'; at++) {
            const unsigned char byte = (unsigned char)*at;
            fprintf(stderr,
                    byte < 0x20 || byte > 0x7E || byte == '\'' || byte == '\\' ? "\\x%02x" : "%c",
                    byte);
        }
        fputc('\'', stderr);
    }
    fputc('\n', stderr);
}

static void open_as(int number, const char *path, int flags) {
    const int file = open(path, flags, 0600);
    if (file < 0 || dup2(file, number) != number) {
        _exit(111);
    }
    if (file != number) {
        close(file);
    }
}

static _Noreturn void run_child(const char *program, const struct command_line *line) {
    const struct rlimit seconds = {SECONDS, SECONDS};
    setrlimit(RLIMIT_CPU, &seconds);
    alarm(SECONDS);
    open_as(STDIN_FILENO, "/dev/null", O_RDONLY);
    open_as(STDERR_FILENO, "attack.err", O_WRONLY | O_CREAT | O_TRUNC);
    if (line->out == STDOUT_FULL) {
        open_as(STDOUT_FILENO, "/dev/full", O_WRONLY);
    } else {
        open_as(STDOUT_FILENO, "attack.out", O_WRONLY | O_CREAT | O_TRUNC);
    }
    if (line->out == STDOUT_CLOSED) {
        close(STDOUT_FILENO);
    }
    execv(program, line->words);
    _exit(112);
}

/* The whole file; NULL when it has NUL bytes or is too long for any output of the command. */
static const char *read_output(const char *path, char text[OUTPUT_SIZE]) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return NULL;
    }
    const size_t length = fread(text, 1, OUTPUT_SIZE - 1, file);
    fclose(file);
    text[length] = '\0';
    return length < OUTPUT_SIZE - 1 && strlen(text) == length ? text : NULL;
}

static bool has_controls(const char *text) {
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++) {
        const bool c1 = at[0] == 0xC2 && at[1] >= 0x80 && at[1] < 0xA0;
        if ((*at < 0x20 && *at != '\n') || *at == 0x7F || c1) {
            return true;
        }
    }
    return false;
}

static bool is_one_sentence(const char *text) {
    static const char start[] = "unfurl: ";
    const char *end = strchr(text, '\n');
    return strncmp(text, start, sizeof start - 1) == 0 && strlen(text) > sizeof start &&
           end != NULL && end[1] == '\0';
}

/* NULL when all is as it must be, else a complaint. */
static const char *judge(const struct command_line *line, int status) {
    static char out[OUTPUT_SIZE], err[OUTPUT_SIZE];
    if (!WIFEXITED(status)) {
        return WTERMSIG(status) == SIGALRM || WTERMSIG(status) == SIGXCPU ? "it did not end"
                                                                          : "it died of a signal";
    }
    const int code = WEXITSTATUS(status);
    if (code < 0 || code >= STATUSES) {
        return "its status is not documented";
    }
    if (read_output("attack.out", out) == NULL || read_output("attack.err", err) == NULL) {
        return "its output is not text";
    }
    if (has_controls(out) || has_controls(err)) {
        return "its output has control characters";
    }
    if (code == 0) {
        return line->out != STDOUT_FILE ? "it did not notice that nothing could be written"
               : err[0] != '\0'         ? "it succeeded with a message"
               : out[0] == '\0'         ? "it succeeded without a word"
                                        : NULL;
    }
    if (!is_one_sentence(err)) {
        return "its message is not one sentence that begins with \"unfurl: \"";
    }
    return code == 2 && line->out == STDOUT_FILE && out[0] != '\0' ? "a usage error has a report"
                                                                   : NULL;
}

int main(int count, char **words) {
    static struct command_line line;
    uint64_t seen[STATUSES] = {0}, failures = 0;
    if (count != 4) {
        fputs("usage: cli_attack UNFURL FIRST COUNT\n", stderr);
        return 2;
    }
    const uint64_t first = strtoull(words[2], NULL, 10), runs = strtoull(words[3], NULL, 10);
    for (uint64_t number = first; number < first + runs; number++) {
        int status = 0;
        make_line(number, &line);
        const pid_t child = fork();
        if (child == 0) {
            run_child(words[1], &line);
        }
        if (child < 0 || waitpid(child, &status, 0) != child) {
            perror("cli_attack");
            return 1;
        }
        const char *complaint = judge(&line, status);
        if (complaint != NULL) {
            static char err[OUTPUT_SIZE];
            const char *message = read_output("attack.err", err);
            failures++;
            fprintf(stderr, "FAILED: %s (status %#x, \"%.300s\")\n", complaint, (unsigned)status,
                    message == NULL ? "" : message);
            print_line(number, &line);
        } else {
            seen[WEXITSTATUS(status)]++;
        }
    }
    printf("%llu runs: %llu with status 0, %llu with 1, %llu with 2; %llu wrong\n",
           (unsigned long long)runs, (unsigned long long)seen[0], (unsigned long long)seen[1],
           (unsigned long long)seen[2], (unsigned long long)failures);
    /* An attack that only one kind of outcome answers has missed the rest. */
    const bool broad =
        runs < 100 || (seen[0] >= runs / 50 && seen[1] >= runs / 50 && seen[2] >= runs / 50);
    return failures == 0 && broad ? 0 : 1;
}
