# SPDX-License-Identifier: MIT
"""Stubs of the package's own modules, whose names are partly made while they are imported: from what is there then."""

import ast
import inspect
import keyword
import types

import ebb
from ebb import _core
from ebb.compat import _functional, _methods, _numbers, _shapes, _spelling

ANY = "Any"


def parameters(function, is_method):
    """A signature in which everything may be anything."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return ("self, " if is_method else "") + "*args: Any, **kwargs: Any"
    parts, marked = [], False
    for k, p in enumerate(signature.parameters.values()):
        if p.kind is p.VAR_POSITIONAL:
            parts.append(f"*{p.name}: {ANY}")
            marked = True
            continue
        if p.kind is p.VAR_KEYWORD:
            parts.append(f"**{p.name}: {ANY}")
            continue
        if p.kind is p.KEYWORD_ONLY and not marked:
            parts.append("*")
            marked = True
        if is_method and k == 0:
            parts.append(p.name)
            continue
        default = "" if p.default is p.empty else " = ..."
        parts.append(f"{p.name}: {ANY}{default}")
        if p.kind is p.POSITIONAL_ONLY:
            following = list(signature.parameters.values())[k + 1 :]
            if not following or following[0].kind is not p.POSITIONAL_ONLY:
                parts.append("/")
    return ", ".join(parts)


def doc(thing, indent):
    text = inspect.getdoc(thing) if getattr(thing, "__doc__", None) else None
    return f"{indent}{text!r}\n" if text else ""


def function_stub(name, function, indent="", is_method=False, result=ANY):
    return (
        f"{indent}def {name}({parameters(function, is_method)}) -> {result}:\n{doc(function, indent + '    ')}{indent}    ...\n"
    )


def shown_bases(cls):
    """The nearest bases that have stubs of their own; what is private is part of the class."""
    found, members = [], dict(vars(cls))
    for base in cls.__bases__:
        if base.__module__.split(".")[0] != "ebb":
            continue
        if base.__name__.startswith("_") or base.__name__ == cls.__name__ or base.__module__.startswith("ebb._core"):
            more, inherited = shown_bases(base)
            found += more
            members = {**inherited, **members}
        else:
            found.append(base.__name__)
    return found, members


PROTOCOLS = {"__call__": ANY, "__iter__": ANY, "__next__": ANY, "__len__": "int", "__getitem__": ANY}


def class_stub(name, cls):
    bases, members = shown_bases(cls)
    kind = next((k.__name__ for k in (int, list, dict) if issubclass(cls, k)), None)
    bases += {"int": ["int"], "list": ["list[Any]"], "dict": ["dict[Any, Any]"]}.get(kind, [])
    lines = [f"class {name}({', '.join(bases)}):\n" if bases else f"class {name}:\n", doc(cls, "    ")]
    for member, value in members.items():
        if member in PROTOCOLS and callable(value) and kind is None:
            arguments = "self, *args: Any, **kwargs: Any" if member in ("__call__", "__getitem__") else "self"
            lines.append(f"    def {member}({arguments}) -> {PROTOCOLS[member]}: ...\n")
        elif isinstance(value, types.FunctionType) and (not member.startswith("_") or member == "__init__"):
            result = "None" if member == "__init__" else ANY
            lines.append(function_stub(member, value, "    ", True, result))
        elif isinstance(value, property):
            lines.append(f"    @property\n    def {member}(self) -> {ANY}: ...\n")
    lines.append(f"    def __getattr__(self, name: str) -> {ANY}: ...\n")
    return "".join(lines)


def in_order(classes):
    """(name, class), bases before what is derived from them."""
    return sorted(classes, key=lambda item: len(item[1].__mro__))


def module_stub(module, compiled=()):
    """The public names of a module; compiled are modules that have stubs of their own."""
    head = ["from typing import Any\n\n"]
    classes, rest = [], []
    for name, value in vars(module).items():
        if name.startswith("_") or keyword.iskeyword(name) or isinstance(value, types.ModuleType):
            continue
        holder = next((c for c in compiled if hasattr(c, name) and getattr(c, name) is value), None)
        if holder is not None:
            head.append(f"from {holder.__name__} import {name} as {name}\n")
        elif isinstance(value, type) and value.__module__.split(".")[0] == "ebb" and name == value.__name__:
            classes.append((name, value))
        elif isinstance(value, type) and value.__module__.split(".")[0] == "ebb":
            rest.append(f"{name} = {value.__name__}\n")
        elif isinstance(value, types.FunctionType):
            rest.append(function_stub(name, value))
        else:
            rest.append(f"{name}: {ANY}\n")
    return "".join(head) + "\n" + "\n".join(class_stub(*c) for c in in_order(classes)) + "\n" + "".join(rest)


def package_stub():
    """ebb/__init__.pyi: every public name and where it is from."""
    lines = []
    sources = [("_core", _core), ("losses", ebb.losses), ("compat._shapes", _shapes)]
    sources += [("compat._numbers", _numbers), ("compat._functional", _functional)]
    sources += [("_transforms", ebb._transforms), ("_compile", ebb._compile), ("_memory", ebb._memory), ("_precision", ebb._precision)]
    dtypes = ["from ._core import DType as _DType\n\n__version__: str\n"]
    for name, value in sorted(vars(ebb).items()):
        if name.startswith("_"):
            continue
        if isinstance(value, types.ModuleType):
            lines.append(f"from . import {name} as {name}\n")
            continue
        if name in _methods.DTYPES and isinstance(value, _core.DType):
            dtypes.append(f"{name}: _DType\n")
            continue
        inner = getattr(value, "__wrapped__", value)
        alias = _spelling.ALIASES.get(name)
        source = next(
            (s for s, module in sources if getattr(module, name, None) in (inner, value) and hasattr(module, name)),
            "_core" if alias else None,
        )
        if source is None:
            raise SystemExit(f"stubs: it is not known where ebb.{name} comes from")
        lines.append(f"from .{source} import {name} as {name}\n")
    return "".join(lines) + "\n" + "".join(dtypes)


def tensor_methods(known):
    """Definitions of the methods of Tensor that Python adds to the compiled ones."""
    lines = ["class Tensor:\n"]
    for name, value in vars(_core.Tensor).items():
        if name in known or name.startswith("_") or not isinstance(value, types.FunctionType):
            continue
        lines.append(function_stub(name, value, "    ", True))
    return ast.parse("".join(lines)).body[0].body
