/* fold.h - plain weights of the tensors that torch.nn.utils.weight_norm and spectral_norm save in
 * their place, as evaluation computes them. */
#ifndef UF_IO_FOLD_H
#define UF_IO_FOLD_H

#include <unfurl/status.h>

#include <unfurl/tensor.h>

enum { UF_FOLD_PARTS = 3, UF_FOLD_KINDS = 2, UF_FOLD_FORMS = 2 * UF_FOLD_KINDS };

/* One form of such a weight: what stands behind "X." in place of "weight". */
typedef struct uf_fold_form {
    const char *parts[UF_FOLD_PARTS]; /* v and g; or W, u and v. NULL: no more */
} uf_fold_form;

/* Weight norm and spectral norm, and both again as torch.nn.utils.parametrizations names the same
 * parts. */
extern const uf_fold_form uf_fold_forms[UF_FOLD_FORMS];

/* The parts of a weight, f64 in C order. */
typedef struct uf_fold {
    const uf_fold_form *form;
    const uf_shape *shapes[UF_FOLD_PARTS];
    const double *values[UF_FOLD_PARTS];
} uf_fold;

/* `weight` = v * g / |v|, or W / (u . W v), overwritten; it has the shape of the first part. The
 * axis of the rows follows from the length of u; where two axes fit, from u and v being singular
 * vectors. Errors: FORMAT, with `name` in front: shapes that do not fit, or nothing that tells the
 * axis. */
uf_status uf_fold_weight(const uf_fold *fold, const char *name, double *weight);

#endif
