/* record.cu - one entry of a program's ring of losses, which the GPU writes to pinned host memory.
 * A reader on the host never waits: it sees a whole entry, or one marked as incomplete. */
#include "kernels/cuda/device/element.cuh"

struct record_sources {
    const void *data[UF_LOSS_MAX];
    uf_dtype dtype[UF_LOSS_MAX];
    int count;
};

static __global__ void record_losses(record_sources sources, uf_loss_entry *ring, int64_t *step) {
    uf_overlap_launches();
    uf_loss_entry *const entry = &ring[*step % UF_LOSS_RING];
    bool finite = true;
    entry->step = 0;
    __threadfence_system();
    for (int i = 0; i < sources.count; ++i) {
        const void *const from = sources.data[i];
        const double loss = sources.dtype[i] == UF_F64    ? *(const double *)from
                            : sources.dtype[i] == UF_BF16 ? (double)*(const uf_bf16 *)from
                                                          : (double)*(const float *)from;
        entry->losses[i] = loss;
        finite = finite && isfinite(loss);
    }
    entry->finite = finite ? 1.0 : 0.0;
    *step += 1;
    __threadfence_system();
    entry->step = *step;
}

extern "C" uf_status uf_cuda_record_losses(uf_context *context, const uf_record_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    record_sources sources;
    sources.count = args->count;
    for (int i = 0; i < args->count; ++i) {
        sources.data[i] = args->losses[i].data;
        sources.dtype[i] = args->losses[i].dtype;
    }
    return uf_cuda_launch(context, "record_losses", {dim3(1), 1}, record_losses, sources,
                          args->ring, args->step);
}
