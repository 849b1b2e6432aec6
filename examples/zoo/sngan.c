/* sngan.c - SNGAN's discriminator of (N, channels, H, H), H a multiple of 8: a logit for each
 * image. The weights are under torch.nn.utils.spectral_norm (weight_orig, weight_u, weight_v), in
 * place of the authors' own class (weight_bar, weight_u, weight_v). It divides each weight by an
 * estimate of its largest singular value, which training improves in each run.
 * Miyato, Kataoka, Koyama, Yoshida 2018, https://arxiv.org/abs/1802.05957
 * https://github.com/christiancosgrove/pytorch-spectral-normalization-gan/blob/master/model.py */
#include "zoo.h"

void zoo_sngan(uf_graph *graph, uf_store *store, const zoo_size *size) {
    const int64_t last = 8 * size->features * (size->side / 8) * (size->side / 8);
    uf_value x =
        uf_input(graph, "image", UF_SHAPE(size->batch, size->channels, size->side, size->side));
    for (int i = 0; i < 7; ++i) {
        uf_conv2d_options conv =
            uf_conv2d_options_square(i % 2 == 0 ? 3 : 4, i % 2 == 0 ? 1 : 2, 1, true);
        conv.weight = UF_WEIGHT_SPECTRAL_NORM;
        x = uf_conv2d(graph, x, uf_atf(store, "conv%d", i + 1), size->features << i / 2, &conv);
        x = uf_leaky_relu(graph, x, 0.1);
    }
    const uf_scope fc = uf_at(store, "fc");
    const uf_value weight = uf_spectral_norm(graph, fc, UF_SHAPE(1, last), 0);
    x = uf_linear_with(graph, uf_flatten(graph, x, 1, -1), weight,
                       uf_parameter(graph, fc, "bias", UF_SHAPE(1)));
    uf_output(graph, "logit", x);
}
