/* sabotage_views.c - changes of views that defects make. */
#include <math.h>
#include <stdlib.h>

#include "sabotage.h"
#include "support/test.h"

double *sabotage_element(const uf_view *view, int64_t n, int64_t c, int64_t h, int64_t w) {
    return (double *)view->data + n * view->stride[0] + c * view->stride[1] + h * view->stride[2] +
           w * view->stride[3];
}

uf_view sabotage_clone(const uf_view *view) {
    const int64_t *e = view->extent;
    uf_view made = uf_view_nchw(test_allocate((size_t)uf_view_count(view) * sizeof(double)), UF_F64,
                                e[0], e[1], e[2], e[3]);
    EACH(view, n, c, h, w) {
        *sabotage_element(&made, n, c, h, w) = *sabotage_element(view, n, c, h, w);
    }
    return made;
}

void sabotage_scale(const uf_view *view, double factor) {
    EACH(view, n, c, h, w) {
        *sabotage_element(view, n, c, h, w) *= factor;
    }
}

void sabotage_nudge(const uf_view *view) {
    double *largest = sabotage_element(view, 0, 0, 0, 0);
    EACH(view, n, c, h, w) {
        if (fabs(*sabotage_element(view, n, c, h, w)) > fabs(*largest)) {
            largest = sabotage_element(view, n, c, h, w);
        }
    }
    *largest *= 1.01;
}

void sabotage_alter(const uf_view *view, sabotage_change what) {
    uf_view old = sabotage_clone(view);
    const int64_t *e = view->extent;
    EACH(view, n, c, h, w) {
        double value = *sabotage_element(&old, n, c, h, w);
        switch (what) {
        case MIRROR:
            value = *sabotage_element(&old, n, c, e[2] - 1 - h, e[3] - 1 - w);
            break;
        case TRANSPOSE:
            value = *sabotage_element(&old, n, c, w, h);
            break;
        case EXCHANGE:
            value = *sabotage_element(&old, c, n, h, w);
            break;
        case SHIFT_COLUMN:
            value = w + 1 < e[3] ? *sabotage_element(&old, n, c, h, w + 1) : 0.0;
            break;
        case SHIFT_ROW:
            value = h + 1 < e[2] ? *sabotage_element(&old, n, c, h + 1, w) : 0.0;
            break;
        case NO_TAP:
            value = h == e[2] - 1 && w == e[3] - 1 ? 0.0 : value;
            break;
        case NO_COLUMN:
            value = w == e[3] - 1 ? 0.0 : value;
            break;
        case NO_CHANNEL:
            value = c == e[1] - 1 ? 0.0 : value;
            break;
        case NO_IMAGE:
            value = n == e[0] - 1 ? 0.0 : value;
            break;
        case NO_PHASE:
            value = w % 2 == 1 ? 0.0 : value;
            break;
        case ROTATE_HALF:
            value = *sabotage_element(&old, (n + e[0] / 2) % e[0], c, h, w);
            break;
        case ROTATE_CHANNEL:
            value = *sabotage_element(&old, n, (c + 1) % e[1], h, w);
            break;
        }
        *sabotage_element(view, n, c, h, w) = value;
    }
    free(old.data);
}
