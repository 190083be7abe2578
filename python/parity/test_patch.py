# SPDX-License-Identifier: MIT
"""ebb.torch.patch beside the unpatched model: copies, new heads, what is refused.

Run by run.py with pytest, in the Python that has PyTorch, transformers and PEFT.
"""

import copy
import io
import os
import pickle
import subprocess
import sys

import pytest
import torch

import ebb.torch
from patched_models import make, require_fused, require_same, step, tokens


# ---- copies


def test_a_copy_computes_with_its_own_weights():
    model = make()
    for copied in (
        copy.deepcopy(ebb.torch.patch(model)),
        pickle.loads(pickle.dumps(model)),
        torch.optim.swa_utils.AveragedModel(model).module,
    ):
        with torch.no_grad():
            copied.lm_head.weight.mul_(2)
            copied.model.layers[0].mlp.up_proj.weight.mul_(0.5)
        plain = ebb.torch.unpatch(copy.deepcopy(copied))
        require_fused(copied, step(plain))
        assert all(p.grad is None for p in model.parameters())


def test_a_frozen_copy_stays_as_it_was():
    model = ebb.torch.patch(make())
    reference = copy.deepcopy(model).requires_grad_(False)
    before = reference(input_ids=tokens(), labels=tokens()).loss.item()
    with torch.no_grad():
        model.lm_head.weight.mul_(2)
    assert reference(input_ids=tokens(), labels=tokens()).loss.item() == before


def test_torch_save_keeps_the_patch():
    model = ebb.torch.patch(make(tie_word_embeddings=True))
    expected = step(model)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert loaded.lm_head.weight is loaded.model.embed_tokens.weight and type(loaded) is type(model)
    require_fused(loaded, expected)


