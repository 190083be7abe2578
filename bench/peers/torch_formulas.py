# SPDX-License-Identifier: MIT
"""The losses in PyTorch: its own where it ships one, else the shared formulas with PyTorch's functions."""

import torch
import torch.nn.functional as F


class Functions:
    """What formulas.py needs, by PyTorch's names."""

    abs, exp, log, log1p, expm1 = torch.abs, torch.exp, torch.log, torch.log1p, torch.expm1
    sqrt, sin, cosh = torch.sqrt, torch.sin, torch.cosh
    where, sigmoid, softplus, gelu = torch.where, torch.sigmoid, F.softplus, F.gelu
    clip, minimum, diagonal, concatenate = torch.clamp, torch.minimum, torch.diagonal, torch.cat

    @staticmethod
    def maximum(a, b):
        return torch.maximum(a, b) if isinstance(b, torch.Tensor) else torch.clamp(a, min=b)

    @staticmethod
    def mean(x, axis=None):
        return torch.mean(x) if axis is None else torch.mean(x, axis)

    @staticmethod
    def sum(x, axis=None, keepdims=False):
        return torch.sum(x) if axis is None else torch.sum(x, axis, keepdim=keepdims)

    logsumexp = staticmethod(lambda x: torch.logsumexp(x, -1))
    softmax = staticmethod(lambda x: torch.softmax(x, -1))
    log_softmax = staticmethod(lambda x: torch.log_softmax(x, -1))
    take_along = staticmethod(lambda x, i: torch.gather(x, -1, i))
    transpose = staticmethod(lambda x: x.T)
    cumsum = staticmethod(lambda x: torch.cumsum(x, -1))
    sort_descending = staticmethod(lambda x: torch.sort(x, -1, descending=True).values)
    argsort_descending = staticmethod(lambda x: torch.argsort(x, -1, descending=True))
    stop_gradient = staticmethod(lambda x: x.detach())
    arange_like = staticmethod(lambda x: torch.arange(x.shape[-1], dtype=x.dtype, device=x.device))
    as_float = staticmethod(lambda mask, like: mask.to(like.dtype))
    one_hot = staticmethod(lambda y, n, like: F.one_hot(y, n).to(like.dtype))
    eye_like = staticmethod(lambda x: torch.eye(x.shape[0], dtype=x.dtype, device=x.device))
    without_diagonal = staticmethod(
        lambda x: x.masked_fill(torch.eye(x.shape[0], dtype=torch.bool, device=x.device), float("-inf"))
    )
    variance = staticmethod(lambda x, axis: torch.var(x, axis, correction=0))


# Losses that PyTorch ships; the others are the shared formulas.
SHIPPED = {
    "mse_loss": F.mse_loss,
    "mse": F.mse_loss,
    "l1_loss": F.l1_loss,
    "smooth_l1_loss": F.smooth_l1_loss,
    "huber_loss": F.huber_loss,
    "nll_loss": F.nll_loss,
    "cross_entropy": F.cross_entropy,
    "softmax_cross_entropy": F.cross_entropy,
    "binary_cross_entropy": F.binary_cross_entropy,
    "binary_cross_entropy_with_logits": F.binary_cross_entropy_with_logits,
    "multilabel_soft_margin_loss": F.multilabel_soft_margin_loss,
    "hinge_embedding_loss": F.hinge_embedding_loss,
    "margin_ranking_loss": F.margin_ranking_loss,
    "soft_margin_loss": F.soft_margin_loss,
    "multi_margin_loss": F.multi_margin_loss,
    "multilabel_margin_loss": F.multilabel_margin_loss,
    "triplet_margin_loss": F.triplet_margin_loss,
    "triplet_margin_with_distance_loss": F.triplet_margin_with_distance_loss,
    "cosine_embedding_loss": F.cosine_embedding_loss,
    "cosine_similarity_loss": lambda a, b: torch.mean(1 - F.cosine_similarity(a, b, -1)),
    "kl_div": lambda x, t: F.kl_div(x, t, reduction="mean"),
    "poisson_nll_loss": F.poisson_nll_loss,
    "gaussian_nll_loss": F.gaussian_nll_loss,
    # PyTorch's gradient is that of the logits behind the log-probabilities, so all make them from logits.
    "ctc_loss": lambda x, *others: F.ctc_loss(torch.log_softmax(x, -1), *others),
    "linear_cross_entropy": lambda x, head, y: F.cross_entropy(F.linear(x, head), y),
}
# From 2.13 on. Its chunked path holds no more than some rows of logits; it differentiates by backward() alone and does not compile.
CHUNKED = {}
if hasattr(F, "linear_cross_entropy"):
    SHIPPED["linear_cross_entropy"] = F.linear_cross_entropy
    if hasattr(torch.nn, "LinearCrossEntropyOptions"):
        chunked = torch.nn.LinearCrossEntropyOptions()
        CHUNKED["linear_cross_entropy"] = lambda x, head, y: F.linear_cross_entropy(x, head, y, options=chunked)
