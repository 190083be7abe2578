# SPDX-License-Identifier: MIT
"""ebb.torch.linear_loss beside plain formulas in PyTorch with all logits in memory, in f64: values and all gradients.

Run by run.py with pytest, in the Python that has PyTorch.
"""

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

import ebb
import ebb.torch
from ebb import _core

F = torch.nn.functional


def log_probs_of(x, head, target, bias=None, temperature=1.0, logit_scale=1.0, softcap=0.0, chunk=0):
    z = logits_of(x, head, bias, temperature, logit_scale, softcap)
    picked = z.log_softmax(-1).gather(-1, target.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    return torch.where(target != -100, picked, 0)


def logits_of(x, head, bias=None, temperature=1.0, logit_scale=1.0, softcap=0.0, chunk=0):
    z = logit_scale * F.linear(x, head, bias)
    return (softcap * torch.tanh(z / softcap) if softcap else z) / temperature


class Numbers:
    """Random tensors in f64 that ask for gradients."""

    def __init__(self, dtype=torch.float64):
        self.generator, self.dtype = torch.Generator().manual_seed(5), dtype

    def __call__(self, *shape):
        return torch.randn(shape, generator=self.generator, dtype=torch.float64).to(self.dtype).requires_grad_()

    def classes(self, count, *shape):
        target = torch.randint(0, count, shape, generator=self.generator)
        target.view(-1)[1] = -100
        return target


# ---- formulas: of Ebb's tensors, and the loss of all log-probabilities or logits in PyTorch


def dpo(log_probs, reference):
    ratio = log_probs.sum(-1) - reference
    n = ratio.shape[0] // 2
    return -ebb.log_sigmoid(0.3 * (ratio[:n] - ratio[n:]))


def torch_dpo(log_probs, reference):
    ratio = log_probs.sum(-1) - reference
    n = ratio.shape[0] // 2
    return -F.logsigmoid(0.3 * (ratio[:n] - ratio[n:]))


def kto(log_probs, reference, desirable, kl):
    ratio = log_probs.sum(-1) - reference
    return ebb.where(desirable, 1 - ebb.sigmoid(0.2 * (ratio - kl)), 1 - ebb.sigmoid(0.2 * (kl - ratio)))


def torch_kto(log_probs, reference, desirable, kl):
    ratio = log_probs.sum(-1) - reference
    return torch.where(desirable, 1 - torch.sigmoid(0.2 * (ratio - kl)), 1 - torch.sigmoid(0.2 * (kl - ratio)))


def grpo_token_losses(m, log_probs, old, reference, advantages):
    """Clipped policy gradient with a KL penalty, of module m (ebb or torch)."""
    ratio = m.exp(log_probs - old)
    gain = m.minimum(ratio * advantages, m.clip(ratio, 0.8, 1.28) * advantages)
    difference = reference - log_probs
    return -gain + 0.04 * (m.exp(difference) - difference - 1)


def grpo_mean_of_answers(m):
    def formula(log_probs, old, reference, advantages, mask):
        losses = grpo_token_losses(m, log_probs, old, reference, m.unsqueeze(advantages, 1))
        return (losses * mask).sum(-1) / mask.sum(-1)

    return formula


def grpo_weighted(m):
    """BNPO, DAPO and Dr. GRPO: each token's weight is known before."""

    def formula(log_probs, old, reference, advantages, weight):
        return (grpo_token_losses(m, log_probs, old, reference, m.unsqueeze(advantages, 1)) * weight).sum(-1)

    return formula


def gspo(m):
    """One ratio per sequence."""

    def formula(log_probs, old, advantages, mask):
        ratio = m.exp(((log_probs - old) * mask).sum(-1) / mask.sum(-1))
        return -m.minimum(ratio * advantages, m.clip(ratio, 0.8, 1.28) * advantages)

    return formula


def jsd(logits, target, teacher_x, teacher_head):
    p, q = ebb.log_softmax(logits, -1), ebb.log_softmax(teacher_x @ teacher_head.T, -1)
    middle = ebb.log(0.5 * (ebb.exp(p) + ebb.exp(q)))
    terms = 0.5 * (ebb.exp(p) * (p - middle) + ebb.exp(q) * (q - middle)).sum(-1)
    return ebb.where(target == -100, 0.0, terms)


def torch_jsd(logits, target, teacher_x, teacher_head):
    p, q = logits.log_softmax(-1), (teacher_x @ teacher_head.T).log_softmax(-1)
    middle = (0.5 * (p.exp() + q.exp())).log()
    terms = 0.5 * (p.exp() * (p - middle) + q.exp() * (q - middle)).sum(-1)
    return torch.where(target == -100, 0.0, terms)


def cases():
    """name -> (ours, theirs, inputs, options): the formulas of log-probabilities take x, head, target, then others."""
    A, T, H, V = 6, 5, 7, 13
    r = Numbers()
    target = r.classes(V, A, T)
    mask = (target != -100).double()
    policy = (r(A, T, H), r(V, H), target)
    desirable = torch.tensor([True, False, True, True, False, False])
    advantages, old, reference = r(A).detach(), r(A, T).detach() - 2, r(A, T).detach() - 2
    return {
        "dpo": (dpo, torch_dpo, (*policy, r(A)), {"sides": 2}),
        "kto": (kto, torch_kto, (*policy, r(A), desirable, r()), {}),
        "grpo": (grpo_mean_of_answers(ebb), grpo_mean_of_answers(torch), (*policy, old, reference, advantages, mask), {}),
        "dapo": (
            grpo_weighted(ebb),
            grpo_weighted(torch),
            (*policy, old, reference, advantages, mask / mask.sum()),
            {"reduction": "sum"},
        ),
        "gspo": (gspo(ebb), gspo(torch), (*policy, old, advantages, mask), {}),
        "tokens": (
            lambda log_probs, weight: -weight * log_probs,
            lambda log_probs, weight: -weight * log_probs,
            (r(9, H), r(V, H), r.classes(V, 9), r(9)),
            {},
        ),
    }


HEADS = [
    {},
    {"chunk": 4},
    {"temperature": 0.7, "logit_scale": 1.3, "chunk": 11},
    {"softcap": 2.0, "temperature": 1.4},
    {"softcap": 2.0, "logit_scale": 0.5, "chunk": 11},
]


def require_same(ours, theirs, wrt, rtol=1e-9, atol=1e-11):
    torch.testing.assert_close(ours, theirs, rtol=rtol, atol=atol)
    for mine, other in zip(torch.autograd.grad(ours, wrt), torch.autograd.grad(theirs, wrt, retain_graph=True)):
        torch.testing.assert_close(mine, other, rtol=rtol, atol=atol)


@pytest.mark.parametrize("head_options", HEADS, ids=str)
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("name", cases())
def test_formulas_of_log_probs(name, biased, head_options):
    ours, theirs, (x, head, target, *others), options = cases()[name]
    bias = Numbers()(head.shape[0]) if biased else None
    wrt = [t for t in (x, head, bias, *others) if t is not None and t.requires_grad]
    terms = theirs(log_probs_of(x, head, target, bias, **head_options), *others)
    expected = terms.sum() if options.get("reduction") == "sum" else terms.mean()
    found = ebb.torch.linear_loss(x, head, target, ours, *others, bias=bias, **options, **head_options)
    require_same(found, expected, wrt)
    by_torch = {k: v for k, v in options.items() if k != "sides"}
    found = ebb.torch.linear_loss(x, head, target, theirs, *others, bias=bias, tensors="torch", **by_torch, **head_options)
    require_same(found, expected, wrt)


@pytest.mark.parametrize("head_options", HEADS, ids=str)
def test_a_second_head_is_shared(head_options):
    r = Numbers()
    x, head, target, bias = r(9, 7), r(13, 7), r.classes(13, 9), r(13)
    teacher_x, teacher_head = r(9, 5), r(13, 5)
    expected = torch_jsd(logits_of(x, head, bias, **head_options), target, teacher_x, teacher_head).mean()
    found = ebb.torch.linear_loss(
        x, head, target, jsd, teacher_x, shared=[teacher_head], of="logits", bias=bias, **head_options
    )
    require_same(found, expected, (x, head, bias, teacher_x, teacher_head))


def test_logits_need_no_target():
    r = Numbers()
    x, head, wanted = r(4, 3, 7), r(13, 7), r(4, 3, 13)
    expected = (F.linear(x, head) - wanted).square().sum((1, 2)).sum()

    def formula(logits, wanted):
        return ebb.square(logits - wanted).sum((1, 2))

    found = ebb.torch.linear_loss(x, head, None, formula, wanted, of="logits", reduction="sum", chunk=3)
    require_same(found, expected, (x, head, wanted))


def test_log_probs_may_share_tensors_too():
    r = Numbers()
    x, head, target, table = r(9, 7), r(13, 7), r.classes(13, 9), r(3)
    expected = (log_probs_of(x, head, target) * table.square().sum()).mean()
    found = ebb.torch.linear_loss(x, head, target, lambda p, t: p * ebb.square(t).sum(), shared=[table], chunk=2)
    require_same(found, expected, (x, head, table))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_halves_are_summed_in_f32(dtype, temperature):
    r = Numbers(dtype)
    x, head, target, reference = r(8, 16, 64), r(500, 64), r.classes(500, 8, 16), r(8).detach()
    wide = [t.detach().double().requires_grad_() for t in (x, head)]
    expected = torch_dpo(log_probs_of(*wide, target, temperature=temperature), reference.double()).mean()
    found = ebb.torch.linear_loss(x, head, target, dpo, reference, sides=2, temperature=temperature, chunk=64)
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(expected.item(), rel=1e-3)
    theirs = torch.autograd.grad(expected, wide)
    for mine, other in zip(torch.autograd.grad(found, (x, head)), theirs):
        assert mine.dtype == dtype
        assert (mine.double() - other).abs().max() <= 0.02 * other.abs().max()


def test_results_are_the_same_to_the_bit():
    r = Numbers(torch.float32)
    x, head, target, reference = r(32, 16, 64), r(1000, 64), r.classes(1000, 32, 16), r(32)
    results = []
    for _ in range(3):
        loss = ebb.torch.linear_loss(x, head, target, dpo, reference, sides=2, chunk=64)
        results.append([loss, *torch.autograd.grad(loss, (x, head, reference))])
    for again in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], again))


