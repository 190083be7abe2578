# SPDX-License-Identifier: MIT
"""The formulas of bench/trl_formulas.py beside TRL's own code: value and gradients of each loss_type of GRPO, of DPO and of KTO,
through linear_loss with Ebb's tensors and with PyTorch's.

Run by run.py with pytest, in the Python that has PyTorch and TRL.
"""

import collections
import pathlib
import sys
import types
from unittest import mock

import pytest
import torch

import ebb
import ebb.torch

trl = pytest.importorskip("trl")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import trl_formulas  # noqa: E402

A, T, H, V = 6, 5, 7, 13
GRPO = [name for name in trl_formulas.FORMULAS if name not in ("dpo", "kto")]


def inputs():
    generator = torch.Generator().manual_seed(5)

    def r(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    target = torch.randint(0, V, (A, T), generator=generator)
    target[0, 3:] = target[4, 1:] = -100
    mask = (target != -100).double()
    given = dict(old=(r(A, T) - 2.5) * mask, reference=(r(A, T) - 2.5) * mask, advantage=r(A), mask=mask)
    given |= dict(reference_sum=r(A) - 10, desirable=torch.tensor([True, False, True, True, False, False]), kl=torch.tensor(0.3).double())
    return r(A, T, H).requires_grad_(), r(V, H).requires_grad_(), target, given


def log_probs_of(x, head, target):
    picked = (x @ head.T).log_softmax(-1).gather(-1, target.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    return torch.where(target != -100, picked, 0)


def by_trl(kind, log_probs, given):
    """What GRPOTrainer computes of log-probabilities: its method, with a trainer that knows its options alone."""
    low, high = trl_formulas.LOW, trl_formulas.HIGH
    (k_pos, lambda_pos), (k_neg, lambda_neg) = trl_formulas.VESPO
    args = types.SimpleNamespace(
        use_bias_correction_kl=False,
        delta=None,
        sapo_temperature_pos=trl_formulas.SAPO[0],
        sapo_temperature_neg=trl_formulas.SAPO[1],
        vespo_k_pos=k_pos,
        vespo_lambda_pos=lambda_pos,
        vespo_k_neg=k_neg,
        vespo_lambda_neg=lambda_neg,
        steps_per_generation=1,
    )
    trainer = mock.MagicMock()
    trainer.configure_mock(
        args=args,
        loss_type="grpo" if kind == "gspo" else kind,
        importance_sampling_level="sequence" if kind in ("gspo", "luspo") else "token",
        epsilon_low=low,
        epsilon_high=trl_formulas.CISPO_HIGH if kind == "cispo" else high,
        beta=trl_formulas.KL,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        use_vllm=False,
        aux_loss_enabled=False,
        _entropy_bonus_enabled=False,
        current_gradient_accumulation_steps=1,
        max_completion_length=T,
        get_gamma_weights=trl.GRPOTrainer.get_gamma_weights,
        _get_per_token_logps_and_entropies=lambda *args, **options: (log_probs, torch.zeros_like(log_probs), None),
        _metrics=collections.defaultdict(lambda: collections.defaultdict(list)),
    )
    trainer.accelerator.num_processes = 1
    trainer.accelerator.gather = trainer.accelerator.gather_for_metrics = lambda x: x
    trainer.accelerator.reduce = lambda x, **options: x
    ids = torch.zeros(A, T, dtype=torch.int64)
    batch = dict(prompt_ids=ids, prompt_mask=ids, completion_ids=ids, completion_mask=given["mask"], advantages=given["advantage"])
    batch |= dict(old_per_token_logps=given["old"], ref_per_token_logps=given["reference"], num_items_in_batch=given["mask"].sum())
    torch.set_default_dtype(torch.float64)  # of the temperatures that it chooses from two numbers
    try:
        return trl.GRPOTrainer._compute_loss(trainer, None, batch)
    finally:
        torch.set_default_dtype(torch.float32)


def by_definition(kind, log_probs, given):
    ratio = log_probs.sum(-1) - given["reference_sum"]
    if kind == "dpo":
        return -torch.nn.functional.logsigmoid(trl_formulas.DPO_BETA * (ratio[: A // 2] - ratio[A // 2 :])).mean()
    x = trl_formulas.KTO_BETA * torch.where(given["desirable"], ratio - given["kl"], given["kl"] - ratio)
    return (1 - torch.sigmoid(x)).mean()


@pytest.mark.parametrize("tensors", ["ebb", "torch"])
@pytest.mark.parametrize("kind", trl_formulas.FORMULAS)
def test_formulas_are_those_of_trl(kind, tensors):
    x, head, target, given = inputs()
    given["weight"] = given["mask"] / (A * T if kind == "dr_grpo" else given["mask"].sum())
    log_probs = log_probs_of(x, head, target)
    expected = by_trl(kind, log_probs, given) if kind in GRPO else by_definition(kind, log_probs, given)
    formula, names, options = trl_formulas.FORMULAS[kind]
    if tensors == "torch":
        options = {name: value for name, value in options.items() if name != "sides"}
    m = ebb if tensors == "ebb" else torch
    found = ebb.torch.linear_loss(x, head, target, formula(m), *(given[name] for name in names), tensors=tensors, **options)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)
    ours, theirs = (torch.autograd.grad(loss, (x, head)) for loss in (found, expected))
    for mine, other in zip(ours, theirs):
        torch.testing.assert_close(mine, other, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("kind", trl_formulas.FORMULAS)
def test_gradients_in_f32_are_within_a_hundred_thousandth(kind):
    x, head, target, given = inputs()
    given["weight"] = given["mask"] / (A * T if kind == "dr_grpo" else given["mask"].sum())
    formula, names, options = trl_formulas.FORMULAS[kind]

    def gradients(dtype):
        tensors = [t.detach().to(dtype).requires_grad_() for t in (x, head)]
        others = [given[name].to(dtype) if given[name].is_floating_point() else given[name] for name in names]
        return torch.autograd.grad(ebb.torch.linear_loss(*tensors, target, formula(ebb), *others, **options), tensors)

    for mine, exact in zip(gradients(torch.float32), gradients(torch.float64)):
        assert (mine - exact).abs().max() <= 1e-5 * exact.abs().max()
