# SPDX-License-Identifier: MIT
"""The table of bench-breadth, without PyTorch: sizes from a seed, every row computes, no function is forgotten."""

import inspect
import random
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import ebb  # noqa: E402
from breadth import report, sizes  # noqa: E402
from breadth.libraries import Ebb, flat  # noqa: E402
from breadth.numbers import arrays  # noqa: E402
from breadth.table import NOT_COMPARED, ROWS  # noqa: E402


def test_a_seed_gives_the_same_sizes_again():
    for row in ROWS:
        for kind in sizes.kinds_of(row.family):
            assert sizes.drawn(row.family, kind, "7", "cpu") == sizes.drawn(row.family, kind, "7", "cpu")


def test_sizes_are_of_their_kind():
    for seed in range(50):
        _, even = sizes.drawn("along_axis", "round", str(seed), "cpu")
        assert all(n & (n - 1) == 0 for n in even["S"])
        _, odd = sizes.drawn("along_axis", "odd", str(seed), "cpu")
        assert all(sizes.is_prime(n) or (n - 1) & (n - 2) == 0 for n in odd["S"])
        _, long = sizes.drawn("along_axis", "long", str(seed), "cpu")
        assert long["S"][0] == 1 and long["S"][1] > 4000
        _, inner = sizes.drawn("along_axis", "inner", str(seed), "cpu")
        assert inner["axis"] < len(inner["S"]) - 1


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_row_computes(row):
    kind, drawn = sizes.drawn(row.family, random.Random(row.name).choice(sizes.kinds_of(row.family)), row.name, "tiny")
    given = arrays(row, drawn, 1)
    inputs = Ebb.tensors(given, ebb.f32)
    function = Ebb.function(row, list(given), drawn)
    wanted = [k for k, (_, w) in enumerate(given.values()) if w]
    values = flat(function(*inputs))
    cotangents = [ebb.ones(y.shape, y.dtype) for y in values if y.dtype.is_floating] if wanted else []
    *_, (_, call) = Ebb.calls(function, inputs, wanted, cotangents)
    found = call()
    assert len(found) == len(values) + len(wanted)
    assert [tuple(f.shape) for f in found[len(values):]] == [tuple(inputs[k].shape) for k in wanted]


def compared():
    """All words of the expressions."""
    return {word for row in ROWS for word in re.findall(r"[a-z_0-9]+", row.expression)}


def functions_of_the_package():
    """Functions of tensors that have a name of their own, without gradients by hand."""
    for name, f in vars(ebb).items():
        if name.startswith("_") or name.endswith("_backward") or inspect.isclass(f) or inspect.ismodule(f) or not callable(f):
            continue
        yield name


def test_no_function_is_forgotten():
    missing = [n for n in functions_of_the_package() if n not in compared() and n not in NOT_COMPARED]
    assert not missing, "a row of bench/breadth/table.py, or a reason in NOT_COMPARED, is missing for: " + ", ".join(missing)
    assert not [n for n in NOT_COMPARED if n in compared()], "compared, and excused"


def test_a_report_names_what_is_behind():
    shapes = {"x": [3, 5]}
    rows = [{"name": "exp", "dtype": "f32", "kind": "odd", "shapes": shapes, "ebb_s": 1e-3, "torch_s": 2e-3, "ratio": 2.0},
            {"name": "topk", "dtype": "f32", "kind": "long", "shapes": shapes, "ebb_s": 2e-3, "torch_s": 1e-3, "ratio": 0.5},
            {"name": "svd", "dtype": "bf16", "kind": "odd", "shapes": shapes, "without": "PyTorch: no bf16"},
            {"name": "histc", "dtype": "bf16", "kind": "odd", "shapes": shapes, "failed": "IndexError: outside"}]
    text = report.summary(rows, 9)
    assert "4 of 9 rows, 2 with a time of both" in text and "geometric mean 1.00; 1 below 1.0, 1 below 0.9" in text
    assert "below 1.0, the worst first: topk 0.50" in text
    page = report.markdown({"device": "a CPU", "threads": 2, "versions": {"PyTorch": "2"}, "seed": 1, "when": "now"}, rows, 9)
    assert "| topk | f32 | long | x[3,5] | 2 ms | 1 ms | 0.50 |" in page and "histc bf16 odd, x[3,5]: failed: IndexError" in page
