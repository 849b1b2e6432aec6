/* test_h5_wide.c FILE... - the files that make_h5.py wrote, as libhdf5 reads them. */
#include <inttypes.h>
#include <stdio.h>

#include "io/compare_h5.h"

int main(int argc, char **argv) {
    int64_t differences = 0;
    for (int i = 1; i < argc; ++i) {
        const int64_t here = compare_h5(argv[i]);
        printf("%s: %" PRId64 " differences\n", argv[i], here);
        differences += here;
    }
    return differences > 0 || argc < 2;
}
