/* rows.c - see row_stream/rows.h. */
#include "kernels/cuda/conv/mma_few_channels/row_stream/rows.h"

#include <stdbool.h>

/* Wavefronts of shared memory for one load of 32 lanes. */
static int32_t wavefronts(int64_t pitch, int32_t coords, int64_t spacing) {
    int64_t words[32];
    int32_t used[32] = {0}, most = 0;
    for (int32_t lane = 0; lane < 32; ++lane) {
        const int64_t word = (lane / coords * pitch + lane % coords * spacing) / 4;
        bool known = false;
        for (int32_t other = 0; other < lane; ++other) {
            known = known || words[other] == word;
        }
        words[lane] = word;
        if (!known && ++used[word % 32] > most) {
            most = used[word % 32];
        }
    }
    return most;
}

int64_t uf_row_stream_pitch(int64_t row_bytes, int64_t channel_bytes, int32_t coords,
                            int64_t spacing) {
    int64_t pitch = row_bytes + 30;
    pitch += ((channel_bytes - pitch) % 16 + 16) % 16;
    int64_t best = pitch;
    for (int64_t more = 16; more < 128; more += 16) {
        if (wavefronts(pitch + more, coords, spacing) < wavefronts(best, coords, spacing)) {
            best = pitch + more;
        }
    }
    return best;
}
