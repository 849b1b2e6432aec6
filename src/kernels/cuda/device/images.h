/* images.h - the GPUs that a build has code for. Needs no GPU and no toolkit. */
#ifndef UF_CUDA_IMAGES_H
#define UF_CUDA_IMAGES_H

#include <stdbool.h>

#include <unfurl/export.h>

UF_BEGIN_DECLS

/* Can a GPU of this compute capability (90 is 9.0) run code for `architectures`? They are written
 * as in CMAKE_CUDA_ARCHITECTURES, separated by commas. "80-real" is machine code for 8.0 and
 * later 8.x, "90a" for 9.0 alone, "100f" for 10.0 and later 10.x. "90-virtual" and "90" have PTX
 * for 9.0 and every later GPU. A word without a number ("all") is code for every GPU. */
bool uf_cuda_images_run(const char *architectures, int capability);

UF_END_DECLS

#endif
