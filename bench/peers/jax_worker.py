# SPDX-License-Identifier: MIT
"""JAX under jit."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from formulas import FORMULAS, energy, is_product, layers, product, smooth
from models import loss_and_rule, states, updated
from protocol import Unavailable, serve


class Functions:
    """What formulas.py needs, by JAX's names."""

    abs, exp, log, log1p, expm1, sqrt, sin = jnp.abs, jnp.exp, jnp.log, jnp.log1p, jnp.expm1, jnp.sqrt, jnp.sin
    where, maximum, minimum, clip = jnp.where, jnp.maximum, jnp.minimum, jnp.clip
    mean, diagonal, concatenate, variance = jnp.mean, jnp.diagonal, jnp.concatenate, jnp.var
    sigmoid, softplus = jax.nn.sigmoid, jax.nn.softplus
    stop_gradient = jax.lax.stop_gradient

    sum = staticmethod(lambda x, axis=None, keepdims=False: jnp.sum(x, axis, keepdims=keepdims))
    gelu = staticmethod(lambda x: jax.nn.gelu(x, approximate=False))
    logsumexp = staticmethod(lambda x: jax.nn.logsumexp(x, -1))
    softmax = staticmethod(lambda x: jax.nn.softmax(x, -1))
    log_softmax = staticmethod(lambda x: jax.nn.log_softmax(x, -1))
    take_along = staticmethod(lambda x, i: jnp.take_along_axis(x, i, -1))
    transpose = staticmethod(lambda x: x.T)
    cumsum = staticmethod(lambda x: jnp.cumsum(x, -1))
    sort_descending = staticmethod(lambda x: jnp.sort(x, -1, descending=True))
    argsort_descending = staticmethod(lambda x: jnp.argsort(x, -1, descending=True))
    arange_like = staticmethod(lambda x: jnp.arange(x.shape[-1], dtype=x.dtype))
    as_float = staticmethod(lambda mask, like: mask.astype(like.dtype))
    one_hot = staticmethod(lambda y, n, like: jax.nn.one_hot(y, n, dtype=like.dtype))
    eye_like = staticmethod(lambda x: jnp.eye(x.shape[0], dtype=x.dtype))
    without_diagonal = staticmethod(lambda x: jnp.where(jnp.eye(x.shape[0], dtype=bool), -jnp.inf, x))


xp = Functions


class Layers:
    """What models.py needs. Pictures are [batch, height, width, channels], windows [height, width, in, out]."""

    relu, sqrt = jax.nn.relu, jnp.sqrt
    gelu = staticmethod(lambda x: jax.nn.gelu(x, approximate=False))
    linear = staticmethod(lambda x, w, b: x @ w.T if b is None else x @ w.T + b)
    mean_of_pictures = staticmethod(lambda x: jnp.mean(x, (1, 2)))
    rows = staticmethod(lambda table, index: table[index])
    checkpoint = staticmethod(jax.checkpoint)

    @staticmethod
    def cross_entropy(x, y):
        return jnp.mean(jax.nn.logsumexp(x, -1) - jnp.take_along_axis(x, y[:, None], -1)[:, 0])

    @staticmethod
    def conv(x, w, stride, padding):
        pads = [(padding, padding)] * 2
        return jax.lax.conv_general_dilated(x, w, (stride, stride), pads, dimension_numbers=("NHWC", "HWIO", "NHWC"))

    @staticmethod
    def batch_norm(x, w, b):
        mean, var = jnp.mean(x, (0, 1, 2)), jnp.var(x, (0, 1, 2))
        return (x - mean) * (w * jax.lax.rsqrt(var + 1e-5)) + b

    @staticmethod
    def layer_norm(x, w, b):
        mean, var = jnp.mean(x, -1, keepdims=True), jnp.var(x, -1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(var + 1e-5) * w + b

    @staticmethod
    def causal_attention(qkv):
        q, k, v = (qkv[:, :, i] for i in range(3))
        return jax.nn.dot_product_attention(q, k, v, is_causal=True)


OTHERS = {
    "matmul": jnp.matmul,
    "hvp": lambda x, v: jax.jvp(jax.grad(lambda x: smooth(xp, x)), (x,), (v,))[1],
    "hessian": lambda a, x: jax.hessian(lambda x: energy(xp, a, x))(x),
}


def loss_of(case):
    if case.startswith("convolution"):
        return lambda x, w: jnp.mean(jnp.square(jax.lax.conv_general_dilated(x, w, (1, 1), [(1, 1)] * 2)))
    if case.startswith("BT="):
        case = "linear_cross_entropy"
    if case == "16 layers checkpointed":
        return lambda x, w: layers(xp, x, w, 4, jax.checkpoint)
    if case not in FORMULAS:
        raise Unavailable("JAX has no such loss, and it cannot be written as a formula of arrays")
    return lambda *inputs: FORMULAS[case](xp, *inputs)


class Jax:
    def load(self, array, dtype, reference):
        if dtype == "bf16":
            return jnp.asarray(array.view(ml_dtypes.bfloat16))
        return jnp.asarray(array.astype(np.int32) if dtype == "i64" else array)

    def prepare(self, case, inputs, wrt, mode):
        if is_product(case) or case in OTHERS:
            function = jax.jit(product(case) if is_product(case) else OTHERS[case])
            return lambda: [jax.block_until_ready(function(*inputs))]
        loss = loss_of(case)
        if mode == "value":
            function = jax.jit(loss)
            return lambda: [jax.block_until_ready(function(*inputs))]
        function = jax.jit(jax.value_and_grad(loss, tuple(wrt)))

        def value_and_gradient():
            value, gradients = jax.block_until_ready(function(*inputs))
            return [value, *gradients]

        return value_and_gradient

    def training(self, case, x, y, parameters):
        loss_of_batch, rule = loss_and_rule(Layers, case)
        if x.ndim == 4:
            x = jnp.transpose(x, (0, 2, 3, 1))
            parameters = {n: jnp.transpose(w, (2, 3, 1, 0)) if w.ndim == 4 else w for n, w in parameters.items()}
        parameters = {name: jnp.array(w, copy=True) for name, w in parameters.items()}
        state = {name: tuple(jnp.zeros_like(w) for _ in range(states(rule))) for name, w in parameters.items()}

        def one_step(parameters, state, count, x, y):
            loss, gradients = jax.value_and_grad(loss_of_batch)(parameters, x, y)
            new = {n: updated(jnp, rule, w, gradients[n], state[n], count) for n, w in parameters.items()}
            return loss, {n: w for n, (w, _) in new.items()}, {n: s for n, (_, s) in new.items()}, count + 1

        function = jax.jit(one_step, donate_argnums=(0, 1, 2))
        now = (parameters, state, jnp.float32(1))

        def step():
            nonlocal now
            loss, *after = function(*now, x, y)
            now = jax.block_until_ready(tuple(after))
            return loss

        return step

    def allocated(self, run):
        return None

    def to_numpy(self, result):
        return np.asarray(result).astype(np.float64)

    def forget(self):
        pass


if __name__ == "__main__":
    serve(Jax())
