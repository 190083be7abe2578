# SPDX-License-Identifier: MIT
"""The modules of the package import in one direction."""

import ast
from pathlib import Path

import ebb

FOLDER = Path(ebb.__file__).parent
# From the bottom up; modules of one line do not import each other, except where the line says so.
LEVELS = [
    {"_core"},
    {"__config__", "_assignment", "_elsewhere", "_formula", "_memory", "_pickle", "_precision",
     "_workers", "_einops", "_transforms"},
    {"cuda", "data", "gradcheck", "io", "losses"},
    {"_compile", "_optimizers", "linalg"},
    {"array_api"},
    {"_numpy", "compat._options"},
    {"compat._network_options"},
    {"compat._spelling"},
    {"compat._methods"},
    {"compat._shapes"},
    {"compat._numbers", "compat._functional"},
    {"compat"},
    {"nn._function_layers", "nn._attention", "nn._loss_layers"},
    {"nn._convolutions", "nn._further", "nn.functional"},
    {"nn"},
    {"optim", "models"},
    {"distributed"},
    {""},
    # ebb.torch, which takes PyTorch and is imported by nobody.
    {"torch._stream"},
    {"torch._exchange", "torch._deferred"},
    {"torch._functions", "torch._causal_calls"},
    {"torch._func", "torch._token_statistics"},
    {"torch._eager", "torch._parallel"},
    {"torch._compiled"},
    {"torch._log_probs"},
    {"torch._linear_loss", "torch._losses", "torch._deferred_log_probs", "torch._trl"},
    {"torch._loss_modules", "torch._deferred_logits", "torch._causal_lm_loss"},
    {"torch._sharded_heads"},
    {"torch._huggingface"},
    {"torch"},
    {"torch._hub_kernel.layers"},
    {"torch._hub_kernel"},
]


def names():
    for path in FOLDER.rglob("*.py"):
        parts = path.relative_to(FOLDER).with_suffix("").parts
        yield path, ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path, name, known):
    """Modules of the package that this one imports, anywhere in its text."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = [*package[: len(package) - node.level + 1], *((node.module or "").split("."))]
            whole = ".".join(part for part in base if part)
            for alias in node.names:
                inner = f"{whole}.{alias.name}" if whole else alias.name
                yield inner if inner in known else whole
        elif isinstance(node, ast.Import):
            ours = (alias.name for alias in node.names if alias.name.split(".")[0] == "ebb")
            yield from (name.removeprefix("ebb").removeprefix(".") for name in ours)


def test_imports_go_down():
    modules = dict((name, path) for path, name in names())
    known = set(modules) | {"_core"}
    level = {name: k for k, names in enumerate(LEVELS) for name in names}
    unplaced = known - set(level)
    assert not unplaced, "a new module gets a place in LEVELS"
    wrong = []
    for name, path in modules.items():
        for other in imported(path, name, known):
            other = "_core" if other.startswith("_core") else other
            if level[other] >= level[name]:
                wrong.append(f"{name or 'ebb'} imports {other}")
    assert not wrong
