# SPDX-License-Identifier: MIT
"""torch.nn.functional's names, for `import ebb.nn.functional as F`: the same functions as in ebb itself.

batch_norm and instance_norm give the normalized tensor alone, as PyTorch's do. Running statistics are values, which cannot be
moved in place: ebb.batch_norm and ebb.instance_norm return them, too.
"""

import functools as _functools

from .. import compat as _compat, losses as _losses

__all__ = """
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool1d_with_indices
    adaptive_max_pool2d adaptive_max_pool2d_with_indices adaptive_max_pool3d adaptive_max_pool3d_with_indices affine_grid
    alpha_dropout avg_pool1d avg_pool2d avg_pool3d batch_norm bilinear binary_cross_entropy
    binary_cross_entropy_with_logits celu channel_shuffle conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d
    conv_transpose3d cosine_embedding_loss cosine_similarity cross_entropy ctc_loss dropout dropout1d dropout2d dropout3d
    elu embedding embedding_bag feature_alpha_dropout fold gaussian_nll_loss gelu glu grid_sample group_norm
    gumbel_softmax hardshrink hardsigmoid hardswish hardtanh hinge_embedding_loss huber_loss instance_norm interpolate
    kl_div l1_loss layer_norm leaky_relu linear linear_cross_entropy local_response_norm log_softmax logsigmoid lp_pool1d
    lp_pool2d lp_pool3d margin_ranking_loss max_pool1d max_pool1d_with_indices max_pool2d max_pool2d_with_indices
    max_pool3d max_pool3d_with_indices max_unpool1d max_unpool2d max_unpool3d mish mse_loss multi_head_attention_forward
    multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss nll_loss normalize one_hot pad pairwise_distance
    pdist pixel_shuffle pixel_unshuffle poisson_nll_loss prelu relu relu6 rms_norm rrelu scaled_dot_product_attention selu
    sigmoid silu smooth_l1_loss soft_margin_loss softmax softmin softplus softshrink softsign tanh tanhshrink threshold
    triplet_margin_loss triplet_margin_with_distance_loss unfold upsample upsample_bilinear upsample_nearest
""".split()
globals().update((_name, getattr(_compat if hasattr(_compat, _name) else _losses, _name)) for _name in __all__)


def _first_result(function):
    @_functools.wraps(function)
    def call(*args, **kwargs):
        result = function(*args, **kwargs)
        return result[0] if isinstance(result, tuple) else result

    return call


batch_norm, instance_norm = _first_result(_compat.batch_norm), _first_result(_compat.instance_norm)
