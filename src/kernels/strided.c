/* strided.c - see strided.h: index spaces, and the checks of the kernels that walk them. */
#include "kernels/check.h"

#include <inttypes.h>
#include <string.h>

/* Offsets below this leave room to add and to multiply by an element's size. */
#define OFFSET_LIMIT (INT64_C(1) << 58)

void uf_strided_contiguous(const uf_shape *shape, int64_t stride[UF_MAX_RANK]) {
    int64_t next = 1;
    for (int32_t axis = shape->rank - 1; axis >= 0; --axis) {
        stride[axis] = next;
        next *= shape->extent[axis];
    }
}

uf_strided uf_strided_of(const uf_shape *shape) {
    uf_strided space;
    memset(&space, 0, sizeof space);
    space.rank = shape->rank;
    space.operands = 1;
    memcpy(space.extent, shape->extent, sizeof space.extent);
    uf_strided_contiguous(shape, space.stride[0]);
    return space;
}

void uf_strided_broadcast(const uf_shape *whole, const uf_shape *shape,
                          const int64_t own[UF_MAX_RANK], int64_t stride[UF_MAX_RANK]) {
    const int32_t missing = whole->rank - shape->rank;
    for (int32_t axis = 0; axis < whole->rank; ++axis) {
        const bool repeats = axis < missing || shape->extent[axis - missing] == 1;
        stride[axis] = repeats ? 0 : own[axis - missing];
    }
}

/* Does every operand step from the end of `inner` to the next element of `outer`? */
static bool is_one_axis(const uf_strided *space, int32_t outer, int32_t inner) {
    for (int32_t k = 0; k < space->operands; ++k) {
        if (space->stride[k][outer] != space->extent[inner] * space->stride[k][inner]) {
            return false;
        }
    }
    return true;
}

static void move_axis(uf_strided *space, int32_t to, int32_t from) {
    space->extent[to] = space->extent[from];
    for (int32_t k = 0; k < space->operands; ++k) {
        space->stride[k][to] = space->stride[k][from];
    }
}

static void exchange_axes(uf_strided *space, int32_t one, int32_t other) {
    const uf_strided before = *space;
    move_axis(space, one, other);
    space->extent[other] = before.extent[one];
    for (int32_t k = 0; k < space->operands; ++k) {
        space->stride[k][other] = before.stride[k][one];
    }
}

void uf_strided_simplify(uf_strided *space) {
    int32_t rank = 0;
    for (int32_t axis = 0; axis < space->rank; ++axis) {
        if (space->extent[axis] == 1) {
            continue;
        }
        int64_t before = 1;
        if (rank > 0 && is_one_axis(space, rank - 1, axis)) {
            before = space->extent[--rank];
        }
        move_axis(space, rank, axis);
        space->extent[rank++] *= before;
    }
    if (rank == 0) {
        space->extent[0] = 1;
        for (int32_t k = 0; k < space->operands; ++k) {
            space->stride[k][0] = 1;
        }
        rank = 1;
    }
    space->rank = rank;
}

void uf_strided_sort(uf_strided *space) {
    for (int32_t end = space->rank - 1; end > 0; --end) {
        for (int32_t axis = 0; axis < end; ++axis) {
            if (space->stride[0][axis] < space->stride[0][axis + 1]) {
                exchange_axes(space, axis, axis + 1);
            }
        }
    }
}

int64_t uf_strided_count(const uf_strided *space) {
    int64_t count = 1;
    for (int32_t axis = 0; axis < space->rank; ++axis) {
        count *= space->extent[axis];
    }
    return count;
}

bool uf_strided_repeats(const uf_strided *space) {
    for (int32_t axis = 0; axis < space->rank; ++axis) {
        if (space->extent[axis] > 1 && space->stride[0][axis] == 0) {
            return true;
        }
    }
    return false;
}

uf_strided_walk uf_strided_walk_from(const uf_strided *space, int32_t inner, int64_t number) {
    uf_strided_walk walk;
    memset(&walk, 0, sizeof walk);
    walk.axes = space->rank - inner;
    for (int32_t axis = walk.axes - 1; axis >= 0; --axis) {
        walk.index[axis] = number % space->extent[axis];
        number /= space->extent[axis];
        for (int32_t k = 0; k < space->operands; ++k) {
            walk.offset[k] += walk.index[axis] * space->stride[k][axis];
        }
    }
    return walk;
}

void uf_strided_next(const uf_strided *space, uf_strided_walk *walk) {
    for (int32_t axis = walk->axes - 1; axis >= 0; --axis) {
        const bool wraps = ++walk->index[axis] == space->extent[axis];
        const int64_t steps = wraps ? 1 - space->extent[axis] : 1;
        for (int32_t k = 0; k < space->operands; ++k) {
            walk->offset[k] += steps * space->stride[k][axis];
        }
        if (!wraps) {
            return;
        }
        walk->index[axis] = 0;
    }
}

