# SPDX-License-Identifier: MIT
"""Every loss beside PyTorch: torch.nn.functional where it has the loss, with its options; else a formula of torch operations.

A case is (name, options, inputs, PyTorch's function of the same tensors). Formulas are those of the benchmarks.
"""

import os
import sys
from pathlib import Path

import torch
import torch.nn.functional as F

os.environ.setdefault("EBB_BENCH_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench" / "peers"))
from formulas import FORMULAS  # noqa: E402
from torch_worker import xp  # noqa: E402


def real(*shape):
    return torch.randn(shape, dtype=torch.float64)


def unit(*shape):
    return 0.05 + 0.9 * torch.rand(shape, dtype=torch.float64)


def signs(*shape):
    return torch.where(torch.rand(shape) < 0.5, -1.0, 1.0).double()


def labels(*shape):
    return (torch.rand(shape) < 0.5).double()


def classes(c, *shape):
    return torch.randint(0, c, shape)


def log_probs(*shape):
    return real(*shape).log_softmax(-1)


REDUCTIONS = [{"reduction": r} for r in ("mean", "sum", "none")]


def with_reductions(*options):
    return [dict(o, **r) for o in (options or ({},)) for r in REDUCTIONS]


def functional(name, inputs, options, names=(), call=None):
    """Cases of a loss of torch.nn.functional; names are those of inputs after the second that are keywords there."""
    theirs = getattr(F, name)
    for o in options:
        tensors = inputs()

        def run(*t, o=o):
            positional = len(t) - len(names)
            return (call or theirs)(*t[:positional], **dict(zip(names, t[positional:])), **o)

        yield name, o, tensors, names, run


def rnnt(log_probs, targets, input_lengths, target_lengths):
    """The transducer's forward recursion, sample by sample."""
    total = 0.0
    for n in range(log_probs.shape[0]):
        frames, tokens = int(input_lengths[n]), int(target_lengths[n])
        lp = log_probs[n]
        alpha = {(0, 0): lp.new_zeros(())}
        for t in range(frames):
            for u in range(tokens + 1):
                ways = []
                if t:
                    ways.append(alpha[t - 1, u] + lp[t - 1, u, 0])
                if u:
                    ways.append(alpha[t, u - 1] + lp[t, u - 1, targets[n, u - 1]])
                if ways:
                    alpha[t, u] = torch.logsumexp(torch.stack(ways), 0)
        total = total - (alpha[frames - 1, tokens] + lp[frames - 1, tokens, 0])
    return total / log_probs.shape[0]


def cases():
    n, c, d = 5, 4, 3
    pair = lambda: (real(n, c), real(n, c))  # noqa: E731
    for name in ("mse_loss", "l1_loss"):
        yield from functional(name, pair, with_reductions())
    yield from functional("mse_loss", lambda: (*pair(), unit(n, c)), [{"reduction": "mean"}], ("weight",))
    yield from functional("smooth_l1_loss", pair, with_reductions({"beta": 0.5}, {}))
    yield from functional("huber_loss", pair, with_reductions({"delta": 0.7}, {}))
    yield from functional(
        "nll_loss",
        lambda: (log_probs(n, c), classes(c, n), unit(c)),
        with_reductions({}, {"ignore_index": 1}),
        ("weight",),
    )
    yield from functional(
        "cross_entropy",
        lambda: (real(n, c), classes(c, n), unit(c)),
        with_reductions({}, {"label_smoothing": 0.2}, {"ignore_index": 2}),
        ("weight",),
    )
    yield from functional("cross_entropy", lambda: (real(n, c, 3), classes(c, n, 3)), with_reductions())
    yield from functional(
        "cross_entropy", lambda: (real(n, c), real(n, c).softmax(-1)), with_reductions({"label_smoothing": 0.1})
    )
    yield from functional(
        "binary_cross_entropy", lambda: (unit(n, c), unit(n, c), unit(c)), with_reductions(), ("weight",)
    )
    yield from functional(
        "binary_cross_entropy_with_logits",
        lambda: (real(n, c), unit(n, c), unit(c), unit(c)),
        with_reductions(),
        ("weight", "pos_weight"),
    )
    yield from functional(
        "multilabel_soft_margin_loss", lambda: (real(n, c), labels(n, c), unit(c)), with_reductions(), ("weight",)
    )
    yield from functional("hinge_embedding_loss", lambda: (real(n, c), signs(n, c)), with_reductions({"margin": 0.8}))
    yield from functional("margin_ranking_loss", lambda: (real(n), real(n), signs(n)), with_reductions({"margin": 0.3}))
    yield from functional("soft_margin_loss", lambda: (real(n, c), signs(n, c)), with_reductions())
    yield from functional(
        "multi_margin_loss",
        lambda: (real(n, c), classes(c, n), unit(c)),
        with_reductions({"p": 2, "margin": 0.7}, {}),
        ("weight",),
    )
    yield from functional(
        "multilabel_margin_loss", lambda: (real(n, c), torch.tensor([[1, 0, -1, 2]] * n)), with_reductions()
    )
    triplet = lambda: (real(n, d), real(n, d), real(n, d))  # noqa: E731
    yield from functional("triplet_margin_loss", triplet, with_reductions({"margin": 0.5, "p": 3.0}, {"swap": True}))
    yield from functional(
        "triplet_margin_with_distance_loss", triplet, with_reductions({"margin": 0.5}, {"swap": True})
    )
    yield from functional(
        "cosine_embedding_loss", lambda: (real(n, d), real(n, d), signs(n)), with_reductions({"margin": 0.1})
    )
    yield from functional(
        "kl_div", lambda: (log_probs(n, c), real(n, c).softmax(-1)), with_reductions() + [{"reduction": "batchmean"}]
    )
    yield from functional("kl_div", lambda: (log_probs(n, c), log_probs(n, c)), with_reductions({"log_target": True}))
    yield from functional(
        "poisson_nll_loss",
        lambda: (unit(n, c), 3 * unit(n, c)),
        with_reductions({}, {"log_input": False, "full": True}),
    )
    yield from functional(
        "gaussian_nll_loss", lambda: (real(n, c), real(n, c), unit(n, c)), with_reductions({}, {"full": True})
    )
    yield from functional(
        "ctc_loss",
        lambda: (log_probs(7, 2, c), classes(c - 1, 2, 3) + 1, torch.tensor([7, 6]), torch.tensor([3, 2])),
        with_reductions({}, {"zero_infinity": True}),
    )
    yield "rnnt_loss", {}, (
        log_probs(2, 4, 3, c),
        classes(c - 1, 2, 2) + 1,
        torch.tensor([4, 3]),
        torch.tensor([2, 1]),
    ), (), rnnt
    yield from formulas(n, c, d)


