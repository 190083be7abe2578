# SPDX-License-Identifier: MIT
"""Patched models under DeepSpeed's ZeRO-3 (two processes, gloo, CPU): steps as without the patch, without the logits.

Run by run.py with pytest, in the Python that has PyTorch, transformers, PEFT and DeepSpeed.
"""

import os
import warnings

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from patched_models import ADAPTERS, adapted, fused, make, tokens

import ebb.torch

pytest.importorskip("deepspeed", reason="DeepSpeed is not installed")

WORLD, STEPS = 2, 3


def model_of(kind):
    if kind in ADAPTERS:
        return adapted(ADAPTERS[kind][1](), False)
    if kind == "hooks":
        model = make()
        model.lm_head.register_forward_pre_hook(lambda module, args: (args[0] * 0.5,))
        model.lm_head.register_forward_hook(lambda module, args, output: output * 3)
        return model
    return make("Gemma2", final_logit_softcapping=3.0) if kind == "softcap" else make(tie_word_embeddings=kind == "tied")


CONFIG = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 1,
    "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0},
    "zero_allow_untested_optimizer": True,
}


def engine_of(model):
    import deepspeed

    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=1e-2)
    return deepspeed.initialize(model=model, config=CONFIG, model_parameters=trained, optimizer=optimizer)[0]


def batch(step):
    return tokens(2 * WORLD * STEPS)[2 * (step * WORLD + dist.get_rank()) :][:2]


def steps(engine):
    """Losses, gradients of the first step and weights after the last, as whole tensors."""
    import deepspeed

    losses, gradients = [], {}
    for step in range(STEPS):
        torch.manual_seed(step)
        loss = engine(input_ids=batch(step), labels=batch(step)).loss
        engine.backward(loss)
        losses.append(loss.item())
        if step == 0:
            for name, p in engine.module.named_parameters():
                if p.requires_grad:
                    gradients[name] = deepspeed.utils.safe_get_full_grad(p).clone()
        engine.step()
        if step == 0:  # an evaluation between steps
            engine.eval()
            with torch.no_grad():
                assert torch.is_tensor(engine(input_ids=batch(0), labels=batch(0)).logits)
            engine.train()
    weights = {}
    for name, p in engine.module.named_parameters():
        with deepspeed.zero.GatheredParameters(p):
            weights[name] = p.detach().clone()
    return losses, gradients, weights


def require_same(found, expected):
    assert found[0] == pytest.approx(expected[0], rel=1e-5)
    for ours, theirs in zip(found[1:], expected[1:]):
        assert ours.keys() == theirs.keys() and ours
        for name, value in theirs.items():
            assert (ours[name] - value).abs().max().item() <= 1e-5 * max(value.abs().max().item(), 1e-3), name


def trains(kind, order):
    expected = steps(engine_of(model_of(kind)))
    torch.nn.functional.linear = torch._C._nn.linear
    before = fused()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        if order == "patched first":
            engine = engine_of(ebb.torch.patch(model_of(kind)))
        else:
            engine = engine_of(model_of(kind))
            ebb.torch.patch(engine.module)
        begun = fused()
        found = steps(engine)
    assert fused() == begun + STEPS
    assert (begun > before) == (order == "patched first")  # patch tries small batches on whole models alone
    require_same(found, expected)


def shows_logits():
    plain = model_of("plain")
    expected = plain(input_ids=batch(0)).logits
    engine = engine_of(ebb.torch.patch(model_of("plain")))
    output = engine(input_ids=batch(0), labels=batch(0))
    assert output.logits.shape == expected.shape and output.logits._value is None
    torch.testing.assert_close(output.logits.value(), expected)
    head = engine.module.lm_head
    assert "forward" not in vars(head) and sum(h.__module__.startswith("deepspeed") for h in head._forward_hooks.values()) == 2
    engine.backward(output.loss)


def built_in_parts():
    """Weights that were partitioned as the model was made, as transformers does for DeepSpeed."""
    import deepspeed

    state = {name: value.clone() for name, value in model_of("plain").state_dict().items()}
    expected = steps(engine_of(model_of("plain")))
    torch.nn.functional.linear = torch._C._nn.linear
    with deepspeed.zero.Init(config_dict_or_path=CONFIG):  # f32; an argument dtype is ignored on processors without f16
        model = make()
    for name, p in model.named_parameters():
        with deepspeed.zero.GatheredParameters(p, modifier_rank=0):
            if dist.get_rank() == 0:
                p.data.copy_(state[name])
    before = fused()
    found = steps(engine_of(ebb.torch.patch(model)))
    assert fused() == before + STEPS
    require_same(found, expected)


KINDS = ["plain", "tied", "softcap", "hooks", "lora", "lora on the head", "modules to save"]
CASES = [(trains, kind, "patched first") for kind in KINDS]
CASES += [(trains, "plain", "patched last"), (trains, "lora on the head", "patched last"), (shows_logits,), (built_in_parts,)]


def worker(rank, meet):
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(WORLD), DS_ACCELERATOR="cpu")
    dist.init_process_group("gloo", init_method=f"file://{meet}", rank=rank, world_size=WORLD)
    try:
        for body, *args in CASES:
            try:
                body(*args)
            except Exception as error:
                raise AssertionError(f"{body.__name__}{tuple(args)}") from error
            torch.nn.functional.linear = torch._C._nn.linear  # which DeepSpeed replaced
    finally:
        dist.destroy_process_group()


def test_partitioned_heads_train_as_without_the_patch(tmp_path):
    mp.spawn(worker, (tmp_path / "meet",), nprocs=WORLD)  # once: DeepSpeed takes its time to start
