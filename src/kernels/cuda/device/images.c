#include "kernels/cuda/device/images.h"

#include <stdlib.h>
#include <string.h>

static bool one_runs(const char *architecture, int capability) {
    char *suffix;
    const long made_for = strtol(architecture, &suffix, 10);
    if (suffix == architecture) {
        return true;
    }
    if (*suffix == 'a') {
        return capability == made_for;
    }
    const bool machine_code_alone = *suffix == 'f' || strncmp(suffix, "-real", 5) == 0;
    return capability >= made_for && (!machine_code_alone || capability / 10 == made_for / 10);
}

bool uf_cuda_images_run(const char *architectures, int capability) {
    for (const char *next = architectures; next != NULL; architectures = next + 1) {
        if (one_runs(architectures, capability)) {
            return true;
        }
        next = strchr(architectures, ',');
    }
    return false;
}
