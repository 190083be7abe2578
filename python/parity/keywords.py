#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""keywords.py: every function and method that PyTorch has under the same name takes PyTorch's parameters, by their names and in
their order. Nothing is computed: signatures are compared, which finds what no example call happens to use.

PyTorch's are its operator schemas (of compiled functions, each overload) and its Python signatures. What differs on purpose is
in DIFFERENT with the reason, which docs/from_pytorch.md repeats for users; a line that nothing needs any more is a failure, too.
"""

import inspect
import sys
from fnmatch import fnmatch

import torch
import torch.nn.functional as F

import ebb
from ebb.compat._spelling import MAKERS

IGNORED_TYPES = ("Dimname", "Generator", "MemoryFormat", "Layout", "Stream")  # parts of PyTorch that Ebb has no counterpart of

# Patterns of "where name(parameter)" and "where name: order ...": the reason.
DIFFERENT = {
    "*(out_dtype)": "the product of halves in f32 is the product of their casts, which is fused",
    "torch *_norm(cudnn_enable*)": "torch.nn.functional has these functions for users; cuDNN is chosen by what is faster",
    "torch *_norm: order *": "torch.nn.functional's order, which is what users write",
    "torch binary_cross_entropy_with_logits: order *": "torch.nn.functional's order",
    "torch embedding*": "torch.nn.functional's order and names; both orders of weight and indices work",
    "*functional embedding: order *": "both orders of weight and indices work",
    "*functional embedding(*)": "a tensor is a value: max_norm and norm_type would change the weight; sparse is accepted, "
    "scale_grad_by_freq is an error that says so",
    "*linear_cross_entropy(*)": "both names are accepted; options choose the size of chunks there, chunk= here",
    "torch compile(*)": "ebb.compile is another function: it records one graph for a program",
    "torch result_type(*)": "it takes any number of operands, by position",
    "*sort(reverse)": "of TorchScript's lists",
    "torch.Tensor eq(a)": "of TorchScript's lists",
    "torch.Tensor ne(a)": "of TorchScript's lists",
    "* qr(some)": "deprecated there; linalg.qr(A, mode=)",
    "* svd(*)": "deprecated there; linalg.svd(A, full_matrices=)",
    "torch triangular_solve(*)": "deprecated there; linalg.solve_triangular",
    "*_with_indices(return_indices)": "it always returns them",
    "torch.Tensor backward(*)": "gradients are a value: ebb.backward(loss), ebb.vjp",
    "torch.Tensor expand(implicit)": "PyTorch's own use",
    "torch.Tensor to*": "x.to(device, dtype), x.to(dtype), x.to(other) and x.to(device=, dtype=) all work, told apart by type",
    "torch.Tensor view(dtype)": "bits are not read as another dtype; x.cast(dtype) converts numbers",
}


def schemas(name):
    """(names, keyword-only names) of each overload of a compiled function."""
    for schema in torch._C._jit_get_schemas_for_operator(f"aten::{name}"):
        arguments = [a for a in schema.arguments if not a.is_out]
        if schema.arguments and any(a.is_out for a in schema.arguments):
            continue
        if any(kind in str(a.type) for a in arguments for kind in IGNORED_TYPES[:1]) or "complex" in str(schema):
            continue
        if not any("Tensor" in str(a.type) for a in arguments) and name not in MAKERS:
            continue  # of TorchScript's numbers, lists and words
        kept = [a for a in arguments if not any(kind in str(a.type) for kind in IGNORED_TYPES)]
        yield [a.name for a in kept if not a.kwarg_only], [a.name for a in kept if a.kwarg_only]


def python_signature(function):
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        return []
    return [([p.name for p in parameters if p.kind != p.KEYWORD_ONLY], [p.name for p in parameters if p.kind == p.KEYWORD_ONLY])]


def theirs(holder, name):
    function = getattr(holder, name)
    if inspect.isfunction(function):
        return python_signature(function)
    if holder is torch.linalg:
        return list(schemas(f"linalg_{name}"))
    return list(schemas(name))


def ours(function):
    """What a caller may write: what it is called here; None for what takes anything, or cannot be read."""
    keywords = getattr(function, "keywords", None)
    if keywords is None:
        plain = getattr(function, "__wrapped__", function)
        try:
            parameters = inspect.signature(plain).parameters.values()
        except (TypeError, ValueError):
            return None
        # What passes keywords on is called in signatures.py.
        return None if any(p.kind == p.VAR_KEYWORD for p in parameters) else {p.name: p.name for p in parameters}
    found = dict(keywords)
    inner = inspect.unwrap(function)
    for layer in (function, inner):
        try:
            for p in inspect.signature(layer, follow_wrapped=False).parameters.values():
                if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
                    found.setdefault(p.name, p.name)
        except (TypeError, ValueError):
            pass
    return found


def differences():
    for where, there, here in (
        ("torch", torch, ebb),
        ("torch.nn.functional", F, ebb.nn.functional),
        ("torch.linalg", torch.linalg, ebb.linalg),
        ("torch.Tensor", torch.Tensor, ebb.Tensor),
    ):
        for name in sorted(set(dir(there)) & set(dir(here))):
            function = getattr(here, name)
            if name.startswith("_") or not callable(getattr(there, name)) or not callable(function) or inspect.isclass(function):
                continue
            keywords = ours(function)
            if keywords is None:
                continue
            method = there is torch.Tensor
            for positional, keyword_only in theirs(there, name):
                positional = [p for p in positional if p != "self"] if method else positional
                named = ["input" if p == "self" and not method else p for p in positional]
                for p in (*named, *keyword_only):
                    if p not in keywords:
                        yield f"{where} {name}({p})"
                order = [keywords[p] for p in named if keywords.get(p)]
                own = [p for p in dict.fromkeys(keywords.values()) if p in order]
                if order != own and sorted(order) == sorted(own):
                    yield f"{where} {name}: order {', '.join(order)}"


def main():
    found = list(dict.fromkeys(differences()))
    used, unexplained = set(), []
    for line in found:
        reason = next((pattern for pattern in DIFFERENT if fnmatch(line, pattern)), None)
        if reason:
            used.add(reason)
        else:
            unexplained.append(line)
    for line in unexplained:
        print("differs:", line)
    for pattern in DIFFERENT.keys() - used:
        print("no difference any more:", pattern)
    print(f"{len(found)} parameters differ from PyTorch {torch.__version__}'s, {len(unexplained)} of them without a reason.")
    return bool(unexplained or DIFFERENT.keys() - used)


if __name__ == "__main__":
    sys.exit(main())