def test_a_spawned_worker_gets_a_patched_model(tmp_path):
    model = ebb.torch.patch(make())
    torch.save(model, tmp_path / "model.pt")
    program = (
        "import sys, torch; from ebb.torch._deferred import here\n"
        "model = torch.load(sys.argv[1], weights_only=False); ids = torch.arange(18).reshape(2, 9)\n"
        "model(input_ids=ids, labels=ids).loss.backward(); print(here.fused, model.lm_head.weight.grad.abs().sum().item())"
    )
    done = subprocess.run([sys.executable, "-c", program, tmp_path / "model.pt"], capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stderr
    count, total = done.stdout.split()
    ids = torch.arange(18).reshape(2, 9)
    model.zero_grad()
    model(input_ids=ids, labels=ids).loss.backward()
    assert count == "1" and float(total) == pytest.approx(model.lm_head.weight.grad.abs().sum().item(), rel=1e-5)


def test_a_patched_class_has_the_name_and_signature_of_the_models(tmp_path):
    import inspect

    model = make()
    cls, signature = type(model), inspect.signature(model.forward)
    ebb.torch.patch(model)
    assert isinstance(model, cls) and type(model).__qualname__ == cls.__qualname__ and str(type(model)) == str(cls)
    assert inspect.signature(model.forward) == signature
    model.save_pretrained(tmp_path)
    again = cls.from_pretrained(tmp_path).train()
    assert type(again) is cls
    require_same(step(again), step(model))


# ---- other heads


def test_resized_embeddings_and_replaced_heads_are_followed():
    model = make()
    ebb.torch.patch(model)
    model.resize_token_embeddings(230)
    require_fused(model, step(ebb.torch.unpatch(copy.deepcopy(model))))
    model.set_output_embeddings(torch.nn.Linear(32, 230, bias=True))
    require_fused(model, step(ebb.torch.unpatch(copy.deepcopy(model))))


class Doubled(torch.nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


def test_a_head_of_another_class_is_refused_by_name():
    model = make()
    model.lm_head = Doubled(32, 211, bias=False)
    with pytest.raises(ValueError, match=r"the head of LlamaForCausalLM is a test_patch\.Doubled, not a torch\.nn\.Linear"):
        ebb.torch.patch(model)
    assert "_ebb_original" not in vars(type(model))
    model = ebb.torch.patch(make())
    model.lm_head = Doubled(32, 211, bias=False)
    with pytest.raises(ValueError, match=r"test_patch\.Doubled"):
        step(model)


def test_a_parametrized_head_is_a_linear_layer():
    model = make()
    torch.nn.utils.parametrizations.weight_norm(model.lm_head)
    expected = step(model)
    require_fused(ebb.torch.patch(model), expected)


def test_the_head_can_be_named():
    for head in ("lm_head", None):
        model = make()
        expected = step(model)
        model.get_output_embeddings = lambda: None
        with pytest.raises(ValueError, match=r"pass it: patch\(model, head=model\.lm_head\)"):
            ebb.torch.patch(model)
        ebb.torch.patch(model, head=head or model.lm_head)
        del model.get_output_embeddings
        require_fused(model, expected)
    with pytest.raises(ValueError, match="is not a module of the LlamaForCausalLM"):
        ebb.torch.patch(make(), head=torch.nn.Linear(32, 211))


# ---- refusals


def test_wrapped_and_rewired_models_are_refused():
    with pytest.raises(ValueError, match=r"OptimizedModule wraps a model; patch that model \(\._orig_mod\) before"):
        ebb.torch.patch(torch.compile(make()))
    with pytest.raises(ValueError, match=r"DataParallel wraps a model; patch that model \(\.module\) before"):
        ebb.torch.patch(torch.nn.DataParallel(make()))
    model = make()
    model.forward = lambda **kwargs: None
    with pytest.raises(ValueError, match="the forward of this LlamaForCausalLM was replaced by .*lambda"):
        ebb.torch.patch(model)
    with pytest.raises(ValueError, match="patched already"):
        ebb.torch.patch(ebb.torch.patch(make()))
    with pytest.raises(ValueError, match="Linear has no argument labels"):
        ebb.torch.patch(torch.nn.Linear(3, 4))
    with pytest.raises(ValueError, match="the model is not patched"):
        ebb.torch.unpatch(make())


class Quantised(torch.Tensor):
    pass


class OtherLinear(torch.autograd.Function):
    """In place of torch.nn.functional.linear, as DeepSpeed's ZeRO-3 has one."""

    @staticmethod
    def forward(ctx, input, weight):
        ctx.save_for_backward(input, weight)
        return input.matmul(weight.t())

    @staticmethod
    def backward(ctx, grad):
        input, weight = ctx.saved_tensors
        return grad.matmul(weight), grad.flatten(0, -2).t() @ input.flatten(0, -2)


def test_another_linear_is_left_alone(monkeypatch):
    model, plain = ebb.torch.patch(make()), step(make())
    monkeypatch.setattr(torch.nn.functional, "linear", lambda input, weight, bias=None: OtherLinear.apply(input, weight))
    with pytest.warns(UserWarning, match="computed its loss from all its logits"):
        require_same(step(model), plain)
    with pytest.raises(ValueError, match=r"torch.nn.functional.linear was replaced by test_patch\..*; patch the model before"):
        ebb.torch.patch(make())


def test_quantised_weights_are_refused_by_name():
    model = make()
    model.lm_head.weight = torch.nn.Parameter(torch.Tensor._make_subclass(Quantised, model.lm_head.weight.detach()))
    with pytest.raises(ValueError, match=r"the weight of the head of LlamaForCausalLM is a test_patch\.Quantised"):
        ebb.torch.patch(model)
    model = ebb.torch.patch(make())  # and later: the model's own product
    weight = model.lm_head.weight.detach()
    expected = step(ebb.torch.unpatch(copy.deepcopy(model)))
    model.lm_head.weight = torch.nn.Parameter(torch.Tensor._make_subclass(Quantised, weight))
    with pytest.warns(UserWarning, match="computed its loss from all its logits"):
        found = step(model)
    require_same(found, expected)


def test_a_head_freed_before_the_loss_is_an_error():
    model = ebb.torch.patch(make())

    def free(module, args, output):
        module.weight.untyped_storage().resize_(0)

    model.lm_head.register_forward_hook(free)
    with pytest.raises(RuntimeError, match="the weight of the head was freed before the loss"):
        step(model)


def test_models_without_values_are_patched_unseen():
    with torch.device("meta"):
        model = ebb.torch.patch(make())
    model.to_empty(device="cpu")
    with torch.no_grad():
        for p in model.parameters():
            p.uniform_(-0.1, 0.1)
        for b in model.buffers():
            b.fill_(0.1)
    require_fused(model, step(ebb.torch.unpatch(copy.deepcopy(model))))
