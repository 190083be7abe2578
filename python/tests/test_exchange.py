# SPDX-License-Identifier: MIT
"""NumPy and DLPack in both directions: no copies, the right lifetimes, nothing leaks."""

import gc
import sys
import weakref

import numpy as np
import pytest

import ebb

NUMPY = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "i64": np.int64,
    "i32": np.int32,
    "u8": np.uint8,
    "bool": np.bool_,
}


def address(array):
    return array.__array_interface__["data"][0]


@pytest.mark.parametrize("name", NUMPY)
def test_numpy_in_both_directions_without_copies(name):
    a = np.arange(12).reshape(3, 4).astype(NUMPY[name])
    x = ebb.from_numpy(a)
    assert x.dtype == name and x.shape == a.shape
    back = x.numpy()
    assert address(back) == address(a) and back.dtype == a.dtype and not back.flags.writeable
    np.testing.assert_array_equal(back, a)
    for view in (np.asarray(x), np.from_dlpack(x), np.frombuffer(x, a.dtype)):
        assert address(view) == address(a)
    y = x[1:, ::2]
    assert address(y.numpy()) == address(a[1:, ::2]) and y.numpy().strides == a[1:, ::2].strides
    np.testing.assert_array_equal(y.numpy(), a[1:, ::2])


@pytest.mark.parametrize(
    "make",
    [
        lambda a: a.T,
        lambda a: np.asfortranarray(a),
        lambda a: a.transpose(1, 2, 0),
        lambda a: a[:, None],
        lambda a: a[:1],
        lambda a: a.reshape(-1),
    ],
)
def test_dense_arrays_in_any_order_are_shared(make):
    a = make(np.arange(24.0).reshape(2, 3, 4))
    for x in (ebb.from_numpy(a), ebb.from_dlpack(a)):
        assert address(x.numpy()) == address(a)
        np.testing.assert_array_equal((x + 1).numpy(), a + 1)


@pytest.mark.parametrize("make", [lambda a: a[::2], lambda a: a[:, ::-1], lambda a: np.broadcast_to(a[0], (5, 4))])
def test_other_arrays_are_copied_and_copies_can_be_refused(make):
    a = make(np.arange(24.0).reshape(6, 4))
    x = ebb.from_numpy(a)
    assert address(x.numpy()) != address(a)
    np.testing.assert_array_equal(x.numpy(), a)
    with pytest.raises(ValueError, match="only copied"):
        ebb.asarray(a, copy=False)


def test_tensor_copies_and_asarray_shares():
    a = np.ones(3)
    assert address(ebb.tensor(a).numpy()) != address(a)
    assert address(ebb.asarray(a).numpy()) == address(a)
    assert address(ebb.asarray(a, copy=True).numpy()) != address(a)
    assert ebb.asarray([1, 2]).tolist() == [1, 2]


def test_arrays_are_accepted_where_tensors_are():
    a = np.array([1.0, 2.0])
    assert ebb.exp(a).shape == (2,) and ebb.sum(a).item() == 3
    assert ebb.mse_loss(a, ebb.from_numpy(a)).item() == 0
    assert isinstance(a * ebb.from_numpy(a), ebb.Tensor)


def test_array_protocol():
    x = ebb.tensor([1.0, 2.0])
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    copied = np.array(x, copy=True)
    copied[0] = 5
    assert x.tolist() == [1, 2]
    assert np.add(np.asarray(x), 1).tolist() == [2, 3]
    assert memoryview(x).readonly and memoryview(x[::1]).format == "f"


def test_unknown_elements_are_named():
    with pytest.raises(TypeError, match="format 'h'.*astype"):
        ebb.from_numpy(np.zeros(2, np.int16))
    with pytest.raises(TypeError, match="there is no dtype"):
        ebb.from_dlpack(np.zeros(2, np.complex64))
    with pytest.raises(TypeError, match="no bf16"):
        ebb.zeros(2, "bf16").numpy()
    with pytest.raises(TypeError, match="expected an array, got list"):
        ebb.from_numpy([1])


class Keeper(np.ndarray):
    """An array that can be watched."""


def watched(n=4):
    a = np.arange(float(n)).view(Keeper)
    return a, weakref.ref(a)


def test_a_tensor_keeps_an_array_and_lets_go_of_it():
    a, watch = watched()
    x = ebb.from_numpy(a)
    del a
    gc.collect()
    assert watch() is not None and x.tolist() == [0, 1, 2, 3]
    y = x + 1
    del x
    assert y.tolist() == [1, 2, 3, 4]
    del y
    gc.collect()
    assert watch() is None


def test_an_array_keeps_the_memory_of_a_tensor():
    live = ebb.memory_stats()["live"]
    a = (ebb.arange(1000) + 1).numpy()
    gc.collect()
    assert a.sum() == 500500 and ebb.memory_stats()["live"] > live
    view = a[10:20]
    del a
    assert view.tolist() == list(range(11, 21))
    del view
    gc.collect()
    assert ebb.memory_stats()["live"] == live


