# SPDX-License-Identifier: MIT
"""ebb.compile: functions that are built once and computed with other numbers."""

import collections
import functools
import gc
import threading
import weakref

import numpy as np
import pytest

import ebb
from ebb import nn
from test_threads import in_threads


class Counted:
    """A function that knows how often Python has called it."""

    def __init__(self, f):
        self.f, self._calls = f, []

    def __call__(self, *args):
        self._calls.append(1)  # counts right from several threads
        return self.f(*args)

    @property
    def calls(self):
        return len(self._calls)


def arrays(*shapes, seed=0, dtype=np.float32):
    random = np.random.default_rng(seed)
    return [ebb.tensor(random.standard_normal(shape).astype(dtype)) for shape in shapes]


def same_bits(a, b):
    return a.dtype is b.dtype and a.shape == b.shape and a.numpy().tobytes() == b.numpy().tobytes()


def loss(w, x, y):
    return ebb.huber_loss(ebb.tanh(x @ w), y, delta=0.5)


def test_gives_the_bits_of_the_function_and_calls_it_once():
    counted = Counted(loss)
    compiled = ebb.compile(counted)
    for seed in range(4):
        args = arrays((5, 3), (7, 5), (7, 3), seed=seed)
        assert same_bits(compiled(*args), loss(*args))
    assert counted.calls == 1


def test_of_value_and_grad():
    plain = ebb.value_and_grad(loss, argnums=(0, 1))
    compiled = ebb.compile(plain)
    for seed in range(3):
        args = arrays((5, 3), (7, 5), (7, 3), seed=seed)
        value, (of_w, of_x) = compiled(*args)
        expected, (expected_w, expected_x) = plain(*args)
        assert same_bits(value, expected) and same_bits(of_w, expected_w) and same_bits(of_x, expected_x)


def test_as_a_decorator_it_looks_like_the_function():
    @ebb.compile
    def step(w, x):
        """One step."""
        return w - 0.1 * ebb.grad(lambda w: (x * w).sum() ** 2)(w)

    assert step.__name__ == "step" and step.__doc__ == "One step."
    w = ebb.tensor([1.0, 2.0])
    for k in range(3):
        w = step(w, ebb.tensor([0.5, 0.25 * k]))
    expected = np.array([1.0, 2.0], np.float32)
    for k in range(3):
        x = np.array([0.5, 0.25 * k], np.float32)
        expected = expected - np.float32(0.1) * (2 * (x * expected).sum() * x)
    np.testing.assert_allclose(w.numpy(), expected, rtol=1e-6)


def test_builds_anew_for_other_shapes_dtypes_and_strides():
    counted = Counted(lambda x: (x * x).sum(axis=0))
    compiled = ebb.compile(counted)
    (a,), (b,) = arrays((3, 4)), arrays((4, 4), dtype=np.float64)
    for x in (a, a + 1, b, b.T, a[:, ::-1], a, b):
        x.eval()
        assert same_bits(compiled(x), counted.f(x))
    assert counted.calls == 4


def test_random_numbers_are_those_the_function_draws():
    def noisy(x):
        return nn.Dropout(0.5)(x) + ebb.rand(x.shape)

    compiled, (x,) = ebb.compile(noisy), arrays((64,))
    ebb.manual_seed(11)
    drawn = [compiled(x).numpy().copy() for _ in range(4)]
    state = ebb.random_state()
    ebb.manual_seed(11)
    expected = [noisy(x).numpy().copy() for _ in range(4)]
    assert state == ebb.random_state()
    assert all(np.array_equal(a, b) for a, b in zip(drawn, expected))
    assert not np.array_equal(drawn[0], drawn[1])


Pair = collections.namedtuple("Pair", "first second")


def test_results_have_the_structure_the_function_gave_them():
    def f(x):
        return {"pair": Pair(x + 1, [x * 2, None]), "n": (3, "text", x), "none": None, "empty": []}

    counted = Counted(f)
    compiled = ebb.compile(counted)
    for value in (1.0, 5.0):
        result = compiled(ebb.tensor(value))
        assert list(result) == ["pair", "n", "none", "empty"]
        assert isinstance(result["pair"], Pair) and float(result["pair"].first) == value + 1
        assert float(result["pair"].second[0]) == 2 * value and result["pair"].second[1] is None
        assert result["n"][:2] == (3, "text") and float(result["n"][2]) == value
        assert result["none"] is None and result["empty"] == []
        result["empty"].append(1)  # the caller's own list
    assert counted.calls == 1


