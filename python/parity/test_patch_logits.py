# SPDX-License-Identifier: MIT
"""ebb.torch.patch beside the unpatched model: what models and people do with logits, from hooks and losses to single rows.

Run by run.py with pytest, in the Python that has PyTorch, transformers and PEFT.
"""

import copy
import warnings

import pytest
import torch
import transformers

import ebb.torch
from ebb.torch._deferred_logits import Logits
from patched_models import SMALL, fused, make, require_fused, require_same, step, tokens


@pytest.mark.parametrize("compiled", [False, True])
def test_what_is_rounded_is_the_callers_choice(monkeypatch, compiled):
    given, loss = [], ebb.torch._losses.wide_linear_cross_entropy

    def recorded(*args, **options):
        given.append({name for name in ("round_logits", "round_sums") if options.get(name)})
        return loss(*args, **options)

    monkeypatch.setattr(ebb.torch._deferred_logits, "wide_linear_cross_entropy", recorded)
    rounding = ebb.torch.patch(make(), round_logits=True, round_sums=True)
    copied = copy.deepcopy(rounding)
    for model, expected in ((copied, {"round_logits", "round_sums"}), (ebb.torch.patch(make()), set())):
        given.clear()
        if compiled:
            torch._dynamo.reset()
            step(torch.compile(model, backend="aot_eager", fullgraph=True))
        else:
            step(model)
        assert given == [expected]
    again = ebb.torch.patch(ebb.torch.unpatch(rounding))
    given.clear()
    step(again)
    assert given == [set()]


def test_hooks_on_the_head_take_part():
    model = make()
    model.lm_head.register_forward_pre_hook(lambda module, args: (args[0] * 0.5,))
    seen = []
    model.lm_head.register_forward_hook(lambda module, args, output: seen.append(tuple(output.shape)) or output * 3)
    expected = step(model)
    ebb.torch.patch(model)
    require_fused(model, expected)
    assert set(seen) == {(3, 17, 211), (2, 8, 211)}
    model.lm_head.register_forward_hook(lambda module, args, output: output + output.mean(-1, keepdim=True))
    model.lm_head.register_forward_pre_hook(lambda module, args: (args[0].relu(),))
    with pytest.warns(UserWarning, match="computed its loss from all its logits"):
        found = step(model)
    require_same(found, step(ebb.torch.unpatch(model)))


def test_hooks_registered_later_compile():
    """As DeepSpeed's are: hooks cannot be moved while they are traced."""
    def halve(module, args):
        return (args[0] * 0.5,)

    plain = make()
    plain.lm_head.register_forward_pre_hook(halve)
    model = ebb.torch.patch(make())
    model.lm_head.register_forward_pre_hook(halve)
    torch._dynamo.reset()
    loss, gradients = step(plain)
    expected = loss, {f"_orig_mod.{name}": gradient for name, gradient in gradients.items()}
    require_same(step(torch.compile(model, backend="aot_eager")), expected)
    require_fused(model, step(plain))


def test_shifted_labels_alone_make_no_loss():
    """As sequence parallelism leaves it to its caller, who makes one of the logits."""
    plain = make()
    expected = plain.loss_function(plain(input_ids=tokens()).logits, None, 211, shift_labels=tokens())
    model = ebb.torch.patch(make())
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        output, before = model(input_ids=tokens(), shift_labels=tokens()), fused()
    assert output.loss is None and isinstance(output.logits, Logits)
    found = model.loss_function(output.logits, None, 211, shift_labels=tokens())
    assert found.item() == pytest.approx(expected.item(), rel=1e-5) and fused() == before + 1


def test_hooks_that_write_in_place_are_seen():
    def write(module, args, output):
        output[..., 7] = -5.0

    model = ebb.torch.patch(make())
    model.lm_head.register_forward_hook(write)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = step(model)
    require_same(found, step(ebb.torch.unpatch(model)))


@pytest.mark.parametrize("register", ["register_full_backward_hook", "register_full_backward_pre_hook"])
def test_backward_hooks_on_the_head_see_the_gradients_of_logits(register):
    def shapes(model):
        found = []
        handle = getattr(model.lm_head, register)(lambda module, *grads: found.append([g.shape for part in grads for g in part]))
        result = step(model)
        handle.remove()
        return found, result

    model = make()
    seen, expected = shapes(model)
    ebb.torch.patch(model)
    with pytest.warns(UserWarning, match="computed its loss from all its logits"):
        found, result = shapes(model)
    assert seen and found == seen
    require_same(result, expected)
    require_fused(model, expected)


