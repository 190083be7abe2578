# SPDX-License-Identifier: MIT
"""TRL's losses as formulas for ebb.torch.linear_loss, written with a module m that is ebb or torch: DPO, KTO and each loss_type of its
GRPO trainer. linear_heads.py times them; python/parity/test_linear_loss.py compares them with TRL's own code.

    formula, names, options = FORMULAS["grpo"]
    linear_loss(hidden, head, tokens, formula(ebb), *(given[name] for name in names), **options)
"""

import ebb
import torch

LOW, HIGH, KL = 0.2, 0.28, 0.04  # epsilon, epsilon_high and beta
CISPO_HIGH = 5.0
SAPO = 1.0, 1.05  # temperatures of advantages that are positive, negative
VESPO = (2.0, 3.0), (3.0, 2.0)  # (k, lambda) of advantages that are not negative, negative
DPO_BETA = KTO_BETA = 0.1


def held(m, x):
    """x as a number that is not differentiated."""
    return ebb.stop_gradient(x) if m is ebb else x.detach()


def clipped(m, ratio, advantage):
    return -m.minimum(ratio * advantage, m.clip(ratio, 1 - LOW, 1 + HIGH) * advantage)


def away(m, p, reference):
    """How far the policy is from the reference model: exp(r − p) − (r − p) − 1."""
    return m.exp(reference - p) - (reference - p) - 1


def sequence_ratio(m, p, old, mask):
    return m.exp(((p - old) * mask).sum(-1) / mask.sum(-1))


# ---- one term per token: (m, p, old, advantage, mask), the advantage as [A, 1]


def of_ratio(m, p, old, advantage, mask):
    return clipped(m, m.exp(p - old), advantage)


def of_sequence_ratio(m, p, old, advantage, mask):
    return clipped(m, m.unsqueeze(sequence_ratio(m, p, old, mask), 1), advantage)


def cispo(m, p, old, advantage, mask):
    return -held(m, m.clip(m.exp(p - old), 0.0, CISPO_HIGH)) * advantage * p


def sapo(m, p, old, advantage, mask):
    t = m.where(advantage > 0, m.full_like(advantage, SAPO[0]), m.full_like(advantage, SAPO[1]))
    return -m.sigmoid(t * (m.exp(p - old) - 1)) * 4 / t * advantage


def vespo(m, p, old, advantage, mask):
    k, lam = (m.where(advantage >= 0, m.full_like(advantage, a), m.full_like(advantage, b)) for a, b in zip(*VESPO))
    log_w = m.unsqueeze((m.clip(p - old, -20.0, 20.0) * mask).sum(-1), 1)
    log_w = m.clip(log_w, -18.420680743952367, 20.0)  # log 1e-8
    return -held(m, m.exp(lam + k * log_w - lam * m.exp(log_w))) * advantage * p


def by_tokens(term):
    """Tokens with weights that are known before: a mask over the number of tokens in the batch, or over a length."""

    def formula(m):
        def f(p, old, reference, advantage, mask, weight):
            terms = term(m, p, old, m.unsqueeze(advantage, 1), mask) + KL * away(m, p, reference)
            return (terms * weight).sum(-1)

        return f

    return formula, ("old", "reference", "advantage", "mask", "weight"), {"reduction": "sum"}


def by_answers(term):
    """The mean over the tokens of an answer, then over answers."""

    def formula(m):
        def f(p, old, reference, advantage, mask):
            terms = term(m, p, old, m.unsqueeze(advantage, 1), mask) + KL * away(m, p, reference)
            return (terms * mask).sum(-1) / mask.sum(-1)

        return f

    return formula, ("old", "reference", "advantage", "mask"), {}


def luspo(m):
    def f(p, old, reference, advantage, mask):
        terms = of_sequence_ratio(m, p, old, m.unsqueeze(advantage, 1), mask) + KL * away(m, p, reference)
        return (terms * mask).sum(-1)

    return f


def log_sigmoid(m, x):
    return ebb.log_sigmoid(x) if m is ebb else torch.nn.functional.logsigmoid(x)


def dpo(m):
    def f(p, reference_sum):
        ratio = p.sum(-1) - reference_sum
        n = ratio.shape[0] // 2
        return -log_sigmoid(m, DPO_BETA * (ratio[:n] - ratio[n:]))

    return f


def kto(m):
    def f(p, reference_sum, desirable, kl):
        x = KTO_BETA * (p.sum(-1) - reference_sum - kl)
        return 1 - m.sigmoid(m.where(desirable, x, -x))

    return f


FORMULAS = {
    "grpo": by_answers(of_ratio),
    "bnpo": by_tokens(of_ratio),
    "dr_grpo": by_tokens(of_ratio),
    "dapo": by_tokens(of_ratio),
    "cispo": by_tokens(cispo),
    "gspo": by_answers(of_sequence_ratio),
    "sapo": by_answers(sapo),
    "luspo": (luspo, ("old", "reference", "advantage", "mask"), {}),
    "vespo": by_tokens(vespo),
    "dpo": (dpo, ("reference_sum",), {"sides": 2}),
    "kto": (kto, ("reference_sum", "desirable", "kl"), {}),
}
