# SPDX-License-Identifier: MIT
"""The Python reference as Markdown: every callable of the package with its signature and what it says."""

import ast
import inspect
import re
import types
from pathlib import Path

import ebb

MODULES = [
    ("ebb", ebb, "Tensors, operations, transforms."),
    ("ebb.losses", ebb.losses, "Losses, which are in `ebb`, too. Each has `value_and_grad` and a function `_backward`."),
    ("ebb.linalg", ebb.linalg, "Linear algebra."),
    ("ebb.nn", ebb.nn, "Layers and models."),
    ("ebb.nn.init", ebb.nn.init, "First values of weights."),
    ("ebb.optim", ebb.optim, "Optimisers, schedules, clipping."),
    ("ebb.data", ebb.data, "Readers of data sets, and the loader."),
    ("ebb.io", ebb.io, "Files of tensors."),
    ("ebb.gradcheck", ebb.gradcheck, "Gradients against finite differences."),
]
# The registry describes what these take; they have no signature of their own.
SIGNATURE = re.compile(r"^(?:\d+\. )?`*(\w+\(.*\) -> .*?)`*$")


def parts(name, value):
    """(signatures, text) of a callable: compiled functions keep their signatures in the docstring."""
    lines = (inspect.getdoc(value) or "").splitlines()
    if isinstance(value, type):  # a compiled class: its arguments are those of __init__
        made = (inspect.getdoc(value.__init__) or "").splitlines()
        lines += [m.group(0).replace("__init__(self, ", f"{name}(").replace(" -> None", f" -> {name}")
                  for line in made if (m := re.match(r"__init__\(self, .*\) -> None$", line))]
    signatures = [m.group(1) for line in lines if (m := SIGNATURE.match(line))]
    text = [line for line in lines if not SIGNATURE.match(line) and line != "Overloaded function."]
    if not signatures:
        try:
            signatures = [f"{name}{inspect.signature(value)}"]
        except (TypeError, ValueError):
            signatures = [f"{name}(...)"]
    # Values whose text has an address in it would make every site another one.
    signatures = [re.sub(r"ebb\._core\.|<([\w.]+) object at 0x[0-9a-f]+>", r"\1", s) for s in signatures]
    return list(dict.fromkeys(signatures)), "\n".join(text).strip()


def entry(name, value):
    return lines_of(name, *parts(name, value))


def lines_of(name, signatures, text):
    first, _, rest = text.partition("\n\n")
    lines = [f"### {name}", "", "```python", *signatures, "```", "", escaped(first)]
    if rest.strip():
        lines += ["", "```text", rest.strip("\n"), "```"]
    return lines + [""]


def torch_entries():
    """ebb.torch, from its stub and its sources: importing it takes PyTorch, which making the site does not need."""
    folder = Path(ebb.__file__).parent / "torch"
    said = {}
    for file in ("_exchange.py", "_losses.py", "_loss_modules.py", "_causal_lm_loss.py", "_huggingface.py", "_trl.py", "_log_probs.py", "_linear_loss.py"):
        for node in ast.walk(ast.parse((folder / file).read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and (text := ast.get_docstring(node)):
                said.setdefault(node.name, text)
    modules = []
    for node in ast.parse((folder / "__init__.pyi").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name not in said:
            modules.append(node.name)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            of = node if isinstance(node, ast.FunctionDef) else next(f for f in node.body if f.name == "__init__")
            arguments = re.sub(r"^self(, )?", "", ast.unparse(of.args))
            returns = ast.unparse(of.returns) if of is node else node.name
            text = ast.get_docstring(node) or said.get(node.name, "")
            yield lines_of(f"torch.{node.name}", [f"{node.name}({arguments}) -> {returns}"], text)
    yield ["### Losses as modules", "", "Each takes the options of its function, as in `torch.nn`: "
           + ", ".join(f"`{name}`" for name in modules) + ".", ""]


def escaped(text):
    return re.sub(r"([<>*_`|\[\]])", r"\\\1", text)


def page():
    lines = [
        "# Python reference",
        "",
        "Every function and class of the package. Functions of a tensor are methods, too: `ebb.exp(x)` is `x.exp()`.",
        "Functions named as in PyTorch also take PyTorch's keywords: see [from_pytorch.md](from_pytorch.md).",
        "",
    ]
    seen = set()
    for title, module, about in MODULES:
        lines += [f"## {title}", "", about, ""]
        for name, value in sorted(vars(module).items(), key=lambda item: item[0].lower()):
            hidden = name.startswith("_") or isinstance(value, types.ModuleType) or not callable(value)
            if hidden or (title != "ebb.losses" and id(value) in seen) or (title == "ebb" and hasattr(ebb.losses, name)):
                continue
            if getattr(value, "__module__", "ebb").split(".")[0] not in ("ebb", "builtins", "functools"):
                continue
            seen.add(id(value))
            lines += entry(name, value)
    lines += ["## ebb.torch", "", "Losses and language models of PyTorch programs; takes and returns torch tensors. See "
              "[python.md](python.md#losses-for-pytorch-programs).", ""]
    for found in torch_entries():
        lines += found
    return "\n".join(lines)