def test_models_as_functions_are_differentiated_by_torch_func():
    model = make()
    model.set_attn_implementation("eager")

    def gradients(model):
        def loss(parameters, ids):
            given = {"input_ids": ids[None], "labels": ids[None], "use_cache": False}
            return torch.func.functional_call(model, parameters, kwargs=given).loss

        parameters = dict(model.named_parameters())
        return torch.func.grad(loss)(parameters, tokens()[0]), torch.func.vmap(torch.func.grad(loss), (None, 0))(parameters, tokens())

    expected = gradients(model)
    for ours, theirs in zip(gradients(ebb.torch.patch(model)), expected):
        for name, gradient in theirs.items():
            torch.testing.assert_close(ours[name], gradient, rtol=1e-4, atol=1e-6)


def test_a_models_own_loss_function_is_used():
    def smoothed(logits, labels, vocab_size, **kwargs):
        shifted = labels[..., 1:].reshape(-1)
        return torch.nn.functional.cross_entropy(logits[:, :-1].float().reshape(-1, vocab_size), shifted, label_smoothing=0.2)

    def squared(logits, labels, vocab_size, **kwargs):
        return logits.float().square().mean()

    model = make()
    plain = step(model)
    model.loss_function = smoothed
    expected = step(model)
    assert expected[0] != pytest.approx(plain[0])
    require_fused(ebb.torch.patch(model), expected)
    model.loss_function = squared
    with pytest.warns(UserWarning, match="computed its loss from all its logits"):
        found = step(model)
    require_same(found, step(ebb.torch.unpatch(model)))
    with pytest.raises(ValueError, match=r"the loss of LlamaForCausalLM \(squared\) is not a cross-entropy"):
        ebb.torch.patch(model)
    assert "_ebb_original" not in vars(type(model)) and not model.lm_head._forward_pre_hooks


