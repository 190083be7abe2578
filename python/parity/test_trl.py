# SPDX-License-Identifier: MIT
"""ebb.torch.patch_trl: TRL's trainers with linear_log_probs beside TRL as it is.

Run by run.py with pytest, in the Python that has PyTorch and TRL.
"""

import pytest
import torch
from patched_models import make, require_same, tokens

import ebb.torch

trl = pytest.importorskip("trl")
utils = pytest.importorskip("trl.trainer.utils")
if not hasattr(utils, "add_fused_lm_head"):
    pytest.skip(f"TRL {trl.__version__} has no fused LM head", allow_module_level=True)

OUTPUTS = ("log_probs", "entropy", "log_sum_sq_probs", "mean_logits", "is_top1")


@pytest.fixture
def by_ebb():
    ebb.torch.patch_trl()
    yield
    ebb.torch.unpatch_trl()


def fused_step(family, options, temperature=1.0):
    model = make(family, **options)
    utils.add_fused_lm_head(model, temperature=temperature, outputs=OUTPUTS)
    ids = tokens()
    labels = ids.clone()
    labels[0, :5] = -100
    output = model(input_ids=ids, labels=labels, fused_lm_head=True)
    weights = torch.linspace(-1, 1, output.log_probs.numel()).reshape(output.log_probs.shape)
    total = (output.log_probs.exp() * weights).sum() + 0.3 * (output.entropy * weights).sum() + output.loss
    total.backward()
    values = {name: getattr(output, name) for name in OUTPUTS}
    return values, (total.item(), {name: p.grad for name, p in model.named_parameters()})


FAMILIES = [
    ("Llama", {}, 1.0),
    ("Llama", {"tie_word_embeddings": True}, 0.7),
    ("Granite", {"logits_scaling": 3.0}, 1.0),
    ("Gemma2", {"final_logit_softcapping": 3.0}, 1.3),
]


@pytest.mark.parametrize("family, options, temperature", FAMILIES)
def test_the_fused_head_has_the_same_outputs_and_gradients(family, options, temperature):
    theirs, expected = fused_step(family, options, temperature)
    ebb.torch.patch_trl()
    try:
        ours, found = fused_step(family, options, temperature)
    finally:
        ebb.torch.unpatch_trl()
    for name in OUTPUTS:
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-4, atol=1e-5)
        assert ours[name].requires_grad == theirs[name].requires_grad, name
    require_same(found, expected, 2e-5)


