# SPDX-License-Identifier: MIT
"""The losses of ebb.torch in graphs of torch.compile, and of tensors without values or without one block of memory.

Run by run.py with pytest, in the Python that has PyTorch and transformers.
"""

import inspect
import sys

import pytest
import torch
from patched_models import make, require_same, step, tokens
from torch._dynamo.testing import CompileCounterWithBackend
from torch._subclasses.fake_tensor import FakeTensorMode

import ebb.torch
from ebb import _core

F = torch.nn.functional


@pytest.fixture
def counter():
    torch._dynamo.reset()
    return CompileCounterWithBackend("aot_eager")


@pytest.mark.parametrize("name", ebb.torch._losses.__all__)
def test_what_a_loss_uses_is_in_its_module(name):
    """PyTorch 2.11 looks for globals of a function there, by the __name__ among them."""
    function = getattr(ebb.torch, name)
    while function is not None:
        module = sys.modules[function.__globals__["__name__"]]
        for used, value in inspect.getclosurevars(function).globals.items():
            assert getattr(module, used, None) is value, used
        function = getattr(function, "__wrapped__", None)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_lengths_are_symbols(counter, reduction):
    def loss(x, head, target):
        return ebb.torch.linear_cross_entropy(x, head, target, reduction=reduction).sum()

    compiled = torch.compile(loss, backend=counter, fullgraph=True)
    head = torch.randn(11, 6, dtype=torch.float64, requires_grad=True)
    for length in range(3, 23):
        x = torch.randn(2, length, 6, dtype=torch.float64, requires_grad=True)
        target = torch.randint(0, 11, (2, length))
        ours, theirs = compiled(x, head, target), loss(x, head, target)
        torch.testing.assert_close(ours, theirs)
        for mine, other in zip(torch.autograd.grad(ours, (x, head)), torch.autograd.grad(theirs, (x, head))):
            torch.testing.assert_close(mine, other)
    assert counter.frame_count <= 2


@pytest.mark.parametrize("dynamic", [True, None, False])
def test_numbers_among_options_may_change(counter, dynamic):
    """Dynamo makes symbols of them, whose names PyTorch 2.11 writes into text."""

    def loss(x, head, target, softcap, ignore_index, smoothing):
        linear = ebb.torch.linear_cross_entropy(x, head, target, softcap=softcap, ignore_index=ignore_index)
        return linear + ebb.torch.cross_entropy(x, target, ignore_index=ignore_index, label_smoothing=smoothing)

    x, head = torch.randn(8, 7, requires_grad=True), torch.randn(7, 7, requires_grad=True)
    target, compiled = torch.randint(0, 7, (8,)), torch.compile(loss, backend=counter, fullgraph=True, dynamic=dynamic)
    for options in ((0.0, -100, 0.0), (2.5, -100, 0.1), (3.5, 2, 0.2), (4.5, 3, 0.3)):
        ours, theirs = compiled(x, head, target, *options), loss(x, head, target, *options)
        torch.testing.assert_close(ours, theirs)
        for mine, other in zip(torch.autograd.grad(ours, (x, head)), torch.autograd.grad(theirs, (x, head))):
            torch.testing.assert_close(mine, other)


def test_marked_dimensions_stay_dynamic(counter):
    compiled = torch.compile(ebb.torch.cross_entropy, backend=counter, fullgraph=True)
    for rows in (4, 9, 16):
        logits, target = torch.randn(rows, 5), torch.randint(0, 5, (rows,))
        torch._dynamo.mark_dynamic(logits, 0)
        torch._dynamo.mark_dynamic(target, 0)
        torch.testing.assert_close(compiled(logits, target), F.cross_entropy(logits, target))
    assert counter.frame_count == 1


