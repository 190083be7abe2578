# SPDX-License-Identifier: MIT
"""Gradients of Python functions, custom rules, checkpoints, and the checks that hold them."""

import numpy as np
import pytest

import ebb
from ebb.gradcheck import check_gradients, check_second_gradients, require_gradients


def cube(x):
    return (x**3).sum()


def test_grad_and_its_grad():
    x = ebb.tensor([1.0, 2.0, -3.0])
    assert ebb.grad(cube)(x).tolist() == [3, 12, 27]
    assert ebb.grad(lambda t: ebb.grad(cube)(t).sum())(x).tolist() == [6, 12, -18]
    value, gradient = ebb.value_and_grad(cube)(x)
    assert value.item() == -18 and gradient.tolist() == [3, 12, 27]


def test_grad_of_several_arguments_and_of_trees():
    def f(a, params, scale=1.0):
        return (a * params["w"]).sum() * scale + (params["b"][0] ** 2).sum()

    a, params = ebb.tensor([1.0, 2.0]), {"w": ebb.tensor([3.0, 4.0]), "b": [ebb.tensor([5.0])]}
    of_a, of_params = ebb.grad(f, argnums=(0, 1))(a, params, scale=2.0)
    assert of_a.tolist() == [6, 8]
    assert of_params["w"].tolist() == [2, 4] and of_params["b"][0].tolist() == [10]
    (value, aux), gradient = ebb.value_and_grad(lambda x: (x.sum(), "more"), has_aux=True)(a)
    assert aux == "more" and gradient.tolist() == [1, 1] and value.item() == 3
    with pytest.raises(ValueError, match="argument 3"):
        ebb.grad(f, argnums=3)(a, params)


def test_vjp_jvp_jacobian_hvp_hessian():
    x, v = ebb.tensor([1.0, 2.0]), ebb.tensor([1.0, -1.0])
    y, pull = ebb.vjp(lambda t: t**2, x)
    assert y.tolist() == [1, 4] and pull(v).tolist() == [2, -4]
    assert ebb.jvp(lambda t: t**2, x, v)[1].tolist() == [2, -4]
    assert ebb.jacobian(lambda t: t**2, x).tolist() == [[2, 0], [0, 4]]
    assert ebb.hvp(cube, x, v).tolist() == [6, -12]
    assert ebb.hessian(cube, x).tolist() == [[6, 0], [0, 12]]
    assert ebb.diagonal_hessian(cube, x).tolist() == [6, 12]
    assert ebb.fisher_diagonal(lambda t: t**2, x).shape == (2,)
    assert ebb.gauss_newton_product(lambda t: t**2, lambda t: (t**2).sum(), x, v).tolist() == [8, -32]


def test_jacobian_and_hessian_as_functions():
    x, y = ebb.tensor([1.0, 2.0]), ebb.tensor([3.0, 5.0])
    assert ebb.jacobian(lambda t: t**2)(x).tolist() == [[2, 0], [0, 4]]
    assert ebb.hessian(cube)(x).tolist() == [[6, 0], [0, 12]]
    assert ebb.hessian(lambda a, b, scale: (a**2 * b).sum() * scale)(x, y, scale=0.5).tolist() == [[3, 0], [0, 5]]
    assert ebb.jacobian(lambda a, b: a * b, argnums=1)(x, y).tolist() == [[1, 0], [0, 2]]
    assert [j.tolist() for j in ebb.jacobian(lambda a, b: a * b, argnums=(0, -1))(x, y)] == [[[3, 0], [0, 5]], [[1, 0], [0, 2]]]
    assert ebb.hessian(ebb.jacobian(lambda t: t**4))(ebb.tensor(2.0)).item() == 4 * 3 * 2 * 2  # they nest
    assert ebb.hessian(lambda t: t**3)(2.0).item() == 12 and ebb.hessian(cube, np.array([1.0, 2.0])).dtype == ebb.f64
    compiled = ebb.compile(ebb.hessian(cube))
    assert [compiled(x + k).tolist() for k in range(2)] == [[[6, 0], [0, 12]], [[12, 0], [0, 18]]]


