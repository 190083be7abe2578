# SPDX-License-Identifier: MIT
"""PyTorch's keywords and positional orders, beside Ebb's own. What they compute is held against NumPy or the plain call."""

import inspect

import numpy as np
import pytest

import ebb
from ebb.compat import _spelling

RNG = np.random.default_rng(0)
X = ebb.tensor(RNG.normal(size=(3, 4)).astype(np.float32))
Y = ebb.tensor(RNG.normal(size=(3, 4)).astype(np.float32))
CUBE = ebb.tensor(RNG.normal(size=(2, 3, 4)).astype(np.float32))
IMAGE = ebb.tensor(RNG.normal(size=(2, 4, 6, 6)).astype(np.float32))
INDEX = ebb.tensor([[0, 1], [2, 0], [1, 1]])
SQUARE = ebb.tensor((RNG.normal(size=(3, 3)) + 3 * np.eye(3)).astype(np.float64))

SPREAD = SQUARE @ SQUARE.mT + 2 * ebb.eye(len(SQUARE))

# (as PyTorch spells it, as Ebb does)
SAME = {
    "sum": (lambda: ebb.sum(X, dim=1, keepdim=True), lambda: ebb.sum(X, 1, True)),
    "sum_method": (lambda: X.sum(dim=(0, 1)), lambda: ebb.sum(X)),
    "keepdims": (lambda: X.mean(axis=0, keepdims=True), lambda: ebb.mean(X, 0, True)),
    "input": (lambda: ebb.sum(input=X, dim=0), lambda: ebb.sum(X, 0)),
    "dtype": (lambda: ebb.sum(X, dim=0, dtype=ebb.f64), lambda: ebb.sum(X.cast("f64"), 0)),
    "softmax": (lambda: ebb.softmax(X, dim=0, dtype=ebb.f64), lambda: ebb.softmax(X.cast("f64"), 0)),
    "log_softmax": (lambda: X.log_softmax(dim=1), lambda: ebb.log_softmax(X, 1)),
    "prod": (lambda: X.prod(dim=0), lambda: ebb.prod(X, 0)),
    "cumsum": (lambda: ebb.cumsum(X, dim=1, dtype="f64"), lambda: ebb.cumsum(X.cast("f64"), 1)),
    "logsumexp": (lambda: ebb.logsumexp(X, dim=1), lambda: ebb.logsumexp(X, 1)),
    "amax": (lambda: ebb.amax(X, dim=1), lambda: ebb.max(X, 1)),
    "var": (lambda: ebb.var(X, dim=1, unbiased=False), lambda: ebb.var(X, 1, correction=0)),
    "std": (lambda: X.std(dim=1, correction=0), lambda: ebb.std(X, 1, unbiased=False)),
    "argmax": (lambda: X.argmax(dim=1, keepdim=True), lambda: ebb.argmax(X, 1, True)),
    "norm": (lambda: ebb.norm(X, p="fro", dim=1), lambda: ebb.norm(X, 2.0, 1)),
    "quantile": (lambda: ebb.quantile(X, 0.5, dim=1), lambda: ebb.quantile(X, 0.5, 1)),
    "add": (lambda: ebb.add(X, other=Y, alpha=2), lambda: X + 2 * Y),
    "sub": (lambda: X.sub(Y, alpha=0.5), lambda: X - 0.5 * Y),
    "mul": (lambda: ebb.mul(input=X, other=Y), lambda: X * Y),
    "pow": (lambda: ebb.pow(X, exponent=2), lambda: X * X),
    "clamp": (lambda: ebb.clamp(X, min=-0.5, max=0.5), lambda: ebb.clamp(X, -0.5, 0.5)),
    "clip": (lambda: X.clip(min=0.0), lambda: ebb.clamp(X, 0.0)),
    "where": (lambda: ebb.where(X > 0, input=X, other=Y), lambda: ebb.where(X > 0, X, Y)),
    "round": (lambda: ebb.round(X, decimals=1), lambda: ebb.round(X * 10) / 10),
    "transpose": (lambda: ebb.transpose(CUBE, dim0=0, dim1=2), lambda: ebb.transpose(CUBE, 0, 2)),
    "permute": (lambda: ebb.permute(CUBE, dims=(2, 0, 1)), lambda: ebb.permute(CUBE, (2, 0, 1))),
    "flatten": (lambda: ebb.flatten(CUBE, start_dim=1), lambda: ebb.flatten(CUBE, 1)),
    "squeeze": (lambda: ebb.squeeze(X[None], dim=0), lambda: X),
    "unsqueeze": (lambda: X.unsqueeze(dim=1), lambda: ebb.unsqueeze(X, 1)),
    "flip": (lambda: ebb.flip(X, dims=(0,)), lambda: ebb.flip(X, (0,))),
    "roll": (lambda: ebb.roll(X, shifts=1, dims=0), lambda: ebb.roll(X, 1, 0)),
    "narrow": (lambda: ebb.narrow(X, dim=1, start=1, length=2), lambda: ebb.narrow(X, 1, 1, 2)),
    "cat": (lambda: ebb.cat([X, Y], dim=1), lambda: ebb.cat([X, Y], 1)),
    "stack": (lambda: ebb.stack([X, Y], dim=1), lambda: ebb.stack([X, Y], 1)),
    "diagonal": (lambda: ebb.diagonal(CUBE, dim1=1, dim2=2), lambda: ebb.diagonal(CUBE, 0, 1, 2)),
    "gather": (lambda: ebb.gather(X, dim=1, index=INDEX), lambda: ebb.gather(X, 1, INDEX)),
    "scatter": (lambda: ebb.scatter(X, dim=1, index=INDEX, value=1.0), lambda: ebb.scatter(X, 1, INDEX, 1.0)),
    "index_select": (lambda: ebb.index_select(X, dim=1, index=INDEX[0]), lambda: ebb.index_select(X, 1, INDEX[0])),
    "index_add": (
        lambda: ebb.index_add(X, dim=0, index=INDEX[0], source=Y[:2], alpha=3),
        lambda: ebb.index_add(X, 0, INDEX[0], 3 * Y[:2]),
    ),
    "one_hot": (lambda: ebb.one_hot(INDEX, num_classes=5), lambda: ebb.one_hot(INDEX, 5)),
    "embedding": (lambda: ebb.embedding(INDEX, X), lambda: ebb.embedding(X, INDEX)),
    "embedding_padding": (lambda: ebb.embedding(INDEX, X, padding_idx=1), lambda: ebb.embedding(X, INDEX, 1)),
    "zeros": (lambda: ebb.zeros(2, 3), lambda: ebb.zeros((2, 3))),
    "ones_size": (lambda: ebb.ones(size=(2, 3), device="cpu"), lambda: ebb.ones((2, 3))),
    "zeros_like": (lambda: ebb.zeros_like(X, dtype="i64"), lambda: ebb.zeros((3, 4), "i64")),
    "full": (lambda: ebb.full(size=(2,), fill_value=3.0), lambda: ebb.full((2,), 3.0)),
    "linspace": (lambda: ebb.linspace(0, 1, steps=5), lambda: ebb.linspace(0, 1, 5)),
    "eye": (lambda: ebb.eye(n=2, m=3), lambda: ebb.eye(2, 3)),
    "matmul": (lambda: ebb.matmul(X, other=Y.mT), lambda: X @ Y.mT),
    "mm": (lambda: ebb.mm(X, Y.mT), lambda: X @ Y.mT),
    "cholesky": (lambda: ebb.cholesky(SQUARE @ SQUARE.mT, upper=True), lambda: ebb.cholesky(SQUARE @ SQUARE.mT).mT),
    "cholesky_solve": (
        lambda: SPREAD @ ebb.cholesky_solve(SQUARE, ebb.cholesky(SPREAD)),
        lambda: SQUARE,
    ),
    "cholesky_solve_upper": (
        lambda: SPREAD @ ebb.cholesky_solve(SQUARE, ebb.cholesky(SPREAD, upper=True), upper=True),
        lambda: SQUARE,
    ),
    "cholesky_inverse": (lambda: SPREAD @ ebb.cholesky_inverse(ebb.cholesky(SPREAD)), lambda: ebb.eye(3, dtype="f64")),
    "solve_left": (lambda: ebb.solve(SQUARE, SQUARE[:2], left=False) @ SQUARE, lambda: SQUARE[:2]),
    "group_norm": (lambda: ebb.group_norm(IMAGE, num_groups=2), lambda: ebb.group_norm(IMAGE, 2)),
    "normalize": (lambda: ebb.normalize(X, dim=0), lambda: ebb.normalize(X, 2.0, 0)),
    "relu": (lambda: ebb.relu(X, inplace=True), lambda: ebb.relu(X)),
    "leaky_relu": (lambda: ebb.leaky_relu(X, 0.2, inplace=True), lambda: ebb.leaky_relu(X, 0.2)),
    "softplus": (lambda: ebb.softplus(X, 1.0, threshold=20), lambda: ebb.softplus(X)),
    "glu": (lambda: ebb.glu(X, dim=1), lambda: ebb.glu(X, 1)),
    "addmm": (lambda: ebb.addmm(X[:, :3], mat1=X, mat2=Y.mT), lambda: X[:, :3] + X @ Y.mT),
    "cdist": (lambda: ebb.cdist(x1=X, x2=Y), lambda: ebb.cdist(X, Y)),
    "repeat_interleave": (lambda: X.repeat_interleave(2, dim=1), lambda: ebb.repeat_interleave(X, 2, 1)),
    "topk": (lambda: X.topk(2, dim=0)[0], lambda: ebb.topk(X, 2, 0)[0]),
    "sort": (lambda: ebb.sort(X, dim=0, descending=True)[0], lambda: ebb.sort(X, 0, True)[0]),
    "take_along_dim": (lambda: ebb.take_along_dim(X, INDEX, dim=1), lambda: ebb.take_along(X, INDEX, 1)),
    "pool": (lambda: ebb.max_pool2d(IMAGE, 2, return_indices=True)[0], lambda: ebb.max_pool2d(IMAGE, 2)),
    "divisor": (
        lambda: ebb.avg_pool2d(IMAGE, 2, divisor_override=3),
        lambda: ebb.avg_pool2d(IMAGE, 2) * (4 / 3),
    ),
    "adaptive": (lambda: ebb.adaptive_avg_pool2d(IMAGE, (None, 3)), lambda: ebb.adaptive_avg_pool2d(IMAGE, (6, 3))),
    "mat2": (lambda: ebb.mm(X, mat2=Y.mT), lambda: X @ Y.mT),
    "vec": (lambda: X.mv(vec=Y[0]), lambda: X @ Y[0]),
    "split": (lambda: ebb.split(tensor=X, split_size_or_sections=2, dim=1)[1], lambda: X[:, 2:]),
    "tensor_split": (lambda: ebb.tensor_split(X, sections=2, dim=1)[1], lambda: X[:, 2:]),
    "hsplit": (lambda: X.hsplit(indices=(1,))[1], lambda: X[:, 1:]),
    "reshape": (lambda: X.reshape(shape=(4, 3)), lambda: X.reshape(4, 3)),
    "view": (lambda: X.view(size=(4, 3)), lambda: X.reshape(4, 3)),
    "permute_method": (lambda: CUBE.permute(dims=(2, 0, 1)), lambda: CUBE.permute(2, 0, 1)),
    "expand": (lambda: X.expand(size=(2, 3, 4)), lambda: X.expand(2, 3, 4)),
    "repeat": (lambda: X.repeat(repeats=(2, 1)), lambda: ebb.cat([X, X])),
    "isin": (
        lambda: ebb.isin(elements=INDEX, test_element=1, assume_unique=False).float(),
        lambda: (INDEX == 1).float(),
    ),
    "dropout": (lambda: ebb.dropout(X, p=0.5, train=False), lambda: X),
    "vecdot": (lambda: ebb.linalg.vecdot(x=X, y=Y, dim=0), lambda: (X * Y).sum(0)),
    "svd": (lambda: ebb.linalg.svd(X, False, driver=None)[1], lambda: ebb.linalg.svdvals(X)),
    "lstsq": (lambda: ebb.linalg.lstsq(SQUARE, b=SQUARE).solution, lambda: ebb.eye(3, dtype="f64")),
    "from_dlpack": (lambda: ebb.from_dlpack(ext_tensor=X), lambda: X),
    "softmax_layer": (lambda: ebb.nn.Softmax(dim=0)(X), lambda: ebb.softmax(X, 0)),
    "flatten_layer": (lambda: ebb.nn.Flatten(start_dim=1)(CUBE), lambda: ebb.flatten(CUBE, 1)),
    "relu_layer": (lambda: ebb.nn.ReLU(inplace=True)(X), lambda: ebb.relu(X)),
}


