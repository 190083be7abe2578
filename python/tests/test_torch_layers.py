# SPDX-License-Identifier: MIT
"""Layers and functions with PyTorch's rarer arguments; make parity compares their numbers with PyTorch's own samples."""

import copy
import pickle

import numpy as np
import pytest

import ebb
from ebb import nn


def same(a, b):
    return tuple(a.shape) == tuple(b.shape) and ebb.allclose(a, b, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "layer, shape",
    [
        (nn.ReLU(True), (3, 4)),
        (nn.LeakyReLU(0.2, True), (3, 4)),
        (nn.ELU(1.0, True), (3, 4)),
        (nn.Hardtanh(-1.0, 1.0, True, None, 0.5), (3, 4)),
        (nn.Softplus(1.0, 20.0), (3, 4)),
        (nn.Threshold(0.1, 20.0, True), (3, 4)),
        (nn.Dropout(0.5, True), (3, 4)),
        (nn.Softmax(None), (3, 4)),
        (nn.Linear(4, 2, True, "cpu", ebb.float32), (3, 4)),
        (nn.LayerNorm(4, 1e-5, True, False, None, None), (3, 4)),
        (nn.GroupNorm(2, 4, 1e-5, True, None, None, bias=False), (3, 4)),
        (nn.BatchNorm1d(4, 1e-5, 0.1, True, True, None, None, bias=False), (3, 4)),
        (nn.InstanceNorm1d(4, affine=True, bias=False), (3, 4, 5)),
        (nn.MaxPool2d(2, None, 0, 1, False, True), (1, 1, 5, 5)),
        (nn.AvgPool2d(2, None, 0, True, True, 3), (1, 1, 5, 5)),
        (nn.AvgPool1d((2,), (2,)), (1, 1, 6)),
        (nn.AdaptiveAvgPool2d((None, 3)), (1, 1, 6, 6)),
        (nn.Conv2d(1, 2, 3, 1, 1, 1, 1, True, "circular", None, None), (1, 1, 5, 5)),
        (nn.ReflectionPad3d(1), (1, 1, 3, 3, 3)),
        (nn.Softmax2d(), (2, 3, 4, 4)),
        (nn.RReLU(0.1, 0.3, True).eval(), (3, 4)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) or hasattr(value, "parameters") else None,
)
def test_layers_take_torchs_arguments_by_position(layer, shape):
    x = ebb.randn(shape)
    y = layer(input=x)
    assert y.shape[0] == shape[0] and ebb.isfinite(y).all().item()


def test_norms_without_a_bias_have_none_and_can_be_copied():
    for layer in (
        nn.LayerNorm(4, bias=False),
        nn.GroupNorm(2, 4, bias=False),
        nn.BatchNorm2d(4, bias=False),
        nn.InstanceNorm2d(4, affine=True, bias=False),
    ):
        assert [name for name, _ in layer.named_parameters()] == ["weight"]
        for made in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
            assert type(made) is type(layer) and [name for name, _ in made.named_parameters()] == ["weight"]
        assert "bias=False" in repr(layer)


def test_copies_of_layers_are_of_the_same_class():
    alone = ebb.randn((5, 3))
    for layer in (nn.LSTM(3, 4), nn.GRU(3, 4), nn.RNN(3, 4, nonlinearity="relu")):
        for made in (copy.copy(layer), copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
            assert type(made) is type(layer) and same(made(alone)[0], layer(alone)[0])


def test_pools_return_indices_that_unpooling_takes():
    x = ebb.arange(16).float().reshape((1, 1, 4, 4))
    values, at = nn.MaxPool2d(2, return_indices=True)(x)
    assert at.flatten().tolist() == [5, 7, 13, 15]
    back = nn.MaxUnpool2d(2)(values, at)
    assert back.flatten().tolist() == [k if k in (5, 7, 13, 15) else 0 for k in range(16)]
    values, at = nn.AdaptiveMaxPool2d(1, return_indices=True)(x)
    assert values.item() == 15 and at.item() == 15


def test_an_average_with_a_divisor_counts_what_is_there():
    x = ebb.ones((1, 1, 5, 5))
    # The windows at the edge have 2 and 1 elements beside padding and beyond the end; all are divided by 10.
    sums = ebb.avg_pool2d(x, 2, 2, 0, True, divisor_override=10) * 10
    assert sums.reshape((3, 3)).tolist() == [[4, 4, 2], [4, 4, 2], [2, 2, 1]]
    assert nn.AvgPool3d(2, divisor_override=2)(ebb.ones((1, 1, 2, 2, 2))).item() == 4


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_convolutions_pad_by_every_mode(axes):
    name = f"Conv{axes}d"
    x = ebb.randn((2, 4) + (6,) * axes)
    for mode in ("reflect", "replicate", "circular"):
        layer = getattr(nn, name)(4, 6, 3, padding=1, groups=2, padding_mode=mode)
        padded = ebb.pad(x, (1, 1) * axes, mode)
        plain = getattr(ebb, f"conv{axes}d")(padded, layer.weight, layer.bias, 1, 0, 1, 2)
        assert same(layer(x), plain)
    layer = getattr(nn, name)(4, 6, 2, padding="same")
    assert layer(x).shape == (2, 6) + (6,) * axes
    with pytest.raises(ValueError, match="padding_mode is"):
        getattr(nn, name)(4, 6, 3, padding_mode="mirror")


def test_a_transposed_convolution_takes_an_output_size():
    layer = nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1)
    x = ebb.randn((1, 2, 4, 4))
    assert layer(x).shape == (1, 3, 7, 7) and layer(x, output_size=(8, 7)).shape == (1, 3, 8, 7)
    with pytest.raises(ValueError, match=r"an output of \(9, 7\) is not possible, the least is \(7, 7\)"):
        layer(x, output_size=(9, 7))


def test_losses_keep_their_weights_as_torchs_do():
    weight = ebb.tensor([1.0, 2.0, 3.0])
    loss = nn.CrossEntropyLoss(weight)
    assert list(loss.state_dict()) == ["weight"] and loss.parameters() == []
    x, target = ebb.randn((4, 3)), ebb.tensor([0, 2, 1, 1])
    assert loss(input=x, target=target).item() == ebb.cross_entropy(x, target, weight).item()
    head = nn.LinearCrossEntropyLoss(3, 5, bias=True, label_smoothing=0.1)
    assert [name for name, _ in head.named_parameters()] == ["linear.weight", "linear.bias"]
    logits = head.linear(x)
    assert same(head(x, target), ebb.cross_entropy(logits, target, label_smoothing=0.1))


def test_embeddings_name_what_is_not_there():
    assert nn.Embedding(5, 3, 0, sparse=True)(ebb.tensor([0, 1])).shape == (2, 3)
    table = ebb.randn((5, 3))
    assert same(nn.Embedding(5, 3, _weight=table)(ebb.tensor([4])), table[4:5])
    with pytest.raises(ValueError, match="there is no max_norm"):
        nn.Embedding(5, 3, max_norm=1.0)


def test_spreads_do_not_take_one_argument_for_another():
    x = ebb.tensor([[1.0, 2.0, 4.0], [0.0, 3.0, 9.0]])
    assert ebb.var(x, False).item() == ebb.var(x, unbiased=False).item()
    assert ebb.var_mean(x, False)[0].item() == ebb.var(x, correction=0).item()
    assert x.std(1, unbiased=True).tolist() == ebb.std(x, dim=1, correction=None).tolist()
    with pytest.raises(TypeError, match="give keepdim= and unbiased= or correction= by name"):
        ebb.var(x, 1, True)


def test_max_of_two_tensors_is_elementwise():
    a, b = ebb.tensor([1.0, 5.0]), ebb.tensor([3.0, 2.0])
    assert ebb.max(a, b).tolist() == a.max(b).tolist() == ebb.max(a, other=b).tolist() == [3, 5]
    assert ebb.min(a, b).tolist() == [1, 2] and ebb.max(a).item() == 5


def test_indices_may_be_masks_and_count_from_the_end():
    x = ebb.zeros(4)
    mask = ebb.tensor([True, False, True, False])
    assert ebb.index_put(x, (mask,), ebb.tensor([1.0, 2.0])).tolist() == [1, 0, 2, 0]
    assert ebb.take_along_dim(ebb.tensor([[1, 2], [3, 4]]), ebb.tensor([[-1], [0]]), 1).tolist() == [[2], [3]]
    assert ebb.take_along_dim(ebb.tensor([[1, 2], [3, 4]]), ebb.tensor([3, 0])).tolist() == [4, 1]
    assert [t.tolist() for t in ebb.nonzero(mask, as_tuple=True)] == [[0, 2]]
    assert ebb.scatter(x, 0, ebb.tensor([1, 1]), ebb.tensor([2.0, 3.0]), reduce="add").tolist() == [0, 5, 0, 0]


def test_unique_rows_are_in_lexicographic_order():
    x = ebb.tensor([[2, 1], [1, 9], [2, 1], [1, 3]])
    rows, inverse, counts = ebb.unique(x, return_inverse=True, return_counts=True, dim=0)
    assert rows.tolist() == [[1, 3], [1, 9], [2, 1]] and inverse.tolist() == [2, 1, 2, 0] and counts.tolist() == [1, 1, 2]
    assert ebb.unique(x.T, dim=1).tolist() == [[1, 1, 2], [3, 9, 1]]


def test_trapezoids_of_equal_width_count_the_ends_half():
    for dtype in ("f64", "f32", "bf16"):
        for size in (1, 2, 3, 37):
            y = ebb.variable(ebb.tensor(np.sin(np.arange(size * 6.0)).reshape(2, size, 3)).cast(dtype))
            area = ebb.trapezoid(y, dx=0.5, dim=1)
            values = y.cast("f64").numpy()
            close = {"f64": 1e-13, "f32": 1e-5, "bf16": 0.03}[dtype]
            assert area.dtype == y.dtype
            np.testing.assert_allclose(area.cast("f64").numpy(), np.trapezoid(values, dx=0.5, axis=1), atol=close)
            slope = ebb.backward((area * 2).sum())[y].cast("f64").numpy()
            weights = np.ones(size) if size > 1 else np.zeros(1)
            weights[[0, -1]] /= 2
            np.testing.assert_array_equal(slope, np.broadcast_to(weights[:, None], slope.shape))
    y = ebb.variable(ebb.tensor([1.0, 2.0, 4.0], dtype="f64"))
    assert ebb.hessian(lambda y: ebb.trapezoid(y * y), y).numpy().diagonal().tolist() == [1, 2, 1]
    infinity, nan = float("inf"), float("nan")
    found = ebb.trapezoid(ebb.tensor([[infinity, 0, 1], [infinity, 0, -infinity], [0, infinity, 1], [0, 1, nan]])).tolist()
    assert found[0] == found[2] == infinity and np.isnan(found[1]) and np.isnan(found[3])


def test_trapezoids_along_any_axis():
    y, x = ebb.tensor([[1.0, 2.0], [3.0, 6.0], [5.0, 1.0]]), ebb.tensor([0.0, 1.0, 3.0])
    assert ebb.trapezoid(y, x, dim=0).tolist() == [10, 11]
    assert ebb.cumulative_trapezoid(y, x, dim=0).tolist() == [[2, 4], [10, 11]]
    assert ebb.diff(x, prepend=ebb.tensor([-1.0]), append=ebb.tensor([3.0])).tolist() == [1, 1, 2, 0]


def test_equal_singular_values_have_gradients():
    eye = ebb.eye(3, dtype="f64")
    assert same(ebb.grad(lambda a: ebb.linalg.svdvals(a).sum())(eye), eye)
    assert same(ebb.grad(lambda a: ebb.linalg.eigvalsh(a).sum())(eye), eye)
    assert same(ebb.grad(lambda a: ebb.linalg.norm(a, "nuc"))(2 * eye), eye)
    a = ebb.tensor([[1.0, 0.0], [0.0, 1e-9]], dtype="f64")
    assert ebb.linalg.matrix_rank(a, atol=1e-6).item() == ebb.linalg.matrix_rank(a, 1e-6).item() == 1
    assert ebb.linalg.matrix_rank(a).item() == 2
    assert same(ebb.linalg.pinv(a, atol=1e-6), ebb.tensor([[1.0, 0.0], [0.0, 0.0]], dtype="f64"))


def test_functions_written_in_python_take_torchs_keywords():
    assert ebb.logspace(0, 2, 3, device="cpu", requires_grad=True).requires_grad
    assert ebb.tril_indices(2, 2, dtype=ebb.int32, device="cpu").dtype == ebb.int32
    assert ebb.bucketize(ebb.tensor([1.5]), ebb.tensor([1.0, 2.0]), out_int32=True).dtype == ebb.int32
    assert ebb.searchsorted(ebb.tensor([1.0, 2.0, 2.0]), ebb.tensor([2.0]), side="right").tolist() == [3]
    assert ebb.tensor([1, 2, 3, 4]).unfold(0, 2, 1).tolist() == [[1, 2], [2, 3], [3, 4]]
    assert ebb.linalg.eigh(A=ebb.eye(2)).eigenvalues.tolist() == [1, 1]
    assert [part.shape for part in ebb.hsplit(ebb.zeros((2, 4)), 2)] == [(2, 2), (2, 2)]
    with pytest.raises(TypeError, match="there is no out="):
        ebb.fmax(ebb.ones(2), ebb.ones(2), out=ebb.ones(2))


def test_matrices_have_methods():
    x = 2 * ebb.eye(2, dtype="f64")
    assert x.det().item() == 4 and same(x.inverse(), x / 4) and same(x.cholesky() ** 2, x)
    assert same(x.logdet(), x.slogdet()[1]) and same(x.svd()[1], ebb.full((2,), 2.0, dtype="f64"))
    assert same(ebb.matmul(*x.qr()), x)
    assert x.to("cpu", ebb.float32, True, True).dtype == ebb.float32 and x.to(ebb.float32, False).dtype == ebb.float32
    assert ebb.sigmoid(input=x).shape == x.shape and ebb.det(input=x).item() == 4
