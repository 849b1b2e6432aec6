/* with_gpu.c - with_gpu COMMAND ARG...: run the command where there is a GPU, else end with 77,
 * skipped. */
#include <stdio.h>
#include <unistd.h>

#include <unfurl/unfurl.h>

int main(int argc, char **argv) {
    const char *reason = "";
    if (argc < 2) {
        fprintf(stderr, "usage: with_gpu COMMAND ARG...\n");
        return 2;
    }
    if (uf_device_count(UF_DEVICE_CUDA, &reason) < 1) {
        fprintf(stderr, "skipped: %s\n", reason);
        return 77;
    }
    execv(argv[1], argv + 1);
    perror(argv[1]);
    return 1;
}
