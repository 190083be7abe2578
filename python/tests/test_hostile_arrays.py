# SPDX-License-Identifier: MIT
"""Arrays of other libraries whose fields lie: a clean error, and the memory is let go of exactly once.

Their memory itself is trusted, as it belongs to the same process; whatever can be checked without reading it, is."""

import ctypes
import itertools
import random

import numpy as np
import pytest

import ebb
from capsules import NAMES, Deleter, Managed, ManagedVersioned, int64s, new_capsule

INT64_MAX, INT64_MIN = 2**63 - 1, -(2**63)


# ---- DLPack ---------------------------------------------------------------------------------------------------------


class Exporter:
    """Six floats as a capsule; `change` spoils its fields. Counts how often the deleter was called."""

    def __init__(self, kind=Managed, sizes=(2, 3), steps=None, name=None, major=1, deleter=True, **change):
        self.memory = (ctypes.c_float * 6)(0, 1, 2, 3, 4, 5)
        self.sizes, self.steps = int64s(sizes), int64s(steps)
        self.deleted = 0
        self.managed = kind()
        if kind is ManagedVersioned:
            self.managed.major = major
        a = self.managed.array
        a.data = ctypes.addressof(self.memory)
        a.device_type, a.device_id, a.rank = 1, 0, len(sizes)
        a.code, a.bits, a.lanes = 2, 32, 1
        a.shape = ctypes.cast(self.sizes, ctypes.POINTER(ctypes.c_int64))
        if self.steps is not None:
            a.strides = ctypes.cast(self.steps, ctypes.POINTER(ctypes.c_int64))

        def delete(_):
            self.deleted += 1

        self.callback = Deleter(delete)
        if deleter:
            self.managed.deleter = self.callback
        for field, value in change.items():
            setattr(a, field, value)
        self.name = NAMES[kind] if name is None else name  # a capsule does not copy it
        self.capsule = new_capsule(ctypes.addressof(self.managed), self.name, None)

    def __dlpack__(self, **_):
        return self.capsule


null = ctypes.POINTER(ctypes.c_int64)()

# The corrupted part, and the words that name it.
BAD_CAPSULES = {
    "negative rank": (dict(rank=-1), "-1 dimensions"),
    "nine axes": (dict(rank=9), "9 dimensions"),
    "the largest rank": (dict(rank=2**31 - 1), "dimensions"),
    "no shape": (dict(shape=null), "no sizes"),
    "no memory": (dict(data=None), "has no memory"),
    "no memory, with an offset": (dict(data=None, byte_offset=2**40), "has no memory"),
    "unknown device": (dict(device_type=77), "device of type 77"),
    "negative device": (dict(device_type=-1), "device of type -1"),
    "complex numbers": (dict(code=5, bits=64), "kind 5 with 64 bits"),
    "an unknown kind": (dict(code=255), "kind 255"),
    "no bits": (dict(bits=0), "0 bits"),
    "odd bits": (dict(bits=31), "31 bits"),
    "four lanes": (dict(lanes=4), "no dtype"),
    "no lanes": (dict(lanes=0), "no dtype"),
}

BAD_LAYOUTS = {
    "a negative size": ((2, -3), None, "negative"),
    "the least size": ((INT64_MIN,), None, "negative"),
    "more than memory has": ((INT64_MAX,), None, "more elements than memory"),
    "a product that overflows": ((2**32, 2**32), None, "more elements than memory"),
    "a product that overflows to zero": ((2**32, 2**32, 2**32), (0, 0, 0), "more elements than memory"),
    "bytes that overflow": ((2, 3), (2**62, 1), "lead out of memory"),
    "a stride of the least number": ((2, 3), (INT64_MIN, 1), "lead out of memory"),
    "an extent that overflows": ((2**30, 3), (2**40, 1), "lead out of memory"),
    "extents that overflow together": ((2, 2), (2**60, -(2**60) - 2**59), "lead out of memory"),
    "a sum of extents that overflows": ((3, 3), (2**59, 2**59), "lead out of memory"),
}


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("case", BAD_CAPSULES)
def test_spoiled_capsules_are_refused(case, kind):
    change, words = BAD_CAPSULES[case]
    source = Exporter(kind, **change)
    with pytest.raises((ValueError, TypeError), match=words):
        ebb.from_dlpack(source)
    assert source.deleted <= 1  # once it was taken, it is also given back


@pytest.mark.parametrize("copy", [None, True, False])
@pytest.mark.parametrize("case", BAD_LAYOUTS)
def test_impossible_layouts_are_refused(case, copy):
    shape, strides, words = BAD_LAYOUTS[case]
    source = Exporter(sizes=shape, steps=strides)
    with pytest.raises(ValueError, match=words):
        ebb.from_dlpack(source, copy=copy)
    assert source.deleted <= 1


