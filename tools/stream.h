/* stream.h - stdin and stdout, "-" on the command line, as files: readers tell a file's type by its
 * first bytes and some go back in it; writers put a whole file in its place or none. */
#ifndef UF_TOOLS_STREAM_H
#define UF_TOOLS_STREAM_H

#include <stdbool.h>
#include <stdio.h>

enum { STREAM_PATH_SIZE = 512 };

/* A struct with a command and zeros has neither. */
struct streams {
    const char *command; /* in front of a sentence about the command line */
    bool has_input;      /* "-" has been read */
    FILE *input;         /* a copy of what the last pipe gave, without a name */
    char input_path[STREAM_PATH_SIZE];
    int output;                         /* where stdout was; 0: it is where it was */
    char output_path[STREAM_PATH_SIZE]; /* of the file that goes there; "": none is begun */
};

/* A path that may be read twice, valid until the next call, in place of "-" (once) or of a pipe's.
 */
int streams_input(struct streams *streams, const char **path);

/* The type of a file that goes to stdout, as an extension: of TYPE:-, and png of -. NULL: it is
 * another word. */
const char *streams_output_type(const char *word);

/* Before anything is printed: stdout is to get a file, and what is printed goes to stderr. A
 * terminal is refused. */
int streams_take_output(struct streams *streams);

/* A path for the file, in a folder of its own, that ends in `extension`. Signals wait from here on
 * (signals.h). */
int streams_output(struct streams *streams, const char *extension, const char **path);

/* Write the file to stdout. */
int streams_send(struct streams *streams);

/* Remove all files. */
void streams_free(struct streams *streams);

#endif
