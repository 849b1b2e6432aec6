/* strided.cu - arithmetic over operands of any strides, and sums over axes (kernels/strided.h).
 *
 * broadcast: one thread makes one element, or 16 bytes of them where every operand has them side by
 * side or repeats one. Bound by memory.
 * reduce: f64 sums. Where the terms of an output are neighbours a warp or a block adds them; where
 * neighbours belong to neighbouring outputs a thread has an output of its own, and eight share its
 * terms. Few outputs have their terms cut into parts, which a second launch adds in order. Bound
 * by memory. */
#include "kernels/cuda/conv/simt_direct/plan.h"
#include "kernels/cuda/device/vector.cuh"

enum {
    GRID = 512,       /* blocks that fill a GPU; a sum with fewer is cut into parts */
    COLUMN_LANES = 8, /* threads that share the terms of a column */
    FEW_TERMS = 32,   /* below it a thread of its own does for an output */
    WARP_TERMS = 512  /* up to it a warp does */
};

/* uf_strided with the index type of the kernel. With 32 bits, divisions are multiplications. */
template <typename I>
struct device_space {
    int rank, operands;
    uf_direct_divisor by[UF_MAX_RANK];
    I extent[UF_MAX_RANK];
    I stride[UF_STRIDED_OPERANDS][UF_MAX_RANK];
};

template <typename I>
static device_space<I> device_space_of(const uf_strided &space) {
    device_space<I> made;
    made.rank = space.rank;
    made.operands = space.operands;
    for (int axis = 0; axis < UF_MAX_RANK; ++axis) {
        const bool is_there = axis < space.rank;
        made.extent[axis] = is_there ? (I)space.extent[axis] : (I)1;
        made.by[axis] =
            uf_direct_divisor_of(is_there && sizeof(I) == 4 ? space.extent[axis] : INT64_C(1));
        for (int k = 0; k < UF_STRIDED_OPERANDS; ++k) {
            const bool is_operand = is_there && k < space.operands;
            made.stride[k][axis] = is_operand ? (I)space.stride[k][axis] : (I)0;
        }
    }
    return made;
}

static __device__ __forceinline__ int32_t divide(int32_t x, const uf_direct_divisor &by, int32_t) {
    return by.divisor == 1 ? x : (int32_t)(__umulhi((uint32_t)x, by.multiplier) >> by.shift);
}

static __device__ __forceinline__ int64_t divide(int64_t x, const uf_direct_divisor &, int64_t by) {
    return x / by;
}

/* Add the offsets of index number `i` in C order. */
template <typename I>
static __device__ __forceinline__ void locate(const device_space<I> &space, I i,
                                              I (&offset)[UF_STRIDED_OPERANDS]) {
    for (int axis = space.rank - 1; axis >= 0; --axis) {
        const I next = axis > 0 ? divide(i, space.by[axis], space.extent[axis]) : (I)0;
        const I index = i - next * space.extent[axis];
        i = next;
#pragma unroll
        for (int k = 0; k < UF_STRIDED_OPERANDS; ++k) {
            offset[k] += index * space.stride[k][axis];
        }
    }
}

template <typename T>
struct device_operands {
    uf_term term;
    double factor;
    bool accumulate, makes_f32;
    T *output;
    const T *read[UF_STRIDED_OPERANDS - 1];
    bool wide[UF_STRIDED_OPERANDS - 1]; /* neighbours side by side; else one element repeats */
};

template <typename T>
static device_operands<T> device_operands_of(const uf_strided_kernel_args &args) {
    device_operands<T> made;
    made.term = args.term;
    made.factor = args.factor;
    made.accumulate = args.mode == UF_ACCUMULATE;
    made.makes_f32 = args.makes_f32;
    made.output = (T *)args.data[0];
    for (int k = 1; k < UF_STRIDED_OPERANDS; ++k) {
        made.read[k - 1] = k < args.space.operands ? (const T *)args.data[k] : nullptr;
        made.wide[k - 1] = false;
    }
    return made;
}

template <typename R>
static __device__ __forceinline__ R term_of(uf_term term, R a, R b, R c) {
#define A a
#define B b
#define C c
    switch (term) {
#define UF_TERM(name, operands, expression)                                                        \
    case UF_TERM_##name:                                                                           \
        return expression;
#include "kernels/strided_terms.def"
#undef UF_TERM
    case UF_TERM_COUNT:
        break;
    }
#undef A
#undef B
#undef C
    return a;
}

