# SPDX-License-Identifier: MIT
"""Every public function through the same questions: halves against f64, f32 against f64, gradients against differences, another
device, other strides, nothing at all, NaN and infinity. function_cases.py is the table."""

import inspect
import math

import numpy as np
import pytest

import ebb
import second_device
from function_cases import CASES, ELSEWHERE
from function_specs import SIZES, Spec

DEVICE = second_device.find()
IDS = [f"{case.name}-{k}" for k, case in enumerate(CASES)]
EPSILON = {"f16": 2.0**-10, "bf16": 2.0**-7, "f32": 2.0**-23, "f64": 2.0**-52}
SMALLEST = {"f16": 2.0**-14, "bf16": 2.0**-126, "f32": 2.0**-126, "f64": 2.0**-1022}

each = pytest.mark.parametrize("case", CASES, ids=IDS)


def tensors(case, arrays, dtype="f32", device="cpu"):
    """The arrays as the case's tensors; reals in the dtype."""
    return [
        ebb.tensor(a, dtype if spec.real else None).to(device) for spec, a in zip(case.specs(), arrays)
    ]


def numbers(x):
    """A result as f64, or as it is where it has no dtype."""
    return x.cpu().cast("f64").numpy() if isinstance(x, ebb.Tensor) else np.asarray(x)


def rounded(case, dtype, seed=0, sizes=SIZES):
    """Arrays whose reals are numbers of that dtype."""
    arrays = case.arrays(seed, sizes)
    return [
        np.array(ebb.tensor(a).cast(dtype).cast("f64").numpy()) if spec.real else a
        for spec, a in zip(case.specs(), arrays)
    ]


def unit(x, dtype):
    """The distance of neighbouring numbers around |x|."""
    return EPSILON[dtype] * np.exp2(np.floor(np.log2(np.maximum(np.abs(x), SMALLEST[dtype]))))


def is_real(case):
    return any(spec.real for spec in case.specs())


def require_close(found, expected, allowed, what):
    assert found.shape == expected.shape, f"{what}: shape {found.shape} instead of {expected.shape}"
    with np.errstate(invalid="ignore"):
        same = (found == expected) | (np.isnan(found) & np.isnan(expected)) | (np.abs(found - expected) <= allowed)
    if not np.all(same):
        at = tuple(int(k) for k in np.argwhere(~same)[0])
        bound = np.broadcast_to(allowed, expected.shape)[at]
        raise AssertionError(f"{what}: element {at} is {found[at]!r} instead of {expected[at]!r}, {bound!r} are allowed")


def largest(expected):
    finite = np.abs(expected[np.isfinite(expected)])
    return max(1.0, float(finite.max())) if finite.size else 1.0


@each
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_halves_are_rounded_once(case, dtype):
    if not is_real(case) or case.random or case.roundings is None:
        return
    arrays = rounded(case, dtype)
    found, expected = case(tensors(case, arrays, dtype)), case(tensors(case, arrays, "f64"))
    assert len(found) == len(expected)
    for k, (a, b) in enumerate(zip(found, expected)):
        if not isinstance(b, ebb.Tensor) or not b.dtype.is_floating:
            np.testing.assert_array_equal(numbers(a), numbers(b))
            continue
        reference, result = numbers(b), a.dtype.name
        assert result == dtype or case.roundings == 0 and result == b.dtype.name, f"result {k} of {dtype} is {result}"
        inner = case.digits * EPSILON["f32"] * largest(reference)
        allowed = 0.5 * case.roundings * unit(reference, dtype) * (1 + 2.0**-10) + inner
        require_close(numbers(a), reference, allowed, f"result {k} of {dtype}")


@each
def test_f32_has_the_digits_of_f32(case):
    if not is_real(case) or case.random:
        return
    arrays = rounded(case, "f32")
    found, expected = case(tensors(case, arrays)), case(tensors(case, arrays, "f64"))
    for k, (a, b) in enumerate(zip(found, expected)):
        if isinstance(b, ebb.Tensor) and b.dtype.is_floating:
            assert a.dtype.name == "f32" or a.dtype.name == b.dtype.name == "f64" and case.roundings == 0
            reference = numbers(b)
            require_close(numbers(a), reference, case.digits * EPSILON["f32"] * largest(reference), f"result {k}")
        else:
            np.testing.assert_array_equal(numbers(a), numbers(b))