@pytest.mark.parametrize("name", SAME)
def test_pytorchs_spelling_is_the_same_call(name):
    theirs, ours = (f() for f in SAME[name])
    assert theirs.dtype == ours.dtype and theirs.shape == ours.shape
    np.testing.assert_allclose(theirs.numpy(), ours.numpy(), rtol=1e-5, atol=1e-5)


def test_attention_takes_pytorchs_arguments_in_pytorchs_order():
    q = ebb.tensor(RNG.normal(size=(1, 4, 5, 8)))
    k, v = (ebb.tensor(RNG.normal(size=(1, 2, 5, 8))) for _ in range(2))
    mask = ebb.tensor(RNG.normal(size=(5, 5)))
    grouped = ebb.scaled_dot_product_attention(q, k, v, enable_gqa=True, is_causal=True)
    spread = [ebb.repeat_interleave(x, 2, 1) for x in (k, v)]
    plain = ebb.scaled_dot_product_attention(q, *spread, causal=True)
    np.testing.assert_allclose(grouped.numpy(), plain.numpy())
    by_order = ebb.scaled_dot_product_attention(q, *spread, mask, 0.0, False)
    by_name = ebb.scaled_dot_product_attention(query=q, key=spread[0], value=spread[1], attn_mask=mask)
    np.testing.assert_allclose(by_order.numpy(), by_name.numpy())


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_recurrent_layers_have_time_first_as_in_pytorch(name):
    ebb.manual_seed(0)
    layer = getattr(ebb.nn, name)(3, 5, num_layers=2)
    own = getattr(ebb.nn, {"RNN": "Rnn", "LSTM": "Lstm", "GRU": "Gru"}[name])(3, 5, num_layers=2)
    own.load_state_dict(layer.state_dict())
    x = ebb.tensor(RNG.normal(size=(7, 2, 3)).astype(np.float32))
    y, last = layer(x)
    expected, expected_last = own(ebb.transpose(x, 0, 1))
    np.testing.assert_allclose(y.numpy(), expected.numpy().swapaxes(0, 1), rtol=1e-6)
    h, expected_h = (s[0] if isinstance(s, tuple) else s for s in (last, expected_last))
    np.testing.assert_allclose(h.numpy(), expected_h.numpy(), rtol=1e-6)
    alone, _ = layer(x[:, 0])
    np.testing.assert_allclose(alone.numpy(), y.numpy()[:, 0], rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="proj_size"):
        getattr(ebb.nn, name)(3, 5, proj_size=5)  # less than the hidden size, and of an LSTM only


