# SPDX-License-Identifier: MIT
"""Tensors shared between Python threads: who drops one and who reads one need not know of each other."""

import os
import threading

import pytest

import ebb

ROUNDS = int(os.environ.get("EBB_THREAD_ROUNDS", "1600"))


@pytest.mark.parametrize("count", [1, 2, 8])
def test_a_gradient_may_die_while_its_loss_is_read(count):
    rounds, right = ROUNDS // count, []

    def story():
        for _ in range(rounds):
            v, g = ebb.value_and_grad(lambda a: (a * a).sum())(ebb.ones(3))
            reader = threading.Thread(target=lambda q=v: right.append(q.item() == 3.0))
            reader.start()
            del g
            reader.join()

    threads = [threading.Thread(target=story) for _ in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(right) == rounds * count and all(right)


def test_rules_written_in_python_run_while_other_threads_evaluate():
    def rule(grad, output, inputs):
        return [2 * inputs[0] * grad]

    def square(x):
        return ebb.custom_function(lambda a: a * a, rule, x)

    errors = []

    def story(k):
        try:
            for i in range(100):
                x = ebb.full((50,), float(k + i % 3))
                assert ebb.grad(lambda a: square(a).sum())(x).numpy()[0] == 2.0 * (k + i % 3)
        except Exception as e:  # a thread's own exceptions are not the test's
            errors.append(e)

    threads = [threading.Thread(target=story, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors, errors