def formulas(n, c, d):
    """The losses PyTorch has not, with their defaults."""
    numbers = {"pinball_loss", "log_cosh_loss", "wing_loss"}
    vectors = lambda: (real(n, d), real(n, d))  # noqa: E731
    inputs = {
        "softmax_focal_loss": lambda: (real(n, c), classes(c, n)),
        "sigmoid_focal_loss": lambda: (real(n, c), labels(n, c)),
        "focal_loss_on_probabilities": lambda: (unit(n, c), labels(n, c)),
        "poly_loss": lambda: (real(n, c), classes(c, n)),
        "sparsemax_loss": lambda: (real(n, c), classes(c, n)),
        "listnet_loss": lambda: (real(n, c), real(n, c)),
        "perceptron_loss": lambda: (real(n, c), signs(n, c)),
        "hinge_loss": lambda: (real(n, c), signs(n, c)),
        "cosine_similarity_loss": vectors,
        "kl_divergence": lambda: (real(n, c).softmax(-1), real(n, c).softmax(-1)),
        "jsd_loss": lambda: (log_probs(n, c), log_probs(n, c)),
        "tvd_loss": lambda: (real(n, c).softmax(-1), real(n, c).softmax(-1)),
        "generalized_kl": lambda: (unit(n, c), unit(n, c)),
        **{name: lambda: (unit(n, 6), labels(n, 6)) for name in ("dice_loss", "iou_loss", "tversky_loss")},
        "lovasz_hinge": lambda: (real(n, 6), labels(n, 6)),
        "lovasz_softmax": lambda: (real(8, c).softmax(-1), torch.tensor([0, 1, 2, 3] * 2)),
        "info_nce": vectors,
        "dft_loss": lambda: (real(n, c), classes(c, n)),
        "router_z_loss": lambda: (real(n, c),),
        "nt_xent": vectors,
        "supcon_loss": lambda: (real(6, d), torch.tensor([0, 1, 0, 1, 2, 2])),
        "arcface_loss": lambda: (real(n, d), real(c, d), classes(c, n)),
        "cosface_loss": lambda: (real(n, d), real(c, d), classes(c, n)),
        "barlow_twins_loss": vectors,
        "vicreg_loss": vectors,
        "dpo_loss": lambda: tuple(-unit(n) for _ in range(4)),
        "ipo_loss": lambda: tuple(-unit(n) for _ in range(4)),
        "kto_loss": lambda: (-unit(n), -unit(n), labels(n) > 0),
        **{name: lambda: (-unit(n), -unit(n)) for name in ("orpo_loss", "simpo_loss", "cpo_loss")},
        "grpo_loss": lambda: (-unit(n, c), real(n), -unit(n, c), -unit(n, c)),
        "linear_cross_entropy": lambda: (real(n, d), real(c, d), classes(c, n)),
        "linear_dpo_loss": lambda: (real(4, 3, d), real(c, d), classes(c, 4, 3), -unit(4)),
        "linear_ipo_loss": lambda: (real(4, 3, d), real(c, d), classes(c, 4, 3), -unit(4)),
        **{
            name: lambda: (real(4, 3, d), real(c, d), classes(c, 4, 3))
            for name in ("linear_orpo_loss", "linear_simpo_loss", "linear_cpo_loss")
        },
        "linear_kto_loss": lambda: (real(4, 3, d), real(c, d), classes(c, 4, 3), -unit(4), labels(4) > 0),
        "linear_grpo_loss": lambda: (real(4, 3, d), real(c, d), classes(c, 4, 3), real(4)),
        **{name: lambda: (real(n, c), real(n, c)) for name in numbers},
    }
    optional = {"grpo_loss": ("old", "reference")}
    for name, make in inputs.items():
        yield name, {}, make(), optional.get(name, ()), lambda *t, f=FORMULAS[name]: f(xp, *t)
