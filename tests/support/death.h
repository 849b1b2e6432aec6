/* death.h - whose code a process was in when a signal killed it. */
#ifndef TEST_SUPPORT_DEATH_H
#define TEST_SUPPORT_DEATH_H

/* Called in the handler of a deadly signal, before the signal kills the process, with the module
 * (library or program) whose code was running and the exported symbol nearest before it. The C
 * library and the sanitizers are not counted: they carry out what their caller asked. */
typedef void death_note(const char *module, const char *symbol);

void death_watch(death_note *note);

/* The name of a module by its path. */
const char *death_module(const char *path);

#endif
