# SPDX-License-Identifier: MIT
"""ebb.models.Llama beside transformers: losses, gradients, training and folders, for random settings."""

import numpy as np
import pytest

import ebb

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

LLAMA3 = {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
PLAIN = {"rope_type": "default", "rope_theta": 1e4}
SETTINGS = {
    "untied": dict(num_key_value_heads=8),
    "tied": dict(num_key_value_heads=8, tie_word_embeddings=True),
    "grouped": dict(num_key_value_heads=2),
    "llama3": dict(num_key_value_heads=4, tie_word_embeddings=True, rope_parameters=LLAMA3),
    "linear": dict(num_key_value_heads=1, rope_parameters={"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4}),
    "wide heads, biases": dict(num_key_value_heads=2, head_dim=24, attention_bias=True, mlp_bias=True),
}


@pytest.fixture(params=SETTINGS, name="pair")
def make_pair(request, tmp_path):
    """A model of transformers, the folder it was saved in, tokens and labels."""
    torch.manual_seed(len(request.param))
    settings = {"rope_parameters": PLAIN, **SETTINGS[request.param]}
    config = transformers.LlamaConfig(vocab_size=300, hidden_size=64, intermediate_size=112, num_hidden_layers=3,
                                      num_attention_heads=8, max_position_embeddings=256, initializer_range=0.1, **settings)
    model = transformers.LlamaForCausalLM(config)
    for p in model.parameters():
        if p.dim() == 1:
            p.data += 0.1 * torch.randn_like(p)
    model.set_attn_implementation("eager")
    model.save_pretrained(tmp_path / "hf")
    tokens = torch.randint(0, 300, (2, 70))
    labels = tokens.clone()
    labels[:, 20:25] = -100
    return model, tmp_path / "hf", tokens, labels


def following(labels):
    return np.concatenate([labels[:, 1:].numpy(), np.full((len(labels), 1), -100)], 1)


def test_loss_and_gradients_are_the_same_in_f32(pair):
    theirs, folder, tokens, labels = pair
    loss = theirs(input_ids=tokens, labels=labels).loss
    loss.backward()
    ours = ebb.models.load_llama(str(folder))
    own_loss = ours.loss(ebb.asarray(tokens.numpy()), ebb.asarray(following(labels)))
    gradients = ebb.backward(own_loss)
    assert abs(float(own_loss) / loss.item() - 1) < 1e-6
    own = dict(ours.named_parameters())
    assert set(own) == {name for name, _ in theirs.named_parameters()}
    for name, p in theirs.named_parameters():
        expected = p.grad.numpy()
        error = np.abs(gradients[own[name]].numpy() - expected).max() / np.abs(expected).max()
        assert error < 1e-5, name


def test_loss_and_gradients_are_close_in_bf16(pair):
    theirs, folder, tokens, labels = pair
    half = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, attn_implementation="eager")
    loss = half(input_ids=tokens, labels=labels).loss
    loss.backward()
    ours = ebb.models.load_llama(str(folder))
    own_loss = ebb.nn.cast_parameters(ours, ebb.bf16).loss(ebb.asarray(tokens.numpy()), ebb.asarray(following(labels)))
    gradients = ebb.backward(own_loss)
    assert abs(float(own_loss) / loss.item() - 1) < 1e-3
    exact = theirs(input_ids=tokens, labels=labels).loss
    exact.backward()
    wide = {name: p.grad for name, p in theirs.named_parameters()}
    for (name, p), (_, own) in zip(sorted(half.named_parameters()), sorted(ours.named_parameters())):
        # Both are rounded; ours is at most twice as far from the gradient in f32 as theirs, or a hundredth.
        scale = wide[name].norm().item()
        their_error = (p.grad.float() - wide[name]).norm().item() / scale
        own_error = np.linalg.norm(gradients[own].numpy() - wide[name].numpy()) / scale
        assert own_error < max(2 * their_error, 1e-2), name


def test_a_curve_of_training_stays_together(pair):
    theirs, folder, tokens, labels = pair
    ours = ebb.models.load_llama(str(folder))
    groups = [{"params": [p for p in theirs.parameters() if (p.dim() > 1) == decays], "weight_decay": 0.1 * decays}
              for decays in (True, False)]
    their_adamw = torch.optim.AdamW(groups, lr=3e-3)
    adamw = ebb.optim.AdamW(lr=3e-3, weight_decay=0.1, decays=ebb.optim.decay_matrices)
    x, y = ebb.asarray(tokens.numpy()), ebb.asarray(following(labels))
    for _ in range(20):
        their_adamw.zero_grad()
        loss = theirs(input_ids=tokens, labels=labels).loss
        loss.backward()
        their_adamw.step()
        own_loss = ours.loss(x, y)
        adamw.step(ours, ebb.backward(own_loss))
        assert abs(float(own_loss) - loss.item()) < 1e-4 * max(1, loss.item())


@pytest.mark.parametrize("shard_bytes", [1 << 30, 60_000])
def test_transformers_reads_what_is_written(pair, tmp_path, shard_bytes):
    theirs, folder, tokens, labels = pair
    ours = ebb.models.load_llama(str(folder))
    ebb.models.save_llama(str(tmp_path / "back"), ours, shard_bytes=shard_bytes)
    back, report = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "back", attn_implementation="eager",
                                                                 output_loading_info=True)
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert back(input_ids=tokens, labels=labels).loss.item() == theirs(input_ids=tokens, labels=labels).loss.item()


def test_packed_rows_are_those_of_transformers(pair):
    theirs, folder, tokens, labels = pair
    ours = ebb.models.load_llama(str(folder))
    lengths, row = (9, 1, 40, 20), tokens[:1]
    parts = list(torch.split(row, lengths, 1))
    losses = [theirs(input_ids=part, labels=part).loss * (part.shape[1] - 1) for part in parts if part.shape[1] > 1]
    expected = sum(losses).item() / sum(n - 1 for n in lengths)
    positions = np.concatenate([np.arange(n) for n in lengths])[None]
    next_ = np.concatenate([following(part) for part in parts], 1)
    loss = ours.loss(ebb.asarray(row.numpy()), ebb.asarray(next_), ebb.asarray(positions))
    assert abs(float(loss) / expected - 1) < 1e-6