/* COUNT neighbouring terms of the elements at `offset`. */
template <typename T, int COUNT, typename I>
static __device__ __forceinline__ void make_terms(const device_operands<T> &from, int operands,
                                                  const I (&offset)[UF_STRIDED_OPERANDS],
                                                  typename uf_arithmetic<T>::type (&value)[COUNT]) {
    typedef typename uf_arithmetic<T>::type R;
    R read[UF_STRIDED_OPERANDS - 1][COUNT];
#pragma unroll
    for (int k = 0; k < UF_STRIDED_OPERANDS - 1; ++k) {
        if (k + 1 < operands && COUNT > 1 && from.wide[k]) {
            const uf_pack<T, COUNT> pack = uf_load<T, COUNT>(from.read[k] + offset[k + 1]);
#pragma unroll
            for (int j = 0; j < COUNT; ++j) {
                read[k][j] = (R)pack.get(j);
            }
        } else {
            const R one = k + 1 < operands ? (R)from.read[k][offset[k + 1]] : (R)0;
#pragma unroll
            for (int j = 0; j < COUNT; ++j) {
                read[k][j] = one;
            }
        }
    }
#pragma unroll
    for (int j = 0; j < COUNT; ++j) {
        value[j] = term_of<R>(from.term, read[0][j], read[1][j], read[2][j]);
    }
}

/* `count` is that of packs; the space's last axis steps from pack to pack. */
template <typename T, int COUNT, typename I>
static __global__ void __launch_bounds__(UF_BLOCK)
    broadcast_elements(device_operands<T> from, device_space<I> space, I count) {
    uf_overlap_launches();
    typedef typename uf_arithmetic<T>::type R;
    const R factor = (R)from.factor;
    UF_EACH(I, i, count) {
        I offset[UF_STRIDED_OPERANDS] = {0, 0, 0, 0};
        R value[COUNT];
        uf_pack<T, COUNT> pack;
        locate(space, i, offset);
        make_terms<T, COUNT>(from, space.operands, offset, value);
        T *const to = from.output + offset[0];
        if (from.accumulate) {
            pack = uf_load<T, COUNT>(to);
        }
#pragma unroll
        for (int j = 0; j < COUNT; ++j) {
            pack.set(j, uf_product(from.accumulate, (R)pack.get(j), factor, value[j]));
        }
        uf_store<T, COUNT>(to, pack);
    }
}

template <typename T>
static __device__ __forceinline__ void write_sum(const device_operands<T> &to, int64_t offset,
                                                 double sum) {
    typedef typename uf_arithmetic<T>::type R;
    const R value = (R)__dmul_rn(to.factor, sum);
    if (sizeof(T) < sizeof(R) && to.makes_f32) {
        R *const wide = (R *)to.output + offset;
        *wide = to.accumulate ? *wide + value : value;
        return;
    }
    to.output[offset] = (T)(to.accumulate ? (R)to.output[offset] + value : value);
}

/* The sum over a warp, in lane 0, in a fixed order. */
static __device__ __forceinline__ double warp_sum(double sum) {
    for (int distance = 16; distance > 0; distance >>= 1) {
        sum += __shfl_down_sync(0xffffffffu, sum, (unsigned)distance);
    }
    return sum;
}

/* Grid: x over outputs, y over parts of their terms. LANES threads, a warp or the block, share an
 * output. `terms` and `part` count packs. */
