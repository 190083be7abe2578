# SPDX-License-Identifier: MIT
"""Whole models: those of C++, with the methods that modules have."""

import copy
import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import ebb

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "models" / "golden"
TINY = dict(vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)


def sample():
    tokens = np.random.default_rng(1).integers(0, 40, (2, 9))
    return ebb.asarray(tokens[:, :-1]), ebb.asarray(tokens[:, 1:])


@pytest.mark.parametrize("name", ["untied", "tied_grouped", "shards"])
def test_a_folder_of_transformers_has_its_loss(name):
    facts = json.loads((GOLDEN / f"{name}.json").read_text())
    model = ebb.models.load_llama(str(GOLDEN / name))
    labels = np.array(facts["labels"])
    following = np.concatenate([labels[:, 1:], np.full((len(labels), 1), -100)], 1)
    assert float(model.loss(ebb.asarray(facts["tokens"]), ebb.asarray(following))) == pytest.approx(facts["loss"], rel=1e-6)
    assert {name for name, _ in model.named_parameters()} == set(facts["gradient_norms"])


def test_a_model_is_trained_copied_pickled_and_saved(tmp_path):
    ebb.manual_seed(1)
    model = ebb.models.Llama(**TINY, rope_scaling={"rope_type": "llama3", "factor": 4.0})
    x, y = sample()
    before = float(model.loss(x, y))
    optimizer = ebb.optim.AdamW(lr=1e-2)
    for _ in range(5):
        optimizer.step(model, ebb.backward(model.loss(x, y)))
    after = float(model.loss(x, y))
    assert after < before
    ebb.models.save_llama(str(tmp_path / "out"), model)
    loaded = ebb.models.load_llama(str(tmp_path / "out"))
    for other in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model)), loaded):
        assert float(other.loss(x, y)) == after
    assert loaded.config == {**model.config, "head_dim": 4}
    assert ebb.models.load_llama_config(str(tmp_path / "out")) == loaded.config
    assert model.logits(x).shape == (2, 8, 40) and model(x).shape == (2, 8, 16) and model.head.shape == (40, 16)


def test_settings_that_do_not_exist_are_named():
    with pytest.raises(ValueError, match="Llama has no setting 'hidden', only vocab_size, hidden_size"):
        ebb.models.Llama(hidden=3)
    with pytest.raises(ValueError, match="rope_scaling has no setting 'kind', only rope_type"):
        ebb.models.Llama(**TINY, rope_scaling={"kind": "llama3"})


def test_a_tokenizer_of_hugging_face_is_read(tmp_path):
    all_ = json.loads((GOLDEN / "tokenized.json").read_text())
    for kind in ("gpt2", "llama3"):
        tokenizer = ebb.data.Tokenizer.load(str(GOLDEN / f"tokenizer_{kind}.json"))
        for text, tokens in zip(all_["texts"], all_[kind]):
            assert tokenizer.encode(text, special_tokens=True) == tokens
            assert tokenizer.decode(tokens).decode() == text.replace("<|begin|>", "").replace("<|end|>", "")
    with pytest.raises(OSError, match="this is not a tokenizer.json"):
        ebb.data.Tokenizer.from_json("{}")


def test_packed_rows_have_the_loss_of_their_sequences():
    ebb.manual_seed(2)
    model = ebb.models.Llama(**TINY)
    draw = np.random.default_rng(3)
    sequences = [draw.integers(0, 40, n).tolist() for n in (5, 9, 2, 7)]
    tokens, following, positions = ebb.data.pack_sequences(sequences, 12)
    assert tokens.shape == following.shape == positions.shape == (2, 12)
    alone = [(float(model.loss(ebb.asarray([s[:-1]]), ebb.asarray([s[1:]]))), len(s) - 1) for s in sequences]
    expected = sum(loss * n for loss, n in alone) / sum(n for _, n in alone)
    assert float(model.loss(tokens, following, positions)) == pytest.approx(expected, rel=1e-6)
