# SPDX-License-Identifier: MIT
"""NumPy's functions on tensors: np.sin(x) is ebb.sin(x), and array + tensor is a tensor.

np.mean(x), np.sum(x) and their like call x.mean(...) by themselves.
"""

from . import _core, array_api

# NumPy's names of functions that have another one in the array API.
NAMES = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "fabs": "abs",
    "power": "pow",
    "float_power": "pow",
    "true_divide": "divide",
    "mod": "remainder",
    "rint": "round",
    "conjugate": "positive",
}


def _operand(x):
    """A tensor or a number. NumPy's own numbers are numbers: they do not decide the dtype of a result."""
    if isinstance(x, (_core.Tensor, bool, int, float)):
        return x
    return x.item() if hasattr(x, "item") and not hasattr(x, "__setitem__") else _core.asarray(x)


def array_ufunc(self, ufunc, method, *inputs, out=None, **kwargs):
    """What NumPy asks when one of its elementwise functions meets a tensor."""
    name = NAMES.get(ufunc.__name__, ufunc.__name__)
    function = getattr(array_api, name, None) or getattr(_core, name, None)
    if method != "__call__" or kwargs or function is None:
        asked = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        raise TypeError(
            f"numpy.{asked}: it is not there for tensors"
            + (f" with {', '.join(kwargs)}" if kwargs else "")
            + "; use Ebb's functions, or NumPy's on x.numpy()"
        )
    result = function(*(_operand(x) for x in inputs))
    if out is None:
        return result
    out[0][...] = result.numpy()  # array += tensor
    return out[0]
