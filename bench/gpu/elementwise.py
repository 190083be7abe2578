# SPDX-License-Identifier: MIT
"""Suites `losses` and `custom`: value and gradient of losses of the registry and of formulas that no library has."""

import torch

import ebb
from formulas import FORMULAS
from gpu.comparison import compare
from torch_formulas import SHIPPED, Functions

DTYPES = {"bf16": torch.bfloat16, "f32": torch.float32}

# Contents of each input; a star marks inputs that are differentiated by.
ELEMENTS = {
    "mse_loss": "normal* normal",
    "l1_loss": "normal* normal",
    "smooth_l1_loss": "normal* normal",
    "huber_loss": "normal* normal",
    "pinball_loss": "normal* normal",
    "log_cosh_loss": "normal* normal",
    "wing_loss": "normal* normal",
    "binary_cross_entropy": "share* share",
    "binary_cross_entropy_with_logits": "normal* share",
    "sigmoid_focal_loss": "normal* bit",
    "focal_loss_on_probabilities": "share* bit",
    "perceptron_loss": "odd* sign",
    "hinge_loss": "odd* sign",
    "hinge_embedding_loss": "odd* sign",
    "soft_margin_loss": "normal* sign",
    "margin_ranking_loss": "odd* even* sign",
    "kl_div": "log_share* share",
    "poisson_nll_loss": "normal* positive",
    "gaussian_nll_loss": "normal* normal positive*",
    "generalized_kl": "positive* positive",
    "dpo_loss": "normal* normal* normal normal",
    "ipo_loss": "normal* normal* normal normal",
    "simpo_loss": "normal* normal*",
    "cpo_loss": "normal* normal*",
    "orpo_loss": "log_share* log_share*",
}
ROWS = {
    "multilabel_soft_margin_loss": "normal* bit",
    "softmax_focal_loss": "normal* class",
    "poly_loss": "normal* class",
    "listnet_loss": "normal* normal",
    "multi_margin_loss": "normal* class",
    "jsd_loss": "log_probability* log_probability",
    "tvd_loss": "probability* probability",
    "kl_divergence": "probability* probability*",
    "dice_loss": "share* bit",
    "iou_loss": "share* bit",
    "tversky_loss": "share* bit",
    "cosine_similarity_loss": "normal* normal*",
    "triplet_margin_loss": "normal* normal* normal*",
}
CUSTOM = {
    "smooth focal": "normal* share",
    "log cosh": "normal* normal",
    "huber by where": "normal* normal",
    "tempered": "normal* share",
    "two gaussians": "normal* normal",
    "barron": "normal* normal",
    "student_t": "normal* normal normal*",
    "asymmetric_focal": "normal* bit",
}
CUSTOM_ROWS = {"hardness_huber": "normal* normal", "margin_entropy": "normal* class"}

# Exponentials, logarithms, reciprocals and roots per element of the formula as it stands in docs/losses.md and of its
# gradient, each counted once however often it is used: of softplus(x) and sigmoid(x), e = exp(−|x|), log(1 + e) and
# 1 / (1 + e).
SPECIAL = {
    "log_cosh_loss": 3, "wing_loss": 2, "binary_cross_entropy": 3, "binary_cross_entropy_with_logits": 3,
    "sigmoid_focal_loss": 3, "focal_loss_on_probabilities": 3, "soft_margin_loss": 3, "kl_div": 1, "poisson_nll_loss": 1,
    "gaussian_nll_loss": 2, "generalized_kl": 2, "dpo_loss": 3, "simpo_loss": 3, "cpo_loss": 3, "orpo_loss": 9,
    "multilabel_soft_margin_loss": 3, "softmax_focal_loss": 1, "poly_loss": 1, "listnet_loss": 2, "jsd_loss": 3,
    "kl_divergence": 2, "smooth focal": 4, "log cosh": 3, "tempered": 4, "two gaussians": 4, "barron": 3, "student_t": 3,
    "asymmetric_focal": 6, "hardness_huber": 1, "margin_entropy": 1,
}


