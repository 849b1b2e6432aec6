/* single_failures.c - runs a command again and again while one of its allocations fails, another
 * one each time.
 *
 *   single_failures [--runs N] [--deaths PERCENT] --library FAILING.so --says TEXT...
 *                   --output FILE -- COMMAND...
 *
 * COMMAND runs in an empty folder and writes FILE there. A run may end in success, with the same
 * FILE as a run in which nothing fails, or in failure with one line on stderr that holds a TEXT and
 * no file left behind; lines that libhdf5 prints before its printing can be turned off do not
 * count. Anything else fails the test, but for deaths in a library that is not ours: those are
 * named, and at most --deaths of 100 runs may end so, none unless given. --runs 0, the default,
 * lets each allocation fail once; a smaller number takes that many at equal distances. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/death.h"

enum { SECONDS = 120, FRAME_SIZE = 256, MOST_NAMES = 256 };

static const char report_name[] = "report", stdout_name[] = "stdout", stderr_name[] = "stderr";

typedef enum outcome {
    SUCCEEDED,
    CLEAN,      /* a sentence that says what failed */
    MISLEADING, /* a sentence that does not, or none */
    LEFT_FILES, /* a wrong output or one of a failed run, a temporary file */
    DIED,       /* by a signal, in our code */
    DIED_ELSEWHERE,
    HUNG,
    OUTCOME_COUNT
} outcome;

static const char *const outcome_names[OUTCOME_COUNT] = {
    "succeeded", "failed cleanly",      "misleading messages",   "wrong files left",
    "deaths",    "deaths in libraries", "runs that did not end",
};

typedef struct settings {
    long runs, deaths;
    const char *library, *says[4], *output;
    int says_count;
    char **command;
} settings;

static void give_up(const char *text) {
    fprintf(stderr, "single_failures: %s: %s\n", text, strerror(errno));
    exit(2);
}

/* A whole file with a terminator behind it; NULL when there is none. The caller frees it. */
static char *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    *size = 0;
    if (file == NULL) {
        return NULL;
    }
    char *text = NULL;
    size_t capacity = 0;
    for (size_t more = 1; more > 0; *size += more) {
        if (capacity - *size < 4096) {
            capacity += capacity + 8192;
            text = realloc(text, capacity);
            if (text == NULL) {
                give_up("realloc");
            }
        }
        more = fread(text + *size, 1, capacity - *size - 1, file);
    }
    fclose(file);
    text[*size] = '\0';
    return text;
}

static void redirect(const char *path, int descriptor) {
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || dup2(file, descriptor) < 0) {
        _exit(98);
    }
    close(file);
}

/* Returns waitpid's status. */
static int run(const settings *set, long failing_call) {
    char number[32];
    (void)snprintf(number, sizeof number, "%ld", failing_call);
    (void)unlink(report_name);
    const pid_t child = fork();
    if (child < 0) {
        give_up("fork");
    }
    if (child == 0) {
        redirect(stdout_name, STDOUT_FILENO);
        redirect(stderr_name, STDERR_FILENO);
        setenv("UNFURL_ATTACK_FAIL", number, 1);
        setenv("UNFURL_ATTACK_REPORT", report_name, 1);
        setenv("LD_PRELOAD", set->library, 1);
        alarm(SECONDS); /* exec keeps it */
        execv(set->command[0], set->command);
        _exit(97);
    }
    int status;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            give_up("waitpid");
        }
    }
    return status;
}

/* How many files of this folder the command should not have left; removes them, and its output. */
static int clean_folder(const settings *set) {
    int strangers = 0;
    DIR *folder = opendir(".");
    if (folder == NULL) {
        give_up("opendir");
    }
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        const char *name = entry->d_name;
        if (name[0] == '.' && (name[1] == '\0' || strcmp(name, "..") == 0)) {
            continue;
        }
        strangers += strcmp(name, report_name) != 0 && strcmp(name, stdout_name) != 0 &&
                     strcmp(name, stderr_name) != 0 && strcmp(name, set->output) != 0;
        (void)unlink(name);
    }
    closedir(folder);
    return strangers;
}

/* The module that the report names; false when it names none. */
static bool read_death(char module[FRAME_SIZE], char symbol[FRAME_SIZE]) {
    char line[2 * FRAME_SIZE];
    FILE *file = fopen(report_name, "r");
    bool told = false;
    while (file != NULL && !told && fgets(line, sizeof line, file) != NULL) {
        told = sscanf(line, "died %255s %255s", module, symbol) == 2;
    }
    if (file != NULL) {
        fclose(file);
    }
    return told;
}

/* The command and the library carry the project's name; a program of ours without it is the command
 * itself. */
static outcome classify_death(const settings *set, int status, const char *module,
                              const char *symbol, char *text, size_t size) {
    const bool ours = strcmp(module, "unknown") == 0 || strstr(module, "unfurl") != NULL ||
                      strcmp(module, death_module(set->command[0])) == 0;
    (void)snprintf(text, size, "%s in %.120s, near %.120s",
                   WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "End of the process", module,
                   symbol);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
        return HUNG;
    }
    return ours ? DIED : DIED_ELSEWHERE;
}

/* The lines of stderr that are the command's: libhdf5's begin with its name, or are indented. */
static int own_lines(char *said, char **line) {
    int count = 0;
    *line = NULL;
    for (char *text = strtok(said, "\n"); text != NULL; text = strtok(NULL, "\n")) {
        if (strncmp(text, "HDF5-DIAG", 9) != 0 && strncmp(text, "  ", 2) != 0) {
            *line = text;
            ++count;
        }
    }
    return count;
}

