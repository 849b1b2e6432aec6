/* folder.h - folders of pictures. */
#ifndef UF_TOOLS_FOLDER_H
#define UF_TOOLS_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

struct folder {
    char **paths; /* owned: FOLDER/NAME */
    size_t count;
};

bool folder_is(const char *path);

/* FOLDER/NAME in memory of its own; NULL: no memory. */
char *folder_join(const char *folder, const char *name);

/* The part behind the last slash. */
const char *folder_name_of(const char *path);

/* The pictures in a folder by their names (.png, .jpg, .jpeg), in the order of these, without
 * hidden ones and folders. None is a failure. After a failure too folder_free is called. */
int folder_pictures(const char *path, struct folder *folder);
void folder_free(struct folder *folder); /* a zeroed struct is legal */

#endif
