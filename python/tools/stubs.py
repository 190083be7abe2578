# SPDX-License-Identifier: MIT
"""Writes type stubs into a package folder: of the compiled module by nanobind, of the losses from the registry.

stubs.py PACKAGE_FOLDER        the folder that contains ebb
"""

import ast
import copy
import inspect
import re
import sys
from pathlib import Path

folder = Path(sys.argv[1]).resolve()
sys.path.insert(0, str(folder))

from nanobind import stubgen  # noqa: E402

import ebb  # noqa: E402
from ebb.compat import _functional, _methods, _numbers, _shapes, _spelling  # noqa: E402

import package_stubs  # noqa: E402

HEAD = {
    "losses": (
        "from collections.abc import Sequence\nfrom typing import Any, NamedTuple, Protocol\n\nfrom ._core import Tensor\n\n"
        "registry: list[dict[str, Any]]\n\ndef argument_name(option: str) -> str: ...\n"
    ),
    "_optimizers": (
        "from collections.abc import Callable, Mapping\nfrom typing import Any\n\nfrom ._core import Tensor\n"
        "from ._core._optim import Optimizer as _Optimizer\n\n"
        "class Optimizer(_Optimizer):\n"
        "    def step(self, model: Any, gradients: Any) -> None: ...\n"
        "    def print_step(self, model: Any, gradients: Any) -> str: ...\n\noptimizer_registry: list[dict[str, Any]]\n\n"
        "def optimizer_info(name: str) -> dict[str, Any]: ...\n"
        "def make_optimizer(name: str, options: Mapping[str, Any] | None = None, decays: Any = None) -> Optimizer: ...\n"
    ),
    "torch": (
        "from collections.abc import Callable, Sequence\nfrom typing import Any\n\nimport torch\n\nimport ebb\n\ndef from_torch(x: torch.Tensor) -> ebb.Tensor: ...\n"
        "def to_torch(x: ebb.Tensor) -> torch.Tensor: ...\n"
        "def patch(model: Any, *, head: Any = None) -> Any: ...\n"
        "def unpatch(model: Any) -> Any: ...\n"
        "def patch_trl() -> None: ...\n"
        "def unpatch_trl() -> None: ...\n"
        "def causal_lm_loss(logits: Any, labels: Any, vocab_size: int, num_items_in_batch: Any = None, "
        "ignore_index: int = -100, shift_labels: Any = None, **kwargs: Any) -> torch.Tensor: ...\n"
        "def kernel_mapping(*layers: str) -> dict[str, str]: ...\n"
        "def linear_loss(x: Any, head: Any, target: Any, formula: Callable[..., Any], *others: Any, shared: Sequence[Any] = (), "
        "of: str = 'log_probs', tensors: str = 'ebb', sides: int = 1, reduction: str = 'mean', bias: Any = None, "
        "temperature: float = 1.0, logit_scale: float = 1.0, softcap: float = 0.0, ignore_index: int = -100, "
        "chunk: int = 0) -> torch.Tensor: ...\n"
        "def linear_log_probs(x: Any, head: Any, target: Any, *, bias: Any = None, temperature: float = 1.0, "
        "logit_scale: float = 1.0, softcap: float = 0.0, ignore_index: int = -100, chunk: int = 0, "
        "outputs: str | Sequence[str] = 'log_probs') -> Any: ...\n"
    ),
}


def parameters(entry, tensor):
    """The arguments of a loss as a stub writes them: those by position, those by keyword."""
    required, order, named = ebb.losses._Text(0, entry).arranged()
    spelled = {name: f"{name}: {tensor}" for name in required}
    spelled |= {name: f"{name}: {tensor} | None = None" for name, _, optional in entry["inputs"] if optional}
    spelled |= {name: f"{name}: bool | None = None" for name in ("size_average", "reduce")}
    for name, default, _ in entry["options"]:
        argument = ebb.losses.argument_name(name)
        spelled[argument] = f"{argument}: {kind(default)} = {default!r}"
    for name in ebb.losses._NUMBERS.get(entry["name"], ()):
        spelled[name] = f"{name}: {tensor} | Sequence[int] | float"
    options = [spelled[name] for name in named]
    if entry["name"] == "triplet_margin_with_distance_loss":
        options.insert(0, "distance_function: Any = None")
    return [spelled[name] for name in required + order], options


def quoted(text, indent):
    return f'{indent}"""{text}"""\n'


def loss_stub(entry):
    inputs, options = parameters(entry, "Tensor")
    name = entry["name"]
    title = "".join(word.capitalize() for word in name.split("_"))
    call = ", ".join(inputs + (["*"] + options if options else []))
    wrt = ", ".join(inputs + ["*"] + options + ["wrt: str | Sequence[str] = ..."])
    fields = "".join(f"    {field}: Tensor | None\n" for field, *_ in entry["inputs"])
    doc = getattr(ebb.losses, name).__doc__.replace("\n", "\n        ")
    return (
        f"class {title}Gradients(NamedTuple):\n{fields}\n"
        f"class _{title}(Protocol):\n    info: dict[str, Any]\n    def __call__(self, {call}) -> Tensor:\n{quoted(doc, '        ')}"
        f"    def value_and_grad(self, {wrt}) -> tuple[Tensor, Any]: ...\n\n"
        f"{name}: _{title}\n\ndef {name}_backward(grad: Tensor, {call}) -> {title}Gradients: ...\n"
    )


