# SPDX-License-Identifier: MIT
"""The array API standard: generic code written for it works on tensors."""

import numpy as np
import pytest

import ebb

xp = ebb.zeros(1).__array_namespace__()


def standardized(x):
    """As a library that knows no Ebb would write it."""
    ns = x.__array_namespace__()
    centred = x - ns.mean(x, axis=0, keepdims=True)
    return centred / ns.std(x, axis=0, keepdims=True)


def test_generic_code():
    a = np.random.default_rng(0).normal(size=(10, 3))
    np.testing.assert_allclose(np.asarray(standardized(ebb.from_numpy(a))), standardized(a), rtol=1e-10)


UNARY = (
    "abs acos acosh asin asinh atan atanh ceil cos cosh exp expm1 floor log log1p log2 log10 negative positive round sign sin sinh "
    "square sqrt tan tanh trunc isfinite isinf isnan logical_not reciprocal".split()
)
BINARY = (
    "add subtract multiply divide floor_divide remainder pow maximum minimum atan2 hypot equal not_equal less less_equal greater "
    "greater_equal logaddexp".split()
)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", UNARY + BINARY)
def test_elementwise_functions_are_numpys(name):
    rng = np.random.default_rng(1)
    arrays = (
        [rng.uniform(0.1, 0.9, (2, 3))] if name in UNARY else [rng.uniform(0.1, 3, (2, 3)), rng.uniform(0.1, 3, (3,))]
    )
    if name == "logical_not":
        arrays = [arrays[0] > 0.5]
    np.testing.assert_allclose(
        np.asarray(getattr(xp, name)(*map(ebb.from_numpy, arrays))), getattr(np, name)(*arrays), rtol=1e-6
    )


CALLS = [
    lambda n, x: n.sum(x, axis=1),
    lambda n, x: n.sum(x, axis=(0, 2), keepdims=True),
    lambda n, x: n.prod(x),
    lambda n, x: n.max(x, axis=0),
    lambda n, x: n.min(x),
    lambda n, x: n.mean(x, axis=-1),
    lambda n, x: n.var(x, axis=0),
    lambda n, x: n.std(x, correction=1),
    lambda n, x: n.any(x > 0, axis=0),
    lambda n, x: n.all(x > 0),
    lambda n, x: n.argmax(x, axis=1),
    lambda n, x: n.argmin(x),
    lambda n, x: n.permute_dims(x, (2, 0, 1)),
    lambda n, x: n.moveaxis(x, 0, -1),
    lambda n, x: n.reshape(x, (6, 4)),
    lambda n, x: n.expand_dims(x, axis=1),
    lambda n, x: n.squeeze(x[:1], axis=0),
    lambda n, x: n.flip(x),
    lambda n, x: n.flip(x, axis=1),
    lambda n, x: n.roll(x, 2),
    lambda n, x: n.roll(x, (1, 2), axis=(0, 1)),
    lambda n, x: n.concat([x, x], axis=1),
    lambda n, x: n.concat([x, x], axis=None),
    lambda n, x: n.stack([x, x], axis=2),
    lambda n, x: n.unstack(x, axis=1)[1],
    lambda n, x: n.tile(x, (2, 1, 1)),
    lambda n, x: n.tile(x, (2,)),
    lambda n, x: n.broadcast_to(x[:, :, :1], (2, 3, 7)),
    lambda n, x: n.take(x, n.asarray([1, 0]), axis=1),
    lambda n, x: n.take_along_axis(x, n.argsort(x, axis=-1), axis=-1),
    lambda n, x: n.sort(x, axis=0),
    lambda n, x: n.cumulative_sum(x, axis=1),
    lambda n, x: n.cumulative_sum(x, axis=1, include_initial=True),
    lambda n, x: n.matmul(x, n.matrix_transpose(x)),
    lambda n, x: n.vecdot(x, x),
    lambda n, x: n.tensordot(x, n.matrix_transpose(x), axes=((2,), (1,))),
    lambda n, x: n.where(x > 0, x, -x),
    lambda n, x: n.clip(x, -0.5, 0.5),
    lambda n, x: n.tril(x, k=1),
    lambda n, x: n.triu(x),
    lambda n, x: n.astype(x, n.float32),
    lambda n, x: n.full_like(x, 2.5),
    lambda n, x: n.eye(3, 4, k=1),
    lambda n, x: n.linspace(0, 1, 5, endpoint=False),
    lambda n, x: n.arange(2, 9, 3),
    lambda n, x: n.ones((2, 2)),
    lambda n, x: n.meshgrid(n.arange(3), n.arange(2))[1],
    lambda n, x: n.meshgrid(n.arange(3), n.arange(2), indexing="ij")[0],
    lambda n, x: n.broadcast_arrays(x, x[:1])[1],
    lambda n, x: n.zeros_like(x),
    lambda n, x: n.logical_and(x > 0, x < 1),
]


