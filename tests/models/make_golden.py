# SPDX-License-Identifier: MIT
"""make_golden.py: writes tests/models/golden with transformers and tokenizers; run it by hand where both are installed.

Each folder NAME is a tiny Llama as save_pretrained writes it, and NAME.json has tokens, their loss, norms of the gradients
and the losses of 20 steps of AdamW (lr 1e-2, weight decay 0.1 on matrices). tokenizer_KIND.json is a tokenizer that was trained on
a few lines, and tokenized.json has texts with their tokens by each."""

import json
import pathlib
import shutil

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import LlamaConfig, LlamaForCausalLM

golden = pathlib.Path(__file__).parent / "golden"
llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}
CASES = {
    "untied": dict(num_key_value_heads=4, tie_word_embeddings=False, rope_parameters={"rope_type": "default", "rope_theta": 1e4}),
    "tied_grouped": dict(num_key_value_heads=2, tie_word_embeddings=True, rope_parameters={"rope_theta": 5e5, **llama3}),
    "shards": dict(num_key_value_heads=1, tie_word_embeddings=False, head_dim=8, attention_bias=True, mlp_bias=True,
                   rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}),
}


def make(name, options):
    torch.manual_seed(3)
    config = LlamaConfig(vocab_size=48, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
                         max_position_embeddings=64, initializer_range=0.2, bos_token_id=1, eos_token_id=2, **options)
    model = LlamaForCausalLM(config)
    for p in model.parameters():  # biases and gains that are not 0 and 1
        if p.dim() == 1:
            p.data += 0.1 * torch.randn_like(p)
    shutil.rmtree(golden / name, ignore_errors=True)
    model.save_pretrained(golden / name, max_shard_size="8KB" if name == "shards" else "5GB")
    (golden / name / "generation_config.json").unlink(missing_ok=True)
    tokens = torch.randint(0, 48, (2, 13))
    labels = tokens.clone()
    labels[0, 5] = -100
    model.set_attn_implementation("eager")
    loss = model(input_ids=tokens, labels=labels).loss
    loss.backward()
    facts = {"tokens": tokens.tolist(), "labels": labels.tolist(), "loss": loss.item(),
             "gradient_norms": {n: p.grad.double().norm().item() for n, p in model.named_parameters()}}
    half = LlamaForCausalLM(config).bfloat16()
    half.load_state_dict(model.state_dict())
    half.set_attn_implementation("eager")
    facts["loss_bf16"] = half(input_ids=tokens, labels=labels).loss.item()
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    adamw = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], lr=1e-2)
    curve = []
    for _ in range(20):
        adamw.zero_grad()
        loss = model(input_ids=tokens, labels=labels).loss
        loss.backward()
        adamw.step()
        curve.append(loss.item())
    facts["curve"] = curve
    (golden / f"{name}.json").write_text(json.dumps(facts) + "\n")


LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEXTS = ["The tide comes in, and the tide goes out; it's 12345 o'clock.", "  two  blanks\n\n\tand a tab \r\n", "HE'S here, we'Ll see",
         "Größe, Привет 你好 🌊 ½²③٣", "'\u017fs ''t 'x", "<|begin|>The<|end|> tide<|end", "a\u00a0b\u2003\u3000c\x85d", "", " ", "\n", "x\n",
         "  12 34567", "\U000143da's \U00031566"]


def make_tokenizer(kind):
    made = Tokenizer(models.BPE(ignore_merges=kind == "llama3"))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind == "gpt2")
    split = [pre_tokenizers.Split(Regex(LLAMA3), "isolated")] if kind == "llama3" else []
    made.pre_tokenizer = pre_tokenizers.Sequence([*split, byte_level]) if split else byte_level
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator(TEXTS * 2, trainers.BpeTrainer(vocab_size=300, special_tokens=["<|begin|>", "<|end|>"], show_progress=False,
                                                            initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    made.post_processor = processors.TemplateProcessing(single="<|begin|> $A", special_tokens=[("<|begin|>", 0)])
    made.save(str(golden / f"tokenizer_{kind}.json"), pretty=False)
    return [made.encode(text).ids for text in TEXTS]


if __name__ == "__main__":
    golden.mkdir(exist_ok=True)
    for name, options in CASES.items():
        make(name, options)
    tokens = {kind: make_tokenizer(kind) for kind in ("gpt2", "llama3")}
    (golden / "tokenized.json").write_text(json.dumps({"texts": TEXTS, **tokens}) + "\n")