@each
@pytest.mark.parametrize("first", [0, 1])
def test_mixed_dtypes_have_the_digits_of_the_widest(case, first):
    """Every second real tensor in f32: its numbers, and no others, are rounded."""
    places = [k for k, spec in enumerate(case.specs()) if spec.real]
    if len(places) < 2 or case.random or case.mixed is None or not case.mixed and first == 0:
        return
    narrow = set(places[first::2])
    arrays, short = case.arrays(), rounded(case, "f32")
    arrays = [short[k] if k in narrow else a for k, a in enumerate(arrays)]
    wide = tensors(case, arrays, "f64")
    mixed = [x.cast("f32") if k in narrow else x for k, x in enumerate(wide)]
    for k, (found, expected) in enumerate(zip(case(mixed), case(wide))):
        if isinstance(expected, ebb.Tensor) and expected.dtype.is_floating:
            assert found.dtype == expected.dtype, f"result {k} is {found.dtype}"
            reference = numbers(expected)
            require_close(numbers(found), reference, 64 * EPSILON["f64"] * largest(reference), f"result {k}")


@each
@pytest.mark.parametrize("dtype", ["i64", "i32", "u8"])
def test_integers_give_what_their_reals_give(case, dtype):
    """Or are refused; a result of integers is exact."""
    if not is_real(case) or case.random or case.integers is None:
        return
    arrays = [np.round(3 * a) + 0.0 if spec.real else a for spec, a in zip(case.specs(), case.arrays())]
    arrays = [np.abs(a) if spec.real and dtype == "u8" else a for spec, a in zip(case.specs(), arrays)]
    try:
        found = case(tensors(case, arrays, dtype))
        ebb.eval([y for y in found if isinstance(y, ebb.Tensor)])
    except (TypeError, ValueError):
        return
    for k, (a, b) in enumerate(zip(found, case(tensors(case, arrays, "f64")))):
        reference = numbers(b)
        whole = not isinstance(a, ebb.Tensor) or not a.dtype.is_floating
        if isinstance(a, ebb.Tensor) and a.dtype == "u8":
            reference = reference % 256  # bytes wrap around
        allowed = 0.0 if whole else case.digits * EPSILON["f32"] * largest(reference)
        require_close(np.asarray(numbers(a), np.float64), np.asarray(reference, np.float64), allowed, f"result {k} of {dtype}")


def of_reals(case, given):
    """(f, xs): the results as one vector, as a function of the real tensors alone."""
    places = [k for k, spec in enumerate(case.specs()) if spec.differentiable]

    def f(*xs):
        new = list(given)
        for place, x in zip(places, xs):
            new[place] = x
        parts = [y.reshape((-1,)) for y in case(new) if isinstance(y, ebb.Tensor) and y.dtype.is_floating]
        return ebb.cat([p.cast(given[places[0]].dtype) for p in parts], 0)

    return f, [given[place] for place in places]


def is_differentiable(case):
    return case.gradient and is_real(case)


@each
def test_gradients_are_those_of_differences(case):
    if is_differentiable(case):
        f, xs = of_reals(case, tensors(case, case.arrays(), "f64"))
        ebb.gradcheck.require_gradients(f, xs)


def weighted(f):
    """One number of f whose gradient is pulled back from different numbers."""

    def one(*xs):
        y = f(*xs)
        return (y * ebb.sin(ebb.arange(y.shape[0]).cast(y.dtype) * 1.7 + 1.0).to(y.device)).sum()

    return one


@each
def test_on_another_device_it_is_the_same(case):
    arrays = case.arrays()
    here, there = tensors(case, arrays), tensors(case, arrays, device=DEVICE)
    expected, found = case(here), case(there)
    assert len(found) == len(expected)
    for k, (a, b) in enumerate(zip(found, expected)):
        if isinstance(b, ebb.Tensor):
            if here and b.numel():
                assert a.device == DEVICE, f"result {k} is on {a.device}"
            reference = numbers(b)
            require_close(numbers(a), reference, 1e-5 * largest(reference), f"result {k} on {DEVICE}")
        else:
            assert a == b
    if not is_differentiable(case):
        return
    (f, xs), (g, ys) = of_reals(case, here), of_reals(case, there)
    wrt = tuple(range(len(xs)))
    for k, (a, b) in enumerate(zip(ebb.grad(weighted(g), wrt)(*ys), ebb.grad(weighted(f), wrt)(*xs))):
        assert a.device == DEVICE
        reference = numbers(b)
        require_close(numbers(a), reference, 1e-4 * largest(reference), f"gradient {k} on {DEVICE}")


