# SPDX-License-Identifier: MIT
"""Formulas of several operations have one dtype: that of all their operands together, rounded to once."""

import numpy as np
import pytest

import ebb


def test_truncated_quotients_are_not_rounded_up_first():
    for dtype, top, bottom in (("f16", 18.015625, 1.0009765625), ("bf16", 18.125, 1.0078125)):
        a, b = ebb.tensor([top], dtype=dtype), ebb.tensor([bottom], dtype=dtype)
        exact = float(a.cast("f64")) / float(b.cast("f64"))
        assert float((a / b)) == 18 and exact < 18, "the quotient itself is rounded up"
        assert float(ebb.div(a, b, rounding_mode="trunc")) == 17
        assert float(ebb.div(a, b, rounding_mode="floor")) == 17
    whole = ebb.div(ebb.tensor([7, -7]), ebb.tensor([2, 2]), rounding_mode="trunc")
    assert whole.dtype == ebb.i64 and whole.tolist() == [3, -3]


def test_the_widest_operand_decides_the_digits():
    third = ebb.tensor([1.0 / 3.0])  # f32
    x, small = ebb.tensor([1e-12], dtype="f64"), ebb.tensor([3.0])
    product = float(third.cast("f64")) * 3.0
    assert float(ebb.addcmul(x, third, small)) == pytest.approx(product + 1e-12, rel=1e-15)
    assert float(ebb.addcdiv(x, ebb.tensor([1]), ebb.tensor([3]))) == pytest.approx(1 / 3 + 1e-12, rel=1e-15)
    assert float(ebb.add(x, third, alpha=0.1)) == pytest.approx(1e-12 + 0.1 * float(third.cast("f64")), rel=1e-15)
    points = ebb.tensor(np.linspace(0.1, 1.0, 7) ** 2)
    weights = ebb.tensor([0.5, 1.0, 0.25, 1.0, 0.75, 1.0, 0.5])
    assert weights.dtype == ebb.f32 and points.dtype == ebb.f64
    expected = np.cov(points.numpy(), aweights=weights.numpy().astype(np.float64))
    assert float(ebb.cov(points, aweights=weights)) == pytest.approx(float(expected), rel=1e-14)
    counts = ebb.tensor([1, 2, 3, 1, 1, 2, 1])
    assert float(ebb.cov(points, fweights=counts)) == pytest.approx(float(np.cov(points.numpy(), fweights=counts.numpy())))


def test_products_of_integers_are_integers():
    a = ebb.arange(6).reshape(2, 3)
    b, v, w = a.T, ebb.tensor([1, 2, 3]), ebb.tensor([4, 5])
    cube = a.reshape(1, 2, 3)
    for found, expected in (
        (ebb.addmm(ebb.tensor([[1, 2], [3, 4]]), a, b, beta=2, alpha=3), [[17, 46], [48, 158]]),
        (ebb.addmv(w, a, v, alpha=2), [20, 57]),
        (ebb.addr(a, w, v), [[4, 9, 14], [8, 14, 20]]),
        (ebb.addbmm(ebb.tensor([[1, 2], [3, 4]]), cube, cube.mT, alpha=2), [[11, 30], [31, 104]]),
        (ebb.baddbmm(ebb.tensor([[[1, 2], [3, 4]]]), cube, cube.mT), [[[6, 16], [17, 54]]]),
        (ebb.addcmul(v, v, v), [2, 6, 12]),
    ):
        assert found.dtype == ebb.i64 and found.tolist() == expected


def test_bincount_has_torchs_dtypes():
    at = ebb.tensor([0, 1, 1])
    assert ebb.bincount(at).dtype == ebb.i64
    found = ebb.bincount(at, ebb.tensor([1, 2, 3]))
    assert found.dtype == ebb.f64 and found.tolist() == [1, 5]
    assert ebb.bincount(at, ebb.tensor([0.5, 1.0, 2.0])).dtype == ebb.f32


def test_ldexp_does_not_overflow_on_the_way():
    assert ebb.ldexp(ebb.tensor([2.0**-100]), ebb.tensor([200])).tolist() == [2.0**100]
    assert ebb.ldexp(ebb.tensor([3]), ebb.tensor([2])).tolist() == [12.0]
    assert ebb.ldexp(ebb.tensor([1.5], dtype="f16"), 3).tolist() == [12.0]


def test_heaviside_takes_a_number():
    assert ebb.heaviside(ebb.tensor([-1.0, 0.0, 2.0]), 0.5).tolist() == [0.0, 0.5, 1.0]
    assert ebb.tensor([-1.0, 0.0]).heaviside(ebb.tensor([0.25])).tolist() == [0.0, 0.25]


def test_counts_of_halves_are_not_rounded_on_the_way():
    many = ebb.ones(2**12 + 1, dtype="f16")
    assert float(ebb.nanmean(many)) == 1.0


def test_pixels_beyond_the_integers_of_f32():
    """grid_sample counts pixels in integers: 2²⁴ + 1 is no f32."""
    wide = 2**24 + 3
    picture = ebb.arange(wide).reshape(1, 1, 1, wide).cast("f64")
    grid = ebb.tensor([[[[1.0, 0.0]]]], dtype="f64")
    assert float(ebb.grid_sample(picture, grid, align_corners=True)) == wide - 1


def test_arrays_are_tensors_for_formulas_too():
    x = np.arange(6.0).reshape(2, 3)
    assert ebb.sinc(x).dtype == ebb.f64 and ebb.diff(x).tolist() == [[1, 1], [1, 1]]


def test_functional_norms_give_a_tensor():
    F = ebb.nn.functional
    x, mean, var = ebb.randn((4, 3, 5)), ebb.zeros(3), ebb.ones(3)
    y = F.batch_norm(x, mean, var, training=True)
    assert isinstance(y, ebb.Tensor) and ebb.allclose(y, ebb.batch_norm(x, mean, var, training=True)[0])
    y = F.instance_norm(x, mean, var)
    assert isinstance(y, ebb.Tensor) and ebb.allclose(y, ebb.instance_norm(x, mean, var)[0])
    assert isinstance(F.instance_norm(x), ebb.Tensor)


def test_new_tensors_are_where_their_example_is():
    x = ebb.ones(2, dtype="f16")
    assert x.new_zeros((3,)).dtype == ebb.f16 and x.new_tensor([1.0]).device == x.device
