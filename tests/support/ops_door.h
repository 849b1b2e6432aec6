/* ops_door.h - runs a case through ops.h, on guarded memory of any layout. */
#ifndef TEST_SUPPORT_OPS_DOOR_H
#define TEST_SUPPORT_OPS_DOOR_H

#include "cases/layer_case.h"
#include "support/guard.h"

typedef struct ops_run {
    uf_dtype dtype;
    guard_layout input, output, parameters;
    uf_write_mode mode;
    const char *variant;
    test_random *random; /* for GUARD_GAPS and for what ACCUMULATE adds to; may be NULL otherwise */
} ops_run;

/* Run a case and give its status and, when UF_OK, the output in C order (result: output.count
 * elements). For ACCUMULATE, `before` gets what was there. Checks the guards. */
uf_status ops_door_try(uf_context *context, const layer_case *one, const ops_run *run,
                       double *result, double *before);

/* Run it and hold the result to the case's: error relative to max(max|expected|, floor). */
void ops_door_check(uf_context *context, const layer_case *one, const ops_run *run,
                    double tolerance, double floor);

#endif
