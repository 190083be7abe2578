# SPDX-License-Identifier: MIT
"""The two contenders: an expression of the table as a call without arguments that computes values and gradients."""

import builtins
import types

import ebb

KEPT = {"True", "False", "None"}


class Function:
    """An expression over a library's names, as a function of the inputs."""

    def __init__(self, text, inputs, sizes, places, loss):
        code = compile(text, text, "eval")
        found = {}
        for name in code.co_names:
            if name in inputs or name in sizes:
                continue
            found[name] = loss if name == "loss" else next((getattr(p, name) for p in places if hasattr(p, name)), None)
        missing = [n for n, f in found.items() if f is None and n in text.split(".")[0]]
        if missing:
            raise AttributeError(f"there is no {missing[0]}")
        self.call = eval(f"lambda {', '.join(inputs)}: {text}", {**found, **sizes, "__builtins__": builtins})

    def __call__(self, *inputs):
        return self.call(*inputs)


def flat(result):
    """The tensors of a result."""
    return [result] if not isinstance(result, (tuple, list)) else [t for r in result for t in flat(r)]


def with_gradients(function, wanted, floats):
    """Values and the gradients of Σ y·g to the wanted inputs, of inputs and then cotangents g."""

    def of_inputs(*given, cotangents):
        values = flat(function(*given))
        total = None
        for y, g in zip([y for y in values if y.dtype.is_floating], cotangents, strict=True):
            part = (y * g).sum()
            total = part if total is None else total + part
        return total, values

    def both(*given):
        inputs, cotangents = given[: len(given) - floats], given[len(given) - floats :]
        both = ebb.value_and_grad(lambda *x: of_inputs(*x, cotangents=cotangents), tuple(wanted), has_aux=True)
        (_, values), gradients = both(*inputs)
        return [*values, *gradients]

    return both


class Ebb:
    places = (ebb, ebb.linalg)

    @staticmethod
    def tensors(arrays, dtype):
        """From NumPy's arrays; the comparison takes PyTorch's tensors instead, where they are."""
        return [ebb.cast(ebb.asarray(a), dtype) if a.dtype.kind == "f" else ebb.asarray(a) for a, _ in arrays.values()]

    @staticmethod
    def function(row, inputs, sizes):
        return Function(row.expression, inputs, sizes, Ebb.places, ebb)

    @staticmethod
    def calls(function, inputs, wanted, cotangents):
        """The ways to call it, the fastest first: compiled, and as it stands for what reads its numbers."""
        step = with_gradients(function, wanted, len(cotangents)) if wanted else lambda *given: flat(function(*given))
        given = [*inputs, *cotangents]
        if given:
            compiled = ebb.compile(step)
            yield "compiled", lambda: compiled(*given)

        def plain():
            found = step(*given)
            ebb.eval(*found)
            return found

        yield "plain", plain


def torch_library():
    """PyTorch is imported where it is needed."""
    import torch
    import torch.nn.functional as F
    from formulas import FORMULAS
    from torch_formulas import SHIPPED, Functions

    losses = types.SimpleNamespace(**{name: (lambda *x, f=f: f(Functions, *x)) for name, f in FORMULAS.items()
                                      if name.isidentifier()})
    vars(losses).update({name: f for name, f in SHIPPED.items()})

    class Torch:
        places = (F, torch, torch.linalg, torch.special)

        @staticmethod
        def tensors(arrays, dtype, device):
            dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[dtype]
            made = [torch.from_numpy(a).to(device) for a, _ in arrays.values()]
            return [t.to(dtype) if t.is_floating_point() else t for t in made]

        @staticmethod
        def function(row, inputs, sizes):
            return Function(row.torch, inputs, sizes, Torch.places, losses)

        @staticmethod
        def call(function, inputs, wanted, cotangents):
            inputs = [t.detach().requires_grad_() if k in wanted else t for k, t in enumerate(inputs)]
            leaves = [inputs[k] for k in wanted]

            def value_and_gradient():
                values = flat(function(*inputs))
                outputs = [y for y in values if y.is_floating_point()]
                return [*values, *torch.autograd.grad(outputs, leaves, cotangents)]

            def value():
                with torch.no_grad():
                    return flat(function(*inputs))

            return value_and_gradient if wanted else value

    return Torch
