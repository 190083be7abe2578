# SPDX-License-Identifier: MIT
"""Operators, indexing, printing, pickling and errors, held against NumPy."""

import copy
import pickle

import numpy as np
import pytest

import ebb

OPERATORS = [
    "__add__",
    "__sub__",
    "__mul__",
    "__truediv__",
    "__floordiv__",
    "__mod__",
    "__pow__",
    "__lt__",
    "__le__",
    "__gt__",
    "__ge__",
    "__eq__",
    "__ne__",
]


def pair():
    rng = np.random.default_rng(0)
    return rng.uniform(0.5, 3, (3, 4)), rng.uniform(0.5, 3, (4,))


@pytest.mark.parametrize("operator", OPERATORS)
def test_operators_are_numpys(operator):
    a, b = pair()
    x, y = ebb.tensor(a), ebb.tensor(b)
    expected = getattr(a, operator)(b)
    for got in (getattr(x, operator)(y), getattr(x, operator)(b)):
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(getattr(x, operator)(2.0).numpy(), getattr(a, operator)(2.0), rtol=1e-12)


def test_reflected_operators_with_numbers_and_arrays():
    a, b = pair()
    x = ebb.tensor(a)
    np.testing.assert_allclose((2 - x).numpy(), 2 - a)
    np.testing.assert_allclose((2 / x).numpy(), 2 / a)
    np.testing.assert_allclose((2**x).numpy(), 2**a)
    assert isinstance(b - x, ebb.Tensor)
    np.testing.assert_allclose((b - x).numpy(), b - a)
    np.testing.assert_allclose((x @ x.T).numpy(), a @ a.T)
    np.testing.assert_allclose((-x).numpy(), -a)
    np.testing.assert_allclose(abs(-x).numpy(), a)


def test_bits_are_logic_for_bools_and_bits_for_integers():
    p, q = ebb.tensor([True, True, False]), ebb.tensor([True, False, False])
    assert (p & q).tolist() == [True, False, False]
    assert (p | q).tolist() == [True, True, False]
    assert (p ^ q).tolist() == [False, True, False]
    assert (~p).tolist() == [False, False, True]
    assert (ebb.tensor([6, 3]) & ebb.tensor([3, 1])).tolist() == [2, 1]
    with pytest.raises(TypeError, match="needs integers"):
        ebb.tensor([1.0, 2.0]) & ebb.tensor([1, 2])


A = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
INDICES = [
    0,
    -1,
    (1, 2),
    (1, -2, 3, 4),
    slice(None),
    slice(1, None),
    (slice(None), slice(None, None, 2)),
    (..., 0),
    (0, ...),
    None,
    (None, 1, None),
    (slice(None), None, 1),
    (slice(None, None, -1),),
    (..., slice(3, 0, -2)),
    (slice(5, 9),),
    (slice(-2, None), ..., 1),
    np.array([1, 0, 1]),
    (slice(None), np.array([2, 0])),
    (np.array([0, 1]), np.array([2, 0])),
    (0, np.array([2, 0])),
    (np.array([[0, 1], [1, 0]]),),
    (slice(None), np.array([0, -1]), slice(1, 3)),
    (np.array([0, 1]), slice(None), np.array([1, 3])),
    (slice(None), np.array([[0], [1]]), np.array([1, 2, 3])),
    A[0, 0, 0] > 2,
    A > 60,
    (slice(None), A[0, :, 0, 0] > 0),
    (A[:, :, 0, 0] > 30,),
    (..., A[0, 0, 0] % 2 == 0),
    ([0, 1],),
    (slice(None), [2, 1, 0]),
    np.int64(1),
    Ellipsis,
    (),
]


@pytest.mark.parametrize("index", INDICES, ids=[str(k) for k in range(len(INDICES))])
def test_indexing_is_numpys(index):
    if isinstance(index, np.ndarray) and index.shape == (5,):
        index = (..., index)
    expected = A[index]
    got = ebb.tensor(A)[index]
    assert got.shape == expected.shape
    np.testing.assert_array_equal(got.numpy(), expected)


def test_indices_may_be_tensors():
    x = ebb.tensor(A)
    np.testing.assert_array_equal(x[ebb.tensor([1, 0])].numpy(), A[[1, 0]])
    np.testing.assert_array_equal(x[x > 50].numpy(), A[A > 50])
    np.testing.assert_array_equal(
        ebb.grad(lambda t: (t[[0, 0, 1]] ** 2).sum())(ebb.tensor([3.0, 5.0])).numpy(), [12, 10]
    )


@pytest.mark.parametrize(
    "index, message",
    [
        (5, "index 5 is outside axis 0"),
        ((0, 0, 0, 0, 0), "5 indices"),
        ((..., ...), "only one"),
        (1.5, "can be indices, got float"),
        ("a", "can be indices, got str"),
        (True, "True and False are no indices"),
        (np.array([True]), "the mask has shape"),
        (np.array([0.5]), "positions are integers"),
    ],
)
def test_bad_indices_are_index_errors(index, message):
    with pytest.raises(IndexError, match=message):
        ebb.tensor(A)[index].eval()


@pytest.mark.parametrize(
    "index, message",
    [
        ([0, 7], r"index\[1\] = 7 is outside \[-3, 3\)"),
        (np.array([[1], [-4]]), r"index\[1\] = -4 is outside \[-3, 3\)"),
        ((slice(None), np.array([3, 9, 0])), r"index\[1\] = 9 is outside \[-5, 5\)"),
        ((np.array([[0, 1], [2, 1]]), np.array([0, 8])), r"index\[1\] = 8 is outside \[-5, 5\)"),
        ((0, ebb.tensor(-6)), r"index = -6 is outside \[-5, 5\)"),
    ],
    ids=str,
)
def test_an_index_array_out_of_range_names_position_and_value(index, message):
    with pytest.raises(IndexError, match=message):
        ebb.tensor(np.arange(15.0).reshape(3, 5))[index].eval()
    with pytest.raises(IndexError, match=r"index_put: index\[1\] = 3 is outside \[-3, 3\)"):
        ebb.index_put(ebb.zeros((3,)), [ebb.tensor([0, 3])], ebb.ones((2,))).eval()