@pytest.mark.parametrize("version", [None, (1, 0), (0, 8), (2, 0)])
def test_capsules_that_nobody_takes_free_their_memory(version):
    live = ebb.memory_stats()["live"]
    x = (ebb.arange(1000) + 1).eval()
    capsule = x.__dlpack__(max_version=version)
    del x
    assert ebb.memory_stats()["live"] > live
    del capsule
    gc.collect()
    assert ebb.memory_stats()["live"] == live


def test_both_protocols_of_dlpack():
    x = ebb.tensor([1.0, 2.0])
    old, new = x.__dlpack__(), x.__dlpack__(max_version=(1, 1))
    assert '"dltensor"' in repr(old) and '"dltensor_versioned"' in repr(new)
    assert x.__dlpack_device__() == (1, 0)
    for capsule in (old, new):
        y = ebb.from_dlpack(capsule)
        assert y.tolist() == [1, 2]
        with pytest.raises(ValueError, match="taken already"):
            ebb.from_dlpack(capsule)
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(2, 0))
    with pytest.raises(ValueError, match="stream"):
        x.__dlpack__(stream=1)


def test_dlpack_marks_values_read_only_and_copies_writable():
    x = ebb.tensor([1.0, 2.0])
    assert not np.from_dlpack(x).flags.writeable
    copied = np.from_dlpack(x, copy=True)
    copied[0] = 9
    assert x.tolist() == [1, 2]


class OldLibrary:
    """An array from before DLPack 1: __dlpack__ takes no max_version."""

    def __init__(self, x):
        self.x = x

    def __dlpack__(self, stream=None):
        return self.x.__dlpack__()

    def __dlpack_device__(self):
        return (1, 0)


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16", "i64", "i32", "u8", "bool"])
def test_every_dtype_by_both_protocols(dtype):
    x = (ebb.arange(6) % 2).reshape(2, 3).cast(dtype)
    for y in (ebb.from_dlpack(x), ebb.from_dlpack(OldLibrary(x))):
        assert y.dtype == dtype and bool((x == y).all())


def test_read_only_and_empty_arrays():
    a = np.ones(3)
    a.flags.writeable = False
    assert address(ebb.from_numpy(a).numpy()) == address(a)
    assert ebb.from_numpy(np.zeros((0, 3))).shape == (0, 3)
    assert ebb.zeros((0, 2)).numpy().shape == (0, 2)
    assert ebb.from_numpy(np.array(3.5)).item() == 3.5


def test_ten_thousand_exchanges_leak_nothing():
    a = np.arange(256.0)
    x = ebb.from_numpy(a) + 0
    x.eval()
    exchange(a, x, 100)
    gc.collect()
    references, live, blocks = sys.getrefcount(a), ebb.memory_stats()["live"], sys.getallocatedblocks()
    exchange(a, x, 10_000)
    gc.collect()
    assert sys.getrefcount(a) == references
    assert ebb.memory_stats()["live"] == live
    assert sys.getallocatedblocks() - blocks < 100


def exchange(a, x, times):
    for _ in range(times):
        y = ebb.from_numpy(a)
        y.numpy()
        ebb.from_dlpack(a)
        np.from_dlpack(x)
        x.__dlpack__()
        x.__dlpack__(max_version=(1, 0))
        memoryview(x)
        np.asarray(x[1:3])


class Frame:
    """Holds numbers and gives them by __array__ alone, as a pandas.DataFrame does."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


def test_whatever_gives_an_array_is_one():
    a = np.arange(6.0).reshape(2, 3)
    for make in (ebb.asarray, ebb.tensor):
        assert make(Frame(a)).tolist() == a.tolist()
    assert ebb.asarray(Frame(a), dtype="i64").dtype == "i64"


def test_numpys_functions_take_tensors():
    a = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    x = ebb.tensor(a)
    for f in (np.sin, np.exp, np.abs, np.arctan, np.square, np.isnan, np.negative):
        found = f(x)
        assert isinstance(found, ebb.Tensor)
        np.testing.assert_allclose(found.numpy(), f(a), rtol=1e-5)
    for f in (np.add, np.multiply, np.maximum, np.less, np.power, np.matmul):
        b = np.abs(a.T) if f is np.matmul else np.abs(a)
        first = np.abs(x) if f is np.power else x
        np.testing.assert_allclose(f(first, b).numpy(), f(first.numpy(), b), rtol=1e-5)
    for f in (np.sum, np.mean, np.max, np.min, np.prod, np.std, np.var, np.cumsum, np.argmax):
        for axis in (None, 1) if f is not np.cumsum else (1,):
            np.testing.assert_allclose(np.asarray(f(x, axis=axis)), f(a, axis=axis), rtol=1e-4)
    assert isinstance(a + x, ebb.Tensor) and (np.float64(2) * x).dtype == "f32"
    b = a.copy()
    b += x
    np.testing.assert_allclose(b, 2 * a, rtol=1e-6)
    with pytest.raises(TypeError, match="numpy.add.reduce: it is not there for tensors"):
        np.add.reduce(x)
