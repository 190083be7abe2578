#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes golden/losses.txt: values and gradients of every loss, computed by PyTorch in double precision.

The tests read the file and need no PyTorch. Run this only when a case is added:  python3 make_golden.py
A loss that torch.nn.functional lacks is written here with its operations and differentiated by its autograd.
"""
import pathlib

import torch
import torch.nn.functional as F

torch.manual_seed(20240601)
f64 = torch.float64


def randn(*shape):
    return torch.randn(shape, dtype=f64)


def rand(*shape):
    return 0.05 + 0.9 * torch.rand(*shape, dtype=f64)


def sign(*shape):
    return torch.where(torch.rand(*shape) < 0.5, -1.0, 1.0).to(f64)


def labels(*shape):
    return torch.where(torch.rand(*shape) < 0.5, 0.0, 1.0).to(f64)


def classes(c, *shape):
    return torch.randint(0, c, shape)


def reduced(terms, reduction):
    return {"none": lambda: terms, "mean": lambda: terms.mean(), "sum": lambda: terms.sum(),
            "batchmean": lambda: terms.sum() / terms.shape[0]}[reduction]()


def hinge(x, y, reduction):
    return reduced(torch.clamp_min(1 - y * x, 0), reduction)


def soft_margin(x, y, reduction):
    return reduced(F.softplus(-y * x, threshold=1e9), reduction)


def cosine(a, b, reduction, axis=-1):
    c = (a * b).sum(axis) / (a.norm(dim=axis) * b.norm(dim=axis))
    return reduced(1 - c, reduction)


def kl_divergence(p, q, reduction, epsilon=0.0, axis=-1):
    q = q.clamp_min(epsilon)
    return reduced((p * torch.log(p / q)).sum(axis), reduction)


def focal_p(p, y, reduction, alpha=0.25, gamma=2.0):
    pos, neg = (alpha, 1 - alpha) if alpha >= 0 else (1, 1)
    return reduced(-y * pos * (1 - p) ** gamma * torch.log(p) - (1 - y) * neg * p**gamma * torch.log1p(-p), reduction)


def focal(x, y, reduction, alpha=0.25, gamma=2.0):
    pos, neg = (alpha, 1 - alpha) if alpha >= 0 else (1, 1)
    s, q = torch.sigmoid(x), torch.sigmoid(-x)
    return reduced(-y * pos * q**gamma * F.logsigmoid(x) - (1 - y) * neg * s**gamma * F.logsigmoid(-x), reduction)


def softmax_focal(x, y, alpha=None, reduction="mean", gamma=2.0, ignore_index=-100):
    keep = y != ignore_index
    safe = torch.where(keep, y, 0)
    lp = F.log_softmax(x, dim=1).gather(1, safe.unsqueeze(1)).squeeze(1)
    terms = -((1 - lp.exp()) ** gamma) * lp
    if alpha is not None:
        terms = alpha[safe] * terms
    terms = torch.where(keep, terms, torch.zeros_like(terms))
    return terms.sum() / keep.sum() if reduction == "mean" else reduced(terms, reduction)


def cross_entropy_extras(x, y, weight=None, reduction="mean", ignore_index=-100, z_loss=0.0, softcap=0.0,
                         label_smoothing=0.0):
    if softcap > 0:
        x = softcap * torch.tanh(x / softcap)
    terms = F.cross_entropy(x, y, weight=weight, reduction="none", ignore_index=ignore_index,
                            label_smoothing=label_smoothing)
    keep = y != ignore_index
    w = torch.ones_like(terms) if weight is None else weight[torch.where(keep, y, 0)]
    w = torch.where(keep, w, torch.zeros_like(w))
    terms = terms + w * z_loss * torch.logsumexp(x, 1) ** 2
    return terms.sum() / w.sum() if reduction == "mean" else reduced(terms, reduction)


def gaussian(x, t, var, reduction, full=0, eps=1e-6):
    return F.gaussian_nll_loss(x, t, var, full=bool(full), eps=eps, reduction=reduction)


def poisson(x, t, reduction, log_input=1, full=0, eps=1e-8):
    terms = torch.exp(x) - t * x if log_input else x - t * torch.log(x + eps)
    if full:
        n = torch.where(t > 1, t, torch.ones_like(t))
        stirling = n * torch.log(n) - n + 0.5 * torch.log(2 * torch.pi * n)
        terms = terms + torch.where(t > 1, stirling, torch.zeros_like(t))
    return reduced(terms, reduction)


def torch_loss(function, **renamed):
    """A function of torch.nn.functional with tensors given by position; extra ones by the names in `extra`."""
    extra = renamed.pop("extra", ())

    def call(*tensors, reduction, **options):
        n = len(tensors) - len([e for e in extra])
        given = {name: t for name, t in zip(extra, tensors[n:]) if t is not None}
        options = {k: bool(v) if k in ("swap", "log_target") else v for k, v in options.items()}
        return function(*tensors[:n], **given, reduction=reduction, **options)

    return call


CASES = []


def case(name, loss, function, inputs, reductions=("none", "mean", "sum"), variant="plain", **options):
    for reduction in reductions:
        CASES.append((f"{name or loss}/{variant}/{reduction}", loss, function, inputs, reduction, options))


W = "weight"
x, t = 2 * randn(3, 4), randn(3, 4)
for loss, function in [("mse_loss", F.mse_loss), ("l1_loss", F.l1_loss)]:
    case(None, loss, torch_loss(function), [x, t])
    weighted = {"mse_loss": torch.square, "l1_loss": torch.abs}[loss]

    def with_weight(x, t, w, reduction, weighted=weighted):
        terms = w * weighted(x - t)
        return terms.sum() / w.sum() if reduction == "mean" else reduced(terms, reduction)

    case(None, loss, with_weight, [x, t, rand(3, 4)], variant="weight")
for beta in (1.0, 0.3, 0.0):
    case(None, "smooth_l1_loss", torch_loss(F.smooth_l1_loss), [x, t], variant=f"beta={beta}", beta=beta)
for delta in (1.0, 2.5):
    case(None, "huber_loss", torch_loss(F.huber_loss), [x, t], variant=f"delta={delta}", delta=delta)

logp = F.log_softmax(randn(5, 4), 1)
y = classes(4, 5)
holes = y.clone()
holes[1] = -100
w4 = rand(4)
case(None, "nll_loss", torch_loss(F.nll_loss), [logp, y])
case(None, "nll_loss", torch_loss(F.nll_loss, extra=(W,)), [logp, holes, w4], variant="weight-ignored")
case(None, "nll_loss", torch_loss(F.nll_loss), [logp, torch.where(y == 2, 2, y)], variant="ignore_index=2",
     ignore_index=2)
case(None, "nll_loss", torch_loss(F.nll_loss), [logp[0], y[0]], variant="one-sample")
case(None, "nll_loss", torch_loss(F.nll_loss), [F.log_softmax(randn(2, 4, 3), 1), classes(4, 2, 3)], variant="3d")

x54 = 2 * randn(5, 4)
ce = torch_loss(F.cross_entropy)
cew = torch_loss(F.cross_entropy, extra=(W,))
case(None, "cross_entropy", ce, [x54, y])
case(None, "cross_entropy", ce, [x54, holes], variant="ignored")
case(None, "cross_entropy", cew, [x54, holes, w4], variant="weight")
case(None, "cross_entropy", ce, [x54, holes], variant="smoothing", label_smoothing=0.2)
case(None, "cross_entropy", cew, [x54, holes, w4], variant="weight-smoothing", label_smoothing=0.3)
case(None, "cross_entropy", ce, [x54[0], y[0]], variant="one-sample")
case(None, "cross_entropy", ce, [randn(2, 4, 3), classes(4, 2, 3)], variant="3d")
case(None, "cross_entropy", cew, [randn(2, 4, 3, 2), classes(4, 2, 3, 2), w4], variant="4d", label_smoothing=0.1)
case(None, "cross_entropy", cross_entropy_extras, [x54, holes, w4], variant="z-loss", z_loss=0.1)
case(None, "cross_entropy", cross_entropy_extras, [x54, holes], variant="softcap", softcap=1.5, z_loss=0.05,
     label_smoothing=0.1)
probabilities = F.softmax(randn(5, 4), 1)
case(None, "cross_entropy", ce, [x54, probabilities], variant="probabilities")
case(None, "cross_entropy", cew, [x54, rand(5, 4), w4], variant="probabilities-weight", label_smoothing=0.1)
case(None, "cross_entropy", ce, [randn(2, 4, 3), rand(2, 4, 3)], variant="probabilities-3d")
case(None, "softmax_focal_loss", softmax_focal, [x54, holes])
case(None, "softmax_focal_loss", softmax_focal, [x54, holes, w4], variant="alpha", gamma=1.5)
case(None, "softmax_focal_loss", softmax_focal, [x54, y], variant="gamma=0", gamma=0.0)

p, yb, soft = rand(3, 4), labels(3, 4), rand(3, 4)
case(None, "binary_cross_entropy", torch_loss(F.binary_cross_entropy), [p, yb])
case(None, "binary_cross_entropy", torch_loss(F.binary_cross_entropy, extra=(W,)), [p, soft, rand(4)], variant="weight")
bcel = F.binary_cross_entropy_with_logits
case(None, "binary_cross_entropy_with_logits", torch_loss(bcel), [x, yb])
case(None, "binary_cross_entropy_with_logits", torch_loss(bcel, extra=(W,)), [x, soft, rand(3, 1)], variant="weight")
case(None, "binary_cross_entropy_with_logits", torch_loss(bcel, extra=(W, "pos_weight")),
     [x, soft, rand(3, 4), 3 * rand(4)], variant="pos_weight")
case(None, "multilabel_soft_margin_loss", torch_loss(F.multilabel_soft_margin_loss), [x, yb])
case(None, "multilabel_soft_margin_loss", torch_loss(F.multilabel_soft_margin_loss, extra=(W,)), [x, yb, rand(4)],
     variant="weight")
for alpha, gamma in ((0.25, 2.0), (0.6, 1.0), (-1.0, 2.5), (0.5, 0.0), (0.3, 0.5)):
    v = f"alpha={alpha},gamma={gamma}"
    case(None, "sigmoid_focal_loss", focal, [x, soft], variant=v, alpha=alpha, gamma=gamma)
    case(None, "focal_loss_on_probabilities", focal_p, [p, soft], variant=v, alpha=alpha, gamma=gamma)
case(None, "sigmoid_focal_loss", focal, [x, yb], variant="hard")
case(None, "focal_loss_on_probabilities", focal_p, [p, yb], variant="hard")

s = sign(3, 4)
case(None, "hinge_loss", hinge, [x, s])
case(None, "hinge_embedding_loss", torch_loss(F.hinge_embedding_loss), [x, s.long()])
case(None, "hinge_embedding_loss", torch_loss(F.hinge_embedding_loss), [x, s.long()], variant="margin", margin=0.4)
case(None, "margin_ranking_loss", torch_loss(F.margin_ranking_loss), [x, t, s])
case(None, "margin_ranking_loss", torch_loss(F.margin_ranking_loss), [x, t, s], variant="margin", margin=0.7)
case(None, "soft_margin_loss", soft_margin, [x, s])
mm = torch_loss(F.multi_margin_loss)
case(None, "multi_margin_loss", mm, [x54, y])
case(None, "multi_margin_loss", torch_loss(F.multi_margin_loss, extra=(W,)), [x54, y, w4], variant="p=2", p=2, margin=0.6)
case(None, "multi_margin_loss", mm, [x54[1], y[1]], variant="one-sample")
lists = torch.tensor([[2, 0, -1, 1], [3, -1, -1, -1], [0, 1, 2, -1], [-1, 0, 0, 0], [1, 1, -1, 2]])
case(None, "multilabel_margin_loss", torch_loss(F.multilabel_margin_loss), [x54, lists])
case(None, "multilabel_margin_loss", torch_loss(F.multilabel_margin_loss), [x54[0], lists[0]], variant="one-sample")

a, b, c = randn(4, 5), randn(4, 5), randn(4, 5)
triplet = torch_loss(F.triplet_margin_loss)
case(None, "triplet_margin_loss", triplet, [a, b, c])
case(None, "triplet_margin_loss", triplet, [a, b, c], variant="swap", swap=1, margin=2.0)
case(None, "triplet_margin_loss", triplet, [a, b, c], variant="p=1", p=1.0, eps=1e-3)
case(None, "triplet_margin_loss", triplet, [a, b, c], variant="p=3", p=3.0)
case(None, "triplet_margin_with_distance_loss", torch_loss(F.triplet_margin_with_distance_loss), [a, b, c], margin=1.5)
case(None, "cosine_embedding_loss", torch_loss(F.cosine_embedding_loss), [a, b, sign(4).long()])
case(None, "cosine_embedding_loss", torch_loss(F.cosine_embedding_loss), [a, b, -torch.ones(4, dtype=torch.long)],
     variant="margin", margin=-0.5)
case(None, "cosine_similarity_loss", cosine, [a, b])
case(None, "cosine_similarity_loss", cosine, [a, b], variant="axis", axis=0)

every = ("none", "mean", "sum", "batchmean")
q = F.log_softmax(randn(4, 5), 1)
case(None, "kl_div", torch_loss(F.kl_div), [q, F.softmax(randn(4, 5), 1)], every)
case(None, "kl_div", torch_loss(F.kl_div), [q, F.log_softmax(randn(4, 5), 1)], every, variant="log_target", log_target=1)
case(None, "kl_divergence", kl_divergence, [F.softmax(randn(4, 5), 1), F.softmax(randn(4, 5), 1)], every)
case(None, "kl_divergence", kl_divergence, [F.softmax(randn(4, 5), 0), F.softmax(randn(4, 5), 0)], variant="axis", axis=0,
     epsilon=0.1)
counts = 4 * rand(3, 4)
case(None, "poisson_nll_loss", poisson, [x, counts])
case(None, "poisson_nll_loss", poisson, [x, counts], variant="full", full=1)
case(None, "poisson_nll_loss", poisson, [3 * rand(3, 4), counts], variant="rate", log_input=0, full=1, eps=1e-3)
case(None, "gaussian_nll_loss", gaussian, [x, t, rand(3, 4)])
case(None, "gaussian_nll_loss", gaussian, [x, t, rand(3, 1)], variant="row-variance", full=1)
case(None, "gaussian_nll_loss", gaussian, [x, t, rand(3)], variant="missing-axis")


def numbers(tensor):
    flat = tensor.detach().reshape(-1).tolist()
    return " ".join(repr(v) for v in flat)


def line(word, name, tensor):
    dtype = "f64" if tensor.dtype == f64 else "i64"
    shape = " ".join(str(n) for n in tensor.shape)
    return f"{word} {name} {dtype} {tensor.dim()} {shape} : {numbers(tensor)}".replace("  ", " ")


def main():
    out = ["# Made by make_golden.py with PyTorch " + torch.__version__.split("+")[0] + " in double precision."]
    for name, loss, function, inputs, reduction, options in CASES:
        leaves = [i.detach().clone().requires_grad_(i.dtype == f64) for i in inputs]
        try:
            value = function(*leaves, reduction=reduction, **options)
        except RuntimeError:  # PyTorch does not differentiate some losses by weight or target; Ebb is checked elsewhere
            leaves = [leaves[0]] + [leaf.detach() for leaf in leaves[1:]]
            value = function(*leaves, reduction=reduction, **options)
        cotangent = randn(*value.shape)
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        grads = torch.autograd.grad(value, wanted, cotangent, allow_unused=True)
        out.append(f"case {name}")
        out.append(f"loss {loss}")
        out.append(f"reduction {reduction}")
        out += [f"option {key} {float(v)!r}" for key, v in options.items()]
        out += [line("input", i, leaf) for i, leaf in enumerate(leaves)]
        out.append(line("cotangent", "-", cotangent))
        out.append(line("value", "-", value))
        given = iter(grads)
        for i, leaf in enumerate(leaves):
            if leaf.requires_grad:
                g = next(given)
                if g is not None:
                    out.append(line("gradient", i, g))
        out.append("end")
    path = pathlib.Path(__file__).parent / "golden" / "losses.txt"
    path.write_text("\n".join(out) + "\n")
    print(f"{len(CASES)} cases in {path.name}")


if __name__ == "__main__":
    main()