@pytest.mark.parametrize("call", CALLS, ids=[str(k) for k in range(len(CALLS))])
def test_functions_are_numpys(call):
    a = np.random.default_rng(2).normal(size=(2, 3, 4))
    expected = call(np, a)
    got = np.asarray(call(xp, ebb.from_numpy(a)))
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-12)


def test_dtypes_and_inspection():
    assert (
        xp.result_type(ebb.zeros(1), xp.float64) == xp.float64
        and xp.can_cast(xp.int32, xp.int64)
        and not xp.can_cast(xp.float32, xp.int32)
    )
    assert (
        xp.isdtype(xp.int32, "integral")
        and xp.isdtype(xp.float32, ("bool", "real floating"))
        and not xp.isdtype(xp.bool, "numeric")
    )
    assert xp.finfo(xp.float32).eps == np.finfo(np.float32).eps and xp.finfo(xp.float64).max == np.finfo(np.float64).max
    assert xp.iinfo(xp.int32).min == -(2**31) and xp.iinfo(xp.uint8).max == 255
    info = xp.__array_namespace_info__()
    assert info.default_device() == "cpu" and info.dtypes(kind="integral")["int64"] == xp.int64
    assert ebb.zeros(1).device == "cpu" and ebb.zeros(1).to_device("cpu").size == 1
    with pytest.raises(ValueError):
        ebb.zeros(1).__array_namespace__(api_version="2099.12")
    with pytest.raises(ValueError):
        xp.zeros(3, device="gpu")


# ---- what the standard says about the edges


def test_axes_that_name_nothing_reduce_nothing():
    x = ebb.tensor(np.arange(6.0).reshape(2, 3))
    for name in ("any", "all"):
        found = getattr(xp, name)(x, axis=())
        assert found.shape == (2, 3) and found.dtype == xp.bool
    for name in ("var", "std"):
        np.testing.assert_array_equal(getattr(xp, name)(x, axis=()).numpy(), np.zeros((2, 3)))
    assert xp.flip(x, axis=()).numpy().tolist() == x.numpy().tolist()


def test_logaddexp_of_equal_infinities_and_its_hessian_at_a_tie():
    inf = float("inf")
    x = ebb.tensor([inf, -inf, inf, 1.0])
    y = ebb.tensor([inf, -inf, -inf, 1.0])
    np.testing.assert_allclose(xp.logaddexp(x, y).numpy(), np.logaddexp(x.numpy(), y.numpy()), rtol=1e-6)
    hessian = ebb.hessian(lambda v: xp.logaddexp(v[0], v[1]), ebb.tensor([2.0, 2.0], "f64"))
    np.testing.assert_allclose(hessian.numpy(), [[0.25, -0.25], [-0.25, 0.25]])


def test_tensordot_checks_sizes_and_axes():
    a, b = np.arange(24.0).reshape(2, 3, 4), np.arange(12.0).reshape(4, 3)
    x, y = ebb.tensor(a), ebb.tensor(b)
    for axes in (([2], [0]), ([1, -1], [1, 0]), ([-2], [-1]), 0):
        np.testing.assert_allclose(xp.tensordot(x, y, axes=axes).numpy(), np.tensordot(a, b, axes))
    with pytest.raises(ValueError, match="differ in size"):
        xp.tensordot(x, y, axes=([0], [0]))
    with pytest.raises(IndexError, match="axis 5 does not exist"):
        xp.tensordot(x, y, axes=([5], [0]))
    with pytest.raises(ValueError, match="named twice"):
        xp.tensordot(x, y, axes=([1, -2], [1, 1]))
    with pytest.raises(ValueError, match="differ in size"):
        xp.tensordot(x, y, axes=2)


