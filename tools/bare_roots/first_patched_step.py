# SPDX-License-Identifier: MIT
"""The first training step of a small Llama whose loss ebb.torch computes; the loss is the one that the plain model has."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import ebb.torch

torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=512,
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
)
model = LlamaForCausalLM(config)
tokens = torch.randint(0, 512, (2, 32))
plain = model(input_ids=tokens, labels=tokens).loss.item()

ebb.torch.patch(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
loss = model(input_ids=tokens, labels=tokens).loss
loss.backward()
optimizer.step()
assert abs(loss.item() - plain) < 1e-4 * plain, (loss.item(), plain)
assert model(input_ids=tokens, labels=tokens).loss.item() < plain
