"""mypy reads the package's types as those of an installed one: a program with types passes, wrong types do not."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import ebb

HERE = Path(__file__).parent
PACKAGE = Path(ebb.__file__).parents[1]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("mypy")


def mypy(*arguments, cache):
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(cache), *arguments],
        env={**os.environ, "MYPYPATH": str(PACKAGE)},
        capture_output=True,
        text=True,
    )


def test_a_typed_program_passes_strictly_and_a_wrong_one_does_not(tmp_path, cache):
    runpy.run_path(str(HERE / "typed_program.py"), run_name="__main__")
    options = ["--strict", "--follow-imports=silent"]
    good = mypy(*options, str(HERE / "typed_program.py"), cache=cache)
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
    bad = mypy(*options, str(wrong), cache=cache)
    for line in range(2, 8):
        assert f"wrong.py:{line}: error" in bad.stdout, bad.stdout


def test_the_stubs_themselves_have_no_errors(cache):
    stubs = sorted(str(path) for path in PACKAGE.joinpath("ebb").rglob("*.pyi") if path.name != "torch.pyi")
    result = mypy(*stubs, cache=cache)
    assert len(stubs) > 8 and result.returncode == 0, result.stdout + result.stderr
