# SPDX-License-Identifier: MIT
"""200 steps from a folder that transformers wrote, beside PyTorch: the curves of bench/fine_tuning.py."""

import pathlib
import sys

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import fine_tuning  # noqa: E402


def test_curves_stay_together():
    found = fine_tuning.curves(200)

    def apart(a, b):
        return np.abs(found[a] - found[b]).max()

    assert apart("Ebb f32", "PyTorch f32") < 1e-4
    assert apart("Ebb bf16", "PyTorch bf16") < 1e-2
    assert apart("Ebb FP8", "Ebb bf16") < 5e-2
    assert all(curve[-25:].mean() < curve[:25].mean() - 0.2 for curve in found.values())
