# SPDX-License-Identifier: MIT
"""Ten small programs, as somebody who knows PyTorch writes them from the docs; docs/ten_programs.md tells what happened."""

import runpy
from pathlib import Path

import pytest

import ebb
import ebb.nn as nn
import ebb.nn.functional as F

FOLDER = Path(__file__).parent
PROGRAMS, LATER = (sorted((FOLDER / name).glob("*.py")) for name in ("ten_programs", "three_programs"))


@pytest.mark.parametrize("program", PROGRAMS + LATER, ids=lambda path: path.stem)
def test_the_program_ends_well(program):
    runpy.run_path(str(program))


def test_there_are_ten():
    assert len(PROGRAMS) == 10 and len(LATER) == 3


class Tied(nn.Module):
    def __init__(self):
        self.embed, self.head = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x):
        return self.head(self.embed(x))


@pytest.mark.parametrize("change", [lambda m: m, lambda m: m.to("f64"), lambda m: m.load_state_dict(m.state_dict())])
def test_layers_that_share_a_variable_are_trained_as_one(change):
    ebb.manual_seed(0)
    tied = Tied()
    change(tied)
    assert [name for name, _ in tied.named_parameters()] == ["embed.weight"] and tied.parameter_count() == 15
    weight = ebb.variable(tied.embed.weight.detach())
    x, y = ebb.tensor([0, 1, 2]), ebb.tensor([1, 2, 0])
    optimizer = ebb.optim.SGD(lr=0.5)
    for _ in range(3):
        optimizer.step(tied, ebb.backward(F.cross_entropy(tied(x), y)))
        plain = F.cross_entropy(F.linear(F.embedding(x, weight), weight), y)
        weight = ebb.variable(weight - 0.5 * ebb.backward(plain)[weight])
    assert ebb.equal(tied.embed.weight, tied.head.weight) and ebb.allclose(tied.head.weight, weight, rtol=1e-5)


def test_what_cannot_be_done_as_in_pytorch_says_what_can():
    layer, optimizer = nn.Linear(2, 2), ebb.optim.Adam(lr=0.1)
    with pytest.raises(TypeError, match=r"optimizer\.step\(model\.head, gradients\)"):
        layer.weight.requires_grad = False
    with pytest.raises(AttributeError, match=r"use state\(\)"):
        optimizer.state_dict()
    w = ebb.zeros(2, requires_grad=True)
    updated = w - ebb.backward((w**2).sum())[w]
    with pytest.raises(ValueError, match=r"x = variable\(x - step\)"):
        ebb.backward((updated**2).sum())[updated]
    assert "ebb.io.Checkpoint(model.state_dict()" in ebb.io.save_checkpoint.__doc__