def test_moveaxis_checks_its_axes():
    a = np.zeros((2, 3, 4))
    x = ebb.tensor(a)
    for source, destination in ((0, -1), ((0, 1), (2, 0)), (-1, 0)):
        assert xp.moveaxis(x, source, destination).shape == np.moveaxis(a, source, destination).shape
    with pytest.raises(IndexError, match="moveaxis: axis 3"):
        xp.moveaxis(x, 3, 0)
    with pytest.raises(ValueError, match="named twice"):
        xp.moveaxis(x, (0, 0), (1, 2))
    with pytest.raises(ValueError, match="2 axes cannot be moved to 1"):
        xp.moveaxis(x, (0, 1), 0)


def test_vecdot_does_not_broadcast_the_axis_it_sums_over():
    x, y = ebb.ones((2, 3)), ebb.ones((2, 1))
    with pytest.raises(ValueError, match="vecdot: axis -1 has sizes 3 and 1"):
        xp.vecdot(x, y)
    assert xp.vecdot(x, ebb.ones((3,))).shape == (2,)


def test_dtypes_have_their_standard_names():
    found = xp.__array_namespace_info__().dtypes()
    assert set(found) == {"bool", "int32", "int64", "uint8", "float32", "float64"}
    for name, dtype in found.items():
        assert getattr(xp, name) == dtype
    assert set(xp.__array_namespace_info__().dtypes(kind="real floating")) == {"float32", "float64"}


@pytest.mark.parametrize("shape", [(4, 3), (3, 3), (3, 5), (2, 4, 3)])
def test_linalg_agrees_with_numpy(shape):
    a = np.random.default_rng(1).normal(size=shape)
    x = ebb.tensor(a)
    np.testing.assert_allclose(xp.linalg.svdvals(x).numpy(), np.linalg.svd(a, compute_uv=False), rtol=1e-10)
    np.testing.assert_allclose(xp.linalg.pinv(x).numpy(), np.linalg.pinv(a), rtol=1e-8, atol=1e-10)
    u, s, vh = xp.linalg.svd(x)
    assert u.shape[-1] == shape[-2] and vh.shape[-2] == shape[-1]
    np.testing.assert_allclose((u.mT @ u).numpy(), np.broadcast_to(np.eye(shape[-2]), u.shape), atol=1e-10)
    k = min(shape[-2:])
    rebuilt = (u.numpy()[..., :k] * s.numpy()[..., None, :]) @ vh.numpy()[..., :k, :]
    np.testing.assert_allclose(rebuilt, a, atol=1e-10)
    for mode in ("reduced", "complete"):
        q, r = xp.linalg.qr(x, mode=mode)
        np.testing.assert_allclose((q @ r).numpy(), a, atol=1e-10)
        assert q.shape == np.linalg.qr(a, mode=mode)[0].shape
    for ord in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        expected = np.linalg.norm(a, ord, axis=(-2, -1))
        np.testing.assert_allclose(xp.linalg.matrix_norm(x, ord=ord).numpy(), expected, rtol=1e-8)
    assert xp.linalg.matrix_rank(x).numpy().tolist() == np.linalg.matrix_rank(a).tolist()
    symmetric = a @ np.swapaxes(a, -1, -2)
    w, v = xp.linalg.eigh(ebb.tensor(symmetric))
    np.testing.assert_allclose(w.numpy(), np.linalg.eigvalsh(symmetric), atol=1e-9)
    sign, logarithm = xp.linalg.slogdet(ebb.tensor(symmetric + np.eye(shape[-2])))
    expected = np.linalg.slogdet(symmetric + np.eye(shape[-2]))
    np.testing.assert_allclose(sign.numpy(), expected[0])
    np.testing.assert_allclose(logarithm.numpy(), expected[1], rtol=1e-10)


def test_least_squares_agree_with_numpy():
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(6, 3)), rng.normal(size=(6, 2))
    found = ebb.linalg.lstsq(ebb.tensor(a), ebb.tensor(b))
    solution, residuals, rank, s = np.linalg.lstsq(a, b, rcond=None)
    np.testing.assert_allclose(found.solution.numpy(), solution, rtol=1e-9)
    np.testing.assert_allclose(found.residuals.numpy(), residuals, rtol=1e-9)
    assert int(found.rank) == rank


