# SPDX-License-Identifier: MIT
"""Who takes part: Ebb, PyTorch in its ways, and the kernels that others wrote for it."""

import importlib

import torch

import ebb
from gpu.machine import in_ebb
from gpu.names import PACKAGES, TITLES

missing = {}  # title: why it does not take part


def first_line(error):
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:160] if lines else ''}".rstrip(": ")


def package(key, part=None):
    """A module of a peer; raises what keeps it from being imported, and remembers it."""
    name, in_pip = PACKAGES[key]
    try:
        return importlib.import_module(f"{name}.{part}" if part else name)
    except Exception as error:
        missing.setdefault(TITLES[key], f"{in_pip} cannot be imported: {first_line(error)}")
        raise


def find_packages(machine, wanted):
    """Those of the packages that can be imported."""
    found = []
    for key, (_, in_pip) in PACKAGES.items():
        if key not in wanted:
            continue
        if not machine.on_gpu:
            missing[TITLES[key]] = f"{in_pip} needs a GPU"
            continue
        try:
            package(key)
            found.append(key)
        except Exception:
            pass  # remembered above
    return found


def version(key):
    from importlib import metadata

    try:
        return metadata.version(PACKAGES[key][1])
    except metadata.PackageNotFoundError:
        return getattr(package(key), "__version__", "unknown")


# Makers of contenders. Each gives a call without arguments whose result is (value, gradients).


def ebb_step(loss, arguments, wrt):
    def make():
        step = ebb.compile(ebb.value_and_grad(loss, argnums=tuple(wrt)))
        given = [in_ebb(a) for a in arguments]
        return lambda: step(*given)

    return make


def eager_step(loss, arguments, wrt):
    def make():
        given = [a.detach().requires_grad_() if k in wrt else a for k, a in enumerate(arguments)]
        leaves = [given[k] for k in wrt]

        def call():
            value = loss(*given)
            return value, torch.autograd.grad(value, leaves)

        return call

    return make


def compiled_step(losses, arguments, wrt, mode=None):
    """Value and gradient as one graph, of the first of the formulas that PyTorch can compile so."""

    def make():
        for k, loss in enumerate(losses):
            compiled = torch.compile(torch.func.grad_and_value(loss, argnums=tuple(wrt)), fullgraph=True, mode=mode)

            def call():
                gradients, value = compiled(*arguments)
                return value, gradients

            try:
                call()
                return call
            except Exception:
                if k + 1 == len(losses):
                    raise

    return make


AUTOTUNED = "max-autotune-no-cudagraphs"
GRAPHS = "reduce-overhead"