def torch_stub(entry):
    inputs, options = parameters(entry, "torch.Tensor")
    doc = getattr(ebb.losses, entry["name"]).__doc__.replace("\n", "\n    ")
    call = ", ".join(inputs + (["*"] + options if options else []))
    return (
        f"def {entry['name']}({call}) -> torch.Tensor:\n{quoted(doc, '    ')}\n"
        f"class {ebb.losses.class_name(entry['name'])}(torch.nn.Module):\n"
        "    def __init__(self, *args: Any, **options: Any) -> None: ...\n"
    )


def optimizer_stub(entry):
    name = ebb._optimizers._classes[entry["name"]].__name__
    call = [f"{argument}: {kind(default)} = {default!r}" for argument, default, _ in ebb._optimizers.arguments(entry)]
    decays = "decays: str | Callable[[str, Tensor], bool] | None = None"
    doc = getattr(ebb.optim, name).__doc__.replace("\n", "\n    ")
    momentum = "    def set_momentum(self, momentum: float) -> None: ...\n\nSgd = SGD\n" if name == "SGD" else ""
    return (
        f"class {name}(Optimizer):\n{quoted(doc, '    ')}"
        f"    def __init__(self, {', '.join(call)}, *, {decays}) -> None: ...\n{momentum}"
    )


def kind(default):
    if isinstance(default, tuple):
        return f"tuple[{', '.join('float' for _ in default)}]"
    return "float" if type(default) is int else type(default).__name__


# ---- PyTorch's spelling of the compiled functions -------------------------------------------------------------------


# Several names for one parameter: the first found here is the one in PyTorch's documentation.
DOCUMENTED = (
    "dim input other start_dim end_dim dim0 dim1 dim2 min max num_classes num_groups padding_idx attn_mask dropout_p "
    "is_causal query key value split_size_or_sections fill_value steps n m size tensor vec2 mat1 mat2"
).split()
INSTEAD = {
    **dict.fromkeys(("flip", "permute", "roll"), {"axis": "dims", "axes": "dims"}),
    "baddbmm": {"a": "batch1", "b": "batch2"},
    **dict.fromkeys(("cdist", "pairwise_distance", "cosine_similarity"), {"a": "x1", "b": "x2"}),
    "where": {"mask": "condition"},
    "scaled_dot_product_attention": {"q": "query"},
}


def torch_names(name, own, is_method):
    """The name here: PyTorch's, for the parameters of a function that have another one there."""
    table = _spelling.renames(name, own, is_method)
    found = {table[theirs]: theirs for theirs in reversed(DOCUMENTED) if theirs in table}
    return {**found, **{ours: theirs for ours, theirs in INSTEAD.get(name, {}).items() if ours in own}}


def further_keywords(function, name, own):
    """Keywords that a function has besides: dtype= of sum, alpha= of add."""
    if name not in _spelling.SPECIAL:
        return []
    signature = inspect.signature(_spelling.SPECIAL[name](function))
    known = (*own, *_spelling.WITHOUT_EFFECT)
    return [p.name for p in signature.parameters.values() if p.default is not p.empty and p.name not in known]


def in_torchs_words(definition, function, is_method):
    """The definition with PyTorch's names of its parameters; None where they are the same."""
    name, own = definition.name, _spelling.parameters(function)
    table, more = torch_names(name, own, is_method), further_keywords(function, name, own)
    made = copy.deepcopy(definition)
    arguments = made.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    taken = {a.arg for a in every}
    renamed = False
    for argument in every:
        theirs = table.get(argument.arg)
        if theirs and theirs not in taken:
            argument.arg, renamed = theirs, True
    for keyword in more:
        if keyword not in {a.arg for a in every} and arguments.kwarg is None:
            arguments.kwonlyargs.append(ast.arg(keyword, ast.Name("Any")))
            arguments.kw_defaults.append(ast.Constant(...))
            renamed = True
    return made if renamed else None


def respell(body, holder, is_method):
    """The functions of a stub, each with a second overload where PyTorch's users write something else."""
    out = []
    for node in body:
        out.append(node)
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
            continue
        function = getattr(holder, node.name, None)
        if type(function).__name__ not in ("nb_func", "nb_method"):
            continue
        if any(isinstance(d, ast.Attribute) for d in node.decorator_list):
            continue  # a property's setter
        other = in_torchs_words(node, function, is_method)
        if other is None:
            continue
        for each in (node, other):
            if not any(isinstance(d, ast.Name) and d.id == "overload" for d in each.decorator_list):
                each.decorator_list.append(ast.Name("overload"))
        other.body = [ast.Expr(ast.Constant(...))]
        out.append(other)
    return out


