# SPDX-License-Identifier: MIT
"""Calls every function and method of the package with arguments at random: tensors of any shape and dtype, sizes from 0 to
2**63 - 1, infinities, lists of these, things of another type. What comes back is evaluated.

    python hostile_calls.py SEED COUNT

Prints what is no clean error: an exception that is not of the kinds below, or one that speaks of internals. The process
surviving and no call going on for ever is the rest of the test; LAST_CALL names the call that it did not survive."""

import faulthandler
import inspect
import os
import random
import sys

import numpy as np

import ebb

LONGEST = 100  # seconds for one call, most of which take a millisecond
CLEAN = (ValueError, TypeError, IndexError, AttributeError, MemoryError, NotImplementedError, KeyError, OSError, BufferError)

INTS = [0, 1, -1, 2, 3, 5, -2, 7, 17, 2**31 - 1, 2**31, -(2**31), 2**32, 2**40, 2**61, 2**62, -(2**62), 2**63 - 1, -(2**63)]
FLOATS = [0.0, 1.0, -1.0, 0.5, 2.0, 1e-300, 1e308, -1e308, 1e19, float("inf"), float("-inf"), float("nan")]
SHAPES = [(), (1,), (3,), (0,), (64,), (2, 3), (3, 3), (0, 3), (3, 0), (2, 3, 4), (1, 1, 5), (2, 0, 3), (2, 3, 5, 5), (1,) * 8]
WORDS = ["mean", "sum", "none", "ij,jk->ik", "nearest", "bilinear", "reflect", "", "x" * 50]
DTYPES = [ebb.f32, ebb.f64, ebb.bf16, ebb.f16, ebb.i64, ebb.i32, ebb.u8, ebb.bool_]


def functions():
    for prefix, module in (("", ebb), ("losses.", ebb.losses), ("linalg.", ebb.linalg), ("nn.", ebb.nn)):
        for name in sorted(dir(module)):
            f = getattr(module, name)
            # Functions that change the process or write files are not called with random arguments.
            if name.startswith(("_", "set_", "save", "load", "use_")) or inspect.isclass(f) or inspect.ismodule(f):
                continue
            if callable(f):
                yield prefix + name, f


class Caller:
    def __init__(self, seed):
        self.draw = random.Random(seed)
        self.functions = list(functions())
        self.methods = [n for n in dir(ebb.Tensor) if not n.startswith("_") and callable(getattr(ebb.Tensor, n))]

    def tensor(self):
        shape = self.draw.choice(SHAPES)
        a = np.array(np.random.RandomState(self.draw.randrange(1000)).randn(*shape))
        if self.draw.random() < 0.2:
            a = np.floor(3 * a)
        if self.draw.random() < 0.1 and a.size:
            a.flat[self.draw.randrange(a.size)] = self.draw.choice(FLOATS)
        return ebb.cast(ebb.tensor(a), self.draw.choice(DTYPES if self.draw.random() < 0.5 else DTYPES[:1]))

    def sizes(self):
        return [self.draw.choice(INTS if self.draw.random() < 0.6 else [0, 1, 2, 3]) for _ in range(self.draw.randrange(5))]

    def anything(self):
        kinds = [self.tensor] * 8 + [lambda: self.draw.choice(INTS)] * 4 + [lambda: self.draw.choice(FLOATS)] * 2
        kinds += [self.sizes] * 2 + [lambda: [self.tensor(), self.draw.choice(INTS)], lambda: None]
        kinds += [lambda: self.draw.choice([True, False]), lambda: self.draw.choice(WORDS), lambda: self.draw.choice(DTYPES)]
        return self.draw.choice(kinds)()

    def argument(self, p):
        """For this parameter: mostly of the type that its default or its annotation shows."""
        text, default = str(p.annotation), p.default
        if self.draw.random() < 0.1:
            return self.anything()
        if isinstance(default, bool):
            return self.draw.choice([True, False])
        if isinstance(default, int):
            return self.draw.choice(INTS)
        if isinstance(default, float):
            return self.draw.choice(FLOATS)
        if isinstance(default, str):
            return self.draw.choice([default, *WORDS])
        if p.name in ("shape", "size", "sizes", "axes", "dims", "repeats", "padding", "pad", "reps") or "Sequence" in text:
            return self.sizes()
        if p.name in ("axis", "dim", "k", "n", "start", "stop", "step", "kernel_size", "stride", "groups", "diagonal"):
            return self.draw.choice(INTS)
        return self.tensor() if default is inspect.Parameter.empty else self.anything()

    def call(self):
        """A function, its arguments, and the text of the call."""
        if self.draw.random() < 0.25:
            x, name = self.tensor(), self.draw.choice(self.methods)
            f, name = getattr(x, name), f"{shown(x)}.{name}"
        else:
            name, f = self.draw.choice(self.functions)
        try:
            parameters = list(inspect.signature(f).parameters.values())
        except (ValueError, TypeError):
            parameters = []
        args, kwargs = [], {}
        for p in parameters:
            if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) or (p.default is not p.empty and self.draw.random() < 0.6):
                continue
            if p.kind == p.KEYWORD_ONLY or (p.default is not p.empty and p.kind != p.POSITIONAL_ONLY):
                kwargs[p.name] = self.argument(p)
            else:
                args.append(self.argument(p))
        if not parameters or self.draw.random() < 0.1:
            args, kwargs = [self.anything() for _ in range(self.draw.randrange(1, 5))], {}
        text = [shown(a) for a in args] + [f"{k}={shown(v)}" for k, v in kwargs.items()]
        return f, args, kwargs, f"{name}({', '.join(text)})"


def shown(v):
    if isinstance(v, ebb.Tensor):
        return f"Tensor{tuple(v.shape)}:{v.dtype}"
    return f"[{', '.join(map(shown, v))}]" if isinstance(v, (list, tuple)) else repr(v)


def main(seed, count):
    faulthandler.enable()
    ebb.set_memory_limit(1 << 28)
    caller, returned, refused = Caller(seed), 0, 0
    last = os.environ.get("LAST_CALL")
    for k in range(count):
        f, args, kwargs, text = caller.call()
        if last:
            with open(last, "w") as out:
                out.write(f"{k} {text}\n")
        faulthandler.dump_traceback_later(LONGEST, exit=True)
        try:
            result = f(*args, **kwargs)
            ebb.eval([r for r in (result if isinstance(result, (list, tuple)) else [result]) if isinstance(r, ebb.Tensor)])
            returned += 1
        except CLEAN as e:
            refused += 1
            if "internal" in str(e) or "std::" in str(e):
                print(f"call {k}: {text}: {e}")
        except Exception as e:
            print(f"call {k}: {text}: {type(e).__name__}: {e}")
    print(f"{returned} returned, {refused} refused", file=sys.stderr)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
