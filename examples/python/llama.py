# SPDX-License-Identifier: MIT
# %% [markdown]
# # Fine-tuning a Llama
# `llama.py FOLDER TEXT OUT` trains a checkpoint of Hugging Face's transformers (`FOLDER`, with its tokenizer.json) on a text file and
# writes another folder, which `from_pretrained` reads. Without arguments a tiny model learns the tides by heart.

# %%
import sys

import numpy as np

import ebb

ebb.manual_seed(0)
if len(sys.argv) > 2:
    model, tokenizer = ebb.models.load_llama(sys.argv[1]), ebb.data.Tokenizer.load(sys.argv[1])
    tokens, context, batch, steps, rate = tokenizer.encode(open(sys.argv[2], encoding="utf-8").read()), 512, 4, 200, 1e-5
else:
    text = "The tide comes in and the tide goes out. It carries the sand to the shore, and it carries the sand away. " * 4
    tokenizer = ebb.data.BytePairs.train(text, 300)
    tokens, context, batch, steps, rate = tokenizer.encode(text), 32, 8, 80, 1e-2
    model = ebb.models.Llama(vocab_size=tokenizer.tokens, hidden_size=48, intermediate_size=96, num_hidden_layers=2,
                             num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True)
tokens = np.array(tokens)
print(f"{len(tokens)} tokens; {model.parameter_count():,} numbers to learn")

# %% Windows anywhere in the text. bf16 computes, f32 weights are updated.
draw = np.random.default_rng(1)
optimizer = ebb.optim.AdamW(lr=rate, weight_decay=0.01, decays="matrices")
schedule = ebb.optim.warm_up(ebb.optim.cosine_schedule(rate, steps=steps), steps // 10)
losses = []
for step in range(steps):
    at = draw.integers(0, len(tokens) - context, (batch, 1)) + np.arange(context)
    optimizer.lr = schedule(step)
    loss = ebb.nn.cast_parameters(model, ebb.bf16).loss(ebb.asarray(tokens[at]), ebb.asarray(tokens[at + 1]))
    optimizer.step(model, ebb.optim.clip_by_norm(ebb.backward(loss), 1.0)[0])
    losses.append(float(loss))
    if step % 20 == 0 or step == steps - 1:
        print(f"step {step:3}  loss {losses[-1]:.3f}")

# %% The likeliest continuation.
written = list(tokens[:5])
for _ in range(20):
    written.append(int(model.logits(ebb.asarray([written]))[0, -1].argmax()))
print(tokenizer.decode(written).decode("utf-8", "replace"))
if len(sys.argv) > 3:
    ebb.models.save_llama(sys.argv[3], model)
    tokenizer.save(sys.argv[3] + "/tokenizer.json")
sys.exit(0 if losses[-1] < losses[0] else 1)
