# SPDX-License-Identifier: MIT
"""Losses that TRL and transformers have under the same names, beside their own code in f64: values and gradients.

Run by run.py with pytest, in the Python that has PyTorch and those packages.
"""

from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch

import ebb

EXACT = dict(rtol=1e-12, atol=1e-13)


def numbers(*shapes, seed=3):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_() for shape in shapes]


def require_same(ours, theirs, tensors, tolerance=EXACT):
    """ours: of Ebb's tensors, theirs: of torch's; value and the gradients of all."""
    expected = theirs(*tensors)
    gradients = torch.autograd.grad(expected, tensors, allow_unused=True, materialize_grads=True)
    inputs = [ebb.tensor(t.detach().numpy()) for t in tensors]
    value, found = ebb.value_and_grad(lambda t: ours(*t))(inputs)
    np.testing.assert_allclose(np.asarray(value), expected.detach().numpy(), **tolerance)
    for mine, gradient in zip(found, gradients):
        np.testing.assert_allclose(np.asarray(mine), gradient.numpy(), **tolerance)


# ---- the GRPO family

B, T = 5, 7


def of_trl(loss_type, level, mask, policy, advantages, old, reference, **settings):
    """The loss of GRPOTrainer._compute_loss, for log-probabilities that are given to it."""
    grpo_trainer = pytest.importorskip("trl.trainer.grpo_trainer")
    accelerator = MagicMock(num_processes=1)
    accelerator.reduce = lambda x, **_: x
    accelerator.gather = lambda x: x
    args = SimpleNamespace(
        delta=settings.get("delta"), use_bias_correction_kl=False, sapo_temperature_pos=1.0, sapo_temperature_neg=1.25, steps_per_generation=1
    )
    # CISPO's bound is epsilon_high itself there, and 1 + clip_high here.
    trainer = SimpleNamespace(
        loss_type=loss_type, importance_sampling_level=level, beta=0.3, args=args, accelerator=accelerator,
        epsilon_low=0.2, epsilon_high=1.2 if loss_type == "cispo" else 0.2, top_entropy_quantile=1.0,
        off_policy_mask_threshold=None, use_vllm=False, aux_loss_enabled=False, _entropy_bonus_enabled=False,
        model=SimpleNamespace(training=True), current_gradient_accumulation_steps=1, max_completion_length=9,
        _metrics=MagicMock(), _get_per_token_logps_and_entropies=lambda *a, **k: (policy, torch.zeros(B, T), None),
    )  # fmt: skip
    ids = torch.zeros(B, T, dtype=torch.long)
    inputs = {
        "prompt_ids": ids, "prompt_mask": ids, "completion_ids": ids, "completion_mask": mask.long(),
        "advantages": advantages, "old_per_token_logps": old, "ref_per_token_logps": reference,
        "num_items_in_batch": torch.tensor(23.0),
    }  # fmt: skip
    return grpo_trainer.GRPOTrainer._compute_loss(trainer, None, inputs)


