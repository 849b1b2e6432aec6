/* arranged.c - see arranged.h. */
#include "cases/arranged.h"

#include <stdio.h>

#include "support/test.h"

void arranged_case(int64_t row, test_random *random, layer_case *one, arranged_source *source) {
    one->row = row;
    one->reduction = 0; /* exact: the tolerance is 0 */
    test_random_fill(random, one->input.values, one->input.count, 1.0);
    for (int64_t i = 0; i < one->output.count; ++i) {
        int64_t output[UF_MAX_RANK], input[UF_MAX_RANK], rest = i, place = 0;
        for (int32_t axis = one->output.rank - 1; axis >= 0; --axis) {
            output[axis] = rest % one->output.extent[axis];
            rest /= one->output.extent[axis];
        }
        source(row, output, input);
        for (int32_t axis = 0; axis < one->input.rank; ++axis) {
            assert_in_range(input[axis], 0, one->input.extent[axis] - 1);
            place = place * one->input.extent[axis] + input[axis];
        }
        one->output.values[i] = one->input.values[place];
    }
    (void)snprintf(one->label, sizeof one->label, "%s, row %lld", one->family->name,
                   (long long)row);
}