template <typename T, int COUNT, typename I, int LANES>
static __global__ void __launch_bounds__(UF_BLOCK)
    reduce_rows(device_operands<T> from, device_space<I> kept, device_space<I> reduced, I outputs,
                I terms, I part, double *partial) {
    uf_overlap_launches();
    enum { AT_ONCE = UF_BLOCK / LANES };
    typedef typename uf_arithmetic<T>::type R;
    __shared__ double shared[32];
    const I begin = (I)blockIdx.y * part;
    const I end = terms - begin < part ? terms : begin + part;
    const I lane = (I)threadIdx.x % LANES;
    const I first = (I)blockIdx.x * AT_ONCE + (I)threadIdx.x / LANES;
    for (I o = first; o < outputs; o += (I)gridDim.x * AT_ONCE) {
        I base[UF_STRIDED_OPERANDS] = {0, 0, 0, 0};
        double sum = 0;
        locate(kept, o, base);
#pragma unroll 1
        for (I t = begin + lane; t < end; t += LANES) {
            I offset[UF_STRIDED_OPERANDS] = {base[0], base[1], base[2], base[3]};
            R value[COUNT];
            locate(reduced, t, offset);
            make_terms<T, COUNT>(from, reduced.operands, offset, value);
#pragma unroll
            for (int j = 0; j < COUNT; ++j) {
                sum += (double)value[j];
            }
        }
        sum = LANES == 32 ? warp_sum(sum) : uf_block_sum(sum, shared);
        if (lane == 0 && partial != nullptr) {
            partial[(int64_t)blockIdx.y * outputs + o] = sum;
        } else if (lane == 0) {
            write_sum(from, base[0], sum);
        }
    }
}

/* Grid: x over 32 outputs at a time, y over parts. Block: a warp for each lane of the terms. */
template <typename T, typename I>
static __global__ void __launch_bounds__(UF_BLOCK)
    reduce_columns(device_operands<T> from, device_space<I> kept, device_space<I> reduced,
                   I outputs, I terms, I part, double *partial) {
    uf_overlap_launches();
    typedef typename uf_arithmetic<T>::type R;
    __shared__ double shared[COLUMN_LANES][32];
    const int column = (int)threadIdx.x % 32;
    const int lane = (int)threadIdx.x / 32;
    const I begin = (I)blockIdx.y * part;
    const I end = terms - begin < part ? terms : begin + part;
    for (I first = (I)blockIdx.x * 32; first < outputs; first += (I)gridDim.x * 32) {
        const I o = first + (I)column;
        I base[UF_STRIDED_OPERANDS] = {0, 0, 0, 0};
        double sum = 0;
        if (o < outputs) {
            locate(kept, o, base);
#pragma unroll 1
            for (I t = begin + (I)lane; t < end; t += COLUMN_LANES) {
                I offset[UF_STRIDED_OPERANDS] = {base[0], base[1], base[2], base[3]};
                R value[1];
                locate(reduced, t, offset);
                make_terms<T, 1>(from, reduced.operands, offset, value);
                sum += (double)value[0];
            }
        }
        shared[lane][column] = sum;
        __syncthreads();
        if (lane == 0 && o < outputs) {
            for (int other = 1; other < COLUMN_LANES; ++other) {
                sum += shared[other][column];
            }
            if (partial != nullptr) {
                partial[(int64_t)blockIdx.y * outputs + o] = sum;
            } else {
                write_sum(from, base[0], sum);
            }
        }
        __syncthreads();
    }
}

/* A warp adds the parts of an output. */
template <typename T, typename I>
static __global__ void __launch_bounds__(UF_BLOCK)
    add_parts(device_operands<T> to, device_space<I> kept, I outputs, int parts,
              const double *partial) {
    uf_overlap_launches();
    const int lane = (int)threadIdx.x % 32;
    const I first = (I)blockIdx.x * (UF_BLOCK / 32) + (I)threadIdx.x / 32;
    for (I o = first; o < outputs; o += (I)gridDim.x * (UF_BLOCK / 32)) {
        double sum = 0;
        for (int part = lane; part < parts; part += 32) {
            sum += partial[(int64_t)part * outputs + o];
        }
        sum = warp_sum(sum);
        if (lane == 0) {
            I base[UF_STRIDED_OPERANDS] = {0, 0, 0, 0};
            locate(kept, o, base);
            write_sum(to, base[0], sum);
        }
    }
}

/* ---- host ---- */

/* Do 32 bits hold every offset and every count, with room for a step of a grid-stride loop? */
static bool is_small(const uf_strided &space) {
    bool small = uf_fits_int32(uf_strided_count(&space));
    for (int k = 0; k < space.operands; ++k) {
        int64_t reach = 0;
        for (int axis = 0; axis < space.rank; ++axis) {
            reach += (space.extent[axis] - 1) * space.stride[k][axis];
        }
        small = small && uf_fits_int32(reach);
    }
    return small;
}

/* May packs of `count` elements be loaded along the last axis of `inner`? Then `wide` says which
 * operands have their elements side by side there. Offsets along `outer` (NULL: none) and the other
 * axes must keep the alignment. */