@pytest.mark.parametrize("delta", [None, 1.5])
@pytest.mark.parametrize(
    "name, loss_type, level",
    [(name, name, "token") for name in ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo")]
    + [("gspo", "grpo", "sequence"), ("luspo", "luspo", "sequence")],
)
def test_the_grpo_family_is_that_of_trl(name, loss_type, level, delta):
    policy, advantages, old, reference = numbers((B, T), (B,), (B, T), (B, T))
    with torch.no_grad():
        old.copy_(policy + 0.3 * old), reference.copy_(policy + 0.4 * reference)
    mask = torch.arange(B * T).reshape(B, T) % 6 != 4

    def ours(policy, advantages, old, reference):
        return ebb.grpo_loss(
            policy, advantages, old, reference, ebb.tensor(mask.numpy()), loss_type=name, beta=0.3, delta=delta or 0.0,
            max_completion_length=9, num_items_in_batch=23, sapo_temperature_neg=1.25,  # f32 has no 1.05, and TRL keeps it there
        )  # fmt: skip

    # What TRL never differentiates: the importance weight is of the policy, old log-probabilities are constants.
    require_same(ours, lambda *t: of_trl(loss_type, level, mask, *t, delta=delta), [policy, advantages, old, reference])


def test_dft_is_that_of_trl():
    sft_trainer = pytest.importorskip("trl.trainer.sft_trainer")
    logits = numbers((2, 6, 11))[0]
    target = torch.randint(0, 11, (2, 6), generator=torch.Generator().manual_seed(1))
    target[1, 3:] = -100
    kept = target != -100

    def theirs(logits):
        log_probs = logits.log_softmax(-1).gather(-1, target.clamp(min=0)[..., None])[..., 0] * kept
        outputs = SimpleNamespace(log_probs=log_probs, label_mask=kept, entropy=log_probs, is_top1=kept)
        accelerator = MagicMock(parallelism_config=None)
        accelerator.gather_for_metrics = lambda x: x
        trainer = SimpleNamespace(
            model=SimpleNamespace(training=False), aux_loss_enabled=False, accelerator=accelerator, label_smoother=None,
            compute_loss_func=None, _metrics=MagicMock(), _total_train_tokens=0,
            args=SimpleNamespace(loss_type="dft", average_tokens_across_devices=False),
        )  # fmt: skip
        return sft_trainer.SFTTrainer.compute_loss(trainer, lambda **_: outputs, {"labels": target})

    of_ebb = ebb.tensor(target.numpy())
    require_same(lambda z: ebb.dft_loss(z.reshape(12, 11), of_ebb.reshape(12)), theirs, [logits])
    x, head = numbers((2, 6, 5), (11, 5), seed=4)
    require_same(
        lambda x, head: ebb.linear_dft_loss(x, head, of_ebb), lambda x, head: theirs(x @ head.T), [x, head]
    )  # fmt: skip


@pytest.mark.parametrize("beta", [0, 0.3, 1])
@pytest.mark.parametrize("temperature", [1.0, 1.7])
def test_divergences_of_two_heads_are_those_of_trl(beta, temperature):
    gkd = pytest.importorskip("trl.experimental.gkd.gkd_trainer")
    tensors = numbers((2, 4, 6), (13, 6), (2, 4, 3), (13, 3))
    labels = torch.zeros(2, 4, dtype=torch.long)
    labels[0, 2] = -100
    mask = ebb.tensor((labels != -100).numpy())

    def ours(*t):
        if beta in (0, 1):
            return ebb.linear_kl_loss(*t, mask, reverse=beta == 1, temperature=temperature)
        return ebb.linear_jsd_loss(*t, mask, beta=beta, temperature=temperature)

    def theirs(x, head, teacher, teacher_head):
        return gkd.GKDTrainer.generalized_jsd_loss(x @ head.T, teacher @ teacher_head.T, labels, beta, temperature)

    require_same(ours, theirs, tensors)


@pytest.mark.parametrize("top_k", [1, 2, 4])
@pytest.mark.parametrize("masked", [False, True])
def test_the_balance_of_experts_is_that_of_transformers(top_k, masked):
    mixtral = pytest.importorskip("transformers.models.mixtral.modeling_mixtral")
    layers = numbers(*[(12, 6)] * 3)
    mask = torch.arange(12).reshape(2, 6) % 5 != 3 if masked else None
    given = {"mask": ebb.tensor(mask.reshape(12).numpy())} if masked else {}
    require_same(
        lambda *t: ebb.load_balancing_loss(ebb.stack(t), top_k=top_k, **given),
        lambda *t: mixtral.load_balancing_loss_func(t, 6, top_k, mask),
        layers,
        dict(rtol=2e-6, atol=1e-7),  # it adds in f32, whatever it is given
    )


def test_the_z_loss_of_routers_is_that_of_transformers():
    switch = pytest.importorskip("transformers.models.switch_transformers.modeling_switch_transformers")
    require_same(lambda z: ebb.router_z_loss(z), switch.router_z_loss_func, numbers((3, 5, 8)))