def test_jacobian_and_hessian_of_structures():
    params = {"w": ebb.tensor([1.0, 2.0]), "b": [ebb.tensor(3.0)]}

    def f(p):
        return (p["w"] ** 2 * p["b"][0]).sum() + p["b"][0] ** 2

    j = ebb.jacobian(lambda p: p["w"] * p["b"][0])(params)
    assert j["w"].tolist() == [[3, 0], [0, 3]] and j["b"][0].tolist() == [1, 2]
    for h in (ebb.hessian(f)(params), ebb.hessian(f, params)):
        assert h["w"]["w"].tolist() == [[6, 0], [0, 6]] and h["b"][0]["b"][0].item() == 2
        assert h["w"]["b"][0].tolist() == [2, 4] and h["b"][0]["w"].tolist() == [2, 4]
    x, y = ebb.tensor([1.0, 2.0]), ebb.tensor([[3.0], [5.0], [7.0]])
    (xx, xy), (yx, yy) = ebb.hessian(lambda a, b: (a**2 * b).sum(), (x, y))
    assert xx.tolist() == [[30, 0], [0, 30]] and yy.tolist() == ebb.zeros((3, 1, 3, 1)).tolist()
    assert xy.tolist() == [[[2], [2], [2]], [[4], [4], [4]]] and yx.tolist() == [[[2, 4]]] * 3
    of_x, of_y = ebb.jacobian(lambda a, b: a.sum() * b, (x, y))
    assert of_x.shape == (3, 1, 2) and of_y.shape == (3, 1, 3, 1)