def test_the_logits_are_never_all_in_memory():
    r = Numbers(torch.float32)
    rows, classes, chunk, width = 512, 8000, 16, 8
    x, head, target = r(rows, width), r(classes, width), r.classes(classes, rows)
    for of, formula in (("logits", lambda z, y: ebb.logsumexp(z, -1)), ("log_probs", lambda p: -p)):
        _core.reset_peak_memory()
        before = _core.memory_stats()["live"]
        ebb.torch.linear_loss(x, head, target, formula, of=of, chunk=chunk).backward()
        peak = _core.memory_stats()["peak"] - before
        # A chunk's logits, their gradient and what they are packed in; the head's gradient, its sum before and the product.
        assert peak <= 4 * (4 * chunk * classes + 6 * classes * width) + (8 << 20), of
        assert peak < 4 * rows * classes


def test_backward_may_be_called_again():
    r = Numbers()
    x, head, target = r(9, 7), r(13, 7), r.classes(13, 9)
    loss = ebb.torch.linear_loss(x, head, target, lambda p: -p)
    first = torch.autograd.grad(3 * loss, (x, head), retain_graph=True)
    for a, b in zip(first, torch.autograd.grad(loss, (x, head))):
        torch.testing.assert_close(a, 3 * b)


def test_autocast_multiplies_in_its_dtype():
    r = Numbers(torch.float32)
    x, head, target = r(9, 32), r(40, 32), r.classes(40, 9)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = ebb.torch.linear_loss(x, head, target, lambda p: -p)
    expected = -log_probs_of(x.detach().bfloat16().float(), head.detach().bfloat16().float(), target).mean()
    torch.testing.assert_close(found.detach(), expected, rtol=1e-4, atol=1e-4)
    found.backward()
    assert found.dtype == x.grad.dtype == head.grad.dtype == torch.float32


