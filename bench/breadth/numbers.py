# SPDX-License-Identifier: MIT
"""The inputs of a row, from a seed: arrays of NumPy, and whether the gradient is to them."""

import numpy as np


class Numbers:
    """What the inputs of table.py call. Floats are f32; the row's dtype rounds them."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def namespace(self, sizes):
        calls = {name: getattr(self, name) for name in dir(self) if not name.startswith("_")}
        return {**calls, **sizes, "min": min, "max": max}

    @staticmethod
    def _shape(shape):
        return tuple(int(n) for s in shape for n in (s if isinstance(s, tuple) else (s,)))

    def normal(self, *shape, twice=None, size=None, axis=None):
        shape = list(self._shape(shape))
        if twice is not None:
            shape[twice] *= 2
        if size is not None:
            shape[axis] = size
        return self.random.standard_normal(shape, dtype=np.float32), True

    def distinct(self, *shape):
        """No two are equal in f32: the order of equal ones is nobody's business."""
        shape = self._shape(shape)
        count = int(np.prod(shape))
        return (self.random.permutation(count) * (6.0 / max(count, 1)) - 3).astype(np.float32).reshape(shape), True

    def _uniform(self, low, high, shape):
        return low + (high - low) * self.random.random(self._shape(shape), dtype=np.float32)

    def positive(self, *shape):
        return self._uniform(0.3, 2.5, shape), True

    def unit(self, *shape):
        return self._uniform(-0.9, 0.9, shape), True

    def share(self, *shape):
        return self._uniform(0.02, 0.98, shape), True

    def fixed(self, *shape):
        return self.normal(*shape)[0], False

    def shares(self, *shape):
        return self._uniform(0.02, 0.98, shape), False

    def bits(self, *shape):
        return (self.mask(*shape)[0]).astype(np.float32), False

    def signs(self, *shape):
        return 2 * self.bits(*shape)[0] - 1, False

    def mask(self, *shape):
        return self.random.random(self._shape(shape), dtype=np.float32) < 0.5, False

    def seen(self, queries, keys):
        """A mask in which every query sees the first key at least."""
        mask = self.mask(queries, keys)[0]
        mask[:, 0] = True
        return mask, False

    def whole(self, below, *shape):
        return self.random.integers(0, max(below, 1), self._shape(shape)), False

    def labels(self, classes, *shape):
        """Classes but the blank, 0."""
        return self.random.integers(1, max(classes, 2), self._shape(shape)), False

    def filled(self, value, *shape):
        return np.full(self._shape(shape), value, dtype=np.int64), False

    def ascending(self, count):
        return np.sort(self.random.standard_normal(count, dtype=np.float32)), False

    def starts(self, bags, each):
        return np.arange(bags, dtype=np.int64) * each, False

    def order(self, below, shape, axis):
        """Indices of which none occurs twice along an axis (or, from axis 2 on, in a plane)."""
        shape = self._shape((shape,))
        lines = int(np.prod(shape[axis:])) if axis >= 2 and len(shape) > 2 else shape[axis]
        first = self.random.permutation(below)[:lines]
        if lines == shape[axis] and len(shape) > 1:
            first = first.reshape([-1 if k == axis else 1 for k in range(len(shape))])
            return np.ascontiguousarray(np.broadcast_to(first, shape)), False
        return np.ascontiguousarray(np.broadcast_to(first.reshape(shape[axis:]), shape)), False

    def definite(self, batch, n):
        a = self.normal(batch, n, n)[0]
        return a @ a.transpose(0, 2, 1) / np.float32(n) + np.eye(n, dtype=np.float32), True

    def dominant(self, batch, n):
        return self.normal(batch, n, n)[0] / np.float32(n**0.5) + 3 * np.eye(n, dtype=np.float32), True

    def small_det(self, batch, n):
        """Matrices whose determinant and powers stay in range."""
        return self.normal(batch, n, n)[0] * np.float32(0.2 / n) + np.eye(n, dtype=np.float32), True


def arrays(row, sizes, seed):
    """{name: (array, gradient is to it)}."""
    made = eval(f"dict({row.inputs})", Numbers(seed).namespace(sizes))
    return {name: (array, wanted and row.grad) for name, (array, wanted) in made.items()}
