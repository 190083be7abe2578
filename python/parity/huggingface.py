# SPDX-License-Identifier: MIT
"""ebb.torch.patch beside the unpatched model: loss, gradients and memory of small random models of each family.

Run by run.py. Prints a row for each and ends with 1 if a loss or a gradient differs by more than 1e-5.
"""

import resource
import subprocess
import sys

import torch
import transformers

import ebb.torch

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
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 211, "n_positions": 64}
NO_DROPOUT = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
FAMILIES = [
    ("GPT2", {**GPT2, **NO_DROPOUT}),
    ("Llama", SMALL),
    ("Qwen2", SMALL),
    ("Qwen3", SMALL),
    ("Mistral", SMALL),
    ("Gemma", SMALL),
    ("Gemma2", {**SMALL, "final_logit_softcapping": 3.0}),
    ("Gemma3Text", {**SMALL, "final_logit_softcapping": 2.0}),
]


def make(family, options, tied):
    torch.manual_seed(3)
    config = getattr(transformers, f"{family}Config")(**options, tie_word_embeddings=tied)
    if getattr(config, "pad_token_id", None) is not None:
        config.pad_token_id = 0
    name = {"GPT2": "GPT2LMHeadModel", "Gemma3Text": "Gemma3ForCausalLM"}.get(family, f"{family}ForCausalLM")
    return getattr(transformers, name)(config)


def step(model, tokens, labels, **kwargs):
    model.zero_grad()
    output = model(input_ids=tokens, labels=labels, **kwargs)
    output.loss.backward()
    return output, {name: p.grad.clone() for name, p in model.named_parameters()}


def compare(family, options, tied, failed):
    model = make(family, options, tied).train()
    tokens = torch.randint(1, 211, (3, 17))
    labels = tokens.clone()
    labels[0, :5] = -100
    worst = [0.0, 0.0]
    for kwargs in ({}, {"num_items_in_batch": torch.tensor(29)}, {"attention_mask": (tokens > 9).long()}):
        plain, theirs = step(model, tokens, labels, **kwargs)
        ebb.torch.patch(model)
        patched, ours = step(model, tokens, labels, **kwargs)
        if "not computed" not in repr(patched.logits):
            failed.append(f"{family}: the patched model computes logits")
        ebb.torch.unpatch(model)
        worst[0] = max(worst[0], abs(patched.loss.item() - plain.loss.item()) / abs(plain.loss.item()))
        for name in theirs:
            scale = max(theirs[name].abs().max().item(), 1e-3)
            worst[1] = max(worst[1], (ours[name] - theirs[name]).abs().max().item() / scale)
    again, back = step(model, tokens, labels, attention_mask=(tokens > 9).long())
    if again.logits is None or any(not torch.equal(back[name], theirs[name]) for name in back):
        failed.append(f"{family}: unpatch does not restore the model")
    ebb.torch.patch(model).eval()
    if not all(torch.is_tensor(model(input_ids=tokens, **more).logits) for more in ({}, {"labels": labels})):
        failed.append(f"{family}: a patched model gives no logits outside of training")
    print(f"{family:12}{'tied' if tied else 'untied':8}{worst[0]:12.1e}{worst[1]:12.1e}")
    if max(worst) > 1e-5:
        failed.append(f"{family}: loss and gradients differ by {worst}")


def bf16(failed):
    model = make("Llama", SMALL, False).to(torch.bfloat16).train()
    tokens = torch.randint(1, 211, (3, 17))
    plain, _ = step(model, tokens, tokens)
    patched, _ = step(ebb.torch.patch(model), tokens, tokens)
    if patched.loss.dtype != torch.float32 or abs(patched.loss.item() - plain.loss.item()) > 2e-2:
        failed.append(f"bf16: {patched.loss} beside {plain.loss}")


def trainer(failed):
    """Trainer, which calls the model with num_items_in_batch and looks at its signature, ends with the same weights; its
    label smoothing is computed from log-probabilities of a model that was not given the labels.
    """
    import tempfile

    rows = [{"input_ids": torch.randint(1, 211, (12,)).tolist()} for _ in range(8)]
    for row in rows:
        row["labels"] = row["input_ids"]
    for options in ({}, {"label_smoothing_factor": 0.1}, {"gradient_accumulation_steps": 2}, {"bf16": True}):
        weights = []
        for patched in (False, True):
            model = make("Llama", SMALL, True)
            if patched:
                ebb.torch.patch(model)
            with tempfile.TemporaryDirectory() as folder:
                arguments = transformers.TrainingArguments(
                    folder,
                    max_steps=3,
                    per_device_train_batch_size=4,
                    learning_rate=1e-2,
                    report_to=[],
                    save_strategy="no",
                    use_cpu=True,
                    disable_tqdm=True,
                    logging_strategy="no",
                    optim="sgd",
                    **options,
                )
                transformers.Trainer(model=model, args=arguments, train_dataset=rows).train()
            weights.append(model.lm_head.weight.detach().clone())
        difference = (weights[0] - weights[1]).abs().max().item()
        if difference > (1e-3 if options.get("bf16") else 1e-5) * weights[0].abs().max().item():
            failed.append(f"Trainer with {options}: weights differ by {difference}")


def memory(which):
    """A training step of 2,048 tokens with 32,000 words, in a process of its own: its peak in MiB."""
    model = make("Llama", {**SMALL, "vocab_size": 32000, "max_position_embeddings": 512}, True).train()
    tokens = torch.randint(1, 32000, (4, 512))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if which == "patched":
        ebb.torch.patch(model)
    model(input_ids=tokens, labels=tokens).loss.backward()
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)


def main():
    if len(sys.argv) > 1:
        return memory(sys.argv[1])
    transformers.logging.set_verbosity_error()
    print(f"transformers {transformers.__version__}: the largest relative difference of loss and gradients, patched or not\n")
    print(f"{'':20}{'loss':>12}{'gradients':>12}")
    failed = []
    for family, options in FAMILIES:
        for tied in (True, False):
            compare(family, options, tied, failed)
    bf16(failed)
    trainer(failed)
    used = {
        which: int(subprocess.run([sys.executable, __file__, which], capture_output=True, text=True, check=True).stdout)
        for which in ("plain", "patched")
    }
    print(f"\nMemory of a step, 2,048 tokens × 32,000 words: {used['plain']} MiB, patched {used['patched']} MiB")
    if used["patched"] * 3 > used["plain"]:
        failed.append(f"the patched step needs {used['patched']} MiB, the plain one {used['plain']} MiB")
    for text in failed:
        print(f"  {text}")
    return 1 if failed else 0


sys.exit(main())
