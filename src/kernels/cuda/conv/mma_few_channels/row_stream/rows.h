/* rows.h - how rows of several channels lie in shared memory, for the plans of
 * conv_row_stream_fprop and conv_row_stream_wgrad. Needs no GPU and no toolkit. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_ROW_STREAM_ROWS_H
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_ROW_STREAM_ROWS_H

#include "kernels/kernels.h"

UF_BEGIN_DECLS

/* Bytes from channel to channel: as in memory (`channel_bytes`) modulo 16, so that whole sixteens
 * of bytes around each row are one copy and do not meet the next; and such that what 32 lanes ask
 * for, `places` elements that are `patch_gemm` bytes from each other in each of 32 / places
 * channels, lies in as many banks as can be. */
int64_t uf_row_stream_pitch(int64_t row_bytes, int64_t channel_bytes, int32_t coords,
                            int64_t spacing);

UF_END_DECLS

#endif
