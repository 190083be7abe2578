# SPDX-License-Identifier: MIT
"""Errors of the data that name the line that built the operation, and computations that Ctrl-C ends."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import ebb


def line_of(text):
    """The number of the line of this file that ends with a comment."""
    with open(__file__) as lines:
        return next(k for k, line in enumerate(lines, 1) if line.rstrip().endswith("# " + text))


def test_an_error_names_the_line_that_built_the_operation():
    with ebb.origins():
        x = ebb.zeros((2, 2))
        y = ebb.inv(x)  # the inverse
        z = (y + 1).sum()
    with pytest.raises(ValueError, match="is singular"):
        float(z)
    with ebb.origins():
        y = ebb.inv(ebb.zeros((3, 3)))  # another inverse
        with pytest.raises(ValueError) as error:
            float(y.sum())
    assert f"(built at {__file__}:{line_of('another inverse')})" in str(error.value)


def test_layers_of_the_package_are_not_the_line():
    with ebb.origins():
        layer = ebb.nn.Embedding(4, 3)
        out = layer(ebb.full((2,), 9))  # out of range
        with pytest.raises(IndexError) as error:
            ebb.eval(out)
    assert f"{__file__}:{line_of('out of range')})" in str(error.value)


def test_off_again_after_the_scope():
    with ebb.origins():
        pass
    with pytest.raises(ValueError) as error:
        ebb.eval(ebb.inv(ebb.zeros((2, 2))))
    assert "built at" not in str(error.value)


def test_the_environment_turns_it_on(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import ebb\nx = ebb.inv(ebb.zeros((2, 2)))\nebb.eval(x)\n")
    done = subprocess.run(
        [sys.executable, str(script)], env={**os.environ, "EBB_ORIGINS": "1"}, capture_output=True, text=True
    )
    assert f"(built at {script}:2)" in done.stderr


def test_ctrl_c_ends_a_long_evaluation():
    x = ebb.full((1500, 1500), 1e-3)
    for _ in range(300):
        x = ebb.matmul(x, x) * 1e-3  # more than a minute
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        ebb.eval(x)
    assert time.monotonic() - start < 20
    timer.join()
    assert float(ebb.ones((3,)).sum()) == 3