def test_a_broadcast_larger_than_memory_is_refused():
    source = Exporter(sizes=(2**58,), steps=(0,))
    with pytest.raises((MemoryError, ValueError), match="from_dlpack"):
        ebb.from_dlpack(source)
    assert source.deleted == 1


def test_names_and_versions_that_do_not_fit_are_refused():
    for name in (b"", b"used_dltensor", b"dltensor_", b"something"):
        with pytest.raises(ValueError, match="holds no array"):
            ebb.from_dlpack(Exporter(name=name))
    for major in (0, 2, 2**32 - 1):
        # Nothing else of it is looked at: another version may have other fields.
        with pytest.raises(ValueError, match=f"version {major} "):
            ebb.from_dlpack(Exporter(ManagedVersioned, major=major, rank=-7, shape=null))
    source = Exporter()
    assert ebb.from_dlpack(source).tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(ValueError, match="taken already"):
        ebb.from_dlpack(source)


def test_what_is_no_capsule_is_refused():
    class Gives:
        def __init__(self, what):
            self.what = what

        def __dlpack__(self, **_):
            if isinstance(self.what, Exception):
                raise self.what
            return self.what

    for what in (None, 3, "dltensor", object(), [1, 2]):
        with pytest.raises(ValueError, match="holds no array"):
            ebb.from_dlpack(Gives(what))
    with pytest.raises(ZeroDivisionError):
        ebb.from_dlpack(Gives(ZeroDivisionError()))
    with pytest.raises(AttributeError):
        ebb.from_dlpack(object())


def test_arrays_without_deleter_and_without_elements():
    source = Exporter(deleter=False)
    assert ebb.from_dlpack(source).tolist() == [[0, 1, 2], [3, 4, 5]]
    nothing = Exporter(sizes=(0, 5), steps=(7, -9), data=None)
    assert ebb.from_dlpack(nothing).shape == (0, 5)


def test_random_fields_end_in_an_array_or_an_error():
    """Every field that needs no memory behind it, at random; sizes and strides stay within the six floats or overflow."""
    draw = random.Random(1)
    sizes = [0, 1, 2, 3, -1, 2**31, 2**61, INT64_MAX, INT64_MIN]
    taken = refused = 0
    for _ in range(20_000):
        rank = draw.choice([0, 1, 2, 3, 8])
        shape = [draw.choice(sizes) for _ in range(rank)]
        strides = draw.choice([None, [draw.choice([0, 0, INT64_MAX, INT64_MIN, 2**62]) for _ in range(rank)]])
        elements = 1
        for s in shape:
            elements *= max(s, 0)
        if strides is None and elements > 6:  # it would be read past the end: their memory is trusted
            continue
        if strides is not None and 6 < elements < 2**59:  # a copy that takes long, or all memory
            continue
        change = {}
        if draw.random() < 0.3:
            change["rank"] = draw.choice([-1, 9, 2**31 - 1, -(2**31)])
        if draw.random() < 0.3:
            change["code"], change["bits"] = draw.randrange(256), draw.choice([1, 8, 16, 32])
        if draw.random() < 0.3:
            change["lanes"] = draw.randrange(65536)
        if draw.random() < 0.2:
            change["data"] = None
        if draw.random() < 0.2:
            change["device_type"] = draw.choice([0, 4, 77, -1, 2**31 - 1])
        source = Exporter(draw.choice(list(NAMES)), shape, strides, **change)
        try:
            x = ebb.from_dlpack(source, copy=draw.choice([None, True, False]))
            assert x.numel() == elements and ebb.eval(x + x) is None
            taken += 1
            del x
        except (ValueError, TypeError, MemoryError):
            refused += 1
        assert source.deleted <= 1
    assert taken > 100 and refused > 1000


# ---- the buffer protocol --------------------------------------------------------------------------------------------


class Buffer(ctypes.Structure):
    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("suboffsets", ctypes.POINTER(ctypes.c_ssize_t)),
        ("internal", ctypes.c_void_p),
    ]


GetBuffer = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(Buffer), ctypes.c_int)
ReleaseBuffer = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(Buffer))
kAsBuffer = 20 * ctypes.sizeof(ctypes.c_void_p)  # where a type object has its table of the protocol


