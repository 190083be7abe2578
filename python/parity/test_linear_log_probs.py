# SPDX-License-Identifier: MIT
"""ebb.torch.linear_log_probs beside the formula in PyTorch: values, gradients, options, dtypes, compiled.

Run by run.py with pytest, in the Python that has PyTorch.
"""

import pytest
import torch

import ebb.torch
from ebb.torch._token_statistics import OUTPUTS

OPTIONS = [
    {},
    {"temperature": 0.7},
    {"logit_scale": 0.3},
    {"softcap": 2.0},
    {"softcap": 2.0, "temperature": 1.3, "logit_scale": 1.7},
    {"chunk": 4},
    {"chunk": 4, "softcap": 2.0, "temperature": 0.5},
]


def inputs(dtype=torch.float64, bias=True, rows=(2, 7), width=6, classes=11):
    generator = torch.Generator().manual_seed(3)

    def random(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()

    target = torch.randint(0, classes, rows, generator=generator)
    target[0, 1] = -100
    return random(*rows, width), random(classes, width), target, random(classes) if bias else None


def plain(x, head, target, bias, temperature=1.0, logit_scale=1.0, softcap=0.0, chunk=0):
    z = logit_scale * torch.nn.functional.linear(x, head, bias)
    z = (softcap * torch.tanh(z / softcap) if softcap else z) / temperature
    log_p, kept = z.log_softmax(-1), target != -100
    picked = log_p.gather(-1, target.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    found = {
        "log_probs": picked,
        "entropy": -(log_p.exp() * log_p).sum(-1),
        "logsumexp": z.logsumexp(-1),
        "log_sum_sq_probs": (2 * log_p).logsumexp(-1),
        "mean_logits": z.mean(-1),
        "argmax": z.argmax(-1),
    }
    return {name: torch.where(kept, value, 0) for name, value in found.items()}


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("names", [OUTPUTS, ("log_probs",), ("entropy", "log_probs"), ("logsumexp",), ("argmax", "mean_logits")])
def test_values_and_gradients_are_the_formulas(options, bias, names):
    x, head, target, b = inputs(bias=bias)
    found = ebb.torch.linear_log_probs(x, head, target, bias=b, outputs=names, **options)
    expected = plain(x, head, target, b, **options)
    generator = torch.Generator().manual_seed(1)
    totals = [0, 0]
    for name, mine in zip(names, found):
        assert mine.shape == target.shape and mine.dtype == expected[name].dtype
        torch.testing.assert_close(mine, expected[name], rtol=1e-10, atol=1e-12)
        if name != "argmax":
            factor = torch.randn(target.shape, generator=generator, dtype=torch.float64)
            totals = [totals[0] + (factor * mine).sum(), totals[1] + (factor * expected[name]).sum()]
        else:
            assert not mine.requires_grad
    wrt = [t for t in (x, head, b) if t is not None]
    ours, theirs = (torch.autograd.grad(t, wrt, allow_unused=True) for t in totals)
    for mine, other in zip(ours, theirs):
        torch.testing.assert_close(mine, torch.zeros_like(mine) if other is None else other, rtol=1e-9, atol=1e-11)


def test_one_name_gives_a_tensor():
    x, head, target, bias = inputs()
    alone = ebb.torch.linear_log_probs(x, head, target, bias=bias)
    assert torch.is_tensor(alone) and torch.equal(alone, ebb.torch.linear_log_probs(x, head, target, bias=bias, outputs=["log_probs"])[0])


def test_gradients_only_go_where_they_are_asked_for():
    x, head, target, bias = inputs()
    head, bias = head.detach(), bias.detach()
    ebb.torch.linear_log_probs(x, head, target, bias=bias, outputs=("log_probs", "entropy"))[1].sum().backward()
    expected = torch.autograd.grad(plain(x, head, target, bias)["entropy"].sum(), x)[0]
    torch.testing.assert_close(x.grad, expected, rtol=1e-9, atol=1e-11)
    assert head.grad is None and bias.grad is None
    assert not ebb.torch.linear_log_probs(x.detach(), head, target).requires_grad


@pytest.mark.parametrize("names", [("log_probs",), ("log_probs", "entropy"), ("argmax", "log_sum_sq_probs")])
def test_the_backward_pass_takes_what_the_forward_pass_has_found(names, monkeypatch):
    """The values of the rows are not computed again; log p alone, at no temperature, has a kernel that needs none."""
    from ebb import _core

    given, gradients = [], _core._token_statistics_gradients
    monkeypatch.setattr(_core, "_token_statistics_gradients", lambda *args: given.append(args[1]) or gradients(*args))
    x, head, target, _ = inputs(torch.bfloat16, bias=False)
    for temperature in (1.0, 0.7):
        found = ebb.torch.linear_log_probs(x, head, target, temperature=temperature, outputs=names)
        assert len(found) == len(names)
        sum(y.sum() for y in found if y.requires_grad).backward()
        logsumexp, entropy, squares = given.pop()
        assert (logsumexp is not None) == (names != ("log_probs",) or temperature != 1)
        assert (entropy is not None) == ("entropy" in names) and (squares is not None) == ("log_sum_sq_probs" in names)


@pytest.mark.parametrize("options", [{}, {"temperature": 0.7}], ids=str)
def test_logits_of_halves_are_f32(options):
    """At least ten times nearer to f64 than from logits that were rounded to bf16."""
    x, head, target, _ = inputs(torch.bfloat16, bias=False, rows=(8, 16), width=64, classes=500)
    exact = plain(x.double(), head.double(), target, None, **options)
    rounded = plain(x, head, target, None, **options)
    found = ebb.torch.linear_log_probs(x, head, target, outputs=("log_probs", "entropy"), **options)
    for name, mine in zip(("log_probs", "entropy"), found):
        assert mine.dtype == torch.float32
        ours = (mine.double() - exact[name]).abs().max()
        assert 10 * ours <= (rounded[name].double() - exact[name]).abs().max(), name
    torch.stack(found).sum().backward()
    assert x.grad.dtype == torch.bfloat16 and head.grad.dtype == torch.bfloat16
    wide = [t.detach().double().requires_grad_() for t in (x, head)]
    theirs = plain(*wide, target, None, **options)
    (theirs["log_probs"] + theirs["entropy"]).sum().backward()
    for mine, other in zip((x, head), wide):
        assert (mine.grad.double() - other.grad).abs().max() <= 0.02 * other.grad.abs().max()


def test_autocast_multiplies_in_its_dtype():
    x, head, target, _ = inputs(torch.float32, bias=False, width=32, classes=40)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = ebb.torch.linear_log_probs(x, head, target)
    assert found.dtype == torch.float32
    expected = ebb.torch.linear_log_probs(x.detach().bfloat16().float(), head.detach().bfloat16().float(), target)
    torch.testing.assert_close(found.detach(), expected, rtol=1e-4, atol=1e-4)
    found.sum().backward()
    assert x.grad.dtype == torch.float32


def test_compiles_in_one_graph_for_any_length():
    from torch._dynamo.testing import CompileCounterWithBackend

    counter = CompileCounterWithBackend("aot_eager")

    def step(x, head, target):
        log_probs, entropy = ebb.torch.linear_log_probs(x, head, target, temperature=0.7, outputs=("log_probs", "entropy"))
        return log_probs.exp().mean() + 0.1 * entropy.mean()

    compiled = torch.compile(step, backend=counter, fullgraph=True)
    for length in range(3, 23):
        x, head, target, _ = inputs(rows=(2, length), bias=False)
        ours = torch.autograd.grad(compiled(x, head, target), (x, head))
        theirs = torch.autograd.grad(step(x, head, target), (x, head))
        for mine, other in zip(ours, theirs):
            torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-11)
    assert counter.frame_count <= 2


def test_bad_calls_are_one_sentence():
    x, head, target, _ = inputs()
    for named, kind, text in (
        ({"outputs": "perplexity"}, ValueError, "there is no output 'perplexity'; there are log_probs, entropy"),
        ({"outputs": ()}, ValueError, "outputs is empty"),
        ({"temperature": 0}, ValueError, "temperature must be positive, got 0"),
        ({"target": torch.full((2, 7), 11), "outputs": "entropy"}, Exception, "target must be a class of the head"),
        ({"target": torch.full((2, 7), 11)}, Exception, r"target\[0\] = 11 is outside \[0, 11\)"),
        ({"head": torch.nn.Linear(6, 11)}, TypeError, "takes torch tensors, got Linear; give its weight"),
        ({"x": x.detach().to_sparse()}, ValueError, "layout torch.sparse_coo are not supported; use .to_dense"),
    ):
        with pytest.raises(kind, match=text):
            ebb.torch.linear_log_probs(**{"x": x, "head": head, "target": target, **named}).sum().item()


def test_a_temperature_may_be_a_tensor_of_one_number():
    x, head, target, _ = inputs()
    expected = ebb.torch.linear_log_probs(x, head, target, temperature=0.5)
    for given in (torch.tensor(0.5), torch.tensor([0.5])):
        assert torch.equal(ebb.torch.linear_log_probs(x, head, target, temperature=given), expected)
    with pytest.raises(ValueError, match=r"linear_log_probs: temperature must be one number, got a tensor of shape \[2, 7\]; where each"):
        ebb.torch.linear_log_probs(x, head, target, temperature=torch.full((2, 7), 0.5))
    learned = torch.tensor(0.5, requires_grad=True)
    for call in (ebb.torch.linear_log_probs, lambda *a, **k: ebb.torch.linear_loss(*a, lambda p: -p, **k)):
        with pytest.raises(ValueError, match="there is no gradient of temperature; scale the hidden states with it, or detach it"):
            call(x, head, target, temperature=learned)
    with torch.no_grad():
        assert torch.equal(ebb.torch.linear_log_probs(x, head, target, temperature=learned), expected)


def test_views_with_a_sign_are_read_with_it():
    x, head, target, _ = inputs()
    negative = torch.complex(torch.zeros_like(x), -x).detach().conj().imag
    assert negative.is_neg() and torch.equal(negative, x)
    assert torch.equal(ebb.torch.linear_log_probs(negative, head, target), ebb.torch.linear_log_probs(x, head, target))
    assert torch.equal(ebb.torch.to_torch(ebb.torch.from_torch(negative)), x)
