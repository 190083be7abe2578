# SPDX-License-Identifier: MIT
"""ebb.torch.patch_trl: TRL's trainers compute log-probabilities and entropies by linear_log_probs.

SFT, DPO, KTO, GRPO and RLOO of TRL take what they need of the logits from one autograd function (add_fused_lm_head); their
formulas stay TRL's own. That function is replaced by one of the same signature.
"""

import inspect

import torch

from ._log_probs import linear_log_probs

# What TRL calls the outputs, in its order; the last is not one of ours.
_OUTPUTS = ("log_probs", "entropy", "log_sum_sq_probs", "mean_logits", "is_top1")
_ARGUMENTS = "hidden weight bias targets temperature chunk_size final_logit_softcapping logit_scale outputs".split()
_NAME = "_ChunkedLogProbFunction"


class _ByEbb:
    """In place of TRL's autograd function, which is kept for heads that ZeRO-3 gathers."""

    def __init__(self, original):
        self.original = original

    def apply(
        self,
        hidden,
        weight,
        bias,
        targets,
        temperature,
        chunk_size,
        final_logit_softcapping=None,
        logit_scale=1.0,
        outputs=_OUTPUTS[1:],
    ):
        if hasattr(weight, "ds_id"):
            options = (temperature, chunk_size, final_logit_softcapping, logit_scale, outputs)
            return self.original.apply(hidden, weight, bias, targets, *options)
        asked = {"log_probs", *outputs}
        names = [name for name in _OUTPUTS[:-1] if name in asked] + (["argmax"] if "is_top1" in asked else [])
        if not torch.is_autocast_enabled(hidden.device.type):
            weight, bias = weight.to(hidden.dtype), None if bias is None else bias.to(hidden.dtype)
        values = linear_log_probs(
            hidden,
            weight,
            targets,
            bias=bias,
            temperature=temperature,
            logit_scale=logit_scale,
            softcap=final_logit_softcapping or 0.0,
            ignore_index=-100,
            outputs=names,
        )
        found = dict(zip(names, values))
        if "argmax" in found:
            found["is_top1"] = found["argmax"] == targets
        for name in ("log_sum_sq_probs", "mean_logits"):  # of which TRL has no gradient
            if name in found:
                found[name] = found[name].detach()
        return tuple(found.get(name) for name in _OUTPUTS)


def _module():
    try:
        import trl
        from trl.trainer import utils
    except ImportError as error:
        raise ImportError(f"patch_trl: TRL cannot be imported ({error})") from error
    return trl, utils


def patch_trl():
    """TRL's trainers (SFT, DPO, KTO, GRPO, RLOO) compute log-probabilities and entropies by linear_log_probs from now on, for
    models that exist and models to come; their losses stay TRL's own formulas. unpatch_trl undoes it. Needs a TRL with a
    fused LM head (add_fused_lm_head); its function and ours are compared on a small batch first.
    """
    trl, utils = _module()
    original = getattr(utils, _NAME, None)
    if isinstance(original, _ByEbb):
        raise ValueError("patch_trl: TRL is patched already; call unpatch_trl first")
    forward = getattr(original, "forward", None)
    if forward is None or [p for p in inspect.signature(forward).parameters if p != "ctx"] != _ARGUMENTS:
        raise ValueError(f"patch_trl: TRL {trl.__version__} has no fused LM head as this version of Ebb knows it (TRL 1.16)")
    ours = _ByEbb(original)
    _require_same(trl, original, ours)
    setattr(utils, _NAME, ours)


def unpatch_trl():
    """Undoes patch_trl."""
    _, utils = _module()
    ours = getattr(utils, _NAME, None)
    if not isinstance(ours, _ByEbb):
        raise ValueError("unpatch_trl: TRL is not patched")
    setattr(utils, _NAME, ours.original)


def _require_same(trl, original, ours):
    generator = torch.Generator().manual_seed(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    hidden, weight, bias = (torch.randn(shape, generator=generator).to(device) for shape in ((5, 4), (7, 4), (7,)))
    given = (hidden, weight, bias, torch.arange(5, device=device), 0.7, 7, 3.0, 1.3, _OUTPUTS)
    with torch.no_grad():
        try:
            theirs = original.apply(*given)
        except Exception as error:  # a Triton kernel without a GPU
            raise ValueError(
                f"patch_trl: the fused LM head of TRL {trl.__version__} does not compute on this machine's {device} "
                f"({type(error).__name__}), so that ours cannot be compared with it"
            ) from error
        found = ours.apply(*given)
    for name, expected, mine in zip(_OUTPUTS, theirs, found):
        if not torch.allclose(expected.double(), mine.double(), rtol=1e-4, atol=1e-5):
            raise ValueError(
                f"patch_trl: {name} of TRL {trl.__version__} is not what this version of Ebb computes under that name"
            )