def test_circular_padding_wraps_around():
    x = np.arange(6.0).reshape(1, 2, 3)
    padded = ebb.pad(ebb.tensor(x), (1, 2), mode="circular")
    np.testing.assert_array_equal(padded.numpy(), np.pad(x, ((0, 0), (0, 0), (1, 2)), mode="wrap"))
    with pytest.raises(ValueError, match="wraps around"):
        ebb.pad(ebb.tensor(x), (4, 0), mode="circular")


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantiles_interpolate_as_numpys(interpolation):
    x = RNG.normal(size=(7,))
    for q in (0.0, 0.3, 0.77, 1.0):
        ours = float(ebb.quantile(ebb.tensor(x), q, interpolation=interpolation))
        assert ours == pytest.approx(np.quantile(x, q, method=interpolation))


def test_where_with_one_argument_gives_positions():
    rows, columns = ebb.where(X > 0)
    expected = np.nonzero(X.numpy() > 0)
    np.testing.assert_array_equal(rows.numpy(), expected[0])
    np.testing.assert_array_equal(columns.numpy(), expected[1])


def test_an_argument_given_twice_or_unknown_is_an_error():
    with pytest.raises(TypeError, match="dim and axis are the same argument"):
        ebb.sum(X, dim=1, axis=1)
    with pytest.raises(TypeError):
        ebb.sum(X, dimension=1)
    with pytest.raises(TypeError, match="cannot be written to"):
        ebb.add(X, Y, out=X)
    with pytest.raises(ValueError, match="there is no cuda:15 on this machine"):
        ebb.zeros((2,), device="cuda:15").eval()


