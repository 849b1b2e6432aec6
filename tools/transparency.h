/* transparency.h - colours of pixels that nobody sees. */
#ifndef UF_TOOLS_TRANSPARENCY_H
#define UF_TOOLS_TRANSPARENCY_H

#include <unfurl/png.h>

/* Where alpha is 0 the colours mean nothing, but a network that enlarges the picture would mix them
 * into the visible edge beside them, as a fringe. Give each such pixel the mean of the neighbours
 * that have a colour, those next to visible ones first. A picture without alpha, or without a
 * visible pixel, stays as it is. False: no memory. */
bool transparency_fill(uf_picture *picture);

#endif