def hostile_buffer(sizes=(2, 3), steps=(12, 4), **change):
    """An object that exports six floats, with some fields of the buffer spoiled."""

    class Object:
        pass

    Object.memory = (ctypes.c_float * 6)(0, 1, 2, 3, 4, 5)
    Object.sizes = (ctypes.c_ssize_t * max(len(sizes), 1))(*sizes)
    Object.steps = (ctypes.c_ssize_t * max(len(steps), 1))(*steps)
    Object.open = Object.asked = 0

    def get(self, view, flags):
        v = view.contents
        v.buf, v.len, v.itemsize, v.readonly, v.ndim = ctypes.addressof(Object.memory), 24, 4, 1, len(sizes)
        v.format = b"f"
        v.shape = ctypes.cast(Object.sizes, ctypes.POINTER(ctypes.c_ssize_t))
        v.strides = ctypes.cast(Object.steps, ctypes.POINTER(ctypes.c_ssize_t))
        v.suboffsets, v.internal = None, None
        for field, value in change.items():
            setattr(v, field, value)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
        v.obj = self
        Object.open += 1
        Object.asked += 1
        return 0

    def release(self, view):
        Object.open -= 1

    Object.calls = (GetBuffer(get), ReleaseBuffer(release))
    table = ctypes.cast(
        ctypes.c_void_p.from_address(id(Object) + kAsBuffer).value, ctypes.POINTER(ctypes.c_void_p)
    )
    table[0], table[1] = (ctypes.cast(call, ctypes.c_void_p).value for call in Object.calls)
    made = Object()
    return made


def no_sizes():
    return ctypes.POINTER(ctypes.c_ssize_t)()


some_suboffsets = (ctypes.c_ssize_t * 2)(0, 0)

BAD_BUFFERS = {
    "negative rank": (dict(ndim=-1), "-1 dimensions"),
    "nine axes": (dict(ndim=9), "9 dimensions"),
    "the least rank": (dict(ndim=-(2**31)), "dimensions"),
    "no shape": (dict(shape=no_sizes()), "by sizes and strides"),
    "no strides": (dict(strides=no_sizes()), "by sizes and strides"),
    "suboffsets": (
        dict(suboffsets=ctypes.cast(some_suboffsets, ctypes.POINTER(ctypes.c_ssize_t))),
        "by sizes and strides",
    ),
    "no memory": (dict(buf=None), "has no memory"),
    "an empty format": (dict(format=b""), "format ''"),
    "a struct": (dict(format=b"T{f:a:f:b:}"), "no dtype for records"),
    "an unknown format": (dict(format=b"Z"), "format 'Z'"),
    "a foreign byte order": (dict(format=b">f"), "format '>f'"),
    "doubles of four bytes": (dict(format=b"d"), "'d' and 4 bytes"),
    "bytes of four bytes": (dict(format=None), "'B' and 4 bytes"),
    "floats of no bytes": (dict(itemsize=0), "'f' and 0 bytes"),
    "floats of negative bytes": (dict(itemsize=-4), "'f' and -4 bytes"),
    "integers of three bytes": (dict(format=b"i", itemsize=3), "format 'i'"),
}

BAD_BUFFER_LAYOUTS = {
    "a negative size": ((2, -3), (12, 4), "negative"),
    "more than memory has": ((INT64_MAX, 2), (0, 0), "more elements than memory"),
    "an extent that overflows": ((2, 3), (12, INT64_MAX), "lead out of memory"),
    "a negative extent that overflows": ((3, 3), (INT64_MIN, 4), "lead out of memory"),
}


@pytest.mark.parametrize("case", BAD_BUFFERS)
@pytest.mark.parametrize("call", [ebb.from_numpy, ebb.tensor, ebb.asarray])
def test_spoiled_buffers_are_refused_and_released(case, call):
    change, words = BAD_BUFFERS[case]
    source = hostile_buffer(**change)
    with pytest.raises((ValueError, TypeError)) as error:
        call(source)
    assert words in str(error.value)
    assert source.asked == 1 and source.open == 0


@pytest.mark.parametrize("case", BAD_BUFFER_LAYOUTS)
def test_impossible_layouts_of_buffers_are_refused_and_released(case):
    shape, strides, words = BAD_BUFFER_LAYOUTS[case]
    source = hostile_buffer(shape, strides)
    with pytest.raises(ValueError, match=words):
        ebb.from_numpy(source)
    assert source.asked == 1 and source.open == 0


def test_an_honest_buffer_made_the_same_way_is_shared():
    source = hostile_buffer()
    x = ebb.from_numpy(source)
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]] and source.open == 1
    del x
    assert source.open == 0


def test_axes_of_one_element_do_not_hide_the_order_of_the_others():
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    for view in (a.T[:, None, :], a[None].transpose(2, 0, 1), a[:, None, None, :], a.T[..., None]):
        x = ebb.from_dlpack(view, copy=False)
        assert np.array_equal(x.numpy(), view) and np.shares_memory(x.numpy(), a)
    for shape in itertools.product((1, 2), repeat=4):
        b = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        for axes in itertools.permutations(range(4)):
            assert np.array_equal(ebb.from_dlpack(b.transpose(axes), copy=False).numpy(), b.transpose(axes))