def test_each_signature_has_its_structure():
    """A structure belongs to the trace it came from, whichever is used next."""
    compiled = ebb.compile(lambda x: [x[i] for i in range(len(x))] if x.ndim == 1 else {"sum": x.sum(), "rank": x.ndim})
    two, three, square = arrays((2,), (3,), (2, 2))
    for _ in range(3):
        assert len(compiled(two)) == 2
        assert compiled(square)["rank"] == 2
        assert [float(v) for v in compiled(three)] == three.tolist()
    for n in 2 * list(range(1, 70)):  # more than are kept
        assert len(compiled(ebb.ones(n))) == n
    assert ebb.compile(lambda x: None)(two) is None
    assert ebb.compile(lambda x: (7, "seven"))(two) == (7, "seven")
    assert ebb.compile(lambda x: x)(two).tolist() == two.tolist()
    assert float(ebb.compile(lambda: ebb.tensor(3.0) + 1)()) == 4


def test_arguments_may_be_arrays_numbers_and_trees():
    def f(params, x, scale):
        return {"out": scale * (x @ params["w"] + params["b"][0])}

    counted = Counted(f)
    compiled = ebb.compile(counted)
    w, b = arrays((3, 2), (2,))
    for seed in range(3):
        x = np.random.default_rng(seed).standard_normal((4, 3)).astype(np.float32)
        got = compiled({"w": w, "b": [b]}, x, 0.5 + seed)["out"]
        np.testing.assert_array_equal(got.numpy(), f({"w": w, "b": [b]}, x, 0.5 + seed)["out"].numpy())
    assert counted.calls == 1
    compiled({"w": w, "b": (b,)}, x, 1.0)  # a tuple is another structure
    assert counted.calls == 2
    value, gradients = ebb.compile(ebb.value_and_grad(lambda p, x: (x @ p["w"]).sum()))({"w": w}, x)
    np.testing.assert_allclose(gradients["w"].numpy(), np.repeat(x.sum(axis=0)[:, None], 2, axis=1), rtol=1e-5)


def test_inside_grad_the_function_itself_is_called():
    compiled = ebb.compile(lambda x: {"y": (x**3).sum(), "half": 0.5})
    x = ebb.tensor([1.0, 2.0])
    compiled(x)
    assert ebb.grad(lambda t: compiled(t)["y"] * compiled(t)["half"])(x).tolist() == [1.5, 6]
    v = ebb.variable(x)
    assert ebb.backward(compiled(v)["y"])[v].tolist() == [3, 12]
    assert ebb.hessian(lambda t: compiled(t)["y"], x).tolist() == [[6, 0], [0, 12]]
    outer = ebb.compile(lambda t: ebb.grad(lambda s: compiled(s)["y"])(t))
    assert outer(x).tolist() == outer(x).tolist() == [3, 12]
    with ebb.Eager():
        assert float(compiled(x)["y"]) == 9


@pytest.mark.parametrize(
    "look",
    [
        lambda x: x * x.sum().item(),
        lambda x: x * float(x.sum()),
        lambda x: ebb.tensor(x.numpy() * 2),
        lambda x: x if x.sum() > 0 else -x,
        lambda x: x + len(str(x)),
        lambda x: (x + 1).eval(),
    ],
)
def test_numbers_cannot_be_looked_at(look):
    (x,) = arrays((3,))
    with pytest.raises(ValueError, match="compile: the function reads values that depend"):
        ebb.compile(look)(x)
    look(x)


def test_variables_must_be_arguments():
    ebb.manual_seed(0)
    layer, (x,) = nn.Linear(3, 2), arrays((4, 3))
    with pytest.raises(ValueError, match=r"uses a variable of shape \[.*\] that is not one of its inputs"):
        ebb.compile(lambda x: layer(x))(x)
    w = ebb.variable(ebb.ones(3))
    with pytest.raises(ValueError, match="make the variable an input"):
        ebb.compile(lambda x: x @ w)(x)
    frozen = ebb.stop_gradient(w)
    assert same_bits(ebb.compile(lambda x: x @ frozen)(x), x @ frozen)


def test_wrong_uses_are_named():
    (x,) = arrays((2,))
    with pytest.raises(TypeError, match="compile: takes a function, got 3"):
        ebb.compile(3)
    with pytest.raises(TypeError, match="loss takes its arguments by position, got the keyword y; .*functools.partial"):
        ebb.compile(loss)(x, x, y=x)
    assert float(ebb.compile(functools.partial(ebb.sum, axis=0))(x)) == float(x.sum(axis=0))
    with pytest.raises(TypeError):
        ebb.compile(lambda x, y: x)(x, None)
    with pytest.raises(TypeError):
        ebb.compile(lambda x, y: x)(x)