def test_names_of_the_table_exist_here():
    """Every target of a synonym is a parameter of some function: a typing error would translate nothing."""
    own = set()
    for holder in (ebb._core, ebb.Tensor):
        for function in vars(holder).values():
            function = getattr(function, "__wrapped__", function)
            if hasattr(function, "__nb_signature__"):
                own |= set(_spelling.parameters(function))
    targets = {name for names in _spelling.SYNONYMS.values() for name in names}
    assert targets <= own
    for name in {**_spelling.OF_ONE_FUNCTION, **_spelling.SPECIAL}:
        assert hasattr(ebb, name) or hasattr(ebb.Tensor, name), name


def test_wrapped_functions_keep_their_words():
    assert "axis" in ebb.sum.__doc__
    assert ebb.sum.__name__ == "sum" and ebb.sum.__module__ == "ebb"
    assert callable(inspect.unwrap(ebb.sum))


def test_keywords_mean_the_same_in_every_call():
    """What keywords are called here is found out once; their values and what is refused are not."""
    for axis in (0, 1, 0):
        np.testing.assert_array_equal(ebb.sum(X, dim=axis, keepdim=True).numpy(), ebb.sum(X, axis, True).numpy())
    for _ in range(2):
        with pytest.raises(TypeError, match="given twice"):
            ebb.sum(X, dim=0, axis=1)
        with pytest.raises(TypeError, match="cannot be written to"):
            ebb.sum(X, dim=0, out=Y)
        assert ebb.sum(X, dim=0, out=None).shape == (4,)
        with pytest.raises(TypeError):
            ebb.sum(X, direction=0)
        assert ebb.zeros((2,), requires_grad=True).requires_grad
        assert not ebb.zeros((2,), requires_grad=False).requires_grad