@pytest.mark.parametrize("name", ["dpo", "kto", "gspo"])
def test_it_is_one_operation_of_a_compiled_graph(name):
    ours, _, (x, head, target, *others), options = cases()[name]
    wrt = [t for t in (x, head, *others) if t.requires_grad]

    def step(x, head, target, *others):
        return 2 * ebb.torch.linear_loss(torch.tanh(x), head, target, ours, *others, softcap=3.0, **options)

    torch._dynamo.reset()
    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    require_same(compiled(x, head, target, *others), step(x, head, target, *others), wrt)


def test_a_compiled_graph_takes_any_length():
    def step(x, head, target):
        return ebb.torch.linear_loss(x, head, target, lambda p: -p.sum(-1), temperature=0.7)

    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(step, backend=counter, fullgraph=True)
    r = Numbers()
    head = r(13, 7)
    for length in range(3, 23):
        x, target = r(4, length, 7), r.classes(13, 4, length)
        require_same(compiled(x, head, target), step(x, head, target), (x, head))
    assert counter.frame_count <= 2


def test_torch_func_differentiates_it():
    r = Numbers()
    x, head, target = r(9, 7).detach(), r(13, 7).detach(), r.classes(13, 9)
    found = torch.func.grad(lambda x: ebb.torch.linear_loss(x, head, target, lambda p: p * p))(x)
    torch.testing.assert_close(found, torch.func.grad(lambda x: log_probs_of(x, head, target).square().mean())(x))