@pytest.mark.parametrize(
    "loss, inputs",
    [
        ("mse_loss", lambda n: (torch.randn(n, 3), torch.randn(n, 3))),
        ("mse_loss", lambda n: (torch.randn(n, n), torch.randn(n, n))),
        ("cross_entropy", lambda n: (torch.randn(n, 7, 3), torch.randint(0, 7, (n, 3)))),
        ("triplet_margin_loss", lambda n: (torch.randn(n, 4), torch.randn(n, 4), torch.randn(n, 4))),
    ],
)
def test_shapes_of_results_follow_their_inputs(counter, loss, inputs):
    function = getattr(ebb.torch, loss)
    compiled = torch.compile(lambda *x: function(*x, reduction="none"), backend=counter, fullgraph=True)
    for n in (4, 6, 8, 10, 14):
        given = inputs(n)
        torch.testing.assert_close(compiled(*given), function(*given, reduction="none"))
    assert counter.frame_count <= 2


def test_one_pass_computes_value_and_gradients(counter, monkeypatch):
    calls = []
    for name in ("_loss_forward", "_loss_backward"):
        original = getattr(_core, name)
        monkeypatch.setattr(_core, name, lambda *args, name=name, original=original: calls.append(name) or original(*args))
    x, head = torch.randn(9, 6, requires_grad=True), torch.randn(11, 6, requires_grad=True)
    target = torch.randint(0, 11, (9,))
    compiled = torch.compile(lambda *a: 3 * ebb.torch.linear_cross_entropy(*a), backend=counter, fullgraph=True)
    compiled(x, head, target).backward()
    assert calls == ["_loss_forward"]
    ours = x.grad, head.grad
    theirs = torch.autograd.grad(3 * F.cross_entropy(x @ head.T, target), (x, head))
    for mine, other in zip(ours, theirs):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        compiled(x, head, target)
    assert calls == ["_loss_forward"] * 2


@pytest.mark.parametrize("loss", ["cross entropy", "formula"])
def test_the_factor_of_a_loss_is_not_rounded(counter, loss):
    x, head = (torch.randn(*shape, generator=torch.Generator().manual_seed(3)).bfloat16() for shape in ((9, 16), (50, 16)))
    target = torch.arange(9)

    def third(x, head):
        if loss == "formula":
            return ebb.torch.linear_loss(x, head, target, lambda log_probs: -log_probs) / 3
        return ebb.torch._losses.wide_linear_cross_entropy(x, head, target) / 3

    def gradients(f):
        inputs = [t.clone().requires_grad_() for t in (x, head)]
        return torch.autograd.grad(f(*inputs), inputs)

    for ours, expected in zip(gradients(torch.compile(third, backend=counter, fullgraph=True)), gradients(third)):
        assert torch.equal(ours, expected)


def test_targets_that_are_probabilities_get_their_gradient(counter):
    x, head = torch.randn(9, 6, requires_grad=True), torch.randn(11, 6, requires_grad=True)
    target = torch.randn(9, 11).softmax(-1).requires_grad_()

    def loss(x, head, target):
        return ebb.torch.linear_cross_entropy(x, head, target, label_smoothing=0.1)

    theirs = torch.autograd.grad(F.cross_entropy(x @ head.T, target, label_smoothing=0.1), (x, head, target))
    for function in (loss, torch.compile(loss, backend=counter, fullgraph=True)):
        for mine, other in zip(torch.autograd.grad(function(x, head, target), (x, head, target)), theirs):
            torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-6)
    mine = torch.func.grad(loss, argnums=2)(x.detach(), head.detach(), target.detach())
    torch.testing.assert_close(mine, theirs[2], rtol=1e-4, atol=1e-6)


def test_tensors_without_values_have_a_shape():
    meta = ebb.torch.cross_entropy(torch.randn(4, 7, device="meta"), torch.zeros(4, dtype=torch.int64, device="meta"))
    assert meta.is_meta and meta.shape == ()
    with FakeTensorMode():
        fake = ebb.torch.mse_loss(torch.randn(4, 7, requires_grad=True), torch.randn(4, 7), reduction="none")
        assert fake.shape == (4, 7) and fake.requires_grad


