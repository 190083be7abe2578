# SPDX-License-Identifier: MIT
"""Budgets of memory: the same numbers with less of it, and an error that says who holds the most."""

import numpy as np
import pytest

import ebb
import second_device


def loss(x, w, target):
    return ebb.cross_entropy(x @ w.T, target)


def numbers(x, w, target):
    value, grads = ebb.value_and_grad(loss, argnums=(0, 1))(x, w, target)
    ebb.eval(value, *grads)
    return float(value), [g.numpy() for g in grads]


@pytest.fixture
def head():
    rng = np.random.default_rng(3)
    x = ebb.tensor(rng.standard_normal((1024, 16)).astype(np.float32))
    w = ebb.tensor(rng.standard_normal((1000, 16)).astype(np.float32) * 0.1)
    return x, w, ebb.tensor(rng.integers(0, 1000, 1024))


def test_a_budget_gives_the_same_numbers_with_less_memory(head):
    value, grads = numbers(*head)
    with ebb.memory_budget("2 MiB"):
        before = ebb.memory_stats()["live"]
        ebb.reset_peak_memory()
        less, in_strips = numbers(*head)
        assert ebb.memory_stats()["peak"] - before < 2 * 2**20
    assert less == pytest.approx(value, rel=1e-6)
    for g, s in zip(grads, in_strips):
        np.testing.assert_allclose(s, g, atol=1e-5 * np.abs(g).max())


def test_the_budget_before_comes_back(head):
    with ebb.memory_budget(10**9):
        with pytest.raises(MemoryError, match="the budget is 1000 bytes"):
            with ebb.memory_budget("1000"):
                numbers(*head)
        numbers(*head)


def test_a_text_that_is_not_a_size_is_an_error():
    with pytest.raises(ValueError, match="'6 gibbons' is not a size"):
        with ebb.memory_budget("6 gibbons"):
            pass


def test_memory_is_the_default_devices_unless_one_is_named(head):
    elsewhere = second_device.find()
    before = ebb.default_device()
    ebb.set_default_device(elsewhere)
    try:
        assert ebb.memory_stats() == ebb.memory_stats(elsewhere)
        live = ebb.memory_stats()["live"]
        x = ebb.randn((1000, 1000))
        ebb.eval(x)
        assert ebb.memory_stats(elsewhere)["live"] >= live + 4_000_000
        with ebb.memory_budget("3 MiB"):
            assert (ebb._core._memory_budget(elsewhere), ebb._core._memory_budget("cpu")) == (3 * 2**20, 0)
        assert ebb._core._memory_budget() == 0
    finally:
        ebb.set_default_device(before)
