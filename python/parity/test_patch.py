# SPDX-License-Identifier: MIT
"""ebb.torch.patch beside the unpatched model, for what people do with models: copies, adapters, new heads, hooks, compilers.

Run by run.py with pytest, in the Python that has PyTorch, transformers and PEFT.
"""

import copy
import io
import os
import pickle
import subprocess
import sys
import warnings

import peft
import pytest
import torch
import transformers

import ebb.torch
from ebb.torch._deferred import here
from ebb.torch._deferred_logits import Logits

SMALL = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 211,
    "max_position_embeddings": 64,
    "head_dim": 8,
}


def make(family="Llama", **options):
    torch.manual_seed(3)
    config = getattr(transformers, f"{family}Config")(**{**SMALL, **options})
    if getattr(config, "pad_token_id", None) is not None:
        config.pad_token_id = 0
    model = getattr(transformers, f"{family}ForCausalLM")(config).train()
    with torch.no_grad():  # logits that differ, so that losses do
        for p in model.parameters():
            p.mul_(3)
    return model


def tokens(rows=3, length=17):
    return torch.randint(1, 200, (rows, length), generator=torch.Generator().manual_seed(5))


def step(model, ids=None, **kwargs):
    """(loss, gradients by name) of a batch."""
    ids = tokens() if ids is None else ids
    labels = ids.clone()
    labels[0, :5] = -100
    model.zero_grad()
    torch.manual_seed(11)
    output = model(input_ids=ids, labels=labels, **kwargs)
    loss = output[0] if isinstance(output, tuple) else output.loss
    loss.backward()
    return loss.item(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def require_same(found, expected, tolerance=1e-5):
    assert found[0] == pytest.approx(expected[0], rel=tolerance)
    assert found[1].keys() == expected[1].keys() and found[1]
    for name, gradient in expected[1].items():
        scale = max(gradient.abs().max().item(), 1e-3)
        assert (found[1][name] - gradient).abs().max().item() <= tolerance * scale, name


def fused():
    return getattr(here, "fused", 0)


def require_fused(model, expected, **kwargs):
    """The step is the expected one, and its logits were not computed."""
    before = fused()
    found = step(model, **kwargs)
    assert fused() == before + 1
    require_same(found, expected)


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


# ---- what models do with their logits


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


# ---- adapters

LORA = {"r": 4, "lora_alpha": 16, "task_type": "CAUSAL_LM"}
ADAPTERS = {
    "lora": (True, lambda: peft.LoraConfig(target_modules=["q_proj", "v_proj"], **LORA)),
    "lora on the head": (True, lambda: peft.LoraConfig(target_modules=["q_proj", "lm_head"], lora_bias=True, **LORA)),
    "lora with dropout": (True, lambda: peft.LoraConfig(target_modules=["q_proj", "lm_head"], lora_dropout=0.3, **LORA)),
    "dora on the head": (False, lambda: peft.LoraConfig(target_modules=["q_proj", "lm_head"], use_dora=True, **LORA)),
    "modules to save": (True, lambda: peft.LoraConfig(target_modules=["q_proj"], modules_to_save=["lm_head"], **LORA)),
    "trainable tokens": (True, lambda: peft.TrainableTokensConfig(token_indices=[3, 9], task_type="CAUSAL_LM")),
    "prompt tuning": (True, lambda: peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3)),
    "prefix tuning": (True, lambda: peft.PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3)),
    "oft on the head": (True, lambda: peft.OFTConfig(target_modules=["q_proj", "lm_head"], oft_block_size=8, task_type="CAUSAL_LM")),
    "c3a on the head": (False, lambda: peft.C3AConfig(target_modules=["lm_head"], block_size=1, task_type="CAUSAL_LM")),
    "ia3 before the head": (
        True,
        lambda: peft.IA3Config(target_modules=["lm_head"], feedforward_modules=["lm_head"], task_type="CAUSAL_LM"),
    ),
    "ia3 on the head": (
        False,
        lambda: peft.IA3Config(target_modules=["k_proj", "lm_head"], feedforward_modules=[], task_type="CAUSAL_LM"),
    ),
}


def adapted(config, tied, patched=None):
    model = make(tie_word_embeddings=tied)
    if patched == "before":
        ebb.torch.patch(model)
    torch.manual_seed(4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = peft.get_peft_model(model, config).train()
    torch.manual_seed(6)
    with torch.no_grad():  # an adapter begins as nothing
        for p in model.parameters():
            if p.requires_grad:
                p.add_(torch.randn_like(p), alpha=0.1)
    if patched == "base":
        ebb.torch.patch(model.get_base_model())
    if patched == "whole":
        assert ebb.torch.patch(model) is model
    return model


@pytest.mark.parametrize("order", ["before", "base", "whole"])
@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("kind", ADAPTERS)
def test_adapters_train_as_without_the_patch(kind, tied, order):
    without_logits, config = ADAPTERS[kind]
    expected = step(adapted(config(), tied))
    if not without_logits and order != "before":
        with pytest.raises(ValueError, match="the head of LlamaForCausalLM is a peft.*, an adapter that needs all logits"):
            adapted(config(), tied, order)
        return
    model = adapted(config(), tied, order)
    before = fused()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = step(model)
    require_same(found, expected)
    if without_logits:
        assert fused() == before + 1
    else:
        assert any("from all its logits" in str(w.message) for w in told)
    require_same(step(ebb.torch.unpatch(model)), expected)


def test_switched_and_merged_adapters_are_followed():
    model = adapted(ADAPTERS["lora with dropout"][1](), False, "before")
    plain = ebb.torch.unpatch(copy.deepcopy(model))

    def require_same_loss():
        losses = []
        for each in (model, plain):
            torch.manual_seed(2)  # of the dropout
            losses.append(each(input_ids=tokens(), labels=tokens()).loss.item())
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)

    for change in ("merge_adapter", "unmerge_adapter"):
        getattr(model, change)(), getattr(plain, change)()
        require_same_loss()
    with model.disable_adapter(), plain.disable_adapter():
        require_same_loss()


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


if __name__ == "__main__":
    sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", __file__]))