def tokenizer():
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {f"w{k}": k + 3 for k in range(200)}
    made = Tokenizer(models.WordLevel({"<pad>": 0, "<eos>": 1, "<unk>": 2, **words}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
    )


def text(seed, count):
    return " ".join(f"w{(seed * 37 + k * 11) % 200}" for k in range(count))


def trained(kind, folder, steps=3):
    """The weights after some steps, and the gradients of each of them."""
    import transformers
    from datasets import Dataset

    gradients = []

    class Gradients(transformers.TrainerCallback):
        def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
            gradients.append({name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None})

    torch.manual_seed(1)
    options = dict(
        output_dir=str(folder),
        max_steps=steps,
        max_grad_norm=0.0,
        per_device_train_batch_size=2,
        learning_rate=1e-2,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        bf16=False,
        disable_tqdm=True,
        gradient_checkpointing=False,
        optim="sgd",
    )
    model, rows, common = make(), range(6), {"processing_class": tokenizer()}
    prompts = [{"prompt": text(k, 4) + " "} for k in rows]
    if kind in ("sft", "dft"):
        data = [{"text": text(k, 12)} for k in rows]
        config = trl.SFTConfig(loss_type="nll" if kind == "sft" else "dft", **options)
        trainer = trl.SFTTrainer(model, config, train_dataset=Dataset.from_list(data), **common)
    elif kind == "dpo":
        data = [{**p, "chosen": text(k + 50, 6), "rejected": text(k + 90, 7)} for k, p in enumerate(prompts)]
        config = trl.DPOConfig(**options)
        trainer = trl.DPOTrainer(model, ref_model=make(), args=config, train_dataset=Dataset.from_list(data), **common)
    elif kind == "kto":
        data = [{**p, "completion": text(k + 50, 6), "label": k % 2 == 0} for k, p in enumerate(prompts)]
        config = trl.KTOConfig(**options)
        trainer = trl.KTOTrainer(model, ref_model=make(), args=config, train_dataset=Dataset.from_list(data), **common)
    else:  # the policy gradients: kind is grpo's loss, or rloo
        model.save_pretrained(folder / "model")  # where the reference comes from
        model.config._name_or_path = str(folder / "model")
        rl = dict(options, num_generations=2, max_completion_length=6, beta=0.04, max_steps=min(steps, 2))
        if kind == "rloo":
            cls, config = trl.RLOOTrainer, trl.RLOOConfig(**rl)
        else:
            rl["importance_sampling_level"] = "sequence" if kind in ("gspo", "luspo") else "token"
            cls, config = trl.GRPOTrainer, trl.GRPOConfig(loss_type="grpo" if kind == "gspo" else kind, **rl)
        reward = lambda completions, **_: [float(len(set(c.split()))) + 0.1 * (sum(map(ord, c)) % 7) for c in completions]  # noqa: E731
        trainer = cls(model, reward_funcs=reward, args=config, train_dataset=Dataset.from_list(prompts), **common)
    trainer.add_callback(Gradients())
    trainer.train()
    return {name: p.detach().clone() for name, p in trainer.model.named_parameters()}, gradients


KINDS = ["sft", "dft", "dpo", "kto", "rloo", "grpo", "bnpo", "dr_grpo", "dapo", "cispo", "gspo", "sapo", "luspo", "vespo"]


@pytest.mark.parametrize("kind", KINDS)
def test_trainers_take_the_same_steps(kind, tmp_path, monkeypatch):
    theirs, expected = trained(kind, tmp_path)
    calls = []
    ebb.torch.patch_trl()
    try:
        own = ebb.torch.linear_log_probs
        monkeypatch.setattr(ebb.torch._trl, "linear_log_probs", lambda *a, **k: calls.append(1) or own(*a, **k))
        ours, found = trained(kind, tmp_path)
    finally:
        ebb.torch.unpatch_trl()
    assert calls
    # The first step, before weights differ: each tensor's gradient to 1e-5 of its largest number, in f32.
    assert expected[0].keys() == found[0].keys() and any(g.abs().max() > 0 for g in expected[0].values())
    largest = max(g.abs().max() for g in expected[0].values())
    for name, gradient in expected[0].items():
        assert (found[0][name] - gradient).abs().max() <= 1e-5 * max(gradient.abs().max(), 1e-3 * largest), name
    for name, weight in theirs.items():
        assert (ours[name] - weight).abs().max() <= 1e-4 * weight.abs().max(), name


def test_it_is_patched_once(by_ebb):
    with pytest.raises(ValueError, match="TRL is patched already"):
        ebb.torch.patch_trl()


def test_a_fused_head_that_needs_a_gpu_is_refused(monkeypatch):
    class Triton:
        forward = utils._ChunkedLogProbFunction.forward

        @staticmethod
        def apply(*args):
            raise RuntimeError("0 active drivers")

    monkeypatch.setattr(utils, "_ChunkedLogProbFunction", Triton)
    with pytest.raises(ValueError, match="does not compute on this machine's .* so that ours cannot be compared"):
        ebb.torch.patch_trl()


def test_another_fused_head_is_refused(monkeypatch):
    class Other(torch.autograd.Function):
        @staticmethod
        def forward(ctx, hidden, weight):
            return hidden

    with pytest.raises(ValueError, match="TRL is not patched"):
        ebb.torch.unpatch_trl()
    monkeypatch.setattr(utils, "_ChunkedLogProbFunction", Other)
    with pytest.raises(ValueError, match=f"TRL {trl.__version__} has no fused LM head as this version of Ebb knows it"):
        ebb.torch.patch_trl()
