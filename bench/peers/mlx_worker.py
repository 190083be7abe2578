# SPDX-License-Identifier: MIT
"""MLX under mx.compile, on the CPU."""

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from formulas import FORMULAS, energy, is_product, layers, product, smooth
from models import loss_and_rule, states, updated
from protocol import Unavailable, bf16_to_f32, serve

mx.set_default_device(mx.cpu)


class Functions:
    """What formulas.py needs, by MLX's names."""

    abs, exp, log, log1p, expm1, sqrt, sin = mx.abs, mx.exp, mx.log, mx.log1p, mx.expm1, mx.sqrt, mx.sin
    where, maximum, minimum, clip = mx.where, mx.maximum, mx.minimum, mx.clip
    mean, concatenate, variance = mx.mean, mx.concatenate, mx.var
    sigmoid, softplus, gelu = mx.sigmoid, nn.softplus, nn.gelu
    stop_gradient = mx.stop_gradient

    sum = staticmethod(lambda x, axis=None, keepdims=False: mx.sum(x, axis=axis, keepdims=keepdims))
    diagonal = staticmethod(lambda x: mx.diag(x))
    logsumexp = staticmethod(lambda x: mx.logsumexp(x, axis=-1))
    softmax = staticmethod(lambda x: mx.softmax(x, axis=-1))
    log_softmax = staticmethod(lambda x: nn.log_softmax(x, axis=-1))
    take_along = staticmethod(lambda x, i: mx.take_along_axis(x, i, axis=-1))
    transpose = staticmethod(lambda x: x.T)
    cumsum = staticmethod(lambda x: mx.cumsum(x, axis=-1))
    sort_descending = staticmethod(lambda x: -mx.sort(-x, axis=-1))
    argsort_descending = staticmethod(lambda x: mx.argsort(-x, axis=-1))
    arange_like = staticmethod(lambda x: mx.arange(x.shape[-1]).astype(x.dtype))
    as_float = staticmethod(lambda mask, like: mask.astype(like.dtype))
    one_hot = staticmethod(lambda y, n, like: (y[:, None] == mx.arange(n)[None, :]).astype(like.dtype))
    eye_like = staticmethod(lambda x: mx.eye(x.shape[0], dtype=x.dtype))
    without_diagonal = staticmethod(lambda x: mx.where(mx.eye(x.shape[0]) > 0, mx.array(-float("inf"), x.dtype), x))


xp = Functions


class Layers:
    """What models.py needs. Pictures are [batch, height, width, channels], windows [out, height, width, in]."""

    relu, gelu = nn.relu, nn.gelu
    linear = staticmethod(lambda x, w, b: x @ w.T if b is None else mx.addmm(b, x, w.T))
    conv = staticmethod(lambda x, w, stride, padding: mx.conv2d(x, w, stride, padding))
    mean_of_pictures = staticmethod(lambda x: mx.mean(x, axis=(1, 2)))
    layer_norm = staticmethod(lambda x, w, b: mx.fast.layer_norm(x, w, b, 1e-5))
    rows = staticmethod(lambda table, index: table[index])
    cross_entropy = staticmethod(lambda x, y: nn.losses.cross_entropy(x, y, reduction="mean"))
    checkpoint = staticmethod(mx.checkpoint)

    @staticmethod
    def batch_norm(x, w, b):
        mean, var = mx.mean(x, axis=(0, 1, 2)), mx.var(x, axis=(0, 1, 2))
        return (x - mean) * (w * mx.rsqrt(var + 1e-5)) + b

    @staticmethod
    def causal_attention(qkv):
        q, k, v = (qkv[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
        h = mx.fast.scaled_dot_product_attention(q, k, v, scale=q.shape[-1] ** -0.5, mask="causal")
        return h.transpose(0, 2, 1, 3)



def product_of_hessian(x, v):
    gradient = lambda x: mx.grad(lambda x: smooth(xp, x))(x)
    return mx.jvp(gradient, [x], [v])[1][0]


def hessian(a, x):
    gradient = mx.grad(lambda x: energy(xp, a, x))
    row = lambda v: mx.vjp(gradient, [x], [v])[1][0]
    return mx.vmap(row)(mx.eye(x.shape[0]))


OTHERS = {"matmul": mx.matmul, "hvp": product_of_hessian, "hessian": hessian}


def loss_of(case):
    if case.startswith("BT="):
        case = "linear_cross_entropy"
    if case == "16 layers checkpointed":
        return lambda x, w: layers(xp, x, w, 4, mx.checkpoint)
    if case not in FORMULAS:
        raise Unavailable("MLX has no such loss, and it cannot be written as a formula of arrays")
    return lambda *inputs: FORMULAS[case](xp, *inputs)


class Mlx:
    def load(self, array, dtype, reference):
        if dtype == "bf16":
            return mx.array(bf16_to_f32(array)).astype(mx.bfloat16)
        return mx.array(array.astype(np.int32) if dtype == "i64" else array)

    def prepare(self, case, inputs, wrt, mode):
        if is_product(case) or case in OTHERS:
            function = mx.compile(product(case) if is_product(case) else OTHERS[case])
        elif mode == "value":
            function = mx.compile(loss_of(case))
        else:
            function = mx.compile(mx.value_and_grad(loss_of(case), argnums=wrt))
        mx.eval(inputs)

        def run():
            result = function(*inputs)
            mx.eval(result)
            if isinstance(result, mx.array):
                return [result]
            value, gradients = result
            return [value, gradients] if isinstance(gradients, mx.array) else [value, *gradients]

        return run

    def training(self, case, x, y, parameters):
        loss_of_batch, rule = loss_and_rule(Layers, case)
        if x.ndim == 4:
            x = mx.contiguous(x.transpose(0, 2, 3, 1))
            parameters = {n: mx.contiguous(w.transpose(0, 2, 3, 1)) if w.ndim == 4 else w for n, w in parameters.items()}
        state = {name: tuple(mx.zeros_like(w) for _ in range(states(rule))) for name, w in parameters.items()}

        def one_step(parameters, state, count):
            loss, gradients = mx.value_and_grad(loss_of_batch)(parameters, x, y)
            new = {n: updated(mx, rule, w, gradients[n], state[n], count) for n, w in parameters.items()}
            return loss, {n: w for n, (w, _) in new.items()}, {n: s for n, (_, s) in new.items()}, count + 1

        function = mx.compile(one_step)
        now = (parameters, state, mx.array(1.0))
        mx.eval(now, x, y)

        def step():
            nonlocal now
            loss, *now = function(*now)
            mx.eval(loss, now)
            return loss

        return step

    def allocated(self, run):
        return None

    def to_numpy(self, result):
        return np.array(result.astype(mx.float32)).astype(np.float64)

    def forget(self):
        mx.clear_cache()


if __name__ == "__main__":
    serve(Mlx())