uf_strided_reduction uf_reduction_of(const uf_strided *space) {
    uf_strided simple = *space;
    uf_strided_reduction made = {.kept = *space, .reduced = *space};
    uf_strided_simplify(&simple);
    made.kept.rank = made.reduced.rank = 0;
    for (int32_t axis = 0; axis < simple.rank; ++axis) {
        uf_strided *half = simple.stride[0][axis] == 0 ? &made.reduced : &made.kept;
        half->extent[half->rank] = simple.extent[axis];
        for (int32_t k = 0; k < simple.operands; ++k) {
            half->stride[k][half->rank] = simple.stride[k][axis];
        }
        ++half->rank;
    }
    made.columns = simple.stride[0][simple.rank - 1] != 0;
    uf_strided_simplify(&made.kept);
    uf_strided_simplify(&made.reduced);
    return made;
}

static int32_t operands_of(uf_term term) {
    static const int32_t operands[UF_TERM_COUNT] = {
#define UF_TERM(name, count, expression) [UF_TERM_##name] = (count),
#include "kernels/strided_terms.def"
#undef UF_TERM
    };
    return operands[term];
}

static uf_status check_operand(const char *kernel, const uf_strided_kernel_args *args, int32_t k) {
    const uf_strided *space = &args->space;
    int64_t reach = 0;
    UF_CHECK_ARG(args->data[k] != NULL, "%s: operand %d is absent", kernel, (int)k);
    for (int32_t axis = 0; axis < space->rank; ++axis) {
        const int64_t stride = space->stride[k][axis];
        int64_t span;
        UF_CHECK_ARG(stride >= 0,
                     "%s: stride %d of operand %d is %" PRId64 "; it must be 0 or more", kernel,
                     (int)axis, (int)k, stride);
        UF_CHECK_ARG(!__builtin_mul_overflow(space->extent[axis] - 1, stride, &span) &&
                         span < OFFSET_LIMIT && (reach += span) < OFFSET_LIMIT,
                     "%s: operand %d reaches further than can be addressed: %" PRId64
                     " times a stride of %" PRId64,
                     kernel, (int)k, space->extent[axis], stride);
    }
    return UF_OK;
}

static uf_status check(const char *kernel, const uf_strided_kernel_args *args) {
    const uf_strided *space = &args->space;
    const uf_view typed = {.dtype = args->dtype};
    int64_t count = 1;
    UF_TRY(uf_check_mode(kernel, args->mode));
    UF_TRY(uf_check_stored(kernel, "the output", &typed));
    UF_CHECK_ARG((unsigned)args->term < UF_TERM_COUNT, "%s: %d is no uf_term", kernel,
                 (int)args->term);
    UF_CHECK_ARG(space->rank >= 0 && space->rank <= UF_MAX_RANK,
                 "%s: there are %d axes; there may be 0 to %d", kernel, (int)space->rank,
                 UF_MAX_RANK);
    UF_CHECK_ARG(space->operands == 1 + operands_of(args->term),
                 "%s: there are %d operands; the term takes %d", kernel, (int)space->operands - 1,
                 (int)operands_of(args->term));
    for (int32_t axis = 0; axis < space->rank; ++axis) {
        UF_CHECK_ARG(space->extent[axis] >= 1 &&
                         !__builtin_mul_overflow(count, space->extent[axis], &count) &&
                         count < OFFSET_LIMIT,
                     "%s: extent %d is %" PRId64
                     "; extents must be 1 or more, and no more elements than can be addressed",
                     kernel, (int)axis, space->extent[axis]);
    }
    for (int32_t k = 0; k < space->operands; ++k) {
        UF_TRY(check_operand(kernel, args, k));
    }
    return UF_OK;
}

uf_status uf_reduce_check(const uf_strided_kernel_args *args) {
    UF_CHECK_ARG(!args->makes_f32 || args->dtype == UF_BF16,
                 "reduce: an f32 output is made of bf16 operands, not of %s",
                 uf_dtype_name(args->dtype));
    return check("reduce", args);
}

uf_status uf_broadcast_check(const uf_strided_kernel_args *args) {
    UF_TRY(check("broadcast", args));
    UF_CHECK_ARG(!args->makes_f32, "broadcast: the output has the type of the operands");
    UF_CHECK_ARG(!uf_strided_repeats(&args->space),
                 "broadcast: the output repeats along an axis; that is a sum, which reduce makes");
    return UF_OK;
}
