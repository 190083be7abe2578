"""What is shipped beside the code: stubs and a version."""

import ast
from pathlib import Path

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


def test_every_loss_has_a_stub():
    losses = {entry["name"] for entry in ebb.losses.registry}
    assert losses <= defined("losses.pyi") and losses <= defined("torch.pyi")
    assert {name + "_backward" for name in losses} <= defined("losses.pyi")
    optimisers = {type(ebb.optim.make_optimizer(e["name"])).__name__ for e in ebb.optim.optimizer_registry}
    assert optimisers and optimisers <= defined("_optimizers.pyi")
    assert (FOLDER / "py.typed").exists()


def test_the_version_is_the_librarys():
    root = Path(__file__).resolve().parents[2]
    assert f"project(ebb VERSION {ebb.__version__} " in (root / "CMakeLists.txt").read_text(encoding="utf-8")
