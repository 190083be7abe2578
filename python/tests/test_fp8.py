# SPDX-License-Identifier: MIT
"""Products of factors rounded to eight bits: functions, layers and models that ask for them."""

import numpy as np
import pytest

import ebb


def drawn(shape, seed):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_error_stays_within_the_bound():
    x, w = drawn((30, 70), 1), drawn((20, 70), 2)
    error = np.abs(np.asarray(ebb.fp8_linear(ebb.tensor(x), ebb.tensor(w))) - x.astype(np.float64) @ w.T)
    products, left, right = ebb.fp8_error_bound(70)
    a, b = np.abs(x), np.abs(w)
    bound = products * (a @ b.T) + left * a.max(1)[:, None] * b.sum(1) + right * a.sum(1)[:, None] * b.max(1)
    assert (error <= bound).all()
    assert error.max() > 1e-3  # it does round
    assert ebb.fp8_error_bound(70, ebb.bf16, gradient=True)[0] > ebb.fp8_error_bound(70)[0]


def test_a_layer_has_them_where_asked_for():
    layer = ebb.nn.Linear(16, 8, fp8=True)
    x = ebb.tensor(drawn((4, 16), 3))
    assert "fp8=True" in repr(layer)
    assert layer(x).tolist() == ebb.fp8_linear(x, layer.weight, layer.bias).tolist()
    layer.fp8 = False
    assert layer(x).tolist() == ebb.linear(x, layer.weight, layer.bias).tolist()
    assert "fp8" not in repr(layer)


def test_a_llama_has_them_in_feed_forward_networks_and_head():
    ebb.manual_seed(1)
    llama = ebb.models.Llama(vocab_size=60, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4)
    tokens = ebb.tensor(np.random.default_rng(4).integers(0, 60, (2, 9)))
    plain = llama.loss(tokens[:, :-1], tokens[:, 1:]).item()
    llama.fp8 = True
    rounded = llama.loss(tokens[:, :-1], tokens[:, 1:]).item()
    assert rounded != plain
    assert rounded == pytest.approx(plain, rel=1e-2)


def test_f64_is_refused():
    with pytest.raises(TypeError, match="fp8_linear: needs f32, f16 or bf16, got f64 and f64"):
        ebb.fp8_linear(ebb.ones((2, 3), dtype=ebb.f64), ebb.ones((2, 3), dtype=ebb.f64))