static outcome classify_failure(const settings *set, char *text, size_t size) {
    size_t length;
    char *line;
    char *said = read_file(stderr_name, &length);
    const int lines = said != NULL ? own_lines(said, &line) : 0;
    bool clean = false;
    for (int i = 0; i < set->says_count && lines == 1; ++i) {
        clean = clean || strstr(line, set->says[i]) != NULL;
    }
    (void)snprintf(text, size, "%.400s", lines > 0 ? line : "nothing was said");
    free(said);
    if (!clean) {
        return MISLEADING;
    }
    return access(set->output, F_OK) == 0 ? LEFT_FILES : CLEAN;
}

static outcome classify(const settings *set, int status, const char *wanted, size_t wanted_size,
                        char *text, size_t size) {
    outcome seen = SUCCEEDED;
    char module[FRAME_SIZE] = "unknown", symbol[FRAME_SIZE] = "unknown";
    text[0] = '\0';
    const bool died = read_death(module, symbol) || WIFSIGNALED(status);
    if (died) {
        seen = classify_death(set, status, module, symbol, text, size);
    } else if (WEXITSTATUS(status) != 0) {
        seen = classify_failure(set, text, size);
    } else {
        size_t got_size;
        char *got = read_file(set->output, &got_size);
        if (got == NULL || got_size != wanted_size || memcmp(got, wanted, got_size) != 0) {
            (void)snprintf(text, size, "it succeeded with a wrong output");
            seen = LEFT_FILES;
        }
        free(got);
    }
    /* A process that was killed had no chance to tidy up. */
    if (clean_folder(set) > 0 && !died) {
        (void)snprintf(text, size, "it left a file behind");
        seen = LEFT_FILES;
    }
    return seen;
}

/* Say each different text once, with the first failing call. */
static void say(outcome seen, long failing_call, const char *text) {
    static char known[MOST_NAMES][512];
    static int count;
    for (int i = 0; i < count; ++i) {
        if (strcmp(known[i], text) == 0) {
            return;
        }
    }
    if (count < MOST_NAMES && seen != SUCCEEDED) {
        (void)snprintf(known[count++], sizeof known[0], "%s", text);
        printf("%s, call %ld: %s\n", outcome_names[seen], failing_call, text);
    }
}

static bool parse(int argc, char **argv, settings *set) {
    *set = (settings){.runs = 0};
    int at = 1;
    for (; at + 1 < argc && strcmp(argv[at], "--") != 0; at += 2) {
        const char *value = argv[at + 1];
        if (strcmp(argv[at], "--runs") == 0) {
            set->runs = strtol(value, NULL, 10);
        } else if (strcmp(argv[at], "--deaths") == 0) {
            set->deaths = strtol(value, NULL, 10);
        } else if (strcmp(argv[at], "--library") == 0) {
            set->library = value;
        } else if (strcmp(argv[at], "--says") == 0) {
            if (set->says_count == (int)(sizeof set->says / sizeof set->says[0])) {
                return false;
            }
            set->says[set->says_count++] = value;
        } else if (strcmp(argv[at], "--output") == 0) {
            set->output = value;
        } else {
            return false;
        }
    }
    set->command = argv + at + 1;
    return at + 1 < argc && set->library != NULL && set->says_count > 0 && set->output != NULL;
}

int main(int argc, char **argv) {
    settings set;
    char folder[] = "/tmp/unfurl-attack-XXXXXX";
    if (!parse(argc, argv, &set)) {
        fprintf(stderr, "single_failures: its first lines say how it is called\n");
        return 2;
    }
    if (mkdtemp(folder) == NULL || chdir(folder) != 0) {
        give_up(folder);
    }
    long total = 0;
    size_t wanted_size;
    int status = run(&set, 0);
    char *wanted = read_file(set.output, &wanted_size);
    FILE *report = fopen(report_name, "r");
    if (status != 0 || wanted == NULL || report == NULL ||
        fscanf(report, "allocations %ld", &total) != 1 || total < 1) {
        fprintf(stderr, "single_failures: status %d, %ld allocations: it fails by itself\n", status,
                total);
        return 2;
    }
    fclose(report);
    (void)clean_folder(&set);
    long seen[OUTCOME_COUNT] = {0};
    const long runs = set.runs > 0 && set.runs < total ? set.runs : total;
    for (long i = 0; i < runs; ++i) {
        char text[512];
        const long failing_call = 1 + i * total / runs;
        status = run(&set, failing_call);
        const outcome one = classify(&set, status, wanted, wanted_size, text, sizeof text);
        seen[one] += 1;
        say(one, failing_call, text);
    }
    free(wanted);
    if (chdir("/") != 0 || rmdir(folder) != 0) {
        give_up(folder);
    }
    printf("%ld of %ld allocations failed, one at a time:", runs, total);
    for (int i = 0; i < OUTCOME_COUNT; ++i) {
        printf("%s %ld %s", i > 0 ? "," : "", seen[i], outcome_names[i]);
    }
    printf("; %ld %% of deaths in libraries are allowed\n", set.deaths);
    return seen[CLEAN] > 0 && seen[MISLEADING] == 0 && seen[LEFT_FILES] == 0 && seen[DIED] == 0 &&
                   seen[HUNG] == 0 && 100 * seen[DIED_ELSEWHERE] <= set.deaths * runs
               ? 0
               : 1;
}
