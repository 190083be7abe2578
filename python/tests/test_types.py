# SPDX-License-Identifier: MIT
"""mypy reads the package's types as those of an installed one: a program with types passes, wrong types do not."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy", reason="there is no mypy")

import ebb

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The package alone, without whatever lies beside it, and mypy's cache."""
    made = tmp_path_factory.mktemp("types")
    (made / "ebb").symlink_to(Path(ebb.__file__).parent)
    (made / "strict.ini").write_text("[mypy]\nstrict = True\n[mypy-ebb.*]\nignore_errors = True\n")  # as if installed
    return made


def mypy(*arguments, folder):
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(folder / "cache"), *arguments],
        env={**os.environ, "MYPYPATH": str(folder)},
        capture_output=True,
        text=True,
    )


def test_a_typed_program_passes_strictly_and_a_wrong_one_does_not(tmp_path, folder):
    runpy.run_path(str(HERE / "typed_program.py"), run_name="__main__")
    options = ["--config-file", str(folder / "strict.ini")]
    good = mypy(*options, str(HERE / "typed_program.py"), folder=folder)
    assert good.returncode == 0, good.stdout + good.stderr
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "import ebb\n"
        "ebb.optim.AdamW(learning_rate=1e-3)\n"
        "ebb.softmax(3, dim='last')\n"
        "ebb.zeros(2).sum(dimension=0)\n"
        "ebb.mse_loss(ebb.zeros(2))\n"
        "ebb.nn.Liner(2, 3)\n"
        "ebb.no_such_function()\n"
    )
    bad = mypy(*options, str(wrong), folder=folder)
    for line in range(2, 8):
        assert f"wrong.py:{line}: error" in bad.stdout, bad.stdout


def test_the_stubs_themselves_have_no_errors(folder):
    stubs = sorted(str(path) for path in (folder / "ebb").rglob("*.pyi") if path.parent.name != "torch")
    result = mypy(*stubs, folder=folder)
    assert len(stubs) > 8 and result.returncode == 0, result.stdout + result.stderr