@each
def test_strides_do_not_matter(case):
    """Every other element of an array whose axes are turned around."""
    given = tensors(case, case.arrays())
    strided = []
    for x in given:
        wide = ebb.repeat_interleave(x, 2, -1) if x.ndim and x.shape[-1] else x
        turned = wide.permute(tuple(reversed(range(x.ndim)))).contiguous().eval().permute(tuple(reversed(range(x.ndim))))
        strided.append(turned[..., ::2] if x.ndim and x.shape[-1] else turned)
    for k, (a, b) in enumerate(zip(case(strided), case(given))):
        reference = numbers(b)
        if reference.dtype == np.float64:
            require_close(numbers(a), reference, 1e-5 * largest(reference), f"result {k}")
        else:
            np.testing.assert_array_equal(numbers(a), reference)


@each
def test_nothing_gives_nothing_or_a_clear_error(case):
    empty = {**SIZES, "m": 0}
    if not any(s == "m" for spec in case.specs() for s in spec.shape):
        return
    given = tensors(case, case.arrays(sizes=empty))
    try:
        for y in case(given):
            numbers(y)
    except (ValueError, IndexError) as e:
        assert str(e).split(":")[0].split(" ")[0].lower() in str(e).lower() and "internal" not in str(e)
        assert len(str(e)) > 20
    if is_differentiable(case):
        f, xs = of_reals(case, given)
        try:
            for g, x in zip(ebb.grad(lambda *t: f(*t).sum(), tuple(range(len(xs))))(*xs), xs):
                assert g.shape == x.shape
        except (ValueError, IndexError):
            pass


@each
def test_a_nan_is_seen(case):
    """Where the first real tensor has one, a result has one; f32 and f64 agree on which numbers are not finite."""
    if not is_real(case) or case.random or case.nan == "undefined":
        return
    first = next(k for k, spec in enumerate(case.specs()) if spec.real)
    for bad in (math.nan, math.inf, -math.inf):
        arrays = rounded(case, "f32")
        if arrays[first].size == 0:
            return
        arrays[first].flat[arrays[first].size // 2] = bad
        try:
            wide = [numbers(y) for y in case(tensors(case, arrays, "f64"))]
        except ValueError as e:  # a factorization refuses it
            assert any(word in str(e) for word in ("NaN", "nan", "infinit", "inf", "outside", "definite")), str(e)
            continue
        narrow = [numbers(y) for y in case(tensors(case, arrays))]
        if math.isnan(bad) and case.nan == "spreads":
            assert any(np.isnan(y).any() for y in wide), "a NaN is lost"
        for k, (a, b) in enumerate(zip(narrow, wide)):
            if b.dtype == np.float64:
                np.testing.assert_array_equal(np.isnan(a), np.isnan(b), f"result {k} with {bad}")
                np.testing.assert_array_equal(np.isinf(a), np.isinf(b), f"result {k} with {bad}")


METHODS_OF_THEIR_OWN = {"unfold": "windows of one axis", "where": "x.where(mask, other)", "numel": "it is asked, not computed"}


@each
def test_methods_are_the_functions(case):
    if not hasattr(ebb.Tensor, case.name) or not case.args or not isinstance(case.args[0], Spec) or case.call:
        return
    if case.name in METHODS_OF_THEIR_OWN:
        return
    given = tensors(case, case.arrays())
    function = [numbers(y) for y in case(given)]
    for k, (found, expected) in enumerate(zip(case(given, getattr(ebb.Tensor, case.name)), function)):
        if expected.dtype != np.float64:
            assert found == expected
            continue
        require_close(numbers(found), expected, 1e-6 * largest(expected), f"result {k}")  # sums of another plan


# ---- the table


def public_functions(prefix, module):
    """Functions that people call: not classes, not those of other modules."""
    for name, value in sorted(vars(module).items()):
        if name.startswith("_") or inspect.isclass(value) or inspect.ismodule(value) or not callable(value):
            continue
        yield prefix + name, value


def test_every_public_function_has_a_case_or_a_reason():
    known = {case.name for case in CASES} | set(ELSEWHERE)
    missing = []
    for prefix, module in (("", ebb), ("linalg.", ebb.linalg), ("nn.functional.", ebb.nn.functional)):
        for name, value in public_functions(prefix, module):
            same = name.rpartition(".")[2]
            if name in known or same in known and getattr(ebb, same, None) is value:
                continue
            missing.append(name)
    assert not missing