STANDARD = """abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_invert bitwise_or
bitwise_right_shift bitwise_xor ceil clip copysign cos cosh divide equal exp expm1 floor floor_divide greater greater_equal
hypot isfinite isinf isnan less less_equal log log1p log2 log10 logaddexp logical_and logical_not logical_or logical_xor
maximum minimum multiply negative nextafter not_equal positive pow reciprocal remainder round sign signbit sin sinh square
sqrt subtract tan tanh trunc arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones ones_like
tril triu zeros zeros_like astype broadcast_arrays broadcast_shapes broadcast_to can_cast conj imag isin real finfo iinfo isdtype result_type take
take_along_axis matmul matrix_transpose tensordot vecdot concat expand_dims flip moveaxis permute_dims repeat reshape roll
squeeze stack tile unstack argmax argmin count_nonzero nonzero searchsorted where unique_all unique_counts unique_inverse
unique_values argsort sort cumulative_prod cumulative_sum max mean min prod std sum var all any diff e inf nan newaxis pi"""
EXTENSION = """cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank matrix_transpose outer
pinv qr slogdet solve svd svdvals tensordot trace vecdot vector_norm"""


def test_everything_that_needs_no_complex_numbers_is_there():
    assert xp.__array_api_version__ == "2025.12"
    assert [name for name in STANDARD.split() if not hasattr(xp, name)] == []
    assert [name for name in EXTENSION.split() if not hasattr(xp.linalg, name)] == []


def test_sets_and_searching_agree_with_numpy():
    a = np.random.default_rng(3).integers(0, 5, size=(4, 6))
    x = ebb.tensor(a)
    values, indices, inverse, counts = xp.unique_all(x)
    expected = np.unique(a, return_index=True, return_inverse=True, return_counts=True)
    np.testing.assert_array_equal(values.numpy(), expected[0])
    np.testing.assert_array_equal(indices.numpy(), expected[1])
    np.testing.assert_array_equal(inverse.numpy(), expected[2].reshape(a.shape))
    np.testing.assert_array_equal(counts.numpy(), expected[3])
    assert xp.unique_counts(x).counts.tolist() == counts.tolist()
    assert xp.unique_inverse(x).inverse_indices.shape == (4, 6)
    for found, wanted in zip(xp.nonzero(x), np.nonzero(a)):
        np.testing.assert_array_equal(found.numpy(), wanted)
    np.testing.assert_array_equal(xp.count_nonzero(x, axis=1).numpy(), np.count_nonzero(a, axis=1))
    s = np.sort(a[0])
    for side in ("left", "right"):
        found = xp.searchsorted(ebb.tensor(s), x, side=side)
        np.testing.assert_array_equal(found.numpy(), np.searchsorted(s, a, side=side))
    np.testing.assert_array_equal(xp.repeat(x, 2, axis=1).numpy(), np.repeat(a, 2, axis=1))
    np.testing.assert_array_equal(xp.diff(x, axis=1, n=2).numpy(), np.diff(a, n=2, axis=1))
    np.testing.assert_array_equal(xp.cumulative_prod(x, axis=0).numpy(), np.cumprod(a, axis=0))
    b = np.random.default_rng(4).integers(-9, 9, size=(6,))
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        np.testing.assert_array_equal(getattr(xp, name)(x, ebb.tensor(b)).numpy(), getattr(np, name)(a, b))
    np.testing.assert_array_equal((~x).numpy(), ~a)
    np.testing.assert_array_equal((x & 3).numpy(), a & 3)
    np.testing.assert_array_equal((x << 2).numpy(), a << 2)
    np.testing.assert_array_equal((x >> 1).numpy(), a >> 1)
    assert xp.nextafter(ebb.tensor(1.0), ebb.tensor(2.0)).item() == np.nextafter(np.float32(1), np.float32(2))


