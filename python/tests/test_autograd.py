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
