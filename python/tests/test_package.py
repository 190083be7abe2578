# SPDX-License-Identifier: MIT
"""What is shipped beside the code: stubs and a version."""

import ast
import re
from collections import namedtuple
from pathlib import Path

import pytest

import ebb
from ebb import _core

FOLDER = Path(ebb.__file__).parent


def defined(stub):
    """Names that a stub defines at its top."""
    names = set()
    for node in ast.parse((FOLDER / stub).read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            names.add(node.target.id)
    return names


def test_every_function_has_a_stub():
    names = {name for name, value in vars(_core).items() if callable(value) and not name.startswith("_")}
    assert len(names) > 300 and names <= defined("_core/__init__.pyi")
    for part in ("_nn", "_optim", "_data", "_io", "_init"):
        public = {
            name for name, value in vars(getattr(_core, part)).items() if callable(value) and not name.startswith("_")
        }
        assert public and public <= defined(f"_core/{part}.pyi")


def arguments(body, name):
    """The arguments of every overload of a function in a stub."""
    found = [node for node in body if isinstance(node, ast.FunctionDef) and node.name == name]
    return [{a.arg for a in (*f.args.args, *f.args.kwonlyargs)} for f in found]


def test_stubs_know_torchs_keywords():
    tree = ast.parse((FOLDER / "_core/__init__.pyi").read_text(encoding="utf-8"))
    methods = next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Tensor")
    for body in (tree.body, methods):
        assert any("axis" in names for names in arguments(body, "sum"))
        assert any({"dim", "dtype"} <= names for names in arguments(body, "sum"))
        assert any("dims" in names for names in arguments(body, "flip"))
        assert any({"dim", "index", "src"} <= names for names in arguments(body, "scatter_add"))
    assert any({"query", "attn_mask", "enable_gqa"} <= names for names in arguments(tree.body, "scaled_dot_product_attention"))
    aliases = {node.targets[0].id for node in tree.body if isinstance(node, ast.Assign)}
    assert {"clip", "concat", "amax"} <= aliases


def test_every_loss_has_a_stub():
    losses = {entry["name"] for entry in ebb.losses.registry}
    assert losses <= defined("losses.pyi") and losses <= defined("torch/__init__.pyi")
    assert {name + "_backward" for name in losses} <= defined("losses.pyi")
    optimisers = {type(ebb.optim.make_optimizer(e["name"])).__name__ for e in ebb.optim.optimizer_registry}
    assert optimisers and optimisers <= defined("_optimizers.pyi")
    assert (FOLDER / "py.typed").exists()


def test_the_version_is_the_librarys():
    root = Path(__file__).resolve().parents[2]
    assert f"project(ebb VERSION {ebb.__version__} " in (root / "CMakeLists.txt").read_text(encoding="utf-8")
    assert f"\nversion: {ebb.__version__}\n" in (root / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\n## {ebb.__version__}\n" in (root / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "version, free_threaded, tag",
    [
        ((3, 10), False, "cp310-cp310"),
        ((3, 11), False, "cp311-cp311"),
        ((3, 12), False, "cp312-abi3"),
        ((3, 13), False, "cp312-abi3"),
        ((3, 14), False, "cp312-abi3"),
        ((3, 13), True, "cp313-cp313t"),
        ((3, 14), True, "cp314-cp314t"),
    ],
)
def test_one_wheel_for_3_12_and_later_and_one_each_for_the_rest(monkeypatch, version, free_threaded, tag):
    wheel_tag = pytest.importorskip("scikit_build_core.builder.wheel_tag")
    tags = pytest.importorskip("packaging.tags")
    project = Path(__file__).resolve().parents[2] / "pyproject.toml"
    if not project.exists():
        pytest.skip("the sources are not here")
    (py_api,) = re.findall(r'^wheel\.py-api = "(\w+)"', project.read_text(encoding="utf-8"), re.M)
    name = "cp%d%d" % version
    best = tags.Tag(name, name + "t" * free_threaded, "linux_x86_64")
    monkeypatch.setattr(wheel_tag.packaging.tags, "sys_tags", lambda: iter([best]))
    monkeypatch.setattr(wheel_tag, "is_free_threaded", lambda: free_threaded)
    monkeypatch.setattr(wheel_tag.sys, "version_info", namedtuple("Version", "major minor")(*version))
    found = wheel_tag.WheelTag.compute_best([], py_api)
    monkeypatch.undo()
    assert f"{'.'.join(found.pyvers)}-{'.'.join(found.abis)}" == tag
