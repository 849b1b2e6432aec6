/* manual.c - manual pages in the language of man(7), from the tables of the commands.
 *
 * Text goes out word by word: lines of a page stay short, and signs that would be commands or
 * typographic ones are escaped. */
#include "print.h"

#include <ctype.h>
#include <string.h>

/* The build gives the day of its configuration, or of SOURCE_DATE_EPOCH. */
#ifndef UNFURL_DATE
#error "UNFURL_DATE is the date of the pages: YYYY-MM-DD"
#endif

enum { LINE_BYTES = 76 };

struct page {
    FILE *stream;
    size_t column; /* bytes that the line has so far */
};

/* The language's word for a sign that is not itself in print; NULL for others. */
static const char *escape_of(char sign) {
    static const struct {
        char sign;
        const char *escape;
    } escapes[] = {{'\\', "\\e"},  {'-', "\\-"},   {'\'', "\\(aq"},
                   {'`', "\\(ga"}, {'^', "\\(ha"}, {'~', "\\(ti"}};
    for (size_t i = 0; i < sizeof escapes / sizeof escapes[0]; i++) {
        if (escapes[i].sign == sign) {
            return escapes[i].escape;
        }
    }
    return NULL;
}

static size_t escaped_length(const char *text, size_t length) {
    size_t total = length;
    for (size_t i = 0; i < length; i++) {
        const char *escape = escape_of(text[i]);
        total += escape != NULL ? strlen(escape) - 1 : 0;
    }
    return total;
}

static void put_escaped(struct page *page, const char *text, size_t length) {
    if (page->column == 0 && length > 0 && text[0] == '.') {
        fputs("\\&", page->stream); /* else a command */
    }
    for (size_t i = 0; i < length; i++) {
        const char *escape = escape_of(text[i]);
        if (escape != NULL) {
            fputs(escape, page->stream);
        } else {
            fputc(text[i], page->stream);
        }
    }
    page->column += escaped_length(text, length);
}

static void end_line(struct page *page) {
    if (page->column > 0) {
        fputc('\n', page->stream);
        page->column = 0;
    }
}

/* A word of running text, in the font 'B', 'I' or 'R'. */
static void put_word(struct page *page, const char *word, size_t length, char font) {
    const size_t fonts = strlen("\\fB\\fR");
    if (page->column > 0 && page->column + 1 + fonts + escaped_length(word, length) > LINE_BYTES) {
        end_line(page);
    }
    if (page->column > 0) {
        fputc(' ', page->stream);
        page->column++;
    }
    if (font != 'R') {
        fprintf(page->stream, "\\f%c", font);
        page->column += 3;
    }
    put_escaped(page, word, length);
    if (font != 'R') {
        fputs("\\fR", page->stream);
        page->column += 3;
    }
}

static const char *skip_blanks(const char *text) {
    while (isspace((unsigned char)*text)) {
        text++;
    }
    return text;
}

static size_t word_length(const char *text) {
    return strcspn(text, " \n");
}

static void put_macro(struct page *page, const char *macro) {
    end_line(page);
    fprintf(page->stream, "%s\n", macro);
}

/* Running text; an empty line in it begins a paragraph. */
static void put_text(struct page *page, const char *text) {
    for (text = skip_blanks(text); *text != '\0';) {
        const size_t length = word_length(text);
        put_word(page, text, length, 'R');
        text += length;
        const bool paragraph = strncmp(text, "\n\n", 2) == 0;
        text = skip_blanks(text);
        if (paragraph && *text != '\0') {
            put_macro(page, ".PP");
        }
    }
}

/* Lines that stay as they are. */
static void put_example(struct page *page, const char *lines) {
    put_macro(page, ".EX");
    while (*lines != '\0') {
        const size_t length = strcspn(lines, "\n");
        put_escaped(page, lines, length);
        fputc('\n', page->stream);
        page->column = 0;
        lines += length + (lines[length] == '\n' ? 1 : 0);
    }
    put_macro(page, ".EE");
}

/* "unfurl upscale IN.png --weights FILE.h5 [options]": the words that are typed so in bold, those
 * that stand for something else, which have capitals, in italics. */
static void put_usage(struct page *page, const char *usage) {
    while (*usage != '\0') {
        const size_t length = word_length(usage);
        const bool verbatim = usage[0] == '-' || islower((unsigned char)usage[0]);
        put_word(page, usage, length, verbatim ? 'B' : usage[0] == '[' ? 'R' : 'I');
        usage = skip_blanks(usage + length);
    }
    end_line(page);
}

/* The tag of a list: what is typed in bold, what stands for something else in italics. */
static void put_tag(struct page *page, const char *typed, const char *other) {
    put_macro(page, ".TP");
    if (typed[0] != '\0') {
        put_word(page, typed, strlen(typed), 'B');
    }
    if (other[0] != '\0') {
        put_word(page, other, strlen(other), 'I');
    }
    end_line(page);
}

static void put_option(struct page *page, const struct option *option) {
    char text[OPTION_TEXT_SIZE];
    char usual[OPTION_TEXT_SIZE];
    options_format(option, text, sizeof text);
    options_format_default(option, usual, sizeof usual);
    char *value = options_is_operand(option) ? NULL : strchr(text, ' ');
    if (value != NULL) {
        *value++ = '\0';
        put_tag(page, text, value);
    } else {
        put_tag(page, options_is_operand(option) ? "" : text,
                options_is_operand(option) ? text : "");
    }
    put_text(page, option->help);
    if (usual[0] != '\0') {
        char words[OPTION_TEXT_SIZE + 16];
        snprintf(words, sizeof words, "(default: %s)", usual);
        put_text(page, words);
    }
    end_line(page);
}