SIZE = """
class _ElementCount(int):
    @overload
    def __call__(self) -> tuple[int, ...]: ...
    @overload
    def __call__(self, dim: int) -> int: ...
"""


def add_torch_names(path, added):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tree.body = respell(tree.body, ebb._core, False)
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == "Tensor":
            node.body = respell(node.body, ebb.Tensor, True)
            for part in node.body:
                if isinstance(part, ast.FunctionDef) and part.name == "shape":
                    part.returns = ast.parse("tuple[int, ...]", mode="eval").body
                elif isinstance(part, ast.FunctionDef) and part.name in ("item", "tolist", "numpy"):
                    part.returns = ast.Name("Any")  # a number, a list, an array
                elif isinstance(part, ast.FunctionDef) and part.name == "size":
                    part.returns = ast.Name("_ElementCount")
            node.body += [
                ast.parse(f"{alias} = {name}").body[0]
                for alias, name in _spelling.ALIASES.items()
                if hasattr(ebb.Tensor, name) and not hasattr(ebb.Tensor, alias)
            ]
            node.body += added
    aliases = "".join(f"{alias} = {name}\n" for alias, name in _spelling.ALIASES.items() if not hasattr(ebb._core, alias))
    head = "from typing import Any as Any, overload as overload\n"
    path.write_text(head + SIZE + ast.unparse(ast.fix_missing_locations(tree)) + "\n\n" + aliases, encoding="utf-8")


def own_names_alone(path):
    """A compiled module's stub without imports of what Python put on its classes, which nanobind takes for their names.

    Layers and optimisers have such attributes, so theirs may be anything.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tree.body = [
        node
        for node in tree.body
        if not (isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "ebb" and "_core" not in node.module)
    ]
    if path.name in ("_nn.pyi", "_optim.pyi"):
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and "__getattr__" not in {getattr(part, "name", "") for part in node.body}:
                node.body += ast.parse("def __getattr__(self, name: str) -> Any: ...").body
    text = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
    # A comparison of tensors is a tensor, which object's is not.
    text = re.sub(r"(def __(?:eq|ne)__\(self.*:)$", r"\1  # type: ignore[override]", text, flags=re.MULTILINE)
    if "DType" in text and "import DType" not in text and path.name != "__init__.pyi":  # a caster's name is a class
        text = "from ebb._core import DType as DType\n" + text
    path.write_text("from typing import Any as Any\n" + text, encoding="utf-8")


def main():
    package = package_stubs.package_stub()
    compiled = set(dir(ebb._core.Tensor)) & {
        name for name, value in vars(ebb._core.Tensor).items() if hasattr(value, "__wrapped__") or "nb_" in type(value).__name__
    }
    added = package_stubs.tensor_methods(compiled | set(_spelling.ALIASES))
    _methods.uninstall()  # stubs are of the compiled functions
    _spelling.uninstall()
    stubgen.main(["-q", "-P", "-r", "-m", "ebb._core", "-O", str(folder / "ebb")])
    add_torch_names(folder / "ebb" / "_core" / "__init__.pyi", added)
    core = (ebb._core, ebb._core._nn, ebb._core._optim, ebb._core._data, ebb._core._io)
    for module, compiled_modules in (
        (ebb.nn, core),
        (ebb.data, core),
        (ebb.optim, (*core, ebb._optimizers)),
        (_shapes, core),
        (_numbers, (*core, _shapes)),
        (_functional, core),
        (ebb._transforms, core),
        (ebb._compile, core),
        (ebb._memory, core),
        (ebb._precision, core),
        (ebb.linalg, core),
        (ebb.array_api, core),
        (ebb.nn.functional, (ebb._core, ebb.losses, _functional)),
    ):
        path = folder / (module.__name__.replace(".", "/") + ("/__init__.pyi" if module is ebb.nn else ".pyi"))
        path.write_text(package_stubs.module_stub(module, compiled_modules), encoding="utf-8")
    (folder / "ebb" / "__init__.pyi").write_text(package, encoding="utf-8")
    names = "".join(f"from .. import {name} as {name}\n" for name in sorted(ebb.compat.__all__))
    (folder / "ebb" / "compat" / "__init__.pyi").write_text(names, encoding="utf-8")
    for part in (folder / "ebb" / "_core").glob("*.pyi"):
        own_names_alone(part)
    for module, file, stub in (("losses", "losses.pyi", loss_stub), ("torch", "torch/__init__.pyi", torch_stub)):
        text = HEAD[module] + "\n" + "\n".join(stub(entry) for entry in ebb.losses.registry)
        (folder / "ebb" / file).write_text(text, encoding="utf-8")
    text = HEAD["_optimizers"] + "\n" + "\n".join(optimizer_stub(entry) for entry in ebb.optim.optimizer_registry)
    (folder / "ebb" / "_optimizers.pyi").write_text(text, encoding="utf-8")


main()