def test_errors_of_the_function_leave_it_as_it_was():
    broken = [True]

    def f(x):
        if broken[0]:
            raise KeyError("not yet")
        return x + 1

    compiled, (x,) = ebb.compile(f), arrays((2,))
    for _ in range(2):
        with pytest.raises(KeyError, match="not yet"):
            compiled(x)
    broken[0] = False
    assert same_bits(compiled(x), x + 1)
    picked = ebb.compile(lambda x, y: ebb.cross_entropy(x, y))
    logits = ebb.zeros((2, 3))
    assert float(picked(logits, ebb.tensor([0, 2]))) > 0
    with pytest.raises(IndexError, match=r"target\[1\] = 7 is outside"):
        picked(logits, ebb.tensor([0, 7]))
    assert float(picked(logits, ebb.tensor([0, 2]))) > 0


def test_rules_in_python_are_part_of_it():
    clipped = ebb.custom_gradient(lambda g, y, inputs: [g.clamp(-1, 1)])(lambda x: x * 1)
    plain = ebb.grad(lambda x: (10 * clipped(x)).sum() + (clipped(x) * x).sum())
    compiled = ebb.compile(plain)
    for seed in range(3):
        (x,) = arrays((5,), seed=seed)
        assert same_bits(compiled(x), plain(x))


def test_threads_share_a_compiled_function():
    counted = Counted(ebb.value_and_grad(loss))
    compiled = ebb.compile(counted)
    first = arrays((5, 3), (7, 5), (7, 3))
    in_threads(1, lambda k: compiled(*first))  # built in a thread that is gone

    def work(k):
        for i in range(20):
            args = arrays((5, 3), (7 + i % 3, 5), (7 + i % 3, 3), seed=k)
            value, gradient = compiled(*args)
            expected, expected_gradient = counted.f(*args)
            assert same_bits(value, expected) and same_bits(gradient, expected_gradient)
        return True

    assert all(in_threads(6, work))
    assert 3 <= counted.calls <= 1 + 2 * 6


def test_computing_lets_go_of_the_interpreter():
    """A thread that computes and one that needs the interpreter do not wait for each other."""
    compiled, (x,) = ebb.compile(lambda x: x @ x), arrays((200, 200))
    expected = compiled(x)
    stop = threading.Event()
    spun = []

    def spin():
        while not stop.is_set():
            spun.append(ebb.custom_gradient(lambda g, y, i: [g])(lambda t: t + 1)(x).shape)
            spun.clear()

    thread = threading.Thread(target=spin)
    thread.start()
    try:
        for _ in range(50):
            assert same_bits(compiled(x), expected)
    finally:
        stop.set()
        thread.join(60)
    assert not thread.is_alive()


def test_a_function_that_refers_to_itself_is_collected():
    def make():
        @ebb.compile
        def f(x):
            return x + 1 if x.ndim == 1 else f(x[0])

        f(ebb.ones(2))
        f(ebb.ones((3, 2)))
        return weakref.ref(f)

    reference = make()
    gc.collect()
    assert reference() is None


def test_numbers_may_be_put_where_the_function_computes():
    """Nothing moves: numbers belong to no device until they are put on one."""
    x = ebb.tensor([1.0, 2.0, 3.0])

    @ebb.compile
    def f(x):
        made = ebb.zeros((3,)).to("cpu") + ebb.ones(3, device="cpu") + ebb.zeros_like(x, device="cpu")
        return x * made + ebb.arange(3, device="cpu") + x.new_full((3,), 2.0)

    assert f(x).tolist() == f(x).tolist() == [3.0, 5.0, 7.0]
    draw = ebb.compile(lambda x: x + ebb.rand(3, device="cpu"))
    ebb.manual_seed(3)
    first, second = draw(x).tolist(), draw(x).tolist()
    ebb.manual_seed(3)
    assert first == (x + ebb.rand(3)).tolist() != second


def test_formulas_with_numbers_of_their_own_are_compiled():
    x = ebb.randn((4, 3))
    scattered, resized = lambda x: ebb.slice_scatter(x, x[:2], 0, 0, 4, 2), lambda x: ebb.interpolate(x.reshape(1, 1, 4, 3), 7)
    for f in (ebb.pdist, scattered, resized):
        assert ebb.compile(f)(x).tolist() == f(x).tolist()