static bool can_widen(const uf_strided_kernel_args &args, const uf_strided &inner,
                      const uf_strided *outer, int first, int count,
                      bool wide[UF_STRIDED_OPERANDS]) {
    const int last = inner.rank - 1;
    if (count == 1 || inner.extent[last] % count != 0) {
        return false;
    }
    for (int k = first; k < inner.operands; ++k) {
        wide[k] = inner.stride[k][last] == 1;
        if (!wide[k] && inner.stride[k][last] != 0) {
            return false;
        }
        bool aligned = (uintptr_t)args.data[k] % 16 == 0;
        for (int axis = 0; axis < last; ++axis) {
            aligned = aligned && inner.stride[k][axis] % count == 0;
        }
        for (int axis = 0; outer != nullptr && axis < outer->rank; ++axis) {
            aligned = aligned && outer->stride[k][axis] % count == 0;
        }
        if (wide[k] && !aligned) {
            return false;
        }
    }
    return true;
}

/* From elements to packs along the last axis. */
static void widen(uf_strided *space, int count) {
    space->extent[space->rank - 1] /= count;
    for (int k = 0; k < space->operands; ++k) {
        space->stride[k][space->rank - 1] *= count;
    }
}

template <typename T, typename I>
static uf_status broadcast_as(uf_context *context, const uf_strided_kernel_args *args,
                              uf_strided space) {
    enum { COUNT = uf_vector<T>::COUNT };
    device_operands<T> from = device_operands_of<T>(*args);
    bool wide[UF_STRIDED_OPERANDS] = {false, false, false, false};
    if (can_widen(*args, space, nullptr, 0, COUNT, wide) && wide[0]) {
        for (int k = 1; k < UF_STRIDED_OPERANDS; ++k) {
            from.wide[k - 1] = wide[k];
        }
        widen(&space, COUNT);
        const int64_t packs = uf_strided_count(&space);
        return uf_cuda_launch(context, "broadcast", {dim3(uf_blocks(packs)), UF_BLOCK},
                              broadcast_elements<T, COUNT, I>, from, device_space_of<I>(space),
                              (I)packs);
    }
    const int64_t count = uf_strided_count(&space);
    return uf_cuda_launch(context, "broadcast", {dim3(uf_blocks(count)), UF_BLOCK},
                          broadcast_elements<T, 1, I>, from, device_space_of<I>(space), (I)count);
}

/* Run `call` with T and I bound to the element type and an index type for `space`. */
#define DISPATCH(dtype, space, call)                                                               \
    do {                                                                                           \
        const int64_t indices = is_small(space) ? 1 : INT64_MAX;                                   \
        UF_DISPATCH_STORED(dtype, indices, UF_TRY(call));                                          \
    } while (0)

extern "C" uf_status uf_cuda_broadcast(uf_context *context, const uf_strided_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_broadcast_check(args));
    uf_strided space = args->space;
    uf_strided_sort(&space);
    uf_strided_simplify(&space);
    DISPATCH(args->dtype, space, (broadcast_as<T, I>(context, args, space)));
    return UF_OK;
}

/* How a sum is cut, by its shape and the alignment of its operands alone. */
struct reduce_plan {
    uf_strided_reduction sum;
    bool wide[UF_STRIDED_OPERANDS];
    bool packs;             /* terms are counted in packs of 16 bytes */
    bool columns;           /* a thread of its own for an output */
    int lanes;              /* else: threads that share an output */
    int64_t outputs, terms; /* terms: of one output */
    int64_t blocks, parts, part;
};

