/* rows.h - the layout of rows of several channels in shared memory, for the plans of
 * conv_row_stream_fprop and conv_row_stream_wgrad. Needs no GPU and no toolkit. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_ROW_STREAM_ROWS_H
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_ROW_STREAM_ROWS_H

#include "kernels/kernels.h"

UF_BEGIN_DECLS

/* Bytes from channel to channel. They equal those in memory (`channel_bytes`) modulo 16, so that
 * one bulk copy loads the 16-byte words around a row, and rows do not overlap. They also minimise
 * bank conflicts of 32 lanes that read `coords` elements, `spacing` bytes from each other, in each
 * of 32 / coords channels. */
int64_t uf_row_stream_pitch(int64_t row_bytes, int64_t channel_bytes, int32_t coords,
                            int64_t spacing);

UF_END_DECLS

#endif
