/* no_tmpfile.h - a process for which no file system knows O_TMPFILE. */
#ifndef TEST_SUPPORT_NO_TMPFILE_H
#define TEST_SUPPORT_NO_TMPFILE_H

#include <stdbool.h>

/* From here on open(..., O_TMPFILE) fails with EOPNOTSUPP in the calling process, and in those that
 * it starts, as it does on NFS and FAT. False where the kernel has no such filter. It cannot be
 * undone: call it in a child. */
bool test_refuse_tmpfile(void);

#endif
