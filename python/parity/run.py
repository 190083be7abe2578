#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""make parity: finds a Python with PyTorch and a package of Ebb for it, then runs beside_torch.py, keywords.py, compare.py, samples.py,
refusals.py, huggingface.py, decoders.py, matrix.py, the tests beside it (test_*.py), the examples that need PyTorch and, where
there is a GPU, torch_cuda.py.

EBB_BENCH_PYTHON names a Python that has PyTorch (else .venv-bench is made, as for make bench), EBB_PYTHON_PACKAGE a folder with
the package ebb built for it (else the build tree's, or one that pip builds from this repository).
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import setting  # noqa: E402


def works(python, folder):
    environment = dict(os.environ, PYTHONPATH=str(folder))
    return subprocess.run([python, "-c", "import ebb"], env=environment, capture_output=True).returncode == 0


def package_for(python):
    given = os.environ.get("EBB_PYTHON_PACKAGE")
    if given:
        return Path(given)
    built, own = ROOT / "build" / "release" / "python" / "package", ROOT / "build" / "parity"
    for folder in (built, own):
        if works(python, folder):
            return folder
    print("Building the package for the Python that has PyTorch", flush=True)
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(own), str(ROOT)], check=True
    )
    return own


# The models that ebb.torch.patch is tried on, and what PyTorch's own tests import.
NEEDED = ("transformers", "accelerate", "peft", "trl", "pytest", "expecttest", "hypothesis")


def require_packages(python):
    """Installed where the environment is one that make made."""
    if subprocess.run([python, "-c", "import " + ", ".join(NEEDED)], capture_output=True).returncode == 0:
        return
    if os.environ.get("EBB_BENCH_PYTHON"):
        sys.exit(f"make parity needs {', '.join(NEEDED)}: {python} -m pip install {' '.join(NEEDED)}")
    subprocess.run([python, "-m", "pip", "install", "--quiet", *NEEDED], check=True)


def main():
    python = setting.peers_python()
    environment = dict(os.environ, PYTHONPATH=str(package_for(python)))
    codes = []
    require_packages(python)
    programs = [
        Path(__file__).with_name("beside_torch.py"),
        Path(__file__).with_name("keywords.py"),
        Path(__file__).with_name("compare.py"),
        Path(__file__).with_name("samples.py"),
        Path(__file__).with_name("refusals.py"),
        Path(__file__).with_name("huggingface.py"),
        Path(__file__).with_name("decoders.py"),
        Path(__file__).with_name("matrix.py"),
        *sorted(Path(__file__).parent.glob("test_*.py")),
        ROOT / "examples" / "python" / "torch_loss.py",
        ROOT / "examples" / "python" / "generate_and_score.py",
    ]
    if subprocess.run([python, "-c", "import torch; exit(not torch.cuda.is_available())"]).returncode == 0:
        programs.append(Path(__file__).with_name("torch_cuda.py"))
    for program in programs:
        print(f"\n==== {program.relative_to(ROOT)}", flush=True)
        codes.append(subprocess.run([python, str(program)], env=environment).returncode)
    return max(codes)


sys.exit(main())
