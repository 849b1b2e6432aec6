/* wgrad_layout.c - shared memory of simt_direct/wgrad_launch.cu without bank conflicts. */
#include "kernels/cuda/conv/simt_direct/wgrad_plan.h"

/* Where a warp's lanes are all channels of `together` taps: an order of the taps in which those
 * differ modulo `together`, so that channels `together` words apart leave room for each other. */
static void direct_order_taps(direct_wgrad_plan *p, int32_t together) {
    bool used[DIRECT_ORDER] = {false};
    for (int32_t slot = 0; slot < p->tile_taps; ++slot) {
        const int32_t first = slot / together * together;
        int32_t chosen = -1;
        for (int32_t tap = 0; tap < p->tile_taps; ++tap) {
            if (used[tap]) {
                continue;
            }
            bool spacing = true;
            for (int32_t other = first; other < slot; ++other) {
                spacing =
                    spacing && (direct_tap_offset(p, tap) - direct_tap_offset(p, p->order[other])) %
                                       together !=
                                   0;
            }
            if (chosen < 0 || spacing) {
                chosen = tap;
            }
            if (spacing) {
                break;
            }
        }
        used[chosen] = true;
        p->order[slot] = (uint8_t)chosen;
    }
}

/* Lanes that one load of x makes wait: those that want another word of a bank that is taken. Stops
 * at `most`. */
static int32_t direct_clashes(const direct_wgrad_plan *p, int32_t fragments, int32_t most) {
    int32_t clashes = 0;
    for (int32_t fragment = 0; fragment < fragments; ++fragment) {
        int32_t seen[32];
        for (int32_t i = 0; i < 32; ++i) {
            seen[i] = -1;
        }
        for (int32_t i = 0; i < p->lanes_c && clashes < most; ++i) {
            const int32_t offset = direct_column_offset(p, 0, fragment * p->lanes_c + i);
            for (int32_t g = 0; g < p->lanes_g; ++g) {
                const int32_t at = offset + g * p->tile_c * p->pitch_c;
                clashes += seen[at & 31] >= 0 && seen[at & 31] != at;
                seen[at & 31] = at;
            }
        }
    }
    return clashes;
}

void uf_direct_choose_pitches(direct_wgrad_plan *p) {
    const int32_t together = p->lanes_c % p->tile_c == 0 ? p->lanes_c / p->tile_c : 1;
    const bool can_go_first = together > 1 || p->tile_c % p->lanes_c == 0;
    const int32_t fragments =
        direct_min(uf_div_up((int64_t)p->tile_c * p->tile_taps, p->lanes_c), 3);
    direct_wgrad_plan best = *p;
    int32_t fewest = INT32_MAX;
    for (int32_t order = 0; order < (can_go_first ? 2 : 1); ++order) {
        direct_wgrad_plan t = *p;
        t.channels_first = order == 1;
        t.ordered = order == 1 && together > 1 && p->tile_taps <= DIRECT_ORDER && p->tiles_t == 1;
        for (int32_t pad_h = 0; pad_h < 2 && fewest != 0; ++pad_h) {
            t.pitch_h = p->lines[1].count * p->pitch_w + pad_h;
            t.pitch_n = p->images_first ? 1 : p->lines[0].count * t.pitch_h;
            if (t.ordered) {
                direct_order_taps(&t, together);
            }
            const int32_t channel =
                (p->images_first ? 1 : p->box[0]) * p->lines[0].count * t.pitch_h;
            for (int32_t pad_c = 0; pad_c < DIRECT_PADS && fewest != 0; ++pad_c) {
                t.pitch_c = channel + pad_c;
                const int32_t clashes = direct_clashes(&t, fragments, fewest);
                if (clashes < fewest) {
                    fewest = clashes;
                    best = t;
                }
            }
        }
    }
    *p = best;
}
