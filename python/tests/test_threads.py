# SPDX-License-Identifier: MIT
"""Several threads at once, and interrupts."""

import signal
import subprocess
import sys
import threading
import textwrap

import numpy as np
import pytest

import ebb


def in_threads(count, work):
    results, errors = [None] * count, []

    def run(k):
        try:
            results[k] = work(k)
        except BaseException as e:  # noqa: BLE001: told to the main thread
            errors.append(e)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
    assert not any(t.is_alive() for t in threads), "the threads wait for each other"
    assert not errors, errors
    return results


def test_threads_evaluate_at_once():
    x = ebb.from_numpy(np.linspace(0, 1, 10_000))

    def work(k):
        total = 0.0
        for i in range(30):
            y = ebb.sin(x * (k + 1)) + i
            total += float(ebb.mean(y))
        return total

    np.testing.assert_allclose(in_threads(6, work), [work(k) for k in range(6)], rtol=0)


def test_threads_with_python_rules_and_arrays_that_die():
    """Rules need the interpreter while they hold the graph; arrays are let go of while computing."""

    def work(k):
        for _ in range(40):
            a = np.full(2000, float(k))
            x = ebb.from_numpy(a)
            del a
            square = ebb.custom_gradient(lambda g, y, inputs: [g * 2 * inputs[0]])(lambda t: t * t)
            gradient = ebb.grad(lambda t: square(t).sum())(x)
            del x
            assert float(gradient.sum()) == 4000.0 * k
        return True

    assert all(in_threads(6, work))


def test_a_shared_tensor_is_computed_once_for_all():
    x = ebb.randn((300, 300)) @ ebb.randn((300, 300))
    first, *others = in_threads(5, lambda k: x.numpy())
    assert all(np.array_equal(first, o) for o in others)
    assert all(np.shares_memory(first, o) for o in others)


def test_computing_lets_go_of_the_interpreter():
    """With no switching by time, another thread runs only where this one lets go."""
    before, ran, go = sys.getswitchinterval(), threading.Event(), threading.Event()

    def other():
        go.wait()
        ran.set()

    thread = threading.Thread(target=other)
    thread.start()
    x = ebb.randn((64, 64)).eval()
    sys.setswitchinterval(1000)
    try:
        go.set()
        for _ in range(10_000):
            (x @ x).eval()
            if ran.is_set():
                break
        assert ran.is_set()
    finally:
        sys.setswitchinterval(before)
        thread.join()


INTERRUPTED = """
    import os, signal, threading, ebb
    x = ebb.randn((200, 200))
    started = threading.Event()
    def interrupt():
        started.wait()
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=interrupt, daemon=True).start()
    def step(t):
        started.set()
        return {step}
    try:
        {loop}
    except KeyboardInterrupt:
        print("interrupted")
"""

LOOPS = {
    "loop": ("t", "y = x\n        while True: y = step(ebb.tanh(y @ x)).eval()"),
    "minimiser": (
        "((t - 3) ** 4).sum()",
        "while True: ebb.optim.minimize_lbfgs(step, x, tolerance=0.0, change_tolerance=0.0)",
    ),
    "loader": ("[x[0]]", "loader = ebb.data.DataLoader(1000, step, 4)\n        while True: loader.next()"),
}


@pytest.mark.parametrize("kind", LOOPS)
def test_keyboard_interrupts_end_long_loops(kind):
    step, loop = LOOPS[kind]
    program = textwrap.dedent(INTERRUPTED).format(step=step, loop=loop.replace("\n        ", "\n    "))
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert result.stdout.strip() == "interrupted", result.stderr