def test_elements_cannot_be_assigned():
    with pytest.raises(TypeError, match="a tensor is a value"):
        ebb.tensor([1, 2])[0] = 3


def test_python_numbers():
    assert float(ebb.tensor(1.5)) == 1.5 and int(ebb.tensor(7)) == 7 and int(ebb.tensor(2.9)) == 2
    assert bool(ebb.tensor([1])) and not bool(ebb.tensor(0.0))
    assert [10, 20, 30][ebb.tensor(1)] == 20
    assert isinstance(ebb.tensor(3).item(), int) and isinstance(ebb.tensor(True).item(), bool)
    assert f"{ebb.tensor(3.14159):.2f}" == "3.14"
    assert len(ebb.zeros((4, 2))) == 4 and [t.tolist() for t in ebb.tensor([[1], [2]])] == [[1], [2]]
    with pytest.raises(ValueError, match="truth of a tensor"):
        bool(ebb.tensor([1, 2]))
    with pytest.raises(TypeError, match="no length"):
        len(ebb.tensor(1))


def test_lists_keep_their_kind():
    assert ebb.tensor([1, 2]).dtype == ebb.i64 and ebb.tensor([1, 2.0]).dtype == ebb.f32
    assert ebb.tensor([True]).dtype == ebb.bool_ and ebb.tensor([[1], [2]], dtype="f64").dtype == "float64"
    assert ebb.tensor([]).shape == (0,) and ebb.tensor([[], []]).shape == (2, 0)
    assert ebb.tensor(np.float64(2)).dtype == ebb.f64 and (ebb.tensor(1.0) + np.float64(2)).dtype == ebb.f32
    with pytest.raises(ValueError, match="ragged"):
        ebb.tensor([[1, 2], [3]])
    with pytest.raises(TypeError, match="cannot make a number of dict"):
        ebb.tensor([{}])


def test_printing():
    x = ebb.tensor([[1, 2], [3, 4]])
    assert str(x) == "[[1 2]\n [3 4]]"
    assert repr(x) == "tensor([[1 2]\n        [3 4]], dtype=i64)"
    assert repr(ebb.variable(ebb.tensor(1.0))) == "tensor(1.0, dtype=f32, requires_grad=True)"
    assert "shape=(0, 3)" in repr(ebb.zeros((0, 3)))
    html = ebb.zeros((100, 200))._repr_html_()
    assert "shape (100, 200)" in html and "dtype f32" in html and len(html) < 600


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16", "i64", "i32", "u8", "bool"])
def test_pickling(dtype):
    x = (ebb.arange(6).reshape(2, 3) % 2).cast(dtype)
    y = pickle.loads(pickle.dumps(x))
    assert y.dtype == x.dtype and y.shape == (2, 3) and bool((x == y).all())
    assert pickle.loads(pickle.dumps(x.dtype)) is x.dtype


def test_pickling_keeps_variables_and_views():
    v = ebb.variable(ebb.tensor([1.0, 2.0]))
    assert pickle.loads(pickle.dumps(v)).requires_grad
    view = ebb.arange(10)[::3]
    assert pickle.loads(pickle.dumps(view)).tolist() == [0, 3, 6, 9]
    assert copy.deepcopy(v) is not None and copy.copy(view).tolist() == [0, 3, 6, 9]


def test_comparing():
    x = ebb.tensor([1.0, 2.0])
    assert (x == [1.0, 2.0]) is not None
    assert ebb.allclose(x, x + 1e-9) and not ebb.allclose(x, x + 1)
    assert hash(x) == hash(x) and x in {x: 1}


def test_errors_have_pythons_kinds_and_the_librarys_sentences():
    with pytest.raises(ValueError, match=r"\[2, 3\].*\[4\]"):
        ebb.zeros((2, 3)) + ebb.zeros((4,))
    with pytest.raises(IndexError, match="axis 5 does not exist"):
        ebb.sum(ebb.zeros((2,)), 5)
    with pytest.raises(TypeError, match="cannot be differentiated"):
        ebb.variable(ebb.tensor([1]))
    with pytest.raises(OSError, match="nowhere.npy"):
        ebb.io.load_npy("nowhere.npy")
    with pytest.raises(ValueError, match="negative"):
        ebb.zeros((-1,))
    ebb.set_memory_limit(1 << 20)
    try:
        with pytest.raises(MemoryError):
            ebb.ones((1 << 20,)).cumsum(0).eval()
    finally:
        ebb.set_memory_limit(0)
    with pytest.raises(TypeError, match="input is a tensor, got str"):
        ebb.mse_loss("x", ebb.zeros(2))
    with pytest.raises(IndexError, match=r"target\[1\] = 9 is outside"):
        ebb.cross_entropy(ebb.zeros((2, 3)), ebb.tensor([0, 9])).eval()


def test_eager_scopes_compute_at_once():
    with ebb.Eager():
        assert (ebb.ones(3) + 1).evaluated
    assert not (ebb.ones(3) + 1).evaluated


def test_eval_returns_the_tensor_itself():
    x = ebb.ones((2, 3)) + 1
    assert x.eval() is x
    assert x.evaluated
    with pytest.raises(TypeError):
        ebb.Tensor.eval(3)