def test_tensors_in_parts_are_refused_in_one_sentence():
    dense, target = torch.randn(4, 7), torch.zeros(4, dtype=torch.int64)
    nested = torch.nested.nested_tensor([torch.randn(2, 7), torch.randn(2, 7)])
    for x, text in (
        (dense.to_sparse(), r"cross_entropy: tensors of layout torch.sparse_coo are not supported; use \.to_dense"),
        (dense.to_sparse_csr(), "layout torch.sparse_csr"),
        (nested, "cross_entropy: nested tensors are not supported; use torch.nested.to_padded_tensor"),
    ):
        with pytest.raises(ValueError, match=text):
            ebb.torch.cross_entropy(x, target)
    with pytest.raises(TypeError, match="cross_entropy: takes torch tensors, got ndarray"):
        ebb.torch.cross_entropy(dense.numpy(), target)


def test_distributed_tensors_are_refused_in_one_sentence(tmp_path):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        x = distribute_tensor(torch.randn(4, 7), init_device_mesh("cpu", (1,)), [Shard(0)])
        with pytest.raises(ValueError, match="cross_entropy: a DTensor is in parts on several devices; use .full_tensor"):
            ebb.torch.cross_entropy(x, torch.zeros(4, dtype=torch.int64))
    finally:
        torch.distributed.destroy_process_group()


def test_results_of_collectives_that_are_under_way(tmp_path):
    from torch.distributed import _functional_collectives as collectives

    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        x, head, target = torch.randn(9, 6), torch.randn(11, 6, requires_grad=True), torch.randint(0, 11, (9,))
        expected = torch.autograd.grad(F.cross_entropy(x @ head.T, target), head)[0]
        summed = collectives.all_reduce(x, "sum", torch.distributed.group.WORLD)
        assert type(summed) is not torch.Tensor
        loss = ebb.torch.linear_cross_entropy(summed, head, target)
        torch.testing.assert_close(torch.autograd.grad(loss, head)[0], expected)
    finally:
        torch.distributed.destroy_process_group()


def test_make_fx_keeps_the_operations():
    from torch.fx.experimental.proxy_tensor import make_fx

    head, target = torch.randn(11, 6), torch.randint(0, 11, (9,))
    for function in (
        lambda x: ebb.torch.cross_entropy(x, target[:9] % 6),
        lambda x: ebb.torch.linear_cross_entropy(x, head, target),
        lambda x: ebb.torch.linear_log_probs(x, head, target, outputs="entropy"),
        lambda x: ebb.torch.linear_loss(x, head, target, lambda p: -p),
    ):
        graph = make_fx(function)(torch.randn(9, 6))
        x = torch.randn(9, 6)
        torch.testing.assert_close(graph(x), function(x))


def test_tensors_with_and_without_values_are_refused():
    x, head, target = torch.randn(9, 6), torch.randn(11, 6, device="meta"), torch.zeros(9, dtype=torch.int64)
    for call in (ebb.torch.linear_cross_entropy, ebb.torch.linear_log_probs):
        with pytest.raises(ValueError, match=f"{call.__name__}: some of the tensors are on meta and have no values, others are on cpu"):
            call(x, head, target)
    with pytest.raises(ValueError, match="cross_entropy: some of the tensors are on meta"):
        ebb.torch.cross_entropy(x, target.to("meta"))


def test_dtypes_that_there_are_not_are_refused_by_name():
    x, target = torch.randn(4, 7), torch.zeros(4, dtype=torch.int64)
    for given, dtype in ((x.to(torch.complex64), "complex64"), (x.to(torch.float8_e4m3fn), "float8_e4m3fn")):
        with pytest.raises(TypeError, match=rf"cross_entropy: tensors of torch\.{dtype} are not supported; convert them first"):
            ebb.torch.cross_entropy(given, target)
    with pytest.raises(TypeError, match=r"cross_entropy: tensors of torch\.int16"):
        ebb.torch.cross_entropy(x, target.to(torch.int16))


# ---- patched models


def test_a_patched_model_compiles_in_one_graph_for_any_length(counter):
    model = ebb.torch.patch(make())
    compiled = torch.compile(model, backend=counter, fullgraph=True)
    for length in range(8, 28):
        expected = step(model, tokens(3, length))
        loss, gradients = step(compiled, tokens(3, length))
        require_same((loss, {name.removeprefix("_orig_mod."): g for name, g in gradients.items()}), expected)
    assert counter.frame_count <= 2