static void put_header(struct page *page, const struct command *one) {
    fputs(".TH UNFURL", page->stream);
    if (one != NULL) {
        fputc('-', page->stream);
        for (const char *at = one->name; *at != '\0'; at++) {
            fputc(toupper((unsigned char)*at), page->stream);
        }
    }
    fprintf(page->stream, " 1 " UNFURL_DATE " \"unfurl %s\" \"User Commands\"\n", uf_version());
}

/* NAME has no capital and no full stop: "Double a picture." is "double a picture". */
static void put_name(struct page *page, const char *name, const char *summary) {
    put_macro(page, ".SH NAME");
    put_text(page, name);
    put_text(page, "-");
    char text[OPTION_USAGE_SIZE];
    snprintf(text, sizeof text, "%s", summary);
    const size_t length = strlen(text);
    if (length > 0 && text[length - 1] == '.') {
        text[length - 1] = '\0';
    }
    text[0] = (char)tolower((unsigned char)text[0]);
    put_text(page, text);
    end_line(page);
}

static void put_reference(struct page *page, const char *name, const char *end) {
    char text[OPTION_TEXT_SIZE];
    end_line(page);
    snprintf(text, sizeof text, "%s", name);
    put_word(page, text, strlen(text), 'B');
    fprintf(page->stream, "(1)%s\n", end);
    page->column = 0;
}

static void print_command(struct page *page, const struct command *one) {
    char text[OPTION_USAGE_SIZE];
    snprintf(text, sizeof text, "unfurl-%s", one->name);
    put_name(page, text, one->summary);
    put_macro(page, ".SH SYNOPSIS");
    options_format_usage(one, text, sizeof text);
    put_usage(page, text);
    if (one->details != NULL) {
        put_macro(page, ".SH DESCRIPTION");
        put_text(page, one->details);
    }
    put_macro(page, ".SH OPTIONS");
    for (size_t i = 0; i < one->option_count; i++) {
        put_option(page, &one->options[i]);
    }
    put_tag(page, "--help", "");
    put_text(page, "print all options and exit");
    if (one->example != NULL) {
        put_macro(page, ".SH EXAMPLES");
        put_example(page, one->example);
    }
    put_macro(page, ".SH EXIT STATUS");
    put_text(page, "0 when all is done; 1 when the work failed, 2 when the command line is wrong, "
                   "each with a sentence on standard error.");
    put_macro(page, ".SH SEE ALSO");
    put_reference(page, "unfurl", "");
}

/* Rows of a list: typed words, the name of a value, the text. */
struct row {
    const char *typed, *value, *text;
};

static void put_rows(struct page *page, const struct row *rows, size_t count) {
    for (size_t i = 0; i < count; i++) {
        put_tag(page, rows[i].typed, rows[i].value);
        put_text(page, rows[i].text);
        end_line(page);
    }
}

static void print_unfurl(struct page *page, const struct command_list *list) {
    static const struct row options[] = {
        {"--help", "", "list the commands; after a command, its options"},
        {"--version", "", "print the version of the library"},
        {"--print", "man|bash|zsh|fish",
         "print this page (with the name of a command behind it, the command's), or the "
         "completions of a shell"},
    };
    static const struct row statuses[] = {
        {"0", "", "The work is done and the report is written."},
        {"1", "",
         "The work failed: a file, the device, memory, a wrong result, a report that could not be "
         "written."},
        {"2", "", "The command line is wrong; nothing was done."},
    };
    static const struct row variables[] = {
        {"UNFURL_DATA_DIR", "", "The folder of the data that come with unfurl."},
        {"COLUMNS", "",
         "The width of a line of progress, where the terminal does not know its own."},
    };
#define PUT_ROWS(page, rows) put_rows(page, rows, sizeof(rows) / sizeof((rows)[0]))
    put_name(page, "unfurl", "Networks that grow images.");
    put_macro(page, ".SH SYNOPSIS");
    put_usage(page, "unfurl COMMAND [options]");
    put_macro(page, ".SH DESCRIPTION");
    put_text(page, "The library unfurl trains and runs networks that are built on transposed "
                   "convolution, on CPUs and on NVIDIA GPUs. This command is its tools.");
    put_macro(page, ".PP");
    put_text(page,
             "Options are --name value or --name=value; -- ends them, and the last of several "
             "with one name counts. The report goes to standard output, with --json as one "
             "JSON object. A failure is one sentence on standard error.");
    put_macro(page, ".SH COMMANDS");
    for (size_t i = 0; i < list->count; i++) {
        put_tag(page, list->rows[i]->name, "");
        put_text(page, list->rows[i]->summary);
    }
    put_macro(page, ".SH OPTIONS");
    PUT_ROWS(page, options);
    put_macro(page, ".SH EXIT STATUS");
    PUT_ROWS(page, statuses);
    put_macro(page, ".SH ENVIRONMENT");
    PUT_ROWS(page, variables);
    put_macro(page, ".SH SEE ALSO");
    for (size_t i = 0; i < list->count; i++) {
        char text[OPTION_TEXT_SIZE];
        snprintf(text, sizeof text, "unfurl-%s", list->rows[i]->name);
        put_reference(page, text, i + 1 < list->count ? "," : "");
    }
#undef PUT_ROWS
}

void manual_print(const struct command_list *list, const struct command *one, FILE *stream) {
    struct page page = {.stream = stream};
    put_header(&page, one);
    if (one != NULL) {
        print_command(&page, one);
    } else {
        print_unfurl(&page, list);
    }
    end_line(&page);
}
