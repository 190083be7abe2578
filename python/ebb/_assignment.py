# SPDX-License-Identifier: MIT
"""Assignment to elements, for libraries that cannot do without it; ebb.array_api.assignment."""

import threading

from . import _core

_lock = threading.Lock()
_users = 0
_refusal = _core.Tensor.__setitem__


def _assign(self, key, value):
    """x[key] = value: this Python object gets the tensor with these elements replaced."""
    if self.requires_grad:
        raise TypeError("Tensor: elements of a variable cannot be assigned to, its gradient would be another tensor's")
    places = _core.arange(self.numel()).reshape(self.shape)[key]
    values = value if isinstance(value, _core.Tensor) else _core.asarray(value)
    values = values.cast(self.dtype).to(self.device).broadcast_to(places.shape)
    flat = self.reshape((self.numel(),))
    count = places.numel()
    if count > 0:
        flat = _core.index_put(flat, [places.reshape((count,)).to(self.device)], values.reshape((count,)))
    self._become(flat.reshape(self.shape))


class assignment:
    """Within it, `x[i] = v` works on tensors, as scikit-learn and much of SciPy need it:

        with ebb.array_api.assignment():
            scaled = StandardScaler().fit_transform(x)

    The Python object x gets a tensor with these elements replaced; views and whatever was computed from x before keep their
    values. Variables are refused. It holds for all threads of the process.
    """

    def __enter__(self):
        global _users
        with _lock:
            _users += 1
            _core.Tensor.__setitem__ = _assign
        return self

    def __exit__(self, *_):
        global _users
        with _lock:
            _users -= 1
            if _users == 0:
                _core.Tensor.__setitem__ = _refusal


def is_allowed():
    return _users > 0
