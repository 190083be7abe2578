# SPDX-License-Identifier: MIT
"""einops knows Ebb's tensors: importing ebb is enough, before or after einops.

einops finds its backends among the subclasses of a class of its own, so one is made as soon as that class exists: now,
or when einops is imported.
"""

import importlib.abc
import importlib.machinery
import sys

from . import _core

_MODULE = "einops._backends"


def _define(backends):
    class EbbBackend(backends.AbstractBackend):
        framework_name = "ebb"

        def is_appropriate_type(self, tensor):
            return isinstance(tensor, _core.Tensor)

        def from_numpy(self, x):
            return _core.asarray(x)

        def to_numpy(self, x):
            return x.numpy()

        def arange(self, start, stop):
            return _core.arange(start, stop)

        def shape(self, x):
            return tuple(x.shape)

        def reshape(self, x, shape):
            return x.reshape(tuple(shape))

        def transpose(self, x, axes):
            return x.permute(tuple(axes))

        def reduce(self, x, operation, axes):
            return getattr(_core, operation)(x, tuple(axes))

        def stack_on_zeroth_dimension(self, tensors):
            return _core.stack(tensors, 0)

        def add_axis(self, x, new_position):
            return x.unsqueeze(new_position)

        def add_axes(self, x, n_axes, pos2len):
            for axis in range(n_axes):
                if axis in pos2len:
                    x = x.unsqueeze(axis)
            sizes = [pos2len.get(axis, size) for axis, size in enumerate(x.shape)]
            return _core.broadcast_to(x, tuple(sizes))

        def tile(self, x, repeats):
            for axis, times in enumerate(repeats):
                if times != 1:
                    x = _core.cat([x] * times, axis)
            return x

        def concat(self, tensors, axis):
            return _core.cat(tensors, axis)

        def is_float_type(self, x):
            return x.dtype.is_floating

        def einsum(self, pattern, *tensors):
            return _core.einsum(pattern, *tensors)

    class DeferredBackend(backends.TorchBackend):
        """Logits of patched models, which are no torch tensors and have their methods."""

        framework_name = "ebb.torch"

        def is_appropriate_type(self, tensor):
            return isinstance(tensor, sys.modules["ebb.torch._deferred"].Deferred)

    return EbbBackend, DeferredBackend


class _Watcher(importlib.abc.MetaPathFinder):
    """Lets the ordinary finders find einops' backends, and adds one when they have been imported."""

    def find_spec(self, name, path, target=None):
        if name != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            module.EbbBackend, module.DeferredBackend = _define(module)

        spec.loader.exec_module = exec_module
        return spec


def register():
    """Called once, by the package."""
    if _MODULE in sys.modules:
        sys.modules[_MODULE].EbbBackend, sys.modules[_MODULE].DeferredBackend = _define(sys.modules[_MODULE])
    else:
        sys.meta_path.insert(0, _Watcher())
