"""JAX under jit."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from formulas import FORMULAS, energy, layers, smooth
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
    shift_right = staticmethod(lambda x: jnp.pad(x[..., :-1], [(0, 0)] * (x.ndim - 1) + [(1, 0)]))
    without_diagonal = staticmethod(lambda x: jnp.where(jnp.eye(x.shape[0], dtype=bool), -jnp.inf, x))


xp = Functions

OTHERS = {
    "matmul": jnp.matmul,
    "hvp": lambda x, v: jax.jvp(jax.grad(lambda x: smooth(xp, x)), (x,), (v,))[1],
    "hessian": lambda a, x: jax.hessian(lambda x: energy(xp, a, x))(x),
}


def loss_of(case):
    if case.startswith("BT="):
        case = "linear_cross_entropy"
    if case == "16 layers checkpointed":
        return lambda x, w: layers(xp, x, w, 4, jax.checkpoint)
    if case not in FORMULAS:
        raise Unavailable("JAX has no such loss, and it is no formula of arrays")
    return lambda *inputs: FORMULAS[case](xp, *inputs)


class Jax:
    def load(self, array, dtype, reference):
        if dtype == "bf16":
            return jnp.asarray(array.view(ml_dtypes.bfloat16))
        return jnp.asarray(array.astype(np.int32) if dtype == "i64" else array)

    def prepare(self, case, inputs, wrt, mode):
        if case in OTHERS:
            function = jax.jit(OTHERS[case])
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

    def to_numpy(self, result):
        return np.asarray(result).astype(np.float64)

    def forget(self):
        pass


if __name__ == "__main__":
    serve(Jax())
