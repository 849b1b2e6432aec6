/* vector.cuh - elements loaded and stored 16 bytes at a time where their addresses allow it, one by
 * one elsewhere; and bf16 to f32 on the way. */
#ifndef UF_KERNELS_CUDA_VECTOR_CUH
#define UF_KERNELS_CUDA_VECTOR_CUH

#include "kernels/cuda/device/element.cuh"

/* Elements of 16 bytes. */
template <typename T>
struct uf_vector {
    enum { COUNT = 16 / sizeof(T) };
};

/* COUNT elements in registers, as they are in memory: bf16 takes half of what f32 takes. set rounds
 * to nearest even. */
template <typename T, int COUNT>
struct alignas(COUNT * sizeof(T)) uf_pack {
    T element[COUNT];

    __device__ __forceinline__ T get(int i) const {
        return element[i];
    }
    __device__ __forceinline__ void set(int i, T value) {
        element[i] = value;
    }
};

template <int COUNT>
struct alignas(COUNT * 2) uf_pack<uf_bf16, COUNT> {
    uint32_t pair[COUNT / 2]; /* the lower half is the first element */

    __device__ __forceinline__ float get(int i) const {
        const uint32_t both = pair[i / 2];
        return __uint_as_float(i % 2 == 0 ? both << 16 : both & 0xffff0000u);
    }
    __device__ __forceinline__ void set(int i, float value) {
        const uint32_t bits = uf_bf16_bits(value);
        pair[i / 2] =
            i % 2 == 0 ? (pair[i / 2] & 0xffff0000u) | bits : (pair[i / 2] & 0xffffu) | bits << 16;
    }
};

template <>
struct uf_pack<uf_bf16, 1> {
    uf_bf16 element;

    __device__ __forceinline__ float get(int) const {
        return (float)element;
    }
    __device__ __forceinline__ void set(int, float value) {
        element = uf_bf16(value);
    }
};

/* May uf_load and uf_store move COUNT elements of T at once from here? */
template <typename T, int COUNT>
static inline bool uf_is_aligned(const void *address) {
    return (uintptr_t)address % (COUNT * sizeof(T)) == 0;
}

/* Tensors of one shape as rows of contiguous elements, for grids with a row in blockIdx.y: one row
 * where all are contiguous, a row for each image where images are, as in a slice of channels. */
struct uf_rows {
    int64_t count, rows; /* elements of a row; 0 rows: the tensors are not rows */
};

/* Elements from row to row. */
static inline int64_t uf_row_pitch(const uf_rows &of, const uf_view &view) {
    return of.rows > 1 ? view.stride[0] : 0;
}

/* Views without data do not count. */
template <int VIEWS>
static uf_rows uf_rows_of(const uf_view *const (&views)[VIEWS]) {
    enum { MOST = 65535 }; /* of a grid along y */
    const int64_t count = uf_view_count(views[0]), images = views[0]->extent[0];
    /* Shorter rows would leave threads of their blocks without work. */
    bool flat = true, rows = images <= MOST && count >= UF_BLOCK * images;
    for (const uf_view *view : views) {
        uf_view image = *view;
        image.extent[0] = 1;
        flat = flat && (view->data == nullptr || uf_view_is_contiguous(view));
        rows = rows && (view->data == nullptr || uf_view_is_contiguous(&image));
    }
    return flat ? uf_rows{count, 1} : rows ? uf_rows{count / images, images} : uf_rows{0, 0};
}

/* May uf_load and uf_store move COUNT elements of T at once, from the begin of each row on? */
template <typename T, int COUNT>
static inline bool uf_row_is_aligned(const uf_rows &of, const uf_view &view) {
    return uf_is_aligned<T, COUNT>(view.data) && uf_row_pitch(of, view) % COUNT == 0;
}

/* A tensor as rows. */
template <typename T>
struct uf_row_tensor {
    T *data; /* of the first row, or absent */
    int64_t pitch;

    /* The row of this block. */
    __device__ __forceinline__ T *row() const {
        return data != nullptr ? data + blockIdx.y * pitch : nullptr;
    }
};

template <typename T>
static uf_row_tensor<T> uf_row_tensor_of(const uf_rows &rows, const uf_view &view) {
    return {static_cast<T *>(view.data), uf_row_pitch(rows, view)};
}

/* A thread for each vector of WIDTH elements. */
static inline uf_launch uf_row_blocks(const uf_rows &of, int64_t width) {
    return {dim3(uf_blocks(of.count / width), (unsigned)of.rows), UF_BLOCK};
}

/* `from` is aligned for the pack. Plain loads: a kernel may overwrite what it has read. */
template <typename T, int COUNT>
static __device__ __forceinline__ uf_pack<T, COUNT> uf_load(const T *from) {
    return *reinterpret_cast<const uf_pack<T, COUNT> *>(from);
}

template <typename T, int COUNT>
static __device__ __forceinline__ void uf_store(T *to, const uf_pack<T, COUNT> &pack) {
    *reinterpret_cast<uf_pack<T, COUNT> *>(to) = pack;
}

#endif
