# SPDX-License-Identifier: MIT
"""The losses of ebb.torch inside torch.func's transforms, beside PyTorch's own: jvp, jacfwd, hessian, vmap, and one in another.

Run by run.py with pytest, in the Python that has PyTorch.
"""

import pytest
import torch
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vmap

import ebb.torch
from ebb import _core

F = torch.nn.functional
B, N, C = 3, 4, 5


def numbers(*shape, seed=1):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


CLASSES = torch.randint(0, C, (B, N), generator=torch.Generator().manual_seed(2))
LOSSES = {
    "mse_loss": (numbers(B, N, C), numbers(B, N, C, seed=3)),
    "smooth_l1_loss": (numbers(B, N, C), numbers(B, N, C, seed=3)),
    "binary_cross_entropy_with_logits": (numbers(B, N, C), numbers(B, N, C, seed=3).sigmoid()),
    "kl_div": (numbers(B, N, C).log_softmax(-1), numbers(B, N, C, seed=3).softmax(-1)),
    "cross_entropy": (numbers(B, N, C), CLASSES),
    "cosine_embedding_loss": (numbers(B, N, C), numbers(B, N, C, seed=3), torch.tensor([1, -1, 1, 1]).expand(B, N)),
}


def reduced(terms, reduction):
    return {"mean": torch.mean, "sum": torch.sum, "none": lambda x: x}[reduction](terms)


class Plain:
    """PyTorch's losses; by their formulas where PyTorch's own cannot be transformed twice."""

    @staticmethod
    def mse_loss(x, y, reduction="mean"):
        return reduced((x - y) ** 2, reduction)

    @staticmethod
    def smooth_l1_loss(x, y, reduction="mean"):
        d = x - y
        return reduced(torch.where(d.abs() < 1, 0.5 * d * d, d.abs() - 0.5), reduction)

    def __getattr__(self, name):
        return getattr(F, name)


PLAIN = Plain()


def same(ours, theirs):
    ours, theirs = ours if isinstance(ours, tuple) else (ours,), theirs if isinstance(theirs, tuple) else (theirs,)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", LOSSES)
def test_transforms_are_those_of_pytorch(name, reduction):
    tensors = LOSSES[name]
    x, *rest = [t[0] for t in tensors]
    direction = numbers(*x.shape, seed=9)
    found = []
    for module in (ebb.torch, PLAIN):
        loss = lambda x, *rest, module=module: getattr(module, name)(x, *rest, reduction=reduction)  # noqa: E731
        total = lambda x, *rest, loss=loss: loss(x, *rest).square().sum()  # noqa: E731
        found.append(
            {
                "jvp": jvp(lambda x: loss(x, *rest), (x,), (direction,)),
                "jacfwd": jacfwd(loss)(x, *rest),
                "jacrev": jacrev(loss)(x, *rest),
                "hessian": hessian(total)(x, *rest),
                "jacrev of jacfwd": jacrev(jacfwd(total))(x, *rest) if reduction != "none" else torch.zeros(()),
                "jvp of grad": jvp(lambda x: grad(total)(x, *rest), (x,), (direction,)),
                "vmap": vmap(loss)(*tensors),
                "vmap of grad": vmap(grad(total))(*tensors),
                "grad of vmap": grad(lambda x, *rest: vmap(loss)(x, *rest).square().sum())(*tensors),
                "vmap of hessian": vmap(hessian(total))(*tensors),
                "vmap, one shared": vmap(loss, in_dims=(0, *[None] * len(rest)))(tensors[0], *rest),
                "grad of the shared": grad(
                    lambda x, others: vmap(lambda o: loss(x, o, *rest[1:]))(others).square().sum()
                )(x, tensors[1])
                if rest[0].is_floating_point()
                else torch.zeros(()),
                "vmap of vmap": vmap(vmap(lambda x: loss(x, *rest)))(numbers(2, 3, *x.shape)),
                "vmap at another axis": vmap(loss, in_dims=(1, *[0] * len(rest)))(tensors[0].movedim(0, 1), *tensors[1:]),
            }
        )
    for key, mine in found[0].items():
        same(mine, found[1][key])


def test_a_batch_is_one_call(monkeypatch):
    calls = []
    original = _core._losses_of_order
    monkeypatch.setattr(_core, "_losses_of_order", lambda *a: calls.append(a[:2]) or original(*a))
    x, target = numbers(100, N, C), numbers(100, N, C, seed=3)
    same(vmap(grad(ebb.torch.mse_loss))(x, target), vmap(grad(F.mse_loss))(x, target))
    assert [c for c in calls if c[1]] == [(0, 100), (1, 100)] and len(calls) == 2


def test_mixed_directions_reach_all_inputs():
    x, y = numbers(N, C), numbers(N, C, seed=3)
    for module in (ebb.torch, PLAIN):
        mixed = jacfwd(grad(module.mse_loss, argnums=0), argnums=1)(x, y)
        if module is ebb.torch:
            ours = mixed
    same(ours, mixed)


