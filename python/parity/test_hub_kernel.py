# SPDX-License-Identifier: MIT
"""transformers' loss by ebb.torch.causal_lm_loss, and through `kernels` by its KernelConfig, beside transformers' own.

Run by run.py with pytest, in the Python that has PyTorch and transformers; `kernels` is needed for a part of it.
"""

import copy

import pytest
import torch
from patched_models import fused, make, require_fused, require_same, step, tokens
from transformers.loss.loss_utils import ForCausalLMLoss

import ebb.torch


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("count", [None, 7, torch.tensor(11)], ids=str)
@pytest.mark.parametrize("shifted", [False, True])
def test_the_loss_of_finished_logits(dtype, count, shifted):
    labels = tokens().clone()
    labels[1, 3:9] = -100
    made = torch.randn(*labels.shape, 211, generator=torch.Generator().manual_seed(3)).to(dtype)
    losses, gradients = [], []
    for function in (ForCausalLMLoss, ebb.torch.causal_lm_loss):
        logits = made.clone().requires_grad_()
        loss = function(logits, labels, 211, num_items_in_batch=count, shift_labels=labels if shifted else None)
        (loss * 3).backward()
        assert loss.dtype == torch.float32 and torch.equal(logits.detach(), made)
        losses.append(loss.item())
        gradients.append(logits.grad.float())
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)
    difference = (gradients[1] - gradients[0]).abs().max()
    assert difference <= gradients[0].abs().max() * (1e-5 if dtype == torch.float32 else 2**-7)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_models_loss_function(compiled):
    model = make()
    expected = step(model)
    model.loss_function = ebb.torch.causal_lm_loss
    if not compiled:
        return require_same(step(model), expected)
    torch._dynamo.reset()
    run, ids = torch.compile(model, backend="aot_eager", fullgraph=True), tokens()
    labels = ids.clone()
    labels[0, :5] = -100
    model.zero_grad()
    loss = run(input_ids=ids, labels=labels).loss
    loss.backward()
    require_same((loss.item(), {name: p.grad for name, p in model.named_parameters()}), expected)


def test_it_takes_the_place_of_a_patched_models_loss():
    model = make()
    expected = step(model)
    model.loss_function = ebb.torch.causal_lm_loss
    require_fused(ebb.torch.patch(model), expected)


def test_unknown_layers_are_refused():
    with pytest.raises(ValueError, match="there is no layer 'RMSNorm'; there are ForCausalLMLoss, LMHead"):
        ebb.torch.kernel_mapping("RMSNorm")


# ---- through kernels


@pytest.fixture
def kernels(monkeypatch):
    found = pytest.importorskip("kernels", reason="kernels is not installed")
    from transformers.utils import import_utils, kernel_config

    if not import_utils.is_kernels_available():
        pytest.skip(f"transformers does not take kernels {found.__version__}")
    # On a CPU, which transformers leaves out of its list and kernels knows.
    monkeypatch.setattr(kernel_config, "KERNELS_SUPPORTED_DEVICE_TYPES", ["cpu", "cuda"])
    yield found
    for name in ("kernel_layer_name", "kernel_condition"):
        if name in vars(torch.nn.Linear):
            delattr(torch.nn.Linear, name)


def test_a_loss_by_kernel_config(kernels, monkeypatch):
    from transformers import KernelConfig

    model = make()
    expected = step(model)
    # transformers has this layer in its mapping, but no model with it; a module has to go where the property looks.
    model._loss_function = kernels.use_kernel_forward_from_hub("ForCausalLMLoss")(ForCausalLMLoss)
    calls = []
    own = ebb.torch._losses.wide_cross_entropy
    monkeypatch.setattr(ebb.torch._causal_lm_loss, "wide_cross_entropy", lambda *a, **k: calls.append(1) or own(*a, **k))
    model.set_use_kernels(True, KernelConfig(ebb.torch.kernel_mapping(), use_local_kernel=True))
    require_same(step(model), expected)
    assert calls == [1]


def test_a_head_by_kernel_config(kernels):
    from transformers import KernelConfig

    model = make()
    expected, logits = step(model), copy.deepcopy(model).eval()(input_ids=tokens()).logits
    kernels.replace_kernel_forward_from_hub(torch.nn.Linear, "LMHead", lambda module: module is model.lm_head)
    model.set_use_kernels(True, KernelConfig(ebb.torch.kernel_mapping("LMHead"), use_local_kernel=True))
    before = fused()
    require_same(step(model), expected)
    assert fused() == before + 1
    torch.testing.assert_close(model.eval()(input_ids=tokens()).logits, logits)