def test_numbers_take_the_dtype_of_the_tensor_beside_them():
    x = ebb.tensor([5, 6], dtype="u8")
    assert xp.bitwise_and(x, 3).tolist() == [1, 2] and xp.bitwise_left_shift(1, x).dtype == ebb.u8
    assert xp.logical_xor(ebb.tensor([True, False]), True).tolist() == [False, True]
    assert xp.logaddexp(ebb.tensor([0.0], dtype="f64"), 0).dtype == ebb.f64
    assert xp.isin(x, 6).tolist() == [False, True] and xp.isin(6, x, invert=True).item() is False
    assert xp.searchsorted(ebb.tensor([1, 3]), 2).item() == 1
    assert xp.full((2,), ebb.tensor(3)).tolist() == [3, 3] and xp.arange(ebb.tensor(2)).tolist() == [0, 1]


def test_results_have_the_dtype_that_the_standard_says():
    x = ebb.tensor([200, 100], dtype="u8")
    assert xp.sum(x, dtype=xp.uint8).dtype == ebb.u8 and xp.sum(x, dtype=xp.uint8).item() == 300 - 256
    assert xp.sum(ebb.tensor([1], dtype="i32"), axis=()).dtype == ebb.i64
    assert xp.vecdot(x, x).dtype == ebb.u8
    assert xp.var(ebb.tensor([1.0, 2.0]), axis=()).tolist() == [0, 0]
    assert xp.conj(x).tolist() == xp.real(x).tolist() == [200, 100] and xp.imag(x).tolist() == [0, 0]
    assert complex(ebb.tensor(2.5)) == ebb.tensor(2.5).__complex__() == 2.5 + 0j


def test_shapes_and_places_as_the_standard_has_them():
    assert xp.eye(2, 3, k=2**70).tolist() == [[0, 0, 0], [0, 0, 0]]
    assert xp.arange(1, 0).shape == (0,) and xp.arange(0.0, 1, -1).dtype == ebb.f32
    assert xp.expand_dims(ebb.zeros(3), axis=(0, -1)).shape == (1, 3, 1)
    with pytest.raises(ValueError, match="are not different axes of a result with 3"):
        xp.expand_dims(ebb.zeros(3), axis=(0, 0))
    assert xp.broadcast_shapes() == () and xp.broadcast_shapes((3, 1), (2,)) == (3, 2)
    assert isinstance(xp.meshgrid(ebb.zeros(2), ebb.zeros(3)), tuple)
    x = ebb.tensor([[1, 2, 3]])
    assert xp.take(x, ebb.tensor([-1, 0]), axis=1).tolist() == [[3, 1]]
    assert xp.take_along_axis(x, ebb.tensor([[-2]])).tolist() == [[2]]
    assert xp.where(x > 1)[1].tolist() == [1, 2]
    assert xp.diff(ebb.tensor([1, 4, 9]), 2).tolist() == [2]


def test_assignment_gives_the_object_another_value():
    a = np.random.default_rng(5).normal(size=(3, 4))
    x = ebb.tensor(a)
    row, doubled = x[0], x * 2
    with pytest.raises(TypeError, match="its elements cannot be assigned to"):
        x[0] = 1
    with xp.assignment():
        assert xp.__array_namespace_info__().capabilities()["item assignment"]
        x[0] = 1
        x[1, 1:3] = ebb.tensor([5, 6])
        x[x < 0] = 0
        x[:, -1] += 1
        x[2, 4:] = 7
        x[...] = x
        variable = ebb.variable(ebb.zeros(2))
        with pytest.raises(TypeError, match="elements of a variable"):
            variable[0] = 1
    expected = a.copy()
    expected[0] = 1
    expected[1, 1:3] = 5, 6
    expected[expected < 0] = 0
    expected[:, -1] += 1
    np.testing.assert_array_equal(x.numpy(), expected)
    np.testing.assert_array_equal(row.numpy(), a[0])
    np.testing.assert_array_equal(doubled.numpy(), a * 2)
    with pytest.raises(TypeError, match="its elements cannot be assigned to"):
        x[0] = 1


def test_every_expected_failure_of_the_standards_suite_has_a_reason():
    from pathlib import Path

    reason = False
    for line in (Path(__file__).parent / "array_api" / "xfails.txt").read_text().splitlines():
        if line.startswith("#"):
            reason = True
        elif not line:
            reason = False
        else:
            assert reason and line.startswith("array_api_tests/test_"), line