def test_a_third_derivative_is_refused_in_one_sentence():
    x, y = numbers(N), numbers(N, seed=3)
    with pytest.raises(RuntimeError, match="mse_loss: PyTorch can differentiate it twice; use ebb.grad for more"):
        jacfwd(jacfwd(jacfwd(ebb.torch.mse_loss)))(x, y)


def plain_log_probs(x, head, target):
    log_p = (x @ head.T).log_softmax(-1)
    picked = log_p.gather(-1, target.unsqueeze(-1)).squeeze(-1)
    return picked, -(log_p.exp() * log_p).sum(-1)


def test_linear_log_probs_in_transforms():
    x, head, target = numbers(B, N, 6), numbers(C, 6, seed=4), CLASSES

    def ours(x, head, target):
        return ebb.torch.linear_log_probs(x, head, target, outputs=("log_probs", "entropy"))

    found = []
    for f in (ours, plain_log_probs):
        total = lambda x, head, target, f=f: sum(y.square().sum() for y in f(x, head, target))  # noqa: E731
        found.append(
            {
                "grad": grad(total, argnums=(0, 1))(x[0], head, target[0]),
                "vmap": vmap(f, in_dims=(0, None, 0))(x, head, target),
                "vmap of grad": vmap(grad(total), in_dims=(0, None, 0))(x, head, target),
                "gradients of each sample": vmap(grad(total, argnums=(0, 1)), in_dims=(0, None, 0))(x, head, target),
                "grad of vmap": grad(lambda x, h: sum(vmap(total, in_dims=(0, None, 0))(x, h, target)), argnums=(0, 1))(x, head),
                "jacrev": jacrev(lambda x: f(x, head, target[0])[0])(x[0]),
                "a head for each sample": vmap(f)(x, numbers(B, C, 6, seed=5), target),
                "its gradients": vmap(grad(total, argnums=(0, 1)))(x, numbers(B, C, 6, seed=5), target),
            }
        )
    for key, mine in found[0].items():
        same(mine, found[1][key])


@pytest.mark.parametrize("options", [{}, {"softcap": 2.0, "temperature": 1.3}], ids=str)
@pytest.mark.parametrize("names", [("log_probs",), ("log_probs", "entropy"), ("entropy", "argmax", "logsumexp", "mean_logits", "log_sum_sq_probs")])
def test_linear_log_probs_in_forward_mode_and_differentiated_twice(names, options):
    from test_linear_log_probs import plain

    x, head, target, bias = numbers(N, 6), numbers(C, 6, seed=4), CLASSES[0], numbers(C, seed=5)
    floating = [name for name in names if name != "argmax"]
    v = numbers(N, 6, seed=6), numbers(C, 6, seed=7), numbers(C, seed=8)

    def ours(x, head, bias):
        found = dict(zip(names, ebb.torch.linear_log_probs(x, head, target, bias=bias, outputs=names, **options)))
        return tuple(found[name] for name in floating)

    def theirs(x, head, bias):
        found = plain(x, head, target, bias, **options)
        return tuple(found[name] for name in floating)

    found = []
    for f in (ours, theirs):
        total = lambda x, head, bias, f=f: sum(y.square().sum() for y in f(x, head, bias))  # noqa: E731
        found.append(
            {
                "jvp": jvp(f, (x, head, bias), v),
                "jvp by x": jvp(lambda x: f(x, head, bias), (x,), v[:1]),
                "jacfwd": jacfwd(f)(x, head, bias),
                "jacfwd by all": jacfwd(f, argnums=(0, 1, 2))(x, head, bias),
                "hessian": hessian(total)(x, head, bias),
                "hessian by all": hessian(total, argnums=(1, 2))(x, head, bias),
                "jvp of grad": jvp(grad(total, argnums=(0, 1)), (x, head, bias), v),
                "grad of grad": grad(lambda *t: sum((g * g).sum() for g in grad(total, argnums=(0, 1))(*t)))(x, head, bias),
                "jacrev of jacfwd": jacrev(jacfwd(total))(x, head, bias),
            }
        )
    for key, mine in found[0].items():
        same(mine, found[1][key])


