/* file.h - what all files that the library writes have in common. */
#ifndef UNFURL_FILE_H
#define UNFURL_FILE_H

#include <unfurl/status.h>

UF_BEGIN_DECLS

/* Would a save to `path` begin? For before long work: a save does the same checks again. It creates
 * nothing. A path is refused when it leads to a directory, a device, a pipe or a file that is
 * read-only (root's too, if its mode lets nobody write), or into a directory that is absent or not
 * writable. A symbolic link is followed; it may dangle. Errors: INVALID_ARGUMENT (empty), NOT_FOUND
 * (no such directory), IO, OUT_OF_MEMORY. */
UF_API UF_NODISCARD uf_status uf_file_check_output(const char *path);

UF_END_DECLS

#endif