def smoothed_step(model, **kwargs):
    """As Trainer does with label_smoothing_factor: the model is not given the labels."""
    from transformers.trainer_pt_utils import LabelSmoother

    labels = tokens().clone()
    labels[0, :5] = -100
    model.zero_grad()
    output = model(input_ids=tokens(), num_items_in_batch=torch.tensor(44), **kwargs)
    loss = LabelSmoother(0.1)(output, labels, shift_labels=True)
    loss.backward()
    return loss.item(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("family, options", [("Llama", {}), ("Gemma2", {"final_logit_softcapping": 3.0}), ("Llama", {"tie_word_embeddings": True})])
def test_label_smoothing_of_trainer_needs_no_logits(family, options):
    model = make(family, **options)
    expected = smoothed_step(model)
    ebb.torch.patch(model)
    before = fused()
    require_same(smoothed_step(model), expected)
    assert fused() == before + 1


def test_log_probabilities_of_deferred_logits():
    """Any use gives what the model's own logits would have given."""
    model = make()
    plain = model(input_ids=tokens()).logits
    deferred = ebb.torch.patch(model)(input_ids=tokens(), num_items_in_batch=torch.tensor(1)).logits
    assert isinstance(deferred, Logits)
    found, expected = deferred.log_softmax(-1), plain.log_softmax(-1)
    assert "not computed" in repr(found) and found.shape == expected.shape and found.dim() == 3 and found.requires_grad
    index = tokens().unsqueeze(-1)
    torch.testing.assert_close((-found).sum(-1), -expected.sum(-1), rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(found.gather(-1, index), expected.gather(-1, index), rtol=1e-5, atol=1e-5)
    assert "not computed" in repr(deferred) and "not computed" in repr(found)
    pairs = [  # of all of them
        (found.gather(-1, index.expand(3, 17, 2)), expected.gather(-1, index.expand(3, 17, 2))),
        (found.sum(0), expected.sum(0)),
        (found.exp().sum(-1), expected.exp().sum(-1)),
        (torch.nn.functional.log_softmax(deferred, 1), torch.nn.functional.log_softmax(plain, 1)),
        (torch.log_softmax(deferred, -1) * 2, torch.log_softmax(plain, -1) * 2),
    ]
    for ours, theirs in pairs:
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-4)
    assert torch.is_tensor(model(input_ids=tokens()).logits)  # nobody said that a loss will be made of them


MIXTRAL = {"num_local_experts": 4, "num_experts_per_tok": 2, "output_router_logits": True, "router_aux_loss_coef": 0.5}
FAMILIES = [
    ("Granite", {"logits_scaling": 3.0}),
    ("Cohere", {"logit_scale": 0.3}),
    ("Gemma2", {"final_logit_softcapping": 3.0}),
    ("Mixtral", MIXTRAL),
    ("Qwen2Moe", {"num_experts": 4, "num_experts_per_tok": 2, "output_router_logits": True, "moe_intermediate_size": 32}),
    ("Phi", {}),
    ("GPTNeoX", {}),
    ("Olmo2", {}),
    ("StableLm", {}),
]


@pytest.mark.parametrize("family, options", FAMILIES)
def test_scales_caps_and_router_losses_are_the_models(family, options):
    model = make(family, **options)
    expected = step(model)
    ebb.torch.patch(model)
    require_fused(model, expected)
    require_fused(model, expected, return_dict=False)
    output = model(input_ids=tokens(), labels=tokens())
    assert type(output) is type(ebb.torch.unpatch(model)(input_ids=tokens(), labels=tokens()))


ENCODER_DECODER = {
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "vocab_size": 211,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}


def test_numbers_that_a_model_adds_to_its_logits_are_a_bias():
    torch.manual_seed(3)
    model = transformers.BartForConditionalGeneration(transformers.BartConfig(dropout=0.0, **ENCODER_DECODER)).train()
    model.final_logits_bias.normal_()
    expected = step(model)
    require_fused(ebb.torch.patch(model), expected)


def test_classes_that_pad_a_vocabulary_can_be_left_out():
    class Padded(transformers.LlamaForCausalLM):
        def forward(self, input_ids=None, labels=None):
            logits = self.lm_head(self.model(input_ids).last_hidden_state).float()[..., :200]
            loss = self.loss_function(logits=logits, labels=labels, vocab_size=200)
            return transformers.modeling_outputs.CausalLMOutputWithPast(loss=loss, logits=logits)

    torch.manual_seed(3)
    model = Padded(transformers.LlamaConfig(**SMALL)).train()
    expected = step(model)
    require_fused(ebb.torch.patch(model), expected)


def test_a_model_of_something_else_than_tokens_is_patched_with_a_batch():
    torch.manual_seed(3)
    config = transformers.WhisperConfig(num_mel_bins=8, max_source_positions=8, max_target_positions=32, **ENCODER_DECODER)
    model = transformers.WhisperForConditionalGeneration(config).train()
    with pytest.raises(ValueError, match="WhisperForConditionalGeneration takes input_features, .* pass one with its labels"):
        ebb.torch.patch(model)
    batch = {"input_features": torch.randn(3, 8, 16), "labels": tokens()}

    def gradients():
        model.zero_grad()
        output = model(**batch)
        output.loss.backward()
        return output.loss.item(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}

    expected, before = gradients(), fused()
    ebb.torch.patch(model, batch=batch)
    require_same(gradients(), expected)
    assert fused() > before


def test_logits_of_a_step_are_computed_when_looked_at():
    model = make()
    plain = model(input_ids=tokens(), labels=tokens()).logits
    logits = ebb.torch.patch(model)(input_ids=tokens(), labels=tokens()).logits
    assert isinstance(logits, Logits) and logits._value is None and logits.shape == plain.shape and "not computed" in repr(logits)
    assert torch.equal(logits.argmax(-1), plain.argmax(-1)) and torch.equal(torch.softmax(logits, -1), torch.softmax(plain, -1))
    assert torch.equal(2 - logits[0], 2 - plain[0]) and torch.equal(logits[..., 3], plain[..., 3]) and len(logits) == len(plain)
    for eval_mode in (model.eval()(input_ids=tokens(), labels=tokens()), model.train()(input_ids=tokens())):
        assert torch.is_tensor(eval_mode.logits)


def test_logits_are_not_computed_with_another_head_than_theirs():
    """The usual loop: the accuracy after the optimizer's step."""
    model = ebb.torch.patch(make())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    output, seen = (model(input_ids=tokens(), labels=tokens()) for _ in range(2))
    output.loss.backward()
    early = seen.logits.argmax(-1)
    optimizer.step()
    assert torch.equal(seen.logits.argmax(-1), early)
    with pytest.raises(RuntimeError, match="the head has changed since .by optimizer.step..... look at them before that"):
        output.logits.argmax(-1)


@pytest.mark.parametrize("ask", ["retain_grad", "hook", "grad"])
def test_gradients_of_logits_are_there_or_refused(ask):
    def gradient(logits, loss):
        if ask == "grad":
            return torch.autograd.grad(loss(), logits)[0]
        kept = []
        logits.retain_grad() if ask == "retain_grad" else logits.register_hook(kept.append)
        loss().backward()
        return logits.grad if ask == "retain_grad" else kept[0]

    def own_loss(model):
        logits = model(input_ids=tokens(), num_items_in_batch=torch.tensor(9)).logits
        return gradient(logits, lambda: torch.nn.functional.cross_entropy(logits.reshape(-1, 211), tokens().reshape(-1)))

    model = make()
    expected = own_loss(model)
    ebb.torch.patch(model)
    if ask != "grad":  # which asks when the loss has been computed
        torch.testing.assert_close(own_loss(model), expected, rtol=1e-5, atol=1e-8)
    output = model(input_ids=tokens(), labels=tokens())
    with pytest.raises(RuntimeError, match="the loss was computed without these logits, so they have no gradient"):
        gradient(output.logits, lambda: output.loss)


def test_einops_takes_logits():
    einops = pytest.importorskip("einops")
    model = make()
    plain = model(input_ids=tokens(), labels=tokens()).logits
    logits = ebb.torch.patch(model)(input_ids=tokens(), labels=tokens()).logits
    rows = einops.rearrange(logits, "b t v -> (b t) v")
    assert isinstance(rows, Logits) and rows._value is None and torch.equal(rows.value(), plain.reshape(-1, 211))
    assert torch.equal(einops.rearrange(logits, "b t v -> v b t"), plain.permute(2, 0, 1))
    torch.testing.assert_close(einops.reduce(logits, "b t v -> b", "max"), plain.amax((1, 2)))


@pytest.mark.parametrize("compiled", [False, True])
def test_a_batch_without_a_label_leaves_no_nan(compiled):
    """Trainer divides by the number of labels: a loss of 0/0, whose gradients are zeros."""

    def gradients(model):
        torch._dynamo.reset()
        run = torch.compile(model, backend="aot_eager") if compiled else model
        run(input_ids=tokens(), labels=torch.full((3, 17), -100), num_items_in_batch=torch.tensor(0)).loss.backward()
        return [p.grad for p in model.parameters()]

    for model in (make(), ebb.torch.patch(make())):
        before = fused()
        assert all(g.eq(0).all() for g in gradients(model))
    assert fused() == before + (not compiled)


@pytest.mark.parametrize("options", [{}, {"return_dict": False}], ids=str)
def test_an_evaluation_can_skip_the_logits(options):
    model = make().eval()
    plain = model(input_ids=tokens(), labels=tokens(), **options)
    ebb.torch.patch(model)
    before = fused()
    with torch.no_grad():
        found = model(input_ids=tokens(), labels=tokens(), skip_logits=True, **options)
    assert fused() == before + 1 and found[0].item() == pytest.approx(plain[0].item(), rel=1e-5)
    assert found[1] is None if options else found.logits is None
    assert torch.equal(model(input_ids=tokens(), labels=tokens(), skip_logits=False).logits, plain[1])


INDICES = [
    (slice(None), slice(None, -1)),
    (Ellipsis, slice(None, -1), slice(None)),
    (0,),
    (torch.tensor([2, 0]),),
    (Ellipsis,),
    (slice(None), slice(1, 3), slice(None)),
    (torch.arange(51).reshape(3, 17) % 2 == 0,),
    (slice(None), -1),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_rows_of_logits_stay_deferred(index):
    model = make()
    plain = model(input_ids=tokens(), labels=tokens()).logits
    logits = ebb.torch.patch(model)(input_ids=tokens(), labels=tokens()).logits
    found, expected = logits[index], plain[index]
    assert isinstance(found, Logits) and found.shape == expected.shape
    target = torch.arange(expected.numel() // 211) % 211
    ours = torch.nn.functional.cross_entropy(found.reshape(-1, 211), target)
    assert logits._value is None
    assert ours.item() == pytest.approx(torch.nn.functional.cross_entropy(expected.reshape(-1, 211), target).item(), rel=1e-5)
    assert torch.equal(found.value(), expected)


@pytest.mark.parametrize("index", [(Ellipsis, 3), (Ellipsis, slice(0, 5)), (0, 0, 0), (slice(None), None), (Ellipsis, None)], ids=str)
def test_single_logits_are_tensors(index):
    model = make()
    plain = model(input_ids=tokens(), labels=tokens()).logits
    logits = ebb.torch.patch(model)(input_ids=tokens(), labels=tokens()).logits
    assert torch.equal(logits[index], plain[index])
