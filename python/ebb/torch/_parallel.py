# SPDX-License-Identifier: MIT
"""LM heads in parts: every rank of a process group has some of the classes (a DTensor with Shard(0)), and none all logits.

Each rank computes the statistics of its own classes as without the others. What the distribution over all classes is follows from a
few numbers per token: one all-reduce of their maximum, one of their sums. The gradient of these is every rank's own affair;
that of the hidden states is a sum over ranks, which DTensor makes (as a reduce-scatter where they are in parts, too).
"""

import torch
from torch.distributed import _functional_collectives as collectives
from torch.distributed.tensor import DTensor, Partial, Replicate

from ._token_statistics import of_tensors


class _Sum(torch.autograd.Function):
    """The sum over ranks. All ranks compute the same from it, so its cotangent is everybody's."""

    @staticmethod
    def forward(ctx, x, group):
        return collectives.wait_tensor(collectives.all_reduce(x, "sum", group))

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class Parts:
    """The operands of this rank, as ordinary tensors, and where its classes begin."""

    def __init__(self, name, x, head, target, bias):
        if not isinstance(head, DTensor):
            raise ValueError(
                f"{name}: the hidden states are a DTensor and the head is not; make it one, DTensor.from_local(head, mesh, "
                "[Shard(0)]), or use x.to_local()"
            )
        mesh, placements = head.device_mesh, head.placements
        split = [k for k, p in enumerate(placements) if p.is_shard()]
        known = all(p.is_replicate() or p.is_shard(0) for p in placements)
        if not known or len(split) > 1:
            raise ValueError(
                f"{name}: a head with the placements {list(placements)} is not supported; its classes can be in parts along "
                "one axis of the mesh, Shard(0), and the rest must be Replicate()"
            )
        if not isinstance(x, DTensor) or x.device_mesh != mesh:
            raise ValueError(
                f"{name}: the head is a DTensor in parts and the hidden states are not on its mesh; where all ranks have the "
                "same ones use DTensor.from_local(x, mesh, [Replicate()]), where they differ gather the head, "
                "head.full_tensor()"
            )
        along = [self._placement_of_x(k in split, p, x) for k, p in enumerate(x.placements)]
        rows = x.redistribute(mesh, along)
        self.x = rows.to_local(grad_placements=[Partial() if k in split else p for k, p in enumerate(along)])
        of_head = [Partial() if along[k].is_shard() else p for k, p in enumerate(placements)]
        self.head = head.to_local(grad_placements=of_head)
        self.target = target.redistribute(mesh, along).to_local() if isinstance(target, DTensor) else target
        self.bias = bias
        if isinstance(bias, DTensor):
            self.bias = bias.redistribute(mesh, placements).to_local(grad_placements=of_head)
        elif bias is not None:
            raise ValueError(f"{name}: the head is a DTensor and the bias is not; distribute it like the head")
        self.classes, self.begin, self.group = head.shape[0], 0, None
        if split:
            self.group = (mesh, split[0])
            size = -(-self.classes // mesh.size(split[0]))
            self.begin = min(self.classes, size * mesh.get_local_rank(split[0]))

    @staticmethod
    def _placement_of_x(is_split, placement, x):
        keeps = placement.is_shard() and placement.dim < x.ndim - 1 and not is_split
        return placement if keeps else Replicate()

    def sum(self, x):
        return _Sum.apply(x, self.group)

    def maximum(self, x):
        return collectives.wait_tensor(collectives.all_reduce(x.detach(), "max", self.group))


def statistics(name, x, head, target, *, bias, ignore_index, outputs, **options):
    """linear_log_probs of DTensors: a tuple of ordinary tensors, the same on all ranks that share the rows."""
    parts = Parts(name, x, head, target, bias)
    x, head, target, bias = parts.x, parts.head, parts.target, parts.bias
    if parts.group is None:
        return of_tensors(x, head, target, bias=bias, ignore_index=ignore_index, outputs=outputs, **options)
    if "argmax" in outputs:
        raise ValueError(f"{name}: argmax is not available where the head is in parts; leave it out of outputs")
    kept = target != ignore_index
    _require_classes(name, target, kept, parts.classes)
    here = kept & (target >= parts.begin) & (target < parts.begin + head.shape[0])
    mine = torch.where(here, target - parts.begin, torch.where(kept, 0, -100))
    asked = ["log_probs", "logsumexp", *(o for o in outputs if o not in ("log_probs", "logsumexp"))]
    if head.shape[0]:
        found = dict(zip(asked, of_tensors(x, head, mine, bias=bias, outputs=asked, **options)))
    else:  # more ranks than classes: zeros that depend on everything
        empty = head.sum() if bias is None else head.sum() + bias.sum()
        nothing = 0 * x.sum(-1, dtype=torch.float64 if x.dtype == torch.float64 else torch.float32) + empty
        found = dict.fromkeys(asked, nothing) | {"logsumexp": nothing - torch.inf}
    return tuple(_combined(parts, found, kept, here, head.shape[0])[o] for o in outputs)


def _combined(parts, found, kept, here, count):
    """Statistics of all classes from those of each rank's.

    m the largest logsumexp l_r, e_r = exp(l_r − m), s = Σ e_r:   l = m + log s,   log p = Σ z_y − l,
    entropy = l − Σ e_r·(l_r − entropy_r) / s,   log Σ p² = log Σ e_r²·(Σ p²)_r − 2·log s
    """
    l_r = torch.where(kept, found["logsumexp"], 0 if count else -torch.inf)
    m = parts.maximum(l_r)
    e = torch.exp(l_r - m)
    terms = {"e": e, "z": torch.where(here, found["log_probs"] + l_r, 0)}
    finite = torch.where(torch.isinf(l_r), 0, l_r)
    if "entropy" in found:
        terms["entropy"] = e * (finite - found["entropy"])
    if "log_sum_sq_probs" in found:
        terms["log_sum_sq_probs"] = e * e * torch.exp(found["log_sum_sq_probs"])
    if "mean_logits" in found:
        terms["mean_logits"] = found["mean_logits"] * (count / parts.classes)
    total = dict(zip(terms, parts.sum(torch.stack(list(terms.values()))).unbind()))
    log_s = torch.log(total["e"])
    every = {"logsumexp": m + log_s, "log_probs": total["z"] - m - log_s}
    if "entropy" in found:
        every["entropy"] = m + log_s - total["entropy"] / total["e"]
    if "log_sum_sq_probs" in found:
        every["log_sum_sq_probs"] = torch.log(total["log_sum_sq_probs"]) - 2 * log_s
    if "mean_logits" in found:
        every["mean_logits"] = total["mean_logits"]
    return {name: torch.where(kept, value, 0) for name, value in every.items()}


def _require_classes(name, target, kept, classes):
    wrong = kept & ((target < 0) | (target >= classes))
    if torch.compiler.is_compiling() or target.is_cuda or target.is_meta or not wrong.any():
        return
    at = wrong.nonzero()[0].tolist()
    raise IndexError(f"{name}: target{at} = {target[tuple(at)].item()} is outside [0, {classes})")


def cross_entropy(x, head, target, bias, weight, token_weight, options):
    """linear_cross_entropy of DTensors, in f32 (f64 for f64): an ordinary tensor, the same on all ranks that share the rows."""
    name = "linear_cross_entropy"
    smoothing, z_loss, ignore_index = options["label_smoothing"], options["z_loss"], int(options["ignore_index"])
    if target.is_floating_point():
        raise ValueError(f"{name}: a head in parts needs targets that are class indices, got {target.dtype}")
    if weight is not None and smoothing:
        raise ValueError(f"{name}: class weights together with label_smoothing need a head that is not in parts")
    outputs = ["log_probs", "logsumexp"] + (["mean_logits"] if smoothing else [])
    head_options = {"softcap": options["softcap"], "chunk": int(options["chunk"]), "ignore_index": ignore_index}
    found = statistics(name, x, head, target, bias=bias, outputs=outputs, **head_options)
    log_probs, l = found[:2]
    if isinstance(target, DTensor):
        target = Parts(name, x, head, target, bias).target
    kept = target != ignore_index
    counts = kept.to(l.dtype)
    if weight is not None:
        weight = weight.full_tensor() if isinstance(weight, DTensor) else weight
        counts = counts * weight.to(l.dtype)[torch.where(kept, target, 0)]
    if token_weight is not None:
        if isinstance(token_weight, DTensor):
            raise ValueError(f"{name}: token_weight is a DTensor; give the weights of this rank's rows (to_local())")
        counts = counts * token_weight.to(l.dtype)
    loss = -(1 - smoothing) * log_probs + (smoothing * (l - found[2]) if smoothing else 0)
    loss = (loss + z_loss * l.square() if z_loss else loss) * counts
    reduction = options["reduction"]
    return loss if reduction == "none" else loss.sum() if reduction == "sum" else loss.sum() / counts.sum()