def test_bad_calls_are_one_sentence():
    r = Numbers()
    x, head, target, others = r(4, 3, 7), r(13, 7), r.classes(13, 4, 3), r(4)

    def fails(p, *others):
        raise KeyError("inside the formula")

    def mine(p, *others):
        return -p.sum(-1)

    for named, formula, kind, text in (
        ({}, None, TypeError, "the formula must be a function, got NoneType"),
        ({"of": "probs"}, mine, ValueError, "of must be 'log_probs' or 'logits', got 'probs'"),
        ({"tensors": "jax"}, mine, ValueError, "tensors must be 'ebb' or 'torch', got 'jax'"),
        ({"reduction": "none"}, mine, ValueError, "reduction must be 'mean' or 'sum', got 'none'"),
        ({"of": "logits", "tensors": "torch"}, mine, ValueError, "a formula of torch takes log_probs"),
        ({"temperature": 0}, mine, ValueError, "linear_loss: temperature must be positive, got 0"),
        ({"sides": 3}, mine, ValueError, "sides must be 1 or 2, got 3"),
        ({"target": None}, mine, ValueError, "log-probabilities need a target"),
        ({"target": target[:2]}, mine, ValueError, r"target of shape \[2, 3\] does not fit hidden states of shape \[4, 3, 7\]"),
        ({"head": head[:, :5]}, mine, ValueError, r"hidden states of shape \[4, 3, 7\] and a head of shape \[13, 5\] do not fit"),
        ({"target": torch.full((4, 3), 13)}, mine, Exception, "target.* = 13 is outside"),
        ({"others": r(5)}, mine, ValueError, r"others\[0\] of shape \[5\] must have 4 entries"),
        ({}, lambda p, *o: p, ValueError, r"the formula must return one term per entry, shape \[4\], got shape \[4, 3\]"),
        ({}, lambda p, *o: 3.0, TypeError, "the formula must return an ebb.Tensor, got float"),
        ({}, fails, KeyError, "inside the formula"),
        ({"x": x.detach().to_sparse()}, mine, ValueError, "linear_loss: tensors of layout torch.sparse_coo"),
    ):
        given = {"x": x, "head": head, "target": target, "others": others, **named}
        arguments = [given.pop(name) for name in ("x", "head", "target")]
        with pytest.raises(kind, match=text):
            ebb.torch.linear_loss(*arguments, formula, given.pop("others"), **given)