static reduce_plan plan_reduce(const uf_strided_kernel_args &args) {
    reduce_plan plan = {};
    plan.sum = uf_reduction_of(&args.space);
    const int count = 16 / (int)uf_dtype_size(args.dtype);
    plan.outputs = uf_strided_count(&plan.sum.kept);
    plan.terms = uf_strided_count(&plan.sum.reduced);
    plan.columns = plan.sum.columns || plan.terms < FEW_TERMS;
    plan.packs =
        !plan.columns && can_widen(args, plan.sum.reduced, &plan.sum.kept, 1, count, plan.wide);
    if (plan.packs) {
        widen(&plan.sum.reduced, count);
        plan.terms /= count;
    }
    plan.lanes = plan.terms <= WARP_TERMS ? 32 : UF_BLOCK;
    const int64_t at_once = plan.columns ? 32 : UF_BLOCK / plan.lanes;
    const int64_t least = 8 * (int64_t)(plan.columns ? COLUMN_LANES : plan.lanes); /* of a part */
    plan.blocks = (plan.outputs + at_once - 1) / at_once;
    int64_t parts = GRID / plan.blocks;
    parts = parts < plan.terms / least ? parts : plan.terms / least;
    parts = parts > 1 ? parts : 1;
    plan.part = (plan.terms + parts - 1) / parts;
    plan.parts = (plan.terms + plan.part - 1) / plan.part;
    return plan;
}

static unsigned grid_of(int64_t blocks) {
    return (unsigned)(blocks < (1 << 20) ? blocks : 1 << 20);
}

template <typename T, typename I, int COUNT, int LANES>
static uf_status launch_rows(uf_context *context, const device_operands<T> &from,
                             const reduce_plan &plan, double *partial) {
    const dim3 grid(grid_of(plan.blocks), (unsigned)plan.parts);
    return uf_cuda_launch(context, "reduce", {grid, UF_BLOCK}, reduce_rows<T, COUNT, I, LANES>,
                          from, device_space_of<I>(plan.sum.kept),
                          device_space_of<I>(plan.sum.reduced), (I)plan.outputs, (I)plan.terms,
                          (I)plan.part, partial);
}

template <typename T, typename I>
static uf_status reduce_as(uf_context *context, const uf_strided_kernel_args *args,
                           const reduce_plan &plan) {
    enum { COUNT = uf_vector<T>::COUNT };
    device_operands<T> from = device_operands_of<T>(*args);
    double *const partial = plan.parts > 1 ? (double *)args->workspace : nullptr;
    for (int k = 1; plan.packs && k < UF_STRIDED_OPERANDS; ++k) {
        from.wide[k - 1] = plan.wide[k];
    }
    if (plan.columns) {
        const dim3 grid(grid_of(plan.blocks), (unsigned)plan.parts);
        UF_TRY(uf_cuda_launch(context, "reduce", {grid, UF_BLOCK}, reduce_columns<T, I>, from,
                              device_space_of<I>(plan.sum.kept),
                              device_space_of<I>(plan.sum.reduced), (I)plan.outputs, (I)plan.terms,
                              (I)plan.part, partial));
    } else if (plan.packs && plan.lanes == 32) {
        UF_TRY((launch_rows<T, I, COUNT, 32>(context, from, plan, partial)));
    } else if (plan.packs) {
        UF_TRY((launch_rows<T, I, COUNT, UF_BLOCK>(context, from, plan, partial)));
    } else if (plan.lanes == 32) {
        UF_TRY((launch_rows<T, I, 1, 32>(context, from, plan, partial)));
    } else {
        UF_TRY((launch_rows<T, I, 1, UF_BLOCK>(context, from, plan, partial)));
    }
    if (plan.parts > 1) {
        UF_TRY(uf_cuda_launch(context, "reduce: the parts",
                              {dim3(grid_of((plan.outputs + 7) / 8)), UF_BLOCK}, add_parts<T, I>,
                              from, device_space_of<I>(plan.sum.kept), (I)plan.outputs,
                              (int)plan.parts, partial));
    }
    return UF_OK;
}

extern "C" size_t uf_cuda_reduce_workspace(uf_context *context,
                                           const uf_strided_kernel_args *args) {
    const reduce_plan plan = plan_reduce(*args);
    (void)context;
    return plan.parts > 1 ? (size_t)(plan.parts * plan.outputs) * sizeof(double) : 0;
}

extern "C" uf_status uf_cuda_reduce(uf_context *context, const uf_strided_kernel_args *args) {
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(uf_reduce_check(args));
    const reduce_plan plan = plan_reduce(*args);
    const size_t needed = uf_cuda_reduce_workspace(context, args);
    if (args->workspace_size < needed) {
        UF_FAIL(UF_ERROR_INTERNAL, "reduce was given %zu bytes of workspace and needs %zu",
                args->workspace_size, needed);
    }
    DISPATCH(args->dtype, args->space, (reduce_as<T, I>(context, args, plan)));
    return UF_OK;
}