FORMULAS = {
    "log_probs": (lambda m: lambda p, w: w * p.square() + m.exp(p), {}, ()),
    "logits": (lambda m: lambda z, w: w * m.logsumexp(z, -1), {"of": "logits"}, None),
    "shared": (lambda m: lambda p, w, s: w * p * s.sum(), {}, ()),
    "pairs": (lambda m: lambda p, w: m.exp(p[: p.shape[0] // 2] - p[p.shape[0] // 2 :]) * w, {"sides": 2}, ()),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_linear_loss_in_forward_mode_and_differentiated_twice(name):
    formula, options, target = FORMULAS[name]
    x, head, bias, w = numbers(N, 6), numbers(C, 6, seed=4), numbers(C, seed=5), numbers(N // options.get("sides", 1), seed=9)
    shared = (numbers(3, seed=10),) if name == "shared" else ()
    classes = CLASSES[0] if target is not None else None
    v = numbers(N, 6, seed=6), numbers(C, 6, seed=7), numbers(C, seed=8)

    def ours(x, head, bias, w, *shared):
        return ebb.torch.linear_loss(x, head, classes, formula(ebb), w, shared=shared, bias=bias, reduction="sum", **options)

    def theirs(x, head, bias, w, *shared):
        z = x @ head.T + bias
        given = z if classes is None else z.log_softmax(-1).gather(-1, classes.unsqueeze(-1)).squeeze(-1)
        return formula(torch)(given, w, *shared).sum()

    found = []
    for f in (ours, theirs):
        by_x = lambda x, f=f: f(x, head, bias, w, *shared)  # noqa: E731
        three = lambda x, head, bias, f=f: f(x, head, bias, w, *shared)  # noqa: E731
        samples = numbers(B, N, 6, seed=12)
        found.append(
            {
                "jvp": jvp(three, (x, head, bias), v),
                "jvp by weights": jvp(lambda w: f(x, head, bias, w, *shared), (w,), (w + 1,)),
                "jacfwd": jacfwd(three, argnums=(0, 1, 2))(x, head, bias),
                "grad": grad(f, argnums=tuple(range(4 + len(shared))))(x, head, bias, w, *shared),
                "hessian": hessian(by_x)(x),
                "hessian by head": hessian(three, argnums=1)(x, head, bias),
                "jvp of grad": jvp(grad(three, argnums=(0, 1)), (x, head, bias), v),
                "grad of grad": grad(lambda x: grad(by_x)(x).square().sum())(x),
                "jacrev of jacfwd": jacrev(jacfwd(by_x))(x),
                "vmap": vmap(by_x)(samples),
                "vmap of grad": vmap(grad(by_x))(samples),
            }
        )
    for key, mine in found[0].items():
        same(mine, found[1][key])


def test_linear_log_probs_differentiated_three_times():
    x, head, target = numbers(N, 6), numbers(C, 6, seed=4), CLASSES[0]

    def f(x):
        return ebb.torch.linear_log_probs(x, head, target, outputs="entropy").square().sum()

    with pytest.raises(RuntimeError, match="linear_log_probs: PyTorch can differentiate it twice"):
        jacfwd(jacfwd(jacrev(f)))(x)


# ---- without torch.func: autograd's own second derivatives and dual numbers


def eager_calls():
    head = numbers(C, 3, seed=9)
    target = CLASSES[0]

    def log_softmax(x):
        return (x @ head.T).log_softmax(-1)

    def picked(x):
        return log_softmax(x).gather(-1, target[:, None])[:, 0]

    def entropy(x):
        return -(log_softmax(x).exp() * log_softmax(x)).sum(-1)

    return {
        "linear_cross_entropy": (lambda x: ebb.torch.linear_cross_entropy(x, head, target), lambda x: -picked(x).mean()),
        "linear_log_probs": (lambda x: ebb.torch.linear_log_probs(x, head, target), picked),
        "entropy": (lambda x: ebb.torch.linear_log_probs(x, head, target, outputs="entropy"), entropy),
        "linear_loss": (lambda x: ebb.torch.linear_loss(x, head, target, lambda p: p * p), lambda x: picked(x).square().mean()),
        "mse_loss": (lambda x: ebb.torch.mse_loss(x, 0 * x.detach(), reduction="none"), lambda x: x * x),
    }


@pytest.mark.parametrize("name", eager_calls())
def test_gradients_of_gradients_and_dual_numbers_in_eager_mode(name):
    ours, theirs = eager_calls()[name]
    direction = numbers(N, 3, seed=5)

    def penalty(function):
        x = numbers(N, 3).requires_grad_()
        y = function(x).square().sum()
        (first,) = torch.autograd.grad(y, x, create_graph=True)
        (second,) = torch.autograd.grad(y + 3 * first.square().sum(), x, retain_graph=True)
        (again,) = torch.autograd.grad(y, x)
        return first, second, again

    def tangent(function):
        with torch.autograd.forward_ad.dual_level():
            y = function(torch.autograd.forward_ad.make_dual(numbers(N, 3), direction))
            return torch.autograd.forward_ad.unpack_dual(y).tangent

    same(penalty(ours), penalty(theirs))
    same(tangent(ours), tangent(theirs))


@pytest.mark.parametrize("name", eager_calls())
def test_the_vmap_before_torch_func_is_refused_in_one_sentence(name):
    x = numbers(N, 3).requires_grad_()
    y = eager_calls()[name][0](x).reshape(-1)
    with pytest.raises(RuntimeError, match="several cotangents at a time .* need torch.func: jacrev"):
        torch.autograd.grad(y, x, torch.eye(len(y), dtype=y.dtype), is_grads_batched=True)
