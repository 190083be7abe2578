# SPDX-License-Identifier: MIT
"""ebb.torch.linear_log_probs, of ordinary tensors and of heads in parts."""

from . import _exchange as exchange
from ._token_statistics import OUTPUTS, number, of_tensors


def linear_log_probs(
    x,
    head,
    target,
    *,
    bias=None,
    temperature=1.0,
    logit_scale=1.0,
    softcap=0.0,
    ignore_index=-100,
    chunk=0,
    outputs="log_probs",
):
    """log p(target) of hidden states x [.., H] under an LM head [V, H], in f32 (f64 for f64), without a tensor of N×V.

    The logits are softcap(logit_scale·(x·headᵀ + bias)) / temperature and f32 for halves. outputs is one name, for a
    tensor, or several, for a tuple of them: log_probs, entropy, logsumexp, log_sum_sq_probs (log Σ p²), mean_logits and
    argmax, each in the shape of target and 0 where target is ignore_index. All but argmax have gradients.

    The head may be a DTensor whose classes are in parts, Shard(0), with hidden states that are a DTensor on the same mesh:
    every rank computes with its own classes, and the results are ordinary tensors, the same on all of these ranks.

    chunk: rows whose logits exist at a time (default 0: chosen)
    """
    names = [outputs] if isinstance(outputs, str) else list(outputs)
    for name in names:
        if name not in OUTPUTS:
            raise ValueError(f"linear_log_probs: there is no output {name!r}; there are {', '.join(OUTPUTS)}")
    if not names:
        raise ValueError(f"linear_log_probs: outputs is empty; choose from {', '.join(OUTPUTS)}")
    scales = (("temperature", temperature), ("logit_scale", logit_scale), ("softcap", softcap))
    temperature, logit_scale, softcap = (number("linear_log_probs", *each) for each in scales)
    options = dict(temperature=temperature, logit_scale=logit_scale, softcap=softcap, ignore_index=ignore_index, chunk=chunk)
    if exchange.has_parts((x, head)):
        from . import _parallel  # whose modules of PyTorch take a second to import

        found = _parallel.statistics("linear_log_probs", x, head, target, bias=bias, outputs=names, **options)
    else:
        found = of_tensors(x, head, target, bias=bias, outputs=names, **options)
    return found[0] if isinstance(outputs, str) else found


linear_log_probs.__module__ = "ebb.torch"
