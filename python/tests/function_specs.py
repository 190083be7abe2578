# SPDX-License-Identifier: MIT
"""How function_cases.py says what a function is called with: a call is a tree of arguments in which specs stand for tensors."""

import numpy as np

import ebb

SIZES = {"m": 3, "n": 4, "k": 5}


class Spec:
    """A tensor of a shape whose sizes are digits, or letters of SIZES."""

    real = differentiable = False

    def __init__(self, shape):
        self.shape = shape

    def sizes(self, sizes):
        return tuple(sizes[s] if s.isalpha() else int(s) for s in self.shape)


class Real(Spec):
    """Numbers in [low, high]; no two of a tensor are close to one another, as central differences need around kinks."""

    real = differentiable = True

    def __init__(self, shape="mn", low=-2.0, high=2.0):
        super().__init__(shape)
        self.low, self.high = low, high

    def make(self, draw, sizes):
        shape = self.sizes(sizes)
        count = int(np.prod(shape, dtype=int))
        spread = (draw.permutation(count) + draw.uniform(0.2, 0.8, count)) / max(count, 1)
        return (self.low + (self.high - self.low) * spread).reshape(shape)


class Matrix(Real):
    """Matrices whose diagonal dominates: far from singular; with positive=True symmetric and positive definite."""

    def __init__(self, shape, positive=False):
        super().__init__(shape, -1.0, 1.0)
        self.positive = positive

    def make(self, draw, sizes):
        a = super().make(draw, sizes)
        if self.positive:
            a = (a + np.swapaxes(a, -2, -1)) / 2
        return a + a.shape[-1] * np.eye(a.shape[-2], a.shape[-1])


class Whole(Spec):
    """Indices below a number."""

    def __init__(self, shape, below, low=0):
        super().__init__(shape)
        self.below, self.low = below, low

    def make(self, draw, sizes):
        return draw.integers(self.low, self.below, self.sizes(sizes))


class Distinct(Spec):
    """Different indices below a number along the last axis."""

    def __init__(self, shape, below):
        super().__init__(shape)
        self.below = below

    def make(self, draw, sizes):
        shape = self.sizes(sizes)
        rows = [draw.permutation(self.below)[: shape[-1]] for _ in range(int(np.prod(shape[:-1], dtype=int)))]
        return np.array(rows, dtype=np.int64).reshape(shape)


class Given(Spec):
    """These integers."""

    def __init__(self, values):
        super().__init__("")
        self.values = values

    def make(self, draw, sizes):
        return np.array(self.values)


class Truth(Spec):
    def make(self, draw, sizes):
        return draw.integers(0, 2, self.sizes(sizes)) > 0


class Sign(Spec):
    """−1 or 1, as reals by which nothing is differentiated."""

    real = True

    def make(self, draw, sizes):
        return 2.0 * draw.integers(0, 2, self.sizes(sizes)) - 1


class Sorted(Real):
    """Ascending along the last axis."""

    def make(self, draw, sizes):
        return np.sort(super().make(draw, sizes), -1)


class Case:
    def __init__(self, name, args, kwargs):
        self.name, self.args, self.kwargs = name, args, kwargs
        self.roundings = 1  # how often a result of halves may have been rounded; 0: it is wider; None: as often as it likes
        self.digits = 16  # errors of f32, and of f64 in differences, in units in the last place of the largest number
        self.gradient = True
        self.nan = "spreads"
        self.random = False
        self.call = None
        self.integers = True  # what integers give is what their reals give; None: something else
        self.mixed = True  # the widest of several dtypes decides; False: the first does; None: each for itself

    def but(self, **options):
        for key, value in options.items():
            assert hasattr(self, key), key
            setattr(self, key, value)
        return self

    def symmetric(self):
        """Its matrix is made symmetric on the way."""
        function = self.function()
        return self.but(call=lambda a, **options: function((a + a.mT) / 2, **options))

    def function(self):
        if self.call:
            return self.call
        found = ebb
        for part in self.name.split("."):
            found = getattr(found, part)
        return found

    def specs(self):
        found = []
        _visit([self.args, list(self.kwargs.values())], found)
        return found

    def arrays(self, seed=0, sizes=SIZES):
        """The numbers of its tensors, in order."""
        draw = np.random.default_rng(seed)
        return [spec.make(draw, sizes) for spec in self.specs()]

    def __call__(self, tensors, function=None):
        """The results, as a list of what the function returned."""
        left = iter(tensors)
        args = _filled(self.args, left)
        kwargs = {key: _filled(value, left) for key, value in self.kwargs.items()}
        if self.random:
            ebb.manual_seed(7)
        return flat((function or self.function())(*args, **kwargs))


def flat(result):
    if isinstance(result, (tuple, list)):
        return [x for part in result for x in flat(part)]
    if isinstance(result, dict):
        return flat(list(result.values()))
    return [] if result is None else [result]


def _visit(tree, found):
    if isinstance(tree, Spec):
        found.append(tree)
    elif isinstance(tree, (list, tuple)):
        for part in tree:
            _visit(part, found)


def _filled(tree, left):
    if isinstance(tree, Spec):
        return next(left)
    if isinstance(tree, (list, tuple)):
        return type(tree)(_filled(part, left) for part in tree)
    return tree