class EbbFunctions:
    """What formulas.py needs, by Ebb's names."""

    abs, exp, log, log1p, sqrt, cosh = ebb.abs, ebb.exp, ebb.log, ebb.log1p, ebb.sqrt, ebb.cosh
    where, sigmoid, softplus, clip, maximum = ebb.where, ebb.sigmoid, ebb.softplus, ebb.clip, ebb.maximum

    mean = staticmethod(lambda x: x.mean())
    sum = staticmethod(lambda x, axis, keepdims=False: ebb.sum(x, axis, keepdim=keepdims))
    logsumexp = staticmethod(lambda x: ebb.logsumexp(x, -1))
    softmax = staticmethod(lambda x: ebb.softmax(x, -1))
    take_along = staticmethod(lambda x, i: ebb.gather(x, -1, i))


def numbers(kind, shape, dtype, device):
    if kind == "class":
        return torch.randint(0, shape[1], shape[:1], device=device)
    if kind == "normal":
        return torch.randn(shape, device=device, dtype=dtype)
    if kind in ("odd", "even"):
        # Sixteenths, of which neither the odd ones nor their distances to even ones are 0 or 1: at its kinks a hinge has
        # many gradients, and versions of PyTorch have chosen different ones.
        steps = torch.floor(8 * torch.randn(shape, device=device))
        return ((2 * steps + (kind == "odd")) / 16).to(dtype)
    uniform = torch.rand(shape, device=device)
    found = {
        "share": lambda: 0.02 + 0.96 * uniform,
        "bit": lambda: (uniform > 0.5).float(),
        "sign": lambda: torch.where(uniform > 0.5, 1.0, -1.0),
        "positive": lambda: 0.1 + 2 * uniform,
        "log_share": lambda: torch.log(0.02 + 0.96 * uniform),
        "probability": lambda: torch.softmax(2 * uniform, -1),
        "log_probability": lambda: torch.log_softmax(2 * uniform, -1),
    }[kind]()
    return found.to(dtype)


def in_torch(name):
    """The loss, and other ways to write it for torch.compile."""
    formula = lambda *inputs: FORMULAS[name](Functions, *inputs)
    if name in SHIPPED:
        return SHIPPED[name], [formula] if name in FORMULAS else []
    return formula, []


def walk(run, suite, cases, shape, in_ebb, tolerances):
    for name, inputs in cases.items():
        torch_loss, formulas = in_torch(name)
        for dtype in run.options.dtypes:
            kinds = inputs.split()
            given = [numbers(k.rstrip("*"), shape, DTYPES[dtype], run.machine.device) for k in kinds]
            compare(run, suite, f"{name} {dtype}", in_ebb(name), torch_loss, given, tolerances[dtype],
                    tuple(k for k, kind in enumerate(kinds) if kind.endswith("*")), formulas, shape=list(shape),
                    special_functions=SPECIAL.get(name, 0) * given[0].numel())


def sizes(machine):
    if machine.small:
        return (1 << 12,), (16, 64)
    return ((1 << 24,), (4096, 4096)) if machine.quick else ((1 << 26,), (16384, 4096))


def losses(run):
    elements, rows = sizes(run.machine)
    own = lambda name: getattr(ebb, name)
    tolerances = {"f32": 2e-5, "bf16": 2e-2}
    walk(run, "losses", ELEMENTS, elements, own, tolerances)
    walk(run, "losses", ROWS, rows, own, tolerances)


def custom(run):
    elements, rows = sizes(run.machine)
    own = lambda name: lambda *inputs: FORMULAS[name](EbbFunctions, *inputs)
    tolerances = {"f32": 1e-4, "bf16": 5e-2}  # formulas of bf16 are rounded after every operation
    walk(run, "custom", CUSTOM, elements, own, tolerances)
    walk(run, "custom", CUSTOM_ROWS, rows, own, tolerances)