def test_products_with_structures():
    params = {"w": ebb.tensor([1.0, 2.0]), "b": ebb.tensor(3.0)}
    v = {"w": ebb.tensor([1.0, -1.0]), "b": ebb.tensor(2.0)}

    def f(p):
        return p["w"] ** 2 * p["b"]  # J = (2wb, w²)

    y, pull = ebb.vjp(f, params)
    assert y.tolist() == [3, 12]
    assert pull(ebb.tensor([1.0, 10.0]))["w"].tolist() == [6, 120] and pull([1.0, 10.0])["b"].item() == 41
    y, along = ebb.jvp(f, params, v)
    assert y.tolist() == [3, 12] and along.tolist() == [6 + 2, -12 + 8]
    product = ebb.hvp(lambda p: f(p).sum(), params, v)  # H = [[2b, 2w], [2w, 0]]
    assert product["w"].tolist() == [6 + 4, -6 + 8] and product["b"].item() == 2 - 4
    # A tuple holds the arguments of the function, as in torch.func and JAX.
    x, t = ebb.tensor([1.0, 2.0]), ebb.ones(2)
    assert ebb.jvp(lambda a, b: a * b, (x, x), (t, 2 * t))[1].tolist() == [3, 6]
    assert [g.tolist() for g in ebb.vjp(lambda a, b: a * b, x, 3 * x)[1](t)] == [[3, 6], [1, 2]]
    assert [h.tolist() for h in ebb.hvp(lambda a, b: (a**2 * b).sum(), (x, x), (t, 0 * t))] == [[2, 4], [2, 4]]


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda x: ebb.jacobian(lambda t: (t, t), x), "jacobian: the function must return one tensor, got tuple"),
        (lambda x: ebb.jacobian(lambda t: None)(x), "jacobian: the function must return one tensor, got NoneType"),
        (lambda x: ebb.jacobian(x, cube), "jacobian: takes a function, got Tensor"),
        (lambda x: ebb.hessian(x), "hessian: takes a function, got Tensor"),
        (lambda x: ebb.hessian(cube, argnums=1)(x), "hessian: argument 1 is differentiated, but 1 were given"),
        (lambda x: ebb.hessian(ebb.nn.Linear(2, 1))(ebb.nn.Linear(2, 1)), "hessian: a Linear is not a tensor"),
        (lambda x: ebb.hessian(lambda t: t**2, x), "the output has shape .2.; a gradient needs one element"),
        (lambda x: ebb.jvp(lambda a, b: a * b, (x, x), (x,)), "jvp: the tangent must have the structure and shapes"),
        (lambda x: ebb.hvp(lambda p: p["a"].sum(), {"a": x}, x), "hvp: the vector must have the structure and shapes"),
        (lambda x: ebb.vjp(lambda a, b: a * b, x, x)[1](ebb.ones(3)), "vjp: the cotangent has shape .3,., the result .2,."),
        (lambda x: ebb.jacobian(lambda t: t * 1.0, ebb.tensor([1, 2])), "jacobian: .*i64"),
    ],
)
def test_transforms_name_what_is_wrong(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call(ebb.tensor([1.0, 2.0]))


def test_backward_with_variables():
    w = ebb.variable(ebb.tensor([1.0, 2.0]))
    g = ebb.backward((w**2).sum())
    assert g[w].tolist() == [2, 4] and w in g and len(g) == 1
    with pytest.raises(ValueError, match="depends on no variable"):
        ebb.backward(ebb.tensor(1.0))
    y = (w**3).sum()
    g = y.backward(create_graph=True)
    assert ebb.backward(g[w].sum())[w].tolist() == [6, 12]


def test_custom_rules_are_python_functions():
    calls = []

    def rule(grad, output, inputs):
        calls.append((output.tolist(), len(inputs)))
        return [grad * 100, None]

    x, y = ebb.tensor([1.0, 2.0]), ebb.tensor([3.0, 4.0])
    gradient = ebb.grad(lambda t: ebb.custom_function(lambda a, b: a * b, rule, t, y).sum())(x)
    assert gradient.tolist() == [100, 100] and calls == [([3.0, 8.0], 2)]

    @ebb.custom_gradient(lambda grad, y, inputs: grad.clamp(-1, 1))
    def bounded(t):
        return t

    assert ebb.grad(lambda t: (bounded(t) * 5).sum())(x).tolist() == [1, 1]


def test_an_exception_in_a_python_function_arrives_as_it_was():
    class Mine(Exception):
        pass

    def fails(x):
        raise Mine("from within")

    for call in (
        lambda: ebb.grad(fails)(ebb.tensor(1.0)),
        lambda: ebb.checkpoint(fails, ebb.tensor(1.0)),
        lambda: ebb.jacobian(fails, ebb.tensor(1.0)),
        lambda: ebb.optim.minimize_lbfgs(fails, ebb.tensor([1.0])),
    ):
        with pytest.raises(Mine, match="from within"):
            call()


def test_checkpoints_repeat_their_random_numbers():
    ebb.manual_seed(3)
    x = ebb.variable(ebb.ones(1000))
    y = ebb.checkpoint(lambda t: ebb.dropout(t, 0.5) * 2, x)
    value = y.numpy().copy()
    gradient = ebb.backward(y.sum())[x].numpy()
    np.testing.assert_array_equal(gradient, value)
    z = ebb.checkpoint_sequential([ebb.sin, ebb.cos, ebb.exp], 2, x)
    np.testing.assert_allclose(z.numpy(), np.exp(np.cos(np.sin(x.numpy()))), rtol=1e-6)


def test_gradcheck_finds_a_wrong_rule():
    x = ebb.randn((3, 2), "f64")
    assert check_gradients(lambda t: ebb.softmax(t), x)
    assert check_second_gradients(lambda t: ebb.tanh(t), [x])
    wrong = ebb.custom_gradient(lambda grad, y, inputs: grad * 3)(lambda t: t * 2)
    report = check_gradients(wrong, x)
    assert not report and not report.rows[0].passed and "input 0" in str(report)
    with pytest.raises(ValueError, match="differ from central differences"):
        require_gradients(wrong, x)


@pytest.mark.parametrize("name", ["mse_loss", "huber_loss", "binary_cross_entropy_with_logits", "log_cosh_loss"])
def test_losses_with_value_and_gradient_in_one_call(name):
    loss = getattr(ebb.losses, name)
    x, t = ebb.randn((5, 3), "f64"), ebb.rand((5, 3), "f64")
    value, gradient = loss.value_and_grad(x, t, reduction="sum")
    expected = ebb.grad(lambda a: loss(a, t, reduction="sum"))(x)
    assert value.evaluated and gradient.evaluated
    np.testing.assert_allclose(gradient.numpy(), expected.numpy(), rtol=1e-12)
    np.testing.assert_allclose(value.item(), loss(x, t, reduction="sum").item(), rtol=1e-14)
    of_both = loss.value_and_grad(x, t, wrt=("input", "target"))[1]
    assert len(of_both) == 2
    cotangents = getattr(ebb, name + "_backward")(ebb.tensor(2.0, "f64"), x, t, reduction="sum")
    np.testing.assert_allclose(cotangents.input.numpy(), 2 * expected.numpy(), rtol=1e-12)
    with pytest.raises(ValueError, match="there is no input 'weights'"):
        loss.value_and_grad(x, t, wrt="weights")


def test_value_and_grad_of_a_loss_nests():
    x, t = ebb.tensor([1.0, 2.0]), ebb.tensor([0.0, 0.0])
    second = ebb.grad(lambda a: ebb.mse_loss.value_and_grad(a, t, reduction="sum")[1].sum())(x)
    assert second.tolist() == [2, 2]


def test_a_distance_of_ones_own():
    a, p, n = (ebb.randn((4, 3)) for _ in range(3))
    mine = ebb.triplet_margin_with_distance_loss(a, p, n, distance_function=lambda x, y: (x - y).norm(2.0, -1))
    assert abs(mine.item() - ebb.triplet_margin_loss(a, p, n).item()) < 1e-4
