/* peak.c - run a program and print its peak resident memory in KiB; nothing else goes to stdout.
 *
 *   cli_peak PROGRAM ARGUMENTS...
 *
 * Status: the program's; 77 where the numbers would say nothing (AddressSanitizer's own memory). */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char **words) {
#ifdef __SANITIZE_ADDRESS__
    return 77;
#endif
    if (count < 2) {
        return 2;
    }
    pid_t child = fork();
    if (child < 0) {
        perror("fork");
        return 1;
    }
    if (child == 0) {
        dup2(STDERR_FILENO, STDOUT_FILENO);
        execv(words[1], words + 1);
        perror(words[1]);
        _exit(127);
    }
    int status = 0;
    struct rusage usage;
    if (waitpid(child, &status, 0) != child || getrusage(RUSAGE_CHILDREN, &usage) != 0) {
        perror("wait");
        return 1;
    }
    printf("%ld\n", usage.ru_maxrss);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
